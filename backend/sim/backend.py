"""The simulated chip as a backend: Ascend C compiled for the host, each access checked."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ascend.backend import Ascend, Written
from ..ascend.chip import Chip
from ..ascend.generated import STATUS_BYTES, Bound, Generated
from ..ascend.scalar.kernel import ScalarTiling
from ..base import Backend, Call, KernelFault, LaunchError, Store
from ..compiler import without_comments
from ..ir import Binding
from .cost import Cost, replay
from .simulator import Extent, Finding, Module, Simulator

Array = NDArray[Any]
# Told of each launch: the kernel, its sizes, and the bytes of its buffers. A profiler sets it.
observer: Callable[[Generated, Bound, tuple[int, ...]], None] | None = None
MAX_MODULES = 512


class Compiled(Written):
    """A kernel in Ascend C, compiled for the host."""

    def __init__(self, kernel: Any, generated: Generated, module: Module) -> None:
        super().__init__(kernel, generated)
        self._module = module

    def bind(self, binding: Any) -> Call:
        """The launch for these sizes."""
        bound = self.generated.bind(binding)
        return Call(lambda buffers, scalars: launch(self._module, self.generated, bound, buffers, scalars))


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

    measured_by = "simulator"

    def __init__(self, chip: Chip, cpu: Backend, store: Store) -> None:
        super().__init__(chip, cpu)
        self.name = f"sim:{chip.name}"
        self.store: Store = store

    def executable(self, kernel: Any, generated: Generated) -> Compiled:
        """A kernel that was written, compiled for the host."""
        return Compiled(kernel, generated, compiled(generated, self.store))

    def time_us(self, generated: Generated, bound: Bound, nbytes: tuple[int, ...]) -> float:
        """What a launch would take on the chip, by its cost. No data is moved."""
        return cost(generated, bound, nbytes, self.store, warm=True).time_us

    def product_call(self, generated: Generated, offsets: tuple[int, ...]) -> Call:
        """What runs a product whose operands begin so many elements into their buffers."""
        call = self.executable(None, generated).bind(Binding((), (), ())).function
        return Call(
            lambda buffers, scalars: call([b[o:] for b, o in zip(buffers, offsets, strict=True)], scalars)
        )

    def host_kernel(self, name: str) -> Callable[..., None] | None:
        """The cube for products of matrices that it takes as they lie; else what the CPU has."""
        return self._matmul if name == "matmul" else super().host_kernel(name)

    def _matmul(self, a: Array, b: Array, out: Array) -> None:
        layouts = [(x.shape, tuple(s // x.itemsize for s in x.strides)) for x in (a, b)]
        generated = self.product(layouts, out.shape, out.dtype)
        if generated is None:
            assert self.fallback is not None
            multiply = self.fallback.host_kernel("matmul")
            assert multiply is not None
            multiply(a, b, out)
            return
        result = generated.parameters[2].dtype
        assert result is not None
        whole = out.reshape(-1) if result == out.dtype else np.empty(out.size, result)
        bound = generated.bind(Binding((), (), ()))
        launch(compiled(generated, self.store), generated, bound, [_touched(a), _touched(b), whole], [])
        if result != out.dtype:
            out[...] = whole.reshape(out.shape).astype(out.dtype)


_modules: OrderedDict[tuple[str, str], Module] = OrderedDict()


def compiled(generated: Generated, store: Store | None) -> Module:
    """Generated source compiled for the host.

    Raises
    ------
    LaunchError
        Where there is no C++ compiler, or it does not take the source.
    """
    key = (generated.chip.name, without_comments(generated.source))
    module = _modules.get(key)
    if module is None:
        try:
            simulator = Simulator(generated.chip, store, store.folder() if store else None)
            module = simulator.compile(generated.source, generated.name)
        except Finding as error:
            raise LaunchError(str(error)) from error
        _modules[key] = module
        if len(_modules) > MAX_MODULES:
            _modules.popitem(last=False)
    return module


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
    if observer is not None:
        observer(generated, bound, tuple(b.nbytes for b in buffers))
    status = np.zeros((bound.blocks, STATUS_BYTES // 8), np.int64)
    workspace = np.empty(bound.scratch, np.uint8)
    arguments = _arguments(generated, bound, buffers, scalars, workspace, status)
    try:
        module.run(bound.blocks, arguments, cores=generated.cores)
    except Finding as error:
        raise LaunchError(f"{error} (kernel {generated.name})", found=True) from error
    for code, value, *_ in status[status[:, 0] != 0].tolist():
        raise KernelFault(code, value)


def _arguments(
    generated: Generated,
    bound: Bound,
    buffers: Sequence[Any],
    scalars: list[int],
    workspace: Any,
    status: Any,
) -> list[Any]:
    """What the kernel's function takes, in order: buffers in GM, and the struct by value."""
    own = {"workspace": workspace, "status": status}
    arguments = [own[p.kind] if p.kind in own else buffers[p.operand] for p in generated.parameters]
    return [*arguments, bound.tiling(scalars)] if generated.fields else arguments


def _touched(array: Array) -> Array:
    """The memory from an array's first element to its last, as it lies."""
    last = sum((e - 1) * (s // array.itemsize) for e, s in zip(array.shape, array.strides, strict=True))
    return np.lib.stride_tricks.as_strided(array, (last + 1,), (array.itemsize,))


def cost(
    generated: Generated,
    bound: Bound,
    sizes: tuple[int, ...],
    store: Store | None = None,
    *,
    warm: bool = False,
) -> Cost:
    """What a run costs. No data is moved.

    Parameters
    ----------
    generated : Generated
    bound : Bound
        The kernel with its sizes.
    sizes : tuple of int
        Bytes of each operand's buffer.
    store : Store, optional
        Where compiled kernels are kept.
    warm : bool
        Whether the kernel was launched before with the same arguments; see `replay`.

    Raises
    ------
    LaunchError
        Where there is no C++ compiler, or how long the kernel takes depends on its data.
    """
    if isinstance(generated.tiling, ScalarTiling) and generated.tiling.turns:
        raise LaunchError(
            f"expected a kernel whose loops turn as often as its sizes say, given {generated.tiling.name}, "
            "in which data says how often; the cost is that of a run without data"
        )
    buffers = [Extent(nbytes) for nbytes in sizes]
    workspace, status = Extent(bound.scratch), Extent(bound.blocks * STATUS_BYTES)
    scalars = list(bound.scalars) or [0] * len(generated.fields)
    arguments = _arguments(generated, bound, buffers, scalars, workspace, status)
    try:
        log = compiled(generated, store).run(
            bound.blocks, arguments, cores=generated.cores, check=False, cost=True, move=False
        )
    except Finding as error:
        raise LaunchError(str(error)) from error
    assert log is not None
    return replay(log, generated.chip, warm=warm)
