"""Sort32 and MrgSort: scores in descending order with their indices."""

# ruff: noqa: E501 (kernels in C++)
from __future__ import annotations

import numpy as np
import pytest
from vector_kernels import COUNT, TYPES, Array, Form, Kernels, operands


def bodies() -> dict[str, str]:
    found = {}
    for t in ("half", "float"):
        found[f"Sort32_{t}"] = operands(t, "uint32_t", t) + "Sort32(d, a, b, p.repeats);"
        lists = "".join(
            f"auto s{i} = tensors.at<{t}>({offset}, 4096);"
            for i, offset in enumerate((0, 8192, 16384, 24576))
        )
        found[f"MrgSort_{t}"] = (
            operands(t, "uint16_t", t)
            + lists
            + (
                "uint16_t lengths[4]; for (int i = 0; i < 4; ++i) lengths[i] = b.GetValue(i);"
                f"MrgSortSrcList<{t}> from(s0, s1, s2, s3); MrgSort4Info info(lengths, (bool)p.form, (uint16_t)p.extra, 1);"
                "MrgSort(d, from, info);"
                "uint16_t c[4]; GetMrgSortResult(c[0], c[1], c[2], c[3]); PipeBarrier<PIPE_ALL>();"
                "auto out = tensors.at<uint16_t>(98304 + 8192, 32);"
                "for (int i = 0; i < 4; ++i) out.SetValue(i, c[i]);"
            )
        )
        found[f"rounds_{t}"] = operands(t, "uint32_t", t) + (
            # Runs of 32, then four at a time: one list of 128 · repeats.
            f"auto runs = tensors.at<{t}>(147456, 32768); Sort32(runs, a, b, 4 * p.repeats); PipeBarrier<PIPE_V>();"
            "uint16_t lengths[4] = {32, 32, 32, 32}; uint32_t part = GetSortOffset<"
            + t
            + ">(32); uint32_t done[4];"
            f"MrgSortSrcList<{t}> from(runs[0], runs[part], runs[2 * part], runs[3 * part]);"
            "MrgSort<" + t + ">(d, from, lengths, done, 15, p.repeats);"
        )
    return found


@pytest.fixture(scope="module")
def kernels() -> Kernels:
    return Kernels(bodies())


def entries(raw: Array, t: str) -> tuple[Array, Array]:
    """Scores and indices of what a sort leaves."""
    words = raw.view(np.uint8).reshape(-1, 8)
    size = np.dtype(TYPES[t]).itemsize
    scores = np.ascontiguousarray(words[:, :size]).view(TYPES[t]).reshape(-1)
    return scores, np.ascontiguousarray(words[:, 4:]).view(np.uint32).reshape(-1)


def listed(scores: Array, indices: Array) -> Array:
    out = np.zeros((scores.size, 8), np.uint8)
    out[:, : scores.itemsize] = scores.view(np.uint8).reshape(scores.size, scores.itemsize)
    out[:, 4:] = indices.astype(np.uint32).view(np.uint8).reshape(-1, 4)
    return out.reshape(-1)


@pytest.mark.parametrize("repeats", [1, 2, 9])
@pytest.mark.parametrize("t", ["half", "float"])
def test_sort32(kernels: Kernels, t: str, repeats: int) -> None:
    random = np.random.default_rng(repeats)
    a = random.integers(-20, 20, 32 * repeats).astype(TYPES[t])
    b = random.permutation(32 * repeats).astype(np.uint32)
    d = np.zeros(256 * repeats // a.itemsize, a.dtype)
    scores, indices = entries(kernels.run(f"Sort32_{t}", a, b, d, Form(COUNT, 0, repeats)), t)
    order = np.argsort(-a.reshape(repeats, 32), axis=1, kind="stable")
    np.testing.assert_array_equal(
        scores.reshape(repeats, 32), np.take_along_axis(a.reshape(repeats, 32), order, 1)
    )
    np.testing.assert_array_equal(
        indices.reshape(repeats, 32), np.take_along_axis(b.reshape(repeats, 32), order, 1)
    )


@pytest.mark.parametrize("stops", [0, 1])
@pytest.mark.parametrize(
    ("valid", "lengths"),
    [(3, (40, 7, 0, 0)), (7, (1, 33, 20, 0)), (15, (32, 32, 32, 32)), (15, (9, 0, 80, 3))],
)
@pytest.mark.parametrize("t", ["half", "float"])
def test_merge(kernels: Kernels, t: str, valid: int, lengths: tuple[int, ...], stops: int) -> None:
    random = np.random.default_rng(sum(lengths))
    dtype = np.dtype(TYPES[t])
    runs = [-np.sort(-random.integers(-9, 9, n).astype(dtype)) for n in lengths]
    memory = np.zeros(32768, np.uint8)
    merged: list[tuple[float, int, int]] = []
    for number, run in enumerate(runs):
        indices = number * 1000 + np.arange(run.size)
        memory[number * 8192 : number * 8192 + 8 * run.size] = listed(run, indices)
        merged += [(float(score), number, int(index)) for score, index in zip(run, indices, strict=True)]
    merged.sort(key=lambda entry: (-entry[0], entry[1], entry[2]))
    counts = [0, 0, 0, 0]
    made = 0
    for _, number, _ in merged:
        counts[number] += 1
        made += 1
        if stops and counts[number] == lengths[number]:
            break
    d = np.zeros((8192 + 32) // dtype.itemsize, dtype)
    found = kernels.run(
        f"MrgSort_{t}", memory, np.array([*lengths, *[0] * 12], np.uint16), d, Form(stops, extra=valid)
    )
    scores, indices = entries(found.view(np.uint8)[: 8 * made], t)
    np.testing.assert_array_equal(scores, np.array([entry[0] for entry in merged[:made]], dtype))
    np.testing.assert_array_equal(indices, np.array([entry[2] for entry in merged[:made]]))
    np.testing.assert_array_equal(found.view(np.uint8)[8192 : 8192 + 8].view(np.uint16), counts)


@pytest.mark.parametrize("repeats", [1, 3])
@pytest.mark.parametrize("t", ["half", "float"])
def test_sorting_in_rounds(kernels: Kernels, t: str, repeats: int) -> None:
    random = np.random.default_rng(4)
    a = random.standard_normal(128 * repeats).astype(TYPES[t])
    b = np.arange(128 * repeats, dtype=np.uint32)
    d = np.zeros(128 * repeats * 8 // a.itemsize, a.dtype)
    scores, indices = entries(kernels.run(f"rounds_{t}", a, b, d, Form(COUNT, 0, repeats)), t)
    np.testing.assert_array_equal(scores.reshape(repeats, 128), -np.sort(-a.reshape(repeats, 128), axis=1))
    np.testing.assert_array_equal(a[indices], scores)
