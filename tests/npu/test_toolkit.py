"""Where CANN is found, what is said of one that is broken, and which chip a SoC is."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pyasc.backend.npu import toolkit
from pyasc.backend.npu.toolkit import ToolkitError, chip_of, find, read_version

PROGRAMS = "compiler/ccec_compiler/bin"
HEADERS = "compiler/tikcpp/tikcfw"


@pytest.fixture(autouse=True)
def looked_for_anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for variable in toolkit.VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    toolkit.forget()
    yield
    toolkit.forget()


def installed(root: Path, version: str = "8.1.RC1", linux: bool = False) -> Path:
    """A folder like that of an installed CANN; with `linux` only the one of the machine's kind has files."""
    kind = toolkit._LINUX
    programs, headers, library = PROGRAMS, HEADERS, "lib64"
    if linux:
        programs, headers, library = f"{kind}/ccec_compiler/bin", f"{kind}/tikcpp/tikcfw", f"{kind}/lib64"
    for folder in (programs, f"{headers}/impl", f"{headers}/interface", library, kind):
        (root / folder).mkdir(parents=True, exist_ok=True)
    for name in ("bisheng", "ld.lld"):
        (root / programs / name).write_text("#!/bin/sh\n")
        (root / programs / name).chmod(0o755)
    (root / library / "libascendcl.so").write_bytes(b"\x7fELF")
    (root / headers / "kernel_operator.h").write_text("")
    (root / kind / "ascend_toolkit_install.info").write_text(
        f"package_name=Ascend-cann-toolkit\nversion={version}\ninnerversion=V100R001C21\n"
    )
    return root


@pytest.mark.parametrize("variable", toolkit.VARIABLES)
@pytest.mark.parametrize("linux", [False, True])
def test_the_environment_names_it(
    variable: str, linux: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = installed(tmp_path, linux=linux)
    monkeypatch.setenv(variable, str(root))
    found = find()
    assert (found.root, found.version, found.makes_libraries) == (root, "8.1.RC1", False)
    assert all(path.is_file() for path in (found.library, found.compiler, found.linker))
    assert [f.name for f in found.includes] == ["tikcfw", "impl", "interface"]
    assert find() is found, "looked for once"


def test_the_usual_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(toolkit, "_ROOTS", (str(tmp_path / "none"), "~/Ascend"))
    with pytest.raises(ToolkitError, match="given none; install it") as caught:
        find()
    assert caught.value.root is None
    old = installed(tmp_path / "Ascend" / "ascend-toolkit" / "latest")
    assert find().root == old
    toolkit.forget()
    new = installed(tmp_path / "Ascend" / "cann", "9.0.0")
    assert (find().root, find().makes_libraries) == (new, True)
    toolkit.forget()
    monkeypatch.setenv("ASCEND_HOME_PATH", str(old))
    assert find().root == old, "the environment goes first"


@pytest.mark.parametrize(
    ("file", "text", "version"),
    [
        ("version.cfg", "# version: 1.0\ntoolkit_running_version=[7.7.0.1.238:8.1.RC1]\n", "8.1.RC1"),
        ("compiler/version.info", "Version=7.7.0.1.238\nversion_dir=8.1.RC1\n", "8.1.RC1"),
        ("share/info/asc-devkit/version.info", "Version=9.1.0\n", "9.1.0"),
        ("ascend_toolkit_install.info", "version=8.2.RC1.alpha003\n", "8.2.RC1.alpha003"),
        ("version.cfg", "nothing of use\n", ""),
    ],
)
def test_versions(file: str, text: str, version: str, tmp_path: Path) -> None:
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text(text)
    assert read_version(tmp_path) == version


def remove(path: str) -> Callable[[Path], None]:
    return lambda root: (root / path).unlink()


def write(path: str, text: str) -> Callable[[Path], Any]:
    return lambda root: (root / path).write_text(text)


INFO = f"{toolkit._LINUX}/ascend_toolkit_install.info"
BROKEN = [
    (remove(INFO), "that says its version in"),
    (write(INFO, "version=7.0.0\n"), "CANN 8.1 or later, given 7.0.0"),
    (write(INFO, "version=8.0.RC3\n"), "CANN 8.1 or later, given 8.0.RC3"),
    (remove("lib64/libascendcl.so"), "install its runtime"),
    (remove(f"{PROGRAMS}/bisheng"), "with its compiler"),
    (remove(f"{PROGRAMS}/ld.lld"), "with its compiler"),
    (remove(f"{HEADERS}/kernel_operator.h"), "headers of Ascend C"),
]


@pytest.mark.parametrize(("spoil", "said"), BROKEN, ids=[said for _, said in BROKEN])
def test_a_broken_one(
    spoil: Callable[[Path], Any], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = installed(tmp_path)
    spoil(root)
    monkeypatch.setenv("ASCEND_HOME_PATH", str(root))
    with pytest.raises(ToolkitError, match=said) as caught:
        find()
    text = str(caught.value)
    assert "expected" in text and "given" in text and "\n" not in text
    assert caught.value.root == root


def test_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path / "gone"))
    with pytest.raises(ToolkitError, match=r"ASCEND_HOME_PATH=.*gone: there is none"):
        find()
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setenv("ASCEND_HOME_PATH", str(file))
    with pytest.raises(ToolkitError, match="it is no folder"):
        find()


@pytest.mark.skipif(os.getuid() == 0, reason="root may read and run everything")
@pytest.mark.parametrize(
    ("path", "mode"), [(".", 0), ("lib64/libascendcl.so", 0), (f"{PROGRAMS}/bisheng", 0o644)]
)
def test_not_allowed(path: str, mode: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = installed(tmp_path / "cann")
    monkeypatch.setenv("ASCEND_HOME_PATH", str(root))
    (root / path).chmod(mode)
    try:
        with pytest.raises(ToolkitError, match=r"permission denied|may not"):
            find()
    finally:
        (root / path).chmod(0o755)


@pytest.mark.parametrize(
    ("soc", "chip"),
    [
        ("Ascend910B1", "910B1"),
        ("Ascend910B2C", "910B2"),
        ("Ascend910B3", "910B3"),
        ("Ascend910B4-1", "910B4"),
        ("Ascend910_9391", "910C"),
        ("Ascend910_9362", "910C"),
    ],
)
def test_chips(soc: str, chip: str) -> None:
    assert chip_of(soc) == chip


@pytest.mark.parametrize(
    ("soc", "said"),
    [
        ("Ascend310P3", "given Ascend310P3, a 310P, for which no kernels"),
        ("Ascend950PR_9599", "a 950, for which"),
        ("Ascend910B9", "910B1, 910B2, 910B3, 910B4, 910C, given Ascend910B9$"),
        ("", "given none"),
    ],
)
def test_no_such_chip(soc: str, said: str) -> None:
    with pytest.raises(ToolkitError, match=said):
        chip_of(soc)


def test_importing_finds_nothing(run_python: Callable[..., Any], tmp_path: Path) -> None:
    done = run_python(
        "import pyasc, sys; print([m for m in sys.modules if m.startswith('pyasc.backend.npu')])",
        ASCEND_HOME_PATH=str(tmp_path / "gone"),
    )
    assert done.stdout.strip() == "[]"
