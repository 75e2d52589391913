"""Structured kernels as native code: what is chosen for them, and how they are bound to sizes.

Neither needs LLVM; what writes the code (`generate.py`) is imported where something is compiled.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from math import prod
from typing import NamedTuple

from ...base import Launch
from ...structured import (
    TILE_STATEMENTS,
    Atomic,
    Barrier,
    Let,
    Span,
    Store,
    StructuredBinding,
    StructuredKernel,
    barriers,
    tiles,
    walk,
)
from ...structured.ranges import proven
from ..target import Target, lock
from .lanes import Variation, analyse, costs, width
from .merge import merged
from .work import Work

# Bytes up to which an array that is only updated atomically is copied for each piece of the work.
_MOST_PRIVATE = 64 << 10
_REMEMBERED = 256


class StructuredTuning(NamedTuple):
    """How a structured kernel is compiled. Plain data: it is part of the kernel's key.

    Attributes
    ----------
    lane : int
        The axis of the grid that the lanes of a vector go along; -1 where only spans have lanes.
    lanes : int
        Of a vector; 1 for code without vectors.
    private : tuple of int
        The arrays of which each piece of the work updates a copy of its own.
    proven : tuple of int
        The sites whose indices are not checked.
    contract : bool
        Whether a multiplication and an addition may become one instruction that rounds once.
    """

    lane: int
    lanes: int
    private: tuple[int, ...] = ()
    proven: tuple[int, ...] = ()
    contract: bool = False


def prepared(
    kernel: StructuredKernel, binding: StructuredBinding
) -> tuple[StructuredKernel, StructuredBinding, tuple[int, ...]]:
    """A kernel whose threads run on their own: blocks that share memory, and tiles, are written out as loops.

    Where that is not needed, axes of the grid are merged as far as the sizes allow.
    Also its binding, and the values of the scalar slots that it has more than the given one.
    """
    found = _prepared.get(id(kernel))
    if found is None or found[0] is not kernel:
        written = tiles.expand(barriers.regions(kernel)) if _is_written_out(kernel) else kernel
        found = _prepared[id(kernel)] = (kernel, written)
        if len(_prepared) > _REMEMBERED:
            _prepared.popitem(last=False)
    written = found[1]
    if written is kernel:
        return *merged(kernel, binding), ()
    bound, more = barriers.regions_binding(kernel, binding)
    numbers = (*(binding.numbers or (None,) * len(kernel.scalars)), *more)
    return written, replace(bound, numbers=numbers), more


_prepared: OrderedDict[int, tuple[StructuredKernel, StructuredKernel]] = OrderedDict()


def _is_written_out(kernel: StructuredKernel) -> bool:
    return bool(kernel.buffers) or any(isinstance(x, (Barrier, *TILE_STATEMENTS)) for x in walk(kernel.body))


def choose(
    kernel: StructuredKernel, binding: StructuredBinding, target: Target, contract: bool
) -> StructuredTuning:
    """Choose for representative sizes."""
    private = _private(kernel, binding)
    safe = tuple(sorted(_proven(kernel, binding)))
    if kernel.buffers or any(isinstance(x, Span) for x in walk(kernel.body)):
        lane, lanes = -1, width(analyse(kernel, -1), target.register_bits) if kernel.optimize else 1
    else:
        lane, lanes = _lanes(kernel, binding, target)
    return StructuredTuning(lane, lanes, private, safe, contract)


def _proven(kernel: StructuredKernel, binding: StructuredBinding) -> frozenset[int]:
    """The sites whose indices stay inside at these sizes."""
    known = {slot: number for slot, number in enumerate(binding.numbers) if number is not None}
    return proven(kernel, binding, known)


def _lanes(kernel: StructuredKernel, binding: StructuredBinding, target: Target) -> tuple[int, int]:
    """The axis of the lanes, and their number."""
    best: tuple[float, int, int] | None = None
    for axis in reversed(range(kernel.axes)):
        extent = binding.grid[axis]
        found = analyse(kernel, axis)
        lanes = width(found, target.register_bits)
        vector, scalar = costs(found, lanes)
        vector *= -(-extent // lanes) * lanes / extent  # lanes that stay idle at the end of a row
        options = [(scalar, axis, 1)]
        if kernel.optimize:
            options.insert(0, (vector, axis, lanes))
        for cost, lane, number in options:
            if best is None or cost / lanes < best[0]:
                best = (cost / lanes, lane, number)
    assert best is not None
    return best[1:]


def _private(kernel: StructuredKernel, binding: StructuredBinding) -> tuple[int, ...]:
    """Arrays that are small, and only updated, in one way, without a look at what was there."""
    count = len(kernel.arrays)
    ways: dict[int, set[str]] = {}
    touched = set()
    for x in walk(kernel.body):
        if isinstance(x, Atomic):
            ways.setdefault(x.array, set()).add(x.how if x.result < 0 else "")
        elif isinstance(x, Store):
            touched.add(x.array)
        elif isinstance(x, Let) and x.op == "load":
            touched.add(x.attrs[0])
    return tuple(
        n
        for n, how in sorted(ways.items())
        if n < count
        and n not in touched
        and len(how) == 1
        and "" not in how
        and prod(binding.shapes[n]) * kernel.arrays[n].dtype.itemsize <= _MOST_PRIVATE
    )


class StructuredCode:
    """How a structured kernel is cut up, with the order of its integer arguments."""

    def __init__(self, kernel: StructuredKernel, tuning: StructuredTuning, target: Target) -> None:
        self.given = kernel
        self.tuning = tuning
        self.target = target
        self.work = Work(kernel, tuning.lane, tuning.private)
        self._fitting: OrderedDict[StructuredBinding, bool] = OrderedDict()

    @property
    def phases(self) -> tuple[str, ...]:
        return self.work.phases

    @cached_property
    def _found(self) -> Variation:
        return analyse(self.given, self.tuning.lane, self.tuning.lanes == 1)

    def text(self) -> str:
        """The code for LLVM."""
        with lock:
            from .generate import text

            tuning = self.tuning
            return text(
                self.given,
                self._found,
                self.work,
                tuning.lanes,
                self.target,
                tuning.contract,
                frozenset(tuning.proven),
            )

    def fits(self, binding: StructuredBinding) -> bool:
        """Whether the indices that are not checked stay inside at these sizes too."""
        fitting = self._fitting.get(binding)
        if fitting is None:
            fitting = self.tuning.private == _private(self.given, binding)
            if fitting and self.tuning.proven:
                fitting = _proven(self.given, binding).issuperset(self.tuning.proven)
            self._fitting[binding] = fitting
            if len(self._fitting) > _REMEMBERED:
                self._fitting.popitem(last=False)
        return fitting

    def bind(self, binding: StructuredBinding, addresses: Sequence[int]) -> Launch:
        return self.work.bind(binding, addresses)
