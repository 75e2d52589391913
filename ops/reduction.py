"""Reductions over axes: sums, products, extremes and their positions, truth, means and spreads."""

from __future__ import annotations

import math
from collections.abc import Callable
from math import prod as product
from typing import Any

import numpy as np

from . import _graph, dtypes
from . import primitives as p
from .arguments import Axes, Shape, Tensor, as_axes, as_axis, as_tensor, cast, number
from .dtypes import Dtype, is_float, is_narrow
from .elementwise import binary, deliver, select, unary
from .errors import ArgumentError, DtypeError, ShapeError
from .parts import diagonal
from .primitives import BOOL
from .registry import case, operation
from .storage import copy
from .view import along, broadcast_to, reshape_to

_CASES = (
    case((3, 5)),
    case((3, 5), axis=0),
    case((3, 5), axis=-1, keepdims=True),
    case((2, 3, 5), axis=(0, 2)),
    case(()),
)
_WITH_EMPTY = (*_CASES, case((0, 3), axis=0), case((3, 0)), case((2, 3), axis=()))


def reduced(x: Any, how: str, axes: Shape, keepdims: bool) -> Any:
    """Record REDUCE over axes counted from 0; no axes give a copy."""
    if not axes:
        return copy(x)
    shape = () if len(axes) == len(x.shape) else tuple(n for k, n in enumerate(x.shape) if k not in axes)
    result = _graph.tensor(_graph.record(p.REDUCE, (x.node,), shape, x.dtype, (how, tuple(sorted(axes)))))
    return _kept(result, x.shape, axes) if keepdims else result


def _over(axis: Axes, x: Any, name: str) -> Shape:
    """The axes that a reduction goes over; as in NumPy, one of a 0-d tensor may name its first or last."""
    return () if not x.shape and axis in (0, -1) else as_axes(axis, x.ndim, name)


def _kept(result: Any, shape: Shape, axes: Shape) -> Any:
    """The result of a reduction with its axes back at length 1."""
    return reshape_to(result, tuple(1 if k in axes else n for k, n in enumerate(shape)))


def _constant(shape: Shape, axes: Shape, keepdims: bool, value: Any, dtype: Dtype) -> Any:
    kept = tuple(1 if k in axes else n for k, n in enumerate(shape) if keepdims or k not in axes)
    return number(value, dtype, kept)


def _count(shape: Shape, axes: Shape) -> int:
    return product(shape[k] for k in axes)


def _masked(x: Any, where: Any, identity: Any, name: str) -> Any:
    """x with a reduction's identity where its mask is false."""
    if where is True:
        return x
    mask = cast(as_tensor(where, name), BOOL)
    return select(mask, x, identity)


def wide_sum(dtype: Dtype) -> Dtype:
    """The dtype in which NumPy adds and multiplies integers: 64 bits."""
    if dtype.kind in "bi":
        return dtypes.int64
    return dtypes.uint64 if dtype.kind == "u" else dtype


_SUM = """

    Parameters
    ----------
    x : tensor or array-like
    axis : int or tuple of int, optional
        The axes to reduce; None reduces all of them.
    dtype : dtype, optional
        To which elements are cast before; without it integers and bools become 64 bits wide, as in NumPy.
        Short floats accumulate in float32.
    out : tensor, optional
    keepdims : bool
        Keep the reduced axes at length 1.
    initial : number, optional
        Where the accumulation starts.
    where : tensor of bool, optional
        Elements to take.
    """


def _accumulation(
    name: str, how: str, of_bools: str, identity: int, numpy: tuple[Any, ...], line: str, **declaration: Any
) -> Callable[..., Tensor]:
    """Declare a sum or product under its name; `how` and `of_bools` are what REDUCE does."""

    def function(
        x: Any,
        /,
        axis: Axes = None,
        dtype: Any = None,
        out: Any = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = True,
    ) -> Tensor:
        x = as_tensor(x, name)
        axes = _over(axis, x, name)
        x = cast(x, wide_sum(x.dtype) if dtype is None else dtypes.as_dtype(dtype, name))
        steps, nothing = (of_bools, bool(identity)) if x.dtype == BOOL else (how, identity)
        x = _masked(x, where, nothing, name)
        if 0 in x.shape and _count(x.shape, axes) == 0:
            result = _constant(x.shape, axes, keepdims, nothing, x.dtype)
        else:
            result = reduced(x, steps, axes, keepdims)
        if initial is not None and initial != nothing:
            result = binary(p.ADD if how == "add" else p.MUL, result, initial)
        return deliver(result, out, name)

    return _entered(function, name, line + _SUM, numpy, cases=_WITH_EMPTY, **declaration)


def _entered(
    function: Callable[..., Tensor], name: str, doc: str, numpy: tuple[Any, ...], **declaration: Any
) -> Callable[..., Tensor]:
    """Enter a function made for one name into the table."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return operation(*numpy, method=True, **declaration)(function)


sum = _accumulation(
    "sum",
    "add",
    "or",
    0,
    (np.sum, (np.add, "reduce")),
    "The sum of elements over axes; 0 of none.",
    domain=(0, 4),
    ulp=4,
)
prod = _accumulation(
    "prod",
    "mul",
    "and",
    1,
    (np.prod, (np.multiply, "reduce")),
    "The product of elements over axes; 1 of none.",
    domain=(0.5, 1.5),
    ulp=16,
)


_EXTREME = """

    Parameters
    ----------
    x : tensor or array-like
    axis : int or tuple of int, optional
        The axes to reduce; None reduces all of them.
    out : tensor, optional
    keepdims : bool
        Keep the reduced axes at length 1.
    initial : number, optional
        Takes part; the answer where there are no elements.
    where : tensor of bool, optional
        Elements to take; `initial` must then be given.

    Raises
    ------
    ArgumentError
        Where there are no elements and no `initial`.
    """


def _extremum(name: str, primitive: p.Primitive, numpy: tuple[Any, ...], line: str) -> Callable[..., Tensor]:
    """Declare the reduction to an extreme element under its name."""

    def function(
        x: Any,
        /,
        axis: Axes = None,
        out: Any = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = True,
    ) -> Tensor:
        x = as_tensor(x, name)
        axes = _over(axis, x, name)
        if where is not True:
            if initial is None:
                raise ArgumentError(
                    f"[{name}] expected initial where a mask is given, given none: a {name} has no identity"
                )
            x = select(cast(as_tensor(where, name), BOOL), x, cast(as_tensor(initial, name), x.dtype))
        if 0 in x.shape and _count(x.shape, axes) == 0:
            if initial is None:
                raise ArgumentError(
                    f"[{name}] expected elements along axis {axis}, given shape {x.shape}: "
                    f"there is no {name} of none"
                )
            return deliver(_constant(x.shape, axes, keepdims, initial, x.dtype), out, name)
        result = reduced(x, primitive.name, axes, keepdims)
        if initial is not None:
            result = cast(binary(primitive, result, initial), x.dtype)
        return deliver(result, out, name)

    return _entered(function, name, line + _EXTREME, numpy, aliases=(f"a{name}",), cases=_CASES)


max = _extremum(
    "max", p.MAX, (np.max, (np.maximum, "reduce")), "The largest element over axes; NaN where there is one."
)
min = _extremum(
    "min", p.MIN, (np.min, (np.minimum, "reduce")), "The smallest element over axes; NaN where there is one."
)


@operation(np.ptp, cases=_CASES, dtypes="iuf")
def ptp(x: Any, /, axis: Axes = None, out: Any = None, keepdims: bool = False) -> Tensor:
    """The distance from the smallest to the largest element over axes."""
    x = as_tensor(x, "ptp")
    return deliver(
        binary(p.SUB, max(x, axis, keepdims=keepdims), min(x, axis, keepdims=keepdims)), out, "ptp"
    )


# --- truth --------------------------------------------------------------------------------------------
def _truth(name: str, how: str, x: Any, axis: Axes, out: Any, keepdims: bool, where: Any) -> Any:
    x = cast(as_tensor(x, name), BOOL)
    axes = _over(axis, x, name)
    identity = how == "and"
    x = _masked(x, where, identity, name)
    if _count(x.shape, axes) == 0:
        return deliver(_constant(x.shape, axes, keepdims, identity, BOOL), out, name)
    return deliver(reduced(x, how, axes, keepdims), out, name)


@operation(np.any, (np.logical_or, "reduce"), method=True, cases=_WITH_EMPTY)
def any(
    x: Any, /, axis: Axes = None, out: Any = None, keepdims: bool = False, *, where: Any = True
) -> Tensor:
    """Whether an element over axes is true; False of none. Parameters as for `sum`."""
    return _truth("any", "or", x, axis, out, keepdims, where)


@operation(np.all, (np.logical_and, "reduce"), method=True, cases=_WITH_EMPTY)
def all(
    x: Any, /, axis: Axes = None, out: Any = None, keepdims: bool = False, *, where: Any = True
) -> Tensor:
    """Whether all elements over axes are true; True of none. Parameters as for `sum`."""
    return _truth("all", "and", x, axis, out, keepdims, where)


@operation(np.count_nonzero, cases=_WITH_EMPTY)
def count_nonzero(x: Any, /, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """How many elements over axes are not 0, as int64."""
    return sum(cast(as_tensor(x, "count_nonzero"), BOOL), axis, keepdims=keepdims)


# --- positions of extremes ------------------------------------------------------------------------
def _position(name: str, x: Any, axis: int | None, out: Any, keepdims: bool) -> Any:
    x = as_tensor(x, name)
    shape = x.shape
    axes = tuple(range(x.ndim)) if axis is None else _over(axis, x, name)
    x, k = along(x, axis, name)
    if x.shape[k] == 0:
        raise ArgumentError(f"[{name}] expected elements along axis {axis}, given shape {shape}")
    rest = (*x.shape[:k], *x.shape[k + 1 :])
    result = _graph.tensor(_graph.record(p.REDUCE, (x.node,), rest, dtypes.int64, (name, (k,))))
    return deliver(_kept(result, shape, axes) if keepdims else result, out, name)


_ARG = (case((3, 5)), case((3, 5), axis=0), case((3, 5), axis=1, keepdims=True), case((2, 3, 5), axis=1))


@operation(np.argmax, method=True, cases=_ARG)
def argmax(x: Any, /, axis: int | None = None, out: Any = None, *, keepdims: bool = False) -> Tensor:
    """The position of the largest element along an axis: the first of equals, NaN counting as largest.

    Parameters
    ----------
    x : tensor or array-like
    axis : int, optional
        None takes the position in the flattened tensor.
    out : tensor, optional
    keepdims : bool
        Keep the reduced axes at length 1.

    Returns
    -------
    tensor of int64
    """
    return _position("argmax", x, axis, out, keepdims)


@operation(np.argmin, method=True, cases=_ARG)
def argmin(x: Any, /, axis: int | None = None, out: Any = None, *, keepdims: bool = False) -> Tensor:
    """The position of the smallest element along an axis: the first of equals, NaN counting as smallest.

    Parameters as for `argmax`.
    """
    return _position("argmin", x, axis, out, keepdims)


# --- means and spreads ----------------------------------------------------------------------------
def _mean_dtypes(x: Any, dtype: Any, name: str) -> tuple[Dtype, Dtype]:
    """The dtype in which elements are added and divided, and that of the result."""
    result = dtypes.floating(x.dtype) if dtype is None else dtypes.as_dtype(dtype, name)
    if not is_float(result):
        raise DtypeError(f"[{name}] expected a float dtype, given {result.name}")
    if is_narrow(result):
        return dtypes.float32, result
    wide = not is_float(x.dtype) and x.dtype.itemsize >= 4
    return (dtypes.float64 if wide else result), result


def _number_of(x: Any, axes: Shape, keepdims: bool, where: Any, dtype: Dtype) -> Any:
    """How many elements a reduction takes: a Python number, or a tensor where there is a mask."""
    if where is True:
        return float(_count(x.shape, axes))
    mask = broadcast_to(cast(as_tensor(where), BOOL), x.shape)
    return sum(mask, axes, dtype=dtype, keepdims=keepdims)


def _mean(x: Any, axes: Shape, keepdims: bool, where: Any, dtype: Dtype) -> Any:
    if not is_float(x.dtype) and x.dtype.itemsize <= 4:
        # Whole numbers add up exactly.
        total = cast(sum(x, axes, keepdims=keepdims, where=where), dtype)
    else:
        total = sum(cast(x, dtype), axes, keepdims=keepdims, where=where)
    return binary(p.DIV, total, _number_of(x, axes, keepdims, where, dtype))


@operation(np.mean, method=True, cases=(*_CASES, case((0, 3), axis=0)), domain=(0, 4), ulp=4)
def mean(
    x: Any,
    /,
    axis: Axes = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    *,
    where: Any = True,
) -> Tensor:
    """The arithmetic mean over axes; NaN of none.

    Parameters
    ----------
    x : tensor or array-like
    axis : int or tuple of int, optional
        The axes to reduce; None reduces all of them.
    dtype : dtype, optional
        Of the result: x's float dtype, or float32 of integers, without it. Integers add up exactly.
    out : tensor, optional
    keepdims : bool
        Keep the reduced axes at length 1.
    where : tensor of bool, optional
        Elements to take.
    """
    x = as_tensor(x, "mean")
    computed, result = _mean_dtypes(x, dtype, "mean")
    made = _mean(x, as_axes(axis, x.ndim, "mean"), keepdims, where, computed)
    return deliver(cast(made, result), out, "mean")


def variance(
    name: str, x: Any, axis: Axes, dtype: Any, ddof: Any, keepdims: bool, where: Any, center: Any, root: bool
) -> Any:
    """`var` and `std`, their arguments checked in the operation's own name."""
    x = as_tensor(x, name)
    axes = as_axes(axis, x.ndim, name)
    computed, result = _mean_dtypes(x, dtype, name)
    middle = (
        _mean(x, axes, True, where, computed) if center is None else cast(as_tensor(center, name), computed)
    )
    gap = binary(p.SUB, cast(x, computed), middle)
    total = sum(binary(p.MUL, gap, gap), axes, keepdims=keepdims, where=where)
    count = _number_of(x, axes, keepdims, where, computed)
    if isinstance(count, float):
        freedom: Any = count - ddof if count > ddof else 0.0
    else:
        freedom = binary(p.MAX, binary(p.SUB, count, ddof), 0.0)
    made = binary(p.DIV, total, freedom)
    return cast(unary(p.SQRT, made, computed) if root else made, result)


_SPREAD = """

    Parameters
    ----------
    x : tensor or array-like
    axis : int or tuple of int, optional
        The axes to reduce; None reduces all of them.
    dtype : dtype, optional
        Of the result: x's float dtype, or float32 of integers, without it.
    out : tensor, optional
    ddof, correction : number
        Subtracted from the number of elements before it divides; `correction` is the Array API's name.
    keepdims : bool
        Keep the reduced axes at length 1.
    where : tensor of bool, optional
        Elements to take.
    mean : tensor, optional
        The mean where it is known already, with the reduced axes at length 1.
    """
_SPREADS = (*_CASES, case((3, 5), axis=1, ddof=1))


def _spread(name: str, root: bool, numpy: Any, line: str) -> Callable[..., Tensor]:
    """Declare a measure of spread under its name."""

    def function(
        x: Any,
        /,
        axis: Axes = None,
        dtype: Any = None,
        out: Any = None,
        ddof: Any = 0,
        keepdims: bool = False,
        *,
        where: Any = True,
        mean: Any = None,
        correction: Any = None,
    ) -> Tensor:
        ddof = ddof if correction is None else correction
        return deliver(variance(name, x, axis, dtype, ddof, keepdims, where, mean, root), out, name)

    return _entered(function, name, line + _SPREAD, (numpy,), cases=_SPREADS, ulp=32, slack=64, dtypes="biuf")


var = _spread("var", False, np.var, "The variance over axes: the mean of squared distances from the mean.")
std = _spread("std", True, np.std, "The standard deviation over axes: the square root of `var`.")


@operation(np.average, cases=(case((3, 5)), case((3, 5), axis=0)), domain=(0, 4), ulp=4)
def average(
    x: Any, /, axis: Axes = None, weights: Any = None, returned: bool = False, *, keepdims: bool = False
) -> Tensor:
    """The mean over axes in which elements weigh differently.

    Parameters
    ----------
    x : tensor or array-like
    axis : int or tuple of int, optional
    weights : tensor, optional
        Of x's shape, or of one axis and as long as `axis`.
    returned : bool
        Also return the sum of the weights.
    keepdims : bool
    """
    x = as_tensor(x, "average")
    if weights is None:
        made = mean(x, axis, keepdims=keepdims)
        if not returned:
            return made
        return made, number(float(_count(x.shape, as_axes(axis, x.ndim, "average"))), made.dtype, made.shape)
    w = as_tensor(weights, "average")
    if w.shape != x.shape:
        if (
            axis is None
            or isinstance(axis, tuple)
            or w.ndim != 1
            or w.shape[0] != x.shape[as_axis(axis, x.ndim, "average")]
        ):
            raise ShapeError(
                f"[average] expected weights of shape {x.shape} or of one axis to reduce, given {w.shape}"
            )
        k = as_axis(axis, x.ndim, "average")
        w = broadcast_to(reshape_to(w, tuple(w.shape[0] if n == k else 1 for n in range(x.ndim))), x.shape)
    dtype = dtypes.floating(dtypes.result_type(x, w))
    x, w = cast(x, dtype), cast(w, dtype)
    scale = sum(w, axis, keepdims=keepdims)
    made = binary(p.DIV, sum(binary(p.MUL, x, w), axis, keepdims=keepdims), scale)
    return (made, scale) if returned else made


def _logsumexp_reference(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    from scipy import special

    return special.logsumexp(x, axis=axis, keepdims=keepdims)


@operation(reference=_logsumexp_reference, method=True, cases=_CASES, ulp=8, domain=(0.5, 8), dtypes="iuf")
def logsumexp(x: Any, /, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """log(sum(exp(x))) over axes without overflow; -inf of none.

    Parameters
    ----------
    x : tensor or array-like
    axis : int or tuple of int, optional
    keepdims : bool
    """
    x = as_tensor(x, "logsumexp")
    x = cast(x, dtypes.floating(x.dtype))
    if is_narrow(x.dtype):  # the steps would round too often
        return cast(logsumexp(cast(x, dtypes.float32), axis, keepdims), x.dtype)
    axes = as_axes(axis, x.ndim, "logsumexp")
    if _count(x.shape, axes) == 0:
        return _constant(x.shape, axes, keepdims, -math.inf, x.dtype)
    largest = max(x, axes, keepdims=True)
    # An infinite maximum would give inf - inf.
    finite = binary(p.LT, unary(p.ABS, largest, x.dtype), math.inf, BOOL)
    shift = select(finite, largest, 0.0)
    total = sum(unary(p.EXP, binary(p.SUB, x, shift), x.dtype), axes, keepdims=True)
    made = binary(p.ADD, unary(p.LOG, total, x.dtype), shift)
    if keepdims:
        return made
    return reshape_to(made, tuple(n for k, n in enumerate(x.shape) if k not in axes))


@operation(
    np.trace,
    method=True,
    cases=(case((3, 4)), case((2, 3, 4), offset=1, axis1=1, axis2=2)),
    domain=(0, 4),
    ulp=4,
)
def trace(
    x: Any, /, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None
) -> Tensor:
    """The sum along a diagonal; parameters as for `diagonal`, and `dtype` as for `sum`."""
    return sum(diagonal(x, offset, axis1, axis2), -1, dtype, out)
