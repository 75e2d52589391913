"""How the values of a structured kernel vary along the lanes of a vector, and where control flow parts them.

A vector runs neighbouring threads side by side, as ispc does (Pharr and Mark, "ispc: a SPMD compiler for
high-performance CPU programming", 2012). What is equal in all lanes is computed once, as a scalar; what grows
by a constant from lane to lane is known by its first lane; the rest are vectors. A condition that differs
between lanes makes masks, any other one branches.

A *region* is a piece of the program that a subset of the lanes runs together: a branch of a condition that
varies, the body of a loop that lanes leave one by one, what follows a statement where some of them left.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from ....ops.primitives import PRIMITIVES
from ...ir import Dtype, Stride
from ...structured import (
    Array,
    Atomic,
    Block,
    Break,
    Continue,
    For,
    If,
    Let,
    Return,
    Set,
    Span,
    Statement,
    Store,
    StructuredKernel,
    While,
    blocks,
)

INT64 = np.dtype(np.int64)
# Turns that a loop is taken to make where nothing is known of it.
TURNS = 16
# And points that a span has.
POINTS = 256
_LIGHT_STATEMENTS = 12


@dataclass(eq=False, slots=True)
class Node:
    """A statement where it stands.

    Attributes
    ----------
    statement : Statement
    blocks : tuple of lists of Node
    varying : bool
        Of an ``if``: whether the condition differs between lanes.
    masked : bool
        Of a loop: whether lanes leave it one by one.
    leaves : bool
        Whether some lanes may leave within, so that what follows is for fewer lanes.
    jump : bool
        Of ``break``, ``continue`` and ``return``: whether all lanes that are there take it together.
    blend : bool
        Of `Set`: whether lanes that are not there must keep what they have.
    sets : frozenset of int
        The variables that are set within.
    returns : bool
        Whether some lanes may return within.
    light : bool
        Whether it is so little, and so harmless, that it is run also where no lane asks for it.
    """

    statement: Statement
    blocks: tuple[list[Node], ...]
    varying: bool = False
    masked: bool = False
    leaves: bool = False
    jump: bool = True
    blend: bool = False
    sets: frozenset[int] = frozenset()
    returns: bool = False
    light: bool = False


def _node(statement: Statement) -> Node:
    node = Node(statement, tuple([_node(s) for s in block] for block in blocks(statement)))
    within = [child for block in node.blocks for child in block]
    node.sets = frozenset().union(*(child.sets for child in within))
    match statement:
        case Set(variable):
            node.sets = frozenset((variable,))
            node.light = True
        case Let(_, op):
            heavy = op in ("load", "call") or (op in PRIMITIVES and PRIMITIVES[op].cost > 8)
            node.light = not heavy
        case If():
            node.light = len(within) <= _LIGHT_STATEMENTS and all(child.light for child in within)
    return node


@dataclass(eq=False)
class Variation:
    """What `analyse` finds out.

    Attributes
    ----------
    kernel : StructuredKernel
    lane : int
        The axis of the grid that the lanes go along; -1 where only spans have lanes.
    scalar : bool
        Whether there is one lane only, so that nothing varies.
    body : list of Node
    steps : dict of int to int or None
        By how much a value grows from lane to lane; 0 where it is uniform, None where that varies.
    variables : dict of int to int or None
        The same of variables.
    dtypes : dict of int to dtype
    constants : dict of int to int
        Values that are integers of the program's text.
    """

    kernel: StructuredKernel
    lane: int
    scalar: bool
    body: list[Node]
    steps: dict[int, int | None] = field(default_factory=dict)
    variables: dict[int, int | None] = field(default_factory=dict)
    dtypes: dict[int, Dtype] = field(default_factory=dict)
    constants: dict[int, int] = field(default_factory=dict)

    def step(self, value: int) -> int | None:
        return self.steps.get(value, 0)


def analyse(kernel: StructuredKernel, lane: int, scalar: bool = False) -> Variation:
    """Find out how values vary along an axis of the grid, or along the last axis of each span."""
    found = Variation(kernel, lane, scalar, [_node(s) for s in kernel.body])
    analysis = _Analysis(found)
    while analysis.run():
        pass
    return found


class _Analysis:
    """Runs over the program until nothing changes: values only ever go from uniform to varying."""

    def __init__(self, found: Variation) -> None:
        self.found = found
        self.kernel = found.kernel
        self.changed = False
        self.spans = 0
        self.parents: list[int] = []
        self.sets: dict[int, list[tuple[int, Node]]] = {}
        self.gets: dict[int, list[int]] = {}

    def run(self) -> bool:
        self.changed = False
        self.parents = [-1]
        self.sets, self.gets = defaultdict(list), defaultdict(list)
        self.block(self.found.body, 0, None, True, True)
        for variable, sets in self.sets.items():
            self._variable(variable, sets)
        return self.changed

    def _variable(self, variable: int, sets: list[tuple[int, Node]]) -> None:
        known, found = self.found.variables, self.found
        steps = {found.steps[v] for _, node in sets if (v := node.statement.value) in found.steps}  # type: ignore[union-attr]
        if not steps:
            return  # not known yet
        regions = {region for region, _ in sets}
        gets = self.gets[variable]
        step = steps.pop() if len(steps) == 1 else None
        together = len(regions) == 1 and all(self._within(get, min(regions)) for get in gets)
        if not found.scalar and (not together or known.get(variable, 0) is None):
            step = None
        if variable in known and known[variable] != step:
            step = None  # grows by different steps in turn
        if known.get(variable, -1) != step or variable not in known:
            known[variable] = step
            self.changed = True
        for region, node in sets:
            node.blend = not found.scalar and not all(self._within(get, region) for get in gets)

    def _within(self, region: int, outer: int) -> bool:
        while region > outer:
            region = self.parents[region]
        return region == outer

    def _region(self, parent: int) -> int:
        self.parents.append(parent)
        return len(self.parents) - 1

    def _flag(self, node: Node, name: str, value: bool) -> None:
        if value and not getattr(node, name):
            setattr(node, name, True)
            self.changed = True

    def block(self, nodes: list[Node], region: int, loop: Node | None, together: bool, whole: bool) -> bool:
        """Go over a block; whether lanes may leave within.

        `together` says whether all lanes that are in the innermost loop are here, `whole` whether all are
        that have not returned.
        """
        left = False
        for node in nodes:
            self.statement(node, region, loop, together, whole)
            if node.leaves:
                left = True
                region = self._region(region)
                together = whole = False
        return left

    def statement(self, node: Node, region: int, loop: Node | None, together: bool, whole: bool) -> None:
        found = self.found
        leaves = returns = False
        match node.statement:
            case Let(value, _, dtype):
                step = self._let(node.statement, region)
                if step != "unknown":
                    self._set(value, step, dtype)
            case Set(variable, value):
                self.sets[variable].append((region, node))
                if value in found.steps:
                    found.variables.setdefault(variable, found.steps[value])
            case Atomic():
                if node.statement.result >= 0:
                    dtype = self.kernel.storage(node.statement.array).dtype
                    alone = self.found.lane < 0 and not self.spans
                    self._set(node.statement.result, 0 if alone else None, dtype)
            case If(condition):
                self._flag(node, "varying", found.step(condition) != 0)
                apart = node.varying
                for block in node.blocks:
                    inner = self._region(region) if apart else region
                    leaves |= self.block(block, inner, loop, together and not apart, whole and not apart)
                returns = any(child.returns for block in node.blocks for child in block)
            case For(value, start, stop):
                begin = found.step(start)
                self._set(value, begin if begin == 0 else None, INT64)
                self._flag(node, "masked", begin != 0 or found.step(stop) != 0)
                inner = self._region(region) if node.masked else region
                self.block(node.blocks[0], inner, node, True, whole and not node.masked)
                returns = leaves = any(child.returns for child in node.blocks[0])
                self._flag(node, "masked", returns)
            case While(_, condition):
                inner = self._region(region) if node.masked else region
                for block in node.blocks:
                    self.block(block, inner, node, True, whole and not node.masked)
                self._flag(node, "masked", found.step(condition) != 0)
                returns = leaves = any(child.returns for block in node.blocks for child in block)
                self._flag(node, "masked", returns)
            case Span(values):
                for value in values:
                    self._set(value, 1 if value == values[-1] and not found.scalar else 0, INT64)
                self.spans += 1
                self.block(node.blocks[0], self._region(region), None, True, True)
                self.spans -= 1
            case Break() | Continue():
                assert loop is not None
                self._flag(loop, "masked", not together)
                node.jump = not loop.masked
                leaves = not node.jump
            case Return():
                node.jump = whole
                leaves = returns = not whole
        self._flag(node, "leaves", leaves)
        self._flag(node, "returns", returns)

    def _set(self, value: int, step: int | None, dtype: Dtype) -> None:
        steps = self.found.steps
        if self.found.scalar:
            step = 0
        if value in steps and steps[value] != step:
            step = None
        if value not in steps or steps[value] != step:
            steps[value] = step
            self.found.dtypes[value] = dtype
            self.changed = True

    def _let(self, let: Let, region: int) -> int | Literal["unknown"] | None:
        found = self.found
        match let.op:
            case "global_id":
                return int(let.attrs[0] == found.lane)
            case "local_id" | "group_id":
                return None if let.attrs[0] == found.lane else 0
            case "const":
                if isinstance(let.attrs[0], int):
                    found.constants[let.value] = int(let.attrs[0])
                return 0
            case "get":
                self.gets[let.attrs[0]].append(region)
                return found.variables.get(let.attrs[0], "unknown")
        if not all(a in found.steps for a in let.args):
            return "unknown"
        steps = [found.steps[a] for a in let.args]
        if all(step == 0 for step in steps):
            return 0
        if let.dtype != INT64 or None in steps:
            return None
        match let.op, steps:
            case "add", (int(a), int(b)):
                return a + b
            case "sub", (int(a), int(b)):
                return a - b
            case "neg", (int(a),):
                return -a
            case "cast", (int(a),):
                return a if found.dtypes[let.args[0]] == INT64 else None
            case "mul", (int(a), int(b)):
                x, y = let.args
                if b == 0 and y in found.constants:
                    return a * found.constants[y]
                if a == 0 and x in found.constants:
                    return b * found.constants[x]
        return None


# --- what an access costs ----------------------------------------------------------------------------------


def lane_step(found: Variation, array: int, indices: Sequence[int]) -> int | str | None:
    """By how many elements an access moves from lane to lane.

    ``"strided"`` where that is the same between all lanes but only known by the launch, None where it varies.
    """
    storage = found.kernel.storage(array)
    total, strided = 0, False
    for axis, index in enumerate(indices):
        step = found.step(index)
        if isinstance(storage, Array):
            layout = storage.layout[axis]
            if layout == Stride.ZERO or step == 0:
                continue
            if step is None:
                return None
            if layout == Stride.UNIT:
                total += step
            else:
                strided = True
        else:
            stride = int(np.prod(storage.shape[axis + 1 :], dtype=np.int64))
            if step is None and stride:
                return None
            total += (step or 0) * stride
    return "strided" if strided else total


_LANE_COST = {"load": 1.5, "store": 2.0, "atomic": 3.0}


def register_size(dtype: Dtype) -> int:
    """Bytes of a lane in registers."""
    return 4 if dtype.itemsize == 2 and dtype.kind in "fV" else dtype.itemsize


def walk_weighted(nodes: Iterable[Node], weight: float = 1.0) -> Iterable[tuple[Node, float]]:
    """Every node with how often it is taken to run."""
    for node in nodes:
        yield node, weight
        inner = weight * (TURNS if isinstance(node.statement, (For, While, Span)) else 1)
        for block in node.blocks:
            yield from walk_weighted(block, inner)


def width(found: Variation, register_bits: int) -> int:
    """Lanes of a vector: a register of what is mostly computed in."""
    weights: dict[int, float] = defaultdict(float)
    for node, weight in walk_weighted(found.body):
        statement = node.statement
        match statement:
            case Let(value, op, dtype):
                # A comparison has lanes as wide as what is compared.
                of = found.dtypes.get(statement.args[0], dtype) if op in ("eq", "ne", "lt", "le") else dtype
                if op != "get" and found.step(value) is None and of.kind != "b":
                    weights[register_size(of)] += weight
            case Store() | Atomic():
                weights[register_size(found.kernel.storage(statement.array).dtype)] += weight
    total = sum(weights.values())
    size = max((size for size, weight in weights.items() if weight >= total / 4), default=4)
    return min(register_bits // (8 * size), 64)


def costs(found: Variation, lanes: int) -> tuple[float, float]:
    """What one vector of threads costs, in vector instructions: as vectors, and one by one."""
    vector = scalar = 0.0
    for node, weight in walk_weighted(found.body):
        statement = node.statement
        match statement:
            case Let(value, op):
                if op == "load":
                    vector += weight * _access(found, statement.attrs[0], statement.args, lanes, "load")
                    scalar += weight * lanes
                elif op in PRIMITIVES:
                    cost = PRIMITIVES[op].cost
                    size = register_size(statement.dtype)
                    uniform = found.step(value) is not None
                    vector += weight * cost * (0.25 if uniform else max(1.0, lanes * size / 64))
                    scalar += weight * cost * (0.25 if uniform else lanes)
                elif op == "call":
                    vector += weight * 4 * lanes
                    scalar += weight * 4 * lanes
            case Store():
                vector += weight * _access(found, statement.array, statement.indices, lanes, "store")
                scalar += weight * lanes
            case Atomic():
                vector += weight * _LANE_COST["atomic"] * lanes
                scalar += weight * lanes
            case If():
                vector += weight * (2.0 if node.varying else 0.5)
                scalar += weight * lanes
            case For() | While():
                vector += weight * (2.0 if node.masked else 0.5)
                scalar += weight * lanes
    return vector, scalar


def _access(found: Variation, array: int, indices: Sequence[int], lanes: int, kind: str) -> float:
    step = lane_step(found, array, indices)
    if step == 0 and kind == "load":
        return 0.5
    return 1.0 if step == 1 else 2.0 if step == -1 else _LANE_COST[kind] * lanes


def depth_cost(kernel: StructuredKernel) -> float:
    """The work of one thread in additions."""

    def of(body: Block, weight: float) -> float:
        total = 0.0
        for statement in body:
            if isinstance(statement, Let):
                primitive: Any = PRIMITIVES.get(statement.op)
                total += weight * (primitive.cost if primitive else 1.0)
            elif isinstance(statement, (Store, Atomic)):
                total += weight
            turns = 1
            if isinstance(statement, (For, While)):
                turns = TURNS
            elif isinstance(statement, Span):
                turns = POINTS
            total += sum(of(block, weight * turns) for block in blocks(statement))
        return total

    return of(kernel.body, 1.0)
