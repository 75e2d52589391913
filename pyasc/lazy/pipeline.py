"""From a tape to kernels, straight down; each pass can log what it made and is checked where checks are
on."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from ..backend.base import Backend
from ..backend.ir import format_kernel
from ..backend.verify import verify_binding, verify_kernel
from ..config import config
from ..ops._graph import Tape
from .format import format_graph, format_schedule, format_tape, log_pass
from .lower import LoweredKernel, lower
from .schedule import Schedule, schedule
from .simplify import simplify


def compile_tape(tape: Tape, backend: Backend) -> tuple[Schedule, list[LoweredKernel | None]]:
    """The steps of a tape, and for each the kernel to run; None where it is a host call."""
    log_pass("trace", partial(format_tape, tape))
    graph = simplify(tape)
    log_pass("simplify", partial(format_graph, graph))
    cut = schedule(graph, backend)
    log_pass("schedule", partial(format_schedule, cut))
    kernels = [None if step.host else _compilable(lower(cut, step)) for step in cut.steps]
    for made in kernels:
        if made is None:
            continue
        if config.verify:
            verify_kernel(made.kernel)
            verify_binding(made.kernel, made.binding, [graph.values[v].size for v in made.operands])
        log_pass("lower", partial(format_kernel, made.kernel, made.binding))
    return cut, kernels


def _compilable(made: LoweredKernel) -> LoweredKernel:
    """The kernel, for the fallback of its backend where that has no code for it as a whole."""
    fallback = made.backend.fallback
    refusal = made.backend.refusal(made.kernel, made.binding) if fallback is not None else ""
    if fallback is None or not refusal:
        return made
    return replace(made, backend=fallback, reason=f"runs on the host: {refusal}")
