"""Kernels on arrays of other libraries: run before the call returns, in the arrays' own memory."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backend import _runtime
from ..config import config
from ..interop import on_npu
from ..lazy import evaluate, handwritten
from ..lazy.plan import Plan
from ..ops._graph import Node, Tape, TensorBase
from ..ops.errors import ReadOnlyError, TracingError
from ..ops.primitives import SCALAR
from ..ops.traced import TracedNumber, is_number
from .arguments import captured_tensor, host_array, is_host_array, shared
from .launch import Geometry, Launcher, prepare
from .maps import run_map
from .signature import Path

if TYPE_CHECKING:
    from .kernel import Kernel


@dataclass(frozen=True)
class InPlace:
    """A launch on arrays of NumPy with these dtypes, shapes and strides, ready to be run again.

    Attributes
    ----------
    leaves : tuple of int
        For each leaf of the plan, the argument that it is.
    scalars : tuple of (int or Path, callable)
        For each scalar of the plan, where it comes from and how its bytes are made.
    targets, arrays : tuples of int
        The arguments that are written, and all that are arrays.
    may_fault : bool
        Whether an index may leave its array.
    """

    launcher: Launcher
    plan: Plan
    tape: Tape
    leaves: tuple[int, ...]
    scalars: tuple[tuple[int | Path, Callable[[Any], bytes]], ...]
    targets: tuple[int, ...]
    arrays: tuple[int, ...]
    may_fault: bool

    def run(self, values: tuple[Any, ...]) -> bool:
        """Run it; False where these arguments take the longer way: arrays that overlap, for one."""
        if not self.launcher.holds(values):
            return False
        for t in self.targets:
            target = values[t]
            if not target.flags.writeable:
                return False
            for n in self.arrays:
                if n != t and np.may_share_memory(target, values[n]):
                    return False
        try:
            scalars = b"".join([pack(self.launcher.value(n, values)) for n, pack in self.scalars])
        except (struct.error, OverflowError):
            return False
        leaves = [_runtime.wrap(values[n]) for n in self.leaves]
        scalars += self.plan.constants
        if self.may_fault:
            with _kept([values[t] for t in self.targets]):
                evaluate.run(self.plan, self._origin, leaves, scalars)
        else:
            evaluate.run(self.plan, self._origin, leaves, scalars)
        return True

    def _origin(self) -> evaluate.Origin:
        return evaluate.Origin(self.tape, self.plan)


@contextmanager
def _kept(arrays: list[np.ndarray[Any, Any]]) -> Iterator[None]:
    """Give arrays their elements back where a kernel ends with an error.

    They are kept in memory of the pool, which is there already when a launch is repeated: touching new pages
    takes longer than the copy.
    """
    before = []
    for array in arrays:
        kept = _runtime.array(_runtime.allocate(array.nbytes), array.shape, array.dtype, writable=True)
        np.copyto(kept, array)
        before.append(kept)
    try:
        yield
    except BaseException:
        for array, elements in zip(arrays, before, strict=True):
            array[...] = elements
        raise


def run_at_once(kernel: Kernel, where: Geometry | None, values: tuple[Any, ...]) -> Any:
    """Run a kernel that some array of another library is an argument of.

    Raises
    ------
    ValueError
        For a read-only array that the kernel writes, or two that overlap.
    TracingError
        Beside a tensor that depends on an argument of a function that is being traced.
    """
    if any(isinstance(v, TensorBase) and evaluate.depends_on_traced(v) for v in values):
        n = next(n for n, v in enumerate(values) if is_host_array(v))
        raise TracingError(
            f"[{kernel.name}] expected tensors among the arguments of a kernel in a traced function, given "
            f"{type(values[n]).__name__} for {kernel.parameters[n]}, on which it would run at once; convert "
            "it with pyasc.asarray"
        )
    if any(is_host_array(v) and on_npu(v) for v in values):
        from .on_device import run_on_npu

        return run_on_npu(kernel, where, values)
    given = tuple(host_array(v) if is_host_array(v) else v for v in values)
    key = None
    for by_value in (kernel.by_value, True):
        key = _key(where, given, by_value)
        found = kernel.in_place.get(key)
        if found is not None and found.run(given):
            return None
    arrays = {n: v for n, v in enumerate(given) if isinstance(v, np.ndarray)}
    held = {n: shared(v, kernel.name, kernel.parameters[n]) for n, v in arrays.items()}
    tensors = tuple(held.get(n, v) for n, v in enumerate(given))
    if kernel.is_map:
        result = run_map(kernel, where, tensors)
        evaluate.sync(result)
        if any(result.node is tensor.node for tensor in held.values()):
            return captured_tensor(result.numpy(), kernel.name, "x")  # it is the argument as it is
        return result
    launcher = prepare(kernel, where, tensors)
    written = {
        path[0]
        for path, array in zip(launcher.lowered.arrays, launcher.lowered.kernel.arrays, strict=True)
        if array.writes
    }
    targets = [n for n in arrays if kernel.parameters[n] in written]
    for n in targets:
        if arrays[n] is not values[n] and not np.may_share_memory(arrays[n], host_array(values[n])):
            raise ReadOnlyError(
                f"[{kernel.name}] expected an array for {kernel.parameters[n]}, which it writes, given "
                f"{type(values[n]).__name__}, which makes a copy when it is read as one"
            )
        if not arrays[n].flags.writeable:
            raise ReadOnlyError(
                f"[{kernel.name}] expected an array that can be written for {kernel.parameters[n]}, "
                "given one that is read-only"
            )
    tensors, apart = _apart(kernel, tensors, held, targets)
    owners, nodes = launcher.record(tensors)
    own = {id(evaluate.owner(held[n])) for n in targets}
    if nodes and all(id(owner) in own for owner in owners) and not launcher.copied:
        operands = nodes[0].operands[: len(launcher.owners)]
        may_fault = handwritten.may_fault(launcher.attrs, tuple(prod(node.shape) for node in operands))
        with _kept([arrays[n] for n in targets] if may_fault else []):
            plan, tape = evaluate.run_in_place(nodes[0])
        for n in targets:
            if not np.may_share_memory(arrays[n], held[n].numpy()):
                arrays[n][...] = held[n].numpy()
        if key is not None and apart and all(map(_lies_plainly, arrays.values())):
            parts = (plan, tape, nodes[0], tuple(targets), tuple(arrays), may_fault)
            made = _ready(launcher, *parts, kernel.by_value)
            numbers = (nodes[0].attrs or ())[-1]
            kernel.remember(_key(where, given, kernel.by_value or bool(numbers)), made)
        return None
    for owner, node in zip(owners, nodes, strict=True):
        owner.node = node
    evaluate.evaluate(nodes)
    for n in targets:
        arrays[n][...] = held[n].numpy()
    return None


def _lies_plainly(array: np.ndarray[Any, Any]) -> bool:
    return array.flags.c_contiguous and array.flags.aligned


def _key(where: Geometry | None, values: tuple[Any, ...], by_value: bool) -> Any:
    """By which a launch on arrays of NumPy and numbers is found again."""
    if config.interpret or evaluate.tracing():
        return None
    key: list[Any] = [where, config.promotion, config.fast_math, evaluate.selected()]
    for value in values:
        if isinstance(value, np.ndarray):
            key.append((value.dtype, value.shape, value.strides, value.flags.aligned))
        elif is_number(value) and type(value) is not TracedNumber:
            key.append((value.__class__, value) if by_value else value.__class__)
        elif isinstance(value, TensorBase | list):
            return None
        else:
            key.append(value)
    try:
        hash(tuple(key))
    except TypeError:
        return None
    return tuple(key)


_FORMATS = {
    "bool": "<?7x",
    "int8": "<b7x",
    "int16": "<h6x",
    "int32": "<i4x",
    "int64": "<q",
    "uint8": "<B7x",
    "uint16": "<H6x",
    "uint32": "<I4x",
    "uint64": "<Q",
    "float32": "<f4x",
    "float64": "<d",
}


def _packer(dtype: np.dtype[Any]) -> Callable[[Any], bytes]:
    """How a number becomes the eight bytes of a scalar argument."""
    form = _FORMATS.get(dtype.name)
    if form is not None:
        return struct.Struct(form).pack
    return lambda value: np.asarray(value).astype(dtype).tobytes().ljust(8, b"\0")


def _ready(
    launcher: Launcher,
    plan: Plan,
    tape: Tape,
    call: Node,
    targets: tuple[int, ...],
    arrays: tuple[int, ...],
    may_fault: bool,
    by_value: bool,
) -> InPlace | None:
    """The launch for the next time; None where it is made of more than arguments."""
    owners = [source for source in launcher.owners if isinstance(source, int)]
    if len(owners) < len(launcher.owners) or (launcher.lowered.style == "tiles" and not by_value):
        return None
    operand = {id(node): n for n, node in enumerate(call.operands)}
    leaves = tuple(owners[operand[id(tape.nodes[p])]] for p in tape.leaves)
    numbers = (operand[id(node)] - len(owners) for node in tape.nodes if node.primitive is SCALAR)
    scalars = tuple((launcher.scalars[n][0], _packer(launcher.scalars[n][1])) for n in numbers)
    return InPlace(launcher, plan, tape, leaves, scalars, targets, arrays, may_fault)


def _apart(
    kernel: Kernel, tensors: tuple[Any, ...], held: dict[int, Any], targets: list[int]
) -> tuple[tuple[Any, ...], bool]:
    """The arguments, with a copy of each array that overlaps one that the kernel writes; whether none does.

    What is read behaves as if it had been copied first.
    """
    found = list(tensors)
    memory = {n: tensor.numpy() for n, tensor in held.items()}
    apart = True
    for n in held:
        for t in targets:
            if n == t or not np.shares_memory(memory[n], memory[t]):
                continue
            if n in targets:
                raise ReadOnlyError(
                    f"[{kernel.name}] expected arrays that do not overlap for {kernel.parameters[t]} and "
                    f"{kernel.parameters[n]}, which it writes, given two that share memory"
                )
            apart = False
            found[n] = captured_tensor(memory[n], kernel.name, kernel.parameters[n])
    return tuple(found), apart
