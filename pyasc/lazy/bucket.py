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

    def find(self, sizes: tuple[int, ...], fits: Callable[[Payload], bool]) -> Payload | None:
        """What is kept for a bucket that holds `sizes` and fits otherwise, or None."""
        for representative, _, payload in self.entries:
            if within(sizes, representative) and fits(payload):
                return payload
        return None

    def find_tuning(self, tuning: Hashable) -> Payload | None:
        """What is kept for any bucket tuned the same way, or None."""
        for _, tuned, payload in self.entries:
            if tuned == tuning:
                return payload
        return None

    def add(self, sizes: tuple[int, ...], tuning: Hashable, payload: Payload) -> None:
        self.entries.append((sizes, tuning, payload))


def within(sizes: tuple[int, ...], representative: tuple[int, ...]) -> bool:
    """Whether every size is within the tolerance of the representative's."""
    return all(abs(n - r) <= TOLERANCE * r for n, r in zip(sizes, representative, strict=True))
