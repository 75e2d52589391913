"""From a tape to kernels, straight down; each pass can log what it made and is checked where checks are
on."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from ..backend.base import Backend, KernelFault, LaunchError
from ..backend.ir import format_kernel
from ..backend.verify import verify_binding, verify_kernel
from ..config import config
from ..ops._graph import Tape
from ..ops.primitives import KERNEL
from .format import format_graph, format_schedule, format_tape, log_pass
from .handwritten import Handwritten, lower_call
from .lower import LoweredKernel, lower
from .schedule import Schedule, Step, schedule
from .simplify import Graph, simplify

Lowered = LoweredKernel | Handwritten | None


class LabelledError(Exception):
    """A `KernelFault` or `LaunchError`, its cause, with the label of the launch that raised it."""

    def __init__(self, label: int, cause: KernelFault | LaunchError) -> None:
        super().__init__(label)
        self.label = label
        self.cause = cause


def compile_tape(tape: Tape, backend: Backend, once: bool = False) -> tuple[Schedule, list[Lowered]]:
    """The steps of a tape, and for each the kernel to run; None where it is a host call.

    With `once` it may be made for the very numbers on the tape, not for others in their place.
    """
    log_pass("trace", partial(format_tape, tape))
    graph = simplify(tape)
    log_pass("simplify", partial(format_graph, graph))
    cut = schedule(graph, backend)
    log_pass("schedule", partial(format_schedule, cut))
    values = [node.value for node in tape.nodes] if once and backend.fallback is not None else []
    kernels = [_lower(cut, step, backend, values) for step in cut.steps]
    for made in kernels:
        if not isinstance(made, LoweredKernel):
            continue
        if config.verify:
            verify_kernel(made.kernel)
            verify_binding(made.kernel, made.binding, [graph.values[v].size for v in made.operands])
        log_pass("lower", partial(format_kernel, made.kernel, made.binding))
    return cut, kernels


def _lower(cut: Schedule, step: Step, backend: Backend, values: list[Any]) -> Lowered:
    if not step.host:
        return _compilable(lower(cut, step))
    if any(cut.graph.values[v].primitive is KERNEL for v in step.members):
        return _call(cut.graph, step, backend, values)
    return None


def _call(graph: Graph, step: Step, backend: Backend, values: list[Any]) -> Handwritten:
    members = sorted(step.members)
    position = graph.values[members[0]].position
    try:
        made = lower_call(graph, members, backend, values)
    except LaunchError as error:
        raise LabelledError(position, error) from error
    log_pass("lower", partial(str, made.kernel))
    return made


def _compilable(made: LoweredKernel) -> LoweredKernel:
    """The kernel, for the fallback of its backend where that has no code for it as a whole."""
    fallback = made.backend.fallback
    refusal = made.backend.refusal(made.kernel, made.binding) if fallback is not None else ""
    if fallback is None or not refusal:
        return made
    return replace(made, backend=fallback, reason=f"runs on the host: {refusal}")
