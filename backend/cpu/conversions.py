"""Types in registers and in memory, and conversions between dtypes.

float16 and bfloat16 live in registers as float32 holding a value of the narrow type: operations
compute in float32 and round after each, which gives the narrow type's correctly rounded result
since 24 bits are more than twice its precision and two.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from .emitter import F32, F64, HALF, I1, I8, I16, I32, Emitter, Lanes, Splat, Text

Dtype = np.dtype[Any]


def is_narrow(dtype: Dtype) -> bool:
    """Whether the dtype is float16 or bfloat16."""
    return dtype.itemsize == 2 and dtype.kind in "fV"


def is_float(dtype: Dtype) -> bool:
    return dtype.kind in "fV"


def register_type(dtype: Dtype) -> ir.Type:
    """The type of one lane of a value in registers."""
    if dtype.kind == "b":
        return I1
    if dtype.kind in "iu":
        return ir.IntType(8 * dtype.itemsize)
    return F64 if dtype.itemsize == 8 else F32


def memory_type(dtype: Dtype) -> ir.Type:
    """The type of one element in memory; float16 and bfloat16 are loaded and stored as their bits."""
    if dtype.kind == "b":
        return I8
    return I16 if is_narrow(dtype) else register_type(dtype)


def _lanes(element: ir.Type, width: int) -> ir.Type:
    return ir.VectorType(element, width) if width else element


def _all(kind: ir.Type, text: str) -> ir.Constant:
    return Splat(kind, text) if isinstance(kind, ir.VectorType) else Text(kind, text)


def from_memory(builder: ir.IRBuilder, value: ir.Value, dtype: Dtype, width: int) -> ir.Value:
    """Turn a loaded vector of memory elements into one of register elements; scalars where width is 0."""
    if dtype.kind == "b":
        return builder.icmp_unsigned("!=", value, _all(value.type, "0"))
    if not is_narrow(dtype):
        return value
    wide = _lanes(F32, width)
    if dtype.kind == "f":
        return builder.fpext(builder.bitcast(value, _lanes(HALF, width)), wide)
    bits = builder.zext(value, _lanes(I32, width))
    return builder.bitcast(builder.shl(bits, _all(bits.type, "16")), wide)


def to_memory(builder: ir.IRBuilder, value: ir.Value, dtype: Dtype, width: int) -> ir.Value:
    """Turn a vector of register elements into the vector to store."""
    if dtype.kind == "b":
        return builder.zext(value, _lanes(I8, width))
    if not is_narrow(dtype):
        return value
    short = _lanes(I16, width)
    if dtype.kind == "f":
        return builder.bitcast(builder.fptrunc(value, _lanes(HALF, width)), short)
    bits = builder.bitcast(value, _lanes(I32, width))
    return builder.trunc(builder.lshr(bits, _all(bits.type, "16")), short)


def rounded(x: Lanes, dtype: Dtype) -> Lanes:
    """A float32 rounded to the nearest value of float16 or bfloat16, ties to even; others unchanged."""
    if not is_narrow(dtype):
        return x
    if dtype.kind == "f":
        return x.cast(HALF).cast(F32)
    bits = x.bits()
    even = bits + (bits.shift_right_logical(16) & 1) + 0x7FFF
    return ((x.is_nan().where(bits | 0x400000, even)) & 0xFFFF0000).as_element(F32)


def _to_odd(x: Lanes) -> Lanes:
    """A float64 as float32, with the last bit set where that was not exact.

    Rounded once more to a type of at most 22 bits it gives what one rounding would have
    (Boldo and Melquiond, "When double rounding is odd", 2005).
    """
    near = x.cast(F32)
    back = near.cast(F64)
    away = abs(back) > abs(x)
    toward = near.bits() - away.where(near.bits().like(1), 0)
    return (back.differs(x) & ~x.is_nan()).where(toward | 1, near.bits()).as_element(F32)


def _saturated(x: Lanes, dtype: Dtype) -> Lanes:
    """A float truncated toward zero; out of range gives the nearest end, NaN gives 0."""
    signed = dtype.kind == "i"
    element = register_type(dtype)
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    through = I32 if element.width < 32 else element
    if int(float(np.float32(high) if x.element == F32 else float(high))) == high:
        clamped = x.at_least(float(low)).at_most(float(high))
        whole = clamped.cast(through, signed or through != element)
        return x.is_nan().where(0, whole).cast(element)
    end = 2.0 ** high.bit_length()
    inside = (x >= float(low)) & (x < end)
    whole = inside.where(x, 0.0).cast(element, signed)
    whole = (x >= end).where(high, whole)
    return (x < float(low)).where(low, whole) if signed else whole


def cast(x: Lanes, source: Dtype, dtype: Dtype) -> Lanes:
    """Convert numbers between dtypes as NumPy's ``astype`` does, floats to integers saturating."""
    if source == dtype:
        return x
    element = register_type(dtype)
    if dtype.kind == "b":
        return x.differs(0)
    if source.kind == "b":
        return x.cast(element)
    if not is_float(source):
        return rounded(x.cast(element, source.kind == "i"), dtype)
    if not is_float(dtype):
        return _saturated(x, dtype)
    if source.itemsize == 8 and dtype.kind == "f" and is_narrow(dtype):  # to bfloat16 it goes through float32
        return rounded(_to_odd(x), dtype)
    return rounded(x.cast(element), dtype)


def bitcast(x: Lanes, source: Dtype, dtype: Dtype) -> Lanes:
    """The same bits read as another dtype of the same width."""
    context = x.context
    stored = to_memory(context.builder, x.value, source, context.width)
    stored = context.builder.bitcast(stored, context.vector(memory_type(dtype)))
    return Lanes(context, from_memory(context.builder, stored, dtype, context.width))


def bits16(x: Lanes, dtype: Dtype) -> Lanes:
    """The bits of a float16 or bfloat16 as 16-bit integers."""
    return Lanes(x.context, to_memory(x.context.builder, x.value, dtype, x.context.width))


def from_bits16(context: Emitter, bits: Lanes, dtype: Dtype) -> Lanes:
    return Lanes(context, from_memory(context.builder, bits.value, dtype, context.width))
