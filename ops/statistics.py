"""Reductions that leave NaN out, and order statistics, which the host computes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from . import dtypes
from . import primitives as p
from .accumulation import cumprod, cumsum
from .arguments import Axes, Tensor, as_axes, as_tensor, cast
from .dtypes import is_float
from .elementwise import binary, deliver, select, unary
from .errors import ArgumentError
from .host import call, host_function
from .primitives import BOOL
from .reduction import argmax, argmin, max, mean, min, prod, sum, variance
from .registry import case, operation

_CASES = (
    case((3, 5)),
    case((3, 5), axis=0),
    case((3, 5), axis=-1, keepdims=True),
    case((2, 3, 5), axis=(0, 2)),
)


def _nan(x: Any) -> Any:
    return binary(p.NE, x, x, BOOL)


def _without(x: Any, value: float, name: str) -> Any:
    """x with a number in place of NaN."""
    x = as_tensor(x, name)
    return select(_nan(x), value, x) if is_float(x.dtype) else x


@operation(np.nansum, cases=_CASES, domain=(0, 4), ulp=4)
def nansum(
    x: Any, /, axis: Axes = None, dtype: Any = None, out: Any = None, keepdims: bool = False
) -> Tensor:
    """`sum` in which NaN counts as 0."""
    return sum(_without(x, 0.0, "nansum"), axis, dtype, out, keepdims)


@operation(np.nanprod, cases=_CASES, domain=(0.5, 1.5), ulp=16)
def nanprod(
    x: Any, /, axis: Axes = None, dtype: Any = None, out: Any = None, keepdims: bool = False
) -> Tensor:
    """`prod` in which NaN counts as 1."""
    return prod(_without(x, 1.0, "nanprod"), axis, dtype, out, keepdims)


@operation(np.nancumsum, cases=(case((3, 5)), case((3, 5), axis=1)), domain=(0, 4), ulp=16)
def nancumsum(x: Any, /, axis: int | None = None, dtype: Any = None, out: Any = None) -> Tensor:
    """`cumsum` in which NaN counts as 0."""
    return cumsum(_without(x, 0.0, "nancumsum"), axis, dtype, out)


@operation(np.nancumprod, cases=(case((3, 5)), case((3, 5), axis=1)), domain=(0.5, 1.5), ulp=32)
def nancumprod(x: Any, /, axis: int | None = None, dtype: Any = None, out: Any = None) -> Tensor:
    """`cumprod` in which NaN counts as 1."""
    return cumprod(_without(x, 1.0, "nancumprod"), axis, dtype, out)


def _extreme_of_numbers(reduction: Any, worst: float, x: Any, axis: Axes, out: Any, keepdims: bool) -> Any:
    name = f"nan{reduction.__name__}"
    x = as_tensor(x, name)
    if not is_float(x.dtype):
        return reduction(x, axis, out, keepdims)
    missing = _nan(x)
    best = reduction(select(missing, worst, x), axis, keepdims=keepdims)
    nothing = min(missing, axis, keepdims=keepdims)
    return deliver(select(nothing, math.nan, best), out, name)


@operation(np.nanmax, cases=_CASES, dtypes="iuf")
def nanmax(x: Any, /, axis: Axes = None, out: Any = None, keepdims: bool = False) -> Tensor:
    """The largest element over axes, NaN left out; NaN where there is nothing else."""
    return _extreme_of_numbers(max, -math.inf, x, axis, out, keepdims)


@operation(np.nanmin, cases=_CASES, dtypes="iuf")
def nanmin(x: Any, /, axis: Axes = None, out: Any = None, keepdims: bool = False) -> Tensor:
    """The smallest element over axes, NaN left out; NaN where there is nothing else."""
    return _extreme_of_numbers(min, math.inf, x, axis, out, keepdims)


@operation(np.nanargmax, cases=(case((3, 5)), case((3, 5), axis=1)))
def nanargmax(x: Any, /, axis: int | None = None, out: Any = None, *, keepdims: bool = False) -> Tensor:
    """The position of the largest element along an axis, NaN left out; 0 where there is nothing else."""
    return argmax(_without(x, -math.inf, "nanargmax"), axis, out, keepdims=keepdims)


@operation(np.nanargmin, cases=(case((3, 5)), case((3, 5), axis=1)))
def nanargmin(x: Any, /, axis: int | None = None, out: Any = None, *, keepdims: bool = False) -> Tensor:
    """The position of the smallest element along an axis, NaN left out; 0 where there is nothing else."""
    return argmin(_without(x, math.inf, "nanargmin"), axis, out, keepdims=keepdims)


@operation(np.nanmean, cases=_CASES, domain=(0, 4), ulp=4)
def nanmean(
    x: Any, /, axis: Axes = None, dtype: Any = None, out: Any = None, keepdims: bool = False
) -> Tensor:
    """The mean over axes, NaN left out; NaN where there is nothing else."""
    x = as_tensor(x, "nanmean")
    return mean(
        x, axis, dtype, out, keepdims, where=unary(p.NOT, _nan(x), BOOL) if is_float(x.dtype) else True
    )


@operation(np.nanvar, cases=_CASES, ulp=32, slack=64, dtypes="biuf")
def nanvar(
    x: Any, /, axis: Axes = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: bool = False
) -> Tensor:
    """The variance over axes, NaN left out; NaN where too few elements remain."""
    return _spread("nanvar", x, axis, dtype, out, ddof, keepdims, False)


@operation(np.nanstd, cases=_CASES, ulp=32, slack=64, dtypes="biuf")
def nanstd(
    x: Any, /, axis: Axes = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: bool = False
) -> Tensor:
    """The standard deviation over axes, NaN left out; NaN where too few elements remain."""
    return _spread("nanstd", x, axis, dtype, out, ddof, keepdims, True)


def _spread(
    name: str, x: Any, axis: Axes, dtype: Any, out: Any, ddof: Any, keepdims: bool, root: bool
) -> Any:
    x = as_tensor(x, name)
    where = unary(p.NOT, _nan(x), BOOL) if is_float(x.dtype) else True
    return deliver(variance(name, x, axis, dtype, ddof, keepdims, where, None, root), out, name)


# --- order statistics -----------------------------------------------------------------------------------
@host_function
def quantile_on_host(x: Any, q: Any, axes: Any, method: str, keepdims: bool, leave_out_nan: bool) -> Any:
    function = np.nanquantile if leave_out_nan else np.quantile
    return function(x.astype(np.float64), q, axis=axes, method=method, keepdims=keepdims)  # type: ignore[call-overload]


def _quantile(
    name: str,
    x: Any,
    q: Any,
    axis: Axes,
    out: Any,
    method: str,
    keepdims: bool,
    scale: float,
    leave_out_nan: bool,
) -> Any:
    x = as_tensor(x, name)
    axes = as_axes(axis, x.ndim, name)
    if any(x.shape[k] == 0 for k in axes):
        raise ArgumentError(f"[{name}] expected elements along axis {axis}, given shape {x.shape}")
    given = np.asarray(q, np.float64) / scale if not hasattr(q, "node") else None
    if given is not None and not np.all((given >= 0) & (given <= 1)):
        raise ArgumentError(f"[{name}] expected numbers from 0 to {scale:g}, given {q!r}")
    points = as_tensor(given, name) if given is not None else binary(p.DIV, cast(q, dtypes.float64), scale)
    dtype = dtypes.floating(x.dtype)
    inner = tuple(1 if k in axes else n for k, n in enumerate(x.shape) if keepdims or k not in axes)
    wide = dtypes.float32 if dtypes.is_narrow(dtype) else dtype
    made = call(
        "quantile_on_host",
        (x, points),
        (*points.shape, *inner),
        wide,
        axes,
        method,
        keepdims,
        leave_out_nan,
    )
    return deliver(cast(made, dtype), out, name)


_QUANTILE = """

    Parameters
    ----------
    x : tensor or array-like
    {q}axis : int or tuple of int, optional
        The axes to reduce; None reduces all of them.
    out : tensor, optional
    {method}keepdims : bool
        Keep the reduced axes at length 1.

    Returns
    -------
    tensor
        Of x's float dtype, or float32 of integers; computed on the host.
    """
_Q = "q : number or tensor\n        From 0 to {top}; the axes of a tensor come first in the result.\n    "
_METHOD = "method : str\n        How to choose between neighbours, as for `numpy.quantile`.\n    "
_QCASES = (
    case((3, 5), args=(0.25,)),
    case((3, 5), args=([0.1, 0.5],), axis=1),
    case((3, 5), args=(0.5,), keepdims=True),
)
_PCASES = (case((3, 5), args=(25,)), case((3, 5), args=([10, 50],), axis=1))


@operation(np.quantile, cases=_QCASES, ulp=16, dtypes="iuf", domain=(0.5, 4))
def quantile(
    x: Any, q: Any, /, axis: Axes = None, out: Any = None, *, method: str = "linear", keepdims: bool = False
) -> Tensor:
    """The number below which a share of the elements over axes lies."""
    return _quantile("quantile", x, q, axis, out, method, keepdims, 1.0, False)


@operation(np.nanquantile, cases=_QCASES, ulp=16, dtypes="iuf", domain=(0.5, 4))
def nanquantile(
    x: Any, q: Any, /, axis: Axes = None, out: Any = None, *, method: str = "linear", keepdims: bool = False
) -> Tensor:
    """`quantile`, NaN left out."""
    return _quantile("nanquantile", x, q, axis, out, method, keepdims, 1.0, True)


@operation(np.percentile, cases=_PCASES, ulp=16, dtypes="iuf", domain=(0.5, 4))
def percentile(
    x: Any, q: Any, /, axis: Axes = None, out: Any = None, *, method: str = "linear", keepdims: bool = False
) -> Tensor:
    """The number below which a percentage of the elements over axes lies."""
    return _quantile("percentile", x, q, axis, out, method, keepdims, 100.0, False)


@operation(np.nanpercentile, cases=_PCASES, ulp=16, dtypes="iuf", domain=(0.5, 4))
def nanpercentile(
    x: Any, q: Any, /, axis: Axes = None, out: Any = None, *, method: str = "linear", keepdims: bool = False
) -> Tensor:
    """`percentile`, NaN left out."""
    return _quantile("nanpercentile", x, q, axis, out, method, keepdims, 100.0, True)


@operation(np.median, cases=_CASES, ulp=16, dtypes="iuf", domain=(0.5, 4))
def median(x: Any, /, axis: Axes = None, out: Any = None, keepdims: bool = False) -> Tensor:
    """The middle element over axes, or the mean of the two in the middle."""
    return _quantile("median", x, 0.5, axis, out, "linear", keepdims, 1.0, False)


@operation(np.nanmedian, cases=_CASES, ulp=16, dtypes="iuf", domain=(0.5, 4))
def nanmedian(x: Any, /, axis: Axes = None, out: Any = None, keepdims: bool = False) -> Tensor:
    """`median`, NaN left out."""
    return _quantile("nanmedian", x, 0.5, axis, out, "linear", keepdims, 1.0, True)


for _function, _top in (
    (quantile, "1"),
    (nanquantile, "1"),
    (percentile, "100"),
    (nanpercentile, "100"),
    (median, ""),
    (nanmedian, ""),
):
    _function.__doc__ = (_function.__doc__ or "") + _QUANTILE.format(
        q=_Q.format(top=_top) if _top else "", method=_METHOD if _top else ""
    )
