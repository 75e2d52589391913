"""NumPy-like lazy tensors: operations are recorded, fused into kernels, compiled and run when a value is
needed."""

from __future__ import annotations

import builtins
import importlib
import os
import sys
from contextlib import AbstractContextManager
from math import e, inf, nan, pi
from typing import TYPE_CHECKING, Any

try:
    from .backend import _runtime
except ImportError as error:
    if error.name not in ("pyasc.backend", "pyasc.backend._runtime"):
        raise
    raise ImportError(
        f"pyasc was found as a bare source tree, without its compiled parts, in {__path__[0]}. To work on "
        f"it, run `make setup`, or `python -m pip install --editable .`, in the repository. To use an "
        f"installed pyasc, start Python in another folder.",
        name="pyasc",
        path=__path__[0],
    ) from None
from .config import Config, config
from .ops import _graph, dtypes, registry
from .ops import errors as _errors
from .ops.dtypes import can_cast, finfo, iinfo, isdtype, promote_types, result_type
from .tensor import Tensor

# isort: split
from . import errors, linalg, random
from .costing import cost
from .explain import explain
from .exporting import export
from .jit import jit
from .lazy.backends import default as _default
from .lazy.cache import kernels as _kernels
from .lazy.evaluate import clear_plans, flush, sync
from .lazy.evaluate import select as _select
from .memory import empty_cache, memory_stats, reset_peak_memory, set_memory_limit
from .target import make_callable as _make_callable

if TYPE_CHECKING:
    from .target import backend

    # Operations and dtypes, which are entered from their tables.
    def __getattr__(name: str) -> Any: ...


__version__ = "0.1.0"
newaxis = None

globals().update(registry.public())
globals().update(dtypes.DTYPES, bool_=dtypes.bool_)


# What is imported when it is first asked for, so that array scripts need not wait for it.
_LATER = {
    name: module
    for module, names in {
        ".dsl.kernel": ("kernel",),
        ".dsl.language": (
            *("atomic_add", "atomic_max", "atomic_min", "barrier", "get_global_id", "get_global_size"),
            *("get_group_id", "get_local_id", "get_local_size", "register", "shared"),
        ),
        ".dsl.tiles": ("alloc", "auto_tiling", "cast", "dma_copy", "elementwise", "reduce"),
        ".dsl.foreign": ("FFI",),
        ".dsl.operators.ascend_source": ("AscendC",),
        ".dsl.operators": ("operators", "register_operator", "unregister_operator"),
        ".device": ("Device", "devices", "reset_device"),
        ".interop": ("to_torch",),
        ".nn": ("Module", "Parameter"),
        ".precompile": ("precompile",),
        ".profiler": ("Profiler",),
        ".tuning": ("tune",),
    }.items()
    for name in names
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in ("nn", "profiler", "tuning"):
            return importlib.import_module(f".{name}", __name__)
        module = _LATER.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(importlib.import_module(module, __name__), name)
        return found


def eager() -> AbstractContextManager[Config]:
    """Evaluate after each operation within a ``with`` statement, for debugging."""
    return config.override(eager=True)


def cache_stats() -> dict[str, Any]:
    """Compiled kernels since the start.

    Returns
    -------
    dict
        Counts ``compiles``, ``memory_hits``, ``disk_hits``, ``misses`` and ``kernels`` in memory;
        ``compile_ms``; and the latest ``reasons`` of misses.
    """
    return _kernels.stats()


def clear_cache(memory: bool = True, disk: bool = False) -> None:
    """Forget compiled kernels in memory, and delete those on disk."""
    if memory:
        clear_plans()
    _kernels.clear(memory, disk)


def _set_flush() -> None:
    _graph.set_flush(flush, 0 if config.eager else config.max_pending_nodes, config.max_pending_bytes)


def _set_threads() -> None:
    count = config.threads or len(os.sched_getaffinity(0))
    if count != _runtime.threads():
        from .backend.cpu import blas

        _runtime.set_threads(count)
        blas.set_threads(count)


_make_callable(sys.modules[f"{__name__}.backend"])
_runtime.set_errors(_errors.OutOfMemory)
config.find_later("backend", _default)
config.observe("backend", function=lambda: _select(config.given("backend")))
config.observe("launch_blocking", function=lambda: _runtime.device_set_blocking(config.launch_blocking))
config.observe("threads", function=_set_threads)
config.observe("promotion", function=lambda: dtypes.set_promotion(config.promotion))
config.observe("eager", "max_pending_nodes", "max_pending_bytes", function=_set_flush)
config.observe("memory_limit", function=lambda: _runtime.set_memory_limit(config.memory_limit))

__all__ = [
    *_LATER,
    "Tensor",
    "backend",
    "cache_stats",
    "can_cast",
    "clear_cache",
    "config",
    "cost",
    "e",
    "eager",
    "empty_cache",
    "errors",
    "explain",
    "export",
    "finfo",
    "iinfo",
    "inf",
    "isdtype",
    "jit",
    "linalg",
    "memory_stats",
    "nan",
    "newaxis",
    "nn",
    "pi",
    "promote_types",
    "random",
    "reset_peak_memory",
    "result_type",
    "set_memory_limit",
    "sync",
]
# `from pyasc import *` leaves Python's own names alone.
__all__ += [name for name in (*registry.public(), *dtypes.DTYPES, "bool_") if not hasattr(builtins, name)]


def __dir__() -> list[str]:
    return sorted({*__all__, *registry.public(), *registry.public("operators")})
