"""Random programs: fused, unfused and jitted give the same bits, and so does NumPy where it is exact."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pyasc

DTYPES = ("int8", "uint16", "int64", "float16", "bfloat16", "float32", "float64")
# Exact in every dtype, so that fusing may not change a bit.
UNARY = ("negative", "absolute", "square", "sign")
BINARY = ("add", "subtract", "multiply", "maximum", "minimum")
STEPS = (
    "unary",
    "binary",
    "binary",
    "scalar",
    "shift",
    "flip",
    "extremes",
    "where",
    "turn",
    "write",
    "pick",
    "sums",
)
# One element, a tail, a vector and a tail, several threads.
SHAPES = ((1, 1), (4, 6), (37, 53), (300, 257))
Draw = Callable[[Any], Any]


def grow(draw: Draw, leaves: list[Any], library: Any) -> list[Any]:
    """A random expression over matrices: elementwise steps, views, writes, reductions kept in shape."""
    pool = list(leaves)

    def pick() -> Any:
        return pool[draw(st.sampled_from(range(len(pool))))]

    for _ in range(draw(st.integers(1, 14))):
        a = pick()
        step = draw(st.sampled_from(STEPS))
        if step == "unary":
            pool.append(getattr(library, draw(st.sampled_from(UNARY)))(a))
        elif step == "binary":
            pool.append(getattr(library, draw(st.sampled_from(BINARY)))(a, pick()))
        elif step == "scalar":
            pool.append(a * draw(st.sampled_from((2, 3, 5))) + 1)
        elif step == "shift":
            pool.append(library.concatenate([a[:, 1:], a[:, :1]], axis=1))
        elif step == "flip":
            pool.append(a[::-1, ::-1])
        elif step == "extremes":
            how = draw(st.sampled_from(("max", "min", "argmax")))
            axis = draw(st.sampled_from((0, 1, None)))
            pool.append(a - getattr(a, how)(axis=axis, keepdims=True).astype(a.dtype))
        elif step == "sums" and a.dtype.kind in "iu":
            axis = draw(st.sampled_from((0, 1, (0, 1))))
            pool.append((a + a.sum(axis=axis, keepdims=True)).astype(a.dtype))
        elif step == "sums" and a.dtype.itemsize > 2:  # narrower ones are summed wider than NumPy does
            pool.append(library.cumsum(a, axis=draw(st.sampled_from((0, 1)))))
        elif step == "pick":
            rows = np.arange(a.shape[0])[:: draw(st.sampled_from((1, -1)))] // 2
            target = a[rows]
            target[target > 3] = draw(st.sampled_from((0, 2)))
            target[rows, 0] = pick()[0, 0]
            pool.append(target)
        elif step == "where":
            b = pick()
            pool.append(library.where(a < b, a, b + 1))
        elif step == "turn":
            pool.append(a.T.reshape(a.shape))
        elif step == "write":
            target = a.copy()
            target[1:, ::2] += pick()[:-1, ::2]
            target[0] = target[a.shape[0] // 2]
            pool.append(target)
    return pool


def arrays(dtype: str, shape: tuple[int, int], seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    return [rng.integers(0, 9, shape).astype(kind) for _ in range(2)]


def recorded(data: st.DataObject) -> tuple[Draw, Callable[[], Draw]]:
    """Draw once; replay the same choices as often as wanted."""
    choices: list[Any] = []

    def record(strategy: Any) -> Any:
        choices.append(data.draw(strategy))
        return choices[-1]

    def replay() -> Draw:
        rest = iter(choices)
        return lambda strategy: next(rest)

    return record, replay


def assert_same_bits(given: list[Any], expected: list[Any]) -> None:
    assert len(given) == len(expected)
    for a, b in zip(given, expected, strict=True):
        left, right = np.asarray(a), np.asarray(b)
        assert left.dtype == right.dtype and left.shape == right.shape
        # NaN has many bit patterns, and which one a processor makes is not promised.
        same = (left == right) | ((left != left) & (right != right))
        assert same.all(), f"expected\n{right}\ngiven\n{left}"


@pytest.mark.parametrize("dtype", DTYPES)
@given(data=st.data())
def test_fused_equals_unfused_equals_numpy(dtype: str, data: st.DataObject) -> None:
    record, replay = recorded(data)
    shape = data.draw(st.sampled_from(SHAPES))
    lazy = grow(record, [pyasc.array(a) for a in arrays(dtype, shape, 0)], pyasc)
    count = len(lazy) if data.draw(st.booleans()) else 1  # several outputs, or dead nodes
    results = lazy[-count:]
    del lazy
    with pyasc.eager():
        unfused = grow(replay(), [pyasc.array(a) for a in arrays(dtype, shape, 0)], pyasc)
    assert_same_bits(results, unfused[-count:])
    with np.errstate(all="ignore"):
        assert_same_bits(results, grow(replay(), arrays(dtype, shape, 0), np)[-count:])


@pytest.mark.parametrize("dtype", DTYPES)
@given(data=st.data())
def test_jitted_equals_plain(dtype: str, data: st.DataObject) -> None:
    """Traced once and replayed on other values, the arguments being views now and then."""
    record, replay = recorded(data)
    shape = data.draw(st.sampled_from(SHAPES))
    grow(record, [pyasc.array(a) for a in arrays(dtype, shape, 0)], pyasc)

    @pyasc.jit
    def program(x: Any, y: Any) -> Any:
        return grow(replay(), [x, y], pyasc)

    for seed in (0, 1, 2):
        x, y = arrays(dtype, shape, seed)
        view = pyasc.array(x[::-1])[::-1] if data.draw(st.booleans()) else pyasc.array(x)
        results = program(view, pyasc.array(y))
        with np.errstate(all="ignore"):
            assert_same_bits(results, grow(replay(), [x, y], np))
        assert_same_bits([view], [x])
