"""DataCopy and DataCopyPad in every direction, slices, padding, atomics."""

# ruff: noqa: E501 (kernels in C++)
from __future__ import annotations

import ctypes
import re

import numpy as np
import pytest
from vector_kernels import TYPES, Array, Form, Kernels, bits_of, padded, same, with_dtype

from pyasc.backend.sim.simulator import Finding

EVERY = (
    "int8_t",
    "uint8_t",
    "int16_t",
    "uint16_t",
    "half",
    "bfloat16_t",
    "int32_t",
    "uint32_t",
    "float",
    "int64_t",
    "uint64_t",
)
ATOMIC = ("int8_t", "int16_t", "half", "bfloat16_t", "int32_t", "float")

# blocks: count in `repeats`, length in `count`, gaps in src0_block and dst_block.
PARAMS = "DataCopyParams how((uint16_t)p.repeats, (uint16_t)p.count, (uint16_t)p.src0_block, (uint16_t)p.dst_block);"
EXTENDED = "DataCopyExtParams how((uint16_t)p.repeats, (uint32_t)p.count, (uint32_t)p.src0_block, (uint32_t)p.dst_block, 0);"


def bodies() -> dict[str, str]:
    found = {}
    for t in EVERY:
        memory = (
            f"GlobalTensor<{t}> from, to; from.SetGlobalBuffer((__gm__ {t}*)x, na / sizeof({t}));"
            f"to.SetGlobalBuffer((__gm__ {t}*)z, nd / sizeof({t})); auto u = tensors.at<{t}>(98304, 49152); auto v = tensors.at<{t}>(0, 49152);"
            f"(void)from; (void)to; (void)v; auto w = tensors.at<{t}>(98304, nd); (void)w;"
        )
        found[f"in_{t}"] = memory + "DataCopy(w, from, (uint32_t)p.count);"
        found[f"in_blocks_{t}"] = memory + PARAMS + "DataCopy(w, from, how);"
        found[f"within_{t}"] = memory + "DataCopy(w, v, (uint32_t)p.count);"
        found[f"within_blocks_{t}"] = memory + PARAMS + "DataCopy(w, v, how);"
        found[f"in_padded_{t}"] = (
            memory
            + EXTENDED
            + (
                f"DataCopyPadExtParams<{t}> pad((bool)(p.form & 1), (uint8_t)p.src0_repeat, (uint8_t)p.src1_repeat, scalar_of<{t}>(p));"
                f"if (p.form & 2) SetPadValue<{t}>(scalar_of<{t}>(p)); DataCopyPad(w, from, how, pad);"
            )
        )
        found[f"in_padded_old_{t}"] = (
            memory
            + PARAMS
            + (
                "DataCopyPadParams pad(true, (uint8_t)p.src0_repeat, (uint8_t)p.src1_repeat, p.scalar); DataCopyPad(w, from, how, pad);"
            )
        )
    return found


# Out of UB: `a` is in UB at byte 0, the kernel stores parts of it in GM itself.
OUT = """
extern "C" __global__ __aicore__ void out_{kind}_{t}(GM_ADDR x, GM_ADDR z, int32_t na, int32_t nd, Parameters p) {{
    TPipe pipe; TBuf<TPosition::VECCALC> ub; pipe.InitBuffer(ub, 196608);
    GlobalTensor<uint8_t> ga; ga.SetGlobalBuffer(x, na);
    DataCopy(ub.GetWithOffset<uint8_t>(na, 0), ga, na); PipeBarrier<PIPE_ALL>();
    GlobalTensor<{t}> to; to.SetGlobalBuffer((__gm__ {t}*)z, nd / sizeof({t}));
    auto u = ub.GetWithOffset<{t}>(na / sizeof({t}), 0);
    {body}
}}
"""


def out_sources() -> str:
    text = ""
    for t in EVERY:
        text += OUT.format(t=t, kind="count", body="DataCopy(to, u, (uint32_t)p.count);")
        text += OUT.format(t=t, kind="blocks", body=PARAMS + "DataCopy(to, u, how);")
        text += OUT.format(t=t, kind="padded", body=EXTENDED + "DataCopyPad(to, u, how);")
    for t in ATOMIC:
        for way in ("Add", "Max", "Min"):
            text += OUT.format(
                t=t,
                kind=f"Atomic{way}",
                body=f"SetAtomic{way}<{t}>();" + EXTENDED + "DataCopyPad(to, u, how); SetAtomicNone();",
            )
    text += OUT.format(
        t="float",
        kind="wrong_atomic",
        body="SetAtomicAdd<half>(); DataCopy(to, u, (uint32_t)p.count); DisableDmaAtomic();",
    )
    text += """
extern "C" __global__ __aicore__ void slices(GM_ADDR x, GM_ADDR z, int32_t, int32_t, Parameters) {
    TPipe pipe; TBuf<TPosition::VECCALC> ub; pipe.InitBuffer(ub, 65536);
    GlobalTensor<float> from, to; from.SetGlobalBuffer((__gm__ float*)x, 3 * 87); to.SetGlobalBuffer((__gm__ float*)z, 3 * 87);
    auto u = ub.GetWithOffset<float>(2 * 48, 0);
    SliceInfo src[] = {{16, 70, 7, 3, 87}, {0, 2, 1, 1, 3}}, dst[] = {{0, 47, 0, 3, 48}, {0, 1, 0, 1, 2}};
    DataCopy(u, from, dst, src, 2); PipeBarrier<PIPE_ALL>();
    DataCopy(to, u, src, dst, 2);
}
extern "C" __global__ __aicore__ void one_slice(GM_ADDR x, GM_ADDR z, int32_t, int32_t, Parameters) {
    TPipe pipe; TBuf<TPosition::VECCALC> ub; pipe.InitBuffer(ub, 65536);
    GlobalTensor<half> from, to; from.SetGlobalBuffer((__gm__ half*)x, 256); to.SetGlobalBuffer((__gm__ half*)z, 256);
    auto u = ub.GetWithOffset<half>(256, 0);
    SliceInfo src[] = {{3, 3 + 16 + 5 + 16 - 1, 5, 1, 256}}, dst[] = {{0, 31, 0, 1, 256}};
    DataCopy(u, from, dst, src); PipeBarrier<PIPE_ALL>();
    DataCopy(to, u, dst, dst);
}
extern "C" __global__ __aicore__ void filled(GM_ADDR x, GM_ADDR z, int32_t, int32_t nd, Parameters p) {
    GlobalTensor<int32_t> to; to.SetGlobalBuffer((__gm__ int32_t*)z, nd / 4);
    if (p.form) InitOutput<int32_t>(to, (uint32_t)p.count, (int32_t)p.scalar);
    else Fill<int32_t>(to[8], (uint64_t)p.count, (int32_t)p.scalar);
}
extern "C" __global__ __aicore__ void undefined_padding(GM_ADDR x, GM_ADDR z, int32_t na, int32_t nd, Parameters p) {
    TPipe pipe; TBuf<TPosition::VECCALC> ub; pipe.InitBuffer(ub, 65536);
    GlobalTensor<float> from, to; from.SetGlobalBuffer((__gm__ float*)x, na / 4); to.SetGlobalBuffer((__gm__ float*)z, nd / 4);
    auto u = ub.GetWithOffset<float>(64, 0);
    DataCopyExtParams how(1, 20, 0, 0, 0); DataCopyPadExtParams<float> pad(false, 0, 3, 0.0f);
    if (p.form) SetPadValue(0.0f);
    DataCopyPad(u, from, how, pad); PipeBarrier<PIPE_ALL>();
    Adds(u, u, 1.0f, 8); PipeBarrier<PIPE_ALL>();
    DataCopy(to, u, 8);
}
extern "C" __global__ __aicore__ void part_of_a_block(GM_ADDR x, GM_ADDR z, int32_t, int32_t nd, Parameters p) {
    TPipe pipe; TBuf<TPosition::VECCALC> ub; pipe.InitBuffer(ub, 65536);
    GlobalTensor<float> to; to.SetGlobalBuffer((__gm__ float*)z, nd / 4);
    auto u = ub.GetWithOffset<float>(64, 0);
    Duplicate(u, 1.0f, p.count); PipeBarrier<PIPE_ALL>();
    DataCopy(to, u, 16);
}
"""
    return text


@pytest.fixture(scope="module")
def kernels() -> Kernels:
    return Kernels(bodies(), out_sources())


def out(
    kernels: Kernels, name: str, a: Array, d: Array, form: Form, scalar: int = 0, blocks: int = 1
) -> Array:
    x, z = padded(a), d.copy()
    sizes = [ctypes.c_int32(x.size), ctypes.c_int32(z.nbytes)]
    kernels.module.run(blocks, [x, z, *sizes, form.parameters(scalar)], kernel=name)
    return z


@pytest.mark.parametrize("t", EVERY)
def test_in(kernels: Kernels, t: str) -> None:
    a, d = with_dtype(TYPES[t], 2048, 1), with_dtype(TYPES[t], 2048, 2)
    per_block = 32 // a.itemsize
    for name in ("in", "within"):
        for blocks in (1, 2, 40):
            count = per_block * blocks
            wanted = d.copy()
            wanted[:count] = a[:count]
            same(kernels.run(f"{name}_{t}", a, a, d, Form(count=count)), wanted)
    for name in ("in_blocks", "within_blocks"):
        # Three pieces of two blocks, one block between them in the source, two in the destination.
        wanted = d.copy().reshape(-1, per_block)
        source = a.reshape(-1, per_block)
        for i in range(3):
            wanted[4 * i : 4 * i + 2] = source[3 * i : 3 * i + 2]
        found = kernels.run(f"{name}_{t}", a, a, d, Form(count=2, repeats=3, blocks=(2, 1, 0)))
        same(found, wanted.reshape(-1))


@pytest.mark.parametrize("t", EVERY)
def test_out(kernels: Kernels, t: str) -> None:
    a, d = with_dtype(TYPES[t], 2048, 1), with_dtype(TYPES[t], 2048, 2)
    per_block = 32 // a.itemsize
    wanted = d.copy()
    wanted[: 3 * per_block] = a[: 3 * per_block]
    same(out(kernels, f"out_count_{t}", a, d, Form(count=3 * per_block)), wanted)
    wanted, source = d.copy().reshape(-1, per_block), a.reshape(-1, per_block)
    for i in range(3):
        wanted[3 * i : 3 * i + 2] = source[4 * i : 4 * i + 2]
    same(
        out(kernels, f"out_blocks_{t}", a, d, Form(count=2, repeats=3, blocks=(1, 2, 0))), wanted.reshape(-1)
    )


@pytest.mark.parametrize("t", EVERY)
def test_out_any_number_of_bytes(kernels: Kernels, t: str) -> None:
    """Pieces start at blocks in UB and where they like in GM."""
    a, d = with_dtype(TYPES[t], 2048, 1), with_dtype(TYPES[t], 2048, 2)
    per_block = 32 // a.itemsize
    for count in (1, per_block - 1, per_block, per_block + 1, 67):
        wanted = d.copy()
        whole = -(-count // per_block) + 1  # a gap of one block
        for i in range(4):
            wanted[i * (count + 3) :][:count] = a[i * whole * per_block :][:count]
        form = Form(count=count * a.itemsize, repeats=4, blocks=(3 * a.itemsize, 1, 0))
        same(out(kernels, f"out_padded_{t}", a, d, form), wanted)


@pytest.mark.parametrize("t", EVERY)
def test_in_with_padding(kernels: Kernels, t: str) -> None:
    a, d = with_dtype(TYPES[t], 2048, 1), np.zeros(2048, TYPES[t])
    per_block = 32 // a.itemsize
    value = np.array(0 if a.itemsize == 8 else 5).astype(a.dtype)
    for count in (1, per_block - 1, per_block, 67):
        for left, right in ((0, 0), (1, 0), (0, per_block - 1), (1, 2)):
            if max(left, right) > per_block:
                continue
            total = -(-(left + count + right) // per_block) * per_block
            # The value comes from the parameters (1) or from SetPadValue (2).
            for form in (1, 2):
                wanted = d.copy()
                for i in range(3):
                    piece = a[i * (count + 2) :][:count]
                    block = np.full(total, value if left or right else piece[0])
                    block[left : left + count] = piece
                    wanted[i * (total + per_block) :][:total] = block
                how = Form(form, count * a.itemsize, 3, blocks=(1, 2 * a.itemsize, 0), steps=(0, left, right))
                same(kernels.run(f"in_padded_{t}", a, a, d, how, bits_of(value, a.dtype)), wanted)


@pytest.mark.parametrize("t", ["half", "float", "int8_t"])
def test_in_with_padding_as_older_headers_have_it(kernels: Kernels, t: str) -> None:
    a, d = with_dtype(TYPES[t], 256, 1), np.zeros(256, TYPES[t])
    per_block = 32 // a.itemsize
    value = np.array(3).astype(a.dtype)
    wanted = d.copy()
    wanted[:per_block] = value
    wanted[1:6] = a[:5]
    how = Form(1, 5 * a.itemsize, 1, blocks=(0, 0, 0), steps=(0, 1, 1))
    same(kernels.run(f"in_padded_old_{t}", a, a, d, how, bits_of(value, a.dtype)), wanted)


def test_padding_without_a_value_is_not_written(kernels: Kernels) -> None:
    a = with_dtype(np.float32, 64, 1)
    with pytest.raises(Finding, match="Adds") as caught:
        out(kernels, "undefined_padding", a, np.zeros(64, np.float32), Form())
    assert caught.value.kind == "uninitialised"
    wanted = np.zeros(64, np.float32)
    wanted[:5] = a[:5]
    with np.errstate(over="ignore"):
        wanted[:8] += 1
    same(out(kernels, "undefined_padding", a, np.zeros(64, np.float32), Form(1)), wanted)


def test_a_copy_takes_whole_blocks(kernels: Kernels) -> None:
    """What was not written in a block goes along; a block that was never written is a finding."""
    d = np.zeros(64, np.float32)
    assert (out(kernels, "part_of_a_block", d, d, Form(count=9))[:9] == 1).all()
    with pytest.raises(Finding) as caught:
        out(kernels, "part_of_a_block", d, d, Form(count=8))
    assert caught.value.kind == "uninitialised"


@pytest.mark.parametrize("way", ["Add", "Max", "Min"])
@pytest.mark.parametrize("t", ATOMIC)
def test_atomics(kernels: Kernels, t: str, way: str) -> None:
    random = np.random.default_rng(1)
    a = random.integers(-9, 9, 512).astype(TYPES[t])
    d = random.integers(-9, 9, 512).astype(TYPES[t])
    wanted = d.copy()
    function = {"Add": np.add, "Max": np.maximum, "Min": np.minimum}[way]
    wanted[:300] = function(d[:300], a[:300])
    form = Form(count=300 * a.itemsize, repeats=1, blocks=(0, 0, 0))
    same(out(kernels, f"out_Atomic{way}_{t}", a, d, form), wanted)


@pytest.mark.parametrize("t", ["float", "int32_t", "half"])
def test_many_cores_add_to_one_place(kernels: Kernels, t: str) -> None:
    a, d = np.ones(512, TYPES[t]), np.zeros(512, TYPES[t])
    form = Form(count=512 * a.itemsize, repeats=1, blocks=(0, 0, 0))
    same(out(kernels, f"out_AtomicAdd_{t}", a, d, form, blocks=48), np.full(512, 48, TYPES[t]))


def test_slices(kernels: Kernels) -> None:
    a = np.arange(3 * 87, dtype=np.float32)
    wanted = np.full((3, 87), -1, np.float32)
    for row in (0, 2):
        for start in (16, 16 + 24 + 7):
            wanted[row, start : start + 24] = a.reshape(3, 87)[row, start : start + 24]
    found = out(kernels, "slices", a, np.full(3 * 87, -1, np.float32), Form())
    np.testing.assert_array_equal(found.reshape(3, 87), wanted)


def test_a_slice_of_one_axis(kernels: Kernels) -> None:
    a = np.arange(256, dtype=np.float16)
    wanted = np.full(256, -1, np.float16)
    wanted[:16], wanted[16:32] = a[3:19], a[24:40]
    np.testing.assert_array_equal(out(kernels, "one_slice", a, np.full(256, -1, np.float16), Form()), wanted)


@pytest.mark.parametrize("old", [0, 1])
def test_filling_global_memory(kernels: Kernels, old: int) -> None:
    d = np.zeros(64, np.int32)
    wanted = d.copy()
    wanted[(0 if old else 8) :][:21] = 9
    np.testing.assert_array_equal(out(kernels, "filled", d, d, Form(old, 21), 9), wanted)


def test_copies_of_nothing(kernels: Kernels) -> None:
    a, d = with_dtype(np.float32, 64, 1), with_dtype(np.float32, 64, 2)
    for name, form in (
        ("in", Form(count=0)),
        ("in_blocks", Form(count=0, repeats=3)),
        ("in_blocks", Form(count=1, repeats=0)),
        ("in_padded", Form(count=0)),
    ):
        same(kernels.run(f"{name}_float", a, a, d, form), d)


LIMITS = {
    "part of a block": (
        "in_float",
        Form(count=7),
        "argument",
        r"\[DataCopy\].*whole blocks of 32 bytes in dst, given 28",
    ),
    "too many blocks": (
        "in_blocks_float",
        Form(count=1, repeats=4096),
        "argument",
        "blockCount of 0 to 4095, given 4096",
    ),
    "past the end of GM": ("in_float", Form(count=2056), "bounds", "DataCopy"),
    "not whole elements": (
        "in_padded_float",
        Form(1, 6),
        "argument",
        "blockLen to be a multiple of 4 bytes, given 6",
    ),
    "left padding": (
        "in_padded_float",
        Form(1, 4, steps=(0, 9, 0)),
        "argument",
        "leftPadding of at most 32 bytes, given 36",
    ),
    "right padding": (
        "in_padded_float",
        Form(1, 4, steps=(0, 0, 9)),
        "argument",
        "rightPadding of at most 32 bytes, given 36",
    ),
    "padding of 64 bits": ("in_padded_int64_t", Form(1, 8, steps=(0, 1, 0)), "argument", "paddingValue 0"),
}


@pytest.mark.parametrize("what", LIMITS)
def test_limits(kernels: Kernels, what: str) -> None:
    name, form, kind, message = LIMITS[what]
    dtype = TYPES[name.split("_", 1)[1].removeprefix("blocks_").removeprefix("padded_")]
    a = with_dtype(dtype, 2048, 1)
    error = kernels.fails(name, a, a, a, form, 1)
    assert error.kind == kind, error.message
    assert error.line is not None
    assert re.search(message, error.message), error.message


def test_an_atomic_of_another_type(kernels: Kernels) -> None:
    a = with_dtype(np.float32, 64, 1)
    with pytest.raises(Finding, match="SetAtomic") as caught:
        out(kernels, "out_wrong_atomic_float", a, a, Form(count=8))
    assert caught.value.kind == "dtype"
