"""What a loop gathers up in a variable: a sum, a product, a maximum and the like."""

from __future__ import annotations

from collections.abc import Sequence

from .affine import Affine, All, Condition, Flag, Some, Test, atom, conjuncts, constant, every, negated, some
from .symbolic import BOOL, INT64_BOUNDS, Expressions, NoPoints, Ref, Source, identity, mentioned


def gathered(e: Expressions, after: Source, phi: Source, before: Source, axis: int, mine: set[int]) -> Source:
    """What a variable holds after a loop, in each turn of which something is added to it, or the like."""
    how, terms = _peeled(e, after, phi)
    if any(mine & e.depends(t) for t in terms):
        raise NoPoints("each turn of a loop needs the one before")
    value = terms[0]
    for term in terms[1:]:
        value = _combined(e, how, value, term)
    axes: tuple[int, ...] = (axis,)
    inner = e.nodes[mentioned(value)[0]] if _is_node(value) else None
    if inner is not None and inner.op == "reduce" and inner.attrs[0] == how:
        value = inner.args[0]
        axes = (axis, *inner.attrs[1])
    dtype = e.dtype(value)
    bounds = None
    if isinstance(value, Affine):
        low, high = e.narrow(value).interval(e.interval)
        count = 1
        for a in axes:
            count *= e.extents[a] if how == "add" else 1
        bounds = (min(low, low * count), max(high, high * count)) if how != "mul" else INT64_BOUNDS
    result = e.node("reduce", dtype, (value,), (how, axes), bounds)
    return _combined(e, how, before, result)


def _combined(e: Expressions, how: str, x: Source, y: Source) -> Source:
    number = e.nodes[x.node] if isinstance(x, Ref) else None
    if number is not None and how == "add" and number.op == "number" and number.attrs[0] == 0:
        return y
    return e.primitive(how, e.dtype(x), (x, y))


def _peeled(e: Expressions, value: Source, base: Source) -> tuple[str, list[Source]]:
    """``value`` as ``base`` combined with other values in one way: which, and with what."""
    how = ""
    found: list[Source] = []
    phi = min(e.depends(base))
    while value != base:
        name, terms, value = _step(e, value, base, phi)
        if how not in ("", name):
            raise NoPoints("each turn of a loop needs the one before")
        how = name
        found += terms
    return how, found


def _step(e: Expressions, value: Source, base: Source, phi: int) -> tuple[str, list[Source], Source]:
    """One step of `_peeled`: how, with what, and what remains."""
    refused = NoPoints("each turn of a loop needs the one before")
    if isinstance(value, Affine):
        holders = [a for a, c in value.terms if a[0] == "node" and phi in e.phis[a[1]]]
        if len(holders) != 1 or value.coefficient(holders[0]) != 1:
            raise refused
        rest = value - atom(*holders[0])
        if rest != constant(0):
            return "add", [rest], atom(*holders[0])
        node = e.nodes[holders[0][1]]
    elif isinstance(value, Ref):
        node = e.nodes[value.node]
    else:
        if isinstance(value, All | Some):
            mine = [p for p in value.parts if phi in e.depends(p)]
            others = [p for p in value.parts if p not in mine]
            if len(mine) == 1 and others:
                if isinstance(value, Some):
                    return "or", [some(*others)], _without(mine[0], others)
                return "and", [every(*others)], mine[0]
        raise refused
    if node.op == "where":
        condition, x, y = node.args
        assert not isinstance(condition, Ref | Affine)
        extreme = _extreme(e, condition, x, y, base)
        if extreme is not None:
            return extreme
        if max(mentioned(x), default=-1) < max(mentioned(y), default=-1):  # the later holds the earlier
            x, y, condition = y, x, negated(condition)
        if phi not in e.depends(y) or phi in e.depends(condition) or phi not in e.depends(x):
            raise refused
        how, terms = _peeled(e, x, y)
        dtype = node.dtype
        first = e.number(identity(how, dtype), dtype, False)
        return how, [e.select(condition, t, first) for t in terms], y
    if node.op not in ("add", "sub", "mul", "max", "min", "and", "or"):
        raise refused
    x, y = node.args
    if node.op == "sub":
        if phi in e.depends(y):
            raise refused
        return "add", [e.primitive("neg", node.dtype, (y,))], x
    if phi in e.depends(x) and phi in e.depends(y):
        raise refused
    if node.op in ("and", "or"):
        raise refused
    return (node.op, [y], x) if phi in e.depends(x) else (node.op, [x], y)


def _extreme(
    e: Expressions, condition: Condition, x: Source, y: Source, base: Source
) -> tuple[str, list[Source], Source] | None:
    """A step ``x if base < x else base`` as a maximum, or the like as a minimum; None for any other."""
    if isinstance(condition, Flag) and not condition.holds:
        condition, x, y = Flag(condition.node), y, x
    if isinstance(condition, Test):
        if condition.how != "ge" or not isinstance(x, Affine) or not isinstance(y, Affine):
            return None
        for how, difference in (("max", x - y), ("min", y - x)):
            if condition.value - difference in (constant(0), constant(-1)):
                # Where it does not hold, the greater one is y.
                return (how, [x], base) if y == base else (how, [y], base) if x == base else None
        return None
    if not isinstance(condition, Flag) or e.nodes[condition.node].op not in ("lt", "le"):
        return None
    args = e.nodes[condition.node].args
    if args not in ((x, y), (y, x)) or base not in (x, y):
        return None
    how = "max" if args == (y, x) else "min"
    other = x if y == base else y
    dtype = e.dtype(other)
    if dtype.kind in "fV":
        if y != base:
            return None  # NaN would replace what was there
        number = e.primitive("eq", BOOL, (other, other))
        assert not isinstance(number, Ref | Affine)
        other = e.select(number, other, e.number(identity(how, dtype), dtype, False))
    return how, [other], base


def _without(part: Condition, others: Sequence[Condition]) -> Condition:
    """A part of an alternative, without what the other parts say no to: it matters only where they fail."""
    left = [p for p in conjuncts(part) if negated(p) not in others]
    return every(*left)


def _is_node(source: Source) -> bool:
    if isinstance(source, Affine):
        return source.const == 0 and [(kind, n) for (kind, _), n in source.terms] == [("node", 1)]
    return isinstance(source, Ref) or (isinstance(source, Flag) and source.holds)
