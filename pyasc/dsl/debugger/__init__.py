"""Kernels thread by thread in Python: ``print``, breakpoints and assertions work, each access is checked."""

from __future__ import annotations

import functools
import itertools
import operator
import threading
from collections.abc import Callable, Iterator
from math import prod
from types import FunctionType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...config import config
from ...lazy import evaluate, handwritten
from ...ops._graph import TensorBase
from ...ops.arguments import broadcast_shapes
from ...ops.errors import KernelError, TracingError, format_line, user_line
from ...ops.host import from_array
from .. import language
from ..arguments import host_array, is_host_array, shared
from ..in_place import run_at_once
from ..kernel import BLOCKS, Kernel
from ..launch import Geometry, block_of, prepare
from ..lowering.operands import HELD, form, join
from ..signature import NumberType, ObjectType, SequenceType
from .numbers import Dtype, argument, content, element, operand_of, whole
from .values import Attributes, DebugArray, Names, PastEnd, Races, plain_dtype

Array = NDArray[Any]
Shape = tuple[int, ...]
Body = Callable[[], Any]


def run(kernel: Kernel, where: Geometry | None, values: tuple[Any, ...]) -> Any:
    """Run a kernel in Python.

    Kernels of tiles, which Python cannot run, are run by the meaning of their KernelIR, each index checked.

    Parameters
    ----------
    kernel : Kernel
    where : Geometry, optional
        What stands in the brackets of the launch.
    values : tuple
        The arguments, by position.

    Raises
    ------
    IndexOutOfBounds
        At the line in the kernel; the message names the array, the index and the thread. Arrays keep the
        values that they had before the call.
    KernelError
        For a race on shared memory, and a barrier that not all threads of a block come to.

    Notes
    -----
    What the kernel raises goes to the caller, with a note that names the thread.
    """
    if evaluate.tracing():
        raise TracingError(
            f"[{kernel.name}] expected no kernel in debug mode (debug=True) while a function is traced, "
            "given one, which needs the values of its arrays; call it outside of jit, cost and export"
        )
    memory = _Memory(kernel.name)
    if kernel.is_map:
        return _run_map(kernel, values, memory)
    tensors = tuple(shared(v, kernel.name, n) if is_host_array(v) else v for n, v in _named(kernel, values))
    names = Names(memory.array)
    block: Shape
    try:
        launcher = prepare(kernel, where, tensors)
    except KernelError:
        # What does not compile, as with a print in it, runs all the same.
        if where is None:
            raise
        names.function(_plain(kernel))
        grid, block = _asked(kernel, where, names.axes())
        may_end = True
    else:
        if launcher.lowered.style == "tiles":
            return _run_tiles(kernel, where, values)
        if not launcher.attrs:
            return None
        grid = handwritten.Arguments.of(launcher.attrs).grid
        block = launcher.lowered.kernel.block
        may_end = False
    arguments = [_argument(kernel, names, memory, name, value) for name, value in _named(kernel, values)]
    function = names.function(_plain(kernel))
    # Without a block to speak of, one thread after another.
    block = (block or (1,) * len(grid)) + (1,) * (len(grid) - len(block or grid))
    with np.errstate(all="ignore"):
        for group in itertools.product(*(range(-(-g // b)) for g, b in zip(grid, block, strict=True))):
            _Block(kernel.name, grid, block, group, may_end).run(
                lambda: function(*arguments), names.waits and prod(block) > 1
            )
    memory.write_back()
    return None


def _named(kernel: Kernel, values: tuple[Any, ...]) -> Iterator[tuple[str, Any]]:
    return zip(kernel.parameters, values, strict=True)


def _plain(kernel: Kernel) -> FunctionType:
    function = kernel.function
    assert isinstance(function, FunctionType)
    return function


def _asked(kernel: Kernel, where: Geometry, axes: int) -> tuple[Shape, Shape]:
    """Threads and block of a launch whose kernel does not compile, by the axes that its text names."""
    block = block_of(where, axes) or kernel.options.block_dim or BLOCKS[axes]
    blocks = where.threads[:1] if where.either and axes == 1 else where.threads
    given = bool(block_of(where, axes))
    axes = max(len(blocks), len(block))
    sizes, block = ((*n, *(1,) * axes)[:axes] for n in (blocks, block))
    return (tuple(t * b for t, b in zip(sizes, block, strict=True)) if given else sizes), block


def _argument(kernel: Kernel, names: Names, memory: _Memory, name: str, value: Any) -> Any:
    if isinstance(value, TensorBase):
        return memory.array(name, value)
    if is_host_array(value):
        return memory.host(name, value)
    if isinstance(value, np.dtype):
        return Dtype(value)
    kind = kernel.described(name, value)
    if isinstance(kind, ObjectType):
        return Attributes(value, names)
    if isinstance(kind, NumberType):
        return argument(value, kind.kind, kernel.name)
    if isinstance(kind, SequenceType):
        return tuple(argument(v, k.kind, kernel.name) for v, k in zip(value, kind.items, strict=True))
    return names.value(name, value)


class _Memory:
    """Copies of the arrays of a launch, written back when all threads are done."""

    def __init__(self, kernel: str) -> None:
        self.kernel = kernel
        self._owners: dict[int, tuple[Any, Array]] = {}
        self._arrays: dict[int, tuple[Any, DebugArray]] = {}
        self._hosts: list[tuple[Array, DebugArray]] = []

    def array(self, name: str, tensor: Any) -> DebugArray:
        """What stands for a tensor; views of one owner share its memory."""
        known = self._arrays.get(id(tensor))
        if known is not None:
            return known[1]
        owner = evaluate.owner(tensor)
        if id(owner) not in self._owners:
            self._owners[id(owner)] = (owner, owner.numpy().copy())
        values = self._owners[id(owner)][1]
        if owner is not tensor:
            size = tensor.dtype.itemsize
            values = np.lib.stride_tricks.as_strided(
                values.reshape(-1)[tensor.offset :] if tensor.size else values.reshape(-1)[:0],
                tensor.shape,
                tuple(s * size for s in tensor.strides),
            )
        made = DebugArray(self.kernel, name, values)
        self._arrays[id(tensor)] = (tensor, made)
        return made

    def host(self, name: str, value: Any) -> DebugArray:
        """What stands for another library's array."""
        own = host_array(value)
        made = DebugArray(self.kernel, name, own.copy(), writable=bool(own.flags.writeable))
        self._hosts.append((own, made))
        return made

    def write_back(self) -> None:
        """Give the arrays the values that the kernel wrote."""
        written = {id(evaluate.owner(t)) for t, made in self._arrays.values() if made.written}
        for number, (owner, values) in self._owners.items():
            if number in written:
                owner.node = from_array(values.reshape(owner.shape)).node
        for own, made in self._hosts:
            if made.written:
                own[...] = made.values


# --- threads -----------------------------------------------------------------------------------------------


class _Thread:
    """One thread of the grid: what `language` asks."""

    def __init__(self, block: _Block, local: Shape) -> None:
        self.block = block
        self.local = local
        self.ids = tuple(g * b + k for g, b, k in zip(block.group, block.size, local, strict=True))
        self.may_end = block.may_end
        self.turn = threading.Semaphore(0)
        self.waits_at: tuple[str, int, str] | None = None
        self.error: BaseException | None = None
        self.fault: KernelError | None = None  # to be raised where it waits
        self.done = False
        self.past = False  # done as it lies past the end: others do not miss it
        self._arrays = 0

    def __str__(self) -> str:
        return f"thread {self.ids[0] if len(self.ids) == 1 else self.ids}"

    def global_id(self, axis: int) -> Any:
        return whole(_along(self.ids, axis, 0))

    def local_id(self, axis: int) -> Any:
        return whole(_along(self.local, axis, 0))

    def group_id(self, axis: int) -> Any:
        return whole(_along(self.block.group, axis, 0))

    def global_size(self, axis: int) -> Any:
        return whole(_along(self.block.grid, axis, 1))

    def local_size(self, axis: int) -> Any:
        return whole(_along(self.block.size, axis, 1))

    def barrier(self) -> None:
        self.block.wait(self)

    def shared(self, shape: Shape, dtype: Any) -> DebugArray:
        return self.made("empty", shape, dtype)

    def made(self, how: str, shape: Any, dtype: Any = None) -> DebugArray:
        """The shared array of this place: threads of a block make theirs in the same order."""
        lengths = tuple(map(operator.index, shape if isinstance(shape, tuple | list) else (shape,)))
        arrays = self.block.arrays
        if self._arrays == len(arrays):
            made = np.full(lengths, how == "ones", plain_dtype(dtype))
            if how == "empty" and made.dtype.kind == "f":
                made[...] = np.nan  # what is read before it is written is seen
            arrays.append(DebugArray(self.block.kernel, f"shared{len(arrays)}", made, races=self.block.races))
        found, expected = arrays[self._arrays], plain_dtype(dtype)
        if found.values.shape != lengths or found.dtype != expected:
            raise KernelError(
                f"[{self.block.kernel}] expected all threads of a block to make the same shared arrays, "
                f"given {found.values.shape} of {found.dtype} and, in {self}, {lengths} of {expected.name}"
            )
        self._arrays += 1
        return found

    def atomic(self, how: str, array: DebugArray, index: Any, value: Any) -> Any:
        return array.update(how, index, value)


def _along(sizes: Shape, axis: int, otherwise: int) -> int:
    return sizes[axis] if axis < len(sizes) else otherwise


class _Block:
    """The threads of a block, run one after another up to each barrier."""

    def __init__(self, kernel: str, grid: Shape, size: Shape, group: Shape, may_end: bool) -> None:
        self.kernel = kernel
        self.grid = grid
        self.size = size
        self.group = group
        self.may_end = may_end
        self.arrays: list[DebugArray] = []
        self.races = Races()
        self._back = threading.Semaphore(0)
        self._abandoned = False
        self._parallel = False
        inside = (range(min(b, g - k * b)) for b, g, k in zip(size, grid, group, strict=True))
        # The first axis goes fastest, as threads are numbered.
        self.threads = [_Thread(self, local[::-1]) for local in itertools.product(*list(inside)[::-1])]

    def run(self, body: Body, waits: bool) -> None:
        """Run every thread, in threads of Python where they wait for each other."""
        self._parallel = waits
        if not waits:
            for thread in self.threads:
                self._work(thread, body)
                if thread.error is not None:
                    raise thread.error
            return
        workers = [
            threading.Thread(target=self._worker, args=(thread, body), name=str(thread), daemon=True)
            for thread in self.threads
        ]
        for worker in workers:
            worker.start()
        try:
            alive = self.threads
            while alive:
                for thread in alive:
                    thread.turn.release()
                    self._back.acquire()
                    if thread.error is not None:
                        raise thread.error
                failed = self._check_met(alive)
                if failed is not None:
                    failed.turn.release()
                    self._back.acquire()
                    assert failed.error is not None
                    raise failed.error
                self.races.clear()
                alive = [thread for thread in alive if not thread.done]
        finally:
            self._abandoned = True
            for thread in self.threads:
                thread.turn.release()
            for worker in workers:
                worker.join()

    def wait(self, thread: _Thread) -> None:
        """A barrier."""
        if len(self.threads) == 1:
            self.races.clear()
            return
        if self._abandoned:  # the thread caught what should have ended it
            raise PastEnd
        if not self._parallel:
            raise KernelError(
                f"[{self.kernel}] expected barriers in the kernel and the functions that it calls by name, "
                "given one behind an object or a module, which the debug mode sees too late; "
                "call the function by name"
            )
        thread.waits_at = user_line()
        self._back.release()
        thread.turn.acquire()
        if thread.fault is not None:
            raise thread.fault
        if self._abandoned:
            raise PastEnd

    def _worker(self, thread: _Thread, body: Body) -> None:
        thread.turn.acquire()
        if self._abandoned:
            return
        with np.errstate(all="ignore"):
            self._work(thread, body)
        self._back.release()

    def _work(self, thread: _Thread, body: Body) -> None:
        token = language.running.set(thread)
        try:
            body()
        except PastEnd:
            thread.past = True
        except BaseException as error:
            error.add_note(f"in {thread} of the kernel {self.kernel}")
            thread.error = error
        finally:
            thread.done = True
            language.running.reset(token)

    def _check_met(self, alive: list[_Thread]) -> _Thread | None:
        """The thread at a barrier to which only some came, which is to raise the error; or None."""
        waiting = [thread for thread in alive if not thread.done]
        if not waiting:
            return None
        first = waiting[0]
        ended = next((thread for thread in alive if thread.done and not thread.past), None)
        if ended is not None:
            other = f"{ended}, which ended without it"
        else:
            elsewhere = next((t for t in waiting if t.waits_at != first.waits_at), None)
            if elsewhere is None:
                return None
            assert elsewhere.waits_at is not None
            other = f"{elsewhere}, which waits {format_line(elsewhere.waits_at)}"
        first.fault = KernelError(
            f"[{self.kernel}] expected every thread of a block at the barrier to which {first} came, "
            f"given {other}",
            line=first.waits_at,
        )
        return first


# --- other kernels -----------------------------------------------------------------------------------------


def _run_map(kernel: Kernel, values: tuple[Any, ...], memory: _Memory) -> Any:
    """A kernel that returns a value, element by element."""
    dtype: np.dtype[Any] | None = None
    tensors = [_values(v) for v in values if isinstance(v, TensorBase) or is_host_array(v)]
    try:
        lowered, _, launch = kernel.lower(values, None)
    except KernelError:
        pass  # as above
    else:
        dtype = lowered.kernel.arrays[0].dtype
        tensors = [_values(launch.read(path)) for path in lowered.arrays[1:]]
    shape: Shape = ()
    for array in tensors:
        shape = broadcast_shapes(kernel.name, shape, array.shape)
    index: Shape = ()

    def read(name: str, tensor: Any) -> Any:
        return element(np.broadcast_to(_values(tensor), shape)[index])

    names = Names(read)
    function = names.function(_plain(kernel))
    arrays = [
        np.broadcast_to(_values(v), shape) if isinstance(v, TensorBase) or is_host_array(v) else None
        for v in values
    ]
    others = [
        None if array is not None else _argument(kernel, names, memory, name, value)
        for array, (name, value) in zip(arrays, _named(kernel, values), strict=True)
    ]
    made = []
    grid = (max(prod(shape), 1),)
    with np.errstate(all="ignore"):
        for number, index in enumerate(np.ndindex(shape)):
            given = [o if a is None else element(a[index]) for a, o in zip(arrays, others, strict=True)]
            results: list[Any] = []
            block = _Block(kernel.name, grid, (1,), (number,), False)
            block.run(lambda given=given, results=results: results.append(function(*given)), False)  # type: ignore[misc]
            made.append(results[0])
    if dtype is None:
        dtype = _dtype_of(made)
    array = np.empty(len(made), dtype)
    for k, value in enumerate(made):
        array[k] = content(value, dtype)
    return from_array(array.reshape(shape))


def _dtype_of(made: list[Any]) -> np.dtype[Any]:
    """The dtype of a map that does not compile: that of its values."""
    if not made:
        return plain_dtype(None)
    first, *rest = (form(operand_of(value)) for value in made)
    found = functools.reduce(join, rest, first)
    return HELD[found] if isinstance(found, type) else plain_dtype(found)


def _values(value: Any) -> Array:
    found: Array = np.asarray(value) if isinstance(value, TensorBase) else host_array(value)
    return found


def _run_tiles(kernel: Kernel, where: Geometry | None, values: tuple[Any, ...]) -> None:
    with config.override(interpret=True):
        if any(map(is_host_array, values)):
            run_at_once(kernel, where, values)
            return
        owners, nodes = prepare(kernel, where, values).record(values)
        for owner, node in zip(owners, nodes, strict=True):
            owner.node = node
        evaluate.sync(*owners)
