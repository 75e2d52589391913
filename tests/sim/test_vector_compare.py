"""Compare and Select in every mode and form."""

# ruff: noqa: E501 (kernels in C++)
from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from vector_kernels import COUNT, TYPES, Array, Form, Kernels, bits_of, operands, same, with_dtype

COMPARISONS: dict[str, Callable[[Array, Array], Array]] = {
    "LT": np.less,
    "GT": np.greater,
    "EQ": np.equal,
    "LE": np.less_equal,
    "GE": np.greater_equal,
    "NE": np.not_equal,
}
BINARY = (
    "{1, (uint8_t)p.src0_block, (uint8_t)p.src1_block, 8, (uint8_t)p.src0_repeat, (uint8_t)p.src1_repeat}"
)
UNARY = "{1, (uint16_t)p.src0_block, 8, (uint8_t)p.src0_repeat}"
SELECT = (
    "{(uint8_t)p.dst_block, (uint8_t)p.src0_block, (uint8_t)p.src1_block, "
    "(uint8_t)p.dst_repeat, (uint8_t)p.src0_repeat, (uint8_t)p.src1_repeat}"
)


def bodies() -> dict[str, str]:
    found = {}
    for t in ("half", "float", "int32_t"):
        found[f"Compare_{t}"] = operands(t, t, "uint8_t") + (
            "CMPMODE mode = (CMPMODE)p.extra;"
            "if (p.form == 0) Compare(d, a, b, mode, (uint32_t)p.count);"
            f"else Compare(d, a, b, mode, (uint64_t)3, (uint8_t)p.repeats, {BINARY});"
        )
        for name in ("CompareScalar", "Compares"):
            found[f"{name}_{t}"] = operands(t, t, "int8_t") + (
                "CMPMODE mode = (CMPMODE)p.extra;"
                f"if (p.form == 0) {name}(d, a, scalar_of<{t}>(p), mode, (uint32_t)p.count);"
                f"else {name}(d, a, scalar_of<{t}>(p), mode, (uint64_t)3, (uint8_t)p.repeats, {UNARY});"
            )
    for t in ("half", "float"):
        found[f"mask_{t}"] = operands(t, t, "uint8_t") + (
            "auto zero = tensors.at<uint16_t>(147456, 32); Duplicate(zero, (uint16_t)0, 16); PipeBarrier<PIPE_V>();"
            "SetCmpMask(zero); PipeBarrier<PIPE_V>();"
            "uint64_t mask[2] = {p.mask[0], p.mask[1]};"
            f"Compare(a, b, (CMPMODE)p.extra, mask, {BINARY}); PipeBarrier<PIPE_V>(); GetCmpMask(d);"
        )
        # src0 in a, the selection's bits at the front of b, src1 behind them.
        parts = operands(t, "uint8_t", t) + f"auto src1 = tensors.at<{t}>(49152 + 1024, nb - 1024);"
        found[f"Select_{t}"] = parts + (
            "uint64_t mask[2] = {p.mask[0], p.mask[1]}; SELMODE mode = (SELMODE)p.extra;"
            "if (p.form == 0) Select(d, b, a, src1, mode, (uint32_t)p.count);"
            f"else Select(d, b, a, src1, mode, mask, (uint8_t)p.repeats, {SELECT});"
        )
        found[f"SelectScalar_{t}"] = parts + (
            "uint64_t mask[2] = {p.mask[0], p.mask[1]}; auto mode = SELMODE::VSEL_TENSOR_SCALAR_MODE;"
            f"if (p.form == 0) Select(d, b, a, scalar_of<{t}>(p), mode, (uint32_t)p.count);"
            f"else Select(d, b, a, scalar_of<{t}>(p), mode, mask, (uint8_t)p.repeats, {SELECT});"
        )
        found[f"register_bits_{t}"] = parts + (
            f"SetCmpMask(b); PipeBarrier<PIPE_V>(); SetVectorMask<{t}>(p.mask[1], p.mask[0]);"
            f"Select<{t}, SELMODE::VSEL_CMPMASK_SPR>(d, a, src1, (uint8_t)p.repeats, {SELECT});"
        )
        found[f"register_scalar_{t}"] = parts + (
            f"SetCmpMask(src1); PipeBarrier<PIPE_V>(); SetVectorMask<{t}>(p.mask[1], p.mask[0]);"
            f"Select<{t}, uint8_t>(d, b, a, (uint8_t)p.repeats, {SELECT});"
        )
        found[f"register_address_{t}"] = parts + (
            "auto address = tensors.at<uint64_t>(147456, 32);"
            "for (int i = 0; i < 4; ++i) address.SetValue(i, (uint64_t)b.GetPhyAddr());"
            f"PipeBarrier<PIPE_ALL>(); SetCmpMask(address); PipeBarrier<PIPE_V>(); SetVectorMask<{t}>(p.mask[1], p.mask[0]);"
            f"Select<{t}, SELMODE::VSEL_TENSOR_TENSOR_MODE>(d, a, src1, (uint8_t)p.repeats, {SELECT});"
        )
    return found


@pytest.fixture(scope="module")
def kernels() -> Kernels:
    return Kernels(bodies())


def packed(flags: Array) -> Array:
    return np.packbits(flags, bitorder="little")


COMPARABLE = [*((t, mode) for t in ("half", "float") for mode in COMPARISONS), ("int32_t", "EQ")]


@pytest.mark.parametrize(("t", "mode"), COMPARABLE)
def test_compare(kernels: Kernels, t: str, mode: str) -> None:
    a, b = with_dtype(TYPES[t], 2048, 1), with_dtype(TYPES[t], 2048, 2)
    b[::5] = a[::5]
    per_repeat = 256 // a.itemsize
    extra = list(COMPARISONS).index(mode)
    for count in (per_repeat, 2 * per_repeat, 8 * per_repeat):
        wanted = np.full(256, 0xAA, np.uint8)
        wanted[: count // 8] = packed(COMPARISONS[mode](a[:count], b[:count]))
        found = kernels.run(
            f"Compare_{t}", a, b, np.full(256, 0xAA, np.uint8), Form(COUNT, count, extra=extra)
        )
        np.testing.assert_array_equal(found, wanted)
    # The mask plays no part; the results of repeats follow one another.
    form = Form(1, per_repeat, 3, blocks=(1, 2, 1), steps=(8, 16, 9), extra=extra)
    i, j = (form.index(k, a.itemsize, per_repeat) for k in (1, 2))
    wanted = np.zeros(256, np.uint8)
    wanted[: 3 * per_repeat // 8] = packed(COMPARISONS[mode](a[i], b[j]))
    np.testing.assert_array_equal(kernels.run(f"Compare_{t}", a, b, np.zeros(256, np.uint8), form), wanted)


@pytest.mark.parametrize("name", ["CompareScalar", "Compares"])
@pytest.mark.parametrize(("t", "mode"), COMPARABLE)
def test_compare_scalar(kernels: Kernels, name: str, t: str, mode: str) -> None:
    a = with_dtype(TYPES[t], 1024, 1)
    s = a[5]
    a[::4] = s
    per_repeat = 256 // a.itemsize
    extra = list(COMPARISONS).index(mode)
    for form in (
        Form(COUNT, 1024, extra=extra),
        Form(1, per_repeat, 2, blocks=(1, 2, 1), steps=(8, 16, 8), extra=extra),
    ):
        i = form.index(1, a.itemsize, per_repeat)
        wanted = np.zeros(128, np.uint8)
        wanted[: i.size // 8] = packed(COMPARISONS[mode](a[i], s))
        found = kernels.run(f"{name}_{t}", a, a, np.zeros(128, np.uint8), form, bits_of(s, a.dtype))
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("t", ["half", "float"])
def test_compare_into_the_mask(kernels: Kernels, t: str) -> None:
    a, b = with_dtype(TYPES[t], 256, 1), with_dtype(TYPES[t], 256, 2)
    lanes = 256 // a.itemsize
    mask = (0xFF00FF00FF00FF0F, 0x0F0F if lanes > 64 else 0)
    bits = mask[0] | mask[1] << 64
    flags = np.zeros(128, bool)
    for lane in range(lanes):
        flags[lane] = bool(bits >> lane & 1) and bool(a[lane] > b[lane])
    wanted = np.zeros(128, np.uint8)
    wanted[:16] = packed(flags)
    found = kernels.run(f"mask_{t}", a, b, np.zeros(128, np.uint8), Form(2, 0, 1, mask, extra=1))
    np.testing.assert_array_equal(found, wanted)


def selection(t: str) -> tuple[Array, Array, Array, Array]:
    """src0, src1, the bits and both of them as the kernel wants them."""
    a, c = with_dtype(TYPES[t], 1024, 1), with_dtype(TYPES[t], 1024, 2)
    bits = np.random.default_rng(3).integers(0, 256, 128, dtype=np.uint8)
    front = np.zeros(1024, np.uint8)
    front[:128] = bits
    return a, c, bits, np.concatenate([front, c.view(np.uint8)])


@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("t", ["half", "float"])
def test_select(kernels: Kernels, t: str, mode: int) -> None:
    scalar = mode == 1
    a, c, bits, b = selection(t)
    s = TYPES[t](2.5)
    d = with_dtype(TYPES[t], 1024, 4)
    lanes = 256 // a.itemsize
    flags = np.unpackbits(bits, bitorder="little").astype(bool)
    forms = [Form(COUNT, count, extra=mode) for count in (1, 7, lanes - 1, lanes, lanes + 3, 257, 600)]
    mask = (0xF0F0F0F0_0F0F0F0F, 0xFF if lanes > 64 else 0)
    forms += [
        Form(2, 0, 3, mask, steps=(9, 8, 8), extra=mode),
        Form(2, 0, 2, mask, (1, 2, 1), (8, 16, 8), mode),
    ]
    for form in forms:
        to, i, j = (form.index(k, a.itemsize, lanes) for k in range(3))
        chosen = np.array([(0 if mode == 0 else r * lanes) + lane for r, lane in form.lanes(lanes)])
        wanted = d.copy()
        wanted[to] = np.where(flags[chosen], a[i], s if scalar else c[j])
        found = kernels.run(f"Select{'Scalar' if scalar else ''}_{t}", a, b, d, form, bits_of(s, a.dtype))
        same(found, wanted)


@pytest.mark.parametrize("kind", ["bits", "scalar", "address"])
@pytest.mark.parametrize("t", ["half", "float"])
def test_select_by_the_register(kernels: Kernels, t: str, kind: str) -> None:
    a, c, bits, b = selection(t)
    d = with_dtype(TYPES[t], 1024, 4)
    lanes = 256 // a.itemsize
    flags = np.unpackbits(bits, bitorder="little").astype(bool)
    form = Form(2, 0, 3, (0xFFFF0000FFFF0000, 0xF if lanes > 64 else 0))
    index = form.index(0, a.itemsize, lanes)
    chosen = np.array([(0 if kind == "bits" else r * lanes) + lane for r, lane in form.lanes(lanes)])
    wanted = d.copy()
    wanted[index] = np.where(flags[chosen], a[index], c[0] if kind == "scalar" else c[index])
    same(kernels.run(f"register_{kind}_{t}", a, b, d, form), wanted)
