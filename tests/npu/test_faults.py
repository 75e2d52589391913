"""What goes wrong on a device: each fault has its message at the user's line, and the rest goes on."""

from __future__ import annotations

import gc
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from standin.machine import Machine
from standin.toolkit import NEW, NEWEST, OLD, Toolkit, build

import pyasc
from pyasc.backend import _runtime
from pyasc.lazy import evaluate

Mistakes = Callable[..., Any]

N = 1000
DEVICE = "npu:0"


@pytest.fixture(autouse=True)
def look(npu_machine: Machine) -> Iterator[Callable[[], None]]:
    """Computes on the device; what was there before a fault, on the device only, is there after it.

    A test in which the device is reset calls this first: then the host has it too.
    """
    pyasc.config.backend = DEVICE
    there = [pyasc.asarray(np.arange(N, dtype=np.float32)) * 2]
    pyasc.sync(*there)

    def look() -> None:
        np.testing.assert_array_equal(there[0], np.arange(N) * 2)

    yield look
    npu_machine.clear_faults()
    look()
    works()
    npu_machine.clear_complaints()
    there.clear()
    gc.collect()  # tensors of frames in an error's traceback


def ones() -> Any:
    return pyasc.asarray(np.ones(N, np.float32))


def works() -> None:
    """The process computes on the device, as if nothing had been."""
    for factor in (2.0, 3.0):
        np.testing.assert_array_equal(ones() * factor + 1, np.full(N, factor + 1))


# --- memory ----------------------------------------------------------------------------------------------


def test_more_memory_than_there_is(mistake: Mistakes) -> None:
    pyasc.set_memory_limit(4 << 20, device=DEVICE)
    try:
        x = pyasc.asarray(np.ones((256, 1), np.float32))
        with mistake(MemoryError, DEVICE, "bytes", line=False):
            np.asarray(x + pyasc.ones((1, 1 << 15), dtype=pyasc.float32))
        works()
    finally:
        pyasc.set_memory_limit(0, device=DEVICE)


def test_room_for_a_kernel_is_not_made_of_what_it_reads() -> None:
    """Its workspace takes the place of copies that the host has: of others, not of its operands."""
    values = np.ones(1 << 19, np.float32)  # 2 MiB
    arrays = [pyasc.asarray(values) for _ in range(6)]
    pyasc.empty_cache(DEVICE)
    pyasc.set_memory_limit(pyasc.memory_stats(DEVICE)["used"] + (9 << 20), device=DEVICE)
    try:
        for x in arrays:
            assert float(pyasc.sum(x + 1)) == 1 << 20
            assert float(pyasc.sum(x + 1)) == 1 << 20
    finally:
        pyasc.set_memory_limit(0, device=DEVICE)


def test_a_driver_without_memory(npu_machine: Machine, mistake: Mistakes) -> None:
    """Once: what is cached goes back, and it is tried again. Again and again: an error."""
    npu_machine.inject("aclrtMalloc", 1, 207001)
    x = pyasc.asarray(np.ones(1 << 20, np.float32))
    np.testing.assert_array_equal(x + 1, np.full(1 << 20, 2))
    for nth in range(1, 9):
        npu_machine.inject("aclrtMalloc", nth, 207001)
    with mistake(MemoryError, DEVICE, line=False):
        np.asarray(pyasc.asarray(np.ones(3 << 20, np.float32)) + 1)
    npu_machine.clear_faults()


# --- launches --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "text"), [(107000, "a parameter is not valid"), (207005, "the driver is out of resources")]
)
def test_a_launch_that_is_refused(npu_machine: Machine, mistake: Mistakes, code: int, text: str) -> None:
    x = ones()
    npu_machine.inject("launch", 1, code)
    with mistake(RuntimeError, f"expected {DEVICE} to compute, given {text}", str(code), "add"):
        y = x + 5  # here
        np.asarray(y)
    np.testing.assert_array_equal(x, np.ones(N))


def test_a_launch_of_a_library_that_is_refused(tmp_path: Path, run_python: Callable[..., Any]) -> None:
    """What stands between <<< and >>> returns nothing: the thread's last error tells."""
    program = """
        import os, pathlib
        import numpy as np, pyasc
        from standin.machine import Machine
        machine = Machine(pathlib.Path(os.environ["ASCEND_HOME_PATH"], "lib64", "libascendcl.so"))
        x = pyasc.asarray(np.ones(1000, np.float32))
        pyasc.sync(x + 1)
        machine.inject("launch", 1, 107000)
        try:
            print((x + 1).numpy())
        except pyasc.errors.DeviceError as error:
            print("107000" in str(error))
        print(float((x + 1).sum()))
    """
    environment = build(tmp_path / "cann", NEWEST).environment()
    ran = run_python(program, PYTHONPATH=str(Path(__file__).parent), **environment).stdout
    assert ran == "True\n2000.0\n"


def test_a_copy_that_fails_before_anything_was_computed(
    tmp_path: Path, run_python: Callable[..., Any]
) -> None:
    program = """
        import os, pathlib
        import numpy as np, pyasc
        from standin.machine import Machine
        machine = Machine(pathlib.Path(os.environ["ASCEND_HOME_PATH"], "lib64", "libascendcl.so"))
        x = pyasc.asarray(np.ones(1000, np.float32))
        machine.inject("aclrtMemcpyAsync", 1, 507018)
        try:
            x.to_device("npu:1")
        except pyasc.errors.DeviceError as error:
            print("507018" in str(error))
        print(float((x.to_device("npu:1") + 1).sum()))
    """
    environment = build(tmp_path / "cann").environment()
    ran = run_python(program, PYTHONPATH=str(Path(__file__).parent), **environment).stdout
    assert ran == "True\n2000.0\n"


def test_a_time_that_comes_late(npu_machine: Machine) -> None:
    """An event was reached before its time is there."""
    x = ones()
    pyasc.sync(x + 1)
    for nth in range(1, 4):
        npu_machine.inject("aclrtEventElapsedTime", nth, 107006)
    with pyasc.Profiler() as profiler:
        pyasc.sync(x + 1)
    assert [e for e in profiler.events if e.kind == "kernel"]


@pytest.mark.parametrize("blocking", [False, True])
def test_an_exception_in_a_kernel(npu_machine: Machine, mistake: Mistakes, blocking: bool) -> None:
    x = ones()
    pyasc.sync(x)
    pyasc.config.launch_blocking = blocking
    try:
        npu_machine.inject("kernel", 1, 507035)
        with mistake(RuntimeError, "[", "507035", "vector core", f"float32[{N}]"):
            y = x - 7  # here
            pyasc.sync(y)
            np.asarray(y)
    finally:
        pyasc.config.launch_blocking = False
    np.testing.assert_array_equal(x, np.ones(N))


def test_which_kernel_of_several(npu_machine: Machine, mistake: Mistakes) -> None:
    """With `launch_blocking` the error is that of the kernel that failed."""
    first, second = ones(), pyasc.asarray(np.ones((3, 70), np.float32))
    pyasc.config.launch_blocking = True
    try:
        npu_machine.inject("kernel", 2, 507035)
        with mistake(RuntimeError, "float32[3, 70]"):
            pyasc.sync(first + 1)
            pyasc.sync(second * 2)  # here
    finally:
        pyasc.config.launch_blocking = False


@pyasc.kernel
def at_most(y: Any, limit: int) -> None:
    i = pyasc.get_global_id(0)
    y[i] = i if i < limit else limit % 5


def test_a_number_that_does_not_fit(mistake: Mistakes) -> None:
    """One that the kernel was compiled for does, a later one does not."""

    @pyasc.jit
    def call(y: Any, limit: int) -> Any:
        at_most[8](y, limit)  # here
        return y + 0

    expected = [0, 1, 2, 3, 3, 3, 3, 3]
    assert call(pyasc.zeros(8), 3).numpy().tolist() == expected
    with mistake(RuntimeError, "[at_most]", "32 bits", str(2**31)):
        call(pyasc.zeros(8), 2**31).numpy()
    assert call(pyasc.zeros(8), 3).numpy().tolist() == expected


def test_every_launch_of_many_fails(npu_machine: Machine) -> None:
    """Nothing is kept of them."""
    x = ones()
    works()
    pyasc.sync(x)
    before = None
    for n in range(30):
        npu_machine.inject("kernel" if n % 2 else "launch", 1, 507035)
        with pytest.raises(pyasc.errors.DeviceError):
            np.asarray(x + n)
        if n == 9:
            before = npu_machine.resources()
    assert npu_machine.resources() == before


@pytest.mark.parametrize("busy", [False, True], ids=["alone", "with more under way"])
def test_a_copy_to_the_device_that_fails(npu_machine: Machine, mistake: Mistakes, busy: bool) -> None:
    """What was computed from it is not given out; what the host has goes there again."""
    x = ones()
    works()
    npu_machine.inject("copy", 1, 507013)
    if busy:
        npu_machine.inject("slow", 2, 300)
    with mistake(RuntimeError, "507013", "a copy failed", f"float32[{N}]"):
        y = x * 7  # here
        pyasc.sync(y)
        more = ones() * 3 if busy else None
        if more is not None:
            pyasc.sync(more)
        np.asarray(y)
    with mistake(RuntimeError, "507013", line=False):
        np.asarray(y)
    np.testing.assert_array_equal(x * 7, np.full(N, 7))


def test_a_copy_from_the_device_that_fails(npu_machine: Machine, mistake: Mistakes) -> None:
    """The device has the values still: they are copied again."""
    y, other = ones() * 7, ones() * 8
    pyasc.sync(y, other)
    works()
    npu_machine.inject("copy", 1, 507013)
    with mistake(RuntimeError, "507013", "a copy failed", line=False):
        np.asarray(y)
    np.testing.assert_array_equal(y, np.full(N, 7))
    np.testing.assert_array_equal(other, np.full(N, 8))


def test_a_lost_device_is_reset(npu_machine: Machine, mistake: Mistakes, look: Callable[[], None]) -> None:
    """What the host has looked at it still has; the rest is lost, and says so."""
    x, lost = ones(), ones() + 2
    look()
    pyasc.sync(lost)
    npu_machine.lose(0)
    with mistake(RuntimeError, f"must be reset: pyasc.reset_device('{DEVICE}')", line=False):
        np.asarray(x + 1)
    pyasc.reset_device(DEVICE)
    np.testing.assert_array_equal(x + 1, np.full(N, 2))
    with mistake(RuntimeError, "lost", line=False):
        np.asarray(lost)


# --- what does not end -----------------------------------------------------------------------------------


def interrupted_after(seconds: float) -> threading.Timer:
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    return timer


def test_ctrl_c_during_a_long_kernel(npu_machine: Machine) -> None:
    """The wait ends; the kernel goes on, and its result is right."""
    x = ones()
    works()
    npu_machine.inject("slow", 1, 2500)
    y = x * 4
    start = time.monotonic()
    timer = interrupted_after(0.3)
    with pytest.raises(KeyboardInterrupt):
        np.asarray(y)
    timer.join()
    assert time.monotonic() - start < 1.5
    np.testing.assert_array_equal(y, np.full(N, 4))


def test_a_kernel_that_hangs(npu_machine: Machine, look: Callable[[], None]) -> None:
    """Ctrl-C gives the prompt back, and a reset the device."""
    x = ones()
    look()
    works()
    npu_machine.inject("hang")
    timer = interrupted_after(0.3)
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        np.asarray(x * 5)
    timer.join()
    assert time.monotonic() - start < 2
    pyasc.reset_device(DEVICE)
    np.testing.assert_array_equal(x * 5, np.full(N, 5))


def test_a_stream_that_somebody_destroyed(npu_machine: Machine, mistake: Mistakes) -> None:
    x = ones()
    works()
    npu_machine.destroy_stream(_runtime.device_stream(0, 0))
    with mistake(RuntimeError, "stream"):
        np.asarray(x * 6)


# --- compilers and processes -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "text", "function"), [("dies", "SIGSEGV", pyasc.maximum), ("silent", "bisheng", pyasc.minimum)]
)
def test_a_compiler_that_fails(
    mistake: Mistakes, monkeypatch: pytest.MonkeyPatch, how: str, text: str, function: Callable[..., Any]
) -> None:
    x = pyasc.asarray(np.ones((5, 33), np.float32))
    monkeypatch.setenv("STANDIN_COMPILER", how)
    with mistake(RuntimeError, "bisheng", "To see it again", text):
        y = function(x * x - 11, x + 11)  # here
        np.asarray(y)
    monkeypatch.delenv("STANDIN_COMPILER")
    np.testing.assert_array_equal(y, np.full((5, 33), {"dies": 12, "silent": -10}[how]))


def test_a_toolkit_that_was_replaced(toolkit: Toolkit, mistake: Mistakes) -> None:
    x = pyasc.asarray(np.ones((5, 35), np.float32))
    pyasc.sync(x + 1)
    try:
        build(toolkit.home, OLD)
        with mistake(RuntimeError, f"expected CANN {toolkit.version}", OLD, "start it again"):
            y = x * x * x - 17  # here
            np.asarray(y)
    finally:
        build(toolkit.home, toolkit.version)


def test_an_older_toolkit(tmp_path: Path, run_python: Callable[..., Any]) -> None:
    """Everything that has no name in 8.1 is done without."""
    old = build(tmp_path / "cann", OLD)
    program = """
        import threading
        import numpy as np, pyasc
        x = pyasc.asarray(np.arange(100, dtype=np.float32))
        print((pyasc.exp(x * 0) + x.sum()).device, float((x * 2).sum()))
        # Kernels by turns, also of one thread after another's.
        results = []
        def turns():
            for k in range(3):
                results.append([float((x + k).max()), float((x * 2).sum()), float((x - k).min())])
        for _ in range(2):
            thread = threading.Thread(target=turns)
            thread.start(); thread.join()
        print(results == [[99.0 + k, 9900.0, -k] for k in range(3)] * 2)
        # Few results of much: cores that wait for each other; and a product that they share.
        y = pyasc.asarray(np.ones((1, 1 << 21), np.float32))
        a = pyasc.asarray(np.ones((16, 1 << 14), np.float16))
        print(float(y.sum(axis=1)[0]), float((a @ a.T)[3, 5]), (a @ a.T).device)
    """
    ran = run_python(program, **old.environment()).stdout
    assert ran == f"{DEVICE} 9900.0\nTrue\n2097152.0 16384.0 {DEVICE}\n"


@pytest.mark.parametrize("version", [OLD, NEW])
def test_an_exception_on_a_chosen_device(
    tmp_path: Path, run_python: Callable[..., Any], version: str
) -> None:
    """The driver tells of it by its own number of the device."""
    program = """
        import numpy as np, pyasc
        from standin.machine import Machine
        import os, pathlib
        machine = Machine(pathlib.Path(os.environ["ASCEND_HOME_PATH"], "lib64", "libascendcl.so"))
        print([d.name for d in pyasc.devices()])
        x, y = pyasc.asarray(np.ones(1000, np.float32)), pyasc.asarray(np.ones((3, 70), np.float32))
        pyasc.sync(x + 1, y + 1)
        machine.inject("kernel", 2, 507035)
        try:
            pyasc.sync(x + 1, y + 1)
        except pyasc.errors.DeviceError as error:
            print("in the kernel add(float32[" in str(error))
        print(float((x + 1).sum()))
    """
    toolkit = build(tmp_path / "cann", version)
    environment = {**toolkit.environment(), "STANDIN_DEVICES": "4", "ASCEND_RT_VISIBLE_DEVICES": "3,1"}
    ran = run_python(program, PYTHONPATH=str(Path(__file__).parent), **environment).stdout
    assert ran == "['cpu', 'npu:0', 'npu:1']\nTrue\n2000.0\n"


def test_after_a_fork() -> None:
    """The child says why it cannot compute there, and ends; its parent goes on."""
    x = ones() + 1
    pyasc.sync(x)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            np.asarray(x * 2)
            said = "nothing was raised"
        except BaseException as error:
            said = str(error)
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    deadline = time.monotonic() + 20
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            pytest.fail("the child hangs")
        time.sleep(0.02)
    said = os.read(reading, 10000).decode()
    os.close(reading)
    assert "forked" in said and "spawn" in said, said
    assert re.search(r"test_faults\.py:\d+", said), said
    np.testing.assert_array_equal(x, np.full(N, 2))


# --- several things at once ------------------------------------------------------------------------------


@pytest.mark.parametrize("point", ["kernel", "copy"])
@pytest.mark.parametrize("waited", [False, True], ids=["under way", "waited for"])
def test_what_failed_does_not_go_to_another_device(
    npu_machine: Machine, mistake: Mistakes, point: str, waited: bool
) -> None:
    """Only the device that computed knows that it failed; and it is the one that is named."""
    x = ones()
    works()
    npu_machine.inject(point, 1, 507035)
    with mistake(RuntimeError, f"expected {DEVICE} to compute", "507035", line=False):
        y = x * 7
        if waited:
            pyasc.sync(y)
        np.asarray(y.to_device("npu:1") * 2)
    np.testing.assert_array_equal(x.to_device("npu:1") * 7, np.full(N, 7))


def test_work_that_hangs_behind_a_failure(npu_machine: Machine, mistake: Mistakes) -> None:
    """It is stopped so that the device goes on, and its result is not given out."""
    x = ones()
    pyasc.sync(x * 3, x - 3)
    npu_machine.inject("kernel", 1, 507035)
    npu_machine.inject("hang")
    failed, hung = x * 3, x - 3
    evaluate.evaluate([failed.node])
    with mistake(RuntimeError, "507035", line=False):
        evaluate.evaluate([hung.node])
        np.asarray(failed)
    with mistake(RuntimeError, line=False):
        np.asarray(hung)


def test_a_message_is_of_the_call_that_failed(npu_machine: Machine, mistake: Mistakes) -> None:
    """Not of a wait before it that was only over."""
    x = ones()
    works()
    npu_machine.inject("slow", 1, 200)
    pyasc.sync(x * 9)
    npu_machine.inject("aclrtMalloc", 1, 107000)
    with mistake(RuntimeError, "aclrtMalloc: 107000", line=False) as caught:
        np.asarray(pyasc.asarray(np.ones(1 << 19, np.float32)) * 9)
    assert "did not end" not in caught.message


def test_ctrl_c_in_a_profile(npu_machine: Machine, look: Callable[[], None]) -> None:
    """What never ends has no time, and nobody waits for it."""
    x = ones()
    look()
    works()
    npu_machine.inject("hang")
    timer = interrupted_after(0.3)
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt), pyasc.Profiler():
        pyasc.sync(x * 5)
    timer.join()
    assert time.monotonic() - start < 2
    pyasc.reset_device(DEVICE)
    np.testing.assert_array_equal(x * 5, np.full(N, 5))


def test_profiles_of_failures_keep_no_events(npu_machine: Machine) -> None:
    x = ones()
    counts = []
    for _ in range(6):
        npu_machine.inject("launch", 1, 107000)
        with pytest.raises(pyasc.errors.DeviceError), pyasc.Profiler():
            np.asarray(x * 11)
        counts.append(npu_machine.count("events"))
    assert counts[-1] == counts[1]


def test_a_reset_while_threads_compute(toolkit: Toolkit, run_python: Callable[..., Any]) -> None:
    """They compute, or are told; none waits for ever, and nothing that is gone is used."""
    program = """
        import sys, threading, time
        from pathlib import Path
        import numpy as np, pyasc

        sys.path.insert(0, sys.argv[1])
        from standin.machine import Machine

        machine, end = Machine(Path(sys.argv[2])), time.monotonic() + 2
        pyasc.sync(pyasc.ones(5) * 2)

        def work(n):
            values = np.arange(1000, dtype=np.float32) + n
            while time.monotonic() < end:
                try:
                    x = pyasc.asarray(values) * 2
                    if n % 2:
                        x = x.to_device("npu:1") + 1
                    if not np.array_equal(np.asarray(x), values * 2 + n % 2):
                        print("other values")
                except pyasc.errors.DeviceError as error:
                    if "reset" not in str(error):
                        print(error)

        threads = [threading.Thread(target=work, args=(n,), daemon=True) for n in range(4)]
        for thread in threads:
            thread.start()
        while time.monotonic() < end:
            time.sleep(0.1)
            pyasc.reset_device("npu:0")
        for thread in threads:
            thread.join(20)
        np.asarray(pyasc.ones(5) * 2)
        pyasc.backend._runtime.device_shut_down()
        print(sum(t.is_alive() for t in threads), machine.complaints(), sum(machine.resources().values()))
    """
    arguments = [str(Path(__file__).parent), str(toolkit.library)]
    program = program.replace("sys.argv[1]", repr(arguments[0])).replace("sys.argv[2]", repr(arguments[1]))
    assert run_python(program, **toolkit.environment()).stdout == "0 [] 0\n"


def test_a_library_that_was_cut_short(tmp_path: Path, run_python: Callable[..., Any]) -> None:
    """As by a disk that was full: loading it would end the process."""
    cut = build(tmp_path / "cann", OLD)
    code = cut.library.read_bytes()[:3000]
    cut.library.unlink()
    cut.library.write_bytes(code)
    program = """
        import warnings, pyasc
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            print((pyasc.ones(3) * 2).device, "ends too early" in str(said[0].message))
    """
    assert run_python(program, **cut.environment()).stdout == "cpu True\n"
