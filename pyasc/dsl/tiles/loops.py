"""The outer loops of a tile-style kernel, spread over threads, one for each tile.

A loop is spread where its turns do not depend on each other: each stores to a part of the arrays that no
other touches, and reads no buffer before it has written it. Otherwise one thread runs everything in order.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ...backend.structured import (
    IDS,
    Atomic,
    Block,
    For,
    If,
    Let,
    Region,
    Return,
    Set,
    Statement,
    Store,
    StructuredKernel,
    TileApply,
    TileCopy,
    TileProduct,
    TileReduce,
    blocks,
    walk,
)
from ...ops.errors import KernelError
from ...ops.primitives import PRIMITIVES
from ..lowering.emission import INT64
from ..lowering.operands import BUFFERS
from ..signature import Extent, LaunchValues, Lowered

MAX_AXES = 3


def spread(lowered: Lowered) -> Lowered:
    """The kernel with its independent outer loops as axes of the grid, and what their extents are."""
    body, axes, extents = lowered.kernel.body, 0, []
    if any(isinstance(s, Let) and s.op in IDS for s in walk(body)):
        raise KernelError(
            f"[{lowered.kernel.name}] expected either tiles or thread ids, given both: the loops of tiles "
            "are spread over threads"
        )
    reason = ""
    while axes < MAX_AXES:
        found = _outer(body)
        if found is None:
            reason = "it is not one loop, or loops right within each other"
            break
        place, loop = found
        count = _turns(lowered, body[:place], loop)
        reason = _dependence(lowered.kernel, body[:place], loop) if count else "its bounds are computed"
        if reason:
            break
        assert count is not None
        body = (*body[:place], *_as_thread(lowered.kernel, body, loop, axes), *loop.body, *body[place + 1 :])
        extents.append(count)
        axes += 1
    kernel = replace(
        lowered.kernel, body=_whole_axes(lowered, body), axes=max(axes, 1), block=(1,) * max(axes, 1)
    )
    grid = tuple(extents) or (lambda _: 1,)
    return replace(lowered, kernel=kernel, grid=grid, ids=max(axes, 1), reason="" if axes else reason)


def _outer(body: Block) -> tuple[int, For] | None:
    """The one loop of a block that holds nothing else but values."""
    loops = [(n, s) for n, s in enumerate(body) if not isinstance(s, Let | Return)]
    if len(loops) != 1 or not isinstance(loops[0][1], For) or loops[0][1].step < 1:
        return None
    return loops[0][0], loops[0][1]


def _as_thread(kernel: StructuredKernel, body: Block, loop: For, axis: int) -> Block:
    """The number of a loop's turn, from the thread's id."""
    fresh = 1 + max(s.value for s in walk(body) if isinstance(s, Let | For))
    fresh = max(fresh, 1 + max((s.result for s in walk(body) if isinstance(s, Atomic)), default=0))
    return (
        Let(fresh, "global_id", INT64, (), (axis,)),
        Let(fresh + 1, "const", INT64, (), (loop.step,)),
        Let(fresh + 2, "mul", INT64, (fresh, fresh + 1)),
        Let(loop.value, "add", INT64, (loop.start, fresh + 2)),
    )


# --- sizes --------------------------------------------------------------------------------------------------


def _turns(lowered: Lowered, before: Block, loop: For) -> Extent | None:
    """How many turns a loop takes, from sizes and arguments; None where that is not enough to know."""
    lets = {s.value: s for s in before if isinstance(s, Let)}
    if not all(_evaluable(lets, value) for value in (loop.start, loop.stop)):
        return None

    def extent(values: LaunchValues) -> int:
        start, stop = (_evaluate(lowered, lets, value, values) for value in (loop.start, loop.stop))
        return len(range(int(start), int(stop), loop.step))

    return extent


def _evaluable(lets: dict[int, Let], value: int) -> bool:
    let = lets.get(value)
    if let is None:
        return False
    return let.op in ("const", "scalar", "extent") or (
        let.op in PRIMITIVES and all(_evaluable(lets, a) for a in let.args)
    )


def _evaluate(lowered: Lowered, lets: dict[int, Let], value: int, values: LaunchValues) -> Any:
    let = lets[value]
    match let.op:
        case "const":
            return np.asarray(let.attrs[0]).astype(let.dtype)
        case "scalar":
            path = lowered.scalars[let.attrs[0]]
            if "shape" in path and path[: path.index("shape")] in values.shapes:
                return np.asarray(values.shapes[path[:-2]][int(path[-1])], let.dtype)
            return np.asarray(values.read(path)).astype(let.dtype)
        case "extent":
            return np.asarray(values.shapes[lowered.arrays[let.attrs[0]]][let.attrs[1]], let.dtype)
    args = [_evaluate(lowered, lets, a, values) for a in let.args]
    return PRIMITIVES[let.op].meaning(*args, attrs=let.attrs, shape=(), dtype=let.dtype)


def _whole_axes(lowered: Lowered, body: Block) -> Block:
    """Arguments that are guarded to be an array's size are read as that size, which a launch knows."""
    from .statements import SameExtent

    same = {g.compute.scalar: g.compute for g in lowered.guards if isinstance(g.compute, SameExtent)}
    if not same:
        return body

    def one(s: Statement) -> Statement:
        if isinstance(s, Let) and s.op == "scalar" and s.dtype == INT64:
            found = same.get(lowered.scalars[s.attrs[0]])
            if found is not None:
                return replace(s, op="extent", attrs=(lowered.arrays.index(found.array), found.axis))
        return s

    return tuple(map(one, body))


# --- dependence ---------------------------------------------------------------------------------------------


def _affine(lets: dict[int, Let], value: int) -> tuple[dict[int, int], int]:
    """A value as a sum of others, each so many times, and a number."""
    let = lets.get(value)
    if let is not None and let.op == "const":
        return {}, int(let.attrs[0])
    if let is not None and let.op in ("add", "sub", "mul"):
        (a, x), (b, y) = (_affine(lets, v) for v in let.args)
        if let.op != "mul":
            sign = 1 if let.op == "add" else -1
            terms = {k: a.get(k, 0) + sign * b.get(k, 0) for k in {*a, *b}}
            return {k: v for k, v in terms.items() if v}, x + sign * y
        if not a or not b:
            (a, x), (b, y) = ((a, x), (b, y)) if not b else ((b, y), (a, x))
            return {k: v * y for k, v in a.items() if v * y}, x * y
    return {value: 1}, 0


def _dependence(kernel: StructuredKernel, before: Block, loop: For) -> str:
    """Why the turns of a loop cannot run at the same time, or ""."""
    lets = {s.value: s for s in (*before, *walk(loop.body)) if isinstance(s, Let)}
    arrays = len(kernel.arrays)
    own: dict[int, set[Any]] = {}
    for s in walk(loop.body):
        if isinstance(s, Set):
            return "a variable goes from turn to turn"
        if isinstance(s, Store | Atomic):
            return "it writes single elements"
        if isinstance(s, TileCopy) and s.target.array < arrays:
            part = _part(lets, s.target, loop)
            if part is None:
                return f"turns write the same part of {kernel.arrays[s.target.array].name}"
            own.setdefault(s.target.array, set()).add(part)
    for s in walk(loop.body):
        read = s.source if isinstance(s, TileCopy) else None
        if isinstance(s, Let) and s.op == "load" and s.attrs[0] in own:
            return f"turns read what others write in {kernel.arrays[s.attrs[0]].name}"
        if read is not None and read.array in own:
            own[read.array].add(_part(lets, read, loop))
    for array, parts in own.items():
        if len(parts) > 1:
            return f"turns read or write different parts of {kernel.arrays[array].name}"
    late = _read_first(loop.body, arrays, lets)
    return f"{kernel.storage(late).name} keeps what an earlier turn wrote" if late >= 0 else ""


def _part(lets: dict[int, Let], region: Region, loop: For) -> Any:
    """The axis, and the distance from the loop's number, of a part that no other turn touches."""
    for axis, (start, stop) in enumerate(zip(region.starts, region.stops, strict=True)):
        a, x = _affine(lets, start)
        b, y = _affine(lets, stop)
        # A start below 0 would be taken for 0.
        first, low = _affine(lets, loop.start)
        if a == {loop.value: 1} and a == b and 0 <= y - x <= loop.step and x >= 0 and not first and low >= 0:
            return axis, x
    return None


def _read_first(body: Block, arrays: int, lets: dict[int, Let]) -> int:
    """A buffer that is read before it is written, or -1."""
    written: set[int] = set()

    def visit(block: Block, loops: tuple[For, ...]) -> int:
        for s in block:
            reads, writes = _touched(s, loops, lets)
            for buffer in reads:
                if buffer >= arrays and buffer not in written:
                    return buffer
            written.add(writes)
            inner = (*loops, s) if isinstance(s, For) else loops
            for within in blocks(s):
                found = visit(within, inner)
                if found >= 0:
                    return found
        return -1

    return visit(body, ())


def partly_written(body: Block) -> set[int]:
    """Buffers that may be read before they are written: in a loop that takes no turns, or in one branch."""
    lets = {s.value: s for s in walk(body) if isinstance(s, Let)}
    found: set[int] = set()

    def visit(block: Block, written: set[int], loops: tuple[For, ...]) -> set[int]:
        for s in block:
            reads, target = _touched(s, loops, lets)
            found.update(n for n in reads if n >= BUFFERS and n not in written)
            if target >= BUFFERS:
                written.add(target)
            inner = (*loops, s) if isinstance(s, For) else loops
            ways = [visit(within, set(written), inner) for within in blocks(s)]
            if isinstance(s, If):
                written |= set.intersection(*ways)
        return written

    visit(body, set(), ())
    return found


def _touched(s: Statement, loops: tuple[For, ...], lets: dict[int, Let]) -> tuple[tuple[int, ...], int]:
    """The arrays and buffers that a statement reads, and the one that it writes, or -1."""
    match s:
        case TileCopy():
            return (s.source.array,), s.target.array
        case TileApply():
            return tuple(n for kind, n in s.args if kind == "buffer"), s.out
        case TileReduce():
            return (s.source, s.out) if s.accumulate else (s.source,), s.out
        case TileProduct():
            return (s.a, s.b) if _begins(s, loops, lets) else (s.a, s.b, s.c), s.c
        case Let(op="load"):
            return (s.attrs[0],), -1
    return (), -1


def _begins(product: TileProduct, loops: tuple[For, ...], lets: dict[int, Let]) -> bool:
    """Whether a product does not read its result in the first turn of the loop around it."""
    let = lets.get(product.accumulate)
    if let is None:
        return False
    if let.op == "const":
        return not let.attrs[0]
    values = [_affine(lets, a) for a in let.args]
    for loop in loops[-1:]:
        index, start = ({loop.value: 1}, 0), _affine(lets, loop.start)
        if (let.op == "lt" and values == [start, index]) or (
            let.op == "ne" and (values in ([start, index], [index, start]))
        ):
            return True
    return False
