"""Modules: what is registered, state, files, casts, modes, and modules under jit."""

from __future__ import annotations

import copy
import pickle
from collections import OrderedDict
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pyasc
from pyasc import nn


class Block(nn.Module):
    def __init__(self) -> None:
        self.scale = nn.Parameter(pyasc.full((3,), 2.0))
        self.register_buffer("seen", pyasc.zeros(2))
        self.register_buffer("scratch", pyasc.zeros(1), persistent=False)
        self.none = None
        self.size = 3

    def forward(self, x: Any) -> Any:
        return x * self.scale


class Net(nn.Module):
    def __init__(self) -> None:
        self.blocks = [Block(), Block()]
        self.heads = {"a": nn.Linear(3, 2), "b": (nn.Linear(3, 1, bias=False),)}
        self.last = nn.Linear(3, 4)

    def forward(self, x: Any) -> Any:
        for block in self.blocks:
            x = block(x)
        return self.last(x)


NAMES = [
    "blocks.0.scale",
    "blocks.1.scale",
    "heads.a.weight",
    "heads.a.bias",
    "heads.b.0.weight",
    "last.weight",
    "last.bias",
]


def test_what_attributes_hold_is_found_by_name() -> None:
    net = Net()
    assert [name for name, _ in net.named_parameters()] == NAMES
    assert all(type(p) is nn.Parameter for p in net.parameters())
    assert [name for name, _ in net.named_buffers()] == [
        f"blocks.{k}.{name}" for k in (0, 1) for name in ("seen", "scratch")
    ]
    assert [name for name, _ in net.named_modules()] == [
        "", "blocks.0", "blocks.1", "heads.a", "heads.b.0", "last"
    ]  # fmt: skip
    assert list(net.children()) == [*net.blocks, net.heads["a"], net.heads["b"][0], net.last]
    assert [name for name, _ in net.named_parameters("net", recurse=False)] == []
    assert next(net.blocks[0].named_parameters("front"))[0] == "front.scale"


def test_a_parameter_is_a_tensor_that_stays_the_same_object() -> None:
    net = Net()
    parameter = net.last.weight
    before = np.array(parameter)
    net.last.weight -= 0.5
    parameter *= 2
    parameter[0] = 7.0
    assert net.last.weight is parameter and type(parameter) is nn.Parameter
    expected = (before - np.float32(0.5)) * 2
    expected[0] = 7
    np.testing.assert_array_equal(parameter, expected)
    assert isinstance(parameter, pyasc.Tensor)
    assert type(parameter + 1) is type(parameter.T) is type(np.sin(parameter)) is pyasc.Tensor
    assert repr(nn.Parameter([1.0])) == "pyasc.Parameter([1.], dtype=float32)"


def test_a_parameter_has_storage_of_its_own() -> None:
    data = pyasc.arange(4.0)
    for given in (data, data[::2], data.reshape(2, 2)):
        parameter = nn.Parameter(given)
        assert parameter.base is None and parameter.shape == given.shape
        parameter += 1
        np.testing.assert_array_equal(parameter, np.array(given) + 1)
    np.testing.assert_array_equal(data, np.arange(4))


@pytest.mark.parametrize("again", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_of_a_module(again: Any) -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    made = again(net)
    assert type(made[0].weight) is nn.Parameter and made[0].weight is not net[0].weight
    net[0].weight += 1
    np.testing.assert_array_equal(made[0].weight + 1, net[0].weight)


def test_shared_parameters_count_once_and_stay_shared() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            self.embedding = nn.Embedding(5, 3)
            self.out = nn.Linear(3, 5, bias=False)
            self.out.weight = self.embedding.weight

    tied = Tied()
    assert [name for name, _ in tied.named_parameters()] == ["embedding.weight"]
    assert list(tied.state_dict()) == ["embedding.weight", "out.weight"]
    tied.to(pyasc.float16)
    assert tied.out.weight is tied.embedding.weight and tied.out.weight.dtype == pyasc.float16


def test_a_parent_may_be_held_by_its_child() -> None:
    net = Net()
    net.last.parent = net
    assert [name for name, _ in net.named_parameters()] == NAMES
    np.testing.assert_array_equal(pyasc.jit(lambda x: net(x))(pyasc.ones(3)), net(pyasc.ones(3)))


def test_state_goes_from_one_module_to_another() -> None:
    one, other = Net(), Net()
    state = one.state_dict()
    assert list(state) == [
        "blocks.0.scale", "blocks.0.seen", "blocks.1.scale", "blocks.1.seen", *NAMES[2:]
    ]  # fmt: skip
    kept = other.last.weight
    assert other.load_state_dict(state) == ((), ())
    assert other.last.weight is kept
    x = pyasc.ones((2, 3))
    np.testing.assert_array_equal(other(x), one(x))
    before = np.array(one.last.weight)
    one.last.weight += 1
    np.testing.assert_array_equal(state["last.weight"], before)
    np.testing.assert_array_equal(other.last.weight, before)


def test_a_state_that_does_not_fit_writes_nothing() -> None:
    net = nn.Linear(2, 2)
    before = np.array(net.weight)
    with pytest.raises(ValueError, match=r"without bias and with unknown b; strict=False"):
        net.load_state_dict({"weight": np.ones((2, 2)), "b": np.ones(2)})
    with pytest.raises(ValueError, match=r"\(2,\) for bias, given \(3,\)"):
        net.load_state_dict({"weight": np.ones((2, 2)), "bias": np.ones(3)})
    np.testing.assert_array_equal(net.weight, before)
    found = net.load_state_dict({"weight": np.ones((2, 2)), "b": np.ones(2)}, strict=False)
    assert found == (("bias",), ("b",))
    np.testing.assert_array_equal(net.weight, np.ones((2, 2)))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_files(tmp_path: Path, dtype: str) -> None:
    pytest.importorskip("safetensors")
    net = Net().to(dtype)
    net.last.bias[...] = 0.1
    net.save(tmp_path / "net.safetensors")
    other = Net().to(dtype)
    other.load(tmp_path / "net.safetensors")
    for (_, a), (_, b) in zip(net.named_parameters(), other.named_parameters(), strict=True):
        assert b.dtype == dtype
        np.testing.assert_array_equal(np.array(a, np.float32), np.array(b, np.float32))
    assert Net().load(tmp_path / "net.safetensors") == ((), ())  # cast


def test_files_of_other_writers(tmp_path: Path) -> None:
    numpy = pytest.importorskip("safetensors.numpy")
    arrays = {
        "weight": np.arange(6, dtype=ml_dtypes.bfloat16).reshape(2, 3),
        "count": np.array(3),
        "none": np.zeros((0, 4), np.float16),
        "mask": np.array([True, False]),
    }
    numpy.save_file(arrays, tmp_path / "a.safetensors")
    loaded = nn.load(tmp_path / "a.safetensors")
    for name, array in arrays.items():
        assert loaded[name].dtype == array.dtype and loaded[name].shape == array.shape
        np.testing.assert_array_equal(np.array(loaded[name]), array)
    doubled = loaded["weight"] * 2 + 1
    loaded["weight"] += 1
    np.testing.assert_array_equal(np.array(doubled, "f4"), np.arange(6).reshape(2, 3) * 2 + 1)
    np.testing.assert_array_equal(np.array(loaded["weight"], "f4"), np.arange(6).reshape(2, 3) + 1)
    nn.save({"t": loaded["weight"].T}, tmp_path / "b.safetensors")
    np.testing.assert_array_equal(numpy.load_file(tmp_path / "b.safetensors")["t"], loaded["weight"].T)


def test_to_casts_floats_only() -> None:
    net = Net()
    net.register_buffer("count", pyasc.zeros(1, dtype=pyasc.int64))
    assert net.to("float16") is net and net.to("cpu") is net
    assert {p.dtype.name for p in net.parameters()} == {"float16"}
    assert net.count.dtype == pyasc.int64 and net.blocks[0].seen.dtype == pyasc.float16
    assert net(pyasc.ones((2, 3), dtype=pyasc.float16)).dtype == pyasc.float16
    kept = net.last.weight
    net.to(dtype=pyasc.float16, device="cpu")
    assert net.last.weight is kept


def test_modes() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Dropout(0.5)))
    assert net.training and net[1][0].training
    assert net.eval() is net
    assert not net.training and not net[1][0].training
    assert net.train()[1][0].training


def test_jit_sees_parameters_and_modes() -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.LayerNorm(4), nn.Dropout(0.5))).eval()
    x = pyasc.linspace(0, 1, 8).reshape(2, 4)
    for jitted in (pyasc.jit(net), pyasc.jit(net.forward), pyasc.jit(lambda v: net(v))):
        np.testing.assert_allclose(jitted(x), net(x), rtol=1e-6)
        net[0].weight -= 0.25
        net[1][0].bias = nn.Parameter(pyasc.full((4,), 3.0))
        np.testing.assert_allclose(jitted(x), net(x), rtol=1e-6)
        assert jitted.cache_info().misses == 1
        net.train()
        assert (np.array(jitted(x)) == 0).any()
        net.eval()
        np.testing.assert_allclose(jitted(x), net(x), rtol=1e-6)
        assert jitted.cache_info().misses == 2


def test_jit_writes_to_parameters() -> None:
    net = nn.Linear(2, 2)
    before = np.array(net.bias)

    @pyasc.jit
    def step(rate: float, gradient: Any) -> None:
        net.bias -= rate * gradient

    for _ in range(3):
        step(0.5, pyasc.ones(2))
    np.testing.assert_allclose(net.bias, before - 1.5, rtol=1e-6)
    assert type(net.bias) is nn.Parameter


def test_text() -> None:
    net = nn.Sequential(
        OrderedDict(
            first=nn.Conv2d(3, 4, 3, padding=1, bias=False),
            rest=nn.Sequential(nn.Linear(2, 3), nn.Softmax()),
        )
    )
    assert repr(net) == (
        "Sequential(\n"
        "  (first): Conv2d(3, 4, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), bias=False)\n"
        "  (rest): Sequential(\n"
        "    (0): Linear(in_features=2, out_features=3, bias=True)\n"
        "    (1): Softmax(dim=-1)\n"
        "  )\n"
        ")"
    )


def test_modules_that_hold_each_other_have_a_text_and_names() -> None:
    outer = nn.Sequential(nn.ReLU())
    inner = pyasc.Module()
    inner.parent = outer  # type: ignore[attr-defined]
    outer.append(inner)
    assert repr(outer).count("ReLU") == 1 and "(parent): Sequential(…)" in repr(outer)


def test_what_is_appended_after_a_deletion_takes_a_name_of_its_own() -> None:
    layers = nn.Sequential(nn.ReLU(), nn.GELU(), nn.ReLU())
    delattr(layers, "1")
    layers.append(nn.Softmax())
    assert [type(layer).__name__ for layer in layers] == ["ReLU", "ReLU", "Softmax"]
