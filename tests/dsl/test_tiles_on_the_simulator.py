"""Tile-style kernels on the simulated chip, and what they cost there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tile_kernels as kernels
from test_tiles import normal, raised, shifted

import pyasc
from pyasc.backend.sim.backend import cost
from pyasc.dsl.signature import Options


@pytest.mark.parametrize("n", [4097])
def test_vectors(n: int) -> None:
    with pyasc.backend("sim"):
        a, b = normal(n), normal(n)
        c, d = pyasc.zeros(n, dtype="float32"), pyasc.zeros(n, dtype="float32")
        pyasc.kernel(kernels.larger)(c, d, pyasc.array(a), pyasc.array(b), n)
        assert np.array_equal(np.asarray(c), np.maximum(a, b))
        assert np.array_equal(np.asarray(d), np.maximum(a, b) - a)


@pytest.mark.parametrize("optimize", [True, False])
def test_products(optimize: bool) -> None:
    matmul = pyasc.kernel(optimize=optimize)(kernels.matmul)
    sizes = ((1, 1, 1), (129, 300, 70)) if optimize else ((130, 17, 70),)
    with pyasc.backend("sim"):
        for m, n, k in sizes:
            a, b = normal(m, k, dtype="float16"), normal(k, n, dtype="float16")
            c = pyasc.zeros((m, n), dtype="float16")
            matmul(c, pyasc.array(a), pyasc.array(b), m, n, k)
            exact = a.astype("float32") @ b.astype("float32")
            assert np.allclose(np.asarray(c).astype("float32"), exact, rtol=2e-3, atol=2e-2)


def test_a_product_with_what_follows_it() -> None:
    with pyasc.backend("sim"):
        a, b, d = normal(33, 20, dtype="float16"), normal(20, 70, dtype="float16"), normal(33, 70)
        c = pyasc.zeros((33, 70), dtype="float32")
        pyasc.kernel(kernels.dense)(c, *map(pyasc.array, (a, b, d)))
        exact = np.maximum(a.astype("float32") @ b.astype("float32") + d, 0)
        assert np.allclose(np.asarray(c), exact, atol=1e-3)


def test_parts_of_arrays() -> None:
    """Views with an offset and a pitch of their own; what lies around them stays."""
    with pyasc.backend("sim"):
        a, b = normal(40, 50, dtype="float16"), normal(60, 70, dtype="float16")
        c = pyasc.zeros((50, 90), dtype="float32")
        left, right = pyasc.array(a)[3:38, 5:45], pyasc.array(b)[10:50, 1:34]
        pyasc.kernel(kernels.small_matmul)(c[4:39, 7:40], left, right)
        expected = np.zeros((50, 90), "float32")
        expected[4:39, 7:40] = a[3:38, 5:45].astype("float32") @ b[10:50, 1:34].astype("float32")
        assert np.allclose(np.asarray(c), expected, atol=1e-3)


def test_rows_and_conversions() -> None:
    with pyasc.backend("sim"):
        a = normal(37, 100)
        s = pyasc.zeros(37, dtype="float32")
        pyasc.kernel(kernels.row_sums)(s, pyasc.array(a), 100)
        assert np.allclose(np.asarray(s), a.sum(axis=1), atol=1e-4)
        half = pyasc.zeros(3700, dtype="float16")
        pyasc.kernel(kernels.convert)(half, pyasc.array(a.reshape(-1)), 3700)
        assert np.array_equal(np.asarray(half), a.reshape(-1).astype("float16"))


def test_reductions() -> None:
    with pyasc.backend("sim"):
        a = normal(9, 200)
        c, s = pyasc.zeros((9, 200), dtype="float32"), pyasc.zeros((1, 200), dtype="float32")
        pyasc.kernel(kernels.softmax)(c, pyasc.array(a))
        e = np.exp(a - a.max(axis=1, keepdims=True))
        assert np.allclose(np.asarray(c), e / e.sum(axis=1, keepdims=True), atol=1e-5)
        pyasc.kernel(kernels.column_sums)(s, pyasc.array(a))
        assert np.allclose(np.asarray(s)[0], a.sum(axis=0), atol=1e-4)


def test_in_place() -> None:
    with pyasc.backend("sim"):
        a = normal(100)
        s, e = pyasc.ones(1, dtype="float32"), pyasc.array(a)
        pyasc.kernel(kernels.total)(s, e, 100)
        assert np.allclose(np.asarray(s), 1 + a.sum(), atol=1e-4)
        pyasc.kernel(kernels.exponential)(e, 100)
        assert np.allclose(np.asarray(e), np.exp(a), rtol=1e-5)


def test_what_has_no_whole_is_scalar_code() -> None:
    with pyasc.backend("sim"):
        a = normal(20)
        c = pyasc.zeros(20, dtype="float32")
        pyasc.kernel(shifted)(c, pyasc.array(a), 20)
        assert np.array_equal(np.asarray(c), a)


# --- what they cost --------------------------------------------------------------------------------------


def costed(function: Callable[..., Any], options: Options | None = None, **arguments: Any) -> Any:
    (part,) = raised(function, options, **arguments)
    generated = part.kernel if part.call else part.backend.generate(part.kernel, part.binding)
    sizes = tuple(
        size * p.dtype.itemsize for size, p in zip(part.binding.sizes, generated.parameters, strict=False)
    )
    return cost(generated, generated.bind(part.binding), sizes)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_a_vector_kernel_is_bound_by_memory(dtype: str) -> None:
    n = 1 << 26
    a, b, c = (np.empty(n, dtype) for _ in range(3))
    found = costed(kernels.add, c=c, a=a, b=b, n=n)
    assert found.efficiency >= 0.9


def test_a_product_costs_what_array_code_does() -> None:
    side = 4096
    a, b, c = (np.empty((side, side), "float16") for _ in range(3))
    arguments = {"c": c, "a": a, "b": b, "m": side, "n": side, "k": side}
    found = costed(kernels.matmul, **arguments).time_us
    tensor = pyasc.empty((side, side), pyasc.float16)
    assert found <= 1.03 * pyasc.cost(lambda x, y: x @ y, tensor, tensor).time_us
    plain = costed(kernels.matmul, Options(optimize=False), **arguments).time_us
    assert plain >= 1.6 * found
