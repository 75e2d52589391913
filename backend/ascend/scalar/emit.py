"""Statements of a structured kernel as C++ of one core: the scalar unit runs thread after thread."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod

import numpy as np

from ... import structured as s
from ...ir import Stride
from ...structured.rewrite import operands
from ..text import Writer
from . import expressions as scalar_expressions
from . import foreign as scalar_foreign
from .types import CTYPE, Dtype, number, read, written

_ATOMS = ("global_id", "global_size", "block_size", "scalar", "const", "extent")


def is_left_within_loops(body: s.Block, looped: bool = False) -> bool:
    """Whether a thread, or a point of a span, ends within a loop, which ``continue`` does not leave."""
    for statement in body:
        if isinstance(statement, s.Return) and looped:
            return True
        if isinstance(statement, s.Span):
            continue  # its points end, not the thread
        inner = looped or isinstance(statement, s.For | s.While)
        if any(is_left_within_loops(block, inner) for block in s.blocks(statement)):
            return True
    return False


class StatementWriter:
    """Writes the statements of a kernel.

    Parameters
    ----------
    kernel : StructuredKernel
        Without barriers, tile statements and values that nothing reads.
    names : sequence of str
        Of arrays and buffers.
    safe : sequence of int
        The sites whose indices are known to lie within their axes.

    Attributes
    ----------
    write : Writer
    fields : dict of str to str
        The fields of the tiling struct that the text reads, and their types.
    vector : dict of str to None
        The primitives computed by vector instructions.
    checked : bool
        Whether an index is checked, and a fault reported.
    """

    def __init__(self, kernel: s.StructuredKernel, names: Sequence[str], safe: Sequence[int]) -> None:
        self.kernel = kernel
        self.names = names
        self.safe = safe
        self.write = Writer()
        self.fields: dict[str, str] = {}
        self.vector: dict[str, None] = {}
        self.checked = False
        self._text: dict[int, str] = {}
        self._dtype: dict[int, Dtype] = {}
        self._variable = {n: f"x{n}" for n in range(len(kernel.variables))}
        self._alive: set[int] = set()  # the variables that are declared here
        self._ends: list[
            tuple[str, bool]
        ] = []  # of threads, spans and loops: a label, and whether it is a loop
        self._count = 0
        self._read = {v for x in s.walk(kernel.body) for v in operands(x)}

    def thread(self) -> None:
        """The body of one thread, whose indices are ``id0``, ``id1``…"""
        self._alive = _variables(self.kernel.body)
        for n, dtype in enumerate(self.kernel.variables):
            if n in self._alive:
                self.write(f"{CTYPE[dtype.name]} x{n} = {number(dtype, 0)};")
        self._point(self.kernel.body)

    def field(self, name: str, ctype: str = "int64_t") -> str:
        """A field of the tiling struct, as the kernel's code reads it."""
        self.fields.setdefault(name, ctype)
        return f"t.{name}"

    # --- control flow ---------------------------------------------------------------------------------------

    def _point(self, body: s.Block) -> None:
        """What a thread or a point of a span does, which `Return` ends."""
        label = ""
        if is_left_within_loops(body):
            self._count += 1
            label = f"end{self._count}"
        self._ends.append((label, False))
        if label:
            with self.write.block(""):
                self._block(body)
            self.write(f"{label}:;")
        else:
            self._block(body)
        self._ends.pop()

    def _block(self, body: s.Block) -> None:
        for statement in body:
            self._statement(statement)

    @contextmanager
    def _loop(self, head: str) -> Iterator[None]:
        self._ends.append(("", True))
        with self.write.block(head):
            yield
        self._ends.pop()

    def _statement(self, statement: s.Statement) -> None:
        write = self.write
        match statement:
            case s.Let():
                self._let(statement)
            case s.Set(variable, value):
                write(f"{self._variable[variable]} = {self._text[value]};")
            case s.Store(array, indices, value, site):
                with self._inside(array, indices, site):
                    self._put(array, indices, self._text[value])
            case s.Atomic():
                self._atomic(statement)
            case s.If(condition, then, orelse):
                with write.block(f"if ({self._text[condition]})"):
                    self._block(then)
                if orelse:
                    write.lines.pop()
                    with write.block("} else"):
                        self._block(orelse)
            case s.For(value, start, stop, step, body):
                name = self._declared(value, _INT64)
                ahead = "<" if step > 0 else ">"
                forward = f"{name} += {step}" if abs(step) > 1 else f"{'++' if step > 0 else '--'}{name}"
                head = f"int64_t {name} = {self._text[start]}; {name} {ahead} {self._text[stop]}; {forward}"
                with self._loop(f"for ({head})"):
                    self._block(body)
            case s.While(head_, condition, body):
                with self._loop("while (true)"):
                    self._block(head_)
                    if not head_ or not isinstance(head_[-1], s.Break | s.Continue | s.Return):
                        with write.block(f"if (!{self._text[condition]})"):
                            write("break;")
                        self._block(body)
            case s.Break():
                write("break;")
            case s.Continue():
                write("continue;")
            case s.Return():
                self._return()
            case s.Span():
                self._span(statement)
            case _:
                raise AssertionError(f"{type(statement).__name__} is not written as scalar code")

    def _return(self) -> None:
        for label, loop in reversed(self._ends):
            if not loop:
                self.write("continue;" if self._ends[-1][1] is False else f"goto {label};")
                return

    def _span(self, span: s.Span) -> None:
        names = [self._declared(v, _INT64) for v in span.values]
        heads = [
            f"for (int64_t {n} = 0; {n} < {self._text[e]}; ++{n})"
            for n, e in zip(names, span.extents, strict=True)
        ]
        self._nest(heads, span.body)

    def _nest(self, heads: list[str], body: s.Block) -> None:
        if heads:
            with self.write.block(heads[0]):
                self._nest(heads[1:], body)
            return
        # What is set within is set for the rest of the point only.
        outer, alive = dict(self._variable), self._alive
        mine = {x.variable for x in s.walk(body) if isinstance(x, s.Set)}
        for n in sorted(mine):
            self._count += 1
            dtype = self.kernel.variables[n]
            self._variable[n] = f"x{n}_{self._count}"
            first = outer[n] if n in alive else number(dtype, 0)
            self.write(f"{CTYPE[dtype.name]} {self._variable[n]} = {first};")
        self._alive = alive | mine
        self._point(body)
        self._variable, self._alive = outer, alive

    # --- values ---------------------------------------------------------------------------------------------

    def _declared(self, value: int, dtype: Dtype) -> str:
        self._dtype[value] = dtype
        self._text[value] = f"v{value}"
        return self._text[value]

    def _let(self, let: s.Let) -> None:
        if let.op in _ATOMS or (let.op in ("group_id", "local_id") and self._block_size(let.attrs[0]) == 1):
            self._dtype[let.value] = let.dtype
            self._text[let.value] = self._atom(let)
            return
        if let.op == "load":
            self._load(let)
            return
        text = self._expression(let)
        self.write(f"const {CTYPE[let.dtype.name]} {self._declared(let.value, let.dtype)} = {text};")

    def _atom(self, let: s.Let) -> str:
        match let.op:
            case "global_id" | "group_id":
                return f"id{let.attrs[0]}"
            case "local_id":
                return "0"
            case "global_size":
                return self.field(f"g{let.attrs[0]}")
            case "block_size":
                return str(self._block_size(let.attrs[0]))
            case "extent":
                array, axis = let.attrs
                return self.field(f"n{array}_{axis}")
            case "const":
                return number(let.dtype, let.attrs[0])
        return scalar(let.attrs[0], let.dtype)

    def _block_size(self, axis: int) -> int:
        return self.kernel.block[axis] if self.kernel.block else 1

    def _expression(self, let: s.Let) -> str:
        args = [self._text[a] for a in let.args]
        match let.op:
            case "get":
                return self._variable[let.attrs[0]]
            case "group_id":
                return f"id{let.attrs[0]} / {self._block_size(let.attrs[0])}"
            case "local_id":
                return f"id{let.attrs[0]} % {self._block_size(let.attrs[0])}"
            case "call":
                function = self.kernel.functions[let.attrs[0]]
                return f"{scalar_foreign.NAMESPACE}::{function.name}({', '.join(args)})"
        dtypes = [self._dtype[a] for a in let.args]
        if scalar_expressions.vector_function(let.op, dtypes):
            self.vector[let.op] = None
        return scalar_expressions.expression(let.op, let.dtype, args, dtypes, let.attrs)

    # --- memory ---------------------------------------------------------------------------------------------

    def _load(self, let: s.Let) -> None:
        array, site = let.attrs
        wanted = let.value in self._read
        name, ctype = self._declared(let.value, let.dtype), CTYPE[let.dtype.name]
        checks = self._checks(array, let.args, site)
        element = read(let.dtype, self._get(array, let.args))
        if not wanted:
            for check in checks:
                self.write(f"{check};")
        elif checks:
            self.write(f"{ctype} {name} = {number(let.dtype, 0)};")
            with self.write.block(f"if ({_all(checks)})"):
                self.write(f"{name} = {element};")
        else:
            self.write(f"const {ctype} {name} = {element};")

    def _checks(self, array: int, indices: tuple[int, ...], site: int) -> list[str]:
        """Conditions that an index lies within the array, each of which reports what does not."""
        if site < 0 or site in self.safe:
            return []
        self.checked = True
        return [
            f"Within({self._text[i]}, {self._extent(array, axis)}, {1 + site}, status)"
            for axis, i in enumerate(indices)
        ]

    @contextmanager
    def _inside(self, array: int, indices: tuple[int, ...], site: int) -> Iterator[None]:
        checks = self._checks(array, indices, site)
        if not checks:
            yield
            return
        with self.write.block(f"if ({_all(checks)})"):
            yield

    def _extent(self, array: int, axis: int) -> str:
        held = self.kernel.storage(array)
        return str(held.shape[axis]) if isinstance(held, s.Buffer) else self.field(f"n{array}_{axis}")

    def _place(self, array: int, indices: tuple[int, ...]) -> str:
        held = self.kernel.storage(array)
        if isinstance(held, s.Buffer):
            steps = [prod(held.shape[k + 1 :]) for k in range(len(held.shape))]
            terms = [
                self._text[i] if step == 1 else f"{self._text[i]} * {step}"
                for i, step in zip(indices, steps, strict=True)
            ]
            return " + ".join(terms) or "0"
        terms = [self.field(f"o{array}")]
        for axis, i in enumerate(indices):
            match held.layout[axis]:
                case Stride.ZERO:
                    pass
                case Stride.UNIT:
                    terms.append(self._text[i])
                case _:
                    terms.append(f"{self._text[i]} * {self.field(f's{array}_{axis}')}")
        return " + ".join(terms)

    def _tensor(self, array: int) -> str:
        held = self.kernel.storage(array)
        return f"{self.names[array]}_{'ub' if isinstance(held, s.Buffer) else 'gm'}"

    def _get(self, array: int, indices: tuple[int, ...]) -> str:
        return f"{self._tensor(array)}.GetValue({self._place(array, indices)})"

    def _put(self, array: int, indices: tuple[int, ...], value: str) -> None:
        element = written(self.kernel.storage(array).dtype, value)
        self.write(f"{self._tensor(array)}.SetValue({self._place(array, indices)}, {element});")

    def _atomic(self, atomic: s.Atomic) -> None:
        """One core does them all, one after another."""
        dtype = self.kernel.storage(atomic.array).dtype
        ctype = CTYPE[dtype.name]
        wanted = atomic.result in self._read
        if wanted:
            name = self._declared(atomic.result, dtype)
            self.write(f"{ctype} {name} = {number(dtype, 0)};")
        with self._inside(atomic.array, atomic.indices, atomic.site):
            self._count += 1
            before = f"before{self._count}"
            self.write(f"const {ctype} {before} = {read(dtype, self._get(atomic.array, atomic.indices))};")
            args, dtypes = (before, self._text[atomic.value]), (dtype, dtype)
            result = scalar_expressions.expression(atomic.how, dtype, args, dtypes, ())
            self._count += 1
            self.write(f"const {ctype} after{self._count} = {result};")
            self._put(atomic.array, atomic.indices, f"after{self._count}")
            if wanted:
                self.write(f"{name} = {before};")


_INT64: Dtype = np.dtype(np.int64)


def scalar(slot: int, dtype: Dtype) -> str:
    """A scalar argument, of which the struct may hold a wider type."""
    ctype = CTYPE[dtype.name]
    if dtype.kind == "b":
        return f"(t.a{slot} != 0)"
    return f"t.a{slot}" if scalar_field(dtype) == ctype else f"static_cast<{ctype}>(t.a{slot})"


def scalar_field(dtype: Dtype) -> str:
    """The type of a scalar argument in the struct."""
    if dtype.kind in "fV":
        return "float"
    if dtype.itemsize == 8:
        return CTYPE[dtype.name]
    return "uint32_t" if dtype.kind == "u" else "int32_t"


def _all(checks: list[str]) -> str:
    return " && ".join(checks)


def _variables(body: s.Block) -> set[int]:
    """The variables that are used outside of spans."""
    found: set[int] = set()
    for statement in body:
        match statement:
            case s.Let(op="get"):
                found.add(statement.attrs[0])
            case s.Set():
                found.add(statement.variable)
        if not isinstance(statement, s.Span):
            for block in s.blocks(statement):
                found |= _variables(block)
    return found
