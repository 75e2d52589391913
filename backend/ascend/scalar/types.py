"""What the scalar unit computes each dtype in, how an element lies in memory, numbers as literals."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..text import literal
from ..tile import Scalar

Dtype = np.dtype[Any]

# float16 and bfloat16 are floats that are rounded after every operation. There is no double.
CTYPE = {
    "bool": "bool", "int8": "int8_t", "uint8": "uint8_t", "int16": "int16_t", "uint16": "uint16_t",
    "int32": "int32_t", "uint32": "uint32_t", "int64": "int64_t", "uint64": "uint64_t",
    "float16": "float", "bfloat16": "float", "float32": "float",
}  # fmt: skip
ROUNDED = {"float16": "RoundHalf", "bfloat16": "RoundBfloat"}
_MEMORY = {"bool": "uint8_t", "float16": "uint16_t", "bfloat16": "uint16_t"}
_READ = {"float16": "HalfToFloat", "bfloat16": "BfloatToFloat"}
_WRITTEN = {"float16": "FloatToHalf", "bfloat16": "FloatToBfloat"}


def memory(dtype: Dtype) -> str:
    """The C++ type of an element in memory."""
    return _MEMORY.get(dtype.name) or CTYPE[dtype.name]


def read(dtype: Dtype, element: str) -> str:
    """An element of memory as a value."""
    if dtype.kind == "b":
        return f"{element} != 0"
    return f"{_READ[dtype.name]}({element})" if dtype.name in _READ else element


def written(dtype: Dtype, value: str) -> str:
    """A value as an element of memory."""
    if dtype.kind == "b":
        return f"static_cast<uint8_t>({value} ? 1 : 0)"
    return f"{_WRITTEN[dtype.name]}({value})" if dtype.name in _WRITTEN else value


def number(dtype: Dtype, value: Any) -> str:
    """A number of the user's text as an expression of a dtype, without operators around which it would fall
    apart."""
    with np.errstate(all="ignore"):
        exact = np.asarray(value).astype(dtype)[()]
    if dtype.kind == "b":
        return "true" if exact else "false"
    if dtype.kind in "fV":
        text = literal(Scalar("f32", float(exact)))
    elif dtype.kind == "u":
        text = str(int(exact)) + ("ull" if dtype.itemsize == 8 else "u")
    elif int(exact) == -(2**63):
        text = "-9223372036854775807ll - 1"
    else:
        text = str(int(exact)) + ("ll" if not -(2**31) < int(exact) < 2**31 else "")
    return f"({text})" if text[0] == "-" else text
