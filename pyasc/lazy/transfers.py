"""What a schedule moves between the host's memory and a device's, for people to read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..backend.base import HOST, Backend
from ..ops._graph import Tape
from ..ops.primitives import LEAF, SCALAR, VIEW
from .handwritten import Handwritten
from .lower import LoweredKernel
from .pipeline import Lowered
from .residence import device_product, runs_on_host
from .schedule import Schedule, Step


@dataclass(frozen=True, slots=True)
class Move:
    """One copy between the host and a device.

    Attributes
    ----------
    value : int
        Of the schedule's graph.
    step : int
        That reads it there.
    device : int
        Where it goes to; `HOST` for the host.
    nbytes : int
    """

    value: int
    step: int
    device: int
    nbytes: int


def transfers(tape: Tape, cut: Schedule, kernels: Sequence[Lowered], backend: Backend) -> list[Move]:
    """The copies that a schedule makes, in order, from where the tape's leaves are now."""
    if backend.device == HOST:
        return []
    values = cut.graph.values
    at: dict[int, set[int]] = {}
    for v, value in enumerate(values):
        if value.primitive is LEAF:
            buffer = tape.nodes[value.position].buffer
            at[v] = {HOST} if buffer is None or buffer.on_host else set()
            if buffer is not None and buffer.device >= 0:
                at[v].add(buffer.device)
    found: list[Move] = []
    for n, (step, made) in enumerate(zip(cut.steps, kernels, strict=True)):
        needed: set[int] = set()
        if isinstance(made, Handwritten):
            needed = {part.backend.device for part in made.parts}
        elif made is None and device_product(cut, step, backend) is not None:
            needed = {backend.device}
        else:
            needed = {HOST if runs_on_host(made) else backend.device}
        for v in _reads(cut, step, made):
            for device in sorted(needed):
                places = at.get(v, {device})
                if device not in places:
                    value = values[v]
                    found.append(Move(v, n, device, value.size * value.dtype.itemsize))
                    places.add(device)
        for v in step.members:
            at[v] = {made.parts[-1].backend.device} if isinstance(made, Handwritten) else set(needed)
    return found


def _reads(cut: Schedule, step: Step, made: Lowered) -> list[int]:
    """The values in memory that a step reads."""
    values = cut.graph.values
    if isinstance(made, LoweredKernel):
        read = [v for v in made.operands if v not in step.members]
    elif isinstance(made, Handwritten):
        read = list(made.owners)
    else:
        (v,) = step.members
        read = [o for o in values[v].operands if values[o].primitive is not SCALAR]
        read = [
            values[o].operands[0] if values[o].primitive is VIEW and o not in cut.stored else o for o in read
        ]
    return list(dict.fromkeys(read))
