"""A stand-in for CANN's ``bisheng`` and ``ld.lld``: the host's compiler with the simulator's headers.

Takes the options that the real ones are given, in both forms, and refuses others. Only the stand-in
``libascendcl.so`` loads what it writes. `toolkit.build` puts it into a toolkit's folder, with its
configuration beside it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

BOTH = b"STANDIN2"  # ends a binary of two objects, after where the second begins

_KERNEL = re.compile(
    r'^(?P<before>(?:extern\s+"C"\s+)?[\w\s(),]*__global__[\w\s(),]*?)\bvoid\s+(?P<name>\w+)\s*\(',
    re.MULTILINE,
)
_CORES = {"vec": 0, "cube": 1}
_WAITS = re.compile(r"\bSyncAll\s*(?:<\s*\w+\s*>)?\s*\(\s*\)|\bCrossCoreWaitFlag\b")
_ALLOWED = re.compile(
    r"-c|-O[0123s]|-g|-fPIC|-w|-W[\w=-]*|-f[\w=-]+|-D\w+(=.*)?|-U\w+|-I.+|-L.+|-l.+|--?shared|--cce-[\w=-]+|-isystem.*"
    r"|-s|-v"
)
_WITH_VALUE = {"-mllvm", "-Xclang", "-I", "-D", "-L", "-l", "-isystem", "-include"}


class Refused(Exception):
    """What a driver says of its options."""


def _driver(arguments: Sequence[str]) -> tuple[dict[str, str], list[str], list[str]]:
    """Options that matter here, the others for the host's compiler, and the inputs."""
    options: dict[str, str] = {}
    passed: list[str] = []
    inputs: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        if argument == "-o":
            options["out"] = next(rest, "")
        elif argument == "-x":
            options["language"] = next(rest, "")
        elif argument.startswith("-x"):
            options["language"] = argument[2:]
        elif argument.startswith("-std="):
            options["standard"] = argument[5:]
        elif argument.startswith("--cce-aicore-arch="):
            options["cores"] = argument.partition("=")[2]
        elif argument.startswith("--npu-arch="):
            options["architecture"] = argument.partition("=")[2]
        elif argument in _WITH_VALUE:
            value = next(rest, "")
            if argument in ("-I", "-D", "-isystem", "-include"):
                passed += [argument, value]
        elif argument.startswith("-"):
            if not _ALLOWED.fullmatch(argument):
                raise Refused(f"unknown argument: '{argument}'")
            options[argument] = ""
            if argument[:2] in ("-I", "-D", "-U"):
                passed.append(argument)
        else:
            inputs.append(argument)
    if not inputs:
        raise Refused("no input files")
    if len(inputs) > 1:
        raise Refused("cannot compile several sources at once here")
    if "out" not in options:
        raise Refused("expected -o")
    if not Path(inputs[0]).is_file():
        raise Refused(f"no such file or directory: '{inputs[0]}'")
    if options.get("standard", "c++17") not in ("c++17", "gnu++17", "c++20"):
        raise Refused(f"invalid value '{options['standard']}' in '-std={options['standard']}'")
    return options, passed, inputs


def _expect(options: dict[str, str], *needed: str) -> None:
    for one in needed:
        if one not in options:
            raise Refused(f"the stand-in compiler expects {one}")


def _folders(passed: Sequence[str]) -> list[str]:
    return [p[2:] or passed[n + 1] for n, p in enumerate(passed) if p.startswith("-I")]


def _table(cores: int, names: Sequence[str], waits: bool, macros: Sequence[str] = ()) -> str:
    """The text that tells libascendcl.so of the kernels, by the names that macros give them."""
    given = dict(m[2:].split("=", 1) for m in macros if m.startswith("-D") and "=" in m)
    text = '\n#line 1 "entries"\nstatic const standin::Kernel standin_kernels[] = {\n'
    for name in names:
        text += f'    standin::describe<&{name}>("{given.get(name, name)}", {cores}, 2, false, {waits:d}),\n'
    count = len(names)
    return (
        text
        + f'    {{}}}};\nextern "C" const standin::Table standin_table = {{2, {count}, standin_kernels}};\n'
    )


def _device_code(source: str, options: dict[str, str], passed: list[str]) -> tuple[str, list[str]]:
    """For ``-x cce``: the source with the table of its kernels, and more for the host's compiler."""
    _expect(options, "-c", "--cce-aicore-only", "standard", "cores")
    found = re.fullmatch(r"dav-c220-(vec|cube)", options["cores"])
    if not found:
        raise Refused(f"invalid value '{options['cores']}' in '--cce-aicore-arch='")
    tikcfw = [
        f for f in _folders(passed) if Path(f).name == "tikcfw" and Path(f, "kernel_operator.h").exists()
    ]
    if not tikcfw:
        raise Refused("the stand-in compiler expects -I of the toolkit's tikcfw, for kernel_operator.h")
    which = found[1]
    names = [m["name"] for m in _KERNEL.finditer(source) if "template" not in m["before"]]
    defined = [f"-D__DAV_C220_{which.upper()}__", "-D__CCE_AICORE__=220", "-D__CCE_IS_AICORE__"]
    table = _table(_CORES[which], names, _WAITS.search(source) is not None, passed)
    return source + table, defined


def _host_library(source: str, options: dict[str, str], config: dict[str, Any]) -> tuple[str, list[str]]:
    """For ``-xasc``: the source with its launches as calls."""
    _expect(options, "-fPIC", "standard")
    if "--shared" not in options and "-shared" not in options:
        raise Refused("the stand-in compiler expects --shared")
    if not config["new"]:
        raise Refused("unknown argument: '--npu-arch=" + options["architecture"] + "'")
    if options["architecture"] != "dav-2201":
        raise Refused(f"invalid value '{options['architecture']}' in '--npu-arch='")
    from pyasc.backend.sim import program

    parts: list[str] = []
    at = 0
    while (mark := source.find("<<<", at)) >= 0:
        start = program._start_of_callee(source, mark)
        end = source.find(">>>", mark)
        callee = source[start:mark].strip()
        opening = source.index("(", end)
        closing = program._closing(source, opening)
        kind, vectors = program._kind(source, callee)
        values = source[opening + 1 : closing].strip()
        configuration = source[mark + 3 : end]
        name = callee.rpartition("::")[2]
        parts.append(source[at:start])
        launch = f'::standin::Launch<&{callee}>{{"{name}", {kind}, {vectors}}}'
        parts.append(f"{launch}({configuration}{', ' if values else ''}{values})")
        at = closing + 1
    parts.append(source[at:])
    return "".join(parts), ["-D__NPU_ARCH__=2201"]


def _host_compiler(text: str, name: str, options: Sequence[str], config: dict[str, Any], out: Path) -> int:
    """Run it; what it says goes to stderr."""
    with tempfile.TemporaryDirectory(prefix="standin-") as folder:
        file = Path(folder, "source.cpp")
        file.write_text(f'#line 1 "{name}"\n{text}', encoding="utf-8")
        command = [
            *config["program"], *config["flags"], *(f"-I{f}" for f in config["precompiled"]),
            *(f"-I{f}" for f in config["includes"]), "-include", "kernel_operator.h",
            "-include", "compiled.hpp", *options,
            "-x", "c++", str(file), "-x", "none", config["engine"], config["library"], "-shared",
            "-o", str(out),
        ]  # fmt: skip
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False
        )
    said = done.stderr
    sys.stderr.write(said)
    if errors := len(re.findall(r": (?:fatal )?error: ", said)):
        sys.stderr.write(f"{errors} error{'s' if errors > 1 else ''} generated.\n")
    return done.returncode


def _misbehave(config: dict[str, Any]) -> None:
    how = os.environ.get("STANDIN_COMPILER", "")
    if how == "dies":
        sys.stderr.write("Stack dump:\n0.\tRunning pass 'HiIPU DAG->DAG Pattern Instruction Selection'\n")
        sys.stderr.flush()
        os.kill(os.getpid(), signal.SIGSEGV)
    elif how == "hangs":
        time.sleep(3600)
    elif how == "old":
        config["new"] = False
    elif how == "silent":
        sys.exit(1)


def bisheng(arguments: Sequence[str], config: dict[str, Any]) -> int:
    """The compiler; returns its exit status."""
    _misbehave(config)
    if "--version" in arguments or "-v" in arguments:
        print(
            f"clang version 15.0.5 (stand-in for CANN {config['version']})\nTarget: x86_64-unknown-linux-gnu"
        )
        return 0
    options, passed, inputs = _driver(arguments)
    source = Path(inputs[0]).read_text(encoding="utf-8")
    out = Path(options["out"])
    if options.get("language") == "cce":
        text, more = _device_code(source, options, passed)
    elif options.get("language") == "asc" and "architecture" in options:
        text, more = _host_library(source, options, config)
    else:
        raise Refused("the stand-in compiler expects -x cce, or --npu-arch and -x asc")
    own = [f"-I{f}" for f in _folders(passed) if Path(f).name not in ("tikcfw", "impl", "interface")]
    macros = [p for n, p in enumerate(passed) if p.startswith(("-D", "-U")) and p != "-D"]
    macros += [f"-D{passed[n + 1]}" for n, p in enumerate(passed) if p == "-D"]
    key = hashlib.blake2b(
        "\0".join([config["key"], inputs[0], text, *more, *own, *macros]).encode(), digest_size=20
    ).hexdigest()
    kept = Path(os.environ.get("STANDIN_CACHE") or config["kept"], key)
    if kept.exists():
        shutil.copyfile(kept, out)
        return 0
    status = _host_compiler(text, inputs[0], [*more, *own, *macros], config, out)
    if status == 0:
        kept.parent.mkdir(parents=True, exist_ok=True)
        aside = kept.with_suffix(f".{os.getpid()}")
        shutil.copyfile(out, aside)
        aside.replace(kept)
    return status


def linker(arguments: Sequence[str]) -> int:
    """Objects of device code to one binary."""
    rest = iter(arguments)
    inputs: list[str] = []
    out, machine, static = "", "", False
    for argument in rest:
        if argument == "-m":
            machine = next(rest, "")
        elif argument == "-o":
            out = next(rest, "")
        elif argument == "-static":
            static = True
        elif argument.startswith("-") and not argument.startswith("-Ttext="):
            raise Refused(f"unknown argument '{argument}'")
        elif not argument.startswith("-"):
            inputs.append(argument)
    if machine != "aicorelinux":
        raise Refused(f"unknown emulation: {machine}")
    if not static or not out or not 1 <= len(inputs) <= 2:
        raise Refused("the stand-in linker expects -static, -o and one or two objects")
    data = [Path(i).read_bytes() for i in inputs]
    if len(data) == 2:
        data.append(len(data[0]).to_bytes(8, "little") + BOTH)
    Path(out).write_bytes(b"".join(data))
    return 0


def main(program: str) -> int:
    config = json.loads(Path(sys.argv[0]).resolve().with_name("standin.json").read_text())
    try:
        return linker(sys.argv[1:]) if program == "ld.lld" else bisheng(sys.argv[1:], config)
    except Refused as refused:
        name = "ld.lld" if program == "ld.lld" else "bisheng"
        sys.stderr.write(f"{name}: error: {refused}\n")
        return 1
    except FileNotFoundError as error:
        sys.stderr.write(f"{program}: error: cannot open {error.filename}: No such file or directory\n")
        return 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[0]).name))
