"""A Python function as a structured kernel.

The syntax tree is walked from top to bottom. What a name stands for is followed as values; variables of the
kernel hold it only across joins: the end of an ``if``, the turns of a loop. Of which dtype they must be is
known when the values that meet there are; for a loop that is after its body, so the walk is repeated until
nothing new is learnt (`emission.Memo`).

Handlers of builtins (`BUILTINS`, by the Python function object) are called with the `Lowering`, the syntax
tree of the call and the operands; they return an operand or None.
"""

from __future__ import annotations

import ast
from types import FunctionType
from typing import Any

from ...backend.structured import StructuredKernel
from ...ops.errors import KernelError
from ..signature import (
    ArgumentType,
    ArrayType,
    LaunchValues,
    Lowered,
    NumberType,
    ObjectType,
    Options,
    Path,
    SequenceType,
)
from ..signature import Constant as ConstantType
from . import calls  # noqa: F401  (enters the handlers)
from .cleaning import cleaned
from .emission import INT64, Memo
from .expressions import BUILTINS
from .meeting import refuse_parted_barriers
from .operands import Constant, Literal, Memory, Nothing, Object, Operand, Tuple, Unset
from .returns import RESULT
from .source import Source, read
from .statements import Statements
from .subscripts import Frame

__all__ = ["BUILTINS", "Lowering", "lower"]

_WALKS = 24  # a name climbs through few forms; each walk lets every loop climb


def lower(
    function: Any, signature: dict[str, ArgumentType], values: LaunchValues, options: Options
) -> Lowered:
    """Lower a kernel for the types of its arguments.

    Parameters
    ----------
    function : function
        As the user wrote it, written with ``def``.
    signature : dict of str to ArgumentType
        Of each parameter.
    values : LaunchValues
        Of the launch at hand.
    options : Options

    Returns
    -------
    Lowered

    Raises
    ------
    KernelError
        For what kernels do not have, with the place in the source.
    """
    source = read(function)
    memo = Memo()
    for _ in range(_WALKS):
        memo.changed = False
        walk = Lowering(function, source, signature, values, options, memo)
        try:
            made = walk.run()
        except KernelError:
            if not memo.changed:
                raise
            continue  # it may be of a name that can hold more than this walk knew
        if not memo.changed:
            return made
    raise AssertionError(f"the forms of the names of {function.__name__} do not come to rest")


class Lowering(Statements):
    """One walk over a kernel's source."""

    def __init__(
        self,
        function: FunctionType,
        source: Source,
        signature: dict[str, ArgumentType],
        values: LaunchValues,
        options: Options,
        memo: Memo,
    ) -> None:
        super().__init__(function.__name__, values, options, memo)
        self.function = function
        self.signature = signature
        self.source = self.exits_once(function, source)
        self.frames = [Frame(function, self.source)]
        if self.source.exits_once:
            self.frame.env[RESULT] = Nothing()
        self.whole = source.tree
        self.is_map = returns_value(source.tree)

    def run(self) -> Lowered:
        tree = self.source.tree
        self.refuse_parameters(tree)
        result = self._result_array() if self.is_map else None
        env = self.frame.env
        for parameter in (*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs):
            kind = self.signature[parameter.arg]
            operand = self.parameter(parameter, kind)
            if self.is_map and isinstance(operand, Memory):
                operand = self.value(operand, None, parameter)
            env[parameter.arg] = operand
        self.body(tree.body, "return")
        if result is not None:
            result = self._store_result(result)
        return self._finished(result)

    def parameter(self, node: ast.arg, kind: ArgumentType) -> Operand:
        path: Path = (node.arg,)
        match kind:
            case ArrayType():
                return self.array(path, node.arg, kind)
            case NumberType():
                number = self.scalar(path, kind.kind)
                dtype = self.annotated(node.annotation)
                return number if dtype is None else number.build(dtype)
            case SequenceType():
                return Tuple(tuple(self.scalar((*path, k), item.kind) for k, item in enumerate(kind.items)))
            case ObjectType():
                return Object(path)
            case ConstantType():
                value = kind.value
                return Literal(value) if isinstance(value, bool | int | float) else Constant(value)
        raise AssertionError(f"no argument type: {kind}")

    # --- maps ----------------------------------------------------------------------------------------------

    def _result_array(self) -> Memory:
        """The first array of a map; its dtype is known at the end."""
        dtype = self.memo.forms.get(RESULT, INT64)
        return self.array(("return",), "result", ArrayType(dtype, "1"))

    def _store_result(self, result: Memory) -> Memory:
        operand = self.frame.env.get(RESULT)
        if operand is None:
            operand = Constant(None)
        last = next(s for s in reversed(list(ast.walk(self.whole))) if isinstance(s, ast.Return))
        if isinstance(operand, Unset):
            raise KernelError(
                f"[{self.name}] expected a value to return on every way through the kernel, "
                "given none on some",
                self.span(last),
            )
        if isinstance(operand, Tuple):
            raise KernelError(
                f"[{self.name}] expected one value from a kernel that returns its result, given a tuple; "
                "store to arrays",
                self.span(last),
            )
        if isinstance(operand, Memory):
            operand = self.value(operand, None, last)
        value = self.value(operand, None, last)
        if RESULT not in self.memo.forms or self.memo.forms[RESULT] != value.dtype:
            self.memo.forms[RESULT] = value.dtype
            self.memo.changed = True
            return result
        self.store(result, (self.thread_id("global_id", 0),), value, last)
        return result

    # --- the end -------------------------------------------------------------------------------------------

    def _finished(self, result: Memory | None) -> Lowered:
        assert len(self.blocks) == 2
        body = self.blocks[1]
        axes = max(self.ids, 1)
        block = self.options.block_dim
        kernel = StructuredKernel(
            axes,
            self.finished_arrays(),
            tuple(dtype for _, dtype in self.scalars),
            tuple(self.variables),
            (*self.prologue.statements, *body.statements),
            tuple(self.buffers),
            tuple(self.functions),
            (*block, *(1,) * axes)[:axes] if self.asks_block or self.buffers else (),
            self.options.optimize,
            self.options.pipeline_depth,
            name=self.name,
            sites=tuple(self.sites),
        )
        lowered = Lowered(
            kernel,
            "map" if result is not None else "tiles" if self.tiles else "threads",
            tuple(use.memory.path for use in self.uses),
            tuple(path for path, _ in self.scalars),
            tuple(self.guards),
            (),
            frozenset(use.memory.number for use in self.uses if use.memory.path in self.memo.flat),
            max(self.ids, 1),
        )
        if self.tiles and not self.memo.changed:
            from .. import tiles

            filled = {("filled", number) for number in tiles.partly_written(kernel.body)}
            self.memo.changed = not filled <= self.memo.forms.keys()
            self.memo.forms.update(dict.fromkeys(filled, True))
        lowered = cleaned(lowered)
        refuse_parted_barriers(lowered.kernel, self.barriers, self.returns)
        if self.tiles and not self.memo.changed:
            from .. import tiles

            lowered = tiles.spread(lowered)
        return lowered


def returns_value(tree: ast.FunctionDef) -> bool:
    """Whether a function returns something: as a kernel it is a map."""
    return any(
        isinstance(s, ast.Return) and not (s.value is None or _is_none(s.value)) for s in ast.walk(tree)
    )


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
