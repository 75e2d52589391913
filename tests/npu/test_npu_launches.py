"""The block of arguments of a launch on a device, read as a device does: by the kernel's own parameters."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyasc
from pyasc.backend.ascend.arguments import patched
from pyasc.backend.ascend.generated import Bound, Generated
from pyasc.backend.base import DeviceLaunch
from pyasc.backend.npu.launch import device_launch
from pyasc.backend.sim import backend as simulated

Array = np.ndarray[Any, Any]


class Blocks:
    """Runs kernels of the simulator by blocks of arguments."""

    def __init__(self) -> None:
        self.launches: list[DeviceLaunch] = []

    def run(
        self, module: Any, generated: Generated, bound: Bound, buffers: list[Array], scalars: list[int]
    ) -> None:
        made = device_launch(None, generated, bound)  # type: ignore[arg-type]
        self.launches.append(made)
        assert 0 < made.blocks <= 65535 and len(made.arguments) % 8 == 0
        own = [np.zeros(made.workspace[1], np.uint8)] if made.workspace else []
        own += [np.zeros((made.blocks, 8), np.int64)] if made.status >= 0 else []
        addresses = {at: (buffers[operand], offset) for at, operand, offset in made.pointers}
        places = [made.workspace[0]] if made.workspace else []
        places += [made.status] if made.status >= 0 else []
        addresses |= {at: (buffer, 0) for at, buffer in zip(places, own, strict=True)}
        data = patched(made.arguments, made.patches, scalars)
        arguments: list[Any] = []
        at = 0
        for size, pointer in module.parameters(generated.name):
            if pointer:
                buffer, offset = addresses.pop(at)
                assert not any(data[at : at + 8])
                arguments.append(buffer.view(np.uint8).reshape(-1)[offset:] if offset else buffer)
                at += 8
            else:
                arguments.append(data[at : at + size])
                at += size
        assert not addresses and not any(data[at:]) and len(data) - at < 8
        assert set(made.outputs) == {p.operand for p in generated.parameters if p.kind == "output"}
        module.run(made.blocks, arguments, cores=generated.cores)


@pytest.fixture
def blocks(monkeypatch: pytest.MonkeyPatch) -> Blocks:
    made = Blocks()
    monkeypatch.setattr(simulated, "launch", made.run)
    return made


def on_the_chip(function: Callable[..., Any], *arrays: Array) -> Array:
    with pyasc.backend("sim"):
        return np.asarray(function(*map(pyasc.asarray, arrays)))


def test_scalars_of_every_kind(blocks: Blocks) -> None:
    x = np.arange(-6, 6, dtype=np.float32)
    for dtype, value in (("float32", 2.5), ("uint8", 200), ("int32", -70000)):
        a = np.abs(x).astype(dtype)
        given = on_the_chip(lambda t, v=value: t + v, a)
        np.testing.assert_array_equal(given, a + np.asarray(value, dtype))
    assert {p.form for made in blocks.launches for p in made.patches} == {"bits", "uint8", "int32"}


def test_workspace(blocks: Blocks) -> None:
    x = np.ones((1, 1 << 19), np.float32)
    assert on_the_chip(lambda t: pyasc.sum(t), x) == 1 << 19
    (made,) = blocks.launches
    assert made.workspace is not None and made.workspace[1] >= 32 and made.status == -1


def test_status(blocks: Blocks) -> None:
    x, index = np.arange(100, dtype=np.float32), np.arange(99, -1, -1, dtype=np.int32)
    np.testing.assert_array_equal(on_the_chip(lambda t, i: t[i], x, index), x[index])
    assert any(made.status >= 0 for made in blocks.launches)


def test_products_and_their_offsets() -> None:
    from pyasc.backend.ascend.product import described
    from pyasc.lazy.backends import generator

    half = np.dtype(np.float16)
    found = generator().product([((3, 5), (8, 1)), ((5, 4), (4, 1))], (3, 4), half)
    assert found is not None and described([((3, 5), (-8, 1)), ((5, 4), (4, 1))], (3, 4), half) is None
    made = device_launch(None, found, found.bind(None), (10, 0, 7))  # type: ignore[arg-type]
    assert made.pointers == ((0, 0, 20), (8, 1, 0), (16, 2, 14)) and made.outputs == (2,)
    whole = ctypes.sizeof(ctypes.c_int64) * (3 + 4) + 4 * (len(found.fields) - 4)
    assert len(made.arguments) == -(-whole // 8) * 8 and not made.patches
