"""Operands whose neighbours lie along the rows, not the lanes: transposed block by block into scratch memory.

Without it, each vector of such an operand is gathered from as many cache lines, and pages, as it has lanes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir

from .constants import POINTER, i64
from .emitter import I8, I64
from .tuning import TRANSPOSED_LANES, TRANSPOSED_ROWS

if TYPE_CHECKING:
    from .nest import Nest, Scope
    from .units import Ranges


def pack(nest: Nest, scope: Scope, ranges: Ranges) -> None:
    """Transpose what a unit reads of each such operand, and point the accesses there."""
    b = nest.b
    lane, lane_end = ranges.lane
    row, row_end = (
        ranges.row if nest.packed_axis == nest.tuning.row else (i64(0), nest.extent(nest.packed_axis))
    )
    rows = i64(TRANSPOSED_ROWS) if nest.packed_axis == nest.tuning.row else row_end
    place = nest.own
    for a in nest.tuning.packed:
        size = nest.itemsize(a)
        access = nest.kernel.accesses[a]
        if access.anchor not in nest.root.pointers:
            continue  # the load is dead
        step = nest.stride(access.anchor, nest.lane_axis)
        source = b.gep(scope.pointers[access.anchor], [b.mul(lane, step)], source_etype=I8)
        first = b.add(b.mul(row, i64(size)), i64(access.delta * size))
        source = b.gep(source, [first], source_etype=I8)
        b.call(_function(nest, size), [place, source, step, b.sub(row_end, row), b.sub(lane_end, lane)])
        # Where the element at position 0 of both axes would be.
        origin = b.add(b.mul(row, i64(TRANSPOSED_LANES)), lane)
        scope.packed[a] = b.gep(place, [b.mul(origin, i64(-size))], source_etype=I8)
        place = b.gep(place, [b.mul(rows, i64(TRANSPOSED_LANES * size))], source_etype=I8)


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
        write = b.gep(to, [b.add(b.mul(r, i64(TRANSPOSED_LANES)), lane)], source_etype=element)
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
                        b.store(
                            vector,
                            b.gep(write, [i64(k * TRANSPOSED_LANES)], source_etype=element),
                            align=size,
                        )
                with (
                    rest,
                    nest.loop(row.index, row_end, i64(1)) as r,
                    nest.loop(lane.index, lane_end, i64(1)) as one,
                ):
                    read, write = at(r.index, one.index)
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
