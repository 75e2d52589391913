"""Random structured kernels whose result depends on no order of their threads.

A thread writes its own elements only; what is shared is written before a barrier and read after it; atomic
updates are of integers. So whatever runs them has to give the bits of the reference interpreter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from random import Random
from typing import Any

import ml_dtypes
import numpy as np

from pyasc.backend import structured as s
from pyasc.backend.structured.reference import StructuredReference
from pyasc.backend.structured.rewrite import Writer

Dtype = np.dtype[Any]
Array = np.ndarray[Any, Any]

BOOL, I64, F32 = np.dtype(np.bool_), np.dtype(np.int64), np.dtype(np.float32)
DTYPES: tuple[Dtype, ...] = tuple(
    map(np.dtype, ("int64", "int32", "int16", "uint8", "float32", "float64", "float16", ml_dtypes.bfloat16))
)


@dataclass
class Case:
    """A kernel and the arguments of a launch.

    Attributes
    ----------
    buffers : list of one-dimensional arrays
        One for each array of the kernel; `copies` gives fresh ones.
    """

    kernel: s.StructuredKernel
    binding: s.StructuredBinding
    buffers: list[Array]
    scalars: list[Any]

    def copies(self) -> list[Array]:
        return [b.copy() for b in self.buffers]

    def expected(self) -> tuple[list[Array], set[tuple[int, int]]]:
        """The buffers afterwards, and code and value of every fault."""
        buffers = self.copies()
        reference = StructuredReference(self.kernel, self.binding, buffers, self.scalars)
        reference.run()
        return buffers, {(code, value) for _, code, value in reference.faults}


def assert_same(given: Sequence[Array], expected: Sequence[Array], what: object = "") -> None:
    """Bit for bit, but for the payload of NaN."""
    for n, (a, b) in enumerate(zip(given, expected, strict=True)):
        assert a.dtype == b.dtype
        wrong = ~((a == b) | ((a != a) & (b != b)))
        at = np.flatnonzero(wrong)[:5]
        assert not len(at), f"array {n} at {at}: {a[at]}, not {b[at]}\n{what}"


class KernelWriter(Writer):
    """Writes a kernel and its arguments together.

    Arrays are added by `array`; statements by the methods of `Writer` and those here.
    """

    def __init__(self, grid: Sequence[int], block: Sequence[int] = ()) -> None:
        super().__init__()
        self.grid = tuple(grid)
        self.block_size = tuple(block)
        self.arrays: list[s.Array] = []
        self.shared: list[s.Buffer] = []
        self.shapes: list[tuple[int, ...]] = []
        self.strides: list[tuple[int, ...]] = []
        self.offsets: list[int] = []
        self.contents: list[Array] = []
        self.scalar_dtypes: list[Dtype] = []
        self.scalars: list[Any] = []
        self.variables: list[Dtype] = []
        self.sites: list[s.Site] = []

    def array(
        self,
        values: Array,
        reads: bool = False,
        writes: bool = False,
        strides: tuple[int, ...] | None = None,
        offset: int = 0,
    ) -> int:
        """An array that holds the values; strides in elements, none of them negative."""
        assert not self.shared, "arrays come before buffers"
        shape = values.shape
        if strides is None:
            strides = tuple(prod(shape[k + 1 :]) for k in range(len(shape)))
        size = offset + 1 + sum(st * max(e - 1, 0) for st, e in zip(strides, shape, strict=True))
        flat = np.zeros(size, values.dtype)
        if values.size:
            steps = [st * values.itemsize for st in strides]
            np.lib.stride_tricks.as_strided(flat[offset:], shape, steps)[...] = values
        name = f"{'ab'[writes]}{len(self.arrays)}"
        self.arrays.append(s.Array(name, values.dtype, s.layout(strides), reads, writes))
        self.shapes.append(shape)
        self.strides.append(strides)
        self.offsets.append(offset)
        self.contents.append(flat)
        return len(self.arrays) - 1

    def buffer(self, shape: tuple[int, ...], dtype: Any, position: str = "UB") -> int:
        self.shared.append(s.Buffer(f"s{len(self.shared)}", np.dtype(dtype), shape, position))
        return len(self.arrays) + len(self.shared) - 1

    def scalar(self, number: Any, dtype: Any) -> int:
        self.scalar_dtypes.append(np.dtype(dtype))
        self.scalars.append(number)
        return self.let("scalar", np.dtype(dtype), attrs=(len(self.scalars) - 1,))

    def case(self, name: str = "kernel") -> Case:
        kernel = s.StructuredKernel(
            axes=len(self.grid),
            arrays=tuple(self.arrays),
            scalars=tuple(self.scalar_dtypes),
            variables=tuple(self.variables),
            body=tuple(self.body),
            buffers=tuple(self.shared),
            block=self.block_size,
            name=name,
            sites=tuple(self.sites),
        )
        binding = s.StructuredBinding(
            self.grid,
            tuple(self.shapes),
            tuple(self.strides),
            tuple(self.offsets),
            tuple(map(len, self.contents)),
        )
        return Case(kernel, binding, self.contents, self.scalars)

    # --- statements ----------------------------------------------------------------------------------------

    def id(self, axis: int = 0, op: str = "global_id") -> int:
        return self.let(op, I64, attrs=(axis,))

    def site(self, array: int) -> int:
        storage = self.arrays[array] if array < len(self.arrays) else self.shared[array - len(self.arrays)]
        self.sites.append(s.Site(storage.name, ("kernel.py", len(self.sites) + 1, f"{storage.name}[…]")))
        return len(self.sites) - 1

    def dtype_of(self, array: int) -> Dtype:
        count = len(self.arrays)
        return self.arrays[array].dtype if array < count else self.shared[array - count].dtype

    def extent(self, array: int, axis: int) -> int:
        count = len(self.arrays)
        if array < count:
            return self.let("extent", I64, attrs=(array, axis))
        return self.number(self.shared[array - count].shape[axis])

    def load(self, array: int, *indices: int) -> int:
        return self.let("load", self.dtype_of(array), *indices, attrs=(array, self.site(array)))

    def store(self, array: int, indices: Sequence[int], value: int) -> None:
        self.put(s.Store(array, tuple(indices), value, self.site(array)))

    def atomic(self, how: str, array: int, indices: Sequence[int], value: int) -> None:
        self.put(s.Atomic(how, array, tuple(indices), value, self.site(array)))

    def variable(self, dtype: Any, value: int | None = None) -> int:
        self.variables.append(np.dtype(dtype))
        number = len(self.variables) - 1
        if value is not None:
            self.put(s.Set(number, value))
        return number

    def get(self, variable: int) -> int:
        return self.let("get", self.variables[variable], attrs=(variable,))

    def set(self, variable: int, value: int) -> None:
        self.put(s.Set(variable, value))

    def compare(self, op: str, a: int, b: int) -> int:
        return self.let(op, BOOL, a, b)

    def both(self, *conditions: int) -> int:
        first, *rest = conditions
        for condition in rest:
            first = self.let("and", BOOL, first, condition)
        return first

    @contextmanager
    def when(self, condition: int) -> Any:
        with self.block() as then:
            yield
        self.put(s.If(condition, tuple(then)))

    @contextmanager
    def loop(self, start: int, stop: int, step: int = 1) -> Any:
        value = self.fresh()
        with self.block() as body:
            yield value
        self.put(s.For(value, start, stop, step, tuple(body)))


def random_values(random: Random, shape: tuple[int, ...], dtype: Dtype) -> Array:
    """Small numbers, so that sums and products of some are exact in most dtypes."""
    source = np.random.default_rng(random.randrange(2**32))
    if dtype == BOOL:
        return source.random(shape) < 0.5
    low = 0 if dtype.kind == "u" else -20
    numbers = source.integers(low, 21, shape)
    return (numbers / 4).astype(dtype) if dtype.kind in "fV" else numbers.astype(dtype)


def random_kernel(
    seed: int,
    *,
    dtypes: Sequence[Any] = DTYPES,
    barriers: bool | None = None,
    faults: bool = False,
    atomics: bool = True,
    most: int = 33,
) -> Case:
    """A random kernel with random arguments.

    Parameters
    ----------
    seed : int
    dtypes : sequence of dtype
        Of arrays, scalars and variables; int64 and bool occur besides.
    barriers : bool, optional
        Whether threads share memory; None for a chance of it.
    faults : bool
        Whether some indices may be outside. Different threads may then report different faults.
    atomics : bool
        Whether there are atomic updates.
    most : int
        Threads along an axis.
    """
    return _Random(seed, dtypes, barriers, faults, atomics, most).case_()


class _Random:
    def __init__(
        self,
        seed: int,
        dtypes: Sequence[Any],
        barriers: bool | None,
        faults: bool,
        atomics: bool,
        most: int,
    ) -> None:
        self.random = Random(seed)
        self.dtypes = [np.dtype(d) for d in dtypes]
        self.barriers = self.chance(0.4) if barriers is None else barriers
        self.faults = faults
        self.atomics = atomics
        axes = self.random.choice((1, 1, 2, 2, 3))
        sizes = [self.random.choice((1, 2, 3, 5, 8, 16, 17, most)) for _ in range(axes)]
        if prod(sizes) > 1500:
            sizes[0] = self.random.randint(1, 3)
        block: tuple[int, ...] = ()
        if self.barriers or self.chance(0.3):
            block = tuple(self.random.choice((1, 2, 4, 7, 8)) for _ in range(axes))
        self.w = KernelWriter(sizes, block)
        self.pool: list[tuple[int, Dtype]] = []
        self.same: list[tuple[int, Dtype]] = []  # values that all threads agree on
        self.names: list[int] = []  # variables
        self.locked: set[int] = set()  # that count loops
        self.budget = self.random.randint(10, 40)
        self.depth = 0
        self.how = self.random.choice(
            ("add", "max", "min")
        )  # of atomic updates: different ones do not commute
        self.loops: list[bool] = []  # for each loop around: whether threads go through it apart

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def case_(self) -> Case:
        w, random = self.w, self.random
        self.inputs = [self.argument(False) for _ in range(random.randint(1, 3))]
        self.outputs = [self.argument(True) for _ in range(random.randint(1, 3))]
        self.counters: list[int] = []
        if self.atomics and self.chance(0.5):
            dtype = np.dtype(random.choice(("int64", "int32", "uint8")))
            if dtype in self.dtypes or dtype == I64:
                values = random_values(random, (random.choice((1, 5, 32)),), dtype)
                self.counters.append(w.array(values, True, True))
        self.buffers: list[int] = []
        if self.barriers:
            for _ in range(random.randint(1, 2)):
                self.buffers.append(w.buffer(self.w.block_size, random.choice(self.dtypes)))
        self.ids = [self.given(w.id(k), I64) for k in range(len(w.grid))]
        for k in range(len(w.grid)):
            self.agreed(self.given(w.id(k, "global_size"), I64), I64)
            if w.block_size:
                self.given(w.id(k, "local_id"), I64)
                self.agreed(self.given(w.id(k, "group_id"), I64), I64)
                self.agreed(self.given(w.id(k, "block_size"), I64), I64)
        for dtype in (I64, random.choice(self.dtypes)):
            value = random_values(random, (), dtype)[()]
            self.agreed(self.given(w.scalar(value, dtype), dtype), dtype)
        if self.barriers:
            self.local = [w.id(k, "local_id") for k in range(len(w.grid))]
            self.there = []
            for k in range(len(w.grid)):
                first = w.mul(w.id(k, "group_id"), w.id(k, "block_size"))
                self.there.append(w.min(w.id(k, "block_size"), w.sub(w.id(k, "global_size"), first)))
        for _ in range(random.randint(1, 4)):
            dtype = random.choice([I64, BOOL, *self.dtypes])
            self.names.append(w.variable(dtype, self.value(dtype)))
        self.statements(parted=False)
        for out in self.outputs:
            if self.chance(0.8):
                self.write(out)
        return w.case("random")

    def argument(self, output: bool) -> int:
        """An array; an output has an element for each thread."""
        w, random = self.w, self.random
        dtype = random.choice(self.dtypes)
        if output:
            shape = tuple(g + random.choice((0, 0, 0, 2)) for g in w.grid)
        else:
            shape = tuple(
                random.choice((1, 2, 7, 16, 33, *w.grid)) for _ in range(random.choice((1, 1, 2, 3)))
            )
        order = list(range(len(shape)))
        if self.chance(0.2):
            random.shuffle(order)
        strides, step = [0] * len(shape), 1 + self.chance(0.15)
        for k in reversed(order):
            strides[k] = step
            step *= shape[k] + self.chance(0.1)
        if not output:
            strides = [0 if self.chance(0.1) else st for st in strides]
        values = random_values(random, shape, dtype)
        if 0 in strides:
            values = np.broadcast_to(
                values[tuple(slice(0, 1) if st == 0 else slice(None) for st in strides)], shape
            )
        return w.array(
            values, not output or self.chance(0.5), output, tuple(strides), random.choice((0, 0, 3))
        )

    def given(self, value: int, dtype: Dtype) -> int:
        self.pool.append((value, dtype))
        return value

    def agreed(self, value: int, dtype: Dtype) -> None:
        self.same.append((value, dtype))

    def value(self, dtype: Dtype, among: list[tuple[int, Dtype]] | None = None) -> int:
        """Some value of a dtype."""
        w, random = self.w, self.random
        pool = self.pool if among is None else among
        found = [v for v, d in pool[-25:] if d == dtype]
        if found and self.chance(0.8):
            return random.choice(found)
        others = [(v, d) for v, d in pool[-25:] if d != dtype and d.kind in "biufV"]
        if others and dtype != BOOL and self.chance(0.5):
            value, _ = random.choice(others)
            return (
                self.given(w.let("cast", dtype, value), dtype)
                if among is None
                else w.let("cast", dtype, value)
            )
        number: Any = random_values(random, (), dtype)[()]
        number = bool(number) if dtype == BOOL else float(number) if dtype.kind in "fV" else int(number)
        return w.const(number, dtype)

    def condition(self, among: list[tuple[int, Dtype]] | None = None) -> int:
        dtype = self.random.choice([I64, *self.dtypes])
        a, b = self.value(dtype, among), self.value(dtype, among)
        return self.w.compare(self.random.choice(("lt", "le", "eq", "ne")), a, b)

    def compute(self) -> None:
        w, random = self.w, self.random
        dtype = random.choice([I64, BOOL, *self.dtypes, *self.dtypes])
        a, b = self.value(dtype), self.value(dtype)
        if self.chance(0.15):
            value = w.let("where", dtype, self.condition(), a, b)
        elif dtype == BOOL:
            op = random.choice(("and", "or", "xor", "not"))
            value = w.let(op, BOOL, a) if op == "not" else w.let(op, BOOL, a, b)
        elif dtype.kind in "iu":
            op = random.choice(
                ("add", "sub", "mul", "min", "max", "abs", "neg", "and", "or", "xor", "div", "shift")
            )
            if op == "div":
                divisor = w.const(random.choice((1, 2, 3, 7)), dtype)
                value = w.let(random.choice(("floor_divide", "remainder")), dtype, a, divisor)
            elif op == "shift":
                amount = w.const(random.randint(0, 5), dtype)
                value = w.let(random.choice(("shift_left", "shift_right")), dtype, a, amount)
            else:
                value = w.let(op, dtype, a) if op in ("abs", "neg") else w.let(op, dtype, a, b)
        else:
            op = random.choice(
                ("add", "sub", "mul", "min", "max", "div", "abs", "neg", "floor", "sqrt", "trunc")
            )
            unary = op in ("abs", "neg", "floor", "sqrt", "trunc")
            value = w.let(op, dtype, a) if unary else w.let(op, dtype, a, b)
        self.given(value, dtype)

    def index(self, array: int, axis: int) -> int:
        """An index that is inside whatever the values are."""
        w, random = self.w, self.random
        extent = w.extent(array, axis)
        way = random.randrange(4)
        source = random.choice(self.ids) if way < 2 else self.value(I64)
        if way == 0:
            source = w.add(source, w.number(random.randint(-2, 2)))
        if self.faults and self.chance(0.3):
            return source
        if self.chance(0.5):
            return w.let("remainder", I64, source, extent)
        return w.max(w.number(0), w.min(source, w.sub(extent, w.number(1))))

    def read(self) -> None:
        w, random = self.w, self.random
        readable = self.inputs + [o for o in self.outputs if w.arrays[o].reads]
        array = random.choice(readable)
        rank, dtype = w.arrays[array].rank, w.arrays[array].dtype
        if array in self.outputs:
            self.given(w.load(array, *self.ids), dtype)
        elif self.chance(0.35):
            (self.guarded_read if self.chance(0.6) else self.chained_read)(array)
        else:
            self.given(w.load(array, *(self.index(array, k) for k in range(rank))), dtype)

    def guarded_read(self, array: int) -> None:
        """A load under conditions that make it inside."""
        w, random = self.w, self.random
        dtype = w.arrays[array].dtype
        indices, conditions = [], []
        for k in range(w.arrays[array].rank):
            index = random.choice((*self.ids, self.value(I64)))
            distance = random.randint(-2, 2)
            moved = w.add(index, w.number(distance))
            conditions.append(w.compare("le", w.number(-distance), index))
            limit = w.sub(w.extent(array, k), w.number(distance))
            conditions.append(w.compare("lt", index, limit))
            indices.append(moved)
        names = [v for v in self.names if w.variables[v] == dtype and v not in self.locked]
        with w.when(w.both(*conditions)):
            value = w.load(array, *indices)
            if names:
                w.set(random.choice(names), value)
            else:
                out = random.choice(self.outputs)
                w.store(out, self.ids, w.cast(value, dtype, w.arrays[out].dtype))

    def chained_read(self, array: int) -> None:
        """``if index is inside and a[index] < x:``, and then the element again."""
        w, random = self.w, self.random
        dtype = w.arrays[array].dtype
        index = w.add(self.value(I64), w.number(random.randint(-2, 2)))
        indices = [index, *(self.index(array, k) for k in range(1, w.arrays[array].rank))]
        inside = w.both(w.compare("le", w.number(0), index), w.compare("lt", index, w.extent(array, 0)))
        both, limit = w.variable(BOOL, inside), self.value(dtype)
        self.locked.add(both)
        with w.when(inside):
            w.set(both, w.compare("le", w.load(array, *indices), limit))
        out = random.choice(self.outputs)
        with w.when(w.get(both)):
            w.store(out, self.ids, w.cast(w.load(array, *indices), dtype, w.arrays[out].dtype))

    def write(self, out: int) -> None:
        w = self.w
        w.store(out, self.ids, self.value(w.arrays[out].dtype))

    # --- statements ----------------------------------------------------------------------------------------

    def scoped(self, write: Callable[[], None]) -> s.Block:
        """A block; what is computed in it is not known after it."""
        pool, same = len(self.pool), len(self.same)
        self.depth += 1
        with self.w.block() as body:
            write()
        self.depth -= 1
        del self.pool[pool:], self.same[same:]
        return tuple(body)

    def statements(self, parted: bool) -> None:
        """``parted``: whether threads may take different ways to here."""
        for _ in range(self.random.randint(2, 6)):
            if self.budget <= 0:
                return
            self.budget -= 1
            self.statement(parted)

    def statement(self, parted: bool) -> None:
        random = self.random
        choices: list[Callable[[], None]] = [self.compute, self.compute, self.read]
        free = [v for v in self.names if v not in self.locked]
        if free:
            choices += [lambda: self.assign(free), lambda: self.fetch(free)]
        choices.append(lambda: self.write(random.choice(self.outputs)))
        if self.counters:
            choices.append(self.count)
        if self.buffers and not parted:
            choices += [self.share] * 3
        if self.depth < 3:
            choices += [lambda: self.branch(parted), lambda: self.count_loop(parted)]
            choices.append(lambda: self.while_loop(parted))
        random.choice(choices)()

    def assign(self, names: list[int]) -> None:
        variable = self.random.choice(names)
        self.w.set(variable, self.value(self.w.variables[variable]))

    def fetch(self, names: list[int]) -> None:
        variable = self.random.choice(names)
        self.given(self.w.get(variable), self.w.variables[variable])

    def count(self) -> None:
        w, (counter,) = self.w, self.counters
        dtype = w.arrays[counter].dtype
        w.atomic(self.how, counter, (self.index(counter, 0),), self.value(dtype))

    def share(self) -> None:
        """Write own elements of a buffer, meet, read those of others, meet."""
        w, random = self.w, self.random
        buffer = random.choice(self.buffers)
        dtype = w.dtype_of(buffer)
        w.store(buffer, self.local, self.value(dtype))
        w.put(s.Barrier())
        for _ in range(random.randint(1, 2)):
            index = [
                w.let("remainder", I64, random.choice((*self.local, self.value(I64))), n) for n in self.there
            ]
            self.given(w.load(buffer, *index), dtype)
        w.put(s.Barrier())

    def branch(self, parted: bool) -> None:
        w, random = self.w, self.random
        together = not parted and bool(self.buffers) and self.chance(0.6)
        condition = self.condition(self.same if together else None)
        leave: s.Statement | None = None
        if self.loops and (together or self.loops[-1] or not self.buffers) and self.chance(0.5):
            leave = random.choice((s.Break(), s.Continue()))
        elif not self.barriers and self.chance(0.08):
            leave = s.Return()

        def then() -> None:
            self.statements(parted or not together)
            if leave is not None:
                w.put(leave)

        first = self.scoped(then)
        other = self.scoped(lambda: self.statements(parted or not together)) if self.chance(0.5) else ()
        w.put(s.If(condition, first, other))

    def count_loop(self, parted: bool) -> None:
        w, random = self.w, self.random
        together = not parted and bool(self.buffers) and self.chance(0.6)
        source = self.value(I64, self.same if together else None)
        stop = w.let("remainder", I64, source, w.number(random.randint(1, 6)))
        start, step = w.number(random.choice((0, 0, 1, -1))), random.choice((1, 1, 2))
        if self.chance(0.2):
            start, stop, step = stop, start, -step
        number = w.fresh()

        def turn() -> None:
            self.given(number, I64)
            if together:
                self.agreed(number, I64)
            self.loop_body(parted or not together)

        w.put(s.For(number, start, stop, step, self.scoped(turn)))

    def loop_body(self, parted: bool) -> None:
        self.loops.append(parted)
        self.statements(parted)
        self.loops.pop()

    def while_loop(self, parted: bool) -> None:
        """At most some turns, with a further condition."""
        w, random = self.w, self.random
        together = not parted and bool(self.buffers) and self.chance(0.6)
        turns = w.variable(I64, w.number(random.randint(0, 4)))
        self.locked.add(turns)
        condition = -1

        def head() -> None:
            nonlocal condition
            left = w.get(turns)
            w.set(turns, w.sub(left, w.number(1)))
            more = w.compare("lt", w.number(0), left)
            further = self.condition(self.same if together else None)
            condition = w.let("and", BOOL, more, further) if self.chance(0.5) else more

        first = self.scoped(head)
        w.put(s.While(first, condition, self.scoped(lambda: self.loop_body(parted or not together))))
