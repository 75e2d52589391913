"""What a kernel that is run in Python sees: arrays whose every access is checked, and the names around it.

Ids, sizes and elements are numbers with a dtype, which promote as in the compiled kernel (`numbers.Number`).
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Iterator
from functools import cache, partial
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...ops import dtypes
from ...ops._graph import TensorBase
from ...ops.errors import DtypeError, IndexOutOfBounds, KernelError, ReadOnlyError, format_line, recorded_line
from ...ops.meaning import COMBINE
from ...ops.traced import is_number
from .. import language
from ..arguments import unboxed
from ..kernel import BoundKernel, Kernel
from ..lowering import BUILTINS
from ..lowering.source import id_axes, read
from ..lowering.translation import of_table
from .numbers import PYTHON, Called, Dtype, Number, Operators, argument, content, element, operand_of, whole

Array = NDArray[Any]
Site = tuple[CodeType, int]


class PastEnd(BaseException):
    """Ends a thread whose id lies past the end of what it touches."""


def plain_dtype(dtype: Any) -> np.dtype[Any]:
    """NumPy's dtype for what a kernel calls one."""
    if dtype is None:
        return dtypes.default_float
    return dtypes.as_dtype(dtype.dtype if isinstance(dtype, Dtype) else dtype)


class DebugArray(Operators):
    """An array of a kernel: indices inside it, one for each axis, or one over all elements.

    Attributes
    ----------
    name, kernel : str
    values : array
        What the kernel reads and writes.
    writable, written : bool
    races : Races or None
        Of shared memory: who touched what since the last barrier.
    """

    def __init__(
        self, kernel: str, name: str, values: Array, writable: bool = True, races: Races | None = None
    ) -> None:
        self.kernel = kernel
        self.name = name
        self.values = values
        self.writable = writable
        self.written = False
        self.races = races

    @property
    def shape(self) -> tuple[Number, ...]:
        return tuple(map(whole, self.values.shape))

    @property
    def ndim(self) -> int:
        return self.values.ndim

    @property
    def size(self) -> Number:
        return whole(self.values.size)

    @property
    def _operand(self) -> Any:
        """An array without axes stands for its element."""
        if self.values.ndim:
            raise KernelError(
                f"[{self.kernel}] expected a number, given the array {self.name}; a kernel works on "
                f"elements: {self.name}[i]"
            )
        return operand_of(self[()])

    __hash__ = object.__hash__

    @property
    def dtype(self) -> Dtype:
        return Dtype(self.values.dtype)

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        return f"{self.name}: {self.values!r}"

    def __getitem__(self, index: Any) -> Any:
        at = self._at(index)
        if self.races is not None:
            self.races.read(self, at, _site())
        return self._get(at)

    def __setitem__(self, index: Any, value: Any) -> None:
        at = self._at(index)
        self._check_writable()
        if self.races is not None:
            self.races.write(self, at, _site())
        self._set(at, value)

    def update(self, how: str, index: Any, value: Any) -> Any:
        """An atomic update; gives the element before."""
        at = self._at(index)
        self._check_writable()
        if self.races is not None:
            self.races.update(self, at, _site())
        old = self._get(at)
        self._set(at, COMBINE[how](content(old), content(value, self.values.dtype)))
        return old

    def _get(self, at: tuple[int, ...]) -> Number:
        return element(self.values[at] if len(at) == self.values.ndim else self.values.flat[at[0]])

    def _set(self, at: tuple[int, ...], value: Any) -> None:
        value = content(value, self.values.dtype)
        if len(at) == self.values.ndim:
            self.values[at] = value
        else:
            self.values.flat[at[0]] = value
        self.written = True

    def _check_writable(self) -> None:
        if not self.writable:
            raise ReadOnlyError(
                f"[{self.kernel}] expected an array that may be written for {self.name}, "
                "given one that is read-only"
            )

    def _at(self, index: Any) -> tuple[int, ...]:
        items = index if isinstance(index, tuple) else (index,)
        shape = self.values.shape
        if len(items) == 1 and len(shape) > 1:
            shape = (self.values.size,)
        try:
            at = tuple(operator.index(item) for item in items)
        except TypeError:
            raise DtypeError(
                f"[{self.kernel}] expected whole numbers as indices of {self.name}, given {index!r}"
            ) from None
        if len(at) != len(shape):
            raise IndexOutOfBounds(
                f"[{self.kernel}] expected one index for each axis of {self.name}, of shape "
                f"{self.values.shape}, given {len(at)}"
            )
        # A number of the text counts from the end.
        literal = tuple(type(item) is int for item in items)
        at = tuple(i + n if i < 0 and t else i for i, n, t in zip(at, shape, literal, strict=True))
        for i, n in zip(at, shape, strict=True):
            if not 0 <= i < n:
                thread = language.running.get()
                if getattr(thread, "may_end", False) and i in getattr(thread, "ids", ()) and i >= n:
                    raise PastEnd
                asked = tuple(map(operator.index, items))
                shown = asked[0] if len(at) == 1 else asked
                raise IndexOutOfBounds(
                    f"[{self.kernel}] expected indices inside {self.name}, of shape {self.values.shape}, "
                    f"given {shown} in {thread}"
                )
        return at


class Races:
    """Who touched which element of a block's shared memory since the last barrier."""

    def __init__(self) -> None:
        self._reads: dict[Any, list[tuple[Any, Site]]] = {}
        self._writes: dict[Any, tuple[Any, Site]] = {}
        self._updates: dict[Any, tuple[Any, Site]] = {}

    def clear(self) -> None:
        """All threads have met."""
        self._reads.clear()
        self._writes.clear()
        self._updates.clear()

    def read(self, array: DebugArray, at: tuple[int, ...], site: Site) -> None:
        """Note a load."""
        key, me = (id(array), at), language.running.get()
        self._check(array, at, "reads", me, site, (self._writes.get(key), self._updates.get(key)))
        readers = self._reads.setdefault(key, [])
        # Two different readers are enough to find one that is not the writer.
        if len(readers) < 2 and all(thread is not me for thread, _ in readers):
            readers.append((me, site))

    def write(self, array: DebugArray, at: tuple[int, ...], site: Site) -> None:
        """Note a store."""
        key, me = (id(array), at), language.running.get()
        others = (self._writes.get(key), self._updates.get(key), *self._reads.get(key, ()))
        self._check(array, at, "writes", me, site, others)
        self._writes[key] = (me, site)

    def update(self, array: DebugArray, at: tuple[int, ...], site: Site) -> None:
        """Note an atomic update, which only other updates may meet."""
        key, me = (id(array), at), language.running.get()
        others = (self._writes.get(key), *self._reads.get(key, ()))
        self._check(array, at, "updates", me, site, others)
        self._updates[key] = (me, site)

    def _check(
        self, array: DebugArray, at: tuple[int, ...], does: str, me: Any, site: Site, others: Any
    ) -> None:
        for other in others:
            if other is not None and other[0] is not me:
                shown = at[0] if len(at) == 1 else at
                raise KernelError(
                    f"[{array.kernel}] expected a barrier between accesses of two threads to one element, "
                    f"given {me}, which {does} {array.name}[{shown}] that {other[0]} touches "
                    f"{format_line(_line(other[1]))}",
                    line=_line(site),
                )


def _site() -> Site:
    """Where in the user's kernel an array is touched."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "pyasc":
        frame = frame.f_back
    return frame.f_code, frame.f_lasti


def _line(site: Site) -> tuple[str, int, str]:
    return recorded_line(site)


class Names:
    """The names around a kernel, for a run in Python: of ``math`` and ``pyasc`` what works on numbers, of
    tensors their checked arrays, of the user's functions copies that see the same.

    Parameters
    ----------
    array : callable
        ``array(name, tensor)`` gives what stands for a tensor.
    """

    def __init__(self, array: Callable[[str, Any], Any]) -> None:
        self._array = array
        self._functions: dict[int, tuple[FunctionType, FunctionType]] = {}
        self.waits = False  # whether a barrier is mentioned

    def function(self, given: FunctionType) -> FunctionType:
        """A copy of a function whose names mean what they do in a kernel."""
        known = self._functions.get(id(given))
        if known is not None:
            return known[1]
        code = given.__code__
        cells = tuple(CellType() for _ in code.co_freevars)
        around = dict(given.__globals__)
        made = FunctionType(code, around, given.__name__, given.__defaults__, cells)
        made.__kwdefaults__ = given.__kwdefaults__
        made.__qualname__ = given.__qualname__
        self._functions[id(given)] = (given, made)
        for name in set(_mentioned(code)):
            self.waits = self.waits or name == "barrier"
            if name in around:
                around[name] = self.value(name, around[name])
            elif name == "len":
                around[name] = _length
            elif name in PYTHON:
                around[name] = PYTHON[name]
        for name, cell, old in zip(code.co_freevars, cells, given.__closure__ or (), strict=True):
            try:
                cell.cell_contents = self.value(name, old.cell_contents)
            except ValueError:
                continue  # not set yet, as it is in the original
        return made

    def axes(self) -> int:
        """How many axes of threads the functions met so far name, 1 at least."""
        axes = 1
        for given, _ in self._functions.values():
            try:
                axes = max(axes, id_axes(read(given).tree))
            except KernelError:
                continue  # without a text that can be read
        return axes

    def value(self, name: str, value: Any) -> Any:
        """What a variable of the user's means in a kernel."""
        if isinstance(value, ModuleType):
            known = value is math or value.__name__.partition(".")[0] == "pyasc"
            return _Module(value, self) if known else value
        if isinstance(value, TensorBase):
            return self._array(name, value)
        if isinstance(value, np.dtype):
            return Dtype(value)
        if isinstance(value, Kernel):
            return self.function(value.function)  # type: ignore[arg-type]
        if isinstance(value, BoundKernel):
            return partial(self.value(name, value.kernel), value.instance)
        if isinstance(value, language.SharedFunction):
            return self.function(value.function)  # type: ignore[arg-type]
        self.waits = self.waits or value is language.barrier
        if isinstance(value, np.generic):
            return element(value)
        if isinstance(value, tuple | list) and any(isinstance(v, np.generic) for v in value):
            return type(value)(self.value(name, v) for v in value)
        module = getattr(value, "__module__", None)
        if callable(value):
            if module == "math" and value.__name__ in _mathematics():
                return Called(value)
            found = of_table(value)
            if found is not None and found.__name__ in ("empty", "zeros", "ones"):
                return partial(_made, found.__name__)
            if found is not None or hasattr(value, "foreign"):
                return Called(value)
        if isinstance(value, FunctionType) and str(module).partition(".")[0] not in ("pyasc", "numpy"):
            return self.function(value)
        return value


def _length(x: Any) -> Any:
    """``len``: of arrays a number of a kernel."""
    return whole(len(x)) if isinstance(x, DebugArray) else len(x)


class _Module:
    """A module whose functions work on numbers."""

    def __init__(self, module: ModuleType, names: Names) -> None:
        self._module = module
        self._names = names

    def __getattr__(self, name: str) -> Any:
        return self._names.value(name, getattr(self._module, name))


class Attributes:
    """An object whose attributes a kernel reads, as its ``self``."""

    def __init__(self, instance: Any, names: Names) -> None:
        object.__setattr__(self, "_instance", instance)
        object.__setattr__(self, "_names", names)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._instance, name)
        plain = unboxed(value)
        if is_number(plain) and not isinstance(plain, bool):
            return argument(plain, type(plain), name)
        return self._names.value(name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        raise KernelError(
            f"[kernel] expected attributes to be read, given an assignment to {name}; return the value, or "
            "write to an array"
        )


def _mentioned(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _mentioned(constant)


@cache
def _mathematics() -> frozenset[str]:
    """The functions of ``math`` that kernels have."""
    return frozenset(name for name, f in vars(math).items() if callable(f) and f in BUILTINS)


def _made(entry_name: str, *args: Any, **kwargs: Any) -> Any:
    """`empty` and `zeros`, which make shared arrays in a kernel."""
    thread: Any = language.running.get()
    return thread.made(entry_name, *args, **kwargs)
