"""Bit 48 of the control register: whether float16 and bfloat16 results may be infinite or NaN."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from vector_kernels import COUNT, PREFIX, Array, Form, Kernels, bits_of, operands, same

from pyasc.backend.ascend import chip
from pyasc.backend.ascend.cube import Contraction, CubeSizes, generate
from pyasc.backend.sim.simulator import Simulator

CHIP = chip.load("910B1")
INF, NAN, MOST = float("inf"), float("nan"), 65504.0
SATURATING = "SetSaturationFlag<SaturationMode::FLOAT>(true);"
COUNTED = "(uint32_t)p.count"


def bodies() -> dict[str, str]:
    """Each instruction twice: as the bit is set, and where it is clear."""
    half, single = operands("half", "half", "half"), operands("float", "float", "float")
    plain = {
        **{name: half + f"{name}(d, a, b, {COUNTED});" for name in BINARY},
        **{name: half + f"{name}(d, a, {COUNTED});" for name in UNARY},
        "Muls": half + f"Muls(d, a, scalar_of<half>(p), {COUNTED});",
        "MulAddDst": half + f"MulAddDst(d, a, b, {COUNTED});",
        "Axpy": half + f"Axpy(d, a, scalar_of<half>(p), {COUNTED});",
        "Select": half + f"Duplicate(d, scalar_of<half>(p), {COUNTED}); Or(d.ReinterpretCast<uint16_t>(), "
        f"a.ReinterpretCast<uint16_t>(), b.ReinterpretCast<uint16_t>(), {COUNTED});",
        "float_Add": single + f"Add(d, a, b, {COUNTED});",
        "float_Div": single + f"Div(d, a, b, {COUNTED});",
        "float_half": operands("float", "float", "half") + f"Cast(d, a, (RoundMode)p.extra, {COUNTED});",
        "float_bfloat16_t": operands("float", "float", "bfloat16_t")
        + f"Cast(d, a, (RoundMode)p.extra, {COUNTED});",
        "half_float": operands("half", "half", "float") + f"Cast(d, a, RoundMode::CAST_NONE, {COUNTED});",
        "dequantised": operands("int32_t", "int32_t", "half")
        + f"SetDeqScale(scalar_of<half>(p)); Cast(d, a, RoundMode::CAST_NONE, {COUNTED});",
        "block_sum": half + "BlockReduceSum(d, a, 1, p.count, 1, 1, 8);",
        "whole_sum": half + "WholeReduceSum(d, a, p.count, 1, 1, 1, 8);",
        "whole_max": half + "WholeReduceMax(d, a, p.count, 1, 1, 1, 8, ReduceOrder::ORDER_ONLY_VALUE);",
    }
    return plain | {f"saturating_{name}": SATURATING + body for name, body in plain.items()}


@pytest.fixture(scope="module")
def kernels() -> Kernels:
    return Kernels(bodies())


def half(*values: float) -> Array:
    return np.array(values, np.float16)


def run(
    kernels: Kernels,
    name: str,
    a: Array,
    b: Array | None = None,
    d: Array | None = None,
    scalar: int = 0,
    form: Form | None = None,
) -> tuple[Array, Array]:
    """What is left where the bit is set, and where it is clear."""
    b = a if b is None else b
    d = np.zeros_like(a) if d is None else d
    form = form or Form(COUNT, a.size)
    found = [kernels.run(prefix + name, a, b, d, form, scalar) for prefix in ("", "saturating_")]
    return found[0], found[1]


BINARY = {
    "Add": ((60000, 60000, -INF, INF), (60000, -60000, 1, -INF), (INF, 0, -INF, NAN)),
    "Sub": ((60000, 60000, -INF, INF), (-60000, 60000, 1, INF), (INF, 0, -INF, NAN)),
    "Mul": ((300, -300, 0, 2), (300, 300, INF, 3), (INF, -INF, NAN, 6)),
    "Div": ((1, -1, 0, 6), (0, 0, 0, 3), (INF, -INF, NAN, 2)),
    "Max": ((1, NAN, INF, -INF), (2, 1, 0, -INF), (2, NAN, INF, -INF)),
    "Min": ((1, NAN, INF, -INF), (2, 1, 0, 0), (1, NAN, 0, -INF)),
}
UNARY = {
    "Exp": ((20, -INF, NAN, 0), (INF, 0, NAN, 1)),
    "Ln": ((0, -1, INF, 1), (-INF, NAN, INF, 0)),
    "Abs": ((-INF, NAN, -3, 65504), (INF, NAN, 3, 65504)),
    "Reciprocal": ((0, 2, INF, NAN), (INF, 0.5, 0, NAN)),
    "Sqrt": ((-1, INF, 4, 0), (NAN, INF, 2, 0)),
}


def finite(values: Array) -> Array:
    """What saturation makes of them."""
    most = float(ml_dtypes.finfo(values.dtype).max)
    return np.nan_to_num(values.astype(np.float64), nan=0, posinf=most, neginf=-most).astype(values.dtype)


def both(found: tuple[Array, Array], expected: Array) -> None:
    assert not np.isfinite(expected.astype(np.float32)).all()
    same(found[0], expected)
    same(found[1], finite(expected))


@pytest.mark.parametrize("name", BINARY)
def test_two_operands(kernels: Kernels, name: str) -> None:
    a, b, expected = (half(*values) for values in BINARY[name])
    both(run(kernels, name, a, b), expected)


@pytest.mark.parametrize("name", UNARY)
def test_one_operand(kernels: Kernels, name: str) -> None:
    a, expected = (half(*values) for values in UNARY[name])
    both(run(kernels, name, a), expected)


def test_with_a_scalar_and_with_the_destination(kernels: Kernels) -> None:
    a, d, two = half(40000, -40000, NAN, 1), half(60000, -60000, 0, 1), bits_of(2, np.float16)
    both(run(kernels, "Muls", a, scalar=two), half(INF, -INF, NAN, 2))
    both(run(kernels, "Axpy", a, d=d, scalar=two), half(INF, -INF, NAN, 3))
    both(run(kernels, "MulAddDst", a, half(1, 1, 1, 1), d), half(INF, -INF, NAN, 2))


def test_bits_are_not_arithmetic(kernels: Kernels) -> None:
    values = half(INF, -INF, NAN, 1)
    for found in run(kernels, "Select", values):
        assert found.tobytes() == values.tobytes()


def test_float32_stays(kernels: Kernels) -> None:
    a, b = np.array([3e38, -3e38, INF, 1], np.float32), np.array([3e38, -3e38, -INF, 0], np.float32)
    for found in run(kernels, "float_Add", a, b):
        same(found, np.array([INF, -INF, NAN, 1], np.float32))
    for found in run(kernels, "float_Div", a, b):
        same(found, np.array([1, 1, NAN, INF], np.float32))


ROUNDINGS = {"RINT": 1, "FLOOR": 2, "CEIL": 3, "ROUND": 4, "TRUNC": 5}


@pytest.mark.parametrize("mode", ROUNDINGS)
@pytest.mark.parametrize("to", ["half", "bfloat16_t"])
def test_casts_to_narrow_types(kernels: Kernels, mode: str, to: str) -> None:
    dtype = np.dtype(np.float16 if to == "half" else ml_dtypes.bfloat16)
    most = np.float32(ml_dtypes.finfo(dtype).max)
    above = np.float32(1e30) if to == "half" else np.finfo(np.float32).max
    a = np.array([above, -above, INF, -INF, NAN, most, 1.5], np.float32)
    up, down = (mode in ("RINT", "ROUND", only) for only in ("CEIL", "FLOOR"))
    expected = np.array([INF if up else most, -INF if down else -most, INF, -INF, NAN, most, 1.5]).astype(
        dtype
    )
    form = Form(COUNT, a.size, extra=ROUNDINGS[mode])
    both(run(kernels, f"float_{to}", a, d=np.zeros(a.size, dtype), form=form), expected)


def test_casts_from_narrow_types_stay(kernels: Kernels) -> None:
    a = half(INF, -INF, NAN, MOST)
    for found in run(kernels, "half_float", a, d=np.zeros(4, np.float32)):
        same(found, a.astype(np.float32))


def test_integers_to_float16(kernels: Kernels) -> None:
    a = np.array([70000, -70000, 1, 60000], np.int32)
    found = run(kernels, "dequantised", a, d=np.zeros(4, np.float16), scalar=bits_of(1, np.float16))
    both(found, half(INF, -INF, 1, 60000))


def test_sums_saturate_as_they_go(kernels: Kernels) -> None:
    """The documented example: 60000 + 60000 is 65504, to which -29900 is added."""
    a = np.zeros(128, np.float16)
    a[:4] = 60000, 60000, -30000, 100
    d = np.zeros(16, np.float16)
    found = run(kernels, "block_sum", a, d=d, form=Form(PREFIX, 128))
    total = np.float16(MOST) + np.float16(-29900)
    assert found[0][0] == INF and found[1][0] == total
    found = run(kernels, "whole_sum", a, d=d, form=Form(PREFIX, 128))
    assert found[0][0] == INF and found[1][0] == total
    a[:4] = 1, INF, 3, 2
    found = run(kernels, "whole_max", a, d=d, form=Form(PREFIX, 128))
    assert found[0][0] == INF and found[1][0] == MOST


OUT = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32}


@pytest.mark.parametrize("out", OUT)
def test_products_of_matrices(out: str) -> None:
    """Generated kernels set the bit; without that line the cube and Fixpipe saturate."""
    dtype = np.dtype(OUT[out])
    made = generate(Contraction(4, 3, 2, dtype=out if out != "float32" else "float16", out=out), CHIP)
    rows = np.array([[256, 0], [-256, 0], [INF, 0], [0, 0]]) if out == "float16" else np.array(
        [[3e38, 0], [-3e38, 3e38], [INF, 0], [1, 1]]
    )  # fmt: skip
    columns = np.array([[256, 0, 1], [0, 1, 0]])
    with np.errstate(all="ignore"):
        a, b = (x.astype(dtype if out != "float32" else np.float16) for x in (rows, columns))
    with np.errstate(all="ignore"):
        expected = (a.astype(np.float32) @ b.astype(np.float32)).astype(dtype)
    line = next(x for x in made.source.splitlines() if "set_ctrl" in x)
    blocks, tiling, _ = made.bind(CubeSizes(4, 3, 2))
    found = []
    for source in (made.source, made.source.replace(line, "")):
        c = np.zeros((4, 3), dtype)
        Simulator(CHIP, None).compile(source, made.name).run(blocks, [a, b, c, tiling], cores="cube")
        found.append(c)
    both((found[0], found[1]), expected)


SWITCH = """#include "kernel_operator.h"
using namespace AscendC;
extern "C" __global__ __aicore__ void switches(GM_ADDR out)
{
    GlobalTensor<int32_t> found;
    found.SetGlobalBuffer((__gm__ int32_t*)out, 16);
    int32_t n = 0;
    auto now = [&]() { found.SetValue(n++, GetSaturationFlag<SaturationMode::FLOAT>()); };
    now();
    SetSaturationFlag<SaturationMode::FLOAT>(false);
    now();
    AscendCUtils::SetOverflow(0);
    now();
    AscendCUtils::SetOverflow(1);
    now();
    ResetCtrlSpr<48, 48>();
    now();
    SetCtrlSpr<48, 48>(1);
    now();
    set_ctrl(sbitset0(get_ctrl(), 48));
    now();
    set_ctrl(sbitset1(get_ctrl(), 48));
    now();
}
"""


def test_all_ways_to_set_it() -> None:
    out = np.full(16, -1, np.int32)
    Simulator(CHIP, None).compile(SWITCH, "switches").run(1, [out])
    assert out[:8].tolist() == [1, 0, 1, 0, 1, 0, 1, 0]
