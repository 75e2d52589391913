"""Messages of functions: shapes, creation, products, sorting, reductions, random numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from mistakes import A, B, Mistake, check, label, shapes, x

import pyasc

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
    Mistake(ValueError, ("[tensordot]", "'odd'"), lambda: pyasc.tensordot(x(*A), x(*A), axes="odd")),
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

CREATION = [
    Mistake(ValueError, ("[asarray]", "'cpu'", "'npu'"), lambda: pyasc.asarray([1.0], device="npu")),
    Mistake(ValueError, ("[zeros]", "'cpu'", "'npu'"), lambda: pyasc.zeros(3, device="npu")),
    Mistake(ValueError, ("[asarray]", "list"), lambda: pyasc.asarray([1.0], copy=False)),
    Mistake(ValueError, ("[asarray]", "int32"), lambda: pyasc.asarray(x(3), dtype="int32", copy=False)),
    Mistake(ValueError, ("[from_dlpack]", "False"), lambda: pyasc.from_dlpack(np.ones(3), copy=False)),
    Mistake(TypeError, ("[from_dlpack]", "list"), lambda: pyasc.from_dlpack([1])),
    Mistake(TypeError, ("[arange]", "'a'"), lambda: pyasc.arange("a")),
    Mistake(ValueError, ("[arange]", "0"), lambda: pyasc.arange(0, 5, 0)),
    Mistake(ValueError, ("[arange]", "inf"), lambda: pyasc.arange(0.0, float("inf"))),
    Mistake(ValueError, ("[linspace]", "-3"), lambda: pyasc.linspace(0, 1, -3)),
    Mistake(ValueError, ("[vander]", "(3, 4)"), lambda: pyasc.vander(x(*A))),
    Mistake(ValueError, ("[meshgrid]", "'yx'"), lambda: pyasc.meshgrid(x(3), x(4), indexing="yx")),
    Mistake(ValueError, ("[diag]", "(1, 1, 1)"), lambda: pyasc.diag(x(1, 1, 1))),
    Mistake(ValueError, ("[concat]", "stack"), lambda: pyasc.concat([x(), x()])),
    Mistake(ValueError, ("[concat]", "int32", "float32"), lambda: pyasc.concat([x(3)], dtype="int32")),
    Mistake(ValueError, ("[roll]", "(1, 2, 3)"), lambda: pyasc.roll(x(*A), (1, 2, 3), (0, 1))),
    Mistake(ValueError, ("[repeat]", "1.5"), lambda: pyasc.repeat(x(3), 1.5)),
    Mistake(ValueError, ("[repeat]", "-1"), lambda: pyasc.repeat(x(3), -1)),
    Mistake(ValueError, ("[repeat]", "3", "2"), lambda: pyasc.repeat(x(3), [1, 2])),
    Mistake(ValueError, ("[repeat]", "7", "6"), lambda: pyasc.repeat(x(3), 2, total_repeat_length=7)),
    Mistake(ValueError, ("[pad]", "pair", "[1, 2, 3]"), lambda: pyasc.pad(x(*A), [1, 2, 3])),
    Mistake(ValueError, ("[pad]", "1.5"), lambda: pyasc.pad(x(3), 1.5)),
    Mistake(ValueError, ("[pad]", "-1"), lambda: pyasc.pad(x(3), -1)),
    Mistake(ValueError, ("[pad]", "'mirror'"), lambda: pyasc.pad(x(3), 1, mode="mirror")),
    Mistake(ValueError, ("[pad]", "'edge'", "(0,)"), lambda: pyasc.pad(x(0), 1, mode="edge")),
    Mistake(ValueError, ("[pad]", "stat_length"), lambda: pyasc.pad(x(3), 1, stat_length=2)),
]

LINEAR_ALGEBRA = [
    Mistake(ValueError, ("[inv]", "square", "(3, 4)"), lambda: pyasc.linalg.inv(x(*A))),
    Mistake(ValueError, ("[pinv]", "matrices", "(3,)"), lambda: pyasc.linalg.pinv(x(3))),
    Mistake(ValueError, ("[solve]", "(3, 3)", "(4,)"), lambda: pyasc.linalg.solve(x(3, 3), x(4))),
    Mistake(ValueError, ("[qr]", "'full'"), lambda: pyasc.linalg.qr(x(3, 3), mode="full")),
    Mistake(ValueError, ("[matrix_norm]", "7"), lambda: pyasc.linalg.matrix_norm(x(3, 3), ord=7)),
    Mistake(ValueError, ("[norm]", "(1, 2, 3)"), lambda: pyasc.linalg.norm(x(1, 2, 3), ord=1)),
    Mistake(ValueError, ("[matrix_power]", "(3, 4)"), lambda: pyasc.linalg.matrix_power(x(*A), 2)),
    Mistake(ValueError, ("[cross]", "(4,)"), lambda: pyasc.cross(x(4), x(3))),
]

REDUCTIONS = [
    Mistake(ValueError, ("[max]", "initial"), lambda: x(3).max(where=[True, False, True])),
    Mistake(ValueError, ("[average]", "(3, 4)", "(3,)"), lambda: pyasc.average(x(*A), weights=x(3))),
    Mistake(ValueError, ("[cumulative_sum]", "2"), lambda: pyasc.cumulative_sum(x(*A))),
    Mistake(ValueError, ("[quantile]", "0 to 1", "1.5"), lambda: pyasc.quantile(x(3), 1.5)),
    Mistake(ValueError, ("[percentile]", "(0,)"), lambda: pyasc.percentile(x(0), 50)),
    Mistake(ValueError, ("[power]", "-1", "float"), lambda: x(3, dtype="int32") ** -1),
]

LAYOUT = [
    Mistake(ValueError, ("[reshape]", "'X'"), lambda: pyasc.reshape(x(*A), (4, 3), order="X")),
    Mistake(ValueError, ("[reshape]", "without a copy"), lambda: pyasc.reshape(x(*A).T, 12, copy=False)),
    Mistake(ValueError, ("[matrix_transpose]", "(3,)"), lambda: pyasc.matrix_transpose(x(3))),
    Mistake(ValueError, ("[moveaxis]", "(0, 1)"), lambda: pyasc.moveaxis(x(*A), (0, 1), 0)),
    Mistake(ValueError, ("[rollaxis]", "5"), lambda: pyasc.rollaxis(x(*A), 0, 5)),
    Mistake(TypeError, ("[ldexp]", "float32"), lambda: pyasc.ldexp(x(3), x(3))),
    Mistake(ValueError, ("[rot90]", "(3,)"), lambda: pyasc.rot90(x(3))),
    Mistake(ValueError, ("[sliding_window_view]", "(2, 2)"), lambda: pyasc.sliding_window_view(x(3), (2, 2))),
    Mistake(ValueError, ("[sliding_window_view]", "(4,)"), lambda: pyasc.sliding_window_view(x(3), 4)),
    Mistake(ValueError, ("[index_add]", "(2,)", "(2, 2)"), lambda: pyasc.index_add(x(5), 0, [0, 1], x(2, 2))),
    Mistake(ValueError, ("[index_add]", "(2,)", "(3,)"), lambda: pyasc.index_add(x(5), 0, [0, 1], x(3))),
]

RANDOM = [
    Mistake(ValueError, ("[seed]", "-1"), lambda: pyasc.random.seed(-1)),
    Mistake(TypeError, ("[bits]", "int32"), lambda: pyasc.random.default_rng(0).bits(3, dtype="int32")),
    Mistake(ValueError, ("[exponential]", "-1"), lambda: pyasc.random.exponential(-1.0)),
    Mistake(ValueError, ("[bernoulli]", "1.5"), lambda: pyasc.random.bernoulli(1.5)),
    Mistake(TypeError, ("[integers]", "float32"), lambda: pyasc.random.integers(3, dtype="float32")),
    Mistake(ValueError, ("[integers]", "everywhere"), lambda: pyasc.random.integers([1, 5], [2, 4])),
    Mistake(ValueError, ("[permutation]", "-1"), lambda: pyasc.random.permutation(-1)),
    Mistake(TypeError, ("[shuffle]", "list"), lambda: pyasc.random.shuffle([1, 2])),
    Mistake(ValueError, ("[normal]", "(2,)"), lambda: pyasc.random.normal(x(3), 1.0, size=2)),
    Mistake(ValueError, ("[choice]", "(2,)"), lambda: pyasc.random.choice(3, p=[0.5, 0.5])),
    Mistake(ValueError, ("[choice]", "0.9"), lambda: pyasc.random.choice(2, p=[0.5, 0.4])),
    Mistake(ValueError, ("[choice]", "2"), lambda: pyasc.random.choice(2, 2, replace=False, p=[1.0, 0.0])),
    Mistake(ValueError, ("[integers]", "5"), lambda: pyasc.random.integers(5, 5, size=3)),
    Mistake(ValueError, ("[normal]", "-1"), lambda: pyasc.random.normal(0.0, -1.0, size=3)),
    Mistake(ValueError, ("[choice]", "3", "5"), lambda: pyasc.random.choice(3, size=5, replace=False)),
    Mistake(ValueError, ("[choice]",), lambda: pyasc.random.choice(0, size=5)),
    Mistake(TypeError, ("[seed]", "'a'"), lambda: pyasc.random.seed("a")),
]

MISTAKES = [
    *SHAPES,
    *PRODUCTS,
    *SORTING,
    *CREATION,
    *LINEAR_ALGEBRA,
    *REDUCTIONS,
    *LAYOUT,
    *RANDOM,
]


@pytest.mark.parametrize("entry", MISTAKES, ids=label)
def test_mistake(entry: Mistake, mistake: Callable[..., Any]) -> None:
    check(entry, mistake)
