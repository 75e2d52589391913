"""What a kernel says besides Python: the ids of its thread, shared memory, barriers, atomic updates.

In a kernel these are compiled. Called from Python they ask the thread that is run in Python, where one is
(`running`), as the debug mode does.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from functools import update_wrapper
from typing import Any, Protocol, TypeVar, overload

from ..ops.errors import KernelError

T = TypeVar("T")
Index = int | tuple[int, ...]


class Thread(Protocol):
    """A thread of a kernel that is run in Python."""

    def global_id(self, axis: int) -> int: ...
    def local_id(self, axis: int) -> int: ...
    def group_id(self, axis: int) -> int: ...
    def global_size(self, axis: int) -> int: ...
    def local_size(self, axis: int) -> int: ...
    def barrier(self) -> None: ...
    def shared(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """The shared array that is made at this place of the program: the same for all threads of a block."""

    def atomic(self, how: str, array: Any, index: Index, value: Any) -> Any:
        """Update an element by ``"add"``, ``"max"`` or ``"min"``; gives the old one."""


running: ContextVar[Thread | None] = ContextVar("running", default=None)


def _thread(name: str) -> Thread:
    thread = running.get()
    if thread is None:
        raise KernelError(f"[{name}] expected to be called in a kernel, given a call from Python")
    return thread


def get_global_id(axis: int = 0) -> int:
    """The index of this thread in the whole grid.

    Parameters
    ----------
    axis : int
        0, 1 or 2.

    Returns
    -------
    int
        int64 in a kernel.

    Raises
    ------
    KernelError
        Outside a kernel.
    """
    return _thread("get_global_id").global_id(axis)


def get_local_id(axis: int = 0) -> int:
    """The index of this thread in its block."""
    return _thread("get_local_id").local_id(axis)


def get_group_id(axis: int = 0) -> int:
    """The index of this thread's block."""
    return _thread("get_group_id").group_id(axis)


def get_global_size(axis: int = 0) -> int:
    """How many threads the grid has along an axis."""
    return _thread("get_global_size").global_size(axis)


def get_local_size(axis: int = 0) -> int:
    """How many threads a block has along an axis; the last block of the axis may have fewer at work."""
    return _thread("get_local_size").local_size(axis)


def barrier() -> None:
    """Wait until every thread of the block has come here."""
    _thread("barrier").barrier()


def register(value: T) -> T:
    """A local variable that begins with a value; it lives in a register, as every local variable does."""
    return value


def atomic_add(array: Any, index: Index, value: Any) -> Any:
    """Add to an element, undivided by other threads.

    Parameters
    ----------
    array : array of the kernel, or shared array
    index : int or tuple of int
        One for each axis.
    value : number
        Cast to the array's dtype.

    Returns
    -------
    number
        What the element was before.
    """
    return _thread("atomic_add").atomic("add", array, index, value)


def atomic_max(array: Any, index: Index, value: Any) -> Any:
    """Replace an element by the larger of it and a value, undivided; gives the old one (see `atomic_add`)."""
    return _thread("atomic_max").atomic("max", array, index, value)


def atomic_min(array: Any, index: Index, value: Any) -> Any:
    """Replace an element by the smaller of it and a value, undivided; gives the old one (see
    `atomic_add`)."""
    return _thread("atomic_min").atomic("min", array, index, value)


class SharedFunction:
    """A function whose arrays, made by `pyasc.empty` or `pyasc.zeros`, the threads of a block share."""

    def __init__(self, function: Callable[..., Any]) -> None:
        update_wrapper(self, function)
        self.function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        _thread("shared")
        return self.function(*args, **kwargs)


@overload
def shared(shape: Callable[..., Any], dtype: None = None) -> SharedFunction: ...
@overload
def shared(shape: Index, dtype: Any = None) -> Any: ...
def shared(shape: Any, dtype: Any = None) -> Any:
    """Memory that the threads of a block share.

    As a decorator it marks a function that kernels call: arrays that `pyasc.empty` or `pyasc.zeros` makes in
    it are shared, and it may return them. As a call in a kernel, ``pyasc.shared((16, 16), pyasc.float32)``,
    it makes one.

    Parameters
    ----------
    shape : function, int or tuple of int
        Lengths must be known when the kernel is compiled.
    dtype : dtype
        float32 where it is not given.

    Returns
    -------
    function or shared array
        Of a new array the contents are undefined.

    Raises
    ------
    KernelError
        For an array outside a kernel.
    """
    if callable(shape):
        return SharedFunction(shape)
    return _thread("shared").shared(tuple(shape) if isinstance(shape, tuple | list) else (shape,), dtype)
