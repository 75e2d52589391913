"""What memory and the trace hold, and the limits on it."""

from __future__ import annotations

from .backend import _runtime
from .config import config
from .lazy import backends, evaluate
from .ops import _graph
from .ops.arguments import as_int
from .ops.errors import ArgumentError


def memory_stats(device: str | None = None) -> dict[str, int]:
    """Memory and trace at this moment.

    Parameters
    ----------
    device : str, optional
        ``"cpu"`` for the host's memory, ``"npu:0"`` for an NPU's; without it that of the backend in force.

    Returns
    -------
    dict
        In bytes: ``used`` by buffers that something refers to, ``cached`` by the pool for reuse, ``peak`` of
        used since the start or `reset_peak_memory`, ``limit`` on used (0: none). Counts: ``pending`` nodes
        that are recorded and not evaluated, ``tensors`` alive. Of an NPU also the bytes ``pinned``, the
        page-locked memory of the host that copies go through, ``free`` and ``total`` as its driver says, and
        the counts ``events``, ``streams``, ``launches``, ``uploads`` and ``downloads``; all 0 before its
        first use.

    Raises
    ------
    ArgumentError
        For a device that is not there; so do the functions below.
    """
    number = _number(device, "memory_stats")
    stats = _runtime.memory_stats() if number < 0 else _runtime.device_stats(number)
    stats["pending"] = _graph.pending_count()
    stats["tensors"] = _graph.live_count()
    return stats


def reset_peak_memory(device: str | None = None) -> None:
    """Start measuring ``peak`` anew, from what is used now; `device` as for `memory_stats`."""
    number = _number(device, "reset_peak_memory")
    if number < 0:
        _runtime.reset_peak_memory()
    else:
        _runtime.device_reset_peak(number)


def set_memory_limit(nbytes: int, device: str | None = None) -> None:
    """Refuse to use more than `nbytes` (0: no limit). Cached memory is given back before anything is refused.

    Parameters
    ----------
    nbytes : int
    device : str, optional
        As for `memory_stats`. For the host's memory it sets ``pyasc.config.memory_limit``.

    Raises
    ------
    TypeError
        Where nbytes is no integer.
    ValueError
        Where it is negative.
    """
    limit = as_int(nbytes, "set_memory_limit", "nbytes")
    number = _number(device, "set_memory_limit")
    if number < 0:
        config.memory_limit = limit
        return
    if limit < 0:
        raise ArgumentError(f"[set_memory_limit] expected at least 0 for nbytes, given {limit}")
    _runtime.device_set_limit(number, limit)


def empty_cache(device: str | None = None) -> int:
    """Give cached memory back to the system, or a device; the bytes given back.

    `device` is as for `memory_stats`.
    """
    number = _number(device, "empty_cache")
    return _runtime.release_cache() if number < 0 else _runtime.device_release_cache(number)


def _number(device: str | None, operation: str) -> int:
    if device is None:
        return backends.npu_number(evaluate.selected())
    return backends.device_number(device, operation)
