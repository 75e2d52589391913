"""Matrix products of buffers.

float32 and float64 go to BLAS without copies: transposed and row-strided operands are passed as they lie. The
BLAS is the one that NumPy ships, OpenBLAS, which measured fastest on AMD; on Intel processors MKL is faster
and is used where the ``mkl`` package is installed. ``PYASC_BLAS=numpy`` or ``mkl`` overrides the choice.

Integers are exact and wrap: a product whose sums fit the mantissa of a float dtype is done by BLAS in that
dtype, 32-bit integers otherwise in halves, 64-bit ones by NumPy's loops. float16 and bfloat16 accumulate in
float32.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from functools import cache
from itertools import product as combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

# Below this many multiplications converting integers costs more than NumPy's loops.
_SMALL = 32**3
# Below this many MKL's call through ctypes costs more than it saves.
_MKL_FROM = 128**3


def matmul(a: Array, b: Array, out: Array) -> None:
    """Write the matrix product of a and b to out.

    Parameters
    ----------
    a : array, shape (..., n, k)
    b : array, shape (..., k, m)
        Of a's dtype. Leading axes are broadcast; strides may be any, those of transposes and row slices cost
        nothing.
    out : array, shape (..., n, m)
        C-contiguous, of the same dtype.
    """
    dtype = out.dtype
    if dtype.kind == "f" and dtype.itemsize >= 4:
        _float_product(a, b, out)
    elif dtype.kind == "b":
        np.greater(_product(a, b, np.float32), 0, out=out)
    elif dtype.kind in "iu":
        _integer_product(a, b, out)
    else:
        out[...] = _product(a, b, np.float32).astype(dtype)


def _product(a: Array, b: Array, dtype: Any) -> Array:
    """The product computed in a float dtype."""
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    out = np.empty((*batch, a.shape[-2], b.shape[-1]), dtype)
    _float_product(a.astype(dtype), b.astype(dtype), out)
    return out


def _float_product(a: Array, b: Array, out: Array) -> None:
    mkl = _mkl()
    if mkl is None or a.shape[-2] * a.shape[-1] * b.shape[-1] < _MKL_FROM:
        np.matmul(a, b, out=out)
        return
    batch = out.shape[:-2]
    a, b = np.broadcast_to(a, (*batch, *a.shape[-2:])), np.broadcast_to(b, (*batch, *b.shape[-2:]))
    for index in combinations(*map(range, batch)):
        mkl.product(a[index], b[index], out[index])


def _integer_product(a: Array, b: Array, out: Array) -> None:
    if out.size * a.shape[-1] < _SMALL:
        np.matmul(a, b, out=out)
        return
    if not a.size or not b.size:
        out[...] = 0
        return
    largest = a.shape[-1] * _magnitude(a) * _magnitude(b)
    if largest <= 2**24:
        _store(_product(a, b, np.float32), out)
    elif largest <= 2**53:
        _store(_product(a, b, np.float64), out)
    elif out.dtype.itemsize == 4 and a.shape[-1] < 2**20:
        # Modulo 2**32: low·low + (high·low + low·high)·2**16, each sum within float64's mantissa.
        (a_high, a_low), (b_high, b_low) = ((x >> 16, x & 0xFFFF) for x in (a, b))
        low = _product(a_low, b_low, np.float64).astype(np.int64)
        cross = _product(a_high, b_low, np.float64) + _product(a_low, b_high, np.float64)
        out[...] = (low + (cross.astype(np.int64) << 16)).astype(out.dtype)
    else:
        np.matmul(a, b, out=out)


def _magnitude(x: Array) -> int:
    """The largest absolute value; of 8-bit integers the largest that they could have."""
    if x.dtype.itemsize == 1:
        return 255 if x.dtype.kind == "u" else 128
    return max(abs(int(x.min())), abs(int(x.max())))


def _store(product: Array, out: Array) -> None:
    """Whole numbers as integers; narrow ones wrap, which a cast from float does not."""
    out[...] = (
        product.astype(np.int64).astype(out.dtype) if out.dtype.itemsize < 8 else product.astype(np.int64)
    )


# --- threads ------------------------------------------------------------------------------------------------
def set_threads(count: int) -> None:
    """Let BLAS use so many threads, NumPy's own calls included: the library is one for the process."""
    for set_count in _thread_setters():
        set_count(count)


@cache
def _thread_setters() -> tuple[Callable[[int], Any], ...]:
    found = []
    for path in Path(np.__file__).parent.parent.glob("numpy.libs/libscipy_openblas*"):
        library = ctypes.CDLL(str(path))
        for name in ("scipy_openblas_set_num_threads64_", "scipy_openblas_set_num_threads"):
            if hasattr(library, name):
                found.append(getattr(library, name))
    mkl = _mkl()
    return (*found, mkl.set_threads) if mkl else tuple(found)


# --- MKL ----------------------------------------------------------------------------------------------------
class _Mkl:
    """``cblas_?gemm`` of an MKL that was installed as a Python package."""

    def __init__(self, path: Path) -> None:
        library = ctypes.CDLL(str(path))
        size, pointer = ctypes.c_int64, ctypes.c_void_p
        self._gemm = {}
        for dtype, name, real in (
            (np.float32, "cblas_sgemm_64", ctypes.c_float),
            (np.float64, "cblas_dgemm_64", ctypes.c_double),
        ):
            function = getattr(library, name)
            function.restype = None
            function.argtypes = (
                [ctypes.c_int] * 3 + [size] * 3 + [real, pointer, size, pointer, size, real, pointer, size]
            )
            self._gemm[np.dtype(dtype)] = function
        self.set_threads: Callable[[int], Any] = library.MKL_Set_Num_Threads

    def product(self, a: Array, b: Array, out: Array) -> None:
        """The product of two matrices, written to out."""
        (a, a_trans, a_step), (b, b_trans, b_step) = _as_lies(a), _as_lies(b)
        (n, k), m = a.shape, b.shape[1]
        row_major = 101
        self._gemm[out.dtype](
            row_major,
            a_trans,
            b_trans,
            n,
            m,
            k,
            1.0,
            a.ctypes.data,
            a_step,
            b.ctypes.data,
            b_step,
            0.0,
            out.ctypes.data,
            m,
        )


def _as_lies(x: Array) -> tuple[Array, int, int]:
    """A matrix that BLAS can read, whether it lies transposed, and the step from row to row of memory."""
    size = x.itemsize
    for rows, columns, trans in ((0, 1, 111), (1, 0, 112)):
        step = x.strides[rows] // size
        if x.strides[columns] == size and step >= max(x.shape[columns], 1) and x.strides[rows] % size == 0:
            return x, trans, step
    return np.ascontiguousarray(x), 111, max(x.shape[1], 1)


@cache
def _mkl() -> _Mkl | None:
    """MKL, where it is installed and is the better choice."""
    choice = os.environ.get("PYASC_BLAS", "")
    if choice == "numpy" or (choice != "mkl" and "GenuineIntel" not in _processor()):
        return None
    for path in sorted(Path(sys.prefix, "lib").glob("libmkl_rt.so.*")):
        try:
            return _Mkl(path)
        except (OSError, AttributeError):  # not this machine's, or older than the 64-bit names
            continue
    return None


def _processor() -> str:
    try:
        return Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")[:4096]
    except OSError:
        return ""
