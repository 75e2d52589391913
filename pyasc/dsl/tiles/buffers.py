"""Buffers of tile-style kernels: where they are, what they hold, how long they live, what is there.

What a buffer is, its dtype and its shape, is found while the source is walked and kept for the next walk
(`emission.Memo`), as is where it is used, from which its lifetime follows. How much of a buffer is there is
followed within a walk: extents of the last slice that was copied to it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from ...backend.ascend import chip as chips
from ...backend.ascend.chip import Chip
from ...backend.structured import Statement, TileApply
from ...lazy.backends import DEFAULT_CHIP
from ...lazy.evaluate import backend
from ...ops import dtypes
from ...ops.errors import KernelError
from ..lowering.emission import INT64
from ..lowering.expressions import BUILTINS, Expressions
from ..lowering.operands import BUFFERS, Constant, Literal, Memory, Operand, Region, Tuple, Value, describe
from ..signature import LaunchValues
from . import language

Dtype = np.dtype[Any]
BYTE: Dtype = np.dtype(np.uint8)  # of a buffer of which no more is known yet

# --- positions ----------------------------------------------------------------------------------------------

# The position that a structured kernel knows, and the memory whose capacity it shares.
POSITIONS = {
    **dict.fromkeys(("UB", "VECIN", "VECOUT", "VECCALC", "CO2"), ("UB", "ub_usable")),
    **{"A1": ("A1", "l1"), "B1": ("B1", "l1"), "C1": ("A1", "l1")},
    **{"A2": ("A2", "l0a"), "B2": ("B2", "l0b"), "CO1": ("CO1", "l0c")},
}
_MEMORIES = {"ub_usable": "the unified buffer", "l1": "L1", "l0a": "L0A", "l0b": "L0B", "l0c": "L0C"}


def chip_in_force() -> str:
    """The chip of the backend in force, or the usual one."""
    return getattr(getattr(backend(), "chip", None), "name", DEFAULT_CHIP)


def _chip(low: Expressions) -> Chip:
    name = chip_in_force()
    low.guard("the chip", lambda _: chip_in_force(), name, "the chip")
    return chips.load(name)


def _capacity(chip: Chip, memory: str) -> int:
    return int(getattr(chip.capacity, memory) or chip.capacity.ub)


# --- what is known of buffers -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Held:
    """What a buffer was found to be."""

    dtype: Dtype
    shape: tuple[int, ...]


@dataclass(slots=True)
class _Life:
    """Where a buffer is used: the last place, and loops around which it must be kept."""

    last: int = 0
    loops: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Allocation:
    """A buffer of one walk."""

    number: int
    position: str
    memory: str
    bytes: int
    begun: int
    loops: tuple[int, ...]
    node: ast.Call
    valid: tuple[Value, ...] | None = None  # how much of each axis is there; None before it is written
    blocks: tuple[int, ...] = ()  # where `valid` was computed


@dataclass(slots=True)
class _Walk:
    """The buffers of one walk."""

    place: int = 0
    buffers: list[Allocation] = field(default_factory=list)


_walks: WeakKeyDictionary[Any, _Walk] = WeakKeyDictionary()


def _walk(low: Expressions) -> _Walk:
    low.tiles = True
    return _walks.setdefault(low, _Walk())


def held_by(low: Expressions, number: int) -> Held | None:
    """What a buffer was found to be so far; None before anything was written to it."""
    found: Held | None = low.memo.forms.get(("tile", number))
    return found


def learn(low: Expressions, number: int, dtype: Dtype, shape: tuple[int, ...]) -> Held:
    """Keep what a buffer is for this walk and the next ones."""
    made = Held(dtype, shape)
    low.memo.forms["tile", number] = made
    low.memo.changed = True
    return made


def _loops(low: Expressions) -> tuple[int, ...]:
    return tuple(id(loop.node) for frame in low.frames for loop in frame.loops)


def refusal(low: Expressions, node: ast.AST, expected: str, given: str) -> KernelError:
    """The error for a part of the source."""
    return KernelError(f"[{low.name}] expected {expected}, given {given}", low.span(node))


def buffer_of(low: Expressions, operand: Operand, node: ast.AST) -> Allocation:
    """The buffer that an operand is; notes that it is used here."""
    walk = _walk(low)
    if not isinstance(operand, Memory) or operand.path:
        raise refusal(low, node, "a buffer made by pyasc.alloc", describe(operand))
    found = next((b for b in walk.buffers if b.number == operand.number), None)
    if found is None:
        raise refusal(low, node, "a buffer made by pyasc.alloc", describe(operand))
    life: _Life = low.memo.forms.setdefault(("life", found.number), _Life())
    life.last = max(life.last, walk.place)
    around = _loops(low)
    life.loops.update(around[len(found.loops) :])
    return found


def enter(*functions: Any) -> Callable[[Any], Any]:
    """Make a function the handler that compiles calls of others."""

    def enter(handler: Any) -> Any:
        for function in functions:
            BUILTINS[function] = handler
        return handler

    return enter


def arguments_of(
    low: Expressions,
    call: ast.Call,
    args: list[Operand],
    kwargs: dict[str, Operand],
    names: tuple[str, ...],
    least: int,
) -> list[Operand | None]:
    """Arguments by position or name; None for those that are not given."""
    named = dict(kwargs)
    given: list[Operand | None] = [*args]
    given += [named.pop(name, None) for name in names[len(args) :]]
    if named or len(args) > len(names) or any(x is None for x in given[:least]):
        low.takes(call, args, kwargs if named else {}, least, len(names))
        missing = [n for n, x in zip(names[:least], given, strict=False) if x is None]
        raise refusal(low, call, f"{', '.join(names[:least])}", f"a call without {', '.join(missing)}")
    return given


# --- auto_tiling and alloc ----------------------------------------------------------------------------------


def tile_sizes(sizes: tuple[int, ...], itemsize: int, chip: Chip) -> tuple[int, ...]:
    """Powers of two for the tiles of one, two or three sizes.

    Up to eight tiles fit the unified buffer; of a product, two tiles of each operand fit L0A and L0B, and one
    of the result L0C. Small sizes have tiles of the next power of two: sizes near each other have the same.
    """
    sizes = tuple(max(size, 1) for size in sizes)
    need = [max(16, 1 << (size - 1).bit_length()) for size in sizes]
    if len(sizes) == 3:
        most = chip.capacity.l0c // 4
        m = min(need[0], _power(int((most // 2) ** 0.5)))
        n = min(need[1], _power(most // m), 2 * _power(int((most // 2) ** 0.5)))
        depth = min(chip.capacity.l0a // (2 * itemsize * m), chip.capacity.l0b // (2 * itemsize * n))
        return m, n, min(need[2], _power(depth))
    most = _power(_capacity(chip, "ub_usable") // (8 * itemsize))
    if len(sizes) == 1:
        return (min(need[0], most),)
    columns = min(need[1], most)
    return min(1 << (sizes[0] - 1).bit_length(), most // columns), columns


def _power(x: int) -> int:
    return 1 << (x.bit_length() - 1)


@enter(language.auto_tiling)
def _auto_tiling(
    low: Expressions, call: ast.Call, args: list[Operand], kwargs: dict[str, Operand]
) -> Operand:
    low.tiles = True
    named = dict(kwargs)
    given = named.pop("dtype", None)
    low.takes(call, args, named, 1, 3)
    usual = "float16" if len(args) == 3 else "float32"
    dtype = dtypes.as_dtype(usual) if given is None else dtype_of(low, given, call)
    chip = _chip(low)
    for size, node in zip(args, call.args, strict=False):
        found = low.concrete(size, node)
        if found < 0:
            raise refusal(low, node, "sizes of at least 0", f"{found}")
    extents = [low.extent_of(size, node) for size, node in zip(args, call.args, strict=False)]

    def compute(values: LaunchValues) -> tuple[int, ...]:
        sizes = tuple(extent(values) for extent in extents)
        return tile_sizes(sizes, dtype.itemsize, chip) if min(sizes) >= 0 else ()

    found_sizes = compute(low.values)
    low.guard(
        "the tiles that auto_tiling chose", compute, found_sizes, ("auto_tiling", id(call), low.frame.call)
    )
    items = tuple(Literal(size) for size in found_sizes)
    return items[0] if len(items) == 1 else Tuple(items)


def dtype_of(low: Expressions, operand: Operand, node: ast.AST) -> Dtype:
    """The dtype that an operand names."""
    if isinstance(operand, Constant):
        try:
            return dtypes.as_dtype(operand.value)
        except TypeError:
            pass
    raise refusal(low, node, "a dtype", describe(operand))


def fixed(low: Expressions, operand: Operand, node: ast.AST, label: str) -> int:
    """A number that the code is made for."""
    found = low.concrete(operand, node)
    if not isinstance(operand, Literal):
        extent = low.extent_of(operand, node)
        low.guard(label, extent, found, (label, low.integer(operand, node).number))
    return found


@enter(language.alloc)
def _alloc(low: Expressions, call: ast.Call, args: list[Operand], kwargs: dict[str, Operand]) -> Operand:
    walk = _walk(low)
    position, size, given = arguments_of(low, call, args, kwargs, ("position", "size", "dtype"), 2)
    assert position is not None and size is not None
    name = position.value if isinstance(position, Constant) else None
    found = POSITIONS.get(name.upper()) if isinstance(name, str) else None
    if found is None:
        known = ", ".join(POSITIONS)
        raise refusal(low, call.args[0] if call.args else call, f"a position: {known}", describe(position))
    shape = None
    if isinstance(size, Tuple) or given is not None:
        if given is None:
            raise refusal(low, call, "a dtype with a shape", "a shape alone")
        items = size.items if isinstance(size, Tuple) else (size,)
        shape = Held(
            dtype_of(low, given, call), tuple(fixed(low, x, call, "the shape of a buffer") for x in items)
        )
        count = prod(shape.shape) * shape.dtype.itemsize if min(shape.shape) > 0 else min(shape.shape)
    else:
        count = fixed(low, size, call, "the bytes of a buffer")
    if count < 1:
        raise refusal(low, call, f"at least 1 byte of {name}", f"{count}")
    number = BUFFERS + len(low.buffers)
    made = Allocation(number, str(name), found[1], count, walk.place, _loops(low), call)
    _check_capacity(low, walk, made)
    walk.buffers.append(made)
    if shape is not None and held_by(low, number) is None:
        learn(low, number, shape.dtype, shape.shape)
    what = held_by(low, number) or Held(BYTE, (count,))
    memory = low.buffer(f"{str(name).lower()}{len(low.buffers)}", what.dtype, what.shape, found[0])
    if ("filled", number) in low.memo.forms:
        zero, whole = low.value(Literal(0), what.dtype, call), low.constant(prod(what.shape), INT64)
        put(low, TileApply("cast", number, (("value", zero.number),), whole.number))
    return memory


def _check_capacity(low: Expressions, walk: _Walk, made: Allocation) -> None:
    """Buffers that are alive here must fit beside each other."""
    around = set(made.loops)

    def alive(other: Allocation) -> bool:
        life: _Life | None = low.memo.forms.get(("life", other.number))
        if life is None or other.memory != made.memory:
            return False
        return life.last >= walk.place or bool(around & life.loops)

    room = _capacity(_chip(low), made.memory)
    taken = sum(b.bytes for b in walk.buffers if alive(b))
    if taken + made.bytes > room:
        others = f", beside {taken:,} in use" if taken else ""
        raise refusal(
            low,
            made.node,
            f"at most {room:,} bytes in {_MEMORIES[made.memory]} ({made.position}) of the {chip_in_force()}",
            f"{made.bytes:,}{others}; make the tile smaller, or the buffers fewer",
        )


# --- extents ------------------------------------------------------------------------------------------------


def affine(low: Expressions, value: Value) -> tuple[dict[int, int], int]:
    """A value as a sum of others, each so many times, and a number."""
    let = low.lets.get(value.number)
    if let is not None and let.dtype == INT64:
        parts = [affine(low, Value(n, INT64)) for n in let.args] if let.op in ("add", "sub", "mul") else []
        if let.op == "const":
            return {}, int(let.attrs[0])
        if let.op in ("add", "sub"):
            sign = 1 if let.op == "add" else -1
            (a, x), (b, y) = parts
            terms = {k: a.get(k, 0) + sign * b.get(k, 0) for k in {*a, *b}}
            return {k: v for k, v in terms.items() if v}, x + sign * y
        if let.op == "mul" and any(not terms for terms, _ in parts):
            (a, x), (b, y) = parts if not parts[1][0] else parts[::-1]
            return {k: v * y for k, v in a.items() if v * y}, x * y
    return {value.number: 1}, 0


def bound_of(low: Expressions, value: Value) -> int | None:
    """The most that a value can be, where the program says it: a number, or the smaller of two."""
    terms, rest = affine(low, value)
    for number, times in terms.items():
        let = low.lets.get(number)
        if times != 1 or let is None or let.op != "min":
            return None
        known = [b for n in let.args if (b := bound_of(low, Value(n, INT64))) is not None]
        if not known:
            return None
        rest += min(known)
    return rest


def settled(low: Expressions, region: Region, node: ast.AST) -> tuple[Region, tuple[int, ...]]:
    """A region with stops that the code is made for, and how long its slices are at most."""
    stops, lengths = list(region.stops), []
    for axis, (start, stop) in enumerate(zip(region.starts, region.stops, strict=True)):
        size = low.let("sub", INT64, (stop, start))
        length = bound_of(low, size)
        if length is None:
            try:
                length = fixed(low, size, node, "the length of a slice")
            except KernelError:
                name = region.memory.name
                what = (
                    f"a slice of {name} whose length is known when the kernel is compiled: {name}[i : i + t]"
                )
                raise refusal(low, node, what, "one whose length changes") from None
            known = bound_of(low, start) if not affine(low, start)[0] else None
            end = low.constant(length, INT64)
            stops[axis] = (
                low.let("add", INT64, (start, end)) if known is None else low.constant(known + length, INT64)
            )
        lengths.append(length)
    return Region(region.memory, region.starts, tuple(stops)), tuple(lengths)


def cut_length(low: Expressions, region: Region, axis: int) -> Value:
    """How long a slice is where the array ends."""
    start, stop = region.starts[axis], region.stops[axis]
    stop = low.let("min", INT64, (stop, low.extent(region.memory, axis)))
    return low.let("sub", INT64, (stop, low.let("max", INT64, (start, low.constant(0, INT64)))))


def count_of(low: Expressions, operand: Operand, node: ast.AST, sizes: tuple[int, ...]) -> Value:
    """A number of elements: a constant where it is one of the sizes that buffers have."""
    if not isinstance(operand, Literal):
        try:
            if low.concrete(operand, node) in sizes:
                return low.constant(fixed(low, operand, node, "a number of elements"), INT64)
        except KernelError:
            pass
    return low.integer(operand, node)


def there(low: Expressions, held: Allocation, memory: Memory, node: ast.AST) -> tuple[Value, ...]:
    """How much of each axis of a buffer is there, in values that are known here."""
    if held.valid is None:
        raise refusal(low, node, f"a buffer that was written before, {memory.name}", "one that was not")
    here = tuple(map(id, low.blocks))
    if here[: len(held.blocks)] == held.blocks:
        return held.valid
    visible = {v.number for f in low.frames for v in f.env.values() if isinstance(v, Value)}

    def again(number: int) -> Value:
        let = low.lets.get(number)
        if number in visible or (let is not None and let.op in ("scalar", "extent", "const")):
            return Value(number, INT64 if let is None else let.dtype)
        if let is None or let.op in ("load", "get", "call"):
            raise refusal(
                low, node, "a buffer of which it is known how much is there", "one filled in a loop"
            )
        return low.let(let.op, let.dtype, tuple(map(again, let.args)), let.attrs)

    return tuple(again(v.number) for v in held.valid)


def hold(low: Expressions, held: Allocation, valid: tuple[Value, ...]) -> None:
    """Say how much of each axis of a buffer is there from now on."""
    held.valid, held.blocks = valid, tuple(map(id, low.blocks))


def least(low: Expressions, *values: Value) -> Value:
    """The smallest of some int64 values."""
    first, *rest = dict.fromkeys(values)
    for value in rest:
        first = low.let("min", INT64, (first, value))
    return first


def put(low: Expressions, statement: Statement) -> None:
    """Append a tile statement: a place that lifetimes are counted in."""
    _walk(low).place += 1
    low.emit(statement)
