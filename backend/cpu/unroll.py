"""Axes of a few elements, such as the channels of a pixel: written out; the lanes go along a longer one.

Each instruction that varies along the axis is copied for each of its positions; the copies of a load
then read interleaved elements, which the lanes share, and the copies of a store write them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..ir import Access, Binding, Instr, Kernel, Stride
from .analysis import Analysis

FLOAT32 = np.dtype(np.float32)


def can_unroll(kernel: Kernel, axis: int) -> bool:
    """Whether another axis is left for the lanes, and no position along this one is asked for."""
    if kernel.rank == 1 or any(i.op == "shift" and i.attrs[axis] for i in kernel.body):
        return False
    positions = any(i.op == "reduce" and i.attrs[0] in ("argmax", "argmin") for i in kernel.body)
    return axis < kernel.parallel or not positions


def unrolled(kernel: Kernel, axis: int, extent: int) -> Kernel:
    """The kernel without one of its axes, which has `extent` positions."""
    copies = _copies(kernel, axis, extent)
    number = {copy: k for k, copy in enumerate(copies)}
    accesses = []
    for a, position in copies:
        access = kernel.accesses[a]
        anchor, delta = access.anchor, access.delta
        kind = access.layout[axis]
        if kind in (Stride.UNIT, Stride.NEGATIVE):
            delta += position if kind == Stride.UNIT else -position
            anchor = number[anchor, 0]
        else:
            anchor = number[anchor, position]
        layout = access.layout[:axis] + access.layout[axis + 1 :]
        accesses.append(Access(access.operand, layout, anchor, delta))

    reduced = axis >= kernel.parallel
    varies = [bits >> axis & 1 for bits in Analysis(kernel).axes]
    body: list[Instr] = []
    values: list[list[int]] = []  # for each instruction its copies, one if it does not vary
    for n, instr in enumerate(kernel.body):
        places: list[int] = []
        if reduced and instr.op == "reduce":
            values.append([_reduce(kernel, body, instr, values[instr.args[0]], extent)])
            continue
        for position in range(extent if varies[n] else 1):
            copy = replace(
                instr,
                args=tuple(values[a][position if varies[a] else 0] for a in instr.args),
            )
            if instr.op in ("load", "store", "gather"):
                (a,) = instr.attrs
                along = kernel.accesses[a].layout[axis] != Stride.ZERO
                copy = replace(copy, attrs=(number[a, position if along else 0],))
            elif instr.op == "shift":
                copy = replace(copy, attrs=instr.attrs[:axis] + instr.attrs[axis + 1 :])
            elif instr.op == "index" and instr.attrs[0] == axis:
                copy = Instr("const", np.dtype(np.int64), (), (position,))
            elif instr.op == "index" and instr.attrs[0] > axis:
                copy = replace(copy, attrs=(instr.attrs[0] - 1,))
            body.append(copy)
            places.append(len(body) - 1)
        values.append(places)
    axes = (kernel.parallel - 1, kernel.reduced) if not reduced else (kernel.parallel, kernel.reduced - 1)
    return replace(kernel, parallel=axes[0], reduced=axes[1], accesses=tuple(accesses), body=tuple(body))


def _reduce(kernel: Kernel, body: list[Instr], instr: Instr, copies: list[int], extent: int) -> int:
    """Reduce the copies of a value to one, and that along the reduced axes that are left."""
    (how,) = instr.attrs
    dtype = instr.dtype
    wide = FLOAT32 if dtype.itemsize == 2 and dtype.kind in "fV" else dtype

    def emit(op: str, dtype: np.dtype[Any], args: tuple[int, ...], attrs: tuple[Any, ...] = ()) -> int:
        body.append(Instr(op, dtype, args, attrs))
        return len(body) - 1

    copies = copies * (extent // len(copies))
    if wide != dtype:
        copies = [emit("cast", wide, (copy,)) for copy in copies]
    total = copies[0]
    for copy in copies[1:]:
        total = emit(how, wide, (total, copy))
    if kernel.reduced > 1:
        total = emit("reduce", wide, (total,), (how,))
    return emit("cast", dtype, (total,)) if wide != dtype else total


def unrolled_binding(kernel: Kernel, binding: Binding, axis: int) -> Binding:
    """The binding of `unrolled(kernel, axis, …)`."""
    copies = _copies(kernel, axis, binding.extents[axis])
    return Binding(
        binding.extents[:axis] + binding.extents[axis + 1 :],
        tuple(binding.strides[a][:axis] + binding.strides[a][axis + 1 :] for a, _ in copies),
        tuple(binding.offsets[a] + position * binding.strides[a][axis] for a, position in copies),
    )


def _copies(kernel: Kernel, axis: int, extent: int) -> list[tuple[int, int]]:
    """The accesses of the unrolled kernel: access and position along the axis."""
    return [
        (a, position)
        for a, access in enumerate(kernel.accesses)
        for position in range(1 if access.layout[axis] == Stride.ZERO else extent)
    ]
