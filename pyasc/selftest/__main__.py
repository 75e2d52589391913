"""The command ``python -m pyasc.selftest``."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from . import machine, report, runner
from .runner import Result

QUICK_S = {"cpu": 10.0, "sim": 15.0}  # seconds for what may be left out, beside what may not
FIRST_NPU_S = 25.0
OTHER_NPU_S = 5.0
SILENCE_S = {False: 180.0, True: 900.0}


class Screen:
    """Prints what runs: on a terminal in one line that changes, elsewhere a line for each group of checks."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._said = ("", "")

    def progress(self, backend: str, number: int, count: int, group: str, name: str) -> None:
        """A check begins."""
        if self._terminal:
            self._show(f"{backend}: {number + 1} of {count}, {group}: {name}")
        elif self._said != (backend, group):
            self._said = (backend, group)
            print(f"{backend}: {number + 1} of {count}, {group}", file=sys.stderr, flush=True)

    def line(self, text: str) -> None:
        """Something that stays."""
        if self._terminal:
            self._show("")
        print(text, flush=True)

    def _show(self, text: str) -> None:
        print(f"\r\033[K{text[:110]}", end="", file=sys.stderr, flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Run the self-test.

    Parameters
    ----------
    arguments : list of str, optional
        Of the command line.

    Returns
    -------
    int
        0 where everything that was tried is as it should be, else 1.
    """
    parser = argparse.ArgumentParser(
        prog="python -m pyasc.selftest",
        description="Try each backend of this machine, compare it with the CPU, measure it, write a report.",
    )
    level = parser.add_mutually_exclusive_group()
    level.add_argument("--quick", action="store_true", help="what fits into about a minute (the default)")
    level.add_argument("--full", action="store_true", help="every operation, dtype and case; takes long")
    parser.add_argument(
        "--backend", action="append", help="only this one, such as cpu, sim, npu:0; may be repeated"
    )
    parser.add_argument(
        "--output", type=Path, help="the report's file (default: pyasc-selftest-DATE.md here)"
    )
    options = parser.parse_args(arguments)
    output = options.output or Path(time.strftime("pyasc-selftest-%Y%m%d-%H%M%S.md"))
    fresh = not output.exists()
    try:
        output.touch()
    except OSError as error:
        parser.error(
            f"expected --output in a folder that can be written, given {str(output)!r}: {error.strerror}"
        )
    screen = Screen()
    with tempfile.TemporaryDirectory(prefix="pyasc-selftest-") as cache:
        there, absent, facts = _look(cache, options.full)
        if options.backend:
            options.backend = ["npu:0" if name == "npu" else name for name in options.backend]
            missing = [name for name in options.backend if name not in there]
            if missing:
                reasons = "".join(f"; {name}: {reason}" for name, reason in absent)
                if fresh:
                    output.unlink()
                parser.error(f"expected --backend of {', '.join(there)}, given {missing[0]!r}{reasons}")
            absent += [(name, "not asked for") for name in there if name not in options.backend]
            there = options.backend
        for name, reason in absent:
            screen.line(f"{name}: not tried: {reason}")
        results, stopped = _tried(there, options.full, cache, screen)
    chosen = {"full": options.full, "backends": there, "stopped": stopped}
    date = time.strftime("%Y-%m-%d %H:%M:%S %z")
    output.write_text(report.markdown(date, chosen, facts, absent, results), encoding="utf-8")
    screen.line(f"The report is in {output}.")
    return int(stopped or not all(result.ok for result in results))


def _look(cache: str, full: bool) -> tuple[list[str], list[tuple[str, str]], dict[str, str]]:
    """The backends that there are, those there are not and why, and the machine."""
    facts: dict[str, Any] = machine.facts()
    there: list[str] = []
    absent: list[tuple[str, str]] = []
    worker = runner.Worker([], SILENCE_S[full], cache)
    for message in worker.messages():
        if message["kind"] == "backend":
            if message["reason"]:
                absent.append((message["name"], message["reason"]))
            else:
                there.append(message["name"])
        elif message["kind"] == "facts":
            facts |= message["facts"]
    if worker.trouble:  # the CPU is there whatever a driver does
        absent.append(("npu", f"looking for devices {worker.trouble}\n{worker.output}"))
        there = there or ["cpu"]
    return there, absent, facts


def _tried(names: list[str], full: bool, cache: str, screen: Screen) -> tuple[list[Result], bool]:
    """What was found of backends, one after another, and whether Ctrl-C ended it."""
    results: list[Result] = []
    stopped = False
    for name in names:
        result = Result(name)
        results.append(result)
        try:
            runner.run(name, full, _budget(name, full), SILENCE_S[full], cache, screen.progress, result)
        except KeyboardInterrupt:
            stopped = True
        screen.line(report.summary(result))
        for failure in result.failures[:5]:
            said = failure["message"].partition("\n")[0][:200]
            screen.line(f"  {failure['group']}: {failure['name']}: {said}")
        if stopped:
            screen.line("stopped")
            break
    return results, stopped


def _budget(name: str, full: bool) -> float:
    if full:
        return float("inf")
    return QUICK_S.get(name, FIRST_NPU_S if name == "npu:0" else OTHER_NPU_S)


if __name__ == "__main__":
    sys.exit(main())
