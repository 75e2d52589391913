"""Tile statements written as loops, for targets that have nothing better."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

import numpy as np

from ...ops.dtypes import is_narrow
from ...ops.meaning import neutral
from .. import structured as s
from ..ir import Dtype
from .rewrite import INT64, Writer, without_dead

# Partial results of a reduction: enough for the lanes and the latency of any vector unit.
PARTS = 64
# Rows of a product that are computed at a time, each in a register of its own.
ROWS = 4
_WIDE: Dtype = np.dtype(np.float32)


def expand(kernel: s.StructuredKernel) -> s.StructuredKernel:
    """The kernel without tile statements. Its blocks have one thread (`barriers.regions` sees to that).

    Buffers that only tile statements touch become flat. Rounding:

    * `TileProduct` adds the products of each element in ascending k, in the dtype of c, beginning with what
      is there or 0.
    * `TileReduce` keeps 64 partial results of a row, the p-th of columns p, p + 64, …, and then halves them:
      partial results p and p + 32, p and p + 16, … It begins with the neutral element (0, 1, the extreme);
      with `accumulate` the old value is taken in at the end.
    """
    if not any(isinstance(x, s.TILE_STATEMENTS) for x in s.walk(kernel.body)):
        return kernel
    assert prod(kernel.block) <= 1, "tile statements of blocks that have several threads"
    return _Expansion(kernel).written()


class _Expansion:
    def __init__(self, kernel: s.StructuredKernel) -> None:
        self.kernel = kernel
        self.writer = Writer(kernel)
        self.variables = list(kernel.variables)
        self.buffers = list(kernel.buffers)
        self.partial: dict[Dtype, int] = {}
        touched = {x.array for x in s.walk(kernel.body) if isinstance(x, (s.Store, s.Atomic))}
        touched |= {x.attrs[0] for x in s.walk(kernel.body) if isinstance(x, s.Let) and x.op == "load"}
        count = len(kernel.arrays)
        self.flat = {count + n for n in range(len(kernel.buffers)) if count + n not in touched}

    def written(self) -> s.StructuredKernel:
        kernel = self.kernel
        body = without_dead(self.block(kernel.body))
        count = len(kernel.arrays)
        buffers = tuple(
            replace(b, shape=(prod(b.shape),)) if count + n in self.flat else b
            for n, b in enumerate(self.buffers)
        )
        return replace(kernel, body=body, buffers=buffers, variables=tuple(self.variables))

    def block(self, body: s.Block) -> s.Block:
        with self.writer.block() as written:
            for x in body:
                match x:
                    case s.TileCopy(target, source, _):
                        self.copy(target, source)
                    case s.TileApply():
                        self.apply(x)
                    case s.TileReduce():
                        self.reduce(x)
                    case s.TileProduct():
                        self.product(x)
                    case s.If(condition, then, orelse):
                        self.writer.put(s.If(condition, self.block(then), self.block(orelse)))
                    case s.While(head, condition, inner):
                        self.writer.put(s.While(self.block(head), condition, self.block(inner)))
                    case s.For():
                        self.writer.put(replace(x, body=self.block(x.body)))
                    case _:
                        self.writer.put(x)
        return tuple(written)

    # --- elements ------------------------------------------------------------------------------------------

    def shape(self, array: int) -> tuple[int, ...]:
        buffer = self.kernel.storage(array)
        assert isinstance(buffer, s.Buffer)
        return buffer.shape

    def extents(self, array: int) -> list[int]:
        held, w = self.kernel.storage(array), self.writer
        if isinstance(held, s.Buffer):
            return [w.number(e) for e in held.shape]
        return [w.let("extent", INT64, attrs=(array, k)) for k in range(held.rank)]

    def place(self, array: int, indices: tuple[int, ...]) -> tuple[int, ...]:
        """The indices by which an element is found where buffers are flat."""
        if array not in self.flat or len(indices) == 1:
            return indices
        w, flat = self.writer, indices[0]
        for index, extent in zip(indices[1:], self.shape(array)[1:], strict=True):
            flat = w.add(w.mul(flat, w.number(extent)), index)
        return (flat,)

    def unravelled(self, array: int, flat: int) -> tuple[int, ...]:
        """The indices of an element by its place in C order."""
        shape, w = self.shape(array), self.writer
        if array in self.flat or len(shape) == 1:
            return (flat,)
        indices = []
        for extent in reversed(shape[1:]):
            size = w.number(extent)
            indices.append(w.let("remainder", INT64, flat, size))
            flat = w.let("floor_divide", INT64, flat, size)
        return (flat, *reversed(indices))

    def load(self, array: int, place: tuple[int, ...]) -> int:
        return self.writer.let("load", self.storage(array).dtype, *place, attrs=(array, -1))

    def store(self, array: int, place: tuple[int, ...], value: int) -> None:
        self.writer.put(s.Store(array, place, value, -1))

    def storage(self, array: int) -> s.Array | s.Buffer:
        count = len(self.kernel.arrays)
        return self.kernel.arrays[array] if array < count else self.buffers[array - count]

    def variable(self, dtype: Dtype) -> int:
        self.variables.append(dtype)
        return len(self.variables) - 1

    def span(self, extents: tuple[int, ...], write: Callable[..., None]) -> None:
        w = self.writer
        values = tuple(w.fresh() for _ in extents)
        with w.block() as body:
            write(*values)
        w.put(s.Span(values, extents, tuple(body)))

    def loop(self, start: int, stop: int, step: int, write: Callable[[int], None]) -> None:
        w = self.writer
        value = w.fresh()
        with w.block() as body:
            write(value)
        w.put(s.For(value, start, stop, step, tuple(body)))

    def bounded(self, value: int, *limits: int) -> int:
        """At least 0 and no more than any of the limits."""
        w = self.writer
        value = w.max(value, w.number(0))
        for limit in limits:
            value = w.min(value, w.number(limit))
        return value

    # --- statements ----------------------------------------------------------------------------------------

    def copy(self, target: s.Region, source: s.Region) -> None:
        w = self.writer
        zero = w.number(0)
        borders = []
        for region in (target, source):
            starts = [w.max(v, zero) for v in region.starts]
            stops = [w.min(v, e) for v, e in zip(region.stops, self.extents(region.array), strict=True)]
            borders.append((starts, [w.sub(b, a) for a, b in zip(starts, stops, strict=True)]))
        (to, room), (start, length) = borders

        def move(*index: int) -> None:
            of = tuple(w.add(a, i) for a, i in zip(start, index, strict=True))
            into = tuple(w.add(a, i) for a, i in zip(to, index, strict=True))
            value = self.load(source.array, self.place(source.array, of))
            self.store(target.array, self.place(target.array, into), value)

        self.span(tuple(w.max(w.min(a, b), zero) for a, b in zip(room, length, strict=True)), move)

    def apply(self, tile: s.TileApply) -> None:
        w = self.writer
        buffers = (tile.out, *(n for kind, n in tile.args if kind == "buffer"))
        most = min(prod(self.shape(n)) for n in buffers)

        def element(index: int) -> None:
            args = [
                self.load(n, self.unravelled(n, index)) if kind == "buffer" else n for kind, n in tile.args
            ]
            value = w.let(tile.op, self.storage(tile.out).dtype, *args, attrs=tile.attrs)
            self.store(tile.out, self.unravelled(tile.out, index), value)

        self.span((self.bounded(tile.count, most),), element)

    def reduce(self, tile: s.TileReduce) -> None:
        w = self.writer
        shape, of = self.shape(tile.source), self.storage(tile.source).dtype
        dtype, out = _WIDE if is_narrow(of) else of, self.storage(tile.out).dtype
        parts = self.partial_results(dtype)
        rows = self.bounded(tile.rows, prod(shape[:-1]), prod(self.shape(tile.out)))
        columns = self.bounded(tile.columns, shape[-1])
        zero, width, many = w.number(0), w.number(shape[-1]), w.number(PARTS)
        nothing = w.const(neutral(tile.how, dtype), dtype)

        def row(r: int) -> None:
            self.span((many,), lambda p: self.store(parts, (p,), nothing))
            start = w.mul(r, width)

            def piece(first: int) -> None:
                begin = w.add(start, first)

                def combine(p: int) -> None:
                    value = self.load(tile.source, self.unravelled(tile.source, w.add(begin, p)))
                    both = w.let(tile.how, dtype, self.load(parts, (p,)), w.cast(value, of, dtype))
                    self.store(parts, (p,), both)

                self.span((w.min(many, w.sub(columns, first)),), combine)

            self.loop(zero, columns, PARTS, piece)
            half = PARTS // 2
            while half:
                distance = w.number(half)

                def fold(p: int, distance: int = distance) -> None:
                    far = self.load(parts, (w.add(p, distance),))
                    self.store(parts, (p,), w.let(tile.how, dtype, self.load(parts, (p,)), far))

                self.span((distance,), fold)
                half //= 2
            total, place = self.load(parts, (zero,)), self.unravelled(tile.out, r)
            if tile.accumulate:
                old = w.cast(self.load(tile.out, place), out, dtype)
                total = w.let(tile.how, dtype, old, total)
            self.store(tile.out, place, w.cast(total, dtype, out))

        self.loop(zero, rows, 1, row)

    def partial_results(self, dtype: Dtype) -> int:
        """A buffer for the partial results of reductions in a dtype."""
        if dtype not in self.partial:
            self.buffers.append(s.Buffer(f"partial_{dtype.name}", dtype, (PARTS,)))
            self.partial[dtype] = len(self.kernel.arrays) + len(self.buffers) - 1
        return self.partial[dtype]

    def product(self, tile: s.TileProduct) -> None:
        w = self.writer
        c, a, b = (self.shape(x) for x in (tile.c, tile.a, tile.b))
        m, n = self.bounded(tile.m, a[0], c[0]), self.bounded(tile.n, b[1], c[1])
        k = self.bounded(tile.k, a[1], b[0])
        of, dtype = self.storage(tile.a).dtype, self.storage(tile.c).dtype
        zero, nothing = w.number(0), w.const(0, dtype)
        sums = [self.variable(dtype) for _ in range(ROWS)]

        def some(rows: int) -> Callable[[int], None]:
            def write(first: int) -> None:
                numbers = [w.add(first, w.number(r)) for r in range(rows)]

                def column(j: int) -> None:
                    places = [self.place(tile.c, (i, j)) for i in numbers]
                    with w.block() as old:
                        for total, place in zip(sums, places, strict=False):
                            w.put(s.Set(total, self.load(tile.c, place)))
                    new = tuple(s.Set(total, nothing) for total in sums[:rows])
                    w.put(s.If(tile.accumulate, tuple(old), new))

                    def step(depth: int) -> None:
                        y = w.cast(self.load(tile.b, self.place(tile.b, (depth, j))), of, dtype)
                        for total, i in zip(sums, numbers, strict=False):
                            x = w.cast(self.load(tile.a, self.place(tile.a, (i, depth))), of, dtype)
                            held = w.let("get", dtype, attrs=(total,))
                            w.put(s.Set(total, w.let("add", dtype, held, w.let("mul", dtype, x, y))))

                    self.loop(zero, k, 1, step)
                    for total, place in zip(sums, places, strict=False):
                        self.store(tile.c, place, w.let("get", dtype, attrs=(total,)))

                self.span((n,), column)

            return write

        whole = w.sub(m, w.let("remainder", INT64, m, w.number(ROWS)))
        self.loop(zero, whole, ROWS, some(ROWS))
        self.loop(whole, m, 1, some(1))
