"""64-bit integers that 32 bits hold: which kernels may compute them so.

Vector instructions have no 64-bit arithmetic, but what pyasc computes in int64 are mostly places: indices
along axes, indices into an axis, and sums of products of these that address an element. Two facts make them
narrow:

* An index along an axis, a wrapped index, the place of an extreme are less than 2**31, as is what intervals
  show to be. Such a value is *known*; anything may be done with it.
* The place of an element is less than 2**31, however it was computed: sums, differences and products keep the
  low 32 bits right whatever happens above, and in the end nothing is above. What only *addresses* an element
  needs no bound.

What is loaded may be anything. A load that only wrapped indices read saturates, and out of range stays out of
range.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ...ops.dtypes import int64, uint64
from ..ir import Instr, Kernel

Range = tuple[int, int]
INT32: Range = (-(2**31), 2**31 - 1)
_PLACE: Range = (0, 2**31 - 1)
_RING = ("add", "sub", "mul")


def unfit(kernel: Kernel, extents: Sequence[int]) -> str:
    """Why a kernel's 64-bit integers cannot be computed in 32 bits, or "".

    Parameters
    ----------
    kernel : Kernel
    extents : sequence of int
        The largest for which the kernel is used.
    """
    if not any(_wide(i) for i in kernel.body):
        return ""
    readers: list[list[Instr]] = [[] for _ in kernel.body]
    for instr in kernel.body:
        for a in set(instr.args):
            readers[a].append(instr)
    addresses = _addresses(kernel)
    known = _ranges(kernel, extents)
    for n, instr in enumerate(kernel.body):
        if not _wide(instr) or instr.op == "store":
            continue
        if instr.dtype == uint64:
            reason = _counter(kernel, n, readers[n], known)
        elif instr.op in ("load", "gather"):
            wrapped = all(r.op == "wrap_index" and r.args[0] == n for r in readers[n])
            reason = "" if wrapped else "int64 elements that are more than indices"
        elif instr.op == "scalar":
            sized = all(r.op == "wrap_index" and r.args[0] != n for r in readers[n])
            reason = "" if sized or addresses[n] else "an int64 number"
        else:
            reason = "" if known[n] or (addresses[n] and instr.op in _RING) else f"{instr.op} of int64"
        if reason:
            return f"{reason} may need more than 32 bits, which the vector unit does not compute in"
    return ""


def _wide(instr: Instr) -> bool:
    return instr.dtype in (int64, uint64)


def _addresses(kernel: Kernel) -> list[bool]:
    """For each instruction, whether its value only goes into places of elements, by sums and products."""
    result = [True] * len(kernel.body)
    for n in range(len(kernel.body) - 1, -1, -1):
        instr = kernel.body[n]
        passes = instr.op == "gather" or (instr.op in _RING and instr.dtype == int64 and result[n])
        if not passes:
            for a in instr.args:
                result[a] = False
    return result


def _ranges(kernel: Kernel, extents: Sequence[int]) -> list[Range | None]:
    """The values that each int64 may have, where they are known to fit 32 bits."""
    result: list[Range | None] = []
    for instr in kernel.body:
        found = _range(kernel, instr, extents, result) if instr.dtype == int64 else None
        result.append(found if found and INT32[0] <= found[0] and found[1] <= INT32[1] else None)
    return result


def _range(kernel: Kernel, instr: Instr, extents: Sequence[int], known: list[Range | None]) -> Range | None:
    match instr.op:
        case "index":
            return 0, extents[instr.attrs[0]] - 1
        case "extent":
            return 0, extents[instr.attrs[0]]
        case "const":
            return int(instr.attrs[0]), int(instr.attrs[0])
        case "wrap_index":
            return _PLACE
        case "reduce":
            return _reduced_range(instr.attrs[0], known[instr.args[0]], prod(extents[kernel.parallel :]))
        case "cast":
            return _cast_range(kernel.body[instr.args[0]].dtype, known[instr.args[0]])
    args = [known[a] for a in instr.args]
    if instr.op == "where":
        args = args[1:]
    if not args or any(a is None for a in args):
        return None
    return _computed(instr.op, [a for a in args if a is not None])


def _reduced_range(how: str, each: Range | None, count: int) -> Range | None:
    if how in ("argmax", "argmin"):
        return _PLACE
    if each is None or how not in ("add", "max", "min"):
        return None
    low, high = each
    return (min(low, low * count), max(high, high * count)) if how == "add" else each


def _cast_range(origin: np.dtype[Any], of_int64: Range | None) -> Range | None:
    if origin.kind == "b":
        return 0, 1
    if origin == int64:
        return of_int64
    if origin.kind not in "iu" or origin.itemsize > 4:
        return None
    limits = np.iinfo(origin)
    return int(limits.min), int(limits.max)


def _computed(op: str, args: list[Range]) -> Range | None:
    low, high = args[0]
    if len(args) == 1:
        if op == "neg":
            return -high, -low
        return (0, max(-low, high)) if op == "abs" else None
    other_low, other_high = args[1]
    match op:
        case "add":
            return low + other_low, high + other_high
        case "sub":
            return low - other_high, high - other_low
        case "mul":
            ends = [a * b for a in args[0] for b in args[1]]
            return min(ends), max(ends)
        case "min":
            return min(low, other_low), min(high, other_high)
        case "max":
            return max(low, other_low), max(high, other_high)
        case "where":
            return min(low, other_low), max(high, other_high)
        case "floor_divide":
            most = max(-low, high)
            return -most - 1, most
        case "remainder" | "fmod":
            most = max(-other_low, other_high)
            return -most, most
    return None


def _counter(kernel: Kernel, n: int, readers: list[Instr], known: list[Range | None]) -> str:
    """An index for random bits, and it with a number added."""
    instr = kernel.body[n]
    if instr.op == "random_bits" or (all(r.op == "random_bits" for r in readers) and instr.op == "scalar"):
        return ""
    if instr.op == "scalar":
        return "" if all(r.op == "add" for r in readers) else "a uint64 number"
    if instr.op == "cast":
        origin = known[instr.args[0]]
        counts = all((r.op == "random_bits" and r.args[0] == n) or r.op == "add" for r in readers)
        return "" if origin and origin[0] >= 0 and counts else "a conversion to uint64"
    if instr.op == "add":
        ops = sorted(kernel.body[a].op for a in instr.args)
        counts = all(r.op == "random_bits" and r.args[0] == n for r in readers)
        return "" if ops == ["cast", "scalar"] and counts else "add of uint64"
    return f"{instr.op} of uint64"
