"""`pyasc.cost`: what a function would cost on a chip, from the simulator, without data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .explain import KernelInfo
from .jit import Jitted
from .lazy.backends import DEFAULT_CHIP, checked_chip
from .ops.errors import DtypeError

if TYPE_CHECKING:
    from .backend.sim.cost import Cost


@dataclass(frozen=True)
class FunctionCost:
    """The cost of a function's kernels, one after another. Prints as a table.

    Attributes
    ----------
    kernels : tuple of (KernelInfo, Cost)
        In the order in which they run.
    host : tuple of KernelInfo
        What runs on the host; its time is not part of the cost.
    """

    kernels: tuple[tuple[KernelInfo, Cost], ...]
    host: tuple[KernelInfo, ...]

    @property
    def time_us(self) -> float:
        """Predicted microseconds of all kernels."""
        return sum(cost.time_us for _, cost in self.kernels)

    def __str__(self) -> str:
        rows = [("kernel", "µs", "bound", "busy", "moved")]
        for kernel, cost in self.kernels:
            pipe, share = max(cost.utilisation.items(), key=lambda item: item[1], default=("", 0.0))
            moved = (kernel.bytes_read + kernel.bytes_written) / 1e6
            rows.append(
                (kernel.name, f"{cost.time_us:.1f}", cost.bound, f"{pipe} {share:.0%}", f"{moved:.1f} MB")
            )
        rows.append(("total", f"{self.time_us:.1f}", "", "", ""))
        widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
        lines = [
            "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows
        ]
        lines += [f"on the host: {kernel.name} ({kernel.reason})" for kernel in self.host]
        return "\n".join(lines)


def cost(function: Callable[..., Any], *examples: Any, chip: str = DEFAULT_CHIP) -> FunctionCost:
    """What calls of a function with arguments like these cost on a chip, from the simulator. Nothing is run.

    Parameters
    ----------
    function : callable
        As for `pyasc.jit`.
    *examples : Tensor, array, number, …
        Arguments. Their values do not matter: ``pyasc.empty((8192, 8192), pyasc.float16)`` takes no memory
        that is never touched.
    chip : str
        ``"910B1"``, ``"910B3"``…

    Returns
    -------
    FunctionCost
        ``.time_us`` is the total; ``.kernels`` holds each kernel with its `Cost`, whose ``.timeline`` saves
        as a picture.

    Raises
    ------
    ValueError
        For a chip that there is not.
    TracingError
        Where the function needs a tensor's value.
    BackendError
        If there is no C++ compiler, or data says how often loops of a kernel turn.
    """
    if not callable(function):
        raise DtypeError(f"[cost] expected a function, given {type(function).__name__}")
    jitted = function if isinstance(function, Jitted) else Jitted(function)
    kernels = jitted.explanation(f"sim:{checked_chip('cost', chip)}", *examples).kernels
    on_chip = [k for k in kernels if k.backend.startswith("sim:")]
    return FunctionCost(
        tuple((kernel, kernel.cost) for kernel in on_chip),
        tuple(k for k in kernels if k not in on_chip),
    )
