"""Which values are the same for all threads of a block."""

from __future__ import annotations

from .. import structured as s


def uniform(kernel: s.StructuredKernel) -> frozenset[int]:
    """The values that all threads of a block that come to them at the same turn agree on.

    What is loaded from one place is taken to be the same for all: a kernel in which it is not has a race. The
    indices of a `Span` differ, and what depends on them. Without ``kernel.block`` every id differs.
    """
    analysis = _Uniform(kernel)
    while True:
        analysis.changed = False
        analysis.block(kernel.body, parted=False)
        if not analysis.changed:
            return frozenset(analysis.made - analysis.varying)


class _Uniform:
    def __init__(self, kernel: s.StructuredKernel) -> None:
        self.block_size = kernel.block
        self.made: set[int] = set()
        self.varying: set[int] = set()
        self.variables: set[int] = set()  # that differ
        self.parted_loops: set[int] = set()  # which threads leave at different turns
        self.loops: list[int] = []
        self.changed = False

    def vary(self, value: int) -> None:
        if value not in self.varying:
            self.varying.add(value)
            self.changed = True

    def let(self, let: s.Let) -> bool:
        """Whether it differs between threads."""
        match let.op:
            case "global_id" | "local_id":
                return not self.block_size or self.block_size[let.attrs[0]] > 1
            case "group_id":
                return not self.block_size
            case "get":
                return let.attrs[0] in self.variables
        return not self.varying.isdisjoint(let.args)

    def block(self, body: s.Block, parted: bool) -> None:
        """``parted``: whether the threads of a block may take different ways to here."""
        for statement in body:
            match statement:
                case s.Let():
                    self.made.add(statement.value)
                    if self.let(statement):
                        self.vary(statement.value)
                case s.Set(variable, value):
                    if (parted or value in self.varying) and variable not in self.variables:
                        self.variables.add(variable)
                        self.changed = True
                case s.Atomic(result=result) if result >= 0:
                    self.made.add(result)
                    self.vary(result)
                case s.If(condition, then, orelse):
                    apart = parted or condition in self.varying
                    self.block(then, apart)
                    self.block(orelse, apart)
                case s.For(value, start, stop, _, inner):
                    self.made.add(value)
                    apart = start in self.varying or stop in self.varying
                    if start in self.varying:
                        self.vary(value)
                    self.loop(id(statement), (inner,), parted, apart)
                case s.While(head, condition, inner):
                    self.loop(id(statement), (head, inner), parted, condition in self.varying)
                case s.Break() | s.Continue():
                    if parted and self.loops and self.loops[-1] not in self.parted_loops:
                        self.parted_loops.add(self.loops[-1])
                        self.changed = True
                case s.Span(values, _, inner):
                    for value in values:
                        self.made.add(value)
                        self.vary(value)
                    # What a span sets, it sets for the rest of its points.
                    self.block(inner, True)

    def loop(self, which: int, bodies: tuple[s.Block, ...], parted: bool, apart: bool) -> None:
        parted = parted or apart or which in self.parted_loops
        self.loops.append(which)
        for body in bodies:
            self.block(body, parted)
        self.loops.pop()
