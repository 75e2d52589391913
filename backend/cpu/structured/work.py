"""How the threads of a structured kernel are cut into units of work, and the integers that its code reads.

Threads without a block of their own go row by row: a unit is some rows of the grid and a piece of them along
the lanes. Where threads share memory a unit is a block. Units depend on the sizes alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from ...base import Launch, Phase
from ...structured import StructuredBinding, StructuredKernel
from ..partition import LANE_CHUNK, UNIT_ELEMENTS, even
from .lanes import depth_cost

_ALIGNMENT = 128
# Copies of an array that is only updated atomically: as many units of work at most.
MOST_PIECES = 64
# Elements of such copies that one unit adds up.
MERGED = 1024
_LEAST_ELEMENTS = 64
_LEAST_CHUNKS = 64


class Place(NamedTuple):
    """Where something lies in scratch memory, and the strides of its axes, in bytes."""

    offset: int
    strides: tuple[int, ...]


class Work:
    """The work of a kernel.

    Parameters
    ----------
    kernel : StructuredKernel
        As it is compiled.
    lane : int
        The axis of the grid that lanes go along; -1 where a unit is a block of threads.
    private : tuple of int
        The arrays of which each piece of the work has its own copy.

    Attributes
    ----------
    phases : tuple of str
        The functions of the phases.
    integers : dict of str to int
        Where in the integer arguments each one is.
    buffers : tuple of Place
    thread_scratch : int
    """

    def __init__(self, kernel: StructuredKernel, lane: int, private: tuple[int, ...]) -> None:
        self.kernel = kernel
        self.lane = lane
        self.private = private
        self.phases = ("phase0", "phase1") if private else ("phase0",)
        self.cost = depth_cost(kernel)
        places, end = [], 0
        for buffer in kernel.buffers:
            places.append(Place(end, _strides(buffer.shape, buffer.dtype.itemsize)))
            end += -(-prod(buffer.shape) * buffer.dtype.itemsize // _ALIGNMENT) * _ALIGNMENT
        self.buffers = tuple(places)
        self.thread_scratch = end
        names = [f"grid.{k}" for k in range(kernel.axes)]
        for n, array in enumerate(kernel.arrays):
            names += [f"extent.{n}.{k}" for k in range(array.rank)]
            names += [f"stride.{n}.{k}" for k, c in enumerate(array.layout) if c not in "01"]
        names += [f"function.{n}" for n in range(len(kernel.functions))]
        if lane >= 0:
            names += ["rows", "row_block", "lane_chunk", "lane_chunks"]
        if private:
            names += ["units", "piece_units", "pieces", "piece_bytes"]
            for n in private:
                names += [f"private.{n}", f"count.{n}"]
                names += [f"private.{n}.{k}" for k in range(kernel.arrays[n].rank)]
        self.integers = {name: n for n, name in enumerate(names)}

    def bind(self, binding: StructuredBinding, addresses: Sequence[int]) -> Launch:
        """The launch for these sizes."""
        kernel = self.kernel
        values = {f"grid.{k}": e for k, e in enumerate(binding.grid)}
        for n, array in enumerate(kernel.arrays):
            for k, extent in enumerate(binding.shapes[n]):
                values[f"extent.{n}.{k}"] = extent
                values[f"stride.{n}.{k}"] = binding.strides[n][k] * array.dtype.itemsize
        for n, function in enumerate(kernel.functions):
            values[f"function.{n}"] = function.address
        units, grain = self._cut(binding, values)
        phases = [(units, grain)]
        scratch = 0
        if self.private:
            pieces = min(-(-units // grain), MOST_PIECES)
            piece_units = -(-units // pieces)
            pieces = -(-units // piece_units)
            end, most = 0, 1
            for n in self.private:
                size = kernel.arrays[n].dtype.itemsize
                count = prod(binding.shapes[n])
                values[f"private.{n}"], values[f"count.{n}"] = end, count
                for k, stride in enumerate(_strides(binding.shapes[n], size)):
                    values[f"private.{n}.{k}"] = stride
                end += -(-count * size // _ALIGNMENT) * _ALIGNMENT
                most = max(most, count)
            values |= {"units": units, "piece_units": piece_units, "pieces": pieces, "piece_bytes": end}
            scratch = end * pieces
            phases = [(pieces, 1), (-(-most // MERGED), 1)]
        return Launch(
            tuple(Phase(a, u, g) for a, (u, g) in zip(addresses, phases, strict=True)),
            tuple((n, offset * kernel.arrays[n].dtype.itemsize) for n, offset in enumerate(binding.offsets)),
            tuple(values[name] for name in self.integers),
            scratch,
            self.thread_scratch,
        )

    def _cut(self, binding: StructuredBinding, values: dict[str, int]) -> tuple[int, int]:
        """Units and how many of them are handed out at a time."""
        elements = max(_LEAST_ELEMENTS, int(UNIT_ELEMENTS / max(1.0, self.cost / 8)))
        if self.lane < 0:
            units = prod(binding.grid)
            return units, max(1, min(elements, units // _LEAST_CHUNKS))
        lanes = binding.grid[self.lane]
        rows = prod(binding.grid) // lanes
        # Whole rows where there are enough of them: memory is read in longer runs.
        most = LANE_CHUNK if rows >= _LEAST_CHUNKS else min(LANE_CHUNK, elements)
        chunk, chunks = even(lanes, most, 64 if lanes > 64 else 1)
        block, blocks = even(rows, max(1, elements // chunk), 1)
        values |= {"rows": rows, "row_block": block, "lane_chunk": chunk, "lane_chunks": chunks}
        return blocks * chunks, 1


def _strides(shape: Sequence[int], size: int) -> tuple[int, ...]:
    return tuple(size * prod(shape[k + 1 :]) for k in range(len(shape)))
