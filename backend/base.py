"""What a backend provides: a small table of primitives and a way to run kernels."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from .ir import Binding, Kernel

if TYPE_CHECKING:
    from ._runtime import DeviceCode
    from .structured import StructuredBinding, StructuredKernel

HOST = -1  # as the number of a device
# Operands of a product by shape, strides and offset into their buffers, in elements.
Matrices = tuple[tuple[tuple[int, ...], tuple[int, ...], int], ...]


@dataclass(frozen=True, slots=True)
class Phase:
    """One parallel sweep of a launch: ``function`` runs over work units ``0 … units-1``.

    A kernel has one phase unless a reduction is split over threads; phases run one after another.
    """

    function: int  # address, with the ABI of backend/runtime/executor.hpp
    units: int
    grain: int  # units handed to a thread at a time; fixed by the sizes alone, never by the thread count


@dataclass(frozen=True, slots=True)
class Launch:
    """A compiled kernel bound to sizes: everything the executor needs but the buffers.

    Attributes
    ----------
    phases : tuple of Phase
    pointers : tuple of (int, int)
        For each access, the operand and the byte offset into its buffer.
    integers : tuple of int
        Extents, strides and whatever else the backend's code reads; its order is the backend's own.
    scratch : int
        Bytes shared by all threads and phases of the launch.
    thread_scratch : int
        Bytes for each thread.
    """

    phases: tuple[Phase, ...]
    pointers: tuple[tuple[int, int], ...]
    integers: tuple[int, ...]
    scratch: int
    thread_scratch: int


@dataclass(frozen=True, slots=True)
class Call:
    """A compiled kernel bound to sizes that is started from Python, as a simulated one is.

    Attributes
    ----------
    function : callable
        ``function(buffers, scalars)``: for each operand of the kernel its whole buffer as a flat array of the
        operand's dtype, and for each scalar argument its bits. It may raise `KernelFault` and
        `LaunchError`.
    """

    function: Callable[[list[NDArray[Any]], list[int]], None]


class Patch(NamedTuple):
    """Where a scalar argument goes in a block of arguments.

    Attributes
    ----------
    offset, size : int
        Bytes into the block, and how many.
    scalar : int
        The number of the scalar argument.
    form : str
        What its bits are, and become: ``"bits"``, the low bytes as they are; ``"int8"`` … ``"int64"``,
        ``"uint8"`` … : a whole number of that dtype, extended or cut to `size`; ``"narrow"``: an int64 that
        must fit 32 bits; ``"bool"``: a float16 of 0 or 1; ``"float16"``, ``"bfloat16"``, ``"float64"``: a
        float of that dtype becomes a float32; ``"int8>float32"`` … ``"uint64>float32"``: so does a whole
        number.
        backend/ascend/arguments.py says each in Python.
    """

    offset: int
    size: int
    scalar: int
    form: str


@dataclass(frozen=True, slots=True)
class DeviceLaunch:
    """A compiled kernel bound to sizes, for a device: everything the executor needs but the buffers.

    Attributes
    ----------
    code : DeviceCode
        Loaded to a device when it is first launched there.
    blocks : int
    arguments : bytes
        The block of arguments with zeros where addresses and scalars go, without the FFTS address.
    pointers : tuple of (int, int, int)
        For each address in the block: bytes into it, the operand, and the byte offset into its buffer.
    patches : tuple of Patch
    outputs : tuple of int
        The operands that are written.
    workspace : (int, int) or None
        Bytes into the block where the address of scratch in GM goes, and its bytes.
    status : int
        Bytes into the block where the address of eight int64 for each block goes, zeros at the start, in
        whose first two a fault is reported: its code, not 0, and a value. -1: none.
    """

    code: DeviceCode
    blocks: int
    arguments: bytes
    pointers: tuple[tuple[int, int, int], ...]
    patches: tuple[Patch, ...]
    outputs: tuple[int, ...]
    workspace: tuple[int, int] | None = None
    status: int = -1


class KernelFault(Exception):
    """A fault that a called kernel reports, as others do in their status (backend/runtime/executor.hpp)."""

    def __init__(self, code: int, value: int) -> None:
        super().__init__(code, value)
        self.code = code
        self.value = value


class LaunchError(Exception):
    """A kernel that could not be compiled or run. The front end adds the line of the user's program.

    Attributes
    ----------
    message : str
    found : bool
        Whether a simulator's check found it.
    """

    def __init__(self, message: str, found: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.found = found


def wide_scalar(value: int) -> LaunchError:
    """The error for a scalar argument that does not fit what the kernel takes."""
    return LaunchError(f"expected integers that fit the 32 bits of the chip's vector code, given {value}")


class Store(Protocol):
    """Keeps pieces of data between processes; what it cannot keep or find whole it does without."""

    def read(self, kind: str, key: str) -> bytes | None:
        """What was written last under a key, or None."""

    def write(self, kind: str, key: str, data: bytes) -> None:
        """Keep a piece of data, a file of its own with `kind` as its ending."""

    def folder(self) -> Path:
        """Where the files are, and others that are kept in another way."""

    @property
    def keeps(self) -> bool:
        """Whether anything is kept at all."""

    @property
    def tuning(self) -> str:
        """How kernels are tuned for a chip: ``"off"``, by the model alone; ``"model"``, by what was measured,
        else by the model; ``"measure"``, what was not measured is."""


class Executable(Protocol):
    """A compiled kernel."""

    @property
    def kernel(self) -> Kernel | StructuredKernel: ...

    def fits(self, binding: Any) -> bool:
        """Whether what the code was tuned for, such as a constant stride, holds for these arguments."""

    def bind(self, binding: Any) -> Launch | Call | DeviceLaunch:
        """The launch for these sizes."""

    def source(self, form: str) -> str:
        """The generated code: ``"llvm"`` or ``"asm"`` on the CPU, ``"ascendc"`` on an NPU."""


@dataclass(frozen=True)
class Part:
    """One of the launches, in their order, that a structured kernel is run by.

    Attributes
    ----------
    kernel : Kernel or StructuredKernel, or what `call` says
    binding : Binding or StructuredBinding
    operands : tuple of int
        For each operand, or array, of the kernel: the array of the structured kernel that is its buffer. An
        array that is read and written may be two operands of a kernel in point form.
    scalars : tuple of (bool, int)
        For each scalar slot of the kernel: (False, the slot of the structured kernel it has its bits from) or
        (True, an int64 that the part holds).
    backend : Backend
        What it is compiled for.
    reason : str
        What a user should know of how it runs: that it runs on the host and why, or as scalar code; "" where
        there is nothing to say.
    sites : tuple of int
        For a kernel in point form that reports faults: the site that each of its faults belongs to.
    call : callable or None
        ``call()`` gives what runs it, where that is not compiled from KernelIR: a product of matrices on a
        cube unit, or Ascend C of an operator's own. `kernel` is that Ascend C then (an object with
        ``source``).
    """

    kernel: Any
    binding: Any
    operands: tuple[int, ...]
    scalars: tuple[tuple[bool, int], ...]
    backend: Backend
    reason: str = ""
    sites: tuple[int, ...] = ()
    call: Callable[[], Call | DeviceLaunch] | None = None


class Backend(Protocol):
    """One target."""

    name: str
    max_instructions: int  # the scheduler cuts a kernel before it exceeds this
    max_operands: int
    stages_shifts: bool  # whether it takes `shift`; otherwise a value is computed again for each reader
    fallback: Backend | None  # compiles, for the same memory, what this one has no code for
    device: int  # the NPU whose memory its kernels use; `HOST`: they use the host's
    device_cores: int  # of that device; 0 without
    parallel_compiles: int  # how many kernels it compiles at a time; 1: compiling is no program of its own
    forms: tuple[str, ...]  # of the generated code that `Executable.source` gives, the usual one first

    def host_kernel(self, name: str) -> Callable[..., None] | None:
        """A function ``f(*operands, out=array)`` that runs a HOST primitive better than its meaning, or
        None."""

    def device_product(
        self, operands: Matrices, shape: tuple[int, ...], dtype: np.dtype[Any], out: np.dtype[Any]
    ) -> Callable[[], DeviceLaunch] | None:
        """What compiles the launch of a product of matrices in the device's memory; None where the host
        multiplies, as it always does for one without a device."""

    def supports(self, op: str, dtype: np.dtype[Any], attrs: tuple[Any, ...] = ()) -> bool:
        """Whether the backend has code for a primitive computed in a dtype."""

    def why(self, op: str, dtype: np.dtype[Any], attrs: tuple[Any, ...] = ()) -> str:
        """Why `supports` says no, as the end of "runs on the host: "."""

    def refusal(self, kernel: Kernel, binding: Binding) -> str:
        """Why a kernel cannot be compiled at all though each of its instructions could; "" where it can."""

    def parts(self, kernel: StructuredKernel, binding: StructuredBinding) -> tuple[Part, ...]:
        """The launches by which a kernel written by hand is run at these sizes.

        Raises
        ------
        LaunchError
            Where no backend can run it.
        """

    def tune(self, kernel: Any, binding: Any, fast_math: bool) -> Hashable:
        """The choices made for a bucket's representative sizes; part of the kernel's key.

        With `fast_math` a multiplication and an addition may round once, together.
        """

    def fingerprint(self) -> str:
        """Target, features and generator version: what makes code for another machine another key."""

    def compile(self, kernel: Any, tuning: Hashable) -> tuple[Executable, bytes]:
        """Compile; also the bytes from which `load` restores the executable in another process."""

    def load(self, kernel: Any, tuning: Hashable, code: bytes) -> Executable:
        """Restore what `compile` produced. Raises ValueError where the bytes do not fit."""
