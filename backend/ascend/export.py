"""A function's kernels as a C++ project: kernels, the host code that launches them, a test with golden data.

The project builds with CANN for the NPU and with a C++ compiler for the simulator, from the same files.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..ir import Binding
from . import project as files
from .arguments import FORMATS
from .chip import Chip
from .generated import STATUS_BYTES, Bound, Field, Generated
from .rounding import round_up

WIDTH = 110
# Of the largest golden value: a kernel sums and rounds in another order than NumPy does.
_TOLERANCE = {"float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}


@dataclass(frozen=True)
class ProjectArray:
    """An array that the project's program holds on the device.

    Attributes
    ----------
    data : array or None
        Of an input its values, of an output the golden ones.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    role: Literal["input", "output", "temporary"]
    data: NDArray[Any] | None = None

    @property
    def nbytes(self) -> int:
        """Its size."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize


@dataclass(frozen=True)
class ProjectLaunch:
    """A kernel, its sizes, and its arguments.

    Attributes
    ----------
    binding : Binding
        With one parallel axis at least.
    arrays : tuple of int
        For each operand of the kernel the number of the array.
    scalars : tuple of int
        The bits of the scalar arguments.
    """

    generated: Generated
    bound: Bound
    binding: Binding
    arrays: tuple[int, ...]
    scalars: tuple[int, ...]


@dataclass(frozen=True)
class Project:
    """Everything that is written."""

    name: str
    chip: Chip
    arrays: tuple[ProjectArray, ...]
    launches: tuple[ProjectLaunch, ...]
    description: str


def write_project(project: Project, folder: Path, progress: Callable[[str], None]) -> None:
    """Write the files; `progress` is told of each."""

    def write(path: str, text: str) -> None:
        progress(path)
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text.lstrip("\n"))

    kernels = _distinct(project.launches)
    for name, launch in kernels.items():
        write(f"kernels/{name}.asc", _kernel_file(name, launch))
    write("src/main.asc", _main(project, kernels))
    write("src/device.hpp", files.DEVICE)
    write("src/sizes.hpp", files.SIZES)
    write("src/compare.hpp", files.COMPARE)
    write("CMakeLists.txt", _filled(files.CMAKE, project, kernels))
    write("Makefile", _filled(files.MAKEFILE, project, kernels))
    write("README.md", _readme(project, kernels))
    (folder / "data").mkdir(exist_ok=True)
    for array in project.arrays:
        if array.data is not None:
            path = f"data/{array.name}.bin"
            progress(path)
            (folder / path).write_bytes(np.ascontiguousarray(array.data).tobytes())


def _distinct(launches: Sequence[ProjectLaunch]) -> dict[str, ProjectLaunch]:
    """The kernels by the names of their functions and files: one for each source."""
    kernels: dict[str, ProjectLaunch] = {}
    for launch in launches:
        if any(k.generated.source == launch.generated.source for k in kernels.values()):
            continue
        name, number = launch.generated.name, 2
        while name in kernels:
            name, number = f"{launch.generated.name}_{number}", number + 1
        kernels[name] = launch
    return kernels


# --- kernels ------------------------------------------------------------------------------------------


def _sizes(launch: ProjectLaunch) -> list[str]:
    """The names of the sizes, strides and offsets that host expressions are written in."""
    names = [f"n{k}" for k in range(len(launch.binding.extents))]
    names += [f"s{n}_{k}" for n, strides in enumerate(launch.binding.strides) for k in range(len(strides))]
    names += [f"o{n}" for n in range(len(launch.binding.offsets))]
    return names + [f"z{n}" for n in range(len(launch.binding.sizes))]


def _size_values(launch: ProjectLaunch) -> dict[str, int]:
    values = [
        *launch.binding.extents,
        *(s for strides in launch.binding.strides for s in strides),
        *launch.binding.offsets,
        *launch.binding.sizes,
    ]
    return dict(zip(_sizes(launch), values, strict=True))


def _used(launch: ProjectLaunch) -> list[str]:
    """The sizes that a kernel's host code uses, in order."""
    texts = [f.host for f in launch.generated.fields] + [text for _, text in launch.generated.host]
    words = {word for text in texts for word in re.findall(r"\b[nsoz]\d+(?:_\d+)?\b", text)}
    return [name for name in _sizes(launch) if name in words]


def _scalar_type(field: Field) -> str:
    return {"half": "float", "bfloat16_t": "float"}.get(field.ctype, field.ctype)


def _parameters(launch: ProjectLaunch) -> list[str]:
    """The parameters of the function that launches a kernel."""
    generated = launch.generated
    result = ["const Device& device"]
    result += [f"const Buffer& {p.name}" for p in generated.parameters]
    result += [f"int64_t {name}" for name in _used(launch)]
    result += [f"{_scalar_type(f)} {f.name}" for f in _passed(generated)]
    return result if _computes_blocks(launch) else [*result, "uint32_t blocks"]


def _passed(generated: Generated) -> list[Field]:
    """The fields that the caller gives: scalars, and what is not computed from the sizes."""
    return [f for f in generated.fields if not f.host]


def _computes_blocks(launch: ProjectLaunch) -> bool:
    return any(name == "blocks" for name, _ in launch.generated.host)


def _kernel_file(name: str, launch: ProjectLaunch) -> str:
    """The generated source, and after it the host's side of the launch."""
    generated = launch.generated
    lines = [
        "// --- host ---------------------------------------------------------------------------------------",
        "",
        '#include "device.hpp"',
        '#include "sizes.hpp"',
        "#ifdef ON_SIMULATOR",
        '#include "sim/program.hpp"',
        "#endif",
        "",
        *_wrapped(f"void launch_{name}(", _parameters(launch), ") {"),
    ]
    for local, text in generated.host:
        lines.append(f"    const int64_t {local} = {text};")
    if generated.fields:
        lines.append("    Tiling tiling{};")
        for field in generated.fields:
            value = f"static_cast<{field.ctype}>({field.host or field.name})"
            lines.append(f"    tiling.{field.name} = {value};")
    blocks = "static_cast<uint32_t>(blocks)" if _computes_blocks(launch) else "blocks"
    addresses = [f"{p.name}.address()" for p in generated.parameters]
    given = [*addresses, *(["tiling"] if generated.fields else [])]
    kind = {"vector": "0, 1", "cube": "1, 1", "mixed": "2, 2"}[generated.cores]
    lines += [
        "#ifdef ON_SIMULATOR",
        *_wrapped(f"    sim::launch({kind}, {blocks}, [&] {{ {name}(", given, "); });"),
        "#else",
        *_wrapped(f"    {name}<<<{blocks}, 0, device.stream()>>>(", given, ");"),
        "#endif",
        "    device.wait();",
        "}",
        "",
    ]
    source = re.sub(rf"\b{generated.name}\b", name, generated.source)
    return source.rstrip("\n") + "\n\n" + "\n".join(lines)


def _unpacked(fields: Sequence[Field], data: bytes) -> dict[str, int | float]:
    """The values of the fields of a struct as C lays them out."""
    values: dict[str, int | float] = {}
    at = 0
    for field in fields:
        form = FORMATS[field.ctype]
        size = struct.calcsize(form)
        at = round_up(at, size)
        (values[field.name],) = struct.unpack_from(f"<{form}", data, at)
        at += size
    return values


def _wrapped(head: str, items: Sequence[str], tail: str) -> list[str]:
    """A call or declaration on one line, or on as many as it takes."""
    if len(head) + sum(len(item) + 2 for item in items) + len(tail) <= WIDTH:
        return [f"{head}{', '.join(items)}{tail}"]
    indent = " " * (len(head) - len(head.lstrip()) + 8)
    lines, line = [head], indent
    for number, item in enumerate(items):
        text = item + (", " if number < len(items) - 1 else tail)
        if len(line) + len(text) > WIDTH and line.strip():
            lines.append(line.rstrip())
            line = indent
        line += text
    return [*lines, line.rstrip()]


# --- the program --------------------------------------------------------------------------------------


def _main(project: Project, kernels: dict[str, ProjectLaunch]) -> str:
    lines = [
        f"// {project.description}",
        "// Runs the kernels on the example's data and compares with what NumPy gives.",
        '#include "compare.hpp"',
        '#include "device.hpp"',
        "",
        "#include <exception>",
        "",
    ]
    for name, launch in kernels.items():
        lines += _wrapped(f"void launch_{name}(", _parameters(launch), ");")
    lines += ["", "static bool run() {", "    Device device;"]
    for array in project.arrays:
        shape = " × ".join(map(str, array.shape)) or "a number"
        lines.append(f"    Buffer {array.name}({max(array.nbytes, 1)});  // {array.dtype.name}, {shape}")
    lines += [
        f'    {a.name}.upload(read_file("data/{a.name}.bin", {a.nbytes}));'
        for a in project.arrays
        if a.role == "input"
    ]
    for number, launch in enumerate(project.launches):
        lines += ["", *_launch_lines(project, kernels, launch, number)]
    lines += ["", "    bool right = true;"]
    for array in project.arrays:
        if array.role == "output":
            tolerance = _TOLERANCE.get(array.dtype.name, 0.0)
            lines.append(
                f'    right &= compare("{array.name}", "{array.dtype.name}", {array.dtype.itemsize}, '
                f"{array.name}.download(), "
                f'read_file("data/{array.name}.bin", {array.nbytes}), {tolerance:g});'
            )
    lines += [
        "    return right;",
        "}",
        "",
        "int main() {",
        "    try {",
        "        const bool right = run();",
        '        std::printf("%s\\n", right ? "PASSED" : "FAILED");',
        "        return right ? 0 : 1;",
        "    } catch (const std::exception& error) {",
        '        std::fprintf(stderr, "%s\\n", error.what());',
        "        return 2;",
        "    }",
        "}",
        "",
    ]
    return "\n".join(lines)


def _launch_lines(
    project: Project, kernels: dict[str, ProjectLaunch], launch: ProjectLaunch, number: int
) -> list[str]:
    generated = launch.generated
    name = next(n for n, k in kernels.items() if k.generated.source == generated.source)
    values = _size_values(launch)
    tiling = _unpacked(generated.fields, launch.bound.tiling(list(launch.scalars)))
    lines = []
    passed = ["device"]
    status = ""
    for parameter in generated.parameters:
        if parameter.operand >= 0:
            passed.append(project.arrays[launch.arrays[parameter.operand]].name)
            continue
        scratch = f"{parameter.name}{number}"
        nbytes = STATUS_BYTES * launch.bound.blocks if parameter.kind == "status" else launch.bound.scratch
        lines += [f"    Buffer {scratch}({nbytes});", f"    {scratch}.upload(Bytes({nbytes}));"]
        status = scratch if parameter.kind == "status" else status
        passed.append(scratch)
    passed += [str(values[size]) for size in _used(launch)]
    passed += [_literal(tiling[f.name], f) for f in _passed(generated)]
    if not _computes_blocks(launch):
        passed.append(str(launch.bound.blocks))
    lines += _wrapped(f"    launch_{name}(", passed, ");")
    if status:
        lines += [
            f"    const Bytes faults{number} = {status}.download();",
            f"    for (size_t block = 0; block < faults{number}.size(); block += 64) {{",
            "        int64_t code, value;",
            f"        std::memcpy(&code, &faults{number}[block], 8);",
            f"        std::memcpy(&value, &faults{number}[block + 8], 8);",
            '        if (code) throw std::runtime_error("index out of bounds: " + std::to_string(value));',
            "    }",
        ]
    return lines


def _literal(value: int | float, field: Field) -> str:
    """A field's value as a literal of the parameter's type."""
    if field.ctype == "bfloat16_t":
        (value,) = struct.unpack("<f", struct.pack("<I", int(value) << 16))
    if not isinstance(value, float):
        return str(value)
    if not np.isfinite(value):
        return "NAN" if np.isnan(value) else "INFINITY" if value > 0 else "-INFINITY"
    return f"{float(np.float32(value))!r}f"


# --- the rest -----------------------------------------------------------------------------------------


def _filled(text: str, project: Project, kernels: dict[str, ProjectLaunch]) -> str:
    chip, c = project.chip, project.chip.capacity
    capacities = (c.ub, c.l1, c.l0a, c.l0b, c.l0c, c.bias_table or 0, c.fixpipe_buffer or 0)
    cores = (chip.cube_cores, chip.vector_cores)
    values = {
        "NAME": project.name,
        "ARCHITECTURE": chip.architecture,
        "KERNELS": "\n".join(f"    kernels/{name}.asc" for name in kernels),
        "CAPACITIES": ",".join(map(str, (*capacities, *cores))),
        "CHIP": chip.name,
    }
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return text


def _readme(project: Project, kernels: dict[str, ProjectLaunch]) -> str:
    rows = [
        f"| `{a.name}` | {a.dtype.name} | {' × '.join(map(str, a.shape)) or 'a number'} | {a.role} |"
        for a in project.arrays
    ]
    kernel_rows = [
        f"* `kernels/{name}.asc`: {launch.generated.cores} cores, {launch.bound.blocks} blocks"
        for name, launch in kernels.items()
    ]
    tilings = []
    for name, launch in kernels.items():
        tilings += [f"`{name}`", "", "```", str(launch.generated.tiling), "```", ""]
    return "\n".join(
        [
            f"# {project.name}",
            "",
            project.description,
            "",
            f"Ascend C for {project.chip.name} ({project.chip.architecture}), written by pyasc.",
            "",
            "```sh",
            "make simulate   # a C++ compiler and pyasc: on the simulated chip, each access checked",
            "                # (pyasc in another Python than python3: PYTHON=/path/to/its/python)",
            "make npu        # needs CANN (source its set_env.sh) and an NPU",
            "```",
            "",
            "Both run the kernels on the data in `data/` and compare with what NumPy gave.",
            "",
            *kernel_rows,
            "* `src/main.asc`: reads the data, launches the kernels in order, compares",
            "* `src/device.hpp`, `src/sizes.hpp`, `src/compare.hpp`: memory through ACL, sizes, comparison",
            "",
            "| array | dtype | shape | |",
            "|---|---|---|---|",
            *rows,
            "",
            "## Tiling",
            "",
            "Each kernel's file ends with the function that fills its `Tiling` and launches it.",
            "",
            *tilings,
        ]
    )
