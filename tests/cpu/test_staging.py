"""Stencils over computed values: once for a tile and its border, or written out where tiles do not reach."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyasc
from pyasc.backend.cpu.backend import CPU
from pyasc.explain import Explanation
from pyasc.lazy import evaluate


def computed(x: Any, xp: Any) -> Any:
    """Something worth computing once."""
    return xp.sqrt(x * x + 1) * 3 - x / 7


def cross(p: Any) -> Any:
    return p[1:-1, 2:] - 2 * p[1:-1, 1:-1] + p[1:-1, :-2] + p[2:, 1:-1] * p[:-2, 1:-1]


def along_rows(p: Any) -> Any:
    return p[:, 3:] - p[:, :-3] + p[:, 1:-2]


def along_columns(p: Any) -> Any:
    return p[3:] - p[:-3] + p[1:-2]


def flat(p: Any) -> Any:
    q = p.reshape(-1)
    return q[2:] + q[1:-1] - q[:-2]


def cube(p: Any) -> Any:
    q = p.reshape(3, -1, p.shape[1])
    return q[1:, 1:, 1:] - q[:-1, :-1, :-1] + q[1:, :-1, 1:]


SHAPES = [(6, 7), (9, 1), (3, 33), (30, 17), (12, 1100), (300, 5), (66, 2100)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("stencil", [cross, along_rows, along_columns, flat, cube])
def test_stencils_of_computed_values(stencil: Callable[[Any], Any], shape: tuple[int, int]) -> None:
    x = np.random.default_rng(3).normal(size=shape).astype(np.float32)
    expected = stencil(computed(x, np))
    given = stencil(computed(pyasc.asarray(x), pyasc))
    np.testing.assert_array_equal(given.numpy(), expected)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int8", "int64"])
def test_dtypes(dtype: str) -> None:
    x = np.random.default_rng(4).integers(-9, 9, size=(40, 70))
    t = pyasc.asarray(x).astype(dtype)
    a = cross(t * t + t * 3 - 1)
    with pyasc.eager():
        b = cross(t * t + t * 3 - 1)
    assert a.numpy().tobytes() == b.numpy().tobytes()


def test_written_out_equals_staged(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(5).normal(size=(64, 130)).astype(np.float32)
    staged = cross(computed(pyasc.asarray(x), pyasc)).numpy()
    monkeypatch.setattr(CPU, "stages_shifts", False)
    evaluate.clear_plans()
    written_out = cross(computed(pyasc.asarray(x), pyasc)).numpy()
    evaluate.clear_plans()
    assert staged.tobytes() == written_out.tobytes()


def test_a_stencil_of_a_computed_image_is_one_kernel_that_computes_it_once() -> None:
    x = pyasc.asarray(np.ones((64, 130), np.float32))
    made: Explanation = pyasc.explain(cross(computed(x, pyasc)))
    (kernel,) = made.kernels
    assert kernel.ops.count("sqrt") == 1
    assert kernel.ops.count("shift") == 5


def test_two_images_and_what_is_read_in_place() -> None:
    x = np.random.default_rng(6).normal(size=(50, 60)).astype(np.float32)

    def both(x: Any, xp: Any) -> Any:
        p, q = computed(x, xp), xp.sqrt(abs(x)) + x * 2
        return cross(p) + cross(q) - p[1:-1, 1:-1] + x[2:, 2:]

    np.testing.assert_array_equal(both(pyasc.asarray(x), pyasc).numpy(), both(x, np))


def test_in_place_steps_of_a_computed_field() -> None:
    u = np.random.default_rng(7).normal(size=(40, 50)).astype(np.float32)
    t = pyasc.asarray(u)
    for _ in range(3):
        p, q = computed(u, np), computed(t, pyasc)
        u[1:-1, 1:-1] += cross(p) * np.float32(0.01)
        t[1:-1, 1:-1] += cross(q) * 0.01
    np.testing.assert_array_equal(t.numpy(), u)
