"""Transcendental functions of float64 vectors.

exp and log are formulas; the others call the C library, its vector functions where the target has
them, always over one full register so that a lane's result does not depend on the width.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from llvmlite import ir

from .emitter import F64, I32, Emitter, Lanes, fma, polynomial
from .target import VECTOR_MATH

_ROUND = 1.5 * 2.0**52
_LOG2_E = 1.4426950408889634
_LN2_HIGH = 0.6931471805599453
_LN2_LOW = 2.3190468138462996e-17

# (e^r - 1 - r) / r^2 on |r| <= ln(2) / 2
_EXP = (
    0.5, 0.16666666666666724, 0.04166666666666719, 0.008333333333282024, 0.001388888888846199,
    0.00019841269987899403, 2.480158838013036e-05, 2.7557141792589964e-06, 2.755624470662901e-07,
    2.5144344938073227e-08, 2.1258659244425433e-09,
)  # fmt: skip
# (log((1 + s) / (1 - s)) - 2 s) / s^3 in s^2, on |s| <= 0.1716
_LOG = (
    0.6666666666666734, 0.39999999999416536, 0.2857142874206707, 0.22222198599870094,
    0.18183563171214032, 0.1531407555352267, 0.14795736015484914,
)  # fmt: skip
_SQRT_HALF = 0x3FE6A09E667F3BCD  # the bits of sqrt(1/2)


def exp(x: Lanes) -> Lanes:
    x = x.at_most(710.0).at_least(-746.0)
    t = fma(x, _LOG2_E, _ROUND)
    n = t - _ROUND
    r = fma(n, -_LN2_LOW, fma(n, -_LN2_HIGH, x))
    y = fma(r * r, polynomial(r, _EXP), r) + 1.0
    bits = t.bits()
    context = x.context
    if context.target.has_avx512:
        name = f"llvm.ldexp.v{context.width}f64.v{context.width}i32"
        return Lanes(context, context.intrinsic(name, y.value.type, y.value, bits.cast(I32).value))
    # Two factors, since 2**n itself may be out of range. The high bits of t fall off the left end.
    half = bits.shift_right_logical(1)
    first = ((half << 52) + (1023 << 52)).as_element(F64)
    second = ((bits - half << 52) + (1023 << 52)).as_element(F64)
    return y * first * second


def log(x: Lanes) -> Lanes:
    denormal = x < 2.0**-1022
    bits = denormal.where(x * 2.0**54, x).bits()
    biased = (bits - _SQRT_HALF + (1023 << 52)).shift_right_logical(52)
    m = (bits - (biased << 52) + (1023 << 52)).as_element(F64)
    # An integer below 2**52 in the low bits of 2**52 is that sum.
    bias = denormal.where(x.like(2.0**52 + 1023 + 54), 2.0**52 + 1023)
    k = (biased | (0x433 << 52)).as_element(F64) - bias
    f = m - 1.0
    s = f / (f + 2.0)
    z = s * s
    # log(1 + f) = 2 s + s z P(z), and 2 s = f - s f
    y = fma(-s, fma(-z, polynomial(z, _LOG), f), f)
    y = fma(k, _LN2_HIGH, fma(k, _LN2_LOW, y))
    positive = (x.bits() - 1).below(0x7FEFFFFFFFFFFFFF)
    return positive.where(y, x.equals(0.0).where(-math.inf, (x < 0.0).where(math.nan, x)))


def _split_call(context: Emitter, symbol: str, lanes: int, args: Sequence[ir.Value]) -> ir.Value:
    """Call a vector function on pieces of so many lanes."""
    builder, width = context.builder, context.width
    kind = ir.VectorType(F64, lanes)

    def pick(value: ir.Value, indices: Sequence[int], other: ir.Value | None = None) -> ir.Value:
        mask = ir.Constant(ir.VectorType(I32, len(indices)), list(indices))
        return builder.shuffle_vector(value, value if other is None else other, mask)

    pieces = []
    for start in range(0, width, lanes):
        # Lanes past the end repeat the last one.
        piece = [pick(a, [min(start + k, width - 1) for k in range(lanes)]) for a in args]
        pieces.append(context.intrinsic(symbol, kind, *piece))
    while len(pieces) > 1:
        size = pieces[0].type.count
        pieces = [pick(a, range(2 * size), b) for a, b in zip(pieces[::2], pieces[1::2], strict=True)]
    return pieces[0] if pieces[0].type.count == width else pick(pieces[0], range(width))


def library(name: str, *operands: Lanes) -> Lanes:
    """A function of the C library in every lane."""
    context = operands[0].context
    args = [x.value for x in operands]
    kind = args[0].type
    symbol = context.target.vector_function(name, len(args))
    if symbol is not None:
        return Lanes(context, _split_call(context, symbol, context.target.lanes(64), args))

    def lane_by_lane(inner: Emitter, vectors: Sequence[ir.Value]) -> ir.Value:
        builder = inner.builder
        result: ir.Value = ir.Constant(kind, ir.Undefined)
        for k in range(inner.width):
            lane = ir.Constant(I32, k)
            value = inner.intrinsic(name, F64, *(builder.extract_element(v, lane) for v in vectors))
            result = builder.insert_element(result, value, lane)
        return result

    return Lanes(context, context.function(f"{name}.lanes", kind, args, lane_by_lane))


def _formula_or_library(name: str, formula: Callable[[Lanes], Lanes]) -> Callable[..., Lanes]:
    return lambda x: formula(x) if x.context.target.has_fma else library(name, x)


FUNCTIONS: dict[str, Callable[..., Lanes]] = {name: partial(library, name) for name in VECTOR_MATH} | {
    f.__name__: _formula_or_library(f.__name__, f) for f in (exp, log)
}
