"""Loads and stores of one vector of lanes, by the layout of the access along the lane axis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from llvmlite import ir

from ..ir import Instr, Stride
from . import primitives
from .analysis import CONSECUTIVE, UNIFORM
from .constants import POINTER, i64, poison, zero
from .emitter import I1, I8, I32, I64, element_bits, suffix

if TYPE_CHECKING:
    from .nest import Nest, Scope

ZERO_LANE = ir.Constant(I32, 0)


def lane_stride(nest: Nest, access: int) -> str | int:
    """The layout class along the lane axis, or the stride where the tuning promises it."""
    if access in nest.tuning.packed:
        return Stride.UNIT
    a = nest.kernel.accesses[access]
    layout = a.layout[nest.lane_axis]
    if layout == Stride.ANY:
        return nest.tuning.stride(a.anchor) or layout
    return layout


def reads_ahead(nest: Nest, instructions: Sequence[int]) -> int:
    """Elements that must follow the last lane: what loads of interleaved elements read too much."""
    body = nest.kernel.body
    spans = any(
        body[n].op == "load" and isinstance(lane_stride(nest, body[n].attrs[0]), int) for n in instructions
    )
    return 1 if spans else 0


def load(nest: Nest, scope: Scope, access: int) -> ir.Value:
    """The value of an access in every lane."""
    b = nest.b
    a = nest.kernel.accesses[access]
    dtype = nest.kernel.operands[a.operand].dtype
    element = primitives.memory_type(dtype)
    kind = lane_stride(nest, access)
    if kind == Stride.ZERO or scope.lane is None:
        place = b.gep(scope.pointers[a.anchor], [i64(a.delta)], source_etype=element)
        return nest.from_memory(nest.splat(b.load(place, align=dtype.itemsize, typ=element)), dtype)
    if isinstance(kind, int) and scope.count is None:
        vector = _load_span(nest, scope, access, kind, element)
    elif kind == Stride.UNIT:
        vector = load_vector(nest, scope, address(nest, scope, access), element)
    elif kind == Stride.NEGATIVE and _reverses(nest, scope):
        vector = _reversed(nest, load_vector(nest, scope, address(nest, scope, access), element, True))
    else:
        step = nest.stride(a.anchor, nest.lane_axis)
        vector = gather_lanes(nest, scope, address(nest, scope, access), step, element)
    return nest.from_memory(vector, dtype)


def store(nest: Nest, scope: Scope, access: int, value: ir.Value) -> None:
    """Write the lanes in range; outside the loop over lanes, or without a stride along them, the first."""
    b = nest.b
    a = nest.kernel.accesses[access]
    dtype = nest.kernel.operands[a.operand].dtype
    element = primitives.memory_type(dtype)
    vector = nest.to_memory(value, dtype)
    kind = lane_stride(nest, access)
    if scope.lane is None or kind == Stride.ZERO:
        place = b.gep(scope.pointers[a.anchor], [i64(a.delta)], source_etype=element)
        b.store(b.extract_element(vector, ZERO_LANE), place, align=dtype.itemsize)
        return
    place = address(nest, scope, access)
    if kind == Stride.UNIT:
        stream = scope.stream and access in nest.tuning.streaming
        store_vector(nest, scope, vector, place, element, stream=stream)
    elif kind == Stride.NEGATIVE and _reverses(nest, scope):
        store_vector(nest, scope, _reversed(nest, vector), place, element, from_end=True)
    else:
        scatter_lanes(nest, scope, vector, place, nest.stride(a.anchor, nest.lane_axis), element)


def store_interleaved(nest: Nest, scope: Scope, accesses: Sequence[int], values: Sequence[ir.Value]) -> None:
    """Write the lanes of several values in turns: those of the first lane, those of the second, and so on."""
    b = nest.b
    dtype = nest.kernel.operands[nest.kernel.accesses[accesses[0]].operand].dtype
    element = primitives.memory_type(dtype)
    size = dtype.itemsize
    vectors = [nest.to_memory(value, dtype) for value in values]
    place = address(nest, scope, accesses[0])
    stride, lanes = len(vectors), nest.lanes
    for part in range(stride):
        # Lane k of a part is lane (part * lanes + k) // stride of value (part * lanes + k) % stride.
        wanted = [divmod(part * lanes + k, stride) for k in range(lanes)]
        merged = nest.shuffle(
            vectors[0], [lane if v == 0 else lanes + lane for lane, v in wanted], vectors[1]
        )
        for number in range(2, stride):
            indices = [lanes + lane if v == number else k for k, (lane, v) in enumerate(wanted)]
            merged = nest.shuffle(merged, indices, vectors[number])
        start = b.gep(place, [i64(part * lanes)], source_etype=element)
        if scope.count is None:
            b.store(merged, start, align=size)
            continue
        left = b.sub(b.mul(scope.count, i64(stride)), i64(part * lanes))
        with nest.when(b.icmp_signed(">", left, i64(0))):
            count = nest.minimum(left, i64(lanes))
            store_vector(nest, nest.at_lanes(scope, i64(0), count), merged, start, element)


def gather(nest: Nest, scope: Scope, instr: Instr) -> ir.Value:
    """The elements at computed flat indices."""
    b = nest.b
    a = nest.kernel.accesses[instr.attrs[0]]
    dtype = nest.kernel.operands[a.operand].dtype
    element = primitives.memory_type(dtype)
    base = b.gep(nest.anchor_pointer(a.anchor), [i64(a.delta)], source_etype=element)
    index = scope.env[instr.args[0]]
    kind = UNIFORM if scope.lane is None else nest.along[instr.args[0]]
    if kind is None:
        if scope.mask is not None:
            index = b.select(scope.mask, index, zero(index.type))
        offsets = b.mul(index, nest.splat(i64(dtype.itemsize)))
        return nest.from_memory(gather_lanes(nest, scope, base, offsets, element), dtype)
    place = b.gep(base, [b.extract_element(index, ZERO_LANE)], source_etype=element)
    if kind == CONSECUTIVE:
        return nest.from_memory(load_vector(nest, scope, place, element), dtype)
    return nest.from_memory(nest.splat(b.load(place, align=dtype.itemsize, typ=element)), dtype)


def address(nest: Nest, scope: Scope, access: int) -> ir.Value:
    """Where the element of the first lane is."""
    assert scope.lane is not None
    b = nest.b
    a = nest.kernel.accesses[access]
    element = primitives.memory_type(nest.kernel.operands[a.operand].dtype)
    if access in scope.packed:
        return b.gep(scope.packed[access], [scope.lane], source_etype=element)
    kind = lane_stride(nest, access)
    base = scope.pointers[a.anchor]
    if kind == Stride.UNIT:
        place = b.gep(base, [scope.lane], source_etype=element)
    elif kind == Stride.NEGATIVE:
        place = b.gep(base, [b.neg(scope.lane)], source_etype=element)
    elif isinstance(kind, int):
        place = b.gep(base, [b.mul(scope.lane, i64(kind))], source_etype=element)
    else:
        place = b.gep(base, [b.mul(scope.lane, nest.stride(a.anchor, nest.lane_axis))], source_etype=I8)
    return b.gep(place, [i64(a.delta)], source_etype=element) if a.delta else place


def _reverses(nest: Nest, scope: Scope) -> bool:
    return scope.count is None or nest.target.has_avx512


def _reversed(nest: Nest, vector: ir.Value) -> ir.Value:
    return nest.shuffle(vector, range(nest.lanes - 1, -1, -1))


def _bytes(element: ir.Type) -> int:
    return element_bits(element) // 8


def _has_masks(nest: Nest, size: int) -> bool:
    """Whether the target loads and stores elements of so many bytes under a mask."""
    return nest.target.has_avx512 or (nest.target.register_bits == 256 and size >= 4)


def _masks(nest: Nest, scope: Scope, from_end: bool) -> ir.Value:
    assert scope.count is not None and scope.mask is not None
    return nest.lane_mask(scope.count, from_end=True) if from_end else scope.mask


def load_vector(
    nest: Nest, scope: Scope, place: ir.Value, element: ir.Type, from_end: bool = False
) -> ir.Value:
    """Consecutive elements from `place` on or, `from_end`, those that end there; 0 in lanes out of range."""
    b = nest.b
    vector = ir.VectorType(element, nest.lanes)
    size = _bytes(element)
    if from_end:
        place = b.gep(place, [i64(1 - nest.lanes)], source_etype=element)
    if scope.count is None:
        return b.load(place, align=size, typ=vector)
    if _has_masks(nest, size):
        mask = _masks(nest, scope, from_end)
        return nest.emitter.intrinsic(
            f"llvm.masked.load.{suffix(vector)}.p0", vector, place, mask, zero(vector)
        )
    own = nest.temporary(element)
    b.store(zero(vector), own, align=size)
    _copy(nest, own, place, scope.count, size)
    return b.load(own, align=size, typ=vector)


def store_vector(
    nest: Nest,
    scope: Scope,
    vector: ir.Value,
    place: ir.Value,
    element: ir.Type,
    from_end: bool = False,
    stream: bool = False,
) -> None:
    """Write the lanes in range to consecutive elements: the counterpart of `load_vector`."""
    b = nest.b
    size = _bytes(element)
    if from_end:
        place = b.gep(place, [i64(1 - nest.lanes)], source_etype=element)
    if scope.count is None:
        written = b.store(vector, place, align=size * nest.lanes if stream else size)
        if stream:
            written.set_metadata("nontemporal", nest.module.add_metadata([ir.Constant(I32, 1)]))
    elif _has_masks(nest, size):
        mask = _masks(nest, scope, from_end)
        name = f"llvm.masked.store.{suffix(vector.type)}.p0"
        nest.emitter.intrinsic(name, ir.VoidType(), vector, place, mask)
    else:
        own = nest.temporary(element)
        b.store(vector, own, align=size)
        _copy(nest, place, own, scope.count, size)


def _copy(nest: Nest, to: ir.Value, source: ir.Value, count: ir.Value, size: int) -> None:
    nest.emitter.intrinsic(
        "llvm.memcpy.p0.p0.i64", ir.VoidType(), to, source, nest.b.mul(count, i64(size)), ir.Constant(I1, 0)
    )


def _load_span(nest: Nest, scope: Scope, access: int, stride: int, element: ir.Type) -> ir.Value:
    """Every `stride`-th of consecutive elements, by a shuffle of whole vectors.

    Reads up to `stride` - 1 elements past the last lane's: the loop over lanes leaves one more element for
    the tail.
    Accesses that share an anchor (the channels of interleaved pixels) share the loads.
    """
    b = nest.b
    a = nest.kernel.accesses[access]
    least = nest.least_delta(a.anchor)
    shift, phase = divmod(a.delta - least, stride)
    key = (a.anchor, shift)
    if key not in scope.spans:
        place = b.gep(scope.pointers[a.anchor], [b.mul(scope.lane, i64(stride))], source_etype=element)
        place = b.gep(place, [i64(least + shift * stride)], source_etype=element)
        scope.spans[key] = b.load(
            place, align=_bytes(element), typ=ir.VectorType(element, nest.lanes * stride)
        )
    return nest.shuffle(scope.spans[key], range(phase, nest.lanes * stride, stride))


def gather_lanes(nest: Nest, scope: Scope, base: ir.Value, offsets: ir.Value, element: ir.Type) -> ir.Value:
    """Elements at byte offsets from a base, one for each lane in range; the others are 0.

    `offsets` is a vector, or the step from one lane to the next.
    """
    b = nest.b
    vector = ir.VectorType(element, nest.lanes)
    size = _bytes(element)
    if scope.count is None and nest.lanes <= 16:
        # Faster than the gather instruction where both were measured, and there is one everywhere.
        result = poison(vector)
        for k in range(nest.lanes):
            lane = ir.Constant(I32, k)
            varying = isinstance(offsets.type, ir.VectorType)
            offset = b.extract_element(offsets, lane) if varying else b.mul(offsets, i64(k))
            value = b.load(b.gep(base, [offset], source_etype=I8), align=size, typ=element)
            result = b.insert_element(result, value, lane)
        return result
    if nest.target.has_avx512 and size >= 4:
        if not isinstance(offsets.type, ir.VectorType):
            offsets = nest.multiples(offsets)
        places = b.gep(base, [offsets], source_etype=I8)
        places.type = ir.VectorType(POINTER, nest.lanes)  # llvmlite takes it for a scalar
        mask = scope.mask or nest.splat(ir.Constant(I1, 1))
        name = f"llvm.masked.gather.{suffix(vector)}.v{nest.lanes}p0"
        return nest.emitter.intrinsic(name, vector, places, mask, zero(vector))
    own = nest.temporary(element)
    if scope.count is not None:
        b.store(zero(vector), own, align=size)
    with _each_lane(nest, scope, base, offsets) as (lane, place):
        b.store(b.load(place, align=size, typ=element), b.gep(own, [lane], source_etype=element), align=size)
    return b.load(own, align=size, typ=vector)


def scatter_lanes(
    nest: Nest, scope: Scope, vector: ir.Value, base: ir.Value, offsets: ir.Value, element: ir.Type
) -> None:
    """Write the lanes in range to byte offsets from a base: a vector, or the step between lanes."""
    b = nest.b
    size = _bytes(element)
    own = nest.temporary(element)
    b.store(vector, own, align=size)
    with _each_lane(nest, scope, base, offsets) as (lane, place):
        b.store(b.load(b.gep(own, [lane], source_etype=element), align=size, typ=element), place, align=size)


@contextmanager
def _each_lane(
    nest: Nest, scope: Scope, base: ir.Value, offsets: ir.Value
) -> Iterator[tuple[ir.Value, ir.Value]]:
    """A loop over the lanes in range, with the address of each."""
    b = nest.b
    vector = isinstance(offsets.type, ir.VectorType)
    if vector:
        table = nest.temporary(I64)
        b.store(offsets, table, align=8)
    with nest.loop(i64(0), i64(nest.lanes) if scope.count is None else scope.count, i64(1)) as loop:
        if vector:
            offset = b.load(b.gep(table, [loop.index], source_etype=I64), align=8, typ=I64)
        else:
            offset = b.mul(loop.index, offsets)
        yield loop.index, b.gep(base, [offset], source_etype=I8)
