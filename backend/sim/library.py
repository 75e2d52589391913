"""The simulator's engine, `libascend_sim.so`, and the C structs of include/sim/interface.hpp."""

from __future__ import annotations

import ctypes
import threading
from ctypes import POINTER, Structure, c_char_p, c_int, c_int32, c_uint32, c_uint64, c_void_p
from functools import cache
from pathlib import Path

from ..ascend.chip import Chip

KINDS = (
    "", "bounds", "alignment", "capacity", "position", "uninitialised", "race", "queue", "deadlock", "dtype",
    "argument", "stopped",
)  # fmt: skip
CORES = {"vector": 0, "cube": 1, "mixed": 2}
VECTORS_PER_CUBE = 2


class Argument(Structure):
    """pyasc_sim_argument: a value, or a buffer in global memory."""

    _fields_ = (
        ("address", c_void_p),
        ("bytes", c_uint64),
        ("is_global", c_int32),
        ("reserved", c_int32),
    )


class Launch(Structure):
    """pyasc_sim_launch: what is run, on which cores, how it is checked."""

    _fields_ = (
        ("entry", c_void_p),
        ("arguments", POINTER(Argument)),
        ("count", c_uint32),
        ("blocks", c_uint32),
        ("kind", c_uint32),
        ("vectors_per_block", c_uint32),
        ("check", c_uint32),
        ("cost", c_uint32),
        ("move", c_uint32),
        ("threads", c_uint32),
        ("capacities", c_uint32 * 8),
        ("cube_cores", c_uint32),
        ("vector_cores", c_uint32),
    )


class Parameter(Structure):
    """sim::Parameter: what a kernel's function takes."""

    _fields_ = (("bytes", c_uint32), ("pointer", c_uint32))


def capacities(chip: Chip) -> tuple[int, ...]:
    """Bytes of each memory of a core, in the order of sim::Space."""
    has = chip.capacity
    return (0, has.ub, has.l1, has.l0a, has.l0b, has.l0c, has.bias_table or 0, has.fixpipe_buffer or 0)


def headers() -> Path:
    """The folder that kernels find ``kernel_operator.h`` in."""
    return Path(__file__).parent / "include"


def path() -> Path:
    """The library: beside this file in an installed package, on the package's path in an editable one.

    Raises
    ------
    FileNotFoundError
        Where the package was not built.
    """
    from .. import __path__ as folders

    for folder in folders:
        found = Path(folder) / "sim" / "libascend_sim.so"
        if found.exists():
            return found
    raise FileNotFoundError("libascend_sim.so is not there: build pyasc with `make setup`")


_loading = threading.Lock()


@cache
def _load() -> ctypes.CDLL:
    library = ctypes.CDLL(str(path()))
    run = c_void_p
    signatures: dict[str, tuple[object, list[object]]] = {
        "pyasc_sim_start": (run, [POINTER(Launch)]),
        "pyasc_sim_wait": (c_int, [run, c_uint32]),
        "pyasc_sim_stop": (None, [run]),
        "pyasc_sim_free": (None, [run]),
        "pyasc_sim_finding": (c_int, [run, POINTER(c_char_p), POINTER(c_int32), POINTER(c_int32)]),
        "pyasc_sim_cores": (c_uint32, [run]),
        "pyasc_sim_log": (c_void_p, [run, c_uint32, POINTER(c_uint64)]),
        "pyasc_sim_names": (c_uint64, [c_void_p, c_uint64]),
        "pyasc_sim_record_size": (c_uint32, []),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    return library


def load() -> ctypes.CDLL:
    """The library, loaded once."""
    with _loading:
        return _load()


def names() -> tuple[str, ...]:
    """The table of instructions' names in logs."""
    library = load()
    size = library.pyasc_sim_names(None, 0)
    buffer = ctypes.create_string_buffer(size + 4096)
    size = library.pyasc_sim_names(buffer, size + 4096)
    return tuple(buffer.raw[:size].decode().split("\0")[:-1])
