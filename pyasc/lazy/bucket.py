"""Dynamic-shape buckets: sizes within 20 % of a representative share its kernel and tuning."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

TOLERANCE = 0.2

Payload = TypeVar("Payload")


@dataclass
class Buckets(Generic[Payload]):
    """The buckets of one kernel structure.

    The first sizes met outside every bucket become the representative of a new one.
    """

    entries: list[tuple[tuple[int, ...], Hashable, Payload]] = field(default_factory=list)

    def find(
        self, sizes: tuple[int, ...], fits: Callable[[Payload], bool]
    ) -> tuple[tuple[int, ...], Payload] | None:
        """The representative of the bucket that holds `sizes` and fits otherwise, and what is kept for it."""
        for representative, _, payload in self.entries:
            if within(sizes, representative) and fits(payload):
                return representative, payload
        return None

    def find_tuning(self, tuning: Hashable) -> Payload | None:
        """What is kept for any bucket tuned the same way, or None."""
        for _, tuned, payload in self.entries:
            if tuned == tuning:
                return payload
        return None

    @property
    def tunings(self) -> int:
        """How many different tunings the buckets have: that many kernels were compiled for the structure."""
        return len({tuning for _, tuning, _ in self.entries})

    def add(self, sizes: tuple[int, ...], tuning: Hashable, payload: Payload) -> None:
        self.entries.append((sizes, tuning, payload))


def within(sizes: tuple[int, ...], representative: tuple[int, ...]) -> bool:
    """Whether every size is within the tolerance of the representative's."""
    return all(abs(n - r) <= TOLERANCE * r for n, r in zip(sizes, representative, strict=True))
