"""Operands of primitives, special values among them, and their meaning: for the tests of each backend."""

from __future__ import annotations

import zlib
from typing import Any

import ml_dtypes
import numpy as np

from pyasc.ops.primitives import PRIMITIVES, Kind

Array = np.ndarray[Any, Any]
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
ELEMENTWISE = [p for p in PRIMITIVES.values() if p.kind is Kind.ELEMENTWISE]
# Tested one by one: their operands are not all of one dtype, or they have attributes.
SPECIAL_CASES = {"cast", "bitcast", "random_bits", "wrap_index", "where"}


def names(value: Any) -> str:
    """How a test's parameter is called."""
    return value if isinstance(value, str) else value.name


def random_source(*key: object) -> np.random.Generator:
    """Random numbers that are the same in every run."""
    return np.random.default_rng(zlib.crc32(repr(key).encode()))


def specials(dtype: np.dtype[Any]) -> Array:
    """Zeros, ones, extremes and their neighbours, infinities, NaN, denormals."""
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        values = [0, 1, 2, 3, 5, 7, 8, 15, 16, 31, 32, 33]
        values += [limits.max, limits.max - 1, limits.min, limits.min + 1]
        values += [limits.max // 2, limits.max // 2 + 1, limits.max // 2 + 2, limits.max // 3]
        if dtype.kind == "i":
            values += [-1, -2, -3, -7]
        return np.array(values, dtype)
    limits = ml_dtypes.finfo(dtype)
    small = [limits.smallest_subnormal, limits.smallest_normal, limits.eps, limits.max]
    plain = [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 7.0, 100.0, 1e5, np.inf]
    plain += [2.0**23, 2.0**23 + 1, 2.0**24, 2.0**31]
    values = [s * float(v) for v in [*plain, *small] for s in (1.0, -1.0)]
    with np.errstate(over="ignore"):
        return np.array([*values, np.nan], np.float64).astype(dtype)


def bits(rng: np.random.Generator, dtype: np.dtype[Any], size: int) -> Array:
    """Values whose bits are random, half of them near one."""
    if dtype.kind == "b":
        return rng.integers(0, 2, size).astype(bool)
    raw = rng.integers(0, 256, size * dtype.itemsize, dtype=np.uint8).view(dtype)
    if dtype.kind in "iu":
        narrow = rng.integers(-9 if dtype.kind == "i" else 0, 10, size).astype(dtype)
    else:
        narrow = rng.normal(0, 3, size).astype(dtype)
    return np.where(rng.integers(0, 2, size).astype(bool), raw, narrow)


def operands(rng: np.random.Generator, dtypes: list[np.dtype[Any]], size: int = 4000) -> list[Array]:
    """Every combination of special values, then random ones."""
    grids = np.meshgrid(*(specials(d) for d in dtypes))
    return [np.concatenate([g.ravel(), bits(rng, d, size)]) for g, d in zip(grids, dtypes, strict=True)]


def meaning(op: str, *args: Array, dtype: Any = None, attrs: tuple[Any, ...] = ()) -> Array:
    """What NumPy makes of the operands; the result has the first one's dtype unless it is said."""
    dtype = args[0].dtype if dtype is None else np.dtype(dtype)
    shape = np.broadcast_shapes(*(a.shape for a in args))
    return np.asarray(PRIMITIVES[op].meaning(*args, attrs=attrs, shape=shape, dtype=dtype))


def raw(x: Array) -> Array:
    """The bits, as unsigned integers."""
    return x.view(f"u{x.itemsize}")


def assert_same(got: Array, expected: Array, *args: Array) -> None:
    """Equal to the bit, zeros' signs included; any NaN equals any other."""
    same = raw(np.ascontiguousarray(got)) == raw(np.ascontiguousarray(expected))
    if got.dtype.kind in "fV":
        with np.errstate(invalid="ignore"):
            same |= np.isnan(got) & np.isnan(expected)
    bad = np.flatnonzero(~same)
    shown = [(*(a[k] if a.ndim else a for a in args), got[k], expected[k]) for k in bad[:5]]
    assert not bad.size, f"{bad.size} of {got.size} differ: (operands, got, expected) {shown}"
