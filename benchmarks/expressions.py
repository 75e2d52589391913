"""Expressions of any length and any number of structures, for whatever library `xp` is."""

from __future__ import annotations

import random
from typing import Any

STEPS = (
    lambda xp, v, a, k: v + a,
    lambda xp, v, a, k: v - a * k,
    lambda xp, v, a, k: v * k,
    lambda xp, v, a, k: xp.maximum(v, a),
    lambda xp, v, a, k: xp.sqrt(xp.abs(v)),
    lambda xp, v, a, k: xp.tanh(v),
    lambda xp, v, a, k: xp.exp(-xp.abs(v)),
    lambda xp, v, a, k: xp.where(v > a, v, a),
)
OPERATIONS = (1, 2, 1, 1, 2, 1, 3, 2)  # how many operations each step is


def expression(xp: Any, a: Any, operations: int, seed: int) -> Any:
    """Record an elementwise expression of `operations` operations on `a`; another seed, another structure."""
    choose = random.Random(seed)
    v, done = a, 0
    while done < operations:
        step = choose.choice([s for s, size in enumerate(OPERATIONS) if size <= operations - done])
        v = STEPS[step](xp, v, a, 1 + 0.25 * choose.random())
        done += OPERATIONS[step]
    return v
