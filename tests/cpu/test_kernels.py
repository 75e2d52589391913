"""Elementwise loop nests against the NumPy meaning: dtypes × sizes × layouts × tunings."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from kernel_tape import Tape, backend, check
from pyasc.backend.cpu.tuning import Tuning

Dtype = np.dtype[Any]
DTYPES = [np.dtype(d) for d in "?bBhHiIqQefd"] + [np.dtype(ml_dtypes.bfloat16)]
SIZES = [*range(1, 34), 63, 64, 65, 127, 129, 255, 257, 1023]
# The host's own instructions, and older ones that it can run: no masks, fewer lanes.
LEVELS = ["", "x86-64", "haswell"] if backend().target.architecture == "x86_64" else [""]


def lanes(dtype: Dtype, level: str = "") -> int:
    size = 4 if dtype.itemsize == 2 and dtype.kind in "fV" else dtype.itemsize
    return backend(level).target.lanes(8 * size)


def select_sum(tape: Tape, a: int, b: int) -> None:
    """out = a <= b ? a + b : b, and the condition."""
    dtype = tape.body[a].dtype
    total = tape.emit("add", dtype, (a, b))
    less = tape.emit("le", bool, (a, b))
    tape.store(tape.emit("where", dtype, (less, total, b)))
    tape.store(less)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_size(dtype: Dtype, level: str) -> None:
    tunings = [Tuning("elementwise", 0, -1, lanes(dtype, level), u) for u in (1, 2, 4, 0)]
    for n in SIZES:
        tape = Tape((n,))
        select_sum(tape, tape.load(dtype), tape.load(dtype))
        check(tape, tunings[: 2 if level else 4], seed=n, specials=True, level=level)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", ["?", "u1", "i2", "f2", "f4", "f8"])
@pytest.mark.parametrize("stride", [-1, 0, 2, 3, 4, 7, -3])
def test_strides(dtype: str, stride: int, level: str) -> None:
    kind = np.dtype(dtype)
    width = lanes(kind, level)
    for n in (1, 2, 5, 15, 16, 17, 33, 64, 65, 130, 300):
        tape = Tape((n,))
        select_sum(tape, tape.load(kind, (stride,)), tape.load(kind))
        plain = Tuning("elementwise", 0, -1, width, 2)
        check(tape, [plain, plain._replace(unroll=0), None], seed=n, level=level)
        if stride:
            tape = Tape((n,))
            tape.store(tape.emit("max", kind, (tape.load(kind), tape.load(kind))), (stride,))
            check(tape, [plain, plain._replace(unroll=0), None], seed=n, level=level)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", ["u1", "u2", "f4", "f8"])
@pytest.mark.parametrize("channels", [2, 3, 4])
def test_interleaved_channels_share_an_anchor(dtype: str, channels: int, level: str) -> None:
    for n in (1, 3, 16, 17, 63, 64, 65, 66, 200, 1023):
        tape = Tape((n,))
        pixels = tape.operand(dtype)
        first = tape.access(pixels, (channels,), 0)
        loads = [tape.emit("load", dtype, (), (first,))]
        for c in range(1, 2 * channels):  # the next pixel's channels too
            at = tape.access(pixels, (channels,), c, anchor=first)
            loads.append(tape.emit("load", dtype, (), (at,)))
        total = loads[0]
        for load in loads[1:]:
            total = tape.emit("add", dtype, (tape.emit("mul", dtype, (total, loads[0])), load))
        tape.store(total)
        check(tape, [None, Tuning("elementwise", 0, -1, 16, 0)], seed=n, level=level)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", ["?", "i1", "f2", "i4", "f4", "f8"])
def test_transposed_operand(dtype: str, level: str) -> None:
    width = lanes(np.dtype(dtype), level)
    for m, n in ((1, 1), (3, 100), (100, 3), (16, 64), (64, 64), (65, 130), (129, 127)):
        tape = Tape((m, n))
        select_sum(tape, tape.load(dtype), tape.load(dtype, (1, m)))
        packed = Tuning("elementwise", 1, 0, width, 2, packed=(1,))
        gathered = packed._replace(packed=())
        check(tape, [None, packed, packed._replace(unroll=0), gathered], seed=n, level=level)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", ["?", "u1", "i2", "f4", "f8"])
@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5])
def test_short_inner_axis(dtype: str, channels: int, level: str) -> None:
    """Pixels with weights for each channel, a mask for each pixel, and channels reversed."""
    for n in (1, 5, 16, 33, 64, 67, 300):
        tape = Tape((n, channels))
        pixels = tape.load(dtype)
        weighted = tape.emit("mul", dtype, (pixels, tape.load(dtype, (0, 1))))
        masked = tape.emit("where", dtype, (tape.load(bool, (1, 0)), weighted, pixels))
        backwards = tape.load(dtype, (channels, -1))
        tape.store(tape.emit("max", dtype, (masked, backwards)))
        tape.store(masked, (1, n))
        check(tape, seed=n, level=level)


def random_strides(tape: Tape, generator: np.random.Generator, writes: bool = False) -> tuple[int, ...]:
    """A walk over all axes in any order, with steps, reversals and, to read, broadcasts."""
    rank = len(tape.extents)
    strides = [0] * rank
    step = int(generator.choice([1, 1, 1, 2, 3, 4, 5]))
    for axis in generator.permutation(rank) if generator.random() < 0.4 else range(rank - 1, -1, -1):
        if not writes and generator.random() < 0.2:
            continue
        strides[axis] = step * int(generator.choice([1, 1, 1, -1]))
        step *= tape.extents[axis] + int(generator.integers(0, 3))
    return tuple(strides)


def random_kernel(generator: np.random.Generator) -> tuple[Tape, list[Any]]:
    """An elementwise kernel of any rank, layouts, mixed dtypes, several outputs, one perhaps in place."""
    rank = int(generator.integers(1, 5))
    most = {1: 300, 2: 70, 3: 20, 4: 9}[rank]
    tape = Tape([int(generator.integers(1, most)) for _ in range(rank)])
    dtype = DTYPES[generator.integers(0, len(DTYPES))]
    known = [tape.load(dtype, random_strides(tape, generator)) for _ in range(generator.integers(1, 4))]
    scalars = []
    if generator.random() < 0.5:
        known.append(tape.scalar(dtype))
        scalars.append(dtype.type(1))
    if generator.random() < 0.5:
        number = tape.emit("index", "i8", (), (int(generator.integers(0, rank)),))
        other = tape.load("u1", random_strides(tape, generator))
        mixed = tape.emit("add", "i8", (number, tape.emit("cast", "i8", (other,))))
        known.append(tape.emit("cast", dtype, (mixed,)))
    for _ in range(generator.integers(1, 8)):
        a, b = (known[k] for k in generator.integers(0, len(known), 2))
        op = str(generator.choice(["add", "mul", "max", "where"]))
        if op == "where":
            less = tape.emit("lt", bool, (a, b))
            known.append(tape.emit("where", dtype, (less, b, a)))
        else:
            known.append(tape.emit(op, dtype, (a, b)))
    tape.store(known[-1], random_strides(tape, generator, writes=True))
    if generator.random() < 0.4:
        tape.store(tape.emit("eq", bool, (known[0], known[-1])), random_strides(tape, generator, writes=True))
    if generator.random() < 0.3:  # in place: the same elements through the same walk
        own = tape.operand(dtype, output=True)
        at = tape.access(own, random_strides(tape, generator, writes=True))
        total = tape.emit("add", dtype, (tape.emit("load", dtype, (), (at,)), known[-1]))
        tape.emit("store", dtype, (total,), (at,))
    return tape, scalars


def any_tuning(tape: Tape, generator: np.random.Generator, level: str) -> Tuning:
    """A tuning that is right, if seldom good."""
    kernel = tape.kernel()
    rank = kernel.rank
    lane = int(generator.integers(0, rank))
    others = [k for k in range(rank) if k != lane]
    row = int(generator.choice(others)) if others else -1
    packed = [
        i.attrs[0]
        for i in kernel.body
        if i.op == "load"
        and row >= 0
        and kernel.accesses[i.attrs[0]].layout[row] == "1"
        and kernel.accesses[i.attrs[0]].layout[lane] == "n"
        and not kernel.operands[kernel.accesses[i.attrs[0]].operand].output
    ]
    streaming = [
        i.attrs[0] for i in kernel.body if i.op == "store" and kernel.accesses[i.attrs[0]].layout[lane] == "1"
    ]
    return Tuning(
        "elementwise",
        lane,
        row,
        int(generator.choice([8, 16, 32])),
        int(generator.choice([0, 1, 2])),
        packed=tuple(packed),
        streaming=tuple(streaming) if generator.random() < 0.3 else (),
    )


@pytest.mark.parametrize("seed", range(60))
def test_random_kernels(seed: int) -> None:
    generator = np.random.default_rng(seed)
    tape, scalars = random_kernel(generator)
    level = LEVELS[seed % len(LEVELS)]
    check(tape, [None, any_tuning(tape, generator, level)], scalars, seed=seed, level=level)
