"""Transcendental functions of float32, as formulas without branches.

The chip's exponential, logarithm and square root stand where they are accurate enough; what they leave is
minimax polynomials of the relative error (Remez exchange, coefficients from the constant upward). No product
and sum is documented to round once, so that reductions subtract products that are exact. How maximum and
minimum treat NaN is not relied on: NaN reaches the result another way.

Argument reductions follow Cody and Waite, "Software Manual for the Elementary Functions" (1980).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from .formula import Vector

_PIO2 = math.pi / 2
_LN2 = 0.693147182464599609375


def polynomial(x: Vector, coefficients: Sequence[float]) -> Vector:
    """Horner's rule, coefficients from the constant upward."""
    result = x * coefficients[-1] + coefficients[-2]
    for c in coefficients[-3::-1]:
        result = result * x + c
    return result


def _odd(r: Vector, coefficients: Sequence[float]) -> Vector:
    """``r + r**3 * P(r**2)``"""
    z = r * r
    return polynomial(z, coefficients) * z * r + r


# --- exponentials -------------------------------------------------------------------------------------------


def exp(x: Vector) -> Vector:
    return x.exp()


def power_of_two(x: Vector, low: Vector | None = None) -> Vector:
    """``2**(x + low)``.

    A whole number goes into the exponent bits; what is left beyond their range, where infinity or a denormal
    results, is left to the exponential.
    """
    n = x.max(-126.0).min(127.0).cast("i32", "RINT")
    r = x - n.cast("f32", "RINT")
    if low is not None:
        r = r + low
    return (r * _LN2).exp() * ((n + 127) << 23).view("f32")


def expm1(x: Vector) -> Vector:
    """``exp(x) - 1``; near 0 also what rounding took from the exponential, as its logarithm tells."""
    u = x.exp()
    less = u - 1.0
    near = less + u * (x - u.ln())
    near = u.differs(1.0).where(near, x)
    return (abs(x) < 1.0).where(near, less)


# (sinh(x) - x) / x^3 in x^2, on |x| <= 1
_SINH = (0.1666666716337204, 0.00833331048488617, 0.00019842895562760532, 2.7822131869470468e-06)


def sinh(x: Vector) -> Vector:
    """The exponential beyond 88 is a product, so that it does not overflow before the result."""
    a = abs(x)
    grown = a.min(88.0).exp() * 0.5 * (a - 88.0).max(0.0).exp()
    far = (grown - grown.under(0.25)).copysign(x)
    return (a >= 1.0).where(far, _odd(x, _SINH))


# A difference that is exact for arguments above it, and half of its exponential, which float32 almost holds.
_SHIFT = 45 / 64
_HALF_OF_SHIFTED = 1.0100277662277222


def cosh(x: Vector) -> Vector:
    grown = (abs(x) - _SHIFT).exp() * _HALF_OF_SHIFTED
    return grown + grown.under(0.25)


# (tanh(x) - x) / x^3 in x^2, on |x| <= 0.55
_TANH = (-0.3333294689655304, 0.1332072913646698, -0.05267200991511345, 0.01643787883222103)


def tanh(x: Vector) -> Vector:
    """``1 - 2 / (exp(2 * abs(x)) + 1)`` away from 0."""
    a = abs(x)
    far = ((a + a).exp() + 1.0).under(-2.0) + 1.0
    return (a >= 0.55).where(far, _odd(a, _TANH)).copysign(x)


# erf(x) / x - 1 in x^2 on |x| <= 0.9, and log(erfc(x)) from there on, as precise as erf needs it; its last
# coefficient is negative, so that it falls on past 4, where erf is 1.
_ERF_NEAR = (
    0.12837915413993406, -0.376125241006278, 0.11282146407236467, -0.026779064647259602,
    0.005012153039449879, -0.000609120670906003,
)  # fmt: skip
_LOG_ERFC = (
    -0.0018776523583704245, -1.1201907851661366, -0.6507553462084589, -0.0911091293713563,
    0.015579034524933729, -0.0012515603778011218,
)  # fmt: skip


def erf(x: Vector) -> Vector:
    a = abs(x)
    far = (1.0 - polynomial(a, _LOG_ERFC).exp()).copysign(x)
    near = polynomial(x * x, _ERF_NEAR) * x + x
    return (a >= 0.9).where(far, near)


# --- logarithms ---------------------------------------------------------------------------------------------


def log(x: Vector) -> Vector:
    return x.ln()


def log2(x: Vector) -> Vector:
    return x.ln() * (1.0 / math.log(2.0))


def log10(x: Vector) -> Vector:
    return x.ln() * (1.0 / math.log(10.0))


def _log1p_above(x: Vector) -> Vector:
    """``log(1 + x)`` for finite ``x >= 0``: the logarithm of the rounded sum, and what rounding took."""
    u = x + 1.0
    return u.ln() + (x - (u - 1.0)) / u


def log1p(x: Vector) -> Vector:
    u = x + 1.0
    y = u.ln() + (x - (u - 1.0)) / u.max(2.0**-30)
    return (x.differs(0.0) & x.differs(math.inf)).where(y, x)


_HUGE = 2.0**60  # the square overflows soon after, and 1 is long lost beside it


def asinh(x: Vector) -> Vector:
    a = abs(x)
    z = a * a
    near = _log1p_above(a + z / ((z + 1.0).sqrt() + 1.0))
    y = (a <= _HUGE).where(near, a.ln() + _LN2)
    return y.copysign(x)


def acosh(x: Vector) -> Vector:
    t = x - 1.0
    near = _log1p_above(t + (t * t + (t + t)).sqrt())
    return (x >= 1.0).where((x <= _HUGE).where(near, x.ln() + _LN2), math.nan)


def atanh(x: Vector) -> Vector:
    """``log1p(2 * a / (1 - a)) / 2``; infinite at 1, where the quotient is."""
    a = abs(x)
    t = (a + a) / (1.0 - a)
    y = (a < 1.0).where(_log1p_above(t), t.ln())
    return (y * 0.5).copysign(x)


# --- circular functions -------------------------------------------------------------------------------------

# Pi in parts of 8 bits, which multiples up to 2**16 leave exact, and one of 24.
_PI = (3.140625, 0.000965118408203125, 2.5331974029541016e-06, 1.979060471057892e-09, 5.126688136514179e-12)
_HALF_PI = tuple(p / 2 for p in _PI)
# Adding and subtracting this rounds a float32 below 2**22 to an integer, which stands in the sum's low bits.
_ROUND = 1.5 * 2.0**23
# Up to 1e5 multiples of pi are exact; up to `FAR` the result is that of an argument one rounding away; beyond
# it is NaN.
NEAR = 1e5
FAR = 2.0**21
_TINY = 2.0**-12  # below it the sine and the tangent are the argument, and keep the sign of zero

# (sin(r) - r) / r^3 in r^2, on |r| <= 1.01 pi / 2
_SIN = (-0.16666658222675323, 0.00833303015679121, -0.00019806850468739867, 2.5995182113547344e-06)
# (tan(r) - r) / r^3 in r^2, on |r| <= 1.01 pi / 4
_TAN = (
    0.33333128690719604, 0.13339538872241974, 0.05334935709834099,
    0.024653296917676926, 0.0027589111123234034, 0.009600681252777576,
)  # fmt: skip


def _reduced(x: Vector, n: Vector, parts: Sequence[float]) -> Vector:
    """``x - n * sum(parts)``, rounded once.

    The first two parts leave an exact difference. The next two are added up, then subtracted, each time with
    the error of the step (Dekker, "A floating-point technique for extending the available precision", 1971).
    """
    rest = x + n * -parts[0] + n * -parts[1]
    third, fourth = n * parts[2], n * parts[3]
    both = third + fourth
    r = rest - both
    return r + (((rest - r) - both) + ((both - third) - fourth) + n * -parts[4])


def _within(a: Vector, y: Vector) -> Vector:
    """y where an argument of magnitude a can be reduced, else NaN."""
    return (a <= FAR).where(y, math.nan)


def _sine(r: Vector, counted: Vector) -> Vector:
    """The sine, its sign turned where the last bit of the integer in a sum with `_ROUND` is set."""
    flip = counted.bits() << 31
    return (_odd(r, _SIN).bits() + flip).floats()


def sin(x: Vector) -> Vector:
    a = abs(x)
    t = x * (1.0 / math.pi) + _ROUND
    r = _reduced(x, t - _ROUND, _PI)
    return _within(a, (a < _TINY).where(x, _sine(r, t)))


def cos(x: Vector) -> Vector:
    """The sine of the nearest odd multiple of pi / 2 less x."""
    t = x * (1.0 / math.pi) - 0.5 + _ROUND
    n = t - _ROUND + 0.5
    r = _reduced(-x, n, [-p for p in _PI])
    return _within(abs(x), _sine(r, t))


def tan(x: Vector) -> Vector:
    """The tangent for even multiples of pi / 2, ``-1 / tan(r)`` for odd ones."""
    a = abs(x)
    t = x * (2.0 / math.pi) + _ROUND
    r = _reduced(x, t - _ROUND, _HALF_PI)
    y = _odd(r, _TAN)
    even = (t.bits() << 31).equals(0)
    return _within(a, (a < _TINY).where(x, even.where(y, y.under(-1.0))))


# (asin(s) - s) / s^3 in s^2, on s <= 1/2
_ASIN = (
    0.16666752099990845, 0.074953094124794, 0.04546915367245674,
    0.02418474294245243, 0.04215838760137558,
)  # fmt: skip
# (atan(t) - t) / t^3 in t^2, on t <= 1
_ATAN = (
    -0.33333298563957214, 0.1999852955341339, -0.1426401436328888, 0.10950861126184464, -0.08399208635091782,
    0.05787891149520874, -0.031093616038560867, 0.010866343043744564, -0.0017821674700826406,
)  # fmt: skip


def _asin_reduced(a: Vector) -> tuple[Vector, Vector]:
    """Whether ``a <= 1/2``, and asin of ``a``, elsewhere of ``sqrt((1 - a) / 2)`` instead."""
    small = a <= 0.5
    return small, _odd(small.where(a, (a * -0.5 + 0.5).sqrt()), _ASIN)


def asin(x: Vector) -> Vector:
    small, y = _asin_reduced(abs(x))
    return small.where(y, y * -2.0 + _PIO2).copysign(x)


def acos(x: Vector) -> Vector:
    small, y = _asin_reduced(abs(x))
    y = y.copysign(x)
    twice = y + y
    return small.where(_PIO2 - y, (x < 0.0).where(twice + math.pi, twice))


def atan(x: Vector) -> Vector:
    a = abs(x)
    small = a <= 1.0
    y = _odd(small.where(a, a.under(-1.0)), _ATAN)
    return small.where(y, y + _PIO2).copysign(x)


def atan2(y: Vector, x: Vector) -> Vector:
    """The angle of the smaller coordinate over the larger, turned into its octant."""
    ay, ax = abs(y), abs(x)
    steep = ay > ax
    above = steep.where(ay, ax)
    t = steep.where(ax, ay) / above
    # 0 / 0 is 0 here and inf / inf is 1.
    equal = ay.equals(ax)
    t = equal.where((above > 0.0).number("f32", 1.0), t)
    angle = _odd(t, _ATAN)
    angle = steep.where(_PIO2 - angle, angle)
    left = (x.bits() >> 31).equals(0)
    angle = left.where(angle, math.pi - angle).copysign(y)
    return (x.equals(x) & y.equals(y)).where(angle, math.nan)


UNARY: dict[str, Callable[[Vector], Vector]] = {
    f.__name__: f
    for f in (
        exp, expm1, sinh, cosh, tanh, erf, log, log2, log10, log1p, asinh, acosh, atanh, sin, cos, tan, asin,
        acos, atan,
    )
}  # fmt: skip
