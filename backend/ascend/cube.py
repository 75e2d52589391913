"""Matrix products in Ascend C: `generate` writes a kernel, which serves every size.

What a kernel is follows from dtypes, layouts and options. Extents, pitches, tile sizes and the way the cores
share out the work are fields of the struct that the kernel receives: one kernel serves every size, each with
the tiling that is best for it.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass, replace

from .chip import Chip
from .cube_emit import source
from .cube_problem import FIELDS, Contraction, CubeOptions
from .cube_tiling import CubeTiling, Shares, solve

__all__ = ["Contraction", "CubeKernel", "CubeOptions", "CubeSizes", "Shares", "generate"]

VERSION = 1  # of the generator: a kernel's name changes with it


@dataclass(frozen=True, slots=True)
class CubeSizes:
    """The sizes a kernel is launched with. Pitches and strides are in elements; 0 stands for rows that touch.

    Attributes
    ----------
    m, n, k, batch : int
    a_pitch, b_pitch, c_pitch : int
        From one row in memory to the next.
    a_stride, b_stride, c_stride, bias_stride : int or None
        From one matrix of the batch to the next; None for matrices that touch, 0 for one that is used again
        (the bias is, unless it is said otherwise).
    """

    m: int
    n: int
    k: int
    batch: int = 1
    a_pitch: int = 0
    b_pitch: int = 0
    c_pitch: int = 0
    a_stride: int | None = None
    b_stride: int | None = None
    c_stride: int | None = None
    bias_stride: int = 0


@dataclass(frozen=True)
class CubeKernel:
    """A matrix product in Ascend C.

    Attributes
    ----------
    name : str
        Of the kernel's function.
    source : str
    contraction : Contraction
    options : CubeOptions
    tiling : CubeTiling
    chip : Chip
    """

    name: str
    source: str
    contraction: Contraction
    options: CubeOptions
    tiling: CubeTiling
    chip: Chip

    def fits(self, sizes: CubeSizes) -> bool:
        """Whether the kernel computes a product of these sizes: extents from 1 up, that its fields hold."""
        s = self._filled(sizes)
        extents = (s.m, s.n, s.k, s.batch, s.a_pitch, s.b_pitch, s.c_pitch)
        return all(1 <= value < 2**31 for value in extents)

    def tiling_of(self, sizes: CubeSizes) -> CubeTiling:
        """The best tiling of a product of these sizes; worked out once for each."""
        s = self._filled(sizes)
        actual = replace(
            self.contraction, m=s.m, n=s.n, k=s.k, batch=s.batch, a_pitch=s.a_pitch, b_pitch=s.b_pitch
        )
        return solve(actual, self.chip, self.options)

    def bind(self, sizes: CubeSizes) -> tuple[int, bytes, int]:
        """Blocks to launch, the struct ``Tiling``, and bytes of workspace."""
        s, t = self._filled(sizes), self.tiling_of(sizes)
        shares = t.shares
        values = (
            s.a_stride, s.b_stride, s.c_stride, s.bias_stride,
            s.m, s.n, s.k, s.batch, s.a_pitch, s.b_pitch, s.c_pitch,
            shares.batch_cores, shares.m_cores, shares.n_cores, shares.rounds, shares.m_tiles, shares.n_tiles,
            shares.unit_m, shares.unit_n, shares.k_cores,
            t.base_m, t.base_n, t.base_k, t.packet_a, t.packet_b, t.parts_a, t.parts_b, t.once_a, t.once_b,
        )  # fmt: skip
        assert len(values) == len(FIELDS)
        form = "<" + "".join("q" if ctype == "int64_t" else "i" for ctype, _, _ in FIELDS)
        packed = struct.pack(form, *values)
        return shares.cores, packed + bytes(-len(packed) % 8), 0

    def _filled(self, s: CubeSizes) -> CubeSizes:
        """With every pitch and stride a number."""
        a_pitch = s.a_pitch or (s.m if self.contraction.transpose_a else s.k)
        b_pitch = s.b_pitch or (s.k if self.contraction.transpose_b else s.n)
        c_pitch = s.c_pitch or s.n
        a_rows = s.k if self.contraction.transpose_a else s.m
        b_rows = s.n if self.contraction.transpose_b else s.k
        return replace(
            s,
            a_pitch=a_pitch,
            b_pitch=b_pitch,
            c_pitch=c_pitch,
            a_stride=a_rows * a_pitch if s.a_stride is None else s.a_stride,
            b_stride=b_rows * b_pitch if s.b_stride is None else s.b_stride,
            c_stride=s.m * c_pitch if s.c_stride is None else s.c_stride,
        )


def generate(
    contraction: Contraction, chip: Chip, options: CubeOptions | None = None, name: str = ""
) -> CubeKernel:
    """The kernel for a matrix product on a chip.

    Parameters
    ----------
    contraction : Contraction
        At the sizes that stand for its bucket.
    chip : Chip
    options : CubeOptions, optional
        What to leave out, to measure what it is worth.
    name : str, optional
        Of the kernel's function; omitted, one that says what the product is.
    """
    options = options or CubeOptions()
    if contraction.column_unit > 16:
        # Mmad makes more columns than Fixpipe takes away: their flags would stay set.
        options = replace(options, unit_flag=False)
    tiling = solve(contraction, chip, options)
    name = name or _name(contraction, tiling, options)
    text = source(contraction, options, tiling, name, _summary(contraction, chip, tiling))
    return CubeKernel(name, text, contraction, options, tiling, chip)


def _name(c: Contraction, t: CubeTiling, options: CubeOptions) -> str:
    """A name that is the same wherever the source is."""
    parts = (
        VERSION,
        c.dtype,
        c.out,
        c.transpose_a,
        c.transpose_b,
        c.bias,
        c.relu,
        c.names,
        options,
    )
    digest = hashlib.sha256(repr(parts).encode()).hexdigest()[:8]
    layout = ("t" if c.transpose_a else "n") + ("t" if c.transpose_b else "n")
    return f"matmul_{layout}_{c.dtype}_{digest}"


def _summary(c: Contraction, chip: Chip, t: CubeTiling) -> list[str]:
    """The comment at the top of the source."""
    a, b, out, bias = c.names
    product = f"{a}{'.T' if c.transpose_a else ''} @ {b}{'.T' if c.transpose_b else ''}"
    expression = f"{product} + {bias}" if c.bias else product
    if c.relu:
        expression = f"max({expression}, 0)"
    batch = f"{c.batch} x " if c.batch > 1 else ""
    lines = [
        f"{out} = {expression}",
        f"{a} {batch}{c.m} x {c.k} {c.dtype}, {b} {batch}{c.k} x {c.n} {c.dtype}, "
        f"{out} {batch}{c.m} x {c.n} {c.out}, summed in {c.accumulator}; sizes and tiling are arguments, "
        "for example:",
        f"{chip.name}: " + str(t).replace("\n", "\n// "),
    ]
    return "\n// ".join(lines).replace("// ", "").split("\n")
