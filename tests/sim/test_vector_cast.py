"""Cast between every pair of dtypes in every rounding mode, and the casts with a scale."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from vector_kernels import COUNT, TYPES, Array, Form, Kernels, bits_of, operands, same, with_dtype

DIRECTED = ("RINT", "FLOOR", "CEIL", "ROUND", "TRUNC")
PAIRS = {
    ("int8_t", "half"): ("NONE",),
    ("uint8_t", "half"): ("NONE",),
    ("int16_t", "half"): (*DIRECTED, "NONE"),
    ("int16_t", "float"): ("NONE",),
    ("half", "int8_t"): (*DIRECTED, "NONE"),
    ("half", "uint8_t"): (*DIRECTED, "NONE"),
    ("half", "int16_t"): DIRECTED,
    ("half", "int32_t"): DIRECTED,
    ("half", "float"): ("NONE",),
    ("bfloat16_t", "int32_t"): DIRECTED,
    ("bfloat16_t", "float"): ("NONE",),
    ("int32_t", "int16_t"): ("NONE",),
    ("int32_t", "float"): (*DIRECTED, "NONE"),
    ("int32_t", "int64_t"): ("NONE",),
    ("float", "int16_t"): DIRECTED,
    ("float", "half"): (*DIRECTED, "ODD", "NONE"),
    ("float", "bfloat16_t"): DIRECTED,
    ("float", "int32_t"): DIRECTED,
    ("float", "float"): DIRECTED,
    ("float", "int64_t"): DIRECTED,
    ("int64_t", "int32_t"): ("NONE",),
    ("int64_t", "float"): DIRECTED,
}
MODES = ("NONE", "RINT", "FLOOR", "CEIL", "ROUND", "TRUNC", "ODD")

STRIDED = "{(uint16_t)p.dst_block, (uint16_t)p.src0_block, (uint8_t)p.dst_repeat, (uint8_t)p.src0_repeat}"


def bodies() -> dict[str, str]:
    found = {}
    for src, dst in PAIRS:
        found[f"Cast_{src}_{dst}"] = operands(src, src, dst) + (
            "RoundMode mode = (RoundMode)p.extra;"
            "if (p.form == 0) Cast(d, a, mode, (uint32_t)p.count);"
            "else { uint64_t mask[2] = {p.mask[0], p.mask[1]};"
            f"Cast(d, a, mode, mask, (uint8_t)p.repeats, {STRIDED}); }}"
        )
    found["to_int4"] = operands("half", "half", "int4b_t") + (
        "auto n = tensors.at<int8_t>(98304, nd).ReinterpretCast<int4b_t>();"
        "Cast(n, a, (RoundMode)p.extra, (uint32_t)p.count);"
    )
    found["from_int4"] = operands("int8_t", "int8_t", "half") + (
        "Cast(d, a.ReinterpretCast<int4b_t>(), RoundMode::CAST_NONE, (uint32_t)p.count);"
    )
    found["dequantised"] = operands("int32_t", "int32_t", "half") + (
        "SetDeqScale(scalar_of<half>(p)); Cast(d, a, RoundMode::CAST_NONE, (uint32_t)p.count);"
    )
    found["CastDeq"] = operands("int32_t", "int32_t", "half") + (
        "SetDeqScale(scalar_of<half>(p)); CastDeq(d, a, (uint32_t)p.count);"
    )
    for to, sign in (("int8_t", "true"), ("uint8_t", "false")):
        for half in ("true", "false"):
            found[f"scalar_{to}_{half}"] = operands("int16_t", "int16_t", to) + (
                f"SetDeqScale(scalar_of<float>(p), (int16_t)p.extra, {sign});"
                f"CastDeq<{to}, int16_t, false, {half}>(d, a, (uint32_t)p.count);"
            )
    found["per_lane"] = operands("int16_t", "float", "int8_t") + (
        "VdeqInfo info; for (int i = 0; i < 16; ++i) { info.vdeqScale[i] = b.GetValue(i);"
        "info.vdeqOffset[i] = (int16_t)(i - 8); info.vdeqSignMode[i] = true; }"
        "auto table = tensors.at<uint64_t>(147456, 128); SetDeqScale(table, info);"
        "PipeBarrier<PIPE_ALL>(); CastDequant<int8_t, int16_t, true, true>(d, a, (uint32_t)p.count);"
    )
    return found


@pytest.fixture(scope="module")
def kernels() -> Kernels:
    return Kernels(bodies())


def rounded(value: Fraction, mode: str) -> int:
    """An integer near a number."""
    low = value.numerator // value.denominator
    if low == value:
        return low
    if mode in ("NONE", "RINT"):
        return round(value)
    if mode == "FLOOR":
        return low
    if mode == "CEIL":
        return low + 1
    if mode == "TRUNC":
        return low if value > 0 else low + 1
    if mode == "ODD":
        return low if low % 2 else low + 1
    distance = value - low
    if distance != Fraction(1, 2):
        return low if distance < Fraction(1, 2) else low + 1
    return low + 1 if value > 0 else low


def to_integer(value: object, dtype: np.dtype, mode: str) -> int:
    number = float(value)  # type: ignore[arg-type]
    limits = np.iinfo(dtype)
    if np.isnan(number):
        return 0
    if np.isinf(number):
        return int(limits.max if number > 0 else limits.min)
    return min(max(rounded(Fraction(number), mode), limits.min), limits.max)


FORMATS = {
    "half": (10, -14, 15),
    "bfloat16_t": (7, -126, 127),
    "float": (23, -126, 127),
}  # fraction, exponents


def to_float(value: int | float, name: str, mode: str) -> float:
    """A float of a format near a number, as an exact Python float."""
    if isinstance(value, float) and not np.isfinite(value):
        return value
    exact = Fraction(value)
    if exact == 0:
        return float(value)
    fraction, lowest, highest = FORMATS[name]
    exponent = exact.numerator.bit_length() - exact.denominator.bit_length()
    if abs(exact) < Fraction(2) ** exponent:
        exponent -= 1
    exponent = max(exponent, lowest)
    unit = Fraction(2) ** (exponent - fraction)
    steps = rounded(exact / unit, mode)
    result = steps * unit
    largest = (2 - Fraction(1, 2**fraction)) * Fraction(2) ** highest
    if abs(result) > largest:
        toward_zero = mode in ("TRUNC", "ODD") or mode == ("FLOOR" if exact > 0 else "CEIL")
        return (
            float(largest if exact > 0 else -largest)
            if toward_zero
            else float(np.copysign(np.inf, float(exact)))
        )
    return float(np.copysign(float(result), float(exact)))


def expected(a: Array, src: str, dst: str, mode: str) -> Array:
    kind = np.dtype(TYPES[dst])
    if src == dst == "float":  # to a whole number
        return np.array(
            [v if not np.isfinite(v) else np.copysign(rounded(Fraction(float(v)), mode), v) for v in a],
            np.float32,
        )
    if kind.kind in "iu":
        if a.dtype.kind in "iu":
            limits = np.iinfo(kind)
            return np.array([min(max(int(v), limits.min), limits.max) for v in a], kind)
        return np.array([to_integer(v, kind, mode) for v in a], kind)
    values = [int(v) if a.dtype.kind in "iu" else float(v) for v in a]
    return np.array([to_float(v, dst, mode) for v in values], np.float64).astype(kind)


def awkward(src: str, dst: str, count: int) -> Array:
    """Values at ties, at the edges of the destination and anywhere."""
    kind = np.dtype(TYPES[src])
    values = with_dtype(kind, count, 11)
    if kind.kind in "iu":
        return values
    random = np.random.default_rng(12)
    if np.dtype(TYPES[dst]).kind in "iu":
        ties = (random.integers(-400, 400, count) / 2).astype(kind)
        edges = np.array([127.5, 128, -128.5, 255.5, 32767.5, -32768.5, 65504, 2.0**31, -(2.0**31), 2.0**63])
        values[::3] = ties[::3]
        with np.errstate(all="ignore"):
            values[1:60:6] = edges.astype(kind)
        return values
    if dst == src:
        values[::3] = (random.integers(-400, 400, count) / 2).astype(kind)[::3]
        return values
    spread = (random.integers(0, 2**11, count) * 2.0 ** random.integers(-36, 6, count)).astype(kind)
    values[::2] = (spread + np.ldexp(np.float32(0.5), random.integers(-30, 2, count)))[::2].astype(kind)
    with np.errstate(over="ignore"):
        values[1:13:2] = np.array([65519, 65520, -65520, 65535, 2.0**-25, 2.0**-26]).astype(kind)
    return values


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_every_mode(kernels: Kernels, pair: tuple[str, str]) -> None:
    src, dst = pair
    a = awkward(src, dst, 512)
    d = np.zeros(512, TYPES[dst])
    for mode in PAIRS[pair]:
        found = kernels.run(f"Cast_{src}_{dst}", a, a, d, Form(COUNT, 512, extra=MODES.index(mode)))
        same(found, expected(a, src, dst, mode), zeros=False)


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_tails_and_masks(kernels: Kernels, pair: tuple[str, str]) -> None:
    src, dst = pair
    a = with_dtype(TYPES[src], 1024, 3)
    d = with_dtype(TYPES[dst], 1024, 4)
    mode = PAIRS[pair][0]
    extra = MODES.index(mode)
    sizes = (np.dtype(TYPES[dst]).itemsize, np.dtype(TYPES[src]).itemsize)
    per_repeat = 256 // max(*sizes, 2)
    blocks = [size * per_repeat // 32 for size in sizes]
    mask = 0x5A5A_F00F_5A5A_F00F & ((1 << min(per_repeat, 64)) - 1)
    forms = [Form(COUNT, count, extra=extra) for count in (1, 3, per_repeat + 1, 257)]
    forms.append(Form(2, 0, 2, (mask, mask if per_repeat > 64 else 0), (1, 1, 1), (*blocks, 0), extra))
    forms.append(Form(2, 0, 3, (mask, 0), (1, 1, 1), (blocks[0] + 1, blocks[1] + 2, 0), extra))
    for form in forms:
        to, i = (form.index(k, size, per_repeat) for k, size in enumerate(sizes))
        wanted = d.copy()
        wanted[to] = expected(a[i], src, dst, mode)
        same(kernels.run(f"Cast_{src}_{dst}", a, a, d, form), wanted)


def test_every_half(kernels: Kernels) -> None:
    """There and back is exact but for which NaN."""
    values = np.arange(65536, dtype=np.uint16).view(np.float16)
    for part in np.array_split(values, 8):
        wide = kernels.run(
            "Cast_half_float", part, part, np.zeros(part.size, np.float32), Form(COUNT, part.size)
        )
        same(wide, part.astype(np.float32))
        back = kernels.run("Cast_float_half", wide, wide, np.zeros_like(part), Form(COUNT, part.size))
        same(back, part, zeros=False)


@pytest.mark.parametrize("mode", ["NONE", "FLOOR", "CEIL", "ROUND", "TRUNC"])
def test_half_to_int4(kernels: Kernels, mode: str) -> None:
    random = np.random.default_rng(1)
    a = (random.integers(-24, 24, 256) / 2).astype(np.float16)
    found = kernels.run("to_int4", a, a, np.zeros(128, np.uint8), Form(COUNT, 200, extra=MODES.index(mode)))
    whole = np.array([min(max(rounded(Fraction(float(v)), mode), -8), 7) for v in a[:200]])
    nibbles = np.zeros(256, np.int64)
    nibbles[:200] = whole & 15
    np.testing.assert_array_equal(found, nibbles[::2] | nibbles[1::2] << 4)


def test_int4_to_half(kernels: Kernels) -> None:
    a = np.random.default_rng(2).integers(0, 256, 64, dtype=np.uint8)
    nibbles = np.stack([a & 15, a >> 4], 1).reshape(-1).astype(np.int8)
    wanted = np.zeros(128, np.float16)
    wanted[:100] = np.where(nibbles >= 8, nibbles - 16, nibbles)[:100]
    same(kernels.run("from_int4", a, a, np.zeros(128, np.float16), Form(COUNT, 100)), wanted)


@pytest.mark.parametrize("name", ["dequantised", "CastDeq"])
def test_int32_to_half_with_a_scale(kernels: Kernels, name: str) -> None:
    a = with_dtype(np.int32, 256, 8)
    scale = np.float16(0.013)
    with np.errstate(over="ignore"):
        wanted = (a.astype(np.float64) * np.float64(scale)).astype(np.float16)
    found = kernels.run(name, a, a, np.zeros(256, np.float16), Form(COUNT, 256), bits_of(scale, np.float16))
    same(found, wanted)


@pytest.mark.parametrize("half", ["true", "false"])
@pytest.mark.parametrize("to", ["int8_t", "uint8_t"])
def test_quantised_by_one_scale(kernels: Kernels, to: str, half: str) -> None:
    a = with_dtype(np.int16, 256, 9)
    limits = np.iinfo(TYPES[to])
    scale, offset = np.float32(0.375), -5
    count = 150
    value = np.rint(a[:count].astype(np.float32) * scale + np.float32(offset))
    wanted = np.zeros((32, 32), TYPES[to])  # half of each block
    place = np.arange(count)
    wanted[place // 16, place % 16 + (0 if half == "true" else 16)] = np.clip(value, limits.min, limits.max)
    found = kernels.run(
        f"scalar_{to}_{half}",
        a,
        a,
        np.zeros(1024, TYPES[to]),
        Form(COUNT, count, extra=offset),
        bits_of(scale, np.float32),
    )
    np.testing.assert_array_equal(found.reshape(32, 32), wanted)


def test_quantised_by_a_scale_for_each_lane(kernels: Kernels) -> None:
    a = with_dtype(np.int16, 128, 10)
    scales = (np.arange(1, 17) / 64).astype(np.float32)
    offsets = np.arange(16) - 8
    value = np.rint(a.astype(np.float32) * np.tile(scales, 8) + np.tile(offsets, 8).astype(np.float32))
    wanted = np.zeros((8, 32), np.int8)
    wanted[:, :16] = np.clip(value, -128, 127).reshape(8, 16)
    found = kernels.run("per_lane", a, scales, np.zeros(256, np.int8), Form(COUNT, 128))
    np.testing.assert_array_equal(found.reshape(8, 32), wanted)


def test_the_reference_rounds_as_numpy_does() -> None:
    values = awkward("float", "half", 512)
    with np.errstate(over="ignore"):
        same(expected(values, "float", "half", "RINT"), values.astype(np.float16))
        same(expected(values, "float", "bfloat16_t", "RINT"), values.astype(ml_dtypes.bfloat16))
