"""Draws a timeline as SVG."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

import numpy as np
import numpy.typing as npt

from .log import PIPES

if TYPE_CHECKING:
    from .timeline import CoreTimeline, Timeline

Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.uint16]

# Colours of Okabe and Ito, told apart by colour-blind readers too. In the order of the way of the data.
_ROWS = {
    "vector": ("MTE2", "V", "MTE3", "S"),
    "cube": ("MTE2", "MTE1", "M", "FIX", "MTE3", "S"),
}
_COLOURS = {
    "MTE2": "#0072b2", "MTE1": "#56b4e9", "V": "#e69f00", "M": "#d55e00",
    "MTE3": "#009e73", "FIX": "#cc79a7", "S": "#7f7f7f",
}  # fmt: skip
_MEANINGS = {
    "MTE2": "from global memory", "MTE1": "L1 to L0", "V": "vector", "M": "cube",
    "MTE3": "to global memory", "FIX": "L0C to global memory", "S": "scalar",
}  # fmt: skip

WIDTH, LEFT, RIGHT = 1000, 74, 62
TOP, ROW, BAR, HEADING, _BETWEEN, AXIS, LEGEND = 44, 26, 18, 24, 10, 34, 26
INK, FAINT, _GROUND, _BAND = "#222222", "#666666", "#ffffff", "#f3f4f6"
LABEL_WIDTH = 6.4  # of a letter in a bar
FINE = 1.5  # pixels: narrower bars are drawn together, as dark as they are dense


def draw(timeline: Timeline, cores: Sequence[int], window: tuple[float, float]) -> str:
    """The picture of some cores within a window of microseconds."""
    low, high = window
    scale = (WIDTH - LEFT - RIGHT) / (high - low)
    body: list[str] = []
    used: list[str] = []
    top = float(TOP)
    for number in cores:
        core = timeline.cores[number]
        rows = _rows(core)
        used += [pipe for pipe in rows if pipe not in used]
        body.append(label(LEFT, top + 15, f"{core.kind} core {number}", weight="600"))
        body.append(label(WIDTH - 8, top + 15, "busy", anchor="end", colour=FAINT))
        top += HEADING
        body += _core(timeline, core, rows, top, window, scale)
        top += len(rows) * ROW + _BETWEEN
    bottom = top - _BETWEEN
    head = [label(8, 24, timeline.caption, size=15, weight="600")]
    axis = time_axis(window, scale, TOP + HEADING - 4, bottom)
    height = bottom + AXIS + LEGEND
    legend = _legend(used, bottom + AXIS + 10)
    return page(timeline.caption, height, [*head, *axis, *body, *legend])


def page(caption: str, height: float, parts: Sequence[str]) -> str:
    """A picture of these parts."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height:.0f}" '
            f'viewBox="0 0 {WIDTH} {height:.0f}" font-family="Helvetica, Arial, sans-serif" font-size="12">',
            f"<title>{escape(caption)}</title>",
            f'<rect width="{WIDTH}" height="{height:.0f}" fill="{_GROUND}"/>',
            *parts,
            "</svg>\n",
        ]
    )


def _rows(core: CoreTimeline) -> list[str]:
    present = {PIPES[pipe] for pipe in np.unique(core.pipe)}
    return [pipe for pipe in _ROWS[core.kind] if pipe in present] or [_ROWS[core.kind][0]]


def _core(
    timeline: Timeline,
    core: CoreTimeline,
    rows: list[str],
    top: float,
    window: tuple[float, float],
    scale: float,
) -> Iterator[str]:
    low, high = window
    height = len(rows) * ROW
    yield from _outside(core, top, height, window, scale)
    for row, pipe in enumerate(rows):
        y = top + row * ROW
        if row:
            yield (
                f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" '
                f'stroke="#e3e5e8" stroke-width="1"/>'
            )
        yield label(LEFT - 8, y + 17, pipe, anchor="end")
        seen = (max(low, core.begin), min(high, core.end))
        share = core.busy(pipe, seen) if seen[0] < seen[1] else 0.0
        yield label(WIDTH - 8, y + 17, f"{share:.0%}", anchor="end", colour=INK)
        of = (core.pipe == PIPES.index(pipe)) & (core.stop > low) & (core.start < high)
        left = LEFT + (np.maximum(core.start[of], low) - low) * scale
        right = LEFT + (np.minimum(core.stop[of], high) - low) * scale
        yield from _bars(
            timeline, left, right, core.name[of], core.line[of], core.stop[of] - core.start[of],
            y + (ROW - BAR) / 2, _COLOURS[pipe],
        )  # fmt: skip


def _outside(
    core: CoreTimeline, top: float, height: float, window: tuple[float, float], scale: float
) -> Iterator[str]:
    """The time before the core has begun and after it has ended."""
    low, high = window
    for start, stop, text in ((low, min(core.begin, high), "launch"), (max(core.end, low), high, "")):
        if stop <= start:
            continue
        x, width = LEFT + (start - low) * scale, (stop - start) * scale
        yield f'<rect x="{x:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{_BAND}"/>'
        if width > len(text) * LABEL_WIDTH + 6:
            yield label(x + width / 2, top + height / 2 + 4, text, anchor="middle", colour=FAINT)


def _bars(
    timeline: Timeline, left: Floats, right: Floats, names: Numbers, lines: Numbers, takes: Floats, y: float,
    colour: str,
) -> Iterator[str]:  # fmt: skip
    fine: list[tuple[float, float]] = []
    for a, b, name, line, us in zip(
        left.tolist(), right.tolist(), names.tolist(), lines.tolist(), takes.tolist(), strict=True
    ):
        if b - a < FINE:
            if fine and a - fine[-1][1] > FINE:
                yield dense_bar(fine, y, colour)
                fine = []
            fine.append((a, b))
            continue
        if fine:
            yield dense_bar(fine, y, colour)
            fine = []
        text = timeline.names[name]
        gap = 0.6 if b - a > 4 else 0.0
        yield (
            f'<rect x="{a:.2f}" y="{y:.1f}" width="{b - a - gap:.2f}" height="{BAR}" fill="{colour}">'
            f"<title>{escape(text)}, line {line}, {us:.3f} µs</title></rect>"
        )
        if b - a > len(text) * LABEL_WIDTH + 8:
            ink = "#ffffff" if colour in ("#0072b2", "#d55e00", "#009e73", "#7f7f7f") else INK
            yield label((a + b) / 2, y + 13, text, anchor="middle", colour=ink, size=11)
    if fine:
        yield dense_bar(fine, y, colour)


def dense_bar(fine: list[tuple[float, float]], y: float, colour: str, what: str = "instructions") -> str:
    """Bars too narrow to be seen, as one."""
    start, stop = fine[0][0], fine[-1][1]
    width = max(stop - start, 0.4)
    share = min(1.0, sum(b - a for a, b in fine) / width)
    opacity = 0.25 + 0.75 * share
    return (
        f'<rect x="{start:.2f}" y="{y:.1f}" width="{width:.2f}" height="{BAR}" fill="{colour}" '
        f'opacity="{opacity:.2f}">'
        f"<title>{len(fine)} {what}, busy {share:.0%}</title></rect>"
    )


def time_axis(window: tuple[float, float], scale: float, top: float, bottom: float) -> Iterator[str]:
    """Ticks in microseconds."""
    low, high = window
    step = _step((high - low) / 9)
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    tick = math.ceil(low / step - 1e-9) * step
    while tick <= high + step * 1e-6:
        x = LEFT + (tick - low) * scale
        yield (
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top:.1f}" y2="{bottom + 5:.1f}" '
            f'stroke="#d5d8dc" stroke-width="1"/>'
        )
        yield label(x, bottom + 19, f"{tick:.{digits}f}", anchor="middle", colour=FAINT)
        tick += step
    yield label(WIDTH - 8, bottom + 19, "µs", anchor="end", colour=FAINT)


def _step(about: float) -> float:
    """About that much, and one of 1, 2, 5, 10, 20, …"""
    power = 10.0 ** math.floor(math.log10(about))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= 0.8 * about)


def _legend(pipes: list[str], y: float) -> Iterator[str]:
    x = float(LEFT)
    for pipe in pipes:
        text = f"{pipe}: {_MEANINGS[pipe]}"
        yield f'<rect x="{x:.0f}" y="{y - 10:.1f}" width="12" height="12" fill="{_COLOURS[pipe]}"/>'
        yield label(x + 17, y, text, colour=INK)
        x += 17 + len(text) * 7 + 18


def label(
    x: float, y: float, text: str, anchor: str = "start", size: int = 12, weight: str = "", colour: str = INK
) -> str:
    bold = f' font-weight="{weight}"' if weight else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{colour}"{bold}>'
        f"{escape(text)}</text>"
    )
