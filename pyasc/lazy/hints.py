"""What is said once in a process of what makes a program slow on a device and is easily changed."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..ops._graph import Node
from ..ops.errors import recorded_line, warn
from .simplify import Value

ENOUGH = 1 << 20  # bytes that are worth a word

_said: set[str] = set()


def float64_on_host(values: Iterable[Value], device: str, node: Node) -> None:
    """Say that float64, NumPy's default, is computed on the host, where a step does so for long arrays.

    Parameters
    ----------
    values : iterable of Value
        What the step reads and writes.
    device : str
        Where it would run in float32.
    node : Node
        The operation that the step is for.
    """
    if "float64" in _said:
        return
    nbytes = sum(v.size * v.dtype.itemsize for v in values if v.dtype == np.float64)
    if nbytes < ENOUGH:
        return
    _said.add("float64")
    warn(
        f"[{node.primitive.name}] float64 is computed on the host, as {device} has no instructions for it; "
        "x.astype('float32') is computed there. pyasc.explain(y) shows what runs where and what is copied; "
        "this is said once.",
        None if node.where is None else recorded_line(node.where),
    )
