"""Every operation of the table against NumPy: dtypes × shapes × layouts, then run again, then unfused.

Nothing here names an operation: what is in the table is tested.
"""

from __future__ import annotations

import math
import warnings
import zlib
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pyasc
from pyasc.ops.primitives import Kind
from pyasc.ops.registry import Operation, operations

INTEGERS = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
OF_KIND = {
    "b": ("bool",),
    "i": INTEGERS,
    "u": UNSIGNED,
    "f": ("float16", "float32", "float64"),
    "V": ("bfloat16",),
}
LAYOUTS = ("contiguous", "transposed", "step", "reversed", "broadcast", "offset")
LAST = (*range(1, 34), 255, 257, 1023)

TESTED = [o for o in operations() if o.cases and o.reference is not None]
ELEMENTWISE = [o for o in operations() if o.primitive is not None and o.primitive.kind is Kind.ELEMENTWISE]


def label(entry: Operation) -> str:
    return f"{entry.namespace}.{entry.name}".lstrip(".")


def dtypes_of(entry: Operation) -> list[np.dtype[Any]]:
    names = [name for kind in entry.dtypes for name in OF_KIND[kind]]
    return [np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name) for name in names]


def turn(choices: Any, *key: Any, count: int) -> list[Any]:
    """A few of the choices, others for another key: together the tests go through all of them."""
    start = zlib.crc32(repr(key).encode())
    return [choices[(start + k * (len(choices) // count or 1)) % len(choices)] for k in range(count)]


def some_dtypes(entry: Operation) -> list[np.dtype[Any]]:
    """Bools, every float, and three of the whole-number dtypes."""
    every = dtypes_of(entry)
    whole = [d for d in every if d.kind in "iu"]
    return [d for d in every if d.kind not in "iu"] + (turn(whole, label(entry), count=3) if whole else [])


def each(
    entries: list[Operation], dtypes: Callable[[Operation], list[np.dtype[Any]]] = dtypes_of
) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        ("entry", "dtype"),
        [pytest.param(e, d, id=f"{label(e)}-{d.name}") for e in entries for d in dtypes(e)],
    )


# --- arrays with a layout -------------------------------------------------------------------------
def values(entry: Operation, shape: tuple[int, ...], dtype: np.dtype[Any], seed: int) -> Any:
    """Random values in the domain; whole numbers take the full width where the domain is the default one."""
    rng = np.random.default_rng(seed)
    low, high = entry.domain
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if entry.domain == Operation.domain:
            wide = rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
            near = rng.integers(max(limits.min, -9), 9, shape, dtype, endpoint=True)
            return np.where(rng.random(shape) < 0.3, wide, near)
        return rng.integers(
            max(limits.min, math.ceil(low)), min(limits.max, math.floor(high)), shape, dtype, True
        )
    return rng.uniform(low, high, shape).astype(dtype)


def stored(shape: tuple[int, ...], layout: str) -> tuple[int, ...]:
    """The shape of the array in memory whose view has this shape."""
    if layout == "transposed":
        return shape[::-1]
    if not shape:
        return (3,)
    *front, last = shape
    return (*front, {"step": 2 * last, "broadcast": min(last, 1), "offset": last + 3}.get(layout, last))


def seen(array: Any, shape: tuple[int, ...], layout: str, broadcast_to: Callable[..., Any]) -> Any:
    """The view of `array`, which has shape ``stored(shape, layout)``."""
    if layout == "transposed":
        return array.T
    if not shape:
        return array[1]
    if layout == "broadcast":
        return broadcast_to(array, shape)
    cut = {"step": slice(None, None, 2), "reversed": slice(None, None, -1), "offset": slice(3, None)}
    return array[..., cut[layout]] if layout in cut else array


# --- comparison -----------------------------------------------------------------------------------
def ordered(x: Any) -> Any:
    """The bits of floats as integers in the order of the values."""
    width = f"i{x.dtype.itemsize}"
    raw = np.ascontiguousarray(x).view(width).astype(np.int64)
    return np.where(raw < 0, -(raw & np.iinfo(width).max), raw)


def is_float(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in "fV"


def apart(a: Any, b: Any) -> Any:
    """Units in the last place between floats of one dtype."""
    p, q = ordered(a).view(np.uint64), ordered(b).view(np.uint64)
    return np.where(ordered(a) > ordered(b), p - q, q - p)


def assert_close(given: Any, expected: Any, ulp: float, scale: float = 0.0) -> None:
    """Equal, or within `ulp` units in the last place of the given dtype; NaN equals NaN, and −0.0 is 0.0.

    Where terms cancel, the units are those of `scale`, the magnitude of the terms.
    """
    assert given.shape == expected.shape, f"shape: expected {expected.shape}, given {given.shape}"
    with np.errstate(all="ignore"):
        expected = expected.astype(given.dtype)
        if not is_float(given.dtype):
            np.testing.assert_array_equal(given, expected)
            return
        same = np.isnan(given) & np.isnan(expected)
        same |= np.ascontiguousarray(given) == np.ascontiguousarray(expected)
        if ulp:
            epsilon = float(ml_dtypes.finfo(given.dtype).eps)
            same |= (apart(given, expected) <= ulp) & (np.isnan(given) == np.isnan(expected))
            same |= np.abs(given.astype(float) - expected.astype(float)) <= ulp * epsilon * scale
    if not np.all(same):
        at = tuple(int(k[0]) for k in np.nonzero(~np.atleast_1d(same)))
        wrong = int(np.sum(~np.atleast_1d(same)))
        pytest.fail(
            f"{wrong} of {given.size} differ, first at {at}: "
            f"expected {np.atleast_1d(expected)[at]!r}, given {np.atleast_1d(given)[at]!r}, {ulp} ulp allowed"
        )


def bits(array: Any) -> bytes:
    return np.ascontiguousarray(array).tobytes()


def outputs(result: Any) -> list[Any]:
    """The arrays of a result, which may be several or a Python value."""
    if isinstance(result, (tuple, list)):
        return [np.asarray(r) for r in result]
    return [np.asarray(result)]


def expected_dtype(given: np.dtype[Any], reference: np.dtype[Any], operand: np.dtype[Any]) -> bool:
    """NumPy's dtype, save that whole numbers become the default float; bfloat16 stays what it is."""
    if given == reference:
        return True
    if operand.kind in "biu":
        return given == np.float32 and is_float(reference)
    return operand.kind == "V" and given == operand


# --- the tests ------------------------------------------------------------------------------------
def reference(entry: Operation, case: Any, arrays: list[Any]) -> list[Any]:
    """NumPy's answer; where units in the last place are allowed, NumPy's answer in float64."""
    assert entry.reference is not None
    if entry.ulp:
        arrays = [
            a.astype(np.float64) if is_float(np.asarray(a).dtype) and np.asarray(a).dtype.itemsize < 8 else a
            for a in arrays
        ]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # NumPy's, of means over nothing
        return outputs(case.call(entry.reference, arrays))


def magnitude(arrays: list[Any]) -> float:
    """The largest finite absolute value."""
    values = [np.abs(np.asarray(a, dtype=float)[np.isfinite(np.asarray(a, dtype=float))]) for a in arrays]
    return max((float(v.max()) for v in values if v.size), default=0.0)


def check(entry: Operation, case: Any, dtype: np.dtype[Any], layout: str, twice: bool = True) -> None:
    seed = zlib.crc32(f"{label(entry)} {case.operands} {layout}".encode())
    arrays: list[Any] = []
    tensors: list[Any] = []
    for n, operand in enumerate(case.operands):
        if not isinstance(operand, tuple):
            arrays.append(operand)
            tensors.append(operand)
            continue
        base = values(entry, stored(operand, layout), dtype, seed + n)
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
    for n, case in enumerate(entry.cases):
        check(entry, case, dtype, "contiguous")
        for layout in turn(LAYOUTS[1:], label(entry), dtype.name, n, count=1):
            check(entry, case, dtype, layout, twice=False)


@pytest.mark.full
@each(TESTED)
def test_cases_in_every_layout(entry: Operation, dtype: np.dtype[Any]) -> None:
    for case in entry.cases:
        for layout in LAYOUTS:
            check(entry, case, dtype, layout)


def elementwise_case(entry: Operation, shape: tuple[int, ...]) -> Any:
    from pyasc.ops.registry import case

    assert entry.primitive is not None
    return case(*[shape] * entry.primitive.arity)


@each(ELEMENTWISE)
def test_elementwise_shapes(entry: Operation, dtype: np.dtype[Any]) -> None:
    """Tails, a scalar, nothing, and enough elements for every thread."""
    tails = [(n,) for n in turn(LAST, label(entry), dtype.name, count=5)]
    for shape in [*tails, (), (0,), (3, 0), (2, 3, 5), (150_001,)]:
        check(entry, elementwise_case(entry, shape), dtype, "contiguous", twice=len(shape) == 1)


@each(ELEMENTWISE)
@settings(max_examples=settings().max_examples // 8)
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
