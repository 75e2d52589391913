"""What the loop strategies need to know of a kernel: the axes a value varies along, the pass it exists in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

import numpy as np

from ..ir import Kernel, Stride

# An integer value is one of these along the lane axis; anything else is None.
UNIFORM, CONSECUTIVE = 0, 1


def interleaved_stores(kernel: Kernel, strides: Mapping[int, int]) -> dict[int, list[int]]:
    """Stores that together write every element between them.

    Parameters
    ----------
    kernel : Kernel
    strides : mapping of int to int
        Anchors and their strides along the lane axis, where known.

    Returns
    -------
    dict
        For each such anchor, as many stores as its stride, from the first element to the last.
    """
    groups: dict[int, dict[int, int]] = {}
    for n, instr in enumerate(kernel.body):
        if instr.op == "store":
            access = kernel.accesses[instr.attrs[0]]
            if access.anchor in strides and Stride.ZERO not in access.layout[: kernel.parallel]:
                groups.setdefault(access.anchor, {})[access.delta] = n
    return {
        anchor: [stores[delta] for delta in sorted(stores)]
        for anchor, stores in groups.items()
        if len(stores) == strides[anchor] == max(stores) - min(stores) + 1
    }


class Analysis:
    """Facts about the body of a kernel.

    Attributes
    ----------
    axes : tuple of int
        For each instruction, the set of axes (bits) along which its value varies; for a store,
        the axes along which it writes.
    stage : tuple of int
        For each instruction, how many reductions it depends on in sequence: it exists in pass `stage`.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.parallel_axes = (1 << kernel.parallel) - 1
        axes: list[int] = []
        stage: list[int] = []
        for instr in kernel.body:
            bits = 0
            passes = 0
            for a in instr.args:
                bits |= axes[a]
                passes = max(passes, stage[a])
            if instr.op in ("load", "store"):
                layout = kernel.accesses[instr.attrs[0]].layout
                bits |= sum(1 << k for k, c in enumerate(layout) if c != Stride.ZERO)
            elif instr.op == "index":
                bits |= 1 << instr.attrs[0]
            elif instr.op == "shift":
                bits = self.parallel_axes  # read from a tile
            elif instr.op == "reduce":
                bits &= self.parallel_axes
                passes += 1
            axes.append(bits)
            stage.append(passes)
        self.axes = tuple(axes)
        self.stage = tuple(stage)

    @cached_property
    def stores(self) -> tuple[int, ...]:
        return tuple(n for n, i in enumerate(self.kernel.body) if i.op == "store")

    @cached_property
    def reduces(self) -> tuple[int, ...]:
        return tuple(n for n, i in enumerate(self.kernel.body) if i.op == "reduce")

    @cached_property
    def last_stage(self) -> int:
        return max((self.stage[r] for r in self.reduces), default=0)

    def is_inner(self, n: int) -> bool:
        """Whether the value varies along a reduced axis."""
        return self.axes[n] & ~self.parallel_axes != 0

    def closure(self, roots: Iterable[int], stop: Iterable[int] = ()) -> list[int]:
        """The roots and all they depend on, in order, without going past `stop`."""
        body = self.kernel.body
        halted = set(stop)
        seen: set[int] = set()
        pending = list(roots)
        while pending:
            n = pending.pop()
            if n in seen:
                continue
            seen.add(n)
            if n not in halted:
                pending.extend(body[n].args)
        return sorted(seen)

    def along(self, lane: int) -> list[int | None]:
        """For each value how it goes along an axis: uniform, consecutive integers, or neither."""
        kernel = self.kernel
        result: list[int | None] = []
        for n, instr in enumerate(kernel.body):
            kind: int | None = None
            if not self.axes[n] >> lane & 1:
                kind = UNIFORM
            elif instr.dtype == np.int64:
                kinds = [result[a] for a in instr.args]
                if (
                    instr.op == "index"
                    or (
                        instr.op == "add"
                        and sorted(k if k is not None else 9 for k in kinds) == [UNIFORM, CONSECUTIVE]
                    )
                    or (instr.op == "sub" and kinds == [CONSECUTIVE, UNIFORM])
                ):
                    kind = CONSECUTIVE
                elif instr.op == "cast" and kernel.body[instr.args[0]].dtype == np.int64:
                    kind = kinds[0]
            result.append(kind)
        return result
