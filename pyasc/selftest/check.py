"""What a check is, and what it finds."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import pyasc

from ..profiler import Profiler
from . import op_table

EXPECTED = "what is expected"  # a marker around what is computed to compare with


class Mismatch(AssertionError):
    """An answer that is not what was expected."""


@dataclass
class Measurement:
    """A figure of a backend."""

    name: str
    value: float
    unit: str


@dataclass
class Failure:
    """What went wrong in a check.

    Attributes
    ----------
    name : str
        The operation, dtype, shape and layout, or the check's own name.
    error : str
        The class of the exception; ``"Mismatch"`` where only the answer was wrong.
    message, trace : str
    """

    name: str
    error: str
    message: str
    trace: str = ""


@dataclass
class Outcome:
    """What a check found.

    Attributes
    ----------
    tried : int
        Answers that were compared.
    failures : list of Failure
    measurements : list of Measurement
    launches : dict of str to int
        Kernels and host calls by the backend that ran them.
    """

    tried: int = 1
    failures: list[Failure] = field(default_factory=list)
    measurements: list[Measurement] = field(default_factory=list)
    launches: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Check:
    """One thing to try.

    Attributes
    ----------
    group, name : str
    run : callable
        Given the backend's name and the outcome to fill.
    size : int
        Answers that it compares.
    optional : bool
        May be left out where time is short.
    timed : bool
        Measures time, so that nothing else may listen.
    """

    group: str
    name: str
    run: Callable[[str, Outcome], None]
    size: int = 1
    optional: bool = False
    timed: bool = False


def run(check: Check, backend: str) -> Outcome:
    """Run a check; what it raises becomes a failure."""
    outcome = Outcome(check.size)
    try:
        profiler = Profiler()
        with nullcontext() if check.timed else profiler, pyasc.backend(backend):
            check.run(backend, outcome)
        inside = [e for e in profiler.events if e.kind == "marker" and e.name == EXPECTED]
        for event in profiler.events:
            if event.backend and not any(e.start <= event.start <= e.end for e in inside):
                outcome.launches[event.backend] = outcome.launches.get(event.backend, 0) + 1
    except Exception as error:
        outcome.failures.append(failure(check.name, error))
    return outcome


def failure(name: str, error: BaseException) -> Failure:
    """A failure for an exception, its stack in short."""
    trace = "" if isinstance(error, Mismatch) else "".join(traceback.format_exception(error, limit=-6))
    said = "\n".join([str(error), *getattr(error, "__notes__", ())])
    return Failure(name, type(error).__name__, said, trace)


def compare(given: Any, expected: Any, ulp: float = 0.0, scale: float = 0.0) -> None:
    """Raise `Mismatch` where arrays differ by more than some units in the last place, of `scale` at least."""
    found = op_table.difference(np.asarray(given), np.asarray(expected), ulp, scale)
    if found:
        raise Mismatch(found)
