"""The loops over a unit of work."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple, Protocol

from llvmlite import ir

from ..ir import Kernel
from . import transpose
from .constants import i64
from .nest import Nest, Scope
from .partition import loop_axes
from .tuning import Tuning


class Strategy(Protocol):
    """One way to compile kernels: a partition, and code for its phases."""

    def __init__(self, kernel: Kernel, tuning: Tuning) -> None: ...

    def emit(self, begin: Callable[..., Nest]) -> None:
        """Emit the phases into functions that ``begin(name[, tuning])`` starts."""


class Ranges(NamedTuple):
    """The part of the parallel axes that one unit covers, each as first and past-the-last position."""

    outer: tuple[ir.Value, ir.Value]
    row: tuple[ir.Value, ir.Value]
    lane: tuple[ir.Value, ir.Value]


def unit_ranges(nest: Nest, unit: ir.Value) -> Ranges:
    """What unit number `unit` covers."""
    b = nest.b

    def cut(
        unit: ir.Value, blocks: str, size: str, extent: ir.Value
    ) -> tuple[ir.Value, tuple[ir.Value, ir.Value]]:
        number = b.urem(unit, nest.integer(blocks))
        start = b.mul(number, nest.integer(size))
        stop = nest.minimum(b.add(start, nest.integer(size)), extent)
        return b.udiv(unit, nest.integer(blocks)), (start, stop)

    once = (i64(0), i64(1))
    lane, row, outer = once, once, once
    if nest.lane_axis < nest.kernel.parallel:
        unit, lane = cut(unit, "lane_chunks", "lane_chunk", nest.extent(nest.lane_axis))
    if nest.tuning.row >= 0:
        unit, row = cut(unit, "row_blocks", "row_block", nest.extent(nest.tuning.row))
    if loop_axes(nest.kernel.parallel, nest.tuning):
        start = b.mul(unit, nest.integer("outer_block"))
        outer = (start, nest.minimum(b.add(start, nest.integer("outer_block")), nest.integer("outer")))
    return Ranges(outer, row, lane)


class Depths:
    """Instructions by the loop they belong in: outside all, over outer positions, over rows, inside."""

    def __init__(self, nest: Nest, instructions: Sequence[int]) -> None:
        analysis, tuning = nest.analysis, nest.tuning
        row = 1 << tuning.row if tuning.row >= 0 else 0
        inside = 1 << tuning.lane | ~analysis.parallel_axes
        self.at: tuple[list[int], ...] = ([], [], [], [])
        for n in instructions:
            axes = analysis.axes[n]
            depth = 3 if axes & inside else 2 if axes & row else 1 if axes else 0
            if nest.kernel.body[n].op == "store":
                depth = max(depth, 1)  # only a unit knows whether it is the first
            self.at[depth].append(n)


@contextmanager
def each_row(
    nest: Nest, depths: Depths, ranges: Ranges, before: Callable[[Scope], None] | None = None
) -> Iterator[Scope]:
    """Loops over the outer positions and rows of a unit; the body is emitted where this yields.

    `before` emits what comes between the two loops.
    """
    axes = loop_axes(nest.kernel.parallel, nest.tuning)
    at_unit = nest.root.child()
    if nest.lane_axis < nest.kernel.parallel:
        at_unit.begin[nest.lane_axis] = ranges.lane[0]
    if nest.tuning.row >= 0:
        at_unit.begin[nest.tuning.row] = ranges.row[0]
    with ExitStack() as loops:
        scope = at_unit
        if axes:
            outer = loops.enter_context(nest.loop(*ranges.outer, i64(1)))
            scope = nest.enter_all(at_unit, axes, outer.index)
        nest.emit([scope], depths.at[1])
        if nest.tuning.packed:
            scope = scope.child()
            transpose.pack(nest, scope, ranges)
        if before is not None:
            before(scope)
        if nest.tuning.row >= 0:
            row = loops.enter_context(nest.loop(*ranges.row, i64(1)))
            scope = nest.enter(scope, nest.tuning.row, row.index)
        nest.emit([scope], depths.at[2])
        yield scope


def accesses_of(kernel: Kernel, instructions: Sequence[int]) -> list[int]:
    """The accesses that instructions load from or store to."""
    return [kernel.body[n].attrs[0] for n in instructions if kernel.body[n].op in ("load", "store", "gather")]
