"""LLVM code of a structured kernel: one function, with its arguments, masks and values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from llvmlite import ir

from ...ir import Dtype
from ...structured import Let
from .. import primitives
from ..constants import POINTER, i64, poison, splat, zero
from ..control import Control
from ..emitter import I1, I32, I64, Emitter, Text
from ..nest import SIGNATURE
from ..target import Target
from . import access as structured_access
from .lanes import Variation
from .work import Work

Key = Any  # a variable's number, "gone", or ("live", number of a loop)


class _Empty:
    """The mask where no lane is left."""


EMPTY = _Empty()


@dataclass(slots=True)
class State:
    """What control flow merges: the variables, and the lanes that are here (None for all)."""

    variables: dict[Key, ir.Value] = field(default_factory=dict)
    mask: Any = None

    def copy(self) -> State:
        return State(dict(self.variables), self.mask)


Edge = tuple[ir.Block, State]


class Body(Control):
    """Emits one function of a kernel.

    Parameters
    ----------
    module : ir.Module
    name : str
    found : Variation
    work : Work
        Has the positions of the integer arguments, and where buffers lie.
    lanes : int
        Of a vector.
    target : Target
    contract : bool
        Whether a multiplication and an addition may round once, together.
    proven : frozenset of int
        The sites that need no check.
    """

    def __init__(
        self,
        module: ir.Module,
        name: str,
        found: Variation,
        work: Work,
        lanes: int,
        target: Target,
        contract: bool,
        proven: frozenset[int],
    ) -> None:
        self.module = module
        self.found = found
        self.kernel = found.kernel
        self.work = work
        self.lanes = lanes
        self.contract = contract
        self.proven = proven
        self.function = ir.Function(module, SIGNATURE, name)
        self.function.attributes.add("nounwind")
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
        self.entry = ir.IRBuilder(self.new_block("entry"))
        self._start = self.new_block("start")
        self.b = ir.IRBuilder(self._start)
        self.vectors = Emitter(self.b, module, lanes, target)
        self.single = Emitter(self.b, module, 1, target)
        self.plain = Emitter(self.b, module, 0, target)
        self.state = State()
        self.env: dict[int, ir.Value] = {}
        self._ramps: dict[tuple[ir.Type, int, int], ir.Constant] = {}
        self.known: dict[Any, Any] = {}  # values by how they are made, and checks
        self._arguments: dict[tuple[str, Any], ir.Value] = {}
        # Where a whole vector is begun again, with masks, when its lanes part or an index is outside; None
        # once something was done that cannot be done again.
        self.again: ir.Block | None = None
        self.span_lane: int | None = None
        self.lane: ir.Value = i64(0)
        self.ids: dict[int, ir.Value] = {}
        self.private: ir.Value | None = None  # the copies of this piece

    @property
    def alone(self) -> bool:
        """Whether what is emitted is run by one thread, not by the lanes of a vector."""
        return self.found.scalar or (self.found.lane < 0 and self.span_lane is None)

    def finish(self) -> None:
        self.b.ret_void()
        self.entry.branch(self._start)

    # --- arguments, loaded in the entry block ------------------------------------------------------------

    def _argument(self, kind: str, key: Any, make: Callable[[ir.IRBuilder], ir.Value]) -> ir.Value:
        value = self._arguments.get((kind, key))
        if value is None:
            value = self._arguments[kind, key] = make(self.entry)
        return value

    def integer(self, name: str) -> ir.Value:
        place = self.work.integers[name]

        def make(b: ir.IRBuilder) -> ir.Value:
            return b.load(b.gep(self.integers, [i64(place)], source_etype=I64), typ=I64)

        return self._argument("integer", name, make)

    def pointer(self, array: int) -> ir.Value:
        def make(b: ir.IRBuilder) -> ir.Value:
            return b.load(b.gep(self.pointers, [i64(array)], source_etype=POINTER), typ=POINTER)

        return self._argument("pointer", array, make)

    def once(self, key: Any, make: Callable[[ir.IRBuilder], ir.Value]) -> ir.Value:
        """Something that depends on arguments alone."""
        return self._argument("once", key, make)

    def temporary(self, element: ir.Type, number: int = 0) -> ir.Value:
        """Stack space for one vector; its contents last until the next use."""

        def make(b: ir.IRBuilder) -> ir.Value:
            place = b.alloca(ir.VectorType(element, max(self.lanes, 1)))
            place.type = POINTER  # llvmlite would type it, and what is derived from it
            return place

        return self._argument("temporary", (str(element), number), make)

    # --- blocks ------------------------------------------------------------------------------------------

    @contextmanager
    def loop(self, start: ir.Value, stop: ir.Value, step: ir.Value) -> Iterator[ir.Value]:
        """``for i in range(start, stop, step)``, of code that leaves no variables."""
        b = self.b
        before = b.block
        head, body, done = self.new_block("head"), self.new_block("body"), self.new_block("done")
        b.branch(head)
        b.position_at_end(head)
        index = b.phi(I64)
        index.add_incoming(start, before)
        b.cbranch(b.icmp_signed("<", index, stop), body, done)
        b.position_at_end(body)
        yield index
        index.add_incoming(b.add(index, step, flags=["nsw"]), b.block)
        b.branch(head)
        b.position_at_end(done)

    def join(self, target: ir.Block, edges: Sequence[Edge]) -> None:
        """Go on in a block that the edges branch to."""
        b = self.b
        b.position_at_end(target)
        if len(edges) == 1:
            self.state = edges[0][1].copy()
            return
        merged = State()
        keys = dict.fromkeys(key for _, state in edges for key in state.variables)
        for key in keys:
            values = [state.variables.get(key) for _, state in edges]
            merged.variables[key] = self._phi([block for block, _ in edges], values)
        masks = [state.mask for _, state in edges]
        if all(mask is masks[0] for mask in masks):
            merged.mask = masks[0]
        else:
            merged.mask = self._phi([block for block, _ in edges], [self.mask_value(mask) for mask in masks])
        self.state = merged

    def _phi(self, blocks: Sequence[ir.Block], values: Sequence[ir.Value | None]) -> ir.Value:
        known = next(value for value in values if value is not None)
        if all(value is known for value in values):
            return known
        phi = self.b.phi(known.type)
        for block, value in zip(blocks, values, strict=True):
            phi.add_incoming(poison(known.type) if value is None else value, block)
        return phi

    # --- masks -------------------------------------------------------------------------------------------

    def mask_value(self, mask: Any) -> ir.Value:
        kind = ir.VectorType(I1, self.lanes)
        if mask is None:
            return splat(ir.Constant(I1, 1), self.lanes)
        return zero(kind) if mask is EMPTY else mask

    def both(self, x: Any, y: Any) -> Any:
        if x is EMPTY or y is EMPTY:
            return EMPTY
        return y if x is None else x if y is None else self.b.and_(x, y)

    def either(self, x: Any, y: Any) -> Any:
        if x is None or y is None:
            return None
        return y if x is EMPTY else x if y is EMPTY else self.b.or_(x, y)

    def without(self, x: Any, y: Any) -> Any:
        """The lanes of x that are not in y."""
        if y is EMPTY or x is EMPTY:
            return x
        if y is None:
            return EMPTY
        return self.both(x, self.b.xor(y, splat(ir.Constant(I1, 1), self.lanes)))

    def bits(self, mask: Any) -> ir.Value:
        return self.b.bitcast(self.mask_value(mask), ir.IntType(self.lanes))

    def any(self, mask: Any) -> ir.Value:
        bits = self.bits(mask)
        return self.b.icmp_unsigned("!=", bits, ir.Constant(bits.type, 0))

    def first_lanes(self, count: ir.Value) -> ir.Value:
        """The mask of so many lanes, at least 0."""
        return self.lanes_compared("<", count)

    def lanes_compared(self, how: str, distance: ir.Value) -> ir.Value:
        """``lane <how> distance`` for an int64 distance."""
        b = self.b
        kind = I32 if self.lanes <= 16 else ir.IntType(16)
        distance = self.maximum(self.minimum(distance, i64(self.lanes)), i64(-1))
        lanes = self.ramp(kind, 1)
        return b.icmp_signed(how, lanes, self.splat(b.trunc(distance, kind)))

    # --- values ------------------------------------------------------------------------------------------

    def splat(self, scalar: ir.Value) -> ir.Value:
        """A scalar in every lane."""
        if isinstance(scalar, ir.Constant):
            return splat(scalar, self.lanes)
        vector = ir.VectorType(scalar.type, self.lanes)
        one = self.b.insert_element(poison(vector), scalar, ir.Constant(I32, 0))
        mask = self.ramp(I32, 0)
        return self.b.shuffle_vector(one, poison(vector), mask)

    def ramp(self, kind: ir.Type, step: int, start: int = 0) -> ir.Constant:
        """A constant that grows from lane to lane; kept, since llvmlite takes long to write it."""
        made = self._ramps.get((kind, step, start))
        if made is None:
            numbers = [start + step * k for k in range(self.lanes)]
            made = self._ramps[kind, step, start] = ir.Constant(ir.VectorType(kind, self.lanes), numbers)
        return made

    def multiples(self, step: ir.Value) -> ir.Value:
        """0, step, 2 step, … in the lanes."""
        lanes = self.ramp(I64, 1)
        return self.b.mul(self.splat(step), lanes)

    def scalar(self, value: int) -> ir.Value:
        """A uniform value, or the first lane of one that grows from lane to lane."""
        return self.env[value]

    def vector(self, value: int) -> ir.Value:
        """A value in every lane."""
        step = self.found.step(value)
        if step is None:
            return self.env[value]
        key = ("spread", id(self.env[value]), step)
        made = self.known.get(key)
        if made is None:
            made = self.known[key] = self.spread(self.env[value], step)
        return made

    def spread(self, first: ir.Value, step: int) -> ir.Value:
        if step == 0:
            return self.splat(first)
        return self.b.add(self.splat(first), self.ramp(first.type, step))

    def kind(self, dtype: Dtype, step: int | None) -> ir.Type:
        element = primitives.register_type(dtype)
        return ir.VectorType(element, self.lanes) if step is None else element

    @contextmanager
    def scope(self) -> Iterator[None]:
        """What is made inside is not known after."""
        env, known = self.env, self.known
        self.env, self.known = dict(env), dict(known)
        yield
        self.env, self.known = env, known

    # --- values of Let -----------------------------------------------------------------------------------

    def let(self, let: Let) -> ir.Value:
        found = self.found
        match let.op:
            case "global_id":
                return self.lane if let.attrs[0] == found.lane else self.ids[let.attrs[0]]
            case "local_id" | "group_id":
                return self._in_block(let)
            case "global_size":
                return self.integer(f"grid.{let.attrs[0]}")
            case "block_size":
                return i64(self.kernel.block[let.attrs[0]] if self.kernel.block else 1)
            case "scalar":
                return self._scalar_argument(let)
            case "const":
                return self.constant(let.attrs[0], let.dtype)
            case "extent":
                return self.extent(*let.attrs)
            case "get":
                variable = let.attrs[0]
                value = self.state.variables.get(variable)
                kind = self.kind(self.kernel.variables[variable], found.variables.get(variable, 0))
                return poison(kind) if value is None else value
            case "load":
                return structured_access.load(self, let)
            case "call":
                return structured_access.call(self, let)
        dtypes = [found.dtypes[a] for a in let.args]
        step = found.step(let.value)
        if step is not None:
            return self.uniform(let.op, let.dtype, [self.scalar(a) for a in let.args], dtypes, let.attrs)
        compared = self._compared(let, dtypes)
        if compared is not None:
            return compared
        args = [self.vector(a) for a in let.args]
        return self._flagged(
            primitives.emit(self.vectors, let.op, let.dtype, args, dtypes, let.attrs), let.op
        )

    def _flagged(self, value: ir.Value, op: str) -> ir.Value:
        if (
            self.contract
            and op in ("add", "sub", "mul")
            and getattr(value, "opname", "") in ("fadd", "fsub", "fmul")
        ):
            value.flags = ["contract"]
        return value

    def uniform(
        self,
        op: str,
        dtype: Dtype,
        args: Sequence[ir.Value],
        dtypes: Sequence[Dtype],
        attrs: tuple[Any, ...] = (),
    ) -> ir.Value:
        """A primitive of scalars."""
        if primitives.takes_scalars(op):
            return self._flagged(primitives.emit(self.plain, op, dtype, args, dtypes, attrs), op)
        b, lane = self.b, ir.Constant(I32, 0)
        vectors = [b.insert_element(poison(ir.VectorType(a.type, 1)), a, lane) for a in args]
        return b.extract_element(primitives.emit(self.single, op, dtype, vectors, dtypes, attrs), lane)

    def _compared(self, let: Let, dtypes: Sequence[Dtype]) -> ir.Value | None:
        """A comparison of what grows by one from lane to lane with what is uniform."""
        if let.op not in ("lt", "le") or dtypes[0] != np.int64:
            return None
        x, y = let.args
        steps = self.found.step(x), self.found.step(y)
        if steps not in ((1, 0), (0, 1)):
            return None
        first, bound = (x, y) if steps[0] else (y, x)
        signs = ("<", "<=") if steps[0] else (">", ">=")
        distance = self.plain.intrinsic("llvm.ssub.sat.i64", I64, self.scalar(bound), self.scalar(first))
        return self.lanes_compared(signs[let.op == "le"], distance)

    def _in_block(self, let: Let) -> ir.Value:
        b, axis, found = self.b, let.attrs[0], self.found
        if found.lane < 0:  # blocks of one thread
            return self.ids[axis] if let.op == "group_id" else i64(0)
        size = i64(self.kernel.block[axis] if self.kernel.block else 1)
        divide = b.udiv if let.op == "group_id" else b.urem
        if axis == found.lane and not found.scalar:
            return divide(self.spread(self.lane, 1), self.splat(size))
        return divide(self.lane if axis == found.lane else self.ids[axis], size)

    def _scalar_argument(self, let: Let) -> ir.Value:
        def make(b: ir.IRBuilder) -> ir.Value:
            place = b.gep(self.scalars, [i64(let.attrs[0])], source_etype=I64)
            return primitives.from_memory(
                b, b.load(place, typ=primitives.memory_type(let.dtype)), let.dtype, 0
            )

        return self._argument("scalar", let.attrs[0], make)

    def constant(self, number: Any, dtype: Dtype) -> ir.Value:
        element = primitives.register_type(dtype)
        if isinstance(element, ir.IntType):
            number = int(np.asarray(number).astype(dtype))
            return ir.Constant(element, number)
        return Text(element, element.format_constant(float(np.asarray(number, dtype))))

    def extent(self, array: int, axis: int) -> ir.Value:
        """The size of an array or buffer along an axis."""
        if array < len(self.kernel.arrays):
            return self.integer(f"extent.{array}.{axis}")
        return i64(self.kernel.buffers[array - len(self.kernel.arrays)].shape[axis])
