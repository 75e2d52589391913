"""An NPU as a backend: Ascend C compiled by CANN's compiler, launched through ACL."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import numpy as np

from .. import _runtime
from .._runtime import DeviceCode
from ..ascend.arguments import patched
from ..ascend.backend import Ascend, Written
from ..ascend.chip import Chip
from ..ascend.generated import STATUS_BYTES, Bound, Generated
from ..base import Backend, DeviceLaunch, Matrices, Store
from ..compiler import without_comments
from ..ir import Binding
from . import compile as compiler
from .launch import device_launch
from .toolkit import Toolkit

MAX_CODES = 1024
WARM, REPEATS = 3, 15  # launches that are not counted, and that are


def _zeros(nbytes: int) -> _runtime.Buffer:
    buffer = _runtime.allocate(nbytes)
    _runtime.array(buffer, (nbytes,), np.dtype(np.uint8), writable=True)[:] = 0
    return buffer


class Compiled(Written):
    """A kernel in Ascend C, compiled for a device."""

    def __init__(self, kernel: Any, generated: Generated, code: DeviceCode) -> None:
        super().__init__(kernel, generated)
        self.code = code

    def bind(self, binding: Any) -> DeviceLaunch:
        """The launch for these sizes."""
        return device_launch(self.code, self.generated, self.generated.bind(binding))


class NPU(Ascend):
    """An Ascend NPU.

    Parameters
    ----------
    chip : Chip
        Its kind.
    cpu : Backend
        Runs on the host what the chip has no instructions for.
    store : Store
        Where compiled kernels are kept.
    toolkit : Toolkit
        What compiles them.
    device : int
        Its number.
    """

    measured_by = "device"

    def __init__(self, chip: Chip, cpu: Backend, store: Store, toolkit: Toolkit, device: int = 0) -> None:
        super().__init__(chip, cpu)
        self.name = f"npu:{device}"
        self.device = device
        self.device_cores = chip.vector_cores
        self.toolkit = toolkit
        self.store: Store = store
        self._codes: OrderedDict[tuple[str, str], DeviceCode] = OrderedDict()

    def fingerprint(self) -> str:
        """The chip, the toolkit and how it compiles."""
        return f"npu|{self.chip.name}|{self.chip.architecture}|{compiler.fingerprint(self.toolkit)}"

    def executable(self, kernel: Any, generated: Generated) -> Compiled:
        """A kernel that was written, compiled for the device."""
        return Compiled(kernel, generated, self.code(generated))

    def code(self, generated: Generated) -> DeviceCode:
        """A kernel's code for the device's loader, compiled unless it is kept.

        Raises
        ------
        LaunchError
            Where the compiler cannot be run, or does not take the source.
        """
        key = (generated.name, without_comments(generated.source))
        code = self._codes.get(key)
        if code is None:
            binary, kind = compiler.compile(generated, self.toolkit, self.store)
            code = self._codes[key] = DeviceCode(binary, kind, generated.name)
            if len(self._codes) > MAX_CODES:
                self._codes.popitem(last=False)
        return code

    def time_us(self, generated: Generated, bound: Bound, nbytes: tuple[int, ...]) -> float:
        """The median of some launches on the device, on buffers of zeros."""
        launch = device_launch(self.code(generated), generated, bound)
        buffers = [_zeros(n) for n in nbytes]
        pointers = [(place, buffers[operand]) for place, operand, _ in launch.pointers]
        if launch.workspace is not None:
            pointers.append((launch.workspace[0], _zeros(launch.workspace[1])))
        if launch.status >= 0:
            pointers.append((launch.status, _zeros(STATUS_BYTES * launch.blocks)))
        scalars = list(bound.scalars) or [0] * (1 + max((p.scalar for p in launch.patches), default=-1))
        arguments = patched(launch.arguments, launch.patches, scalars)
        times = _runtime.time_launch(
            launch.code, self.device, launch.blocks, arguments, pointers, WARM + REPEATS
        )
        return median(times[WARM:])

    def product_call(self, generated: Generated, offsets: tuple[int, ...]) -> DeviceLaunch:
        """The launch of a product whose operands begin so many elements into their buffers."""
        return device_launch(self.code(generated), generated, generated.bind(Binding((), (), ())), offsets)

    def device_product(
        self, operands: Matrices, shape: tuple[int, ...], dtype: np.dtype[Any], out: np.dtype[Any]
    ) -> Callable[[], DeviceLaunch] | None:
        """What compiles a product that the cube takes as its matrices lie; None where the host multiplies.

        The host also takes what the cube sums in another dtype than the result's, as it does int8. What is
        given raises LaunchError where the product cannot be compiled.
        """
        generated = self.product([(s, strides) for s, strides, _ in operands], shape, dtype)
        if generated is None or generated.parameters[2].dtype != out:
            return None
        return partial(self.product_call, generated, (*(offset for _, _, offset in operands), 0))
