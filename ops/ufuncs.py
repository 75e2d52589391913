"""The table of elementwise operations: NumPy's universal functions, under NumPy's and the Array API's names.

A line that is one primitive names it; a line over a function is lowered by that function.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from . import _graph, dtypes
from . import primitives as p
from .arguments import broadcast_shapes, cast, number
from .dtypes import is_float, is_narrow
from .elementwise import (
    ANY,
    BITS,
    FLOAT,
    INTEGER,
    MAGNITUDE,
    NUMBER,
    ROUNDING,
    TRUTH,
    WHOLE,
    WIDENED,
    binary,
    binary_primitive,
    lowered,
    select,
    unary,
    unary_primitive,
)
from .errors import ArgumentError
from .host import call, host_function
from .primitives import BOOL
from .storage import copy
from .traced import plain

# ruff: noqa: E501  (a line of the table is a line)

# fmt: off
# --- arithmetic -----------------------------------------------------------------------------------
binary_primitive("add", p.ADD, ANY, np.add, "Sum of x and y; of bools, whether either is true.", operator="add")
binary_primitive("subtract", p.SUB, NUMBER, np.subtract, "Difference of x and y.", operator="sub")
binary_primitive("multiply", p.MUL, ANY, np.multiply, "Product of x and y; of bools, whether both are true.", operator="mul")
binary_primitive("divide", p.DIV, FLOAT, np.true_divide, "True quotient of x and y.", operator="truediv", aliases=("true_divide",))
binary_primitive("floor_divide", p.FLOOR_DIVIDE, WIDENED, np.floor_divide, "Quotient of x and y rounded down; of integers by 0, 0.", operator="floordiv")
binary_primitive("remainder", p.REMAINDER, WIDENED, np.remainder, "Remainder of x by y with y's sign, as Python's %; of integers by 0, 0.", operator="mod", aliases=("mod",))
binary_primitive("fmod", p.FMOD, WIDENED, np.fmod, "Remainder of x by y with x's sign, as C's fmod; of integers by 0, 0.")
unary_primitive("negative", p.NEG, NUMBER, np.negative, "The negative of x.", operator="neg")
unary_primitive("absolute", p.ABS, MAGNITUDE, np.absolute, "The absolute value of x.", aliases=("abs",), operator="abs")
unary_primitive("fabs", p.ABS, FLOAT, np.fabs, "The absolute value of x as a float.")
binary_primitive("maximum", p.MAX, ANY, np.maximum, "The larger of x and y; NaN where either is NaN.")
binary_primitive("minimum", p.MIN, ANY, np.minimum, "The smaller of x and y; NaN where either is NaN.")
binary_primitive("copysign", p.COPYSIGN, FLOAT, np.copysign, "The magnitude of x with the sign of y.")
binary_primitive("nextafter", p.NEXTAFTER, FLOAT, np.nextafter, "The next float after x in the direction of y.", dtypes="fV")

# --- rounding -------------------------------------------------------------------------------------
unary_primitive("floor", p.FLOOR, ROUNDING, np.floor, "The largest whole number not above x; whole dtypes stay.")
unary_primitive("ceil", p.CEIL, ROUNDING, np.ceil, "The smallest whole number not below x; whole dtypes stay.")
unary_primitive("trunc", p.TRUNC, ROUNDING, (np.trunc, np.fix), "x without its fraction; whole dtypes stay.", aliases=("fix",))
unary_primitive("rint", p.RINT, FLOAT, np.rint, "The nearest whole number, halves to even.")

# --- roots, exponentials, logarithms -----------------------------------------------------------------
unary_primitive("sqrt", p.SQRT, FLOAT, np.sqrt, "The square root; NaN where x is negative.")
unary_primitive("cbrt", p.CBRT, FLOAT, np.cbrt, "The cube root.", ulp=4)
unary_primitive("exp", p.EXP, FLOAT, np.exp, "e to the power x.", ulp=4, domain=(-9, 9))
unary_primitive("exp2", p.EXP2, FLOAT, np.exp2, "2 to the power x.", ulp=4, domain=(-9, 9))
unary_primitive("expm1", p.EXPM1, FLOAT, np.expm1, "exp(x) - 1, precise near 0.", ulp=4, domain=(-9, 9))
unary_primitive("log", p.LOG, FLOAT, np.log, "The natural logarithm.", ulp=4, domain=(0.01, 100))
unary_primitive("log2", p.LOG2, FLOAT, np.log2, "The logarithm to base 2.", ulp=4, domain=(0.01, 100))
unary_primitive("log10", p.LOG10, FLOAT, np.log10, "The logarithm to base 10.", ulp=4, domain=(0.01, 100))
unary_primitive("log1p", p.LOG1P, FLOAT, np.log1p, "log(1 + x), precise near 0.", ulp=4, domain=(-0.9, 10))

# --- trigonometric and hyperbolic ------------------------------------------------------------------------
unary_primitive("sin", p.SIN, FLOAT, np.sin, "The sine of x in radians.", ulp=4, domain=(-9, 9))
unary_primitive("cos", p.COS, FLOAT, np.cos, "The cosine of x in radians.", ulp=4, domain=(-9, 9))
unary_primitive("tan", p.TAN, FLOAT, np.tan, "The tangent of x in radians.", ulp=4, domain=(-9, 9))
unary_primitive("arcsin", p.ASIN, FLOAT, np.arcsin, "The angle in radians whose sine is x.", aliases=("asin",), ulp=4, domain=(-1, 1))
unary_primitive("arccos", p.ACOS, FLOAT, np.arccos, "The angle in radians whose cosine is x.", aliases=("acos",), ulp=4, domain=(-1, 1))
unary_primitive("arctan", p.ATAN, FLOAT, np.arctan, "The angle in radians whose tangent is x.", aliases=("atan",), ulp=4)
unary_primitive("sinh", p.SINH, FLOAT, np.sinh, "The hyperbolic sine.", ulp=4, domain=(-9, 9))
unary_primitive("cosh", p.COSH, FLOAT, np.cosh, "The hyperbolic cosine.", ulp=4, domain=(-9, 9))
unary_primitive("tanh", p.TANH, FLOAT, np.tanh, "The hyperbolic tangent.", ulp=4, domain=(-9, 9))
unary_primitive("arcsinh", p.ASINH, FLOAT, np.arcsinh, "The number whose hyperbolic sine is x.", aliases=("asinh",), ulp=4)
unary_primitive("arccosh", p.ACOSH, FLOAT, np.arccosh, "The number not below 0 whose hyperbolic cosine is x.", aliases=("acosh",), ulp=4, domain=(1, 50))
unary_primitive("arctanh", p.ATANH, FLOAT, np.arctanh, "The number whose hyperbolic tangent is x.", aliases=("atanh",), ulp=4, domain=(-0.9, 0.9))
binary_primitive("arctan2", p.ATAN2, FLOAT, np.arctan2, "The angle in radians of the point (y, x), its ordinate first.", aliases=("atan2",), ulp=4)
binary_primitive("hypot", p.HYPOT, FLOAT, np.hypot, "The length of the vector (x, y), without overflow on the way.", ulp=4)


def _erf_reference(x: Any) -> Any:
    from scipy import special

    return special.erf(x)


unary_primitive("erf", p.ERF, FLOAT, (), "The error function.", ulp=4, reference=_erf_reference)

# --- comparison -----------------------------------------------------------------------------------------
binary_primitive("equal", p.EQ, ANY, np.equal, "Whether x equals y.", result=BOOL, operator="eq")
binary_primitive("not_equal", p.NE, ANY, np.not_equal, "Whether x differs from y.", result=BOOL, operator="ne")
binary_primitive("less", p.LT, ANY, np.less, "Whether x is below y.", result=BOOL, operator="lt")
binary_primitive("less_equal", p.LE, ANY, np.less_equal, "Whether x is at most y.", result=BOOL, operator="le")
binary_primitive("greater", p.LT, ANY, np.greater, "Whether x is above y.", result=BOOL, operator="gt", swapped=True)
binary_primitive("greater_equal", p.LE, ANY, np.greater_equal, "Whether x is at least y.", result=BOOL, operator="ge", swapped=True)

# --- bits -----------------------------------------------------------------------------------------------
binary_primitive("bitwise_and", p.AND, BITS, np.bitwise_and, "The bits that x and y have in common.", operator="and")
binary_primitive("bitwise_or", p.OR, BITS, np.bitwise_or, "The bits that x or y has.", operator="or")
binary_primitive("bitwise_xor", p.XOR, BITS, np.bitwise_xor, "The bits in which x and y differ.", operator="xor")
unary_primitive("invert", p.NOT, BITS, np.invert, "The bits that x has not; of bools, whether x is false.", operator="invert", aliases=("bitwise_invert", "bitwise_not"))
binary_primitive("left_shift", p.SHIFT_LEFT, INTEGER, np.left_shift, "x with its bits moved y places up; 0 past the width.", operator="lshift", aliases=("bitwise_left_shift",), domain=(0, 70))
binary_primitive("right_shift", p.SHIFT_RIGHT, INTEGER, np.right_shift, "x with its bits moved y places down; 0 or -1 past the width.", operator="rshift", aliases=("bitwise_right_shift",), domain=(0, 70))
unary_primitive("bitwise_count", p.POPCOUNT, WHOLE, np.bitwise_count, "How many bits of the magnitude of x are set.", result=dtypes.uint8, aliases=("popcount",))
# fmt: on


# --- logic ----------------------------------------------------------------------------------------------
@lowered("logical_and", TRUTH, np.logical_and, "Whether both x and y are true.", arity=2, result=BOOL)
def _logical_and(x: Any, y: Any) -> Any:
    return binary(p.AND, x, y)


@lowered("logical_or", TRUTH, np.logical_or, "Whether x or y is true.", arity=2, result=BOOL)
def _logical_or(x: Any, y: Any) -> Any:
    return binary(p.OR, x, y)


@lowered("logical_xor", TRUTH, np.logical_xor, "Whether one of x and y is true.", arity=2, result=BOOL)
def _logical_xor(x: Any, y: Any) -> Any:
    return binary(p.XOR, x, y)


@lowered("logical_not", TRUTH, np.logical_not, "Whether x is false.", result=BOOL)
def _logical_not(x: Any) -> Any:
    return unary(p.NOT, x, BOOL)


# --- powers and products ------------------------------------------------------------------------------------
@lowered("square", WIDENED, np.square, "x times x.")
def _square(x: Any) -> Any:
    return binary(p.MUL, x, x)


@lowered(
    "reciprocal",
    NUMBER,
    np.reciprocal,
    "1 divided by x; of integers without the fraction, 0 for 0.",
    reference=lambda x: _reciprocal_reference(x),
)
def _reciprocal(x: Any) -> Any:
    if is_float(x.dtype):
        return binary(p.DIV, 1.0, x)
    # Only 1 and -1 have a whole reciprocal.
    one = binary(p.EQ, unary(p.ABS, x, x.dtype), 1, BOOL)
    return select(one, x, 0)


def _reciprocal_reference(x: Any) -> Any:
    x = np.asarray(x)
    return np.where(np.abs(x) == 1, x, np.zeros_like(x)) if x.dtype.kind in "iu" else np.reciprocal(x)


def _power_reference(x: Any, y: Any) -> Any:
    x, y = np.asarray(x), np.asarray(y)
    return np.power(x, np.abs(y) if y.dtype.kind == "i" else y)


def _power_by_number(x: Any, y: Any) -> Any:
    """Exponents that need no power function, as NumPy's ``**`` has them; products are within 2 units in the last place."""
    if y.__class__ not in (int, float) or not isinstance(x, _graph.TensorBase):
        return NotImplemented
    y, dtype = plain(y), x.dtype
    if dtype.kind in "biu":
        if type(y) is float:
            return NotImplemented
        if y < 0:
            raise ArgumentError(
                f"[power] expected an exponent of integers that is not negative, given {y}; cast to a float"
            )
        if dtype.kind == "b":
            return NotImplemented
    elif y == 0.5:
        return unary(p.SQRT, x, dtype)
    elif y == -1:
        return binary(p.DIV, 1.0, x)
    if y == 1:
        return copy(x)
    if y in (2, 3, 4) and (dtype.itemsize > 2 or y == 2):
        square = binary(p.MUL, x, x)
        return square if y == 2 else binary(p.MUL, square, x if y == 3 else square)
    return NotImplemented


@lowered(
    "power",
    WIDENED,
    (np.power,),
    "x to the power y; of integers, 1 / x**-y without the fraction where y is negative.",
    arity=2,
    ulp=4,
    operator="pow",
    aliases=("pow",),
    domain=(0, 5),
    reference=_power_reference,
    shortcut=_power_by_number,
)
def _power(x: Any, y: Any) -> Any:
    return binary(p.POW, x, y)


@lowered(
    "float_power",
    FLOAT,
    np.float_power,
    "x to the power y, computed in float64.",
    arity=2,
    ulp=4,
    domain=(0, 5),
)
def _float_power(x: Any, y: Any) -> Any:
    return binary(p.POW, cast(x, dtypes.float64), cast(y, dtypes.float64))


@lowered("positive", NUMBER, np.positive, "A copy of x.", operator="pos")
def _positive(x: Any) -> Any:
    return copy(x)


@lowered(
    "conj",
    WIDENED,
    np.conjugate,
    "The complex conjugate: the same values where x is real.",
    aliases=("conjugate",),
    method=True,
)
def _conj(x: Any) -> Any:
    return copy(x)


@lowered(
    "divmod",
    WIDENED,
    np.divmod,
    "Floored quotient and remainder of x and y.",
    arity=2,
    operator="divmod",
    inplace=False,
)
def _divmod(x: Any, y: Any) -> Any:
    return binary(p.FLOOR_DIVIDE, x, y), binary(p.REMAINDER, x, y)


@lowered("gcd", WHOLE, np.gcd, "The greatest common divisor of x and y.", arity=2)
def _gcd(x: Any, y: Any) -> Any:
    return call("gcd_on_host", (x, y), broadcast_shapes("gcd", x.shape, y.shape), x.dtype)


@lowered("lcm", WHOLE, np.lcm, "The least common multiple of x and y.", arity=2)
def _lcm(x: Any, y: Any) -> Any:
    return call("lcm_on_host", (x, y), broadcast_shapes("lcm", x.shape, y.shape), x.dtype)


@host_function
def gcd_on_host(x: Any, y: Any) -> Any:
    return np.gcd(x, y)


@host_function
def lcm_on_host(x: Any, y: Any) -> Any:
    return np.lcm(x, y)


# --- parts of floats ------------------------------------------------------------------------------
@lowered("sign", NUMBER, np.sign, "-1, 0 or 1 as x is negative, zero or positive; NaN where it is NaN.")
def _sign(x: Any) -> Any:
    positive = binary(p.LT, 0, x, BOOL)
    if x.dtype.kind == "u":
        return cast(positive, x.dtype)
    if x.dtype.kind == "i":
        return binary(p.SUB, cast(positive, x.dtype), cast(binary(p.LT, x, 0, BOOL), x.dtype))
    rest = select(binary(p.EQ, x, 0, BOOL), 0.0, x)
    return select(positive, 1.0, select(binary(p.LT, x, 0, BOOL), -1.0, rest))


@lowered("signbit", ANY, np.signbit, "Whether the sign bit of x is set: below 0, or -0.0.", result=BOOL)
def _signbit(x: Any) -> Any:
    if x.dtype.kind in "bu":
        return number(False, BOOL, x.shape)
    if x.dtype.kind == "i":
        return binary(p.LT, x, 0, BOOL)
    bits = np.dtype(f"i{x.dtype.itemsize}")
    return binary(p.LT, unary(p.BITCAST, x, bits), 0, BOOL)


@lowered("isnan", ANY, np.isnan, "Whether x is NaN.", result=BOOL)
def _isnan(x: Any) -> Any:
    return binary(p.NE, x, x, BOOL) if is_float(x.dtype) else number(False, BOOL, x.shape)


@lowered("isinf", ANY, np.isinf, "Whether x is infinite, of either sign.", result=BOOL)
def _isinf(x: Any) -> Any:
    if not is_float(x.dtype):
        return number(False, BOOL, x.shape)
    return binary(p.EQ, unary(p.ABS, x, x.dtype), math.inf, BOOL)


@lowered("isfinite", ANY, np.isfinite, "Whether x is neither infinite nor NaN.", result=BOOL)
def _isfinite(x: Any) -> Any:
    if not is_float(x.dtype):
        return number(True, BOOL, x.shape)
    return binary(p.LT, unary(p.ABS, x, x.dtype), math.inf, BOOL)


@lowered("isposinf", ANY, np.isposinf, "Whether x is positive infinity.", result=BOOL)
def _isposinf(x: Any) -> Any:
    return binary(p.EQ, x, math.inf, BOOL) if is_float(x.dtype) else number(False, BOOL, x.shape)


@lowered("isneginf", ANY, np.isneginf, "Whether x is negative infinity.", result=BOOL)
def _isneginf(x: Any) -> Any:
    return binary(p.EQ, x, -math.inf, BOOL) if is_float(x.dtype) else number(False, BOOL, x.shape)


@lowered("modf", FLOAT, np.modf, "Fraction and whole part of x, both with its sign.")
def _modf(x: Any) -> Any:
    whole = unary(p.TRUNC, x, x.dtype)
    rest = binary(p.SUB, x, whole)
    infinite = binary(p.EQ, unary(p.ABS, x, x.dtype), math.inf, BOOL)
    return binary(p.COPYSIGN, select(infinite, 0.0, rest), x), whole


@lowered("frexp", FLOAT, np.frexp, "Mantissa in [0.5, 1) and exponent of 2 (int32) whose product is x.")
def _frexp(x: Any) -> Any:
    return (
        call("frexp_mantissa_on_host", (x,), x.shape, x.dtype),
        call("frexp_exponent_on_host", (x,), x.shape, dtypes.int32),
    )


@host_function
def frexp_mantissa_on_host(x: Any) -> Any:
    return np.frexp(x)[0]


@host_function
def frexp_exponent_on_host(x: Any) -> Any:
    return np.frexp(x)[1].astype(np.int32)


@lowered(
    "spacing", FLOAT, np.spacing, "The distance from x to the next float away from 0, with the sign of x."
)
def _spacing(x: Any) -> Any:
    return call("spacing_on_host", (x,), x.shape, x.dtype)


@host_function
def spacing_on_host(x: Any) -> Any:
    return np.spacing(x)


@lowered("i0", FLOAT, np.i0, "The modified Bessel function of the first kind of order 0.", ulp=64, dtypes="f")
def _i0(x: Any) -> Any:
    return call("i0_on_host", (x,), x.shape, x.dtype)


@host_function
def i0_on_host(x: Any) -> Any:
    return np.i0(x).astype(x.dtype)


# --- of several steps ---------------------------------------------------------------------------------------
@lowered("fmax", ANY, np.fmax, "The larger of x and y; of a number and NaN, the number.", arity=2)
def _fmax(x: Any, y: Any) -> Any:
    larger = binary(p.MAX, x, y)
    if not is_float(x.dtype):
        return larger
    return select(binary(p.NE, x, x, BOOL), y, select(binary(p.NE, y, y, BOOL), x, larger))


@lowered("fmin", ANY, np.fmin, "The smaller of x and y; of a number and NaN, the number.", arity=2)
def _fmin(x: Any, y: Any) -> Any:
    smaller = binary(p.MIN, x, y)
    if not is_float(x.dtype):
        return smaller
    return select(binary(p.NE, x, x, BOOL), y, select(binary(p.NE, y, y, BOOL), x, smaller))


@lowered(
    "heaviside",
    FLOAT,
    np.heaviside,
    "0 where x is negative, y where it is 0, 1 where it is positive.",
    arity=2,
)
def _heaviside(x: Any, y: Any) -> Any:
    rest = select(binary(p.EQ, x, 0, BOOL), y, x)
    return select(binary(p.LT, x, 0, BOOL), 0.0, select(binary(p.LT, 0, x, BOOL), 1.0, rest))


@lowered("logaddexp", FLOAT, np.logaddexp, "log(exp(x) + exp(y)) without overflow.", arity=2, ulp=8, slack=8)
def _logaddexp(x: Any, y: Any) -> Any:
    return _log_of_sum(x, y, p.EXP, 1.0)


@lowered("logaddexp2", FLOAT, np.logaddexp2, "log2(2**x + 2**y) without overflow.", arity=2, ulp=8, slack=8)
def _logaddexp2(x: Any, y: Any) -> Any:
    return _log_of_sum(x, y, p.EXP2, 1 / math.log(2))


def _log_of_sum(x: Any, y: Any, exponential: p.Primitive, scale: float) -> Any:
    if is_narrow(x.dtype):  # the steps would round too often
        single = dtypes.float32
        return cast(_log_of_sum(cast(x, single), cast(y, single), exponential, scale), x.dtype)
    larger = binary(p.MAX, x, y)
    # Equal infinities have no difference.
    gap = select(binary(p.EQ, x, y, BOOL), 0.0, binary(p.SUB, x, y))
    tail = unary(exponential, unary(p.NEG, unary(p.ABS, gap, gap.dtype), gap.dtype), gap.dtype)
    extra = unary(p.LOG1P, tail, tail.dtype)
    return binary(p.ADD, larger, extra if scale == 1.0 else binary(p.MUL, extra, scale))


@lowered("sinc", FLOAT, np.sinc, "sin(pi x) / (pi x), and 1 at 0.", ulp=8, domain=(-0.9, 0.9), dtypes="fV")
def _sinc(x: Any) -> Any:
    if is_narrow(x.dtype):
        return cast(_sinc(cast(x, dtypes.float32)), x.dtype)
    zero = binary(p.EQ, x, 0, BOOL)
    angle = binary(p.MUL, select(zero, 1.0, x), math.pi)
    return select(zero, 1.0, binary(p.DIV, unary(p.SIN, angle, angle.dtype), angle))


@lowered("degrees", FLOAT, (np.degrees, np.rad2deg), "Radians in degrees.", aliases=("rad2deg",), ulp=2)
def _degrees(x: Any) -> Any:
    return binary(p.MUL, x, 180 / math.pi)


@lowered("radians", FLOAT, (np.radians, np.deg2rad), "Degrees in radians.", aliases=("deg2rad",), ulp=2)
def _radians(x: Any) -> Any:
    return binary(p.MUL, x, math.pi / 180)


# --- activations of neural networks -------------------------------------------------------------------------
def _relu_reference(x: Any) -> Any:
    return np.maximum(x, np.zeros_like(x))


@lowered("relu", ANY, (), "x where it is positive, else 0; NaN stays NaN.", reference=_relu_reference)
def _relu(x: Any) -> Any:
    return binary(p.MAX, x, False if x.dtype == BOOL else 0)


def _sigmoid_reference(x: Any) -> Any:
    from scipy import special

    return special.expit(x)


@lowered("sigmoid", FLOAT, (), "1 / (1 + exp(-x)).", reference=_sigmoid_reference, ulp=8)
def _sigmoid(x: Any) -> Any:
    if is_narrow(x.dtype):
        return cast(_sigmoid(cast(x, dtypes.float32)), x.dtype)
    # exp of a negative number never overflows.
    small = unary(p.EXP, unary(p.NEG, unary(p.ABS, x, x.dtype), x.dtype), x.dtype)
    return binary(p.DIV, select(binary(p.LT, x, 0, BOOL), small, 1.0), binary(p.ADD, small, 1.0))


@lowered("silu", FLOAT, (), "x times its sigmoid.", reference=lambda x: x * _sigmoid_reference(x), ulp=8)
def _silu(x: Any) -> Any:
    if is_narrow(x.dtype):
        return cast(_silu(cast(x, dtypes.float32)), x.dtype)
    return binary(p.MUL, x, _sigmoid(x))
