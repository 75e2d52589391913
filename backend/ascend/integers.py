"""Integer arithmetic: wrapping, division, shifts by what stands in a tile, bit counts, random bits, indices.

8- and 16-bit integers stand in 16-bit lanes, 32-bit ones in 32-bit lanes, unsigned ones as their bits.
Addition, subtraction and multiplication of lanes give the low bits of the result.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from ...ops.dtypes import int32, uint8, uint16
from .comparison import bias, form_of, half
from .formula import Vector, fitted, vector
from .tile import Builder, Scalar, Source, Value

Dtype = np.dtype[np.generic]


def wrapped(x: Vector, dtype: Dtype) -> Vector:
    """What is left of a 16-bit lane in an 8-bit dtype; wider ones wrap by themselves."""
    if dtype.itemsize > 1:
        return x
    raised = x << 8
    return raised >> 8 if dtype.kind == "i" else raised.logical_right(8)


_OPS = {"add": "Add", "sub": "Sub", "mul": "Mul"}
_SCALAR_OPS = {"add": "Adds", "sub": "Adds", "mul": "Muls"}


def arithmetic(b: Builder, op: str, x: Source, y: Source, dtype: Dtype) -> Vector:
    """``add``, ``sub``, ``mul``."""
    return wrapped(lanes(b, op, x, y), dtype)


def lanes(b: Builder, op: str, x: Source, y: Source) -> Vector:
    """``add``, ``sub`` or ``mul`` of lanes of any kind, in the form with a scalar where there is one."""
    form = form_of(x, y)
    if isinstance(x, Scalar) and op != "sub":
        x, y = y, x
    u = vector(b, x, form)
    if isinstance(y, Scalar):
        number = opposite(y) if op == "sub" else y
        return Vector(b, b.scalar(_SCALAR_OPS[op], u.value, number))
    return Vector(b, b.binary(_OPS[op], u.value, y))


_OPPOSITE = {
    "f32": "-({0})",
    "f16": "static_cast<half>(-static_cast<float>({0}))",
    "i16": "static_cast<int16_t>(-({0}))",
    "i32": "static_cast<int32_t>(0u - static_cast<uint32_t>({0}))",
}


def opposite(x: Scalar) -> Scalar:
    """A scalar negated, wrapped."""
    if isinstance(x.value, str):
        return Scalar(x.dtype, _OPPOSITE[x.dtype].format(x.value))
    return Scalar(x.dtype, fitted(-x.value, x.dtype) if isinstance(x.value, int) else -x.value)


def negative(x: Vector, dtype: Dtype) -> Vector:
    """``-x``, wrapped."""
    return wrapped(-x, dtype)


def absolute(x: Vector, dtype: Dtype) -> Vector:
    """``abs(x)``; of the least integer it is that integer."""
    return wrapped(x.max(-x), dtype) if dtype.kind == "i" else x


def bitwise(b: Builder, op: str, x: Source, y: Source) -> Vector:
    """``and``, ``or``, ``xor``."""
    form = form_of(x, y)
    u, v = vector(b, x, form), vector(b, y, form)
    return u & v if op == "and" else u | v if op == "or" else u ^ v


def inverted(x: Vector, dtype: Dtype) -> Vector:
    """``not``; uint8 stands in lanes of 16 bits, of which eight count."""
    return 255 - x if dtype == uint8 else ~x


def wide(x: Vector, dtype: Dtype) -> Vector:
    """Integers of 8 or 16 bits as floats."""
    if dtype == uint16:
        return (x + bias(dtype)).cast("f32") + 32768.0
    return half(x) if dtype.itemsize == 1 else x.cast("f32")


def narrowed(x: Vector) -> Vector:
    """The low 16 bits of 32-bit lanes; the conversion alone would saturate."""
    return ((x << 16) >> 16).cast("i16")


# --- shifts -------------------------------------------------------------------------------------------------


def shift(b: Builder, op: str, x: Source, y: Source, dtype: Dtype) -> Vector:
    """A shift by the width or more, or by less than 0, gives 0; of a signed value to the right its sign."""
    form = form_of(x, y)
    u = vector(b, x, form)
    if isinstance(y, Scalar):
        return _shift_by_number(op, u, y, dtype)
    v = Vector(b, y)
    narrow = dtype.itemsize < 4
    if op == "shift_left":
        return wrapped(_shift_left_narrow(u, v) if narrow else _shift_left(u, v), dtype)
    return _shift_right_narrow(u, v, dtype) if narrow else _shift_right(u, v, dtype)


def _shift_by_number(op: str, u: Vector, y: Scalar, dtype: Dtype) -> Vector:
    bits = 8 * dtype.itemsize
    lane = u.dtype
    signed = op == "shift_right" and dtype.kind == "i"
    most = bits - 1 if signed else bits
    if isinstance(y.value, str):
        text = f"static_cast<uint32_t>({y.value}) < {bits}u ? {y.value} : {most}"
        count: int | Scalar = Scalar(lane, f"static_cast<int{lane[1:]}_t>({text})" if signed else text)
    else:
        count = int(y.value) if 0 <= y.value < bits else most
        if not count:
            return u
    if op == "shift_left":
        return wrapped(u << count, dtype)
    return u >> count if signed else u.logical_right(count)


def _power_of_two(count: Vector, sign: int) -> Vector:
    """``2**count`` as float32, negative for a sign of 1, of 16-bit lanes that hold -127 < count < 128."""
    return ((count + (127 + 256 * sign)) << 7).view("bf16").cast("f32")


def _power_of_two32(count: Vector, sign: int) -> Vector:
    return ((count + (127 + 256 * sign)) << 23).view("f32")


def _shift_left_narrow(u: Vector, v: Vector) -> Vector:
    """A product with -2**v, which reaches the sign bit where 2**v does not, negated."""
    power = _power_of_two(v.max(-1).min(16), 1)
    power = (power >= -32768.0).where(power, 0.0)
    return -(u * power.cast("i16", "TRUNC"))


def _shift_left(u: Vector, v: Vector) -> Vector:
    power = _power_of_two32(v.max(-1).min(32), 1)
    power = (power >= -2147483648.0).where(power, 0.0)
    return -(u * power.cast("i32", "TRUNC"))


def _at_most_31(v: Vector) -> Vector:
    """A count, read as unsigned, but for what is beyond 31."""
    top = -(2**15) if v.dtype == "i16" else -(2**31)
    return (v + top).min(top + 31) + top


def _shift_right_narrow(u: Vector, v: Vector, dtype: Dtype) -> Vector:
    """A product with 2**-v, rounded down."""
    power = _power_of_two(-_at_most_31(v), 0)
    if dtype != uint16:
        return (u.cast("f32") * power).cast("i16", "FLOOR")
    shifted = (wide(u, dtype) * power).cast("f32", "FLOOR")
    return (shifted - 32768.0).cast("i16", "RINT") + bias(dtype)


def _shift_right(u: Vector, v: Vector, dtype: Dtype) -> Vector:
    """Both halves as floats times 2**-v, each rounded down: no carry passes between them."""
    if dtype.kind == "u":
        # One step first makes a signed number of it.
        zero = v.equals(0)
        shifted = _shift_right(u.logical_right(1), v - 1, int32)
        return zero.where(u, shifted)
    power = _power_of_two32(-_at_most_31(v), 0)
    low = (u << 16).logical_right(16).cast("f32", "RINT") * power
    high = (u >> 16).cast("f32", "RINT") * (power * 65536.0)
    return low.cast("i32", "FLOOR") + high.cast("i32", "FLOOR")


# --- bits ---------------------------------------------------------------------------------------------------


def popcount(x: Vector, dtype: Dtype) -> Vector:
    """Ones in the magnitude, by sums of ever wider fields, as 16-bit lanes.

    Source: Warren, "Hacker's Delight", 2nd edition, section 5-1.
    """
    if dtype.kind == "i":
        x = x.max(-x)
    wide = x.dtype == "i32"

    def field(bits: int) -> Vector:
        return x.like(bits)

    x = x - (x.logical_right(1) & field(0x55555555))
    threes = field(0x33333333)
    x = (x & threes) + (x.logical_right(2) & threes)
    x = (x + x.logical_right(4)) & field(0x0F0F0F0F)
    if not wide:
        return x if dtype.itemsize == 1 else (x * 0x0101).logical_right(8)
    return (x * 0x01010101).logical_right(24).cast("i16")


# --- random bits --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Words:
    """A 64-bit counter in two words; made by adding a number to an index, read by random bits alone."""

    low: Value
    high: Value


def halves(x: Scalar) -> tuple[Scalar, Scalar]:
    """The low and the high word of a 64-bit scalar, as ``i32``."""
    if not isinstance(x.value, str):
        value = int(x.value) % 2**64
        return Scalar("i32", fitted(value, "i32")), Scalar("i32", fitted(value >> 32, "i32"))
    return Scalar("i32", f"static_cast<int32_t>({x.value})"), Scalar(
        "i32", f"static_cast<int32_t>(static_cast<uint64_t>({x.value}) >> 32)"
    )


def add_counter(b: Builder, x: Source, y: Source) -> Words:
    """An index that fits 31 bits and a 64-bit number, in two words."""
    if isinstance(x, Scalar):
        x, y = y, x
    assert isinstance(x, Value) and isinstance(y, Scalar)
    low, high = halves(y)
    total = Vector(b, x) + low
    top = -(2**31)
    number = vector(b, low, x.form) + top
    turned = total + top
    carried = ~turned.max(number).equals(turned)  # less than what was added
    return Words(total.value, (carried.number("i32") + high).value)


_MULTIPLIER = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)


def _high_product(x: Vector, multiplier: int) -> Vector:
    """The high word of a product with a 32-bit number, from 16-bit pieces."""
    low, high = multiplier & 0xFFFF, multiplier >> 16
    below, above = (x << 16).logical_right(16), x.logical_right(16)
    middle = above * low + (below * low).logical_right(16)
    cross = below * high + (middle << 16).logical_right(16)
    return above * high + middle.logical_right(16) + cross.logical_right(16)


def random_bits(b: Builder, counter: Source | Words, key: Source, stream: Source, word: int) -> Vector:
    """One word of a Philox4x32-10 block, computed from the last round backward so that nothing else is.

    Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
    """
    assert isinstance(key, Scalar) and isinstance(stream, Scalar)
    if isinstance(counter, Words):
        low, high = Vector(b, counter.low), Vector(b, counter.high)
    else:
        low = vector(b, counter)
        high = low.like(0)
    form = low.value.form
    first = [low, high, *(vector(b, half, form) for half in halves(stream))]
    keys = [vector(b, half, form) for half in halves(key)]

    @cache
    def at(number: int, which: int) -> Vector:
        if number == 0:
            return first[which]
        factor = at(number - 1, 2 if which < 2 else 0)
        multiplier = _MULTIPLIER[1 if which < 2 else 0]
        if which % 2:
            return factor * multiplier
        step = _WEYL[which // 2] * (number - 1) % 2**32
        subkey = keys[which // 2] + step if step else keys[which // 2]
        return _high_product(factor, multiplier) ^ (at(number - 1, which + 1) ^ subkey)

    return at(10, word)


# --- indices ------------------------------------------------------------------------------------------------


def wrap_index(b: Builder, index: Source, size: Source, number: int, from_start: bool = False) -> Vector:
    """Count a negative index from the end, or not; one out of range is a fault and becomes the nearest."""
    form = form_of(index, size)
    x = vector(b, index, form)
    below = x >> 31
    if isinstance(size, Scalar):
        wrapped_ = x if from_start else x - below * size
        last: Vector | Scalar = (
            Scalar("i32", f"({size.value} - 1)")
            if isinstance(size.value, str)
            else Scalar("i32", size.value - 1)
        )
    else:
        wrapped_ = x if from_start else x - below * Vector(b, size)
        last = Vector(b, size) - 1
    inside = wrapped_.min(last).max(0)
    b.fault((~inside.equals(wrapped_)).value, x.value, number)
    return inside
