"""What a launch costs on a chip: the simulator's log, replayed on a model of its pipes and memories.

The model, its parameters and how far it is from published measurements: docs/ascend.md, "The cost model". The
engine is ``src/replay.cpp``; the figures are the chip's (``ascend/chips/*.toml``).
"""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...ops.errors import ArgumentError
from ..ascend.chip import Chip
from . import library
from .log import DTYPES, PATHS, PIPES, CoreLog, Log
from .timeline import Timeline

_CORE_PIPES = PIPES[:-1]
_KINDS = ("vector", "cube")
_LAUNCH_SHARE = 0.5  # of the time, from which on a kernel is said to be bound by its launch
_SATURATED = 0.8  # of a memory's bandwidth over the kernel's time: it is bound by that
_FULL = 0.9  # of the time a unit that computes is busy: it is bound by that
_BUSY = 0.7  # of the time any pipe is busy: it is bound by that


class _Parameters(ctypes.Structure):
    _fields_ = (
        *(
            (name, ctypes.c_double)
            for name in (
                "hbm", "l2", "fabric", "hbm_rate", "l2_rate", "l2_bytes", "line", "sector", "backlog",
                "launch", "launch_core", "start", "queue_depth", "sync_all",
                "issue_vector", "issue_copy", "issue_cube", "issue_flag", "issue_instruction", "issue_bypass",
                "wait", "write_aligned", "write_span", "write_rate", "mmad_head", "conflict",
            )
        ),
        ("cores", ctypes.c_double * 2),
        ("steps", ctypes.c_double * 3 * len(DTYPES)),
        ("copies", ctypes.c_double * 4 * len(PATHS)),
    )  # fmt: skip


class _CoreInput(ctypes.Structure):
    _fields_ = (
        ("records", ctypes.c_void_p),
        ("count", ctypes.c_int64),
        ("kind", ctypes.c_int32),
        ("block", ctypes.c_int32),
        ("starts", ctypes.c_void_p),
        ("ends", ctypes.c_void_p),
    )


class _CoreOutput(ctypes.Structure):
    _fields_ = (
        ("begin", ctypes.c_double),
        ("end", ctypes.c_double),
        ("busy", ctypes.c_double * len(_CORE_PIPES)),
    )


class _Totals(ctypes.Structure):
    _fields_ = (
        ("time", ctypes.c_double),
        ("hbm_read", ctypes.c_double),
        ("hbm_write", ctypes.c_double),
        ("l2_read", ctypes.c_double),
        ("l2_write", ctypes.c_double),
        ("must_read", ctypes.c_double),
        ("must_write", ctypes.c_double),
        ("stuck", ctypes.c_int64),
        ("at", ctypes.c_int64),
    )


@functools.cache
def _engine() -> Any:
    function = library.load().sim_replay
    function.restype = ctypes.c_int
    function.argtypes = (
        ctypes.POINTER(_Parameters),
        ctypes.c_void_p,
        ctypes.c_int64,
        ctypes.POINTER(_CoreInput),
        ctypes.c_int64,
        ctypes.c_int32,
        ctypes.POINTER(_CoreOutput),
        ctypes.POINTER(_Totals),
    )
    return function


@dataclass(frozen=True, slots=True)
class PipeUse:
    """How long a pipe was busy: microseconds of one core, on average and at most."""

    mean_us: float
    max_us: float


@dataclass(frozen=True, slots=True)
class Cost:
    """What a launch costs.

    Attributes
    ----------
    chip, kernel : str
    time_us : float
        From the host's order to the end of the last core, in microseconds.
    core_us : float
        A core's time on average: without the launch.
    cores : int
        Cores (or blocks) that took part.
    pipes : mapping from pipe to PipeUse
        In a kernel of both kinds of cores, ``"cube MTE2"`` and ``"vector MTE2"`` are two.
    utilisation : mapping from pipe to float
        Busy time over the core's time, on average.
    bytes : mapping
        ``hbm_read``, ``hbm_write``, ``l2_read``, ``l2_write``: what was moved. ``must_read`` and
        ``must_write``: what the kernel reads and writes if each byte moves once.
    least_us : mapping from what bounds to float
        The least time of each: the bytes that must move at the bandwidth of HBM, of L2 and of the fabric (the
        way through the chip of reads from HBM and of writes), the cube's and the vector unit's work spread
        evenly over all cores, and the launch.
    bound_us : float
        The launch and the longest of the others: no schedule of these instructions is faster.
    bound : str
        What keeps the kernel from being faster.
    efficiency : float
        ``bound_us / time_us``.
    timeline : Timeline
    """

    chip: str
    kernel: str
    time_us: float
    core_us: float
    cores: int
    pipes: Mapping[str, PipeUse]
    utilisation: Mapping[str, float]
    bytes: Mapping[str, float]
    least_us: Mapping[str, float]
    bound_us: float
    bound: str
    timeline: Timeline

    @property
    def efficiency(self) -> float:
        """The least time over the predicted one."""
        return self.bound_us / self.time_us

    def __str__(self) -> str:
        lines = [
            f"{self.kernel} on {self.chip}, {self.cores} cores: {_us(self.time_us)} µs, "
            f"bound by {self.bound}",
            f"  least time {_us(self.bound_us)} µs ({self.efficiency:.0%} of it reached): "
            + ", ".join(f"{name} {_us(least)}" for name, least in self.least_us.items() if least > 0),
            f"  HBM {_size(self.bytes['hbm_read'])} read, {_size(self.bytes['hbm_write'])} written; "
            f"L2 {_size(self.bytes['l2_read'])} read, {_size(self.bytes['l2_write'])} written",
            f"  {'pipe':<12}{'mean µs':>10}{'max µs':>10}{'busy':>7}",
        ]
        for name, use in self.pipes.items():
            lines.append(
                f"  {name:<12}{_us(use.mean_us):>10}{_us(use.max_us):>10}{self.utilisation[name]:>7.0%}"
            )
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Cost of {self.kernel}: {_us(self.time_us)} µs, bound by {self.bound}>"


def replay(log: Log, chip: Chip, *, warm: bool = False) -> Cost:
    """What the launch costs on a chip.

    Parameters
    ----------
    log : Log
        Of the simulator, run with ``cost=True``.
    chip : Chip
    warm : bool
        Whether the kernel was launched before with the same arguments, as where a median of many launches is
        measured: L2 then holds what the last launch left there. Otherwise L2 starts empty.

    Raises
    ------
    ArgumentError
        If there are no figures for that chip, or the log stops at a wait that nothing ends.
    """
    parameters = _parameters(chip)
    costs = _instruction_costs(chip, log.names)
    records = [np.ascontiguousarray(core.records) for core in log.cores]
    starts = [np.full(len(part), np.nan) for part in records]
    ends = [np.full(len(part), np.nan) for part in records]
    inputs = (_CoreInput * len(records))(
        *(
            _CoreInput(
                part.ctypes.data,
                len(part),
                _KINDS.index(core.kind),
                core.block,
                start.ctypes.data,
                end.ctypes.data,
            )
            for core, part, start, end in zip(log.cores, records, starts, ends, strict=True)
        )
    )
    outputs = (_CoreOutput * len(records))()
    totals = _Totals()
    failed = _engine()(
        ctypes.byref(parameters), costs.ctypes.data, len(costs), inputs, len(records), 2 if warm else 1,
        outputs, ctypes.byref(totals),
    )  # fmt: skip
    if failed:
        line = int(records[totals.stuck]["line"][min(totals.at, len(records[totals.stuck]) - 1)])
        raise ArgumentError(
            "[cost] expected a log in which every wait ends, "
            f"given one in which core {totals.stuck} stops at line {line}"
        )
    return _cost(log, chip, totals, list(outputs), records, starts, ends)


def _parameters(chip: Chip) -> _Parameters:
    timing = chip.timing
    if timing is None or "hbm_bandwidth" not in timing:
        raise ArgumentError(
            "[cost] expected a chip whose bandwidths are published (910B1, 910B2, 910B3, 910C), "
            f"given {chip.name}"
        )
    scalar, write = timing["scalar"], timing["write"]
    per_us = float(chip.clock_mhz)
    parameters = _Parameters(
        hbm=timing["hbm_bandwidth"] / chip.clock,
        l2=timing["l2_bandwidth"] / chip.clock,
        fabric=timing["fabric_bandwidth"] / chip.clock,
        hbm_rate=chip.rates.ddr_read,
        l2_rate=chip.rates.l2_read,
        l2_bytes=chip.capacity.l2,
        line=timing["line"],
        sector=timing["sector"],
        backlog=timing["backlog"],
        launch=timing["launch_us"] * per_us,
        launch_core=timing["launch_core_us"] * per_us,
        start=timing["start_cycles"],
        queue_depth=timing["queue_depth"],
        sync_all=timing["sync_all_cycles"],
        issue_vector=scalar["vector"],
        issue_copy=scalar["copy"],
        issue_cube=scalar["cube"],
        issue_flag=scalar["flag"],
        issue_instruction=scalar["instruction"],
        issue_bypass=scalar["bypass"],
        wait=scalar["wait"],
        write_aligned=write["aligned"],
        write_span=write["span"],
        write_rate=write["rate"],
        mmad_head=timing["cube"]["head"],
        conflict=timing["vector"]["conflict"],
    )
    parameters.cores[:] = [chip.vector_cores, chip.cube_cores]
    for number, dtype in enumerate(DTYPES):
        parameters.steps[number][:] = chip.cube.get(dtype, (0, 0, 0))
    for number, path in enumerate(PATHS):
        copy = timing["copy"].get(path, {})
        parameters.copies[number][:] = [copy.get(key, 0) for key in ("head", "latency", "piece", "rate")]
    return parameters


def _instruction_costs(chip: Chip, names: Sequence[str]) -> np.ndarray[Any, np.dtype[np.float64]]:
    assert chip.timing is not None
    known = chip.timing["vector"]
    return np.array([known.get(name, known["default"]) for name in [*names, "default"]], np.float64)


def _cost(
    log: Log,
    chip: Chip,
    totals: _Totals,
    outputs: Sequence[_CoreOutput],
    records: list[np.ndarray[Any, Any]],
    starts: list[np.ndarray[Any, Any]],
    ends: list[np.ndarray[Any, Any]],
) -> Cost:
    per_us = float(chip.clock_mhz)
    kinds = sorted({core.kind for core in log.cores})
    pipes: dict[str, PipeUse] = {}
    utilisation: dict[str, float] = {}
    for kind in kinds:
        members = [output for core, output in zip(log.cores, outputs, strict=True) if core.kind == kind]
        core_time = sum(output.end - output.begin for output in members) / len(members)
        for number, pipe in enumerate(_CORE_PIPES):
            busy = [output.busy[number] for output in members]
            if not any(busy):
                continue
            name = pipe if len(kinds) == 1 else f"{kind} {pipe}"
            pipes[name] = PipeUse(sum(busy) / len(busy) / per_us, max(busy) / per_us)
            utilisation[name] = sum(busy) / len(busy) / core_time if core_time else 0.0
    assert chip.timing is not None
    time_us = totals.time / per_us
    launch_us = (min(output.begin for output in outputs) + chip.timing["start_cycles"]) / per_us
    must = totals.must_read + totals.must_write
    least = {
        # What L2 kept from the launch before need not come from HBM.
        "HBM bandwidth": min(must, totals.hbm_read + totals.hbm_write) / chip.timing["hbm_bandwidth"] * 1e6,
        "L2 bandwidth": must / chip.timing["l2_bandwidth"] * 1e6,
        "fabric": (min(totals.must_read, totals.hbm_read) + totals.must_write)
        / chip.timing["fabric_bandwidth"]
        * 1e6,
        **_least_compute(log, chip, records),
        "launch": launch_us,
    }
    shared = {
        "HBM bandwidth": (totals.hbm_read + totals.hbm_write) / chip.timing["hbm_bandwidth"] * 1e6,
        "L2 bandwidth": totals.l2_read / chip.timing["l2_bandwidth"] * 1e6,
        "fabric": (totals.hbm_read + totals.l2_write) / chip.timing["fabric_bandwidth"] * 1e6,
    }
    bound = _bound(time_us, launch_us, shared, utilisation)
    caption = f"{log.kernel} on {chip.name}: {_us(time_us)} µs, bound by {bound}"
    spans = [(output.begin, output.end) for output in outputs]
    return Cost(
        chip=chip.name,
        kernel=log.kernel,
        time_us=time_us,
        core_us=sum(output.end - output.begin for output in outputs) / len(outputs) / per_us,
        cores=len(log.cores),
        pipes=pipes,
        utilisation=utilisation,
        bytes={name: getattr(totals, name) for name, _ in _Totals._fields_[1:7]},
        least_us=least,
        bound_us=launch_us + max(value for name, value in least.items() if name != "launch"),
        bound=bound,
        timeline=Timeline.of(log, caption, per_us, spans, starts, ends, time_us),
    )


def _least_compute(log: Log, chip: Chip, records: list[np.ndarray[Any, Any]]) -> dict[str, float]:
    """Microseconds of the vector units and of the cubes with their work spread over all cores of the chip."""
    assert chip.timing is not None
    table = _instruction_costs(chip, log.names)
    vector = cube = 0.0
    for core, part in zip(log.cores, records, strict=True):
        instructions = part[part["event"] == 0]
        if core.kind == "vector":
            of = instructions[(instructions["pipe"] == PIPES.index("V")) & (instructions["path"] == 0)]
            width = np.searchsorted([2, 4], of["bytes"])
            vector += float(np.sum(of["repeats"] * table[np.minimum(of["name"], len(table) - 1), 1 + width]))
        else:
            of = instructions[instructions["pipe"] == PIPES.index("M")]
            for number in np.unique(of["dtype"]):
                m, n, k = chip.cube.get(DTYPES[number], (math.inf, math.inf, math.inf))
                these = of[of["dtype"] == number]
                cube += float(np.sum(these["m"].astype(float) * these["n"] * these["k"])) / (m * n * k)
    return {
        "vector unit": vector / chip.vector_cores / chip.clock_mhz,
        "cube": cube / chip.cube_cores / chip.clock_mhz,
    }


def _bound(
    time_us: float, launch_us: float, shared: Mapping[str, float], utilisation: Mapping[str, float]
) -> str:
    """What keeps the kernel from being faster, by the times that shared memories and pipes are busy."""
    if launch_us > _LAUNCH_SHARE * time_us:
        return "launch"
    for name, busy_us in shared.items():
        if busy_us > _SATURATED * (time_us - launch_us):
            return name
    for pipe, name in (("M", "cube"), ("V", "vector unit")):
        if any(of.split()[-1] == pipe and busy > _FULL for of, busy in utilisation.items()):
            return name
    busiest = max(utilisation, key=lambda name: utilisation[name])
    return busiest if utilisation[busiest] > _BUSY else f"waiting ({busiest} is busiest)"


def _us(value: float) -> str:
    return f"{value:.1f}" if value < 1000 else f"{value:.0f}"


def _size(count: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count:.0f} B"


__all__ = ["CoreLog", "Cost", "Log", "PipeUse", "replay"]
