"""Promotion and casts: NumPy's, but for the stated difference where integers meet floats."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyasc

NAMES = [
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
]
FLOATS = ("float16", "float32", "float64")


@pytest.mark.parametrize("a", NAMES)
def test_promotion_of_two_dtypes(a: str) -> None:
    for b in NAMES:
        expected = np.promote_types(a, b)
        if (a in FLOATS) != (b in FLOATS):
            expected = np.dtype(a if a in FLOATS else b)
        assert pyasc.promote_types(a, b) == expected
        assert (pyasc.zeros(2, dtype=a) + pyasc.zeros(2, dtype=b)).dtype == expected


def test_bfloat16() -> None:
    x = pyasc.ones(3, dtype="bfloat16")
    assert pyasc.promote_types("bfloat16", "float16") == np.float32
    assert (x + pyasc.ones(3, dtype="int64")).dtype == pyasc.bfloat16
    assert (x + 1.5).dtype == pyasc.bfloat16
    assert (x + pyasc.ones(3)).dtype == np.float32
    assert pyasc.can_cast("bfloat16", "float32")
    assert not pyasc.can_cast("bfloat16", "int32", "same_kind")


@pytest.mark.parametrize(
    ("dtype", "scalar", "expected"),
    [
        ("bool", True, "bool"),
        ("bool", 1, "int64"),
        ("bool", 1.0, "float32"),
        ("int8", True, "int8"),
        ("int8", 1, "int8"),
        ("int8", 2.5, "float32"),
        ("float16", 70000, "float16"),
        ("float64", 1, "float64"),
        ("uint8", np.int64(1), "int64"),
        ("float32", np.float64(1), "float64"),
        ("float32", np.float16(1), "float32"),
    ],
)
def test_scalars(dtype: str, scalar: Any, expected: str) -> None:
    x = pyasc.ones(3, dtype=dtype)
    assert (x + scalar).dtype == expected
    assert (scalar + x).dtype == expected
    assert pyasc.result_type(x, scalar) == expected


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64"])
def test_integers_become_the_default_float(dtype: str) -> None:
    x = pyasc.ones(3, dtype=dtype)
    for y in (x / x, pyasc.sqrt(x), x.mean(), pyasc.sin(x), x.std()):
        assert y.dtype == np.float32
    assert (pyasc.ones(3, dtype="float64") / x).dtype == np.float64


@pytest.mark.parametrize("a", NAMES)
def test_numpy_rules_to_the_letter(a: str) -> None:
    with pyasc.config.override(promotion="numpy"):
        for b in NAMES:
            x, y = np.ones(2, a), np.ones(2, b)
            assert (pyasc.array(x) + pyasc.array(y)).dtype == (x + y).dtype
            assert (pyasc.array(x) / pyasc.array(y)).dtype == (x / y).dtype
        x = np.ones(2, a)
        for function in ("sqrt", "sin", "mean", "std", "logical_not"):
            assert getattr(pyasc, function)(pyasc.array(x)).dtype == getattr(np, function)(x).dtype, function
        assert (pyasc.array(x) + 1.5).dtype == (x + 1.5).dtype
    assert (pyasc.ones(2, dtype="int64") + pyasc.ones(2)).dtype == np.float32


def test_defaults() -> None:
    assert pyasc.zeros(2).dtype == np.float32
    assert pyasc.asarray([1.0, 2]).dtype == np.float32
    assert pyasc.asarray([1, 2]).dtype == np.int64
    assert pyasc.asarray([True]).dtype == np.bool_
    assert pyasc.asarray(np.ones(2)).dtype == np.float64
    assert pyasc.asarray([np.float64(1)]).dtype == np.float64
    assert pyasc.arange(3).dtype == np.int64
    assert pyasc.arange(3.0).dtype == np.float32
    assert pyasc.zeros(2, dtype=float).dtype == np.float32
    assert pyasc.zeros(2, dtype=int).dtype == np.int64


def test_what_the_namespace_says_of_dtypes() -> None:
    assert pyasc.float32 == np.dtype("float32") and isinstance(pyasc.float32, np.dtype)
    assert pyasc.isdtype(pyasc.bfloat16, "real floating")
    assert pyasc.isdtype("int8", ("unsigned integer", "signed integer"))
    assert not pyasc.isdtype("bool", "numeric")
    assert pyasc.finfo("float32").bits == 32 and float(pyasc.finfo(pyasc.bfloat16).eps) == 2**-7
    assert pyasc.iinfo("int8").max == 127
    assert pyasc.result_type(1, 2.0) == np.float32
    assert pyasc.can_cast(pyasc.ones(2, dtype="int8"), "int16")


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (300.7, "uint8", 255),
        (-1.5, "uint8", 0),
        (float("nan"), "int32", 0),
        (float("inf"), "int64", 2**63 - 1),
        (float("-inf"), "int16", -(2**15)),
        (-2.9, "int8", -2),
    ],
)
def test_float_to_integer_saturates(value: float, dtype: str, expected: int) -> None:
    for n in (1, 33):
        x = pyasc.asarray(np.full(n, value, np.float32)).astype(dtype)
        assert set(x.tolist()) == {expected}


def test_mixed_signs_compare_exactly() -> None:
    u = np.array([0, 2**64 - 1, 5, 2**63], np.uint64)
    s = np.array([-1, 2**63 - 1, 5, 2**63 - 1], np.int64)
    for name in ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal"):
        function, expected = getattr(pyasc, name), getattr(np, name)
        np.testing.assert_array_equal(function(pyasc.array(u), pyasc.array(s)), expected(u, s))
        np.testing.assert_array_equal(function(pyasc.array(s), pyasc.array(u)), expected(s, u))


@pytest.mark.parametrize("number", [300, -300, 2**70, -(2**70)])
def test_integers_out_of_range_compare(number: int) -> None:
    x = pyasc.arange(3, dtype="int8")
    y = np.arange(3)
    for name in ("__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__"):
        expected = [getattr(int(v), name)(number) for v in y]
        assert getattr(x, name)(number).tolist() == expected
