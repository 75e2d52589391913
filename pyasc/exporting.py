"""`pyasc.export`: a function's kernels as a complete C++ project."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from .backend import _runtime
from .backend.ir import Binding, Kernel, binding_with_axis
from .backend.progress import Progress
from .explain import Names, named
from .jit import Jitted
from .lazy import evaluate
from .lazy.backends import DEFAULT_CHIP, checked_chip, generator
from .lazy.handwritten import Handwritten
from .lazy.interpret import interpret
from .lazy.lower import LoweredKernel
from .lazy.pipeline import Lowered, compile_tape
from .lazy.schedule import Schedule, Step
from .ops import _graph
from .ops._graph import Tape
from .ops.errors import ArgumentError, DtypeError, FolderError, NotSupported
from .ops.primitives import EMPTY, HOST_CALL, LEAF, MATMUL, UPDATE, VIEW
from .ops.storage import contiguous_strides

if TYPE_CHECKING:
    from .backend.ascend.export import Project, ProjectArray, ProjectLaunch
    from .backend.ascend.generated import Generated

_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_WRITTEN = ("CMakeLists.txt", "Makefile", "README.md", "data", "kernels", "src")
_MARK = "-m pyasc.backend.sim flags"  # in the Makefile of every export


def export(
    function: Callable[..., Any],
    *examples: Any,
    folder: str | os.PathLike[str],
    name: str = "",
    chip: str = DEFAULT_CHIP,
    progress: bool | None = None,
) -> Path:
    """Write a function as a C++ project: kernels, tiling and launches on the host, a test with golden data.

    The project builds with CANN for the NPU, and with a C++ compiler for the simulator: ``make simulate``.

    Parameters
    ----------
    function : callable
        As for `pyasc.jit`.
    *examples : Tensor, array, number, …
        Arguments. The project's data are theirs, the golden data what NumPy gives for them.
    folder : path
        Made where it is not there; files of an earlier export are replaced, other files never.
    name : str
        Of the project; the function's where omitted.
    chip : str
        ``"910B1"``, ``"910B3"``…
    progress : bool, optional
        Whether to show a progress bar; by default on a terminal.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    ValueError
        For a name or a chip that cannot be, or a folder that has files of its own where the project's
        would go.
    OSError
        If the folder cannot be written.
    NotSupported
        If steps of the function run on the host; the message says which and why. A product of matrices of
        a dtype that the cube unit takes is no such step.
    """
    if not callable(function):
        raise DtypeError(f"[export] expected a function, given {type(function).__name__}")
    name = name or getattr(function, "__name__", "kernels").strip("<>")
    if not _IDENTIFIER.fullmatch(name):
        raise ArgumentError(f"[export] expected a name of letters, digits and underscores, given {name!r}")
    checked_chip("export", chip)
    target = _checked_folder(folder)
    from .backend.ascend.export import write_project

    with Progress("export", shown=progress) as step:
        step("tracing")
        jitted = function if isinstance(function, Jitted) else Jitted(function)
        project = _Export(jitted, examples, name, chip, step).project()
        try:
            write_project(project, target, step)
        except OSError as error:
            raise _not_writable(target, error) from None
    return target


def _checked_folder(folder: Any) -> Path:
    """The folder, in which nothing of the user's will be replaced."""
    if not isinstance(folder, str | os.PathLike) or not os.fspath(folder):
        raise DtypeError(f"[export] expected the path of a folder, given {folder!r}")
    target = Path(folder)
    try:
        if target.exists() and not target.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        found = [name for name in _WRITTEN if (target / name).exists()]
        makefile = target / "Makefile"
        if found and not (makefile.is_file() and _MARK in makefile.read_text(errors="replace")):
            raise ArgumentError(
                "[export] expected a new folder, an empty one, or one of an earlier export, given "
                f"{str(target)!r}, which has {', '.join(found)} of its own"
            )
    except OSError as error:
        raise _not_writable(target, error) from None
    return target


def _not_writable(folder: Path, error: OSError) -> FolderError:
    return FolderError(
        f"[export] expected a folder that can be written, given {str(folder)!r}: {error.strerror or error}"
    )


class _Export:
    """The project of one function."""

    def __init__(
        self, jitted: Jitted, examples: tuple[Any, ...], name: str, chip: str, step: Callable[[str], None]
    ) -> None:
        self.jitted = jitted
        self.examples = examples
        self.name = name
        self.chip = chip
        self.step = step
        self.arrays: list[ProjectArray] = []
        self.number_of: dict[int, int] = {}
        self.values: Any = ()
        self.tape: Tape

    def project(self) -> Project:
        """Trace, cut, generate and compute what the results ought to be."""
        from .backend.ascend.chip import load
        from .backend.ascend.export import Project

        session = self.jitted.session(*self.examples)
        names = session.names()
        self.tape = _graph.linearise(session.written, False)
        self.step("scheduling")
        cut, kernels = compile_tape(self.tape, evaluate.backend(f"sim:{self.chip}"), once=True)
        self._refuse(cut, kernels)
        shown = Names(self.tape, cut.graph, names)
        self.values = cut.graph.values
        self.step("computing the golden data")
        golden = dict(zip(self.tape.outputs, interpret(self.tape), strict=True))
        self._arrays(cut, shown, golden)
        launches = []
        for step, kernel in zip(cut.steps, kernels, strict=True):
            if kernel is not None:
                self.step(f"generating {kernel.kernel.name}")
                if isinstance(kernel, Handwritten):
                    launches += self._call(kernel)
                else:
                    launches.append(self._launch(kernel, shown))
            elif not self._is_empty(step):
                self.step("generating a product of matrices")
                (v,) = step.members
                launches.append(self._product(v, shown))
        doc = (self.jitted.__doc__ or "").strip().partition("\n")[0]
        description = doc or f"The kernels of {self.name}."
        return Project(self.name, load(self.chip), tuple(self.arrays), tuple(launches), description)

    def _refuse(self, cut: Schedule, kernels: list[Lowered]) -> None:
        found = []
        for step, kernel in zip(cut.steps, kernels, strict=True):
            reason = self._on_host(cut, step, kernel)
            if reason:
                value = cut.graph.values[max(step.members)]
                called = value.attrs[0] if value.primitive is HOST_CALL else value.primitive.name
                found.append(f"{kernel.kernel.name if kernel is not None else called} ({reason})")
        if found:
            raise NotSupported(
                f"[export] expected a function whose steps all run on the {self.chip}, given one with "
                f"{'; '.join(found)}"
            )
        if not kernels:
            raise NotSupported(
                "[export] expected a function that computes something, given one that does not"
            )

    def _on_host(self, cut: Schedule, step: Step, kernel: Lowered) -> str:
        if isinstance(kernel, Handwritten):
            reasons = (part.reason for part in kernel.parts if part.backend.name == "cpu")
            values = cut.graph.values
            for t in kernel.arguments.targets:
                if t not in kernel.replaced and values[kernel.owners[t]].primitive is not EMPTY:
                    return "writes to a part of an array in place; make the array with pyasc.empty"
            return next(reasons, "")
        if kernel is not None and kernel.backend.name == "cpu":
            return kernel.reason or step.reason
        for v in step.members:
            value = cut.graph.values[v]
            if value.primitive is EMPTY:
                continue
            if kernel is None:
                return "" if self._generated_product(cut.graph.values, v) else step.reason
            base = cut.graph.values[value.operands[0]] if value.primitive is UPDATE else None
            if base is not None and base.primitive not in (EMPTY, UPDATE):
                return "writes to a part of an array in place"
        return ""

    def _arrays(self, cut: Schedule, shown: Names, golden: dict[int, Any]) -> None:
        from .backend.ascend.export import ProjectArray

        taken: set[str] = set()
        graph = cut.graph
        for v, value in enumerate(self.values):
            if value.primitive is UPDATE:
                # The region of an array that begins empty: one buffer for all its versions.
                base = value.operands[0]
                if base in self.number_of:
                    self.number_of[v] = self.number_of[base]
                    continue
            if value.primitive is not LEAF and v not in cut.stored:
                continue
            if value.primitive is EMPTY and v not in graph.outputs:
                continue  # what is written into it is an array of its own
            role: Literal["input", "temporary"] = "input" if value.primitive is LEAF else "temporary"
            default = f"{'input' if role == 'input' else 'value'}{len(self.arrays)}"
            name = _free(shown.get(v, default), taken)
            data = None
            if role == "input":
                buffer = self.tape.nodes[value.position].buffer
                data = _runtime.array(buffer, value.shape, value.dtype, writable=True)
            self.number_of[v] = len(self.arrays)
            self.arrays.append(ProjectArray(name, value.dtype, value.shape, role, data))
        for v in graph.outputs:
            number = self.number_of[v]
            array = self.arrays[number]
            expected = golden[self.values[v].position]
            data = _runtime.array(expected, array.shape, array.dtype, writable=True)
            name = array.name
            if name.startswith("value") and shown.get(v, name) != name:
                name = _free(shown.get(v, name), taken)  # of the last version of an array made in parts
            self.arrays[number] = ProjectArray(name, array.dtype, array.shape, "output", data)

    def _is_empty(self, step: Step) -> bool:
        return all(self.values[v].primitive is EMPTY for v in step.members)

    def _generated_product(
        self, values: Any, v: int, names: tuple[str, str, str] = ("a", "b", "c")
    ) -> Generated | None:
        """The cube kernel of a MATMUL whose operands begin where their buffers do."""
        value = values[v]
        if value.primitive is not MATMUL:
            return None
        layouts = []
        for o in value.operands:
            operand = values[o]
            strides, offset = operand.attrs if operand.primitive is VIEW else (None, 0)
            if offset:
                return None
            layouts.append((operand.shape, strides or contiguous_strides(operand.shape)))
        found = generator(self.chip).product(layouts, value.shape, value.dtype, names)
        return found if found is not None and found.parameters[2].dtype == value.dtype else None

    def _product(self, v: int, shown: Names) -> ProjectLaunch:
        from .backend.ascend.export import ProjectLaunch

        roots = [
            self.values[o].operands[0] if o not in self.number_of else o for o in self.values[v].operands
        ]
        a, b = (shown.get(o, default) for o, default in zip(roots, "ab", strict=True))
        generated = self._generated_product(self.values, v, (a, b, shown.get(v, "c")))
        assert generated is not None
        nowhere = Binding((), (), ())
        arrays = tuple(self.number_of[o] for o in (*roots, v))
        return ProjectLaunch(generated, generated.bind(nowhere), nowhere, arrays, ())

    def _call(self, made: Handwritten) -> list[ProjectLaunch]:
        """The launches of a kernel written by hand."""
        from .backend.ascend.export import ProjectLaunch

        arguments, ascend = made.arguments, generator(self.chip)
        results = dict(zip(arguments.targets, made.results, strict=True))
        arrays = [
            self.number_of[results[p.operand] if a.writes else made.owners[p.operand]]
            for a, p in zip(made.kernel.arrays, arguments.places, strict=True)
        ]
        launches = []
        for part in made.parts:
            binding = part.binding
            if part.call is not None:
                generated = part.kernel
            elif isinstance(part.kernel, Kernel):
                names = (made.kernel.arrays[a].name for a in part.operands)
                generated = ascend.generate(named(part.kernel, names), binding)
            else:
                # Scalar code takes its sizes as they are.
                generated = ascend.generate(part.kernel, binding)
                fields = tuple(replace(field, host="") for field in generated.fields)
                generated = replace(generated, fields=fields, host=())
            scalars = [
                source & (2**64 - 1) if held else self._bits(made.scalars[source])
                for held, source in part.scalars
            ]
            bound = generated.bind(binding)
            if isinstance(part.kernel, Kernel):
                binding = binding_with_axis(part.kernel, binding)
            else:
                binding = Binding((), (), ())
            operands = tuple(arrays[a] for a in part.operands)
            launches.append(ProjectLaunch(generated, bound, binding, operands, tuple(scalars)))
        return launches

    def _bits(self, position: int) -> int:
        """The bits of a number on the tape."""
        node = self.tape.nodes[position]
        return int.from_bytes(np.asarray(node.value, node.dtype).tobytes(), "little")

    def _launch(self, lowered: LoweredKernel, shown: Names) -> ProjectLaunch:
        from .backend.ascend.export import ProjectLaunch

        kernel = named(lowered.kernel, shown.of(lowered))
        generated = generator(self.chip).generate(kernel, lowered.binding)
        scalars = [source & (2**64 - 1) if held else self._bits(source) for held, source in lowered.scalars]
        return ProjectLaunch(
            generated,
            generated.bind(lowered.binding),
            binding_with_axis(lowered.kernel, lowered.binding),
            tuple(self.number_of[v] for v in lowered.operands),
            tuple(scalars),
        )


def _free(name: str, taken: set[str]) -> str:
    """The name, or with a number where it is taken."""
    found, number = name, 2
    while found in taken or found in ("device", "run", "main", "right", "check", "compare"):
        found, number = f"{name}_{number}", number + 1
    taken.add(found)
    return found
