"""Errors and explanations: at the line that caused them, in the user's terms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyasc


def test_an_error_is_raised_where_it_is_recorded(mistake: Callable[..., Any]) -> None:
    x = pyasc.ones(3) * 2
    with mistake(ValueError, "(3,)", "(4,)"):
        x + pyasc.ones(4)
    np.testing.assert_array_equal(np.asarray(x), np.full(3, 2.0))


def test_a_later_failure_names_the_recording_line(mistake: Callable[..., Any]) -> None:
    index = pyasc.arange(5) * 3
    with mistake(IndexError, "expected indices", "6"):
        picked = pyasc.ones(5)[index]  # here
        scaled = picked * 2
        pyasc.sync(scaled)


def test_a_later_failure_leaves_the_rest_usable() -> None:
    x = pyasc.arange(5)
    good, bad = x * 2, x[x + 1]
    with pytest.raises(IndexError):
        pyasc.sync(bad)
    np.testing.assert_array_equal(np.asarray(good), np.arange(5) * 2)
    with pytest.raises(IndexError):
        np.asarray(bad)
    np.testing.assert_array_equal(np.asarray(x + 1), np.arange(1, 6))
    del bad
    pyasc.sync()


def test_eager_raises_at_once(mistake: Callable[..., Any]) -> None:
    index = pyasc.arange(5) * 3
    with mistake(IndexError, "6"), pyasc.eager():
        pyasc.ones(5)[index]


def test_an_error_in_the_middle_of_a_trace_records_nothing() -> None:
    x = pyasc.zeros((2, 3))
    for attempt in (
        lambda: x @ x,
        lambda: x + pyasc.ones(7),
        lambda: x[5],
        lambda: x.reshape(7),
        lambda: x.sum(axis=4),
    ):
        with pytest.raises((ValueError, IndexError)):
            attempt()
    with pytest.raises(ValueError):
        x[:, 1:] = pyasc.ones(9)
    x += 1
    np.testing.assert_array_equal(np.asarray(x), np.ones((2, 3)))


def test_explain_does_not_evaluate() -> None:
    x = pyasc.ones((64, 64))
    y = pyasc.tanh(x * 2) + 1
    before = pyasc.memory_stats()["pending"]
    plan = pyasc.explain(y)
    assert pyasc.memory_stats()["pending"] == before
    (kernel,) = plan.kernels
    assert kernel.name
    assert {"mul", "tanh", "add"} <= {str(op) for op in kernel.ops}
    assert len(kernel.outputs) == 1
    assert "define" in kernel.source("llvm")
    assert kernel.source("asm")
    text = str(plan)
    assert "tanh" in text and kernel.name in text


def test_explain_of_what_cannot_fuse_says_why() -> None:
    x = pyasc.ones((32, 32))
    plan = pyasc.explain(pyasc.exp((x * 2) @ x) + 1)
    assert "matmul" in str(plan)


def test_explain_of_an_evaluated_tensor_has_no_kernels() -> None:
    x = pyasc.ones(5) + 1
    pyasc.sync(x)
    assert pyasc.explain(x).kernels == []


def test_one_kernel_for_what_fits_one() -> None:
    x = pyasc.array(np.random.default_rng(0).random((40, 50), dtype=np.float32))
    pyasc.sync(x)
    e = pyasc.exp(x - x.max(axis=1, keepdims=True))
    softmax = e / e.sum(axis=1, keepdims=True)
    normal = (x - x.mean(axis=1, keepdims=True)) / pyasc.sqrt(x.var(axis=1, keepdims=True) + 1e-5)
    stencil = x[2:, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2] - 4 * x[1:-1, 1:-1]
    total = pyasc.exp(x * 2 + 1).sum()
    for result in (softmax, normal, stencil, total):
        assert len(pyasc.explain(result).kernels) == 1


def test_log_prints_the_ir_after_each_pass(run_python: Any) -> None:
    result = run_python("import pyasc; print(float((pyasc.ones(7) * 3 + 1).sum()))", PYASC_LOG="ir")
    assert result.stdout.strip() == "28.0"
    assert "kernel" in result.stderr
    assert run_python("import pyasc; print(float((pyasc.ones(7) * 3).sum()))", PYASC_LOG="").stderr == ""


def test_out_of_memory_says_what_is_asked_and_who_holds_the_rest(run_python: Any) -> None:
    result = run_python("""
        import pyasc
        pyasc.config.memory_limit = 64 * 2**20
        held = pyasc.ones((4 * 2**20,)) + 1           # 16 MiB
        pyasc.sync(held)
        try:
            big = pyasc.ones((2**25,)) + 1            # 128 MiB
            pyasc.sync(big)
        except MemoryError as error:
            print(error)
        else:
            raise SystemExit("no MemoryError")
        del big
        pyasc.config.memory_limit = 0
        assert float(held.sum()) == 2.0 * 4 * 2**20
        assert float((pyasc.ones(2**24) + 1).sum()) == 2.0**25
    """)
    message = result.stdout
    assert "expected" in message and "given" in message
    assert "128" in message, "what was asked"
    assert "4194304" in message, "who holds the rest"
    assert "[add]" in message and "<string>:7" in message, "by what and where it was asked"


def test_the_limit_frees_the_cache_first(run_python: Any) -> None:
    run_python("""
        import pyasc
        pyasc.config.memory_limit = 64 * 2**20
        for k in range(8):
            x = pyasc.ones((10 * 2**20 + 4096 * k,)) + 1      # 40 MiB, each a block of another size
            pyasc.sync(x)
            del x
    """)
