"""What the table's generated tests do not reach: options, weak scalars, powers, choices."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyasc


def test_functions_are_real_functions() -> None:
    assert str(inspect.signature(pyasc.add)).startswith("(x")
    assert pyasc.add.__name__ == "add"
    assert "broadcast" in (pyasc.hypot.__doc__ or "")
    assert pyasc.acos is pyasc.arccos
    assert pyasc.pow is pyasc.power


def test_out_where_dtype() -> None:
    x, y = pyasc.arange(4), pyasc.ones(4, dtype="int64")
    out = pyasc.zeros(4)
    assert pyasc.add(x, y, out=out) is out
    assert out.tolist() == [1, 2, 3, 4]
    assert pyasc.add(x, y, dtype="float64").dtype == np.float64
    mask = pyasc.asarray([True, False, True, False])
    assert pyasc.add(x, y, out=pyasc.full(4, 9), where=mask).tolist() == [1, 9, 3, 9]
    with pytest.raises(TypeError, match="same_kind"):
        pyasc.add(x, 1.5, out=pyasc.zeros(4, dtype="int64"))
    with pytest.raises(TypeError, match="same_kind"):
        pyasc.add(pyasc.ones(2), 1.0, dtype="int32")


def test_numbers_and_sequences_alone() -> None:
    assert pyasc.add(1, 2).item() == 3
    assert pyasc.add([1, 2], [3, 4]).tolist() == [4, 6]
    assert pyasc.add(1, 2.5).dtype == np.float32
    assert operator.add(pyasc.ones(2), [1, 2]).tolist() == [2, 3]
    assert operator.add([1, 2], pyasc.ones(2)).tolist() == [2, 3]


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 4, 5, 0.5, -1, 2.0, 1.5])
@pytest.mark.parametrize("dtype", ["int16", "float32", "float64"])
def test_powers(dtype: str, exponent: float) -> None:
    x = np.arange(1, 8).astype(dtype)
    if dtype == "int16" and exponent == -1:
        with pytest.raises(ValueError, match=r"\[power\]"):
            pyasc.array(x) ** exponent
        return
    given = (pyasc.array(x) ** exponent).numpy()
    np.testing.assert_allclose(given, x.astype(np.float64) ** exponent, rtol=1e-6)
    if isinstance(exponent, int):
        assert given.dtype == dtype


def test_reflected_power() -> None:
    assert (2 ** pyasc.arange(4)).tolist() == [1, 2, 4, 8]
    assert (pyasc.arange(3) ** pyasc.arange(3)).tolist() == [1, 1, 4]


OPERATORS: list[tuple[Callable[[Any, Any], Any], bool]] = [
    (lambda a, b: a + b, True),
    (lambda a, b: a - b, True),
    (lambda a, b: a * b, True),
    (lambda a, b: a / b, True),
    (lambda a, b: a // b, True),
    (lambda a, b: a % b, True),
    (lambda a, b: divmod(a, b)[1], True),
    (lambda a, b: a & b, False),
    (lambda a, b: a | b, False),
    (lambda a, b: a ^ b, False),
    (lambda a, b: a << b, False),
    (lambda a, b: a >> b, False),
    (lambda a, b: a < b, True),
    (lambda a, b: a >= b, True),
    (lambda a, b: a != b, True),
]


@pytest.mark.parametrize(("apply", "floats"), OPERATORS)
def test_operators(apply: Callable[[Any, Any], Any], floats: bool) -> None:
    x = np.arange(1, 7).reshape(2, 3)
    y = np.array([1, 2, 3])
    for dtype in ("int64", "float64") if floats else ("int64",):
        a, b = x.astype(dtype), y.astype(dtype)
        p, q = pyasc.array(a), pyasc.array(b)
        for given, expected in [
            (apply(p, q), apply(a, b)),
            (apply(p, 2), apply(a, 2)),
            (apply(7, q), apply(7, b)),
            (apply(p, b), apply(a, b)),
            (apply(a, q), apply(a, b)),
        ]:
            assert isinstance(given, pyasc.Tensor)
            np.testing.assert_allclose(given.numpy(), expected, rtol=1e-6)


def test_foreign_operands_are_left_alone() -> None:
    class Other:
        def __radd__(self, other: Any) -> str:
            return "theirs"

    assert pyasc.ones(2) + Other() == "theirs"
    with pytest.raises(TypeError):
        pyasc.ones(2) + "text"
    assert (pyasc.ones(2) == "text") is False


def test_inplace_keeps_the_dtype() -> None:
    x = pyasc.arange(3, dtype="int8")
    same = x
    x += pyasc.arange(3)
    assert same is x and x.dtype == np.int8 and x.tolist() == [0, 2, 4]
    for change in ("x += 1.5", "x /= 2"):
        with pytest.raises(TypeError, match="same_kind"):
            exec(change, {"x": x})
    with pytest.raises(ValueError, match="write in place"):
        x += pyasc.ones((2, 3), dtype="int8")
    y = pyasc.ones(3)
    y **= 2
    y -= pyasc.ones(3, dtype="float64")
    assert y.dtype == np.float32 and y.tolist() == [0, 0, 0]


def test_where_and_select() -> None:
    x = pyasc.arange(5)
    assert pyasc.where(x > 2, x, 0).tolist() == [0, 0, 0, 3, 4]
    assert pyasc.where(x > 2, 1.5, x).dtype == np.float32
    assert pyasc.where(x > 2, 1, 0).dtype == np.int64
    assert pyasc.where(x, 7, x[:, None]).shape == (5, 5)
    assert pyasc.select([x < 1, x < 3], [x, x * 10], -1).tolist() == [0, 10, 20, -1, -1]
    np.testing.assert_array_equal(pyasc.where(x > 2)[0], [3, 4])


def test_clip() -> None:
    x = pyasc.arange(5, dtype="uint8")
    assert x.clip(1, 3).tolist() == [1, 1, 2, 3, 3]
    assert pyasc.clip(x, -5, 1000).tolist() == [0, 1, 2, 3, 4]
    assert pyasc.clip(x, a_min=2, a_max=None).dtype == np.uint8
    assert pyasc.clip(pyasc.asarray([np.nan, 5.0]), 0, 1).tolist()[1] == 1
    assert np.isnan(pyasc.clip(pyasc.asarray([np.nan, 5.0]), 0, 1).tolist()[0])


@pytest.mark.parametrize("decimals", [-2, -1, 0, 1, 3])
def test_round(decimals: int) -> None:
    x = np.array([0.5, 1.5, 2.25, -12.345, 150.0, 1e10])
    np.testing.assert_array_equal(pyasc.round(pyasc.array(x), decimals), np.round(x, decimals))
    k = np.array([15, 25, -149, 150, 4])
    np.testing.assert_array_equal(pyasc.round(pyasc.array(k), decimals), np.round(k, decimals))


def test_special_values() -> None:
    x = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1.5, -2.5])
    y = np.array([1.0, np.nan, 2.0, 0.0, -0.0, np.inf, np.nan])
    for name in ("isnan", "isinf", "isfinite", "isposinf", "isneginf", "signbit", "sign", "nan_to_num"):
        np.testing.assert_array_equal(
            getattr(pyasc, name)(pyasc.array(x)), getattr(np, name)(x), err_msg=name
        )
    for name in ("fmax", "fmin", "maximum", "minimum", "heaviside", "logaddexp", "copysign"):
        with np.errstate(all="ignore"):
            expected = getattr(np, name)(x, y)
        np.testing.assert_allclose(
            getattr(pyasc, name)(pyasc.array(x), pyasc.array(y)), expected, err_msg=name
        )
    whole, part = pyasc.modf(pyasc.array(x))[::-1]
    np.testing.assert_array_equal(whole, np.modf(x)[1])
    np.testing.assert_array_equal(part, np.modf(x)[0])


def test_close_and_equal() -> None:
    x = pyasc.asarray([1.0, np.nan])
    assert pyasc.allclose(x[:1], x[:1] + 1e-9)
    assert not pyasc.allclose(x, x)
    assert pyasc.allclose(x, x, equal_nan=True)
    assert not pyasc.array_equal(x, x) and pyasc.array_equal(x, x, equal_nan=True)
    assert not pyasc.array_equal(x, x[:1])
    assert pyasc.isclose(1e10, 1.000001e10).item()


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint16"])
def test_reciprocal_of_integers(dtype: str) -> None:
    limits = np.iinfo(dtype)
    x = np.array([0, 1, 2, limits.min, limits.max], dtype)
    assert pyasc.reciprocal(pyasc.array(x)).tolist() == [0, 1, 0, 0, 0]
    if limits.min:
        assert pyasc.reciprocal(pyasc.array(np.array([-1, -2], dtype))).tolist() == [-1, 0]


def test_conj_of_bools_is_of_integers() -> None:
    x = pyasc.asarray([True, False])
    assert x.conj().dtype == np.conj(x.numpy()).dtype and x.conj().tolist() == [1, 0]
