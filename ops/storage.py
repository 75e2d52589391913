"""Views of a tensor's storage, and writes through them.

A tensor owns a contiguous buffer or is a strided view of an owner. A write replaces the owner's node by an
UPDATE node, so that what was recorded before keeps reading the version it was recorded with.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from . import _graph, dtypes
from .errors import CastingError, ReadOnlyError, ShapeError
from .primitives import CAST, FULL, UPDATE, Kind

Shape = tuple[int, ...]


@lru_cache(8192)
def contiguous_strides(shape: Shape) -> Shape:
    """The strides of C order, in elements."""
    strides = [1] * len(shape)
    for k in range(len(shape) - 2, -1, -1):
        strides[k] = strides[k + 1] * max(shape[k + 1], 1)
    return tuple(strides)


def view(x: Any, shape: Shape, strides: Shape, offset: int) -> Any:
    """A view of x's owner; strides and offset are in elements of the owner's buffer, as x's own are."""
    base = x.base
    return _graph.view(x if base is None else base, shape, strides, offset)


def is_contiguous(x: Any) -> bool:
    """Whether x's elements lie in C order without gaps."""
    if x.base is None:
        return True
    expected = 1
    for extent, stride in zip(reversed(x.shape), reversed(x.strides), strict=True):
        if extent == 0:
            return True
        if extent != 1:
            if stride != expected:
                return False
            expected *= extent
    return True


def copy(x: Any) -> Any:
    """A new owner with x's values."""
    return _graph.tensor(materialised(x.node))


def materialised(node: _graph.Node) -> _graph.Node:
    """The node where an owner may hold it; a view's elements are copied, a scalar becomes an array."""
    kind = node.primitive.kind
    if kind is Kind.VIEW:
        return _graph.record(CAST, (node,), node.shape, node.dtype)
    if kind is Kind.SCALAR:
        return _graph.record(FULL, (node,), (), node.dtype)
    return node


def update(base: _graph.Node, value: _graph.Node, strides: Shape, offset: int) -> _graph.Node:
    """A node of base with a strided region of its buffer replaced by value, which has the region's shape."""
    return _graph.record(UPDATE, (base, value), base.shape, base.dtype, (strides, offset))


def assign(x: Any, value: Any, casting: str = "unsafe", operation: str = "setitem") -> None:
    """Write a tensor into x, owner or view, broadcasting and casting it.

    Raises
    ------
    ShapeError
        Where value does not broadcast to x's shape.
    CastingError
        Where `casting` does not allow the cast.
    ReadOnlyError
        Where elements of x share memory, as those of a broadcast view do.
    """
    shape, dtype = x.shape, x.dtype
    base = x.base
    if base is not None:
        if (
            value.base is base
            and value.strides == x.strides
            and value.offset == x.offset
            and value.shape == shape
        ):
            return
        if overlaps_itself(shape, x.strides):
            raise ReadOnlyError(
                f"[{operation}] expected a tensor whose elements are apart in memory, "
                f"given a view of shape {shape} that repeats them; write to a copy"
            )
    elif value is x:
        return
    if value.dtype != dtype and casting != "unsafe" and not dtypes.can_cast(value.dtype, dtype, casting):
        raise CastingError(
            f"[{operation}] expected values that cast to {dtype.name} under the rule {casting!r}, "
            f"given {value.dtype.name}; use astype to say that it is meant"
        )
    node = value.node
    if node.shape != shape:
        # As NumPy, leading axes of length 1 that the target lacks are dropped.
        extra = len(node.shape) - len(shape)
        if extra > 0 and node.shape[:extra] == (1,) * extra:
            dropped = view(value, value.shape[extra:], value.strides[extra:], value.offset)
            node = dropped.node
        fits = all(a in (1, b) for a, b in zip(reversed(node.shape), reversed(shape), strict=False))
        if not fits or len(node.shape) > len(shape):
            raise ShapeError(
                f"[{operation}] expected values that broadcast to shape {shape}, given {value.shape}"
            )
    if 0 in shape:
        return
    if node.dtype != dtype:
        node = _graph.record(CAST, (node,), node.shape, dtype)
    if node.shape != shape:
        node = _graph.broadcast(node, shape)
    if base is None:
        x.node = materialised(node)
    else:
        base.node = update(base.node, node, x.strides, x.offset)


def overlaps_itself(shape: Shape, strides: Shape) -> bool:
    """Whether two indices may name one element: strides that do not step over everything below them."""
    if 0 in shape:
        return False
    reach = 0
    for stride, extent in sorted((abs(s), n) for s, n in zip(strides, shape, strict=True) if n > 1):
        if stride <= reach:
            return True
        reach += stride * (extent - 1)
    return False
