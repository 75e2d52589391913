"""The source of a vector kernel, and the arguments of its launches."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from math import isqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir import Binding, Kernel, Stride, binding_with_axis, format_kernel
from . import folding, library, primitives, transfers
from .alloc import Placement
from .buffers import PARTS, Buffer, Buffers
from .chip import Chip
from .emit import COUNT, InstructionWriter
from .generated import Bound, Field, Generated, Parameter
from .rearrange import described
from .reduction import identity
from .stage import MEMORY, MOVES, ScalarLoad, Stage, Stages
from .text import CTYPE, IEEE_MODE, Writer, literal, without_unread
from .tile import BYTES, MASK, Form, Scalar, Value, VectorInstr
from .ways import THRIFT, choose_ways

if TYPE_CHECKING:
    from .vector_kernel import VectorTuning

Dtype = np.dtype[Any]
# Of the events between two pipes, numbers up to here are the stages'; the rest serve single waits.
STAGE_EVENTS = 6
# Instructions that wait for the vector unit before the scalar unit does.
QUEUE = 32
# Where cores share the rows of a reduction, they have at least so many lanes to copy in a piece.
WIDE_LANES = 1024
SINGLE_EVENT = 7

library.register(
    "ReportFault",
    """
// The first point of a tile whose bit is set: its index and the fault's code for the host.
__aicore__ inline void ReportFault(const LocalTensor<uint8_t>& mask, const LocalTensor<int32_t>& index,
                                   uint32_t rows, uint32_t lanes, uint32_t pitch, int64_t code,
                                   GlobalTensor<int64_t>& status)
{
    const LocalTensor<uint64_t> words = mask.ReinterpretCast<uint64_t>();
    for (uint32_t word = 0; word * 64 < rows * pitch; ++word) {
        const uint64_t bits = words.GetValue(word);
        if (bits == 0) {
            continue;
        }
        for (uint32_t bit = 0; bit < 64; ++bit) {
            const uint32_t point = word * 64 + bit;
            if (((bits >> bit) & 1) == 0 || point / pitch >= rows || point % pitch >= lanes) {
                continue;
            }
            const uint32_t slot = static_cast<uint32_t>(GetBlockIdx()) * 8;
            if (status.GetValue(slot) == 0) {
                status.SetValue(slot, code);
                status.SetValue(slot + 1, static_cast<int64_t>(index.GetValue(point)));
                DataCacheCleanAndInvalid<int64_t, CacheLine::SINGLE_CACHE_LINE>(status[slot]);
            }
            return;
        }
    }
}
""",
)


@dataclass(frozen=True)
class VectorTiling:
    """How a vector kernel is cut, for people."""

    kernel: str
    tuning: VectorTuning
    chip: Chip
    buffers: Buffers
    placement: Placement
    stages: Stages

    @property
    def bytes_used(self) -> int:
        """Of UB."""
        return self.placement.bytes_used

    @property
    def saved(self) -> float:
        """The part of the bytes without reuse that reuse saves."""
        return 1 - self.placement.bytes_used / self.bytes_without_reuse

    @property
    def bytes_without_reuse(self) -> int:
        """What UB would hold if every value had a buffer of its own."""
        t = self.tuning
        return max(1, self.buffers.bytes_without_reuse((t.points, t.rows, t.lanes), t.copies))

    def __str__(self) -> str:
        t, p = self.tuning, self.placement
        room = self.chip.capacity.ub_usable
        lines = [
            f"tiles of {self.kernel} on {self.chip.name}: up to {t.points} points, {t.rows} rows, "
            f"{t.lanes} lanes; {t.copies} buffer{'s' if t.copies > 1 else ''} for each operand",
            f"UB {p.bytes_used:,} of {room:,} B; {self.bytes_without_reuse:,} without reuse "
            f"({100 * self.saved:.0f} % saved), {p.live_bound:,} alive at the fullest point",
        ]
        for b in sorted(self.buffers.buffers, key=lambda b: (b.kind, b.name)):
            copies = t.copies if b.copied else 1
            places = ", ".join(str(p.offsets[f"{b.name}.{n}"]) for n in range(copies))
            lines.append(f"  {b.kind:<9} {b.name:<10} {b.size(t.points, t.rows, t.lanes):>7} B @ {places}")
        lines += [f"  {line}" for line in described(self.stages)]
        return "\n".join(lines)


class Source:
    """Writes one kernel.

    Attributes
    ----------
    write : Writer
        Takes the body.
    used : set of str
        The device functions called.
    fields : list of Field
        Of the tiling struct, in order; `field` adds one at its first use.
    """

    def __init__(
        self,
        given: Kernel,
        kernel: Kernel,
        tuning: VectorTuning,
        chip: Chip,
        stages: Stages,
        buffers: Buffers,
        placement: Placement,
    ) -> None:
        self.given = given
        self.kernel = kernel
        self.tuning = tuning
        self.chip = chip
        self.stages = stages
        self.plane = stages.plane
        self.buffers = buffers
        self.placement = placement
        self.write = Writer()
        self.used: set[str] = {"Align", "Least"}
        self.tensors: dict[tuple[str, str], None] = {}
        self.fields: dict[str, Field] = {}
        self.names = [o.name for o in kernel.operands]
        self.faults = any(i.op == "Fault" for s in stages.stages for i in s.instrs())
        self.has_parts = any(i.op == "Combine" for s in stages.stages for i in s.instrs())
        self.copied = {t.value for s in stages.stages for t in (*s.loads, *s.stores)}
        self.windows = _windows(stages)
        self.stage_number = 0
        self.instruction = InstructionWriter(self.write, buffers, self.tensor, self.used)
        self.transfer = transfers.TransferWriter(self)
        granule = 32 // min((BYTES[v.dtype] for v in self.copied), default=4)
        self.height_granule = max(16, granule)
        self.pitch_granule = max(self._fold_granule(), granule)

    def _fold_granule(self) -> int:
        return folding.PITCH[self.tuning.fold if self.plane.reduces_lanes else folding.STRIPS]

    # --- names -------------------------------------------------------------------------------------------

    def field(self, name: str, ctype: str, host: str) -> str:
        """A field of the tiling struct, as the kernel's code reads it."""
        self.fields.setdefault(name, Field(name, ctype, host=host))
        return f"t.{name}"

    def extent(self, axis: int) -> str:
        """The extent of an axis."""
        return self.field(f"e{axis}", "int32_t", f"n{axis}")

    def stride(self, access: int, axis: int) -> str:
        """The stride of an access along an axis, in elements."""
        kernel = self.kernel.accesses[access]
        known = {Stride.ZERO: "0", Stride.UNIT: "1", Stride.NEGATIVE: "-1"}.get(kernel.layout[axis])
        anchor = kernel.anchor
        return known or self.field(f"s{anchor}_{axis}", "int64_t", f"s{anchor}_{axis}")

    def tensor(self, value: Value, dtype: str) -> str:
        """A value's tensor, seen as elements of a dtype."""
        buffer = self.buffers.of[value]
        own = "u8" if dtype == MASK else dtype
        self.tensors[buffer.name, own] = None
        name = self.tensor_name(buffer, own)
        if self.is_double(buffer):
            name = f"{name}[turn{buffer.stage}]"
        further = self.windows.get(value)
        return f"{name}[{further} * pitch]" if further else name

    def is_double(self, buffer: Buffer) -> bool:
        return buffer.copied and self.tuning.copies > 1

    @staticmethod
    def tensor_name(buffer: Buffer, dtype: str) -> str:
        """The C++ variable: the buffer's name, with the dtype where it is not that of its first value."""
        own = "u8" if buffer.values[0].dtype == MASK else buffer.values[0].dtype
        return f"{buffer.name}_ub" if dtype == own else f"{buffer.name}_{dtype}"

    def global_name(self, access: int) -> str:
        return f"{self.names[self.kernel.accesses[access].operand]}_gm"

    def offset(self, access: int, axes: dict[int, str]) -> str:
        """Where an access begins: its own offset and steps along axes to where they stand."""
        kernel = self.kernel.accesses[access]
        terms = [self.field(f"o{kernel.anchor}", "int64_t", f"o{kernel.anchor}")]
        if kernel.delta:
            terms.append(str(kernel.delta))
        for axis, at in axes.items():
            stride = self.stride(access, axis)
            if stride != "0":
                terms.append(at if stride == "1" else f"-{at}" if stride == "-1" else f"{at} * {stride}")
        return " + ".join(terms).replace("+ -", "- ")

    # --- the whole -----------------------------------------------------------------------------------------

    def run(self) -> str:
        """The source's text."""
        self._partition()
        body = Writer()
        self.write.depth = body.depth = 1
        self._loops()
        if any("FromBits(" in line for line in self.write.lines):
            self.used.add("FromBits")
        body.lines += without_unread(self._opening() + self.write.lines + self._closing())
        return self._header() + "\n".join(body.lines) + "\n}\n"

    def _header(self) -> str:
        kernel = self.given
        comment = [
            f"// {kernel.name}, by pyasc for {self.chip.name}.",
            "//",
            *(f"//   {line}" for line in format_kernel(kernel).splitlines()),
            "//",
            *(f"// {line}" for line in str(self.tiling()).splitlines()),
        ]
        lines = [*comment, '#include "kernel_operator.h"', "", "using namespace AscendC;", ""]
        lines.append("struct Tiling {")
        lines += [f"    {f.ctype} {f.name};" for f in self.ordered_fields()]
        lines += ["};", ""]
        functions = library.functions(self.used)
        lines += [functions, ""] if functions else []
        parameters = ", ".join([f"GM_ADDR {p.name}" for p in self.parameters()] + ["Tiling t"])
        lines.append(f'extern "C" __global__ __aicore__ void {self.function_name()}({parameters})')
        return "\n".join(lines) + "\n{\n"

    def function_name(self) -> str:
        """The name of the kernel's function."""
        return f"{self.given.name}_kernel"

    def parameters(self) -> tuple[Parameter, ...]:
        found = [
            Parameter(name, "output" if o.output else "input", n, o.dtype)
            for n, (name, o) in enumerate(zip(self.names, self.kernel.operands, strict=True))
        ]
        if self.has_parts:
            found.append(Parameter("workspace", "workspace"))
        if self.faults:
            found.append(Parameter("status_out", "status"))
        return tuple(found)

    def ordered_fields(self) -> tuple[Field, ...]:
        """Wide fields first, so that there is no padding between; scalars last."""
        scalars = []
        for slot, dtype in enumerate(self.kernel.scalars):
            scalars.append(Field(f"s{slot}", primitives.scalar_representation(dtype).field, scalar=slot))
        return (*self.fields.values(), *scalars)

    def tiling(self) -> VectorTiling:
        return VectorTiling(
            self.given.name, self.tuning, self.chip, self.buffers, self.placement, self.stages
        )

    def _opening(self) -> list[str]:
        write = Writer()
        write.depth = 1
        if any(v.dtype in ("f16", "bf16") for v in self.buffers.of):
            write(f"set_ctrl(sbitset1(get_ctrl(), {IEEE_MODE}));  // infinity and NaN as they are")
        write(
            "TPipe pipe;",
            "TBuf<TPosition::VECCALC> ub;",
            f"pipe.InitBuffer(ub, {self.placement.bytes_used});",
        )
        for n, operand in enumerate(self.kernel.operands):
            name, ctype = self.names[n], CTYPE[MEMORY[operand.dtype.name]]
            write(f"GlobalTensor<{ctype}> {name}_gm;")
            write(f"{name}_gm.SetGlobalBuffer((__gm__ {ctype}*){name});")
            if n in self.tuning.bypass:
                write(f"{name}_gm.SetL2CacheHint(CacheMode::CACHE_MODE_DISABLE);  // read once")
        if self.has_parts:
            write("GlobalTensor<uint8_t> parts_gm;", "parts_gm.SetGlobalBuffer((__gm__ uint8_t*)workspace);")
        if self.faults:
            write("GlobalTensor<int64_t> status;", "status.SetGlobalBuffer((__gm__ int64_t*)status_out);")
        t = self.tuning
        by_name = {b.name: b for b in self.buffers.buffers}
        for (name, dtype), _ in self.tensors.items():
            buffer = by_name[name]
            ctype = CTYPE[dtype]
            count = buffer.size(t.points, t.rows, t.lanes) // BYTES.get(dtype, 1)
            places = [
                f"ub.GetWithOffset<{ctype}>({count}, {self.placement.offsets[f'{name}.{n}']})"
                for n in range(t.copies if self.is_double(buffer) else 1)
            ]
            variable = self.tensor_name(buffer, dtype)
            if self.is_double(buffer):
                write(f"LocalTensor<{ctype}> {variable}[2] = {{{', '.join(places)}}};")
            else:
                write(f"LocalTensor<{ctype}> {variable} = {places[0]};")
        self.transfer.tables(write)
        self._reverse_events(write)
        return write.lines

    # --- events ------------------------------------------------------------------------------------

    def _event(self, stage: int) -> str:
        """The number of a stage's events, for the buffers whose turn it is."""
        copies = self.tuning.copies
        return f"{stage * copies} + turn{stage}" if copies > 1 else str(stage)

    def _set(self, pair: str, stage: int) -> str:
        return f"SetFlag<HardEvent::{pair}>({self._event(stage)});"

    def _wait(self, pair: str, stage: int) -> str:
        return f"WaitFlag<HardEvent::{pair}>({self._event(stage)});"

    def _uses(self, stage: Stage) -> list[str]:
        """The reverse events of a stage: who gives buffers back to whom."""
        loads = stage.loads and not stage.once
        return (["V_MTE2"] if loads else []) + (["MTE3_V"] if stage.stores else [])

    def _events_fit(self) -> bool:
        return self.tuning.options.events and len(self.stages.stages) * self.tuning.copies <= STAGE_EVENTS

    def _all_events(self, write: Writer, call: str) -> None:
        for number, stage in enumerate(self.stages.stages):
            for pair in self._uses(stage):
                for copy in range(self.tuning.copies):
                    write(f"{call}<HardEvent::{pair}>({number * self.tuning.copies + copy});")

    def _reverse_events(self, write: Writer) -> None:
        cleared = [
            b
            for b in self.buffers.buffers
            if b.kind in ("load", "constant") and any(v.form is not Form.SCRATCH for v in b.values)
        ]
        if cleared:
            write("// Copies of short rows leave gaps, which instructions read.")
        for buffer in cleared:
            self.used.add("Clear")
            dtype = "u8" if buffer.values[0].dtype == MASK else buffer.values[0].dtype
            name = self.tensor_name(buffer, dtype)
            for copy in range(self.tuning.copies if self.is_double(buffer) else 1):
                write(f"Clear({name}{f'[{copy}]' if self.is_double(buffer) else ''});")
        if self._events_fit():
            write("// All buffers are free.")
            self._all_events(write, "SetFlag")
        elif cleared:
            write("PipeBarrier<PIPE_ALL>();")
        if self.tuning.copies > 1:
            for number, stage in enumerate(self.stages.stages):
                write(f"uint32_t {'ahead' if self._prefetches(stage) else 'turn'}{number} = 0;")
        if self.has_parts:
            write("uint32_t meeting = 0;")

    def _closing(self) -> list[str]:
        write = Writer()
        write.depth = 1
        if self._events_fit():
            self._all_events(write, "WaitFlag")
        return write.lines

    # --- loops -------------------------------------------------------------------------------------

    def _partition(self) -> None:
        """Fields for how the domain is cut; `host` computes them from the sizes of a launch."""
        t, plane = self.tuning, self.plane
        add = self.field
        g = self.pitch_granule
        lane, row = f"n{plane.lane}", f"n{plane.row}" if plane.row >= 0 else "1"
        outer = " * ".join([f"n{k}" for k in plane.outer] or ["1"])
        cores = self.chip.vector_cores if t.options.cores else 1
        every = " * ".join([f"n{k}" for k in range(self.kernel.rank)])
        self.host: list[tuple[str, str]] = []

        def host(name: str, expression: str) -> str:
            self.host.append((name, expression))
            return name

        whole_lanes = self.stages.whole and plane.reduces_lanes
        host("cores", f"Min({cores}, Max(1, Root(Div({every}, {t.grain}))))")
        cap_lanes = max(1, min(t.lanes, t.points) // g) * g
        if whole_lanes:
            host("most_lanes", lane)
        elif self.stages.whole and plane.reduces_rows:
            host("most_lanes", f"Min({lane}, Min({cap_lanes}, Div(Div({t.points}, {row}), {g}) * {g}))")
        else:
            host("most_lanes", f"Min({lane}, {cap_lanes})")
        host("even_lanes", f"CeilDiv({lane}, CeilDiv({lane}, most_lanes))")
        # A piece of a copy begins where a line of memory does.
        lane_step = max(g, 512 // min((BYTES[v.dtype] for v in self.copied), default=4))
        cuts_rows = plane.row >= 0 and not plane.reduces_rows
        if plane.reduces_lanes or cuts_rows:
            host("tile_lanes", f"Min(most_lanes, Up(even_lanes, {lane_step}))")
            host("pitch", f"Up(tile_lanes, {g})")
            room = f"Max(1, Min({t.rows}, Div({t.points}, pitch)))"
            turned = any(w.kind == "turned" for w in t.ways)
            row_step = lane_step
            if turned:  # pieces are of rows, then
                host("room", room)
                room = f"Max(Min(room, {row_step}), Div(room, {row_step}) * {row_step})"
            host("most_rows", room)
            host("lane_tiles", f"CeilDiv({lane}, tile_lanes)")
            host("others", outer if plane.reduces_lanes else f"{outer} * lane_tiles")
            host("tiles", f"others * CeilDiv({row}, most_rows)")
            host("wanted", "Div(CeilDiv(tiles, cores) * cores, others)")
            even = f"CeilDiv({row}, Max(1, wanted))"
            host(
                "tile_rows",
                f"Min(most_rows, Up({even}, {row_step}))" if turned else f"Min(most_rows, {even})",
            )
            host("row_tiles", f"CeilDiv({row}, tile_rows)")
        else:
            # Lanes are cut; rows are reduced, or there is but one.
            host("others", outer)
            host("tiles", f"others * CeilDiv({lane}, most_lanes)")
            host("wanted", "Div(CeilDiv(tiles, cores) * cores, others)")
            even = f"CeilDiv({lane}, Max(1, wanted))"
            even = f"Max({WIDE_LANES}, {even})" if t.split else even
            host("tile_lanes", f"Min(most_lanes, Up({even}, {lane_step}))")
            host("lane_tiles", f"CeilDiv({lane}, tile_lanes)")
            host("pitch", f"Up(tile_lanes, {g})")
            host("tile_rows", f"Min({row}, Max(1, Min({t.rows}, Div({t.points}, pitch))))")
            host("row_tiles", f"CeilDiv({row}, tile_rows)")
        parallel = [outer]
        if cuts_rows:
            parallel.append("row_tiles")
        if not plane.reduces_lanes:
            parallel.append("lane_tiles")
        host("units", " * ".join(parallel))
        reduced = [f"n{k}" for k in plane.inner]
        if plane.reduces_lanes:
            reduced.append("lane_tiles")
        elif plane.reduces_rows:
            reduced.append("row_tiles")
        host("parts", " * ".join(reduced or ["1"]))
        # So many cores share the reductions of a unit.
        host("shares", "Max(1, Min(parts, Div(cores, units)))" if t.split else "1")
        host("blocks", "Min(cores, units) * shares")
        for name in ("tile_rows", "tile_lanes", "row_tiles", "lane_tiles", "units", "parts", "shares"):
            add(name, "int32_t", name)

    def _loops(self) -> None:
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
            for number, stage in enumerate(self.stages.stages if self._events_fit() else ()):
                if stage.loads and not stage.loops:
                    write(self._set("V_MTE2", number))
                    if t.copies > 1:
                        write(f"turn{number} ^= 1;")

    def _unit(self) -> None:
        """Where a unit lies along the parallel axes."""
        write, plane = self.write, self.plane
        write("int64_t rest = unit;")
        if not plane.reduces_lanes:
            self._digit("lane_tile", "t.lane_tiles", last=not self._cuts_rows() and not plane.outer)
            self._span("lane", plane.lane, "lanes", "t.tile_lanes")
        if self._cuts_rows():
            self._digit("row_tile", "t.row_tiles", last=not plane.outer)
            self._span("row", plane.row, "rows", "t.tile_rows")
        for position, axis in enumerate(reversed(plane.outer)):
            self._digit(f"i{axis}", self.extent(axis), last=position == len(plane.outer) - 1)
        if plane.row < 0:
            write("const uint32_t rows = 1;")

    def _pipeline(self, number: int, ctype: str, name: str, place: Callable[[], None]) -> None:
        """A loop over tiles: copies in, instructions, copies out.

        Where a tile takes the vector unit more instructions than wait in its queue, the next tile's copies
        are issued before them: behind them they would begin only when most of the instructions are done.
        """
        write, stage = self.write, self.stages.stages[number]
        if not self._prefetches(stage):
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

    def _prefetches(self, stage: Stage) -> bool:
        """Whether the copies of a tile are issued before the instructions of the one before it."""
        options = self.tuning.options
        if not (options.prefetch and self._events_fit() and self.tuning.copies > 1 and stage.loads):
            return False
        loops = any(i.op == "Reduce" or (i.attrs and i.attrs[0] in ("row", "column")) for i in stage.body)
        return loops or len(stage.body) >= QUEUE

    def _once(self, stage: Stage) -> None:
        """What is loaded before all tiles."""
        write = self.write
        write(f"// {stage.name}")
        with write.block(""):
            write("const int64_t lane0 = 0;")
            write(f"const uint32_t lanes = static_cast<uint32_t>({self.extent(self.plane.lane)});")
            write(f"const uint32_t pitch = Align(lanes, {self.pitch_granule});")
            write("const uint32_t nl = Align(pitch, 128);")
            self._hand_over("V_MTE2")
            for load in stage.loads:
                self.transfer.load(load)
            self._hand_over("MTE2_V")
            for instr in stage.body:
                self._instr(instr)

    def _hand_over(self, pair: str) -> None:
        """One pipe waits for what another has been given so far."""
        self.write(
            f"SetFlag<HardEvent::{pair}>({SINGLE_EVENT});", f"WaitFlag<HardEvent::{pair}>({SINGLE_EVENT});"
        )

    def _cuts_rows(self) -> bool:
        return self.plane.row >= 0 and not self.plane.reduces_rows

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
            f"static_cast<uint32_t>(Least<int64_t>({step}, {self.extent(axis)} - {which}0));"
        )

    def _whole(self) -> None:
        self._unit()
        write, plane = self.write, self.plane
        if plane.reduces_lanes:
            write(
                "const int64_t lane0 = 0;",
                f"const uint32_t lanes = static_cast<uint32_t>({self.extent(plane.lane)});",
            )
        if plane.reduces_rows:
            write(
                "const int64_t row0 = 0;",
                f"const uint32_t rows = static_cast<uint32_t>({self.extent(plane.row)});",
            )
        self._counts()

    def _counts(self) -> None:
        """How many elements a value of each form has, in whole repeats."""
        forms = {v.form for v in self.buffers.of}
        lines = [f"const uint32_t pitch = Align(lanes, {self.pitch_granule});"]
        if Form.FULL in forms:
            lines.append("const uint32_t n = Align(rows * pitch, 128);")
        if Form.ROW in forms:
            lines.append("const uint32_t nl = Align(pitch, 128);")
        if Form.COLUMN in forms:
            lines.append("const uint32_t nr = Align(rows, 128);")
        if any(i.op == "Turn" for s in self.stages.stages for i in s.instrs()):
            lines.append(f"const uint32_t height = Align(rows, {self.height_granule});  // of turned tiles")
        self.write(*lines)

    def _stage(self, number: int, stage: Stage) -> None:
        write = self.write
        self.stage_number = number
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
                    self.instruction(instr)
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
            write(f"const int32_t i{axis} = left % {self.extent(axis)};", f"left /= {self.extent(axis)};")
        self._counts()

    def _outer_counts(self) -> None:
        """Counts where only values over the parallel axes are."""
        plane = self.plane
        if plane.reduces_lanes:
            self.write("const uint32_t nr = Align(rows, 128);")
        else:
            self.write(f"const uint32_t pitch = Align(lanes, {self.pitch_granule});")
            self.write("const uint32_t nl = Align(pitch, 128);")
            if not plane.reduces_rows and plane.row >= 0:
                self.write("const uint32_t nr = Align(rows, 128);")

    def _copies_in(self, number: int, stage: Stage) -> None:
        write, events = self.write, self._events_fit()
        if stage.loads:
            if events:
                write(self._wait("V_MTE2", number))
            for load in stage.loads:
                self.transfer.load(load)
            write(self._set("MTE2_V", number) if events else _BARRIER)

    def _instructions(self, number: int, stage: Stage) -> None:
        """The instructions of a tile and its copies out."""
        write, events = self.write, self._events_fit()
        later = not stage.loops and not self.stages.whole  # its loads are needed by the stages that follow
        if stage.loops or self.stages.whole:
            for scalar in stage.scalars:
                self._scalar_load(scalar)
        if stage.loads and events:
            write(self._wait("MTE2_V", number))
        if stage.stores and events:
            write(self._wait("MTE3_V", number))
        for instr in stage.body:
            self._instr(instr)
        if stage.loads and events and not later:
            write(self._set("V_MTE2", number))
        if stage.stores:
            write(*([self._set("V_MTE3", number), self._wait("V_MTE3", number)] if events else [_BARRIER]))
            for store in stage.stores:
                self.transfer.store(store)
            write(self._set("MTE3_V", number) if events else _BARRIER)
        elif stage.loads and not events:
            write(_BARRIER)

    def _instr(self, instr: VectorInstr) -> None:
        write = self.write
        if instr.op == "Index":
            assert instr.dst is not None
            (axis,) = instr.attrs
            first = "lane0" if axis == self.plane.lane else "row0"
            write(
                f"CreateVecIndex({self.tensor(instr.dst, 'i32')}, static_cast<int32_t>({first}), "
                f"{COUNT[instr.dst.form]});"
            )
        elif instr.op == "Combine":
            self._combine(instr)
        elif instr.op in MOVES:
            self.transfer.move(instr)
        else:
            self.instruction(instr)

    def _combine(self, instr: VectorInstr) -> None:
        """Exchange partial results through GM; every core combines all of them in the same order."""
        acc, parts = instr.reads
        op = instr.attrs[0]
        count, width = COUNT[acc.form], BYTES[acc.dtype]
        a, p = self.tensor(acc, acc.dtype), self.tensor(parts, acc.dtype)
        self.used |= {"CopyIn", "CopyOut", f"{op}Rows"}
        write = self.write
        with write.block("if (t.shares > 1)"):
            write(f"const uint32_t size = {count} * {width};")
            # Each core has a place of one size, whatever the lanes of its tile: teams do not meet each other.
            place = f"((meeting & 1) * GetBlockNum() + team * t.shares) * {PARTS // 2}"
            write(f"const int64_t from = {place};", "++meeting;")
            self._hand_over("V_MTE3")
            write(f"CopyOut(parts_gm[from + member * size], {self.tensor(acc, 'u8')}, size);")
            write("PipeBarrier<PIPE_ALL>();", "SyncAll();")
            write(f"const int64_t step = {PARTS} / size - 1;")
            with write.block("for (int64_t core = 0; core < t.shares; core += step)"):
                write("const uint32_t some = static_cast<uint32_t>(Least<int64_t>(step, t.shares - core));")
                write(f"CopyIn({self.tensor(parts, 'u8')}, parts_gm[from + core * size], some * size);")
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
        axes = {k: self.at(k) for k in range(self.kernel.rank)}
        place = self.offset(scalar.access, axes)
        text = f"{self.global_name(scalar.access)}.GetValue({place})"
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

    def at(self, axis: int) -> str:
        """Where the tile stands along an axis."""
        if axis == self.plane.lane:
            return "lane0"
        if axis == self.plane.row:
            return "row0"
        return f"i{axis}"


def _windows(stages: Stages) -> dict[Value, int]:
    """How many rows further down than its buffer a value begins."""
    found: dict[Value, int] = {}
    for stage in stages.stages:
        for instr in stage.instrs():
            if instr.op == "Window" and instr.dst is not None:
                found[instr.dst] = instr.attrs[0]
            elif instr.op == "View" and instr.dst is not None and instr.reads[0] in found:
                found[instr.dst] = found[instr.reads[0]]
    return found


_BARRIER = "PipeBarrier<PIPE_ALL>();"
_HOST: dict[str, Callable[..., int]] = {
    "Min": min,
    "Max": max,
    "CeilDiv": lambda a, b: -(-a // b),
    "Div": lambda a, b: a // b,
    "Up": lambda a, b: -(-a // b) * b,
    "Root": isqrt,
}


def write(
    given: Kernel,
    kernel: Kernel,
    tuning: VectorTuning,
    chip: Chip,
    stages: Stages,
    buffers: Buffers,
    placement: Placement,
) -> Generated:
    """The source of a kernel's stages, with what binds it to sizes."""
    source = Source(given, kernel, tuning, chip, stages, buffers, placement)
    text = source.run()
    fields = source.ordered_fields()
    host = [(name, compile(e, "<host>", "eval")) for name, e in source.host]
    rest = [(f, compile(f.host, "<host>", "eval")) for f in fields if f.scalar < 0]
    passed = [(d, primitives.scalar_representation(d)) for d in kernel.scalars]

    def environment(binding: Binding) -> dict[str, int]:
        names = {f"n{k}": e for k, e in enumerate(binding.extents)}
        for n, strides in enumerate(binding.strides):
            names |= {f"s{n}_{k}": s for k, s in enumerate(strides)}
            names[f"o{n}"] = binding.offsets[n]
        names |= {f"z{n}": size for n, size in enumerate(binding.sizes)}
        for name, code in host:
            names[name] = eval(code, {**_HOST, "__builtins__": {}}, names)
        return names

    def bind(binding: Binding) -> Bound:
        names = environment(binding_with_axis(given, binding))
        values = {f.name: eval(code, {**_HOST, "__builtins__": {}}, names) for f, code in rest}

        def packed(scalars: list[int]) -> bytes:
            out = b""
            widest = 1
            for f in fields:
                if f.scalar < 0:
                    data = struct.pack("<i" if f.ctype == "int32_t" else "<q", values[f.name])
                else:
                    dtype, representation = passed[f.scalar]
                    number = np.array([scalars[f.scalar]], np.uint64).view(dtype)[0]
                    data = np.array([representation.convert(number)], representation.numpy).tobytes()
                widest = max(widest, len(data))
                out += bytes(-len(out) % len(data)) + data
            return out + bytes(-len(out) % widest)

        workspace = 2 * chip.vector_cores * PARTS // 2 if source.has_parts else 0
        return Bound(names["blocks"], packed, workspace)

    def fits(binding: Binding) -> bool:
        bound = binding_with_axis(given, binding)
        if all(choose_ways(kernel, bound, stages.plane, thrift) != tuning.ways for thrift in THRIFT):
            return False
        if stages.whole and kernel.reduced:
            if stages.plane.reduces_lanes:
                lanes = bound.extents[stages.plane.lane]
                return -(-lanes // source.pitch_granule) * source.pitch_granule <= min(
                    tuning.lanes, tuning.points
                )
            rows = bound.extents[stages.plane.row]
            return rows <= tuning.rows and rows * source.pitch_granule <= tuning.points
        return True

    return Generated(
        source.function_name(),
        text,
        "vector",
        chip,
        source.parameters(),
        fields,
        source.tiling(),
        bind,
        fits,
        tuple(source.host),
    )
