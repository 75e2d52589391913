"""`explain`: what evaluating a tensor would run, and why."""

from __future__ import annotations

from dataclasses import dataclass, field

from .backend.base import Executable
from .backend.ir import format_kernel
from .lazy import evaluate
from .lazy.cache import kernels as kernel_cache
from .lazy.format import format_tape
from .lazy.lower import LoweredKernel
from .lazy.pipeline import compile_tape
from .lazy.schedule import Schedule, Step
from .lazy.simplify import Graph, Value
from .ops import _graph
from .ops._graph import Node, TensorBase
from .ops.errors import ArgumentError, DtypeError
from .ops.primitives import SCALAR, VIEW


@dataclass(frozen=True)
class Array:
    """An array that a kernel reads or writes."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    nbytes: int

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class KernelInfo:
    """One kernel or host call that an evaluation runs.

    Attributes
    ----------
    name : str
    kind : str
        ``"kernel"``, compiled for the backend, or ``"host"``, run by a library.
    ops : tuple of str
        The primitives computed, in order.
    inputs, outputs : tuples of Array
        What is read from memory and written to it.
    reason : str
        Why a kernel began here and the work was not part of another.
    bytes_read, bytes_written : int
    extents : tuple of int
        Of the kernel's axes.
    bucket : tuple of int
        The representative extents of the bucket they fall into: sizes within 20 % of these share code and
        tuning. Their own where the kernel would begin a bucket.
    cached : bool
        Whether its code is in memory already.
    ir : str
        The kernel in point form.
    """

    name: str
    kind: str
    ops: tuple[str, ...]
    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]
    reason: str
    bytes_read: int
    bytes_written: int
    extents: tuple[int, ...] = ()
    bucket: tuple[int, ...] = ()
    cached: bool = False
    ir: str = ""
    lowered: LoweredKernel | None = field(default=None, repr=False)

    def source(self, form: str = "llvm") -> str:
        """The generated code as text: ``"llvm"`` or ``"asm"``. Compiles the kernel if that was not done.

        Raises
        ------
        ValueError
            For a form that the backend does not have, or a host call, which has no generated code.
        """
        if self.lowered is None:
            raise ArgumentError(
                f"[source] expected a kernel with generated code, given {self.name}, which runs on the host"
            )
        if form not in ("llvm", "asm"):
            raise ArgumentError(f"[source] expected 'llvm' or 'asm', given {form!r}")
        executable: Executable = kernel_cache.executable(
            evaluate.backend(), self.lowered.kernel, self.lowered.binding
        )
        return executable.source(form)

    def __str__(self) -> str:
        lines = [f"{self.kind} {self.name}: {', '.join(self.ops)}"]
        lines.append(
            f"  reads   {', '.join(map(str, self.inputs)) or 'nothing'}  ({_bytes(self.bytes_read)})"
        )
        lines.append(f"  writes  {', '.join(map(str, self.outputs))}  ({_bytes(self.bytes_written)})")
        lines.append(f"  began   {self.reason}")
        if self.kind == "kernel":
            where = "in memory" if self.cached else "to be compiled, or read from disk"
            size = f"{' x '.join(map(str, self.bucket))} ± 20 %" if self.bucket else "one point"
            lines.append(f"  bucket  {size}; code {where}")
        return "\n".join(lines)


class Explanation:
    """What evaluating some tensors would run. Printing it shows the trace, the kernels and the cuts.

    Attributes
    ----------
    trace : tuple of str
        The recorded operations that are still to be computed, one line each.
    kernels : list of KernelInfo
        What runs, in order.
    bytes_moved : int
        Bytes that the kernels read and write.
    """

    def __init__(self, nodes: list[Node], keep_held: bool = True) -> None:
        pending = [node for node in nodes if node.buffer is None]
        self.trace: tuple[str, ...] = ()
        self.kernels: list[KernelInfo] = []
        if pending:
            tape = _graph.linearise(pending, keep_held)
            self.trace = tuple(format_tape(tape).splitlines())
            cut, kernels = compile_tape(tape, evaluate.backend())
            self.kernels = [
                _describe_host(cut, step) if kernel is None else _describe(cut, step, kernel)
                for step, kernel in zip(cut.steps, kernels, strict=True)
            ]
        self.bytes_moved = sum(k.bytes_read + k.bytes_written for k in self.kernels)

    def __str__(self) -> str:
        if not self.kernels:
            return "nothing to run: the value is in memory"
        lines = [f"trace ({len(self.trace)} operations)"]
        shown = self.trace if len(self.trace) <= 60 else (*self.trace[:40], "…", *self.trace[-19:])
        lines += [f"  {line}" for line in shown]
        count = sum(k.kind == "kernel" for k in self.kernels)
        hosts = len(self.kernels) - count
        calls = f" and {_count(hosts, 'host call')}" if hosts else ""
        lines.append(f"{_count(count, 'kernel')}{calls}, {_bytes(self.bytes_moved)} moved")
        for kernel in self.kernels:
            lines += [f"  {line}" for line in str(kernel).splitlines()]
            lines += [f"    | {line}" for line in kernel.ir.splitlines()[:48]]
        return "\n".join(lines)

    __repr__ = __str__


def explain(*tensors: TensorBase) -> Explanation:
    """What evaluating the tensors would run: trace, kernels, why the cut fell where it did, bytes moved.

    Nothing is evaluated.

    Parameters
    ----------
    *tensors : Tensor

    Returns
    -------
    Explanation
        Prints as text; ``.kernels`` and ``.trace`` hold the parts.

    Raises
    ------
    TypeError
        For an argument that is not a tensor.
    """
    for tensor in tensors:
        if not isinstance(tensor, TensorBase):
            raise DtypeError(f"[explain] expected tensors, given {type(tensor).__name__}")
    return Explanation([evaluate.owner(t).node for t in tensors])


def _describe(cut: Schedule, step: Step, lowered: LoweredKernel) -> KernelInfo:
    kernel, binding = lowered.kernel, lowered.binding
    moved = [0] * len(kernel.operands)
    for n, access in enumerate(kernel.accesses):
        points = 1
        for extent, stride in zip(binding.extents, binding.strides[n], strict=True):
            points *= extent if stride else 1
        operand = kernel.operands[access.operand]
        whole = cut.graph.values[lowered.operands[access.operand]].size
        touched = (
            whole if any(i.op == "gather" and i.attrs[0] == n for i in kernel.body) else min(points, whole)
        )
        moved[access.operand] = max(moved[access.operand], touched * operand.dtype.itemsize)
    arrays = [
        Array(o.name, cut.graph.values[v].shape, o.dtype.name, m)
        for o, v, m in zip(kernel.operands, lowered.operands, moved, strict=True)
    ]
    outputs = [o.output for o in kernel.operands]
    bucket = kernel_cache.bucket(evaluate.backend(), kernel, binding)
    return KernelInfo(
        kernel.name,
        "kernel",
        tuple(
            f"{i.attrs[0]} reduce" if i.op == "reduce" else i.op
            for i in kernel.body
            if i.op not in ("load", "store", "scalar", "const")
        ),
        tuple(a for a, o in zip(arrays, outputs, strict=True) if not o),
        tuple(a for a, o in zip(arrays, outputs, strict=True) if o),
        step.reason,
        sum(a.nbytes for a, o in zip(arrays, outputs, strict=True) if not o),
        sum(a.nbytes for a, o in zip(arrays, outputs, strict=True) if o),
        binding.extents,
        bucket or binding.extents,
        bucket is not None,
        format_kernel(kernel, binding),
        lowered,
    )


def _describe_host(cut: Schedule, step: Step) -> KernelInfo:
    graph: Graph = cut.graph
    (v,) = step.members
    value = graph.values[v]
    name = value.attrs[0] if value.primitive.name == "host_call" else value.primitive.name
    inputs = []
    for n, o in enumerate(value.operands):
        operand: Value = graph.values[o]
        if operand.primitive is SCALAR:
            continue
        if operand.primitive is VIEW:
            operand = graph.values[operand.operands[0]]
        inputs.append(
            Array(f"x{n}", operand.shape, operand.dtype.name, operand.size * operand.dtype.itemsize)
        )
    output = Array("y0", value.shape, value.dtype.name, value.size * value.dtype.itemsize)
    return KernelInfo(
        name,
        "host",
        (name,),
        tuple(inputs),
        (output,),
        step.reason,
        sum(a.nbytes for a in inputs),
        output.nbytes,
    )


def _bytes(count: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
