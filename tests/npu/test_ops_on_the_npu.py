"""The op table on an NPU: the bits that the simulator gives, with streams that take their time."""

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
from standin.machine import Machine

from pyasc.ops.registry import Operation

BACKENDS = ("sim", "npu:0")
DELAY_US = 200
USUAL_SIZE = 17  # neither whole blocks nor whole repeats
FEW = 16  # one of so many runs in the usual suite

Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def slow_streams(npu_machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """Each task of a stream waits for a while: what is not ordered shows."""
    monkeypatch.setenv("STANDIN_DELAY_US", str(DELAY_US))
    npu_machine.reset()
    yield npu_machine


def equal(entry: Operation, given: Array, expected: Array, scale: float) -> None:
    assert given.shape == expected.shape
    assert given.tobytes() == expected.tobytes(), f"{given} against {expected}"


@seldom(every_batch(USUAL), FEW)
def test_elementwise(entries: list[Operation], name: str, slow_streams: Machine) -> None:
    check_batch(BACKENDS, entries, name, usual_size(name), equal)
    assert slow_streams.count("launches")


@pytest.mark.full
@pytest.mark.parametrize("size", EVERY_SIZE)
@every_batch(DTYPES)
def test_elementwise_tails(entries: list[Operation], name: str, size: int) -> None:
    check_batch(BACKENDS, entries, name, size, equal)


@pytest.mark.parametrize(
    "size", [n if n == USUAL_SIZE else pytest.param(n, marks=pytest.mark.full) for n in EVERY_SIZE]
)
def test_tails(size: int, slow_streams: Machine) -> None:
    check_tails(BACKENDS, size)
    assert slow_streams.count("launches")


@seldom(each_rest(), FEW)
def test_cases(entry: Operation) -> None:
    check_first_case(BACKENDS, entry, equal)


@pytest.mark.full
@pytest.mark.parametrize("name", DTYPES)
@each_rest()
def test_every_case(entry: Operation, name: str) -> None:
    check_every_case(BACKENDS, entry, name, equal)
