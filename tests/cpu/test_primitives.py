"""Every elementwise primitive and dtype against its meaning."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernel_loop import run
from primitive_values import (
    BFLOAT16,
    ELEMENTWISE,
    SPECIAL_CASES,
    assert_same,
    bits,
    meaning,
    names,
    operands,
    random_source,
    specials,
)

from pyasc.backend.cpu import primitives
from pyasc.backend.cpu.transcendental import FUNCTIONS as TRANSCENDENTAL
from pyasc.ops.primitives import PRIMITIVES

DTYPES = [np.dtype(bool), *(np.dtype(f"{k}{n}") for k in "iu" for n in (1, 2, 4, 8))]
DTYPES += [np.dtype(np.float16), BFLOAT16, np.dtype(np.float32), np.dtype(np.float64)]


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
