"""The array object: what it says of itself, its values, its text, NumPy's protocols."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import pyasc


def test_attributes() -> None:
    x = pyasc.zeros((2, 3), dtype="int16")
    assert (x.shape, x.ndim, x.size, x.itemsize, x.nbytes) == ((2, 3), 2, 6, 2, 12)
    assert x.dtype == np.int16 and x.device == "cpu" and x.T.shape == x.mT.shape == (3, 2)
    assert len(x) == 2 and x.real is x and x.imag.tolist() == [[0] * 3] * 2
    assert x.__array_namespace__() is pyasc


def test_conversions() -> None:
    x = pyasc.asarray(2.5)
    assert float(x) == 2.5 and int(x) == 2 and bool(x) and complex(x) == 2.5 and f"{x:.2f}" == "2.50"
    assert [10, 20, 30][pyasc.asarray(1)] == 20
    assert round(pyasc.asarray(2.567), 1).item() == pytest.approx(2.6)
    assert pyasc.arange(4).item(2) == 2 and pyasc.ones((1, 1)).item() == 1
    for convert in (bool, int, float):
        with pytest.raises(ValueError if convert is bool else TypeError, match="one element"):
            convert(pyasc.ones(2))
    for wrong in (x, pyasc.arange(1)):
        with pytest.raises(TypeError):
            range(wrong)
    with pytest.raises(TypeError):
        len(x)
    with pytest.raises(TypeError):
        hash(x)


def test_iteration() -> None:
    x = pyasc.arange(6).reshape(2, 3)
    rows = list(x)
    assert all(row.shape == (3,) for row in rows) and [v.item() for v in rows[1]] == [3, 4, 5]
    rows[0][:] = 9
    assert x.tolist() == [[9, 9, 9], [3, 4, 5]]
    assert 4 in x and 7 not in x
    assert [v.item() for v in x.flat] == [9, 9, 9, 3, 4, 5]
    with pytest.raises(TypeError):
        iter(pyasc.asarray(1))


def test_iterating_over_rows_evaluates_nothing() -> None:
    x = pyasc.ones((4, 3)) + 1
    total = sum(x)
    assert x.pending and total.tolist() == [8, 8, 8]


def test_text() -> None:
    x = pyasc.arange(6).reshape(2, 3) / 2
    assert repr(x) == ("pyasc.Tensor([[0. , 0.5, 1. ],\n              [1.5, 2. , 2.5]], dtype=float32)")
    assert str(x) == str(x.numpy())
    assert "..." in repr(pyasc.arange(5000))
    assert repr(pyasc.zeros((0, 3))) == "pyasc.Tensor([], shape=(0, 3), dtype=float32)"
    assert repr(pyasc.asarray(True)) == "pyasc.Tensor(True, dtype=bool)"
    assert "bfloat16" in repr(pyasc.ones(2, dtype="bfloat16"))


def test_numpy_views_never_change() -> None:
    x = pyasc.arange(4)
    seen = x.numpy()
    part = x[1:].numpy()
    x += 10
    assert seen.tolist() == [0, 1, 2, 3] and part.tolist() == [1, 2, 3] and x.tolist() == [10, 11, 12, 13]
    assert not seen.flags.writeable and np.array(x).flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        seen[0] = 1
    assert np.asarray(x, np.float64).dtype == np.float64


def test_copies() -> None:
    x = pyasc.arange(3)
    for other in (copy.copy(x), copy.deepcopy(x), x.copy(), pickle.loads(pickle.dumps(x))):
        other += 1
        assert other.tolist() == [1, 2, 3]
    assert x.tolist() == [0, 1, 2]


X = np.arange(6.0).reshape(2, 3)
CALLS: list[Any] = [
    lambda x: np.add(x, 1),
    lambda x: np.sin(x),
    lambda x: X + x,
    lambda x: X @ x.T,
    lambda x: np.float32(2) * x,
    lambda x: np.sum(x, axis=0),
    lambda x: np.sum(a=x, axis=0),
    lambda x: np.add.reduce(x),
    lambda x: np.add.reduce(x, axis=None),
    lambda x: np.maximum.reduce(x, axis=1, keepdims=True),
    lambda x: np.add.accumulate(x, axis=1),
    lambda x: np.multiply.outer(x, x),
    lambda x: np.concatenate([x, X], axis=1),
    lambda x: np.where(x > 2, x, 0),
    lambda x: np.clip(x, 1, 3),
    lambda x: np.mean(x, axis=1, keepdims=True),
    lambda x: np.reshape(x, (3, 2)),
    lambda x: np.stack([x, x]),
    lambda x: np.linalg.norm(x),
    lambda x: np.divmod(x, 2)[1],
    lambda x: np.full_like(x, 3),
]


@pytest.mark.parametrize("call", CALLS)
def test_numpy_calls_give_tensors(call: Any) -> None:
    expected = call(X)
    given = call(pyasc.array(X))
    assert isinstance(given, pyasc.Tensor) or np.ndim(expected) == 0
    np.testing.assert_allclose(given, expected)


def test_numpy_out() -> None:
    x = pyasc.ones(3)
    a = np.zeros(3)
    a += x
    assert type(a) is np.ndarray and a.tolist() == [1, 1, 1]
    y = pyasc.zeros(3)
    assert np.add(x, 1, out=y) is y and y.tolist() == [2, 2, 2]
    with pytest.raises(NotImplementedError, match="index_add"):
        np.add.at(x, [0], 1)


INTS = np.arange(3)
CASTS: list[tuple[Any, Any]] = [
    (lambda x: np.add(x, 1.5, casting="no"), TypeError),
    (lambda x: np.add(x, 1.5, casting="unsafe"), [1.5, 2.5, 3.5]),
    (lambda x: np.add(x, x, casting="no"), [0, 2, 4]),
    (lambda x: np.add(x, 1, casting="equiv"), [1, 2, 3]),
    (lambda x: np.multiply.outer(x, x.astype("int32"), casting="no"), TypeError),
    (lambda x: np.matmul(x, x.astype("int32"), casting="no"), TypeError),
    (lambda x: np.matmul(x, x.astype("int32"), casting="safe"), 5),
    (lambda x: np.multiply(x, 1.5, out=x, casting="unsafe"), [0, 1, 3]),
    (lambda x: np.multiply(x, 1.5, out=x, where=x > 1, casting="unsafe"), [0, 1, 3]),
    (lambda x: np.multiply(x, 1.5, out=x), TypeError),
    (lambda x: np.add(x, x, out=np.zeros(3, np.int16), casting="unsafe"), [0, 2, 4]),
    (lambda x: np.add(x, x, out=np.zeros(3, np.int16), casting="safe"), TypeError),
    (lambda x: np.add(x, 1, order="F", subok=False), [1, 2, 3]),
    (lambda x: np.add(x, 1, signature="ll->l"), NotImplementedError),
]


@pytest.mark.parametrize(("call", "expected"), CASTS)
def test_numpy_casting(call: Any, expected: Any) -> None:
    if isinstance(expected, type):
        with pytest.raises(expected):
            call(pyasc.array(INTS))
        if expected is TypeError:
            with pytest.raises(TypeError):  # NumPy agrees
                call(INTS.copy())
    else:
        assert np.asarray(call(pyasc.array(INTS))).tolist() == expected


def test_out_must_be_a_tensor() -> None:
    x = pyasc.arange(6.0)
    for call in (pyasc.sum, pyasc.cumsum, pyasc.sin, pyasc.median, pyasc.var):
        with pytest.raises(TypeError, match=rf"\[{call.__name__}\] expected a tensor for out, given ndarray"):
            call(x, out=np.zeros(()))


def test_the_memory_limit_is_one_setting() -> None:
    try:
        pyasc.set_memory_limit(2**40)
        assert pyasc.config.memory_limit == pyasc.memory_stats()["limit"] == 2**40
        with pyasc.config.override(memory_limit=2**41):
            assert pyasc.memory_stats()["limit"] == 2**41
        assert pyasc.memory_stats()["limit"] == 2**40
        for wrong, kind in ((-1, ValueError), (1.5, TypeError)):
            with pytest.raises(kind):
                pyasc.set_memory_limit(wrong)
    finally:
        pyasc.set_memory_limit(0)
    assert pyasc.config.memory_limit == pyasc.memory_stats()["limit"] == 0


def test_config() -> None:
    config = pyasc.config
    assert config.promotion == "pyasc"
    with config.override(fast_math=True, max_pending_nodes=10):
        assert config.fast_math and config.max_pending_nodes == 10
    assert not config.fast_math
    for name, value, kind in [
        ("promotion", "torch", ValueError),
        ("fast_math", 1, TypeError),
        ("threads", -1, ValueError),
        ("memory_limit", 1.5, TypeError),
        ("nonsense", 1, AttributeError),
    ]:
        with pytest.raises(kind, match=r"\[config\]"):
            setattr(config, name, value)
    assert "fast_math" in repr(config)


def test_settings_from_the_environment(run_python: Any) -> None:
    program = (
        "import pyasc; print(pyasc.config.promotion, pyasc.config.max_pending_nodes, pyasc.config.fast_math)"
    )
    given = run_python(program, PYASC_PROMOTION="numpy", PYASC_MAX_PENDING_NODES="77", PYASC_FAST_MATH="yes")
    assert given.stdout.split() == ["numpy", "77", "True"]
    failed = run_python("import pyasc", PYASC_THREADS="many", check=False)
    assert failed.returncode and "PYASC_THREADS" in failed.stderr
