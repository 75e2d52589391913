"""Logs written by hand, for tests of the cost model alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyasc.backend.sim.log import DTYPES, EVENTS, PATHS, PIPES, RECORD, CoreLog, Log

NAMES = ("Add", "DataCopy", "Mmad", "LoadData", "Fixpipe", "Exp", "SetFlag", "WaitFlag")


class CoreWriter:
    """Writes down what a core does."""

    def __init__(self, kind: str = "vector", block: int = 0) -> None:
        self.kind = kind
        self.block = block
        self._rows: list[np.ndarray[Any, Any]] = []

    def _write(
        self, event: str, pipe: str, to: str = "S", number: int = 0, name: str = "SetFlag", **work: int
    ) -> None:
        row = np.zeros((), RECORD)
        row["event"], row["pipe"], row["to"] = EVENTS.index(event), PIPES.index(pipe), PIPES.index(to)
        row["id"], row["name"], row["l2"], row["line"] = (
            number,
            NAMES.index(name),
            1,
            min(len(self._rows) + 1, 65535),
        )
        for field, value in work.items():
            row[field] = value
        self._rows.append(row)

    def vector(self, name: str, repeats: int, element: int = 2, conflicts: int = 0) -> None:
        self._write("Instruction", "V", name=name, repeats=repeats, bytes=element, m=conflicts)

    def copy(
        self,
        path: str,
        address: int,
        size: int,
        pieces: int = 1,
        stride: int = 0,
        bypass: bool = False,
        pipe: str = "",
    ) -> None:
        pipe = pipe or ("MTE3" if path == "UbToGm" else "MTE2")
        self._write(
            "Instruction", pipe, name="DataCopy", path=PATHS.index(path), address=address, bytes=size,
            repeats=pieces, stride=stride or size, l2=not bypass,
        )  # fmt: skip

    def mmad(self, m: int, n: int, k: int, dtype: str = "float16", unit_flag: int = 0) -> None:
        self._write(
            "Instruction", "M", name="Mmad", m=m, n=n, k=k, dtype=DTYPES.index(dtype), unit_flag=unit_flag
        )

    def fixpipe(self, address: int, m: int, size: int, stride: int, unit_flag: int = 0) -> None:
        self._write(
            "Instruction", "FIX", name="Fixpipe", path=PATHS.index("L0cToGm"), address=address, repeats=m,
            bytes=size, stride=stride, unit_flag=unit_flag,
        )  # fmt: skip

    def set(self, pipe: str, to: str, number: int = 0) -> None:
        self._write("SetFlag", pipe, to, number)

    def wait(self, pipe: str, to: str, number: int = 0) -> None:
        self._write("WaitFlag", pipe, to, number, name="WaitFlag")

    def event(self, event: str, pipe: str = "ALL", number: int = 0, **work: int) -> None:
        self._write(event, pipe, pipe, number, **work)

    def log(self) -> CoreLog:
        return CoreLog(self.kind, self.block, np.array(self._rows, RECORD))


def log(*cores: CoreWriter, kernel: str = "test") -> Log:
    return Log(kernel, NAMES, tuple(core.log() for core in cores))
