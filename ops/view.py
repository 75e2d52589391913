"""Shape and layout: what can be a view of the same storage is one, exactly where NumPy's is."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from . import _graph
from .arguments import Axes, Shape, Tensor, as_axes, as_axis, as_int, as_shape, as_tensor, broadcast_shapes
from .errors import ArgumentError, AxisError, ShapeError
from .primitives import IOTA
from .registry import case, operation
from .selection import astype
from .storage import contiguous_strides, is_contiguous, view
from .storage import copy as owned


# --- reshaping -----------------------------------------------------------------------------------
def reshaped_strides(shape: Shape, strides: Shape, new: Shape) -> Shape | None:
    """The strides of a view in another shape of the same size, or None where it takes a copy.

    NumPy's rule (``_attempt_nocopy_reshape``): axes that change must lie one in the other without gaps.
    """
    old = [(n, s) for n, s in zip(shape, strides, strict=True) if n != 1]
    result: list[int] = []
    k = 0
    start = 0
    while k < len(new) and start < len(old):
        stop = start + 1
        wanted, have = new[k], old[start][0]
        first = k
        k += 1
        while wanted != have:
            if wanted < have:
                wanted *= new[k]
                k += 1
            else:
                have *= old[stop][0]
                stop += 1
        for (_, outer), (n, inner) in zip(old[start : stop - 1], old[start + 1 : stop], strict=True):
            if outer != n * inner:
                return None
        step = old[stop - 1][1]
        group = []
        for n in reversed(new[first:k]):
            group.append(step)
            step *= n
        result += reversed(group)
        start = stop
    result += [result[-1] if result else 1] * (len(new) - len(result))
    return tuple(result)


def resolved_shape(shape: Any, size: int, operation: str) -> Shape:
    """A new shape for `size` elements, one length of which may be -1."""
    if type(shape) is tuple:
        total = 1
        for n in shape:
            if type(n) is not int or n < 0:
                break
            total *= n
        else:
            if total == size and len(shape) <= 64:
                return shape
    given = (
        tuple(as_int(n, operation, "a length of the shape") for n in shape)
        if np.iterable(shape)
        else (shape,)
    )
    if given.count(-1) == 1:
        known = prod(n for n in given if n != -1)
        if known and size % known == 0:
            given = tuple(size // known if n == -1 else n for n in given)
    if any(n < 0 for n in given) or prod(given) != size:
        raise ShapeError(f"[{operation}] expected a shape of {size} elements, given {given}")
    return as_shape(given, operation)


def reshape_to(x: Any, shape: Shape) -> Any:
    """x in a shape of as many elements: x itself or a view where one can be made, else a copy."""
    if shape == x.shape:
        return x
    if x.base is None and 0 not in shape:
        return _graph.view(x, shape, contiguous_strides(shape), 0)
    if 0 in shape:
        return view(x, shape, contiguous_strides(shape), x.offset)
    strides = reshaped_strides(x.shape, x.strides, shape)
    if strides is not None:
        return view(x, shape, strides, x.offset)
    return view(owned(x), shape, contiguous_strides(shape), 0)


def _reshape_method(x: Any, *shape: Any, order: str = "C", copy: bool | None = None) -> Any:
    """Give the elements another shape: ``x.reshape(2, 3)`` or ``x.reshape((2, 3))``; see `pyasc.reshape`."""
    return reshape(x, shape[0] if len(shape) == 1 else shape, order, copy=copy)


@operation(
    np.reshape,
    method=_reshape_method,
    cases=(
        case((3, 4), args=((2, 6),)),
        case((2, 3, 4), args=(-1,)),
        case((2, 6), args=((3, 2, 2, 1),)),
        case((3, 4), args=((4, 3),), order="F"),
    ),
)
def reshape(x: Any, /, shape: Any, order: str = "C", *, copy: bool | None = None) -> Tensor:
    """Give the elements another shape, in the same order.

    Parameters
    ----------
    x : tensor or array-like
    shape : int or tuple of int
        Of as many elements as x; one length may be -1 and is worked out.
    order : {"C", "F", "A"}
        The order in which elements are read and placed: the last axis fastest ("C", "A") or the first ("F").
    copy : bool, optional
        True always copies, False never does. None copies where no view can be made, as NumPy does.

    Returns
    -------
    tensor

    Raises
    ------
    ShapeError
        Where the number of elements differs.
    ArgumentError
        Where `copy` is False and no view can be made.
    """
    x = as_tensor(x, "reshape")
    new = resolved_shape(shape, x.size, "reshape")
    if order == "F":
        return transposed(reshape(transposed(x), new[::-1], copy=copy))
    if order not in ("C", "A", "K"):
        raise ArgumentError(f"[reshape] expected order 'C', 'F' or 'A', given {order!r}")
    if copy:
        return reshape_to(owned(x), new)
    if copy is False and x.size and reshaped_strides(x.shape, x.strides, new) is None:
        raise ArgumentError(
            f"[reshape] expected a layout that can be seen in shape {new} without a copy, "
            f"given {x.shape} with strides {x.strides}"
        )
    return reshape_to(x, new)


@operation(np.ravel, method=True, cases=(case((3, 4)), case((3, 4), order="F"), case(())))
def ravel(x: Any, /, order: str = "C") -> Tensor:
    """All elements in one axis: a view where one can be made, else a copy.

    Parameters
    ----------
    x : tensor or array-like
    order : {"C", "F", "A", "K"}
        "F" runs through the first axis fastest.

    Returns
    -------
    tensor of one axis
    """
    return reshape(x, -1, order)


def along(x: Any, axis: Any, operation: str) -> tuple[Any, int]:
    """A tensor and the axis of it to go along: all elements in one for None, and, as in NumPy, for 0-d."""
    if axis is None or (not x.shape and axis in (0, -1)):
        return reshape_to(x, (x.size,)), 0
    return x, as_axis(axis, x.ndim, operation)


@operation(method=True, public=False, reference=lambda x: x.flatten(), cases=(case((3, 4)),))
def flatten(x: Any, /, order: str = "C") -> Tensor:
    """A copy of all elements in one axis; parameters as for `ravel`."""
    return reshape(x, -1, order, copy=True)


@operation(
    np.squeeze,
    method=True,
    cases=(case((1, 3, 1)), case((1, 3, 1), axis=0), case((1, 3, 1), axis=(0, -1))),
)
def squeeze(x: Any, /, axis: Axes = None) -> Tensor:
    """Remove axes of length 1. A view.

    Parameters
    ----------
    x : tensor or array-like
    axis : int or tuple of int, optional
        The axes to remove; None removes every axis of length 1.

    Raises
    ------
    ShapeError
        Where a given axis is longer than 1.
    """
    x = as_tensor(x, "squeeze")
    if axis is None:
        gone = tuple(k for k, n in enumerate(x.shape) if n == 1)
    else:
        gone = as_axes(axis, x.ndim, "squeeze")
        if any(x.shape[k] != 1 for k in gone):
            raise ShapeError(f"[squeeze] expected axes of length 1, given axis {axis} of shape {x.shape}")
    kept = [k for k in range(x.ndim) if k not in gone]
    return view(x, tuple(x.shape[k] for k in kept), tuple(x.strides[k] for k in kept), x.offset)


@operation(
    np.expand_dims,
    cases=(case((3, 4), axis=0), case((3, 4), axis=-1), case((3, 4), axis=(0, 2))),
)
def expand_dims(x: Any, /, axis: int | tuple[int, ...] = 0) -> Tensor:
    """Insert axes of length 1 at these positions of the result. A view.

    Parameters
    ----------
    x : tensor or array-like
    axis : int or tuple of int
    """
    x = as_tensor(x, "expand_dims")
    given = axis if isinstance(axis, tuple | list) else (axis,)
    rank = x.ndim + len(given)
    new = as_axes(tuple(given), rank, "expand_dims")
    old = iter(zip(x.shape, x.strides, strict=True))
    pairs = [(1, 0) if k in new else next(old) for k in range(rank)]
    return view(x, tuple(n for n, _ in pairs), tuple(s for _, s in pairs), x.offset)


def _at_least(name: str, xs: tuple[Any, ...], rank: int) -> Any:
    results = []
    for x in xs:
        x = as_tensor(x, name)
        missing = rank - x.ndim
        if missing > 0:
            # As NumPy: in three dimensions one goes behind and what is still missing in front.
            behind = (1,) if rank == 3 and x.ndim in (1, 2) else ()
            front = (1,) * (missing - len(behind))
            shape = (*front, *x.shape, *behind)
            x = view(x, shape, (*(0 for _ in front), *x.strides, *(0 for _ in behind)), x.offset)
        results.append(x)
    return results[0] if len(results) == 1 else tuple(results)


@operation(np.atleast_1d, cases=(case(()), case((3,)), case((), (3,))))
def atleast_1d(*xs: Any) -> Tensor:
    """Tensors seen with at least one axis; one tensor, or a tuple."""
    return _at_least("atleast_1d", xs, 1)


@operation(np.atleast_2d, cases=(case(()), case((3,)), case((2, 3, 4))))
def atleast_2d(*xs: Any) -> Tensor:
    """Tensors seen with at least two axes, new ones in front; one tensor, or a tuple."""
    return _at_least("atleast_2d", xs, 2)


@operation(np.atleast_3d, cases=(case(()), case((3,)), case((2, 3))))
def atleast_3d(*xs: Any) -> Tensor:
    """Tensors seen with at least three axes, ``(1, n, 1)`` and ``(m, n, 1)``; one tensor, or a tuple."""
    return _at_least("atleast_3d", xs, 3)


# --- order of axes ------------------------------------------------------------------------------------
def transposed(x: Any, axes: Shape | None = None) -> Any:
    """The axes in another order, reversed for None. A view, or x itself in the order that it has."""
    if axes == tuple(range(x.ndim)):
        return x
    if axes is None:
        return view(x, x.shape[::-1], x.strides[::-1], x.offset)
    return view(x, tuple(x.shape[k] for k in axes), tuple(x.strides[k] for k in axes), x.offset)


def _order(axes: Any, ndim: int, operation: str) -> Shape:
    order = as_axes(tuple(axes), ndim, operation)
    if len(order) != ndim:
        raise ArgumentError(f"[{operation}] expected all {ndim} axes, given {tuple(axes)}")
    return order


def _transpose_method(x: Any, *axes: Any) -> Any:
    """The axes in another order, reversed without arguments; see `pyasc.transpose`."""
    return transpose(x, None if not axes else axes[0] if len(axes) == 1 else axes)


@operation(
    np.transpose,
    method=_transpose_method,
    cases=(case((2, 3, 4)), case((2, 3, 4), axes=(1, -1, 0)), case((3,)), case(())),
)
def transpose(x: Any, /, axes: tuple[int, ...] | None = None) -> Tensor:
    """The axes in another order. A view.

    Parameters
    ----------
    x : tensor or array-like
    axes : tuple of int, optional
        For each axis of the result, the axis of x that it is; None reverses them.
    """
    x = as_tensor(x, "transpose")
    if axes is None:
        return transposed(x)
    return transposed(x, _order(axes if np.iterable(axes) else (axes,), x.ndim, "transpose"))


@operation(
    *((np.permute_dims,) if np.permute_dims is not np.transpose else ()),
    cases=(case((2, 3, 4), axes=(2, 0, 1)),),
    reference=np.transpose,
)
def permute_dims(x: Any, /, axes: tuple[int, ...]) -> Tensor:
    """The axes in the given order: the Array API's name of `transpose` with axes. A view."""
    x = as_tensor(x, "permute_dims")
    return transposed(x, _order(axes, x.ndim, "permute_dims"))


@operation(np.matrix_transpose, cases=(case((2, 3, 4)), case((3, 4))))
def matrix_transpose(x: Any, /) -> Tensor:
    """The last two axes exchanged. A view.

    Raises
    ------
    ShapeError
        Where x has fewer than two axes.
    """
    x = as_tensor(x, "matrix_transpose")
    if x.ndim < 2:
        raise ShapeError(f"[matrix_transpose] expected at least 2 axes, given shape {x.shape}")
    return swapaxes(x, -1, -2)


@operation(np.swapaxes, method=True, cases=(case((2, 3, 4), args=(0, -1)), case((3, 4), args=(1, 1))))
def swapaxes(x: Any, /, axis1: int, axis2: int) -> Tensor:
    """Two axes exchanged. A view."""
    x = as_tensor(x, "swapaxes")
    a, b = as_axis(axis1, x.ndim, "swapaxes"), as_axis(axis2, x.ndim, "swapaxes")
    order = list(range(x.ndim))
    order[a], order[b] = b, a
    return transposed(x, tuple(order))


@operation(
    np.moveaxis,
    cases=(case((2, 3, 4), args=(0, -1)), case((2, 3, 4), args=((0, 1), (-1, 0)))),
)
def moveaxis(x: Any, /, source: int | tuple[int, ...], destination: int | tuple[int, ...]) -> Tensor:
    """Move axes to other positions, the rest keeping their order. A view.

    Parameters
    ----------
    x : tensor or array-like
    source, destination : int or tuple of int
        Where the axes are, and where they go.
    """
    x = as_tensor(x, "moveaxis")
    froms, tos = as_axes(source, x.ndim, "moveaxis"), as_axes(destination, x.ndim, "moveaxis")
    if len(froms) != len(tos):
        raise ArgumentError(
            f"[moveaxis] expected as many destinations as sources, given {source} and {destination}"
        )
    rest = iter(k for k in range(x.ndim) if k not in froms)
    moved = dict(zip(tos, froms, strict=True))
    return transposed(x, tuple(moved[k] if k in moved else next(rest) for k in range(x.ndim)))


@operation(np.rollaxis, cases=(case((2, 3, 4), args=(2,)), case((2, 3, 4), args=(0, 3))))
def rollaxis(x: Any, /, axis: int, start: int = 0) -> Tensor:
    """Move one axis before the position that `start` has now. A view; `moveaxis` is easier to read."""
    x = as_tensor(x, "rollaxis")
    k = as_axis(axis, x.ndim, "rollaxis")
    position = as_int(start, "rollaxis", "start")
    if not -x.ndim <= position <= x.ndim:
        raise AxisError(f"[rollaxis] expected start within a tensor of {x.ndim} dimensions, given {start}")
    position += x.ndim if position < 0 else 0
    return moveaxis(x, k, position - 1 if k < position else position)


# --- reversing and turning ---------------------------------------------------------------------------------
@operation(np.flip, cases=(case((3, 4)), case((3, 4), axis=0), case((2, 3, 4), axis=(0, -1))))
def flip(x: Any, /, axis: Axes = None) -> Tensor:
    """Reverse the order of elements along axes. A view.

    Parameters
    ----------
    x : tensor or array-like
    axis : int or tuple of int, optional
        None reverses every axis.
    """
    x = as_tensor(x, "flip")
    strides, offset = list(x.strides), x.offset
    for k in as_axes(axis, x.ndim, "flip"):
        offset += max(x.shape[k] - 1, 0) * strides[k] if 0 not in x.shape else 0
        strides[k] = -strides[k]
    return view(x, x.shape, tuple(strides), offset)


def of_rank(name: str, x: Any, rank: int) -> Any:
    x = as_tensor(x, name)
    if x.ndim < rank:
        raise ShapeError(f"[{name}] expected at least {rank} axes, given shape {x.shape}")
    return x


@operation(np.fliplr, cases=(case((3, 4)),))
def fliplr(x: Any, /) -> Tensor:
    """Reverse the second axis (left to right). A view."""
    return flip(of_rank("fliplr", x, 2), 1)


@operation(np.flipud, cases=(case((3, 4)),))
def flipud(x: Any, /) -> Tensor:
    """Reverse the first axis (top to bottom). A view."""
    return flip(of_rank("flipud", x, 1), 0)


@operation(np.rot90, cases=(case((3, 4)), case((3, 4), k=2), case((2, 3, 4), k=3, axes=(1, 2))))
def rot90(x: Any, /, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Tensor:
    """Turn by right angles in the plane of two axes, from the first towards the second. A view.

    Parameters
    ----------
    x : tensor or array-like
    k : int
        How many right angles.
    axes : tuple of two int
    """
    x = of_rank("rot90", x, 2)
    a, b = as_axes(tuple(axes), x.ndim, "rot90")
    k = as_int(k, "rot90", "k") % 4
    if k == 0:
        return view(x, x.shape, x.strides, x.offset)
    if k == 2:
        return flip(x, (a, b))
    return swapaxes(flip(x, b), a, b) if k == 1 else flip(swapaxes(x, a, b), b)


# --- broadcasting ---------------------------------------------------------------------------------------
def broadcast_view(x: Any, shape: Shape) -> Any:
    """x repeated without copying to a shape that it broadcasts to."""
    missing = len(shape) - x.ndim
    strides = tuple(
        0 if n == 1 and shape[k] != 1 else s
        for k, (n, s) in enumerate(zip(x.shape, x.strides, strict=True), missing)
    )
    return view(x, shape, (*(0 for _ in range(missing)), *strides), x.offset)


@operation(np.broadcast_to, cases=(case((3, 1), args=((2, 3, 4),)), case((), args=((2, 2),))))
def broadcast_to(x: Any, /, shape: int | tuple[int, ...]) -> Tensor:
    """Repeat along axes of length 1, and along new axes in front. A view that must not be written to.

    Parameters
    ----------
    x : tensor or array-like
    shape : int or tuple of int

    Raises
    ------
    ShapeError
        Where x does not broadcast to the shape.
    """
    x = as_tensor(x, "broadcast_to")
    new = as_shape(shape, "broadcast_to")
    fits = x.ndim <= len(new) and all(
        n in (1, m) for n, m in zip(reversed(x.shape), reversed(new), strict=False)
    )
    if not fits:
        raise ShapeError(f"[broadcast_to] expected a shape that broadcasts to {new}, given {x.shape}")
    return broadcast_view(x, new)


@operation(np.broadcast_arrays, cases=(case((3, 1), (4,), ()),))
def broadcast_arrays(*xs: Any) -> tuple[Tensor, ...]:
    """The tensors broadcast with one another, as a tuple of views that must not be written to."""
    tensors = [as_tensor(x, "broadcast_arrays") for x in xs]
    shape = broadcast_shapes("broadcast_arrays", *(x.shape for x in tensors))
    return tuple(broadcast_view(x, shape) for x in tensors)


@operation(np.broadcast_shapes, name="broadcast_shapes")
def _broadcast_shapes(*shapes: Any) -> Shape:
    """The shape that shapes broadcast to, as a tuple; ShapeError where they do not."""
    return broadcast_shapes("broadcast_shapes", *(as_shape(s, "broadcast_shapes") for s in shapes))


def narrowed(x: Any, axis: int, start: int, stop: int) -> Any:
    """The elements of an axis from start to stop. A view."""
    shape = (*x.shape[:axis], stop - start, *x.shape[axis + 1 :])
    return view(x, shape, x.strides, x.offset if 0 in shape else x.offset + start * x.strides[axis])


# --- copies --------------------------------------------------------------------------------------------
@operation(np.copy, method=True, cases=(case((3, 4)), case(())))
def copy(x: Any, /, order: str = "C") -> Tensor:
    """A copy with storage of its own. `order` is accepted and ignored: storage is always in C order."""
    return owned(as_tensor(x, "copy"))


@operation(
    np.ascontiguousarray,
    name="ascontiguousarray",
    aliases=("contiguous",),
    method="contiguous",
    cases=(case((3, 4)), case(())),
)
def ascontiguousarray(x: Any, /, dtype: Any = None) -> Tensor:
    """x itself where its elements lie in C order without gaps, else a copy; at least one axis."""
    x = atleast_1d(x)
    x = x if dtype is None else astype(x, dtype, copy=False)
    return x if is_contiguous(x) else owned(x)


def iota(shape: Shape, axis: int) -> Any:
    """The position along an axis, as an int64 tensor of a shape."""
    return _graph.tensor(_graph.record(IOTA, (), shape, np.dtype(np.int64), (axis,)))
