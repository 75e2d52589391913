"""Runs generated matrix products on the simulator, and what NumPy makes of the same operands."""

from __future__ import annotations

import functools
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from pyasc.backend.ascend import chip
from pyasc.backend.ascend.cube import Contraction, CubeKernel, CubeOptions, CubeSizes, generate
from pyasc.backend.sim.simulator import Module, Simulator

DTYPES: dict[str, Any] = {
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "float32": np.float32,
    "int8": np.int8,
    "int32": np.int32,
}
# Bits of mantissa with the implicit one.
BITS = {"float16": 11, "bfloat16": 8, "float32": 24}
CHIP = chip.load("910B1")


@functools.cache
def kernel(contraction: Contraction, options: CubeOptions | None = None) -> tuple[CubeKernel, Module]:
    """A generated kernel, compiled."""
    made = generate(contraction, CHIP, options)
    return made, Simulator(CHIP, None).compile(made.source, made.name)


def operand(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> npt.NDArray[Any]:
    if dtype == "int8":
        return rng.integers(-128, 128, shape, dtype=np.int8)
    if dtype == "int32":
        return rng.integers(-(2**20), 2**20, shape, dtype=np.int32)
    return rng.standard_normal(shape).astype(DTYPES[dtype])


def check(
    made: CubeKernel,
    module: Module,
    m: int,
    n: int,
    k: int,
    batch: int = 1,
    padding: tuple[int, int, int] = (0, 0, 0),
    shared_b: bool = False,
    check_accesses: bool = True,
) -> None:
    """Run a product of these sizes with all checks on, its rows `padding` elements apart; compare with NumPy.

    Every float32 sum of k products rounds k times at most; what is written is rounded once more.
    """
    c = made.contraction
    rng = np.random.default_rng(m * 1_000_003 + n * 1009 + k)
    a_shape, b_shape = ((k, m) if c.transpose_a else (m, k)), ((n, k) if c.transpose_b else (k, n))
    matrices_b = 1 if shared_b else batch
    a = operand(rng, (batch, a_shape[0], a_shape[1] + padding[0]), c.dtype)
    b = operand(rng, (matrices_b, b_shape[0], b_shape[1] + padding[1]), c.dtype)
    guard = 77
    out = np.full((batch, m, n + padding[2]), guard, DTYPES[c.out])
    wide: Any = np.int64 if c.dtype == "int8" else np.float64
    left, right = a[:, :, : a_shape[1]].astype(wide), b[:, :, : b_shape[1]].astype(wide)
    left = left.swapaxes(1, 2) if c.transpose_a else left
    right = right.swapaxes(1, 2) if c.transpose_b else right
    expected, size = np.matmul(left, right), np.matmul(np.abs(left), np.abs(right))
    arguments: list[Any] = [a, b]
    if c.bias:
        bias = operand(rng, (n,), c.bias)
        arguments.append(bias)
        expected, size = expected + bias.astype(wide), size + np.abs(bias.astype(wide))
    if c.relu:
        expected = np.maximum(expected, 0)
    sizes = CubeSizes(
        m,
        n,
        k,
        batch,
        a_shape[1] + padding[0],
        b_shape[1] + padding[1],
        n + padding[2],
        b_stride=0 if shared_b else None,
    )
    assert made.fits(sizes)
    blocks, tiling, workspace = made.bind(sizes)
    assert workspace == 0 and 1 <= blocks <= CHIP.cube_cores
    module.run(blocks, [*arguments, out, tiling], cores="cube", check=check_accesses)
    assert (out[:, :, n:] == guard).all(), "wrote between the rows"
    got = out[:, :, :n]
    if c.out == "int32":
        np.testing.assert_array_equal(got, expected)
    elif c.dtype == "int8":
        np.testing.assert_array_equal(got, expected.astype(np.float32).astype(DTYPES[c.out]))
    else:
        bound = (k + 2) * 2.0**-24 * size + 2.0 ** -BITS[c.out] * np.abs(expected) + 2.0**-24
        error = np.abs(got.astype(np.float64) - expected)
        assert (error <= bound).all(), (m, n, k, float((error / bound).max()))
