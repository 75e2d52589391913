"""Generated vector kernels as wholes: options, chips, buckets, text; programs that were hard to get right."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from vector_programs import Array, Launch, assert_same, check, outputs, recorded, run

import pyasc
from pyasc.backend.ascend import folding, vector_kernel
from pyasc.backend.ascend.chip import load
from pyasc.backend.ascend.vector_kernel import ALL, Options, VectorTuning, generate, tune
from pyasc.backend.ir import Binding

CHIP = load("910B1")


@pytest.fixture(autouse=True)
def on_the_cpu_again() -> Iterator[None]:
    yield
    pyasc.config.backend = "cpu"


def heavy(*values: Any, several: bool = False) -> list[Any]:
    """Parameters of tests that only run with ``--full``."""
    return [pytest.param(*(v if several else (v,)), marks=pytest.mark.full) for v in values]


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


@pytest.mark.parametrize("chip", [*heavy("910B2"), "910B3", *heavy("910B4"), "910C"])
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


@pytest.mark.parametrize("name", ["elements", "rows", *heavy("columns"), "transposed", "all"])
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


# --- programs --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", *heavy("uint8")])
@pytest.mark.parametrize("rows, lanes", [(3, 5), *heavy((300, 1), several=True), (2, 5000)])
def test_rows_columns_and_single_elements_meet(dtype: str, rows: int, lanes: int) -> None:
    def program(x: Any, row: Any, column: Any, one: Any) -> list[Any]:
        return [
            x * row + (column + one),
            row + column,
            (x + one) * (column * row),
            pyasc.where(x >= row, column, one),
            row < column,
        ]

    shapes = ((rows, lanes), (lanes,), (rows, 1), ())
    check(program, *[whole(*shape, seed=n).astype(dtype) for n, shape in enumerate(shapes)])


def test_five_axes_are_broadcast() -> None:
    def program(x: Any, y: Any, z: Any) -> list[Any]:
        return [x + y * z, pyasc.where(x > z, x, y)]

    check(program, normal(3, 4, 5, 6, 7), normal(3, 1, 5, 1, 7), normal(4, 1, 6, 1))


@pytest.mark.parametrize("dtype", [*heavy("int8", "uint16"), "uint32", *heavy("float16"), "bfloat16"])
def test_reductions_of_narrow_and_unsigned_dtypes(dtype: str) -> None:
    kind = np.dtype(pyasc.bfloat16 if dtype == "bfloat16" else dtype)
    integer = kind.kind in "iu"
    if integer:
        info = np.iinfo(kind)
        x = np.random.default_rng(0).integers(info.min, info.max, (33, 700), endpoint=True).astype(kind)
    else:
        x = whole(33, 700).astype(kind)

    def program(x: Any) -> list[Any]:
        return [
            f(x, axis=1) for f in (pyasc.max, pyasc.min, pyasc.argmax, pyasc.argmin, pyasc.any, pyasc.all)
        ] + [pyasc.sum(x, axis=1, dtype=kind)]

    check(program, x)


@pytest.mark.parametrize("lanes", [*heavy(1, 33), 511, *heavy(1601), 8193])
def test_rows_of_every_length_are_folded(lanes: int) -> None:
    x = whole(5, lanes)
    x[3, lanes // 2] = np.nan
    check(lambda x: [x.sum(axis=1), x.max(axis=1), pyasc.argmin(x, axis=1), (x > 6).any(axis=1)], x)


def test_rows_of_a_bucket_are_as_far_apart_as_repeats_reach() -> None:
    """Rows that are folded by repeats may be 255 blocks apart, the longest of the bucket too."""
    pyasc.clear_cache()
    shortest = folding.LONGEST - 1
    for lanes in (shortest, int(shortest * 1.2)):
        x = whole(5, lanes, dtype=np.int32)
        (total, place) = run(lambda x: [x.sum(axis=1, dtype=np.int32), pyasc.argmin(x, axis=1)], [x], "sim")
        assert_same([total, place], [x.sum(axis=1, dtype=np.int32), x.argmin(axis=1)])
    assert pyasc.cache_stats()["kernels"] == 1


@pytest.mark.parametrize("axes", [*heavy((3,)), (0, 2), (0, 1, 2, 3)])
def test_axes_that_do_not_merge_are_reduced(axes: tuple[int, ...]) -> None:
    def program(x: Any) -> list[Any]:
        y = x.transpose(3, 1, 2, 0)[:, 1:]
        found = [y.sum(axis=axes), y.max(axis=axes)]
        return [*found, pyasc.argmax(y)] if len(axes) == 4 else found

    check(program, whole(17, 3, 40, 6))


def test_nan_infinities_and_zeros_of_either_sign() -> None:
    x = normal(40, 300)
    places = np.random.default_rng(0).random(x.shape) < 0.3
    special = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-40], np.float32)
    x[places] = np.random.default_rng(1).choice(special, int(places.sum()))
    x[:20] = np.nan_to_num(x[:20], nan=1.0, posinf=2.0)

    def program(x: Any) -> list[Any]:
        return [x.max(axis=1), x.min(axis=1), pyasc.argmax(x, axis=1), x.any(axis=1), abs(x), -x, x * 0.5]

    with np.errstate(all="ignore"):
        check(program, x)


def test_half_precision_overflows_to_infinity_and_sums_in_single_precision() -> None:
    x = np.full((3, 50), 60000, np.float16)
    with np.errstate(all="ignore"):
        (doubled, total, mean) = check(lambda x: [x + x, x.sum(axis=1), x.mean(axis=1)], x)
    assert np.isinf(doubled).all() and np.isinf(total).all() and (mean == 60000).all()


def test_sums_of_many_ones_are_exact() -> None:
    given = run(lambda x: [x.sum(axis=1), x.sum()], [np.ones((3, 2**20 + 1), np.float32)], "sim")
    assert (given[0] == 2**20 + 1).all() and given[1] == 3 * 2**20 + 3


@pytest.mark.full
def test_a_sum_of_2_to_the_25_ones_is_exact() -> None:
    assert run(lambda x: x.sum(), [np.ones(2**25, np.float32)], "sim")[0] == 2**25


def test_means_and_variances_of_large_numbers_close_together() -> None:
    x = (1e6 + np.random.default_rng(0).random((50, 900))).astype(np.float32)
    mean, variance = run(lambda x: [x.mean(axis=1), x.var(axis=1)], [x], "sim")
    exact = x.astype(np.float64)
    np.testing.assert_allclose(mean, exact.mean(axis=1), rtol=2e-7)
    np.testing.assert_allclose(variance, exact.var(axis=1), rtol=0.2)


def normalised(x: Any, weight: Any, bias: Any) -> Any:
    centred = x - x.mean(axis=1, keepdims=True)
    return centred / pyasc.sqrt((centred * centred).mean(axis=1, keepdims=True) + 1e-5) * weight + bias


def softmax(x: Any, axis: int) -> Any:
    grown = pyasc.exp(x - x.max(axis=axis, keepdims=True))
    return grown / grown.sum(axis=axis, keepdims=True)


@pytest.mark.parametrize("rows, lanes", [*heavy((900, 33), several=True), (37, 701), (3, 20000)])
def test_rows_are_normalised_with_weights(rows: int, lanes: int) -> None:
    check(normalised, normal(rows, lanes), normal(lanes, seed=1), normal(lanes, seed=2), ulp=64)


@pytest.mark.parametrize(
    "shape, axis",
    [
        *heavy(((5, 3), 1), several=True),
        ((700, 37), 0),
        ((9000, 40), 0),
        *heavy(((4, 70, 5), 1), several=True),
    ],
)
def test_softmax_over_any_axis(shape: tuple[int, ...], axis: int) -> None:
    check(lambda x: softmax(x, axis), normal(*shape), ulp=16)


def test_softmax_of_what_lies_transposed_or_far_apart() -> None:
    check(lambda x: softmax(x.T, 1), normal(700, 40), ulp=16)
    check(lambda x: softmax(x[:, :, 3], 1), normal(20, 300, 40), ulp=16)


@pytest.mark.parametrize("length", [40, *heavy(90)])
def test_long_chains_over_many_tiles(length: int) -> None:
    def program(x: Any, row: Any) -> Any:
        z = x
        for n in range(length):
            z = (z + row, z * 0.5, pyasc.maximum(z, row - n), pyasc.where(z > n % 3, z, x), z - x)[n % 5]
        return z

    check(program, normal(900, 700), normal(700, seed=1))


def test_updates_in_place_read_what_was_there_before() -> None:
    def program(x: Any, y: Any) -> list[Any]:
        x[1:] += y[:-1]
        x[::2] = x[::2] + y[::2]
        x[:, 1:] = x[:, 1:] - x[:, :-1]
        x[:, ::-1] += y
        y[...] = x.T + y[::-1]
        return [x, y]

    check(program, whole(65, 65), whole(65, 65, seed=1))


def test_threads_share_the_chip() -> None:
    arrays = [whole(20 + n, 30) for n in range(6)]
    found: dict[int, Array] = {}

    def work(n: int) -> None:
        x = pyasc.array(arrays[n])
        found[n] = np.asarray((x * n + 1).sum(axis=1))

    with pyasc.backend("sim"):
        threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for n, x in enumerate(arrays):
        np.testing.assert_array_equal(found[n], (x * n + 1).sum(axis=1))
