"""What the vector unit does not take: each limit broken once, and the finding that names it."""

# ruff: noqa: E501 (kernels in C++)
from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pytest
from vector_kernels import Kernels

from pyasc.backend.ascend import chip
from pyasc.backend.sim.simulator import Finding, Simulator

F = "auto a = tensors.at<float>(0, 4096); auto b = tensors.at<float>(49152, 4096); auto d = tensors.at<float>(98304, 4096); (void)a; (void)b; (void)d;"
H = F.replace("float", "half")


def typed(t: str) -> str:
    return F.replace("float", t)


@dataclass(frozen=True)
class Limit:
    body: str
    kind: str
    message: str


LIMITS = {
    # Operands
    "destination not at a block": Limit(F + "Add(d[1], a, b, 8);", "alignment", r"\[Add\] dst.*32.*"),
    "source not at a block": Limit(H + "Add(d, a, b[3], 8);", "alignment", r"\[Add\] src1.*32"),
    "past the end of a tensor": Limit(F + "Add(d[960], a, b, 65);", "bounds", r"\[Add\] dst"),
    "repeats past the end": Limit(F + "Adds(d, a, 1.0f, 64, 17, {1, 1, 8, 8});", "bounds", r"\[Adds\]"),
    "a tensor not in UB": Limit(F + "LocalTensor<float> c(TPosition::A1, 0, 64); Exp(d, c, 64);", "position", r"\[Exp\] src"),
    "partly overlapping": Limit(F + "Add(a[8], a, b, 64);", "argument", r"\[Add\] .*dst and src0 .*\[32, 288\).*\[0, 256\)"),
    "a later repeat reads the result": Limit(
        F + "Adds(a[64], a, 1.0f, 64, 4, {1, 1, 8, 8});", "argument", r"\[Adds\] .*dst and src "
    ),
    "from narrow to wide in place": Limit(
        F + "Cast(d, d.ReinterpretCast<half>(), RoundMode::CAST_NONE, 64);", "argument", r"\[Cast\] .*dst and src "
    ),
    # Masks, repeats, strides
    "mask": Limit(F + "Add(d, a, b, 65, 1, {1, 1, 1, 8, 8, 8});", "argument", r"mask of 0 to 64 elements.*given 65"),
    "mask of the upper half": Limit(
        F + "uint64_t m[2] = {0, 1}; Add(d, a, b, m, 1, {1, 1, 1, 8, 8, 8});", "argument", r"bits in mask\[0\]"
    ),
    "block stride 0": Limit(F + "Add(d, a, b, 64, 1, {0, 1, 1, 8, 8, 8});", "argument", "dstBlkStride of 1 or more, given 0"),
    "repeats of a reduction": Limit(F + "WholeReduceSum(d, a, 64, 256, 1, 1, 0);", "argument", "repeatTime of 0 to 255, given 256"),
    "stride of a reduction": Limit(F + "WholeReduceSum(d, a, 64, 1, 65536, 1, 8);", "argument", "dstRepStride of 0 to 65535, given 65536"),
    "negative count": Limit(F + "Add(d, a, b, -1);", "argument", "count of 0 or more, given -1"),
    # Dtypes that only a run finds
    "And of int32": Limit(typed("int32_t") + "And(d, a, b, 64);", "dtype", r"\[And\] src0.*given int32"),
    "Not of float": Limit(F + "Not(d, a, 64);", "dtype", r"\[Not\] src.*given float32"),
    "Abs of int16": Limit(typed("int16_t") + "Abs(d, a, 64);", "dtype", r"\[Abs\] src.*given int16"),
    "Duplicate of int8": Limit(typed("int8_t") + "Duplicate(d, (int8_t)1, 64);", "dtype", r"\[Duplicate\] dst.*given int8"),
    "Gather of int64": Limit(typed("int64_t") + "Gather(d, a, b.ReinterpretCast<uint32_t>(), 0u, 8u);", "dtype", r"\[Gather\] dst.*given int64"),
    "Gatherb of half": Limit(H + "Gatherb(d, a, b.ReinterpretCast<uint32_t>(), 1, {1, 8});", "dtype", r"\[Gatherb\] dst.*given float16"),
    "Brcb of int8": Limit(typed("int8_t") + "Brcb(d, a, 1, {1, 8});", "dtype", r"\[Brcb\] dst.*given int8"),
    "Copy of int64": Limit(typed("int64_t") + "Copy(d, a, 32, 1, {1, 1, 8, 8});", "dtype", r"\[Copy\] dst.*given int64"),
    "Transpose of float": Limit(F + "Transpose(d, a);", "dtype", r"\[Transpose\] dst.*given float32"),
    # Each instruction's own
    "shift": Limit(typed("int32_t") + "ShiftLeft(d, a, 33, 64);", "argument", "scalarValue of 0 to 32 bits, given 33"),
    "rounding mode": Limit(
        F + "Cast(d.ReinterpretCast<bfloat16_t>(), a, RoundMode::CAST_NONE, 64);", "argument", "roundMode.*given CAST_NONE"
    ),
    "odd number of int4": Limit(
        H + "Cast(d.ReinterpretCast<int4b_t>(), a, RoundMode::CAST_RINT, 7);", "argument", "even count for int4, given 7"
    ),
    "compare part of a repeat": Limit(
        F + "Compare(d.ReinterpretCast<uint8_t>(), a, b, CMPMODE::LT, 65);", "argument", "multiple of 64.*given 65"
    ),
    "compare int32 for less": Limit(
        typed("int32_t") + "Compare(d.ReinterpretCast<uint8_t>(), a, b, CMPMODE::LT, 64);", "argument", "EQ for int32"
    ),
    "select a tensor by the scalar's mode": Limit(
        F + "Select(d, b.ReinterpretCast<uint8_t>(), a, b, SELMODE::VSEL_TENSOR_SCALAR_MODE, 64);", "argument", "selMode"
    ),
    "select a scalar by the tensor's mode": Limit(
        F + "Select(d, b.ReinterpretCast<uint8_t>(), a, 1.0f, SELMODE::VSEL_TENSOR_TENSOR_MODE, 64);", "argument", "selMode"
    ),
    "result of a block's sum": Limit(F + "BlockReduceSum(d[4], a, 1, 64, 1, 1, 8);", "alignment", r"\[BlockReduceSum\] dst.*32"),
    "result with an index": Limit(F + "WholeReduceMax(d[1], a, 64, 1, 1, 1, 8);", "alignment", r"\[WholeReduceMax\] dst.*8"),
    "scratch of a reduction": Limit(
        F + "auto t = tensors.at<float>(147456, 32); ReduceMax(d, a, t, 1024, true);", "argument", "sharedTmpBuffer of at least"
    ),
    "gather outside of the source": Limit(
        typed("uint32_t") + "Duplicate(b, 8000u, 8); PipeBarrier<PIPE_V>(); Gather(d, a, b, 0u, 8u);", "bounds", r"\[Gather\] src"
    ),
    "gather half an element": Limit(
        typed("uint32_t") + "Duplicate(b, 6u, 8); PipeBarrier<PIPE_V>(); Gather(d, a, b, 0u, 8u);", "argument", "multiple of 4 bytes, given 6"
    ),
    "gather into the source": Limit(
        typed("uint32_t") + "Duplicate(b, 0u, 8); PipeBarrier<PIPE_V>(); Gather(a, a, b, 0u, 8u);", "argument", "src apart from dst"
    ),
    "gather a block's half": Limit(
        typed("uint32_t") + "Duplicate(b, 16u, 8); PipeBarrier<PIPE_V>(); Gatherb(d, a, b, 1, {1, 8});", "argument", "multiple of 32 bytes, given 16"
    ),
    "pattern 0": Limit(
        typed("uint32_t") + "uint64_t n; GatherMask(d, a, (uint8_t)0, false, 0, {1, 1, 8, 0}, n);", "argument", "src1Pattern of 1 to 7, given 0"
    ),
    "pattern of another width": Limit(
        H + "uint64_t n; GatherMask(d, a, b.ReinterpretCast<uint32_t>(), false, 0, {1, 1, 8, 0}, n);", "dtype", "src1Pattern.*uint32"
    ),
    "broadcast over the source": Limit(H + "Brcb(a, a, 1, {1, 8});", "argument", "dst and src not to overlap"),
    "step of a copy": Limit(H + "Copy(d, a, 128, 1, {1, 1, 4096, 8});", "argument", "dstRepeatSize of 0 to 4095, given 4096"),
    "plane of an image": Limit(
        H + "auto t = tensors.at<uint8_t>(147456, 32768); Transpose(d, a, t, TransposeParamsExt(1, 3, 1, 17, TransposeType::TRANSPOSE_NCHW2NHWC));",
        "argument", "multiple of 32 bytes, given 34",
    ),
    "transposition of another kind": Limit(
        H + "auto t = tensors.at<uint8_t>(147456, 32768); Transpose(d, a, t, TransposeParamsExt(1, 3, 1, 16, TransposeType::TRANSPOSE_ND_UB_GM));",
        "argument", "transposeType",
    ),
    "list too long to merge": Limit(
        F + "uint16_t n[4] = {4096, 1, 0, 0}; MrgSortSrcList<float> s(a, b, a, b); MrgSort(d, s, MrgSort4Info(n, false, 3, 1));",
        "argument", "elementLengths of 0 to 4095, given 4096",
    ),
    "lists to merge": Limit(
        F + "uint16_t n[4] = {1, 1, 0, 0}; MrgSortSrcList<float> s(a, b, a, b); MrgSort(d, s, MrgSort4Info(n, false, 5, 1));",
        "argument", "validBit of 3, 7 or 15, given 5",
    ),
    "merge in rounds of lists apart": Limit(
        F + "uint16_t n[4] = {4, 4, 4, 4}; MrgSortSrcList<float> s(a, a[64], a[128], a[192]); MrgSort(d, s, MrgSort4Info(n, false, 15, 2));",
        "argument", "four lists of one length",
    ),
    # Memory
    "scratch of Select": Limit(
        F + "auto kept = tensors.at<float>(188416, 256); Duplicate(kept, 1.0f, 64); PipeBarrier<PIPE_V>();"
        "auto m = b.ReinterpretCast<uint8_t>(); Select(d, m, a, b, SELMODE::VSEL_TENSOR_TENSOR_MODE, 64);"
        "DataCopy(tensors.gd, kept.ReinterpretCast<uint8_t>(), 256);",
        "race", r"byte 188416",
    ),
    "never written": Limit(F + "auto t = tensors.at<float>(147456, 256); Exp(d, t, 64);", "uninitialised", r"\[Exp\] src"),
    "written under a mask only": Limit(
        F + "auto t = tensors.at<float>(147456, 256); Duplicate(t, 1.0f, 32, 1, 1, 8); PipeBarrier<PIPE_V>(); Exp(d, t, 33);",
        "uninitialised", r"\[Exp\] src.*byte 147584",
    ),
}  # fmt: skip

COMPILER = {
    "Add of uint32": "Add(d, a, b, 64);",
    "Exp of uint32": "Exp(d, a, 64);",
    "Adds with a scalar of another type": "LocalTensor<float> f; Adds(f, f, 1, 64);",
    "Cast of half to bfloat16": "LocalTensor<half> h; LocalTensor<bfloat16_t> f; Cast(f, h, RoundMode::CAST_RINT, 64);",
    "WholeReduceSum of uint32": "WholeReduceSum(d, a, 64, 1, 1, 1, 8);",
    "Select of uint32": "Select(d, a, a, b, SELMODE::VSEL_TENSOR_TENSOR_MODE, 64);",
}


def kernel(name: str) -> str:
    return re.sub(r"\W", "_", name)


@pytest.fixture(scope="module")
def kernels() -> Kernels:
    return Kernels({kernel(name): limit.body for name, limit in LIMITS.items()})


@pytest.mark.parametrize("name", LIMITS)
def test_a_limit_is_found(kernels: Kernels, name: str) -> None:
    limit = LIMITS[name]
    zeros = np.zeros(4096, np.uint8)
    error = kernels.fails(kernel(name), zeros, zeros, zeros)
    assert error.kind == limit.kind, error.message
    assert re.search(limit.message, error.message), error.message
    assert error.line is not None
    lines = kernels.source.splitlines()
    assert kernel(name) in lines[error.line - 5] + lines[error.line - 6] + lines[error.line - 7], (
        error.message
    )


@pytest.mark.parametrize("name", COMPILER)
def test_the_compiler_refuses(name: str) -> None:
    source = f"""#include "kernel_operator.h"
using namespace AscendC;
extern "C" __global__ __aicore__ void refused(GM_ADDR x) {{
    LocalTensor<uint32_t> a, b, d;
    {COMPILER[name]}
}}
"""
    with pytest.raises(Finding) as caught:
        Simulator(chip.load("910B1"), None).compile(source, "refused")
    assert caught.value.kind == "compiler"
    assert caught.value.line == 5
