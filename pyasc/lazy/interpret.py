"""Run a tape node by node by the primitives' NumPy meanings: the oracle of every backend."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..backend import _runtime
from ..ops._graph import Node, Tape
from ..ops.errors import IndexOutOfBounds, recorded_line
from ..ops.primitives import KERNEL, KERNEL_OUTPUT, LEAF, SCALAR
from . import handwritten

Array = NDArray[Any]


def compute(node: Node, operands: list[Array]) -> Array:
    """One node by its meaning, from its operands' values."""
    try:
        value = node.primitive.meaning(*operands, attrs=node.attrs or (), shape=node.shape, dtype=node.dtype)
    except IndexError as error:
        raise IndexOutOfBounds(
            f"[getitem] expected indices inside their axis, given one that is not: {error}",
            None if node.where is None else recorded_line(node.where),
        ) from None
    return np.asarray(value, node.dtype)


def interpret(tape: Tape, in_place: bool = False) -> list[Any]:
    """The buffers of the tape's outputs, in order.

    With `in_place`, a call of a kernel written by hand also writes into the leaves that are its targets.
    """
    values: list[Array | None] = []
    calls: dict[int, list[Array]] = {}
    last_use = [0] * len(tape.nodes)
    for position in range(len(tape.nodes)):
        for operand in tape.operands(position):
            last_use[operand] = position
    wanted = set(tape.outputs)
    results: dict[int, Any] = {}
    for position, node in enumerate(tape.nodes):
        operands = tape.operands(position)
        if node.primitive is LEAF:
            value = _runtime.array(node.buffer, node.shape, node.dtype, writable=True)
        elif node.primitive is SCALAR:
            value = np.asarray(node.value, node.dtype)
        elif node.primitive is KERNEL:
            given = [v for o in operands if (v := values[o]) is not None]
            calls[position] = _call(node, given, in_place, position)
            value = calls[position][0]
        elif node.primitive is KERNEL_OUTPUT:
            value = calls[operands[0]][(node.attrs or (0,))[0]]
        else:
            value = compute(node, [v for o in operands if (v := values[o]) is not None])
        values.append(value)
        if position in wanted:
            results[position] = store(value)
        for operand in operands:
            if last_use[operand] == position:
                values[operand] = None
    return [results[position] for position in tape.outputs]


def _call(node: Node, operands: list[Array], in_place: bool, position: int) -> list[Array]:
    """What a call of a kernel written by hand leaves in its targets."""
    attrs = node.attrs or ()
    results, fault = handwritten.interpret(attrs, operands)
    if fault is not None:
        line = None if node.where is None else recorded_line(node.where)
        raise handwritten.outside(handwritten.Arguments.of(attrs), fault[0] - 1, fault[1], line, position)
    if in_place:
        for t, result in zip(handwritten.Arguments.of(attrs).targets, results, strict=True):
            operands[t][...] = result
    return results


def store(value: Array) -> Any:
    """A new buffer holding a copy of the array in C order."""
    buffer = _runtime.allocate(value.nbytes)
    np.copyto(_runtime.array(buffer, value.shape, value.dtype, writable=True), value)
    return buffer
