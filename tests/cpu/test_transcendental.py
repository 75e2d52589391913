"""Accuracy of transcendental functions, in units in the last place of the exact result."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import ml_dtypes
import mpmath
import numpy as np
import pytest
from kernel_loop import run
from scipy import special

from pyasc.backend.cpu.target import Target

Array = np.ndarray[Any, Any]

# What each function is held to: the largest error found, rounded up, of float32 and float64. float64
# functions other than exp, log and hypot are the C library's, which states 4 for its vector functions.
BUDGET: dict[str, tuple[float, float]] = {
    "exp": (1.1, 1.0),
    "exp2": (1.0, 4.0),
    "expm1": (1.6, 4.0),
    "log": (1.0, 1.2),
    "log2": (1.5, 4.0),
    "log10": (2.0, 4.0),
    "log1p": (1.6, 4.0),
    "sin": (1.8, 4.0),
    "cos": (1.8, 4.0),
    "tan": (3.0, 4.0),
    "asin": (2.5, 4.0),
    "acos": (1.5, 4.0),
    "atan": (2.0, 4.0),
    "sinh": (1.7, 4.0),
    "cosh": (1.7, 4.0),
    "tanh": (1.6, 4.0),
    "asinh": (2.0, 4.0),
    "acosh": (2.2, 4.0),
    "atanh": (2.4, 4.0),
    "erf": (2.0, 4.0),
    "cbrt": (1.0, 4.0),
    "atan2": (2.0, 4.0),
    "pow": (0.6, 4.0),
    "hypot": (1.2, 1.2),
    "sqrt": (0.5, 0.5),
}
BINARY = ("atan2", "pow", "hypot")
# Where the function has its interesting values; elsewhere it is covered by random bits.
RANGE = {
    **dict.fromkeys(("log", "log2", "log10"), (0.5, 2.0)),
    **dict.fromkeys(("asin", "acos", "atanh"), (-1.0, 1.0)),
    **dict.fromkeys(("exp", "exp2", "expm1", "sinh", "cosh"), (-90.0, 90.0)),
    **dict.fromkeys(("sin", "cos", "tan"), (-100.0, 100.0)),
    "log1p": (-0.9, 2.0),
    "acosh": (1.0, 5.0),
    "cbrt": (1.0, 8.0),
}
REFERENCE: dict[str, Callable[..., Any]] = {
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "asinh": np.arcsinh, "acosh": np.arccosh,
    "atanh": np.arctanh, "atan2": np.arctan2, "pow": np.power, "erf": special.erf,
}  # fmt: skip


def random_source(*key: object) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(repr(key).encode()))


def specials(dtype: Any) -> Array:
    limits = np.finfo(dtype)
    values = [0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 100.0, 1e30, 2.0**24, 2.0**24 + 1, np.inf]
    values += [limits.smallest_subnormal, limits.smallest_normal, limits.max, limits.eps]
    return np.array([s * v for v in values for s in (1.0, -1.0)] + [np.nan], dtype)


def arguments(name: str) -> list[Array]:
    rng = random_source(name)
    low, high = RANGE.get(name, (-10.0, 10.0))
    if name in BINARY:
        grids = [g.ravel() for g in np.meshgrid(specials(np.float32), specials(np.float32))]
        wide = [rng.integers(0, 2**32, 200_000, dtype=np.uint32).view(np.float32) for _ in grids]
        near = [np.exp(rng.normal(0, 2, 400_000)), rng.normal(0, 20, 400_000)]
        one = [1 + rng.normal(0, 1e-3, 200_000), rng.normal(0, 3e4, 200_000)]
        whole = [rng.normal(0, 10, 50_000), rng.integers(-9, 9, 50_000)]
        parts = zip(grids, wide, near, one, whole, strict=True)
        return [np.concatenate([np.asarray(p, np.float32) for p in part]) for part in parts]
    every = np.arange(0, 2**32, 6007, dtype=np.uint64).astype(np.uint32).view(np.float32)
    dense = rng.uniform(low, high, 400_000).astype(np.float32)
    scales = (rng.choice([-1.0, 1.0], 200_000) * 10.0 ** rng.uniform(-7, 6, 200_000)).astype(np.float32)
    return [np.concatenate([specials(np.float32), every, dense, scales])]


def check(name: str, args: list[Array], got: Array, budget: float) -> None:
    with np.errstate(all="ignore"):
        exact = REFERENCE.get(name) or getattr(np, name)
        exact = exact(*(a.astype(np.float64) for a in args))
        nearest = exact.astype(np.float32)
        finite = np.isfinite(nearest) & np.isfinite(got)
        same = (got == nearest) | (np.isnan(got) & np.isnan(nearest))
        error = np.abs(got.astype(np.float64) - exact) / np.spacing(np.abs(nearest)).astype(np.float64)
    wrong = ~finite & ~same | (nearest == 0) & (got == 0) & (np.signbit(nearest) != np.signbit(got))
    assert not wrong.any(), [(*(a[k] for a in args), got[k], exact[k]) for k in np.flatnonzero(wrong)[:5]]
    error[~finite] = 0.0
    worst = int(error.argmax())
    assert error[worst] <= budget, (error[worst], *(a[worst] for a in args), got[worst], exact[worst])


@pytest.mark.parametrize("name", BUDGET)
def test_float32(name: str) -> None:
    args = arguments(name)
    check(name, args, run(name, *args), BUDGET[name][0])


# Exercised by the same processor: AVX2, and SSE4.2 without fused multiply-add.
@pytest.mark.parametrize("cpu", ["x86-64-v3", "x86-64-v2"])
@pytest.mark.parametrize("name", [n for n in BUDGET if n != "hypot"])
def test_float32_of_older_processors(name: str, cpu: str) -> None:
    host = Target.host()
    if host.architecture != "x86_64" or not host.has_fma:
        pytest.skip("runs where these processors' code does")
    target = Target.for_triple(host.triple, cpu)
    args = [a[::7] for a in arguments(name)]
    got = run(name, *args, width=8, target=target)
    check(name, args, got, BUDGET[name][0] + 0.1)
    if target.has_fma:
        assert np.array_equal(got, run(name, *args), equal_nan=True)


MP: dict[str, Callable[..., Any]] = {
    "exp2": lambda x: mpmath.mpf(2) ** x,
    "log2": lambda x: mpmath.log(x, 2),
    "cbrt": lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)),
    "pow": lambda x, y: x**y,
}


@pytest.mark.parametrize("name", BUDGET)
def test_float64(name: str) -> None:
    rng = random_source(name, 64)
    low, high = RANGE.get(name, (-10.0, 10.0))
    args = [rng.uniform(low, high, 300)]
    if name in ("log", "log2", "log10"):
        args = [np.concatenate([args[0], 10.0 ** rng.uniform(-323, 308, 300)])]
    elif name == "exp":
        args = [np.concatenate([args[0], rng.uniform(-745, 709, 300), rng.uniform(-1, 1, 300)])]
    elif name == "sqrt":
        args = [abs(args[0])]
    elif name in BINARY:
        args = [np.exp(rng.normal(0, 2, 300)), rng.normal(0, 9, 300)]
    got = run(name, *args, width=8)
    function = MP.get(name) or getattr(mpmath, name)
    with mpmath.workdps(60):
        for k, value in enumerate(got):
            exact = function(*(mpmath.mpf(float(a[k])) for a in args))
            error = abs(mpmath.mpf(float(value)) - exact) / mpmath.mpf(float(np.spacing(abs(float(exact)))))
            assert error <= BUDGET[name][1] + 1e-9, (float(error), *(a[k] for a in args), value)


@pytest.mark.parametrize("name", BUDGET)
def test_float64_specials(name: str) -> None:
    grids = np.meshgrid(*[specials(np.float64)] * (2 if name in BINARY else 1))
    args = [g.ravel() for g in grids]
    with np.errstate(all="ignore"):
        expected = (REFERENCE.get(name) or getattr(np, name))(*args)
    got = run(name, *args)
    plain = ~np.isfinite(expected) | (expected == 0)
    assert np.array_equal(got[plain], expected[plain], equal_nan=True)
    assert np.array_equal(np.signbit(got[expected == 0]), np.signbit(expected[expected == 0]))
    near = np.isclose(got, expected, rtol=1e-15, atol=0) | plain
    assert near.all(), [(*(a[k] for a in args), got[k], expected[k]) for k in np.flatnonzero(~near)[:5]]


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=["float16", "bfloat16"])
@pytest.mark.parametrize("name", [n for n in BUDGET if n not in BINARY])
def test_narrow(name: str, dtype: Any) -> None:
    """Every value: the float32 result rounded, so at most a float32 error off a tie."""
    x = np.arange(2**16, dtype=np.uint16).view(dtype)
    got = run(name, x)
    with np.errstate(all="ignore"):
        exact = (REFERENCE.get(name) or getattr(np, name))(x.astype(np.float64))
        expected = exact.astype(dtype)
        step = np.abs(np.nextafter(expected, dtype(np.inf)).astype(np.float64) - expected.astype(np.float64))
        error = np.abs(got.astype(np.float64) - exact) / step
    same = (got == expected) | (np.isnan(got) & np.isnan(expected))
    assert (same | (error <= 0.51)).all(), np.flatnonzero(~same & ~(error <= 0.51))[:5]


@pytest.mark.parametrize("name", ["sin", "erf", "atan2"])
def test_float64_without_vector_functions(name: str) -> None:
    """Lane by lane through the C library, as where it has no vector functions."""
    target = replace(Target.host(), vector_math=frozenset())
    args = [random_source(name, k).normal(0, 3, 50) for k in range(2 if name in BINARY else 1)]
    expected = (REFERENCE.get(name) or getattr(np, name))(*args)
    np.testing.assert_allclose(run(name, *args, width=4, target=target), expected, rtol=1e-15)
