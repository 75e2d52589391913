"""The choices made for a kernel at representative sizes."""

from __future__ import annotations

from typing import NamedTuple

from ..ir import Binding, Kernel, Stride
from .target import Target


class Tuning(NamedTuple):
    """How a kernel is compiled. Plain data: it is part of the kernel's key.

    Attributes
    ----------
    strategy : str
        ``elementwise``, ``rows`` (the lanes go along a reduced axis) or ``columns`` (they go along a parallel one).
    lane : int
        The axis that the lanes of a vector go along.
    row : int
        The parallel axis looped over next; -1 for none.
    width : int
        Lanes of a vector.
    unroll : int
        Vectors computed side by side; 0: one, always under a mask.
    strides : tuple of (int, int)
        Anchors and their strides along the lane axis, where these are small and constant.
    streaming : tuple of int
        Accesses stored past the caches.
    packed : tuple of int
        Accesses that are transposed block by block into scratch memory.
    split : int
        The reduced axis that is cut into pieces computed in parallel; -1 for none.
    keep : bool
        Whether expensive values are kept in scratch memory between passes over a row.
    """

    strategy: str
    lane: int
    row: int = -1
    width: int = 16
    unroll: int = 1
    strides: tuple[tuple[int, int], ...] = ()
    streaming: tuple[int, ...] = ()
    packed: tuple[int, ...] = ()
    split: int = -1
    keep: bool = True

    def stride(self, anchor: int) -> int | None:
        return next((s for a, s in self.strides if a == anchor), None)


def choose(kernel: Kernel, binding: Binding, target: Target) -> Tuning:
    """Choose for representative sizes."""
    sizes = [i.dtype.itemsize for i in kernel.body if i.op != "store"]
    width = target.lanes(8 * max(sizes, default=4))
    lane = max(kernel.parallel, 1) - 1
    return Tuning("elementwise", lane, lane - 1, width, 2)
