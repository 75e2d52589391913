"""What vector instructions compute, on NumPy arrays: the oracle of how primitives are lowered.

Arithmetic rounds correctly, conversions to integers saturate. What the chip's documents leave open is asked
for both ways by the tests: whether Max and Min prefer NaN or a number (`nan`), and what a conversion makes of
NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from pyasc.backend.ascend.chip import load
from pyasc.backend.ascend.instructions import mistake
from pyasc.backend.ascend.primitives import load_conversion, lower, store_conversion
from pyasc.backend.ascend.tile import MASK, Builder, Form, Scalar, Source, Value, VectorInstr

Array = np.ndarray[Any, Any]
NUMPY = {
    "f16": np.dtype(np.float16), "f32": np.dtype(np.float32), "bf16": np.dtype(ml_dtypes.bfloat16),
    "i8": np.dtype(np.int8), "u8": np.dtype(np.uint8), "i16": np.dtype(np.int16), "u16": np.dtype(np.uint16),
    "i32": np.dtype(np.int32), "u32": np.dtype(np.uint32), "i64": np.dtype(np.int64), "mask": np.dtype(bool),
}  # fmt: skip
MEMORY = {
    "bool": "u8", "int8": "i8", "uint8": "u8", "int16": "i16", "uint16": "u16", "int32": "i32",
    "uint32": "u32", "int64": "i64", "uint64": "i64", "float16": "f16", "bfloat16": "bf16", "float32": "f32",
}  # fmt: skip
CHIP = load("910B1")
_COMPARE = {
    "EQ": np.equal, "NE": np.not_equal, "LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE":
    np.greater_equal,
}  # fmt: skip
_ROUND = {"RINT": np.rint, "NONE": np.rint, "FLOOR": np.floor, "CEIL": np.ceil, "TRUNC": np.trunc}


class Faulted(Exception):
    """A point of a mask was reported: the fault's number and the index there."""


class Evaluator:
    """Runs instruction lists.

    Parameters
    ----------
    nan : {"number", "nan"}
        What Max and Min give for a number and NaN.
    converted : int
        What a conversion to integers makes of NaN.
    off : int
        Units in the last place that Div may be off by; which way is random.
    """

    def __init__(self, nan: str = "number", converted: int = 7, off: int = 0) -> None:
        self.nan = nan
        self.off = off
        self.random = np.random.default_rng(5)
        self.converted = converted
        self.values: dict[Value, Array] = {}

    def run(self, instrs: Sequence[VectorInstr]) -> None:
        with np.errstate(all="ignore"):
            for instr in instrs:
                wrong = mistake(instr, CHIP)
                assert not wrong, wrong
                result = self.compute(instr)
                if instr.dst is not None:
                    assert result.dtype == NUMPY[instr.dst.dtype], (instr, result.dtype)
                    self.values[instr.dst] = result

    def get(self, source: Source) -> Array:
        if isinstance(source, Value):
            return self.values[source]
        assert not isinstance(source.value, str)
        if source.dtype[0] in "iu":
            limits = np.iinfo(NUMPY[source.dtype])
            assert limits.min <= source.value <= limits.max, source
        return np.asarray(source.value, NUMPY[source.dtype])

    def compute(self, instr: VectorInstr) -> Array:
        srcs = [self.get(s) for s in instr.srcs]
        kind = instr.srcs[0].dtype
        op = instr.op
        if op in ("Add", "Adds"):
            return srcs[0] + srcs[1]
        if op == "Sub":
            return srcs[0] - srcs[1]
        if op in ("Mul", "Muls"):
            return srcs[0] * srcs[1]
        if op == "Div":
            return self.moved(srcs[0] / srcs[1])
        if op in ("Max", "Min", "Maxs", "Mins"):
            return self.extreme(op[:3], *srcs)
        if op in ("And", "Or"):
            return (np.bitwise_and if op == "And" else np.bitwise_or)(*srcs)
        if op == "Not":
            return np.invert(srcs[0])
        if op == "ShiftLeft":
            assert kind[0] == "u", "of signed elements the sign is documented to stay"
            return self.shifted(np.left_shift, *srcs)
        if op == "ShiftRight":
            return self.shifted(np.right_shift, *srcs)
        if op == "Abs":
            return np.abs(srcs[0])
        if op in ("Exp", "Ln", "Sqrt"):
            wide = np.float64 if kind == "f32" else np.float32
            return {"Exp": np.exp, "Ln": np.log, "Sqrt": np.sqrt}[op](srcs[0].astype(wide)).astype(
                srcs[0].dtype
            )
        if op in ("Compare", "CompareScalar"):
            return np.asarray(_COMPARE[instr.attrs[0]](*srcs))
        if op == "Select":
            unsigned = f"u{srcs[1].itemsize}"
            chosen = np.where(srcs[0], srcs[1].view(unsigned), srcs[2].view(unsigned))
            return chosen.view(srcs[1].dtype)
        if op == "Duplicate":
            return srcs[0]
        assert instr.dst is not None or op == "Fault"
        if op == "View":
            return srcs[0].view(NUMPY[instr.dst.dtype])  # type: ignore[union-attr]
        if op == "Cast":
            return self.cast(srcs[0], instr.dst.dtype, instr.attrs[0])  # type: ignore[union-attr]
        assert op == "Fault", op
        if srcs[0].any():
            raise Faulted(instr.attrs[0], int(np.broadcast_to(srcs[1], srcs[0].shape)[srcs[0]][0]))
        return srcs[0]

    def extreme(self, op: str, x: Array, y: Array) -> Array:
        if x.dtype.kind == "f":
            function = {"Max": (np.fmax, np.maximum), "Min": (np.fmin, np.minimum)}[op][self.nan == "nan"]
        else:
            function = np.maximum if op == "Max" else np.minimum
        return np.asarray(function(x, y))

    def moved(self, x: Array) -> Array:
        if not self.off:
            return x
        steps = self.random.integers(-self.off, self.off + 1, x.shape)
        whole = np.isfinite(x) & (np.abs(x) > 1e-3)
        return np.where(whole, (x.view(f"i{x.itemsize}") + steps).astype(f"i{x.itemsize}").view(x.dtype), x)

    def shifted(self, function: Any, x: Array, count: Array) -> Array:
        assert 0 <= count <= 8 * x.itemsize, count
        return np.asarray(function(x, count))

    def cast(self, x: Array, target: str, mode: str) -> Array:
        dtype = NUMPY[target]
        if dtype.kind in "iu":
            if x.dtype.kind in "iu":
                limits = np.iinfo(dtype)
                low, high = max(limits.min, np.iinfo(x.dtype).min), min(limits.max, np.iinfo(x.dtype).max)
                return np.clip(x, low, high).astype(dtype)
            wide = _ROUND[mode](x.astype(np.float64))
            limits = np.iinfo(dtype)
            held = np.where(
                np.isnan(wide), self.converted, np.clip(wide, float(limits.min), float(limits.max))
            )
            return held.astype(dtype)
        if x.dtype == dtype:
            return np.asarray(_ROUND[mode](x))
        assert mode in ("RINT", "NONE")
        return x.astype(dtype)


def to_value(b: Builder, evaluator: Evaluator, x: Array, form: Form = Form.FULL) -> Value:
    """An array as a value copied in and converted."""
    kind = MEMORY[x.dtype.name]
    raw = b.value(kind, form)
    evaluator.values[raw] = x.view(NUMPY[kind])
    return load_conversion(b, raw, x.dtype)


def from_value(b: Builder, source: Source, dtype: np.dtype[Any]) -> Value:
    return store_conversion(b, source, dtype)


def run(
    op: str, *args: Array | Scalar, dtype: Any, dtypes: Sequence[Any] = (), attrs: tuple[Any, ...] = (),
    nan: str = "number", converted: int = 7, off: int = 0,
) -> tuple[Array, int]:  # fmt: skip
    """A primitive through its instructions: the result and how many instructions it took.

    Conversions from and to memory are not counted.
    """
    b, evaluator = Builder(), Evaluator(nan, converted, off)
    logical = [np.dtype(d) for d in dtypes] if dtypes else [a.dtype for a in args]
    sources: list[Source] = [a if isinstance(a, Scalar) else to_value(b, evaluator, a) for a in args]
    before = len(b.instrs)
    result = lower(b, op, np.dtype(dtype), sources, logical, attrs)
    count = sum(i.op not in ("View",) for i in b.instrs[before:])
    stored = from_value(b, result, np.dtype(dtype))
    evaluator.run(b.instrs)
    shape = next((a.shape for a in args if not isinstance(a, Scalar)), ())
    assert stored.dtype == MASK or stored.dtype == MEMORY[np.dtype(dtype).name], stored
    return np.broadcast_to(evaluator.values[stored], shape).view(np.dtype(dtype)), count
