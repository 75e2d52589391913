"""Whole numbers of blocks, repeats and fractals."""

from __future__ import annotations


def round_up(value: int, unit: int) -> int:
    """The least multiple of a unit that is not below a value."""
    return -(-value // unit) * unit
