"""`pyasc.backend`: where what is recorded will run."""

from __future__ import annotations

import contextlib
from types import ModuleType, TracebackType

from .config import config
from .lazy import evaluate
from .lazy.backends import device_number, npu_number


class Selection:
    """A backend in force from the call on; leaving the ``with`` statement brings back the one before."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.previous = config.given("backend")
        config.backend = name

    def __enter__(self) -> str:
        return self.name

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # What fails is evaluated once: selecting the backend before does not raise it again.
        with contextlib.ExitStack() as stack:
            stack.callback(setattr, config, "backend", self.previous)
            if kind is not None:
                stack.enter_context(contextlib.suppress(Exception))
            if not evaluate.tracing():
                evaluate.sync()


def backend(name: str) -> Selection:
    """Let what is recorded from now on run on a backend, up to the end of a ``with`` statement if it has one.

    Parameters
    ----------
    name : str
        ``"cpu"``, native code for this processor; ``"npu"`` or ``"npu:1"``, Ascend C on the first or another
        NPU; ``"sim"``, Ascend C on a simulated Ascend 910B1, each access checked; or ``"sim:910B3"`` and the
        like for another chip.

    Returns
    -------
    Selection
        A context manager.

    Raises
    ------
    ValueError
        For a backend that there is not; the message lists those there are, or says what an NPU lacks.
    TracingError
        Inside a function that is being traced.

    Notes
    -----
    An operation runs on the backend that is in force where it is recorded: what is pending when the backend
    changes is evaluated first. Tensors may be used on any backend. ``pyasc.config.backend`` says which one
    is in force, and may be set; ``PYASC_BACKEND`` gives its value at the start. Without either, it is the
    first NPU where there is one, else the CPU, decided when it is first needed.
    """
    if isinstance(name, str) and npu_number(name) >= 0:
        device_number(name, "backend")
    return Selection(name)


class _CallablePackage(ModuleType):
    """The package `pyasc.backend`, which is also the function of that name."""

    def __call__(self, name: str) -> Selection:
        return backend(name)


def make_callable(package: ModuleType) -> None:
    """Make ``pyasc.backend("sim")`` call `backend`; its submodules stay where they are."""
    package.__class__ = _CallablePackage
    package.__doc__ = backend.__doc__
