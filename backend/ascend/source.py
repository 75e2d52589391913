"""The source of a vector kernel: its comment, its parameters, its buffers, and around them the loops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir import Kernel, Stride, format_kernel
from . import device_functions, primitives, transfers
from .alloc import Placement
from .buffers import Buffer, Buffers
from .chip import Chip
from .emit import InstructionWriter
from .events import Events
from .generated import Field, Parameter
from .loops import Loops
from .partition import partition
from .stage import Stages
from .text import CTYPE, Writer, without_unread
from .tile import BYTES, MASK, MEMORY, Form, Value
from .vector_tiling import VectorTiling

if TYPE_CHECKING:
    from .vector_kernel import VectorTuning

Dtype = np.dtype[Any]
# The bit of the control register without which float16 and bfloat16 saturate instead of overflowing.
IEEE_MODE = 48

device_functions.register(
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
        self.instruction = InstructionWriter(self.write, buffers, self.tensor, self.used)
        self.transfer = transfers.TransferWriter(self)
        self.host: list[tuple[str, str]] = []
        granule = 32 // min((BYTES[v.dtype] for v in self.copied), default=4)
        self.height_granule = max(16, granule)
        self.pitch_granule = max(stages.pitch_granule, granule)
        self.events = Events(stages, tuning.copies, tuning.options.events)
        self.loops = Loops(self, self.events)

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
        """Whether a buffer is there twice, for one tile and the next."""
        return buffer.place.copied and self.tuning.copies > 1

    @staticmethod
    def tensor_name(buffer: Buffer, dtype: str) -> str:
        """The C++ variable: the buffer's name, with the dtype where it is not that of its first value."""
        own = "u8" if buffer.values[0].dtype == MASK else buffer.values[0].dtype
        return f"{buffer.name}_ub" if dtype == own else f"{buffer.name}_{dtype}"

    def global_name(self, access: int) -> str:
        """The C++ variable of the operand that an access goes through."""
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
        self.host = partition(self)
        body = Writer()
        self.write.depth = body.depth = 1
        self.loops.run()
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
        functions = device_functions.functions(self.used)
        lines += [functions, ""] if functions else []
        parameters = ", ".join([f"GM_ADDR {p.name}" for p in self.parameters()] + ["Tiling t"])
        lines.append(f'extern "C" __global__ __aicore__ void {self.function_name()}({parameters})')
        return "\n".join(lines) + "\n{\n"

    def function_name(self) -> str:
        """The name of the kernel's function."""
        return f"{self.given.name}_kernel"

    def parameters(self) -> tuple[Parameter, ...]:
        """The pointers that the kernel's function takes."""
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
        """How the kernel is cut, for people."""
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
                f"ub.GetWithOffset<{ctype}>({count}, {self.placement.offsets[f'{buffer.place.name}.{n}']})"
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
        if self.events.fit:
            write("// All buffers are free.")
            self.events.all(write, "SetFlag")
        elif cleared:
            write("PipeBarrier<PIPE_ALL>();")
        if self.tuning.copies > 1:
            for number, stage in enumerate(self.stages.stages):
                write(f"uint32_t {'ahead' if self.loops.prefetches(stage) else 'turn'}{number} = 0;")
        if self.has_parts:
            write("uint32_t meeting = 0;")

    def _closing(self) -> list[str]:
        write = Writer()
        write.depth = 1
        if self.events.fit:
            self.events.all(write, "WaitFlag")
        return write.lines

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
