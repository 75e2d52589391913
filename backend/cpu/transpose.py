"""Operands whose neighbours lie along the rows, not the lanes: transposed block by block into scratch memory.

Without it, each vector of such an operand is gathered from as many cache lines, and pages, as it has lanes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir

from ..ir import Kernel
from .constants import POINTER, i64
from .emitter import I8, I64

if TYPE_CHECKING:
    from .nest import Nest, Scope
    from .tuning import Tuning
    from .units import Ranges

# Size of a block: it and what is read for it fit the first-level cache.
ROWS = 64
LANES = 64


def scratch(kernel: Kernel, tuning: Tuning) -> int:
    """Bytes of scratch memory that a thread needs."""
    return sum(
        ROWS * LANES * kernel.operands[kernel.accesses[a].operand].dtype.itemsize for a in tuning.packed
    )


def _blocks(nest: Nest) -> list[tuple[int, ir.Value]]:
    """Each transposed access and its place in scratch memory."""
    result = []
    offset = 0
    for a in nest.tuning.packed:
        place = nest.b.gep(nest.own, [i64(offset)], source_etype=I8)
        if nest.kernel.accesses[a].anchor in nest.root.pointers:  # else the load is dead
            result.append((a, place))
        offset += ROWS * LANES * nest.itemsize(a)
    return result


def pack(nest: Nest, scope: Scope, ranges: Ranges) -> None:
    """Transpose what a unit reads of each such operand."""
    b = nest.b
    (row, row_end), (lane, lane_end) = ranges.row, ranges.lane
    for a, block in _blocks(nest):
        size = nest.itemsize(a)
        access = nest.kernel.accesses[a]
        step = nest.stride(access.anchor, nest.lane_axis)
        source = b.gep(scope.pointers[access.anchor], [b.mul(lane, step)], source_etype=I8)
        first = b.add(b.mul(row, i64(size)), i64(access.delta * size))
        source = b.gep(source, [first], source_etype=I8)
        b.call(_function(nest, size), [block, source, step, b.sub(row_end, row), b.sub(lane_end, lane)])


def enter(nest: Nest, scope: Scope, ranges: Ranges) -> None:
    """Point the transposed accesses at a row of their blocks."""
    b = nest.b
    for a, block in _blocks(nest):
        size = nest.itemsize(a)
        row = b.mul(b.sub(scope.index[nest.tuning.row], ranges.row[0]), i64(LANES * size))
        start = b.sub(row, b.mul(ranges.lane[0], i64(size)))
        scope.packed[a] = b.gep(block, [start], source_etype=I8)


def _function(nest: Nest, size: int) -> ir.Function:
    """``to[r][l] = source[l * step + r]`` for elements of `size` bytes, rows r and lanes l.

    Squares of registers go through log2(side) rounds of pairwise shuffles, the rest element by element.
    """
    name = f"transpose{size}"
    known = nest.module.globals.get(name)
    if known is not None:
        return known
    function = ir.Function(
        nest.module, ir.FunctionType(ir.VoidType(), [POINTER, POINTER, I64, I64, I64]), name
    )
    function.linkage = "internal"
    function.attributes.add("nounwind")
    function.attributes.add("noinline")
    to, source, step, rows, lanes = function.args
    element = ir.IntType(8 * size)
    side = min(16, nest.target.register_bits // (8 * size))
    outer = nest.b
    caller = nest.function
    nest.function = function
    nest.b = b = ir.IRBuilder(function.append_basic_block())

    def at(r: ir.Value, lane: ir.Value) -> tuple[ir.Value, ir.Value]:
        read = b.gep(source, [b.add(b.mul(lane, step), b.mul(r, i64(size)))], source_etype=I8)
        write = b.gep(to, [b.add(b.mul(r, i64(LANES)), lane)], source_etype=element)
        return read, write

    with nest.loop(i64(0), rows, i64(side)) as row:
        row_end = nest.minimum(b.add(row.index, i64(side)), rows)
        with nest.loop(i64(0), lanes, i64(side)) as lane:
            lane_end = nest.minimum(b.add(lane.index, i64(side)), lanes)
            area = b.mul(b.sub(row_end, row.index), b.sub(lane_end, lane.index))
            with b.if_else(b.icmp_signed("==", area, i64(side * side))) as (square, rest):
                with square:
                    read, write = at(row.index, lane.index)
                    vectors = []
                    for k in range(side):
                        place = b.gep(read, [b.mul(step, i64(k))], source_etype=I8)
                        vectors.append(b.load(place, align=size, typ=ir.VectorType(element, side)))
                    for k, vector in enumerate(_transposed(nest, vectors)):
                        b.store(vector, b.gep(write, [i64(k * LANES)], source_etype=element), align=size)
                with rest, nest.loop(row.index, row_end, i64(1)) as r:
                    with nest.loop(lane.index, lane_end, i64(1)) as lane_:
                        read, write = at(r.index, lane_.index)
                        b.store(b.load(read, align=size, typ=element), write, align=size)
    b.ret_void()
    nest.b, nest.function = outer, caller
    return function


def _transposed(nest: Nest, vectors: list[ir.Value]) -> list[ir.Value]:
    """The transpose of a square of vectors: each round swaps one bit of the row with that of the column."""
    side = len(vectors)
    half = 1
    while half < side:
        low = [j if not j & half else side + j - half for j in range(side)]
        high = [j + half if not j & half else side + j for j in range(side)]
        for i in range(side):
            if not i & half:
                a, c = vectors[i], vectors[i + half]
                vectors[i], vectors[i + half] = nest.shuffle(a, low, c), nest.shuffle(a, high, c)
        half *= 2
    return vectors
