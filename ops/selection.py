"""Elementwise operations whose arguments are more than operands: casts, rounding, choosing, tolerances."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from . import _graph, dtypes
from . import primitives as p
from .arguments import Tensor, as_int, as_tensor, as_tensors, broadcast_shapes, cast, number, promoted
from .dtypes import is_float, is_integer
from .elementwise import binary, deliver, select, unary
from .errors import ArgumentError, CastingError, DtypeError, ShapeError
from .host import call, host_function, values
from .primitives import BOOL
from .registry import case, find, operation
from .storage import assign, copy
from .traced import is_number, plain

TensorBase = _graph.TensorBase


@operation(
    np.astype,
    method=True,
    cases=(case((3, 5), args=(np.float32,)), case((3, 5), args=(np.int16,)), case((4,), args=(np.bool_,))),
)
def astype(x: Any, dtype: Any, /, casting: str = "unsafe", copy: bool = True) -> Tensor:
    """Cast to a dtype.

    A float becomes an integer without its fraction; out of the integer's range it becomes the nearest end
    of the range, and NaN becomes 0.

    Parameters
    ----------
    x : tensor or array-like
    dtype : dtype
    casting : {"no", "equiv", "safe", "same_kind", "unsafe"}
        The rule that the cast must obey, as in NumPy.
    copy : bool
        Whether the result is a new tensor even where x has the dtype already.

    Returns
    -------
    tensor

    Raises
    ------
    DtypeError
        Where the rule does not allow the cast.
    """
    x = as_tensor(x, "astype")
    wanted = dtypes.as_dtype(dtype, "astype")
    if casting != "unsafe" and not dtypes.can_cast(x.dtype, wanted, casting):
        raise CastingError(
            f"[astype] expected a dtype to which {x.dtype.name} casts under the rule {casting!r}, "
            f"given {wanted.name}"
        )
    if x.dtype == wanted:
        return _copy(x) if copy else x
    return unary(p.CAST, x, wanted)


_copy = copy


@operation(
    np.round,
    np.around,
    method=True,
    aliases=("around",),
    dtypes="f",
    cases=(case((3, 5)), case((3, 5), decimals=2), case((3, 5), decimals=-1)),
)
def round(x: Any, /, decimals: int = 0, out: Any = None) -> Tensor:
    """Round to a number of decimals, halves to the even neighbour.

    Parameters
    ----------
    x : tensor or array-like
    decimals : int
        Digits after the point; negative ones count before it.
    out : tensor, optional

    Returns
    -------
    tensor
        Of x's dtype.
    """
    x = as_tensor(x, "round")
    decimals = as_int(decimals, "round", "decimals")
    dtype = x.dtype
    if not is_float(dtype):
        if decimals >= 0 or dtype == BOOL:
            return deliver(copy(x), out, "round")
        scale = 10.0**-decimals
        tens = unary(p.RINT, binary(p.DIV, cast(x, dtypes.float64), scale), dtypes.float64)
        return deliver(cast(binary(p.MUL, tens, scale), dtype), out, "round")
    if decimals == 0:
        return deliver(unary(p.RINT, x, dtype), out, "round")
    scale = 10.0 ** abs(decimals)
    first, second = (p.MUL, p.DIV) if decimals > 0 else (p.DIV, p.MUL)
    return deliver(binary(second, unary(p.RINT, binary(first, x, scale), dtype), scale), out, "round")


@operation(
    np.clip,
    method=True,
    cases=(case((3, 5), args=(1, 3)), case((3, 5), (5,), (3, 1)), case((3, 5), args=(None, 2))),
)
def clip(x: Any, /, min: Any = None, max: Any = None, out: Any = None, **alias: Any) -> Tensor:
    """Bring values below `min` to it and those above `max` to it.

    Parameters
    ----------
    x : tensor or array-like
    min, max : tensor, array-like, number or None
        The bounds, broadcast with x; None leaves that side open. A Python integer beyond the range of x's
        dtype counts as the end of the range. `a_min` and `a_max` are NumPy's older names.
    out : tensor, optional

    Returns
    -------
    tensor
        ``minimum(maximum(x, min), max)``; NaN stays NaN.
    """
    low, high = alias.pop("a_min", min), alias.pop("a_max", max)
    if alias:
        raise TypeError(f"clip() got an unexpected keyword argument {next(iter(alias))!r}")
    x = as_tensor(x, "clip")
    if is_integer(x.dtype):
        limits = np.iinfo(x.dtype)
        low, high = (
            sorted((limits.min, plain(bound), limits.max))[1] if bound.__class__ is int else bound
            for bound in (low, high)
        )
    result = x
    for primitive, bound in ((p.MAX, low), (p.MIN, high)):
        if bound is not None:
            bound = bound if is_number(bound) else as_tensor(bound, "clip")
            try:
                result = binary(primitive, result, bound)
            except ShapeError as error:
                raise error.of("clip") from None
    return deliver(copy(x) if result is x else result, out, "clip")


@operation(
    np.where,
    cases=(
        case(np.array([[True], [False], [True]]), (3, 4), (4,)),
        case(np.array([0, 2, 0]), (3,), (2, 3)),
    ),
)
def where(condition: Any, x: Any = None, y: Any = None, /) -> Tensor:
    """Elements of x where the condition is true, of y where it is not.

    Parameters
    ----------
    condition : tensor or array-like
        Of any dtype; what is not 0 is true.
    x, y : tensors, array-likes or numbers
        Promoted to one dtype and broadcast with the condition. Without them: ``nonzero(condition)``.

    Returns
    -------
    tensor
    """
    if x is None and y is None:
        return find("nonzero").function(condition)
    if x is None or y is None:
        raise ArgumentError("[where] expected both x and y, or neither, given one")
    mask = condition
    if not isinstance(mask, TensorBase) or mask.dtype is not BOOL:
        mask = cast(as_tensor(condition, "where"), BOOL)
    if isinstance(x, TensorBase) and isinstance(y, TensorBase) and x.dtype is y.dtype:
        return select(mask, x, y)
    if is_number(x) and is_number(y):
        return select(mask, number(x, dtypes.result_type(x, y), operation="where"), y)
    a, b = (v if is_number(v) else as_tensor(v, "where") for v in (x, y))
    dtype = dtypes.result_type(a, b)
    a, b = (v if is_number(v) else cast(v, dtype) for v in (a, b))
    return select(mask, a, b)


@operation(np.select, name="select")
def select_(condlist: Any, choicelist: Any, default: Any = 0) -> Tensor:
    """For each element, the choice that belongs to the first true condition.

    Parameters
    ----------
    condlist : sequence of bool tensors
    choicelist : sequence of tensors or numbers, as long as `condlist`
    default : tensor or number
        Taken where no condition is true.

    Returns
    -------
    tensor
        Of the common dtype of the choices and the default.

    Raises
    ------
    ArgumentError
        Where the two lists differ in length or are empty.
    """
    if len(condlist) != len(choicelist) or not len(condlist):
        raise ArgumentError(
            f"[select] expected as many choices as conditions, at least one, "
            f"given {len(condlist)} conditions and {len(choicelist)} choices"
        )
    conditions = as_tensors("select", condlist)
    *choices, result = promoted("select", *choicelist, default)
    for condition, choice in zip(reversed(conditions), reversed(choices), strict=True):
        result = where(condition, choice, result)
    return result


@operation(
    np.nan_to_num, cases=(case((3, 5)), case(np.array([1.0, np.nan, np.inf, -np.inf]), nan=2.0, posinf=3.0))
)
def nan_to_num(
    x: Any, /, copy: bool = True, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """Replace NaN and infinities by numbers.

    Parameters
    ----------
    x : tensor or array-like
    copy : bool
        False writes the result to x, which must be a tensor, as well.
    nan, posinf, neginf : float
        What they are replaced by; None is the largest, or the least, finite number of the dtype.

    Returns
    -------
    tensor
    """
    x = as_tensor(x, "nan_to_num")
    if not is_float(x.dtype):
        return _copy(x) if copy else x
    limits = dtypes.finfo(x.dtype)
    high = float(limits.max) if posinf is None else posinf
    low = float(limits.min) if neginf is None else neginf
    result = select(binary(p.EQ, x, math.inf, BOOL), high, x)
    result = select(binary(p.EQ, x, -math.inf, BOOL), low, result)
    result = select(binary(p.NE, x, x, BOOL), nan, result)
    if copy:
        return result
    assign(x, result)
    return x


@operation(
    np.isclose,
    cases=(case((3, 5), (3, 5)), case((3, 5), (5,), rtol=0.5), case((4,), (4,), equal_nan=True)),
    dtypes="f",
)
def isclose(x: Any, y: Any, /, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
    """Whether elements are equal within a tolerance: ``|x - y| <= atol + rtol * |y|``.

    Parameters
    ----------
    x, y : tensors, array-likes or numbers
    rtol, atol : float
        Relative to `y`, and absolute.
    equal_nan : bool
        Whether NaN equals NaN.

    Returns
    -------
    tensor of bool
    """
    a, b = promoted("isclose", x, y)
    if not is_float(a.dtype) or a.dtype.itemsize < 8:
        # Tolerances far below the precision of short floats must not vanish in the sum.
        a, b = cast(a, dtypes.float64), cast(b, dtypes.float64)
    magnitude = unary(p.ABS, b, b.dtype)
    allowed = binary(p.ADD, binary(p.MUL, magnitude, float(rtol)), float(atol))
    near = binary(p.LE, unary(p.ABS, binary(p.SUB, a, b), a.dtype), allowed, BOOL)
    near = binary(p.AND, near, binary(p.LT, magnitude, math.inf, BOOL))
    near = binary(p.OR, near, binary(p.EQ, a, b, BOOL))
    if equal_nan:
        both = binary(p.AND, binary(p.NE, a, a, BOOL), binary(p.NE, b, b, BOOL))
        near = binary(p.OR, near, both)
    return near


@operation(np.allclose, cases=(case((3, 5), (3, 5)),), dtypes="f")
def allclose(x: Any, y: Any, /, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """Whether all elements are equal within a tolerance, as a Python bool: a sync point.

    Parameters and meaning are those of `isclose`.
    """
    return bool(values(isclose(x, y, rtol, atol, equal_nan)).all())


@operation(np.array_equal, cases=(case((3, 5), (3, 5)), case((3, 5), (3, 4))))
def array_equal(x: Any, y: Any, /, equal_nan: bool = False) -> bool:
    """Whether two tensors have the same shape and elements, as a Python bool: a sync point.

    Parameters
    ----------
    x, y : tensors or array-likes
    equal_nan : bool
        Whether NaN equals NaN.
    """
    a, b = as_tensor(x, "array_equal"), as_tensor(y, "array_equal")
    if a.shape != b.shape:
        return False
    same = binary(p.EQ, a, b, BOOL)
    if equal_nan and is_float(a.dtype) and is_float(b.dtype):
        same = binary(p.OR, same, binary(p.AND, binary(p.NE, a, a, BOOL), binary(p.NE, b, b, BOOL)))
    return bool(values(same).all())


@operation(np.array_equiv, cases=(case((3, 5), (5,)), case((3, 5), (3, 4))))
def array_equiv(x: Any, y: Any, /) -> bool:
    """Whether two tensors broadcast to one shape and are equal there, as a Python bool: a sync point."""
    a, b = as_tensor(x, "array_equiv"), as_tensor(y, "array_equiv")
    try:
        broadcast_shapes("array_equiv", a.shape, b.shape)
    except ShapeError:
        return False
    return bool(values(binary(p.EQ, a, b, BOOL)).all())


@operation(np.ldexp, cases=(case((3, 5), np.arange(-2, 3)),), dtypes="f")
def ldexp(x: Any, exponent: Any, /, out: Any = None) -> Tensor:
    """x times 2 to a whole power, exactly.

    Parameters
    ----------
    x : tensor or array-like
        Whole numbers become the default float.
    exponent : tensor or array-like of integers
    out : tensor, optional

    Returns
    -------
    tensor
        Of x's float dtype.
    """
    x, power = as_tensor(x, "ldexp"), as_tensor(exponent, "ldexp")
    if not is_integer(power.dtype):
        raise DtypeError(f"[ldexp] expected integers for exponent, given {power.dtype.name}")
    x = cast(x, dtypes.floating(x.dtype))
    shape = broadcast_shapes("ldexp", x.shape, power.shape)
    return deliver(call("ldexp_on_host", (x, power), shape, x.dtype), out, "ldexp")


@host_function
def ldexp_on_host(x: Any, exponent: Any) -> Any:
    return np.ldexp(x, np.clip(exponent, -(2**30), 2**30).astype(np.int32)).astype(x.dtype)


@operation(method=True, public=False)
def fill(x: Any, value: Any, /) -> None:
    """Write one number to every element, cast to the tensor's dtype."""
    assign(x, as_tensor(value, "fill"), operation="fill")


@operation(np.real, cases=(case((3, 5)),))
def real(x: Any, /) -> Tensor:
    """The real part: x itself where it is real."""
    return as_tensor(x, "real")


@operation(np.imag, cases=(case((3, 5)),))
def imag(x: Any, /) -> Tensor:
    """The imaginary part: zeros where x is real."""
    x = as_tensor(x, "imag")
    return number(0, x.dtype, x.shape)
