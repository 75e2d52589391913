"""Sync points: give pending nodes their buffers.

A tape whose structure was seen before is replayed from its plan; any other is scheduled, compiled and
planned first.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any

import numpy as np

from ..backend import _runtime
from ..backend.base import Backend, KernelFault, wide_scalar
from ..config import config
from ..ops import _graph
from ..ops._graph import Node, Tape, TensorBase
from ..ops.errors import (
    BackendError,
    DtypeError,
    IndexOutOfBounds,
    LinearAlgebraError,
    OutOfMemory,
    PyascError,
    SimulationError,
    TracingError,
    recorded_line,
)
from ..ops.primitives import KERNEL, KERNEL_OUTPUT, SCALAR, WRAP_INDEX
from ..ops.traced import TracedNumber
from . import device_errors, events, marks, placement
from .backends import canonical, create
from .handwritten import Arguments, failed_call, linearise, outside, written_by
from .interpret import interpret
from .pipeline import LabelledError
from .plan import Plan, plan

MAX_PLANS = 2048
# A trace that grew too long is evaluated at the line that did so last time, so that each turn of a loop
# gives the same trace and finds its plan; at any line once it is longer than that by this factor.
PATIENCE = 1.5

# One evaluation at a time: two threads never compute the same node twice, and kernels use every core
# anyway.
_lock = threading.RLock()
_plans: OrderedDict[tuple[Any, ...], Plan] = OrderedDict()
_running: list[tuple[Plan, Callable[[], Origin]]] = []
_backends: dict[str, Backend] = {}
_name = ""  # of the backend in force; "" until it is asked for
# Nodes whose evaluation failed: the error was raised, and is again where such a node is asked for.
_failed: weakref.WeakSet[Node] = weakref.WeakSet()


@dataclass(frozen=True)
class Place:
    """Where an operation was recorded, for messages: its name, the code and instruction, and for an index
    its axis' size."""

    name: str
    where: tuple[CodeType, int] | None
    size: int | None = None

    @property
    def line(self) -> tuple[str, int, str] | None:
        """File, line number and source text."""
        return None if self.where is None else recorded_line(self.where)


class Origin:
    """The operations behind a run of a plan: those of a tape, kept only as far as errors need them.

    Attributes
    ----------
    result : Place
        Of the last output.
    faults : dict
        By the label of a launch, the operations that its faults belong to.
    calls : dict
        By the label of what is called from Python, its operation.
    steps, where : list
        Of each launch and call of the plan, in order, and where each was recorded.
    parts : list
        Of the launches of kernels written by hand, labelled -1, -2 …: where the kernel was called, its
        arguments, and the sites of its faults.
    part_calls : list of int
        The tape positions of those calls.
    """

    def __init__(self, tape: Tape, found: Plan) -> None:
        self.result = _place(tape, tape.outputs[-1])
        self.faults = {
            label: [_place(tape, p) for p in positions] for label, positions in found.faults.items()
        }
        self.calls = {label: _place(tape, label) for label in found.calls}
        self.steps = [_place(tape, note.position) for note in found.notes]
        self.where = [place.where for place in self.steps]
        self.parts = [
            (_place(tape, position), Arguments.of(tape.nodes[position].attrs or ()), sites)
            for position, sites in found.parts
        ]
        self.part_calls = [position for position, _ in found.parts]


def _place(tape: Tape, position: int) -> Place:
    node = tape.nodes[position]
    name = node.primitive.name
    if node.primitive is KERNEL:
        name = Arguments.of(node.attrs or ()).kernel.name
    is_index = node.primitive is WRAP_INDEX
    return Place(name, node.where, node.operands[1].value if is_index else None)


def backend(name: str = "") -> Backend:
    """A backend by its name, the one in force by default. Made at first use."""
    name = canonical(name) if name else selected()
    found = _backends.get(name)
    if found is None:
        with _lock:
            found = _backends[name] = create(name, backend("cpu") if name != "cpu" else None)
    return found


def selected() -> str:
    """The name of the backend in force, found now where nobody chose one."""
    global _name
    if not _name:
        _name = canonical(config.backend)
    return _name


def select(name: str) -> None:
    """Let what is recorded from now on be computed by another backend; "" for the one that suits the machine.

    What is pending is evaluated first, by the backend that it was recorded for.

    Raises
    ------
    ArgumentError
        If there is no such backend.
    TracingError
        While a function is being traced.
    """
    global _name
    name = canonical(name) if name else name
    if name == _name:
        return
    if tracing():
        raise TracingError(
            f"[backend] expected one backend for the whole of a traced function, given {name!r} inside it"
        )
    with _lock:
        sync()
        _name = name


def target(tensors: Sequence[TensorBase]) -> str:
    """The backend of a function of some tensors: of the device that they were put on, or the one in force.

    Raises
    ------
    BackendError
        If they are on several devices.
    """
    if not placement.in_use():
        return selected()
    nodes = [owner(t).node for t in tensors]
    evaluate(nodes)
    devices = placement.devices_of(node.buffer for node in nodes)
    if len(devices) > 1:
        given = " and ".join(f"npu:{n}" for n in devices)
        raise BackendError(
            f"[jit] expected arguments and variables on one device, given some on {given}; "
            "bring them together with to_device"
        )
    return f"npu:{devices[0]}" if devices else selected()


def evaluate(nodes: Sequence[Node]) -> None:
    """Settle the nodes, and what tensors hold below them."""
    with _lock:
        pending = [node for node in nodes if node.buffer is None]
        if not pending:
            return
        if events.recorder is None:
            tape = linearise(pending)
        else:
            tape = events.timed("record", "linearise", linearise, pending)
        if _traced:
            _notice_numbers(tape)
            _refuse_leaves([tape.nodes[p] for p in tape.leaves])
        groups = placement.split(tape)
        if len(groups) > 1:
            for group in groups:
                evaluate(group)
            return
        outputs = groups[0]
        try:
            if config.interpret:
                for node, buffer in zip(outputs, interpret(tape), strict=True):
                    node.settle(buffer)
                return
            found = plan_of(tape)
            leaves = [tape.nodes[p].buffer for p in tape.leaves]
            scalars = tape.scalars + found.constants
            where = [tape.nodes[note.position].where for note in found.notes] if found.on_device else ()
            run(found, lambda: Origin(tape, found), leaves, scalars, outputs, where)
        except Exception as error:
            _failed.update(node for node in outputs if node.buffer is None)
            call = failed_call(error)
            if call >= 0:
                _fall_back(tape.nodes[call])
            raise


def _fall_back(call: Node) -> None:
    """Give the tensors that a failed call of a kernel written by hand wrote the version before it."""
    for tensor in list(_graph.live_tensors()):
        node = tensor.node if tensor.base is None else None
        # Calls that wrote to it later come to nothing too.
        while node is not None and node.buffer is None and node.primitive in (KERNEL, KERNEL_OUTPUT):
            failed, before = written_by(node)
            if failed is call:
                tensor.node = before
                break
            node = before


def run(
    found: Plan,
    origin: Callable[[], Origin],
    leaves: list[Any],
    scalars: bytes,
    receivers: Sequence[Node] | None = None,
    where: Sequence[device_errors.Where] = (),
) -> list[Any]:
    """Run a plan; `origin` gives the operations behind it, should an error have to name them.

    `where` says where those of its notes were recorded, if that can be had for less.

    Raises
    ------
    IndexOutOfBounds, OutOfMemory, …
        At the line that recorded the operation.
    """
    with _lock:
        _running.append((found, origin))
        try:
            if events.recorder is not None:
                return _recorded(events.recorder, found, origin(), leaves, scalars, receivers)
            if not found.on_device:
                return found.program.run(leaves, scalars, receivers)
            where = where or origin().where
            names = marks.names(found.notes, where) if marks.on() else ()
            results = found.program.run(leaves, scalars, receivers, None, names)
            device_errors.runs.append(_device_run(found, where))
            return results
        except OutOfMemory as error:
            raise _explained(error, origin().result) from None
        except LabelledError as error:
            raise _labelled(error, origin()) from None
        except np.linalg.LinAlgError as error:
            message = f"[linalg] expected a matrix that has a result, given one that does not: {error}"
            raise LinearAlgebraError(message, origin().result.line) from None
        finally:
            _running.pop()


def _recorded(
    recorder: events.Recorder,
    found: Plan,
    origin: Origin,
    leaves: list[Any],
    scalars: bytes,
    receivers: Sequence[Node] | None,
) -> list[Any]:
    """Run a plan and tell the recorder how long each step took."""
    log: list[tuple[str, int, int, int]] = []
    try:
        names = marks.names(found.notes, origin.where) if found.on_device and marks.on() else ()
        return found.program.run(leaves, scalars, receivers, log, names)
    finally:
        recorder.steps(found.notes, lambda: [place.line for place in origin.steps], log)


def buffer_of(tensor: TensorBase) -> Any:
    """The buffer of a tensor's storage, evaluated if it is pending. A sync point.

    Raises
    ------
    TracingError
        Where the value depends on an argument of a function that is being traced.
    """
    node = owner(tensor).node
    if node.buffer is None:
        evaluate([node])
    elif _traced:
        _refuse_leaves([node])
    return node.buffer


def plan_of(tape: Tape, donate: bool = True, in_place: bool = False) -> Plan:
    """The plan for a tape, from the cache or made now. Without `donate` it leaves every leaf as it is, but
    for those that kernels written by hand write where they do so `in_place`."""
    device = placement.device_of(tape)
    name = f"npu:{device}" if device >= 0 else selected()
    key = (name, tape.key, config.fast_math, donate, in_place)
    with _lock:
        found = _plans.get(key)
        if found is None:
            try:
                with events.span("schedule", f"{len(tape.nodes)} operations"):
                    found = _plans[key] = plan(tape, backend(name), donate, in_place)
            except LabelledError as error:
                raise _not_run(error, _place(tape, error.label)) from None
            if len(_plans) > MAX_PLANS:
                _plans.popitem(last=False)
        return found


def run_in_place(node: Node) -> tuple[Plan, Tape]:
    """Run the call of a kernel written by hand at once, on the very buffers of the arrays that it writes.

    Gives the plan that was run, and the tape it was made for.
    """
    with _lock:
        pending = [o for o in node.operands if o.buffer is None and o.primitive is not SCALAR]
        if pending:
            evaluate(pending)
        tape = linearise([node], False)
        if _traced:
            _refuse_leaves([tape.nodes[p] for p in tape.leaves])
        found = plan_of(tape, donate=False, in_place=True)
        if config.interpret:
            interpret(tape, in_place=True)
        else:
            leaves = [tape.nodes[p].buffer for p in tape.leaves]
            run(found, lambda: Origin(tape, found), leaves, tape.scalars + found.constants)
        return found, tape


def clear_plans() -> None:
    """Forget every plan: the next evaluation schedules again."""
    with _lock:
        _plans.clear()


def sync(*tensors: TensorBase) -> None:
    """Evaluate the tensors; without arguments, everything pending.

    Parameters
    ----------
    *tensors : Tensor

    Raises
    ------
    IndexError, MemoryError, …
        What an operation below the tensors runs into, naming the line that recorded it. Without arguments
        the rest is evaluated all the same, and an error that was raised before is not raised again.
    """
    if tensors:
        for tensor in tensors:
            if not isinstance(tensor, TensorBase):
                raise DtypeError(f"[sync] expected tensors, given {type(tensor).__name__}")
        evaluate([owner(t).node for t in tensors])
        placement.ready(devices_in_use())
        return
    with _lock:
        nodes = [n for t in _graph.live_tensors() if t.base is None and (n := t.node) not in _failed]
        try:
            evaluate(nodes)
        except Exception:
            _evaluate_apart(nodes)
    placement.ready(devices_in_use())


def devices_in_use() -> list[int]:
    """The devices that backends were made for."""
    return sorted(b.device for b in _backends.values() if b.device >= 0)


def _evaluate_apart(nodes: Sequence[Node]) -> None:
    """Evaluate what can be, and raise the first error."""
    first: Exception | None = None
    for node in nodes:
        try:
            evaluate([node])
        except Exception as error:
            first = first or error
    if first is not None:
        raise first


def owner(tensor: TensorBase) -> Any:
    """The tensor that holds the storage."""
    return tensor if tensor.base is None else tensor.base


# --- errors ------------------------------------------------------------------------------------------------


def _fault(label: int, code: int, value: int) -> Exception:
    """The error for a fault that a kernel reported, at the line that recorded the operation."""
    origin = _running[-1][1]()
    if code == _runtime.WIDE_SCALAR:
        return _labelled(LabelledError(label, wide_scalar(value)), origin)
    if label < 0:
        place, arguments, sites = origin.parts[-label - 1]
        site = sites[code - 1] if sites else code - 1
        return outside(arguments, site, value, place.line, origin.part_calls[-label - 1])
    places = origin.faults.get(label, [])
    if code > len(places):
        return BackendError(f"[kernel] fault {code} with value {value}", origin.result.line)
    place = places[code - 1]
    return IndexOutOfBounds(
        f"[getitem] expected indices inside an axis of size {place.size}, "
        f"given {value}, which is out of bounds",
        place.line,
    )


def _device_run(found: Plan, where: Sequence[device_errors.Where]) -> device_errors.Run:
    return device_errors.Run(found.program.last_run, found.notes, where)


def _device_error(failure: _runtime.DeviceFailure) -> Exception:
    """The error for what failed on a device; what can run there again does so after it."""
    current = None
    if _running:
        found, origin = _running[-1]
        if found.on_device:
            current = _device_run(found, origin().where)
    error = device_errors.error_of(failure, current)
    if not failure.lost and failure.device >= 0:
        with contextlib.suppress(_runtime.DeviceFailure, PyascError):
            _runtime.device_recover(failure.device)
    return error


_runtime.set_fault_handler(_fault)
_runtime.set_device_error_handler(_device_error)


def _labelled(error: LabelledError, origin: Origin) -> Exception:
    """The error for what a kernel called from Python raised."""
    if isinstance(error.cause, KernelFault):
        return _fault(error.label, error.cause.code, error.cause.value)
    if error.label < 0:
        return _not_run(error, origin.parts[-error.label - 1][0])
    return _not_run(error, origin.calls.get(error.label, origin.result))


def _not_run(error: LabelledError, place: Place) -> Exception:
    """The error for a kernel that could not be compiled or run, at the line that recorded the operation."""
    cause = error.cause
    assert not isinstance(cause, KernelFault)
    kind = SimulationError if cause.found else BackendError
    return kind(f"[{place.name}] {cause.message}", place.line)


def _explained(error: Exception, result: Place) -> Exception:
    """An out-of-memory error that also says who holds the rest, at the line of what was computed."""
    text = str(error).partition("\n")[0].removeprefix("[allocate] ")
    return OutOfMemory(f"[{result.name}] expected memory for its result: {text}{holders()}", result.line)


def holders(count: int = 4) -> str:
    """The largest arrays that tensors hold, as the end of a message."""
    held: dict[int, tuple[int, str]] = {}
    for tensor in _graph.live_tensors():
        buffer = owner(tensor).node.buffer
        if buffer is not None:
            held[id(buffer)] = (buffer.nbytes, f"{tensor.dtype.name}{list(tensor.shape)}")
    largest = sorted(held.values(), reverse=True)[:count]
    if not largest:
        return ""
    return "; held by " + ", ".join(f"{name} ({nbytes / 2**20:.1f} MiB)" for nbytes, name in largest)


# --- tracing ---------------------------------------------------------------------------------------------

# By thread: leaves and numbers that stand for the arguments of the function being traced, and its name.
_traced: list[tuple[int, set[int], Sequence[TracedNumber], str]] = []


def begin_tracing(leaves: list[Node], numbers: Sequence[TracedNumber], name: str) -> None:
    """From here to `end_tracing`, a value that depends on the leaves cannot be had in this thread."""
    _traced.append((threading.get_ident(), {id(leaf) for leaf in leaves}, numbers, name))


def end_tracing() -> None:
    """Leave the function entered last."""
    here = threading.get_ident()
    for k in range(len(_traced) - 1, -1, -1):
        if _traced[k][0] == here:
            del _traced[k]
            return


def tracing() -> bool:
    """Whether a function is being traced in this thread."""
    return bool(_traced) and any(thread == threading.get_ident() for thread, *_ in _traced)


def depends_on_traced(tensor: TensorBase) -> bool:
    """Whether a tensor's value depends on an argument of a function that is being traced in this thread."""
    here = threading.get_ident()
    leaves = {leaf for thread, found, _, _ in _traced if thread == here for leaf in found}
    if not leaves:
        return False
    tape = linearise([owner(tensor).node], False)
    return any(id(tape.nodes[p]) in leaves for p in tape.leaves)


def _notice_numbers(tape: Tape) -> None:
    """A value computed from a number that stands for an argument holds for that number only."""
    here = threading.get_ident()
    inside = {id(node) for node in tape.nodes if node.primitive is SCALAR}
    for thread, _, numbers, _ in _traced:
        for number in numbers if thread == here else ():
            number.observed = number.observed or any(id(node) in inside for node in number.nodes)


def _refuse_leaves(nodes: Sequence[Node]) -> None:
    here = threading.get_ident()
    for thread, leaves, _, name in _traced:
        if thread == here and any(id(node) in leaves for node in nodes):
            raise TracingError(
                f"[jit] expected no use of a traced tensor's value while {name} is traced, "
                "given one that needs it (if, while, bool, float, print, numpy); use pyasc.where for a choice"
            )


# --- long traces -------------------------------------------------------------------------------------------

_flush_site: tuple[CodeType, int] | None = None


def flush() -> bool:
    """Evaluate what is pending when the trace has grown too long; False where it is better done a little
    later."""
    global _flush_site
    if tracing():
        return True
    if not config.eager:
        site = _user_site()
        # Too many bytes do not wait.
        few = config.max_pending_nodes < _graph.pending_count() < PATIENCE * config.max_pending_nodes
        if few and _flush_site is not None and site != _flush_site:
            return False
        _flush_site = site
    sync()
    return True


def _user_site() -> tuple[CodeType, int] | None:
    """Code and instruction of the innermost frame outside the library."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "pyasc":
        if frame.f_back is None:
            return None
        frame = frame.f_back
    return frame.f_code, frame.f_lasti


def _after_fork() -> None:
    """In a forked child no other thread runs: locks that one held are made anew."""
    global _lock
    _lock = threading.RLock()
    _running.clear()
    _traced[:] = [entry for entry in _traced if entry[0] == threading.get_ident()]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
