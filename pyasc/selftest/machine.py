"""The machine as far as a report needs it: versions, processor, toolkit, driver, settings; no secrets."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = ("pyasc-tensor", "numpy", "scipy", "llvmlite", "ml_dtypes", "pycparser", "torch", "torch-npu")
DRIVER = Path("/usr/local/Ascend/driver/version.info")
# Of the environment only what begins so is reported, and of that nothing that looks like a secret.
OURS = ("PYASC_", "ASCEND_", "STANDIN_")
SECRET = re.compile("TOKEN|SECRET|PASSW|CREDENTIAL|PRIVATE|_KEY$", re.IGNORECASE)


def shorten(text: str) -> str:
    """A text without the user's home folder."""
    home = os.path.expanduser("~")
    return text.replace(home, "~") if len(home) > 1 else text


def facts() -> dict[str, str]:
    """What is known of the machine without touching a device."""
    found = {"python": f"{platform.python_version()} ({sys.executable})", "system": platform.platform()}
    for package in PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    found["processor"] = f"{_processor()}, {len(os.sched_getaffinity(0))} of {os.cpu_count()} cores"
    found["memory"] = f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB"
    found["C++ compiler"] = _compiler()
    if DRIVER.exists():
        with contextlib.suppress(OSError):
            found["NPU driver"] = ", ".join(DRIVER.read_text(errors="replace").split("\n")[:3])
    nodes = sorted(path.name for path in Path("/dev").glob("davinci[0-9]*"))
    if nodes:
        found["NPU device files"] = " ".join(nodes)
    for name in sorted(os.environ):
        if name.startswith(OURS) and not SECRET.search(name):
            found[name] = os.environ[name]
    return {name: shorten(value) for name, value in found.items()}


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


def _compiler() -> str:
    from ..backend.sim.build import CompileError, find_compiler

    try:
        program = find_compiler()
        said = subprocess.run([*program, "--version"], capture_output=True, text=True, timeout=30)
    except (CompileError, OSError, subprocess.SubprocessError) as error:
        return str(error).partition("\n")[0].removeprefix("error: ")
    return f"{' '.join(program)}: {said.stdout.partition(chr(10))[0]}"


# --- in a process of its own, since a driver is asked -------------------------------------------------------


def found() -> Iterator[tuple[str, str]]:
    """Every kind of backend by its name, and why it cannot be tried ("" where it can). NPUs come last."""
    from ..backend.sim.build import CompileError, find_compiler
    from ..device import devices

    yield "cpu", ""
    try:
        find_compiler()
        yield "sim", ""
    except CompileError as error:
        yield "sim", str(error).removeprefix("error: ")
    there = devices()
    npus = [(device.name, "") for device in there if device.name != "cpu"]
    yield from npus or [("npu", there.note or "no device was found")]


def device_facts() -> dict[str, str]:
    """What the toolkit and the driver say of themselves."""
    from ..backend.npu import toolkit

    told: dict[str, Any] = {}
    with contextlib.suppress(Exception):
        detected = toolkit.detect()
        told = {
            "CANN": f"{detected.toolkit.version} in {detected.toolkit.root}",
            "chip": detected.soc,
            "devices": str(detected.count),
        }
    program = shutil.which("npu-smi")
    if program:
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            said = subprocess.run([program, "info"], capture_output=True, text=True, timeout=30)
            told["npu-smi info"] = said.stdout[:4000]
    return {name: shorten(str(value)) for name, value in told.items()}
