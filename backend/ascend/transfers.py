"""Copies of tiles between global memory and UB, and what brings them into the order of the tile there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import transfer_functions  # noqa: F401  (the device functions that are called here)
from .stage import Transfer
from .text import Writer, literal
from .tile import BYTES, Form, Scalar, Value, VectorInstr
from .ways import BLOCK, Way

if TYPE_CHECKING:
    from .source import Source

# The variables that the elements of a form lie along: rows, lanes and the pitch of rows.
_SPANS = {
    "full": ("rows", "lanes", "pitch"),
    "row": ("1", "lanes", "nl"),
    "column": ("1", "rows", "nr"),
    "turned": ("lanes", "rows", "height"),
}
_EVENT = 7  # of single waits


class TransferWriter:
    """Writes the copies of a kernel."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.steps: dict[Value, int] = {}  # of each table of offsets, in bytes
        self.kept: dict[Value, tuple[int, Value]] = {}  # access and raw copy of each table

    # --- copies ------------------------------------------------------------------------------------

    def load(self, load: Transfer) -> None:
        """A tile's part of an access into its buffer."""
        self._copy("In", load)

    def store(self, store: Transfer) -> None:
        """A tile's buffer to where an access says."""
        self._copy("Out", store)

    def _copy(self, way: str, transfer: Transfer) -> None:
        """Rows side by side, single elements, or elements with what lies between."""
        s, plane, access = self.source, self.source.plane, transfer.access
        form = plane.access_form(access) or plane.single
        walked = plane.row if form is Form.COLUMN else plane.lane
        count = "rows" if form is Form.COLUMN else "lanes"
        how = transfer.way
        begin = self._begin(access)
        match how.kind:
            case "rows":
                span, pitch, rows, across = count, "pitch", "rows", plane.row
                if how.reach:
                    rows = f"rows + {how.reach}"
            case "steps":
                begin, span = self._low_end(begin, count, how.step), _span(count, how)
                pitch, rows, across = _times("pitch", abs(how.step)), "rows", plane.row
            case "turned":
                begin, span = self._low_end(begin, "rows", how.step), _span("rows", how)
                pitch, rows, across = _times("height", abs(how.step)), "lanes", plane.lane
            case _:
                self._copy_elements(way, transfer, form, walked, begin)
                return
        if form is Form.FULL and plane.row >= 0:
            name, sizes = (
                "CopyRows",
                f"{rows}, {span}, {pitch}, static_cast<int64_t>({s.stride(access, across)})",
            )
        else:
            name, sizes = "Copy", span
        self._call(f"{name}{way}", way, transfer, begin, sizes)

    def _copy_elements(self, way: str, transfer: Transfer, form: Form, walked: int, begin: str) -> None:
        s, plane, access = self.source, self.source.plane, transfer.access
        rows, lanes, pitch = _SPANS[form.value]
        if form is Form.FULL and plane.row < 0:
            rows = "1"
        across = s.stride(access, plane.row) if form is Form.FULL and plane.row >= 0 else "0"
        stride = s.stride(access, walked)
        if transfer.way.step < 0:
            begin = f"{begin} + static_cast<int64_t>({lanes} - 1) * {stride}"
            stride = f"-{stride}"
        sizes = f"{rows}, {lanes}, {pitch}, static_cast<int64_t>({across}), static_cast<int64_t>({stride})"
        self._call(f"CopyElements{way}", way, transfer, begin, sizes)

    def _call(self, function: str, way: str, transfer: Transfer, begin: str, sizes: str) -> None:
        s, value = self.source, transfer.value
        s.used.add(function)
        local, memory = s.tensor(value, value.dtype), f"{s.global_name(transfer.access)}[{begin}]"
        ends = f"{local}, {memory}" if way == "In" else f"{memory}, {local}"
        s.write(f"{function}({ends}, {sizes});")

    @staticmethod
    def _low_end(begin: str, count: str, step: int) -> str:
        """Where the elements begin in memory: with the last one where they are walked backwards."""
        return begin if step > 0 else f"{begin} - static_cast<int64_t>({count} - 1) * {-step}"

    def _begin(self, access: int) -> str:
        s = self.source
        axes = {k: s.at(k) for k, c in enumerate(s.kernel.accesses[access].layout) if c != "0"}
        return s.offset(access, axes)

    # --- order -------------------------------------------------------------------------------------

    def move(self, instr: VectorInstr) -> None:
        """An instruction that moves elements within UB."""
        s, dst = self.source, instr.dst
        assert dst is not None
        match instr.op:
            case "Every":
                step, first = instr.attrs
                s.used.add("TakeEvery")
                src = s.tensor(instr.reads[0], dst.dtype)
                s.write(f"TakeEvery<{step}>({s.tensor(dst, dst.dtype)}, {src}, {first}, {self._count(dst)});")
            case "Pick":
                self._pick(instr, dst)
            case "Turn":
                self._turn(instr, dst)
            case "ToSlots":
                self._to_slots(instr, dst)
            case "GatherPoints":
                self._gather_points(instr, dst)
            case "GatherRows":
                self._gather_rows(instr, dst)
            case "GatherTable":
                self._gather_table(instr, dst)

    def _count(self, value: Value) -> str:
        from .emit import count_of

        return count_of(value)

    def _pick(self, instr: VectorInstr, dst: Value) -> None:
        s = self.source
        source, table = instr.reads
        step, first, span = instr.attrs
        self.steps[table] = step
        offsets = s.tensor(table, "u32")
        signed = s.tensor(table, "i32")
        if step < 0:
            s.used.add("BackwardOffsets")
            rows, lanes, pitch = _SPANS[span]
            built = f"{s.buffers.of[table].name}_built"
            with s.write.block(f"if ({lanes} != {built}_lanes || {rows} > {built}_rows)"):
                s.write(
                    f"BackwardOffsets({signed}, {rows}, {lanes}, {pitch}, {-step});",
                    f"{built}_lanes = {lanes};",
                    f"{built}_rows = {rows};",
                )
        to, src = s.tensor(dst, dst.dtype), s.tensor(source, dst.dtype)
        s.write(f"Gather({to}, {src}, {offsets}, static_cast<uint32_t>({first}), {self._count(dst)});")

    def tables(self, write: Writer) -> None:
        """What tables hold before the first tile."""
        s = self.source
        for table, step in self.steps.items():
            buffer = s.buffers.of[table]
            name = s.tensor_name(buffer, "i32")
            t = s.tuning
            count = buffer.size(t.points, t.rows, t.lanes) // 4
            if step > 0:
                write(
                    f"CreateVecIndex({name}, 0, {count});",
                    f"Muls({name}, {name}, {step}, {count});  // bytes from one element to the next",
                )
            else:
                write(
                    f"Duplicate({name}, 0, {count});",
                    f"uint32_t {buffer.name}_built_lanes = 0;",
                    f"uint32_t {buffer.name}_built_rows = 0;",
                )

        for table, (access, raw) in self.kept.items():
            s.used |= {"Clear", "CopyIn"}
            found = s.kernel.accesses[access]
            memory = f"{s.global_name(access)}[{s.offset(access, {})}]"
            size = s.field(f"z{found.operand}", "int32_t", f"z{found.operand} - o{found.anchor}")
            write(
                f"Clear({s.tensor(raw, raw.dtype)});",
                f"SetFlag<HardEvent::V_MTE2>({_EVENT});",
                f"WaitFlag<HardEvent::V_MTE2>({_EVENT});",
                f"CopyIn({s.tensor(raw, raw.dtype)}, {memory}, {size});",
                f"SetFlag<HardEvent::MTE2_V>({_EVENT});",
                f"WaitFlag<HardEvent::MTE2_V>({_EVENT});",
            )
            if raw is not table:
                room = table.room
                assert room is not None
                names = f"{s.tensor(table, table.dtype)}, {s.tensor(raw, raw.dtype)}"
                write(f"Cast({names}, RoundMode::CAST_NONE, {room.fixed});")

    def _turn(self, instr: VectorInstr, dst: Value) -> None:
        s = self.source
        source, spare = instr.reads
        kind = f"i{8 * BYTES[dst.dtype]}"
        s.used.add("Turn")
        into = instr.attrs[0] == "in"
        to = f"{s.tensor(dst, kind)}, {'pitch' if into else 'height'}"
        src = f"{s.tensor(source, kind)}, {'height' if into else 'pitch'}"
        sizes = "lanes, rows" if into else "rows, lanes"
        s.write(f"Turn({to}, {src}, {s.tensor(spare, kind)}, {sizes}, {self._count(dst)});")

    def _to_slots(self, instr: VectorInstr, dst: Value) -> None:
        s = self.source
        (source,) = instr.reads
        s.used.add("ToBlocks")
        slots = s.tensor(dst, source.dtype)
        count = self._count(source)
        s.write(f"ToBlocks({slots}, {s.tensor(source, source.dtype)}, {count});")
        if dst.dtype == "i64":
            s.used.add("SignSlots")
            s.write(f"SignSlots({slots}, {count});")

    # --- computed places ---------------------------------------------------------------------------

    def _gather_points(self, instr: VectorInstr, dst: Value) -> None:
        s = self.source
        (index,) = instr.reads
        (access,) = instr.attrs
        rows, lanes, pitch = _SPANS[index.form.value]
        if s.plane.row < 0 and index.form is Form.FULL:
            rows = "1"
        place, element = (f"row * {pitch} + lane", "lane") if rows != "1" else ("lane", "lane")
        self._clear(dst)
        with self._by_scalar_unit():
            if rows != "1":
                with s.write.block(f"for (uint32_t row = 0; row < {rows}; ++row)"):
                    self._gather_point(dst, index, access, place, lanes)
            else:
                self._gather_point(dst, index, access, element, lanes)

    def _gather_point(self, dst: Value, index: Value, access: int, place: str, lanes: str) -> None:
        s = self.source
        s.used.add("CopyIn")
        with s.write.block(f"for (uint32_t lane = 0; lane < {lanes}; ++lane)"):
            s.write(
                f"const int64_t from = {s.offset(access, {})} + {s.tensor(index, 'i32')}.GetValue({place});",
                f"CopyIn({s.tensor(dst, dst.dtype)}[({place}) * {BLOCK // BYTES[dst.dtype]}], "
                f"{s.global_name(access)}[from], 1);",
            )

    def _gather_rows(self, instr: VectorInstr, dst: Value) -> None:
        s = self.source
        (begin,) = instr.srcs
        (access,) = instr.attrs
        s.used.add("CopyIn")
        lane = f"{s.offset(access, {})} + lane0"
        self._clear(dst)
        with self._by_scalar_unit():
            if isinstance(begin, Scalar):
                from_ = f"{lane} + {literal(begin)}"
                s.write(f"CopyIn({s.tensor(dst, dst.dtype)}, {s.global_name(access)}[{from_}], lanes);")
                return
            with s.write.block("for (uint32_t row = 0; row < rows; ++row)"):
                s.write(
                    f"const int64_t from = {lane} + {s.tensor(begin, 'i32')}.GetValue(row);",
                    f"CopyIn({s.tensor(dst, dst.dtype)}[row * pitch], {s.global_name(access)}[from], lanes);",
                )

    def _gather_table(self, instr: VectorInstr, dst: Value) -> None:
        s = self.source
        table, offsets, *raw = instr.reads
        self.kept[table] = instr.attrs[0], raw[0] if raw else table
        for value in (table, *raw):
            s.tensor(value, value.dtype)  # filled before the first tile
        to, places = s.tensor(dst, dst.dtype), s.tensor(offsets, "u32")
        s.write(f"Gather({to}, {s.tensor(table, dst.dtype)}, {places}, 0u, {self._count(dst)});")

    def _clear(self, value: Value) -> None:
        """What short rows leave out is read by instructions over the whole tile."""
        s = self.source
        s.used.add("Clear")
        s.write(f"Clear({s.tensor(value, value.dtype)});")

    def _by_scalar_unit(self) -> _Waits:
        return _Waits(self.source.write)


class _Waits:
    """Between the vector unit that computes places, the scalar unit that reads them, and the copies."""

    def __init__(self, write: Writer) -> None:
        self.write = write

    def __enter__(self) -> None:
        self.write(f"SetFlag<HardEvent::V_S>({_EVENT});", f"WaitFlag<HardEvent::V_S>({_EVENT});")

    def __exit__(self, *_: object) -> None:
        self.write(f"SetFlag<HardEvent::MTE2_V>({_EVENT});", f"WaitFlag<HardEvent::MTE2_V>({_EVENT});")


def _times(name: str, factor: int) -> str:
    return f"{name} * {factor}" if factor > 1 else name


def _span(count: str, way: Way) -> str:
    """Elements from the first to the last, and as many more as others of the tile begin later."""
    step = abs(way.step)
    if step == 1:
        return count
    return f"({count} - 1) * {step} + {1 + way.reach}"
