"""Reductions of repeats, blocks, pairs and of everything, summed as the unit sums."""

# ruff: noqa: E501 (kernels in C++)
from __future__ import annotations

import numpy as np
import pytest
from vector_kernels import COUNT, TYPES, Array, Form, Kernels, operands, same, with_dtype

TYPES_TAKEN = ("half", "float")
STRIDES = "p.dst_repeat, p.src0_block, p.src0_repeat"
ORDERS = ("ORDER_VALUE_INDEX", "ORDER_INDEX_VALUE", "ORDER_ONLY_VALUE", "ORDER_ONLY_INDEX")


def forms_of(call: str, mask_first: bool, after: str = "") -> str:
    masked = "(int32_t)p.count, p.repeats" if mask_first else "p.repeats, (int32_t)p.count"
    bits = "mask, p.repeats" if mask_first else "p.repeats, mask"
    return f"if (p.form == 1) {call}(d, a, {masked}, {STRIDES}{after}); else {call}(d, a, {bits}, {STRIDES}{after});"


def bodies() -> dict[str, str]:
    found = {}
    for t in TYPES_TAKEN:
        start = operands(t, t, t) + "uint64_t mask[2] = {p.mask[0], p.mask[1]}; (void)mask;"
        scratch = f"auto tmp = tensors.at<{t}>(147456, 16384);"
        found[f"WholeReduceSum_{t}"] = start + forms_of("WholeReduceSum", True)
        found[f"ReduceRepeatSum_{t}"] = start + forms_of("ReduceRepeat<ReduceType::SUM>", True)
        found[f"RepeatReduceSum_{t}"] = start + (
            "RepeatReduceSum(d, a, p.repeats, p.count, 1, p.src0_block, p.dst_repeat, p.src0_repeat);"
        )
        found[f"PairReduceSum_{t}"] = start + forms_of("PairReduceSum", False)
        found[f"ReducePairElem_{t}"] = start + forms_of("ReducePairElem<ReduceType::SUM>", True)
        for way in ("Sum", "Max", "Min"):
            found[f"BlockReduce{way}_{t}"] = start + forms_of(f"BlockReduce{way}", False)
            found[f"ReduceDataBlock{way}_{t}"] = start + forms_of(
                f"ReduceDataBlock<ReduceType::{way.upper()}>", True
            )
        for way in ("Max", "Min"):
            order = ", (ReduceOrder)p.extra"
            found[f"WholeReduce{way}_{t}"] = start + forms_of(f"WholeReduce{way}", True, order)
            found[f"ReduceRepeat{way}_{t}"] = start + forms_of(
                f"ReduceRepeat<ReduceType::{way.upper()}>", True, order
            )
            found[f"Reduce{way}_{t}"] = (
                start
                + scratch
                + (
                    f"if (p.form == 0) Reduce{way}(d, a, tmp, p.count, (bool)p.extra);"
                    f"else Reduce{way}(d, a, tmp, mask, p.repeats, p.src0_repeat, (bool)p.extra);"
                )
            )
            found[f"last_{way}_{t}"] = start + (
                f"WholeReduce{way}(b, a, p.count, p.repeats, 1, 1, 8); {t} value, index;"
                "GetReduceMaxMinCount(value, index); PipeBarrier<PIPE_ALL>();"
                "d.SetValue(0, value); d.SetValue(1, index);"
            )
        found[f"ReduceSum_{t}"] = (
            start
            + scratch
            + (
                "if (p.form == 0) ReduceSum(d, a, tmp, p.count);"
                "else if (p.form == 1) ReduceSum(d, a, tmp, (int32_t)p.count, p.repeats, p.src0_repeat);"
                "else ReduceSum(d, a, tmp, mask, p.repeats, p.src0_repeat);"
            )
        )
        found[f"sum_register_{t}"] = (
            start
            + scratch
            + (
                f"ReduceSum(b, a, tmp, p.count); d.SetValue(0, GetReduceRepeatSumSpr<{t}>() + GetAccVal<{t}>());"
            )
        )
    return found


@pytest.fixture(scope="module")
def kernels() -> Kernels:
    return Kernels(bodies())


def tree(values: Array) -> Array:
    """Sums of neighbours until one is left, along the last axis."""
    with np.errstate(all="ignore"):
        while values.shape[-1] > 1:
            values = values[..., ::2] + values[..., 1::2]
    return values[..., 0]


def repeats_of(a: Array, form: Form, fill: float = 0) -> tuple[Array, Array]:
    """The elements of each repeat, with `fill` where the mask is off, and the mask."""
    lanes = 256 // a.itemsize
    taken = np.zeros((form.repeats, lanes), bool)
    for repeat, lane in form.lanes(lanes):
        taken[repeat, lane] = True
    every = Form(1, lanes, form.repeats, blocks=form.blocks, steps=form.steps).index(1, a.itemsize, lanes)
    values = a[every].reshape(form.repeats, lanes)
    return np.where(taken, values, np.asarray(fill, a.dtype)), taken


def forms(itemsize: int, extra: int = 0, dst_step: int = 1) -> list[Form]:
    lanes = 256 // itemsize
    mask = (0xF00F_0000_00FF_8001, 0x8000_0000_0000_0001 if lanes > 64 else 0)
    return [
        Form(1, lanes, 4, steps=(dst_step, 8, 0), extra=extra),
        Form(1, 5, 3, steps=(dst_step, 8, 0), extra=extra),
        Form(2, 0, 3, mask, (1, 1, 1), (dst_step + 1, 9, 0), extra),
        Form(2, 0, 2, mask, (1, 2, 1), (dst_step, 16, 0), extra),
    ]


def finite(t: str, count: int = 2048) -> Array:
    return np.random.default_rng(7).standard_normal(count).astype(TYPES[t])


@pytest.mark.parametrize("name", ["WholeReduceSum", "ReduceRepeatSum"])
@pytest.mark.parametrize("t", TYPES_TAKEN)
def test_sum_of_a_repeat(kernels: Kernels, name: str, t: str) -> None:
    a, d = finite(t), with_dtype(TYPES[t], 256, 1)
    for form in forms(a.itemsize):
        wanted = d.copy()
        wanted[np.arange(form.repeats) * form.steps[0]] = tree(repeats_of(a, form)[0])
        same(kernels.run(f"{name}_{t}", a, a, d, form), wanted)


@pytest.mark.parametrize("t", TYPES_TAKEN)
def test_repeat_reduce_sum(kernels: Kernels, t: str) -> None:
    a, d = finite(t), with_dtype(TYPES[t], 256, 1)
    form = Form(1, 40, 3, steps=(2, 8, 0))
    wanted = d.copy()
    wanted[np.arange(3) * 2] = tree(repeats_of(a, form)[0])
    same(kernels.run(f"RepeatReduceSum_{t}", a, a, d, form), wanted)


@pytest.mark.parametrize("order", range(4))
@pytest.mark.parametrize("way", ["Max", "Min"])
@pytest.mark.parametrize("name", ["WholeReduce", "ReduceRepeat"])
@pytest.mark.parametrize("t", TYPES_TAKEN)
def test_extreme_of_a_repeat(kernels: Kernels, name: str, t: str, way: str, order: int) -> None:
    a = np.round(finite(t) * 8).astype(TYPES[t])  # equal ones among them: the first counts
    index_type = np.uint16 if t == "half" else np.uint32
    unit = {0: 2, 1: 2, 2: 1, 3: 4 // a.itemsize}[order]
    for form in forms(a.itemsize, order):
        values, _ = repeats_of(a, form, -np.inf if way == "Max" else np.inf)
        at = values.argmax(1) if way == "Max" else values.argmin(1)
        best = values[np.arange(form.repeats), at]
        d = np.zeros(256, TYPES[t])
        raw = d.view(index_type)
        for repeat in range(form.repeats):
            place = repeat * form.steps[0] * unit
            if order in (0, 2):
                d[place] = best[repeat]
            if order == 1:
                d[place + 1] = best[repeat]
            if order in (0, 1, 3):
                raw[place + (order == 0)] = at[repeat]
        found = kernels.run(f"{name}{way}_{t}", a, a, np.zeros_like(d), form)
        np.testing.assert_array_equal(found.view(index_type), d.view(index_type))


@pytest.mark.parametrize("way", ["Max", "Min"])
@pytest.mark.parametrize("t", TYPES_TAKEN)
def test_a_nan_is_the_extreme(kernels: Kernels, t: str, way: str) -> None:
    a = finite(t)
    a[[70, 90]] = np.nan
    lanes = 256 // a.itemsize
    found = kernels.run(
        f"WholeReduce{way}_{t}", a, a, np.zeros(64, TYPES[t]), Form(1, lanes, 2, steps=(1, 8, 0))
    )
    repeat = 70 // lanes
    assert np.isnan(found[2 * repeat])
    assert found.view(np.uint16 if t == "half" else np.uint32)[2 * repeat + 1] == 70 % lanes


@pytest.mark.parametrize("way", ["Sum", "Max", "Min"])
@pytest.mark.parametrize("name", ["BlockReduce", "ReduceDataBlock"])
@pytest.mark.parametrize("t", TYPES_TAKEN)
def test_blocks(kernels: Kernels, name: str, t: str, way: str) -> None:
    a, d = finite(t), with_dtype(TYPES[t], 256, 1)
    per_block = 32 // a.itemsize
    for form in forms(a.itemsize):
        fill = {"Sum": 0, "Max": -np.inf, "Min": np.inf}[way]
        values, taken = repeats_of(a, form, fill)
        parts = values.reshape(form.repeats, 8, per_block)
        result = {"Sum": tree, "Max": lambda x: x.max(-1), "Min": lambda x: x.min(-1)}[way](parts)
        wanted = d.copy()
        for repeat in range(form.repeats):
            for block in range(8):
                if taken.reshape(form.repeats, 8, per_block)[repeat, block].any():
                    wanted[repeat * form.steps[0] * 8 + block] = result[repeat, block]
        same(kernels.run(f"{name}{way}_{t}", a, a, d, form), wanted)


@pytest.mark.parametrize("name", ["PairReduceSum", "ReducePairElem"])
@pytest.mark.parametrize("t", TYPES_TAKEN)
def test_pairs(kernels: Kernels, name: str, t: str) -> None:
    a, d = finite(t), with_dtype(TYPES[t], 1024, 1)
    lanes = 256 // a.itemsize
    for form in forms(a.itemsize):
        values, taken = repeats_of(a, form)
        sums = values[:, ::2] + values[:, 1::2]
        wanted = d.copy()
        for repeat in range(form.repeats):
            pairs = np.flatnonzero(taken[repeat, ::2] | taken[repeat, 1::2])
            wanted[repeat * form.steps[0] * lanes // 2 + pairs] = sums[repeat, pairs]
        same(kernels.run(f"{name}_{t}", a, a, d, form), wanted)


@pytest.mark.parametrize("count", [1, 5, 63, 64, 65, 127, 128, 129, 257, 1000, 8000])
@pytest.mark.parametrize("t", TYPES_TAKEN)
def test_sum_of_a_number_of_elements(kernels: Kernels, t: str, count: int) -> None:
    """Within a repeat pairwise, over repeats one after another."""
    a = finite(t, 8192)
    lanes = 256 // a.itemsize
    whole = np.zeros(-(-count // lanes) * lanes, a.dtype)
    whole[:count] = a[:count]
    total = a.dtype.type(0)
    for part in tree(whole.reshape(-1, lanes)):
        total = a.dtype.type(total + part)
    found = kernels.run(f"ReduceSum_{t}", a, a, np.zeros(32, a.dtype), Form(COUNT, count))
    assert found[0] == total
    assert (found[1:] == 0).all()
    twice = kernels.run(f"sum_register_{t}", a, a[:32], np.zeros(32, a.dtype), Form(COUNT, count))
    assert twice[0] == total + total


@pytest.mark.parametrize("repeats", [1, 3, 64, 65, 140])
@pytest.mark.parametrize("t", TYPES_TAKEN)
def test_sum_of_repeats(kernels: Kernels, t: str, repeats: int) -> None:
    """Over repeats in repeats again, until one sum is left."""
    lanes = 256 // np.dtype(TYPES[t]).itemsize
    a = finite(t, lanes * repeats)
    form = Form(1, lanes - 3, repeats, steps=(1, 8, 0))
    sums = tree(repeats_of(a, form)[0])
    while sums.size > 1:
        whole = np.zeros(-(-sums.size // lanes) * lanes, a.dtype)
        whole[: sums.size] = sums
        sums = tree(whole.reshape(-1, lanes))
    found = kernels.run(f"ReduceSum_{t}", a, a[:32], np.zeros(32, a.dtype), form)
    assert found[0] == sums[0]


@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize("way", ["Max", "Min"])
@pytest.mark.parametrize("t", TYPES_TAKEN)
def test_extreme_of_everything(kernels: Kernels, t: str, way: str, index: int) -> None:
    a = np.round(finite(t, 8192) * 30).astype(TYPES[t])
    index_type = np.uint16 if t == "half" else np.uint32
    lanes = 256 // a.itemsize
    mask = (0xFFFF0000FFFF0000, 0x1 if lanes > 64 else 0)
    for form in (
        *(Form(COUNT, n, extra=index) for n in (1, 64, 129, 1000, 8192)),
        Form(2, 0, 20, mask, steps=(1, 9, 0), extra=index),
    ):
        if form.form == COUNT:
            at = int(a[: form.count].argmax() if way == "Max" else a[: form.count].argmin())
            best = a[at]
        else:
            values, _ = repeats_of(a, form, -np.inf if way == "Max" else np.inf)
            at = int(values.argmax() if way == "Max" else values.argmin())
            best = values.reshape(-1)[at]
        found = kernels.run(f"Reduce{way}_{t}", a, a[:32], np.zeros(32, a.dtype), form)
        assert found[0] == best
        assert found.view(index_type)[1] == (at if index else 0)


@pytest.mark.parametrize("way", ["Max", "Min"])
@pytest.mark.parametrize("t", TYPES_TAKEN)
def test_the_register_of_the_last_extreme(kernels: Kernels, t: str, way: str) -> None:
    a = finite(t)
    lanes = 256 // a.itemsize
    at = int(a[: lanes * 5].argmax() if way == "Max" else a[: lanes * 5].argmin())
    found = kernels.run(f"last_{way}_{t}", a, a[:32], np.zeros(32, a.dtype), Form(1, lanes, 5))
    assert found[0] == a[at]
    assert found.view(np.uint16 if t == "half" else np.uint32)[1] == at


def test_reducing_in_place(kernels: Kernels) -> None:
    """The results of repeats go where earlier repeats were read."""
    a = finite("float")
    body = operands("float", "float", "float") + "WholeReduceSum(d, d, 64, 16, 1, 1, 8);"
    found = Kernels({"in_place": body}).run("in_place", a, a, a)
    same(found[:16], tree(a[:1024].reshape(16, 64)))
    same(found[16:], a[16:])
