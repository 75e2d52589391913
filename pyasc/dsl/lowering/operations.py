"""Arithmetic: operators of Python and functions of the op table on operands of a kernel."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ...ops import dtypes, registry
from ...ops.errors import KernelError, PyascError
from .emission import BOOL, INT64, BlockBuilder, Emission
from .operands import HELD, NUMBERS, Constant, Literal, Memory, Number, Operand, Tuple, Value, Weak, describe
from .translation import NotElementwise, Translation, by_name, translate
from .translation import Operand as Dtype_

Dtype = np.dtype[Any]

BINARY: dict[type[ast.operator], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Add: ("add", operator.add),
    ast.Sub: ("subtract", operator.sub),
    ast.Mult: ("multiply", operator.mul),
    ast.Div: ("divide", operator.truediv),
    ast.FloorDiv: ("floor_divide", operator.floordiv),
    ast.Mod: ("remainder", operator.mod),
    ast.Pow: ("power", operator.pow),
    ast.BitAnd: ("bitwise_and", operator.and_),
    ast.BitOr: ("bitwise_or", operator.or_),
    ast.BitXor: ("bitwise_xor", operator.xor),
    ast.LShift: ("left_shift", operator.lshift),
    ast.RShift: ("right_shift", operator.rshift),
}
UNARY: dict[type[ast.unaryop], tuple[str, Callable[[Any], Any]]] = {
    ast.USub: ("negative", operator.neg),
    ast.UAdd: ("positive", operator.pos),
    ast.Invert: ("invert", operator.invert),
}
COMPARISONS: dict[type[ast.cmpop], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Eq: ("equal", operator.eq),
    ast.NotEq: ("not_equal", operator.ne),
    ast.Lt: ("less", operator.lt),
    ast.LtE: ("less_equal", operator.le),
    ast.Gt: ("greater", operator.gt),
    ast.GtE: ("greater_equal", operator.ge),
}
_COMPARING = frozenset(name for name, _ in COMPARISONS.values())
# The operations of one primitive on two operands of one dtype, which need no translation: op and swapped.
_DIRECT = {
    entry.name: (entry.primitive.name, entry.swapped, entry)
    for entry in registry.operations()
    if entry.primitive is not None and entry.arity == 2 and entry.rule is not None
}


class Operations(Emission):
    """`Emission` with arithmetic."""

    def number(self, operand: Operand, node: ast.AST) -> Number:
        """An operand as a number."""
        return operand if isinstance(operand, NUMBERS) else self.value(operand, None, node)

    def binary(self, kind: type[ast.operator], x: Operand, y: Operand, node: ast.AST) -> Operand:
        """``x op y``."""
        entry = BINARY.get(kind)
        if entry is None:
            raise KernelError(
                f"[{self.name}] expected an operator on numbers, given @; a product of matrices is a loop, "
                "or pyasc.matmul on buffers",
                self.span(node),
            )
        name, fold = entry
        if isinstance(x, Tuple) and isinstance(y, Tuple) and kind is ast.Add:
            return Tuple(x.items + y.items)
        return self.operate(name, fold, (self.number(x, node), self.number(y, node)), node)

    def operate(self, name: str, fold: Callable[..., Any], xs: tuple[Number, ...], node: ast.AST) -> Operand:
        """An operator of Python: literals are computed as Python does."""
        if all(isinstance(x, Literal) for x in xs):
            return self.fold(fold, xs, node)
        direct = _DIRECT.get(name)
        if direct is not None and len(xs) == 2:
            x, y = xs
            if isinstance(x, Value) and isinstance(y, Value) and x.dtype == y.dtype:
                op, swapped, entry = direct
                if entry.rule.of(x.dtype) == "keep":
                    a, b = (y, x) if swapped else (x, y)
                    return self.let(op, entry.result or x.dtype, (a, b))
        return self.apply(by_name(name), xs, node)

    def fold(self, function: Callable[..., Any], xs: tuple[Any, ...], node: ast.AST) -> Literal:
        try:
            result = function(*(x.value for x in xs))
        except (ArithmeticError, ValueError, TypeError) as error:
            raise KernelError(
                f"[{self.name}] expected an expression that has a value, given one that raises "
                f"{type(error).__name__}: {error}",
                self.span(node),
            ) from None
        if isinstance(result, np.generic):
            result = result.item()
        if not isinstance(result, bool | int | float):
            raise KernelError(
                f"[{self.name}] expected real numbers, given an expression with the value {result!r:.40}",
                self.span(node),
            )
        if isinstance(result, int) and abs(result) >= 2**64:
            raise KernelError(
                f"[{self.name}] expected integers that fit 64 bits, given an expression with the value "
                f"{result}",
                self.span(node),
            )
        return Literal(result)

    def apply(
        self,
        function: Callable[..., Any],
        xs: tuple[Operand, ...],
        node: ast.AST,
        options: dict[str, Operand] | None = None,
    ) -> Operand:
        """A function of the op table on numbers.

        Literals are handed over as they are; a number that is known at launch takes the dtype of the values
        it meets.
        What meets no value stays weak.
        """
        options = options or {}
        given = [self._argument(x, node) for x in (*xs, *options.values())]
        strong = [x.dtype for x in given if isinstance(x, Value)]
        if not strong:
            if any(isinstance(x, Weak) for x in given):
                return self._weakly(function, given, len(xs), tuple(options), node)
            # Literals alone: in the dtypes that they have by themselves.
            first = next((k for k, x in enumerate(given) if isinstance(x, Literal)), None)
            if first is None:
                raise self._refused(function, given, node, "no number is among them")
            return self._weakly(function, given, len(xs), tuple(options), node)
        met = dtypes.result_type(*strong)
        if met.kind in "iu" and getattr(function, "__name__", "") in _COMPARING:
            met = INT64  # compared as the numbers they are
        made = [x.build(dtypes.weak(met, x.kind)) if isinstance(x, Weak) else x for x in given]
        return self._translated(function, made, len(xs), tuple(options), node)

    def _argument(self, x: Operand, node: ast.AST) -> Any:
        """A number, or the Python value of what else is known."""
        if isinstance(x, Memory):
            return self.value(x, None, node)
        if isinstance(x, Constant):
            value = x.value
            if isinstance(value, type) and issubclass(value, np.generic):
                value = np.dtype(value)
            return Dtype_(value) if isinstance(value, np.dtype) else value
        if isinstance(x, Tuple):
            return tuple(i.value if isinstance(i, Literal) else self.value(i, None, node) for i in x.items)
        return x if isinstance(x, NUMBERS) else self.value(x, None, node)

    def _translated(
        self, function: Any, given: list[Any], count: int, names: tuple[str, ...], node: ast.AST
    ) -> Operand:
        arguments = [
            x.dtype if isinstance(x, Value) else x.value if isinstance(x, Literal) else x for x in given
        ]
        made = self._translation(function, arguments, count, names, given, node)
        values = [x for x in given if isinstance(x, Value)]
        for step in made.steps:
            args = tuple([values[a] for a in step.args])
            values.append(self.let(step.op, step.dtype, args, step.attrs))
        results = [values[place] for place, _ in made.results]
        return Tuple(tuple(results)) if made.several else results[0]

    def _translation(
        self,
        function: Any,
        arguments: list[Any],
        count: int,
        names: tuple[str, ...],
        given: list[Any],
        node: ast.AST,
    ) -> Translation:
        options = dict(zip(names, arguments[count:], strict=True))
        try:
            return translate(function, tuple(arguments[:count]), options)
        except NotElementwise:
            raise self._refused(function, given, node, "it is no function of single elements") from None
        except PyascError as error:
            raise self._refused(function, given, node, error.message) from None
        except (TypeError, ValueError) as error:
            raise self._refused(function, given, node, str(error)) from None

    def _refused(self, function: Any, given: list[Any], node: ast.AST, reason: str) -> KernelError:
        name = getattr(function, "__name__", repr(function))
        shown = ", ".join(describe(x) if isinstance(x, Value | Literal | Weak) else repr(x) for x in given)
        return KernelError(
            f"[{self.name}] expected a call that {name} takes on elements, given {name} of {shown}: {reason}",
            self.span(node),
        )

    def _weakly(
        self, function: Any, given: list[Any], count: int, names: tuple[str, ...], node: ast.AST
    ) -> Operand:
        """An operation on numbers without dtypes: recorded again in the dtype of what it meets."""
        source = self.source

        def made_in(dtype: Dtype | None) -> list[Any]:
            """The operands where floats are of a dtype; one of several literals must be a value."""
            made = []
            for x in given:
                if isinstance(x, Weak):
                    x = x.build(dtype if dtype is not None and x.kind is not bool else HELD[x.kind])
                made.append(x)
            if not any(isinstance(x, Value) for x in made):
                at = next(k for k, x in enumerate(made) if isinstance(x, Literal))
                made[at] = self.constant(made[at].value, dtype or HELD[made[at].kind])
            return made

        floats = any(isinstance(x, Literal | Weak) and x.kind is float for x in given)
        # Integers among floats are floats.
        usual = made_in(HELD[float] if floats else None)
        result = self._translated(function, usual, count, names, node)
        if not isinstance(result, Value) or result.dtype == BOOL:
            return result
        if result.dtype.kind in "iu":
            return Weak(int, lambda dtype: self.cast(result, dtype))

        built: dict[Dtype, tuple[Value, BlockBuilder]] = {}  # with the block in which it is known

        def build(dtype: Dtype) -> Value:
            if not dtypes.is_float(dtype):
                return self.cast(result, dtype)
            before = built.get(dtype)
            if before is not None and any(block is before[1] for block in self.blocks):
                return before[0]
            self.source, here = source, self.source
            try:
                again = self._translated(function, made_in(dtype), count, names, node)
            finally:
                self.source = here
            assert isinstance(again, Value)
            made = self.cast(again, dtype)
            built[dtype] = made, self.blocks[-1]
            return made

        return Weak(float, build)

    # --- truth ---------------------------------------------------------------------------------------------

    def truth(self, operand: Operand, node: ast.AST) -> Value | Literal:
        """Whether an operand is true: a bool value, or a literal where it is known."""
        if isinstance(operand, Literal):
            return Literal(bool(operand.value))
        if isinstance(operand, Constant):
            return Literal(bool(operand.value))
        if isinstance(operand, Tuple):
            return Literal(bool(operand.items))
        value = self.value(operand, None, node)
        if value.dtype == BOOL:
            return value
        return self.let("ne", BOOL, (value, self.constant(0, value.dtype)))

    def negation(self, value: Value) -> Value:
        """Whether a bool is false, by the opposite comparison where that is exact."""
        let = self.lets.get(value.number)
        if let is not None and let.op in ("not", "or", "lt", "le", "eq", "ne"):
            args = tuple(Value(n, self.dtype_of[n]) for n in let.args)
            if let.op == "not":
                return args[0]
            if let.op == "or":
                return self.let("and", BOOL, tuple(map(self.negation, args)))
            if let.op in ("eq", "ne"):
                return self.let("ne" if let.op == "eq" else "eq", BOOL, args)
            if all(x.dtype.kind in "iu" for x in args):
                return self.let("le" if let.op == "lt" else "lt", BOOL, args[::-1])
        return self.let("not", BOOL, (value,))

    def compare(self, kind: type[ast.cmpop], x: Operand, y: Operand, node: ast.AST) -> Operand:
        """One comparison."""
        if kind in (ast.Is, ast.IsNot):
            same = x == y if isinstance(x, Constant) and isinstance(y, Constant) else False
            if isinstance(x, Literal) and isinstance(y, Literal):
                same = x.value is y.value
            return Literal(same if kind is ast.Is else not same)
        if kind in (ast.In, ast.NotIn):
            if not isinstance(y, Tuple):
                raise KernelError(
                    f"[{self.name}] expected a tuple after in, given {describe(y)}", self.span(node)
                )
            found: Operand = Literal(False)
            for item in y.items:
                found = self.either(found, self.compare(ast.Eq, x, item, node), node)
            return found if kind is ast.In else self.opposite(found, node)
        name, fold = COMPARISONS[kind]
        if isinstance(x, Constant | Tuple) or isinstance(y, Constant | Tuple):
            return self._compare_known(kind, x, y, node)
        return self.operate(name, fold, (self.number(x, node), self.number(y, node)), node)

    def _compare_known(self, kind: type[ast.cmpop], x: Operand, y: Operand, node: ast.AST) -> Operand:
        """Equality of dtypes, strings, None and tuples."""
        if kind not in (ast.Eq, ast.NotEq):
            raise KernelError(
                f"[{self.name}] expected numbers to compare, given {describe(x)} and {describe(y)}",
                self.span(node),
            )
        if isinstance(x, Tuple) and isinstance(y, Tuple):
            same: Operand = Literal(len(x.items) == len(y.items))
            if same == Literal(True):
                for a, b in zip(x.items, y.items, strict=True):
                    same = self.both(same, self.compare(ast.Eq, a, b, node), node)
        elif isinstance(x, Constant) and isinstance(y, Constant):
            same = Literal(_equal(x.value, y.value))
        else:
            same = Literal(False)
        return same if kind is ast.Eq else self.opposite(same, node)

    def opposite(self, x: Operand, node: ast.AST) -> Operand:
        known = self.truth(x, node)
        return Literal(not known.value) if isinstance(known, Literal) else self.negation(known)

    def both(self, x: Operand, y: Operand, node: ast.AST) -> Operand:
        """``x and y`` of two truths that are there."""
        a, b = self.truth(x, node), self.truth(y, node)
        if isinstance(a, Literal):
            return b if a.value else a
        if isinstance(b, Literal):
            return a if b.value else b
        return self.let("and", BOOL, (a, b))

    def either(self, x: Operand, y: Operand, node: ast.AST) -> Operand:
        a, b = self.truth(x, node), self.truth(y, node)
        if isinstance(a, Literal):
            return a if a.value else b
        if isinstance(b, Literal):
            return b if b.value else a
        return self.let("or", BOOL, (a, b))


def _equal(a: Any, b: Any) -> bool:
    """Equality; of what names dtypes, of the dtypes."""
    try:
        if isinstance(a, np.dtype) or isinstance(b, np.dtype):
            return bool(dtypes.as_dtype(a) == dtypes.as_dtype(b))
        return bool(a == b)
    except (TypeError, ValueError):
        return False
