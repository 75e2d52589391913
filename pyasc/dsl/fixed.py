"""Kernels for one shape only: sizes as constants of the code."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..backend.structured import Block, Let, StructuredKernel


def fixed(kernel: StructuredKernel, shapes: tuple[tuple[int, ...], ...]) -> StructuredKernel:
    """The kernel with the sizes of its arrays written into it."""
    return replace(kernel, body=_fixed(kernel.body, shapes))


def _fixed(body: Block, shapes: tuple[tuple[int, ...], ...]) -> Block:
    made: list[Any] = []
    for statement in body:
        if isinstance(statement, Let) and statement.op == "extent":
            array, axis = statement.attrs
            statement = replace(statement, op="const", attrs=(shapes[array][axis],))
        inner: dict[str, Any] = {
            name: _fixed(getattr(statement, name), shapes)
            for name in ("then", "orelse", "head", "body")
            if hasattr(statement, name)
        }
        made.append(replace(statement, **inner) if inner else statement)
    return tuple(made)
