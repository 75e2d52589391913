"""What operations do with their arguments: tensors from array-likes, axes, shapes, integers.

Everything that can be checked when an operation is recorded is checked here, with errors at the user's line.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

import numpy as np

from . import _graph, dtypes, host
from .dtypes import Dtype
from .errors import ArgumentError, AxisError, DtypeError, OverflowingScalar, ShapeError
from .primitives import CAST, FULL
from .traced import NUMBERS, TracedNumber, is_number

Shape = tuple[int, ...]
Axes = int | tuple[int, ...] | None
Tensor = Any  # pyasc.Tensor, which this floor does not know: what signatures show


def as_tensor(x: Any, operation: str = "asarray") -> Any:
    """x itself if it is a tensor, else a new one with a copy of an array-like's values."""
    if isinstance(x, _graph.TensorBase):
        return x
    if is_number(x):
        return number(x, dtypes.weak(None, x.__class__), operation=operation)
    made = host.adopted(x)
    return host.from_array(as_array(x, operation), operation) if made is None else made


def as_tensors(operation: str, xs: Any) -> list[Any]:
    """The tensors of a sequence of array-likes."""
    if isinstance(xs, _graph.TensorBase):
        if not xs.shape:
            raise ShapeError(f"[{operation}] expected a sequence of arrays, given a 0-d tensor")
    elif not isinstance(xs, Iterable):
        raise DtypeError(f"[{operation}] expected a sequence of arrays, given {type(xs).__name__}")
    return [as_tensor(x, operation) for x in xs]


def as_array(x: Any, operation: str = "asarray") -> np.ndarray[Any, Any]:
    """A NumPy array of an array-like; Python numbers take the default dtypes."""
    if isinstance(x, np.ndarray | np.generic):
        return np.asarray(x)
    if hasattr(x, "__dlpack__") and not hasattr(x, "__array__"):
        return np.from_dlpack(x)
    try:
        array = np.asarray(x)
    except ValueError:
        raise ShapeError(
            f"[{operation}] expected nested sequences of equal lengths, given {x!r:.80}"
        ) from None
    if array.dtype == object or array.dtype.kind in "SUMm":
        if array.dtype == object and array.size and all(map(is_number, array.flat)):
            raise OverflowingScalar(f"[{operation}] expected integers that fit 64 bits, given {x!r:.80}")
        raise DtypeError(f"[{operation}] expected numbers or arrays, given {type(x).__name__} {x!r:.80}")
    if array.dtype == np.float64 and not _strong(x):
        return array.astype(dtypes.default_float)
    return array


def _strong(x: Any) -> bool:
    """Whether something in nested sequences brings a dtype of its own."""
    if isinstance(x, list | tuple):
        kinds = set(map(type, x))
        return not kinds <= {bool, int, float} and any(_strong(item) for item in x)
    return not isinstance(x, NUMBERS) or isinstance(x, np.generic)


def number(value: Any, dtype: Dtype, shape: Shape = (), operation: str = "asarray") -> Any:
    """A tensor of one Python number."""
    return _graph.tensor(_graph.record(FULL, (scalar(value, dtype, operation),), shape, dtype))


def scalar(value: Any, dtype: Dtype, operation: str = "asarray") -> _graph.Node:
    """A SCALAR node of a Python number, or the error that it does not fit."""
    if type(value) is TracedNumber:
        node = scalar(value.value, dtype, operation)
        value.nodes.append(node)
        return node
    if type(value) is int and dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if not limits.min <= value <= limits.max:
            raise OverflowingScalar(
                f"[{operation}] expected an integer that fits {dtype.name}, given {value}"
            )
    elif dtypes.is_float(dtype):
        try:
            value = float(value)
        except OverflowError:
            value = float("inf") if value > 0 else float("-inf")
    return _graph.scalar(value, dtype)


def cast(x: Any, dtype: Dtype) -> Any:
    """x in a dtype; x itself where it has it."""
    return x if x.dtype == dtype else _graph.unary(CAST, x, dtype)


def promoted(operation: str, *xs: Any) -> list[Any]:
    """Tensors of one dtype from tensors, array-likes and weak Python numbers, not broadcast."""
    strong = [x if is_number(x) else as_tensor(x, operation) for x in xs]
    dtype = dtypes.result_type(*strong)
    return [number(x, dtype, operation=operation) if is_number(x) else cast(x, dtype) for x in strong]


def as_int(value: Any, operation: str, name: str) -> int:
    """An integer argument."""
    try:
        return operator.index(value)
    except TypeError:
        raise DtypeError(f"[{operation}] expected an integer for {name}, given {value!r}") from None


def as_shape(shape: Any, operation: str) -> Shape:
    """A shape from an integer or a sequence of integers."""
    if type(shape) is tuple and len(shape) <= 8:
        for n in shape:
            if type(n) is not int or not 0 <= n < 128:
                break
        else:
            return shape
    if isinstance(shape, Iterable):
        result = tuple(as_int(n, operation, "a length of the shape") for n in shape)
    else:
        result = (as_int(shape, operation, "the shape"),)
    if any(n < 0 for n in result):
        raise ShapeError(f"[{operation}] expected a shape without negative lengths, given {result}")
    if len(result) > 64:
        raise ShapeError(f"[{operation}] expected at most 64 axes, given {len(result)}")
    total = 1
    for n in result:
        total *= max(n, 1)
    if total >= 2**62:
        raise ShapeError(f"[{operation}] expected a shape that memory could hold, given {result}")
    return result


def as_axis(axis: Any, ndim: int, operation: str) -> int:
    """One axis, counted from 0."""
    if type(axis) is int and 0 <= axis < ndim:
        return axis
    k = as_int(axis, operation, "axis")
    if not -ndim <= k < ndim:
        raise AxisError(f"[{operation}] expected an axis of a tensor of {ndim} dimensions, given {k}")
    return k % ndim


def as_axes(axis: Any, ndim: int, operation: str) -> Shape:
    """Axes counted from 0, in the order given, all of them for None; no axis twice."""
    if axis is None:
        return tuple(range(ndim))
    if type(axis) is int:
        return (as_axis(axis, ndim, operation),)
    given = axis if isinstance(axis, tuple | list) else (axis,)
    axes = tuple(as_axis(a, ndim, operation) for a in given)
    if len(set(axes)) != len(axes):
        raise ArgumentError(f"[{operation}] expected each axis once, given {axis}")
    return axes


def broadcast_shapes(operation: str, *shapes: Shape) -> Shape:
    """The shape that shapes broadcast to."""
    first = shapes[0]
    for shape in shapes:
        if shape != first:
            break
    else:
        return first
    rank = max((len(s) for s in shapes), default=0)
    result = [1] * rank
    for shape in shapes:
        for k, n in enumerate(shape, rank - len(shape)):
            if n != 1 and n != result[k]:
                if result[k] != 1:
                    given = " and ".join(map(str, shapes))
                    raise ShapeError(f"[{operation}] expected shapes that broadcast, given {given}")
                result[k] = n
    return tuple(result)
