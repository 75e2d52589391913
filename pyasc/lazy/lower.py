"""A scheduled step as KernelIR: a tape of instructions over merged axes, and the arguments of its launch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..backend.base import Backend
from ..backend.ir import Binding, Instr, Kernel, Operand, anchored
from ..ops.primitives import EMPTY, FULL, GATHER, IOTA, LEAF, REDUCE, SCALAR, UPDATE, VIEW, WRAP_INDEX
from .domain import Access, Domain, Shape, decompose, through_view
from .reads import operand_accesses, sources
from .schedule import Schedule, Step
from .simplify import Value

INT64 = np.dtype(np.int64)
# A value that costs more than this and is read at several shifted points is computed once for all of them.
STAGING_COST = 4.0
MAX_SHIFT = 16


@dataclass(frozen=True)
class LoweredKernel:
    """A kernel with its arguments.

    Attributes
    ----------
    operands : tuple of int
        For each operand of the kernel, the value of the graph in it.
    scalars : tuple of (bool, int)
        For each slot: (False, tape position of a SCALAR node) or (True, an int64 that the plan holds).
    position : int
        Tape position of the value that stands for the kernel in messages.
    backend : Backend
        What it is compiled for.
    faults : tuple of int
        For each instruction that may report a fault, by its number, the tape position of its value.
    reason : str
        Why it is compiled for the fallback of the backend that it was cut for, or "".
    """

    kernel: Kernel
    binding: Binding
    operands: tuple[int, ...]
    scalars: tuple[tuple[bool, int], ...]
    position: int
    backend: Backend
    faults: tuple[int, ...] = ()
    reason: str = ""


class Lowering:
    """Builds the kernel of one step."""

    def __init__(self, schedule: Schedule, step: Step) -> None:
        self.values = schedule.graph.values
        self.stored = schedule.stored
        self.step = step
        self.domain = step.domain
        self.body: list[Instr] = []
        self.known: dict[Any, int] = {}
        self.operands: list[int] = []
        self.outputs: set[int] = set()
        self.accesses: list[tuple[int, Access]] = []
        self.indices: list[Access] = []
        self.scalars: list[tuple[bool, int]] = []
        self.scalar_dtypes: list[np.dtype[Any]] = []
        self.faults: list[int] = []
        self.staged: dict[tuple[int, Access], tuple[Access, Shape]] = {}
        self.computed: dict[tuple[int, Access], int] = {}
        self.corners: dict[tuple[int, Access], int] = {}
        self.cost = schedule.cost
        assert step.backend is not None
        self.backend = step.backend

    def run(self) -> LoweredKernel:
        members = sorted(self.step.members)
        needed = self._needed(members)
        if self.backend.stages_shifts and not self.domain.reduces:
            self.staged = self._staged(needed)
        for v in members:
            if v in self.stored:
                self._sink(v)
            elif v in needed:
                # In recording order, so that a value finds its operands and nothing recurses down a chain.
                self._value(v, self._native(v))
        return self._finish([v for v in members if v in self.stored])

    def _needed(self, members: list[int]) -> set[int]:
        """The members that what is stored reads where they are computed."""
        needed = {v for v in members if v in self.stored}
        for v in reversed(members):
            if v not in needed:
                continue
            at = self.domain.inner_access if self.values[v].primitive is REDUCE else self._native(v)
            for u, view in sources(self.values, self.stored, v):
                if u in self.step.members and u not in needed:
                    access: Access | None = at
                    if view is not None:
                        access = through_view(at, self.domain.extents, view.shape, *view.attrs)
                    if access == self._native(u):
                        needed.add(u)
        return needed

    def _staged(self, needed: set[int]) -> dict[tuple[int, Access], tuple[Access, Shape]]:
        """The values to be computed once and read at several points.

        For each such value and access: the access of its first corner, and how far from there the access is.
        """
        requests: dict[tuple[int, Shape], set[Access]] = {}
        for v in sorted(needed):
            for u, view in sources(self.values, self.stored, v):
                if self.values[u].primitive in (LEAF, REDUCE, VIEW) or self.cost[u] <= STAGING_COST:
                    continue
                if u in self.stored and u not in self.step.members:
                    continue
                access: Access | None = self._native(v)
                if view is not None and access is not None:
                    access = through_view(access, self.domain.extents, view.shape, *view.attrs)
                if access is None or (u in self.step.members and access == self._native(u)):
                    continue
                if not self._is_arithmetic(u):
                    continue
                requests.setdefault((u, access.strides), set()).add(access)
        staged: dict[tuple[int, Access], tuple[Access, Shape]] = {}
        for (u, strides), accesses in requests.items():
            if len(accesses) < 2 or 0 in strides:
                continue
            places = {a: place for a in accesses if (place := self._place(self.values[u], a)) is not None}
            if len(places) < len(accesses) or len({fixed for _, fixed in places.values()}) > 1:
                continue
            corner = [min(start[k] for start, _ in places.values()) for k in range(len(strides))]
            distances = {
                a: tuple(s - c for s, c in zip(start, corner, strict=True))
                for a, (start, _) in places.items()
            }
            if not strides or max(map(max, distances.values())) > MAX_SHIFT:
                continue
            first = min(accesses, key=lambda a: a.offset)
            origin = first.offset - sum(d * s for d, s in zip(distances[first], strides, strict=True))
            for access, distance in distances.items():
                staged[u, access] = (Access(origin, strides), distance)
        return staged

    def _is_arithmetic(self, v: int) -> bool:
        """Whether computing a value at points that nobody reads does no harm."""
        stack, seen = [v], {v}
        while stack:
            u = stack.pop()
            if self.values[u].primitive in (GATHER, WRAP_INDEX):
                return False
            if u in self.stored and u != v:
                continue
            for o in self.values[u].operands:
                if o not in seen:
                    seen.add(o)
                    stack.append(o)
        return True

    def _place(self, value: Value, access: Access) -> tuple[Shape, Shape] | None:
        """Where a walk that steps through `value` axis by axis begins.

        Along each axis of the domain, and along the axes of the value that it does not move on.
        """
        parts = decompose(access, self.domain.extents, value.shape)
        if parts is None:
            return None
        start, steps = parts
        axes = []
        for step in steps:
            moved = [k for k, s in enumerate(step) if s]
            if len(moved) != 1 or step[moved[0]] != 1 or moved[0] in axes:
                return None
            axes.append(moved[0])
        return tuple(start[k] for k in axes), tuple(s for k, s in enumerate(start) if k not in axes)

    # --- values ------------------------------------------------------------------------------------

    def _native(self, v: int) -> Access:
        return self.domain.inner_access if self.step.members[v] else self.domain.outer_access

    def _sink(self, v: int) -> None:
        value = self.values[v]
        at = self._native(v)
        if value.primitive is UPDATE:
            source = value.operands[1]
            stored = self._read(source, at)
            region = self.values[source].shape
            place = through_view(at, self.domain.extents, region, *value.attrs)
            if place is None:
                raise AssertionError("the region of an update is not affine in its own index")
        else:
            stored = self._value(v, at)
            place = at
        access = self._access(self._operand(v, output=True), place)
        self._emit(Instr("store", value.dtype, (stored,), (access,)))

    def _read(self, o: int, access: Access) -> int:
        """An operand at an access, seen through its view."""
        operand = self.values[o]
        if operand.primitive in (SCALAR, FULL) and o not in self.stored:
            return self._scalar(o)
        if operand.primitive is VIEW and o not in self.stored:
            at = through_view(access, self.domain.extents, operand.shape, *operand.attrs)
            if at is None:
                raise AssertionError("a view that is not affine was not stored")
            return self._value(operand.operands[0], at)
        return self._value(o, access)

    def _value(self, v: int, access: Access) -> int:
        key = (v, access)
        found = self.computed.get(key)
        if found is None:
            if key in self.staged:
                origin, distance = self.staged[key]
                corner = self._corner(v, origin)
                found = self._emit(Instr("shift", self.values[v].dtype, (corner,), distance))
            else:
                found = self._compute(v, access)
            self.computed[key] = found
        return found

    def _corner(self, v: int, origin: Access) -> int:
        """A staged value where its first reader is. What it is computed from is not staged itself."""
        found = self.corners.get((v, origin))
        if found is None:
            staged, self.staged = self.staged, {}
            computed, self.computed = self.computed, self.corners
            found = self.corners[v, origin] = self._compute(v, origin)
            self.staged, self.computed = staged, computed
        return found

    def _compute(self, v: int, access: Access) -> int:
        value = self.values[v]
        mine = v in self.step.members and access == self._native(v)
        if value.primitive is LEAF or (v in self.stored and v not in self.step.members):
            operand = self._operand(v, output=False)
            result = self._emit(Instr("load", value.dtype, (), (self._access(operand, access),)))
        elif value.primitive in (SCALAR, FULL):
            result = self._scalar(v)
        elif value.primitive is EMPTY:
            result = self._emit(Instr("const", value.dtype, (), (0,)))  # as good as any other
        elif value.primitive is IOTA:
            result = self._index(value, access)
        elif value.primitive is REDUCE:
            if not mine:
                raise AssertionError("a reduction is read where it is not computed")
            source = self._read(value.operands[0], self.domain.inner_access)
            result = self._emit(Instr("reduce", value.dtype, (source,), (value.attrs[0],)))
        elif value.primitive is GATHER:
            index = self._read(value.operands[1], access)
            base = self._operand(value.operands[0], output=False)
            whole = self._access(base, Access(0, (0,) * len(self.domain.extents)))
            result = self._emit(Instr("gather", value.dtype, (index,), (whole,)))
        elif value.primitive is VIEW:
            at = through_view(access, self.domain.extents, value.shape, *value.attrs)
            if at is None:
                raise AssertionError("a view that is not affine was not stored")
            result = self._value(value.operands[0], at)
        else:
            reads = operand_accesses(self.values, self.stored, v, access, self.domain)
            if reads is None:
                raise AssertionError("an index that is not affine was scheduled into a kernel")
            args = tuple(self._scalar(u) if at is None else self._value(u, at) for u, at in reads)
            attrs = value.attrs
            if value.primitive is WRAP_INDEX:
                attrs = (len(self.faults),)
                self.faults.append(value.position)
            result = self._emit(Instr(value.primitive.name, value.dtype, args, attrs))
        return result

    def _scalar(self, v: int) -> int:
        value = self.values[v]
        if value.primitive is FULL:
            value = self.values[value.operands[0]]
        return self._slot((False, value.position), value.dtype)

    def _slot(self, source: tuple[bool, int], dtype: np.dtype[Any]) -> int:
        key = ("scalar", source, dtype)
        found = self.known.get(key)
        if found is None:
            self.scalars.append(source)
            self.scalar_dtypes.append(dtype)
            found = self.known[key] = self._emit(Instr("scalar", dtype, (), (len(self.scalars) - 1,)))
        return found

    def _index(self, value: Value, access: Access) -> int:
        parts = decompose(access, self.domain.extents, value.shape)
        if parts is None:
            raise AssertionError("an index that is not affine was scheduled into a kernel")
        start, steps = parts
        axis = value.attrs[0]
        walk = Access(start[axis], tuple(step[axis] for step in steps))
        key = ("index", walk)
        found = self.known.get(key)
        if found is None:
            self.indices.append(walk)
            # Written out once the axes are merged.
            found = self.known[key] = self._emit(Instr("index", INT64, (), (len(self.indices) - 1,)))
        return found

    def _emit(self, instr: Instr) -> int:
        self.body.append(instr)
        return len(self.body) - 1

    def _operand(self, v: int, output: bool) -> int:
        key = ("operand", v)
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = len(self.operands)
            self.operands.append(v)
        if output:
            self.outputs.add(found)
        return found

    def _access(self, operand: int, access: Access) -> int:
        key = ("access", operand, access)
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = len(self.accesses)
            self.accesses.append((operand, access))
        return found

    # --- axes ----------------------------------------------------------------------------------------

    def _finish(self, sinks: list[int]) -> LoweredKernel:
        walks = [access.strides for _, access in self.accesses] + [walk.strides for walk in self.indices]
        moved = {k for i in self.body if i.op == "shift" for k, distance in enumerate(i.attrs) if distance}
        axes = _merged_axes(self.domain, walks, self._axis_order(), moved)
        parallel = sum(1 for axis in axes if not self.domain.reduced[axis.members[-1]])
        extents = tuple(axis.extent for axis in axes)
        strides = [tuple(walk[axis.members[-1]] for axis in axes) for walk in walks]
        accesses = anchored([(o, strides[n], access.offset) for n, (o, access) in enumerate(self.accesses)])
        self.body = [
            Instr(i.op, i.dtype, i.args, tuple(i.attrs[axis.members[-1]] for axis in axes))
            if i.op == "shift"
            else i
            for i in self.body
        ]
        body = self._expand_indices(strides[len(self.accesses) :])
        operands = []
        inputs = 0
        for n, v in enumerate(self.operands):
            output = n in self.outputs
            operands.append(
                Operand(f"{'y' if output else 'x'}{n if output else inputs}", self.values[v].dtype, output)
            )
            inputs += not output
        kernel = Kernel(
            parallel,
            len(axes) - parallel,
            tuple(operands),
            accesses,
            tuple(self.scalar_dtypes),
            tuple(body),
            _name(body),
        )
        binding = Binding(
            extents,
            tuple(strides[: len(self.accesses)]),
            tuple(access.offset for _, access in self.accesses),
            tuple(self.values[v].size for v in self.operands),
        )
        return LoweredKernel(
            kernel,
            binding,
            tuple(self.operands),
            tuple(self.scalars),
            self.values[sinks[-1]].position,
            self.backend,
            tuple(self.faults),
        )

    def _axis_order(self) -> list[int]:
        """Parallel axes as the first store walks them, reduced ones as the first load does."""
        store = next(i for i in self.body if i.op == "store")
        walk = self.accesses[store.attrs[0]][1].strides
        parallel = [k for k, r in enumerate(self.domain.reduced) if not r]
        reduced = [k for k, r in enumerate(self.domain.reduced) if r]
        parallel.sort(key=lambda k: -abs(walk[k]))
        # The index that argmax gives counts in the order of the axes.
        if not any(i.op == "reduce" and i.attrs[0].startswith("arg") for i in self.body):
            for instr in self.body:
                if instr.op == "load":
                    load = self.accesses[instr.attrs[0]][1].strides
                    if any(load[k] for k in reduced):
                        reduced.sort(key=lambda k: -abs(load[k]))
                        break
        return parallel + reduced

    def _expand_indices(self, strides: list[tuple[int, ...]]) -> list[Instr]:
        """The body with each index written as offset + sum(position along an axis * step)."""
        if not self.indices:
            return self.body
        renamed: dict[int, int] = {}
        old, self.body = self.body, []
        slots = {n: i.attrs[0] for n, i in enumerate(old) if i.op == "scalar"}
        # Slots made here follow those of the tape; `known` must not find instructions by their old places.
        self.known = {}

        def term(op: str, x: int | None, y: int) -> int:
            return y if x is None else self._emit(Instr(op, INT64, (x, y)))

        for n, instr in enumerate(old):
            if instr.op != "index":
                args = tuple(renamed[a] for a in instr.args)
                renamed[n] = self._emit(Instr(instr.op, instr.dtype, args, instr.attrs))
                if n in slots:
                    self.known["scalar", self.scalars[slots[n]], instr.dtype] = renamed[n]
                continue
            total: int | None = None
            for axis, step in enumerate(strides[instr.attrs[0]]):
                if step:
                    position = self._emit(Instr("index", INT64, (), (axis,)))
                    if step != 1:
                        position = self._emit(
                            Instr("mul", INT64, (position, self._slot((True, step), INT64)))
                        )
                    total = term("add", total, position)
            offset = self.indices[instr.attrs[0]].offset
            if offset or total is None:
                total = term("add", total, self._slot((True, offset), INT64))
            renamed[n] = total
        return self.body


@dataclass(slots=True)
class _Axis:
    extent: int
    members: list[int]  # axes of the domain, outermost first


def _merged_axes(
    domain: Domain, walks: list[tuple[int, ...]], order: list[int], moved: set[int]
) -> list[_Axis]:
    """Neighbouring axes that every access walks as one are one, but for those that a shift moves along."""
    axes: list[_Axis] = []
    for k in order:
        if axes:
            last = axes[-1]
            outer = last.members[-1]
            if (
                moved.isdisjoint((outer, k))
                and domain.reduced[outer] == domain.reduced[k]
                and all(walk[outer] == walk[k] * domain.extents[k] for walk in walks)
            ):
                last.members.append(k)
                last.extent *= domain.extents[k]
                continue
        axes.append(_Axis(domain.extents[k], [k]))
    return axes


def _name(body: list[Instr]) -> str:
    """A short name from the operations, in order."""
    names: list[str] = []
    for instr in body:
        if instr.op in ("load", "store", "scalar", "const", "index", "cast"):
            continue
        name = f"{instr.attrs[0]}_reduce" if instr.op == "reduce" else instr.op
        if name not in names:
            names.append(name)
    if len(names) > 5:
        names = [*names[:4], f"{len(names) - 4}_more"]
    return "_".join(names) or "copy"


def lower(schedule: Schedule, step: Step) -> LoweredKernel:
    """The kernel of a step that a backend runs."""
    return Lowering(schedule, step).run()
