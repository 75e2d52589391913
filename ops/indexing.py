"""Reading and writing ``x[key]`` in NumPy's full form.

Ints, slices, ``...`` and ``newaxis`` name a strided region: reading gives a view, writing an UPDATE. As soon
as a key has an array (of integers or a mask) its elements are named by flat indices into the owner's buffer:
reading gathers, writing scatters. Indices whose values are known are checked when the key is; those still
pending are checked when they are computed, and the error names the line that recorded them. A write computes
them first, so that one out of bounds leaves its target as it was.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _graph, dtypes, host, storage
from .arguments import Shape, as_tensor, cast, number, scalar
from .errors import ArgumentError, DtypeError, IndexOutOfBounds, OverflowingScalar, ReadOnlyError, ShapeError
from .primitives import ADD, CAST, EMPTY, FLOOR_DIVIDE, GATHER, IOTA, MUL, REMAINDER, VIEW, WHERE, WRAP_INDEX
from .registry import operation
from .traced import is_number

INT64 = dtypes.int64
Region = tuple[Shape, Shape, int]  # shape, strides and offset in the owner's buffer


# --- public -------------------------------------------------------------------------------------------------
@operation(method="__getitem__", public=False)
def getitem(x: Any, key: Any) -> Any:
    """``x[key]``, as NumPy reads it.

    Parameters
    ----------
    x : tensor
    key : int, slice, Ellipsis, None, array-like of integers or bools, or a tuple of them

    Returns
    -------
    tensor
        A view that shares memory with x where the key holds only slices, ints, ``...`` and None; a copy where
        it holds arrays or names one element. A mask is evaluated: the shape of the result depends on it.

    Raises
    ------
    IndexError
        Where an index is out of bounds, of no index type, or one too many.
    """
    region = _region(x, key, "getitem")
    if region is not None:
        shape, strides, offset = region
        base = x.base
        view = _graph.view(x if base is None else base, shape, strides, offset)
        # One element is a number in NumPy, not a view: `x[i], x[j] = x[j], x[i]` must swap.
        if not shape and not (key is Ellipsis or (type(key) is tuple and Ellipsis in key)):
            return _graph.tensor(_graph.record(CAST, (view.node,), (), view.dtype))
        return view
    shape, index = _flat_index(x, key, "getitem")
    return gathered(x, shape, index)


@operation(method="__setitem__", public=False)
def setitem(x: Any, key: Any, value: Any) -> None:
    """``x[key] = value``, as NumPy writes it.

    Parameters
    ----------
    x : tensor
        Views of the same memory see the write; what was recorded before it does not.
    key : as for reading
    value : array-like
        Broadcast to the shape of ``x[key]`` and cast to x's dtype. Where a key names an element twice, the
        last value stays.

    Raises
    ------
    IndexError
        As for reading.
    ValueError
        Where value does not broadcast, or x repeats its elements in memory.
    """
    region = _region(x, key, "setitem")
    if region is not None:
        check_writable(x, "setitem")
        shape, strides, offset = region
        base = x.base
        whole = base is None and shape == x.shape and strides == x.strides and offset == 0
        target = x if whole else _graph.view(x if base is None else base, shape, strides, offset)
        write(target, value)
        return
    mask = _only_mask(x, key)
    if mask is not None and _write_where(x, mask, value):
        return
    shape, index = _flat_index(x, _settled(key), "setitem")
    scatter(x, shape, index, value, "setitem")


def write(target: Any, value: Any, operation: str = "setitem") -> None:
    """Write a number or an array-like into a whole tensor, owner or view."""
    if is_number(value):
        value = number(as_item(value, target.dtype, operation), target.dtype, target.shape, operation)
    elif not isinstance(value, _graph.TensorBase):
        value = as_tensor(value, operation)
    storage.assign(target, value, "unsafe", operation)


def as_item(value: Any, dtype: dtypes.Dtype, operation: str) -> Any:
    """A Python number as an element of a dtype.

    As NumPy, floats written to integers lose their fraction, and what does not fit is refused.
    """
    if value.__class__ is float and dtype.kind in "iu":
        try:
            value = int(value)
        except ValueError:
            raise ArgumentError(
                f"[{operation}] expected a value that {dtype.name} can hold, given {value}"
            ) from None
        except OverflowError:
            raise OverflowingScalar(
                f"[{operation}] expected a value that {dtype.name} can hold, given {value}"
            ) from None
    if dtype.kind == "b":
        return bool(value)
    if dtype.kind in "iu" and not np.iinfo(dtype).min <= value <= np.iinfo(dtype).max:
        raise OverflowingScalar(f"[{operation}] expected an integer that fits {dtype.name}, given {value}")
    return value


# --- keys that are regions ----------------------------------------------------------------------------------
def _region(x: Any, key: Any, operation: str) -> Region | None:
    """The strided region that a key names, None where it holds an array."""
    keys = key if type(key) is tuple else (key,)
    shape, strides, offset = x.shape, x.strides, x.offset
    rank = len(shape)
    extents: list[int] = []
    steps: list[int] = []
    axis = 0
    for position, k in enumerate(keys):
        kind = type(k)
        if kind is slice:
            if axis >= rank:
                raise _too_many(keys, shape, operation)
            start, count, step = _span(k, shape[axis], operation)
            stride = strides[axis]
            offset += start * stride
            extents.append(count)
            steps.append(stride * step)
            axis += 1
        elif k is None:
            extents.append(1)
            steps.append(0)
        elif k is Ellipsis:
            rest = keys[position + 1 :]
            if any(r is Ellipsis for r in rest):
                raise IndexOutOfBounds(
                    f"[{operation}] expected one ellipsis in an index, given {_text(keys)}"
                )
            if not all(r is None or type(r) in (int, slice) or _is_integer(r) for r in rest):
                return None
            stop = rank - sum(r is not None for r in rest)
            if stop < axis:
                raise _too_many(keys, shape, operation)
            extents += shape[axis:stop]
            steps += strides[axis:stop]
            axis = stop
        elif kind is int or _is_integer(k):
            if axis >= rank:
                raise _too_many(keys, shape, operation)
            offset += _bounded(operator.index(k), shape[axis], axis, operation) * strides[axis]
            axis += 1
        else:
            return None
    extents += shape[axis:]
    steps += strides[axis:]
    return tuple(extents), tuple(steps), 0 if 0 in extents else offset


def _is_integer(k: Any) -> bool:
    """Whether an entry of a key is one integer known now, other than by being an array."""
    if isinstance(k, np.ndarray | _graph.TensorBase | bool | np.bool_ | list | tuple | slice):
        return False
    return hasattr(k, "__index__")


def _span(k: slice, size: int, operation: str) -> tuple[int, int, int]:
    """Start, count and step of a slice along an axis."""
    try:
        start, stop, step = k.indices(size)
    except ValueError:
        raise ArgumentError(
            f"[{operation}] expected a slice with a step other than zero, given {_text(k)}"
        ) from None
    except TypeError:
        raise DtypeError(f"[{operation}] expected a slice of integers or None, given {_text(k)}") from None
    if step > 0:
        return start, (stop - start + step - 1) // step if stop > start else 0, step
    return start, (start - stop - step - 1) // -step if stop < start else 0, step


def _bounded(index: int, size: int, axis: int, operation: str) -> int:
    if not -size <= index < size:
        raise IndexOutOfBounds(
            f"[{operation}] expected an index from {-size} to {size - 1} for axis {axis}, given {index}"
            if size
            else f"[{operation}] expected no index for axis {axis}, which is empty, given {index}"
        )
    return index + size if index < 0 else index


def _too_many(keys: tuple[Any, ...], shape: Shape, operation: str) -> IndexOutOfBounds:
    return IndexOutOfBounds(
        f"[{operation}] expected at most {len(shape)} indices for a tensor of shape {shape}, "
        f"given {_text(keys)}"
    )


def _text(k: Any) -> str:
    """An entry of a key as the user wrote it."""
    if isinstance(k, tuple):
        return ", ".join(map(_text, k)) if k else "()"
    if isinstance(k, slice):
        ends = ":".join("" if e is None else str(e) for e in (k.start, k.stop))
        return ends if k.step is None else f"{ends}:{k.step}"
    if k is Ellipsis:
        return "..."
    if isinstance(k, np.ndarray | _graph.TensorBase):
        return f"an array of {k.dtype.name} of shape {k.shape}"
    return f"{k!r:.60}"


# --- keys with arrays ---------------------------------------------------------------------------------------
def _settled(key: Any) -> tuple[Any, ...]:
    """A key to write through, its index tensors computed."""
    return tuple(
        k if getattr(k, "dtype", None) == np.bool_ else host.settled(k)
        for k in (key if type(key) is tuple else (key,))
    )


def _flat_index(x: Any, key: Any, operation: str) -> tuple[Shape, _graph.Node]:
    """The shape of ``x[key]`` and the flat index of each of its elements in the owner's buffer."""
    keys = list(key) if type(key) is tuple else [key]
    shape, strides = x.shape, x.strides
    offset = x.offset
    arrays = [_index_array(k, operation) for k in keys]
    used = sum(
        (a.ndim if a.dtype.kind == "b" else 1) if a is not None else not (k is None or k is Ellipsis)
        for k, a in zip(keys, arrays, strict=True)
    )
    if used > len(shape):
        raise _too_many(tuple(keys), shape, operation)

    axes: list[tuple[int, int]] = []  # extent and stride of each axis that no array indexes
    indices: list[tuple[Any, int, int]] = []  # index, axis, and the extent that bounds it
    place = -1  # where the arrays' axes go among `axes`
    apart = closed = ellipsis = False
    axis = 0
    for k, array in zip(keys, arrays, strict=True):
        if array is not None or type(k) is int or _is_integer(k):
            # Arrays, and ints beside them, put their axes where the first stood,
            # or first when something parts them.
            if place < 0:
                place = len(axes)
            elif closed:
                apart = True
            if array is None:
                found = np.asarray(_bounded(operator.index(k), shape[axis], axis, operation))
                indices.append((found, axis, shape[axis]))
                axis += 1
            elif array.dtype.kind == "b":
                for found in _mask_indices(array, shape, axis, operation):
                    indices.append((found, axis, shape[axis] if array.ndim else 1))
                    axis += array.ndim > 0
            else:
                indices.append((array, axis, shape[axis]))
                axis += 1
            continue
        closed = place >= 0
        if k is None:
            axes.append((1, 0))
        elif k is Ellipsis:
            if ellipsis:
                raise IndexOutOfBounds(
                    f"[{operation}] expected one ellipsis in an index, given {_text(tuple(keys))}"
                )
            ellipsis = True
            for _ in range(len(shape) - used):
                axes.append((shape[axis], strides[axis]))
                axis += 1
        else:
            start, count, step = _span(k, shape[axis], operation)
            offset += start * strides[axis]
            axes.append((count, strides[axis] * step))
            axis += 1
    axes += zip(shape[axis:], strides[axis:], strict=True)
    if apart:
        place = 0

    try:
        first = indices[0][0].shape
        common = first if len(indices) == 1 else np.broadcast_shapes(*(i.shape for i, _, _ in indices))
    except ValueError:
        given = " ".join(str(i.shape) for i, _, _ in indices)
        raise IndexOutOfBounds(
            f"[{operation}] expected index arrays that broadcast, given shapes {given}"
        ) from None
    result = (*(n for n, _ in axes[:place]), *common, *(n for n, _ in axes[place:]))
    if 0 in result:
        for index, a, size in indices:
            if isinstance(index, np.ndarray) and index.size:
                _checked(index, a, size, operation)
        return result, _graph.record(EMPTY, (), result, INT64)
    by_axis = (*strides, 0)
    node = _array_part(
        [(i, a, n, by_axis[a] if a < len(strides) else 0) for i, a, n in indices], common, offset, operation
    )
    if len(common) != len(result):
        inner, start, source = storage.contiguous_strides(common), 0, node
        if node.primitive is VIEW:
            inner, start = node.attrs or ((), 0)
            source = node.operands[0]
        spread = (*(0 for _ in axes[:place]), *inner, *(0 for _ in axes[place:]))
        node = _graph.record(VIEW, (source,), result, INT64, (spread, start))
    for position, (count, stride) in enumerate(axes):
        if count > 1 and stride:
            along = position if position < place else position + len(common)
            node = _add(node, _times(_graph.record(IOTA, (), result, INT64, (along,)), stride))
    return result, node


def _index_array(k: Any, operation: str) -> Any:
    """An entry of a key as an array or tensor of indices or a mask, None where it is none."""
    if k is None or k is Ellipsis or type(k) in (int, slice) or _is_integer(k):
        return None
    if isinstance(k, _graph.TensorBase):
        array: Any = k
    elif isinstance(k, bool | np.bool_ | np.ndarray | list | tuple):
        try:
            array = np.asarray(k)
        except ValueError:
            raise IndexOutOfBounds(
                f"[{operation}] expected nested sequences of equal lengths, given {_text(k)}"
            ) from None
        if array.size == 0 and not isinstance(k, np.ndarray):
            array = array.astype(np.int64)
    else:
        array = None
    if array is None or array.dtype.kind not in "biu":
        raise IndexOutOfBounds(
            f"[{operation}] expected an index of ints, slices, ..., None, or arrays of integers or bools, "
            f"given {_text(k)}"
        )
    return array


def _mask_indices(mask: Any, shape: Shape, axis: int, operation: str) -> tuple[NDArray[Any], ...]:
    """Where a mask is true, one array for each of its axes. A mask that is a tensor is evaluated."""
    _check_mask(mask, shape, axis, operation)
    known = host.values(mask) if isinstance(mask, _graph.TensorBase) else mask
    if known.ndim == 0:
        return (np.zeros(int(known), np.int64),)
    return np.nonzero(known)


def _check_mask(mask: Any, shape: Shape, axis: int, operation: str) -> None:
    expected = shape[axis : axis + mask.ndim]
    if mask.shape != expected:
        raise IndexOutOfBounds(
            f"[{operation}] expected a mask of shape {expected}, given one of shape {mask.shape}"
        )


def _checked(index: NDArray[Any], axis: int, size: int, operation: str) -> NDArray[Any]:
    """Known indices counted from 0."""
    least, most = int(index.min()), int(index.max())
    _bounded(most, size, axis, operation)
    if least >= 0:
        return index.astype(np.int64, copy=False)
    _bounded(least, size, axis, operation)
    index = index.astype(np.int64, copy=False)
    return np.where(index < 0, index + size, index)


def _array_part(
    indices: list[tuple[Any, int, int, int]], shape: Shape, offset: int, operation: str
) -> _graph.Node:
    """The sum of ``index * stride`` over index arrays, and an offset, in their common shape."""
    known: NDArray[Any] = np.asarray(offset, np.int64)
    pending: list[_graph.Node] = []
    for index, axis, size, stride in indices:
        if isinstance(index, np.ndarray):
            known = known + _checked(index, axis, size, operation) * np.int64(stride)
        else:
            pending.append(_times(_graph.broadcast(_graph.tensor(wrapped(index, size)), shape), stride))
    if not pending:
        found: _graph.Node = host.from_array(known, operation).node
        return found
    node = pending[0]
    for other in pending[1:]:
        node = _add(node, other)
    if known.ndim == 0:
        return _plus(node, int(known))
    return _add(node, _graph.broadcast(host.from_array(known, operation), shape))


def wrapped(index: Any, size: int) -> _graph.Node:
    """An index tensor counted from 0 and checked against the length of its axis when it is computed."""
    node = cast(index, INT64).node
    return _graph.record(WRAP_INDEX, (node, _graph.scalar(size, INT64)), node.shape, INT64)


def counted(index: Any, axis: int, size: int, operation: str) -> _graph.Node:
    """Indices along an axis, an array or a tensor, counted from 0: checked now if they are known."""
    if isinstance(index, np.ndarray):
        known = _checked(index, axis, size, operation) if index.size else index
        found: _graph.Node = host.from_array(known, operation).node
        return found
    return wrapped(index, size)


def _add(a: _graph.Node, b: _graph.Node) -> _graph.Node:
    return _graph.record(ADD, (a, b), a.shape, INT64)


def _plus(a: _graph.Node, value: int) -> _graph.Node:
    return a if value == 0 else _graph.record(ADD, (a, _graph.scalar(value, INT64)), a.shape, INT64)


def _times(a: _graph.Node, value: int) -> _graph.Node:
    return a if value == 1 else _graph.record(MUL, (a, _graph.scalar(value, INT64)), a.shape, INT64)


def along_axis(shape: Shape, strides: Shape, offset: int, index: _graph.Node, axis: int) -> _graph.Node:
    """The flat indices of a strided region's elements: by an index along one axis, in place along the others.

    The index is counted from 0 and has the shape of the result.
    """
    node = _plus(_times(index, strides[axis]), offset)
    for k, (extent, stride) in enumerate(zip(shape, strides, strict=True)):
        if k != axis and extent > 1 and stride:
            node = _add(node, _times(_graph.record(IOTA, (), shape, INT64, (k,)), stride))
    return node


def within(x: Any, index: _graph.Node) -> _graph.Node:
    """The flat index in the owner's buffer of a flat index into x in C order, counted from 0."""
    if storage.is_contiguous(x):
        return _plus(index, x.offset)
    node: _graph.Node | None = None
    for extent, stride, below in zip(x.shape, x.strides, storage.contiguous_strides(x.shape), strict=True):
        place = index
        if below > 1:
            place = _graph.record(FLOOR_DIVIDE, (place, _graph.scalar(below, INT64)), index.shape, INT64)
        place = _graph.record(REMAINDER, (place, _graph.scalar(extent, INT64)), index.shape, INT64)
        node = _times(place, stride) if node is None else _add(node, _times(place, stride))
    assert node is not None
    return _plus(node, x.offset)


def gathered(x: Any, shape: Shape, index: _graph.Node) -> Any:
    """The elements of x's owner at flat indices."""
    if 0 in shape:
        return _graph.tensor(_graph.record(EMPTY, (), shape, x.dtype))
    owner = x if x.base is None else x.base
    return _graph.tensor(_graph.record(GATHER, (owner.node, index), shape, x.dtype))


# --- writing through arrays ---------------------------------------------------------------------------------
def scatter(x: Any, shape: Shape, index: _graph.Node, value: Any, operation: str) -> None:
    """Write value, broadcast to `shape`, to the elements of x's owner at flat indices.

    What is written last to equal indices stays.
    """
    check_writable(x, operation)
    if is_number(value):
        node = scalar(as_item(value, x.dtype, operation), x.dtype, operation)
    else:
        value = as_tensor(value, operation)
        _check_broadcast(value.shape, shape, operation)
        node = cast(value, x.dtype).node
    if 0 in shape:
        return
    owner = x if x.base is None else x.base
    owner.node = host.call(
        "scatter_on_host", (owner, _graph.tensor(index), _Held(node)), owner.shape, owner.dtype
    ).node


class _Held:
    """A node where a tensor is asked for: a SCALAR node has no tensor of its own."""

    __slots__ = ("node",)

    def __init__(self, node: _graph.Node) -> None:
        self.node = node


@host.host_function
def scatter_on_host(base: NDArray[Any], index: NDArray[Any], value: NDArray[Any]) -> NDArray[Any]:
    """A copy of base with values at flat indices."""
    result = np.array(base, order="C")
    extra = value.ndim - index.ndim
    if extra > 0:
        value = value.reshape(value.shape[extra:])
    result.reshape(-1)[index.reshape(-1)] = np.broadcast_to(value, index.shape).reshape(-1)
    return result


def check_writable(x: Any, operation: str) -> None:
    """Refuse to write to a tensor that repeats its elements in memory."""
    if x.base is not None and storage.overlaps_itself(x.shape, x.strides):
        raise ReadOnlyError(
            f"[{operation}] expected a tensor whose elements are apart in memory, "
            f"given a view of shape {x.shape} that repeats them; write to a copy"
        )


def _check_broadcast(given: Shape, shape: Shape, operation: str) -> None:
    extra = len(given) - len(shape)
    core = given[max(extra, 0) :]
    fits = all(a in (1, b) for a, b in zip(reversed(core), reversed(shape), strict=False))
    if not fits or (extra > 0 and given[:extra] != (1,) * extra):
        raise ShapeError(f"[{operation}] expected values that broadcast to shape {shape}, given {given}")


def _only_mask(x: Any, key: Any) -> Any:
    """The mask of a key that is one mask over x's leading axes, else None."""
    if type(key) is tuple:
        keys = [k for k in key if k is not Ellipsis]
        if len(keys) != 1 or (len(key) > 1 and key[0] is Ellipsis):
            return None
        key = keys[0]
    array: Any = key
    if not isinstance(key, np.ndarray | _graph.TensorBase):
        array = _index_array(key, "setitem")
    if array is None or array.dtype.kind != "b" or array.ndim == 0:
        return None
    if array.ndim > x.ndim:
        raise _too_many((key,), x.shape, "setitem")
    _check_mask(array, x.shape, 0, "setitem")
    return array


def _write_where(x: Any, mask: Any, value: Any) -> bool:
    """Write through a mask without evaluating it; False where values depend on how many are chosen."""
    rest = x.shape[mask.ndim :]
    if is_number(value):
        chosen = scalar(as_item(value, x.dtype, "setitem"), x.dtype, "setitem")
    else:
        value = as_tensor(value, "setitem")
        if value.ndim == len(rest) + 1 and value.shape[0] == 1:
            value = storage.view(value, value.shape[1:], value.strides[1:], value.offset)
        if value.ndim > len(rest):
            return False
        _check_broadcast(value.shape, rest, "setitem")
        chosen = _graph.broadcast(cast(value, x.dtype), x.shape)
    check_writable(x, "setitem")
    if 0 in x.shape:
        return True
    mask = as_tensor(mask, "setitem")
    spread = storage.view(mask, mask.shape + (1,) * len(rest), mask.strides + (0,) * len(rest), mask.offset)
    node = _graph.record(WHERE, (_graph.broadcast(spread, x.shape), chosen, x.node), x.shape, x.dtype)
    if x.base is None:
        x.node = node
    else:
        x.base.node = storage.update(x.base.node, node, x.strides, x.offset)
    return True
