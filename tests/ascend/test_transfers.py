"""Tiles between memory and UB for every layout, dtype and size, run on the simulator against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from simulated_kernels import DTYPES, Sum, ways

Dtype = np.dtype[Any]
SIZES = [100, *range(1, 34), 1000]
# Rows × lanes, tuned for the first: short and long rows, tails of tiles, more rows than a strip has.
PLANES = (
    [(33, 33)]
    + [(3, n) for n in (1, 2, 7, 15, 16, 17, 31, 32, 33, 100, 1000)]
    + [(1, 5), (100, 17), (700, 9)]
)

LINES = {
    "loads": ([(2,), (3,), (-1,), (-4,), (40,), (-40,)], (1,), ["steps"] * 4 + ["slots"] * 2 + ["rows"]),
    "reversed": ([(1,), (-2,)], (-1,), ["rows", "steps", "steps"]),
    "apart": ([(8,)], (3,), ["steps", "slots"]),
    "backwards": ([(1,)], (-5,), ["rows", "slots"]),
}
LAYOUTS = {
    "turned": ([(1, 1100)], (1000, 1), ["turned", "rows"]),
    "turned and stepped": (
        [(1000, 1), (2, 1500), (-1, 1100)],
        (1000, 1),
        ["rows", "turned", "turned", "rows"],
    ),
    "apart": ([(37, 41), (-37, -41), (2000, 2)], (1000, 1), ["slots", "slots", "steps", "rows"]),
    "turned out": ([(1000, 1), (1000, 1)], (1, 1100), None),
    "turned back": ([(1000, 1), (-1000, -1), (1000, 1)], (-1, 1100), None),
    "apart out": ([(1000, 1)], (5000, 3), ["rows", "slots"]),
    "spread": ([(0, 5), (5, 0), (0, -1), (2, 0)], (1000, 1), None),
    "windows": ([(1, 1), (-1, 1), (40, 1)], (1000, 1), ["rows"] * 4),
}


def cases(layouts: dict[str, Any]) -> Any:
    """Every layout with every dtype; without ``--full`` each layout with one of them."""
    found = []
    for row, (name, case) in enumerate(layouts.items()):
        for column, dtype in enumerate(DTYPES):
            often = column == (10 - 3 * row) % len(DTYPES)
            found.append(
                pytest.param(dtype, *case, id=f"{name}-{dtype.name}", marks=() if often else pytest.mark.full)
            )
    return pytest.mark.parametrize("dtype, inputs, output, kinds", found)


@cases(LINES)
def test_lines_of_every_size(
    dtype: Dtype, inputs: list[tuple[int]], output: tuple[int], kinds: list[str]
) -> None:
    total = Sum(dtype, inputs, output)
    found = [total(size) for size in SIZES]
    if dtype.itemsize <= 4:
        assert ways(found[-1]) == kinds


@cases(LAYOUTS)
def test_planes_of_every_size(
    dtype: Dtype, inputs: list[tuple[int, int]], output: tuple[int, int], kinds: list[str] | None
) -> None:
    total = Sum(dtype, inputs, output)
    found = [total(*plane) for plane in PLANES]
    if kinds:
        assert ways(found[0]) == kinds
