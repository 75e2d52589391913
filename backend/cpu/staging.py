"""Values that are read at shifted points: computed once for a unit's tile and its border, in scratch memory.

Where the border cannot be had that way, along an axis that units do not cut into tiles, the value is written
out for each point that reads it instead (`unshifted`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ..ir import Access, Binding, Instr, Kernel, Stride
from .analysis import Analysis

if TYPE_CHECKING:
    from .tuning import Tuning

# Lanes of a tile, and the bytes of all tiles of a thread: half of a second-level cache.
LANES = 1024
TILE_BYTES = 256 << 10
ROWS = 32
INT64 = np.dtype(np.int64)
Distance = tuple[int, ...]


def shifts(kernel: Kernel) -> list[int]:
    """The instructions that read at a shifted point."""
    return [n for n, i in enumerate(kernel.body) if i.op == "shift"]


def staged(kernel: Kernel) -> list[int]:
    """The values that they read."""
    return sorted({kernel.body[n].args[0] for n in shifts(kernel)})


def border(kernel: Kernel, axis: int) -> int:
    """How far shifts reach along an axis."""
    return max((kernel.body[n].attrs[axis] for n in shifts(kernel)), default=0) if axis >= 0 else 0


def names(kernel: Kernel) -> tuple[str, ...]:
    """Integer arguments: elements from one row of a tile to the next, and where each value's tile begins."""
    values = staged(kernel)
    return ("tile_pitch", *(f"tile.{v}" for v in values)) if values else ()


def sizes(kernel: Kernel, tuning: Tuning) -> tuple[int, int]:
    """The most lanes and rows of a tile."""
    width = sum(kernel.body[v].dtype.itemsize for v in staged(kernel))
    rows = TILE_BYTES // (width * LANES) - border(kernel, tuning.row)
    return LANES, max(4, min(ROWS, rows))


def bind(kernel: Kernel, tuning: Tuning, lanes: int, rows: int) -> tuple[dict[str, int], int]:
    """The arguments of `names` for tiles of this size, and the bytes of scratch that a thread needs."""
    values = staged(kernel)
    if not values:
        return {}, 0
    # A vector that begins inside a row may end beyond it.
    pitch = lanes + border(kernel, tuning.lane) + tuning.width * tuning.unroll
    arguments = {"tile_pitch": pitch}
    offset = 0
    for v in values:
        arguments[f"tile.{v}"] = offset
        offset += -(-(rows + border(kernel, tuning.row)) * pitch * kernel.body[v].dtype.itemsize // 64) * 64
    return arguments, offset


# --- written out ------------------------------------------------------------------------------------------


def unshifted(kernel: Kernel) -> Kernel:
    """The kernel with each shifted value computed anew at its point."""
    copies = _copies(kernel)
    number = {copy: k for k, copy in enumerate(copies)}
    accesses = []
    for a, distance in copies:
        access = kernel.accesses[a]
        delta, rest = _split(access, distance)
        accesses.append(
            Access(access.operand, access.layout, number[access.anchor, rest], access.delta + delta)
        )
    body: list[Instr] = []
    known: dict[tuple[int, Distance], int] = {}
    still = (0,) * kernel.rank
    tape = Analysis(kernel)

    def emit(n: int, distance: Distance) -> int:
        found = known.get((n, distance))
        if found is not None:
            return found
        instr = kernel.body[n]
        if instr.op == "shift":
            for m in tape.closure(instr.args):
                emit(m, instr.attrs)
            made = known[instr.args[0], instr.attrs]
        else:
            if instr.op in ("load", "store", "gather"):
                instr = replace(instr, attrs=(number[instr.attrs[0], distance],))
            body.append(replace(instr, args=tuple(known[a, distance] for a in instr.args)))
            made = len(body) - 1
            if instr.op == "index" and distance[instr.attrs[0]]:
                body.append(Instr("const", INT64, (), (distance[instr.attrs[0]],)))
                body.append(Instr("add", INT64, (made, made + 1)))
                made += 2
        known[n, distance] = made
        return made

    for n in tape.closure(tape.stores, stop=shifts(kernel)):
        emit(n, still)
    return replace(kernel, accesses=tuple(accesses), body=tuple(body))


def unshifted_binding(kernel: Kernel, binding: Binding) -> Binding:
    """The binding of `unshifted(kernel)`."""
    copies = _copies(kernel)
    return Binding(
        binding.extents,
        tuple(binding.strides[a] for a, _ in copies),
        tuple(
            binding.offsets[a] + sum(d * s for d, s in zip(distance, binding.strides[a], strict=True))
            for a, distance in copies
        ),
    )


def _copies(kernel: Kernel) -> list[tuple[int, Distance]]:
    """The accesses of the written-out kernel: access and distance."""
    still = (0,) * kernel.rank
    tape = Analysis(kernel)
    copies = {(a, still): None for a in range(len(kernel.accesses))}
    for n in shifts(kernel):
        distance = kernel.body[n].attrs
        for m in tape.closure(kernel.body[n].args):
            if kernel.body[m].op in ("load", "gather"):
                a = kernel.body[m].attrs[0]
                access = kernel.accesses[a]
                copies[access.anchor, _split(access, distance)[1]] = None
                copies[a, distance] = None
    return list(copies)


def _split(access: Access, distance: Distance) -> tuple[int, Distance]:
    """A distance as a constant number of elements and what is left of it."""
    delta = 0
    rest = []
    for kind, d in zip(access.layout, distance, strict=True):
        delta += {Stride.UNIT: d, Stride.NEGATIVE: -d}.get(kind, 0)
        rest.append(d if kind == Stride.ANY else 0)
    return delta, tuple(rest)
