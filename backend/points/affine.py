"""Integers that are sums of multiples, and conditions on them: what indices and guards are made of.

An `Affine` is a constant and multiples of atoms: positions along axes, scalar arguments, and values that some
instruction computes. A condition is a truth value, a test of an affine integer against 0, the value of a bool
instruction, or several conditions together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

Atom = tuple[str, int]  # ("axis", number), ("scalar", slot) or ("node", number)
Interval = tuple[int, int]  # the least and the greatest value


@dataclass(frozen=True, slots=True)
class Affine:
    """``const + sum(coefficient * atom)``; terms are in order and no coefficient is 0."""

    terms: tuple[tuple[Atom, int], ...]
    const: int = 0

    def __add__(self, other: Affine) -> Affine:
        total = dict(self.terms)
        for atom, coefficient in other.terms:
            total[atom] = total.get(atom, 0) + coefficient
        return Affine(tuple(sorted((a, c) for a, c in total.items() if c)), self.const + other.const)

    def __mul__(self, factor: int) -> Affine:
        terms = tuple((a, c * factor) for a, c in self.terms) if factor else ()
        return Affine(terms, self.const * factor)

    def __sub__(self, other: Affine) -> Affine:
        return self + other * -1

    @property
    def axes(self) -> frozenset[int]:
        """The axes it moves along."""
        return frozenset(number for (kind, number), _ in self.terms if kind == "axis")

    @property
    def plain(self) -> bool:
        """Whether it is made of positions alone."""
        return all(kind == "axis" for (kind, _), _ in self.terms)

    def coefficient(self, atom: Atom) -> int:
        """Of an atom; 0 where it does not occur."""
        return dict(self.terms).get(atom, 0)

    def interval(self, of: Callable[[Atom], Interval]) -> Interval:
        """Its bounds, from those of its atoms."""
        low = high = self.const
        for atom, c in self.terms:
            a, b = of(atom)
            low += min(c * a, c * b)
            high += max(c * a, c * b)
        return low, high

    def replaced(self, atom: Atom, value: Affine) -> Affine:
        """With another value for an atom."""
        c = self.coefficient(atom)
        return self if not c else self + (value - Affine(((atom, 1),))) * c


def constant(value: int) -> Affine:
    """A number."""
    return Affine((), value)


def atom(kind: str, number: int) -> Affine:
    """One atom."""
    return Affine((((kind, number), 1),))


# --- conditions ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Truth:
    value: bool


@dataclass(frozen=True, slots=True)
class Test:
    """``value >= 0``, ``== 0`` or ``!= 0`` as `how` is ``"ge"``, ``"eq"`` or ``"ne"``."""

    how: str
    value: Affine


@dataclass(frozen=True, slots=True)
class Flag:
    """The value of a bool node, or its opposite."""

    node: int
    holds: bool = True


@dataclass(frozen=True, slots=True)
class All:
    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Some:
    parts: tuple[Condition, ...]


Condition = Truth | Test | Flag | All | Some
ALWAYS, NEVER = Truth(True), Truth(False)


def negated(condition: Condition) -> Condition:
    """The opposite."""
    match condition:
        case Truth(value):
            return Truth(not value)
        case Test("ge", value):
            return Test("ge", value * -1 + constant(-1))
        case Test(how, value):
            return Test("ne" if how == "eq" else "eq", value)
        case Flag(node, holds):
            return Flag(node, not holds)
        case All(parts):
            return some(*map(negated, parts))
    return every(*map(negated, condition.parts))


def conjuncts(condition: Condition) -> tuple[Condition, ...]:
    """What must hold together; () for what always holds."""
    if condition == ALWAYS:
        return ()
    return condition.parts if isinstance(condition, All) else (condition,)


def every(*conditions: Condition) -> Condition:
    """All of them."""
    parts: dict[Condition, None] = {}
    for condition in conditions:
        parts.update(dict.fromkeys(conjuncts(condition)))
    if NEVER in parts or any(negated(p) in parts for p in parts if not isinstance(p, All | Some)):
        return NEVER
    for part in list(parts):
        if isinstance(part, Some):  # what is among its parts holds already
            left = [p for p in part.parts if negated(p) not in parts]
            if any(p in parts for p in part.parts):
                del parts[part]
            elif len(left) < len(part.parts):
                del parts[part]
                return every(*parts, some(*left))
    if not parts:
        return ALWAYS
    return next(iter(parts)) if len(parts) == 1 else All(tuple(parts))


def some(*conditions: Condition) -> Condition:
    """At least one of them."""
    parts: dict[Condition, None] = {}
    for condition in conditions:
        parts.update(dict.fromkeys(condition.parts if isinstance(condition, Some) else (condition,)))
    parts.pop(NEVER, None)
    if ALWAYS in parts or any(negated(p) in parts for p in parts):
        return ALWAYS
    if not parts:
        return NEVER
    return next(iter(parts)) if len(parts) == 1 else Some(tuple(parts))


def tests(condition: Condition) -> Iterator[Test | Flag]:
    """Every test and flag in a condition."""
    if isinstance(condition, All | Some):
        for part in condition.parts:
            yield from tests(part)
    elif not isinstance(condition, Truth):
        yield condition


def mapped(condition: Condition, change: Callable[[Affine], Affine]) -> Condition:
    """A condition with its integers changed."""
    match condition:
        case Test(how, value):
            return Test(how, change(value))
        case All(parts):
            return every(*(mapped(p, change) for p in parts))
        case Some(parts):
            return some(*(mapped(p, change) for p in parts))
    return condition


def decided(condition: Condition, of: Callable[[Atom], Interval]) -> Condition:
    """A condition without what the bounds of its atoms tell."""
    match condition:
        case Test(how, value):
            low, high = value.interval(of)
            if how == "ge":
                return ALWAYS if low >= 0 else NEVER if high < 0 else condition
            if low > 0 or high < 0:
                return Truth(how == "ne")
            return Truth(how == "eq") if low == high else condition
        case All(parts):
            return every(*(decided(p, of) for p in parts))
        case Some(parts):
            return some(*(decided(p, of) for p in parts))
    return condition
