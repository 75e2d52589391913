"""Draws a profile as SVG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from .backend.sim.picture import (
    AXIS,
    BAR,
    FAINT,
    FINE,
    HEADING,
    INK,
    LABEL_WIDTH,
    LEFT,
    LEGEND,
    RIGHT,
    ROW,
    TOP,
    WIDTH,
    dense_bar,
    label,
    page,
    time_axis,
)

if TYPE_CHECKING:
    from .profiler import Event

_COLOURS = {
    "marker": "#7f7f7f", "record": "#56b4e9", "schedule": "#0072b2", "compile": "#d55e00", "load": "#f0a060",
    "kernel": "#e69f00", "host": "#cc79a7", "copy": "#009e73", "allocate": "#b0b7bf",
    "upload": "#44aa99", "download": "#117733",
}  # fmt: skip
_DARK = ("#0072b2", "#d55e00", "#009e73", "#7f7f7f", "#117733")


def draw(shown: Sequence[Event]) -> str:
    """The picture of some events, a row for each thread and kind."""
    low = min((e.start for e in shown), default=0.0)
    high = max((e.end for e in shown), default=1.0)
    scale = (WIDTH - LEFT - RIGHT) / max(high - low, 1e-3)
    body: list[str] = []
    top = float(TOP)
    for thread in dict.fromkeys(e.thread for e in shown):
        own = [e for e in shown if e.thread == thread]
        body.append(label(LEFT, top + 15, thread, weight="600"))
        body.append(label(WIDTH - 8, top + 15, "busy", anchor="end", colour=FAINT))
        top += HEADING
        for kind, colour in _COLOURS.items():
            row = sorted((e for e in own if e.kind == kind), key=lambda e: e.start)
            if not row:
                continue
            body.append(label(LEFT - 8, top + 17, kind, anchor="end"))
            share = _covered(row) / max(high - low, 1e-3)
            body.append(label(WIDTH - 8, top + 17, f"{share:.0%}", anchor="end", colour=INK))
            body += _bars(row, low, scale, top + (ROW - BAR) / 2, colour)
            top += ROW
    caption = f"{len(shown)} events in {(high - low) / 1e3:.2f} ms"
    axis = time_axis((0.0, max(high - low, 1e-3)), scale, TOP + HEADING - 4, top)
    head = label(8, 24, caption, size=15, weight="600")
    return page(caption, top + AXIS + LEGEND, [head, *axis, *body])


def _covered(row: Sequence[Event]) -> float:
    """The time that events in order cover; one inside another counts once."""
    total, reached = 0.0, float("-inf")
    for event in row:
        total += max(0.0, event.end - max(event.start, reached))
        reached = max(reached, event.end)
    return total


def _bars(row: Sequence[Event], low: float, scale: float, y: float, colour: str) -> Iterator[str]:
    fine: list[tuple[float, float]] = []
    for event in row:
        a, b = (LEFT + (t - low) * scale for t in (event.start, event.end))
        if b - a < FINE:
            if fine and a - fine[-1][1] > FINE:
                yield dense_bar(fine, y, colour, "events")
                fine = []
            fine.append((a, b))
            continue
        if fine:
            yield dense_bar(fine, y, colour, "events")
            fine = []
        said = f"{event.name}, {event.duration:.1f} µs {event.place}".rstrip()
        yield (
            f'<rect x="{a:.2f}" y="{y:.1f}" width="{b - a:.2f}" height="{BAR}" fill="{colour}" '
            f'stroke="#ffffff" stroke-width="0.5"><title>{escape(said)}</title></rect>'
        )
        if b - a > len(event.name) * LABEL_WIDTH + 8:
            ink = "#ffffff" if colour in _DARK else INK
            yield label((a + b) / 2, y + 13, event.name, anchor="middle", colour=ink, size=11)
    if fine:
        yield dense_bar(fine, y, colour, "events")
