"""The functions of a structured kernel's phases: loops over units of work around its statements."""

from __future__ import annotations

from llvmlite import ir

from ...structured import Atomic, StructuredKernel, walk
from .. import primitives
from ..constants import i64
from ..emitter import I8, I64
from ..target import Target
from .flow import Flow, count_nodes
from .lanes import Variation
from .work import MERGED, Work


def text(
    kernel: StructuredKernel,
    found: Variation,
    work: Work,
    lanes: int,
    target: Target,
    contract: bool,
    proven: frozenset[int],
) -> str:
    """The code of a kernel for LLVM."""
    module = ir.Module(name=kernel.name)
    module.triple = target.triple

    def begin(name: str, lanes: int) -> Flow:
        return Flow(module, name, found, work, lanes, target, contract, proven)

    body = begin("phase0", lanes)
    if work.private:
        with body.loop(body.begin, body.end, i64(1)) as piece:
            _piece(body, piece)
        body.finish()
        merge = begin("phase1", lanes)
        with merge.loop(merge.begin, merge.end, i64(1)) as unit:
            _merge(merge, unit)
        merge.finish()
    else:
        with body.loop(body.begin, body.end, i64(1)) as unit:
            _unit(body, unit)
        body.finish()
    return str(module)


def _unit(body: Flow, unit: ir.Value) -> None:
    """A unit of work: a block, or a piece of some rows of threads."""
    b, work = body.b, body.work
    axes = range(body.kernel.axes)
    if work.lane < 0:
        _positions(body, unit, list(axes))
        body.once_for_block(body.found.body)
        return
    chunks, size = body.integer("lane_chunks"), body.integer("lane_chunk")
    number, piece = b.udiv(unit, chunks), b.urem(unit, chunks)
    start = b.mul(piece, size)
    stop = body.minimum(b.add(start, size), body.integer(f"grid.{work.lane}"))
    first = b.mul(number, body.integer("row_block"))
    last = body.minimum(b.add(first, body.integer("row_block")), body.integer("rows"))
    nodes = body.found.body
    outer = [k for k in axes if k != work.lane]
    _positions(body, first, outer)
    before = b.block
    head, inside, done = (body.new_block(name) for name in ("rows", "row", "done"))
    b.branch(head)
    b.position_at_end(head)
    row = b.phi(I64)
    row.add_incoming(first, before)
    positions = {k: b.phi(I64) for k in outer}
    for k, position in positions.items():
        position.add_incoming(body.ids[k], before)
        body.ids[k] = position
    b.cbranch(b.icmp_signed("<", row, last), inside, done)
    b.position_at_end(inside)
    body.over_lanes(start, stop, nodes, count_nodes(nodes))
    row.add_incoming(b.add(row, i64(1)), b.block)
    carry = i64(1)  # counting costs less than dividing
    for k in reversed(outer):
        following = b.add(positions[k], carry)
        if k == outer[0]:
            positions[k].add_incoming(following, b.block)
            break
        ends = b.icmp_signed("==", following, body.integer(f"grid.{k}"))
        positions[k].add_incoming(b.select(ends, i64(0), following), b.block)
        carry = b.zext(ends, I64)
    b.branch(head)
    b.position_at_end(done)


def _positions(body: Flow, number: ir.Value, axes: list[int]) -> None:
    """Take a number apart into the positions along axes, the last of which changes fastest."""
    b = body.b
    for k in reversed(axes[1:]):
        extent = body.integer(f"grid.{k}")
        above = b.udiv(number, extent)
        body.ids[k] = b.sub(number, b.mul(above, extent))
        number = above
    if axes:
        body.ids[axes[0]] = number


def _how(kernel: StructuredKernel, array: int) -> str:
    return next(x.how for x in walk(kernel.body) if isinstance(x, Atomic) and x.array == array)


def _piece(body: Flow, piece: ir.Value) -> None:
    """Units of work with copies of their own of what they update."""
    b, kernel = body.b, body.kernel
    own = b.gep(body.scratch, [b.mul(piece, body.integer("piece_bytes"))], source_etype=I8)
    body.private = own
    for n in body.work.private:
        dtype = kernel.arrays[n].dtype
        start = b.gep(own, [body.integer(f"private.{n}")], source_etype=I8)
        neutral = body.constant(primitives.reduce_identity(_how(kernel, n), dtype), dtype)
        stored = primitives.to_memory(b, neutral, dtype, 0)
        with body.loop(i64(0), body.integer(f"count.{n}"), i64(1)) as k:
            b.store(stored, b.gep(start, [k], source_etype=stored.type), align=dtype.itemsize)
    first = b.mul(piece, body.integer("piece_units"))
    last = body.minimum(b.add(first, body.integer("piece_units")), body.integer("units"))
    with body.loop(first, last, i64(1)) as unit:
        _unit(body, unit)


def _merge(body: Flow, unit: ir.Value) -> None:
    """Add the copies up, piece after piece, and then to the array."""
    b, kernel = body.b, body.kernel
    first = b.mul(unit, i64(MERGED))
    for n in body.work.private:
        array = kernel.arrays[n]
        dtype, element = array.dtype, primitives.memory_type(array.dtype)
        how = _how(kernel, n)
        last = body.minimum(b.add(first, i64(MERGED)), body.integer(f"count.{n}"))
        copies = b.gep(body.scratch, [body.integer(f"private.{n}")], source_etype=I8)
        with body.loop(first, last, i64(1)) as k:
            place, left = body.pointer(n), k
            for axis in reversed(range(array.rank)):
                extent = body.integer(f"extent.{n}.{axis}")
                above = b.udiv(left, extent)
                index = b.sub(left, b.mul(above, extent))
                left = above
                stride = {"0": i64(0), "1": i64(dtype.itemsize)}.get(array.layout[axis])
                stride = body.integer(f"stride.{n}.{axis}") if stride is None else stride
                place = b.gep(place, [b.mul(index, stride)], source_etype=I8)
            before = b.block
            head, one, done = body.new_block("pieces"), body.new_block("piece"), body.new_block("merged")
            b.branch(head)
            b.position_at_end(head)
            piece = b.phi(ir.IntType(64))
            total = b.phi(primitives.register_type(dtype))
            piece.add_incoming(i64(0), before)
            total.add_incoming(body.constant(primitives.reduce_identity(how, dtype), dtype), before)
            b.cbranch(b.icmp_signed("<", piece, body.integer("pieces")), one, done)
            b.position_at_end(one)
            own = b.gep(copies, [b.mul(piece, body.integer("piece_bytes"))], source_etype=I8)
            held = b.load(b.gep(own, [k], source_etype=element), align=dtype.itemsize, typ=element)
            held = primitives.from_memory(b, held, dtype, 0)
            total.add_incoming(body.uniform(how, dtype, [total, held], [dtype, dtype]), b.block)
            piece.add_incoming(b.add(piece, i64(1)), b.block)
            b.branch(head)
            b.position_at_end(done)
            old = primitives.from_memory(b, b.load(place, align=dtype.itemsize, typ=element), dtype, 0)
            new = body.uniform(how, dtype, [old, total], [dtype, dtype])
            b.store(primitives.to_memory(b, new, dtype, 0), place, align=dtype.itemsize)
