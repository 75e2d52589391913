"""Elements and slices of arrays, items of tuples; the functions and loops around an expression."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from math import prod
from types import FunctionType
from typing import Any

from ...ops.errors import KernelError
from .choices import Choices
from .emission import INT64, Cell
from .operands import Literal, Memory, Operand, Region, Tuple, Value, describe
from .source import Source


@dataclass(slots=True)
class Loop:
    """A loop around the statement at hand: what it carries from turn to turn, and its number."""

    node: ast.For | ast.While
    key: Any
    cells: dict[str, Cell]
    number: int = -1


@dataclass(slots=True)
class Frame:
    """A function that is being lowered: the kernel, or one that it calls."""

    function: FunctionType
    source: Source
    env: dict[str, Operand] = field(default_factory=dict)
    around: dict[str, Operand] = field(default_factory=dict)  # variables around the function
    loops: list[Loop] = field(default_factory=list)
    call: tuple[int, ...] = ()  # the calls that led here
    shared: bool = False


class Indexing(Choices):
    """`Choices` with indices."""

    frames: list[Frame]

    @property
    def frame(self) -> Frame:
        return self.frames[-1]

    def subscript(self, node: ast.Subscript) -> Operand:
        node = self.in_one(node)
        owner = self.expression(node.value)
        if isinstance(owner, Tuple):
            at = self.expression(node.slice)
            if isinstance(at, Value):
                self.unroll(at)
            if not isinstance(at, Literal) or not isinstance(at.value, int):
                raise KernelError(
                    f"[{self.name}] expected a number known when compiled as the index of a tuple, "
                    f"given {describe(at)}; an array is handed over as one, by pyasc.asarray",
                    self.span(node.slice),
                )
            if not -len(owner.items) <= at.value < len(owner.items):
                raise KernelError(
                    f"[{self.name}] expected an index into {len(owner.items)} items, given {at.value}",
                    self.span(node.slice),
                )
            return owner.items[at.value]
        memory = self.memory(owner, node)
        if _is_slice(node.slice):
            return self.region(memory, node)
        return self.load(memory, self.indices(memory, node), node)

    def unroll(self, at: Value) -> None:
        """Have the loops written out whose numbers a value depends on: the next walk knows it."""
        seen, left = set(), [at.number]
        while left:
            number = left.pop()
            if number not in seen:
                seen.add(number)
                left += self.lets[number].args if number in self.lets else ()
        for frame in self.frames:
            for loop in frame.loops:
                if loop.number in seen and loop.key not in self.memo.unrolled:
                    self.memo.unrolled.add(loop.key)
                    self.memo.changed = True

    def in_one(self, node: ast.Subscript) -> ast.Subscript:
        """``a[i][j]`` of an array as ``a[i, j]``."""
        parts, root = [node.slice], node.value
        while isinstance(root, ast.Subscript):
            parts.insert(0, root.slice)
            root = root.value
        named = isinstance(root, ast.Name | ast.Attribute)
        if len(parts) == 1 or not named or not isinstance(self.expression(root), Memory):
            return node
        items = [e for part in parts for e in (part.elts if isinstance(part, ast.Tuple) else [part])]
        index = ast.copy_location(ast.Tuple(items, ast.Load()), node)
        return ast.copy_location(ast.Subscript(root, index, node.ctx), node)

    def memory(self, operand: Operand, node: ast.AST) -> Memory:
        """An array or buffer that is indexed."""
        if isinstance(operand, Memory) and not (self.is_map and operand.path):
            return operand
        if self.is_map:
            raise KernelError(
                f"[{self.name}] expected elements of arrays in a kernel that returns a value, given an index "
                f"into {describe(operand)}; store the result to an array instead of returning it",
                self.span(node),
            )
        raise KernelError(
            f"[{self.name}] expected an array to index, given {describe(operand)}", self.span(node)
        )

    def indices(self, memory: Memory, node: ast.Subscript) -> tuple[Value, ...]:
        """The index of an element: int64 values."""
        at = self.expression(node.slice)
        return self.index_values(memory, at.items if isinstance(at, Tuple) else (at,), node)

    def index_values(
        self, memory: Memory, items: tuple[Operand, ...], node: ast.Subscript | ast.Call
    ) -> tuple[Value, ...]:
        flat = len(items) == 1 < memory.rank
        if not flat and len(items) != memory.rank:
            one = "" if memory.rank < 2 else ", or one over all elements"
            raise KernelError(
                f"[{self.name}] expected {memory.rank} indices of {memory.name}{one}, given {len(items)}",
                self.span(node),
            )
        self.note_index(memory, flat, node)
        written: list[ast.expr] = [node]
        if isinstance(node, ast.Subscript):
            written = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        made = []
        for axis, item in enumerate(items):
            place = written[axis] if len(written) == len(items) else node
            if isinstance(item, Literal) and type(item.value) is int and item.value < 0:
                size = self._flat_size(memory) if flat else self.extent(memory, axis)
                made.append(self.let("add", INT64, (size, self.constant(item.value, INT64))))
            else:
                made.append(self.integer(item, place, f"an integer as index of {memory.name}"))
        if flat and memory.shape is not None:
            return self.unravelled(memory.shape, made[0])
        return tuple(made)

    def _flat_size(self, memory: Memory) -> Value:
        if memory.shape is not None:
            return self.constant(prod(memory.shape), INT64)
        return self.let("extent", INT64, (), (memory.number, 0))

    def unravelled(self, shape: tuple[int, ...], flat: Value) -> tuple[Value, ...]:
        """The index by axes of an element of a buffer; what is past the end stays so."""
        made: list[Value] = []
        for length in reversed(shape[1:]):
            by = self.constant(length, INT64)
            made.append(self.let("remainder", INT64, (flat, by)))
            flat = self.let("floor_divide", INT64, (flat, by))
        return (flat, *reversed(made))

    def region(self, memory: Memory, node: ast.Subscript) -> Region:
        """``a[i0:i1, j]``: what builtins for tiles take."""
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if len(parts) != memory.rank:
            raise KernelError(
                f"[{self.name}] expected {memory.rank} slices of {memory.name}, given {len(parts)}",
                self.span(node),
            )
        self.note_index(memory, False, node)
        starts, stops = [], []
        for axis, part in enumerate(parts):
            if isinstance(part, ast.Slice):
                if part.step is not None:
                    raise KernelError(
                        f"[{self.name}] expected a slice without a step, given one with a step",
                        self.span(part.step),
                    )
                starts.append(self._bound(memory, axis, part.lower, self.constant(0, INT64)))
                stops.append(self._bound(memory, axis, part.upper, self.extent(memory, axis)))
            else:
                at = self.integer(self.expression(part), part)
                starts.append(at)
                stops.append(self.let("add", INT64, (at, self.constant(1, INT64))))
        return Region(memory, tuple(starts), tuple(stops))

    def _bound(self, memory: Memory, axis: int, node: ast.expr | None, default: Value) -> Value:
        if node is None:
            return default
        operand = self.expression(node)
        value = self.integer(operand, node)
        if isinstance(operand, Literal) and operand.value < 0:
            return self.let("add", INT64, (self.extent(memory, axis), value))
        return value


def _is_slice(node: ast.expr) -> bool:
    return isinstance(node, ast.Slice) or (
        isinstance(node, ast.Tuple) and any(isinstance(e, ast.Slice) for e in node.elts)
    )
