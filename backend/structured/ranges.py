"""Intervals of values: which accesses cannot leave their arrays, and which integers are small.

Abstract interpretation with intervals (P. Cousot and R. Cousot, "Static determination of dynamic properties
of programs", 1976) for the sizes of one launch: ids, extents and sizes are known exactly or by their limits,
conditions narrow what they compare, variables are joined where ways meet and widened in loops. What is loaded
may be anything that its dtype holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import NamedTuple

from .. import structured as s
from ..ir import Dtype
from .range_transfer import Interval, anything, compared, exactly, hull, inverse, meet, transfer
from .rewrite import INT64

# How often the narrowing by one condition goes on from value to value.
_STEPS = 200
# Passes over a loop after which what still grows may be anything.
_PASSES = 4


class _Held(NamedTuple):
    """What is known of a variable.

    Attributes
    ----------
    interval : Interval
    value : int
        The value that it equals, or -1.
    tells : tuple of (bool, int, bool)
        Where it is the first, the condition that is the second is the third: what is left of the branch in
        which it was set, as for ``i > 0 and a[i - 1] > 0``.
    """

    interval: Interval
    value: int = -1
    tells: tuple[tuple[bool, int, bool], ...] = ()


_State = dict[int, _Held]


def proven(
    kernel: s.StructuredKernel, binding: s.StructuredBinding, scalars: Mapping[int, int] | None = None
) -> frozenset[int]:
    """The sites that cannot leave their arrays in this launch, -1 among them.

    Parameters
    ----------
    kernel : StructuredKernel
    binding : StructuredBinding
    scalars : mapping of int to int, optional
        The scalar arguments that are known, by slot.
    """
    analysis = _Ranges(kernel, binding, scalars or {})
    analysis.run()
    return frozenset(analysis.sites - analysis.outside)


def intervals(
    kernel: s.StructuredKernel, binding: s.StructuredBinding, scalars: Mapping[int, int] | None = None
) -> dict[int, tuple[int, int]]:
    """The least and the greatest number that each integer or bool value of the kernel may be in this launch.

    A value that is never computed is given as (0, 0).
    """
    analysis = _Ranges(kernel, binding, scalars or {})
    analysis.run()
    return {v: analysis.found.get(v, (0, 0)) for v, dtype in analysis.dtypes.items() if dtype.kind in "biu"}


class _Dead(Exception):
    """Nothing comes here."""


class _Loop:
    """The states in which turns of a loop are left."""

    def __init__(self) -> None:
        self.breaks: list[_State] = []
        self.continues: list[_State] = []


class _Ranges:
    def __init__(
        self, kernel: s.StructuredKernel, binding: s.StructuredBinding, scalars: Mapping[int, int]
    ) -> None:
        self.kernel = kernel
        self.binding = binding
        self.scalars = scalars
        self.values: dict[int, Interval] = {}
        self.trail: list[tuple[int, Interval]] = []  # narrowed values, as they were
        self.tells: dict[int, tuple[tuple[bool, int, bool], ...]] = {}  # `_Held.tells` of readings
        self.defined: list[int] = []  # the values in scope, as they came
        self.state: _State = {}
        self.lets: dict[int, s.Let] = {}
        self.dtypes: dict[int, Dtype] = {}
        self.users: dict[int, list[s.Let]] = {}
        self.equal: dict[int, int] = {}  # a reading of a variable, and the value the variable has
        self.group: dict[int, list[int]] = {}  # the other way round
        self.sites: set[int] = {-1}
        self.outside: set[int] = set()
        self.found: dict[int, tuple[int, int]] = {}
        self.recording = True
        self.prepare(kernel.body)

    def prepare(self, body: s.Block) -> None:
        for x in s.walk(body):
            match x:
                case s.Let():
                    self.lets[x.value] = x
                    self.dtypes[x.value] = x.dtype
                    if x.op == "load":
                        self.sites.add(x.attrs[1])
                    else:
                        for arg in x.args:
                            self.users.setdefault(arg, []).append(x)
                case s.Store() | s.Atomic() | s.TileCopy():
                    self.sites.add(x.site)
                    if isinstance(x, s.Atomic) and x.result >= 0:
                        self.dtypes[x.result] = self.kernel.storage(x.array).dtype
                case s.For(value, _, _, _, _):
                    self.dtypes[value] = INT64
                case s.Span(values, _, _):
                    self.dtypes |= dict.fromkeys(values, INT64)

    def run(self) -> None:
        with suppress(_Dead):
            self.block(self.kernel.body, _Loop())

    # --- values --------------------------------------------------------------------------------------------

    def of(self, value: int) -> Interval:
        return self.values[self.equal.get(value, value)]

    def define(self, value: int, interval: Interval) -> None:
        self.values[value] = interval
        self.defined.append(value)
        if self.recording and type(interval[0]) is int and type(interval[1]) is int:
            low, high = interval[0], interval[1]
            before = self.found.get(value)
            self.found[value] = (min(low, before[0]), max(high, before[1])) if before else (low, high)

    def let(self, let: s.Let) -> None:
        value, attrs = let.value, let.attrs
        if let.op == "get":
            return self.get(value, attrs[0])
        if let.op == "load":
            self.access(attrs[0], let.args, attrs[1])
        self.define(value, self.computed(let))
        return None

    def get(self, value: int, variable: int) -> None:
        held = self.state.get(variable, _Held(anything(self.dtypes[value])))
        interval, known = held.interval, held.value
        if known >= 0 and known != value:
            self.equal[value] = known
            self.group.setdefault(known, []).append(value)
            interval = self.values[known]
        else:
            self.state[variable] = _Held(interval, value)
            self.tells[value] = held.tells
        self.define(value, interval)

    def computed(self, let: s.Let) -> Interval:
        attrs, binding, kernel = let.attrs, self.binding, self.kernel
        match let.op:
            case "global_id":
                return (0, binding.grid[attrs[0]] - 1, False)
            case "local_id":
                return (0, min(kernel.block[attrs[0]], binding.grid[attrs[0]]) - 1, False)
            case "group_id":
                return (0, (binding.grid[attrs[0]] - 1) // kernel.block[attrs[0]], False)
            case "global_size":
                return exactly(binding.grid[attrs[0]])
            case "block_size":
                return exactly(kernel.block[attrs[0]])
            case "extent":
                return exactly(binding.shapes[attrs[0]][attrs[1]])
            case "scalar":
                known = self.scalars.get(attrs[0])
                return anything(let.dtype) if known is None else exactly(known)
            case "const":
                return transfer("const", let.dtype, (exactly(attrs[0]),), ())
            case "load" | "call":
                return anything(let.dtype)
            case "where":
                return self.chosen(*let.args)
        args = tuple(self.of(a) for a in let.args)
        return transfer(let.op, let.dtype, args, tuple(self.dtypes[a] for a in let.args))

    def chosen(self, condition: int, x: int, y: int) -> Interval:
        """The values of ``where``: each where the condition lets it be."""
        sides = []
        for truth, value in ((True, x), (False, y)):
            try:
                with self.kept():
                    self.suppose(condition, truth)
                    sides.append(self.of(value))
            except _Dead:
                continue
        return hull(*sides) if sides else hull(self.of(x), self.of(y))

    def access(self, array: int, indices: tuple[int, ...], site: int) -> None:
        if not self.recording or site in self.outside or site < 0:
            return
        count = len(self.kernel.arrays)
        shape = self.binding.shapes[array] if array < count else self.kernel.buffers[array - count].shape
        for index, extent in zip(indices, shape, strict=True):
            low, high, _ = self.of(index)
            if low < 0 or high >= extent:
                self.outside.add(site)

    # --- what conditions tell ------------------------------------------------------------------------------

    @contextmanager
    def kept(self) -> Iterator[None]:
        """A scope: what is narrowed within is as before afterwards, and what is defined is gone."""
        mark, count = len(self.trail), len(self.defined)
        try:
            yield
        finally:
            while len(self.trail) > mark:
                value, interval = self.trail.pop()
                self.values[value] = interval
            for value in self.defined[count:]:
                del self.values[value]
                known = self.equal.pop(value, None)
                if known is not None:
                    self.group[known].remove(value)
            del self.defined[count:]

    def suppose(self, condition: int, truth: bool) -> None:
        """Narrow by a condition. Raises _Dead where it cannot be so."""
        self.narrow(condition, exactly(truth))
        condition = self.equal.get(condition, condition)
        for own, other, holds in self.tells.get(condition, ()):
            if own == truth and other in self.values:
                self.suppose(other, holds)
        let = self.lets.get(condition)
        if let is None:
            return
        match let.op, truth:
            case ("and", True) | ("or", False):
                for arg in let.args:
                    self.suppose(arg, truth)
            case "not", _:
                self.suppose(let.args[0], not truth)
            case (("lt" | "le" | "eq" | "ne"), _):
                a, b = let.args
                x, y = compared(let.op, truth, self.of(a), self.of(b), self.dtypes[a])
                self.narrow(a, x)
                self.narrow(b, y)

    def narrow(self, value: int, interval: Interval) -> None:
        """Take in that a value is in an interval, and what follows for those it is computed from and to."""
        work = [(value, interval)]
        for _ in range(_STEPS):
            if not work:
                return
            value, interval = work.pop()
            value = self.equal.get(value, value)
            before = self.values.get(value)
            if before is None:
                continue
            after = meet(before, interval)
            if after is None:
                raise _Dead
            if after == before:
                continue
            self.trail.append((value, before))
            self.values[value] = after
            let = self.lets.get(value)
            if let is not None and let.args and let.op not in ("load", "call"):
                args = [self.of(a) for a in let.args]
                told = inverse(let.op, let.dtype, after, args, self.dtypes[let.args[0]])
                work += zip(let.args, told, strict=False)
            for member in (value, *self.group.get(value, ())):
                for user in self.users.get(member, ()):
                    if user.value in self.values and user.op not in ("where", "call"):
                        work.append((user.value, self.computed(user)))

    # --- statements ----------------------------------------------------------------------------------------

    def block(self, body: s.Block, loop: _Loop) -> None:
        """Raises _Dead where its end is not come to."""
        for statement in body:
            self.statement(statement, loop)

    def statement(self, statement: s.Statement, loop: _Loop) -> None:
        match statement:
            case s.Let():
                self.let(statement)
            case s.Set(variable, value):
                self.state[variable] = _Held(self.of(value), self.equal.get(value, value))
            case s.Store(array, indices, _, site):
                self.access(array, indices, site)
            case s.Atomic(_, array, indices, _, site, result):
                self.access(array, indices, site)
                if result >= 0:
                    self.define(result, anything(self.kernel.storage(array).dtype))
            case s.If():
                self.branch(statement, loop)
            case s.For():
                self.for_(statement)
            case s.While():
                self.while_(statement)
            case s.Span(values, extents, body):
                before = dict(self.state)
                try:
                    with self.kept():
                        for value, extent in zip(values, extents, strict=True):
                            self.define(value, self.counted(exactly(0), self.of(extent), 1))
                        self.block(body, _Loop())
                except _Dead:
                    pass
                self.state = before
            case s.Break():
                loop.breaks.append(self.now())
                raise _Dead
            case s.Continue():
                loop.continues.append(self.now())
                raise _Dead
            case s.Return():
                raise _Dead

    def now(self) -> _State:
        """The variables as they are, narrowed as the values they equal are."""
        return {
            variable: held
            if held.value < 0
            else _Held(self.values[held.value], held.value, self.tells.get(held.value, ()))
            for variable, held in self.state.items()
        }

    def joined(self, states: list[_State], among: _State | None = None) -> _State:
        """What holds in all of the states, of the variables that are set in all of them."""
        first, *rest = states
        result: _State = {}
        for variable, (interval, value, tells) in first.items():
            if among is not None and variable not in among:
                continue
            for state in rest:
                other = state.get(variable)
                if other is None:
                    break
                interval = hull(interval, other.interval)
                value = value if value == other.value else -1
                tells = tells if tells == other.tells else ()
            else:
                tells = tuple(x for x in tells if x[1] in self.values)
                result[variable] = _Held(interval, value if value in self.values else -1, tells)
        return result

    def tell(self, ends: list[tuple[bool, _State]], condition: int) -> None:
        """Note what a bool that is settled on one way tells of the condition that led there."""
        for (_, settled), (way, other) in (ends, ends[::-1]):
            for variable, held in self.state.items():
                if self.kernel.variables[variable].kind != "b" or held.value >= 0:
                    continue
                low, high, _ = settled[variable].interval
                there = other[variable]
                if low == high and there.interval != settled[variable].interval:
                    opposite = not low
                    more = tuple(x for x in there.tells if x[0] == opposite and x[1] in self.values)
                    self.state[variable] = held._replace(
                        tells=(*held.tells, (opposite, condition, way), *more)
                    )

    def branch(self, statement: s.If, loop: _Loop) -> None:
        before = self.now()
        ends: list[tuple[bool, _State]] = []
        for truth, body in ((True, statement.then), (False, statement.orelse)):
            self.state = dict(before)
            try:
                with self.kept():
                    self.suppose(statement.condition, truth)
                    self.block(body, loop)
                    ends.append((truth, self.now()))
            except _Dead:
                continue
        if not ends:
            raise _Dead
        self.state = self.joined([state for _, state in ends])
        if len(ends) == 1:
            self.suppose(statement.condition, ends[0][0])
        else:
            self.tell(ends, statement.condition)

    @staticmethod
    def counted(start: Interval, stop: Interval, step: int) -> Interval:
        """The numbers of a loop."""
        if step > 0:
            low, high = start[0], stop[1] - 1
            if start[0] == start[1] and high >= low:
                high = low + (high - low) // step * step
        else:
            low, high = stop[0] + 1, start[1]
            if start[0] == start[1] and high >= low:
                low = high - (high - low) // -step * -step
        if low > high:
            raise _Dead
        return (low, high, False)

    def for_(self, statement: s.For) -> None:
        entry = self.now()
        start, stop = self.of(statement.start), self.of(statement.stop)
        try:
            numbers = self.counted(start, stop, statement.step)
        except _Dead:
            return

        def turn(loop: _Loop) -> list[_State]:
            self.define(statement.value, numbers)
            try:
                self.block(statement.body, loop)
            except _Dead:
                return loop.continues
            return [*loop.continues, self.now()]

        ends, loop = self.fixpoint(statement, entry, turn)
        self.state = self.joined([entry, *ends, *loop.breaks])

    def while_(self, statement: s.While) -> None:
        left: list[_State] = []

        def turn(loop: _Loop) -> list[_State]:
            left.clear()
            try:
                self.block(statement.head, loop)
            except _Dead:
                return loop.continues
            here = self.now()
            try:
                with self.kept():
                    self.suppose(statement.condition, False)
                    left.append(self.now())
            except _Dead:
                pass
            self.state = here
            try:
                self.suppose(statement.condition, True)
                self.block(statement.body, loop)
            except _Dead:
                return loop.continues
            return [*loop.continues, self.now()]

        _, loop = self.fixpoint(statement, self.now(), turn)
        ends = [*left, *loop.breaks]
        if not ends:
            raise _Dead
        self.state = self.joined(ends)

    def fixpoint(
        self, statement: s.Statement, entry: _State, turn: Callable[[_Loop], list[_State]]
    ) -> tuple[list[_State], _Loop]:
        """Pass over a loop until no variable leaves what it is taken to be, and once more to note sites."""
        written = {x.variable for x in s.walk((statement,)) if isinstance(x, s.Set)}
        dtypes, recording = self.kernel.variables, self.recording
        head: _State = {}
        moving = False
        for variable, held in entry.items():
            if variable not in written:
                head[variable] = held
            elif dtypes[variable].kind in "fV":
                head[variable] = _Held(anything(dtypes[variable]))
            else:
                head[variable] = _Held(held.interval)
                moving = True
        start = dict(head)

        def once(state: _State) -> tuple[list[_State], _Loop]:
            loop = _Loop()
            self.state = dict(state)
            with self.kept():
                return turn(loop), loop

        if moving:
            self.recording = False
            for attempt in range(_PASSES + 1):
                ends, _ = once(head)
                grown = self.joined([start, *ends], among=start)
                changing = [v for v in head if v in written]
                if all(hull(head[v].interval, grown[v].interval) == head[v].interval for v in changing):
                    # What comes of a state that holds, holds too, and may be narrower.
                    head |= {v: _Held(grown[v].interval) for v in changing}
                    break
                head |= {
                    v: _Held(_widened(head[v].interval, grown[v].interval, dtypes[v], attempt))
                    for v in changing
                }
            else:
                head |= {v: _Held(anything(dtypes[v])) for v in head if v in written}
            self.recording = recording
        ends, loop = once(head)
        return ends, loop


def _widened(before: Interval, grown: Interval, dtype: Dtype, attempt: int) -> Interval:
    both = hull(before, grown)
    if attempt == 0 or both == before:
        return both
    least, greatest, nan = anything(dtype)
    low = both[0] if both[0] == before[0] else (0 if both[0] >= 0 and attempt < _PASSES - 1 else least)
    high = both[1] if both[1] == before[1] else greatest
    return (low, high, both[2] or (nan and attempt >= _PASSES - 1))
