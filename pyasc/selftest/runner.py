"""Runs the checks of a backend in a process of its own, again after a crash, and gathers what it finds."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

LAST_WORDS_S = 0.5  # in which a process that hangs says where
CRASHES = 3  # after which the rest of a backend's checks is left
WORKER = ("-m", "pyasc.selftest.worker")
TAIL = 4000  # characters of what a process wrote that are kept


@dataclass
class Result:
    """What was found of one backend.

    Attributes
    ----------
    backend : str
    checks, tried, left_out : int
        Checks and answers; those for which there was no time.
    failures : list of dict
        With `group`, and what `check.Failure` has.
    measurements : list of dict
    launches : dict of str to int
        By the backend that ran them.
    groups : dict of str to dict
        By group of checks: answers tried and failed, and the time.
    seconds : float
    stats : dict
        Of the kernel cache and memory at the end.
    """

    backend: str
    checks: int = 0
    tried: int = 0
    left_out: int = 0
    failures: list[dict[str, Any]] = field(default_factory=list)
    measurements: list[dict[str, Any]] = field(default_factory=list)
    launches: dict[str, int] = field(default_factory=dict)
    groups: dict[str, dict[str, float]] = field(default_factory=dict)
    seconds: float = 0.0
    stats: dict[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return not self.failures


# Told what runs: the backend, checks that ended, all of them, the group and the name of the one that runs.
Progress = Callable[[str, int, int, str, str], None]


class Worker:
    """A process of `worker`, its messages, and how it ended.

    Parameters
    ----------
    arguments : sequence of str
    timeout : float
        Seconds without a message after which it is ended.
    cache : str
        Folder of its kernel cache.
    """

    def __init__(self, arguments: Sequence[str], timeout: float, cache: str) -> None:
        self._arguments = arguments
        self._timeout = timeout
        self._cache = cache
        self.trouble = ""
        self.output = ""

    def messages(self) -> Iterator[dict[str, Any]]:
        """Each message as it comes."""
        reading, writing = os.pipe()
        with tempfile.TemporaryFile() as written, os.fdopen(reading, "rb", buffering=0) as pipe:
            program = [sys.executable, *WORKER, "--fd", str(writing), *self._arguments]
            process = subprocess.Popen(
                program,
                pass_fds=(writing,),
                stdin=subprocess.DEVNULL,
                stdout=written,
                stderr=written,
                env={**os.environ, "PYASC_CACHE_DIR": self._cache, "PYASC_BACKEND": "cpu"},
                start_new_session=True,  # a compiler that it started ends with it
            )
            os.close(writing)
            done = False
            try:
                for message in self._lines(pipe.fileno()):
                    done = done or message["kind"] == "done"
                    yield message
                if not self.trouble:
                    process.wait(self._timeout)
            except subprocess.TimeoutExpired:
                self.trouble = "did not end"
            finally:
                if process.poll() is None:
                    process.send_signal(signal.SIGUSR1)
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(LAST_WORDS_S)
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                written.seek(0)
                self.output = written.read().decode(errors="replace")[-TAIL:]
            if not self.trouble and (process.returncode or not done):
                self.trouble = _ended(process.returncode)

    def _lines(self, pipe: int) -> Iterator[dict[str, Any]]:
        text = b""
        with selectors.DefaultSelector() as ready:
            ready.register(pipe, selectors.EVENT_READ)
            while True:
                if not ready.select(self._timeout):
                    self.trouble = f"said nothing for {self._timeout:.0f} s and was ended"
                    return
                data = os.read(pipe, 1 << 16)
                if not data:
                    return
                *lines, text = (text + data).split(b"\n")
                for line in lines:
                    yield json.loads(line)


def _ended(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


def run(
    backend: str, full: bool, budget: float, timeout: float, cache: str, progress: Progress, result: Result
) -> None:
    """Try a backend into `result`, which holds what was found so far whatever happens."""
    begin = time.monotonic()
    first = crashes = 0
    spent = 0.0
    while True:
        left = max(budget - spent, 0.0)
        arguments = ["--backend", backend, "--first", str(first), "--budget", f"{left:.1f}"]
        worker = Worker(arguments + ["--full"] * full, timeout, cache)
        running: dict[str, Any] = {"number": first - 1, "group": "start", "name": "starting", "size": 0}
        try:
            for message in worker.messages():
                if message["kind"] == "checks":
                    result.checks = message["count"]
                elif message["kind"] == "start":
                    running = message
                    progress(backend, message["number"], result.checks, message["group"], message["name"])
                elif message["kind"] == "end":
                    _add(result, running, message)
                    spent += message["seconds"] * message["optional"]
                    running = {**running, "name": f"after {running['name']}"}
                elif message["kind"] == "left_out":
                    result.left_out = message["size"]
                elif message["kind"] == "stats":
                    result.stats = {"cache": message["cache"], "memory": message["memory"]}
        finally:
            result.seconds = time.monotonic() - begin
        if not worker.trouble:
            return
        crashes += 1
        result.failures.append(
            {
                "group": running["group"],
                "name": running["name"],
                "error": "Crash",
                "message": f"the process {worker.trouble}",
                "trace": worker.output,
            }
        )
        first = running["number"] + 1
        if running["number"] < 0 or crashes == CRASHES or first >= result.checks:
            return


def _add(result: Result, started: dict[str, Any], ended: dict[str, Any]) -> None:
    outcome = ended["outcome"]
    result.tried += outcome["tried"]
    result.failures += [{"group": started["group"], **failure} for failure in outcome["failures"]]
    result.measurements += outcome["measurements"]
    for name, count in outcome["launches"].items():
        result.launches[name] = result.launches.get(name, 0) + count
    group = result.groups.setdefault(started["group"], {"tried": 0, "failed": 0, "seconds": 0.0})
    group["tried"] += outcome["tried"]
    group["failed"] += len(outcome["failures"])
    group["seconds"] += ended["seconds"]
