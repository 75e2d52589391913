"""Runs a whole Ascend C program, host part and kernels, on the host.

What a C++ compiler does not know is the launch, ``kernel<<<blocks, memory, stream>>>(arguments)``. It is
turned into a call of the simulator, in place, so that line numbers stay.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ..ascend.chip import Chip
from ..compiler import first_errors
from . import build, library
from .simulator import Finding

_TYPES = {
    "KERNEL_TYPE_AIV_ONLY": (0, 1),
    "KERNEL_TYPE_MIX_AIV_1_0": (0, 1),
    "KERNEL_TYPE_AIC_ONLY": (1, 1),
    "KERNEL_TYPE_MIX_AIC_1_0": (1, 1),
    "KERNEL_TYPE_MIX_AIC_1_1": (2, 1),
    "KERNEL_TYPE_MIX_AIC_1_2": (2, 2),
}
_CUBE = re.compile(r"\b(Mmad|LoadData|Fixpipe)\b")


def rewritten(source: str) -> str:
    """The source with its launches as calls."""
    parts: list[str] = []
    at = 0
    while (mark := source.find("<<<", at)) >= 0:
        start = _start_of_callee(source, mark)
        end = source.find(">>>", mark)
        if end < 0 or start == mark:
            raise Finding("[run] Expected kernel<<<blocks, memory, stream>>>(arguments).", "compiler")
        callee = source[start:mark].strip()
        opening = source.index("(", end)
        closing = _closing(source, opening)
        blocks = _first_argument(source[mark + 3 : end])
        arguments = source[opening : closing + 1]
        kind, vectors = _kind(source, callee)
        parts.append(source[at:start])
        parts.append(f"::sim::launch({kind}, {vectors}, {blocks}, [=]() {{ {callee}{arguments}; }})")
        at = closing + 1
    parts.append(source[at:])
    return "".join(parts)


def _start_of_callee(source: str, end: int) -> int:
    """Where ``name``, ``space::name`` or ``name<…>`` that ends at a place begins."""
    k = end
    while k and source[k - 1].isspace():
        k -= 1
    if k and source[k - 1] == ">":
        angles = parentheses = 0
        while k:
            k -= 1
            parentheses += {")": 1, "(": -1}.get(source[k], 0)
            if parentheses == 0:
                angles += {">": 1, "<": -1}.get(source[k], 0)
            if angles == 0:
                break
    while k and (source[k - 1].isalnum() or source[k - 1] in "_:"):
        k -= 1
    return k


def _closing(source: str, opening: int) -> int:
    depth = 0
    for k in range(opening, len(source)):
        depth += {"(": 1, ")": -1}.get(source[k], 0)
        if depth == 0:
            return k
    raise Finding("[run] Expected a ')' that closes a launch's arguments.", "compiler")


def _first_argument(text: str) -> str:
    depth = 0
    for k, character in enumerate(text):
        depth += {"(": 1, "<": 1, ")": -1, ">": -1}.get(character, 0)
        if character == "," and depth == 0:
            return text[:k].strip()
    return text.strip()


def _kind(source: str, callee: str) -> tuple[int, int]:
    """What cores a kernel runs on, and how many vector cores to a cube core."""
    name = re.sub(r"<.*", "", callee, flags=re.DOTALL).rsplit("::", 1)[-1]
    found = re.search(rf"([^;{{}}]*__global__[^;{{}}]*?\b){name}\s*\([^)]*\)\s*\{{", source)
    declared = found[1] if found else ""
    if mix := re.search(r"__mix__\(\s*(\d)\s*,\s*(\d)\s*\)", declared):
        cubes, vectors = int(mix[1]), int(mix[2])
        return (0, 1) if cubes == 0 else (1, 1) if vectors == 0 else (2, vectors)
    if "__vector__" in declared:
        return 0, 1
    if "__cube__" in declared:
        return 1, 1
    body = source[found.end() :] if found else source
    if stated := re.search(r"KERNEL_TASK_TYPE(?:_DEFAULT)?\((?:[^,)]*,)?\s*(KERNEL_TYPE_\w+)\s*\)", body):
        return _TYPES.get(stated[1], (0, 1))
    return (1, 1) if _CUBE.search(source) else (0, 1)


def compile_program(path: Path, options: Sequence[str], folder: Path | None = None) -> bytes:
    """Compile a program to an executable.

    Raises
    ------
    Finding
        With kind ``"compiler"``.
    """
    source = path.read_text(encoding="utf-8")
    try:
        compiler = build.compiler(folder)
        includes = ["-I", str(path.parent.resolve()), "-include", "kernel_operator.h"]
        return compiler.compile(rewritten(source), path.name, [*includes, *options], program=True)
    except build.CompileError as error:
        text, line = first_errors(error.output, source, path.name)
        raise Finding(f"[run] {text}", "compiler", line) from None


def run(path: Path, options: Sequence[str], arguments: Sequence[str], chip: Chip) -> int:
    """Compile a program and run it in the current folder; returns its exit status, 3 for a finding.

    Raises
    ------
    Finding
        If it does not compile, or a signal ends it.
    """
    code = compile_program(path, options)
    capacities = [*library.capacities(chip)[1:], chip.cube_cores, chip.vector_cores]
    environment = os.environ | {"PYASC_SIM_CHIP": ",".join(map(str, capacities))}
    with tempfile.TemporaryDirectory(prefix="pyasc-sim-") as folder:
        program = Path(folder, path.stem)
        program.write_bytes(code)
        program.chmod(0o700)
        status = subprocess.run([str(program), *arguments], env=environment, check=False).returncode
    if status < 0:
        raise Finding(
            f"[run] Expected a program that ends by itself, given one that a signal ended: "
            f"{signal.strsignal(-status)}. What reads or writes beyond its memory may be its host part.",
            "stopped",
        )
    return status
