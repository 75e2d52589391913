"""`pyasc.export`: the project that is written builds for the simulator and gives the golden data."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyasc

RNG = np.random.default_rng(7)
needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="no make")


def normal(*shape: int, dtype: Any = np.float32) -> Any:
    return RNG.normal(size=shape).astype(dtype)


def simulate(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", "simulate"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHON": sys.executable},
    )


@needs_make
def test_a_python_without_pyasc_is_named(tmp_path: Path) -> None:
    folder = pyasc.export(fma, normal(3), normal(3), 0.5, folder=tmp_path / "fma")
    done = subprocess.run(
        ["make", "simulate", "PYTHON=/nowhere/python"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode
    assert "expected pyasc in /nowhere/python, found none; say PYTHON=" in done.stdout
    assert not (folder / "build").exists()


def check(folder: Path) -> str:
    done = simulate(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "PASSED" in done.stdout
    return done.stdout


def fma(a: Any, b: Any, k: float) -> Any:
    """A product and a sum."""
    return a * b + k


def softmax(x: Any) -> Any:
    e = pyasc.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def layer(x: Any, weights: Any, bias: Any) -> Any:
    return pyasc.maximum(x @ weights + bias, 0)


@needs_make
def test_a_fused_kernel(tmp_path: Path) -> None:
    folder = pyasc.export(fma, normal(33, 70), normal(33, 70), 0.5, folder=tmp_path / "fma")
    assert folder == tmp_path / "fma"
    files = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}
    (kernel,) = (folder / "kernels").iterdir()
    assert files >= {
        "README.md",
        "CMakeLists.txt",
        "Makefile",
        "src/main.asc",
        "data/a.bin",
        "data/result.bin",
    }
    text = kernel.read_text()
    assert "GM_ADDR a, GM_ADDR b, GM_ADDR result" in text and "<<<" in text and "tiling." in text
    assert "dav-2201" in (folder / "CMakeLists.txt").read_text()
    assert "A product and a sum." in (folder / "README.md").read_text()
    assert "result" in check(folder)


@needs_make
def test_the_host_computes_the_tiling(tmp_path: Path) -> None:
    """The launch function takes sizes, and what it fills in is what `bind` gives."""
    folder = pyasc.export(fma, normal(33, 70), normal(33, 70), 0.5, folder=tmp_path)
    (kernel,) = (folder / "kernels").iterdir()
    host = kernel.read_text().partition("// --- host")[2]
    assert "int64_t n0" in host and "tiling." in host
    assert "n0" in host.partition("{")[2], "the sizes are used"


@needs_make
def test_several_kernels_and_dtypes(tmp_path: Path) -> None:
    x, w, bias = (
        normal(40, 64, dtype=np.float16),
        normal(64, 48, dtype=np.float16),
        normal(48, dtype=np.float16),
    )
    folder = pyasc.export(layer, x, w, bias, folder=tmp_path / "layer", name="dense")
    assert len(list((folder / "kernels").iterdir())) == 2
    assert "add_executable(dense" in (folder / "CMakeLists.txt").read_text()
    check(folder)


@needs_make
def test_a_row_kernel_for_another_chip(tmp_path: Path) -> None:
    folder = pyasc.export(softmax, normal(50, 300), folder=tmp_path, chip="910B3")
    assert "910B3" in (folder / "README.md").read_text()
    assert ",20,40" in (folder / "Makefile").read_text()
    check(folder)


@needs_make
def test_wrong_results_fail(tmp_path: Path) -> None:
    folder = pyasc.export(fma, normal(8, 8), normal(8, 8), 0.5, folder=tmp_path)
    golden = folder / "data" / "result.bin"
    data = np.fromfile(golden, np.float32)
    data[11] += 1
    data.tofile(golden)
    done = simulate(folder)
    assert done.returncode != 0 and "1 WRONG, first at 11" in done.stdout and "FAILED" in done.stdout
    assert f"(expected {data[11]:.9g}, given " in done.stdout
    golden.write_bytes(b"cut")
    assert "expected 256 bytes in data/result.bin, given 3" in simulate(folder).stderr
    golden.unlink()
    assert "expected the file data/result.bin, which cannot be read" in simulate(folder).stderr


def test_what_a_user_has_in_the_folder_stays(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    with pytest.raises(ValueError, match=r"README\.md of its own"):
        pyasc.export(fma, normal(8), normal(8), 0.5, folder=tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["README.md"]
    assert (tmp_path / "README.md").read_text() == "mine"
    (tmp_path / "README.md").rename(tmp_path / "notes.md")
    for _ in range(2):  # the second over the first
        pyasc.export(fma, normal(8), normal(8), 0.5, folder=tmp_path)
    assert (tmp_path / "notes.md").read_text() == "mine"


@needs_make
def test_a_mistake_in_the_kernel_is_found(tmp_path: Path) -> None:
    folder = pyasc.export(fma, normal(8, 8), normal(8, 8), 0.5, folder=tmp_path)
    (kernel,) = (folder / "kernels").iterdir()
    text = kernel.read_text()
    assert "WaitFlag<HardEvent::MTE2_V>" in text
    lines = [line for line in text.splitlines() if "WaitFlag<HardEvent::MTE2_V>" not in line]
    kernel.write_text("\n".join(lines))
    done = simulate(folder)
    assert done.returncode != 0 and "Expected" in done.stdout + done.stderr


def test_host_steps_are_named(tmp_path: Path, mistake: Any) -> None:
    def mixed(v: Any) -> Any:
        return pyasc.sort(v * 2) + 1

    with mistake(NotImplementedError, "[export]", "910B1", "sort"):
        pyasc.export(mixed, normal(8), folder=tmp_path)
    with mistake(NotImplementedError, "[export]", "float64 has no vector instructions"):
        pyasc.export(fma, normal(8, dtype=float), normal(8, dtype=float), 0.5, folder=tmp_path)
    assert not list(tmp_path.iterdir()), "nothing was written"


def test_progress_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pyasc.export(fma, normal(8), normal(8), 0.5, folder=tmp_path, progress=True)
    assert "export: ▪" in capsys.readouterr().err
    pyasc.export(fma, normal(8), normal(8), 0.5, folder=tmp_path, progress=False)
    assert capsys.readouterr().err == ""
