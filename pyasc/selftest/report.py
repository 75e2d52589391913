"""The report of a self-test: Markdown to read, with everything as JSON at its end."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from .machine import shorten
from .runner import Result

SHOWN = 30  # failures in full; the others are in the JSON


def markdown(
    date: str,
    options: dict[str, Any],
    facts: dict[str, str],
    absent: list[tuple[str, str]],
    results: list[Result],
) -> str:
    """The whole report.

    Parameters
    ----------
    date : str
    options : dict
        Of the run.
    facts : dict of str to str
        The machine.
    absent : list of (str, str)
        Backends that were not tried, and why.
    results : list of Result
    """
    failed = sum(len(result.failures) for result in results)
    lines = ["# pyasc self-test", "", f"{date}. {_verdict(failed)}", ""]
    lines += ["| backend | answers | failed | left out | kernels and calls ran on | seconds |"]
    lines += ["| --- | ---: | ---: | ---: | --- | ---: |"]
    for result in results:
        ran = ", ".join(f"{name} {count}" for name, count in sorted(result.launches.items()))
        lines.append(
            f"| {result.backend} | {result.tried} | {len(result.failures)} | {result.left_out} | {ran} "
            f"| {result.seconds:.1f} |"
        )
    lines += ["", *(f"* {name} was not tried: {_line(reason)}" for name, reason in absent)]
    lines += ["", "## Machine", "", "| | |", "| --- | --- |"]
    lines += [f"| {name} | {_line(value)} |" for name, value in facts.items() if "\n" not in value]
    for name, value in facts.items():
        if "\n" in value:
            lines += ["", f"{name}:", "", *_fence(value)]
    for result in results:
        lines += ["", f"## {result.backend}", *_backend(result)]
    whole = {
        "date": date,
        "options": options,
        "machine": facts,
        "absent": dict(absent),
        "backends": [asdict(result) for result in results],
    }
    body = shorten(json.dumps(whole, indent=1, ensure_ascii=False, default=str))
    lines += [
        "",
        "## Everything",
        "",
        "<details><summary>JSON</summary>",
        "",
        *_fence(body, "json"),
        "",
        "</details>",
    ]
    return shorten("\n".join(lines)) + "\n"


def parsed(text: str) -> dict[str, Any]:
    """The JSON of a report."""
    found: dict[str, Any] = json.loads(text.rpartition("````json\n")[2].partition("\n````")[0])
    return found


def summary(result: Result) -> str:
    """One line for the screen."""
    said = "ok" if result.ok else f"{len(result.failures)} FAILED"
    left = f", {result.left_out} left out for time (--full tries all)" if result.left_out else ""
    return f"{result.backend}: {said}, {result.tried} answers compared in {result.seconds:.1f} s{left}"


def _verdict(failed: int) -> str:
    return f"**{failed} failed.**" if failed else "Everything that was tried is as it should be."


def _backend(result: Result) -> list[str]:
    lines = []
    if result.groups:
        lines += ["", "| checks | answers | failed | seconds |", "| --- | ---: | ---: | ---: |"]
        for name, group in result.groups.items():
            lines.append(
                f"| {name} | {group['tried']:.0f} | {group['failed']:.0f} | {group['seconds']:.1f} |"
            )
    if result.measurements:
        lines += ["", "| figure | | |", "| --- | ---: | --- |"]
        lines += [f"| {m['name']} | {_number(m['value'])} | {m['unit']} |" for m in result.measurements]
    memory = result.stats.get("memory", {})
    if memory.get("total"):
        free, total = (f"{memory[name] / 2**30:.1f} GiB" for name in ("free", "total"))
        lines += ["", f"At its end {free} of the device's {total} were free."]
    for failure in result.failures[:SHOWN]:
        lines += ["", f"### {failure['group']}: {failure['name']}", "", *_fence(_said(failure))]
    if len(result.failures) > SHOWN:
        lines += ["", f"{len(result.failures) - SHOWN} more failures are in the JSON."]
    return lines


def _number(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _said(failure: dict[str, Any]) -> str:
    return f"{failure['error']}: {failure['message']}\n{failure['trace']}".rstrip()


def _line(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _fence(text: str, language: str = "") -> list[str]:
    return [f"````{language}", text.replace("````", "'''' "), "````"]
