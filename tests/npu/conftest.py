"""The pretended machine for tests of the path to an NPU; see `standin`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from standin.machine import Machine
from standin.toolkit import Toolkit, build

_SETTINGS = (
    "DELAY_US", "SEED", "MEMORY", "DEVICES", "EVENTS", "STREAMS", "MODEL_TIME", "KERNEL_US", "NULL_KERNELS",
    "UNCHECKED", "GB_PER_S", "SOC", "COMPILER",
)  # fmt: skip


@pytest.fixture(scope="session")
def toolkit(tmp_path_factory: pytest.TempPathFactory) -> Toolkit:
    """A folder like CANN's, of a version that can do everything."""
    return build(tmp_path_factory.mktemp("cann"))


@pytest.fixture
def machine(toolkit: Toolkit, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """The machine behind the toolkit's library; afterwards everything must have been given back.

    A test that changes ``STANDIN_…`` in the environment calls `Machine.reset`. One that causes complaints
    looks at them and clears them.
    """
    for name in _SETTINGS:
        monkeypatch.delenv(f"STANDIN_{name}", raising=False)
    made = Machine(toolkit.library)
    made.reset()
    yield made
    left = {what: count for what, count in made.resources().items() if count}
    complaints = made.complaints()
    made.reset()
    assert not left, f"not given back: {left}"
    assert not complaints, "\n".join(complaints)


@pytest.fixture
def npu(toolkit: Toolkit, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """The machine for pyasc in this process, with the toolkit's environment; shut down afterwards."""
    from pyasc.backend import _runtime

    for name, value in toolkit.environment().items():
        monkeypatch.setenv(name, value)
    _runtime.device_shut_down()
    _runtime.device_set_library(str(toolkit.library))
    yield machine
    _runtime.device_shut_down()


@pytest.fixture
def npu_machine(npu: Machine) -> Iterator[Machine]:
    """The pretended machine, with two devices, found anew."""
    import pyasc
    from pyasc.backend.npu import toolkit as detection
    from pyasc.lazy import evaluate

    detection.forget()
    previous = pyasc.config.given("backend")
    pyasc.config.backend = ""
    yield npu
    # What is still pending must not find the device again.
    pyasc.config.backend = "cpu"
    pyasc.sync()
    pyasc.config.backend = previous
    for name in ("npu:0", "npu:1"):
        evaluate._backends.pop(name, None)
    pyasc.clear_cache()
    detection.forget()
