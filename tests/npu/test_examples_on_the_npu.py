"""Every example on an NPU, chosen by the environment as a user does, does what it says."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest
import test_examples
import test_examples_of_kernels
from standin.toolkit import Toolkit

USUAL = ("test_add", "test_gelu")
ALL = [
    name
    for name, function in vars(test_examples).items()
    if name.startswith("test_") and inspect.signature(function).parameters.keys() <= {"tmp_path"}
]


@pytest.fixture(autouse=True)
def environment(toolkit: Toolkit, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Of the examples' processes."""
    for name, value in toolkit.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PYASC_BACKEND", "npu")
    monkeypatch.setenv("STANDIN_DELAY_US", "100")
    yield


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in USUAL else pytest.mark.full) for n in ALL])
def test_example(name: str, tmp_path: Path) -> None:
    function = getattr(test_examples, name)
    function(*[tmp_path] if "tmp_path" in inspect.signature(function).parameters else [])


@pytest.mark.full
def test_kernels() -> None:
    test_examples_of_kernels.check_printed("npu")
