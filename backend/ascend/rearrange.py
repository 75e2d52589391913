"""Tiles whose elements do not lie in memory as in UB: brought into order after the copy, or before it.

Instructions that move single elements take 16 and 32 bits: bytes are moved as 16-bit integers, and 64-bit
integers, which are known to fit, as 32-bit ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Instr, Kernel
from . import primitives
from .formula import Vector
from .plane import Plane
from .stage import Stage, Stages, Transfer
from .tile import BYTES, MASK, MEMORY, Builder, Form, Room, Source, Value, VectorInstr
from .tiling import Each, Over, Pieces, Stream, Work
from .ways import BLOCK, Way

Dtype = np.dtype[Any]
# What is taken from every so many elements takes an instruction that needs no table of offsets.
WITHOUT_TABLE = (2, 4)
COPY_CYCLES = 17.0  # of a copy of a single element
_GATHERS = {
    "GatherPoints": "element by element: slow",
    "GatherRows": "row by row",
    "GatherTable": "from a copy in UB",
}


def granule(kernel: Kernel) -> int:
    """Elements that rows in UB are a multiple of: blocks of every dtype."""
    return max(16, BLOCK // min(o.dtype.itemsize for o in kernel.operands))


class Rearranging:
    """Writes down how a kernel's tiles are brought into order.

    Parameters
    ----------
    kernel : Kernel
    plane : Plane
    ways : tuple of Way
        One for each access.
    """

    def __init__(self, kernel: Kernel, plane: Plane, ways: tuple[Way, ...]) -> None:
        self.kernel = kernel
        self.plane = plane
        self.ways = ways
        self.padding = granule(kernel) - 1
        self.tables: dict[Any, Value] = {}
        self.shared: dict[int, Value] = {}  # of this stage, by the access that leads

    def begin(self) -> None:
        """A stage begins, which loads its own tiles."""
        self.shared = {}

    # --- loads -------------------------------------------------------------------------------------------

    def load(self, b: Builder, stage: Stage, access: int, dtype: Dtype, form: Form) -> Value:
        """A tile of an access in the representation of its dtype."""
        way = self.ways[access]
        match way.kind:
            case "rows" if way.leader < 0:
                raw = b.value(MEMORY[dtype.name], form, self._name(access))
                stage.loads.append(Transfer(access, raw, way))
                return primitives.load_conversion(b, raw, dtype)
            case "rows":
                return self._window(b, stage, dtype, way)
            case "steps":
                staged = self._staged(b, stage, access, dtype, self._room(form, abs(way.step)))
                return self._represented(b, self._pick(b, staged, form, way.step, way.at), dtype)
            case "turned":
                staged = self._staged(b, stage, access, dtype, self._turned(abs(way.step)))
                if way.step != 1:
                    staged = self._pick(b, staged, None, way.step)
                turned = b.value(staged.dtype, Form.FULL)
                b.instrs.append(VectorInstr("Turn", turned, (staged, self._spare(b, staged.dtype)), ("in",)))
                return self._represented(b, turned, dtype)
        slots = self._slots(dtype, form)
        staged = b.value(MEMORY[dtype.name], Form.STAGED, self._name(access), slots)
        stage.loads.append(Transfer(access, staged, way))
        return self.from_slots(b, staged, dtype, form, way.step)

    def from_slots(self, b: Builder, staged: Value, dtype: Dtype, form: Form, sign: int = 1) -> Value:
        """Elements that were copied to a block each, in the representation of their dtype."""
        if dtype.itemsize == 8:
            staged = b.cast(staged, "i32")
        if dtype.itemsize > 1:
            step = BLOCK // max(dtype.itemsize, BYTES[staged.dtype])
            return self._represented(b, self._pick(b, staged, form, sign * step), dtype)
        # The byte and whatever follows it; the shifts leave the byte.
        low = Vector(b, self._pick(b, staged, form, sign * 16, dtype="i16"))
        if dtype.kind == "i":
            return ((low << 8) >> 8).value
        bits = b.scalar("ShiftRight", b.scalar("ShiftLeft", b.view(low.value, "u16"), 8), 8)
        number = Vector(b, b.view(bits, "i16"))
        return number.cast("f16", "RINT").differs(0.0).value if dtype.kind == "b" else number.value

    def slots(self, b: Builder, dtype: Dtype, form: Form, name: str) -> Value:
        """A value that has a block for each element."""
        return b.value(MEMORY[dtype.name], Form.STAGED, name, self._slots(dtype, form))

    def _window(self, b: Builder, stage: Stage, dtype: Dtype, way: Way) -> Value:
        tile = self.shared.get(way.leader)
        if tile is None:
            room = Room(1, 0, way.reach, f"Align(n + {way.reach} * pitch, 128)")
            tile = b.value(MEMORY[dtype.name], Form.STAGED, self._name(way.leader), room)
            stage.loads.append(Transfer(way.leader, tile, way))
            if dtype.kind != "b":  # bits have no rows that begin with a block
                tile = primitives.load_conversion(b, tile, dtype)
            self.shared[way.leader] = tile
        window = b.value(tile.dtype, Form.FULL)
        b.instrs.append(VectorInstr("Window", window, (tile,), (way.at,)))
        return primitives.load_conversion(b, window, dtype) if dtype.kind == "b" else window

    def _staged(self, b: Builder, stage: Stage, access: int, dtype: Dtype, room: Room) -> Value:
        """A tile as it was copied, of elements that can be moved."""
        way = self.ways[access]
        leader = access if way.leader < 0 else way.leader
        found = self.shared.get(leader)
        if found is None:
            found = b.value(MEMORY[dtype.name], Form.STAGED, self._name(leader), room)
            stage.loads.append(Transfer(leader, found, way))
            if dtype.itemsize in (1, 8):
                found = b.cast(found, "f16" if dtype.itemsize == 1 else "i32")
            self.shared[leader] = found
        return found

    def _represented(self, b: Builder, value: Value, dtype: Dtype) -> Value:
        if dtype.itemsize == 8:
            return value
        if dtype.itemsize > 1:
            return primitives.load_conversion(b, value, dtype)
        half = Vector(b, value)
        return (half.differs(0.0) if dtype.kind == "b" else half.cast("i16", "RINT")).value

    # --- stores ------------------------------------------------------------------------------------------

    def store(self, b: Builder, stage: Stage, access: int, dtype: Dtype, value: Value) -> Value:
        """A value in the representation of its dtype on its way to memory; what is copied there."""
        way, name = self.ways[access], self._name(access)
        form = value.form
        if way.kind == "rows":
            return self._out(b, stage, access, primitives.store_conversion(b, value, dtype), name)
        moved = self._movable(b, value, dtype)
        if way.kind == "turned":
            turned = b.value(moved.dtype, Form.STAGED, room=self._turned(1))
            b.instrs.append(VectorInstr("Turn", turned, (moved, self._spare(b, moved.dtype)), ("out",)))
            if way.step < 0:
                turned = self._pick(b, turned, None, -1)
            return self._out(b, stage, access, self._in_memory(b, turned, dtype), name)
        if way.step < 0:
            moved = self._pick(b, moved, form, -1)
        if way.kind == "steps":
            return self._out(b, stage, access, self._in_memory(b, moved, dtype), name)
        stored = self.slots(b, dtype, form, name)
        b.instrs.append(VectorInstr("ToSlots", stored, (moved,)))
        stage.stores.append(Transfer(access, stored, way))
        return stored

    def _out(self, b: Builder, stage: Stage, access: int, value: Value, name: str) -> Value:
        """What is stored lies in a buffer of its own, whatever else it is used for."""
        stored = b.value(value.dtype, value.form, name, value.room)
        b.instrs.append(VectorInstr("Out", stored, (value,)))
        stage.stores.append(Transfer(access, stored, self.ways[access]))
        return stored

    @staticmethod
    def _movable(b: Builder, value: Value, dtype: Dtype) -> Value:
        """A value in 16 or 32 bits."""
        if value.dtype == MASK:
            return Vector(b, value).number("i16", 1).value
        if dtype.itemsize in (1, 8):
            return value
        return primitives.store_conversion(b, value, dtype)

    @staticmethod
    def _in_memory(b: Builder, value: Value, dtype: Dtype) -> Value:
        """What was moved in 16 or 32 bits as it lies in memory."""
        if dtype.itemsize == 8:
            return b.cast(value, "i64")
        if dtype.itemsize > 1:
            return value
        half = b.cast(value, "f16", "RINT")
        return b.cast(half, "i8" if dtype.kind == "i" else "u8", "RINT")

    # --- elements at computed places -----------------------------------------------------------------------

    def gather(self, b: Builder, instr: Instr, index: Value) -> Value:
        """Elements at the flat places of an index."""
        access = instr.attrs[0]
        if self.ways[access].kind == "table":
            return self._from_table(b, instr, index)
        staged = self.slots(b, instr.dtype, index.form, self._name(access))
        b.instrs.append(VectorInstr("GatherPoints", staged, (index,), (access,)))
        return self.from_slots(b, staged, instr.dtype, index.form)

    def _from_table(self, b: Builder, instr: Instr, index: Value) -> Value:
        """Elements of a table in UB. What a tile has beyond its rows and lanes may be any index."""
        access, dtype = instr.attrs[0], instr.dtype
        size = self.ways[access].reach
        kept = {1: "f16", 8: "i32"}.get(dtype.itemsize, MEMORY[dtype.name])
        tables = []
        for kind in dict.fromkeys((kept, MEMORY[dtype.name])):
            table = self.tables.get((access, kind))
            if table is None:
                room = Room(0, 0, 0, str(size), size)
                table = self.tables[access, kind] = b.value(kind, Form.TABLE, self._name(access), room)
            tables.append(table)
        inside = Vector(b, index).max(0).min(size - 1) * BYTES[kept]
        found = b.value(kept, index.form)
        offsets = b.view(inside.value, "u32")
        b.instrs.append(VectorInstr("GatherTable", found, (tables[0], offsets, *tables[1:]), (access,)))
        return self._represented(b, found, dtype)

    def gather_rows(self, b: Builder, instr: Instr, begin: Source) -> Value:
        """Rows of elements side by side, each from a computed place on."""
        access = instr.attrs[0]
        form = Form.FULL if isinstance(begin, Value) or self.plane.row < 0 else Form.ROW
        raw = b.value(MEMORY[instr.dtype.name], form, self._name(access))
        b.instrs.append(VectorInstr("GatherRows", raw, (begin,), (access,)))
        return primitives.load_conversion(b, raw, instr.dtype)

    # --- parts ---------------------------------------------------------------------------------------------

    def _name(self, access: int) -> str:
        return self.kernel.operands[self.kernel.accesses[access].operand].name

    @staticmethod
    def _room(form: Form, times: int) -> Room:
        """So many elements for each that a form has."""
        count = {Form.FULL: "n", Form.ROW: "nl", Form.COLUMN: "nr"}[form]
        text = f"{count} * {times}" if times > 1 else count
        return Room(
            times * (form is Form.FULL), times * (form is Form.COLUMN), times * (form is Form.ROW), text
        )

    def _slots(self, dtype: Dtype, form: Form) -> Room:
        return self._room(form, BLOCK // dtype.itemsize)

    def _turned(self, times: int) -> Room:
        """Lanes that lie under each other."""
        text = "Align(lanes * height, 128)"
        return Room(times, 0, times * self.padding, f"{text} * {times}" if times > 1 else text)

    @staticmethod
    def _spare(b: Builder, dtype: str) -> Value:
        """Where a transposition puts what has no place."""
        return b.value(dtype, Form.STAGED, "spare", Room(0, 1, 1, ""))

    def _pick(
        self, b: Builder, source: Value, form: Form | None, step: int, at: int = 0, dtype: str | None = None
    ) -> Value:
        """Every `step`-th element from `at` on, from each row's end if negative; no form: turned tiles."""
        dtype = dtype or source.dtype
        room = self._turned(1) if form is None else None
        picked = b.value(dtype, form or Form.STAGED, room=room)
        if step in WITHOUT_TABLE:
            b.instrs.append(VectorInstr("Every", picked, (source,), (step, at)))
            return picked
        width = BYTES[dtype]
        key = (step * width, form)
        table = self.tables.get(key)
        if table is None:
            table = b.value("u32", Form.TABLE, "offsets", room or self._room(form or Form.FULL, 1))
            self.tables[key] = table
        attrs = (step * width, at * width, "turned" if form is None else form.value)
        b.instrs.append(VectorInstr("Pick", picked, (source, table), attrs))
        return picked


# --- as people and auto_tiling see it ----------------------------------------------------------------------


def streams_of(transfer: Transfer, plane: Plane, write: bool, each: Each) -> list[Stream]:
    """What is copied for a tile."""
    way, width = transfer.way, BYTES[transfer.value.dtype]
    form = plane.access_form(transfer.access) or Form.COLUMN
    match way.kind:
        case "rows":
            streams = [Stream(width, form, write, Pieces.ROW, each)]
            if way.reach:
                streams.append(Stream(width * way.reach, Form.ROW, write, Pieces.ROW, each))
            return streams
        case "steps":
            return [Stream(width * abs(way.step), form, write, Pieces.ROW, each)]
        case "turned":
            padding = granule(plane.kernel) - 1
            return [
                Stream(width * abs(way.step), form, write, Pieces.LANE, each),
                Stream(width * abs(way.step) * padding, Form.ROW, write, Pieces.NONE, each),
            ]
    return [Stream(BLOCK, form, write, Pieces.POINT, each)]


def work_of(instr: VectorInstr) -> list[Work]:
    """What the vector unit does to bring a tile into order."""
    dst = instr.dst
    assert dst is not None
    over = {Form.ROW: Over.LANES, Form.COLUMN: Over.ROWS}.get(dst.form, Over.POINTS)
    width = BYTES[dst.dtype]
    match instr.op:
        case "Every":
            return [Work(1, width, over, cycles=2.0 * instr.attrs[0])]
        case "Pick" | "GatherTable":
            return [Work(1, width, over, cycles=48.0 / width)]
        case "Turn":
            return [Work(1, width, over, cycles=16.0)]
        case "GatherPoints":
            (index,) = instr.reads
            over = {Form.ROW: Over.LANES, Form.COLUMN: Over.ROWS}.get(index.form, Over.POINTS)
            return [Work(1, 4, over, cycles=64 * COPY_CYCLES)]
        case "ToSlots":
            (source,) = instr.reads
            over = {Form.ROW: Over.LANES, Form.COLUMN: Over.ROWS}.get(source.form, Over.POINTS)
            return [Work(1, BYTES[source.dtype], over, cycles=32.0 / BYTES[source.dtype])]
    return []


def described(stages: Stages) -> list[str]:
    """How what does not lie as tiles do is copied, a line for each."""
    kernel = stages.kernel
    lines: dict[str, None] = {}
    for stage in stages.stages:
        for transfer in (*stage.loads, *stage.stores):
            way = transfer.way
            name = kernel.operands[kernel.accesses[transfer.access].operand].name
            if way.kind == "slots":
                stored = transfer in stage.stores
                lines[f"{name} is {'written' if stored else 'read'} element by element: slow"] = None
            elif way.kind == "turned":
                lines[f"{name} is transposed in UB"] = None
            elif way.kind == "steps" and way.step == -1:
                lines[f"{name} is reversed in UB"] = None
            elif way.kind == "steps":
                lines[f"{name} is copied with what lies between, {abs(way.step)} elements for one"] = None
            elif way.reach:
                lines[f"{name} is copied with {way.reach} more rows, and read from there several times"] = (
                    None
                )
        for instr in stage.body:
            if instr.op in _GATHERS:
                name = kernel.operands[kernel.accesses[instr.attrs[0]].operand].name
                how = _GATHERS[instr.op]
                lines[f"{name} is read at computed places, {how}"] = None
    return list(lines)
