"""Memory pool, threads and plan executor (C++, backend/runtime)."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

KERNEL_ABI: int
"""Of the functions that the executor calls; part of every kernel's key."""

class Buffer:
    """A block of the pool, returned to it when the last reference goes.

    Aligned to 128 bytes; large blocks ask for huge pages. Supports the buffer protocol (read-only
    bytes). `exported` is true for a wrapped array's memory, and while something outside the library,
    such as a NumPy view, looks at it.
    """

    @property
    def nbytes(self) -> int: ...
    @property
    def address(self) -> int: ...
    @property
    def exported(self) -> bool: ...

def allocate(nbytes: int) -> Buffer:
    """Raises MemoryError subclass set by `set_errors` after releasing the cache and trying again."""

def wrap(array: NDArray[Any]) -> Buffer:
    """A buffer on the memory of a C-contiguous array, which it keeps alive; not counted as the pool's."""

def array(
    buffer: Buffer, shape: tuple[int, ...], dtype: np.dtype[Any], writable: bool = False
) -> NDArray[Any]:
    """A NumPy array on the buffer's memory; read-only and marking the buffer exported unless `writable`."""

def memory_stats() -> dict[str, int]:
    """used, cached, peak, limit (0: none), in bytes."""

def reset_peak_memory() -> None: ...
def set_memory_limit(nbytes: int) -> None: ...
def release_cache() -> int:
    """Return cached blocks to the operating system; bytes released."""

def set_errors(memory_error: type[Exception]) -> None: ...
def set_threads(count: int) -> None:
    """Threads that run kernels, the caller's included.

    They start at the first parallel launch, and again after a fork.
    """

def threads() -> int: ...

class Settles(Protocol):
    def settle(self, buffer: Any) -> None: ...

class Program:
    """A plan as the executor runs it. Built once, run many times, from any thread.

    `slots` hold buffers: first the `inputs` (one for each leaf), then those the program allocates. Each
    is given a buffer once.
    """

    def __init__(self, inputs: int, slots: int, outputs: Sequence[int]) -> None: ...
    def allocate(self, slot: int, nbytes: int) -> None: ...
    def alias(self, slot: int, source: int) -> None:
        """slot names the same buffer as source (an update in place, a donated input)."""
    def free(self, slot: int) -> None: ...
    def launch(
        self,
        phases: list[tuple[int, int, int]],
        pointers: list[tuple[int, int]],
        integers: list[int],
        scalars: list[int],
        scratch: int,
        thread_scratch: int,
        label: int,
    ) -> None:
        """Run a kernel; the ABI is in backend/runtime/executor.hpp. Small launches run on the calling thread.

        Parameters
        ----------
        phases : list of (address, units, grain)
        pointers : list of (slot, byte offset)
            For each access.
        integers : list of int
        scalars : list of int
            Indices into the run's scalars.
        scratch, thread_scratch : int
            Bytes for all threads together, and for each.
        label : int
            Passed to the fault handler.
        """

    def copy(
        self,
        target: int,
        target_offset: int,
        target_strides: list[int],
        source: int,
        source_offset: int,
        source_strides: list[int],
        extents: list[int],
        itemsize: int,
    ) -> None:
        """Strided copy; offsets and strides in bytes."""
    def call(self, function: Callable[..., None], slots: list[int], scalars: list[int], label: int) -> None:
        """Call ``function(buffers, scalars)``, scalars as a list of bit patterns, with the GIL held.

        It writes its output buffer in place.
        """
    def run(
        self,
        leaves: list[Buffer],
        scalars: bytes,
        receivers: Sequence[Settles] | None = None,
        log: list[tuple[str, int, int, int]] | None = None,
    ) -> list[Buffer]:
        """Buffers of the outputs, in order.

        Kernels run without the GIL. Signals are checked between steps, so that Ctrl-C stops a long plan,
        but not once a donated input may have been written. `receivers` are settled with the outputs, in
        order, before control returns to the interpreter, so that no signal comes between. A fault that a
        kernel reports raises what the fault handler returns for (label, fault code, value).

        To `log`, where there is one, is appended for each step but `free`, in order: its kind
        (``"allocate"``, ``"launch"``, ``"copy"``, ``"call"``), the bytes that it allocates or copies, and
        when it began and ended (nanoseconds of `time.perf_counter_ns`); also for those before an error.
        """

class Code:
    """Executable memory with the code of one object, unmapped with the last reference."""

    @property
    def addresses(self) -> list[int]:
        """Of the functions that were asked for."""

def load_object(code: bytes, names: Sequence[str]) -> Code:
    """Make a relocatable ELF object for this processor run in this process.

    Memory is never writable and executable at once. Functions that the object calls are looked up in the
    process, libm, libmvec and libgcc_s.

    Raises
    ------
    ValueError
        If the object is damaged, has what the loader does not know, or lacks a function.
    """

def link_object(
    code: bytes, names: Sequence[str], address: int, symbols: dict[str, int]
) -> tuple[bytes, list[int]]:
    """What `load_object` would put at an address, here for any known processor, to look at.

    Also where in it the functions are. Raises ValueError as `load_object` does.
    """

FaultHandler = Callable[[int, int, int], Exception]

def set_fault_handler(handler: FaultHandler | None) -> FaultHandler | None:
    """Set what makes the exception of a fault; the handler before it is returned."""
