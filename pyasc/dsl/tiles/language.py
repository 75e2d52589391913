"""What tile-style kernels say: sizes of tiles, buffers, copies, and computation on whole tiles.

In a kernel these are compiled (statements.py, buffers.py). A buffer has the dtype and the row length of what
is first written to it, and after each write as many elements as that had: the last tile of an axis may be
shorter.
"""

from __future__ import annotations

from typing import Any, NoReturn, overload

from ...ops.errors import KernelError


def _only_in_kernels(name: str) -> NoReturn:
    raise KernelError(f"[{name}] expected to be called in a kernel, given a call from Python")


@overload
def auto_tiling(size: int, /, *, dtype: Any = None) -> int: ...
@overload
def auto_tiling(*sizes: int, dtype: Any = None) -> tuple[int, ...]: ...
def auto_tiling(*sizes: int, dtype: Any = None) -> Any:
    """Sizes of tiles that suit the chip, the same for all sizes of a range.

    Parameters
    ----------
    *sizes : int
        One: elements. Two: rows and columns. Three: m, n and k of a product of matrices.
    dtype : dtype, optional
        Of the tiles; float32, for products float16.

    Returns
    -------
    int or tuple of int
        A power of two for each size, which need not be a multiple of it. Buffers of up to eight tiles fit the
        unified buffer; of a product, two tiles of each operand fit L0, and one of the result L0C.

    Raises
    ------
    KernelError
        For a size below 0, or one that is not made of arguments, sizes and literals.
    """
    return _only_in_kernels("auto_tiling")


def alloc(position: str, size: int | tuple[int, ...], dtype: Any = None) -> Any:
    """A buffer on the chip, for a tile. It lives from its first use to its last.

    Parameters
    ----------
    position : str
        ``"UB"`` (also ``"VECIN"``, ``"VECOUT"``, ``"VECCALC"``, ``"CO2"``); for products ``"A1"``, ``"B1"``
        or ``"C1"`` (L1), ``"A2"`` (L0A), ``"B2"`` (L0B), ``"CO1"`` (L0C).
    size : int or tuple of int
        Bytes; or a shape, with a dtype. Known when the kernel is compiled.
    dtype : dtype, optional

    Returns
    -------
    buffer
        What is read of it before it was written is 0.

    Raises
    ------
    KernelError
        For an unknown position, a size that is not positive, and where buffers that live at the same time
        take more than the position holds.
    """
    return _only_in_kernels("alloc")


def dma_copy(dst: Any, src: Any) -> None:
    """Copy a tile between an array and a buffer, or from buffer to buffer.

    Parameters
    ----------
    dst, src : slice of an array, array, or buffer
        ``a[i : i + t]`` or ``a[i : i + s, j : j + t]``; a slice ends where the array ends. As much is copied
        as both have. The accumulators of a product ("CO1") are rounded to the array's dtype.

    Raises
    ------
    KernelError
        For two arrays, other dtypes, a slice that is larger than the buffer or whose length is not known when
        the kernel is compiled, a buffer that was not written.
    """
    _only_in_kernels("dma_copy")


def elementwise(op: str, out: Any, *inputs: Any) -> None:
    """Compute a tile element by element.

    Parameters
    ----------
    op : str
        A function of the op table that is a primitive, in any case: ``"ADD"``, ``"sub"``, ``"maximum"``,
        ``"EXP"``, ``"LN"``, ``"RELU"``…
    out : buffer
    *inputs : buffer or number
        As many as the operation takes, all of one dtype; then, if not all elements are meant, how many.

    Raises
    ------
    KernelError
        For an unknown operation, a wrong number of inputs, dtypes that differ or that it does not take, more
        elements than the buffer holds.
    """
    _only_in_kernels("elementwise")


def reduce(how: str, out: Any, x: Any, *counts: int) -> None:
    """Reduce each row of a tile to one element.

    Parameters
    ----------
    how : str
        ``"add"`` (``"sum"``), ``"mul"`` (``"prod"``), ``"max"``, ``"min"``, ``"and"``, ``"or"``. Sums of
        float16 and bfloat16 are float32 until they are complete.
    out : buffer
        One element for each row.
    x : buffer
    *counts : int
        Elements of a row; or rows and elements of a row; or nothing, for all that there are.

    Raises
    ------
    KernelError
        For an unknown reduction, or more than the buffers hold.
    """
    _only_in_kernels("reduce")


def cast(out: Any, x: Any, n: int | None = None, dtype: Any = None) -> None:
    """Convert a tile to another dtype: that of the buffer, which is `dtype`, or that of the array that it is
    copied to.

    Parameters
    ----------
    out, x : buffer
    n : int, optional
        Elements.
    dtype : dtype, optional

    Raises
    ------
    KernelError
        Where the dtype is not known.
    """
    _only_in_kernels("cast")
