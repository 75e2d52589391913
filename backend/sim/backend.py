"""The simulated chip as a backend: Ascend C compiled for the host, each access checked."""

from __future__ import annotations

from collections.abc import Hashable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ascend.backend import Ascend
from ..ascend.chip import Chip
from ..ascend.generated import Bound, Generated
from ..base import Backend, Call, KernelFault, LaunchError, Store
from ..ir import Binding, Kernel
from .cost import Cost, replay
from .simulator import Extent, Module, SimulationError, Simulator

Array = NDArray[Any]
STATUS = 8  # int64 for each block


class Compiled:
    """A kernel in Ascend C, compiled for the host."""

    def __init__(self, kernel: Kernel, generated: Generated, module: Module) -> None:
        self.kernel = kernel
        self.generated = generated
        self._module = module

    def fits(self, binding: Binding) -> bool:
        """Whether the code holds for these arguments."""
        return self.generated.fits(binding)

    def bind(self, binding: Binding) -> Call:
        """The launch for these sizes."""
        bound = self.generated.bind(binding)
        return Call(lambda buffers, scalars: launch(self._module, self.generated, bound, buffers, scalars))

    def source(self, form: str) -> str:
        """The generated code, ``"ascendc"``."""
        if form != "ascendc":
            raise ValueError(f"[source] Expected 'ascendc', given {form!r}.")
        return self.generated.source


class Simulated(Ascend):
    """An Ascend chip simulated on the host.

    Parameters
    ----------
    chip : Chip
    cpu : Backend
        Runs what the chip has no instructions for.
    store : Store
        Where compiled kernels are kept.
    """

    def __init__(self, chip: Chip, cpu: Backend, store: Store) -> None:
        super().__init__(chip, cpu)
        self.name = f"sim:{chip.name}"
        self._simulator = Simulator(chip, store)

    def compile(self, kernel: Kernel, tuning: Hashable) -> tuple[Compiled, bytes]:
        """Generate and compile a kernel; also the source by which `load` knows it again.

        Raises
        ------
        LaunchError
            Where there is no C++ compiler, or it does not take the source.
        """
        generated = self.written(kernel, tuning)
        return Compiled(kernel, generated, self.module(generated)), generated.source.encode()

    def load(self, kernel: Kernel, tuning: Hashable, code: bytes) -> Compiled:
        """Restore what `compile` made.

        Raises
        ------
        ValueError
            If the kernel would be written differently today.
        """
        generated = self.written(kernel, tuning)
        if generated.source.encode() != code:
            raise ValueError("another source")
        return Compiled(kernel, generated, self.module(generated))

    def module(self, generated: Generated) -> Module:
        """Compile generated source for the host."""
        try:
            return self._simulator.compile(generated.source, generated.name)
        except SimulationError as error:
            raise LaunchError(str(error)) from error


def launch(
    module: Module, generated: Generated, bound: Bound, buffers: list[Array], scalars: list[int]
) -> None:
    """Run a kernel on whole buffers.

    Raises
    ------
    LaunchError
        What a check found.
    KernelFault
        What the kernel itself reports.
    """
    status = np.zeros((bound.blocks, STATUS), np.int64)
    arguments: list[Any] = []
    for parameter in generated.parameters:
        if parameter.kind == "workspace":
            arguments.append(np.empty(max(bound.workspace, 32), np.uint8))
        elif parameter.kind == "status":
            arguments.append(status)
        else:
            arguments.append(buffers[parameter.operand])
    if generated.fields:
        arguments.append(bound.tiling(scalars))
    try:
        module.run(bound.blocks, arguments, cores=generated.cores)
    except SimulationError as error:
        raise LaunchError(f"{error} (kernel {generated.name})", found=True) from error
    for code, value, *_ in status[status[:, 0] != 0].tolist():
        raise KernelFault(code, value)


@cache
def _simulator(chip: Chip) -> Simulator:
    return Simulator(chip, None)


def cost(generated: Generated, bound: Bound, sizes: tuple[int, ...]) -> Cost:
    """What a run costs. No data is moved.

    Parameters
    ----------
    generated : Generated
    bound : Bound
        The kernel with its sizes.
    sizes : tuple of int
        Bytes of each operand's buffer.

    Raises
    ------
    LaunchError
        Where there is no C++ compiler.
    """
    arguments: list[Any] = []
    for parameter in generated.parameters:
        if parameter.kind == "workspace":
            arguments.append(Extent(max(bound.workspace, 32)))
        elif parameter.kind == "status":
            arguments.append(Extent(bound.blocks * STATUS * 8))
        else:
            arguments.append(Extent(sizes[parameter.operand]))
    if generated.fields:
        arguments.append(bound.tiling([0] * len(generated.fields)))
    try:
        module = _simulator(generated.chip).compile(generated.source, generated.name)
        log = module.run(bound.blocks, arguments, cores=generated.cores, cost=True, move=False)
    except SimulationError as error:
        raise LaunchError(str(error)) from error
    assert log is not None
    return replay(log, generated.chip)
