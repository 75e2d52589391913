"""How the threads of scalar code are handed out to cores, so that no two cores write into one cache line.

A scalar store goes to the core's data cache, which is written back in lines of 64 bytes: where two cores
change one line, one of them loses. Threads are therefore cut along one axis of the grid, and only where every
array's stores move on with that axis, piece by piece in whole lines. Anything else runs on one core.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, inf

from ... import structured as s
from ...points.affine import Affine, Interval, atom, constant

LINE = 64  # bytes of a line of the data cache
THREADS = 16  # the fewest that are worth a core


@dataclass(frozen=True, slots=True)
class Way:
    """How the stores to one array go along an axis of the grid.

    Attributes
    ----------
    array : int
    axis : int
        Of the array: the one whose index is ``factor * id + c``.
    factor : int
    low, high : int
        The least and the greatest c.
    """

    array: int
    axis: int
    factor: int
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Cut:
    """How an axis of the grid is cut: pieces of `step` threads from `shift` on, `units` of them."""

    step: int
    shift: int
    units: int


def ways(kernel: s.StructuredKernel, axis: int) -> tuple[Way, ...] | None:
    """How each array that is written goes along an axis of the grid; None where one of them does not."""
    indices = _Indices(kernel)
    stores: dict[int, list[tuple[Affine | None, ...]]] = {}
    for statement in s.walk(kernel.body):
        if isinstance(statement, s.Atomic) and statement.array < len(kernel.arrays):
            return None
        if isinstance(statement, s.Store) and statement.array < len(kernel.arrays):
            places = tuple(indices.known.get(i) for i in statement.indices)
            stores.setdefault(statement.array, []).append(places)
    found: list[Way] = []
    for array, places_ in stores.items():
        way = _way(array, places_, axis, indices)
        if way is None:
            return None
        found.append(way)
    return tuple(found) if found else None


def _way(array: int, places: list[tuple[Affine | None, ...]], axis: int, indices: _Indices) -> Way | None:
    moving = ("axis", axis)
    for along in range(len(places[0])):
        forms = [f for place in places if (f := place[along]) is not None]
        factors = {f.coefficient(moving) for f in forms}
        if len(forms) < len(places) or len(factors) > 1:
            continue
        factor = factors.pop()
        rests = [f - atom(*moving) * factor for f in forms]
        if factor <= 0 or any(a not in indices.bounds for r in rests for a, _ in r.terms):
            continue
        ends = [end for r in rests for end in r.interval(indices.bounds.__getitem__)]
        if max(ends) - min(ends) < factor:
            return Way(array, along, factor, min(ends), max(ends))
    return None


def cut(kernel: s.StructuredKernel, binding: s.StructuredBinding, axis: int) -> Cut | None:
    """The pieces of an axis of the grid that meet no common line; None where there are none.

    Buffers begin at a line.
    """
    along = ways(kernel, axis)
    if along is None:
        return None
    starts: list[tuple[int, int, int]] = []  # bytes of each thread, of the first, of all
    for way in along:
        size = kernel.arrays[way.array].dtype.itemsize
        shape, strides = binding.shapes[way.array], binding.strides[way.array]
        if 0 in shape:
            continue
        forward = strides[way.axis] * way.factor
        rest = sum(
            abs(st) * (e - 1) for k, (e, st) in enumerate(zip(shape, strides, strict=True)) if k != way.axis
        )
        if min(strides) < 0 or rest + (way.high - way.low) * strides[way.axis] >= forward:
            return None
        first = binding.offsets[way.array] + way.low * strides[way.axis]
        starts.append((forward * size, first * size, LINE // gcd(LINE, forward * size)))
    step = max((s for _, _, s in starts), default=1)
    for shift in range(step):
        if all((first + shift * forward) % LINE == 0 for forward, first, _ in starts):
            begin = shift - step if shift else 0
            return Cut(step, begin, -(-(binding.grid[axis] - begin) // step))
    return None


class _Indices:
    """The integers of a kernel that are affine in ids and the numbers of loops.

    Attributes
    ----------
    known : dict of int to Affine
        By value; atoms are ``("axis", k)`` for a global id, ``("group", k)`` and ``("local", k)``, and
        ``("node", value)`` for the number of a loop or a span.
    bounds : dict of atom to Interval
        Of the loops that have some.
    """

    def __init__(self, kernel: s.StructuredKernel) -> None:
        self.block = kernel.block or (1,) * kernel.axes
        self.known: dict[int, Affine] = {}
        self.bounds: dict[tuple[str, int], Interval] = {}
        self.most: dict[int, int] = {}  # values with a greatest number
        self.sets: dict[int, list[int]] = {}
        for statement in s.walk(kernel.body):
            if isinstance(statement, s.Set):
                self.sets.setdefault(statement.variable, []).append(statement.value)
        for statement in s.walk(kernel.body):
            match statement:
                case s.Let():
                    self.let(statement)
                case s.Span(values, extents, _):
                    for value, extent in zip(values, extents, strict=True):
                        self.loop(value, 0, self.most.get(extent))
                case s.For(value, start, stop, step, _):
                    ends = [self.known.get(start), self.known.get(stop)]
                    if step > 0 and all(e is not None and not e.terms for e in ends):
                        first, last = (e.const for e in ends if e is not None)
                        self.loop(value, first, last)

    def loop(self, value: int, first: int, stop: int | None) -> None:
        self.known[value] = atom("node", value)
        if stop is not None:
            self.bounds["node", value] = (first, max(first, stop - 1))

    def let(self, let: s.Let) -> None:
        if let.dtype.kind != "i" or let.dtype.itemsize < 8:
            return
        limits = [self.most[a] for a in let.args if a in self.most]
        if let.op == "min" and limits:
            self.most[let.value] = min(limits)
        elif let.op == "max" and len(limits) == 2:
            self.most[let.value] = max(limits)
        form = self.form(let, [self.known.get(a) for a in let.args])
        if form is not None:
            self.known[let.value] = form = self.joined(form)
            if not form.terms:
                self.most[let.value] = form.const

    def form(self, let: s.Let, args: list[Affine | None]) -> Affine | None:
        match let.op:
            case "global_id":
                return atom("axis", let.attrs[0])
            case "group_id":
                return atom("group" if self.block[let.attrs[0]] > 1 else "axis", let.attrs[0])
            case "local_id":
                return atom("local", let.attrs[0]) if self.block[let.attrs[0]] > 1 else constant(0)
            case "block_size":
                return constant(self.block[let.attrs[0]])
            case "const":
                return constant(int(let.attrs[0]))
            case "get":
                sets = self.sets.get(let.attrs[0], ())
                return self.known.get(sets[0]) if len(sets) == 1 else None
        if any(a is None for a in args):
            return None
        match let.op, args:
            case "add", [Affine() as a, Affine() as b]:
                return a + b
            case "sub", [Affine() as a, Affine() as b]:
                return a - b
            case "mul", [Affine() as a, Affine() as b]:
                a, b = (b, a) if b.terms else (a, b)
                return None if b.terms else a * b.const
            case "min" | "max" as op, [Affine() as a, Affine() as b]:
                low, high = self.interval(a - b)
                if low >= 0:
                    return a if op == "max" else b
                return (b if op == "max" else a) if high <= 0 else None
        return None

    def interval(self, form: Affine) -> tuple[float, float]:
        """The least and the greatest it may be, as far as that is known without sizes."""
        low = high = float(form.const)
        for place, factor in form.terms:
            bounds = self.bounds.get(place, (-inf if place[0] == "node" else 0, inf))
            ends = [factor * end for end in bounds]
            low, high = low + min(ends), high + max(ends)
        return low, high

    def joined(self, form: Affine) -> Affine:
        """A group's number times its threads and the number within the group are an id together."""
        for axis, size in enumerate(self.block):
            within = form.coefficient(("local", axis))
            if within and form.coefficient(("group", axis)) == within * size:
                id = atom("axis", axis) - atom("group", axis) * size
                form = form.replaced(("local", axis), id)
        return form
