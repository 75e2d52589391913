"""Integer division, exactly, through floats; by zero everything is 0, as in NumPy."""

from __future__ import annotations

import numpy as np

from ...ops.dtypes import uint16, uint32
from .comparison import form_of
from .formula import Vector, vector
from .integers import narrowed, wide, wrapped
from .tile import Builder, Scalar, Source

Dtype = np.dtype[np.generic]


def divide(b: Builder, op: str, x: Source, y: Source, dtype: Dtype) -> Vector:
    """``floor_divide``, ``remainder``, ``fmod``; by zero they are 0, as in NumPy."""
    form = form_of(x, y)
    u = vector(b, x, form)
    if isinstance(y, Scalar) and dtype != uint32 and (op != "fmod" or dtype.kind == "u"):
        divisor = Number(y, dtype)
        return (_divide_narrow_by if dtype.itemsize < 4 else _divide_by)(op, u, divisor)
    v = vector(b, y, form)
    if dtype.itemsize < 4:
        return _divide_narrow(op, u, v, dtype)
    return _divide_unsigned(op, u, v) if dtype.kind == "u" else _divide_signed(op, u, v)


def _divide_narrow(op: str, u: Vector, v: Vector, dtype: Dtype) -> Vector:
    """Through a float of more than twice the bits.

    Half a step of the dividend away from zero in the divisor's direction keeps the quotient off integers by
    more than the division's error, even were that a unit in the last place.
    """
    signed = dtype.kind == "i"
    f, g = wide(u, dtype), wide(v, dtype)
    if op == "fmod" and signed:
        # Toward zero: the quotient of magnitudes, its sign put back.
        ratio = (abs(f) + 0.5) / abs(g)
        quotient = ratio.cast("i16", "FLOOR") if dtype.itemsize == 1 else _floor16(ratio)
        opposite_signs = (u ^ v) >> 15
        q = (quotient ^ opposite_signs) - opposite_signs
        rest = u - q * v
        return wrapped(g.differs(0.0).where(rest, 0), dtype)
    if signed:
        away = g.min(0.5).max(-0.5)
        ratio = (f + away) / g
    else:
        ratio = (f + 0.5) / g
    by_zero = g.differs(0.0)
    q = ratio.cast("i16", "FLOOR") if dtype.itemsize == 1 else _floor16(ratio)
    if op == "floor_divide":
        return by_zero.where(wrapped(q, dtype), 0)
    return by_zero.where(wrapped(u - q * v, dtype), 0)


def _floor16(ratio: Vector) -> Vector:
    """Rounded down, the low 16 bits."""
    return narrowed(ratio.cast("i32", "FLOOR"))


def _nearest(u: Vector, v: Vector) -> tuple[Vector, Vector]:
    """Quotient and rest of 32-bit lanes, the rest smaller than the divisor in magnitude.

    A float32 quotient is off by 3 * 2**-24 of itself, so that the first rest is at most half the divisor and
    384, and the second less than the divisor.
    """
    f, g = u.cast("f32", "RINT"), v.cast("f32", "RINT")
    q = (f / g).cast("i32", "RINT")
    rest = u - q * v
    more = (rest.cast("f32", "RINT") / g).cast("i32", "RINT")
    return q + more, rest - more * v


def _divide_signed(op: str, u: Vector, v: Vector) -> Vector:
    q, rest = _nearest(u, v)
    sign = v.min(1).max(-1)
    some = sign * sign  # 0 where the divisor is
    if op == "fmod":
        direction = u.min(1).max(-1)
        wrong = (rest * direction) >> 31
        return (rest + (wrong & (v.max(-v) * direction))) * some
    wrong = (rest * sign) >> 31
    return ((q + wrong) if op == "floor_divide" else rest + (wrong & v)) * some


def _divide_unsigned(op: str, u: Vector, v: Vector) -> Vector:
    """Half the dividend is a signed number: its quotient twice, and one more where the rest allows it.

    Source: Warren, "Hacker's Delight", 2nd edition, section 9-3. From 2**31 on a divisor goes into any
    dividend at most once.
    """
    high = v >> 31  # all ones from 2**31 on
    q, rest = _nearest(u.logical_right(1), v.max(1))
    q = q + (rest >> 31)
    q = (q + q) & ~high
    rest = u - q * v
    # rest >= v: of small divisors the difference is a signed number; of large ones where rest is large too
    # and it is not negative.
    less = ((rest - v) >> 31) | (high & ~(rest >> 31))
    some = (v | -v) >> 31  # all ones but for 0
    if op == "floor_divide":
        return (q + 1 + less) & some
    return (rest - (~less & v)) & some


# --- by a number -------------------------------------------------------------------------------------------


class Number:
    """A divisor that is the same everywhere: what the scalar unit makes of it.

    Attributes
    ----------
    dtype : numpy.dtype
    lane : Scalar
        Itself.
    inverse : Scalar
        As a float; infinite for 0.
    sign, some : Scalar
        Its sign, and 1 if it is not 0.
    away : Scalar
        Half of the sign, as a float.
    """

    def __init__(self, y: Scalar, dtype: Dtype) -> None:
        self.dtype = dtype
        self.lane = y
        kind = "f16" if dtype.itemsize == 1 else "f32"
        integer = f"int{y.dtype[1:]}_t"
        if isinstance(y.value, str):
            value = f"static_cast<uint16_t>({y.value})" if dtype == uint16 else f"({y.value})"
            inverse, away = f"1.0f / static_cast<float>({value})", f"0.5f * (({value} > 0) - ({value} < 0))"
            if kind == "f16":
                inverse, away = f"static_cast<half>({inverse})", f"static_cast<half>({away})"
            self.inverse, self.away = Scalar(kind, inverse), Scalar(kind, away)
            self.sign = Scalar(y.dtype, f"static_cast<{integer}>(({value} > 0) - ({value} < 0))")
            self.some = Scalar(y.dtype, f"static_cast<{integer}>({value} != 0)")
            return
        number = int(y.value) % 2**16 if dtype == uint16 else int(y.value)
        sign = (number > 0) - (number < 0)
        self.inverse = Scalar(kind, 1.0 / number if number else float("inf"))
        self.away = Scalar(kind, 0.5 * sign)
        self.sign, self.some = Scalar(y.dtype, sign), Scalar(y.dtype, abs(sign))

    def of(self, x: Vector) -> Vector:
        """A product with the divisor."""
        return x * self.lane

    def signed(self, x: Vector) -> Vector:
        """A product with its sign."""
        return x if self.sign.value == 1 else x * self.sign

    def unless_zero(self, x: Vector) -> Vector:
        return x if self.some.value == 1 else x * self.some


def _divide_narrow_by(op: str, u: Vector, divisor: Number) -> Vector:
    """As `_divide_narrow`: the inverse and the product are each off by half a unit in the last place."""
    ratio = (wide(u, divisor.dtype) + divisor.away) * divisor.inverse
    q = ratio.cast("i16", "FLOOR") if divisor.dtype.itemsize == 1 else _floor16(ratio)
    result = q if op == "floor_divide" else u - divisor.of(q)
    return wrapped(divisor.unless_zero(result), divisor.dtype)


def _divide_by(op: str, u: Vector, divisor: Number) -> Vector:
    """As `_divide_signed`; the first quotient is off by 4 * 2**-24 of itself."""
    q = (u.cast("f32", "RINT") * divisor.inverse).cast("i32", "RINT")
    rest = u - divisor.of(q)
    more = (rest.cast("f32", "RINT") * divisor.inverse).cast("i32", "RINT")
    rest = rest - divisor.of(more)
    wrong = divisor.signed(rest) >> 31
    return divisor.unless_zero(q + more + wrong if op == "floor_divide" else rest - divisor.of(wrong))
