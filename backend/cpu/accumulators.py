"""Reductions: the accumulators that a pass carries."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from . import primitives
from .constants import i64, zero
from .emitter import Emitter
from .nest import Nest, Scope
from .passes import block_dtype, state_dtypes

# Elements taken into one accumulator before it is set aside and a new one begun. It keeps long float32 sums
# accurate, and exact as long as every partial sum is an integer below 2**24.
BLOCK = 64

# The position of no element.
NOWHERE = i64(2**63 - 1)


class Accumulator:
    """The running state of a reduction, lane by lane: a vector, or value and position for argmax, argmin."""

    def __init__(self, nest: Nest, reduce: int) -> None:
        body = nest.kernel.body
        self.nest = nest
        self.instr = body[reduce]
        self.how: str = self.instr.attrs[0]
        self.arg = self.instr.args[0]
        self.source = body[self.arg].dtype
        self.dtypes = state_dtypes(nest.kernel, reduce)
        self.dtype = self.dtypes[0]
        self.block_dtype = self.dtype if len(self.dtypes) > 1 else block_dtype(nest.kernel, reduce)
        self.positions = len(self.dtypes) > 1

    @property
    def parts(self) -> int:
        return len(self.dtypes)

    def identity(self, block: bool = False) -> list[ir.Value]:
        """The state before the first element, or before the first of a block."""
        how = {"argmax": "max", "argmin": "min"}.get(self.how, self.how)
        dtype = self.block_dtype if block else self.dtype
        value = self.nest.constant(primitives.reduce_identity(how, dtype), dtype)
        if not self.positions:
            return [value]
        return [value, self.nest.splat(NOWHERE)]

    def step(self, scope: Scope, state: Sequence[ir.Value], position: ir.Value | None) -> list[ir.Value]:
        """Take the next element of the lanes in range into the state of a block."""
        nest, b = self.nest, self.nest.b
        value = scope.env[self.arg]
        if self.block_dtype != self.source:
            value = nest.primitive(scope, "cast", self.block_dtype, [value], [self.source])
        if scope.mask is not None:
            value = b.select(scope.mask, value, self.identity(block=True)[0])
        if not self.positions:
            return [primitives.combine(nest.emitter, self.how, state[0], value, self.block_dtype)]
        better = self._better(value, state[0])
        return [b.select(better, value, state[0]), b.select(better, position, state[1])]

    def merge(
        self, x: Sequence[ir.Value], y: Sequence[ir.Value], emitter: Emitter | None = None
    ) -> list[ir.Value]:
        """The state of both, in the dtype of the first; of equals the smaller position."""
        b = self.nest.b
        if not self.positions:
            (old,), (new,) = x, y
            dtype = self.block_dtype
            if self.block_dtype != self.dtype and isinstance(old.type.element, ir.DoubleType):
                dtype = self.dtype
                if old.type != new.type:
                    new = b.fpext(new, old.type)
            return [primitives.combine(emitter or self.nest.emitter, self.how, old, new, dtype)]
        earlier = b.icmp_signed("<", y[1], x[1])
        tie = b.not_(b.or_(self._better(x[0], y[0]), self._better(y[0], x[0])))
        take = b.or_(self._better(y[0], x[0]), b.and_(tie, earlier))
        return [b.select(take, new, old) for new, old in zip(y, x, strict=True)]

    def across(self, state: Sequence[ir.Value]) -> list[ir.Value]:
        """The state of all lanes together, in every lane."""
        nest = self.nest
        parts = list(state)
        lanes = nest.lanes
        # Halves of vectors rather than shuffles within them: half the work in each round.
        while lanes > 1:
            half = lanes // 2
            emitter = Emitter(nest.b, nest.module, half, nest.target)
            low = [nest.shuffle(p, range(half)) for p in parts]
            high = [nest.shuffle(p, range(half, lanes)) for p in parts]
            parts = self.merge(low, high, emitter)
            lanes = half
        return [nest.shuffle(p, [0] * nest.lanes) for p in parts]

    def result(self, scope: Scope, state: Sequence[ir.Value]) -> ir.Value:
        """The reduced value in the dtype of the instruction."""
        if self.positions:
            # Where nothing beat the identity, all elements equal it.
            b, nowhere = self.nest.b, self.nest.splat(NOWHERE)
            return b.select(b.icmp_signed("==", state[1], nowhere), zero(nowhere.type), state[1])
        if self.dtype != self.source:
            return self.nest.primitive(scope, "cast", self.source, [state[0]], [self.dtype])
        return state[0]

    def _better(self, x: ir.Value, y: ir.Value) -> ir.Value:
        """Where x beats y; NaN beats every number."""
        b = self.nest.b
        sign = ">" if self.how == "argmax" else "<"
        if self.dtype.kind == "f":
            return b.and_(b.fcmp_unordered(sign, x, y), b.fcmp_ordered("ord", y, y))
        if self.dtype.kind == "u":
            return b.icmp_unsigned(sign, x, y)
        return b.icmp_signed(sign, x, y)


class States:
    """The accumulators of one pass, carried through loops as one flat list of values."""

    def __init__(self, nest: Nest, reduces: Sequence[int]) -> None:
        self.reduces = reduces
        self.accumulators = [Accumulator(nest, r) for r in reduces]

    @property
    def positions(self) -> bool:
        return any(a.positions for a in self.accumulators)

    def identity(self, block: bool = False) -> list[ir.Value]:
        return [v for a in self.accumulators for v in a.identity(block)]

    def split(self, flat: Sequence[ir.Value]) -> list[Sequence[ir.Value]]:
        result = []
        start = 0
        for a in self.accumulators:
            result.append(flat[start : start + a.parts])
            start += a.parts
        return result

    def step(self, scope: Scope, flat: Sequence[ir.Value], position: ir.Value | None) -> list[ir.Value]:
        states = zip(self.accumulators, self.split(flat), strict=True)
        return [v for a, state in states for v in a.step(scope, state, position)]

    def merge(self, x: Sequence[ir.Value], y: Sequence[ir.Value]) -> list[ir.Value]:
        states = zip(self.accumulators, self.split(x), self.split(y), strict=True)
        return [v for a, p, q in states for v in a.merge(p, q)]

    def across(self, flat: Sequence[ir.Value]) -> list[ir.Value]:
        states = zip(self.accumulators, self.split(flat), strict=True)
        return [v for a, state in states for v in a.across(state)]

    def finish(self, scope: Scope, flat: Sequence[ir.Value]) -> None:
        """Put the reduced values into the scope."""
        for r, a, state in zip(self.reduces, self.accumulators, self.split(flat), strict=True):
            scope.env[r] = a.result(scope, state)


def accumulate(
    nest: Nest,
    states: States,
    within: tuple[ir.Value, ir.Value],
    carried: Sequence[Sequence[ir.Value]],
    body: Callable[[ir.Value, list[list[ir.Value]]], list[list[ir.Value]]],
    innermost: bool,
) -> list[list[ir.Value]]:
    """A loop along a reduced axis that carries some states, in blocks that begin from fresh ones.

    The body of the innermost loop takes single elements into them.
    """
    start, stop = within
    if not states.reduces:
        with nest.loop(start, stop, i64(1)) as loop:
            body(loop.index, [[] for _ in carried])
        return [[] for _ in carried]
    flat = [v for state in carried for v in state]
    with nest.loop(start, stop, i64(BLOCK), flat) as blocks:
        end = nest.minimum(nest.b.add(blocks.index, i64(BLOCK)), stop)
        fresh = [v for _ in carried for v in states.identity(innermost)]
        with nest.loop(blocks.index, end, i64(1), fresh) as loop:
            loop.next = [v for state in body(loop.index, regroup(loop.values, carried)) for v in state]
        merged = zip(regroup(blocks.values, carried), regroup(loop.values, carried), strict=True)
        blocks.next = [v for old, new in merged for v in states.merge(old, new)]
    return regroup(blocks.values, carried)


def regroup(values: Sequence[ir.Value], like: Sequence[Sequence[ir.Value]]) -> list[list[ir.Value]]:
    """Cut a flat list into lists as long as those of `like`."""
    result = []
    start = 0
    for group in like:
        result.append(list(values[start : start + len(group)]))
        start += len(group)
    return result


def position(nest: Nest, scope: Scope) -> ir.Value:
    """Of each lane in the row-major order of the reduced axes."""
    b = nest.b
    if nest.lane_axis < nest.kernel.parallel:
        base: ir.Value = i64(0)
        for axis in range(nest.kernel.parallel, nest.kernel.rank):
            base = b.add(b.mul(base, nest.extent(axis)), scope.index[axis])
        return nest.splat(base)
    base, step = i64(0), i64(0)
    for axis in range(nest.kernel.parallel, nest.kernel.rank):
        base = b.mul(base, nest.extent(axis))
        step = b.mul(step, nest.extent(axis))
        if axis == nest.lane_axis:
            assert scope.lane is not None
            base, step = b.add(base, scope.lane), i64(1)
        else:
            base = b.add(base, scope.index[axis])
    return b.add(nest.splat(base), b.mul(nest.splat(step), nest.iota()))
