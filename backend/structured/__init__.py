"""KernelIR in structured form: what a kernel written by hand becomes.

Where the point form (backend/ir.py) is a tape that is run for every point of a domain, a structured kernel is
a program that is run by every thread of a grid: with variables, ``if``, ``for`` and ``while``, loads and
stores at any index, atomic updates, buffers that the threads of a block share, and barriers between them.
What can be written in point form is (backend/points), and then runs as the kernels of array code do.

**Threads.** The grid has `StructuredKernel.axes` axes of ``grid[k]`` threads, cut into blocks of
``block[k]``; the last block of an axis may be cut short. Threads run in no order and may run at the same
time, but for those of a block at a barrier: none goes on before all have come. Barriers, copies of tiles and
products stand where all threads of a block take the same way.

**Values.** A value is made once, by a `Let` or as the number of a `For` or the indices of a `Span`, and is
known by its number in the statements that follow it in its block and in the blocks within. What changes is a
variable, read by ``get`` and written by `Set`; every thread has its own. A variable is set before it is read.

**Memory.** Arrays are the caller's: of any rank, read and written through strides. Buffers belong to a block
(shared memory; the unified buffer, L1, L0 … of a chip), are contiguous, and hold nothing in the beginning.
Both are named by one number: arrays first, then buffers. An index outside its axis touches nothing: a load
gives 0, a store does nothing, and the launch reports the fault ``1 + site`` with the index as its value. No
index counts from the end. The site -1 is that of an access which a pass wrote and which is inside.

Tile statements (`TileCopy`, `TileApply`, `TileReduce`, `TileProduct`) work on whole regions; `tiles.py`
writes them as loops where a target has nothing better.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from ..ir import Dtype, Stride, dtype_name


@dataclass(frozen=True, slots=True)
class Array:
    """An array of the caller's.

    Attributes
    ----------
    name : str
        The parameter's; not part of the key.
    dtype : dtype
    layout : str
        One layout class (`ir.Stride`; ``-`` does not occur, it is ``n``) for each axis.
    reads, writes : bool
        Atomic updates count as both.
    """

    name: str
    dtype: Dtype
    layout: str
    reads: bool = False
    writes: bool = False

    @property
    def rank(self) -> int:
        return len(self.layout)


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory of a block.

    Attributes
    ----------
    name : str
        Not part of the key.
    dtype : dtype
    shape : tuple of int
    position : str
        ``"UB"``, which is also shared memory, or ``"A1"``, ``"B1"``, ``"A2"``, ``"B2"``, ``"CO1"``.
    """

    name: str
    dtype: Dtype
    shape: tuple[int, ...]
    position: str = "UB"


@dataclass(frozen=True, slots=True)
class Foreign:
    """A C function that a kernel calls.

    Attributes
    ----------
    name : str
        The symbol.
    result : dtype
    parameters : tuple of dtype
    source : str
        C text that defines it, from which a device can compile it; "" where only a library is there.
    address : int
        In this process; not part of the key.
    origin : str
        The library it is from, and its contents: functions of equal name and text may differ in it.
    """

    name: str
    result: Dtype
    parameters: tuple[Dtype, ...]
    source: str = ""
    address: int = field(default=0, compare=False)
    origin: str = ""


@dataclass(frozen=True, slots=True)
class Site:
    """A place in the user's kernel that touches an array.

    Attributes
    ----------
    array : str
        The user's name of it.
    line : tuple of (str, int, str)
        File, line number and text.
    """

    array: str
    line: tuple[str, int, str]


# --- statements --------------------------------------------------------------------------------------------

# Ops of `Let` that ask for a thread's place in the grid.
IDS = ("global_id", "local_id", "group_id", "global_size", "block_size")
# All that are no primitives, with the number of their attrs.
LET_OPS = dict.fromkeys(IDS, 1) | {"scalar": 1, "const": 1, "extent": 2, "get": 1, "load": 2, "call": 1}


@dataclass(frozen=True, slots=True)
class Let:
    """A value.

    =========== ============================= =====================================================
    op          args                          attrs
    =========== ============================= =====================================================
    global_id   ()                            (axis,) int64: of the thread in the grid
    local_id    ()                            (axis,) int64: of the thread in its block
    group_id    ()                            (axis,) int64: of the block
    global_size ()                            (axis,) int64: threads along an axis
    block_size  ()                            (axis,) int64: threads of a whole block along an axis
    scalar      ()                            (slot,)
    const       ()                            (value,) a Python bool, int or float, of the user's text
    extent      ()                            (array, axis) int64: size of an array
    get         ()                            (variable,)
    load        one int64 index for each axis (array, site)
    call        the function's                (function,)
    other       values                        the primitive's; op is an elementwise primitive's name
    =========== ============================= =====================================================
    """

    value: int
    op: str
    dtype: Dtype
    args: tuple[int, ...] = ()
    attrs: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Set:
    """Write a variable; the value has its dtype."""

    variable: int
    value: int


@dataclass(frozen=True, slots=True)
class Store:
    """Write an element; the value has the array's dtype."""

    array: int
    indices: tuple[int, ...]
    value: int
    site: int


@dataclass(frozen=True, slots=True)
class Atomic:
    """Replace an element by ``how`` (``"add"``, ``"max"``, ``"min"``) of it and a value, undivided.

    ``result`` is the number of the value that was there before, or -1 where nobody asks.
    """

    how: str
    array: int
    indices: tuple[int, ...]
    value: int
    site: int
    result: int = -1


@dataclass(frozen=True, slots=True)
class If:
    condition: int
    then: Block
    orelse: Block = ()


@dataclass(frozen=True, slots=True)
class For:
    """``for value in range(start, stop, step)``: start and stop are int64 values, step is a number, not 0."""

    value: int
    start: int
    stop: int
    step: int
    body: Block


@dataclass(frozen=True, slots=True)
class While:
    """Run `head`, and as long as its value `condition` holds, `body` and `head` again."""

    head: Block
    condition: int
    body: Block


@dataclass(frozen=True, slots=True)
class Break:
    """Leave the innermost `For` or `While`."""


@dataclass(frozen=True, slots=True)
class Continue:
    """Go on with the next turn of the innermost `For` or `While`."""


@dataclass(frozen=True, slots=True)
class Return:
    """This thread is done."""


@dataclass(frozen=True, slots=True)
class Barrier:
    """Wait for the threads of the block."""


@dataclass(frozen=True, slots=True)
class Span:
    """The body for every point of a box, in no order: what a pass makes of tiles, and of a block's threads.

    ``values`` are the numbers of the indices (int64), ``extents`` the int64 values that bound them; the
    last axis is the one along which memory lies. Variables that are set within are set for the rest of the
    point only. Neither `Break` nor `Continue` leaves it; `Return` ends the point.
    """

    values: tuple[int, ...]
    extents: tuple[int, ...]
    body: Block


@dataclass(frozen=True, slots=True)
class Region:
    """A rectangle of an array or a buffer: ``array[starts[0]:stops[0], …]``, int64 values.

    It ends where the array ends, as a Python slice does; a negative start or stop counts as 0.
    """

    array: int
    starts: tuple[int, ...]
    stops: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TileCopy:
    """Copy a rectangle to another one of the same dtype; what sticks out of either is left out.

    Along each axis as many elements are copied as both have.
    """

    target: Region
    source: Region
    site: int


@dataclass(frozen=True, slots=True)
class TileApply:
    """``out.flat[i] = op(args.flat[i]…)`` for i below `count`, in C order of the buffers.

    Attributes
    ----------
    op : str
        An elementwise primitive; ``cast`` goes from the argument's dtype to the target's.
    out : int
        A buffer.
    args : tuple of (str, int)
        ``("buffer", number)`` or ``("value", number)`` of a scalar value of the same dtype.
    count : int
        An int64 value; no more elements than the smallest buffer has are touched.
    """

    op: str
    out: int
    args: tuple[tuple[str, int], ...]
    count: int
    attrs: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class TileReduce:
    """``out.flat[r] = how(source[r, :columns])`` for the first rows of a source seen as rows × its last axis.

    ``how`` is one of ops.primitives.REDUCTIONS but argmax and argmin; float16 and bfloat16 are accumulated in
    float32. With `accumulate` the old ``out.flat[r]`` is taken in.
    """

    how: str
    out: int
    source: int
    rows: int
    columns: int
    accumulate: bool = False


@dataclass(frozen=True, slots=True)
class TileProduct:
    """``c[:m, :n] = a[:m, :k] @ b[:k, :n]`` of 2-D buffers, added to what is there where `accumulate` holds.

    ``accumulate`` is the number of a bool value.
    """

    c: int
    a: int
    b: int
    m: int
    n: int
    k: int
    accumulate: int


Statement = (
    Let
    | Set
    | Store
    | Atomic
    | If
    | For
    | While
    | Break
    | Continue
    | Return
    | Barrier
    | Span
    | TileCopy
    | TileApply
    | TileReduce
    | TileProduct
)
Block = tuple[Statement, ...]
TILE_STATEMENTS = (TileCopy, TileApply, TileReduce, TileProduct)


def blocks(statement: Statement) -> tuple[Block, ...]:
    """The blocks within a statement."""
    match statement:
        case If(_, then, orelse):
            return (then, orelse)
        case While(head, _, body):
            return (head, body)
        case For() | Span():
            return (statement.body,)
    return ()


def walk(body: Block) -> Iterator[Statement]:
    """Every statement, in the order of the text."""
    for statement in body:
        yield statement
        for block in blocks(statement):
            yield from walk(block)


@dataclass(frozen=True)
class StructuredKernel:
    """A kernel in structured form.

    Attributes
    ----------
    axes : int
        Of the grid: at least 1. Which of them memory lies along best is a target's to find out.
    arrays, buffers, functions, sites : tuples
        Sites are not part of the key.
    scalars : tuple of dtype
        The dtypes of the scalar arguments, by slot.
    variables : tuple of dtype
    body : Block
    block : tuple of int
        Threads of a block along each axis, where the kernel asks about its block or shares memory; else ().
    optimize : bool
        False asks for the plainest code: no vectors, no overlap of copies and computation.
    depth : int
        Of the pipeline of copies and computation: buffers of each copied tile; 0 for the target's choice.
    note : str
        What its user should know of how it was lowered, such as why one thread runs it all; not part of the
        key.
    own : OwnSource or None
        Source that a user wrote for chips (backend/ascend/own_source.py); not part of the key.
    """

    axes: int
    arrays: tuple[Array, ...]
    scalars: tuple[Dtype, ...]
    variables: tuple[Dtype, ...]
    body: Block
    buffers: tuple[Buffer, ...] = ()
    functions: tuple[Foreign, ...] = ()
    block: tuple[int, ...] = ()
    optimize: bool = True
    depth: int = 0
    own: Any = None
    name: str = field(default="kernel", compare=False)
    sites: tuple[Site, ...] = field(default=(), compare=False)
    note: str = field(default="", compare=False)

    @cached_property
    def key(self) -> tuple[Any, ...]:
        """The structure as plain data, names left out: equal keys, equal code."""
        return (
            self.axes,
            tuple((dtype_name(a.dtype), a.layout, a.reads, a.writes) for a in self.arrays),
            tuple(dtype_name(d) for d in self.scalars),
            tuple(dtype_name(d) for d in self.variables),
            tuple((dtype_name(b.dtype), b.shape, b.position) for b in self.buffers),
            tuple(
                (f.name, dtype_name(f.result), tuple(map(dtype_name, f.parameters)), f.source, f.origin)
                for f in self.functions
            ),
            self.block,
            self.optimize,
            self.depth,
            _plain(self.body),
        )

    def storage(self, number: int) -> Array | Buffer:
        """The array or buffer of a number."""
        count = len(self.arrays)
        return self.arrays[number] if number < count else self.buffers[number - count]

    def __str__(self) -> str:
        from .format import format_structured

        return format_structured(self)


def _plain(x: Any) -> Any:
    """Statements as nested tuples of plain data."""
    if isinstance(x, tuple):
        return tuple(map(_plain, x))
    fields = getattr(type(x), "__slots__", None)
    if fields is not None and hasattr(type(x), "__dataclass_fields__"):
        return (type(x).__name__, *(_plain(getattr(x, name)) for name in fields))
    if isinstance(x, float):
        return repr(x)  # 0.0 and -0.0 are equal, NaN is not
    return dtype_name(x) if isinstance(x, np.dtype) else x


@dataclass(frozen=True, slots=True)
class StructuredBinding:
    """The arguments of one launch of a structured kernel.

    Attributes
    ----------
    grid : tuple of int
        Threads along each axis, none of them 0.
    shapes, strides : tuples of tuples of int
        For each array; strides in elements.
    offsets : tuple of int
        For each array, in elements from the start of its buffer.
    sizes : tuple of int
        For each array, the elements of its buffer.
    numbers : tuple of (int or None)
        For each scalar slot its value where it counts as a size (`points.steering`); () for none.
    """

    grid: tuple[int, ...]
    shapes: tuple[tuple[int, ...], ...]
    strides: tuple[tuple[int, ...], ...]
    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    numbers: tuple[int | None, ...] = ()

    @property
    def extents(self) -> tuple[int, ...]:
        """What buckets of sizes go by."""
        return (*self.grid, *chain.from_iterable(self.shapes))


def layout(strides: tuple[int, ...]) -> str:
    """The layout classes of an array's strides in elements."""
    return "".join({0: Stride.ZERO, 1: Stride.UNIT}.get(s, Stride.ANY) for s in strides)
