"""Shape and layout: views where NumPy has views, and writes through them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pyasc

VIEWS: list[Callable[[Any, Any], Any]] = [
    lambda m, x: m.reshape(x, (4, 6)),
    lambda m, x: m.transpose(x),
    lambda m, x: m.moveaxis(x, 0, -1),
    lambda m, x: m.swapaxes(x, 0, 1),
    lambda m, x: m.expand_dims(x, (0, 2)),
    lambda m, x: m.squeeze(m.expand_dims(x, 1)),
    lambda m, x: m.flip(x, (0, 2)),
    lambda m, x: m.rot90(x, 3),
    lambda m, x: m.ravel(x),
    lambda m, x: m.split(x, 2, axis=2)[1],
    lambda m, x: m.array_split(x, 2, axis=1)[1],
    lambda m, x: m.unstack(x, axis=1)[2],
    lambda m, x: m.atleast_3d(x[0]),
    lambda m, x: x[::-1, 1:, ::2],
]
COPIES: list[Callable[[Any, Any], Any]] = [
    lambda m, x: m.reshape(m.transpose(x), (4, 6)),
    lambda m, x: m.ravel(m.flip(x, 0)),
    lambda m, x: x.flatten(),
    lambda m, x: m.copy(x),
    lambda m, x: m.roll(x, 1, 0),
    lambda m, x: m.concatenate([x, x]),
    lambda m, x: m.tile(x, 2),
    lambda m, x: m.repeat(x, 2, 0),
    lambda m, x: m.tril(x),
]


@pytest.mark.parametrize("step", VIEWS)
def test_writes_go_through_views(step: Callable[[Any, Any], Any]) -> None:
    a = np.arange(24.0).reshape(2, 3, 4)
    x = pyasc.array(a)
    v, w = step(np, a), step(pyasc, x)
    v += 100
    w += 100
    np.testing.assert_array_equal(x, a)
    a *= 2
    x *= 2
    np.testing.assert_array_equal(w, v)


def test_diagonals_are_views() -> None:
    x = pyasc.zeros((3, 4))
    d = pyasc.diagonal(x, 1)
    d += 5
    assert x.tolist() == [[0, 5, 0, 0], [0, 0, 5, 0], [0, 0, 0, 5]]


@pytest.mark.parametrize("step", COPIES)
def test_writes_stay_with_copies(step: Callable[[Any, Any], Any]) -> None:
    a = np.arange(24.0).reshape(2, 3, 4)
    x = pyasc.array(a)
    copy = step(pyasc, x)
    np.testing.assert_array_equal(copy, step(np, a))
    copy += 100
    np.testing.assert_array_equal(x, a)


@given(data=st.data())
def test_reshape_is_a_view_exactly_where_numpys_is(data: st.DataObject) -> None:
    shape = data.draw(st.sampled_from([(4, 6), (2, 3, 4), (2, 2, 2, 3), (1, 24), (24,)]))
    order = data.draw(st.permutations(range(len(shape))))
    steps = tuple(data.draw(st.sampled_from([1, 1, 2, -1])) for _ in shape)
    a = np.arange(24).reshape(shape).transpose(order)[tuple(slice(None, None, s) for s in steps)]
    x = pyasc.arange(24).reshape(shape).transpose(order)[tuple(slice(None, None, s) for s in steps)]
    factors = [n for n in range(1, a.size + 1) if a.size % n == 0]
    first = data.draw(st.sampled_from(factors))
    second = data.draw(st.sampled_from([n for n in factors if (a.size // first) % n == 0]))
    new = (first, second, a.size // first // second)
    b, y = a.reshape(new), x.reshape(new)
    np.testing.assert_array_equal(y, b)
    assert (y.base is x.base) == np.shares_memory(a, b)


def test_broadcast_views_must_not_be_written() -> None:
    x = pyasc.broadcast_to(pyasc.arange(3), (2, 3))
    with pytest.raises(ValueError, match="repeats"):
        x += 1
    with pytest.raises(ValueError, match="repeats"):
        x[0, 0] = 1
    windows = pyasc.sliding_window_view(pyasc.arange(5), 3)
    with pytest.raises(ValueError, match="repeats"):
        windows += 1


def test_overlapping_reads_and_writes() -> None:
    x = pyasc.arange(6)
    x[1:] += x[:-1]
    assert x.tolist() == [0, 1, 3, 5, 7, 9]
    m = pyasc.arange(9).reshape(3, 3)
    m += m.T
    assert m.tolist() == [[0, 4, 8], [4, 8, 12], [8, 12, 16]]
    y = pyasc.arange(4)
    y[:2], y[2:] = y[2:].copy(), y[:2].copy()
    assert y.tolist() == [2, 3, 0, 1]


def test_what_was_recorded_before_a_write_keeps_its_values() -> None:
    x = pyasc.arange(3)
    before, view = x * 10, x[1:]
    seen = view + 0
    x += 1
    assert before.tolist() == [0, 10, 20] and seen.tolist() == [1, 2] and view.tolist() == [2, 3]


def test_reshape_arguments() -> None:
    x = pyasc.arange(12)
    assert x.reshape(3, 4).shape == x.reshape((3, -1)).shape == (3, 4)
    assert x.reshape(3, 4).T.reshape(-1, order="F").tolist() == list(range(12))
    assert x.reshape([2, 6]).shape == (2, 6)
    for wrong in ((5, 2), (-1, -1), (-1, 5), (-2, 6)):
        with pytest.raises(ValueError, match=r"\[reshape\]"):
            x.reshape(wrong)
    with pytest.raises(ValueError, match="without a copy"):
        pyasc.reshape(x.reshape(3, 4).T, (12,), copy=False)
    assert pyasc.zeros((0, 3)).reshape(-1, 3).shape == (0, 3)
    assert pyasc.zeros((2, 0)).reshape(0, 5).shape == (0, 5)


@pytest.mark.parametrize("mode", ["edge", "reflect", "symmetric", "wrap", "maximum", "linear_ramp", "mean"])
@pytest.mark.parametrize("width", [1, ((0, 2), (7, 3))])
def test_pad(mode: str, width: Any) -> None:
    a = np.arange(12.0).reshape(3, 4)
    np.testing.assert_allclose(pyasc.pad(pyasc.array(a), width, mode), np.pad(a, width, mode))


def test_pad_with_constants() -> None:
    a = np.arange(4).reshape(2, 2)
    x = pyasc.array(a)
    np.testing.assert_array_equal(pyasc.pad(x, 1, constant_values=7), np.pad(a, 1, constant_values=7))
    pairs = ((1, 2), (3, 4))
    np.testing.assert_array_equal(pyasc.pad(x, 1, constant_values=pairs), np.pad(a, 1, constant_values=pairs))
    np.testing.assert_array_equal(pyasc.pad(x, {-1: (1, 2)}), np.pad(a, {-1: (1, 2)}))
    with pytest.raises(ValueError, match="not negative"):
        pyasc.pad(x, -1)


def test_joining_promotes_and_checks() -> None:
    x = pyasc.ones((2, 3), dtype="int16")
    assert pyasc.concat([x, pyasc.ones((1, 3))]).dtype == np.float32
    assert pyasc.concat([x, x], axis=None).shape == (12,)
    assert pyasc.stack([x, x], dtype="float64").dtype == np.float64
    out = pyasc.zeros((4, 3))
    assert pyasc.concat([x, x], out=out) is out
    for wrong in ([], [x, pyasc.ones((2, 2))], [pyasc.ones(())]):
        with pytest.raises(ValueError, match=r"\[concat\]"):
            pyasc.concat(wrong)
    with pytest.raises(ValueError, match=r"\[stack\]"):
        pyasc.stack([x, x[:1]])


def test_layout_is_known_without_evaluating() -> None:
    x = pyasc.ones((1000, 3)) * 2
    views = [x.T, x[1:], x.reshape(3, 1000), pyasc.flip(x), x.mT, *pyasc.split(x, 2)]
    assert x.pending and all(v.pending for v in views)
