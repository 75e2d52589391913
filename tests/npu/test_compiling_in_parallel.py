"""Several kernels compiled at once: each once, with its own error, and with a bar that says how far it is."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import pyasc
from pyasc.backend import progress
from pyasc.backend.base import LaunchError
from pyasc.backend.progress import Progress
from pyasc.lazy import cache as caching
from pyasc.lazy.cache import KernelCache


class Compiler:
    """A backend whose compiler takes a while and refuses some kernels."""

    name = "slow"
    parallel_compiles = 4

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self.compiled: list[str] = []
        self.running = self.most = 0
        self.lock = threading.Lock()

    def tune(self, kernel: Any, binding: Any, fast_math: bool) -> int:
        return int(binding.extents[0])

    def fingerprint(self) -> str:
        return "slow"

    def compile(self, kernel: Any, tuning: Any) -> tuple[Any, bytes]:
        with self.lock:
            self.running += 1
            self.most = max(self.most, self.running)
            self.compiled.append(kernel.name)
        time.sleep(self.seconds)
        with self.lock:
            self.running -= 1
        if kernel.name.startswith("bad"):
            raise LaunchError(f"expected Ascend C, given {kernel.name}")
        return SimpleNamespace(kernel=kernel, fits=lambda binding: True), b"code"

    def load(self, kernel: Any, tuning: Any, code: bytes) -> Any:
        return SimpleNamespace(kernel=kernel, fits=lambda binding: True)


def kernel(name: str) -> Any:
    return SimpleNamespace(name=name, key=name)


def sizes(n: int) -> Any:
    return SimpleNamespace(extents=(n,))


@pytest.fixture
def kernels(tmp_path: Path) -> Iterator[KernelCache]:
    with pyasc.config.override(cache_dir=str(tmp_path)):
        yield KernelCache()


def test_at_once(kernels: KernelCache) -> None:
    backend: Any = Compiler(0.1)
    wanted = [(backend, kernel(f"k{n}"), sizes(64)) for n in range(6)]
    kernels.prepare([*wanted, *wanted])
    assert sorted(backend.compiled) == [f"k{n}" for n in range(6)], "each once"
    assert 2 <= backend.most <= 4
    found = [kernels.executable(*one) for one in wanted]
    assert [e.kernel.key for e in found] == [f"k{n}" for n in range(6)]
    stats = kernels.stats()
    assert (stats["compiles"], stats["misses"], stats["memory_hits"]) == (6, 6, 0), "as one after another"
    kernels.executable(*wanted[0])
    assert kernels.stats()["memory_hits"] == 1
    kernels.prepare(wanted)
    assert len(backend.compiled) == 6 and kernels.stats()["memory_hits"] == 1


def test_from_disk(kernels: KernelCache) -> None:
    backend: Any = Compiler()
    wanted = [(backend, kernel(f"k{n}"), sizes(64)) for n in range(3)]
    kernels.prepare(wanted)
    other = KernelCache()
    other.prepare(wanted)
    assert len(backend.compiled) == 3 and other.stats()["disk_hits"] == 3


def test_errors_belong_to_their_kernels(kernels: KernelCache) -> None:
    backend: Any = Compiler()
    wanted = [(backend, kernel(name), sizes(64)) for name in ("k0", "bad1", "k2", "bad3")]
    kernels.prepare(wanted)
    kernels.executable(*wanted[0])
    kernels.executable(*wanted[2])
    for n in (3, 1):
        with pytest.raises(LaunchError, match=f"given bad{n}"):
            kernels.executable(*wanted[n])
    assert len(backend.compiled) == 4, "what failed is not compiled again for its error"
    with pytest.raises(LaunchError, match="given bad1"):
        kernels.executable(*wanted[1])
    assert len(backend.compiled) == 5, "but when it is asked for again"


def test_threads_wait_for_one_another(kernels: KernelCache) -> None:
    backend: Any = Compiler(0.1)
    found: list[Any] = []

    def ask(n: int) -> None:
        found.append(kernels.executable(backend, kernel("k"), sizes(64)))

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    kernels.prepare([(backend, kernel("k"), sizes(64)), (backend, kernel("other"), sizes(64))])
    for thread in threads:
        thread.join()
    assert sorted(backend.compiled) == ["k", "other"] and len(set(map(id, found))) == 1


def test_one_at_a_time_is_left(kernels: KernelCache) -> None:
    backend: Any = Compiler()
    backend.parallel_compiles = 1
    kernels.prepare([(backend, kernel(f"k{n}"), sizes(64)) for n in range(3)])
    assert not backend.compiled


def test_an_interrupt(kernels: KernelCache, monkeypatch: pytest.MonkeyPatch) -> None:
    backend: Any = Compiler(0.05)
    wanted = [(backend, kernel(f"k{n}"), sizes(64)) for n in range(8)]

    def interrupted(self: Progress, what: str) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Progress, "__call__", interrupted)
        with pytest.raises(KeyboardInterrupt):
            kernels.prepare(wanted)
    found = [kernels.executable(*one) for one in wanted]
    assert len(found) == 8 and len(backend.compiled) == 8, "nothing is compiled twice for it"


def test_the_bar(
    kernels: KernelCache, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    backend: Any = Compiler(0.05)

    def wanted(name: str) -> list[Any]:
        return [(backend, kernel(f"{name}{n}"), sizes(64)) for n in range(5)]

    kernels.prepare(wanted("a"), progress=True)
    assert capsys.readouterr().err == "", "quick"
    monkeypatch.setattr(caching, "QUIET_S", 0.0)
    kernels.prepare(wanted("b"), progress=True)
    shown = capsys.readouterr().err
    assert "compiling: ▪▪▪▫▫ 3 of 5 b" in shown and shown.endswith("\r\x1b[K")
    kernels.prepare(wanted("c"))
    assert capsys.readouterr().err == "", "no terminal"


@pytest.mark.parametrize("count", [1, 3])
def test_a_log_has_a_line_now_and_then(
    kernels: KernelCache, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], count: int
) -> None:
    monkeypatch.setattr(progress, "LOG_S", 0.3)
    backend: Any = Compiler(0.8)
    wanted = [(backend, kernel(f"k{n}"), sizes(64)) for n in range(count)]
    kernels.prepare(wanted)
    kernels.executable(*wanted[0])
    said = capsys.readouterr().err.splitlines()
    assert len(said) >= 2 and all(line.startswith("compiling") and "\x1b" not in line for line in said)
    assert ("k0: 0 s" if count == 1 else "of 3") in said[0]


def test_one_kernel_on_a_terminal(
    kernels: KernelCache, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "QUIET_S", 0.05)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    backend: Any = Compiler(0.4)
    kernels.executable(backend, kernel("k"), sizes(64))
    said = capsys.readouterr().err
    assert said.startswith("\r\x1b[Kcompiling k: 0 s") and said.endswith("\r\x1b[K")


def several(x: Any, v: Any) -> Any:
    return pyasc.exp(x).sum(axis=0), pyasc.abs(v) + 1, pyasc.maximum(x[:, :16], 0.5).max(axis=1), x @ x


def test_precompile(tmp_path: Path) -> None:
    data = np.random.default_rng(0).random((48, 48), np.float32)

    def like(n: int) -> list[Any]:
        return [pyasc.empty((n, n)), pyasc.empty(n)]

    with pyasc.config.override(cache_dir=str(tmp_path)), pyasc.backend("sim"):
        pyasc.clear_cache()
        jitted = pyasc.jit(several)
        done = pyasc.precompile(jitted, *like(48))
        assert done.compiled >= 3 and done.found == 0
        before = pyasc.cache_stats()
        results = jitted(data, data[0])
        after = pyasc.cache_stats()
        assert (after["compiles"], after["misses"]) == (before["compiles"], before["misses"])
        np.testing.assert_allclose(np.asarray(results[0]), np.exp(data).sum(axis=0), rtol=1e-5)
        assert pyasc.precompile(jitted, *like(48)) == (0, done.compiled)
        assert pyasc.precompile(several, *like(50)) == (0, done.compiled), "the same buckets"
        pyasc.clear_cache()
        assert pyasc.precompile(several, *like(48)) == (0, done.compiled), "on disk"
    pyasc.clear_cache()


def test_precompile_runs_nothing() -> None:
    @pyasc.kernel
    def count(out: Any, a: Any) -> None:
        i = pyasc.get_global_id(0)
        out[i] = a[i] + 1

    out, ones = pyasc.asarray(np.zeros(8, np.float32)), pyasc.asarray(np.ones(8, np.float32))
    done = pyasc.precompile(count[8], out, ones)
    assert done.compiled + done.found == 1
    assert np.asarray(out).tolist() == [0.0] * 8
    count[8](out, ones)
    assert np.asarray(out).tolist() == [2.0] * 8
