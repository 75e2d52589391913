"""Every elementwise primitive and dtype, lowered to vector instructions, against its meaning."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from primitive_values import (
    BFLOAT16,
    ELEMENTWISE,
    SPECIAL_CASES,
    assert_same,
    meaning,
    names,
    operands,
    random_source,
    specials,
)
from tile_evaluator import Faulted, run

from pyasc.backend.ascend.chip import load
from pyasc.backend.ascend.support import ULP, refusal
from pyasc.backend.ascend.tile import Scalar
from pyasc.ops.primitives import PRIMITIVES

DTYPES = [np.dtype(bool), *(np.dtype(f"{k}{n}") for k in "iu" for n in (1, 2, 4))]
DTYPES += [np.dtype(np.float16), BFLOAT16, np.dtype(np.float32)]
CHIP = load("910B1")
EXACT = [
    (p.name, d)
    for p in ELEMENTWISE
    for d in DTYPES
    if d.kind in p.dtypes and p.name not in SPECIAL_CASES | set(ULP) and not refusal(p.name, d, (), CHIP)
]


@pytest.mark.parametrize("nan", ["number", "nan"])
@pytest.mark.parametrize(("op", "dtype"), EXACT, ids=names)
def test_bit_for_bit(op: str, dtype: np.dtype[Any], nan: str) -> None:
    primitive = PRIMITIVES[op]
    args = operands(random_source(op, dtype.name), [dtype] * primitive.arity)
    assert primitive.result is not None
    result = primitive.result(*(a.dtype for a in args))
    got, _ = run(op, *args, dtype=result, nan=nan)
    assert_same(got, meaning(op, *args, dtype=result), *args)


@pytest.mark.parametrize("op", ["floor_divide", "remainder", "fmod"])
@pytest.mark.parametrize("dtype", [d for d in DTYPES if d.kind in "iu"], ids=names)
def test_integer_division_does_not_need_a_rounded_quotient(op: str, dtype: np.dtype[Any]) -> None:
    if dtype.itemsize == 1:
        args = [g.ravel() for g in np.meshgrid(*[np.arange(256, dtype=np.uint8).view(dtype)] * 2)]
    else:
        args = operands(random_source(op, dtype.name), [dtype] * 2, 100_000)
    got, _ = run(op, *args, dtype=dtype, off=1)
    assert_same(got, meaning(op, *args, dtype=dtype), *args)


def scalar(value: Any, dtype: np.dtype[Any]) -> Scalar:
    kind = {"b": "f16", "f": "f16" if dtype == np.float16 else "f32", "V": "f32"}.get(
        dtype.kind, "i16" if dtype.itemsize < 4 else "i32"
    )
    return Scalar(kind, value.item() if dtype.kind != "V" else float(value))


@pytest.mark.parametrize("first", [False, True], ids=["second", "first"])
@pytest.mark.parametrize(("op", "dtype"), [(o, d) for o, d in EXACT if PRIMITIVES[o].arity == 2], ids=names)
def test_with_a_number(op: str, dtype: np.dtype[Any], first: bool) -> None:
    primitive = PRIMITIVES[op]
    x = operands(random_source(op, dtype.name), [dtype], 500)[0]
    assert primitive.result is not None
    result = primitive.result(dtype, dtype)
    for number in specials(dtype):
        args = [scalar(number, dtype), x] if first else [x, scalar(number, dtype)]
        arrays = [np.asarray(number), x] if first else [x, np.asarray(number)]
        got, _ = run(op, *args, dtype=result, dtypes=[dtype, dtype])
        assert_same(got, meaning(op, *arrays, dtype=result), *arrays)


@pytest.mark.parametrize("dtype", DTYPES, ids=names)
def test_where(dtype: np.dtype[Any]) -> None:
    rng = random_source("where", dtype.name)
    condition, x, y = operands(rng, [np.dtype(bool), dtype, dtype])
    assert_same(run("where", condition, x, y, dtype=dtype)[0], meaning("where", condition, x, y, dtype=dtype))
    for number in specials(dtype)[::3]:
        for pair in ([scalar(number, dtype), y], [x, scalar(number, dtype)], [scalar(number, dtype)] * 2):
            arrays = [number if isinstance(p, Scalar) else p for p in pair]
            got, _ = run("where", condition, *pair, dtype=dtype, dtypes=[bool, dtype, dtype])
            assert_same(got, meaning("where", condition, *map(np.asarray, arrays), dtype=dtype), condition)


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
    for nan in ("number", "nan"):
        got, _ = run("cast", x, dtype=dtype, nan=nan)
        assert_same(got, meaning("cast", x, dtype=dtype), x)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_bitcast(size: int) -> None:
    of_size = [d for d in DTYPES if d.itemsize == size and d.kind != "b"]
    for source in of_size:
        for dtype in of_size:
            x = operands(random_source("bitcast", source.name), [source])[0]
            if source == BFLOAT16:
                x = x[~np.isnan(x.astype(np.float32))]
            assert_same(run("bitcast", x, dtype=dtype)[0], meaning("bitcast", x, dtype=dtype), x)


@pytest.mark.parametrize("word", range(4))
def test_random_bits(word: int) -> None:
    index = np.concatenate([np.arange(100), random_source(word).integers(0, 2**31, 500)])
    numbers = np.array([0xDEADBEEF12345678, 0x9123456789], np.uint64)
    key, stream = (Scalar("u64", int(n)) for n in numbers)
    got, _ = run(
        "random_bits", index.view(np.uint64), key, stream, dtype=np.uint32, dtypes=["u8"] * 3, attrs=(word,)
    )
    expected = meaning("random_bits", index.astype(np.uint64), *numbers, dtype=np.uint32, attrs=(word,))
    assert_same(got, expected)


@pytest.mark.parametrize("first", [0, 5, 2**31, 2**32 - 3, 2**32 + 2**31, 2**63 - 1])
def test_counter_of_random_bits(first: int) -> None:
    """A generator that has drawn before: the index with a 64-bit number added."""
    from tile_evaluator import Evaluator, to_value

    from pyasc.backend.ascend.primitives import lower
    from pyasc.backend.ascend.tile import Builder

    u64 = np.dtype(np.uint64)
    b, evaluator = Builder(), Evaluator()
    index = np.arange(0, 2**31, 99_999_989)
    value = to_value(b, evaluator, index)
    counter = lower(b, "cast", u64, [value], [index.dtype], ())
    counter = lower(b, "add", u64, [counter, Scalar("u64", first)], [u64, u64], ())
    args = [counter, Scalar("u64", 7), Scalar("u64", 2**40 + 3)]
    result = lower(b, "random_bits", np.dtype(np.uint32), args, [u64] * 3, (1,))
    evaluator.run(b.instrs)
    expected = meaning(
        "random_bits", index.astype(u64) + np.uint64(first), np.uint64(7), np.uint64(2**40 + 3),
        dtype=np.uint32, attrs=(1,),
    )  # fmt: skip
    assert_same(evaluator.values[result].view(np.uint32), expected)  # type: ignore[index]


def test_wrap_index() -> None:
    index = np.arange(-20, 20)
    expected = meaning("wrap_index", index, np.asarray(20), dtype=index.dtype)
    for size in (Scalar("i32", 20), np.full(40, 20)):
        got, _ = run("wrap_index", index, size, dtype=np.int64, dtypes=["i8", "i8"], attrs=(3,))
        assert_same(got, expected)
    for outside in (-21, 20, np.iinfo(np.int64).min, np.iinfo(np.int64).max, 2**32):
        with pytest.raises(Faulted) as raised:
            run(
                "wrap_index",
                np.array([0, outside]),
                Scalar("i32", 20),
                dtype=np.int64,
                dtypes=["i8", "i8"],
                attrs=(3,),
            )
        assert raised.value.args == (3, np.clip(outside, -(2**31), 2**31 - 1))


@pytest.mark.parametrize(
    "op", ["add", "sub", "mul", "where", "eq", "lt", "le", "ne", "max", "min", "floor_divide"]
)
def test_narrow_int64(op: str) -> None:
    rng = random_source("narrow", op)
    x, y = (rng.integers(-(2**15), 2**15, 1000) for _ in range(2))
    condition = [x > y] if op == "where" else []
    result = np.dtype(bool) if op in ("eq", "ne", "lt", "le") else x.dtype
    got, _ = run(op, *condition, x, y, dtype=result)
    assert_same(got, meaning(op, *condition, x, y, dtype=result))
