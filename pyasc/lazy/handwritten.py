"""Calls of kernels written by hand, as nodes of the trace.

A call reads and writes whole owners: an array that is a view is a shape, strides and an offset within its
owner. Written owners get a new version, as by any other write.
"""

from __future__ import annotations

import functools
import itertools
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..backend.base import Backend, Part
from ..backend.points import steering
from ..backend.structured import Let, Return, Store, StructuredBinding, StructuredKernel, walk
from ..backend.structured.ranges import proven
from ..config import config
from ..ops import _graph
from ..ops._graph import Node, Tape
from ..ops.errors import IndexOutOfBounds, format_line
from ..ops.primitives import KERNEL, KERNEL_OUTPUT
from ..ops.traced import plain
from .simplify import Graph

Shape = tuple[int, ...]
# The kernels that calls in traces and plans refer to, by number.
_kernels: dict[int, StructuredKernel] = {}
_numbers: dict[StructuredKernel, int] = {}
_count = itertools.count()
# For each call that writes several owners, the nodes of all but the first.
_others: weakref.WeakKeyDictionary[Node, tuple[weakref.ref[Node], ...]] = weakref.WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Place:
    """Where an array of a kernel lies: in which operand of the call, and how."""

    operand: int
    shape: Shape
    strides: Shape
    offset: int


@dataclass(frozen=True)
class Arguments:
    """The attributes of a KERNEL node.

    Attributes
    ----------
    number : int
        Of the kernel.
    grid : tuple of int
    places : tuple of Place
        For each array of the kernel.
    targets : tuple of int
        The operands that the kernel writes; the node itself is the first of them afterwards.
    owners : int
        How many operands are owners of arrays; the rest are the scalars.
    numbers : tuple of (int or None)
        Of the scalars those that steer the kernel (`backend.points.steering`), where its backend wants to
        know.
    """

    number: int
    grid: Shape
    places: tuple[Place, ...]
    targets: tuple[int, ...]
    owners: int
    numbers: tuple[int | None, ...] = ()

    @classmethod
    def of(cls, attrs: tuple[Any, ...]) -> Arguments:
        number, grid, places, targets, owners, numbers = attrs
        return cls(number, grid, tuple(Place(*place) for place in places), targets, owners, numbers)

    @property
    def attrs(self) -> tuple[Any, ...]:
        places = tuple((p.operand, p.shape, p.strides, p.offset) for p in self.places)
        return self.number, self.grid, places, self.targets, self.owners, self.numbers

    @property
    def kernel(self) -> StructuredKernel:
        return _kernels[self.number]

    def shape(self, name: str) -> Shape:
        """The shape of an array or a buffer by its name."""
        for array, place in zip(self.kernel.arrays, self.places, strict=True):
            if array.name == name:
                return place.shape
        return next((b.shape for b in self.kernel.buffers if b.name == name), ())


def register(kernel: StructuredKernel) -> int:
    """The number by which calls refer to a kernel: a function that is made anew in a loop keeps its plans."""
    number = _numbers.get(kernel)
    if number is None:
        number = next(_count)
        _kernels[number] = kernel
        number = _numbers.setdefault(kernel, number)  # another thread may have been first
    return number


def record(attrs: tuple[Any, ...], operands: tuple[Node, ...]) -> list[Node]:
    """The nodes of what a call writes, one for each of the targets in `attrs` (`Arguments.attrs`)."""
    targets = attrs[3]
    first = operands[targets[0]]
    call = _graph.record(KERNEL, operands, first.shape, first.dtype, attrs)
    if len(targets) == 1:
        return [call]
    others = [
        _graph.record(KERNEL_OUTPUT, (call,), operands[t].shape, operands[t].dtype, (number,))
        for number, t in enumerate(targets[1:], 1)
    ]
    _others[call] = tuple(map(weakref.ref, others))
    return [call, *others]


def linearise(roots: list[Node], keep_held: bool = True) -> Tape:
    """The tape below some roots, with everything that the calls on it write: a call runs once."""
    tape = _graph.linearise(roots, keep_held)
    if not _others:
        return tape
    known = set(map(id, tape.nodes))
    missing = [
        other
        for node in tape.nodes
        if node.primitive is KERNEL
        for reference in _others.get(node, ())
        if (other := reference()) is not None and id(other) not in known
    ]
    return linearise([*roots, *missing], keep_held) if missing else tape


@dataclass(frozen=True)
class Handwritten:
    """A call in a schedule.

    Attributes
    ----------
    position : int
        Tape position of the call.
    arguments : Arguments
    binding : StructuredBinding
    owners : tuple of int
        For each operand that owns arrays, its value.
    results : tuple of int
        For each target, the value that it is afterwards; -1 where nobody asks for it.
    scalars : tuple of int
        For each scalar slot, the tape position of its node.
    parts : tuple of Part
        What runs.
    proven : bool
        Whether no index can leave its array.
    replaced : frozenset of int
        The targets of which the version before is not needed: every element is written.
    """

    position: int
    arguments: Arguments
    binding: StructuredBinding
    owners: tuple[int, ...]
    results: tuple[int, ...]
    scalars: tuple[int, ...]
    parts: tuple[Part, ...]
    proven: bool
    replaced: frozenset[int]

    @property
    def kernel(self) -> StructuredKernel:
        return self.arguments.kernel

    @property
    def rewritten(self) -> frozenset[int]:
        """The targets of which an array that is only read needs the version before."""
        arrays = zip(self.kernel.arrays, self.arguments.places, strict=True)
        read = {place.operand for array, place in arrays if not array.writes}
        return frozenset(self.arguments.targets) & read


def binding(arguments: Arguments, sizes: Sequence[int]) -> StructuredBinding:
    """The binding of a call whose owners have these numbers of elements."""
    places = arguments.places
    return StructuredBinding(
        arguments.grid,
        tuple(p.shape for p in places),
        tuple(p.strides for p in places),
        tuple(p.offset for p in places),
        tuple(sizes[p.operand] for p in places),
        arguments.numbers,
    )


def lower_call(
    graph: Graph, members: Sequence[int], backend: Backend, values: Sequence[Any] = ()
) -> Handwritten:
    """The call that a step makes. `values` are those of the tape's numbers, by position, where the call is
    made with these alone.

    Raises
    ------
    LaunchError
        Where no backend can run the kernel.
    """
    (v,) = (m for m in members if graph.values[m].primitive is KERNEL)
    value = graph.values[v]
    arguments = Arguments.of(value.attrs)
    owners = value.operands[: arguments.owners]
    scalars = tuple(graph.values[o].position for o in value.operands[arguments.owners :])
    if values and not arguments.numbers:
        numbers = steering_numbers(steering(arguments.kernel), [values[p] for p in scalars])
        arguments = replace(arguments, numbers=numbers)
    bound = binding(arguments, [graph.values[o].size for o in owners])
    results = [v] + [-1] * (len(arguments.targets) - 1)
    for m in members:
        if m != v:
            results[graph.values[m].attrs[0]] = m
    if config.verify:
        from ..backend.structured.verify import verify_structured, verify_structured_binding

        verify_structured(arguments.kernel)
        verify_structured_binding(arguments.kernel, bound)
    kernel = arguments.kernel
    return Handwritten(
        value.position,
        arguments,
        bound,
        owners,
        tuple(results),
        scalars,
        backend.parts(kernel, bound),
        not may_fault(value.attrs, tuple(graph.values[o].size for o in owners)),
        frozenset(
            place.operand
            for n, place in enumerate(arguments.places)
            if bound.sizes[n] == prod(place.shape) and covers(kernel, n, bound)
        )
        & frozenset(arguments.targets),
    )


def steering_numbers(steered: frozenset[int], scalars: Sequence[Any]) -> tuple[int | None, ...]:
    """The values of the scalars that steer a kernel, None for the others; () where none does."""
    return tuple(int(plain(x)) if n in steered else None for n, x in enumerate(scalars)) if steered else ()


@functools.lru_cache(maxsize=1024)
def may_fault(attrs: tuple[Any, ...], sizes: tuple[int, ...]) -> bool:
    """Whether an index of a call may leave its array, for owners of these numbers of elements."""
    arguments = Arguments.of(attrs)
    kernel = arguments.kernel
    return not proven(kernel, binding(arguments, sizes)).issuperset(range(len(kernel.sites)))


def covers(kernel: StructuredKernel, array: int, bound: StructuredBinding) -> bool:
    """Whether every element of an array that is not read is certainly written: at the threads' own ids."""
    if kernel.arrays[array].reads or any(isinstance(s, Return) for s in walk(kernel.body)):
        return False
    ids = {s.value: s.attrs[0] for s in kernel.body if isinstance(s, Let) and s.op == "global_id"}
    for s in kernel.body:
        if isinstance(s, Store) and s.array == array:
            axes = [ids.get(i, -1) for i in s.indices]
            reach = [bound.grid[k] if k >= 0 else 0 for k in axes]
            if len(set(axes)) == len(axes) and all(
                r >= e for r, e in zip(reach, bound.shapes[array], strict=True)
            ):
                return True
    return False


def outside(
    arguments: Arguments, number: int, value: int, called: tuple[str, int, str] | None
) -> IndexOutOfBounds:
    """The error for an index outside an array, at its line in the kernel, from where the call was
    recorded.
    """
    site = arguments.kernel.sites[number]
    where = f"\n  called {format_line(called)}" if called else ""
    return IndexOutOfBounds(
        f"[{arguments.kernel.name}] expected indices inside {site.array}, of shape "
        f"{arguments.shape(site.array)}, given {value}{where}",
        site.line,
    )


def interpret(
    attrs: tuple[Any, ...], operands: Sequence[NDArray[Any]]
) -> tuple[list[NDArray[Any]], tuple[int, int] | None]:
    """The targets after a call, computed by the primitives' meanings, and the first fault."""
    from ..backend.structured.reference import run

    arguments = Arguments.of(attrs)
    after = {t: np.array(operands[t]) for t in arguments.targets}
    buffers = []
    for array, place in zip(arguments.kernel.arrays, arguments.places, strict=True):
        owner = after[place.operand] if array.writes else operands[place.operand]
        buffers.append(owner.reshape(-1))
    bound = binding(arguments, [o.size for o in operands[: arguments.owners]])
    fault = run(arguments.kernel, bound, buffers, operands[arguments.owners :])
    return [after[t] for t in arguments.targets], fault
