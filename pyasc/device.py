"""The devices that there are, and which of them a tensor is on."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from typing import Any

from .backend import _runtime
from .backend.base import HOST
from .lazy import backends, evaluate, placement
from .lazy.handwritten import linearise
from .ops import _graph
from .ops.errors import ArgumentError
from .ops.storage import copy


@dataclass(frozen=True)
class Device:
    """A device that tensors may be put on.

    Attributes
    ----------
    name : str
        As `pyasc.backend` and `Tensor.to_device` take it: ``"cpu"``, ``"npu:0"``.
    chip : str
        ``"910B1"``; of the CPU its architecture.
    memory : int
        Bytes that it has: as the driver says where the device is in use, else as the chip's data says.
    free : int or None
        Bytes of it that nobody uses; None for a device that this process has not used yet.
    toolkit : str
        The version of CANN; "" for the CPU.
    """

    name: str
    chip: str
    memory: int
    free: int | None
    toolkit: str = ""


class Devices(list[Device]):
    """A list of devices that prints as a table.

    Attributes
    ----------
    note : str
        Why no NPU can be used; "" where one can.
    """

    def __init__(self, found: list[Device], note: str = "") -> None:
        super().__init__(found)
        self.note = note

    def __repr__(self) -> str:
        rows = [("device", "chip", "memory", "free", "CANN")]
        rows += [(d.name, d.chip, _gib(d.memory), _gib(d.free), d.toolkit) for d in self]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
        return "\n".join(lines + ([f"no NPU: {self.note}"] if self.note else []))


def _gib(nbytes: int | None) -> str:
    return "" if nbytes is None else f"{nbytes / 2**30:.1f} GiB"


def devices() -> Devices:
    """The devices that there are: the CPU, and each NPU that CANN and its driver see.

    Returns
    -------
    list of Device
        It prints as a table, with the reason where no NPU can be used. ACL is loaded where it is installed,
        but no device is opened.
    """
    page = os.sysconf("SC_PAGE_SIZE")
    total: int
    free: int | None
    total, free = (page * os.sysconf(name) for name in ("SC_PHYS_PAGES", "SC_AVPHYS_PAGES"))
    found = [Device("cpu", platform.machine(), total, free)]
    try:
        detected = backends.detected()
    except backends.UnusableError as error:
        return Devices(found, str(error))
    from .backend.ascend.chip import load

    for number in range(detected.count):
        total, free = load(detected.chip).capacity.hbm, None
        if _runtime.device_is_open(number):
            stats = _runtime.device_stats(number)
            total, free = stats["total"], stats["free"]
        found.append(Device(f"npu:{number}", detected.chip, total, free, detected.toolkit.version))
    note = "" if detected.count else f"CANN {detected.toolkit.version} sees no device"
    return Devices(found, note)


def reset_device(device: str) -> None:
    """Make an NPU usable again after an error that says so. Everything that only its memory has is lost.

    Parameters
    ----------
    device : str
        ``"npu:0"``.

    Raises
    ------
    ArgumentError
        For a device that is not there.
    """
    number = backends.device_number(device, "reset_device")
    if number >= 0:
        _runtime.device_reset(number)


def device_of(x: Any) -> str:
    """The device that has a tensor's values, or will compute them."""
    node = evaluate.owner(x).node
    number = HOST
    if node.buffer is not None:
        number = node.buffer.device
    else:
        if placement.in_use():
            tape = linearise([node], False)
            number = next(iter(placement.devices_of(tape.nodes[p].buffer for p in tape.leaves)), number)
        if number < 0:
            number = backends.npu_number(evaluate.selected())
    return "cpu" if number < 0 else f"npu:{number}"


def to_device(x: Any, device: Any, stream: Any = None, operation: str = "to_device") -> Any:
    """A tensor's values on a device; the tensor itself where they are there."""
    number = backends.device_number(device, operation)
    if stream is not None:
        raise ArgumentError(
            f"[{operation}] expected stream=None, as pyasc orders its work itself, given {stream!r}"
        )
    pending = x.base is None and x.node.buffer is None
    if number < 0 and pending and device_of(x) == "cpu":
        return x
    if x.base is not None:
        x = copy(x)
    buffer = evaluate.buffer_of(x)
    if buffer.device == number and buffer.committed == (number >= 0):
        return x
    return _graph.tensor(_graph.leaf(placement.put(buffer, number), x.shape, x.dtype))
