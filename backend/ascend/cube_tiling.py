"""The tile sizes of a matrix product: an integer program under the capacities of L1, L0A, L0B and L0C.

The unknowns are the tile of C (baseM × baseN), the step along k (baseK), the steps in one copy into L1
(stepKa, stepKb), and how the cores share out the matrix. The objective is the predicted time (`cube_time`).
The search is exact: for each tile a bound from below, from the step and the packets that would be best if L1
could hold anything; then all steps and packets of the tiles in the order of their bounds, until a bound is
above the best time found.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .chip import Chip
from .cube_problem import SIZES, Contraction, CubeOptions
from .cube_time import Choice, CubeRates, buffers, predicted
from .rounding import round_up

Numbers = NDArray[np.float64]

BIAS_ROW = 256  # elements of float32 or int32 that the bias table holds


@dataclass(frozen=True, slots=True)
class Shares:
    """How the cores share out a product: batch, rows and columns, in rounds over the columns, in tiles.

    Attributes
    ----------
    batch_cores, m_cores, n_cores : int
    rounds : int
        Parts of the columns that the cores work through one after another: what they read stays in L2.
    m_tiles, n_tiles : int
        Tiles of a core in a round.
    unit_m, unit_n : int
        Tiles start at multiples of these: fractals, or lines of memory.
    k_cores : int
        Cores that each take a part of k of the same tile.
    """

    batch_cores: int
    m_cores: int
    n_cores: int
    rounds: int
    m_tiles: int
    n_tiles: int
    unit_m: int
    unit_n: int
    k_cores: int = 1

    @property
    def cores(self) -> int:
        """Cores that take part."""
        return self.batch_cores * self.m_cores * self.n_cores * self.k_cores

    @property
    def rows(self) -> int:
        """Tiles along m."""
        return self.m_cores * self.m_tiles

    @property
    def columns(self) -> int:
        """Tiles along n."""
        return self.rounds * self.n_cores * self.n_tiles


@dataclass(frozen=True, slots=True)
class CubeTiling:
    """Tile sizes, buffers, and what is predicted of them.

    Attributes
    ----------
    base_m, base_n, base_k : int
        Rows and columns of a tile of C, and what is multiplied at a time along k.
    step_ka, step_kb : int
        Steps along k in one copy of A and of B into L1.
    l1_buffers, l0_buffers, l0c_buffers : int
    shares : Shares
        At the sizes that the tiling was made for.
    times : dict of str to float
        Predicted microseconds: of each pipe, of the memory, and ``total``.
    binding : str
        Which capacity ends each size.
    once_a, once_b : bool
        Whether no two tiles read the same lines of the operand.
    """

    base_m: int
    base_n: int
    base_k: int
    step_ka: int
    step_kb: int
    l1_buffers: int
    l0_buffers: int
    l0c_buffers: int
    shares: Shares
    times: dict[str, float]
    binding: str
    once_a: bool = False
    once_b: bool = False

    @property
    def packet_a(self) -> int:
        """Elements along k in one copy of A into L1."""
        return self.base_k * self.step_ka

    @property
    def packet_b(self) -> int:
        """Elements along k in one copy of B into L1."""
        return self.base_k * self.step_kb

    @property
    def parts_a(self) -> int:
        """Copies that bring a packet of A: between them go whole packets of B, where those are shorter."""
        return self._parts(self.step_ka, self.step_kb)

    @property
    def parts_b(self) -> int:
        """Copies that bring a packet of B: between them go whole packets of A, where those are shorter."""
        return self._parts(self.step_kb, self.step_ka)

    def _parts(self, own: int, other: int) -> int:
        if self.l1_buffers == 1:
            return 1
        return min((d for d in range(1, own + 1) if own % d == 0), key=lambda d: abs(d - own / other))

    def __str__(self) -> str:
        s = self.shares
        times = ", ".join(f"{pipe} {time:.1f}" for pipe, time in self.times.items() if pipe != "total")
        return (
            f"tile {self.base_m} x {self.base_n} x {self.base_k}, packets of {self.step_ka} (A) and "
            f"{self.step_kb} (B) steps; buffers L1 {self.l1_buffers}, L0 {self.l0_buffers}, "
            f"L0C {self.l0c_buffers}; {self.binding}\n"
            f"{s.cores} cores ({s.batch_cores} x {s.m_cores} x {s.n_cores} x {s.k_cores}), "
            f"rounds {s.rounds}, "
            f"tiles of a core in a round {s.m_tiles} x {s.n_tiles}\n"
            f"predicted {self.times['total']:.1f} us: {times}"
        )


def l1_bytes(c: Contraction, options: CubeOptions, m: int, n: int, k: int, step_ka: int, step_kb: int) -> int:
    """Bytes of the packets in L1."""
    l1 = buffers(options)[0]
    bias = BIAS_ROW * SIZES[c.bias] if c.bias else 0
    return l1 * ((m * step_ka + n * step_kb) * k * c.size + bias)


# --- sharing out --------------------------------------------------------------------------------------------


def rounds_of(c: Contraction, chip: Chip, options: CubeOptions) -> int:
    """Rounds over n, so that the columns of B that a round reads stay in L2 beside the rows of A in use."""
    if not options.l2_blocking:
        return 1
    columns = c.k * c.n * c.size
    return max(1, -(-columns // int(0.75 * chip.capacity.l2)))


def _batch_cores(batch: int, cores: int) -> list[int]:
    """In how many parts a batch may be shared out: none that leaves as much to a core as fewer parts do."""
    return sorted({-(-batch // -(-batch // b)) for b in range(1, min(batch, cores) + 1)})


# --- the search ---------------------------------------------------------------------------------------------


def solve(c: Contraction, chip: Chip, options: CubeOptions | None = None) -> CubeTiling:
    """The tiling of the least predicted time."""
    return _solve(replace(c, names=("", "", "", "")), chip.name, _Known(chip), options or CubeOptions())


class _Known:
    """A chip, for a cache that tells chips apart by their names alone."""

    def __init__(self, chip: Chip) -> None:
        self.chip = chip

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Known) and (self.chip is other.chip or self.chip == other.chip)

    def __hash__(self) -> int:
        return 0


@functools.lru_cache(maxsize=1024)
def _solve(c: Contraction, _: str, known: _Known, options: CubeOptions) -> CubeTiling:
    chip = known.chip
    best: tuple[float, CubeTiling] | None = None
    for share_m in share_units(c, c.transpose_a, c.row_unit, c.m, c.pitches()[0]):
        for share_n in share_units(c, not c.transpose_b, c.column_unit, c.n, c.pitches()[1]):
            found = _search(c, chip, options, share_m, share_n, np.inf if best is None else best[0])
            if found is not None:
                best = found
    assert best is not None
    rates = CubeRates.of(chip, c.dtype)
    whole = c
    if options.split_k and c.adds_up:
        found = _split_k(c, chip, options, rates, best[0])
        if found is not None:
            best = found
            c = _part_of(c, best[1].shares.k_cores)
    t = best[1]
    s = t.shares
    choice = Choice(
        t.base_m, t.base_n, t.base_k, t.step_ka, t.step_kb, s.batch_cores, s.m_cores, s.n_cores, s.rounds,
        s.m_tiles, s.n_tiles, s.unit_m, s.unit_n,
    )  # fmt: skip
    times = {
        pipe: float(cycles) / rates.cycles_per_us
        for pipe, cycles in predicted(c, rates, options, choice).items()
    }
    times["total"] = best[0] / rates.cycles_per_us
    c = whole
    line = rates.line // c.size
    once_a = s.columns == 1 and (not c.transpose_a or s.unit_m % line == 0)
    once_b = s.rows == 1 and (c.transpose_b or s.unit_n % line == 0)
    return replace(t, times=times, binding=_binding(c, chip, options, t), once_a=once_a, once_b=once_b)


def _part_of(c: Contraction, k_cores: int) -> Contraction:
    """What one of the cores that share k multiplies: rows lie as far apart as before."""
    units = -(-c.k // c.depth_unit)
    a_pitch, b_pitch = c.pitches()
    return replace(c, k=-(-units // k_cores) * c.depth_unit, a_pitch=a_pitch, b_pitch=b_pitch)


def _split_k(
    c: Contraction, chip: Chip, options: CubeOptions, rates: CubeRates, known: float
) -> tuple[float, CubeTiling] | None:
    """The best tiling in which cores share k, if it takes less than the time known; a core has one tile."""
    tiles = -(-c.m * c.n * c.batch // (chip.capacity.l0c // 4))
    if c.k < 1024 or tiles * 2 > chip.cube_cores:
        return None
    best: tuple[float, CubeTiling] | None = None
    for k_cores in range(2, chip.cube_cores // tiles + 1):
        part, fewer = _part_of(c, k_cores), replace(chip, cube_cores=chip.cube_cores // k_cores)
        # One after another the cores add their tile; all wait for each.
        turns = (k_cores - 1) * (rates.barrier + c.m * c.n * c.batch * SIZES[c.out] / rates.write)
        for share_m in share_units(c, c.transpose_a, c.row_unit, c.m, c.pitches()[0]):
            for share_n in share_units(c, not c.transpose_b, c.column_unit, c.n, c.pitches()[1]):
                found = _search(part, fewer, options, share_m, share_n, known - turns, alone=True)
                if found is None:
                    continue
                begun = rates.launch_core * (k_cores - 1) * found[1].shares.cores
                time = found[0] + turns + begun
                if time < known:
                    known = time
                    best = time, replace(found[1], shares=replace(found[1].shares, k_cores=k_cores))
    return best


def share_units(
    c: Contraction, contiguous: bool, unit: int, extent: int, pitch: int, base: int = 2**31
) -> list[int]:
    """What tiles may start at multiples of: fractals, and lines of memory where rows begin with one."""
    line = 512 // c.size
    if contiguous and pitch % line == 0 and extent > line <= base:
        return [line, unit]
    return [unit]


@dataclass(frozen=True, slots=True)
class _Tiles:
    """Ways to share out, with the tile that follows; arrays of equal length."""

    batch_cores: Numbers
    m_cores: Numbers
    n_cores: Numbers
    m_tiles: Numbers
    n_tiles: Numbers
    m: Numbers
    n: Numbers


def _axis(extent: int, unit: int, parts: int, limit: int) -> NDArray[np.int64]:
    """Rows (tiles of each part, size of the largest), one for each size there is, none above a limit."""
    units = -(-extent // unit)
    if parts > units:
        return np.empty((0, 2), np.int64)
    most = units // parts
    counts = np.arange(1, most + 1)
    sizes = -(-units // (parts * counts)) * unit
    keep = np.ones(most, bool)
    keep[1:] = sizes[1:] < sizes[:-1]
    keep &= sizes <= limit
    return np.stack([counts[keep], sizes[keep]], axis=1)


def _candidates(
    c: Contraction, chip: Chip, options: CubeOptions, share_m: int, share_n: int, rounds: int
) -> _Tiles:
    """All ways to share out a product whose tiles fit L0 and L0C."""
    _, l0, l0c = buffers(options)
    room = chip.capacity.l0c // (4 * l0c)
    least = c.depth_unit * c.size * l0
    limit_m = min(room // 16, chip.capacity.l0a // least)
    limit_n = min(room // 16, chip.capacity.l0b // least)
    if c.bias:
        limit_n = min(limit_n, BIAS_ROW)
    if options.tile:
        limit_m = min(limit_m, round_up(options.tile[0], c.row_unit))
        limit_n = min(limit_n, round_up(options.tile[1], c.column_unit))
    cores = chip.cube_cores
    axis_m = _axes(c.m, share_m, cores, 1, limit_m)
    axis_n = _axes(c.n, share_n, cores, rounds, limit_n)
    product = axis_m[:, 0, None] * axis_n[None, :, 0]
    small = (product <= cores) & (axis_m[:, 2, None] * axis_n[None, :, 2] <= room)
    found = []
    for batch_cores in _batch_cores(c.batch, cores):
        i, j = np.nonzero(small if batch_cores == 1 else small & (product <= cores // batch_cores))
        m_cores, m_tiles, m = axis_m[i].T
        n_cores, n_tiles, n = axis_n[j].T
        found.append((np.full(len(i), batch_cores), m_cores, n_cores, m_tiles, n_tiles, m, n))
    return _Tiles(*(np.concatenate(column).astype(np.float64) for column in zip(*found, strict=True)))


@functools.lru_cache(maxsize=64)
def _axes(extent: int, unit: int, cores: int, rounds: int, limit: int) -> NDArray[np.int64]:
    """Rows (cores, tiles of each, size of the largest) of all ways to share out one extent."""
    rows = [np.insert(_axis(extent, unit, n * rounds, limit), 0, n, axis=1) for n in range(1, cores + 1)]
    return np.concatenate(rows)


def _search(
    c: Contraction,
    chip: Chip,
    options: CubeOptions,
    share_m: int,
    share_n: int,
    known: float,
    alone: bool = False,
) -> tuple[float, CubeTiling] | None:
    rates = CubeRates.of(chip, c.dtype)
    rounds = 1 if alone else min(rounds_of(c, chip, options), -(-c.n // share_n))
    t = _candidates(c, chip, options, share_m, share_n, rounds)
    if len(t.m) == 0 and rounds > 1:
        rounds = 1
        t = _candidates(c, chip, options, share_m, share_n, rounds)
    if alone:  # a core keeps its only tile until its turn
        single = (t.m_tiles == 1) & (t.n_tiles == 1) & (t.batch_cores >= c.batch)
        t = _Tiles(*(getattr(t, f)[single] for f in _Tiles.__dataclass_fields__))
    if len(t.m) == 0:
        return None
    l1, l0, _ = buffers(options)
    unit, size = c.depth_unit, c.size
    deepest = (
        np.minimum(chip.capacity.l0a // (l0 * size * t.m), chip.capacity.l0b // (l0 * size * t.n))
        // unit
        * unit
    )
    deepest = np.minimum(deepest, round_up(min(c.k, *options.tile[2:]) if options.tile else c.k, unit))
    room = chip.capacity.l1 // (l1 * size)
    # A first bound, of the arithmetic and the bytes alone, leaves few for the better one.
    best: tuple[float, CubeTiling] | None = None
    least = known
    rough = _rough(c, chip, rates, options, t, rounds, share_m, share_n)
    first = int(np.argmin(rough))
    found = _best_depth(c, chip, rates, options, t, first, int(deepest[first]), rounds, share_m, share_n)
    if found is not None and found[0] < least:
        least, best = found[0], found
    keep = np.flatnonzero(rough < least)
    t = _Tiles(*(getattr(t, f)[keep] for f in _Tiles.__dataclass_fields__))
    deepest = deepest[keep]
    if len(keep) == 0:
        return best
    # The bound: the deepest step, packets that have L1 for themselves, and the shortest beginning.
    most_a = np.maximum(room // (t.m * deepest), 1) if options.large_packets else 1
    most_b = np.maximum(room // (t.n * deepest), 1) if options.large_packets else 1
    ideal = predicted(
        c, rates, options,
        Choice(t.m, t.n, deepest, most_a, most_b, t.batch_cores, t.m_cores, t.n_cores, rounds, t.m_tiles,
               t.n_tiles, share_m, share_n),
    )  # fmt: skip
    rate = np.minimum(rates.read, rates.l2 / (t.batch_cores * t.m_cores * t.n_cores))
    saved = (
        (t.m * (np.minimum(most_a * deepest, c.k) - unit) + t.n * (np.minimum(most_b * deepest, c.k) - unit))
        * size
        / rate
    )
    bound = ideal["total"] - np.maximum(saved, 0)
    for i in np.argsort(bound, kind="stable"):
        if bound[i] >= least:
            break
        found = _best_depth(c, chip, rates, options, t, int(i), int(deepest[i]), rounds, share_m, share_n)
        if found is not None and found[0] < least:
            least, best = found[0], found
    return best


def _rough(
    c: Contraction,
    chip: Chip,
    rates: CubeRates,
    options: CubeOptions,
    t: _Tiles,
    rounds: int,
    share_m: int,
    share_n: int,
) -> Numbers:
    """A bound from below: what the multiplications and the bytes of a core take at least."""
    cm, cn, ck = rates.cube
    rows = np.minimum(np.ceil(-(-c.m // share_m) / t.m_cores) * share_m, round_up(c.m, 16))
    columns = np.minimum(np.ceil(-(-c.n // share_n) / (t.n_cores * rounds)) * share_n, round_up(c.n, 16))
    times = np.ceil(c.batch / t.batch_cores) * rounds
    work = times * np.ceil(rows / cm) * np.ceil(columns / cn) * np.ceil(c.k / ck)
    copies_a = np.where(c.k * t.m * c.size * buffers(options)[0] <= chip.capacity.l1, 1, t.n_tiles)
    copies_b = np.where(c.k * t.n * c.size * buffers(options)[0] <= chip.capacity.l1, 1, t.m_tiles)
    missed = (
        times * c.k * c.size * (rows / t.n_cores + columns / t.m_cores) * (1 / rates.missing - 1 / rates.read)
    )
    moved = times * c.k * c.size * (rows * copies_a + columns * copies_b) / rates.read + missed
    # Pieces: a row for each step along k, or the rows of a tile as often as L1 makes a packet end.
    room = chip.capacity.l1 / c.size / buffers(options)[0]
    a_pieces = c.k if c.transpose_a else np.maximum(t.m, t.m * t.m * (c.k / room))
    b_pieces = c.k if not c.transpose_b else np.maximum(t.n, t.n * t.n * (c.k / room))
    crossed: Any = 0.0
    if c.transpose_b and not c.transpose_a:  # both share L1
        crossed = np.where(
            (copies_a == t.n_tiles) & (copies_b == t.m_tiles), 2 * t.m * t.n * (c.k / room), 0.0
        )
        crossed = np.where(
            c.k * np.minimum(t.m, t.n) * c.size * buffers(options)[0] > chip.capacity.l1, crossed, 0.0
        )
    pieces = times * (
        t.m_tiles * copies_a * a_pieces + t.n_tiles * copies_b * b_pieces + t.m_tiles * t.n_tiles * crossed
    )
    moved = moved + pieces * rates.copy_piece
    begun = rates.launch + rates.launch_core * t.batch_cores * t.m_cores * t.n_cores
    bound: Numbers = begun + np.maximum(work, moved)
    return bound


def _best_depth(
    c: Contraction, chip: Chip, rates: CubeRates, options: CubeOptions, t: _Tiles, i: int, deepest: int,
    rounds: int, share_m: int, share_n: int,
) -> tuple[float, CubeTiling] | None:  # fmt: skip
    """The best step and packets of one tile."""
    m, n = int(t.m[i]), int(t.n[i])
    k, step_ka, step_kb = _depths(c, chip, options, m, n, deepest)
    if len(k) == 0:
        return None
    choice = Choice(
        m, n, k, step_ka, step_kb, t.batch_cores[i], t.m_cores[i], t.n_cores[i], rounds, t.m_tiles[i],
        t.n_tiles[i], share_m, share_n,
    )  # fmt: skip
    times = predicted(c, rates, options, choice)["total"]
    j = int(np.argmin(times))
    shares = Shares(
        int(t.batch_cores[i]), int(t.m_cores[i]), int(t.n_cores[i]), rounds, int(t.m_tiles[i]),
        int(t.n_tiles[i]), share_m, share_n,
    )  # fmt: skip
    l1, l0, l0c = buffers(options)
    return float(times[j]), CubeTiling(
        m, n, int(k[j]), int(step_ka[j]), int(step_kb[j]), l1, l0, l0c, shares, {}, "",
    )  # fmt: skip


def _depths(
    c: Contraction, chip: Chip, options: CubeOptions, m: int, n: int, deepest: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """All (baseK, stepKa, stepKb) that a tile leaves room for in L0A, L0B and L1."""
    unit = c.depth_unit
    found = []
    for k in range(unit, deepest + 1, unit):
        steps = -(-c.k // k)
        if not options.large_packets:
            if l1_bytes(c, options, m, n, k, 1, 1) <= chip.capacity.l1:
                found.append((k, 1, 1))
            continue
        left = chip.capacity.l1 // buffers(options)[0] - (BIAS_ROW * SIZES[c.bias] if c.bias else 0)
        for step_ka in range(1, steps + 1):
            rest = left - m * k * c.size * step_ka
            most = min(rest // (n * k * c.size), steps)
            if most < 1:
                break
            found.extend((k, step_ka, step_kb) for step_kb in range(1, most + 1))
    if not found:
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64)
    k_, a_, b_ = np.array(found, np.int64).T
    return k_, a_, b_


def _binding(c: Contraction, chip: Chip, options: CubeOptions, t: CubeTiling) -> str:
    """Which capacity the next larger size would pass."""
    _, l0, l0c = buffers(options)
    ends = []
    if (
        l0c * (t.base_m + 16) * t.base_n * 4 > chip.capacity.l0c
        or l0c * t.base_m * (t.base_n + 16) * 4 > chip.capacity.l0c
    ):
        ends.append("L0C ends the tile")
    if l0 * max(t.base_m, t.base_n) * (t.base_k + c.depth_unit) * c.size > chip.capacity.l0a:
        ends.append("L0A and L0B end the step")
    longer = (t.step_ka + 1, t.step_kb), (t.step_ka, t.step_kb + 1)
    if any(l1_bytes(c, options, t.base_m, t.base_n, t.base_k, a, b) > chip.capacity.l1 for a, b in longer):
        ends.append("L1 ends the packets")
    return ", ".join(ends) or "the product ends them all"
