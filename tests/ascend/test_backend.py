"""Choosing where operations run, and what the simulated chip leaves to the host."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import pyasc
from pyasc.backend import _runtime

RunPython = Callable[..., Any]


@pytest.fixture(autouse=True)
def on_the_cpu_again() -> Iterator[None]:
    yield
    pyasc.config.backend = "cpu"


def backends(tensor: Any, **options: Any) -> list[str]:
    return [kernel.backend for kernel in pyasc.explain(tensor, **options).kernels]


# --- choosing -----------------------------------------------------------------------------------------


def test_a_with_statement_selects_and_restores() -> None:
    assert pyasc.config.backend == "cpu"
    with pyasc.backend("sim") as name:
        assert name == pyasc.config.backend == "sim"
        assert backends(pyasc.ones(5) + 1) == ["sim:910B1"]
        with pyasc.backend("sim:910B3"):
            assert backends(pyasc.ones(5) + 1) == ["sim:910B3"]
            with pyasc.backend("cpu"):
                assert backends(pyasc.ones(5) + 1) == ["cpu"]
        assert backends(pyasc.ones(5) + 1) == ["sim:910B1"]
    assert pyasc.config.backend == "cpu"


def test_a_call_selects_for_good() -> None:
    pyasc.backend("sim")
    assert backends(pyasc.ones(5) + 1) == ["sim:910B1"]
    pyasc.backend("cpu")
    assert backends(pyasc.ones(5) + 1) == ["cpu"]


def test_an_error_inside_restores_the_backend() -> None:
    with pytest.raises(KeyError), pyasc.backend("sim"):
        raise KeyError
    assert pyasc.config.backend == "cpu"
    assert backends(pyasc.ones(5) + 1) == ["cpu"]


def test_an_unknown_backend_changes_nothing() -> None:
    with pytest.raises(ValueError, match="'sim:910B3'"):
        pyasc.backend("sim:410")
    assert pyasc.config.backend == "cpu"
    assert backends(pyasc.ones(5) + 1) == ["cpu"]


def test_the_package_is_still_there() -> None:
    assert pyasc.backend._runtime is _runtime  # type: ignore[attr-defined]
    assert "sim" in str(pyasc.backend.__doc__)


def test_the_environment_selects(run_python: RunPython) -> None:
    program = """
        import pyasc
        x = pyasc.asarray([1.0, 2.0]) * 3
        print(pyasc.config.backend, pyasc.explain(x).kernels[0].backend, x)
    """
    assert run_python(program, PYASC_BACKEND="sim").stdout.split(maxsplit=2)[:2] == ["sim", "sim:910B1"]
    refused = run_python(program, PYASC_BACKEND="gpu", check=False)
    assert refused.returncode != 0 and "given 'gpu'" in refused.stderr


# --- what runs where ----------------------------------------------------------------------------------


def test_an_operation_runs_on_the_backend_it_was_recorded_for() -> None:
    x = pyasc.asarray(np.arange(8, dtype=np.float32))
    before = x + 1
    with pyasc.backend("sim"):
        assert backends(before) == [], "what was pending is evaluated when the backend changes"
        inside = before * 2
        assert backends(inside) == ["sim:910B1"]
    assert backends(inside) == []
    np.testing.assert_array_equal(inside, (np.arange(8) + 1) * 2)


def test_tensors_pass_between_backends() -> None:
    x = pyasc.asarray(np.arange(70, dtype=np.float32))
    with pyasc.backend("sim"):
        y = x[3:] * 2
    z = y - x[3:]
    with pyasc.backend("sim"):
        z += x[:-3]
        np.testing.assert_array_equal(z, np.arange(3, 70) + np.arange(67))


def test_a_pending_error_is_raised_where_the_backend_changes() -> None:
    x = pyasc.asarray(np.arange(8, dtype=np.float32))
    good = x + 1
    bad = x[pyasc.asarray([9]) + 0]
    with pytest.raises(IndexError, match="size 8, given 9"):
        pyasc.backend("sim")
    assert pyasc.config.backend == "cpu"
    np.testing.assert_array_equal(good, np.arange(8) + 1)
    del bad


def test_jit_has_a_trace_for_each_backend() -> None:
    @pyasc.jit
    def step(v: Any) -> Any:
        return v * v + 1

    x = pyasc.asarray(np.linspace(-1, 1, 40, dtype=np.float32))
    on_cpu = np.asarray(step(x))
    with pyasc.backend("sim"):
        assert [k.backend for k in step.explain(x).kernels] == ["sim:910B1"]
        on_sim = np.asarray(step(x))
        step(x)
    step(x)
    assert step.cache_info().misses == 2 and step.cache_info().hits == 2
    np.testing.assert_array_equal(on_cpu, on_sim)


def test_kernels_are_counted_for_each_backend() -> None:
    x = pyasc.asarray(np.arange(40, dtype=np.float32))
    expression = lambda: abs(x * 3 - 7)  # noqa: E731
    np.asarray(expression())
    compiles = pyasc.cache_stats()["misses"]
    with pyasc.backend("sim"):
        np.asarray(expression())
        assert pyasc.cache_stats()["misses"] == compiles + 1
        np.asarray(expression())
    np.asarray(expression())
    assert pyasc.cache_stats()["misses"] == compiles + 1


def test_what_runs_on_the_host_says_why() -> None:
    x = pyasc.asarray(np.ones((8, 8)))
    for y in (pyasc.sort(x), pyasc.cumsum(x, axis=0), x @ x, pyasc.linalg.inv(x)):
        (call,) = pyasc.explain(y, backend="sim").kernels
        assert (call.kind, call.reason) == ("host", "runs on the host: there is no kernel for it")


def test_what_the_chip_lacks_is_compiled_for_the_host() -> None:
    x = pyasc.asarray(np.linspace(1, 2, 50))  # float64
    with pyasc.backend("sim"):
        y = pyasc.sqrt(x * x + 1) - 1
        (kernel,) = pyasc.explain(y).kernels
        assert (kernel.kind, kernel.backend) == ("kernel", "cpu")
        assert "runs on the host: float64" in kernel.reason and "910B1" in kernel.reason
        assert "runs on the host: float64" in str(pyasc.explain(y)) and " on cpu: " in str(pyasc.explain(y))
        narrowed = y.astype("float32") * 2
        kernels = pyasc.explain(narrowed).kernels
        assert [k.backend for k in kernels] == ["cpu", "sim:910B1"]
        np.testing.assert_allclose(narrowed, 2 * (np.sqrt(np.linspace(1, 2, 50) ** 2 + 1) - 1), rtol=1e-6)


def test_host_libraries_work_on_the_simulator() -> None:
    with pyasc.backend("sim"):
        x = pyasc.asarray(np.array([[3.0, 1], [1, 2]], np.float32))
        np.testing.assert_allclose(pyasc.linalg.inv(x + 0) @ x, np.eye(2), atol=1e-6)
        assert pyasc.sort(x, axis=None)[0] == 1


def test_an_index_out_of_bounds_names_the_line(mistake: Any) -> None:
    x = pyasc.asarray(np.arange(10, dtype=np.float32))
    with pyasc.backend("sim"), mistake(IndexError, "size 10", "given 12"):
        i = pyasc.asarray([3, 11]) + 1
        y = x[i]  # here
        np.asarray(y)


def test_an_index_is_computed_on_the_chip() -> None:
    x = pyasc.asarray(np.arange(60, dtype=np.float32).reshape(6, 10))
    i, j = pyasc.asarray([5, -1, 0]), pyasc.asarray([9, 0, -10])
    with pyasc.backend("sim"):
        y = x[i, j] + 1
        assert backends(y) == ["sim:910B1"]
        np.testing.assert_array_equal(y, [60, 51, 1])


def test_numbers_alone_in_a_reduction() -> None:
    with pyasc.backend("sim"):
        ones = pyasc.ones((40, 50))
        made = pyasc.exp(ones * 2).sum(axis=0)
        (kernel,) = pyasc.explain(made).kernels
        assert kernel.backend == "cpu" and "the same for every element" in kernel.reason
        np.testing.assert_allclose(made, np.full(50, 40 * np.exp(2.0)), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bool", "uint16", "uint32", "int8"])
def test_columns_that_are_repeated_are_reduced_as_they_are(dtype: str) -> None:
    """The scalar unit reads such an element; what follows treats it as it does a tile."""
    column = np.array([[1], [3], [0]]).astype(dtype)
    whole = np.broadcast_to(column, (3, 5000))
    with pyasc.backend("sim"):
        x = pyasc.broadcast_to(pyasc.asarray(column), (3, 5000))
        made = [f(x) for f in (pyasc.max, pyasc.min, pyasc.sum, pyasc.argmax, pyasc.argmin)]
        pyasc.sync(*made)  # in one kernel
        for given, expected in zip(made, (np.max, np.min, np.sum, np.argmax, np.argmin), strict=True):
            assert np.asarray(given).item() == expected(whole)


def test_writes_in_place() -> None:
    with pyasc.backend("sim"):
        x = pyasc.asarray(np.arange(40, dtype=np.float32))
        x[4:20] = x[10:26] + 1
        x += 1
        x[::3] *= -1
        expected = np.arange(40, dtype=np.float32)
        expected[4:20] = expected[10:26] + 1
        expected += 1
        expected[::3] *= -1
        np.testing.assert_array_equal(x, expected)
