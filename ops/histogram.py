"""Counting into bins, and functions given by samples."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import dtypes, host
from .arguments import as_int, as_tensor, as_tensors, cast
from .errors import ArgumentError, DtypeError, ShapeError
from .indexing import INT64
from .registry import case, operation

Array = host.Array


@operation(np.bincount, cases=(case(np.array([0, 1, 1, 3])), case(np.array([0, 1, 1, 3]), minlength=6)))
def bincount(x: Any, weights: Any = None, minlength: int = 0) -> Any:
    """How often each integer from 0 up occurs, or the sum of its weights. A sync point.

    Parameters
    ----------
    x : array-like of integers from 0 up, one-dimensional
    weights : array-like, optional
        Of x's shape.
    minlength : int
        The least length of the result.

    Returns
    -------
    tensor
        int64, or float64 with weights.
    """
    x = as_tensor(x, "bincount")
    if x.ndim != 1:
        raise ShapeError(f"[bincount] expected one dimension, given shape {x.shape}")
    if not dtypes.is_integer(x.dtype) and x.dtype.kind != "b":
        raise DtypeError(f"[bincount] expected integers, given {x.dtype.name}")
    known = host.values(x).astype(np.int64)
    if known.size and known.min() < 0:
        raise ArgumentError(f"[bincount] expected integers from 0 up, given {known.min()}")
    least = as_int(minlength, "bincount", "minlength")
    if weights is None:
        return host.from_array(np.bincount(known, minlength=least), "bincount")
    given = host.values(as_tensor(weights, "bincount"))
    if given.shape != known.shape:
        raise ShapeError(f"[bincount] expected weights of shape {known.shape}, given {given.shape}")
    return host.from_array(np.bincount(known, given.astype(np.float64), least), "bincount")


@operation(
    np.histogram,
    cases=(case((50,), bins=5, range=(-2.0, 2.0)), case((50,), bins=np.array([-2.0, -1.0, 0.0, 3.0]))),
    dtypes="iuf",
)
def histogram(
    x: Any,
    bins: Any = 10,
    range: tuple[float, float] | None = None,
    density: bool = False,
    weights: Any = None,
) -> Any:
    """How many elements fall into each bin. A sync point.

    Parameters
    ----------
    x : array-like
        Taken in one dimension.
    bins : int or array-like
        The number of equal bins, or their edges in ascending order; the last edge belongs to the last bin.
    range : (float, float), optional
        Where equal bins begin and end; the least and greatest element by default.
    density : bool
        Give the probability density in place of counts.
    weights : array-like, optional
        Of x's shape.

    Returns
    -------
    counts : tensor
        int64; a float dtype with weights or density.
    edges : tensor of float64, one more than bins
    """
    known = host.comparable(host.values(as_tensor(x, "histogram")))
    edges = bins if isinstance(bins, int | str) else host.values(as_tensor(bins, "histogram"))
    given = None if weights is None else host.values(as_tensor(weights, "histogram"))
    try:
        counts, found = np.histogram(known, edges, range, density or None, given)
    except (ValueError, TypeError) as error:
        raise ArgumentError(
            f"[histogram] expected bins and range that NumPy takes, given {bins!r:.60} and {range}: {error}"
        ) from None
    return host.from_array(np.asarray(counts), "histogram"), host.from_array(found, "histogram")


@operation(
    np.digitize,
    cases=(case((6,), np.array([-1.0, 0.0, 2.0])), case((6,), np.array([2.0, 0.0, -1.0]), right=True)),
    dtypes="f",
)
def digitize(x: Any, bins: Any, right: bool = False) -> Any:
    """The bin into which each element falls.

    Parameters
    ----------
    x : array-like
    bins : array-like, one-dimensional, in ascending or descending order
    right : bool
        Whether a bin holds its right edge, not its left one.

    Returns
    -------
    tensor of int64, of x's shape
    """
    x, edges = as_tensor(x, "digitize"), as_tensor(bins, "digitize")
    if edges.ndim != 1:
        raise ShapeError(f"[digitize] expected bins of one dimension, given shape {edges.shape}")
    return host.call("digitize_on_host", (x, edges), x.shape, INT64, bool(right))


@host.host_function
def digitize_on_host(x: Array, edges: Array, right: bool) -> Array:
    return np.asarray(np.digitize(host.comparable(x), host.comparable(edges), right))


@operation(np.interp)
def interp(
    x: Any,
    xp: Any,
    fp: Any,
    left: float | None = None,
    right: float | None = None,
    period: float | None = None,
) -> Any:
    """Linear interpolation between samples.

    Parameters
    ----------
    x : array-like
        Where to evaluate.
    xp, fp : array-like, one-dimensional
        The samples' places, ascending, and values.
    left, right : float, optional
        The value outside the samples; the first and last sample by default.
    period : float, optional
        Of the places.

    Returns
    -------
    tensor
        The float dtype of the operands; computed in float64.
    """
    x, xp, fp = as_tensors("interp", (x, xp, fp))
    if xp.ndim != 1 or xp.shape != fp.shape or not xp.size:
        raise ShapeError(f"[interp] expected samples of one equal length, given {xp.shape} and {fp.shape}")
    if period == 0:
        raise ArgumentError("[interp] expected a period other than 0, given 0")
    dtype = dtypes.floating(dtypes.result_type(x, xp, fp))
    return host.call("interp_on_host", (x, xp, fp), x.shape, dtype, left, right, period)


@host.host_function
def interp_on_host(
    x: Array, xp: Array, fp: Array, left: float | None, right: float | None, period: float | None
) -> Array:
    x, xp, fp = (a.astype(np.float64) for a in (x, xp, fp))
    return np.asarray(np.interp(x, xp, fp, left, right, period))


@operation(
    np.convolve,
    cases=(case((7,), (3,)), case((3,), (7,), mode="same"), case((7,), (3,), mode="valid")),
    ulp=16,
    slack=128,
)
def convolve(x: Any, y: Any, mode: str = "full") -> Any:
    """The discrete convolution of two sequences.

    Parameters
    ----------
    x, y : array-like, one-dimensional
    mode : {"full", "same", "valid"}
        Every overlap, as many as the longer has, or only whole overlaps.

    Returns
    -------
    tensor
        float16 and bfloat16 accumulate in float32.
    """
    x, y = as_tensors("convolve", (x, y))
    if x.ndim != 1 or y.ndim != 1 or not x.size or not y.size:
        raise ShapeError(
            f"[convolve] expected two sequences of one dimension, not empty, given {x.shape} and {y.shape}"
        )
    n, m = max(x.size, y.size), min(x.size, y.size)
    lengths = {"full": n + m - 1, "same": n, "valid": n - m + 1}
    if mode not in lengths:
        raise ArgumentError(f"[convolve] expected mode 'full', 'same' or 'valid', given {mode!r}")
    dtype = dtypes.promote_types(x.dtype, y.dtype)
    return host.call("convolve_on_host", (cast(x, dtype), cast(y, dtype)), (lengths[mode],), dtype, mode)


@host.host_function
def convolve_on_host(x: Array, y: Array, mode: Any) -> Array:
    if dtypes.is_narrow(x.dtype):
        return np.convolve(x.astype(np.float32), y.astype(np.float32), mode).astype(x.dtype)
    return np.convolve(x, y, mode)
