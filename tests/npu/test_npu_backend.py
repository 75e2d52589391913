"""The NPU as a backend: what it compiles and keeps, and products."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from standin.machine import Machine

import pyasc
from pyasc.backend import _runtime
from pyasc.backend.ascend.chip import load
from pyasc.backend.base import DeviceLaunch
from pyasc.backend.cpu.backend import CPU
from pyasc.backend.npu import compile as compiler
from pyasc.backend.npu.backend import NPU
from pyasc.backend.npu.toolkit import Toolkit, find
from pyasc.lazy.cache import kernels

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
