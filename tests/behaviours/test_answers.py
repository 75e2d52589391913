"""Answers: sizes, layouts, aliasing, empties and what a scalar may not do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pyasc

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
DTYPES = [
    np.dtype(d) for d in ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
]
DTYPES += [np.dtype("float16"), BFLOAT16, np.dtype("float32"), np.dtype("float64")]
LAST = (*range(1, 34), 255, 257, 1023)


def ids(dtype: np.dtype[Any]) -> str:
    return dtype.name


def draw(shape: tuple[int, ...], dtype: np.dtype[Any], seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 2 if dtype.kind == "b" else 10, shape).astype(dtype)


def same(tensor: Any, array: Any) -> None:
    given = np.asarray(tensor)
    assert given.dtype == array.dtype
    np.testing.assert_array_equal(given, array)


# --- last dimensions ------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", DTYPES, ids=ids)
def test_last_dimensions(dtype: np.dtype[Any]) -> None:
    for n in LAST:
        a, b = draw((3, n), dtype, n), draw((3, n), dtype, n + 1)
        x, y = pyasc.array(a), pyasc.array(b)
        same(pyasc.maximum(x, y) * y, np.maximum(a, b) * b)
        same(x.max(axis=1), a.max(axis=1))
        same(x.max(axis=0), a.max(axis=0))
        same(x == y, a == b)


@pytest.mark.parametrize("dtype", DTYPES, ids=ids)
def test_guard_bytes_are_untouched(dtype: np.dtype[Any]) -> None:
    """A kernel that writes a region writes nothing before, between or after its elements."""
    for n in LAST:
        a, b = np.ones((4, n + 7), dtype), draw((4, n), dtype, n)
        x, y = pyasc.ones((4, n + 7), dtype=dtype), pyasc.array(b)
        a[:, 3 : 3 + n] = b * b
        x[:, 3 : 3 + n] = y * y
        same(x, a)
        a[1:3, 2 : 2 + n] += b[1:3]
        x[1:3, 2 : 2 + n] += y[1:3]
        same(x, a)


# --- layouts --------------------------------------------------------------------------------------
VIEWS: dict[str, Callable[[Any], Any]] = {
    "contiguous": lambda x: x[:24, :24],
    "transposed": lambda x: x[:24, :24].T,
    "step 2": lambda x: x[:24, ::2],
    "rows step 2": lambda x: x[::2, :24],
    "step -1": lambda x: x[:24, 23::-1],
    "both reversed": lambda x: x[23::-1, 23::-1],
    "step -2": lambda x: x[:24, ::-2],
    "offset": lambda x: x[5:29, 11:35],
    "row broadcast": lambda x: x[3:4, :24],
    "column broadcast": lambda x: x[:24, 7:8],
    "element broadcast": lambda x: x[9:10, 9:10],
}


@pytest.mark.parametrize("dtype", DTYPES, ids=ids)
def test_layouts_after_contiguous(dtype: np.dtype[Any]) -> None:
    """One function, pairs of layouts, the contiguous ones first; every pair for two dtypes."""
    a, b = draw((48, 48), dtype, 1), draw((48, 48), dtype, 2)
    x, y = pyasc.array(a), pyasc.array(b)
    full = dtype in (np.dtype("float32"), np.dtype("int8"))
    for n, left in enumerate(VIEWS.values()):
        for m, right in enumerate(VIEWS.values()):
            if full or m in (0, n, (n + 1) % len(VIEWS)):
                same(pyasc.minimum(left(x), right(y)) + right(y), np.minimum(left(a), right(b)) + right(b))


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_reductions_of_layouts(view: Callable[[Any], Any]) -> None:
    a = draw((48, 48), np.dtype("int32"), 1)
    x = pyasc.array(a)
    for axis in (0, 1, None, (0, 1)):
        same(view(x).sum(axis=axis), view(a).sum(axis=axis))
        same(view(x).max(axis=axis, keepdims=True), view(a).max(axis=axis, keepdims=True))


# --- aliasing -------------------------------------------------------------------------------------
def test_shifted_add_onto_itself() -> None:
    for n in (2, 5, 100, 100_003):
        for forward in (True, False):
            a = np.arange(n, dtype=np.float32)
            x = pyasc.array(a)
            if forward:
                a[1:] += a[:-1]
                x[1:] += x[:-1]
            else:
                a[:-1] += a[1:]
                x[:-1] += x[1:]
            same(x, a)


def test_add_own_transpose() -> None:
    for n in (3, 64, 301):
        a = draw((n, n), np.dtype("int64"), n)
        x = pyasc.array(a)
        a += a.T.copy()
        x += x.T
        same(x, a)


def test_reverse_in_place() -> None:
    a = np.arange(100_001)
    x = pyasc.array(a)
    x[:] = x[::-1]
    same(x, a[::-1])
    x[...] = x[::-1] + x
    same(x, a[::-1] + a)


def test_swap_halves_through_temporaries() -> None:
    x = pyasc.arange(10)
    low, high = x[:5], x[5:]
    kept = low.copy()
    low[:] = high
    high[:] = kept
    same(x, np.array([5, 6, 7, 8, 9, 0, 1, 2, 3, 4]))


def test_swap_without_a_copy_is_numpys() -> None:
    a, x = np.arange(10), pyasc.arange(10)
    for v in (a, x):
        v[:5], v[5:] = v[5:], v[:5]
    same(x, a)


def test_reader_recorded_before_a_write_through_a_view() -> None:
    x = pyasc.arange(6)
    read = x * 10
    total = x.sum()
    view = x[::2]
    view[:] = -1
    late = x * 10
    same(read, np.arange(6) * 10)
    assert int(total) == 15
    same(late, np.array([-10, 10, -10, 30, -10, 50]))
    same(view, np.array([-1, -1, -1]))


def test_write_through_the_base_shows_in_the_view() -> None:
    x = pyasc.zeros((3, 4))
    row, column, block = x[1], x.T[2], x[1:, ::-2]
    x[...] = pyasc.arange(12).reshape(3, 4)
    x += 1
    a = np.arange(12, dtype=np.float32).reshape(3, 4) + 1
    same(row, a[1])
    same(column, a.T[2])
    same(block, a[1:, ::-2])


def test_views_of_views_write_to_the_base() -> None:
    a, x = np.zeros((6, 8), np.int32), pyasc.zeros((6, 8), dtype="int32")
    for v in (a, x):
        v[1:5].T[::-1][2:5, ::2] += 7
        v.reshape(4, 12)[1, 3:] -= 1
        v[..., None][2, 3] = 5
    same(x, a)


def test_index_array_that_overlaps_its_target() -> None:
    a = np.array([3, 0, 2, 1, 4])
    x = pyasc.array(a)
    a[a.copy()] = a.copy() * 10
    x[x] = x * 10
    same(x, a)


def test_repeated_indices_keep_the_last_write() -> None:
    a, x = np.zeros(5), pyasc.zeros(5, dtype="float64")
    index = np.array([1, 3, 1, 1, 3])
    for v in (a, x):
        v[index] = np.array([10.0, 20.0, 30.0, 40.0, 50.0])
    same(x, a)
    for v in (a, x):
        v[index] += 1
    same(x, a)


def test_out_of_order_reads_of_versions() -> None:
    """Every version of a tensor stays what it was, whichever is read first."""
    for order in ((0, 1, 2, 3), (3, 2, 1, 0), (2, 0, 3, 1)):
        x = pyasc.arange(5)
        versions = []
        for k in range(4):
            versions.append(x * 1)
            x[k] = 100 + k
        for k in order:
            expected = np.arange(5)
            expected[:k] = 100 + np.arange(k)
            same(versions[k], expected)


def test_copy_does_not_alias() -> None:
    x = pyasc.arange(4)
    y, z = x.copy(), pyasc.array(x)
    x += 1
    same(y, np.arange(4))
    same(z, np.arange(4))


def test_reshape_copies_only_where_it_must() -> None:
    a, x = np.zeros((4, 6)), pyasc.zeros((4, 6), dtype="float64")
    for v in (a, x):
        v.reshape(24)[5] = 1  # a view
        v.T.reshape(24)[7] = 2  # a copy
    same(x, a)


Step = Callable[[Any, Any], None]


@st.composite
def cut(draw: st.DrawFn, n: int) -> slice:
    start, stop = draw(st.integers(-n, n)), draw(st.integers(-n, n))
    return slice(start, stop, draw(st.sampled_from((1, 1, 2, 3, -1, -2))))


def apply_step(kind: str, target: Any, source: Any, number: int) -> None:
    if kind == "set":
        target[...] = source
    elif kind == "add":
        target += source
    elif kind == "multiply":
        target *= source
    elif kind == "scalar":
        target[...] = number
    else:
        target -= number


@given(data=st.data())
def test_any_program_of_views_and_writes_is_numpys(data: st.DataObject) -> None:
    """Random views of one array, random overlapping writes among them, random readers in between."""
    a = np.arange(48, dtype=np.int64).reshape(6, 8)
    x = pyasc.array(a)
    pairs = [(a, x)]
    readers: list[tuple[Any, Any]] = []
    for _ in range(data.draw(st.integers(1, 12))):
        source_a, source_x = data.draw(st.sampled_from(pairs))
        action = data.draw(st.sampled_from(("view", "turn", "write", "write", "read", "look")))
        if action == "view" and source_a.ndim == 2:
            index = (data.draw(cut(source_a.shape[0])), data.draw(cut(source_a.shape[1])))
            pairs.append((source_a[index], source_x[index]))
        elif action == "turn":
            pairs.append((source_a.T, source_x.T))
        elif action == "read":
            readers.append((source_a * 2 + 1, source_x * 2 + 1))
        elif action == "look":
            np.testing.assert_array_equal(np.asarray(source_x), source_a)
        else:
            fits = [
                p for p in pairs if all(m in (1, n) for m, n in zip(p[0].shape, source_a.shape, strict=True))
            ]
            other_a, other_x = data.draw(st.sampled_from(fits))
            kind = data.draw(st.sampled_from(("set", "add", "multiply", "scalar", "subtract")))
            number = data.draw(st.integers(-3, 3))
            apply_step(kind, source_a, np.array(other_a), number)
            apply_step(kind, source_x, other_x, number)
    for array, tensor in [*pairs, *readers]:
        np.testing.assert_array_equal(np.asarray(tensor), array)


# --- empties and 0-d ------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", DTYPES, ids=ids)
def test_empty_arrays(dtype: np.dtype[Any]) -> None:
    for shape in ((0,), (0, 3), (3, 0), (2, 0, 3)):
        a, x = np.zeros(shape, dtype), pyasc.zeros(shape, dtype=dtype)
        same(x * x, a * a)
        same(x.T, a.T)
        same(pyasc.concat([x, x]), np.concatenate([a, a]))
        same(x == x, a == a)
        for axis in (None, 0, -1):
            assert np.asarray(x.sum(axis=axis)).tolist() == np.asarray(a.sum(axis=axis)).tolist()
            assert np.asarray(x.prod(axis=axis)).tolist() == np.asarray(a.prod(axis=axis)).tolist()
            same(x.any(axis=axis), a.any(axis=axis))
            same(x.all(axis=axis), a.all(axis=axis))
            for how in ("max", "min", "argmax", "argmin"):
                try:
                    expected = getattr(a, how)(axis=axis)
                except ValueError:
                    with pytest.raises(ValueError):
                        getattr(x, how)(axis=axis)
                else:
                    same(getattr(x, how)(axis=axis), expected)
        x += x
        x[...] = x
        same(x, a)


def test_mean_of_nothing_is_nan() -> None:
    assert np.isnan(float(pyasc.zeros(0).mean()))
    assert np.isnan(np.asarray(pyasc.zeros((3, 0)).mean(axis=1))).all()
    assert np.isnan(float(pyasc.zeros(0).var()))


def test_matrix_products_of_nothing() -> None:
    same(pyasc.zeros((3, 0)) @ pyasc.zeros((0, 4)), np.zeros((3, 4), np.float32))
    same(pyasc.zeros((0, 3)) @ pyasc.zeros((3, 4)), np.zeros((0, 4), np.float32))


@pytest.mark.parametrize("dtype", DTYPES, ids=ids)
def test_zero_dimensions(dtype: np.dtype[Any]) -> None:
    a = np.ones((), dtype)
    x = pyasc.array(a)
    assert x.shape == () and x.ndim == 0 and x.size == 1
    same(x * x, np.asarray(a * a))
    same(x.sum(axis=()), np.asarray(a.sum(axis=())))
    same(x + pyasc.ones((2, 3), dtype=dtype), a + np.ones((2, 3), dtype))
    same(x[None], a[None])
    x[()] = 0
    assert not x
    assert x.item() == 0


# --- sizes past 2**31 -----------------------------------------------------------------------------
def test_an_index_past_two_to_the_31() -> None:
    """Views of more elements than an int32 counts, of one element in memory."""
    x = pyasc.broadcast_to(pyasc.array([[1], [2], [3]], dtype="uint8"), (3, 2**31 + 5))
    assert x.size == 3 * (2**31 + 5)
    assert int(x[1, 2**31 + 4]) == 2
    assert int(x[-1, -(2**31)]) == 3
    same(x[:, 2**31 :: 2].max(axis=1), np.array([1, 2, 3], np.uint8))


def test_sizes_that_no_machine_has_are_clear_errors() -> None:
    for shape in ((2**40, 2**40), (2**62, 4), (2**63,)):
        with pytest.raises((ValueError, MemoryError, OverflowError)):
            pyasc.sync(pyasc.zeros(shape) + 1)
    assert int(pyasc.ones(3).sum()) == 3


@pytest.mark.full
def test_more_elements_than_an_int32_counts() -> None:
    n = 2**31 + 11
    x = pyasc.zeros(n, dtype="uint8")
    x[n - 3 :] = 7
    x += 1
    assert int(x[2**31]) == 1 and int(x[-1]) == 8
    assert int(x.sum()) == n + 21
    assert int(x.argmax()) == n - 3


# --- fusion keeps what each value is --------------------------------------------------------------
@pytest.mark.parametrize(
    ("dtype", "scalar", "expected"),
    [
        ("int8", 1, "int8"),
        ("uint8", 200, "uint8"),
        ("int32", 1.5, "float32"),
        ("int64", 1.5, "float32"),
        ("bool", 1, "int64"),
        ("bool", 1.0, "float32"),
        ("float16", 1, "float16"),
        ("float16", 1e3, "float16"),
        ("float32", 1e30, "float32"),
        ("float32", True, "float32"),
        ("float64", 1, "float64"),
        (BFLOAT16, 0.5, BFLOAT16),
    ],
)
def test_a_python_scalar_never_widens(dtype: Any, scalar: Any, expected: Any) -> None:
    x = pyasc.ones(3, dtype=dtype)
    for result in (x * scalar, scalar * x, pyasc.where(x == 1, x, scalar), pyasc.maximum(x, scalar)):
        assert result.dtype == np.dtype(expected)
        assert np.asarray(result).dtype == np.dtype(expected)


def test_each_output_keeps_its_own_shape() -> None:
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    x, column = pyasc.array(a), pyasc.array(a[:, :1])
    product = x * column
    outputs = [
        product,
        product.sum(axis=0),
        product.sum(axis=1, keepdims=True),
        product[1:] - 1,
        column + 1,
        product.max(),
    ]
    pyasc.sync(*outputs)
    p = a * a[:, :1]
    expected = [p, p.sum(axis=0), p.sum(axis=1, keepdims=True), p[1:] - 1, a[:, :1] + 1, p.max()]
    for tensor, array in zip(outputs, expected, strict=True):
        same(tensor, np.asarray(array))


def test_fused_and_unfused_agree_at_size() -> None:
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal((517, 389)).astype(np.float32) for _ in range(2))

    def program() -> Any:
        x, y = pyasc.array(a), pyasc.array(b)
        z = pyasc.tanh(x * y + 0.5) / (1 + pyasc.exp(-x))
        z = z - z.mean(axis=1, keepdims=True)
        return z[1:, 1:] - z[:-1, :-1]

    fused = np.asarray(program())
    with pyasc.eager():
        unfused = np.asarray(program())
    np.testing.assert_array_equal(fused[:, 0] != fused[:, 0], unfused[:, 0] != unfused[:, 0])
    np.testing.assert_allclose(fused, unfused, rtol=0, atol=4e-7)
