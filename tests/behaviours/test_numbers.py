"""Answers: NaN, whole numbers at their limits, float to integer, precision."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pyasc

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
FLOATS = [np.dtype("float16"), BFLOAT16, np.dtype("float32"), np.dtype("float64")]
SIGNED = [np.dtype(d) for d in ("int8", "int16", "int32", "int64")]
UNSIGNED = [np.dtype(d) for d in ("uint8", "uint16", "uint32", "uint64")]
SIZES = (1, 7, 33, 100_003)  # a tail alone, a vector and a tail, several threads


def ids(dtype: np.dtype[Any]) -> str:
    return dtype.name


def same(tensor: Any, array: Any) -> None:
    given = np.asarray(tensor)
    assert given.dtype == array.dtype
    np.testing.assert_array_equal(plain(given), plain(array))


def plain(array: Any) -> Any:
    """bfloat16 as float32, in which NumPy's assertions know NaN."""
    return array.astype(np.float32) if array.dtype == BFLOAT16 else array


def spread(special: list[Any], n: int, dtype: np.dtype[Any]) -> Any:
    """The special values over and over, so that each meets the vector body and the tail."""
    with np.errstate(all="ignore"):
        return np.resize(np.array(special, dtype), n)


# --- NaN, signed zeros, infinities, denormals -----------------------------------------------------
@pytest.mark.parametrize("dtype", FLOATS, ids=ids)
def test_nan_propagates(dtype: np.dtype[Any]) -> None:
    nan = float("nan")
    for n in (2, 7, 33, 257):
        for at in (0, n // 2, n - 1):
            a = np.arange(n).astype(dtype)
            a[at] = nan
            x = pyasc.array(a)
            assert np.isnan(float(x.max())) and np.isnan(float(x.min())) and np.isnan(float(x.sum()))
            assert int(x.argmax()) == at and int(x.argmin()) == at
            assert bool(np.isnan(np.asarray(pyasc.sort(x))[-1]))
            assert int(np.asarray(pyasc.argsort(x))[-1]) == at
            y = pyasc.ones(n, dtype=dtype)
            for first, second in ((x, y), (y, x)):
                assert np.isnan(np.asarray(pyasc.maximum(first, second))[at])
                assert np.isnan(np.asarray(pyasc.minimum(first, second))[at])
                assert np.asarray(pyasc.fmax(first, second))[at] == 1
                assert np.asarray(pyasc.fmin(first, second))[at] == 1


@pytest.mark.parametrize("dtype", FLOATS, ids=ids)
def test_nan_compares_as_numpys(dtype: np.dtype[Any]) -> None:
    special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0]
    a = np.array(special, dtype)
    left, right = np.repeat(a, 6), np.tile(a, 6)
    x, y = pyasc.array(left), pyasc.array(right)
    with np.errstate(all="ignore"):
        same(x == y, left == right)
        same(x != y, left != right)
        same(x < y, left < right)
        same(x <= y, left <= right)
        same(x > y, left > right)
        same(x >= y, left >= right)
    same(pyasc.isnan(x), np.isnan(left))
    same(pyasc.isinf(x), np.isinf(left))
    same(pyasc.isfinite(x), np.isfinite(left))
    same(pyasc.signbit(x), np.signbit(left))


@pytest.mark.parametrize("dtype", FLOATS, ids=ids)
def test_negative_zero_and_infinity(dtype: np.dtype[Any]) -> None:
    a = np.array([-0.0, 0.0, np.inf, -np.inf], dtype)
    x = pyasc.array(a)
    for name in (
        "negative",
        "absolute",
        "sqrt",
        "square",
        "floor",
        "ceil",
        "trunc",
        "rint",
        "sin",
        "tanh",
        "expm1",
    ):
        with np.errstate(all="ignore"):
            expected = getattr(np, name)(a)
        given = np.asarray(getattr(pyasc, name)(x))
        np.testing.assert_array_equal(plain(given), plain(expected), err_msg=name)
        known = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(given)[known], np.signbit(expected)[known], err_msg=name)
    with np.errstate(all="ignore"):
        same(1 / x, (np.ones((), dtype) / a))
        same(x - x, a - a)
        same(x * 0, a * a.dtype.type(0))


@pytest.mark.parametrize("n", SIZES)
def test_denormals_are_kept(n: int) -> None:
    """On every thread: no flush to zero."""
    for dtype, tiny in (("float32", 1e-40), ("float64", 1e-310), ("float16", 1e-7)):
        a = np.full(n, tiny, dtype)
        same(pyasc.array(a) * 2, a * a.dtype.type(2))
        same(pyasc.array(a) + 0, a)
        assert bool((pyasc.array(a) > 0).all())


# --- whole numbers --------------------------------------------------------------------------------
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", SIGNED + UNSIGNED, ids=ids)
def test_division_at_the_limits(dtype: np.dtype[Any], n: int) -> None:
    """By zero: 0. The most negative number by −1: itself, remainder 0. Never a trap."""
    limits = np.iinfo(dtype)
    special = [limits.min, limits.min + 1, limits.max, 0, 1, 2, 5, 7]
    special += [-1, -2, -7] if dtype.kind == "i" else []
    a = spread([v for v in special for _ in special], n, dtype)
    b = spread(special, n, dtype)
    x, y = pyasc.array(a), pyasc.array(b)
    with np.errstate(all="ignore"):
        same(x // y, a // b)
        same(x % y, a % b)
        same(pyasc.fmod(x, y), np.fmod(a, b))
        same(x // 0, a // dtype.type(0))
        same(x % 0, a % dtype.type(0))
        if dtype.kind == "i":
            same(x // -1, a // dtype.type(-1))
            same(x % -1, a % dtype.type(-1))
            same(abs(x), abs(a))
        same(-x, -a)


@pytest.mark.parametrize("dtype", SIGNED + UNSIGNED, ids=ids)
def test_wrap_around(dtype: np.dtype[Any]) -> None:
    limits = np.iinfo(dtype)
    a = spread([limits.min, limits.max, limits.max - 1, 0, 1, 3], 71, dtype)
    b = spread([limits.max, 1, 2, limits.min], 71, dtype)
    x, y = pyasc.array(a), pyasc.array(b)
    same(x + y, a + b)
    same(x - y, a - b)
    same(x * y, a * b)
    same(x**3, a**3)


@pytest.mark.parametrize("dtype", SIGNED + UNSIGNED, ids=ids)
def test_shifts_past_the_width(dtype: np.dtype[Any]) -> None:
    width = 8 * dtype.itemsize
    limits = np.iinfo(dtype)
    a = spread([limits.min, limits.max, 1, 0, 5], 5 * 40, dtype)
    amounts = [0, 1, width - 1, width, min(width + 1, limits.max), min(3 * width, limits.max), limits.max]
    b = np.repeat(np.resize(np.array(amounts, dtype), 40), 5)
    same(pyasc.array(a) << pyasc.array(b), a << b)
    same(pyasc.array(a) >> pyasc.array(b), a >> b)


@pytest.mark.parametrize("dtype", SIGNED + UNSIGNED, ids=ids)
def test_a_scalar_out_of_range_overflows(dtype: np.dtype[Any]) -> None:
    limits = np.iinfo(dtype)
    x = pyasc.ones(3, dtype=dtype)
    for scalar in (limits.max + 1, limits.min - 1):
        for attempt in (
            lambda v: x + v,
            lambda v: v * x,
            lambda v: pyasc.full(3, v, dtype=dtype),
            lambda v: pyasc.where(x == 1, x, v),
            lambda v: x.__setitem__(0, v),
        ):
            with pytest.raises(OverflowError):
                attempt(scalar)
    same(x + limits.max, np.full(3, 1, dtype) + dtype.type(limits.max))


def test_integer_powers() -> None:
    a = np.array([0, 1, 2, 3, -1, -2], np.int32)
    for exponent in (0, 1, 2, 5, 31):
        same(pyasc.array(a) ** exponent, a**exponent)
    assert np.asarray(pyasc.array(a) ** pyasc.array(a.astype(np.float32))).dtype == np.float32


# --- float to integer -----------------------------------------------------------------------------
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("source", FLOATS, ids=ids)
@pytest.mark.parametrize("target", SIGNED + UNSIGNED, ids=ids)
def test_float_to_integer_saturates(source: np.dtype[Any], target: np.dtype[Any], n: int) -> None:
    """NaN gives 0, what is out of range the nearest limit: in vectors, in tails and on every thread."""
    limits = np.iinfo(target)
    special = [np.nan, np.inf, -np.inf, 0.5, -0.5, 1.9, -1.9, 100.7, 6e4, -6e4, -0.0, 3e38, -3e38]
    special += [float(limits.max), float(limits.min), 2.0**31, 2.0**63, -(2.0**63)]
    a = spread(special, n, source)
    expected = []
    for value in a[: len(special)]:
        v = float(value)
        if np.isnan(v):
            expected.append(0)
        elif np.isinf(v):
            expected.append(limits.max if v > 0 else limits.min)
        else:
            expected.append(min(max(int(v), limits.min), limits.max))
    same(pyasc.array(a).astype(target), np.resize(np.array(expected, target), n))


def test_float_to_bool() -> None:
    a = np.array([0.0, -0.0, np.nan, 1e-40, np.inf], np.float32)
    same(pyasc.array(a).astype(bool), a.astype(bool))


# --- precision ------------------------------------------------------------------------------------
def test_half_sums_accumulate_wide() -> None:
    assert float(pyasc.ones(10_000, dtype="float16").sum()) == 10_000
    assert float(pyasc.ones(1_000, dtype=BFLOAT16).sum()) == 1_000
    assert float(pyasc.full(4096, 1.0 / 4096, dtype="float16").sum()) == 1
    rows = pyasc.ones((3, 2048), dtype=BFLOAT16)
    assert np.asarray(rows.sum(axis=1)).tolist() == [2048.0] * 3
    assert np.asarray(rows.T.sum(axis=0)).tolist() == [2048.0] * 3


def test_half_means_do_not_overflow() -> None:
    x = pyasc.full(1000, 60_000.0, dtype="float16")
    assert float(x.mean()) == 60_000
    assert float(x.std()) == 0


def test_half_overflow_is_infinite() -> None:
    x = pyasc.full(9, 60_000.0, dtype="float16")
    assert np.isposinf(np.asarray(x + x)).all()
    assert np.isposinf(float(x.sum()))
    assert np.isneginf(np.asarray(-x * 2)).all()
    assert np.isposinf(np.asarray(pyasc.full(5, 1e6, dtype="float32").astype("float16"))).all()


def test_two_to_the_25_ones_sum_exactly() -> None:
    n = 2**25
    assert float(pyasc.ones(n, dtype="float32").sum()) == n
    x = pyasc.ones((2, n // 2), dtype="float32")
    pyasc.sync(x)
    assert float(x.sum()) == n
    assert np.asarray(x.sum(axis=1)).tolist() == [n / 2, n / 2]


def test_long_float_sums() -> None:
    a = np.random.default_rng(0).random(3_000_003, dtype=np.float32)
    exact = a.sum(dtype=np.float64)
    assert abs(float(pyasc.array(a).sum()) - exact) <= 1e-6 * exact
    assert (
        abs(float(pyasc.array(a.reshape(-1, 3)[:, 1]).sum()) - a.reshape(-1, 3)[:, 1].sum(dtype=float))
        <= 1e-6 * exact
    )
    tall = a[:3_000_000].reshape(-1, 3)
    np.testing.assert_allclose(
        np.asarray(pyasc.array(tall).sum(axis=0)), tall.sum(axis=0, dtype=float), rtol=1e-6
    )


@pytest.mark.parametrize("offset", [1e3, 1e4, 1e5])
def test_variance_of_large_offsets(offset: float) -> None:
    a = (np.random.default_rng(1).standard_normal(20_000) + offset).astype(np.float32)
    x, wide = pyasc.array(a), a.astype(np.float64)
    assert float(x.mean()) == pytest.approx(wide.mean(), rel=1e-6)
    assert float(x.var()) == pytest.approx(wide.var(), rel=1e-3)
    assert float(x.std()) == pytest.approx(wide.std(), rel=1e-3)
    rows, wide_rows = x.reshape(20, 1000), wide.reshape(20, 1000)
    np.testing.assert_allclose(np.asarray(rows.var(axis=1)), wide_rows.var(axis=1), rtol=1e-3)
    np.testing.assert_allclose(np.asarray(rows.var(axis=0, ddof=1)), wide_rows.var(axis=0, ddof=1), rtol=1e-3)


def test_float64_scalars_keep_their_digits() -> None:
    x = pyasc.ones(3, dtype="float64")
    same(x * 0.1, np.ones(3) * 0.1)
    same(x + 1e-15, np.ones(3) + 1e-15)
    assert float(pyasc.full((), 2**53 + 1, dtype="int64")) == float(2**53 + 1)
    assert int(pyasc.full((), 2**53 + 1, dtype="int64")) == 2**53 + 1
    assert int(pyasc.full((), 2**64 - 1, dtype="uint64") - 1) == 2**64 - 2


def test_whole_number_sums_do_not_wrap_at_their_width() -> None:
    assert int(pyasc.full(1000, 127, dtype="int8").sum()) == 127_000
    assert int(pyasc.full(1000, 255, dtype="uint8").sum()) == 255_000
    assert int(pyasc.ones(1000, dtype=bool).sum()) == 1000
    assert pyasc.ones(3, dtype="uint8").sum().dtype == np.uint64
    assert pyasc.ones(3, dtype="int8").sum().dtype == np.int64


def test_answers_do_not_depend_on_threads_or_on_the_cache() -> None:
    a = np.random.default_rng(2).standard_normal((613, 401)).astype(np.float32)
    first = None
    for _ in range(3):
        x = pyasc.array(a)
        results = [x.sum(), x.sum(axis=0), x.sum(axis=1), x.mean(), x.std(axis=0), pyasc.exp(x).sum()]
        given = [np.asarray(r).tobytes() for r in results]
        first = first or given
        assert given == first


def test_one_thread_gives_the_bits_of_many(run_python: Any) -> None:
    code = """
        import sys, numpy as np, pyasc
        pyasc.config.threads = int(sys.argv[1])
        a = np.random.default_rng(2).standard_normal((1031, 401)).astype(np.float32)
        x = pyasc.array(a)
        reductions = (x.sum(), x.sum(axis=0), x.sum(axis=1), x.std(), pyasc.tanh(x).mean(axis=0))
        for r in (*reductions, (x * 3 + 1)[::2, ::-1]):
            print(hash(np.asarray(r).tobytes().hex()))
    """
    one, many = (run_python(code, n, PYTHONHASHSEED="0").stdout for n in ("1", "4"))
    assert one == many
