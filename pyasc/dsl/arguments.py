"""The arguments of a kernel: what its code depends on of each, and where each one's elements lie."""

from __future__ import annotations

import types
from array import array as packed
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from ..backend import _runtime
from ..backend.structured import layout
from ..interop import on_npu
from ..ops import _graph, dtypes
from ..ops._graph import TensorBase
from ..ops.arguments import as_array
from ..ops.dtypes import DTYPES
from ..ops.errors import DtypeError
from ..ops.storage import contiguous_strides
from ..ops.traced import is_number
from .signature import ArgumentType, ArrayType, Constant, NumberType, ObjectType, Path, SequenceType

_CONSTANTS = (
    str,
    bytes,
    type(None),
    np.dtype,
    type,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.ModuleType,
)
# What lets others read its memory, in Python's way and in those of arrays.
_BUFFERS = (memoryview, bytearray, packed)
_PROTOCOLS = ("__dlpack__", "__array_interface__", "__array__")


def is_host_array(value: Any) -> bool:
    """Whether a value is an array of another library, whose memory can be shared."""
    if isinstance(value, np.ndarray):
        return True
    return not (isinstance(value, TensorBase | np.generic | type) or is_number(value)) and (
        isinstance(value, _BUFFERS) or any(hasattr(value, name) for name in _PROTOCOLS)
    )


def unboxed(value: Any) -> Any:
    """A number of NumPy or of a class of its own, such as an enumeration, as Python's, also in sequences."""
    if is_number(value):
        return value
    if isinstance(value, np.generic):
        number = float(value) if dtypes.is_float(value.dtype) else value.item()
        return number if is_number(number) else value
    if isinstance(value, int | float):
        return int(value) if isinstance(value, int) else float(value)
    if isinstance(value, tuple | list) and not all(map(is_number, value)):
        return tuple(map(unboxed, value))
    return value


BOXES = (np.generic, tuple, list, int, float)


def describe(value: Any, kernel: str, name: str) -> ArgumentType:
    """What a kernel's code depends on of an argument.

    Raises
    ------
    TypeError
        For what a kernel cannot take.
    """
    if isinstance(value, TensorBase):
        return ArrayType(value.dtype, layout(value.strides), value.shape == ())
    if is_number(value):
        return NumberType(value.__class__)
    if is_host_array(value):
        return describe(shared(value, kernel, name), kernel, name)
    if isinstance(value, tuple | list) and all(map(is_number, value)):
        return SequenceType(tuple(NumberType(item.__class__) for item in value))
    # What has a name of its own, such as another kernel, is called by the kernel, not read.
    if isinstance(value, _CONSTANTS) or (callable(value) and hasattr(value, "__name__")):
        return Constant(value)
    if isinstance(value, tuple) and isinstance(value, Hashable):
        return Constant(value, _classes(value))
    if not isinstance(value, np.generic) and (
        hasattr(value, "__dict__") or hasattr(type(value), "__slots__")
    ):
        return ObjectType()
    raise DtypeError(
        f"[{kernel}] expected a tensor, an array, a number, a sequence of numbers, a dtype or an object for "
        f"{name}, given {type(value).__name__}"
    )


def _classes(value: Any) -> Any:
    return tuple(map(_classes, value)) if isinstance(value, tuple) else type(value)


def describe_captured(value: Any, kernel: str, name: str) -> ArgumentType:
    """The same for what a kernel reads besides its arguments: arrays of other libraries are copied."""
    if not is_host_array(value):
        return describe(value, kernel, name)
    given = _with_known_elements(value, kernel, name)
    return ArrayType(given.dtype, layout(contiguous_strides(given.shape)), given.shape == ())


def captured_tensor(value: Any, kernel: str, name: str) -> Any:
    """A tensor that a kernel reads besides its arguments, where it is one.

    Another library's array is copied: the call may run after the array has changed.
    """
    if not is_host_array(value):
        return value
    copied = np.array(_with_known_elements(value, kernel, name), order="C")
    return _graph.tensor(_graph.leaf(_runtime.wrap(copied), copied.shape, copied.dtype))


def _with_known_elements(value: Any, kernel: str, name: str) -> Any:
    array = host_array(value)
    if array.dtype not in DTYPES.values():
        native = array.dtype.newbyteorder("=")
        order = "; astype gives them the byte order of this machine" if native in DTYPES.values() else ""
        raise DtypeError(
            f"[{kernel}] expected elements of a dtype of tensors for {name}, given {array.dtype}{order}"
        )
    return array


def shared(value: Any, kernel: str, name: str) -> Any:
    """A tensor on the memory of another library's array, for as long as a call takes.

    Raises
    ------
    TypeError
        For elements of a type that tensors do not have.
    """
    if on_npu(value):
        from ..interop.npu import shared as shared_there

        return shared_there(value, kernel)
    array = _with_known_elements(value, kernel, name)
    size = array.dtype.itemsize
    if any(s % size for s in array.strides) or not array.flags.aligned:
        array = np.array(array, order="C")
    if array.flags.c_contiguous:
        return _graph.tensor(_graph.leaf(_runtime.wrap(array), array.shape, array.dtype))
    # The stretch of memory between the array's first and last element.
    strides = tuple(s // size for s in array.strides)
    reach = [s * (n - 1) for s, n in zip(strides, array.shape, strict=True)]
    first = -sum(min(0, r) for r in reach)
    count = first + sum(max(0, r) for r in reach) + 1
    ends = tuple(slice(n - 1, n) if s < 0 else slice(0, 1) for s, n in zip(strides, array.shape, strict=True))
    flat = np.lib.stride_tricks.as_strided(array[ends], (count,), (size,))
    owner = _graph.tensor(_graph.leaf(_runtime.wrap(flat), (count,), array.dtype))
    return _graph.view(owner, array.shape, strides, first)


def host_array(value: Any) -> Any:
    """A NumPy array on the memory of another library's."""
    if hasattr(value, "detach"):
        from ..interop.torch import as_numpy

        return as_numpy(value)
    return value if isinstance(value, np.ndarray) else as_array(value)


def reader(function: Callable[..., Any], values: dict[str, Any]) -> Callable[[Path], Any]:
    """How values are read by path: of a call's parameters, and of the variables around the kernel."""

    def read(path: Path) -> Any:
        first, *rest = path
        value = values[str(first)] if first else _variable(function, rest.pop(0))
        for step in rest:
            value = value[step] if isinstance(step, int) else getattr(value, step)
        return unboxed(value)

    return read


def _variable(function: Callable[..., Any], name: str | int) -> Any:
    """A variable of the functions around a function, or of its module."""
    code = function.__code__
    if name in code.co_freevars:
        assert function.__closure__ is not None
        return function.__closure__[code.co_freevars.index(str(name))].cell_contents
    return function.__globals__[str(name)]


def is_same(value: Any, expected: Any) -> bool:
    """Whether code that was made for one value is right for another: 1 is not 1.0, 0.0 is not -0.0."""
    if type(value) is not type(expected):
        return False
    if isinstance(value, tuple | list):
        return len(value) == len(expected) and all(map(is_same, value, expected))
    if isinstance(value, float | np.floating):
        return bool(value == expected and np.signbit(value) == np.signbit(expected)) or bool(
            value != value and expected != expected
        )
    if is_host_array(value) or isinstance(value, TensorBase):
        return value is expected
    return bool(value == expected)
