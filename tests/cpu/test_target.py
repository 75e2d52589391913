"""Processors other than this one: what is known of them, and the code they get."""

from __future__ import annotations

import ctypes
import re
from contextlib import suppress

import ml_dtypes
import numpy as np
import pytest
from kernel_loop import loop_module, optimised, run
from llvmlite import binding

from pyasc.backend.cpu.target import Target
from pyasc.backend.cpu.transcendental import FUNCTIONS
from pyasc.ops.primitives import PRIMITIVES, Kind

KUNPENG = Target.for_triple("aarch64-unknown-linux-gnu", "tsv110")
DTYPES = [np.dtype(t) for t in ("?", "i1", "u2", "i4", "u8", "f2", ml_dtypes.bfloat16, "f4", "f8")]


def assembly(op: str, dtype: np.dtype[np.generic], target: Target, width: int) -> str:
    primitive = PRIMITIVES[op]
    dtypes = (dtype,) * primitive.arity
    result = primitive.result(*dtypes) if primitive.result else dtype
    machine = target.machine()
    text: str = machine.emit_assembly(optimised(loop_module(op, result, dtypes, (), width, target), machine))
    return text


def test_host_is_described_as_by_its_name() -> None:
    host = Target.host()
    again = Target.for_triple(host.triple, host.cpu, host.features)
    for fact in ("register_bits", "has_fma", "has_half", "has_avx512"):
        assert getattr(host, fact) == getattr(again, fact), fact


@pytest.mark.parametrize(
    ("cpu", "bits", "fma", "half"),
    [
        ("x86-64", 128, False, False),
        ("x86-64-v2", 128, False, False),
        ("ivybridge", 128, False, True),
        ("x86-64-v3", 256, True, True),
        ("x86-64-v4", 512, True, True),
        ("skylake-avx512", 512, True, True),
    ],
)
def test_x86_processors(cpu: str, bits: int, fma: bool, half: bool) -> None:
    target = Target.for_triple("x86_64-unknown-linux-gnu", cpu)
    assert (target.register_bits, target.has_fma, target.has_half) == (bits, fma, half)
    assert target.has_avx512 == (bits == 512)
    assert target.fingerprint != Target.host().fingerprint


@pytest.mark.parametrize("cpu", ["tsv110", "neoverse-n1", "generic"])
def test_float32_functions_are_vector_code_on_aarch64(cpu: str) -> None:
    target = Target.for_triple("aarch64-unknown-linux-gnu", cpu)
    assert target.lanes(32) == 4
    for op in FUNCTIONS:
        text = assembly(op, np.dtype(np.float32), target, 4)
        loop = text[: text.index(".cfi_endproc") if ".cfi_endproc" in text else None]
        called = set(re.findall(r"\bbl\s+(\w+)", loop))
        assert re.search(r"fml[as]\tv\d+\.(4s|2d)", loop), op
        assert called <= {f"{op}f"}, op  # sine, cosine and tangent of large arguments


def test_every_primitive_compiles_for_aarch64() -> None:
    for primitive in PRIMITIVES.values():
        if primitive.kind is not Kind.ELEMENTWISE or primitive.result is None or primitive.name == "where":
            continue
        for dtype in DTYPES:
            if dtype.kind in primitive.dtypes and primitive.name not in ("random_bits", "wrap_index"):
                width = max(1, KUNPENG.lanes(8 * dtype.itemsize))
                assert "loop:" in assembly(primitive.name, dtype, KUNPENG, width)


def test_half_precision_without_its_instructions() -> None:
    host = Target.host()
    if host.architecture != "x86_64":
        pytest.skip("runs where x86-64-v2 code does")
    library = "libgcc_s.so.1"
    with suppress(OSError):
        if hasattr(ctypes.CDLL(library), "__truncsfhf2"):
            binding.load_library_permanently(library)
            x = np.arange(2**16, dtype=np.uint16).view(np.float16)
            target = Target.for_triple(host.triple, "x86-64-v2")
            y = x[::-1].copy()
            assert np.array_equal(run("add", x, y, width=8, target=target), run("add", x, y), equal_nan=True)
            return
    pytest.skip("the C compiler's library is older than version 12")
