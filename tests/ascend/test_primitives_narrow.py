"""Which kernels may compute 64-bit integers in 32 bits, and what the table of support says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyasc.backend.ascend.chip import load
from pyasc.backend.ascend.instructions import mistake
from pyasc.backend.ascend.narrow import unfit
from pyasc.backend.ascend.support import refusal, table
from pyasc.backend.ascend.tile import Builder, Form, Scalar, VectorInstr
from pyasc.backend.ir import Access, Instr, Kernel, Operand
from pyasc.ops.primitives import PRIMITIVES, Kind

I64, U64, F32, U32 = (np.dtype(d) for d in ("i8", "u8", "f4", "u4"))
CHIP = load("910B1")


def kernel(*body: Instr) -> Kernel:
    accesses = tuple(Access(k, "1", k) for k in range(4))
    operands = tuple(Operand(f"x{k}", I64) for k in range(4))
    return Kernel(1, 0, operands, accesses, (I64,) * 4, body)


def load_(access: int = 0) -> Instr:
    return Instr("load", I64, (), (access,))


INDEX, NUMBER = Instr("index", I64, (), (0,)), Instr("scalar", I64, (), (0,))


def test_places_of_elements_fit() -> None:
    """x[i, j]: what wrapped indices make of what was loaded, times strides."""
    flat = kernel(
        load_(), NUMBER, Instr("wrap_index", I64, (0, 1), (0,)), Instr("scalar", I64, (), (1,)),
        Instr("mul", I64, (2, 3)), INDEX, Instr("add", I64, (4, 5)), Instr("gather", F32, (6,), (1,)),
        Instr("store", F32, (7,), (2,)),
    )  # fmt: skip
    assert unfit(flat, (10,)) == ""


@pytest.mark.parametrize(
    ("what", "body"),
    [
        ("int64 elements", (load_(), INDEX, Instr("add", I64, (0, 1)), Instr("store", I64, (2,), (1,)))),
        ("int64 elements", (load_(), Instr("store", I64, (0,), (1,)))),
        ("int64 elements", (load_(), Instr("gather", F32, (0,), (1,)))),
        ("an int64 number", (INDEX, NUMBER, Instr("add", I64, (0, 1)), Instr("store", I64, (2,), (1,)))),
        ("mul of int64", (INDEX, Instr("mul", I64, (0, 0)), Instr("store", I64, (1,), (1,)))),
        (
            "cast of int64",
            (Instr("load", F32, (), (0,)), Instr("cast", I64, (0,)), Instr("store", I64, (1,), (1,))),
        ),
        ("reduce of int64", (INDEX, Instr("reduce", I64, (0,), ("mul",)), Instr("store", I64, (1,), (1,)))),
        ("a conversion to uint64", (INDEX, Instr("cast", U64, (0,)), Instr("store", U64, (1,), (1,)))),
    ],
)
def test_what_may_not_fit(what: str, body: tuple[Instr, ...]) -> None:
    reason = unfit(kernel(*body), (2**20,))
    assert reason == f"{what} {'that are more than indices ' if what == 'int64 elements' else ''}" + (
        "may need more than 32 bits, which the vector unit does not compute in"
    )


@pytest.mark.parametrize(
    "body",
    [
        (INDEX, Instr("mul", I64, (0, 0)), Instr("cast", F32, (1,)), Instr("store", F32, (2,), (1,))), (INDEX,
        Instr("const", I64, (), (2**20,)), Instr("add", I64, (0, 1)), Instr("store", I64, (2,), (1,))),
        (Instr("load", F32, (), (0,)), Instr("reduce", I64, (0,), ("argmax",)), Instr("store", I64, (1,),
        (1,))), (Instr("load", F32, (), (0,)), Instr("exp", F32, (0,)), Instr("store", F32, (1,), (1,))),
        (INDEX, Instr("const", I64, (), (7,)), Instr("remainder", I64, (0, 1)), Instr("store", I64, (2,),
        (1,))),
    ],
)  # fmt: skip
def test_what_fits_at_these_sizes(body: tuple[Instr, ...]) -> None:
    assert unfit(kernel(*body), (1000,)) == ""


@pytest.mark.parametrize(
    ("extents", "fits"), [((9, 2**20), True), ((2**12, 2**20), True), ((9, 2**31), False)]
)
def test_counts_fit(extents: tuple[int, ...], fits: bool) -> None:
    """How many hold: bools as int64, summed."""
    body = (
        Instr("load", np.dtype(bool), (), (0,)),
        Instr("cast", I64, (0,)),
        Instr("reduce", I64, (1,), ("add",)),
        Instr("store", I64, (2,), (1,)),
    )
    counted = Kernel(1, 1, kernel().operands, kernel().accesses, (), body)
    assert (unfit(counted, extents) == "") is fits


def test_random_bits_count_from_an_index() -> None:
    numbers = [Instr("scalar", U64, (), (k,)) for k in range(3)]
    bits = Instr("random_bits", U32, (4, 0, 1), (0,))
    body = (*numbers[:2], INDEX, Instr("cast", U64, (2,)), Instr("cast", U64, (2,)), bits)
    assert unfit(kernel(*body), (1000,)) == ""
    offset = Instr("random_bits", U32, (5, 0, 1), (0,))
    body = (*numbers, INDEX, Instr("cast", U64, (3,)), Instr("add", U64, (4, 2)), offset)
    assert unfit(kernel(*body), (1000,)) == ""


# --- the table --------------------------------------------------------------------------------------------


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
    reason = refusal("add", F32, (), load("310P"))
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
