"""The loops of a vector kernel: over units, over tiles of reduced axes, and what is done for each tile."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .buffers import PARTS
from .emit import COUNT
from .events import BARRIER, SINGLE_EVENT, Events
from .partition import cuts_rows
from .reduction import identity
from .stage import MOVES, ScalarLoad, Stage
from .text import literal
from .tile import BYTES, Form, Scalar, VectorInstr

if TYPE_CHECKING:
    from .source import Source

# Instructions that wait for the vector unit before the scalar unit does.
QUEUE = 32


class Loops:
    """Writes the loops of one kernel."""

    def __init__(self, source: Source, events: Events) -> None:
        self.source = source
        self.events = events
        self.write = source.write
        self.tuning = source.tuning
        self.plane = source.plane
        self.stages = source.stages

    def run(self) -> None:
        """Write them."""
        write, t = self.write, self.tuning
        if t.split:
            write("// The cores of a team share the reductions of a unit.")
            write("const int64_t team = GetBlockIdx() / t.shares;")
            write("const int64_t teams = GetBlockNum() / t.shares;")
            write("const int64_t member = GetBlockIdx() % t.shares;")
            write("const int32_t part_begin = static_cast<int32_t>(t.parts * member / t.shares);")
            write("const int32_t part_end = static_cast<int32_t>(t.parts * (member + 1) / t.shares);")
        else:
            write("const int64_t team = GetBlockIdx();", "const int64_t teams = GetBlockNum();")
            write("const int32_t part_begin = 0;", "const int32_t part_end = t.parts;")
        write("const int64_t unit_begin = t.units * team / teams;")
        write("const int64_t unit_end = t.units * (team + 1) / teams;")
        if self.stages.stages[0].once:
            self._once(self.stages.stages[0])
        if self.stages.whole:
            number = len(self.stages.stages) - 1
            self._pipeline(number, "int64_t", "unit", self._whole)
            return
        with write.block("for (int64_t unit = unit_begin; unit < unit_end; ++unit)"):
            self._unit()
            for number, stage in enumerate(self.stages.stages):
                self._stage(number, stage)
            # What was loaded for all of a unit is free again.
            for number, stage in enumerate(self.stages.stages if self.events.fit else ()):
                if stage.loads and not stage.loops:
                    write(self.events.set("V_MTE2", number))
                    if t.copies > 1:
                        write(f"turn{number} ^= 1;")

    def _unit(self) -> None:
        """Where a unit lies along the parallel axes."""
        write, plane = self.write, self.plane
        write("int64_t rest = unit;")
        if not plane.reduces_lanes:
            self._digit("lane_tile", "t.lane_tiles", last=not cuts_rows(self.plane) and not plane.outer)
            self._span("lane", plane.lane, "lanes", "t.tile_lanes")
        if cuts_rows(self.plane):
            self._digit("row_tile", "t.row_tiles", last=not plane.outer)
            self._span("row", plane.row, "rows", "t.tile_rows")
        for position, axis in enumerate(reversed(plane.outer)):
            self._digit(f"i{axis}", self.source.extent(axis), last=position == len(plane.outer) - 1)
        if plane.row < 0:
            write("const uint32_t rows = 1;")

    def _pipeline(self, number: int, ctype: str, name: str, place: Callable[[], None]) -> None:
        """A loop over tiles: copies in, instructions, copies out.

        Where a tile takes the vector unit more instructions than wait in its queue, the next tile's copies
        are issued before them: behind them they would begin only when most of the instructions are done.
        """
        write, stage = self.write, self.stages.stages[number]
        if not self.prefetches(stage):
            with write.block(f"for ({ctype} {name} = {name}_begin; {name} < {name}_end; ++{name})"):
                place()
                write("", f"// {stage.name}")
                self._copies_in(number, stage)
                self._instructions(number, stage)
                if self.tuning.copies > 1 and (stage.loads or stage.stores):
                    write(f"turn{number} ^= 1;")
            return
        with write.block(f"for ({ctype} step = {name}_begin; step <= {name}_end; ++step)"):
            write("// The next tile is copied while this one is computed.")
            with write.block(f"if (step < {name}_end)"):
                write(f"const {ctype} {name} = step;", f"const uint32_t turn{number} = ahead{number};")
                place()
                self._copies_in(number, stage)
            with write.block(f"if (step > {name}_begin)"):
                write(
                    f"const {ctype} {name} = step - 1;", f"const uint32_t turn{number} = ahead{number} ^ 1;"
                )
                place()
                write("", f"// {stage.name}")
                self._instructions(number, stage)
            write(f"ahead{number} ^= 1;")

    def prefetches(self, stage: Stage) -> bool:
        """Whether the copies of a tile are issued before the instructions of the one before it."""
        options = self.tuning.options
        if not (options.prefetch and self.events.fit and self.tuning.copies > 1 and stage.loads):
            return False
        loops = any(i.op == "Reduce" or (i.attrs and i.attrs[0] in ("row", "column")) for i in stage.body)
        return loops or len(stage.body) >= QUEUE

    def _once(self, stage: Stage) -> None:
        """What is loaded before all tiles."""
        write = self.write
        write(f"// {stage.name}")
        with write.block(""):
            write("const int64_t lane0 = 0;")
            write(f"const uint32_t lanes = static_cast<uint32_t>({self.source.extent(self.plane.lane)});")
            write(f"const uint32_t pitch = Align(lanes, {self.source.pitch_granule});")
            write("const uint32_t nl = Align(pitch, 128);")
            self._hand_over("V_MTE2")
            for load in stage.loads:
                self.source.transfer.load(load)
            self._hand_over("MTE2_V")
            for instr in stage.body:
                self._instr(instr)

    def _hand_over(self, pair: str) -> None:
        """One pipe waits for what another has been given so far."""
        self.write(
            f"SetFlag<HardEvent::{pair}>({SINGLE_EVENT});", f"WaitFlag<HardEvent::{pair}>({SINGLE_EVENT});"
        )

    def _digit(self, name: str, extent: str, last: bool = False) -> None:
        if last:
            self.write(f"const int32_t {name} = static_cast<int32_t>(rest);")
        else:
            self.write(f"const int32_t {name} = static_cast<int32_t>(rest % {extent});", f"rest /= {extent};")

    def _span(self, which: str, axis: int, count: str, step: str) -> None:
        """Where a tile begins along an axis, and how much of it there is."""
        self.write(f"const int64_t {which}0 = static_cast<int64_t>({which}_tile) * {step};")
        self.write(
            f"const uint32_t {count} = "
            f"static_cast<uint32_t>(Least<int64_t>({step}, {self.source.extent(axis)} - {which}0));"
        )

    def _whole(self) -> None:
        self._unit()
        write, plane = self.write, self.plane
        if plane.reduces_lanes:
            write(
                "const int64_t lane0 = 0;",
                f"const uint32_t lanes = static_cast<uint32_t>({self.source.extent(plane.lane)});",
            )
        if plane.reduces_rows:
            write(
                "const int64_t row0 = 0;",
                f"const uint32_t rows = static_cast<uint32_t>({self.source.extent(plane.row)});",
            )
        self._counts()

    def _counts(self) -> None:
        """How many elements a value of each form has, in whole repeats."""
        forms = {v.form for v in self.source.buffers.of}
        lines = [f"const uint32_t pitch = Align(lanes, {self.source.pitch_granule});"]
        if Form.FULL in forms:
            lines.append("const uint32_t n = Align(rows * pitch, 128);")
        if Form.ROW in forms:
            lines.append("const uint32_t nl = Align(pitch, 128);")
        if Form.COLUMN in forms:
            lines.append("const uint32_t nr = Align(rows, 128);")
        if any(i.op == "Turn" for s in self.stages.stages for i in s.instrs()):
            lines.append(
                f"const uint32_t height = Align(rows, {self.source.height_granule});  // of turned tiles"
            )
        self.write(*lines)

    def _stage(self, number: int, stage: Stage) -> None:
        write = self.write
        write("", f"// {stage.name}")
        if not stage.loops:
            for scalar in stage.scalars:  # for the stages that follow too
                self._scalar_load(scalar)
            # All cores have the result; one of them writes it.
            once = self.tuning.split and stage.stores
            with write.block("if (member == 0)" if once else ""):
                self._outer_counts()
                self._copies_in(number, stage)
                self._instructions(number, stage)
                if self.tuning.copies > 1 and stage.stores and not stage.loads:
                    write(f"turn{number} ^= 1;")
            return
        if stage.before:
            with write.block(""):
                self._outer_counts()
                for instr in stage.before:
                    self.source.instruction(instr)
        self._pipeline(number, "int32_t", "part", self._part)
        if stage.after:
            with write.block(""):
                self._outer_counts()
                for instr in stage.after:
                    self._instr(instr)

    def _part(self) -> None:
        """Where a tile lies along the reduced axes."""
        write, plane = self.write, self.plane
        write("int32_t left = part;")
        if plane.reduces_lanes:
            write("const int32_t lane_tile = left % t.lane_tiles;", "left /= t.lane_tiles;")
            self._span("lane", plane.lane, "lanes", "t.tile_lanes")
        elif plane.reduces_rows:
            write("const int32_t row_tile = left % t.row_tiles;", "left /= t.row_tiles;")
            self._span("row", plane.row, "rows", "t.tile_rows")
        for axis in reversed(plane.inner):
            write(
                f"const int32_t i{axis} = left % {self.source.extent(axis)};",
                f"left /= {self.source.extent(axis)};",
            )
        self._counts()

    def _outer_counts(self) -> None:
        """Counts where only values over the parallel axes are."""
        plane = self.plane
        if plane.reduces_lanes:
            self.write("const uint32_t nr = Align(rows, 128);")
        else:
            self.write(f"const uint32_t pitch = Align(lanes, {self.source.pitch_granule});")
            self.write("const uint32_t nl = Align(pitch, 128);")
            if not plane.reduces_rows and plane.row >= 0:
                self.write("const uint32_t nr = Align(rows, 128);")

    def _copies_in(self, number: int, stage: Stage) -> None:
        write, events = self.write, self.events.fit
        if stage.loads:
            if events:
                write(self.events.wait("V_MTE2", number))
            for load in stage.loads:
                self.source.transfer.load(load)
            write(self.events.set("MTE2_V", number) if events else BARRIER)

    def _instructions(self, number: int, stage: Stage) -> None:
        """The instructions of a tile and its copies out."""
        write, events = self.write, self.events.fit
        later = not stage.loops and not self.stages.whole  # its loads are needed by the stages that follow
        if stage.loops or self.stages.whole:
            for scalar in stage.scalars:
                self._scalar_load(scalar)
        if stage.loads and events:
            write(self.events.wait("MTE2_V", number))
        if stage.stores and events:
            write(self.events.wait("MTE3_V", number))
        for instr in stage.body:
            self._instr(instr)
        if stage.loads and events and not later:
            write(self.events.set("V_MTE2", number))
        if stage.stores:
            write(
                *(
                    [self.events.set("V_MTE3", number), self.events.wait("V_MTE3", number)]
                    if events
                    else [BARRIER]
                )
            )
            for store in stage.stores:
                self.source.transfer.store(store)
            write(self.events.set("MTE3_V", number) if events else BARRIER)
        elif stage.loads and not events:
            write(BARRIER)

    def _instr(self, instr: VectorInstr) -> None:
        write = self.write
        if instr.op == "Index":
            assert instr.dst is not None
            (axis,) = instr.attrs
            first = "lane0" if axis == self.plane.lane else "row0"
            write(
                f"CreateVecIndex({self.source.tensor(instr.dst, 'i32')}, static_cast<int32_t>({first}), "
                f"{COUNT[instr.dst.form]});"
            )
        elif instr.op == "Combine":
            self._combine(instr)
        elif instr.op in MOVES:
            self.source.transfer.move(instr)
        else:
            self.source.instruction(instr)

    def _combine(self, instr: VectorInstr) -> None:
        """Exchange partial results through GM; every core combines all of them in the same order."""
        acc, parts = instr.reads
        op = instr.attrs[0]
        count, width = COUNT[acc.form], BYTES[acc.dtype]
        a, p = self.source.tensor(acc, acc.dtype), self.source.tensor(parts, acc.dtype)
        self.source.used |= {"CopyIn", "CopyOut", f"{op}Rows"}
        write = self.write
        with write.block("if (t.shares > 1)"):
            write(f"const uint32_t size = {count} * {width};")
            # Each core has a place of one size, whatever the lanes of its tile: teams do not meet each other.
            place = f"((meeting & 1) * GetBlockNum() + team * t.shares) * {PARTS // 2}"
            write(f"const int64_t from = {place};", "++meeting;")
            self._hand_over("V_MTE3")
            write(f"CopyOut(parts_gm[from + member * size], {self.source.tensor(acc, 'u8')}, size);")
            write("PipeBarrier<PIPE_ALL>();", "SyncAll();")
            write(f"const int64_t step = {PARTS} / size - 1;")
            with write.block("for (int64_t core = 0; core < t.shares; core += step)"):
                write("const uint32_t some = static_cast<uint32_t>(Least<int64_t>(step, t.shares - core));")
                write(
                    f"CopyIn({self.source.tensor(parts, 'u8')}, parts_gm[from + core * size], some * size);"
                )
                self._hand_over("MTE2_V")
                first = literal(Scalar(acc.dtype, identity(op, acc.dtype)))
                with write.block("if (core == 0)"):
                    write(f"{op}Rows({a}, {p}, {first}, some, {count});")
                with write.block("else"):
                    some_parts = f"{p}[{PARTS // width} - {count}]"
                    write(f"{op}Rows({some_parts}, {p}, {first}, some, {count});")
                    write(f"{op}({a}, {a}, {some_parts}, static_cast<int32_t>({count}));")
                self._hand_over("V_MTE2")

    def _scalar_load(self, scalar: ScalarLoad) -> None:
        """An element that is the same all over the tile, read by the scalar unit."""
        axes = {k: self.source.at(k) for k in range(self.source.kernel.rank)}
        place = self.source.offset(scalar.access, axes)
        text = f"{self.source.global_name(scalar.access)}.GetValue({place})"
        name = scalar.dtype.name
        if name == "bool":
            text = f"static_cast<half>({text} != 0 ? 1.0f : 0.0f)"
        elif name == "bfloat16":
            text = f"ToFloat({text})"
        else:
            to = {"int8": "int16_t", "uint8": "int16_t", "uint16": "int16_t"}.get(name)
            to = to or {"uint32": "int32_t", "int64": "int32_t"}.get(name)
            text = f"static_cast<{to}>({text})" if to else text
        self.write(f"const auto {scalar.name} = {text};")
