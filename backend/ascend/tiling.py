"""auto_tiling of vector kernels: the tile, the buffering and the cores of the least predicted time.

A kernel goes over `outer` × `inner` planes of `rows` × `lanes` points, tile by tile. What is chosen:

* for a bucket of sizes, once, when the kernel is generated: the *capacity* of a tile in the unified buffer
  (points, rows, lanes) and how often its streams are buffered (`auto_tiling`);
* for the sizes of one launch, on the host: the tile within that capacity and the cores (`Tiling.partition`).

Both are the optimum of one model over all integers. Of all tiles that cut an axis into as many pieces
the smallest is best, so there are about 2·√extent to look at for an axis. Bounds on the time leave out
whole ranges of tiles and of numbers of cores, never the optimum.

The model is in `tiling_model`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...ops.errors import BackendError
from .chip import Chip
from .rounding import round_up
from .tile import Form
from .tiling_model import (
    Each,
    Integers,
    Over,
    Pieces,
    Rates,
    Space,
    Stream,
    TileMemory,
    Tiles,
    VectorProblem,
    Work,
    candidates,
    cost_of,
    units_of,
)

__all__ = [
    "Capacity",
    "Each",
    "Over",
    "Partition",
    "Pieces",
    "Rates",
    "Space",
    "Stream",
    "Tiling",
    "VectorProblem",
    "Work",
    "auto_tiling",
    "exact_time",
    "partition",
]

PAIRS = 16384  # of tiles and numbers of cores that are looked at together
GOOD_ENOUGH = 1.005  # times the best: no other capacity is tried
BUCKET = 0.2  # a bucket holds sizes within this part of its representative


@dataclass(frozen=True, slots=True)
class Partition:
    """How the points of one launch are handed out.

    A *unit* is what a core does alone: a tile, or all tiles of a reduced axis. Core `k` of `cores` does the
    units from ``k * units // cores`` to ``(k + 1) * units // cores``; units are numbered row-major over outer
    planes, row tiles and lane tiles, where those are parallel.

    Attributes
    ----------
    tile_rows, tile_lanes : int
        Of all tiles but the last along an axis.
    pitch : int
        Elements from row to row in UB: `tile_lanes` padded.
    row_tiles, lane_tiles : int
    units, tiles_per_unit, cores : int
    time : float
        Predicted, in µs.
    """

    tile_rows: int
    tile_lanes: int
    pitch: int
    row_tiles: int
    lane_tiles: int
    units: int
    tiles_per_unit: int
    cores: int
    time: float

    @property
    def tiles_per_core(self) -> int:
        """Of the core that has most."""
        return -(-self.units // self.cores) * self.tiles_per_unit


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a tile may hold: its buffers are made for so many points, rows and lanes."""

    points: int
    rows: int
    lanes: int


@dataclass(frozen=True)
class Tiling:
    """The tiling of a bucket of sizes.

    Attributes
    ----------
    problem : VectorProblem
    capacity : Capacity
    buffers : int
        Of each stream that is copied for every tile.
    ub_bytes, ub_capacity : int
        What the buffers take, and what there is.
    partition_of_problem : Partition
        At the sizes that stand for the bucket.
    split : str
        What is handed out to the cores.
    pipes : dict of str to float
        Predicted µs that each pipe of the busiest core works; ``memory`` is what its bytes take there.
    bound : str
        The pipe that the time comes from; ``launch`` where that is more than half of it.
    binding : str
        What keeps the tile from being larger.
    """

    problem: VectorProblem
    rates: Rates
    capacity: Capacity
    buffers: int
    ub_bytes: int
    ub_capacity: int
    partition_of_problem: Partition
    split: str
    pipes: dict[str, float]
    bound: str
    binding: str

    @property
    def time(self) -> float:
        """Predicted µs at the sizes that stand for the bucket."""
        return self.partition_of_problem.time

    def partition(self, rows: int, lanes: int, outer: int = 1, inner: int = 1) -> Partition:
        """The best tile within the capacity, and the cores, for the sizes of one launch."""
        sized = replace(self.problem, rows=rows, lanes=lanes, outer=outer, inner=inner)
        return _within(sized, self.rates, self.buffers, self.capacity)

    def __str__(self) -> str:
        p, at = self.problem, self.partition_of_problem
        planes = f" × {p.outer * p.inner} planes" if p.outer * p.inner > 1 else ""
        pipes = "   ".join(f"{name} {time:.1f}" for name, time in self.pipes.items())
        lines = [
            (
                "tile",
                f"{at.tile_rows} × {at.tile_lanes} of {p.rows} × {p.lanes}{planes}, {self.buffers} buffers",
            ),
            (
                "cores",
                f"{at.cores} of {self.rates.cores}, {at.tiles_per_core} "
                f"tile{'s' * (at.tiles_per_core != 1)} each, split over {self.split}",
            ),
            (
                "UB",
                f"{self.ub_bytes:,} of {self.ub_capacity:,} B; room for {self.capacity.points:,} points, "
                f"{self.capacity.rows:,} rows, {self.capacity.lanes:,} lanes",
            ),
            ("binds", self.binding),
            ("µs", f"{pipes}"),
            ("total", f"{at.time:.1f} µs, bound by {self.bound}"),
        ]
        return "\n".join(f"{name:<6} {text}" for name, text in lines)


def auto_tiling(problem: VectorProblem, chip: Chip, room: int | None = None) -> Tiling:
    """The tiling of the least predicted time that serves a whole bucket.

    Parameters
    ----------
    problem : VectorProblem
    chip : Chip
    room : int, optional
        Bytes of UB, where they are fewer than the chip has.

    Raises
    ------
    BackendError
        If the smallest tile does not fit UB; what it needs and what there is.
    """
    rates = Rates.of(chip)
    room = min(_room(problem, chip), room or chip.capacity.ub)
    best = _for_bucket(problem, rates, room)
    if best is None:
        smallest = TileMemory(problem, min(problem.buffering))
        lanes = _largest_lanes(problem) if problem.whole_lanes else problem.lane_granule
        need = smallest.bytes(lanes, 1, lanes)
        what = f"a row of {lanes} lanes" if problem.whole_lanes else f"a tile of {lanes} lanes"
        raise BackendError(
            f"[tile] expected a tile that fits the {room:,} bytes of UB, given {need:,} bytes for {what}; "
            "cut the kernel in two, or go over a row in parts"
        )
    buffers, capacity, found = best
    memory = TileMemory(problem, buffers)
    pipes, bound = _explained(problem, rates, buffers, found)
    return Tiling(
        problem,
        rates,
        capacity,
        buffers,
        memory.bytes(capacity.points, capacity.rows, capacity.lanes),
        room,
        found,
        _split(problem, found),
        pipes,
        bound,
        _binding(problem, memory, found, room, chip.vector_cores),
    )


def of_launch(
    problem: VectorProblem,
    chip: Chip,
    buffers: int,
    capacity: Capacity,
    ub_bytes: int,
    found: Partition,
) -> Tiling:
    """The tiling of a kernel as it is launched, its time predicted by the same model.

    Parameters
    ----------
    problem : VectorProblem
        At the sizes of the launch.
    chip : Chip
    buffers : int
    capacity : Capacity
    ub_bytes : int
        What the buffers take.
    found : Partition
        As launched; its time is not read.
    """
    rates = Rates.of(chip)
    room = _room(problem, chip)
    pipes, _ = _explained(problem, rates, buffers, found)
    copies, launch = (pipes["mte2"], pipes["mte3"]), pipes["launch"]
    busiest = max(pipes["vector"], *copies) if buffers > 1 else pipes["vector"] + sum(copies)
    found = replace(found, time=launch + max(busiest, pipes["scalar"], pipes["memory"]))
    pipes, bound = _explained(problem, rates, buffers, found)
    binding = _binding(problem, TileMemory(problem, buffers), found, room, chip.vector_cores)
    split = _split(problem, found)
    if split == "nothing" and found.cores > 1:
        split = "the tiles of a reduction"
    return Tiling(problem, rates, capacity, buffers, ub_bytes, room, found, split, pipes, bound, binding)


def partition(problem: VectorProblem, chip: Chip, buffers: int, capacity: Capacity) -> Partition:
    """The best tile within a capacity, and the cores, for one launch of the problem's sizes."""
    return _within(problem, Rates.of(chip), buffers, capacity)


def _within(problem: VectorProblem, rates: Rates, buffers: int, capacity: Capacity) -> Partition:
    found = _best(problem, rates, buffers, capacity)
    if found is None:
        raise BackendError(
            f"[tile] expected rows of at most {min(capacity.lanes, capacity.points)} lanes in this bucket, "
            f"given {problem.lanes}"
        )
    return found


def exact_time(problem: VectorProblem, chip: Chip) -> float:
    """The predicted µs of the best tiling for exactly these sizes, whatever else is in the bucket."""
    rates, room = Rates.of(chip), _room(problem, chip)
    time = math.inf
    for buffers in sorted(problem.buffering, reverse=True):
        found = _best(problem, rates, buffers, room, time)
        time = found.time if found is not None else time
    return time


def _room(problem: VectorProblem, chip: Chip) -> int:
    """The bytes of UB that a kernel may use."""
    capacity = chip.capacity
    return (capacity.ub_usable_with_select if problem.select else capacity.ub_usable) or capacity.ub


def _largest(extent: int, fixed: bool) -> int:
    return extent if fixed else math.floor(extent * (1 + BUCKET) + 1e-9)


def _largest_lanes(problem: VectorProblem) -> int:
    return round_up(_largest(problem.lanes, problem.fixed_lanes), problem.lane_granule)


def _for_bucket(problem: VectorProblem, rates: Rates, room: int) -> tuple[int, Capacity, Partition] | None:
    """Buffers and capacity, and the partition of the problem itself; None where nothing fits.

    Of several that the best tiles of shorter and longer rows suggest, those are taken that lose least against
    the best for each size.
    """
    choices = sorted(problem.buffering, reverse=True)
    memory = TileMemory(problem, 1)
    sizes = [problem]
    # Where a tile is so many points, whatever its rows and lanes, what is good for one size is good for all.
    if not problem.fixed_lanes and (problem.whole_lanes or memory.per_row or memory.per_lane):
        sizes += [_with_lanes(problem, -1), _with_lanes(problem, 1)]
    exact = {n: [_best(sized, rates, n, room) for sized in sizes] for n in choices}
    least = [min(p.time for p in found if p) for found in zip(*exact.values(), strict=True) if any(found)]
    best: tuple[float, int, Capacity, Partition] | None = None
    for buffers in sorted(choices, key=lambda n: min((p.time for p in exact[n][:1] if p), default=math.inf)):
        for capacity in _capacities(problem, buffers, room, exact[buffers]):
            worst, first = 0.0, None
            for sized, time in zip(sizes, least, strict=False):
                found = _best(sized, rates, buffers, capacity)
                first = first or found
                worst = max(worst, found.time / time) if found else math.inf
                if best is not None and worst >= best[0]:
                    break
            if first is not None and worst < math.inf and (best is None or worst < best[0]):
                best = (worst, buffers, capacity, first)
            if best is not None and best[0] <= GOOD_ENOUGH:
                return best[1:]
    return best[1:] if best is not None else None


def _with_lanes(problem: VectorProblem, end: int) -> VectorProblem:
    """The problem at one end of its bucket."""
    lanes = problem.lanes * (1 + end * BUCKET)
    return replace(problem, lanes=math.floor(lanes + 1e-9) if end > 0 else max(1, math.ceil(lanes - 1e-9)))


def _capacities(
    problem: VectorProblem, buffers: int, room: int, tiles: Sequence[Partition | None]
) -> list[Capacity]:
    """Capacities worth trying: the points of a tile are all that UB has beside its rows and lanes.

    Rows and lanes that take memory of their own are no more than the best tiles have, or a bucket more.
    """
    memory = TileMemory(problem, buffers)
    granule = problem.lane_granule
    most_rows, most_lanes = _largest(problem.rows, problem.fixed_rows), _largest_lanes(problem)
    pairs: dict[tuple[int, int], None] = {}
    if problem.whole_lanes:
        for lanes in (_with_lanes(problem, -1).lanes, problem.lanes, most_lanes):
            pitch = np.array([round_up(most_lanes if problem.fixed_lanes else lanes, granule)])
            rows = round_up(int(memory.rows(room, pitch, most_lanes)[0]), problem.row_granule)
            pairs[max(1, min(most_rows, rows)), most_lanes] = None
        pairs[1, most_lanes] = None
    elif not memory.per_row and not memory.per_lane:
        points = memory.points(room, 0, 0)
        pairs[min(most_rows, max(1, points // granule)), min(most_lanes, points)] = None
    else:
        spread = 1 / (1 - BUCKET)
        for tile in tiles:
            if tile is not None:
                more_rows = min(most_rows, round_up(math.ceil(tile.tile_rows * spread), problem.row_granule))
                more_lanes = min(most_lanes, round_up(math.ceil(tile.pitch * spread), granule))
                pairs[more_rows, more_lanes] = None
                pairs[more_rows, tile.pitch] = None
                pairs[min(most_rows, round_up(tile.tile_rows, problem.row_granule)), more_lanes] = None
    result = []
    for rows, lanes in pairs:
        points = memory.points(room, rows, lanes)
        if points >= (lanes if problem.whole_lanes else granule):
            result.append(Capacity(min(points, round_up(rows * lanes, problem.row_granule)), rows, lanes))
    return result


# --- search ---------------------------------------------------------------------------------------------


def _cuts(extent: int, granule: int, limit: int) -> Integers:
    """The tiles along an axis that are worth looking at: for each number of pieces the smallest."""
    largest = min(limit, round_up(extent, granule))
    if largest < granule:
        return np.zeros(0, np.int64)
    sizes = np.arange(granule, largest + 1, granule, dtype=np.int64)
    pieces = -(-extent // sizes)
    smallest = (-(-extent // pieces) + granule - 1) // granule * granule
    worth: Integers = sizes[smallest == sizes]
    return worth


def _best(
    problem: VectorProblem, rates: Rates, buffers: int, limit: Capacity | int, known: float = math.inf
) -> Partition | None:
    """The tile and the cores of the least time, within a capacity or bytes of UB.

    None where nothing fits, or nothing takes less than the `known` µs.
    """
    rows, pitch = _feasible(problem, buffers, limit)
    if not rows.size:
        return None
    tiles = candidates(problem, rates, buffers, rows, pitch)
    most = min(rates.cores, int(np.max(tiles.units)))
    best = (known * rates.clock_mhz, -1, 0)
    # Half of the cores and all of them first: what cannot beat that is not looked at.
    for cores in (most, -(-most // 2)):
        best = _better(best, tiles, np.arange(rows.size), rates, np.array([cores]))
    step = max(1, min(8, PAIRS // rows.size))
    for high in range(most, 0, -step):
        low = max(1, high - step + 1)
        worth = (tiles.least(rates, low, high) < best[0]).nonzero()[0]
        if worth.size:
            best = _better(best, tiles, worth, rates, np.arange(low, high + 1))
    time, tile, cores = best
    if tile < 0:
        return None
    return _partition(problem, rates, time, int(rows[tile]), int(pitch[tile]), cores)


def _better(
    best: tuple[float, int, int], tiles: Tiles, some: Integers, rates: Rates, cores: Integers
) -> tuple[float, int, int]:
    """Time, tile and cores: those known, or the best of some tiles on some numbers of cores."""
    taken = tiles.take(some) if some.size < tiles.rows.size else tiles
    times = taken.time(rates, cores[:, None])
    times = np.where(taken.units < cores[:, None], math.inf, times)
    at = int(times.argmin())
    if times.flat[at] < best[0]:
        return float(times.flat[at]), int(some[at % some.size]), int(cores[at // some.size])
    return best


def _partition(
    problem: VectorProblem, rates: Rates, time: float, rows: int, pitch: int, cores: int
) -> Partition:
    row_tiles, lane_tiles = -(-problem.rows // rows), -(-problem.lanes // pitch)
    units, per_unit = units_of(problem, row_tiles, lane_tiles)
    return Partition(
        rows, min(pitch, problem.lanes), pitch, row_tiles, lane_tiles, units, per_unit, min(cores, units),
        time / rates.clock_mhz,
    )  # fmt: skip


def _feasible(problem: VectorProblem, buffers: int, limit: Capacity | int) -> tuple[Integers, Integers]:
    """Rows and pitch of every tile that is worth looking at and fits."""
    granule = problem.lane_granule
    memory = TileMemory(problem, buffers)
    if isinstance(limit, Capacity):
        most_rows, most_lanes = limit.rows, limit.lanes
    else:
        most_rows = int(memory.rows(limit, np.array([granule]))[0])
        most_lanes = memory.points(limit, 1, granule)
    if problem.whole_lanes:
        whole = round_up(problem.lanes, granule)
        lanes = np.array([whole] if whole <= most_lanes else [], np.int64)
    else:
        lanes = _cuts(problem.lanes, granule, most_lanes)
    rows = _cuts(problem.rows, 1, most_rows)
    if not rows.size or not lanes.size:
        return rows[:0], lanes[:0]
    room = limit.points // lanes if isinstance(limit, Capacity) else memory.rows(limit, lanes)
    count = np.searchsorted(rows, room, side="right")
    pitch = np.repeat(lanes, count)
    index = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    return rows[index], pitch


# --- explanation ----------------------------------------------------------------------------------------


def _explained(
    problem: VectorProblem, rates: Rates, buffers: int, partition: Partition
) -> tuple[dict[str, float], str]:
    """µs of each pipe of the busiest core, and which one the time comes from."""
    sizes = (float(n) for n in (partition.tile_rows, partition.tile_lanes, partition.pitch))
    rounds = -(-partition.units // partition.cores)
    times = {Each.TILE: partition.tiles_per_core, Each.UNIT: rounds, Each.CORE: 1}
    rows, lanes, pitch = sizes
    costs = [(cost_of(problem, rates, each, rows, lanes, pitch), count) for each, count in times.items()]

    def us(name: str) -> float:
        return sum(float(getattr(cost, name)) * count for cost, count in costs) / rates.clock_mhz

    pipes = {"mte2": us("read"), "vector": us("vector"), "mte3": us("write"), "scalar": us("scalar")}
    pipes["memory"] = us("bytes") / float(rates.share(partition.cores)) + us("gaps")
    pipes["launch"] = rates.launch(partition.cores) / rates.clock_mhz
    if pipes["launch"] > partition.time / 2:
        return pipes, "launch"
    return pipes, max((name for name in pipes if name != "launch"), key=lambda name: pipes[name])


def _split(problem: VectorProblem, partition: Partition) -> str:
    """What the units are made of."""
    parts = []
    if problem.outer > 1:
        parts.append("planes")
    if partition.row_tiles > 1 and problem.reduces is not Form.COLUMN:
        parts.append("rows")
    if partition.lane_tiles > 1 and problem.reduces is not Form.ROW:
        parts.append("lanes")
    return " × ".join(parts) or "nothing"


def _binding(problem: VectorProblem, memory: TileMemory, partition: Partition, room: int, cores: int) -> str:
    """What keeps the tile from being larger."""
    if partition.row_tiles == partition.lane_tiles == 1:
        return "the plane: a tile holds all of it"
    if partition.row_tiles > 1:
        rows = -(-problem.rows // (partition.row_tiles - 1))
        pitch = partition.pitch
    else:
        rows = partition.tile_rows
        pitch = round_up(-(-problem.lanes // (partition.lane_tiles - 1)), problem.lane_granule)
    need = memory.bytes(rows * pitch, rows, pitch)
    if need > room:
        return f"UB: {rows} × {pitch}, one tile fewer, would take {need:,} of {room:,} B"
    finest = problem.outer
    finest *= 1 if problem.reduces is Form.COLUMN else problem.rows
    finest *= 1 if problem.reduces is Form.ROW else -(-problem.lanes // problem.lane_granule)
    if finest <= partition.cores < cores:
        return f"the cores: there is work for only {finest} of them"
    if partition.cores < cores:
        return "the launch: more cores would cost more than they save"
    return "balance: larger tiles would leave cores without work"
