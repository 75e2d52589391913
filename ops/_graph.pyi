"""The trace: nodes of recorded operations and what tensors hold of them (C++, ops/graph)."""

from collections.abc import Callable
from types import CodeType
from typing import Any, Self

import numpy as np

from .primitives import Primitive

class Node:
    """One recorded operation, immutable until it is evaluated.

    A node is pending until `settle` gives it a buffer; it then drops its operands and its primitive becomes LEAF.
    Dropping the last reference to a chain of any length does not recurse.
    """

    @property
    def primitive(self) -> Primitive: ...
    @property
    def operands(self) -> tuple[Node, ...]: ...
    @property
    def attrs(self) -> tuple[Any, ...] | None: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def value(self) -> Any:
        """The Python number of a SCALAR node, else None."""
    @property
    def buffer(self) -> Any:
        """The runtime buffer, or None while the node is pending."""
    @property
    def held(self) -> int:
        """How many tensors hold this node."""
    @property
    def order(self) -> int:
        """Recording order; operands have a smaller one."""
    @property
    def where(self) -> tuple[CodeType, int] | None:
        """Code object and instruction offset of the user's frame."""
    def settle(self, buffer: Any) -> None: ...

class TensorBase:
    """What every tensor holds: a node of its own, or a strided view of a base tensor.

    An owner has ``base is None`` and holds a node; assigning the node is how a write makes a new version. A view has a base (always
    an owner), strides and an offset in elements of the base's contiguous buffer; its node is the VIEW node on
    the base's present node, made when asked for and kept until the base's node changes.
    """

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def base(self) -> Self | None: ...
    @property
    def strides(self) -> tuple[int, ...]:
        """In elements of the base's buffer; those of C order for an owner."""
    @property
    def offset(self) -> int: ...
    @property
    def node(self) -> Node:
        """The present node. Settable on an owner, with a node of the same shape and dtype."""
    @node.setter
    def node(self, node: Node) -> None: ...
    @property
    def pending(self) -> bool:
        """Whether the owner's node has no buffer yet."""

def set_tensor_type(cls: type[TensorBase]) -> None:
    """The class that `tensor` and `view` make."""

def set_promotion(function: Callable[[Primitive, Any, Any], tuple[Any, Any]] | None) -> None:
    """Slow path of `binary`: brings two operands (tensors or Python numbers) to tensors or nodes of one dtype
    or raises the user's error. Broadcasting is `binary`'s own."""

def set_flush(function: Callable[[], None], nodes: int, size: int) -> None:
    """Call ``function()`` when more than `nodes` pending nodes, or more than `size` bytes of pending results, have been recorded
    since the last flush. It is called after the recording call has finished its node, never inside another flush."""

def record(
    primitive: Primitive,
    operands: tuple[Node, ...],
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    attrs: tuple[Any, ...] | None = None,
) -> Node:
    """Append a node. attrs holds ints, floats, bools, strings, None, dtypes and tuples of them. Also remembers the first frame outside the package `pyasc`."""

def scalar(value: int | float | bool, dtype: np.dtype[Any]) -> Node:
    """A rank-0 SCALAR node. OverflowError where an integer does not fit an integer dtype."""

def leaf(buffer: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Node: ...
def tensor(node: Node) -> Any:
    """A new owner tensor."""

def view(base: TensorBase, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> Any:
    """A view; of a view it is resolved to the owner by the caller (strides and offset are the owner's)."""

def unary(primitive: Primitive, x: TensorBase, dtype: np.dtype[Any]) -> Any:
    """Record an elementwise primitive on one tensor: the fast path of every unary operation."""

def binary(primitive: Primitive, x: Any, y: Any, result: np.dtype[Any] | None = None) -> Any:
    """Record an elementwise primitive on two tensors or a tensor and a number, broadcasting them.

    Fast where both are tensors of one dtype, or one is a Python number that keeps the tensor's dtype
    (bool, int with integers, int and float with floats); otherwise the promotion hook runs first. The result's dtype is
    `result`, or the operands'. Raises ShapeError (set by `set_errors`) where shapes do not broadcast. Returns NotImplemented
    for an operand that is neither tensor, number nor something the promotion hook takes.
    """

def broadcast(x: TensorBase | Node, shape: tuple[int, ...]) -> Node:
    """The node of x seen in `shape`: a VIEW with zero strides where they differ, the node itself where not."""

def set_errors(shape_error: type[Exception], index_error: type[Exception]) -> None: ...
def live_tensors() -> list[Any]:
    """Every tensor alive, oldest first."""

def live_count() -> int: ...
def pending_count() -> int:
    """Nodes recorded, not settled and not dropped."""

class Tape:
    """What `linearise` finds below some roots, in recording order.

    Attributes
    ----------
    key : bytes
        The structure: for each node its primitive, dtype, shape, attrs and the positions of its operands, whether it is an output, and for each leaf whether its buffer may be written (`donatable`).
        Scalars' values and leaves' buffers are not part of it. Equal keys, same plan.
    nodes : tuple of Node
        Leaves and scalars included; operands stand before their users.
    leaves : tuple of int
        Positions of the LEAF nodes.
    scalars : bytes
        For each SCALAR node in order, its value in its dtype, zero-padded to 8 bytes.
    outputs : tuple of int
        Positions of the nodes to keep: the roots, and every pending node below them that a tensor holds, but for generators
        and views.
    donatable : tuple of bool
        For each leaf: no tensor holds it and nothing outside this tape refers to it.
    """

    key: bytes
    nodes: tuple[Node, ...]
    leaves: tuple[int, ...]
    scalars: bytes
    outputs: tuple[int, ...]
    donatable: tuple[bool, ...]

    def position(self, node: Node) -> int: ...
    def operands(self, position: int) -> tuple[int, ...]:
        """Positions of a node's operands."""

def linearise(roots: list[Node], keep_held: bool = True) -> Tape: ...
