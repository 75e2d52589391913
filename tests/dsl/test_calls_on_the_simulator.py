"""Calls of kernels written thread by thread on the simulated chip, as users make them."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np
import pytest

import pyasc


@pyasc.kernel
def histogram(bins: Any, x: Any) -> None:
    i = pyasc.get_global_id(0)
    pyasc.atomic_add(bins, x[i], 1)


@pyasc.kernel
def halvings(n: Any, x: Any) -> None:
    i = pyasc.get_global_id(0)
    v = x[i]
    turns = 0
    while v > 1:
        v //= 2
        turns += 1
    n[i] = turns


@pyasc.kernel
def sum_below(n: Any, x: Any) -> None:
    i = pyasc.get_global_id(0)
    total = 0
    for k in range(x[i]):
        total += k
    pyasc.atomic_add(n, i, total)


@pyasc.kernel
def first_above(n: Any, x: Any) -> None:
    i = pyasc.get_global_id(0)
    found = 0
    for k in range(8):
        if x[k] > i:
            break
        found += 1
    pyasc.atomic_add(n, i, found)


@pyasc.kernel
def counted(n: Any, x: Any, turns: int) -> None:
    i = pyasc.get_global_id(0)
    for k in range(turns):
        pyasc.atomic_add(n, i, x[i] if x[k] > 0 else 0)


@pyasc.kernel
def at_most(y: Any, limit: int) -> None:
    i = pyasc.get_global_id(0)
    y[i] = min(i, limit) % 5


def zeros(n: int) -> pyasc.Tensor:
    return pyasc.zeros(n, dtype="int32")


@pytest.mark.parametrize("bins", [1, 16])
def test_the_record_of_many_updates_is_checked_in_no_time(bins: int) -> None:
    x = np.random.default_rng(0).integers(0, bins, 60_000).astype(np.int32)
    with pyasc.backend("sim"):
        histogram[1](counts := zeros(bins), pyasc.asarray(x[:1]))
        counts.numpy()  # compiled
        began = perf_counter()
        histogram[x.size](counts := zeros(bins), pyasc.asarray(x))
        assert np.array_equal(counts, np.bincount(x, minlength=bins))
    assert perf_counter() - began < 5  # pairs of updates would take 20 s


@pytest.mark.parametrize("kernel", [halvings, sum_below, first_above])
def test_loops_that_turn_as_often_as_data_says_have_no_cost(kernel: Any) -> None:
    def call(x: pyasc.Tensor) -> pyasc.Tensor:
        kernel[8](n := zeros(8), x)
        return n

    with pytest.raises(pyasc.errors.BackendError, match=f"given {kernel.__name__}, in which data says"):
        pyasc.cost(call, zeros(8))


def test_a_profile_leaves_out_the_cost_that_there_is_not() -> None:
    with pyasc.backend("sim"), pyasc.Profiler(simulate=True) as profile:
        halvings[8](n := zeros(8), zeros(8) + 9)
        assert np.array_equal(n, np.full(8, 3))
    told = {e.name: e.simulated_us for e in profile.events if e.kind == "kernel"}
    assert told["halvings"] is None and told["add"]


def test_the_cost_of_loops_of_as_many_turns_as_an_argument_says() -> None:
    def call(x: pyasc.Tensor, turns: int) -> pyasc.Tensor:
        counted[8](n := zeros(8), x, turns)
        return n

    few, many = (pyasc.cost(call, zeros(2000), turns).time_us for turns in (1, 2000))
    assert many > 10 * few


def test_numbers_beyond_32_bits() -> None:
    with pyasc.backend("sim"):
        for limit in (3, 2**31, -(2**40)):
            at_most[8](y := zeros(8), limit)
            assert np.array_equal(y, np.minimum(np.arange(8), limit) % 5)


def test_a_number_that_grows_beyond_32_bits_in_a_trace() -> None:
    @pyasc.jit
    def call(y: pyasc.Tensor, limit: int) -> pyasc.Tensor:
        at_most[8](y, limit)  # here
        return y + 0

    with pyasc.backend("sim"):
        assert np.array_equal(call(zeros(8), 3), np.minimum(np.arange(8), 3))
        with pytest.raises(pyasc.errors.BackendError, match=r"(?s)\[at_most\] .* 32 bits.*# here"):
            call(zeros(8), 2**31).numpy()
        assert np.array_equal(call(zeros(8), 2), np.minimum(np.arange(8), 2))
