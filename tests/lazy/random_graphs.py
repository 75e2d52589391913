"""Random traces of every kind of primitive, and their evaluation through schedule and KernelIR in NumPy."""

from __future__ import annotations

import random
from math import prod
from typing import Any

import numpy as np

from pyasc.backend import reference
from pyasc.backend.verify import verify_binding, verify_kernel
from pyasc.lazy.lower import LoweredKernel, lower
from pyasc.lazy.schedule import Schedule, schedule
from pyasc.lazy.simplify import simplify
from pyasc.ops import _graph
from pyasc.ops import primitives as p
from pyasc.ops._graph import Node, Tape
from pyasc.ops.meaning import strided
from pyasc.ops.storage import contiguous_strides, overlaps_itself

FLOAT, INT = np.dtype(np.float64), np.dtype(np.int64)
MAX_SIZE = 2000


class AnyBackend:
    """Takes every primitive; small limits make the scheduler cut."""

    name = "any"
    fallback: AnyBackend | None = None

    def __init__(
        self, max_instructions: int = 30, max_operands: int = 12, stages_shifts: bool = True
    ) -> None:
        self.stages_shifts = stages_shifts
        self.max_instructions = max_instructions
        self.max_operands = max_operands

    def supports(self, op: str, dtype: np.dtype[Any], attrs: tuple[Any, ...] = ()) -> bool:
        return True


class PartialBackend(AnyBackend):
    """Lacks some primitives, which another one then takes."""

    name = "partial"

    def __init__(self, lacking: set[str], **limits: Any) -> None:
        super().__init__(**limits)
        self.lacking = lacking
        self.fallback = AnyBackend(stages_shifts=True)

    def supports(self, op: str, dtype: np.dtype[Any], attrs: tuple[Any, ...] = ()) -> bool:
        return op not in self.lacking

    def why(self, op: str, dtype: np.dtype[Any], attrs: tuple[Any, ...] = ()) -> str:
        return f"{op} is missing"


def random_roots(seed: int) -> list[Node]:
    """Some nodes of a random program over small arrays of whole numbers, so that sums are exact."""
    rng = random.Random(seed)
    dims = [rng.randint(1, 6) for _ in range(3)]
    nodes = []
    for _ in range(rng.randint(1, 3)):
        shape = tuple(dims[: rng.randint(0, 3)]) if rng.random() < 0.5 else tuple(dims)
        data = np.array([float(rng.randint(-4, 4)) for _ in range(prod(shape))])
        nodes.append(_graph.leaf(data, shape, FLOAT))
    for _ in range(rng.randint(3, 25)):
        new = _random_node(rng, nodes, dims)
        if new is not None:
            nodes.append(new)
    roots = [n for n in rng.sample(nodes, min(len(nodes), rng.randint(1, 3))) if n.buffer is None]
    return roots or [_graph.record(p.NEG, (nodes[0],), nodes[0].shape, FLOAT)]


def _random_node(rng: random.Random, nodes: list[Node], dims: list[int]) -> Node | None:
    x = rng.choice(nodes[-6:])
    kind = rng.choices(
        ["view", "binary", "unary", "scalar", "reduce", "update", "iota", "gather", "scan"],
        [25, 35, 8, 5, 12, 5, 3, 3, 4],
    )[0]
    axes = range(len(x.shape))
    if kind == "view":
        return _random_view(rng, x, dims)
    if kind == "binary":
        y = rng.choice(nodes)
        try:
            shape = np.broadcast_shapes(x.shape, y.shape)
        except ValueError:
            return None
        if prod(shape) > MAX_SIZE:
            return None
        operands = (_graph.broadcast(x, shape), _graph.broadcast(y, shape))
        return _graph.record(rng.choice([p.ADD, p.SUB, p.MAX]), operands, shape, FLOAT)
    if kind == "unary":
        return _graph.record(rng.choice([p.NEG, p.NEG, p.ABS, p.EXP]), (x,), x.shape, FLOAT)
    if kind == "scalar":
        return _graph.record(p.ADD, (x, _graph.scalar(2.0, FLOAT)), x.shape, FLOAT)
    if not x.shape:
        return None
    if kind == "reduce":
        return _random_reduction(rng, x)
    if kind == "update":
        return _random_update(rng, nodes, x, dims)
    if kind == "iota":
        index = _graph.record(p.IOTA, (), x.shape, INT, (rng.choice(axes),))
        return _graph.record(p.CAST, (index,), x.shape, FLOAT)
    if kind == "gather" and x.primitive is not p.VIEW:
        index = _graph.record(p.IOTA, (), x.shape, INT, (len(x.shape) - 1,))
        return _graph.record(p.GATHER, (x, index), x.shape, FLOAT)
    return _graph.record(p.SCAN, (x,), x.shape, FLOAT, ("add", 0))


def _random_view(rng: random.Random, x: Node, dims: list[int]) -> Node:
    base, shape = x, list(x.shape)
    strides, offset = list(contiguous_strides(x.shape)), 0
    if x.primitive is p.VIEW:
        base = x.operands[0]
        strides, offset = list(x.attrs[0]), x.attrs[1]  # type: ignore[index]
    for _ in range(rng.randint(1, 2)):
        k = rng.randrange(len(shape)) if shape else 0
        kind = rng.choice(["slice", "slice", "flip", "swap", "insert", "flatten", "step"])
        if kind == "insert":
            shape.insert(k, rng.choice([1, *dims[:2]]))
            strides.insert(k, 0)
        elif not shape:
            continue
        elif kind == "slice" and shape[k] > 1:
            low = rng.randint(0, shape[k] - 1)
            offset += low * strides[k]
            shape[k] = rng.randint(low + 1, shape[k]) - low
        elif kind == "flip":
            offset += (shape[k] - 1) * strides[k]
            strides[k] = -strides[k]
        elif kind == "swap":
            j = rng.randrange(len(shape))
            shape[j], shape[k], strides[j], strides[k] = shape[k], shape[j], strides[k], strides[j]
        elif kind == "flatten" and tuple(strides) == contiguous_strides(tuple(shape)):
            shape, strides = [prod(shape)], [1]
        elif kind == "step":
            step = rng.choice([2, 3])
            shape[k] = -(-shape[k] // step)
            strides[k] *= step
    if len(shape) > 4 or prod(shape) > MAX_SIZE:
        return x
    return _graph.record(p.VIEW, (base,), tuple(shape), x.dtype, (tuple(strides), offset))


def _random_reduction(rng: random.Random, x: Node) -> Node:
    rank = len(x.shape)
    axes = tuple(sorted(rng.sample(range(rank), rng.randint(1, rank))))
    if rng.random() < 0.15:
        shape = tuple(n for k, n in enumerate(x.shape) if k != axes[0])
        index = _graph.record(p.REDUCE, (x,), shape, INT, ("argmax", axes[:1]))
        return _graph.record(p.CAST, (index,), shape, FLOAT)
    shape = tuple(n for k, n in enumerate(x.shape) if k not in axes)
    y = _graph.record(p.REDUCE, (x,), shape, FLOAT, (rng.choice(["add", "max"]), axes))
    if rng.random() < 0.3:
        return y
    steps = iter(contiguous_strides(shape))
    strides = tuple(0 if k in axes else next(steps) for k in range(rank))
    kept = _graph.record(p.VIEW, (y,), x.shape, FLOAT, (strides, 0))
    return _graph.record(p.SUB, (x, kept), x.shape, FLOAT)


def _random_update(rng: random.Random, nodes: list[Node], x: Node, dims: list[int]) -> Node | None:
    if x.primitive is p.VIEW:
        return None
    region = _random_view(rng, x, dims)
    if region.primitive is not p.VIEW or region.attrs is None:
        return None
    if overlaps_itself(region.shape, region.attrs[0]):
        return None
    fill = _graph.record(p.FULL, (_graph.scalar(3.0, FLOAT),), x.shape, FLOAT)
    value = rng.choice([n for n in nodes if n.shape == region.shape] or [region])
    return _graph.record(p.UPDATE, (rng.choice([x, fill]), value), x.shape, FLOAT, region.attrs)


def by_meaning(tape: Tape) -> list[Any]:
    """The tape's outputs, node by node."""
    values: list[Any] = []
    for position, node in enumerate(tape.nodes):
        operands = [values[o] for o in tape.operands(position)]
        if node.primitive is p.LEAF:
            value = node.buffer.reshape(node.shape)
        elif node.primitive is p.SCALAR:
            value = np.asarray(node.value, node.dtype)
        else:
            value = node.primitive.meaning(
                *operands, attrs=node.attrs or (), shape=node.shape, dtype=node.dtype
            )
        values.append(np.asarray(value))
    return [values[position] for position in tape.outputs]


def by_kernels(tape: Tape, backend: Any) -> tuple[list[Any], Schedule]:
    """The tape's outputs through schedule and KernelIR, each kernel run by its reference."""
    cut = schedule(simplify(tape), backend)
    values = cut.graph.values
    buffers: dict[int, Any] = {
        v: tape.nodes[value.position].buffer for v, value in enumerate(values) if value.primitive is p.LEAF
    }
    for step in cut.steps:
        for v in step.members:
            if v in cut.stored:
                buffers[v] = _target(tape, cut, buffers, v)
        if not step.host:
            _run(tape, cut, buffers, lower(cut, step))
            continue
        (v,) = step.members
        value = values[v]
        if value.primitive is not p.EMPTY:
            operands = [_host_operand(cut, buffers, o) for o in value.operands]
            result = value.primitive.meaning(
                *operands, attrs=value.attrs, shape=value.shape, dtype=value.dtype
            )
            buffers[v] = np.array(result).reshape(-1)
    return [buffers[o].reshape(values[o].shape) for o in cut.graph.outputs], cut


def _target(tape: Tape, cut: Schedule, buffers: dict[int, Any], v: int) -> Any:
    """A buffer for an output; that of an update begins as its base."""
    value = cut.graph.values[v]
    if value.primitive is p.UPDATE:
        base = value.operands[0]
        if base in buffers:
            return buffers[base].copy()
        constant = cut.graph.values[base]
        if constant.primitive is p.FULL:
            number = tape.nodes[cut.graph.values[constant.operands[0]].position].value
            return np.full(value.size, number, value.dtype)
    return np.full(value.size, 77, value.dtype)


def _run(tape: Tape, cut: Schedule, buffers: dict[int, Any], lowered: LoweredKernel) -> None:
    operands = [buffers[v] for v in lowered.operands]
    verify_kernel(lowered.kernel)
    verify_binding(lowered.kernel, lowered.binding, [o.size for o in operands])
    scalars = [source if held else tape.nodes[source].value for held, source in lowered.scalars]
    reference.run(lowered.kernel, lowered.binding, operands, scalars)


def _host_operand(cut: Schedule, buffers: dict[int, Any], o: int) -> Any:
    value = cut.graph.values[o]
    if value.primitive is p.VIEW and o not in cut.stored:
        return strided(buffers[value.operands[0]], value.shape, *value.attrs)
    return buffers[o].reshape(value.shape)
