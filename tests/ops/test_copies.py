"""What NumPy returns as a copy shares no memory with its argument, also where there is nothing to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyasc


def padded(mode: str) -> Callable[[Any, Any], Any]:
    return lambda np, x: np.pad(x, 0, mode=mode)


COPIES: dict[str, Callable[[Any, Any], Any]] = {
    **{
        f"pad {mode}": padded(mode)
        for mode in ("constant", "edge", "reflect", "symmetric", "wrap", "empty", "maximum", "linear_ramp")
    },
    "repeat": lambda np, x: np.repeat(x, 1),
    "repeat along axis": lambda np, x: np.repeat(x, 1, axis=0),
    "tile": lambda np, x: np.tile(x, 1),
    "tile ()": lambda np, x: np.tile(x, ()),
    "roll": lambda np, x: np.roll(x, 0),
    "roll along axis": lambda np, x: np.roll(x, x.size, 0),
    "concatenate": lambda np, x: np.concatenate([x]),
    "concatenate flat": lambda np, x: np.concatenate([x], axis=None),
    "stack": lambda np, x: np.stack([x]),
    "vstack": lambda np, x: np.vstack([x]),
    "hstack": lambda np, x: np.hstack([x]),
    "dstack": lambda np, x: np.dstack([x]),
    "column_stack": lambda np, x: np.column_stack([x]),
    "append": lambda np, x: np.append(x, []),
    "resize": lambda np, x: np.resize(x, x.shape),
    "clip": lambda np, x: np.clip(x, 0, None),
    "clip None": lambda np, x: np.clip(x, None, None),
    "round": lambda np, x: np.round(x),
    "floor": lambda np, x: np.floor(x),
    "trunc": lambda np, x: np.trunc(x),
    "take": lambda np, x: np.take(x, range(x.size)),
    "take one": lambda np, x: np.take(x, 0),
    "take along axis": lambda np, x: np.take_along_axis(x, np.asarray([0]), 0),
    "compress": lambda np, x: np.compress([True] * x.size, x),
    "extract": lambda np, x: np.extract(x == x, x),
    "index list": lambda np, x: x[[0]],
    "mask": lambda np, x: x[x == x],
    "element": lambda np, x: x[(0,) * x.ndim],
    "where": lambda np, x: np.where(x == x, x, x),
    "select": lambda np, x: np.select([x == x], [x]),
    "astype": lambda np, x: np.astype(x, x.dtype),
    "astype method": lambda np, x: x.astype(x.dtype),
    "copy": lambda np, x: np.copy(x),
    "copy method": lambda np, x: x.copy(),
    "flatten": lambda np, x: x.flatten(),
    "array": lambda np, x: np.array(x),
    "array dtype": lambda np, x: np.array(x, dtype=x.dtype),
    "array ndmin": lambda np, x: np.array(x, ndmin=3),
    "asarray copy": lambda np, x: np.asarray(x, copy=True),
    "reshape copy": lambda np, x: np.reshape(x, x.shape, copy=True),
    "full": lambda np, x: np.full(x.shape, x),
    "nan_to_num": lambda np, x: np.nan_to_num(x),
    "sort": lambda np, x: np.sort(x),
    "partition": lambda np, x: np.partition(x, 0),
    "unique": lambda np, x: np.unique(x),
    "cumsum": lambda np, x: np.cumsum(x),
    "cumprod": lambda np, x: np.cumprod(x),
    "nancumsum": lambda np, x: np.nancumsum(x),
    "cumulative_sum": lambda np, x: np.cumulative_sum(x),
    "sum over nothing": lambda np, x: np.sum(x, axis=()),
    "max over nothing": lambda np, x: np.max(x, axis=()),
    "nansum over nothing": lambda np, x: np.nansum(x, axis=()),
    "positive": lambda np, x: +x,
    "absolute": lambda np, x: np.absolute(x),
    "conj": lambda np, x: np.conj(x),
    "power": lambda np, x: x**1,
    "power float": lambda np, x: x**1.0,
    "square": lambda np, x: np.square(x),
    "maximum": lambda np, x: np.maximum(x, x),
    "tril": lambda np, x: np.tril(x, 9),
    "triu": lambda np, x: np.triu(x, -9),
    "diagflat": lambda np, x: np.diagflat(x),
    "meshgrid": lambda np, x: np.meshgrid(x)[0],
    "kron": lambda np, x: np.kron(x, [1]),
}


@pytest.mark.parametrize("dtype", ["bool", "int64", "float32"])
@pytest.mark.parametrize("shape", [(), (1,), (3,), (1, 1)], ids=str)
def test_copies(shape: tuple[int, ...], dtype: str) -> None:
    for name, function in COPIES.items():
        array = np.ones(shape, dtype)
        try:
            theirs = function(np, array)
        except (TypeError, ValueError, IndexError):
            continue  # NumPy has no such call
        if np.may_share_memory(theirs, array):
            continue
        x = pyasc.array(array)
        made = function(pyasc, x)
        assert made.shape == np.shape(theirs), name
        before = made.numpy()
        x[...] = 0
        np.testing.assert_array_equal(made.numpy(), before, err_msg=name)
        x[...] = 1
        made[...] = 0
        np.testing.assert_array_equal(x.numpy(), array, err_msg=name)
