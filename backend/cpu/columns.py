"""Reductions whose lanes go along a parallel axis: neighbouring columns, each lane a reduction of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from llvmlite import ir

from . import primitives
from .accumulators import States, accumulate, position
from .constants import i64
from .elementwise import lanes_loop
from .emitter import I8
from .nest import Nest, Scope
from .partition import ColumnPartition
from .passes import Passes
from .rows import Range
from .units import Depths, accesses_of, each_row, unit_ranges


class ColumnPass:
    """One pass over the reduced axes for the columns that some scopes stand at, side by side.

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
        self.reduced_axes = list(range(kernel.parallel, kernel.rank))
        self.states = States(nest, passes.reduces[s])
        self.at: list[list[int]] = [[] for _ in self.reduced_axes]
        recalled = set(passes.recalled(s))
        late: set[int] = set(recalled)
        for n in passes.inner(s):
            depth = max(d for d, k in enumerate(self.reduced_axes) if nest.analysis.axes[n] >> k & 1)
            if any(a in late for a in kernel.body[n].args):
                depth = len(self.reduced_axes) - 1
                late.add(n)
            self.at[depth].append(n)

    def emit(self, scopes: list[Scope]) -> list[list[ir.Value]]:
        """Emit the loops; the states of the scopes at their end."""
        return self._level(scopes, 0, [self.states.identity() for _ in scopes])

    def _level(self, scopes: list[Scope], depth: int, states: list[list[ir.Value]]) -> list[list[ir.Value]]:
        nest = self.nest
        axis = self.reduced_axes[depth]

        def body(index: ir.Value, states: list[list[ir.Value]]) -> list[list[ir.Value]]:
            inside = [nest.enter(scope, axis, index) for scope in scopes]
            if depth + 1 < len(self.reduced_axes):
                nest.emit(inside, self.at[depth])
                return self._level(inside, depth + 1, states)
            return self._innermost(inside, states)

        within = self.part.get(axis, (i64(0), nest.extent(axis)))
        innermost = depth + 1 == len(self.reduced_axes)
        return accumulate(nest, self.states, within, states, body, innermost)

    def _innermost(self, scopes: list[Scope], states: list[list[ir.Value]]) -> list[list[ir.Value]]:
        nest, body = self.nest, self.nest.kernel.body
        for k, scope in enumerate(scopes):
            for n in self.passes.recalled(self.s):
                dtype = body[n].dtype
                vector = ir.VectorType(primitives.memory_type(dtype), nest.lanes)
                loaded = nest.b.load(self._place(scope, n, k), align=dtype.itemsize, typ=vector)
                scope.env[n] = nest.from_memory(loaded, dtype)
        nest.emit(scopes, self.at[-1])
        result = []
        for k, (scope, state) in enumerate(zip(scopes, states, strict=True)):
            for n in self.passes.saved(self.s):
                dtype = body[n].dtype
                nest.b.store(
                    nest.to_memory(scope.env[n], dtype), self._place(scope, n, k), align=dtype.itemsize
                )
            at = position(nest, scope) if self.states.positions else None
            result.append(self.states.step(scope, state, at))
        return result

    def _place(self, scope: Scope, n: int, k: int) -> ir.Value:
        """Where the kept value of these lanes is: for each reduced position the vectors side by side."""
        nest, b = self.nest, self.nest.b
        point: ir.Value = i64(0)
        for axis in self.reduced_axes:
            point = b.add(b.mul(point, nest.extent(axis)), scope.index[axis])
        lanes = nest.lanes * nest.tuning.unroll
        size = nest.kernel.body[n].dtype.itemsize
        number = list(self.passes.kept).index(n)
        base = b.gep(nest.own, [b.mul(nest.integer("kept_size"), i64(8 * number))], source_etype=I8)
        offset = b.mul(b.add(b.mul(point, i64(lanes)), i64(k * nest.lanes)), i64(size))
        return b.gep(base, [offset], source_etype=I8)


class Columns(ColumnPartition):
    """One phase: each unit runs all passes over some columns."""

    def emit(self, begin: Callable[..., Nest]) -> None:
        nest = begin(self.phases[0])
        passes = self.passes
        instructions = [n for s in range(passes.count) for n in [*passes.outer[s], *passes.inner(s)]]
        nest.start(accesses_of(self.kernel, instructions))
        depths = Depths(nest, passes.outer[0])
        nest.emit([nest.root], depths.at[0])

        def column(scopes: list[Scope]) -> None:
            nest.emit(scopes, depths.at[3])
            for s in range(passes.count):
                if passes.inner(s) or passes.reduces[s]:
                    column_pass = ColumnPass(nest, passes, s)
                    for scope, state in zip(scopes, column_pass.emit(scopes), strict=True):
                        column_pass.states.finish(scope, state)
                if s + 1 < passes.count:
                    nest.emit(scopes, passes.outer[s + 1])

        with nest.loop(nest.begin, nest.end, i64(1)) as unit:
            ranges = unit_ranges(nest, unit.index)
            with each_row(nest, depths, ranges) as scope:
                lanes_loop(nest, scope, *ranges.lane, instructions, column)
        nest.finish()
