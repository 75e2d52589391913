"""Structured kernels in point form: what is one, what is not, and that it computes the same."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
import thread_kernels as t
from points_checks import assert_close, point_form, run_points
from random_kernels import F32, I64, Case, assert_same, random_kernel

import pyasc.backend.points
from pyasc.backend.points import steering
from pyasc.backend.points.symbolic import NoPoints

# For each kernel: the parallel and reduced axes of each part.
KERNELS: dict[str, tuple[Callable[[], Case], list[tuple[int, int]]]] = {
    "vector_add": (t.vector_add, [(1, 0)]),
    "vector_add of int32": (lambda: t.vector_add(dtype=np.int32), [(1, 0)]),
    "vector_add, sized": (lambda: t.with_numbers(t.vector_add()), [(1, 0)]),
    "sobel": (t.sobel, [(2, 0)]),
    "sobel with a border": (lambda: t.sobel(border=True), [(2, 0), (1, 0), (1, 0), (1, 0), (1, 0)]),
    "matmul": (t.matmul, [(2, 1)]),
    "matmul of int32": (lambda: t.matmul(dtype=np.int32, total=np.int32, out=np.int32), [(2, 1)]),
    "matmul_of_numbers": (lambda: t.with_numbers(t.matmul_of_numbers()), [(2, 1)]),
    "matmul_in_place": (t.matmul_in_place, [(2, 1)]),
    "matmul_in_place, added": (lambda: t.matmul_in_place(cleared=False), [(2, 1)]),
    "matmul_by_rows": (t.matmul_by_rows, [(2, 1)]),
    "nbody": (t.nbody, [(1, 1)]),
    "resize": (t.resize, [(2, 0)]),
    "resize, scaled": (lambda: t.resize(scaled=True), [(2, 0)]),
    "stretched": (lambda: t.with_numbers(t.stretched()), [(1, 0)]),
    "softmax": (t.softmax, [(1, 1)]),
    "masked": (t.masked, [(1, 0)]),
    "in_place": (t.in_place, [(1, 0)]),
    "convolution": (t.convolution, [(2, 0)]),
    "scaled_rows": (t.scaled_rows, [(1, 0)]),
    "take": (t.take, [(1, 0)]),
    "count": (t.count, [(1, 1)]),
    "neighbour": (t.neighbour, [(1, 0)]),
    "blocks": (t.blocks, [(1, 0)]),
    "box_filter": (t.box_filter, [(2, 0)]),
    "halo_filter": (t.halo_filter, [(2, 0)]),
    "matmul_in_tiles": (t.matmul_in_tiles, [(2, 1)]),
    "triangle": (t.triangle, [(1, 1)]),
    "cooperative": (t.cooperative, [(1, 0)]),
    "fraction": (t.fraction, [(1, 0)]),
    "sums_into": (lambda: t.sums_into(30, 40), [(1, 1)]),
    "sums_into, positive": (lambda: t.sums_into(40, 30, True, True), [(1, 1)]),
}


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_have_a_point_form_that_computes_the_same(name: str) -> None:
    make, axes = KERNELS[name]
    case = make()
    expected, faults = case.expected()
    assert not faults
    for unroll in (32, 1) if name != "cooperative" else (32,):
        parts = point_form(case, unroll)
        assert_close(run_points(case, parts), expected, (name, unroll))
        if unroll == 32:
            assert [(p.kernel.parallel, p.kernel.reduced) for p in parts] == axes


def test_a_short_loop_is_gone_through_turn_by_turn_and_a_long_one_is_an_axis() -> None:
    case = t.convolution(k=3)
    assert [p.kernel.reduced for p in point_form(case, 32)] == [0]
    assert [p.kernel.reduced for p in point_form(case, 1)] == [2]


@pytest.mark.parametrize("sizes", [(70, 75), (67, 68), (80, 100), (150, 151)])
def test_one_structure_for_all_sizes(sizes: tuple[int, int]) -> None:
    for make in (t.sobel, t.resize):
        (given,), (other,) = (point_form(make(*s)) for s in (sizes, (90, 77)))
        assert given.kernel.key == other.kernel.key


def test_one_structure_for_all_numbers() -> None:
    (given,), (other,) = (
        point_form(t.with_numbers(t.matmul_of_numbers(*s))) for s in ((20, 34, 40), (7, 90, 50))
    )
    assert given.kernel.key == other.kernel.key


def test_a_guard_cuts_the_box_and_leaves_no_mask() -> None:
    (part,) = point_form(t.sobel())
    assert part.binding.extents == (35, 43)
    assert {i.op for i in part.kernel.body} == {"load", "const", "mul", "add", "sub", "sqrt", "store"}


def test_a_tile_in_shared_memory_is_the_image_itself() -> None:
    (part,) = point_form(t.halo_filter())
    assert {i.op for i in part.kernel.body} == {"load", "add", "store"}
    (product,) = point_form(t.matmul_in_tiles(), 1)
    assert [i.op for i in product.kernel.body] == ["load", "load", "mul", "reduce", "store"]
    assert product.binding.extents[-1] == 640


@pytest.mark.parametrize("make", [t.neighbour, t.padded])
def test_edges_are_kernels_of_their_own_where_there_are_points_enough(
    make: Callable[[], Case], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [p.slow for p in point_form(make())] == [True]
    monkeypatch.setattr(pyasc.backend.points, "EDGE_POINTS", 1)
    case = make()
    parts = point_form(case)
    assert not any(p.slow for p in parts)
    assert len(parts) == {"neighbour": 2, "padded": 9}[case.kernel.name]
    assert_same(run_points(case, parts), case.expected()[0], case.kernel)


def test_numbers_that_steer_are_found() -> None:
    assert steering(t.vector_add().kernel) == {0}
    assert steering(t.matmul_of_numbers().kernel) == {0, 1, 2}
    assert steering(t.resize(scaled=True).kernel) == set()


def test_what_is_known_of_numbers_makes_more_kernels_points() -> None:
    with pytest.raises(NoPoints, match="turns of a loop"):
        point_form(t.matmul_of_numbers())
    (add,), (sized,) = point_form(t.vector_add()), point_form(t.with_numbers(t.vector_add()))
    assert "where" in {i.op for i in add.kernel.body}
    assert "where" not in {i.op for i in sized.kernel.body}


def test_a_float_that_is_known_to_be_small_is_an_index() -> None:
    (part,) = point_form(t.with_numbers(t.stretched()))
    (other,) = point_form(t.with_numbers(t.stretched(500, 33)))
    assert [i.op for i in part.kernel.body if i.op in ("gather", "wrap_index")] == ["gather", "gather"]
    assert part.kernel.key == other.kernel.key
    for case in (t.stretched(), t.with_numbers(t.stretched(to=1))):  # the last divides by 0
        with pytest.raises(NoPoints, match="32 bits"):
            point_form(case)


@pytest.mark.parametrize("bad", [-1, -100, 100, 2**40])
def test_an_index_outside_is_a_fault_wherever_it_lies(bad: int) -> None:
    case = t.take(bad=bad)
    parts = point_form(case)
    with pytest.raises(IndexError, match=f"index {bad} "):
        run_points(case, parts)
    ((code, value),) = case.expected()[1]
    assert (parts[0].sites, value) == ((code - 1,), bad)


def test_threads_beyond_the_end_that_would_store_are_a_fault() -> None:
    case = t.vector_add(n=100, limit=105)
    with pytest.raises(IndexError, match="index 100 "):
        run_points(case, point_form(case))
    assert (1 + point_form(case)[0].sites[0], 100) in case.expected()[1]


def _scatter() -> Case:
    w = t.Threads([20])
    a, out = w.of(np.random.default_rng(0).permutation(20)), w.out(t.quarters(20))
    w.store(out, [w.load(a, w.id())], w.float(1.0))
    return w.case()


def _same_element() -> Case:
    w = t.Threads([4, 5])
    out = w.out(t.quarters(4))
    w.store(out, [w.id(0)], w.let("cast", F32, w.id(1)))
    return w.case()


def _other_element() -> Case:
    w = t.Threads([20])
    a = w.out(t.quarters(21), reads=True)
    w.store(a, [w.id()], w.load(a, w.add(w.id(), w.number(1))))
    return w.case()


def _scan() -> Case:
    w = t.Threads([5])
    a, out = w.of(t.quarters(5, 40)), w.out(t.quarters(5, 40))
    v = w.variable(F32, w.float(0.0))
    with w.loop(w.number(0), w.number(40)) as k:
        w.gather_up(v, "add", w.load(a, w.id(), k))
        w.store(out, [w.id(), k], w.get(v))
    return w.case()


def _horner() -> Case:
    w = t.Threads([5])
    a, out = w.of(t.quarters(40)), w.out(t.quarters(5))
    v = w.variable(F32, w.float(0.0))
    with w.loop(w.number(0), w.number(40)) as k:
        w.set(v, w.f32("add", w.f32("mul", w.get(v), w.float(0.5)), w.load(a, k)))
    w.store(out, [w.id()], w.get(v))
    return w.case()


def _wide() -> Case:
    w = t.Threads([50])
    out = w.out(np.zeros(50, np.int64))
    w.store(out, [w.id()], w.mul(w.id(), w.number(2**30)))
    return w.case()


def _race() -> Case:
    w = t.Threads([32], [16])
    a, out = w.of(t.quarters(32)), w.out(t.quarters(32))
    tile = w.buffer((16,), F32)
    local = w.id(0, "local_id")
    w.store(tile, [local], w.load(a, w.id()))
    w.store(out, [w.id()], w.load(tile, w.sub(w.number(15), local)))
    return w.case()


def _unused() -> Case:
    w = t.Threads([50])
    a, out = w.of(t.quarters(40)), w.out(t.quarters(50))
    w.load(a, w.id())
    w.store(out, [w.id()], w.float(1.0))
    return w.case()


def _unused_at_the_edge() -> Case:
    w = t.Threads([50])
    a, out = w.of(t.quarters(50)), w.out(t.quarters(50))
    x, y = w.load(a, w.sub(w.id(), w.number(5))), w.load(a, w.id())
    v = w.variable(F32, y)
    with w.when(w.below(w.number(5), w.id())):
        w.set(v, w.f32("add", x, w.load(a, w.sub(w.id(), w.number(6)))))
    w.store(out, [w.id()], w.get(v))
    return w.case()


def test_no_fault_is_lost_where_edges_are_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyasc.backend.points, "EDGE_POINTS", 1)
    case = _unused_at_the_edge()
    assert case.expected()[1]
    with pytest.raises(IndexError, match="index -5 "):
        run_points(case, point_form(case))


REFUSED = {
    "what was computed": _scatter,
    "the same element": _same_element,
    "other elements": _other_element,
    "needs the one before": _scan,
    "each turn of a loop needs": _horner,
    "32 bits": _wide,
    "may be outside an array": _unused,
    "without a barrier": _race,
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_has_no_point_form(reason: str) -> None:
    with pytest.raises(NoPoints, match=re.escape(reason)):
        point_form(REFUSED[reason](), 1)


def _check_random(seed: int, faults: bool) -> bool:
    case = random_kernel(seed, barriers=seed % 2 > 0, atomics=False, faults=faults)
    try:
        parts = point_form(case)
    except NoPoints:
        return False
    expected, reported = case.expected()
    try:
        given = run_points(case, parts)
    except IndexError as error:
        value = int(re.findall(r"-?\d+", str(error))[0])
        assert value in {v for _, v in reported}
    else:
        assert not reported
        assert_same(given, expected, case.kernel)
    return True


def test_random_kernels() -> None:
    assert sum(_check_random(seed, seed % 3 == 0) for seed in range(120)) > 30


@pytest.mark.full
@pytest.mark.parametrize("part", range(20))
def test_many_random_kernels(part: int) -> None:
    assert sum(_check_random(1000 + 200 * part + k, k % 3 == 0) for k in range(200)) > 30


@pytest.mark.parametrize("n", [*range(1, 34), 255, 257])
def test_sizes(n: int) -> None:
    for case in (t.vector_add(n, beyond=n % 5), t.sobel(n, 34 - n % 33), t.masked(n), t.take(n)):
        try:
            assert_same(run_points(case, point_form(case)), case.expected()[0], case.kernel)
        except NoPoints:
            pytest.fail(f"{case.kernel.name} of {n}")


def test_int64_elements_are_stored_and_taken_for_indices() -> None:
    assert point_form(t.blocks())[0].kernel.operands[0].dtype == I64
