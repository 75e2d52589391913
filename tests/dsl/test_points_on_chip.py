"""Kernels written thread by thread on the simulated chip: how each runs, and that it computes the same."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
import thread_kernels as t
from points_checks import assert_close, bits
from random_kernels import DTYPES, Array, Case, assert_same, random_kernel

from pyasc.backend.base import KernelFault, Part
from pyasc.backend.sim.backend import Simulated, cost
from pyasc.lazy.backends import create


@cache
def backend() -> Simulated:
    made = create("sim:910B1", create("cpu", None))
    assert isinstance(made, Simulated)
    return made


def run_parts(case: Case) -> tuple[list[Array], tuple[Part, ...]]:
    """The buffers afterwards, and by what it was run."""
    parts = backend().parts(case.kernel, case.binding)
    buffers = case.copies()
    for part in parts:
        numbers = [
            x % 2**64 if held else bits(case.scalars[x], case.kernel.scalars[x]) for held, x in part.scalars
        ]
        if part.call is not None:
            call = part.call()
        else:
            tuning = part.backend.tune(part.kernel, part.binding, False)
            executable, _ = part.backend.compile(part.kernel, tuning)
            bound = executable.bind(part.binding)
            call = bound  # type: ignore[assignment]
        call.function([buffers[a] for a in part.operands], numbers)
    return buffers, parts


KERNELS: dict[str, Callable[[], Case]] = {
    "vector_add": t.vector_add,
    "sobel with a border": lambda: t.sobel(border=True),
    "nbody": t.nbody,
    "resize": t.resize,
    "stretched": lambda: t.with_numbers(t.stretched()),
    "softmax": t.softmax,
    "masked": t.masked,
    "in_place": t.in_place,
    "count": t.count,
    "neighbour": t.neighbour,
    "take": t.take,
    "halo_filter": t.halo_filter,
    "sums_into": lambda: t.sums_into(3, 5000),
}


@pytest.mark.parametrize("name", KERNELS)
def test_vector_code_computes_the_same(name: str) -> None:
    case = KERNELS[name]()
    buffers, parts = run_parts(case)
    assert_close(buffers, case.expected()[0], name)
    assert not any(part.reason for part in parts)
    assert all(part.call is None for part in parts)


@pytest.mark.parametrize(
    "make", [t.matmul, lambda: t.matmul(dtype=np.float16, total=np.float16, out=np.float16)]
)
def test_a_sum_of_products_runs_on_the_cube(make: Callable[[], Case]) -> None:
    case = make()
    buffers, (part,) = run_parts(case)
    assert part.call is not None
    assert not part.reason
    assert_close(buffers, case.expected()[0], part.kernel.source)


@pytest.mark.parametrize("make", [lambda: t.with_numbers(t.matmul_of_numbers()), t.matmul_in_tiles])
def test_other_ways_to_multiply_run_on_the_cube(make: Callable[[], Case]) -> None:
    case = make()
    buffers, (part,) = run_parts(case)
    assert part.call is not None
    assert_close(buffers, case.expected()[0], "matmul")


def test_an_index_outside_is_reported() -> None:
    case = t.take(bad=-3)
    with pytest.raises(KernelFault) as caught:
        run_parts(case)
    (part,) = backend().parts(case.kernel, case.binding)
    assert case.expected()[1] == {(1 + part.sites[caught.value.code - 1], -3)}
    assert caught.value.value == -3


def test_what_vectors_cannot_do_says_why() -> None:
    case = t.matmul_of_numbers()
    (part,) = backend().parts(case.kernel, case.binding)
    assert part.reason == (
        "runs as scalar code: the turns of a loop depend on what is not known when it is compiled"
    )
    assert part.kernel is case.kernel


def test_float64_runs_on_the_host() -> None:
    case = t.vector_add(dtype=np.float64)
    assert all(p.reason.startswith("runs on the host: ") for p in backend().parts(case.kernel, case.binding))


@pytest.mark.parametrize(
    "make", [lambda: t.vector_add(1 << 22, 0), lambda: t.with_numbers(t.vector_add(1 << 22, 100))]
)
def test_vector_kernels_run_at_the_speed_of_memory(make: Callable[[], Case]) -> None:
    case = make()
    (part,) = backend().parts(case.kernel, case.binding)
    generated = backend().generate(part.kernel, part.binding)
    sizes = tuple(
        size * o.dtype.itemsize for size, o in zip(part.binding.sizes, part.kernel.operands, strict=True)
    )
    found = cost(generated, generated.bind(part.binding), sizes)
    assert found.bound.startswith("HBM")
    assert found.efficiency >= 0.9


@pytest.mark.full
@pytest.mark.parametrize("seed", range(60))
def test_random_kernels_on_the_chip(seed: int) -> None:
    dtypes = [*DTYPES, np.dtype(np.float32), np.dtype(np.int32)]
    dtypes.remove(np.dtype(np.float64))
    case = random_kernel(seed, barriers=seed % 2 > 0, atomics=False, dtypes=dtypes)
    if all(part.backend is not backend().fallback for part in backend().parts(case.kernel, case.binding)):
        assert_same(run_parts(case)[0], case.expected()[0], case.kernel)
