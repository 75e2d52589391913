"""C for the host: the system's compiler, and libraries that this process loads.

What was compiled is kept beside the kernels under a key of the preprocessed text, the compiler and its
options, so that a changed header is another library.
"""

from __future__ import annotations

import ctypes
import hashlib
import re
import shutil
import tempfile
import threading
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ...backend import compiler as programs
from ...lazy.cache import kernels
from ...ops.errors import ForeignError
from .prototypes import CSource, own_text

# A product and a sum round one after the other, as in kernels, and no call looks at errno.
FLAGS = ("-O2", "-fPIC", "-ffp-contract=off", "-fno-math-errno", "-Werror=implicit-function-declaration")
LONGEST_S = 120.0
SHOWN = 3  # errors of the compiler in a message
_ENDING = "foreign"
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*<[^>\n]*>", re.MULTILINE)

_ERROR = re.compile(r"^(\S.*?): (?:(?:fatal )?error: |(?=undefined reference))(.*)$", re.MULTILINE)

_lock = threading.Lock()
# Libraries stay loaded: kernels hold addresses in them.
_loaded: dict[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Library:
    """A loaded library.

    Attributes
    ----------
    name : str
        As messages give it.
    handle : ctypes.CDLL
        Its functions run without the GIL.
    identity : str
        Of the library's contents.
    source : CSource or None
        Of what was compiled here.
    """

    name: str
    handle: Any
    identity: str
    source: CSource | None = None


def load(path: Path) -> Library:
    """Load a library that is there.

    Raises
    ------
    ForeignError
    """
    if not path.is_file():
        given = "a folder" if path.is_dir() else "no such file"
        raise ForeignError(f"[FFI] expected a C source or a library, given {path}, {given}")
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        return Library(str(path), _open(path.resolve(), digest), f"{path.resolve()} {digest}")
    except OSError as error:
        raise ForeignError(
            f"[FFI] expected a library that this process can load, given {path}: {_last_part(error, path)}"
        ) from None


def compiled(text: str, name: str, folder: Path, options: tuple[str, ...]) -> Library:
    """Compile a C text for the host and load it.

    Parameters
    ----------
    text : str
    name : str
        Of the file, as the compiler's messages show it.
    folder : Path
        Where its own headers are.
    options : tuple of str
        More for the compiler.

    Raises
    ------
    ForeignError
        Where there is no compiler, or it does not take the text.
    """
    compiler = find_compiler()
    with tempfile.TemporaryDirectory(prefix="pyasc-") as made:
        file, out = Path(made, Path(name).name), Path(made, "library.so")
        file.write_text(text, encoding="utf-8")
        command = [*compiler, *FLAGS, "-I", str(folder), *options]
        whole = _run([*command, "-E", "-x", "c", str(file)], name, text)
        # The markers of lines name the folder of this run.
        lines = (line for line in whole.splitlines() if not line.startswith("#"))
        key = "\0".join((_version(compiler), *command, *lines))
        handle = _loaded.get(key)
        if handle is None and (code := kernels.read(_ENDING, key)) is not None:
            handle = _loaded_from(code, key, out)
        if handle is None:
            # Options again after the file: libraries are searched for what is missing by then.
            link = [*options, "-lm", "-Wl,-z,defs", "-o", str(out)]
            _run([*command, "-shared", "-x", "c", str(file), "-x", "none", *link], name, text)
            code = out.read_bytes()
            handle = _loaded_from(code, key, out)
            if handle is None:
                raise ForeignError(
                    f"[FFI] expected a library that this process can load, given one from {compiler[0]} that "
                    "it cannot. Set CC to a compiler for this machine, or TMPDIR to a folder that may hold "
                    "programs."
                )
            kernels.write(_ENDING, key, code)
    identity = hashlib.sha256(key.encode()).hexdigest()
    return Library(name, handle, identity, CSource(own_text(whole), tuple(_INCLUDE.findall(text))))


def _loaded_from(code: bytes, key: str, file: Path) -> Any:
    """The library made of these bytes; None where it cannot be loaded."""
    with _lock:
        if key not in _loaded:
            file.write_bytes(code)
            try:
                _loaded[key] = ctypes.CDLL(str(file))
            except OSError:
                return None
        return _loaded[key]


def _open(path: Path, digest: str) -> Any:
    """The library with these contents; one that has changed since it was loaded is loaded beside the old one.

    The linker knows libraries by their names, so that it is given a copy under another.
    """
    key = f"{path} {digest}"
    with _lock:
        if key not in _loaded:
            if str(path) not in _loaded:
                _loaded[key] = _loaded[str(path)] = ctypes.CDLL(str(path))
            else:
                with tempfile.TemporaryDirectory(prefix="pyasc-") as folder:
                    _loaded[key] = ctypes.CDLL(shutil.copy(path, folder))
        return _loaded[key]


def _last_part(error: OSError, path: Path) -> str:
    """What the dynamic linker said, without the file's name in front."""
    text = str(error)
    return text.rpartition(f"{path.name}: ")[2] or text


def find_compiler() -> tuple[str, ...]:
    """$CC, which may have options after the program, or else cc, gcc or clang.

    Raises
    ------
    ForeignError
        Where there is none.
    """
    try:
        return programs.find("CC", ("cc", "gcc", "clang"))
    except programs.Missing as missing:
        if missing.given:
            raise ForeignError(
                f"[FFI] expected a C compiler in the environment variable CC, given "
                f"{missing.given!r}: there is no program {missing.program}. Install it, "
                "name another, or unset CC for cc, gcc or clang."
            ) from None
    raise ForeignError(
        "[FFI] expected a C compiler ($CC, cc, gcc or clang), given none. Install one (`apt install gcc`), "
        "or load a library that is compiled already."
    )


@cache
def _version(compiler: tuple[str, ...]) -> str:
    return _run([*compiler, "--version"], "", "").partition("\n")[0]


def _run(command: list[str], name: str, text: str) -> str:
    """Run the compiler; what it says goes into the error, with the lines of the text that it means."""
    try:
        return programs.run(command, longest=LONGEST_S)
    except programs.Failed as failed:
        if failed.given:
            raise ForeignError(
                f"[FFI] expected a C compiler that runs, given {command[0]}, {failed.given}. "
                "Set CC to another."
            ) from None
        said = errors_of(failed.output, name, text)
        compiler = Path(command[0]).name
    raise ForeignError(f"[FFI] expected C that {compiler} compiles, given {name}:\n{said}")


def errors_of(output: str, name: str, text: str) -> str:
    """The first errors of a compiler's output, each with its line of the text."""
    lines = text.splitlines()
    shown: list[str] = []
    found = [e for e in _ERROR.findall(output) if e[0] not in ("collect2", "clang", "ld")]
    for place, message in found[:SHOWN]:
        parts = place.rsplit(":", 2)
        at = next((int(p) for p in parts[1:] if p.isdigit()), 0)
        own = parts[0].endswith(Path(name).name)
        shown.append(f"  {name if own else parts[0]}{f':{at}' if at else ''}: {message}")
        if own and 0 < at <= len(lines):
            shown.append(f"    {lines[at - 1].strip()}")
    if not shown:
        shown = [f"  {line}" for line in output.strip().splitlines()[-SHOWN:]]
    return "\n".join(shown)
