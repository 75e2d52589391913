"""One kernel in point form: the stores of a box of threads, written as instructions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..ir import Binding, Dtype, Instr, Kernel, Operand, anchored
from .affine import (
    ALWAYS,
    Affine,
    All,
    Atom,
    Condition,
    Flag,
    Interval,
    Test,
    Truth,
    conjuncts,
    constant,
    decided,
)
from .symbolic import BOOL, INT32, INT32_BOUNDS, INT64, LARGEST, Node, NoPoints, Ref, Source, mentioned
from .threads import Trace, Write

# Numbers in the text up to this stand in the code; others are arguments, as they may follow from sizes.
SMALL = 8

Box = tuple[Interval, ...]  # for each axis of a trace, the first and the last position


@dataclass(frozen=True)
class Points:
    """A kernel in point form, one of those that a structured kernel is run by.

    Attributes
    ----------
    kernel : Kernel
    binding : Binding
    operands : tuple of int
        For each operand the array it is.
    scalars : tuple of (bool, int)
        See `base.Part`.
    sites : tuple of int
        For each fault, the site it belongs to.
    slow : bool
        Whether elements are gathered that lie side by side, only because some would be outside.
    """

    kernel: Kernel
    binding: Binding
    operands: tuple[int, ...]
    scalars: tuple[tuple[bool, int], ...]
    sites: tuple[int, ...]
    slow: bool


@dataclass(frozen=True)
class Region:
    """A store with the box of its points, the mask that is left of its guard, and what has to be checked.

    Attributes
    ----------
    write : Write
    box : Box
    mask : Condition
    checks : tuple of (Condition, int, int)
        Conditions that must not hold, as there the store is outside: each with the index and the extent.
    """

    write: Write
    box: Box
    mask: Condition
    checks: tuple[tuple[Condition, int, int], ...]


def implied(value: Affine, path: Condition, of: Callable[[Atom], Interval]) -> bool:
    """Whether an integer is not negative where a condition holds."""
    if value.interval(of)[0] >= 0:
        return True
    return any(
        (value - part.value).interval(of)[0] >= 0
        for part in conjuncts(path)
        if isinstance(part, Test) and part.how in ("ge", "eq")
    )


class Builder:
    """Writes one kernel: the stores of one box."""

    def __init__(self, trace: Trace, regions: Sequence[Region]) -> None:
        self.trace = trace
        self.regions = regions
        self.box = regions[0].box
        self.body: list[Instr] = []
        self.operands: list[tuple[int, bool]] = []
        self.accesses: list[tuple[int, dict[int, int], int]] = []  # operand, stride of each axis, offset
        self.scalars: list[tuple[bool, int]] = []
        self.scalar_dtypes: list[Dtype] = []
        self.sites: list[int] = []
        self.slow = False
        self.tape: dict[int, int] = {}
        self.known: dict[Any, int] = {}
        self.needed = self._needed()
        self.reduced = self._reduced()
        grid = [*range(trace.kernel.axes), *regions[0].write.nest]
        self.parallel = [a for a in grid if a not in self.reduced]
        self.indexed: set[int] = set()

    def run(self) -> Points:
        """The kernel."""
        for n in self.needed:
            self.tape[n] = self._node(n)
        for region in self.regions:
            self._store(region)
        return self._finish()

    def _needed(self) -> list[int]:
        start: list[int] = []
        for region in self.regions:
            start += mentioned(region.write.value) + mentioned(region.mask)
            for condition, _, _ in region.checks:
                start += mentioned(condition)
        return self.trace.closure(start, self._chosen)

    def _chosen(self, node: Node) -> Source | None:
        """The one of two values that the box decides for."""
        if node.op != "where":
            return None
        condition, x, y = node.args
        assert not isinstance(condition, Ref | Affine)
        known = decided(condition, self.interval)
        return (x if known.value else y) if isinstance(known, Truth) else None

    def _reduced(self) -> list[int]:
        found: set[tuple[int, ...]] = set()
        for n in self.needed:
            node = self.trace.nodes[n]
            if node.op == "reduce":
                found.add(node.attrs[1])
        if len(found) > 1:
            raise NoPoints("its loops run over different ranges")
        return list(next(iter(found), ()))

    # --- integers and conditions ---------------------------------------------------------------------------

    def interval(self, of: Atom) -> Interval:
        """The bounds of an atom within the box."""
        return self.box[of[1]] if of[0] == "axis" else self.trace.interval(of)

    def emit(self, op: str, dtype: Dtype, *args: int, attrs: tuple[Any, ...] = ()) -> int:
        """An instruction; the same one is written once."""
        key = (op, dtype, args, attrs)
        found = self.known.get(key)
        if found is None or op in ("store", "wrap_index"):
            self.body.append(Instr(op, dtype, args, attrs))
            found = self.known[key] = len(self.body) - 1
        return found

    def slot(self, source: tuple[bool, int], dtype: Dtype) -> int:
        """A scalar argument."""
        key = ("slot", source, dtype)
        found = self.known.get(key)
        if found is None:
            self.scalars.append(source)
            self.scalar_dtypes.append(dtype)
            found = self.known[key] = self.emit("scalar", dtype, attrs=(len(self.scalars) - 1,))
        return found

    def integer(self, value: int) -> int:
        """A whole number."""
        if not INT32_BOUNDS[0] <= value <= LARGEST:
            raise NoPoints("an integer of it may not fit 32 bits")
        if abs(value) <= SMALL:
            return self.emit("const", INT32, attrs=(value,))
        return self.slot((True, value), INT32)

    def affine(self, value: Affine) -> int:
        """An integer, computed in 32 bits."""
        found = self.known.get(value)
        if found is None:
            found = self.known[value] = self._affine(value)
        return found

    def _affine(self, value: Affine) -> int:
        cut = self.trace.cut(value)
        if cut is not None:
            x = self.tape[value.terms[0][0][1]]
            if value.const:  # so that nothing wraps
                room = INT32_BOUNDS[value.const > 0] - value.const
                x = self.emit("min" if value.const > 0 else "max", INT32, x, self.integer(room))
                x = self.emit("add", INT32, x, self.integer(value.const))
            return x
        low, high = value.interval(self.interval)
        if low < INT32_BOUNDS[0] or high > LARGEST:
            raise NoPoints("an integer of it may not fit 32 bits")
        const, total = value.const, None
        # What steps by one comes last: where rows begin, and the place in them.
        for (kind, number), c in sorted(value.terms, key=lambda t: (t[1] == 1 and t[0][0] == "axis", t[0])):
            if kind == "axis":
                first, last = self.box[number]
                const += c * first
                if first == last:
                    continue
                x = self.emit("index", INT32, attrs=(number,))
            elif kind == "scalar":
                x = self.slot((False, number), INT64)
                if len(value.terms) > 1 or c != 1 or const:
                    raise NoPoints("an integer of it may not fit 32 bits")
            else:
                x = self.tape[number]
            if c != 1:
                x = self.emit("mul", INT32, x, self.integer(c))
            if total is not None and const:
                total, const = self.emit("add", INT32, total, self.integer(const)), 0
            total = x if total is None else self.emit("add", INT32, total, x)
        if total is None:
            return self.integer(const)
        return self.emit("add", INT32, total, self.integer(const)) if const else total

    def condition(self, condition: Condition) -> int:
        """A bool."""
        condition = decided(condition, self.interval)
        match condition:
            case Truth(value):
                return self.emit("const", BOOL, attrs=(value,))
            case Flag(node, holds):
                return self.tape[node] if holds else self.emit("not", BOOL, self.tape[node])
            case Test(how, value):
                return self._test(how, value)
        op = "and" if isinstance(condition, All) else "or"
        first, *others = condition.parts
        total = self.condition(first)
        for other in others:
            total = self.emit(op, BOOL, total, self.condition(other))
        return total

    def _test(self, how: str, value: Affine) -> int:
        """A test of a difference against 0 as a comparison of its two sides."""
        left = Affine(tuple((a, -c) for a, c in value.terms if c < 0))
        right = Affine(tuple((a, c) for a, c in value.terms if c > 0))
        # left <= right + const: the number goes to a side that is neither an argument nor cut off.
        const, op = value.const, "le" if how == "ge" else how
        if not right.terms:
            right, const = constant(const), 0
        elif not left.terms:
            left, const = constant(-const), 0
        elif self._exact(left):
            left, const = left - constant(const), 0
        elif self._exact(right):
            right, const = right + constant(const), 0
        if op == "le" and (const == -1 or (left.const == 1 and left.terms)):
            op, left, const = "lt", left - constant(int(const == 0)), 0
        if const:
            raise NoPoints("an integer of it may not fit 32 bits")
        for side, other in ((left, right), (right, left)):
            limit = self.trace.cut(side)
            if limit is not None and max(map(abs, other.interval(self.interval))) >= limit:
                raise NoPoints("an integer of it may not fit 32 bits")
        return self.emit(op, BOOL, self.affine(left), self.affine(right))

    def _exact(self, side: Affine) -> bool:
        """Whether a number can be added to a side of a comparison."""
        if any(kind == "scalar" for (kind, _), _ in side.terms):
            return False
        return self.trace.cut(side) is None

    def source(self, value: Source) -> int:
        """Any value."""
        if isinstance(value, Ref):
            return self.tape[value.node]
        return self.affine(value) if isinstance(value, Affine) else self.condition(value)

    # --- nodes ---------------------------------------------------------------------------------------------

    def _node(self, n: int) -> int:
        node = self.trace.nodes[n]
        chosen = self._chosen(node)
        if chosen is not None:
            return self.source(chosen)
        dtype = INT32 if node.dtype == INT64 else node.dtype
        match node.op:
            case "load":
                array, indices, path, site = node.attrs
                return self._load(array, indices, path, site, node.dtype)
            case "number":
                value, sized = node.attrs
                if not sized:
                    return self.emit("const", dtype, attrs=(value,))
                bits = np.asarray(value).astype(dtype).tobytes().ljust(8, b"\0")
                return self.slot((True, int.from_bytes(bits, "little", signed=True)), dtype)
            case "scalar":
                return self.slot((False, node.attrs[0]), dtype)
            case "phi":
                raise NoPoints("each turn of a loop needs the one before")
            case "reduce":
                return self.emit("reduce", dtype, self.source(node.args[0]), attrs=(node.attrs[0],))
        args = tuple(self.source(a) for a in node.args)
        return self.emit(node.op, dtype, *args, attrs=node.attrs)

    def _strides(self, array: int, indices: Sequence[Affine]) -> tuple[dict[int, int], int]:
        """The way of an access through an array: steps along the axes, and the offset of its first point."""
        binding = self.trace.binding
        steps: dict[int, int] = {}
        offset = binding.offsets[array]
        for index, stride in zip(indices, binding.strides[array], strict=True):
            offset += index.const * stride
            for (_, axis), c in index.terms:
                first, last = self.box[axis]
                offset += c * first * stride
                if first < last:
                    steps[axis] = steps.get(axis, 0) + c * stride
        return steps, offset

    def _load(self, array: int, indices: tuple[Affine, ...], path: Condition, site: int, dtype: Dtype) -> int:
        binding = self.trace.binding
        shape, strides = binding.shapes[array], binding.strides[array]
        intervals = [i.interval(self.interval) for i in indices]
        inside = [low >= 0 and high < e for (low, high), e in zip(intervals, shape, strict=True)]
        plain = all(i.plain for i in indices)
        if plain and all(inside):
            steps, offset = self._strides(array, indices)
            return self.emit("load", dtype, attrs=(self.access(array, False, steps, offset),))
        self.slow = self.slow or plain
        path = decided(path, self.interval)
        corner = sum(min(0, stride * (e - 1)) for stride, e in zip(strides, shape, strict=True))
        flat: int | None = self.integer(-corner) if corner else None
        if sum(abs(stride) * (e - 1) for stride, e in zip(strides, shape, strict=True)) > LARGEST:
            raise NoPoints("an array has more than 2**31 - 1 elements")
        for index, extent, stride, safe in zip(indices, shape, strides, inside, strict=True):
            if not stride and safe:
                continue
            place = self.affine(index)
            if not safe:
                last = constant(extent - 1) - index
                if implied(index, path, self.interval) and implied(last, path, self.interval):
                    # Only where nothing is read of it may it be outside.
                    place = self.emit("max", INT32, place, self.integer(0))
                    place = self.emit("min", INT32, place, self.integer(extent - 1))
                else:
                    if path != ALWAYS:
                        place = self.emit("where", INT32, self.condition(path), place, self.integer(0))
                    place = self.checked(place, extent, site)
            if stride != 1:
                place = self.emit("mul", INT32, place, self.integer(stride))
            flat = place if flat is None else self.emit("add", INT32, flat, place)
        if flat is None:
            flat = self.integer(0)
        whole = self.access(array, False, {}, binding.offsets[array] + corner)
        return self.emit("gather", dtype, flat, attrs=(whole,))

    def checked(self, index: int, extent: int, site: int) -> int:
        """An index of which a fault is reported where it is outside."""
        self.sites.append(site)
        attrs = (len(self.sites) - 1, True)
        return self.emit("wrap_index", INT32, index, self.integer(extent), attrs=attrs)

    def _store(self, region: Region) -> None:
        write = region.write
        dtype = self.trace.kernel.arrays[write.array].dtype
        steps, offset = self._strides(write.array, write.indices)
        value = self.source(write.value)
        if dtype == INT64:
            if isinstance(write.value, Affine) and self.trace.cut(write.value) is not None:
                raise NoPoints("an integer of it may not fit 32 bits")
            if self.body[value].dtype != INT64:
                value = self.emit("cast", INT64, value)
        for condition, index, extent in region.checks:
            there = self.integer(index)
            if condition != ALWAYS:
                zero = self.integer(0)
                there = self.emit("where", INT32, self.condition(condition), there, zero)
            self.checked(there, extent, write.site)
        if region.mask != ALWAYS:
            if dtype == INT64:
                raise NoPoints("an integer of it may not fit 32 bits")
            old = self.emit("load", dtype, attrs=(self.access(write.array, False, steps, offset),))
            value = self.emit("where", dtype, self.condition(region.mask), value, old)
        self.emit("store", dtype, value, attrs=(self.access(write.array, True, steps, offset),))

    # --- the kernel ----------------------------------------------------------------------------------------

    def access(self, array: int, output: bool, steps: dict[int, int], offset: int) -> int:
        """The number of an access."""
        if (array, output) not in self.operands:
            self.operands.append((array, output))
        entry = (self.operands.index((array, output)), {a: c for a, c in steps.items() if c}, offset)
        if entry not in self.accesses:
            self.accesses.append(entry)
        return self.accesses.index(entry)

    def _prune(self) -> None:
        """Leave out what nothing reads: of conditions that turned out to hold, for instance."""
        live = {n for n, i in enumerate(self.body) if i.op in ("store", "wrap_index")}
        for n in reversed(range(len(self.body))):
            if n in live:
                live.update(self.body[n].args)
        place = {n: k for k, n in enumerate(sorted(live))}
        self.body = [replace(self.body[n], args=tuple(place[a] for a in self.body[n].args)) for n in place]
        slots = list(dict.fromkeys(i.attrs[0] for i in self.body if i.op == "scalar"))
        self.scalars = [self.scalars[slot] for slot in slots]
        self.scalar_dtypes = [self.scalar_dtypes[slot] for slot in slots]
        self.body = [
            replace(i, attrs=(slots.index(i.attrs[0]),)) if i.op == "scalar" else i for i in self.body
        ]
        self.indexed = {i.attrs[0] for i in self.body if i.op == "index"}

    def _finish(self) -> Points:
        self._prune()
        extent = {a: self.box[a][1] - self.box[a][0] + 1 for a in (*self.parallel, *self.reduced)}
        for _, steps, _ in self.accesses:
            if not extent.keys() >= steps.keys():
                raise NoPoints("its loops run over different ranges")
        if not extent.keys() >= self.indexed:
            raise NoPoints("its loops run over different ranges")
        groups = [self._merged(axes, extent) for axes in (self.parallel, self.reduced)]
        axes = [group for groups_ in groups for group in groups_]
        place = {group[-1]: k for k, group in enumerate(axes)}
        extents = tuple(int(np.prod([extent[a] for a in group])) for group in axes)
        strides = [tuple(steps.get(group[-1], 0) for group in axes) for _, steps, _ in self.accesses]
        body = tuple(replace(i, attrs=(place[i.attrs[0]],)) if i.op == "index" else i for i in self.body)
        arrays = self.trace.kernel.arrays
        kernel = Kernel(
            len(groups[0]),
            len(groups[1]),
            tuple(
                Operand(f"{'y' if output else 'x'}{n}", arrays[a].dtype, output)
                for n, (a, output) in enumerate(self.operands)
            ),
            anchored([(o, walk, c) for (o, _, c), walk in zip(self.accesses, strides, strict=True)]),
            tuple(self.scalar_dtypes),
            body,
            self.trace.kernel.name,
        )
        binding = Binding(
            extents,
            tuple(strides),
            tuple(offset for _, _, offset in self.accesses),
            tuple(self.trace.binding.sizes[a] for a, _ in self.operands),
        )
        numbers = tuple(a for a, _ in self.operands)
        return Points(kernel, binding, numbers, tuple(self.scalars), tuple(self.sites), self.slow)

    def _merged(self, axes: list[int], extent: dict[int, int]) -> list[list[int]]:
        """The axes as memory lies, those that every access walks as one together, none of one point."""
        first = next(i for i in self.body if i.op == "store" or (axes is self.reduced and i.op == "load"))
        walk = self.accesses[first.attrs[0]][1]
        result: list[list[int]] = []
        for a in sorted(axes, key=lambda axis: -abs(walk.get(axis, 0))):
            if extent[a] == 1 and (axes is not self.reduced or len(axes) > 1):
                continue
            last = result[-1][-1] if result else -1
            if (
                result
                and not self.indexed & {a, last}
                and all(steps.get(last, 0) == steps.get(a, 0) * extent[a] for _, steps, _ in self.accesses)
            ):
                result[-1].append(a)
            else:
                result.append([a])
        return result
