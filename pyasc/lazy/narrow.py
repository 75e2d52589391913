"""64-bit integers that a trace's structure shows to fit 32 bits, for chips that compute in no more.

Positions along axes, the places of extremes and small integers that were converted are *narrow*. So are flat
indices of gathers, whose parts are positions within one array, and counters of random bits; the numbers that
these are made of, and loads, may be more than 32 bits and still give the same element.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ops.primitives import CAST, FULL, GATHER, IOTA, RANDOM_BITS, REDUCE, SCALAR, VIEW
from .simplify import Value

INT32, INT64, UINT64 = (np.dtype(t) for t in (np.int32, np.int64, np.uint64))
LARGEST = 1 << 31


class Narrow:
    """The narrow values of a trace.

    Parameters
    ----------
    values : sequence of Value
    wanted : bool
        Otherwise none is: the backend has code for 64 bits.
    """

    def __init__(self, values: Sequence[Value], wanted: bool) -> None:
        self._values = values
        self._narrow: set[int] = set()  # ids
        self._places: set[int] = set()  # of those, flat indices and counters with their parts
        if wanted:
            self._find()

    def dtypes(self, value: Value) -> tuple[Any, ...]:
        """Of what code for a value has to do with, its operands and itself: int32 for what is narrow."""
        values = (value, *(self._values[o] for o in value.operands))
        if id(value) in self._places:  # and so do the numbers that it is made of, and loads saturate
            return tuple(INT32 if v.dtype in (INT64, UINT64) else v.dtype for v in values)
        return tuple(INT32 if id(v) in self._narrow else v.dtype for v in values)

    def _find(self) -> None:
        """Positions and what is counted in 32 bits, as far as the structure tells."""
        for value in self._values:
            if value.dtype != INT64:
                continue
            first = self._values[value.operands[0]] if value.operands else value
            if (
                (value.primitive is IOTA and max(value.shape, default=0) < LARGEST)
                or (value.primitive is CAST and first.dtype.kind in "iub" and first.dtype.itemsize <= 4)
                or (value.primitive is REDUCE and value.attrs[0].startswith("arg") and first.size < LARGEST)
                or (value.primitive is VIEW and id(first) in self._narrow)
            ) and first.dtype != np.uint32:
                self._narrow.add(id(value))
        for value in self._values:
            if value.primitive is GATHER and self._values[value.operands[0]].size < LARGEST:
                self._find_places(value.operands[1])
            elif value.primitive is RANDOM_BITS:
                self._find_counter(value)

    def _find_places(self, index: int) -> None:
        """What the flat index of a gather is made of: positions, none negative, in its base together."""
        chain: list[Value] = []
        pending = [index]
        while pending:
            value = self._values[pending.pop()]
            name = value.primitive.name
            if value.primitive is SCALAR or value.primitive is FULL or id(value) in self._narrow:
                continue
            if name not in ("add", "mul", "wrap_index") and value.primitive is not VIEW:
                return
            if value.dtype != INT64:
                return
            chain.append(value)
            if name != "wrap_index":
                pending += value.operands
        self._narrow.update(id(v) for v in chain)
        self._places.update(id(v) for v in chain)

    def _find_counter(self, bits: Value) -> None:
        """What random bits count: positions, perhaps from a number on, of which the chip makes two words."""
        chain = [self._values[bits.operands[0]]]
        if chain[0].primitive.name == "add":
            operands = [self._values[o] for o in chain[0].operands]
            chain += [v for v in operands if v.primitive is not SCALAR]
        if len(chain) > 2 or chain[-1].primitive is not CAST:
            return
        position = self._values[chain[-1].operands[0]]
        while position.primitive is VIEW:
            position = self._values[position.operands[0]]
        if position.primitive is IOTA and id(position) in self._narrow:
            self._narrow.update(id(v) for v in chain)
            self._places.update(id(v) for v in (bits, *chain))
