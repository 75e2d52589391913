"""One function of a kernel while it is emitted: arguments, loops, and the values known at each depth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from llvmlite import ir

from ..ir import Instr, Kernel, Stride
from . import access, primitives, tiles
from .analysis import Analysis, interleaved_stores
from .constants import POINTER, i64, poison, splat
from .control import Control
from .emitter import I1, I8, I32, I64, Emitter
from .target import Target
from .tuning import TRANSPOSED_LANES, Tuning

# pointers, integers, scalars, begin, end, scratch, thread scratch, status
SIGNATURE = ir.FunctionType(ir.VoidType(), [POINTER, POINTER, POINTER, I64, I64, POINTER, POINTER, POINTER])


@dataclass(slots=True)
class Scope:
    """What is known at one depth of the loops.

    Attributes
    ----------
    env : dict
        Values by instruction.
    pointers : dict
        For each anchor, the address of its element at the axes entered so far and 0 along the rest.
    index : dict
        Position along each axis entered.
    begin : dict
        Where the work at hand begins along each parallel axis; what is stored once for an axis is
        stored where this is 0.
    lane : value or None
        Position of the first lane along the lane axis, once inside the loop over lanes.
    count : value or None
        How many lanes are in range; None where all are.
    """

    env: dict[int, ir.Value] = field(default_factory=dict)
    pointers: dict[int, ir.Value] = field(default_factory=dict)
    index: dict[int, ir.Value] = field(default_factory=dict)
    begin: dict[int, ir.Value] = field(default_factory=dict)
    packed: dict[int, ir.Value] = field(default_factory=dict)
    lane: ir.Value | None = None
    count: ir.Value | None = None
    mask: ir.Value | None = None
    stream: bool = False
    spans: dict[tuple[int, int], ir.Value] = field(default_factory=dict)

    def child(self) -> Scope:
        return replace(
            self,
            env=dict(self.env),
            pointers=dict(self.pointers),
            index=dict(self.index),
            begin=dict(self.begin),
            packed=dict(self.packed),
            spans={},
        )


@dataclass(slots=True)
class Loop:
    """A loop being emitted: its position, the values it carries, and what they become."""

    index: ir.Value
    values: list[ir.Value]
    next: list[ir.Value]


class Nest(Control):
    """Emits one function.

    Parameters
    ----------
    module : llvmlite.ir.Module
    name : str
        Of the function.
    analysis : Analysis
    tuning : Tuning
    target : Target
    integers : dict of str to int
        Position of each integer argument.
    """

    def __init__(
        self,
        module: ir.Module,
        name: str,
        analysis: Analysis,
        tuning: Tuning,
        target: Target,
        integers: dict[str, int],
    ) -> None:
        self.module = module
        self.analysis = analysis
        self.kernel: Kernel = analysis.kernel
        self.tuning = tuning
        self.target = target
        self.lanes = tuning.width
        self.lane_axis = tuning.lane
        # Neighbours of transposed operands lie along this axis: the rows, or, of columns, the reduced one.
        self.packed_axis = tuning.row if tuning.strategy == "elementwise" else self.kernel.parallel
        self.along = analysis.along(tuning.lane)
        self.interleaved = interleaved_stores(self.kernel, dict(tuning.strides))
        self._names = integers
        self.function = ir.Function(module, SIGNATURE, name)
        self.function.attributes.add("nounwind")
        for argument, known in zip(
            self.function.args, ("p", "n", "s", "begin", "end", "scratch", "own", "status"), strict=True
        ):
            argument.name = known
        (
            self.pointers,
            self.integers,
            self.scalars,
            self.begin,
            self.end,
            self.scratch,
            self.own,
            self.status,
        ) = self.function.args
        # Arguments are loaded in the entry block, wherever they are first needed.
        self.entry = ir.IRBuilder(self.new_block("entry"))
        self._start = self.new_block("start")
        self.b = ir.IRBuilder(self._start)
        self._integer: dict[str, ir.Value] = {}
        self._anchors: dict[int, ir.Value] = {}
        self._multiples: dict[ir.Value, ir.Value] = {}
        self._temporaries: dict[str, ir.Value] = {}
        self._scope = Scope()
        self.emitter = Emitter(self.b, module, self.lanes, target, self._fault)
        self._fault_code = 1
        self.tile: tuple[ir.Value, ir.Value] | None = None  # the first row and lane of the unit's tiles
        self.streams = False
        self.root = Scope()

    def finish(self) -> None:
        if self.streams and self.target.architecture == "x86_64":
            fence = self.module.globals.get("llvm.x86.sse.sfence") or ir.Function(
                self.module, ir.FunctionType(ir.VoidType(), []), "llvm.x86.sse.sfence"
            )
            self.b.call(fence, [])
        self.b.ret_void()
        self.entry.branch(self._start)

    # --- arguments -------------------------------------------------------------------------------

    def integer(self, name: str) -> ir.Value:
        if name not in self._integer:
            place = self.entry.gep(self.integers, [i64(self._names[name])], source_etype=I64)
            self._integer[name] = self.entry.load(place, name.replace(".", "_"), typ=I64)
        return self._integer[name]

    def extent(self, axis: int) -> ir.Value:
        return self.integer(f"extent.{axis}")

    def stride(self, anchor: int, axis: int) -> ir.Value:
        """In bytes."""
        layout = self.kernel.accesses[anchor].layout[axis]
        size = self.itemsize(anchor)
        if layout == Stride.ANY:
            constant = self.tuning.stride(anchor) if axis == self.lane_axis else None
            return i64(constant * size) if constant else self.integer(f"stride.{anchor}.{axis}")
        return i64({Stride.ZERO: 0, Stride.UNIT: size, Stride.NEGATIVE: -size}[layout])

    def itemsize(self, access: int) -> int:
        return int(self.kernel.operands[self.kernel.accesses[access].operand].dtype.itemsize)

    def anchor_pointer(self, anchor: int) -> ir.Value:
        if anchor not in self._anchors:
            place = self.entry.gep(self.pointers, [i64(anchor)], source_etype=POINTER)
            self._anchors[anchor] = self.entry.load(place, f"a{anchor}", typ=POINTER)
        return self._anchors[anchor]

    def temporary(self, element: ir.Type) -> ir.Value:
        """Stack space for one vector; its contents last until the next use."""
        key = str(element)
        if key not in self._temporaries:
            place = self.entry.alloca(ir.VectorType(element, self.lanes))
            place.type = POINTER  # llvmlite would type it, and what is derived from it
            self._temporaries[key] = place
        return self._temporaries[key]

    def least_delta(self, anchor: int) -> int:
        """The first element, relative to the anchor, that any load through it reads at index 0."""
        accesses = self.kernel.accesses
        loads = (accesses[i.attrs[0]] for i in self.kernel.body if i.op == "load")
        return min(int(a.delta) for a in loads if a.anchor == anchor)

    # --- control flow -----------------------------------------------------------------------------

    @contextmanager
    def loop(
        self, start: ir.Value, stop: ir.Value, step: ir.Value, carried: Sequence[ir.Value] = ()
    ) -> Iterator[Loop]:
        """``for i in range(start, stop, step)``.

        After it, `values` are what was carried out and `index` is the first position past the end.
        """
        b = self.b
        before = b.block
        head, body, done = self.new_block("head"), self.new_block("body"), self.new_block("done")
        b.branch(head)
        b.position_at_end(head)
        index = b.phi(I64)
        index.add_incoming(start, before)
        phis = []
        for value in carried:
            phi = b.phi(value.type)
            phi.add_incoming(value, before)
            phis.append(phi)
        b.cbranch(b.icmp_signed("<", index, stop), body, done)
        b.position_at_end(body)
        loop = Loop(index, list(phis), list(phis))
        yield loop
        index.add_incoming(b.add(index, step, flags=["nsw"]), b.block)
        for phi, value in zip(phis, loop.next, strict=True):
            phi.add_incoming(value, b.block)
        b.branch(head)
        b.position_at_end(done)
        loop.values = list(phis)

    # --- scopes -------------------------------------------------------------------------------------

    def enter(self, scope: Scope, axis: int, index: ir.Value) -> Scope:
        """The scope at a position along an axis."""
        inside = scope.child()
        inside.index[axis] = index
        inside.begin[axis] = index
        for anchor, pointer in scope.pointers.items():
            layout = self.kernel.accesses[anchor].layout[axis]
            if layout != Stride.ZERO:
                step = self.b.mul(index, self.stride(anchor, axis), flags=["nsw"])
                inside.pointers[anchor] = self.b.gep(pointer, [step], source_etype=I8)
        if axis == self.packed_axis:
            for a, pointer in scope.packed.items():
                step = self.b.mul(index, i64(TRANSPOSED_LANES * self.itemsize(a)), flags=["nsw"])
                inside.packed[a] = self.b.gep(pointer, [step], source_etype=I8)
        return inside

    def enter_all(self, scope: Scope, axes: Sequence[int], position: ir.Value) -> Scope:
        """The scope at a position in the row-major product of axes."""
        b = self.b
        left = position
        index: dict[int, ir.Value] = {}
        for axis in reversed(axes[1:]):
            extent = self.extent(axis)
            above = b.udiv(left, extent)
            index[axis] = b.sub(left, b.mul(above, extent))
            left = above
        if axes:
            index[axes[0]] = left
        for axis in axes:
            scope = self.enter(scope, axis, index[axis])
        return scope

    def at_lanes(self, scope: Scope, lane: ir.Value, count: ir.Value | None) -> Scope:
        """The scope of the lanes from `lane` on: `count` of them, or all."""
        inside = scope.child()
        inside.lane = inside.begin[self.lane_axis] = lane
        inside.count = count
        inside.mask = None if count is None else self.lane_mask(count)
        return inside

    def side_by_side(
        self, scope: Scope, lane: ir.Value, vectors: int, stop: ir.Value | None = None
    ) -> list[Scope]:
        """The scopes of several vectors from a position on, of which only the lanes before `stop` count."""
        b = self.b
        scopes = []
        for k in range(vectors):
            first = b.add(lane, i64(k * self.lanes)) if k else lane
            count = None
            if stop is not None:
                count = self.minimum(b.sub(stop, first), i64(self.lanes))
                count = self.maximum(count, i64(0)) if k else count
            scopes.append(self.at_lanes(scope, first, count))
        return scopes

    def lane_mask(self, count: ir.Value, from_end: bool = False) -> ir.Value:
        """The first (or last) `count` of at most 64 lanes."""
        b = self.b
        if from_end:
            bits = b.shl(i64(-1), b.sub(i64(self.lanes), count))
        else:
            bits = b.lshr(i64(-1), b.sub(i64(64), count))
        # A shift by all 64 bits has no result.
        bits = b.select(b.icmp_signed("==", count, i64(0)), i64(0), bits)
        if self.lanes < 64:
            bits = b.trunc(bits, ir.IntType(self.lanes))
        return b.bitcast(bits, ir.VectorType(I1, self.lanes))

    def start(self, accesses: Sequence[int]) -> Scope:
        """The outermost scope, with the pointers that the accesses need."""
        self.root.pointers = {
            anchor: self.anchor_pointer(anchor)
            for anchor in sorted({self.kernel.accesses[a].anchor for a in accesses})
        }
        return self.root

    # --- values ------------------------------------------------------------------------------------------

    def splat(self, scalar: ir.Value) -> ir.Value:
        """A scalar in every lane."""
        if isinstance(scalar, ir.Constant):
            return splat(scalar, self.lanes)
        vector = ir.VectorType(scalar.type, self.lanes)
        one = self.b.insert_element(poison(vector), scalar, ir.Constant(I32, 0))
        return self.shuffle(one, [0] * self.lanes)

    def multiples(self, step: ir.Value) -> ir.Value:
        """0, step, 2 step, … of an argument or constant, computed once."""
        if step not in self._multiples:
            b, self.b = self.b, self.entry
            self._multiples[step] = self.b.mul(self.splat(step), self.iota())
            self.b = b
        return self._multiples[step]

    def iota(self, element: ir.Type = I64) -> ir.Constant:
        return ir.Constant(ir.VectorType(element, self.lanes), list(range(self.lanes)))

    def shuffle(self, vector: ir.Value, indices: Sequence[int], other: ir.Value | None = None) -> ir.Value:
        """The lanes of a vector, followed by those of another, at constant indices."""
        of = ir.VectorType(I32, len(indices))
        mask = ir.Constant(of, list(indices))
        return self.b.shuffle_vector(vector, other or poison(vector.type), mask)

    def emit(self, scopes: Sequence[Scope], instructions: Sequence[int]) -> None:
        """Emit instructions in one or several scopes side by side: all loads come before the first store."""
        body = self.kernel.body
        stores = []
        for n in instructions:
            if body[n].op == "store":
                stores.append(n)
                continue
            for scope in scopes:
                if n not in scope.env:
                    scope.env[n] = self._value(scope, body[n])
        together = [group for group in self.interleaved.values() if all(n in stores for n in group)]
        for scope in scopes:
            for group in together:
                values = [scope.env[body[n].args[0]] for n in group]
                access.store_interleaved(self, scope, [body[n].attrs[0] for n in group], values)
            for n in stores:
                if not any(n in group for group in together):
                    self._store(scope, body[n])

    def _value(self, scope: Scope, instr: Instr) -> ir.Value:
        match instr.op:
            case "load":
                return access.load(self, scope, instr.attrs[0])
            case "gather":
                return access.gather(self, scope, instr)
            case "scalar":
                return self._scalar(instr)
            case "const":
                return self.constant(instr.attrs[0], instr.dtype)
            case "index":
                return self._position(scope, instr.attrs[0])
            case "shift":
                return tiles.load(self, scope, instr)
        args = [scope.env[a] for a in instr.args]
        return self.primitive(
            scope, instr.op, instr.dtype, args, [self.kernel.body[a].dtype for a in instr.args], instr.attrs
        )

    def primitive(
        self,
        scope: Scope,
        op: str,
        dtype: np.dtype[Any],
        args: list[ir.Value],
        dtypes: list[np.dtype[Any]],
        attrs: tuple[Any, ...] = (),
    ) -> ir.Value:
        self._scope = scope
        if op == "wrap_index" and attrs:
            self._fault_code = 1 + attrs[0]
        value = primitives.emit(self.emitter, op, dtype, args, dtypes, attrs)
        if self.tuning.contract and op in ("add", "sub", "mul") and value.opname in ("fadd", "fsub", "fmul"):
            value.flags = ["contract"]
        return value

    def _scalar(self, instr: Instr) -> ir.Value:
        element = primitives.memory_type(instr.dtype)
        place = self.b.gep(self.scalars, [i64(instr.attrs[0])], source_etype=I64)
        return self.from_memory(self.splat(self.b.load(place, typ=element)), instr.dtype)

    def constant(self, value: Any, dtype: np.dtype[Any]) -> ir.Value:
        """A constant in every lane."""
        element = primitives.memory_type(dtype)
        bits = int(np.asarray(value, dtype).view(f"u{dtype.itemsize}"))
        vector = self.splat(ir.Constant(ir.IntType(8 * dtype.itemsize), bits))
        if not isinstance(element, ir.IntType):
            vector = self.b.bitcast(vector, ir.VectorType(element, self.lanes))
        return self.from_memory(vector, dtype)

    def from_memory(self, vector: ir.Value, dtype: np.dtype[Any]) -> ir.Value:
        return primitives.from_memory(self.b, vector, dtype, self.lanes)

    def to_memory(self, vector: ir.Value, dtype: np.dtype[Any]) -> ir.Value:
        return primitives.to_memory(self.b, vector, dtype, self.lanes)

    def _position(self, scope: Scope, axis: int) -> ir.Value:
        if axis == self.lane_axis and scope.lane is not None:
            return self.b.add(self.splat(scope.lane), self.iota())
        return self.splat(scope.index[axis])

    def _store(self, scope: Scope, instr: Instr) -> None:
        a = instr.attrs[0]
        condition: ir.Value | None = None
        for axis in range(self.kernel.parallel):
            if self.kernel.accesses[a].layout[axis] == Stride.ZERO:
                first = self.b.icmp_signed("==", scope.begin[axis], i64(0))
                condition = first if condition is None else self.b.and_(condition, first)
        with self.when(condition):
            access.store(self, scope, a, scope.env[instr.args[0]])

    def _fault(self, condition: ir.Value, value: ir.Value) -> None:
        """Report the first lane in range for which the condition holds."""
        b = self.b
        if self._scope.mask is not None:
            condition = b.and_(condition, self._scope.mask)
        bits = b.bitcast(condition, ir.IntType(self.lanes))
        bad = b.icmp_unsigned("!=", bits, ir.Constant(bits.type, 0))
        fresh = b.icmp_signed("==", b.load(self.status, typ=I64), i64(0))
        with self.when(b.and_(bad, fresh)):
            lane = b.cttz(bits, ir.Constant(I1, 1))
            lane = b.zext(lane, I64) if self.lanes < 64 else lane
            # The second word is the value at fault.
            b.store(i64(self._fault_code), self.status)
            place = b.gep(self.status, [i64(1)], source_etype=I64)
            b.store(b.extract_element(value, lane), place)
