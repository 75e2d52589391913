"""Messages of recording: broadcasting, dtypes, indexing, shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from mistakes import A, B, Mistake, check, label, shapes, x

import pyasc


def iadd(target: Any, value: Any) -> None:
    target += value


def put(target: Any, key: Any, value: Any) -> None:
    target[key] = value


BROADCASTING = [
    Mistake(ValueError, ("[add]", *shapes((3,), (4,))), lambda: x(3) + x(4)),
    Mistake(ValueError, ("[multiply]", *shapes(A, B)), lambda: pyasc.multiply(x(*A), x(*B))),
    Mistake(ValueError, ("[less]", *shapes(A, B)), lambda: x(*A) < x(*B)),
    Mistake(ValueError, ("[where]", *shapes((3,), (4,))), lambda: pyasc.where(x(3) > 0, x(4), 1.0)),
    Mistake(ValueError, ("[broadcast_to]", *shapes(A, B)), lambda: pyasc.broadcast_to(x(*A), B)),
    Mistake(ValueError, ("(3, 4)", "(4,)"), lambda: iadd(x(4), x(3, 4))),
    Mistake(
        ValueError, ("[add] expected out of shape (3,)", "(4,)"), lambda: pyasc.add(x(3), x(3), out=x(4))
    ),
    Mistake(ValueError, ("[round] expected out of shape (3,)", "(4,)"), lambda: pyasc.round(x(3), out=x(4))),
]

DTYPES = [
    Mistake(TypeError, ("[bitwise_and]", "float32"), lambda: x(3) & x(3)),
    Mistake(TypeError, ("[negative]", "bool"), lambda: -x(3, dtype=bool)),
    Mistake(TypeError, ("[zeros] expected a dtype", "'no such'"), lambda: pyasc.zeros(3, dtype="no such")),
    Mistake(TypeError, ("complex", "complex64"), lambda: pyasc.zeros(3, dtype="complex64")),
    Mistake(TypeError, ("expected one of bool, int8", "datetime64"), lambda: x(3).astype("datetime64[s]")),
    Mistake(TypeError, ("[iinfo]", "float32"), lambda: pyasc.iinfo("float32")),
    Mistake(TypeError, ("[finfo]", "int32"), lambda: pyasc.finfo("int32")),
    Mistake(TypeError, ("'same_kind'", "float32"), lambda: iadd(x(3, dtype="int32"), x(3))),
    Mistake(
        TypeError, ("[add]", "int32", "'same_kind'", "float32"), lambda: pyasc.add(x(3), x(3), dtype="int32")
    ),
    Mistake(TypeError, ("[astype]", "'safe'", "int32"), lambda: x(3).astype("int32", casting="safe")),
    Mistake(TypeError, ("[asarray]", "str"), lambda: pyasc.asarray(["a", "b"])),
    Mistake(TypeError, ("out", "ndarray"), lambda: pyasc.add(x(3), x(3), out=np.ones(3))),
    Mistake(OverflowError, ("int8", "300"), lambda: x(3, dtype="int8") + 300),
    Mistake(TypeError, ("[add]", "'no'", "int32"), lambda: np.add(x(3, dtype="int32"), 1.5, casting="no")),
    Mistake(NotImplementedError, ("[add]", "'dd->d'"), lambda: np.add(x(3), 1, signature="dd->d")),
    Mistake(OverflowError, ("[full]", "uint8", "-1"), lambda: pyasc.full(3, -1, dtype="uint8")),
    Mistake(OverflowError, ("uint16", "70000"), lambda: put(x(3, dtype="uint16"), 0, 70000)),
    Mistake(OverflowError, ("64 bits",), lambda: pyasc.asarray([2**70, 1])),
    Mistake(OverflowError, ("int32", "inf"), lambda: put(x(3, dtype="int32"), 0, float("inf"))),
    Mistake(ValueError, ("int32", "nan"), lambda: put(x(3, dtype="int32"), 0, float("nan"))),
    Mistake(ValueError, ("[asarray]", "nested sequences"), lambda: pyasc.asarray([[1, 2], [3]])),
]

INDEXING = [
    Mistake(IndexError, ("[getitem]", "axis 0", "7"), lambda: x(3)[7]),
    Mistake(IndexError, ("[getitem]", "axis 1", "-5"), lambda: x(*A)[0, -5]),
    Mistake(IndexError, ("[setitem]", "axis 0", "3"), lambda: put(x(3), 3, 0)),
    Mistake(IndexError, ("empty", "0"), lambda: x(0)[0]),
    Mistake(IndexError, ("at most 2", "(3, 4)"), lambda: x(*A)[0, 0, 0]),
    Mistake(IndexError, ("at most 2", "(3, 4)"), lambda: x(*A)[:, :, :]),
    Mistake(IndexError, ("one ellipsis",), lambda: x(*A)[..., ...]),
    Mistake(IndexError, ("one ellipsis",), lambda: x(*A)[..., [0], ...]),
    Mistake(IndexError, ("index of ints", "1.5"), lambda: x(3)[1.5]),
    Mistake(IndexError, ("index of ints", "'a'"), lambda: x(3)["a"]),
    Mistake(IndexError, ("index of ints",), lambda: x(3)[[0.5, 1.5]]),
    Mistake(IndexError, ("equal lengths",), lambda: x(3)[[[0, 1], [2]]]),
    Mistake(IndexError, ("mask of shape (3, 4)", "(4, 3)"), lambda: x(*A)[np.ones((4, 3), bool)]),
    Mistake(IndexError, ("axis 0", "9"), lambda: x(3)[[0, 9]]),
    Mistake(IndexError, ("[getitem]", "6"), lambda: pyasc.sync(x(5)[pyasc.arange(5) * 3])),
    Mistake(IndexError, ("[setitem]", "12"), lambda: put(x(5), pyasc.arange(5) * 3, 0)),
    Mistake(IndexError, ("broadcast", "(2,)", "(3,)"), lambda: x(*A)[[0, 1], [0, 1, 2]]),
    Mistake(ValueError, ("step other than zero",), lambda: x(3)[::0]),
    Mistake(TypeError, ("slice of integers", "1.5"), lambda: x(3)[1.5:]),
    Mistake(ValueError, ("broadcast to shape (2,)", "(3,)"), lambda: put(x(3), slice(2), x(3))),
    Mistake(ValueError, ("broadcast to shape (2,)", "(3,)"), lambda: put(x(3), [0, 1], x(3))),
    Mistake(ValueError, ("write to a copy", "(3, 4)"), lambda: put(pyasc.broadcast_to(x(4), A), 0, 1)),
    Mistake(ValueError, ("write to a copy",), lambda: put(pyasc.broadcast_to(x(4), A), [0], 1)),
    Mistake(ValueError, ("write to a copy",), lambda: iadd(pyasc.broadcast_to(x(4), A), 1)),
    Mistake(TypeError, ("integer", "float32"), lambda: pyasc.take(x(3), x(2))),
    Mistake(ValueError, ("'raise', 'wrap' or 'clip'", "'no'"), lambda: pyasc.take(x(3), [0], mode="no")),
    Mistake(IndexError, ("8",), lambda: pyasc.take(x(3), [8])),
    Mistake(ValueError, ("empty axis",), lambda: pyasc.take(x(0), [0], mode="wrap")),
    Mistake(
        ValueError,
        ("2 dimensions", "(3,)"),
        lambda: pyasc.take_along_axis(x(*A), np.array([0, 1, 2]), axis=1),
    ),
    Mistake(ValueError, ("[put]", "none"), lambda: pyasc.put(x(3), [0], [])),
    Mistake(TypeError, ("tensor to write to", "list"), lambda: pyasc.put([1, 2], [0], [1])),
    Mistake(ValueError, ("[nonzero]", "0-d"), lambda: pyasc.nonzero(x())),
    Mistake(ValueError, ("[compress]", "(1, 2)"), lambda: pyasc.compress([[True, False]], x(2))),
    Mistake(ValueError, ("[place]", "3", "(2,)"), lambda: pyasc.place(x(3), [True, False], [1.0])),
    Mistake(ValueError, ("[ix_]", "(1, 2)"), lambda: pyasc.ix_([[0, 1]])),
]

MISTAKES = [*BROADCASTING, *DTYPES, *INDEXING]


@pytest.mark.parametrize("entry", MISTAKES, ids=label)
def test_mistake(entry: Mistake, mistake: Callable[..., Any]) -> None:
    check(entry, mistake)
