"""Loads, stores, atomic updates and calls of structured kernels, for the lanes that are there.

An index is checked against its axis unless it was proven to be inside; what is outside is left out, and
reported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llvmlite import ir

from ...ir import Dtype, Stride
from ...structured import Atomic, Let, Store
from .. import primitives
from ..constants import POINTER, i64, poison, zero
from ..emitter import I1, I8, I32, I64, Text, element_bits, suffix
from .checks import checked
from .lanes import lane_step

if TYPE_CHECKING:
    from .body import Body

# Elements up to which the lanes of a gather are loaded one by one in a row.
MOST_WRITTEN_OUT = 16


@dataclass(slots=True)
class Access:
    """Where an access goes.

    Attributes
    ----------
    base : value
        The address of the first lane, or what `offsets` are from.
    step : int or None
        Elements from lane to lane where that is known; then `offsets` is None.
    offsets : value or None
        Bytes from the base for each lane.
    mask : mask
        The lanes that are there and inside.
    inside : value or None
        Whether the indices that are the same for all lanes are inside, where that is not known.
    """

    base: ir.Value
    step: int | None
    offsets: ir.Value | None
    mask: Any
    inside: ir.Value | None = None


def load(body: Body, let: Let) -> ir.Value:
    """The elements at computed indices; 0 where these are outside."""
    array, site = let.attrs
    dtype = let.dtype
    element = primitives.memory_type(dtype)
    uniform = body.found.step(let.value) == 0
    at = _access(body, array, let.args, site)
    b, size = body.b, dtype.itemsize
    if uniform:
        return primitives.from_memory(b, b.load(at.base, align=size, typ=element), dtype, 0)
    vector = ir.VectorType(element, body.lanes)
    if at.step == 0:
        loaded = body.splat(b.load(at.base, align=size, typ=element))
        if at.mask is not body.state.mask:
            loaded = b.select(body.mask_value(at.mask), loaded, zero(vector))
    elif at.step in (1, -1):
        loaded = _load_vector(body, at, element)
    else:
        loaded = _gather(body, at, element)
    return primitives.from_memory(b, loaded, dtype, body.lanes)


def store(body: Body, statement: Store) -> None:
    """Write the lanes that are there; of several that write one element, the last."""
    dtype = body.kernel.storage(statement.array).dtype
    element = primitives.memory_type(dtype)
    at = _access(body, statement.array, statement.indices, statement.site, True, spread=body.alone)
    body.again = None
    b, size = body.b, dtype.itemsize
    if at.step == 0 and all(body.found.step(i) == 0 for i in statement.indices):
        if body.found.step(statement.value) == 0:
            value = body.scalar(statement.value)
        else:
            vector = body.vector(statement.value)
            value = b.extract_element(vector, _last_lane(body, at.mask))
        with body.when(at.inside if body.alone else None):
            b.store(primitives.to_memory(b, value, dtype, 0), at.base, align=size)
        return
    vector = primitives.to_memory(b, body.vector(statement.value), dtype, body.lanes)
    if at.step in (1, -1):
        _store_vector(body, at, vector, element)
        return
    if at.mask is None and body.lanes <= MOST_WRITTEN_OUT:

        def put(lane: ir.Value, place: ir.Value) -> None:
            b.store(b.extract_element(vector, lane), place, align=size)

        _each_lane(body, at, size, put, written_out=True)
        return
    own = body.temporary(element)
    b.store(vector, own, align=size)

    def move(lane: ir.Value, place: ir.Value) -> None:
        b.store(b.load(b.gep(own, [lane], source_etype=element), align=size, typ=element), place, align=size)

    _each_lane(body, at, size, move)


def atomic(body: Body, statement: Atomic) -> None:
    """Update elements, undivided.

    Of arrays of which each piece of the work has its own copy, and of buffers, which belong to one block,
    that takes no atomic instruction. Elsewhere sums of floats are made in any order.
    """
    b, array = body.b, statement.array
    dtype = body.kernel.storage(array).dtype
    element = primitives.memory_type(dtype)
    size = dtype.itemsize
    alone = array >= len(body.kernel.arrays) or array in body.work.private

    def update(place: ir.Value, value: ir.Value) -> ir.Value:
        if alone:
            old = primitives.from_memory(b, b.load(place, align=size, typ=element), dtype, 0)
            new = body.uniform(statement.how, dtype, [old, value], [dtype, dtype])
            b.store(primitives.to_memory(b, new, dtype, 0), place, align=size)
            return old
        if dtype.kind in "iu":
            how = {"add": "add", "max": "max", "min": "min"}[statement.how]
            if dtype.kind == "u" and how != "add":
                how = "u" + how
            return b.atomic_rmw(how, place, value, "monotonic")
        return _exchanged(body, statement.how, place, value, dtype)

    if body.alone:
        at = _access(body, array, statement.indices, statement.site, True, spread=statement.result < 0)
        body.again = None
        if statement.result < 0 and at.inside is not None:
            with body.when(at.inside):
                update(at.base, body.scalar(statement.value))
            return
        old = update(at.base, body.scalar(statement.value))
        if statement.result >= 0:
            nothing = body.constant(0, dtype)
            body.env[statement.result] = old if at.inside is None else b.select(at.inside, old, nothing)
        return
    at = _access(body, array, statement.indices, statement.site, writes=True, spread=True)
    body.again = None
    value = _table(body, statement.value, 1)
    results = _Results(body, dtype, 2) if statement.result >= 0 else None

    def one(lane: ir.Value, place: ir.Value) -> None:
        old = update(place, value(lane))
        if results is not None:
            results.put(lane, old)

    _each_lane(body, at, size, one, written_out=alone)
    if results is not None:
        body.env[statement.result] = results.vector()


def _exchanged(body: Body, how: str, place: ir.Value, value: ir.Value, dtype: Dtype) -> ir.Value:
    """An update for which there is no instruction: computed, and written unless another was faster."""
    b = body.b
    bits = ir.IntType(8 * dtype.itemsize)
    element = primitives.memory_type(dtype)
    before = b.block
    again, done = body.new_block("again"), body.new_block("updated")
    first = b.load_atomic(place, "monotonic", dtype.itemsize, typ=bits)
    b.branch(again)
    b.position_at_end(again)
    held = b.phi(bits)
    held.add_incoming(first, before)
    old = primitives.from_memory(b, held if element == bits else b.bitcast(held, element), dtype, 0)
    new = primitives.to_memory(b, body.uniform(how, dtype, [old, value], [dtype, dtype]), dtype, 0)
    new = new if element == bits else b.bitcast(new, bits)
    pair = b.cmpxchg(place, held, new, "monotonic", "monotonic")
    held.add_incoming(b.extract_value(pair, 0), b.block)
    b.cbranch(b.extract_value(pair, 1), done, again)
    b.position_at_end(done)
    return old


def call(body: Body, let: Let) -> ir.Value:
    """Call a C function, for each lane that is there."""
    b = body.b
    body.again = None
    function = body.kernel.functions[let.attrs[0]]
    address = body.integer(f"function.{let.attrs[0]}")

    def one(args: Sequence[ir.Value]) -> ir.Value:
        passed = [_to_c(b, a, d) for a, d in zip(args, function.parameters, strict=True)]
        kind = ir.FunctionType(_c_type(function.result), [p.type for p in passed])
        target = b.inttoptr(address, kind.as_pointer())
        result = b.call(target, passed)
        return _from_c(b, result, function.result)

    if body.found.step(let.value) == 0:
        return one([body.scalar(a) for a in let.args])
    results = _Results(body, function.result, 2)
    tables = [_table(body, arg, 3 + n) for n, arg in enumerate(let.args)]
    at = Access(results.place, 0, None, body.state.mask)
    _each_lane(body, at, 0, lambda lane, _: results.put(lane, one([table(lane) for table in tables])))
    return results.vector()


class _Results:
    """A vector made lane by lane, 0 where none is made."""

    def __init__(self, body: Body, dtype: Dtype, number: int) -> None:
        self.b = body.b
        self.register = primitives.register_type(dtype)
        self.kept = ir.VectorType(I8 if self.register == I1 else self.register, body.lanes)
        self.place = body.temporary(self.kept.element, number)
        self.b.store(zero(self.kept), self.place)

    def put(self, lane: ir.Value, value: ir.Value) -> None:
        value = self.b.zext(value, I8) if self.register == I1 else value
        self.b.store(value, self.b.gep(self.place, [lane], source_etype=self.kept.element))

    def vector(self) -> ir.Value:
        made = self.b.load(self.place, typ=self.kept)
        if self.register == I1:
            return self.b.trunc(made, ir.VectorType(I1, self.kept.count))
        return made


def _table(body: Body, value: int, number: int) -> Callable[[ir.Value], ir.Value]:
    """A function from a lane to what a value is there."""
    b = body.b
    if body.found.step(value) == 0:
        scalar = body.scalar(value)
        return lambda lane: scalar
    vector = body.vector(value)
    element = vector.type.element
    if element == I1:
        vector = b.zext(vector, ir.VectorType(I8, body.lanes))
    place = body.temporary(vector.type.element, number)
    b.store(vector, place)

    def at(lane: ir.Value) -> ir.Value:
        kind = vector.type.element
        loaded = b.load(b.gep(place, [lane], source_etype=kind), typ=kind)
        return b.trunc(loaded, I1) if element == I1 else loaded

    return at


def _c_type(dtype: Dtype) -> ir.Type:
    """How a C function returns a dtype; narrow integers come in the low bits of a register."""
    return I8 if dtype.kind == "b" else primitives.register_type(dtype)


def _to_c(b: ir.IRBuilder, value: ir.Value, dtype: Dtype) -> ir.Value:
    if dtype.kind in "bu" and dtype.itemsize < 4:
        return b.zext(value, I32)
    return b.sext(value, I32) if dtype.kind == "i" and dtype.itemsize < 4 else value


def _from_c(b: ir.IRBuilder, value: ir.Value, dtype: Dtype) -> ir.Value:
    return b.icmp_unsigned("!=", value, ir.Constant(I8, 0)) if dtype.kind == "b" else value


# --- addresses ---------------------------------------------------------------------------------------------


def _access(
    body: Body, array: int, indices: Sequence[int], site: int, writes: bool = False, spread: bool = False
) -> Access:
    """Where an access goes.

    What is outside goes nowhere, or, with `spread`, has no lanes and, of a single thread, is the caller's to
    leave out.
    """
    b, found = body.b, body.found
    inside, mask = None, body.state.mask
    if site not in body.proven:
        inside, mask = checked(body, array, indices, site, mask)
    # Copies of a piece's own have strides of their own.
    step = None if array in body.work.private else lane_step(found, array, indices)
    base = _base(body, array)
    offsets: ir.Value | None = None
    for axis, index in enumerate(indices):
        along = found.step(index)
        stride = _stride(body, array, axis)
        if stride is None:
            continue
        if along is not None:
            base = b.gep(base, [_times(b, body.scalar(index), stride)], source_etype=I8)
        if (along != 0 and step is None) or (step == "strided" and along):
            if along is None:
                part = _times(b, body.vector(index), stride, body)
            else:
                part = body.multiples(_times(b, i64(along), stride))
            offsets = part if offsets is None else b.add(offsets, part)
    if inside is not None:
        if (body.alone or step in (0, 1)) and not spread:
            base = b.select(inside, base, body.temporary(I64, -2) if writes else _nowhere(body))
        elif not body.alone:
            mask = body.both(mask, body.splat(inside))
    return Access(base, step if isinstance(step, int) else None, offsets, mask, inside)


def _times(b: ir.IRBuilder, value: ir.Value, stride: ir.Value, body: Body | None = None) -> ir.Value:
    if body is not None:
        stride = body.splat(stride)
    return b.mul(value, stride, flags=["nsw"])


def _base(body: Body, array: int) -> ir.Value:
    count = len(body.kernel.arrays)
    if array >= count:
        offset = body.work.buffers[array - count].offset
        return body.once(("buffer", array), lambda b: b.gep(body.own, [i64(offset)], source_etype=I8))
    if array in body.work.private:
        assert body.private is not None
        return body.b.gep(body.private, [body.integer(f"private.{array}")], source_etype=I8)
    return body.pointer(array)


def _stride(body: Body, array: int, axis: int) -> ir.Value | None:
    """In bytes; None where it is 0."""
    count = len(body.kernel.arrays)
    if array >= count:
        return i64(body.work.buffers[array - count].strides[axis])
    if array in body.work.private:
        if axis == body.kernel.arrays[array].rank - 1:
            return i64(body.kernel.arrays[array].dtype.itemsize)
        return body.integer(f"private.{array}.{axis}")
    layout = body.kernel.arrays[array].layout[axis]
    if layout == Stride.ZERO:
        return None
    if layout == Stride.UNIT:
        return i64(body.kernel.arrays[array].dtype.itemsize)
    return body.integer(f"stride.{array}.{axis}")


def _nowhere(body: Body) -> ir.Value:
    """Memory of one vector that holds nothing but zeros: in place of what is outside."""
    name = "nowhere"
    place = body.module.globals.get(name)
    if place is None:
        kind = ir.ArrayType(I8, 8 * 64)
        place = ir.GlobalVariable(body.module, kind, name)
        place.initializer = Text(kind, "zeroinitializer")
        place.linkage = "internal"
        place.global_constant = True
        place.align = 64
    return place


# --- vectors -----------------------------------------------------------------------------------------------


def _reversed(body: Body, vector: ir.Value) -> ir.Value:
    lanes = body.ramp(I32, -1, body.lanes - 1)
    return body.b.shuffle_vector(vector, poison(vector.type), lanes)


def _load_vector(body: Body, at: Access, element: ir.Type) -> ir.Value:
    b = body.b
    vector = ir.VectorType(element, body.lanes)
    size = element_bits(element) // 8
    place, mask = at.base, at.mask
    if at.step == -1:
        place = b.gep(place, [i64(1 - body.lanes)], source_etype=element)
        mask = None if mask is None else _reversed(body, body.mask_value(mask))
    if mask is None:
        loaded = b.load(place, align=size, typ=vector)
    else:
        name = f"llvm.masked.load.{suffix(vector)}.p0"
        loaded = body.vectors.intrinsic(name, vector, place, mask, zero(vector))
    return _reversed(body, loaded) if at.step == -1 else loaded


def _store_vector(body: Body, at: Access, vector: ir.Value, element: ir.Type) -> None:
    b = body.b
    size = element_bits(element) // 8
    place, mask = at.base, at.mask
    if at.step == -1:
        place = b.gep(place, [i64(1 - body.lanes)], source_etype=element)
        mask = None if mask is None else _reversed(body, body.mask_value(mask))
        vector = _reversed(body, vector)
    if mask is None:
        b.store(vector, place, align=size)
    else:
        name = f"llvm.masked.store.{suffix(vector.type)}.p0"
        body.vectors.intrinsic(name, ir.VoidType(), vector, place, mask)


def _offsets(body: Body, at: Access, size: int) -> ir.Value:
    return at.offsets if at.offsets is not None else body.multiples(i64((at.step or 0) * size))


def _gather(body: Body, at: Access, element: ir.Type) -> ir.Value:
    b = body.b
    vector = ir.VectorType(element, body.lanes)
    size = element_bits(element) // 8
    offsets = _offsets(body, at, size)
    if at.mask is None and body.lanes <= MOST_WRITTEN_OUT:
        # Faster than the gather instruction, as in cpu/access.py.
        result = poison(vector)
        for k in range(body.lanes):
            lane = ir.Constant(I32, k)
            place = b.gep(at.base, [b.extract_element(offsets, lane)], source_etype=I8)
            result = b.insert_element(result, b.load(place, align=size, typ=element), lane)
        return result
    if size >= 4:
        places = b.gep(at.base, [offsets], source_etype=I8)
        places.type = ir.VectorType(POINTER, body.lanes)  # llvmlite takes it for a scalar
        name = f"llvm.masked.gather.{suffix(vector)}.v{body.lanes}p0"
        return body.vectors.intrinsic(name, vector, places, body.mask_value(at.mask), zero(vector))
    own = body.temporary(element)
    b.store(zero(vector), own, align=size)

    def move(lane: ir.Value, place: ir.Value) -> None:
        value = b.load(place, align=size, typ=element)
        b.store(value, b.gep(own, [lane], source_etype=element), align=size)

    _each_lane(body, at, size, move)
    return b.load(own, align=size, typ=vector)


def _each_lane(
    body: Body, at: Access, size: int, run: Callable[[ir.Value, ir.Value], None], written_out: bool = False
) -> None:
    """``run(lane, address)`` for the lanes that are there, in their order."""
    b = body.b
    if written_out and at.mask is None and body.lanes <= MOST_WRITTEN_OUT:
        for k in range(body.lanes):
            place = at.base
            if at.offsets is not None:
                place = b.gep(place, [b.extract_element(at.offsets, ir.Constant(I32, k))], source_etype=I8)
            elif at.step:
                place = b.gep(place, [i64(k * at.step * size)], source_etype=I8)
            run(i64(k), place)
        return
    table: ir.Value | None = None
    if at.offsets is not None:
        table = body.temporary(I64, -1)
        b.store(at.offsets, table, align=8)
    bits = body.bits(at.mask)
    kind = bits.type
    before = b.block
    head, one, done = body.new_block("lanes"), body.new_block("lane"), body.new_block("done")
    b.branch(head)
    b.position_at_end(head)
    left = b.phi(kind)
    left.add_incoming(bits, before)
    b.cbranch(b.icmp_unsigned("!=", left, ir.Constant(kind, 0)), one, done)
    b.position_at_end(one)
    lane = b.cttz(left, ir.Constant(I1, 1))
    lane = b.zext(lane, I64) if body.lanes < 64 else lane
    place = at.base
    if table is not None:
        offset = b.load(b.gep(table, [lane], source_etype=I64), align=8, typ=I64)
        place = b.gep(at.base, [offset], source_etype=I8)
    elif at.step:
        place = b.gep(at.base, [b.mul(lane, i64(at.step * size))], source_etype=I8)
    run(lane, place)
    following = b.and_(left, b.sub(left, ir.Constant(kind, 1)))
    left.add_incoming(following, b.block)
    b.branch(head)
    b.position_at_end(done)


def _last_lane(body: Body, mask: Any) -> ir.Value:
    if mask is None:
        return ir.Constant(I32, body.lanes - 1)
    bits = body.bits(mask)
    kind = bits.type
    ahead = body.b.ctlz(bits, ir.Constant(I1, 0))
    last = body.b.sub(ir.Constant(kind, body.lanes - 1), ahead)
    if kind.width < 32:
        return body.b.zext(last, I32)
    return last
