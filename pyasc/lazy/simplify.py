"""The tape as the scheduler sees it: equal nodes merged, views of constants folded, views of views
composed."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ..ops._graph import Tape
from ..ops.primitives import CAST, EMPTY, FULL, IOTA, LEAF, REDUCE, SCALAR, UPDATE, VIEW, Kind, Primitive
from ..ops.storage import contiguous_strides
from .domain import Access, Shape, through_view


@dataclass(frozen=True, slots=True)
class Value:
    """One value of the graph; operands are indices of earlier values."""

    primitive: Primitive
    shape: Shape
    dtype: np.dtype[Any]
    attrs: tuple[Any, ...]
    operands: tuple[int, ...]
    position: int  # in the tape, of the node it came from

    @property
    def size(self) -> int:
        return prod(self.shape)


@dataclass(frozen=True, slots=True)
class Graph:
    """Values in recording order, and for each output of the tape the value that holds it."""

    values: tuple[Value, ...]
    outputs: tuple[int, ...]


def simplify(tape: Tape) -> Graph:
    """Merge equal nodes (leaves and scalars stay apart) and fold what needs no computation."""
    values: list[Value] = []
    known: dict[tuple[Any, ...], int] = {}
    index: list[int] = []

    def add(value: Value) -> int:
        if value.primitive in (LEAF, SCALAR, EMPTY):
            values.append(value)
            return len(values) - 1
        key = (value.primitive, value.shape, value.dtype, value.attrs, value.operands)
        found = known.get(key)
        if found is None:
            found = known[key] = len(values)
            values.append(value)
        return found

    for position, node in enumerate(tape.nodes):
        operands = tuple(index[o] for o in tape.operands(position))
        primitive, shape, dtype = node.primitive, node.shape, node.dtype
        attrs = node.attrs or ()
        if prod(shape) == 0 and primitive not in (LEAF, EMPTY):
            primitive, operands, attrs = EMPTY, (), ()
        elif primitive is CAST and values[operands[0]].dtype == dtype and values[operands[0]].shape == shape:
            index.append(operands[0])
            continue
        elif primitive is UPDATE and _covers(node.attrs, values[operands[1]].shape, shape):
            # What replaces everything, a copy for instance, is the new value itself.
            index.append(operands[1])
            continue
        elif primitive is REDUCE and all(values[operands[0]].shape[k] == 1 for k in attrs[1]):
            # Over axes of length 1: the operand itself, or for argmax the position 0.
            whole = values[operands[0]].shape
            if attrs[0].startswith("arg"):
                operands = (add(Value(IOTA, whole, dtype, attrs[1], (), position)),)
            index.append(add(_view(values, operands[0], shape, contiguous_strides(shape), 0, position)))
            continue
        elif primitive is VIEW:
            strides, offset = attrs
            viewed = _view(values, operands[0], shape, strides, offset, position)
            if viewed.primitive is VIEW and _is_whole(viewed, values):
                index.append(viewed.operands[0])
            else:
                index.append(add(viewed))
            continue
        elif primitive.kind is Kind.ELEMENTWISE:
            operands = tuple(_scalar_of(values, o, dtype) for o in operands)
        index.append(add(Value(primitive, shape, dtype, attrs, operands, position)))
    return _drop_dead(values, [index[p] for p in tape.outputs])


def _view(
    values: list[Value], operand: int, shape: Shape, strides: Shape, offset: int, position: int
) -> Value:
    """A view of a value; a view of a view is one of its base where the two compose, of a constant the
    constant."""
    base = values[operand]
    if base.primitive is VIEW:
        walk = Access(offset, tuple(s for s, e in zip(strides, shape, strict=True) if e != 1))
        composed = through_view(walk, tuple(e for e in shape if e != 1), base.shape, *base.attrs)
        if composed is not None:
            remaining = iter(composed.strides)
            strides = tuple(0 if e == 1 else next(remaining) for e in shape)
            offset, operand = composed.offset, base.operands[0]
            base = values[operand]
    if base.primitive is FULL:
        return Value(FULL, shape, base.dtype, (), base.operands, position)
    if base.primitive is SCALAR:
        return Value(FULL, shape, base.dtype, (), (operand,), position)
    strides = tuple(0 if e == 1 else s for s, e in zip(strides, shape, strict=True))
    return Value(VIEW, shape, base.dtype, (strides, offset), (operand,), position)


def _is_whole(view: Value, values: list[Value]) -> bool:
    strides, offset = view.attrs
    return values[view.operands[0]].shape == view.shape and offset == 0 and _same(strides, view.shape)


def _same(strides: Shape, shape: Shape) -> bool:
    return all(e == 1 or s == c for s, c, e in zip(strides, contiguous_strides(shape), shape, strict=True))


def _covers(attrs: tuple[Any, ...] | None, region: Shape, shape: Shape) -> bool:
    strides, offset = attrs or ((), 0)
    return region == shape and offset == 0 and _same(strides, shape)


def _scalar_of(values: list[Value], operand: int, dtype: np.dtype[Any]) -> int:
    """An elementwise operation takes a constant array as its scalar."""
    value = values[operand]
    if value.primitive is FULL and values[value.operands[0]].dtype == value.dtype:
        return value.operands[0]
    return operand


def _drop_dead(values: list[Value], outputs: list[int]) -> Graph:
    alive = bytearray(len(values))
    for o in outputs:
        alive[o] = 1
    for n in range(len(values) - 1, -1, -1):
        if alive[n]:
            for o in values[n].operands:
                alive[o] = 1
    renamed: dict[int, int] = {}
    kept: list[Value] = []
    for n, value in enumerate(values):
        if alive[n]:
            renamed[n] = len(kept)
            kept.append(
                Value(
                    value.primitive,
                    value.shape,
                    value.dtype,
                    value.attrs,
                    tuple(renamed[o] for o in value.operands),
                    value.position,
                )
            )
    return Graph(tuple(kept), tuple(renamed[o] for o in outputs))
