"""Kernels in structured form as scalar Ascend C on the simulator, against the reference interpreter."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from pyasc.backend import structured as s
from pyasc.backend.ascend import chip
from pyasc.backend.ascend.backend import Ascend
from pyasc.backend.ascend.scalar import foreign as scalar_foreign
from pyasc.backend.ascend.scalar.kernel import one_core, prepared, why_not
from pyasc.backend.ascend.scalar.partition import LINE, cut
from pyasc.backend.base import KernelFault
from pyasc.backend.sim.backend import compiled, launch
from pyasc.backend.sim.simulator import Finding, Simulator
from pyasc.backend.structured.reference import run
from pyasc.backend.structured.rewrite import Writer
from pyasc.backend.structured.verify import verify_structured

Array = NDArray[Any]
Dtype = np.dtype[Any]
BOOL, U8, I32, I64, U32 = (np.dtype(t) for t in (np.bool_, np.uint8, np.int32, np.int64, np.uint32))
F16, F32, F64 = (np.dtype(t) for t in (np.float16, np.float32, np.float64))
BF16 = np.dtype(ml_dtypes.bfloat16)
CHIP = chip.load("910B1")
SITES = tuple(s.Site(f"array {n}", ("kernel.py", n, "")) for n in range(32))
Arrays = tuple[s.Array, ...]


class Body(Writer):
    """Writes a kernel's body, with names for what tests need often."""

    def id(self, axis: int = 0) -> int:
        return self.let("global_id", I64, attrs=(axis,))

    def get(self, variable: int, dtype: Dtype) -> int:
        return self.let("get", dtype, attrs=(variable,))

    def load(self, array: int, dtype: Dtype, *indices: int, site: int = 0) -> int:
        return self.let("load", dtype, *indices, attrs=(array, site))

    def store(self, array: int, index: int | tuple[int, ...], value: int, site: int = 1) -> None:
        self.put(s.Store(array, index if isinstance(index, tuple) else (index,), value, site))

    def when(self, condition: int, then: Callable[[], Any], orelse: Callable[[], Any] | None = None) -> None:
        with self.block() as first:
            then()
        with self.block() as second:
            if orelse:
                orelse()
        self.put(s.If(condition, tuple(first), tuple(second)))

    def loop(self, stop: int, body: Callable[[int], Any], start: int | None = None, step: int = 1) -> None:
        start = self.number(0) if start is None else start
        value = self.fresh()
        with self.block() as inner:
            body(value)
        self.put(s.For(value, start, stop, step, tuple(inner)))

    def repeat(self, head: Callable[[], int], body: Callable[[], Any]) -> None:
        with self.block() as first:
            condition = head()
        with self.block() as inner:
            body()
        self.put(s.While(tuple(first), condition, tuple(inner)))

    def kernel(self, name: str, arrays: Arrays, axes: int = 1, **rest: Any) -> s.StructuredKernel:
        given: dict[str, Any] = {"scalars": (), "variables": (), "sites": SITES} | rest
        kernel = s.StructuredKernel(axes, arrays, body=tuple(self.body), name=name, **given)
        verify_structured(kernel)
        return kernel


def reads(name: str, dtype: Dtype, layout: str = "1") -> s.Array:
    return s.Array(name, dtype, layout, reads=True)


def writes(name: str, dtype: Dtype, layout: str = "1", too: bool = False) -> s.Array:
    return s.Array(name, dtype, layout, reads=too, writes=True)


def binding(grid: tuple[int, ...], arrays: Iterable[Array]) -> s.StructuredBinding:
    arrays = list(arrays)
    strides = tuple(tuple(n // a.itemsize for n in a.strides) for a in arrays)
    sizes = tuple(a.size for a in arrays)
    return s.StructuredBinding(grid, tuple(a.shape for a in arrays), strides, (0,) * len(arrays), sizes)


def bits(values: Iterable[tuple[Dtype, Any]]) -> list[int]:
    return [int.from_bytes(np.asarray(v, d).tobytes(), "little") for d, v in values]


def simulate(
    kernel: s.StructuredKernel, bound: s.StructuredBinding, flats: list[Array], scalars: tuple[Any, ...] = ()
) -> str:
    """Run a kernel on the simulator, writing in place; its source."""
    target = Ascend(CHIP, None)
    assert why_not(kernel, CHIP) == ""
    made = target.written(kernel, target.tune(kernel, bound))
    assert made.fits(bound)  # type: ignore[arg-type]
    call = made.bind(bound)  # type: ignore[arg-type]
    launch(compiled(made, None), made, call, flats, bits(zip(kernel.scalars, scalars, strict=True)))
    return made.source


def check(
    kernel: s.StructuredKernel,
    grid: tuple[int, ...],
    arrays: list[Array],
    scalars: tuple[Any, ...] = (),
    ulp: float = 0,
) -> list[Array]:
    """Run on the simulator and by the interpreter: the same bits, or floats so close. What was written."""
    bound = binding(grid, arrays)
    given = [a.reshape(-1).copy() for a in arrays]
    expected = [a.copy() for a in given]
    fault = run(kernel, bound, expected, scalars)
    if fault is None:
        simulate(kernel, bound, given, scalars)
    else:
        with pytest.raises(KernelFault) as raised:
            simulate(kernel, bound, given, scalars)
        assert (raised.value.code, raised.value.value) == fault
    for array, mine, other in zip(kernel.arrays, given, expected, strict=True):
        same = mine.view(f"u{mine.itemsize}") == other.view(f"u{mine.itemsize}")
        if mine.dtype.kind in "fV":
            same |= (mine != mine) & (other != other)
        if ulp and mine.dtype == F32:
            same |= np.abs(mine.astype(F64) - other) <= ulp * np.spacing(np.abs(other))
        assert np.all(same), (array.name, mine[~same], other[~same])
    return [m.reshape(a.shape) for m, a in zip(given, arrays, strict=True)]


# --- control flow -------------------------------------------------------------------------------------------


def mandelbrot() -> s.StructuredKernel:
    """Counts of turns until a point leaves the circle: a while loop with conditions on two variables."""
    w = Body()
    i, j = w.id(0), w.id(1)
    height, width = w.let("extent", I64, attrs=(0, 0)), w.let("extent", I64, attrs=(0, 1))
    outside = w.let("or", BOOL, w.let("le", BOOL, height, i), w.let("le", BOOL, width, j))
    w.put(s.If(outside, (s.Return(),)))
    scale = w.let("scalar", F32, attrs=(0,))
    x = w.let("sub", F32, w.let("mul", F32, w.cast(j, I64, F32), scale), w.const(2.0, F32))
    y = w.let("sub", F32, w.let("mul", F32, w.cast(i, I64, F32), scale), w.const(1.25, F32))
    zero = w.const(0.0, F32)
    for variable in (0, 1):
        w.put(s.Set(variable, zero))
    w.put(s.Set(2, w.const(0, I32)))

    def going() -> int:
        a, b = w.get(0, F32), w.get(1, F32)
        size = w.let("add", F32, w.let("mul", F32, a, a), w.let("mul", F32, b, b))
        near = w.let("le", BOOL, size, w.const(4.0, F32))
        return w.let("and", BOOL, near, w.let("lt", BOOL, w.get(2, I32), w.const(20, I32)))

    def turn() -> None:
        a, b = w.get(0, F32), w.get(1, F32)
        difference = w.let("sub", F32, w.let("mul", F32, a, a), w.let("mul", F32, b, b))
        twice = w.let("mul", F32, w.let("mul", F32, w.const(2.0, F32), a), b)
        w.put(s.Set(0, w.let("add", F32, difference, x)))
        w.put(s.Set(1, w.let("add", F32, twice, y)))
        w.put(s.Set(2, w.let("add", I32, w.get(2, I32), w.const(1, I32))))

    w.repeat(going, turn)
    w.store(0, (i, j), w.get(2, I32))
    return w.kernel("mandelbrot", (writes("out", I32, "n1"),), 2, scalars=(F32,), variables=(F32, F32, I32))


def test_while_loops_and_threads_past_the_end() -> None:
    kernel = mandelbrot()
    (out,) = check(kernel, (24, 64), [np.zeros((20, 48), np.int32)], (0.0625,))
    assert out.max() == 20 and out.min() == 1


def collatz() -> s.StructuredKernel:
    """Steps to 1, at most 100, not counting every seventh: break, continue and a return out of a loop."""
    w = Body()
    i = w.id()
    w.put(s.Set(0, w.load(0, I64, i)))
    w.put(s.Set(1, w.number(0)))
    one = w.number(1)

    def turn(k: int) -> None:
        n = w.get(0, I64)
        w.when(w.let("le", BOOL, n, one), lambda: w.put(s.Break()))
        w.when(w.let("eq", BOOL, n, w.number(27)), lambda: (w.store(1, i, w.number(-1)), w.put(s.Return())))
        odd = w.let("eq", BOOL, w.let("remainder", I64, n, w.number(2)), one)
        more = w.add(w.mul(n, w.number(3)), one)
        w.put(s.Set(0, w.let("where", I64, odd, more, w.let("floor_divide", I64, n, w.number(2)))))
        skip = w.let("eq", BOOL, w.let("remainder", I64, k, w.number(7)), w.number(6))
        w.when(skip, lambda: w.put(s.Continue()))
        w.put(s.Set(1, w.add(w.get(1, I64), one)))

    w.loop(w.number(100), turn)
    w.store(1, i, w.get(1, I64))
    return w.kernel("collatz", (reads("n", I64), writes("steps", I64)), variables=(I64, I64))


def test_break_continue_and_return_within_a_loop() -> None:
    (_, steps) = check(collatz(), (60,), [np.arange(1, 61), np.zeros(60, np.int64)])
    assert steps[0] == 0 and (steps == -1).any()


# --- memory -------------------------------------------------------------------------------------------------


def test_atomic_updates_are_made_by_one_core() -> None:
    w = Body()
    i = w.id()
    value = w.load(0, U8, i)
    bin_ = w.let("cast", I64, w.let("shift_right", U8, value, w.const(4, U8)))
    w.put(s.Atomic("add", 1, (bin_,), w.const(1, I32), 1, result=(before := w.fresh())))
    w.put(s.Atomic("max", 2, (w.number(0),), w.cast(value, U8, F32), 2))
    w.store(3, i, before, 3)
    arrays = (
        reads("x", U8),
        writes("bins", I32, too=True),
        writes("top", F32, too=True),
        writes("rank", I32),
    )
    kernel = w.kernel("histogram", arrays)
    x = np.random.default_rng(1).integers(0, 256, 300).astype(np.uint8)
    given = [x, np.zeros(16, np.int32), np.full(1, -1, np.float32), np.zeros(300, np.int32)]
    (_, counts, most, _) = check(kernel, (300,), given)
    assert np.array_equal(counts, np.bincount(x >> 4, minlength=16)) and most[0] == x.max()
    assert one_core(kernel, binding((300,), given)) == "atomic updates are made by one core"


def scatter() -> s.StructuredKernel:
    w = Body()
    i = w.id()
    w.store(2, w.load(1, I64, i), w.load(0, F32, i, site=2), 3)
    return w.kernel("scatter", (reads("x", F32), reads("to", I64), writes("y", F32)))


def test_stores_at_any_place_and_the_first_that_lies_outside() -> None:
    generator = np.random.default_rng(2)
    x, to = generator.random(50).astype(np.float32), generator.permutation(50)
    given = [x, to, np.zeros(50, np.float32)]
    assert "lines of 64 bytes" in one_core(scatter(), binding((50,), given))
    (_, _, y) = check(scatter(), (50,), given)
    assert np.array_equal(y[to], x)
    to[7], to[30] = -3, 77  # neither counts from the end nor is cut off
    (_, _, y) = check(scatter(), (50,), [x, to, np.zeros(50, np.float32)])
    assert np.count_nonzero(y) == 48
    check(scatter(), (55,), given)  # a load outside gives 0, which stores at 0


def reversal() -> s.StructuredKernel:
    """Blocks of 8 × 4 threads turn their tile over through shared memory, adding to it in between."""
    w = Body()
    i, j = (w.let("local_id", I64, attrs=(k,)) for k in (0, 1))
    at = (w.id(0), w.id(1))
    w.put(s.Set(0, w.load(0, F32, *at)))
    w.store(2, (i, j), w.get(0, F32), 2)
    w.put(s.Barrier())
    last = [w.sub(w.let("block_size", I64, attrs=(k,)), w.number(1)) for k in (0, 1)]
    other = w.load(2, F32, w.sub(last[0], i), w.sub(last[1], j), site=3)
    w.put(s.Barrier())
    w.store(2, (i, j), w.let("add", F32, other, w.get(0, F32)), 4)
    w.put(s.Barrier())
    w.store(1, at, w.load(2, F32, i, j, site=5))
    return w.kernel(
        "reversal",
        (reads("x", F32, "n1"), writes("y", F32, "n1")),
        2,
        variables=(F32,),
        buffers=(s.Buffer("tile", F32, (8, 4)),),
        block=(8, 4),
    )


def test_shared_memory_and_barriers() -> None:
    x = np.arange(48 * 16, dtype=np.float32).reshape(48, 16)
    kernel = reversal()
    (_, y) = check(kernel, (48, 16), [x, np.zeros_like(x)])
    tiles = x.reshape(6, 8, 4, 4)
    assert np.array_equal(y, (tiles + tiles[:, ::-1, :, ::-1]).reshape(48, 16))
    assert not one_core(kernel, binding((48, 16), [x, x]))


def doubled() -> s.StructuredKernel:
    """Tiles of 16 elements in UB, each copied in, doubled whole and copied out as far as the array goes."""
    w = Body()
    start = w.mul(w.id(), w.number(16))
    stop = w.add(start, w.number(16))
    zero, whole = w.number(0), w.number(16)
    tile, array, out = (
        s.Region(2, (zero,), (whole,)),
        s.Region(0, (start,), (stop,)),
        s.Region(1, (start,), (stop,)),
    )
    w.put(s.TileCopy(tile, array, 0))
    w.put(s.TileApply("add", 2, (("buffer", 2), ("buffer", 2)), whole))
    w.put(s.TileCopy(out, tile, 1))
    buffer = s.Buffer("tile", F16, (16,))
    return w.kernel("doubled", (reads("x", F16), writes("y", F16)), buffers=(buffer,), block=(1,))


def test_tiles() -> None:
    x = np.arange(1000, dtype=np.float16)
    assert cut(prepared(doubled()), binding((63,), [x, x]), 0) is not None
    (_, y) = check(doubled(), (63,), [x, np.zeros_like(x)])
    assert np.array_equal(y, x + x)


# --- arithmetic ---------------------------------------------------------------------------------------------

_UNARY = {"f": ("neg", "abs", "floor", "ceil", "trunc", "rint"), "i": ("neg", "abs", "not", "popcount")}
_BINARY = {
    "f": (
        "add", "sub", "mul", "div", "floor_divide", "remainder", "fmod", "max", "min", "copysign",
        "eq", "ne", "lt", "le",
    ),
    "i": (
        "add", "sub", "mul", "floor_divide", "remainder", "fmod", "pow", "max", "min", "and", "or", "xor",
        "shift_left", "shift_right", "eq", "ne", "lt", "le",
    ),
}  # fmt: skip


def arithmetic(dtype: Dtype, casts: Iterable[Dtype]) -> tuple[s.StructuredKernel, list[Dtype]]:
    """Every primitive of a dtype on pairs of numbers, one array for each result."""
    w = Body()
    i = w.id()
    x, y = w.load(0, dtype, i), w.load(1, dtype, i)
    results: list[s.Array] = []

    def out(op: str, to: Dtype, *args: int) -> None:
        results.append(writes(f"{op}_of_x", to))
        w.store(1 + len(results), i, w.let(op, to, *args))

    kind = "f" if dtype.kind in "fV" else "i"
    for op in _UNARY[kind]:
        if not (op == "neg" and dtype.kind == "u"):
            out(op, U8 if op == "popcount" else dtype, x)
    for op in _BINARY[kind]:
        out(op, BOOL if op in ("eq", "ne", "lt", "le") else dtype, x, y)
    if dtype == F32:
        out("nextafter", dtype, x, y)
    for to in casts:
        out("cast", to, x)
    arrays = (reads("x", dtype), reads("y", dtype), *results)
    return w.kernel(f"arithmetic_{dtype.name}", arrays), [array.dtype for array in results]


def numbers(dtype: Dtype, count: int) -> tuple[Array, Array]:
    """Pairs of special numbers with each other, and random ones."""
    generator = np.random.default_rng(3)
    if dtype.kind in "fV":
        special = [
            0.0,
            -0.0,
            1.0,
            -1.0,
            0.5,
            -2.5,
            3.5,
            7.0,
            1e-6,
            np.inf,
            -np.inf,
            np.nan,
            65504.0,
            -3e9,
            3e38,
        ]
        random = generator.normal(size=2 * count) * 10.0 ** generator.integers(-4, 5, 2 * count)
    else:
        limits = np.iinfo(dtype)
        special = [n for n in (0, 1, 2, 3, 7, -1, -2, -5, 31, 63, 64) if limits.min <= n]
        special += [int(limits.max), int(limits.min), int(limits.max) - 1]
        random = generator.integers(limits.min, limits.max, 2 * count, dtype=dtype, endpoint=True)
        random[::3] %= 9
    with np.errstate(all="ignore"):
        row, random = np.array(special).astype(dtype), random.astype(dtype)
    first, second = np.repeat(row, len(row)), np.tile(row, len(row))
    return np.concatenate([first, random[:count]]), np.concatenate([second, random[count:]])


INTEGERS = tuple(np.dtype(f"{u}int{n}") for n in (8, 16, 32, 64) for u in ("", "u"))


@pytest.mark.parametrize("dtype", [F32, BF16, I32, np.dtype(np.uint64)], ids=lambda d: d.name)
def test_arithmetic_is_that_of_numpy(dtype: Dtype) -> None:
    casts = (BOOL, U8, I32, I64, F16, BF16, F32)
    kernel, results = arithmetic(dtype, casts)
    x, y = numbers(dtype, 200)
    check(kernel, (len(x),), [x, y, *(np.zeros(len(x), r) for r in results)])


@pytest.mark.full
@pytest.mark.parametrize("dtype", [F16, *INTEGERS], ids=lambda d: d.name)
def test_arithmetic_of_all_dtypes(dtype: Dtype) -> None:
    kernel, results = arithmetic(dtype, (BOOL, *INTEGERS, F16, BF16, F32))
    x, y = numbers(dtype, 2000)
    check(kernel, (len(x),), [x, y, *(np.zeros(len(x), r) for r in results)])


def functions(names: tuple[str, ...], dtype: Dtype = F32) -> s.StructuredKernel:
    w = Body()
    i = w.id()
    x, y = w.load(0, dtype, i), w.load(1, dtype, i)
    for n, name in enumerate(names):
        args = (x, y) if name in ("pow", "atan2", "hypot") else (x,)
        w.store(2 + n, i, w.let(name, dtype, *args))
    arrays = (reads("x", dtype), reads("y", dtype), *(writes(f"r{n}", dtype) for n in range(len(names))))
    return w.kernel("functions", arrays)


def test_functions_that_the_scalar_unit_lacks() -> None:
    names = ("sqrt", "exp", "log", "sin", "tanh", "pow", "atan2")
    generator = np.random.default_rng(4)
    x, y = (generator.uniform(0.01, 8, 40).astype(np.float32) for _ in range(2))
    check(functions(names), (40,), [x, y, *(np.zeros(40, np.float32) for _ in names)], ulp=3)
    halves = [a.astype(np.float16) for a in (x, y)]
    check(functions(("sqrt",), F16), (40,), [*halves, np.zeros(40, np.float16)])


# --- C functions --------------------------------------------------------------------------------------------

SOURCE = """
#include <stdint.h>
#define HALF(x) ((x) * 0.5f)
static float half(float x) { return HALF(x); }
/* a loop of one's own */
int32_t steps(float x, int32_t most)
{
    int32_t n = 0;
    while (x > 1.0f && n < most) { x = half(x); n++; }
    return n;
}
"""


def test_c_functions_are_inlined() -> None:
    def steps(x: float, most: int) -> int:
        n = 0
        while x > 1 and n < most:
            x, n = x / 2, n + 1
        return n

    address = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_float, ctypes.c_int32)(steps)
    pointer = ctypes.cast(address, ctypes.c_void_p).value
    assert pointer is not None
    function = s.Foreign("steps", I32, (F32, I32), SOURCE, pointer)
    w = Body()
    i = w.id()
    w.store(1, i, w.let("call", I32, w.load(0, F32, i), w.const(5, I32), attrs=(0,)))
    kernel = w.kernel("calls", (reads("x", F32), writes("n", I32)), functions=(function,))
    check(kernel, (20,), [np.geomspace(0.1, 1000, 20).astype(np.float32), np.zeros(20, np.int32)])


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("", "has no source, only a library"),
        ("#include <math.h>\nfloat f(float x) { return sqrtf(x); }", "includes math.h"),
        ("float sqrtf(float);\nfloat f(float x) { return sqrtf(x); }", "calls sqrtf"),
        ("struct P { float x; };\nfloat f(float x) { struct P p = {x}; return p.x; }", ""),
        ("float f(float x) { return sqrtf(x); }", "calls sqrtf"),
        ("float f(float x) { return x * 0.5; }", "computes in double"),
        ("float f(float x) { return (float)(double)x; }", "computes in double"),
        ("float g(float x) { return x; }", "is not defined"),
    ],
)
def test_c_functions_that_cannot_be(source: str, reason: str) -> None:
    found = scalar_foreign.why_not(s.Foreign("f", F32, (F32,), source))
    assert reason in found and bool(found) == bool(reason)


# --- what cannot be, and how threads are handed out ---------------------------------------------------------


def test_why_not() -> None:
    w = Body()
    w.store(0, w.id(), w.const(1.0, F64))
    assert why_not(w.kernel("wide", (writes("y", F64),)), CHIP) == "y is float64, which the AI core has not"
    assert "no generator" in why_not(scatter(), chip.load("310P"))
    w = Body()
    w.store(1, w.id(), w.const(1.0, F32))
    tile = s.Buffer("tile", F32, (100_000,))
    big = w.kernel("big", (writes("y", F32),), block=(1,), buffers=(tile,))
    assert why_not(big, CHIP) == "its buffers take 400,000 bytes, the unified buffer has 188,416"


@pytest.mark.parametrize("offset", [0, 4, 5])
def test_no_two_cores_write_into_one_line(offset: int) -> None:
    w = Body()
    i = w.mul(w.id(), w.number(3))
    for k in range(3):
        w.store(0, w.add(i, w.number(k)), w.const(k, U8))
    kernel = w.kernel("triples", (writes("y", U8),))
    bound = s.StructuredBinding((500,), ((1500,),), ((1,),), (offset,), (1500 + offset,))
    found = cut(kernel, bound, 0)
    assert found is not None and found.step == 64
    assert all((offset + 3 * (found.shift + k * found.step)) % LINE == 0 for k in range(found.units))
    assert found.shift + found.units * found.step >= 500
    flat = np.full(1500 + offset, 9, np.uint8)
    simulate(kernel, bound, [flat])
    assert np.array_equal(flat[offset:], np.tile([0, 1, 2], 500))


def test_columns_of_rows_that_share_lines_are_not_cut() -> None:
    w = Body()
    w.store(0, (w.number(2), w.id()), w.const(1, I32))
    kernel = w.kernel("column", (writes("y", I32, "n1"),))
    assert cut(kernel, binding((64,), [np.zeros((4, 64), np.int32)]), 0) is None


LINES = """#include "kernel_operator.h"
using namespace AscendC;

extern "C" __global__ __aicore__ void lines(GM_ADDR address, int32_t apart) {
    GlobalTensor<int32_t> out;
    out.SetGlobalBuffer((__gm__ int32_t*)address);
    out.SetValue(GetBlockIdx() * apart, 1);
    DataCacheCleanAndInvalid<int32_t, CacheLine::SINGLE_CACHE_LINE>(out[GetBlockIdx() * apart]);
}
"""


def test_the_simulator_sees_two_cores_in_one_line() -> None:
    module = Simulator(CHIP, None).compile(LINES, "lines")
    out = np.zeros(64, np.int32)
    module.run(3, [out, ctypes.c_int32(16)])
    assert out.sum() == 3
    with pytest.raises(
        Finding, match="Bytes 0 to 63 of argument 0, a line of the data cache, are also"
    ) as found:
        module.run(3, [out, ctypes.c_int32(8)])
    assert found.value.kind == "race" and found.value.line == 7
