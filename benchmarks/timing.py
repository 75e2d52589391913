"""Checking and timing one workload: every variant of every library, in interleaved rounds."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from peers import variants
from workloads import Arrays, Missing, Workload

IDLE = (
    0.03  # seconds between libraries, in which thread pools that spin for work (OpenMP, OpenBLAS) go to sleep
)
LEADERS = 8  # a function this many times slower than the fastest is timed in the first three rounds only
ENOUGH = 0.025  # seconds of timed calls of one function in a round


@dataclass
class Row:
    """The times of a workload.

    Attributes
    ----------
    samples : dict
        (library, variant) → seconds, one for each round.
    failures : dict of str to str
        Libraries whose result was wrong or that raised an error, and how.
    """

    workload: Workload
    nbytes: int = 0
    samples: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    note: str = ""

    def best(self, library: str) -> tuple[float, str] | None:
        """The library's median in seconds with its fastest variant, and that variant."""
        times = [(median(s), v) for (name, v), s in self.samples.items() if name == library and s]
        return min(times) if times else None

    def ratio(self, library: str, other: str) -> float | None:
        """Median over the rounds of library's time by other's, each with its fastest variant."""
        one, two = self.best(library), self.best(other)
        if one is None or two is None:
            return None
        pairs = zip(self.samples[library, one[1]], self.samples[other, two[1]], strict=False)
        return median(a / b for a, b in pairs)


def set_threads(peers: dict[str, ModuleType], count: int) -> None:
    """Tell the libraries that take it from a call, not only from the environment."""
    calls: dict[str, Callable[[], Any]] = {
        "numexpr": lambda: peers["numexpr"].ne.set_num_threads(count),
        "torch": lambda: peers["torch"].torch.set_num_threads(count),
        "opencv": lambda: peers["opencv"].cv2.setNumThreads(count),
        "numba": lambda: __import__("numba").set_num_threads(count),
    }
    for name in peers.keys() & calls.keys():
        calls[name]()


def disagreement(result: NDArray[Any], reference: NDArray[Any], workload: Workload) -> str | None:
    """How a result differs from NumPy's, or None where it agrees."""
    if result.shape != reference.shape:
        return f"shape {result.shape}, expected {reference.shape}"
    if reference.dtype.kind in "iu" and result.dtype.kind not in "iu":
        return f"dtype {result.dtype}, expected {reference.dtype}"
    if workload.mismatches:
        share = float(np.mean(result != reference))
        return None if share <= workload.mismatches else f"{share:.2%} of the elements differ"
    try:
        np.testing.assert_allclose(result, reference, workload.rtol, workload.atol)
    except AssertionError as error:
        return " ".join(str(error).split())[:200]
    return None


def run(workload: Workload, peers: dict[str, ModuleType], rounds: int, quick: bool) -> Row:
    """Check, then time, a workload with every library that does it."""
    row = Row(workload)
    try:
        arrays = workload.make(np.random.default_rng(0), quick)
    except Missing as missing:
        row.note = str(missing)
        return row
    row.nbytes = workload.nbytes(arrays)
    reference = reference_of(workload, arrays)
    calls: dict[tuple[str, str], Callable[[], float]] = {}
    for name, peer in peers.items():
        functions = variants(peer, workload.name)
        if not functions:
            continue
        try:
            inputs = peer.load(arrays)
        except Exception as error:
            row.failures[name] = f"{type(error).__name__}: {error}"
            continue
        for variant, function in functions.items():
            call = timed(peer, function, inputs)
            try:
                result = function(**inputs)
                peer.finish(result)
                wrong = disagreement(np.asarray(peer.to_numpy(result)), reference, workload)
                del result
                if wrong is None:
                    call()
                    calls[name, variant] = call
            except Exception as error:
                wrong = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
            if wrong is not None:
                row.failures[f"{name} {variant}".strip()] = wrong
    row.samples = {key: [] for key in calls}
    gc.collect()
    gc.disable()
    try:
        for turn in range(rounds):
            leader = min((median(s) for s in row.samples.values() if s), default=0.0)
            for key, call in calls.items():
                samples = row.samples[key]
                if turn >= 3 and median(samples) > LEADERS * leader:
                    continue
                time.sleep(IDLE)
                samples.append(measure(call))
    finally:
        gc.enable()
    return row


def reference_of(workload: Workload, arrays: Arrays) -> NDArray[Any]:
    """NumPy's result, whether or not NumPy is among the libraries timed."""
    import peers.numpy

    with np.errstate(all="ignore"):
        return np.asarray(getattr(peers.numpy, workload.name)(**arrays))


def timed(peer: ModuleType, function: Callable[..., Any], inputs: dict[str, Any]) -> Callable[[], float]:
    """A call that returns its own time; the result of the call before is gone when it starts."""
    finish, clock = peer.finish, time.perf_counter

    def call() -> float:
        start = clock()
        result = function(**inputs)
        finish(result)
        elapsed = clock() - start
        del result
        return elapsed

    return call


def measure(call: Callable[[], float]) -> float:
    """One sample: a warming call, then the fastest of as many as fill `ENOUGH` (at most 9).

    The fastest, so that what else the machine does in these milliseconds does not count; the median over
    the rounds is taken of these.
    """
    warm = call()
    if warm > 4 * ENOUGH:
        return warm
    return min(call() for _ in range(max(2, min(9, int(ENOUGH / max(warm, 1e-6))))))
