"""Barriers stand where all threads of a block come to them: checked on the lowered kernel."""

from __future__ import annotations

import ast
from math import prod

from ...backend.structured import (
    Barrier,
    Block,
    Break,
    Continue,
    For,
    If,
    Return,
    StructuredKernel,
    While,
    blocks,
    walk,
)
from ...backend.structured.uniform import uniform
from ...ops.errors import KernelError
from .source import Source

Place = tuple[Source, ast.AST]


def refuse_parted_barriers(kernel: StructuredKernel, barriers: list[Place], returns: list[Place]) -> None:
    """Refuse a barrier that some threads of a block may not come to.

    Parameters
    ----------
    kernel : StructuredKernel
    barriers, returns : list of (Source, ast.AST)
        Where they stand, in the order of the text.

    Raises
    ------
    KernelError
    """
    if not barriers or prod(kernel.block) <= 1:
        return
    if any(isinstance(s, Return) for s in walk(kernel.body)):
        source, node = returns[0]
        raise KernelError(
            f"[{kernel.name}] expected every thread to come to the barriers, given a return in a loop; guard "
            "what follows with if",
            source.span(node),
        )
    _Walk(kernel, barriers).block(kernel.body, False)


class _Walk:
    def __init__(self, kernel: StructuredKernel, barriers: list[Place]) -> None:
        self.kernel = kernel
        self.same = uniform(kernel)
        self.barriers = iter(barriers)

    def block(self, body: Block, parted: bool) -> None:
        for statement in body:
            match statement:
                case Barrier():
                    source, node = next(self.barriers)
                    if parted:
                        raise KernelError(
                            f"[{self.kernel.name}] expected every thread of the block to come to a barrier, "
                            "given one in a branch or loop that threads may take differently; move it out, "
                            "and guard loads and stores with if instead",
                            source.span(node),
                        )
                case If(condition, then, orelse):
                    inner = parted or condition not in self.same
                    self.block(then, inner)
                    self.block(orelse, inner)
                case For(_, start, stop, _, inner_body):
                    turns = start not in self.same or stop not in self.same
                    self.block(inner_body, parted or turns or self.leaves(inner_body))
                case While(_, condition, inner_body):
                    turns = condition not in self.same
                    self.block(inner_body, parted or turns or self.leaves(inner_body))

    def leaves(self, body: Block, parted: bool = False) -> bool:
        """Whether some threads may leave a turn of the loop before others."""
        for statement in body:
            if isinstance(statement, Break | Continue) and parted:
                return True
            inner = parted or (isinstance(statement, If) and statement.condition not in self.same)
            if not isinstance(statement, For | While) and any(
                self.leaves(b, inner) for b in blocks(statement)
            ):
                return True
        return False
