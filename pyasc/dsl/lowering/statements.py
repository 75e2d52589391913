"""Statements of a kernel's source."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np

from ...backend.structured import Break, Continue, For, If, Return, While
from ...ops import dtypes
from ...ops.errors import KernelError
from .emission import BOOL, INT64, BlockBuilder, Cell
from .inlining import Functions
from .operands import (
    Constant,
    Form,
    Literal,
    Memory,
    Operand,
    Tuple,
    Unset,
    Value,
    alike,
    describe,
    form,
    join,
)
from .returns import RESULT, ends, leaves_turns
from .subscripts import Loop

MAX_UNROLLED = 64
_ADVICE: dict[type[ast.stmt], tuple[str, str]] = {
    ast.With: ("with", "kernels hold no resources"),
    ast.AsyncWith: ("async with", "kernels hold no resources"),
    ast.Try: ("try", "kernels raise nothing; test the condition with if"),
    ast.TryStar: ("try", "kernels raise nothing; test the condition with if"),
    ast.Raise: ("raise", "kernels raise nothing; store a code to an array"),
    ast.Assert: ("assert", "test it under PYASC_DEBUG=1, or store a code to an array"),
    ast.Import: ("import", "import at the top of the module"),
    ast.ImportFrom: ("import", "import at the top of the module"),
    ast.ClassDef: ("class", "use variables and arrays"),
    ast.FunctionDef: ("a function within a kernel", "define it before the kernel; kernels call functions"),
    ast.AsyncFunctionDef: ("async def", "define a plain function before the kernel"),
    ast.AsyncFor: ("async for", "write a for loop over range"),
    ast.Global: ("global", "hand values over as arguments, results through arrays"),
    ast.Nonlocal: ("nonlocal", "hand values over as arguments, results through arrays"),
    ast.Delete: ("del", "a variable ends with its kernel"),
    ast.Match: ("match", "write if and elif"),
}


class Statements(Functions):
    """`Functions` that walk over statements."""

    def body(self, statements: list[ast.stmt], fall: str) -> str:
        """Lower a block.

        Parameters
        ----------
        statements : list of ast.stmt
        fall : str
            What the end of the block does by itself, ``"return"`` or ``"continue"``, or ``""`` where more
            follows.

        Returns
        -------
        str
            How the block ends where it never comes to its end: ``"return"``, ``"continue"``, ``"break"``;
            else ``""``.
        """
        for k, node in enumerate(statements):
            if isinstance(node, ast.If):
                ended, took_rest = self.if_(node, statements[k + 1 :], fall)
                if ended or took_rest:
                    return ended
                continue
            ended = self.statement(node, fall)
            if ended:
                return ended
        return ""

    def statement(self, node: ast.stmt, fall: str) -> str:
        match node:
            case ast.Assign(targets, value):
                self.assign(targets, value)
            case ast.AugAssign():
                self.augmented(node)
            case ast.AnnAssign():
                self.annotated_assignment(node)
            case ast.Expr(value):
                self.bare(value)
            case ast.For():
                self.for_(node)
            case ast.While():
                self.while_(node)
            case ast.Return():
                return self.return_(node, fall)
            case ast.Break() | ast.Continue():
                return self.leave(node, fall)
            case ast.Pass():
                pass
            case _:
                what, advice = _ADVICE.get(
                    type(node), (type(node).__name__, "write it with if, for and while")
                )
                raise KernelError(
                    f"[{self.name}] expected a statement that kernels have, given {what}; {advice}",
                    self.span(node),
                )
        return ""

    def bare(self, node: ast.expr) -> None:
        """An expression as a statement."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str | type(...)):
            return
        self.expression(node)

    # --- assignments ---------------------------------------------------------------------------------------

    def assign(self, targets: list[ast.expr], value: ast.expr) -> None:
        operand = self.expression(value)
        for target in targets:
            self.set(target, operand, value)

    def set(self, target: ast.expr, operand: Operand, node: ast.AST) -> None:
        """Give a name, an element or several of them a value."""
        if isinstance(target, ast.Name):
            self.set_name(target, operand)
        elif isinstance(target, ast.Subscript):
            target = self.in_one(target)
            memory = self.stored(target)
            self.store(memory, self.indices(memory, target), self.number(operand, node), target)
        elif isinstance(target, ast.Tuple | ast.List):
            items = self.unpacked(operand, len(target.elts), node)
            for part, item in zip(target.elts, items, strict=True):
                self.set(part, item, node)
        else:
            what = "an attribute" if isinstance(target, ast.Attribute) else "a starred name"
            raise KernelError(
                f"[{self.name}] expected a name or an element of an array to assign to, given {what}",
                self.span(target),
            )

    def set_name(self, target: ast.Name, operand: Operand) -> None:
        before = self.frame.env.get(target.id)
        is_argument = isinstance(before, Memory) and before.path == (target.id,)
        if is_argument and not isinstance(operand, Memory):
            raise KernelError(
                f"[{self.name}] expected another name for a number, given {target.id}, which is an array; an "
                f"element is {target.id}[i]",
                self.span(target),
            )
        self.frame.env[target.id] = operand

    def stored(self, target: ast.Subscript) -> Memory:
        owner = self.expression(target.value)
        if not isinstance(owner, Memory):
            advice = "; a kernel that returns a value stores nothing else" if self.is_map else ""
            raise KernelError(
                f"[{self.name}] expected an array to store to, given {describe(owner)}{advice}",
                self.span(target),
            )
        if isinstance(target.slice, ast.Slice) or (
            isinstance(target.slice, ast.Tuple) and any(isinstance(e, ast.Slice) for e in target.slice.elts)
        ):
            raise KernelError(
                f"[{self.name}] expected the index of an element, given a slice of {owner.name}; write a "
                "loop, or copy with pyasc.dma_copy",
                self.span(target),
            )
        return owner

    def unpacked(self, operand: Operand, count: int, node: ast.AST) -> tuple[Operand, ...]:
        if not isinstance(operand, Tuple):
            raise KernelError(
                f"[{self.name}] expected {count} values to unpack, given {describe(operand)}", self.span(node)
            )
        if len(operand.items) != count:
            raise KernelError(
                f"[{self.name}] expected {count} values to unpack, given {len(operand.items)}",
                self.span(node),
            )
        return operand.items

    def augmented(self, node: ast.AugAssign) -> None:
        """``x op= y``; the index of an element is evaluated once."""
        target = node.target
        if isinstance(target, ast.Subscript):
            target = self.in_one(target)
            memory = self.stored(target)
            indices = self.indices(memory, target)
            old = self.load(memory, indices, target)
            new = self.binary(type(node.op), old, self.expression(node.value), node)
            self.store(memory, indices, new, target)
        elif isinstance(target, ast.Name):
            here = ast.copy_location(ast.Name(target.id, ast.Load()), target)
            new = self.binary(type(node.op), self.expression(here), self.expression(node.value), node)
            self.set_name(target, new)
        else:
            self.set(target, Literal(0), node)

    def annotated_assignment(self, node: ast.AnnAssign) -> None:
        if node.value is None:
            return
        operand = self.expression(node.value)
        dtype = self.annotated(node.annotation)
        if dtype is not None:
            operand = self.value(operand, dtype, node.value)
        self.set(node.target, operand, node.value)

    def annotated(self, node: ast.expr | None) -> np.dtype[Any] | None:
        """The dtype that an annotation asks for; of ``int``, ``pyasc.Tensor`` and the like none."""
        if node is None:
            return None
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value.rpartition(".")[2]
            return dtypes.DTYPES.get(text) if text != "bool" else None
        if isinstance(node, ast.Name | ast.Attribute):
            try:
                found = self.expression(node)
            except KernelError:
                return None
            value = found.value if isinstance(found, Constant) else None
            if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
                return dtypes.as_dtype(value)
        return None

    # --- branches ------------------------------------------------------------------------------------------

    def if_(self, node: ast.If, rest: list[ast.stmt], fall: str) -> tuple[str, bool]:
        """An ``if`` and, where a branch never comes to its end, the rest of the block within the other
        branch.

        Returns how both end, and whether the rest was taken in.
        """
        test = node.test
        if (
            isinstance(test, ast.BoolOp)
            and isinstance(test.op, ast.And)
            and not node.orelse
            and any(map(_touches, test.values[1:]))
            and not (rest and ends(node.body))
        ):
            # Nested, so that the left side is known to hold where the right side loads.
            at = next(k for k, v in enumerate(test.values) if k and _touches(v))
            inner = ast.copy_location(ast.If(_conjunction(test, test.values[at:]), node.body, []), node)
            node = ast.copy_location(ast.If(_conjunction(test, test.values[:at]), [inner], []), node)
            test = node.test
        condition = self.condition(test)
        if isinstance(condition, Literal):
            taken = node.body if condition.value else node.orelse
            return self.body([*taken, *rest], fall), True
        then, orelse = node.body, node.orelse
        took_rest = False
        if rest:
            first, second = ends(then), ends(orelse)
            if first and (orelse or first == fall):
                orelse, took_rest = [*orelse, *rest], True
            elif second:
                then, took_rest = [*then, *rest], True
        inner_fall = fall if took_rest or not rest else ""
        env = self.frame.env
        then_block, then_env, then_end = self.branch(then, dict(env), inner_fall)
        else_block, else_env, else_end = self.branch(orelse, dict(env), inner_fall)
        # Where the end of the branch is come to, or left in the way that it ends by itself.
        first_goes = then_end in ("", inner_fall)
        second_goes = else_end in ("", inner_fall)
        names: dict[str, Operand | Cell] = {}
        if first_goes and second_goes:
            then_env, else_env = _returned(then_env, then_end), _returned(else_env, else_end)
            names = self.merged(then_env, else_env, then_block, else_block, node)
        elif first_goes:
            names = self.exported(env, _returned(then_env, then_end), then_block, node)
        elif second_goes:
            names = self.exported(env, _returned(else_env, else_end), else_block, node)
        first_body, second_body = tuple(then_block.statements), tuple(else_block.statements)
        if first_body:
            self.emit(If(condition.number, first_body, second_body))
        elif second_body:
            self.emit(If(self.negation(condition).number, second_body))
        self.frame.env = {n: self.read(x) if isinstance(x, Cell) else x for n, x in names.items()}
        if not (first_goes or second_goes):
            return "left", took_rest
        return then_end if then_end == else_end else "", took_rest

    def branch(
        self, statements: list[ast.stmt], env: dict[str, Operand], fall: str
    ) -> tuple[BlockBuilder, dict[str, Operand], str]:
        """A block with names of its own."""
        before = self.frame.env
        self.frame.env = env
        block = self.open()
        try:
            ended = self.body(statements, fall)
        finally:
            self.close()
            env, self.frame.env = self.frame.env, before
        return block, env, ended

    def merged(
        self,
        then: dict[str, Operand],
        other: dict[str, Operand],
        then_block: BlockBuilder,
        else_block: BlockBuilder,
        node: ast.stmt,
    ) -> dict[str, Operand | Cell]:
        """The names after both branches; those that differ are held by variables."""
        result: dict[str, Operand | Cell] = {}
        line = self.span(node).number
        for name in dict.fromkeys((*then, *other)):
            a, b = then.get(name), other.get(name)
            if a is b and a is not None:
                result[name] = a
            elif a is None or b is None:
                result[name] = Unset(f"that is set in one branch of line {line} only: {name}")
            elif isinstance(a, Unset) or isinstance(b, Unset):
                result[name] = a if isinstance(a, Unset) else b
            else:
                result[name] = self._joined(name, a, b, then_block, else_block, node)
        return result

    def _joined(
        self, name: str, a: Operand, b: Operand, then: BlockBuilder, other: BlockBuilder, node: ast.stmt
    ) -> Operand | Cell:
        shape = self.joined_form(a, b)
        if shape is None:
            line = self.span(node).number
            return Unset(f"that is {describe(a)} or {describe(b)} after line {line}: {name}")
        if isinstance(a, Literal) and isinstance(b, Literal) and _same(a, b):
            return a
        cell = self.cell(shape)
        for block, operand in ((then, a), (other, b))[: 1 if then is other else 2]:
            self.open(block)
            self.write(cell, operand, node)
            self.close()
        return cell

    def exported(
        self, before: dict[str, Operand], env: dict[str, Operand], block: BlockBuilder, node: ast.stmt
    ) -> dict[str, Operand | Cell]:
        """The names after a branch that alone goes on; what it made is held by variables."""
        result: dict[str, Operand | Cell] = dict(env)
        for name, operand in env.items():
            if operand is not before.get(name) and not isinstance(operand, Unset):
                result[name] = self._joined(name, operand, operand, block, block, node)
        return result

    def joined_form(self, a: Operand, b: Operand) -> Form | None:
        """What holds both operands; single elements count as their values."""
        forms = [
            x.dtype if isinstance(x, Memory) and x.sole and x is not y else form(x)
            for x, y in ((a, b), (b, a))
        ]
        return join(forms[0], forms[1])

    # --- loops ---------------------------------------------------------------------------------------------

    def carried(self, node: ast.For | ast.While) -> Loop:
        """The names that a loop changes, held by variables from here on."""
        env = self.frame.env
        cells: dict[str, Cell] = {}
        for name in sorted(self.source.assigned[node]):
            initial = env.get(name)
            if initial is None or isinstance(initial, Unset):
                continue
            if isinstance(initial, Memory) and initial.sole:
                initial = self.value(initial, None, node)
            key = (id(node), self.frame.call, name)
            known = self.memo.forms.get(key, key)
            if known is key:
                known = self.memo.forms[key] = form(initial)
            shape = join(known, form(initial)) if known is not None else None
            if shape is None:
                env[name] = Unset(
                    f"that is not of one kind in the loop at line {self.span(node).number}: {name}"
                )
                continue
            if not alike(shape, known):
                self.memo.forms[key] = shape
                self.memo.changed = True
            cell = self.cell(shape)
            self.write(cell, initial, node)
            cells[name] = cell
        return Loop(node, (id(node), self.frame.call), cells)

    def turn(self, loop: Loop) -> None:
        """The carried names at the beginning of a turn."""
        self.forget()
        for name, cell in loop.cells.items():
            self.frame.env[name] = self.read(cell)

    def turned(self, loop: Loop) -> None:
        """The carried names are written where a turn ends or the loop is left."""
        node = loop.node
        for name, cell in loop.cells.items():
            operand = self.frame.env[name]
            key = (id(node), self.frame.call, name)
            shape = None if isinstance(operand, Unset) else join(cell.form, form(operand))
            if shape is None or not alike(shape, cell.form):
                if not alike(self.memo.forms.get(key), shape):
                    self.memo.forms[key] = shape
                    self.memo.changed = True
                continue
            self.write(cell, operand, node)

    def after(self, loop: Loop, env: dict[str, Operand], node: ast.For | ast.While) -> None:
        """The names after a loop."""
        line = self.span(node).number
        self.frame.env = env
        for name, cell in loop.cells.items():
            env[name] = self.read(cell)
        for name in self.source.assigned[node] - set(loop.cells):
            if not isinstance(env.get(name), Unset):
                env[name] = Unset(f"that is set in the loop at line {line} only: {name}")

    def for_(self, node: ast.For) -> None:
        if node.orelse:
            raise KernelError(
                f"[{self.name}] expected a loop without else, given for with else; use a variable",
                self.span(node.orelse[0]),
            )
        if not isinstance(node.iter, ast.Call):
            items = self.expression(node.iter)
            if isinstance(items, Tuple) and not leaves_turns(node.body):
                for item in items.items:  # each turn is written out
                    self.set(node.target, item, node.iter)
                    self.body(node.body, "")
                return
        start, stop, step = self.range_(node.iter)
        if not isinstance(node.target, ast.Name):
            raise KernelError(
                f"[{self.name}] expected one name for the number of a loop, given {ast.unparse(node.target)}",
                self.span(node.target),
            )
        by = self.known_number(step)
        if by == 0:
            raise KernelError(f"[{self.name}] expected a step that is not 0, given 0", self.span(node.iter))
        if (id(node), self.frame.call) in self.memo.unrolled and self.unrolled(node, start, stop, by):
            return
        loop = self.carried(node)
        count = start
        if by is None:
            # As many turns as the distance holds steps, rounded up.
            distance = self.let("sub", INT64, (start, stop))
            whole = self.let("floor_divide", INT64, (distance, step))
            count = self.let("neg", INT64, (whole,))
        number = self.fresh(INT64)
        loop.number = number.number
        after = dict(self.frame.env)
        block = self.open()
        self.turn(loop)
        index = number
        if by is None:
            index = self.let("add", INT64, (start, self.let("mul", INT64, (number, step))))
        self.frame.env[node.target.id] = index
        self.run_turn(loop, node)
        self.close()
        first, last = (start, stop) if by is not None else (self.constant(0, INT64), count)
        self.emit(For(number.number, first.number, last.number, by or 1, tuple(block.statements)))
        self.after(loop, after, node)

    def unrolled(self, node: ast.For, start: Value, stop: Value, step: int | None) -> bool:
        """Write the turns of a loop out, where they are few and none is left early."""
        first, last = self.known_number(start), self.known_number(stop)
        if first is None or last is None or step is None or leaves_turns(node.body):
            return False
        turns = range(first, last, step)
        if len(turns) > MAX_UNROLLED:
            return False
        assert isinstance(node.target, ast.Name)
        for k in turns:
            self.frame.env[node.target.id] = Literal(k)
            self.body(node.body, "")
        return True

    def known_number(self, step: Value) -> int | None:
        let = self.lets.get(step.number)
        return int(let.attrs[0]) if let is not None and let.op == "const" else None

    def run_turn(self, loop: Loop, node: ast.For | ast.While) -> None:
        """The body of a loop."""
        self.frame.loops.append(loop)
        ended = self.body(node.body, "continue")
        self.frame.loops.pop()
        if ended in ("", "continue"):
            self.turned(loop)

    def range_(self, node: ast.expr) -> tuple[Value, Value, Value]:
        """Start, stop and step of what a loop goes over."""
        if isinstance(node, ast.Call) and not node.keywords:
            callee = self.expression(node.func)
            if isinstance(callee, Constant) and callee.value is range and 1 <= len(node.args) <= 3:
                bounds = [self.integer(self.expression(a), a, "an integer for range") for a in node.args]
                if len(bounds) == 1:
                    bounds.insert(0, self.constant(0, INT64))
                if len(bounds) == 2:
                    bounds.append(self.constant(1, INT64))
                return bounds[0], bounds[1], bounds[2]
        raise KernelError(
            f"[{self.name}] expected a loop over range of 1 to 3 integers, or over a tuple without break "
            f"and continue, given one over {ast.unparse(node)}",
            self.span(node),
        )

    def while_(self, node: ast.While) -> None:
        if node.orelse:
            raise KernelError(
                f"[{self.name}] expected a loop without else, given while with else; use a variable",
                self.span(node.orelse[0]),
            )
        loop = self.carried(node)
        after = dict(self.frame.env)
        head = self.open()
        self.turn(loop)
        condition = self.condition(node.test)
        if isinstance(condition, Literal):
            condition = self.constant(condition.value, BOOL)
        # What the head knows holds in the body.
        body = self.open()
        self.run_turn(loop, node)
        self.close()
        self.close()
        self.emit(While(tuple(head.statements), condition.number, tuple(body.statements)))
        self.after(loop, after, node)

    def leave(self, node: ast.Break | ast.Continue, fall: str) -> str:
        """``break`` and ``continue``."""
        kind = "break" if isinstance(node, ast.Break) else "continue"
        if kind == fall:
            return kind
        self.turned(self.frame.loops[-1])
        self.emit(Break() if kind == "break" else Continue())
        return kind if kind == "break" else "left"

    def return_(self, node: ast.Return, fall: str) -> str:
        """``return``: in a loop the thread is done; else the result is kept, and nothing more is done."""
        operand = Constant(None) if node.value is None else self.expression(node.value)
        inner = len(self.frames) > 1
        if self.frame.loops or fall != "return":
            if inner or self.is_map:
                # Walked again with one exit.
                self.memo.exits.add(self.frame.function.__code__)
                self.memo.changed = True
            self.returns.append((self.source, node))
            self.emit(Return())
            return "left"
        if isinstance(operand, Memory) and operand.sole:
            operand = self.value(operand, None, node)
        self.frame.env[RESULT] = operand
        return "return"


def _returned(env: dict[str, Operand], ended: str) -> dict[str, Operand]:
    """Of a branch that returned, its result."""
    return {RESULT: env.get(RESULT, Constant(None))} if ended == "return" else env


def _touches(node: ast.expr) -> bool:
    """Whether an expression may load or call."""
    return any(isinstance(n, ast.Subscript | ast.Call) for n in ast.walk(node))


def _conjunction(whole: ast.BoolOp, parts: list[ast.expr]) -> ast.expr:
    return parts[0] if len(parts) == 1 else ast.copy_location(ast.BoolOp(whole.op, parts), whole)


def _same(a: Literal, b: Literal) -> bool:
    return type(a.value) is type(b.value) and repr(a.value) == repr(b.value)
