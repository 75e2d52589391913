"""Figures of a backend: bandwidths of copies, what launches cost the host, the first compile."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

import pyasc

from ..backend import _runtime
from ..lazy.evaluate import backend as backend_of
from ..lazy.evaluate import buffer_of
from .check import Check, Measurement, Mismatch, Outcome

KIB, MIB = 1 << 10, 1 << 20
SIZES = (4 * KIB, 1 * MIB, 64 * MIB)
MORE_SIZES = (256, 64 * KIB, 16 * MIB, 512 * MIB)
SHORTEST_S = 0.02  # a figure is the best of calls that took so long together
PLAN = 20  # kernels in the plan that is replayed


def first_kernel(backend: str, outcome: Outcome) -> None:
    """From the first operation to its value: the backend begins, a kernel is written and compiled."""
    start = perf_counter()
    x = pyasc.asarray(np.arange(1000, dtype=np.float32))
    pyasc.sync(pyasc.tanh(x * 0.37) + 1)
    _wait(backend)
    first = perf_counter() - start
    start = perf_counter()
    pyasc.sync(pyasc.exp(x * 0.21) - 2)
    _wait(backend)
    outcome.measurements += [
        Measurement("first kernel of the process", first * 1e3, "ms"),
        Measurement("a new kernel after it", (perf_counter() - start) * 1e3, "ms"),
    ]


def copies(backend: str, full: bool) -> list[Check]:
    """Bandwidths between NumPy's arrays and the backend's memory, and within it; what arrives is compared."""
    sizes = sorted(SIZES + MORE_SIZES) if full else SIZES
    if backend.startswith("sim"):  # in the host's memory, as the CPU's
        return []
    return [Check("copies", _bytes(n), _copies(n), 3, timed=True) for n in sizes]


def launches(backend: str) -> list[Check]:
    """What a launch costs, kernels being tiny."""
    if backend.startswith("sim"):
        return []
    return [
        Check("launches", "cost of a recorded call", _recorded, timed=True),
        Check("launches", f"cost of a replayed plan of {PLAN} kernels", _replayed, timed=True),
    ]


def _device(backend: str) -> int:
    return backend_of(backend).device


def _wait(backend: str) -> None:
    device = _device(backend)
    if device >= 0:
        _runtime.device_synchronize(device)


def _bytes(nbytes: int) -> str:
    return (
        f"{nbytes // MIB} MiB"
        if nbytes >= MIB
        else f"{nbytes // KIB} KiB"
        if nbytes >= KIB
        else f"{nbytes} B"
    )


def _best(function: Callable[[], Any], wait: Callable[[], None]) -> float:
    """Seconds of the best call, after one that may compile."""
    function()
    wait()
    best, spent = float("inf"), 0.0
    while spent < SHORTEST_S:
        start = perf_counter()
        function()
        wait()
        took = perf_counter() - start
        best, spent = min(best, took), spent + took
    return best


def _copies(nbytes: int) -> Callable[[str, Outcome], None]:
    def run(backend: str, outcome: Outcome) -> None:
        values = np.random.default_rng(nbytes).integers(0, 256, nbytes, np.uint8)
        device = _device(backend)
        size = _bytes(nbytes)

        def figure(name: str, function: Callable[[], Any], moved: int = nbytes) -> None:
            best = _best(function, lambda: _wait(backend))
            outcome.measurements.append(Measurement(f"{name}, {size}", moved / best / 1e9, "GB/s"))

        def same(given: Any) -> None:
            if not np.array_equal(given, values):
                wrong = np.flatnonzero(np.asarray(given) != values)
                raise Mismatch(f"{wrong.size} of {nbytes} bytes differ, first at {wrong[0]}")

        if device < 0:
            x = pyasc.array(values)
            same(x.numpy())
            figure("array to tensor", lambda: pyasc.array(values))
            target = np.zeros_like(values)
            figure("tensor to array", lambda: np.copyto(target, x.numpy()))
            figure("tensor to tensor", lambda: pyasc.sync(x + np.uint8(1)), 2 * nbytes)
            return
        host = buffer_of(pyasc.array(values))
        there = _runtime.to_device(host, device, True)
        same(_runtime.array(_runtime.to_device(there, -1, False), (nbytes,), values.dtype))
        figure("host to device", lambda: _runtime.to_device(host, device, True))
        figure("device to host", lambda: _runtime.to_device(there, -1, False).address)
        x = pyasc.asarray(values).to_device(backend)
        same((x + np.uint8(0)).numpy())
        figure("within the device", lambda: pyasc.sync(x + np.uint8(1)), 2 * nbytes)
        count = _runtime.device_count()
        other = (device + 1) % count
        if other != device:
            across = _runtime.to_device(there, other, True)
            same(_runtime.array(_runtime.to_device(across, -1, False), (nbytes,), values.dtype))
            figure(f"to npu:{other}", lambda: _runtime.to_device(there, other, True))

    return run


def _per_call(function: Callable[[], Any], calls: int, after: Callable[[], None]) -> float:
    """Microseconds of a call: the median of several loops; the wait after each loop is not counted."""
    times = []
    function()
    after()
    for _ in range(7):
        start = perf_counter()
        for _ in range(calls):
            function()
        times.append((perf_counter() - start) / calls * 1e6)
        after()
    return median(times)


def _recorded(backend: str, outcome: Outcome) -> None:
    function = pyasc.jit(lambda v: v * 2 + 1)
    x = pyasc.asarray(np.ones(8, np.float32))
    pyasc.sync(x + 1)
    there = x.to_device(backend) if _device(backend) >= 0 else x
    took = _per_call(lambda: pyasc.sync(there + 1), 100, lambda: _wait(backend))
    jitted = _per_call(lambda: function(there), 100, lambda: _wait(backend))
    alone = _per_call(lambda: there + 1, 100, pyasc.sync)
    outcome.measurements += [
        Measurement("recording an operation", alone, "µs"),
        Measurement("an operation recorded, run and waited for", took, "µs"),
        Measurement("call of a jitted function of one kernel", jitted, "µs"),
    ]


def _replayed(backend: str, outcome: Outcome) -> None:
    from .kernels import axpy

    def steps(x: Any, y: Any) -> Any:
        for _ in range(PLAN):
            z = pyasc.empty(8)
            axpy(z, x, y, 0.5)
            x = z
        return x

    function = pyasc.jit(steps)
    x, y = pyasc.asarray(np.ones(8, np.float32)), pyasc.asarray(np.ones(8, np.float32))
    if _device(backend) >= 0:
        x, y = x.to_device(backend), y.to_device(backend)
    given = np.asarray(function(x, y))
    expected = np.ones(8, np.float32)
    for _ in range(PLAN):
        expected = np.float32(0.5) * expected + 1
    if not np.allclose(given, expected, rtol=1e-6):
        raise Mismatch(f"expected {expected[0]!r}, given {given[0]!r}")
    took = _per_call(lambda: function(x, y), 20, lambda: _wait(backend))
    outcome.measurements.append(Measurement(f"replayed plan of {PLAN} kernels", took, "µs"))
