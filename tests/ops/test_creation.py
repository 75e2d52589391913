"""Tensors from nothing and from the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyasc


@pytest.mark.parametrize(
    "arguments",
    [(5,), (2, 9), (2, 9, 3), (9, 2, -2), (5, 5), (0, 1, 0.1), (1.5, 4), (0.0, -1.0, -0.25), (10, 0)],
)
def test_arange(arguments: tuple[float, ...]) -> None:
    expected = np.arange(*arguments)
    given = pyasc.arange(*arguments)
    assert given.shape == expected.shape
    np.testing.assert_allclose(given, expected, rtol=1e-6)
    np.testing.assert_array_equal(pyasc.arange(*arguments, dtype="float64"), expected.astype(float))


def test_arange_refuses() -> None:
    with pytest.raises(ValueError, match="step"):
        pyasc.arange(0, 5, 0)
    with pytest.raises(ValueError, match="finite"):
        pyasc.arange(0, float("inf"))


@pytest.mark.parametrize("endpoint", [True, False])
@pytest.mark.parametrize("num", [0, 1, 2, 7])
def test_linspace(num: int, endpoint: bool) -> None:
    given = pyasc.linspace(-1, 2, num, endpoint, dtype="float64")
    np.testing.assert_array_equal(given, np.linspace(-1, 2, num, endpoint))
    assert pyasc.linspace(0, 1, num).dtype == np.float32


def test_linspace_of_tensors() -> None:
    a, b = np.array([0.0, 1.0]), np.array([10.0, 20.0])
    for axis in (0, 1, -1):
        given = pyasc.linspace(pyasc.array(a), pyasc.array(b), 5, axis=axis)
        np.testing.assert_allclose(given, np.linspace(a, b, 5, axis=axis))
    values, step = pyasc.linspace(0.0, 1.0, 5, retstep=True)
    assert step.item() == 0.25 and values.shape == (5,)


def test_constants() -> None:
    assert pyasc.zeros(3).tolist() == [0, 0, 0]
    assert pyasc.ones((1, 2), dtype="bool").tolist() == [[True, True]]
    assert pyasc.full((2,), True).dtype == np.bool_
    assert pyasc.full((2,), 7).dtype == np.int64
    assert pyasc.full((2,), 1.5, dtype="int32").tolist() == [1, 1]
    assert pyasc.full((2, 2), pyasc.arange(2)).tolist() == [[0, 1], [0, 1]]
    assert pyasc.empty((2, 3)).shape == (2, 3)
    assert pyasc.zeros_like(pyasc.ones(3, dtype="int8"), dtype=None).dtype == np.int8
    assert pyasc.full_like(np.ones(3), 2).dtype == np.float64
    with pytest.raises(OverflowError):
        pyasc.full(3, 300, dtype="uint8")
    with pytest.raises(ValueError, match="negative"):
        pyasc.zeros(-1)
    with pytest.raises(ValueError, match="memory"):
        pyasc.zeros((2**40, 2**40))
    with pytest.raises(ValueError, match="device"):
        pyasc.zeros(2, device="gpu")


@pytest.mark.parametrize("backend", ["cpu", "sim"])
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "int64", "float16", "float32", "float64"])
def test_empty_may_be_computed_with_at_once(backend: str, dtype: str) -> None:
    with pyasc.backend(backend):
        x = pyasc.empty((4, 30), dtype)
        assert np.array_equal(x * 0, np.zeros((4, 30)))
        assert np.array_equal((x * 0).sum(axis=1), np.zeros(4))
        assert np.array_equal(x == x, np.ones((4, 30)))


def test_asarray_copies_the_hosts_memory() -> None:
    a = np.arange(4.0)
    x = pyasc.asarray(a)
    a[:] = -1
    assert x.tolist() == [0, 1, 2, 3]
    assert pyasc.asarray(x) is x
    assert pyasc.asarray(x, copy=True) is not x and pyasc.array(x) is not x
    with pytest.raises(ValueError, match="copy=False"):
        pyasc.asarray(a, copy=False)


@pytest.mark.parametrize(
    "value",
    [
        np.arange(6).reshape(2, 3).T,
        np.arange(6)[::-2],
        np.array(5, np.int16),
        np.arange(3, dtype=">i4"),
        np.empty((0, 4), np.float32),
        range(4),
        [[1, 2], [3, 4]],
        (True, False),
        memoryview(b"abc"),
    ],
)
def test_asarray_of_array_likes(value: Any) -> None:
    given = pyasc.asarray(value)
    np.testing.assert_array_equal(given, np.asarray(value))
    assert given.shape == np.shape(value)


def test_asarray_of_tensors_in_sequences() -> None:
    x = pyasc.arange(3)
    assert pyasc.asarray([x, x * 2]).tolist() == [[0, 1, 2], [0, 2, 4]]
    assert pyasc.asarray([x[0], 5, x[2]]).tolist() == [0, 5, 2]


def test_asarray_refuses() -> None:
    for wrong, kind in [
        (["a"], TypeError),
        (1j, TypeError),
        (np.ones(2, complex), TypeError),
        ([[1], [1, 2]], ValueError),
        ([2**70], OverflowError),
        ([None], TypeError),
        (object(), TypeError),
        (np.array(["2020"], "datetime64[Y]"), TypeError),
    ]:
        with pytest.raises(kind):
            pyasc.asarray(wrong)
    with pytest.raises(OverflowError):
        pyasc.asarray([1, 300], dtype="uint8")


def test_grids() -> None:
    a, b = np.arange(3), np.arange(4.0)
    for options in ({}, {"indexing": "ij"}, {"sparse": True}, {"copy": False}):
        for given, expected in zip(
            pyasc.meshgrid(pyasc.array(a), pyasc.array(b), **options),
            np.meshgrid(a, b, **options),
            strict=True,
        ):
            np.testing.assert_array_equal(given, expected)
    assert pyasc.eye(3, k=-1).tolist() == np.eye(3, k=-1).tolist()
    assert pyasc.fromfunction(lambda i, j: i * 10 + j, (2, 3)).tolist() == [[0, 1, 2], [10, 11, 12]]


def test_dlpack() -> None:
    x = pyasc.arange(6).reshape(2, 3).T
    np.testing.assert_array_equal(np.from_dlpack(x), x.numpy())
    assert x.__dlpack_device__() == (1, 0)
    assert pyasc.from_dlpack(np.arange(3.0)).tolist() == [0, 1, 2]
    with pytest.raises(BufferError, match="bfloat16"):
        np.from_dlpack(pyasc.ones(3, dtype="bfloat16"))
