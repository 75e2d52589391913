"""Whether indices are inside their arrays, and the report of one that is not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from llvmlite import ir

from ..constants import POINTER, i64
from ..emitter import I1, I64

if TYPE_CHECKING:
    from .body import Body


def checked(
    body: Body, array: int, indices: Sequence[int], site: int, mask: Any
) -> tuple[ir.Value | None, Any]:
    """Whether the uniform indices are inside, and the lanes whose other indices are too."""
    b, found = body.b, body.found
    if body.again is not None and mask is None:
        _all_inside(body, array, indices, body.again)
        return None, None
    inside: ir.Value | None = None
    for axis, index in enumerate(indices):
        if found.step(index) == 0:
            value, extent = body.scalar(index), body.extent(array, axis)
            key = ("inside", array, axis, id(value))
            good = body.known.get(key)
            if good is None:
                good = body.known[key] = b.icmp_unsigned("<", value, extent)
                _report(body, good, site, value)
            inside = good if inside is None else b.and_(inside, good)
    for axis, index in enumerate(indices):
        step = found.step(index)
        if step == 0:
            continue
        extent = body.extent(array, axis)
        vary = ("inside", array, axis, id(body.env[index]), step, id(mask))
        if vary not in body.known:
            if step == 1:
                left = _checked_lanes(body, index, extent, (array, axis), site, mask)
            else:
                values = body.vector(index)
                good = b.icmp_unsigned("<", values, body.splat(extent))
                _report_lanes(body, body.without(mask, good), site, values)
                left = body.both(mask, good)
            body.known[vary] = left
        mask = body.known[vary]
    return inside, mask


def _all_inside(body: Body, array: int, indices: Sequence[int], otherwise: ir.Block) -> None:
    """Leave a whole vector that is not all inside."""
    b = body.b
    goods = []
    for axis, index in enumerate(indices):
        step, extent = body.found.step(index), body.extent(array, axis)
        key = ("all inside", array, axis, id(body.env[index]), step)
        if key in body.known:
            continue
        if step == 0:
            good = b.icmp_unsigned("<", body.scalar(index), extent)
        elif step == 1:
            good = b.icmp_unsigned("<", body.scalar(index), _last_whole(body, extent, (array, axis)))
        else:
            lanes = b.icmp_unsigned("<", body.vector(index), body.splat(extent))
            bits = body.bits(lanes)
            good = b.icmp_unsigned("==", bits, ir.Constant(bits.type, (1 << body.lanes) - 1))
        body.known[key] = good
        goods.append(good)
    for good in goods:
        inside = body.new_block("inside")
        b.cbranch(good, inside, otherwise)
        b.position_at_end(inside)


def _last_whole(body: Body, extent: ir.Value, of: tuple[int, int]) -> ir.Value:
    """Past the last index from which on a whole vector of neighbours is inside."""
    least = body.lanes - 1
    return body.once(
        ("whole", of),
        lambda b: b.select(b.icmp_signed(">", extent, i64(least)), b.sub(extent, i64(least)), i64(0)),
    )


def _checked_lanes(
    body: Body, index: int, extent: ir.Value, of: tuple[int, int], site: int, mask: Any
) -> Any:
    """The lanes of an index that grows by one which are inside: mostly all of them."""
    b = body.b
    first = body.scalar(index)
    most = _last_whole(body, extent, of)
    here = b.block
    some, done = body.new_block("some"), body.new_block("inside")
    b.cbranch(b.icmp_unsigned("<", first, most), done, some)
    b.position_at_end(some)
    values = body.spread(first, 1)
    good = b.icmp_unsigned("<", values, body.splat(extent))
    _report_lanes(body, body.without(mask, good), site, values)
    left = body.both(mask, good)
    from_some = b.block
    b.branch(done)
    b.position_at_end(done)
    merged = b.phi(ir.VectorType(I1, body.lanes))
    merged.add_incoming(body.mask_value(mask), here)
    merged.add_incoming(body.mask_value(left), from_some)
    return merged


def _report(body: Body, good: ir.Value, site: int, value: ir.Value) -> None:
    b = body.b
    bad, done = body.new_block("bad"), body.new_block("good")
    b.cbranch(good, done, bad)
    b.position_at_end(bad)
    _first_fault(body, site, value)
    b.branch(done)
    b.position_at_end(done)


def _first_fault(body: Body, site: int, value: ir.Value) -> None:
    """Report a fault unless there was one."""
    name = "report"
    function = body.module.globals.get(name)
    if function is None:
        kind = ir.FunctionType(ir.VoidType(), [POINTER, I64, I64])
        function = ir.Function(body.module, kind, name)
        function.linkage = "internal"
        for attribute in ("nounwind", "noinline", "cold"):
            function.attributes.add(attribute)
        b = ir.IRBuilder(function.append_basic_block())
        status, code, index = function.args
        set_, left = function.append_basic_block(), function.append_basic_block()
        b.cbranch(b.icmp_signed("==", b.load(status, typ=I64), i64(0)), set_, left)
        b.position_at_end(set_)
        b.store(code, status)
        b.store(index, b.gep(status, [i64(1)], source_etype=I64))
        b.branch(left)
        b.position_at_end(left)
        b.ret_void()
    body.b.call(function, [body.status, i64(1 + site), value])


def _report_lanes(body: Body, bad: Any, site: int, values: ir.Value) -> None:
    b = body.b
    bits = body.bits(bad)
    some, done = body.new_block("bad"), body.new_block("good")
    b.cbranch(b.icmp_unsigned("!=", bits, ir.Constant(bits.type, 0)), some, done)
    b.position_at_end(some)
    lane = b.cttz(bits, ir.Constant(I1, 1))
    lane = b.zext(lane, I64) if body.lanes < 64 else lane
    _first_fault(body, site, b.extract_element(values, lane))
    b.branch(done)
    b.position_at_end(done)
