"""Choosing elements by index or condition: ``take`` and its kin, what they write, where conditions hold."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _graph, dtypes, host, storage
from .arguments import Shape, as_axis, as_tensor, broadcast_shapes, cast
from .errors import ArgumentError, DtypeError, ShapeError
from .indexing import INT64, along_axis, counted, gathered, getitem, scatter, within
from .primitives import GATHER, IOTA, MAX, MIN, REMAINDER
from .registry import case, operation
from .traced import is_number
from .view import along, reshape_to

_INDICES = np.array([[0, 2, -1], [1, 1, 0]])


def _as_indices(indices: Any, operation: str) -> Any:
    """A tensor or a NumPy array of integers."""
    found: Any = indices if isinstance(indices, _graph.TensorBase | np.ndarray) else np.asarray(indices)
    if found.size == 0 and not isinstance(indices, _graph.TensorBase | np.ndarray):
        found = found.astype(np.int64)
    if found.dtype.kind not in "biu":
        raise DtypeError(f"[{operation}] expected indices of an integer dtype, given {found.dtype.name}")
    return cast(found, INT64) if isinstance(found, _graph.TensorBase) else found.astype(np.int64)


def _in_mode(index: Any, size: int, mode: str, operation: str) -> Any:
    """Indices brought into range in the way that `mode` says; unchanged for ``"raise"``."""
    if mode == "raise":
        return index
    if mode not in ("wrap", "clip"):
        raise ArgumentError(f"[{operation}] expected mode 'raise', 'wrap' or 'clip', given {mode!r}")
    if size == 0:
        raise ShapeError(f"[{operation}] expected elements to choose from, given an empty axis")
    if isinstance(index, np.ndarray):
        return np.remainder(index, size) if mode == "wrap" else np.clip(index, 0, size - 1)
    if mode == "wrap":
        return _graph.binary(REMAINDER, index, size)
    return _graph.binary(MIN, _graph.binary(MAX, index, 0), size - 1)


@operation(
    np.take,
    method=True,
    cases=(
        case((3, 4), args=(_INDICES,)),
        case((3, 4), args=(_INDICES,), axis=1),
        case((3, 4, 2), args=(np.array([1, -2]),), axis=0),
        case((5,), args=(2,), axis=0),
        case((3, 4), args=(np.array([7, -9]),), axis=1, mode="wrap"),
        case((3, 4), args=(np.array([7, -9]),), axis=1, mode="clip"),
    ),
)
def take(x: Any, indices: Any, axis: int | None = None, mode: str = "raise") -> Any:
    """Elements, or slices along an axis, by index.

    Parameters
    ----------
    x : array-like
    indices : int or array-like of integers
        Negative ones count from the end.
    axis : int, optional
        None chooses from x in one dimension.
    mode : {"raise", "wrap", "clip"}
        What becomes of indices out of range.

    Returns
    -------
    tensor
        x's shape with the axis replaced by the shape of indices.

    Raises
    ------
    IndexError
        Where an index is out of range and mode is ``"raise"``; pending indices are checked when computed.
    """
    x, axis = along(as_tensor(x, "take"), axis, "take")
    index = _in_mode(_as_indices(indices, "take"), x.shape[axis], mode, "take")
    taken = getitem(x, (slice(None),) * axis + (index,))
    return taken if taken.base is None else storage.copy(taken)


@operation(
    np.take_along_axis,
    cases=(
        case((2, 3), args=(_INDICES,), axis=1),
        case((3, 3), args=(_INDICES[:1],), axis=0),
        case((2, 1), args=(np.zeros((2, 4), int),), axis=1),
        case((6,), args=(np.array([0, 5, -1]),), axis=None),
    ),
)
def take_along_axis(x: Any, indices: Any, axis: int | None = -1) -> Any:
    """Elements by an index along one axis at each place of the others, as `argsort` gives them.

    Parameters
    ----------
    x : array-like
    indices : array-like of integers
        As many dimensions as x; broadcast against it but for the axis.
    axis : int, optional
        None takes x in one dimension, and one-dimensional indices.

    Returns
    -------
    tensor
    """
    x = as_tensor(x, "take_along_axis")
    if axis is None:
        x, axis = reshape_to(x, (x.size,)), 0
    axis = as_axis(axis, x.ndim, "take_along_axis")
    shape, strides, index = _index_along(x, indices, axis, "take_along_axis")
    return gathered(x, shape, along_axis(shape, strides, x.offset, index, axis))


def _index_along(x: Any, indices: Any, axis: int, operation: str) -> tuple[Shape, Shape, _graph.Node]:
    """Shape and strides of x broadcast against indices, and these counted from 0 in that shape."""
    found = _as_indices(indices, operation)
    if found.ndim != x.ndim:
        raise ShapeError(f"[{operation}] expected indices of {x.ndim} dimensions, given shape {found.shape}")
    others = tuple(1 if k == axis else n for k, n in enumerate(x.shape))
    shape = broadcast_shapes(operation, others, found.shape)
    strides = tuple(
        0 if k != axis and n == 1 else s for k, (n, s) in enumerate(zip(x.shape, x.strides, strict=True))
    )
    index = counted(found, axis, x.shape[axis], operation)
    return shape, strides, _graph.broadcast(index, shape)


@operation(np.put_along_axis)
def put_along_axis(x: Any, indices: Any, values: Any, axis: int | None) -> None:
    """Write values at an index along one axis, at each place of the others.

    Parameters
    ----------
    x : tensor
        Written in place.
    indices : array-like of integers
        As many dimensions as x.
    values : array-like
        Broadcast to the shape of indices.
    axis : int, optional
        None takes x in one dimension.
    """
    _check_target(x, "put_along_axis")
    if axis is None:
        put(x, indices, values)
        return
    axis = as_axis(axis, x.ndim, "put_along_axis")
    shape, strides, index = _index_along(x, host.settled(indices), axis, "put_along_axis")
    scatter(x, shape, along_axis(shape, strides, x.offset, index, axis), values, "put_along_axis")


@operation(np.put, method=True)
def put(x: Any, indices: Any, values: Any, mode: str = "raise") -> None:
    """Write values at flat indices into x, in C order.

    Parameters
    ----------
    x : tensor
        Written in place.
    indices : array-like of integers
    values : array-like
        Repeated where there are fewer of them than indices.
    mode : {"raise", "wrap", "clip"}
        What becomes of indices out of range.
    """
    _check_target(x, "put")
    size = x.size
    index = _in_mode(_as_indices(host.settled(indices), "put"), size, mode, "put")
    if not is_number(values):
        values = as_tensor(values, "put")
        values = reshape_to(values, (values.size,))
        if index.size and not values.size:
            raise ShapeError("[put] expected values to write, given none")
        values = _cycled(values, index.size)
    if index.size:
        flat = reshape_to(_graph.tensor(counted(index, 0, size, "put")), (index.size,))
        scatter(x, flat.shape, within(x, flat.node), values, "put")


def _cycled(values: Any, count: int) -> Any:
    """The first `count` of one-dimensional values repeated without end."""
    if values.size in (1, count) or count == 0:
        return values
    if values.size > count:
        return storage.view(values, (count,), values.strides, values.offset)
    place = _graph.tensor(_graph.record(IOTA, (), (count,), INT64, (0,)))
    index = _graph.binary(REMAINDER, place, values.size)
    whole = values if storage.is_contiguous(values) and values.base is None else storage.copy(values)
    return _graph.tensor(_graph.record(GATHER, (whole.node, index.node), (count,), values.dtype))


def _check_target(x: Any, operation: str) -> None:
    if not isinstance(x, _graph.TensorBase):
        raise DtypeError(f"[{operation}] expected a tensor to write to, given {type(x).__name__}")


# --- conditions: the shape of the result depends on values, so they are evaluated ---------------------------
def _as_mask(condition: Any, operation: str) -> Any:
    values = host.values(as_tensor(condition, operation))
    return values if values.dtype.kind == "b" else values != 0


@operation(np.nonzero, method=True, cases=(case((3, 4)), case((7,)), case((0, 2))))
def nonzero(x: Any) -> tuple[Any, ...]:
    """The indices of the elements that are not zero. A sync point.

    Returns
    -------
    tuple of tensors
        One for each axis, int64, in C order.

    Raises
    ------
    ValueError
        For a 0-d tensor.
    """
    x = as_tensor(x, "nonzero")
    if x.ndim == 0:
        raise ShapeError("[nonzero] expected at least one dimension, given a 0-d tensor")
    return tuple(host.from_array(found, "nonzero") for found in np.nonzero(_as_mask(x, "nonzero")))


@operation(np.flatnonzero, cases=(case((3, 4)),))
def flatnonzero(x: Any) -> Any:
    """The flat indices of the elements that are not zero. A sync point.

    Returns
    -------
    tensor of int64
    """
    return host.from_array(np.flatnonzero(_as_mask(x, "flatnonzero")), "flatnonzero")


@operation(np.argwhere, cases=(case((3, 4)),))
def argwhere(x: Any) -> Any:
    """The indices of the elements that are not zero, one row for each. A sync point.

    Returns
    -------
    tensor of int64, shape (count, x.ndim)
    """
    return host.from_array(np.argwhere(_as_mask(x, "argwhere")), "argwhere")


def _compress_method(self: Any, condition: Any, axis: int | None = None) -> Any:
    """Slices along an axis where a condition holds: `compress` with the tensor in front. A sync point."""
    return compress(condition, self, axis)


@operation(
    np.compress,
    method=_compress_method,
    cases=(case(np.array([True, False, True]), (3, 4), axis=0), case(np.array([0, 1]), (3, 4))),
)
def compress(condition: Any, x: Any, axis: int | None = None) -> Any:
    """Slices along an axis where a condition holds. A sync point.

    Parameters
    ----------
    condition : array-like, one-dimensional
        May be shorter than the axis.
    x : array-like
    axis : int, optional
        None takes x in one dimension.

    Returns
    -------
    tensor
    """
    mask = _as_mask(condition, "compress")
    if mask.ndim != 1:
        raise ShapeError(f"[compress] expected a condition of one dimension, given shape {mask.shape}")
    return take(x, np.flatnonzero(mask), axis)


@operation(np.extract, cases=(case(np.array([[1, 0], [0, 1]]), (2, 2)),))
def extract(condition: Any, x: Any) -> Any:
    """The elements of x where a condition holds, in C order. A sync point.

    Parameters
    ----------
    condition : array-like
        As many elements as x.
    x : array-like

    Returns
    -------
    tensor, one-dimensional
    """
    return take(x, np.flatnonzero(_as_mask(condition, "extract")))


@operation(np.place)
def place(x: Any, mask: Any, values: Any) -> None:
    """Write values one after another to the elements of x where a mask holds. A sync point.

    Parameters
    ----------
    x : tensor
        Written in place.
    mask : array-like
        As many elements as x.
    values : array-like
        Repeated where there are fewer of them than elements.
    """
    _check_target(x, "place")
    chosen = _as_mask(mask, "place")
    if chosen.size != x.size:
        raise ShapeError(f"[place] expected a mask of {x.size} elements, given shape {chosen.shape}")
    put(x, np.flatnonzero(chosen), values)


@operation(np.ix_)
def ix_(*sequences: Any) -> tuple[Any, ...]:
    """Index arrays that, used together, choose the cross product of one-dimensional sequences.

    Parameters
    ----------
    *sequences : array-likes of integers or bools, one-dimensional
        A mask stands for the places where it is true.

    Returns
    -------
    tuple of tensors
        The k-th has the length of its sequence on axis k and 1 on the others.
    """
    result = []
    for k, sequence in enumerate(sequences):
        x = as_tensor(sequence if np.size(sequence) else np.asarray(sequence, np.int64), "ix_")
        if x.ndim != 1:
            raise ShapeError(f"[ix_] expected sequences of one dimension, given shape {x.shape}")
        if x.dtype.kind == "b":
            x = flatnonzero(x)
        n = x.size
        shape = tuple(n if j == k else 1 for j in range(len(sequences)))
        strides = tuple(x.strides[0] if j == k else 0 for j in range(len(sequences)))
        result.append(storage.view(x, shape, strides, x.offset))
    return tuple(result)


# --- adding at indices --------------------------------------------------------------------------------------
@operation()
def index_add(x: Any, axis: int, indices: Any, values: Any) -> Any:
    """x with values added to its slices at indices along an axis; repeated indices add up.

    Parameters
    ----------
    x : array-like
    axis : int
    indices : array-like of integers, one-dimensional
    values : array-like
        x's shape but for the axis, which has the length of indices.

    Returns
    -------
    tensor
        A copy; x is not written.
    """
    x = as_tensor(x, "index_add")
    axis = as_axis(axis, x.ndim, "index_add")
    index = _as_indices(indices, "index_add")
    values = cast(as_tensor(values, "index_add"), x.dtype)
    expected = (*x.shape[:axis], index.size, *x.shape[axis + 1 :])
    if index.ndim != 1 or broadcast_shapes("index_add", values.shape, expected) != expected:
        raise ShapeError(f"[index_add] expected values that broadcast to {expected}, given {values.shape}")
    known = _graph.tensor(counted(index, axis, x.shape[axis], "index_add"))
    return host.call("index_add_on_host", (x, known, values), x.shape, x.dtype, axis)


@host.host_function
def index_add_on_host(x: host.Array, index: host.Array, values: host.Array, axis: int) -> host.Array:
    """A copy of x with values added along an axis; float16 and bfloat16 add up in float32."""
    result = np.array(x, np.float32 if dtypes.is_narrow(x.dtype) else x.dtype, order="C")
    np.add.at(
        np.moveaxis(result, axis, 0),
        index,
        np.moveaxis(np.broadcast_to(values, _along(x, index, axis)), axis, 0),
    )
    return result.astype(x.dtype, copy=False)


def _along(x: host.Array, index: host.Array, axis: int) -> Shape:
    return (*x.shape[:axis], index.size, *x.shape[axis + 1 :])
