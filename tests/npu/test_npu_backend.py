"""The NPU as a backend: what it compiles and keeps, products, scalars put in place by the executor."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from standin.machine import Machine

import pyasc
from pyasc.backend import _runtime
from pyasc.backend.ascend.arguments import laid_out, number, passed, patched
from pyasc.backend.ascend.chip import load
from pyasc.backend.ascend.generated import Bound, Generated, Parameter
from pyasc.backend.base import DeviceLaunch, Patch
from pyasc.backend.cpu.backend import CPU
from pyasc.backend.npu import compile as compiler
from pyasc.backend.npu.backend import NPU
from pyasc.backend.npu.launch import device_launch
from pyasc.backend.npu.toolkit import Toolkit, find
from pyasc.lazy.cache import kernels
from pyasc.ops.dtypes import as_dtype

Array = np.ndarray[Any, Any]
CHIP = load("910B1")


@pytest.fixture
def cann(npu: Machine) -> Iterator[Toolkit]:
    find.cache_clear()
    yield find()
    find.cache_clear()


@pytest.fixture
def chip(cann: Toolkit) -> Iterator[NPU]:
    made = NPU(CHIP, CPU(store=kernels), kernels, cann)
    yield made
    made._codes.clear()


def run(launch: DeviceLaunch, arrays: list[Array], scalars: list[int] | None = None) -> None:
    """Run a launch on device 0; outputs are written into the arrays."""
    inputs = [n for n in range(len(arrays)) if n not in launch.outputs]
    slot = {operand: n for n, operand in enumerate([*inputs, *launch.outputs])}
    program = _runtime.Program(len(inputs), len(arrays), [slot[o] for o in launch.outputs])
    for operand in inputs:
        program.upload(slot[operand], 0)
    for operand in launch.outputs:
        program.device_allocate(slot[operand], arrays[operand].nbytes, 0)
    program.device_launch(
        launch.code,
        0,
        0,
        launch.blocks,
        launch.arguments,
        [(at, slot[operand], offset) for at, operand, offset in launch.pointers],
        list(launch.patches),
        [slot[o] for o in launch.outputs],
        launch.workspace,
        launch.status,
        7,
    )
    bits = np.array(scalars or [0], np.uint64).tobytes()
    made = program.run([_runtime.wrap(np.ascontiguousarray(arrays[n])) for n in inputs], bits)
    for operand, buffer in zip(launch.outputs, made, strict=True):
        arrays[operand][...] = _runtime.array(buffer, arrays[operand].shape, arrays[operand].dtype)


ECHO = """#include "kernel_operator.h"
using namespace AscendC;
struct Tiling { int64_t count; int32_t words[%d]; };
extern "C" __global__ __aicore__ void echo_kernel(GM_ADDR out, Tiling t)
{
    GlobalTensor<int32_t> y;
    y.SetGlobalBuffer((__gm__ int32_t*)out);
    for (int64_t i = 0; i < t.count; ++i) {
        y.SetValue(i, t.words[i]);
    }
    DataCacheCleanAndInvalid<int32_t, CacheLine::ENTIRE_DATA_CACHE, DcciDst::CACHELINE_OUT>(y);
}
"""


def echo(words: int) -> Generated:
    """A kernel that writes the struct it is given."""
    parameters = (Parameter("out", "output", 0, np.dtype(np.int32)),)
    return Generated(
        "echo_kernel", ECHO % words, "vector", CHIP, parameters, (), "as it is", lambda _: Bound(1, b"")
    )


def scalars() -> list[tuple[int, Patch]]:
    """Bits, and every way to pass them: of all dtypes, edges among them."""
    rng = np.random.default_rng(2)
    found: list[tuple[int, Patch]] = []
    for name in ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"):
        dtype = as_dtype(name)
        if name == "bool":
            values: Any = np.array([False, True])
        else:
            least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
            values = np.array([least, most, most // 2 + 1, 1, *rng.integers(least, most, 4, dtype)], dtype)
        for value in values:
            bits = int.from_bytes(value.tobytes(), "little")
            for ctype in ("int32_t", "uint32_t", "int64_t", "uint64_t", "float"):
                place = passed(0, dtype, ctype)
                found.append((bits, Patch(0, place.size, 0, place.form)))
        if name == "bool":
            found += [(bits, Patch(0, 2, 0, "bool")) for bits in (0, 1)]
    found += [(n & (2**64 - 1), Patch(0, 4, 0, "narrow")) for n in (0, -1, 2**31 - 1, -(2**31))]
    for name in ("float16", "bfloat16", "float32", "float64"):
        dtype = as_dtype(name)
        edges = [0, -0.0, 1.5, np.inf, -np.inf, np.nan, 65504, 6e-8, 1e-40, 3.4e38, 1e-46, *rng.random(9)]
        with np.errstate(all="ignore"):
            given = np.array(edges).astype(dtype)
        for value in given:
            bits = int.from_bytes(value.tobytes(), "little")
            found.append((bits, Patch(0, 4, 0, passed(0, dtype, "float").form)))
            found += [(bits, Patch(0, size, 0, "bits")) for size in (2, 4, 8)]
    return found


def test_the_executor_puts_scalars_where_python_does(chip: NPU) -> None:
    cases = scalars()
    words = 2 * len(cases)
    template, _ = laid_out([number("int64_t", words), *[bytes(4)] * words])
    patches = tuple(p._replace(offset=8 + 8 * n, scalar=n) for n, (_, p) in enumerate(cases))
    generated = echo(words)
    launch = device_launch(chip.code(generated), generated, Bound(1, template, patches))
    bits = [b for b, _ in cases]
    out = np.zeros(words, np.int32)
    run(launch, [out], bits)
    expected = np.frombuffer(patched(template, patches, bits)[8:], np.int32)
    for n, (b, p) in enumerate(cases):
        assert out[2 * n : 2 * n + 2].tobytes() == expected[2 * n : 2 * n + 2].tobytes(), (hex(b), p)


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1, 2**63 - 1])
def test_an_integer_that_does_not_fit(chip: NPU, value: int) -> None:
    template, _ = laid_out([number("int64_t", 2), bytes(4), bytes(4)])
    generated = echo(2)
    wide = (Patch(8, 4, 0, "narrow"),)
    launch = device_launch(chip.code(generated), generated, Bound(1, template, wide))
    told: list[tuple[int, int, int]] = []

    def handler(label: int, code: int, given: int) -> Exception:
        told.append((label, code, given))
        return ValueError("too wide")

    before = _runtime.set_fault_handler(handler)
    try:
        with pytest.raises(ValueError, match="too wide"):
            run(launch, [np.zeros(2, np.int32)], [value & (2**64 - 1)])
    finally:
        _runtime.set_fault_handler(before)
    assert told == [(7, _runtime.WIDE_SCALAR, value)]


def test_products(chip: NPU) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random((40, 70)).astype("f2"), rng.random((50, 70)).astype("f2")
    whole_a, whole_b = np.zeros(3 + a.size, "f2"), np.zeros(16 + b.size, "f2")
    whole_a[3:], whole_b[16:] = a.reshape(-1), b.reshape(-1)
    half = np.dtype(np.float16)
    product = chip.device_product((((40, 70), (70, 1), 3), ((70, 50), (1, 70), 16)), (40, 50), half, half)
    assert product is not None
    launch = product()
    assert launch.blocks <= CHIP.cube_cores
    out = np.zeros((40, 50), "f2")
    run(launch, [whole_a, whole_b, out])
    np.testing.assert_allclose(out, a.astype("f4") @ b.astype("f4").T, rtol=2e-3)
    larger = chip.device_product((((400, 7), (7, 1), 3), ((7, 50), (1, 7), 16)), (400, 50), half, half)
    assert larger is not None and larger().code is launch.code, "only the comments of its source differ"


def test_products_that_the_host_multiplies(chip: NPU) -> None:
    rows = (((4, 4), (4, 1), 0), ((4, 4), (4, 1), 0))
    for name in ("int8", "int32", "float64"):  # sums of int8 are int32 on the cube
        assert chip.device_product(rows, (4, 4), np.dtype(name), np.dtype(name)) is None
    backwards = (((4, 4), (-4, 1), 12), ((4, 4), (4, 1), 0))
    assert chip.device_product(backwards, (4, 4), np.dtype("f2"), np.dtype("f2")) is None


def test_what_is_compiled_is_kept(
    chip: NPU, cann: Toolkit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[str] = []
    real = compiler._Compilation.run
    monkeypatch.setattr(
        compiler._Compilation,
        "run",
        lambda self, *a, **k: (runs.append(self.generated.name), real(self, *a, **k))[1],
    )
    with pyasc.config.override(cache_dir=str(tmp_path)), pyasc.backend("sim"):
        (info,) = pyasc.explain(pyasc.asarray(np.ones(100, "f4")) * 2).kernels
        kernel, binding = info.work.lowered.kernel, info.work.lowered.binding
        tuning = chip.tune(kernel, binding)
        made, code = chip.compile(kernel, tuning)
        assert len(runs) == 1 and made.fits(binding)
        again = NPU(CHIP, CPU(store=kernels), kernels, cann, device=1)
        found = again.load(kernel, tuning, code)
        assert len(runs) == 1 and found.source("ascendc") == made.source("ascendc")
        with pytest.raises(ValueError, match="another source"):
            again.load(kernel, tuning, code + b" ")
    x, out = np.arange(100, dtype="f4"), np.zeros(100, "f4")
    launch = found.bind(binding)
    assert isinstance(launch, DeviceLaunch)
    run(launch, [x, out], [int(np.float32(2).view(np.uint32))])
    np.testing.assert_array_equal(out, x * 2)


def test_the_key_names_chip_toolkit_and_form(chip: NPU, cann: Toolkit) -> None:
    from dataclasses import replace

    other = NPU(load("910B3"), CPU(store=kernels), kernels, cann)
    older = NPU(CHIP, CPU(store=kernels), kernels, replace(cann, version="8.1.RC1"))
    second = NPU(CHIP, CPU(store=kernels), kernels, cann, device=1)
    assert len({chip.fingerprint(), other.fingerprint(), older.fingerprint()}) == 3
    assert second.fingerprint() == chip.fingerprint() and (second.name, second.device) == ("npu:1", 1)
    assert chip.device_cores == CHIP.vector_cores and chip.forms == ("ascendc",)


def test_a_launch_is_timed(chip: NPU) -> None:
    with pyasc.backend("sim"):
        (info,) = pyasc.explain(pyasc.asarray(np.ones(5000, "f4")) * 2).kernels
    kernel, binding = info.work.lowered.kernel, info.work.lowered.binding
    made = chip.written(kernel, chip.choose(kernel, binding))
    assert chip.time_us(made, made.bind(binding), (20000, 20000)) > 0 and chip.measured_by == "device"
