"""A process that finds its kernels on disk: no LLVM in it, whatever became of the cache's folder."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyasc
from pyasc.backend import _runtime
from pyasc.backend.cpu import generate, target
from pyasc.backend.cpu.backend import CPU
from pyasc.backend.cpu.target import Host, host

# A chain, rows, columns, a split reduction, a transpose, a stencil, a product, a library function, float16.
PROGRAM = """
    import sys
    import numpy as np, pyasc
    x = pyasc.asarray(np.linspace(0.1, 1, 6000, dtype=np.float32).reshape(60, 100))
    results = [
        pyasc.sqrt(pyasc.exp(x * 0.5 + x) - 0.25), (x * 2).sum(axis=1), (x * 2).sum(axis=0),
        pyasc.ones(1 << 20).sum(), x[:60, :60] + x[:60, :60].T, x[1:] - x[:-1], x @ x.T,
        pyasc.sin(x.astype(pyasc.float64)), x.astype(pyasc.float16) + 1, pyasc.argmax(x, axis=0),
    ]
    values = [r.numpy() for r in results]
    stats = pyasc.cache_stats()
    print(stats["compiles"], stats["disk_hits"], "llvmlite" in sys.modules)
    np.savez(sys.argv[1], *values)
"""

RunPython = Callable[..., Any]


def ran(run_python: RunPython, out: Path, **environment: str) -> tuple[int, int, bool]:
    """Compilations, kernels found on disk, and whether LLVM was loaded."""
    compiles, hits, llvm = run_python(PROGRAM, str(out), **environment).stdout.split()
    return int(compiles), int(hits), llvm == "True"


def equal(first: Path, second: Path) -> bool:
    with np.load(first) as a, np.load(second) as b:
        return all(np.array_equal(a[name], b[name]) for name in a.files)


def test_a_second_process_needs_no_llvm(run_python: RunPython, tmp_path: Path) -> None:
    first, second = tmp_path / "1.npz", tmp_path / "2.npz"
    compiles, _, llvm = ran(run_python, first)
    assert compiles > 0 and llvm
    assert ran(run_python, second) == (0, compiles, False)
    assert equal(first, second)


def test_without_what_was_remembered_of_the_processor(run_python: RunPython, tmp_path: Path) -> None:
    first, second = tmp_path / "1.npz", tmp_path / "2.npz"
    compiles, _, _ = ran(run_python, first)
    (kept,) = (tmp_path / "cache").glob("*.host")
    whole = kept.read_bytes()
    for damaged in (b"", whole[:-1], whole[:60] + bytes([whole[60] ^ 1]) + whole[61:]):
        kept.write_bytes(damaged)
        assert ran(run_python, second) == (0, compiles, True)
        assert equal(first, second)
        assert kept.read_bytes() == whole


def test_a_folder_that_cannot_be_written(run_python: RunPython, tmp_path: Path) -> None:
    first, second = tmp_path / "1.npz", tmp_path / "2.npz"
    compiles, _, _ = ran(run_python, first)
    nowhere = tmp_path / "file"
    nowhere.write_text("not a folder")
    assert ran(run_python, second, PYASC_CACHE_DIR=str(nowhere / "cache")) == (compiles, 0, True)
    assert equal(first, second)
    folder = tmp_path / "cache"
    folder.chmod(0o500)
    try:
        assert ran(run_python, second) == (0, compiles, False)
    finally:
        folder.chmod(0o700)


def test_import_loads_nothing_heavy(run_python: RunPython) -> None:
    loaded = run_python("import sys, pyasc; print(*sys.modules)").stdout.split()
    for name in ("scipy", "llvmlite", "tempfile", "asyncio", "unittest"):
        assert name not in loaded


class Kept(dict[tuple[str, str], bytes]):
    """A store in memory."""

    def read(self, kind: str, key: str) -> bytes | None:
        return self.get((kind, key))

    def write(self, kind: str, key: str, data: bytes) -> None:
        self[kind, key] = data


def test_what_is_remembered_is_what_was_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Kept()
    monkeypatch.setattr(target, "_host", None)
    asked = host(store)
    assert Host.from_bytes(asked.to_bytes()) == asked
    monkeypatch.setattr(target, "_host", None)
    monkeypatch.setattr("pyasc.backend.cpu.processors.host", lambda: pytest.fail("LLVM was asked again"))
    assert host(store) == asked
    assert len(store) == 1


def test_another_processor_or_generator_is_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {target._identity()}
    monkeypatch.setattr(target, "_CPUINFO", (b"processor",))
    keys.add(target._identity())
    monkeypatch.setattr(target, "_state", lambda status: (0, 0))
    keys.add(target._identity())
    monkeypatch.setattr(os, "confstr", lambda name: "glibc 2.0")
    keys.add(target._identity())
    assert len(keys) == 4 and None not in keys


def test_a_system_that_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Kept()
    asked = host()
    monkeypatch.setattr(target, "_identity", lambda: None)
    monkeypatch.setattr(target, "_host", None)
    assert host(store).target == asked.target
    assert not store


def test_what_the_loader_refuses_is_linked_by_llvm(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(code: bytes, names: list[str]) -> None:
        raise ValueError("an object of a kind that the loader does not know")

    linked = []
    link = generate.Linked
    monkeypatch.setattr(_runtime, "load_object", refuse)
    monkeypatch.setattr(generate, "Linked", lambda *args: linked.append(link(*args)) or linked[-1])
    x = np.linspace(0.5, 2, 301)
    given = pyasc.sin(pyasc.asarray(x) * 0.1875).numpy()
    assert linked
    np.testing.assert_allclose(given, np.sin(x * 0.1875), rtol=1e-14)


def test_code_on_disk_that_does_not_fit_is_refused() -> None:
    from pyasc.backend.ir import Access, Binding, Instr, Kernel, Operand

    f4 = np.dtype(np.float32)
    kernel = Kernel(
        1,
        0,
        (Operand("x", f4), Operand("y", f4, True)),
        (Access(0, "1", 0), Access(1, "1", 1)),
        (),
        (Instr("load", f4, (), (0,)), Instr("neg", f4, (0,)), Instr("store", f4, (1,), (1,))),
    )
    cpu = CPU()
    tuning = cpu.tune(kernel, Binding((100,), ((1,), (1,)), (0, 0)))
    _, code = cpu.compile(kernel, tuning)
    cpu.load(kernel, tuning, code)
    for damaged in (b"", code[:100], code[:-40], code.replace(b"phase0", b"phase9"), b"\0" * len(code)):
        with pytest.raises(ValueError):
            cpu.load(kernel, tuning, damaged)


def test_code_lives_as_long_as_plans_that_run_it() -> None:
    x = pyasc.asarray(np.arange(50, dtype=np.float32))
    doubled = pyasc.jit(lambda x: x * 2.5 + 0.125)
    expected = np.arange(50) * 2.5 + 0.125
    assert np.array_equal(doubled(x).numpy(), expected)
    pyasc.clear_cache()
    for k in range(20):
        (x * float(k) - 7).numpy()
    assert np.array_equal(doubled(x).numpy(), expected)
