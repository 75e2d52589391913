"""Which steps a plan for a device has: what is copied where, and when, seen without a device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import pyasc
from pyasc.backend import _runtime
from pyasc.backend.ascend.backend import Ascend
from pyasc.backend.ascend.chip import load
from pyasc.backend.base import DeviceLaunch
from pyasc.lazy import evaluate
from pyasc.lazy import plan as planning
from pyasc.lazy.handwritten import linearise
from pyasc.lazy.transfers import transfers


class Recorder:
    """A program that notes its steps."""

    def __init__(self, inputs: int, slots: int, outputs: list[int]) -> None:
        self.steps: list[tuple[Any, ...]] = []
        self.device_steps = True

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: self.steps.append((name, *arguments))


class Executable:
    """A kernel that could be launched on a device."""

    def __init__(self, kernel: Any, blocks: int) -> None:
        self.kernel = kernel
        self._blocks = blocks

    def bind(self, binding: Any) -> DeviceLaunch:
        outputs = tuple(n for n, o in enumerate(self.kernel.operands) if o.output)
        pointers = tuple((8 * n, n, 0) for n in range(len(self.kernel.operands)))
        code: Any = self.kernel.name
        return DeviceLaunch(code, self._blocks, bytes(64), pointers, (), outputs)


class Device(Ascend):
    device = 0
    device_cores = 48

    def device_product(
        self, operands: Any, shape: Any, dtype: Any, out: Any
    ) -> Callable[[], DeviceLaunch] | None:
        code: Any = "product"
        made = DeviceLaunch(code, 24, bytes(64), ((0, 0, 0), (8, 1, 0), (16, 2, 0)), (), (2,))
        return (lambda: made) if dtype == out else None


@pytest.fixture
def blocks(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many blocks kernels are launched with."""
    chosen = [48]
    executable = planning.kernel_cache.executable

    def find(backend: Any, kernel: Any, binding: Any) -> Any:
        return Executable(kernel, chosen[0]) if backend.device == 0 else executable(backend, kernel, binding)

    monkeypatch.setattr(planning.kernel_cache, "executable", find)
    monkeypatch.setattr(planning.kernel_cache, "prepare", lambda wanted: None)
    monkeypatch.setattr(_runtime, "Program", Recorder)
    yield chosen


def steps(*tensors: pyasc.Tensor) -> list[tuple[Any, ...]]:
    tape = linearise([evaluate.owner(t).node for t in tensors])
    backend = Device(load("910B1"), evaluate.backend("cpu"))
    program: Any = planning.plan(tape, backend).program
    return list(program.steps)


def kinds(made: list[tuple[Any, ...]]) -> list[str]:
    return [s[0] for s in made if s[0] not in ("free", "alias")]


def floats(*shape: int) -> pyasc.Tensor:
    return pyasc.array(np.ones(shape, np.float32))


def test_what_a_kernel_reads_is_there(blocks: list[int]) -> None:
    x, y = floats(100), floats(100)
    made = kinds(steps(x + y * 2))
    assert made == ["device_allocate", "upload", "upload", "device_launch"]


def test_a_value_is_uploaded_once(blocks: list[int]) -> None:
    x = floats(64, 64)
    made = kinds(steps(x.sum(axis=0) + 1, x.sum(axis=1) - 1))
    assert made.count("upload") == 1
    assert made.count("device_launch") == 2


def test_what_the_host_reads_is_sent_for_behind_its_kernel(blocks: list[int]) -> None:
    """Sorting is the host's. Its input leaves the device at once, its output is uploaded for what follows."""
    x, later = floats(100), floats(100)
    made = kinds(steps(pyasc.sort(x * 2) + later))
    assert made == [
        "device_allocate", "upload", "device_launch", "download",
        "upload",  # `later`, while the host sorts
        "allocate", "call",
        "upload", "device_launch", "written",  # over what was sorted, which nothing else needs
    ]  # fmt: skip


def test_products_stay_on_the_device(blocks: list[int]) -> None:
    a, b = floats(32, 16), floats(16, 8)
    made = steps((a @ b) + 1)
    assert next(s[1] for s in made if s[0] == "device_launch") == "product"
    assert kinds(made).count("device_launch") == 2
    assert not {"call", "download", "allocate"} & set(kinds(made))


def test_small_kernels_run_side_by_side(blocks: list[int]) -> None:
    blocks[0] = 8
    x, y = floats(40), floats(50)
    lanes = [s[3] for s in steps(x * 2, y * 3) if s[0] == "device_launch"]
    assert sorted(lanes) == [0, 1]


def test_kernels_that_fill_the_chip_run_one_after_another(blocks: list[int]) -> None:
    x, y = floats(40), floats(50)
    lanes = [s[3] for s in steps(x * 2, y * 3) if s[0] == "device_launch"]
    assert lanes == [0, 0]


def test_what_depends_on_a_kernel_stays_in_its_lane(blocks: list[int]) -> None:
    blocks[0] = 8
    x, y = floats(40, 7), floats(50, 7)
    made = steps(x.max(axis=0).sum(), y.max(axis=0).sum())
    lane_of: dict[int, int] = {}
    lanes = []
    for _, _, _, lane, _, _, pointers, _, outputs, *_ in (s for s in made if s[0] == "device_launch"):
        lanes.append(lane)
        read = {lane_of[slot] for _, slot, _ in pointers if slot in lane_of}
        assert read <= {lane}
        lane_of.update(dict.fromkeys(outputs, lane))
    assert sorted(lanes) == [0, 0, 1, 1]


def test_an_update_carries_the_rest_over_on_the_device(blocks: list[int]) -> None:
    x = floats(10, 10)
    kept = x + 0
    pyasc.sync(kept)
    y = kept[:]
    before = kept * 1
    y[2:5] = 7.0
    made = kinds(steps(kept, before))
    assert "copy" not in made
    assert "call" not in made


@pytest.mark.parametrize("dtype", ["float16", "int32", "bool", "int64"])
def test_explain_says_what_is_copied(blocks: list[int], dtype: str) -> None:
    """The copies that `explain` shows are the uploads and downloads of the plan."""
    x = pyasc.array(np.arange(20).astype(dtype))
    y = pyasc.sort(pyasc.where(x > 3, x, x)) + x
    tape = linearise([y.node])
    backend = Device(load("910B1"), evaluate.backend("cpu"))
    cut, kernels = planning.compile_tape(tape, backend)
    made = planning.plan(tape, backend)
    program: Any = made.program
    counted = kinds(program.steps)
    found = transfers(tape, cut, kernels, backend)
    assert counted.count("upload") == sum(t.device == 0 for t in found)
    assert counted.count("download") == sum(t.device == -1 for t in found)
