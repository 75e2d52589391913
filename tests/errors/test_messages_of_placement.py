"""What is said where arrays are on several devices, and where a device failed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from mistakes import Mistake, check, label, x

import pyasc
from pyasc.lazy import device_errors, placement
from pyasc.lazy.events import Note
from pyasc.ops import _graph


@dataclass
class Placed:
    """What is known of a buffer on a device without one."""

    device: int
    committed: bool = True


def placed(call: Callable[[Any, Any], Any]) -> Any:
    """A call with an array on each of two devices."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(placement, "_placed", True)
        return call(on(0), on(1))


def on(device: int) -> Any:
    return _graph.tensor(_graph.leaf(Placed(device), (3,), np.dtype(np.float32)))


def fail(**details: Any) -> None:
    known = {"call": "aclrtSynchronizeStream", "code": 507035, "message": "core 3", "text": "an exception"}
    raise device_errors.error_of(SimpleNamespace(**known, device=0, **details))  # type: ignore[arg-type]


MISTAKES = [
    Mistake(RuntimeError, ("npu:0 and npu:1", "to_device"), lambda: placed(lambda v, w: pyasc.sync(v + w))),
    Mistake(RuntimeError, ("npu:0 and npu:1", "to_device"), lambda: placed(pyasc.jit(lambda v, w: v))),
    Mistake(RuntimeError, ("an exception", "507035", "core 3"), lambda: fail(lost=False, launches=[])),
]


@pytest.mark.parametrize("entry", MISTAKES, ids=label)
def test_message(entry: Mistake, mistake: Callable[..., Any]) -> None:
    check(entry, mistake)


def test_a_lost_device_has_to_be_reset() -> None:
    with pytest.raises(pyasc.errors.DeviceError, match=r"reset_device\('npu:0'\)"):
        fail(lost=True, launches=[])


def test_the_kernels_that_may_be_meant() -> None:
    """By run and label, with what they were given and where they were recorded."""
    notes = [Note("kernel", f"add_{n}", "npu:0", n, 12, n, f"float32[{n}]") for n in range(5)]
    where = (fail.__code__, 0)
    device_errors.runs.append(device_errors.Run(7, notes, [where] * 5))
    try:
        with pytest.raises(pyasc.errors.DeviceError) as one:
            fail(lost=False, launches=[(7, 3)])
        assert "in the kernel add_3(float32[3])" in str(one.value)
        assert "test_messages_of_placement.py" in str(one.value).splitlines()[-1]
        with pytest.raises(pyasc.errors.DeviceError) as many:
            fail(lost=False, launches=[(7, n) for n in range(5)])
        text = str(many.value)
        assert "launch_blocking" in text
        assert "add_0(float32[0]) at" in text
        assert "and 2 more" in text
    finally:
        device_errors.runs.pop()


def test_what_was_put_nowhere_runs_anywhere() -> None:
    assert float((x(3) + 1).sum()) == 6
