"""How a vector kernel is cut, for people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .alloc import Placement
from .buffers import Buffers
from .chip import Chip
from .rearrange import described
from .stage import Stages

if TYPE_CHECKING:
    from .vector_kernel import VectorTuning


@dataclass(frozen=True)
class VectorTiling:
    """How a vector kernel is cut, for people."""

    kernel: str
    tuning: VectorTuning
    chip: Chip
    buffers: Buffers
    placement: Placement
    stages: Stages

    @property
    def bytes_used(self) -> int:
        """Of UB."""
        return self.placement.bytes_used

    @property
    def saved(self) -> float:
        """The part of the bytes without reuse that reuse saves; 0 where gaps between banks take more."""
        return max(0.0, 1 - self.placement.bytes_used / self.bytes_without_reuse)

    @property
    def bytes_without_reuse(self) -> int:
        """What UB would hold if every value had a buffer of its own."""
        t = self.tuning
        return max(1, self.buffers.bytes_without_reuse((t.points, t.rows, t.lanes), t.copies))

    def __str__(self) -> str:
        t, p = self.tuning, self.placement
        room = self.chip.capacity.ub_usable
        lines = [
            f"tiles of {self.kernel} on {self.chip.name}: up to {t.points} points, {t.rows} rows, "
            f"{t.lanes} lanes; {t.copies} buffer{'s' if t.copies > 1 else ''} for each operand",
            f"UB {p.bytes_used:,} of {room:,} B; {self.bytes_without_reuse:,} without reuse "
            f"({100 * self.saved:.0f} % saved), {p.live_bound:,} alive at the fullest point",
        ]
        for b in sorted(self.buffers.buffers, key=lambda b: (b.kind, b.name)):
            copies = t.copies if b.place.copied else 1
            places = ", ".join(str(p.offsets[f"{b.place.name}.{n}"]) for n in range(copies))
            lines.append(f"  {b.kind:<9} {b.name:<10} {b.size(t.points, t.rows, t.lanes):>7} B @ {places}")
        lines += [f"  {line}" for line in described(self.stages)]
        return "\n".join(lines)
