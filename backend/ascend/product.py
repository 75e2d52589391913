"""Products of matrices on the cube: which can be had from the memory as it lies, and their launch."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...ops.dtypes import as_dtype
from .chip import Chip
from .cube import Contraction, CubeKernel, CubeSizes, generate
from .cube_problem import FIELDS, RESULTS, CubeOptions
from .generated import Bound, Field, Generated, Parameter, free_names

# Sums of int8 are int32; NumPy's product of int8 is their low byte, which the host takes.
RESULT = {"float16": "float16", "bfloat16": "bfloat16", "float32": "float32", "int8": "int32"}
BUCKET = 0.2  # sizes within this part of a kernel's are computed by it

_PLAIN = ("a", "b", "c", "bias")

Layout = tuple[tuple[int, ...], tuple[int, ...]]  # shape, and strides in elements


@dataclass(frozen=True)
class _Matrix:
    """How an operand lies.

    Attributes
    ----------
    transposed : bool
        Whether the elements of a column lie side by side, not those of a row.
    pitch : int
        From one such row or column to the next.
    stride : int
        From one matrix of the batch to the next.
    """

    transposed: bool
    pitch: int
    stride: int


def _matrix(layout: Layout, batch: tuple[int, ...]) -> _Matrix | None:
    """A matrix whose rows or columns lie side by side, and batches of it one stride apart; None otherwise."""
    shape, strides = layout
    rows, columns = shape[-2:]
    down, across = strides[-2:]
    if (across == 1 or columns == 1) and (down >= columns or rows == 1):
        transposed, pitch = False, max(down, columns) if rows > 1 else columns
    elif (down == 1 or rows == 1) and across >= rows:
        transposed, pitch = True, across if columns > 1 else rows
    else:
        return None
    front = len(batch) - (len(shape) - 2)
    steps = [0] * front + [s if e > 1 else 0 for e, s in zip(shape[:-2], strides[:-2], strict=True)]
    stride, extent = 0, 1
    for size, step in reversed(list(zip(batch, steps, strict=True))):
        if size == 1:
            continue
        if extent == 1:
            stride = step
        elif step != stride * extent:
            return None
        extent *= size
    return None if stride < 0 else _Matrix(transposed, pitch, stride)


@dataclass(frozen=True)
class Product:
    """A product of matrices as it lies in memory."""

    sizes: CubeSizes
    dtype: str
    out: str
    transpose_a: bool
    transpose_b: bool

    @property
    def nbytes(self) -> tuple[int, int, int]:
        """Of the memory of the operands and the result."""
        s, size = self.sizes, as_dtype(self.dtype).itemsize
        a = (s.k if self.transpose_a else s.m) * s.a_pitch + (s.batch - 1) * (s.a_stride or 0)
        b = (s.n if self.transpose_b else s.k) * s.b_pitch + (s.batch - 1) * (s.b_stride or 0)
        return a * size, b * size, s.batch * s.m * s.c_pitch * as_dtype(self.out).itemsize


def described(
    operands: Sequence[Layout],
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    out: np.dtype[Any] | None = None,
    pitch: int = 0,
) -> Product | None:
    """A product that the cube can have without a copy; None for another.

    Parameters
    ----------
    operands : two layouts
        Of at least two axes each.
    shape : tuple of int
        Of the result, whose elements lie in order.
    dtype : dtype
        Of the operands.
    out : dtype, optional
        Of the result; omitted, the usual one.
    pitch : int
        Elements from row to row of the result; 0 where they touch.
    """
    batch = shape[:-2]
    a, b = (_matrix(o, batch) for o in operands)
    (m, n), k = shape[-2:], operands[0][0][-1]
    count = int(np.prod(batch, dtype=np.int64))
    if dtype.name not in RESULT or a is None or b is None or 0 in (m, n, k, count):
        return None
    result = RESULT[dtype.name] if out is None else out.name
    sums = "int32" if dtype.name == "int8" else "float32"
    if (sums, result) not in RESULTS or (sums == "int32") != (result == "int32"):
        return None
    pitch = pitch or n
    sizes = CubeSizes(m, n, k, count, a.pitch, b.pitch, pitch, a.stride, b.stride, m * pitch)
    return Product(sizes, dtype.name, result, a.transposed, b.transposed)


class Products:
    """The cube kernels of a chip, each for the sizes of its bucket."""

    def __init__(self, chip: Chip) -> None:
        self._chip = chip
        self._kernels: dict[Any, list[CubeKernel]] = {}

    def find(
        self, product: Product, options: CubeOptions, names: tuple[str, str, str] = _PLAIN[:3]
    ) -> Generated | None:
        """The kernel for a product, bound to its sizes; None where its fields do not hold them.

        Parameters
        ----------
        product : Product
        options : CubeOptions
        names : three strings
            Of the operands and the result.
        """
        kernel = self.kernel(product, options, names)
        return generated(kernel, product) if kernel.fits(product.sizes) else None

    def kernel(
        self, product: Product, options: CubeOptions, names: tuple[str, str, str] = _PLAIN[:3]
    ) -> CubeKernel:
        """The kernel of a product's bucket."""
        sizes, p = product.sizes, product
        known = self._kernels.setdefault((p.dtype, p.out, p.transpose_a, p.transpose_b, names, options), [])
        wanted = (sizes.m, sizes.n, sizes.k, sizes.batch)
        for kernel in known:
            c = kernel.contraction
            if all(abs(w - r) <= BUCKET * r for w, r in zip(wanted, (c.m, c.n, c.k, c.batch), strict=True)):
                return kernel
        contraction = Contraction(
            *wanted, p.dtype, p.out, p.transpose_a, p.transpose_b, sizes.a_pitch, sizes.b_pitch
        )
        made = generate(replace(contraction, names=_PLAIN), self._chip, options)
        if names != _PLAIN[:3]:
            words = set(re.findall(r"\w+", made.source)) - set(_PLAIN)
            left, right, result = free_names(names, words)
            made = generate(replace(contraction, names=(left, right, result, "bias")), self._chip, options)
        known.append(made)
        return made


def generated(kernel: CubeKernel, product: Product) -> Generated:
    """A kernel bound to the sizes of a product."""
    blocks, packed, workspace = kernel.bind(product.sizes)
    bound = Bound(blocks, packed, workspace=workspace)
    c = kernel.contraction
    dtypes = [as_dtype(c.dtype)] * 2 + [as_dtype(c.out)]
    names = c.names[:3]
    return Generated(
        kernel.name,
        kernel.source,
        "cube",
        kernel.chip,
        tuple(
            Parameter(name, "output" if k == 2 else "input", k, dtype)
            for k, (name, dtype) in enumerate(zip(names, dtypes, strict=True))
        ),
        tuple(Field(name, ctype) for ctype, name, _ in FIELDS),
        kernel.tiling,
        lambda binding: bound,
        product=product,
    )
