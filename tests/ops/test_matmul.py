"""Products that sum: shapes, layouts, dtypes, accumulation; einsum's subscripts; errors."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pytest

import pyasc as pa
from pyasc.backend.cpu import blas

Mistakes = Callable[..., AbstractContextManager[Any]]
RNG = np.random.default_rng(0)
SHAPES = [
    ((3, 4), (4, 5)),
    ((2, 3, 4), (4, 5)),
    ((4,), (2, 4, 3)),
    ((2, 1, 3, 4), (5, 4, 2)),
    ((3, 4), (4,)),
    ((1, 1), (1, 7)),
]
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


def whole(shape: tuple[int, ...], dtype: Any, full: bool = False) -> Any:
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return RNG.random(shape) < 0.3
    limits = np.iinfo(dtype)
    low, high = (limits.min, limits.max) if full else (max(limits.min, -9), 9)
    return RNG.integers(low, high, shape, dtype, endpoint=True)


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_matmul(shapes: Any, dtype: str) -> None:
    a, b = (RNG.standard_normal(s).astype(dtype) for s in shapes)
    ours = pa.asarray(a) @ pa.asarray(b)
    assert ours.dtype == np.dtype(dtype)
    np.testing.assert_allclose(ours, a @ b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [*INTEGERS, "bool"])
@pytest.mark.parametrize("full", [False, True])
def test_integers_are_exact(dtype: str, full: bool) -> None:
    for shapes in (*SHAPES, ((40, 60), (60, 50))):
        a, b = (whole(s, dtype, full) for s in shapes)
        np.testing.assert_array_equal(pa.asarray(a) @ pa.asarray(b), a @ b)


@pytest.mark.parametrize("dtype", [*INTEGERS, "bool"])
@pytest.mark.parametrize("full", [False, True])
def test_integers_through_blas(dtype: str, full: bool) -> None:
    a, b = whole((70, 130), dtype, full), whole((2, 130, 60), dtype, full)
    out = np.empty((2, 70, 60), dtype)
    blas.matmul(a, b, out)
    np.testing.assert_array_equal(out, a @ b)


def test_layouts_through_blas() -> None:
    a, b = RNG.standard_normal((40, 60)), RNG.standard_normal((60, 50))
    for x, y in (
        (b.T, a.T),
        (a[:, ::2], b[::2]),
        (a[::-1], b[:, ::-1]),
        (a[:, :7], b[:7]),
        (np.broadcast_to(a[:1], a.shape), b),
    ):
        out = np.empty((x.shape[0], y.shape[1]))
        blas.matmul(x, y, out)
        np.testing.assert_allclose(out, x.copy() @ y.copy(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_accumulate_wide(dtype: str) -> None:
    ones = pa.ones((1, 5000), dtype=dtype)
    for product in (
        ones @ ones.T,
        pa.vdot(ones, ones),
        pa.einsum("ij,kj->ik", ones, ones),
        pa.vecdot(ones, ones),
    ):
        assert product.dtype == ones.dtype
        expected = np.asarray(5000.0).astype(ones.dtype)
        assert np.asarray(product).ravel()[0] == expected


def test_layouts() -> None:
    a, b = RNG.standard_normal((6, 8)), RNG.standard_normal((6, 8))
    x, y = pa.asarray(a), pa.asarray(b)
    np.testing.assert_allclose(x.T @ y, a.T @ b)
    np.testing.assert_allclose(x[::2, ::-1] @ y[:3].T, a[::2, ::-1] @ b[:3].T)
    np.testing.assert_allclose(x @ x.T, a @ a.T)
    np.testing.assert_allclose(pa.broadcast_to(x[0], (3, 8)) @ y.T, np.broadcast_to(a[0], (3, 8)) @ b.T)


def test_what_is_around_a_product() -> None:
    a, w, b = (RNG.standard_normal(s).astype(np.float32) for s in ((5, 7), (7, 3), (3,)))
    x = pa.asarray(a)
    np.testing.assert_allclose(
        pa.maximum((x * 2) @ pa.asarray(w) + b, 0), np.maximum((a * 2) @ w + b, 0), rtol=1e-5, atol=1e-6
    )
    c = x @ w
    x[...] = 0  # the product keeps the version that it was recorded with
    np.testing.assert_allclose(c, a @ w, rtol=1e-5, atol=1e-6)


def test_empty() -> None:
    np.testing.assert_array_equal(pa.zeros((2, 0)) @ pa.zeros((0, 3)), np.zeros((2, 3)))
    assert (pa.zeros((0, 4)) @ pa.zeros((4, 3))).shape == (0, 3)
    assert float(pa.zeros(0) @ pa.zeros(0)) == 0
    np.testing.assert_array_equal(pa.einsum("ij,i->j", pa.zeros((0, 2)), pa.zeros(0)), np.zeros(2))


def test_promotion() -> None:
    assert (pa.ones((2, 2), dtype="int64") @ pa.ones((2, 2), dtype="float32")).dtype == np.float32
    assert (pa.ones((2, 2), dtype="int8") @ pa.ones((2, 2), dtype="int16")).dtype == np.int16
    assert (np.ones((2, 2), np.float32) @ pa.ones((2, 2))).dtype == np.float32


@pytest.mark.parametrize(
    ("name", "shapes", "options"),
    [
        ("dot", ((4,), (4,)), {}),
        ("dot", ((2, 3, 4), (5, 4, 2)), {}),
        ("dot", ((3, 4), ()), {}),
        ("inner", ((2, 3), (4, 3)), {}),
        ("vdot", ((2, 3), (6,)), {}),
        ("outer", ((2, 3), (4,)), {}),
        ("kron", ((2, 3), (3, 2)), {}),
        ("kron", ((2, 1, 3), (2,)), {}),
        ("tensordot", ((2, 3, 4), (3, 4, 5)), {}),
        ("tensordot", ((2, 3, 4), (4, 2, 5)), {"axes": ((0, 2), (1, 0))}),
        ("tensordot", ((2, 3), (4,)), {"axes": 0}),
        ("tensordot", ((2, 3), (3, 2)), {"axes": ([0, 1], [1, 0])}),
        ("vecdot", ((2, 3, 4), (4,)), {}),
    ],
)
@pytest.mark.parametrize("dtype", ["int32", "float64"])
def test_kin(name: str, shapes: Any, options: Any, dtype: str) -> None:
    a, b = (RNG.integers(-9, 9, s).astype(dtype) for s in shapes)
    if name == "vdot":
        expected: Any = np.vdot(a.ravel(), b.ravel())
    else:
        expected = getattr(np, name)(a, b, **options)
    ours = getattr(pa, name)(pa.asarray(a), pa.asarray(b), **options)
    assert ours.dtype == expected.dtype and ours.shape == expected.shape
    np.testing.assert_array_equal(ours, expected)


SUBSCRIPTS = [
    ("ij,jk->ik", (3, 4), (4, 5)),
    ("ij,jk", (3, 4), (4, 5)),
    ("ii", (4, 4)),
    ("ii->i", (4, 4)),
    ("iij->j", (3, 3, 2)),
    ("ij->ji", (3, 4)),
    ("ij->", (3, 4)),
    ("i,j", (3,), (4,)),
    ("i,->i", (3,), ()),
    ("ij,ij->i", (3, 4), (3, 4)),
    ("ij,j", (3, 4), (4,)),
    ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
    ("bi,bj,bk->ijk", (2, 3), (2, 4), (2, 5)),
    ("...ij,...jk->...ik", (2, 1, 3, 4), (5, 4, 2)),
    ("...i->...", (2, 3)),
    ("ij...,jk...->ik...", (2, 3, 4), (3, 2, 4)),
    ("ij,jk,kl->il", (3, 4), (4, 5), (5, 2)),
    ("ij,jk,kl,lm", (3, 4), (4, 5), (5, 2), (2, 3)),
    ("abc,cd,abe->de", (2, 3, 4), (4, 5), (2, 3, 2)),
    ("ij,kj->ik", (3, 1), (2, 4)),
    ("a,ab,abc->abc", (2,), (2, 3), (2, 3, 4)),
    ("ij , jk -> k i", (3, 4), (4, 5)),
    ("ijkl,klij->", (2, 3, 2, 3), (2, 3, 2, 3)),
]


@pytest.mark.parametrize("case", SUBSCRIPTS, ids=lambda c: c[0])
def test_einsum(case: Any) -> None:
    text, *shapes = case
    arrays = [RNG.integers(-4, 5, s) for s in shapes]
    expected = np.einsum(text, *arrays)
    for optimize in (True, False, "greedy"):
        ours = pa.einsum(text, *map(pa.asarray, arrays), optimize=optimize)
        np.testing.assert_array_equal(ours, expected)
        assert ours.dtype == expected.dtype and ours.shape == expected.shape
    turned = [pa.asarray(a.T.copy()).T for a in arrays]
    np.testing.assert_array_equal(pa.einsum(text, *turned), expected)


def test_einsum_with_lists() -> None:
    a, b = RNG.integers(0, 9, (3, 4)), RNG.integers(0, 9, (4, 2))
    np.testing.assert_array_equal(pa.einsum(a, [0, 1], b, [1, 2], [2, 0]), (a @ b).T)
    np.testing.assert_array_equal(pa.einsum(a, [0, 1], b, [1, 2]), a @ b)


def test_errors(mistake: Mistakes) -> None:
    x, y = pa.zeros((2, 3)), pa.zeros((4, 5))
    with mistake(ValueError, "[matmul]", "(2, 3) and (4, 5)"):
        x @ y
    with mistake(ValueError, "[matmul]", "one dimension at least"):
        pa.matmul(x, 1.0)
    with mistake(ValueError, "[matmul]", "broadcast"):
        pa.zeros((2, 3, 3)) @ pa.zeros((4, 3, 3))
    with mistake(ValueError, "[dot]", "(2, 3) and (4, 5)"):
        pa.dot(x, y)
    with mistake(ValueError, "[tensordot]", "given 3"):
        pa.tensordot(x, y, 3)
    with mistake(ValueError, "[vdot]", "6 and 20"):
        pa.vdot(x, y)
    with mistake(ValueError, "[einsum]", "one length for 'j'"):
        pa.einsum("ij,jk", x, y)
    with mistake(ValueError, "[einsum]", "3 dimensions for 'ijk'"):
        pa.einsum("ijk", x)
    with mistake(ValueError, "[einsum]", "each letter of the result once"):
        pa.einsum("ij->ii", x)
    with mistake(ValueError, "[einsum]", "a term for each of 1 operands"):
        pa.einsum("ij,jk", x)
