"""Memory pool, threads and plan executor (C++, backend/runtime)."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

class Buffer:
    """A block of the pool, returned to it when the last reference goes. Alignment 128 bytes; large blocks ask for huge pages.

    Supports the buffer protocol (bytes). `exported` is true while something outside the library, such as a NumPy view, looks at it.
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

def array(buffer: Buffer, shape: tuple[int, ...], dtype: np.dtype[Any], writable: bool = False) -> NDArray[Any]:
    """A NumPy array on the buffer's memory; read-only and marking the buffer exported unless `writable`."""

def memory_stats() -> dict[str, int]:
    """used, cached, peak, limit (0: none), in bytes."""

def reset_peak_memory() -> None: ...
def set_memory_limit(nbytes: int) -> None: ...
def release_cache() -> int:
    """Return cached blocks to the operating system; bytes released."""

def set_errors(memory_error: type[Exception]) -> None: ...
def set_threads(count: int) -> None:
    """Threads that run kernels, the caller's included. The pool starts them at the first parallel launch, and again after a fork."""

def threads() -> int: ...

class Program:
    """A plan as the executor runs it. Built once, run many times, from any thread.

    Slots hold buffers: first the inputs (one for each leaf), then those the program allocates.
    """

    def __init__(self, inputs: int, slots: int, outputs: list[int]) -> None: ...
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
        """phases: (address, units, grain). pointers: (slot, byte offset) for each access. scalars: indices into the run's scalars.
        label: passed to the fault handler. Small launches run on the calling thread."""
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
        """Call function(buffers, scalars: list of int bit patterns) with the GIL held; it writes its output buffer in place."""
    def run(self, leaves: list[Buffer], scalars: bytes) -> list[Buffer]:
        """Buffers of the outputs, in order. Kernels run without the GIL; signals are checked between steps, so Ctrl-C
        stops a long plan. A fault that a kernel reports raises what the handler set by `set_fault_handler` returns for (label, fault code, value)."""

def set_fault_handler(handler: Callable[[int, int, int], Exception]) -> None: ...
