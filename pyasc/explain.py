"""`explain`: what evaluating a tensor would run, and why."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING, Any

from .backend.base import HOST, Backend, LaunchError
from .backend.ir import Binding, Kernel, format_kernel
from .lazy import evaluate
from .lazy.backends import generator
from .lazy.cache import kernels as kernel_cache
from .lazy.events import moved
from .lazy.format import format_tape
from .lazy.handwritten import Handwritten, linearise
from .lazy.lower import LoweredKernel
from .lazy.pipeline import compile_tape
from .lazy.residence import device_product, matrices
from .lazy.schedule import Schedule, Step
from .lazy.simplify import Graph, Value
from .lazy.transfers import Move, transfers
from .ops._graph import Node, Tape, TensorBase
from .ops.errors import ArgumentError, BackendError, DtypeError, NotSupported
from .ops.primitives import LEAF, MATMUL, PRIMITIVES, SCALAR, VIEW

if TYPE_CHECKING:
    from .backend.ascend.backend import Ascend
    from .backend.ascend.generated import Generated
    from .backend.sim.cost import Cost
    from .backend.structured import StructuredKernel


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
class Transfer:
    """A copy between the memories of the host and a device. Prints as text.

    Attributes
    ----------
    array : Array
    target : str
        ``"npu:0"`` and the like, or ``"host"``.
    """

    array: Array
    target: str

    def __str__(self) -> str:
        where = "the host" if self.target == "host" else self.target
        return f"{self.array} to {where}  ({_bytes(self.array.nbytes)})"


@dataclass(frozen=True)
class Work:
    """What a kernel's code is generated from: KernelIR, or the generated product of two matrices.

    Attributes
    ----------
    names : tuple of str
        Of the kernel's operands, as the user calls them.
    sizes : tuple of int
        Bytes of the operands' buffers.
    """

    backend: Backend
    lowered: LoweredKernel | None
    names: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    product: Generated | None = None


@dataclass(frozen=True)
class KernelInfo:
    """One kernel or host call that an evaluation runs.

    Attributes
    ----------
    name : str
    kind : str
        ``"kernel"``, compiled for a backend, or ``"host"``, run by a library.
    backend : str
        What it runs on: ``"cpu"``, ``"sim:910B1"``. A kernel that the backend in force has no code for runs
        on ``"cpu"``.
    ops : tuple of str
        The primitives computed, in order.
    inputs, outputs : tuples of Array
        What is read from memory and written to it.
    reason : str
        Why a kernel began here and the work was not part of another, or why it runs on the host.
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
    transfers : tuple of Transfer
        What is copied to the device, or from it to the host, before it can run.
    """

    name: str
    kind: str
    backend: str
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
    work: Work | None = field(default=None, repr=False)
    transfers: tuple[Transfer, ...] = ()

    def source(self, form: str = "") -> str:
        """The generated code as text.

        Parameters
        ----------
        form : str
            ``"ascendc"``, for any kernel, no compiler needed; ``"llvm"`` or ``"asm"`` for one that runs on
            the CPU, which is compiled if that was not done. By default what runs: LLVM's or Ascend C.

        Raises
        ------
        ValueError
            For a form that there is not, or a host call, which has no generated code.
        NotImplementedError
            For ``"ascendc"`` of a kernel that the chip cannot run.
        """
        work = self._work("source")
        forms = work.backend.forms if work.lowered is not None else ("ascendc",)
        form = form or forms[0]
        if form not in (*forms, "ascendc"):
            expected = " or ".join(map(repr, dict.fromkeys((*forms, "ascendc"))))
            raise ArgumentError(f"[source] expected {expected}, given {form!r}")
        if form != "ascendc":
            lowered = work.lowered
            assert lowered is not None
            return kernel_cache.executable(work.backend, lowered.kernel, lowered.binding).source(form)
        return self._generated("source").source

    @property
    def tiling(self) -> Any:
        """How the kernel is cut into tiles on the NPU; prints as text.

        On the CPU that of the same kernel for an Ascend 910B1.
        """
        work, generated = self._work("tiling"), self._generated("tiling")
        if work.lowered is None or not isinstance(work.lowered.kernel, Kernel):
            return generated.tiling
        kernel = named(work.lowered.kernel, work.names)
        return _ascend(work.backend).tiling(kernel, work.lowered.binding)

    @property
    def cost(self) -> Cost:
        """What a run of the kernel at these sizes costs on the simulated chip. No data is moved for it.

        Raises
        ------
        BackendError
            If there is no C++ compiler, or data says how often loops of the kernel turn.
        """
        from .backend.sim.backend import cost

        work, generated = self._work("cost"), self._generated("cost")
        bound = generated.bind(work.lowered.binding if work.lowered is not None else Binding((), (), ()))
        try:
            return cost(generated, bound, work.sizes, kernel_cache)
        except LaunchError as error:
            raise BackendError(f"[cost] {error.message}") from None

    def _work(self, asked: str) -> Work:
        if self.work is None:
            raise ArgumentError(
                f"[{asked}] expected a kernel with generated code, given {self.name}, which runs on the host"
            )
        return self.work

    def _generated(self, asked: str) -> Generated:
        """The kernel in Ascend C, for the chip of its backend."""
        work = self._work(asked)
        if work.lowered is None:
            assert work.product is not None
            return work.product
        ascend = _ascend(work.backend)
        if not isinstance(work.lowered.kernel, Kernel):
            return _structured(ascend, work.lowered, asked)
        kernel, binding = named(work.lowered.kernel, work.names), work.lowered.binding
        # What was cut for the chip has nothing that it lacks; indices are known to fit 32 bits there.
        refusal = ascend.lacking(kernel) if ascend is not work.backend else ""
        refusal = refusal or ascend.refusal(kernel, binding)
        if refusal:
            raise NotSupported(
                f"[{asked}] expected a kernel for {ascend.chip.name}, given one that it cannot run: {refusal}"
            )
        return ascend.generate(kernel, binding)

    def __str__(self) -> str:
        usual = self.backend in ("cpu", "host") and not self.reason.startswith("runs on the host")
        where = "" if usual or self.kind == "host" else f" on {self.backend}"
        lines = [f"{self.kind} {self.name}{where}" + (f": {', '.join(self.ops)}" if self.ops else "")]
        lines.append(
            f"  reads   {', '.join(map(str, self.inputs)) or 'nothing'}  ({_bytes(self.bytes_read)})"
        )
        lines.append(f"  writes  {', '.join(map(str, self.outputs))}  ({_bytes(self.bytes_written)})")
        lines.append(f"  began   {self.reason}")
        lines += [f"  copies  {transfer}" for transfer in self.transfers]
        if self.extents or self.ir:
            code = "in memory" if self.cached else "to be compiled, or read from disk"
            size = f"{' x '.join(map(str, self.bucket))} ± 20 %" if self.bucket else "one point"
            lines.append(f"  bucket  {size}; code {code}")
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

    def __init__(
        self,
        nodes: list[Node],
        keep_held: bool = True,
        backend: str = "",
        names: dict[int, str] | None = None,
    ) -> None:
        pending = [node for node in nodes if node.buffer is None]
        self.trace: tuple[str, ...] = ()
        self.kernels: list[KernelInfo] = []
        if pending:
            tape = linearise(pending, keep_held)
            self.trace = tuple(format_tape(tape).splitlines())
            target = evaluate.backend(backend)
            cut, kernels = compile_tape(tape, target, once=True)
            shown = Names(tape, cut.graph, names or {})
            moves = transfers(tape, cut, kernels, target)
            for n, (step, kernel) in enumerate(zip(cut.steps, kernels, strict=True)):
                first = len(self.kernels)
                if kernel is None:
                    self.kernels.append(_describe_host(cut, step, target, shown))
                elif isinstance(kernel, Handwritten):
                    self.kernels += _describe_call(cut, step, kernel)
                else:
                    self.kernels.append(_describe(cut, step, kernel, shown.of(kernel)))
                copies = tuple(_describe_transfer(t, cut, shown) for t in moves if t.step == n)
                self.kernels[first] = replace(self.kernels[first], transfers=copies)
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
        copied = [t.array.nbytes for k in self.kernels for t in k.transfers]
        word = "copy" if len(copied) == 1 else "copies"
        copies = f"; {len(copied)} {word} between host and device, {_bytes(sum(copied))}" if copied else ""
        lines.append(f"{_count(count, 'kernel')}{calls}, {_bytes(self.bytes_moved)} moved{copies}")
        for kernel in self.kernels:
            lines += [f"  {line}" for line in str(kernel).splitlines()]
            lines += [f"    | {line}" for line in kernel.ir.splitlines()[:48]]
        return "\n".join(lines)

    __repr__ = __str__


def explain(*tensors: TensorBase, backend: str = "") -> Explanation:
    """What evaluating the tensors would run: trace, kernels, why the cut fell where it did, bytes moved.

    Nothing is evaluated.

    Parameters
    ----------
    *tensors : Tensor
        Arrays are called by the names of the caller's variables that hold them.
    backend : str
        The backend it would run on, as in `pyasc.backend`; where omitted, the one in force.

    Returns
    -------
    Explanation
        Prints as text; ``.kernels`` and ``.trace`` hold the parts. Each kernel has its generated code,
        ``.source("ascendc")``, its ``.tiling`` and its ``.cost`` on the simulated chip.

    Raises
    ------
    TypeError
        For an argument that is not a tensor.
    """
    for tensor in tensors:
        if not isinstance(tensor, TensorBase):
            raise DtypeError(f"[explain] expected tensors, given {type(tensor).__name__}")
    names = names_in(sys._getframe(1).f_locals)
    return Explanation([evaluate.owner(t).node for t in tensors], backend=backend, names=names)


def _describe(cut: Schedule, step: Step, lowered: LoweredKernel, known: tuple[str, ...]) -> KernelInfo:
    binding = lowered.binding
    kernel = named(lowered.kernel, known)
    nbytes = moved(kernel, binding, [cut.graph.values[v].size for v in lowered.operands])
    arrays = [
        Array(o.name, cut.graph.values[v].shape, o.dtype.name, m)
        for o, v, m in zip(kernel.operands, lowered.operands, nbytes, strict=True)
    ]
    outputs = [o.output for o in kernel.operands]
    bucket = kernel_cache.bucket(lowered.backend, kernel, binding)
    return KernelInfo(
        kernel.name,
        "kernel",
        lowered.backend.name,
        tuple(
            f"{i.attrs[0]} reduce" if i.op == "reduce" else i.op
            for i in kernel.body
            if i.op not in ("load", "store", "scalar", "const")
        ),
        tuple(a for a, o in zip(arrays, outputs, strict=True) if not o),
        tuple(a for a, o in zip(arrays, outputs, strict=True) if o),
        lowered.reason or step.reason,
        sum(a.nbytes for a, o in zip(arrays, outputs, strict=True) if not o),
        sum(a.nbytes for a, o in zip(arrays, outputs, strict=True) if o),
        binding.extents,
        bucket or binding.extents,
        bucket is not None,
        format_kernel(kernel, binding),
        Work(
            lowered.backend,
            lowered,
            known,
            tuple(
                cut.graph.values[v].size * o.dtype.itemsize
                for v, o in zip(lowered.operands, kernel.operands, strict=True)
            ),
        ),
    )


def _describe_call(cut: Schedule, step: Step, made: Handwritten) -> list[KernelInfo]:
    """The launches that a call of a kernel written by hand takes."""
    from .backend.structured.format import format_structured

    found = []
    for part in made.parts:
        arrays = [made.kernel.arrays[a] for a in part.operands]
        places = [made.arguments.places[a] for a in part.operands]
        names = tuple(a.name for a in arrays)
        lowered = LoweredKernel(
            part.kernel,
            part.binding,
            tuple(made.owners[p.operand] for p in places),
            (),
            made.position,
            part.backend,
            (),
            part.reason,
        )
        if isinstance(part.kernel, Kernel):
            outputs = [o.output for o in part.kernel.operands]
            distinct = tuple(
                f"{name}_before" if not output and name in names[n + 1 :] else name
                for n, (name, output) in enumerate(zip(names, outputs, strict=True))
            )
            found.append(replace(_describe(cut, step, lowered, distinct), name=made.kernel.name))
            continue
        sizes = [prod(p.shape) * a.dtype.itemsize for a, p in zip(arrays, places, strict=True)]
        shown = [
            Array(a.name, p.shape, a.dtype.name, size)
            for a, p, size in zip(arrays, places, sizes, strict=True)
        ]
        whole = tuple(
            cut.graph.values[v].size * a.dtype.itemsize for v, a in zip(lowered.operands, arrays, strict=True)
        )
        product = None if part.call is None else part.kernel
        bucket = None if product else kernel_cache.bucket(part.backend, part.kernel, part.binding)
        found.append(
            KernelInfo(
                made.kernel.name,
                "kernel",
                part.backend.name,
                _primitives(made.kernel),
                tuple(a for a, array in zip(shown, arrays, strict=True) if array.reads or not array.writes),
                tuple(a for a, array in zip(shown, arrays, strict=True) if array.writes),
                "; ".join(filter(None, (part.reason, made.kernel.note))) or step.reason,
                sum(n for n, a in zip(sizes, arrays, strict=True) if a.reads or not a.writes),
                sum(n for n, a in zip(sizes, arrays, strict=True) if a.writes),
                made.binding.grid,
                bucket or made.binding.grid,
                bucket is not None,
                format_structured(made.kernel, made.binding),
                Work(part.backend, None if product else lowered, names, whole, product),
            )
        )
    return found


def _primitives(kernel: StructuredKernel) -> tuple[str, ...]:
    """What a kernel computes, each thing once."""
    from .backend.structured import Let, walk

    found = dict.fromkeys(s.op for s in walk(kernel.body) if isinstance(s, Let) and s.op in PRIMITIVES)
    return tuple(found) or ("copy",)


def _describe_transfer(move: Move, cut: Schedule, names: Names) -> Transfer:
    value = cut.graph.values[move.value]
    default = "an argument" if value.primitive is LEAF else f"the result of {value.primitive.name}"
    array = Array(names.get(move.value, default), value.shape, value.dtype.name, move.nbytes)
    return Transfer(array, "host" if move.device == HOST else f"npu:{move.device}")


def _describe_host(cut: Schedule, step: Step, backend: Backend, names: Names) -> KernelInfo:
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
            o = operand.operands[0]
            operand = graph.values[o]
        called = names.get(o, "ab"[n] if value.primitive is MATMUL else f"x{n}")
        inputs.append(Array(called, operand.shape, operand.dtype.name, operand.size * operand.dtype.itemsize))
    called = names.get(v, "c" if value.primitive is MATMUL else "y0")
    output = Array(called, value.shape, value.dtype.name, value.size * value.dtype.itemsize)
    arrays = (*(a.name for a in inputs), output.name)
    product = _product(cut, step, value, backend, arrays) if value.primitive is MATMUL else None
    return KernelInfo(
        name,
        "kernel" if product is not None else "host",
        backend.name if product is not None else "host",
        (name,),
        tuple(inputs),
        (output,),
        "the cube unit multiplies matrices" if product is not None else step.reason,
        sum(a.nbytes for a in inputs),
        output.nbytes,
        work=None
        if product is None
        else Work(backend, None, sizes=(*(a.nbytes for a in inputs), output.nbytes), product=product),
    )


def _product(
    cut: Schedule, step: Step, value: Value, backend: Backend, names: tuple[str, ...]
) -> Generated | None:
    """The cube kernel of a product of matrices, where the backend has one."""
    if backend.name == "cpu" or (backend.device != HOST and device_product(cut, step, backend) is None):
        return None
    operands = [(shape, strides) for shape, strides, _ in matrices(cut, value)]
    a, b, c = names
    return _ascend(backend).product(operands, value.shape, value.dtype, (a, b, c))


def _structured(ascend: Ascend, lowered: LoweredKernel, asked: str) -> Generated:
    """A kernel written by hand in Ascend C."""
    kernel: Any = lowered.kernel
    binding: Any = lowered.binding
    if lowered.backend is ascend:
        return ascend.generate(kernel, binding)
    try:
        parts = ascend.parts(kernel, binding)
        why = next((p.reason for p in parts if p.backend is not ascend), "")
    except LaunchError as error:
        parts, why = (), error.message
    if why or len(parts) != 1:
        why = why or f"it takes {len(parts)} launches; explain(…, backend='sim') has each of them"
        raise NotSupported(
            f"[{asked}] expected a kernel that is one launch on {ascend.chip.name}, "
            f"given one that is not: {why}"
        )
    (part,) = parts
    if part.call is not None:
        made: Generated = part.kernel
        return made
    if isinstance(part.kernel, Kernel):
        return ascend.generate(
            named(part.kernel, (kernel.arrays[a].name for a in part.operands)), part.binding
        )
    return ascend.generate(part.kernel, part.binding)


def _ascend(backend: Backend) -> Ascend:
    """What writes Ascend C: the backend itself, or that of the usual chip."""
    from .backend.ascend.backend import Ascend

    return backend if isinstance(backend, Ascend) else generator()


# --- names --------------------------------------------------------------------------------------------


class Names:
    """What the user calls the values of a graph."""

    def __init__(self, tape: Tape, graph: Graph, names: dict[int, str]) -> None:
        self._graph = graph
        self._tape = tape
        self._names = names

    def get(self, v: int, default: str) -> str:
        """The name of a value, or the default."""
        return self._names.get(id(self._tape.nodes[self._graph.values[v].position]), default)

    def of(self, lowered: LoweredKernel) -> tuple[str, ...]:
        """The names of a kernel's operands; those of others stay."""
        names: list[str] = []
        for v, operand in zip(lowered.operands, lowered.kernel.operands, strict=True):
            name = self.get(v, operand.name)
            names.append(name if name not in names else operand.name)
        return tuple(names)


def named(kernel: Kernel, names: Iterable[str]) -> Kernel:
    """The kernel with other names for its operands."""
    operands = zip(kernel.operands, names, strict=True)
    return replace(kernel, operands=tuple(replace(o, name=name) for o, name in operands))


# Those that operands have without a name of the user's are left to them.
_NAME = re.compile(r"(?![xy]\d+$)[A-Za-z][A-Za-z0-9]*(_[A-Za-z0-9]+)*")


def names_in(variables: dict[str, Any]) -> dict[int, str]:
    """The names of the nodes that variables hold, by the id of the node. A name that C++ takes is one of
    lower-case letters, digits and single underscores."""
    found: dict[int, str] = {}
    for name, value in variables.items():
        if isinstance(value, TensorBase) and _NAME.fullmatch(name) and value.base is None:
            found.setdefault(id(value.node), name)
    return found


def _bytes(count: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
