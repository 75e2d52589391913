"""Generated kernels with one fault each: none may pass unseen.

Every event, barrier and buffer of a kernel is tried in turn. A fault that no check finds and that changes no
result is either a hole in the checks or something that the kernel need not have; the few of the latter kind
are listed as harmless, each with its reason.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
from mutants import CHIP, Array, Faults, Seeded, Subject, product, run, vector

import pyasc
from pyasc.backend.ascend.cube import CubeOptions
from pyasc.backend.ascend.vector_kernel import VectorTuning
from pyasc.backend.sim.simulator import Simulator

ORDER = ("events", "barriers")
BUFFERS = ("short_buffers", "places", "moved_buffers")
VALUES = ("counts", "strides", "modes")
CUBE = ("events", "barriers", "cube_buffers", "cube_sizes")


def softmax(x: Any) -> Any:
    e = pyasc.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def stencil(x: Any) -> Any:
    return x[:-2, :-2] + x[1:-1, 1:-1] * 2 + x[2:, 2:]


def tiles(**changes: Any) -> Callable[[VectorTuning], VectorTuning]:
    """Tiles so small that a little data fills many of them."""
    return lambda tuning: tuning._replace(**changes)


def nan_in_last_lane(x: Array) -> None:
    x[6::7, -1] = np.nan


def largest_in_last_lane(x: Array) -> None:
    x[:, -1] = 9


@dataclass(frozen=True)
class Case:
    make: Callable[[], Subject]
    sorts: tuple[str, ...]
    harmless: str = "$^"


CASES = {
    "elementwise": Case(
        partial(
            vector, "elementwise", lambda x, y: x + y, [(5001,)] * 2, blocks=1,
            smaller=tiles(points=1024, lanes=1024),
        ),
        (*ORDER, *BUFFERS, *VALUES),
    ),
    "bfloat16": Case(
        partial(
            vector, "bfloat16", lambda x, y: x + y, [(5001,)] * 2, "bfloat16", blocks=1,
            smaller=tiles(points=1024, lanes=1024),
        ),
        (*ORDER, *BUFFERS, *VALUES),
        # What is rounded to bfloat16 is widened and rounded again: the second time in any mode.
        r"CAST_TRUNC .*y2_ub|n became .*Cast\(t3_ub, t2_ub",
    ),
    "rows in one tile": Case(
        partial(
            vector, "softmax", softmax, [(21, 200)], blocks=1, smaller=tiles(points=1664, rows=7, lanes=256),
            prepare=nan_in_last_lane,
        ),
        (*ORDER, *BUFFERS, *VALUES, "clears"),
    ),
    "rows in several tiles": Case(
        partial(
            vector, "long_softmax", softmax, [(30, 5000)], blocks=2,
            smaller=tiles(points=2048, rows=2, lanes=1024, whole=False), prepare=largest_in_last_lane,
        ),
        (*ORDER, *BUFFERS, *VALUES),
    ),
    "sums of rows": Case(
        partial(
            vector, "sums", lambda x: x.sum(axis=1), [(60, 300)], blocks=1,
            smaller=tiles(points=2048, rows=8, lanes=512),
        ),
        (*ORDER, *BUFFERS, *VALUES),
    ),
    "sums of columns": Case(
        partial(
            vector, "column_sums", lambda x: x.sum(axis=0), [(60, 700)], blocks=1,
            smaller=tiles(points=2048, rows=8, lanes=256, whole=False),
        ),
        (*ORDER, *BUFFERS, *VALUES),
    ),
    "sums shared by cores": Case(
        partial(
            vector, "shared", lambda x: x.sum(axis=1), [(6, 50000)], blocks=4,
            smaller=tiles(points=8192, rows=2, lanes=4096),
        ),
        (*ORDER, *BUFFERS, *VALUES),
        # SyncAll itself waits for all pipes, once for each result. One round combines the parts of few cores.
        # Tiles are of one row.
        r"PipeBarrier<PIPE_ALL>|left out line.*V_MTE2>\(7\); and the wait|all events MTE3_V|both of y1_ub"
        r"|pitch \+ 16|^t\.s0_0 became",
    ),
    "sums shared by many cores": Case(
        partial(
            vector, "shared_columns", lambda x: x.sum(axis=0), [(3000, 700)],
            smaller=tiles(points=4096, rows=6),
        ),
        ORDER,
        # There is but one result for each team.
        r"PipeBarrier<PIPE_ALL>|all events MTE3_V",
    ),
    "a row for all rows": Case(
        partial(
            vector, "row", lambda x, r: x + r, [(50, 90), (90,)], blocks=1,
            smaller=tiles(points=1024, rows=10, lanes=128),
        ),
        (*ORDER, *BUFFERS, *VALUES),
    ),
    "gaps at the end of rows": Case(
        partial(
            vector, "gaps", lambda x, r: x + r, [(30, 83), (83,)], blocks=1,
            smaller=tiles(points=1024, rows=10),
        ),
        ("clears",),
    ),
    "stencil": Case(
        partial(
            vector, "stencil", stencil, [(52, 92)], blocks=1, smaller=tiles(points=1024, rows=10, lanes=128)
        ),
        (*ORDER, *BUFFERS, *VALUES, "clears"),
        # There is more of the array, which is copied and not used.
        r"(lanes|rows) \+ 1 .*x0(1)?_ub",
    ),
    "product, small tiles": Case(partial(product, "small", 40, 40, 5000, "float16"), CUBE[:3]),
    "product, large tiles": Case(
        partial(product, "large", 300, 300, 600, "float16"),
        ("events", "cube_buffers", "cube_sizes"),
        # Only for single rows. Of no effect on addresses. Rounded up to whole fractals.
        r"(nValue|srcDValue) = 1;|channelSize|- 1 .*kExtension",
    ),
    "product, float32": Case(partial(product, "float32", 100, 100, 500, "float32"), CUBE[:3]),
    "product without the unit flag": Case(
        partial(product, "waiting", 5000, 32, 80, "float16", CubeOptions(unit_flag=False)), ("events",)
    ),
    "small product without the unit flag": Case(
        partial(product, "small_waiting", 40, 40, 5000, "float16", CubeOptions(unit_flag=False)),
        ("barriers",),
    ),
}  # fmt: skip


@cache
def subject(name: str) -> Subject:
    return CASES[name].make()


@cache
def seeded(name: str) -> Seeded:
    case = CASES[name]
    return Seeded(subject(name), Faults(subject(name).source, case.harmless)(*case.sorts))


@pytest.mark.parametrize(
    ("name", "sort"), [(name, sort) for name, case in CASES.items() for sort in case.sorts]
)
def test_no_fault_passes_unseen(name: str, sort: str) -> None:
    missed = seeded(name).unseen(Faults(subject(name).source, CASES[name].harmless)(sort))
    assert not missed, "\n".join(missed)


def test_there_are_faults_of_every_sort() -> None:
    """A change of the generated text must not leave a sort without faults."""
    count: dict[str, int] = {}
    for name, case in CASES.items():
        for sort in case.sorts:
            found = Faults(subject(name).source, case.harmless)(sort)
            count[sort] = count.get(sort, 0) + len(found)
    assert min(count.values()) >= 4, count
    assert count["events"] > 500


@pytest.mark.parametrize(
    "name", [n for n, case in CASES.items() if set(case.sorts) & {"counts", "cube_sizes"}]
)
def test_buffers_in_memory_that_are_too_short(name: str) -> None:
    kernel = subject(name)
    module = Simulator(CHIP, None).compile(kernel.source, "kernel")
    assert not run(kernel, module)[0].kind
    for number in range(len(kernel.buffers)):
        if "workspace" in kernel.source and number == len(kernel.buffers) - 1:
            continue  # has room for as many cores as there are
        outcome, _ = run(kernel.with_short_buffer(number), module)
        assert outcome.kind == "bounds", (number, outcome)


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("product, small tiles", "TPosition::A1", "TPosition::VECCALC"),
        ("product, small tiles", "TPosition::A2", "TPosition::VECCALC"),
        ("product without the unit flag", "TPosition::B2", "TPosition::A2"),
        ("product, small tiles", "TPosition::CO1", "TPosition::VECCALC"),
        ("elementwise", "TPosition::VECCALC", "TPosition::A1"),
    ],
)
def test_buffers_in_the_wrong_memory(name: str, right: str, wrong: str) -> None:
    kernel = subject(name)
    source = kernel.source.replace(f"TBuf<{right}>", f"TBuf<{wrong}>")
    assert source != kernel.source
    outcome, _ = run(kernel, Simulator(CHIP, None).compile(source, "kernel"))
    assert outcome.kind == "position", outcome
