"""What a user is told when a device failed: the kernels that may be meant, with their shapes and lines.

A device fails later than it was asked to compute. What the latest runs launched is kept until then: the notes
of their plans, and where each operation was recorded, but nothing that holds memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from types import CodeType
from typing import NamedTuple

from ..backend import _runtime
from ..ops.errors import BackendError, DeviceError, recorded_line
from .events import Note

KEPT = 256  # runs; more are hardly in flight at once
SHOWN = 3

Where = tuple[CodeType, int] | None


class Run(NamedTuple):
    """One run of a plan on a device.

    Attributes
    ----------
    number : int
    notes : sequence of Note
        Of the launches and calls of its plan.
    where : sequence
        Where the operation of each was recorded.
    """

    number: int
    notes: Sequence[Note]
    where: Sequence[Where]


runs: deque[Run] = deque(maxlen=KEPT)


def error_of(failure: _runtime.DeviceFailure, current: Run | None = None) -> BackendError:
    """The error for a failure; `current` is the run that is being put into the lanes, if any."""
    known = {run.number: run for run in runs}
    if current is not None:
        known[current.number] = current
    meant: list[tuple[Note, Where]] = []
    for number, label in failure.launches:
        run = known.get(number)
        if run is not None:
            meant += [
                (note, where) for note, where in zip(run.notes, run.where, strict=True) if note.label == label
            ][:1]
    text = failure.text or "an error of the device"
    said = f": {failure.message.strip()}" if failure.message.strip() else ""
    name = meant[0][0].name if meant else failure.call
    kernels = [f"{note.name}({note.operands}){_line(where)}" for note, where in meant[:SHOWN]]
    if not meant:
        culprit = ""
    elif len(meant) == 1:
        culprit = f", in the kernel {kernels[0]}"
    else:
        more = f"\n    and {len(meant) - SHOWN} more" if len(meant) > SHOWN else ""
        culprit = (
            ", in one of the kernels that were not through (pyasc.config.launch_blocking = True says which):"
            + "".join(f"\n    {kernel}" for kernel in kernels)
            + more
        )
    advice = (
        f". The device must be reset: pyasc.reset_device('npu:{failure.device}'); "
        "what only its memory had is lost"
        if failure.lost
        else ""
    )
    line = recorded_line(meant[0][1]) if meant and meant[0][1] is not None else None
    # That is no call of ACL's, and the text says it in full.
    code = "" if failure.call == "fork" else f" ({failure.call}: {failure.code}{said})"
    return DeviceError(
        f"[{name}] expected npu:{failure.device} to compute, given {text}{code}{culprit}{advice}",
        line,
    )


def _line(where: Where) -> str:
    if where is None:
        return ""
    filename, number, _ = recorded_line(where)
    return f" at {filename}:{number}"
