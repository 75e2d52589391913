"""Accuracy of transcendental functions, in units in the last place of the exact result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import ml_dtypes
import mpmath
import numpy as np
import pytest
from function_accuracy import BINARY, RANGE, REFERENCE, arguments, check, specials
from kernel_loop import run
from primitive_values import random_source

from pyasc.backend.cpu.target import Target

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


@pytest.mark.parametrize("name", BUDGET)
def test_float32(name: str) -> None:
    args = arguments(name, 10)
    check(name, args, run(name, *args), BUDGET[name][0])


# Exercised by the same processor: AVX2, and SSE4.2 without fused multiply-add.
@pytest.mark.parametrize("cpu", ["x86-64-v3", "x86-64-v2"])
@pytest.mark.parametrize("name", [n for n in BUDGET if n != "hypot"])
def test_float32_of_older_processors(name: str, cpu: str) -> None:
    host = Target.host()
    if host.architecture != "x86_64" or not host.has_fma:
        pytest.skip("runs where these processors' code does")
    target = Target.for_triple(host.triple, cpu)
    args = [a[::7] for a in arguments(name, 10)]
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
