"""Vector kernels: from KernelIR to Ascend C.

tune chooses the plane, the strategy and the tile for a bucket of sizes; generate writes the source for that
choice; what it gives binds the sizes of a launch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from math import ceil, prod
from typing import NamedTuple

from ...ops.errors import BackendError
from ..ir import Binding, Kernel, Stride, binding_with_axis, with_axis
from . import folding, reduction
from .alloc import place
from .buffers import Buffers, Size, assign, fullest
from .chip import Chip
from .generated import Generated, Refused
from .launch import written
from .partition import WIDE_LANES
from .plane import Plane, choose_plane
from .rearrange import streams_of, work_of
from .rounding import round_up
from .stage import MOVES, Stages
from .tile import BYTES, MASK, MEMORY, Form, VectorInstr
from .tiling import (
    Capacity,
    Each,
    Over,
    Partition,
    Space,
    Stream,
    Tiling,
    VectorProblem,
    Work,
    auto_tiling,
    of_launch,
)
from .tiling_model import REPEAT, Rates
from .vectorise import vectorise
from .ways import THRIFT, Way, choose_ways


class Options(NamedTuple):
    """Optimisations, each of which can be turned off to see what it is worth.

    Attributes
    ----------
    double_buffer : bool
        Two buffers for what is copied, so that copies and instructions overlap.
    events : bool
        Events between pipes; otherwise every pipe waits for every other between copies and instructions.
    reuse : bool
        Buffers share memory where they are not alive together.
    direct : bool
        Rows and columns are read across the tile in place.
    cache_hint : bool
        What is read once goes past the L2.
    cores : bool
        The work is split over cores.
    prefetch : bool
        Copies of a tile are issued before the instructions of the one before it, where those are many.
    """

    double_buffer: bool = True
    events: bool = True
    reuse: bool = True
    direct: bool = True
    cache_hint: bool = True
    cores: bool = True
    prefetch: bool = True


ALL = Options()
# What a kernel is that was asked to be written without optimisation: its work is still split over cores.
PLAIN = Options(double_buffer=False, reuse=False, cache_hint=False, prefetch=False)


class VectorTuning(NamedTuple):
    """How a kernel is cut into tiles. Plain data: part of the kernel's key.

    Attributes
    ----------
    lane, row : int
        The axes of a tile; row is -1 where a tile is one row.
    whole : bool
        Whether the reduced axes fit into one tile.
    fold : str
        How lanes are folded; see `folding`.
    split : bool
        Whether the reduced axes are split over cores, which then combine their parts.
    points, rows, lanes : int
        What a tile may hold.
    copies : int
        Buffers of each operand.
    bypass : tuple of int
        Operands that are read once and go past the L2.
    grain : int
        One more core is worth it for every so many points squared.
    ways : tuple of Way
        How tiles of each access are copied.
    """

    lane: int
    row: int
    whole: bool
    fold: str
    split: bool
    points: int
    rows: int
    lanes: int
    copies: int
    bypass: tuple[int, ...]
    grain: int
    ways: tuple[Way, ...]
    options: Options = ALL


class Variant(NamedTuple):
    """A way to tune a kernel other than the one that the model predicts to be the fastest.

    Attributes
    ----------
    strategy : int
        Of the ways to copy and to go over reduced axes that fit, the first of which is the model's: which.
    room : float
        The part of UB that tiles are made for.
    copies : int
        Buffers of each operand; 0 for the model's.
    grain : float
        Times the model's.
    bypass : bool
        Whether what is read once goes past the L2.
    """

    strategy: int = 0
    room: float = 1.0
    copies: int = 0
    grain: float = 1.0
    bypass: bool = True


MODEL = Variant()

# A bucket's sizes may be larger than its representative's by this factor.
BUCKET = 1.2
# A core has work of its own where it has so many lanes; less than so many points are not worth meeting for.
SPLIT_LANES = 1024
SPLIT_POINTS = 1 << 18
# Where all rows lie in a tile, it has so many lanes at least.
WHOLE_LANES = 128
# Results that a core contributes to at a time.
MOST_PARTS = 2048


def _prepared(kernel: Kernel) -> Kernel:
    return reduction.expand(with_axis(kernel))


@lru_cache(256)
def _stages(
    kernel: Kernel,
    lane: int,
    row: int,
    ways: tuple[Way, ...],
    whole: bool,
    fold: str,
    split: bool,
    options: Options,
) -> tuple[Stages, Buffers]:
    stages = vectorise(kernel, Plane(kernel, lane, row), ways, whole, fold, split, options.direct)
    return stages, assign(stages, options.reuse)


def tune(
    kernel: Kernel, binding: Binding, chip: Chip, options: Options = ALL, variant: Variant = MODEL
) -> VectorTuning:
    """The tiling for sizes that stand for their bucket: the model's, or a variant of it.

    Raises
    ------
    Refused
        Where no tile fits, or an access is of a kind that tiles are not made of.
    """
    for operand in kernel.operands:
        if operand.dtype.name not in MEMORY:
            raise Refused(f"its {operand.name} holds {operand.dtype.name}, which is not copied into UB")
    prepared = _prepared(kernel)
    bound = binding_with_axis(kernel, binding)
    plane = choose_plane(prepared, bound)
    extent = bound.extents
    fold = folding.STRIPS
    if plane.reduces_lanes and extent[plane.lane] >= folding.LONG:
        fold = folding.BLOCKS if extent[plane.lane] < folding.LONGEST else folding.ROWS
    split = bool(prepared.reduced) and options.cores and _worth_splitting(bound, plane, chip)
    tries = [
        (whole, False) for whole in ((True, False) if prepared.reduced and not plane.inner else (False,))
    ]
    if split:  # but cores share no reduction where their parts take too much of UB
        tries = [(False, True), *tries]
    error: BackendError | None = None
    skipped = 0
    for ways in dict.fromkeys(choose_ways(prepared, bound, plane, thrift) for thrift in THRIFT):
        for whole, shared in tries:
            try:
                found = _tuned(prepared, bound, plane, ways, whole, fold, shared, chip, options, variant)
            except BackendError as failed:
                error = error or failed
                continue
            if skipped == variant.strategy:
                return found
            skipped += 1
    raise Refused(error.message if error is not None else "there are no more ways to cut it")


def _tuned(
    kernel: Kernel,
    binding: Binding,
    plane: Plane,
    ways: tuple[Way, ...],
    whole: bool,
    fold: str,
    split: bool,
    chip: Chip,
    options: Options,
    variant: Variant,
) -> VectorTuning:
    whole = whole or not kernel.reduced
    stages, buffers = _stages(kernel, plane.lane, plane.row, ways, whole, fold, split, options)
    problem = _problem_of(stages, buffers, binding, options)
    if variant.copies:
        problem = replace(problem, buffering=(variant.copies,))
    found = auto_tiling(problem, chip, int(variant.room * _room(buffers, chip)))
    capacity = found.capacity
    points, rows, lanes = capacity.points, capacity.rows, capacity.lanes
    least = lanes if problem.whole_lanes else problem.lane_granule
    if whole and plane.reduces_rows:
        rows = ceil(binding.extents[plane.row] * BUCKET)
        # Narrower tiles are copied in pieces so small that going over the rows twice is faster.
        least = rows * min(WHOLE_LANES, round_up(binding.extents[plane.lane], 16))
        if points < least:
            raise BackendError(f"[tile] expected whole columns in a tile, given {rows} rows")
    if split and not plane.reduces_lanes:
        lanes = max(lanes, min(WIDE_LANES, ceil(binding.extents[plane.lane] * BUCKET)))
    if split:  # partial results of a few cores fit beside each other
        rows, lanes = (
            (min(rows, MOST_PARTS), lanes) if plane.reduces_lanes else (rows, min(lanes, MOST_PARTS))
        )
    while True:
        room = _room(buffers, chip)
        try:
            place(buffers.requests((points, rows, lanes), found.buffers, options.reuse), room)
            break
        except BackendError:
            points = int(points * 0.95) // problem.lane_granule * problem.lane_granule
            if not (whole and plane.reduces_rows):
                rows = max(1, min(rows, points // max(1, min(lanes, problem.lane_granule))))
            if not problem.whole_lanes:
                lanes = min(lanes, points)
            if points < least:
                raise
    # What several passes read is found in the L2 by the second.
    once = sum(bool(s.loops and s.loads) for s in stages.stages) <= 1
    return VectorTuning(
        plane.lane,
        plane.row,
        whole,
        fold,
        split,
        points,
        rows,
        lanes,
        found.buffers,
        _bypass(kernel, binding, ways, chip.capacity.l2)
        if options.cache_hint and once and variant.bypass
        else (),
        max(1, round(_grain(problem, chip) * variant.grain)),
        ways,
        options,
    )


def _room(buffers: Buffers, chip: Chip) -> int:
    room = chip.capacity.ub_usable_with_select if _uses_select(buffers) else chip.capacity.ub_usable
    assert room is not None
    return room


def _uses_select(buffers: Buffers) -> bool:
    """Whether `Select`, whose scratch takes the top of UB, is among the instructions."""
    return any(v.dtype == MASK for v in buffers.of)


def _problem_of(stages: Stages, buffers: Buffers, binding: Binding, options: Options) -> VectorProblem:
    """The kernel as auto_tiling sees it."""
    kernel, plane = stages.kernel, stages.plane
    extent = binding.extents
    rows = extent[plane.row] if plane.row >= 0 else 1
    lanes = extent[plane.lane]
    streams: list[Stream] = []
    work: Counter[tuple[int, Over]] = Counter()
    moves: list[Work] = []
    for stage in stages.stages:
        for transfer in (*stage.loads, *stage.stores):
            each = Each.CORE if stage.once else Each.TILE if stage.loops or stages.whole else Each.UNIT
            streams += streams_of(transfer, plane, transfer in stage.stores, each)
        for instr in stage.instrs():
            if instr.op in MOVES:
                moves += work_of(instr)
            elif instr.dst is not None and instr.op not in ("View", "Out"):
                width = max([BYTES.get(v.dtype, 1) for v in (instr.dst, *instr.reads)])
                over = _over(instr, rows, lanes)
                work[width, over] += 1
    temporaries = fullest(buffers, (8192, 8, 1024) if rows > 1 else (8192, 1, 8192))
    copied = [t.value.dtype for stage in stages.stages for t in (*stage.loads, *stage.stores)]
    narrowest = min((BYTES[dtype] for dtype in copied), default=4)
    return VectorProblem(
        rows,
        lanes,
        prod(extent[k] for k in plane.outer),
        prod(extent[k] for k in plane.inner),
        tuple(streams),
        (*(Work(count, width, over) for (width, over), count in work.items()), *moves),
        _space(temporaries),
        (Form.ROW if plane.reduces_lanes else Form.COLUMN) if kernel.reduced else None,
        whole_lanes=stages.whole and plane.reduces_lanes,
        lane_granule=max(stages.pitch_granule, 128 if rows == 1 else 16, 32 // narrowest),
        row_granule=128,
        buffering=(1, 2) if options.double_buffer else (1,),
        select=_uses_select(buffers),
    )


def _over(instr: VectorInstr, rows: int, lanes: int) -> Over:
    """What the repeats of an instruction go over."""
    assert instr.dst is not None
    if instr.op == "Reduce" and instr.attrs[1] != folding.STRIPS:
        return Over.POINTS  # all rows together, and little that is left of them
    if instr.op in ("Reduce", "Spread") or (instr.attrs and instr.attrs[0] in ("row", "column")):
        if rows == 1:
            return Over.POINTS
        return Over.CHUNKS if lanes < folding.LONGEST else Over.EACH_ROW
    return {Form.FULL: Over.POINTS, Form.ROW: Over.LANES}.get(instr.dst.form, Over.ROWS)


def _space(temporaries: Size) -> Space:
    # Buffers are whole granules; a tile may end anywhere.
    return Space(temporaries.point, temporaries.row, temporaries.lane, temporaries.fixed + 1024)


def _grain(problem: VectorProblem, chip: Chip) -> int:
    """With c cores a launch takes a·c + w/c: the best c is the root of w/a, points over this."""
    rates = Rates.of(chip)
    points = problem.rows * problem.lanes * problem.outer * problem.inner
    moved = sum(s.bytes for s in problem.streams if s.form is Form.FULL) or 4
    work = sum(w.count * w.cycles * w.bytes for w in problem.work if w.over is Over.POINTS) / REPEAT
    cycles = points * max(moved / rates.read, work) + 1
    return max(1, round(points * rates.launch_us_per_core * rates.clock_mhz / cycles))


def _bypass(kernel: Kernel, binding: Binding, ways: tuple[Way, ...], room: int) -> tuple[int, ...]:
    """Inputs of which each element is read once, in whole lines, where operands do not fit `room`, the L2."""
    total = 0
    points: dict[int, list[tuple[int, str]]] = {}
    for n, access in enumerate(kernel.accesses):
        size = prod(e for e, s in zip(binding.extents, binding.strides[n], strict=True) if s)
        points.setdefault(access.operand, []).append((size, access.layout))
        total += size * kernel.operands[access.operand].dtype.itemsize
    if total <= room:
        return ()
    # Other tiles take the rest of a line.
    shared = {kernel.accesses[i.attrs[0]].operand for i in kernel.body if i.op == "gather"}
    shared |= {a.operand for a, w in zip(kernel.accesses, ways, strict=True) if w.kind in ("turned", "slots")}
    return tuple(
        operand
        for operand, accesses in points.items()
        if len(accesses) == 1
        and Stride.ZERO not in accesses[0][1]
        and operand not in shared
        and not kernel.operands[operand].output
    )


def _worth_splitting(binding: Binding, plane: Plane, chip: Chip) -> bool:
    """Whether there are too few results for the cores to share, and much to reduce for each."""
    kernel, extent = plane.kernel, binding.extents
    reduced = prod(extent[kernel.parallel :])
    units = prod(extent[: kernel.parallel])
    if not plane.reduces_lanes:
        units = -(-units // SPLIT_LANES)
    return units * 2 <= chip.vector_cores and reduced * prod(extent[: kernel.parallel]) >= SPLIT_POINTS


def generate(kernel: Kernel, tuning: VectorTuning, chip: Chip) -> Generated:
    """The source of a kernel as it was tuned.

    Raises
    ------
    Refused
        Where an access or an instruction cannot be written.
    """
    prepared = _prepared(kernel)
    t = tuning
    stages, buffers = _stages(prepared, t.lane, t.row, t.ways, t.whole, t.fold, t.split, t.options)
    placement = place(
        buffers.requests((tuning.points, tuning.rows, tuning.lanes), tuning.copies, tuning.options.reuse),
        _room(buffers, chip),
    )
    return written(kernel, prepared, tuning, chip, stages, buffers, placement)


def variants(
    kernel: Kernel, binding: Binding, chip: Chip, options: Options = ALL
) -> list[tuple[Variant, VectorTuning, float]]:
    """The tunings that are worth measuring, each with its predicted time in µs, the model's choice first.

    The rest in the order of their times.

    Raises
    ------
    Refused
        As `tune` does.
    """
    tunings = {tune(kernel, binding, chip, options): MODEL}
    for variant in _around(options):
        try:
            tunings.setdefault(tune(kernel, binding, chip, options, variant), variant)
        except Refused:
            continue
    found = []
    for tuning, variant in tunings.items():
        try:
            made = generate(kernel, tuning, chip)
            found.append((variant, tuning, predicted(kernel, binding, tuning, made, chip).time))
        except (Refused, BackendError):
            assert variant != MODEL
    return [found[0], *sorted(found[1:], key=lambda f: f[2])]


def _around(options: Options) -> Iterator[Variant]:
    """One or two choices other than the model's."""
    yield from (MODEL._replace(strategy=n) for n in (1, 2, 3))
    for room in (1.0, 0.5, 0.25):
        for copies in (0, 1) if options.double_buffer else (0,):
            for grain in (1.0, 0.25, 4.0):
                yield MODEL._replace(room=room, copies=copies, grain=grain)
    yield MODEL._replace(bypass=False)


def predicted(kernel: Kernel, binding: Binding, tuning: VectorTuning, made: Generated, chip: Chip) -> Tiling:
    """What a launch at these sizes is predicted to take: time on each pipe, what binds."""
    t = tuning
    stages, buffers = _stages(_prepared(kernel), t.lane, t.row, t.ways, t.whole, t.fold, t.split, t.options)
    problem = _problem_of(stages, buffers, binding_with_axis(kernel, binding), t.options)
    cut = made.bind(binding).partition
    found = Partition(
        cut["tile_rows"],
        cut["tile_lanes"],
        cut["pitch"],
        cut["row_tiles"],
        cut["lane_tiles"],
        cut["units"] * cut["shares"],
        -(-cut["parts"] // cut["shares"]),
        cut["blocks"],
        0.0,
    )
    capacity = Capacity(t.points, t.rows, t.lanes)
    return of_launch(problem, chip, t.copies, capacity, made.tiling.bytes_used, found)
