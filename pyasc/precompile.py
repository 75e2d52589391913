"""`pyasc.precompile`: compile what calls of a function need before the first of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from .jit import Jitted
from .lazy import evaluate
from .lazy.cache import kernels
from .ops.errors import DtypeError


class Precompiled(NamedTuple):
    """How many kernels were compiled, and how many were found in memory or on disk."""

    compiled: int
    found: int


def precompile(function: Callable[..., Any], *examples: Any) -> Precompiled:
    """Compile every kernel that calls of a function with arguments like these need. Nothing is run.

    Kernels are compiled in parallel where the backend's compiler is a program of its own, as an NPU's and the
    simulator's are, with a progress bar on a terminal. They are kept on disk: another process finds them.

    Parameters
    ----------
    function : callable
        As for `pyasc.jit`. The first call of one that is jitted then compiles and traces nothing.
    *examples : Tensor, array, number, …
        Arguments. Their values do not matter: ``pyasc.empty((8192, 8192), pyasc.float16)`` takes no memory
        that is never touched. Other sizes of the same bucket (± 20 %) need the same kernels.

    Returns
    -------
    Precompiled
        ``.compiled`` and ``.found``; products of matrices as they lie are compiled too, and not counted.

    Raises
    ------
    TypeError
        For something that is no function.
    TracingError
        Where the function needs a tensor's value.
    BackendError
        If a kernel does not compile.
    """
    if not callable(function):
        raise DtypeError(f"[precompile] expected a function, given {type(function).__name__}")
    jitted = function if isinstance(function, Jitted) else Jitted(function)
    before = kernels.counts["compiles"]
    plan = jitted.plan(*examples)
    compiled = kernels.counts["compiles"] - before
    needed = len(set(map(id, plan.executables)))
    if evaluate.selected().startswith("sim:"):
        _products(jitted, examples)
    return Precompiled(compiled, max(needed - compiled, 0))


def _products(jitted: Jitted, examples: tuple[Any, ...]) -> None:
    """The simulator compiles products of matrices, steps of the host's, when they run."""
    from .backend.sim.backend import compiled

    for kernel in jitted.explanation("", *examples).kernels:
        if kernel.work is not None and kernel.work.product is not None:
            compiled(kernel.work.product, kernels)
