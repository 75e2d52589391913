"""Reductions: rewritten to what tiles can do, and the steps before and after the instructions that reduce.

How the chip's maximum treats NaN is not relied on: NaN is looked for apart. The index of the largest element
is the least index of an element that equals the maximum.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..ir import Instr, Kernel
from . import primitives
from .tile import MASK, Builder, Form, Scalar, Source, Value

Dtype = np.dtype[Any]
BOOL: Dtype = np.dtype(np.bool_)
INT64: Dtype = np.dtype(np.int64)
_INSTRUCTION = {"add": "Add", "mul": "Mul", "max": "Max", "min": "Min", "and": "Min", "or": "Max"}
_LARGEST = {"f16": 65504.0, "f32": 3.4028234663852886e38, "i16": 2**15 - 1, "i32": 2**31 - 1}


def instruction(how: str) -> str:
    """The vector instruction that combines two partial results."""
    return _INSTRUCTION[how]


def identity(name: str, dtype: str) -> int | float:
    """What an instruction leaves everything as it is with."""
    is_float = dtype[0] == "f"
    if name == "Add":
        return 0.0 if is_float else 0
    if name == "Mul":
        return 1.0 if is_float else 1
    if is_float:
        return float("-inf") if name == "Max" else float("inf")
    return int(-_LARGEST[dtype] - 1) if name == "Max" else int(_LARGEST[dtype])


def expand(kernel: Kernel) -> Kernel:
    """The kernel with its floating-point extremes and its argmax and argmin written out."""
    if not any(i.op == "reduce" and i.attrs[0] in ("max", "min", "argmax", "argmin") for i in kernel.body):
        return kernel
    return _Expansion(kernel).run()


class _Expansion:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.body: list[Instr] = []

    def emit(self, op: str, dtype: Dtype, *args: int, attrs: tuple[Any, ...] = ()) -> int:
        self.body.append(Instr(op, dtype, args, attrs))
        return len(self.body) - 1

    def run(self) -> Kernel:
        renamed: list[int] = []
        for instr in self.kernel.body:
            args = tuple(renamed[a] for a in instr.args)
            how = instr.attrs[0] if instr.op == "reduce" else ""
            if how in ("argmax", "argmin"):
                renamed.append(self._index(how[3:], args[0]))
            elif how in ("max", "min") and instr.dtype.kind in "fV":
                renamed.append(self._extreme(how, args[0], instr.dtype))
            else:
                self.body.append(replace(instr, args=args))
                renamed.append(len(self.body) - 1)
        return replace(self.kernel, body=tuple(self.body))

    def _extreme(self, how: str, x: int, dtype: Dtype) -> int:
        largest = self.emit("reduce", dtype, x, attrs=(how,))
        some_nan = self.emit("reduce", BOOL, self.emit("ne", BOOL, x, x), attrs=("or",))
        nan = self.emit("const", dtype, attrs=(float("nan"),))
        return self.emit("where", dtype, some_nan, nan, largest)

    def _index(self, how: str, x: int) -> int:
        dtype = self.body[x].dtype
        if dtype.kind == "b":
            f16 = np.dtype(np.float16)
            x, dtype = self.emit("cast", f16, x), f16
        extreme = self.emit("reduce", dtype, x, attrs=(how,))
        found = self.emit("eq", BOOL, x, extreme)
        if dtype.kind in "fV":
            nan = self.emit("ne", BOOL, x, x)
            some_nan = self.emit("reduce", BOOL, nan, attrs=("or",))
            number = self.emit("and", BOOL, found, self.emit("not", BOOL, some_nan))
            found = self.emit("or", BOOL, number, nan)
        position = self._position()
        beyond = self.emit("const", INT64, attrs=(2**31 - 1,))
        return self.emit("reduce", INT64, self.emit("where", INT64, found, position, beyond), attrs=("min",))

    def _position(self) -> int:
        """The place among the reduced elements, counted in the order of their axes."""
        kernel = self.kernel
        total = self.emit("index", INT64, attrs=(kernel.parallel,))
        for axis in range(kernel.parallel + 1, kernel.rank):
            extent = self.emit("extent", INT64, attrs=(axis,))
            step = self.emit("index", INT64, attrs=(axis,))
            total = self.emit("add", INT64, self.emit("mul", INT64, total, extent), step)
        return total


def prepare(b: Builder, how: str, source: Source, dtype: Dtype) -> Value:
    """What is reduced, in a dtype that the combining instruction takes."""
    if isinstance(source, Scalar):
        source = b.duplicate(source, source.dtype, Form.FULL)
        if dtype.kind == "b":
            return source
    if source.dtype == MASK:
        return b.select(source, b.duplicate(1.0, "f16"), 0.0)
    if source.dtype == "f16" and how in ("add", "mul"):
        return b.cast(source, "f32")
    if dtype.kind == "u" and dtype.itemsize > 1 and how in ("max", "min"):
        return b.scalar("Adds", source, _bias(dtype))
    return source


def finish(b: Builder, how: str, acc: Value, dtype: Dtype) -> Source:
    """The result in its dtype's representation."""
    if dtype.kind == "b":
        return b.compare("NE", acc, 0.0)
    if dtype.name == "float16" and acc.dtype == "f32":
        return b.cast(acc, "f16", "RINT")
    if dtype.name == "bfloat16":
        return b.cast(b.cast(acc, "bf16", "RINT"), "f32")
    if how in ("max", "min"):
        return b.scalar("Adds", acc, _bias(dtype)) if dtype.kind == "u" and dtype.itemsize > 1 else acc
    if dtype.itemsize == 1:
        # Sums of 8-bit integers wrap, which an addition of theirs sees to.
        return primitives.lower(b, "add", dtype, (acc, Scalar("i16", 0)), (dtype, dtype), ())
    return acc


def _bias(dtype: Dtype) -> int:
    """What turns the order of an unsigned dtype into that of its bits read as signed, and back."""
    return int(-(2 ** (8 * dtype.itemsize - 1)))
