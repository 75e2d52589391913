"""Kernels in point form by their meaning, against the reference interpreter of structured kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
from random_kernels import Array, Case

from pyasc.backend import reference
from pyasc.backend.points import points
from pyasc.backend.points.kernel import Points
from pyasc.backend.points.threads import Trace
from pyasc.backend.structured.verify import verify_structured
from pyasc.backend.verify import verify_binding, verify_kernel


def point_form(case: Case, unroll: int = 32) -> tuple[Points, ...]:
    """The kernels in point form, verified."""
    verify_structured(case.kernel)
    parts = points(Trace(case.kernel, case.binding, unroll).run())
    for part in parts:
        verify_kernel(part.kernel)
        verify_binding(part.kernel, part.binding, part.binding.sizes)
    return parts


def bits(number: Any, dtype: np.dtype[Any]) -> int:
    """A scalar argument as it is passed."""
    return int.from_bytes(np.asarray(number).astype(dtype).tobytes().ljust(8, b"\0"), "little")


def run_points(case: Case, parts: tuple[Points, ...]) -> list[Array]:
    """The buffers afterwards."""
    buffers = case.copies()
    for part in parts:
        numbers = [
            np.frombuffer(np.int64(x).tobytes(), dtype, 1)[0] if held else case.scalars[x]
            for (held, x), dtype in zip(part.scalars, part.kernel.scalars, strict=True)
        ]
        reference.run(part.kernel, part.binding, [buffers[a] for a in part.operands], numbers)
    return buffers


def assert_close(given: list[Array], expected: list[Array], what: object) -> None:
    """Within what the order of a sum makes; integers and bools exactly."""
    for a, b in zip(given, expected, strict=True):
        tolerance = {"f2": 4e-3, "f4": 2e-5}.get(a.dtype.str[1:], 0.0)
        np.testing.assert_allclose(
            a.astype(np.float64), b.astype(np.float64), rtol=tolerance, atol=tolerance * 20, err_msg=str(what)
        )
