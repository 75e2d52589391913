"""Random numbers on the simulated chip: the same bits as on the CPU, counted in the kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyasc

DRAWS: dict[str, Callable[[], Any]] = {
    "uniform": lambda: pyasc.random.uniform(0, 1, (1000,)),
    "of two axes": lambda: pyasc.random.uniform(-1, 1, (7, 130)),
    "integers": lambda: pyasc.random.integers(0, 10, (77,)),
    "beyond 32 bits": lambda: pyasc.random.integers(0, 2**40, (33,)),
}


def drawn(backend: str, draw: Callable[[], Any], before: int) -> np.ndarray[Any, Any]:
    """What a generator draws that has drawn so many numbers."""
    with pyasc.backend(backend):
        pyasc.random.seed(3)
        if before:
            pyasc.random.uniform(0, 1, (before,))
        return np.array(draw())


@pytest.mark.parametrize("name", DRAWS)
def test_the_same_bits(name: str) -> None:
    for before in (0, 5) if name == "uniform" else (5,):
        expected = drawn("cpu", DRAWS[name], before)
        np.testing.assert_array_equal(drawn("sim", DRAWS[name], before), expected)


@pytest.mark.parametrize("before", [0, 5])
def test_one_kernel_counts_and_draws(before: int) -> None:
    with pyasc.backend("sim"):
        pyasc.random.seed(3)
        if before:
            pyasc.random.uniform(0, 1, (before,))
        (kernel,) = pyasc.explain(pyasc.random.uniform(0, 1, (1000,))).kernels
    assert kernel.backend == "sim:910B1"


def test_a_counter_from_memory_stays_on_the_host() -> None:
    """Its 64 bits may be any."""
    from pyasc.backend.ascend.backend import Ascend
    from pyasc.backend.ascend.chip import load

    chip = Ascend(load("910B1"), None)
    assert chip.why("random_bits", np.dtype(np.uint64)) == "uint64 has no vector instructions on 910B1"
