"""Reductions of few long rows or columns: pieces reduced in parallel, then combined.

Each pass is two phases. In the first every unit reduces one piece and leaves its accumulators in scratch
memory; in the second they are combined, always in the same order, and what follows for each row is computed.
How many pieces there are depends on the sizes alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from . import access, primitives
from .accumulators import Accumulator
from .columns import ColumnPass
from .constants import i64
from .elementwise import lanes_loop
from .emitter import I8
from .nest import Nest, Scope
from .partition import PANEL_ROWS, SplitPartition
from .passes import Dtype
from .rows import Range, RowPass
from .units import Depths, accesses_of, each_row, unit_ranges


class Split(SplitPartition):
    """Phases ``reduce, combine`` for each pass, and a last one for what is written for every point."""

    def emit(self, begin: Callable[..., Nest]) -> None:
        for k, name in enumerate(self.phases):
            s = k // 2
            if k % 2:
                self._emit_combine(begin(name, self.combining), s)
            elif self.in_columns:
                self._emit_columns(begin(name), s)
            else:
                self._emit_rows(begin(name), s)

    def _outer(self, s: int) -> list[int]:
        """Outer instructions that pass s needs, reductions of earlier passes among them, but no stores."""
        passes, analysis = self.passes, self.analysis
        body = self.kernel.body
        roots = [a for n in passes.inner(s) for a in body[n].args]
        roots += [body[r].args[0] for r in passes.reduces[s]]
        outer = [n for n in roots if not analysis.is_inner(n)]
        return [n for n in analysis.closure(outer, analysis.reduces) if not analysis.is_inner(n)]

    def _start(self, nest: Nest, instructions: Sequence[int]) -> None:
        nest.start(accesses_of(self.kernel, instructions))

    def _part(self, nest: Nest, piece: ir.Value) -> dict[int, Range]:
        b = nest.b
        start = b.mul(piece, nest.integer("piece"))
        stop = nest.minimum(b.add(start, nest.integer("piece")), nest.extent(self.tuning.split))
        return {self.tuning.split: (start, stop)}

    def _emit_rows(self, nest: Nest, s: int) -> None:
        b, passes = nest.b, self.passes
        outer = self._outer(s)
        self._start(nest, [*outer, *passes.inner(s)])
        with nest.loop(nest.begin, nest.end, i64(1)) as unit:
            # Rows may lie interleaved: the same piece of all of them comes from the same memory.
            row = b.urem(unit.index, nest.integer("points"))
            piece = b.udiv(unit.index, nest.integer("points"))
            scope = nest.enter_all(nest.root, self.order, row)
            self._recall(nest, scope, outer, row)
            nest.emit([scope], [n for n in outer if n not in scope.env])
            row_pass = RowPass(nest, passes, s, self._part(nest, piece))
            state = row_pass.emit(scope)
            if state:
                self._leave(nest, scope, passes.reduces[s], row_pass.states.across(state), piece, row)
        nest.finish()

    def _emit_columns(self, nest: Nest, s: int) -> None:
        b, passes = nest.b, self.passes
        outer = self._outer(s)
        self._start(nest, [*outer, *passes.inner(s)])
        early = [n for n in outer if self.analysis.stage[n] == 0]
        depths = Depths(nest, early)
        nest.emit([nest.root], depths.at[0])

        with nest.loop(nest.begin, nest.end, i64(1)) as unit:
            piece = b.urem(unit.index, nest.integer("pieces"))
            ranges = unit_ranges(nest, b.udiv(unit.index, nest.integer("pieces")))

            (first, stop) = self._part(nest, piece)[self.tuning.split]

            def panel(start: ir.Value, scopes: list[Scope]) -> None:
                points = [self._point(nest, scope) for scope in scopes]
                for scope, point in zip(scopes, points, strict=True):
                    self._recall(nest, scope, outer, point)
                nest.emit(scopes, [n for n in outer if n not in scopes[0].env])
                end = nest.minimum(b.add(start, i64(PANEL_ROWS)), stop)
                column_pass = ColumnPass(nest, passes, s, {self.tuning.split: (start, end)})
                begins = nest.splat(b.icmp_signed("==", start, first))
                for scope, state, point in zip(scopes, column_pass.emit(scopes), points, strict=True):
                    if not state:
                        continue
                    # What earlier panels accumulated; before the first the memory holds anything.
                    at = b.add(b.mul(piece, nest.integer("points")), point)
                    earlier = [
                        b.select(begins, fresh, self._load(nest, scope, f"partial.{r}.{part}", d, at))
                        for (r, part, d), fresh in zip(
                            self._arrays(passes.reduces[s]), column_pass.states.identity(), strict=True
                        )
                    ]
                    merged = column_pass.states.merge(earlier, state)
                    self._leave(nest, scope, passes.reduces[s], merged, piece, point)

            inner = [*outer, *passes.inner(s)]
            with (
                each_row(nest, depths, ranges) as scope,
                nest.loop(first, stop, i64(PANEL_ROWS)) as panels,
            ):
                at = panels.index
                lanes_loop(nest, scope, *ranges.lane, inner, lambda scopes: panel(at, scopes))
        nest.finish()

    def _emit_combine(self, nest: Nest, s: int) -> None:
        """Combine the pieces of pass s, then compute and store what needs no further pass."""
        b, analysis = nest.b, self.analysis
        reduces = self.passes.reduces[s]
        stores = [
            n
            for n in analysis.stores
            if not analysis.is_inner(n)
            and (analysis.stage[n] == s + 1 or (s == 0 and analysis.stage[n] == 0))
        ]
        needed = [n for n in analysis.closure(stores, analysis.reduces) if n not in analysis.reduces]
        self._start(nest, needed)
        depths = Depths(nest, [n for n in needed if analysis.stage[n] == 0])
        nest.emit([nest.root], depths.at[0])
        earlier = [r for r in analysis.reduces if analysis.stage[r] <= s]

        def combine(scopes: list[Scope]) -> None:
            (scope,) = scopes
            nest.emit(scopes, depths.at[3])
            point = self._point(nest, scope)
            self._recall(nest, scope, earlier, point)
            for r in reduces:
                accumulator = Accumulator(nest, r)
                with nest.loop(i64(0), nest.integer("pieces"), i64(1), accumulator.identity()) as pieces:
                    at = b.add(b.mul(pieces.index, nest.integer("points")), point)
                    parts = [
                        self._load(nest, scope, f"partial.{r}.{part}", d, at)
                        for part, d in enumerate(accumulator.dtypes)
                    ]
                    pieces.next = accumulator.merge(pieces.values, parts)
                scope.env[r] = accumulator.result(scope, pieces.values)
                self._save(nest, scope, f"final.{r}", accumulator.instr.dtype, scope.env[r], point)
            nest.emit(scopes, [n for n in needed if n not in scope.env])

        with nest.loop(nest.begin, nest.end, i64(1)) as unit:
            ranges = unit_ranges(nest, unit.index)
            with each_row(nest, depths, ranges) as scope:
                lanes_loop(nest, scope, *ranges.lane, [], combine)
        nest.finish()

    # --- scratch memory -------------------------------------------------------------------------------

    def _point(self, nest: Nest, scope: Scope) -> ir.Value:
        """Position of the first lane in the parallel axes, the lane axis innermost."""
        b = nest.b
        point: ir.Value = i64(0)
        for axis in self.order[:-1]:
            point = b.add(b.mul(point, nest.extent(axis)), scope.index[axis])
        assert scope.lane is not None
        return b.add(b.mul(point, nest.extent(self.order[-1])), scope.lane)

    def _address(self, nest: Nest, array: str, dtype: Dtype, at: ir.Value) -> ir.Value:
        base = nest.b.gep(nest.scratch, [nest.integer(array)], source_etype=I8)
        return nest.b.gep(base, [at], source_etype=primitives.memory_type(dtype))

    def _load(self, nest: Nest, scope: Scope, array: str, dtype: Dtype, at: ir.Value) -> ir.Value:
        element = primitives.memory_type(dtype)
        place = self._address(nest, array, dtype, at)
        if scope.lane is None:
            return nest.from_memory(nest.splat(nest.b.load(place, align=dtype.itemsize, typ=element)), dtype)
        return nest.from_memory(access.load_vector(nest, scope, place, element), dtype)

    def _save(
        self, nest: Nest, scope: Scope, array: str, dtype: Dtype, value: ir.Value, at: ir.Value
    ) -> None:
        place = self._address(nest, array, dtype, at)
        vector = nest.to_memory(value, dtype)
        if scope.lane is None:
            first = nest.b.extract_element(vector, ir.Constant(ir.IntType(32), 0))
            nest.b.store(first, place, align=dtype.itemsize)
        else:
            access.store_vector(nest, scope, vector, place, primitives.memory_type(dtype))

    def _arrays(self, reduces: Sequence[int]) -> list[tuple[int, int, Dtype]]:
        return [(r, part, d) for r, part, d in self.states if r in reduces]

    def _leave(
        self,
        nest: Nest,
        scope: Scope,
        reduces: Sequence[int],
        state: Sequence[ir.Value],
        piece: ir.Value,
        point: ir.Value,
    ) -> None:
        """Store the accumulators of one piece."""
        b = nest.b
        at = b.add(b.mul(piece, nest.integer("points")), point)
        for (r, part, dtype), value in zip(self._arrays(reduces), state, strict=True):
            self._save(nest, scope, f"partial.{r}.{part}", dtype, value, at)

    def _recall(self, nest: Nest, scope: Scope, instructions: Sequence[int], point: ir.Value) -> None:
        """Load what earlier passes reduced."""
        for n in instructions:
            if self.kernel.body[n].op == "reduce":
                scope.env[n] = self._load(nest, scope, f"final.{n}", self.kernel.body[n].dtype, point)
