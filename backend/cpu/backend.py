"""The native backend: KernelIR to machine code through LLVM."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Hashable
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
from llvmlite import binding as llvm
from llvmlite import ir

from ...ops.primitives import PRIMITIVES, Kind
from ..base import Launch, Phase
from ..ir import Binding, Kernel, Stride
from . import primitives
from .analysis import Analysis, binding_with_axis, with_axis
from .blas import matmul
from .columns import Columns
from .elementwise import Elementwise
from .nest import Nest
from .rows import Rows
from .split import Split
from .staging import unshifted, unshifted_binding
from .target import Target
from .tuning import Tuning, choose
from .units import Strategy
from .unroll import unrolled, unrolled_binding

# LLVM's own state is not safe to use from several threads.
_lock = threading.RLock()

STRATEGIES: dict[str, type[Strategy]] = {"elementwise": Elementwise, "rows": Rows, "columns": Columns}


class Compiled:
    """A kernel's machine code, linked into this process.

    Parameters
    ----------
    kernel : Kernel
    tuning : Tuning
    backend : CPU
    code : bytes
        An object file with the functions ``phase0``, ``phase1``, …
    """

    def __init__(self, kernel: Kernel, tuning: Tuning, backend: CPU, code: bytes) -> None:
        self.kernel = kernel
        self.tuning = tuning
        self._backend = backend
        self._code = _Code(kernel, tuning, backend.target)
        self._addresses = _link(code, self._code.strategy.phases)

    def fits(self, binding: Binding) -> bool:
        """Whether the strides, and the backend's options, are those that the kernel was tuned for."""
        return self.tuning.contract == self._backend.fast_math and self._code.fits(binding)

    def bind(self, binding: Binding) -> Launch:
        """The launch for these sizes.

        Raises
        ------
        ValueError
            If the binding does not fit the tuning.
        """
        if not self._code.fits(binding):
            raise ValueError("the kernel was tuned for other strides")
        return self._code.bind(binding, self._addresses)

    def source(self, form: str) -> str:
        """The generated code, ``"llvm"`` or ``"asm"``."""
        with _lock:
            if form == "llvm":
                return str(self._code.module())
            if form == "asm":
                return self._backend.assembly(self.kernel, self.tuning)
        raise ValueError(f"[source] Expected 'llvm' or 'asm', given {form!r}.")


class _Code:
    """The strategy for a kernel, with the order of its integer arguments."""

    def __init__(self, kernel: Kernel, tuning: Tuning, target: Target) -> None:
        self.given = kernel
        self.original = unshifted(kernel) if tuning.unshifted else kernel
        self.written_out = unrolled(self.original, *tuning.unrolled) if tuning.unrolled else self.original
        self.kernel = with_axis(self.written_out)
        self.tuning = tuning
        self.target = target
        chosen = Split if tuning.split >= 0 else STRATEGIES[tuning.strategy]
        self.strategy: Strategy = chosen(self.kernel, tuning)
        names = [f"extent.{k}" for k in range(self.kernel.rank)]
        names += [
            f"stride.{n}.{k}"
            for n, a in enumerate(self.kernel.accesses)
            if a.anchor == n
            for k, c in enumerate(a.layout)
            if c == Stride.ANY
        ]
        names += self.strategy.names
        self.integers = {name: n for n, name in enumerate(names)}

    def module(self) -> ir.Module:
        module = ir.Module(name=self.kernel.name)
        module.triple = self.target.triple
        analysis = Analysis(self.kernel)

        def begin(name: str, tuning: Tuning = self.tuning) -> Nest:
            return Nest(module, name, analysis, tuning, self.target, self.integers)

        self.strategy.emit(begin)
        return module

    def fits(self, binding: Binding) -> bool:
        """Whether a binding keeps what the tuning promises."""
        tuning = self.tuning
        if tuning.unrolled and binding.extents[tuning.unrolled[0]] != tuning.unrolled[1]:
            return False
        if not tuning.strides:
            return True
        strides = self._without_short_axis(binding).strides
        return all(strides[anchor][tuning.lane] == stride for anchor, stride in tuning.strides)

    def _without_short_axis(self, binding: Binding) -> Binding:
        """The binding of the kernel that is compiled."""
        if self.tuning.unshifted:
            binding = unshifted_binding(self.given, binding)
        if self.tuning.unrolled:
            binding = unrolled_binding(self.original, binding, self.tuning.unrolled[0])
        return binding_with_axis(self.written_out, binding)

    def bind(self, binding: Binding, addresses: tuple[int, ...]) -> Launch:
        binding = self._without_short_axis(binding)
        kernel = self.kernel
        bound = self.strategy.bind(binding)
        sizes = [kernel.operands[a.operand].dtype.itemsize for a in kernel.accesses]
        values = {f"extent.{k}": e for k, e in enumerate(binding.extents)} | bound.integers
        for n, strides in enumerate(binding.strides):
            for k, stride in enumerate(strides):
                values[f"stride.{n}.{k}"] = stride * sizes[n]
        return Launch(
            tuple(
                Phase(address, units, grain)
                for address, (units, grain) in zip(addresses, bound.phases, strict=True)
            ),
            tuple(
                (a.operand, offset * size)
                for a, offset, size in zip(kernel.accesses, binding.offsets, sizes, strict=True)
            ),
            tuple(values[name] for name in self.integers),
            bound.scratch,
            bound.thread_scratch,
        )


def _optimised(module: ir.Module, machine: llvm.TargetMachine) -> llvm.ModuleRef:
    parsed = llvm.parse_assembly(str(module))
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=1))
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.run(parsed, builder)
    return parsed


def _compile(kernel: Kernel, tuning: Tuning, target: Target) -> bytes:
    """The object file of a kernel."""
    with _lock:
        machine = target.machine()
        return bytes(machine.emit_object(_optimised(_Code(kernel, tuning, target).module(), machine)))


def llvm_version() -> str:
    return "llvm " + ".".join(str(n) for n in llvm.llvm_version_info)


@cache
def _generator() -> str:
    """A digest of the generator's own source: code from another version of it is another key."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@cache
def _engine() -> llvm.LLJIT:
    return llvm.create_lljit_compiler(Target.host().machine())


_linked = 0
_trackers: list[llvm.ResourceTracker] = []


def _link(code: bytes, functions: tuple[str, ...]) -> tuple[int, ...]:
    """Load an object file and give the addresses of its functions."""
    global _linked
    with _lock:
        _linked += 1
        builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
        for name in functions:
            builder.export_symbol(name)
        try:
            tracker = builder.link(_engine(), f"kernel{_linked}")
        except RuntimeError as error:
            raise ValueError(f"code that does not link: {error}") from error
        _trackers.append(tracker)
        return tuple(tracker[name] for name in functions)


class CPU:
    """Native code for the processor it runs on, or for another one to look at.

    Parameters
    ----------
    target : Target, optional
        Where omitted, this processor.

    Attributes
    ----------
    fast_math : bool
        Whether a multiplication and an addition may become one instruction that rounds once.
    """

    name = "cpu"
    max_instructions = 640
    max_operands = 24
    stages_shifts = True

    def __init__(self, target: Target | None = None) -> None:
        self._target = target
        self.fast_math = False

    @cached_property
    def target(self) -> Target:
        with _lock:
            return self._target or Target.host()

    def host_kernel(self, name: str) -> Callable[..., None] | None:
        """A faster way than its meaning to run a HOST primitive."""
        return matmul if name == "matmul" else None

    def supports(self, op: str, dtype: np.dtype[Any], attrs: tuple[Any, ...] = ()) -> bool:
        """Whether there is code for a primitive computed in a dtype."""
        if dtype == np.float16 and not self.target.has_half:
            return False  # conversions would be calls into the compiler's own library
        if PRIMITIVES[op].kind is Kind.ELEMENTWISE:
            return primitives.supports(op, dtype, attrs)
        return dtype.kind in "biuf" or dtype.name == "bfloat16"

    def fingerprint(self) -> str:
        """Target, features and generator version."""
        return "|".join((self.target.fingerprint, llvm_version(), _generator()))

    def compile(self, kernel: Kernel, tuning: Hashable) -> tuple[Compiled, bytes]:
        """Compile a kernel; also the object code from which `load` restores it."""
        assert isinstance(tuning, Tuning)
        code = _compile(kernel, tuning, self.target)
        return Compiled(kernel, tuning, self, code), code

    def load(self, kernel: Kernel, tuning: Hashable, code: bytes) -> Compiled:
        """Restore what `compile` produced.

        Raises
        ------
        ValueError
            If the bytes are not an object file with the kernel's functions.
        """
        assert isinstance(tuning, Tuning)
        return Compiled(kernel, tuning, self, code)

    def assembly(self, kernel: Kernel, tuning: Tuning) -> str:
        """The assembly of a kernel, also for a processor that this is not."""
        with _lock:
            machine = self.target.machine()
            module = _Code(kernel, tuning, self.target).module()
            return str(machine.emit_assembly(_optimised(module, machine)))

    def tune(self, kernel: Kernel, binding: Binding) -> Tuning:
        """The choices made for representative sizes."""
        return choose(kernel, binding, self.target)._replace(contract=self.fast_math)
