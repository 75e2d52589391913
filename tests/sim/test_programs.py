"""Random programs on the simulated chip give what NumPy gives, bit for bit; no check finds anything."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pyasc

sys.path.insert(0, str(Path(__file__).parent.parent))
import test_fusion as programs

DTYPES = ("int8", "uint16", "int32", "float16", "bfloat16", "float32")
EXAMPLES = int(os.environ.get("PYASC_TEST_EXAMPLES", "2"))


@pytest.mark.parametrize("dtype", DTYPES)
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_equals_numpy(dtype: str, data: st.DataObject) -> None:
    shape = data.draw(st.sampled_from(((1, 1), (4, 6), (37, 53), (300, 257))))
    seed = data.draw(st.integers(0, 2**32))
    record, replay = programs.recorded(data)
    leaves = programs.arrays(dtype, shape, seed)
    expected = programs.grow(record, leaves, np)
    with np.errstate(all="ignore"), pyasc.backend("sim"):
        given_arrays = programs.grow(replay(), [pyasc.asarray(a) for a in leaves], pyasc)
        pyasc.sync(*given_arrays)
    programs.assert_same_bits([np.asarray(g) for g in given_arrays], expected)
