"""Measured tile sizes: `pyasc.tune` measures what a call needs; tables of it are exported and loaded.

What was measured is kept in the folder of the kernel cache, one readable table for each chip, and decides how
kernels are cut into tiles from then on, in every process (``pyasc.config.tune``).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .backend.ir import Kernel
from .backend.progress import Progress
from .explain import KernelInfo
from .jit import Jitted
from .lazy import evaluate
from .lazy.backends import DEFAULT_CHIP, checked_chip
from .lazy.cache import kernels as kernel_cache
from .ops.errors import ArgumentError, BackendError, DtypeError, FolderError

if TYPE_CHECKING:
    from .backend.ascend.backend import Ascend
    from .backend.ascend.tuning_table import Entry, Table

__all__ = ["Tuned", "TunedKernel", "export", "load", "tune"]


@dataclass(frozen=True)
class TunedKernel:
    """A kernel whose tile sizes were measured.

    Attributes
    ----------
    name : str
    sizes : tuple of int
        Extents of its axes; of a product of matrices m, n, k and the batch.
    choice : dict
        What differs from the choice of the model; empty where that is the fastest.
    time_us, model_us : float
        Of the choice and of the model's.
    found : bool
        Whether it had been measured before.
    """

    name: str
    sizes: tuple[int, ...]
    choice: dict[str, Any]
    time_us: float
    model_us: float
    found: bool


@dataclass(frozen=True)
class Tuned:
    """What measuring gave. Prints as a table.

    Attributes
    ----------
    kernels : tuple of TunedKernel
    chip : str
    by : str
        ``"device"``, or ``"simulator"`` where there was none.
    """

    kernels: tuple[TunedKernel, ...]
    chip: str
    by: str

    @property
    def time_us(self) -> float:
        """Microseconds of all kernels as they are cut now."""
        return sum(k.time_us for k in self.kernels)

    @property
    def model_us(self) -> float:
        """Microseconds of all kernels as the model cuts them."""
        return sum(k.model_us for k in self.kernels)

    def __str__(self) -> str:
        how = f"measured on the {self.chip}"
        if self.by == "simulator":
            how = f"by the cost on a simulated {self.chip}, as there is no device"
        if not self.kernels:
            return f"nothing to tune, {how}"
        rows = [("kernel", "sizes", "model µs", "now µs", "choice")]
        for k in self.kernels:
            choice = ", ".join(f"{name}={value}" for name, value in k.choice.items()) or "the model's"
            known = " (known)" if k.found else ""
            sizes = " x ".join(map(str, k.sizes))
            rows.append((k.name, sizes, f"{k.model_us:.1f}", f"{k.time_us:.1f}", choice + known))
        widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
        lines = [
            "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows
        ]
        gain = 1 - self.time_us / self.model_us if self.model_us else 0.0
        return "\n".join([how, *lines, f"{self.model_us:.1f} µs -> {self.time_us:.1f} µs, {gain:.0%} less"])


def tune(
    function: Callable[..., Any],
    *examples: Any,
    again: bool = False,
    progress: bool | None = None,
) -> Tuned:
    """Measure the tile sizes of every kernel that a call needs, and keep the fastest.

    A few choices around the one that the model predicts to be the best are run on the device in force; where
    there is none, their cost on a simulated chip is compared. What is measured serves all sizes within 20 %.
    Functions that were compiled before, by `pyasc.jit`, keep the code that they have.

    Parameters
    ----------
    function : callable
        As for `pyasc.jit`. It is traced; what it computes is not.
    *examples : Tensor, array, number, …
        Arguments. Only shapes, dtypes and layouts matter.
    again : bool
        Measure also what was measured before.
    progress : bool, optional
        Whether to show what is being measured; by default on a terminal.

    Returns
    -------
    Tuned

    Raises
    ------
    DtypeError
        For what is no function.
    TracingError
        Where the function needs a tensor's value.
    BackendError
        Where a kernel cannot be compiled or run, or ``pyasc.config.tune`` is ``"off"``.
    """
    from .backend.ascend.backend import Ascend

    if not callable(function):
        raise DtypeError(f"[tune] expected a function, given {type(function).__name__}")
    target = evaluate.backend()
    name = evaluate.selected() if isinstance(target, Ascend) else f"sim:{DEFAULT_CHIP}"
    chip = evaluate.backend(name)
    assert isinstance(chip, Ascend)
    table = chip.table()
    if table is None:
        raise BackendError("[tune] expected pyasc.config.tune to be 'model' or 'measure', given 'off'")
    jitted = function if isinstance(function, Jitted) else Jitted(function)
    measured: dict[Any, TunedKernel] = {}
    with Progress("tune", shown=progress) as step:
        for info in jitted.explanation(name, *examples).kernels:
            job = _job(info, table)
            if job is None or job[:2] in measured:
                continue
            key, sizes, measure = job
            known = None if again else table.measured(key, sizes, chip.measured_by)
            step(info.name)
            measured[key, sizes] = _tuned(known or measure(), known is not None)
    if any(k.choice and not k.found for k in measured.values()):
        evaluate.clear_plans()
        kernel_cache.clear(memory=True, disk=False)
    return Tuned(tuple(measured.values()), chip.chip.name, chip.measured_by)


def _tuned(entry: Entry, found: bool) -> TunedKernel:
    return TunedKernel(entry.kernel, entry.sizes, entry.choice, entry.time_us, entry.model_us, found)


def _job(info: KernelInfo, table: Table) -> tuple[str, tuple[int, ...], Callable[[], Entry]] | None:
    """What there is to measure of a kernel, if anything: its key, its sizes, and what measures it."""
    from .backend.ascend.backend import Ascend
    from .backend.ascend.measuring import kernel_key, measure_kernel, measure_product, product_key, sizes_of

    work = info.work
    if work is None or not isinstance(work.backend, Ascend):
        return None
    backend: Ascend = work.backend
    if work.product is not None and work.product.product is not None:
        product = work.product.product
        measure = partial(measure_product, backend, table, product)
        return product_key(product), sizes_of(product.sizes), measure
    if work.lowered is None or not isinstance(work.lowered.kernel, Kernel):
        return None
    kernel, binding = work.lowered.kernel, work.lowered.binding
    measure = partial(measure_kernel, backend, table, kernel, binding)
    return kernel_key(kernel, backend.options), binding.extents, measure


def export(path: str | os.PathLike[str], chip: str = "") -> int:
    """Write what was measured to a file, to be loaded on other machines.

    Parameters
    ----------
    path : path
        Of the file, which is replaced.
    chip : str
        ``"910B1"`` …; omitted, that of the backend in force.

    Returns
    -------
    int
        How many kernels it says.

    Raises
    ------
    ArgumentError
        For a chip that there is not.
    FolderError
        Where the file cannot be written.
    """
    from .backend.ascend.backend import Ascend
    from .backend.ascend.tuning_table import table

    target = evaluate.backend()
    usual = target.chip.name if isinstance(target, Ascend) else DEFAULT_CHIP
    found = table(checked_chip("tuning", chip or usual), kernel_cache)
    try:
        found.export(Path(path))
    except OSError as error:
        raise FolderError(
            f"[tuning.export] expected a file that can be written, given {os.fspath(path)}: {error.strerror}"
        ) from None
    return len(found)


def load(path: str | os.PathLike[str]) -> int:
    """Take over what was measured elsewhere.

    What was measured on a device here stays, unless the file says so too.

    Returns
    -------
    int
        How many kernels it says.

    Raises
    ------
    ArgumentError
        Where the file is no table, was damaged, or is of a chip that there is not.
    FolderError
        Where it cannot be read.
    """
    from .backend.ascend import tuning_table

    try:
        chip, entries = tuning_table.read(Path(path))
    except OSError as error:
        raise FolderError(
            f"[tuning.load] expected a file that can be read, given {os.fspath(path)}: {error.strerror}"
        ) from None
    except tuning_table.TableError as error:
        raise ArgumentError(
            f"[tuning.load] expected a table that pyasc.tuning.export wrote, given {error}"
        ) from None
    found = tuning_table.table(checked_chip("tuning.load", chip), kernel_cache)
    found.add({key: list(known.values()) for key, known in entries.items()})
    evaluate.clear_plans()
    kernel_cache.clear(memory=True, disk=False)
    return sum(map(len, entries.values()))
