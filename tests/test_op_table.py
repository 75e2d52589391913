"""Every operation of the table against NumPy: dtypes × shapes × layouts, then run again, then unfused.

Nothing here names an operation: what is in the table is tested.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pyasc
from pyasc.ops.registry import Operation, operations
from pyasc.selftest import op_table
from pyasc.selftest.op_table import (
    LAYOUTS,
    difference,
    dtypes_of,
    elementwise,
    elementwise_case,
    is_float,
    label,
    magnitude,
    operands,
    outputs,
    reference,
    seen,
    stored,
    values,
)

# What other tests take from here.
__all__ = ["is_float", "stored", "values"]

LAST = (*range(1, 34), 255, 257, 1023)

TESTED = op_table.tested()
ELEMENTWISE = elementwise()


def turn(choices: Any, *key: Any, count: int) -> list[Any]:
    """A few of the choices, others for another key: together the tests go through all of them."""
    start = zlib.crc32(repr(key).encode())
    return [choices[(start + k * (len(choices) // count or 1)) % len(choices)] for k in range(count)]


def some_dtypes(entry: Operation) -> list[np.dtype[Any]]:
    """Bools, every float, and two of the whole-number dtypes."""
    every = dtypes_of(entry)
    whole = [d for d in every if d.kind in "iu"]
    return [d for d in every if d.kind not in "iu"] + (turn(whole, label(entry), count=2) if whole else [])


def each(
    entries: list[Operation], dtypes: Callable[[Operation], list[np.dtype[Any]]] = dtypes_of
) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        ("entry", "dtype"),
        [pytest.param(e, d, id=f"{label(e)}-{d.name}") for e in entries for d in dtypes(e)],
    )


# --- comparison -----------------------------------------------------------------------------------
def assert_close(given: Any, expected: Any, ulp: float, scale: float = 0.0) -> None:
    """Equal, as far as `difference` says."""
    found = difference(given, expected, ulp, scale)
    if found:
        pytest.fail(found)


def bits(array: Any) -> bytes:
    return np.ascontiguousarray(array).tobytes()


def expected_dtype(given: np.dtype[Any], reference: np.dtype[Any], operand: np.dtype[Any]) -> bool:
    """NumPy's dtype, save that whole numbers become the default float; bfloat16 stays what it is."""
    if given == reference:
        return True
    if operand.kind in "biu":
        return given == np.float32 and is_float(reference)
    return operand.kind == "V" and given == operand


# --- the tests ------------------------------------------------------------------------------------
def check(entry: Operation, case: Any, dtype: np.dtype[Any], layout: str, twice: bool = True) -> None:
    arrays: list[Any] = []
    tensors: list[Any] = []
    for base, operand in zip(operands(entry, case, dtype, layout), case.operands, strict=True):
        if not isinstance(operand, tuple):
            arrays.append(operand)
            tensors.append(operand)
            continue
        arrays.append(seen(base, operand, layout, np.broadcast_to))
        tensors.append(seen(pyasc.array(base), operand, layout, pyasc.broadcast_to))
    expected = reference(entry, case, arrays)
    scale = magnitude(arrays) if entry.ulp and entry not in ELEMENTWISE else 0.0

    first = outputs(case.call(entry.function, tensors))
    assert len(first) == len(expected)
    for given_, expected_ in zip(first, expected, strict=True):
        assert_close(given_, expected_, entry.ulp, scale)
        if not entry.ulp:
            assert expected_dtype(given_.dtype, expected_.dtype, dtype), (
                f"{given_.dtype} against NumPy's {expected_.dtype}"
            )
    if twice:
        again = outputs(case.call(entry.function, tensors))
        assert [bits(a) for a in again] == [bits(a) for a in first], (
            "the cached kernel gave other bits than the first run"
        )
        with pyasc.eager():
            unfused = outputs(case.call(entry.function, tensors))
        for given_, expected_ in zip(unfused, first, strict=True):
            assert_close(given_, expected_, entry.ulp, scale)
    for tensor, array in zip(tensors, arrays, strict=True):
        if tensor is not array:
            assert bits(np.asarray(tensor)) == bits(array), "the operation changed its operand"


@each(TESTED, some_dtypes)
def test_cases(entry: Operation, dtype: np.dtype[Any]) -> None:
    """Views lower in the same way whatever is computed of them: a layout for every other dtype."""
    for n, case in enumerate(entry.cases):
        check(entry, case, dtype, "contiguous")
        (layout,) = turn(
            (*LAYOUTS[1:], *["contiguous"] * len(LAYOUTS[1:])), label(entry), dtype.name, n, count=1
        )
        if layout != "contiguous":
            check(entry, case, dtype, layout, twice=False)


@pytest.mark.full
@each(TESTED)
def test_cases_in_every_layout(entry: Operation, dtype: np.dtype[Any]) -> None:
    for case in entry.cases:
        for layout in LAYOUTS:
            check(entry, case, dtype, layout)


@each(ELEMENTWISE)
def test_elementwise_shapes(entry: Operation, dtype: np.dtype[Any]) -> None:
    """Tails, a scalar, nothing, and enough elements for every thread."""
    tails = [(n,) for n in turn(LAST, label(entry), dtype.name, count=5)]
    for shape in [*tails, (), (0,), (3, 0), (2, 3, 5), (150_001,)]:
        check(entry, elementwise_case(entry, shape), dtype, "contiguous", twice=len(shape) == 1)


@each(ELEMENTWISE, some_dtypes)
@settings(max_examples=settings().max_examples // 5)
@given(data=st.data())
def test_elementwise_layouts(entry: Operation, dtype: np.dtype[Any], data: st.DataObject) -> None:
    last = data.draw(st.sampled_from(LAST))
    front = data.draw(st.lists(st.integers(1, 4), max_size=2))
    layout = data.draw(st.sampled_from(LAYOUTS))
    check(entry, elementwise_case(entry, (*front, last)), dtype, layout, twice=False)


@pytest.mark.full
@each(ELEMENTWISE)
def test_every_last_dimension(entry: Operation, dtype: np.dtype[Any]) -> None:
    for n in LAST:
        for layout in LAYOUTS:
            check(entry, elementwise_case(entry, (3, n)), dtype, layout)


@pytest.mark.parametrize("entry", [pytest.param(o, id=label(o)) for o in operations()])
def test_declaration(entry: Operation) -> None:
    """A public name that is there, a docstring that says what it does, and something that tests it."""
    namespace = getattr(pyasc, entry.namespace) if entry.namespace else pyasc
    for name in entry.names if entry.public else ():
        assert getattr(namespace, name) is entry.function
    for name in entry.methods:
        assert callable(getattr(pyasc.Tensor, name)) or isinstance(getattr(pyasc.Tensor, name), property)
    first = entry.doc.strip().split("\n\n")[0]
    assert first.endswith("."), "a docstring begins with a sentence"
    if entry.reference is not None:
        assert entry.cases or entry.primitive is not None, "a reference without a case is not tested"
    if entry.operator:
        assert hasattr(pyasc.Tensor, f"__{entry.operator}__")
