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
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..backend.base import Backend, Part
from ..config import config
from ..ops import _graph
from ..ops._graph import Node, Tape
from ..ops.errors import IndexOutOfBounds, format_line
from ..ops.primitives import KERNEL, KERNEL_OUTPUT
from ..ops.traced import TracedNumber, plain
from .simplify import Graph

# The structured form is loaded with the first kernel written by hand.
if TYPE_CHECKING:
    from ..backend.structured import StructuredBinding, StructuredKernel

Shape = tuple[int, ...]
# The kernels that calls in traces and plans refer to, by number.
_kernels: dict[int, StructuredKernel] = {}
_numbers: dict[tuple[Any, ...], int] = {}
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
    key = (kernel, kernel.name, kernel.sites)  # errors name the kernel and its lines
    number = _numbers.get(key)
    if number is None:
        number = next(_count)
        _kernels[number] = kernel
        number = _numbers.setdefault(key, number)  # another thread may have been first
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


def written_by(node: Node) -> tuple[Node, Node]:
    """The call of which a node is what it wrote, and the version before that."""
    call = node if node.primitive is KERNEL else node.operands[0]
    number = 0 if node is call else (node.attrs or (0,))[0]
    return call, call.operands[Arguments.of(call.attrs or ()).targets[number]]


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
    from ..backend.structured import StructuredBinding

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
        from ..backend.points import steering

        given = [values[p] for p in scalars]
        steered = steering(arguments.kernel) | wide(given, arguments.kernel.scalars)
        numbers = steering_numbers(steered, given)
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


def wide(scalars: Sequence[Any], dtypes: Sequence[Any]) -> frozenset[int]:
    """The int64 scalars that do not fit the 32 bits of a chip's vector code: they take other code."""
    numbers = [x.value if type(x) is TracedNumber else x for x in scalars]
    return frozenset(
        n
        for n, (x, dtype) in enumerate(zip(numbers, dtypes, strict=True))
        if dtype == np.int64 and not -(2**31) <= x < 2**31
    )


def steering_numbers(steered: frozenset[int], scalars: Sequence[Any]) -> tuple[int | None, ...]:
    """The values of the scalars that steer a kernel, None for the others; () where none does."""
    return tuple(int(plain(x)) if n in steered else None for n, x in enumerate(scalars)) if steered else ()


@functools.lru_cache(maxsize=1024)
def may_fault(attrs: tuple[Any, ...], sizes: tuple[int, ...]) -> bool:
    """Whether an index of a call may leave its array, for owners of these numbers of elements."""
    from ..backend.structured.ranges import proven

    arguments = Arguments.of(attrs)
    kernel = arguments.kernel
    return not proven(kernel, binding(arguments, sizes)).issuperset(range(len(kernel.sites)))


def covers(kernel: StructuredKernel, array: int, bound: StructuredBinding) -> bool:
    """Whether every element of an array that is not read is certainly written: at the threads' own ids."""
    from ..backend.structured import Let, Return, Store, walk

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


def _as_written(arguments: Arguments, number: int, value: int) -> int:
    """The index at a site that came to a value: the negative number of the text where it counts from the
    end."""
    from ..backend.structured import Atomic, Let, Store, walk

    kernel = arguments.kernel
    lets = {s.value: s for s in walk(kernel.body) if isinstance(s, Let)}
    for s in walk(kernel.body):
        if isinstance(s, Let) and s.op == "load" and s.attrs[1] == number:
            array, indices = s.attrs[0], s.args
        elif isinstance(s, Store | Atomic) and s.site == number:
            array, indices = s.array, s.indices
        else:
            continue
        shape = arguments.shape(kernel.sites[number].array)
        for axis, index in enumerate(indices):
            parts = [lets[a] for a in lets[index].args if a in lets] if index in lets else []
            if [p.op for p in parts] == ["extent", "const"] and parts[0].attrs == (array, axis):
                size, constant = shape[axis], parts[1].attrs[0]
                if constant < 0 and lets[index].op == "add" and value == size + constant:
                    return int(constant)
    return value


def outside(
    arguments: Arguments, number: int, value: int, called: tuple[str, int, str] | None, position: int
) -> IndexOutOfBounds:
    """The error for an index outside an array, at its line in the kernel, from where the call was recorded,
    which has a position on its tape (`failed_call`).
    """
    site = arguments.kernel.sites[number]
    value = _as_written(arguments, number, value)
    where = f"\n  called {format_line(called)}" if called else ""
    error: Any = IndexOutOfBounds(
        f"[{arguments.kernel.name}] expected indices inside {site.array}, of shape "
        f"{arguments.shape(site.array)}, given {value}{where}",
        site.line,
    )
    error.call = position
    return error  # type: ignore[no-any-return]


def failed_call(error: Exception) -> int:
    """The tape position of the call that an error is of; -1 for any other error."""
    return int(getattr(error, "call", -1))


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
