"""Running sums, products and extremes along one axis, and the differences of neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _graph, dtypes
from . import primitives as p
from .arguments import Tensor, as_axis, as_int, as_tensor, cast, number
from .elementwise import binary, deliver
from .errors import ArgumentError
from .joining import concat
from .primitives import BOOL
from .reduction import sum, wide_sum
from .registry import case, operation
from .storage import copy
from .traced import is_number
from .view import along, broadcast_to, narrowed, reshape_to


def _scan(name: str, how: str, x: Any, axis: int | None, dtype: Any, out: Any) -> Any:
    x, k = along(as_tensor(x, name), axis, name)
    if how in ("add", "mul"):
        x = cast(x, wide_sum(x.dtype) if dtype is None else dtypes.as_dtype(dtype, name))
    result = (
        copy(x)
        if x.size == 0
        else _graph.tensor(_graph.record(p.SCAN, (x.node,), x.shape, x.dtype, (how, k)))
    )
    return deliver(result, out, name)


_SCANS = (case((3, 5)), case((3, 5), axis=0), case((3, 5), axis=-1), case((), axis=0))


@operation(np.cumsum, (np.add, "accumulate"), method=True, cases=_SCANS, domain=(0, 4), ulp=16)
def cumsum(x: Any, /, axis: int | None = None, dtype: Any = None, out: Any = None) -> Tensor:
    """The sums of the elements up to each position along an axis; None runs through the flattened tensor.

    `dtype` is as for `sum`.
    """
    return _scan("cumsum", "add", x, axis, dtype, out)


@operation(np.cumprod, (np.multiply, "accumulate"), method=True, cases=_SCANS, domain=(0.5, 1.5), ulp=32)
def cumprod(x: Any, /, axis: int | None = None, dtype: Any = None, out: Any = None) -> Tensor:
    """The products of the elements up to each position along an axis; None runs through the flattened tensor.

    `dtype` is as for `sum`.
    """
    return _scan("cumprod", "mul", x, axis, dtype, out)


@operation((np.maximum, "accumulate"), cases=_SCANS[1:3], reference=np.maximum.accumulate, dtypes="iuf")
def cummax(x: Any, /, axis: int = 0, out: Any = None) -> Tensor:
    """The largest of the elements up to each position along an axis."""
    return _scan("cummax", "max", x, axis, None, out)


@operation((np.minimum, "accumulate"), cases=_SCANS[1:3], reference=np.minimum.accumulate, dtypes="iuf")
def cummin(x: Any, /, axis: int = 0, out: Any = None) -> Tensor:
    """The smallest of the elements up to each position along an axis."""
    return _scan("cummin", "min", x, axis, None, out)


def _cumulative(name: str, how: str, x: Any, axis: int | None, dtype: Any, start: int | None) -> Any:
    x = as_tensor(x, name)
    if axis is None:
        if x.ndim > 1:
            raise ArgumentError(f"[{name}] expected an axis for a tensor of {x.ndim} dimensions, given none")
        axis = 0
    made = _scan(name, how, x, axis, dtype, None)
    if start is None:
        return made
    k = as_axis(axis, made.ndim, name)
    first = number(start, made.dtype, (*made.shape[:k], 1, *made.shape[k + 1 :]))
    return concat([first, made], k)


@operation(
    np.cumulative_sum, cases=(case((5,)), case((3, 5), axis=1, include_initial=True)), domain=(0, 4), ulp=16
)
def cumulative_sum(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """`cumsum` by the Array API: an axis is needed but for one dimension; 0 can be put in front."""
    return _cumulative("cumulative_sum", "add", x, axis, dtype, 0 if include_initial else None)


@operation(
    np.cumulative_prod,
    cases=(case((5,)), case((3, 5), axis=1, include_initial=True)),
    domain=(0.5, 1.5),
    ulp=32,
)
def cumulative_prod(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """`cumprod` by the Array API: an axis is needed but for one dimension; 1 can be put in front."""
    return _cumulative("cumulative_prod", "mul", x, axis, dtype, 1 if include_initial else None)


@operation(
    np.diff, cases=(case((5,)), case((3, 5), n=2, axis=0), case((3, 5), prepend=np.zeros((3, 1), bool)))
)
def diff(x: Any, /, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Tensor:
    """The n-th differences of neighbours along an axis; of bools, whether neighbours differ.

    Parameters
    ----------
    x : tensor or array-like
    n : int
        How often differences are taken.
    axis : int
    prepend, append : tensor or number, optional
        Joined to x before.
    """
    x = as_tensor(x, "diff")
    times = as_int(n, "diff", "n")
    if times < 0:
        raise ArgumentError(f"[diff] expected a number of differences that is not negative, given {times}")
    k = as_axis(axis, x.ndim, "diff")
    edge = (*x.shape[:k], 1, *x.shape[k + 1 :])

    def joined_part(extra: Any) -> list[Any]:
        if extra is None:
            return []
        if is_number(extra):
            extra = number(extra, dtypes.weak(x.dtype, extra.__class__), operation="diff")
        else:
            extra = as_tensor(extra, "diff")
        return [broadcast_to(extra, edge) if extra.ndim == 0 else extra]

    parts = [*joined_part(prepend), x, *joined_part(append)]
    x = x if len(parts) == 1 else concat(parts, k)
    primitive = p.XOR if x.dtype == BOOL else p.SUB
    for _ in range(times):
        length = x.shape[k]
        if length == 0:
            break
        x = binary(primitive, narrowed(x, k, 1, length), narrowed(x, k, 0, length - 1))
    return copy(x) if times == 0 else x


@operation(
    np.trapezoid,
    cases=(case((5,)), case((3, 5), dx=0.5), case((3, 5), axis=0)),
    domain=(0, 4),
    ulp=8,
    dtypes="iuf",
)
def trapezoid(y: Any, /, x: Any = None, dx: float = 1.0, axis: int = -1) -> Tensor:
    """The integral along an axis by the trapezoidal rule.

    Parameters
    ----------
    y : tensor or array-like
    x : tensor, optional
        Where the values lie; without it they are `dx` apart.
    dx : float
    axis : int
    """
    y = as_tensor(y, "trapezoid")
    y = cast(y, dtypes.floating(y.dtype))
    k = as_axis(axis, y.ndim, "trapezoid")
    n = y.shape[k]
    pairs = binary(p.ADD, narrowed(y, k, 1 if n else 0, n), narrowed(y, k, 0, n - 1 if n else 0))
    if x is None:
        return sum(binary(p.MUL, pairs, float(dx) / 2), k)
    gaps = diff(cast(as_tensor(x, "trapezoid"), y.dtype))
    if gaps.ndim == 1 and y.ndim > 1:
        gaps = reshape_to(gaps, tuple(gaps.size if j == k else 1 for j in range(y.ndim)))
    return sum(binary(p.MUL, binary(p.MUL, pairs, gaps), 0.5), k)
