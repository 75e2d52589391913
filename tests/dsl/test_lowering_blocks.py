"""Shared memory, barriers and the ids of blocks, lowered and run by the reference interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
from lowering_checks import launch, lowered

import pyasc
from pyasc.dsl.language import (
    barrier,
    get_global_id,
    get_group_id,
    get_local_id,
    get_local_size,
    shared,
)
from pyasc.dsl.signature import Options

TILE = 4


def reversed_blocks(c: Any, a: Any) -> None:
    i, k = get_global_id(0), get_local_id(0)
    tile = shared(8, pyasc.float32)
    tile[k] = a[i]
    barrier()
    c[i] = tile[get_local_size(0) - 1 - k] + get_group_id(0)


def test_a_block_shares_memory() -> None:
    a, c = np.arange(24, dtype=np.float32), np.zeros(24, np.float32)
    assert launch(reversed_blocks, (24,), Options(block_dim=(8,)), c=c, a=a) is None
    np.testing.assert_array_equal(c, a.reshape(3, 8)[:, ::-1].ravel() + np.repeat([0, 1, 2], 8))
    kernel = lowered(reversed_blocks, Options(block_dim=(8,)), c=c, a=a).kernel
    assert kernel.block == (8,) and kernel.buffers[0].shape == (8,)


@shared
def load_tile(a: Any, row: Any, column: Any) -> Any:
    tile = pyasc.empty((TILE, TILE), pyasc.float32)
    y, x = get_local_id(0), get_local_id(1)
    if row + y < a.shape[0] and column + x < a.shape[1]:
        tile[y, x] = a[row + y, column + x]
    else:
        tile[y, x] = 0
    return tile


def tiled_matmul(c: Any, a: Any, b: Any) -> None:
    i, j = get_global_id(0), get_global_id(1)
    y, x = get_local_id(0), get_local_id(1)
    acc = pyasc.float32(0)  # type: ignore[operator]
    for k in range(0, a.shape[1], TILE):
        left = load_tile(a, i - y, k)
        right = load_tile(b, k, j - x)
        barrier()
        for m in range(TILE):
            acc += left[y, m] * right[m, x]
        barrier()
    c[i, j] = acc


def test_tiles_loaded_by_a_shared_function() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.random((8, 10), np.float32), rng.random((10, 12), np.float32)
    c = np.zeros((8, 12), np.float32)
    assert launch(tiled_matmul, (8, 12), Options(block_dim=(TILE, TILE)), c=c, a=a, b=b) is None
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)


@shared
def counters() -> Any:
    return pyasc.zeros((3, 5), dtype=pyasc.int32)


def block_histogram(c: Any, a: Any) -> None:
    i, k = get_global_id(0), get_local_id(0)
    counts = counters()
    pyasc_atomic(counts, (a[i] // 5, a[i] % 5), 1)
    barrier()
    for bin_ in range(k, 15, get_local_size(0)):
        c[get_group_id(0), bin_] = counts[bin_]


from pyasc.dsl.language import atomic_add as pyasc_atomic  # noqa: E402


def test_shared_zeros_and_atomic_updates() -> None:
    a = np.random.default_rng(2).integers(0, 15, 32)
    c = np.zeros((4, 15), np.int32)
    assert launch(block_histogram, (32,), Options(block_dim=(8,)), c=c, a=a) is None
    np.testing.assert_array_equal(c, [np.bincount(part, minlength=15) for part in a.reshape(4, 8)])
