"""Kernels run by the NumPy meaning of their primitives: slow, obviously right, and the oracle of every backend's tests."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ops.primitives import PRIMITIVES, REDUCE
from .ir import Binding, Kernel

Array = NDArray[Any]


def run(kernel: Kernel, binding: Binding, buffers: Sequence[Array], scalars: Sequence[Any] = ()) -> None:
    """Run a kernel on flat arrays, writing its outputs in place.

    Parameters
    ----------
    kernel : Kernel
    binding : Binding
    buffers : sequence of one-dimensional arrays
        One for each operand, of its dtype.
    scalars : sequence of numbers
        One for each scalar slot.
    """
    extents = binding.extents
    outer = (*extents[: kernel.parallel], *(1 for _ in range(kernel.reduced)))
    values: list[Array] = []
    writes: list[tuple[Array, Array]] = []
    for n, instr in enumerate(kernel.body):
        args = [values[a] for a in instr.args]
        shape = extents if kernel.inner[n] else outer
        match instr.op:
            case "load":
                place = _region(kernel, binding, buffers, instr.attrs[0], shape)
                value = np.array(place)
            case "store":
                value = args[0]
                access = instr.attrs[0]
                once = tuple(
                    1 if c == "0" else e for c, e in zip(kernel.accesses[access].layout, extents, strict=True)
                )
                first = np.broadcast_to(value, shape)[tuple(slice(0, e) for e in once)]
                writes.append((_region(kernel, binding, buffers, access, once), first))
            case "scalar":
                value = np.asarray(scalars[instr.attrs[0]], instr.dtype)
            case "const":
                value = np.asarray(instr.attrs[0], instr.dtype)
            case "index":
                axis = instr.attrs[0]
                along = [-1 if k == axis else 1 for k in range(kernel.rank)]
                value = np.arange(extents[axis], dtype=np.int64).reshape(along)
            case "gather":
                access = instr.attrs[0]
                flat = buffers[kernel.accesses[access].operand]
                value = flat[binding.offsets[access] + args[0]]
            case "reduce":
                full = np.broadcast_to(args[0], extents)
                rows = full.reshape(*extents[: kernel.parallel], prod(extents[kernel.parallel :]))
                attrs = (instr.attrs[0], (kernel.parallel,))
                result = REDUCE.meaning(rows, attrs=attrs, shape=rows.shape[:-1], dtype=instr.dtype)
                value = result.reshape(outer)
            case op:
                value = PRIMITIVES[op].meaning(*args, attrs=instr.attrs, shape=shape, dtype=instr.dtype)
        values.append(value)
    for place, value in writes:
        place[...] = value


def _region(
    kernel: Kernel, binding: Binding, buffers: Sequence[Array], access: int, shape: tuple[int, ...]
) -> Array:
    """The elements an access meets, as a view of its buffer."""
    a = kernel.accesses[access]
    buffer = buffers[a.operand]
    size = buffer.dtype.itemsize
    start = binding.offsets[access]
    strides = [s * size for s in binding.strides[access]]
    return np.lib.stride_tricks.as_strided(buffer[start:], shape, strides)
