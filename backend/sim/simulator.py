"""Runs Ascend C on the host: `Simulator` compiles a kernel, `Module.run` launches it."""

from __future__ import annotations

import ctypes
import mmap
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..ascend.chip import Chip
from ..base import Store
from ..compiler import first_errors, without_comments
from . import build, library
from .log import RECORD, CoreLog, Log

STORED = "sim"
POLL_MILLISECONDS = 50

_KERNEL = re.compile(
    r'^(?P<linkage>extern\s+"C"\s+)?(?P<before>[\w\s(),]*__global__[\w\s(),]*?)\bvoid\s+(?P<name>\w+)\s*\(',
    re.MULTILINE,
)


class Finding(Exception):
    """What a check found in a kernel, or why it does not compile; for users a `SimulationError`.

    Attributes
    ----------
    message : str
    kind : str
        ``"bounds"``, ``"alignment"``, ``"capacity"``, ``"position"``, ``"uninitialised"``, ``"race"``,
        ``"queue"``, ``"deadlock"``, ``"dtype"``, ``"argument"``, ``"stopped"`` or ``"compiler"``.
    line : int or None
        Of the kernel's source.
    """

    def __init__(self, message: str, kind: str, line: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.kind = kind
        self.line = line


@dataclass(frozen=True, slots=True)
class Extent:
    """A buffer in global memory that has a size and no data, for runs with ``move=False``."""

    nbytes: int


class Simulator:
    """A chip on the host.

    Parameters
    ----------
    chip : Chip
    store : Store or None
        Where compiled kernels are kept.
    folder : Path, optional
        Where the precompiled header is kept; omitted, in the user's cache folder.
    """

    def __init__(self, chip: Chip, store: Store | None, folder: Path | None = None) -> None:
        self.chip = chip
        self._store = store
        self._folder = folder

    def compile(self, source: str, name: str) -> Module:
        """Compile a kernel, or several.

        Parameters
        ----------
        source : str
            Ascend C that begins with ``#include "kernel_operator.h"``.
        name : str
            Of the source; messages say ``name.asc:line``. The kernel of that name is the one that runs,
            unless `run` is told of another.

        Raises
        ------
        Finding
            With kind ``"compiler"`` and the first errors.
        """
        kernels = tuple(
            match["name"] for match in _KERNEL.finditer(source) if "template" not in match["before"]
        )
        file = f"{name}.asc"
        try:
            compiler = build.compiler(self._folder)
            key = f"{compiler.key}\0{file}\0{without_comments(source)}"
            code = self._store.read(STORED, key) if self._store else None
            if code is not None:
                try:
                    return Module(self.chip, name, kernels, code)
                except OSError:
                    pass  # made on another machine, or for another C library: compiled anew
            code = compiler.compile(source + _entries(kernels), file)
            module = Module(self.chip, name, kernels, code)
        except build.CompileError as error:
            text, line = first_errors(error.output, source, file)
            raise Finding(f"[compile] {text}", "compiler", line) from None
        except FileNotFoundError as error:
            raise Finding(f"[compile] {error}", "compiler") from None
        except OSError as error:
            raise Finding(f"[compile] {build.unusable(error)}", "compiler") from None
        if self._store:
            self._store.write(STORED, key, code)
        return module


def _entries(kernels: Sequence[str]) -> str:
    """What is added to a source so that its kernels can be called with arguments in an array."""
    text = '\n#line 1 "entries"\n'
    for name in kernels:
        text += f"""extern "C" void pyasc_call_{name}(void* const* arguments) {{
    sim::call(&{name}, arguments);
}}
extern "C" uint32_t pyasc_parameters_{name}(sim::Parameter* into, uint32_t limit) {{
    return sim::describe(&{name}, into, limit);
}}
"""
    return text


class Module:
    """Compiled kernels, loaded into this process.

    Parameters
    ----------
    chip : Chip
    name : str
        Of the kernel that runs where none is named.
    kernels : tuple of str
    code : bytes
        A shared library.
    """

    def __init__(self, chip: Chip, name: str, kernels: tuple[str, ...], code: bytes) -> None:
        self.chip = chip
        self.name = name
        self.kernels = kernels
        self.code = code
        library.load()
        with tempfile.NamedTemporaryFile(prefix="pyasc-sim-", suffix=".so") as file:
            file.write(code)
            file.flush()
            self._library = ctypes.CDLL(file.name)

    def parameters(self, kernel: str) -> tuple[tuple[int, bool], ...]:
        """Of each parameter of a kernel, its bytes and whether it is an address in global memory."""
        describe = getattr(self._library, f"pyasc_parameters_{kernel}")
        limit = 256
        into = (library.Parameter * limit)()
        count = describe(into, limit)
        return tuple((p.bytes, bool(p.pointer)) for p in into[:count])

    def run(
        self,
        blocks: int,
        arguments: Sequence[Any],
        *,
        check: bool = True,
        cost: bool = False,
        move: bool = True,
        cores: str = "vector",
        kernel: str | None = None,
        threads: int = 0,
    ) -> Log | None:
        """Launch a kernel and wait for it.

        Parameters
        ----------
        blocks : int
        arguments : sequence
            NumPy arrays, which are buffers in global memory; ctypes values; ``bytes``, a struct by value;
            `Extent`.
        check : bool
            Whether accesses are checked. Without, only their bounds are.
        cost : bool
            Whether to keep a log for the cost model.
        move : bool
            Whether data is moved. Without, only the log is worth anything.
        cores : str
            ``"vector"``, ``"cube"``, or ``"mixed"``: one cube and two vector cores to a block.
        kernel : str, optional
        threads : int
            Of the host; 0 is one for each processor.

        Returns
        -------
        Log or None
            With `cost`.

        Raises
        ------
        Finding
        """
        name = kernel or (
            self.name if self.name in self.kernels or len(self.kernels) != 1 else self.kernels[0]
        )
        if name not in self.kernels:
            known = ", ".join(self.kernels) or "none"
            raise Finding(f"[launch] Expected one of the kernels {known}, given {name}.", "argument")
        if cores not in library.CORES:
            raise Finding(
                f"[launch] Expected cores 'vector', 'cube' or 'mixed', given {cores!r}.", "argument"
            )
        if not 0 < blocks <= 65535:
            raise Finding(f"[launch] Expected 1 to 65535 blocks, given {blocks}.", "argument")
        passed, kept = self._arguments(name, arguments, move)
        launch = library.Launch(
            ctypes.cast(getattr(self._library, f"pyasc_call_{name}"), ctypes.c_void_p).value,
            passed,
            len(arguments),
            blocks,
            library.CORES[cores],
            library.VECTORS_PER_CUBE,
            check,
            cost,
            move,
            threads,
            (ctypes.c_uint32 * 8)(*library.capacities(self.chip)),
            self.chip.cube_cores,
            self.chip.vector_cores,
        )
        try:
            return self._launch(launch, name, blocks, cores)
        finally:
            del kept

    def _arguments(self, name: str, arguments: Sequence[Any], move: bool) -> tuple[Any, list[Any]]:
        """The arguments as the library takes them, and what must live as long."""
        parameters = self.parameters(name)
        if len(parameters) != len(arguments):
            raise Finding(
                f"[launch] Expected {len(parameters)} arguments for {name}, given {len(arguments)}.",
                "argument",
            )
        passed = (library.Argument * len(arguments))()
        kept: list[Any] = []
        for n, (argument, (size, pointer)) in enumerate(zip(arguments, parameters, strict=True)):
            if isinstance(argument, Extent | np.ndarray) != pointer:
                wanted = "a buffer" if pointer else f"a value of {size} bytes"
                raise Finding(
                    f"[launch] Expected {wanted} as argument {n} of {name}, given {type(argument).__name__}.",
                    "argument",
                )
            if isinstance(argument, Extent):
                if move:
                    raise Finding(
                        f"[launch] Expected an array as argument {n} of {name}, "
                        "given an Extent: it has no data to move.",
                        "argument",
                    )
                address, held = _reserve(argument.nbytes, n)
                kept.append(held)
                passed[n] = library.Argument(address, argument.nbytes, 1, 0)
            elif isinstance(argument, np.ndarray):
                if not argument.flags.c_contiguous:
                    raise Finding(
                        f"[launch] Expected a contiguous array as argument {n} of {name}.", "argument"
                    )
                passed[n] = library.Argument(argument.ctypes.data, argument.nbytes, 1, 0)
            else:
                value = bytes(argument)
                if len(value) != size:
                    raise Finding(
                        f"[launch] Expected {size} bytes as argument {n} of {name}, given {len(value)}.",
                        "argument",
                    )
                buffer = ctypes.create_string_buffer(value, max(len(value), 1))
                kept.append(buffer)
                passed[n] = library.Argument(ctypes.addressof(buffer), len(value), 0, 0)
        return passed, kept

    def _launch(self, launch: library.Launch, name: str, blocks: int, cores: str) -> Log | None:
        run = _Run(launch)
        try:
            while not run.over():
                pass
        except BaseException:  # Ctrl-C: the cores stop at their next instruction
            run.stop()
            raise
        if finding := run.finding():
            raise Finding(*finding)
        return run.log(name, cores) if launch.cost else None


class _Run:
    """A launch in the library, which is freed with this."""

    def __init__(self, launch: library.Launch) -> None:
        self._engine = library.load()
        self._handle = self._engine.pyasc_sim_start(ctypes.byref(launch))

    def __del__(self) -> None:
        self._engine.pyasc_sim_free(self._handle)

    def over(self) -> bool:
        """Waits for a moment."""
        return bool(self._engine.pyasc_sim_wait(self._handle, POLL_MILLISECONDS))

    def stop(self) -> None:
        self._engine.pyasc_sim_stop(self._handle)
        while not self.over():
            pass

    def finding(self) -> tuple[str, str, int | None] | None:
        message, line, core = ctypes.c_char_p(), ctypes.c_int32(), ctypes.c_int32()
        kind = self._engine.pyasc_sim_finding(
            self._handle, ctypes.byref(message), ctypes.byref(line), ctypes.byref(core)
        )
        if not kind:
            return None
        text = (message.value or b"").decode(errors="replace")
        return text or "[launch] stopped", library.KINDS[kind], line.value or None

    def log(self, name: str, cores: str) -> Log:
        """The log, whose arrays are the library's memory."""
        assert self._engine.pyasc_sim_record_size() == RECORD.itemsize
        parts: list[CoreLog] = []
        per_block = 1 + library.VECTORS_PER_CUBE if cores == "mixed" else 1
        for core in range(self._engine.pyasc_sim_cores(self._handle)):
            count = ctypes.c_uint64()
            address = self._engine.pyasc_sim_log(self._handle, core, ctypes.byref(count))
            records = np.empty(0, RECORD)
            if count.value:
                raw = (ctypes.c_char * (count.value * RECORD.itemsize)).from_address(address)
                raw.owner = self  # type: ignore[attr-defined]
                records = np.frombuffer(memoryview(raw), RECORD)
            kind = cores if cores != "mixed" else ("vector" if core % per_block else "cube")
            parts.append(CoreLog(kind, core // per_block, records))
        return Log(name, library.names(), tuple(parts))


def _reserve(nbytes: int, number: int) -> tuple[int, Any]:
    """An address range for a buffer without data; what is read there by a kernel's own pointer is zeros."""
    try:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
        held = mmap.mmap(-1, max(nbytes, 1), flags=flags)
    except (OSError, ValueError):
        return (1 << 46) + (number << 40), None
    return ctypes.addressof(ctypes.c_char.from_buffer(held)), held
