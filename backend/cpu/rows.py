"""Reductions whose lanes go along a reduced axis: each row is reduced to one number, pass by pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from llvmlite import ir

from . import access, primitives
from .accumulators import BLOCK, States, accumulate, position, regroup
from .constants import i64
from .elementwise import lanes_loop
from .emitter import I8
from .nest import Nest, Scope
from .partition import RowPartition
from .passes import Passes
from .units import Depths, accesses_of, each_row, unit_ranges

Range = tuple[ir.Value, ir.Value]


class RowPass:
    """One pass over the reduced axes of the row that a scope stands at.

    Parameters
    ----------
    nest : Nest
    passes : Passes
    s : int
        Which pass.
    part : dict of int to (first, past the last)
        The part of an axis to run over, where that is not all of it.
    """

    def __init__(self, nest: Nest, passes: Passes, s: int, part: Mapping[int, Range] | None = None) -> None:
        self.nest = nest
        self.passes = passes
        self.s = s
        self.part = part or {}
        kernel = nest.kernel
        self.outer_axes = [k for k in range(kernel.parallel, kernel.rank) if k != nest.lane_axis]
        self.states = States(nest, passes.reduces[s])
        instructions = passes.inner(s)
        axes = nest.analysis.axes
        lane = 1 << nest.lane_axis
        recalled = set(passes.recalled(s))
        self.at: list[list[int]] = [[] for _ in range(len(self.outer_axes) + 1)]
        late: set[int] = set(recalled)
        for n in instructions:
            depth = max((d for d, k in enumerate(self.outer_axes) if axes[n] >> k & 1), default=0)
            if axes[n] & lane or any(a in late for a in kernel.body[n].args):
                depth = len(self.outer_axes)
                late.add(n)
            self.at[depth].append(n)

    def emit(self, scope: Scope) -> list[ir.Value]:
        """Emit the loops; the accumulators of the lanes at their end."""
        return self._level(scope, 0, self.states.identity())

    def _range(self, axis: int) -> Range:
        return self.part.get(axis, (i64(0), self.nest.extent(axis)))

    def _level(self, scope: Scope, depth: int, state: Sequence[ir.Value]) -> list[ir.Value]:
        nest = self.nest
        if depth == len(self.outer_axes):
            return self._lanes(scope, state)
        axis = self.outer_axes[depth]

        def body(index: ir.Value, states: list[list[ir.Value]]) -> list[list[ir.Value]]:
            inside = nest.enter(scope, axis, index)
            nest.emit([inside], self.at[depth])
            return [self._level(inside, depth + 1, states[0])]

        return accumulate(nest, self.states, self._range(axis), [state], body, innermost=False)[0]

    def _lanes(self, scope: Scope, state: Sequence[ir.Value]) -> list[ir.Value]:
        """The loop over the lane axis, in blocks with accumulators of their own."""
        nest, b, states = self.nest, self.nest.b, self.states
        vectors = nest.tuning.unroll
        width = nest.lanes
        start, stop = self._range(nest.lane_axis)
        if not states.reduces:

            def body(scopes: list[Scope]) -> None:
                self._step(scopes, [])

            lanes_loop(nest, scope, start, stop, self.at[-1], body)
            return []
        block = width * vectors * BLOCK
        with nest.loop(start, stop, i64(block), state) as loop:
            end = nest.minimum(b.add(loop.index, i64(block)), stop)
            fresh = [states.identity(block=True) for _ in range(vectors)]
            partial = self._block(scope, loop.index, end, fresh)
            while len(partial) > 1:
                pairs = [states.merge(*partial[k : k + 2]) for k in range(0, len(partial) - 1, 2)]
                partial = pairs + partial[2 * len(pairs) :]
            loop.next = states.merge(loop.values, partial[0])
        return loop.values

    def _block(
        self, scope: Scope, start: ir.Value, stop: ir.Value, fresh: list[list[ir.Value]]
    ) -> list[list[ir.Value]]:
        """Whole vectors side by side, then the rest under a mask."""
        nest, b = self.nest, self.nest.b
        width = nest.lanes
        instructions = self.at[-1]
        done, partial = start, fresh
        unroll, masked = nest.tuning.unroll, nest.tuning.masked
        variants = [] if masked else [unroll]
        if not masked and unroll > 1 and not nest.target.has_avx512:
            variants.append(1)
        for vectors in variants:
            slack = access.reads_ahead(nest, instructions)
            last = b.sub(stop, i64(width * vectors - 1 + slack))
            used = partial[:vectors]
            with nest.loop(done, last, i64(width * vectors), [v for p in used for v in p]) as loop:
                scopes = nest.side_by_side(scope, loop.index, vectors)
                loop.next = self._step(scopes, regroup(loop.values, used))
            done = loop.index
            partial = regroup(loop.values, used) + partial[len(used) :]
        vectors = unroll if masked else 1
        used = partial[:vectors]
        with nest.loop(done, stop, i64(width * vectors), [v for p in used for v in p]) as loop:
            scopes = nest.side_by_side(scope, loop.index, vectors, stop)
            loop.next = self._step(scopes, regroup(loop.values, used))
        return regroup(loop.values, used) + partial[len(used) :]

    def _step(self, scopes: list[Scope], states: list[list[ir.Value]]) -> list[ir.Value]:
        nest = self.nest
        for scope in scopes:
            for n, place in zip(
                self.passes.recalled(self.s), self._places(scope, self.passes.recalled(self.s)), strict=True
            ):
                dtype = nest.kernel.body[n].dtype
                vector = ir.VectorType(primitives.memory_type(dtype), nest.lanes)
                loaded = nest.b.load(place, align=dtype.itemsize, typ=vector)
                scope.env[n] = nest.from_memory(loaded, dtype)
        nest.emit(scopes, self.at[-1])
        result: list[ir.Value] = []
        for k, scope in enumerate(scopes):
            for n, place in zip(
                self.passes.saved(self.s), self._places(scope, self.passes.saved(self.s)), strict=True
            ):
                dtype = nest.kernel.body[n].dtype
                nest.b.store(nest.to_memory(scope.env[n], dtype), place, align=dtype.itemsize)
            if states:
                at = position(nest, scope) if self.states.positions else None
                result += self.states.step(scope, states[k], at)
        return result

    def _places(self, scope: Scope, values: Sequence[int]) -> list[ir.Value]:
        """Where kept values of these lanes are: a row of each, the lane axis innermost."""
        nest, b = self.nest, self.nest.b
        if not values:
            return []
        assert scope.lane is not None
        row: ir.Value = i64(0)
        for axis in self.outer_axes:
            row = b.add(b.mul(row, nest.extent(axis)), scope.index[axis])
        row = b.mul(row, nest.integer("kept_row"))
        places = []
        for n in values:
            size = nest.kernel.body[n].dtype.itemsize
            number = list(self.passes.kept).index(n)
            base = b.gep(nest.own, [b.mul(nest.integer("kept_size"), i64(8 * number))], source_etype=I8)
            places.append(b.gep(base, [b.mul(b.add(row, scope.lane), i64(size))], source_etype=I8))
        return places


class Rows(RowPartition):
    """One phase: each unit runs all passes over some rows, one after another."""

    def emit(self, begin: Callable[..., Nest]) -> None:
        nest = begin(self.phases[0])
        passes = self.passes
        instructions = [n for s in range(passes.count) for n in [*passes.outer[s], *passes.inner(s)]]
        nest.start(accesses_of(self.kernel, instructions))
        depths = Depths(nest, passes.outer[0])
        nest.emit([nest.root], depths.at[0])
        with nest.loop(nest.begin, nest.end, i64(1)) as unit:
            ranges = unit_ranges(nest, unit.index)
            with each_row(nest, depths, ranges) as scope:
                for s in range(passes.count):
                    if passes.inner(s) or passes.reduces[s]:
                        row = RowPass(nest, passes, s)
                        state = row.emit(scope)
                        row.states.finish(scope, row.states.across(state))
                    if s + 1 < passes.count:
                        nest.emit([scope], passes.outer[s + 1])
        nest.finish()
