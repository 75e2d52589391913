"""Copies and computation of tile-style kernels as tile statements of a structured kernel."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from difflib import get_close_matches
from math import prod
from typing import Any

from ...backend.structured import Region as TileRegion
from ...backend.structured import TileApply, TileCopy, TileProduct, TileReduce
from ...ops import dtypes, registry
from ...ops.primitives import PRIMITIVES, REDUCTIONS, Kind, Primitive
from ..lowering.emission import INT64
from ..lowering.expressions import Expressions
from ..lowering.operands import NUMBERS, Constant, Literal, Memory, Operand, Region, Value, describe
from ..lowering.translation import by_name
from ..signature import LaunchValues, Path
from . import language
from .buffers import (
    Allocation,
    Dtype,
    Held,
    affine,
    arguments_of,
    bound_of,
    buffer_of,
    count_of,
    cut_length,
    dtype_of,
    enter,
    fixed,
    held_by,
    hold,
    learn,
    least,
    put,
    refusal,
    settled,
    there,
)

# --- copies -------------------------------------------------------------------------------------------------


def _whole(low: Expressions, memory: Memory) -> Region:
    zero = low.constant(0, INT64)
    return Region(memory, (zero,) * memory.rank, tuple(low.extent(memory, k) for k in range(memory.rank)))


def _numbers(values: tuple[Value, ...]) -> tuple[int, ...]:
    return tuple(v.number for v in values)


def _tile_region(region: Region) -> TileRegion:
    return TileRegion(region.memory.number, _numbers(region.starts), _numbers(region.stops))


def _side(low: Expressions, operand: Operand, node: ast.AST) -> Region | Memory:
    """One side of a copy: a part of an array, or a whole buffer."""
    if isinstance(operand, Region) and operand.memory.path:
        region = operand
    elif isinstance(operand, Memory) and operand.path:
        low.note_index(operand, False, node)
        region = _whole(low, operand)
    elif isinstance(operand, Memory):
        return operand
    else:
        what = "a part of a buffer" if isinstance(operand, Region) else describe(operand)
        raise refusal(low, node, "a slice of an array, or a whole buffer", what)
    if region.memory.rank not in (1, 2):
        axes = region.memory.rank
        raise refusal(low, node, "an array of one or two axes", f"{region.memory.name} with {axes}")
    return region


@enter(language.dma_copy)
def _dma_copy(low: Expressions, call: ast.Call, args: list[Operand], kwargs: dict[str, Operand]) -> None:
    target, source = arguments_of(low, call, args, kwargs, ("dst", "src"), 2)
    assert target is not None and source is not None
    to, of = _side(low, target, call), _side(low, source, call)
    if isinstance(to, Region) and isinstance(of, Region):
        raise refusal(low, call, "a buffer on one side", f"two arrays, {to.memory.name} and {of.memory.name}")
    site = low.site(
        to.memory if isinstance(to, Region) else of.memory if isinstance(of, Region) else to, call
    )
    if isinstance(of, Region):
        assert isinstance(to, Memory)
        _copy_in(low, call, to, of, site)
    elif isinstance(to, Region):
        _copy_out(low, call, to, of, site)
    else:
        _copy_over(low, call, to, of, site)


def _copy_in(low: Expressions, call: ast.Call, to: Memory, of: Region, site: int) -> None:
    held = buffer_of(low, to, call)
    of, lengths = settled(low, of, call)
    known = held_by(low, held.number)
    dtype = of.memory.dtype
    if known is None:
        _check_room(low, call, held, to, lengths, dtype)
        rows = max(held.bytes // dtype.itemsize // max(prod(lengths[1:]), 1), 1)
        shape = (rows,) if len(lengths) == 1 else (min(rows, max(lengths[0], 1)), max(lengths[1], 1))
        known = learn(low, held.number, dtype, shape)
    _check_same(low, call, to, known.dtype, dtype, of.memory.name)
    if len(known.shape) != len(lengths) or any(a > b for a, b in zip(lengths, known.shape, strict=True)):
        raise refusal(
            low, call, f"a slice that fits the buffer of {_shown(known.shape)} elements", _shown(lengths)
        )
    low.note_write(of.memory, reads=True, writes=False)
    for axis in range(of.memory.rank):
        _follow_extent(low, of, axis)
    source = call.args[1] if len(call.args) > 1 else None
    written = source.slice if isinstance(source, ast.Subscript) else None
    parts = written.elts if isinstance(written, ast.Tuple) else [written]
    valid = tuple(
        low.constant(1, INT64)
        if part is not None and not isinstance(part, ast.Slice)  # an index
        else cut_length(low, of, axis)
        for axis, part in zip(range(of.memory.rank), [*parts, None], strict=False)
    )
    whole = TileRegion(to.number, *_ends(low, known.shape))
    put(low, TileCopy(whole, _tile_region(of), site))
    hold(low, held, valid)


def _ends(low: Expressions, shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    zero = low.constant(0, INT64).number
    return (zero,) * len(shape), tuple(low.constant(e, INT64).number for e in shape)


def _shown(shape: tuple[int, ...]) -> str:
    return " × ".join(map(str, shape))


def _check_room(
    low: Expressions, call: ast.Call, held: Allocation, to: Memory, shape: tuple[int, ...], dtype: Dtype
) -> None:
    need = prod(shape) * dtype.itemsize
    if need > held.bytes:
        raise refusal(
            low,
            call,
            f"a tile that fits the {held.bytes:,} bytes of {to.name}",
            f"{_shown(shape)} elements of {dtype.name}, {need:,} bytes",
        )


def _check_same(low: Expressions, call: ast.Call, to: Memory, own: Dtype, dtype: Dtype, name: str) -> None:
    if own != dtype:
        raise refusal(
            low,
            call,
            f"{own.name}, which the buffer {to.name} holds",
            f"{dtype.name} of {name}; pyasc.cast converts",
        )


def _copy_out(low: Expressions, call: ast.Call, to: Region, of: Memory, site: int) -> None:
    held = buffer_of(low, of, call)
    dtype = to.memory.dtype
    known = held_by(low, held.number)
    if known is None and (count := low.memo.forms.get(("cast", held.number))) is not None:
        known = learn(low, held.number, dtype, count)
    if known is None:
        raise refusal(low, call, f"a buffer that was written before, {of.name}", "one that was not")
    valid = there(low, held, of, call)
    if to.memory.rank != len(known.shape):
        raise refusal(
            low,
            call,
            f"a buffer of {to.memory.rank} axes for {to.memory.name}",
            f"one of {_shown(known.shape)}",
        )
    to, _ = settled(low, to, call)
    for axis in range(to.memory.rank):
        _follow_extent(low, to, axis)
    number = of.number
    if known.dtype != dtype and held.position == "CO1":
        # Fixpipe rounds what it takes away.
        rounded = low.buffer(f"{of.name}_rounded", dtype, known.shape)
        count = low.let("mul", INT64, (valid[0], low.constant(prod(known.shape[1:]), INT64)))
        put(low, TileApply("cast", rounded.number, (("buffer", of.number),), count.number))
        number = rounded.number
    else:
        _check_same(low, call, of, known.dtype, dtype, to.memory.name)
    low.note_write(to.memory)
    zero = low.constant(0, INT64).number
    source = TileRegion(number, (zero,) * len(valid), _numbers(valid))
    put(low, TileCopy(_tile_region(to), source, site))


def _copy_over(low: Expressions, call: ast.Call, to: Memory, of: Memory, site: int) -> None:
    source, held = buffer_of(low, of, call), buffer_of(low, to, call)
    what = held_by(low, source.number)
    if what is None:
        raise refusal(low, call, f"a buffer that was written before, {of.name}", "one that was not")
    known = held_by(low, held.number)
    if known is None:
        _check_room(low, call, held, to, what.shape, what.dtype)
        known = learn(low, held.number, what.dtype, what.shape)
    _check_same(low, call, to, known.dtype, what.dtype, of.name)
    if len(known.shape) != len(what.shape):
        raise refusal(low, call, f"a buffer of {_shown(known.shape)} elements", _shown(what.shape))
    valid = there(low, source, of, call)
    zero = low.constant(0, INT64).number
    region = TileRegion(of.number, (zero,) * len(valid), _numbers(valid))
    put(low, TileCopy(TileRegion(to.number, *_ends(low, known.shape)), region, site))
    room = tuple(low.constant(e, INT64) for e in known.shape)
    cut = known.shape if any(a < b for a, b in zip(known.shape, what.shape, strict=True)) else None
    hold(low, held, tuple(map(lambda v, r: least(low, v, r), valid, room)) if cut else valid)


@dataclass(frozen=True, slots=True)
class SameExtent:
    """Whether an argument is the size of an array's axis: a loop up to it goes over the whole axis then."""

    scalar: Path
    array: Path
    axis: int

    def __call__(self, values: LaunchValues) -> bool:
        return bool(values.read(self.scalar) == values.shapes[self.array][self.axis])


def _follow_extent(low: Expressions, region: Region, axis: int) -> None:
    """Note that the loop along a slice ends where the array does, if it does so now.

    Otherwise whole-array code could not be made of the kernel without knowing the argument's value.
    """
    terms, _ = affine(low, region.starts[axis])
    path = region.memory.path
    for frame in low.frames:
        for loop in frame.loops:
            node = loop.node
            if not isinstance(node, ast.For) or not isinstance(node.target, ast.Name):
                continue
            index = frame.env.get(node.target.id)
            if not isinstance(index, Value) or terms.get(index.number) != 1 or frame is not low.frame:
                continue
            assert isinstance(node.iter, ast.Call)
            stop = low.integer(low.expression(node.iter.args[min(1, len(node.iter.args) - 1)]), node)
            let = low.lets.get(stop.number)
            if let is None or let.op != "scalar":
                continue
            scalar = next(p for (p, _), slot in low.scalars.items() if slot == let.attrs[0])
            same = SameExtent(scalar, path, axis)
            if path in low.values.shapes and len(scalar) == 1 and same(low.values):
                low.guard(f"that {scalar[0]} is the size of {region.memory.name}", same, True, same)


# --- names of operations ------------------------------------------------------------------------------------

_SPECIAL = ("cast", "bitcast", "random_bits", "wrap_index")
# Ascend's names, and those of the op table that take more than one primitive.
_SYNONYMS = {"ln": "log", **{f"{op}s": op for op in ("add", "sub", "mul", "div", "max", "min")}}
_FILLING = ("full", "duplicate")
_ONE, _ZERO, _X = Literal(1), Literal(0), None
_COMPOSED: dict[str, tuple[tuple[str, tuple[Literal | None, ...]], ...]] = {
    "relu": (("max", (_X, _ZERO)),),
    "reciprocal": (("div", (_ONE, _X)),),
    "rec": (("div", (_ONE, _X)),),
    "square": (("mul", (_X, _X)),),
    "rsqrt": (("sqrt", (_X,)), ("div", (_ONE, _X))),
}


def _names() -> dict[str, tuple[Primitive, bool]]:
    """The elementwise primitives by all their names, and whether their operands are swapped."""
    found = {
        entry.name: (entry.primitive, entry.swapped)
        for entry in registry.operations()
        if entry.primitive is not None
    }
    own = {p.name: (p, False) for p in PRIMITIVES.values() if p.kind is Kind.ELEMENTWISE}
    found = {**found, **own}
    found.update((name, found[op]) for name, op in _SYNONYMS.items())
    return {name: found[name] for name in found if name not in _SPECIAL}


OPERATIONS = _names()
_REDUCTIONS = {
    **{how: how for how in REDUCTIONS if not how.startswith("arg")},
    **{"sum": "add", "prod": "mul"},
}


# --- computation --------------------------------------------------------------------------------------------


def _operation(low: Expressions, operand: Operand | None, node: ast.AST) -> str:
    name = operand.value if isinstance(operand, Constant) else None
    if isinstance(name, str) and name.lower() in (*OPERATIONS, *_COMPOSED, *_FILLING):
        return name.lower()
    close = _suggestion(name) if isinstance(name, str) else ""
    raise refusal(
        low,
        node,
        f"the name of an elementwise primitive, such as 'ADD' or 'exp'{close}",
        repr(name) if isinstance(name, str) else describe(operand) if operand else "none",
    )


def _suggestion(name: str) -> str:
    """The names that are nearest to one that there is not."""
    close = get_close_matches(name.lower(), [*OPERATIONS, *_COMPOSED], 2)
    return f" (perhaps {' or '.join(repr(c) for c in close)})" if close else ""


@enter(language.elementwise)
def _elementwise(low: Expressions, call: ast.Call, args: list[Operand], kwargs: dict[str, Operand]) -> None:
    named = dict(kwargs)
    n = named.pop("n", None)
    low.takes(call, args, named, 2, 6)
    name = _operation(low, args[0], call)
    steps = _COMPOSED.get(name)
    arity = 1 if steps or name in _FILLING else OPERATIONS[name][0].arity
    inputs = args[2:]
    if n is None and len(inputs) == arity + 1:
        n = inputs.pop()
    if len(inputs) != arity:
        raise refusal(low, call, f"{arity} inputs of {name}", f"{len(inputs)}")
    out = args[1]
    if name in _FILLING:
        _fill(low, call, out, inputs, n)
        return
    if steps is None:
        primitive, swapped = OPERATIONS[name]
        _apply(low, call, primitive, out, inputs[::-1] if swapped else inputs, n)
        return
    x = inputs[0]
    for op, pattern in steps:
        _apply(low, call, PRIMITIVES[op], out, [x if p is _X else p for p in pattern], n)
        x = out


def _apply(
    low: Expressions,
    call: ast.Call,
    primitive: Primitive,
    out: Operand,
    inputs: list[Any],
    n: Operand | None,
    to: Dtype | None = None,
) -> None:
    """One primitive over tiles; `to` is the dtype that a cast gives."""
    inputs = _elements(low, call, inputs)
    held = [None if isinstance(x, NUMBERS) else buffer_of(low, x, call) for x in inputs]
    target = buffer_of(low, out, call)
    if not any(held):
        raise refusal(low, call, "at least one buffer among the inputs", "numbers alone")
    shapes = []
    for x, of in zip(inputs, held, strict=True):
        if of is None:
            continue
        shape = held_by(low, of.number)
        if shape is None:
            raise refusal(low, call, f"a buffer that was written before, {x.name}", "one that was not")
        shapes.append((x, of, shape))
    first = shapes[-1 if primitive.name == "where" else 0][2]
    for place, (x, _, shape) in enumerate(shapes):
        condition = primitive.name == "where" and place == 0 and x is inputs[0]
        wanted = dtypes.bool_ if condition else first.dtype
        if shape.dtype != wanted:
            raise refusal(
                low, call, f"inputs of {wanted.name}", f"{shape.dtype.name} of {x.name}; pyasc.cast converts"
            )
        heights = {first.shape[0], shape.shape[0]}
        if shape.shape[1:] != first.shape[1:] or (len(first.shape) > 1 and len(heights) > 1 and 1 in heights):
            shapes_given = f"{_shown(first.shape)} and, of {x.name}, {_shown(shape.shape)}"
            raise refusal(low, call, "tiles of one shape: there is no broadcasting", shapes_given)
    kind = "V" if first.dtype == dtypes.bfloat16 else first.dtype.kind
    if kind not in primitive.dtypes:
        raise refusal(low, call, f"a dtype that {primitive.name} takes", first.dtype.name)
    result = to or (primitive.result(*(s.dtype for _, _, s in shapes)) if primitive.result else first.dtype)
    if primitive.name == "where":
        result = first.dtype
    known = held_by(low, target.number)
    assert isinstance(out, Memory)
    if known is None:
        rows = target.bytes // result.itemsize // max(prod(first.shape[1:]), 1)
        if rows < 1:
            _check_room(low, call, target, out, (1, *first.shape[1:]), result)
        known = learn(low, target.number, result, (min(rows, first.shape[0]), *first.shape[1:]))
    _check_same(low, call, out, known.dtype, result, primitive.name)
    if known.shape[1:] != first.shape[1:]:
        raise refusal(
            low, call, f"a result with rows of {_shown(first.shape[1:] or (1,))}", _shown(known.shape)
        )
    valid = [there(low, of, x, call) for x, of, _ in shapes]
    pitch = prod(known.shape[1:])
    shortest = tuple(least(low, *(v[axis] for v in valid)) for axis in range(len(known.shape)))
    rows_there = shortest[0]
    if any(known.shape[0] < s.shape[0] for _, _, s in shapes):
        rows_there = least(low, rows_there, low.constant(known.shape[0], INT64))
    count = rows_there if pitch == 1 else low.let("mul", INT64, (rows_there, low.constant(pitch, INT64)))
    if n is not None:
        asked = count_of(low, n, call, (prod(known.shape), pitch))
        _check_count(low, call, n, out, known, shapes)
        count = least(low, count, asked)
        if pitch == 1:
            rows_there = count
    numbers = tuple(
        ("value", low.value(x, first.dtype, call).number) if of is None else ("buffer", x.number)
        for x, of in zip(inputs, held, strict=True)
    )
    put(low, TileApply(primitive.name, out.number, numbers, count.number))
    hold(low, target, (rows_there, *shortest[1:]))


def _elements(low: Expressions, call: ast.Call, inputs: list[Any]) -> list[Any]:
    """Inputs where buffers of a single element beside longer ones stand for their element."""
    shapes = [
        None if isinstance(x, NUMBERS) else held_by(low, buffer_of(low, x, call).number) for x in inputs
    ]
    longest = max((s.shape for s in shapes if s is not None), key=lambda s: (prod(s), len(s)), default=())
    made = []
    for x, shape in zip(inputs, shapes, strict=True):
        if shape is not None and prod(shape.shape) == 1 and shape.shape != longest:
            there(low, buffer_of(low, x, call), x, call)
            x = low.load(x, (low.constant(0, INT64),) * x.rank, call)
        made.append(x)
    return made


def _fill(low: Expressions, call: ast.Call, out: Operand, inputs: list[Operand], n: Operand | None) -> None:
    """Set elements to a number."""
    target = buffer_of(low, out, call)
    assert isinstance(out, Memory)
    number = inputs[0]
    if not isinstance(number, NUMBERS):
        raise refusal(low, call, "a number to fill a buffer with", describe(number))
    known = held_by(low, target.number)
    if known is None:
        whole = number.dtype.kind in "iu" if isinstance(number, Value) else number.kind is int
        dtype = dtypes.as_dtype("int32" if whole else "float32")
        if target.bytes < dtype.itemsize:
            _check_room(low, call, target, out, (1,), dtype)
        known = learn(low, target.number, dtype, (target.bytes // dtype.itemsize,))
    elements = prod(known.shape)
    count = low.constant(elements, INT64)
    if n is not None:
        _check_count(low, call, n, out, known, [])
        count = least(low, count, count_of(low, n, call, (elements,)))
    value = low.value(number, known.dtype, call)
    put(low, TileApply("cast", out.number, (("value", value.number),), count.number))
    rows = count
    if len(known.shape) > 1:
        rows = low.let("floor_divide", INT64, (count, low.constant(prod(known.shape[1:]), INT64)))
    hold(low, target, (rows, *(low.constant(e, INT64) for e in known.shape[1:])))


def _check_count(
    low: Expressions, call: ast.Call, n: Operand, out: Memory, known: Held, shapes: list[Any]
) -> None:
    """A number of elements that is known is no more than the buffers hold."""
    if not isinstance(n, Literal):
        return
    for name, shape in ((out.name, known.shape), *((x.name, s.shape) for x, _, s in shapes)):
        if int(n.value) > prod(shape) or n.value < 0:
            raise refusal(low, call, f"at most the {prod(shape):,} elements of {name}", f"{n.value:,}")


@enter(language.cast)
def _cast(low: Expressions, call: ast.Call, args: list[Operand], kwargs: dict[str, Operand]) -> None:
    out, x, n, given = arguments_of(low, call, args, kwargs, ("out", "x", "n", "dtype"), 2)
    assert out is not None and x is not None
    target, source = buffer_of(low, out, call), buffer_of(low, x, call)
    assert isinstance(out, Memory) and isinstance(x, Memory)
    known, of = held_by(low, target.number), held_by(low, source.number)
    if of is None:
        raise refusal(low, call, f"a buffer that was written before, {x.name}", "one that was not")
    dtype = known.dtype if known else None
    if given is not None and not (isinstance(given, Constant) and given.value is None):
        dtype = dtype_of(low, given, call)
    if dtype is None:
        key = ("cast", target.number)
        if key in low.memo.forms:
            raise refusal(
                low,
                call,
                f"a dtype for {out.name}: pyasc.cast(…, dtype=…), or an array that it is copied to",
                "none",
            )
        low.memo.forms[key] = of.shape
        low.memo.changed = True
        hold(low, target, there(low, source, x, call))
        return
    _apply(low, call, PRIMITIVES["cast"], out, [x], n, dtype)


@enter(language.reduce)
def _reduce(low: Expressions, call: ast.Call, args: list[Operand], kwargs: dict[str, Operand]) -> None:
    low.takes(call, args, kwargs, 3, 5)
    given = args[0].value if isinstance(args[0], Constant) else None
    how = _REDUCTIONS.get(given.lower()) if isinstance(given, str) else None
    if how is None:
        raise refusal(low, call, f"one of {', '.join(map(repr, _REDUCTIONS))}", describe(args[0]))
    out, x, counts = args[1], args[2], args[3:]
    target, source = buffer_of(low, out, call), buffer_of(low, x, call)
    assert isinstance(out, Memory) and isinstance(x, Memory)
    of = held_by(low, source.number)
    if of is None:
        raise refusal(low, call, f"a buffer that was written before, {x.name}", "one that was not")
    rows = of.shape[0] if len(of.shape) > 1 else 1
    known = held_by(low, target.number)
    if known is None:
        room = target.bytes // of.dtype.itemsize
        if room < rows:
            _check_room(low, call, target, out, (rows,), of.dtype)
        known = learn(low, target.number, of.dtype, (rows,))
    _check_same(low, call, out, known.dtype, of.dtype, x.name)
    if len(known.shape) != 1 or known.shape[0] < rows:
        raise refusal(low, call, f"a result of {rows} elements", _shown(known.shape))
    valid = there(low, source, x, call)
    rows_there = valid[0] if len(valid) > 1 else low.constant(1, INT64)
    columns = valid[-1]
    if counts:
        columns = least(low, columns, count_of(low, counts[-1], call, of.shape))
    if len(counts) == 2:
        rows_there = least(low, rows_there, count_of(low, counts[0], call, of.shape))
    put(low, TileReduce(how, out.number, x.number, rows_there.number, columns.number))
    hold(low, target, (rows_there,))


@enter(by_name("matmul"))
def _matmul(low: Expressions, call: ast.Call, args: list[Operand], kwargs: dict[str, Operand]) -> None:
    names = ("c", "a", "b", "m", "k", "n", "accumulate")
    if len(args) < 6 and not {"m", "n", "k"} & set(kwargs):
        raise refusal(
            low,
            call,
            "pyasc.matmul(c, a, b, m, k, n, accumulate) of buffers",
            f"{len(args) + len(kwargs)} arguments",
        )
    c, a, b, *given = arguments_of(low, call, args, kwargs, names, 6)
    assert c is not None and a is not None and b is not None
    into, left, right = (buffer_of(low, x, call) for x in (c, a, b))
    assert isinstance(c, Memory) and isinstance(a, Memory) and isinstance(b, Memory)
    x, y = held_by(low, left.number), held_by(low, right.number)
    for operand, of in ((a, x), (b, y)):
        if of is None:
            raise refusal(low, call, f"a buffer that was written before, {operand.name}", "one that was not")
        if len(of.shape) != 2:
            raise refusal(low, call, f"tiles of two axes to multiply, in {operand.name}", _shown(of.shape))
    assert x is not None and y is not None
    if x.dtype != y.dtype:
        raise refusal(low, call, "tiles of one dtype", f"{x.dtype.name} and {y.dtype.name}")
    sizes, values = [], []
    for size, label in zip(given[:3], ("m", "k", "n"), strict=True):
        assert size is not None
        value = low.integer(size, call)
        bound = bound_of(low, value)
        sizes.append(fixed(low, size, call, f"{label} of a product") if bound is None else bound)
        values.append(low.constant(sizes[-1], INT64) if bound is None else value)
    m, k, n = sizes
    if m > x.shape[0] or k > min(x.shape[1], y.shape[0]) or n > y.shape[1] or min(sizes) < 1:
        raise refusal(
            low,
            call,
            f"m, k, n within tiles of {_shown(x.shape)} and {_shown(y.shape)}",
            f"{m}, {k}, {n}",
        )
    dtype = dtypes.as_dtype("int32") if x.dtype.kind in "iu" else dtypes.as_dtype("float32")
    if x.dtype.itemsize > dtype.itemsize:
        dtype = x.dtype
    known = held_by(low, into.number)
    if known is None:
        _check_room(low, call, into, c, (m, n), dtype)
        known = learn(low, into.number, dtype, (m, n))
    if len(known.shape) != 2 or known.shape[0] < m or known.shape[1] < n:
        raise refusal(low, call, f"a result of at least {m} × {n}", _shown(known.shape))
    _check_same(low, call, c, known.dtype, dtype, "the product")
    (rows, depth), (depth_b, columns) = there(low, left, a, call), there(low, right, b, call)

    def within(value: Value, size: Value, extent: int) -> Value:
        terms, number = affine(low, size)
        return value if not terms and number >= extent else least(low, value, size)

    accumulate = given[3]
    adds = low.value(accumulate if accumulate is not None else Literal(False), dtypes.bool_, call)
    rows, columns = within(rows, values[0], x.shape[0]), within(columns, values[2], y.shape[1])
    depth = within(least(low, depth, depth_b), values[1], min(x.shape[1], y.shape[0]))
    put(
        low,
        TileProduct(c.number, a.number, b.number, rows.number, columns.number, depth.number, adds.number),
    )
    hold(low, into, (rows, columns))
