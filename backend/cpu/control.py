"""Control flow of an LLVM function under way, which both forms of KernelIR are emitted with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from llvmlite import ir


class Control:
    """A function, and the builder that stands in it.

    Attributes
    ----------
    function : ir.Function
    b : ir.IRBuilder
    """

    function: ir.Function
    b: ir.IRBuilder

    def new_block(self, name: str) -> ir.Block:
        return self.function.append_basic_block(name)

    @contextmanager
    def when(self, condition: ir.Value | None) -> Iterator[None]:
        """Code that runs only if the condition holds (None: always); what it changes is not merged."""
        if condition is None:
            yield
            return
        then, done = self.new_block("then"), self.new_block("done")
        self.b.cbranch(condition, then, done)
        self.b.position_at_end(then)
        yield
        self.b.branch(done)
        self.b.position_at_end(done)

    def minimum(self, x: ir.Value, y: ir.Value) -> ir.Value:
        return self.b.select(self.b.icmp_signed("<", x, y), x, y)

    def maximum(self, x: ir.Value, y: ir.Value) -> ir.Value:
        return self.b.select(self.b.icmp_signed(">", x, y), x, y)
