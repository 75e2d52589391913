"""The op table on the simulated chip: what the CPU gives, and nothing that a check would find."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from ops_between_backends import (
    DTYPES,
    EVERY_SIZE,
    USUAL,
    check_batch,
    check_every_case,
    check_first_case,
    check_tails,
    each_rest,
    every_batch,
    seldom,
    usual_size,
)
from test_op_table import assert_close, is_float

import pyasc
from pyasc.ops.registry import Operation

# Units in the last place that an operation of the chip's own may be away from the CPU's, beside what the
# table allows: exp, ln, sqrt and division of the vector unit are within one each, and formulas have several.
ULP = 4
# Sums of many terms are taken in another order.
SUMS = 8
BACKENDS = ("cpu", "sim")
FEW = 2  # one of so many runs in the usual suite

Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def on_the_cpu_again() -> Iterator[None]:
    yield
    pyasc.config.backend = "cpu"


def near(entry: Operation, given: Array, expected: Array, scale: float, factor: int = 1) -> None:
    """Whole numbers and bools are equal; floats within a few units."""
    allowed = max(entry.ulp, 1.0) * ULP * factor if is_float(given.dtype) else 0.0
    assert_close(given, expected, allowed, scale)


def near_sums(entry: Operation, given: Array, expected: Array, scale: float) -> None:
    near(entry, given, expected, scale, SUMS)


@seldom(every_batch(USUAL), FEW)
def test_elementwise(entries: list[Operation], name: str) -> None:
    check_batch(BACKENDS, entries, name, usual_size(name), near)


@pytest.mark.full
@pytest.mark.parametrize("size", EVERY_SIZE)
@every_batch(DTYPES)
def test_elementwise_tails(entries: list[Operation], name: str, size: int) -> None:
    check_batch(BACKENDS, entries, name, size, near)


@pytest.mark.parametrize("size", EVERY_SIZE)
def test_tails(size: int) -> None:
    check_tails(BACKENDS, size)


@seldom(each_rest(), FEW)
def test_cases(entry: Operation) -> None:
    check_first_case(BACKENDS, entry, near_sums)


@pytest.mark.full
@pytest.mark.parametrize("name", DTYPES)
@each_rest()
def test_every_case(entry: Operation, name: str) -> None:
    check_every_case(BACKENDS, entry, name, near_sums)
