"""A kernel in point form as stages over tiles: what is copied in, computed and copied out for each tile.

Where the reduced axes fit into one tile the whole kernel is one stage and a row stays in UB from its first
pass to its last. Otherwise each pass over the reduced axes is a stage of its own, looped over tiles, that
reads its inputs again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from ..ir import Instr, Kernel, Stride
from . import folding, primitives, reduction
from .broadcast import broadcast
from .plane import Plane
from .rearrange import Rearranging
from .stage import ScalarLoad, Stage, Stages
from .tile import Builder, Form, Scalar, Source, Value, VectorInstr
from .ways import Way

Dtype = np.dtype[Any]
INT64 = np.dtype(np.int64)
# A primitive of so many instructions is named in the source.
NOTED = 3


class Vectoriser:
    """Builds the stages of one kernel."""

    def __init__(
        self, kernel: Kernel, plane: Plane, ways: tuple[Way, ...], whole: bool, fold: str, split: bool
    ) -> None:
        self.kernel = kernel
        self.plane = plane
        self.rearranging = Rearranging(kernel, plane, ways)
        self.whole = whole or not kernel.reduced
        self.fold = fold
        self.split = split
        self.level = _levels(kernel)
        self.stages: list[Stage] = []
        self.numbers = 0
        self.kept: dict[int, Source] = {}  # outer values, which later stages use
        self.stage: Stage
        self.builder: Builder
        self.memo: dict[int, Source] = {}
        self.loaded: dict[int, Source] = {}
        self.once = Stage("the same for all tiles", once=True)
        self.once_builder = Builder()

    def run(self) -> Stages:
        """The stages of the kernel."""
        body = self.kernel.body
        if self.whole:
            self._begin("tile")
            self._compute(range(len(body)))
            self._end()
            if self.once.loads:
                self.once.body = self.once_builder.instrs
                self.stages.insert(0, self.once)
        else:
            self._passes()
        return Stages(self.kernel, self.plane, self.whole, self.stages, self.numbers)

    # --- stages ------------------------------------------------------------------------------------------

    def _passes(self) -> None:
        """One stage for each pass, one for what is stored at every point, and outer values between."""
        kernel, inner, level = self.kernel, self.kernel.inner, self.level
        stores = [n for n, i in enumerate(kernel.body) if i.op == "store"]
        last = max((level[n] for n, i in enumerate(kernel.body) if i.op == "reduce"), default=0)
        outer = [n for n in range(len(kernel.body)) if not inner[n] and n not in stores]
        first = [n for n in outer if level[n] == 0 and kernel.body[n].op not in ("scalar", "const", "index")]
        if first:
            self._begin("outer values")
            self._compute(first)
            self._keep(first)
            self._end()
        for p in range(1, last + 1):
            reduces = [n for n in outer if kernel.body[n].op == "reduce" and level[n] == p]
            self._begin(f"pass {p}", loops=True)
            self._compute(self._closure([kernel.body[n].args[0] for n in reduces]))
            partials = [self._reduce(n, self._source(kernel.body[n].args[0])) for n in reduces]
            for partial in partials:
                self._accumulate(partial)
            instrs = self.builder.instrs
            self.builder = Builder(count=self.builder.count)
            self.memo = {}
            for n, (how, acc, dtype, _) in zip(reduces, partials, strict=True):
                if self.split:
                    self._combine(reduction.instruction(how), acc)
                self.kept[n] = reduction.finish(self.builder, how, acc, dtype)
            after = [n for n in outer if level[n] == p and kernel.body[n].op != "reduce"]
            self._compute(after)
            self._keep(after)
            self.stage.after = self.builder.instrs
            self.builder.instrs = instrs
            self._end()
        at_points = [n for n in stores if inner[n]]
        if at_points:
            self._begin("result", loops=True)
            self._compute(self._closure(at_points))
            self._end()
        outside = [n for n in stores if not inner[n]]
        if outside:
            self._begin("outer result")
            self._compute(outside)
            self._end()

    def _begin(self, name: str, loops: bool = False) -> None:
        self.stage = Stage(name, loops)
        self.builder = Builder(count=self.numbers)
        self.memo = {}
        self.loaded = {}
        self.rearranging.begin()

    def _end(self) -> None:
        self.stage.body = self.builder.instrs
        self.numbers = self.builder.count
        self.stages.append(self.stage)

    def _keep(self, outer: list[int]) -> None:
        self.kept.update((n, self.memo[n]) for n in outer if n in self.memo)

    def _closure(self, targets: list[int]) -> list[int]:
        """What the targets are computed from in this stage, in order."""
        needed: set[int] = set()
        stack = list(targets)
        while stack:
            n = stack.pop()
            if n in needed or n in self.kept:
                continue
            needed.add(n)
            stack.extend(self.kernel.body[n].args)
        return sorted(needed)

    def _compute(self, numbers: Iterable[int]) -> None:
        for n in numbers:
            self.memo[n] = self._instr(n, self.kernel.body[n])

    # --- instructions --------------------------------------------------------------------------------------

    def _source(self, n: int) -> Source:
        found = self.memo.get(n)
        if found is None:
            found = self.kept.get(n)
        if found is None:
            # A number or an index: nothing that a pass would have to keep.
            found = self.memo[n] = self._instr(n, self.kernel.body[n])
        return found

    def _instr(self, n: int, instr: Instr) -> Source:
        b = self.builder
        match instr.op:
            case "load":
                return self._load(instr.attrs[0], instr.dtype)
            case "scalar":
                return Scalar(_representation(instr.dtype), f"t.s{instr.attrs[0]}")
            case "const":
                return Scalar(_representation(instr.dtype), instr.attrs[0])
            case "index":
                return self._index(instr.attrs[0])
            case "extent":
                return Scalar("i32", f"t.e{instr.attrs[0]}")
            case "gather":
                return self._gather(instr)
            case "reduce":
                how, _, dtype, partial = self._reduce(n, self._source(instr.args[0]))
                return reduction.finish(b, how, partial, dtype)
            case "store":
                return self._store(instr)
        args = [self._source(a) for a in instr.args]
        dtypes = [self.kernel.body[a].dtype for a in instr.args]
        first = len(b.instrs)
        result = primitives.lower(b, instr.op, instr.dtype, args, dtypes, instr.attrs)
        if len(b.instrs) - first >= NOTED:
            b.instrs[first] = replace(b.instrs[first], note=instr.op)
        return result

    def _load(self, access: int, dtype: Dtype) -> Source:
        found = self.loaded.get(access)
        if found is not None:
            return found
        operand = self.kernel.operands[self.kernel.accesses[access].operand]
        form = self.plane.access_form(access)
        result: Source
        if form is None:
            name = f"{operand.name}_{access}"
            self.stage.scalars.append(ScalarLoad(access, name, dtype))
            result = Scalar(_representation(dtype), name)
        elif self._is_constant(access, form):
            result = self.rearranging.load(self.once_builder, self.once, access, dtype, form)
        else:
            result = self.rearranging.load(self.builder, self.stage, access, dtype, form)
        self.loaded[access] = result
        return result

    def _is_constant(self, access: int, form: Form) -> bool:
        """Whether all tiles of a core meet the same elements: a row, where each tile has whole rows."""
        layout = self.kernel.accesses[access].layout
        walked = {k for k, c in enumerate(layout) if c != Stride.ZERO}
        alone = walked == {self.plane.lane} and layout[self.plane.lane] == Stride.UNIT
        return self.whole and self.plane.reduces_lanes and form is Form.ROW and alone

    def _index(self, axis: int) -> Source:
        form = self.plane.form({axis})
        if form is None:
            return Scalar("i32", f"i{axis}")
        return self.builder.emit_as(form, "Index", "i32", (), (axis,))

    def _gather(self, instr: Instr) -> Source:
        begin = self._row_begin(instr.args[0])
        if begin is not None:
            return self.rearranging.gather_rows(self.builder, instr, begin)
        index = self._source(instr.args[0])
        if isinstance(index, Scalar):
            index = self.builder.duplicate(index, "i32", Form.FULL)
        return self.rearranging.gather(self.builder, instr, index)

    def _row_begin(self, n: int) -> Source | None:
        """Where rows begin, if an index steps by one from lane to lane: the same in each row but for that."""
        body, lane = self.kernel.body, self.plane.lane
        index = body[n]
        if index.op != "add":
            return None
        for one, other in (index.args, index.args[::-1]):
            if body[one].op == "index" and body[one].attrs == (lane,):
                begin = self._source(other)
                if isinstance(begin, Scalar) or begin.form is Form.COLUMN:
                    return begin
        return None

    def _store(self, instr: Instr) -> Source:
        access = instr.attrs[0]
        form = self.plane.access_form(access) or self.plane.single
        source = self._source(instr.args[0])
        if isinstance(source, Scalar):
            source = self._everywhere(source, instr.dtype, form)
        if source.form is not form:
            source = self.builder.emit_as(form, "Spread", source.dtype, (source,))
        return self.rearranging.store(self.builder, self.stage, access, instr.dtype, source)

    def _everywhere(self, s: Scalar, dtype: Dtype, form: Form) -> Value:
        """A scalar as a value of a form; a bool, an f16 of 0 or 1 as a scalar, becomes a mask."""
        value = self.builder.duplicate(s, s.dtype, form)
        return self.builder.compare("NE", value, 0.0) if dtype.kind == "b" else value

    # --- reductions --------------------------------------------------------------------------------

    def _reduce(self, n: int, source: Source) -> tuple[str, Value, Dtype, Value]:
        """How, the accumulator, the result's dtype and the value of this tile alone."""
        instr = self.kernel.body[n]
        how = instr.attrs[0]
        number = self._tested_for_nan(instr)
        if number is not None:
            scratch = self._scratch("Nan", number.dtype)
            srcs = (number, *scratch)
            partial = self.builder.emit_as(Form.COLUMN, "Reduce", "f16", srcs, ("Nan", self.fold))
            acc = partial if self.whole else self.builder.value("f16", Form.COLUMN, "acc")
            return how, acc, instr.dtype, partial
        value = reduction.prepare(self.builder, how, source, self.kernel.body[instr.args[0]].dtype)
        if value.form is not Form.FULL:
            value = self.builder.emit_as(Form.FULL, "Spread", value.dtype, (value,))
        form = Form.COLUMN if self.plane.reduces_lanes else Form.ROW
        scratch = () if form is Form.ROW else self._scratch(reduction.instruction(how), value.dtype)
        partial = self.builder.emit_as(
            form, "Reduce", value.dtype, (value, *scratch), (reduction.instruction(how), self.fold)
        )
        acc = partial if self.whole else self.builder.value(value.dtype, form, "acc")
        return how, acc, instr.dtype, partial

    def _tested_for_nan(self, instr: Instr) -> Value | None:
        """The value of which a reduction asks whether some lane is NaN, where that has a way of its own."""
        body = self.kernel.body
        test = body[instr.args[0]]
        if not self.plane.reduces_lanes or self.fold == folding.STRIPS or instr.attrs[0] != "or":
            return None
        if test.op != "ne" or test.args[0] != test.args[1]:
            return None
        number = self._source(test.args[0])
        full = isinstance(number, Value) and number.form is Form.FULL and number.dtype in ("f16", "f32")
        return number if full and isinstance(number, Value) else None

    def _scratch(self, op: str, dtype: str) -> tuple[Value, ...]:
        """What the folding of lanes needs beside its operand."""
        scratch = []
        if op == "Nan" or (self.fold != folding.STRIPS and folding.native(op, dtype)):
            return (self.builder.value("u8", Form.FOLDED, "folded"),)
        if self.fold == folding.ROWS:
            scratch.append(self.builder.value("u8", Form.HALF, "folded"))
        return (*scratch, self.builder.value("u8", Form.SCRATCH, "scratch"))

    def _combine(self, op: str, acc: Value) -> None:
        """The accumulators of all cores together, the same on each of them."""
        parts = self.builder.value(acc.dtype, Form.PARTS, "parts")
        self.builder.instrs.append(VectorInstr("Combine", acc, (acc, parts), (op,)))

    def _accumulate(self, reduced: tuple[str, Value, Dtype, Value]) -> None:
        how, acc, _, partial = reduced
        name = reduction.instruction(how)
        first = Scalar(acc.dtype, reduction.identity(name, acc.dtype))
        self.stage.before.append(VectorInstr("Duplicate", acc, (first,)))
        self.builder.instrs.append(VectorInstr("Accumulate", acc, (acc, partial), (name,)))


def _representation(dtype: Dtype) -> str:
    if dtype.kind == "b":
        return "f16"
    if dtype == INT64:
        return "i32"  # what is provably narrow
    found = primitives.representation(dtype)
    assert found is not None, dtype
    return found


def _levels(kernel: Kernel) -> list[int]:
    """For each instruction, how many reductions follow one another below it."""
    level: list[int] = []
    for instr in kernel.body:
        below = max((level[a] for a in instr.args), default=0)
        level.append(below + (instr.op == "reduce"))
    return level


def _protect(stage: Stage, count: int, later: set[Value]) -> int:
    """Give a copy to a folding that overwrites what is read again; the next free number of a value."""
    for name in ("before", "body", "after"):
        instrs: list[VectorInstr] = getattr(stage, name)
        result: list[VectorInstr] = []
        read: dict[Value, int] = {}
        views: dict[Value, Value] = {}
        for at, instr in enumerate(instrs):
            for value in instr.reads:
                read[value] = at
            if instr.op in ("View", "Window") and instr.dst is not None:
                views[instr.dst] = instr.reads[0]
        for dst, source in views.items():
            read[source] = max(read[source], read.get(dst, 0))
            read[dst] = max(read.get(dst, 0), read[source])
        for at, instr in enumerate(instrs):
            if instr.op == "Reduce" and instr.dst is not None and instr.dst.form is Form.ROW:
                source = instr.reads[0]
                if read[source] > at or source in later:
                    copy = Value(count, source.dtype, source.form)
                    count += 1
                    result.append(VectorInstr("Move", copy, (source,)))
                    instr = VectorInstr(instr.op, instr.dst, (copy, *instr.srcs[1:]), instr.attrs)
            result.append(instr)
        setattr(stage, name, result)
    return count


def vectorise(
    kernel: Kernel,
    plane: Plane,
    ways: tuple[Way, ...],
    whole: bool,
    fold: str,
    split: bool = False,
    direct: bool = True,
) -> Stages:
    """The stages of a kernel.

    Parameters
    ----------
    kernel : Kernel
        With its reductions written out (`reduction.expand`).
    plane : Plane
    ways : tuple of Way
        How tiles of each access are copied.
    whole : bool
        Whether the reduced axes fit into one tile.
    fold : str
        How lanes are folded; see `folding`.
    split : bool
        Whether the reduced axes are split over cores.
    direct : bool
        Whether instructions read rows and columns across the tile in place.
    """
    made = Vectoriser(kernel, plane, ways, whole, fold, split).run()
    for stage in made.stages:
        elsewhere = {
            v for other in made.stages if other is not stage for i in other.instrs() for v in i.reads
        }
        _without_unread(stage, elsewhere)
        made.values = broadcast(stage, made.values, direct)
        made.values = _protect(stage, made.values, elsewhere)  # knows then what reads a value laid out
    return made


def _without_unread(stage: Stage, elsewhere: set[Value]) -> None:
    """Leave out what nothing reads, such as a number that was laid out in another form."""
    needed = set(elsewhere)
    for name in ("after", "body", "before"):
        kept: list[VectorInstr] = []
        for instr in reversed(getattr(stage, name)):
            if (
                instr.dst is None
                or instr.op in ("Out", "ToSlots", "Accumulate", "Combine")
                or instr.dst in needed
            ):
                needed.update(instr.reads)
                kept.append(instr)
        setattr(stage, name, kept[::-1])
