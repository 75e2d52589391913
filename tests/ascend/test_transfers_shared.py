"""Tiles that several accesses read, and elements at computed places, run on the simulator against NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from simulated_kernels import DTYPES, GUARD, Running, bits, layout, total, values

from pyasc.backend.ascend.generated import Generated
from pyasc.backend.ir import Access, Binding, Instr, Kernel, Operand

Dtype = np.dtype[Any]
FLOAT32, INT64 = np.dtype(np.float32), np.dtype(np.int64)
BOX = [(i, j) for i in range(3) for j in range(3)]
PLANES = [(100, 130), (1, 1), (2, 7), (3, 33), (33, 16)]


def each(dtypes: Sequence[str]) -> Any:
    """All dtypes, those that are not named behind ``--full``."""
    marked = [pytest.param(d, marks=() if d.name in dtypes else pytest.mark.full, id=d.name) for d in DTYPES]
    return pytest.mark.parametrize("dtype", marked)


class Stencil:
    """Adds what lies at several places around a point."""

    def __init__(self, dtype: Dtype, places: Sequence[tuple[int, int]], pitch: int, step: int = 1) -> None:
        self.dtype, self.places, self.strides = dtype, places, (pitch, step)
        count = len(places)
        operands = (Operand("p", dtype), Operand("y", dtype, output=True))
        accesses = [Access(0, layout(self.strides), n) for n in range(count)]
        accesses.append(Access(1, "n1", count))
        kernel = Kernel(2, 0, operands, tuple(accesses), (), total(dtype, count), "stencil")
        self.running = Running(kernel)

    def __call__(self, rows: int, lanes: int, pitch: int | None = None) -> Generated:
        pitch = pitch or self.strides[0]
        begin = GUARD + max(0, -pitch) * (rows + 4)
        offsets = [begin + i * pitch + j for i, j in self.places]
        strides = [(pitch, self.strides[1])] * len(self.places) + [(lanes + 2, 1)]
        size = max(offsets) + max(0, pitch) * rows + self.strides[1] * lanes + GUARD
        binding = Binding((rows, lanes), tuple(strides), (*offsets, GUARD))
        out = values(self.dtype, 2 * GUARD + rows * (lanes + 2), 1)
        return self.running(binding, [values(self.dtype, size), out])


def copies(generated: Generated) -> int:
    """Tiles that are copied in."""
    return generated.source.count("CopyRowsIn(") - 1


@each(["float32", "uint8"])
def test_a_stencil_reads_one_tile_for_all_rows_of_a_column(dtype: Dtype) -> None:
    stencil = Stencil(dtype, BOX, 200)
    for plane in PLANES:
        generated = stencil(*plane)
    assert copies(generated) == 3


@each(["bool"])
def test_rows_further_apart_and_upside_down(dtype: Dtype) -> None:
    stencil = Stencil(dtype, [(0, 0), (4, 0), (1, 2), (2, 2)], -150)
    for plane in PLANES:
        generated = stencil(*plane)
    assert copies(generated) == 2


@pytest.mark.parametrize("step", [2, 3, 4])
@each(["int16"])
def test_channels_that_lie_side_by_side_are_read_together(dtype: Dtype, step: int) -> None:
    stencil = Stencil(dtype, [(0, c) for c in range(step)], 600, step)
    for plane in PLANES:
        generated = stencil(*plane)
    assert generated.tiling.tuning.ways[0].kind == ("steps" if step * dtype.itemsize <= 32 else "slots")
    if step * dtype.itemsize <= 32:
        assert copies(generated) == 1


def test_other_offsets_are_other_code() -> None:
    """What is read together is part of the tuning and looked at for each launch."""
    stencil = Stencil(FLOAT32, BOX, 200)
    generated = stencil(20, 50)
    offsets = [GUARD + i * 300 + j for i, j in BOX]
    strides = ((300, 1),) * len(BOX) + ((52, 1),)
    assert generated.fits(Binding((20, 50), strides, (*offsets, 0)))
    offsets[4] += 300
    assert not generated.fits(Binding((20, 50), strides, (*offsets, 0)))
    stencil.places = [(2 * i, j) for i, j in BOX]
    stencil(20, 50)
    assert len(stencil.running.generated) == 2


# --- computed places ----------------------------------------------------------------------------------------


class Take:
    """Elements of a table: whole ``rows``, its ``columns``, or one for each of ``points`` or ``row``."""

    def __init__(self, dtype: Dtype, how: str, index: Dtype = INT64) -> None:
        self.dtype, self.how, self.index = dtype, how, index
        body = [Instr("load", index, (), (0,))]
        if index != INT64:
            body.append(Instr("cast", INT64, (0,)))
        at = len(body) - 1
        self.along = {"rows": (1, 0), "columns": (0, 1), "points": (9, 1), "row": (1, 0)}[how]
        if how == "rows":
            body += [Instr("index", INT64, (), (1,)), Instr("add", INT64, (at, at + 1))]
        elif how == "columns":
            body += [Instr("index", INT64, (), (0,)), Instr("scalar", INT64, (), (0,))]
            body += [Instr("mul", INT64, (at + 1, at + 2)), Instr("add", INT64, (at, at + 3))]
        last = len(body) - 1
        body += [Instr("gather", dtype, (last,), (1,)), Instr("store", dtype, (last + 1,), (2,))]
        operands = (Operand("places", index), Operand("table", dtype), Operand("y", dtype, output=True))
        accesses = (Access(0, layout(self.along), 0), Access(1, "00", 1), Access(2, "n1", 2))
        scalars = (INT64,) if how == "columns" else ()
        self.running = Running(Kernel(2, 0, operands, accesses, scalars, tuple(body), "take"))

    def __call__(self, rows: int, lanes: int, known: bool = False, size: int = 40) -> Generated:
        """Run; `known` says whether the tuning knows how large the table is."""
        random = np.random.default_rng(rows * lanes)
        along = (lanes, 1) if self.how == "points" else self.along
        count = {"rows": rows, "row": rows, "columns": lanes, "points": rows * lanes}[self.how]
        places = random.integers(0, size, count) * (lanes if self.how == "rows" else 1)
        table = bits(self.dtype, GUARD + size * {"rows": lanes, "columns": rows}.get(self.how, 1), 2)
        binding = Binding((rows, lanes), (along, (0, 0), (lanes + 1, 1)), (2, GUARD, GUARD))
        if known:
            binding = replace(binding, sizes=(2 + count, table.size, 2 * GUARD + rows * (lanes + 1)))
        scalars = [size] if self.how == "columns" else []
        index = np.concatenate([[0, 0], places]).astype(self.index)
        out = bits(self.dtype, 2 * GUARD + rows * (lanes + 1), 3)
        return self.running(binding, [index, table, out], scalars)


@pytest.mark.parametrize("how", ["rows", "columns", "points", "row"])
@each(["float16", "int8"])
def test_elements_at_computed_places(dtype: Dtype, how: str) -> None:
    take = Take(dtype, how)
    for plane in [(40, 300), (2, 3), (5, 33), (33, 17)]:
        generated = take(*plane)
    assert ("GetValue(row)" in generated.source) == (how == "rows")


def test_places_of_32_bits() -> None:
    Take(FLOAT32, "points", np.dtype(np.int32))(33, 100)


@each(["uint8", "float32"])
def test_a_small_table_is_kept_in_ub(dtype: Dtype) -> None:
    take = Take(dtype, "points")
    for plane in [(33, 100), (1, 1), (7, 300)]:
        generated = take(*plane, known=True, size=256)
    assert "Gather(" in generated.source and "GetValue" not in generated.source
    assert len(take.running.generated) == 1
    take(33, 100, known=True, size=100_000)
    assert "GetValue" in take.running.generated[1].source
