"""Compiles Ascend C with the host's C++ compiler."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from .. import compiler as programs
from . import library

FLAGS = (
    "-std=c++17", "-O1", "-fPIC", "-ffp-contract=off", "-fno-math-errno",
    "-Werror=overflow", "-Werror=narrowing", "-Wno-attributes", "-Wno-unknown-pragmas",
)  # fmt: skip
# The standard libraries come with the simulator's own: not reading them again saves a fifth of the time.
SHARED = ("-shared", "-nodefaultlibs", "-lgcc")
KEPT = 3  # precompiled headers of other compilers or versions
LONGEST_S = programs.LONGEST_S
PATIENCE_S = 120.0  # for another process that makes the precompiled header; then it is done without


_without: set[Path] = set()  # folders that this process could make no precompiled header in


class CompileError(Exception):
    """What the compiler said; `output` is all of it."""

    def __init__(self, output: str) -> None:
        super().__init__(output)
        self.output = output


def default_folder() -> Path:
    """Where precompiled headers are kept unless the caller says otherwise."""
    if chosen := os.environ.get("PYASC_CACHE_DIR"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pyasc-tensor"


def find_compiler() -> tuple[str, ...]:
    """$CXX, which may have options after the program, or else c++ or g++.

    Raises
    ------
    CompileError
        Where there is none.
    """
    try:
        return programs.find("CXX", ("c++", "g++"))
    except programs.Missing as missing:
        if missing.given:
            raise CompileError(
                f"error: Expected a C++ compiler in the environment variable CXX, given "
                f"{missing.given!r}: there is no program {missing.program}. Install it, "
                "name another, or unset CXX for c++ or g++."
            ) from None
    raise CompileError(
        "error: Expected a C++ compiler ($CXX, c++ or g++), found none. Install one: "
        "`apt install g++`, `dnf install gcc-c++`, or `conda install gxx`."
    )


@dataclass(frozen=True)
class Compiler:
    """A C++ compiler with the simulator's headers and library.

    Attributes
    ----------
    program : tuple of str
        With its first options.
    folder : Path
        For the precompiled header.
    """

    program: tuple[str, ...]
    folder: Path

    @cached_property
    def version(self) -> str:
        """What the compiler says of itself."""
        return _run([*self.program, "--version"]).split("\n", 1)[0]

    @cached_property
    def key(self) -> str:
        """Changes with the compiler, its flags, the headers and the library."""
        digest = hashlib.blake2b(digest_size=16)
        digest.update("\0".join((*self.program, self.version, *FLAGS, *SHARED)).encode())
        root = library.headers()
        for header in sorted(root.rglob("*.h*")):
            digest.update(str(header.relative_to(root)).encode() + b"\0" + header.read_bytes())
        digest.update(library.path().read_bytes())
        return digest.hexdigest()

    def compile(self, source: str, name: str, options: Sequence[str] = (), program: bool = False) -> bytes:
        """Compile to a shared library, or a program.

        Parameters
        ----------
        source : str
        name : str
            Of the file, as messages show it.
        options : sequence of str
            More for the compiler.
        program : bool
            Whether to link a program.

        Raises
        ------
        CompileError
        """
        where = library.path()
        includes = ["-I", str(found)] if (found := self._precompiled()) else []
        link = ["-Wl,-rpath," + str(where.parent), "-pthread"] if program else SHARED
        command = [
            *self.program, *FLAGS, *includes, "-I", str(library.headers()), *options,
            "-x", "c++", name, "-x", "none", str(where), *link, "-o", "out",
        ]  # fmt: skip
        try:
            with tempfile.TemporaryDirectory(prefix="pyasc-sim-") as folder:
                Path(folder, name).write_text(source, encoding="utf-8")
                _run(command, folder)
                made = Path(folder, "out")
                code = made.read_bytes() if made.exists() else b""
        except OSError as error:
            raise CompileError(f"error: {unusable(error)}") from None
        if not code:
            raise CompileError(
                f"error: Expected a compiled kernel from {self.program[0]}, given none, and no message. "
                "Set CXX to another C++ compiler."
            )
        return code

    def _precompiled(self) -> Path | None:
        """A folder with the precompiled header, made by the first process that needs it; None: do without."""
        root = self.folder / "simulator"
        folder = root / self.key
        header = folder / "kernel_operator.h.gch"
        if header.exists():
            return folder
        if folder in _without:
            return None
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with _locked(root / "lock"):
                if not header.exists():
                    for left in folder.iterdir():  # by a process that was killed in the middle of it
                        shutil.rmtree(left, ignore_errors=True)
                    self._precompile(folder)
                    _keep_newest(root)
        except (OSError, CompileError):
            _without.add(folder)  # not tried again for each kernel
            return None
        return folder

    def _precompile(self, folder: Path) -> None:
        source = library.headers() / "kernel_operator.h"
        if sys.stderr.isatty():
            print("pyasc: preparing the simulator for this compiler, once; some seconds", file=sys.stderr)
        with tempfile.TemporaryDirectory(dir=folder) as aside:
            made = Path(aside, "made.gch")
            command = [*self.program, *FLAGS, "-I", str(library.headers()), "-x", "c++-header", str(source)]
            _run([*command, "-o", str(made)])
            made.replace(folder / "kernel_operator.h.gch")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Alone among all processes; TimeoutError, an OSError, where another does not end."""
    import fcntl

    with path.open("w") as file:
        start = time.monotonic()
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() - start > PATIENCE_S:
                    raise TimeoutError from None
                time.sleep(0.02)
        yield


def _keep_newest(root: Path) -> None:
    folders = sorted((f for f in root.iterdir() if f.is_dir()), key=lambda f: f.stat().st_mtime)
    for folder in folders[:-KEPT]:
        shutil.rmtree(folder, ignore_errors=True)


def _run(command: Sequence[str], folder: str | None = None) -> str:
    try:
        return programs.run(command, folder, LONGEST_S)
    except programs.Failed as failed:
        if not failed.given:
            raise CompileError(failed.output) from None
        given = f"{failed.output}\nerror: Expected a C++ compiler, given {command[0]}, {failed.given}"
        raise CompileError(f"{given}. Set CXX to another.".lstrip()) from None


def unusable(error: OSError) -> str:
    """A message for files that cannot be written, read or loaded while a kernel is compiled."""
    if error.errno is None:  # of the dynamic linker
        return (
            f"Expected a kernel that this process can load, given one that it cannot: {error}. "
            "Set CXX to a compiler for this machine, or TMPDIR to a folder that may hold programs."
        )
    return (
        "Expected a folder for temporary files that has room, given "
        f"{os.environ.get('TMPDIR') or '/tmp'}: {error.strerror or error}. Set TMPDIR to another."
    )


@cache
def compiler(folder: Path | None = None) -> Compiler:
    """The compiler of this process."""
    return Compiler(find_compiler(), (folder or default_folder()).absolute())
