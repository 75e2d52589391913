"""Marks for msprof: which library, when, and the names; a substitute records what is called."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from standin.toolkit import Toolkit

import pyasc
from pyasc.backend import _runtime
from pyasc.backend.npu import toolkit as found_toolkit
from pyasc.lazy import marks
from pyasc.lazy.events import Note

SUBSTITUTE = """
#include <stdint.h>
#include <stdio.h>
static char said[4096]; static int at; static uint64_t last;
uint64_t mstxRangeStartA(const char* name, void* stream) {
    at += snprintf(said + at, sizeof said - at, "begin %s %d\\n", name, stream != 0);
    return ++last;
}
void mstxRangeEnd(uint64_t range) { at += snprintf(said + at, sizeof said - at, "end %d\\n", (int)range); }
const char* calls(void) { return said; }
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mstx")
    (folder / "mstx.c").write_text(SUBSTITUTE)
    target = folder / "lib64" / marks.LIBRARY
    target.parent.mkdir()
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(target), str(folder / "mstx.c")], check=True)
    return target


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[int, int]]]:
    """What the runtime is given, for a decision made anew."""
    addresses: list[tuple[int, int]] = []
    monkeypatch.setattr(_runtime, "device_set_marks", lambda *pair: addresses.append(pair), raising=False)
    monkeypatch.delenv("PROFILER_SAMPLECONFIG", raising=False)
    marks.on.cache_clear()
    yield addresses
    marks.on.cache_clear()


def use(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    monkeypatch.setattr(found_toolkit, "find", lambda: SimpleNamespace(root=root))


def test_only_where_msprof_listens(monkeypatch: pytest.MonkeyPatch, library: Path, given: list[Any]) -> None:
    use(monkeypatch, library.parent.parent)
    assert not marks.on() and not given
    marks.on.cache_clear()
    monkeypatch.setenv("PROFILER_SAMPLECONFIG", "{}")
    assert marks.on() and len(given) == 1 and all(given[0])
    begin = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_char_p, ctypes.c_void_p)(given[0][0])
    assert begin(b"by hand", None) == 1
    marks.on.cache_clear()
    with pyasc.config.override(marks="off"):
        assert not marks.on()


def test_without_the_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, given: list[Any]) -> None:
    use(monkeypatch, tmp_path)
    with pytest.warns(RuntimeWarning, match=f"expected {marks.LIBRARY}"), pyasc.config.override(marks="on"):
        assert not marks.on() and not given
        marks.on.cache_clear()
        (tmp_path / "lib64").mkdir()
        (tmp_path / "lib64" / marks.LIBRARY).write_bytes(b"no library")
        assert not marks.on() and not given


def test_names() -> None:
    code = test_names.__code__
    notes = [Note("kernel", "add_exp", "npu:0", 0, 8), Note("host", "sort", "cpu", 1, 8)]
    first = code.co_firstlineno
    (add, sort) = marks.names(notes, [(code, 0), None])
    assert add == f"add_exp {Path(__file__).name}:{first}" and sort == "sort"


def test_each_launch_is_a_range(npu: Any, toolkit: Toolkit, library: Path, run_python: Any) -> None:
    """In a process of its own: what is decided stays."""
    target = toolkit.home / "lib64" / marks.LIBRARY
    target.symlink_to(library)
    try:
        code = f"""
        import ctypes, numpy as np, pyasc
        x = pyasc.asarray(np.ones(8, np.float32)) * 3
        print(x.numpy()[0])
        calls = ctypes.CDLL({str(target)!r}).calls
        calls.restype = ctypes.c_char_p
        print(calls().decode())
        """
        environment = toolkit.environment() | {"PYASC_BACKEND": "npu:0", "PROFILER_SAMPLECONFIG": "{}"}
        said = run_python(code, **environment).stdout.split("\n")
    finally:
        target.unlink()
    assert said[0] == "3.0"
    assert said[1].startswith("begin mul") and said[1].endswith(" 1") and ":" in said[1]
    assert said[2] == "end 1" and not said[3]
