"""Kernels lowered and run by the reference interpreter, and the same functions run in Python."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

from pyasc.backend.structured import StructuredBinding, layout
from pyasc.backend.structured.reference import run
from pyasc.backend.structured.verify import verify_structured, verify_structured_binding
from pyasc.dsl import language
from pyasc.dsl.lowering import lower
from pyasc.dsl.signature import (
    ArgumentType,
    ArrayType,
    Constant,
    LaunchValues,
    Lowered,
    NumberType,
    ObjectType,
    Options,
    SequenceType,
)


def argument_type(value: Any) -> ArgumentType:
    if isinstance(value, np.ndarray):
        return ArrayType(value.dtype, layout(tuple(s // value.itemsize for s in value.strides)))
    if isinstance(value, bool | int | float):
        return NumberType(type(value))
    if isinstance(value, tuple | list) and all(isinstance(v, bool | int | float) for v in value):
        return SequenceType(tuple(NumberType(type(v)) for v in value))
    if isinstance(value, str | type | np.dtype | None) or callable(value):
        return Constant(value)
    return ObjectType()


def lowered(function: Callable[..., Any], options: Options | None = None, **arguments: Any) -> Lowered:
    """A function lowered for these arguments, and checked by the rules of the IR."""

    def read(path: Any) -> Any:
        value = arguments[path[0]] if path[0] else around(function, path[1])
        for step in path[1 if path[0] else 2 :]:
            value = value[step] if isinstance(step, int) else getattr(value, step)
        return value

    shapes = {(n,): v.shape for n, v in arguments.items() if isinstance(v, np.ndarray)}
    signature = {n: argument_type(v) for n, v in arguments.items()}
    made = lower(function, signature, LaunchValues(shapes, read), options or Options())
    verify_structured(made.kernel)
    return made


def around(function: Callable[..., Any], name: str) -> Any:
    code = function.__code__
    if name in code.co_freevars:
        assert function.__closure__ is not None
        return function.__closure__[code.co_freevars.index(name)].cell_contents
    return function.__globals__[name]


def launch(
    function: Callable[..., Any], grid: tuple[int, ...], options: Options | None = None, **arguments: Any
) -> tuple[int, int] | None:
    """Lower and run by the reference interpreter, writing into the arrays; the fault, if any."""
    made = lowered(function, options, **arguments)
    kernel = made.kernel
    arrays = []
    for number, path in enumerate(made.arrays):
        value = arguments[path[0]] if path[0] else around(function, str(path[1]))
        for step in path[1:] if path[0] else ():
            value = getattr(value, str(step))
        value = np.asarray(value)
        arrays.append(value.reshape(-1) if number in made.flat else value)
    strides = tuple(tuple(s // a.itemsize for s in a.strides) for a in arrays)
    assert all(layout(s) == k.layout for s, k in zip(strides, kernel.arrays, strict=True))
    flats = [a.reshape(-1) for a in arrays]
    assert all(np.shares_memory(f, a) or not a.size for f, a in zip(flats, arrays, strict=True))
    scalars = []
    for path, dtype in zip(made.scalars, kernel.scalars, strict=True):
        number_: Any = arguments[path[0]]
        for step in path[1:]:
            number_ = number_[step] if isinstance(step, int) else getattr(number_, step)
        scalars.append(np.asarray(number_).astype(dtype)[()])
    grid = (*grid, *(1,) * kernel.axes)[: kernel.axes]
    binding = StructuredBinding(
        grid, tuple(a.shape for a in arrays), strides, (0,) * len(arrays), tuple(a.size for a in arrays)
    )
    verify_structured_binding(kernel, binding)
    return run(kernel, binding, flats, scalars)


class _InPython:
    """A thread run in Python, alone in its block."""

    def __init__(self, at: tuple[int, ...], grid: tuple[int, ...]) -> None:
        self.at, self.grid = at, grid

    def global_id(self, axis: int) -> int:
        return self.at[axis]

    def global_size(self, axis: int) -> int:
        return self.grid[axis]

    def group_id(self, axis: int) -> int:
        return self.at[axis]

    def local_id(self, axis: int) -> int:
        return 0

    def local_size(self, axis: int) -> int:
        return 1

    def barrier(self) -> None:
        raise AssertionError("no barriers here")

    def shared(self, shape: tuple[int, ...], dtype: Any) -> Any:
        raise AssertionError("no shared memory here")

    def atomic(self, how: str, array: Any, index: Any, value: Any) -> Any:
        old = array[index]
        array[index] = {"add": old + value, "max": max(old, value), "min": min(old, value)}[how]
        return old


def in_python(function: Callable[..., Any], grid: tuple[int, ...], **arguments: Any) -> None:
    """The function itself, run for one thread after another."""
    for at in product(*map(range, grid)):
        token = language.running.set(_InPython(at, grid))
        try:
            function(**arguments)
        finally:
            language.running.reset(token)


def check(
    function: Callable[..., Any], grid: tuple[int, ...], /, rtol: float = 1e-5, **arguments: Any
) -> None:
    """The arrays after the lowered kernel equal those after the function in Python, and no access is at
    fault."""
    copied = {n: v.copy() if isinstance(v, np.ndarray) else v for n, v in arguments.items()}
    fault = launch(function, grid, **arguments)
    assert fault is None
    with np.errstate(all="ignore"):
        in_python(function, grid, **copied)
    for name, value in arguments.items():
        if isinstance(value, np.ndarray):
            np.testing.assert_allclose(value, copied[name], rtol=rtol, atol=1e-6, err_msg=name)
