"""Messages of measuring tile sizes and of tables of them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mistakes import Mistake, check, label, x

import pyasc


def tuned_without() -> None:
    with pyasc.config.override(tune="off"):
        pyasc.tune(lambda v: v + 1, x(3))


def loaded(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "table.json")
        path.write_text(text)
        pyasc.tuning.load(path)


MISTAKES = [
    Mistake(TypeError, ("[tune]", "int"), lambda: pyasc.tune(3)),
    Mistake(RuntimeError, ("[tune]", "'model'", "'off'"), tuned_without),
    Mistake(OSError, ("[tuning.export]", "/nowhere"), lambda: pyasc.tuning.export("/nowhere/table.json")),
    Mistake(ValueError, ("[tuning]", "'910B1'", "'930'"), lambda: pyasc.tuning.export("table.json", "930")),
    Mistake(OSError, ("[tuning.load]", "/nowhere"), lambda: pyasc.tuning.load("/nowhere/table.json")),
    Mistake(ValueError, ("[tuning.load]", "another file"), lambda: loaded("{")),
    Mistake(
        ValueError,
        ("[tuning.load]", "'pyasc tuning 7'"),
        lambda: loaded('{"format": "pyasc tuning 7", "chip": "910B1", "checksum": "", "kernels": {}}'),
    ),
    Mistake(
        ValueError,
        ("[tuning.load]", "damaged"),
        lambda: loaded('{"format": "pyasc tuning 1", "chip": "910B1", "checksum": "", "kernels": {}}'),
    ),
]


@pytest.mark.parametrize("entry", MISTAKES, ids=label)
def test_message(entry: Mistake, mistake: Callable[..., Any]) -> None:
    check(entry, mistake)
