"""The op table on the simulated chip: what the CPU gives, and nothing that a check would find.

Nothing here names an operation: what is in the table is tested. Elementwise operations are run many at a
time, so that few kernels have to be compiled; everything else by its cases.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from test_op_table import (
    ELEMENTWISE,
    LAYOUTS,
    TESTED,
    assert_close,
    dtypes_of,
    is_float,
    label,
    magnitude,
    outputs,
    seen,
    stored,
    values,
)

import pyasc
from pyasc.ops.registry import Operation

# Units in the last place that an operation of the chip's own may be away from the CPU's, beside what the
# table allows: exp, ln, sqrt and division of the vector unit are within one each, and formulas have several.
ULP = 4
# Sums of many terms are taken in another order.
SUMS = 8
BATCH = 8
SIZES = (1, 8, 17, 33)
EVERY_SIZE = (*range(1, 34), 255, 257, 1023)
DTYPES = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "float16", "bfloat16", "float32")
USUAL = ("bool", "int8", "uint16", "int32", "float16", "bfloat16", "float32")
FEW_DTYPES = ("int32", "float16", "float32")


@pytest.fixture(autouse=True)
def on_the_cpu_again() -> Iterator[None]:
    yield
    pyasc.config.backend = "cpu"


def dtype_of(name: str) -> np.dtype[Any]:
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def on_cpu_and_sim(call: Any, arrays: list[Any]) -> tuple[list[Any], list[Any]]:
    """The results of a call on tensors, on either backend."""
    found = []
    for name in ("cpu", "sim"):
        with pyasc.backend(name):
            tensors = [pyasc.array(a) if isinstance(a, np.ndarray) else a for a in arrays]
            found.append(outputs(call(tensors)))
    return found[0], found[1]


def allowed(entry: Operation, dtype: np.dtype[Any]) -> float:
    """Whole numbers and bools are equal; floats within a few units."""
    return max(entry.ulp, 1.0) * ULP if is_float(dtype) else 0.0


# --- elementwise ---------------------------------------------------------------------------------------


def operands(entry: Operation, dtype: np.dtype[Any], size: int) -> list[Any]:
    assert entry.primitive is not None
    seed = zlib.crc32(f"{label(entry)} {dtype} {size}".encode())
    return [values(entry, (size,), dtype, seed + n) for n in range(entry.primitive.arity)]


def batches(dtype: str) -> list[list[Operation]]:
    entries = [e for e in ELEMENTWISE if dtype_of(dtype) in dtypes_of(e)]
    return [entries[n : n + BATCH] for n in range(0, len(entries), BATCH)]


def check_batch(entries: list[Operation], name: str, size: int) -> None:
    """The operations recorded together, each on operands of its own, and evaluated at once."""
    dtype = dtype_of(name)
    given = [operands(e, dtype, size) for e in entries]
    results = []
    for backend in ("cpu", "sim"):
        with pyasc.backend(backend):
            made = [e.function(*map(pyasc.array, a)) for e, a in zip(entries, given, strict=True)]
            pyasc.sync(*made)
            results.append([np.asarray(m) for m in made])
    for entry, expected, got in zip(entries, *results, strict=True):
        assert got.dtype == expected.dtype, f"{label(entry)}: {got.dtype} against {expected.dtype}"
        try:
            assert_close(got, expected, allowed(entry, got.dtype))
        except BaseException as error:
            raise AssertionError(f"{label(entry)} of {name}[{size}]: {error}") from None


def every_batch(names: tuple[str, ...]) -> pytest.MarkDecorator:
    found = [
        pytest.param(entries, name, id=f"{name}-{n}")
        for name in names
        for n, entries in enumerate(batches(name))
    ]
    return pytest.mark.parametrize(("entries", "name"), found)


@every_batch(USUAL)
def test_elementwise(entries: list[Operation], name: str) -> None:
    check_batch(entries, name, SIZES[zlib.crc32(name.encode()) % len(SIZES)])


@pytest.mark.full
@pytest.mark.parametrize("size", EVERY_SIZE)
@every_batch(DTYPES)
def test_elementwise_tails(entries: list[Operation], name: str, size: int) -> None:
    check_batch(entries, name, size)


@pytest.mark.parametrize("size", EVERY_SIZE)
def test_tails(size: int) -> None:
    """One kernel of several dtypes, at each size: nothing beside it is touched, which the checks see."""
    rng = np.random.default_rng(size)
    f, h = rng.normal(size=(3, size)).astype(np.float32), rng.normal(size=(3, size)).astype(np.float16)
    b, i = rng.random((3, size)) < 0.5, rng.integers(-99, 99, (3, size)).astype(np.int32)

    def call(tensors: list[Any]) -> Any:
        f, h, b, i = tensors
        return pyasc.where(b, f * 2, f), h + 1, ~b, i - 3

    for expected, got in zip(*on_cpu_and_sim(call, [f, h, b, i]), strict=True):
        np.testing.assert_array_equal(got, expected)


# --- everything else -------------------------------------------------------------------------------------

REST = [e for e in TESTED if e not in ELEMENTWISE]


def check_case(entry: Operation, case: Any, dtype: np.dtype[Any], layout: str) -> None:
    seed = zlib.crc32(f"{label(entry)} {case.operands} {layout}".encode())
    results = []
    arrays = [
        values(entry, stored(o, layout), dtype, seed + n) if isinstance(o, tuple) else o
        for n, o in enumerate(case.operands)
    ]
    for backend in ("cpu", "sim"):
        with pyasc.backend(backend):
            tensors = [
                seen(pyasc.array(a), o, layout, pyasc.broadcast_to) if isinstance(o, tuple) else a
                for a, o in zip(arrays, case.operands, strict=True)
            ]
            results.append(outputs(case.call(entry.function, tensors)))
    scale = magnitude([a for a in arrays if isinstance(a, np.ndarray) and a.dtype.kind in "iufbV"])
    for expected, got in zip(*results, strict=True):
        assert got.dtype == expected.dtype
        assert_close(got, expected, allowed(entry, got.dtype) * SUMS, scale)


def some_layout(entry: Operation, name: str) -> str:
    return LAYOUTS[zlib.crc32(f"{label(entry)} {name}".encode()) % len(LAYOUTS)]


@pytest.mark.parametrize("entry", [pytest.param(e, id=label(e)) for e in REST])
def test_cases(entry: Operation) -> None:
    names = [n for n in FEW_DTYPES if dtype_of(n) in dtypes_of(entry)]
    if not names or not entry.cases:
        pytest.skip("of no dtype of the chip's")
    name = names[zlib.crc32(label(entry).encode()) % len(names)]
    check_case(entry, entry.cases[0], dtype_of(name), some_layout(entry, name))


@pytest.mark.full
@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("entry", [pytest.param(e, id=label(e)) for e in REST])
def test_every_case(entry: Operation, name: str) -> None:
    if dtype_of(name) not in dtypes_of(entry):
        pytest.skip("not of this dtype")
    for case in entry.cases:
        for layout in LAYOUTS:
            check_case(entry, case, dtype_of(name), layout)
