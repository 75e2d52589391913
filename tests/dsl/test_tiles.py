"""Tile-style kernels by the reference interpreter and on the CPU, for every size; what they are raised to."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tile_kernels as kernels
from lowering_checks import lowered

import pyasc
from pyasc.backend import reference
from pyasc.backend.ascend import chip as chips
from pyasc.backend.ascend.backend import Ascend
from pyasc.backend.ir import Kernel
from pyasc.backend.points import raising
from pyasc.backend.structured import StructuredBinding
from pyasc.backend.structured.reference import run
from pyasc.backend.verify import verify_binding, verify_kernel
from pyasc.dsl.signature import LaunchValues, Lowered, Options
from pyasc.dsl.tiles.buffers import tile_sizes
from pyasc.dsl.tiles.statements import OPERATIONS
from pyasc.ops.errors import KernelError
from pyasc.ops.primitives import PRIMITIVES, Kind

ASCEND = Ascend(chips.load("910B1"), None)
SIZES = (*range(1, 34), 47, 64, 65, 101)
rng = np.random.default_rng(5)


def normal(*shape: int, dtype: str = "float32") -> Any:
    return rng.normal(size=shape).astype(dtype)


def bound(made: Lowered, arguments: dict[str, Any]) -> tuple[StructuredBinding, list[Any]]:
    arrays = [arguments[str(path[0])] for path in made.arrays]
    shapes = {(n,): v.shape for n, v in arguments.items() if isinstance(v, np.ndarray)}
    values = LaunchValues(shapes, lambda path: arguments[str(path[0])])
    assert all(guard.compute(values) == guard.expected for guard in made.guards)
    grid = tuple(extent(values) for extent in made.grid)
    strides = tuple(tuple(s // a.itemsize for s in a.strides) for a in arrays)
    sizes = tuple(a.size for a in arrays)
    return StructuredBinding(grid, tuple(a.shape for a in arrays), strides, (0,) * len(arrays), sizes), arrays


def launched(function: Callable[..., Any], **arguments: Any) -> tuple[Lowered, StructuredBinding]:
    """Run by the reference interpreter, and as what it is raised to; what was run."""
    made = lowered(function, **arguments)
    binding, arrays = bound(made, arguments)
    scalars = [arguments[str(path[0])] for path in made.scalars]
    whole = [a.copy().reshape(-1) for a in arrays]
    assert run(made.kernel, binding, [a.reshape(-1) for a in arrays], scalars) is None
    assert made.style == "tiles"
    parts = raising.parts(made.kernel, binding, ASCEND)
    if not isinstance(parts, str) and not any(part.call for part in parts):
        for part in parts:
            verify_kernel(part.kernel)
            verify_binding(part.kernel, part.binding, part.binding.sizes)
            given = [
                number(value, dtype) if held else scalars[value]
                for (held, value), dtype in zip(part.scalars, part.kernel.scalars, strict=True)
            ]
            reference.run(part.kernel, part.binding, [whole[n] for n in part.operands], given)
        for one, other in zip(arrays, whole, strict=True):
            assert np.allclose(one.reshape(-1), other, rtol=1e-5, atol=1e-5, equal_nan=True)
    return made, binding


def number(bits: int, dtype: Any) -> Any:
    return np.frombuffer(struct.pack("<q", bits), dtype, 1)[0]


def raised(function: Callable[..., Any], options: Options | None = None, **arguments: Any) -> Any:
    made = lowered(function, options, **arguments)
    return raising.parts(made.kernel, bound(made, arguments)[0], ASCEND)


@pytest.mark.parametrize("n", SIZES)
def test_vectors_of_every_length(n: int) -> None:
    a, b = normal(n), normal(n)
    c, d, half, e = (np.full(n, np.nan, t) for t in ("float32", "float32", "float16", "float32"))
    launched(kernels.larger, c=c, d=d, a=a, b=b, n=n)
    assert np.array_equal(c, np.maximum(a, b)) and np.array_equal(d, np.maximum(a, b) - a)
    launched(kernels.convert, c=half, a=a, n=n)
    assert np.array_equal(half, a.astype("float16"))
    e[:] = a
    launched(kernels.exponential, a=e, n=n)
    assert np.allclose(e, np.exp(a))
    s = np.full(1, 2.0, "float32")
    made, _ = launched(kernels.total, s=s, a=a, n=n)
    assert np.allclose(s, 2 + a.sum(), atol=1e-5)
    assert "not one loop" in made.reason


@pytest.mark.parametrize(("m", "n"), [(1, 1), (3, 5), (4, 8), (9, 17), (13, 7), (5, 33)])
def test_matrices(m: int, n: int) -> None:
    a = normal(m, n)
    c, s = np.full((m, n), np.nan, "float32"), np.full(m, np.nan, "float32")
    launched(kernels.scale, c=c, a=a, alpha=2.0, beta=0.5)
    assert np.allclose(c, np.maximum(a * 2 + np.float32(0.5), 0))
    launched(kernels.row_sums, s=s, a=a, n=n)
    assert np.allclose(s, a.sum(axis=1), atol=1e-5)
    launched(kernels.bias, c=c, a=a, b=a)
    assert np.allclose(c, a * a)


@pytest.mark.parametrize(("m", "n"), [(1, 1), (1, 9), (5, 7), (6, 1), (9, 33)])
def test_reductions(m: int, n: int) -> None:
    a = normal(m, n)
    c, s, t, u = (np.zeros(shape, "float32") for shape in ((m, n), m, (1, n), 1))
    launched(kernels.softmax, c=c, a=a)
    e = np.exp(a - a.max(axis=1, keepdims=True))
    assert np.allclose(c, e / e.sum(axis=1, keepdims=True), atol=1e-6)
    launched(kernels.row_maxima, s=s, a=a)
    assert np.array_equal(s, a.max(axis=1))
    launched(kernels.column_sums, s=t, a=a)
    assert np.allclose(t[0], a.sum(axis=0), atol=1e-5)
    launched(kernels.whole_sum, s=u, a=a.reshape(-1), n=m * n)
    assert np.allclose(u, a.sum() + 0.5, atol=1e-5)
    for function, arguments, reduced in (
        (kernels.softmax, {"c": c, "a": a}, n),
        (kernels.row_maxima, {"s": s, "a": a}, n),
        (kernels.column_sums, {"s": t, "a": a}, m),
        (kernels.whole_sum, {"s": u, "a": a.reshape(-1), "n": m * n}, m * n),
    ):
        (part,) = raised(function, **arguments)
        assert part.binding.extents[part.kernel.parallel :] == ((reduced,) if reduced > 1 else ())


PRODUCTS = [(1, 1, 1), (16, 32, 8), (17, 33, 9), (15, 31, 7), (5, 70, 23), (33, 64, 16)]


@pytest.mark.parametrize(
    ("dtype", "out"), [("float16", "float32"), ("float32", "float32"), ("int8", "int32")]
)
def test_products(dtype: str, out: str) -> None:
    for m, n, k in PRODUCTS:
        a, b = (normal(m, k) * 3).astype(dtype), (normal(k, n) * 3).astype(dtype)
        c = np.zeros((m, n), out)
        launched(kernels.small_matmul, c=c, a=a, b=b)
        assert np.allclose(c, a.astype(out) @ b.astype(out), atol=1e-4), (m, n, k)


def test_a_product_with_what_follows_it() -> None:
    a, b, d = normal(33, 20, dtype="float16"), normal(20, 70, dtype="float16"), normal(33, 70)
    c = np.zeros((33, 70), "float32")
    launched(kernels.dense, c=c, a=a, b=b, d=d)
    assert np.allclose(c, np.maximum(a.astype("float32") @ b.astype("float32") + d, 0), atol=1e-4)
    product, rest = raised(kernels.dense, c=c, a=a, b=b, d=d)
    assert product.call is not None and [i.op for i in rest.kernel.body if i.args] == ["add", "max", "store"]


def test_a_product_is_rounded_once() -> None:
    a, b = normal(40, 70, dtype="float16"), normal(70, 50, dtype="float16")
    c = np.zeros((40, 50), "float16")
    _, binding = launched(kernels.matmul, c=c, a=a, b=b, m=40, n=50, k=70)
    exact = a.astype("float32") @ b.astype("float32")
    assert binding.grid == (1, 1)
    assert np.abs(c.astype("float32") - exact).max() <= np.abs(exact).max() * 2**-11


def test_every_primitive_has_its_name() -> None:
    special = {"cast", "bitcast", "random_bits", "wrap_index"}
    names = {p.name for p in PRIMITIVES.values() if p.kind is Kind.ELEMENTWISE} - special
    assert names <= set(OPERATIONS)
    assert OPERATIONS["ln"][0] is PRIMITIVES["log"] and OPERATIONS["greater"] == (PRIMITIVES["lt"], True)


# --- loops as threads ---------------------------------------------------------------------------------------


def test_outer_loops_are_axes_of_the_grid() -> None:
    a = normal(9, 17)
    made, binding = launched(kernels.scale, c=np.zeros((9, 17), "float32"), a=a, alpha=1.0, beta=0.0)
    assert binding.grid == (3, 3) and not made.reason
    assert made.kernel.block == (1, 1)


def shifted(c: Any, a: Any, n: int) -> None:
    """Each turn writes over a part of what the one before wrote."""
    for o in range(0, n, 4):
        x = pyasc.alloc("UB", 8 * 4)
        pyasc.dma_copy(x, a[o : o + 8])
        pyasc.dma_copy(c[o : o + 8], x)


def carried(c: Any, a: Any, n: int) -> None:
    """Each turn reads what the one before left in a buffer."""
    x = pyasc.alloc("UB", 8 * 4)
    pyasc.dma_copy(x, a[0:8])
    for o in range(0, n, 8):
        pyasc.elementwise("add", x, x, 1.0, 8)
        pyasc.dma_copy(c[o : o + 8], x)


def scanned(c: Any, n: int) -> None:
    """Each turn reads what the one before wrote."""
    for o in range(8, n, 8):
        x = pyasc.alloc("UB", 8 * 4)
        pyasc.dma_copy(x, c[o - 8 : o])
        pyasc.elementwise("add", x, x, 1.0, 8)
        pyasc.dma_copy(c[o : o + 8], x)


def test_loops_that_depend_on_each_other_stay() -> None:
    a, c = normal(20), np.zeros(20, "float32")
    made, _ = launched(shifted, c=c, a=a, n=20)
    assert made.reason == "turns write the same part of c" and np.array_equal(c, a)
    made, _ = launched(carried, c=c, a=a, n=20)
    assert made.reason and np.allclose(c[8:16], a[:8] + 2)
    c[:] = 0
    made, _ = launched(scanned, c=c, n=20)
    assert made.reason == "turns read or write different parts of c" and np.array_equal(c[16:], [2] * 4)
    for function, arguments in ((shifted, {"a": a}), (carried, {"a": a}), (scanned, {})):
        assert isinstance(raised(function, c=c, n=20, **arguments), str)


# --- whole arrays -------------------------------------------------------------------------------------------


def test_a_vector_kernel_is_raised_to_one_tape() -> None:
    a, b, c, d = (normal(1001) for _ in range(4))
    (part,) = raised(kernels.larger, c=c, d=d, a=a, b=b, n=1001)
    assert isinstance(part.kernel, Kernel) and part.kernel.parallel == 1
    assert part.binding.extents == (1001,)
    assert [i.op for i in part.kernel.body] == ["load", "load", "lt", "where", "sub", "store", "store"]
    (part,) = raised(kernels.scale, c=normal(40, 30), a=normal(40, 30), alpha=2.0, beta=1.0)
    assert part.binding.extents == (1200,)
    assert [source for source, _ in part.scalars] == [False, False, True]


def test_rows_are_raised_to_a_reduction() -> None:
    (part,) = raised(kernels.row_sums, s=normal(40), a=normal(40, 30), n=30)
    assert (part.kernel.parallel, part.kernel.reduced, part.binding.extents) == (1, 1, (40, 30))


@pytest.mark.parametrize("sizes", [(40, 50, 70), (4096, 4096, 4096), (1, 1, 1), (300, 17, 129)])
def test_a_product_is_raised_to_the_cube(sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    a, b, c = (np.empty(s, "float16") for s in ((m, k), (k, n), (m, n)))
    arguments = {"c": c, "a": a, "b": b, "m": m, "n": n, "k": k}
    (part,) = raised(kernels.matmul, **arguments)
    own = ASCEND.product([(a.shape, (k, 1)), (b.shape, (n, 1))], (m, n), np.dtype("float16"), ("a", "b", "c"))
    assert own is not None and part.operands == (1, 2, 0)
    assert part.kernel.source == own.source and part.kernel.tiling == own.tiling
    (plain,) = raised(kernels.matmul, Options(optimize=False), **arguments)
    tiling = plain.kernel.tiling
    assert tiling.l1_buffers == tiling.l0_buffers == 1
    most = tile_sizes((m, n, k), 2, ASCEND.chip)
    assert (tiling.base_m <= most[0], tiling.base_n <= most[1], tiling.base_k <= most[2]) == (True,) * 3


def test_the_depth_of_the_pipeline() -> None:
    a, b, c = (np.empty(s, "float16") for s in ((300, 200), (200, 100), (300, 100)))
    arguments = {"c": c, "a": a, "b": b, "m": 300, "n": 100, "k": 200}
    (part,) = raised(kernels.matmul, Options(pipeline_depth=1), **arguments)
    assert (part.kernel.tiling.l1_buffers, part.kernel.tiling.l0_buffers) == (1, 1)
    (part,) = raised(
        kernels.scale, Options(pipeline_depth=1), c=normal(9, 9), a=normal(9, 9), alpha=1.0, beta=0.0
    )
    assert part.backend.tune(part.kernel, part.binding).copies == 1


def test_a_part_of_the_arrays_stays_a_part() -> None:
    """Sizes smaller than the arrays: whole tiles go past them, as slices do, and the rest is left alone."""
    a, b = normal(40), normal(40)
    c, d = np.zeros(40, "float32"), np.zeros(40, "float32")
    _, binding = launched(kernels.larger, c=c, d=d, a=a, b=b, n=20)
    assert np.array_equal(c[:24], np.maximum(a, b)[:24]) and not c[24:].any()
    (part,) = raised(kernels.larger, c=c, d=d, a=a, b=b, n=20)
    assert binding.grid == (3,) and part.binding.extents == (24,)


# --- the CPU ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 7, 33, 4095, 4097, 20011])
def test_vectors_on_the_cpu(n: int) -> None:
    add = pyasc.kernel(kernels.add)
    a, b = normal(n), normal(n)
    c = pyasc.zeros(n, dtype="float32")
    add(c, pyasc.array(a), pyasc.array(b), n)
    assert np.array_equal(np.asarray(c), a + b)


@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (127, 257, 65), (128, 256, 64), (130, 300, 1)])
def test_products_on_the_cpu(m: int, n: int, k: int) -> None:
    matmul = pyasc.kernel(kernels.matmul)
    for dtype in ("float16", "float32"):
        a, b = normal(m, k, dtype=dtype), normal(k, n, dtype=dtype)
        c = pyasc.zeros((m, n), dtype=dtype)
        matmul(c, pyasc.array(a), pyasc.array(b), m, n, k)
        exact = a.astype("float64") @ b.astype("float64")
        assert np.allclose(np.asarray(c), exact, rtol=2e-3, atol=2e-2 if dtype == "float16" else 1e-4)


def test_sizes_near_each_other_share_their_tiles() -> None:
    chip = ASCEND.chip
    assert {tile_sizes((n, n, n), 2, chip) for n in range(3300, 4900, 100)} == {(128, 256, 64)}
    assert tile_sizes((10**6,), 4, chip) == (4096,) and tile_sizes((10**6,), 2, chip) == (8192,)
    assert tile_sizes((5,), 4, chip) == (16,) and tile_sizes((1, 1, 1), 2, chip) == (16, 16, 16)
    assert tile_sizes((1000, 64), 4, chip) == (64, 64)


def test_what_was_not_written_is_zero() -> None:
    a, c = normal(21), np.full(21, np.nan, "float32")
    launched(kernels.in_one_branch, c=c, a=a, n=21)
    assert np.array_equal(c, np.where(np.arange(21) < kernels.T, 0, a))
    for m, k in ((20, 0), (20, 40)):
        x, y, z = (
            normal(m, k, dtype="float16"),
            normal(k, 16, dtype="float16"),
            np.full((m, 16), np.nan, "f4"),
        )
        launched(kernels.adding, c=z, a=x, b=y)
        assert np.allclose(z, x.astype("f4") @ y.astype("f4"), atol=1e-2)
        if k:
            continue
        z[:] = np.nan
        launched(kernels.matmul, c=z, a=x, b=y, m=m, n=16, k=k)
        assert not z.any()


def test_tiles_do_not_broadcast() -> None:
    a = normal(4, 8)
    with pytest.raises(KernelError, match="no broadcasting"):
        lowered(kernels.broadcast_row, c=a, a=a, b=normal(1, 8))


def test_a_second_call_on_arrays_of_numpy() -> None:
    run = pyasc.kernel(kernels.matmul)
    a, c = normal(20, 20, dtype="float16"), np.empty((20, 20), "float16")
    for _ in range(2):
        run(c, a, a, 20, 20, 20)
    expected = a.astype("f4") @ a.astype("f4")
    assert np.allclose(c, expected, rtol=1e-2, atol=1e-2)
    run(a, a, a.copy(), 20, 20, 20)
    assert np.allclose(a, expected, rtol=1e-2, atol=1e-2)
