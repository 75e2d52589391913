"""How the points of a launch are handed out to cores, tile by tile: expressions that the host evaluates.

They are of extents (``n0``…), strides and offsets, and hold in Python and in C++ alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .plane import Plane
from .tile import BYTES

if TYPE_CHECKING:
    from .source import Source

# Where cores share the rows of a reduction, they have at least so many lanes to copy in a piece.
WIDE_LANES = 1024


def cuts_rows(plane: Plane) -> bool:
    """Whether the row axis is cut into tiles that are independent of each other."""
    return plane.row >= 0 and not plane.reduces_rows


def partition(source: Source) -> list[tuple[str, str]]:
    """Fields for how the domain is cut; `host` computes them from the sizes of a launch."""
    t, plane = source.tuning, source.plane
    add = source.field
    g = source.pitch_granule
    lane, row = f"n{plane.lane}", f"n{plane.row}" if plane.row >= 0 else "1"
    outer = " * ".join([f"n{k}" for k in plane.outer] or ["1"])
    cores = source.chip.vector_cores if t.options.cores else 1
    every = " * ".join([f"n{k}" for k in range(source.kernel.rank)])
    expressions: list[tuple[str, str]] = []

    def host(name: str, expression: str) -> str:
        expressions.append((name, expression))
        return name

    whole_lanes = source.stages.whole and plane.reduces_lanes
    host("cores", f"Min({cores}, Max(1, Root(Div({every}, {t.grain}))))")
    cap_lanes = max(1, min(t.lanes, t.points) // g) * g
    if whole_lanes:
        host("most_lanes", lane)
    elif source.stages.whole and plane.reduces_rows:
        host("most_lanes", f"Min({lane}, Min({cap_lanes}, Div(Div({t.points}, {row}), {g}) * {g}))")
    else:
        host("most_lanes", f"Min({lane}, {cap_lanes})")
    host("even_lanes", f"CeilDiv({lane}, CeilDiv({lane}, most_lanes))")
    # A piece of a copy begins where a line of memory does.
    lane_step = max(g, 512 // min((BYTES[v.dtype] for v in source.copied), default=4))
    if plane.reduces_lanes or cuts_rows(plane):
        host("tile_lanes", f"Min(most_lanes, Up(even_lanes, {lane_step}))")
        host("pitch", f"Up(tile_lanes, {g})")
        room = f"Max(1, Min({t.rows}, Div({t.points}, pitch)))"
        turned = any(w.kind == "turned" for w in t.ways)
        row_step = lane_step
        if turned:  # pieces are of rows, then
            host("room", room)
            room = f"Max(Min(room, {row_step}), Div(room, {row_step}) * {row_step})"
        host("most_rows", room)
        host("lane_tiles", f"CeilDiv({lane}, tile_lanes)")
        host("others", outer if plane.reduces_lanes else f"{outer} * lane_tiles")
        host("tiles", f"others * CeilDiv({row}, most_rows)")
        host("wanted", "Div(CeilDiv(tiles, cores) * cores, others)")
        even = f"CeilDiv({row}, Max(1, wanted))"
        host(
            "tile_rows",
            f"Min(most_rows, Up({even}, {row_step}))" if turned else f"Min(most_rows, {even})",
        )
        host("row_tiles", f"CeilDiv({row}, tile_rows)")
    else:
        # Lanes are cut; rows are reduced, or there is but one.
        host("others", outer)
        host("tiles", f"others * CeilDiv({lane}, most_lanes)")
        host("wanted", "Div(CeilDiv(tiles, cores) * cores, others)")
        even = f"CeilDiv({lane}, Max(1, wanted))"
        even = f"Max({WIDE_LANES}, {even})" if t.split else even
        host("tile_lanes", f"Min(most_lanes, Up({even}, {lane_step}))")
        host("lane_tiles", f"CeilDiv({lane}, tile_lanes)")
        host("pitch", f"Up(tile_lanes, {g})")
        host("tile_rows", f"Min({row}, Max(1, Min({t.rows}, Div({t.points}, pitch))))")
        host("row_tiles", f"CeilDiv({row}, tile_rows)")
    parallel = [outer]
    if cuts_rows(plane):
        parallel.append("row_tiles")
    if not plane.reduces_lanes:
        parallel.append("lane_tiles")
    host("units", " * ".join(parallel))
    reduced = [f"n{k}" for k in plane.inner]
    if plane.reduces_lanes:
        reduced.append("lane_tiles")
    elif plane.reduces_rows:
        reduced.append("row_tiles")
    host("parts", " * ".join(reduced or ["1"]))
    # So many cores share the reductions of a unit.
    host("shares", "Max(1, Min(parts, Div(cores, units)))" if t.split else "1")
    host("blocks", "Min(cores, units) * shares")
    for name in ("tile_rows", "tile_lanes", "row_tiles", "lane_tiles", "units", "parts", "shares"):
        add(name, "int32_t", name)
    return expressions
