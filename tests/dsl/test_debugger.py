"""Kernels run thread by thread in Python: the same results, checks, and Python's own tools."""

from __future__ import annotations

import math
import threading
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_lowering_random import LENGTH, THREADS, load

import pyasc

RNG = np.random.default_rng(2)


def both(kernel: Any) -> tuple[Any, Any]:
    """A kernel compiled, and run in Python."""
    return pyasc.kernel(kernel), pyasc.kernel(debug=True)(kernel)


def add(c: Any, a: Any, b: Any) -> None:
    i = pyasc.get_global_id(0)
    c[i] = a[i] + b[i]


def sobel(out: Any, image: Any) -> None:
    i, j = pyasc.get_global_id(0), pyasc.get_global_id(1)
    if 0 < i < image.shape[0] - 1 and 0 < j < image.shape[1] - 1:
        gx = image[i - 1, j + 1] + 2 * image[i, j + 1] + image[i + 1, j + 1]
        gx -= image[i - 1, j - 1] + 2 * image[i, j - 1] + image[i + 1, j - 1]
        gy = image[i + 1, j - 1] + 2 * image[i + 1, j] + image[i + 1, j + 1]
        gy -= image[i - 1, j - 1] + 2 * image[i - 1, j] + image[i - 1, j + 1]
        out[i, j] = sqrt(gx**2 + gy**2)


def flat_product(c: Any, a: Any, b: Any, n: int) -> None:
    k = pyasc.get_global_id(0)
    total = pyasc.register(0.0)
    for s in range(n):
        total += a[k // n, s] * b[s, k % n]
    c[k] = total


def reversed_in_blocks(out: Any, x: Any) -> None:
    tile = pyasc.shared(8, pyasc.float32)
    i, k = pyasc.get_global_id(0), pyasc.get_local_id(0)
    tile[k] = x[i]
    pyasc.barrier()
    out[i] = tile[pyasc.get_local_size(0) - 1 - k] + pyasc.get_group_id(0)


def histogram(counts: Any, x: Any) -> None:
    i = pyasc.get_global_id(0)
    pyasc.atomic_add(counts, int(x[i]), 1)


def saturate(out: Any, x: Any) -> None:
    i = pyasc.get_global_id(0)
    out[i] = x[i] * 100.0


def draw(*shape: int) -> Any:
    return pyasc.asarray(RNG.standard_normal(shape).astype(np.float32))


@pytest.mark.parametrize(
    ("function", "threads", "out", "arguments"),
    [
        (add, 20, (17,), [draw(17), draw(17)]),
        (add, ((3,), (8,)), (17,), [draw(34)[::2], draw(17)[::-1]]),
        (sobel, ((2, 3), (8, 4)), (11, 10), [draw(11, 10)]),
        (flat_product, 25, (5, 5), [draw(5, 5), draw(5, 5).T, 5]),
        (reversed_in_blocks, ((3,), (8,)), (24,), [draw(24)]),
    ],
)
def test_results_equal_the_compiled_kernel(function: Any, threads: Any, out: Any, arguments: Any) -> None:
    results = []
    for kernel in both(function):
        result = pyasc.zeros(out)
        kernel[threads](result, *arguments)
        results.append(np.array(result))
    np.testing.assert_allclose(results[1], results[0], rtol=1e-6)
    assert results[1].any()


def test_atomic_updates_and_casts() -> None:
    x = pyasc.asarray([0.0, 2.0, 2.0, 1.0, 2.0])
    compiled, debugged = both(histogram)
    for kernel in (compiled, debugged):
        counts = pyasc.zeros(3, dtype=pyasc.int32)
        kernel[5](counts, x)
        np.testing.assert_array_equal(counts, [1, 1, 3])
    values = pyasc.asarray([1.0, 9.0, -9.0, np.nan])
    for kernel in both(saturate):
        small = pyasc.zeros(4, dtype=pyasc.int8)
        kernel[4](small, values)
        np.testing.assert_array_equal(small, [100, 127, -128, 0])


def test_views_and_arrays_of_numpy() -> None:
    kernel = pyasc.kernel(debug=True)(add)
    x = pyasc.zeros((4, 6))
    kernel[4](x[:, 1], pyasc.ones(4), pyasc.arange(4.0))
    expected = np.zeros((4, 6), np.float32)
    expected[:, 1] = np.arange(4) + 1
    np.testing.assert_array_equal(x, expected)
    array = np.zeros(8, np.float32)
    kernel[4](array[::2], np.ones(4, np.float32), np.arange(4, dtype=np.float32))
    np.testing.assert_array_equal(array[::2], [1, 2, 3, 4])
    assert not array[1::2].any()
    y = pyasc.arange(6.0)  # reads and writes of one storage
    kernel[3](y[3:], y[:3], y[:3])
    np.testing.assert_array_equal(y, [0, 1, 2, 0, 2, 4])


def test_maps_and_layers() -> None:
    class Layer(pyasc.nn.Module):
        def __init__(self) -> None:
            self.coefficient = pyasc.nn.Parameter(0.5)

        def forward(self, x: Any) -> Any:
            inner = x + self.coefficient * x**3
            return 0.5 * x * (1 + math.tanh(inner)) if x > -1 else pyasc.exp(x)

    x = draw(3, 5)
    plain = Layer.forward
    Layer.forward = pyasc.kernel(plain)  # type: ignore[method-assign]
    expected = np.array(Layer()(x))
    Layer.forward = pyasc.kernel(debug=True)(plain)  # type: ignore[method-assign]
    given = Layer()(x)
    assert given.dtype == pyasc.float32
    np.testing.assert_allclose(given, expected, rtol=1e-6)


def test_the_setting() -> None:
    seen = []

    @pyasc.kernel
    def noted(out: Any) -> None:
        i = pyasc.get_global_id(0)
        seen.append(i)
        out[i] = i

    with pyasc.config.override(debug=True):
        out = pyasc.zeros(3)
        noted[3](out)
    assert seen == [0, 1, 2]
    np.testing.assert_array_equal(out, [0, 1, 2])


def test_an_index_outside_names_array_index_thread_and_line(mistake: Any) -> None:
    @pyasc.kernel(debug=True)
    def shifted(out: Any, x: Any) -> None:
        i, j = pyasc.get_global_id(0), pyasc.get_global_id(1)
        out[i, j] = x[i - 1, j]  # here

    out = pyasc.zeros((2, 3))
    with mistake(IndexError, "[shifted]", "inside x, of shape (2, 3)", "(-1, 0)", "thread (0, 0)"):
        shifted[2, 3](out, pyasc.ones((2, 3)))
    assert not np.array(out).any()


def test_a_race_on_shared_memory_names_both_lines(mistake: Any) -> None:
    @pyasc.kernel(debug=True)
    def neighbours(out: Any, x: Any) -> None:
        tile = pyasc.shared(4, pyasc.float32)
        k = pyasc.get_local_id(0)
        tile[k] = x[pyasc.get_global_id(0)]
        out[pyasc.get_global_id(0)] = tile[(k + 3) % 4]  # here

    with mistake(SyntaxError, "barrier", "thread 1, which reads shared0[0]", "thread 0", "tile[k] = "):
        neighbours[(2,), (4,)](pyasc.zeros(8), pyasc.ones(8))


def test_a_barrier_that_some_threads_miss(mistake: Any) -> None:
    @pyasc.kernel(debug=True)
    def some(out: Any) -> None:
        i = pyasc.get_global_id(0)
        if i < 2:
            pyasc.barrier()  # here
        out[i] = i

    before = threading.active_count()
    with mistake(SyntaxError, "every thread of a block at the barrier", "thread 2, which ended without it"):
        some[(1,), (4,)](pyasc.zeros(4))
    assert threading.active_count() == before


def test_pythons_own_tools(capsys: Any) -> None:
    @pyasc.kernel(debug=True)
    def checked(out: Any, x: Any) -> None:
        i = pyasc.get_global_id(0)
        print("thread", i, "has", x[i])
        assert x[i] < 2, f"too large: {x[i]}"
        out[i] = x[i]

    out = pyasc.zeros(3)
    with pytest.raises(AssertionError, match=r"too large: 2\.0") as caught:
        checked[3](out, pyasc.arange(3.0))
    assert "in thread 2 of the kernel checked" in caught.value.__notes__
    assert capsys.readouterr().out == "thread 0 has 0.0\nthread 1 has 1.0\nthread 2 has 2.0\n"
    assert not np.array(out).any()
    # Threads past the end touch nothing, though this cannot be compiled.
    checked[5](pyasc.zeros(2), pyasc.arange(2.0))


@pytest.mark.parametrize("where", [(2, 4), ((2,), (4,)), 8])
@pytest.mark.parametrize("failing", [0, 2, 6])
def test_errors_of_every_thread_reach_the_caller(where: Any, failing: int) -> None:
    @pyasc.kernel(debug=True, block_dim=4)
    def checked(out: Any, x: Any) -> None:
        t, i = pyasc.get_local_id(0), pyasc.get_global_id(0)
        out[i] = t
        pyasc.barrier()
        assert i < failing
        out[i] = x[i]

    before = threading.active_count()
    out = pyasc.zeros(8)
    with pytest.raises(AssertionError, match=rf"assert {failing} < {failing}") as caught:
        checked[where](out, pyasc.ones(8))
    assert caught.traceback[-1].name == "checked"
    assert f"in thread {failing} of the kernel checked" in caught.value.__notes__
    assert threading.active_count() == before
    assert not np.array(out).any()


def test_threads_that_catch_everything_end_with_their_block() -> None:
    @pyasc.kernel(debug=True, block_dim=4)
    def caught(out: Any) -> None:
        i = pyasc.get_global_id(0)
        try:
            pyasc.barrier()
            if i == 1:
                raise ValueError("of thread 1")
            pyasc.barrier()
        finally:
            if i != 1:
                pyasc.barrier()
        out[i] = 1

    with pytest.raises(ValueError, match="of thread 1"):
        caught[4](pyasc.zeros(4))


def test_blocks_and_axes_of_what_does_not_compile() -> None:
    def below(n: Any) -> Any:
        return pyasc.get_global_id(1) < n

    @pyasc.kernel(debug=True, block_dim=4)
    def ids(out: Any) -> None:
        i = pyasc.get_global_id(0)
        x = out[i]
        pyasc.barrier()
        print(end="")
        out[i] = x + pyasc.get_local_id(0)

    @pyasc.kernel(debug=True)
    def of_two_axes(out: Any) -> None:
        assert below(3)
        pyasc.atomic_add(out, pyasc.get_global_id(0), 1)

    out = pyasc.zeros(6)
    ids[8](out)  # two threads lie past the end
    np.testing.assert_array_equal(out, [0, 1, 2, 3, 0, 1])
    out = pyasc.zeros(2)
    of_two_axes[2, 3](out)
    np.testing.assert_array_equal(out, [3, 3])


def test_traced_functions_compile_their_kernels() -> None:
    kernel = pyasc.kernel(add)

    @pyasc.jit
    def traced(x: Any) -> Any:
        out = pyasc.zeros(4)
        kernel[4](out, x, x)
        return out + 1

    with pyasc.config.override(debug=True):
        np.testing.assert_array_equal(traced(pyasc.arange(4.0)), [1, 3, 5, 7])


def test_names_mean_what_they_do_in_a_kernel() -> None:
    factor, table = 3, pyasc.asarray([10.0, 20.0])

    def scaled(x: Any) -> Any:
        return factor * x

    def uses(out: Any, x: Any) -> None:
        i = pyasc.get_global_id(0)
        root = pyasc.sqrt(x[i]) + math.log(x[i]) + math.pi
        out[i] = scaled(root) + pyasc.float32(min(x[i], 2)) + pyasc.maximum(x[i], 1.5)

    x = pyasc.asarray([0.0, 1.0, 4.0])
    results = []
    for kernel in both(uses):
        results.append(pyasc.zeros(3))
        kernel[3](results[-1], x)
    np.testing.assert_allclose(results[1], results[0], rtol=1e-6)

    @pyasc.kernel(debug=True)
    def looked_up(out: Any) -> None:
        i = pyasc.get_global_id(0)
        out[i] = table[i]

    out = pyasc.zeros(2)
    looked_up[2](out)
    np.testing.assert_array_equal(out, table)


# --- the same values as compiled ---------------------------------------------------------------------------


def integers(out: Any, a: Any) -> None:
    i = pyasc.get_global_id(0)
    x = a[-1] * 2 + a[i] // (i - 1) + a[i] % (i - 2) + (a[i] << (i * 40 - 40)) + (a[i] >> (i * 9 - 9))
    out[i] = x + i * 100 + 2 ** a[i] + a[i] ** 3 + (a[i] or 7) + (a[i] and 3) + (not a[i])


def floats(out: Any, x: Any) -> None:
    i = pyasc.get_global_id(0)
    y = min(x[i], 1.0) + max(x[i], -1.0) * (~(i > 2)) + x[i] // 0.7 + divmod(x[i], 2)[1]
    out[i] = y if i % 2 else x[i] ** 0.5 + x[i] * 0.1 + math.sqrt(x[i]) + math.pow(x[i], -2) + 1 / 3


def whole_numbers(out: Any, x: Any) -> None:
    i = pyasc.get_global_id(0)
    out[i] = int(x[i]) // 3 + round(x[i]) % 7 + math.floor(x[i]) % 11 + math.trunc(x[i]) % 5


def numbers(out: Any, a: Any, n: int, f: float) -> None:
    i = pyasc.get_global_id(0)
    for k in range(3):
        out[i] += a[i] * k + a.shape[0] + np.float32(0.1) * k
    out[i] += a[i] * n + n // (n - n) + n % (i - i) + f * 0.1 * n + len(a) * a[i]


def updates(out: Any, a: Any) -> None:
    i = pyasc.get_global_id(0)
    pyasc.atomic_add(out, i % 2, a[i])
    pyasc.atomic_max(out, 2, a[i])
    pyasc.atomic_min(out, -1, a[i])


INTEGERS = [3, 100, 0, 77, 120, 5, 1]
FLOATS = [1.7, -2.5, math.nan, math.inf, -math.inf, 3e30, -0.0]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("function", "values", "dtypes", "others"),
    [
        (integers, INTEGERS, ("uint8", "int64"), ()),
        (floats, FLOATS, ("float32", "float64"), ()),
        (whole_numbers, FLOATS, ("float32",), ()),
        (numbers, INTEGERS, ("int8", "float64"), (5, 0.3)),
        (updates, INTEGERS, ("int8", "int64"), ()),
    ],
)
@pytest.mark.parametrize("result", ["int64", "float64", "int8"])
def test_arithmetic_is_that_of_the_compiled_kernel(
    function: Any, values: Any, dtypes: Any, others: Any, result: str
) -> None:
    for dtype in dtypes:
        found = []
        for kernel in both(function):
            out = np.zeros(len(values), result)
            kernel[len(values)](out, np.array(values).astype(dtype), *others)
            found.append(out)
        np.testing.assert_allclose(found[1], found[0], rtol=2e-6)


def test_random_programs_in_python(tmp_path: Path) -> None:
    for seed in (0, 3, 12):
        kernel = load(seed, tmp_path)
        for dtype in (np.int64, np.int32):
            a = np.random.default_rng(seed).integers(-9, 9, LENGTH).astype(dtype)
            found = []
            for made in both(kernel):
                found.append(np.zeros(THREADS, np.int64))
                made[THREADS](found[-1], a)
            np.testing.assert_array_equal(found[1], found[0])


def test_only_a_number_of_the_text_counts_from_the_end(mistake: Any) -> None:
    @pyasc.kernel(debug=True)
    def before(out: Any, x: Any) -> None:
        i = pyasc.get_global_id(0)
        out[i] = x[-9]  # here

    with mistake(IndexError, "inside x, of shape (8,)", "given -9"):
        before[3](pyasc.zeros(3), pyasc.ones(8))


def test_numbers_print_as_numbers(capsys: Any) -> None:
    @pyasc.kernel(debug=True)
    def shown(out: Any, x: Any, n: int) -> None:
        i = pyasc.get_global_id(0)
        print(i, x[i], n, x.shape, f"{x[i]:.2f}", f"{i:02d}", [x[i] > 1])
        assert x[i] == pytest.approx(1.5)
        out[i] = x[i]

    shown[1](pyasc.zeros(1), pyasc.asarray([1.5]), 3)
    assert capsys.readouterr().out == "0 1.5 3 (1,) 1.50 00 [True]\n"
