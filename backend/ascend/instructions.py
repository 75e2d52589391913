"""The vector instructions that tiles are made of: what each takes, checked against the data of a chip.

Which element dtypes an instruction takes stands in the chip's data alone; here stands what the tile form adds
to it: that bits are moved as 16-bit integers whatever they are, and that masks are bits.
"""

from __future__ import annotations

from dataclasses import dataclass

from .chip import Chip
from .tile import MASK, Scalar, Value, VectorInstr

# The names that chips' data and NumPy have for the dtypes of UB.
NAMES = {
    "f16": "float16", "f32": "float32", "bf16": "bfloat16", "i8": "int8", "u8": "uint8", "i16": "int16",
    "u16": "uint16", "i32": "int32", "u32": "uint32", "i64": "int64",
}  # fmt: skip
MODES = {"NONE": "N", "RINT": "R", "FLOOR": "F", "CEIL": "C", "ROUND": "A", "TRUNC": "T", "ODD": "O"}


@dataclass(frozen=True, slots=True)
class Signature:
    """What an instruction looks like.

    Attributes
    ----------
    sources : str
        One letter for each source: ``v`` a value of the instruction's dtype, ``s`` a scalar of it, ``m`` a
        mask, ``e`` either a value or a scalar.
    mask : bool
        Whether the result is a mask.
    bits : bool
        Whether it moves bits, so that it takes masks and integers of any width as 16-bit ones.
    """

    sources: str
    mask: bool = False
    bits: bool = False


INSTRUCTIONS: dict[str, Signature] = {
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "Max", "Min"), Signature("vv")),
    **dict.fromkeys(("Adds", "Muls", "Maxs", "Mins", "ShiftLeft", "ShiftRight"), Signature("vs")),
    **dict.fromkeys(("Abs", "Exp", "Ln", "Sqrt", "Rsqrt", "Reciprocal", "Relu"), Signature("v")),
    **dict.fromkeys(("And", "Or"), Signature("vv", bits=True)),
    "Not": Signature("v", bits=True),
    "Compare": Signature("vv", mask=True),
    "CompareScalar": Signature("vs", mask=True),
    "Select": Signature("mve"),
    "Duplicate": Signature("s"),
}


def mistake(instr: VectorInstr, chip: Chip) -> str:
    """What is wrong with an instruction on a chip, or "".

    Instructions of the tile form's own (`View`, `Index`, `Fault`…) are not looked at.
    """
    assert instr.dst is not None or instr.op == "Fault"
    if instr.op == "Cast":
        return _cast_mistake(instr, chip)
    signature = INSTRUCTIONS.get(instr.op)
    if signature is None:
        return ""
    if len(instr.srcs) != len(signature.sources):
        return f"{instr.op} takes {len(signature.sources)} sources, given {len(instr.srcs)}"
    dtype = ""
    for source, kind in zip(instr.srcs, signature.sources, strict=True):
        is_mask = isinstance(source, Value) and source.dtype == MASK
        if (kind in "vm" and isinstance(source, Scalar)) or (kind == "s" and isinstance(source, Value)):
            return f"{instr.op} takes {kind} here, given {source}"
        if kind == "m":
            if not is_mask:
                return f"{instr.op} takes a mask, given {source}"
            continue
        if dtype and source.dtype != dtype:
            return f"{instr.op} takes equal dtypes, given {dtype} and {source.dtype}"
        dtype = source.dtype
    assert instr.dst is not None
    if instr.dst.dtype != (MASK if signature.mask else dtype):
        return f"{instr.op} of {dtype} gives no {instr.dst.dtype}"
    return "" if takes(instr.op, dtype, instr.attrs, chip) else f"{instr.op} does not take {dtype}"


def takes(op: str, dtype: str, attrs: tuple[object, ...], chip: Chip) -> bool:
    """Whether an instruction of the tile form takes a dtype of UB."""
    signature = INSTRUCTIONS[op]
    if signature.bits and (dtype == MASK or (dtype[0] in "iu" and dtype not in ("i8", "u8", "i64"))):
        return chip.takes(op, "uint16")
    if dtype == MASK:
        return False
    return chip.takes(f"{op}EQ" if signature.mask and attrs == ("EQ",) else op, NAMES[dtype])


def _cast_mistake(instr: VectorInstr, chip: Chip) -> str:
    (source,) = instr.srcs
    assert instr.dst is not None
    if source.dtype == MASK or instr.dst.dtype == MASK:
        return "Cast does not take masks"
    modes = chip.converts(NAMES[source.dtype], NAMES[instr.dst.dtype])
    (mode,) = instr.attrs
    if modes is None or MODES[mode] not in modes:
        return f"Cast from {source.dtype} to {instr.dst.dtype} does not take {mode}"
    return ""
