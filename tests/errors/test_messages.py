"""Every message a mistake gives: the built-in exception, what was expected, what was given, the user's line.

`MISTAKES` holds one call for each message; `test_every_message_has_a_mistake` reads the sources and fails
where one is missing.
"""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest

import pyasc
from pyasc.ops import errors

ROOT = Path(__file__).parent.parent.parent


class Mistake(NamedTuple):
    """A call that must raise `kind` with a message that holds `texts`."""

    kind: type[Exception]
    texts: tuple[str, ...]
    call: Callable[[], Any]


def x(*shape: int, dtype: Any = "float32") -> Any:
    return pyasc.ones(shape, dtype=dtype)


def shapes(*given: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(map(str, given))


def iadd(target: Any, value: Any) -> None:
    target += value


def put(target: Any, key: Any, value: Any) -> None:
    target[key] = value


A, B = (3, 4), (2, 5)

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
    Mistake(OverflowError, ("uint8", "-1"), lambda: pyasc.full(3, -1, dtype="uint8")),
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

SHAPES = [
    Mistake(ValueError, ("[reshape]", "(3, 4)", "(5, 2)"), lambda: x(*A).reshape(5, 2)),
    Mistake(ValueError, ("[reshape]", "-1"), lambda: x(*A).reshape(-1, -1)),
    Mistake(ValueError, ("negative", "-3"), lambda: pyasc.zeros(-3)),
    Mistake(ValueError, ("64 axes", "65"), lambda: pyasc.zeros((1,) * 65)),
    Mistake(ValueError, ("memory could hold",), lambda: pyasc.zeros((2**40, 2**40))),
    Mistake(TypeError, ("integer", "2.5"), lambda: pyasc.zeros(2.5)),
    Mistake(ValueError, ("[sum]", "2 dimensions", "2"), lambda: x(*A).sum(axis=2)),
    Mistake(IndexError, ("[sum]", "2 dimensions", "-3"), lambda: x(*A).sum(axis=-3)),
    Mistake(ValueError, ("each axis once",), lambda: x(*A).sum(axis=(0, -2))),
    Mistake(TypeError, ("axis", "'x'"), lambda: x(*A).sum(axis="x")),
    Mistake(ValueError, ("[transpose]",), lambda: x(*A).transpose(0)),
    Mistake(ValueError, ("[squeeze]", "(3, 4)"), lambda: x(*A).squeeze(0)),
    Mistake(ValueError, ("[concat]", "(3, 4)", "(2, 5)"), lambda: pyasc.concat([x(*A), x(*B)])),
    Mistake(ValueError, ("[stack]", "(3, 4)", "(2, 5)"), lambda: pyasc.stack([x(*A), x(*B)])),
    Mistake(ValueError, ("[concat]",), lambda: pyasc.concat([])),
    Mistake(TypeError, ("sequence of arrays", "int"), lambda: pyasc.concat(3)),
    Mistake(ValueError, ("sequence of arrays", "0-d"), lambda: pyasc.concat(x())),
    Mistake(ValueError, ("[split]", "3", "2"), lambda: pyasc.split(x(3), 2)),
    Mistake(ValueError, ("[max]", "(0,)"), lambda: x(0).max()),
    Mistake(ValueError, ("[argmin]", "(3, 0)"), lambda: x(3, 0).argmin(axis=1)),
]

PRODUCTS = [
    Mistake(ValueError, ("[matmul]", *shapes(A, B)), lambda: x(*A) @ x(*B)),
    Mistake(ValueError, ("[matmul]", "one dimension", "()"), lambda: pyasc.matmul(x(), x(3))),
    Mistake(ValueError, ("[vdot]", "3", "4"), lambda: pyasc.vdot(x(3), x(4))),
    Mistake(ValueError, ("[vecdot]", *shapes((3,), (4,))), lambda: pyasc.vecdot(x(3), x(4))),
    Mistake(ValueError, ("[tensordot]", "3"), lambda: pyasc.tensordot(x(*A), x(*A), axes=3)),
    Mistake(ValueError, ("[tensordot]", "'no'"), lambda: pyasc.tensordot(x(*A), x(*A), axes="no")),
    Mistake(
        ValueError, ("[tensordot]", *shapes(A, B)), lambda: pyasc.tensordot(x(*A), x(*B), axes=([0], [0]))
    ),
    Mistake(ValueError, ("[einsum]", "letters", "'i;j'"), lambda: pyasc.einsum("i;j", x(3))),
    Mistake(ValueError, ("[einsum]", "2 operands", "'i->i'"), lambda: pyasc.einsum("i->i", x(3), x(3))),
    Mistake(ValueError, ("[einsum]", "'ijk'", "2"), lambda: pyasc.einsum("ijk->i", x(*A))),
    Mistake(ValueError, ("[einsum]", "once", "'ij->ii'"), lambda: pyasc.einsum("ij->ii", x(*A))),
    Mistake(ValueError, ("[einsum]", "'j'", *shapes(A, B)), lambda: pyasc.einsum("ij,jk->ik", x(*A), x(*B))),
    Mistake(ValueError, ("[einsum]", "integers", "['i']"), lambda: pyasc.einsum(x(3), ["i"])),
]

SORTING = [
    Mistake(ValueError, ("[sort]", "'quick'"), lambda: pyasc.sort(x(3), kind="quick")),
    Mistake(ValueError, ("[partition]", "-3 to 2", "5"), lambda: pyasc.partition(x(3), 5)),
    Mistake(ValueError, ("[lexsort]", "(3,)", "(4,)"), lambda: pyasc.lexsort([x(3), x(4)])),
    Mistake(ValueError, ("[searchsorted]", "'middle'"), lambda: pyasc.searchsorted(x(3), 1.0, side="middle")),
    Mistake(ValueError, ("[searchsorted]", "(3, 4)"), lambda: pyasc.searchsorted(x(*A), 1.0)),
    Mistake(IndexError, ("[searchsorted]", "sorter"), lambda: pyasc.searchsorted(x(3), 1.0, sorter=[0, 1])),
    Mistake(ValueError, ("[bincount]", "(3, 4)"), lambda: pyasc.bincount(x(*A, dtype="int32"))),
    Mistake(TypeError, ("[bincount]", "float32"), lambda: pyasc.bincount(x(3))),
    Mistake(ValueError, ("[bincount]", "-2"), lambda: pyasc.bincount(pyasc.array([1, -2]))),
    Mistake(
        ValueError, ("[bincount]", "(1,)", "(2,)"), lambda: pyasc.bincount(pyasc.array([1]), weights=x(2))
    ),
    Mistake(ValueError, ("[histogram]",), lambda: pyasc.histogram(x(3), bins=-1)),
    Mistake(ValueError, ("[digitize]", "(3, 4)"), lambda: pyasc.digitize(x(3), x(*A))),
    Mistake(ValueError, ("[interp]", "(3,)", "(4,)"), lambda: pyasc.interp(x(2), x(3), x(4))),
    Mistake(ValueError, ("[interp]", "period"), lambda: pyasc.interp(x(2), x(3), x(3), period=0)),
    Mistake(ValueError, ("[diff]", "-1"), lambda: pyasc.diff(x(3), -1)),
    Mistake(ValueError, ("[convolve]", "(3, 4)", "(2,)"), lambda: pyasc.convolve(x(*A), x(2))),
    Mistake(ValueError, ("[convolve]", "'half'"), lambda: pyasc.convolve(x(3), x(2), mode="half")),
    Mistake(ValueError, ("[where]", "both"), lambda: pyasc.where(x(3) > 0, 1)),
    Mistake(ValueError, ("[select]", "1 conditions", "2 choices"), lambda: pyasc.select([x(3) > 0], [1, 2])),
]

VALUES = [
    Mistake(ValueError, ("any()", "(3,)"), lambda: bool(x(3))),
    Mistake(TypeError, ("(3,)",), lambda: float(x(3))),
    Mistake(TypeError, ("(3,)",), lambda: int(x(3))),
    Mistake(ValueError, ("(3,)",), lambda: x(3).item()),
    Mistake(TypeError, ("0-d",), lambda: len(x())),
    Mistake(TypeError, ("0-d",), lambda: iter(x())),
    Mistake(TypeError, ("integer", "float32"), lambda: range(x())),
    Mistake(TypeError, ("[sync]", "list"), lambda: pyasc.sync([1, 2])),
    Mistake(TypeError, ("[explain]", "int"), lambda: pyasc.explain(3)),
    Mistake(ValueError, ("'llvm'", "'asm'", "'c'"), lambda: pyasc.explain(x(3) + 1).kernels[0].source("c")),
]

RANDOM = [
    Mistake(ValueError, ("[integers]", "5"), lambda: pyasc.random.integers(5, 5, size=3)),
    Mistake(ValueError, ("[normal]", "-1"), lambda: pyasc.random.normal(0.0, -1.0, size=3)),
    Mistake(ValueError, ("[choice]", "3", "5"), lambda: pyasc.random.choice(3, size=5, replace=False)),
    Mistake(ValueError, ("[choice]",), lambda: pyasc.random.choice(0, size=5)),
    Mistake(TypeError, ("[seed]", "'a'"), lambda: pyasc.random.seed("a")),
]


def traced(function: Callable[[Any], Any]) -> Any:
    return pyasc.jit(function)(x(3))


JIT = [
    Mistake(RuntimeError, ("pyasc.where",), lambda: traced(lambda v: 1 if v.sum() > 0 else 2)),
    Mistake(RuntimeError, ("traced",), lambda: traced(lambda v: float(v[0]))),
    Mistake(RuntimeError, ("traced",), lambda: traced(lambda v: np.asarray(v))),
    Mistake(TypeError, ("[jit]", "str"), lambda: pyasc.jit(lambda v: v)({"a": object()})),
    Mistake(TypeError, ("[jit]",), lambda: pyasc.jit(lambda v: "a")(x(3))),
    Mistake(TypeError, ("[jit]", "int"), lambda: pyasc.jit(3)),
]

MISTAKES = [*BROADCASTING, *DTYPES, *INDEXING, *SHAPES, *PRODUCTS, *SORTING, *VALUES, *RANDOM, *JIT]


@pytest.mark.parametrize("entry", MISTAKES, ids=lambda m: f"{m.call.__code__.co_firstlineno}-{m.texts[0]}")
def test_mistake(entry: Mistake, mistake: Callable[..., Any]) -> None:
    with mistake(entry.kind, *entry.texts) as caught:
        entry.call()
    assert isinstance(caught.error, errors.PyascError)
    assert re.match(r"\[[\w. ]+\] .*expected .*given ", caught.message, re.DOTALL), caught.message


def test_bfloat16_is_named_in_messages(mistake: Callable[..., Any]) -> None:
    with mistake(TypeError, "bfloat16"):
        x(3, dtype=ml_dtypes.bfloat16) & 1


def test_every_error_is_public() -> None:
    for name, kind in vars(errors).items():
        if isinstance(kind, type) and issubclass(kind, errors.PyascError):
            assert getattr(pyasc.errors, name) is kind
            assert kind is errors.PyascError or any(
                base.__module__ in ("builtins", "numpy.exceptions") for base in kind.__mro__[2:4]
            )
            assert kind.__doc__


# --- completeness ---------------------------------------------------------------------------------
RAISED = {
    name
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, errors.PyascError)
}
# Messages that need a machine in a certain state, each with the test that makes one.
ELSEWHERE: dict[str, str] = {}


def template(node: ast.expr) -> str | None:
    """A regular expression for the text of an f-string or a string."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return re.escape(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(re.escape(p.value) if isinstance(p, ast.Constant) else ".*" for p in node.values)
    if isinstance(node, ast.IfExp):
        return f"({template(node.body)}|{template(node.orelse)})"
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return f"{template(node.left)}{template(node.right)}"
    return None


def messages() -> Iterator[tuple[str, str]]:
    """Place and template of each message in the sources."""
    for folder in ("pyasc", "ops", "backend"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and node.args:
                    name = (
                        node.func.attr
                        if isinstance(node.func, ast.Attribute)
                        else getattr(node.func, "id", "")
                    )
                    if name in RAISED:
                        found = template(node.args[0])
                        if found is not None:
                            yield f"{path.relative_to(ROOT)}:{node.lineno}", found


def test_every_message_has_a_mistake() -> None:
    said = []
    for entry in MISTAKES:
        with contextlib.suppress(Exception):
            try:
                entry.call()
            except errors.PyascError as error:
                said.append(str(error))
    missing = [
        f"{place}: {text}"
        for place, text in messages()
        if not any(re.match(text, message, re.DOTALL) for message in said) and text not in ELSEWHERE
    ]
    assert not missing, "messages without a mistake that shows them:\n" + "\n".join(missing)
