"""Messages of a simulator that finds a fault in a kernel, or cannot run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import pyasc
from pyasc.backend.ascend.backend import Ascend
from pyasc.backend.ascend.generated import Generated

RunPython = Callable[..., Any]


@pytest.fixture(autouse=True)
def on_the_cpu_again() -> Iterator[None]:
    yield
    pyasc.config.backend = "cpu"


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Replace text in every kernel that is generated from here on."""
    written = Ascend.written

    def change(old: str, new: str) -> None:
        def changed(self: Ascend, kernel: Any, tuning: Any) -> Generated:
            made = written(self, kernel, tuning)
            assert old in made.source
            return replace(made, source=made.source.replace(old, new))

        monkeypatch.setattr(Ascend, "written", changed)
        pyasc.clear_cache()

    yield change
    pyasc.clear_cache()  # kernels and plans that were made of changed sources


def array(size: int) -> Any:
    return pyasc.asarray(np.arange(size, dtype=np.float32))


def test_a_copy_beyond_the_end(broken: Any, mistake: Any) -> None:
    x = array(37)
    broken(", lanes);", ", lanes + 1);")
    with (
        pyasc.backend("sim"),
        mistake(
            pyasc.errors.SimulationError,
            "[add]",
            "DataCopyPad",
            "Expected bytes within the 148",
            "given bytes 0 to 152",
            "vector core 0",
            "add_kernel.asc:",
            "kernel add_kernel",
        ),
    ):
        y = x + 1  # here
        np.asarray(y)


def test_a_missing_event_is_a_race(broken: Any, mistake: Any) -> None:
    x = array(5000)
    broken("WaitFlag<HardEvent::MTE2_V>(0 + turn0);", "")
    with (
        pyasc.backend("sim"),
        mistake(pyasc.errors.SimulationError, "[mul]", "MTE2", "mul_kernel.asc:"),
    ):
        y = x * 3  # here
        np.asarray(y)


def test_a_source_that_does_not_compile(broken: Any, mistake: Any) -> None:
    x = array(50)
    broken("Muls(", "Multiplies(")
    with (
        pyasc.backend("sim"),
        mistake(pyasc.errors.BackendError, "[mul]", "[compile]", "mul_kernel.asc:", "Multiplies("),
    ):
        y = x * 3  # here
        np.asarray(y)


def test_the_library_goes_on_after_a_finding(broken: Any) -> None:
    x = array(64)
    broken("Muls(", "Multiplies(")
    with pytest.raises(RuntimeError), pyasc.backend("sim"):
        np.asarray(x * 3)
    assert pyasc.config.backend == "cpu"
    np.testing.assert_array_equal(x * 3, np.arange(64) * 3)


def test_without_a_compiler(run_python: RunPython) -> None:
    """It says what to install; the CPU and the generator work all the same."""
    said = run_python(
        """
        import os
        os.environ["PATH"] = "/nowhere"
        os.environ.pop("CXX", None)
        import numpy as np, pyasc
        x = pyasc.asarray(np.arange(8, dtype=np.float32))
        kernel, = pyasc.explain(x * 2, backend="sim").kernels
        print("Muls(" in kernel.source(), "UB" in str(kernel.tiling))
        for run in (lambda: kernel.cost, lambda: np.asarray(x * 3)):
            try:
                with pyasc.backend("sim"):
                    run()
            except pyasc.errors.BackendError as error:
                print(type(error).__name__, error)
        print(x * 2)
        """
    ).stdout
    assert said.startswith("True True")
    assert said.count("BackendError") == 2 and "[cost] " in said and "[mul] " in said
    assert said.count("Expected a C++ compiler") == 2 and "apt install g++" in said
    assert "[ 0.  2.  4." in said
