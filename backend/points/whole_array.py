"""Whole-array expressions: what a kernel of tiles is found to compute (tile_meaning.py)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..ir import Dtype

# An axis of whole arrays: ("loop", its number), ("axis", the array's), ("one", the array's) where its extent
# is 1, ("any", the buffer's) of a buffer that holds the same everywhere.
Key = tuple[str, int]


@dataclass(frozen=True, eq=False)
class Number:
    """A number of the user's text."""

    value: Any
    dtype: Dtype


@dataclass(frozen=True, eq=False)
class Scalar:
    """A scalar argument."""

    slot: int
    dtype: Dtype


@dataclass(frozen=True, eq=False)
class Place:
    """The index along one axis of an array: the position along an axis, and a distance."""

    key: Key
    delta: int


@dataclass(frozen=True, eq=False)
class Load:
    array: int
    places: tuple[Place, ...]
    dtype: Dtype


@dataclass(frozen=True, eq=False)
class Apply:
    op: str
    dtype: Dtype
    args: tuple[Expression, ...]
    attrs: tuple[Any, ...] = ()


@dataclass(frozen=True, eq=False)
class Reduced:
    """A reduction over an axis of so many positions."""

    how: str
    dtype: Dtype
    arg: Expression
    key: Key
    length: int


@dataclass(frozen=True, eq=False)
class Contraction:
    """A product of matrices: two loads, how much of the axis they share is summed, the program's tile."""

    dtype: Dtype
    a: Load
    b: Load
    length: int
    tile: tuple[int, int, int]


Expression = Number | Scalar | Load | Apply | Reduced | Contraction


@dataclass(frozen=True)
class Axis:
    """An axis of a buffer's contents: the loop that goes over its tiles, positions of a tile, and of all."""

    key: Key
    tile: int
    length: int


@dataclass(frozen=True)
class Contents:
    """What a buffer holds; `summing` is the loop in which it is not complete, or -1; `part`: it never is."""

    axes: tuple[Axis, ...]
    expression: Expression
    summing: int = -1
    part: bool = False


@dataclass(frozen=True)
class Store:
    """``array[places] = expression`` for all positions below the lengths."""

    array: int
    places: tuple[Place, ...]
    lengths: tuple[int, ...]
    expression: Expression
    site: int


def free(expression: Expression) -> Iterator[Key]:
    """The axes that the value changes along; some more than once."""
    match expression:
        case Load():
            yield from (p.key for p in expression.places if p.key[0] != "one")
        case Apply():
            for arg in expression.args:
                yield from free(arg)
        case Reduced():
            yield from (key for key in free(expression.arg) if key != expression.key)
        case Contraction():
            yield expression.a.places[0].key
            yield expression.b.places[1].key


def reductions(expression: Expression) -> Iterator[Reduced]:
    match expression:
        case Apply():
            for arg in expression.args:
                yield from reductions(arg)
        case Reduced():
            yield expression
            yield from reductions(expression.arg)


def loads(expression: Expression) -> Iterator[Load]:
    match expression:
        case Load():
            yield expression
        case Apply():
            for arg in expression.args:
                yield from loads(arg)
        case Reduced():
            yield from loads(expression.arg)
        case Contraction():
            yield expression.a
            yield expression.b
