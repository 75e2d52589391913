"""Figures of the path to an NPU, on a pretended machine: ``python benchmarks/npu.py``.

The library and the compiler are those of tests/npu/standin. What is measured is what pyasc's own code costs
the host, whether copies and kernels overlap on the pretended machine's modelled clock, and whether all is
given back.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "npu"))

import numpy as np
from ascend import Section
from kernels import write_into
from standin.machine import Machine, Span
from standin.toolkit import build

CHUNKS = 32
AHEAD = 2  # chunks that are on their way while the host waits for one
CHUNK_BYTES = 4 << 20
KERNEL_US = 200.0  # about as long as a chunk takes from the host at 25 GB/s
LAUNCHES = 10_000
WARM_UP = 1000  # until pools are as large as they need to be
PLAN = 20
SMALL = 8  # elements

# What goes wrong in turn, by the point and the code.
FAULTS = (("launch", 507011), ("kernel", 507035), ("aclrtMalloc", 207001), ("aclrtMemcpyAsync", 107020))


@contextlib.contextmanager
def pretended(folder: Path, **settings: str) -> Iterator[Machine]:
    """A machine with CANN and NPUs, for pyasc in this process.

    Parameters
    ----------
    folder : Path
    **settings : str
        Without the ``STANDIN_`` that they begin with.
    """
    from pyasc.backend import _runtime

    toolkit = build(folder)
    environment = {f"STANDIN_{name}": value for name, value in settings.items()}
    with mock.patch.dict(os.environ, toolkit.environment() | environment):
        machine = Machine(toolkit.library)
        machine.reset()
        _runtime.device_shut_down()
        _runtime.device_set_library(str(toolkit.library))
        try:
            yield machine
        finally:
            _runtime.device_shut_down()


# --- what a launch costs the host -------------------------------------------------------------------------


def per_call(function: Callable[[], Any], calls: int, count: int) -> float:
    """Microseconds of a call: the median of several loops, what is in the lanes not counted."""
    from pyasc.backend import _runtime

    times = []
    for _ in range(count + 1):
        _runtime.device_synchronize(0)
        start = time.perf_counter()
        for _ in range(calls):
            function()
        times.append((time.perf_counter() - start) / calls * 1e6)
    return median(times[1:])


def replayed(function: Callable[..., Any], *arguments: Any) -> Callable[[], Any]:
    """The run of a jitted function's plan by itself, without what finds the plan."""
    from pyasc.lazy import evaluate

    seen: list[tuple[Any, Any, Any]] = []
    run = evaluate.run

    def watch(plan: Any, origin: Any, leaves: Any, scalars: Any, *rest: Any) -> Any:
        seen.append((plan.program, leaves, scalars))
        return run(plan, origin, leaves, scalars, *rest)

    with mock.patch.object(evaluate, "run", watch):
        function(*arguments)
    program, leaves, scalars = seen[-1]
    return lambda: program.run(leaves, scalars)


def launches(section: Section, folder: Path, count: int) -> None:
    """Kernels that do nothing, on a device that takes no time."""
    import pyasc
    from pyasc.selftest.kernels import axpy

    def chain(x: Any, y: Any) -> Any:
        for _ in range(PLAN):
            z = pyasc.empty(SMALL)
            axpy(z, x, y, 0.5)
            x = z
        return x

    with pretended(folder, NULL_KERNELS="1") as machine, pyasc.backend("npu:0"):
        x, y = (pyasc.asarray(np.ones(SMALL, np.float32)).to_device("npu:0") for _ in range(2))
        one, many = pyasc.jit(lambda v: v * 2 + 1), pyasc.jit(chain)
        one(x)
        before = machine.count("launches")
        many(x, y)
        pyasc.sync()
        if machine.count("launches") - before != PLAN:
            raise RuntimeError(f"expected {PLAN} launches, given {machine.count('launches') - before}")
        rows = [
            ("plan of one kernel, replayed", per_call(replayed(one, x), 200, count), "≤ 8"),
            ("call of a jitted function of one kernel", per_call(lambda: one(x), 200, count), ""),
            (f"plan of {PLAN} kernels, replayed", per_call(replayed(many, x, y), 20, count), "≤ 60"),
            (f"call of a jitted function of {PLAN} kernels", per_call(lambda: many(x, y), 20, count), ""),
            ("operation recorded, run and waited for", per_call(lambda: pyasc.sync(x + 1), 200, count), ""),
        ]
    section.table(("", "µs", "aim"), [(name, f"{value:.1f}", aim) for name, value, aim in rows])
    section.remark("Without what the driver costs: the pretended one only puts a task into a queue.")


# --- overlap ----------------------------------------------------------------------------------------------


def covered(spans: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The union of some spans, in order."""
    merged: list[tuple[float, float]] = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged


def both(one: Sequence[tuple[float, float]], other: Sequence[tuple[float, float]]) -> float:
    """How long two unions are both covered."""
    return sum(max(0.0, min(b, d) - max(a, c)) for a, b in one for c, d in other)


def overlap(spans: Sequence[Span]) -> tuple[float, float, float]:
    """The share of the copies' time in which a kernel runs too; the time from first to last; the sum."""
    copies = [(s.begin, s.end) for s in spans if s.kind in ("upload", "download")]
    kernels = [(s.begin, s.end) for s in spans if s.kind == "kernel"]
    moving, computing = covered(copies), covered(kernels)
    every = [*copies, *kernels]
    lasted = max(end for _, end in every) - min(begin for begin, _ in every)
    total = sum(end - begin for begin, end in every)
    return both(moving, computing) / sum(end - begin for begin, end in moving), lasted, total


def pipeline(section: Section, folder: Path, count: int) -> None:
    """Chunks to the device, through a kernel, and back; the host looks at one while two are under way."""
    import pyasc

    values = [np.full(CHUNK_BYTES // 4, n, np.float32) for n in range(CHUNKS)]
    function = pyasc.jit(lambda v: v * 2 + 1)
    settings = {"MODEL_TIME": "1", "KERNEL_US": f"{KERNEL_US:.0f}", "NULL_KERNELS": "1"}
    with pretended(folder, **settings) as machine, pyasc.backend("npu:0"):
        function(pyasc.asarray(values[0])).numpy()
        found = []
        for _ in range(count):
            with machine.timeline() as spans:
                results: list[Any] = []
                for n in range(CHUNKS + AHEAD):
                    if n < CHUNKS:
                        results.append(function(pyasc.asarray(values[n])))
                    if n >= AHEAD:
                        results[n - AHEAD].numpy()
            found.append(overlap(spans))
    share, lasted, total = sorted(found)[count // 2]  # on a busy machine the host may be late
    section.remark(
        f"{CHUNKS} chunks of {CHUNK_BYTES >> 20} MiB, each copied to the device, through a kernel of "
        f"{KERNEL_US:.0f} µs, and back: {share:.0%} of the copies' time a kernel ran too (aim: ≥ 90 %). The "
        f"whole lasted {lasted / 1e3:.0f} µs of the modelled clock; one after another it would be "
        f"{total / lasted:.2f} times as long."
    )


# --- what is given back -----------------------------------------------------------------------------------


def mixed(turn: int) -> None:
    """Launches of several kinds: array code, reductions, products, kernels by hand, copies both ways."""
    import pyasc
    from pyasc.selftest.kernels import axpy

    n = 16 + turn % 5
    x = pyasc.asarray(np.ones(n, np.float32))
    kind = turn % 5
    if kind == 0:
        pyasc.sync(x * 2 + turn)
    elif kind == 1:
        float((x + 1).sum())
    elif kind == 2:
        out = pyasc.empty(n)
        axpy(out, x, x, 2.0)
        out.numpy()
    elif kind == 3:
        pyasc.sync(x.to_device("npu:0") - 1, x + 3)
    else:
        square = pyasc.asarray(np.ones((n, n), np.float32))
        pyasc.sync(square @ square)


def leaks(section: Section, folder: Path, count: int) -> None:
    """Counts of the pretended machine before and after, with and without faults."""
    import pyasc
    from pyasc.backend import _runtime

    rows = []
    for name, faults in (("", False), (", a fault in each", True)):
        # What kernels compute is not looked at here.
        with pretended(folder, NULL_KERNELS="1") as machine, pyasc.backend("npu:0"):
            for turn in range(WARM_UP):
                mixed(turn)
            before = _settled(machine)
            failed = happened = 0
            start = _runtime.device_stats(0)["launches"]
            turn = 0
            while _runtime.device_stats(0)["launches"] - start < LAUNCHES and turn < 4 * LAUNCHES:
                if faults:
                    point, code = FAULTS[turn % len(FAULTS)]
                    if point == "aclrtMalloc":
                        pyasc.empty_cache("npu:0")  # else it is not called
                    machine.inject(point, 1, code)
                try:
                    mixed(turn)
                    pyasc.sync()
                except Exception:
                    failed += 1
                happened += faults and not machine.count("faults")
                machine.clear_faults()
                turn += 1
            after = _settled(machine)
            made = _runtime.device_stats(0)["launches"] - start
        changed = {what: after[what] - before[what] for what in before if after[what] != before[what]}
        said = ", ".join(f"{what} {change:+d}" for what, change in changed.items()) or "nothing"
        rows.append((f"{made} launches{name}", f"{happened}", f"{failed}", said))
    section.table(("", "faults", "errors raised", "not given back"), rows)


def _settled(machine: Machine) -> dict[str, int]:
    import pyasc

    with contextlib.suppress(Exception):
        pyasc.sync()
    gc.collect()
    pyasc.empty_cache("npu:0")
    return machine.resources()


SECTIONS = {
    "launches": ("What a launch costs the host", launches),
    "pipeline": ("Copies and kernels overlap", pipeline),
    "leaks": ("Memory, events and streams are given back", leaks),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--into", type=Path, help="a page whose figures, between its marks, are replaced")
    options = parser.parse_args()
    parts = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("PYASC_CACHE_DIR", str(Path(folder, "cache")))
        for name in options.only:
            title, measure = SECTIONS[name]
            section = Section(title)
            measure(section, Path(folder, "cann"), options.rounds)
            print(section.markdown(), flush=True)
            parts.append(section.markdown())
    if options.into:
        write_into(options.into, parts)


if __name__ == "__main__":
    main()
