"""Compiling and caching: one compile for a bucket, none for a fresh process, damaged and closed folders."""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyasc

# Prints the number of compiles and of kernels read from disk.
PROGRAM = """
    import sys, numpy as np, pyasc
    a = np.linspace(0, 1, 4000, dtype=np.float32).reshape(40, 100)
    x = pyasc.array(a)
    y = pyasc.sqrt(x * x + 3) - x[::-1]
    z = (y * y).sum(axis=1)
    expected = np.sqrt(a * a + 3) - a[::-1]
    np.testing.assert_allclose(np.asarray(y), expected, rtol=1e-6)
    np.testing.assert_allclose(np.asarray(z), (expected * expected).sum(axis=1), rtol=1e-5)
    print(pyasc.cache_stats()["compiles"], pyasc.cache_stats()["disk_hits"])
"""


def counts(result: Any) -> tuple[int, int]:
    compiles, disk_hits = result.stdout.split()[-2:]
    return int(compiles), int(disk_hits)


def entries(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*") if p.is_file() and p.stat().st_size > 0)


# --- buckets --------------------------------------------------------------------------------------
def test_two_hundred_shapes_in_one_bucket_compile_once() -> None:
    def distinct(x: Any) -> Any:
        return pyasc.tanh(x * 1.25 + 0.75) - x * x * x

    pyasc.sync(distinct(pyasc.ones(100_000)))
    before = pyasc.cache_stats()["compiles"]
    for n in range(99_900, 100_100):
        y = distinct(pyasc.ones(n))
        pyasc.sync(y)
        assert y.shape == (n,)
    assert pyasc.cache_stats()["compiles"] == before
    a = np.float32(1)
    np.testing.assert_allclose(np.asarray(y), np.tanh(a * 1.25 + 0.75) - 1, rtol=1e-6)


@pytest.mark.parametrize("n", [12, 100, 3000, 700_000])
def test_sizes_within_a_fifth_share_a_kernel(n: int) -> None:
    """Two neighbours 1.2 times apart meet at most one border between buckets."""

    def distinct(x: Any) -> Any:
        return (x * 3 - 1) * (x + 0.125) / (x + 7)

    pyasc.clear_cache(memory=True, disk=True)
    before = pyasc.cache_stats()["compiles"]
    for k in np.unique(np.linspace(n, 1.2 * n, 40).astype(int)):
        pyasc.sync(distinct(pyasc.ones(int(k))))
    assert pyasc.cache_stats()["compiles"] - before <= 2


def test_rows_and_columns_in_one_bucket_compile_once() -> None:
    def softmax(x: Any) -> Any:
        e = pyasc.exp(x - x.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    pyasc.sync(softmax(pyasc.ones((500, 300))))
    before = pyasc.cache_stats()["compiles"]
    for k in range(12):
        y = softmax(pyasc.ones((495 + k, 297 + k)))
        np.testing.assert_allclose(np.asarray(y), 1 / (297 + k), rtol=1e-6)
    assert pyasc.cache_stats()["compiles"] == before


def test_jit_traces_once_per_bucket() -> None:
    traced = itertools.count(1)

    @pyasc.jit
    def f(x: Any) -> Any:
        next(traced)
        return x * 2 + 1

    for _ in range(4):
        f(pyasc.ones(1000))
    assert next(traced) == 2
    info = f.cache_info()
    assert info.misses >= 1 and info.hits >= 3


# --- what makes another kernel, and what does not -------------------------------------------------
def test_another_value_is_no_other_kernel() -> None:
    x = pyasc.ones(50)
    pyasc.sync(x * 1.5 + 0.25)
    before = pyasc.cache_stats()["compiles"]
    for k in range(10):
        pyasc.sync(x * (k + 0.125) + k)
    assert pyasc.cache_stats()["compiles"] == before


def test_another_dtype_is_another_kernel() -> None:
    results = []
    for dtype in ("float32", "float64", "int32", "float16"):
        results.append(np.asarray(pyasc.full(9, 3, dtype=dtype) * 5 - 1))
    assert [r.dtype.name for r in results] == ["float32", "float64", "int32", "float16"]
    assert all((r == 14).all() for r in results)


def test_a_changed_option_is_another_kernel() -> None:
    a = np.linspace(0.1, 5, 1000, dtype=np.float32)
    exact = np.asarray(pyasc.array(a) * 3 + 1)
    before = pyasc.cache_stats()["misses"]
    pyasc.config.fast_math = True
    try:
        fast = np.asarray(pyasc.array(a) * 3 + 1)
        assert pyasc.cache_stats()["misses"] > before, "the option does not reach the kernel's key"
    finally:
        pyasc.config.fast_math = False
    np.testing.assert_allclose(fast, exact, rtol=1e-6)
    np.testing.assert_array_equal(np.asarray(pyasc.array(a) * 3 + 1), exact)


def test_another_chip_or_generator_is_another_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code made for another processor, or by another version of the generator, is not run."""
    from pyasc.lazy import evaluate

    x = pyasc.ones(83)
    pyasc.sync(x * 1.5 + x)
    pyasc.clear_cache(memory=True, disk=False)
    before = pyasc.cache_stats()["compiles"]
    pyasc.sync(x * 1.5 + x)
    assert pyasc.cache_stats()["compiles"] == before
    pyasc.clear_cache(memory=True, disk=False)
    monkeypatch.setattr(type(evaluate.backend()), "fingerprint", lambda self: "another chip")
    pyasc.sync(x * 1.5 + x)
    assert pyasc.cache_stats()["compiles"] > before


def test_clear_cache() -> None:
    x = pyasc.ones(77)
    pyasc.sync(x * 2.5 - 0.5)
    pyasc.clear_cache(memory=True, disk=False)
    before = pyasc.cache_stats()
    pyasc.sync(x * 2.5 - 0.5)
    after = pyasc.cache_stats()
    assert after["disk_hits"] > before["disk_hits"] and after["compiles"] == before["compiles"]
    pyasc.clear_cache(memory=True, disk=True)
    pyasc.sync(x * 2.5 - 0.5)
    assert pyasc.cache_stats()["compiles"] > after["compiles"]


# --- between processes ----------------------------------------------------------------------------
def test_a_fresh_process_compiles_nothing(run_python: Any) -> None:
    first, second = counts(run_python(PROGRAM)), counts(run_python(PROGRAM))
    assert first[0] > 0
    assert second[0] == 0 and second[1] > 0


def test_eight_processes_on_one_cold_folder(tmp_path: Path) -> None:
    import textwrap

    environment = {**os.environ, "PYASC_CACHE_DIR": str(tmp_path / "cache")}
    children = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(PROGRAM)],
            env=environment,
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(8)
    ]
    for child in children:
        out, err = child.communicate(timeout=180)
        assert child.returncode == 0, err
        assert err == ""
        assert len(out.split()) == 2
    assert entries(tmp_path / "cache")


def test_a_process_killed_in_the_middle(run_python: Any, tmp_path: Path) -> None:
    import textwrap

    code = textwrap.dedent("""
        import pyasc
        print("ready", flush=True)
        for k in range(1000):
            x = pyasc.ones(9 + k)
            for j in range(k % 60):
                x = pyasc.sqrt(x + j) if j % 2 else x * x
            pyasc.sync(x)
    """)
    environment = {**os.environ, "PYASC_CACHE_DIR": str(tmp_path / "cache")}
    for delay in (0.05, 0.2, 0.4):
        child = subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE)
        assert child.stdout is not None and child.stdout.readline()
        time.sleep(delay)
        child.send_signal(signal.SIGKILL)
        child.communicate()
    run_python(PROGRAM)
    assert counts(run_python(PROGRAM))[0] == 0


def damage(path: Path, how: str) -> None:
    content = path.read_bytes()
    if how == "truncated":
        content = content[: len(content) // 2]
    elif how == "empty":
        content = b""
    elif how == "one byte":
        at = random.Random(0).randrange(len(content))
        content = content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1 :]
    elif how == "foreign":
        content = b"\x80\x04cos\nsystem\n" * 40
    else:
        content = content + b"more"
    path.write_bytes(content)


def test_a_damaged_entry_is_a_miss(run_python: Any, tmp_path: Path) -> None:
    run_python(PROGRAM)
    for how in ("truncated", "empty", "one byte", "foreign", "longer"):
        files = entries(tmp_path / "cache")
        assert files
        for path in files:
            damage(path, how)
        damaged = {path: path.read_bytes() for path in files}
        assert counts(run_python(PROGRAM))[0] > 0, how
        left = [path for path, content in damaged.items() if path.exists() and path.read_bytes() == content]
        assert not left, f"{how}: the damaged entry was not replaced"
    assert counts(run_python(PROGRAM))[0] == 0


def test_swapped_entries_are_misses(run_python: Any, tmp_path: Path) -> None:
    """A whole file under another kernel's name."""
    run_python(PROGRAM)
    files = entries(tmp_path / "cache")
    contents = [p.read_bytes() for p in files]
    for path, content in zip(files, contents[1:] + contents[:1], strict=True):
        path.write_bytes(content)
    run_python(PROGRAM)


@pytest.mark.parametrize("place", ["file", "below a file", "missing"])
def test_a_folder_that_cannot_be_written(place: str, run_python: Any, tmp_path: Path) -> None:
    blocked = tmp_path / "blocked"
    if place == "missing":
        folder = Path("/proc/none/cache")
    else:
        blocked.write_text("a file")
        folder = blocked if place == "file" else blocked / "cache"
    result = run_python(PROGRAM, PYASC_CACHE_DIR=str(folder))
    assert counts(result)[0] > 0
    assert "Traceback" not in result.stderr


def test_a_read_only_folder(run_python: Any, tmp_path: Path) -> None:
    run_python(PROGRAM)
    cache = tmp_path / "cache"
    folders = [cache, *(p for p in cache.rglob("*") if p.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    try:
        assert counts(run_python(PROGRAM))[0] == 0
        run_python(PROGRAM.replace("+ 3", "+ 3 - x"), check=False)
    finally:
        for folder in folders:
            folder.chmod(0o755)


def test_a_full_disk(run_python: Any) -> None:
    """Writes past the first bytes of a file fail, as on a full disk."""
    code = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))\n"
    import textwrap

    result = run_python(code + textwrap.dedent(PROGRAM))
    assert counts(result)[0] > 0
    assert counts(run_python(PROGRAM))[0] > 0


# --- length ---------------------------------------------------------------------------------------
def long_expression(length: int, x: Any) -> Any:
    for k in range(length // 2):
        x = x * 0.5 if k % 2 else x + (k % 7)
        x = abs(x) if k % 3 else x - 0.25
    return x


def test_a_thousand_operations_are_right() -> None:
    a = np.linspace(-1, 1, 1003, dtype=np.float32)
    x = long_expression(1000, pyasc.array(a))
    np.testing.assert_array_equal(np.asarray(x), long_expression(1000, a))


def test_code_is_linear_in_length() -> None:
    """Four times the operations make four times the code, in kernels that are not larger than their cap."""

    def lines(length: int) -> list[int]:
        kernels = pyasc.explain(long_expression(length, pyasc.ones(100))).kernels
        return [len(kernel.source("llvm").splitlines()) for kernel in kernels]

    short, long = lines(250), lines(1000)
    assert sum(long) < 5 * sum(short)
    assert len(long) <= 3
