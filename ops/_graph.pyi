"""The trace: nodes of recorded operations and what tensors hold of them (C++, ops/graph)."""

from collections.abc import Callable
from types import CodeType
from typing import Any, Self

import numpy as np

from .primitives import Primitive

class Node:
    """One recorded operation, immutable until it is evaluated.

    A node is pending until `settle` gives it a buffer; it then drops its operands and its primitive
    becomes LEAF. Dropping the last reference to a chain of any length does not recurse.
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

    An owner has ``base is None`` and holds a node; assigning the node is how a write makes a new version.
    A view has a base (always an owner), strides and an offset in elements of the base's contiguous
    buffer; its node is the VIEW node on the base's present node, made when asked for and kept until the
    base's node changes.
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

def set_flush(function: Callable[[], bool | None] | None, nodes: int, size: int) -> None:
    """Call ``function()`` when too much is pending; None: never.

    That is when more than `nodes` nodes, or more than `size` bytes of results, are pending and as much has
    been recorded since the last flush. It is called once a tensor holds what was recorded, never inside
    another flush. Where it returns False it is called again at the next operation.
    """

def record(
    primitive: Primitive,
    operands: tuple[Node, ...],
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    attrs: tuple[Any, ...] | None = None,
) -> Node:
    """Append a node and remember the innermost frame outside the package `pyasc`.

    attrs holds ints, floats, bools, strings, None, dtypes and tuples of them. The operand of a VIEW is not
    itself a view; the region of a VIEW or an UPDATE lies within its base, or ValueError is raised.
    """

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

    Fast where both are tensors of one dtype, or one is a Python number that keeps the tensor's dtype and
    fits it (bool, int with integers, int and float with floats), and the primitive takes that dtype;
    otherwise the promotion hook runs first. The result's dtype is `result`, or the operands'. Raises
    ShapeError (set by `set_shape_error`) where shapes do not broadcast. Returns NotImplemented where the hook
    does.
    """

def broadcast(x: TensorBase | Node, shape: tuple[int, ...]) -> Node:
    """The node of x seen in `shape`: a VIEW with zero strides where they differ, the node itself where not.

    Of a SCALAR node it is a FULL node.
    """

def set_shape_error(cls: type[Exception]) -> None:
    """What `binary` and `broadcast` raise for shapes that do not broadcast."""

def log_writes(log: list[tuple[Any, Node]] | None) -> None:
    """Append (tensor, the node that was replaced) to a list for each write of this thread; None: no more."""

def live_tensors() -> list[Any]:
    """Every tensor alive, oldest first."""

def live_count() -> int: ...
def pending_count() -> int:
    """Nodes recorded, not settled and not dropped. Views, which compute nothing, do not count."""

class Tape:
    """What `linearise` finds below some roots, in recording order.

    Attributes
    ----------
    key : bytes
        The structure: for each node its primitive, dtype, shape, attrs and the positions of its
        operands, whether it is an output, and for each leaf whether its buffer may be written
        (`donatable`). Scalars' values and leaves' buffers are not part of it. Equal keys, same plan.
    nodes : tuple of Node
        Leaves and scalars included; operands stand before their users.
    leaves : tuple of int
        Positions of the LEAF nodes.
    scalars : bytes
        For each SCALAR node in order, its value in its dtype, zero-padded to 8 bytes.
    outputs : tuple of int
        Positions of the nodes to keep: the roots, and every pending node below them that a tensor
        holds, but for generators and views.
    donatable : tuple of bool
        For each leaf: no tensor holds it, nothing refers to it or its buffer but nodes that go when the
        outputs are settled, and its buffer is not `exported`.
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
