"""The lanes of a row for which the condition that a kernel begins with is the same.

``if 0 < j < w - 1`` holds for a range of j, which is found out once for a row: the vectors inside it need
neither the condition nor masks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from llvmlite import ir

from ...structured import Break, Continue, If, Let, Return
from ..constants import i64
from ..emitter import I64

if TYPE_CHECKING:
    from .body import Body
    from .lanes import Node


class Split(NamedTuple):
    """The vectors from `first` on that end at or before `stop` take one way through an ``if``."""

    node: Node
    holds: bool
    first: ir.Value
    stop: ir.Value


def split(body: Body, nodes: Sequence[Node], start: ir.Value, stop: ir.Value) -> Split | None:
    """How the lanes of a row are split, or None where nothing is known."""
    for node in nodes:
        statement = node.statement
        if isinstance(statement, If) and not node.light:
            if not node.varying:
                return None
            # An early return is not what most lanes do.
            leaves = all(isinstance(n.statement, (Return, Break, Continue)) for n in node.blocks[0])
            holds = not (leaves and not node.blocks[1])
            found = _Range(body, nodes).of(statement.condition, holds)
            if found is None:
                return None
            first, last = (body.minimum(body.maximum(end, start), stop) for end in found)
            return Split(node, holds, first, last)
        if not (node.light or (isinstance(statement, Let) and statement.op != "call")):
            return None
    return None


Ends = tuple[ir.Value, ir.Value]


class _Range:
    """Emits, before the loop over lanes, from where to where conditions hold."""

    def __init__(self, body: Body, nodes: Sequence[Node]) -> None:
        self.body = body
        self.lets = {n.statement.value: n.statement for n in nodes if isinstance(n.statement, Let)}
        self.made: dict[int, ir.Value | None] = {}

    def of(self, condition: int, holds: bool) -> Ends | None:
        """The first lane where a condition is as given, and that after the last; None if that is no range."""
        body, b = self.body, self.body.b
        found = body.found
        if found.step(condition) == 0:
            value = self.first(condition)
            if value is None:
                return None
            value = value if holds else b.not_(value)
            return i64(0), b.select(value, i64(_FAR), i64(0))
        let = self.lets.get(condition)
        if let is None:
            return None
        if let.op == "not":
            return self.of(let.args[0], not holds)
        if let.op in ("and", "or") and (let.op == "and") == holds:
            ends = [self.of(a, holds) for a in let.args]
            if ends[0] is None or ends[1] is None:
                return None
            return body.maximum(ends[0][0], ends[1][0]), body.minimum(ends[0][1], ends[1][1])
        if let.op in ("lt", "le") and found.dtypes[let.args[0]] == np.int64:
            return self._compared(let, holds)
        return None

    def _compared(self, let: Let, holds: bool) -> Ends | None:
        (x, y), strict = let.args, let.op == "lt"
        if not holds:
            x, y, strict = y, x, not strict
        steps = self.body.found.step(x), self.body.found.step(y)
        first, bound = (self.first(v) for v in ((x, y) if steps[0] else (y, x)))
        if steps not in ((1, 0), (0, 1)) or first is None or bound is None:
            return None
        distance = self.body.plain.intrinsic("llvm.ssub.sat.i64", I64, bound, first)
        if steps[0]:  # lane < distance, or <=
            return i64(0), distance if strict else self._next(distance)
        return self._next(distance) if strict else distance, i64(_FAR)

    def _next(self, value: ir.Value) -> ir.Value:
        return self.body.plain.intrinsic("llvm.sadd.sat.i64", I64, value, i64(1))

    def first(self, value: int) -> ir.Value | None:
        """A value at lane 0, where it depends on nothing in memory."""
        if value in self.body.env and self.body.found.step(value) == 0:
            return self.body.env[value]
        if value not in self.made:
            self.made[value] = self._first(value)
        return self.made[value]

    def _first(self, value: int) -> ir.Value | None:
        body, let = self.body, self.lets.get(value)
        if let is None:
            return i64(0) if value == body.span_lane else None
        if let.op in ("load", "call", "get") or body.found.step(value) is None:
            return None
        if let.op == "global_id" and let.attrs[0] == body.found.lane:
            return i64(0)
        if not let.args:
            return body.let(let)
        args = [self.first(a) for a in let.args]
        if None in args:
            return None
        dtypes = [body.found.dtypes[a] for a in let.args]
        return body.uniform(let.op, let.dtype, args, dtypes, let.attrs)


_FAR = (1 << 63) - 1
