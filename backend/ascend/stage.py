"""What a kernel does for each tile: copies in, instructions, copies out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..ir import Kernel
from .folding import PITCH, STRIPS
from .plane import Plane
from .tile import Value, VectorInstr
from .ways import Way

Dtype = np.dtype[Any]
# Instructions of the tile form's own that move elements: `transfers` writes them.
MOVES = ("Pick", "Every", "Turn", "ToSlots", "Window", "GatherPoints", "GatherRows", "GatherTable")


@dataclass(frozen=True, slots=True)
class Transfer:
    """A copy of a tile between memory and UB."""

    access: int
    value: Value
    way: Way


@dataclass(frozen=True, slots=True)
class ScalarLoad:
    """A single element that the scalar unit reads; `name` is the C++ variable."""

    access: int
    name: str
    dtype: Dtype


@dataclass(eq=False)
class Stage:
    """One group of copies in, instructions and copies out.

    Attributes
    ----------
    name : str
    loops : bool
        Whether it runs once for each tile of the reduced axes.
    once : bool
        Whether it runs once for a core, before all tiles: what it loads is the same for each of them.
    before, after : list of VectorInstr
        Run once, before and after that loop.
    """

    name: str
    loops: bool = False
    once: bool = False
    scalars: list[ScalarLoad] = field(default_factory=list)
    loads: list[Transfer] = field(default_factory=list)
    before: list[VectorInstr] = field(default_factory=list)
    body: list[VectorInstr] = field(default_factory=list)
    after: list[VectorInstr] = field(default_factory=list)
    stores: list[Transfer] = field(default_factory=list)

    def instrs(self) -> Iterable[VectorInstr]:
        """All instructions, in order."""
        yield from self.before
        yield from self.body
        yield from self.after


@dataclass
class Stages:
    """The stages of a kernel, in order, over one plane."""

    kernel: Kernel
    plane: Plane
    whole: bool
    stages: list[Stage]
    values: int

    @property
    def pitch_granule(self) -> int:
        """What rows are padded to, in lanes, for the way they are folded."""
        folds = [i.attrs[1] for s in self.stages for i in s.instrs() if i.op == "Reduce"]
        return PITCH[folds[0] if folds and self.plane.reduces_lanes else STRIPS]
