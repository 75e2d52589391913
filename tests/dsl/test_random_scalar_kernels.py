"""Random kernels as scalar Ascend C on the simulator: the bits and faults of the reference interpreter."""

from __future__ import annotations

import numpy as np
import pytest
from random_kernels import DTYPES, assert_same, random_kernel

from pyasc.backend.ascend import chip
from pyasc.backend.ascend.scalar.kernel import generate, tune, why_not
from pyasc.backend.base import KernelFault
from pyasc.backend.sim.backend import compiled, launch

CHIP = chip.load("910B1")
TAKEN = [d for d in (*DTYPES, np.dtype(np.uint32), np.dtype(np.uint64)) if d != np.float64]


def check(seed: int) -> None:
    case = random_kernel(seed, dtypes=TAKEN, barriers=seed % 2 == 0, faults=seed % 5 == 0)
    assert why_not(case.kernel, CHIP) == ""
    made = generate(case.kernel, tune(case.kernel, case.binding), CHIP)
    expected, faults = case.expected()
    given = case.copies()
    values = zip(case.kernel.scalars, case.scalars, strict=True)
    scalars = [int.from_bytes(np.asarray(v, d).tobytes(), "little") for d, v in values]
    reported = None
    try:
        launch(compiled(made, None), made, made.bind(case.binding), given, scalars)  # type: ignore[arg-type]
    except KernelFault as fault:
        reported = (fault.code, fault.value)
    assert reported in faults if faults else reported is None
    assert_same(given, expected, seed)


@pytest.mark.parametrize("seed", range(5, 9))
def test_random_kernels_as_scalar_code(seed: int) -> None:
    check(seed)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(100, 300))
def test_many_random_kernels_as_scalar_code(seed: int) -> None:
    check(seed)
