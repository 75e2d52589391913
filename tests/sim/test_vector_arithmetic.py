"""Elementwise instructions against NumPy: every dtype, every form."""

# ruff: noqa: E501 (kernels in C++)
from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import pytest
from vector_kernels import (
    BITS,
    COUNT,
    TYPES,
    Array,
    Form,
    Kernels,
    bits_of,
    each_form,
    operands,
    same,
    with_dtype,
)

ARITHMETIC = ("int16_t", "half", "int32_t", "float")
FLOATS = ("half", "float")
SHIFTED = ("int16_t", "uint16_t", "int32_t", "uint32_t")

BINARY = {
    **dict.fromkeys(("Add", "Sub", "Mul", "Max", "Min"), ARITHMETIC),
    "Div": FLOATS,
    "And": ("int16_t", "uint16_t"),
    "Or": ("int16_t", "uint16_t"),
    "AddRelu": ("int16_t", "half", "float"),
    "SubRelu": ("int16_t", "half", "float"),
    "MulAddDst": FLOATS,
    "FusedMulAdd": FLOATS,
    "FusedMulAddRelu": FLOATS,
    "MulAddRelu": FLOATS,
}
SCALAR = {
    **dict.fromkeys(("Adds", "Muls", "Maxs", "Mins"), ARITHMETIC),
    "LeakyRelu": FLOATS,
    "ShiftLeft": SHIFTED,
    "ShiftRight": SHIFTED,
    "Axpy": FLOATS,
}
UNARY = {
    **dict.fromkeys(("Exp", "Ln", "Sqrt", "Rsqrt", "Reciprocal", "Abs"), FLOATS),
    "Relu": ("half", "int32_t", "float"),
    "Not": ("int16_t", "uint16_t"),
}
MIXED = ("MulAddDst", "Axpy")  # a float destination of half sources

STRIDES2 = "{(uint8_t)p.dst_block, (uint8_t)p.src0_block, (uint8_t)p.src1_block, (uint8_t)p.dst_repeat, (uint8_t)p.src0_repeat, (uint8_t)p.src1_repeat}"
STRIDES1 = "{(uint16_t)p.dst_block, (uint16_t)p.src0_block, (uint8_t)p.dst_repeat, (uint8_t)p.src0_repeat}"


def forms_of(call: str, arguments: str, types: str, strides: str) -> str:
    """One call for each form; `types` are the template arguments before isSetMask."""
    wide = types.split(",")[0]
    return f"""
    uint64_t mask[2] = {{p.mask[0], p.mask[1]}};
    uint8_t repeats = (uint8_t)p.repeats;
    switch (p.form) {{
        case 0: {call}({arguments}, p.count); break;
        case 1: {call}({arguments}, (uint64_t)p.count, repeats, {strides}); break;
        case 2: {call}({arguments}, mask, repeats, {strides}); break;
        case 3:
            SetVectorMask<{wide}>(p.mask[1], p.mask[0]);
            {call}<{types}, false>({arguments}, MASK_PLACEHOLDER, repeats, {strides});
            ResetMask();
            break;
        default:
            SetMaskCount();
            {call}({arguments}, (uint64_t)p.count, repeats, {strides});
            SetMaskNorm();
            ResetMask();
    }}"""


def bodies() -> dict[str, str]:
    found = {}
    for name, types in BINARY.items():
        for t in types:
            template = f"{t}, {t}" if name == "MulAddDst" else t
            found[f"{name}_{t}"] = operands(t, t, t) + forms_of(name, "d, a, b", template, STRIDES2)
    for name, types in UNARY.items():
        for t in types:
            found[f"{name}_{t}"] = operands(t, t, t) + forms_of(name, "d, a", t, STRIDES1)
    for name, types in SCALAR.items():
        for t in types:
            template = f"{t}, {t}" if name == "Axpy" else t
            found[f"{name}_{t}"] = operands(t, t, t) + forms_of(
                name, f"d, a, scalar_of<{t}>(p)", template, STRIDES1
            )
    found["MulAddDst_mixed"] = operands("half", "half", "float") + forms_of(
        "MulAddDst", "d, a, b", "float, half", STRIDES2
    )
    found["Axpy_mixed"] = operands("half", "half", "float") + forms_of(
        "Axpy", "d, a, scalar_of<half>(p)", "float, half", STRIDES1
    )
    for t in ("int16_t", "int32_t"):
        found[f"ShiftRightRound_{t}"] = operands(t, t, t) + (
            f"ShiftRight(d, a, scalar_of<{t}>(p), (uint64_t)32, 2, {{1, 1, 8, 8}}, true);"
        )
    found["AddDeqRelu"] = operands("int32_t", "int32_t", "half") + (
        "SetDeqScale(scalar_of<half>(p)); AddDeqRelu(d, a, b, p.count);"
    )
    for name in ("AddReluCast", "SubReluCast"):
        for t, to in (("half", "int8_t"), ("int16_t", "int8_t"), ("float", "half")):
            found[f"{name}_{t}"] = operands(t, t, to) + f"{name}(d, a, b, p.count);"
    for to in ("int8_t", "uint8_t"):
        found[f"MulCast_{to}"] = operands("half", "half", to) + "MulCast(d, a, b, p.count);"
    found["many"] = operands("float", "float", "float") + "Add<float, false>(d, a, b, 1, 1, {});".replace(
        "{}", "BinaryRepeatParams()"
    )
    return found


@pytest.fixture(scope="module")
def kernels() -> Kernels:
    return Kernels(bodies())


def maximum(a: Array, b: Array) -> Array:
    return np.maximum(a, b)


def relu(a: Array) -> Array:
    return np.maximum(a, np.zeros((), a.dtype))


def fused(x: Array, y: Array, z: Array) -> Array:
    """x y + z rounded once."""
    with np.errstate(all="ignore"):
        if z.dtype == np.float16:
            return (x.astype(np.float64) * y.astype(np.float64) + z.astype(np.float64)).astype(z.dtype)
        wide = np.longdouble
        return (x.astype(wide) * y.astype(wide) + z.astype(wide)).astype(z.dtype)


def wide(function: Callable[[Array], Array], a: Array) -> Array:
    """Computed with more bits, then rounded; NumPy's way from long double to float16 rounds twice."""
    with np.errstate(all="ignore"):
        return function(a.astype(np.float64 if a.dtype == np.float16 else np.longdouble)).astype(a.dtype)


def expected_binary(name: str, d: Array, a: Array, b: Array) -> Array:
    with np.errstate(all="ignore"):
        match name:
            case "Add":
                return a + b
            case "Sub":
                return a - b
            case "Mul":
                return a * b
            case "Div":
                return a / b
            case "Max":
                return np.maximum(a, b)
            case "Min":
                return np.minimum(a, b)
            case "And":
                return a & b
            case "Or":
                return a | b
            case "AddRelu":
                return relu(a + b)
            case "SubRelu":
                return relu(a - b)
            case "MulAddDst":
                return fused(a, b, d)
            case "FusedMulAdd":
                return fused(a, d, b)
            case _:
                return relu(fused(a, d, b))


def expected_unary(name: str, a: Array) -> Array:
    with np.errstate(all="ignore"):
        match name:
            case "Exp":
                return wide(np.exp, a)
            case "Ln":
                return wide(np.log, a)
            case "Sqrt":
                return np.sqrt(a)
            case "Rsqrt":
                return wide(lambda x: 1 / np.sqrt(x), a)
            case "Reciprocal":
                return (np.ones((), a.dtype) / a).astype(a.dtype)
            case "Abs":
                return np.abs(a)
            case "Relu":
                return relu(a)
            case _:
                return ~a


def expected_scalar(name: str, d: Array, a: Array, s: Array) -> Array:
    with np.errstate(all="ignore"):
        match name:
            case "Adds":
                return a + s
            case "Muls":
                return a * s
            case "Maxs":
                return np.maximum(a, s)
            case "Mins":
                return np.minimum(a, s)
            case "LeakyRelu":
                return np.where(a >= 0, a, a * s)
            case "ShiftLeft":
                return a << s
            case "ShiftRight":
                return a >> s
            case _:
                return fused(a, np.broadcast_to(s, a.shape), d)


def cases(table: dict[str, tuple[str, ...]]) -> list[tuple[str, str]]:
    return [(name, t) for name, types in table.items() for t in types]


@functools.cache
def arrays(t: str) -> tuple[Array, Array, Array]:
    dtype = TYPES[t]
    return with_dtype(dtype, 2048, 1), with_dtype(dtype, 2048, 2), with_dtype(dtype, 2048, 3)


@pytest.mark.parametrize(("name", "t"), cases(BINARY))
def test_binary(kernels: Kernels, name: str, t: str) -> None:
    a, b, d = arrays(t)
    per_repeat = 256 // a.itemsize
    for form in each_form(per_repeat):
        to, i, j = (form.index(k, a.itemsize, per_repeat) for k in range(3))
        expected = d.copy()
        # A destination that stays in place is written repeat by repeat.
        for start in range(0, to.size, max(1, to.size // form.repeats)):
            part = slice(start, start + max(1, to.size // form.repeats))
            expected[to[part]] = expected_binary(name, expected[to[part]], a[i[part]], b[j[part]])
        same(kernels.run(f"{name}_{t}", a, b, d, form), expected)


@pytest.mark.parametrize(("name", "t"), cases(UNARY))
def test_unary(kernels: Kernels, name: str, t: str) -> None:
    a, _, d = arrays(t)
    per_repeat = 256 // a.itemsize
    for form in each_form(per_repeat):
        to, i = (form.index(k, a.itemsize, per_repeat) for k in range(2))
        expected = d.copy()
        expected[to] = expected_unary(name, a[i])
        same(kernels.run(f"{name}_{t}", a, a, d, form), expected)


SCALARS = {"half": 0.3, "float": -1.7, "int16_t": -7, "int32_t": 100003, "uint16_t": 3, "uint32_t": 5}


@pytest.mark.parametrize(("name", "t"), cases(SCALAR))
def test_scalar(kernels: Kernels, name: str, t: str) -> None:
    a, _, d = arrays(t)
    per_repeat = 256 // a.itemsize
    s = np.array(3 if name.startswith("Shift") else SCALARS[t]).astype(a.dtype)
    for form in each_form(per_repeat):
        to, i = (form.index(k, a.itemsize, per_repeat) for k in range(2))
        expected = d.copy()
        expected[to] = expected_scalar(name, d[to], a[i], s)
        same(kernels.run(f"{name}_{t}", a, a, d, form, bits_of(s, a.dtype)), expected)


@pytest.mark.parametrize("name", MIXED)
def test_a_wide_sum_of_narrow_products(kernels: Kernels, name: str) -> None:
    a, b = with_dtype(np.float16, 2048, 1), with_dtype(np.float16, 2048, 2)
    d = with_dtype(np.float32, 2048, 3)
    s = np.float16(0.3)
    strided = Form(BITS, 0, 2, (0x0F0F0F0F0F0F0F0F, 0), blocks=(1, 1, 1), steps=(8, 4, 4))
    for form in (*(Form(COUNT, n) for n in (1, 63, 64, 65, 257, 1000)), strided):
        to, i, j = (form.index(k, size, 64) for k, size in ((0, 4), (1, 2), (2, 2)))
        expected = d.copy()
        with np.errstate(all="ignore"):
            second = b[j] if name == "MulAddDst" else np.broadcast_to(s, i.shape)
            expected[to] += a[i].astype(np.float32) * second.astype(np.float32)
        same(kernels.run(f"{name}_mixed", a, b, d, form, bits_of(s, np.float16)), expected)


@pytest.mark.parametrize("t", ["half", "float"])
def test_exp_ln_and_roots_of_every_half_and_many_floats(kernels: Kernels, t: str) -> None:
    if t == "half":
        values = np.arange(65536, dtype=np.uint16).view(np.float16)
    else:
        random = np.random.default_rng(5)
        values = random.integers(0, 2**32, 65536, dtype=np.uint32).view(np.float32)
        values[::2] = (random.random(32768) * 180 - 100).astype(np.float32)
    for name in ("Exp", "Ln", "Sqrt", "Rsqrt", "Reciprocal"):
        for part in np.array_split(values, 8):
            found = kernels.run(f"{name}_{t}", part, part[:32], part, Form(COUNT, part.size))
            same(found, expected_unary(name, part))


@pytest.mark.parametrize("bits", [0, 1, 5, 15])
@pytest.mark.parametrize("t", ["int16_t", "int32_t"])
def test_shift_right_rounded(kernels: Kernels, t: str, bits: int) -> None:
    a = with_dtype(TYPES[t], 512, 4)
    per_repeat = 256 // a.itemsize
    index = Form(1, 32, 2).index(1, a.itemsize, per_repeat)
    expected = a.copy()
    half = (1 << bits) >> 1
    expected[index] = (a[index].astype(np.int64) + half >> bits).astype(a.dtype)
    same(kernels.run(f"ShiftRightRound_{t}", a, a, a, scalar=bits), expected)


@pytest.mark.parametrize("count", [1, 100, 128, 500])
def test_add_deq_relu(kernels: Kernels, count: int) -> None:
    random = np.random.default_rng(6)
    a, b = (random.integers(-50000, 50000, 512, dtype=np.int32) for _ in range(2))
    d = np.zeros(512, np.float16)
    scale = np.float16(0.37)
    expected = d.copy()
    expected[:count] = relu(((a + b)[:count].astype(np.float64) * np.float64(scale)).astype(np.float16))
    same(kernels.run("AddDeqRelu", a, b, d, Form(COUNT, count), bits_of(scale, np.float16)), expected)


@pytest.mark.parametrize("name", ["AddReluCast", "SubReluCast"])
@pytest.mark.parametrize(("t", "to"), [("half", "int8_t"), ("int16_t", "int8_t"), ("float", "half")])
def test_add_relu_cast(kernels: Kernels, name: str, t: str, to: str) -> None:
    a, b, _ = arrays(t)
    d = np.zeros(2048, TYPES[to])
    for count in (1, 129, 1000):
        with np.errstate(all="ignore"):
            value = relu(a[:count] + b[:count] if name == "AddReluCast" else a[:count] - b[:count])
            expected = d.copy()
            if to == "half":
                expected[:count] = value.astype(np.float16)
            else:
                whole = value if t == "int16_t" else np.nan_to_num(np.rint(value.astype(np.float32)), nan=0.0)
                expected[:count] = np.clip(whole, -128, 127).astype(np.int8)
        same(kernels.run(f"{name}_{t}", a, b, d, Form(COUNT, count)), expected)


@pytest.mark.parametrize("to", ["int8_t", "uint8_t"])
def test_mul_cast(kernels: Kernels, to: str) -> None:
    a, b, _ = arrays("half")
    d = np.zeros(2048, TYPES[to])
    limits = np.iinfo(TYPES[to])
    with np.errstate(all="ignore"):
        product = np.nan_to_num(np.rint((a * b).astype(np.float32)), nan=0.0)
    expected = np.clip(product, limits.min, limits.max).astype(TYPES[to])
    same(kernels.run(f"MulCast_{to}", a, b, d, Form(COUNT, 2048)), expected)


def test_overflow_gives_infinity(kernels: Kernels) -> None:
    a = np.full(128, 60000, np.float16)
    found = kernels.run("Add_half", a, a, np.zeros_like(a), Form(COUNT, 128))
    assert np.isposinf(found).all()


def test_in_place(kernels: Kernels) -> None:
    """The destination may be a source, at whatever length."""
    a = with_dtype(np.float32, 512, 1)
    body = operands("float", "float", "float") + "Add(d, d, a, p.count); Muls(d, d, 2.0f, p.count);"
    small = Kernels({"in_place": body})
    for count in (1, 8, 63, 64, 500):
        expected = a.copy()
        with np.errstate(all="ignore"):
            expected[:count] = (a[:count] + a[:count]) * 2
        same(small.run("in_place", a, a, a, Form(COUNT, count)), expected)
