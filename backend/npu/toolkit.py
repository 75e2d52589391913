"""Finds CANN and what it has: the runtime library, the compiler, its version."""

from __future__ import annotations

import os
import platform
import re
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ..ascend import chip as chip_data

OLDEST = (8, 1)  # what this is written for: functions of ACL, names of Ascend C
# From here on the compiler makes a shared library with the launches in it, as the samples of that release do.
LIBRARIES = (9, 0)
# `set_env.sh` sets the first; older ones only the second.
VARIABLES = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME")
_ROOTS = ("/usr/local/Ascend", "~/Ascend", "/opt/Ascend")
_FOLDERS = ("cann", "ascend-toolkit/latest", "latest")
_LINUX = f"{platform.machine()}-linux"
_VERSION = re.compile(r"\d+\.\d+[\w.+-]*")
# Where a version is written, and its name there; the first that is found counts.
_VERSIONS = (
    (f"{_LINUX}/ascend_toolkit_install.info", "version"),
    ("ascend_toolkit_install.info", "version"),
    ("compiler/version.info", "version_dir"),
    ("version.cfg", "toolkit_running_version"),
    ("share/info/asc-devkit/version.info", "version"),
)
_LIBRARY = tuple(f"{folder}/libascendcl.so" for folder in ("lib64", f"{_LINUX}/lib64", "runtime/lib64"))
_PROGRAMS = (
    "compiler/ccec_compiler/bin", f"{_LINUX}/ccec_compiler/bin", "tools/ccec_compiler/bin",
    "tools/bisheng_compiler/bin", "bin",
)  # fmt: skip
_HEADERS = ("compiler/tikcpp/tikcfw", f"{_LINUX}/tikcpp/tikcfw", "tikcpp/tikcfw")


class ToolkitError(Exception):
    """Why there is no CANN to use; the text is one sentence.

    Attributes
    ----------
    root : Path or None
        Of the CANN that is broken; None where there is none at all.
    """

    def __init__(self, message: str, root: Path | None = None) -> None:
        super().__init__(message)
        self.root = root


@dataclass(frozen=True)
class Toolkit:
    """An installed CANN.

    Attributes
    ----------
    root : Path
        What ``ASCEND_HOME_PATH`` names.
    version : str
        ``"8.1.RC1"``.
    library, compiler, linker : Path
        ``libascendcl.so``, ``bisheng`` and ``ld.lld``.
    includes : tuple of Path
        Folders for the compiler.
    """

    root: Path
    version: str
    library: Path
    compiler: Path
    linker: Path
    includes: tuple[Path, ...]

    @property
    def makes_libraries(self) -> bool:
        """Whether it compiles kernels to shared libraries of the host, not to binaries of the device."""
        return _numbers(self.version) >= LIBRARIES


@dataclass(frozen=True)
class Detected:
    """What there is to run on.

    Attributes
    ----------
    toolkit : Toolkit
    count : int
        Of devices.
    soc : str
        As ACL calls it, ``"Ascend910B1"``; "" without a device.
    """

    toolkit: Toolkit
    count: int
    soc: str

    @property
    def chip(self) -> str:
        """The name of the chip's data, ``"910B1"``. Raises ToolkitError."""
        return chip_of(self.soc)


@cache
def find() -> Toolkit:
    """The CANN that the environment names, or else the first in the usual places.

    Raises
    ------
    ToolkitError
    """
    for variable in VARIABLES:
        if given := os.environ.get(variable, "").strip():
            return _checked(Path(given).expanduser().absolute(), f"{variable}={given}")
    for root in _usual_places():
        with suppress(OSError):
            if root.is_dir():
                return _checked(root, str(root))
    raise ToolkitError(
        f"expected CANN where {VARIABLES[0]} says or in {', '.join(_ROOTS)}, given none; install it, or "
        "source the set_env.sh of one that is installed"
    )


@cache
def detect() -> Detected:
    """CANN and the devices that its runtime library sees, which is loaded for that.

    Raises
    ------
    ToolkitError
        Where there is no CANN, or its library does not load.
    """
    from .. import _runtime

    toolkit = find()
    # One that was loaded stays; `find` gave the same path then.
    with suppress(ValueError):
        _runtime.device_set_library(str(toolkit.library))
    try:
        count = _runtime.device_count()
        return Detected(toolkit, count, _runtime.device_soc_name() if count else "")
    except _runtime.DeviceFailure as failure:
        said = failure.text or failure.message or f"{failure.call} gave {failure.code}"
        raise ToolkitError(
            f"expected devices that {toolkit.library} finds, given: {said.rstrip('.')}; see with "
            "npu-smi info whether the driver is installed and this user may use it",
            toolkit.root,
        ) from None


def forget() -> None:
    """Look again at the next call."""
    find.cache_clear()
    detect.cache_clear()


def chip_of(soc: str) -> str:
    """The chip that a SoC is, by ACL's name for it.

    ``Ascend910B2C`` is a 910B2 and ``Ascend910B4-1`` a 910B4; ``Ascend910_9391`` and the like are 910C.

    Raises
    ------
    ToolkitError
        Where there is no generator for it.
    """
    from ..ascend.backend import chips

    name = soc.removeprefix("Ascend")
    if re.fullmatch(r"910_93\d\d", name):
        name = "910C"
    elif match := re.match(r"910B\d", name):
        name = match[0]
    if name not in chips():
        known = [n for n in chip_data.available() if n not in chips() and name.startswith(n)]
        why = f", a {known[0]}, for which no kernels are written yet" if known else ""
        raise ToolkitError(f"expected one of the chips {', '.join(chips())}, given {soc or 'none'}{why}")
    return name


def read_version(root: Path) -> str:
    """The version that a CANN says it has; "" where it says none."""
    for place, name in _VERSIONS:
        try:
            text = (root / place).read_text(errors="replace")
        except OSError:
            continue
        for line in text.splitlines():
            key, _, value = line.partition("=")
            if key.strip().lower() == name:
                # version.cfg has [internal version:version].
                found = _VERSION.findall(value)
                if found:
                    return str(found[-1]).rstrip(".")
    return ""


def _usual_places() -> Iterator[Path]:
    for root in _ROOTS:
        for folder in _FOLDERS:
            with suppress(RuntimeError):  # no home
                yield Path(root).expanduser() / folder


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", version)[:2])


def _checked(root: Path, given: str) -> Toolkit:
    """The toolkit in a folder, `given` as messages show it."""
    try:
        present = root.is_dir()
    except OSError:
        present = True
    if not present:
        is_file = root.exists()
        raise ToolkitError(
            f"expected the folder of CANN, given {given}: "
            + ("it is no folder" if is_file else "there is none"),
            root,
        )
    if not os.access(root, os.R_OK | os.X_OK):
        raise ToolkitError(f"expected a CANN that can be read, given {given}: permission denied", root)
    version = read_version(root)
    if not version:
        raise ToolkitError(
            f"expected a CANN that says its version in {_VERSIONS[0][0]}, given {given} without; "
            "install it again",
            root,
        )
    if _numbers(version) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise ToolkitError(
            f"expected CANN {oldest} or later, given {version} in {given}; install a newer one", root
        )
    library = _first(root, _LIBRARY)
    if library is None:
        raise ToolkitError(
            f"expected CANN with {_LIBRARY[0]}, given {given} (CANN {version}) without; install its runtime",
            root,
        )
    for program in (f"{folder}/bisheng" for folder in _PROGRAMS):
        compiler = root / program
        linker = compiler.with_name("ld.lld")
        if compiler.is_file() and linker.is_file():
            break
    else:
        raise ToolkitError(
            f"expected CANN with its compiler, {_PROGRAMS[0]}/bisheng and ld.lld, given {given} (CANN "
            f"{version}) without; install the toolkit, not the runtime alone",
            root,
        )
    for path, mode in ((library, os.R_OK), (compiler, os.X_OK), (linker, os.X_OK)):
        if not os.access(path, mode):
            what = "read" if mode == os.R_OK else "run"
            raise ToolkitError(
                f"expected a CANN that can be used, given {path}, which this user may not {what}", root
            )
    if _is_cut_short(library):
        raise ToolkitError(
            f"expected a library, given {library}, which ends too early; install CANN again", root
        )
    headers = _first(root, tuple(f"{folder}/kernel_operator.h" for folder in _HEADERS))
    if headers is None:
        raise ToolkitError(
            f"expected CANN with the headers of Ascend C, {_HEADERS[0]}/kernel_operator.h, given {given} "
            f"(CANN {version}) without; install the toolkit, not the runtime alone",
            root,
        )
    tikcfw = headers.parent
    folders = (tikcfw, tikcfw / "impl", tikcfw / "interface", root / "include")
    return Toolkit(root, version, library, compiler, linker, tuple(f for f in folders if f.is_dir()))


def _first(root: Path, places: tuple[str, ...]) -> Path | None:
    return next((root / place for place in places if (root / place).is_file()), None)


def _is_cut_short(library: Path) -> bool:
    """Whether an ELF file has less than it says: the loader would be ended by SIGBUS."""
    with library.open("rb") as file:
        header = file.read(64)
        size = file.seek(0, os.SEEK_END)
    if not header.startswith(b"\x7fELF\x02\x01"):
        return False  # the loader says what is wrong
    if len(header) < 64:
        return True
    (sections,) = struct.unpack_from("<Q", header, 40)
    entry, count = struct.unpack_from("<HH", header, 58)
    return bool(sections) and sections + entry * count > size
