"""Operators: kernels registered as operations, with rules for outputs, references, gradients and sources."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import pyasc
from pyasc.dsl.foreign import FFI
from pyasc.dsl.kernel import kernel
from pyasc.dsl.language import atomic_add, get_global_id
from pyasc.dsl.operators import operators, register_operator, unregister_operator
from pyasc.dsl.operators.ascend_source import AscendC
from pyasc.dsl.operators.writes import written
from pyasc.ops import registry


@pytest.fixture(autouse=True)
def _none_is_left() -> Iterator[None]:
    yield
    for entry in operators():
        unregister_operator(entry.name)


@kernel
def scaled_add(out: Any, x: Any, y: Any, factor: float = 2.0) -> None:
    """The first and a multiple of the second."""
    i = get_global_id(0)
    out[i] = x[i] + factor * y[i]


@kernel
def smooth(x: Any) -> Any:
    return x * x / (1.0 + x * x)


@kernel
def product(c: Any, a: Any, b: Any) -> None:
    i, j = get_global_id(0), get_global_id(1)
    total = 0.0
    for k in range(a.shape[1]):
        total += a[i, k] * b[k, j]
    c[i, j] = total


@kernel
def inner_only(out: Any, x: Any) -> None:
    i = get_global_id(0)
    if 0 < i < x.shape[0] - 1:
        out[i] = x[i - 1] + x[i + 1]


@kernel
def histogram(x: Any, counts: Any) -> None:
    i = get_global_id(0)
    atomic_add(counts, x[i], 1)


@kernel
def sum_and_difference(x: Any, y: Any, total: Any, gap: Any) -> None:
    i = get_global_id(0)
    total[i] = x[i] + y[i]
    gap[i] = x[i] - y[i]


def store_at(target: Any, index: int, value: float) -> None:
    target[index] = value


@kernel
def through_a_function(x: Any, out: Any) -> None:
    i = get_global_id(0)
    store_at(out, i, x[i] + 1)


def reference(x: Any, y: Any, factor: float = 2.0) -> Any:
    return (x + np.float32(factor) * y).astype(x.dtype)


def random(*shape: int, dtype: str = "float32") -> Any:
    return np.random.default_rng(0).normal(size=shape).astype(dtype)


# --- what a kernel writes -----------------------------------------------------------------------------------


def test_outputs_are_found() -> None:
    assert written(scaled_add.function) == {"out": False}
    assert written(histogram.function) == {"counts": True}
    assert written(sum_and_difference.function) == {"total": False, "gap": False}
    assert written(through_a_function.function) == {"out": False}
    assert written(smooth.function) == {}


# --- registering --------------------------------------------------------------------------------------------


def test_name() -> None:
    made = register_operator("scaled_add", scaled_add)
    assert pyasc.scaled_add is made and hasattr(pyasc, "scaled_add")
    assert registry.find("scaled_add", "operators").function is made
    assert "scaled_add" not in registry.public()
    namespace: dict[str, Any] = {}
    exec("from pyasc import scaled_add", namespace)
    assert namespace["scaled_add"] is made
    assert pickle.loads(pickle.dumps(made)) is made and copy.deepcopy(made) is made
    assert made.__doc__ == "The first and a multiple of the second." and repr(made) == (
        "<pyasc operator scaled_add(x, y, factor)>"
    )
    again = register_operator("scaled_add", smooth, replace=True)
    assert pyasc.scaled_add is again and len(operators()) == 1
    unregister_operator("scaled_add")
    assert not hasattr(pyasc, "scaled_add") and not operators()
    with pytest.raises(ValueError):
        pickle.loads(pickle.dumps(made))


def test_table() -> None:
    register_operator("scaled_add", scaled_add, reference=reference)
    register_operator("smooth", smooth, gradient=lambda c, x: c)
    assert str(operators()).splitlines() == [
        "name        inputs        outputs  reference  gradient  Ascend C",
        "scaled_add  x, y, factor  out      yes        no        generated",
        "smooth      x             a map's  no         yes       generated",
    ]


# --- calling ------------------------------------------------------------------------------------------------


def test_tensors() -> None:
    made = register_operator("scaled_add", scaled_add)
    x, y = random(1000), random(1000)
    given = made(pyasc.asarray(x), pyasc.asarray(y), 3.0)
    assert isinstance(given, pyasc.Tensor) and given.pending
    np.testing.assert_array_equal(given.numpy(), reference(x, y, 3.0))
    np.testing.assert_array_equal(made(pyasc.asarray(x), y=pyasc.asarray(y)).numpy(), reference(x, y))
    (given + 1).numpy()


def test_arrays_of_numpy_are_read_and_written_in_place() -> None:
    made = register_operator("scaled_add", scaled_add)
    x, y = random(64), random(64)
    given = made(x, y, 3.0)
    assert type(given) is np.ndarray
    np.testing.assert_array_equal(given, reference(x, y, 3.0))
    out = np.full(64, 7, np.float32)
    assert made(x, y, 3.0, out=out) is out
    np.testing.assert_array_equal(out, reference(x, y, 3.0))
    wide = np.zeros((64, 3), np.float32)
    made(x, y, 3.0, out=wide[:, 1])
    np.testing.assert_array_equal(wide, np.stack([x * 0, out, x * 0], axis=1))
    np.testing.assert_array_equal(made(x[::-2], y[::2], 3.0), reference(x[::-2], y[::2], 3.0))
    mixed = made(pyasc.asarray(x), y, 3.0)
    y[:] = 0
    np.testing.assert_array_equal(mixed.numpy(), out)


def test_out_of_tensors() -> None:
    made = register_operator("scaled_add", scaled_add)
    x, y = pyasc.asarray(random(33)), pyasc.asarray(random(33))
    out = pyasc.ones((33,))
    assert made(x, y, 3.0, out=out) is out
    np.testing.assert_array_equal(out.numpy(), reference(x.numpy(), y.numpy(), 3.0))


def test_map() -> None:
    made = register_operator("smooth", smooth)
    x = random(5, 7)
    np.testing.assert_allclose(made(pyasc.asarray(x)).numpy(), x * x / (1 + x * x), rtol=1e-6)
    assert type(made(x)) is np.ndarray
    out = np.zeros((5, 7), np.float32)
    assert made(x, out=out) is out
    np.testing.assert_array_equal(out, made(x))


def test_c_function() -> None:
    twice = FFI(source="float twice(float x) { return 2 * x; }").get_function("twice", "float(float)")
    made = register_operator("twice", twice, reference=lambda x: 2 * x)
    x = random(9)
    np.testing.assert_array_equal(made(x), 2 * x)
    out = pyasc.zeros((9,))
    made(pyasc.asarray(x), out=out)
    np.testing.assert_array_equal(out.numpy(), 2 * x)
    assert made.check(x, backends=["cpu"])


def test_rules() -> None:
    made = register_operator("product", product, shape=lambda a, b: (a.shape[0], b.shape[1]))
    a, b = random(5, 9), random(9, 4)
    np.testing.assert_allclose(made(a, b), a @ b, rtol=1e-5, atol=1e-5)
    bins = register_operator("bins", histogram, shape=16, dtype="int32", grid=lambda x: x.shape[0])
    x = np.arange(100, dtype=np.int32) % 16
    np.testing.assert_array_equal(bins(x), np.bincount(x, minlength=16))
    assert bins(pyasc.asarray(x)).dtype == np.int32
    counts = np.full(16, 9, np.int32)
    np.testing.assert_array_equal(bins(x, out=counts), np.bincount(x, minlength=16))
    more = register_operator("more", histogram, shape=16, dtype=lambda x: x.dtype, fill=None, grid=100)
    np.testing.assert_array_equal(more(x, out=counts), 2 * np.bincount(x, minlength=16))


def test_elements_that_the_kernel_leaves_alone() -> None:
    made = register_operator("inner_only", inner_only)
    x = random(8)
    expected = np.concatenate([[0], x[:-2] + x[2:], [0]]).astype("f4")
    for _ in range(3):
        np.testing.assert_array_equal(made(pyasc.asarray(x)).numpy(), expected)
    other = register_operator("other", inner_only, fill=5)
    assert other(x)[0] == 5


def test_several_outputs() -> None:
    made = register_operator(
        "sum_and_difference",
        sum_and_difference,
        shape=lambda x, y: [(x.shape, x.dtype), (x.shape, "float64")],
    )
    x, y = random(10), random(10)
    total, gap = made(x, y)
    np.testing.assert_array_equal(total, x + y)
    np.testing.assert_array_equal(gap, (x - y).astype("f8"))
    assert gap.dtype == np.float64
    outs = (np.zeros(10, "f4"), np.zeros(10))
    assert made(x, y, out=outs)[1] is outs[1]
    np.testing.assert_array_equal(outs[1], gap)


def test_nothing_to_do() -> None:
    made = register_operator("scaled_add", scaled_add)
    assert made(np.zeros(0, "f4"), np.zeros(0, "f4")).shape == (0,)


def test_in_a_traced_function() -> None:
    made = register_operator("scaled_add", scaled_add)
    traced = pyasc.jit(lambda x, y: made(x * 2, y, 3.0) + 1)
    for seed in (1, 2):
        x, y = random(20) * seed, random(20)
        given = traced(pyasc.asarray(x), pyasc.asarray(y)).numpy()
        np.testing.assert_array_equal(given, reference(x * 2, y, 3.0) + 1)


# --- references and gradients -------------------------------------------------------------------------------


def test_check() -> None:
    made = register_operator("scaled_add", scaled_add, reference=reference)
    report = made.check(random(300), random(300), 0.5)
    assert report and [row.backend for row in report.rows] == ["cpu", "sim"], str(report)
    wrong = register_operator("wrong", scaled_add, reference=lambda x, y, factor: x)
    report = wrong.check(random(300), random(300), 0.5, backends=["cpu"])
    assert not report
    text = str(report)
    assert "DIFFERS" in text and "differs at out[" in text and "expected" in text
    shape = register_operator("shape", scaled_add, reference=lambda x, y, factor: x[:2])
    assert "expected (2,)" in str(shape.check(random(3), random(3), 1.0, backends=["cpu"]))
    assert wrong.check(random(3), random(3) * 0, 0.5, backends=["cpu"], rtol=0.0)


def test_gradients() -> None:
    made = register_operator("scaled_add", scaled_add, gradient=lambda c, x, y, factor: (c, factor * c, None))
    x, y, c = random(6), random(6), random(6)
    dx, dy = made.vjp(pyasc.asarray(c), pyasc.asarray(x), pyasc.asarray(y), 3.0)
    np.testing.assert_array_equal(dx.numpy(), c)
    np.testing.assert_array_equal(dy.numpy(), np.float32(3) * c)
    dx, dy = made.vjp(c, x, y, 3.0)
    assert type(dy) is np.ndarray
    np.testing.assert_array_equal(dy, np.float32(3) * c)
    # A gradient that is the cotangent itself, or serves two inputs, has memory of its own.
    same = register_operator("same", scaled_add, gradient=lambda c, x, y, factor: (c, c))
    dx, dy = same.vjp(c, x, y, 3.0)
    dx[0] = 99
    assert c[0] != 99 and dy[0] != 99
    only = register_operator("smooth", smooth, gradient=lambda c, x: c * 2 * x / (1 + x * x) ** 2)
    np.testing.assert_allclose(only.vjp(c, x), c * 2 * x / (1 + x * x) ** 2, rtol=1e-5)


# --- PyTorch ------------------------------------------------------------------------------------------------


def test_torch() -> None:
    torch = pytest.importorskip("torch")
    made = register_operator("scaled_add", scaled_add, gradient=lambda c, x, y, factor: (c, factor * c))
    x, y = torch.randn(50), torch.randn(50)
    given = made(x, y, 3.0)
    assert isinstance(given, torch.Tensor) and torch.allclose(given, x + 3 * y)
    out = torch.zeros(50)
    assert made(x, y, 3.0, out=out) is out and torch.equal(out, given)
    half = made(x.to(torch.bfloat16), y.to(torch.bfloat16), 1.0)
    assert half.dtype == torch.bfloat16 and torch.allclose(half.float(), x + y, rtol=2e-2, atol=2e-2)
    x.requires_grad_()
    y.requires_grad_()
    made(x, y, 3.0).sum().backward()
    assert torch.equal(x.grad, torch.ones(50)) and torch.equal(y.grad, torch.full((50,), 3.0))
    with pytest.raises(NotImplementedError, match="no out"):
        made(x, y, 3.0, out=out)
    with pytest.raises(TypeError, match="complex64"):
        made(torch.ones(3, dtype=torch.complex64), y, 3.0)
    numpy = np.ones(50, np.float32)
    x.grad = None
    made(x, numpy, 3.0).sum().backward()
    assert torch.equal(x.grad, torch.ones(50))
    plain = register_operator("plain", scaled_add)
    with pytest.raises(NotImplementedError, match="gradient"):
        plain(x, y, 3.0)
    with torch.no_grad():
        assert torch.equal(plain(x, y, 3.0), given)
    with pytest.raises(ValueError, match="layout"):
        made(torch.eye(3).to_sparse(), y, 1.0)


def test_torch_is_not_imported(run_python: Any) -> None:
    said = run_python("""
        import sys, numpy as np, pyasc
        from pyasc.dsl.operators import register_operator
        from pyasc.dsl.foreign import FFI
        f = FFI(source="float f(float x) { return x; }").get_function("f", "float(float)")
        print(register_operator("unchanged", f)(np.ones(3, "f4")), "torch" in sys.modules)
    """)
    assert said.stdout.split("]")[1].split() == ["False"]


# --- Ascend C of one's own ----------------------------------------------------------------------------------

OWN = """#include "kernel_operator.h"
struct Tiling {
    uint32_t length;
    float factor;
};
extern "C" __global__ __aicore__ void own(GM_ADDR out, GM_ADDR x, GM_ADDR y, Tiling tiling) {
    AscendC::GlobalTensor<float> o, a, b;
    o.SetGlobalBuffer((__gm__ float*)out, tiling.length);
    a.SetGlobalBuffer((__gm__ float*)x, tiling.length);
    b.SetGlobalBuffer((__gm__ float*)y, tiling.length);
    for (uint32_t i = 0; i < tiling.length; ++i) {
        o.SetValue(i, a.GetValue(i) + tiling.factor * b.GetValue(i));
    }
}
"""


def test_own_source() -> None:
    own = AscendC(OWN, sizes=lambda out, x, y: {"length": out[0]}, blocks=1)
    made = register_operator("scaled_add", scaled_add, reference=reference, ascendc=own)
    x, y = random(40), random(40)
    with pyasc.backend("sim"):
        for factor in (0.5, 3.0):
            given = made(pyasc.asarray(x), pyasc.asarray(y), factor)
            (info,) = (k for k in pyasc.explain(given).kernels if k.name == "scaled_add")
            assert info.source("ascendc") == OWN and "own Ascend C" in info.reason
            np.testing.assert_array_equal(given.numpy(), reference(x, y, factor))
        np.testing.assert_array_equal(made(x[::2], y[::2], 2.0), reference(x[::2], y[::2]))
    np.testing.assert_array_equal(made(x, y, 2.0), reference(x, y))
    assert made.check(x, y, 2.0)


def test_what_own_source_lacks() -> None:
    x = random(40)
    made = register_operator("scaled_add", scaled_add, ascendc=OWN)
    with pyasc.backend("sim"), pytest.raises(pyasc.errors.BackendError, match=r"sizes=.* given no length"):
        made(x, x, 2.0)
    np.testing.assert_array_equal(made(x, x, 2.0), reference(x, x))


def test_fault_in_own_source() -> None:
    own = AscendC(OWN, sizes=lambda out, x, y: {"length": out[0] + 1}, blocks=1)
    made = register_operator("scaled_add", scaled_add, ascendc=own)
    with pyasc.backend("sim"), pytest.raises(pyasc.errors.SimulationError, match="own"):
        made(random(40), random(40), 2.0)


@kernel
def doubled(out: Any, x: Any) -> None:
    i = get_global_id(0)
    out[i] = 2 * x[i]


@pytest.mark.parametrize("make", [np.array, pyasc.asarray])
def test_an_output_that_is_an_input_is_filled_after_it_was_read(make: Any) -> None:
    operator = register_operator("doubled_of_these_tests", doubled)
    try:
        x = make(np.arange(6, dtype="f4"))
        operator(x, out=x)
        assert np.array_equal(np.asarray(x), 2 * np.arange(6))
        operator(x[1:4], out=x[2:5])
        assert np.array_equal(np.asarray(x), [0, 2, 4, 8, 12, 10])
    finally:
        unregister_operator("doubled_of_these_tests")
