"""`pyasc.Profiler`: what took the time between recording and results, on every backend."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Self

from .lazy import evaluate, events
from .lazy.cache import kernels as kernel_cache
from .lazy.events import Line, Note, Recorder
from .ops.errors import ArgumentError, DtypeError, FolderError, TracingError, user_line

if TYPE_CHECKING:
    from .backend.ascend.generated import Bound, Generated
    from .backend.sim.cost import Cost

KINDS = (
    *("marker", "record", "schedule", "compile", "load", "kernel", "host", "copy", "allocate"),
    *("upload", "download"),
)


# Characters that no XML file has; names of markers and threads may.
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_chain = threading.Lock()  # of the profilers that listen


def marker(name: str) -> events.span:
    """Show the body of a ``with`` statement under a name in whatever profile is being made."""
    if not isinstance(name, str):
        raise DtypeError(f"[Profiler] expected a string as the name of a marker, given {type(name).__name__}")
    return events.span("marker", name)


@dataclass(frozen=True, slots=True)
class Event:
    """Something that took time.

    Attributes
    ----------
    kind : str
        ``"record"`` (tracing a function, putting a trace in order), ``"schedule"``, ``"compile"``, ``"load"``
        (a kernel from disk), ``"kernel"``, ``"host"`` (a call of a library), ``"copy"``, ``"allocate"``,
        ``"upload"`` and ``"download"`` (to and from a device), or ``"marker"``.
    name : str
    start, end : float
        Microseconds since the profiler began. What a device does has the times of the device.
    thread : str
        Or the lane of a device, such as ``"npu:0 compute"``.
    line : tuple of (str, int, str), or None
        File, number and text: where a kernel's operation was recorded; else where the time was spent.
    nbytes : int
        Read and written, copied, or allocated.
    backend : str
        Of a kernel or a call.
    device : str
        That did it, such as ``"npu:0"``; "" for the host.
    simulated_us : float, optional
        What the kernel takes on the simulated chip, in microseconds, where the profiler was asked for it.
    utilisation : mapping of str to float, optional
        The share of that time in which each pipe is busy.
    """

    kind: str
    name: str
    start: float
    end: float
    thread: str
    line: Line | None = None
    nbytes: int = 0
    backend: str = ""
    device: str = ""
    simulated_us: float | None = None
    utilisation: Mapping[str, float] | None = None

    @property
    def duration(self) -> float:
        """Microseconds."""
        return self.end - self.start

    @property
    def place(self) -> str:
        """File and line number in short; "" where there is none."""
        return f"{os.path.basename(self.line[0])}:{self.line[1]}" if self.line else ""


@dataclass(frozen=True, slots=True)
class Row:
    """The events of one kind, name and line.

    Attributes
    ----------
    kind, name, place, backend : str
    calls : int
    total, own : float
        Microseconds; `own` without what happened inside.
    nbytes : int
        Of all calls.
    share : float
        Of `own` in that of all events.
    simulated_us : float, optional
        Of all calls.
    busiest : tuple of (str, float), optional
        The pipe of the simulated chip that is busy most, and its share of the time.
    """

    kind: str
    name: str
    place: str
    backend: str
    calls: int
    total: float
    own: float
    nbytes: int
    share: float
    simulated_us: float | None = None
    busiest: tuple[str, float] | None = None

    @property
    def mean(self) -> float:
        """Microseconds of a call."""
        return self.total / self.calls

    @property
    def rate(self) -> float:
        """Bytes per second; of the simulated time where that is known."""
        time = self.simulated_us or self.total
        return self.nbytes / time * 1e6 if time else 0.0

    def cells(self) -> tuple[str, ...]:
        """The row as text, a cell for each of `COLUMNS`."""
        rate = f"{self.rate / 1e9:.1f} GB/s" if self.nbytes and self.kind != "allocate" else ""
        if self.busiest is not None:
            rate = f"{rate}, {self.busiest[0]} {self.busiest[1]:.0%}".removeprefix(", ")
        chip = "" if self.simulated_us is None else f"{self.simulated_us:.1f}"
        nbytes = f"{self.nbytes / 1e6:.2f}" if self.nbytes else ""
        return (
            self.name,
            self.kind,
            self.place,
            str(self.calls),
            f"{self.total / 1e3:.3f}",
            f"{self.mean:.1f}",
            nbytes,
            chip,
            rate,
            f"{self.share:.1%}",
        )


COLUMNS = ("name", "kind", "line", "calls", "total ms", "mean µs", "MB", "chip µs", "rate", "share")
_LEFT_ALIGNED = 3  # of the columns


class Timeline(Sequence[Row]):
    """The rows of a profile, those that took most first. Prints as a table, in a notebook too."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = tuple(rows)

    def __getitem__(self, index: Any) -> Any:
        return self.rows[index]

    def __len__(self) -> int:
        return len(self.rows)

    def _table(self) -> list[tuple[str, ...]]:
        table = [COLUMNS, *(row.cells() for row in self.rows)]
        used = [k for k in range(len(COLUMNS)) if k < 2 or any(row[k] for row in table[1:])]
        return [tuple(row[k] for k in used) for row in table]

    def __str__(self) -> str:
        if not self.rows:
            return "nothing ran"
        table = self._table()
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        left = sum(name in COLUMNS[:_LEFT_ALIGNED] for name in table[0])
        return "\n".join(
            "  ".join(
                cell.ljust(width) if k < left else cell.rjust(width)
                for k, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in table
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head, *body = self._table()
        left = sum(name in COLUMNS[:_LEFT_ALIGNED] for name in head)
        lines = ["<table><thead><tr>", *(f"<th>{escape(cell)}</th>" for cell in head), "</tr></thead><tbody>"]
        for row in body:
            cells = (
                f'<td style="text-align:{"left" if k < left else "right"}">{escape(cell)}</td>'
                for k, cell in enumerate(row)
            )
            lines.append(f"<tr>{''.join(cells)}</tr>")
        return "".join([*lines, "</tbody></table>"])


class Picture(str):
    """SVG that a notebook shows as a picture."""

    __slots__ = ()

    def _repr_svg_(self) -> str:
        return str(self)


@dataclass(eq=False, repr=False)
class Profiler:
    """Record what takes time within a ``with`` statement, on every backend.

    What is pending is evaluated before and after, so that a profile shows what its own body asked for.
    Profilers may lie within one another.

    Parameters
    ----------
    simulate : bool
        Also run the cost model for each kernel on a simulated chip: its time there, and how busy the pipes.
        That takes a while when the body has ended.

    Attributes
    ----------
    events : list of Event
        In the order in which they ended.

    Examples
    --------
    >>> with pyasc.Profiler() as prof:
    ...     with prof.marker("step"):
    ...         (pyasc.ones(1000) + 1).numpy()
    >>> print(prof.timeline)
    >>> prof.save("trace.json")
    """

    simulate: bool = False
    events: list[Event] = field(default_factory=list, init=False)
    _begin: int = field(default=0, init=False)
    _outer: Recorder | None = field(default=None, init=False)
    _running: bool = field(default=False, init=False)
    _launches: list[tuple[int, str, Generated, Bound, tuple[int, ...]]] = field(
        default_factory=list, init=False
    )
    _observer: Callable[[Generated, Bound, tuple[int, ...]], None] | None = field(default=None, init=False)

    marker = staticmethod(marker)

    def __enter__(self) -> Self:
        if self._running:
            raise TracingError("[Profiler] expected a profiler that is not running, given one that is")
        if not evaluate.tracing():
            evaluate.sync()
        self._running = True
        self._begin = self._begin or perf_counter_ns()
        with _chain:
            self._outer, events.recorder = events.recorder, self
            if self.simulate:
                from .backend.sim import backend as simulated

                self._observer, simulated.observer = simulated.observer, self._launched
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None and not evaluate.tracing():
                evaluate.sync()
        finally:
            self._running = False
            with _chain:
                events.recorder = self._left(events.recorder, "_outer")
                if self.simulate:
                    from .backend.sim import backend as simulated

                    simulated.observer = self._left(simulated.observer, "_observer")
            if self.simulate:
                self._cost()

    def _left(self, first: Any, link: str) -> Any:
        """The first of a chain of listeners, each of which is the next one's attribute `link`, without this
        one: profilers of several threads need not end in the order of nesting."""
        rest, inner, listener = getattr(self, link), None, first
        setattr(self, link, None)
        while (one := getattr(listener, "__self__", listener)) is not self:
            if not isinstance(one, Profiler):
                return first
            inner, listener = one, getattr(one, link)
        if inner is None:
            return rest
        setattr(inner, link, rest)
        return first

    # --- what the library tells ------------------------------------------------------------------------

    def add(self, kind: str, name: str, start: int, end: int, nbytes: int = 0) -> None:
        """One event; see `lazy.events.Recorder`."""
        self._append(Event(kind, name, *self._times(start, end), _thread(), user_line(), nbytes))
        if self._outer is not None:
            self._outer.add(kind, name, start, end, nbytes)

    def steps(
        self,
        notes: Sequence[Note],
        lines: Callable[[], Sequence[Line | None]],
        log: list[tuple[str, int, int, int]],
    ) -> None:
        """The steps of a plan; see `lazy.events.Recorder`."""
        work = iter(zip(notes, lines(), strict=True))
        thread = _thread()
        device = next((note.backend for note in notes if note.backend.startswith("npu:")), "npu")
        reached = float("-inf")  # the end of what is in the compute lane
        for step, nbytes, start, end in log:
            times = self._times(start, end)
            if step in ("launch", "call"):
                note, line = next(work)
                self._append(Event(note.kind, note.name, *times, thread, line, note.nbytes, note.backend))
            elif step == "device_launch":
                note, line = next(work)
                # A lane does one thing at a time: what begins earlier is in the other one.
                lane = "compute" if times[0] >= reached else "second"
                reached = max(reached, times[1])
                where = f"{device} {lane}"
                self._append(
                    Event(note.kind, note.name, *times, where, line, note.nbytes, note.backend, device)
                )
            elif step in ("upload", "download"):
                self._append(Event(step, step, *times, f"{device} {step}", None, nbytes, "", device))
            else:
                self._append(Event(step, step, *times, thread, None, nbytes))
        if self._outer is not None:
            self._outer.steps(notes, lines, log)

    def _append(self, event: Event) -> None:
        self.events.append(event)

    def _times(self, start: int, end: int) -> tuple[float, float]:
        return (start - self._begin) / 1e3, (end - self._begin) / 1e3

    # --- simulated kernels -----------------------------------------------------------------------------

    def _launched(self, generated: Generated, bound: Bound, sizes: tuple[int, ...]) -> None:
        self._launches.append((perf_counter_ns(), _thread(), generated, bound, sizes))
        if self._observer is not None:
            self._observer(generated, bound, sizes)

    def _cost(self) -> None:
        """Give the events of simulated kernels their cost."""
        from .backend.base import LaunchError
        from .backend.sim.backend import cost

        known: dict[tuple[int, int, tuple[int, ...]], Cost] = {}
        for moment, thread, generated, bound, sizes in self._launches:
            at = (moment - self._begin) / 1e3
            for k, event in enumerate(self.events):
                if (
                    event.thread == thread
                    and event.kind in ("kernel", "host")
                    and event.start <= at <= event.end
                ):
                    key = (id(generated), id(bound), sizes)
                    if key not in known:
                        with suppress(LaunchError):  # its loops turn as often as data says
                            known[key] = cost(generated, bound, sizes, kernel_cache)
                    if found := known.get(key):
                        self.events[k] = replace(
                            event, simulated_us=found.time_us, utilisation=found.utilisation
                        )
        self._launches.clear()

    # --- what is shown -----------------------------------------------------------------------------------

    @property
    def timeline(self) -> Timeline:
        """Events added up by kind, name and line; markers by name."""
        groups: dict[tuple[str, ...], list[tuple[Event, float]]] = {}
        for event, own in zip(self.events, _own_times(self.events), strict=True):
            place = event.place if event.kind != "marker" else ""
            groups.setdefault((event.kind, event.name, place, event.backend), []).append((event, own))
        everything = sum(own for group in groups.values() for _, own in group)
        rows = []
        for (kind, name, place, backend), group in groups.items():
            own = sum(time for _, time in group)
            simulated = [e for e, _ in group if e.simulated_us is not None]
            rows.append(
                Row(
                    kind,
                    name,
                    place,
                    backend,
                    len(group),
                    sum(e.duration for e, _ in group),
                    own,
                    sum(e.nbytes for e, _ in group),
                    own / everything if everything else 0.0,
                    sum(e.simulated_us or 0.0 for e in simulated) if simulated else None,
                    _busiest(simulated),
                )
            )
        return Timeline(sorted(rows, key=lambda row: -row.own))

    def __str__(self) -> str:
        return str(self.timeline)

    def __repr__(self) -> str:
        return f"<Profiler of {len(self.events)} events>"

    def _repr_html_(self) -> str:
        return self.timeline._repr_html_()

    def trace(self) -> dict[str, Any]:
        """The events in the format of Chrome's and Perfetto's trace viewers."""
        threads = list(dict.fromkeys((event.device, event.thread) for event in self.events))
        owners = ["", *sorted({device for device, _ in threads if device})]  # the host, then devices
        shown: list[dict[str, Any]] = [
            {
                "name": "thread_name",
                "ph": "M",
                "pid": owners.index(device),
                "tid": n,
                "args": {"name": thread},
            }
            for n, (device, thread) in enumerate(threads)
        ]
        if len(owners) > 1:
            shown += [
                {"name": "process_name", "ph": "M", "pid": n, "tid": 0, "args": {"name": owner or "host"}}
                for n, owner in enumerate(owners)
            ]
        for event in self.events:
            arguments: dict[str, Any] = {}
            if event.line is not None:
                arguments["line"] = f"{event.line[0]}:{event.line[1]}: {event.line[2]}"
            if event.nbytes:
                arguments["bytes"] = event.nbytes
            if event.backend:
                arguments["backend"] = event.backend
            if event.simulated_us is not None:
                arguments["simulated_us"] = event.simulated_us
                arguments["utilisation"] = dict(event.utilisation or {})
            shown.append(
                {
                    "name": event.name,
                    "cat": event.kind,
                    "ph": "X",
                    "ts": event.start,
                    "dur": event.duration,
                    "pid": owners.index(event.device),
                    "tid": threads.index((event.device, event.thread)),
                    "args": arguments,
                }
            )
        return {"traceEvents": shown, "displayTimeUnit": "ns"}

    def plot(self) -> Picture:
        """A picture: a row for each thread and kind of event, time from left to right."""
        from .profile_picture import draw

        return Picture(_NOT_XML.sub("\ufffd", draw(self.events)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a trace for Chrome or Perfetto (``.json``) or a picture (``.svg``).

        Raises
        ------
        ArgumentError
            If the name ends in neither.
        OSError
            If the file cannot be written.
        """
        name = os.fspath(path)
        if name.endswith(".json"):
            text = json.dumps(self.trace(), separators=(",", ":"))
        elif name.endswith(".svg"):
            text = self.plot()
        else:
            raise ArgumentError(f"[Profiler] expected a name that ends in .json or .svg, given {name!r}")
        try:
            Path(name).write_text(text, encoding="utf-8")
        except (OSError, ValueError) as error:  # a name with a NUL character is a ValueError
            said = getattr(error, "strerror", None) or error
            raise FolderError(
                f"[Profiler] expected a file that can be written, given {name!r}: {said}"
            ) from None


def _thread() -> str:
    return threading.current_thread().name


def _own_times(shown: Sequence[Event]) -> list[float]:
    """The microseconds of each event without those of the events inside it in its thread."""
    own = [event.duration for event in shown]
    stacks: dict[str, list[int]] = {}
    # Of equal spans the one that ended last is the outer one.
    for k in sorted(range(len(shown)), key=lambda k: (shown[k].start, -shown[k].end, -k)):
        stack = stacks.setdefault(shown[k].thread, [])
        while stack and shown[stack[-1]].end <= shown[k].start:
            stack.pop()
        if stack:
            own[stack[-1]] -= shown[k].duration
        stack.append(k)
    return [max(time, 0.0) for time in own]


def _busiest(simulated: Sequence[Event]) -> tuple[str, float] | None:
    """The pipe that is busy most over some kernels, and the share of their time in which it is."""
    busy: dict[str, float] = {}
    for event in simulated:
        for pipe, share in (event.utilisation or {}).items():
            busy[pipe] = busy.get(pipe, 0.0) + share * (event.simulated_us or 0.0)
    time = sum(event.simulated_us or 0.0 for event in simulated)
    if not busy or not time:
        return None
    pipe = max(busy, key=lambda name: busy[name])
    return pipe, busy[pipe] / time
