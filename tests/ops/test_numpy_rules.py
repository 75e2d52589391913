"""Every elementwise operation under ``promotion="numpy"``: NumPy's dtypes, refusals and values."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import pyasc
from pyasc.ops.registry import Operation, operations

NAMES = [name for name in pyasc.ops.dtypes.DTYPES if name != "bfloat16"]
ENTRIES = [o for o in operations() if o.rule is not None and o.numpy]
VALUES = (0, 1, 2, 3, 5)
EVALUATED = 3  # combinations of dtypes of each operation whose values are compared


@pytest.fixture(autouse=True)
def _numpy_rules() -> Iterator[None]:
    with pyasc.config.override(promotion="numpy"):
        yield


def results(function: Any, *operands: Any) -> list[Any] | None:
    """What a function gives, None where it refuses the dtypes."""
    try:
        with np.errstate(all="ignore"):
            made = function(*operands)
    except TypeError:
        return None
    return list(made) if isinstance(made, tuple | list) else [made]


def names(given: list[Any] | None) -> list[str] | None:
    return None if given is None else [x.dtype.name for x in given]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("entry", [pytest.param(o, id=o.name) for o in ENTRIES])
def test_elementwise(entry: Operation) -> None:
    choices = list(itertools.product(NAMES, repeat=entry.arity))
    start = zlib.crc32(entry.name.encode())
    evaluated = {(start + k * (len(choices) // EVALUATED)) % len(choices) for k in range(EVALUATED)}
    for n, chosen in enumerate(choices):
        arrays = [np.array(VALUES).astype(d) for d in chosen]
        expected = results(entry.numpy[0], *arrays)
        given = results(entry.function, *map(pyasc.array, arrays))
        assert names(given) == names(expected), chosen
        if n not in evaluated or expected is None or given is None:
            continue
        for ours, theirs in zip(given, expected, strict=True):
            # What NumPy gives for the reciprocal of the integer 0 differs from one width to the next.
            kept = slice(1 if entry.name == "reciprocal" and theirs.dtype.kind in "iu" else 0, None)
            tolerance = 8 * float(np.finfo(theirs.dtype).eps) if theirs.dtype.kind == "f" else 0
            np.testing.assert_allclose(ours.numpy()[kept], theirs[kept], rtol=tolerance, err_msg=str(chosen))


@pytest.mark.parametrize("number", [True, 2, 2.0], ids=["bool", "int", "float"])
def test_python_numbers(number: Any) -> None:
    for entry in ENTRIES:
        if entry.arity != 2:
            continue
        for name in NAMES:
            x = np.array(VALUES).astype(name)
            for swap in (False, True):
                pair, ours = [x, number], [pyasc.array(x), number]
                if swap:
                    pair, ours = pair[::-1], ours[::-1]
                expected = names(results(entry.numpy[0], *pair))
                assert names(results(entry.function, *ours)) == expected, (entry.name, name, swap)


@pytest.mark.parametrize("name", NAMES)
def test_logic_is_of_truth_values(name: str) -> None:
    """2 and 4 have no bit in common, and both are true."""
    x, y = np.array([0, 2, 4, 0]).astype(name), np.array([0, 4, 0, 2]).astype(name)
    for function in ("logical_and", "logical_or", "logical_xor"):
        given = getattr(pyasc, function)(pyasc.array(x), pyasc.array(y)).numpy()
        np.testing.assert_array_equal(given, getattr(np, function)(x, y), strict=True)
    np.testing.assert_array_equal(pyasc.logical_not(pyasc.array(x)).numpy(), np.logical_not(x), strict=True)
