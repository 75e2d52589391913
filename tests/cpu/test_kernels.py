"""Elementwise loop nests against the NumPy meaning: dtypes × sizes × layouts × tunings."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from kernel_tape import Tape, backend, check, compiled, launch

from pyasc.backend.cpu.tuning import Tuning

Dtype = np.dtype[Any]
DTYPES = [np.dtype(d) for d in "?bBhHiIqQefd"] + [np.dtype(ml_dtypes.bfloat16)]
SIZES = [*range(1, 34), 63, 64, 65, 127, 129, 255, 257, 1023]
# The host's own instructions, and older ones that it can run: no masks, fewer lanes.
LEVELS = ["", "x86-64", "haswell"] if backend().target.architecture == "x86_64" else [""]


def on_levels(*dtypes: Any) -> pytest.MarkDecorator:
    """All the dtypes on the host's own instructions, bytes and float32 also on the older ones."""
    pairs = [(np.dtype(d), "") for d in dtypes]
    pairs += [(np.dtype(d), level) for level in LEVELS[1:] for d in ("u1", "f4")]
    return pytest.mark.parametrize("dtype, level", pairs, ids=lambda v: str(v) or "host")


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


@on_levels(*DTYPES)
def test_every_size(dtype: Dtype, level: str) -> None:
    plain = Tuning("elementwise", 0, -1, lanes(dtype, level))
    tunings = [plain._replace(unroll=u) for u in (1, 2, 4)] + [plain._replace(unroll=2, masked=True)]
    for n in SIZES:
        tape = Tape((n,))
        select_sum(tape, tape.load(dtype), tape.load(dtype))
        check(tape, tunings[: 2 if level else 4], seed=n, specials=True, level=level)


@on_levels("?", "u1", "i2", "f2", "f4", "f8")
@pytest.mark.parametrize("stride", [-1, 0, 2, 3, 4, 7, -3])
def test_strides(dtype: Dtype, stride: int, level: str) -> None:
    width = lanes(dtype, level)
    for n in (1, 2, 5, 15, 16, 17, 33, 64, 65, 130, 300):
        tape = Tape((n,))
        select_sum(tape, tape.load(dtype, (stride,)), tape.load(dtype))
        plain = Tuning("elementwise", 0, -1, width, 2)
        check(tape, [plain, plain._replace(masked=True), None], seed=n, level=level)
        if stride:
            tape = Tape((n,))
            tape.store(tape.emit("max", dtype, (tape.load(dtype), tape.load(dtype))), (stride,))
            check(tape, [plain, plain._replace(masked=True), None], seed=n, level=level)


@on_levels("u1", "u2", "f4", "f8")
@pytest.mark.parametrize("channels", [2, 3, 4])
def test_interleaved_channels_share_an_anchor(dtype: Dtype, channels: int, level: str) -> None:
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
        check(tape, [None, Tuning("elementwise", 0, -1, 16, 1, masked=True)], seed=n, level=level)


@on_levels("?", "i1", "f2", "i4", "f4", "f8")
def test_transposed_operand(dtype: Dtype, level: str) -> None:
    width = lanes(dtype, level)
    for m, n in ((1, 1), (3, 100), (100, 3), (16, 64), (64, 64), (65, 130), (129, 127)):
        tape = Tape((m, n))
        select_sum(tape, tape.load(dtype), tape.load(dtype, (1, m)))
        packed = Tuning("elementwise", 1, 0, width, 2, packed=(1,))
        gathered = packed._replace(packed=())
        check(tape, [None, packed, packed._replace(masked=True), gathered], seed=n, level=level)


@on_levels("?", "u1", "i2", "f4", "f8")
@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5])
def test_short_inner_axis(dtype: Dtype, channels: int, level: str) -> None:
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
        int(generator.choice([1, 2])),
        bool(generator.random() < 0.3),
        packed=tuple(packed),
        streaming=tuple(streaming) if generator.random() < 0.3 else (),
    )


@pytest.mark.parametrize("seed", range(60))
def test_random_kernels(seed: int) -> None:
    generator = np.random.default_rng(seed)
    tape, scalars = random_kernel(generator)
    level = LEVELS[seed % len(LEVELS)]
    check(tape, [None, any_tuning(tape, generator, level)], scalars, seed=seed, level=level)


# --- gathers, positions, stores at several depths ------------------------------------------------------


@on_levels("?", "i2", "f4", "f8")
def test_gather(dtype: Dtype, level: str) -> None:
    generator = np.random.default_rng(0)
    for m, n in ((1, 1), (3, 17), (40, 33), (2, 300)):
        tape = Tape((m, n))
        table = tape.operand(dtype)
        tape.sizes[table] = 500
        at = tape.access(table, (0, 0), 100)
        anywhere = tape.load("i8")  # each lane elsewhere
        rows = tape.load("i8", (1, 0))  # one place for each row
        column = tape.emit("index", "i8", (), (1,))
        row_start = tape.emit("mul", "i8", (rows, tape.scalar("i8")))
        along = tape.emit("add", "i8", (row_start, column))  # neighbours from a place on
        gathers = [tape.emit("gather", dtype, (i,), (at,)) for i in (anywhere, rows, along)]
        total = tape.emit("max", dtype, (tape.emit("max", dtype, gathers[:2]), gathers[2]))
        tape.store(total)
        indices = {1: generator.integers(0, 400, m * n), 2: generator.integers(0, 100, m)}
        plain = Tuning("elementwise", 1, 0, lanes(dtype, level), 2)
        tunings = [None, plain, plain._replace(masked=True), plain._replace(lane=0, row=1)]
        check(tape, tunings, [1], inputs=indices, level=level)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("n", [1, 5, 16, 37, 1000])
def test_index_fault(n: int, level: str) -> None:
    tape = Tape((n,))
    index, size = tape.load("i8"), tape.scalar("i8")
    table = tape.operand("f4")
    tape.sizes[table] = 50
    wrapped = tape.emit("wrap_index", "i8", (index, size))
    tape.store(tape.emit("gather", "f4", (wrapped,), (tape.access(table, (0,), 0),)))
    good = np.random.default_rng(n).integers(-50, 50, n)
    check(tape, scalars=[50], inputs={0: good}, level=level)
    kernel, binding = tape.kernel(), tape.binding()
    executable = compiled(backend(level), kernel, backend(level).tune(kernel, binding))
    for value in (50, -51, 2**62, -(2**63)):
        bad = good.copy()
        bad[n // 2] = value
        buffers = [bad, np.zeros(50, np.float32), np.zeros(n, np.float32)]
        code, at_fault = launch(executable, binding, buffers, [50])
        assert code != 0 and at_fault == value


def test_store_at_outer_depths() -> None:
    """Values that do not vary along an axis are written once for it."""
    tape = Tape((5, 7, 300))
    a, b, c = (tape.load("f4", s) for s in ((1, 0, 0), (7, 1, 0), (0, 0, 1)))
    for value, strides in ((a, (1, 0, 0)), (b, (7, 1, 0)), (c, (0, 0, 1)), (tape.scalar("f4"), (0, 0, 0))):
        tape.store(tape.emit("mul", "f4", (value, value)), strides)
    tape.store(tape.emit("add", "f4", (tape.emit("add", "f4", (a, b)), c)))
    every = [Tuning("elementwise", lane, row, 16, 2) for lane in range(3) for row in range(3) if row != lane]
    check(tape, [None, *every], [3.0])


def test_no_axes() -> None:
    tape = Tape(())
    tape.store(tape.emit("add", "f4", (tape.load("f4"), tape.scalar("f4"))))
    check(tape, scalars=[2.5])


def test_streaming_stores_of_any_alignment() -> None:
    for n in (1, 15, 16, 100, 1023):
        for first, second in ((0, 0), (1, 1), (3, 5), (15, 0)):
            tape = Tape((3, n))
            x = tape.load("f4")
            for start, dtype in ((first, "f4"), (second, "u1")):
                value = x if dtype == "f4" else tape.emit("cast", dtype, (x,))
                at = tape.access(tape.operand(dtype, output=True), (n + 1, 1), start)
                tape.emit("store", dtype, (value,), (at,))
            check(tape, [Tuning("elementwise", 1, 0, 16, u, streaming=(1, 2)) for u in (1, 2)], seed=n)


# --- what a backend promises ------------------------------------------------------------------------------


def test_code_is_restored_and_refused() -> None:
    tape = Tape((100,))
    tape.store(tape.emit("exp", "f4", (tape.load("f4"),)))
    kernel, binding = tape.kernel(), tape.binding()
    cpu = backend()
    tuning = cpu.tune(kernel, binding)
    executable, code = cpu.compile(kernel, tuning)
    restored = cpu.load(kernel, tuning, code)
    x = np.linspace(-5, 5, 100, dtype=np.float32)
    results = [np.zeros_like(x), np.zeros_like(x)]
    for made, result in zip((executable, restored), results, strict=True):
        launch(made, binding, [x, result])
    np.testing.assert_array_equal(*results)
    other = Tape((100,), 1)
    other.store(other.emit("reduce", "f4", (other.load("f4"),), ("add",)), other.outer())
    split = Tuning("rows", 1, 0, 16, 1, split=1)
    for damaged in (b"", b"\x7fELF", code[: len(code) // 2], bytes(len(code))):
        with pytest.raises(ValueError):
            cpu.load(kernel, tuning, damaged)
    with pytest.raises(ValueError):
        cpu.load(other.kernel(), split, code)


def test_promises_are_checked() -> None:
    def picture(step: int, channels: int) -> Tape:
        tape = Tape((50, channels))
        tape.store(
            tape.emit("add", "u1", (tape.load("u1", (step * channels, step)), tape.load("u1", (0, 1))))
        )
        return tape

    cpu = backend()
    tape = picture(2, 3)
    executable, _ = cpu.compile(tape.kernel(), cpu.tune(tape.kernel(), tape.binding()))
    assert executable.fits(tape.binding())
    for other in (picture(3, 3), picture(2, 4)):
        assert other.kernel().key == tape.kernel().key
        assert not executable.fits(other.binding())
        with pytest.raises(ValueError):
            executable.bind(other.binding())


def test_fast_math_contracts() -> None:
    tape = Tape((100,))
    product = tape.emit("mul", "f4", (tape.load("f4"), tape.load("f4")))
    tape.store(tape.emit("add", "f4", (product, tape.load("f4"))))
    kernel, binding = tape.kernel(), tape.binding()
    cpu = type(backend())()
    exact, _ = cpu.compile(kernel, cpu.tune(kernel, binding))
    fast, _ = cpu.compile(kernel, cpu.tune(kernel, binding, fast_math=True))
    assert "contract" in fast.source("llvm") and "contract" not in exact.source("llvm")


@pytest.mark.parametrize(
    "triple, cpu, wanted",
    [
        ("aarch64-unknown-linux-gnu", "tsv110", ["fmul\tv", ".4s", "ldp\tq|ldr\tq"]),
        ("x86_64-unknown-linux-gnu", "haswell", ["vmulps", "%ymm"]),
        ("x86_64-unknown-linux-gnu", "x86-64", ["mulps", "%xmm"]),
        ("x86_64-unknown-linux-gnu", "skylake-avx512", ["vmulps", "%zmm", "{%k1}"]),
    ],
)
def test_assembly_for_other_processors(triple: str, cpu: str, wanted: list[str]) -> None:
    from pyasc.backend.cpu.backend import CPU
    from pyasc.backend.cpu.target import Target

    other = CPU(Target.for_triple(triple, cpu))
    for reduced in (0, 1):
        tape = Tape((40, 1000), reduced)
        product = tape.emit("mul", "f4", (tape.load("f4"), tape.load("f4", (0, 1))))
        if reduced:
            tape.store(tape.emit("reduce", "f4", (product,), ("add",)), tape.outer())
        else:
            tape.store(tape.emit("exp", "f4", (product,)))
        kernel = tape.kernel()
        assembly = other.assembly(kernel, other.tune(kernel, tape.binding()))
        for pattern in wanted:
            assert any(p in assembly for p in pattern.split("|")), pattern
