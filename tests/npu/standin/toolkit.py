"""Lays out a folder like CANN's, with the stand-in library and compilers in it.

``python tests/npu/standin [FOLDER]`` does it by hand and prints what to set::

    eval "$(python tests/npu/standin)"
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from pyasc.backend.sim import build as simulator
from pyasc.backend.sim import library

HERE = Path(__file__).parent
ENGINE = Path(__file__).parents[3] / "backend" / "sim" / "src"  # its headers are not installed
OLD = "8.1.RC1"
NEW = "8.3.RC1"  # has the compiler's second form, and ACL's newer functions
NEWEST = "9.0.0"  # of those for which pyasc makes libraries of the host
NEWER = (  # than 8.1
    "aclrtBinaryLoadFromData", "aclrtExceptionInfoCallbackRegister", "aclrtExceptionInfoCallbackUnregister",
    "aclrtLaunchKernelWithHostArgs", "aclrtGetHardwareSyncAddr",
    "aclrtGetLogicDevIdByUserDevId", "aclrtGetDeviceInfo", "aclrtGetFunctionName",
    "aclFinalizeReference", "aclrtStreamWaitEventWithTimeout",
    "aclrtGetEventId", "aclrtGetEventAvailNum", "aclrtCtxGetCurrentDefaultStream",
    "aclrtGetStreamAvailableNum",
)  # fmt: skip
KEPT_S = 3 * 86400  # what no session used for so long goes

_FLAGS = ("-std=c++17", "-O1", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-pthread")


@dataclass(frozen=True)
class Toolkit:
    """A folder that looks like an installed CANN.

    Attributes
    ----------
    home : Path
        What ``ASCEND_HOME_PATH`` is set to.
    version : str
    """

    home: Path
    version: str

    @property
    def library(self) -> Path:
        """``libascendcl.so``."""
        return self.home / "lib64" / "libascendcl.so"

    @property
    def compiler(self) -> Path:
        """``bisheng``."""
        return self.home / "compiler" / "ccec_compiler" / "bin" / "bisheng"

    def environment(self) -> dict[str, str]:
        """The variables that the toolkit's ``set_env.sh`` sets."""
        home = str(self.home)
        path = [f"{home}/bin", f"{home}/compiler/ccec_compiler/bin"]
        return {
            "ASCEND_HOME_PATH": home,
            "ASCEND_TOOLKIT_HOME": home,
            "PATH": os.pathsep.join([*path, *_without(os.environ.get("PATH", ""), path)]),
            "LD_LIBRARY_PATH": os.pathsep.join(
                [f"{home}/lib64", *_without(os.environ.get("LD_LIBRARY_PATH", ""), [f"{home}/lib64"])]
            ),
        }


def _without(paths: str, others: list[str]) -> list[str]:
    return [p for p in paths.split(os.pathsep) if p and p not in others]


def root() -> Path:
    """Where what was compiled is kept, for all sessions of this user on this machine."""
    return Path(tempfile.gettempdir(), f"pyasc-standin-{os.getuid()}")


def build(folder: Path, version: str = NEW) -> Toolkit:
    """Lay out a toolkit.

    Parameters
    ----------
    folder : Path
        Becomes the toolkit's home; made where it is not there.
    version : str
        ``"8.1.RC1"`` has neither the compiler's form ``-xasc`` nor ACL's newer functions.
    """
    new = tuple(int(n) for n in version.split(".")[:2]) > (8, 1)
    made = _compiled()
    arch = f"{platform.machine()}-linux"
    programs = folder / "compiler" / "ccec_compiler" / "bin"
    headers = folder / "compiler" / "tikcpp" / "tikcfw"
    for one in (
        folder / "bin",
        folder / "lib64",
        folder / arch,
        programs,
        headers / "impl",
        headers / "interface",
    ):
        one.mkdir(parents=True, exist_ok=True)
    (headers / "kernel_operator.h").write_text("// The simulator's is read in its place.\n")
    built = made / ("" if new else "old") / "libascendcl.so"
    _link(built, folder / "lib64" / "libascendcl.so")
    settings = json.loads((made / "standin.json").read_text()) | {
        "version": version,
        "new": new,
        "library": str(built),
    }
    (programs / "standin.json").write_text(json.dumps(settings, indent=1))
    for name in ("bisheng", "ld.lld"):
        program = programs / name
        program.write_text(f"#!{sys.executable}\n" + (HERE / "compiler.py").read_text())
        program.chmod(0o755)
        _link(program, folder / "bin" / name)
    (folder / arch / "ascend_toolkit_install.info").write_text(
        f"package_name=Ascend-cann-toolkit\nversion={version}\narch={platform.machine()}\nos=linux\n"
        f"path={folder / arch}\n"
    )
    (folder / "version.cfg").write_text(
        "# version: 1.0\n"
        + "".join(
            f"{part}_running_version=[7.7.0.1.238:{version}]\n" for part in ("runtime", "compiler", "toolkit")
        )
    )
    (folder / "compiler" / "version.info").write_text(f"Version=7.7.0.1.238\nversion_dir={version}\n")
    return Toolkit(folder, version)


def _link(target: Path, link: Path) -> None:
    link.unlink(missing_ok=True)
    link.symlink_to(target)


def _compiled() -> Path:
    """The folder with the library and the compiler's settings, made by the first who needs it."""
    compiler = simulator.compiler(root() / "simulator")
    sources = sorted((HERE / "acl").glob("*.cpp"))
    read = [*sources, *sorted((HERE / "acl").glob("*.hpp")), *sorted(ENGINE.glob("*.hpp"))]
    read += [HERE / "device" / "compiled.hpp", HERE / "compiler.py", Path(__file__)]
    digest = hashlib.blake2b(digest_size=12)
    digest.update("\0".join([compiler.key, sys.executable, *_FLAGS]).encode())
    for file in read:
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    key = digest.hexdigest()
    folder = root() / key
    folder.mkdir(parents=True, exist_ok=True)
    with (root() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "standin.json").exists():
            shutil.rmtree(folder, ignore_errors=True)  # left by one that was killed
            folder.mkdir()
            _forget(folder)
            _compile(folder, sources, compiler)
            _write_settings(folder, key, compiler)
        os.utime(folder)
    return folder


def _compile(folder: Path, sources: list[Path], compiler: simulator.Compiler) -> None:
    includes = [f"-I{library.headers()}", f"-I{ENGINE}"]
    flags = [*_FLAGS, *includes]

    def compile_one(source: Path) -> str:
        made = str(folder / f"{source.stem}.o")
        _run([*compiler.program, *flags, "-c", str(source), "-o", made])
        return made

    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        objects = list(pool.map(compile_one, sources))
    engine = library.path()
    hidden = folder / "old" / "hidden"
    hidden.parent.mkdir()
    hidden.write_text(f"{{ global: *; local: {'; '.join(NEWER)}; }};")
    for made, more in ((folder, []), (hidden.parent, [f"-Wl,--version-script={hidden}"])):
        # Without a soname: kernels that need it find this one by its path, where a process has several.
        _run([
            *compiler.program, "-shared", "-pthread", *objects, str(engine), f"-Wl,-rpath,{engine.parent}",
            "-Wl,-Bsymbolic", *more, "-ldl", "-o", str(made / "libascendcl.so"),
        ])  # fmt: skip
    for one in objects:
        Path(one).unlink()


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr}")


def _write_settings(folder: Path, key: str, compiler: simulator.Compiler) -> None:
    compiler.compile('#include "kernel_operator.h"\n', "nothing.cpp")  # so that its header is precompiled
    precompiled = root() / "simulator" / "simulator" / compiler.key
    settings = {
        "key": key,
        "program": list(compiler.program),
        "flags": list(simulator.FLAGS),
        "precompiled": [str(precompiled)] if precompiled.exists() else [],
        "includes": [str(library.headers()), str(HERE / "acl"), str(HERE / "device")],
        "engine": str(library.path()),
        "kept": str(folder / "kernels"),
    }
    (folder / "standin.json").write_text(json.dumps(settings))


def _forget(kept: Path) -> None:
    """What was not used for long, and what another version left."""
    for one in root().iterdir():
        if (
            one.is_dir()
            and one != kept
            and one.name != "simulator"
            and time.time() - one.stat().st_mtime > KEPT_S
        ):
            shutil.rmtree(one, ignore_errors=True)


def main() -> None:
    """Build a toolkit in the folder that was given, or beside what is kept, and print what to set."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else root() / "toolkit"
    for name, value in build(folder.absolute()).environment().items():
        print(f"export {name}='{value}'")


if __name__ == "__main__":
    main()
