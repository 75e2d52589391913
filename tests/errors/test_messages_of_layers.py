"""Messages of modules, layers and activation functions."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mistakes import Mistake, check, label, x

import pyasc
from pyasc import nn

HERE = Path(__file__)


def assigned(name: str, value: Any) -> None:
    setattr(nn.Linear(2, 2), name, value)


def with_tuple() -> None:
    module = nn.Module()
    module.pair = (nn.Parameter([1.0]),)
    module.to("float16")


def without_safetensors(call: Callable[[], Any]) -> None:
    known = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "safetensors"}
    for name in known:
        del sys.modules[name]
    sys.modules["safetensors"] = None  # type: ignore[assignment]
    try:
        call()
    finally:
        del sys.modules["safetensors"]
        sys.modules.update(known)


MODULES = [
    Mistake(NotImplementedError, ("[Module]", "forward", "Module"), lambda: nn.Module()(1)),
    Mistake(TypeError, ("[Module]", "weight", "Tensor", "[...]"), lambda: assigned("weight", x(2, 2))),
    Mistake(
        TypeError,
        ("[register_parameter]", "int"),
        lambda: nn.ReLU().register_parameter("a", 3),  # type: ignore[arg-type]
    ),
    Mistake(
        TypeError,
        ("[register_module]", "list"),
        lambda: nn.ReLU().register_module("a", []),  # type: ignore[arg-type]
    ),
    Mistake(TypeError, ("[Sequential]", "list"), lambda: nn.Sequential([nn.ReLU()])),
    Mistake(TypeError, ("[Parameter]", "int32"), lambda: nn.Linear(2, 2, dtype="int32")),
    Mistake(TypeError, ("[load_state_dict]", "list"), lambda: nn.ReLU().load_state_dict([])),
    Mistake(
        ValueError,
        ("[load_state_dict]", "without weight, bias", "unknown w", "strict=False"),
        lambda: nn.Linear(2, 2).load_state_dict({"w": 1}),
    ),
    Mistake(
        ValueError,
        ("[load_state_dict]", "(2,)", "bias", "(3,)"),
        lambda: nn.Linear(2, 2).load_state_dict({"weight": x(2, 2), "bias": x(3)}),
    ),
    Mistake(ValueError, ("[to]", "'cuda:0'", "pyasc.backend"), lambda: nn.ReLU().to("cuda:0")),
    Mistake(TypeError, ("[to]", "int32"), lambda: nn.ReLU().to(pyasc.int32)),
    Mistake(NotImplementedError, ("[to]", "tuple"), with_tuple),
    Mistake(IndexError, ("[Sequential]", "1 modules", "3"), lambda: nn.Sequential(nn.ReLU())[3]),
    Mistake(
        NotImplementedError,
        ("[load]", "pip install pyasc-tensor[nn]"),
        lambda: without_safetensors(lambda: nn.load("a")),
    ),
    Mistake(OSError, ("[save]", "/nowhere/a"), lambda: nn.save({"a": x(2)}, "/nowhere/a")),
    Mistake(ValueError, ("[load]", "safetensors file", HERE.name), lambda: nn.load(HERE)),
]

LAYERS = [
    Mistake(ValueError, ("[linear]", "(3, 4)", "(2, 5)"), lambda: nn.functional.linear(x(3, 4), x(2, 5))),
    Mistake(
        ValueError,
        ("[linear]", "(2,)", "(1,)"),
        lambda: nn.functional.linear(x(3, 4), x(2, 4), x(1)),
    ),
    Mistake(ValueError, ("[conv2d]", "(4,)"), lambda: nn.Conv2d(1, 1, 1)(x(4))),
    Mistake(ValueError, ("[conv2d]", "stride", "0"), lambda: nn.Conv2d(1, 1, 1, 0)(x(1, 4, 4))),
    Mistake(ValueError, ("[conv2d]", "pair", "stride"), lambda: nn.Conv2d(1, 1, 1, (1, 1, 1))),
    Mistake(ValueError, ("[conv2d]", "3 channels", "(1, 2, 1, 1)"), lambda: nn.Conv2d(2, 1, 1)(x(3, 4, 4))),
    Mistake(ValueError, ("[conv2d]", "(2, 2)", "(3, 3)"), lambda: nn.Conv2d(1, 1, 3)(x(1, 2, 2))),
    Mistake(
        ValueError,
        ("[conv2d]", "padding_mode", "reflect", "'mirror'"),
        lambda: nn.Conv2d(1, 1, 1, padding_mode="mirror")(x(1, 2, 2)),
    ),
    Mistake(
        ValueError,
        ("[conv2d]", "'same'", "(2, 2)"),
        lambda: nn.Conv2d(1, 1, 1, stride=2, padding="same")(x(1, 2, 2)),
    ),
    Mistake(ValueError, ("[conv2d]", "padding", "-1"), lambda: nn.Conv2d(1, 1, 1, padding=-1)(x(1, 2, 2))),
    Mistake(ValueError, ("[Conv2d]", "3 groups", "4 and 6"), lambda: nn.Conv2d(4, 6, 1, groups=3)),
    Mistake(ValueError, ("[layer_norm]", "(3,)", "(2, 4)"), lambda: nn.LayerNorm(3)(x(2, 4))),
    Mistake(TypeError, ("[layer_norm]", "int32"), lambda: nn.LayerNorm(3)(x(3, dtype="int32"))),
    Mistake(ValueError, ("[layer_norm]", "(3,)", "(1,)"), lambda: nn.functional.layer_norm(x(2, 3), 3, x(1))),
    Mistake(TypeError, ("[embedding]", "float32"), lambda: nn.Embedding(3, 2)(x(3))),
    Mistake(IndexError, ("[Embedding]", "3 rows", "3"), lambda: nn.Embedding(3, 2, padding_idx=3)),
    Mistake(ValueError, ("[Dropout]", "1.5"), lambda: nn.Dropout(1.5)),
    Mistake(ValueError, ("[dropout]", "-1"), lambda: nn.functional.dropout(x(3), -1)),
    Mistake(ValueError, ("[gelu]", "'tanh'", "'fast'"), lambda: pyasc.gelu(x(3), approximate="fast")),
]

MISTAKES = [*MODULES, *LAYERS]


@pytest.mark.parametrize("entry", MISTAKES, ids=label)
def test_mistake(entry: Mistake, mistake: Callable[..., Any]) -> None:
    check(entry, mistake)


def test_missing_files_are_pythons_own_error() -> None:
    with pytest.raises(FileNotFoundError):
        nn.load("/nowhere/a.safetensors")
    assert np.isnan(np.array(pyasc.relu(pyasc.asarray([np.nan])))).all()
