"""Floating-point operations whose result NumPy fixes to the last bit, and the length of a vector."""

from __future__ import annotations

import math

import numpy as np

from ...ops.dtypes import bfloat16, float16
from .casts import rounded, widened
from .comparison import form_of
from .formula import Vector, vector
from .integers import lanes
from .tile import Builder, Scalar, Source

Dtype = np.dtype[np.generic]


def arithmetic(b: Builder, op: str, x: Source, y: Source, dtype: Dtype) -> Vector:
    """``add``, ``sub``, ``mul``, ``div``; bfloat16 in float32, rounded after each."""
    result = _quotient(b, x, y) if op == "div" else lanes(b, op, x, y)
    return result if dtype == float16 else rounded(result, dtype)


def _quotient(b: Builder, x: Source, y: Source) -> Vector:
    form = form_of(x, y)
    if isinstance(y, Scalar) and isinstance(y.value, float | int) and _inverse_is_exact(float(y.value)):
        return vector(b, x, form) * (1.0 / float(y.value))
    return vector(b, x, form) / vector(b, y, form)


def _inverse_is_exact(value: float) -> bool:
    """Whether it is a power of two whose inverse float16 holds too."""
    return value != 0 and abs(math.frexp(value)[0]) == 0.5 and 2.0**-14 <= abs(value) <= 2.0**14


_MODES = {"floor": "FLOOR", "ceil": "CEIL", "trunc": "TRUNC", "rint": "RINT"}


def whole(op: str, x: Vector) -> Vector:
    """``floor``, ``ceil``, ``trunc``, ``rint``: the conversion from float32 to itself."""
    result = widened(x).cast("f32", _MODES[op])
    return result.cast("f16", "RINT") if x.dtype == "f16" else result


def copysign(b: Builder, x: Source, y: Source) -> Vector:
    """The magnitude of one with the sign of another."""
    form = form_of(x, y)
    return abs(vector(b, x, form)).copysign(vector(b, y, form))


def nextafter(b: Builder, x: Source, y: Source, dtype: Dtype) -> Vector:
    """The neighbour of x toward y: one step of the bits, away from zero or toward it."""
    form = form_of(x, y)
    u, v = vector(b, x, form), vector(b, y, form)
    narrow = dtype == bfloat16
    bits = u.cast("bf16", "RINT").bits() if narrow else u.bits()
    one = bits.like(1)
    moved = bits + ((v > u) ^ (u < 0.0)).where(one, bits.like(-1))
    top = -(2**31) if bits.dtype == "i32" else -(2**15)
    smallest = (v < 0.0).where(bits.like(top + 1), one)
    moved = u.equals(0.0).where(smallest, moved)
    after = moved.view("bf16").cast("f32") if narrow else moved.floats()
    # NumPy's choice between 0 and -0.
    after = u.equals(v).where(u if dtype == float16 else v, after)
    return (u.equals(u) & v.equals(v)).where(after, math.nan)


def hypot(b: Builder, x: Source, y: Source, dtype: Dtype) -> Vector:
    """The square root of the sum of squares, both scaled by the power of two of the larger."""
    form = form_of(x, y)
    u, v = abs(widened(vector(b, x, form))), abs(widened(vector(b, y, form)))
    if dtype == float16:
        length = (u * u + v * v).sqrt()
    else:
        bits = u.max(v).bits()
        power = bits.head(9).max(0x00800000).min(0x7E800000)
        scale = (0x7F000000 - power).floats()
        p, q = u * scale, v * scale
        length = (p * p + q * q).sqrt() * power.floats()
    finite = u.differs(math.inf) & v.differs(math.inf)
    return rounded(finite.where(length, math.inf), dtype)
