"""Expressions of the position of a thread: nodes, whole numbers, conditions, and what is known of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...ops.meaning import neutral
from ...ops.primitives import PRIMITIVES
from ..ir import Dtype
from ..structured import range_transfer
from .affine import (
    ALWAYS,
    NEVER,
    Affine,
    All,
    Atom,
    Condition,
    Flag,
    Interval,
    Some,
    Test,
    Truth,
    atom,
    constant,
    decided,
    every,
    negated,
    some,
    tests,
)

BOOL, INT32, INT64 = (np.dtype(t) for t in (np.bool_, np.int32, np.int64))
LARGEST = 2**31 - 1
INT32_BOUNDS: Interval = (-(2**31), LARGEST)
INT64_BOUNDS: Interval = (-(2**63), 2**63 - 1)
MAX_NODES = 2000
# To a value that was cut off to 32 bits no more than this is added.
MAX_ADDED = 1 << 20


class NoPoints(Exception):
    """A kernel that is not the same expression at every point; the text says why."""


@dataclass(frozen=True, slots=True)
class Ref:
    """The value of a node that is neither int64, an `Affine`, nor bool, a condition."""

    node: int


Source = Ref | Affine | Truth | Test | Flag | All | Some


@dataclass(frozen=True, slots=True)
class Node:
    """An instruction of the expressions.

    ======== ======== ==================================================================
    op       args     attrs
    ======== ======== ==================================================================
    load     ()       (array, indices, condition under which it is touched, site)
    number   ()       (a Python number, whether it follows from sizes)
    scalar   ()       (slot,)
    phi      ()       (number,) what a variable holds when a turn of a loop begins
    reduce   (value,) (how, axes)
    other    values   the primitive's
    ======== ======== ==================================================================
    """

    op: str
    dtype: Dtype
    args: tuple[Source, ...] = ()
    attrs: tuple[Any, ...] = ()


_COMPARISONS = ("lt", "le", "eq", "ne")


class Expressions:
    """Nodes, each of which is there once, and what is known of them.

    Parameters
    ----------
    extents : list of int
        Positions along each axis: of the grid, and of the loops that are axes.
    """

    def __init__(self, extents: list[int]) -> None:
        self.extents = extents
        self.nodes: list[Node] = []
        self.bounds: dict[int, Interval] = {}  # of int64 nodes
        self.limit: dict[int, int] = {}  # of those cut off to 32 bits: below it they are right
        self.phis: list[frozenset[int]] = []  # for each node, the phis it depends on
        self._known: dict[Node, int] = {}
        self._ranges: dict[int, range_transfer.Interval] = {}

    # --- bounds ------------------------------------------------------------------------------------------

    def interval(self, of: Atom) -> Interval:
        """The bounds of an atom at any point."""
        kind, number = of
        if kind == "axis":
            return 0, self.extents[number] - 1
        return INT32_BOUNDS if kind == "scalar" else self.bounds[number]

    def range(self, source: Source) -> range_transfer.Interval:
        """The numbers that a value may be at any point, also where no thread needs it."""
        for n in self.closure([n for n in mentioned(source) if n not in self._ranges]):
            if n not in self._ranges:
                self._ranges[n] = self._range(self.nodes[n])
        if isinstance(source, Ref):
            return self._ranges[source.node]
        if isinstance(source, Affine):
            return (*source.interval(self.interval), False)
        return range_transfer.anything(BOOL)

    def _range(self, node: Node) -> range_transfer.Interval:
        if node.op == "number":
            return range_transfer.exactly(node.attrs[0])
        args = tuple(self.range(a) for a in node.args)
        if node.op == "where":
            return range_transfer.hull(*args[1:])
        return range_transfer.transfer(node.op, node.dtype, args, tuple(map(self.dtype, node.args)))

    def dtype(self, source: Source) -> Dtype:
        """Of a value."""
        if isinstance(source, Ref):
            return self.nodes[source.node].dtype
        return INT64 if isinstance(source, Affine) else BOOL

    def cut(self, value: Affine) -> int | None:
        """Of a node that was cut off to 32 bits, with a number added: below what it is right; else None."""
        if len(value.terms) != 1 or value.terms[0][1] != 1 or value.terms[0][0][0] != "node":
            return None
        limit = self.limit.get(value.terms[0][0][1])
        return None if limit is None or abs(value.const) > MAX_ADDED else limit - abs(value.const)

    # --- nodes -------------------------------------------------------------------------------------------

    def node(
        self,
        op: str,
        dtype: Dtype,
        args: tuple[Source, ...] = (),
        attrs: tuple[Any, ...] = (),
        bounds: Interval | None = None,
        limit: int | None = None,
    ) -> Source:
        """A value that an instruction computes."""
        node = Node(op, dtype, args, attrs)
        number = self._known.get(node)
        if number is None:
            number = self._known[node] = len(self.nodes)
            if number > MAX_NODES:
                raise NoPoints("it is too long")
            self.nodes.append(node)
            self.phis.append(frozenset().union(*(self.phis[n] for n in below(node))))
            if dtype == INT64:
                low, high = bounds or INT64_BOUNDS
                self.bounds[number] = low, high
                if low < INT32_BOUNDS[0] or high > LARGEST:
                    if limit is None:
                        raise NoPoints("an integer of it may not fit 32 bits")
                    self.limit[number] = limit
        return self.named(number)

    def named(self, number: int) -> Source:
        """The value of a node."""
        dtype = self.nodes[number].dtype
        if dtype == INT64:
            return atom("node", number)
        return Flag(number) if dtype == BOOL else Ref(number)

    def depends(self, source: Source) -> frozenset[int]:
        """The phis that a value depends on."""
        return frozenset().union(*(self.phis[n] for n in mentioned(source)))

    def closure(
        self, start: Sequence[int], instead: Callable[[Node], Source | None] = lambda _: None
    ) -> list[int]:
        """Nodes and all they are computed from, in order; `instead` may say what stands for a node."""
        needed: set[int] = set()
        stack = list(start)
        while stack:
            n = stack.pop()
            if n not in needed:
                needed.add(n)
                other = instead(self.nodes[n])
                stack += below(self.nodes[n]) if other is None else mentioned(other)
        return sorted(needed)

    def number(self, value: Any, dtype: Dtype, sized: bool) -> Source:
        """A number, which follows from sizes or stands in the text."""
        if dtype == BOOL:
            return Truth(bool(value))
        if dtype == INT64:
            return constant(int(value))
        plain = float(value) if dtype.kind in "fV" else int(value)
        return self.node("number", dtype, (), (plain, sized or plain != plain))

    def select(self, condition: Condition, x: Source, y: Source) -> Source:
        """``x`` where a condition holds, else ``y``."""
        condition = decided(condition, self.interval)
        if isinstance(condition, Truth):
            return x if condition.value else y
        if x == y:
            return x
        if isinstance(x, Affine) and isinstance(y, Affine):
            difference = x - y
            if not difference.terms:
                one = self.node("cast", INT64, (condition,), (), (0, 1))
                assert isinstance(one, Affine)
                return y + one * difference.const
            return self.integers("where", (condition, x, y))
        if not isinstance(x, Ref) and not isinstance(y, Ref):
            assert not isinstance(x, Affine) and not isinstance(y, Affine)
            if x == ALWAYS:
                return some(condition, y)
            if y == NEVER:
                return every(condition, x)
            return some(every(condition, x), every(negated(condition), y))
        return self.node("where", self.dtype(x), (condition, x, y))

    def primitive(
        self, op: str, dtype: Dtype, args: tuple[Source, ...], attrs: tuple[Any, ...] = ()
    ) -> Source:
        """The result of an elementwise primitive."""
        folded = self._folded(op, dtype, args, attrs)
        if folded is not None:
            return folded
        if op == "where":
            condition, x, y = args
            assert not isinstance(condition, Ref | Affine)
            return self.select(condition, x, y)
        first = args[0]
        if isinstance(first, Affine):
            if op in _COMPARISONS:
                assert isinstance(args[1], Affine)
                return _compared(op, first, args[1])
            return self._of_integer(op, dtype, args, attrs)
        if not isinstance(first, Ref):
            found = _of_conditions(op, dtype, args)  # type: ignore[arg-type]
            if found is not None:
                return found
        if op == "cast" and dtype == INT64:
            origin = self.dtype(first)
            low, high, _ = range_transfer.transfer(op, dtype, (self.range(first),), (origin,))
            return self.node(op, dtype, args, attrs, (low, high), LARGEST if origin.kind in "fV" else None)
        return self.node(op, dtype, args, attrs)

    def _folded(
        self, op: str, dtype: Dtype, args: tuple[Source, ...], attrs: tuple[Any, ...]
    ) -> Source | None:
        """The result where the operands are numbers; it follows from sizes where one of them does."""
        numbers: list[tuple[Any, bool]] = []
        for arg in args:
            match arg:
                case Affine((), value):
                    numbers.append((value, True))
                case Truth(value):
                    numbers.append((value, False))
                case Ref(n) if self.nodes[n].op == "number":
                    numbers.append(self.nodes[n].attrs)
                case _:
                    return None
        if dtype == BOOL and self.dtype(args[0]) == BOOL:
            return None
        arrays = [np.asarray(v).astype(self.dtype(a)) for (v, _), a in zip(numbers, args, strict=True)]
        with np.errstate(all="ignore"):
            result = PRIMITIVES[op].meaning(*arrays, attrs=attrs, shape=(), dtype=dtype)
        return self.number(np.asarray(result)[()], dtype, any(sized for _, sized in numbers))

    def _of_integer(self, op: str, dtype: Dtype, args: tuple[Source, ...], attrs: tuple[Any, ...]) -> Source:
        """What is computed of 64-bit integers."""
        x = args[0]
        assert isinstance(x, Affine)
        match op:
            case "neg":
                return x * -1
            case "add" | "sub" | "mul":
                y = args[1]
                assert isinstance(y, Affine)
                if op != "mul":
                    return x + y if op == "add" else x - y
                if not y.terms:
                    return x * y.const
                if not x.terms:
                    return y * x.const
            case "cast" if dtype == INT64:
                return x
            case "cast" if dtype == BOOL:
                return Test("ne", x)
            case "cast":
                back = self._back(x, dtype)
                return back or self.node(op, dtype, (self.narrow(x),), attrs)
        if dtype != INT64:
            raise NoPoints(f"{op} of 64-bit integers has no vector instructions")
        return self.integers(op, args, attrs)

    def _back(self, value: Affine, dtype: Dtype) -> Source | None:
        """A float that was made a whole number and is made a float again: cut off, whatever its size."""
        if self.cut(value) is None or value.const:
            return None
        node = self.nodes[value.terms[0][0][1]]
        if node.op != "cast" or self.dtype(node.args[0]) != dtype or dtype.kind not in "fV":
            return None
        (x,) = node.args
        assert isinstance(x, Ref)
        if self.nodes[x.node].op not in ("floor", "ceil", "trunc", "rint"):
            x = self.node("trunc", dtype, (x,))
        zero = self.number(0.0, dtype, False)
        if dtype.itemsize > 2 or dtype.kind == "V":  # float16 has no number as large
            for op, limit in (("max", -(2.0**63)), ("min", 2.0**63)):
                x = self.node(op, dtype, (x, self.number(limit, dtype, False)))
        there = self.node("eq", BOOL, (x, x))
        assert isinstance(there, Flag)
        # No negative zero remains.
        return self.node("where", dtype, (there, self.node("add", dtype, (x, zero)), zero))

    def narrow(self, value: Affine) -> Affine:
        low, high = value.interval(self.interval)
        if low < INT32_BOUNDS[0] or high > LARGEST:
            raise NoPoints("an integer of it may not fit 32 bits")
        return value

    def integers(self, op: str, args: tuple[Source, ...], attrs: tuple[Any, ...] = ()) -> Source:
        """A node of 64-bit integers, which are computed in 32 bits, with its bounds."""
        values = [a for a in args if isinstance(a, Affine)]
        cuts = [c for v in values if (c := self.cut(v)) is not None]
        bounds = [v.interval(self.interval) for v in values]
        limit = min(cuts, default=None)
        if cuts and op in ("min", "max", "where"):
            for value, (low, high) in zip(values, bounds, strict=True):
                if self.cut(value) is None and not (-min(cuts) < low and high < min(cuts)):
                    raise NoPoints("an integer of it may not fit 32 bits")
            if len(cuts) > 1 and op != "where":
                raise NoPoints("an integer of it may not fit 32 bits")
        else:
            for value in values:
                self.narrow(value)
            limit = None
        return self.node(op, INT64, args, attrs, _bounds(op, bounds), limit)


def mentioned(source: Source) -> list[int]:
    """The nodes that stand in a value."""
    if isinstance(source, Ref):
        return [source.node]
    if isinstance(source, Affine):
        return [number for (kind, number), _ in source.terms if kind == "node"]
    found: list[int] = []
    for test in tests(source):
        found += [test.node] if isinstance(test, Flag) else mentioned(test.value)
    return found


def below(node: Node) -> Iterator[int]:
    """The nodes that a node is computed from."""
    for arg in node.args:
        yield from mentioned(arg)
    if node.op == "load":
        for index in node.attrs[1]:
            yield from mentioned(index)
        yield from mentioned(node.attrs[2])


def _compared(op: str, x: Affine, y: Affine) -> Condition:
    if op in ("eq", "ne"):
        return Test(op, x - y)
    return Test("ge", y - x - constant(op == "lt"))


def _of_conditions(op: str, dtype: Dtype, args: tuple[Condition, ...]) -> Source | None:
    """Logic of conditions; None where an instruction has to do it."""
    if dtype != BOOL:
        return None
    x = args[0]
    if op in ("cast", "not"):
        return x if op == "cast" else negated(x)
    y = args[1]
    match op:
        case "and" | "mul" | "min":
            return every(x, y)
        case "or" | "add" | "max":
            return some(x, y)
        case "xor" | "ne":
            return some(every(x, negated(y)), every(negated(x), y))
        case "eq":
            return some(every(x, y), every(negated(x), negated(y)))
        case "lt":
            return every(negated(x), y)
        case "le":
            return some(negated(x), y)
    return None


def identity(how: str, dtype: Dtype) -> Any:
    """What changes nothing when combined by ``how``; of int64 within the 32 bits it is computed in."""
    return INT32_BOUNDS[how == "min"] if dtype == INT64 and how in ("max", "min") else neutral(how, dtype)


def _bounds(op: str, of: list[Interval]) -> Interval:
    """Of a 64-bit integer, from those of its operands."""
    (a, b), (c, d) = of[0], of[-1]
    match op:
        case "where":
            return min(a, c), max(b, d)
        case "max":
            return max(a, c), max(b, d)
        case "min":
            return min(a, c), min(b, d)
        case "abs":
            return 0, max(abs(a), abs(b))
        case "mul":
            corners = [x * y for x in (a, b) for y in (c, d)]
            return min(corners), max(corners)
        case "floor_divide":
            if c > 0:
                return min(a // c, a // d), max(b // c, b // d)
            return -max(abs(a), abs(b)), max(abs(a), abs(b))
        case "remainder":
            return (0, min(d - 1, b) if a >= 0 else d - 1) if c > 0 else (min(c, 0), max(d, 0))
        case "fmod":
            return min(a, 0), max(b, 0)
        case "and":
            if c >= 0 or a >= 0:
                return 0, min(b if a >= 0 else d, d if c >= 0 else b)
        case "shift_right":
            return min(a, 0), max(b, 0)
        case "and" | "or" | "xor" | "not":
            pass
        case _:
            return INT64_BOUNDS
    return INT32_BOUNDS
