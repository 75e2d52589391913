"""Which device a trace is computed on, where a user put arrays on one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..backend import _runtime
from ..ops._graph import Node, Tape
from ..ops.errors import BackendError, recorded_line

# Whether anything was ever put on a device: until then nothing is looked for.
_placed = False


def in_use() -> bool:
    """Whether arrays were put on devices."""
    return _placed


def put(buffer: _runtime.Buffer, device: int) -> _runtime.Buffer:
    """A buffer with the same contents on a device, where what is computed from it will be; -1: on the host,
    from where each backend may take it. The copy begins, nothing waits for it."""
    global _placed
    _placed = _placed or device >= 0
    return _runtime.to_device(buffer, device, device >= 0)


def adopt(address: int, nbytes: int, device: int, owner: object) -> _runtime.Buffer:
    """A buffer on memory of a device that another library holds."""
    global _placed
    _placed = True
    return _runtime.wrap_device(address, nbytes, device, owner)


def devices_of(buffers: Iterable[Any]) -> list[int]:
    """The devices that a user put any of the buffers on, in order."""
    if not _placed:
        return []
    return sorted({b.device for b in buffers if b is not None and b.committed})


def device_of(tape: Tape) -> int:
    """The device of a tape's leaves; -1 where none was put on one."""
    found = devices_of(tape.nodes[p].buffer for p in tape.leaves)
    assert len(found) < 2, "a tape of several devices is split first"
    return found[0] if found else -1


def split(tape: Tape) -> list[list[Node]]:
    """The outputs of a tape by the device that computes them; one list where it is the same for all.

    Raises
    ------
    BackendError
        Where an operation has operands on two devices, at the line that recorded it.
    """
    outputs = [tape.nodes[p] for p in tape.outputs]
    if len(devices_of(tape.nodes[p].buffer for p in tape.leaves)) < 2:
        return [outputs]
    where: dict[int, int] = {}
    for node in tape.nodes:
        if node.buffer is not None:
            found = set(devices_of([node.buffer]))
        else:
            found = {where[id(o)] for o in node.operands} - {-1}
        if len(found) > 1:
            given = " and ".join(f"npu:{n}" for n in sorted(found))
            raise BackendError(
                f"[{node.primitive.name}] expected operands on one device, given some on {given}; "
                "bring them together with to_device",
                recorded_line(node.where) if node.where else None,
            )
        where[id(node)] = found.pop() if found else -1
    groups: dict[int, list[Node]] = {}
    for node in outputs:
        groups.setdefault(where[id(node)], []).append(node)
    return list(groups.values())


def ready(devices: Sequence[int]) -> None:
    """Wait for devices; what failed there is raised."""
    for device in devices:
        _runtime.device_synchronize(device)
