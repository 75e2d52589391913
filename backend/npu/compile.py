"""Compiles Ascend C with CANN's compiler: for the device's loader, or to a library with the launch in it.

The options are those that CANN's own builds for the architecture give: ``tikcpp/ascendc_kernel_cmake`` of 8.1
for device code, the samples of the Ascend C development kit for libraries.
"""

from __future__ import annotations

import hashlib
import re
import shlex
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from .. import compiler as programs
from ..ascend.generated import Generated
from ..base import LaunchError, Store
from .toolkit import Toolkit, read_version

STORED = "npu"
LONGEST_S = programs.LONGEST_S
KEPT = 8  # sources that did not compile
_DEVICE = (
    "-c", "-x", "cce", "-O3", "-std=c++17", "--cce-aicore-only", "--cce-disable-kernel-global-attr-check",
    "-mllvm", "-cce-aicore-stack-size=0x8000", "-mllvm", "-cce-aicore-function-stack-size=0x8000",
    "-mllvm", "-cce-aicore-record-overflow=false", "-mllvm", "-cce-aicore-addr-transform",
    "-mllvm", "-cce-aicore-dcci-insert-for-scalar=false", "-D__NPU_TILING__", "-DTILING_KEY_VAR=0",
)  # fmt: skip
_LIBRARY = ("-x", "asc", "-O2", "-std=c++17", "-fPIC", "--shared")
_LINK = ("-m", "aicorelinux", "-Ttext=0", "-static")
_FULL = "No space left on device"
_CORES = {"vector": ("vec",), "cube": ("cube",), "mixed": ("cube", "vec")}
_SIDES = {"cube": "mix_aic", "vec": "mix_aiv"}
# How cores wait for each other in hardware, through an address that the kernel must be given.
_SIGNALS = re.compile(
    r"\b(?:SyncAll\s*(?:<\s*\w+\s*>)?\s*\(\s*\)|CrossCore(?:Set|Wait)Flag\b|ffts_cross_core_sync\b)"
)


class _Job(NamedTuple):
    """A run of the compiler: the source's file and text, its options."""

    file: str
    source: str
    options: tuple[str, ...]


def fingerprint(toolkit: Toolkit) -> str:
    """What, besides its source and chip, decides what a kernel is compiled to."""
    flags = _LIBRARY if toolkit.makes_libraries else (*_DEVICE, *_LINK)
    digest = hashlib.blake2b("\0".join(flags).encode(), digest_size=6).hexdigest()
    return f"CANN {toolkit.version}|{'library' if toolkit.makes_libraries else 'device'}|{digest}"


def compile(generated: Generated, toolkit: Toolkit, store: Store | None = None) -> tuple[bytes, str]:
    """Compile a kernel, unless the store has it.

    Parameters
    ----------
    generated : Generated
    toolkit : Toolkit
    store : Store, optional
        Where what was compiled is kept, and in its folder ``failed`` the latest sources that did not compile.

    Returns
    -------
    bytes
        An ELF file.
    str
        What it is: ``"vector"``, ``"cube"``, ``"mixed"`` or ``"library"``, as `DeviceCode` has it; mixed too
        where cores of one kind signal to each other.

    Raises
    ------
    LaunchError
        With the compiler's first errors, their lines and the command to run again, or how it failed.
    """
    kind = "library" if toolkit.makes_libraries else "mixed" if _signals(generated) else generated.cores
    jobs = _library(generated, toolkit) if kind == "library" else _device(generated, toolkit)
    key = "\0".join(
        (
            fingerprint(toolkit),
            generated.chip.name,
            kind,
            generated.name,
            *(programs.without_comments(job.source) for job in jobs),
        )
    )
    code = store.read(STORED, key) if store else None
    if code is None:
        _same_version(toolkit)
        code = _Compilation(generated, toolkit, store).run(jobs, link=kind != "library")
        if store:
            store.write(STORED, key, code)
    return code, kind


def _same_version(toolkit: Toolkit) -> None:
    now = read_version(toolkit.root)
    if now != toolkit.version:
        raise LaunchError(
            f"expected CANN {toolkit.version} in {toolkit.root}, as when this process began, given "
            f"{now or 'none'}; start it again"
        )


# --- sources -----------------------------------------------------------------------------------------------


def _includes(toolkit: Toolkit) -> tuple[str, ...]:
    return tuple(f"-I{folder}" for folder in toolkit.includes)


def _library(generated: Generated, toolkit: Toolkit) -> list[_Job]:
    options = (*_LIBRARY, f"--npu-arch={generated.chip.architecture}", *_includes(toolkit))
    return [_Job(f"{generated.name}.asc", _marked(generated) + _stub(generated), options)]


def _marked(generated: Generated) -> str:
    """The source with the kernel's cores said, if it does not say them: the compiler cannot always tell."""
    source = generated.source
    if re.search(r"\b(?:__vector__|__cube__|__mix__|KERNEL_TASK_TYPE)", source):
        return source
    mark = {"vector": "__vector__", "cube": "__cube__", "mixed": "__mix__(1, 2)"}[generated.cores]
    if re.search(r"\bCrossCore(?:Set|Wait)Flag\b", source):  # not allowed with the first two
        mark = {"vector": "__mix__(0, 1)", "cube": "__mix__(1, 0)"}.get(generated.cores, mark)
    at = source.index("__global__", _definition(generated).start()) + len("__global__")
    return f"{source[:at]} {mark}{source[at:]}"


def _device(generated: Generated, toolkit: Toolkit) -> list[_Job]:
    """What is compiled; a kernel for both kinds of cores for each."""
    architecture = generated.chip.architecture
    assert architecture == "dav-2201", architecture  # which CANN 8 calls c220
    cores = _CORES[generated.cores]
    source = _entered(generated) if _signals(generated) else _described(generated)
    jobs = []
    for core in cores:
        options = (*_DEVICE, f"--cce-aicore-arch=dav-c220-{core}", *_includes(toolkit))
        if _signals(generated):
            options = (*options, f"-D{generated.name}={generated.name}_{_SIDES[core]}")
        jobs.append(_Job(f"{generated.name}.cce", source, options))
    return jobs


def _signals(generated: Generated) -> bool:
    """Whether its cores wait for each other, so that it takes the address for that."""
    return generated.cores == "mixed" or _SIGNALS.search(generated.source) is not None


def _definition(generated: Generated) -> re.Match[str]:
    """The beginning of the kernel's function in its source, to the end of the parameters."""
    found = re.search(
        r'^(?:extern\s+"C"\s+)?[\w \t(),]*__global__[\w\s(),]*?'
        rf"\bvoid\s+{generated.name}\s*\((?P<parameters>[^)]*)\)",
        generated.source,
        re.MULTILINE,
    )
    assert found is not None, f"no kernel {generated.name}"
    return found


def _parameters(generated: Generated) -> list[tuple[str, str]]:
    """Type and name of each parameter."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", _definition(generated)["parameters"], flags=re.DOTALL)
    found = []
    for parameter in filter(None, (p.strip() for p in text.split(","))):
        match = re.fullmatch(r"(.*?)(\w+)", parameter, re.DOTALL)
        assert match is not None, parameter
        found.append((" ".join(match[1].split()), match[2]))
    return found


def _stub(generated: Generated) -> str:
    """What launches a kernel from its block of arguments: addresses, then the struct."""
    parameters = _parameters(generated)
    count = len(generated.parameters)
    passed = [
        f"pointers[{n}]" if ctype == "GM_ADDR" else f"reinterpret_cast<{_on_host(ctype)}>(pointers[{n}])"
        for n, (ctype, _) in enumerate(parameters[:count])
    ]
    lines = [f"    uint8_t* pointers[{count}];", "    __builtin_memcpy(pointers, block, sizeof pointers);"]
    for ctype, _ in parameters[count:]:
        lines.append(f"    {ctype} fields;")
        lines.append("    __builtin_memcpy(&fields, block + sizeof pointers, sizeof fields);")
        passed.append("fields")
    call = f"{generated.name}<<<blocks, 0, stream>>>({', '.join(passed)});"
    return "\n".join([
        "",
        f'extern "C" int pyasc_launch_{generated.name}(uint32_t blocks, void* stream, const void* arguments)',
        "{",
        "    const uint8_t* block = static_cast<const uint8_t*>(arguments);",
        *lines,
        f"    {call}",
        "    return 0;",
        "}",
        "",
    ])  # fmt: skip


def _on_host(ctype: str) -> str:
    return re.sub(r"\b(__gm__|const|__restrict__)\s*", "", ctype).strip()


def _described(generated: Generated) -> str:
    """The source of a kernel for one kind of cores, with a record after it that tells the loader of which:
    what the headers call ``FunLevelKType``."""
    name, value = generated.name, {"cube": 2, "vector": 3}[generated.cores]
    kept = f'__attribute__((used, section(".ascend.meta.{name}")))'
    return f"""{generated.source}
struct PyascKind {{
    uint16_t kind, kindBytes;
    uint32_t value;
}};
static const PyascKind {name}_record {kept} = {{1, 4, {value}}};
"""


def _entered(generated: Generated) -> str:
    """The source of a kernel whose cores signal to each other, entered by a function that takes the address
    for that first. Its lines stay where they are.

    The records after it tell the loader how many cube and vector cores a block is: what the headers call
    ``FunLevelMixCoreType``, with the kind, ``K_TYPE_MIX_AIC_MAIN`` or ``K_TYPE_MIX_AIV_MAIN``, and the ratio.
    """
    found, name, source = _definition(generated), generated.name, generated.source
    newlines = "\n" * source[found.start() : found.start("parameters")].count("\n")
    inner = f"{newlines}__aicore__ inline void {name}_body({found['parameters']})"
    parameters = _parameters(generated)
    taken = ", ".join(["GM_ADDR signals", *(f"{ctype} {n}" for ctype, n in parameters)])
    given = ", ".join(n for _, n in parameters)
    kind, ratio = {"vector": (5, "0, 1"), "cube": (4, "1, 0"), "mixed": (4, "1, 2")}[generated.cores]
    sections = "\n".join(
        f"#if defined(__DAV_C220_{core.upper()}__)\n"
        f"static const PyascMixed {name}_{_SIDES[core]}_record __attribute__((used, section"
        f'(".ascend.meta.{name}_{_SIDES[core]}"))) = {{1, 4, {kind}, 3, 4, {ratio}}};\n#endif'
        for core in _CORES[generated.cores]
    )
    return f"""{source[: found.start()]}{inner}{source[found.end() :]}
extern "C" __global__ __aicore__ void {name}({taken})
{{
    if (signals != nullptr) {{
        set_ffts_base_addr(reinterpret_cast<uint64_t>(signals));
    }}
    {name}_body({given});
}}
struct PyascMixed {{
    uint16_t kind, kindBytes;
    uint32_t value;
    uint16_t ratio, ratioBytes, cubes, vectors;
}};
{sections}
"""


# --- running the compiler ----------------------------------------------------------------------------------


class _Compilation:
    """A kernel being compiled, in a folder of its own that is gone afterwards."""

    def __init__(self, generated: Generated, toolkit: Toolkit, store: Store | None) -> None:
        self.generated = generated
        self.toolkit = toolkit
        self.store = store
        self.given = f"{toolkit.compiler}, of CANN {toolkit.version}"

    def run(self, jobs: Sequence[_Job], link: bool) -> bytes:
        try:
            with tempfile.TemporaryDirectory(prefix="pyasc-npu-") as folder:
                made = [self._compiled(job, f"{n}.o", folder) for n, job in enumerate(jobs)]
                if link:
                    self._ran(self._link(made, "linked"), folder, jobs, link)
                    made = ["linked"]
                return self._read(Path(folder, made[0]))
        except OSError as error:
            raise LaunchError(_no_room(error.strerror or str(error))) from None

    def _compile(self, job: _Job, file: str, out: str) -> list[str]:
        return [str(self.toolkit.compiler), *job.options, file, "-o", out]

    def _link(self, objects: list[str], out: str) -> list[str]:
        return [str(self.toolkit.linker), *_LINK, *objects, "-o", out]

    def _compiled(self, job: _Job, out: str, folder: str) -> str:
        Path(folder, job.file).write_text(job.source, encoding="utf-8")
        self._ran(self._compile(job, job.file, out), folder, [job])
        self._read(Path(folder, out))
        return out

    def _read(self, path: Path) -> bytes:
        code = path.read_bytes() if path.exists() else b""
        if not code.startswith(b"\x7fELF"):
            what = "a file that is no binary" if code else "no file and no message"
            raise LaunchError(
                f"expected a binary from a compiler, given {what} by {self.given}; install CANN again"
            )
        return code

    def _ran(self, command: list[str], folder: str, jobs: Sequence[_Job], link: bool = False) -> None:
        # The compiler finds its own parts by it, where CANN was found in a usual place.
        variables = {"ASCEND_HOME_PATH": str(self.toolkit.root)}
        try:
            programs.run(command, folder, LONGEST_S, variables)
        except programs.Failed as failed:
            name, job = self.generated.name, jobs[0]
            if _FULL in failed.output:
                raise LaunchError(_no_room(_FULL)) from None
            if not failed.given:
                text, _ = programs.first_errors(failed.output, job.source, job.file)
                problem = (
                    f"expected Ascend C that CANN {self.toolkit.version} compiles, given {name}:\n{text}"
                )
            else:
                problem = f"expected a compiler for {name}, given {command[0]}, {failed.given}"
                if said := failed.output.strip():
                    problem += ":\n" + "\n".join(f"  {line}" for line in said.splitlines()[:4])
        else:
            return
        raise LaunchError(f"{problem}\nTo see it again: {self._again(jobs, link)}")

    def _again(self, jobs: Sequence[_Job], link: bool) -> str:
        """The commands, for a copy of the source that stays."""
        commands, objects = [], []
        for n, job in enumerate(jobs):
            kept = self._kept(job)
            objects.append(f"{kept}.{n}.o")
            commands.append(self._compile(job, str(kept), objects[-1]))
        if link:
            commands.append(self._link(objects, f"{objects[0]}.linked"))
        home = f"ASCEND_HOME_PATH={self.toolkit.root}"
        return " && ".join(shlex.join(["env", home, *command]) for command in commands)

    def _kept(self, job: _Job) -> Path:
        stem, ending = job.file.rsplit(".", 1)
        digest = hashlib.blake2b(job.source.encode(), digest_size=4).hexdigest()
        roots = [self.store.folder()] if self.store else []
        for root in (*roots, Path(tempfile.gettempdir(), "pyasc-npu")):
            folder = root / "failed"
            path = folder / f"{stem}-{digest}.{ending}"
            with suppress(OSError):
                folder.mkdir(parents=True, exist_ok=True)
                path.write_text(job.source, encoding="utf-8")
                _keep_newest(folder)
                return path.absolute()
        return Path(job.file)


def _keep_newest(folder: Path) -> None:
    files = sorted((f for f in folder.iterdir() if f.is_file()), key=lambda f: f.stat().st_mtime)
    for file in files[:-KEPT]:
        with suppress(OSError):
            file.unlink()


def _no_room(why: str) -> str:
    return (
        f"expected a folder for temporary files that has room, given {tempfile.gettempdir()}: {why}; "
        "set TMPDIR to another"
    )
