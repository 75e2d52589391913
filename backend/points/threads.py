"""What every thread of a structured kernel computes and stores, as expressions of its position.

The text is gone through once for all threads, with the sizes of a launch: both ways of an ``if`` under their
conditions, loops of few turns turn by turn. A longer loop becomes an axis of its own, over which what a
variable gathers up is a reduction. What cannot be said in this way (`NoPoints`) other code has to run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from .. import structured as s
from ..ir import Dtype
from .accumulation import gathered
from .affine import (
    ALWAYS,
    NEVER,
    Affine,
    Condition,
    Test,
    Truth,
    atom,
    conjuncts,
    constant,
    decided,
    every,
    negated,
)
from .staging import Staging
from .symbolic import INT64, INT64_BOUNDS, LARGEST, Expressions, NoPoints, Ref, Source, mentioned


@dataclass(frozen=True, slots=True)
class Write:
    """A store: by every thread for which `path` holds, at every point of the loops `nest`."""

    array: int
    indices: tuple[Affine, ...]
    nest: tuple[int, ...]
    path: Condition
    value: Source
    site: int


_Element = tuple[int, tuple[Affine, ...]]  # array and indices


@dataclass(slots=True, eq=False)
class _Loop:
    """A loop that is an axis, while its body is gone through.

    Attributes
    ----------
    axis : int
    path : Condition
        Under which the loop is run.
    written : frozenset of int
        The arrays that its body writes.
    elements : dict
        Those that every turn meets: the value when a turn begins and before the loop, its phi and the site.
    """

    axis: int
    path: Condition
    written: frozenset[int]
    elements: dict[_Element, tuple[Source, Source, int, int]]


_UNKNOWN = object()  # what a variable holds that a loop left behind


class Trace(Expressions):
    """The expressions of a kernel.

    Parameters
    ----------
    kernel : StructuredKernel
    binding : StructuredBinding
    unroll : int
        Loops of no more turns are gone through turn by turn.
    """

    def __init__(self, kernel: s.StructuredKernel, binding: s.StructuredBinding, unroll: int) -> None:
        super().__init__(list(binding.grid))
        self.kernel = kernel
        self.binding = binding
        self.unroll = unroll
        self.unrolled = False  # whether there was a loop of so few turns
        self.writes: list[Write] = []
        self.loads: dict[int, set[tuple[Affine, ...]]] = {}
        self._values: dict[int, Source] = {}
        self._variables: list[Any] = [None] * len(kernel.variables)
        self._written: dict[int, dict[tuple[Affine, ...], list[tuple[Condition, Source]]]] = {}
        self.nest: list[_Loop] = []
        self._elements: dict[_Element, Source] = {}  # what those that every turn meets hold now
        self._turns = 0  # how many loops are gone through turn by turn at the moment
        self._loops: dict[tuple[int, int], int] = {}
        self._phi_count = 0
        self._groups: dict[int, Affine] = {}
        self.staging = Staging(self)

    def run(self) -> Trace:
        """Go through the text.

        Raises
        ------
        NoPoints
        """
        self._block(self.kernel.body, ALWAYS)
        return self

    # --- statements --------------------------------------------------------------------------------------

    def _block(self, statements: s.Block, path: Condition) -> None:
        for at, statement in enumerate(statements):
            match statement:
                case s.Let():
                    self._values[statement.value] = self._let(statement, path)
                case s.Set(variable, value):
                    self._variables[variable] = self._values[value]
                case s.Store():
                    self._store(statement, path)
                case s.If(number, then, orelse):
                    condition = decided(self._condition(number), self.interval)
                    rest = statements[at + 1 :]
                    if isinstance(condition, Truth):
                        self._block((then if condition.value else orelse) + rest, path)
                        return
                    if _ends(statement):
                        self._branches(condition, then + rest, orelse + rest, path)
                        return
                    self._branches(condition, then, orelse, path)
                case s.For():
                    self._for(statement, path)
                case s.Continue():
                    return
                case s.Return():
                    if self.nest or self._turns:
                        raise NoPoints("a thread ends within a loop")
                    return
                case s.While() | s.Break():
                    raise NoPoints("the turns of a loop depend on what it computes")
                case s.Barrier():
                    self.staging.phase += 1
                case s.Atomic():
                    raise NoPoints("it updates elements one after another")
                case _:
                    raise NoPoints("threads work on it together")

    def _condition(self, number: int) -> Condition:
        value = self._values[number]
        assert not isinstance(value, Ref | Affine)
        return value

    def _branches(self, condition: Condition, then: s.Block, orelse: s.Block, path: Condition) -> None:
        before = list(self._variables)
        self._block(then, every(path, condition))
        after, self._variables = self._variables, before
        self._block(orelse, every(path, negated(condition)))
        for n, (x, y) in enumerate(zip(after, self._variables, strict=True)):
            if x is _UNKNOWN or y is _UNKNOWN:
                self._variables[n] = _UNKNOWN
            elif x is not None and y is not None:
                self._variables[n] = self.select(condition, x, y)
            else:
                self._variables[n] = y if x is None else x

    def _indices(self, numbers: Sequence[int]) -> tuple[Affine, ...]:
        found = [self._values[n] for n in numbers]
        assert all(isinstance(i, Affine) for i in found)
        return tuple(found)  # type: ignore[arg-type]

    def _store(self, statement: s.Store, path: Condition) -> None:
        indices = self._indices(statement.indices)
        value = self._values[statement.value]
        path = decided(path, self.interval)
        if path == NEVER:
            return
        if statement.array >= len(self.kernel.arrays):
            self.staging.store(statement.array, indices, path, value)
            return
        if self._met(statement.array, indices, path, statement.site):
            self._elements[statement.array, indices] = value
            return
        self._write(statement.array, indices, path, value, statement.site)

    def _write(
        self, array: int, indices: tuple[Affine, ...], path: Condition, value: Source, site: int
    ) -> None:
        nest = tuple(loop.axis for loop in self.nest)
        self.writes.append(Write(array, indices, nest, path, value, site))
        self._written.setdefault(array, {}).setdefault(indices, []).append((path, value))

    def _load(self, let: s.Let, path: Condition) -> Source:
        array, site = let.attrs
        indices = self._indices(let.args)
        if array >= len(self.kernel.arrays):
            return self.staging.load(array, indices, decided(path, self.interval))
        if self._met(array, indices, path, site):
            return self._elements[array, indices]
        return self.read(array, indices, let.dtype, path, site)

    def _met(self, array: int, indices: tuple[Affine, ...], path: Condition, site: int) -> bool:
        """Whether it is an element that every turn of a loop meets: it is then as good as a variable."""
        axes = frozenset[int]().union(*(i.axes for i in indices))
        own = next((n for n in range(len(self.nest), 0, -1) if self.nest[n - 1].axis in axes), 0)
        carried = self.nest[own:]
        if not carried or array not in carried[0].written:
            return False
        element = array, indices
        for at, loop in enumerate(carried):
            if element in loop.elements:
                continue
            if at:
                before = self._elements[element]
            else:
                if path != loop.path:
                    raise NoPoints("each turn of a loop needs the one before")
                before = self.read(array, indices, self.kernel.arrays[array].dtype, path, site)
            phi, number = self._phi(self.kernel.arrays[array].dtype)
            loop.elements[element] = phi, before, number, site
            self._elements[element] = phi
        if path != self.nest[-1].path:
            raise NoPoints("each turn of a loop needs the one before")
        return True

    def read(
        self, array: int, indices: tuple[Affine, ...], dtype: Dtype, path: Condition, site: int
    ) -> Source:
        """The element of an array that a thread reads."""
        written = self._written.get(array, {})
        if written and indices not in written:
            raise NoPoints("it reads an array that it wrote elsewhere")
        path = decided(path, self.interval)
        known = set(conjuncts(path))
        value: Source | None = None
        pending: list[tuple[Condition, Source]] = []
        for condition, stored in reversed(written.get(indices, [])):
            if known.issuperset(conjuncts(condition)):
                value = stored
                break
            pending.append((condition, stored))
        if value is None:
            self.loads.setdefault(array, set()).add(indices)
            attrs = (array, indices, path, site)
            value = self.node("load", dtype, (), attrs, INT64_BOUNDS, LARGEST)
        for condition, stored in reversed(pending):
            value = self.select(condition, stored, value)
        return value

    # --- values ------------------------------------------------------------------------------------------

    def _let(self, let: s.Let, path: Condition) -> Source:
        binding = self.binding
        match let.op:
            case "global_id":
                return atom("axis", let.attrs[0])
            case "local_id":
                axis: int = let.attrs[0]
                return atom("axis", axis) - self.group(axis) * self.kernel.block[axis]
            case "group_id":
                return self.group(let.attrs[0])
            case "global_size":
                return constant(binding.grid[let.attrs[0]])
            case "block_size":
                return constant(self.kernel.block[let.attrs[0]])
            case "extent":
                array, axis = let.attrs
                return constant(binding.shapes[array][axis])
            case "const":
                return self.number(let.attrs[0], let.dtype, False)
            case "scalar":
                if let.dtype == INT64:
                    known = binding.numbers[let.attrs[0]] if binding.numbers else None
                    return atom("scalar", let.attrs[0]) if known is None else constant(known)
                return self.node("scalar", let.dtype, (), let.attrs)
            case "get":
                value = self._variables[let.attrs[0]]
                if value is _UNKNOWN:
                    raise NoPoints("what the last turn of a loop left is used")
                assert value is not None
                return cast(Source, value)
            case "load":
                return self._load(let, path)
            case "call":
                raise NoPoints("it calls a C function")
        return self.primitive(let.op, let.dtype, tuple(self._values[a] for a in let.args), let.attrs)

    def group(self, axis: int) -> Affine:
        """The number of a thread's block along an axis."""
        found = self._groups.get(axis)
        if found is None:
            extent, block = self.binding.grid[axis], self.kernel.block[axis]
            made = constant(0)
            if block < extent:
                number = self.integers("floor_divide", (atom("axis", axis), constant(block)))
                assert isinstance(number, Affine)
                made = number
            found = self._groups[axis] = made
        return found

    # --- loops -------------------------------------------------------------------------------------------

    def _for(self, loop: s.For, path: Condition) -> None:
        start, stop = self._indices((loop.start, loop.stop))
        count = self._most_turns(start, stop, loop.step)
        if count <= max(1, self.unroll):
            self.unrolled = self.unrolled or count > 1
            self._turns += 1
            for turn in range(count):
                self._turn(loop, start + constant(turn * loop.step), stop, path)
            self._turns -= 1
            return
        axis = self._loops.get((len(self.nest), count))
        if axis is None:
            axis = self._loops[len(self.nest), count] = len(self.extents)
            self.extents.append(count)
        begins: dict[int, tuple[Source, Source, int]] = {}
        for statement in s.walk(loop.body):
            if isinstance(statement, s.Set) and statement.variable not in begins:
                before = self._variables[statement.variable]
                if before is not None and before is not _UNKNOWN:
                    phi, number = self._phi(self.kernel.variables[statement.variable])
                    begins[statement.variable] = phi, before, number
                    self._variables[statement.variable] = phi
        mine = {number for _, _, number in begins.values()}
        written = frozenset(st.array for st in s.walk(loop.body) if isinstance(st, s.Store))
        self.nest.append(_Loop(axis, path, written, {}))
        self._turn(loop, atom("axis", axis) * loop.step + start, stop, path)
        elements = self.nest.pop().elements
        mine |= {number for _, _, number, _ in elements.values()}
        for element, (phi, before, _, site) in elements.items():
            after = self._elements[element]
            if after != phi:
                after = gathered(self, after, phi, before, axis, mine)
            if any(element in outer.elements for outer in self.nest):
                self._elements[element] = before if after == phi else after
                continue
            del self._elements[element]
            if after != phi:
                self._write(*element, path, after, site)
        for variable in {st.variable for st in s.walk(loop.body) if isinstance(st, s.Set)}:
            after = self._variables[variable]
            if variable not in begins:
                self._variables[variable] = _UNKNOWN
                continue
            phi, before, number = begins[variable]
            if after is _UNKNOWN or after == phi:
                self._variables[variable] = after if after is _UNKNOWN else before
            elif number not in self.depends(after):
                self._variables[variable] = _UNKNOWN
            else:
                self._variables[variable] = gathered(self, after, phi, before, axis, mine)

    def _most_turns(self, start: Affine, stop: Affine, step: int) -> int:
        """The turns of a loop: of the thread that has the most, where they depend on its position."""
        distance = stop - start if step > 0 else start - stop
        groups = {n for axis in range(len(self.kernel.block)) for n in mentioned(self.group(axis))}
        if any(kind == "scalar" or (kind == "node" and n not in groups) for (kind, n), _ in distance.terms):
            raise NoPoints("the turns of a loop depend on what is not known when it is compiled")
        return max(0, -(-self.staging.most(distance) // abs(step)))

    def _turn(self, loop: s.For, value: Affine, stop: Affine, path: Condition) -> None:
        """One turn of a loop, by the threads that have it."""
        self._values[loop.value] = value
        inside = stop - value if loop.step > 0 else value - stop
        condition = self.staging.settled(Test("ge", inside - constant(1)))
        if condition == ALWAYS:
            self._block(loop.body, path)
        elif condition != NEVER:
            self._branches(condition, loop.body, (), path)

    def _phi(self, dtype: Dtype) -> tuple[Source, int]:
        self._phi_count += 1
        phi = self.node("phi", dtype, (), (self._phi_count,), INT64_BOUNDS, LARGEST)
        number = mentioned(phi)[0]
        self.phis[number] = frozenset((number,))
        return phi, number


def _ends(statement: s.If) -> bool:
    """Whether a thread may leave what follows in one of its branches."""
    for block in (statement.then, statement.orelse):
        for inner in block:
            if isinstance(inner, s.Continue | s.Return) or (isinstance(inner, s.If) and _ends(inner)):
                return True
    return False
