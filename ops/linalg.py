"""Linear algebra. Factorisations run on the host, by LAPACK through NumPy; norms are operations like others.

Integers become the default float; float16 and bfloat16 are computed in float32 and rounded once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from . import _graph, dtypes, host, reduction, storage
from .arguments import Axes, Shape, as_axes, as_int, as_tensor, cast
from .creation import eye
from .errors import ArgumentError, ShapeError
from .matmul import matmul, outer, tensordot, vecdot
from .primitives import ABS, SQRT
from .registry import operation
from .view import broadcast_to, reshape_to, transposed

Array = host.Array


def _matrices(operation: str, x: Any, square: bool = False) -> Any:
    """A tensor of matrices in a float dtype."""
    x = as_tensor(x, operation)
    if x.ndim < 2 or (square and x.shape[-1] != x.shape[-2]):
        raise ShapeError(
            f"[{operation}] expected {'square ' if square else ''}matrices, given shape {x.shape}"
        )
    return cast(x, dtypes.floating(x.dtype))


def _lapack(name: str, operands: tuple[Any, ...], shape: Shape) -> Any:
    return host.call("linalg_on_host", operands, shape, operands[0].dtype, name)


@host.host_function
def linalg_on_host(*arguments: Any) -> Array:
    """One function of `numpy.linalg` with one result."""
    *operands, name = arguments
    dtype = operands[0].dtype
    return np.asarray(getattr(np.linalg, name)(*map(_wide, operands))).astype(dtype, copy=False)


def _wide(x: Array) -> Array:
    return x.astype(np.float32) if dtypes.is_narrow(x.dtype) else x


def _parts(x: Any, found: Any) -> tuple[Any, ...]:
    """Several results as tensors of x's dtype."""
    return tuple(host.from_array(np.asarray(part).astype(x.dtype, copy=False)) for part in found)


# --- one result: recorded -----------------------------------------------------------------------------------
@operation(np.linalg.inv, namespace="linalg")
def inv(x: Any, /) -> Any:
    """The inverse of square matrices, shape (..., n, n).

    A singular one raises LinAlgError when it is computed.
    """
    x = _matrices("inv", x, square=True)
    return _lapack("inv", (x,), x.shape)


@operation(np.linalg.det, namespace="linalg")
def det(x: Any, /) -> Any:
    """The determinant of square matrices, shape (..., n, n)."""
    x = _matrices("det", x, square=True)
    return _lapack("det", (x,), x.shape[:-2])


@operation(np.linalg.cholesky, namespace="linalg")
def cholesky(x: Any, /) -> Any:
    """The lower Cholesky factor of symmetric positive definite matrices, shape (..., n, n)."""
    x = _matrices("cholesky", x, square=True)
    return _lapack("cholesky", (x,), x.shape)


@operation(np.linalg.pinv, namespace="linalg")
def pinv(x: Any, /) -> Any:
    """The Moore-Penrose inverse of matrices, shape (..., n, m); the result is (..., m, n)."""
    x = _matrices("pinv", x)
    return _lapack("pinv", (x,), (*x.shape[:-2], x.shape[-1], x.shape[-2]))


@operation(np.linalg.svdvals, namespace="linalg")
def svdvals(x: Any, /) -> Any:
    """The singular values of matrices, shape (..., n, m), in descending order."""
    x = _matrices("svdvals", x)
    return _lapack("svdvals", (x,), (*x.shape[:-2], min(x.shape[-2:])))


@operation(np.linalg.eigvalsh, namespace="linalg")
def eigvalsh(x: Any, /) -> Any:
    """The eigenvalues of symmetric matrices, shape (..., n, n), in ascending order."""
    x = _matrices("eigvalsh", x, square=True)
    return _lapack("eigvalsh", (x,), x.shape[:-1])


@operation(np.linalg.solve, namespace="linalg")
def solve(x1: Any, x2: Any, /) -> Any:
    """The solution of ``x1 @ y = x2``.

    Parameters
    ----------
    x1 : array-like, shape (..., n, n)
    x2 : array-like, shape (n,) or (..., n, k)

    Returns
    -------
    tensor
        Of x2's shape but for leading axes, which are broadcast.
        A singular x1 raises LinAlgError when it is computed.
    """
    x1 = _matrices("solve", x1, square=True)
    x2 = as_tensor(x2, "solve")
    dtype = dtypes.floating(dtypes.result_type(x1, x2))
    rows = x2.shape[-1 if x2.ndim == 1 else -2] if x2.ndim else -1
    if rows != x1.shape[-1]:
        raise ShapeError(f"[solve] expected as many rows in both, given shapes {x1.shape} and {x2.shape}")
    x1, x2 = cast(x1, dtype), cast(x2, dtype)
    if x2.ndim == 1:
        return _lapack("solve", (x1, x2), x1.shape[:-1])
    batch = np.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    return _lapack("solve", (x1, x2), (*batch, *x2.shape[-2:]))


# --- several results: sync points ---------------------------------------------------------------------------
class EighResult(NamedTuple):
    eigenvalues: Any
    eigenvectors: Any


class QRResult(NamedTuple):
    Q: Any
    R: Any


class SVDResult(NamedTuple):
    U: Any
    S: Any
    Vh: Any


class SlogdetResult(NamedTuple):
    sign: Any
    logabsdet: Any


@operation(np.linalg.eigh, namespace="linalg")
def eigh(x: Any, /) -> EighResult:
    """Eigenvalues, ascending, and eigenvectors of symmetric matrices, shape (..., n, n). A sync point."""
    x = _matrices("eigh", x, square=True)
    return EighResult(*_parts(x, np.linalg.eigh(_wide(host.values(x)))))


@operation(np.linalg.qr, namespace="linalg")
def qr(x: Any, /, *, mode: Any = "reduced") -> QRResult:
    """The QR factors of matrices, shape (..., n, m), reduced or ``mode="complete"``. A sync point."""
    if mode not in ("reduced", "complete"):
        raise ArgumentError(f"[qr] expected mode 'reduced' or 'complete', given {mode!r}")
    x = _matrices("qr", x)
    return QRResult(*_parts(x, np.linalg.qr(_wide(host.values(x)), mode)))


@operation(np.linalg.svd, namespace="linalg")
def svd(x: Any, /, *, full_matrices: bool = True) -> SVDResult:
    """The singular value decomposition of matrices, shape (..., n, m). A sync point."""
    x = _matrices("svd", x)
    return SVDResult(*_parts(x, np.linalg.svd(_wide(host.values(x)), full_matrices)))


@operation(np.linalg.slogdet, namespace="linalg")
def slogdet(x: Any, /) -> SlogdetResult:
    """Sign and logarithm of the absolute determinant of square matrices, shape (..., n, n). A sync point."""
    x = _matrices("slogdet", x, square=True)
    return SlogdetResult(*_parts(x, np.linalg.slogdet(_wide(host.values(x)))))


# --- norms and powers ---------------------------------------------------------------------------------------
@operation(np.linalg.vector_norm, namespace="linalg")
def vector_norm(x: Any, /, *, axis: Axes = None, keepdims: bool = False, ord: float = 2) -> Any:
    """The norm of vectors along axes.

    Parameters
    ----------
    x : array-like
    axis : int or tuple of int, optional
        None takes x as one vector.
    keepdims : bool
    ord : float
        2 by default; ``inf`` and ``-inf`` are the greatest and least absolute value, 0 counts what is not
        zero.

    Returns
    -------
    tensor
    """
    x = as_tensor(x, "vector_norm")
    x = cast(x, dtypes.floating(x.dtype))
    wide = dtypes.float32 if dtypes.is_narrow(x.dtype) else x.dtype
    size = _graph.unary(ABS, cast(x, wide), wide)
    if ord in (np.inf, -np.inf):
        result = (reduction.max if ord > 0 else reduction.min)(size, axis, keepdims=keepdims)
    elif ord == 0:
        result = reduction.count_nonzero(size, axis, keepdims=keepdims)
    elif ord == 1:
        result = reduction.sum(size, axis, keepdims=keepdims)
    elif ord == 2:
        result = _graph.unary(SQRT, reduction.sum(size * size, axis, keepdims=keepdims), wide)
    else:
        result = reduction.sum(size**ord, axis, keepdims=keepdims) ** (1.0 / ord)
    return cast(result, x.dtype)


@operation(np.linalg.matrix_norm, namespace="linalg")
def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """The norm of matrices.

    Parameters
    ----------
    x : array-like, shape (..., n, m)
    keepdims : bool
    ord : {"fro", "nuc", 1, -1, 2, -2, inf, -inf}

    Returns
    -------
    tensor
    """
    x = _matrices("matrix_norm", x)
    if ord == "fro":
        return vector_norm(x, axis=(-2, -1), keepdims=keepdims)
    if ord in (1, -1, np.inf, -np.inf):
        along = -2 if abs(ord) == 1 else -1
        sums = vector_norm(x, axis=along, keepdims=True, ord=1)
        return (reduction.max if ord > 0 else reduction.min)(sums, (-2, -1), keepdims=keepdims)
    if ord not in ("nuc", 2, -2):
        raise ArgumentError(f"[matrix_norm] expected 'fro', 'nuc', 1, -1, 2, -2, inf or -inf, given {ord!r}")
    values = svdvals(x)
    result = (reduction.sum if ord == "nuc" else reduction.max if ord > 0 else reduction.min)(values, -1)
    return result[..., None, None] if keepdims else result


@operation(np.linalg.norm, namespace="linalg")
def norm(x: Any, ord: Any = None, axis: Axes = None, keepdims: bool = False) -> Any:
    """The norm of vectors (one axis) or of matrices (two axes).

    Parameters
    ----------
    x : array-like
    ord : float or str, optional
        See `vector_norm` and `matrix_norm`. None is the 2-norm of the elements.
    axis : int or pair of int, optional
        None takes all of x: as a vector without `ord`, else as the vector or matrix that it is.
    keepdims : bool

    Returns
    -------
    tensor
    """
    x = as_tensor(x, "norm")
    if ord is None:
        return vector_norm(x, axis=axis, keepdims=keepdims)
    axes = as_axes(axis, x.ndim, "norm")
    if len(axes) == 1:
        return vector_norm(x, axis=axes, keepdims=keepdims, ord=ord)
    if len(axes) != 2:
        raise ShapeError(f"[norm] expected one axis or two, given shape {x.shape} and axis {axis}")
    others = [k for k in range(x.ndim) if k not in axes]
    result = matrix_norm(transposed(x, (*others, *axes)), ord=ord)
    if not keepdims:
        return result
    return reshape_to(result, tuple(1 if k in axes else n for k, n in enumerate(x.shape)))


@operation(np.linalg.matrix_power, namespace="linalg")
def matrix_power(x: Any, n: int, /) -> Any:
    """Square matrices, shape (..., k, k), to the power n; their inverses where n is negative."""
    x = as_tensor(x, "matrix_power")
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ShapeError(f"[matrix_power] expected square matrices, given shape {x.shape}")
    times = as_int(n, "matrix_power", "n")
    if times < 0:
        x, times = inv(x), -times
    if times == 0:
        return storage.copy(broadcast_to(eye(x.shape[-1], dtype=x.dtype), x.shape))
    given, result = x, None
    while times:
        if times % 2:
            result = x if result is None else matmul(result, x)
        times //= 2
        x = matmul(x, x) if times else x
    return storage.copy(result) if result is given else result


for _function in (matmul, outer, tensordot, vecdot):
    operation(getattr(np.linalg, _function.__name__), namespace="linalg")(_function)
