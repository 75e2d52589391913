"""What a tiling of a vector kernel takes: memory in UB and time, as a model over all tiles at once.

The model, in cycles of a core: a copy takes its instruction, its pieces and its bytes, at the rate of a core
or at this core's share of the memory's, whichever is slower; a vector instruction its start and its repeats;
a tile costs the scalar unit a fixed part and one for each instruction. With two buffers the pipes overlap
and the slowest one counts; with one the copies and the vector unit wait for each other, and the memory
serves other cores meanwhile, as far as they are ready. A launch takes longer the more cores it starts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

from . import chip as chip_data
from .chip import Chip
from .rounding import round_up
from .tile import Form

BLOCK = 32
REPEAT = 256
MOST_REPEATS = 255
WAITING = 0.5  # of the time that a core with one buffer leaves the memory, so much no other core takes
COPY_GAP = 27.0  # cycles, published for the 910B2: why copies should be of 16 KiB and more

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


class Each(Enum):
    """How often something is done."""

    TILE = "tile"
    UNIT = "unit"  # once for what one core does without help: several tiles where an axis is reduced
    CORE = "core"


class Pieces(Enum):
    """What lies side by side in GM, and is one piece of a copy."""

    PLANE = "plane"  # rows follow one another: whole rows without padding are one piece
    ROW = "row"
    LANE = "lane"  # the elements of a lane, which are transposed in UB
    POINT = "point"
    NONE = "none"  # takes its room in UB, and is not copied


class Over(Enum):
    """What a vector instruction goes over, and how many it takes for a tile."""

    POINTS = "points"  # one, over the whole tile
    LANES = "lanes"  # one, over one element for each lane
    ROWS = "rows"  # one, over one element for each row
    CHUNKS = "chunks"  # masked, over 256 bytes of all rows: one for each such column (and for each 255 rows)
    EACH_ROW = "each row"  # one for each row


@dataclass(frozen=True, slots=True)
class Stream:
    """An operand on its way between GM and UB.

    Attributes
    ----------
    bytes : int
        Of an element.
    form : Form
        Whether it spans the tile, has one element for each lane (ROW) or one for each row (COLUMN).
    write : bool
    pieces : Pieces
    each : Each
        How often it is copied. What is copied for each tile is buffered `Tiling.buffers` times.
    """

    bytes: int
    form: Form = Form.FULL
    write: bool = False
    pieces: Pieces = Pieces.PLANE
    each: Each = Each.TILE


@dataclass(frozen=True, slots=True)
class Work:
    """Vector instructions of a tile that are alike: `count` of them on elements of `bytes` bytes.

    `cycles` are those of a repeat, `start` those before the first one. An instruction on elements of several
    widths counts by the widest.
    """

    count: int
    bytes: int
    over: Over = Over.POINTS
    each: Each = Each.TILE
    cycles: float = 1.0
    start: float = 22.0

    @classmethod
    def of(
        cls, chip: Chip, op: str, bytes: int, over: Over = Over.POINTS, each: Each = Each.TILE, count: int = 1
    ) -> Work:
        """An instruction of a chip, by its Ascend C name."""
        known = chip.timing["vector"] if chip.timing else {}
        start, *cycles = known.get(op) or known.get("default") or (22.0, 1.0, 1.0, 1.0)
        return cls(count, bytes, over, each, float(cycles[{4: 1, 8: 2}.get(bytes, 0)]), float(start))


@dataclass(frozen=True, slots=True)
class Space:
    """Bytes of UB that the computation takes beside the streams' buffers, at one point of the program."""

    per_point: float = 0.0
    per_row: float = 0.0
    per_lane: float = 0.0
    fixed: int = 0


@dataclass(frozen=True, slots=True)
class VectorProblem:
    """What is to be tiled, at the sizes that stand for its bucket.

    Attributes
    ----------
    rows, lanes : int
        Extents of the plane that is cut into tiles; lanes lie side by side in UB.
    outer, inner : int
        How many planes: over the other parallel axes, over the other reduced ones.
    streams : tuple of Stream
    work : tuple of Work
    space : Space, or a tuple of them
        Of several the largest counts: what is alive at different points of the program.
    reduces : Form or None
        Which of the plane's axes is reduced: ROW for one result a row (lanes are reduced), COLUMN for one a
        lane. A core goes over all of it.
    whole_lanes : bool
        Whether a tile must hold whole rows of the plane.
    lane_granule : int
        Lanes are padded to a multiple of this in UB: 32 bytes of the narrowest element.
    row_granule : int
        The rows, and the points and lanes, that a buffer is made for are a multiple of this.
    fixed_rows, fixed_lanes : bool
        Whether that extent is the same for all sizes of the bucket.
    buffering : tuple of int
        The numbers of buffers of a stream to choose from.
    select : bool
        Whether `Select` is used: its scratch takes the top of UB.
    """

    rows: int
    lanes: int
    outer: int = 1
    inner: int = 1
    streams: tuple[Stream, ...] = ()
    work: tuple[Work, ...] = ()
    space: Space | tuple[Space, ...] = Space()
    reduces: Form | None = None
    whole_lanes: bool = False
    lane_granule: int = 16
    row_granule: int = 16
    fixed_rows: bool = False
    fixed_lanes: bool = False
    buffering: tuple[int, ...] = (1, 2)
    select: bool = False

    def __post_init__(self) -> None:
        assert min(self.rows, self.lanes, self.outer, self.inner) >= 1, self
        assert self.buffering and self.lane_granule >= 1 and self.row_granule >= 1


@dataclass(frozen=True, slots=True)
class Rates:
    """The model's figures of a chip, in cycles of a core and bytes per cycle.

    `memory` is what all cores read and write together. What one of `n` cores gets of it is a part that each
    has and one that they share: published measurements (910B2: 9.9 + 15.9/n bytes per cycle) say that few
    cores do not draw what all do. The defaults are those of the 910B1.
    """

    cores: int = 48
    clock_mhz: float = 1850.0
    launch_us: float = 2.01
    launch_us_per_core: float = 0.14
    memory: float = 849.0
    read: float = 32.0  # of one core
    write: float = 32.0
    gap: float = COPY_GAP  # between two copies, as the memory sees it
    latency: float = 179.0  # until the first copy arrives
    read_start: float = 12.0
    read_piece: float = 4.0
    write_start: float = 12.0
    write_piece: float = 4.0
    line: int = 512  # bytes in GM that are moved whole
    scalar_tile: float = 24.0
    scalar_vector: float = 5.0
    scalar_copy: float = 5.0
    handover: float = 24.0  # from pipe to pipe, by an event

    @classmethod
    def of(cls, chip: Chip) -> Rates:
        """The figures of a chip; what is not known of it is taken from the 910B1."""
        timing: dict[str, Any] = {**(chip_data.load("910B1").timing or {}), **(chip.timing or {})}
        copies = timing["copy"]
        into, out, scalar = copies["GmToUb"], copies["UbToGm"], timing["scalar"]
        return cls(
            cores=chip.vector_cores,
            clock_mhz=chip.clock_mhz,
            launch_us=timing["launch_us"] + timing["start_cycles"] / chip.clock_mhz,
            launch_us_per_core=timing["launch_core_us"],
            memory=timing["hbm_bandwidth"] / chip.clock,
            read=chip.rates.ddr_read,
            write=chip.rates.ddr_write or chip.rates.ddr_read,
            gap=COPY_GAP,
            latency=into["latency"] + out["latency"],
            read_start=into["head"],
            read_piece=into["piece"],
            write_start=out["head"],
            write_piece=out["piece"],
            line=timing["line"],
            scalar_tile=16 * scalar["instruction"] + 8 * scalar["flag"],
            scalar_vector=scalar["vector"],
            scalar_copy=scalar["copy"],
            handover=out["latency"] + scalar["flag"],
        )

    def launch(self, cores: Any) -> Any:
        """Cycles until the first copy has arrived on the last of so many cores."""
        return (self.launch_us + self.launch_us_per_core * cores) * self.clock_mhz + self.latency

    def share(self, cores: Any) -> Any:
        """Bytes per cycle of the memory for each of so many cores."""
        part = min(self.memory / self.cores, self.read + self.write)
        return part + (self.read + self.write - part) / cores


# --- memory ---------------------------------------------------------------------------------------------


class TileMemory:
    """Bytes of UB for a tile: padded points, rows and lanes, each times a factor; the largest such sum."""

    def __init__(self, problem: VectorProblem, buffers: int) -> None:
        spaces = problem.space if isinstance(problem.space, tuple) else (problem.space,)
        stream = {Form.FULL: 0.0, Form.ROW: 0.0, Form.COLUMN: 0.0}
        for s in problem.streams:
            stream[s.form] += s.bytes * (buffers if s.each is Each.TILE else 1)
        every = {
            (
                space.per_point + stream[Form.FULL],
                space.per_row + stream[Form.COLUMN],
                space.per_lane + stream[Form.ROW],
                space.fixed,
            )
            for space in spaces or (Space(),)
        }
        # What is nowhere the largest is left out.
        self.sums = [
            a
            for a in every
            if not any(b != a and all(x <= y for x, y in zip(a, b, strict=True)) for b in every)
        ]
        self.padding = problem.row_granule
        self.per_row = max(s[1] for s in self.sums)
        self.per_lane = max(s[2] for s in self.sums)

    def bytes(self, points: int, rows: int, lanes: int) -> int:
        """Of UB, for a tile."""
        points, rows, lanes = (round_up(n, self.padding) for n in (points, rows, lanes))
        return max(math.ceil(p * points + r * rows + q * lanes) + fixed for p, r, q, fixed in self.sums)

    def points(self, room: int, rows: int, lanes: int) -> int:
        """The most points beside so many rows and lanes, a multiple of the padding."""
        rows, lanes = round_up(rows, self.padding), round_up(lanes, self.padding)
        most = 1 << 40
        for p, r, q, fixed in self.sums:
            left = room - fixed - r * rows - q * lanes
            most = min(most, math.floor(left / p) if p else most if left >= 0 else 0)
        return max(0, most // self.padding * self.padding)

    def rows(self, room: int, lanes: Integers, held: int = 0) -> Integers:
        """For each pitch the most rows, beside `held` lanes where those are more than the pitch."""
        padding = self.padding
        padded = (np.maximum(lanes, held) + padding - 1) // padding * padding
        most = np.full(lanes.size, 1 << 40, np.int64)
        for p, r, q, fixed in self.sums:
            left = room - fixed - q * padded
            if not r:
                points = np.floor(left / p) // padding * padding if p else np.where(left >= 0, 2.0**40, 0)
                most = np.minimum(most, (points // lanes).astype(np.int64))
                continue
            # Whole paddings of rows, and as many of the next ones as their points leave room for.
            whole = np.floor(left / ((p * lanes + r) * padding))
            most_points = (
                np.floor((left - r * padding * (whole + 1)) / p) // padding * padding if p else 2.0**40
            )
            rows = np.clip(most_points // lanes, whole * padding, (whole + 1) * padding - 1)
            if not p:
                rows = whole * padding
            most = np.minimum(most, rows.astype(np.int64))
        return most


# --- time -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Cost:
    """Cycles of one tile (or unit, or core) on each pipe, and its bytes."""

    read: Any
    vector: Any
    write: Any
    scalar: Any
    bytes: Any
    gaps: Any  # cycles that the memory stands still between copies


def cost_of(problem: VectorProblem, rates: Rates, each: Each, rows: Any, lanes: Any, pitch: Any) -> Cost:
    """What is done for each tile, unit or core, for arrays of tiles."""
    read: Any = 0.0
    write: Any = 0.0
    total: Any = 0.0
    gaps: Any = 0.0
    vector: Any = 0.0
    scalar: Any = rates.scalar_tile if each is Each.TILE else 0.0
    for stream in problem.streams:
        if stream.each is not each or stream.pieces is Pieces.NONE:
            continue
        elements = {Form.FULL: rows * lanes, Form.ROW: lanes, Form.COLUMN: rows}[stream.form]
        pieces: Any = 1.0
        if stream.pieces is Pieces.POINT:
            pieces = elements
        elif stream.form is Form.FULL and stream.pieces is Pieces.ROW:
            pieces = rows
        elif stream.form is Form.FULL and stream.pieces is Pieces.LANE:
            pieces = lanes
        elif stream.form is Form.FULL:
            pieces = np.where((lanes == problem.lanes) & (lanes == pitch), 1.0, rows)
        length = elements * stream.bytes / pieces
        fine = np.ceil(length / BLOCK) * BLOCK * pieces
        # Pieces that end within a line in GM take all of it.
        total = total + np.where(pieces > 1, np.ceil(length / rates.line) * rates.line, length) * pieces
        gaps = gaps + rates.gap + rates.read_piece * pieces
        scalar = scalar + rates.scalar_copy
        if stream.write:
            write = write + rates.write_start + rates.write_piece * pieces + fine / rates.write
        else:
            read = read + rates.read_start + rates.read_piece * pieces + fine / rates.read
    for work in problem.work:
        if work.each is not each:
            continue
        if work.over is Over.POINTS:
            instructions, repeats = 1.0, np.ceil(rows * pitch * (work.bytes / REPEAT))
        elif work.over is Over.LANES:
            instructions, repeats = 1.0, np.ceil(pitch * (work.bytes / REPEAT))
        elif work.over is Over.ROWS:
            instructions, repeats = 1.0, np.ceil(rows * (work.bytes / REPEAT))
        else:
            columns = np.ceil(pitch * (work.bytes / REPEAT))
            instructions = (
                rows * 1.0 if work.over is Over.EACH_ROW else columns * np.ceil(rows / MOST_REPEATS)
            )
            repeats = columns * rows
        vector = vector + work.count * (instructions * work.start + repeats * work.cycles)
        scalar = scalar + work.count * instructions * rates.scalar_vector
    return Cost(read, vector, write, scalar, total, gaps)


@dataclass(frozen=True, slots=True)
class Tiles:
    """Candidates, one for each element of the arrays, with the parts of their time.

    Attributes
    ----------
    units, per_unit
        What can be handed out to cores, and the tiles of each.
    alone
        Cycles from one tile to the next where no core waits for the memory.
    bytes, beside
        Of a tile: what the memory moves, and the cycles that come on top of that.
    first
        Cycles of the first tile through all pipes, in the same way as `alone`.
    unit, core
        Cycles of what is done for each unit and each core, and their bytes.
    """

    rows: Integers
    pitch: Integers
    units: Any
    per_unit: Any
    alone: Any
    bytes: Any
    beside: Any
    first: Any
    after_first: Any
    unit: tuple[Any, Any]
    core: tuple[Any, Any]

    def take(self, index: Any) -> Tiles:
        """Some of the candidates."""

        def some(value: Any) -> Any:
            return value[index] if np.ndim(value) else value

        parts = {name: some(getattr(self, name)) for name in _ARRAYS}
        for name in ("unit", "core"):
            cycles, moved = getattr(self, name)
            parts[name] = some(cycles), some(moved)
        return Tiles(**parts)

    def time(self, rates: Rates, cores: Any) -> Any:
        """Cycles of the busiest of so many cores, none of them idle, launch included."""
        share = rates.share(cores)
        rounds = np.ceil(self.units / cores)
        moved = self.bytes / share
        period = np.maximum(self.alone, moved + self.beside)
        first = np.maximum(self.first, moved + self.after_first)
        once = self.unit[0] + self.unit[1] / share
        start = rates.launch(cores) + self.core[0] + self.core[1] / share
        return start + first + (rounds * self.per_unit - 1.0) * period + rounds * once

    def least(self, rates: Rates, fewest: int, most: int) -> Any:
        """No more than the time on any number of cores from `fewest` to `most`."""
        busy = np.maximum(self.alone, self.bytes / rates.share(most) + self.beside)
        return rates.launch(fewest) + busy * (self.units * self.per_unit / most)


_ARRAYS = ("rows", "pitch", "units", "per_unit", "alone", "bytes", "beside", "first", "after_first")


def units_of(problem: VectorProblem, row_tiles: Any, lane_tiles: Any) -> tuple[Any, Any]:
    """What can be handed out to cores, and the tiles of each."""
    units, per_unit = problem.outer, problem.inner
    if problem.reduces is Form.COLUMN:
        return units * lane_tiles, per_unit * row_tiles
    if problem.reduces is Form.ROW:
        return units * row_tiles, per_unit * lane_tiles
    return units * row_tiles * lane_tiles, row_tiles * 0 + per_unit


def candidates(problem: VectorProblem, rates: Rates, buffers: int, rows: Integers, pitch: Integers) -> Tiles:
    """What tiles of so many rows and lanes take, without the cores that share them."""
    lanes = np.minimum(pitch, problem.lanes)
    floats = rows.astype(np.float64), lanes.astype(np.float64), pitch.astype(np.float64)
    tile, unit, core = (cost_of(problem, rates, each, *floats) for each in Each)
    units, per_unit = units_of(problem, -(-problem.rows // rows), -(-problem.lanes // pitch))
    copies = np.maximum(tile.read, tile.write)
    if buffers > 1:
        alone, beside = np.maximum(np.maximum(copies, tile.vector), tile.scalar), tile.gaps
    else:
        waits = tile.vector + rates.latency
        alone, beside = np.maximum(copies + waits, tile.scalar), tile.gaps + WAITING * waits
    after_first = np.maximum(tile.gaps + tile.vector + 2 * rates.handover, beside)
    first = np.maximum(tile.read + tile.write + tile.vector + 2 * rates.handover, alone)
    each = [(c.read + c.write + c.vector + c.scalar + c.gaps, c.bytes) for c in (unit, core)]
    return Tiles(
        rows, pitch, units, per_unit, alone, tile.bytes, beside, first, after_first, each[0], each[1]
    )
