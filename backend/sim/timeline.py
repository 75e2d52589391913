"""When each pipe of each core was busy, with what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .log import PIPES, Log


@dataclass(frozen=True, slots=True)
class CoreTimeline:
    """One core: of each instruction its pipe, start and end in microseconds, name and line."""

    kind: str
    block: int
    begin: float
    end: float
    pipe: npt.NDArray[np.uint8]
    start: npt.NDArray[np.float64]
    stop: npt.NDArray[np.float64]
    name: npt.NDArray[np.uint16]
    line: npt.NDArray[np.uint16]


@dataclass(frozen=True, slots=True)
class Timeline:
    kernel: str
    names: Sequence[str]
    time_us: float
    cores: tuple[CoreTimeline, ...]

    @classmethod
    def of(cls, log: Log, per_us: float, outputs: Sequence[Any], starts: Any, ends: Any, time_us: float) -> Timeline:
        cores = []
        for core, output, start, end in zip(log.cores, outputs, starts, ends, strict=True):
            ran = ~np.isnan(start)
            of = core.records[ran]
            cores.append(
                CoreTimeline(
                    core.kind, core.block, output.begin / per_us, output.end / per_us,
                    of["pipe"], start[ran] / per_us, end[ran] / per_us, of["name"], of["line"],
                )
            )  # fmt: skip
        return cls(log.kernel, log.names, time_us, tuple(cores))
