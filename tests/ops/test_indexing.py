"""``x[key]`` against NumPy, read and written, over layouts and kinds of index; aliasing; errors."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pyasc as pa

Mistakes = Callable[..., AbstractContextManager[Any]]
MASK = np.array([[True, False, True, True], [False, False, True, False], [True, True, False, True]])
ONE = np.array([2, 0, -1])
TWO = np.array([[0, 1], [2, -3]])

KEYS: list[Any] = [
    1,
    -1,
    np.int64(2),
    slice(None),
    slice(1, None),
    slice(None, None, -1),
    slice(None, None, 2),
    slice(5, 1, -2),
    slice(2, 2),
    slice(-100, 100),
    ...,
    None,
    (),
    (1, 2),
    (1, ...),
    (..., 1),
    (None, 1, None, slice(1, 3)),
    (slice(1, None), slice(None, -1)),
    (slice(None, None, -2), 3),
    ONE,
    [0, 2],
    [],
    [[0, 1], [2, 2]],
    np.array(1),
    np.array([], np.int64),
    ONE.astype(np.int8),
    ONE.astype(np.uint8) % 3,
    (ONE, ONE),
    (ONE, 1),
    (1, ONE),
    (slice(None), ONE),
    (ONE, slice(None, None, -1)),
    (TWO, ONE[:2]),
    (None, ONE),
    (ONE, None, ONE),
    (ONE, ..., ONE),
    (..., ONE, 1),
    (slice(None), TWO),
    (ONE[:, None], ONE[None, :]),
    MASK,
    MASK[:, 0],
    (MASK[:, 1], 2),
    (slice(None), MASK[0]),
    (MASK[:, 0], MASK[0, :] & MASK[2, :]),
    (MASK, None),
    (None, MASK),
    np.zeros((3, 4), bool),
    True,
    False,
    (True, ONE),
    [True, False, True],
    np.bool_(True),
]
LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "owner": lambda x: x,
    "transposed": lambda x: x.T,
    "reversed": lambda x: x[::-1, ::-1],
    "steps": lambda x: x[::2, 1::3],
}
STORED = {"owner": (3, 4), "transposed": (4, 3), "reversed": (3, 4), "steps": (5, 11)}


def pair(layout: str, dtype: Any = np.int32) -> tuple[Any, Any, Any, Any]:
    """The same memory and the same view of it, in pyasc and in NumPy."""
    shape = STORED[layout]
    memory = np.arange(int(np.prod(shape)), dtype=dtype).reshape(shape)
    ours = pa.asarray(memory)
    return ours, LAYOUTS[layout](ours), memory, LAYOUTS[layout](memory)


def pending(key: Any) -> Any:
    """A key with its arrays as tensors not yet computed."""
    if isinstance(key, tuple):
        return tuple(map(pending, key))
    if isinstance(key, np.ndarray):
        tensor = pa.asarray(key)
        return tensor | tensor if key.dtype == bool else tensor + 0
    return key


def equal(ours: Any, theirs: Any) -> None:
    theirs = np.asarray(theirs)
    found = np.asarray(ours)
    assert ours.dtype == theirs.dtype
    assert found.shape == theirs.shape
    np.testing.assert_array_equal(found, theirs)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("known", [True, False], ids=["known", "pending"])
@pytest.mark.parametrize("key", KEYS, ids=lambda k: str(k).replace("\n", ""))
def test_read(key: Any, known: bool, layout: str) -> None:
    _, x, _, expected = pair(layout)
    equal(x[key if known else pending(key)], expected[key])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("known", [True, False], ids=["known", "pending"])
@pytest.mark.parametrize("key", KEYS, ids=lambda k: str(k).replace("\n", ""))
def test_write(key: Any, known: bool, layout: str) -> None:
    shape = np.asarray(pair(layout)[3][key]).shape
    values: list[Any] = [7, 2.9, np.int64(-5), np.arange(100, 100 + int(np.prod(shape))).reshape(shape) + 0.5]
    if shape:
        values += [np.arange(200, 200 + shape[-1]), values[-1][:1]]
    for value in values:
        ours, x, memory, expected = pair(layout)
        expected[key] = value
        x[key if known else pending(key)] = pa.asarray(value) if isinstance(value, np.ndarray) else value
        equal(x, expected)
        equal(ours, memory)


AXIS = st.integers(-4, 3)
BOUND = st.none() | st.integers(-6, 6)
ENTRY = st.one_of(
    AXIS,
    st.builds(slice, BOUND, BOUND, st.sampled_from([None, 1, 2, -1, -3])),
    st.just(...),
    st.none(),
    st.lists(AXIS, min_size=0, max_size=3),
    st.lists(st.lists(AXIS, min_size=2, max_size=2), min_size=1, max_size=2).map(np.array),
    st.lists(st.booleans(), min_size=4, max_size=4).map(np.array),
    st.booleans(),
)


@given(st.lists(ENTRY, max_size=5).map(tuple), st.sampled_from([(4, 4, 4), (4,), (4, 4)]))
def test_any_key(key: Any, shape: tuple[int, ...]) -> None:
    memory = np.arange(int(np.prod(shape))).reshape(shape)
    ours = pa.asarray(memory)
    try:
        expected = memory[key]
    except IndexError:
        with pytest.raises(IndexError):
            ours[key]
        return
    equal(ours[key], expected)
    memory[key] = -1
    ours[key] = -1
    equal(ours, memory)


# --- memory ---
def test_regions_alias() -> None:
    x = pa.zeros((4, 4))
    row, block = x[1], x[1:3, ::2]
    x[1, 2] = 5
    assert float(row[2]) == 5 and float(block[0, 1]) == 5
    block[...] = 7
    assert float(x[2, 0]) == 7 and float(row[0]) == 7
    row[0][...] = 9  # one element is a copy, as NumPy's scalars are
    assert float(x[1, 0]) == 7
    x[1, 0, ...][...] = 9  # but with an ellipsis it is a view
    assert float(x[1, 0]) == 9


def test_arrays_copy() -> None:
    x = pa.arange(4)
    y = x[[0, 1]]
    y[0] = 9
    assert int(x[0]) == 0


def test_swap() -> None:
    x = pa.asarray([1.0, 2.0])
    x[0], x[1] = x[1], x[0]
    equal(x, np.array([2, 1], np.float32))
    y = pa.arange(4)
    y[:2], y[2:] = pa.asarray(y[2:]).copy(), y[:2].copy()
    equal(y, np.array([2, 3, 0, 1]))


def test_overlap() -> None:
    ours, theirs = pa.arange(10), np.arange(10)
    for x in (ours, theirs):
        x[1:] += x[:-1]
        x[::-1] -= x
        x[2:7] = x[4:9]
        x[x % 3] = x
    equal(ours, theirs)
    m, n = pa.reshape(pa.arange(9), (3, 3)), np.arange(9).reshape(3, 3)
    m += m.T
    n += n.T
    equal(m, n)


def test_a_reader_keeps_its_version() -> None:
    x = pa.zeros(3)
    view = x[:2]
    before = view + 1
    x[0] = 5
    x[[1]] = 6
    x[x > 5.5] = 8
    equal(before, np.ones(2, np.float32))
    equal(view, np.array([5, 8], np.float32))


def test_last_of_equal_indices_stays() -> None:
    x = pa.zeros(3)
    x[[0, 0, 1, 0]] = [1, 2, 3, 4]
    equal(x, np.array([4, 3, 0], np.float32))


def test_in_place_through_arrays() -> None:
    ours, theirs = pa.arange(6), np.arange(6)
    for x in (ours, theirs):
        x[[1, 1, 2]] += 10
        x[x > 5] *= 2
    equal(ours, theirs)


def test_mask_writes_do_not_wait() -> None:
    x = pa.zeros(5) + 1
    mask = x > 0
    x[mask] = 3
    x[~mask] = pa.asarray(4.0)
    assert x.pending and mask.pending
    equal(x, np.full(5, 3, np.float32))


# --- dtypes ---
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float16", "bfloat16", "float64"])
def test_written_values_are_cast(dtype: str) -> None:
    for key in (slice(1, None), [0, 2], np.array([True, False, True])):
        ours = pa.zeros(3, dtype=dtype)
        theirs = np.zeros(3, ours.dtype)
        for value in (1, 2.75, np.array([3.5, 1.0], np.float32)):
            if isinstance(key, np.ndarray) and not np.isscalar(value):
                continue
            theirs[key] = value
            ours[key] = value
        equal(ours, theirs)


# --- errors ---
def test_out_of_bounds(mistake: Mistakes) -> None:
    x = pa.zeros((3, 4))
    with mistake(IndexError, "[getitem]", "from -4 to 3 for axis 1", "given 4"):
        x[0, 4]
    with mistake(IndexError, "[setitem]", "axis 0", "given -4"):
        x[-4] = 0
    with mistake(IndexError, "[getitem]", "axis 0", "given 3"):
        x[[0, 3]]
    with mistake(IndexError, "[setitem]", "axis 1", "given 9"):
        x[:, np.array([[1, 9]])] = 0
    with mistake(IndexError, "axis 0, which is empty"):
        pa.zeros((0, 2))[0]


def test_too_many(mistake: Mistakes) -> None:
    with mistake(IndexError, "at most 1 indices", "given 0, 1:"):
        pa.zeros(3)[0, 1:]
    with mistake(IndexError, "at most 0 indices"):
        pa.zeros(())[0]
    with mistake(IndexError, "one ellipsis"):
        pa.zeros((3, 3))[..., ...]


@pytest.mark.parametrize("key", [1.0, "a", [0.5], np.array([1.0]), {}, (slice(None), 1.5)])
def test_no_index(key: Any, mistake: Mistakes) -> None:
    with mistake(IndexError, "expected an index of ints, slices"):
        pa.zeros((3, 3))[key]


def test_slices_of_something_else(mistake: Mistakes) -> None:
    with mistake(TypeError, "a slice of integers", "1.5:"):
        pa.zeros(3)[1.5:]
    with mistake(ValueError, "step other than zero"):
        pa.zeros(3)[::0]


def test_masks_that_do_not_fit(mistake: Mistakes) -> None:
    x = pa.zeros((3, 4))
    with mistake(IndexError, "a mask of shape (3,)", "(4,)"):
        x[np.ones(4, bool)]
    with mistake(IndexError, "a mask of shape (3, 4)", "(4, 3)"):
        x[pa.ones((4, 3), dtype=bool)] = 0


def test_indices_that_do_not_broadcast(mistake: Mistakes) -> None:
    with mistake(IndexError, "index arrays that broadcast", "(2,) (3,)"):
        pa.zeros((3, 4))[[0, 1], [0, 1, 2]]


def test_values_that_do_not_broadcast(mistake: Mistakes) -> None:
    x = pa.zeros((3, 4))
    with mistake(ValueError, "broadcast to shape (2, 4)", "(3,)"):
        x[1:] = np.zeros(3)
    with mistake(ValueError, "broadcast to shape (2, 4)", "(3, 4)"):
        x[[0, 1]] = np.zeros((3, 4))
    with mistake(ValueError, "[setitem]"):
        x[x > 0] = [[1.0, 2.0]] * 2


def test_values_that_do_not_fit(mistake: Mistakes) -> None:
    x = pa.zeros(3, dtype="int8")
    with mistake(OverflowError, "int8", "300"):
        x[0] = 300
    with mistake(OverflowError, "int8", "inf"):
        x[[0]] = float("inf")
    with mistake(ValueError, "int8", "nan"):
        x[x == 0] = float("nan")


def test_writing_to_a_broadcast_view(mistake: Mistakes) -> None:
    x = pa.broadcast_to(pa.zeros(3), (2, 3))
    for key in (0, ..., [0], np.ones((2, 3), bool)):
        with mistake(ValueError, "apart in memory"):
            x[key] = 1


def test_pending_index_out_of_bounds() -> None:
    x, index = pa.zeros(3), pa.arange(4) + 0
    y = x[index] + 1
    with pytest.raises(IndexError, match="3"):
        np.asarray(y)


def test_writing_through_a_computed_index() -> None:
    x, index = pa.arange(5), pa.arange(3) * 2
    x[index] = 7
    x[index + 0, ...] += pa.arange(3)
    assert x.tolist() == [7, 1, 8, 3, 9]
    y = pa.zeros((2, 3))
    y[1, pa.arange(2) + 1] = [1, 2]
    y.T[pa.arange(1)] = 5
    assert y.tolist() == [[5, 0, 0], [5, 1, 2]]


def test_failed_write_leaves_the_target(mistake: Mistakes) -> None:
    x = pa.zeros((3, 4))
    view = x[:, 1:]
    for index in (pa.arange(3) + 9, pa.asarray([-4]), pa.asarray(7)):
        with mistake(IndexError, "[setitem]", "axis 0"):
            x[index] = 7
        with mistake(IndexError, "[setitem]", "axis 1"):
            view[:, index] = 7
        with mistake(IndexError, "[setitem]", "axis 0"):
            x[index, 0] += 1
    x[x == 0] = 1
    assert x.tolist() == [[1.0] * 4] * 3


def test_writing_through_an_index_is_traced() -> None:
    @pa.jit
    def written(x: Any, index: Any, by: int) -> Any:
        x = x.copy()
        x[index + by] = 7
        pa.put(x, index, 5)
        return x

    for by in (1, 2, 1):
        for index in ([0, 1], [1, 2]):
            expected = np.zeros(6, np.float32)
            expected[np.array(index) + by] = 7
            expected[index] = 5
            np.testing.assert_array_equal(written(pa.zeros(6), pa.asarray(index), by), expected)
