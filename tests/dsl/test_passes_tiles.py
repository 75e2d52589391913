"""Tile statements: their meaning against NumPy, and the loops they are written as against their meaning."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from random_kernels import F32, I64, Case, KernelWriter, assert_same, random_values

from pyasc.backend import structured as s
from pyasc.backend.structured.barriers import regions, regions_binding
from pyasc.backend.structured.reference import StructuredReference, run
from pyasc.backend.structured.tiles import expand
from pyasc.backend.structured.verify import verify_structured, verify_structured_binding

Array = np.ndarray[Any, Any]


def outcomes(case: Case, exact: bool = True) -> list[Array]:
    """The buffers after the kernel ran by its meaning; its loops have to give the same."""
    verify_structured(case.kernel)
    verify_structured_binding(case.kernel, case.binding)
    expected = case.copies()
    assert run(case.kernel, case.binding, expected, case.scalars) is None
    kernel = expand(regions(case.kernel))
    binding, held = regions_binding(case.kernel, case.binding)
    verify_structured(kernel)
    assert not any(isinstance(x, (*s.TILE_STATEMENTS, s.Barrier)) for x in s.walk(kernel.body))
    given = case.copies()
    assert run(kernel, binding, given, [*case.scalars, *held]) is None
    if exact:
        assert_same(given, expected, f"{case.kernel}\n{kernel}")
    else:
        for a, b in zip(given, expected, strict=True):
            np.testing.assert_allclose(a.astype(np.float64), b.astype(np.float64), rtol=1e-5)
    return expected


def region(w: KernelWriter, array: int, *borders: tuple[int, int]) -> s.Region:
    return s.Region(
        array,
        tuple(w.number(a) for a, _ in borders),
        tuple(w.number(b) for _, b in borders),
    )


def numbers(shape: Sequence[int], dtype: Any = np.float32, seed: int = 0) -> Array:
    return random_values(Random(seed), tuple(shape), np.dtype(dtype))


def like_a_slice(start: int, stop: int) -> slice:
    return slice(max(start, 0), max(stop, 0))


@pytest.mark.parametrize("seed", range(30))
def test_copies_clip_like_slices(seed: int) -> None:
    random = Random(seed)
    rank = random.choice((1, 2, 3))
    shape, held = ([random.randint(1, 9) for _ in range(rank)] for _ in range(2))
    borders = [[sorted(random.randint(-3, 12) for _ in range(2)) for _ in range(rank)] for _ in range(2)]
    w = KernelWriter((1,), (1,))
    source = numbers(shape, seed=seed)
    strides = tuple(random.choice((1, 2, 11, 0)) for _ in shape) if random.random() < 0.2 else None
    if strides is not None:
        source = np.broadcast_to(source[(slice(0, 1),) * rank], shape)
    a = w.array(source, reads=True, strides=strides, offset=random.choice((0, 2)))
    b = w.array(numbers(held, seed=1), writes=True)
    t = w.buffer(tuple(held), F32)
    everything = [(0, e) for e in held]
    w.put(s.TileCopy(region(w, t, *everything), region(w, b, *everything), w.site(b)))
    w.arrays[b] = s.Array("b", F32, w.arrays[b].layout, True, True)
    into, of = ([(lo, hi) for lo, hi in x] for x in borders)
    w.put(s.TileCopy(region(w, t, *into), region(w, a, *of), w.site(a)))
    w.put(s.TileCopy(region(w, b, *everything), region(w, t, *everything), w.site(b)))
    expected = numbers(held, seed=1)
    taken = source[tuple(like_a_slice(*x) for x in of)]
    place = expected[tuple(like_a_slice(*x) for x in into)]
    both = tuple(slice(0, min(x, y)) for x, y in zip(taken.shape, place.shape, strict=True))
    place[both] = taken[both]
    assert_same([outcomes(w.case())[b]], [expected.reshape(-1)])


@pytest.mark.parametrize("size", (1, 7, 31, 32, 33, 100))
def test_a_vector_kernel_of_tiles(size: int) -> None:
    """Blocks of one thread, each with a tile of 32."""
    w = KernelWriter((-(-size // 32),), (1,))
    x, y = numbers((size,), seed=1), numbers((size,), seed=2)
    a, b = w.array(x, reads=True), w.array(y, reads=True)
    c = w.array(np.zeros(size, np.float32), writes=True)
    tiles = [w.buffer((32,), F32) for _ in range(3)]
    start = w.mul(w.id(), w.number(32))
    stop = w.add(start, w.number(32))
    zero, whole = w.number(0), w.number(32)
    for tile, array in zip(tiles, (a, b), strict=False):
        w.put(
            s.TileCopy(s.Region(tile, (zero,), (whole,)), s.Region(array, (start,), (stop,)), w.site(array))
        )
    w.put(s.TileApply("add", tiles[2], (("buffer", tiles[0]), ("buffer", tiles[1])), whole))
    w.put(s.TileApply("mul", tiles[2], (("buffer", tiles[2]), ("value", w.const(2.0, F32))), w.number(99)))
    w.put(s.TileCopy(s.Region(c, (start,), (stop,)), s.Region(tiles[2], (zero,), (whole,)), w.site(c)))
    np.testing.assert_array_equal(outcomes(w.case())[c], (x + y) * 2)


def test_apply_between_buffers_of_different_shape() -> None:
    """In C order; a buffer that is also read by index keeps its shape."""
    w = KernelWriter((1,), (1,))
    a, c = w.array(numbers((4, 6)), reads=True), w.array(np.zeros((3, 8), np.int32), writes=True)
    d = w.array(np.zeros(1, np.int32), writes=True)
    t, u = w.buffer((4, 6), F32), w.buffer((3, 8), np.int32)
    w.put(s.TileCopy(region(w, t, (0, 4), (0, 6)), region(w, a, (0, 4), (0, 6)), w.site(a)))
    w.put(s.TileApply("cast", u, (("value", w.const(7.0, F32)),), w.number(24)))
    w.put(s.TileApply("cast", u, (("buffer", t),), w.number(21)))
    w.store(d, (w.number(0),), w.load(u, w.number(2), w.number(5)))
    w.put(s.TileCopy(region(w, c, (0, 3), (0, 8)), region(w, u, (0, 3), (0, 8)), w.site(c)))
    expected = numbers((4, 6)).astype(np.int32).reshape(-1)
    expected[21:] = 7
    after = outcomes(w.case())
    np.testing.assert_array_equal(after[c], expected)
    assert after[d][0] == 7


REDUCED = [(how, dtype) for how in ("add", "mul", "max", "min") for dtype in ("float32", "int32", "uint8")]
REDUCED += [("add", "float16"), ("max", "bfloat16"), ("add", "bfloat16"), ("and", "bool"), ("or", "bool")]


@pytest.mark.parametrize(("how", "dtype"), REDUCED)
@pytest.mark.parametrize("columns", (0, 5, 64, 150))
@pytest.mark.parametrize("accumulate", (False, True))
def test_reductions(how: str, dtype: str, columns: int, accumulate: bool) -> None:
    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    w = KernelWriter((1,), (1,))
    x, old = numbers((5, 160), kind), numbers((4,), kind, seed=3)
    if how == "mul":
        x = np.ones_like(x)
        x[:, 3] = 2
    a, c = w.array(x, reads=True), w.array(old, reads=True, writes=True)
    t, u = w.buffer((5, 160), kind), w.buffer((4,), kind)
    w.put(s.TileCopy(region(w, t, (0, 5), (0, 160)), region(w, a, (0, 5), (0, 160)), w.site(a)))
    w.put(s.TileCopy(region(w, u, (0, 4)), region(w, c, (0, 4)), w.site(c)))
    w.put(s.TileReduce(how, u, t, w.number(99), w.number(columns), accumulate))
    w.put(s.TileCopy(region(w, c, (0, 4)), region(w, u, (0, 4)), w.site(c)))
    after = outcomes(w.case())[c]  # the numbers are such that sums are exact
    if columns:
        function = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}.get(how)
        function = function or {"and": np.logical_and, "or": np.logical_or}[how]
        wide = np.dtype(np.float32) if kind.itemsize == 2 and kind.kind in "fV" else kind
        rows = x[:4, :columns].astype(wide)
        expected = function.reduce(rows, axis=1, dtype=wide if how in ("add", "mul") else None)
        if accumulate:
            expected = function(old.astype(wide), expected)
        assert_same([after], [expected.astype(kind)])
    elif accumulate:
        assert_same([after], [old])


@pytest.mark.parametrize("dtypes", (("float32", "float32"), ("float16", "float32"), ("int8", "int32")))
@pytest.mark.parametrize("sizes", ((1, 1, 1), (5, 7, 3), (8, 16, 4), (9, 5, 16)))
def test_products(dtypes: tuple[str, str], sizes: tuple[int, int, int]) -> None:
    """Tiles of 4 × 8 over matrices of any size, the depth cut into pieces of 4."""
    m, n, k = sizes
    of, into = map(np.dtype, dtypes)
    x, y = numbers((m, k), of, 1), numbers((k, n), of, 2)
    w = KernelWriter((-(-m // 4), -(-n // 8)), (1, 1))
    a, b = w.array(x, reads=True), w.array(y, reads=True)
    c = w.array(np.zeros((m, n), into), writes=True)
    left, right = w.buffer((4, 4), of, "A2"), w.buffer((4, 8), of, "B2")
    total = w.buffer((4, 8), into, "CO1")
    zero, four, eight = w.number(0), w.number(4), w.number(8)
    i, j = w.mul(w.id(0), four), w.mul(w.id(1), eight)
    with w.loop(zero, w.extent(a, 1), 4) as depth:
        far = w.add(depth, four)
        w.put(
            s.TileCopy(
                s.Region(left, (zero, zero), (four, four)),
                s.Region(a, (i, depth), (w.add(i, four), far)),
                w.site(a),
            )
        )
        w.put(
            s.TileCopy(
                s.Region(right, (zero, zero), (four, eight)),
                s.Region(b, (depth, j), (far, w.add(j, eight))),
                w.site(b),
            )
        )
        rest = w.min(four, w.sub(w.extent(a, 1), depth))
        more = w.compare("lt", zero, depth)
        rows = w.min(four, w.sub(w.extent(a, 0), i))
        columns = w.min(eight, w.sub(w.extent(b, 1), j))
        w.put(s.TileProduct(total, left, right, rows, columns, rest, more))
    w.put(
        s.TileCopy(
            s.Region(c, (i, j), (w.add(i, four), w.add(j, eight))),
            s.Region(total, (zero, zero), (four, eight)),
            w.site(c),
        )
    )
    after = outcomes(w.case())[c].reshape(m, n)
    np.testing.assert_array_equal(after, x.astype(into) @ y.astype(into))


def test_a_tile_that_threads_share() -> None:
    """Blocks of 8 threads copy a tile together; the last one is cut short."""
    w = KernelWriter((21,), (8,))
    x = numbers((21,), seed=5)
    a, c = w.array(x, reads=True), w.array(np.zeros(21, np.float32), writes=True)
    t = w.buffer((8,), F32)
    start = w.mul(w.id(0, "group_id"), w.id(0, "block_size"))
    stop = w.add(start, w.id(0, "block_size"))
    tile = s.Region(t, (w.number(0),), (w.number(8),))
    w.put(s.TileCopy(tile, s.Region(a, (start,), (stop,)), w.site(a)))
    last = w.sub(w.min(stop, w.id(0, "global_size")), w.add(start, w.number(1)))
    w.store(c, (w.id(),), w.load(t, w.sub(last, w.id(0, "local_id"))))
    expected = np.concatenate([x[k : k + 8][::-1] for k in range(0, 21, 8)])
    np.testing.assert_array_equal(outcomes(w.case())[c], expected)


def test_a_sum_through_shared_memory() -> None:
    """Halved between barriers, as in every introduction to such kernels."""
    w = KernelWriter((32,), (8,))
    x = numbers((32,), seed=6)
    a, c = w.array(x, reads=True), w.array(np.zeros(4, np.float32), writes=True)
    t = w.buffer((8,), F32)
    local = w.id(0, "local_id")
    w.store(t, (local,), w.load(a, w.id()))
    w.put(s.Barrier())
    half = w.variable(I64, w.number(4))
    with w.block() as head:
        more = w.compare("lt", w.number(0), w.get(half))
    with w.block() as body:
        now = w.get(half)
        with w.when(w.compare("lt", local, now)):
            w.store(t, (local,), w.let("add", F32, w.load(t, local), w.load(t, w.add(local, now))))
        w.put(s.Barrier())
        w.set(half, w.let("floor_divide", I64, now, w.number(2)))
    w.put(s.While(tuple(head), more, tuple(body)))
    with w.when(w.compare("eq", local, w.number(0))):
        w.store(c, (w.id(0, "group_id"),), w.load(t, w.number(0)))
    np.testing.assert_array_equal(outcomes(w.case())[c], x.reshape(4, 8).sum(axis=1))


def test_buffers_hold_nothing_in_the_beginning() -> None:
    w = KernelWriter((1,), (1,))
    c = w.array(np.zeros(1, np.float32), writes=True)
    w.store(c, (w.number(0),), w.load(w.buffer((1,), F32), w.number(0)))
    case = w.case()
    buffers = case.copies()
    StructuredReference(case.kernel, case.binding, buffers).run()
    assert np.isnan(buffers[c][0])


def random_tiles(seed: int) -> Case:
    """A random program of tile statements, in loops and branches; sums are of integers, and exact."""
    random = Random(seed)
    axes = random.choice((1, 2))
    block = random.choice(((1,) * axes, tuple(random.choice((1, 3)) for _ in range(axes))))
    w = KernelWriter(tuple(random.randint(1, 4) for _ in range(axes)), block)
    kinds = [np.dtype(x) for x in ("int32", "float32", "int64")]
    dtype = random.choice(kinds)
    shape = (random.randint(1, 20), random.randint(1, 20))
    a = w.array(numbers(shape, dtype, seed), reads=True)
    blocks = tuple(-(-g // b) for g, b in zip(w.grid, block, strict=True))
    c = w.array(np.zeros((int(np.prod(blocks)), 6, 7), dtype), reads=True, writes=True)
    tiles = [w.buffer((random.randint(1, 9), random.randint(1, 9)), dtype) for _ in range(3)]
    sums = w.buffer((8,), dtype)
    zero, one, many = w.number(0), w.number(1), w.number(99)
    for tile in tiles:
        w.put(s.TileApply("max", tile, (("value", w.const(1, dtype)),) * 2, many))
    w.put(s.TileApply("max", sums, (("value", w.const(0, dtype)),) * 2, many))
    group = w.id(0, "group_id")
    for axis in range(1, axes):
        group = w.add(w.mul(group, w.number(blocks[axis])), w.id(axis, "group_id"))

    def statements(depth: int, turn: int) -> None:
        for _ in range(random.randint(1, 5)):
            x, y, z = (random.choice(tiles) for _ in range(3))
            way = random.randrange(6 if depth < 2 else 4)
            if way == 0:
                start = w.add(turn, w.number(random.randint(-2, 5)))
                place = s.Region(x, (zero, random.choice((zero, one))), (many, many))
                stop = w.add(start, w.number(random.randint(0, 9)))
                w.put(s.TileCopy(place, s.Region(a, (start, zero), (stop, many)), w.site(a)))
            elif way == 1:
                op = random.choice(("add", "sub", "max", "min"))
                w.put(s.TileApply(op, x, (("buffer", y), ("buffer", z)), w.number(random.randint(0, 90))))
            elif way == 2:
                how = random.choice(("add", "max", "min"))
                w.put(s.TileReduce(how, sums, x, many, w.number(random.randint(1, 9)), random.random() < 0.5))
            elif way == 3 and x not in (y, z):
                sizes = [w.number(random.randint(0, 9)) for _ in range(3)]
                w.put(s.TileProduct(x, y, z, *sizes, w.compare("lt", turn, one)))
                # Small again, so that nothing is rounded.
                low, high = w.const(-3, dtype), w.const(3, dtype)
                w.put(s.TileApply("max", x, (("buffer", x), ("value", low)), many))
                w.put(s.TileApply("min", x, (("buffer", x), ("value", high)), many))
            elif way == 4:
                with w.loop(zero, w.number(random.randint(0, 3))) as k:
                    statements(depth + 1, k)
            elif way == 5:
                with w.when(w.compare("lt", group, w.number(random.randint(0, 3)))):
                    statements(depth + 1, turn)

    statements(0, w.number(random.randint(0, 3)))
    for tile in tiles:
        place = s.TileApply("add", tiles[0], (("buffer", tiles[0]), ("buffer", tile)), w.number(5))
        w.put(place)
    w.put(s.TileApply("add", tiles[0], (("buffer", sums), ("buffer", tiles[0])), w.number(8)))
    flat = w.buffer((1, 9, 9), dtype)
    w.put(s.TileApply("max", flat, (("value", w.const(0, dtype)),) * 2, many))
    w.put(s.TileApply("max", flat, (("buffer", tiles[0]), ("buffer", tiles[0])), many))
    target = s.Region(c, (group, zero, zero), (w.add(group, one), many, many))
    w.put(s.TileCopy(target, s.Region(flat, (zero, zero, zero), (one, many, many)), w.site(c)))
    return w.case("tiles")


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_of_tiles(seed: int) -> None:
    outcomes(random_tiles(seed))


@pytest.mark.full
@pytest.mark.parametrize("start", range(100, 1100, 200))
def test_many_random_programs_of_tiles(start: int) -> None:
    for seed in range(start, start + 200):
        outcomes(random_tiles(seed))
