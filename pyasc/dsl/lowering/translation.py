"""Functions of the op table as steps of a kernel.

An operation is recorded once for the dtypes and literals that it is called with, on tensors that stand for
single elements; what was recorded are the primitives that it consists of. So kernels have every elementwise
function of the table, with its dtype rules.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from ...lazy import evaluate
from ...ops import _graph, dtypes, registry
from ...ops.primitives import EMPTY, FULL, SCALAR, VIEW, WRAP_INDEX, Kind

Dtype = np.dtype[Any]


@dataclass(frozen=True, slots=True)
class Step:
    """A `Let` to be: ``args`` count the operands first, then the steps."""

    op: str
    dtype: Dtype
    args: tuple[int, ...]
    attrs: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Translation:
    """What an operation does with single elements: its steps and the results among operands and steps."""

    steps: tuple[Step, ...]
    results: tuple[tuple[int, Dtype], ...]
    several: bool


class NotElementwise(Exception):
    """The operation is more than a function of single elements."""


@cache
def _functions() -> dict[Any, Callable[..., Any]]:
    return {entry.function: entry.function for entry in registry.operations()}


def of_table(function: Any) -> Callable[..., Any] | None:
    """The function of the op table that a function, or NumPy's namesake, is; None where there is none."""
    try:
        found = _functions().get(function)
        if found is None:
            entry = registry.of_numpy(function)
            found = None if entry is None else entry.function
    except TypeError:  # not hashable
        return None
    return found


def by_name(name: str) -> Callable[..., Any]:
    """The function of the op table of a name."""
    return registry.find(name).function


_translations: dict[Any, Translation] = {}


def _key(x: Any) -> Any:
    """By which an argument is known; 0.0, -0.0, 0 and False are four things."""
    return x if isinstance(x, np.dtype) else (type(x), repr(x))


def translate(
    function: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any] | None = None
) -> Translation:
    """The steps of an operation for operands of these dtypes; whatever is no dtype is handed over as it is.

    Raises
    ------
    NotElementwise
    PyascError
        Whatever the operation says of its arguments.
    """
    key: Any = (function, *map(_key, args), dtypes.numpy_rules())
    if options:
        key = (*key, *((name, _key(x)) for name, x in options.items()))
    found = _translations.get(key)
    if found is None:
        found = _translations[key] = _translate(function, args, options or {})
    return found


class Operand:
    """A dtype handed over as it is, not as that of an operand."""

    __slots__ = ("dtype",)

    def __init__(self, dtype: Dtype) -> None:
        self.dtype = dtype

    def __repr__(self) -> str:
        return f"Operand({self.dtype})"


def _translate(function: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> Translation:
    evaluate.begin_tracing([], (), "kernel")  # nothing is evaluated meanwhile
    try:
        leaves: list[Any] = []

        def stand_in(x: Any) -> Any:
            if isinstance(x, Operand):
                return x.dtype
            if not isinstance(x, np.dtype):
                return x
            leaves.append(_graph.tensor(_graph.record(EMPTY, (), (), x)))
            return leaves[-1]

        given = [stand_in(x) for x in args]
        named = {name: stand_in(x) for name, x in options.items()}
        result = function(*given, **named)
        several = isinstance(result, tuple | list)
        tensors = list(result) if several else [result]
        if not all(isinstance(t, _graph.TensorBase) and t.shape == () for t in tensors):
            raise NotElementwise
        nodes = [t.node for t in tensors]
        return _steps([leaf.node for leaf in leaves], nodes, several)
    finally:
        evaluate.end_tracing()


def _steps(leaves: list[Any], roots: list[Any], several: bool) -> Translation:
    tape = _graph.linearise(roots)
    number = {id(node): k for k, node in enumerate(leaves)}
    place: dict[int, int] = {}  # of a node on the tape: its operand or step
    steps: list[Step] = []
    for k, node in enumerate(tape.nodes):
        primitive = node.primitive
        if id(node) in number:
            place[k] = number[id(node)]
            continue
        args = tuple(place[p] for p in tape.operands(k))
        if primitive is FULL or primitive is VIEW:
            place[k] = args[0]
            continue
        if primitive is SCALAR:
            value = node.value
            kind = node.dtype.kind
            plain = bool(value) if kind == "b" else int(value) if kind in "iu" else float(value)
            step = Step("const", node.dtype, (), (plain,))
        elif primitive.kind is Kind.ELEMENTWISE and primitive is not WRAP_INDEX:
            step = Step(primitive.name, node.dtype, args, node.attrs or ())
        else:
            raise NotElementwise
        place[k] = len(leaves) + len(steps)
        steps.append(step)
    return Translation(
        tuple(steps), tuple((place[tape.position(root)], root.dtype) for root in roots), several
    )
