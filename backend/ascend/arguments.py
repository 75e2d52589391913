"""The struct that a kernel receives by value: a template, and where scalar arguments go in it."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from ...ops.dtypes import as_dtype
from ..base import LaunchError, Patch, wide_scalar
from .rounding import round_up

# How `struct` writes each type that a field may have.
FORMATS = {
    "int8_t": "b", "uint8_t": "B", "int16_t": "h", "uint16_t": "H", "int32_t": "i", "uint32_t": "I",
    "int64_t": "q", "uint64_t": "Q", "float": "f", "half": "e", "bfloat16_t": "H",
}  # fmt: skip
_TO_FLOAT = ">float32"
_FLOATS = ("float16", "bfloat16", "float64")


class Passed(NamedTuple):
    """A field that holds a scalar argument: the argument's number, the field's bytes, a form of `Patch`."""

    scalar: int
    size: int
    form: str


def number(ctype: str, value: float) -> bytes:
    """A number as a field of a type.

    Raises
    ------
    struct.error
        Where the type does not hold it.
    """
    return struct.pack(f"<{FORMATS[ctype]}", value)


def passed(scalar: int, dtype: np.dtype[np.generic], ctype: str) -> Passed:
    """A field of a type that holds a scalar argument of a dtype, converted as C does.

    Raises
    ------
    LaunchError
        Where it is a float for a field of whole numbers.
    """
    size, kind = struct.calcsize(FORMATS[ctype]), "u" if dtype.kind == "b" else dtype.kind
    name = "uint8" if dtype.kind == "b" else dtype.name
    if ctype == "float":
        if kind in "iu":
            return Passed(scalar, size, name + _TO_FLOAT)
        return Passed(scalar, size, "bits" if dtype.name == "float32" else dtype.name)
    if kind not in "iu":
        raise LaunchError(f"expected a whole number for a field of {ctype}, given a scalar of {dtype.name}")
    return Passed(scalar, size, name)


def laid_out(fields: Iterable[bytes | Passed]) -> tuple[bytes, tuple[Patch, ...]]:
    """The struct of some fields, each aligned to its size, with zeros for scalars; and where those are."""
    out, patches, widest = bytearray(), [], 1
    for field in fields:
        size = field.size if isinstance(field, Passed) else len(field)
        widest = max(widest, size)
        out += bytes(-len(out) % size)
        if isinstance(field, Passed):
            patches.append(Patch(len(out), size, field.scalar, field.form))
            field = bytes(size)
        out += field
    return bytes(out) + bytes(-len(out) % widest), tuple(patches)


def patched(template: bytes, patches: Iterable[Patch], scalars: Sequence[int]) -> bytes:
    """The struct with the scalar arguments, given by their bits, in place.

    Raises
    ------
    LaunchError
        Where one does not fit.
    """
    if not patches:
        return template
    out = bytearray(template)
    for patch in patches:
        bits = scalars[patch.scalar].to_bytes(8, "little")
        out[patch.offset : patch.offset + patch.size] = _converted(bits, patch)
    return bytes(out)


@cache
def _dtype(name: str) -> np.dtype[np.generic]:
    return as_dtype(name)


def _converted(bits: bytes, patch: Patch) -> bytes:
    form = patch.form
    if form == "bits":
        return bits[: patch.size]
    if form == "bool":
        return np.float16(bits[0] != 0).tobytes()
    if form == "narrow":
        value = int.from_bytes(bits, "little", signed=True)
        if not -(2**31) <= value < 2**31:
            raise wide_scalar(value)
        return bits[: patch.size]
    source = form.removesuffix(_TO_FLOAT)
    given = np.frombuffer(bits, _dtype(source), 1)
    if source != form or form in _FLOATS:
        with np.errstate(over="ignore"):
            return given.astype(np.float32).tobytes()
    return int(given[0]).to_bytes(8, "little", signed=_dtype(source).kind == "i")[: patch.size]


def block(pointers: int, template: bytes) -> bytes:
    """The block of arguments of a kernel with so many addresses first, and this struct after them."""
    data = bytes(8 * pointers) + template
    return data + bytes(round_up(len(data), 8) - len(data))
