"""How a kernel's points are cut into units of work: all that a launch needs to know but the code."""

from __future__ import annotations

from math import prod
from typing import NamedTuple, Protocol

from ...ops.primitives import PRIMITIVES
from ..ir import Binding, Kernel
from . import staging
from .analysis import Analysis
from .passes import Dtype, Passes, state_dtypes
from .tuning import TRANSPOSED_LANES, TRANSPOSED_ROWS, Tuning

# Elements of the cheapest kernels that one unit of work computes: some ten microseconds.
UNIT_ELEMENTS = 16384
# Elements along the lanes of one unit: a few streams of them fit the first-level cache.
LANE_CHUNK = 8192
# Points of the cheapest kernels that one unit of work computes.
UNIT_POINTS = 16384
MOST_PIECES = 1024
# Columns are reduced so many rows at a time, across the whole width of a unit: rows are then read from end
# to end, and the accumulators, in memory, are touched once for each such panel.
PANEL_ROWS = 16
PANEL_LANES = 4096


class Bound(NamedTuple):
    """What a strategy makes of a binding: integers by name, (units, grain) of phases, bytes of scratch."""

    integers: dict[str, int]
    phases: tuple[tuple[int, int], ...]
    scratch: int
    thread_scratch: int


def loop_axes(parallel: int, tuning: Tuning) -> list[int]:
    """The parallel axes outside the row axis and the lanes."""
    return [k for k in range(parallel) if k not in (tuning.lane, tuning.row)]


class Blocks:
    """How the parallel axes are cut into units: blocks of outer positions × of rows × chunks of lanes."""

    NAMES = ("outer", "outer_block", "outer_blocks", "row_block", "row_blocks", "lane_chunk", "lane_chunks")

    @staticmethod
    def choose(
        binding: Binding, parallel: int, tuning: Tuning, elements: int, chunk: int, most_rows: int = 1 << 30
    ) -> dict[str, int]:
        """Sizes of the blocks for units of about `elements` elements and at most `chunk` lanes."""
        extents = binding.extents
        lanes = extents[tuning.lane] if tuning.lane < parallel else 1
        rows = extents[tuning.row] if tuning.row >= 0 else 1
        outer = 1
        for k in loop_axes(parallel, tuning):
            outer *= extents[k]
        lane_chunk, lane_chunks = even(lanes, chunk, 64 if lanes > 64 else 1)
        row_block, row_blocks = even(rows, min(most_rows, max(1, elements // lane_chunk)), 1)
        outer_block, outer_blocks = 1, outer
        if row_blocks == lane_chunks == 1:
            outer_block, outer_blocks = even(outer, max(1, elements // (lanes * rows)), 1)
        return {
            "outer": outer,
            "outer_block": outer_block,
            "outer_blocks": outer_blocks,
            "row_block": row_block,
            "row_blocks": row_blocks,
            "lane_chunk": lane_chunk,
            "lane_chunks": lane_chunks,
        }


def even(extent: int, most: int, multiple: int) -> tuple[int, int]:
    """Cut an extent into equal pieces of at most `most`, rounded up to a multiple: their size and number."""
    pieces = max(1, -(-extent // max(most, 1)))
    size = -(-extent // pieces)
    size = -(-size // multiple) * multiple
    return size, -(-extent // size)


def cost(kernel: Kernel) -> float:
    """Work of one element in additions."""
    return sum(PRIMITIVES[i.op].cost if i.op in PRIMITIVES else 1.0 for i in kernel.body)


def transpose_scratch(kernel: Kernel, tuning: Tuning, rows: int) -> int:
    """Bytes of scratch memory that a thread needs for the blocks of transposed operands."""
    return sum(
        rows * TRANSPOSED_LANES * kernel.operands[kernel.accesses[a].operand].dtype.itemsize
        for a in tuning.packed
    )


class Partition(Protocol):
    """One way to cut kernels up."""

    phases: tuple[str, ...]  # the functions of the phases
    names: tuple[str, ...]  # integer arguments besides extents and strides

    def __init__(self, kernel: Kernel, tuning: Tuning) -> None: ...

    def bind(self, binding: Binding) -> Bound:
        """The work for these sizes."""


class ElementwisePartition:
    """One phase over blocks of the parallel axes."""

    phases: tuple[str, ...] = ("phase0",)

    def __init__(self, kernel: Kernel, tuning: Tuning) -> None:
        self.kernel = kernel
        self.names = (*Blocks.NAMES, *staging.names(kernel))
        self.tuning = tuning
        self.analysis = Analysis(kernel)

    def bind(self, binding: Binding) -> Bound:
        elements = max(256, int(UNIT_ELEMENTS / max(1.0, cost(self.kernel) / 8)))
        chunk, rows = LANE_CHUNK, elements
        if self.tuning.packed:
            chunk, rows = TRANSPOSED_LANES, TRANSPOSED_ROWS
        elif staging.staged(self.kernel):
            chunk, rows = staging.sizes(self.kernel, self.tuning)
            elements = chunk * rows
        sizes = Blocks.choose(binding, self.kernel.parallel, self.tuning, elements, chunk, rows)
        units = sizes["outer_blocks"] * sizes["row_blocks"] * sizes["lane_chunks"]
        own = transpose_scratch(self.kernel, self.tuning, TRANSPOSED_ROWS)
        tiles, tile_bytes = staging.bind(self.kernel, self.tuning, sizes["lane_chunk"], sizes["row_block"])
        return Bound(sizes | tiles, ((units, 1),), 0, max(own, tile_bytes))


class RowPartition:
    """One phase: each unit runs all passes over some rows, one after another."""

    phases: tuple[str, ...] = ("phase0",)
    names: tuple[str, ...] = (*Blocks.NAMES, "kept_row", "kept_size")

    def __init__(self, kernel: Kernel, tuning: Tuning) -> None:
        self.kernel = kernel
        self.tuning = tuning
        self.analysis = Analysis(kernel)
        self.passes = Passes(self.analysis, tuning.keep)

    def bind(self, binding: Binding) -> Bound:
        points = 1
        for extent in binding.extents[self.kernel.parallel :]:
            points *= extent
        rows = max(1, int(UNIT_POINTS / max(1.0, cost(self.kernel) / 8)) // points)
        sizes = Blocks.choose(binding, self.kernel.parallel, self.tuning, rows, 1)
        units = sizes["outer_blocks"] * sizes["row_blocks"]
        lanes = binding.extents[self.tuning.lane]
        sizes["kept_row"] = lanes + self.tuning.width * self.tuning.unroll
        sizes["kept_size"] = points // lanes * sizes["kept_row"]
        return Bound(sizes, ((units, 1),), 0, 8 * sizes["kept_size"] * len(self.passes.kept))


class ColumnPartition:
    """One phase: each unit runs all passes over some columns."""

    phases: tuple[str, ...] = ("phase0",)
    names: tuple[str, ...] = (*Blocks.NAMES, "kept_size")

    def __init__(self, kernel: Kernel, tuning: Tuning) -> None:
        self.kernel = kernel
        self.tuning = tuning
        self.analysis = Analysis(kernel)
        self.passes = Passes(self.analysis, tuning.keep)

    def bind(self, binding: Binding) -> Bound:
        points = 1
        for extent in binding.extents[self.kernel.parallel :]:
            points *= extent
        lanes = self.tuning.width * self.tuning.unroll
        columns = max(lanes, int(UNIT_POINTS / max(1.0, cost(self.kernel) / 8)) // points)
        chunk = min(LANE_CHUNK, -(-columns // lanes) * lanes)
        if self.tuning.packed:
            chunk, columns = TRANSPOSED_LANES, TRANSPOSED_LANES * TRANSPOSED_ROWS
        sizes = Blocks.choose(binding, self.kernel.parallel, self.tuning, columns, chunk)
        units = sizes["outer_blocks"] * sizes["row_blocks"] * sizes["lane_chunks"]
        sizes["kept_size"] = points * lanes
        own = 8 * sizes["kept_size"] * len(self.passes.kept)
        return Bound(sizes, ((units, 1),), 0, own + transpose_scratch(self.kernel, self.tuning, points))


class SplitPartition:
    """Phases ``reduce, combine`` for each pass, and a last one for what is written for every point."""

    def __init__(self, kernel: Kernel, tuning: Tuning) -> None:
        self.kernel = kernel
        self.tuning = tuning
        self.analysis = Analysis(kernel)
        self.passes = Passes(self.analysis, keep=False)
        last = self.passes.count - 1
        count = 2 * last + (1 if self.passes.stores[last] else 0)
        self.phases: tuple[str, ...] = tuple(f"phase{k}" for k in range(count))
        # Combining runs over the parallel axes like an elementwise kernel.
        lane = tuning.lane if self.in_columns else kernel.parallel - 1
        others = [k for k in range(kernel.parallel) if k != lane]
        self.order = [*others, lane]
        self.combining = Tuning("elementwise", lane, others[-1] if others else -1, tuning.width, 1)
        # (reduction, part, dtype) of each array of partial results.
        self.states: list[tuple[int, int, Dtype]] = []
        for r in self.analysis.reduces:
            self.states += [(r, part, d) for part, d in enumerate(state_dtypes(kernel, r))]
        self.names: tuple[str, ...] = (
            *Blocks.NAMES,
            "pieces",
            "piece",
            "points",
            *(f"partial.{r}.{part}" for r, part, _ in self.states),
            *(f"final.{r}" for r in self.analysis.reduces),
        )

    @property
    def in_columns(self) -> bool:
        return self.tuning.strategy == "columns"

    def bind(self, binding: Binding) -> Bound:
        kernel, tuning = self.kernel, self.tuning
        extents = binding.extents
        rows = prod(extents[: kernel.parallel])
        points = prod(extents[kernel.parallel :])
        along = extents[tuning.split]
        work = UNIT_POINTS / max(1.0, cost(kernel) / 8)
        if self.in_columns:
            lanes = tuning.width * tuning.unroll
            chunk = min(-(-extents[tuning.lane] // lanes) * lanes, PANEL_LANES)
            sizes = Blocks.choose(binding, kernel.parallel, tuning, chunk, chunk)
            columns = sizes["outer_blocks"] * sizes["row_blocks"] * sizes["lane_chunks"]
            per_unit = points * chunk // PANEL_ROWS
        else:
            sizes = Blocks.choose(binding, kernel.parallel, self.combining, rows, rows)
            columns = rows
            per_unit = points
        pieces = max(1, min(MOST_PIECES, along, int(per_unit // work)))
        piece = -(-along // pieces)
        if tuning.split == tuning.lane:
            whole = tuning.width * tuning.unroll
            piece = -(-piece // whole) * whole
        pieces = -(-along // piece)
        sizes |= {"pieces": pieces, "piece": piece, "points": rows}
        used = 0
        for r, part, dtype in self.states:
            sizes[f"partial.{r}.{part}"] = used
            used += -(-pieces * rows * dtype.itemsize // 64) * 64
        for r in self.analysis.reduces:
            sizes[f"final.{r}"] = used
            used += -(-rows * kernel.body[r].dtype.itemsize // 64) * 64
        combining = sizes["outer_blocks"] * sizes["row_blocks"] * sizes["lane_chunks"]
        phases = [(combining if k % 2 else columns * pieces, 1) for k in range(len(self.phases))]
        return Bound(sizes, tuple(phases), used, 0)


PARTITIONS: dict[str, type[Partition]] = {
    "elementwise": ElementwisePartition,
    "rows": RowPartition,
    "columns": ColumnPartition,
}


def partition(kernel: Kernel, tuning: Tuning) -> Partition:
    """How a tuning cuts a kernel up."""
    chosen = SplitPartition if tuning.split >= 0 else PARTITIONS[tuning.strategy]
    return chosen(kernel, tuning)
