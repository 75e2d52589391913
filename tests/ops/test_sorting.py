"""Sorting and searching: NaN, order of equals, dtypes, layouts."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pytest

import pyasc as pa
from pyasc.ops.host import host_function

Mistakes = Callable[..., AbstractContextManager[Any]]
RNG = np.random.default_rng(0)
NAMES = ["bool", "int8", "uint16", "int64", "float16", "bfloat16", "float32", "float64"]


def few(shape: tuple[int, ...], dtype: Any) -> Any:
    """Numbers of which many are equal."""
    return RNG.integers(0, 5, shape).astype(np.dtype(pa.zeros(0, dtype=dtype).dtype))


@pytest.mark.parametrize("name", NAMES)
def test_order(name: str) -> None:
    memory = few((6, 20), name)
    x, wide = pa.asarray(memory), memory.astype(np.float64)
    for axis in (0, 1, None):
        np.testing.assert_array_equal(np.asarray(pa.sort(x, axis)), np.sort(wide, axis))
        np.testing.assert_array_equal(pa.argsort(x, axis, stable=True), np.argsort(wide, axis, stable=True))
        down = pa.argsort(x, axis, descending=True, stable=True)
        np.testing.assert_array_equal(down, np.argsort(-wide, axis, stable=True))
        np.testing.assert_array_equal(np.asarray(pa.sort(x, axis, descending=True)), -np.sort(-wide, axis))
    assert pa.sort(x).dtype == memory.dtype and pa.argsort(x).dtype == np.int64
    np.testing.assert_array_equal(np.asarray(pa.sort(x.T)), np.sort(wide.T))
    np.testing.assert_array_equal(np.asarray(pa.sort(x[::-1, ::2], 0)), np.sort(wide[::-1, ::2], 0))


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
def test_nan_stands_last(name: str) -> None:
    x = pa.asarray([2.0, np.nan, -np.inf, 1.0, np.inf]).astype(name)
    np.testing.assert_array_equal(np.asarray(pa.sort(x), np.float64), [-np.inf, 1, 2, np.inf, np.nan])
    np.testing.assert_array_equal(pa.argsort(x), [2, 3, 0, 4, 1])
    np.testing.assert_array_equal(
        np.asarray(pa.sort(x, descending=True), np.float64), [np.nan, np.inf, 2, 1, -np.inf]
    )


def test_in_place() -> None:
    x = pa.asarray([[3, 1, 2], [9, 8, 7]])
    row = x[0]
    row.sort()
    x[1].sort(descending=True)
    np.testing.assert_array_equal(x, [[1, 2, 3], [9, 8, 7]])


def test_partition() -> None:
    memory = RNG.random((3, 50), np.float32)
    parted = np.asarray(pa.partition(pa.asarray(memory), 10))
    np.testing.assert_array_equal(parted[:, 10], np.sort(memory)[:, 10])
    assert (parted[:, :10] <= parted[:, 10:11]).all() and (parted[:, 11:] >= parted[:, 10:11]).all()
    placed = pa.asarray(memory)
    placed.partition(10)
    np.testing.assert_array_equal(np.asarray(placed)[:, 10], np.sort(memory)[:, 10])
    index = np.asarray(pa.argpartition(pa.asarray(memory), (3, -1), axis=0 + 1))
    np.testing.assert_array_equal(
        np.take_along_axis(memory, index, 1)[:, [3, -1]], np.sort(memory)[:, [3, -1]]
    )


def test_lexsort() -> None:
    first, second = few((40,), "int8"), few((40,), "bfloat16")
    expected = np.lexsort((first, second.astype(np.float32)))
    np.testing.assert_array_equal(pa.lexsort((pa.asarray(first), pa.asarray(second))), expected)
    both = RNG.integers(0, 3, (2, 40))
    np.testing.assert_array_equal(pa.lexsort(pa.asarray(both)), np.lexsort(both))


@pytest.mark.parametrize("name", NAMES[1:])
def test_search(name: str) -> None:
    edges, values = np.sort(few((9,), name).astype(np.float64)), few((3, 4), name)
    x = pa.asarray(edges).astype(name)
    for side in ("left", "right"):
        expected = np.searchsorted(edges, values.astype(np.float64), side)
        np.testing.assert_array_equal(pa.searchsorted(x, pa.asarray(values), side), expected)
    shuffled = RNG.permutation(9)
    order = pa.argsort(x[shuffled], stable=True)
    np.testing.assert_array_equal(
        pa.searchsorted(x[shuffled], pa.asarray(values), sorter=order),
        np.searchsorted(edges, values.astype(np.float64)),
    )


@pytest.mark.parametrize("name", NAMES)
def test_distinct(name: str) -> None:
    memory = few((5, 8), name)
    wide = memory.astype(np.float64)
    ours = pa.unique(pa.asarray(memory), True, True, True)
    for found, expected in zip(ours, np.unique(wide, True, True, True), strict=True):
        np.testing.assert_array_equal(np.asarray(found), expected)
    assert ours[0].dtype == memory.dtype
    everything = pa.unique_all(pa.asarray(memory))
    np.testing.assert_array_equal(np.asarray(everything.values)[everything.inverse_indices], memory)
    np.testing.assert_array_equal(memory.ravel()[np.asarray(everything.indices)], everything.values)
    assert int(pa.unique_counts(pa.asarray(memory)).counts.sum()) == memory.size


def test_distinct_nans() -> None:
    x = pa.asarray([np.nan, 1.0, np.nan])
    assert pa.unique(x).shape == (2,)
    assert pa.unique(x, equal_nan=False).shape == pa.unique_values(x).shape == (3,)


def test_bins() -> None:
    memory = RNG.standard_normal(1000).astype(np.float32)
    x = pa.asarray(memory)
    for ours, theirs in zip(pa.histogram(x, 20), np.histogram(memory, 20), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(pa.digitize(x, [-1, 0, 1]), np.digitize(memory, [-1, 0, 1]))
    counts = RNG.integers(0, 9, 100)
    np.testing.assert_array_equal(pa.bincount(counts), np.bincount(counts))
    weighted = pa.bincount(counts, weights=x[:100])
    np.testing.assert_array_equal(weighted, np.bincount(counts, memory[:100].astype(np.float64)))
    places = np.array([0.0, 1.0, 3.0])
    np.testing.assert_allclose(
        pa.interp(x, places, places**2, left=-1), np.interp(memory, places, places**2, left=-1), rtol=1e-6
    )


def test_errors(mistake: Mistakes) -> None:
    x = pa.asarray([3.0, 1.0])
    with mistake(ValueError, "[sort]", "'bubble'"):
        pa.sort(x, kind="bubble")
    with mistake(IndexError, "[argsort]", "given 1"):
        pa.argsort(x, 1)
    with mistake(ValueError, "[partition]", "given 2"):
        pa.partition(x, 2)
    with mistake(ValueError, "[searchsorted]", "'middle'"):
        pa.searchsorted(x, 1.0, side="middle")
    with mistake(ValueError, "[searchsorted]", "one dimension"):
        pa.searchsorted(x[None], 1.0)
    with mistake(ValueError, "[bincount]", "given -1"):
        pa.bincount(pa.asarray([1, -1]))
    with mistake(TypeError, "[bincount]", "float32"):
        pa.bincount(x)


def test_a_host_function_has_a_name_of_its_own() -> None:
    def sort_on_host(x: Any) -> Any:
        return x

    with pytest.raises(ValueError, match="'sort_on_host' is declared twice"):
        host_function(sort_on_host)
