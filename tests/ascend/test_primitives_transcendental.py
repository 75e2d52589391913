"""Accuracy of transcendental functions in vector instructions, in units in the last place."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from function_accuracy import BINARY, arguments, check, exact
from primitive_values import Array, random_source
from tile_evaluator import run

from pyasc.backend.ascend.support import ULP
from pyasc.backend.ascend.transcendental import FAR, NEAR

PERIODIC = ("sin", "cos", "tan")


def near(name: str, args: list[Array]) -> list[Array]:
    return [x[~(np.abs(x) > NEAR) | np.isinf(x)] for x in args] if name in PERIODIC else args


@pytest.mark.parametrize("nan", ["number", "nan"])
@pytest.mark.parametrize("name", ULP)
def test_float32(name: str, nan: str) -> None:
    args = near(name, arguments(name))
    got, _ = run(name, *args, dtype=np.float32, nan=nan)
    check(name, args, got, ULP[name])


@pytest.mark.full
@pytest.mark.parametrize("name", ULP)
def test_float32_at_more_points(name: str) -> None:
    args = near(name, arguments(name, 20))
    got, _ = run(name, *args, dtype=np.float32)
    check(name, args, got, ULP[name])


@pytest.mark.parametrize("name", PERIODIC)
def test_near_multiples_of_half_pi(name: str) -> None:
    """Where what is left of the argument is small, up to the end of the range.

    The float32 below 1e5 that is nearest to a multiple of pi / 2 is 52516.434, 2**-26 from one.
    """
    n = np.arange(0, int(NEAR / (np.pi / 2)))
    x = (n * (np.pi / 2)).astype(np.float32)
    x = np.concatenate([x, np.nextafter(x, np.float32(0)), np.nextafter(x, np.float32(1e9))])
    got, _ = run(name, x, dtype=np.float32)
    check(name, [x], got, {"sin": 2.1, "cos": 3.5, "tan": 6.5}[name])


@pytest.mark.parametrize("name", PERIODIC)
def test_far_arguments(name: str) -> None:
    """Past the range the result is that of an argument one rounding away; past `FAR` it is NaN."""
    x = random_source(name, "far").uniform(NEAR, FAR, 20_000).astype(np.float32)
    got, _ = run(name, x, dtype=np.float32)
    around = [exact(name, x.astype(np.float64) + d * np.spacing(x)) for d in np.linspace(-1.5, 1.5, 13)]
    if name != "tan":
        low, high = np.min(around, axis=0), np.max(around, axis=0)
        assert ((got >= low - 0.02) & (got <= high + 0.02)).all()
    far = np.array([FAR * 1.001, -1e10, 1e30, np.inf, -np.inf, np.nan], np.float32)
    assert np.isnan(run(name, far, dtype=np.float32)[0]).all()


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=["float16", "bfloat16"])
@pytest.mark.parametrize("name", [n for n in ULP if n not in BINARY])
def test_narrow(name: str, dtype: Any) -> None:
    """Every value: the float32 result rounded, so at most a float32 error off a tie."""
    x = np.arange(2**16, dtype=np.uint16).view(dtype)
    if name in PERIODIC:
        x = x[~(np.abs(x.astype(np.float32)) > NEAR) | np.isinf(x.astype(np.float32))]
    check_narrow(name, [x], run(name, x, dtype=dtype)[0], 0.51)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=["float16", "bfloat16"])
@pytest.mark.parametrize("name", BINARY)
def test_narrow_of_two(name: str, dtype: Any) -> None:
    with np.errstate(over="ignore"):
        args = [np.where(np.isnan(a), np.float32(np.nan), a).astype(dtype) for a in arguments(name)]
    check_narrow(name, args, run(name, *args, dtype=dtype)[0], 0.52)


def check_narrow(name: str, args: list[Array], got: Array, budget: float) -> None:
    with np.errstate(all="ignore"):
        truth = exact(name, *args)
        expected = truth.astype(got.dtype)
        step = np.abs(
            np.nextafter(expected, got.dtype.type(np.inf)).astype(np.float64) - expected.astype(np.float64)
        )
        error = np.abs(got.astype(np.float64) - truth) / step
        same = (got == expected) | (np.isnan(got) & np.isnan(expected))
    wrong = ~same & ~(error <= budget)
    assert not wrong.any(), [
        (*(a[k] for a in args), got[k], truth[k], error[k]) for k in np.flatnonzero(wrong)[:5]
    ]
