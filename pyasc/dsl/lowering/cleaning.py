"""A lowered kernel without what nothing reads, numbered without gaps."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from ...backend.structured import (
    Atomic,
    Block,
    For,
    If,
    Let,
    Region,
    Set,
    Span,
    Statement,
    Store,
    TileApply,
    TileCopy,
    TileProduct,
    TileReduce,
    While,
    walk,
)
from ..signature import Lowered
from .operands import BUFFERS


def cleaned(lowered: Lowered) -> Lowered:
    """Drop what has no effect and number the rest without gaps."""
    kernel = lowered.kernel
    body = kernel.body
    while True:
        used, read = _uses(body)
        kept = _without(body, used, read)
        if kept == body:
            break
        body = kept
    return _renumbered(lowered, body)


def _values(statement: Statement) -> tuple[int, ...]:
    """The values that a statement itself reads."""
    match statement:
        case Let():
            return statement.args
        case Set(_, value):
            return (value,)
        case Store(_, indices, value, _):
            return (*indices, value)
        case Atomic():
            return (*statement.indices, statement.value)
        case If(condition, _, _) | While(_, condition, _):
            return (condition,)
        case For():
            return (statement.start, statement.stop)
        case Span():
            return statement.extents
        case TileCopy(target, source, _):
            return (*target.starts, *target.stops, *source.starts, *source.stops)
        case TileApply():
            return (*(n for kind, n in statement.args if kind == "value"), statement.count)
        case TileReduce():
            return (statement.rows, statement.columns)
        case TileProduct():
            return (statement.m, statement.n, statement.k, statement.accumulate)
    return ()


def _uses(body: Block) -> tuple[Counter[int], set[int]]:
    """How often values are read, and which variables are."""
    used: Counter[int] = Counter()
    read: set[int] = set()
    for statement in walk(body):
        used.update(_values(statement))
        if isinstance(statement, Let) and statement.op == "get":
            read.add(statement.attrs[0])
    return used, read


def _without(body: Block, used: Counter[int], read: set[int]) -> Block:
    """Without values that nobody reads and writes to variables that nobody reads.

    It goes from the end, so that one pass takes whole chains.
    """
    kept: list[Statement] = []
    for statement in reversed(body):
        match statement:
            case Let(value, op) if not used[value] and op != "call":
                used.subtract(statement.args)
                continue
            case Set(variable, value) if variable not in read:
                used[value] -= 1
                continue
            case Atomic(result=result) if result >= 0 and not used[result]:
                statement = replace(statement, result=-1)
            case If(condition, then, orelse):
                first, second = _without(then, used, read), _without(orelse, used, read)
                if not first and not second:
                    used[condition] -= 1
                    continue
                if first is not then or second is not orelse:
                    statement = If(condition, first, second)
            case For():
                inner = _without(statement.body, used, read)
                if not inner:
                    used.subtract((statement.start, statement.stop))
                    continue
                if inner is not statement.body:
                    statement = replace(statement, body=inner)
            case While(head, condition, inner_body):
                inner = _without(inner_body, used, read)
                before = _without(head, used, read)
                if inner is not inner_body or before is not head:
                    statement = While(before, condition, inner)
        kept.append(statement)
    if len(kept) == len(body) and all(a is b for a, b in zip(kept, reversed(body), strict=True)):
        return body
    return tuple(reversed(kept))


class _Numbers(dict[int, int]):
    """New numbers, given in the order in which they are asked for."""

    def __missing__(self, key: int) -> int:
        self[key] = len(self)
        return self[key]


def _renumbered(lowered: Lowered, body: Block) -> Lowered:
    """The kernel with values, variables, slots, sites, functions and buffers counted without gaps."""
    kernel = lowered.kernel
    values, variables, slots, sites, functions = (_Numbers() for _ in range(5))
    buffers = _Numbers()
    arrays = len(kernel.arrays)

    def memory(number: int) -> int:
        return arrays + buffers[number - BUFFERS] if number >= BUFFERS else number

    def many(numbers: tuple[int, ...]) -> tuple[int, ...]:
        return tuple([values[n] for n in numbers])

    def region(r: Region) -> Region:
        return Region(memory(r.array), many(r.starts), many(r.stops))

    def let(s: Let) -> Let:
        args = many(s.args)
        attrs: tuple[Any, ...] = s.attrs
        match s.op:
            case "scalar":
                attrs = (slots[attrs[0]],)
            case "get":
                attrs = (variables[attrs[0]],)
            case "load":
                attrs = (memory(attrs[0]), sites[attrs[1]])
            case "call":
                attrs = (functions[attrs[0]],)
            case "extent":
                attrs = (memory(attrs[0]), attrs[1])
        return Let(values[s.value], s.op, s.dtype, args, attrs)

    def block(statements: Block) -> Block:
        return tuple([one(s) for s in statements])

    def one(s: Statement) -> Statement:
        match s:
            case Let():
                return let(s)
            case Set(variable, value):
                return Set(variables[variable], values[value])
            case Store(array, indices, value, site):
                return Store(memory(array), many(indices), values[value], sites[site])
            case Atomic():
                result = values[s.result] if s.result >= 0 else -1
                return Atomic(s.how, memory(s.array), many(s.indices), values[s.value], sites[s.site], result)
            case If(condition, then, orelse):
                return If(values[condition], block(then), block(orelse))
            case For():
                first, last = values[s.start], values[s.stop]
                return For(values[s.value], first, last, s.step, block(s.body))
            case While(head, condition, inner):
                before = block(head)
                return While(before, values[condition], block(inner))
            case Span():
                return Span(many(s.values), many(s.extents), block(s.body))
            case TileCopy(target, source, site):
                return TileCopy(region(target), region(source), sites[site])
            case TileApply():
                args = tuple((kind, memory(n) if kind == "buffer" else values[n]) for kind, n in s.args)
                return TileApply(s.op, memory(s.out), args, values[s.count], s.attrs)
            case TileReduce():
                rows, columns = values[s.rows], values[s.columns]
                return TileReduce(s.how, memory(s.out), memory(s.source), rows, columns, s.accumulate)
            case TileProduct():
                sizes = (values[s.m], values[s.n], values[s.k], values[s.accumulate])
                return TileProduct(memory(s.c), memory(s.a), memory(s.b), *sizes)
        return s

    made = replace(
        kernel,
        body=block(body),
        scalars=tuple(kernel.scalars[k] for k in slots),
        variables=tuple(kernel.variables[k] for k in variables),
        buffers=tuple(kernel.buffers[k] for k in buffers),
        functions=tuple(kernel.functions[k] for k in functions),
        sites=tuple(kernel.sites[k] for k in sites),
    )
    return replace(lowered, kernel=made, scalars=tuple(lowered.scalars[k] for k in slots))
