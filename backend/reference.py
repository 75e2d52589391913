"""Kernels run by the NumPy meaning of their primitives: slow, and the oracle of every backend's tests."""

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
    Reference(kernel, binding, buffers, scalars).run()


class Reference:
    """The values of one launch, each over the whole domain or, behind a shift, over the moved domain."""

    def __init__(
        self, kernel: Kernel, binding: Binding, buffers: Sequence[Array], scalars: Sequence[Any]
    ) -> None:
        self.kernel = kernel
        self.binding = binding
        self.buffers = buffers
        self.scalars = scalars
        self.values: dict[tuple[int, tuple[int, ...]], Array] = {}

    def run(self) -> None:
        """Compute every value, then write the outputs."""
        kernel, extents = self.kernel, self.binding.extents
        still = (0,) * kernel.rank
        shifted = {a for i in kernel.body if i.op == "shift" for a in i.args}
        for n in range(len(kernel.body)):
            if n not in shifted and kernel.body[n].op != "store":
                self.value(n, still)
        writes = []
        for n, instr in enumerate(kernel.body):
            if instr.op == "store":
                layout = kernel.accesses[instr.attrs[0]].layout
                once = tuple(1 if c == "0" else e for c, e in zip(layout, extents, strict=True))
                value = np.broadcast_to(self.value(instr.args[0], still), self._shape(n))
                writes.append((self._region(instr.attrs[0], once, still), value[tuple(map(slice, once))]))
        for place, value in writes:
            place[...] = value

    def value(self, n: int, moved: tuple[int, ...]) -> Array:
        """The value of instruction n at every point, moved along each axis."""
        found = self.values.get((n, moved))
        if found is None:
            found = self.values[n, moved] = self._compute(n, moved)
        return found

    def _shape(self, n: int) -> tuple[int, ...]:
        kernel = self.kernel
        if kernel.inner[n]:
            return self.binding.extents
        return (*self.binding.extents[: kernel.parallel], *(1 for _ in range(kernel.reduced)))

    def _compute(self, n: int, moved: tuple[int, ...]) -> Array:
        kernel, extents = self.kernel, self.binding.extents
        instr = kernel.body[n]
        shape = self._shape(n)
        if instr.op == "shift":
            return self.value(instr.args[0], tuple(a + b for a, b in zip(moved, instr.attrs, strict=True)))
        args = [self.value(a, moved) for a in instr.args]
        match instr.op:
            case "load":
                return np.array(self._region(instr.attrs[0], shape, moved))
            case "scalar":
                return np.asarray(self.scalars[instr.attrs[0]], instr.dtype)
            case "const":
                return np.asarray(instr.attrs[0], instr.dtype)
            case "index":
                axis = instr.attrs[0]
                along = [-1 if k == axis else 1 for k in range(kernel.rank)]
                return np.arange(moved[axis], moved[axis] + extents[axis], dtype=instr.dtype).reshape(along)
            case "gather":
                access = instr.attrs[0]
                flat = self.buffers[kernel.accesses[access].operand]
                return np.asarray(flat[self.binding.offsets[access] + args[0]])
            case "reduce":
                full = np.broadcast_to(args[0], extents)
                rows = full.reshape(*extents[: kernel.parallel], prod(extents[kernel.parallel :]))
                attrs = (instr.attrs[0], (kernel.parallel,))
                result = REDUCE.meaning(rows, attrs=attrs, shape=rows.shape[:-1], dtype=instr.dtype)
                return result.reshape(*extents[: kernel.parallel], *(1 for _ in range(kernel.reduced)))
        return PRIMITIVES[instr.op].meaning(*args, attrs=instr.attrs, shape=shape, dtype=instr.dtype)

    def _region(self, access: int, shape: tuple[int, ...], moved: tuple[int, ...]) -> Array:
        """The elements an access meets, as a view of its buffer."""
        buffer = self.buffers[self.kernel.accesses[access].operand]
        steps = self.binding.strides[access]
        start = self.binding.offsets[access] + sum(s * m for s, m in zip(steps, moved, strict=True))
        size = buffer.dtype.itemsize
        return np.lib.stride_tricks.as_strided(buffer[start:], shape, [s * size for s in steps])
