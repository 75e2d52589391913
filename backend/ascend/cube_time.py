"""The predicted time of a matrix product: of a core's pipes the one that is busy longest, or the memory that
all share, and what comes before and after."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .chip import Chip
from .cube_problem import SIZES, Contraction, CubeOptions
from .rounding import round_up


@dataclass(frozen=True, slots=True)
class CubeRates:
    """What the prediction takes from the chip, in cycles of a core and bytes per cycle."""

    cycles_per_us: float
    cube: tuple[int, int, int]
    mmad_head: float
    load_head: float
    copy_head: float
    copy_piece: float
    copy_latency: float
    l0a: float
    l0b: float
    read: float  # of what is in L2
    missing: float  # of what is not
    write: float
    l2: float
    hbm: float
    line: int
    launch: float
    launch_core: float
    barrier: float  # of all cores

    @classmethod
    def of(cls, chip: Chip, dtype: str) -> CubeRates:
        """The rates of a chip for products of a dtype."""
        timing: Any = chip.timing or {}
        copies = timing.get("copy", {})
        rates = chip.rates
        clock = chip.clock
        load = copies.get("L1ToL0a", {})
        packet = copies.get("GmToL1", {})
        return cls(
            cycles_per_us=clock / 1e6,
            cube=chip.cube[dtype],
            mmad_head=timing.get("cube", {}).get("head", 10),
            load_head=load.get("head", 54),
            copy_head=packet.get("head", 12),
            copy_piece=packet.get("piece", 1.9),
            copy_latency=packet.get("latency", 156),
            l0a=float(rates.l1_to_l0a or 512),
            l0b=float(rates.l1_to_l0b or 256),
            read=float(rates.l2_read),
            missing=float(rates.ddr_read),
            write=float(rates.l2_write or rates.l2_read),
            l2=timing.get("l2_bandwidth", 5e12) / clock,
            hbm=timing.get("hbm_bandwidth", 1.6e12) / clock,
            line=timing.get("line", 512),
            launch=timing.get("launch_us", 0.5) * clock / 1e6 + timing.get("start_cycles", 0),
            launch_core=timing.get("launch_core_us", 0.0) * clock / 1e6,
            barrier=timing.get("sync_all_cycles", 1850),
        )


def buffers(options: CubeOptions) -> tuple[int, int, int]:
    """Buffers in L1, L0 and L0C."""
    return 1 + options.double_buffer_l1, 1 + options.double_buffer_l0, 1 + options.double_buffer_l0c


@dataclass(frozen=True, slots=True)
class Choice:
    """Arrays of equal shape (or scalars): everything that the time depends on."""

    m: Any  # rows and columns of the largest tile, k of a step
    n: Any
    k: Any
    step_ka: Any
    step_kb: Any
    batch_cores: Any
    m_cores: Any
    n_cores: Any
    rounds: Any
    m_tiles: Any
    n_tiles: Any
    share_m: int = 16
    share_n: int = 16


def _lines(width: Any, start: Any, line: int) -> Any:
    """Bytes that a piece of `width` bytes costs that starts at a multiple of `start`, on the average: more
    where it begins or ends in the middle of a line."""
    touched = np.ceil(width / line) if np.all(start >= line) else (width + line - start) / line
    return width * np.maximum(1.0, touched / np.ceil(width / line))


def _lines_of_share(extent: int, unit: int, parts: Any, size: int, start: Any, line: int) -> Any:
    """The same of an even share of an extent, whichever of the two sizes that there are costs more."""
    units = -(-extent // unit)
    small = np.minimum(np.maximum(np.floor(units / parts), 1) * unit, extent) * size
    large = np.minimum(np.ceil(units / parts) * unit, extent) * size
    return np.maximum(_lines(small, start, line) / small, _lines(large, start, line) / large) * large


def _starts(c: Contraction, pitch: int, own: Any, line: int) -> Any:
    """The largest power of two, up to a line, of whose multiples all pieces of an operand start."""
    own = np.asarray(own).astype(np.int64) * c.size
    value = own | (pitch * c.size) | line
    return value & -value


def predicted(c: Contraction, rates: CubeRates, options: CubeOptions, x: Choice) -> dict[str, Any]:
    """Cycles of each pipe of the core with the most to do, of the memory, and in all (``total``)."""
    cm, cn, ck = rates.cube
    size, out = c.size, SIZES[c.out]
    matrices = np.ceil(c.batch / x.batch_cores)
    # A core's part of C in units, and its tiles; shares are even, so the sums are, too.
    rows = np.minimum(np.ceil(np.ceil(c.m / x.share_m) / x.m_cores) * x.share_m, round_up(c.m, 16))
    columns = np.minimum(
        np.ceil(np.ceil(c.n / x.share_n) / (x.n_cores * x.rounds)) * x.share_n, round_up(c.n, 16)
    )
    rounds = matrices * x.rounds
    tiles = rounds * x.m_tiles * x.n_tiles
    steps = np.ceil(c.k / x.k)
    depth = np.ceil(c.k / ck)
    m_pipe = rounds * np.ceil(rows / cm) * np.ceil(columns / cn) * depth + tiles * steps * rates.mmad_head
    # L1 → L0A and L0B.
    a_bytes = rounds * x.n_tiles * rows * c.k * size
    b_bytes = rounds * x.m_tiles * columns * c.k * size
    mte1 = a_bytes / rates.l0a + b_bytes / rates.l0b + tiles * steps * 2 * rates.load_head
    # GM → L1: by lines, by pieces (rows of the packet in memory) and by packets. What stays is not sent for.
    packets_a = np.ceil(steps / x.step_ka)
    packets_b = np.ceil(steps / x.step_kb)
    stays_a = packets_a == 1
    stays_b = (packets_b == 1) & (x.n_tiles * x.rounds == 1)
    times_a = np.where(stays_a, 1, x.n_tiles)
    times_b = np.where(stays_b, 1, x.m_tiles)
    a_pitch, b_pitch = c.pitches()
    deep_a = np.minimum(x.k * x.step_ka, c.k)
    deep_b = np.minimum(x.k * x.step_kb, c.k)
    if c.transpose_a:
        a_start = _starts(c, a_pitch, x.share_m, rates.line)
        a_read = (
            c.k
            * x.m_tiles
            * _lines_of_share(c.m, x.share_m, x.m_cores * x.m_tiles, size, a_start, rates.line)
        )
        a_pieces = c.k * x.m_tiles
    else:
        depth_a = c.k / packets_a
        a_read = (
            rows
            * packets_a
            * _lines(depth_a * size, _starts(c, a_pitch, x.k * x.step_ka, rates.line), rates.line)
        )
        a_pieces = rows * packets_a
    if c.transpose_b:
        depth_b = c.k / packets_b
        b_read = (
            columns
            * packets_b
            * _lines(depth_b * size, _starts(c, b_pitch, x.k * x.step_kb, rates.line), rates.line)
        )
        b_pieces = columns * packets_b
    else:
        b_start = _starts(c, b_pitch, x.share_n, rates.line)
        parts = x.rounds * x.n_cores * x.n_tiles
        b_read = c.k * x.n_tiles * _lines_of_share(c.n, x.share_n, parts, size, b_start, rates.line)
        b_pieces = c.k * x.n_tiles
    read = rounds * (times_a * a_read + times_b * b_read)
    pieces = rounds * (times_a * a_pieces + times_b * b_pieces)
    packets = rounds * (times_a * x.m_tiles * packets_a + times_b * x.n_tiles * packets_b)
    cores = x.batch_cores * x.m_cores * x.n_cores
    rate = np.minimum(rates.read, rates.l2 / cores)
    # What is not in L2 yet comes slower, to the core that asks first: A once in each round, B once.
    missed = matrices * c.k * size * x.rounds * (rows / x.n_cores + columns / x.m_cores)
    mte2 = read / rate + missed * (1 / rates.missing - 1 / rates.read)
    mte2 = mte2 + pieces * rates.copy_piece + packets * rates.copy_head
    fix = rounds * rows * columns * out / rates.write + tiles * rates.copy_head
    memory = c.batch * (c.k * size * (c.m * x.rounds + c.n) + c.m * c.n * out) / rates.hbm
    # Before the first Mmad: its packets; after the last one: its result.
    first = 2 * rates.copy_latency + (x.m * deep_a + x.n * deep_b) * size / rate
    last = x.m * x.n * out / rates.write
    if options.double_buffer_l1 and options.double_buffer_l0:
        # The longest; the others count a little, for where they meet.
        longest = np.maximum(np.maximum(m_pipe, mte1), np.maximum(mte2, fix))
        busy = longest + 0.05 * (m_pipe + mte1 + mte2 + fix - longest)
    elif options.double_buffer_l0:
        busy = mte2 + packets * rates.copy_latency + np.maximum(m_pipe, mte1)
    else:
        busy = np.maximum(mte2, 0) + m_pipe + mte1
        if options.double_buffer_l1:
            busy = np.maximum(mte2, m_pipe + mte1)
    if not options.unit_flag and not options.double_buffer_l0c:
        busy = busy + fix
    total = rates.launch + rates.launch_core * cores + first + np.maximum(busy, memory) + last
    return {"MAC": m_pipe, "MTE1": mte1, "MTE2": mte2, "FIXP": fix, "memory": memory, "total": total}
