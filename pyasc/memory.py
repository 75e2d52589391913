"""What memory and the trace hold, and the limits on it."""

from __future__ import annotations

from .backend import _runtime
from .config import config
from .ops import _graph
from .ops.arguments import as_int


def memory_stats() -> dict[str, int]:
    """Memory and trace at this moment.

    Returns
    -------
    dict
        In bytes: ``used`` by buffers that something refers to, ``cached`` by the pool for reuse, ``peak`` of
        used since the start or `reset_peak_memory`, ``limit`` on used (0: none). Counts: ``pending`` nodes
        that are recorded and not evaluated, ``tensors`` alive.
    """
    stats = _runtime.memory_stats()
    stats["pending"] = _graph.pending_count()
    stats["tensors"] = _graph.live_count()
    return stats


def reset_peak_memory() -> None:
    """Start measuring ``peak`` anew, from what is used now."""
    _runtime.reset_peak_memory()


def set_memory_limit(nbytes: int) -> None:
    """Refuse to use more than `nbytes` (0: no limit). Cached memory is given back before anything is refused.

    It sets ``pyasc.config.memory_limit``.

    Raises
    ------
    TypeError
        Where nbytes is no integer.
    ValueError
        Where it is negative.
    """
    config.memory_limit = as_int(nbytes, "set_memory_limit", "nbytes")


def empty_cache() -> int:
    """Give cached memory back to the operating system; the bytes given back."""
    return _runtime.release_cache()
