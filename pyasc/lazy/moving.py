"""The kernels that only move data: one number everywhere, and a strided copy."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backend.ir import Access, Binding, Instr, Kernel, Operand, layout

Dtype = np.dtype[Any]
Walk = tuple[int, tuple[int, ...]]  # an offset, and a stride for each axis, in elements


def fill(dtype: Dtype, size: int) -> tuple[Kernel, Binding]:
    """Its scalar argument, in each of so many elements."""
    body = (Instr("scalar", dtype, (), (0,)), Instr("store", dtype, (0,), (0,)))
    kernel = Kernel(1, 0, (Operand("y0", dtype, True),), (Access(0, "1", 0),), (dtype,), body, "fill")
    return kernel, Binding((size,), ((1,),), (0,), (size,))


def copy(
    dtype: Dtype, extents: tuple[int, ...], source: Walk, target: Walk, sizes: tuple[int, int]
) -> tuple[Kernel, Binding]:
    """Elements of one buffer into another, which have so many. What has 8 bytes is moved as two of 4."""
    axes = [(e, s, t) for e, s, t in zip(extents, source[1], target[1], strict=True) if e != 1] or [(1, 1, 1)]
    width = max(dtype.itemsize // 4, 1) if dtype.itemsize == 8 else 1
    if width > 1:
        dtype = np.dtype(np.int32)
        axes = [(e, s * width, t * width) for e, s, t in axes] + [(width, 1, 1)]
    merged: list[tuple[int, int, int]] = []
    for e, s, t in axes:
        if merged and merged[-1][1:] == (s * e, t * e):
            merged[-1] = (merged[-1][0] * e, s, t)
        else:
            merged.append((e, s, t))
    count, read, written = zip(*merged, strict=True)
    kernel = Kernel(
        len(count),
        0,
        (Operand("x0", dtype, False), Operand("y1", dtype, True)),
        (Access(0, layout(read), 0), Access(1, layout(written), 1)),
        (),
        (Instr("load", dtype, (), (0,)), Instr("store", dtype, (0,), (1,))),
        "copy",
    )
    offsets = (source[0] * width, target[0] * width)
    return kernel, Binding(count, (read, written), offsets, (sizes[0] * width, sizes[1] * width))
