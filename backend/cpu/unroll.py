"""Axes of a few elements, such as the channels of a pixel: written out, so that the lanes go along a longer one.

Each instruction that varies along the axis is copied for each of its positions; the copies of a load
then read interleaved elements, which the lanes share, and the copies of a store write them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..ir import Access, Binding, Instr, Kernel, Stride
from .analysis import Analysis


def unrolled(kernel: Kernel, axis: int, extent: int) -> Kernel:
    """The kernel without one of its parallel axes, which has `extent` positions."""
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

    varies = [bits >> axis & 1 for bits in Analysis(kernel).axes]
    body: list[Instr] = []
    values: list[list[int]] = []  # for each instruction its copies, one if it does not vary
    for n, instr in enumerate(kernel.body):
        places = []
        for position in range(extent if varies[n] else 1):
            copy = replace(
                instr,
                args=tuple(values[a][position if varies[a] else 0] for a in instr.args),
            )
            if instr.op in ("load", "store", "gather"):
                (a,) = instr.attrs
                along = kernel.accesses[a].layout[axis] != Stride.ZERO
                copy = replace(copy, attrs=(number[a, position if along else 0],))
            elif instr.op == "index" and instr.attrs[0] == axis:
                copy = Instr("const", np.dtype(np.int64), (), (position,))
            elif instr.op == "index" and instr.attrs[0] > axis:
                copy = replace(copy, attrs=(instr.attrs[0] - 1,))
            body.append(copy)
            places.append(len(body) - 1)
        values.append(places)
    return replace(kernel, parallel=kernel.parallel - 1, accesses=tuple(accesses), body=tuple(body))


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
