"""Parts of a tensor as views: diagonals, windows, pieces along an axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from .arguments import Axes, Tensor, as_axes, as_axis, as_int, as_shape, as_tensor
from .errors import ArgumentError, ShapeError
from .registry import case, operation
from .storage import view
from .view import narrowed, of_rank, squeeze


@operation(
    np.diagonal,
    method=True,
    cases=(
        case((3, 4)),
        case((3, 4), offset=1),
        case((4, 3, 2), offset=-1, axis1=0, axis2=2),
        case((2, 2), offset=5),
    ),
)
def diagonal(x: Any, /, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """The diagonal of the matrices in two axes, as the last axis of the result. A view.

    Parameters
    ----------
    x : tensor or array-like
    offset : int
        Above the main diagonal where it is positive, below where negative.
    axis1, axis2 : int
    """
    x = of_rank("diagonal", x, 2)
    a, b = as_axes((axis1, axis2), x.ndim, "diagonal")
    k = as_int(offset, "diagonal", "offset")
    rows, columns = x.shape[a] - max(-k, 0), x.shape[b] - max(k, 0)
    length = max(min(rows, columns), 0)
    rest = [n for n in range(x.ndim) if n not in (a, b)]
    start = x.offset + (k * x.strides[b] if k > 0 else -k * x.strides[a])
    shape = (*(x.shape[n] for n in rest), length)
    strides = (*(x.strides[n] for n in rest), x.strides[a] + x.strides[b])
    return view(x, shape, strides, x.offset if 0 in shape else start)


@operation(
    np.lib.stride_tricks.sliding_window_view,
    cases=(case((5, 6), args=((2, 3),)), case((5, 6), args=(3, 1)), case((5,), args=(5,))),
)
def sliding_window_view(x: Any, /, window_shape: int | tuple[int, ...], axis: Axes = None) -> Tensor:
    """Every window of a shape, the window's axes behind those of x. A view that must not be written to.

    Parameters
    ----------
    x : tensor or array-like
    window_shape : int or tuple of int
    axis : int or tuple of int, optional
        The axes along which windows slide; None takes all of them.
    """
    x = as_tensor(x, "sliding_window_view")
    window = as_shape(window_shape, "sliding_window_view")
    axes = tuple(range(x.ndim)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    axes = tuple(as_axis(k, x.ndim, "sliding_window_view") for k in axes)
    if len(axes) != len(window):
        raise ArgumentError(
            f"[sliding_window_view] expected one length for each of the axes {axes}, given {window}"
        )
    shape = list(x.shape)
    for k, n in zip(axes, window, strict=True):
        shape[k] -= n - 1
        if shape[k] <= 0 or n == 0:
            raise ShapeError(
                f"[sliding_window_view] expected windows that fit shape {x.shape}, given {window}"
            )
    return view(x, (*shape, *window), (*x.strides, *(x.strides[k] for k in axes)), x.offset)


def _cut(x: Any, where: Any, axis: int, operation: str, equal: bool) -> list[Any]:
    k = as_axis(axis, x.ndim, operation)
    length = x.shape[k]
    if np.iterable(where):
        points = [as_int(n, operation, "a position") for n in where]
        starts = [
            slice(a, b).indices(length)[:2] for a, b in zip([0, *points], [*points, length], strict=True)
        ]
        return [narrowed(x, k, a, max(a, b)) for a, b in starts]
    parts = as_int(where, operation, "the number of parts")
    if parts <= 0 or (equal and length % parts):
        raise ArgumentError(
            f"[{operation}] expected a number of equal parts of {length} elements, given {parts}"
        )
    size, longer = divmod(length, parts)
    ends = np.cumsum([size + (n < longer) for n in range(parts)]).tolist()
    return [narrowed(x, k, a, b) for a, b in zip([0, *ends[:-1]], ends, strict=True)]


@operation(np.split, cases=(case((6, 2), args=(3,)), case((2, 6), args=([1, 4],), axis=1)))
def split(x: Any, /, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    """Cut along an axis into a list of views.

    Parameters
    ----------
    x : tensor or array-like
    indices_or_sections : int or sequence of int
        The number of equal parts, or the positions of the cuts.
    axis : int

    Raises
    ------
    ArgumentError
        Where the axis does not divide into equal parts.
    """
    return _cut(as_tensor(x, "split"), indices_or_sections, axis, "split", True)


@operation(np.array_split, cases=(case((7, 2), args=(3,)), case((2, 7), args=([1, 4],), axis=1)))
def array_split(x: Any, /, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    """Cut along an axis into a list of views whose lengths differ by at most one.

    Parameters as for `split`.
    """
    return _cut(as_tensor(x, "array_split"), indices_or_sections, axis, "array_split", False)


@operation(np.vsplit, cases=(case((4, 2), args=(2,)),))
def vsplit(x: Any, /, indices_or_sections: Any) -> list[Tensor]:
    """`split` along the first axis."""
    return _cut(of_rank("vsplit", x, 2), indices_or_sections, 0, "vsplit", True)


@operation(np.hsplit, cases=(case((2, 4), args=(2,)), case((4,), args=(2,))))
def hsplit(x: Any, /, indices_or_sections: Any) -> list[Tensor]:
    """`split` along the second axis, of one-dimensional tensors along the only one."""
    x = of_rank("hsplit", x, 1)
    return _cut(x, indices_or_sections, min(1, x.ndim - 1), "hsplit", True)


@operation(np.dsplit, cases=(case((2, 2, 4), args=(2,)),))
def dsplit(x: Any, /, indices_or_sections: Any) -> list[Tensor]:
    """`split` along the third axis."""
    return _cut(of_rank("dsplit", x, 3), indices_or_sections, 2, "dsplit", True)


@operation(np.unstack, cases=(case((3, 2)), case((2, 3), axis=1)))
def unstack(x: Any, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices along an axis, which they no longer have, as a tuple of views."""
    x = of_rank("unstack", x, 1)
    k = as_axis(axis, x.ndim, "unstack")
    return tuple(squeeze(narrowed(x, k, n, n + 1), k) for n in range(x.shape[k]))
