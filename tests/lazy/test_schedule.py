"""The scheduler: random programs give what they mean, and those it was made for are cut as they should be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from random_graphs import AnyBackend, PartialBackend, by_kernels, by_meaning, random_roots

import pyasc
from pyasc.lazy.lower import lower
from pyasc.ops import _graph


@pytest.mark.parametrize("max_instructions", [6, 30, 600])
@pytest.mark.parametrize("block", range(8))
def test_random_programs(block: int, max_instructions: int) -> None:
    for seed in range(block * 40, block * 40 + 40):
        tape = _graph.linearise(random_roots(seed))
        with np.errstate(all="ignore"):
            expected = by_meaning(tape)
            given, _ = by_kernels(tape, AnyBackend(max_instructions, stages_shifts=bool(block % 2)))
        for e, g in zip(expected, given, strict=True):
            np.testing.assert_allclose(g, e, rtol=1e-9, err_msg=f"seed {seed}")


LACKING = ({"add"}, {"max", "reduce"}, {"view", "iota"}, {"neg", "update"}, {"gather", "exp", "sub"})


@pytest.mark.parametrize("lacking", LACKING, ids=lambda names: "-".join(sorted(names)))
def test_what_a_backend_lacks_is_cut_for_its_fallback(lacking: set[str]) -> None:
    backend = PartialBackend(lacking, stages_shifts=False)
    on_either = set()
    for seed in range(160):
        tape = _graph.linearise(random_roots(seed))
        with np.errstate(all="ignore"):
            expected = by_meaning(tape)
            given, cut = by_kernels(tape, backend)
        for e, g in zip(expected, given, strict=True):
            np.testing.assert_allclose(g, e, rtol=1e-9, err_msg=f"seed {seed}")
        for step in cut.steps:
            if step.backend is backend:
                on_either.add(backend)
                lowered = lower(cut, step)
                assert not lacking & {i.op for i in lowered.kernel.body}
            elif step.backend is backend.fallback:
                on_either.add(backend.fallback)
                assert "is missing" in step.reason
    assert on_either == {backend, backend.fallback}


@pytest.mark.full
def test_many_random_programs() -> None:
    for seed in range(10_000, 40_000):
        tape = _graph.linearise(random_roots(seed))
        with np.errstate(all="ignore"):
            expected = by_meaning(tape)
            given, _ = by_kernels(tape, AnyBackend())
        for e, g in zip(expected, given, strict=True):
            np.testing.assert_allclose(g, e, rtol=1e-9, err_msg=f"seed {seed}")


X = np.linspace(-1, 1, 64 * 96, dtype=np.float32).reshape(64, 96)


def softmax(x: Any) -> Any:
    e = pyasc.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def layer_norm(x: Any) -> Any:
    mean = x.mean(axis=-1, keepdims=True)
    return (x - mean) / pyasc.sqrt(x.var(axis=-1, keepdims=True) + 1e-5)


def standardise(x: Any) -> Any:
    return (x - x.mean(axis=0)) / x.std(axis=0)


def sobel(p: Any) -> Any:
    gx = (p[:-2, 2:] + 2 * p[1:-1, 2:] + p[2:, 2:]) - (p[:-2, :-2] + 2 * p[1:-1, :-2] + p[2:, :-2])
    gy = (p[2:, :-2] + 2 * p[2:, 1:-1] + p[2:, 2:]) - (p[:-2, :-2] + 2 * p[:-2, 1:-1] + p[:-2, 2:])
    return pyasc.minimum(pyasc.sqrt(gx * gx + gy * gy), 255)


def distances(x: Any) -> Any:
    return ((x[:, None, :] - x[None, :, :]) ** 2).sum(axis=-1)


def blur(p: Any) -> Any:
    weights = (1 / 16, 4 / 16, 6 / 16, 4 / 16, 1 / 16)
    rows = sum(w * p[:, j : p.shape[1] - 4 + j] for j, w in enumerate(weights))
    return sum(w * rows[i : rows.shape[0] - 4 + i] for i, w in enumerate(weights))


@pytest.mark.parametrize("function", [softmax, layer_norm, standardise, sobel, distances, blur])
def test_one_kernel(function: Any) -> None:
    made = function(pyasc.asarray(X))
    kernels = pyasc.explain(made).kernels
    assert [k.kind for k in kernels] == ["kernel"]
    assert [o.shape for o in kernels[0].outputs] == [made.shape]
    assert len(kernels[0].inputs) == 1


def test_a_stencil_reads_its_input_once() -> None:
    (kernel,) = pyasc.explain(sobel(pyasc.asarray(X))).kernels
    assert kernel.bytes_read <= X.nbytes


def test_live_intermediates_are_outputs_of_the_same_kernel() -> None:
    x = pyasc.asarray(X)
    double = x * 2
    result = double + 1
    (kernel,) = pyasc.explain(result).kernels
    assert len(kernel.outputs) == 2
    assert float(result[0, 0]) == float(double[0, 0]) + 1


def test_dead_nodes_do_not_run() -> None:
    x = pyasc.asarray(X)
    y = x + 1
    pyasc.exp(y)  # nobody keeps it
    (kernel,) = pyasc.explain(y).kernels
    assert kernel.ops == ("add",)


def test_cut_reasons_are_named() -> None:
    x = pyasc.asarray(X)
    s = x.sum(axis=0)
    made = s[:, None] * s[None, :]
    kernels = pyasc.explain(made).kernels
    assert len(kernels) == 2
    assert all(k.reason for k in kernels)


def test_updates_in_place_ping_pong_between_two_buffers() -> None:
    u = pyasc.asarray(np.zeros((128, 128), np.float32))
    u[64, 64] = 1
    pyasc.sync(u)
    pyasc.reset_peak_memory()
    before = pyasc.memory_stats()["used"]
    for _ in range(50):
        u[1:-1, 1:-1] += 0.1 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1])
    pyasc.sync(u)
    assert pyasc.memory_stats()["peak"] - before <= 2 * u.nbytes
