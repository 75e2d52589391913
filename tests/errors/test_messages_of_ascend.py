"""Messages of choosing a backend, of generated Ascend C, of costing and exporting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from mistakes import Mistake, check, label, x

import pyasc
from pyasc.backend.ascend import chip


def traced(function: Callable[[Any], Any]) -> Any:
    return pyasc.jit(function)(x(3))


def on_another_backend(value: Any) -> Any:
    with pyasc.backend("sim"):
        return value + 1


def float64(*shape: int) -> Any:
    return x(*shape, dtype="float64")


BACKENDS = [
    Mistake(
        ValueError, ("[backend]", "'cpu'", "'sim'", "'sim:910B3'", "'npu'"), lambda: pyasc.backend("npu")
    ),
    Mistake(ValueError, ("[backend]", "'sim:910B3'", "'sim:410'"), lambda: pyasc.backend("sim:410")),
    Mistake(ValueError, ("[backend]", "'gpu'"), lambda: pyasc.explain(x(3) + 1, backend="gpu")),
    Mistake(RuntimeError, ("[backend]", "traced", "'sim:910B1'"), lambda: traced(on_another_backend)),
    Mistake(ValueError, ("[chip]", "910B1", "'410'"), lambda: chip.load("410")),
]

SOURCES = [
    Mistake(
        NotImplementedError,
        ("[source]", "910B1", "float64", "given"),
        lambda: pyasc.explain(float64(3) + 1).kernels[0].source("ascendc"),
    ),
    Mistake(
        NotImplementedError, ("[tiling]", "float64"), lambda: pyasc.explain(float64(3) + 1).kernels[0].tiling
    ),
    Mistake(ValueError, ("[cost]", "matmul"), lambda: pyasc.explain(x(3, 3) @ x(3, 3)).kernels[-1].cost),
    Mistake(TypeError, ("[cost]", "function", "int"), lambda: pyasc.cost(3)),
]

MISTAKES = [*BACKENDS, *SOURCES]


@pytest.mark.parametrize("entry", [pytest.param(e, id=label(e)) for e in MISTAKES])
def test_message(entry: Mistake, mistake: Callable[..., Any]) -> None:
    check(entry, mistake)
