"""Sync points: give pending nodes their buffers.

A tape whose structure was seen before is replayed from its plan; any other is scheduled, compiled and
planned first.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from typing import Any

from ..backend import _runtime
from ..backend.base import Backend
from ..config import config
from ..ops import _graph
from ..ops._graph import Node, Tape, TensorBase
from ..ops.errors import BackendError, IndexOutOfBounds, TracingError, recorded_line
from .interpret import interpret
from .plan import Plan, plan

log = logging.getLogger("pyasc")
MAX_PLANS = 2048

# One evaluation at a time: two threads never compute the same node twice, and kernels
# use every core anyway.
_lock = threading.RLock()
_plans: OrderedDict[tuple[Any, ...], Plan] = OrderedDict()
_running: list[Tape] = []
_backend: Backend | None = None


def backend() -> Backend:
    """The backend kernels are compiled for, made at first use."""
    global _backend
    if _backend is None:
        from ..backend.cpu.backend import CPU

        _runtime.set_fault_handler(_fault)
        _backend = CPU()
    return _backend


def evaluate(nodes: list[Node]) -> None:
    """Settle the nodes, and what tensors hold below them."""
    with _lock:
        pending = [node for node in nodes if node.buffer is None]
        if not pending:
            return
        tape = _graph.linearise(pending)
        if _traced:
            _refuse_traced(tape)
        _running.append(tape)
        try:
            outputs = [tape.nodes[p] for p in tape.outputs]
            if config.interpret:
                for node, buffer in zip(outputs, interpret(tape), strict=True):
                    node.settle(buffer)
            else:
                found = plan_of(tape)
                leaves = [tape.nodes[p].buffer for p in tape.leaves]
                found.program.run(leaves, tape.scalars + found.constants, outputs)
        finally:
            _running.pop()


def plan_of(tape: Tape) -> Plan:
    """The plan for a tape, from the cache or made now."""
    key = (tape.key, config.fast_math)
    found = _plans.get(key)
    if found is None:
        found = _plans[key] = plan(tape, backend())
        if len(_plans) > MAX_PLANS:
            _plans.popitem(last=False)
    return found


def clear_plans() -> None:
    """Forget every plan: the next evaluation schedules again."""
    with _lock:
        _plans.clear()


def plan_count() -> int:
    return len(_plans)


def sync(*tensors: TensorBase) -> None:
    """Evaluate the tensors; without arguments, everything pending."""
    evaluate([owner(t).node for t in (tensors or _graph.live_tensors())])


def owner(tensor: TensorBase) -> Any:
    return tensor if tensor.base is None else tensor.base


def _fault(label: int, code: int, value: int) -> Exception:
    """The error for a fault that a kernel reported, at the line that recorded the operation."""
    node = _running[-1].nodes[label] if _running else None
    line = recorded_line(node.where) if node is not None and node.where is not None else None
    if code == 1:
        return IndexOutOfBounds(
            f"[getitem] expected indices inside their axis, given {value}, which is out of bounds", line
        )
    return BackendError(f"[kernel] fault {code} with value {value}", line)


# --- tracing ---------------------------------------------------------------------------------------------

# Leaves that stand for the arguments of the functions being traced in this thread, and the functions' names.
_traced: list[tuple[int, set[int], str]] = []


def begin_tracing(leaves: list[Node], name: str) -> None:
    """From here to `end_tracing`, a value that depends on the leaves cannot be had in this thread."""
    _traced.append((threading.get_ident(), {id(leaf) for leaf in leaves}, name))


def end_tracing() -> None:
    _traced.pop()


def tracing() -> bool:
    """Whether a function is being traced in this thread."""
    return bool(_traced) and any(thread == threading.get_ident() for thread, _, _ in _traced)


def _refuse_traced(tape: Tape) -> None:
    here = threading.get_ident()
    for thread, leaves, name in _traced:
        if thread == here and any(id(tape.nodes[p]) in leaves for p in tape.leaves):
            raise TracingError(
                f"[jit] expected no use of a traced tensor's value while {name} is traced, given one that needs it "
                "(if, while, bool, float, print, numpy); use pyasc.where for a choice"
            )


def flush() -> None:
    """Evaluate what is pending when the trace has grown too long; not while a function is traced."""
    if not tracing():
        sync()
