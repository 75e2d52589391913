"""What runs on the chip and what on the host, and why; asked when the trace is cut, shown in the docs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from ...ops.dtypes import (
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)  # fmt: skip
from ...ops.primitives import BOOL, PRIMITIVES, Kind, Primitive
from .chip import Chip
from .primitives import lower, representation
from .tile import Builder, Form, Scalar, Source, Value

Dtype = np.dtype[Any]
_LOOPS = {
    "floor_divide": "the exact remainder takes a loop over the bits of the quotient",
    "remainder": "the exact remainder takes a loop over the bits of the quotient",
    "fmod": "the exact remainder takes a loop over the bits of the quotient",
}
# What takes 64-bit integers that are known to fit 32 bits: the scheduler asks for int32 then.
_NARROW = {
    "int64": frozenset(("add", "mul", "eq", "ne", "lt", "le", "cast", "wrap_index")),
    "uint64": frozenset(("cast", "add", "random_bits")),
}


def refusal(op: str, dtype: Dtype, attrs: tuple[Any, ...], chip: Chip, narrow: bool = False) -> str:
    """Why a primitive with an operand or a result of a dtype runs on the host, or "" if it runs on the chip.

    Parameters
    ----------
    op : str
        Name of a primitive; ``view`` and ``update`` are what is loaded and stored, ``full`` numbers.
    dtype : numpy.dtype
    attrs : tuple
        The primitive's own.
    chip : Chip
    narrow : bool
        Whether every value of that dtype is known to fit 32 bits.
    """
    if not chip.instructions:
        return f"which dtypes the instructions of the {chip.name} take is not known"
    return _refusal(op, dtype, attrs[0] if attrs and op == "reduce" else "", narrow)


@cache
def _refusal(op: str, dtype: Dtype, how: str, narrow: bool) -> str:
    name = dtype.name
    primitive = PRIMITIVES.get(op)
    if primitive is None:
        return f"{op} is not a primitive"
    if primitive.kind is Kind.HOST:
        return f"{op} is not made of vector instructions"
    if representation(dtype) is None:
        return f"{name} has no vector instructions"
    if dtype.itemsize == 8:
        made_narrow = op in ("iota", "wrap_index", "full") or how in ("argmax", "argmin")
        if not narrow and not made_narrow:
            return f"{name} has no vector instructions"
        if primitive.kind is Kind.ELEMENTWISE and op not in _NARROW[name]:
            return f"{name} has no vector instructions for {op}"
        return ""
    if op == "random_bits" and dtype not in (uint32, int32):
        return "random bits are made of a 64-bit counter"
    if dtype.kind in "fV" and dtype != float16 and op in _LOOPS:
        return _LOOPS[op]
    if dtype.kind in "iu" and op == "pow":
        return "an integer power takes a loop over the bits of its exponent"
    return ""


# --- the table of the documentation -------------------------------------------------------------------------

# uint64 and int64 that are known to fit 32 bits.
COLUMNS: tuple[Dtype, ...] = (
    bool_, int8, uint8, int16, uint16, int32, uint32, int64, uint64, float16, bfloat16, float32, float64,
)  # fmt: skip
# Units in the last place of float32 that each function is within where Exp, Ln, Sqrt and Div round correctly.
ULP: dict[str, float] = {
    "exp": 0.51, "exp2": 1.0, "expm1": 1.6, "log": 0.51, "log2": 1.5, "log10": 2.0, "log1p": 1.6, "sin": 2.1,
    "cos": 2.1, "tan": 3.0, "asin": 2.5, "acos": 1.5, "atan": 2.0, "sinh": 1.7, "cosh": 1.7, "tanh": 1.6,
    "asinh": 2.0, "acosh": 2.2, "atanh": 2.4, "erf": 2.0, "cbrt": 1.0, "atan2": 2.0, "pow": 1.3, "hypot": 1.2,
}  # fmt: skip
_ZERO = "the sign of a zero result is the conversion's"
_NARROW_FLOATS = "float16 and bfloat16 overflow to infinity in the mode without saturation (bit 48 of CTRL)"
_DIVISION = "exact; of integers even where Div is off by a unit in the last place"
_FAR = "of arguments to 1e5; to 2**21 that of an argument one rounding away, beyond NaN"
_POWER_OF_TWO = "a number that is a power of two multiplies instead"
NOTES: dict[str, str] = {
    "add": f"{_NARROW_FLOATS}; that integers wrap is not documented",
    "sub": "as add",
    "mul": "as add",
    "div": f"rounds as the chip's Div, which is not documented; {_POWER_OF_TWO}",
    "sqrt": "rounds as the chip's Sqrt, which is not documented",
    **dict.fromkeys(("floor", "ceil", "trunc", "rint"), _ZERO),
    "max": "does not rely on how Max treats NaN",
    "min": "does not rely on how Min treats NaN",
    **dict.fromkeys(("floor_divide", "remainder", "fmod"), _DIVISION),
    "cast": "to integers saturating, NaN to 0; counted to float32, and from float32 to int32",
    "bitcast": "counted to the integer or float of the same width",
    "random_bits": "of an index, or an index and a 64-bit number",
    "wrap_index": "a load saturates, so that no index out of range wraps into it",
    **dict.fromkeys(
        ("exp", "log"), "as accurate as the chip's instruction; denormals as far as it keeps them"
    ),
    **dict.fromkeys(("sin", "cos", "tan"), _FAR),
}


def note(name: str) -> str:
    """What is to be known of a primitive on the chip."""
    accuracy = f"{ULP[name]:g} ULP" if name in ULP else ""
    return "; ".join(part for part in (accuracy, NOTES.get(name, "")) if part)


_ONLY = {"random_bits": uint64, "wrap_index": int64}


@dataclass(frozen=True, slots=True)
class Row:
    """One primitive: for each dtype the number of instructions, or why it runs on the host.

    Attributes
    ----------
    name : str
    cells : dict from dtype name to int or str
    notes : str
    """

    name: str
    cells: dict[str, int | str]
    notes: str


def table(chip: Chip) -> Iterator[Row]:
    """The elementwise primitives and what each takes on a chip; of 64-bit integers those that fit 32 bits."""
    for primitive in PRIMITIVES.values():
        if primitive.kind is not Kind.ELEMENTWISE:
            continue
        cells: dict[str, int | str] = {}
        for dtype in COLUMNS:
            if dtype.kind in primitive.dtypes and dtype == _ONLY.get(primitive.name, dtype):
                reason = refusal(primitive.name, dtype, (), chip, narrow=True)
                cells[dtype.name] = reason or instructions(primitive, dtype)
        yield Row(primitive.name, cells, note(primitive.name))


def instructions(primitive: Primitive, dtype: Dtype) -> int:
    """How many vector instructions a primitive of operands of a dtype takes, all of them tiles."""
    b = Builder()
    count = 2 if primitive.name == "where" else primitive.arity
    kind = representation(dtype)
    assert kind is not None
    args: list[Source] = [Value(-1 - k, kind, Form.FULL) for k in range(count)]
    dtypes = [dtype] * count
    result = dtype
    attrs: tuple[Any, ...] = ()
    match primitive.name:
        case "where":
            args.insert(0, Value(-9, "mask", Form.FULL))
            dtypes.insert(0, BOOL)
        case "cast":
            result = int32 if dtype == float32 else float32
        case "bitcast":
            floats, integers = {1: (uint8, int8), 2: (float16, int16), 4: (float32, int32)}[dtype.itemsize]
            result = floats if dtype.kind == "i" else integers
        case "random_bits":
            attrs = (0,)
            args[1:] = [Scalar("u64", "key"), Scalar("u64", "stream")]
            result = uint32
        case "add" if dtype == uint64:
            args[1] = Scalar("u64", "first")
        case "wrap_index":
            attrs = (0,)
            args[1] = Scalar("i32", "n")
        case _ if primitive.result is not None:
            result = primitive.result(*dtypes)
    lower(b, primitive.name, result, args, dtypes, attrs)
    return sum(i.op != "View" for i in b.instrs)
