"""Instructions whose operands have different forms: read across the tile in place where the instruction can,
laid out over the tile otherwise."""

from __future__ import annotations

from .stage import MOVES, Stage
from .tile import MASK, Builder, Form, Scalar, Source, Value, VectorInstr

# Their repeats can step over an operand differently: a row is read again for each row, a column's block again
# for each lane.
_DIRECT = ("Add", "Sub", "Mul", "Div", "Max", "Min")
_FREE = ("Reduce", "Brcb", "Index", "Duplicate", "Fault", "Out", "Combine", *MOVES)


class _Broadcaster:
    def __init__(self, stage: Stage, count: int, direct: bool) -> None:
        self.direct = direct
        self.builder = Builder(count=count)

    def run(self, instrs: list[VectorInstr]) -> list[VectorInstr]:
        start = len(self.builder.instrs)
        for instr in instrs:
            self._instr(instr)
        return self.builder.instrs[start:]

    def _instr(self, instr: VectorInstr) -> None:
        dst = instr.dst
        values = instr.reads
        if dst is None or instr.op in _FREE or all(v.form is dst.form for v in values):
            self.builder.instrs.append(instr)
            return
        if instr.op == "Spread":
            self._spread(instr.reads[0], dst)
            return
        others = [v for v in values if v.form is not dst.form]
        if self.direct and instr.op in _DIRECT and len(values) == 2 and len(others) == 1:
            (other,) = others
            how = other.form.value
            first = instr.srcs[0] is other
            full = values[1] if first else values[0]
            across = self._blocks(other) if other.form is Form.COLUMN else other
            self.builder.instrs.append(VectorInstr(instr.op, dst, (full, across), (how, first), instr.note))
            return
        srcs: list[Source] = [
            s if isinstance(s, Scalar) or s.form is dst.form else self._laid_out(s) for s in instr.srcs
        ]
        self.builder.instrs.append(VectorInstr(instr.op, dst, tuple(srcs), instr.attrs, instr.note))

    def _blocks(self, column: Value) -> Value:
        return self.builder.emit_as(Form.BLOCKS, "Brcb", column.dtype, (column,))

    def _laid_out(self, value: Value) -> Value:
        """A row or a column over the whole tile; once, however often it is read."""
        b = self.builder
        if value.dtype == MASK:
            ones = b.select(value, b.duplicate(1.0, "f16", value.form), 0.0)
            return b.compare("NE", self._laid_out(ones), 0.0)
        if value.form is Form.ROW:
            return b.emit_as(Form.FULL, "Spread", value.dtype, (value,), ("row",))
        return b.emit_as(Form.FULL, "Spread", value.dtype, (self._blocks(value),), ("column",))

    def _spread(self, value: Value, dst: Value) -> None:
        found = self._laid_out(value)
        self.builder.instrs.append(VectorInstr("View", dst, (found,)))


def broadcast(stage: Stage, count: int, direct: bool) -> int:
    """Rewrite a stage's instructions; the next free number of a value."""
    made = _Broadcaster(stage, count, direct)
    for name in ("before", "body", "after"):
        # What a part computes is not there in another: a loop lies between.
        made.builder = Builder(count=made.builder.count)
        setattr(stage, name, made.run(getattr(stage, name)))
    return made.builder.count
