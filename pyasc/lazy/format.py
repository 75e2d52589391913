"""The forms of a program between its passes, as text, and their log (``PYASC_LOG=ir``)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from ..config import config
from ..ops._graph import Tape
from ..ops.primitives import KERNEL, LEAF, SCALAR, Primitive
from .handwritten import Arguments
from .schedule import Schedule
from .simplify import Graph


def log_pass(name: str, text: Callable[[], str]) -> None:
    """Print what a pass produced to standard error, if the log asks for it."""
    if config.log == "ir":
        print(f"--- {name}\n{text()}", file=sys.stderr)


def format_tape(tape: Tape) -> str:
    """One line for each recorded operation; leaves and numbers where they are used."""
    lines = []
    for position, node in enumerate(tape.nodes):
        if node.primitive in (LEAF, SCALAR):
            continue
        operands = []
        for o in tape.operands(position):
            operand = tape.nodes[o]
            if operand.primitive is SCALAR:
                operands.append(repr(operand.value))
            elif operand.primitive is LEAF:
                operands.append(f"array{list(operand.shape)}")
            else:
                operands.append(f"%{o}")
        attrs = _attributes(node.primitive, node.attrs)
        kept = "  (kept)" if position in tape.outputs else ""
        lines.append(
            f"%{position} = {node.primitive.name}{attrs} {', '.join(operands)} : "
            f"{node.dtype.name}{list(node.shape)}{kept}"
        )
    return "\n".join(lines)


def _attributes(primitive: Primitive, attrs: tuple[Any, ...] | None) -> str:
    if not attrs:
        return ""
    if primitive is KERNEL:
        arguments = Arguments.of(attrs)
        return f" {arguments.kernel.name}[{', '.join(map(str, arguments.grid))}]"
    return f" {attrs}"


def format_graph(graph: Graph) -> str:
    """One line for each value."""
    lines = []
    for n, value in enumerate(graph.values):
        attrs = _attributes(value.primitive, value.attrs)
        operands = ", ".join(f"%{o}" for o in value.operands)
        kept = "  (kept)" if n in graph.outputs else ""
        lines.append(
            f"%{n} = {value.primitive.name}{attrs} {operands} : {value.dtype.name}{list(value.shape)}{kept}"
        )
    return "\n".join(lines)


def format_schedule(cut: Schedule) -> str:
    """One line for each step: what it computes, what it stores, and why it began."""
    lines = []
    for step in cut.steps:
        stored = ", ".join(f"%{v}" for v in sorted(step.members) if v in cut.stored)
        computed = ", ".join(f"%{v}" for v in sorted(step.members))
        kind = "host" if step.host else "kernel"
        lines.append(f"{kind} {step.number}: computes {computed}; stores {stored}; began: {step.reason}")
    return "\n".join(lines)
