"""Memory that the threads of a block share, where it only stages values that each could compute itself.

What a thread reads from shared memory after a barrier is what the thread whose store meets that place
computed: the same expression at that other position in the block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .affine import (
    ALWAYS,
    NEVER,
    Affine,
    Atom,
    Condition,
    Flag,
    Interval,
    Test,
    Truth,
    atom,
    conjuncts,
    constant,
    decided,
    every,
    mapped,
    some,
)
from .symbolic import NoPoints, Ref, Source, below, mentioned

if TYPE_CHECKING:
    from .threads import Trace


@dataclass(frozen=True, slots=True)
class Staged:
    """A store into shared memory.

    Attributes
    ----------
    indices : tuple of Affine
    path : Condition
    value : Source
    loops : tuple
        The loops that it stands in.
    phase : int
        How many barriers came before it.
    """

    indices: tuple[Affine, ...]
    path: Condition
    value: Source
    loops: tuple[Any, ...]
    phase: int


class Staging:
    """The shared memory of a trace."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.phase = 0
        self.stores: dict[int, list[Staged]] = {}

    def store(self, buffer: int, indices: tuple[Affine, ...], path: Condition, value: Source) -> None:
        """A thread stores a value."""
        self._check_inside(buffer, indices, path)
        loops = tuple(self.trace.nest)
        self.stores.setdefault(buffer, []).append(Staged(indices, path, value, loops, self.phase))

    def load(self, buffer: int, indices: tuple[Affine, ...], path: Condition) -> Source:
        """What a thread reads."""
        self._check_inside(buffer, indices, path)
        stores = self.stores.get(buffer, [])
        if not stores:
            raise NoPoints("it reads shared memory in which nothing was stored")
        nest = self.trace.nest
        for loop in nest:
            if buffer in loop.written and loop not in stores[-1].loops:
                raise NoPoints("it reads what the turn of a loop before left in shared memory")
        found: list[tuple[Condition, Source]] = []
        for staged in reversed(stores):
            if staged.loops != tuple(nest[: len(staged.loops)]):
                raise NoPoints("it reads what a loop left in shared memory")
            if staged.phase == self.phase:
                if staged.indices != indices or staged.path != path:
                    raise NoPoints("threads exchange values without a barrier")
                found.append((ALWAYS, staged.value))
                break
            condition, value = self._moved(staged, indices, path)
            if condition != NEVER:
                found.append((condition, value))
            if condition == ALWAYS:
                break
        if not found:
            raise NoPoints("it reads shared memory in which nothing was stored")
        result = found[-1][1]  # memory in which nothing was stored holds anything
        for condition, value in reversed(found[:-1]):
            same = self._same_load(value, result)
            result = self.trace.select(condition, value, result) if same is None else same
        return result

    # --- positions in the block ----------------------------------------------------------------------------

    def _local(self, axis: int) -> Affine:
        return atom("axis", axis) - self.trace.group(axis) * self.trace.kernel.block[axis]

    def _threads(self, axis: int) -> int:
        return min(self.trace.kernel.block[axis], self.trace.binding.grid[axis])

    def _interval(self, of: Atom) -> Interval:
        return (0, self._threads(of[1]) - 1) if of[0] == "local" else self.trace.interval(of)

    def _localised(self, value: Affine) -> Affine:
        """With the position in the block, and the block, in place of the one in the grid."""
        trace = self.trace
        for axis in range(len(trace.kernel.block)):
            there = atom("local", axis) + trace.group(axis) * trace.kernel.block[axis]
            value = value.replaced(("axis", axis), there)
        return value

    def most(self, value: Affine) -> int:
        """What a whole number is at most."""
        own = value.interval(self.trace.interval)[1]
        return min(own, self._localised(value).interval(self._interval)[1])

    def settled(self, condition: Condition) -> Condition:
        """A condition without what the bounds of blocks tell."""
        parts = []
        for part in conjuncts(condition):
            known = decided(mapped(part, self._localised), self._interval)
            parts.append(known if isinstance(known, Truth) else decided(part, self.trace.interval))
        return every(*parts)

    def _check_inside(self, buffer: int, indices: Sequence[Affine], path: Condition) -> None:
        shape = self.trace.kernel.buffers[buffer - len(self.trace.kernel.arrays)].shape
        known = set(conjuncts(path))
        for index, extent in zip(indices, shape, strict=True):
            inside = self.settled(every(Test("ge", index), Test("ge", constant(extent - 1) - index)))
            if not known.issuperset(conjuncts(inside)) and not self._bounded(index, extent, path):
                raise NoPoints("an index may be outside shared memory")

    def _bounded(self, index: Affine, extent: int, path: Condition) -> bool:
        """Whether conditions on the position in the block keep an index inside."""
        for bound in (index, constant(extent - 1) - index):
            if self.settled(Test("ge", bound)) == ALWAYS:
                continue
            tests = [p for p in conjuncts(path) if isinstance(p, Test) and p.how in ("ge", "eq")]
            if not any(self.settled(Test("ge", bound - p.value)) == ALWAYS for p in tests):
                return False
        return True

    def _moved(self, staged: Staged, indices: Sequence[Affine], path: Condition) -> tuple[Condition, Source]:
        """When a store meets a place, and what it stores there."""
        trace = self.trace
        moves: dict[int, Affine] = {}
        left: list[Test] = []
        for own, index in zip(staged.indices, indices, strict=True):
            axes = [a for a in own.axes if a < trace.kernel.axes]
            if not axes:
                left.append(Test("eq", own - index))
                continue
            (axis, *others) = axes
            if others or axis in moves or (own - self._local(axis)).axes & set(range(trace.kernel.axes)):
                raise NoPoints("a store into shared memory does not tell the thread")
            moves[axis] = index - own
        for part in conjuncts(staged.path):
            if isinstance(part, Test) and part.how == "eq":  # which singles out a thread
                for axis in part.value.axes:
                    place = self._solved(part.value, axis)
                    if axis in moves or place is None:
                        continue
                    here = next((p for d in left if (p := self._solved(d.value, axis)) is not None), None)
                    moves[axis] = place - (self._local(axis) if here is None else here)
        conditions: list[Condition] = list(left)
        for axis in range(trace.kernel.axes):
            count, block, grid = self._threads(axis), trace.kernel.block[axis], trace.binding.grid[axis]
            if axis not in moves:
                if count > 1:
                    raise NoPoints("several threads store the same element of shared memory")
                continue
            place = self._local(axis) + moves[axis]
            conditions += [Test("ge", place), Test("ge", constant(count - 1) - place)]
            if grid % block and grid > block:
                there = atom("axis", axis) + moves[axis]
                conditions.append(Test("ge", constant(grid - 1) - there))
        mover = _Mover(self, moves)
        condition = self.settled(every(*conditions, mover.condition(staged.path)))
        if condition == NEVER:
            return NEVER, staged.value
        mover.path = every(path, condition)
        return condition, mover.source(staged.value)

    def _solved(self, zero: Affine, axis: int) -> Affine | None:
        """The position in the block along an axis, where a whole number of it alone is 0."""
        c = zero.coefficient(("axis", axis))
        if axis >= self.trace.kernel.axes or abs(c) != 1:
            return None
        rest = zero - self._local(axis) * c
        return None if rest.terms else constant(-rest.const * c)

    def _same_load(self, one: Source, other: Source) -> Source | None:
        """The load that two loads of the same element are; None for anything else."""
        trace = self.trace
        if not isinstance(one, Ref) or not isinstance(other, Ref):
            return one if one == other else None
        x, y = trace.nodes[one.node], trace.nodes[other.node]
        if x.op != "load" or y.op != "load" or x.attrs[:2] != y.attrs[:2]:
            return one if one == other else None
        array, indices, path, site = x.attrs
        parts = [dict.fromkeys(conjuncts(p)) for p in (path, y.attrs[2])]
        both = [p for p in parts[0] if p in parts[1]]
        either = some(*(every(*(p for p in own if p not in both)) for own in parts))
        return trace.node("load", x.dtype, (), (array, indices, every(*both, either), site))


class _Mover:
    """Expressions at another position in the block."""

    def __init__(self, staging: Staging, moves: dict[int, Affine]) -> None:
        self.staging = staging
        self.trace = staging.trace
        self.moves = moves
        self.path: Condition = ALWAYS
        self.known: dict[int, Source] = {}
        self.groups = {n for axis in moves for n in mentioned(self.trace.group(axis))}

    def source(self, value: Source) -> Source:
        """A value there."""
        self._nodes(value)
        if isinstance(value, Ref):
            return self.known[value.node]
        return self.affine(value) if isinstance(value, Affine) else self.condition(value)

    def affine(self, value: Affine) -> Affine:
        """A whole number there."""
        self._nodes(value)
        result = constant(value.const)
        for (kind, number), c in value.terms:
            part: Source = atom(kind, number)
            if kind == "axis" and number in self.moves:
                part = atom(kind, number) + self.moves[number]
            elif kind == "node":
                part = self.known[number]
            assert isinstance(part, Affine)
            result = result + part * c
        return result

    def condition(self, condition: Condition) -> Condition:
        """A condition there."""
        self._nodes(condition)
        flags = set(mentioned(condition))
        if any(self.trace.nodes[n].dtype.kind == "b" and self.known[n] != Flag(n) for n in flags):
            raise NoPoints("what is stored in shared memory depends on data")
        return mapped(condition, self.affine)

    def _nodes(self, value: Source) -> None:
        needed: set[int] = set()
        stack = mentioned(value)
        while stack:
            n = stack.pop()
            if n not in needed and n not in self.known:
                needed.add(n)
                if n not in self.groups:
                    stack += below(self.trace.nodes[n])
        for n in sorted(needed):
            self.known[n] = self._node(n)

    def _node(self, n: int) -> Source:
        trace, node = self.trace, self.trace.nodes[n]
        unmoved: Source = trace.named(n)
        if n in self.groups or node.op in ("number", "scalar"):
            return unmoved
        if node.op == "load":
            array, indices, path, site = node.attrs
            moved = tuple(self.affine(i) for i in indices)
            where = self.staging.settled(every(self.path, self.condition(path)))
            return trace.read(array, moved, node.dtype, where, site)
        if node.op in ("phi", "reduce"):
            if trace.phis[n] or node.op == "reduce":
                raise NoPoints("what is stored in shared memory depends on a loop")
            return unmoved
        return trace.primitive(node.op, node.dtype, tuple(self.source(a) for a in node.args), node.attrs)
