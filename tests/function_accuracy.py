"""Where transcendental functions are evaluated, and how far results are from the exact ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from primitive_values import Array, random_source
from scipy import special

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


def specials(dtype: Any) -> Array:
    """Zeros, small numbers, extremes, infinities and NaN."""
    limits = np.finfo(dtype)
    values = [0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 100.0, 1e30, 2.0**24, 2.0**24 + 1, np.inf]
    values += [limits.smallest_subnormal, limits.smallest_normal, limits.max, limits.eps]
    return np.array([s * v for v in values for s in (1.0, -1.0)] + [np.nan], dtype)


def arguments(name: str, scale: int = 1) -> list[Array]:
    """float32 operands: special values, any bits, and, where the function has its interesting values, many.

    Parameters
    ----------
    name : str
        Of the primitive.
    scale : int
        How many times as many.
    """
    rng = random_source(name)
    low, high = RANGE.get(name, (-10.0, 10.0))
    few, some, many = 5_000 * scale, 20_000 * scale, 40_000 * scale
    if name in BINARY:
        grids = [g.ravel() for g in np.meshgrid(specials(np.float32), specials(np.float32))]
        wide = [rng.integers(0, 2**32, some, dtype=np.uint32).view(np.float32) for _ in grids]
        near = [np.exp(rng.normal(0, 2, many)), rng.normal(0, 20, many)]
        one = [1 + rng.normal(0, 1e-3, some), rng.normal(0, 3e4, some)]
        whole = [rng.normal(0, 10, few), rng.integers(-9, 9, few)]
        parts = zip(grids, wide, near, one, whole, strict=True)
        return [np.concatenate([np.asarray(p, np.float32) for p in part]) for part in parts]
    every = np.arange(0, 2**32, 60070 // scale, dtype=np.uint64).astype(np.uint32).view(np.float32)
    dense = rng.uniform(low, high, many).astype(np.float32)
    scales = (rng.choice([-1.0, 1.0], some) * 10.0 ** rng.uniform(-7, 6, some)).astype(np.float32)
    return [np.concatenate([specials(np.float32), every, dense, scales])]


def exact(name: str, *args: Array) -> Array:
    """The result in float64."""
    with np.errstate(all="ignore"):
        return np.asarray((REFERENCE.get(name) or getattr(np, name))(*(a.astype(np.float64) for a in args)))


def check(name: str, args: list[Array], got: Array, budget: float) -> None:
    """float32 results are within so many units in the last place; infinities, NaN and zeros are the same."""
    with np.errstate(all="ignore"):
        truth = exact(name, *args)
        nearest = truth.astype(np.float32)
        finite = np.isfinite(nearest) & np.isfinite(got)
        same = (got == nearest) | (np.isnan(got) & np.isnan(nearest))
        error = np.abs(got.astype(np.float64) - truth) / np.spacing(np.abs(nearest)).astype(np.float64)
    wrong = ~finite & ~same | (nearest == 0) & (got == 0) & (np.signbit(nearest) != np.signbit(got))
    assert not wrong.any(), [(*(a[k] for a in args), got[k], truth[k]) for k in np.flatnonzero(wrong)[:5]]
    error[~finite] = 0.0
    worst = int(error.argmax())
    assert error[worst] <= budget, (error[worst], *(a[worst] for a in args), got[worst], truth[worst])
