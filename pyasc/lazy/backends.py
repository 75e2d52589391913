"""The backends by name. All but the CPU's are imported when they are first asked for.

The CPU's is imported with the library: a process that forked while a thread imports it for its first kernel
would have a child that waits for that import forever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..backend.base import Backend
from ..backend.cpu.backend import CPU
from ..ops.errors import ArgumentError
from .cache import kernels

if TYPE_CHECKING:
    from ..backend.ascend.backend import Ascend

DEFAULT_CHIP = "910B1"


def canonical(name: str) -> str:
    """The full name of a backend: ``"cpu"``, or ``"sim:910B1"`` for ``"sim"``.

    Raises
    ------
    ArgumentError
        If there is no such backend, listing those there are.
    """
    kind, _, chip = name.partition(":")
    if name == "cpu":
        return name
    from ..backend.ascend.backend import chips

    if kind == "sim" and (chip or DEFAULT_CHIP) in chips():
        return f"sim:{chip or DEFAULT_CHIP}"
    simulated = ", ".join(f"'sim:{chip}'" for chip in chips())
    raise ArgumentError(
        f"[backend] expected 'cpu', 'sim' (a simulated {DEFAULT_CHIP}), or one of {simulated}, given {name!r}"
    )


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
    from ..backend.sim.backend import Simulated

    assert cpu is not None
    return Simulated(load(name.partition(":")[2]), cpu, kernels)


def generator(chip: str = DEFAULT_CHIP) -> Ascend:
    """What writes Ascend C for a chip without anything to run it on."""
    from ..backend.ascend.backend import Ascend
    from ..backend.ascend.chip import load

    return Ascend(load(chip), None)
