"""The language of kernels means what Python means: lowered functions against Python running them."""

from __future__ import annotations

import math
from math import pi, sqrt, tanh
from typing import Any

import numpy as np
import pytest
from lowering_checks import check, launch, lowered

import pyasc
from pyasc.backend.structured import Foreign
from pyasc.dsl.language import (
    atomic_add,
    atomic_max,
    get_global_id,
    get_global_size,
    register,
)
from pyasc.dsl.signature import Options
from pyasc.ops.errors import KernelError

RNG = np.random.default_rng(7)


def floats(*shape: int) -> Any:
    return RNG.uniform(-3, 3, shape).astype(np.float32)


def ints(*shape: int, high: int = 9) -> Any:
    return RNG.integers(0, high, shape)


def zeros(*shape: int, dtype: Any = np.float32) -> Any:
    return np.zeros(shape, dtype)


def vector_add(c: Any, a: Any, b: Any) -> None:
    i = get_global_id(0)
    c[i] = a[i] + b[i]


def matmul(c: Any, a: Any, b: Any, n: int) -> None:
    i, j = get_global_id(0), get_global_id(1)
    if i >= c.shape[0] or j >= n:
        return
    acc = 0.0
    for k in range(a.shape[1]):
        acc += a[i, k] * b[k, j]
    c[i, j] = acc


def sobel(out: Any, img: Any) -> None:
    i, j = get_global_id(0), get_global_id(1)
    h, w = img.shape
    if 0 < i < h - 1 and 0 < j < w - 1:
        gx = img[i - 1, j + 1] - img[i - 1, j - 1] + 2 * img[i, j + 1] - 2 * img[i, j - 1]
        gx += img[i + 1, j + 1] - img[i + 1, j - 1]
        gy = img[i + 1, j] * 2 - img[i - 1, j] * 2
        out[i, j] = sqrt(gx**2 + gy**2)


def test_whole_kernels() -> None:
    check(vector_add, (100,), c=zeros(100), a=floats(100), b=floats(100))
    check(matmul, (5, 8), c=zeros(5, 7), a=floats(5, 6), b=floats(6, 7), n=7)
    check(sobel, (9, 12), out=zeros(9, 12), img=floats(9, 12))


def test_a_plain_kernel_has_no_variables() -> None:
    kernel = lowered(vector_add, c=zeros(3), a=zeros(3), b=zeros(3)).kernel
    assert [type(s).__name__ for s in kernel.body] == ["Let"] * 4 + ["Store"]
    assert [(a.reads, a.writes) for a in kernel.arrays] == [(False, True), (True, False), (True, False)]


def guard_chain(c: Any, a: Any) -> None:
    i = get_global_id(0)
    if i == 0:
        c[i] = -1
        return
    if i > 5:
        if i % 2:
            return
        c[i] = 7
    elif a[i] > 0:
        c[i] = 1
    elif a[i] > -1:
        c[i] = 2
    else:
        return
    c[i] += 0.5


def branches(c: Any, a: Any) -> None:
    i = get_global_id(0)
    x = a[i]
    sign = 1
    if x < 0:
        x, sign = -x, -1
        low, high = x, x + 1
    else:
        low, high = 0.0, x
    c[i] = sign * (high - low) + x


def shadowed(c: Any, a: Any) -> None:
    i = get_global_id(0)
    x = 1
    c[i] = x / 2
    x = a[i]
    c[i] += x
    x = x > 0
    if x:
        c[i] += 10


def swaps(c: Any, n: int) -> None:
    i = get_global_id(0)
    a, b = 0, 1
    for _ in range(i):
        a, b = b, a + b
    c[i] = a + n


def breaks(c: Any, a: Any) -> None:
    i = get_global_id(0)
    total = 0.0
    last = -1
    for k in range(len(a)):
        if a[k] < 0:
            continue
        total += a[k]
        last = k
        if total > i:
            break
        total += 0.25
    c[i] = total + last


def breaks_and_else(c: Any, a: Any) -> None:
    i = get_global_id(0)
    x = 0.0
    n = 0
    for k in range(10):
        if k == i:
            break
        else:
            x = x + a[k]
            y = x * 2
        n = n + 1
        if y > 4:
            n += 100
            if n > 300:
                break
            continue
        x += 1
    c[i] = x + n


def whiles(c: Any, n: int) -> None:
    i = get_global_id(0)
    x = i + 1
    steps = 0
    while x != 1 and steps < n:
        x = x // 2 if x % 2 == 0 else 3 * x + 1
        steps += 1
    c[i] = steps


def forever(c: Any) -> None:
    i = get_global_id(0)
    k = 0
    while True:
        k += 1
        if k * k > i:
            break
        if k > 100:
            return
    c[i] = k


def returns_in_loops(c: Any, a: Any) -> None:
    i = get_global_id(0)
    for k in range(len(a)):
        for m in range(k):
            if a[k] + a[m] > i:
                c[i] = k * 100 + m
                return
    c[i] = -1


def nested(c: Any, a: Any) -> None:
    i = get_global_id(0)
    best = 0
    where = -1
    for r in range(a.shape[0]):
        s = 0
        for k in range(a.shape[1]):
            t = a[r, k]
            if t > 0:
                s += t
        if s > best:
            best = s
            where = r
    c[i] = best + where


def strided(c: Any, a: Any) -> None:
    i = get_global_id(0)
    total = 0.0
    for k in range(i, len(a), get_global_size(0)):
        total += a[k]
    for k in range(len(a) - 1, -1, -2):
        total -= a[k]
    for k in range(7, i):
        total += k
    c[i] = total


def guarded_loads(c: Any, a: Any) -> None:
    i = get_global_id(0)
    n = len(a)
    if i > 0 and a[i - 1] > 0:
        c[i] = 1
    if i == 0 or a[i - 1] < 0:
        c[i] += 2
    c[i] += a[i + 1] if i + 1 < n else 100
    inside = i < n - 1 and a[i + 1] > 0 and a[i] > 0
    if not inside:
        c[i] += 1000
    if 0 < i < n and a[i - 1] < a[i]:
        c[i] += 0.5
    else:
        c[i] -= 0.5


def negatives(c: Any, a: Any) -> None:
    i = get_global_id(0)
    c[i] = a[-1, i] + a[i, -2] * a[-1, -1]


def flats(c: Any, a: Any) -> None:
    i = get_global_id(0)
    c[i] = a[i] + a[-1] + a.shape[0] * 10 + a.shape[1] + a.size + a.ndim + len(a)


def index_tuples(c: Any, a: Any) -> None:
    p = get_global_id(0), get_global_id(1)
    q = p[1], p[0]
    c[p] = a[q] + len(q)


def chained(c: Any, a: Any) -> None:
    i = get_global_id(0)
    x = a[i]
    c[i] = 1.0 if -1 < x <= 1 != 2 < 3 else 0.0
    if not (x > 0) or i == 3:
        c[i] += 2
    c[i] += (x > 0) + (i in (1, 4, 5))


def arithmetic(c: Any, a: Any, n: int, s: float) -> None:
    i = get_global_id(0)
    x = a[i]
    k = i - 5
    c[i, 0] = k // 3 + k % 3 + (k << 2) + (i >> 1) + (k & 3) + (k | 8) + (k ^ 5) + ~k
    c[i, 1] = x**2 + x**3 - x / 2 + abs(x) + (-x) + (+x)
    c[i, 2] = n * x + s * x + n / 2 + s**2 + n // 2 + n % 3
    c[i, 3] = min(x, 1) + max(x, 0.5, s) + int(x) + float(k) + bool(k) + round(x) + pow(x, 2)
    q, r = divmod(k, 3)
    c[i, 4] = q * 10 + r + sum((q, r, 1))
    c[i, 5] = k / 2 + k * 0.5 + 1 / (i + 1) + 2**-2 + 7 // 2


def mathematics(c: Any, a: Any) -> None:
    i = get_global_id(0)
    x = a[i]
    y = abs(x) + 0.1
    c[i, 0] = math.exp(x) + math.log(y) + math.log(y, 2) + math.log2(y) + math.log10(y) + sqrt(y)
    c[i, 1] = math.sin(x) + math.cos(x) + math.tan(x / 4) + tanh(x) + math.atan2(x, y) + math.hypot(x, y)
    c[i, 2] = (
        math.floor(x)
        + math.ceil(x)
        + math.trunc(float(x))
        + math.fabs(x)
        + math.copysign(y, x)
        + math.fmod(x, 2)
    )
    c[i, 3] = math.isnan(x) + math.isinf(x) + math.isfinite(x) + math.degrees(x) + math.radians(x)
    c[i, 4] = math.erf(x) + math.erfc(x) + pi + math.e + math.tau + sqrt(i) + math.sqrt(2) + math.expm1(x)
    c[i, 5] = math.floor(2.5) + math.sqrt(len(a)) + math.pow(y, 1.5) + math.asin(x / 4) + math.acosh(1 + y)


def annotated(c: Any, a: Any, n: int = 3) -> None:
    """A docstring."""
    i: int = get_global_id(0)
    total: float = 0.0
    k: int
    for k in range(n):
        total += k
    pass
    ...
    acc = register(0.0)
    acc += a[i]
    c[i] = acc + total


def sequences(c: Any, shape: Any) -> None:
    i = get_global_id(0)
    h, w = shape
    c[i] = shape[0] * i + shape[-1] + len(shape) + h * w


KERNELS_OF_A_AND_C = (
    guard_chain,
    branches,
    shadowed,
    breaks,
    breaks_and_else,
    guarded_loads,
    strided,
    returns_in_loops,
)


@pytest.mark.parametrize("function", KERNELS_OF_A_AND_C, ids=lambda f: f.__name__)
def test_control(function: Any) -> None:
    check(function, (12,), c=zeros(12), a=floats(12))


@pytest.mark.parametrize("n", [0, 5, 1000])
def test_loops_of_integers(n: int) -> None:
    check(swaps, (12,), c=zeros(12), n=n)
    check(whiles, (30,), c=zeros(30, dtype=np.int64), n=n)
    check(forever, (30,), c=zeros(30, dtype=np.int64))


def test_nested_loops() -> None:
    check(nested, (3,), c=zeros(3), a=floats(4, 5))
    check(nested, (3,), c=zeros(3, dtype=np.int64), a=ints(4, 5))


def test_indices() -> None:
    check(negatives, (6,), c=zeros(6), a=floats(6, 6))
    check(index_tuples, (3, 4), c=zeros(3, 4), a=floats(4, 3))
    check(sequences, (3,), c=zeros(3), shape=(4, 6))
    made = lowered(flats, c=zeros(12), a=floats(3, 4))
    assert made.flat == {1} and made.kernel.arrays[1].layout == "1"
    c, a = zeros(12), floats(3, 4)
    assert launch(flats, (12,), c=c, a=a) is None
    np.testing.assert_allclose(c, a.ravel() + a[-1, -1] + 30 + 4 + 12 + 2 + 3, rtol=1e-6)


def test_expressions() -> None:
    check(chained, (12,), c=zeros(12), a=floats(12))
    check(arithmetic, (12,), c=zeros(12, 6), a=floats(12), n=7, s=1.5)
    check(mathematics, (12,), c=zeros(12, 6), a=floats(12), rtol=1e-4)
    check(annotated, (12,), c=zeros(12), a=floats(12), n=4)


def test_what_is_outside_touches_nothing_and_is_reported() -> None:
    def shifted(c: Any, a: Any) -> None:
        i = get_global_id(0)
        c[i] = a[i - 1] + 1

    c = zeros(4)
    assert launch(shifted, (4,), c=c, a=np.ones(4, np.float32)) == (1, -1)
    np.testing.assert_array_equal(c, [1, 2, 2, 2])


# --- dtypes -------------------------------------------------------------------------------------------------


def accumulate(c: Any, a: Any) -> None:
    i = get_global_id(0)
    acc = 0.0
    for k in range(len(a)):
        acc = acc + a[k]
    c[i] = acc


@pytest.mark.parametrize(
    ("given", "variable"), [("float16", "float16"), ("float64", "float64"), ("int32", "float32")]
)
def test_a_literal_takes_the_dtype_of_what_it_is_joined_with(given: str, variable: str) -> None:
    kernel = lowered(accumulate, c=zeros(2), a=zeros(5, dtype=given)).kernel
    assert [d.name for d in kernel.variables] == [variable]


def test_a_number_takes_the_dtype_of_what_it_meets() -> None:
    def scaled(c: Any, a: Any, b: Any, s: float, n: int) -> None:
        i = get_global_id(0)
        c[i + n] = a[i] * s + b[i] * (2 * s)

    made = lowered(scaled, c=zeros(2), a=zeros(2, dtype="float16"), b=zeros(2, dtype="float64"), s=0.1, n=0)
    slots = sorted(zip(made.scalars, map(str, made.kernel.scalars), strict=True))
    assert slots == [(("n",), "int64"), (("s",), "float16"), (("s",), "float64")]


def casts(c: Any, a: Any, n: int) -> None:
    i = get_global_id(0)
    x = pyasc.float16(a[i])  # type: ignore[operator]
    y = np.int32(a[i] * 100)
    z: pyasc.float64 = a[i]
    w = a[i].astype(pyasc.int8)
    c[i] = x + y + z + w + np.float32(n)


def test_dtypes_called_and_annotated() -> None:
    kernel = lowered(casts, c=zeros(2), a=zeros(2), n=1).kernel
    made = {str(s.dtype) for s in kernel.body if getattr(s, "op", "") == "cast"}
    assert made >= {"float16", "int32", "float64", "int8"}


def nested_subscripts(c: Any, a: Any) -> None:
    i = get_global_id(0)
    c[i][1] = a[i][-1]
    c[i][0] += ((1, 2), (3, 4))[1][0]


def test_subscripts_of_subscripts() -> None:
    check(nested_subscripts, (3,), c=zeros(3, 2), a=floats(3, 4))


def table(c: Any, a: Any) -> None:
    i = get_global_id(0)
    x = a[i]
    c[i, 0] = pyasc.where(x > 0, x, 2) + np.sqrt(pyasc.maximum(x, 0)) + pyasc.clip(x, 0, 1)
    c[i, 1] = pyasc.sinc(x) + np.logaddexp(x, 1) + pyasc.round(x, decimals=1) + x.clip(-1, 1)


def test_functions_of_the_op_table() -> None:
    c, x = zeros(12, 2), floats(12)
    assert launch(table, (12,), c=c, a=x) is None
    np.testing.assert_allclose(
        c[:, 0], np.where(x > 0, x, 2) + np.sqrt(np.maximum(x, 0)) + np.clip(x, 0, 1), rtol=1e-5
    )
    expected = np.sinc(x) + np.logaddexp(x, 1) + np.round(x, 1) + np.clip(x, -1, 1)
    np.testing.assert_allclose(c[:, 1], expected, rtol=1e-4, atol=1e-5)


def by_dtype(c: Any, a: Any) -> None:
    i = get_global_id(0)
    if a.dtype == pyasc.float16:
        c[i] = 16
    elif a.dtype == np.float32 and a.ndim == 1:
        c[i] = 32
    else:
        c[i] = a[i, i, i]  # never lowered


def test_what_is_known_is_decided_when_compiled() -> None:
    kernel = lowered(by_dtype, c=zeros(2), a=zeros(2)).kernel
    assert not any(type(s).__name__ == "If" for s in kernel.body)


# --- atomic updates ----------------------------------------------------------------------------------------


def histogram(counts: Any, a: Any, high: Any) -> None:
    i = get_global_id(0)
    old = atomic_add(counts, a[i], 1)
    atomic_max(high, (0, 0), old + 1)


def test_atomic_updates() -> None:
    counts, a, high = zeros(9, dtype=np.int64), ints(50), zeros(1, 1, dtype=np.int64)
    check(histogram, (50,), counts=counts, a=a, high=high)
    assert high[0, 0] == np.bincount(a).max()
    kernel = lowered(histogram, counts=counts, a=a, high=high).kernel
    assert [s.result >= 0 for s in kernel.body if type(s).__name__ == "Atomic"] == [True, False]


# --- functions, constants, objects -------------------------------------------------------------------------

SCALE = 2.5
WEIGHTS = (1, 2, 3)


def clamp(x: Any, low: Any = 0.0, high: Any = 1.0) -> Any:
    if x < low:
        return low
    if x > high:
        return high
    return x


def pair(x: Any) -> Any:
    y = x * SCALE
    return y, clamp(y, high=2.0)


def calls(c: Any, a: Any) -> None:
    i = get_global_id(0)
    y, z = pair(a[i])
    c[i] = y + z + clamp(a[i]) + WEIGHTS[1] + len(WEIGHTS)


def first_above(a: Any, low: Any) -> Any:
    for k in range(a.shape[0]):
        for m in range(a.shape[1]):
            if a[k, m] > low:
                return k, a[k, m]
        if k > 2:
            return -1, 0
    return -2, low


def searches(c: Any, a: Any) -> None:
    i = get_global_id(0)
    k, x = first_above(a, i / 4)
    c[i] = k + x


def collatz(x: Any) -> Any:
    n = int(abs(x) * 8) + 1
    for k in range(30):
        if n == 1:
            return k
        n = 3 * n + 1 if n % 2 else n // 2
    return -1


def test_functions_that_return_in_loops() -> None:
    check(searches, (12,), c=zeros(12), a=floats(5, 3))
    made = lowered(collatz, x=zeros(4))
    assert made.style == "map" and str(made.kernel.arrays[0].dtype) == "int64"


def test_functions_and_constants() -> None:
    check(calls, (12,), c=zeros(12), a=floats(12))
    made = lowered(calls, c=zeros(2), a=zeros(2))
    labels = {g.label.partition(",")[0] for g in made.guards}
    assert labels == {"pair", "clamp", "SCALE", "WEIGHTS"}
    assert all(g.compute(None) == g.expected for g in made.guards)  # type: ignore[arg-type]


@pyasc.kernel
def doubled(x: Any) -> Any:
    return 2 * x


class CFunction:
    foreign = Foreign("cube", np.dtype("f4"), (np.dtype("f4"), np.dtype("i4")))


cube = CFunction()


def calls_others(c: Any, a: Any) -> None:
    i = get_global_id(0)
    c[i] = doubled(a[i]) + cube(i, 2.5)


def test_kernels_and_functions_in_c_are_called() -> None:
    kernel = lowered(calls_others, c=zeros(2), a=zeros(2)).kernel
    assert kernel.functions == (CFunction.foreign,)
    call = next(s for s in kernel.body if getattr(s, "op", "") == "call")
    dtypes = [s.dtype for s in kernel.body if getattr(s, "value", -1) in call.args]
    assert sorted(map(str, dtypes)) == ["float32", "int32"] and call.attrs == (0,)
    assert next(g.label for g in lowered(calls_others, c=zeros(2), a=zeros(2)).guards).startswith("doubled")


def test_closures() -> None:
    factor, table_ = 3, floats(4)

    def scaled(c: Any) -> None:
        i = get_global_id(0)
        c[i] = table_[i] * factor

    c = zeros(4)
    assert launch(scaled, (4,), c=c) is None
    np.testing.assert_allclose(c, table_ * 3, rtol=1e-6)
    made = lowered(scaled, c=c)
    assert made.arrays == (("c",), ("", "table_"))
    factor = 4
    assert not all(g.compute(None) == g.expected for g in made.guards)  # type: ignore[arg-type]


class Layer:
    def __init__(self) -> None:
        self.coefficient = 0.5
        self.count = 3
        self.weights = floats(5)
        self.inner = self
        self.flag = True

    def half(self, x: Any) -> Any:
        return x * self.coefficient

    def forward(self, c: Any, a: Any) -> None:
        i = get_global_id(0)
        c[i] = self.half(a[i]) + self.inner.weights[i] + (self.count if self.flag else 0)


def test_attributes_of_an_object() -> None:
    layer, c, a = Layer(), zeros(5), floats(5)
    made = lowered(Layer.forward, self=layer, c=c, a=a)
    assert ("self", "coefficient") in made.scalars
    assert launch(Layer.forward, (5,), self=layer, c=c, a=a) is None
    np.testing.assert_allclose(c, a * 0.5 + layer.weights + 3, rtol=1e-6)


KERNEL = ((1, 2, 1), (2, 4, 2), (1, 2, 1))


def blur(out: Any, img: Any) -> None:
    i, j = get_global_id(0), get_global_id(1)
    h, w = img.shape
    acc = 0.0
    for dy in range(-1, 2):
        for dx in range(3):
            y, x = i + dy, j + dx - 1
            if 0 <= y < h and 0 <= x < w:
                acc += img[y, x] * KERNEL[dy + 1][dx]
    out[i, j] = acc / 16 + dx


OFFSETS = ((0, 1), (1, 0), (0, -1))


def cross(out: Any, img: Any) -> None:
    i, j = get_global_id(0), get_global_id(1)
    total = img[i, j]
    for dy, dx in OFFSETS:
        if 0 <= i + dy < img.shape[0] and 0 <= j + dx < img.shape[1]:
            total += img[i + dy, j + dx]
    for scale in (1, 0.5):
        total = total * scale
    out[i, j] = total


def test_loops_over_a_tuple_are_written_out() -> None:
    check(cross, (5, 6), out=zeros(5, 6), img=floats(5, 6))
    check(blur, (5, 6), out=zeros(5, 6), img=floats(5, 6))
    kernel = lowered(blur, out=zeros(5, 6), img=floats(5, 6)).kernel
    assert not any(type(s).__name__ == "For" for s in kernel.body)


def powers(c: Any, s: float) -> None:
    i = get_global_id(0)
    s = s * s / 2 + s
    s = s * s / 2 + s
    s = s * s / 2 + s
    s = s * s / 2 + s
    s = s * s / 2 + s
    s = s * s / 2 + s
    s = s * s / 2 + s
    s = s * s / 2 + s
    c[i] = s


def test_numbers_of_the_launch_are_computed_in_the_dtype_they_meet() -> None:
    check(powers, (2,), c=zeros(2, dtype=np.float64), s=0.1, rtol=1e-15)
    assert lowered(powers, c=zeros(2, dtype=np.float64), s=0.1).kernel.scalars == (np.dtype("f8"),)


def gelu(x: Any, coefficient: float) -> Any:
    return 0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + coefficient * x**3)))


def piecewise(x: Any, y: Any) -> Any:
    if x > y:
        return 1
    z = x + y
    return z if z > 0 else 0


def test_a_function_that_returns_is_a_map() -> None:
    made = lowered(gelu, x=zeros(4), coefficient=0.1)
    assert made.style == "map" and made.arrays == (("return",), ("x",))
    result, x = zeros(40), floats(40)
    made = lowered(piecewise, x=x, y=x)
    assert str(made.kernel.arrays[0].dtype) == "float32"
    made = lowered(piecewise, x=zeros(4, dtype="int32"), y=zeros(4, dtype="int8"))
    assert str(made.kernel.arrays[0].dtype) == "int32"
    assert result.size == 40


def test_text_left_of_the_function() -> None:
    def kernel(c: Any) -> None:
        """Adds.
        Left of everything.
        """
        i = get_global_id(0)
        c[i] = "é" == "é", i + 1 / "é"  # type: ignore[operator]

    with pytest.raises(KernelError) as caught:
        lowered(kernel, c=zeros(3))
    span = caught.value.span
    assert span is not None and span.text[span.start : span.end] == '1 / "é"'


def test_options_reach_the_kernel() -> None:
    kernel = lowered(
        vector_add, Options(optimize=False, pipeline_depth=2), c=zeros(3), a=zeros(3), b=zeros(3)
    ).kernel
    assert (kernel.optimize, kernel.depth, kernel.block) == (False, 2, ())
