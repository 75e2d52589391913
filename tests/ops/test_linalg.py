"""Linear algebra against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pytest

import pyasc as pa

Mistakes = Callable[..., AbstractContextManager[Any]]
RNG = np.random.default_rng(0)
SQUARE = RNG.standard_normal((2, 4, 4)) + 4 * np.eye(4)
SYMMETRIC = SQUARE @ SQUARE.mT
WIDE = RNG.standard_normal((3, 4))


def close(ours: Any, theirs: Any) -> None:
    assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["inv", "det", "pinv", "svdvals", "slogdet", "qr", "svd"])
def test_of_any(name: str) -> None:
    ours = getattr(pa.linalg, name)(pa.asarray(SQUARE))
    theirs = getattr(np.linalg, name)(SQUARE)
    for a, b in zip(ours, theirs, strict=True) if isinstance(theirs, tuple) else [(ours, theirs)]:
        close(a, b)


@pytest.mark.parametrize("name", ["cholesky", "eigvalsh", "eigh"])
def test_of_symmetric(name: str) -> None:
    ours = getattr(pa.linalg, name)(pa.asarray(SYMMETRIC))
    theirs = getattr(np.linalg, name)(SYMMETRIC)
    for a, b in zip(ours, theirs, strict=True) if isinstance(theirs, tuple) else [(ours, theirs)]:
        close(a, b)


@pytest.mark.parametrize(
    "right", [WIDE[0], WIDE.T, RNG.standard_normal((2, 4, 3))], ids=["vector", "matrix", "batch"]
)
def test_solve(right: Any) -> None:
    close(pa.linalg.solve(pa.asarray(SQUARE), pa.asarray(right)), np.linalg.solve(SQUARE, right))


@pytest.mark.parametrize("order", [None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf])
def test_norms_of_matrices(order: Any) -> None:
    close(pa.linalg.norm(pa.asarray(WIDE), order), np.asarray(np.linalg.norm(WIDE, order)))
    if order is not None:
        cube = RNG.standard_normal((2, 3, 4))
        for keep in (False, True):
            close(
                pa.linalg.norm(pa.asarray(cube), order, (0, 2), keep),
                np.linalg.norm(cube, order, (0, 2), keep),
            )


@pytest.mark.parametrize("order", [None, 0, 1, 2, 3, 0.5, np.inf, -np.inf])
def test_norms_of_vectors(order: Any) -> None:
    close(pa.linalg.norm(pa.asarray(WIDE), order, 1), np.linalg.norm(WIDE, order, 1))


@pytest.mark.parametrize("n", [-2, 0, 1, 2, 5])
def test_powers(n: int) -> None:
    close(pa.linalg.matrix_power(pa.asarray(SQUARE), n), np.linalg.matrix_power(SQUARE, n))


def test_halves_and_integers() -> None:
    assert pa.linalg.inv(pa.eye(3, dtype="bfloat16")).dtype == pa.bfloat16
    assert pa.linalg.det(pa.eye(3, dtype="int32")).dtype == np.float32
    assert float(pa.linalg.norm(pa.full(70000, 1.0, dtype="float16"))) == 264.5


def test_errors(mistake: Mistakes) -> None:
    with mistake(ValueError, "[inv]", "square matrices", "(3, 4)"):
        pa.linalg.inv(pa.asarray(WIDE))
    with mistake(ValueError, "[solve]", "as many rows"):
        pa.linalg.solve(pa.asarray(SQUARE), pa.zeros(3))
    with mistake(ValueError, "[matrix_norm]", "'max'"):
        pa.linalg.matrix_norm(pa.asarray(WIDE), ord="max")
    with pytest.raises(np.linalg.LinAlgError):
        np.asarray(pa.linalg.inv(pa.zeros((2, 2))))
