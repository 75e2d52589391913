"""Comparisons, extremes and selection.

Compare takes floats, and 32-bit integers for equality only. Other integers are compared through a float that
holds them exactly, or through their maximum. How the chip's maximum and minimum treat NaN is not relied on.
"""

from __future__ import annotations

import math

import numpy as np

from ...ops.dtypes import float16
from .formula import Vector, vector
from .tile import Builder, Form, Scalar, Source, Value

Dtype = np.dtype[np.generic]

_SWAPPED = {"LT": "GT", "LE": "GE", "EQ": "EQ", "NE": "NE"}


def bias(dtype: Dtype) -> int:
    """What turns the order of unsigned integers into that of their bits read as signed, and back."""
    return -(2**31) if dtype.itemsize > 2 else -(2**15)


def is_wide_unsigned(dtype: Dtype) -> bool:
    """Whether the order of a dtype's representation, signed integers, is not its own."""
    return dtype.kind == "u" and dtype.itemsize in (2, 4)


def biased(x: Scalar, dtype: Dtype) -> Scalar:
    """An integer that stands in signed order as the given one of a dtype stands in its."""
    if not is_wide_unsigned(dtype):
        return x
    kind = x.dtype
    if isinstance(x.value, str):
        bits = kind[1:]
        turned = f"static_cast<uint{bits}_t>({x.value}) ^ {1 << int(bits) - 1}u"
        return Scalar(kind, f"static_cast<int{bits}_t>({turned})")
    return Scalar(kind, int(x.value) + (bias(dtype) if x.value >= 0 else -bias(dtype)))


def ordered(b: Builder, x: Source, dtype: Dtype, form: Form) -> Vector:
    """A value whose signed order is the dtype's own."""
    if isinstance(x, Scalar):
        return vector(b, biased(x, dtype), form)
    return Vector(b, x) + bias(dtype) if is_wide_unsigned(dtype) else Vector(b, x)


def half(x: Vector) -> Vector:
    """Integers of 8 bits as float16, which they have been if they were copied in."""
    for instr in reversed(x.b.instrs):
        if instr.dst is x.value:
            before = instr.srcs[0] if instr.op == "Cast" else None
            if isinstance(before, Value) and _was_copied(x.b, before):
                return Vector(x.b, before)
            break
    return x.cast("f16", "RINT")


def _was_copied(b: Builder, value: Value) -> bool:
    """Whether a value is 8-bit integers converted to float16."""
    for instr in b.instrs:
        if instr.dst is value:
            return instr.op == "Cast" and instr.srcs[0].dtype in ("i8", "u8")
    return False


def as_float(b: Builder, x: Source, dtype: Dtype, form: Form) -> Vector:
    """Integers of 8 or 16 bits as floats in their order."""
    u = ordered(b, x, dtype, form)
    return half(u) if dtype.itemsize == 1 else u.cast("f32")


def float_number(x: Scalar, dtype: Dtype) -> Scalar:
    """A scalar of 8 or 16 bits as the float that it is compared through."""
    target = "f16" if dtype.itemsize == 1 else "f32"
    x = biased(x, dtype)
    if isinstance(x.value, str):
        return Scalar(target, f"static_cast<{'half' if target == 'f16' else 'float'}>({x.value})")
    return Scalar(target, float(x.value))


def as_mask(b: Builder, source: Source, form: Form) -> Vector:
    """A bool, laid out in a form if it is a scalar."""
    if isinstance(source, Value):
        return Vector(b, source)
    return vector(
        b, Scalar("f16", source.value if isinstance(source.value, str) else float(source.value)), form
    ).differs(0.0)


def form_of(*sources: Source) -> Form:
    """The form that sources have together; a column where all are scalars."""
    form: Form | None = None
    for source in sources:
        if isinstance(source, Value):
            form = source.form if form is None else form.join(source.form)
    return form or Form.COLUMN


def compare(b: Builder, op: str, x: Source, y: Source, dtype: Dtype) -> Vector:
    """``eq``, ``ne``, ``lt``, ``le`` of operands of a dtype."""
    how = op.upper()
    form = form_of(x, y)
    if dtype.kind == "b":
        return _compare_bools(how, as_mask(b, x, form), as_mask(b, y, form))
    if dtype.kind in "fV":
        if isinstance(x, Scalar) and isinstance(y, Value):
            return Vector(b, y).compare(_SWAPPED[how], x)
        return vector(b, x, form).compare(how, vector(b, y) if isinstance(y, Value) else y)
    if dtype.itemsize < 4:
        if isinstance(y, Scalar):
            return as_float(b, x, dtype, form).compare(how, float_number(y, dtype))
        if isinstance(x, Scalar):
            return as_float(b, y, dtype, form).compare(_SWAPPED[how], float_number(x, dtype))
        return as_float(b, x, dtype, form).compare(how, as_float(b, y, dtype, form))
    if how in ("EQ", "NE"):
        if isinstance(x, Scalar):
            x, y = y, x
        equal = vector(b, x, form).equals(vector(b, y) if isinstance(y, Value) else y)
        return equal if how == "EQ" else ~equal
    return _order32(b, how, x, y, dtype, form)


def _order32(b: Builder, how: str, x: Source, y: Source, dtype: Dtype, form: Form) -> Vector:
    """``x <= y`` where y is their maximum; ``x < y`` where x is not."""
    if isinstance(x, Value) and isinstance(y, Value):
        u, v = ordered(b, x, dtype, form), ordered(b, y, dtype, form)
        return u.max(v).equals(v) if how == "LE" else ~u.max(v).equals(u)
    if isinstance(y, Scalar):
        u, number = ordered(b, x, dtype, form), biased(y, dtype)
        # x <= s where their minimum is x; x < s where their maximum is not.
        return u.min(number).equals(u) if how == "LE" else ~u.max(number).equals(u)
    assert isinstance(x, Scalar)
    v, number = ordered(b, y, dtype, form), biased(x, dtype)
    return v.max(number).equals(v) if how == "LE" else ~v.min(number).equals(v)


def _compare_bools(how: str, x: Vector, y: Vector) -> Vector:
    if how == "NE":
        return x ^ y
    if how == "EQ":
        return ~(x ^ y)
    return ~x & y if how == "LT" else ~x | y


def extreme(b: Builder, op: str, x: Source, y: Source, dtype: Dtype) -> Vector:
    """``max`` or ``min`` as NumPy has them: NaN if either is."""
    form = form_of(x, y)
    if dtype.kind == "b":
        u, v = as_mask(b, x, form), as_mask(b, y, form)
        return u | v if op == "max" else u & v
    if dtype.kind in "fV":
        # Of 0 and -0 the second, of float16 the first.
        if dtype == float16:
            x, y = y, x
        return _float_extreme(b, "GT" if op == "max" else "LT", x, y, form)
    if isinstance(x, Scalar):
        x, y = y, x
    u = ordered(b, x, dtype, form)
    other: Vector | Scalar = biased(y, dtype) if isinstance(y, Scalar) else ordered(b, y, dtype, form)
    result = u.max(other) if op == "max" else u.min(other)
    return result - bias(dtype) if is_wide_unsigned(dtype) else result


def _float_extreme(b: Builder, how: str, x: Source, y: Source, form: Form) -> Vector:
    """x where it is beyond y or NaN, else y, which is then also what NaN in y gives."""
    known = isinstance(x, Scalar) and isinstance(x.value, float | int)
    if isinstance(x, Scalar) and isinstance(y, Value):
        if known and not math.isnan(float(x.value)):
            v = Vector(b, y)
            return (~v.compare("LT" if how == "GT" else "GT", x)).where(v, x)
        x = b.duplicate(x, x.dtype, form)
    u = vector(b, x, form)
    if isinstance(y, Scalar) and isinstance(y.value, float | int) and not math.isnan(float(y.value)):
        return (~u.compare("LE" if how == "GT" else "GE", y)).where(u, y)
    other: Vector | Scalar = Vector(b, y) if isinstance(y, Value) else y
    return (u.compare(how, other) | u.differs(u)).where(u, other)


def where(b: Builder, condition: Source, x: Source, y: Source, dtype: Dtype) -> Source:
    """x where the condition holds, else y."""
    if isinstance(condition, Scalar) and not isinstance(condition.value, str):
        return x if condition.value else y
    form = form_of(condition, x, y)
    mask = as_mask(b, condition, form)
    if dtype.kind == "b":
        u, v = as_mask(b, x, form), as_mask(b, y, form)
        return (mask & u | ~mask & v).value
    if isinstance(x, Scalar) and isinstance(y, Value) and (x.dtype in ("f16", "f32") or x.value == 0):
        return (~mask).where(Vector(b, y), x if x.dtype in ("f16", "f32") else 0).value
    return mask.where(vector(b, x, form), vector(b, y) if isinstance(y, Value) else y).value
