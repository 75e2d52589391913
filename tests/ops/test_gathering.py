"""``take`` and its kin: what the generated cases of the op table do not reach."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pytest

import pyasc as pa

Mistakes = Callable[..., AbstractContextManager[Any]]


def views(x: Any) -> dict[str, Any]:
    return {"owner": x, "transposed": x.T, "reversed": x[::-1], "steps": x[:, ::2]}


MEMORY = np.arange(24.0, dtype=np.float32).reshape(4, 6)


@pytest.mark.parametrize("layout", views(MEMORY))
def test_take(layout: str) -> None:
    x, expected = views(pa.asarray(MEMORY))[layout], views(MEMORY)[layout]
    for index in (np.array([[0, -1], [2, 1]]), 1, [0, 2]):
        for axis in (None, 0, 1):
            for given in (index, pa.asarray(index) + 0):
                np.testing.assert_array_equal(pa.take(x, given, axis), np.take(expected, index, axis))
    far = np.array([-9, 7, 30])
    for mode in ("wrap", "clip"):
        for given in (far, pa.asarray(far)):
            np.testing.assert_array_equal(pa.take(x, given, 0, mode), np.take(expected, far, 0, mode=mode))


def test_take_of_one_is_a_copy() -> None:
    x = pa.zeros((2, 2))
    y = pa.take(x, 0, axis=0)
    y[...] = 1
    assert float(x.sum()) == 0


@pytest.mark.parametrize("layout", views(MEMORY))
def test_along_axis(layout: str) -> None:
    expected = views(MEMORY)[layout].copy()
    for axis in (0, 1, -1):
        order = np.argsort(-expected, axis)
        np.testing.assert_array_equal(
            pa.take_along_axis(views(pa.asarray(MEMORY))[layout], order, axis),
            np.take_along_axis(expected, order, axis),
        )
        first = np.take(order, [0], axis)
        memory = MEMORY.copy()
        np.put_along_axis(views(memory)[layout], first, 99, axis)
        ours = pa.asarray(MEMORY)
        pa.put_along_axis(views(ours)[layout], first, 99, axis)
        np.testing.assert_array_equal(ours, memory)


@pytest.mark.parametrize("layout", views(MEMORY))
@pytest.mark.parametrize("values", [5, [1.0, 2.0], np.arange(9.0), np.arange(3.0)])
def test_put(layout: str, values: Any) -> None:
    index = np.array([[0, 5], [-1, 5]])
    memory, ours = MEMORY.copy(), pa.asarray(MEMORY)
    theirs = views(memory)[layout]
    theirs.flat[index.ravel()] = np.resize(values, 4)
    pa.put(views(ours)[layout], index, values)
    np.testing.assert_array_equal(ours, memory)


def test_place() -> None:
    x = pa.asarray(MEMORY)
    expected = MEMORY.copy()
    pa.place(x, x > 10, [1, 2, 3])
    np.place(expected, expected > 10, [1, 2, 3])
    np.testing.assert_array_equal(x, expected)


def test_conditions() -> None:
    x = pa.asarray(MEMORY)
    np.testing.assert_array_equal(pa.compress([True, False, True], x, axis=1), MEMORY[:, [0, 2]])
    np.testing.assert_array_equal(pa.extract(x % 5 == 0, x), MEMORY[MEMORY % 5 == 0])
    for ours, theirs in zip(pa.nonzero(x % 5 == 0), np.nonzero(MEMORY % 5 == 0), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(pa.argwhere(x > 20), np.argwhere(MEMORY > 20))
    np.testing.assert_array_equal(
        x[pa.ix_([0, 2], [True, False, False, True, False, False])], MEMORY[np.ix_([0, 2], [0, 3])]
    )


def test_index_add() -> None:
    index, values = np.array([0, 2, 0]), np.arange(18.0, dtype=np.float32).reshape(3, 6)
    expected = MEMORY.copy()
    np.add.at(expected, index, values)
    np.testing.assert_array_equal(pa.index_add(pa.asarray(MEMORY), 0, index, values), expected)
    half = pa.index_add(pa.zeros(1, dtype="float16"), 0, np.zeros(5000, int), pa.ones(5000, dtype="float16"))
    assert float(half[0]) == 5000


def test_errors(mistake: Mistakes) -> None:
    x = pa.asarray(MEMORY)
    with mistake(IndexError, "[getitem]", "given 9"):
        pa.take(x, 9, 0)
    with mistake(TypeError, "[take]", "float64"):
        pa.take(x, np.array([1.0]), 0)
    with mistake(ValueError, "[take]", "'raise', 'wrap' or 'clip'"):
        pa.take(x, 0, 0, mode="nearest")
    with mistake(ValueError, "[take_along_axis]", "2 dimensions"):
        pa.take_along_axis(x, [0], 0)
    with mistake(ValueError, "[nonzero]", "0-d"):
        pa.nonzero(pa.asarray(1.0))
    with mistake(TypeError, "[put]", "tensor to write to"):
        pa.put(MEMORY, 0, 0)
    with mistake(IndexError, "axis"):
        pa.take(x, 0, 2)


def test_failed_write_leaves_the_target(mistake: Mistakes) -> None:
    x = pa.asarray(MEMORY)
    beyond = pa.arange(3) + 98
    with mistake(IndexError, "[put]", "given 100"):
        pa.put(x, beyond, 7)
    with mistake(IndexError, "[put]"):
        pa.put(x, [0, 1000], 7)
    with mistake(IndexError, "[put_along_axis]", "axis 1"):
        pa.put_along_axis(x, beyond[None], 7, 1)
    with mistake(IndexError, "[put_along_axis]", "axis 0"):
        pa.put_along_axis(x, np.full((1, 1), -99), 7, 0)
    with mistake(IndexError, "[index_add]", "axis 0"):
        pa.index_add(x, 0, [99], pa.ones((1, 6)))
    np.testing.assert_array_equal(x, MEMORY)
    pa.put(x, beyond, 7, mode="clip")
    assert x[-1, -1].item() == 7


@pytest.mark.parametrize("axis", [0, -1])
def test_one_element_along_an_axis(axis: int) -> None:
    """NumPy goes along a 0-d array as along one of one element."""
    calls: list[Callable[[Any, Any], Any]] = [
        lambda np, x: np.take(x, [0, 0], axis=axis),
        lambda np, x: np.take(x, 0, axis=axis),
        lambda np, x: np.compress([True], x, axis=axis),
        lambda np, x: np.repeat(x, 2, axis=axis),
        lambda np, x: np.cumsum(x, axis=axis),
        lambda np, x: np.cumprod(x, axis=axis),
        lambda np, x: np.nancumsum(x, axis=axis),
        lambda np, x: np.cumulative_sum(x, axis=axis, include_initial=True),
        lambda np, x: np.argsort(x, axis=axis),
        lambda np, x: np.argpartition(x, 0, axis=axis),
        lambda np, x: np.argmax(x, axis=axis),
        lambda np, x: np.sum(x, axis=axis, keepdims=True),
        lambda np, x: np.max(x, axis=axis),
        lambda np, x: np.any(x, axis=axis),
    ]
    for call in calls:
        np.testing.assert_array_equal(call(pa, pa.asarray(5)), call(np, np.array(5)), strict=False)
        assert call(pa, pa.asarray(5)).shape == call(np, np.array(5)).shape
    for refused in (pa.cumsum, pa.sort, pa.argmax):
        with pytest.raises(ValueError, match="axis"):
            refused(pa.asarray(5), axis=1)
