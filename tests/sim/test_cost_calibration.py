"""The cost model beside published measurements: how far it may be off."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from ascend_calibration import ADDITION, COPIES, PRODUCT, PUBLISHED, Published, compare

NAMED = [pytest.param(row, id=row.name) for row in (*PUBLISHED[ADDITION], *PUBLISHED[PRODUCT])]


@pytest.mark.parametrize("row", NAMED)
def test_kernels_are_within_ten_percent_and_their_pipes_within_twenty(row: Published) -> None:
    result = compare(row)
    assert abs(result.error) < 0.10, result.task
    for pipe, error in result.pipe_errors.items():
        assert abs(error) < 0.20, (pipe, result.pipes[pipe])


@pytest.mark.full
@pytest.mark.parametrize("row", [pytest.param(row, id=row.name) for row in PUBLISHED[COPIES]])
def test_copies_are_within_fifteen_percent(row: Published) -> None:
    result = compare(row)
    assert abs(result.error) < 0.15, result.task


def test_the_order_of_the_variants_is_the_published_one() -> None:
    """What a programmer would choose by the model is what is faster on the chip."""
    rows = PUBLISHED[ADDITION][1:5]
    model = [compare(row).task[1] for row in rows]
    assert sorted(range(4), key=lambda i: model[i]) == sorted(range(4), key=lambda i: rows[i].task)
