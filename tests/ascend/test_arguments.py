"""The struct of a kernel's arguments: layout as C has it, and each scalar in the dtype of its field."""

from __future__ import annotations

import ctypes
import struct
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from pyasc.backend.ascend.arguments import FORMATS, Passed, block, laid_out, number, passed, patched
from pyasc.backend.ascend.primitives import scalar_representation
from pyasc.backend.base import LaunchError, Patch
from pyasc.ops.dtypes import as_dtype

WHOLE = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
FLOATS = ("float16", "bfloat16", "float32")
FIELDS = {
    "int32_t": np.int32, "uint32_t": np.uint32, "int64_t": np.int64, "uint64_t": np.uint64,
    "float": np.float32,
}  # fmt: skip


def values(name: str) -> Any:
    dtype, rng = as_dtype(name), np.random.default_rng(5)
    if name == "bool":
        return np.array([False, True])
    if dtype.kind in "iu":
        least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
        edges = [0, 1, least, most, most // 2, most // 2 + 1, *(n for n in (2**31 - 1, 2**31) if n <= most)]
        return np.array([*edges, *rng.integers(least, most, 30, dtype, endpoint=True)], dtype)
    edges = [0.0, -0.0, 1.5, np.inf, -np.inf, np.nan, 65504.0, 65520.0, 6e-8, 1e-40, 3.4e38, 0.1]
    with np.errstate(all="ignore"):
        return np.array([*edges, *rng.standard_normal(30)]).astype(dtype)


def bits(value: Any) -> int:
    return int.from_bytes(value.tobytes(), "little")


def field(place: Passed, value: Any) -> bytes:
    template, patches = laid_out([place])
    return patched(template, patches, [0] * place.scalar + [bits(value)])


@pytest.mark.parametrize("name", ["bool", *WHOLE, *FLOATS])
def test_scalars_of_vector_code(name: str) -> None:
    made = scalar_representation(as_dtype(name))
    for value in values(name):
        place = Passed(2, made.size, made.form)
        if name == "int64" and not -(2**31) <= value < 2**31:
            with pytest.raises(LaunchError, match=f"32 bits.*{value}"):
                field(place, value)
            continue
        if name == "bool":
            expected = np.float16(value)
        elif name in FLOATS:
            expected = value if name == "float16" else np.float32(value)
        elif name in ("int64", "uint64"):
            expected = value.astype(np.int32) if name == "int64" else value
        else:  # as the lanes of the vector unit hold it
            expected = value.astype(np.int16 if value.itemsize < 4 else np.int32)
        assert field(place, value) == expected.tobytes(), value


@pytest.mark.parametrize("name", ["bool", *WHOLE, *FLOATS, "float64"])
def test_scalars_of_scalar_code(name: str) -> None:
    dtype = as_dtype(name)
    for ctype, kind in FIELDS.items():
        if dtype.kind in "fV" and ctype != "float":
            with pytest.raises(LaunchError, match=f"whole number .*{ctype}.*{name}"):
                passed(0, dtype, ctype)
            continue
        for value in values(name):
            with np.errstate(over="ignore"):
                expected = value.astype(kind).tobytes()
            assert field(passed(1, dtype, ctype), value) == expected, (ctype, value)


def test_layout_is_that_of_c() -> None:
    rng = np.random.default_rng(0)
    kinds: dict[str, Any] = {
        "b": ctypes.c_int8, "B": ctypes.c_uint8, "h": ctypes.c_int16, "H": ctypes.c_uint16,
        "i": ctypes.c_int32, "I": ctypes.c_uint32, "q": ctypes.c_int64, "Q": ctypes.c_uint64,
        "f": ctypes.c_float, "e": ctypes.c_uint16,
    }  # fmt: skip
    for _ in range(50):
        ctypes_of = [str(c) for c in rng.choice(list(FORMATS), rng.integers(1, 9))]
        members = [(f"f{n}", kinds[FORMATS[c]]) for n, c in enumerate(ctypes_of)]
        c_struct = type("S", (ctypes.Structure,), {"_fields_": members})
        fields = [
            Passed(n, struct.calcsize(FORMATS[c]), "bits") if n % 2 else number(c, 1)
            for n, c in enumerate(ctypes_of)
        ]
        template, patches = laid_out(fields)
        assert len(template) == ctypes.sizeof(c_struct)
        assert [p.offset for p in patches] == [
            getattr(c_struct, f"f{n}").offset for n in range(1, len(fields), 2)
        ]
        for n, c in enumerate(ctypes_of):
            at, size = getattr(c_struct, f"f{n}").offset, struct.calcsize(FORMATS[c])
            assert template[at : at + size] == (bytes(size) if n % 2 else number(c, 1))


def test_fields_that_do_not_hold_a_size() -> None:
    with pytest.raises(struct.error):
        number("int32_t", 2**31)


def test_a_template_is_left_as_it_is() -> None:
    template, patches = laid_out([number("int64_t", 7), Passed(0, 4, "bits")])
    assert patches == (Patch(8, 4, 0, "bits"),) and len(template) == 16
    first = patched(template, patches, [5])
    assert first[8:12] == b"\5\0\0\0" and patched(template, patches, [6])[8] == 6 and template[8] == 0
    assert block(3, template) == bytes(24) + template and len(block(1, b"\1\0\0\0")) == 16


def test_small_floats_are_exact() -> None:
    every = np.arange(2**16, dtype=np.uint16)
    for dtype in (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)):
        place = passed(0, dtype, "float")
        wide = every.view(dtype).astype(np.float32)
        for n in range(0, 2**16, 97):
            assert field(place, every[n]) == wide[n].tobytes()
