"""Kernels that are written in Ascend C and run on the simulator, against their meaning in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from pyasc.backend import reference
from pyasc.backend.ascend import vector_kernel
from pyasc.backend.ascend.chip import load
from pyasc.backend.ascend.generated import Generated
from pyasc.backend.ir import Access, Binding, Instr, Kernel, Operand, Stride
from pyasc.backend.sim.backend import launch
from pyasc.backend.sim.simulator import Module, Simulator

Array = np.ndarray[Any, Any]
Dtype = np.dtype[Any]
CHIP = load("910B1")
GUARD = 5  # elements around what a kernel touches
DTYPES: tuple[Dtype, ...] = (
    *(
        np.dtype(n)
        for n in ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "float16")
    ),
    np.dtype(ml_dtypes.bfloat16),
    np.dtype(np.float32),
)


@cache
def module(source: str, name: str) -> Module:
    return Simulator(CHIP, None).compile(source, name)


class Running:
    """A kernel that is generated when the one before does not fit the sizes."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.generated: list[Generated] = []

    def __call__(self, binding: Binding, buffers: Sequence[Array], scalars: Sequence[int] = ()) -> Generated:
        """Run on the simulator and in NumPy; every byte of every buffer must be the same."""
        found = next((g for g in self.generated if g.fits(binding)), None)
        if found is None:
            tuning = vector_kernel.tune(self.kernel, binding, CHIP)
            found = vector_kernel.generate(self.kernel, tuning, CHIP)
            self.generated.append(found)
            assert found.fits(binding)
        expected, given = [[b.copy() for b in buffers] for _ in range(2)]
        reference.run(self.kernel, binding, expected, scalars)
        launch(module(found.source, found.name), found, found.bind(binding), given, list(scalars))
        for operand, a, b in zip(self.kernel.operands, given, expected, strict=True):
            assert a.tobytes() == b.tobytes(), (operand.name, binding)
        return found


def layout(strides: Sequence[int]) -> str:
    names = {0: Stride.ZERO, 1: Stride.UNIT, -1: Stride.NEGATIVE}
    return "".join(names.get(s, Stride.ANY) for s in strides)


def values(dtype: Dtype, count: int, seed: int = 0) -> Array:
    """Small numbers, whose sums are exact in every dtype."""
    random = np.random.default_rng(seed)
    if dtype.kind == "b":
        return random.integers(0, 2, count).astype(bool)
    low = 0 if dtype.kind == "u" else -7
    return random.integers(low, 8, count).astype(dtype)


def bits(dtype: Dtype, count: int, seed: int = 0) -> Array:
    """Any bits; of 64-bit integers those that fit 32."""
    random = np.random.default_rng(seed)
    if dtype.kind == "b":
        return random.integers(0, 2, count).astype(bool)
    if dtype.itemsize == 8:
        return random.integers(-(2**31), 2**31, count).astype(dtype)
    if dtype.kind in "iu":
        return random.integers(0, 256, count * dtype.itemsize, dtype=np.uint8).view(dtype)
    return random.standard_normal(count).astype(dtype)


def span(strides: Sequence[int], extents: Sequence[int]) -> tuple[int, int]:
    """The offset at which nothing lies below the guard, and the elements of the buffer."""
    below = sum(-s * (e - 1) for s, e in zip(strides, extents, strict=True) if s < 0)
    above = sum(s * (e - 1) for s, e in zip(strides, extents, strict=True) if s > 0)
    return GUARD + below, GUARD + below + above + 1 + GUARD


def total(dtype: Dtype, count: int) -> tuple[Instr, ...]:
    """The body of a kernel that adds what it reads through so many accesses, and writes through the next."""
    body = [Instr("load", dtype, (), (n,)) for n in range(count)]
    last = 0
    for n in range(1, count):
        body.append(Instr("xor" if dtype.kind == "b" else "add", dtype, (last, n)))
        last = len(body) - 1
    return (*body, Instr("store", dtype, (last,), (count,)))


class Sum:
    """A kernel that adds what it reads through several layouts, each of an operand of its own."""

    def __init__(self, dtype: Dtype, inputs: Sequence[Sequence[int]], output: Sequence[int]) -> None:
        self.dtype = dtype
        self.strides = [*map(tuple, inputs), tuple(output)]
        count = len(inputs)
        operands = [Operand(f"x{n}", dtype) for n in range(count)] + [Operand("y", dtype, output=True)]
        accesses = [Access(n, layout(s), n) for n, s in enumerate(self.strides)]
        kernel = Kernel(len(output), 0, tuple(operands), tuple(accesses), (), total(dtype, count), "total")
        self.running = Running(kernel)

    def __call__(self, *extents: int) -> Generated:
        spans = [span(s, extents) for s in self.strides]
        binding = Binding(extents, tuple(self.strides), tuple(offset for offset, _ in spans))
        make = bits if len(spans) == 2 else values
        return self.running(binding, [make(self.dtype, size, n) for n, (_, size) in enumerate(spans)])


def ways(generated: Generated) -> list[str]:
    """How each access is copied."""
    return [w.kind for w in generated.tiling.tuning.ways]
