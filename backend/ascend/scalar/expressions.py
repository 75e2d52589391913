"""Elementwise primitives of single numbers as C++ expressions, with the meaning NumPy gives them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....ops.primitives import PRIMITIVES, Kind
from . import vector as scalar_vector
from .types import CTYPE, ROUNDED, Dtype, memory, number, read, written

_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<="}
_BITS = {"and": "&", "or": "|", "xor": "^"}
_BOOLS = {"add": "||", "or": "||", "max": "||", "mul": "&&", "and": "&&", "min": "&&", "xor": "!="}
_FLOATS = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
# By device functions: of integers, templates of the type; of floats.
_INTEGER_FUNCTIONS = {
    "add": "WrapAdd", "sub": "WrapSub", "mul": "WrapMul", "floor_divide": "FloorDivide",
    "remainder": "FloorRemainder", "fmod": "Remainder", "pow": "IntegerPower",
    "shift_left": "ShiftedLeft", "shift_right": "ShiftedRight",
}  # fmt: skip
_FLOAT_FUNCTIONS = {
    "floor": "Floored", "ceil": "Ceiled", "trunc": "Truncated", "rint": "Rounded", "max": "Greater",
    "min": "Lesser", "copysign": "Copysign", "nextafter": "NextAfter", "floor_divide": "FloatFloorDivide",
    "remainder": "FloatFloorRemainder", "fmod": "FloatRemainder",
}  # fmt: skip
# One step of the dtype's own last place: of narrow floats the float32 neighbour is another number.
_OF_FLOAT32 = ("nextafter",)


def why_not(op: str, result: Dtype, dtypes: Sequence[Dtype]) -> str:
    """Why a primitive cannot be written; "" where it can."""
    for dtype in (result, *dtypes):
        if dtype.name not in CTYPE:
            return f"the AI core has no {dtype.name}"
    primitive = PRIMITIVES.get(op)
    if primitive is None or primitive.kind is not Kind.ELEMENTWISE or op == "wrap_index":
        return f"{op} has no scalar code"
    if op in _OF_FLOAT32 and dtypes[0].itemsize == 2:
        return f"{op} of {dtypes[0].name} has no scalar code"
    return ""


def vector_function(op: str, dtypes: Sequence[Dtype]) -> bool:
    """Whether a primitive is computed by vector instructions."""
    if not dtypes or dtypes[0].kind not in "fV" or op in ("cast", "bitcast", "where", "neg", "abs"):
        return False
    return op not in _COMPARISONS and op not in _FLOATS and op not in _FLOAT_FUNCTIONS


def expression(
    op: str, result: Dtype, args: Sequence[str], dtypes: Sequence[Dtype], attrs: tuple[Any, ...]
) -> str:
    """A primitive of values, each of them an atom of C++, in the representation of `types.CTYPE`."""
    ctype = CTYPE[result.name]
    match op:
        case "cast":
            return _cast(result, args[0], dtypes[0])
        case "bitcast":
            return _bitcast(result, args[0], dtypes[0])
        case "where":
            return f"{args[0]} ? {args[1]} : {args[2]}"
        case "random_bits":
            return f"RandomBits({', '.join(args)}, {attrs[0]})"
        case "popcount":
            return f"BitCount<{CTYPE[dtypes[0].name]}>({args[0]})"
    if op in _COMPARISONS:
        return f"{args[0]} {_COMPARISONS[op]} {args[1]}"
    kind = dtypes[0].kind
    if kind == "b":
        return f"!{args[0]}" if op == "not" else f"{args[0]} {_BOOLS[op]} {args[1]}"
    if kind in "iu":
        return _of_integers(op, ctype, args)
    if op in ("max", "min") and dtypes[0].name == "float16":
        args = args[::-1]  # of 0 and -0 NumPy takes the first, of other floats the second
    return _rounded(result, _of_floats(op, args))


def _of_integers(op: str, ctype: str, args: Sequence[str]) -> str:
    a = args[0]
    if op in _INTEGER_FUNCTIONS:
        return f"{_INTEGER_FUNCTIONS[op]}<{ctype}>({', '.join(args)})"
    if op in _BITS:
        return f"static_cast<{ctype}>({a} {_BITS[op]} {args[1]})"
    match op:
        case "neg":
            return f"WrapSub<{ctype}>(0, {a})"
        case "abs":
            return f"{a} < 0 ? WrapSub<{ctype}>(0, {a}) : {a}"
        case "not":
            return f"static_cast<{ctype}>(~{a})"
        case "max" | "min":
            return f"{a} {'>' if op == 'max' else '<'} {args[1]} ? {a} : {args[1]}"
    raise AssertionError(f"no scalar code for {op}")


def _of_floats(op: str, args: Sequence[str]) -> str:
    if op in _FLOATS:
        return f"{args[0]} {_FLOATS[op]} {args[1]}"
    if op in _FLOAT_FUNCTIONS:
        return f"{_FLOAT_FUNCTIONS[op]}({', '.join(args)})"
    if op == "neg":
        return f"-{args[0]}"
    if op == "abs":
        return f"Copysign({args[0]}, 1.0f)"
    return f"{scalar_vector.name_of(op)}(scratch, {', '.join(args)})"


def _rounded(dtype: Dtype, text: str) -> str:
    return f"{ROUNDED[dtype.name]}({text})" if dtype.name in ROUNDED else text


def _cast(result: Dtype, value: str, dtype: Dtype) -> str:
    ctype = CTYPE[result.name]
    if result == dtype:
        return value
    if result.kind == "b":
        return f"{value} != 0"
    if result.kind in "fV":
        if dtype.kind in "fV":
            return _rounded(result, value)
        return _rounded(result, f"static_cast<float>({value})")
    if dtype.kind in "fV":
        limits = np.iinfo(result)
        return f"Saturated<{ctype}>({value}, {number(result, limits.min)}, {number(result, limits.max)})"
    return f"static_cast<{ctype}>({value})"


def _bitcast(result: Dtype, value: str, dtype: Dtype) -> str:
    """Through the unsigned integer of the width."""
    unsigned = f"uint{8 * result.itemsize}_t"
    if dtype == np.float32:
        bits = f"ToBits({value})"
    elif dtype.kind in "fV":
        bits = written(dtype, value)
    else:
        bits = f"static_cast<{unsigned}>({value})"
    if result == np.float32:
        return f"FromBits({bits})"
    if memory(result) != CTYPE[result.name]:
        return read(result, bits)
    return f"static_cast<{CTYPE[result.name]}>({bits})"
