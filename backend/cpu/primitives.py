"""LLVM code of every elementwise primitive, over vectors of any width.

Values are ``<width x register type>``. Emission may end in another basic block than it began in: what comes
after goes on where the builder stands.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir

from ...ops.primitives import PRIMITIVES, Kind
from . import floating, integer, transcendental, transcendental64
from .conversions import (
    Dtype,
    bitcast,
    bits16,
    cast,
    from_bits16,
    from_memory,
    is_float,
    is_narrow,
    memory_type,
    register_type,
    rounded,
    to_memory,
)
from .emitter import F32, Emitter, Lanes

__all__ = [
    "Emitter",
    "combine",
    "emit",
    "from_memory",
    "memory_type",
    "reduce_identity",
    "register_type",
    "supports",
    "takes_scalars",
    "to_memory",
]

Attrs = tuple[Any, ...]


def supports(op: str, dtype: Dtype, attrs: Attrs = ()) -> bool:
    """Whether `emit` has code for an elementwise primitive whose operands or result have the dtype."""
    primitive = PRIMITIVES.get(op)
    if primitive is None or primitive.kind is not Kind.ELEMENTWISE:
        return False
    return dtype.kind in "biuf" or dtype.name == "bfloat16"


def takes_scalars(op: str) -> bool:
    """Whether `emit` can do a primitive on scalars, in an emitter of width 0."""
    return op not in transcendental.FUNCTIONS


def emit(
    context: Emitter,
    op: str,
    dtype: Dtype,
    args: Sequence[ir.Value],
    arg_dtypes: Sequence[Dtype],
    attrs: Attrs = (),
) -> ir.Value:
    """Emit one primitive.

    Parameters
    ----------
    context : Emitter
    op : str
        Name of an elementwise primitive.
    dtype : numpy.dtype
        Of the result.
    args : list of ir.Value
        ``<width x register type>`` each.
    arg_dtypes : list of numpy.dtype
    attrs : tuple
        The primitive's own.

    Returns
    -------
    ir.Value
        ``<width x register type of dtype>``
    """
    operands = [Lanes(context, value) for value in args]
    match op:
        case "cast":
            return cast(operands[0], arg_dtypes[0], dtype).value
        case "bitcast":
            return bitcast(operands[0], arg_dtypes[0], dtype).value
        case "random_bits":
            return integer.random_bits(operands[0], operands[1], operands[2], attrs[0]).value
        case "wrap_index":
            return integer.wrap_index(context, operands[0], operands[1]).value
        case "where":
            return operands[0].where(operands[1], operands[2]).value
        case _ if op in _COMPARISONS:
            return _compare(op, operands[0], operands[1], arg_dtypes[0]).value
    computed = arg_dtypes[0]
    if computed.kind == "b":
        return _LOGICAL[op](*operands).value
    if not is_float(computed):
        return _INTEGER[op](computed.kind == "i", *operands).value
    if op == "nextafter":
        return _nextafter(operands[0], operands[1], computed).value
    if op in ("max", "min") and computed == np.float16:
        operands.reverse()  # where NumPy gives the first of equals: 0 and -0
    if op in _EXACT:
        return _EXACT[op](*operands).value
    return rounded(_FLOAT[op](*operands), dtype).value


def reduce_identity(how: str, dtype: Dtype) -> bool | int | float:
    """The value that changes nothing when combined; -0.0 for float sums, which keeps the sign of zero."""
    if how in ("add", "or"):
        return -0.0 if is_float(dtype) else 0
    if how in ("mul", "and"):
        return 1
    if is_float(dtype):
        return -math.inf if how == "max" else math.inf
    if dtype.kind == "b":
        return how == "min"
    limits = np.iinfo(dtype)
    return int(limits.min if how == "max" else limits.max)


def combine(context: Emitter, how: str, a: ir.Value, b: ir.Value, dtype: Dtype) -> ir.Value:
    """One step of a reduction: ``add``, ``mul``, ``max``, ``min``, or of bool ``and``, ``or``."""
    return emit(context, how, dtype, [a, b], [dtype, dtype])


_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<="}


def _compare(op: str, a: Lanes, b: Lanes, dtype: Dtype) -> Lanes:
    builder = a.context.builder
    if is_float(dtype):
        compare = builder.fcmp_unordered if op == "ne" else builder.fcmp_ordered
    else:
        compare = builder.icmp_signed if dtype.kind == "i" else builder.icmp_unsigned
    return Lanes(a.context, compare(_COMPARISONS[op], a.value, b.value))


def _nextafter(x: Lanes, y: Lanes, dtype: Dtype) -> Lanes:
    if is_narrow(dtype):
        after = from_bits16(x.context, floating.nextafter(x, y, bits16(x, dtype)), dtype)
    else:
        after = floating.nextafter(x, y, x.bits()).as_element(x.element)
    equal = x if dtype == np.float16 else y  # NumPy's choice between 0 and -0
    return x.unordered(y).where(math.nan, x.equals(y).where(equal, after))


def _ordered(a: Lanes, b: Lanes, signed: bool) -> Lanes:
    return a < b if signed else a.below(b)


_LOGICAL: dict[str, Callable[..., Lanes]] = {
    "add": lambda a, b: a | b,
    "or": lambda a, b: a | b,
    "max": lambda a, b: a | b,
    "mul": lambda a, b: a & b,
    "and": lambda a, b: a & b,
    "min": lambda a, b: a & b,
    "xor": lambda a, b: a ^ b,
    "not": lambda a: ~a,
}

# The first argument is whether the integers are signed.
_INTEGER: dict[str, Callable[..., Lanes]] = {
    "neg": lambda signed, x: -x,
    "abs": lambda signed, x: integer.absolute(x, signed),
    "add": lambda signed, a, b: a + b,
    "sub": lambda signed, a, b: a - b,
    "mul": lambda signed, a, b: a * b,
    "floor_divide": lambda signed, a, b: integer.floor_divide(a, b, signed),
    "remainder": lambda signed, a, b: integer.remainder(a, b, signed),
    "fmod": lambda signed, a, b: integer.fmod(a, b, signed),
    "pow": lambda signed, a, b: integer.power(a, b, signed),
    "max": lambda signed, a, b: _ordered(a, b, signed).where(b, a),
    "min": lambda signed, a, b: _ordered(b, a, signed).where(b, a),
    "not": lambda signed, x: ~x,
    "and": lambda signed, a, b: a & b,
    "or": lambda signed, a, b: a | b,
    "xor": lambda signed, a, b: a ^ b,
    "shift_left": lambda signed, a, b: integer.shift_left(a, b),
    "shift_right": lambda signed, a, b: integer.shift_right(a, b, signed),
    "popcount": lambda signed, x: integer.popcount(x, signed),
}

# Of floats, with a result that needs no rounding to a narrow type.
_EXACT: dict[str, Callable[..., Lanes]] = {
    "neg": lambda x: -x,
    "abs": abs,
    "floor": lambda x: x.floor(),
    "ceil": lambda x: x.ceil(),
    "trunc": lambda x: x.trunc(),
    "rint": lambda x: x.rint(),
    "max": floating.maximum,
    "min": floating.minimum,
    "copysign": lambda a, b: a.copysign(b),
    "fmod": floating.fmod,
}


def _transcendental(name: str) -> Callable[..., Lanes]:
    def function(*operands: Lanes) -> Lanes:
        of = transcendental if operands[0].element == F32 else transcendental64
        result: Lanes = of.FUNCTIONS[name](*operands)
        return result

    return function


_FLOAT: dict[str, Callable[..., Lanes]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "sqrt": lambda x: x.sqrt(),
    "floor_divide": floating.floor_divide,
    "remainder": floating.remainder,
    "hypot": floating.hypot,
    **{name: _transcendental(name) for name in transcendental.FUNCTIONS},
}
