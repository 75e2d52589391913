"""Every elementwise primitive and dtype against its meaning."""

from __future__ import annotations

import zlib
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from kernel_loop import run

from pyasc.backend.cpu import primitives
from pyasc.backend.cpu.transcendental import FUNCTIONS as TRANSCENDENTAL
from pyasc.ops.primitives import PRIMITIVES, Kind

Array = np.ndarray[Any, Any]
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
DTYPES = [np.dtype(bool), *(np.dtype(f"{k}{n}") for k in "iu" for n in (1, 2, 4, 8))]
DTYPES += [np.dtype(np.float16), BFLOAT16, np.dtype(np.float32), np.dtype(np.float64)]
ELEMENTWISE = [p for p in PRIMITIVES.values() if p.kind is Kind.ELEMENTWISE]
SPECIAL_CASES = {"cast", "bitcast", "random_bits", "wrap_index", "where"}


def names(dtype: np.dtype[Any]) -> str:
    return dtype.name


def random_source(*key: object) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(repr(key).encode()))


def specials(dtype: np.dtype[Any]) -> Array:
    """Zeros, ones, extremes and their neighbours, infinities, NaN, denormals."""
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        values = [0, 1, 2, 3, 5, 7, 8, 31, limits.max, limits.max - 1, limits.min, limits.min + 1]
        if dtype.kind == "i":
            values += [-1, -2, -3, -7]
        return np.array(values, dtype)
    limits = ml_dtypes.finfo(dtype)
    small = [limits.smallest_subnormal, limits.smallest_normal, limits.eps, limits.max]
    plain = [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 7.0, 100.0, 1e5, np.inf]
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
    dtype = np.dtype(dtype) if dtype is not None else args[0].dtype
    return np.asarray(PRIMITIVES[op].meaning(*args, attrs=attrs, shape=args[0].shape, dtype=dtype))


def raw(x: Array) -> Array:
    return x.view(f"u{x.itemsize}")


def assert_same(got: Array, expected: Array, *args: Array) -> None:
    """Equal to the bit, zeros' signs included; any NaN equals any other."""
    same = raw(got) == raw(expected)
    if got.dtype.kind in "fV":
        with np.errstate(invalid="ignore"):
            same |= np.isnan(got) & np.isnan(expected)
    bad = np.flatnonzero(~same)
    shown = [(*(a[k] for a in args), got[k], expected[k]) for k in bad[:5]]
    assert not bad.size, f"{bad.size} of {got.size} differ: (operands, got, expected) {shown}"


EXACT = [
    (p.name, d)
    for p in ELEMENTWISE
    for d in DTYPES
    if d.kind in p.dtypes and p.name not in SPECIAL_CASES | set(TRANSCENDENTAL) | {"hypot"}
] + [("pow", d) for d in DTYPES if d.kind in "iu"]


@pytest.mark.parametrize(("op", "dtype"), EXACT, ids=lambda v: v if isinstance(v, str) else v.name)
def test_bit_for_bit(op: str, dtype: np.dtype[Any]) -> None:
    primitive = PRIMITIVES[op]
    assert primitives.supports(op, dtype)
    args = operands(random_source(op, dtype.name), [dtype] * primitive.arity)
    if op == "pow":
        args[1] = np.where(args[1].astype(np.float64) > 1e4, args[1] & 63, args[1])  # NumPy takes its time
    assert primitive.result is not None
    result = primitive.result(*(a.dtype for a in args))
    assert_same(run(op, *args, dtype=result), meaning(op, *args, dtype=result), *args)


@pytest.mark.parametrize("dtype", DTYPES, ids=names)
def test_where(dtype: np.dtype[Any]) -> None:
    rng = random_source("where", dtype.name)
    args = operands(rng, [np.dtype(bool), dtype, dtype])
    assert_same(run("where", *args, dtype=dtype), meaning("where", *args, dtype=dtype), *args)


@pytest.mark.parametrize("dtype", DTYPES, ids=names)
@pytest.mark.parametrize("source", DTYPES, ids=names)
def test_cast(source: np.dtype[Any], dtype: np.dtype[Any]) -> None:
    rng = random_source("cast", source.name, dtype.name)
    x = operands(rng, [source], 20000)[0]
    if source.kind in "fV" and dtype.kind in "iu":  # the neighbours of the ends of the range
        limits = np.array([float(np.iinfo(dtype).min), float(np.iinfo(dtype).max)])
        with np.errstate(over="ignore"):
            ends = limits.astype(source)
        bounds = [np.nextafter(ends, ends.dtype.type(s)) for s in (-np.inf, np.inf)]
        x = np.concatenate([x, ends, *bounds, np.array([-0.5, -0.99, 0.99]).astype(source)])
    assert_same(run("cast", x, dtype=dtype), meaning("cast", x, dtype=dtype), x)


@pytest.mark.parametrize("dtype", [np.float16, BFLOAT16], ids=["float16", "bfloat16"])
def test_every_narrow_float_rounds_as_numpy(dtype: Any) -> None:
    """All float32 values around every narrow one, its halfway points included."""
    every = np.arange(2**16, dtype=np.uint16).view(dtype)
    assert_same(run("cast", every, dtype=np.float32), every.astype(np.float32), every)
    wide = every.astype(np.float32)
    with np.errstate(all="ignore"):
        middle = ((wide[:-1].astype(np.float64) + wide[1:].astype(np.float64)) / 2).astype(np.float32)
        for toward in (0, np.inf, -np.inf):
            x = middle if toward == 0 else np.nextafter(middle, np.float32(toward))
            assert_same(run("cast", x, dtype=dtype), meaning("cast", x, dtype=dtype), x)
            y = middle.astype(np.float64)
            y = y if toward == 0 else np.nextafter(y, toward)
            assert_same(run("cast", y, dtype=dtype), meaning("cast", y, dtype=dtype), y)


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_bitcast(size: int) -> None:
    of_size = [d for d in DTYPES if d.itemsize == size and d.kind != "b"]
    for source in of_size:
        for dtype in of_size:
            x = operands(random_source("bitcast", source.name), [source])[0]
            assert_same(run("bitcast", x, dtype=dtype), meaning("bitcast", x, dtype=dtype), x)


@pytest.mark.parametrize("word", range(4))
def test_random_bits(word: int) -> None:
    counter = np.concatenate(
        [np.arange(100, dtype=np.uint64), bits(random_source(word), np.dtype("u8"), 500)]
    )
    key, stream = np.uint64(0xDEADBEEF12345678), np.uint64(0x123456789)
    args = (counter, np.full_like(counter, key), np.full_like(counter, stream))
    got = run("random_bits", *args, dtype=np.uint32, attrs=(word,))
    expected = PRIMITIVES["random_bits"].meaning(
        counter, key, stream, attrs=(word,), shape=counter.shape, dtype=np.dtype(np.uint32)
    )
    assert_same(got, expected)


def test_wrap_index() -> None:
    size = np.full(40, 20)
    index = np.arange(-20, 20)
    assert_same(run("wrap_index", index, size), meaning("wrap_index", index, size))
    outside = np.array([-21, 20, np.iinfo(np.int64).min, np.iinfo(np.int64).max])
    assert not run("wrap_index", outside, size[:4]).any()  # a place that can be read


@pytest.mark.parametrize("how", ["add", "mul", "max", "min"])
@pytest.mark.parametrize("dtype", DTYPES, ids=names)
def test_identity_changes_nothing(how: str, dtype: np.dtype[Any]) -> None:
    x = specials(dtype)
    identity = np.full(x.shape, primitives.reduce_identity(how, dtype)).astype(dtype)
    assert_same(run(how, x, identity), x, x)
    assert_same(run(how, identity, x), x, x)


@pytest.mark.parametrize("width", [1, 2, 3, 8, 64])
@pytest.mark.parametrize("op", ["mul", "floor_divide", "remainder", "pow", "exp", "sin", "erf", "log"])
def test_width_does_not_show(op: str, width: int) -> None:
    for dtype in (np.float32, np.float64, np.float16, np.int32, np.int64):
        dtype = np.dtype(dtype)
        if dtype.kind in PRIMITIVES[op].dtypes:
            args = operands(random_source(op), [dtype] * PRIMITIVES[op].arity, 300)
            if dtype.kind == "i":
                args = [a % 64 for a in args]
            assert_same(run(op, *args, width=width), run(op, *args, width=16), *args)
