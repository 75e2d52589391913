"""The passes over structured kernels: what they write gives what was given."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from random_kernels import F32, I64, Case, KernelWriter, assert_same, random_kernel

from pyasc.backend import structured as s
from pyasc.backend.structured.barriers import meets, regions, regions_binding
from pyasc.backend.structured.format import format_structured
from pyasc.backend.structured.reference import StructuredReference, run
from pyasc.backend.structured.rewrite import without_dead
from pyasc.backend.structured.uniform import uniform
from pyasc.backend.structured.verify import verify_structured, verify_structured_binding
from pyasc.backend.verify import InvalidKernel


class Watched(StructuredReference):
    """Holds `uniform` to its word."""

    def __init__(self, case: Case) -> None:
        super().__init__(case.kernel, case.binding, case.copies(), case.scalars)
        self.same = uniform(case.kernel)

    def _let(self, frame: Any, let: s.Let, live: Any) -> Any:
        result = super()._let(frame, let, live)
        if let.value in self.same:
            _, first, where = np.unique(self.block_of[live], return_index=True, return_inverse=True)
            other = result[first][where]
            assert np.all((result == other) | ((result != result) & (other != other))), (
                f"%{let.value} differs"
            )
        return result


def check(case: Case) -> None:
    verify_structured(case.kernel)
    verify_structured_binding(case.kernel, case.binding, [len(b) for b in case.buffers])
    Watched(case).run()
    expected, faults = case.expected()
    binding, held = regions_binding(case.kernel, case.binding)
    smaller = replace(case.kernel, body=without_dead(case.kernel.body))
    for kernel, sizes, scalars in (
        (smaller, case.binding, case.scalars),
        (regions(case.kernel), binding, [*case.scalars, *held]),
    ):
        verify_structured(kernel)
        verify_structured_binding(kernel, sizes)
        buffers = case.copies()
        reference = StructuredReference(kernel, sizes, buffers, scalars)
        reference.run()
        assert_same(buffers, expected, f"{case.kernel}\n{kernel}")
        assert {(code, value) for _, code, value in reference.faults} == faults, f"{case.kernel}\n{kernel}"
    assert not meets(regions(case.kernel))


@pytest.mark.parametrize("seed", range(40))
def test_random_kernels_with_barriers(seed: int) -> None:
    check(random_kernel(seed, barriers=True, faults=seed % 4 == 0))


@pytest.mark.full
@pytest.mark.parametrize("start", range(1000, 3000, 200))
def test_many_random_kernels(start: int) -> None:
    for seed in range(start, start + 200):
        check(random_kernel(seed, barriers=seed % 3 > 0, faults=seed % 4 == 0))


def test_random_kernels_are_what_their_name_says() -> None:
    kernels = [random_kernel(seed).kernel for seed in range(60)]
    kinds = {type(x) for kernel in kernels for x in s.walk(kernel.body)}
    assert kinds >= {s.If, s.For, s.While, s.Break, s.Continue, s.Return, s.Barrier, s.Atomic, s.Store}
    assert str(random_kernel(7).kernel) == str(random_kernel(7).kernel)
    assert any(random_kernel(seed, faults=True).expected()[1] for seed in range(20))


def test_the_fault_is_that_of_the_lowest_thread() -> None:
    """A load outside gives 0, a store outside does nothing."""
    w = KernelWriter((6,))
    a = w.array(np.arange(1, 5, dtype=np.float32), reads=True)
    c = w.array(np.full(6, 9, np.float32), writes=True)
    i = w.id()
    w.store(c, (w.let("mul", I64, i, w.number(2)),), w.load(a, w.sub(i, w.number(1))))
    case = w.case()
    buffers = case.copies()
    assert run(case.kernel, case.binding, buffers) == (1, -1)
    assert buffers[c].tolist() == [0, 9, 1, 9, 2, 9]
    faults = case.expected()[1]
    assert faults == {(1, -1), (2, 6), (2, 8), (2, 10), (1, 4)}


def test_atomic_updates_give_what_was_there() -> None:
    w = KernelWriter((5,))
    c = w.array(np.zeros(1, np.int64), reads=True, writes=True)
    d = w.array(np.zeros(5, np.int64), writes=True)
    before = w.fresh()
    w.put(s.Atomic("add", c, (w.number(0),), w.number(3), w.site(c), before))
    w.store(d, (w.id(),), before)
    (after, places), _ = w.case().expected()
    assert after.tolist() == [15]
    assert sorted(places.tolist()) == [0, 3, 6, 9, 12]


def test_text() -> None:
    w = KernelWriter((8,), (4,))
    a = w.array(np.zeros((8, 3), np.float32), reads=True)
    c = w.array(np.zeros(8, np.float32), writes=True)
    t = w.buffer((4,), F32)
    i = w.id()
    total = w.variable(F32, w.scalar(2.0, F32))
    with w.loop(w.number(0), w.extent(a, 1), 2) as k:
        w.set(total, w.let("add", F32, w.get(total), w.load(a, i, k)))
    w.put(s.Barrier())
    with w.when(w.compare("lt", i, w.number(5))):
        w.store(c, (i,), w.get(total))
    w.store(t, (w.id(0, "local_id"),), w.get(total))
    case = w.case("rows")
    lines = str(case.kernel).splitlines()
    assert len({line.index(" : ") for line in lines if " : " in line}) == 1  # the dtypes stand in a column
    assert [re.sub(" +: ", " : ", line) for line in lines] == [
        "kernel rows(a0: float32[n0:s0, n1:1], out b1: float32[n0:1], #0: float32)",
        "  buffer s0 in UB: float32[4]",
        "  variable v0 : float32",
        "  parallel i < gi in blocks of 4:",
        "    %0 = global_id i : int64",
        "    %1 = scalar #0 : float32",
        "    v0 = %1",
        "    %2 = const 0 : int64",
        "    %3 = extent a0, 1 : int64",
        "    for %4 from %2 to %3 by 2:",
        "      %5 = v0 : float32",
        "      %6 = load a0[%0, %4] : float32",
        "      %7 = add %5, %6 : float32",
        "      v0 = %7",
        "    barrier",
        "    %8 = const 5 : int64",
        "    %9 = lt %0, %8 : bool",
        "    if %9:",
        "      %10 = v0 : float32",
        "      b1[%0] = %10",
        "    %11 = local_id i : int64",
        "    %12 = v0 : float32",
        "    s0[%11] = %12",
    ]
    first, *_, last = format_structured(case.kernel, case.binding).splitlines()
    assert "a0: float32[8:3, 3:1]" in first
    assert last == "    s0[%11] = %12"


# --- what the verifier refuses ------------------------------------------------------------------------------


def broken(write: Any, block: tuple[int, ...] = (), **changes: Any) -> s.StructuredKernel:
    w = KernelWriter((8,), block)
    w.array(np.zeros(8, np.float32), reads=True)
    w.array(np.zeros(8, np.float32), writes=True)
    write(w)
    return replace(w.case().kernel, **changes)


def _unknown(w: KernelWriter) -> None:
    w.store(1, (99,), w.load(0, w.id()))


def _left_scope(w: KernelWriter) -> None:
    i = w.id()
    with w.when(w.compare("lt", i, w.number(3))):
        x = w.load(0, i)
    w.store(1, (i,), x)


def _twice(w: KernelWriter) -> None:
    w.put(s.Let(w.id(), "const", I64, (), (3,)))


def _mixed(w: KernelWriter) -> None:
    w.let("add", F32, w.load(0, w.id()), w.id())


def _arity(w: KernelWriter) -> None:
    w.let("add", I64, w.id())


def _result(w: KernelWriter) -> None:
    w.let("lt", I64, w.id(), w.id())


def _kind(w: KernelWriter) -> None:
    w.let("sqrt", I64, w.id())


def _no_op(w: KernelWriter) -> None:
    w.let("frobnicate", I64, w.id())


def _index(w: KernelWriter) -> None:
    w.load(0, w.const(1.0, F32))


def _rank(w: KernelWriter) -> None:
    w.load(0, w.id(), w.id())


def _backwards(w: KernelWriter) -> None:
    w.load(1, w.id())


def _written(w: KernelWriter) -> None:
    w.store(0, (w.id(),), w.load(0, w.id()))


def _stored(w: KernelWriter) -> None:
    w.store(1, (w.id(),), w.id())


def _unset(w: KernelWriter) -> None:
    v, i = w.variable(F32), w.id()
    with w.when(w.compare("lt", i, w.number(3))):
        w.set(v, w.load(0, i))
    w.store(1, (i,), w.get(v))


def _unset_after_loop(w: KernelWriter) -> None:
    v = w.variable(I64)
    with w.loop(w.number(0), w.number(3)) as k:
        w.set(v, k)
    w.get(v)


def _set(w: KernelWriter) -> None:
    w.set(w.variable(F32), w.id())


def _break(w: KernelWriter) -> None:
    w.put(s.Break())


def _after(w: KernelWriter) -> None:
    with w.loop(w.number(0), w.number(3)):
        w.put(s.Break())
        w.id()


def _condition(w: KernelWriter) -> None:
    w.put(s.If(w.id(), ()))


def _step(w: KernelWriter) -> None:
    with w.loop(w.number(0), w.number(3), 0):
        pass


def _apart(w: KernelWriter) -> None:
    with w.when(w.compare("lt", w.id(), w.number(3))):
        w.put(s.Barrier())


def _apart_by_a_variable(w: KernelWriter) -> None:
    v = w.variable(I64, w.number(1))
    with w.when(w.compare("lt", w.id(), w.number(3))):
        w.set(v, w.number(2))
    with w.when(w.compare("lt", w.get(v), w.number(2))):
        w.put(s.Barrier())


def _left_before(w: KernelWriter) -> None:
    with w.loop(w.number(0), w.number(3)):
        with w.when(w.compare("lt", w.id(), w.number(3))):
            w.put(s.Break())
        w.put(s.Barrier())


def _returned_before(w: KernelWriter) -> None:
    with w.when(w.compare("lt", w.id(), w.number(3))):
        w.put(s.Return())
    w.put(s.Barrier())


def _no_block(w: KernelWriter) -> None:
    w.id(0, "local_id")


def _no_site(w: KernelWriter) -> None:
    w.let("load", F32, w.id(), attrs=(0, 7))
    w.site(0)


def _how(w: KernelWriter) -> None:
    w.arrays[1] = replace(w.arrays[1], reads=True)
    w.atomic("mul", 1, (w.id(),), w.const(1.0, F32))


def _no_buffer(w: KernelWriter) -> None:
    w.put(s.TileApply("neg", 1, (("buffer", 0),), w.number(3)))


BROKEN = [
    (_unknown, "%99 is not known"),
    (_left_scope, "is not known"),
    (_twice, "made twice"),
    (_mixed, "different dtypes"),
    (_arity, "takes 2 values"),
    (_result, "the result has another dtype"),
    (_kind, "does not take int64"),
    (_no_op, "no elementwise primitive"),
    (_index, "is not int64"),
    (_rank, "takes 1 indices"),
    (_backwards, "is read and does not say so"),
    (_written, "is written and does not say so"),
    (_stored, "not of the array's dtype"),
    (_unset, "may not have been set"),
    (_unset_after_loop, "may not have been set"),
    (_set, "not of the variable's dtype"),
    (_break, "no loop around"),
    (_after, "nobody comes to"),
    (_condition, "not a bool"),
    (_step, "a step of 0"),
    (_no_block, "there is none"),
    (_no_site, "no site 7"),
    (_how, "no atomic mul"),
    (_no_buffer, "is no buffer"),
]
PARTED = [
    (_apart, "different ways"),
    (_apart_by_a_variable, "different ways"),
    (_left_before, "different ways"),
    (_returned_before, "a return"),
]


@pytest.mark.parametrize(("write", "rule"), BROKEN, ids=lambda x: getattr(x, "__name__", ""))
def test_broken_kernels_are_refused(write: Any, rule: str) -> None:
    with pytest.raises(InvalidKernel, match=rule):
        verify_structured(broken(write))


@pytest.mark.parametrize(("write", "rule"), PARTED, ids=lambda x: getattr(x, "__name__", ""))
def test_threads_that_meet_take_the_same_way(write: Any, rule: str) -> None:
    with pytest.raises(InvalidKernel, match=rule):
        verify_structured(broken(write, (4,)))
    verify_structured(broken(write, (1,)))


def test_bindings_are_checked() -> None:
    case = random_kernel(3)
    sizes = [len(b) for b in case.buffers]
    verify_structured_binding(case.kernel, case.binding, sizes)
    for change in (
        {"grid": (0,) * case.kernel.axes},
        {"grid": ()},
        {"offsets": tuple(o + 10**6 for o in case.binding.offsets)},
        {"strides": tuple(tuple(-1 for _ in x) for x in case.binding.strides)},
    ):
        with pytest.raises(InvalidKernel):
            verify_structured_binding(case.kernel, replace(case.binding, **change), sizes)


def test_what_threads_agree_on() -> None:
    w = KernelWriter((64, 8), (1, 8))
    i, j, group = w.id(0), w.id(1), w.id(1, "group_id")
    c = w.array(np.zeros(8, np.float32), reads=True)
    loaded, own = w.load(c, group), w.load(c, j)
    first = w.compare("lt", i, w.number(3))
    kernel = w.case().kernel
    same = uniform(kernel)
    assert {i, group, loaded, first} <= same
    assert same.isdisjoint({j, own})
    assert uniform(replace(kernel, block=())).isdisjoint({i, j, group, first})
