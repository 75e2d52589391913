"""Integer division, powers, shifts and random bits; no operand traps."""

from __future__ import annotations

from .emitter import F32, F64, I8, I32, I64, Emitter, Lanes


def _quotient(a: Lanes, b: Lanes, signed: bool) -> tuple[Lanes, Lanes]:
    """Quotient toward zero and remainder; both 0 by 0, ``-a`` and 0 by -1.

    Vectors have no integer division: up to 32 bits the correctly rounded quotient of a float with more
    than twice as many bits has the right integer part.
    """
    bits = a.element.width
    risky = (b + 1).below(2) if signed else b.equals(0)
    safe = risky.where(1, b)
    if bits == 64:
        divide = a.context.builder.sdiv if signed else a.context.builder.udiv
        q = Lanes(a.context, divide(a.value, safe.value))
    else:
        wide, through = (F32, I32) if bits < 32 else (F64, a.element)
        ratio = a.cast(wide, signed) / safe.cast(wide, signed)
        q = ratio.cast(through, signed or bits < 32).cast(a.element)
    remainder = a - q * safe
    if signed:
        q = risky.where(-a, q)
    return b.equals(0).where(0, q), remainder


def floor_divide(a: Lanes, b: Lanes, signed: bool) -> Lanes:
    q, r = _quotient(a, b, signed)
    if not signed:
        return q
    return (r.differs(0) & ((r ^ b) < 0)).where(q - 1, q)


def remainder(a: Lanes, b: Lanes, signed: bool) -> Lanes:
    """The remainder with the sign of the divisor."""
    _, r = _quotient(a, b, signed)
    if not signed:
        return r
    return (r.differs(0) & ((r ^ b) < 0)).where(r + b, r)


def fmod(a: Lanes, b: Lanes, signed: bool) -> Lanes:
    """The remainder with the sign of the dividend."""
    return _quotient(a, b, signed)[1]


def _power_by_squaring(x: Lanes, y: Lanes) -> Lanes:
    """Square and multiply until no lane has exponent bits left."""
    context, builder = x.context, x.context.builder
    start = builder.block
    head, body, done = (builder.append_basic_block(name) for name in ("power", "square", "powered"))
    builder.branch(head)
    builder.position_at_end(head)
    phis = [builder.phi(x.value.type) for _ in range(3)]
    base, exponent, result = (Lanes(context, phi) for phi in phis)
    builder.cbranch(exponent.differs(0).any(), body, done)
    builder.position_at_end(body)
    multiplied = (exponent & 1).differs(0).where(result * base, result)
    following = (base * base, exponent.shift_right_logical(1), multiplied)
    builder.branch(head)
    for phi, first, then in zip(phis, (x, y, x.like(1)), following, strict=True):
        phi.add_incoming(first.value, start)
        phi.add_incoming(then.value, body)
    builder.position_at_end(done)
    return result


def power(x: Lanes, y: Lanes, signed: bool) -> Lanes:
    """``x**y`` modulo the width; for a negative exponent ``1 / x**-y`` toward zero, and 0 of 0."""
    if not signed:
        return _power_by_squaring(x, y)
    negative = y < 0
    magnitude = _power_by_squaring(x, negative.where(y & 1, y))
    unit = x.equals(1) | x.equals(-1)
    return (negative & ~unit).where(0, magnitude)


def shift_left(a: Lanes, b: Lanes) -> Lanes:
    inside = b.below(a.element.width)
    return inside.where(a << inside.where(b, 0), 0)


def shift_right(a: Lanes, b: Lanes, signed: bool) -> Lanes:
    inside = b.below(a.element.width)
    if signed:
        return a >> inside.where(b, a.element.width - 1)
    return inside.where(a.shift_right_logical(inside.where(b, 0)), 0)


def absolute(x: Lanes, signed: bool) -> Lanes:
    return (x < 0).where(-x, x) if signed else x


def popcount(x: Lanes, signed: bool) -> Lanes:
    """The number of ones in the magnitude, as uint8."""
    x = absolute(x, signed)
    return Lanes(x.context, x.context.elementwise("ctpop", x.value)).cast(I8, signed=False)


def random_bits(counter: Lanes, key: Lanes, stream: Lanes, word: int) -> Lanes:
    """One of the four words of a Philox4x32-10 block.

    Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011). Words stand in 64-bit
    lanes, which is what vector instructions multiply 32-bit numbers to.
    """
    low = 0xFFFFFFFF
    words = [counter & low, counter.shift_right_logical(32), stream & low, stream.shift_right_logical(32)]
    k0, k1 = key & low, key.shift_right_logical(32)
    for _ in range(10):
        product0, product1 = words[0] * 0xD2511F53, words[2] * 0xCD9E8D57
        words = [
            product1.shift_right_logical(32) ^ words[1] ^ k0,
            product1 & low,
            product0.shift_right_logical(32) ^ words[3] ^ k1,
            product0 & low,
        ]
        k0, k1 = (k0 + 0x9E3779B9) & low, (k1 + 0xBB67AE85) & low
    return words[word].cast(I32)


def wrap_index(context: Emitter, index: Lanes, size: Lanes) -> Lanes:
    """Count a negative index from the end. One out of range is a fault, and 0, so that no access strays."""
    assert index.element == I64
    wrapped = (index < 0).where(index + size, index)
    outside = ~wrapped.below(size)
    context.fault(outside.value, index.value)
    return outside.where(0, wrapped)
