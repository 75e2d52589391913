"""Reductions against the NumPy meaning: kinds × dtypes × sizes × layouts × strategies."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from kernel_tape import Tape, backend, check, compiled, launch
from test_kernels import LEVELS, lanes, random_strides

from pyasc.backend.cpu import partition
from pyasc.backend.cpu.tuning import Tuning

Dtype = np.dtype[Any]
KINDS = {
    "?": ("and", "or", "max", "argmax"),
    "b": ("add", "mul", "max", "min", "argmin"),
    "H": ("add", "max", "argmax"),
    "i": ("add", "mul", "min", "argmax", "argmin"),
    "Q": ("add", "max", "min", "argmin"),
    "e": ("add", "max", "argmax"),
    "f": ("add", "mul", "max", "min", "argmax", "argmin"),
    "d": ("add", "min", "argmax"),
    "E": ("add", "min", "argmin"),  # bfloat16
}
TOLERANCE = {2: 2e-2, 4: 2e-4, 8: 1e-10}
SHAPES = [  # extents, reduced axes
    *(((3, n), 1) for n in (*range(1, 34), 63, 64, 65, 255, 257, 1023)),
    ((4500,), 1),
    ((1,), 1),
    ((40, 3, 5), 1),
    ((2, 3, 70), 2),
    ((5, 33, 17), 2),
    ((100, 300), 1),
]


def dtype_of(character: str) -> Dtype:
    return np.dtype(ml_dtypes.bfloat16) if character == "E" else np.dtype(character)


def tunings(tape: Tape, width: int) -> list[Tuning]:
    """Every strategy, with lanes along every axis, whole and in pieces."""
    kernel = tape.kernel()
    parallel = max(kernel.parallel, 1)
    rank = parallel + kernel.reduced
    result = []
    for lane in range(rank):
        others = [k for k in range(parallel) if k != lane]
        strategy = "columns" if lane < parallel else "rows"
        row = others[-1] if others else -1
        for k, split_axis in enumerate((-1, *range(parallel, rank))):
            result.append(
                Tuning(
                    strategy,
                    lane,
                    row,
                    width,
                    (2, 1, 2)[k % 3],
                    k % 3 == 2,
                    split=split_axis,
                    keep=split_axis < 0,
                )
            )
    return result


@pytest.fixture(autouse=True)
def small_units(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that small arrays are cut into several units and pieces too."""
    monkeypatch.setattr(partition, "UNIT_POINTS", 200)


@pytest.mark.parametrize("specials", [False, True])
@pytest.mark.parametrize("character", KINDS)
def test_kinds(character: str, specials: bool) -> None:
    dtype = dtype_of(character)
    if specials and dtype.kind not in "fV":
        return
    for number, (extents, reduced) in enumerate(SHAPES):
        tape = Tape(extents, reduced)
        x = tape.load(dtype)
        if dtype.kind in "fV":  # near 1, for products; in tenths, for ties
            x = tape.emit("div", dtype, (x, tape.emit("const", dtype, (), (64,))))
        for how in KINDS[character]:
            value = x
            if how == "mul" and dtype.kind == "f":
                value = tape.emit("add", dtype, (x, tape.emit("const", dtype, (), (1,))))
            result = np.int64 if how.startswith("arg") else dtype
            tape.store(tape.emit("reduce", result, (value,), (how,)), tape.outer())
        every = tunings(tape, lanes(dtype))
        chosen = every if number % 16 == 7 or number > 38 else [every[number % len(every)]]
        check(
            tape,
            [None, *chosen],
            tolerance=TOLERANCE[dtype.itemsize] if dtype.kind in "fV" else 0,
            specials=specials,
            seed=number,
        )


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    "extents, reduced", [((7, 100), 1), ((3, 5), 1), ((2, 3, 33), 2), ((700,), 1), ((40, 90), 1)]
)
@pytest.mark.parametrize("along_rows", [True, False])
def test_passes(extents: tuple[int, ...], reduced: int, along_rows: bool, level: str) -> None:
    """Normalise: exp(x - max) / sum(exp(x - max)), with mean and extremes besides."""
    tape = Tape(extents, reduced)
    strides = tape.contiguous() if along_rows else tape.contiguous(range(len(extents) - 1, -1, -1))
    x = tape.load("f4", strides)
    top = tape.emit("reduce", "f4", (x,), ("max",))
    shifted = tape.emit("exp", "f4", (tape.emit("sub", "f4", (x, top)),))
    total = tape.emit("reduce", "f4", (shifted,), ("add",))
    tape.store(tape.emit("div", "f4", (shifted, total)), strides)
    tape.store(tape.emit("add", "f4", (top, total)), tape.outer())
    scale = tape.load("f4", [0] * (len(extents) - reduced) + [1] * reduced)
    weighted = tape.emit("reduce", "f4", (tape.emit("mul", "f4", (shifted, scale)),), ("add",))
    tape.store(tape.emit("mul", "f4", (weighted, tape.load("f4", tape.outer()))), tape.outer())
    every = tunings(tape, lanes(np.dtype("f4"), level))
    check(tape, [None, *every, *(t._replace(keep=False) for t in every)], tolerance=2e-5, level=level)


@pytest.mark.parametrize(
    "character, level", [*((c, "") for c in "?bfE"), *(("f", level) for level in LEVELS[1:])]
)
@pytest.mark.parametrize("channels", [2, 3, 5])
def test_short_axes(character: str, channels: int, level: str) -> None:
    """Pixels reduced over their channels, channels over the pixels, and both."""
    dtype = dtype_of(character)
    for n in (1, 7, 64, 300):
        for extents, strides, reduced in (
            ((n, channels), (channels, 1), 1),
            ((channels, n), (1, channels), 1),
            ((4, n, channels), (n * channels, channels, 1), 2),
        ):
            tape = Tape(extents, reduced)
            x = tape.load(dtype, strides)
            for how in KINDS[character][:2]:
                tape.store(tape.emit("reduce", dtype, (x,), (how,)), tape.outer())
            if dtype.kind in "fV" or len(extents) == 2:
                top = tape.emit("reduce", dtype, (x,), ("max",))
                tape.store(tape.emit("max", dtype, (x, top)), strides)
            check(tape, tolerance=TOLERANCE.get(dtype.itemsize, 0), seed=n, level=level)


@pytest.mark.parametrize(
    "seed", [*range(16), *(pytest.param(n, marks=pytest.mark.full) for n in range(16, 200))]
)
def test_random_kernels(seed: int) -> None:
    generator = np.random.default_rng(seed)
    parallel, reduced = int(generator.integers(0, 3)), int(generator.integers(1, 3))
    most = {1: 400, 2: 60, 3: 20, 4: 10}[parallel + reduced]
    extents = [int(generator.integers(1, most)) for _ in range(parallel + reduced)]
    tape = Tape(extents, reduced)
    dtype = np.dtype(generator.choice(["i4", "f4", "i2", "f8", "u1"]))
    known = [tape.load(dtype, random_strides(tape, generator)) for _ in range(3)]
    for _ in range(generator.integers(2, 7)):
        a, b = (known[k] for k in generator.integers(0, len(known), 2))
        op = str(generator.choice(["add", "max", "min", "reduce"]))
        if op == "reduce":
            how = str(generator.choice(["add", "max", "min"]))
            known.append(tape.emit("reduce", dtype, (a,), (how,)))
        else:
            known.append(tape.emit(op, dtype, (a, b)))
    known.append(tape.emit("add", dtype, (known[-1], tape.emit("reduce", dtype, (known[0],), ("max",)))))
    inner = tape.kernel().inner[known[-1]]
    tape.store(known[-1], tape.contiguous() if inner else tape.outer())
    outer = [k for k in known if not tape.kernel().inner[k]]
    if outer:
        tape.store(outer[0], tape.outer())
    every = tunings(tape, int(generator.choice([8, 16])))
    tolerance = TOLERANCE[dtype.itemsize] if dtype.kind == "f" else 0
    check(tape, [None, *every], tolerance=tolerance, seed=seed, level=LEVELS[seed % len(LEVELS)])


@pytest.mark.parametrize("extents, reduced", [((2**25,), 1), ((2**25, 2), 1), ((2, 2**24, 2), 2)])
def test_ones_sum_exactly(extents: tuple[int, ...], reduced: int) -> None:
    """float32 sums of 2**25 ones, in rows and in columns, through a broadcast operand."""
    if len(extents) == 2:
        extents = (extents[1], extents[0])
    tape = Tape(extents, reduced)
    one = tape.load("f4", [0] * len(extents))
    tape.store(tape.emit("reduce", "f4", (one,), ("add",)), tape.outer())
    kernel, binding = tape.kernel(), tape.binding()
    cpu = backend()
    for tuning in (cpu.tune(kernel, binding), *tunings(tape, 16)):
        result = np.zeros(tape.sizes[1], np.float32)
        launch(compiled(cpu, kernel, tuning), binding, [np.ones(1, np.float32), result], step=1 << 30)
        count = np.prod(extents[len(extents) - reduced :])
        assert (result == count).all(), tuning


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", ["f4", "i2", "f8"])
def test_pairwise(dtype: str, level: str) -> None:
    """Each row of one operand with each row of another, which is transposed on the way."""
    for m, n, k in ((20, 70, 9), (130, 33, 64), (17, 64, 100), (1, 5, 8)):
        tape = Tape((m, n, k), 1)
        a, b = tape.load(dtype, (k, 0, 1)), tape.load(dtype, (0, k, 1))
        apart = tape.emit("sub", dtype, (a, b))
        tape.store(
            tape.emit("reduce", dtype, (tape.emit("mul", dtype, (apart, apart)),), ("add",)), tape.outer()
        )
        packed = Tuning("columns", 1, 0, lanes(np.dtype(dtype), level), 2, packed=(1,), keep=False)
        check(tape, [None, packed, packed._replace(masked=True)], tolerance=1e-4, level=level)
