"""The op table as calls to try: random operands of a dtype and layout, NumPy's answer, how far one is off.

Nothing here names an operation: what is in the table is tried.
"""

from __future__ import annotations

import math
import warnings
import zlib
from collections.abc import Callable
from itertools import zip_longest
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from ..ops import dtypes
from ..ops.primitives import Kind
from ..ops.registry import Case, Operation, case, operations

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
# Units in the last place that a chip's own arithmetic may be off the CPU's, beside what the table allows:
# exp, ln, sqrt and division of the vector unit are within one each, and formulas have several.
CHIP_ULP = 4
# Sums of many terms are taken in another order.
CHIP_SUMS = 8


def label(entry: Operation) -> str:
    """The operation's public name."""
    return f"{entry.namespace}.{entry.name}".lstrip(".")


def tested() -> list[Operation]:
    """Operations that have cases and a reference."""
    return [o for o in operations() if o.cases and o.reference is not None]


def elementwise() -> list[Operation]:
    """Operations that are one elementwise primitive."""
    return [o for o in operations() if o.primitive is not None and o.primitive.kind is Kind.ELEMENTWISE]


def dtype_of(name: str) -> np.dtype[Any]:
    """The dtype of a name, bfloat16 included."""
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def dtypes_of(entry: Operation) -> list[np.dtype[Any]]:
    """Every dtype that the operation is tried on."""
    return [dtype_of(name) for kind in entry.dtypes for name in OF_KIND[kind]]


def is_float(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in "fV"


# --- arrays with a layout ---------------------------------------------------------------------------------


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


def operands(entry: Operation, one: Case, dtype: np.dtype[Any], layout: str) -> list[Any]:
    """What is in memory for each operand of a case; other operands as they are."""
    seed = zlib.crc32(f"{label(entry)} {one.operands} {layout}".encode())
    return [
        values(entry, stored(operand, layout), dtype, seed + n) if isinstance(operand, tuple) else operand
        for n, operand in enumerate(one.operands)
    ]


def elementwise_case(entry: Operation, shape: tuple[int, ...]) -> Case:
    """A case of an elementwise operation at a shape."""
    assert entry.primitive is not None
    return case(*[shape] * entry.primitive.arity)


# --- answers ----------------------------------------------------------------------------------------------


def outputs(result: Any) -> list[Any]:
    """The arrays of a result, which may be several or a Python value."""
    if isinstance(result, (tuple, list)):
        return [np.asarray(r) for r in result]
    return [np.asarray(result)]


def reference(entry: Operation, one: Case, arrays: list[Any]) -> list[Any]:
    """NumPy's answer; where units in the last place are allowed, NumPy's answer in float64."""
    assert entry.reference is not None
    if entry.ulp:
        arrays = [
            a.astype(np.float64) if is_float(np.asarray(a).dtype) and np.asarray(a).dtype.itemsize < 8 else a
            for a in arrays
        ]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # NumPy's, of means over nothing
        return outputs(one.call(entry.reference, arrays))


def magnitude(arrays: list[Any]) -> float:
    """The largest finite absolute value."""
    found = [np.abs(np.asarray(a, dtype=float)[np.isfinite(np.asarray(a, dtype=float))]) for a in arrays]
    return max((float(v.max()) for v in found if v.size), default=0.0)


def ordered(x: Any) -> Any:
    """The bits of floats as integers in the order of the values."""
    width = f"i{x.dtype.itemsize}"
    raw = np.ascontiguousarray(x).view(width).astype(np.int64)
    return np.where(raw < 0, -(raw & np.iinfo(width).max), raw)


def apart(a: Any, b: Any) -> Any:
    """Units in the last place between floats of one dtype."""
    p, q = ordered(a).view(np.uint64), ordered(b).view(np.uint64)
    return np.where(ordered(a) > ordered(b), p - q, q - p)


def difference(given: Any, expected: Any, ulp: float, scale: float = 0.0) -> str:
    """How an array differs from what is expected; "" where it does not.

    Equal is within `ulp` units in the last place of the given dtype; NaN equals NaN, and −0.0 is 0.0. Where
    terms cancel, the units are those of `scale`, the magnitude of the terms. Whole numbers are equal or not.
    """
    if given.shape != expected.shape:
        return f"shape: expected {expected.shape}, given {given.shape}"
    with np.errstate(all="ignore"):
        expected = expected.astype(given.dtype)
        same = np.ascontiguousarray(given) == np.ascontiguousarray(expected)
        if is_float(given.dtype):
            same |= np.isnan(given) & np.isnan(expected)
            if ulp:
                epsilon = float(dtypes.finfo(given.dtype).eps)
                same |= (apart(given, expected) <= ulp) & (np.isnan(given) == np.isnan(expected))
                same |= np.abs(given.astype(float) - expected.astype(float)) <= ulp * epsilon * scale
    same = np.atleast_1d(same)
    if np.all(same):
        return ""
    at = tuple(int(k[0]) for k in np.nonzero(~same))
    limit = f", {ulp:g} ulp allowed" if is_float(given.dtype) else ""
    return (
        f"{int(np.sum(~same))} of {given.size} differ, first at {at}: "
        f"expected {np.atleast_1d(expected)[at]!r}, given {np.atleast_1d(given)[at]!r}{limit}"
    )


def chip_ulp(entry: Operation, dtype: np.dtype[Any]) -> float:
    """The units in the last place that a chip may be away from the CPU."""
    if not is_float(dtype):
        return 0.0
    return max(entry.ulp, 1.0) * CHIP_ULP * (1 if entry.primitive is not None else CHIP_SUMS)


# --- what is tried ----------------------------------------------------------------------------------------


class Trial(NamedTuple):
    """One call of an operation."""

    entry: Operation
    case: Case
    dtype: np.dtype[Any]
    layout: str

    def __str__(self) -> str:
        shapes = ", ".join(str(o) if isinstance(o, tuple) else "…" for o in self.case.operands)
        return f"{label(self.entry)} of {self.dtype.name} {shapes}, {self.layout}"


USUAL = ("float32", "float16", "int32", "bfloat16", "bool", "int8", "uint16")
SIZES = (33, 1023, 8, 17, 257)


def batches(full: bool, count: int) -> list[list[Trial]]:
    """Calls that try every operation, in an order in which any number of the first are a fair part of all.

    Parameters
    ----------
    full : bool
        Every dtype and case; otherwise two dtypes, of those that chips compute in, and one case.
    count : int
        How many are evaluated together. Elementwise ones are of one dtype and size, to share kernels.
    """
    alike: dict[tuple[np.dtype[Any], int, str], list[Trial]] = {}
    rest: list[Trial] = []
    for entry in elementwise():
        every = dtypes_of(entry)
        for dtype in every if full else _some(every, label(entry)):
            for n, size in enumerate(
                SIZES if full else (SIZES[zlib.crc32(dtype.name.encode()) % len(SIZES)],)
            ):
                layout = LAYOUTS[n % len(LAYOUTS)]
                one = elementwise_case(entry, (size,))
                alike.setdefault((dtype, size, layout), []).append(Trial(entry, one, dtype, layout))
    for entry in tested():
        if entry in elementwise():
            continue
        every = dtypes_of(entry)
        for dtype in every if full else _some(every, label(entry)):
            for n, one in enumerate(entry.cases if full else entry.cases[:1]):
                key = f"{label(entry)} {dtype.name} {n}"
                rest.append(Trial(entry, one, dtype, LAYOUTS[zlib.crc32(key.encode()) % len(LAYOUTS)]))
    rest.sort(key=lambda trial: (zlib.crc32(str(trial).encode()), str(trial)))
    together = [group[n : n + count] for group in alike.values() for n in range(0, len(group), count)]
    apart = [rest[n : n + count] for n in range(0, len(rest), count)]
    return [batch for pair in zip_longest(together, apart) for batch in pair if batch]


def _some(every: list[np.dtype[Any]], key: str) -> list[np.dtype[Any]]:
    usual = [dtype_of(name) for name in USUAL if dtype_of(name) in every]
    if len(usual) <= 2:
        return usual
    start = zlib.crc32(key.encode())
    return [usual[0], usual[1:][start % (len(usual) - 1)]]
