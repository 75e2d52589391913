"""Functions that the scalar unit lacks: what primitives are lowered to for tiles, on a tile of one number.

A number is repeated over one repeat of the vector unit, the instructions run on that, and one lane is read
back.
"""

from __future__ import annotations

from functools import cache

from ....ops.dtypes import float32
from ....ops.primitives import PRIMITIVES
from ..emit import InstructionWriter
from ..primitives import lower
from ..text import CTYPE, Writer
from ..tile import MASK, Builder, Form, Value, VectorInstr

LANES = 64  # a repeat of float32
SLOT = 4 * LANES  # bytes


class _Places:
    """Where in UB each value lies; a slot is used again after the last reader of its value.

    Attributes
    ----------
    slots : int
        How many are used at the same time.
    moves : tuple
        Values that are to be moved to be stored: there are none (`buffers.Buffers`).
    """

    moves: tuple[Value, ...] = ()

    def __init__(self, instrs: list[VectorInstr], arguments: list[Value], result: Value) -> None:
        self.root: dict[Value, Value] = {}
        last: dict[Value, int] = {self.rooted(a): -1 for a in arguments}
        for n, instr in enumerate(instrs):
            if instr.op == "View" and instr.dst is not None:
                self.root[instr.dst] = self.rooted(instr.reads[0])
            for value in instr.reads:
                last[self.rooted(value)] = n
        last[self.rooted(result)] = len(instrs)
        self.slot: dict[Value, int] = {}
        free: list[int] = []
        self.slots = 0

        def place(value: Value) -> None:
            if not free:
                free.append(self.slots)
                self.slots += 1
            free.sort()
            self.slot[value] = free.pop(0)

        for argument in arguments:
            place(argument)
        for n, instr in enumerate(instrs):
            dst = instr.dst
            if dst is not None and self.rooted(dst) is dst:
                place(dst)  # not where an operand ends here: instructions differ in what may overlap
            for value in {self.rooted(v) for v in instr.reads}:
                if last[value] == n:
                    free.append(self.slot[value])

    def rooted(self, value: Value) -> Value:
        """The value of whose bits this is another view."""
        return self.root.get(value, value)


def _living(instrs: list[VectorInstr], result: Value) -> list[VectorInstr]:
    """The instructions that the result depends on."""
    wanted = {result}
    kept: list[VectorInstr] = []
    for instr in reversed(instrs):
        if instr.dst in wanted:
            wanted.update(instr.reads)
            kept.append(instr)
    return kept[::-1]


@cache
def function(op: str) -> tuple[str, int]:
    """A primitive of float32 numbers as a device function, and the bytes of UB that it needs.

    The function takes the scratch and the numbers.
    """
    b = Builder()
    arguments = [b.value("f32", Form.FULL) for _ in range(PRIMITIVES[op].arity)]
    result = lower(b, op, float32, arguments, [float32] * len(arguments), ())
    assert isinstance(result, Value)
    instrs = _living(b.instrs, result)
    places = _Places(instrs, arguments, result)
    tensors: dict[str, str] = {}
    used: set[str] = set()

    def name(value: Value, dtype: str) -> str:
        own = "u8" if dtype == MASK else dtype
        slot = places.slot[places.rooted(value)]
        tensors[f"{own}_{slot}"] = f"scratch[{slot * SLOT}].ReinterpretCast<{CTYPE[own]}>()"
        return f"{own}_{slot}"

    body = Writer()
    body.depth = 1
    for argument, variable in zip(arguments, "xy", strict=False):
        body(f"Duplicate({name(argument, 'f32')}, {variable}, static_cast<int32_t>(n));")
    write = InstructionWriter(body, places, name, used)  # type: ignore[arg-type]
    for instr in instrs:
        write(instr)
    body("SetFlag<HardEvent::V_S>(0);", "WaitFlag<HardEvent::V_S>(0);")
    body(f"return {name(result, 'f32')}.GetValue(0);")
    assert used <= {"Align"}, used
    head = Writer()
    parameters = ", ".join(f"float {v}" for _, v in zip(arguments, "xy", strict=False))
    head(f"__aicore__ inline float {name_of(op)}(const LocalTensor<uint8_t>& scratch, {parameters})", "{")
    head.depth = 1
    head(f"constexpr uint32_t n = {LANES};")
    for variable, place in tensors.items():
        ctype = CTYPE[variable.rpartition("_")[0]]
        head(f"const LocalTensor<{ctype}> {variable} = {place};")
    return "\n".join(head.lines + body.lines) + "\n}", places.slots * SLOT


def name_of(op: str) -> str:
    """The device function's name."""
    return f"{op.capitalize()}OfOne"
