"""Python numbers as arguments of `jit`: they are weak and mean what they mean without it."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyasc
from pyasc.ops.registry import Case, Operation, operations

NUMBERS = (2.5, 3, True)
TWO = [e for e in operations() if e.rule is not None and e.arity == 2]
WITH_NUMBERS = [
    pytest.param(entry, case, id=f"{entry.namespace}.{entry.name}-{n}".lstrip("."))
    for entry in operations()
    for n, case in enumerate(entry.cases)
    if any(type(v) in (bool, int, float) for v in (*case.args, *case.kwargs.values()))
]


def outcome(function: Callable[..., Any], *arguments: Any) -> list[Any]:
    """Dtype, shape and bits of each result, or the type of the error."""
    try:
        result = function(*arguments)
        found = [np.asarray(r) for r in (result if isinstance(result, tuple | list) else (result,))]
    except (pyasc.errors.PyascError, ValueError, TypeError, OverflowError) as error:
        return [type(error)]
    return [(a.dtype, a.shape, a.tobytes()) for a in found]


def operand(dtype: str, shape: tuple[int, ...] = (2, 5), domain: tuple[float, float] = (-4, 4)) -> Any:
    low, high = (max(domain[0], 0), domain[1]) if dtype[0] == "u" else domain
    values = np.linspace(low, high, int(np.prod(shape))).reshape(shape)
    return pyasc.array(values.astype(dtype) if dtype != "bool" else values > 0)


@pytest.mark.parametrize("dtype", ["float16", "float64", "int16", "uint8", "bool"])
@pytest.mark.parametrize("entry", [pytest.param(e, id=e.name) for e in TWO])
def test_a_number_is_an_operand_as_without_jit(entry: Operation, dtype: str) -> None:
    if np.dtype(dtype).kind not in entry.dtypes:
        pytest.skip(f"{entry.name} takes no {dtype}")
    x = operand(dtype)
    function: Any = entry.function
    for call in (lambda x, n: function(x, n), lambda x, n: function(n, x)):
        jitted = pyasc.jit(call)
        for n in (*NUMBERS, 1.5, 2):
            assert outcome(jitted, x, n) == outcome(call, x, n), f"with {n!r}"


@pytest.mark.parametrize(("entry", "case"), WITH_NUMBERS)
def test_the_cases_of_the_table_with_numbers(entry: Operation, case: Case) -> None:
    dtype = next((d for d in ("float16", "int16") if np.dtype(d).kind in entry.dtypes), "bool")
    tensors = [operand(dtype, o, entry.domain) if isinstance(o, tuple) else o for o in case.operands]

    def call(tensors: Any, args: Any, kwargs: Any) -> Any:
        front = (list(tensors),) if case.sequence else tensors
        return entry.function(*front, *args, **kwargs)

    arguments = (tensors, case.args, case.kwargs)
    given = outcome(pyasc.jit(call), *arguments)
    if given != [pyasc.errors.TracingError]:
        assert given == outcome(call, *arguments)


OTHERS: list[Callable[[Any, Any], Any]] = [
    lambda x, n: x**n,
    lambda x, n: pyasc.where(x > 0, x, n),
    lambda x, n: pyasc.where(x > 0, n, n),
    lambda x, n: pyasc.where(x > n, x, 0),
    lambda x, n: pyasc.clip(x, 0, n),
    lambda x, n: pyasc.clip(x, n),
    lambda x, n: pyasc.full_like(x, n),
    lambda x, n: pyasc.full((2,), n),
    lambda x, n: pyasc.full((2,), n, dtype=x.dtype),
    lambda x, n: pyasc.asarray(n) + x,
    lambda x, n: pyasc.array([n, 1]) * x[:, :2],
    lambda x, n: pyasc.select([x > 1, x < 0], [x, n], 0),
    lambda x, n: pyasc.diff(x, prepend=n),
    lambda x, n: pyasc.pad(x, 1, constant_values=n),
    lambda x, n: pyasc.isclose(x, n),
    lambda x, n: pyasc.sum(x, initial=n),
    lambda x, n: pyasc.add(x, n, where=x > 0),
    lambda x, n: pyasc.sin(n) + x,
    lambda x, n: np.add(x, n),
    lambda x, n: pyasc.concat([x, pyasc.full((2, 1), n)], axis=1),
    lambda x, n: pyasc.linspace(0, n, 5),
    lambda x, n: pyasc.arange(n),
]


def written(x: Any, n: Any) -> Any:
    x = x.copy()
    x[0] = n
    x[[0, 1], 1] = n
    x[x > 3] = n
    return x


@pytest.mark.parametrize("dtype", ["float16", "int16"])
@pytest.mark.parametrize("call", [*OTHERS, written])
def test_a_number_elsewhere(call: Callable[[Any, Any], Any], dtype: str) -> None:
    x = operand(dtype)
    jitted = pyasc.jit(call)
    for n in (*NUMBERS, 1.5, 2):
        assert outcome(jitted, x, n) == outcome(call, x, n), f"with {n!r}"


@pytest.mark.parametrize(
    "call",
    [
        operator.mul,
        lambda x, n: x > n,
        lambda x, n: pyasc.maximum(x, n),
        lambda x, n: pyasc.clip(x, 0.0, n),
        lambda x, n: pyasc.where(x > 0, x, n),
        lambda x, n: pyasc.full_like(x, n),
    ],
)
def test_a_number_that_only_meets_tensors_stays_an_argument(call: Callable[[Any, Any], Any]) -> None:
    jitted: Any = pyasc.jit(lambda x, n: call(x, n))
    for n in (1.5, 2.5, 3.5):
        jitted(operand("float32"), n)
    assert jitted.cache_info()[:2] == (2, 1)
