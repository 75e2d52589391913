"""Structured kernels in point form: what a target runs as it runs array code.

A kernel whose threads all evaluate the same expression (`threads`) is one kernel in point form for each box
of threads that store something: positions in the grid and the turns of loops are the axes, indices that are
sums of multiples of them are accesses, other loads are gathers. A guard that bounds a position cuts the box;
any other is a mask, under which what was there before is stored again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any, TypeGuard

import numpy as np

from .. import structured as s
from .affine import (
    ALWAYS,
    Atom,
    Condition,
    Interval,
    Some,
    Test,
    Truth,
    conjuncts,
    constant,
    decided,
    every,
    mapped,
    negated,
    some,
)
from .kernel import Builder, Points, Region, implied
from .symbolic import INT64, NoPoints, mentioned
from .threads import Trace, Write

# So many points are worth launches of their own for the edges, of so many conditions.
EDGE_POINTS = 1 << 15
MOST_EDGES = 6


def points(trace: Trace) -> tuple[Points, ...]:
    """The kernels in point form of a trace, in their order.

    Raises
    ------
    NoPoints
        Where the kernel has none.
    """
    _check_arrays(trace)
    best: tuple[Points, ...] | None = None
    refused = NoPoints("")
    for merges, edges in ((True, False), (False, False), (True, True)):
        writes = _arranged(trace, merges)
        if writes is None:
            continue
        try:
            found = _written(trace, writes, edges)
        except NoPoints as error:
            refused = refused if str(refused) else error
            continue
        if not any(p.slow for p in found):
            return found
        best = best or found
    if best is None:
        raise refused
    return best


def _written(trace: Trace, writes: Sequence[Write], edges: bool) -> tuple[Points, ...]:
    """The kernels for stores in their order; with `edges` those at an edge apart from the others."""
    groups: list[list[Region]] = []
    for write in writes:
        for piece in _pieces(trace, write, edges):
            region = _region(trace, piece)
            if region is not None:
                _place(groups, replace(region, write=replace(write, value=piece.value)))
    builders = [Builder(trace, group) for group in groups]
    found = tuple(builder.run() for builder in builders)
    _check_loads(trace, builders)
    _check_order(found)
    return found


def _place(groups: list[list[Region]], region: Region) -> None:
    """Put a store to others of its box, but before no other store to its array."""
    write = region.write
    for group in reversed(groups):
        if any(r.write.array == write.array for r in group):
            break
        if (group[0].box, group[0].write.nest) == (region.box, write.nest):
            group.append(region)
            return
    groups.append([region])


def steering(kernel: s.StructuredKernel) -> frozenset[int]:
    """The scalar slots whose value decides which threads take part, how far loops run, or what is touched.

    Where the values are given with the sizes of a launch (`StructuredBinding.numbers`), more kernels have a
    point form: a loop over so many turns is an axis, a guard cuts the box of threads. Code is the same for
    all values, as for all sizes.
    """
    values: dict[int, frozenset[int]] = {}
    variables: dict[int, frozenset[int]] = {}
    found: frozenset[int] = frozenset()
    none: frozenset[int] = frozenset()
    for _ in range(2):  # once more for what a loop carries back
        for statement in s.walk(kernel.body):
            match statement:
                case s.Let(value, "scalar", dtype, _, (slot,)):
                    values[value] = frozenset((slot,)) if dtype == INT64 else none
                case s.Let(value, "get", _, _, (variable,)):
                    values[value] = variables.get(variable, none)
                case s.Let(value, op, _, args, _):
                    values[value] = none.union(*(values.get(a, none) for a in args))
                    if op == "load":
                        found |= values[value]
                        values[value] = none
                case s.Set(variable, value):
                    variables[variable] = variables.get(variable, none) | values.get(value, none)
                case s.Store(_, indices, _, _):
                    found = found.union(*(values.get(i, none) for i in indices))
                case s.If(condition, _, _):
                    found |= values.get(condition, none)
                case s.For(_, start, stop, _, _):
                    found |= values.get(start, none) | values.get(stop, none)
    return found


def _check_arrays(trace: Trace) -> None:
    """An array that is written is read only where the same thread writes it."""
    for array in {w.array for w in trace.writes}:
        stored = {w.indices for w in trace.writes if w.array == array}
        if trace.loads.get(array, stored) != stored or (array in trace.loads and len(stored) > 1):
            raise NoPoints("it reads other elements of an array that it writes")


def _check_order(parts: Sequence[Points]) -> None:
    """No part reads what one before has written, but to store it again."""
    written: set[int] = set()
    for part in parts:
        kernel = part.kernel
        for number, operand in zip(part.operands, kernel.operands, strict=True):
            if not operand.output and number in written and number not in _kept(part):
                raise NoPoints("it reads an array that it writes for other threads")
        written |= {n for n, o in zip(part.operands, kernel.operands, strict=True) if o.output}


def _kept(part: Points) -> set[int]:
    """The arrays that a part reads only to store again what its mask leaves out."""
    body = part.kernel.body
    readers: dict[int, list[int]] = {}
    for n, instr in enumerate(body):
        for a in instr.args:
            readers.setdefault(a, []).append(n)
    kept: dict[int, bool] = {}
    for n, instr in enumerate(body):
        if instr.op in ("load", "gather"):
            number = part.operands[part.kernel.accesses[instr.attrs[0]].operand]
            plain = instr.op == "load" and all(
                body[r].op == "where"
                and body[r].args[2] == n
                and body[r].args[1] != n
                and all(body[q].op == "store" for q in readers.get(r, []))
                for r in readers.get(n, [])
            )
            kept[number] = kept.get(number, True) and plain
    return {n for n, plain in kept.items() if plain}


def _arranged(trace: Trace, merges: bool) -> list[Write] | None:
    """The stores; with `merges` those of one element as one, None where there are none such."""
    groups: dict[Any, list[Write]] = {}
    for write in trace.writes:
        groups.setdefault((write.array, write.indices, write.nest), []).append(write)
    several = {array for array in trace.loads if any(len(g) > 1 for k, g in groups.items() if k[0] == array)}
    if not merges and (several or all(len(g) == 1 for g in groups.values())):
        return None
    alone = {k[0] for k in groups if sum(other[0] == k[0] for other in groups) == 1}
    result: list[Write] = []
    merged: set[Any] = set()
    for write in trace.writes:
        key = (write.array, write.indices, write.nest)
        group = groups[key]
        if len(group) == 1 or write.array not in alone or not merges:
            result.append(write)
        elif key not in merged:
            merged.add(key)
            total = group[0]
            for later in group[1:]:
                value = trace.select(later.path, later.value, total.value)
                total = replace(later, value=value, path=some(total.path, later.path))
            result.append(total)
    return result


def _pieces(trace: Trace, write: Write, edges: bool) -> list[Write]:
    """A store outside a box, which needs a mask, as stores around it; with `edges` in all boxes of a grid."""
    pieces: list[Write] = []
    if edges:
        pieces = [write]
        for test in _edges(trace, write):
            pieces = [replace(w, path=every(w.path, way)) for w in pieces for way in (test, negated(test))]
        return [piece for piece in pieces if piece.path != Truth(False)]
    parts = conjuncts(write.path)
    around = next((p for p in parts if isinstance(p, Some)), None)
    if around is None or write.array in trace.loads:
        return [write]
    rest = every(*(p for p in parts if p is not around))
    before: list[Condition] = []
    for part in around.parts:
        if not _bounds_thread(part, trace):
            return [write]
        pieces.append(replace(write, path=every(rest, part, *before)))
        before.append(negated(part))
    return pieces


def _edges(trace: Trace, write: Write) -> list[Test]:
    """The conditions on a position that keep what a store reads inside, where there are points enough."""
    cut = _box(trace, write.path)
    if cut is None or write.array in trace.loads:
        return []
    box, _ = cut
    if prod(high - low + 1 for low, high in box) < EDGE_POINTS:
        return []

    def within(a: Atom) -> Interval:
        return box[a[1]] if a[0] == "axis" else trace.interval(a)

    found: dict[Test, None] = {}
    for n in trace.closure(mentioned(write.value)):
        node = trace.nodes[n]
        if node.op != "load":
            continue
        array, indices, path, _ = node.attrs
        for index, extent in zip(indices, trace.binding.shapes[array], strict=True):
            low, high = index.interval(within)
            if index.plain and (low < 0 or high >= extent):
                guards = conjuncts(decided(path, within))
                found |= dict.fromkeys(p for p in guards if _bounds_thread(p, trace))
    return list(found) if len(found) <= MOST_EDGES else []


def _bounds_thread(part: Condition, trace: Trace) -> TypeGuard[Test]:
    """Whether a condition bounds the position of a thread along one axis."""
    if not isinstance(part, Test) or part.how != "ge" or not part.value.plain:
        return False
    return len(part.value.terms) == 1 and max(part.value.axes) < trace.kernel.axes


def _box(trace: Trace, path: Condition) -> tuple[list[Interval], Condition] | None:
    """The box that a condition bounds on the grid, and what remains of it; None where it holds nowhere."""
    box = [(0, e - 1) for e in trace.extents]
    parts: list[Condition] = []
    for part in conjuncts(path):
        if not _bounds_thread(part, trace):
            parts.append(part)
            continue
        (((_, axis), c),) = part.value.terms
        low, high = box[axis]
        if c > 0:
            low = max(low, -(part.value.const // c))
        else:
            high = min(high, part.value.const // -c)
        if low > high:
            return None
        box[axis] = low, high
    return box, every(*parts)


def _unsafe(trace: Trace) -> set[int]:
    """The loads that are not known to stay in their array."""
    found: set[int] = set()
    for n, node in enumerate(trace.nodes):
        if node.op != "load":
            continue
        array, indices, path, _ = node.attrs
        cut = _box(trace, path)
        if cut is None:
            continue
        box, rest = cut

        def within(a: Atom, box: Sequence[Interval] = box) -> Interval:
            return box[a[1]] if a[0] == "axis" else trace.interval(a)

        for index, extent in zip(indices, trace.binding.shapes[array], strict=True):
            for bound in (index, constant(extent - 1) - index):
                if not implied(bound, rest, within) and trace.staging.settled(Test("ge", bound)) != ALWAYS:
                    found.add(n)
    return found


def _check_loads(trace: Trace, builders: Sequence[Builder]) -> None:
    """Every load that may be outside is tested wherever a thread comes to it."""
    for n in _unsafe(trace):
        path = trace.nodes[n].attrs[2]
        known = set(conjuncts(path))
        stores: dict[Any, list[bool]] = {}
        for builder in builders:
            tested = n in builder.tape or decided(path, builder.interval) == Truth(False)
            for write in (region.write for region in builder.regions):
                if known.issuperset(conjuncts(write.path)):
                    stores.setdefault((write.array, write.indices, write.path), []).append(tested)
        if not any(all(boxes) for boxes in stores.values()):
            raise NoPoints("it reads what may be outside an array, and does not always store it")


def _region(trace: Trace, write: Write) -> Region | None:
    """The box of a store, and the mask that remains; None where no thread stores."""
    binding = trace.binding
    cut = _box(trace, write.path)
    if cut is None:
        return None
    box, mask = cut
    own = set(range(trace.kernel.axes)) | set(write.nest)
    if not all(i.plain for i in write.indices):
        raise NoPoints("where an element is stored depends on what was computed")
    checks: list[tuple[Condition, int, int]] = []
    shape = binding.shapes[write.array]

    def within(a: Atom) -> Interval:
        return box[a[1]] if a[0] == "axis" else trace.interval(a)

    for index, extent in zip(write.indices, shape, strict=True):
        low, high = index.interval(within)
        if low >= 0 and high < extent:
            continue
        if len(index.terms) != 1:
            raise NoPoints("a store may be outside its array")
        ((_, axis), c) = index.terms[0]
        first, last = box[axis]
        # Positions p with 0 <= const + c * p < extent.
        ends = sorted((-index.const / c, (extent - 1 - index.const) / c))
        inside = max(first, int(np.ceil(ends[0]))), min(last, int(np.floor(ends[1])))
        if inside[0] > inside[1]:
            raise NoPoints("a store is outside its array")
        box[axis] = inside
        for there, side in ((inside[0] - 1, 1), (inside[1] + 1, -1)):
            if first <= there <= last:
                moved = _beyond(mask, axis, there, side)
                checks.append((moved, index.const + c * there, extent))
    mask = decided(mask, within)
    checks = [(moved, i, e) for c, i, e in checks if (moved := decided(c, within)) != Truth(False)]
    if mask == Truth(False) and not checks:
        return None
    _check_alone(trace, write, box, own)
    return Region(write, tuple(box), mask, tuple(checks))


def _beyond(mask: Condition, axis: int, there: int, side: int) -> Condition:
    """What a mask is at a position outside; from there on it may only hold less."""
    for part in conjuncts(mask):
        # Outside upwards (side -1) the mask must fall with the position.
        way = part.value.coefficient(("axis", axis)) * side if isinstance(part, Test) else -1
        if isinstance(part, Test) and part.how == "ge" and way >= 0:
            continue
        raise NoPoints("a store may be outside its array")
    if mask == ALWAYS:
        raise NoPoints("a store is outside its array")
    return mapped(mask, lambda v: v.replaced(("axis", axis), constant(there)))


def _check_alone(trace: Trace, write: Write, box: Sequence[Interval], own: set[int]) -> None:
    """Every thread must have an element of its own."""
    strides = dict.fromkeys(own, 0)
    for index, stride in zip(write.indices, trace.binding.strides[write.array], strict=True):
        for (_, axis), c in index.terms:
            if axis not in own:
                raise NoPoints("it stores what a loop left behind")
            strides[axis] += c * stride
    reach = 0
    for step, extent in sorted((abs(strides[a]), box[a][1] - box[a][0] + 1) for a in own):
        if extent > 1:
            if step <= reach:
                raise NoPoints("several threads may store the same element")
            reach += step * (extent - 1)
