"""Kernels compiled by a compiler that takes CANN's options, in both of its forms, and one that fails."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from standin.toolkit import NEWEST, OLD, build

import pyasc
from pyasc.backend import compiler
from pyasc.backend.ascend.chip import load
from pyasc.backend.ascend.generated import Bound, Generated, Parameter
from pyasc.backend.base import LaunchError
from pyasc.backend.npu import compile as compiling
from pyasc.backend.npu import toolkit as toolkits
from pyasc.backend.npu.toolkit import Toolkit
from pyasc.lazy.cache import KernelCache

CHIP = load("910B1")
ARRAYS = (
    Parameter("x", "input", 0, np.dtype(np.float32)),
    Parameter("y", "output", 1, np.dtype(np.float32)),
)
SOURCE = """#include "kernel_operator.h"
using namespace AscendC;
struct Tiling { int32_t n; };
extern "C" __global__ __aicore__ void both(
    GM_ADDR x, __gm__ float* y, Tiling tiling)
{
    if ASCEND_IS_AIV { (void)x; (void)y; (void)tiling; }
}
"""


def generated(source: str = SOURCE, cores: Any = "vector", name: str = "both") -> Generated:
    def bind(_: Any) -> Bound:
        raise AssertionError

    return Generated(name, source, cores, CHIP, ARRAYS, (), None, bind)


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {v: build(tmp_path_factory.mktemp("cann") / v, v).home for v in (OLD, NEWEST)}


@pytest.fixture
def found(homes: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Toolkit]]:
    def find(version: str) -> Toolkit:
        monkeypatch.setenv("ASCEND_HOME_PATH", str(homes[version]))
        toolkits.forget()
        return toolkits.find()

    yield find
    toolkits.forget()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[KernelCache]:
    with pyasc.config.override(cache_dir=str(tmp_path / "cache")):
        yield KernelCache()


def fake(tmp_path: Path, compiler: str, linker: str = "exit 0") -> Toolkit:
    """A toolkit whose programs are shell scripts."""
    info = tmp_path / toolkits._LINUX / "ascend_toolkit_install.info"
    info.parent.mkdir(exist_ok=True)
    info.write_text(f"version={OLD}\n")
    for name, body in (("bisheng", compiler), ("ld.lld", linker)):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\n{body}\n")
        program.chmod(0o755)
    library = tmp_path / "libascendcl.so"
    return Toolkit(tmp_path, OLD, library, tmp_path / "bisheng", tmp_path / "ld.lld", ())


WRITES = 'while [ "$1" != -o ]; do shift; done; printf "\\177ELF" > "$2"'


# --- what is compiled --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "kinds"), [(OLD, ("vector", "cube", "mixed")), (NEWEST, ("library",) * 3)]
)
def test_kinds(version: str, kinds: tuple[str, ...], found: Callable[[str], Toolkit]) -> None:
    toolkit = found(version)
    for cores, kind in zip(("vector", "cube", "mixed"), kinds, strict=True):
        code, given = compiling.compile(generated(cores=cores), toolkit)
        assert given == kind and code.startswith(b"\x7fELF")
        assert (b"pyasc_launch_both" in code) == (kind == "library")


@pytest.mark.parametrize("version", [OLD, NEWEST])
def test_generated_kernels(version: str, found: Callable[[str], Toolkit]) -> None:
    x = pyasc.asarray(np.arange(320, dtype=np.float32).reshape(8, 40))
    y = pyasc.asarray(np.ones((32, 32), np.float16))
    kernels = pyasc.explain(pyasc.exp(x) + x.sum(axis=1, keepdims=True), y @ y, backend="sim").kernels
    toolkit = found(version)
    for kernel in kernels:
        code, _ = compiling.compile(kernel._generated("source"), toolkit)
        assert len(code) > 1000


def test_options_of_the_device_form(tmp_path: Path) -> None:
    toolkit = fake(
        tmp_path, f'echo "$@" >> {tmp_path}/said; {WRITES}', f'echo "$@" >> {tmp_path}/said; {WRITES}'
    )
    compiling.compile(generated(cores="mixed"), toolkit)
    cube, vector, link = (tmp_path / "said").read_text().splitlines()
    assert "--cce-aicore-arch=dav-c220-cube" in cube and "-Dboth=both_mix_aic" in cube
    assert "--cce-aicore-arch=dav-c220-vec" in vector and "-Dboth=both_mix_aiv" in vector
    for command in (cube, vector):
        assert command.startswith("-c -x cce -O3 -std=c++17 --cce-aicore-only ")
        assert "both.cce -o " in command
    assert link == "-m aicorelinux -Ttext=0 -static 0.o 1.o -o linked"


WAITS = {"vector": "SyncAll();", "cube": "CrossCoreSetFlag<0, PIPE_FIX>(0); CrossCoreWaitFlag(0);"}


@pytest.mark.parametrize(
    ("cores", "waits", "kind", "record"),
    [
        ("vector", False, "vector", '.ascend.meta.both"))) = {1, 4, 3};'),
        ("cube", False, "cube", '.ascend.meta.both"))) = {1, 4, 2};'),
        ("vector", True, "mixed", '.ascend.meta.both_mix_aiv"))) = {1, 4, 5, 3, 4, 0, 1};'),
        ("cube", True, "mixed", '.ascend.meta.both_mix_aic"))) = {1, 4, 4, 3, 4, 1, 0};'),
        ("mixed", True, "mixed", '.ascend.meta.both_mix_aiv"))) = {1, 4, 4, 3, 4, 1, 2};'),
    ],
)
def test_what_the_loader_is_told(
    cores: str, waits: bool, kind: str, record: str, found: Callable[[str], Toolkit]
) -> None:
    """Cores that wait for each other, also of one kind, need the address for signals as of a mixed kernel."""
    source = SOURCE.replace("if ASCEND_IS_AIV {", f"{WAITS.get(cores, '')} {{") if waits else SOURCE
    kernel = generated(source, cores)
    code, given = compiling.compile(kernel, found(OLD))
    assert given == kind and code.startswith(b"\x7fELF")
    jobs = compiling._device(kernel, found(OLD))
    for job in jobs:
        assert record in job.source
        assert ("set_ffts_base_addr" in job.source) == waits
        assert any(o.startswith("-Dboth=both_mix_") for o in job.options) == waits


def test_a_mixed_kernel_keeps_its_lines() -> None:
    text = compiling._entered(generated(cores="mixed"))
    assert text.splitlines()[6:8] == SOURCE.splitlines()[6:8]
    assert (
        "void both_body(" in text and "void both(GM_ADDR signals, GM_ADDR x, __gm__ float* y, Tiling" in text
    )
    assert "both_body(x, y, tiling);" in text


@pytest.mark.parametrize(
    ("cores", "waits", "mark"),
    [
        ("vector", "", "__vector__"),
        ("vector", WAITS["vector"], "__vector__"),
        ("vector", WAITS["cube"], "__mix__(0, 1)"),
        ("cube", "", "__cube__"),
        ("cube", WAITS["cube"], "__mix__(1, 0)"),
        ("mixed", WAITS["cube"], "__mix__(1, 2)"),
    ],
)
def test_a_library_says_its_cores(cores: str, waits: str, mark: str) -> None:
    kernel = generated(SOURCE.replace("if ASCEND_IS_AIV {", f"{waits} {{"), cores)
    assert f'extern "C" __global__ {mark} __aicore__ void both(' in compiling._marked(kernel)
    stated = generated(
        SOURCE.replace("    if", "    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);\n    if")
    )
    assert compiling._marked(stated) == stated.source


def test_the_launch_of_a_library() -> None:
    stub = compiling._stub(generated())
    assert "both<<<blocks, 0, stream>>>(pointers[0], reinterpret_cast<float*>(pointers[1]), fields);" in stub
    without = generated(SOURCE.replace("y, Tiling tiling", "y").replace("(void)tiling;", ""))
    assert "fields" not in compiling._stub(without)


# --- the cache ---------------------------------------------------------------------------------------------


def test_compiled_once(tmp_path: Path, store: KernelCache) -> None:
    toolkit = fake(tmp_path, f"echo >> {tmp_path}/runs; {WRITES}", WRITES)

    def runs(toolkit: Toolkit, kernel: Generated) -> int:
        before = (tmp_path / "runs").read_text().count("\n") if (tmp_path / "runs").exists() else 0
        compiling.compile(kernel, toolkit, store)
        return (tmp_path / "runs").read_text().count("\n") - before

    assert runs(toolkit, generated()) == 1
    assert runs(toolkit, generated()) == 0
    assert runs(toolkit, generated(SOURCE.replace("{ int32_t", "{/* of x */ int32_t") + "// 5")) == 0
    assert runs(toolkit, generated(SOURCE + "\n")) == 1, "another source"
    assert runs(toolkit, replace(generated(), chip=load("910B3"))) == 1, "another chip"
    assert runs(toolkit, generated(cores="cube")) == 1
    (tmp_path / toolkits._LINUX / "ascend_toolkit_install.info").write_text("version=8.2.RC1\n")
    newer = replace(toolkit, version="8.2.RC1")
    assert runs(newer, generated()) == 1, "another version"
    assert list(store.folder().glob("*.npu"))
    assert compiling.fingerprint(toolkit) != compiling.fingerprint(newer)


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("a; // b\nc;", "a; \nc;"),
        ("a /* b\n// c */ d", "a \n d"),
        ('f("// a", \'"\'); // b', 'f("// a", \'"\'); '),
        (r'f("\" // a"); /* "b" */', r'f("\" // a"); '),
        ("1'000; // it's", "1'000; // it's"),  # more than need be is kept, never less
    ],
)
def test_without_comments(source: str, code: str) -> None:
    assert compiler.without_comments(source) == code


# --- failures ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [OLD, NEWEST])
def test_an_error_in_the_source(version: str, found: Callable[[str], Toolkit], store: KernelCache) -> None:
    wrong = generated(SOURCE.replace("(void)y;", "(void)yy;"))
    with pytest.raises(LaunchError) as caught:
        compiling.compile(wrong, found(version), store)
    lines = caught.value.message.splitlines()
    assert lines[0] == f"expected Ascend C that CANN {version} compiles, given both:"
    assert re.match(r"both\.(cce|asc):7: .*yy.* was not declared", lines[1])
    assert lines[2].strip() == "if ASCEND_IS_AIV { (void)x; (void)yy; (void)tiling; }"
    command = lines[-1].removeprefix("To see it again: ")
    again = subprocess.run(command, shell=True, capture_output=True, text=True, cwd="/", check=False)
    assert again.returncode and "yy" in again.stderr, "the command works when it is pasted"
    assert str(store.folder() / "failed") in command


def test_few_failed_sources_are_kept(tmp_path: Path, store: KernelCache) -> None:
    toolkit = fake(tmp_path, 'echo "both.cce:7:3: error: no" >&2; exit 1')
    for n in range(compiling.KEPT + 3):
        with pytest.raises(LaunchError, match=r"both.cce:7: no"):
            compiling.compile(generated(SOURCE + f"// {n}\n"), toolkit, store)
    assert len(list((store.folder() / "failed").iterdir())) == compiling.KEPT


ELF = WRITES + "; exit 0"
FAILURES = [
    ("kill -SEGV $$", "exit 0", "given .*/bisheng, which was ended by SIGSEGV"),
    ("echo Stack dump >&2; kill -ABRT $$", "exit 0", "ended by SIGABRT:\n  Stack dump"),
    ("kill -9 $$", "exit 0", "ended by SIGKILL: the machine may be out of memory"),
    ("exec sleep 60", "exit 0", "which did not end within 0.5 s"),
    ("exit 3", "exit 0", "which ended with 3 and said nothing"),
    ("exit 0", "exit 0", "given no file and no message by .*bisheng, of CANN 8.1.RC1; install CANN again"),
    (WRITES.replace("\\177ELF", "text"), "exit 0", "given a file that is no binary"),
    (
        "echo 'fatal error: error in backend: IO failure: No space left on device' >&2; exit 1",
        "exit 0",
        "set TMPDIR",
    ),
    (
        ELF,
        "echo 'ld.lld: error: undefined symbol: f' >&2; exit 1",
        "given both:\nld.lld: undefined symbol: f\n",
    ),
    (ELF, "kill -SEGV $$", "ld.lld, which was ended by SIGSEGV"),
]


@pytest.mark.parametrize(("compiler", "linker", "said"), FAILURES, ids=[said for *_, said in FAILURES])
def test_a_compiler_that_fails(
    compiler: str, linker: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiling, "LONGEST_S", 0.5)
    with pytest.raises(LaunchError, match=said) as caught:
        compiling.compile(generated(), fake(tmp_path, compiler, linker))
    message = caught.value.message
    assert message.startswith("expected ") and "given " in message
    assert (
        "To see it again: env ASCEND_HOME_PATH=" in message
        or "install CANN" in message
        or "TMPDIR" in message
    )


def test_a_compiler_that_cannot_run(tmp_path: Path) -> None:
    toolkit = fake(tmp_path, "")
    toolkit.compiler.write_bytes(b"\x7fELF nothing")
    with pytest.raises(LaunchError, match="which does not run"):
        compiling.compile(generated(), toolkit)


def test_another_version_than_at_the_start(tmp_path: Path) -> None:
    toolkit = fake(tmp_path, WRITES, WRITES)
    info = tmp_path / toolkits._LINUX / "ascend_toolkit_install.info"
    info.write_text("version=8.3.RC1\n")
    with pytest.raises(LaunchError, match=r"expected CANN 8.1.RC1 .* given 8.3.RC1; start it again"):
        compiling.compile(generated(), toolkit)


def test_no_folder_for_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toolkit = fake(tmp_path, WRITES, WRITES)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    with pytest.raises(LaunchError, match=r"temporary files .*gone: No such file or directory; set TMPDIR"):
        compiling.compile(generated(), toolkit)


def test_an_unwritable_cache_keeps_failed_sources_elsewhere(tmp_path: Path) -> None:
    toolkit = fake(tmp_path, 'echo "both.cce:7:3: error: no" >&2; exit 1')
    (tmp_path / "cache").write_text("a file")
    with (
        pyasc.config.override(cache_dir=str(tmp_path / "cache")),
        pytest.raises(LaunchError, match=r"To see it again: .*pyasc-npu/failed/both-"),
    ):
        compiling.compile(generated(), toolkit, KernelCache())
