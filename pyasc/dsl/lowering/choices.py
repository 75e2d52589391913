"""Choices within expressions: ``and``, ``or``, chained comparisons, ``x if c else y``."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ...backend.structured import If, Let
from ...ops.errors import KernelError
from .emission import BOOL, BlockBuilder
from .operands import Literal, Memory, Operand, Tuple, Value, Weak, describe, form, join
from .operations import Operations

_TRUTHS = (bool, BOOL)


class Choices(Operations):
    """`Operations` of which only one side is evaluated where it counts."""

    def expression(self, node: ast.expr) -> Operand:
        """The operand of an expression, emitted into the block at hand."""
        raise NotImplementedError

    def attempt(self, make: Callable[[], Operand]) -> tuple[BlockBuilder, Operand]:
        """What an expression emits, in a block of its own, and its operand."""
        block = self.open()
        try:
            operand = make()
        finally:
            self.close()
        return block, operand

    @staticmethod
    def harmless(block: BlockBuilder) -> bool:
        """Whether statements may run where the program would not: nothing is loaded, called or changed."""
        return all(isinstance(s, Let) and s.op != "load" and s.op != "call" for s in block.statements)

    def condition(self, node: ast.expr) -> Value | Literal:
        """Whether an expression is true; what stands on the right of ``and`` and ``or`` is evaluated only
        where it counts, if it can do harm."""
        match node:
            case ast.BoolOp(op, parts):
                result: Operand = self.condition(parts[0])
                for part in parts[1:]:
                    result = self.shortcut(
                        isinstance(op, ast.And), result, partial(self.condition, part), part
                    )
                return self.truth(result, node)
            case ast.UnaryOp(ast.Not(), part):
                return self.truth(self.opposite(self.condition(part), node), node)
        return self.truth(self.expression(node), node)

    def logic(self, conjunction: bool, parts: list[ast.expr], node: ast.AST) -> Operand:
        """``and`` and ``or`` as Python's: the operand that decides, and for truths a truth."""
        x = self._sole(self.expression(parts[0]), node)
        if len(parts) == 1:
            return x
        known = self.truth(x, parts[0])
        rest = partial(self.logic, conjunction, parts[1:], node)
        if isinstance(known, Literal):
            return rest() if bool(known.value) == conjunction else x
        block, y = self.attempt(rest)
        if form(x) in _TRUTHS and form(y) in _TRUTHS:
            return self._shortened(conjunction, known, block, y, node)
        taken, other = (block, y), (BlockBuilder(), x)
        return self._chosen(known, *((taken, other) if conjunction else (other, taken)), node)

    def shortcut(
        self, conjunction: bool, first: Operand, rest: Callable[[], Operand], node: ast.AST
    ) -> Operand:
        if isinstance(first, Literal):
            if bool(first.value) != conjunction:
                return first
            return self.truth(rest(), node)
        block, second = self.attempt(lambda: self.truth(rest(), node))
        return self._shortened(conjunction, first, block, second, node)

    def _shortened(
        self, conjunction: bool, first: Operand, block: BlockBuilder, second: Operand, node: ast.AST
    ) -> Operand:
        """A truth, and another one that a block computes."""
        if self.harmless(block):
            self.splice(block)
            return (self.both if conjunction else self.either)(first, second, node)
        condition = self.value(first, BOOL, node)
        cell = self.cell(BOOL)
        self.write(cell, condition, node)
        self.open(block)
        self.write(cell, second, node)
        self.close()
        body = tuple(block.statements)
        self.emit(If(condition.number, body) if conjunction else If(self.negation(condition).number, body))
        return self.read(cell)

    def comparison(self, node: ast.Compare) -> Operand:
        """Comparisons, chained ones as Python's: an operand is evaluated once."""
        x = self.expression(node.left)
        if len(node.ops) == 1:
            return self.compare(type(node.ops[0]), x, self.expression(node.comparators[0]), node)
        result: Operand | None = None
        for op, part in zip(node.ops, node.comparators, strict=True):
            if result is None:
                y = self.expression(part)
                result, x = self.compare(type(op), x, y, node), y
                continue
            if part is node.comparators[-1]:
                rest = partial(self._compared, op, x, part, node)
                result = self.shortcut(True, result, rest, node)
            else:  # an operand in the middle is needed further on
                y = self.expression(part)
                result, x = self.both(result, self.compare(type(op), x, y, node), node), y
        assert result is not None
        return result

    def _compared(self, op: ast.cmpop, x: Operand, part: ast.expr, node: ast.AST) -> Operand:
        return self.compare(type(op), x, self.expression(part), node)

    def choice(self, node: ast.IfExp) -> Operand:
        """``x if c else y``."""
        condition = self.condition(node.test)
        if isinstance(condition, Literal):
            return self.expression(node.body if condition.value else node.orelse)
        taken = self.attempt(lambda: self.expression(node.body))
        return self._chosen(condition, taken, self.attempt(lambda: self.expression(node.orelse)), node)

    def _chosen(
        self,
        condition: Value,
        taken: tuple[BlockBuilder, Operand],
        otherwise: tuple[BlockBuilder, Operand],
        node: ast.AST,
    ) -> Operand:
        """One of two operands, each of which a block computes."""
        (then, x), (other, y) = taken, otherwise
        x, y = self._sole(x, node), self._sole(y, node)
        shape = join(form(x), form(y))
        if shape is None:
            raise KernelError(
                f"[{self.name}] expected two values of one kind, given {describe(x)} and {describe(y)}",
                self.span(node),
            )
        if self.harmless(then) and self.harmless(other):
            self.splice(then)
            self.splice(other)
            return self.selected(condition, x, y, shape, node)
        cell = self.cell(shape)
        for block, operand in ((then, x), (other, y)):
            self.open(block)
            self.write(cell, operand, node)
            self.close()
        self.emit(If(condition.number, tuple(then.statements), tuple(other.statements)))
        return self.read(cell)

    def _sole(self, operand: Operand, node: ast.AST) -> Operand:
        return self.value(operand, None, node) if isinstance(operand, Memory) and operand.sole else operand

    def selected(self, condition: Value, x: Operand, y: Operand, shape: Any, node: ast.AST) -> Operand:
        """One of two operands, both there."""
        if isinstance(shape, tuple):
            assert isinstance(x, Tuple) and isinstance(y, Tuple)
            parts = zip(x.items, y.items, shape, strict=True)
            return Tuple(tuple(self.selected(condition, a, b, s, node) for a, b, s in parts))
        if isinstance(shape, np.dtype):
            a, b = self.value(x, shape, node), self.value(y, shape, node)
            return a if a == b else self.let("where", shape, (condition, a, b))
        if isinstance(shape, type):

            def build(dtype: Any) -> Value:
                a, b = self.value(x, dtype, node), self.value(y, dtype, node)
                return self.let("where", dtype, (condition, a, b))

            return Weak(shape, build)
        return x
