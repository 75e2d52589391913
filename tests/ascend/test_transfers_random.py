"""Kernels of random layouts, with and without reductions, run on the simulator against NumPy."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from simulated_kernels import DTYPES, GUARD, Running, bits, layout, span

from pyasc.backend.ir import Access, Binding, Instr, Kernel, Operand

Dtype = np.dtype[Any]
EXTENTS = (1, 2, 3, 5, 7, 16, 17, 31, 33, 64, 100)
MOST_POINTS = 60_000


class Walk:
    """A random way through memory, dense or with gaps, over all of the axes or some of them."""

    def __init__(self, choose: random.Random, extents: list[int], axes: int, distinct: bool) -> None:
        order = list(range(axes))
        if not distinct or choose.random() < 0.5:
            choose.shuffle(order)
        else:
            order.reverse()
        self.strides = [0] * len(extents)
        step = choose.choice([1, 1, 1, 2, 3, 4, 5, 11, 20])
        for axis in order:
            if not distinct and choose.random() < 0.12:
                continue
            self.strides[axis] = -step if choose.random() < 0.15 else step
            step *= extents[axis] + choose.choice([0, 0, 1, 3])
        self.offset, self.size = span(self.strides, extents)


def extents_of(choose: random.Random, rank: int) -> list[int]:
    extents = [choose.choice(EXTENTS) for _ in range(rank)]
    if rank <= 2 and choose.random() < 0.3:
        extents[choose.randrange(rank)] = choose.choice([300, 1000, 2500])
    while np.prod(extents) > MOST_POINTS:
        extents[choose.randrange(rank)] = choose.choice(EXTENTS[:4])
    return extents


def run_one(seed: int) -> None:
    """Some operands, some of them read at several places, added and perhaps reduced."""
    choose = random.Random(seed)
    dtype: Dtype = choose.choice(DTYPES)
    parallel = choose.choice([1, 1, 2, 2, 3])
    reduced = choose.choice([0, 0, 1, 2]) if dtype.kind in "iufV" and dtype.itemsize < 8 else 0
    extents = extents_of(choose, parallel + reduced)
    operands, accesses, strides, offsets, buffers = [], [], [], [], []

    def access(operand: int, walk: Walk, further: int) -> int:
        accesses.append(Access(operand, layout(walk.strides), len(accesses)))
        strides.append(tuple(walk.strides))
        offsets.append(walk.offset + further)
        return len(accesses) - 1

    body: list[Instr] = []
    for n in range(choose.choice([1, 1, 2, 3])):
        walk = Walk(choose, extents, len(extents), distinct=False)
        places = {0}
        for _ in range(choose.choice([0, 0, 0, 1, 3])):
            places.add(
                sum(abs(s) * choose.choice([0, 0, 1, 2]) for s in walk.strides) + choose.choice([0, 0, 1, 2])
            )
        body += [Instr("load", dtype, (), (access(n, walk, place),)) for place in sorted(places)]
        operands.append(Operand(f"x{n}", dtype))
        random_numbers = np.random.default_rng(seed + n)
        low = 0 if dtype.kind in "ub" else -3
        buffers.append(random_numbers.integers(low, 4, walk.size + max(places)).astype(dtype))
    last = 0
    for n in range(1, len(body)):
        body.append(Instr("xor" if dtype.kind == "b" else "add", dtype, (last, n)))
        last = len(body) - 1
    if reduced:
        exact = dtype.itemsize == 4
        body.append(Instr("reduce", dtype, (last,), (choose.choice(["add", "max"]) if exact else "max",)))
        last = len(body) - 1
    walk = Walk(choose, extents, parallel, distinct=True)
    operands.append(Operand("y", dtype, output=True))
    body.append(Instr("store", dtype, (last,), (access(len(operands) - 1, walk, 0),)))
    buffers.append(bits(dtype, walk.size + GUARD, seed))
    kernel = Kernel(parallel, reduced, tuple(operands), tuple(accesses), (), tuple(body), "any")
    Running(kernel)(Binding(tuple(extents), tuple(strides), tuple(offsets)), buffers)


@pytest.mark.parametrize("seed", range(8))
def test_random_layouts(seed: int) -> None:
    run_one(seed)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(8, 200))
def test_many_random_layouts(seed: int) -> None:
    run_one(seed)
