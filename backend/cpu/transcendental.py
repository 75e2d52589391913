"""Transcendental functions of float32 vectors, as formulas over LLVM vectors.

Every function is one branch-free formula over the whole range, so that a lane's result depends
neither on its neighbours nor on the width of the vector; only sine, cosine and tangent of
arguments past 1e5 branch, to the C library. Polynomials are minimax approximations of the
relative error by Remez exchange, their coefficients rounded to float32 one after another.
Argument reductions follow Cody and Waite, "Software Manual for the Elementary Functions" (1980).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from llvmlite import ir

from .emitter import F32, F64, I32, Emitter, Lanes, fma, polynomial

# Adding and subtracting this rounds a float32 below 2**22 to an integer, which then stands in
# the low bits of the sum.
_ROUND = 1.5 * 2.0**23

_LOG2_E = 1.44269502162933349609375
_LN2_HIGH = 0.693147182464599609375
_LN2_LOW = -1.9046542121259336e-09

# (e^r - 1 - r) / r^2 on |r| <= ln(2) / 2
_EXP = (
    0.4999999701976776, 0.16666539013385773, 0.04166774824261665,
    0.008367087692022324, 0.0013837860897183418,
)  # fmt: skip


def _scale_by_power(y: Lanes, t: Lanes) -> Lanes:
    """``y * 2**n``, rounded once, for ``t = n + _ROUND``."""
    context = y.context
    n = t.bits()
    if context.target.has_avx512:
        n -= 0x4B400000
        name = f"llvm.ldexp.v{context.width}f32.v{context.width}i32"
        return Lanes(context, context.intrinsic(name, y.value.type, y.value, n.value))
    # Two factors, since 2**n itself may be out of range. The high bits of t fall off the left end.
    half = n >> 1
    first = ((half << 23) + 0x3F800000).as_element(F32)
    second = ((n - half << 23) + 0x3F800000).as_element(F32)
    return y * first * second


def _power_of_two(t: Lanes, offset: int = 0) -> Lanes:
    """``2**(n + offset)``, a normal number, for ``t = n + _ROUND``."""
    return ((t.bits() << 23) + ((127 + offset) << 23)).as_element(F32)


def _reduce_exp(x: Lanes) -> tuple[Lanes, Lanes]:
    """``t, e`` with ``exp(x) = 2**n * (1 + e)`` and ``t = n + _ROUND``."""
    t = fma(x, _LOG2_E, _ROUND)
    n = t - _ROUND
    r = fma(n, -_LN2_LOW, fma(n, -_LN2_HIGH, x))
    return t, fma(r * r, polynomial(r, _EXP), r)


def exp(x: Lanes) -> Lanes:
    t, e = _reduce_exp(x.at_most(89.0).at_least(-104.0))
    return _scale_by_power(e + 1.0, t)


# (2^r - 1) / r on |r| <= 1/2
_EXP2 = (
    0.6931471824645996, 0.24022594094276428, 0.055503662675619125,
    0.00962543860077858, 0.0013387898216024041, 0.00013337022392079234,
)  # fmt: skip


def exp2(x: Lanes) -> Lanes:
    x = x.at_most(129.0).at_least(-151.0)
    t = x + _ROUND
    r = x - (t - _ROUND)
    return _scale_by_power(fma(r, polynomial(r, _EXP2), 1.0), t)


def expm1(x: Lanes) -> Lanes:
    t, e = _reduce_exp(x.at_most(89.0).at_least(-18.0))
    half = _power_of_two(t, -1)  # half of 2**n, which itself may be out of range
    y = fma(half, e, half - 0.5)
    return (abs(x) < 2.0**-25).where(x, y + y)


# (sinh(x) - x) / x^3 in x^2, on |x| <= 1
_SINH = (0.1666666716337204, 0.00833331048488617, 0.00019842895562760532, 2.7822131869470468e-06)


def _half_exp(a: Lanes) -> tuple[Lanes, Lanes]:
    """``exp(a) / 2`` and ``exp(-a) / 2`` for ``a >= 0``."""
    t, e = _reduce_exp(a.at_most(90.0))
    grown = (e + 1.0) * _power_of_two(t, -3) * 4.0  # n - 3 keeps the power in range
    return grown, 0.25 / grown


def sinh(x: Lanes) -> Lanes:
    a = abs(x)
    grown, decayed = _half_exp(a)
    z = x * x
    small = fma(z * x, polynomial(z, _SINH), x)
    return (a < 1.0).where(small, (grown - decayed).copysign(x))


def cosh(x: Lanes) -> Lanes:
    grown, decayed = _half_exp(abs(x))
    return grown + decayed


# (tanh(x) - x) / x^3 in x^2, on |x| <= 0.55
_TANH = (-0.3333294689655304, 0.1332072913646698, -0.05267200991511345, 0.01643787883222103)


def tanh(x: Lanes) -> Lanes:
    """``E / (E + 2)`` with ``E = exp(2 * abs(x)) - 1`` away from 0."""
    a = abs(x)
    t, e = _reduce_exp(a.at_most(9.25) * 2.0)
    power = _power_of_two(t)
    grown = fma(power, e, power - 1.0)
    return (a < 0.55).where(_odd(a, _TANH), grown / (grown + 2.0)).copysign(x)


# erf(x) / x - 1 in x^2 on |x| <= 1.25, and erfc(x)^(1/8) in x - 2.5625 from there to 3.925, where erf is 1.
_ERF_NEAR = (
    0.12837913632392883, -0.3761245608329773, 0.11281997710466385, -0.026799114421010017,
    0.005102306138724089, -0.000737943104468286, 6.0968439356656745e-05,
)  # fmt: skip
_ERFC = (
    0.36126986145973206, -0.24705079197883606, 0.04176277294754982, 0.009470649063587189,
    -0.0038068476133048534, -6.97746581863612e-05, 0.00017204703181050718,
)  # fmt: skip


def erf(x: Lanes) -> Lanes:
    """One polynomial, its coefficients chosen lane by lane."""
    a = abs(x).at_most(3.925)
    near = a <= 1.25
    v = near.where(a * a, a - 2.5625)
    p = near.where(x.like(_ERF_NEAR[-1]), _ERFC[-1])
    for c, d in zip(_ERF_NEAR[-2::-1], _ERFC[-2::-1], strict=True):
        p = fma(p, v, near.where(x.like(c), d))
    square = p * p
    square = square * square
    far = 1.0 - square * square
    return near.where(fma(x, p, x), far.copysign(x))


# (log(1 + f) - f + f^2 / 2) / f^3 on sqrt(1/2) <= 1 + f <= sqrt(2)
_LOG = (
    0.3333333134651184, -0.250008225440979, 0.20001260936260223, -0.1662333458662033,
    0.14200986921787262, -0.1315922737121582, 0.1276397705078125, -0.07638091593980789,
)  # fmt: skip
_SQRT_HALF = 0x3F3504F3  # the bits of sqrt(1/2)
_SMALLEST_NORMAL = 2.0**-126


def _split(x: Lanes) -> tuple[Lanes, Lanes]:
    """``k, f`` with ``x = 2**k * (1 + f)``, ``sqrt(1/2) <= 1 + f < sqrt(2)``, for finite ``x > 0``."""
    denormal = x < _SMALLEST_NORMAL
    bits = denormal.where(x * 2.0**23, x).bits()
    k = (bits - _SQRT_HALF) >> 23
    m = (bits - (k << 23)).as_element(F32)
    return k.cast(F32) - denormal.where(x.like(23.0), 0.0), m - 1.0


def _log1p_tail(f: Lanes) -> Lanes:
    """``log(1 + f) - f``."""
    z = f * f
    return fma(z, -0.5, z * f * polynomial(f, _LOG))


def _log_domain(x: Lanes, y: Lanes) -> Lanes:
    """The logarithm ``y`` of ``x`` with what holds at 0, infinity, NaN and below 0 put in."""
    positive = (x.bits() - 1).below(0x7F7FFFFF)
    zero = x.equals(0.0).where(-math.inf, (x < 0.0).where(math.nan, x))
    return positive.where(y, zero)


def log(x: Lanes) -> Lanes:
    k, f = _split(x)
    return _log_domain(x, fma(k, _LN2_HIGH, f + fma(k, _LN2_LOW, _log1p_tail(f))))


_LOG10_E = 0.4342944920063018798828125
_LOG10_2_HIGH = 0.301025390625
_LOG10_2_LOW = 4.605038981195213739e-06


def log2(x: Lanes) -> Lanes:
    k, f = _split(x)
    return _log_domain(x, k + (f + fma(f, _LOG2_E - 1.0, _log1p_tail(f) * _LOG2_E)))


def log10(x: Lanes) -> Lanes:
    k, f = _split(x)
    y = (f + _log1p_tail(f)) * _LOG10_E
    return _log_domain(x, fma(k, _LOG10_2_HIGH, fma(k, _LOG10_2_LOW, y)))


def log1p(x: Lanes) -> Lanes:
    k = ((x + 1.0).bits() - _SQRT_HALF) >> 23
    # f = (1 + x) / 2**k - 1 in one rounding, with 4 / 2**k since 1 / 2**128 is no normal number
    four = (0x40800000 - (k << 23)).as_element(F32)
    f = fma(x * 0.25, four, fma(four, 0.25, -1.0))
    n = k.cast(F32)
    y = fma(n, _LN2_HIGH, f + fma(n, _LN2_LOW, _log1p_tail(f)))
    y = (abs(x) < 2.0**-25).where(x, y)
    y = (x < math.inf).where(y, x)
    return (x > -1.0).where(y, x.equals(-1.0).where(-math.inf, (x < -1.0).where(math.nan, x)))


# Pi in three parts of 24 bits, rounded down so that a zero argument keeps its sign, and half of it.
_PI = (3.141592502593994, 1.5099578831723193e-07, 1.078060505991553e-14)
_HALF_PI = (1.570796251296997, 7.549789415861596e-08, 5.390302529957765e-15)
_FAR = 1e5  # beyond it the reduction with three parts of pi loses digits

# (sin(r) - r) / r^3 in r^2, on |r| <= 1.01 pi / 2
_SIN = (-0.16666658222675323, 0.00833303015679121, -0.00019806850468739867, 2.5995182113547344e-06)
# (tan(r) - r) / r^3 in r^2, on |r| <= 1.01 pi / 4
_TAN = (
    0.33333128690719604, 0.13339538872241974, 0.05334935709834099,
    0.024653296917676926, 0.0027589111123234034, 0.009600681252777576,
)  # fmt: skip


def _subtract_multiple(x: Lanes, n: Lanes, parts: Sequence[float]) -> Lanes:
    """``x - n * sum(parts)``"""
    for part in parts:
        x = fma(n, -part, x)
    return x


def _odd(r: Lanes, coefficients: Sequence[float]) -> Lanes:
    """``r + r**3 * P(r**2)``"""
    z = r * r
    return fma(z * r, polynomial(z, coefficients), r)


def _sine(r: Lanes, parity: Lanes) -> Lanes:
    """``sin(r)``, negated where the last bit of ``parity`` is set."""
    return _odd(r, _SIN).copysign((r.bits() ^ (parity << 31)).as_element(F32))  # keeps the sign of 0


def _tangent(r: Lanes, parity: Lanes) -> Lanes:
    """``tan(r)``, or ``-1 / tan(r)`` where the last bit of ``parity`` is set."""
    y = _odd(r, _TAN)
    odd = (parity << 31) < 0
    return odd.where(x=y.like(-1.0), y=y) / odd.where(x=y, y=1.0)


Unary = Callable[[Lanes], Lanes]


def _is_far(x: Lanes) -> Lanes:
    a = abs(x)
    return (a >= _FAR) & (a < math.inf)


def _replace_far(name: str, context: Emitter, args: Sequence[ir.Value]) -> ir.Value:
    """y, but the C library's value in the lanes where x is far from 0: a loop, since it seldom runs."""
    builder = context.builder
    kind = args[0].type
    places = [builder.alloca(ir.ArrayType(F32, context.width)) for _ in args]
    for value, place in zip(args, places, strict=True):
        builder.store(value, builder.bitcast(place, kind.as_pointer()), align=4)
    zero, start = ir.Constant(I32, 0), builder.block
    loop, far, following, done = (builder.append_basic_block(n) for n in ("loop", "far", "next", "done"))
    builder.branch(loop)
    builder.position_at_end(loop)
    lane = builder.phi(I32)
    x = builder.load(builder.gep(places[0], [zero, lane]))
    one = Emitter(builder, context.module, 1, context.target)
    vector = ir.Constant(one.vector(F32), ir.Undefined)
    builder.cbranch(_is_far(Lanes(one, builder.insert_element(vector, x, zero))).any(), far, following)
    builder.position_at_end(far)
    builder.store(context.intrinsic(name, F32, x), builder.gep(places[1], [zero, lane]))
    builder.branch(following)
    builder.position_at_end(following)
    after = builder.add(lane, ir.Constant(I32, 1))
    lane.add_incoming(zero, start)
    lane.add_incoming(after, following)
    builder.cbranch(builder.icmp_unsigned("<", after, ir.Constant(I32, context.width)), loop, done)
    builder.position_at_end(done)
    return builder.load(builder.bitcast(places[1], kind.as_pointer()), align=4)


def _periodic(name: str, near: Unary) -> Unary:
    """The function ``near``, corrected at a branch where a lane is far from 0."""

    def function(x: Lanes) -> Lanes:
        context, builder = x.context, x.context.builder
        y = near(x)
        start, some = builder.block, _is_far(x).any()
        with builder.if_then(some, likely=False):
            args = [x.value, y.value]
            replace = partial(_replace_far, name)
            changed = context.function(f"{name}.far", y.value.type, args, replace, cold=True)
            taken = builder.block
        result = builder.phi(y.value.type)
        result.add_incoming(y.value, start)
        result.add_incoming(changed, taken)
        return Lanes(context, result)

    return function


def _sin(x: Lanes) -> Lanes:
    t = fma(x, 1.0 / math.pi, _ROUND)
    return _sine(_subtract_multiple(x, t - _ROUND, _PI), t.bits())


def _cos(x: Lanes) -> Lanes:
    # cos(x) = -sin(x - pi / 2): the nearest odd multiple of pi / 2 goes
    t = fma(x, 1.0 / math.pi, -0.5) + _ROUND
    return _sine(_subtract_multiple(x, (t - _ROUND) + 0.5, _PI), t.bits() + 1)


def _tan(x: Lanes) -> Lanes:
    t = fma(x, 2.0 / math.pi, _ROUND)
    return _tangent(_subtract_multiple(x, t - _ROUND, _HALF_PI), t.bits())


sin, cos, tan = (_periodic(name, near) for name, near in (("sinf", _sin), ("cosf", _cos), ("tanf", _tan)))


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
_PIO2 = math.pi / 2


def _asin_reduced(a: Lanes) -> tuple[Lanes, Lanes]:
    """Whether ``a > 1/2``, and asin of ``a``, there of ``sqrt((1 - a) / 2)`` instead."""
    large = a > 0.5
    z = large.where(fma(a, -0.5, 0.5), a * a)
    s = large.where(z.sqrt(), a)
    return large, fma(z * s, polynomial(z, _ASIN), s)


def asin(x: Lanes) -> Lanes:
    large, y = _asin_reduced(abs(x))
    return large.where(fma(y, -2.0, _PIO2), y).copysign(x)


def acos(x: Lanes) -> Lanes:
    large, y = _asin_reduced(abs(x))
    twice = y + y
    negative = x < 0.0
    return large.where(negative.where(math.pi - twice, twice), _PIO2 - y.copysign(x))


def atan(x: Lanes) -> Lanes:
    a = abs(x)
    inverted = a > 1.0
    y = _odd(inverted.where(-1.0 / a, a), _ATAN)
    return inverted.where(_PIO2 + y, y).copysign(x)


def atan2(y: Lanes, x: Lanes) -> Lanes:
    ay, ax = abs(y), abs(x)
    steep = ay > ax
    below, above = steep.where(ax, ay), steep.where(ay, ax)
    t = below / above
    t = below.equals(above).where(above.equals(0.0).where(t.like(0.0), 1.0), t)  # 0 / 0, inf / inf
    angle = _odd(t, _ATAN)
    angle = steep.where(_PIO2 - angle, angle)
    angle = (x.bits() < 0).where(math.pi - angle, angle).copysign(y)
    return x.unordered(y).where(math.nan, angle)


_LN2 = math.log(2.0)
_HUGE = 2.0**60  # the square overflows soon after, and 1 is long lost beside it


def asinh(x: Lanes) -> Lanes:
    a = abs(x)
    huge = a > _HUGE
    z = a * a
    y = log1p(huge.where(a, a + z / (fma(a, a, 1.0).sqrt() + 1.0)))
    return huge.where(y + _LN2, y).copysign(x)


def acosh(x: Lanes) -> Lanes:
    t = x - 1.0
    huge = x > _HUGE
    y = log1p(huge.where(x, t + fma(t, t, t + t).sqrt()))
    return (x < 1.0).where(math.nan, huge.where(y + _LN2, y))


def atanh(x: Lanes) -> Lanes:
    a = abs(x)
    return (log1p((a + a) / (1.0 - a)) * 0.5).copysign(x)


def cbrt(x: Lanes) -> Lanes:
    """A third of the exponent, a cubic for what remains, then Newton's iteration on the exact residual."""
    a = abs(x)
    denormal = a < _SMALLEST_NORMAL
    b = denormal.where(a * 2.0**24, a)
    guess = (b.bits().cast(F32) * (1.0 / 3.0) + 709958130.0).cast(I32).as_element(F32)
    u = fma(b / (guess * guess * (guess * 0.5)), 0.5, -1.0)  # halves, lest the cube overflow
    y = fma(guess * u, polynomial(u, (1.0 / 3.0, -1.0 / 9.0, 5.0 / 81.0)), guess)
    z = y * y
    low = fma(y, y, -z)
    residual = fma(low, y, fma(z, y, -b))
    y -= residual / (z * 3.0)
    y = denormal.where(y * 2.0**-8, y)
    return (a.equals(0.0) | ~(a < math.inf)).where(x, y.copysign(x))


# log2((1 + s) / (1 - s)) / s in s^2, on |s| <= 0.1716, in float64
_LOG2_RATIO = (
    2.8853900817900855, 0.9617966733428555, 0.5770835847357514,
    0.4116727339916245, 0.3407298107235834,
)  # fmt: skip
# 2^g on |g| <= 1/2, in float64
_POW2 = (
    1.0000000005541643, 0.69314720573725, 0.24022646890637236, 0.05550328777009361,
    0.009618488957129166, 0.001339993120160837, 0.00015345811946981764,
)  # fmt: skip


def power(x: Lanes, y: Lanes) -> Lanes:
    """``2**(y * log2(abs(x)))`` in float64, rounded once at the end, below the normal range too."""
    a = abs(x)
    k, f = _split(a)
    g = f.cast(F64)
    s = g / (g + 2.0)
    e = fma(s, polynomial(s * s, _LOG2_RATIO), k.cast(F64)) * y.cast(F64)
    e = e.at_most(200.0).at_least(-200.0)
    t = e + 1.5 * 2.0**52
    g = e - (t - 1.5 * 2.0**52)
    magnitude = ((polynomial(g, _POW2).bits() + (t.bits() << 52)).as_element(F64)).cast(F32)
    # At 0 and infinity the magnitude is the same or the inverse.
    ends = a.equals(0.0) | a.equals(math.inf)
    magnitude = ends.where((y < 0.0).where(1.0 / a, a), magnitude)
    magnitude = a.equals(1.0).where(1.0, magnitude)
    whole = y.equals(y.trunc())
    counted = whole & (abs(y) < 2.0**24)  # every float32 from there on is even
    odd = (counted.where(y, 0.0).cast(I32) << 31) < 0
    signed = odd.where(magnitude.copysign(x), magnitude)
    finite_negative = (x < 0.0) & (x > -math.inf) & ~whole
    result = x.unordered(y).where(math.nan, finite_negative.where(math.nan, signed))
    return (x.equals(1.0) | y.equals(0.0)).where(1.0, result)


_UNARY = (exp, exp2, expm1, log, log2, log10, log1p, asin, acos, atan, sinh, cosh, tanh, asinh, acosh, atanh)
FUNCTIONS: dict[str, Callable[..., Lanes]] = {f.__name__: f for f in _UNARY} | {
    "sin": sin, "cos": cos, "tan": tan, "erf": erf, "cbrt": cbrt, "atan2": atan2, "pow": power,
}  # fmt: skip
