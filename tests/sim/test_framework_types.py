"""float16 and bfloat16 of kernels: conversions round once, arithmetic is that of built-in types."""

from __future__ import annotations

import ctypes

import ml_dtypes
import numpy as np
import pytest

from pyasc.backend.ascend import chip
from pyasc.backend.sim.simulator import Module, Simulator

SOURCE = """#include "kernel_operator.h"
using namespace AscendC;

template <typename T>
void widen(GM_ADDR x, GM_ADDR y, int n) {
    T* from = reinterpret_cast<T*>(x);
    float* to = reinterpret_cast<float*>(y);
    for (int i = 0; i < n; ++i) to[i] = from[i];
}

template <typename T, typename From>
void narrow(GM_ADDR x, GM_ADDR y, int n) {
    From* from = reinterpret_cast<From*>(x);
    T* to = reinterpret_cast<T*>(y);
    for (int i = 0; i < n; ++i) to[i] = static_cast<T>(from[i]);
}

extern "C" __global__ __aicore__ void half_to_float(GM_ADDR x, GM_ADDR y, int n) {
    widen<half>(x, y, n);
}
extern "C" __global__ __aicore__ void bfloat16_to_float(GM_ADDR x, GM_ADDR y, int n) {
    widen<bfloat16_t>(x, y, n);
}
extern "C" __global__ __aicore__ void float_to_half(GM_ADDR x, GM_ADDR y, int n) {
    narrow<half, float>(x, y, n);
}
extern "C" __global__ __aicore__ void float_to_bfloat16(GM_ADDR x, GM_ADDR y, int n) {
    narrow<bfloat16_t, float>(x, y, n);
}
extern "C" __global__ __aicore__ void double_to_half(GM_ADDR x, GM_ADDR y, int n) {
    narrow<half, double>(x, y, n);
}
extern "C" __global__ __aicore__ void int_to_half(GM_ADDR x, GM_ADDR y, int n) {
    narrow<half, int32_t>(x, y, n);
}

extern "C" __global__ __aicore__ void arithmetic(GM_ADDR x, GM_ADDR y, GM_ADDR z, int n) {
    half* a = reinterpret_cast<half*>(x);
    half* b = reinterpret_cast<half*>(y);
    half* out = reinterpret_cast<half*>(z);
    static_assert(std::is_same_v<decltype(a[0] + b[0]), half>);
    static_assert(std::is_same_v<decltype(a[0] * 2), half>);
    static_assert(std::is_same_v<decltype(a[0] + 1.0f), float>);
    static_assert(std::is_same_v<decltype(1.0 - a[0]), double>);
    for (int i = 0; i < n; ++i) {
        out[5 * i] = a[i] + b[i];
        out[5 * i + 1] = a[i] - b[i];
        out[5 * i + 2] = a[i] * b[i];
        out[5 * i + 3] = a[i] / b[i];
        out[5 * i + 4] = half((a[i] < b[i]) + 2 * (a[i] == b[i]) + 4 * (a[i] >= 0) + 8 * (a[i] != b[i]));
    }
}
"""


@pytest.fixture(scope="module")
def module() -> Module:
    return Simulator(chip.load("910B1"), None).compile(SOURCE, "types")


def run(module: Module, kernel: str, *arrays: np.ndarray, count: int) -> None:
    module.run(1, [*arrays, ctypes.c_int(count)], kernel=kernel, check=False)


def same_bits(given: np.ndarray, expected: np.ndarray) -> bool:
    with np.errstate(invalid="ignore"):
        nan = np.isnan(expected.astype(np.float64))
    bits = np.dtype(f"u{expected.dtype.itemsize}")
    with np.errstate(invalid="ignore"):
        same = np.array_equal(np.isnan(given.astype(np.float64)), nan)
    return bool(same and np.array_equal(given.view(bits)[~nan], expected.view(bits)[~nan]))


@pytest.mark.parametrize(
    ("kernel", "dtype"), [("half_to_float", np.float16), ("bfloat16_to_float", ml_dtypes.bfloat16)]
)
def test_every_narrow_value_widens(module: Module, kernel: str, dtype: type) -> None:
    values = np.arange(65536, dtype=np.uint16).view(dtype)
    wide = np.zeros(values.size, np.float32)
    run(module, kernel, values, wide, count=values.size)
    assert same_bits(wide, values.astype(np.float32))


@pytest.mark.parametrize(
    ("kernel", "dtype"), [("float_to_half", np.float16), ("float_to_bfloat16", ml_dtypes.bfloat16)]
)
def test_float_rounds_to_nearest_even(module: Module, kernel: str, dtype: type) -> None:
    bits = np.random.default_rng(1).integers(0, 2**32, 200_000, np.uint32)
    narrow = np.arange(65536, dtype=np.uint16).view(dtype).astype(np.float32)
    with np.errstate(all="ignore"):
        between = (narrow[:-1].astype(np.float64) + narrow[1:]).astype(np.float32) / 2  # the ties
        beside = [np.nextafter(between, np.float32(s * np.inf)) for s in (-1, 1)]
        values = np.concatenate([bits.view(np.float32), narrow, between, *beside]).astype(np.float32)
        expected = values.astype(dtype)
    given = np.zeros(values.size, dtype)
    run(module, kernel, values, given, count=values.size)
    assert same_bits(given, expected)


def test_double_and_int_round_once(module: Module) -> None:
    tie = 1 + 2.0**-11
    values = np.array(
        [tie, np.nextafter(tie, 2), np.nextafter(tie, 0), -tie, 65519.999999999, 65520.0, 2.0**-25, 1e-30]
    )
    given = np.zeros(values.size, np.float16)
    run(module, "double_to_half", values, given, count=values.size)
    with np.errstate(over="ignore"):
        assert same_bits(given, values.astype(np.float16))
    integers = np.array([0, -1, 2049, 2051, 65519, 65520, -70000, 2**31 - 1, -(2**31)], np.int32)
    given = np.zeros(integers.size, np.float16)
    run(module, "int_to_half", integers, given, count=integers.size)
    with np.errstate(over="ignore"):
        assert same_bits(given, integers.astype(np.float64).astype(np.float16))


def test_arithmetic_and_comparisons(module: Module) -> None:
    bits = np.random.default_rng(2).integers(0, 65536, (2, 4000), np.uint16)
    a, b = bits.view(np.float16)
    out = np.zeros((a.size, 5), np.float16)
    run(module, "arithmetic", np.ascontiguousarray(a), np.ascontiguousarray(b), out, count=a.size)
    with np.errstate(all="ignore"):
        for n, expected in enumerate([a + b, a - b, a * b, a / b]):
            assert same_bits(np.ascontiguousarray(out[:, n]), expected)
    flags = (a < b) + 2 * (a == b) + 4 * (a >= 0) + 8 * (a != b)
    assert np.array_equal(out[:, 4], flags.astype(np.float16))
