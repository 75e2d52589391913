"""Calls of kernels written by hand as nodes of the trace: versions, views, buffers, faults."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyasc

ROWS, COLUMNS = 5, 7


@pyasc.kernel
def double(y: Any, x: Any) -> None:
    i = pyasc.get_global_id(0)
    y[i] = 2 * x[i]


@pyasc.kernel
def increment(x: Any) -> None:
    i = pyasc.get_global_id(0)
    x[i] += 1


@pyasc.kernel
def split(whole: Any, part: Any, x: Any) -> None:
    i = pyasc.get_global_id(0)
    whole[i] = pyasc.floor(x[i])
    part[i] = x[i] - pyasc.floor(x[i])


@pyasc.kernel
def pick(y: Any, x: Any, index: Any) -> None:
    i = pyasc.get_global_id(0)
    y[i] = x[index[i]]


@pyasc.kernel
def transpose(y: Any, x: Any) -> None:
    i, j = pyasc.get_global_id(0), pyasc.get_global_id(1)
    y[i, j] = x[j, i]


@pytest.fixture(params=["compiled", "interpreted"], autouse=True)
def way(request: pytest.FixtureRequest) -> Any:
    with pyasc.config.override(interpret=request.param == "interpreted"):
        yield request.param


def test_a_call_is_recorded_and_runs_when_a_value_is_needed() -> None:
    x, y = pyasc.arange(5), pyasc.zeros(5, dtype=pyasc.int64)
    pyasc.sync(x, y)
    double(y, x)
    assert y.pending
    assert y.tolist() == [0, 2, 4, 6, 8]


def test_what_was_recorded_before_keeps_the_version_before() -> None:
    x = pyasc.arange(4)
    before = x + 0
    view = x[1:3]
    increment(x)
    increment(x)
    assert before.tolist() == [0, 1, 2, 3]
    assert x.tolist() == [2, 3, 4, 5]
    assert view.tolist() == [3, 4]


def test_a_numpy_view_that_was_given_out_never_changes() -> None:
    x = pyasc.arange(4)
    given = x.numpy()
    increment(x)
    assert x.tolist() == [1, 2, 3, 4]
    assert given.tolist() == [0, 1, 2, 3]


def test_an_array_nobody_else_has_is_written_in_place(way: str) -> None:
    if way == "interpreted":
        pytest.skip("the interpreter writes to new buffers")
    x = pyasc.arange(4)
    pyasc.sync(x)
    address = x.node.buffer.address
    increment(x)
    pyasc.sync(x)
    assert x.node.buffer.address == address


def test_views_are_written_through() -> None:
    x = pyasc.zeros((ROWS, COLUMNS))
    increment(x[2])
    increment(x[:, ::-2][:, 1])
    expected = np.zeros((ROWS, COLUMNS))
    expected[2] += 1
    expected[:, ::-2][:, 1] += 1
    np.testing.assert_array_equal(x.numpy(), expected)


def test_what_is_read_of_an_array_that_is_written_is_the_version_before() -> None:
    x = pyasc.arange(6)
    double(x[1:], x[:-1])
    assert x.tolist() == [0, 0, 2, 4, 6, 8]
    double(x, x)
    assert x.tolist() == [0, 0, 4, 8, 12, 16]


def test_what_is_read_may_be_a_constant_or_nothing() -> None:
    x = pyasc.full(4, 3)
    double(x[1:], x[:-1])
    assert x.tolist() == [3, 6, 6, 6]
    y = pyasc.empty(4)
    double(y[1:], y[:-1])
    y[0] = 5
    assert y.shape == (4,) and float(y[0]) == 5


def test_two_outputs_and_one_that_nobody_asks_for() -> None:
    x = pyasc.linspace(0, 3, 7)
    whole, part = pyasc.empty(7), pyasc.empty(7)
    split(whole, part, x)
    np.testing.assert_array_equal((whole + part).numpy(), x.numpy())
    del whole
    again, rest = pyasc.empty(7), pyasc.empty(7)
    split(again, rest, x)
    del again
    np.testing.assert_array_equal(rest.numpy(), part.numpy())


def test_two_halves_of_one_array() -> None:
    both = pyasc.zeros(14)
    x = pyasc.linspace(0, 3, 7)
    split(both[:7], both[7:], x)
    np.testing.assert_array_equal((both[:7] + both[7:]).numpy(), x.numpy())


def test_calls_fuse_with_nothing_but_meet_array_code_on_both_sides() -> None:
    x = pyasc.arange(6).astype(pyasc.float32)
    y = pyasc.empty(6)
    double(y, x * 3)
    z = y + 1
    assert z.tolist() == [1, 7, 13, 19, 25, 31]


def test_a_full_array_is_filled_first() -> None:
    y = pyasc.full(6, 5)
    double(y[:3], pyasc.arange(3))
    assert y.tolist() == [0, 2, 4, 5, 5, 5]


def test_transposed_and_broadcast_operands() -> None:
    x = pyasc.arange(6).reshape(2, 3)
    y = pyasc.empty((3, 2), dtype=pyasc.int64)
    transpose(y, x)
    np.testing.assert_array_equal(y.numpy(), x.numpy().T)
    transpose(y.T, pyasc.broadcast_to(pyasc.arange(2), (3, 2)))
    np.testing.assert_array_equal(y.numpy(), np.broadcast_to(np.arange(2), (3, 2)))


def test_an_index_outside_its_array_is_an_error_and_leaves_the_target() -> None:
    x = pyasc.arange(4)
    y = pyasc.ones(3, dtype=pyasc.int64)
    pyasc.sync(x, y)
    kept = y + 0
    pick(y, x, pyasc.asarray([0, 9, 1]))
    with pytest.raises(
        IndexError, match=r"(?s)\[pick\] expected indices inside x, .*given 9.*y\[i\] = x\[index"
    ):
        pyasc.sync(y)
    assert kept.tolist() == [1, 1, 1]
    z = pyasc.empty(3, dtype=pyasc.int64)
    pick(z, x, pyasc.asarray([0, 3, 1]))
    assert z.tolist() == [0, 3, 1]


def test_in_a_jitted_function() -> None:
    @pyasc.jit
    def twice(x: Any) -> Any:
        y = pyasc.empty(x.shape, dtype=x.dtype)
        double(y, x)
        double(y, y)
        return y + 1

    for n in (4, 4, 9):
        assert twice(pyasc.arange(n)).tolist() == [4 * k + 1 for k in range(n)]


def test_in_a_jitted_function_that_writes_to_its_argument() -> None:
    @pyasc.jit
    def step(x: Any) -> None:
        increment(x)

    x = pyasc.zeros(3)
    for _ in range(3):
        step(x)
    assert x.tolist() == [3, 3, 3]


def test_arrays_of_numpy_are_used_where_they_are() -> None:
    x = np.arange(8.0)
    y = np.zeros(8)
    double(y, x)
    assert y.tolist() == (2 * x).tolist()
    double(y[1::2], x[:4][::-1])
    assert y.tolist() == [0, 6, 4, 4, 8, 2, 12, 0]
    double(x[1:], x[:-1])
    assert x.tolist() == [0, 0, 2, 4, 6, 8, 10, 12]


def test_arrays_of_numpy_and_tensors_together() -> None:
    x = np.arange(4)
    y = pyasc.zeros(4, dtype=pyasc.int64)
    double(y, x)
    x[:] = 0
    assert y.tolist() == [0, 2, 4, 6]
    z = np.zeros(4, np.int64)
    double(z, y)
    assert z.tolist() == [0, 4, 8, 12]


def test_a_loop_of_updates_that_nobody_reads_stays_small() -> None:
    x = pyasc.zeros(10)
    for _ in range(3000):
        increment(x)
    assert float(x.sum()) == 30000


def test_eager() -> None:
    with pyasc.eager():
        x = pyasc.zeros(3)
        increment(x)
        assert not x.pending
        assert x.tolist() == [1, 1, 1]


def test_explain_shows_the_kernel(way: str) -> None:
    x = pyasc.arange(6).astype(pyasc.float32)
    pyasc.sync(x)
    y = pyasc.empty(6)
    double(y, x)
    (kernel,) = (k for k in pyasc.explain(y + 1).kernels if k.name == "double")
    assert kernel.ops == ("mul",)
    assert [str(a) for a in kernel.inputs] == ["x: float32[6]"]
    assert [str(a) for a in kernel.outputs] == ["y: float32[6]"]
    assert kernel.bytes_read == kernel.bytes_written == 24
    assert "load x" in kernel.ir
    assert "a kernel written by hand" in str(kernel)


def test_two_outputs_that_are_asked_for_one_after_the_other() -> None:
    x = pyasc.linspace(0, 3, 7)
    whole, part = pyasc.zeros(7), pyasc.zeros(7)
    pyasc.sync(x, whole, part)
    split(whole, part, x)
    assert whole.tolist() == np.floor(x.numpy()).tolist()
    assert not part.pending
    np.testing.assert_array_equal((whole + part).numpy(), x.numpy())
