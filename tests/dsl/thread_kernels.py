"""Kernels as users write them, thread by thread, in structured form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
from random_kernels import BOOL, F32, I64, Array, Case, KernelWriter

from pyasc.backend.structured import Barrier, If

_random = np.random.default_rng(0)


def quarters(*shape: int, dtype: Any = F32) -> Array:
    """Small numbers."""
    return (_random.integers(-20, 21, shape) / 4).astype(dtype)


def with_numbers(case: Case) -> Case:
    """The same with the values of its whole numbers among its sizes."""
    numbers = tuple(
        int(v) if d == I64 else None for v, d in zip(case.scalars, case.kernel.scalars, strict=True)
    )
    return replace(case, binding=replace(case.binding, numbers=numbers))


class Threads(KernelWriter):
    """Writes what a thread does, with names for what is needed often."""

    def of(self, values: Array) -> int:
        """An array that is read."""
        return self.array(values, reads=True)

    def out(self, values: Array, reads: bool = False) -> int:
        """An array that is written."""
        return self.array(values, reads=reads, writes=True)

    def f32(self, op: str, *args: int) -> int:
        """A primitive of float32; `add` and `mul` of any number of values."""
        if len(args) > 2:
            return reduce(lambda x, y: self.let(op, F32, x, y), args)
        return self.let(op, F32, *args)

    def float(self, value: float) -> int:
        return self.const(value, F32)

    def below(self, a: int, b: int) -> int:
        return self.compare("lt", a, b)

    def gather_up(self, variable: int, op: str, value: int) -> None:
        """``variable = variable op value``"""
        self.set(variable, self.let(op, self.variables[variable], self.get(variable), value))


def vector_add(n: int = 1000, beyond: int = 24, limit: int | None = None, dtype: Any = F32) -> Case:
    """``if i < limit: c[i] = a[i] + b[i]``, with threads beyond the end."""
    w = Threads([n + beyond])
    a, b, c = w.of(quarters(n, dtype=dtype)), w.of(quarters(n, dtype=dtype)), w.out(np.zeros(n, dtype))
    i = w.id()
    with w.when(w.below(i, w.scalar(n if limit is None else limit, I64))):
        w.store(c, [i], w.let("add", np.dtype(dtype), w.load(a, i), w.load(b, i)))
    return w.case("vector_add")


def sobel(height: int = 37, width: int = 45, border: bool = False) -> Case:
    """The inner points alone, or 0 at the border."""
    w = Threads([height, width])
    image, out = w.of(quarters(height, width)), w.out(quarters(height, width))
    i, j = w.id(0), w.id(1)
    last = [w.sub(w.extent(image, k), w.number(1)) for k in range(2)]
    zero = w.number(0)
    inside = w.both(w.below(zero, i), w.below(i, last[0]), w.below(zero, j), w.below(j, last[1]))
    with w.block() as then:
        two = w.float(2.0)

        def at(down: int, across: int) -> int:
            return w.load(image, w.add(i, w.number(down)), w.add(j, w.number(across)))

        def line(points: Sequence[tuple[int, int]]) -> int:
            first, middle, third = points
            return w.f32("add", at(*first), w.f32("mul", two, at(*middle)), at(*third))

        gx = w.f32("sub", line([(-1, 1), (0, 1), (1, 1)]), line([(-1, -1), (0, -1), (1, -1)]))
        gy = w.f32("sub", line([(1, -1), (1, 0), (1, 1)]), line([(-1, -1), (-1, 0), (-1, 1)]))
        w.store(out, [i, j], w.f32("sqrt", w.f32("add", w.f32("mul", gx, gx), w.f32("mul", gy, gy))))
    with w.block() as orelse:
        if border:
            w.store(out, [i, j], w.float(0.0))
    w.put(If(inside, tuple(then), tuple(orelse)))
    return w.case("sobel")


def matmul(
    m: int = 40, n: int = 50, k: int = 60, dtype: Any = np.float16, total: Any = F32, out: Any = F32
) -> Case:
    """``c[i, j] = sum of a[i, k] * b[k, j]``"""
    dtype, total, out = map(np.dtype, (dtype, total, out))
    w = Threads([m, n])
    a, b, c = (
        w.of(quarters(m, k, dtype=dtype)),
        w.of(quarters(k, n, dtype=dtype)),
        w.out(np.zeros((m, n), out)),
    )
    i, j = w.id(0), w.id(1)
    v = w.variable(total, w.const(0.0 if total.kind == "f" else 0, total))
    with w.loop(w.number(0), w.extent(a, 1)) as turn:
        product = w.let("mul", dtype, w.load(a, i, turn), w.load(b, turn, j))
        w.gather_up(v, "add", w.cast(product, dtype, total))
    w.store(c, [i, j], w.cast(w.get(v), total, out))
    return w.case("matmul")


def matmul_of_numbers(m: int = 20, n: int = 34, k: int = 40) -> Case:
    """The same of flat arrays, with every size an argument."""
    w = Threads([m + 4, n + 30])
    a, b, c = w.of(quarters(m * k)), w.of(quarters(k * n)), w.out(quarters(m * n))
    i, j = w.id(0), w.id(1)
    rows, columns, inner = (w.scalar(x, I64) for x in (m, n, k))
    with w.when(w.both(w.below(i, rows), w.below(j, columns))):
        v = w.variable(F32, w.float(0.0))
        with w.loop(w.number(0), inner) as turn:
            x = w.load(a, w.add(w.mul(i, inner), turn))
            w.gather_up(v, "add", w.f32("mul", x, w.load(b, w.add(w.mul(turn, columns), j))))
        w.store(c, [w.add(w.mul(i, columns), j)], w.get(v))
    return w.case("matmul_of_numbers")


def matmul_in_place(m: int = 20, n: int = 34, k: int = 40, cleared: bool = True) -> Case:
    """``c[i, j] += a[i, k] * b[k, j]`` in each turn."""
    w = Threads([m, n])
    a, b, c = w.of(quarters(m, k)), w.of(quarters(k, n)), w.out(quarters(m, n), reads=True)
    i, j = w.id(0), w.id(1)
    if cleared:
        w.store(c, [i, j], w.float(0.0))
    with w.loop(w.number(0), w.extent(a, 1)) as turn:
        product = w.f32("mul", w.load(a, i, turn), w.load(b, turn, j))
        w.store(c, [i, j], w.f32("add", w.load(c, i, j), product))
    return w.case("matmul_in_place")


def matmul_by_rows(m: int = 12, n: int = 40, k: int = 50) -> Case:
    """A thread for each row, a loop over its columns."""
    w = Threads([m])
    a, b, c = w.of(quarters(m, k)), w.of(quarters(k, n)), w.out(quarters(m, n))
    i, zero = w.id(), w.number(0)
    v = w.variable(F32)
    with w.loop(zero, w.extent(b, 1)) as j:
        w.set(v, w.float(0.0))
        with w.loop(zero, w.extent(a, 1)) as turn:
            w.gather_up(v, "add", w.f32("mul", w.load(a, i, turn), w.load(b, turn, j)))
        w.store(c, [i, j], w.get(v))
    return w.case("matmul_by_rows")


def nbody(n: int = 70) -> Case:
    """Two sums in one loop."""
    w = Threads([n])
    x, y, mass = w.of(quarters(n)), w.of(quarters(n)), w.of(np.abs(quarters(n)))
    ax, ay = w.out(quarters(n)), w.out(quarters(n))
    i = w.id()
    here = w.load(x, i), w.load(y, i)
    sums = [w.variable(F32, w.float(0.0)) for _ in range(2)]
    with w.loop(w.number(0), w.extent(x, 0)) as j:
        d = [w.f32("sub", w.load(array, j), at) for array, at in zip((x, y), here, strict=True)]
        square = w.f32("add", w.f32("mul", d[0], d[0]), w.f32("mul", d[1], d[1]), w.float(0.01))
        force = w.f32("div", w.load(mass, j), w.f32("mul", square, w.f32("sqrt", square)))
        for v, distance in zip(sums, d, strict=True):
            w.gather_up(v, "add", w.f32("mul", force, distance))
    for array, v in zip((ax, ay), sums, strict=True):
        w.store(array, [i], w.get(v))
    return w.case("nbody")


def resize(height: int = 20, width: int = 30, to: tuple[int, int] = (33, 47), scaled: bool = False) -> Case:
    """Bilinear; the scale follows from the sizes, or is an argument."""
    w = Threads(to)
    image, out = w.of(quarters(height, width)), w.out(np.zeros(to, np.float32))
    half, one, zero = w.float(0.5), w.number(1), w.number(0)

    def place(axis: int) -> tuple[int, int, int]:
        extents = w.let("cast", F32, w.extent(image, axis)), w.let("cast", F32, w.extent(out, axis))
        number = np.float32((height, width)[axis] / to[axis])
        scale = w.scalar(number, F32) if scaled else w.f32("div", *extents)
        p = w.f32("sub", w.f32("mul", w.f32("add", w.let("cast", F32, w.id(axis)), half), scale), half)
        low = w.f32("floor", p)
        first, last = w.let("cast", I64, low), w.sub(w.extent(image, axis), one)
        inside = [w.max(w.min(k, last), zero) for k in (first, w.add(first, one))]
        return inside[0], inside[1], w.f32("sub", p, low)

    (y0, y1, fy), (x0, x1, fx) = place(0), place(1)

    def between(a: int, b: int, t: int) -> int:
        return w.f32("add", a, w.f32("mul", w.f32("sub", b, a), t))

    rows = [between(w.load(image, y, x0), w.load(image, y, x1), fx) for y in (y0, y1)]
    w.store(out, [w.id(0), w.id(1)], between(rows[0], rows[1], fy))
    return w.case("resize")


def stretched(n: int = 20, to: int = 47) -> Case:
    """Linear, between ``a[k]`` and ``a[k + 1]``, with the length of what is written an argument."""
    w = Threads([to])
    a, out, one = w.of(quarters(n)), w.out(np.zeros(to, np.float32)), w.number(1)
    i, length = w.id(), w.scalar(to, I64)
    with w.when(w.below(i, length)):
        ends = [w.let("cast", F32, w.sub(x, one)) for x in (w.extent(a, 0), length)]
        place = w.f32("mul", w.let("cast", F32, i), w.f32("div", *ends))
        k = w.min(w.let("cast", I64, place), w.sub(w.extent(a, 0), w.number(2)))
        part = w.f32("sub", place, w.let("cast", F32, k))
        low, high = w.load(a, k), w.load(a, w.add(k, one))
        w.store(out, [i], w.f32("add", low, w.f32("mul", w.f32("sub", high, low), part)))
    return w.case("stretched")


def softmax(rows: int = 13, columns: int = 100) -> Case:
    """Three loops over a row; the second stores what the third reads."""
    w = Threads([rows])
    a, out = w.of(quarters(rows, columns)), w.out(quarters(rows, columns), reads=True)
    i, zero, n = w.id(), w.number(0), w.extent(a, 1)
    largest = w.variable(F32, w.load(a, i, zero))
    with w.loop(zero, n) as k:
        w.gather_up(largest, "max", w.load(a, i, k))
    total, most = w.variable(F32, w.float(0.0)), w.get(largest)
    with w.loop(zero, n) as k:
        e = w.f32("exp", w.f32("sub", w.load(a, i, k), most))
        w.gather_up(total, "add", e)
        w.store(out, [i, k], e)
    whole = w.get(total)
    with w.loop(zero, n) as k:
        w.store(out, [i, k], w.f32("div", w.load(out, i, k), whole))
    return w.case("softmax")


def masked(n: int = 500) -> Case:
    """A store that depends on data; the rest stays as it is."""
    w = Threads([n])
    a, c = w.of(quarters(n)), w.out(quarters(n))
    i = w.id()
    x = w.load(a, i)
    with w.when(w.below(w.float(0.0), x)):
        w.store(c, [i], w.f32("sqrt", x))
    return w.case("masked")


def in_place(n: int = 500) -> Case:
    """An array that is read and written, twice."""
    w = Threads([n])
    c = w.out(quarters(n), reads=True)
    i = w.id()
    x = w.load(c, i)
    w.store(c, [i], w.f32("add", x, x))
    w.store(c, [i], w.f32("mul", w.load(c, i), x))
    return w.case("in_place")


def convolution(height: int = 30, width: int = 40, k: int = 7) -> Case:
    """A loop within a loop."""
    w = Threads([height - k + 1, width - k + 1])
    image, weights = w.of(quarters(height, width)), w.of(quarters(k, k))
    out = w.out(quarters(height - k + 1, width - k + 1))
    i, j, zero = w.id(0), w.id(1), w.number(0)
    v = w.variable(F32, w.float(0.0))
    with w.loop(zero, w.extent(weights, 0)) as p, w.loop(zero, w.extent(weights, 1)) as q:
        x = w.load(image, w.add(i, p), w.add(j, q))
        w.gather_up(v, "add", w.f32("mul", x, w.load(weights, p, q)))
    w.store(out, [i, j], w.get(v))
    return w.case("convolution")


def scaled_rows(rows: int = 20, columns: int = 64) -> Case:
    """A thread for each row, which stores in its loop."""
    w = Threads([rows])
    a, out = w.of(quarters(rows, columns)), w.out(quarters(rows, columns))
    i = w.id()
    with w.loop(w.number(0), w.extent(a, 1)) as k:
        w.store(out, [i, k], w.f32("mul", w.load(a, i, k), w.float(2.5)))
    return w.case("scaled_rows")


def take(n: int = 300, size: int = 100, bad: int | None = None) -> Case:
    """``out[i] = a[index[i]]``, with a bad index on demand."""
    w = Threads([n])
    index = _random.integers(0, size, n)
    if bad is not None:
        index[n // 2] = bad
    indices, a, out = w.of(index), w.of(quarters(size)), w.out(quarters(n))
    i = w.id()
    w.store(out, [i], w.load(a, w.load(indices, i)))
    return w.case("take")


def count(n: int = 40, size: int = 100) -> Case:
    """How many are positive, whether one is large, and the largest, each with an ``if``."""
    w = Threads([n])
    a, counts = w.of(quarters(n, size)), w.out(np.zeros(n, np.int64))
    some, largest = w.out(np.zeros(n, np.bool_)), w.out(quarters(n))
    i = w.id()
    total, found = w.variable(I64, w.number(0)), w.variable(BOOL, w.const(False, BOOL))
    most = w.variable(F32, w.float(-1.0))
    with w.loop(w.number(0), w.extent(a, 1)) as k:
        x = w.load(a, i, k)
        with w.when(w.below(w.float(0.0), x)):
            w.gather_up(total, "add", w.number(1))
        with w.when(w.below(w.float(4.5), x)):
            w.set(found, w.const(True, BOOL))
        with w.when(w.below(w.get(most), x)):
            w.set(most, x)
    for array, v in ((counts, total), (some, found), (largest, most)):
        w.store(array, [i], w.get(v))
    return w.case("count")


def neighbour(n: int = 300) -> Case:
    """What is left of each element, 0 at the first: a load under a condition, a store under none."""
    w = Threads([n])
    a, out = w.of(quarters(n)), w.out(quarters(n))
    i = w.id()
    v = w.variable(F32, w.float(0.0))
    with w.when(w.below(w.number(0), i)):
        w.set(v, w.load(a, w.sub(i, w.number(1))))
    w.store(out, [i], w.f32("add", w.get(v), w.load(a, i)))
    return w.case("neighbour")


def padded(height: int = 20, width: int = 30) -> Case:
    """Sums of nine points, with 0 beyond the edges."""
    w = Threads([height, width])
    image, out = w.of(quarters(height, width)), w.out(quarters(height, width))
    minus, extents = w.number(-1), [w.extent(image, k) for k in range(2)]
    v = w.variable(F32, w.float(0.0))
    for down in (-1, 0, 1):
        for across in (-1, 0, 1):
            y, x = w.add(w.id(0), w.number(down)), w.add(w.id(1), w.number(across))
            inside = [w.below(minus, y), w.below(y, extents[0]), w.below(minus, x), w.below(x, extents[1])]
            with w.when(w.both(*inside)):
                w.gather_up(v, "add", w.load(image, y, x))
    w.store(out, [w.id(0), w.id(1)], w.get(v))
    return w.case("padded")


def blocks(n: int = 50, block: int = 16) -> Case:
    """The numbers of blocks, and of threads in them."""
    w = Threads([n], [block])
    out = w.out(np.zeros(n, np.int64))
    i = w.id()
    w.store(out, [i], w.add(w.mul(w.id(0, "group_id"), w.number(1000)), w.id(0, "local_id")))
    return w.case("blocks")


def sums_into(rows: int, columns: int, down: bool = False, positive: bool = False) -> Case:
    """Sums of rows or columns, added to what is there, or stored where they are positive."""
    w = Threads([columns if down else rows])
    a, out = w.of(quarters(rows, columns)), w.out(quarters(columns if down else rows), reads=True)
    i = w.id()
    v = w.variable(F32, w.float(0.0) if positive else w.load(out, i))
    with w.loop(w.number(0), w.extent(a, 0 if down else 1)) as k:
        w.gather_up(v, "add", w.load(a, k, i) if down else w.load(a, i, k))
    if positive:
        with w.when(w.below(w.float(0.0), w.get(v))):
            w.store(out, [i], w.get(v))
    else:
        w.store(out, [i], w.get(v))
    return w.case("sums_into")


def box_filter(height: int = 50, width: int = 45, block: int = 16) -> Case:
    """Means over 3 × 3 points of a tile in shared memory; its border reads the image."""
    w = Threads([height, width], [block, block])
    image, out = w.of(quarters(height, width)), w.out(quarters(height, width))
    tile = w.buffer((block, block), F32)
    i, j, li, lj = w.id(0), w.id(1), w.id(0, "local_id"), w.id(1, "local_id")
    w.store(tile, [li, lj], w.load(image, i, j))
    w.put(Barrier())
    zero, last = w.number(0), w.number(block - 1)
    ends = [w.sub(w.extent(image, k), w.number(1)) for k in range(2)]
    inner = [w.below(zero, li), w.below(li, last), w.below(zero, lj), w.below(lj, last)]
    there = [w.below(zero, i), w.below(i, ends[0]), w.below(zero, j), w.below(j, ends[1])]

    def mean(array: int, y: int, x: int) -> int:
        around = [
            w.load(array, w.add(y, w.number(down)), w.add(x, w.number(across)))
            for down in (-1, 0, 1)
            for across in (-1, 0, 1)
        ]
        return w.f32("mul", w.f32("add", *around), w.float(1 / 8))

    with w.when(w.both(*inner, *there)):
        w.store(out, [i, j], mean(tile, li, lj))
    return w.case("box_filter")


def halo_filter(height: int = 64, width: int = 48, block: int = 16) -> Case:
    """Sums of neighbours along two axes of a tile with a border, which the threads at its edges load."""
    w = Threads([height, width], [block, block])
    image, out = w.of(quarters(height, width)), w.out(quarters(height, width))
    tile = w.buffer((block + 2, block + 2), F32)
    i, j, li, lj = w.id(0), w.id(1), w.id(0, "local_id"), w.id(1, "local_id")
    one, zero = w.number(1), w.number(0)
    y, x = w.add(li, one), w.add(lj, one)
    w.store(tile, [y, x], w.load(image, i, j))
    for axis, (number, local) in enumerate(((i, li), (j, lj))):
        other = [y, x]
        end = w.sub(w.extent(image, axis), one)
        before = [w.sub(i, one), j] if axis == 0 else [i, w.sub(j, one)]
        after = [w.add(i, one), j] if axis == 0 else [i, w.add(j, one)]
        with w.when(w.both(w.compare("eq", local, zero), w.below(zero, number))):
            other[axis] = zero
            w.store(tile, list(other), w.load(image, *before))
        with w.when(w.both(w.compare("eq", local, w.number(block - 1)), w.below(number, end))):
            other[axis] = w.number(block + 1)
            w.store(tile, list(other), w.load(image, *after))
    w.put(Barrier())
    ends = [w.sub(w.extent(image, k), one) for k in range(2)]
    with w.when(w.both(w.below(zero, i), w.below(i, ends[0]), w.below(zero, j), w.below(j, ends[1]))):
        around = [w.load(tile, li, x), w.load(tile, w.add(y, one), x), w.load(tile, y, lj)]
        w.store(out, [i, j], w.f32("add", *around, w.load(tile, y, w.add(x, one))))
    return w.case("halo_filter")


def triangle(n: int = 70) -> Case:
    """Sums of what is left of the diagonal: each thread has its own number of turns."""
    w = Threads([n])
    a, out = w.of(quarters(n, n)), w.out(quarters(n))
    i = w.id()
    v = w.variable(F32, w.float(0.0))
    with w.loop(w.number(0), i) as k:
        w.gather_up(v, "add", w.load(a, i, k))
    w.store(out, [i], w.get(v))
    return w.case("triangle")


def cooperative(n: int = 96, block: int = 16) -> Case:
    """A tile longer than the block, which its threads load in turns."""
    w = Threads([n], [block])
    a, out = w.of(quarters(n + 10)), w.out(quarters(n))
    tile = w.buffer((block + 10,), F32)
    local, first = w.id(0, "local_id"), w.mul(w.id(0, "group_id"), w.number(block))
    with w.loop(local, w.number(block + 10), block) as k:
        w.store(tile, [k], w.load(a, w.add(first, k)))
    w.put(Barrier())
    far = w.load(tile, w.add(local, w.number(10)))
    w.store(out, [w.id()], w.f32("sub", far, w.load(tile, local)))
    return w.case("cooperative")


def fraction(n: int = 200) -> Case:
    """What ``int`` leaves of a float, of any size."""
    w = Threads([n])
    numbers = quarters(n) * np.float32(1.3)
    numbers[:6] = np.nan, np.inf, -np.inf, -0.25, 3e9, -1e30
    a, out = w.of(numbers), w.out(quarters(n))
    whole = w.let("cast", I64, w.load(a, w.id()))
    w.store(out, [w.id()], w.f32("sub", w.load(a, w.id()), w.let("cast", F32, whole)))
    return w.case("fraction")


def matmul_in_tiles(m: int = 32, n: int = 48, k: int = 640, block: int = 16) -> Case:
    """Both factors a tile at a time through shared memory."""
    w = Threads([m, n], [block, block])
    a, b, c = w.of(quarters(m, k)), w.of(quarters(k, n)), w.out(quarters(m, n))
    left, right = w.buffer((block, block), F32), w.buffer((block, block), F32)
    i, j, li, lj = w.id(0), w.id(1), w.id(0, "local_id"), w.id(1, "local_id")
    zero, size = w.number(0), w.number(block)
    v = w.variable(F32, w.float(0.0))
    with w.loop(zero, w.let("floor_divide", I64, w.extent(a, 1), size)) as turn:
        first = w.mul(turn, size)
        w.store(left, [li, lj], w.load(a, i, w.add(first, lj)))
        w.store(right, [li, lj], w.load(b, w.add(first, li), j))
        w.put(Barrier())
        with w.loop(zero, size) as inner:
            w.gather_up(v, "add", w.f32("mul", w.load(left, li, inner), w.load(right, inner, lj)))
        w.put(Barrier())
    w.store(c, [i, j], w.get(v))
    return w.case("matmul_in_tiles")
