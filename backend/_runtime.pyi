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

    Its contents are in the host's memory, in a device's, or the same in both. What looks at them on the host
    (`address`, `array`, the buffer protocol) waits for the device and copies them there first, without the
    interpreter's lock, and lets signals through; an error of the device is raised there.
    """

    @property
    def nbytes(self) -> int: ...
    @property
    def address(self) -> int: ...
    @property
    def exported(self) -> bool: ...
    @property
    def device(self) -> int:
        """The device that has the contents; -1: only the host has."""
    @property
    def on_host(self) -> bool:
        """Whether the host's memory has the contents."""
    @property
    def committed(self) -> bool:
        """Whether a user put it on its device: what is computed from it is computed there."""
    def device_address(self) -> int:
        """Of the contents on `device`, for other libraries. Does not wait."""

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
    def device_allocate(self, slot: int, nbytes: int, device: int) -> None:
        """As `allocate`, in a device's memory."""
    def upload(self, slot: int, device: int) -> None:
        """Have the contents of a slot on a device too, from now on: nothing where they are there. Begins at
        once, waits for nothing; launches that read the slot come after it."""
    def download(self, slot: int) -> None:
        """Begin to copy a slot's contents to the host. What reads it there waits for that; so it does
        without this step, which only begins earlier."""
    def written(self, slot: int, device: int) -> None:
        """The step before wrote into a buffer that was there already, on a device or (-1) the host: the copy
        elsewhere is dropped."""
    def device_launch(
        self,
        code: DeviceCode,
        device: int,
        lane: int,
        blocks: int,
        arguments: bytes,
        pointers: list[tuple[int, int, int]],
        patches: list[tuple[int, int, int, str]],
        outputs: list[int],
        workspace: tuple[int, int] | None,
        status: int,
        label: int,
    ) -> None:
        """Put a kernel into a lane (0 or 1) of a device; see `pyasc.backend.base.DeviceLaunch`.

        Here `pointers` are (bytes into the block, slot, byte offset), `outputs` slots, and the scalars of
        `patches` indices into the run's. What it reads must be on the device: `upload` and `device_launch`
        see to it. Faults in its status are looked at before the run ends.
        """
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
        marks: Sequence[str] = (),
    ) -> list[Buffer]:
        """Buffers of the outputs, in order.

        Kernels run without the GIL. Signals are checked between steps, so that Ctrl-C stops a long plan,
        but not once a donated input may have been written. `receivers` are settled with the outputs, in
        order, before control returns to the interpreter, so that no signal comes between. A fault that a
        kernel reports raises what the fault handler returns for (label, fault code, value).

        To `log`, where there is one, is appended for each step but `free`, in order: its kind
        (``"allocate"``, ``"launch"``, ``"copy"``, ``"call"``), the bytes that it allocates or copies, and
        when it began and ended (nanoseconds of `time.perf_counter_ns`); also for those before an error.
        Steps of a device (``"upload"``, ``"download"``, ``"device_launch"``) are logged with the times of
        the device, and the run then ends when they have.

        `marks` are the names of ranges that a profiler of the system shows around each launch and call, in
        order (`device_set_marks`).

        Otherwise a run ends when its work is in the lanes of the device: outputs are settled, and looking at
        them waits. Only where a launch has a status it ends when the device is through.
        """
    @property
    def device_steps(self) -> bool:
        """Whether anything of it runs on a device."""
    last_run: int
    """The number of the latest run with `device_steps`, as in `DeviceFailure`."""

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

WIDE_SCALAR: int
"""The code of the fault that a scalar is which does not fit its place in a block of arguments. Its value is
the scalar."""

# --- devices ------------------------------------------------------------------------------------------------
# An NPU through ACL; backend/runtime/device.hpp says how. Nothing is loaded before one of these is called.

class DeviceFailure(Exception):
    """A call of ACL that failed, or work on a device that did; what the device error handler makes a user's
    error of.

    Attributes
    ----------
    call : str
        The function of ACL that failed.
    code : int
    message : str
        What ACL had to say.
    text : str
        The code in plain words; "" for an unknown one.
    lost : bool
        Whether the device must be reset.
    device : int
    launches : list of (int, int)
        Run (`Program.last_run`) and label of the launches that may be meant, the earliest first; there may
        be none.
    """

    call: str
    code: int
    message: str
    text: str
    lost: bool
    device: int
    launches: list[tuple[int, int]]

DeviceErrorHandler = Callable[[DeviceFailure], Exception]

def set_device_error_handler(handler: DeviceErrorHandler | None) -> DeviceErrorHandler | None:
    """Set what makes the exception of a `DeviceFailure`; without one the failure itself is raised. The one
    before it is returned."""

class DeviceCode:
    """A compiled kernel for a device's loader.

    Parameters
    ----------
    code : bytes
    kind : str
        ``"vector"``, ``"cube"``, ``"mixed"``: an ELF file for those cores, loaded by ACL; ``"library"``: a
        shared library of the host with ``int pyasc_launch_NAME(uint32_t blocks, void* stream, const void*
        arguments)``.
    name : str
        Of the function.
    """

    def __init__(self, code: bytes, kind: str, name: str) -> None: ...
    @property
    def name(self) -> str: ...

def device_set_library(path: str) -> None:
    """Where libascendcl.so is. Before the first use of a device; afterwards ValueError, unless
    `device_shut_down`."""

def device_count() -> int: ...
def device_soc_name() -> str: ...
def device_open(device: int) -> None:
    """Raises what the device error handler makes of a failure, as everything here does."""

def device_is_open(device: int) -> bool: ...
def device_stats(device: int) -> dict[str, int]:
    """used, cached, peak, limit (0: none), pinned, free, total (bytes); events, streams, launches, uploads,
    downloads. Opens nothing: zeros for a device that was not used."""

def device_reset_peak(device: int) -> None: ...
def device_set_limit(device: int, nbytes: int) -> None: ...
def device_release_cache(device: int) -> int: ...
def device_synchronize(device: int) -> None:
    """Wait for all lanes, without the interpreter's lock; signals come through, the work then goes on."""

def device_recover(device: int) -> None: ...
def device_reset(device: int) -> None:
    """Everything in its memory is lost; buffers that the host has keep that."""

def device_shut_down() -> None: ...
def device_set_blocking(blocking: bool) -> None:
    """Wait after each launch, so that a failure is that launch's."""

def device_set_marks(begin: int, end: int) -> None:
    """Addresses of what begins and ends a range: ``uint64 begin(const char* name, void* stream)`` and
    ``void end(uint64)``; 0 for none."""

def device_use_stream(device: int, stream: int) -> None:
    """Another library's stream (its address) as the compute lane; 0: the device's own again."""

def device_stream(device: int, lane: int) -> int: ...
def to_device(buffer: Buffer, device: int, committed: bool) -> Buffer:
    """A buffer of its own with the same contents on a device (-1: on the host). Begins the copy, does not
    wait."""

def wrap_device(address: int, nbytes: int, device: int, owner: object) -> Buffer:
    """A buffer on memory of a device that another library holds, which `owner` keeps alive. Committed,
    exported."""

def time_launch(
    code: DeviceCode,
    device: int,
    blocks: int,
    arguments: bytes,
    pointers: list[tuple[int, Buffer]],
    repeats: int,
) -> list[float]:
    """Launch a kernel so often, one after another, and time each on the device, in µs. `pointers` are (bytes
    into the block, buffer), each on the device already or copied there first."""
