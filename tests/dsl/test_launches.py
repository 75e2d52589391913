"""What kernels are given: arrays of every kind of memory, numbers, variables around them that change."""

from __future__ import annotations

import array
import copy
import math
import os
import pickle
import threading
import traceback
from enum import IntEnum
from typing import Any

import numpy as np
import pytest

import pyasc
from pyasc.lazy import handwritten
from pyasc.ops.errors import KernelError


@pyasc.kernel
def add(c: Any, a: Any, b: Any) -> None:
    i = pyasc.get_global_id(0)
    c[i] = a[i] + b[i]


@pyasc.kernel
def gather(c: Any, a: Any, index: Any) -> None:
    i = pyasc.get_global_id(0)
    c[i] = a[index[i]]


@pyasc.kernel
def fill(c: Any, n: Any) -> None:
    i = pyasc.get_global_id(0)
    c[i] = n


@pyasc.kernel
def same(x: Any) -> Any:
    return x


def ramp(n: int) -> Any:
    return np.arange(n, dtype=np.float32)


# --- memory ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [10, 33, 257, 100_000])
def test_views_that_overlap_are_read_as_they_were(n: int) -> None:
    for _ in range(2):
        x = ramp(n)
        expected = x.copy()
        expected[1:] += x[:-1]
        add(x[1:], x[:-1], x[1:])
        np.testing.assert_array_equal(x, expected)
        y = pyasc.asarray(ramp(n))
        add(y[1:], y[:-1], y[1:])
        np.testing.assert_array_equal(y.numpy(), expected)


def test_arrays_that_are_not_aligned() -> None:
    memory = np.zeros(41, np.uint8)
    out = memory[1:].view(np.float32)
    records = np.zeros(10, [("tag", "i1"), ("x", "f4")])
    records["x"] = 3
    for _ in range(2):
        add(out, ramp(10), records["x"])
        np.testing.assert_array_equal(out, ramp(10) + 3)
        add(records["x"], ramp(10), ramp(10))
        np.testing.assert_array_equal(records["x"], 2 * ramp(10))
        records["x"] = 3
    assert memory[0] == 0 and not records["tag"].any()
    aligned = np.zeros(10, np.float32)
    add(aligned, ramp(10), out)
    add(out, ramp(10), aligned)
    np.testing.assert_array_equal(out, 3 * ramp(10) + 3)


class Labelled:
    """An array in an object, as tables hold them."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.values


@pytest.mark.parametrize("held", [memoryview, Labelled])
def test_what_holds_an_array(held: Any) -> None:
    out = ramp(5)
    add(held(out), held(ramp(5)), array.array("f", [1, 1, 1, 1, 1]))
    np.testing.assert_array_equal(out, ramp(5) + 1)


@pytest.mark.parametrize("column", [False, True])
def test_arrays_keep_their_elements_where_an_index_is_outside(column: bool) -> None:
    index = np.arange(1000)
    wrong = index.copy()
    wrong[500] = 1005
    kept = np.full((1000, 2), 7, np.float32)
    out = kept[:, 0] if column else kept.reshape(-1)[:1000]
    for _ in range(2):
        with pytest.raises(IndexError, match="given 1005"):
            gather(out, ramp(1000), wrong)
        assert (kept == 7).all()
        gather(out.copy(), ramp(1000), index)  # from now on it is ready to run
    gather(out, ramp(1000), index)
    np.testing.assert_array_equal(out, ramp(1000))


def shifted(out: Any, x: Any) -> None:
    i = pyasc.get_global_id(0)
    out[i] = x[i + 1]


def first_element(out: Any) -> None:
    out[0] += pyasc.get_global_id(0)


@pytest.mark.parametrize("setting", ["lazy", "eager", "interpret"])
def test_tensors_fall_back_to_the_version_before_a_call_that_failed(setting: str) -> None:
    kernel = pyasc.kernel(shifted)
    with pyasc.config.override(eager=setting == "eager", interpret=setting == "interpret"):
        x = pyasc.arange(4.0)
        other = pyasc.zeros(4)
        if setting == "eager":
            with pytest.raises(IndexError):
                kernel(x, x)
        else:
            kernel(x, x)
            later = x + 1
            kernel(other, x)  # comes to nothing as well
            pyasc.kernel(first_element)(x)
            with pytest.raises(IndexError):
                np.array(x)
            for _ in range(2):
                with pytest.raises(IndexError):
                    np.array(later)
        np.testing.assert_array_equal(x, [0, 1, 2, 3])
        kernel[3](x, x)
        np.testing.assert_array_equal(x, [1, 2, 3, 3])


def test_a_map_of_the_argument_itself_is_a_new_array() -> None:
    x = ramp(3)
    y = same(x)
    x[:] = 9
    assert y.tolist() == [0, 1, 2]


# --- numbers -----------------------------------------------------------------------------------------


class Level(IntEnum):
    LOW = 1
    HIGH = 200


@pytest.mark.parametrize("number", [np.int32(200), np.uint8(200), np.float16(200), Level.HIGH, 200.0])
def test_numbers_of_other_classes(number: Any) -> None:
    c, x = np.zeros(3, np.int16), pyasc.zeros(3, dtype=pyasc.int16)
    fill(c, number)
    fill(x, number)
    assert c.tolist() == x.tolist() == [200] * 3


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int32, np.uint64])
def test_an_integer_that_does_not_fit_is_an_error_at_every_call(dtype: Any) -> None:
    c = np.zeros(2, dtype)
    for number in (3, 2**70, -(2**70), 4, 2**70, np.iinfo(dtype).max):
        if abs(number) < 2**65:
            fill(c, number)
            assert c.tolist() == [number] * 2
        else:
            with pytest.raises(OverflowError, match=f"fits {np.dtype(dtype).name}"):
                fill(c, number)


def test_sequences_of_numbers_of_numpy() -> None:
    @pyasc.kernel
    def first(c: Any, shape: Any) -> None:
        i = pyasc.get_global_id(0)
        c[i] = shape[0] * i

    for shape in ((2, 3), (np.int64(2), 3), [np.int32(2)], (2.0,)):
        c = np.zeros(3)
        first(c, shape)
        assert c.tolist() == [0, 2, 4]


# --- variables around a kernel -------------------------------------------------------------------------


def test_variables_of_every_kind_may_change() -> None:
    k: Any = 3

    @pyasc.kernel
    def scaled(c: Any, a: Any) -> None:
        i = pyasc.get_global_id(0)
        c[i] = a[i] / k

    a = np.array([1, -1, 2])
    c = np.zeros(3)
    for k in (1, 1.0, True, 0.0, -0.0, np.float32(0.5), 4, Level.HIGH):
        scaled(c, a)
        with np.errstate(divide="ignore"):
            expected = np.float32([1, -1, 2]) / np.float32(k)
        np.testing.assert_array_equal(c, expected)
    k = math.nan
    scaled(c, a)
    made = len(handwritten._kernels)
    scaled(c, a)
    assert np.isnan(c).all() and len(handwritten._kernels) == made


def test_arrays_of_numpy_around_a_kernel() -> None:
    table: Any = np.arange(4.0)

    @pyasc.kernel
    def lookup(c: Any) -> None:
        i = pyasc.get_global_id(0)
        c[i] = table[i]

    c, x = np.zeros(4), pyasc.zeros(4, dtype=pyasc.float64)
    lookup(x)
    table[0] = 5  # after the call, which has not run
    assert x.tolist() == [0, 1, 2, 3]
    changed = table
    for table in (changed, np.arange(8, dtype=np.int32)[::-2], pyasc.ones(4), memoryview(changed)):
        lookup(c)
        lookup(x)
        assert c.tolist() == x.tolist() == list(np.asarray(table))


class Layer:
    def __init__(self) -> None:
        self.weight = np.arange(3.0)
        self.scale = 2

    @pyasc.kernel
    def forward(self, c: Any, a: Any) -> None:
        i = pyasc.get_global_id(0)
        c[i] = a[i] * self.weight[i] * self.scale


def test_arrays_of_an_object() -> None:
    layer, c = Layer(), np.zeros(3)
    layer.forward(c, np.ones(3))
    assert c.tolist() == [0, 2, 4]
    layer.weight, layer.scale = layer.weight + 1, 3
    layer.forward(c, np.ones(3))
    assert c.tolist() == [3, 6, 9]


def test_a_jitted_function_sees_what_changes_around_its_kernels() -> None:
    w: Any = pyasc.ones(3)
    k: Any = 2

    @pyasc.kernel
    def scaled(c: Any) -> None:
        i = pyasc.get_global_id(0)
        c[i] = w[i] * k

    @pyasc.jit
    def run(x: Any) -> Any:
        c = pyasc.zeros(3)
        scaled(c)
        return c + x

    x = pyasc.zeros(3)
    assert run(x).tolist() == [2, 2, 2]
    w = pyasc.ones(3) * 9
    assert run(x).tolist() == [18, 18, 18]
    k = 0.5
    assert run(x).tolist() == [4.5, 4.5, 4.5]


def test_a_kernel_that_is_made_anew_keeps_its_plans() -> None:
    def made(k: int) -> Any:
        @pyasc.kernel
        def scaled(c: Any) -> None:
            i = pyasc.get_global_id(0)
            c[i] = i * k

        return scaled

    c = np.zeros(3)
    made(7)(c)
    count = len(handwritten._kernels)
    for _ in range(5):
        made(7)(c)
    assert len(handwritten._kernels) == count
    made(8)(c)
    assert c.tolist() == [0, 8, 16]


# --- the kernel as an object -----------------------------------------------------------------------------


def test_kernels_are_copied_and_pickled_by_name() -> None:
    assert pickle.loads(pickle.dumps(add)) is add
    assert copy.copy(add) is copy.deepcopy(add) is add


def test_eight_threads_begin_with_one_kernel() -> None:
    @pyasc.kernel
    def scaled(c: Any, a: Any, k: Any) -> None:
        i = pyasc.get_global_id(0)
        c[i] = a[i] * k

    together, wrong = threading.Barrier(8), []

    def work(k: int) -> None:
        together.wait()
        for n in (100 + k, 5000):
            c, x = np.zeros(n, np.float32), pyasc.zeros(n)
            scaled(c, ramp(n), k)
            scaled(x, pyasc.asarray(ramp(n)), k)
            if not np.array_equal(c, ramp(n) * k) or not np.array_equal(x.numpy(), c):
                wrong.append((k, n))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_child_runs_kernels_after_its_parent_has() -> None:
    n = 300_000
    c = np.zeros(n, np.float32)
    add(c, ramp(n), ramp(n))
    child = os.fork()
    if child == 0:
        code = 1
        try:
            add(c, ramp(n), c)
            fill(c[:9], 7)
            code = int(not (c[:9] == 7).all() or c[10] != 30)
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_an_error_of_the_source_shows_the_users_lines() -> None:
    @pyasc.kernel
    def wrong(c: Any) -> None:
        i = pyasc.get_global_id(0)
        c[i] = with_a_name_from_nowhere  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(KernelError) as caught:
        wrong(np.zeros(3))
    shown = traceback.extract_tb(caught.value.__traceback__)
    assert shown[0].filename == __file__ and len(shown) < 5


@pyasc.kernel
def reversed_in_blocks(out: Any, x: Any) -> None:
    i, t = pyasc.get_global_id(0), pyasc.get_local_id(0)
    tile = pyasc.shared(8, pyasc.float32)
    tile[t] = x[i]
    pyasc.barrier()
    out[i] = tile[7 - t]


@pytest.mark.parametrize("interpret", [False, True])
@pytest.mark.parametrize("size", [16, 12, 5])
def test_threads_past_the_end_that_others_wait_for_touch_nothing(size: int, interpret: bool) -> None:
    x = np.arange(1, size + 1, dtype=np.float32)
    padded = np.zeros(16, np.float32)
    padded[:size] = x
    out = pyasc.full(size, 9.0)
    with pyasc.config.override(interpret=interpret):
        reversed_in_blocks[2, 8](out, pyasc.asarray(x))
        np.testing.assert_array_equal(out.numpy(), padded.reshape(2, 8)[:, ::-1].reshape(-1)[:size])


@pyasc.kernel
def one_too_far(out: Any, x: Any) -> None:
    i = pyasc.get_global_id(0)
    out[i] = x[i + 1]


@pyasc.kernel
def another_too_far(out: Any, x: Any) -> None:
    i = pyasc.get_global_id(0)
    out[i] = x[i + 1]


def test_kernels_of_the_same_text_are_told_apart_in_errors() -> None:
    for kernel in (one_too_far, another_too_far):
        out = pyasc.zeros(3)
        kernel(out, pyasc.ones(3))
        with pytest.raises(IndexError, match=rf"\[{kernel.name}\]"):
            pyasc.sync(out)


def test_the_cost_of_a_function_that_writes_to_its_argument_and_returns_nothing() -> None:
    found = pyasc.cost(lambda out, x: one_too_far[15](out, x), pyasc.empty(16), pyasc.ones(16))
    assert len(found.kernels) + len(found.host) == 1


class Scaled(pyasc.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = pyasc.Parameter(pyasc.arange(4, dtype=pyasc.float32))

    @pyasc.kernel
    def run(self, out: Any, x: Any) -> None:
        i = pyasc.get_global_id(0)
        out[i] = x[i] * self.weight[i]


def test_arrays_that_are_attributes_have_names_in_generated_code() -> None:
    layer, out = Scaled(), pyasc.empty(4)
    layer.run(out, pyasc.ones(4))
    (kernel,) = (k for k in pyasc.explain(out, backend="sim").kernels if k.name == "run")
    assert "self_weight" in kernel.source("ascendc") and "self.weight" not in kernel.source("ascendc")
    assert out.tolist() == [0, 1, 2, 3]
