"""What runs on the chip, the table that says so, and what instructions take."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyasc.backend.ascend.chip import load
from pyasc.backend.ascend.instructions import mistake
from pyasc.backend.ascend.support import refusal, table
from pyasc.backend.ascend.tile import Builder, Form, Scalar, VectorInstr
from pyasc.ops.primitives import PRIMITIVES, Kind

CHIP = load("910B1")


def test_table_names_every_elementwise_primitive_and_dtype() -> None:
    rows = {row.name: row for row in table(CHIP)}
    assert set(rows) == {p.name for p in PRIMITIVES.values() if p.kind is Kind.ELEMENTWISE}
    for row in rows.values():
        for dtype, cell in row.cells.items():
            assert np.dtype(dtype if dtype != "bfloat16" else "f4").kind in PRIMITIVES[row.name].dtypes
            assert cell == refusal(row.name, _dtype(dtype), (), CHIP, narrow=True) or isinstance(cell, int)
    assert rows["add"].cells["float32"] == 1
    assert rows["exp"].cells["float32"] == 1
    assert rows["add"].cells["float64"] == "float64 has no vector instructions"


def _dtype(name: str) -> np.dtype[Any]:
    from pyasc.ops import dtypes

    return dtypes.DTYPES[name]


@pytest.mark.parametrize(
    ("op", "dtype", "reason"),
    [
        ("exp", "float64", "float64 has no vector instructions"),
        ("add", "int64", "int64 has no vector instructions"),
        (
            "remainder",
            "float32",
            "the exact remainder takes a loop over the bits of the quotient",
        ),
        ("pow", "int32", "an integer power takes a loop over the bits of its exponent"),
        ("scan", "float32", "scan is not made of vector instructions"),
        ("random_bits", "uint8", "random bits are made of a 64-bit counter"),
    ],
)
def test_reasons(op: str, dtype: str, reason: str) -> None:
    assert refusal(op, _dtype(dtype), (), CHIP) == reason


def test_a_chip_whose_instructions_are_not_known() -> None:
    reason = refusal("add", np.dtype(np.float32), (), load("310P"))
    assert reason == "which dtypes the instructions of the 310P take is not known"


# --- instructions -----------------------------------------------------------------------------------------


def test_mistakes_in_instructions() -> None:
    b = Builder()
    f32, i32, i8, mask = (b.value(d, Form.FULL) for d in ("f32", "i32", "i8", "mask"))

    def said(op: str, dst: Any, *srcs: Any, attrs: tuple[Any, ...] = ()) -> str:
        return mistake(VectorInstr(op, dst, srcs, attrs), CHIP)

    assert said("Add", f32, f32, f32) == ""
    assert said("Div", i32, i32, i32) == "Div does not take i32"
    assert said("Add", f32, f32, i32) == "Add takes equal dtypes, given f32 and i32"
    assert said("Add", i32, f32, f32) == "Add of f32 gives no i32"
    assert said("Add", f32, f32) == "Add takes 2 sources, given 1"
    assert said("Adds", f32, f32, f32).startswith("Adds takes s here")
    assert said("Select", f32, f32, f32, f32).startswith("Select takes a mask")
    assert (
        said("And", i32, i32, i32)
        == said("Or", mask, mask, mask)
        == said("Select", f32, mask, f32, f32)
        == ""
    )
    assert said("And", i8, i8, i8) == "And does not take i8"
    assert said("Compare", mask, i32, i32, attrs=("LT",)) == "Compare does not take i32"
    assert said("CompareScalar", mask, i32, Scalar("i32", 1), attrs=("EQ",)) == ""
    assert said("Cast", i32, i8, attrs=("NONE",)) == "Cast from i8 to i32 does not take NONE"
    assert said("Cast", i32, f32, attrs=("NONE",)) == "Cast from f32 to i32 does not take NONE"
    assert said("Cast", i32, f32, attrs=("TRUNC",)) == ""
