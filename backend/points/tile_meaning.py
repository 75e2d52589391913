"""What a kernel of tiles computes as a whole, for targets that cut arrays into tiles by themselves.

A tile program says where each tile lies. Here it is run once, for all turns of its loops together: whole
numbers are arrays over the turns, the contents of a buffer are an expression of the position. Where the
slices of a loop lie side by side, ``a[o : o + t]``, the loop and the position within its tile are one axis of
the whole array, and a copy into memory is a statement about whole arrays:

* copy in: an affine access; elementwise: a primitive; copy out: a `Store`;
* `reduce` over a whole row: a reduction over that axis;
* a product that accumulates over a loop: a contraction over that loop's axis.

raising.py writes the stores as kernels in point form and as products. A program of another kind is left as it
is, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...ops.primitives import PRIMITIVES
from ..ir import Dtype
from ..structured import (
    Barrier,
    Block,
    Buffer,
    For,
    If,
    Let,
    Region,
    Return,
    StructuredBinding,
    StructuredKernel,
    TileApply,
    TileCopy,
    TileProduct,
    TileReduce,
    walk,
)
from .whole_array import (
    Apply,
    Axis,
    Contents,
    Contraction,
    Expression,
    Load,
    Number,
    Place,
    Reduced,
    Scalar,
    Store,
    free,
)

MOST_LOOPS = 8
MOST_TURNS = 1 << 21  # of all loops that one number depends on

Known = NDArray[Any]  # a number for every turn: one axis for each loop, of extent 1 where it does not change


class NotRaised(Exception):
    """The program is not of the kind that is understood as a whole."""


# --- running all turns at once ------------------------------------------------------------------------------


class _Program:
    def __init__(self, kernel: StructuredKernel, binding: StructuredBinding) -> None:
        self.kernel = kernel
        self.binding = binding
        self.values: dict[int, Known | Expression] = {}
        self.contents: dict[int, Contents | str] = {}  # or why they are not known
        self.loops: list[int] = []  # that are open
        self.before: list[dict[int, Contents | str]] = []  # what buffers held when each was opened
        self.turns = list(binding.grid)  # of each axis of threads, then of each loop
        self.stores: list[Store] = []
        if kernel.axes > MOST_LOOPS:
            raise NotRaised(f"it has {kernel.axes} axes of threads")

    def run(self, body: Block) -> None:
        for statement in body:
            match statement:
                case Let():
                    self.values[statement.value] = self._value(statement)
                case For():
                    self._loop(statement)
                case TileCopy():
                    self._copy(statement)
                case TileApply():
                    self._apply(statement)
                case TileReduce():
                    self._reduce(statement)
                case TileProduct():
                    self._product(statement)
                case If():
                    self._product(self._either(statement))
                case Barrier():
                    pass
                case Return() if statement is self.kernel.body[-1]:
                    pass
                case _:
                    raise NotRaised(f"it has {_NAMES.get(type(statement).__name__, 'another statement')}")

    def _either(self, choice: If) -> TileProduct:
        """Two products that differ in whether they add to what is there, as one."""
        found = []
        for block in (choice.then, choice.orelse):
            *lets, last = block or (None,)
            if not isinstance(last, TileProduct) or not all(isinstance(s, Let) for s in lets):
                raise NotRaised("it has a condition")
            self.run(tuple(lets))
            found.append(last)
        one, two = found
        same = (one.c, one.a, one.b) == (two.c, two.a, two.b) and all(
            np.array_equal(self._known(x), self._known(y))
            for x, y in ((one.m, two.m), (one.n, two.n), (one.k, two.k))
        )
        if not same:
            raise NotRaised("it has a condition")
        where = np.where(
            self._known(choice.condition), self._known(one.accumulate), self._known(two.accumulate)
        )
        number = min(self.values, default=0) - 1
        self.values[number] = where
        return replace(one, accumulate=number)

    # --- numbers ---

    def _over(self, loop: int, numbers: NDArray[Any]) -> Known:
        shape = [1] * MOST_LOOPS
        shape[loop] = -1
        return numbers.reshape(shape)

    def _value(self, let: Let) -> Known | Expression:
        match let.op:
            case "global_id":
                return self._over(let.attrs[0], np.arange(self.binding.grid[let.attrs[0]], dtype=np.int64))
            case "global_size":
                return _constant(self.binding.grid[let.attrs[0]], let.dtype)
            case "extent":
                return _constant(self.binding.shapes[let.attrs[0]][let.attrs[1]], let.dtype)
            case "const":
                number = let.attrs[0]
                return _constant(number, let.dtype) if let.dtype.kind in "biu" else Number(number, let.dtype)
            case "scalar":
                return Scalar(let.attrs[0], let.dtype)
            case "load" if let.attrs[0] >= len(self.kernel.arrays):
                return self._element(let)
        primitive = PRIMITIVES.get(let.op)
        if primitive is None:
            raise NotRaised(f"a number in it comes from {_NAMES.get(let.op, let.op)}")
        args = [self.values[a] for a in let.args]
        known = [a for a in args if isinstance(a, np.ndarray)]
        if len(known) == len(args) and let.dtype.kind in "biu":
            shape = np.broadcast_shapes(*(a.shape for a in known))
            if np.prod(shape, dtype=np.int64) > MOST_TURNS:
                raise NotRaised("its loops take too many turns together")
            return primitive.meaning(*known, attrs=let.attrs, shape=shape, dtype=let.dtype)
        return Apply(let.op, let.dtype, tuple(map(self._operand, let.args)), let.attrs)

    def _element(self, let: Let) -> Expression:
        """The only element of a buffer."""
        held = self._read(let.attrs[0])
        if any(axis.tile > 1 for axis in held.axes) or any(np.any(self._known(a) != 0) for a in let.args):
            raise NotRaised("it takes a single element of a buffer")
        return held.expression

    def _operand(self, value: int) -> Expression:
        """A number as an operand of whole-array operations: the same for all turns."""
        known = self.values[value]
        if not isinstance(known, np.ndarray):
            return known
        if known.size != 1:
            raise NotRaised("a number in it changes from turn to turn")
        return Number(known.item(), known.dtype)

    def _known(self, value: int) -> Known:
        known = self.values[value]
        if not isinstance(known, np.ndarray):
            raise NotRaised("a bound in it is neither an extent of an array nor known before")
        return known

    # --- loops ---

    def _loop(self, loop: For) -> None:
        start, stop = self._known(loop.start), self._known(loop.stop)
        if start.size != 1 or stop.size != 1:
            raise NotRaised("a loop in it has bounds that change from turn to turn")
        turns = np.arange(start.item(), stop.item(), loop.step, dtype=np.int64)
        if not turns.size:
            return
        if turns.size == 1:
            self.values[loop.value] = _constant(turns[0], turns.dtype)
            self.run(loop.body)
            return
        number = len(self.turns)
        self.turns.append(turns.size)
        if number >= MOST_LOOPS:
            raise NotRaised(f"it has more than {MOST_LOOPS} loops")
        self.values[loop.value] = self._over(number, turns)
        self.before.append(dict(self.contents))
        for buffer in _written(loop.body):
            self.contents[buffer] = "keeps a value from one turn of a loop to the next"
        self.loops.append(number)
        self.run(loop.body)
        self.loops.pop()
        self.before.pop()
        for buffer, held in self.contents.items():
            if not isinstance(held, Contents):
                continue
            if (held.part and held.summing == number) or ("loop", number) in set(free(held.expression)):
                self.contents[buffer] = "is read after the loop that fills it"

    # --- regions ---

    def _axes(self, region: Region) -> tuple[tuple[Axis, int], ...]:
        """For each axis of an array's region: which axis of whole arrays it is, and at what distance."""
        shape = self.binding.shapes[region.array]
        found = []
        for d, extent in enumerate(shape):
            start = np.maximum(self._known(region.starts[d]), 0)
            stop = np.maximum(self._known(region.stops[d]), 0)
            start, stop = np.broadcast_arrays(start, stop)
            loop = _changes(start, stop)
            first, length = start.reshape(-1), np.minimum(stop, extent).reshape(-1)
            length = np.maximum(length - first, 0)
            if loop < 0:
                lane = int(length[0])
                key = ("axis" if lane > 1 else "one", d)
                found.append((Axis(key, max(lane, 1), lane), int(first[0])))
                continue
            tile = int(first[1] - first[0])
            total = int(length.sum())
            place = np.arange(first.size, dtype=np.int64) * tile
            if tile < 1 or not np.array_equal(first, first[0] + place):
                raise NotRaised("slices in it do not lie side by side")
            if not np.array_equal(length, np.clip(total - place, 0, tile)):
                raise NotRaised("slices in it overlap, or leave something out")
            found.append((Axis(("loop", loop), tile, total), int(first[0])))
        return tuple(found)

    def _lengths(self, axis: Axis, lengths: Known) -> Axis:
        """The axis cut to so many positions in each turn."""
        loop = _changes(lengths)
        if loop >= 0 and ("loop", loop) != axis.key:
            raise NotRaised("how much of a tile it takes changes with another loop")
        cut = np.minimum(self._valid(axis), np.maximum(lengths, 0))
        found = Axis(axis.key, axis.tile, int(cut.sum()))
        if not np.array_equal(cut.reshape(-1), np.broadcast_to(self._valid(found), cut.shape).reshape(-1)):
            raise NotRaised("it leaves out parts of tiles")
        return found

    def _begin(self, axis: Axis) -> Any:
        """Where the tile of each turn begins along an axis."""
        kind, loop = axis.key
        return self._over(loop, np.arange(self.turns[loop]) * axis.tile) if kind == "loop" else np.int64(0)

    def _valid(self, axis: Axis) -> Known:
        """How many positions of each turn's tile there are."""
        found: Known = np.clip(axis.length - self._begin(axis), 0, axis.tile)
        return found

    def _read(self, buffer: int) -> Contents:
        held = self.contents.get(buffer, "is read before it is written")
        if isinstance(held, str):
            raise NotRaised(f"{self._buffer(buffer).name} {held}")
        if held.summing in self.loops:
            raise NotRaised(f"{self._buffer(buffer).name} is read before its sum is complete")
        return held

    def _buffer(self, number: int) -> Buffer:
        storage = self.kernel.storage(number)
        assert isinstance(storage, Buffer)
        return storage

    def _from_start(self, region: Region) -> tuple[Known, ...]:
        """How much of each axis of a buffer a region takes; it begins where the buffer does."""
        if any(np.any(self._known(s) > 0) for s in region.starts):
            raise NotRaised("it copies to or from the middle of a buffer")
        return tuple(
            np.minimum(np.maximum(self._known(stop), 0), extent)
            for stop, extent in zip(region.stops, self._buffer(region.array).shape, strict=True)
        )

    # --- tiles ---

    def _copy(self, copy: TileCopy) -> None:
        arrays = len(self.kernel.arrays)
        source, target = copy.source.array, copy.target.array
        if source < arrays and target < arrays:
            raise NotRaised("it copies from array to array")
        if target >= arrays:
            room = self._from_start(copy.target)
            if source < arrays:
                found = self._axes(copy.source)
                axes = tuple(axis for axis, _ in found)
                places = tuple(Place(axis.key, delta) for axis, delta in found)
                expression: Expression = Load(source, places, self.kernel.arrays[source].dtype)
            else:
                room = tuple(map(np.minimum, room, self._from_start(copy.source)))
                held = self._read(source)
                axes, expression = held.axes, held.expression
            cut = tuple(map(self._lengths, axes, room))
            self.contents[target] = Contents(cut, expression)
            return
        held, taken = self._read(source), self._from_start(copy.source)
        found = self._axes(copy.target)
        stored, lengths = [], []
        for (axis, delta), own, most in zip(found, held.axes, taken, strict=True):
            if own.key[0] == "any" and own.tile >= axis.tile:
                own = axis
            if axis.key != own.key and own.length == 1 and axis.tile == 1:
                own = Axis(axis.key, 1, axis.length)
            if axis.key != own.key or (axis.key[0] == "loop" and axis.tile != own.tile):
                raise NotRaised("it stores a tile elsewhere than it belongs")
            tile = own.tile if axis.key[0] == "loop" else axis.tile
            length = self._lengths(Axis(axis.key, tile, axis.length), most).length
            if length > own.length:
                raise NotRaised("it stores more of a buffer than was written")
            stored.append(Place(axis.key, delta))
            lengths.append(length)
        keys = {p.key for p in stored}
        if not keys.issuperset(free(held.expression)):
            raise NotRaised("turns of a loop write over each other")
        self.stores.append(Store(target, tuple(stored), tuple(lengths), held.expression, copy.site))

    def _running(self, apply: TileApply) -> Contents | None:
        """What a buffer holds that takes in something in each turn: a reduction over the loop's axis."""
        own = ("buffer", apply.out)
        others = [arg for arg in apply.args if arg != own]
        held = self.contents.get(others[0][1]) if len(others) == 1 and others[0][0] == "buffer" else None
        if (
            not self.loops
            or apply.op not in _RUNNING
            or len(apply.args) != 2
            or not isinstance(held, Contents)
        ):
            return None
        loop = self.loops[-1]
        before = self.before[-1].get(apply.out)
        if not isinstance(self.contents.get(apply.out), str) or not isinstance(before, Contents):
            return None
        if before.summing in self.loops or len(before.axes) != len(held.axes):
            return None
        added = held.expression
        axes = []
        for mine, other in zip(before.axes, held.axes, strict=True):
            if other.key == ("loop", loop) and other.tile == 1 and mine.tile == 1 and not held.part:
                added = Reduced(apply.op, added.dtype, added, other.key, other.length)
                axes.append(mine)
            else:
                axes += self._common((mine,), (other,))
        complete = isinstance(added, Reduced) and (added.how, added.key) == (apply.op, ("loop", loop))
        if not complete or (held.summing not in (-1, loop)):
            return None
        self._whole(axes[0], self._known(apply.count), prod(self._buffer(apply.out).shape[1:]))
        expression = Apply(apply.op, self._buffer(apply.out).dtype, (before.expression, added))
        return Contents(tuple(axes), expression, loop)

    def _apply(self, apply: TileApply) -> None:
        out = self._buffer(apply.out)
        running = self._running(apply)
        if running is not None:
            self.contents[apply.out] = running
            return
        axes: tuple[Axis, ...] | None = None
        args: list[Expression] = []
        for kind, number in apply.args:
            if kind == "value":
                args.append(self._operand(number))
                continue
            held = self._read(number)
            if self._buffer(number).shape[1:] != out.shape[1:] or len(held.axes) != len(out.shape):
                raise NotRaised("it combines buffers of different row lengths")
            args.append(held.expression)
            axes = held.axes if axes is None else self._common(axes, held.axes)
        count = self._known(apply.count)
        if axes is None:
            axes = self._filled(out, count)
        elif len(axes) == 1:
            axes = (self._lengths(axes[0], count),)
        else:
            pitch = int(np.prod(out.shape[1:]))
            self._whole(axes[0], count, pitch)
        (first, *_) = args
        expression = Apply(apply.op, out.dtype, tuple(args), apply.attrs)
        plain = apply.op == "cast" and isinstance(first, Number | Scalar) and first.dtype == out.dtype
        self.contents[apply.out] = Contents(axes, first if plain else expression)

    def _filled(self, out: Buffer, count: Known) -> tuple[Axis, ...]:
        """The axes of a buffer that is filled with a number."""
        if count.size != 1:
            raise NotRaised("how much of a buffer it fills changes from turn to turn")
        pitch = int(np.prod(out.shape[1:]))
        rows = count.item() // pitch
        if rows * pitch != count.item():
            raise NotRaised("it fills a part of a row")
        extents = (rows, *out.shape[1:])
        return tuple(Axis(("any", d), e, e) for d, e in enumerate(extents))

    def _whole(self, rows: Axis, count: Known, pitch: int) -> None:
        """Whether a count of elements takes in all rows that there are."""
        if np.any(count < self._valid(rows) * pitch):
            raise NotRaised("it computes a part of a tile")

    def _common(self, one: tuple[Axis, ...], two: tuple[Axis, ...]) -> tuple[Axis, ...]:
        found = []
        for a, b in zip(one, two, strict=True):
            if "any" in (a.key[0], b.key[0]):
                filled, other = (a, b) if a.key[0] == "any" else (b, a)
                if filled.tile < other.tile:
                    raise NotRaised("it fills a part of a tile")
                found.append(other)
                continue
            if a.tile == b.tile == 1 and "one" in (a.key[0], b.key[0]):
                found.append(b if a.key[0] == "one" else a)
                continue
            if a.key != b.key or (a.key[0] == "loop" and a.tile != b.tile):
                raise NotRaised("it combines tiles of different places")
            found.append(Axis(a.key, max(a.tile, b.tile), min(a.length, b.length)))
        return tuple(found)

    def _reduce(self, reduce: TileReduce) -> None:
        if reduce.accumulate:
            raise NotRaised("it adds to a result of before")
        held = self._read(reduce.source)
        if len(held.axes) > 2:
            raise NotRaised("it reduces a buffer of more than two axes")
        rows = held.axes[0] if len(held.axes) == 2 else None
        along = held.axes[-1]
        part = along.key[0] == "loop"
        if part and along.key[1] not in self.loops:
            raise NotRaised("it reduces a part of a row")
        if np.any(self._known(reduce.columns) != self._valid(along)):
            raise NotRaised("it reduces another part of a row than was copied")
        out = self._buffer(reduce.out)
        if rows is not None:
            self._whole(rows, self._known(reduce.rows), 1)
            axes = (rows,)
        else:
            axes = (Axis(("one", 0), 1, 1),)
        if len(out.shape) != 1:
            raise NotRaised("it reduces into a buffer of several axes")
        if along.key[0] == "any":
            raise NotRaised("it reduces a number")
        expression = held.expression
        if along.length > 1:
            expression = Reduced(reduce.how, out.dtype, expression, along.key, along.length)
        self.contents[reduce.out] = Contents(axes, expression, along.key[1] if part else -1, part)

    def _product(self, product: TileProduct) -> None:
        a, b = self._read(product.a), self._read(product.b)
        left, right = a.expression, b.expression
        if not isinstance(left, Load) or not isinstance(right, Load) or len(a.axes) != 2 or len(b.axes) != 2:
            raise NotRaised("it multiplies what it has computed, not what it has copied")
        (rows, depth), (depth_b, columns) = a.axes, b.axes
        looped = depth.key[0] == "loop"
        if len({axis.key for axis in (rows, depth, depth_b, columns) if axis.key[0] == "loop"}) != sum(
            axis.key[0] == "loop" for axis in (rows, depth, columns)
        ):
            raise NotRaised("it multiplies tiles of different places")
        if looped and (depth.key, depth.tile) != (depth_b.key, depth_b.tile):
            raise NotRaised("it multiplies tiles of different places")
        summed = Axis(depth.key, max(depth.tile, depth_b.tile), min(depth.length, depth_b.length))
        if np.any(self._known(product.k) != self._valid(summed)):
            raise NotRaised("it multiplies another part of a tile than was copied")
        self._whole(rows, self._known(product.m), 1)
        self._whole(columns, self._known(product.n), 1)
        adds = self._known(product.accumulate)
        if looped:
            later = self._over(depth.key[1], np.arange(self.turns[depth.key[1]]) > 0)
            if adds.size == 1 or not np.array_equal(np.broadcast_to(adds, later.shape), later):
                raise NotRaised("it accumulates otherwise than from the first tile to the last")
        elif np.any(adds):
            raise NotRaised("it adds a product to what was there")
        held = self._buffer(product.c)
        expression = Contraction(
            held.dtype, left, right, summed.length, (rows.tile, columns.tile, summed.tile)
        )
        summing = depth.key[1] if looped else -1
        self.contents[product.c] = Contents((rows, columns), expression, summing)


_RUNNING = ("add", "mul", "max", "min")  # what may be done in any order
_NAMES = {
    "If": "a condition",
    "While": "a while loop",
    "Set": "a variable",
    "get": "a variable",
    "Store": "a store to a single element",
    "load": "a single element of an array",
    "Atomic": "an atomic update",
    "Break": "a break",
    "Continue": "a continue",
    "Return": "a return",
    "call": "a C function",
}


def _constant(number: Any, dtype: Dtype) -> Known:
    return np.full((1,) * MOST_LOOPS, number, dtype)


def _changes(*numbers: Known) -> int:
    """The loop that numbers change with; -1 for none."""
    shape = np.broadcast_shapes(*(n.shape for n in numbers))
    loops = [k for k, extent in enumerate(shape) if extent > 1]
    if len(loops) > 1:
        raise NotRaised("a slice in it goes by two loops at once")
    return loops[0] if loops else -1


def _written(body: Block) -> Iterator[int]:
    """The buffers and arrays that tile statements write."""
    for statement in walk(body):
        match statement:
            case TileCopy():
                yield statement.target.array
            case TileApply() | TileReduce():
                yield statement.out
            case TileProduct():
                yield statement.c


def stores(kernel: StructuredKernel, binding: StructuredBinding) -> tuple[Store, ...]:
    """What a kernel of tiles computes, as statements about whole arrays in their order.

    Raises
    ------
    NotRaised
        With the reason.
    """
    if prod(kernel.block) > 1:
        raise NotRaised("its threads work together in blocks")
    program = _Program(kernel, binding)
    program.run(kernel.body)
    return tuple(program.stores)
