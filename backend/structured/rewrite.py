"""What passes over structured kernels share: which values a statement reads, and writing statements anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from .. import structured as s
from ..ir import Dtype

INT64: Dtype = np.dtype(np.int64)
_PURE_APART = frozenset({"load", "call", "get"})


def operands(statement: s.Statement) -> tuple[int, ...]:
    """The values a statement itself reads, not those that the blocks within it read."""
    match statement:
        case s.Let():
            return statement.args
        case s.Set(_, value):
            return (value,)
        case s.Store(_, indices, value, _) | s.Atomic(_, _, indices, value, _, _):
            return (*indices, value)
        case s.If(condition, _, _) | s.While(_, condition, _):
            return (condition,)
        case s.For(_, start, stop, _, _):
            return (start, stop)
        case s.Span(_, extents, _):
            return extents
        case s.TileCopy(target, source, _):
            return (*target.starts, *target.stops, *source.starts, *source.stops)
        case s.TileApply(_, _, args, count, _):
            return (*(n for kind, n in args if kind == "value"), count)
        case s.TileReduce(_, _, _, rows, columns, _):
            return (rows, columns)
        case s.TileProduct(_, _, _, m, n, k, accumulate):
            return (m, n, k, accumulate)
    return ()


def made(statement: s.Statement) -> tuple[int, ...]:
    """The values a statement itself makes."""
    match statement:
        case s.Let(value, _, _, _, _) | s.For(value, _, _, _, _):
            return (value,)
        case s.Atomic(result=result) if result >= 0:
            return (result,)
        case s.Span(values, _, _):
            return values
    return ()


def is_pure(let: s.Let) -> bool:
    """Whether it depends on its arguments, the sizes and the thread alone, and does nothing else."""
    return let.op not in _PURE_APART


def without_dead(body: s.Block) -> s.Block:
    """The block without values that nothing reads. Loads and calls stay: they may fault, or do something."""
    while True:
        read = {v for statement in s.walk(body) for v in operands(statement)}
        smaller = _without(body, read)
        if smaller == body:
            return body
        body = smaller


def _without(body: s.Block, read: set[int]) -> s.Block:
    kept: list[s.Statement] = []
    for statement in body:
        match statement:
            case s.Let(value, op, _, _, _) if value not in read and op not in ("load", "call"):
                continue
            case s.If(condition, then, orelse):
                then, orelse = _without(then, read), _without(orelse, read)
                if then or orelse:
                    kept.append(s.If(condition, then, orelse))
            case s.While(head, condition, inner):
                kept.append(s.While(_without(head, read), condition, _without(inner, read)))
            case s.For() | s.Span():
                kept.append(replace(statement, body=_without(statement.body, read)))
            case _:
                kept.append(statement)
    return tuple(kept)


class Writer:
    """Writes statements one after another, with numbers of values that nothing has yet.

    Parameters
    ----------
    kernel : StructuredKernel or None
        Whose values keep their numbers.
    """

    def __init__(self, kernel: s.StructuredKernel | None = None) -> None:
        taken = [v for statement in s.walk(kernel.body) for v in made(statement)] if kernel else []
        self.next = 1 + max(taken, default=-1)
        self.body: list[s.Statement] = []

    def fresh(self) -> int:
        self.next += 1
        return self.next - 1

    @contextmanager
    def block(self) -> Iterator[list[s.Statement]]:
        """Write into a block of its own; it is complete when the context ends."""
        outer, self.body = self.body, []
        try:
            yield self.body
        finally:
            self.body = outer

    def put(self, statement: s.Statement) -> None:
        self.body.append(statement)

    # --- values --------------------------------------------------------------------------------------------

    def let(self, op: str, dtype: Dtype, *args: int, attrs: tuple[Any, ...] = ()) -> int:
        value = self.fresh()
        self.put(s.Let(value, op, dtype, args, attrs))
        return value

    def number(self, number: int) -> int:
        return self.const(number, INT64)

    def const(self, number: bool | int | float, dtype: Dtype) -> int:
        return self.let("const", dtype, attrs=(number,))

    def add(self, a: int, b: int) -> int:
        return self.let("add", INT64, a, b)

    def sub(self, a: int, b: int) -> int:
        return self.let("sub", INT64, a, b)

    def mul(self, a: int, b: int) -> int:
        return self.let("mul", INT64, a, b)

    def min(self, a: int, b: int) -> int:
        return self.let("min", INT64, a, b)

    def max(self, a: int, b: int) -> int:
        return self.let("max", INT64, a, b)

    def cast(self, value: int, of: Dtype, to: Dtype) -> int:
        return value if of == to else self.let("cast", to, value)

    # --- copies --------------------------------------------------------------------------------------------

    def copy(
        self,
        statement: s.Statement,
        value: Callable[[int], int],
        named: Callable[[int, int], None],
        let: Callable[[s.Let], int | None] = lambda _: None,
    ) -> None:
        """Write a statement again.

        Parameters
        ----------
        statement : statement
        value : callable
            The new number of a value.
        named : callable
            ``named(old, new)`` is told of every value that is made.
        let : callable
            The value that stands for a `Let`, or None where it is to be copied as it is.
        """

        def again(number: int) -> int:
            named(number, self.fresh())
            return self.next - 1

        def inner(body: s.Block) -> s.Block:
            with self.block() as written:
                for x in body:
                    self.copy(x, value, named, let)
            return tuple(written)

        match statement:
            case s.Let(number, _, _, args, _):
                other = let(statement)
                if other is None:
                    other = self.fresh()
                    self.put(replace(statement, value=other, args=tuple(map(value, args))))
                named(number, other)
            case s.Set(variable, x):
                self.put(s.Set(variable, value(x)))
            case s.Store(array, indices, x, site):
                self.put(s.Store(array, tuple(map(value, indices)), value(x), site))
            case s.Atomic(how, array, indices, x, site, result):
                new = self.fresh() if result >= 0 else -1
                self.put(s.Atomic(how, array, tuple(map(value, indices)), value(x), site, new))
                if result >= 0:
                    named(result, new)
            case s.If(condition, then, orelse):
                self.put(s.If(value(condition), inner(then), inner(orelse)))
            case s.For(number, start, stop, step, body):
                start, stop = value(start), value(stop)
                self.put(s.For(again(number), start, stop, step, inner(body)))
            case s.While(head, condition, body):
                head = inner(head)
                self.put(s.While(head, value(condition), inner(body)))
            case s.Span(values, extents, body):
                extents = tuple(map(value, extents))
                self.put(s.Span(tuple(map(again, values)), extents, inner(body)))
            case s.TileCopy(target, source, site):
                self.put(s.TileCopy(_region(target, value), _region(source, value), site))
            case s.TileApply(_, _, pairs, count, _):
                pairs = tuple((kind, value(n) if kind == "value" else n) for kind, n in pairs)
                self.put(replace(statement, args=pairs, count=value(count)))
            case s.TileReduce(_, _, _, rows, columns, _):
                self.put(replace(statement, rows=value(rows), columns=value(columns)))
            case s.TileProduct(_, _, _, m, n, k, accumulate):
                self.put(replace(statement, m=value(m), n=value(n), k=value(k), accumulate=value(accumulate)))
            case _:
                self.put(statement)


def _region(region: s.Region, value: Callable[[int], int]) -> s.Region:
    return s.Region(region.array, tuple(map(value, region.starts)), tuple(map(value, region.stops)))
