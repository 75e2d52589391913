"""Every elementwise primitive as vector instructions, and what a value of each dtype is computed in.

=================== ============== ======================================================================
dtype               representation
=================== ============== ======================================================================
float32, float16    f32, f16
bfloat16            f32            rounded to bfloat16 after every operation
int8, uint8, int16  i16
uint16              i16            its bits
int32, uint32       i32            of uint32 its bits
bool                mask           one bit for each point; a scalar is an f16 of 0 or 1
int64               i32            only where every value is known to fit
uint64              i32            an index; with a number added to it, `integers.Words`
=================== ============== ======================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from ...ops.dtypes import float16, float32, int32, int64, uint64
from ...ops.primitives import PRIMITIVES
from . import casts, comparison, division, floating, integers, modulo, transcendental, transcendental_power
from .comparison import form_of
from .formula import Vector, fitted, vector
from .tile import MASK, Builder, Scalar, Source, Value

Dtype = np.dtype[Any]

_REPRESENTATION = {
    "float32": "f32", "float16": "f16", "bfloat16": "f32", "int8": "i16", "uint8": "i16", "int16": "i16",
    "uint16": "i16", "int32": "i32", "uint32": "i32", "bool": MASK, "int64": "i32", "uint64": "i32",
}  # fmt: skip


@cache
def representation(dtype: Dtype) -> str | None:
    """The dtype in UB of what a value of a dtype is computed in; None if it cannot be on the chip.

    Of int64 and uint64 that holds only where every value is known to fit (`support.refusal`).
    """
    return _REPRESENTATION.get(dtype.name)


@dataclass(frozen=True, slots=True)
class ScalarRepresentation:
    """How the host passes a scalar argument.

    Attributes
    ----------
    field : str
        The C++ type of its field.
    size : int
        Of the field, in bytes.
    form : str
        See `base.Patch`.
    """

    field: str
    size: int
    form: str


@cache
def scalar_representation(dtype: Dtype) -> ScalarRepresentation:
    """How a scalar of a dtype is passed, so that it is a `Scalar` of its representation."""
    match dtype.name:
        case "bool":
            return ScalarRepresentation("half", 2, "bool")
        case "float16":
            return ScalarRepresentation("half", 2, "bits")
        case "float32":
            return ScalarRepresentation("float", 4, "bits")
        case "bfloat16":
            return ScalarRepresentation("float", 4, "bfloat16")
        case "int64":
            return ScalarRepresentation("int32_t", 4, "narrow")
        case "uint64":
            return ScalarRepresentation("uint64_t", 8, "bits")
    size = 2 if dtype.itemsize < 4 else 4
    return ScalarRepresentation(f"int{8 * size}_t", size, dtype.name)


def load_conversion(b: Builder, raw: Value, dtype: Dtype) -> Value:
    """What was copied from memory, in the representation of its dtype."""
    return casts.from_memory(b, raw, dtype)


def store_conversion(b: Builder, value: Source, dtype: Dtype) -> Value:
    """What is copied to memory for a value in the representation of its dtype."""
    if isinstance(value, Scalar):
        value = (
            vector(b, value).value
            if dtype.kind != "b"
            else comparison.as_mask(b, value, form_of(value)).value
        )
    return casts.to_memory(b, value, dtype)


def lower(
    b: Builder,
    op: str,
    result: Dtype,
    args: Sequence[Source],
    dtypes: Sequence[Dtype],
    attrs: tuple[Any, ...],
) -> Source:
    """Write down the instructions of one primitive.

    Parameters
    ----------
    b : Builder
    op : str
        Name of an elementwise primitive for which `support.refusal` knows no reason against.
    result : numpy.dtype
    args : sequence of Value or Scalar
        In the representation of their dtypes.
    dtypes : sequence of numpy.dtype
    attrs : tuple
        The primitive's own.

    Returns
    -------
    Value or Scalar
        In the representation of `result`.
    """
    computed = dtypes[0]
    args = [_clean(a, d) for a, d in zip(args, dtypes, strict=True)]
    if all(isinstance(a, Scalar) for a in args):
        found = _of_scalars(op, result, args, dtypes, attrs)  # type: ignore[arg-type]
        if found is not None:
            return found
    if computed == uint64:
        return _counter(b, op, args, result, attrs)
    if computed == int64 and op != "wrap_index":
        computed = int32
    function = _SPECIAL.get(op)
    if function is not None:
        return function(b, op, result, args, dtypes, attrs)
    if op in _COMPARISONS:
        return comparison.compare(b, op, args[0], args[1], computed).value
    if op in ("max", "min"):
        return comparison.extreme(b, op, args[0], args[1], computed).value
    if computed.kind == "b":
        return _of_bools(b, op, args).value
    return (_of_floats if computed.kind in "fV" else _of_integers)(b, op, args, computed).value


_COMPARISONS = ("eq", "ne", "lt", "le")
_BOOLS = {"add": "or", "mul": "and", "and": "and", "or": "or", "xor": "xor"}


def _of_bools(b: Builder, op: str, args: Sequence[Source]) -> Vector:
    form = form_of(*args)
    masks = [comparison.as_mask(b, a, form) for a in args]
    if op == "not":
        return ~masks[0]
    x, y = masks
    how = _BOOLS[op]
    return x & y if how == "and" else x | y if how == "or" else x ^ y


_OF_ONE_INTEGER = {
    "neg": integers.negative,
    "abs": integers.absolute,
    "not": integers.inverted,
    "popcount": integers.popcount,
}


def _of_integers(b: Builder, op: str, args: Sequence[Source], dtype: Dtype) -> Vector:
    if len(args) == 2:
        x, y = args
        if op in ("add", "sub", "mul"):
            return integers.arithmetic(b, op, x, y, dtype)
        if op in ("and", "or", "xor"):
            return integers.bitwise(b, op, x, y)
        if op in ("shift_left", "shift_right"):
            return integers.shift(b, op, x, y, dtype)
        return division.divide(b, op, x, y, dtype)
    u = vector(b, args[0], form_of(args[0]))
    return _OF_ONE_INTEGER[op](u, dtype)


def _of_floats(b: Builder, op: str, args: Sequence[Source], dtype: Dtype) -> Vector:
    if op in ("add", "sub", "mul", "div"):
        return floating.arithmetic(b, op, args[0], args[1], dtype)
    if op in ("floor_divide", "remainder", "fmod"):
        return modulo.modulo(b, op, args[0], args[1], dtype)
    if op == "copysign":
        return floating.copysign(b, args[0], args[1])
    if op == "nextafter":
        return floating.nextafter(b, args[0], args[1], dtype)
    if op == "hypot":
        return floating.hypot(b, args[0], args[1], dtype)
    form = form_of(*args)
    vectors = [vector(b, a, form) for a in args]
    x = vectors[0]
    match op:
        case "neg":
            return -x
        case "abs":
            return abs(x)
        case "sqrt":
            return x.sqrt() if dtype == float16 else casts.rounded(x.sqrt(), dtype)
        case "floor" | "ceil" | "trunc" | "rint":
            return floating.whole(op, x)
    wide = [casts.widened(v) for v in vectors]
    if op == "atan2":
        y = transcendental.atan2(wide[0], wide[1])
    elif op == "pow":
        exact = dtype == float32
        y = (transcendental_power.power if exact else transcendental_power.power_narrow)(wide[0], wide[1])
    else:
        y = transcendental_power.FUNCTIONS[op](wide[0])
    return casts.rounded(y, dtype)


# --- primitives that are not of one dtype -------------------------------------------------------------------

_Args = Sequence[Source]
_Dtypes = Sequence[Dtype]


def _cast(b: Builder, op: str, result: Dtype, args: _Args, dtypes: _Dtypes, attrs: tuple[Any, ...]) -> Source:
    (x,), (origin,) = args, dtypes
    if result.itemsize == 8 and origin.itemsize == 8 and isinstance(x, Value):
        return x
    return casts.cast(b, x, _as32(origin), _as32(result)).value


def _as32(dtype: Dtype) -> Dtype:
    return int32 if dtype.itemsize == 8 else dtype


def _bitcast(
    b: Builder, op: str, result: Dtype, args: _Args, dtypes: _Dtypes, attrs: tuple[Any, ...]
) -> Source:
    return casts.bitcast(b, args[0], dtypes[0], result).value


def _where(
    b: Builder, op: str, result: Dtype, args: _Args, dtypes: _Dtypes, attrs: tuple[Any, ...]
) -> Source:
    return comparison.where(b, args[0], args[1], args[2], result)


def _wrap_index(
    b: Builder, op: str, result: Dtype, args: _Args, dtypes: _Dtypes, attrs: tuple[Any, ...]
) -> Source:
    return integers.wrap_index(b, args[0], args[1], *attrs).value


_SPECIAL = {"cast": _cast, "bitcast": _bitcast, "where": _where, "wrap_index": _wrap_index}


def _counter(b: Builder, op: str, args: _Args, result: Dtype, attrs: tuple[Any, ...]) -> Source:
    """What random bits are made of: a 64-bit counter."""
    if op == "random_bits":
        return integers.random_bits(b, args[0], args[1], args[2], attrs[0]).value
    if op == "add":
        return integers.add_counter(b, args[0], args[1])  # type: ignore[return-value]
    assert op == "cast"
    return casts.cast(b, args[0], int32, _as32(result)).value


# --- numbers ------------------------------------------------------------------------------------------------


def _clean(source: Source, dtype: Dtype) -> Source:
    """A number as the plain Python number of its representation."""
    if not isinstance(source, Scalar) or isinstance(source.value, str):
        return source
    if dtype.kind in "fV":
        return Scalar(source.dtype, float(source.value))
    if dtype.kind == "b":
        return Scalar("f16", float(source.value))
    if dtype == uint64:
        return Scalar("u64", int(source.value) % 2**64)
    return Scalar(source.dtype, fitted(int(source.value), source.dtype))


_SYMBOLS = {"add": "+", "sub": "-", "mul": "*"}


def _of_scalars(
    op: str, result: Dtype, args: Sequence[Scalar], dtypes: Sequence[Dtype], attrs: tuple[Any, ...]
) -> Scalar | None:
    """What the scalar unit can work out, or what is known already."""
    if op in ("wrap_index", "random_bits") or result == uint64 or uint64 in dtypes:
        return None
    if not any(isinstance(a.value, str) for a in args):
        return _folded(op, result, args, dtypes, attrs)
    if op in _SYMBOLS and dtypes[0] == int64:  # known to fit, so that nothing wraps
        x, y = (a.value for a in args)
        return Scalar("i32", f"({x} {_SYMBOLS[op]} {y})")
    return None


def _folded(
    op: str, result: Dtype, args: Sequence[Scalar], dtypes: Sequence[Dtype], attrs: tuple[Any, ...]
) -> Scalar:
    with np.errstate(all="ignore"):
        arrays = [np.asarray(a.value).astype(d) for a, d in zip(args, dtypes, strict=True)]
        value = np.asarray(PRIMITIVES[op].meaning(*arrays, attrs=attrs, shape=(), dtype=result))
    kind = representation(result)
    assert kind is not None
    if result.kind in "fVb":
        return Scalar("f16" if kind == MASK else kind, float(value))
    return Scalar(kind, fitted(int(value), kind))
