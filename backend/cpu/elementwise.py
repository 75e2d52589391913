"""Kernels without a reduction: every point of the domain on its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from . import access, staging, tiles
from .constants import i64
from .emitter import I64
from .nest import Nest, Scope
from .partition import ElementwisePartition
from .units import Depths, accesses_of, each_row, unit_ranges


def lanes_loop(
    nest: Nest,
    scope: Scope,
    start: ir.Value,
    stop: ir.Value,
    instructions: Sequence[int],
    body: Callable[[list[Scope]], None],
) -> None:
    """Run a body for all lanes between two positions: whole vectors side by side, then the rest under a mask.

    `instructions` are those that the body emits.
    """
    b = nest.b
    width, unroll = nest.lanes, nest.tuning.unroll
    slack = access.reads_ahead(nest, instructions)

    def masked(start: ir.Value, stop: ir.Value, vectors: int) -> None:
        with nest.loop(start, stop, i64(width * vectors)) as loop:
            body(nest.side_by_side(scope, loop.index, vectors, stop))

    def whole(start: ir.Value, stop: ir.Value, vectors: int, stream: bool) -> ir.Value:
        """Whole vectors while they fit; where it stopped."""
        last = b.sub(stop, i64(width * vectors - 1 + slack))
        with nest.loop(start, last, i64(width * vectors)) as loop:
            scopes = nest.side_by_side(scope, loop.index, vectors)
            for inside in scopes:
                inside.stream = stream
            body(scopes)
        return loop.index

    written = {nest.kernel.body[n].attrs[0] for n in instructions if nest.kernel.body[n].op == "store"}
    streaming = [a for a in nest.tuning.streaming if a in written]
    if nest.tuning.masked:
        masked(start, stop, unroll)
    elif not streaming:
        done = whole(start, stop, unroll, False)
        if unroll > 1 and not nest.target.has_avx512:
            done = whole(done, stop, 1, False)
        masked(done, stop, 1)
    else:
        # First up to where the output is aligned, under a mask; then whole vectors; then the rest.
        nest.streams = True
        aligned = nest.minimum(b.add(start, _misaligned(nest, scope, start, streaming)), stop)
        with nest.loop(i64(0), i64(2), i64(1)) as turn:
            head = b.icmp_signed("==", turn.index, i64(0))
            begin = b.select(head, start, aligned)
            done = whole(begin, b.select(head, start, stop), unroll, True)
            masked(done, b.select(head, aligned, stop), 1)


def _misaligned(nest: Nest, scope: Scope, start: ir.Value, streaming: Sequence[int]) -> ir.Value:
    """Elements until all streaming stores are aligned to their vectors; too many where that cannot be."""
    b = nest.b
    inside = nest.at_lanes(scope, start, None)
    steps: ir.Value | None = None
    agree: ir.Value | None = None
    for a in streaming:
        size = nest.itemsize(a)
        place = b.ptrtoint(access.address(nest, inside, a), I64)
        mask = i64(size * nest.lanes - 1)
        if steps is None:
            steps = b.udiv(b.and_(b.neg(place), mask), i64(size))
        aligned = b.icmp_signed("==", b.and_(b.add(place, b.mul(steps, i64(size))), mask), i64(0))
        agree = aligned if agree is None else b.and_(agree, aligned)
    assert steps is not None
    return b.select(agree, steps, i64(1 << 62))


class Elementwise(ElementwisePartition):
    """One phase over blocks of the parallel axes."""

    def emit(self, begin: Callable[..., Nest]) -> None:
        nest = begin(self.phases[0])
        instructions = self.analysis.closure(self.analysis.stores, stop=staging.shifts(self.kernel))
        tape = self.analysis.closure(staging.staged(self.kernel))
        nest.start(accesses_of(self.kernel, [*instructions, *tape]))
        depths, ahead = Depths(nest, instructions), Depths(nest, tape)
        nest.emit([nest.root], [*ahead.at[0], *depths.at[0]])
        with nest.loop(nest.begin, nest.end, i64(1)) as unit:
            ranges = unit_ranges(nest, unit.index)

            def fill(scope: Scope) -> None:
                tiles.fill(nest, scope, ranges, ahead.at, lanes_loop)

            with each_row(nest, depths, ranges, fill if tape else None) as scope:
                inside = depths.at[3]
                if inside:
                    lanes_loop(nest, scope, *ranges.lane, inside, lambda scopes: nest.emit(scopes, inside))
        nest.finish()
