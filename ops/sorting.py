"""Sorting, searching in sorted order, and the distinct elements. All of it runs on the host, by NumPy."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from . import _graph, dtypes, host, storage
from .arguments import as_axis, as_int, as_tensor, as_tensors, cast
from .errors import ArgumentError, IndexOutOfBounds, ShapeError
from .indexing import INT64
from .registry import case, operation
from .view import along, reshape_to

Array = host.Array
_KINDS = (None, "quicksort", "stable", "mergesort", "heapsort")


def _ordered(
    x: Any, axis: int | None, kind: str | None, stable: bool | None, operation: str
) -> tuple[Any, int, bool]:
    """The tensor to sort, its axis, and whether equal elements stay in order."""
    if kind not in _KINDS:
        raise ArgumentError(
            f"[{operation}] expected kind 'quicksort', 'stable', 'mergesort' or 'heapsort', given {kind!r}"
        )
    x = as_tensor(x, operation)
    if axis is None:
        return reshape_to(x, (x.size,)), 0, bool(stable) or kind in ("stable", "mergesort")
    return x, as_axis(axis, x.ndim, operation), bool(stable) or kind in ("stable", "mergesort")


# --- sort ---------------------------------------------------------------------------------------------------
@operation(
    np.sort, cases=(case((5, 7)), case((5, 7), axis=0), case((3, 4), axis=None), case((6,), stable=True))
)
def sort(
    x: Any,
    axis: int | None = -1,
    kind: str | None = None,
    *,
    descending: bool = False,
    stable: bool | None = None,
) -> Any:
    """A sorted copy.

    Parameters
    ----------
    x : array-like
    axis : int, optional
        None sorts x in one dimension.
    kind : {"quicksort", "stable", "mergesort", "heapsort"}, optional
        Taken for NumPy's sake; only whether it is stable matters, and to values that does not.
    descending : bool
        The greatest first.
    stable : bool, optional

    Returns
    -------
    tensor
        NaN stands after every number, before them where the order is descending.
    """
    x, axis, _ = _ordered(x, axis, kind, stable, "sort")
    return host.call("sort_on_host", (x,), x.shape, x.dtype, axis, bool(descending))


@host.host_function
def sort_on_host(x: Array, axis: int, descending: bool) -> Array:
    result = np.sort(host.comparable(x), axis).astype(x.dtype, copy=False)
    return np.flip(result, axis) if descending else result


def _sort_method(
    self: Any,
    axis: int = -1,
    kind: str | None = None,
    *,
    descending: bool = False,
    stable: bool | None = None,
) -> None:
    """Sort in place along an axis."""
    storage.assign(self, sort(self, axis, kind, descending=descending, stable=stable), operation="sort")


operation(name="sort_in_place", method=("sort",), public=False)(_sort_method)


@operation(
    np.argsort,
    method=True,
    cases=(
        case((5, 7), stable=True),
        case((5, 7), axis=0, stable=True),
        case((3, 4), axis=None, stable=True),
    ),
)
def argsort(
    x: Any,
    axis: int | None = -1,
    kind: str | None = None,
    *,
    descending: bool = False,
    stable: bool | None = None,
) -> Any:
    """The indices that sort.

    Parameters
    ----------
    x : array-like
    axis : int, optional
        None sorts x in one dimension.
    kind : {"quicksort", "stable", "mergesort", "heapsort"}, optional
    descending : bool
        The greatest first; of equals the first stays first where the order is stable.
    stable : bool, optional

    Returns
    -------
    tensor of int64
        `take_along_axis(x, argsort(x, axis), axis)` is sorted.
    """
    x, axis = along(as_tensor(x, "argsort"), axis, "argsort")
    x, axis, keep = _ordered(x, axis, kind, stable, "argsort")
    return host.call("argsort_on_host", (x,), x.shape, INT64, axis, bool(descending), keep)


@host.host_function
def argsort_on_host(x: Array, axis: int, descending: bool, stable: bool) -> Array:
    x = host.comparable(x)
    kind: Any = "stable" if stable else None
    if not descending:
        return np.argsort(x, axis, kind)
    return np.flip(x.shape[axis] - 1 - np.argsort(np.flip(x, axis), axis, kind), axis)


@operation(np.partition)
def partition(x: Any, kth: int | tuple[int, ...], axis: int | None = -1) -> Any:
    """A copy with the k-th element in its sorted place, nothing after it less, nothing before it greater.

    Parameters
    ----------
    x : array-like
    kth : int or tuple of int
    axis : int, optional
        None takes x in one dimension.

    Returns
    -------
    tensor
    """
    x, axis, _ = _ordered(x, axis, None, None, "partition")
    return host.call(
        "partition_on_host", (x,), x.shape, x.dtype, _places(kth, x.shape[axis], "partition"), axis
    )


def _partition_method(self: Any, kth: int | tuple[int, ...], axis: int = -1) -> None:
    """Partition in place along an axis."""
    storage.assign(self, partition(self, kth, axis), operation="partition")


operation(name="partition_in_place", method=("partition",), public=False)(_partition_method)


@operation(np.argpartition, method=True)
def argpartition(x: Any, kth: int | tuple[int, ...], axis: int | None = -1) -> Any:
    """The indices that partition x as `partition` does.

    Parameters
    ----------
    x : array-like
    kth : int or tuple of int
    axis : int, optional

    Returns
    -------
    tensor of int64
    """
    x, axis = along(as_tensor(x, "argpartition"), axis, "argpartition")
    return host.call(
        "argpartition_on_host", (x,), x.shape, INT64, _places(kth, x.shape[axis], "argpartition"), axis
    )


@host.host_function
def partition_on_host(x: Array, kth: tuple[int, ...], axis: int) -> Array:
    return np.partition(host.comparable(x), kth, axis).astype(x.dtype, copy=False)


@host.host_function
def argpartition_on_host(x: Array, kth: tuple[int, ...], axis: int) -> Array:
    return np.argpartition(host.comparable(x), kth, axis)


def _places(kth: Any, size: int, operation: str) -> tuple[int, ...]:
    found = tuple(as_int(k, operation, "kth") for k in (kth if isinstance(kth, tuple | list) else (kth,)))
    for k in found:
        if not -size <= k < size:
            raise ArgumentError(f"[{operation}] expected kth from {-size} to {size - 1}, given {k}")
    return found


@operation(np.lexsort, cases=(case((6,), (6,), sequence=True),))
def lexsort(keys: Any, axis: int = -1) -> Any:
    """The indices that sort by several keys, the last one first in rank.

    Parameters
    ----------
    keys : sequence of array-likes of one shape, or one array-like whose first axis they are
    axis : int

    Returns
    -------
    tensor of int64
    """
    if isinstance(keys, _graph.TensorBase | np.ndarray):
        whole = as_tensor(keys, "lexsort")
        keys = [
            storage.view(whole, whole.shape[1:], whole.strides[1:], whole.offset + k * whole.strides[0])
            for k in range(len(whole))
        ]
    xs = as_tensors("lexsort", keys)
    if not xs or any(x.shape != xs[0].shape for x in xs):
        raise ShapeError(f"[lexsort] expected keys of one shape, given {[x.shape for x in xs]}")
    return host.call(
        "lexsort_on_host",
        tuple(xs),
        xs[0].shape,
        INT64,
        as_axis(axis, xs[0].ndim, "lexsort") if xs[0].ndim else -1,
    )


@host.host_function
def lexsort_on_host(*arguments: Any) -> Array:
    *keys, axis = arguments
    return np.asarray(np.lexsort([host.comparable(k) for k in keys], axis))


# --- search -------------------------------------------------------------------------------------------------
@operation(
    np.searchsorted,
    method=True,
    cases=(case(np.arange(-3, 4), (5,)), case(np.arange(-3, 4), (2, 3), side="right")),
)
def searchsorted(x: Any, values: Any, side: str = "left", sorter: Any = None) -> Any:
    """Where values would go into a sorted array to keep it sorted.

    Parameters
    ----------
    x : array-like, one-dimensional, in ascending order (through `sorter` where that is given)
    values : array-like
    side : {"left", "right"}
        Before or after equal elements.
    sorter : array-like of integers, optional
        Indices that sort x.

    Returns
    -------
    tensor of int64, of the shape of values
    """
    if side not in ("left", "right"):
        raise ArgumentError(f"[searchsorted] expected side 'left' or 'right', given {side!r}")
    x, values = as_tensor(x, "searchsorted"), as_tensor(values, "searchsorted")
    if x.ndim != 1:
        raise ShapeError(f"[searchsorted] expected a sorted array of one dimension, given shape {x.shape}")
    dtype = dtypes.promote_types(x.dtype, values.dtype)
    operands = [cast(x, dtype), cast(values, dtype)]
    if sorter is not None:
        order = as_tensor(sorter, "searchsorted")
        if order.shape != x.shape or not dtypes.is_integer(order.dtype):
            raise IndexOutOfBounds(
                f"[searchsorted] expected a sorter of {x.size} integers, "
                f"given {order.dtype.name} {order.shape}"
            )
        operands.append(order)
    return host.call("searchsorted_on_host", tuple(operands), values.shape, INT64, side)


@host.host_function
def searchsorted_on_host(x: Array, values: Array, *rest: Any) -> Array:
    *order, side = rest
    return np.asarray(np.searchsorted(host.comparable(x), host.comparable(values), side, *order))


# --- distinct elements: shapes depend on values, so these are sync points -----------------------------------
class UniqueAll(NamedTuple):
    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCounts(NamedTuple):
    values: Any
    counts: Any


class UniqueInverse(NamedTuple):
    values: Any
    inverse_indices: Any


def _distinct(x: Any, operation: str, **options: Any) -> tuple[Any, ...]:
    """Values, indices, inverse and counts as tensors, those that `options` ask for."""
    known = host.values(as_tensor(x, operation))
    dtype = known.dtype
    found = np.unique(host.comparable(known), **options)
    parts = found if isinstance(found, tuple) else (found,)
    return (
        host.from_array(parts[0].astype(dtype), operation),
        *(host.from_array(p, operation) for p in parts[1:]),
    )


@operation(np.unique, cases=(case((4, 5)), case((0,)), case(np.array([[1, 0], [1, 0]]), axis=0)))
def unique(
    x: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
) -> Any:
    """The distinct elements, sorted. A sync point.

    Parameters
    ----------
    x : array-like
    return_index, return_inverse, return_counts : bool
        Also return, as int64, where each first stands, where each element of x went, how often each occurs.
    axis : int, optional
        Distinct slices along an axis in place of elements.
    equal_nan : bool
        Take NaNs for equal.

    Returns
    -------
    tensor or tuple of tensors
    """
    x = as_tensor(x, "unique")
    if axis is not None:
        axis = as_axis(axis, x.ndim, "unique")
    found = _distinct(
        x,
        "unique",
        return_index=return_index,
        return_inverse=return_inverse,
        return_counts=return_counts,
        axis=axis,
        equal_nan=equal_nan,
    )
    return found if len(found) > 1 else found[0]


@operation(np.unique_values, reference=lambda x: np.unique(x, equal_nan=False), cases=(case((4, 5)),))
def unique_values(x: Any) -> Any:
    """The distinct elements, sorted; each NaN is its own. A sync point."""
    return _distinct(x, "unique_values", equal_nan=False)[0]


@operation(np.unique_counts, cases=(case((4, 5)),))
def unique_counts(x: Any) -> UniqueCounts:
    """The distinct elements and how often each occurs. A sync point."""
    return UniqueCounts(*_distinct(x, "unique_counts", return_counts=True, equal_nan=False))


@operation(np.unique_inverse, cases=(case((4, 5)),))
def unique_inverse(x: Any) -> UniqueInverse:
    """The distinct elements and, in x's shape, which of them each element is. A sync point."""
    return UniqueInverse(*_distinct(x, "unique_inverse", return_inverse=True, equal_nan=False))


@operation(np.unique_all, cases=(case((4, 5)),))
def unique_all(x: Any) -> UniqueAll:
    """The distinct elements, where each first stands, which each element is, and counts. A sync point."""
    options = {"return_index": True, "return_inverse": True, "return_counts": True, "equal_nan": False}
    return UniqueAll(*_distinct(x, "unique_all", **options))


@operation(np.isin, cases=(case((4, 5), np.array([0, 1, 2])),))
def isin(element: Any, test_elements: Any, invert: bool = False) -> Any:
    """Whether each element occurs in another array.

    Parameters
    ----------
    element, test_elements : array-like
    invert : bool
        Ask for those that do not occur.

    Returns
    -------
    tensor of bool, of the shape of element
    """
    x, others = as_tensor(element, "isin"), as_tensor(test_elements, "isin")
    dtype = dtypes.promote_types(x.dtype, others.dtype)
    return host.call(
        "isin_on_host", (cast(x, dtype), cast(others, dtype)), x.shape, dtypes.bool_, bool(invert)
    )


@host.host_function
def isin_on_host(x: Array, others: Array, invert: bool) -> Array:
    return np.isin(host.comparable(x), host.comparable(others), invert=invert)
