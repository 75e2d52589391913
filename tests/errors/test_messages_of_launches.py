"""Messages about options, grids and arguments of kernels written by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from mistakes import Mistake, check, label, x

import pyasc


@pyasc.kernel
def double(y: pyasc.Tensor, x: pyasc.Tensor) -> None:
    i = pyasc.get_global_id(0)
    y[i] = 2 * x[i]


@pyasc.kernel
def fill(y: Any, n: int, value: pyasc.float32 = 1.0) -> None:
    i = pyasc.get_global_id(0)
    y[i] = n


@pyasc.kernel
def single(y: pyasc.float32) -> None:
    i = pyasc.get_global_id(0)
    y[i] = 0


@pyasc.kernel
def plane(y: Any, x: Any) -> None:
    i, j = pyasc.get_global_id(0), pyasc.get_global_id(1)
    y[i, j] = x[i, j]


@pyasc.kernel
def layer(y: Any) -> None:
    i, j = pyasc.get_global_id(0), pyasc.get_global_id(1)
    y[i, j, 0] = 1


@pyasc.kernel
def both(y: Any, z: Any) -> None:
    i = pyasc.get_global_id(0)
    y[i] = 0
    z[i] = 1


@pyasc.kernel
def nothing(x: Any) -> None:
    i = pyasc.get_global_id(0)
    x[i]


@pyasc.kernel
def square(x: Any) -> Any:
    return x * x


@pyasc.kernel
def pick(y: Any, x: Any, index: Any) -> None:
    i = pyasc.get_global_id(0)
    y[i] = x[index[i]]


@pyasc.kernel
def tiled(y: Any, x: Any, n: int) -> None:
    t = pyasc.auto_tiling(n)
    for o in range(0, n, t):
        tile = pyasc.alloc("UB", t * 4)
        pyasc.dma_copy(tile, x[o : o + t])
        pyasc.dma_copy(y[o : o + t], tile)


@pyasc.kernel
def looping(y: Any, x: Any) -> None:
    i = pyasc.get_global_id(0)
    value = x[i]
    while value > 1:
        value = value / 2
    y[i] = pyasc.float64(value)


def read_only() -> np.ndarray[Any, Any]:
    array = np.zeros(3, np.float32)
    array.flags.writeable = False
    return array


def overlapping() -> tuple[Any, Any]:
    array = np.zeros(5, np.float32)
    return array[1:], array[:-1]


class Copying:
    """An object that is read as an array, of a copy."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.zeros(3, np.float32)


around = np.zeros(3, np.float32)


@pyasc.kernel
def writing(y: Any) -> None:
    i = pyasc.get_global_id(0)
    y[i] = 0
    around[i] = 1


@pyasc.kernel
def waiting(y: Any) -> None:
    i = pyasc.get_global_id(0)
    pyasc.barrier()
    y[i] = pyasc.get_local_id(0)


def outside() -> None:
    y = x(3)
    pyasc.sync(pick(y, x(4), pyasc.asarray([0, 4, 1])) or y)


def on_the_host() -> Any:
    y = pyasc.empty(4, dtype=pyasc.float64)
    looping(y, x(4))
    return pyasc.explain(y).kernels[-1].source("ascendc")


@pyasc.jit
def traced(v: Any) -> Any:
    double(v, np.ones(3, np.float32))
    return v


MISTAKES = [
    Mistake(RuntimeError, ("[double]", "tensors", "ndarray for x", "pyasc.asarray"), lambda: traced(x(3))),
    # options
    Mistake(TypeError, ("[kernel]", "a function", "given int"), lambda: pyasc.kernel(3)),  # type: ignore[call-overload]
    Mistake(ValueError, ("[kernel]", "1024 threads", "(64, 32)"), lambda: pyasc.kernel(block_dim=(64, 32))),
    Mistake(TypeError, ("[kernel]", "block_dim", "'16'"), lambda: pyasc.kernel(block_dim="16")),  # type: ignore[call-overload]
    Mistake(ValueError, ("[kernel]", "pipeline_depth", "to 2", "3"), lambda: pyasc.kernel(pipeline_depth=3)),
    Mistake(
        ValueError, ("[kernel]", "smem_size", "to 19", "10000000"), lambda: pyasc.kernel(smem_size=10**7)
    ),
    Mistake(TypeError, ("[kernel]", "True or False", "1"), lambda: pyasc.kernel(optimize=1)),  # type: ignore[call-overload]
    Mistake(
        ValueError,
        ("[anything]", "a fixed number of parameters", "*args"),
        lambda: pyasc.kernel(_anything),
    ),
    # grids
    Mistake(ValueError, ("[double]", "2147483647", "given 0"), lambda: double[0](x(3), x(3))),
    Mistake(ValueError, ("[double]", "2147483647", str(2**31)), lambda: double[2**31](x(3), x(3))),
    Mistake(
        ValueError, ("[double]", "2147483647", "4294967296"), lambda: double[(2**16,), (2**16,)](x(3), x(3))
    ),
    Mistake(ValueError, ("[double]", "one to three axes", "4"), lambda: double[2, 2, 2, 2](x(3), x(3))),
    Mistake(
        ValueError, ("[double]", "kernel[grid, block]", "3"), lambda: double[(1,), (2,), (3,)](x(3), x(3))
    ),
    Mistake(TypeError, ("[double]", "whole numbers", "float 2.5"), lambda: double[2.5](x(3), x(3))),
    Mistake(ValueError, ("[plane]", "2 axes", "given 1"), lambda: plane[(6,), (2, 3)](x(3, 4), x(3, 4))),
    Mistake(ValueError, ("[double]", "1 axes", "given 3"), lambda: double[2, 2, 2](x(3), x(3))),
    Mistake(ValueError, ("[layer]", "kernel[size]", "(3, 4, 5)", "no size"), lambda: layer(x(3, 4, 5))),
    Mistake(ValueError, ("[nothing]", "writes an array", "none"), lambda: nothing(x(3))),
    Mistake(ValueError, ("[waiting]", "at most 1024", "2048"), lambda: waiting[(1,), (2048,)](x(3))),
    Mistake(ValueError, ("[square]", "without a grid", "(3,)"), lambda: square[3](x(3))),
    Mistake(ValueError, ("[tiled]", "without a grid", "(3,)"), lambda: tiled[3](x(3), x(3), 3)),
    # arguments
    Mistake(TypeError, ("[double]", "2 arguments (y, x)", "given 1, without x"), lambda: double(x(3))),
    Mistake(TypeError, ("[double]", "2 arguments", "given 3"), lambda: double(x(3), x(3), x(3))),
    Mistake(TypeError, ("[double]", "2 arguments", "z among them"), lambda: double(x(3), z=x(3))),
    Mistake(TypeError, ("[fill]", "int for n", "float"), lambda: fill(x(3), 2.5)),
    Mistake(TypeError, ("[double]", "a tensor for x", "int"), lambda: double(x(3), 4)),
    Mistake(TypeError, ("[single]", "elements of float32 for y", "int64"), lambda: single(pyasc.arange(3))),
    Mistake(TypeError, ("[fill]", "for n", "set"), lambda: fill(x(3), {1})),
    Mistake(
        TypeError,
        ("[double]", "a dtype of tensors for x", "complex128"),
        lambda: double(x(3), np.zeros(3, complex)),
    ),
    Mistake(ValueError, ("[double]", "can be written for y", "read-only"), lambda: double(read_only(), x(3))),
    Mistake(
        ValueError, ("[double]", "an array for y", "Copying", "makes a copy"), lambda: double(Copying(), x(3))
    ),
    Mistake(ValueError, ("[writing]", "among the arguments", "around"), lambda: writing(x(3))),
    Mistake(ValueError, ("[both]", "y and z", "share memory"), lambda: both(*overlapping())),
    Mistake(
        ValueError,
        ("[double]", "apart in memory for y", "repeats"),
        lambda: double(pyasc.broadcast_to(x(1), (3,)), x(3)),
    ),
    Mistake(ValueError, ("[both]", "y and z", "share elements"), lambda: both(*[x(5)[1:]] * 2)),
    # running
    Mistake(IndexError, ("[pick]", "inside x, of shape (4,)", "given 4", "y[i] = x[index[i]]"), outside),
    Mistake(NotImplementedError, ("[source]", "one launch on 910B1", "float64"), on_the_host),
]


def _anything(*args: Any) -> None: ...


_anything.__name__ = "anything"


@pytest.mark.parametrize("entry", MISTAKES, ids=label)
def test_mistake(entry: Mistake, mistake: Callable[..., Any]) -> None:
    check(entry, mistake)
