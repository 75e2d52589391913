"""How a kernel is put together while its source is walked: values, blocks, variables, arrays, arguments."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

import numpy as np

from ...backend.structured import (
    IDS,
    Array,
    Atomic,
    Break,
    Buffer,
    Continue,
    For,
    Foreign,
    If,
    Let,
    Return,
    Set,
    Site,
    Statement,
    Store,
    While,
)
from ...ops import dtypes
from ...ops.errors import KernelError
from ...ops.primitives import PRIMITIVES
from ..signature import ArrayType, Guard, LaunchValues, Options, Path
from .operands import (
    BUFFERS,
    HELD,
    Form,
    Literal,
    Memory,
    Nothing,
    Operand,
    Tuple,
    Unset,
    Value,
    Weak,
    describe,
)
from .source import Source

Dtype = np.dtype[Any]
INT64 = dtypes.int64
BOOL = dtypes.bool_
# These do not depend on where they stand.
_EVERYWHERE = frozenset(("const", "scalar", "extent", *IDS))


# Statements that by themselves change no element.
_HARMLESS = (Let, Set, If, For, While, Break, Continue, Return)


@dataclass(slots=True)
class BlockBuilder:
    """Statements under way, and the values that are known for equal computations."""

    statements: list[Statement] = field(default_factory=list)
    known: dict[Any, Value] = field(default_factory=dict)


@dataclass(slots=True)
class Memo:
    """What one walk over the source learns for the next: walks are repeated until nothing is new.

    Attributes
    ----------
    forms : dict
        What each name that a loop changes must be able to hold.
    flat : set of Path
        The arrays that are indexed by one index over all elements.
    exits : set of code
        The functions that return from within loops and branches.
    unrolled : set
        The loops whose number is an index into a tuple: each turn is written out.
    """

    forms: dict[Any, Form] = field(default_factory=dict)
    flat: set[Path] = field(default_factory=set)
    exits: set[CodeType] = field(default_factory=set)
    unrolled: set[Any] = field(default_factory=set)
    changed: bool = False


@dataclass(frozen=True, slots=True)
class Cell:
    """Variables that hold an operand: one, several for a tuple, none for what is known."""

    form: Form
    variable: int = -1
    items: tuple[Cell, ...] = ()


@dataclass(slots=True)
class _ArrayUse:
    memory: Memory
    layout: str
    reads: bool = False
    writes: bool = False
    flat: str = ""  # the line of the first index over all elements
    full: str = ""  # the line of the first index by axes


class Emission:
    """A structured kernel under way."""

    def __init__(self, name: str, values: LaunchValues, options: Options, memo: Memo) -> None:
        self.name = name
        self.values = values
        self.options = options
        self.memo = memo
        self.source: Source
        self.prologue = BlockBuilder()
        self.blocks: list[BlockBuilder] = [self.prologue, BlockBuilder()]
        self.lets: dict[int, Let] = {}
        self.dtype_of: list[Dtype] = []  # of each value
        self.variables: list[Dtype] = []
        self.uses: list[_ArrayUse] = []
        self.arrays: dict[Path, Memory] = {}
        self.buffers: list[Buffer] = []
        self.functions: list[Foreign] = []
        self.scalars: dict[tuple[Path, Dtype], int] = {}
        self.sites: list[Site] = []
        self.writes = 0  # how often elements may have changed so far
        self.guards: list[Guard] = []
        self._guarded: set[Any] = set()
        self.ids = 0  # axes of the grid that the kernel asks for
        self.asks_block = False
        self.barriers: list[tuple[Source, ast.AST]] = []
        self.returns: list[tuple[Source, ast.AST]] = []
        self.is_map = False  # whether it returns a value, and arrays stand for their elements
        self.tiles = False  # whether a builtin for tiles was used: handlers set it

    # --- blocks --------------------------------------------------------------------------------------------

    def emit(self, statement: Statement) -> None:
        """Append a statement to the block at hand."""
        if not isinstance(statement, _HARMLESS):
            self.forget()
        self.blocks[-1].statements.append(statement)

    def open(self, block: BlockBuilder | None = None) -> BlockBuilder:
        """Go into a block, a new one or one that is gone on with; `close` leaves it."""
        block = BlockBuilder() if block is None else block
        self.blocks.append(block)
        return block

    def close(self) -> BlockBuilder:
        return self.blocks.pop()

    def splice(self, block: BlockBuilder) -> None:
        """Append a closed block's statements to the block at hand."""
        self.blocks[-1].statements += block.statements
        self.blocks[-1].known.update(block.known)

    # --- values --------------------------------------------------------------------------------------------

    def fresh(self, dtype: Dtype) -> Value:
        """A new value, which the caller's statement makes."""
        self.dtype_of.append(dtype)
        return Value(len(self.dtype_of) - 1, dtype)

    def let(self, op: str, dtype: Dtype, args: tuple[Value, ...] = (), attrs: tuple[Any, ...] = ()) -> Value:
        """A value; the one that is there already where it is computed alike. Not for loads, gets and
        calls."""
        if op == "const" and attrs[0] == 0 and math.copysign(1, attrs[0]) < 0:
            # Kernels are told apart by ==, to which -0.0 is 0.0.
            return self.let("neg", dtype, (self.let("const", dtype, (), (0.0,)),))
        numbers = tuple([a.number for a in args])
        # 0.0 and -0.0 are two constants, and NaN is one.
        key = (op, dtype, numbers, (type(attrs[0]), repr(attrs[0])) if op == "const" else attrs)
        everywhere = op in _EVERYWHERE
        for block in (self.prologue,) if everywhere else reversed(self.blocks):
            found = block.known.get(key)
            if found is not None:
                return found
        block = self.prologue if everywhere else self.blocks[-1]
        value = self.fresh(dtype)
        statement = Let(value.number, op, dtype, numbers, attrs)
        self.lets[value.number] = statement
        block.statements.append(statement)
        block.known[key] = value
        return value

    def once(self, op: str, dtype: Dtype, args: tuple[Value, ...] = (), attrs: tuple[Any, ...] = ()) -> Value:
        """A value that is computed here whatever was computed before: a load, a get, a call."""
        value = self.fresh(dtype)
        statement = Let(value.number, op, dtype, tuple(a.number for a in args), attrs)
        self.lets[value.number] = statement
        self.emit(statement)
        return value

    def constant(self, number: bool | int | float, dtype: Dtype) -> Value:
        """A number of the program's text in a dtype, as a cast gives it."""
        if dtype.kind == "b":
            number = bool(number)
        elif dtype.kind in "iu":
            if isinstance(number, float):
                limits = np.iinfo(dtype)
                number = 0 if number != number else max(min(number, limits.max), limits.min)
            number = int(number)
        else:
            number = float(number)
        return self.let("const", dtype, (), (number,))

    def cast(self, value: Value, dtype: Dtype) -> Value:
        return value if value.dtype == dtype else self.let("cast", dtype, (value,))

    def value(self, operand: Operand, dtype: Dtype | None, node: ast.AST) -> Value:
        """A number as a value, in a dtype or in its own."""
        if isinstance(operand, Value):
            return operand if dtype is None else self.cast(operand, dtype)
        if isinstance(operand, Literal):
            held = dtype or HELD[operand.kind]
            if operand.kind is int and held.kind in "iu":
                limits = np.iinfo(held)
                if not limits.min <= operand.value <= limits.max:
                    raise KernelError(
                        f"[{self.name}] expected an integer that fits {held.name}, given {operand.value}",
                        self.span(node),
                    )
            return self.constant(operand.value, held)
        if isinstance(operand, Weak):
            return operand.build(dtype or HELD[operand.kind])
        if isinstance(operand, Memory) and operand.sole:
            return self.value(self.load(operand, self.sole_index(operand), node), dtype, node)
        if isinstance(operand, Memory):
            raise KernelError(
                f"[{self.name}] expected a number, given {describe(operand)}; a kernel works on elements: "
                f"{operand.name}[i]",
                self.span(node),
            )
        self.refuse_unset(operand, node)
        raise KernelError(f"[{self.name}] expected a number, given {describe(operand)}", self.span(node))

    def sole_index(self, memory: Memory) -> tuple[Value, ...]:
        """Of the element that an array stands for: in a map, which has all arrays broadcast, the thread's."""
        at = self.thread_id("global_id", 0) if self.is_map else self.constant(0, INT64)
        return (at,) * memory.rank

    def refuse_unset(self, operand: Operand, node: ast.AST) -> None:
        if isinstance(operand, Unset):
            raise KernelError(
                f"[{self.name}] expected a name with a value, given one {operand.reason}", self.span(node)
            )

    def integer(self, operand: Operand, node: ast.AST, what: str = "an integer") -> Value:
        """An int64 value of an index, a bound, a count."""
        if isinstance(operand, Memory) and operand.sole:
            operand = self.value(operand, None, node)
        whole = (
            operand.dtype.kind in "iu"
            if isinstance(operand, Value)
            else isinstance(operand, Literal | Weak) and operand.kind is int
        )
        if not whole:
            self.refuse_unset(operand, node)
            raise KernelError(
                f"[{self.name}] expected {what}, given {describe(operand)}; int(x) makes one", self.span(node)
            )
        return self.value(operand, INT64, node)

    def span(self, node: ast.AST) -> Any:
        return self.source.span(node)

    # --- arguments ------------------------------------------------------------------------------------------

    def scalar(self, path: Path, kind: type) -> Weak:
        """A number that every launch hands over."""

        def build(dtype: Dtype) -> Value:
            exact = kind is bool or dtype.kind in "fV" or (kind is int and dtype.kind in "iu")
            held = BOOL if kind is bool else dtype if exact else HELD[kind]
            slot = self.scalars.setdefault((path, held), len(self.scalars))
            return self.cast(self.let("scalar", held, (), (slot,)), dtype)

        return Weak(kind, build)

    def array(self, path: Path, name: str, kind: ArrayType) -> Memory:
        """The array of a path."""
        found = self.arrays.get(path)
        if found is None:
            if self.is_map:
                kind = ArrayType(kind.dtype, "1", sole=True)
            found = Memory(
                len(self.uses), name, kind.dtype, len(kind.layout), path, sole=kind.sole or not kind.layout
            )
            self.arrays[path] = found
            self.uses.append(_ArrayUse(found, kind.layout))
        return found

    def extent(self, memory: Memory, axis: int) -> Value:
        """The size of an axis that the user sees."""
        if memory.shape is not None:
            return self.constant(memory.shape[axis], INT64)
        if memory.path in self.memo.flat:  # the kernel sees one axis
            return self.scalar((*memory.path, "shape", axis), int).build(INT64)
        return self.let("extent", INT64, (), (memory.number, axis))

    def thread_id(self, op: str, axis: int) -> Value:
        """An id or size of the thread, its block or the grid along an axis."""
        self.ids = max(self.ids, axis + 1)
        if op not in ("global_id", "global_size"):
            self.asks_block = True
        return self.let(op, INT64, (), (axis,))

    def guard(
        self, label: str, compute: Callable[[LaunchValues], Any], expected: Any, key: Any = None
    ) -> None:
        """The code holds as long as ``compute(values) == expected``; one guard for each key that is not
        None."""
        if key is not None:
            if key in self._guarded:
                return
            self._guarded.add(key)
        self.guards.append(Guard(label, compute, expected))

    # --- variables -----------------------------------------------------------------------------------------

    def cell(self, form: Form) -> Cell:
        """Variables for a form."""
        if isinstance(form, tuple):
            return Cell(form, items=tuple(map(self.cell, form)))
        if isinstance(form, np.dtype | type):
            self.variables.append(HELD[form] if isinstance(form, type) else form)
            return Cell(form, len(self.variables) - 1)
        return Cell(form)

    def write(self, cell: Cell, operand: Operand, node: ast.AST) -> None:
        if isinstance(operand, Nothing):
            operand = Tuple((operand,) * len(cell.items)) if cell.items else Literal(False)
        if cell.items:
            assert isinstance(operand, Tuple)
            for item, part in zip(cell.items, operand.items, strict=True):
                self.write(item, part, node)
        elif cell.variable >= 0:
            value = self.value(operand, self.variables[cell.variable], node)
            self.emit(Set(cell.variable, value.number))

    def read(self, cell: Cell) -> Operand:
        """What the variables hold here."""
        if cell.items:
            return Tuple(tuple(map(self.read, cell.items)))
        if cell.variable < 0:
            operand: Operand = cell.form if not isinstance(cell.form, tuple) else Tuple(())
            return operand
        value = self.once("get", self.variables[cell.variable], (), (cell.variable,))
        if isinstance(cell.form, type):
            return Weak(cell.form, lambda dtype: self.cast(value, dtype))
        return value

    # --- memory --------------------------------------------------------------------------------------------

    def site(self, memory: Memory, node: ast.AST) -> int:
        self.sites.append(Site(memory.name, self.source.line(node)))
        return len(self.sites) - 1

    def note_index(self, memory: Memory, flat: bool, node: ast.AST) -> None:
        """An array is indexed over all its elements, or by its axes; not both."""
        if memory.shape is not None or memory.rank < 2:
            return
        use = self.uses[memory.number]
        line = f"line {self.span(node).number}"
        if flat:
            use.flat = use.flat or line
            if memory.path not in self.memo.flat:
                self.memo.flat.add(memory.path)
                self.memo.changed = True
        else:
            use.full = use.full or line
        if use.flat and use.full:
            raise KernelError(
                f"[{self.name}] expected either one index over all elements of {memory.name} or "
                f"{memory.rank} "
                f"everywhere, given both: {use.flat} and {use.full}",
                self.span(node),
            )

    def load(self, memory: Memory, indices: tuple[Value, ...], node: ast.AST) -> Value:
        """An element."""
        key = ("load", memory.number, indices, self.writes)
        for block in reversed(self.blocks):
            found = block.known.get(key)
            if found is not None:
                return found
        if memory.shape is None:
            self.uses[memory.number].reads = True
        value = self.once("load", memory.dtype, indices, (memory.number, self.site(memory, node)))
        self.blocks[-1].known[key] = value
        return value

    def forget(self) -> None:
        """From here on, elements may differ from what was loaded before."""
        self.writes += 1

    def store(self, memory: Memory, indices: tuple[Value, ...], operand: Operand, node: ast.AST) -> None:
        """Write an element, cast to the array's dtype."""
        value = self.value(operand, memory.dtype, node)
        if memory.shape is None:
            self.uses[memory.number].writes = True
        numbers = tuple(i.number for i in indices)
        self.emit(Store(memory.number, numbers, value.number, self.site(memory, node)))

    def atomic(
        self, how: str, memory: Memory, indices: tuple[Value, ...], operand: Operand, node: ast.AST
    ) -> Value:
        """Update an element undivided; the old one."""
        value = self.value(operand, memory.dtype, node)
        if memory.shape is None:
            use = self.uses[memory.number]
            use.reads = use.writes = True
        old = self.fresh(memory.dtype)
        numbers = tuple(i.number for i in indices)
        self.emit(Atomic(how, memory.number, numbers, value.number, self.site(memory, node), old.number))
        return old

    def note_write(self, memory: Memory, reads: bool = False, writes: bool = True) -> None:
        """A statement other than a load or store touches an array."""
        if memory.shape is None:
            use = self.uses[memory.number]
            use.reads |= reads
            use.writes |= writes

    def buffer(self, name: str, dtype: Dtype, shape: tuple[int, ...], position: str = "UB") -> Memory:
        """Memory of the block."""
        self.buffers.append(Buffer(name, dtype, shape, position))
        return Memory(BUFFERS + len(self.buffers) - 1, name, dtype, len(shape), shape=shape)

    # --- numbers that a launch knows ----------------------------------------------------------------------

    def evaluate(self, value: Value, values: LaunchValues) -> Any:
        """A value that depends on sizes and scalar arguments only, or ValueError."""
        let = self.lets.get(value.number)
        if let is None:
            raise ValueError("the number of a loop")
        match let.op:
            case "const":
                return np.asarray(let.attrs[0]).astype(let.dtype)
            case "scalar":
                path = next(p for (p, _), slot in self.scalars.items() if slot == let.attrs[0])
                if "shape" in path and path[: path.index("shape")] in values.shapes:
                    return np.asarray(values.shapes[path[:-2]][int(path[-1])], let.dtype)
                return np.asarray(values.read(path)).astype(let.dtype)
            case "extent":
                shape = values.shapes[self.uses[let.attrs[0]].memory.path]
                return np.asarray(shape[let.attrs[1]], let.dtype)
        primitive = PRIMITIVES.get(let.op)
        if primitive is None:
            raise ValueError(f"depends on {let.op}")
        args = [self.evaluate(Value(n, INT64), values) for n in let.args]
        return primitive.meaning(*args, attrs=let.attrs, shape=(), dtype=let.dtype)

    def concrete(self, operand: Operand, node: ast.AST) -> int:
        """An integer that depends on sizes and scalar arguments only, for the launch at hand.

        Whoever uses it guards it: see `guard` and `extent_of`.
        """
        if isinstance(operand, Literal) and isinstance(operand.value, int):
            return operand.value
        try:
            return int(self.evaluate(self.integer(operand, node), self.values))
        except ValueError as error:
            raise KernelError(
                f"[{self.name}] expected an integer made of arguments, sizes and literals, given one that "
                f"{error}",
                self.span(node),
            ) from None

    def extent_of(self, operand: Operand, node: ast.AST) -> Callable[[LaunchValues], int]:
        """The same for any launch."""
        value = self.integer(operand, node)
        self.concrete(value, node)
        return lambda values: int(self.evaluate(value, values))

    # --- the end -------------------------------------------------------------------------------------------

    def finished_arrays(self) -> tuple[Array, ...]:
        made = []
        for use in self.uses:
            memory = use.memory
            layout = "1" if memory.path in self.memo.flat else use.layout
            made.append(Array(memory.name, memory.dtype, layout, use.reads, use.writes))
        return tuple(made)
