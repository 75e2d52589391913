"""Reductions: what each pass over the reduced axes computes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ...ops.primitives import PRIMITIVES
from ..ir import Kernel
from .analysis import Analysis

Dtype = np.dtype[Any]
INT64 = np.dtype(np.int64)
UINT8 = np.dtype(np.uint8)
FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)

# A value is kept between two passes over a row if computing it takes more additions than this.
KEEP_COST = 6.0


class Passes:
    """The instructions of each pass.

    Pass s runs over the reduced axes once, with what the passes before it reduced at hand.

    Parameters
    ----------
    analysis : Analysis
    keep : bool
        Whether expensive inner values are kept in scratch memory for later passes.
    """

    def __init__(self, analysis: Analysis, keep: bool) -> None:
        self.analysis = analysis
        self.keep = keep
        kernel = analysis.kernel
        self.count = analysis.last_stage + 1
        self.reduces = [
            [r for r in analysis.reduces if analysis.stage[r] == s + 1] for s in range(self.count)
        ]
        self.stores = [
            [n for n in analysis.stores if analysis.is_inner(n) and analysis.stage[n] == s]
            for s in range(self.count)
        ]
        outer_stores = [n for n in analysis.stores if not analysis.is_inner(n)]
        needed = analysis.closure(
            [*outer_stores, *(n for stores in self.stores for n in stores), *analysis.reduces]
        )
        # Outer instructions, stores included, that can run once pass s - 1 is done.
        self.outer = [
            [
                n
                for n in needed
                if not analysis.is_inner(n) and analysis.stage[n] == s and kernel.body[n].op != "reduce"
            ]
            for s in range(self.count)
        ]

    def _roots(self, s: int) -> list[int]:
        return [*self.stores[s], *(self.analysis.kernel.body[r].args[0] for r in self.reduces[s])]

    def _inner(self, s: int, kept: Sequence[int]) -> list[int]:
        analysis = self.analysis
        outer = [n for n in range(len(analysis.axes)) if not analysis.is_inner(n)]
        return [n for n in analysis.closure(self._roots(s), [*outer, *kept]) if analysis.is_inner(n)]

    @cached_property
    def kept(self) -> dict[int, int]:
        """The values kept in scratch memory, with the pass that computes each."""
        if not self.keep:
            return {}
        body = self.analysis.kernel.body
        result: dict[int, int] = {}
        computed: dict[int, int] = {}
        for s in range(self.count):
            inner = set(self._inner(s, list(result)))
            for n in sorted(inner):
                if n not in computed or n in result:
                    continue
                wanted = n in self._roots(s) or any(n in body[u].args and u not in computed for u in inner)
                if wanted and body[n].op not in ("load", "index") and self._cost(n) > KEEP_COST:
                    result[n] = computed[n]
            for n in inner:
                computed.setdefault(n, s)
        return result

    def _cost(self, n: int) -> float:
        body = self.analysis.kernel.body
        return sum(
            PRIMITIVES[body[k].op].cost
            for k in self.analysis.closure([n])
            if self.analysis.is_inner(k) and body[k].op in PRIMITIVES
        )

    def inner(self, s: int) -> list[int]:
        """What pass s computes for every point, kept values of earlier passes at hand."""
        kept = [n for n, computed in self.kept.items() if computed < s]
        return [n for n in self._inner(s, kept) if n not in kept]

    def recalled(self, s: int) -> list[int]:
        """The kept values that pass s reads."""
        kept = [n for n, computed in self.kept.items() if computed < s]
        return [n for n in self._inner(s, kept) if n in kept]

    def saved(self, s: int) -> list[int]:
        """The values that pass s keeps."""
        return [n for n, computed in self.kept.items() if computed == s]


def block_dtype(kernel: Kernel, reduce: int) -> Dtype:
    """The dtype in which the elements of a block are accumulated.

    Blocks are short, so that float32 does; what blocks give is summed in float64, or the error of a long sum
    would grow with its length.
    """
    dtype = kernel.body[kernel.body[reduce].args[0]].dtype
    return FLOAT32 if dtype.itemsize == 2 and dtype.kind in "fV" else dtype


def state_dtypes(kernel: Kernel, reduce: int) -> tuple[Dtype, ...]:
    """The dtypes of the parts of a reduction's state: the value, and of argmax and argmin its position."""
    instr = kernel.body[reduce]
    dtype = kernel.body[instr.args[0]].dtype
    positions = instr.attrs[0] in ("argmax", "argmin")
    if instr.attrs[0] == "add" and block_dtype(kernel, reduce) == FLOAT32:
        dtype = FLOAT64
    elif dtype.itemsize == 2 and dtype.kind in "fV":
        dtype = FLOAT32
    elif dtype.kind == "b" and positions:
        dtype = UINT8
    return (dtype, INT64) if positions else (dtype,)
