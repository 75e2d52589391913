"""Kernels that return a value: the same computation for every element of the broadcast arguments.

One without loops is recorded as the operations it is made of, so that it fuses with the array code around it.
Any other is a kernel of one axis.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from ..backend.structured import Block, If, Let, Set, Store, StructuredKernel, walk
from ..lazy import handwritten
from ..ops import _graph
from ..ops._graph import Node
from ..ops.arguments import as_tensor, broadcast_shapes, scalar
from ..ops.errors import ArgumentError
from ..ops.primitives import EMPTY, PRIMITIVES, SCALAR, WHERE, Primitive
from ..ops.storage import materialised
from .signature import Dtype

if TYPE_CHECKING:
    from .kernel import Kernel
    from .launch import Geometry

Shape = tuple[int, ...]


def run_map(kernel: Kernel, where: Geometry | None, values: tuple[Any, ...]) -> Any:
    """The new tensor that a map gives for these arguments.

    Raises
    ------
    KernelError
        Where the kernel cannot be compiled.
    ArgumentError
        For a grid.
    ShapeError
        Where the arguments do not broadcast.
    """
    if where is not None:
        raise ArgumentError(
            f"[{kernel.name}] expected a call without a grid, as it returns a value for each element, given "
            f"{where.threads}"
        )
    lowered, _, launch = kernel.lower(values, None)
    tensors = [as_tensor(launch.read(path), kernel.name) for path in lowered.arrays[1:]]
    shape: Shape = ()
    for tensor in tensors:
        shape = broadcast_shapes(kernel.name, shape, tensor.shape)
    arrays = [_graph.broadcast(tensor, shape) for tensor in tensors]
    made = lowered.kernel
    numbers = [
        scalar(launch.read(path), dtype, kernel.name)
        for path, dtype in zip(lowered.scalars, made.scalars, strict=True)
    ]
    if is_straight(made):
        # The first array of the kernel is the result.
        return _Inlined(made, [arrays[0], *arrays] if arrays else [], numbers, shape).run()
    return _launched(kernel, made, arrays, numbers, shape)


def is_straight(kernel: StructuredKernel) -> bool:
    """Whether a map is made of elementwise operations and choices between them alone."""
    ids: set[int] = set()
    for statement in walk(kernel.body):
        match statement:
            case Let(value, "global_id"):
                ids.add(value)
            case Let(_, "load" | "const" | "scalar" | "get"):
                pass
            case Let(_, op, _, args):
                if op not in PRIMITIVES or not ids.isdisjoint(args):
                    return False
            case Set(_, value) | Store(_, _, value):
                if value in ids:
                    return False
            case If():
                pass
            case _:
                return False
    return True


class _Inlined:
    """Records a map as operations on whole tensors."""

    def __init__(
        self, kernel: StructuredKernel, arrays: list[Node], numbers: list[Node], shape: Shape
    ) -> None:
        self.kernel = kernel
        self.arrays = arrays
        self.numbers = numbers
        self.shape = shape
        self.values: dict[int, Node] = {}
        # Variables, and under -1 the result.
        self.variables: dict[int, Node] = {}

    def run(self) -> Any:
        self._block(self.kernel.body)
        return _graph.tensor(materialised(self._whole(self.variables[-1])))

    def _whole(self, node: Node) -> Node:
        if node.shape != self.shape or node.primitive is SCALAR:
            node = _graph.broadcast(node, self.shape)
        return node

    def _block(self, body: Block) -> None:
        for statement in body:
            match statement:
                case Let():
                    self.values[statement.value] = self._let(statement)
                case Set(variable, value):
                    self.variables[variable] = self.values[value]
                case Store(_, _, value):
                    self.variables[-1] = self.values[value]
                case If(condition, then, orelse):
                    self._choice(self.values[condition], then, orelse)

    def _let(self, let: Let) -> Node:
        number: int = let.attrs[0] if let.op in ("load", "scalar", "get") else -1
        match let.op:
            case "load":
                return self.arrays[number]
            case "scalar":
                return self.numbers[number]
            case "const":
                return scalar(let.attrs[0], let.dtype)
            case "get":
                return self.variables[number]
            case "global_id":
                return scalar(0, let.dtype)  # an index, of which nothing is computed
        return self._record(PRIMITIVES[let.op], [self.values[a] for a in let.args], let.dtype, let.attrs)

    def _record(
        self, primitive: Primitive, operands: list[Node], dtype: Dtype, attrs: tuple[Any, ...] = ()
    ) -> Node:
        if all(node.primitive is SCALAR for node in operands):
            operands[0] = self._whole(operands[0])
        nodes = tuple(node if node.primitive is SCALAR else self._whole(node) for node in operands)
        return _graph.record(primitive, nodes, self.shape, dtype, attrs or None)

    def _choice(self, condition: Node, then: Block, orelse: Block) -> None:
        before = dict(self.variables)
        self._block(then)
        taken, self.variables = self.variables, before
        self._block(orelse)
        for variable, a in taken.items():
            b = self.variables.get(variable)
            if b is None:
                self.variables[variable] = a  # on the other way it is not set
            elif a is not b:
                self.variables[variable] = self._record(WHERE, [condition, a, b], a.dtype)


def _launched(
    kernel: Kernel, made: StructuredKernel, arrays: list[Node], numbers: list[Node], shape: Shape
) -> Any:
    """A map with loops: a kernel over one axis of all elements."""
    dtype = made.arrays[0].dtype
    result = _graph.tensor(_graph.record(EMPTY, (), shape, dtype))
    count = prod(shape)
    if count == 0:
        return result
    flat = [materialised(node) for node in arrays]
    places = [handwritten.Place(n, (count,), (1,), 0) for n in range(len(flat) + 1)]
    arguments = handwritten.Arguments(kernel.number(made), (count,), tuple(places), (0,), len(places))
    (node,) = handwritten.record(arguments.attrs, (result.node, *flat, *numbers))
    result.node = node
    return result
