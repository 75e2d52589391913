"""Kernels in Ascend C for a chip, whatever runs them: what the simulator and a device have in common."""

from __future__ import annotations

import contextlib
import copy
import os
import re
import struct
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from typing import Any, Self

import numpy as np

from ..base import HOST, Backend, Call, DeviceLaunch, Executable, Matrices, Part, Store
from ..ir import Binding, Kernel
from ..structured import StructuredBinding, StructuredKernel
from . import chip as chip_data
from . import own_source, tuning_table
from .chip import Chip
from .cube_problem import CubeOptions
from .generated import Bound, Generated, Refused, free_names
from .measuring import (
    kernel_key,
    measure_kernel,
    measure_product,
    options_of,
    product_key,
    sizes_of,
    variant_of,
)
from .product import Products, described
from .scalar import kernel as scalar_kernel
from .scalar.kernel import ScalarTiling
from .structured import parts
from .support import refusal
from .tiling import Tiling
from .tuning_table import Table
from .vector_kernel import ALL, MODEL, PLAIN, VectorTuning, generate, predicted, tune

ARCHITECTURE = "dav-2201"
MAX_GENERATED = 512
# The primitives that the instructions of KernelIR stand for.
_TAPE = {"const": "full", "scalar": "full", "index": "iota", "load": "view", "store": "update"}


@cache
def chips() -> tuple[str, ...]:
    """The chips that there is a generator for."""
    return tuple(n for n in chip_data.available() if chip_data.load(n).architecture == ARCHITECTURE)


_PLAIN = re.compile(r"[xy]\d+")


def _named(kernel: Kernel, names: Iterable[str]) -> Kernel:
    operands = zip(kernel.operands, names, strict=True)
    return replace(kernel, operands=tuple(replace(o, name=name) for o, name in operands))


@dataclass(frozen=True)
class KernelTiling:
    """How a vector kernel is cut into tiles. Prints as text.

    Attributes
    ----------
    buffers : VectorTiling
        The largest tile, and where each buffer lies in UB.
    predicted : Tiling
        The tile and the cores for these sizes, what binds, and the time of each pipe in µs.
    """

    buffers: Any
    predicted: Tiling

    def __str__(self) -> str:
        lines = [line for line in str(self.predicted).splitlines() if not line.startswith("UB")]
        return "\n".join([str(self.buffers), *lines])


def _computes_numbers(kernel: Kernel) -> bool:
    """Whether a kernel that reduces computes something of numbers alone: a tile has no place for that."""
    numbers: set[int] = set()
    for n, instr in enumerate(kernel.body):
        if instr.op in ("scalar", "const"):
            numbers.add(n)
        elif kernel.reduced and instr.args and instr.op != "store" and numbers.issuperset(instr.args):
            return True
    return False


class Written:
    """A kernel in Ascend C, compiled by what inherits from here."""

    def __init__(self, kernel: Any, generated: Generated) -> None:
        self.kernel = kernel
        self.generated = generated

    def fits(self, binding: Any) -> bool:
        """Whether the code holds for these arguments."""
        return self.generated.fits(binding)

    def bind(self, binding: Any) -> Call | DeviceLaunch:
        """The launch for these sizes."""
        raise NotImplementedError

    def source(self, form: str) -> str:
        """The generated code, ``"ascendc"``."""
        if form != "ascendc":
            raise ValueError(f"[source] Expected 'ascendc', given {form!r}.")
        return self.generated.source


class Ascend:
    """Writes Ascend C for a chip.

    Parameters
    ----------
    chip : Chip
    fallback : Backend or None
        Runs on the host what the chip has no instructions for.
    """

    max_instructions = 96
    max_operands = 12
    stages_shifts = False
    device = HOST
    device_cores = 0
    forms: tuple[str, ...] = ("ascendc",)
    options = ALL  # of vector kernels
    optimizes = True
    cube_options = CubeOptions()
    measured_by = ""  # "device" or "simulator": how `time_us` knows

    def __init__(self, chip: Chip, fallback: Backend | None) -> None:
        self.name = f"ascend:{chip.name}"
        self.chip = chip
        self.fallback = fallback
        self.parallel_compiles = len(os.sched_getaffinity(0))
        self.products = Products(chip)
        self.store: Store | None = None
        self._generated: OrderedDict[Hashable, Generated | Refused] = OrderedDict()

    def of(self, kernel: StructuredKernel) -> Self:
        """The same target, for which code is generated as a kernel written by hand asks for."""
        if not kernel.optimize:
            return self.plain()
        if kernel.depth != 1:
            return self
        other = copy.copy(self)
        other.options = ALL._replace(double_buffer=False, prefetch=False)
        other.cube_options = CubeOptions(double_buffer_l1=False, double_buffer_l0=False)
        return other

    def plain(self) -> Self:
        """The same target, for which code is generated without what makes it fast."""
        other = copy.copy(self)
        other.options, other.optimizes = PLAIN, False
        return other

    # --- what the chip can do --------------------------------------------------------------------------

    def supports(self, op: str, dtype: np.dtype[Any], attrs: tuple[Any, ...] = ()) -> bool:
        """Whether a primitive computed in a dtype can be written in the chip's instructions."""
        return not self.why(op, dtype, attrs)

    def why(self, op: str, dtype: np.dtype[Any], attrs: tuple[Any, ...] = ()) -> str:
        """Why it cannot; "" where it can."""
        if op == "full" and dtype.itemsize == 8:
            return f"{dtype.name} numbers may take more than 32 bits"
        reason = refusal(op, dtype, attrs, self.chip)
        return f"{reason} on {self.chip.name}" if reason.endswith("vector instructions") else reason

    def lacking(self, kernel: Kernel, narrow: bool = False) -> str:
        """Why some instruction of a kernel that was cut for another backend cannot run here, or "".

        With `narrow` what is int64 is known to fit 32 bits, or is right as far as it does; numbers are passed
        as int32.
        """
        for instr in kernel.body:
            name = _TAPE.get(instr.op, instr.op)
            if name == "shift":
                return "it reads values at other points, for which a kernel of the chip's is cut differently"
            args = [kernel.body[a] for a in instr.args]
            for dtype in {instr.dtype, *(a.dtype for a in args if not narrow or a.op != "scalar")}:
                attrs = () if name in ("view", "update") else instr.attrs
                if narrow and dtype == np.int64:
                    reason = refusal(name, dtype, attrs, self.chip, narrow=True)
                else:
                    reason = self.why(name, dtype, attrs)
                if reason:
                    return reason
        return ""

    def refusal(self, kernel: Kernel, binding: Binding) -> str:
        """Why a kernel cannot be written at these sizes; "" where it can."""
        if _computes_numbers(kernel):
            return "it computes a number that is the same for every element of a reduction"
        try:
            generated = self.generate(kernel, binding)
        except Refused as refused:
            return str(refused)
        if max(map(abs, (*binding.extents, *binding.offsets, *chain(*binding.strides))), default=0) >= 2**31:
            try:
                generated.bind(binding).tiling([0] * len(generated.fields))
            except struct.error:
                return "it has an axis or a stride of more than 2**31 - 1 elements"
        return ""

    def parts(self, kernel: StructuredKernel, binding: StructuredBinding) -> tuple[Part, ...]:
        """The launches by which a kernel written by hand is run at these sizes.

        Raises
        ------
        LaunchError
            Where neither the chip nor the host can run it.
        """
        return own_source.parts(kernel, binding, self) or parts(kernel, binding, self)

    # --- generating --------------------------------------------------------------------------------------

    def tune(self, kernel: Any, binding: Any, fast_math: bool = False) -> Hashable:
        """How a kernel is cut into tiles, or its threads are handed out to cores, at representative sizes.

        It is measured, if that is how kernels are tuned and it was not yet.
        """
        table = self.table()
        if table is not None and self._measures() and isinstance(kernel, Kernel):
            known = table.measured(kernel_key(kernel, self.options), binding.extents, self.measured_by)
            if known is None:
                with contextlib.suppress(MemoryError):
                    measure_kernel(self, table, kernel, binding)
        return self.choose(kernel, binding)

    def choose(self, kernel: Any, binding: Any) -> Hashable:
        """As `tune`, measuring nothing."""
        if isinstance(kernel, StructuredKernel):
            return scalar_kernel.tune(kernel, binding)
        table, variant = self.table(), MODEL
        if table:
            found = table.find(kernel_key(kernel, self.options), binding.extents)
            variant = variant_of(found.choice) if found is not None else MODEL
        try:
            return tune(kernel, binding, self.chip, self.options, variant)
        except Refused:
            if variant == MODEL:
                raise
        return tune(kernel, binding, self.chip, self.options)  # measured at other sizes

    def table(self) -> Table | None:
        """What was measured for the chip; None where that is not to be used."""
        if self.store is None or self.store.tuning == "off":
            return None
        return tuning_table.table(self.chip.name, self.store)

    def _measures(self) -> bool:
        return self.store is not None and self.store.tuning == "measure" and bool(self.measured_by)

    def time_us(self, generated: Generated, bound: Bound, nbytes: tuple[int, ...]) -> float:
        """How long a launch takes whose operands have so many bytes, by `measured_by`.

        Raises
        ------
        LaunchError
            Where it cannot be compiled or run.
        """
        raise NotImplementedError

    def generate(self, kernel: Any, binding: Any) -> Generated:
        """The kernel in Ascend C, tuned for these sizes; one in structured form as scalar code.

        Raises
        ------
        Refused
            Where it cannot be written.
        """
        tuning = self.choose(kernel, binding)
        if isinstance(kernel, StructuredKernel):
            return self.written(kernel, tuning)
        plain = tuple(f"{'y' if o.output else 'x'}{n}" for n, o in enumerate(kernel.operands))
        if all(_PLAIN.fullmatch(o.name) for o in kernel.operands):
            return self.written(kernel, tuning)
        # The user's names, but for those that the generated text has already.
        text = self.written(_named(kernel, plain), tuning).source.partition("__global__")[2]
        words = {w for w in re.findall(r"\w+", text) if not _PLAIN.match(w)}
        return self.written(_named(kernel, free_names([o.name for o in kernel.operands], words)), tuning)

    def tiling(self, kernel: Any, binding: Any) -> KernelTiling | ScalarTiling:
        """How a kernel is cut into tiles, and what that is predicted to take at these sizes.

        For a kernel in structured form: how its threads are handed out to cores.

        Raises
        ------
        Refused
            Where it cannot be written.
        """
        tuning = self.choose(kernel, binding)
        if isinstance(tuning, scalar_kernel.ScalarTuning):
            found = self.written(kernel, tuning).tiling
            assert isinstance(found, ScalarTiling)
            return found
        assert isinstance(tuning, VectorTuning)
        made = self.generate(kernel, binding)
        return KernelTiling(made.tiling, predicted(kernel, binding, tuning, made, self.chip))

    def written(self, kernel: Kernel | StructuredKernel, tuning: Hashable) -> Generated:
        """The kernel in Ascend C as it was tuned; one in structured form as scalar code."""
        key: Hashable
        if isinstance(kernel, StructuredKernel):
            key = (kernel.key, kernel.name, tuple(a.name for a in kernel.arrays), tuning)
        else:
            key = (kernel.key, tuple(o.name for o in kernel.operands), tuning)
        found = self._generated.get(key)
        if found is None:
            try:
                if isinstance(kernel, StructuredKernel):
                    assert isinstance(tuning, scalar_kernel.ScalarTuning)
                    found = scalar_kernel.generate(kernel, tuning, self.chip)
                else:
                    assert isinstance(tuning, VectorTuning)
                    found = generate(kernel, tuning, self.chip)
            except Refused as refused:
                found = refused
            self._generated[key] = found
            if len(self._generated) > MAX_GENERATED:
                self._generated.popitem(last=False)
        if isinstance(found, Refused):
            raise found
        return found

    # --- matrix products -----------------------------------------------------------------------------------

    def product(
        self,
        operands: Sequence[tuple[tuple[int, ...], tuple[int, ...]]],
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        names: tuple[str, str, str] = ("a", "b", "c"),
        out: np.dtype[Any] | None = None,
        pitch: int = 0,
        tile: tuple[int, ...] = (),
    ) -> Generated | None:
        """The cube kernel of a product of matrices given by shape and strides in elements; None where the
        host multiplies. The result may have a dtype of its own, and rows that lie a pitch apart. A tile of
        the program's is kept to where nothing is optimised."""
        found = described(operands, shape, dtype, out, pitch)
        if found is None:
            return None
        options = self.cube_options if self.optimizes else CubeOptions.none(tile)
        table = self.table()
        if options == CubeOptions() and table is not None:
            key, sizes = product_key(found), sizes_of(found.sizes)
            if self._measures() and table.measured(key, sizes, self.measured_by) is None:
                with contextlib.suppress(MemoryError):
                    measure_product(self, table, found)
            entry = table.find(key, sizes)
            options = options_of(entry.choice) if entry is not None else options
        return self.products.find(found, options, names)

    def product_call(self, generated: Generated, offsets: tuple[int, ...]) -> Call | DeviceLaunch:
        """What runs a product whose operands begin so many elements into their buffers."""
        raise NotImplementedError

    def device_product(
        self, operands: Matrices, shape: tuple[int, ...], dtype: np.dtype[Any], out: np.dtype[Any]
    ) -> Callable[[], DeviceLaunch] | None:
        """None: there is no memory but the host's."""
        return None

    def host_kernel(self, name: str) -> Callable[..., None] | None:
        """A faster way than its meaning to run a HOST primitive."""
        return None if self.fallback is None else self.fallback.host_kernel(name)

    # --- running: `executable` and `product_call` are the business of what inherits from here --------------

    def fingerprint(self) -> str:
        """The chip. What is kept is checked against what would be generated anew."""
        return f"{self.name}|{self.chip.architecture}"

    def executable(self, kernel: Any, generated: Generated) -> Written:
        """A kernel that was written, compiled.

        Raises
        ------
        LaunchError
            Where there is no compiler, or it does not take the source.
        """
        raise NotImplementedError

    def compile(self, kernel: Any, tuning: Hashable) -> tuple[Executable, bytes]:
        """Generate and compile a kernel; also the source by which `load` knows it again.

        Raises
        ------
        LaunchError
            Where there is no compiler, or it does not take the source.
        """
        generated = self.written(kernel, tuning)
        return self.executable(kernel, generated), generated.source.encode()

    def load(self, kernel: Any, tuning: Hashable, code: bytes) -> Executable:
        """Restore what `compile` made.

        Raises
        ------
        ValueError
            If the kernel would be written differently today.
        """
        generated = self.written(kernel, tuning)
        if generated.source.encode() != code:
            raise ValueError("another source")
        return self.executable(kernel, generated)
