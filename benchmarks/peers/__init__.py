"""The libraries compared, one module each, in the order of the table's columns.

A module holds one function for each workload it can do, under the workload's name, or several under
``<workload>_via_<variant>`` (the fastest is shown). Besides it has

``load(arrays)``
    the inputs as the library holds them; called once for each workload, not timed;
``finish(result)``
    waits until the result is there; timed;
``to_numpy(result)``;
``WAYS``
    where every function can be run in several ways: name → what makes that way of the function.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

ORDER = ("numpy", "numexpr", "numba", "jax", "torch", "opencv", "scipy", "cpp", "pyasc")


def load_peers(names: tuple[str, ...] = ORDER) -> tuple[dict[str, ModuleType], dict[str, str]]:
    """Import the peers that are installed.

    Returns
    -------
    peers : dict of str to module
    absent : dict of str to str
        For each of the others, why.
    """
    peers, absent = {}, {}
    for name in names:
        try:
            peers[name] = importlib.import_module(f"peers.{name}")
        except (ImportError, OSError) as error:
            absent[name] = str(error).splitlines()[0]
    return peers, absent


def variants(peer: ModuleType, workload: str) -> dict[str, Callable[..., Any]]:
    """The functions of a peer that do a workload, by variant; a single one is called ``""``."""
    found = {"": getattr(peer, workload)} if hasattr(peer, workload) else {}
    prefix = workload + "_via_"
    found |= {n.removeprefix(prefix): f for n, f in vars(peer).items() if n.startswith(prefix)}
    ways: dict[str, Callable[..., Any]] = getattr(peer, "WAYS", {"": lambda function: function})
    return {f"{v} {way}".strip(): make(f) for v, f in found.items() for way, make in ways.items()}
