"""Intervals of numbers, and what operations make of them.

An interval is the least and the greatest number, and whether NaN is possible; of floats the numbers may be
infinite. Integers wrap around: a result that leaves its dtype may be anything.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import ceil, floor, inf, isinf, isnan, sqrt, trunc
from typing import Any

import numpy as np

from ..ir import Dtype

Interval = tuple[Any, Any, bool]

# Twice the relative rounding error of each width of float: a fused multiplication and addition counts as two
# that are rounded.
_ROUNDING = {2: 2.0**-6, 4: 2.0**-22, 8: 2.0**-51}


def exactly(number: Any) -> Interval:
    number = int(number) if isinstance(number, (bool, int, np.integer)) else float(number)
    if isinstance(number, float) and isnan(number):
        return (-inf, inf, True)
    return (number, number, False)


@cache
def anything(dtype: Dtype) -> Interval:
    """All numbers of a dtype."""
    if dtype.kind == "b":
        return (0, 1, False)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return (int(limits.min), int(limits.max), False)
    return (-inf, inf, True)


def hull(first: Interval, *rest: Interval) -> Interval:
    """The least interval that holds all of them."""
    low, high, nan = first
    for x in rest:
        low, high, nan = min(low, x[0]), max(high, x[1]), nan or x[2]
    return (low, high, nan)


def meet(a: Interval, b: Interval) -> Interval | None:
    """What is in both; None where nothing is."""
    low, high, nan = max(a[0], b[0]), min(a[1], b[1]), a[2] and b[2]
    if low > high:
        return (low, low, True) if nan else None
    return (low, high, nan)


def transfer(op: str, dtype: Dtype, args: tuple[Interval, ...], dtypes: tuple[Dtype, ...]) -> Interval:
    """The results of a primitive of a dtype, for arguments of some dtypes."""
    kind = dtype.kind
    if op == "const":
        return _const(args[0], dtype)
    if op == "cast":
        return _cast(args[0], dtypes[0], dtype)
    if kind == "b":
        return _truth(op, args)
    rule = (_FLOAT if kind in "fV" else _INTEGER).get(op)
    if rule is None:
        return anything(dtype)
    if kind not in "fV":
        result = rule(*args)
        if result is None:
            return anything(dtype)
        least, greatest, _ = anything(dtype)
        return anything(dtype) if result[0] < least or result[1] > greatest else (result[0], result[1], False)
    if any(isinf(x[0]) or isinf(x[1]) for x in args) and op not in ("min", "max", "abs"):
        return anything(dtype)
    result = rule(*args)
    if result is None:
        return anything(dtype)
    low, high = result[0], result[1]
    if op in _ROUNDED:
        error = _ROUNDING[dtype.itemsize]
        low, high = low - abs(low) * error, high + abs(high) * error
        if not -_largest(dtype) <= low <= high <= _largest(dtype):  # nor NaN, of two infinities
            return anything(dtype)
    return (low, high, any(x[2] for x in args))


@cache
def _largest(dtype: Dtype) -> float:
    """Beyond it a result may be infinite."""
    if dtype.kind == "V":
        return 1e38
    return float(np.finfo(dtype).max) * 0.99


def _const(x: Interval, dtype: Dtype) -> Interval:
    if dtype.kind not in "fV" or x[2]:
        return x
    number = float(np.asarray(x[0], dtype))
    return (number, number, False)


def _cast(x: Interval, of: Dtype, to: Dtype) -> Interval:
    low, high, nan = x
    least, greatest, _ = anything(to)
    if to.kind == "b":
        if low == high == 0 and not nan:
            return (0, 0, False)
        return (1, 1, False) if low > 0 or high < 0 else (0, 1, False)
    if to.kind in "iu":
        if of.kind in "fV":
            low = least if low <= least else trunc(low)
            high = greatest if high >= greatest else trunc(high)
            low, high = min(max(low, least), greatest), max(min(high, greatest), least)
            return (min(low, 0), max(high, 0), False) if nan else (low, high, False)
        return (low, high, False) if low >= least and high <= greatest else anything(to)
    # To a float: rounding keeps the order.
    if isinf(low) or isinf(high):
        return anything(to)
    error = _ROUNDING[to.itemsize]
    exact = of.kind in "biu" and max(abs(low), abs(high)) <= (256, 2048, 2**24, 2**53)[_exactness(to)]
    if not exact:
        low, high = float(low), float(high)
        low, high = low - abs(low) * error, high + abs(high) * error
    if not -_largest(to) <= low <= high <= _largest(to):
        return anything(to)
    return (float(low), float(high), nan)


def _exactness(dtype: Dtype) -> int:
    return 0 if dtype.kind == "V" else {2: 1, 4: 2, 8: 3}[dtype.itemsize]


def _truth(op: str, args: tuple[Interval, ...]) -> Interval:
    """Conditions that are known to hold, or not to."""
    unknown = (0, 1, False)
    if op == "not":
        return (1 - args[0][1], 1 - args[0][0], False)
    if len(args) != 2:
        return unknown
    (a, b, m), (c, d, n) = args
    match op:
        case "and" | "mul" | "min":
            return (min(a, c), min(b, d), False)
        case "or" | "add" | "max":
            return (max(a, c), max(b, d), False)
        case "lt" if not (m or n):
            return (int(b < c), int(a < d), False)
        case "le" if not (m or n):
            return (int(b <= c), int(a <= d), False)
        case "eq" if not (m or n):
            return (int(a == b == c == d), int(a <= d and c <= b), False)
        case "ne" if not (m or n):
            return (int(a > d or c > b), int(not a == b == c == d), False)
    return unknown


def _corners(function: Callable[[Any, Any], Any]) -> Callable[[Interval, Interval], Interval]:
    """The rule of a function that is monotonic in each of its arguments."""

    def rule(x: Interval, y: Interval) -> Interval:
        ends = [function(a, b) for a in x[:2] for b in y[:2]]
        return (min(ends), max(ends), False)

    return rule


def _monotonic(function: Callable[[Any], Any]) -> Callable[[Interval], Interval]:
    return lambda x: (function(x[0]), function(x[1]), False)


def _add(x: Interval, y: Interval) -> Interval:
    return (x[0] + y[0], x[1] + y[1], False)


def _sub(x: Interval, y: Interval) -> Interval:
    return (x[0] - y[1], x[1] - y[0], False)


def _neg(x: Interval) -> Interval:
    return (-x[1], -x[0], False)


def _abs(x: Interval) -> Interval:
    low, high, _ = x
    if low >= 0:
        return x
    return (-high, -low, False) if high <= 0 else (type(high)(0), max(-low, high), False)


def _min(x: Interval, y: Interval) -> Interval:
    return (min(x[0], y[0]), min(x[1], y[1]), False)


def _max(x: Interval, y: Interval) -> Interval:
    return (max(x[0], y[0]), max(x[1], y[1]), False)


def _remainder(x: Interval, y: Interval) -> Interval | None:
    if y[0] <= 0:
        return None
    if x[0] >= 0 and x[1] < y[0]:
        return x
    if y[0] == y[1] and x[0] // y[0] == x[1] // y[0]:
        return (x[0] % y[0], x[1] % y[0], False)
    return (0, min(y[1] - 1, x[1]) if x[0] >= 0 else y[1] - 1, False)


def _fmod(x: Interval, y: Interval) -> Interval | None:
    if y[0] <= 0:
        return None
    most = y[1] - 1
    return (0 if x[0] >= 0 else -min(most, -x[0]), 0 if x[1] <= 0 else min(most, x[1]), False)


def _floor_divide(x: Interval, y: Interval) -> Interval | None:
    return None if y[0] <= 0 else _corners(lambda a, b: a // b)(x, y)


def _shift_left(x: Interval, y: Interval) -> Interval | None:
    if y[0] < 0 or y[1] > 63:
        return None
    return _corners(lambda a, b: a << b)(x, y)


def _shift_right(x: Interval, y: Interval) -> Interval | None:
    if y[0] < 0 or y[1] > 63:
        return None
    return _corners(lambda a, b: a >> b)(x, y)


def _and(x: Interval, y: Interval) -> Interval | None:
    limits = [i[1] for i in (x, y) if i[0] >= 0]
    return (0, min(limits), False) if limits else None


def _or(x: Interval, y: Interval) -> Interval | None:
    if x[0] < 0 or y[0] < 0:
        return None
    return (0, 2 ** max(x[1].bit_length(), y[1].bit_length()) - 1, False)


def _pow(x: Interval, y: Interval) -> Interval | None:
    if y[0] != y[1] or not 0 <= y[0] <= 64:
        return None
    ends = [x[0] ** y[0], x[1] ** y[0], *([0] if x[0] < 0 < x[1] else [])]
    return (min(ends), max(ends), False)


def _div(x: Interval, y: Interval) -> Interval | None:
    return None if y[0] <= 0 <= y[1] else _corners(lambda a, b: a / b)(x, y)


_mul = _corners(lambda a, b: a * b)
_INTEGER: dict[str, Any] = {
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "neg": _neg,
    "abs": _abs,
    "min": _min,
    "max": _max,
    "remainder": _remainder,
    "fmod": _fmod,
    "floor_divide": _floor_divide,
    "shift_left": _shift_left,
    "shift_right": _shift_right,
    "and": _and,
    "or": _or,
    "xor": _or,
    "pow": _pow,
    "not": lambda x: (-1 - x[1], -1 - x[0], False),
    "popcount": lambda x: (0, 64, False),
}
_FLOAT: dict[str, Any] = {
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "div": _div,
    "neg": _neg,
    "abs": _abs,
    "min": _min,
    "max": _max,
    "floor": _monotonic(lambda a: float(floor(a))),
    "ceil": _monotonic(lambda a: float(ceil(a))),
    "trunc": _monotonic(lambda a: float(trunc(a))),
    "rint": _monotonic(lambda a: float(round(a))),
    "sqrt": lambda x: None if x[0] < 0 else (sqrt(x[0]), sqrt(x[1]), False),
}
_ROUNDED = frozenset({"add", "sub", "mul", "div", "sqrt"})


def compared(op: str, truth: bool, x: Interval, y: Interval, dtype: Dtype) -> tuple[Interval, Interval]:
    """What a comparison tells of its two sides."""
    if op in ("ne",):
        op, truth = "eq", not truth
    if not truth and (x[2] or y[2]):
        return x, y  # not less, for all one knows, because one of them is NaN
    step = 0 if dtype.kind in "fV" else 1
    if op == "eq":
        if truth:
            both = (max(x[0], y[0]), min(x[1], y[1]), False)
            return both, both
        return (_apart(x, y), _apart(y, x)) if step else (x, y)
    if not truth:  # y <= x, or y < x
        b, a = compared("le" if op == "lt" else "lt", True, y, x, dtype)
        return a, b
    strict = step if op == "lt" else 0
    return (x[0], min(x[1], y[1] - strict), False), (max(y[0], x[0] + strict), y[1], False)


def _apart(x: Interval, y: Interval) -> Interval:
    """An integer that is not the one y is known to be."""
    if y[0] != y[1]:
        return x
    return (x[0] + (x[0] == y[0]), x[1] - (x[1] == y[0]), False)


def inverse(op: str, dtype: Dtype, result: Interval, args: list[Interval], of: Dtype) -> tuple[Interval, ...]:
    """What a result in an interval tells of the arguments: an interval for each, or nothing.

    Of integers only, and where the arguments' intervals say that nothing wraps. ``of`` is the dtype of the
    first argument.
    """
    low, high, _ = result
    if dtype.kind not in "iu" or not args:
        return ()
    least, greatest, _ = anything(dtype)
    match op:
        case "add" | "sub":
            x, y = args
            exact = _add(x, y) if op == "add" else _sub(x, y)
            if exact[0] < least or exact[1] > greatest:
                return ()
            if op == "add":
                return ((low - y[1], high - y[0], False), (low - x[1], high - x[0], False))
            return ((low + y[0], high + y[1], False), (x[0] - high, x[1] - low, False))
        case "neg" if args[0][0] > least:
            return ((-high, -low, False),)
        case "mul":
            x, y = args
            exact = _mul(x, y)
            if y[0] != y[1] or y[0] <= 0 or exact[0] < least or exact[1] > greatest:
                return ()
            return ((-(-low // y[0]), high // y[0], False),)
        case "cast" if of.kind in "iu" and args[0][0] >= least and args[0][1] <= greatest:
            return (result,)
        case "min":
            return ((low, greatest, False), (low, greatest, False))
        case "max":
            return ((least, high, False), (least, high, False))
    return ()
