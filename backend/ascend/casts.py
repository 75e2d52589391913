"""Conversions between dtypes, and between what lies in memory and what is computed in.

Conversions to integers saturate on the chip; from wider integers the low bits are taken first. What they make
of NaN is not documented for this chip, so that NaN becomes 0 before.
"""

from __future__ import annotations

import numpy as np

from ...ops.dtypes import bfloat16, float16, uint16, uint32
from .comparison import as_mask, bias, form_of, half
from .formula import Vector, vector
from .integers import narrowed, wrapped
from .tile import MASK, Builder, Source, Value

Dtype = np.dtype[np.generic]


def rounded(x: Vector, dtype: Dtype) -> Vector:
    """A float32 result in the representation of a dtype: rounded to it."""
    if dtype == float16:
        return x.cast("f16", "RINT")
    if dtype == bfloat16:
        return x.cast("bf16", "RINT").cast("f32")
    return x


def widened(x: Vector) -> Vector:
    """A float as float32."""
    return x.cast("f32") if x.dtype == "f16" else x


def cast(b: Builder, source: Source, origin: Dtype, dtype: Dtype) -> Vector:
    """A value of one dtype as another's, both in their representations."""
    form = form_of(source)
    if origin.kind == "b":
        mask = as_mask(b, source, form)
        if dtype.kind == "b":
            return mask
        return mask.number(*_one(dtype))
    x = vector(b, source, form)
    if dtype.kind == "b":
        return _nonzero(x, origin)
    if origin.kind in "fV":
        return _from_float(x, origin, dtype)
    return _from_integer(x, origin, dtype)


def _one(dtype: Dtype) -> tuple[str, int | float]:
    """The representation of a dtype and 1 in it."""
    if dtype.kind in "fV":
        return ("f16" if dtype == float16 else "f32"), 1.0
    return ("i16" if dtype.itemsize < 4 else "i32"), 1


def _nonzero(x: Vector, origin: Dtype) -> Vector:
    if origin.kind in "fV":
        return x.differs(0.0)
    if x.dtype == "i32":
        return ~x.equals(0)
    return (half(x) if origin.itemsize == 1 else x.cast("f16", "RINT")).differs(0.0)


# --- from floats --------------------------------------------------------------------------------------------


def _from_float(x: Vector, origin: Dtype, dtype: Dtype) -> Vector:
    if dtype.kind in "fV":
        return x if dtype == origin else rounded(widened(x), dtype)
    number = x.equals(x).where(x, 0.0)
    if dtype.itemsize == 1:
        low, high = (-128, 127) if dtype.kind == "i" else (0, 255)
        return number.cast("i16", "TRUNC").max(low).min(high)
    if dtype.kind == "i":
        return number.cast("i16" if dtype.itemsize == 2 else "i32", "TRUNC")
    number = widened(number)
    if dtype.itemsize == 2:
        whole = number.cast("f32", "TRUNC")
        return (whole - 32768.0).cast("i16", "RINT") + bias(dtype)
    # From 2**31 on the difference to it is a signed number, to which it is added again.
    high_part = (number - 2147483648.0).cast("i32", "TRUNC") + bias(dtype)
    return (number >= 2147483648.0).where(high_part, number.max(0.0).cast("i32", "TRUNC"))


# --- from integers ------------------------------------------------------------------------------------------


def _from_integer(x: Vector, origin: Dtype, dtype: Dtype) -> Vector:
    if dtype.kind in "fV":
        return _to_float(x, origin, dtype)
    if origin.itemsize >= 4:
        return x if dtype.itemsize >= 4 else _low_bits(x, dtype)
    if dtype.itemsize >= 4:
        return _float32(x, origin).cast("i32", "RINT")
    if dtype.itemsize == 1 and dtype != origin:
        return wrapped(x, dtype)
    return x


def _low_bits(x: Vector, dtype: Dtype) -> Vector:
    """The low bits of 32-bit lanes in 16-bit ones."""
    if dtype.itemsize == 2:
        return narrowed(x)
    raised = x << 24
    return (raised >> 24 if dtype.kind == "i" else raised.logical_right(24)).cast("i16")


def _float32(x: Vector, origin: Dtype) -> Vector:
    """16-bit lanes as float32, exactly."""
    if origin.itemsize == 1:
        return half(x).cast("f32")
    if origin == uint16:
        return (x + bias(origin)).cast("f32") + 32768.0
    return x.cast("f32")


def _to_float(x: Vector, origin: Dtype, dtype: Dtype) -> Vector:
    if origin.itemsize >= 4:
        return rounded(_unsigned_to_float(x) if origin == uint32 else x.cast("f32", "RINT"), dtype)
    if origin.itemsize == 1:
        f = half(x)
        return f if dtype == float16 else f.cast("f32")  # which bfloat16 holds exactly
    if dtype == float16 and origin != uint16:
        return x.cast("f16", "RINT")
    return rounded(_float32(x, origin), dtype)


def _unsigned_to_float(x: Vector) -> Vector:
    """Both halves exactly, and their sum rounded once."""
    high = x.logical_right(16).cast("f32", "RINT") * 65536.0
    return high + (x << 16).logical_right(16).cast("f32", "RINT")


# --- the same bits ------------------------------------------------------------------------------------------


def bitcast(b: Builder, source: Source, origin: Dtype, dtype: Dtype) -> Vector:
    """The same bits as another dtype of the same width."""
    x = vector(b, source, form_of(source))
    if origin == dtype:
        return x
    if dtype.itemsize == 1:
        return wrapped(x, dtype)
    bits = x.cast("bf16", "RINT").bits() if origin == bfloat16 else x.bits()
    if dtype == bfloat16:
        return bits.view("bf16").cast("f32")
    return bits.floats() if dtype.kind == "f" else bits


# --- memory -------------------------------------------------------------------------------------------------


def from_memory(b: Builder, raw: Value, dtype: Dtype) -> Value:
    """What was copied from memory, in the representation of its dtype."""
    x = Vector(b, raw)
    match raw.dtype:
        case "u8" | "i8":
            half = x.cast("f16")
            return (half.differs(0.0) if dtype.kind == "b" else half.cast("i16", "RINT")).value
        case "bf16":
            return x.cast("f32").value
        case "u16" | "u32":
            return x.view(f"i{raw.dtype[1:]}").value
        case "i64":
            return x.cast("i32").value
    return raw


def to_memory(b: Builder, value: Value, dtype: Dtype) -> Value:
    """What is copied to memory for a value in the representation of a dtype."""
    x = Vector(b, value)
    if value.dtype == MASK:
        return x.number("f16", 1.0).cast("u8", "RINT").value
    if dtype.itemsize == 1:
        return x.cast("f16", "RINT").cast("i8" if dtype.kind == "i" else "u8", "RINT").value
    if dtype == bfloat16:
        return x.cast("bf16", "RINT").value
    if dtype.kind == "u" and dtype.itemsize < 8:
        return x.view(f"u{8 * dtype.itemsize}").value
    return x.cast("i64").value if dtype.itemsize == 8 else value
