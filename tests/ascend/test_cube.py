"""Generated matrix products on the simulator, with every check on, against NumPy."""

from __future__ import annotations

import itertools
from dataclasses import fields, replace

import numpy as np
import pytest
from cube_products import CHIP, check, kernel

from pyasc.backend.ascend.cube import Contraction, CubeOptions, CubeSizes, generate
from pyasc.ops.errors import ArgumentError

SIZES = (
    [(s, s, s) for s in range(1, 34)]
    + [(1, 1, 300), (1, 300, 1), (300, 1, 1), (1, 127, 257), (100, 257, 127), (127, 100, 33), (257, 31, 100)]
)  # fmt: skip
FEW = [(1, 1, 1), (1, 40, 33), (17, 33, 31), (100, 127, 257), (130, 257, 64)]
LAYOUTS = list(itertools.product((False, True), (False, True)))
DTYPES = [("float16", "float16"), ("bfloat16", "bfloat16"), ("float32", "float32"), ("int8", "int32")]


def contraction(
    dtype: str, out: str, layout: tuple[bool, bool], m: int = 100, n: int = 100, k: int = 100
) -> Contraction:
    return Contraction(m, n, k, dtype=dtype, out=out, transpose_a=layout[0], transpose_b=layout[1])


@pytest.mark.parametrize(("dtype", "out"), DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_size(dtype: str, out: str, layout: tuple[bool, bool]) -> None:
    made, module = kernel(contraction(dtype, out, layout))
    for sizes in SIZES:
        check(made, module, *sizes)


@pytest.mark.parametrize(("dtype", "out"), DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_batches_and_rows_that_do_not_touch(dtype: str, out: str, layout: tuple[bool, bool]) -> None:
    made, module = kernel(contraction(dtype, out, layout))
    for sizes in FEW:
        check(made, module, *sizes, batch=3, padding=(3, 5, 7))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8"])
def test_wider_results(dtype: str) -> None:
    made, module = kernel(contraction(dtype, "float32" if dtype != "int8" else "int32", (False, False)))
    for sizes in FEW:
        check(made, module, *sizes)


def test_int8_as_float16_where_it_fits() -> None:
    made, module = kernel(contraction("int8", "float16", (False, True)))
    check(made, module, 20, 20, 3)


@pytest.mark.parametrize("bias", ["float32", "float16"])
@pytest.mark.parametrize("relu", [False, True])
def test_bias_and_relu(bias: str, relu: bool) -> None:
    made, module = kernel(Contraction(200, 500, 100, out="float16", bias=bias, relu=relu))
    for sizes in [*FEW, (200, 500, 100)]:
        check(made, module, *sizes)


def test_int32_bias() -> None:
    made, module = kernel(Contraction(100, 100, 100, dtype="int8", out="int32", bias="int32"))
    for sizes in FEW:
        check(made, module, *sizes)


@pytest.mark.parametrize("option", [f.name for f in fields(CubeOptions) if f.name != "tile"])
def test_each_option_turned_round(option: str) -> None:
    options = replace(CubeOptions(), **{option: not getattr(CubeOptions(), option)})
    made, module = kernel(contraction("float16", "float32", (False, False)), options)
    for sizes in FEW:
        check(made, module, *sizes, batch=2)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_without_any_option(layout: tuple[bool, bool]) -> None:
    made, module = kernel(contraction("float16", "float32", layout), CubeOptions.none())
    for sizes in FEW:
        check(made, module, *sizes, batch=2)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_many_packets_in_parts(layout: tuple[bool, bool]) -> None:
    """Deep products, where packets of A and B differ in length and go in parts between each other."""
    made, module = kernel(contraction("float16", "float32", layout, 4096, 4096, 4096))
    check(made, module, 260, 300, 1999)
    check(made, module, 1, 300, 1999)


def test_rows_further_apart_than_a_field_holds() -> None:
    made, module = kernel(contraction("float16", "float32", (False, False)))
    check(made, module, 20, 24, 40, padding=(70_000, 66_000, 80_000))


def test_one_matrix_for_a_whole_batch() -> None:
    made, module = kernel(contraction("float16", "float32", (False, False)))
    check(made, module, 70, 50, 60, batch=4, shared_b=True)


def test_more_matrices_than_cores() -> None:
    made, module = kernel(Contraction(32, 32, 32, batch=512))
    check(made, module, 20, 20, 20, batch=101)


def test_rounds_over_the_columns() -> None:
    """B is more than L2 holds: the cores take it in rounds."""
    made, module = kernel(Contraction(4096, 65536, 4096, transpose_b=True))
    assert made.tiling.shares.rounds > 1
    blocks, tiling, _ = made.bind(CubeSizes(4096, 65536, 4096))
    assert blocks == CHIP.cube_cores and len(tiling) % 8 == 0
    check(made, module, 50, 3000, 64)


@pytest.mark.parametrize(
    ("dtype", "out", "layout"),
    # How matrices are copied does not depend on who adds the parts: one layout for each dtype.
    [("float16", "float32", LAYOUTS[1]), ("float32", "float32", LAYOUTS[2]), ("int8", "int32", LAYOUTS[1])],
)
def test_cores_that_share_k(dtype: str, out: str, layout: tuple[bool, bool]) -> None:
    made, module = kernel(contraction(dtype, out, layout))
    each = [(1, 64, 20_000, 1), (33, 50, 9001, 1), (17, 40, 9001, 2)]
    assert made.tiling_of(CubeSizes(*each[0])).shares.k_cores > 1
    for m, n, k, batch in each:
        check(made, module, m, n, k, batch, padding=(3, 5, 7))


def test_sums_of_parts_of_k_are_always_the_same() -> None:
    made, module = kernel(contraction("float32", "float32", (False, True)))
    rng = np.random.default_rng(2)
    a, b = (rng.standard_normal((size, 8192)).astype(np.float32) for size in (20, 40))
    blocks, tiling, _ = made.bind(CubeSizes(20, 40, 8192))
    results = []
    for _ in range(4):
        out = np.full((20, 40), np.nan, np.float32)
        module.run(blocks, [a, b, out, tiling], cores="cube")
        results.append(out)
    assert all((r == results[0]).all() for r in results)


def test_no_two_tiles_overlap_and_all_are_covered() -> None:
    """The shares, worked out as the kernel does: every element of C in one tile, none above the base."""
    made, _ = kernel(contraction("float16", "float32", (False, True), 2048, 2048, 2048))
    for sizes in [
        CubeSizes(2048, 2048, 2048),
        CubeSizes(1777, 2345, 100),
        CubeSizes(1, 16, 1),
        CubeSizes(2049, 1, 7),
    ]:
        tiling = made.tiling_of(sizes)
        shares = tiling.shares
        for extent, unit, base, parts in (
            (sizes.m, shares.unit_m, tiling.base_m, shares.rows),
            (sizes.n, shares.unit_n, tiling.base_n, shares.columns),
        ):
            units = -(-extent // unit)
            edges = [min(j * units // parts * unit, extent) for j in range(parts)] + [extent]
            widths = [b - a for a, b in itertools.pairwise(edges)]
            assert sum(widths) == extent and min(widths) >= 1 and max(widths) <= base


def test_source_is_stable_and_says_what_it_is() -> None:
    made = generate(Contraction(512, 512, 512, names=("q", "k", "scores", "bias")), CHIP)
    again = generate(Contraction(512, 512, 512, names=("q", "k", "scores", "bias")), CHIP)
    assert made.source == again.source and made.name == again.name
    assert made.source.startswith("// scores = q @ k\n")
    head = f"void {made.name}( GM_ADDR q, GM_ADDR k, GM_ADDR scores"
    assert "predicted" in made.source and head in " ".join(made.source.split())


def test_names_that_are_no_identifiers_or_taken() -> None:
    made, module = kernel(Contraction(32, 32, 32, names=("x[0]", "tiling", "class", "b")))
    check(made, module, 32, 32, 32)


def test_one_kernel_for_the_bucket() -> None:
    """Sizes within a fifth of the representative ones need no other kernel."""
    made, module = kernel(contraction("float16", "float32", (False, True), 256, 256, 256))
    for m, n, k in itertools.product((205, 307), repeat=3):
        check(made, module, m, n, k)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"m": 0}, "at least 1"),
        ({"dtype": "float64"}, "a cube core takes"),
        ({"dtype": "int8", "out": "float32"}, "int32 becomes"),
        ({"bias": "int8"}, "float32 or float16 bias"),
        ({"dtype": "int8", "out": "int32", "bias": "float32"}, "int32 bias"),
    ],
)
def test_what_no_kernel_computes(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        Contraction(**{"m": 8, "n": 8, "k": 8, **arguments})  # type: ignore[arg-type]


@pytest.mark.full
@pytest.mark.parametrize(("dtype", "out"), DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_sweep_of_sizes(dtype: str, out: str, layout: tuple[bool, bool]) -> None:
    made, module = kernel(contraction(dtype, out, layout))
    for sizes in itertools.product((1, 2, 15, 16, 17, 33, 100, 127, 257), repeat=3):
        check(made, module, *sizes)
