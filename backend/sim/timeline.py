"""When each pipe of each core was busy, with what: arrays, a picture, a trace for Chrome or Perfetto."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...ops.errors import ArgumentError, FolderError
from .log import PIPES, Log
from .picture import draw

_TRACE_LIMIT = 200_000  # events of a trace where no cores are chosen: beyond, viewers are slow


@dataclass(frozen=True, slots=True)
class CoreTimeline:
    """One core.

    Attributes
    ----------
    kind : str
        ``"vector"`` or ``"cube"``.
    block : int
    begin, end : float
        Microseconds since the host's order.
    pipe, start, stop, name, line : arrays
        Of each instruction the number of its pipe (in `log.PIPES`), when it began and ended in microseconds,
        the number of its name, and the line of the kernel's source.
    """

    kind: str
    block: int
    begin: float
    end: float
    pipe: npt.NDArray[np.uint8]
    start: npt.NDArray[np.float64]
    stop: npt.NDArray[np.float64]
    name: npt.NDArray[np.uint16]
    line: npt.NDArray[np.uint16]

    def busy(self, pipe: str, window: tuple[float, float] | None = None) -> float:
        """The share of a window (of the core's time, where there is none) in which a pipe was busy."""
        low, high = window or (self.begin, self.end)
        of = self.pipe == PIPES.index(pipe)
        spans = np.minimum(self.stop[of], high) - np.maximum(self.start[of], low)
        return float(np.maximum(spans, 0).sum() / (high - low)) if high > low else 0.0


@dataclass(frozen=True, slots=True)
class LineUse:
    """What a line of the kernel's source takes.

    Attributes
    ----------
    line : int
    name, pipe : str
        The instruction, and the pipe that it keeps busy.
    us : float
        Microseconds of a core, on average over all cores.
    count : int
        How often all cores issued it.
    """

    line: int
    name: str
    pipe: str
    us: float
    count: int

    def __str__(self) -> str:
        return f"line {self.line:<5} {self.pipe:<5} {self.name:<20} {self.us:>9.1f} µs  {self.count} times"


@dataclass(frozen=True, slots=True)
class Timeline:
    """A launch.

    Attributes
    ----------
    caption : str
        The kernel, its time and what bounds it.
    names : sequence of str
        Of instructions, by number.
    time_us : float
    cores : tuple of CoreTimeline
    """

    caption: str
    names: Sequence[str]
    time_us: float
    cores: tuple[CoreTimeline, ...]

    @classmethod
    def of(
        cls, log: Log, caption: str, per_us: float, spans: Iterable[tuple[float, float]], starts: Any,
        ends: Any, time_us: float,
    ) -> Timeline:  # fmt: skip
        """From a log and what the engine said of it, in cycles: `per_us` to a microsecond."""
        cores = []
        for core, (begin, end), start, stop in zip(log.cores, spans, starts, ends, strict=True):
            ran = ~np.isnan(start)
            of = core.records[ran]
            cores.append(
                CoreTimeline(
                    core.kind, core.block, begin / per_us, end / per_us, of["pipe"], start[ran] / per_us,
                    stop[ran] / per_us, of["name"], of["line"],
                )
            )  # fmt: skip
        return cls(caption, log.names, time_us, tuple(cores))

    def lines(self, count: int = 10) -> list[LineUse]:
        """The lines of the kernel's source that keep a pipe busy longest, the longest first.

        Parameters
        ----------
        count : int
            How many.
        """
        busy: dict[tuple[int, int, int], tuple[float, int]] = {}
        for core in self.cores:
            key = (core.line.astype(np.int64) << 24) | (core.name.astype(np.int64) << 8) | core.pipe
            keys, where = np.unique(key, return_inverse=True)
            us = np.bincount(where, core.stop - core.start)
            times = np.bincount(where)
            for k, spent, often in zip(keys.tolist(), us.tolist(), times.tolist(), strict=True):
                at = (k >> 24, k >> 8 & 0xFFFF, k & 0xFF)
                before = busy.get(at, (0.0, 0))
                busy[at] = (before[0] + spent, before[1] + often)
        longest = sorted(busy.items(), key=lambda item: -item[1][0])[:count]
        return [
            LineUse(line, self.names[name], PIPES[pipe], us / len(self.cores), often)
            for (line, name, pipe), (us, often) in longest
        ]

    def svg(self, cores: Sequence[int] | None = None, window: tuple[float, float] | None = None) -> str:
        """A picture: a row for each pipe of the chosen cores, time from left to right.

        Parameters
        ----------
        cores : sequence of int, optional
            Numbers of cores; omitted, the first one, or the first block of a kernel of both kinds.
        window : pair of float, optional
            From and to, in microseconds; omitted, the whole launch.
        """
        chosen = self._chosen(cores, self._first_block())
        low, high = window or (0.0, self.time_us)
        if not low < high:
            raise ArgumentError(f"[timeline] expected a window that ends after it begins, given {window}")
        if low >= self.time_us or high <= 0:
            raise ArgumentError(
                f"[timeline] expected a window within 0 to {self.time_us:.1f} µs, given {window}"
            )
        return draw(self, chosen, (low, high))

    def trace(self, cores: Sequence[int] | None = None) -> dict[str, Any]:
        """The Trace Event Format of Chrome and Perfetto: a process for each core, a thread for each pipe.

        Parameters
        ----------
        cores : sequence of int, optional
            Omitted, all; of a long launch, as many as a viewer can take.
        """
        events: list[dict[str, Any]] = []
        for number in self._chosen(cores, self._fitting()):
            core = self.cores[number]
            title = f"{core.kind} core {number}"
            events.append({"ph": "M", "name": "process_name", "pid": number, "args": {"name": title}})
            events.append(
                {"ph": "M", "name": "process_sort_index", "pid": number, "args": {"sort_index": number}}
            )
            for pipe in np.unique(core.pipe).tolist():
                events.append(
                    {
                        "ph": "M",
                        "name": "thread_name",
                        "pid": number,
                        "tid": pipe,
                        "args": {"name": PIPES[pipe]},
                    }
                )
            events += [
                {
                    "ph": "X", "pid": number, "tid": pipe,
                    "ts": round(start, 4), "dur": round(stop - start, 4),
                    "name": self.names[name], "args": {"line": line},
                }
                for pipe, start, stop, name, line in zip(
                    core.pipe.tolist(), core.start.tolist(), core.stop.tolist(), core.name.tolist(),
                    core.line.tolist(), strict=True,
                )
            ]  # fmt: skip
        return {"displayTimeUnit": "ns", "otherData": {"kernel": self.caption}, "traceEvents": events}

    def save(
        self,
        path: str | PathLike[str],
        cores: Sequence[int] | None = None,
        window: tuple[float, float] | None = None,
    ) -> None:
        """Write a picture (``.svg``) or a trace (``.json``).

        Raises
        ------
        ArgumentError
            If the name ends in neither, a core is not there, or the window is empty.
        OSError
            If the file cannot be written.
        """
        name = fspath(path)
        if name.endswith(".svg"):
            text = self.svg(cores, window)
        elif name.endswith(".json"):
            text = json.dumps(self.trace(cores), separators=(",", ":"))
        else:
            raise ArgumentError(f"[timeline] expected a name that ends in .svg or .json, given {name!r}")
        try:
            Path(name).write_text(text, encoding="utf-8")
        except OSError as error:
            said = error.strerror or error
            raise FolderError(
                f"[timeline] expected a file that can be written, given {name!r}: {said}"
            ) from None

    def __repr__(self) -> str:
        return f"<Timeline of {self.caption}>"

    def _chosen(self, cores: Sequence[int] | None, otherwise: Sequence[int]) -> Sequence[int]:
        chosen = otherwise if cores is None else cores
        for number in chosen:
            if not 0 <= number < len(self.cores):
                raise ArgumentError(f"[timeline] expected cores 0 to {len(self.cores) - 1}, given {number}")
        return chosen

    def _first_block(self) -> list[int]:
        if len({core.kind for core in self.cores}) == 1:
            return [0]
        return [number for number, core in enumerate(self.cores) if core.block == self.cores[0].block]

    def _fitting(self) -> list[int]:
        chosen: list[int] = []
        events = 0
        for number, core in enumerate(self.cores):
            events += len(core.start)
            if chosen and events > _TRACE_LIMIT:
                break
            chosen.append(number)
        return chosen
