"""The native backend: KernelIR to machine code through LLVM.

LLVM, and what writes code for it, is imported where something is compiled: what an earlier process compiled
runs without. What kernels written by hand need is imported with the first of them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from .. import _runtime
from ..base import HOST, Backend, Launch, Matrices, Part, Phase, Store
from ..ir import Binding, Kernel, Stride, binding_with_axis, with_axis
from .blas import matmul
from .partition import partition
from .staging import unshifted, unshifted_binding
from .target import Target, host, lock
from .tuning import Tuning, choose
from .unroll import unrolled, unrolled_binding

if TYPE_CHECKING:
    from ..structured import StructuredBinding, StructuredKernel
    from .structured import StructuredTuning


class Loaded(Protocol):
    """Machine code in this process, for as long as this is referred to."""

    @property
    def addresses(self) -> Sequence[int]: ...


class Code(Protocol):
    """A kernel as it is compiled."""

    given: Any
    tuning: Any

    @property
    def phases(self) -> tuple[str, ...]:
        """The names of its functions."""

    def text(self) -> str:
        """The code for LLVM."""

    def fits(self, binding: Any) -> bool:
        """Whether a binding keeps what the tuning promises."""

    def bind(self, binding: Any, addresses: Sequence[int]) -> Launch:
        """The launch for these sizes."""


class Compiled:
    """A kernel's machine code, loaded into this process.

    Parameters
    ----------
    code : Code
    backend : CPU
    loaded : Loaded
        Has the addresses of the phases.
    """

    def __init__(self, code: Code, backend: CPU, loaded: Loaded) -> None:
        self.kernel = code.given
        self.tuning = code.tuning
        self._backend = backend
        self._code = code
        self._loaded = loaded

    def fits(self, binding: Any) -> bool:
        """Whether the sizes and strides are such as the kernel was tuned for."""
        return self._code.fits(binding)

    def bind(self, binding: Any) -> Launch:
        """The launch for these sizes.

        Raises
        ------
        ValueError
            If the binding does not fit the tuning.
        """
        if not self._code.fits(binding):
            raise ValueError("the kernel was tuned for other strides")
        return self._code.bind(binding, self._loaded.addresses)

    def source(self, form: str) -> str:
        """The generated code, ``"llvm"`` or ``"asm"``."""
        if form == "llvm":
            return self._code.text()
        if form == "asm":
            return self._backend.assembly(self.kernel, self.tuning)
        raise ValueError(f"[source] Expected 'llvm' or 'asm', given {form!r}.")


class _Code:
    """How a kernel is cut up, with the order of its integer arguments."""

    def __init__(self, kernel: Kernel, tuning: Tuning, target: Target) -> None:
        self.given = kernel
        self.original = unshifted(kernel) if tuning.unshifted else kernel
        self.written_out = unrolled(self.original, *tuning.unrolled) if tuning.unrolled else self.original
        self.kernel = with_axis(self.written_out)
        self.tuning = tuning
        self.target = target
        self.partition = partition(self.kernel, tuning)
        names = [f"extent.{k}" for k in range(self.kernel.rank)]
        names += [
            f"stride.{n}.{k}"
            for n, a in enumerate(self.kernel.accesses)
            if a.anchor == n
            for k, c in enumerate(a.layout)
            if c == Stride.ANY
        ]
        names += self.partition.names
        self.integers = {name: n for n, name in enumerate(names)}

    @property
    def phases(self) -> tuple[str, ...]:
        return self.partition.phases

    def text(self) -> str:
        """The code for LLVM."""
        with lock:
            from .generate import text

            return text(self.kernel, self.tuning, self.target, self.integers)

    def fits(self, binding: Binding) -> bool:
        """Whether a binding keeps what the tuning promises."""
        tuning = self.tuning
        if tuning.unrolled and binding.extents[tuning.unrolled[0]] != tuning.unrolled[1]:
            return False
        if not tuning.strides:
            return True
        strides = self._compiled_binding(binding).strides
        return all(strides[anchor][tuning.lane] == stride for anchor, stride in tuning.strides)

    def _compiled_binding(self, binding: Binding) -> Binding:
        """The binding of the kernel that is compiled."""
        if self.tuning.unshifted:
            binding = unshifted_binding(self.given, binding)
        if self.tuning.unrolled:
            binding = unrolled_binding(self.original, binding, self.tuning.unrolled[0])
        return binding_with_axis(self.written_out, binding)

    def bind(self, binding: Binding, addresses: Sequence[int]) -> Launch:
        binding = self._compiled_binding(binding)
        kernel = self.kernel
        bound = self.partition.bind(binding)
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


class CPU:
    """Native code for the processor it runs on, or for another one to look at.

    Parameters
    ----------
    target : Target, optional
        Where omitted, this processor.
    store : Store, optional
        Where what LLVM tells of this processor is remembered.
    """

    name = "cpu"
    max_instructions = 768
    max_operands = 24
    stages_shifts = True
    device = HOST
    device_cores = 0
    parallel_compiles = 1
    fallback: Backend | None = None
    forms: tuple[str, ...] = ("llvm", "asm")

    def __init__(self, target: Target | None = None, store: Store | None = None) -> None:
        self._target = target
        self._store = store

    @property
    def target(self) -> Target:
        return self._target or host(self._store).target

    def host_kernel(self, name: str) -> Callable[..., None] | None:
        """A faster way than its meaning to run a HOST primitive."""
        return matmul if name == "matmul" else None

    def device_product(
        self, operands: Matrices, shape: tuple[int, ...], dtype: np.dtype[Any], out: np.dtype[Any]
    ) -> None:
        """None: there is no memory but the host's."""

    def supports(self, op: str, dtype: np.dtype[Any], attrs: tuple[Any, ...] = ()) -> bool:
        """Whether there is code for a primitive computed in a dtype."""
        if dtype == np.float16 and not self.target.has_half:
            return False  # conversions would be calls into the compiler's own library
        return dtype.kind in "biuf" or dtype.name == "bfloat16"

    def why(self, op: str, dtype: np.dtype[Any], attrs: tuple[Any, ...] = ()) -> str:
        """Why there is no code."""
        return f"{dtype.name} has no instructions on this processor"

    def refusal(self, kernel: Kernel, binding: Binding) -> str:
        """What has code for each instruction has it for the kernel."""
        return ""

    def fingerprint(self) -> str:
        """Target, features and generator version."""
        return f"{self.target.fingerprint}|{host(self._store).generator}"

    def parts(self, kernel: StructuredKernel, binding: StructuredBinding) -> tuple[Part, ...]:
        """The kernel itself, or what is left of it when blocks and tiles are written out as loops; reductions
        where its threads go along rows."""
        from .structured import prepared
        from .structured.row_reductions import row_reductions

        rows = row_reductions(kernel, binding)
        if rows:
            return tuple(Part(p.kernel, p.binding, p.operands, p.scalars, self) for p in rows)
        written, bound, more = prepared(kernel, binding)
        scalars = [(False, n) for n in range(len(kernel.scalars))] + [(True, value) for value in more]
        return (Part(written, bound, tuple(range(len(kernel.arrays))), tuple(scalars), self),)

    def _code(self, kernel: Kernel | StructuredKernel, tuning: Hashable) -> Code:
        if not isinstance(kernel, Kernel):
            from .structured import StructuredCode, StructuredTuning

            assert isinstance(tuning, StructuredTuning)
            return StructuredCode(kernel, tuning, self.target)
        assert isinstance(tuning, Tuning)
        return _Code(kernel, tuning, self.target)

    def compile(self, kernel: Kernel | StructuredKernel, tuning: Hashable) -> tuple[Compiled, bytes]:
        """Compile a kernel; also the object code from which `load` restores it."""
        code = self._code(kernel, tuning)
        loaded: Loaded
        with lock:
            from . import generate

            made = generate.object_file(code.text(), self.target)
            try:
                loaded = _runtime.load_object(made, code.phases)
            except ValueError:
                loaded = generate.Linked(made, code.phases)
        return Compiled(code, self, loaded), made

    def load(self, kernel: Kernel | StructuredKernel, tuning: Hashable, code: bytes) -> Compiled:
        """Restore what `compile` produced.

        Raises
        ------
        ValueError
            If the bytes are not an object file with the kernel's functions.
        """
        cut = self._code(kernel, tuning)
        return Compiled(cut, self, _runtime.load_object(code, cut.phases))

    def assembly(self, kernel: Kernel | StructuredKernel, tuning: Hashable) -> str:
        """The assembly of a kernel, also for a processor that this is not."""
        with lock:
            from . import generate

            return generate.assembly(self._code(kernel, tuning).text(), self.target)

    def tune(
        self,
        kernel: Kernel | StructuredKernel,
        binding: Binding | StructuredBinding,
        fast_math: bool = False,
    ) -> Tuning | StructuredTuning:
        """The choices made for representative sizes."""
        if not isinstance(kernel, Kernel):
            from .structured import choose as choose_structured

            assert not isinstance(binding, Binding)
            return choose_structured(kernel, binding, self.target, fast_math)
        assert isinstance(binding, Binding)
        return choose(kernel, binding, self.target)._replace(contract=fast_math)
