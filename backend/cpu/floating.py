"""Floating-point operations whose result NumPy fixes to the last bit."""

from __future__ import annotations

import math

from .emitter import F32, I1, Lanes, fma


def maximum(a: Lanes, b: Lanes) -> Lanes:
    """The larger; NaN if either is, and the second of equals."""
    return a.is_nan().where(a, (a > b).where(a, b))


def minimum(a: Lanes, b: Lanes) -> Lanes:
    return a.is_nan().where(a, (a < b).where(a, b))


def _modulo(x: Lanes, y: Lanes) -> Lanes:
    """``x mod y`` for ``0 <= x`` finite and ``0 < y``, exactly.

    For q the rounded and truncated quotient, x - q * y is a float and fma gives it, whether q is
    right or not; where it is negative, its magnitude goes on with the sign noted.
    """
    context, builder = x.context, x.context.builder
    far = 2.0**90 if y.element == F32 else 2.0**600  # keeps the quotient finite
    start = builder.block
    head, body, done = (builder.append_basic_block(name) for name in ("modulo", "subtract", "reduced"))
    builder.branch(head)
    builder.position_at_end(head)
    phis = builder.phi(x.value.type), builder.phi(context.vector(I1))
    rest, flipped = (Lanes(context, phi) for phi in phis)
    active = rest >= y
    builder.cbranch(active.any(), body, done)
    builder.position_at_end(body)
    divisor = y
    for _ in range(2):
        larger = divisor * far
        divisor = (rest >= larger).where(larger, divisor)
    less = fma(-(rest / divisor).trunc(), divisor, rest)
    following = active.where(abs(less), rest), flipped ^ (active & (less < 0.0))
    builder.branch(head)
    for phi, first, then in zip(phis, (x, context.lanes(I1, 0)), following, strict=True):
        phi.add_incoming(first.value, start)
        phi.add_incoming(then.value, body)
    builder.position_at_end(done)
    return (flipped & (rest > 0.0)).where(y - rest, rest)


def fmod(a: Lanes, b: Lanes) -> Lanes:
    """C's ``fmod``: exact, with the sign of the dividend."""
    x, y = abs(a), abs(b)
    valid = (x < math.inf) & (y > 0.0)
    r = _modulo(valid.where(x, 0.0), valid.where(y, 1.0))
    return valid.where(r.copysign(a), math.nan)


def remainder(a: Lanes, b: Lanes) -> Lanes:
    """NumPy's ``remainder``: the sign of the divisor, signed zero included."""
    r = fmod(a, b)
    opposite = (b < 0.0) ^ (r < 0.0)
    return r.equals(0.0).where(r.like(0.0).copysign(b), opposite.where(r + b, r))


def floor_divide(a: Lanes, b: Lanes) -> Lanes:
    """NumPy's ``floor_divide``, which goes through the exact remainder."""
    r = fmod(a, b)
    q = (a - r) / b
    q = (r.differs(0.0) & ((b < 0.0) ^ (r < 0.0))).where(q - 1.0, q)
    floor = q.floor()
    floor = (q - floor > 0.5).where(floor + 1.0, floor)
    ratio = a / b
    result = q.equals(0.0).where(q.like(0.0).copysign(ratio), floor)
    return b.equals(0.0).where(ratio, result)


def nextafter(x: Lanes, y: Lanes, bits: Lanes) -> Lanes:
    """The bits of the neighbour of x toward y, from the bits of x; NaN is the caller's."""
    element = bits.element
    sign = 1 << (element.width - 1)
    outward = (y > x) ^ (x < 0.0)
    step = outward.where(bits.like(1), -1)
    smallest = (y < 0.0).where(bits.like(sign | 1), 1)
    return x.equals(0.0).where(smallest, bits + step)


def hypot(x: Lanes, y: Lanes) -> Lanes:
    """The square root of the sum of squares, scaled by a power of two where those leave the range."""
    limit, power = (2.0**62, 2.0**100) if x.element == F32 else (2.0**510, 2.0**700)
    a, b = abs(x), abs(y)
    larger = (a > b).where(a, b)
    big, small = larger > limit, larger < 1.0 / limit
    scale = big.where(1.0 / power, small.where(x.like(power), 1.0))
    back = big.where(power, small.where(x.like(1.0 / power), 1.0))
    a, b = a * scale, b * scale
    r = fma(a, a, b * b).sqrt() * back
    infinite = a.equals(math.inf) | b.equals(math.inf)
    return infinite.where(math.inf, r)
