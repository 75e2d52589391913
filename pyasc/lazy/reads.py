"""What computing a value reads, views resolved."""

from __future__ import annotations

from ..ops.primitives import FULL, GATHER, IOTA, SCALAR, UPDATE, VIEW
from .domain import Access, Domain, decompose, through_view
from .simplify import Value


def sources(
    values: tuple[Value, ...], stored: set[int] | frozenset[int], v: int
) -> list[tuple[int, Value | None]]:
    """The values that computing `v` reads point by point, each with the view it is read through.

    Scalars and constants are left out, and so is the base of an update or a gather, which is read as a whole.
    """
    value = values[v]
    operands = value.operands
    if value.primitive is UPDATE or value.primitive is GATHER:
        operands = operands[1:]
    elif value.primitive is VIEW:
        base = values[operands[0]]
        return [] if base.primitive is IOTA and operands[0] not in stored else [(operands[0], value)]
    result: list[tuple[int, Value | None]] = []
    for o in operands:
        operand = values[o]
        if operand.primitive in (SCALAR, FULL, IOTA) and o not in stored:
            continue
        if operand.primitive is VIEW and o not in stored:
            root = operand.operands[0]
            if values[root].primitive is not IOTA or root in stored:
                result.append((root, operand))
        else:
            result.append((o, None))
    return result


def operand_accesses(
    values: tuple[Value, ...], stored: set[int] | frozenset[int], v: int, access: Access, domain: Domain
) -> list[tuple[int, Access | None]] | None:
    """What computing value `v` at `access` reads: each operand (views resolved) and the access to it.

    The access is None for scalars and constants, and for the base of a gather, which is read as a whole.
    The result is None where an index would not be affine.
    """
    value = values[v]
    if value.primitive is VIEW:
        at = through_view(access, domain.extents, value.shape, *value.attrs)
        return None if at is None else [(value.operands[0], at)]
    if value.primitive is IOTA:
        return None if decompose(access, domain.extents, value.shape) is None else []
    result: list[tuple[int, Access | None]] = []
    for n, o in enumerate(value.operands):
        operand = values[o]
        constant = operand.primitive is SCALAR or (operand.primitive is FULL and o not in stored)
        if constant or (value.primitive is GATHER and n == 0):
            result.append((o, None))
        elif operand.primitive is VIEW and o not in stored:
            at = through_view(access, domain.extents, operand.shape, *operand.attrs)
            if at is None:
                return None
            result.append((operand.operands[0], at))
        else:
            result.append((o, access))
    return result
