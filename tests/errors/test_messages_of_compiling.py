"""Messages of kernels that are compiled ahead, and of a compiler that refuses one."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from mistakes import Mistake, check, label, x

import pyasc
from pyasc.backend.base import LaunchError
from pyasc.backend.sim.backend import Simulated

MISTAKES = [
    Mistake(TypeError, ("[precompile]", "a function", "given int"), lambda: pyasc.precompile(3)),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("entry", MISTAKES, ids=label)
def test_mistake(entry: Mistake, mistake: Callable[..., Any]) -> None:
    check(entry, mistake)


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A compiler that takes no kernel that computes an exponential."""
    compile = Simulated.executable

    def refuse(self: Simulated, kernel: Any, generated: Any) -> Any:
        if "exp" in generated.name:
            raise LaunchError(f"expected Ascend C that compiles, given {generated.name}")
        return compile(self, kernel, generated)

    monkeypatch.setattr(Simulated, "executable", refuse)
    pyasc.clear_cache()
    yield
    pyasc.clear_cache()


def test_the_line_of_the_kernel_that_does_not_compile(refusing: None, mistake: Callable[..., Any]) -> None:
    def three(v: Any, w: Any, y: Any) -> Any:
        a = pyasc.sin(v)
        b = pyasc.exp(w)
        return a, b, pyasc.tan(y)

    with pyasc.backend("sim"):
        with mistake(
            pyasc.errors.BackendError, "[exp]", "given exp", "b = pyasc.exp(w)", line=False
        ) as caught:
            pyasc.precompile(three, x(8, 8), x(16, 8), x(4))
        caught.error = None  # which holds what was not computed
        gc.collect()
