"""How a kernel's domain is cut: which axes span a tile, which are looped over, how accesses meet a tile."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod

from ..ir import Binding, Kernel, Stride
from .tile import Form


@dataclass(frozen=True)
class Plane:
    """The axes of a tile.

    Attributes
    ----------
    kernel : Kernel
    lane : int
        The axis whose elements lie side by side in UB.
    row : int
        The other axis of the tile; -1 for none, a tile is then one row.
    """

    kernel: Kernel
    lane: int
    row: int

    @cached_property
    def outer(self) -> tuple[int, ...]:
        """Parallel axes that are looped over, outermost first."""
        return tuple(k for k in range(self.kernel.parallel) if k not in (self.lane, self.row))

    @cached_property
    def inner(self) -> tuple[int, ...]:
        """Reduced axes that are looped over, outermost first."""
        return tuple(
            k for k in range(self.kernel.parallel, self.kernel.rank) if k not in (self.lane, self.row)
        )

    @property
    def reduces_lanes(self) -> bool:
        """Whether the lanes of a tile are reduced."""
        return self.lane >= self.kernel.parallel

    @property
    def reduces_rows(self) -> bool:
        """Whether the rows of a tile are reduced."""
        return self.row >= self.kernel.parallel

    @property
    def single(self) -> Form:
        """The form of a single element that is stored: a column of one row, or a row of one lane."""
        return Form.ROW if self.reduces_rows else Form.COLUMN

    def form(self, axes: set[int]) -> Form | None:
        """The form of a value that depends on some axes; None where it is the same all over a tile."""
        if self.row < 0:
            return Form.FULL if self.lane in axes else None
        if self.lane in axes:
            return Form.FULL if self.row in axes else Form.ROW
        return Form.COLUMN if self.row in axes else None

    def access_form(self, access: int) -> Form | None:
        """How an access spans the tile."""
        layout = self.kernel.accesses[access].layout
        return self.form({k for k, c in enumerate(layout) if c != Stride.ZERO})


def choose_plane(kernel: Kernel, binding: Binding) -> Plane:
    """The plane whose tiles are copied in the longest pieces."""
    if kernel.rank == 0:
        return Plane(kernel, 0, -1)
    lane = max(range(kernel.rank), key=lambda axis: _lane_score(kernel, binding, axis))
    if lane >= kernel.parallel:
        candidates = range(kernel.parallel)
    elif kernel.reduced:
        candidates = range(kernel.parallel, kernel.rank)
    else:
        candidates = range(kernel.parallel)
    folded = candidates.start > 0  # the reduced axes: there must be one among the rows
    rows = [k for k in candidates if k != lane and (folded or binding.extents[k] > 1)]
    row = max(
        rows,
        key=lambda axis: (_turned(kernel, binding, lane, axis), binding.extents[axis], axis),
        default=-1,
    )
    return Plane(kernel, lane, row)


def _turned(kernel: Kernel, binding: Binding, lane: int, axis: int) -> float:
    """How many bytes lie side by side along an axis, but not along the lanes: their tiles are transposed."""
    total = 0.0
    for access, strides in zip(kernel.accesses, binding.strides, strict=True):
        if strides[axis] == 1 and abs(strides[lane]) > 1:
            points = prod(e for e, stride in zip(binding.extents, strides, strict=True) if stride)
            total += points * kernel.operands[access.operand].dtype.itemsize
    return total * min(1.0, binding.extents[axis] / 8)


def _worth(stride: int) -> float:
    """Of a step along the lanes: what is side by side is copied fast, what is close not much slower."""
    if stride in (0, 1):
        return float(stride)
    return 0.75 if stride == -1 else 0.5 if abs(stride) <= 4 else -0.5


def _lane_score(kernel: Kernel, binding: Binding, axis: int) -> tuple[float, int, int]:
    """Accesses that step by few elements along an axis, less those that step further; stores count double."""
    score = 0.0
    stored = {i.attrs[0] for i in kernel.body if i.op == "store"}
    for n, access in enumerate(kernel.accesses):
        points = 1
        for extent, stride in zip(binding.extents, binding.strides[n], strict=True):
            points *= extent if stride else 1
        weight = points * (2 if n in stored else 1) * kernel.operands[access.operand].dtype.itemsize
        score += _worth(binding.strides[n][axis]) * weight
    # Short rows waste lanes: a piece of 32 bytes is the least that is copied.
    return score * min(1.0, binding.extents[axis] / 16), binding.extents[axis], axis
