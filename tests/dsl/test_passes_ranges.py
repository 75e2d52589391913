"""Intervals: what is said to be inside is, and what has to be proved is."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from random_kernels import BOOL, F32, I64, Case, KernelWriter, random_kernel

from pyasc.backend import structured as s
from pyasc.backend.structured.ranges import intervals, proven
from pyasc.backend.structured.reference import StructuredReference
from pyasc.backend.structured.verify import verify_structured


class Watched(StructuredReference):
    """Notes every integer value that occurs."""

    def __init__(self, case: Case) -> None:
        super().__init__(case.kernel, case.binding, case.copies(), case.scalars)
        self.least: dict[int, int] = {}
        self.greatest: dict[int, int] = {}

    def _let(self, frame: Any, let: s.Let, live: Any) -> Any:
        result = super()._let(frame, let, live)
        if let.dtype.kind in "biu" and len(result):
            low, high = int(result.min()), int(result.max())
            self.least[let.value] = min(low, self.least.get(let.value, low))
            self.greatest[let.value] = max(high, self.greatest.get(let.value, high))
        return result


def check(case: Case) -> None:
    watched = Watched(case)
    watched.run()
    known = {n: int(v) for n, v in enumerate(case.scalars) if case.kernel.scalars[n].kind in "iu"}
    for scalars in ({}, known):
        limits = intervals(case.kernel, case.binding, scalars)
        for value, low in watched.least.items():
            least, greatest = limits[value]
            inside = least <= low and watched.greatest[value] <= greatest
            assert inside, f"%{value}: {low} … {watched.greatest[value]}, not {limits[value]}\n{case.kernel}"
        safe = proven(case.kernel, case.binding, scalars)
        faulted = {code - 1 for _, code, _ in watched.faults}
        assert not safe & faulted, f"{safe & faulted}\n{case.kernel}"


@pytest.mark.parametrize("seed", range(60))
def test_intervals_hold_in_random_kernels(seed: int) -> None:
    check(random_kernel(seed, faults=seed % 2 == 0))


@pytest.mark.full
@pytest.mark.parametrize("start", range(1000, 5000, 200))
def test_intervals_hold_in_many_random_kernels(start: int) -> None:
    for seed in range(start, start + 200):
        check(random_kernel(seed, faults=seed % 2 == 0))


def zeros(*shape: int, dtype: Any = F32) -> Any:
    return np.zeros(shape, dtype)


def unproven(w: KernelWriter, scalars: dict[int, int] | None = None) -> set[int]:
    case = w.case()
    verify_structured(case.kernel)
    return set(range(len(w.sites))) - proven(case.kernel, case.binding, scalars)


def test_vector_add() -> None:
    w = KernelWriter((1000,))
    a, c = w.array(zeros(1000), reads=True), w.array(zeros(1000), writes=True)
    short = w.array(zeros(999), reads=True)
    i = w.id()
    w.store(c, (i,), w.let("add", F32, w.load(a, i), w.load(short, i)))
    assert unproven(w) == {1}


def sobel(height: int, width: int, apart: bool = False) -> KernelWriter:
    """With the guard ``0 < i < h - 1 and 0 < j < w - 1``, or as nested conditions."""
    w = KernelWriter((height, width))
    img = w.array(zeros(height, width), reads=True)
    out = w.array(zeros(height, width), writes=True)
    i, j = w.id(0), w.id(1)
    conditions = []
    for axis, index in enumerate((i, j)):
        conditions.append(w.compare("lt", w.number(0), index))
        conditions.append(w.compare("lt", index, w.sub(w.extent(img, axis), w.number(1))))

    def inside() -> None:
        total = w.const(0.0, F32)
        for di in (-1, 0, 1):
            for dj in (-1, 0, 1):
                row, column = w.add(i, w.number(di)), w.sub(j, w.number(dj))
                total = w.let("add", F32, total, w.load(img, row, column))
        w.store(out, (i, j), total)

    if apart:
        with w.when(w.both(*conditions[:2])), w.when(w.both(*conditions[2:])):
            inside()
    else:
        with w.when(w.both(*conditions)):
            inside()
    return w


@pytest.mark.parametrize("apart", (False, True))
def test_guarded_stencil(apart: bool) -> None:
    assert unproven(sobel(480, 640, apart)) == set()
    assert unproven(sobel(1, 1, apart)) == set()


def test_stencil_after_an_early_return() -> None:
    w = KernelWriter((40,))
    a, c = w.array(zeros(40), reads=True), w.array(zeros(40), writes=True)
    i = w.id()
    before = w.add(i, w.number(1))
    border = w.let("or", BOOL, w.compare("eq", i, w.number(0)), w.compare("le", w.number(39), i))
    w.put(s.If(border, (s.Return(),)))
    w.store(c, (i,), w.let("add", F32, w.load(a, w.sub(i, w.number(1))), w.load(a, before)))
    assert unproven(w) == set()


def test_product() -> None:
    w = KernelWriter((30, 20))
    a, b = w.array(zeros(30, 50), reads=True), w.array(zeros(50, 20), reads=True)
    c = w.array(zeros(30, 20), writes=True)
    i, j = w.id(0), w.id(1)
    total = w.variable(F32, w.const(0.0, F32))
    with w.loop(w.number(0), w.extent(a, 1)) as k:
        product = w.let("mul", F32, w.load(a, i, k), w.load(b, k, j))
        w.set(total, w.let("add", F32, w.get(total), product))
    w.store(c, (i, j), w.get(total))
    assert unproven(w) == set()


def test_clamped_indices_of_a_resize() -> None:
    """Source positions are computed in floats and clamped as integers."""
    w = KernelWriter((77, 133))
    image = w.array(zeros(50, 60), reads=True)
    out = w.array(zeros(77, 133), writes=True)
    ids = w.id(0), w.id(1)
    corners = []
    for axis, index in enumerate(ids):
        scale = w.scalar(0.5, "float32")
        half = w.const(0.5, F32)
        at = w.let("add", F32, w.let("cast", F32, index), half)
        at = w.let("sub", F32, w.let("mul", F32, at, scale), half)
        first = w.let("cast", I64, w.let("floor", F32, at))
        last = w.sub(w.extent(image, axis), w.number(1))
        clamped = w.max(w.min(first, last), w.number(0))
        corners.append((clamped, w.min(w.add(clamped, w.number(1)), last)))
    total = w.const(0.0, F32)
    for row in corners[0]:
        for column in corners[1]:
            total = w.let("add", F32, total, w.load(image, row, column))
    w.store(out, ids, total)
    assert unproven(w) == set()


def test_floats_that_are_clamped_before_they_are_cast() -> None:
    w = KernelWriter((64,))
    a, c = w.array(zeros(10), reads=True), w.array(zeros(64), writes=True)
    i = w.id()
    at = w.let("mul", F32, w.let("cast", F32, i), w.const(0.3, F32))
    at = w.let("min", F32, w.let("max", F32, at, w.const(0.0, F32)), w.const(9.0, F32))
    w.store(c, (i,), w.load(a, w.let("cast", I64, at)))
    assert unproven(w) == set()


@pytest.mark.parametrize("dtype", ("uint8", "int32"))
def test_histogram(dtype: str) -> None:
    """What is loaded may be anything; a byte is below 256."""
    w = KernelWriter((100,))
    a = w.array(zeros(100, dtype=dtype), reads=True)
    bins = w.array(zeros(256, dtype=np.int32), reads=True, writes=True)
    bin_ = w.let("cast", I64, w.load(a, w.id()))
    w.atomic("add", bins, (bin_,), w.const(1, np.dtype(np.int32)))
    assert unproven(w) == (set() if dtype == "uint8" else {1})


def test_a_while_loop_that_counts() -> None:
    w = KernelWriter((4,))
    a, c = w.array(zeros(12), reads=True), w.array(zeros(4), writes=True)
    k, total = w.variable(I64, w.number(0)), w.variable(F32, w.const(0.0, F32))
    with w.block() as head:
        condition = w.compare("lt", w.get(k), w.extent(a, 0))
    with w.block() as body:
        w.set(total, w.let("add", F32, w.get(total), w.load(a, w.get(k))))
        w.set(k, w.add(w.get(k), w.number(2)))
    w.put(s.While(tuple(head), condition, tuple(body)))
    w.store(c, (w.id(),), w.get(total))
    assert unproven(w) == set()


def test_binary_search() -> None:
    w = KernelWriter((50,))
    keys, c = w.array(zeros(99), reads=True), w.array(zeros(50, dtype=np.int64), writes=True)
    low, high = w.variable(I64, w.number(0)), w.variable(I64, w.extent(keys, 0))
    with w.block() as head:
        condition = w.compare("lt", w.get(low), w.get(high))
    with w.block() as body:
        middle = w.let("floor_divide", I64, w.add(w.get(low), w.get(high)), w.number(2))
        less = w.compare("lt", w.load(keys, middle), w.const(3.0, F32))
        with w.block() as then:
            w.set(low, w.add(middle, w.number(1)))
        with w.block() as other:
            w.set(high, middle)
        w.put(s.If(less, tuple(then), tuple(other)))
    w.put(s.While(tuple(head), condition, tuple(body)))
    w.store(c, (w.id(),), w.get(low))
    assert unproven(w) == set()


def test_a_guard_before_a_load_in_one_condition() -> None:
    """``while k >= 0 and a[k] < 0: k -= 1``, the second condition in a branch of the first."""
    w = KernelWriter((4,))
    a, c = w.array(zeros(12), reads=True), w.array(zeros(4), writes=True)
    k, both = w.variable(I64, w.sub(w.extent(a, 0), w.number(1))), w.variable(BOOL)
    with w.block() as head:
        now = w.get(k)
        w.set(both, w.compare("le", w.number(0), now))
        with w.when(w.get(both)):
            w.set(both, w.compare("lt", w.load(a, now), w.const(0.0, F32)))
        condition = w.get(both)
    with w.block() as body:
        w.store(c, (w.id(),), w.load(a, now))
        w.set(k, w.sub(now, w.number(1)))
    w.put(s.While(tuple(head), condition, tuple(body)))
    assert unproven(w) == set()


def test_where_is_each_where_its_condition_lets_it_be() -> None:
    w = KernelWriter((20,))
    a, c = w.array(zeros(18), reads=True), w.array(zeros(20), writes=True)
    i = w.id()
    far = w.sub(i, w.number(2))
    index = w.let("where", I64, w.compare("lt", far, w.number(0)), w.number(0), far)
    w.store(c, (i,), w.load(a, index))
    assert unproven(w) == set()


def test_known_scalars() -> None:
    w = KernelWriter((20,))
    a, c = w.array(zeros(10), reads=True), w.array(zeros(20), writes=True)
    i, n = w.id(), w.scalar(10, "int64")
    with w.when(w.compare("lt", i, n)):
        w.store(c, (i,), w.load(a, i))
    assert unproven(w) == {0}
    assert unproven(w, {0: 10}) == set()
    assert unproven(w, {0: 11}) == {0}


def test_intervals_of_sums_that_wrap() -> None:
    w = KernelWriter((200,))
    byte = w.let("cast", np.dtype(np.uint8), w.id())
    both = w.let("add", np.dtype(np.uint8), byte, byte)
    c = w.array(zeros(200, dtype=np.uint8), writes=True)
    w.store(c, (w.id(),), both)
    case = w.case()
    assert intervals(case.kernel, case.binding)[byte] == (0, 199)
    assert intervals(case.kernel, case.binding)[both] == (0, 255)
    check(case)


def test_a_plain_kernel_takes_a_moment() -> None:
    case = sobel(480, 640).case()
    proven(case.kernel, case.binding)
    best = min(timed(case) for _ in range(20))
    assert best < 3e-3, f"{best * 1e3:.2f} ms"


def timed(case: Case) -> float:
    start = time.perf_counter()
    proven(case.kernel, case.binding)
    return time.perf_counter() - start
