"""Messages of devices: names of those that are not there, CANN that cannot be used."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mistakes import Mistake, check, label, x

import pyasc
from pyasc.backend.npu import toolkit
from pyasc.lazy import backends


def with_npus(count: int, call: Callable[[], Any]) -> Any:
    """A call where there seem to be so many NPUs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backends, "detected", lambda: SimpleNamespace(count=count, chip="910B1"))
        return call()


def without(call: Callable[[], Any]) -> Any:
    """A call where there is no CANN."""
    with pytest.MonkeyPatch.context() as patch:

        def find() -> None:
            raise toolkit.ToolkitError("expected CANN, given none")

        patch.setattr(toolkit, "find", find)
        return call()


MISTAKES = [
    Mistake(ValueError, ("[to_device]", "'cpu'", "'gpu'"), lambda: x(3).to_device("gpu")),
    Mistake(ValueError, ("[to_device]", "expected CANN"), lambda: without(lambda: x(3).to_device("npu"))),
    Mistake(
        ValueError,
        ("[to_device]", "'npu:0', 'npu:1'", "'npu:2'"),
        lambda: with_npus(2, lambda: x(3).to_device("npu:2")),
    ),
    Mistake(ValueError, ("[to_device]", "stream=None", "7"), lambda: x(3).to_device("cpu", stream=7)),
    Mistake(ValueError, ("[backend]", "expected CANN"), lambda: without(lambda: pyasc.backend("npu"))),
    Mistake(ValueError, ("[backend]", "'npu'", "'npu:x'"), lambda: pyasc.backend("npu:x")),
    Mistake(ValueError, ("[memory_stats]", "'sim'"), lambda: pyasc.memory_stats("sim")),
    Mistake(ValueError, ("[reset_device]", "3"), lambda: pyasc.reset_device(3)),  # type: ignore[arg-type]
    Mistake(ValueError, ("[full]", "'cpu'", "'gpu'"), lambda: pyasc.full(3, 1.5, device="gpu")),
    Mistake(
        ValueError,
        ("[set_memory_limit]", "-1"),
        lambda: with_npus(1, lambda: pyasc.set_memory_limit(-1, "npu:0")),
    ),
    Mistake(TypeError, ("[to_torch]", "tensor", "list"), lambda: pyasc.to_torch([1.0])),
]


@pytest.mark.parametrize("entry", MISTAKES, ids=label)
def test_message(entry: Mistake, mistake: Callable[..., Any]) -> None:
    check(entry, mistake)


def test_a_broken_toolkit_costs_one_warning(run_python: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "cann").mkdir()
    program = """
        import sys
        import pyasc
        assert "pyasc.backend.npu.toolkit" not in sys.modules
        print(float((pyasc.ones(3) + 1).sum()), pyasc.config.backend, pyasc.devices().note != "")
        print(float((pyasc.ones(3) + 2).sum()))
    """
    done = run_python(program, ASCEND_HOME_PATH=str(tmp_path / "cann"))
    assert done.stdout == "6.0 cpu True\n9.0\n"
    assert done.stderr.count("RuntimeWarning") == 1
    assert "computing on the CPU" in done.stderr and f"ASCEND_HOME_PATH={tmp_path}/cann" in done.stderr


def test_a_broken_toolkit_that_was_asked_for_is_an_error(
    run_python: Callable[..., Any], tmp_path: Path
) -> None:
    """Not at import: nothing is looked for then."""
    program = "import pyasc\nx = pyasc.ones(3) + 1\nprint('imported')\nprint(x)"
    done = run_python(program, ASCEND_HOME_PATH=str(tmp_path / "none"), PYASC_BACKEND="npu", check=False)
    assert done.stdout == "imported\n" and done.returncode == 1
    assert "ArgumentError: [backend]" in done.stderr and "there is none" in done.stderr


def test_the_backend_is_found_when_it_is_first_asked_for(run_python: Callable[..., Any]) -> None:
    program = """
        import pyasc
        assert pyasc.config.given("backend") == ""
        with pyasc.config.override(fast_math=True):
            pass
        pyasc.memory_stats("cpu")
        assert pyasc.config.given("backend") == ""
        assert "backend = 'cpu'" in repr(pyasc.config)
        assert pyasc.config.given("backend") == "cpu"
        with pyasc.backend("sim"):
            assert pyasc.config.backend == "sim"
        assert pyasc.config.backend == "cpu"
        pyasc.config.backend = ""
        assert pyasc.config.given("backend") == "" and pyasc.config.backend == "cpu"
    """
    run_python(program, ASCEND_HOME_PATH="", ASCEND_TOOLKIT_HOME="")


def test_devices_without_an_npu(run_python: Callable[..., Any]) -> None:
    program = """
        import pyasc
        found = pyasc.devices()
        assert [d.name for d in found] == ["cpu"] and found[0].memory > found[0].free > 0
        print(found)
    """
    said = run_python(program, ASCEND_HOME_PATH="", ASCEND_TOOLKIT_HOME="").stdout.splitlines()
    assert said[0].split() == ["device", "chip", "memory", "free", "CANN"]
    assert said[1].startswith("cpu ") and said[2].startswith("no NPU: expected CANN")
