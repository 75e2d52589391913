"""How a kernel is launched: its grid, where its arrays lie, and what it leaves in them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backend.points import steering
from ..backend.structured import Atomic, Let, Store, StructuredKernel, walk
from ..backend.structured.barriers import meets
from ..backend.structured.past_end import past_end
from ..lazy import evaluate, handwritten, placement
from ..ops._graph import Node
from ..ops.arguments import scalar
from ..ops.errors import ArgumentError, DtypeError, ReadOnlyError, ShapeError
from ..ops.storage import assign, copy, is_contiguous, overlaps_itself
from .arguments import captured_tensor, is_host_array
from .fixed import fixed
from .signature import ArgumentType, Dtype, Lowered, Path

if TYPE_CHECKING:
    from .kernel import Kernel

MAX_THREADS = 2**31 - 1
# A CPU's code leaves out checks of indices that a number bounds. Numbers of more values than this, such as
# the counter of a loop, are not looked at: each would take a plan of its own.
MAX_SEEN = 8
Shape = tuple[int, ...]


# --- the grid
# ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Geometry:
    """What stands in the brackets of ``kernel[…]``.

    Attributes
    ----------
    threads : tuple of int
        Blocks along each axis where there is a `block`, else threads.
    block : tuple of int
        Threads of a block, or ().
    either : bool
        Two or three ints, which are the threads along as many axes, or for a kernel of one axis blocks and
        threads of a block.
    """

    threads: Shape
    block: Shape = ()
    either: bool = False


def geometry(kernel: str, given: Any) -> Geometry:
    """The threads that are asked for by ``kernel[given]``.

    Raises
    ------
    TypeError
        For what is no int and no tuple of ints.
    ValueError
        For numbers below 1, more than three axes, or too many threads.
    """
    if isinstance(given, tuple) and any(isinstance(g, tuple | list) for g in given):
        if len(given) == 1:
            return Geometry(_sizes(kernel, given[0]))
        if len(given) != 2:
            raise ArgumentError(f"[{kernel}] expected kernel[grid, block], given {len(given)} of them")
        return Geometry(_sizes(kernel, given[0]), _sizes(kernel, given[1]))
    sizes = _sizes(kernel, given)
    return Geometry(sizes, either=len(sizes) == 2)


def _sizes(kernel: str, given: Any) -> Shape:
    items = given if isinstance(given, tuple | list) else (given,)
    sizes = []
    for item in items:
        try:
            sizes.append(item.__index__())
        except (AttributeError, TypeError):
            raise DtypeError(
                f"[{kernel}] expected whole numbers of threads, given {type(item).__name__} {item!r:.40}"
            ) from None
    if not 1 <= len(sizes) <= 3:
        raise ArgumentError(f"[{kernel}] expected a grid of one to three axes, given {len(sizes)}")
    if min(sizes) < 1 or prod(sizes) > MAX_THREADS:
        raise ArgumentError(
            f"[{kernel}] expected between 1 and {MAX_THREADS} threads, given {' x '.join(map(str, sizes))}"
        )
    return tuple(sizes)


def block_of(where: Geometry | None, axes: int) -> Shape:
    """The block that a launch asks for, or ()."""
    if where is None:
        return ()
    if where.either and axes == 1:
        return where.threads[1:]
    return where.block


def _grid(kernel: str, lowered: Lowered, where: Geometry | None, shapes: list[Shape]) -> Shape:
    """The threads along each axis of a kernel that is run by threads."""
    made, axes = lowered.kernel, lowered.ids
    if where is None:
        written = next((n for n, a in enumerate(made.arrays) if a.writes), None)
        if written is None:
            raise ArgumentError(
                f"[{kernel}] expected a kernel that writes an array, given one that writes none"
            )
        shape = shapes[written]
        if axes == 1:
            return (prod(shape),)
        if len(shape) != axes:
            raise ShapeError(
                f"[{kernel}] expected kernel[size](…), as its threads have {axes} axes and "
                f"{made.arrays[written].name} has shape {shape}, given no size"
            )
        return shape
    threads, block = where.threads, where.block
    if where.either and axes == 1:
        threads, block = threads[:1], threads[1:]
    if len(threads) < axes or prod(threads[axes:]) != 1:
        raise ArgumentError(
            f"[{kernel}] expected {axes} axes, those whose ids it asks for, given {len(threads)}"
        )
    threads = (threads + (1,) * axes)[:axes]
    block = (block + (1,) * axes)[:axes]
    grid = tuple(t * b for t, b in zip(threads, block, strict=True))
    if prod(grid) > MAX_THREADS:
        raise ArgumentError(
            f"[{kernel}] expected between 1 and {MAX_THREADS} threads, given {' x '.join(map(str, grid))}"
        )
    return grid


def clipped(kernel: StructuredKernel, grid: Shape, shapes: list[Shape]) -> Shape:
    """The grid without the threads that lie past the end of all that is written by their id.

    Such a thread would not write anything: every store of the kernel has its id, as it is, for an index
    outside the axis.
    """
    ids = {s.value: s.attrs[0] for s in walk(kernel.body) if isinstance(s, Let) and s.op == "global_id"}
    limits: list[int | None] = [0] * len(grid)
    for s in walk(kernel.body):
        if not isinstance(s, Store | Atomic) or s.array >= len(kernel.arrays):
            continue
        for axis, limit in enumerate(limits):
            own = [shapes[s.array][k] for k, i in enumerate(s.indices) if ids.get(i) == axis]
            limits[axis] = None if limit is None or not own else max(limit, min(own))
    return tuple(g if limit is None else min(g, limit) for g, limit in zip(grid, limits, strict=True))


# --- launching --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Launcher:
    """A launch for arguments of these dtypes, shapes and strides, ready to be recorded again and again.

    Attributes
    ----------
    attrs : tuple
        Of the KERNEL node; () where no thread would run.
    owners : tuple of int or Path
        Which values hold the operands: the number of an argument, or the path of another value.
    scalars : tuple of (int or Path, dtype)
    steered : frozenset of int
        The scalars whose values decide which threads take part, or how far loops run.
    seen : set
        Their values so far.
    copied : tuple of int
        The owners that are copied first so that their elements lie together, and written back.
    """

    kernel: Kernel
    lowered: Lowered
    captured: dict[Path, ArgumentType]
    attrs: tuple[Any, ...]
    owners: tuple[int | Path, ...]
    scalars: tuple[tuple[int | Path, Dtype], ...]
    steered: frozenset[int] = frozenset()
    seen: set[Any] = field(default_factory=set, compare=False)
    copied: tuple[int, ...] = ()

    def holds(self, values: tuple[Any, ...]) -> bool:
        """Whether what the code was made for besides its arguments' types is still so."""
        if not self.captured and not self.lowered.guards:
            return True
        return self.kernel.holds(self.lowered, self.captured, self.kernel.values(values))

    def record(self, values: tuple[Any, ...]) -> tuple[list[Any], list[Node]]:
        """The owners that the call writes, and the node of each one's new version."""
        if not self.attrs:
            return [], []
        owners = []
        for source in self.owners:
            owners.append(evaluate.owner(self.value(source, values)))
        copies = {n: self.value(self.owners[n], values) for n in self.copied}
        for n, value in copies.items():
            owners[n] = copy(value)
        nodes = [owner.node for owner in owners]
        name = self.kernel.name
        attrs = self.attrs
        if self.scalars:
            given = [self.value(source, values) for source, _ in self.scalars]
            for value, (_, dtype) in zip(given, self.scalars, strict=True):
                nodes.append(scalar(value, dtype, name))
            attrs = (*attrs[:-1], self._numbers(given))
        made = handwritten.record(attrs, tuple(nodes))
        written = [owners[t] for t in self.attrs[3]]
        for k, value in copies.items():
            if k in self.attrs[3]:
                n = self.attrs[3].index(k)
                owners[k].node = made[n]
                assign(value, owners[k])
                written[n] = evaluate.owner(value)
                made[n] = written[n].node
        return written, made

    def _numbers(self, given: list[Any]) -> tuple[int | None, ...]:
        """The numbers that the plan is made for: all that cut a chip's code, some that spare a CPU checks."""
        steered = self.steered
        if evaluate.selected() != "cpu" or placement.in_use():
            steered |= handwritten.wide(given, [dtype for _, dtype in self.scalars])
        elif not steered or len(self.seen) > MAX_SEEN:
            return ()
        numbers = handwritten.steering_numbers(steered, given)
        self.seen.add(numbers)
        return numbers

    def value(self, source: int | Path, values: tuple[Any, ...]) -> Any:
        """The argument, or the value of a path."""
        if isinstance(source, int):
            return values[source]
        return captured_tensor(self.kernel.values(values).read(source), self.kernel.name, str(source[-1]))


def prepare(kernel: Kernel, where: Geometry | None, values: tuple[Any, ...]) -> Launcher:
    """The launch for tensors, numbers and whatever else a kernel takes but other libraries' arrays.

    Raises
    ------
    KernelError
        Where the kernel cannot be compiled.
    ValueError, TypeError
        For threads that cannot be, and arrays that the kernel must not write.
    """
    name = kernel.name
    lowered, captured, launch = kernel.lower(values, where)
    made = lowered.kernel
    sources: list[int | Path] = [_source(kernel, path) for path in lowered.arrays]
    tensors = [captured_tensor(launch.read(path), name, str(path[-1])) for path in lowered.arrays]
    copied = {n for n in lowered.flat if not is_contiguous(tensors[n])}
    shapes: list[Shape] = []
    strides: list[Shape] = []
    for n, tensor in enumerate(tensors):
        flat = n in lowered.flat
        shapes.append((tensor.size,) if flat else tensor.shape)
        strides.append((1,) if flat else tensor.strides)
    if lowered.style == "tiles":
        kernel.by_value = True
        if where is not None:
            raise ArgumentError(
                f"[{name}] expected a kernel of tiles to be called without a grid, given {where.threads}"
            )
        grid = tuple(extent(launch) for extent in lowered.grid) or (1,)
    else:
        grid = _grid(name, lowered, where, shapes)
        needed = clipped(made, grid, shapes)
        if not meets(made):
            grid = needed
        elif needed != grid:  # threads that others wait for stay, and touch nothing
            made = past_end(made)
    for array, path in zip(made.arrays, lowered.arrays, strict=True):
        if array.writes and is_host_array(launch.read(path)):
            raise ReadOnlyError(
                f"[{name}] expected another library's array that the kernel writes among its arguments, "
                f"given {array.name} from outside; hand it over, or make it a tensor"
            )
    _check_targets(name, made, tensors)
    operands: list[int] = []  # for each operand the first array in it
    owners: list[Any] = []
    places = []
    for n, tensor in enumerate(tensors):
        owner = tensor if n in copied or tensor.base is None else tensor.base
        found = next((k for k, o in enumerate(owners) if o is owner and n not in copied), len(owners))
        if found == len(owners):
            owners.append(owner)
            operands.append(n)
        offset = 0 if n in copied or tensor.base is None else tensor.offset
        places.append(handwritten.Place(found, shapes[n], strides[n], offset))
    targets = tuple(dict.fromkeys(p.operand for a, p in zip(made.arrays, places, strict=True) if a.writes))
    targets = tuple(t for t in targets if owners[t].size)
    attrs: tuple[Any, ...] = ()
    if targets and 0 not in grid:
        if not kernel.options.dynamic_shape:
            made = fixed(made, tuple(shapes))
        if lowered.reason:
            made = replace(made, note=lowered.reason)
        attrs = handwritten.Arguments(kernel.number(made), grid, tuple(places), targets, len(owners)).attrs
    return Launcher(
        kernel,
        lowered,
        captured,
        attrs,
        tuple(sources[n] for n in operands),
        tuple(zip((_source(kernel, path) for path in lowered.scalars), made.scalars, strict=True)),
        steering(made),
        copied=tuple(k for k, n in enumerate(operands) if n in copied),
    )


def _source(kernel: Kernel, path: Path) -> int | Path:
    """An argument by its number, anything else by its path."""
    return kernel.parameters.index(str(path[0])) if len(path) == 1 and path[0] else path


def _check_targets(name: str, made: StructuredKernel, tensors: list[Any]) -> None:
    """Refuse to write to arrays that repeat their elements, or to two that share some."""
    written = [n for n, a in enumerate(made.arrays) if a.writes]
    for n in written:
        if overlaps_itself(tensors[n].shape, tensors[n].strides):
            raise ReadOnlyError(
                f"[{name}] expected an array whose elements are apart in memory for "
                f"{made.arrays[n].name}, given a view of shape {tensors[n].shape} that repeats them"
            )
        for m in written:
            if m < n and _share(tensors[m], tensors[n]):
                raise ReadOnlyError(
                    f"[{name}] expected arrays that do not overlap for {made.arrays[m].name} and "
                    f"{made.arrays[n].name}, which it writes, given two that share elements"
                )


def _share(x: Any, y: Any) -> bool:
    """Whether two tensors share elements."""
    if evaluate.owner(x) is not evaluate.owner(y):
        return False
    # Nothing is read through these: only where their elements would lie matters.
    anchor = np.empty(1, np.uint8)
    step = np.lib.stride_tricks.as_strided
    origin = int(anchor.ctypes.data)
    views = []
    for t in (x, y):
        if t.size == 0:
            return False
        views.append(step(_at(origin + t.offset if t.base is not None else origin), t.shape, t.strides))
    try:
        return bool(np.shares_memory(views[0], views[1], 10**6))  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def _at(address: int) -> Any:
    """A byte that lies at an address, of which only the address may be used."""
    return np.asarray(_Address(address))


class _Address:
    def __init__(self, address: int) -> None:
        self.__array_interface__ = {"data": (address, False), "shape": (1,), "typestr": "|u1", "version": 3}
