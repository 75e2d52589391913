"""What is tried on a backend, in order: a check raises where an answer is wrong, and may measure."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import pyasc

from ..lazy.evaluate import backend as backend_of
from ..profiler import marker
from . import measures, op_table
from .check import EXPECTED, Check, Failure, Mismatch, Outcome, compare, failure
from .op_table import Trial

BATCH = 12  # trials evaluated together, so that their kernels compile side by side


def checks(backend: str, full: bool) -> list[Check]:
    """Everything to try on a backend; those that may be left out come last."""
    found = [
        Check("launches", "first kernel", measures.first_kernel, timed=True),
        Check("launches", "runs where it should", _placed),
        *(Check("kernels", name, run) for name, run in KERNELS.items()),
        *(
            Check("products", f"{dtype} {m}×{k}×{n}", _product(dtype, m, k, n))
            for dtype in ("float16", "bfloat16", "float32", "int8")
            for m, k, n in (((16, 16, 16), (67, 45, 33), (256, 256, 256)) if full else ((67, 45, 33),))
        ),
        Check("answers", "special values", _special_values),
        Check("answers", "writes through overlapping views", _overlap),
        Check("answers", "an index outside its axis is reported", _bad_index),
        *measures.copies(backend, full),
        *measures.launches(backend),
        Check("memory", "all of it comes back", _memory),
    ]
    batches = op_table.batches(full, BATCH)
    return [
        *found,
        *(Check("op table", str(b[0]) + " …", _batch(b), len(b), optional=not full) for b in batches),
    ]


# --- the op table -----------------------------------------------------------------------------------------


def _batch(trials: Sequence[Trial]) -> Callable[[str, Outcome], None]:
    def run(backend: str, outcome: Outcome) -> None:
        try:
            results = _results(trials, backend)
        except Exception:  # which of them it was, shows one by one
            for trial in trials:
                try:
                    (result,) = _results([trial], backend)
                except Exception as error:
                    outcome.failures.append(failure(str(trial), error))
                else:
                    outcome.failures += _differences(trial, result, backend)
            return
        for trial, result in zip(trials, results, strict=True):
            outcome.failures += _differences(trial, result, backend)

    return run


def _results(trials: Sequence[Trial], backend: str) -> list[list[Any]]:
    """What some calls give on a backend, recorded together."""
    with pyasc.backend(backend):
        made = []
        for trial in trials:
            stored = op_table.operands(trial.entry, trial.case, trial.dtype, trial.layout)
            made.append(
                trial.case.call(
                    trial.entry.function,
                    [
                        op_table.seen(pyasc.array(a), o, trial.layout, pyasc.broadcast_to)
                        if isinstance(o, tuple)
                        else a
                        for a, o in zip(stored, trial.case.operands, strict=True)
                    ],
                )
            )
        pyasc.sync()
        return [op_table.outputs(result) for result in made]


def _differences(trial: Trial, given: list[Any], backend: str) -> Iterator[Failure]:
    """Where results differ from NumPy's, or on another backend than the CPU from the CPU's."""
    entry = trial.entry
    stored = op_table.operands(entry, trial.case, trial.dtype, trial.layout)
    arrays = [
        op_table.seen(a, o, trial.layout, np.broadcast_to) if isinstance(o, tuple) else a
        for a, o in zip(stored, trial.case.operands, strict=True)
    ]
    if backend == "cpu" and entry.reference is not None:
        expected, ulp = op_table.reference(entry, trial.case, arrays), entry.ulp
        scale = op_table.magnitude(arrays) if ulp and entry.primitive is None else 0.0
    else:
        with marker(EXPECTED):
            (expected,), ulp = _results([trial], "cpu"), -1.0
        numeric = [a for a in arrays if isinstance(a, np.ndarray) and a.dtype.kind in "iufbV"]
        scale = op_table.magnitude(numeric) if entry.primitive is None else 0.0
    if len(given) != len(expected):
        yield Failure(str(trial), "Mismatch", f"expected {len(expected)} results, given {len(given)}")
        return
    for one, other in zip(given, expected, strict=True):
        allowed = op_table.chip_ulp(entry, one.dtype) if ulp < 0 else ulp
        if found := op_table.difference(one, other, allowed, scale):
            yield Failure(str(trial), "Mismatch", found)


# --- launches and kernels written by hand -----------------------------------------------------------------


def _placed(backend: str, outcome: Outcome) -> None:
    x = pyasc.asarray(np.ones(1000, np.float32))
    runs_on = [kernel.backend for kernel in pyasc.explain(x * 2 + 1).kernels]
    name = backend_of(backend).name
    if runs_on != [name]:
        raise Mismatch(f"expected one kernel on {name}, given {runs_on}")


def _random(*shape: int) -> Any:
    return np.random.default_rng(shape).standard_normal(shape, np.float32)


def _axpy(backend: str, outcome: Outcome) -> None:
    from .kernels import axpy

    x, y = _random(1003), _random(1003)
    out = pyasc.empty(1003)
    axpy(out, pyasc.asarray(x), pyasc.asarray(y), 2.0)
    compare(out, 2 * x + y, 2, 4)


def _edges(backend: str, outcome: Outcome) -> None:
    from .kernels import edges

    x = _random(37, 41)
    out = pyasc.zeros((37, 41))
    edges(out, pyasc.asarray(x))
    expected = np.zeros_like(x)
    expected[1:-1, 1:-1] = abs(x[:-2, 1:-1] - x[2:, 1:-1]) + abs(x[1:-1, :-2] - x[1:-1, 2:])
    compare(out, expected, 2, 4)


def _block_sums(backend: str, outcome: Outcome) -> None:
    from .kernels import BLOCK, block_sums

    x = _random(4 * BLOCK)
    out = pyasc.empty(4)
    block_sums[4, BLOCK](out, pyasc.asarray(x))
    compare(out, x.reshape(4, BLOCK).sum(1), BLOCK, 4)


def _histogram(backend: str, outcome: Outcome) -> None:
    from .kernels import histogram

    x = np.random.default_rng(0).integers(0, 16, 1000, np.int32)
    counts = pyasc.zeros(16, dtype=pyasc.int32)
    histogram[x.size](counts, pyasc.asarray(x))
    compare(counts, np.bincount(x, minlength=16))


def _tiled(backend: str, outcome: Outcome) -> None:
    from .kernels import tiled_relu

    n = 10_001
    a, b = _random(n), _random(n, 1)[:, 0].copy()
    out = pyasc.empty(n)
    tiled_relu(out, pyasc.asarray(a), pyasc.asarray(b), n)
    compare(out, np.maximum(a + b, 0))


def _tiled_product(backend: str, outcome: Outcome) -> None:
    from .kernels import tiled_product

    m, n, k = 67, 45, 33
    a, b = _random(m, k).astype(np.float16), _random(k, n).astype(np.float16)
    out = pyasc.empty((m, n))
    tiled_product(out, pyasc.asarray(a), pyasc.asarray(b), m, n, k)
    compare(out, a.astype(np.float32) @ b.astype(np.float32), 4 * k, 4)


KERNELS: dict[str, Callable[[str, Outcome], None]] = {
    "threads": _axpy,
    "two axes and a condition": _edges,
    "shared memory and a barrier": _block_sums,
    "atomic updates": _histogram,
    "tiles": _tiled,
    "product in tiles": _tiled_product,
}


# --- answers ----------------------------------------------------------------------------------------------


def _product(dtype: str, m: int, k: int, n: int) -> Callable[[str, Outcome], None]:
    def run(backend: str, outcome: Outcome) -> None:
        rng = np.random.default_rng(0)
        kind = op_table.dtype_of(dtype)
        if op_table.is_float(kind):
            a, b = rng.standard_normal((m, k)).astype(kind), rng.standard_normal((k, n)).astype(kind)
        else:
            a, b = (rng.integers(-9, 9, shape).astype(kind) for shape in ((m, k), (k, n)))
        given = np.asarray(pyasc.asarray(a) @ pyasc.asarray(b))
        if op_table.is_float(kind):
            # The operands of float32 may be cut to what the cube multiplies; the sum is in float32.
            compare(given, a.astype(float) @ b.astype(float), 4, float(np.sqrt(k)) * 4)
        else:
            compare(given, a @ b)

    return run


def _special_values(backend: str, outcome: Outcome) -> None:
    special = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-40, 3e38, -3e38] * 5, np.float32)
    x = pyasc.asarray(special)
    ones = pyasc.ones(100_000, dtype=pyasc.float16)
    whole = np.array([-128, 127, 0, -1] * 9, np.int8)
    with np.errstate(all="ignore"):
        half = special.astype(np.float16)
        pairs = [
            (pyasc.maximum(x, 0.0), np.maximum(special, 0)),
            (x * 2, special * np.float32(2)),
            (pyasc.isnan(x), np.isnan(special)),
            (x.max(), special.max()),
            (x.astype(pyasc.float16), half),
            (x.astype(pyasc.float16) * 2, half * np.float16(2)),
            (ones.sum(), np.array(np.inf, np.float16)),
            (ones.mean(), np.array(1, np.float16)),
            (pyasc.asarray(whole) + pyasc.asarray(whole), whole + whole),
        ]
    pyasc.sync(*(given for given, _ in pairs))  # their kernels are compiled side by side
    for given, expected in pairs:
        compare(given, expected)


def _overlap(backend: str, outcome: Outcome) -> None:
    start = np.arange(1000, dtype=np.float32)
    x, expected = pyasc.array(start), start.copy()
    x[1:] += x[:-1]
    expected[1:] += expected[:-1].copy()
    compare(x, expected)
    square, expected = pyasc.array(start.reshape(20, 50)[:, :20]), start.reshape(20, 50)[:, :20].copy()
    square += square.T
    compare(square, expected + expected.T)


def _bad_index(backend: str, outcome: Outcome) -> None:
    x = pyasc.asarray(np.arange(10, dtype=np.float32))
    before = x + 1
    pyasc.sync(before)
    index = pyasc.asarray(np.array([1, 2, 10, 3], np.int32))
    try:
        np.asarray(x[index * 1])
    except IndexError as error:
        if "10" not in str(error):
            raise Mismatch(f"expected the index 10 in the message, given {error}") from None
    else:
        raise Mismatch("expected an IndexError, given none")
    compare(before, np.arange(1, 11, dtype=np.float32))
    compare(x * 2, np.arange(0, 20, 2, dtype=np.float32))


def _memory(backend: str, outcome: Outcome) -> None:
    gc.collect()
    pyasc.sync()
    before = pyasc.memory_stats()["used"]
    for n in range(20):
        x = pyasc.ones((100, 100 + n)) + n
        compare(x.sum(axis=1)[0], np.float32((n + 1) * (100 + n)), 4)
    del x
    gc.collect()
    after = pyasc.memory_stats()["used"]
    if after > before:
        raise Mismatch(f"expected {before} bytes in use as at the start, given {after}")
