"""Ascend C as text: lines with their indentation, the names of types, numbers as literals."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager

from .tile import Scalar

CTYPE = {
    "f16": "half", "f32": "float", "bf16": "bfloat16_t", "i8": "int8_t", "u8": "uint8_t", "i16": "int16_t",
    "u16": "uint16_t", "i32": "int32_t", "u32": "uint32_t", "i64": "int64_t", "mask": "uint8_t",
}  # fmt: skip

# The bit of the control register without which results that are infinite or NaN become finite: float16 and
# bfloat16 ones of vector instructions, all of the cube's.
IEEE_MODE = 48


class Writer:
    """Collects lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 0

    def __call__(self, *lines: str) -> None:
        for line in lines:
            self.lines.append("    " * self.depth + line if line else "")

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Lines in braces after a head."""
        self(f"{head} {{".lstrip())
        self.depth += 1
        yield
        self.depth -= 1
        self("}")

    def text(self) -> str:
        """All lines, each with its end."""
        return "\n".join(self.lines) + "\n"


def literal(s: Scalar) -> str:
    """A scalar as an expression of exactly its element type, as the API wants it."""
    if isinstance(s.value, str):
        return s.value
    if s.dtype in ("f32", "f16", "bf16"):
        text = _float(float(s.value))
        return text if s.dtype == "f32" else f"static_cast<{CTYPE[s.dtype]}>({text})"
    value = int(s.value)
    if s.dtype == "i32":
        return str(value) if value > -(2**31) else "(-2147483647 - 1)"
    return f"static_cast<{CTYPE[s.dtype]}>({value})"


def _float(value: float) -> str:
    if math.isnan(value) or math.isinf(value):
        (bits,) = struct.unpack("<I", struct.pack("<f", value))
        return f"FromBits(0x{bits:08x}u)"
    for digits in range(6, 10):
        text = f"{value:.{digits}g}"
        if struct.pack("<f", float(text)) == struct.pack("<f", value):
            break
    return text + ("f" if "." in text or "e" in text else ".0f")


_DECLARATION = re.compile(r"^ *(?:const )?\w+ (\w+) = [^;]*;$")


def without_unread(lines: list[str]) -> list[str]:
    """The lines without declarations of variables that nothing reads in their block."""
    kept: list[str] = []  # from the last line on
    for line in reversed(lines):
        found = _DECLARATION.match(line)
        if found is None or _is_read(found[1], len(line) - len(line.lstrip()), kept):
            kept.append(line)
    return kept[::-1]


def _is_read(name: str, indent: int, after: list[str]) -> bool:
    word = re.compile(rf"\b{name}\b")
    for line in reversed(after):
        if line and len(line) - len(line.lstrip()) < indent:
            return False
        if word.search(line):
            return True
    return False
