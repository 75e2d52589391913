"""PyTorch's tensors on an NPU: the same memory, the same stream, both ways."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from pretended_torch import Torch
from standin.machine import Machine
from standin.toolkit import Toolkit

import pyasc
from pyasc import interop
from pyasc.backend import _runtime
from pyasc.lazy import evaluate


def _forget() -> None:
    """Have what imports PyTorch import it again."""
    for name in ("pyasc.interop.torch", "pyasc.interop.npu", "pyasc.dsl.on_device"):
        if sys.modules.pop(name, None) is not None:
            folder, _, own = name.rpartition(".")
            delattr(sys.modules[folder], own)


@pytest.fixture
def torch(npu_machine: Machine, toolkit: Toolkit, monkeypatch: pytest.MonkeyPatch) -> Iterator[Torch]:
    """A pretended PyTorch beside pyasc, each with streams of its own, that run late."""
    monkeypatch.setenv("STANDIN_DELAY_US", "500")
    npu_machine.reset()
    made = Torch(toolkit.library)
    _forget()
    monkeypatch.setitem(sys.modules, "torch", made)
    monkeypatch.setitem(sys.modules, "torch_npu", made.torch_npu)
    monkeypatch.setattr(interop, "_libraries", {})
    made.begin()
    yield made
    pyasc.sync()
    pyasc.clear_cache()
    evaluate._backends.pop("npu:0", None)
    gc.collect()
    _runtime.device_shut_down()
    made.end()
    _forget()


def random(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(3).uniform(-2, 2, shape).astype(np.float32)


def test_a_tensor_of_pytorch_is_read_in_its_memory(torch: Torch) -> None:
    """After what PyTorch put into its stream before, and without a copy by way of the host."""
    values = random(40, 50)
    given = torch.npu_tensor(values)
    x = pyasc.from_dlpack(given)
    assert x.device == "npu:0" and x.shape == (40, 50)
    before = pyasc.memory_stats("npu:0")
    y = x * 2 + 1
    assert y.device == "npu:0"
    assert np.allclose(y.numpy(), values * 2 + 1, rtol=1e-6)
    after = pyasc.memory_stats("npu:0")
    assert after["uploads"] == before["uploads"] and after["launches"] > before["launches"]


def test_views_and_copies(torch: Torch) -> None:
    values = random(6, 8)
    given = torch.npu_tensor(values)
    wanted = np.lib.stride_tricks.as_strided(values.ravel()[1:], (7, 3), (4, 64))
    assert np.array_equal((pyasc.from_dlpack(given.part(1, (7, 3), (1, 16))) + 0).numpy(), wanted)
    copied = pyasc.asarray(given)
    given.copy_(values * 0)
    assert np.array_equal(copied.numpy(), values)


def test_a_tensor_for_pytorch(torch: Torch) -> None:
    """PyTorch waits for its own stream alone; the memory stays as long as PyTorch looks at it."""
    values = random(300, 100)
    x = pyasc.from_dlpack(torch.npu_tensor(values))
    y = pyasc.exp(x).sum(1)
    made = pyasc.to_torch(y)
    assert made.shape == (300,) and made.dtype is torch.float32
    del y
    pyasc.empty_cache("npu:0")
    assert np.allclose(made.numpy(), np.exp(values).sum(1), rtol=1e-5)
    part = pyasc.to_torch((x + 1)[2:7, ::3])
    assert np.allclose(part.numpy(), values[2:7, ::3] + 1)
    for name in ("int8", "int64", "float16", "bfloat16", "bool"):
        dtype = getattr(pyasc, "bool_" if name == "bool" else name)
        z = pyasc.ones((3, 4), dtype).to_device("npu:0")
        back = pyasc.to_torch(z)
        assert back.dtype is getattr(torch, name) and (back.numpy() == 1).all()
        assert z.__dlpack_device__() == (12, 0)
    empty = pyasc.to_torch(pyasc.ones((0, 3)).to_device("npu:0"))
    assert empty.shape == (0, 3)


def test_what_nobody_took_is_given_back(torch: Torch) -> None:
    from pyasc.interop import dlpack

    x = pyasc.ones(5).to_device("npu:0")
    capsule = x.__dlpack__()
    assert len(dlpack._held) == 1
    del capsule
    assert not dlpack._held
    made = pyasc.to_torch(x)
    assert len(dlpack._held) == 1
    del made
    assert not dlpack._held


@pyasc.kernel
def add_scaled(out: Any, x: Any, y: Any, factor: Any) -> None:
    i = pyasc.get_global_id(0)
    out[i] = x[i] + factor * y[i]


@pyasc.kernel
def doubled(x: Any) -> Any:
    return x * 2 + 1


@pytest.fixture
def operators() -> Iterator[None]:
    pyasc.register_operator("npu_add_scaled", add_scaled)
    pyasc.register_operator("npu_doubled", doubled)
    yield
    pyasc.unregister_operator("npu_add_scaled")
    pyasc.unregister_operator("npu_doubled")


def test_an_operator_called_with_tensors_of_pytorch(torch: Torch, operators: None) -> None:
    x, y = random(1000), random(1000) + 1
    for _ in range(3):
        a, b = torch.npu_tensor(x), torch.npu_tensor(y)
        made = pyasc.npu_add_scaled(a, b, 2.0)
        assert isinstance(made, torch.Tensor) and made.device.type == "npu"
        assert np.allclose(made.numpy(), x + 2 * y, rtol=1e-6)
        mapped = pyasc.npu_doubled(made)
        assert isinstance(mapped, torch.Tensor)
        assert np.allclose(mapped.numpy(), (x + 2 * y) * 2 + 1, rtol=1e-6)
        out = torch.npu_tensor(x * 0)
        assert pyasc.npu_add_scaled(a, b, 3.0, out=out) is out
        assert np.allclose(out.numpy(), x + 3 * y, rtol=1e-6)
        pyasc.npu_doubled(a, out=out)
        assert np.allclose(out.numpy(), x * 2 + 1, rtol=1e-6)
        # A result may be written over an input.
        pyasc.npu_add_scaled(a, b, 3.0, out=a)
        assert np.allclose(a.numpy(), x + 3 * y, rtol=1e-6)


def test_a_kernel_writes_into_tensors_of_pytorch(torch: Torch) -> None:
    x, y = random(64), random(64) + 1
    out = torch.npu_tensor(np.zeros(64, np.float32))
    given = torch.npu_tensor(x)
    add_scaled[64](out, given, y, 0.5)  # one array of the host, which is copied
    assert np.allclose(out.numpy(), x + 0.5 * y, rtol=1e-6)
    add_scaled[64](out, given, out, 1.0)
    assert np.allclose(out.numpy(), 2 * x + 0.5 * y, rtol=1e-6)


def test_mistakes(torch: Torch, mistake: Callable[..., Any]) -> None:
    given = torch.npu_tensor(random(64))
    with mistake(ValueError, "[add_scaled]", "on the NPU for out", "the host"):
        add_scaled[64](np.zeros(64, np.float32), given, given, 1.0)
    with mistake(ValueError, "[two_outputs]", "do not overlap", "share memory"):
        two_outputs[32](given.part(0, (40,), (1,)), given.part(20, (40,), (1,)))
    given.format = 29
    with mistake(ValueError, "[from_dlpack]", "format ND", "29", "npu_format_cast"):
        pyasc.from_dlpack(given)
    given.layout = "sparse"
    with mistake(ValueError, "[asarray]", "dense", "sparse"):
        pyasc.asarray(given)


@pyasc.kernel
def two_outputs(x: Any, y: Any) -> None:
    i = pyasc.get_global_id(0)
    x[i] = 1.0
    y[i] = 2.0
