"""Filling, broadcasting, gathering, copying and transposing."""

# ruff: noqa: E501 (kernels in C++)
from __future__ import annotations

import numpy as np
import pytest
from vector_kernels import (
    BITS,
    COUNT,
    COUNTER,
    PREFIX,
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

WIDE = ("int16_t", "uint16_t", "half", "bfloat16_t", "int32_t", "uint32_t", "float")
INDEXED = ("int16_t", "half", "int32_t", "float")
IMAGES = ("int8_t", "uint8_t", "int16_t", "uint16_t", "half", "int32_t", "uint32_t", "float")


def masked(call: str, arguments: str, strides: str, template: str) -> str:
    return f"""
    uint64_t mask[2] = {{p.mask[0], p.mask[1]}}; (void)mask;
    switch (p.form) {{
        case 0: {call}({arguments}, p.count); break;
        case 1: {call}({arguments}, (uint64_t)p.count, (uint8_t)p.repeats, {strides}); break;
        case 2: {call}({arguments}, mask, (uint8_t)p.repeats, {strides}); break;
        {template}
        default: SetMaskCount(); {call}({arguments}, (uint64_t)p.count, (uint8_t)p.repeats, {strides}); SetMaskNorm();
    }}"""


def bodies() -> dict[str, str]:
    found = {}
    fill = "(uint16_t)p.dst_block, (uint8_t)p.dst_repeat"
    for t in WIDE:
        found[f"Duplicate_{t}"] = operands(t, t, t) + masked(
            "Duplicate", f"d, scalar_of<{t}>(p)", fill,
            f"case 3: SetVectorMask<{t}>(p.mask[1], p.mask[0]);"
            f"Duplicate<{t}, false>(d, scalar_of<{t}>(p), MASK_PLACEHOLDER, (uint8_t)p.repeats, {fill}); break;",
        )  # fmt: skip
        found[f"Brcb_{t}"] = operands(t, t, t) + (
            "Brcb(d, a, (uint8_t)p.repeats, {(uint16_t)p.dst_block, (uint16_t)p.dst_repeat});"
        )
        copy = (
            "{(uint16_t)p.dst_block, (uint16_t)p.src0_block, (uint16_t)p.dst_repeat, (uint16_t)p.src0_repeat}"
        )
        found[f"Copy_{t}"] = operands(t, t, t) + (
            "uint64_t mask[2] = {p.mask[0], p.mask[1]};"
            f"if (p.form == 1) Copy(d, a, (uint64_t)p.count, (uint8_t)p.repeats, {copy});"
            f"else if (p.form == 2) Copy(d, a, mask, (uint8_t)p.repeats, {copy});"
            f"else {{ SetMaskCount(); Copy(d, a, (uint64_t)p.count, (uint8_t)p.repeats, {copy}); SetMaskNorm(); }}"
        )
        gather = "(uint16_t)p.dst_repeat"
        found[f"Gather_{t}"] = operands(t, "uint32_t", t) + (
            "uint64_t mask[2] = {p.mask[0], p.mask[1]}; uint32_t base = (uint32_t)p.extra;"
            "if (p.form == 0) Gather(d, a, b, base, (uint32_t)p.count);"
            f"else if (p.form == 1) Gather(d, a, b, base, (uint64_t)p.count, (uint8_t)p.repeats, {gather});"
            f"else Gather(d, a, b, base, mask, (uint8_t)p.repeats, {gather});"
        )
        pattern = "uint16_t" if np.dtype(TYPES[t]).itemsize == 2 else "uint32_t"
        params = (
            "{(uint8_t)p.src0_block, (uint16_t)p.repeats, (uint16_t)p.src0_repeat, (uint8_t)p.src1_repeat}"
        )
        for name, taken in (("fixed", "(uint8_t)p.extra"), ("tensor", f"b.ReinterpretCast<{pattern}>()")):
            found[f"GatherMask_{name}_{t}"] = operands(t, "uint8_t", t) + (
                f"uint64_t kept = 0; GatherMask(d, a, {taken}, p.form == 1, (uint32_t)p.count, {params}, kept);"
                f"PipeBarrier<PIPE_ALL>(); tensors.at<uint64_t>(98304 + 4096, 32).SetValue(0, kept * 1000 + GetGatherMaskRemainCount());"
            )
    for t in ("uint16_t", "uint32_t"):
        found[f"Gatherb_{t}"] = operands(t, "uint32_t", t) + (
            "Gatherb(d, a, b, (uint8_t)p.repeats, {(uint8_t)p.dst_block, (uint16_t)p.dst_repeat});"
        )
    for t in INDEXED:
        found[f"CreateVecIndex_{t}"] = operands(t, t, t) + masked(
            "CreateVecIndex", f"d, scalar_of<{t}>(p)", fill, ""
        )
    for t in ("int16_t", "uint16_t", "half"):
        found[f"Transpose_{t}"] = (
            operands(t, t, t) + "Transpose(d, a); PipeBarrier<PIPE_V>(); if (p.extra) Transpose(d, d);"
        )
    for t in IMAGES:
        found[f"image_{t}"] = operands(t, "uint16_t", t) + (
            "TransposeParamsExt how(b.GetValue(0), b.GetValue(1), b.GetValue(2), b.GetValue(3), (TransposeType)p.extra);"
            "auto tmp = tensors.at<uint8_t>(147456, 40960); Transpose(d, a, tmp, how);"
        )
        found[f"blocks_{t}"] = (
            operands(t, t, t)
            + f"""
            const int block = 32 / sizeof({t});
            TransDataTo5HDParams how((bool)(p.extra & 1), (bool)(p.extra & 2), (uint8_t)p.repeats, (uint16_t)p.dst_repeat, (uint16_t)p.src0_repeat);
            if (p.form == 0) {{
                LocalTensor<{t}> to[16], from[16];
                for (int i = 0; i < 16; ++i) {{ to[i] = d[i * block * p.dst_block]; from[i] = a[i * block * p.src0_block]; }}
                TransDataTo5HD<{t}>(to, from, how);
            }} else if (p.form == 1) {{
                uint64_t to[16], from[16];
                for (int i = 0; i < 16; ++i) {{
                    to[i] = (uint64_t)d[i * block * p.dst_block].GetPhyAddr();
                    from[i] = (uint64_t)a[i * block * p.src0_block].GetPhyAddr();
                }}
                TransDataTo5HD<{t}>(to, from, how);
            }} else {{
                auto to = tensors.at<uint64_t>(147456, 128), from = tensors.at<uint64_t>(147456 + 128, 128);
                for (int i = 0; i < 16; ++i) {{
                    to.SetValue(i, (uint64_t)d[i * block * p.dst_block].GetPhyAddr());
                    from.SetValue(i, (uint64_t)a[i * block * p.src0_block].GetPhyAddr());
                }}
                TransDataTo5HD<{t}>(to, from, how);
            }}"""
        )
    return found


@pytest.fixture(scope="module")
def kernels() -> Kernels:
    return Kernels(bodies())


@pytest.mark.parametrize("t", WIDE)
def test_duplicate(kernels: Kernels, t: str) -> None:
    d = with_dtype(TYPES[t], 2048, 1)
    per_repeat = 256 // d.itemsize
    value = np.array(7 if d.dtype.kind in "iu" else -0.125).astype(d.dtype)
    for form in each_form(per_repeat):
        wanted = d.copy()
        wanted[form.index(0, d.itemsize, per_repeat)] = value
        same(kernels.run(f"Duplicate_{t}", d, d, d, form, bits_of(value, d.dtype)), wanted)


@pytest.mark.parametrize("t", INDEXED)
def test_create_vec_index(kernels: Kernels, t: str) -> None:
    d = with_dtype(TYPES[t], 2048, 1)
    per_repeat = 256 // d.itemsize
    first = np.array(-3).astype(d.dtype)
    for form in each_form(per_repeat):
        if form.form == 3:
            continue
        lanes = np.array([repeat * per_repeat + lane for repeat, lane in form.lanes(per_repeat)])
        wanted = d.copy()
        wanted[form.index(0, d.itemsize, per_repeat)] = (lanes - 3).astype(d.dtype)
        same(kernels.run(f"CreateVecIndex_{t}", d, d, d, form, bits_of(first, d.dtype)), wanted)


@pytest.mark.parametrize("t", WIDE)
@pytest.mark.parametrize(
    ("repeats", "block", "step"), [(1, 1, 8), (4, 1, 8), (3, 2, 16), (3, 1, 9), (2, 3, 30)]
)
def test_brcb(kernels: Kernels, t: str, repeats: int, block: int, step: int) -> None:
    a, d = with_dtype(TYPES[t], 64, 1), with_dtype(TYPES[t], 1024, 2)
    per_block = 32 // a.itemsize
    wanted = d.copy()
    for i in range(8 * repeats):
        at = (i // 8 * step + i % 8 * block) * per_block
        wanted[at : at + per_block] = a[i]
    found = kernels.run(f"Brcb_{t}", a, a, d, Form(repeats=repeats, blocks=(block, 1, 1), steps=(step, 8, 8)))
    same(found, wanted)


@pytest.mark.parametrize("t", WIDE)
def test_copy(kernels: Kernels, t: str) -> None:
    a, d = with_dtype(TYPES[t], 2048, 1), with_dtype(TYPES[t], 2048, 2)
    lanes = 256 // a.itemsize
    for form in (
        Form(PREFIX, lanes, 3),
        Form(PREFIX, 7, 3, blocks=(1, 1, 1), steps=(3, 8, 8)),
        Form(BITS, 0, 2, (0xFF00FF, 3 if lanes > 64 else 0), (2, 1, 1), (16, 9, 8)),
    ):
        wanted = d.copy()
        wanted[form.index(0, a.itemsize, lanes)] = a[form.index(1, a.itemsize, lanes)]
        same(kernels.run(f"Copy_{t}", a, a, d, form), wanted)
    # In counter mode the count is that of a repeat.
    same_count = Form(PREFIX, lanes - 2, 2)
    wanted = d.copy()
    wanted[same_count.index(0, a.itemsize, lanes)] = a[same_count.index(1, a.itemsize, lanes)]
    same(kernels.run(f"Copy_{t}", a, a, d, Form(COUNTER, lanes - 2, 2)), wanted)


@pytest.mark.parametrize("t", WIDE)
def test_gather(kernels: Kernels, t: str) -> None:
    random = np.random.default_rng(3)
    a, d = with_dtype(TYPES[t], 1024, 1), with_dtype(TYPES[t], 1024, 2)
    lanes = 256 // a.itemsize
    order = random.integers(0, 1000, 1024)
    offsets = (order * a.itemsize).astype(np.uint32)
    base = 4 * a.itemsize
    forms = [Form(COUNT, n, extra=base) for n in (1, 7, lanes, lanes + 1, 900)]
    forms.append(Form(PREFIX, lanes - 3, 3, steps=(9, 0, 0), extra=base))
    forms.append(Form(BITS, 0, 2, (0xF0F1, 1 if lanes > 64 else 0), steps=(8, 0, 0), extra=base))
    for form in forms:
        taken = np.array([repeat * lanes + lane for repeat, lane in form.lanes(lanes)])
        wanted = d.copy()
        wanted[form.index(0, a.itemsize, lanes)] = a[order[taken] + 4]
        same(kernels.run(f"Gather_{t}", a, offsets, d, form), wanted)


@pytest.mark.parametrize("t", ["uint16_t", "uint32_t"])
@pytest.mark.parametrize(("block", "step"), [(1, 8), (0, 8), (2, 17)])
def test_gather_blocks(kernels: Kernels, t: str, block: int, step: int) -> None:
    a, d = with_dtype(TYPES[t], 1024, 1), with_dtype(TYPES[t], 1024, 2)
    per_block = 32 // a.itemsize
    order = np.random.default_rng(4).integers(0, 1024 // per_block, 24)
    wanted = d.copy()
    for i, source in enumerate(order):
        at = (i // 8 * step + i % 8 * max(block, 1)) * per_block
        wanted[at : at + per_block] = a[source * per_block : (source + 1) * per_block]
    form = Form(repeats=3, blocks=(block, 1, 1), steps=(step, 8, 8))
    same(kernels.run(f"Gatherb_{t}", a, (order * 32).astype(np.uint32), d, form), wanted)


FIXED = {1: (0, 2), 2: (1, 2), 3: (0, 4), 4: (1, 4), 5: (2, 4), 6: (3, 4), 7: (0, 1)}


def kept_of(found: Array) -> int:
    kept, again = divmod(int(found.view(np.uint8)[4096:4104].view(np.uint64)[0]), 1000)
    assert kept == again
    return kept


@pytest.mark.parametrize("counter", [0, 1])
@pytest.mark.parametrize("t", WIDE)
def test_gather_mask_by_a_fixed_pattern(kernels: Kernels, t: str, counter: int) -> None:
    a = with_dtype(TYPES[t], 1024, 1)
    d = np.zeros((4096 + 32) // a.itemsize, a.dtype)
    lanes = 256 // a.itemsize
    count = 70 if counter else lanes
    per_block = 32 // a.itemsize
    for pattern, (first, step) in FIXED.items():
        form = Form(counter, count, 2, blocks=(1, 1, 1), steps=(0, 9, 0), extra=pattern)
        picked = np.concatenate([a[r * 9 * per_block :][:count][first::step] for r in range(2)])
        found = kernels.run(f"GatherMask_fixed_{t}", a, np.zeros(32, np.uint8), d, form)
        assert kept_of(found) == picked.size
        same(found[: picked.size], picked)


@pytest.mark.parametrize("counter", [0, 1])
@pytest.mark.parametrize("t", WIDE)
def test_gather_mask_by_a_tensor(kernels: Kernels, t: str, counter: int) -> None:
    a = with_dtype(TYPES[t], 1024, 1)
    d = np.zeros((4096 + 32) // a.itemsize, a.dtype)
    lanes = 256 // a.itemsize
    count = 75 if counter else lanes
    b = np.random.default_rng(5).integers(0, 256, 128, dtype=np.uint8)
    flags = np.unpackbits(b, bitorder="little").astype(bool)
    for pattern_step in (0, 1):
        form = Form(counter, count, 3, steps=(0, 10, pattern_step))
        per_block = 32 // a.itemsize
        picked = np.concatenate(
            [a[r * 10 * per_block :][:count][flags[r * pattern_step * 256 :][:count]] for r in range(3)]
        )
        found = kernels.run(f"GatherMask_tensor_{t}", a, b, d, form)
        assert kept_of(found) == picked.size
        same(found[: picked.size], picked)


@pytest.mark.parametrize("t", ["int16_t", "uint16_t", "half"])
@pytest.mark.parametrize("twice", [0, 1])
def test_transpose(kernels: Kernels, t: str, twice: int) -> None:
    a = with_dtype(TYPES[t], 256, 1)
    found = kernels.run(f"Transpose_{t}", a, a, np.zeros_like(a), Form(extra=twice))
    same(found, a if twice else a.reshape(16, 16).T.reshape(-1))


@pytest.mark.parametrize("t", IMAGES)
@pytest.mark.parametrize("last", [0, 1])
def test_images(kernels: Kernels, t: str, last: int) -> None:
    n, c, h, w = 2, 3, 4, 16
    a = with_dtype(TYPES[t], n * c * h * w, 1)
    shape = (n, h, w, c) if last else (n, c, h, w)
    wanted = a.reshape(shape).transpose((0, 3, 1, 2) if last else (0, 2, 3, 1)).reshape(-1)
    found = kernels.run(
        f"image_{t}",
        a,
        np.array([n, c, h, w] * 4, np.uint16),
        np.zeros_like(a),
        Form(extra=12 if last else 11),
    )
    same(found, wanted)


@pytest.mark.parametrize("form", [0, 1, 2])
@pytest.mark.parametrize("t", IMAGES)
def test_blocks_transposed(kernels: Kernels, t: str, form: int) -> None:
    a, d = with_dtype(TYPES[t], 4096, 1), with_dtype(TYPES[t], 4096, 2)
    per_block = 32 // a.itemsize
    for repeats, dst_step, src_step, halves in ((1, 0, 0, 0), (1, 1, 0, 3), (3, 1, 1, 1), (2, 16, 1, 2)):
        spread = 3 if dst_step == 1 else 1
        wanted = d.copy().reshape(-1, per_block)
        source = a.reshape(-1, per_block)
        from_half, to_half = 16 * bool(halves & 2), 16 * bool(halves & 1)
        for repeat in range(repeats):
            shift = (1 if repeats == 1 else repeat) * np.array([dst_step, src_step])
            blocks = source[np.arange(16) * 3 + shift[1]]
            to = np.arange(16) * spread + shift[0]
            if a.itemsize == 1:
                wanted[to, to_half : to_half + 16] = blocks[:, from_half : from_half + 16].T
            elif a.itemsize == 2:
                wanted[to] = blocks.T
            else:
                wanted[to] = blocks.T.reshape(16, 8)
        how = Form(form, 0, repeats, blocks=(spread, 3, 1), steps=(dst_step, src_step, 0), extra=halves)
        same(kernels.run(f"blocks_{t}", a, a, d, how), wanted.reshape(-1))
