"""What a launch did, instruction by instruction: what the simulator keeps when it is asked for the cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

# sim::Record of include/sim/log.hpp, field for field.
RECORD = np.dtype(
    {
        "names": [
            "event", "pipe", "to", "id", "name", "line", "repeats", "bytes", "m", "n", "k",
            "path", "dtype", "l2", "unit_flag", "address", "stride",
        ],
        "formats": [
            "u1", "u1", "u1", "u1", "u2", "u2", "u4", "u4", "u4", "u4", "u4",
            "u1", "u1", "u1", "u1", "u8", "i8",
        ],
        "offsets": [0, 1, 2, 3, 4, 6, 8, 12, 16, 20, 24, 28, 29, 30, 31, 32, 40],
        "itemsize": 48,
    }
)  # fmt: skip

PIPES = ("S", "V", "M", "MTE1", "MTE2", "MTE3", "FIX", "ALL")
PATHS = (
    "None", "GmToUb", "UbToGm", "GmToL1", "L1ToGm", "UbToUb", "L1ToL0a", "L1ToL0b", "L1ToBt", "L1ToFb",
    "L0cToGm", "L0cToL1", "L0cToUb", "UbToL1", "GmToL0a", "GmToL0b",
)  # fmt: skip
EVENTS = (
    "Instruction", "SetFlag", "WaitFlag", "PipeBarrier", "ScalarWait", "CoreSet", "CoreWait", "SyncAll",
    "Scalar",
)  # fmt: skip
DTYPES = (
    "int4", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
    "float16", "bfloat16", "float32", "float64",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class CoreLog:
    """What one core did.

    Attributes
    ----------
    kind : str
        ``"vector"`` or ``"cube"``.
    block : int
        The block that it ran.
    records : array of RECORD
        In the order in which the scalar unit came to them.
    """

    kind: str
    block: int
    records: npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Log:
    """What all cores of a launch did.

    Attributes
    ----------
    kernel : str
        Its name.
    names : sequence of str
        The instructions' names, by the number in a record.
    cores : tuple of CoreLog
    """

    kernel: str
    names: Sequence[str]
    cores: tuple[CoreLog, ...]
