"""The simulator from a user's side: compilers, caches, environment, large shapes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyasc
from pyasc.backend.ascend import chip
from pyasc.backend.sim import build
from pyasc.backend.sim.simulator import Finding, Simulator

RunPython = Callable[..., Any]

KERNEL = """#include "kernel_operator.h"
using namespace AscendC;
extern "C" __global__ __aicore__ void one(GM_ADDR x) {}
"""
TWICE = """
    import numpy as np, pyasc
    with pyasc.backend("sim"):
        x = pyasc.asarray(np.arange(9, dtype=np.float32))
        assert float((x * 2)[4]) == 8
"""


def program(folder: Path, body: str) -> str:
    """A compiler that tells its version and then does something else."""
    path = folder / "compiler"
    path.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo compiler 1 && exit 0\n{body}\n')
    path.chmod(0o755)
    return str(path)


def compile_with(compiler: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", compiler)
    build.compiler.cache_clear()
    try:
        Simulator(chip.load("910B1"), None, folder / "cache").compile(KERNEL, "one").run(
            1, [np.zeros(8, np.float32)]
        )
    finally:
        build.compiler.cache_clear()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("kill -9 $$", "ended by SIGKILL: the machine may be out of memory"),
        ("exit 0", "Expected a compiled kernel from .*compiler, given none"),
        ("exit 7", "ended with 7 and said nothing"),
        ('while [ "$1" != -o ]; do shift; done; echo text > $2', "cannot: .*Set CXX to a compiler for this"),
        ("exec sleep 60", "compiler, which did not end within 1 s"),
    ],
)
def test_a_compiler_that_fails(body: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "LONGEST_S", 1.0)
    with pytest.raises(Finding, match=said) as caught:
        compile_with(program(tmp_path, body), tmp_path, monkeypatch)
    assert caught.value.kind == "compiler"


def test_a_compiler_that_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Finding, match=r"variable CXX, given 'g\+\+-0 -m64': there is no program"):
        compile_with("g++-0 -m64", tmp_path, monkeypatch)
    file = tmp_path / "data"
    file.write_bytes(b"\x7fELF nothing")
    file.chmod(0o755)
    with pytest.raises(Finding, match="which does not run"):
        compile_with(str(file), tmp_path, monkeypatch)


def test_options_after_the_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = program(tmp_path, f'[ "$1" = -DFIRST ] && exec {" ".join(build.find_compiler())} "$@"')
    compile_with(f"{compiler} -DFIRST", tmp_path, monkeypatch)


def test_paths_from_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiler runs in another one: it finds the precompiled header all the same."""
    program(tmp_path, f'echo "$@" >> {tmp_path}/log; exec {" ".join(build.find_compiler())} "$@"')
    monkeypatch.chdir(tmp_path)
    compile_with("./compiler", Path("."), monkeypatch)
    assert f"-I {tmp_path}/cache/simulator/" in (tmp_path / "log").read_text()


def test_no_room_for_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(build.tempfile, "TemporaryDirectory", full)
    with pytest.raises(Finding, match=r"temporary files .* No space left .* Set TMPDIR"):
        compile_with("g++", tmp_path, monkeypatch)


def test_a_header_that_another_process_makes_forever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a while it is done without."""
    import fcntl

    monkeypatch.setattr(build, "PATIENCE_S", 0.1)
    (tmp_path / "cache" / "simulator").mkdir(parents=True)
    with (tmp_path / "cache" / "simulator" / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        compile_with("g++", tmp_path, monkeypatch)
    assert not list(tmp_path.rglob("*.gch"))


def test_a_header_that_cannot_be_kept_is_tried_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[Path] = []

    def full(self: build.Compiler, folder: Path) -> None:
        tried.append(folder)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(build.Compiler, "_precompile", full)
    for _ in range(2):
        compile_with("g++", tmp_path, monkeypatch)
    assert len(tried) == 1


def test_killed_while_the_header_is_made(tmp_path: Path, run_python: RunPython) -> None:
    """The next process makes it, and removes what was left."""
    cache = tmp_path / "cache"
    environment = {**os.environ, "PYASC_CACHE_DIR": str(cache)}
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(TWICE)], env=environment) as child:
        until = time.monotonic() + 60
        while not list(cache.rglob("made.gch")) and child.poll() is None and time.monotonic() < until:
            time.sleep(0.005)
        child.send_signal(signal.SIGKILL)
    assert not list(cache.rglob("kernel_operator.h.gch"))
    run_python(TWICE)
    assert [p.name for p in (cache / "simulator").glob("*/*")] == ["kernel_operator.h.gch"]


def test_the_header_is_kept_in_the_folder_that_is_set(tmp_path: Path, run_python: RunPython) -> None:
    run_python("import pyasc; pyasc.config.cache_dir = 'elsewhere'" + TWICE.replace("\n    ", "\n"))
    assert list((tmp_path / "elsewhere" / "simulator").glob("*/kernel_operator.h.gch"))
    assert not (tmp_path / "cache" / "simulator").exists()


class Foreign:
    """A store whose kernels are of another machine."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    def read(self, kind: str, key: str) -> bytes | None:
        return b"a library for another machine"

    def write(self, kind: str, key: str, data: bytes) -> None:
        self.written.append(data)

    def folder(self) -> Path:
        raise AssertionError("given")


def test_a_kept_kernel_that_cannot_be_loaded_is_compiled_anew() -> None:
    store = Foreign()
    module = Simulator(chip.load("910B1"), store, build.default_folder()).compile(KERNEL, "one")
    module.run(1, [np.zeros(8, np.float32)])
    assert store.written == [module.code]


def test_backends_named_in_the_environment(run_python: RunPython) -> None:
    said = run_python("import pyasc", PYASC_BACKEND="gpu", check=False).stderr
    assert "expected 'cpu', 'sim'" in said and "given 'gpu' in the environment variable PYASC_BACKEND" in said
    assert run_python("import pyasc; print(pyasc.config.backend)", PYASC_BACKEND="").stdout == "cpu\n"
    said = run_python("import pyasc; print(pyasc.ones(3) + 1)", PYASC_BACKEND="sim:910B3").stdout
    assert said == "[2. 2. 2.]\n"


def test_axes_beyond_32_bits_run_on_the_host() -> None:
    """And the chip has what is merely large."""
    rows = pyasc.cost(
        lambda a, b: a + b, pyasc.empty((2**16 + 1, 2**15), pyasc.int8), pyasc.empty(2**15, pyasc.int8)
    )
    assert len(rows.kernels) == 1 and not rows.host
    flat = pyasc.cost(lambda a: a + 1, pyasc.empty(2**31, pyasc.int8))
    assert not flat.kernels and "2**31 - 1" in flat.host[0].reason


def test_runs_leave_nothing_behind() -> None:
    x = pyasc.asarray(np.random.default_rng(0).standard_normal((100, 70)).astype(np.float32))

    def once() -> tuple[int, int]:
        with pyasc.backend("sim"):
            np.asarray(pyasc.exp(x) + x.sum(axis=1, keepdims=True))
            with pytest.raises(IndexError):
                np.asarray(x[pyasc.asarray([5, 999])])
        return len(os.listdir("/proc/self/fd")), int(pyasc.memory_stats()["used"])

    once()
    first = once()
    assert all(once() == first for _ in range(20))
