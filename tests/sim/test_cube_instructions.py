"""The cube core's instructions one by one: layouts, dtypes, conversions, and what they refuse."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from pyasc.backend.ascend import chip
from pyasc.backend.sim.simulator import Finding, Module, Simulator

Array = npt.NDArray[Any]
CHIP = chip.load("910B1")

HEAD = """#include "kernel_operator.h"
using namespace AscendC;
template <typename T> GlobalTensor<T> global(GM_ADDR a) {
    GlobalTensor<T> g; g.SetGlobalBuffer(reinterpret_cast<T*>(a)); return g;
}
struct Numbers { int32_t v[12]; };
inline void order() { PipeBarrier<PIPE_ALL>(); }
"""


@functools.cache
def compiled(source: str) -> Module:
    return Simulator(CHIP, None).compile(HEAD + source, "instruction")


def run(source: str, *arguments: Any, numbers: tuple[int, ...] = (), kernel: str | None = None) -> None:
    passed = [*arguments, bytes((ctypes.c_int32 * 12)(*numbers))] if numbers else [*arguments]
    compiled(source).run(1, passed, cores="cube", kernel=kernel)


# --- GM → L1 ----------------------------------------------------------------------------------------------

ND_TO_NZ = "".join(
    f"""
extern "C" __global__ __aicore__ void nz_{name}(GM_ADDR from, GM_ADDR to, Numbers n) {{
    LocalTensor<{ctype}> l1(TPosition::A1, 0, 65536 / sizeof({ctype}));
    Fill(l1.ReinterpretCast<int16_t>(), InitConstValueParams<int16_t>(1, 2048, 0, 0x1111));
    PipeBarrier<PIPE_MTE2>();
    const int32_t* v = n.v;
    DataCopy(l1, global<{ctype}>(from), Nd2NzParams(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]));
    order();
    DataCopy(global<{ctype}>(to), l1, 65536 / sizeof({ctype}));
}}
"""
    for name, ctype in (("b8", "int8_t"), ("b16", "half"), ("b32", "float"))
)


@pytest.mark.parametrize(("name", "dtype"), [("b8", np.int8), ("b16", np.uint16), ("b32", np.uint32)])
@pytest.mark.parametrize(
    "fields",
    [
        (1, 16, 32, 0, 32, 16, 1, 0),
        (1, 13, 21, 0, 40, 16, 1, 0),  # columns that do not fill a block: zeros
        (3, 5, 9, 100, 20, 8, 2, 1024),  # several matrices, rows apart
        (2, 1, 70, 0, 1, 16, 1, 32),  # the first matrix twice
    ],
)
def test_nd_to_nz(name: str, dtype: Any, fields: tuple[int, ...]) -> None:
    count, rows, columns, matrix, pitch, block_stride, row_stride, nz_matrix = fields
    size = np.dtype(dtype).itemsize
    c0 = 32 // size
    source = np.random.default_rng(1).integers(0, 100, 4096).astype(dtype)
    out = np.zeros(65536 // size, dtype)
    run(ND_TO_NZ, source, out, numbers=fields, kernel=f"nz_{name}")
    expected = np.full(32768, 0x1111, np.uint16).view(dtype).copy()
    for i in range(count):
        for r in range(rows):
            line = np.zeros(-(-columns // c0) * c0, dtype)
            start = i * matrix + r * pitch
            line[:columns] = source[start : start + columns]
            for b in range(len(line) // c0):
                at = i * nz_matrix + (b * block_stride + r * row_stride) * c0
                expected[at : at + c0] = line[b * c0 : (b + 1) * c0]
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize(
    "fields", [(0, 4, 4, 0, 4, 16, 1, 0), (1, 0, 4, 0, 4, 16, 1, 0), (1, 4, 0, 0, 4, 16, 1, 0)]
)
def test_nd_to_nz_of_nothing(fields: tuple[int, ...]) -> None:
    out = np.zeros(65536, np.int8)
    run(ND_TO_NZ, np.zeros(64, np.int8), out, numbers=fields, kernel="nz_b8")
    assert (out == 0x11).all()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ((5000, 4, 4, 0, 4, 16, 1, 0), "ndNum"),
        ((1, 20000, 4, 0, 4, 16, 1, 0), "nValue"),
        ((1, 4, 4, 0, 0, 16, 1, 0), "srcDValue"),
        ((1, 4, 4, 0, 4, 0, 1, 0), "dstNzC0Stride"),
    ],
)
def test_nd_to_nz_refuses(fields: tuple[int, ...], message: str) -> None:
    with pytest.raises(Finding, match=message) as caught:
        run(ND_TO_NZ, np.zeros(64, np.int8), np.zeros(65536, np.int8), numbers=fields, kernel="nz_b8")
    assert caught.value.kind == "argument" and caught.value.line


# --- A product, by each way into L0 -----------------------------------------------------------------------

WAYS = """
template <typename T, typename C> void finish(GM_ADDR out, LocalTensor<C> c, int m, int n, int rows) {
    order();
    FixpipeParamsV220 fix; fix.nSize = n; fix.mSize = m; fix.srcStride = rows; fix.dstStride = n;
    Fixpipe<C, C, CFG_ROW_MAJOR>(global<C>(out), c, fix);
}
// m, n, k; how A and B get into L0.
template <typename T, typename C, int wayA, int wayB>
void product(GM_ADDR a, GM_ADDR b, GM_ADDR out, Numbers p) {
    constexpr int c0 = std::is_same_v<T, int4b_t> ? 64 : 32 / sizeof(T);
    constexpr int pack = std::is_same_v<T, int4b_t> ? 2 : 1;
    const int m = p.v[0], n = p.v[1], k = p.v[2];
    const auto up = [](int x, int u) { return (x + u - 1) / u * u; };
    LocalTensor<T> a1(TPosition::A1, 0, 131072 / sizeof(T)), b1(TPosition::B1, 131072, 131072 / sizeof(T));
    LocalTensor<T> a2(TPosition::A2, 0, 65536 / sizeof(T)), b2(TPosition::B2, 0, 65536 / sizeof(T));
    LocalTensor<C> c(TPosition::CO1, 0, 16384);
    const int ku = 64;
    // A: m × k (ways 0, 1) or k × m; B: n × k (way 0) or k × n.
    if (wayA <= 1) DataCopy(a1, global<T>(a), Nd2NzParams(1, m, k / pack, 0, k / pack, up(m, 16), 1, 0));
    else DataCopy(a1, global<T>(a), Nd2NzParams(1, k, m / pack, 0, m / pack, up(k, ku), 1, 0));
    if (wayB == 0) DataCopy(b1, global<T>(b), Nd2NzParams(1, n, k / pack, 0, k / pack, up(n, 16), 1, 0));
    else DataCopy(b1, global<T>(b), Nd2NzParams(1, k, n / pack, 0, n / pack, up(k, ku), 1, 0));
    order();
    const int kb = up(k, c0) / c0, mb = up(m, 16) / 16, nb = up(n, 16) / 16;
    bool aligned = false;
    if constexpr (wayA == 0) {
        for (int i = 0; i < mb; ++i)
            LoadData(a2[i * kb * 16 * c0], a1[i * 16 * c0], LoadData2DParams(0, kb, mb, 0, 0, false, 0));
    } else if constexpr (wayA == 1 || wayA == 2) {
        if constexpr (!std::is_same_v<T, int4b_t>) {
            LoadData3DParamsV2<T> l;
            l.l1H = 1; l.l1W = wayA == 1 ? up(m, 16) : up(k, ku); l.enTranspose = wayA == 2;
            l.channelSize = l.kExtension = wayA == 1 ? up(k, c0) : up(m, c0);
            l.mExtension = wayA == 1 ? up(m, 16) : up(k, 16);
            LoadData(a2, a1, l);
            aligned = wayA == 2 && sizeof(T) == 4;
        }
    } else {  // squares
        const int side = sizeof(T) == 1 ? 32 : 16, f = sizeof(T) == 1 ? 2 : 1;
        const int ks = up(k, side) / side;
        for (int i = 0; i < up(m, side) / side; ++i)
            LoadDataWithTranspose(a2[i * ks * side * side], a1[i * up(k, ku) * c0],
                                  LoadData2dTransposeParams(0, ks, 1, 0, f == 2 ? ks - 1 : 0));
    }
    int columns = n;
    if constexpr (wayB == 0) {
        LoadData(b2, b1, LoadData2DParams(0, kb * nb, 1, 0, 0, false, 0));
    } else if constexpr (wayB == 1) {
        if constexpr (!std::is_same_v<T, int4b_t>) {
            LoadData3DParamsV2<T> l;
            l.l1H = 1; l.l1W = up(k, ku); l.channelSize = l.kExtension = up(n, c0); l.mExtension = up(k, 16);
            LoadData(b2, b1, l);
        }
    } else if constexpr (wayB == 2) {  // fractals transposed one by one
        for (int i = 0; i < up(k, 16) / 16; ++i)
            LoadData(b2[i * nb * 256], b1[i * 256], LoadData2DParams(0, nb, up(k, ku) / 16, 0, 0, true, 0));
    } else {
        const int f = std::is_same_v<T, int4b_t> ? 4 : sizeof(T) == 1 ? 2 : 1, side = 16 * f;
        for (int i = 0; i < up(k, side) / side; ++i)
            LoadDataWithTranspose(b2[i * up(n, side) * c0], b1[i * side * c0],
                LoadData2dTransposeParams(0, up(n, side) / side, up(k, ku) / side, f - 1, 0));
        columns = up(n, side);
    }
    order();
    MmadParams q; q.m = m; q.n = columns; q.k = k; q.kDirectionAlign = aligned;
    Mmad(c, a2, b2, q);
    finish<T, C>(out, c, m, n, mb * 16);
}
"""
# The kernel's name, the types of the operands and of the result, the ways of A and of B.
EACH_WAY = [
    ("half_00", "half", "float", 0, 0),
    ("half_11", "half", "float", 1, 1),
    ("half_22", "half", "float", 2, 2),
    ("half_33", "half", "float", 3, 3),
    ("bfloat_21", "bfloat16_t", "float", 2, 1),
    ("float_00", "float", "float", 0, 0),
    ("float_11", "float", "float", 1, 1),
    ("float_21", "float", "float", 2, 1),
    ("int8_00", "int8_t", "int32_t", 0, 0),
    ("int8_13", "int8_t", "int32_t", 1, 3),
    ("int8_33", "int8_t", "int32_t", 3, 3),
    ("int4_00", "int4b_t", "int32_t", 0, 0),
    ("int4_03", "int4b_t", "int32_t", 0, 3),
]
WAYS += "".join(
    f'extern "C" __global__ __aicore__ void {name}(GM_ADDR a, GM_ADDR b, GM_ADDR c, Numbers p) '
    f"{{ product<{operand}, {result}, {a}, {b}>(a, b, c, p); }}\n"
    for name, operand, result, a, b in EACH_WAY
)
DTYPES: dict[str, Any] = {"half": np.float16, "bfloat": ml_dtypes.bfloat16, "float": np.float32}


def packed(values: Array) -> Array:
    """int4, two to a byte, the first in the low half."""
    return ((values[..., ::2] & 15) | (values[..., 1::2] << 4)).astype(np.int8)


@pytest.mark.parametrize("name", [way[0] for way in EACH_WAY])
@pytest.mark.parametrize("sizes", [(16, 16, 64), (32, 48, 64), (30, 40, 70), (17, 34, 18), (64, 64, 128)])
def test_ways_into_l0(name: str, sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    kind, ways = name.split("_")
    rng = np.random.default_rng(m + n + k)
    if kind == "int4":
        values = [rng.integers(-8, 8, s).astype(np.int8) for s in ((m, k), (n, k))]
    elif kind == "int8":
        values = [rng.integers(-128, 128, s).astype(np.int8) for s in ((m, k), (n, k))]
    else:
        values = [rng.integers(-8, 8, s).astype(DTYPES[kind]) for s in ((m, k), (n, k))]
    expected = values[0].astype(np.float64) @ values[1].astype(np.float64).T
    a = values[0] if ways[0] in "01" else values[0].T
    b = values[1] if ways[1] == "0" else values[1].T
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    if kind == "int4":
        a, b = packed(a), packed(b)
    out = np.zeros((m, n), np.int32 if kind.startswith("int") else np.float32)
    run(WAYS, a, b, out, numbers=(m, n, k), kernel=name)
    np.testing.assert_array_equal(out, expected)


# --- LoadData 3D as a convolution -------------------------------------------------------------------------

CONVOLUTION = """
extern "C" __global__ __aicore__ void conv(GM_ADDR image, GM_ADDR filters, GM_ADDR out, Numbers p) {
    const int h = p.v[0], w = p.v[1], kh = p.v[2], kw = p.v[3];
    const int stride = p.v[4], dilation = p.v[5], pad = p.v[6];
    const int oh = (h + 2 * pad - (kh - 1) * dilation - 1) / stride + 1;
    const int ow = (w + 2 * pad - (kw - 1) * dilation - 1) / stride + 1;
    const int m = oh * ow, k = 16 * kh * kw, rows = (m + 15) / 16 * 16;
    LocalTensor<half> a1(TPosition::A1, 0, 32768), b1(TPosition::B1, 65536, 32768);
    LocalTensor<half> a2(TPosition::A2, 0, 32768), b2(TPosition::B2, 0, 32768);
    LocalTensor<float> c(TPosition::CO1, 0, 16384);
    DataCopy(a1, global<half>(image), h * w * 16);
    DataCopy(b1, global<half>(filters), Nd2NzParams(1, 16, k, 0, k, 16, 1, 0));
    order();
    const uint8_t pads[4] = {uint8_t(pad), uint8_t(pad), uint8_t(pad), uint8_t(pad)};
    if (p.v[7]) {
        SetFmatrix(h, w, pads, FmatrixMode::FMATRIX_LEFT);
        SetLoadDataPaddingValue(half(2.0f));
        LoadData3DParamsV2Pro l; l.channelSize = 16;
        l.extConfig = uint64_t(m) << 16 | uint64_t(k);
        l.filterConfig = uint64_t(dilation) << 40 | uint64_t(dilation) << 32 | uint64_t(kh) << 24;
        l.filterConfig |= uint64_t(kw) << 16 | uint64_t(stride) << 8 | uint64_t(stride);
        LoadData(a2, a1, l);
    } else {
        LoadData(a2, a1, LoadData3DParamsV2<half>(pads, h, w, 16, k, m, 0, 0, stride, stride, kw, kh,
                                                  dilation, dilation, false, false, half(2.0f)));
    }
    LoadData(b2, b1, LoadData2DParams(0, k / 16, 1, 0, 0, false, 0));
    order();
    Mmad(c, a2, b2, MmadParams(m, 16, k, 0, false, true));
    order();
    FixpipeParamsV220 fix(16, m, rows, 16, false);
    Fixpipe<float, float, CFG_ROW_MAJOR>(global<float>(out), c, fix);
}
"""


@pytest.mark.parametrize("pro", [0, 1])
@pytest.mark.parametrize(
    "shape", [(6, 5, 1, 1, 1, 1, 0), (8, 8, 3, 3, 1, 1, 1), (9, 7, 2, 3, 2, 1, 2), (9, 9, 3, 3, 1, 2, 2)]
)
def test_convolution(shape: tuple[int, ...], pro: int) -> None:
    h, w, kh, kw, stride, dilation, pad = shape
    rng = np.random.default_rng(3)
    image = rng.integers(-4, 5, (h, w, 16)).astype(np.float16)
    filters = rng.integers(-4, 5, (16, kh, kw, 16)).astype(np.float16)  # channel last in each point
    padded = np.pad(image, ((pad, pad), (pad, pad), (0, 0)), constant_values=2).astype(np.float32)
    oh = (h + 2 * pad - (kh - 1) * dilation - 1) // stride + 1
    ow = (w + 2 * pad - (kw - 1) * dilation - 1) // stride + 1
    expected = np.zeros((oh, ow, 16), np.float32)
    for i in range(oh):
        for j in range(ow):
            window = padded[
                i * stride : i * stride + (kh - 1) * dilation + 1 : dilation,
                j * stride : j * stride + (kw - 1) * dilation + 1 : dilation,
            ]
            expected[i, j] = np.tensordot(filters.astype(np.float32), window, 3)
    out = np.zeros((oh * ow, 16), np.float32)
    run(CONVOLUTION, image, filters.reshape(16, -1), out, numbers=(*shape, pro))
    np.testing.assert_array_equal(out, expected.reshape(-1, 16))


# --- Mmad -------------------------------------------------------------------------------------------------

MMAD = """
// mode 0: plain, 1: bias tensor, 2: bias table by cmatrixSource, 3: added twice, 4: added twice without a
// barrier, 5: added twice under the unit flag, 6: hf32 to zero, 7: hf32 to even
template <typename T> void run_mmad(GM_ADDR a, GM_ADDR b, GM_ADDR bias, GM_ADDR out, Numbers p) {
    const int m = p.v[0], n = p.v[1], k = p.v[2], mode = p.v[3];
    constexpr int c0 = 32 / sizeof(T);
    const int kb = (k + c0 - 1) / c0, rows = (m + 15) / 16 * 16, columns = (n + 15) / 16 * 16;
    LocalTensor<T> a1(TPosition::A1, 0, 32768), b1(TPosition::B1, 131072, 32768);
    LocalTensor<T> a2(TPosition::A2, 0, 16384), b2(TPosition::B2, 0, 16384);
    LocalTensor<float> c1(TPosition::C1, 300 * 1024, 256), c2(TPosition::C2, 0, 256);
    LocalTensor<float> c(TPosition::CO1, 0, 32768);
    if (m == 1) DataCopy(a1, global<T>(a), Nd2NzParams(1, 1, k, 0, k, 1, 1, 0));
    else DataCopy(a1, global<T>(a), Nd2NzParams(1, m, k, 0, k, rows, 1, 0));
    DataCopy(b1, global<T>(b), Nd2NzParams(1, n, k, 0, k, columns, 1, 0));
    DataCopy(c1, global<float>(bias), Nd2NzParams(1, 1, n, 0, n, 1, 1, 0));
    order();
    if (m == 1) LoadData(a2, a1, LoadData2DParams(0, (k * sizeof(T) + 511) / 512, 1, 0, 0, false, 0));
    else for (int i = 0; i < rows / 16; ++i)
        LoadData(a2[i * kb * 16 * c0], a1[i * 16 * c0], LoadData2DParams(0, kb, rows / 16, 0, 0, false, 0));
    LoadData(b2, b1, LoadData2DParams(0, kb * columns / 16, 1, 0, 0, false, 0));
    if (mode == 1 || mode == 2) DataCopy(c2, c1, DataCopyParams(1, (n * 4 + 63) / 64, 0, 0));
    order();
    MmadParams q; q.m = m; q.n = n; q.k = k;
    if (mode == 6 || mode == 7) {
        SetHF32Mode(HF32Mode::ENABLE);
        SetHF32TransMode(mode == 6 ? HF32TransMode::NEAREST_ZERO : HF32TransMode::NEAREST_EVEN);
    }
    if (mode == 1) { q.cmatrixInitVal = false; Mmad(c, a2, b2, c2, q); }
    else if (mode == 2) { q.cmatrixInitVal = false; q.cmatrixSource = true; Mmad(c, a2, b2, q); }
    else if (mode >= 3 && mode <= 5) {
        if (mode == 5) q.unitFlag = 2;
        Mmad(c, a2, b2, q);
        if (mode != 4) PipeBarrier<PIPE_M>();
        q.cmatrixInitVal = false;
        if (mode == 5) q.unitFlag = 3;
        Mmad(c, a2, b2, q);
    } else Mmad(c, a2, b2, q);
    FixpipeParamsV220 fix(n, m, rows, n, false);
    if (mode == 5) fix.unitFlag = 3; else order();
    Fixpipe<float, float, CFG_ROW_MAJOR>(global<float>(out), c, fix);
}
extern "C" __global__ __aicore__ void mmad_half(GM_ADDR a, GM_ADDR b, GM_ADDR bias, GM_ADDR out, Numbers p) {
    run_mmad<half>(a, b, bias, out, p);
}
extern "C" __global__ __aicore__ void mmad_float(GM_ADDR a, GM_ADDR b, GM_ADDR bias, GM_ADDR out, Numbers p) {
    run_mmad<float>(a, b, bias, out, p);
}
"""


def mmad(
    name: str, m: int, n: int, k: int, mode: int, integers: bool = True
) -> tuple[Array, Array, Array, Array]:
    rng = np.random.default_rng(5)
    dtype = np.float16 if name == "mmad_half" else np.float32
    a, b = (
        (rng.integers(-8, 8, s) if integers else rng.standard_normal(s)).astype(dtype)
        for s in ((m, k), (n, k))
    )
    bias, out = rng.integers(-8, 8, n).astype(np.float32), np.zeros((m, n), np.float32)
    run(MMAD, a, b, bias, out, numbers=(m, n, k, mode), kernel=name)
    return a.astype(np.float32), b.astype(np.float32), bias, out


@pytest.mark.parametrize("name", ["mmad_half", "mmad_float"])
@pytest.mark.parametrize("sizes", [(30, 40, 70), (1, 40, 70), (1, 40, 260), (16, 16, 16), (2, 1, 1)])
def test_mmad_of_vectors_and_tails(name: str, sizes: tuple[int, int, int]) -> None:
    """With m of 1 the operand A is a vector as it lies in memory."""
    a, b, _, out = mmad(name, *sizes, 0)
    np.testing.assert_array_equal(out, a @ b.T)


@pytest.mark.parametrize("mode", [1, 2])
def test_mmad_begins_with_a_bias(mode: int) -> None:
    a, b, bias, out = mmad("mmad_half", 30, 40, 70, mode)
    np.testing.assert_array_equal(out, a @ b.T + bias)


@pytest.mark.parametrize("mode", [3, 5])
def test_mmad_adds(mode: int) -> None:
    a, b, _, out = mmad("mmad_half", 30, 40, 70, mode)
    np.testing.assert_array_equal(out, 2 * (a @ b.T))


def test_small_mmads_that_add_need_a_barrier() -> None:
    with pytest.raises(Finding, match="PipeBarrier<PIPE_M>") as caught:
        mmad("mmad_half", 30, 40, 70, 4)
    assert caught.value.kind == "race"
    a, b, _, out = mmad("mmad_half", 64, 64, 64, 4)  # 16 fractals: none is needed
    np.testing.assert_array_equal(out, 2 * (a @ b.T))


def test_sums_are_float32_in_the_order_of_k() -> None:
    a, b, _, out = mmad("mmad_half", 20, 20, 100, 0, integers=False)
    expected = np.zeros((20, 20), np.float32)
    for i in range(100):
        expected += np.outer(a[:, i], b[:, i])
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("mode", [6, 7])
def test_hf32(mode: int) -> None:
    a, b, _, out = mmad("mmad_float", 16, 16, 8, mode, integers=False)

    def rounded(x: Array) -> Array:
        bits = x.view(np.uint32).astype(np.uint64)
        bits += 2047 + ((bits >> 12) & 1) if mode == 7 else 2047
        return (bits & ~np.uint64(4095)).astype(np.uint32).view(np.float32)

    expected = np.zeros((16, 16), np.float32)
    for i in range(8):
        expected += np.outer(rounded(a)[:, i], rounded(b)[:, i])
    np.testing.assert_array_equal(out, expected)


# --- Fixpipe ----------------------------------------------------------------------------------------------

FIXPIPE = """
// A product with the identity brings what is wanted into L0C: whole numbers of int8 or half.
template <typename T, typename C> LocalTensor<C> fill_l0c(GM_ADDR a, GM_ADDR eye, int m) {
    constexpr int c0 = 32 / sizeof(T);
    const int rows = (m + 15) / 16 * 16;
    LocalTensor<T> a1(TPosition::A1, 0, 32768), b1(TPosition::B1, 131072, 32768);
    LocalTensor<T> a2(TPosition::A2, 0, 16384), b2(TPosition::B2, 0, 16384);
    LocalTensor<C> c(TPosition::CO1, 0, 32768);
    DataCopy(a1, global<T>(a), Nd2NzParams(1, m, 64, 0, 64, rows, 1, 0));
    DataCopy(b1, global<T>(eye), Nd2NzParams(1, 64, 64, 0, 64, 64, 1, 0));
    order();
    for (int i = 0; i < rows / 16; ++i)
        LoadData(a2[i * 64 * 16], a1[i * 16 * c0], LoadData2DParams(0, 64 / c0, rows / 16, 0, 0, false, 0));
    LoadData(b2, b1, LoadData2DParams(0, 64 / c0 * 4, 1, 0, 0, false, 0));
    order();
    MmadParams q; q.m = m; q.n = 64; q.k = 64;
    Mmad(c, a2, b2, q);
    order();
    return c;
}
// m, n, dstStride, relu, ndNum, srcNdStride, dstNdStride, split, vector, offset, registers, to L1
template <typename T, typename C, typename D, int mode, bool nz>
void fix(GM_ADDR a, GM_ADDR eye, GM_ADDR scales, GM_ADDR out, Numbers p) {
    const int m = p.v[0], rows = (m + 15) / 16 * 16;
    LocalTensor<C> c = fill_l0c<T, C>(a, eye, m);
    LocalTensor<uint64_t> table(TPosition::C1, 300 * 1024, 64), fb(TPosition::C2PIPE2GM, 0, 64);
    DataCopy(table, global<uint64_t>(scales), DataCopyParams(1, 16, 0, 0));
    order();
    const auto quant = static_cast<QuantMode_t>(mode);
    if (p.v[10]) {
        DataCopy(fb, table, DataCopyParams(1, 4, 0, 0));
        order();
        SetFixPipeConfig(fb);
        SetFixpipePreQuantFlag(global<uint64_t>(scales).GetValue(0));
        SetFixpipeNz2ndFlag(p.v[4], p.v[5], p.v[6]);
        order();
        DataCopyCO12DstParams d(p.v[1], m, p.v[2], rows, quant, p.v[3], p.v[7], !nz);
        DataCopy(global<D>(out), c, d);
        return;
    }
    FixpipeParamsV220 f(p.v[1], m, rows, p.v[2], p.v[3], quant, global<uint64_t>(scales).GetValue(0), p.v[4],
                        p.v[5], p.v[6], 0, p.v[7]);
    constexpr const FixpipeConfig& layout = nz ? CFG_NZ : CFG_ROW_MAJOR;
    if (p.v[11]) {
        LocalTensor<D> l1(TPosition::A1, 0, 32768 / sizeof(D));
        if (p.v[8]) Fixpipe<D, C, layout>(l1, c, table, f); else Fixpipe<D, C, layout>(l1, c, f);
        order();
        DataCopy(global<D>(out), l1, m * 64);
    } else if (p.v[8]) Fixpipe<D, C, layout>(global<D>(out), c, table, f);
    else Fixpipe<D, C, layout>(global<D>(out), c, f);
}
"""
# The kernel's name, the types of the operands, in L0C and in GM, the mode, whether the layout is NZ.
EACH_FIXPIPE = [
    ("float_rows", "half", "float", "float", "NoQuant", "false"),
    ("float_nz", "half", "float", "float", "NoQuant", "true"),
    ("half_rows", "half", "float", "half", "F322F16", "false"),
    ("half_nz", "half", "float", "half", "F322F16", "true"),
    ("bfloat_rows", "half", "float", "bfloat16_t", "F322BF16", "false"),
    ("byte_rows", "half", "float", "int8_t", "QF322B8_PRE", "false"),
    ("byte_nz", "half", "float", "int8_t", "QF322B8_PRE", "true"),
    ("ubyte_rows", "half", "float", "uint8_t", "QF322B8_PRE", "false"),
    ("byte_columns", "half", "float", "int8_t", "VQF322B8_PRE", "false"),
    ("int_rows", "int8_t", "int32_t", "int32_t", "NoQuant", "false"),
    ("int_half", "int8_t", "int32_t", "half", "DEQF16", "false"),
    ("int_half_columns", "int8_t", "int32_t", "half", "VDEQF16", "false"),
    ("int_byte", "int8_t", "int32_t", "int8_t", "REQ8", "false"),
    ("int_byte_columns", "int8_t", "int32_t", "int8_t", "VREQ8", "false"),
    ("wrong", "half", "float", "half", "NoQuant", "false"),
]
FIXPIPE += "".join(
    f'extern "C" __global__ __aicore__ void {name}(GM_ADDR a, GM_ADDR e, GM_ADDR s, GM_ADDR o, Numbers p) '
    f"{{ fix<{operand}, {sums}, {result}, {mode}, {nz}>(a, e, s, o, p); }}\n"
    for name, operand, sums, result, mode, nz in EACH_FIXPIPE
)


def scale(factor: float, offset: int = 0, signed: bool = True, shift: int = 0) -> int:
    bits = int(np.float32(factor).view(np.uint32)) | (offset & 511) << 37 | signed << 46
    return bits | ((shift - 1) << 32 | 1 << 36 if shift else 0)


def fixed(
    name: str, dtype: Any, shape: tuple[int, ...], *, m: int = 30, n: int = 64, stride: int = 64,
    relu: int = 0, nd: tuple[int, int, int] = (1, 0, 0), split: int = 0, scales: list[int] | None = None,
    registers: int = 0, l1: int = 0,
) -> tuple[Array, Array]:  # fmt: skip
    integers = name.startswith("int")
    rng = np.random.default_rng(8)
    values = rng.integers(-100, 100, (m, 64)) if integers else rng.integers(-400, 400, (m, 64)) / 4
    kind = np.int8 if integers else np.float16
    table = np.zeros(64, np.uint64)
    given = scales or [0]
    table[:] = given[0]
    table[: len(given)] = given
    out = np.zeros(shape, dtype)
    vector = len(given) > 1 and not registers
    run(
        FIXPIPE, values.astype(kind), np.eye(64, dtype=kind), table, out,
        numbers=(m, n, stride, relu, *nd, split, int(vector), 0, registers, l1), kernel=name,
    )  # fmt: skip
    return values, out


@pytest.mark.parametrize("relu", [0, 1])
@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("float_rows", np.float32),
        ("half_rows", np.float16),
        ("bfloat_rows", ml_dtypes.bfloat16),
        ("int_rows", np.int32),
    ],
)
@pytest.mark.parametrize("n", [64, 40, 3])
def test_rows(name: str, dtype: Any, relu: int, n: int) -> None:
    values, out = fixed(name, dtype, (30, 70), n=n, stride=70, relu=relu)
    expected = np.zeros((30, 70), dtype)
    expected[:, :n] = (np.maximum(values, 0) if relu else values)[:, :n].astype(dtype)
    np.testing.assert_array_equal(out, expected)


def test_several_matrices_in_rows() -> None:
    values, out = fixed("float_rows", np.float32, (2, 32, 20), m=32, n=16, stride=20, nd=(2, 4, 640))
    # Another matrix begins 4 × 1024 bytes later in L0C: two blocks of 16 columns of 32 rows.
    np.testing.assert_array_equal(out[0, :, :16], values[:, :16])
    np.testing.assert_array_equal(out[1, :, :16], values[:, 32:48])


@pytest.mark.parametrize(
    ("name", "dtype", "l1"),
    [("float_nz", np.float32, 0), ("half_nz", np.float16, 0), ("half_nz", np.float16, 1)],
)
def test_nz(name: str, dtype: Any, l1: int) -> None:
    size = np.dtype(dtype).itemsize
    values, out = fixed(name, dtype, (4, 32, 16), m=32, stride=32 * 16 * size // 32, l1=l1)
    np.testing.assert_array_equal(out, values.reshape(32, 4, 16).transpose(1, 0, 2).astype(dtype))


def test_nz_with_split_channels() -> None:
    values, out = fixed("float_nz", np.float32, (8, 32, 8), m=32, stride=32, split=1)
    np.testing.assert_array_equal(out, values.reshape(32, 8, 8).transpose(1, 0, 2))


def test_bytes_in_nz_merge_channels() -> None:
    values, out = fixed("byte_nz", np.int8, (2 * 32 * 32,), m=32, n=48, stride=32, scales=[scale(1)])
    expected = np.clip(np.round(values), -128, 127).astype(np.int8)
    np.testing.assert_array_equal(out[: 32 * 32].reshape(32, 32), expected[:, :32])
    np.testing.assert_array_equal(out[32 * 32 : 32 * 32 + 512].reshape(32, 16), expected[:, 32:48])


@pytest.mark.parametrize("relu", [0, 1])
@pytest.mark.parametrize("offset", [0, -20, 30])
@pytest.mark.parametrize(
    ("name", "dtype"), [("byte_rows", np.int8), ("ubyte_rows", np.uint8), ("int_byte", np.int8)]
)
def test_quantised_with_one_scale(name: str, dtype: Any, relu: int, offset: int) -> None:
    values, out = fixed(name, dtype, (30, 64), relu=relu, scales=[scale(1.5, offset, dtype is np.int8)])
    scaled = np.where(values < 0, values * (0 if relu else 1.5), values * 1.5)
    info = np.iinfo(dtype)
    np.testing.assert_array_equal(
        out, np.clip(np.clip(np.round(scaled), -256, 255) + offset, info.min, info.max)
    )


def test_requantised_after_a_shift() -> None:
    values, out = fixed("int_byte", np.int8, (30, 64), scales=[scale(2.0, 0, True, 3)])
    np.testing.assert_array_equal(out, np.clip((values.astype(np.int64) >> 3) * 2, -128, 127))


@pytest.mark.parametrize("registers", [0, 1])
@pytest.mark.parametrize(
    ("name", "dtype"),
    [("byte_columns", np.int8), ("int_half_columns", np.float16), ("int_byte_columns", np.int8)],
)
def test_quantised_with_a_scale_for_each_column(name: str, dtype: Any, registers: int) -> None:
    factors = np.arange(1, 65) / 16
    values, out = fixed(name, dtype, (30, 64), scales=[scale(f) for f in factors], registers=registers)
    scaled = values * factors
    expected = scaled.astype(np.float16) if dtype is np.float16 else np.clip(np.round(scaled), -128, 127)
    np.testing.assert_array_equal(out, expected)


def test_dequantised() -> None:
    values, out = fixed("int_half", np.float16, (30, 64), scales=[scale(0.25)])
    np.testing.assert_array_equal(out, values * 0.25)


def test_copies_take_the_layout_from_registers() -> None:
    values, out = fixed(
        "float_rows", np.float32, (2, 32, 20), m=32, n=16, stride=20, nd=(2, 4, 640), registers=1
    )
    np.testing.assert_array_equal(out[1, :, :16], values[:, 32:48])


def test_types_that_do_not_go_together() -> None:
    with pytest.raises(Finding, match="quantPre"):
        fixed("wrong", np.float16, (30, 64))


def test_a_row_stride_of_nothing() -> None:
    with pytest.raises(Finding, match="dstStride"):
        fixed("float_rows", np.float32, (30, 64), stride=0)


# --- What no order or place allows ------------------------------------------------------------------------

FINDINGS = """
extern "C" __global__ __aicore__ void unaligned(GM_ADDR a) {
    LocalTensor<half> l1(TPosition::A1, 0, 4096), l0(TPosition::A2, 256, 4096);
    LoadData(l0, l1, LoadData2DParams(0, 1, 1, 0, 0, false, 0));
}
extern "C" __global__ __aicore__ void misplaced(GM_ADDR a) {
    LocalTensor<half> l0(TPosition::A2, 0, 256), b(TPosition::B2, 0, 256);
    LocalTensor<float> c(TPosition::CO1, 0, 256);
    Mmad(c, b, l0, MmadParams(16, 16, 16, 0, false, true));
}
extern "C" __global__ __aicore__ void unwritten(GM_ADDR a) {
    LocalTensor<half> l0(TPosition::A2, 0, 256), b(TPosition::B2, 0, 256);
    LocalTensor<float> c(TPosition::CO1, 0, 256);
    Mmad(c, l0, b, MmadParams(16, 16, 16, 0, false, true));
}
extern "C" __global__ __aicore__ void unordered(GM_ADDR a) {
    LocalTensor<half> l1(TPosition::A1, 0, 256), l0(TPosition::A2, 0, 256);
    DataCopy(l1, global<half>(a), Nd2NzParams(1, 16, 16, 0, 16, 16, 1, 0));
    LoadData(l0, l1, LoadData2DParams(0, 1, 1, 0, 0, false, 0));
}
extern "C" __global__ __aicore__ void flagless(GM_ADDR a) {
    LocalTensor<float> c(TPosition::CO1, 0, 256);
    FixpipeParamsV220 f(16, 16, 16, 16, false); f.unitFlag = 3;
    Fixpipe<float, float, CFG_ROW_MAJOR>(global<float>(a), c, f);
}
extern "C" __global__ __aicore__ void outside(GM_ADDR a) {
    TPipe pipe; TBuf<TPosition::A1> l1; TBuf<TPosition::A2> l0;
    pipe.InitBuffer(l1, 1024); pipe.InitBuffer(l0, 1024);
    LoadData(l0.Get<half>(), l1.Get<half>(), LoadData2DParams(0, 3, 1, 0, 0, false, 0));
}
extern "C" __global__ __aicore__ void transposed_float(GM_ADDR a) {
    LocalTensor<float> l1(TPosition::A1, 0, 256), l0(TPosition::A2, 0, 256);
    LoadData(l0, l1, LoadData2DParams(0, 1, 1, 0, 0, true, 0));
}
"""


@pytest.mark.parametrize(
    ("kernel", "kind", "words"),
    [
        ("unaligned", "alignment", "multiple of 512"),
        ("misplaced", "position", "L0A"),
        ("unwritten", "uninitialised", "fm"),
        ("unordered", "race", "MTE2_MTE1"),
        ("flagless", "deadlock", "unit flag"),
        ("outside", "bounds", "within the tensor"),
        ("transposed_float", "argument", "16 bits"),
    ],
)
def test_findings(kernel: str, kind: str, words: str) -> None:
    with pytest.raises(Finding, match=words) as caught:
        run(FINDINGS, np.zeros(1024, np.float32), kernel=kernel)
    assert caught.value.kind == kind
    assert "cube core 0 of 1" in str(caught.value) and "instruction.asc:" in str(caught.value)


def test_types_are_checked_when_compiling() -> None:
    source = """
    extern "C" __global__ __aicore__ void k(GM_ADDR a) {
        LocalTensor<half> l0, b; LocalTensor<half> c;
        Mmad(c, l0, b, MmadParams());
    }
    """
    with pytest.raises(Finding, match="Mmad takes half") as caught:
        compiled(source)
    assert caught.value.kind == "compiler"
