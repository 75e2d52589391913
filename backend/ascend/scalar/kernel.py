"""Kernels written by hand as scalar Ascend C: what is left where neither tiles nor vector instructions fit.

The scalar unit of a core runs one thread after another, as written: variables, branches and loops are C++,
arrays are read and written through the core's data cache, element by element. It is slow, and it runs
everything that the scalar unit has arithmetic for; what it has none for (roots, exponentials …) is one vector
instruction or some dozens (vector.py) on a block of one number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from ... import structured as s
from ...base import Patch
from ...structured.barriers import meets, regions, regions_binding
from ...structured.format import format_structured
from ...structured.ranges import proven
from ...structured.rewrite import without_dead
from ...structured.tiles import expand
from .. import device_functions
from ..arguments import Passed, laid_out, number, passed, patched
from ..chip import Chip
from ..generated import Bound, Field, Generated, Parameter, Refused, free_names
from ..rounding import round_up
from ..text import Writer
from . import expressions as scalar_expressions
from . import foreign as scalar_foreign
from . import functions as scalar_functions
from . import vector as scalar_vector
from .emit import StatementWriter, scalar_field
from .partition import THREADS, cut, ways
from .types import CTYPE, memory

assert scalar_functions  # registers the device functions
_PARTITION = ("step", "shift", "units")


@dataclass(frozen=True, slots=True)
class ScalarTuning:
    """How a kernel is written as scalar code.

    Attributes
    ----------
    axis : int
        Of the grid: the one along which cores share the threads; -1 for one core.
    safe : tuple of int
        The sites whose indices are not checked, as they cannot leave their axes.
    """

    axis: int = -1
    safe: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ScalarTiling:
    """How scalar code is laid out, for people.

    Attributes
    ----------
    name, chip : str
    axis : int
        Of `ScalarTuning`.
    bytes_used : int
        Of UB.
    turns : bool
        See `turns_by_data`.
    """

    name: str
    chip: str
    axis: int
    bytes_used: int
    turns: bool

    def __str__(self) -> str:
        shared = f"cores share axis {self.axis} of the grid, by lines of 64 bytes"
        text = f"scalar code of {self.name} on {self.chip}: {shared if self.axis >= 0 else 'one core'}"
        return f"{text}\nUB {self.bytes_used:,} B" if self.bytes_used else text


def prepared(kernel: s.StructuredKernel) -> s.StructuredKernel:
    """The kernel with loops in place of barriers and tile statements."""
    if meets(kernel) or prod(kernel.block) <= 1:
        kernel = expand(regions(kernel))
    return replace(kernel, body=without_dead(kernel.body))


def _bound(
    kernel: s.StructuredKernel, binding: s.StructuredBinding
) -> tuple[s.StructuredBinding, tuple[int, ...]]:
    """The binding of the prepared kernel, and the numbers in the scalar slots that it has more."""
    return regions_binding(kernel, binding) if meets(kernel) else (binding, ())


# --- what can be written ------------------------------------------------------------------------------------


def why_not(kernel: s.StructuredKernel, chip: Chip) -> str:
    """Why a kernel cannot be written as scalar code, as the end of "runs on the host: "; "" where it can."""
    if chip.architecture != "dav-2201":
        return f"there is no generator of scalar code for the {chip.name}"
    for what, dtype in (
        *((a.name, a.dtype) for a in kernel.arrays),
        *((b.name, b.dtype) for b in kernel.buffers),
        *(("a scalar argument", d) for d in kernel.scalars),
        *(("a variable", d) for d in kernel.variables),
    ):
        if dtype.name not in CTYPE:
            return f"{what} is {dtype.name}, which the AI core has not"
    dtypes: dict[int, np.dtype[Any]] = {}
    for statement in s.walk(prepared(kernel).body):
        match statement:
            case s.Let():
                dtypes[statement.value] = statement.dtype
                reason = _why_not_let(kernel, statement, dtypes)
                if reason:
                    return reason
            case s.For() | s.Span():
                numbers = (statement.value,) if isinstance(statement, s.For) else statement.values
                dtypes |= dict.fromkeys(numbers, np.dtype(np.int64))
            case s.Atomic():
                dtypes[statement.result] = kernel.storage(statement.array).dtype
    used, room = _bytes_used(prepared(kernel)), chip.capacity.ub_usable_with_select
    if room is None:
        return f"the size of the unified buffer of the {chip.name} is not known"
    if used > room:
        return f"its buffers take {used:,} bytes, the unified buffer has {room:,}"
    return ""


def _why_not_let(kernel: s.StructuredKernel, let: s.Let, dtypes: dict[int, np.dtype[Any]]) -> str:
    if let.dtype.name not in CTYPE:
        return f"a value is {let.dtype.name}, which the AI core has not"
    if let.op == "call":
        return scalar_foreign.why_not(kernel.functions[let.attrs[0]])
    if let.op in s.LET_OPS:
        return ""
    return scalar_expressions.why_not(let.op, let.dtype, [dtypes[a] for a in let.args])


def turns_by_data(kernel: s.StructuredKernel) -> bool:
    """Whether loops turn as often as data says: with ``while``, to a loaded bound, or left by a ``break``."""
    values: set[int] = set()  # that depend on what was loaded
    variables: set[int] = set()

    def block(body: s.Block, under: bool) -> bool:
        """``under``: whether data decides on coming here."""
        found = False
        for statement in body:
            match statement:
                case s.While():
                    return True
                case s.Let(value, op, _, args, attrs):
                    carried = op == "get" and attrs[0] in variables
                    if op in ("load", "call") or carried or not values.isdisjoint(args):
                        values.add(value)
                case s.Atomic(result=result):
                    values.add(result)
                case s.Set(variable, value):
                    if under or value in values:
                        variables.add(variable)
                case s.If(condition, then, orelse):
                    depends = under or condition in values
                    found = block(then, depends) or block(orelse, depends) or found
                case s.For(_, start, stop, _, inner):
                    depends = not values.isdisjoint((start, stop))
                    found = depends or block(inner, under) or found
                case s.Span(_, _, inner):
                    found = block(inner, under) or found
                case s.Break():
                    found = found or under
        return found

    return block(kernel.body, False) or block(kernel.body, False)


def one_core(kernel: s.StructuredKernel, binding: s.StructuredBinding) -> str:
    """Why the threads of a launch run on one core; "" where cores share them."""
    if any(isinstance(x, s.Atomic) and x.array < len(kernel.arrays) for x in s.walk(kernel.body)):
        return "atomic updates are made by one core"
    written, bound = prepared(kernel), _bound(kernel, binding)[0]
    if not any(cut(written, bound, axis) for axis in range(kernel.axes)):
        return "what its threads write cannot be cut into lines of 64 bytes"
    return ""


# --- generating ---------------------------------------------------------------------------------------------


def tune(kernel: s.StructuredKernel, binding: s.StructuredBinding) -> ScalarTuning:
    """How a kernel is written for representative sizes."""
    written, bound = prepared(kernel), _bound(kernel, binding)[0]
    most, best = 1, -1
    for axis in range(kernel.axes):
        found = cut(written, bound, axis)
        if found is not None and found.units > most:
            most, best = found.units, axis
    if best < 0:
        best = next((axis for axis in range(kernel.axes) if ways(written, axis)), -1)
    return ScalarTuning(best, tuple(sorted(proven(kernel, binding))))


def generate(kernel: s.StructuredKernel, tuning: ScalarTuning, chip: Chip) -> Generated:
    """A kernel as scalar Ascend C.

    Raises
    ------
    Refused
        Where it cannot be written.
    """
    reason = why_not(kernel, chip)
    if reason:
        raise Refused(reason)
    return _Source(kernel, tuning, chip).generated()


def _bytes_used(kernel: s.StructuredKernel) -> int:
    """Of UB: the buffers, then the scratch of vector instructions."""
    used = sum(_size(b) for b in kernel.buffers)
    dtypes = {x.value: x.dtype for x in s.walk(kernel.body) if isinstance(x, s.Let)}
    scratch = [
        scalar_vector.function(x.op)[1]
        for x in s.walk(kernel.body)
        if isinstance(x, s.Let)
        and x.op not in s.LET_OPS
        and scalar_expressions.vector_function(x.op, [dtypes.get(a, x.dtype) for a in x.args])
    ]
    return used + max(scratch, default=0)


def _size(buffer: s.Buffer) -> int:
    return round_up(prod(buffer.shape) * buffer.dtype.itemsize, 32)


class _Source:
    """Writes one kernel."""

    def __init__(self, given: s.StructuredKernel, tuning: ScalarTuning, chip: Chip) -> None:
        self.given = given
        self.kernel = kernel = prepared(given)
        self.tuning = tuning
        self.chip = chip
        self.used_bytes = _bytes_used(kernel)
        held: list[s.Array | s.Buffer] = [*kernel.arrays, *kernel.buffers]
        plain = [f"array{n}" for n in range(len(held))]
        body = self._body(plain)[0]
        words = set(re.findall(r"\w+", "\n".join(body))) | set(_WORDS)
        names = [re.sub(r"\W", "_", h.name) or "array" for h in held]
        self.names = free_names(names, {w for w in words if not w.startswith("array")})

    def _body(self, names: list[str] | tuple[str, ...]) -> tuple[list[str], StatementWriter]:
        kernel = self.kernel
        statements = StatementWriter(kernel, names, self.tuning.safe)
        write = statements.write
        write.depth = 1
        loops: list[str] = []
        for axis in range(kernel.axes):
            bounds = ("0", statements.field(f"g{axis}"))
            if axis == self.tuning.axis:
                bounds = ("begin", "end")
            loops.append(f"for (int64_t id{axis} = {bounds[0]}; id{axis} < {bounds[1]}; ++id{axis})")
        if self.tuning.axis >= 0:
            step, shift, units = map(statements.field, _PARTITION)
            extent = statements.field(f"g{self.tuning.axis}")
            write(
                "// Two cores never write into one line of the cache.",
                "const int64_t team = GetBlockIdx();",
                "const int64_t teams = GetBlockNum();",
                f"const int64_t first = {shift} + {units} * team / teams * {step};",
                f"const int64_t last = {shift} + {units} * (team + 1) / teams * {step};",
                "const int64_t begin = first < 0 ? 0 : first;",
                f"const int64_t end = last < {extent} ? last : {extent};",
            )
        self._threads(statements, loops)
        return write.lines, statements

    def _threads(self, statements: StatementWriter, loops: list[str]) -> None:
        if not loops:
            statements.thread()
            return
        with statements.write.block(loops[0]):
            self._threads(statements, loops[1:])

    def generated(self) -> Generated:
        kernel = self.kernel
        body, statements = self._body(self.names)
        opening, closing = self._opening(statements), self._closing()
        functions = self._functions(statements, [*opening, *body])
        fields = (
            *(Field(name, ctype, host=name) for name, ctype in statements.fields.items()),
            *(Field(f"a{n}", scalar_field(d), scalar=n) for n, d in enumerate(kernel.scalars)),
        )
        parameters = [
            Parameter(self.names[n], "output" if a.writes else "input", n, a.dtype)
            for n, a in enumerate(kernel.arrays)
        ]
        if statements.checked:
            parameters.append(Parameter("status_out", "status"))
        name = f"{kernel.name}_kernel"
        tiling = ScalarTiling(
            kernel.name, self.chip.name, self.tuning.axis, self.used_bytes, turns_by_data(kernel)
        )
        comment = [
            f"// {kernel.name}, by pyasc for {self.chip.name}.",
            "//",
            *(f"//   {line}".rstrip() for line in format_structured(self.given).splitlines()),
            "//",
            *(f"// {line}" for line in str(tiling).splitlines()),
        ]
        taken = ", ".join([*(f"GM_ADDR {p.name}" for p in parameters), "Tiling t"])
        text = [
            *comment,
            '#include "kernel_operator.h"',
            "",
            "using namespace AscendC;",
            "",
            "struct Tiling {",
            *(f"    {f.ctype} {f.name};" for f in fields),
            "};",
            "",
            *functions,
            f'extern "C" __global__ __aicore__ void {name}({taken})',
            "{",
            *opening,
            *body,
            *closing,
            "}",
        ]
        return Generated(
            name,
            "\n".join(text) + "\n",
            "vector",
            self.chip,
            tuple(parameters),
            fields,
            tiling,
            _binder(self.given, kernel, self.tuning, self.chip, fields),
            lambda binding: proven(self.given, binding).issuperset(self.tuning.safe),  # type: ignore[arg-type]
        )

    def _opening(self, statements: StatementWriter) -> list[str]:
        kernel, names = self.kernel, self.names
        write = Writer()
        write.depth = 1
        if self.used_bytes:
            write("TPipe pipe;", "TBuf<TPosition::VECCALC> ub;", f"pipe.InitBuffer(ub, {self.used_bytes});")
        for n, array in enumerate(kernel.arrays):
            ctype = memory(array.dtype)
            write(f"GlobalTensor<{ctype}> {names[n]}_gm;")
            write(f"{names[n]}_gm.SetGlobalBuffer((__gm__ {ctype}*){names[n]});")
        if statements.checked:
            write("GlobalTensor<int64_t> status;", "status.SetGlobalBuffer((__gm__ int64_t*)status_out);")
        place = 0
        for n, buffer in enumerate(kernel.buffers):
            ctype, count = memory(buffer.dtype), prod(buffer.shape)
            name = names[len(kernel.arrays) + n]
            write(f"LocalTensor<{ctype}> {name}_ub = ub.GetWithOffset<{ctype}>({count}, {place});")
            place += _size(buffer)
        if place and any(isinstance(x, s.TILE_STATEMENTS) for x in s.walk(self.given.body)):
            write(
                "// Tiles are computed whole, where copies that end with their array fill a part.",
                f"Clear(ub.GetWithOffset<uint8_t>({place}, 0));",
                "SetFlag<HardEvent::V_S>(0);",
                "WaitFlag<HardEvent::V_S>(0);",
            )
        if statements.vector:
            size = self.used_bytes - place
            write(f"LocalTensor<uint8_t> scratch = ub.GetWithOffset<uint8_t>({size}, {place});")
        return write.lines

    def _closing(self) -> list[str]:
        """What was written leaves the cache."""
        for n, array in enumerate(self.kernel.arrays):
            if array.writes:
                kind = f"{memory(array.dtype)}, CacheLine::ENTIRE_DATA_CACHE, DcciDst::CACHELINE_OUT"
                return [f"    DataCacheCleanAndInvalid<{kind}>({self.names[n]}_gm);"]
        return []

    def _functions(self, statements: StatementWriter, body: list[str]) -> list[str]:
        """The device functions that the text calls, and C functions of the user's."""
        called = [scalar_vector.function(op)[0] for op in statements.vector]
        words = set(re.findall(r"\b([A-Z]\w*)[<(]", "\n".join([*body, *called])))
        text = device_functions.functions(words)
        own = dict.fromkeys(
            self.kernel.functions[x.attrs[0]].source
            for x in s.walk(self.kernel.body)
            if isinstance(x, s.Let) and x.op == "call"
        )
        parts = [text, *called, *map(scalar_foreign.text, own)]
        return [line for part in parts if part for line in (part, "")]


# Names in the text around the body.
_WORDS = (
    "pipe", "ub", "status", "status_out", "scratch", "t", "team", "teams", "first", "last", "begin", "end",
    "Tiling", "foreign",
)  # fmt: skip


def _fields(
    kernel: s.StructuredKernel, own: int, fields: Sequence[Field], values: dict[str, int], more: Sequence[int]
) -> Iterator[bytes | Passed]:
    """Sizes, the given kernel's own scalar arguments, and numbers in the slots that the prepared one adds."""
    for field in fields:
        if field.scalar < 0:
            yield number(field.ctype, values[field.name])
            continue
        place = passed(field.scalar, kernel.scalars[field.scalar], field.ctype)
        if field.scalar < own:
            yield place
        else:
            filled = Patch(0, place.size, field.scalar - own, place.form)
            yield patched(bytes(place.size), (filled,), more)


def _binder(
    given: s.StructuredKernel,
    kernel: s.StructuredKernel,
    tuning: ScalarTuning,
    chip: Chip,
    fields: tuple[Field, ...],
) -> Any:
    # A thread that works on tiles is worth a core of its own.
    worth = 1 if any(isinstance(x, s.TILE_STATEMENTS) for x in s.walk(given.body)) else THREADS

    def bind(launch: s.StructuredBinding) -> Bound:
        binding, more = _bound(given, launch)
        values = {f"g{k}": g for k, g in enumerate(binding.grid)}
        for n, (shape, strides) in enumerate(zip(binding.shapes, binding.strides, strict=True)):
            values |= {f"n{n}_{k}": e for k, e in enumerate(shape)}
            values |= {f"s{n}_{k}": e for k, e in enumerate(strides)}
            values[f"o{n}"] = binding.offsets[n]
        blocks = 1
        if tuning.axis >= 0:
            found = cut(kernel, binding, tuning.axis)
            step, shift, units = (
                (found.step, found.shift, found.units) if found else (binding.grid[tuning.axis], 0, 1)
            )
            values |= {"step": step, "shift": shift, "units": units}
            blocks = max(1, min(units, chip.vector_cores, prod(launch.grid) // worth))

        template, patches = laid_out(_fields(kernel, len(given.scalars), fields, values, more))
        return Bound(
            blocks,
            template,
            patches,
            0,
            {"blocks": blocks} | {k: values[k] for k in _PARTITION if k in values},
            tuple((n or 0) & (2**64 - 1) for n in launch.numbers),
        )

    return bind
