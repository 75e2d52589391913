"""The cost model beside published measurements: the kernels of calibration/, run for their cost.

Published figures are of the Atlas A2 (910B1), in microseconds, medians of many launches; a pipe's time is the
mean over the cores. They come from the open Ascend C devkit, ``examples/01_simd_cpp_api/05_best_practices``:
the README of ``add_high_performance``, of ``matmul_basic_api_high_performance``, and of ``data_copy``.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pyasc.backend.ascend import chip
from pyasc.backend.sim import cost
from pyasc.backend.sim.simulator import Extent, Module, Simulator

KERNELS = Path(__file__).parent / "calibration"
MATRIX = 8192 * 8192 * 2
LARGE = 12288


@dataclass(frozen=True)
class Published:
    """A measurement.

    Attributes
    ----------
    name : str
    kernel : str
        The file in calibration/.
    cores : str
        ``"vector"`` or ``"cube"``.
    blocks : int
    buffers : tuple of int
        Bytes of each.
    tiling : tuple of int
    task : float
        Microseconds of the whole.
    pipes : mapping from pipe to float
        Microseconds that each is busy.
    fitted : bool
        Whether a parameter of the model was set from this row.
    """

    name: str
    kernel: str
    cores: str
    blocks: int
    buffers: tuple[int, ...]
    tiling: tuple[int, ...]
    task: float
    pipes: dict[str, float]
    fitted: bool = True


def _add(
    name: str, blocks: int, kernel: str, tiling: tuple[int, ...], task: float, *busy: float
) -> Published:
    pipes = dict(zip(("V", "S", "MTE2", "MTE3"), busy, strict=True))
    return Published(name, kernel, "vector", blocks, (MATRIX,) * 3, (8192, 8192, *tiling), task, pipes)


def _matmul(name: str, tiling: tuple[int, ...], task: float, *busy: float) -> Published:
    pipes = dict(zip(("M", "MTE1", "MTE2", "FIX", "S"), busy, strict=True))
    return Published(name, "matmul", "cube", 24, (MATRIX,) * 3, (8192, *tiling), task, pipes)


def _copy(
    name: str,
    path: str,
    tiling: tuple[int, ...],
    task: float,
    busy: float,
    columns: int = LARGE,
    fitted: bool = True,
) -> Published:
    cores, blocks = ("vector", 48) if path == "ub" else ("cube", 24)
    return Published(
        f"GM to {path.upper()}, {name}", f"copy_{path}", cores, blocks, (LARGE * LARGE * 2,),
        (LARGE, columns, *tiling), task, {"MTE2": busy}, fitted,
    )  # fmt: skip


ADDITION = "z = x + y, float16, 8192 × 8192"
PRODUCT = "c = a · bᵀ, float16, 8192³, tile 128 × 256 × 64"
COPIES = "reading float16, 12288 × 12288"

PUBLISHED: dict[str, tuple[Published, ...]] = {
    ADDITION: (
        _add("one core, 8 KiB a copy", 1, "add", (4096,), 6909.6, 761.7, 231.2, 6208.8, 2613.2),
        _add("48 cores, 8 KiB a copy", 48, "add", (4096,), 306.6, 15.9, 8.2, 215.5, 54.3),
        _add("48 cores, 32 KiB a copy", 48, "add", (16384,), 268.5, 12.8, 2.8, 184.4, 57.4),
        _add("the same, double-buffered", 48, "add_double", (16384, 0, 0), 264.0, 12.8, 2.8, 250.5, 85.0),
        _add("the same, inputs bypass L2", 48, "add_double", (16384, 1, 0), 187.7, 12.8, 4.5, 176.0, 160.3),
        _add(
            "the same, inputs in different banks",
            48,
            "add_double",
            (16256, 1, 256),
            184.5,
            7.0,
            3.4,
            171.6,
            121.4,
        ),
    ),
    PRODUCT: (
        _matmul("one round over m", (2048, 1536, 1), 4121.2, 3081.7, 2538.3, 3552.2, 160.4, 337.3),
        _matmul("two rounds over m", (1024, 1536, 2), 4081.6, 3082.2, 2553.1, 3487.1, 161.8, 345.1),
    ),
    COPIES: (
        _copy("tiles 1 × 64", "ub", (1, 64, 1, 1), 564.8, 548.2),
        _copy("tiles 64 × 64", "ub", (64, 64, 1, 1), 233.5, 220.8),
        _copy("tiles 64 × 1024", "ub", (64, 1024, 1, 1), 215.8, 202.7, fitted=False),
        _copy(
            "tiles 64 × 1024, rows of 12287", "ub", (64, 1024, 1, 1), 275.3, 259.0, LARGE - 1, fitted=False
        ),
        _copy("four times over", "ub", (64, 1024, 4, 1), 828.1, 816.0, fitted=False),
        _copy("four times each quarter", "ub", (64, 1024, 4, 4), 365.7, 354.6),
        _copy("tiles 64 × 64", "l1", (64, 64, 1, 1), 300.7, 283.5, fitted=False),
        _copy("tiles 64 × 256", "l1", (64, 256, 1, 1), 230.2, 214.5, fitted=False),
        _copy("tiles 64 × 256, rows of 12287", "l1", (64, 256, 1, 1), 438.8, 422.5, LARGE - 1, fitted=False),
        _copy("four times over", "l1", (64, 1024, 4, 1), 899.3, 872.2, fitted=False),
        _copy("four times each quarter", "l1", (64, 1024, 4, 4), 415.0, 397.8, fitted=False),
    ),
}


@dataclass(frozen=True)
class Comparison:
    """A published row beside the model's: of the whole and of each pipe, (published, model)."""

    row: Published
    task: tuple[float, float]
    pipes: dict[str, tuple[float, float]]

    @property
    def error(self) -> float:
        """Of the whole, as a share of what was published."""
        return self.task[1] / self.task[0] - 1

    @property
    def pipe_errors(self) -> dict[str, float]:
        return {pipe: model / published - 1 for pipe, (published, model) in self.pipes.items()}


def compare(row: Published) -> Comparison:
    """Run a row's kernel for its cost, as launched again and again."""
    model = run(row)
    return Comparison(
        row,
        (row.task, model.time_us),
        {pipe: (published, model.pipes[pipe].mean_us) for pipe, published in row.pipes.items()},
    )


def run(row: Published) -> cost.Cost:
    """The cost of a row's kernel."""
    module = _module(row.kernel)
    arguments = [*(Extent(size) for size in row.buffers), struct.pack(f"{len(row.tiling)}i", *row.tiling)]
    log = module.run(row.blocks, arguments, check=False, cost=True, move=False, cores=row.cores)
    assert log is not None
    return cost.replay(log, module.chip, warm=True)


@cache
def _module(kernel: str) -> Module:
    source = (KERNELS / f"{kernel}.asc").read_text(encoding="utf-8")
    return Simulator(chip.load("910B1"), None).compile(source, kernel)
