"""Threads past the end of the arrays, in blocks whose threads wait for each other.

Such threads cannot be left out: they have their part in what the block does together. They touch nothing by
their own id instead: what they would load there is 0, and what they would store there is dropped.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from . import Atomic, Block, If, Let, Set, Store, StructuredKernel, walk
from .rewrite import Writer

BOOL = np.dtype(np.bool_)
INT64 = np.dtype(np.int64)


def past_end(kernel: StructuredKernel) -> StructuredKernel:
    """The kernel with a guard around each access of an array by a thread's own id."""
    return _Guards(kernel).run()


class _Guards(Writer):
    def __init__(self, kernel: StructuredKernel) -> None:
        super().__init__(kernel)
        self.kernel = kernel
        self.ids = {s.value for s in walk(kernel.body) if isinstance(s, Let) and s.op == "global_id"}
        self.variables = list(kernel.variables)

    def run(self) -> StructuredKernel:
        self._statements(self.kernel.body)
        return replace(self.kernel, body=tuple(self.body), variables=tuple(self.variables))

    def _statements(self, body: Block) -> None:
        for s in body:
            match s:
                case Let(_, "load", _, args, (array, _)):
                    self._load(s, self._inside(array, args))
                case Store() | Atomic(result=-1):
                    inside = self._inside(s.array, s.indices)
                    self.put(s if inside is None else If(inside, (s,)))
                case _:
                    self.put(self._within(s))

    def _within(self, statement: Any) -> Any:
        """A statement with its blocks rewritten."""
        found: dict[str, Block] = {}
        for name in ("then", "orelse", "head", "body"):
            if hasattr(statement, name):
                with self.block() as written:
                    self._statements(getattr(statement, name))
                found[name] = tuple(written)
        return replace(statement, **found) if found else statement

    def _inside(self, array: int, indices: tuple[int, ...]) -> int | None:
        """Whether the ids among the indices are inside an array; None where there are none."""
        found: int | None = None
        for axis, index in enumerate(indices):
            if index in self.ids and array < len(self.kernel.arrays):
                extent = self.let("extent", INT64, attrs=(array, axis))
                inside = self.let("lt", BOOL, index, extent)
                found = inside if found is None else self.let("and", BOOL, found, inside)
        return found

    def _load(self, load: Let, inside: int | None) -> None:
        if inside is None:
            self.put(load)
            return
        variable = len(self.variables)
        self.variables.append(load.dtype)
        self.put(Set(variable, self.const(load.dtype.type(0).item(), load.dtype)))
        with self.block() as written:
            value = self.let("load", load.dtype, *load.args, attrs=load.attrs)
            self.put(Set(variable, value))
        self.put(If(inside, tuple(written)))
        self.put(Let(load.value, "get", load.dtype, (), (variable,)))
