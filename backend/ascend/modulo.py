"""The exact remainder of float16, in float32.

The quotient of two float16 is below 2**41. Taken 12 bits at a time, a piece of it times the divisor has 24
bits and what it leaves has 12: both are exact in float32. Of wider floats the pieces are too many.
"""

from __future__ import annotations

import math

import numpy as np

from .casts import rounded, widened
from .comparison import form_of
from .formula import Vector, vector
from .tile import Builder, Source

Dtype = np.dtype[np.generic]
_PIECE = 12
_PIECES = 4
_BEYOND = 2.0**17  # stands for an infinite divisor, which leaves any dividend as it is


def modulo(b: Builder, op: str, x: Source, y: Source, dtype: Dtype) -> Vector:
    """``fmod``, ``remainder``, ``floor_divide`` of float16."""
    form = form_of(x, y)
    u, v = widened(vector(b, x, form)), widened(vector(b, y, form))
    rest = _fmod(u, v)
    if op == "fmod":
        return rounded(rest, dtype)
    # Where the signs of rest and divisor differ, the rest is one divisor short.
    short = (rest < 0.0) ^ (v < 0.0)
    if op == "remainder":
        zero = abs(rest).copysign(v)
        return rounded(rest.equals(0.0).where(zero, short.where(rest + v, rest)), dtype)
    quotient = (u - rest) / v
    quotient = (short & rest.differs(0.0)).where(quotient - 1.0, quotient)
    floor = quotient.cast("f32", "FLOOR")
    floor = (quotient - floor > 0.5).where(floor + 1.0, floor)
    ratio = u / v
    zero = abs(quotient).copysign(ratio)
    result = quotient.equals(0.0).where(zero, floor)
    return rounded(v.equals(0.0).where(ratio, result), dtype)


def _fmod(u: Vector, v: Vector) -> Vector:
    """Exact, with the sign of the dividend.

    A piece rounded up leaves less than 0, by less than the next piece takes; the last is set right.
    """
    divisor = abs(v).min(_BEYOND)
    rest = abs(u)
    for k in reversed(range(_PIECES)):
        step = divisor * 2.0 ** (_PIECE * k) if k else divisor
        rest = rest - (rest / step).cast("f32", "TRUNC") * step
    rest = (rest < 0.0).where(rest + divisor, rest)
    signed = abs(rest).copysign(u)
    return (v.equals(v) & abs(u).differs(math.inf)).where(signed, math.nan)
