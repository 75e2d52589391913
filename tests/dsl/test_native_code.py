"""Structured kernels as native code, against the reference interpreter and NumPy."""

from __future__ import annotations

import ctypes
import ctypes.util
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from random_kernels import BOOL, DTYPES, F32, I64, Array, Case, KernelWriter, assert_same, random_kernel

from pyasc.backend import _runtime
from pyasc.backend import structured as s
from pyasc.backend.cpu.backend import CPU
from pyasc.backend.cpu.structured import StructuredTuning

cpu = CPU()
I32 = np.dtype(np.int32)


class Reported(Exception):
    """A fault: its code and value."""


@contextmanager
def faults_raise() -> Iterator[None]:
    before = _runtime.set_fault_handler(lambda label, code, value: Reported(code, value))
    try:
        yield
    finally:
        _runtime.set_fault_handler(before)


def words(case: Case, scalars: Sequence[tuple[bool, int]]) -> bytes:
    """The bits of the scalar arguments, each in eight bytes."""
    pieces = []
    for held, number in scalars:
        value, dtype = (number, I64) if held else (case.scalars[number], case.kernel.scalars[number])
        pieces.append(np.array([value], dtype).tobytes().ljust(8, b"\0"))
    return b"".join(pieces)


def run(case: Case, again: bool = False, **changes: Any) -> list[Array]:
    """The buffers after a launch by the executor; `again` with code that was loaded from its bytes."""
    buffers = case.copies()
    for part in cpu.parts(case.kernel, case.binding):
        tuning = cpu.tune(part.kernel, part.binding)
        assert isinstance(tuning, StructuredTuning)
        tuning = tuning._replace(**changes)
        executable, code = cpu.compile(part.kernel, tuning)
        if again:
            executable = cpu.load(part.kernel, tuning, code)
        assert executable.fits(part.binding)
        launch = executable.bind(part.binding)
        program = _runtime.Program(len(buffers), len(buffers), [])
        program.launch(
            [(p.function, p.units, p.grain) for p in launch.phases],
            [(part.operands[n], offset) for n, offset in launch.pointers],
            list(launch.integers),
            list(range(len(part.scalars))),
            launch.scratch,
            launch.thread_scratch,
            0,
        )
        with faults_raise():
            program.run([_runtime.wrap(b) for b in buffers], words(case, part.scalars))
    return buffers


def check(case: Case, **changes: Any) -> None:
    """The bits of the reference interpreter, or one of the faults that it finds."""
    expected, faults = case.expected()
    try:
        given = run(case, **changes)
    except Reported as report:
        assert report.args in faults, case.kernel
    else:
        assert not faults, case.kernel
        assert_same(given, expected, case.kernel)


@pytest.mark.parametrize("seed", range(24))
def test_random_kernels(seed: int) -> None:
    changes: dict[str, Any] = [{}, {"lanes": 1}, {"lanes": 4}, {"proven": ()}][seed % 4]
    check(random_kernel(seed, faults=seed % 5 == 0), **changes)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(100, 500))
def test_more_random_kernels(seed: int) -> None:
    changes: dict[str, Any] = [{}, {"lanes": 1}, {"lanes": 4}, {"proven": ()}][seed % 4]
    check(random_kernel(seed, faults=seed % 5 == 0), **changes)


def test_kernels_from_their_bytes_give_the_same_bits() -> None:
    for seed in (3, 8):
        case = random_kernel(seed)
        assert_same(run(case, again=True), run(case))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("strides", [(1, 1), (2, 3), (0, 1), (1, 2)], ids=str)
def test_every_size_and_stride(dtype: np.dtype[Any], strides: tuple[int, int]) -> None:
    """One kernel for each layout serves every size."""
    compiled: dict[Any, Any] = {}
    for n in (*range(1, 34), 63, 64, 65, 257):
        w = KernelWriter((n,))
        values = (np.arange(n) % 13 - 3).astype(dtype)
        if strides[0] == 0:
            values[:] = values[0]
        a = w.array(values, reads=True, strides=(strides[0],))
        b = w.array(np.zeros(n, dtype), writes=True, strides=(strides[1],), offset=2)
        i = w.id()
        x = w.load(a, i)
        w.store(b, [i], w.let("add", dtype, x, x))
        case = w.case()
        tuning = cpu.tune(case.kernel, case.binding)
        executable = compiled.get((case.kernel.key, tuning))
        if executable is None:
            executable = compiled[case.kernel.key, tuning] = cpu.compile(case.kernel, tuning)[0]
        buffers = case.copies()
        launch = executable.bind(case.binding)
        program = _runtime.Program(2, 2, [])
        phases = [(p.function, p.units, p.grain) for p in launch.phases]
        program.launch(phases, list(launch.pointers), list(launch.integers), [], 0, 0, 0)
        program.run([_runtime.wrap(x) for x in buffers], b"")
        assert_same(buffers, case.expected()[0], f"{n} {strides}")
    assert len({key for key, _ in compiled}) <= 2  # a single element has another layout


def neighbours(n: int, shift: int, step: int = 1, first: int = 0) -> Case:
    """``b[i] = a[first + step * i + shift]`` wherever that is inside."""
    w = KernelWriter((n,))
    a = w.array(np.arange(3 * n, dtype=np.float32), reads=True)
    b = w.array(np.full(n, -1, np.float32), writes=True)
    i = w.id()
    at = w.add(w.mul(i, w.number(step)), w.number(first + shift))
    inside = w.both(w.compare("le", w.number(0), at), w.compare("lt", at, w.extent(a, 0)))
    with w.when(inside):
        w.store(b, [i], w.load(a, at))
    return w.case()


@pytest.mark.parametrize("step, first", [(1, 0), (-1, 60), (2, 0), (3, 5), (-2, 100)])
@pytest.mark.parametrize("shift", [-3, 0, 40])
def test_conditions_on_the_index(step: int, first: int, shift: int) -> None:
    for n in (1, 7, 16, 33, 64):
        check(neighbours(n, shift, step, first))
    check(neighbours(50, shift, step, first), proven=())


def test_gather_and_scatter() -> None:
    n = 1000
    order = np.random.default_rng(0).permutation(n)
    for dtype in DTYPES:
        w = KernelWriter((n,))
        index = w.array(order, reads=True)
        a = w.array((np.arange(n) % 100).astype(dtype), reads=True)
        b, c = (w.array(np.zeros(n, dtype), writes=True) for _ in range(2))
        i = w.id()
        at = w.load(index, i)
        w.store(b, [i], w.load(a, at))
        w.store(c, [at], w.load(a, i))
        case = w.case()
        given = run(case)
        source = case.buffers[1]
        np.testing.assert_array_equal(given[2], source[order])
        np.testing.assert_array_equal(given[3][order], source)


def escape(n: int, most: int) -> Case:
    """How often z -> z**2 + c stays within 2: each lane leaves the loop by itself."""
    w = KernelWriter((n, n))
    out = w.array(np.zeros((n, n), np.int32), writes=True)
    y, x = (w.let("mul", F32, w.cast(w.id(k), I64, F32), w.const(4 / n, F32)) for k in (0, 1))
    cx, cy = w.let("sub", F32, x, w.const(2.5, F32)), w.let("sub", F32, y, w.const(2.0, F32))
    zero = w.const(0.0, F32)
    zx, zy = w.variable(F32, zero), w.variable(F32, zero)
    turns = w.variable(I32, w.const(0, I32))
    with w.loop(w.number(0), w.number(most)):
        a, b = w.get(zx), w.get(zy)
        aa, bb = w.let("mul", F32, a, a), w.let("mul", F32, b, b)
        with w.when(w.compare("lt", w.const(4.0, F32), w.let("add", F32, aa, bb))):
            w.put(s.Break())
        w.set(zy, w.let("add", F32, w.let("mul", F32, w.let("add", F32, a, a), b), cy))
        w.set(zx, w.let("add", F32, w.let("sub", F32, aa, bb), cx))
        w.set(turns, w.let("add", I32, w.get(turns), w.const(1, I32)))
    w.store(out, [w.id(0), w.id(1)], w.get(turns))
    return w.case()


def test_lanes_leave_a_loop_one_by_one() -> None:
    n, most = 40, 50
    y, x = np.meshgrid(*[np.arange(n, dtype=np.float32) * np.float32(4 / n)] * 2, indexing="ij")
    cx, cy = x - np.float32(2.5), y - np.float32(2)
    zx, zy, turns = np.zeros_like(cx), np.zeros_like(cx), np.zeros((n, n), np.int32)
    for _ in range(most):
        live = zx * zx + zy * zy <= 4
        zx, zy = (
            np.where(live, zx * zx - zy * zy + cx, zx),
            np.where(live, (zx + zx) * zy + cy, zy),
        )
        turns += live
    np.testing.assert_array_equal(run(escape(n, most))[0].reshape(n, n), turns)


def test_threads_that_return_early_write_nothing() -> None:
    for n in (1, 16, 50):
        w = KernelWriter((64,))
        a = w.array(np.arange(n, dtype=np.float32), reads=True)
        b = w.array(np.full(n, -1, np.float32), writes=True)
        i = w.id()
        with w.when(w.compare("le", w.extent(a, 0), i)):
            w.put(s.Return())
        w.store(b, [i], w.load(a, i))
        case = w.case()
        assert set(cpu.tune(case.kernel, case.binding).proven) >= {0, 1}
        np.testing.assert_array_equal(run(case)[1], case.buffers[0])
        np.testing.assert_array_equal(run(case, proven=())[1], case.buffers[0])


def test_an_index_outside_is_reported_and_touches_nothing() -> None:
    for number in (1, 3):
        w = KernelWriter((20,))
        a = w.array(np.arange(20, dtype=np.int64) * number, reads=True)
        b = w.array(np.full(20, -1, np.int64), writes=True)
        i = w.id()
        w.store(b, [w.load(a, i)], i)
        case = w.case()
        if number == 1:
            np.testing.assert_array_equal(run(case)[1], np.arange(20))
            continue
        with pytest.raises(Reported) as report:
            run(case)
        assert report.value.args == (2, 21)


def test_code_without_checks_fits_no_size_that_needs_them() -> None:
    def case(size: int) -> Case:
        w = KernelWriter((100,))
        a = w.array(np.zeros(size, np.float32), reads=True)
        b = w.array(np.zeros(100, np.float32), writes=True)
        w.store(b, [w.id()], w.load(a, w.id()))
        return w.case()

    large, small = case(110), case(99)
    tuning = cpu.tune(large.kernel, large.binding)
    executable, _ = cpu.compile(large.kernel, tuning)
    assert executable.fits(large.binding)
    assert not executable.fits(small.binding)
    assert cpu.tune(small.kernel, small.binding) != tuning
    with pytest.raises(ValueError, match="tuned"):
        executable.bind(small.binding)


def histogram(values: Array, bins: int, how: str, dtype: np.dtype[Any], what: Any = 1) -> Case:
    w = KernelWriter((len(values),))
    a = w.array(values, reads=True)
    start = np.zeros(bins, dtype)
    b = w.array(start, reads=True, writes=True)
    x = w.load(a, w.id())
    value = w.cast(w.id(), I64, dtype) if what is None else w.const(what, dtype)
    w.atomic(how, b, [x], value)
    return w.case()


@pytest.mark.parametrize("bins", [7, 40000])  # of which each piece of the work has a copy, and not
@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8", "float32", "float64"])
def test_atomic_updates(bins: int, dtype: str) -> None:
    of = np.dtype(dtype)
    values = np.random.default_rng(1).integers(0, bins, 50000)
    case = histogram(values, bins, "add", of)
    assert bool(cpu.tune(case.kernel, case.binding).private) == (bins * of.itemsize <= 1 << 16)
    expected = np.bincount(values, minlength=bins).astype(of)
    for changes in ({}, {"lanes": 1}, {"lanes": 8}):
        np.testing.assert_array_equal(run(case, **changes)[1], expected)
    greatest = np.zeros(bins, of)
    np.maximum.at(greatest, values, np.arange(50000).astype(of))
    np.testing.assert_array_equal(run(histogram(values, bins, "max", of, None))[1], greatest)


def test_sums_of_floats_do_not_depend_on_the_number_of_threads() -> None:
    values = np.random.default_rng(2).integers(0, 9, 100000)
    case = histogram(values, 9, "add", F32, 0.1)
    threads = _runtime.threads()
    try:
        results = []
        for count in (1, 3, 7):
            _runtime.set_threads(count)
            results.append(run(case)[1])
    finally:
        _runtime.set_threads(threads)
    assert_same(results[1:], [results[0]] * 2)


def test_what_an_atomic_update_found() -> None:
    """Every ticket is drawn once."""
    for n in (1, 5, 100):
        w = KernelWriter((n,))
        counter = w.array(np.zeros(1, np.int64), reads=True, writes=True)
        tickets = w.array(np.zeros(n, np.int64), writes=True)
        drawn = w.fresh()
        w.put(s.Atomic("add", counter, (w.number(0),), w.number(1), w.site(counter), drawn))
        w.store(tickets, [w.id()], drawn)
        given = run(w.case())
        assert given[0][0] == n
        np.testing.assert_array_equal(np.sort(given[1]), np.arange(n))


def test_plain_code_has_no_vectors() -> None:
    case = neighbours(100, 0)
    case = replace(case, kernel=replace(case.kernel, optimize=False))
    tuning = cpu.tune(case.kernel, case.binding)
    assert tuning.lanes == 1
    assert " x float>" not in cpu.compile(case.kernel, tuning)[0].source("llvm")
    check(case)


def test_fast_math_contracts() -> None:
    w = KernelWriter((50,))
    a = w.array(np.linspace(0, 1, 50, dtype=np.float32), reads=True)
    b = w.array(np.zeros(50, np.float32), writes=True)
    x = w.load(a, w.id())
    w.store(b, [w.id()], w.let("add", F32, w.let("mul", F32, x, x), x))
    case = w.case()
    exact, fast = (cpu.tune(case.kernel, case.binding, f) for f in (False, True))
    assert "contract" not in cpu.compile(case.kernel, exact)[0].source("llvm")
    assert "contract" in cpu.compile(case.kernel, fast)[0].source("llvm")
    np.testing.assert_allclose(run(case, contract=True)[1], run(case)[1], rtol=1e-6)


def address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


@pytest.mark.parametrize("uniform", [False, True])
def test_calls_of_c_functions(uniform: bool) -> None:
    kinds = (ctypes.c_float, ctypes.c_float, ctypes.c_int8, ctypes.c_bool)
    make: Callable[..., Any] = ctypes.CFUNCTYPE(*kinds)
    called = make(lambda x, n, flag: x + n if flag else -x)
    int8 = np.dtype(np.int8)
    function = s.Foreign("f", F32, (F32, int8, BOOL), address=address(called))
    for n in (1, 16, 37):
        w = KernelWriter((n,))
        a = w.array(np.arange(n, dtype=np.float32), reads=True)
        b = w.array(np.full(n, 100, np.float32), writes=True)
        i = w.id()
        x = w.const(2.5, F32) if uniform else w.load(a, i)
        small = w.const(-7, int8) if uniform else w.cast(i, I64, int8)
        flag = w.compare("lt", x, w.const(9.0, F32))
        with w.when(w.compare("ne", i, w.number(3))):
            w.store(b, [i], w.let("call", F32, x, small, flag, attrs=(0,)))
        case = w.case()
        case = replace(case, kernel=replace(case.kernel, functions=(function,)))
        k = np.arange(n, dtype=np.float32)
        expected = np.full(n, -4.5, np.float32) if uniform else np.where(k < 9, k + k, -k)
        expected[3:4] = 100
        np.testing.assert_array_equal(run(case)[1], expected)


def test_lanes_go_along_what_lies_together() -> None:
    """The transpose of the output decides, not the last axis of the grid."""
    w = KernelWriter((40, 50))
    a = w.array(np.ones((50, 40), np.float32), reads=True)
    b = w.array(np.zeros((50, 40), np.float32), writes=True)
    i, j = w.id(0), w.id(1)
    w.store(b, [j, i], w.load(a, j, i))
    case = w.case()
    assert cpu.tune(case.kernel, case.binding).lane == 0
    check(case)


@pytest.mark.parametrize("pitch", [60, 64])
def test_axes_of_the_grid_are_merged_where_memory_goes_on(pitch: int) -> None:
    """Rows of pixels of three channels, with a gap behind each row or none."""
    w = KernelWriter((7, 20, 3))
    values = np.arange(420, dtype=np.float32).reshape(7, 20, 3)
    a = w.array(values, reads=True, strides=(pitch, 3, 1))
    b = w.array(np.zeros((7, 20, 3), np.float32), writes=True)
    at = [w.id(k) for k in range(3)]
    w.store(b, at, w.let("add", F32, w.load(a, *at), w.const(1.0, F32)))
    case = w.case()
    (part,) = cpu.parts(case.kernel, case.binding)
    assert part.binding.grid == ((420,) if pitch == 60 else (7, 60))
    check(case)


def test_axes_whose_positions_count_are_not_merged() -> None:
    """One index is used by itself, one array is larger than the grid, one is indexed the other way round."""
    for what in range(3):
        w = KernelWriter((6, 5))
        i, j = w.id(0), w.id(1)
        a = w.array(np.arange(36 if what == 1 else 30, dtype=np.int64).reshape(6, -1), reads=True)
        b = w.array(np.zeros((5, 6) if what == 2 else (6, 5), np.int64), writes=True)
        x = w.load(a, i, j)
        w.store(b, [j, i] if what == 2 else [i, j], w.add(x, j) if what == 0 else x)
        case = w.case()
        assert cpu.parts(case.kernel, case.binding)[0].kernel is case.kernel
        check(case)


def test_parts_of_kernels_that_share_memory() -> None:
    case = random_kernel(1, barriers=True)
    (part,) = cpu.parts(case.kernel, case.binding)
    assert part.backend is cpu
    assert part.operands == tuple(range(len(case.kernel.arrays)))
    assert [held for held, _ in part.scalars].count(False) == len(case.kernel.scalars)
    assert cpu.parts(case.kernel, case.binding)[0].kernel is part.kernel
