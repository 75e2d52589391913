"""The backends by name. All but the CPU's are imported when they are first asked for.

The CPU's is imported with the library: a process that forked while a thread imports it for its first kernel
would have a child that waits for that import forever.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

from ..backend.base import HOST, Backend
from ..backend.cpu.backend import CPU
from ..ops.errors import ArgumentError, warn
from .cache import kernels

if TYPE_CHECKING:
    from ..backend.ascend.backend import Ascend
    from ..backend.npu.toolkit import Detected

DEFAULT_CHIP = "910B1"

# A fork waits for it: a child would wait forever for a module that a thread of its parent was importing.
_detecting = threading.RLock()
_warned: set[str] = set()


def canonical(name: str) -> str:
    """The full name of a backend: ``"cpu"``, ``"npu:0"`` for ``"npu"``, or ``"sim:910B1"`` for ``"sim"``.

    Whether an NPU is there is not asked.

    Raises
    ------
    ArgumentError
        If there is no such backend, listing those there are.
    """
    kind, _, chip = name.partition(":")
    if name == "cpu":
        return name
    number = npu_number(name)
    if number >= 0:
        return f"npu:{number}"
    from ..backend.ascend.backend import chips

    if kind == "sim" and (chip or DEFAULT_CHIP) in chips():
        return f"sim:{chip or DEFAULT_CHIP}"
    simulated = ", ".join(f"'sim:{chip}'" for chip in chips())
    raise ArgumentError(
        f"[backend] expected 'cpu', 'sim' (a simulated {DEFAULT_CHIP}), one of {simulated}, or 'npu' or "
        f"'npu:0' for an NPU, given {name!r}"
    )


def npu_number(name: str) -> int:
    """The number of the NPU that a name stands for, which need not be there; `HOST` for any other name."""
    if name == "npu":
        return 0
    kind, _, number = name.partition(":")
    return int(number) if kind == "npu" and number.isascii() and number.isdigit() else HOST


# --- devices ------------------------------------------------------------------------------------------------


def default() -> str:
    """``"npu:0"`` where there is an NPU that can be used, else ``"cpu"``.

    A CANN or driver that is there and cannot be used costs one warning, which says what is wrong.
    """
    try:
        found = detected()
    except UnusableError as error:
        if error.broken and str(error) not in _warned:
            _warned.add(str(error))
            warn(
                f"[backend] computing on the CPU, not on an NPU: {error}. PYASC_BACKEND=cpu says that "
                "this is meant."
            )
        return "cpu"
    return "npu:0" if found.count else "cpu"


def device_number(device: Any, operation: str) -> int:
    """The number of a device, ``"cpu"`` (`HOST`), ``"npu"`` (the first) or ``"npu:0"``, that is there.

    Raises
    ------
    ArgumentError
        If there is no such device; the message says why, where an NPU might be expected.
    """
    if device == "cpu":
        return HOST
    number = npu_number(device) if isinstance(device, str) else HOST
    if number < 0:
        raise ArgumentError(f"[{operation}] expected device 'cpu' or 'npu:' and a number, given {device!r}")
    try:
        count = detected().count
    except UnusableError as error:
        raise ArgumentError(
            f"[{operation}] expected device 'cpu', as no NPU can be used here, given {device!r}: {error}"
        ) from None
    if number >= count:
        there = ", ".join(["'cpu'", *(f"'npu:{n}'" for n in range(count))])
        raise ArgumentError(f"[{operation}] expected one of the devices {there}, given {device!r}")
    return number


class UnusableError(Exception):
    """Why no NPU can be used; `broken` where it looks as if one were meant to be."""

    def __init__(self, message: str, broken: bool) -> None:
        super().__init__(message)
        self.broken = broken


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_detecting.acquire, after_in_parent=_detecting.release, after_in_child=_detecting.release
    )


def detected() -> Detected:
    """CANN and its devices, of a chip that there is a generator for. Loads ACL where there is CANN.

    Raises
    ------
    UnusableError
    """
    with _detecting:
        from ..backend.npu import toolkit

        try:
            toolkit.find()
        except toolkit.ToolkitError as error:
            raise UnusableError(str(error), error.root is not None) from None
        try:
            found = toolkit.detect()
            if found.count:
                toolkit.chip_of(found.soc)
            return found
        except toolkit.ToolkitError as error:
            raise UnusableError(str(error), True) from None


def checked_chip(operation: str, chip: str) -> str:
    """The name of a chip that there is a generator for.

    Raises
    ------
    ArgumentError
        If there is no such chip, listing those there are.
    """
    from ..backend.ascend.backend import chips

    if chip not in chips():
        expected = ", ".join(map(repr, chips()))
        raise ArgumentError(f"[{operation}] expected one of the chips {expected}, given {chip!r}")
    return chip


def create(name: str, cpu: Backend | None) -> Backend:
    """A backend by its full name; `cpu` runs for it what it has no code for."""
    if name == "cpu":
        return CPU(store=kernels)
    from ..backend.ascend.chip import load

    assert cpu is not None
    if npu_number(name) >= 0:
        number = device_number(name, "backend")
        found = detected()
        from ..backend.npu.backend import NPU

        return NPU(load(found.chip), cpu, kernels, found.toolkit, number)
    from ..backend.sim.backend import Simulated

    return Simulated(load(name.partition(":")[2]), cpu, kernels)


def generator(chip: str = DEFAULT_CHIP) -> Ascend:
    """What writes Ascend C for a chip without anything to run it on."""
    from ..backend.ascend.backend import Ascend
    from ..backend.ascend.chip import load

    return Ascend(load(chip), None)
