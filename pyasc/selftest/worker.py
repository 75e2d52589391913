"""A process that tries one backend and tells the one that started it, line by line, what it does and found.

`runner` starts it: a driver that crashes or hangs takes only this process along.
"""

from __future__ import annotations

import argparse
import dataclasses
import faulthandler
import json
import os
import signal
import time
from typing import Any, TextIO


class Teller:
    """Writes messages to the process that listens."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __call__(self, kind: str, **content: Any) -> None:
        self._stream.write(json.dumps({"kind": kind, **content}) + "\n")
        self._stream.flush()


def list_backends(tell: Teller) -> None:
    """Tell which backends there are, and why others are not."""
    from .machine import device_facts, found

    for name, reason in found():
        tell("backend", name=name, reason=reason)
    tell("facts", facts=device_facts())


def try_backend(tell: Teller, backend: str, full: bool, first: int, budget: float) -> None:
    """Run the checks from the `first`-th on; those that may be left out until they took so many seconds."""
    from . import check, checks

    every = checks.checks(backend, full)
    tell("checks", count=len(every), size=sum(one.size for one in every))
    left_out = 0
    spent = 0.0  # on what may be left out
    for n, one in enumerate(every):
        if n < first:
            continue
        if one.optional and spent >= budget:
            left_out += one.size
            continue
        tell("start", number=n, group=one.group, name=one.name, size=one.size)
        start = time.perf_counter()
        outcome = check.run(one, backend)
        seconds = time.perf_counter() - start
        spent += seconds * one.optional
        tell("end", number=n, optional=one.optional, seconds=seconds, outcome=dataclasses.asdict(outcome))
    tell("left_out", size=left_out)
    import pyasc

    with pyasc.backend(backend):
        tell("stats", cache=pyasc.cache_stats(), memory=pyasc.memory_stats())


def main() -> None:
    parser = argparse.ArgumentParser(prog="pyasc.selftest.worker")
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("--backend", default="")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--budget", type=float, default=float("inf"))
    options = parser.parse_args()
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1)  # before it is ended, says where it hangs
    with os.fdopen(options.fd, "w", encoding="utf-8") as stream:
        tell = Teller(stream)
        if options.backend:
            try_backend(tell, options.backend, options.full, options.first, options.budget)
        else:
            list_backends(tell)
        tell("done")


if __name__ == "__main__":
    main()
