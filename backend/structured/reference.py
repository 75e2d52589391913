"""Structured kernels run by the meaning of their statements: slow, the oracle of every backend's tests.

All threads of the grid go through the text together, each statement for the threads that come to it before
the next statement for any of them. That is one of the orders that threads may run in, and makes every barrier
hold.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...ops.dtypes import is_narrow
from ...ops.meaning import COMBINE, neutral
from ...ops.primitives import PRIMITIVES
from .. import structured as s

Array = NDArray[Any]
Lanes = NDArray[np.intp]


def run(
    kernel: s.StructuredKernel,
    binding: s.StructuredBinding,
    buffers: Sequence[Array],
    scalars: Sequence[Any] = (),
) -> tuple[int, int] | None:
    """Run a kernel on flat arrays, writing in place.

    Parameters
    ----------
    kernel : StructuredKernel
    binding : StructuredBinding
    buffers : sequence of one-dimensional arrays
        One for each array of the kernel, of its dtype.
    scalars : sequence of numbers
        One for each scalar slot.

    Returns
    -------
    (int, int) or None
        Code and value of the fault of the lowest thread, the first of that thread.
    """
    reference = StructuredReference(kernel, binding, buffers, scalars)
    reference.run()
    return reference.fault


class Loop:
    """Who left a turn of a loop."""

    def __init__(self) -> None:
        self.broken: list[Lanes] = []
        self.continued: list[Lanes] = []


class Frame:
    """The values and variables of the threads, or of the points of a span within them.

    Attributes
    ----------
    thread : array of int
        For each lane the thread it belongs to.
    outer : Frame or None
        What a span stands in; ``lane_of`` is the lane there.
    """

    def __init__(self, thread: Lanes, outer: Frame | None = None, lane_of: Lanes | None = None) -> None:
        self.thread = thread
        self.outer = outer
        self.lane_of = lane_of
        self.values: dict[int, Array] = {}
        self.variables: dict[int, Array] = {}

    def value(self, number: int, live: Lanes) -> Array:
        found = self.values.get(number)
        if found is not None:
            return found[live]
        assert self.outer is not None and self.lane_of is not None, f"%{number} has no value"
        return self.outer.value(number, self.lane_of[live])

    def put(self, number: int, live: Lanes, value: Array) -> None:
        held = self.values.get(number)
        if held is None or held.dtype != value.dtype:
            held = self.values[number] = np.zeros(len(self.thread), value.dtype)
        held[live] = value

    def variable(self, number: int, dtype: np.dtype[Any]) -> Array:
        held = self.variables.get(number)
        if held is None:
            held = np.zeros(len(self.thread), dtype)
            if self.outer is not None and self.lane_of is not None:
                held[...] = self.outer.variable(number, dtype)[self.lane_of]
            self.variables[number] = held
        return held


class StructuredReference:
    """One launch.

    Attributes
    ----------
    faults : list of (int, int, int)
        Thread, code and value of every index that was outside.
    memory : list of arrays
        The buffers of all blocks: one row for each block.
    """

    def __init__(
        self,
        kernel: s.StructuredKernel,
        binding: s.StructuredBinding,
        buffers: Sequence[Array],
        scalars: Sequence[Any] = (),
    ) -> None:
        self.kernel = kernel
        self.binding = binding
        self.buffers = buffers
        self.scalars = scalars
        self.block = kernel.block or (1,) * kernel.axes
        self.faults: list[tuple[int, int, int]] = []
        self.ids: list[Array] = [i.reshape(-1).astype(np.int64) for i in np.indices(binding.grid)]
        self.groups: list[Array] = [i // b for i, b in zip(self.ids, self.block, strict=True)]
        self.counts = tuple(-(-g // b) for g, b in zip(binding.grid, self.block, strict=True))
        self.block_of = np.ravel_multi_index(tuple(self.groups), self.counts)
        self.threads_of_block = np.bincount(self.block_of, minlength=prod(self.counts))
        self.memory: list[Array] = [self._unwritten(b) for b in kernel.buffers]

    def _unwritten(self, buffer: s.Buffer) -> Array:
        """Nothing that a kernel should read."""
        row = np.full(prod(buffer.shape) * buffer.dtype.itemsize, 0x7F, np.uint8).view(buffer.dtype)
        if buffer.dtype.kind in "fV":
            row[...] = np.nan
        elif buffer.dtype.kind == "b":
            row = np.ones(prod(buffer.shape), np.bool_)
        return np.tile(row, (prod(self.counts), 1))

    @property
    def fault(self) -> tuple[int, int] | None:
        if not self.faults:
            return None
        _, code, value = min(self.faults, key=lambda f: f[0])
        return code, value

    def run(self) -> None:
        frame = Frame(np.arange(len(self.ids[0])))
        with np.errstate(all="ignore"):
            self._run(frame, self.kernel.body, frame.thread, Loop())

    # --- control flow ------------------------------------------------------------------------------------

    def _run(self, frame: Frame, body: s.Block, live: Lanes, loop: Loop) -> Lanes:
        """Run a block for the live lanes; those that come to its end."""
        for statement in body:
            if not len(live):
                break
            live = self._statement(frame, statement, live, loop)
        return live

    def _statement(self, frame: Frame, statement: s.Statement, live: Lanes, loop: Loop) -> Lanes:
        match statement:
            case s.Let():
                frame.put(statement.value, live, self._let(frame, statement, live))
            case s.Set(variable, value):
                held = frame.variable(variable, self.kernel.variables[variable])
                held[live] = frame.value(value, live)
            case s.Store():
                self._store(frame, statement, live)
            case s.Atomic():
                self._atomic(frame, statement, live)
            case s.If(condition, then, orelse):
                taken = frame.value(condition, live)
                return _merged(
                    self._run(frame, then, live[taken], loop), self._run(frame, orelse, live[~taken], loop)
                )
            case s.For():
                return self._for(frame, statement, live)
            case s.While():
                return self._while(frame, statement, live)
            case s.Break():
                loop.broken.append(live)
                return live[:0]
            case s.Continue():
                loop.continued.append(live)
                return live[:0]
            case s.Return():
                return live[:0]
            case s.Barrier():
                self._whole_blocks(frame, live)
            case s.Span():
                self._span(frame, statement, live)
            case _:
                self._tile(frame, statement, live)
        return live

    def _for(self, frame: Frame, statement: s.For, live: Lanes) -> Lanes:
        index = np.zeros(len(frame.thread), np.int64)
        stop = index.copy()
        index[live] = frame.value(statement.start, live)
        stop[live] = frame.value(statement.stop, live)
        done: list[Lanes] = []
        while len(live):
            inside = index[live] < stop[live] if statement.step > 0 else index[live] > stop[live]
            done.append(live[~inside])
            live = live[inside]
            loop = Loop()
            frame.put(statement.value, live, index[live])
            live = _merged(self._run(frame, statement.body, live, loop), *loop.continued)
            done += loop.broken
            index[live] += statement.step
        return _merged(*done)

    def _while(self, frame: Frame, statement: s.While, live: Lanes) -> Lanes:
        done: list[Lanes] = []
        while len(live):
            loop = Loop()
            live = self._run(frame, statement.head, live, loop)
            holds = frame.value(statement.condition, live)
            done.append(live[~holds])
            live = self._run(frame, statement.body, live[holds], loop)
            live = _merged(live, *loop.continued)
            done += loop.broken
        return _merged(*done)

    def _span(self, frame: Frame, statement: s.Span, live: Lanes) -> None:
        extents = [np.maximum(frame.value(e, live), 0) for e in statement.extents]
        points = np.multiply.reduce(extents)
        lane_of = np.repeat(live, points)
        first = np.cumsum(points) - points
        rest = np.arange(len(lane_of)) - np.repeat(first, points)
        inner = Frame(frame.thread[lane_of], frame, lane_of)
        every = np.arange(len(lane_of))
        for value, extent in reversed(list(zip(statement.values, extents, strict=True))):
            rest, index = np.divmod(rest, np.repeat(extent, points))
            inner.put(value, every, index.astype(np.int64))
        self._run(inner, statement.body, every, Loop())

    def _whole_blocks(self, frame: Frame, live: Lanes) -> tuple[Lanes, Lanes]:
        """The blocks of the live lanes, of which all threads are there, and the first lane of each."""
        assert frame.outer is None, "a barrier or a tile statement within a span"
        numbers, first, threads = np.unique(self.block_of[live], return_index=True, return_counts=True)
        assert np.array_equal(threads, self.threads_of_block[numbers]), (
            "threads of a block take different ways"
        )
        return numbers, live[first]

    # --- values and memory -------------------------------------------------------------------------------

    def _let(self, frame: Frame, let: s.Let, live: Lanes) -> Array:
        match let.op:
            case "global_id" | "local_id" | "group_id":
                axis, thread = let.attrs[0], frame.thread[live]
                own: Array = {
                    "global_id": self.ids[axis],
                    "local_id": self.ids[axis] % self.block[axis],
                    "group_id": self.groups[axis],
                }[let.op][thread]
                return own
            case "global_size" | "block_size":
                sizes = self.binding.grid if let.op == "global_size" else self.block
                return np.full(len(live), sizes[let.attrs[0]], np.int64)
            case "extent":
                array, axis = let.attrs
                return np.full(len(live), self._shape(array)[axis], np.int64)
            case "scalar":
                return np.full(len(live), self.scalars[let.attrs[0]], let.dtype)
            case "const":
                return np.full(len(live), let.attrs[0], let.dtype)
            case "get":
                return frame.variable(let.attrs[0], let.dtype)[live]
            case "load":
                array, site = let.attrs
                flat, place, inside = self._places(frame, array, let.args, site, live)
                result = np.zeros(len(live), let.dtype)
                result[inside] = flat[place]
                return result
        args = [frame.value(a, live) for a in let.args]
        if let.op == "call":
            return _called(self.kernel.functions[let.attrs[0]], args, len(live))
        return PRIMITIVES[let.op].meaning(*args, attrs=let.attrs, shape=(len(live),), dtype=let.dtype)

    def _shape(self, array: int) -> tuple[int, ...]:
        count = len(self.kernel.arrays)
        return self.binding.shapes[array] if array < count else self.kernel.buffers[array - count].shape

    def _places(
        self, frame: Frame, array: int, indices: tuple[int, ...], site: int, live: Lanes
    ) -> tuple[Array, Lanes, NDArray[np.bool_]]:
        """A flat array, the elements of it that are met, and which of the live lanes meet one."""
        shape, count = self._shape(array), len(self.kernel.arrays)
        index = [frame.value(i, live) for i in indices]
        inside = np.ones(len(live), np.bool_)
        for along, extent in zip(index, shape, strict=True):
            outside = inside & ((along < 0) | (along >= extent))
            inside &= ~outside
            assert site >= 0 or not outside.any(), "a pass wrote an access that is outside"
            threads = frame.thread[live[outside]].tolist()
            self.faults += [(t, 1 + site, v) for t, v in zip(threads, along[outside].tolist(), strict=True)]
        if array < count:
            flat, strides = self.buffers[array], self.binding.strides[array]
            place = np.full(len(live), self.binding.offsets[array], np.int64)
        else:
            rows = self.memory[array - count]
            flat, strides = rows.reshape(-1), _contiguous(shape)
            place = self.block_of[frame.thread[live]] * rows.shape[1]
        place = place[inside]
        for along, stride in zip(index, strides, strict=True):
            place = place + along[inside] * stride
        return flat, place, inside

    def _store(self, frame: Frame, store: s.Store, live: Lanes) -> None:
        flat, place, inside = self._places(frame, store.array, store.indices, store.site, live)
        flat[place] = frame.value(store.value, live)[inside]

    def _atomic(self, frame: Frame, atomic: s.Atomic, live: Lanes) -> None:
        flat, place, inside = self._places(frame, atomic.array, atomic.indices, atomic.site, live)
        value = frame.value(atomic.value, live)
        before = np.zeros(len(live), flat.dtype)
        combine = COMBINE[atomic.how]
        for lane, p in zip(np.flatnonzero(inside).tolist(), place.tolist(), strict=True):
            before[lane] = flat[p]
            flat[p] = combine(flat[p], value[lane])
        if atomic.result >= 0:
            frame.put(atomic.result, live, before)

    # --- tiles -------------------------------------------------------------------------------------------

    def _tile(self, frame: Frame, statement: s.Statement, live: Lanes) -> None:
        """Once for each block."""
        for block, lane in zip(*self._whole_blocks(frame, live), strict=True):

            def number(value: int, lane: Any = lane) -> Any:
                return frame.value(value, np.array([lane]))[0]

            match statement:
                case s.TileCopy(target, source):
                    self._copy(target, source, block, number)
                case s.TileApply():
                    self._apply(statement, block, number)
                case s.TileReduce():
                    self._reduce(statement, block, number)
                case s.TileProduct():
                    self._product(statement, block, number)
                case _:
                    raise AssertionError(f"{type(statement).__name__} is no statement")

    def _storage(self, array: int, block: int) -> Array:
        """An array, or a block's buffer, as a view with its shape."""
        count, shape = len(self.kernel.arrays), self._shape(array)
        if array >= count:
            row: Array = self.memory[array - count][block]
            return row.reshape(shape)
        flat, size = self.buffers[array], self.buffers[array].itemsize
        if 0 in shape:
            return flat[:0].reshape(shape)
        steps = [step * size for step in self.binding.strides[array]]
        return np.lib.stride_tricks.as_strided(flat[self.binding.offsets[array] :], shape, steps)

    def _copy(self, target: s.Region, source: s.Region, block: int, number: Callable[[int], Any]) -> None:
        ways = []
        for region in (target, source):
            shape = self._shape(region.array)
            starts = [max(0, int(number(v))) for v in region.starts]
            stops = [min(max(0, int(number(v))), e) for v, e in zip(region.stops, shape, strict=True)]
            ways.append((starts, [max(0, b - a) for a, b in zip(starts, stops, strict=True)]))
        (to, room), (start, length) = ways
        both = [min(a, b) for a, b in zip(room, length, strict=True)]
        into = tuple(slice(a, a + n) for a, n in zip(to, both, strict=True))
        of = tuple(slice(a, a + n) for a, n in zip(start, both, strict=True))
        self._storage(target.array, block)[into] = self._storage(source.array, block)[of].copy()

    def _apply(self, tile: s.TileApply, block: int, number: Callable[[int], Any]) -> None:
        out = self._storage(tile.out, block).reshape(-1)
        flats = [
            self._storage(n, block).reshape(-1) if kind == "buffer" else np.asarray(number(n))
            for kind, n in tile.args
        ]
        count = min([len(out), max(0, int(number(tile.count))), *(len(f) for f in flats if f.ndim)])
        args = [f[:count] if f.ndim else f for f in flats]
        meaning = PRIMITIVES[tile.op].meaning
        out[:count] = meaning(*args, attrs=tile.attrs, shape=(count,), dtype=out.dtype)

    def _reduce(self, tile: s.TileReduce, block: int, number: Callable[[int], Any]) -> None:
        out, source = self._storage(tile.out, block).reshape(-1), self._storage(tile.source, block)
        table = source.reshape(-1, source.shape[-1])
        rows = min(max(0, int(number(tile.rows))), len(table), len(out))
        table = table[:rows, : max(0, int(number(tile.columns)))]
        wide = np.dtype(np.float32) if is_narrow(source.dtype) else source.dtype
        held = out[:rows].astype(wide) if tile.accumulate else np.full(rows, neutral(tile.how, wide), wide)
        total = COMBINE[tile.how].reduce(table.astype(wide), axis=1, initial=neutral(tile.how, wide))
        out[:rows] = COMBINE[tile.how](held, total).astype(out.dtype)

    def _product(self, tile: s.TileProduct, block: int, number: Callable[[int], Any]) -> None:
        c, a, b = (self._storage(n, block) for n in (tile.c, tile.a, tile.b))
        m, n, k = (max(0, int(number(v))) for v in (tile.m, tile.n, tile.k))
        m, n, k = min(m, len(a), len(c)), min(n, b.shape[1], c.shape[1]), min(k, a.shape[1], len(b))
        total = c[:m, :n] if number(tile.accumulate) else np.zeros((m, n), c.dtype)
        for step in range(k):
            total = total + a[:m, step, None].astype(c.dtype) * b[None, step, :n].astype(c.dtype)
        c[:m, :n] = total


def _merged(*lanes: Lanes) -> Lanes:
    parts = [part for part in lanes if len(part)]
    if not parts:
        return np.zeros(0, np.intp)
    return parts[0] if len(parts) == 1 else np.sort(np.concatenate(parts))


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(prod(shape[k + 1 :]) for k in range(len(shape)))


def _called(function: s.Foreign, args: list[Array], lanes: int) -> Array:
    """A C function, called for one lane after another."""
    ctype = np.ctypeslib.as_ctypes_type
    kinds = [ctype(p) for p in function.parameters]
    call = ctypes.CFUNCTYPE(ctype(function.result), *kinds)(function.address)
    result = np.zeros(lanes, function.result)
    for lane in range(lanes):
        result[lane] = call(*(k(a[lane].item()) for k, a in zip(kinds, args, strict=True)))
    return result
