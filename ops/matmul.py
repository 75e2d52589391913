"""Products that sum over axes: matrix products, inner and outer products, tensordot.

A product of matrices is one MATMUL node; a product of vectors is a multiplication and a sum, which fuse with
what is around them. float16 and bfloat16 accumulate in float32 and round once; integers wrap; bools are "or"
of "and".
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import _graph, dtypes, storage
from .arguments import Shape, as_axes, as_axis, as_int, broadcast_shapes, cast, number, promoted
from .errors import ArgumentError, ShapeError
from .gathering import take
from .primitives import EMPTY, MATMUL, MUL, SUB
from .reduction import sum
from .registry import case, operation
from .view import expand_dims, reshape_to, transposed


def merged(x: Any, groups: Sequence[int]) -> Any:
    """x with neighbouring axes merged, `groups` saying how many go into each.

    A copy where they do not lie one after another.
    """
    if all(g == 1 for g in groups):
        return x
    shape: list[int] = []
    strides: list[int] = []
    axis = 0
    for group in groups:
        extents, steps = x.shape[axis : axis + group], x.strides[axis : axis + group]
        axis += group
        kept = [(n, s) for n, s in zip(extents, steps, strict=True) if n != 1]
        if any(a[1] != b[0] * b[1] for a, b in itertools.pairwise(kept)) and 0 not in extents:
            return merged(storage.copy(x), groups)
        shape.append(math.prod(extents))
        strides.append(kept[-1][1] if kept else 0)
    return storage.view(x, tuple(shape), tuple(strides), x.offset)


# --- the two ways to sum products ---------------------------------------------------------------------------
def summed(x: Any, axes: Sequence[int]) -> Any:
    """The sum over axes in x's own dtype; for bools, whether any is true. x itself for no axes."""
    return sum(x, tuple(axes), x.dtype) if axes else x


def multiply_sum(x: Any, y: Any, axes: Sequence[int]) -> Any:
    """``sum(x * y)`` over axes of the broadcast operands, halves in float32."""
    dtype = x.dtype
    if axes and dtypes.is_narrow(dtype):
        x, y = cast(x, dtypes.float32), cast(y, dtypes.float32)
    return cast(summed(_graph.binary(MUL, x, y), axes), dtype)


def matrix_product(x: Any, y: Any) -> Any:
    """The MATMUL of two tensors of one dtype, both of two dimensions at least and of shapes that agree."""
    batch = broadcast_shapes("matmul", x.shape[:-2], y.shape[:-2])
    shape = (*batch, x.shape[-2], y.shape[-1])
    if 0 in shape:
        return _graph.tensor(_graph.record(EMPTY, (), shape, x.dtype))
    if x.shape[-1] == 0:
        return number(False if x.dtype.kind == "b" else 0, x.dtype, shape)
    return _graph.tensor(_graph.record(MATMUL, (x.node, y.node), shape, x.dtype))


# --- public -------------------------------------------------------------------------------------------------
@operation(
    np.matmul,
    operator="matmul",
    cases=(
        case((3, 4), (4, 5)),
        case((4,), (4,)),
        case((4,), (4, 5)),
        case((3, 4), (4,)),
        case((2, 3, 4), (4, 5)),
        case((2, 1, 3, 4), (3, 4, 2)),
        case((3, 0), (0, 2)),
    ),
    dtypes="biuf",
    ulp=16,
    slack=128,
)
def matmul(x1: Any, x2: Any, /) -> Any:
    """The matrix product.

    Parameters
    ----------
    x1 : array-like, shape (..., n, k) or (k,)
    x2 : array-like, shape (..., k, m) or (k,)
        Axes before the last two are broadcast.

    Returns
    -------
    tensor, shape (..., n, m) without the axes that vectors lack

    Raises
    ------
    ValueError
        For 0-d operands and shapes that do not agree.
    """
    x, y = promoted("matmul", x1, x2)
    if x.ndim == 0 or y.ndim == 0:
        raise ShapeError(
            f"[matmul] expected operands of one dimension at least, given shapes {x.shape} and {y.shape}"
        )
    if x.shape[-1] != y.shape[-1 if y.ndim == 1 else -2]:
        raise ShapeError(
            f"[matmul] expected as many columns on the left as rows on the right, "
            f"given shapes {x.shape} and {y.shape}"
        )
    if x.ndim == 1 and y.ndim == 1:
        return multiply_sum(x, y, (0,))
    if y.ndim == 1:
        product = matrix_product(x, reshape_to(y, (*y.shape, 1)))
        return reshape_to(product, product.shape[:-1])
    if x.ndim == 1:
        product = matrix_product(reshape_to(x, (1, *x.shape)), y)
        return reshape_to(product, (*product.shape[:-2], product.shape[-1]))
    broadcast_shapes("matmul", x.shape[:-2], y.shape[:-2])
    return matrix_product(x, y)


@operation(
    np.dot,
    method=True,
    cases=(
        case((4,), (4,)),
        case((3, 4), (4, 5)),
        case((2, 3, 4), (5, 4, 2)),
        case((3, 4), ()),
        case((3, 4), (4,)),
    ),
    ulp=16,
    slack=128,
)
def dot(a: Any, b: Any) -> Any:
    """The dot product: of vectors their inner product, of matrices the matrix product.

    Parameters
    ----------
    a, b : array-like
        With a 0-d operand it is the product; else it sums over the last axis of a and the last but one of b.

    Returns
    -------
    tensor
    """
    x, y = promoted("dot", a, b)
    if x.ndim == 0 or y.ndim == 0:
        return _graph.binary(MUL, x, y)
    return _contracted("dot", x, y, (x.ndim - 1,), (max(y.ndim - 2, 0),))


@operation(
    np.inner,
    cases=(case((4,), (4,)), case((3, 4), (5, 4)), case((2, 3, 4), (4,)), case((2, 2), ())),
    ulp=16,
    slack=128,
)
def inner(a: Any, b: Any) -> Any:
    """The sum of products over the last axes.

    Parameters
    ----------
    a, b : array-like
        Last axes of equal length.

    Returns
    -------
    tensor, shape (*a.shape[:-1], *b.shape[:-1])
    """
    x, y = promoted("inner", a, b)
    if x.ndim == 0 or y.ndim == 0:
        return _graph.binary(MUL, x, y)
    return _contracted("inner", x, y, (x.ndim - 1,), (y.ndim - 1,))


@operation(np.vdot, cases=(case((4,), (4,)), case((2, 3), (2, 3))), ulp=16, slack=128)
def vdot(a: Any, b: Any) -> Any:
    """The dot product of two tensors taken in one dimension.

    Parameters
    ----------
    a, b : array-like
        As many elements each.

    Returns
    -------
    tensor, 0-d
    """
    x, y = (reshape_to(t, (t.size,)) for t in promoted("vdot", a, b))
    if x.shape != y.shape:
        raise ShapeError(f"[vdot] expected as many elements in both, given {x.size} and {y.size}")
    return multiply_sum(x, y, (0,))


@operation(
    np.vecdot,
    cases=(case((3, 4), (3, 4)), case((3, 4), (4,)), case((4, 1, 3), (4, 2, 3), axis=0)),
    dtypes="biuf",
    ulp=16,
    slack=128,
)
def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """The dot products of vectors along an axis.

    Parameters
    ----------
    x1, x2 : array-like
        Equal lengths along the axis; the other axes are broadcast.
    axis : int

    Returns
    -------
    tensor
    """
    x, y = promoted("vecdot", x1, x2)
    operands = []
    for t in (x, y):
        k = as_axis(axis, t.ndim, "vecdot")
        operands.append(transposed(t, (*(j for j in range(t.ndim) if j != k), k)))
    x, y = operands
    if x.shape[-1] != y.shape[-1]:
        raise ShapeError(f"[vecdot] expected vectors of one length, given shapes {x.shape} and {y.shape}")
    return multiply_sum(x, y, (max(x.ndim, y.ndim) - 1,))


@operation(np.outer, cases=(case((3,), (4,)), case((2, 2), (3,))))
def outer(a: Any, b: Any) -> Any:
    """The product of every element of a with every element of b.

    Parameters
    ----------
    a, b : array-like
        Taken in one dimension.

    Returns
    -------
    tensor, shape (a.size, b.size)
    """
    x, y = (reshape_to(t, (t.size,)) for t in promoted("outer", a, b))
    return _graph.binary(MUL, expand_dims(x, 1), expand_dims(y, 0))


@operation(
    np.cross, cases=(case((4, 3), (4, 3)), case((3,), (2, 3)), case((3, 2), (3, 2), axis=0)), dtypes="iuf"
)
def cross(a: Any, b: Any, axis: int = -1) -> Any:
    """The cross product of vectors of length 3 along an axis.

    Parameters
    ----------
    a, b : array-like
        The other axes are broadcast.
    axis : int

    Returns
    -------
    tensor
    """
    x, y = promoted("cross", a, b)
    k, j = as_axis(axis, x.ndim, "cross"), as_axis(axis, y.ndim, "cross")
    if x.shape[k] != 3 or y.shape[j] != 3:
        raise ShapeError(f"[cross] expected vectors of length 3, given shapes {x.shape} and {y.shape}")

    def turned(t: Any, along: int, first: int) -> Any:
        """The components from `first` on, counted modulo 3."""
        return take(t, np.array([first, (first + 1) % 3, (first + 2) % 3]), along)

    left = _graph.binary(MUL, turned(x, k, 1), turned(y, j, 2))
    return _graph.binary(SUB, left, _graph.binary(MUL, turned(x, k, 2), turned(y, j, 1)))


@operation(np.kron, cases=(case((2, 3), (3, 2)), case((3,), (2, 2)), case((2, 2), ())))
def kron(a: Any, b: Any) -> Any:
    """The Kronecker product: b scaled by each element of a.

    Parameters
    ----------
    a, b : array-like

    Returns
    -------
    tensor
        Each extent is the product of the operands' extents.
    """
    x, y = promoted("kron", a, b)
    rank = max(x.ndim, y.ndim)
    x, y = (expand_dims(t, tuple(range(rank - t.ndim))) for t in (x, y))
    odd, even = tuple(range(1, 2 * rank, 2)), tuple(range(0, 2 * rank, 2))
    product = _graph.binary(MUL, expand_dims(x, odd), expand_dims(y, even))
    return merged(product, [2] * rank)


@operation(
    np.tensordot,
    cases=(case((3, 4, 5), (4, 5, 2)), case((3, 4), (2, 3), axes=((0,), (1,))), case((3,), (4,), axes=0)),
    ulp=16,
    slack=128,
)
def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """The sum of products over chosen axes.

    Parameters
    ----------
    a, b : array-like
    axes : int or pair of sequences of int
        How many of a's last and b's first axes, or which of each.

    Returns
    -------
    tensor
        The axes of a that remain, then those of b.
    """
    x, y = promoted("tensordot", a, b)
    try:
        left, right = axes
    except TypeError:
        count = as_int(axes, "tensordot", "axes")
        if not 0 <= count <= min(x.ndim, y.ndim):
            raise ShapeError(
                f"[tensordot] expected from 0 to {min(x.ndim, y.ndim)} axes, given {count}"
            ) from None
        left, right = range(x.ndim - count, x.ndim), range(count)
    except ValueError:
        raise ArgumentError(
            f"[tensordot] expected a number of axes or two sequences of them, given {axes!r}"
        ) from None
    pair = [tuple(s) if hasattr(s, "__iter__") else (s,) for s in (left, right)]
    return _contracted(
        "tensordot", x, y, as_axes(pair[0], x.ndim, "tensordot"), as_axes(pair[1], y.ndim, "tensordot")
    )


def _contracted(operation: str, x: Any, y: Any, left: Shape, right: Shape) -> Any:
    """The sum of products over pairs of axes."""
    if len(left) != len(right) or any(x.shape[i] != y.shape[j] for i, j in zip(left, right, strict=True)):
        raise ShapeError(
            f"[{operation}] expected axes {left} and {right} of equal lengths, "
            f"given shapes {x.shape} and {y.shape}"
        )
    free_x = [k for k in range(x.ndim) if k not in left]
    free_y = [k for k in range(y.ndim) if k not in right]
    if not left or (not free_x and not free_y):
        x = transposed(x, (*free_x, *left))
        y = transposed(y, (*free_y, *right))
        return multiply_sum(
            expand_dims(x, tuple(range(len(free_x), len(free_x) + len(free_y)))),
            y,
            range(len(free_x) + len(free_y), x.ndim + len(free_y)),
        )
    shape = (*(x.shape[k] for k in free_x), *(y.shape[k] for k in free_y))
    x = merged(transposed(x, (*free_x, *left)), (len(free_x), len(left)))
    y = merged(transposed(y, (*right, *free_y)), (len(right), len(free_y)))
    product = matrix_product(x, y)
    return (
        product
        if product.shape == shape
        else storage.view(product, shape, storage.contiguous_strides(shape), 0)
    )
