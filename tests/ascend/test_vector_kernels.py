"""Generated vector kernels as wholes: options, chips, buckets, text; programs that were hard to get right."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from vector_programs import Array, Launch, assert_same, check, outputs, recorded, run

import pyasc
from pyasc.backend.ascend import vector_kernel
from pyasc.backend.ascend.chip import load
from pyasc.backend.ascend.vector_kernel import ALL, Options, VectorTuning, generate, tune
from pyasc.backend.ir import Binding

CHIP = load("910B1")
OTHERS = ("910B2", "910B3", "910B4", "910C")


@pytest.fixture(autouse=True)
def on_the_cpu_again() -> Iterator[None]:
    yield
    pyasc.config.backend = "cpu"


def whole(*shape: int, dtype: Any = "float32", seed: int = 0) -> Array:
    """Small whole numbers, whose sums are exact in whatever order they are taken."""
    return np.random.default_rng(seed).integers(-7, 8, shape).astype(dtype)


def normal(*shape: int, dtype: Any = "float32", seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def mixed(x: Any, row: Any, column: Any) -> list[Any]:
    return [(x * row + 1.5) - column, x > row]


def summed(x: Any) -> list[Any]:
    return [x.sum(), x.max(), pyasc.argmax(x)]


def row_shares(x: Any) -> Any:
    """Of whole numbers: one pass for the sum, one for the quotients, the same bits however rows are cut."""
    return x / x.sum(axis=1, keepdims=True)


KERNELS = {
    "elements": (mixed, (whole(60, 257), whole(257, seed=1), whole(60, 1, seed=2))),
    "rows in passes": (row_shares, (abs(whole(3, 50000)),)),
    "split over cores": (summed, (whole(600, 700),)),
}


@pytest.fixture(scope="module")
def launches() -> dict[str, Launch]:
    """Each kernel as it ran when nothing was turned off, its results compared with the CPU's."""
    found = {}
    for name, (program, arrays) in KERNELS.items():
        with recorded() as seen:
            check(program, *arrays)
        (found[name],) = seen
    return found


# --- one kernel, generated in several ways -----------------------------------------------------------------


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("off", [*Options._fields, "all"])
def test_without_an_optimisation_the_results_are_the_same(
    launches: dict[str, Launch], off: str, name: str
) -> None:
    seen = launches[name]
    without = Options(*[False] * len(ALL)) if off == "all" else ALL._replace(**{off: False})
    tuning = tune(seen.kernel, seen.binding, CHIP, without)
    assert_same(seen.again(generate(seen.kernel, tuning, CHIP)), seen.outputs(seen.after))


@pytest.mark.parametrize("chip", OTHERS)
def test_other_chips_give_the_same_results(launches: dict[str, Launch], chip: str) -> None:
    for seen in launches.values():
        other = load(chip)
        generated = generate(seen.kernel, tune(seen.kernel, seen.binding, other), other)
        assert generated.bind(seen.binding).blocks <= other.vector_cores
        assert_same(seen.again(generated), seen.outputs(seen.after))


def test_the_same_kernel_has_the_same_text(launches: dict[str, Launch]) -> None:
    for seen in launches.values():
        texts = set()
        for _ in range(2):
            vector_kernel._stages.cache_clear()
            tuning = tune(seen.kernel, seen.binding, CHIP)
            assert tuning == tune(seen.kernel, seen.binding, CHIP)
            texts.add(generate(seen.kernel, tuning, CHIP).source)
        assert len(texts) == 1


def scaled(binding: Binding, extents: Sequence[int]) -> Binding:
    """A binding of arrays that lie as before, of other sizes."""
    strides = []
    for old in binding.strides:
        new, step = [0] * len(old), 1
        for axis in sorted(range(len(old)), key=lambda k: (abs(old[k]), -k)):
            if old[axis]:
                new[axis], step = step, step * extents[axis]
        strides.append(tuple(new))
    return Binding(tuple(extents), tuple(strides), binding.offsets)


def test_a_tuning_holds_for_its_bucket(launches: dict[str, Launch]) -> None:
    for seen in launches.values():
        generated = generate(seen.kernel, tune(seen.kernel, seen.binding, CHIP), CHIP)
        for factor in (0.8, 0.9, 1.1, 1.2):
            extents = [max(1, round(e * factor)) for e in seen.binding.extents]
            assert generated.fits(scaled(seen.binding, extents)), (seen.kernel.name, factor)


def test_what_is_larger_than_a_tile_does_not_fit() -> None:
    with recorded() as seen:
        check(row_shares, abs(whole(40, 700)))
    (row,) = seen
    tuning = tune(row.kernel, row.binding, CHIP)
    assert isinstance(tuning, VectorTuning) and tuning.whole
    generated = generate(row.kernel, tuning, CHIP)
    assert generated.fits(scaled(row.binding, (400, 700)))
    assert not generated.fits(scaled(row.binding, (40, 70000)))


# --- buckets ---------------------------------------------------------------------------------------------


BUCKETS: dict[str, Callable[..., Any]] = {
    "elements": mixed,
    "rows": lambda x, row, column: x - x.max(axis=1, keepdims=True),
    "columns": lambda x, row, column: x - x.max(axis=0, keepdims=True),
    "transposed": lambda x, row, column: x.T + column[:, 0],
    "all": lambda x, row, column: x.sum(),
}


@pytest.mark.parametrize("name", BUCKETS)
def test_sizes_of_a_bucket_share_a_kernel(name: str) -> None:
    pyasc.clear_cache()  # the first size stands for the bucket
    random = np.random.default_rng(1)
    sizes = zip(random.integers(55, 66, 25), random.integers(275, 328, 25), strict=True)
    compiles = []
    for rows, lanes in [(60, 300), *sizes, (54, 270), (65, 327)]:
        arrays = (whole(rows, lanes), whole(lanes, seed=1), whole(rows, 1, seed=2))
        expected = [np.asarray(e) for e in outputs(BUCKETS[name](*arrays))]
        assert_same(run(BUCKETS[name], arrays, "sim"), expected)
        compiles.append(int(pyasc.cache_stats()["compiles"]))
    assert compiles[-1] == compiles[0], pyasc.cache_stats()
