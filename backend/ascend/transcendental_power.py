"""Powers and the cube root, in which float32 alone is not enough: numbers in two parts."""

from __future__ import annotations

import math

from .formula import Vector
from .transcendental import UNARY, polynomial, power_of_two

_SMALLEST_NORMAL = 2.0**-126


def exp2(x: Vector) -> Vector:
    return power_of_two(x)


def cbrt(x: Vector) -> Vector:
    """A guess of 8 bits, whose cube is exact, and a series in what it lacks."""
    a = abs(x)
    denormal = a < _SMALLEST_NORMAL
    scaled = denormal.where(a * 2.0**24, a)
    guess = (scaled.ln() * (1.0 / 3.0)).exp().bits()
    start = guess.head(16).floats()
    cube = start * start * start
    d = (scaled - cube) / cube
    root = polynomial(d, (1.0 / 3.0, -1.0 / 9.0, 5.0 / 81.0)) * d * start + start
    root = denormal.where(root * 2.0**-8, root).copysign(x)
    return x.differs(x + x).where(root, x)  # but for 0 and infinity


# 3 * (log((1 + s) / (1 - s)) / (2 s) - 1 - s^2 / 3) / s^4 in s^2, on |s| <= 0.1716
_LOG = (0.6000022888183594, 0.42820668220520020, 0.35128670930862427)
_CP = 0.9617967009544373  # 2 / (3 ln(2)), in two parts
_CP_HIGH = 0.961669921875
_CP_LOW = 0.00012677205086220056


def _head(x: Vector) -> Vector:
    """The first 12 bits, so that a product of two such is exact."""
    bits = x.bits()
    return (bits & bits.like(-0x1000)).floats()


def _log2_parts(a: Vector) -> tuple[Vector, Vector]:
    """``log2(a)`` for ``0 < a`` finite in two parts, the first of 12 bits.

    Source: the algorithm of FreeBSD's powf (the logarithm in head and tail), with the exponent chosen so that
    ``sqrt(1/2) <= m < sqrt(2)``.
    """
    denormal = a < _SMALLEST_NORMAL
    bits = denormal.where(a * 2.0**24, a).bits()
    exponent = (bits - 0x3F3504F3) >> 23
    m = (bits - (exponent << 23)).floats()
    k = exponent.cast("f32", "RINT")
    k = denormal.where(k - 24.0, k)
    less, more = m - 1.0, m + 1.0
    s = less / more
    s_head = _head(s)
    more_head = _head(more)
    more_tail = m - (more_head - 1.0)
    s_tail = ((less - s_head * more_head) - s_head * more_tail) / more
    z = s * s
    series = polynomial(z, _LOG) * (z * z)
    series = series + s_tail * (s_head + s)
    square = s_head * s_head
    t_head = _head(square + 3.0 + series)
    t_tail = series - ((t_head - 3.0) - square)
    u = s_head * t_head
    v = s_tail * t_head + t_tail * s
    p_head = _head(u + v)
    p_tail = v - (p_head - u)
    z_head = p_head * _CP_HIGH
    z_tail = p_head * _CP_LOW + p_tail * _CP
    head = _head(z_head + z_tail + k)
    return head, z_tail - ((head - k) - z_head)


def power(x: Vector, y: Vector) -> Vector:
    """``2**(y * log2(abs(x)))``, and what holds at the ends of the range and for negative x."""
    head, tail = _log2_parts(abs(x))
    finite = y.max(-3e38).min(3e38)
    y_head = _head(finite)
    low = (finite - y_head) * head + finite * tail
    return _completed(x, y, power_of_two(y_head * head, low))


def power_narrow(x: Vector, y: Vector) -> Vector:
    """The same to the precision of float16 and bfloat16."""
    return _completed(x, y, (abs(x).ln() * y.max(-3e38).min(3e38)).exp())


def _completed(x: Vector, y: Vector, magnitude: Vector) -> Vector:
    a = abs(x)
    # At 0 and infinity the magnitude is the same or the inverse.
    ends = a.equals(a + a)
    magnitude = ends.where((y < 0.0).where(a.under(1.0), a), magnitude)
    whole = y.equals(y.cast("f32", "TRUNC"))
    half = y * 0.5
    odd = whole & half.differs(half.cast("f32", "TRUNC"))
    signed = odd.where(magnitude.copysign(x), magnitude)
    defined = (x >= 0.0) | whole | ends
    result = (defined & x.equals(x) & y.equals(y)).where(signed, math.nan)
    return (x.differs(1.0) & y.differs(0.0)).where(result, 1.0)


FUNCTIONS = UNARY | {"exp2": exp2, "cbrt": cbrt}
