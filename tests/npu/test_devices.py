"""Devices by name: which there are, which is the default, where tensors are, what memory they use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from standin.machine import Machine
from standin.toolkit import Toolkit

import pyasc
from pyasc.backend import _runtime


def test_the_first_npu_is_the_default(toolkit: Toolkit, run_python: Callable[..., Any]) -> None:
    program = """
        import pyasc
        assert pyasc.config.given("backend") == ""
        x = pyasc.asarray([0.0, 1.5]) * 2
        print(x)
        print(pyasc.config.backend, x.device, (x + 1).device, pyasc.asarray([1.0]).device)
        found = pyasc.devices()
        print(*(f"{d.name}={d.chip}" for d in found[1:]), found[1].toolkit == pyasc.devices()[2].toolkit)
        assert found[1].free is not None and found[2].free is None, "only the first is in use"
        with pyasc.backend("cpu"):
            print((x + 1).device, x.device)
    """
    said = run_python(program, **toolkit.environment()).stdout.splitlines()
    assert said[0] == "[0. 3.]"
    assert said[1] == "npu:0 npu:0 npu:0 cpu"
    assert said[2] == "npu:0=910B1 npu:1=910B1 True"
    assert said[3] == "cpu npu:0"
    chosen = run_python(
        "import pyasc; print(pyasc.config.backend)", **toolkit.environment(), PYASC_BACKEND="cpu"
    )
    assert chosen.stdout == "cpu\n"


def test_who_begins_to_use_acl_meanwhile_keeps_it(npu_machine: Machine) -> None:
    assert float((pyasc.ones(3) + 1).sum()) == 6
    assert npu_machine.library.aclInit(None) == 100002
    _runtime.device_shut_down()
    assert npu_machine.count("initialised")
    assert npu_machine.library.aclFinalize() == 0
    npu_machine.clear_complaints()


def test_a_driver_that_fails_costs_one_warning(
    toolkit: Toolkit, npu_machine: Machine, recwarn: pytest.WarningsRecorder
) -> None:
    npu_machine.inject("aclrtGetDeviceCount", 1, 507899)
    for _ in range(2):
        assert float((pyasc.ones(3) + 1).sum()) == 6
    assert pyasc.config.backend == "cpu"
    warned = [str(w.message) for w in recwarn if w.category is RuntimeWarning]
    assert len(warned) == 1 and "computing on the CPU" in warned[0] and "driver" in warned[0]
    assert next(w.filename for w in recwarn if w.category is RuntimeWarning) == __file__


def test_what_is_put_on_a_device_is_computed_there(npu_machine: Machine) -> None:
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    with pyasc.backend("cpu"):
        x = pyasc.asarray(values)
        assert x.device == "cpu" and x.to_device("cpu") is x
        there = x.to_device("npu:1")
        assert there is not x and there.device == "npu:1" and x.device == "cpu"
        assert there.to_device("npu:1") is there
        y = there * 2
        assert y.device == "npu:1"
        launches = pyasc.memory_stats("npu:1")["launches"]
        assert np.array_equal(y.numpy(), values * 2) and y.device == "npu:1"
        assert pyasc.memory_stats("npu:1")["launches"] == launches + 1
        back = (y + 1).to_device("cpu")
        assert back.device == "cpu" and np.array_equal(back.numpy(), values * 2 + 1)
        z = back + 1
        assert z.device == "cpu"
        transposed = there.T[1:].to_device("npu:0")
        assert transposed.device == "npu:0" and np.array_equal(transposed.numpy(), values.T[1:])
        assert np.array_equal(there.numpy(), values), "a copy leaves it as it is"
        with pytest.raises(RuntimeError, match="npu:0 and npu:1"):
            pyasc.sync(transposed.sum() + there.sum())
        assert pyasc.empty((0, 2)).to_device("npu:0").numpy().shape == (0, 2)


def test_explain_shows_copies_and_compiles_nothing(
    npu_machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STANDIN_COMPILER", "dies")
    with pyasc.backend("npu:0"):
        x = pyasc.asarray(np.ones((6, 6), np.float32))
        made = pyasc.explain(pyasc.sort((x @ x).sum(axis=0)) + 1)
    text = str(made)
    assert [k.name for k in made.kernels] == ["matmul", "add_reduce", "sort_on_host", "add"]
    assert "; 3 copies between host and device, 192 B" in text  # x there, 6 sums back and there
    assert "copies  x: float32[6, 6] to npu:0  (144 B)" in text


def test_float64_on_the_host_is_said_once(toolkit: Toolkit, run_python: Callable[..., Any]) -> None:
    """At the line that recorded the operation; neither of little, nor of what the device computes."""
    program = """
        import warnings, numpy as np, pyasc
        def computed(function, *arrays):
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                y = function(*map(pyasc.asarray, arrays))
                y.numpy()
            print(*[f"{w.lineno}: {w.message}"[:60] for w in said])
        small, large = np.ones(1000), np.ones((300, 500))
        computed(lambda x: x + 1, small)
        computed(lambda x: x + 1, large.astype(np.float32))
        computed(lambda x: pyasc.sort(x), large.astype(np.float32))
        computed(
            lambda x, y: x @ y + 1,
            large, large.T)
        computed(lambda x: x + 1, large)
    """
    said = run_python(program, **toolkit.environment()).stdout.split("\n")
    assert said[:3] == ["", "", ""] and said[4:] == ["", ""]
    assert said[3].startswith("14: [") and "float64 is computed on the host" in said[3], said[3]


@pytest.mark.parametrize(
    "make",
    [
        lambda device: pyasc.zeros((2, 3), device=device),
        lambda device: pyasc.full(3, 1.5, device=device),
        lambda device: pyasc.asarray([1.0, 2.0], device=device),
        lambda device: pyasc.arange(7, device=device),
        lambda device: pyasc.linspace(0, 1, 5, retstep=True, device=device)[0],
        lambda device: pyasc.eye(3, device=device),
        lambda device: pyasc.ones_like(np.zeros(3), device=device),
    ],
)
def test_new_arrays_on_a_device(npu_machine: Machine, make: Callable[[str], Any]) -> None:
    made = make("npu:1")
    assert made.device == "npu:1"
    assert np.array_equal(made.numpy(), make("cpu").numpy())


def test_memory_of_a_device(npu_machine: Machine) -> None:
    before = pyasc.memory_stats("npu:1")
    x = pyasc.ones(1 << 20).to_device("npu:1")
    pyasc.sync(x)
    stats = pyasc.memory_stats("npu:1")
    assert stats["used"] - before["used"] == 4 << 20 and stats["total"] > stats["free"] > 0
    assert stats["tensors"] == pyasc.memory_stats("cpu")["tensors"]
    del x
    pyasc.reset_peak_memory("npu:1")
    assert pyasc.memory_stats("npu:1")["peak"] == pyasc.memory_stats("npu:1")["used"]
    assert pyasc.empty_cache("npu:1") >= 4 << 20
    assert pyasc.memory_stats("npu:1")["cached"] == 0
    pyasc.set_memory_limit(1 << 20, "npu:1")
    assert pyasc.memory_stats("npu:1")["limit"] == 1 << 20 and pyasc.config.memory_limit == 0
    with pytest.raises(MemoryError, match="npu:1"):
        pyasc.sync(pyasc.ones(1 << 20).to_device("npu:1"))
    pyasc.set_memory_limit(0, "npu:1")


def test_without_a_name_the_memory_is_that_of_the_backend_in_force(npu_machine: Machine) -> None:
    pyasc.sync(pyasc.ones(3) + 1)
    assert "launches" in pyasc.memory_stats()
    with pyasc.backend("cpu"):
        assert "launches" not in pyasc.memory_stats()


def test_a_device_is_reset(toolkit: Toolkit, run_python: Callable[..., Any]) -> None:
    program = """
        import ctypes
        import sys
        import pyasc

        x = pyasc.asarray([1.0, 2.0]).to_device("npu:0")
        y = x + 1
        print(y)
        ctypes.CDLL(sys.argv[1]).standin_lose(0, 507010)
        try:
            print(x * 3)
        except pyasc.errors.DeviceError as error:
            assert "pyasc.reset_device('npu:0')" in str(error)
        pyasc.reset_device("npu:0")
        print(y, "the host has looked at it, and has it")
        print(pyasc.asarray([1.0, 2.0]).to_device("npu:0") * 5)
    """
    said = run_python(program, str(toolkit.library), **toolkit.environment()).stdout.splitlines()
    assert said == ["[2. 3.]", "[2. 3.] the host has looked at it, and has it", "[ 5. 10.]"]


def test_blocking_launches_are_a_setting(npu_machine: Machine) -> None:
    """A kernel that fails is then known where it was launched."""
    x = pyasc.ones(64).to_device("npu:0")
    pyasc.sync(x + 1)
    with pyasc.config.override(launch_blocking=True):
        npu_machine.inject("kernel", 1, 507035)
        with pytest.raises(pyasc.errors.DeviceError, match=r"test_devices\.py"):
            pyasc.sync(x * 3)  # `sync` would wait anyway: the message names one kernel
    npu_machine.clear_complaints()
    assert float((x + 1).sum()) == 128


def test_devices_that_others_have_are_not_seen(toolkit: Toolkit, run_python: Callable[..., Any]) -> None:
    program = """
        import pyasc
        print([d.name for d in pyasc.devices()], (pyasc.ones(2) + 1).device)
    """
    for visible, expected in (("3,1", "['cpu', 'npu:0', 'npu:1'] npu:0"), ("2", "['cpu', 'npu:0'] npu:0")):
        more = {"STANDIN_DEVICES": "4", "ASCEND_RT_VISIBLE_DEVICES": visible}
        assert run_python(program, **toolkit.environment(), **more).stdout == f"{expected}\n"
    hidden = run_python(program, **toolkit.environment(), ASCEND_RT_VISIBLE_DEVICES="9")
    assert hidden.stdout == "['cpu'] cpu\n" and "there is no device" in hidden.stderr
