"""The op table run on two backends, and their results compared.

Nothing here names an operation: what is in the table is tested. Elementwise operations are run many at a
time on shared operands, so that each kernel has several of them; everything else by its cases.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from itertools import groupby
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from test_op_table import (
    ELEMENTWISE,
    LAYOUTS,
    TESTED,
    dtypes_of,
    label,
    magnitude,
    outputs,
    seen,
    stored,
    values,
)

import pyasc
from pyasc.ops.registry import Operation

BATCH = 8
SIZES = (1, 8, 17, 33)
EVERY_SIZE = (*range(1, 34), 255, 257, 1023)
DTYPES = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "float16", "bfloat16", "float32")
USUAL = ("bool", "int8", "uint16", "int32", "float16", "bfloat16", "float32")
FEW_DTYPES = ("int32", "float16", "float32")
REST = [e for e in TESTED if e not in ELEMENTWISE]

Array = np.ndarray[Any, Any]
Compare = Callable[[Operation, Array, Array, float], None]
"""What is said of an operation's result, given and expected, where terms are of a magnitude."""


def dtype_of(name: str) -> np.dtype[Any]:
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def each_rest() -> pytest.MarkDecorator:
    return pytest.mark.parametrize("entry", [pytest.param(e, id=label(e)) for e in REST])


# --- elementwise ---------------------------------------------------------------------------------------


def _arity(entry: Operation) -> int:
    assert entry.primitive is not None
    return entry.primitive.arity


def batches(dtype: str) -> list[list[Operation]]:
    """Operations on values of one domain: they share operands, and so a kernel."""
    entries = sorted((e for e in ELEMENTWISE if dtype_of(dtype) in dtypes_of(e)), key=lambda e: e.domain)
    alike = [list(group) for _, group in groupby(entries, lambda e: e.domain)]
    return [group[n : n + BATCH] for group in alike for n in range(0, len(group), BATCH)]


def every_batch(names: tuple[str, ...]) -> pytest.MarkDecorator:
    found = [
        pytest.param(entries, name, id=f"{name}-{n}")
        for name in names
        for n, entries in enumerate(batches(name))
    ]
    return pytest.mark.parametrize(("entries", "name"), found)


def seldom(mark: pytest.MarkDecorator, one_in: int) -> pytest.MarkDecorator:
    """All but one in so many of the parameters only with ``--full``."""
    names, parameters = mark.args
    for n, one in enumerate(parameters):
        if zlib.crc32(one.id.encode()) % one_in:
            parameters[n] = pytest.param(*one.values, id=one.id, marks=pytest.mark.full)
    return pytest.mark.parametrize(names, parameters)


def check_batch(
    backends: tuple[str, str], entries: list[Operation], name: str, size: int, compare: Compare
) -> None:
    """The operations recorded together and evaluated at once."""
    dtype = dtype_of(name)
    widest = max(entries, key=_arity)
    seed = zlib.crc32(f"{label(widest)} {dtype} {size}".encode())
    operands = [values(widest, (size,), dtype, seed + n) for n in range(_arity(widest))]
    results = []
    for backend in backends:
        with pyasc.backend(backend):
            tensors = [pyasc.array(a) for a in operands]
            made = [e.function(*tensors[: _arity(e)]) for e in entries]
            pyasc.sync(*made)
            results.append([np.asarray(m) for m in made])
    for entry, expected, given in zip(entries, *results, strict=True):
        assert given.dtype == expected.dtype, f"{label(entry)}: {given.dtype} against {expected.dtype}"
        try:
            compare(entry, given, expected, 0.0)
        except BaseException as error:
            raise AssertionError(f"{label(entry)} of {name}[{size}]: {error}") from None


def usual_size(name: str) -> int:
    return SIZES[zlib.crc32(name.encode()) % len(SIZES)]


def check_tails(backends: tuple[str, str], size: int) -> None:
    """One kernel of several dtypes: nothing beside it is touched, which the simulator's checks see."""
    rng = np.random.default_rng(size)
    f, h = rng.normal(size=(3, size)).astype(np.float32), rng.normal(size=(3, size)).astype(np.float16)
    b, i = rng.random((3, size)) < 0.5, rng.integers(-99, 99, (3, size)).astype(np.int32)
    found = []
    for backend in backends:
        with pyasc.backend(backend):
            x, y, mask, k = map(pyasc.array, (f, h, b, i))
            found.append(outputs((pyasc.where(mask, x * 2, x), y + 1, ~mask, k - 3)))
    for expected, given in zip(*found, strict=True):
        np.testing.assert_array_equal(given, expected)


# --- everything else -------------------------------------------------------------------------------------


def check_case(
    backends: tuple[str, str],
    entry: Operation,
    case: Any,
    dtype: np.dtype[Any],
    layout: str,
    compare: Compare,
) -> None:
    seed = zlib.crc32(f"{label(entry)} {case.operands} {layout}".encode())
    results = []
    arrays = [
        values(entry, stored(o, layout), dtype, seed + n) if isinstance(o, tuple) else o
        for n, o in enumerate(case.operands)
    ]
    for backend in backends:
        with pyasc.backend(backend):
            tensors = [
                seen(pyasc.array(a), o, layout, pyasc.broadcast_to) if isinstance(o, tuple) else a
                for a, o in zip(arrays, case.operands, strict=True)
            ]
            results.append(outputs(case.call(entry.function, tensors)))
    scale = magnitude([a for a in arrays if isinstance(a, np.ndarray) and a.dtype.kind in "iufbV"])
    for expected, given in zip(*results, strict=True):
        assert given.dtype == expected.dtype
        compare(entry, given, expected, scale)


def check_first_case(backends: tuple[str, str], entry: Operation, compare: Compare) -> None:
    """In one dtype and one layout: together the entries go through all of them."""
    names = [n for n in FEW_DTYPES if dtype_of(n) in dtypes_of(entry)]
    if not names or not entry.cases:
        pytest.skip("of no dtype of the chip's")
    name = names[zlib.crc32(label(entry).encode()) % len(names)]
    layout = LAYOUTS[zlib.crc32(f"{label(entry)} {name}".encode()) % len(LAYOUTS)]
    check_case(backends, entry, entry.cases[0], dtype_of(name), layout, compare)


def check_every_case(backends: tuple[str, str], entry: Operation, name: str, compare: Compare) -> None:
    if dtype_of(name) not in dtypes_of(entry):
        pytest.skip("not of this dtype")
    for case in entry.cases:
        for layout in LAYOUTS:
            check_case(backends, entry, case, dtype_of(name), layout, compare)
