"""Placement of buffers: none overlaps a live one, little is wasted, operands lie in different banks."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyasc.backend.ascend import alloc
from pyasc.backend.ascend.alloc import BLOCK, REPEAT, Placement, Request, place
from pyasc.ops.errors import BackendError

CYCLE = 16 * BLOCK
LARGE = 1 << 30


def blocks(request: Request) -> int:
    return -(-request.bytes // BLOCK) * BLOCK


def bound(requests: Sequence[Request]) -> int:
    return max(sum(blocks(r) for r in requests if r.first <= p.first <= r.last) for p in requests)


def check(requests: Sequence[Request], placement: Placement) -> None:
    assert set(placement.offsets) == {r.name for r in requests}
    for r in requests:
        start = placement.offsets[r.name]
        assert start >= 0 and start % r.align == 0
        assert start + r.bytes <= placement.bytes_used
    for a, b in itertools.combinations(requests, 2):
        if a.first <= b.last and b.first <= a.last:
            start_a, start_b = placement.offsets[a.name], placement.offsets[b.name]
            assert start_a + a.bytes <= start_b or start_b + b.bytes <= start_a, (a, b)
    assert placement.live_bound == bound(requests) <= placement.bytes_used
    assert placement.bytes_without_reuse == sum(map(blocks, requests))


@st.composite
def sets(draw: st.DrawFn, most: int, links: bool = True) -> list[Request]:
    count = draw(st.integers(1, most))
    requests = []
    for n in range(count):
        first = draw(st.integers(0, 2 * count))
        requests.append(
            Request(
                f"b{n}",
                draw(st.integers(1, 20_000)),
                first,
                first + draw(st.integers(0, count)),
                draw(st.sampled_from([32, 32, 32, 64, 512])),
                tuple(f"b{draw(st.integers(0, count - 1))}" for _ in range(draw(st.integers(0, 2))))
                if links
                else (),
                (f"b{draw(st.integers(0, count - 1))}",) if links and draw(st.booleans()) else (),
            )
        )
    return requests


@given(sets(40))
def test_live_buffers_do_not_overlap(requests: list[Request]) -> None:
    check(requests, place(requests, LARGE))


def least(requests: Sequence[Request]) -> int:
    """By trying all orders: some order of first fit is optimal."""
    best = LARGE
    for order in itertools.permutations(requests):
        offsets: dict[str, int] = {}
        top = 0
        for r in order:
            busy = sorted(
                (offsets[o.name], offsets[o.name] + blocks(o))
                for o in order
                if o.name in offsets and o.first <= r.last and r.first <= o.last
            )
            at = 0
            for start, end in busy:
                if at + blocks(r) <= start:
                    break
                at = max(at, -(-end // r.align) * r.align)
            offsets[r.name] = at
            top = max(top, at + blocks(r))
        best = min(best, top)
    return best


@given(sets(6, links=False))
def test_few_buffers_take_the_least_memory(requests: list[Request]) -> None:
    placement = place(requests, LARGE)
    check(requests, placement)
    assert placement.bytes_used == least(requests)


@pytest.mark.parametrize(
    "lives",
    [
        [(5, 2, 5), (5, 0, 2), (3, 1, 1), (14, 2, 3), (18, 4, 5), (1, 2, 4)],
        [(7, 1, 3), (27, 2, 4), (17, 3, 5), (19, 0, 1), (2, 1, 1), (6, 1, 2), (14, 2, 2)],
        [(3, 0, 1), (7, 0, 4), (1, 1, 3), (11, 1, 1), (20, 2, 4), (12, 1, 2), (10, 0, 1)],
    ],
)
def test_a_set_that_orders_of_first_fit_miss_is_searched(lives: list[tuple[int, int, int]]) -> None:
    requests = [Request(f"b{n}", 32 * size, *life) for n, (size, *life) in enumerate(lives)]
    sizes = [r.bytes for r in requests]
    free: list[int | None] = [None] * len(requests)
    starts = alloc._first_fits(requests, sizes, free, CYCLE, bound(requests))
    assert alloc._end(starts, sizes) > bound(requests)
    placement = place(requests, bound(requests))
    check(requests, placement)
    assert placement.bytes_used == bound(requests)


def program(generator: random.Random, values: int, inputs: int, buffers: int) -> list[Request]:
    """Buffers of a tile's loop: inputs persist, values live from where they are made to their last use."""
    lives: dict[int, list[int]] = {}
    sources: dict[int, set[int]] = {}
    for v in range(values):
        lives[v] = [v, v]
        operands = {generator.randrange(max(0, v - 6), v) for _ in range(2)} if v else set()
        for operand in operands:
            lives[operand][1] = max(lives[operand][1], v)
        sources[v] = operands
    width = generator.choice([4096, 6144, 8192, 16384])
    requests = []
    for v in range(values):
        together = {o for group in sources.values() if v in group for o in group} - {v}
        requests.append(
            Request(
                f"v{v}",
                generator.choice([width, width, width // 2, width // 8, 32]),
                lives[v][0],
                lives[v][1],
                apart=tuple(f"v{o}" for o in sorted(together)),
                into=tuple(f"v{r}" for r, group in sources.items() if v in group),
            )
        )
    for n in range(inputs * buffers):
        requests.append(Request(f"x{n}", width, 0, values))
    return requests


@pytest.mark.parametrize("seed", range(40))
def test_programs_stay_near_the_bound(seed: int) -> None:
    generator = random.Random(seed)
    requests = program(generator, generator.randrange(4, 30), generator.randrange(1, 4), 2)
    placement = place(requests, LARGE)
    check(requests, placement)
    assert placement.bytes_used <= 1.05 * placement.live_bound + CYCLE * 8
    plain = place([Request(r.name, r.bytes, r.first, r.last) for r in requests], LARGE)
    check(requests, plain)
    assert plain.bytes_used <= 1.05 * plain.live_bound


def test_time() -> None:
    generator = random.Random(1)
    sets_of_forty = [program(generator, 34, 3, 2) for _ in range(20)]
    assert {len(s) for s in sets_of_forty} == {40}
    place(sets_of_forty[0], LARGE)
    best = 1.0
    for _ in range(3):
        start = time.process_time()
        for requests in sets_of_forty:
            place(requests, LARGE)
        best = min(best, (time.process_time() - start) / len(sets_of_forty))
    assert best < 5e-3


def test_an_exact_fit_fits_and_a_byte_less_does_not() -> None:
    requests = [Request("a", 64, 0, 2), Request("b", 96, 1, 3), Request("c", 64, 3, 4)]
    assert place(requests, 160).bytes_used == 160
    with pytest.raises(BackendError) as caught:
        place(requests, 159, kernel="scale")
    message = caught.value.message
    assert message.startswith("[scale] expected buffers that fit the 159 bytes of UB, given 160 bytes")
    assert "position 1: b 96, a 64" in message and "smaller tile" in message


def test_a_set_whose_bound_cannot_be_reached_says_what_it_needs() -> None:
    requests = [Request("a", 32, 0, 1, align=64), Request("b", 32, 0, 1, align=64)]
    assert place(requests, 96).bytes_used == 96
    with pytest.raises(BackendError, match="64 bytes of UB, given 96 bytes"):
        place(requests, 64)


def apart(placement: Placement, a: str, b: str) -> int:
    return (placement.offsets[b] - placement.offsets[a]) % CYCLE


def test_sources_of_one_instruction_start_in_the_other_half_of_the_banks() -> None:
    requests = [
        Request("x", 8192, 0, 2, apart=("y",), into=("z",)),
        Request("y", 8192, 0, 2, apart=("x",), into=("z",)),
        Request("z", 8192, 1, 2, into=("w",)),
        Request("w", 8192, 2, 3),
    ]
    placement = place(requests, 192 * 1024)
    check(requests, placement)
    assert apart(placement, "x", "y") == REPEAT
    assert apart(placement, "z", "w") == 0
    # z lies in the 64 KiB of x and y, and can be like one of the two only.
    assert placement.conflicts in ((("x", "z"),), (("y", "z"),))


def test_capacity_comes_before_banks() -> None:
    requests = [Request("x", 8192, 0, 1, apart=("y",)), Request("y", 8192, 0, 1)]
    tight = place(requests, 16384)
    assert tight.bytes_used == 16384 and tight.conflicts == (("x", "y"),)
    loose = place(requests, 16384 + REPEAT)
    assert loose.bytes_used == 16384 + REPEAT and loose.conflicts == ()


def test_memories_whose_banks_are_filled_by_one_operand_are_packed_tight() -> None:
    requests = [Request("x", 8192, 0, 1, apart=("y",)), Request("y", 8192, 0, 1)]
    assert place(requests, LARGE, bank_groups=8).bytes_used == 16384


def test_nothing_to_place() -> None:
    assert place([], 0).bytes_used == 0
