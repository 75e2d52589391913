"""Reductions: identities, errors, masks and dtypes."""

from __future__ import annotations

import numpy as np
import pytest

import pyasc


@pytest.mark.parametrize(
    ("name", "identity"), [("sum", 0), ("prod", 1), ("any", False), ("all", True), ("count_nonzero", 0)]
)
def test_identities(name: str, identity: float) -> None:
    function = getattr(pyasc, name)
    assert function(pyasc.zeros(0)).item() == identity
    assert function(pyasc.zeros((0, 2)), axis=0).tolist() == [identity] * 2
    assert function(pyasc.zeros((2, 0)), axis=0).shape == (0,)
    assert function(pyasc.zeros((0, 2)), axis=0, keepdims=True).shape == (1, 2)


@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin"])
def test_nothing_has_no_extreme(name: str) -> None:
    with pytest.raises(ValueError, match=rf"\[{name}\]"):
        getattr(pyasc, name)(pyasc.zeros((0, 3)), axis=0)
    assert getattr(pyasc, name)(pyasc.zeros((0, 3)), axis=1).shape == (0,)


def test_mean_of_nothing_is_nan() -> None:
    assert np.isnan(pyasc.zeros(0).mean().item())


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "uint32", "float16", "float32"])
def test_dtypes(dtype: str) -> None:
    x = np.ones((2, 3), dtype)
    for name in ("sum", "prod", "cumsum", "max", "any"):
        assert getattr(pyasc, name)(pyasc.array(x)).dtype == getattr(np, name)(x).dtype, name
    assert pyasc.sum(pyasc.array(x), dtype="float64").dtype == np.float64


def test_short_floats_accumulate_wide() -> None:
    x = pyasc.ones(5000, dtype="float16")
    assert x.sum().item() == 5000
    assert x.mean().item() == 1
    assert (x * 60000).sum().item() == np.inf
    assert (x * 60000).mean().item() == 60000
    assert pyasc.ones(5000, dtype="bfloat16").mean().item() == 1


def test_large_offsets() -> None:
    x = np.arange(1000) + 1e6
    np.testing.assert_allclose(pyasc.array(x.astype(np.float32)).var(), x.var(), rtol=1e-5)
    np.testing.assert_allclose(pyasc.array(x.astype(np.int64) * 1000).std(), x.std() * 1000, rtol=1e-6)
    assert pyasc.full(1000, 2**24 + 1, dtype="int32").mean(dtype="float64").item() == 2**24 + 1


def test_masks_and_initial() -> None:
    x = np.arange(6.0).reshape(2, 3)
    mask = np.array([True, False, True])
    p = pyasc.array(x)
    for name in ("sum", "mean", "prod", "any", "all", "std"):
        expected = getattr(np, name)(x, axis=1, where=mask)
        np.testing.assert_allclose(getattr(pyasc, name)(p, axis=1, where=mask), expected, rtol=1e-6)
    np.testing.assert_array_equal(pyasc.max(p, axis=1, where=mask, initial=-1), [2, 5])
    assert pyasc.sum(p, initial=10).item() == 25
    assert pyasc.max(pyasc.zeros(0), initial=3).item() == 3
    with pytest.raises(ValueError, match="initial"):
        pyasc.max(p, where=mask)


def test_nan_counts_as_the_extreme() -> None:
    x = pyasc.asarray([1.0, np.nan, 3.0])
    assert np.isnan(x.max().item()) and np.isnan(x.min().item())
    assert x.argmax().item() == x.argmin().item() == 1
    assert pyasc.nanmax(x).item() == 3 and pyasc.nanargmin(x).item() == 0
    assert pyasc.nansum(x).item() == 4 and pyasc.nanmean(x).item() == 2
    assert np.isnan(pyasc.nanmax(x[1:2]).item())


def test_logsumexp_of_infinities() -> None:
    assert pyasc.logsumexp(pyasc.asarray([-np.inf, -np.inf])).item() == -np.inf
    assert pyasc.logsumexp(pyasc.asarray([np.inf, 1.0])).item() == np.inf
    assert pyasc.logsumexp(pyasc.asarray([1000.0, 1000.0])).item() == pytest.approx(1000 + np.log(2))


def test_std_takes_numpy_and_array_api_names() -> None:
    x = pyasc.arange(5.0)
    assert x.std(ddof=1).item() == x.std(correction=1).item() == pytest.approx(np.arange(5).std(ddof=1))
    assert np.isnan(pyasc.ones(1).var(ddof=1).item()) or pyasc.ones(1).var(ddof=1).item() == np.inf


def test_quantiles() -> None:
    x = np.random.default_rng(0).random((4, 5))
    p = pyasc.array(x)
    np.testing.assert_allclose(pyasc.quantile(p, [0.1, 0.9], axis=0), np.quantile(x, [0.1, 0.9], axis=0))
    np.testing.assert_allclose(pyasc.median(p, keepdims=True), np.median(x, keepdims=True))
    with pytest.raises(ValueError, match=r"\[quantile\]"):
        pyasc.quantile(p, 1.5)


@pytest.mark.parametrize("axis", [2, -3, (0, 0)])
def test_axes_are_checked(axis: int) -> None:
    with pytest.raises(ValueError, match="axis"):
        pyasc.ones((2, 3)).sum(axis=axis)


def test_out() -> None:
    out = pyasc.zeros(3)
    assert pyasc.sum(pyasc.ones((2, 3)), axis=0, out=out) is out
    assert out.tolist() == [2, 2, 2]
