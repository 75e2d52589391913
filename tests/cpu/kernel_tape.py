"""Hand-built kernels, run natively and by their NumPy meaning on the same guarded memory."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

from pyasc.backend import reference
from pyasc.backend.cpu.backend import CPU, Compiled
from pyasc.backend.cpu.target import Target
from pyasc.backend.cpu.tuning import Tuning
from pyasc.backend.ir import Access, Binding, Instr, Kernel, Operand

Array = np.ndarray[Any, Any]
Dtype = np.dtype[Any]

_POINTER = ctypes.c_void_p
_FUNCTION = ctypes.CFUNCTYPE(
    None, _POINTER, _POINTER, _POINTER, ctypes.c_int64, ctypes.c_int64, _POINTER, _POINTER, _POINTER
)
_libc = ctypes.CDLL(None, use_errno=True)
_PAGE = mmap.PAGESIZE


class Tape:
    """Builds a kernel and its binding, instruction by instruction."""

    def __init__(self, extents: Sequence[int], reduced: int = 0) -> None:
        self.extents = tuple(extents)
        self.reduced = reduced
        self.operands: list[Operand] = []
        self.accesses: list[Access] = []
        self.strides: list[tuple[int, ...]] = []
        self.offsets: list[int] = []
        self.sizes: list[int] = []
        self.scalars: list[Dtype] = []
        self.body: list[Instr] = []

    def operand(self, dtype: Any, output: bool = False) -> int:
        self.operands.append(Operand(f"x{len(self.operands)}", np.dtype(dtype), output))
        self.sizes.append(1)
        return len(self.operands) - 1

    def access(
        self, operand: int, strides: Sequence[int], offset: int | None = None, anchor: int | None = None
    ) -> int:
        """A walk over an operand; without an offset it begins as early as the strides allow."""
        low = sum(min(0, s * (e - 1)) for s, e in zip(strides, self.extents, strict=True))
        high = sum(max(0, s * (e - 1)) for s, e in zip(strides, self.extents, strict=True))
        start = -low if offset is None else offset
        self.sizes[operand] = max(self.sizes[operand], start + high + 1)
        layout = "".join({0: "0", 1: "1", -1: "-"}.get(s, "n") for s in strides)
        number = len(self.accesses)
        delta = 0 if anchor is None else start - self.offsets[anchor]
        self.accesses.append(Access(operand, layout, number if anchor is None else anchor, delta))
        self.strides.append(tuple(strides))
        self.offsets.append(start)
        return number

    def emit(self, op: str, dtype: Any, args: Sequence[int] = (), attrs: tuple[Any, ...] = ()) -> int:
        self.body.append(Instr(op, np.dtype(dtype), tuple(args), attrs))
        return len(self.body) - 1

    def load(self, dtype: Any, strides: Sequence[int] | None = None) -> int:
        """A load from an operand of its own, contiguous if no strides are given."""
        strides = self.contiguous() if strides is None else strides
        return self.emit("load", dtype, (), (self.access(self.operand(dtype), strides),))

    def store(self, value: int, strides: Sequence[int] | None = None) -> int:
        """A store to an operand of its own."""
        dtype = self.body[value].dtype
        strides = self.contiguous() if strides is None else strides
        access = self.access(self.operand(dtype, output=True), strides)
        return self.emit("store", dtype, (value,), (access,))

    def scalar(self, dtype: Any) -> int:
        self.scalars.append(np.dtype(dtype))
        return self.emit("scalar", dtype, (), (len(self.scalars) - 1,))

    def contiguous(self, axes: Sequence[int] | None = None) -> tuple[int, ...]:
        """Strides of C order over some of the axes, all by default; 0 along the others."""
        chosen = range(len(self.extents)) if axes is None else axes
        strides = [0] * len(self.extents)
        step = 1
        for axis in reversed(list(chosen)):
            strides[axis] = step
            step *= self.extents[axis]
        return tuple(strides)

    def outer(self) -> tuple[int, ...]:
        """Strides of a contiguous result over the parallel axes."""
        return self.contiguous(range(len(self.extents) - self.reduced))

    def kernel(self) -> Kernel:
        return Kernel(
            len(self.extents) - self.reduced,
            self.reduced,
            tuple(self.operands),
            tuple(self.accesses),
            tuple(self.scalars),
            tuple(self.body),
        )

    def binding(self) -> Binding:
        return Binding(self.extents, tuple(self.strides), tuple(self.offsets))


class Guarded:
    """Memory between two pages that must not be touched; arrays lie against one or the other."""

    def __init__(self, array: Array, at_end: bool) -> None:
        pages = -(-max(array.nbytes, 1) // _PAGE)
        self._map = mmap.mmap(-1, (pages + 2) * _PAGE)
        view = np.frombuffer(self._map, np.uint8)
        address = view.ctypes.data
        for page in (0, pages + 1):
            if _libc.mprotect(_POINTER(address + page * _PAGE), ctypes.c_size_t(_PAGE), 0):
                raise OSError(ctypes.get_errno(), "mprotect")
        start = (pages + 1) * _PAGE - array.nbytes if at_end else _PAGE
        self.array = view[start : start + array.nbytes].view(array.dtype)
        self.array[:] = array


@cache
def backend(level: str = "") -> CPU:
    """The host's backend, or one that uses no more than the named x86-64 level."""
    return CPU(Target.for_triple("x86_64-unknown-linux-gnu", level)) if level else CPU()


_compiled: dict[Any, Compiled] = {}


def compiled(cpu: CPU, kernel: Kernel, tuning: Tuning) -> Compiled:
    """The kernel's code, made once for all sizes."""
    key = (cpu.fingerprint(), kernel.key, tuning)
    if key not in _compiled:
        _compiled[key] = cpu.compile(kernel, tuning)[0]
    return _compiled[key]


def launch(
    executable: Compiled,
    binding: Binding,
    buffers: Sequence[Array],
    scalars: Sequence[Any] = (),
    step: int = 3,
) -> list[int]:
    """Run the phases of a launch, `step` units at a time; the kernel's status."""
    bound = executable.bind(binding)
    pointers = np.array([buffers[o].ctypes.data + at for o, at in bound.pointers], np.uint64)
    integers = np.array(bound.integers, np.int64)
    words = np.zeros(max(1, len(scalars)), np.uint64)
    for k, (value, dtype) in enumerate(zip(scalars, executable.kernel.scalars, strict=True)):
        words[k : k + 1].view(dtype)[0] = value
    # Scratch memory comes uncleared.
    scratch = np.full(bound.scratch + 128, 0xA5, np.uint8)
    own = np.full(bound.thread_scratch + 128, 0x5A, np.uint8)
    status = np.zeros(2, np.int64)
    for phase in bound.phases:
        function = _FUNCTION(phase.function)
        for begin in range(0, phase.units, step):
            function(
                pointers.ctypes.data,
                integers.ctypes.data,
                words.ctypes.data,
                begin,
                min(begin + step, phase.units),
                _aligned(scratch),
                _aligned(own),
                status.ctypes.data,
            )
    return [int(s) for s in status]


def _aligned(memory: Array) -> int:
    return -(-memory.ctypes.data // 128) * 128


def values(dtype: Dtype, count: int, generator: np.random.Generator) -> Array:
    """Numbers of a dtype with its special ones among them."""
    if dtype.kind == "b":
        return generator.random(count) < 0.5
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        result = generator.integers(limits.min, limits.max, count, dtype, endpoint=True)
        return np.where(generator.random(count) < 0.3, (result & dtype.type(7)).astype(dtype), result)
    return (generator.standard_normal(count) * 4).astype(dtype)


def with_specials(array: Array, generator: np.random.Generator) -> Array:
    """A float array with NaN, infinities and -0.0 strewn in."""
    specials = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0]).astype(array.dtype)
    strewn = specials[generator.integers(0, len(specials), len(array))]
    return np.where(generator.random(len(array)) < 0.2, strewn, array).astype(array.dtype)


def check(
    tape: Tape,
    tunings: Sequence[Tuning | None] = (None,),
    scalars: Sequence[Any] = (),
    tolerance: float = 0.0,
    seed: int = 0,
    specials: bool = False,
    level: str = "",
    inputs: dict[int, Array] | None = None,
) -> None:
    """Compare a kernel under each tuning with its meaning: whole buffers, to the bit or a tolerance."""
    kernel, binding = tape.kernel(), tape.binding()
    generator = np.random.default_rng(seed)
    start = []
    for k, (operand, size) in enumerate(zip(kernel.operands, tape.sizes, strict=True)):
        array = values(operand.dtype, size, generator)
        if specials and operand.dtype.kind in "fV" and not operand.output:
            array = with_specials(array, generator)
        start.append((inputs or {}).get(k, array))
    expected = [a.copy() for a in start]
    reference.run(kernel, binding, expected, scalars)
    cpu = backend(level)
    if not all(cpu.supports("add", i.dtype) for i in kernel.body):
        pytest.skip("no float16 at this level")
    for number, tuning in enumerate(tunings):
        chosen = cpu.tune(kernel, binding) if tuning is None else tuning
        executable = compiled(cpu, kernel, chosen)
        guarded = [Guarded(a, at_end=(number + k) % 3 != 0) for k, a in enumerate(start)]
        assert launch(executable, binding, [g.array for g in guarded], scalars) == [0, 0]
        for k, (given, want) in enumerate(zip(guarded, expected, strict=True)):
            same(given.array, want, tolerance, f"operand {k}, {chosen}\n{kernel}\n{binding}")


def same(given: Array, want: Array, tolerance: float, message: str) -> None:
    if tolerance and want.dtype.kind in "fV":
        np.testing.assert_allclose(
            given.astype(np.float64), want.astype(np.float64), rtol=tolerance, atol=tolerance, err_msg=message
        )
        return
    if want.dtype.kind in "fV":
        nan = np.isnan(want.astype(np.float64))
        np.testing.assert_array_equal(np.isnan(given.astype(np.float64)), nan, message)
        given, want = np.where(nan, 0, given).astype(want.dtype), np.where(nan, 0, want).astype(want.dtype)
    unsigned = f"u{want.dtype.itemsize}"
    np.testing.assert_array_equal(given.view(unsigned), want.view(unsigned), message)
