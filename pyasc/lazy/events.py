"""What a profiler is told: one event for everything that takes time between recording and results.

There is one recorder or none; where there is none, each of these places costs a look at a variable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from time import perf_counter_ns
from typing import Any, NamedTuple, Protocol, TypeVar

from ..backend.ir import Binding, Kernel

T = TypeVar("T")
Line = tuple[str, int, str]


class Note(NamedTuple):
    """What a launch or a call in a plan is.

    Attributes
    ----------
    kind : str
        ``"kernel"`` or ``"host"``.
    name, backend : str
    position : int
        Of its operation in the tape.
    nbytes : int
        Read and written.
    label : int
        Of the launch, in what a device says of it.
    operands : str
        Their dtypes and sizes.
    """

    kind: str
    name: str
    backend: str
    position: int
    nbytes: int
    label: int = 0
    operands: str = ""


class Recorder(Protocol):
    """What listens."""

    def add(self, kind: str, name: str, start: int, end: int, nbytes: int = 0) -> None:
        """Something that took from `start` to `end` (nanoseconds of `time.perf_counter_ns`)."""

    def steps(
        self,
        notes: Sequence[Note],
        lines: Callable[[], Sequence[Line | None]],
        log: list[tuple[str, int, int, int]],
    ) -> None:
        """A plan ran: the notes of its launches and calls, their lines, and the times of its steps.

        See `Program.run`. Those of a device are ``"device_launch"``, which has a note, ``"upload"`` and
        ``"download"``.
        """


recorder: Recorder | None = None


class span:
    """Tell the recorder how long the body of the ``with`` statement takes."""

    __slots__ = ("_kind", "_name", "_start")

    def __init__(self, kind: str, name: str) -> None:
        self._kind = kind
        self._name = name

    def __enter__(self) -> None:
        self._start = perf_counter_ns()

    def __exit__(self, *_: object) -> None:
        if recorder is not None:
            recorder.add(self._kind, self._name, self._start, perf_counter_ns())


def timed(kind: str, name: str, function: Callable[..., T], *arguments: Any) -> T:
    """Call a function and tell the recorder how long it took."""
    with span(kind, name):
        return function(*arguments)


def moved(kernel: Kernel, binding: Binding, sizes: Sequence[int]) -> list[int]:
    """Bytes that a kernel reads or writes of each operand, whose buffers have so many elements."""
    result = [0] * len(kernel.operands)
    gathered = {i.attrs[0] for i in kernel.body if i.op == "gather"}
    for n, access in enumerate(kernel.accesses):
        points = prod(e for e, stride in zip(binding.extents, binding.strides[n], strict=True) if stride)
        whole = sizes[access.operand]
        touched = whole if n in gathered else min(points, whole)
        result[access.operand] = max(
            result[access.operand], touched * kernel.operands[access.operand].dtype.itemsize
        )
    return result
