"""Larger tensors from parts: an empty or constant base with each part written into its region."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _graph, dtypes
from . import primitives as p
from .arguments import Axes, Shape, Tensor, as_axis, as_int, as_shape, as_tensor, as_tensors, cast, number
from .elementwise import binary, deliver, select
from .errors import ArgumentError, ShapeError
from .gathering import take
from .host import call, host_function, values
from .parts import diagonal
from .primitives import BOOL, EMPTY
from .registry import case, operation
from .storage import contiguous_strides, copy, update
from .view import (
    along,
    atleast_1d,
    atleast_2d,
    atleast_3d,
    broadcast_view,
    expand_dims,
    flip,
    iota,
    narrowed,
    of_rank,
    ravel,
    reshape,
    reshape_to,
)


def assembled(base: _graph.Node, pieces: list[tuple[Any, Shape]]) -> Any:
    """A tensor of base's shape with each piece written where its first element's index says."""
    strides = contiguous_strides(base.shape)
    for piece, start in pieces:
        if piece.size:
            offset = sum(i * s for i, s in zip(start, strides, strict=True))
            base = update(base, piece.node, strides, offset)
    return _graph.tensor(base)


def empty_node(shape: Shape, dtype: dtypes.Dtype) -> _graph.Node:
    return _graph.record(EMPTY, (), shape, dtype)


def joined(tensors: list[Any], axis: int) -> Any:
    """Tensors of one dtype and fitting shapes, one behind the other along an axis."""
    rank = tensors[0].ndim
    length = sum(t.shape[axis] for t in tensors)
    shape = (*tensors[0].shape[:axis], length, *tensors[0].shape[axis + 1 :])
    pieces: list[tuple[Any, Shape]] = []
    at = 0
    for t in tensors:
        pieces.append((t, tuple(at if k == axis else 0 for k in range(rank))))
        at += t.shape[axis]
    return assembled(empty_node(shape, tensors[0].dtype), pieces)


def _common(name: str, tensors: list[Any], dtype: Any, casting: str) -> list[Any]:
    if not tensors:
        raise ArgumentError(f"[{name}] expected at least one tensor, given none")
    common = dtypes.result_type(*tensors) if dtype is None else dtypes.as_dtype(dtype, name)
    for t in tensors:
        if dtype is not None and not dtypes.can_cast(t.dtype, common, casting):
            raise ArgumentError(
                f"[{name}] expected dtypes that cast to {common.name} under the rule {casting!r}, "
                f"given {t.dtype.name}"
            )
    return [cast(t, common) for t in tensors]


@operation(
    np.concatenate,
    aliases=("concatenate",),
    cases=(
        case((2, 3), (4, 3), sequence=True),
        case((2, 3), (2, 1), (2, 0), sequence=True, axis=1),
        case((2, 3), (4,), sequence=True, axis=None),
    ),
)
def concat(
    arrays: Any, /, axis: int | None = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind"
) -> Tensor:
    """Join tensors along an axis that they have.

    Parameters
    ----------
    arrays : sequence of tensors or array-likes
        Of equal shapes but along `axis`; they are promoted to one dtype.
    axis : int or None
        None joins all elements of all tensors in one axis.
    out : tensor, optional
    dtype : dtype, optional
        Of the result.
    casting : str
        The rule that casts to `dtype` obey.

    Raises
    ------
    ShapeError
        Where shapes differ elsewhere, or a tensor has no axes.
    """
    tensors = as_tensors("concat", arrays)
    if axis is None:
        tensors, axis = [ravel(t) for t in tensors], 0
    tensors = _common("concat", tensors, dtype, casting)
    first = tensors[0]
    if first.ndim == 0:
        raise ShapeError("[concat] expected tensors of at least one axis, given 0-d; use stack")
    k = as_axis(axis, first.ndim, "concat")
    for t in tensors[1:]:
        if t.ndim != first.ndim or any(
            m != n
            for m, n in zip(
                t.shape[:k] + t.shape[k + 1 :], first.shape[:k] + first.shape[k + 1 :], strict=True
            )
        ):
            raise ShapeError(
                f"[concat] expected shapes that are equal but along axis {k}, "
                f"given {first.shape} and {t.shape}"
            )
    return deliver(joined(tensors, k), out, "concat")


@operation(
    np.stack,
    cases=(case((2, 3), (2, 3), sequence=True), case((2, 3), (2, 3), sequence=True, axis=-1)),
)
def stack(
    arrays: Any, /, axis: int = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind"
) -> Tensor:
    """Join tensors of one shape along a new axis.

    Parameters
    ----------
    arrays : sequence of tensors or array-likes
    axis : int
        The position of the new axis in the result.
    out : tensor, optional
    dtype, casting
        As for `concat`.
    """
    tensors = _common("stack", as_tensors("stack", arrays), dtype, casting)
    for t in tensors[1:]:
        if t.shape != tensors[0].shape:
            raise ShapeError(f"[stack] expected equal shapes, given {tensors[0].shape} and {t.shape}")
    k = as_axis(axis, tensors[0].ndim + 1, "stack")
    return deliver(joined([expand_dims(t, k) for t in tensors], k), out, "stack")


def _as_sequence(at_least: Any, arrays: Any) -> list[Any]:
    made = at_least(*as_tensors("stack", arrays))
    return list(made) if isinstance(made, tuple) else [made]


@operation(np.vstack, cases=(case((3,), (3,), sequence=True), case((2, 3), (1, 3), sequence=True)))
def vstack(arrays: Any, /, *, dtype: Any = None, casting: str = "same_kind") -> Tensor:
    """Join tensors along the first axis, one-dimensional ones as rows; parameters as for `concat`."""
    return concat(_as_sequence(atleast_2d, arrays), 0, dtype=dtype, casting=casting)


@operation(np.hstack, cases=(case((3,), (2,), sequence=True), case((2, 3), (2, 1), sequence=True)))
def hstack(arrays: Any, /, *, dtype: Any = None, casting: str = "same_kind") -> Tensor:
    """Join tensors along the second axis, one-dimensional ones along their only one.

    Parameters as for `concat`.
    """
    tensors = _as_sequence(atleast_1d, arrays)
    return concat(tensors, 0 if tensors and tensors[0].ndim == 1 else 1, dtype=dtype, casting=casting)


@operation(np.dstack, cases=(case((3,), (3,), sequence=True), case((2, 3), (2, 3), sequence=True)))
def dstack(arrays: Any, /) -> Tensor:
    """Join tensors along the third axis, those of fewer axes seen with three."""
    return concat(_as_sequence(atleast_3d, arrays), 2)


@operation(np.column_stack, cases=(case((3,), (3, 2), sequence=True),))
def column_stack(arrays: Any, /) -> Tensor:
    """Join tensors along the second axis, one-dimensional ones as columns."""
    return concat([expand_dims(t, 1) if t.ndim == 1 else t for t in _as_sequence(atleast_1d, arrays)], 1)


@operation(np.append, cases=(case((3,), (2, 2)), case((1, 2), (2, 2), axis=0)))
def append(x: Any, more: Any, /, axis: int | None = None) -> Tensor:
    """x with more values behind it along an axis; without one, both are joined in one axis."""
    return concat([as_tensor(x, "append"), as_tensor(more, "append")], axis)


# --- moving and repeating ----------------------------------------------------------------------------
@operation(
    np.roll,
    cases=(
        case((3, 4), args=(5,)),
        case((3, 4), args=(-1,), axis=1),
        case((3, 4), args=((1, 2),), axis=(0, 1)),
    ),
)
def roll(x: Any, /, shift: int | tuple[int, ...], axis: Axes = None) -> Tensor:
    """Move elements along axes; what falls off one end comes back at the other.

    Parameters
    ----------
    x : tensor or array-like
    shift : int or tuple of int
        Towards higher indices where positive.
    axis : int or tuple of int, optional
        None moves through all elements in C order and keeps the shape.
    """
    x = as_tensor(x, "roll")
    if axis is None:
        return reshape(roll(ravel(x), sum(shift) if isinstance(shift, tuple) else shift, 0), x.shape)
    axes = axis if isinstance(axis, tuple) else (axis,)
    shifts = shift if isinstance(shift, tuple) else (shift,)
    if len(shifts) != len(axes) and 1 not in (len(shifts), len(axes)):
        raise ArgumentError(f"[roll] expected as many shifts as axes, given {shift} and {axis}")
    count = max(len(shifts), len(axes))
    moved: dict[int, int] = {}
    for k, n in zip(axes * (count // len(axes)), shifts * (count // len(shifts)), strict=True):
        a = as_axis(k, x.ndim, "roll")
        moved[a] = moved.get(a, 0) + as_int(n, "roll", "shift")
    # One region of x for each way in which the axes are cut in two.
    regions: list[tuple[Any, Shape]] = [(x, (0,) * x.ndim)]
    for k, n in moved.items():
        length = x.shape[k]
        n = n % length if length else 0
        if n:
            regions = [
                (narrowed(part, k, a, b), (*start[:k], to, *start[k + 1 :]))
                for part, start in regions
                for a, b, to in ((length - n, length, 0), (0, length - n, n))
            ]
    if len(regions) == 1:
        return copy(x)
    return assembled(empty_node(x.shape, x.dtype), regions)


@operation(np.tile, cases=(case((3,), args=(2,)), case((2, 3), args=((2, 1, 2),)), case((2, 3), args=(2,))))
def tile(x: Any, /, reps: int | tuple[int, ...]) -> Tensor:
    """The tensor laid side by side as often as `reps` says for each axis.

    Parameters
    ----------
    x : tensor or array-like
    reps : int or tuple of int
        Fewer than there are axes count from the last; more make new axes in front.
    """
    x = as_tensor(x, "tile")
    times = as_shape(reps, "tile")
    rank = max(x.ndim, len(times))
    times = (1,) * (rank - len(times)) + times
    shape = (1,) * (rank - x.ndim) + x.shape
    if all(n == 1 for n in times):
        return copy(reshape_to(x, shape))
    pairs = reshape_to(x, tuple(n for length in shape for n in (1, length)))
    spread = broadcast_view(pairs, tuple(n for pair in zip(times, shape, strict=True) for n in pair))
    return reshape_to(copy(spread), tuple(n * m for n, m in zip(times, shape, strict=True)))


@operation(
    np.repeat,
    method=True,
    cases=(
        case((3, 4), args=(2,)),
        case((3, 4), args=(3,), axis=1),
        case((3, 4), args=([0, 2, 1],), axis=0),
        case((), args=(2,), axis=0),
    ),
)
def repeat(
    x: Any, /, repeats: Any, axis: int | None = None, *, total_repeat_length: int | None = None
) -> Tensor:
    """Each element as often as `repeats` says.

    Parameters
    ----------
    x : tensor or array-like
    repeats : int or sequence of int
        One number for all, or one for each position along the axis. A tensor of them is a sync point.
    axis : int, optional
        None repeats elements of the flattened tensor.
    total_repeat_length : int, optional
        Checked against the sum of `repeats`.
    """
    x = as_tensor(x, "repeat")
    x, k = along(x, axis, "repeat")
    counts = values(repeats) if isinstance(repeats, _graph.TensorBase) else np.asarray(repeats)
    if counts.dtype.kind not in "iu" or counts.ndim > 1:
        raise ArgumentError(f"[repeat] expected integers for repeats, given {repeats!r:.80}")
    if np.any(counts < 0):
        raise ArgumentError(f"[repeat] expected repeats that are not negative, given {repeats!r:.80}")
    if counts.size == 1:
        n = int(counts.reshape(()))
        inner = reshape_to(x, (*x.shape[: k + 1], 1, *x.shape[k + 1 :]))
        spread = broadcast_view(inner, (*x.shape[: k + 1], n, *x.shape[k + 1 :]))
        result = reshape_to(copy(spread), (*x.shape[:k], x.shape[k] * n, *x.shape[k + 1 :]))
    else:
        if counts.shape != (x.shape[k],):
            raise ShapeError(
                f"[repeat] expected {x.shape[k]} repeats for axis {k} of shape {x.shape}, given {counts.size}"
            )
        result = take(x, np.repeat(np.arange(x.shape[k]), counts), axis=k)
    if total_repeat_length not in (None, result.shape[k]):
        raise ArgumentError(
            f"[repeat] expected {total_repeat_length} repeated elements, given {result.shape[k]}"
        )
    return result


@operation(np.resize, cases=(case((2, 3), args=((3, 4),)), case((2, 3), args=(4,))))
def resize(x: Any, /, new_shape: int | tuple[int, ...]) -> Tensor:
    """The elements in another shape, repeated from the first where there are too few."""
    x = as_tensor(x, "resize")
    shape = as_shape(new_shape, "resize")
    wanted = int(np.prod(shape, dtype=int))
    if not wanted or not x.size:
        return number(0, x.dtype, shape)
    flat = tile(ravel(x), -(-wanted // x.size))
    return reshape_to(copy(narrowed(flat, 0, 0, wanted)), shape)


# --- padding -------------------------------------------------------------------------------------------
def _pad_widths(pad_width: Any, ndim: int) -> list[tuple[int, int]]:
    if isinstance(pad_width, dict):
        widths = [(0, 0)] * ndim
        for axis, pair in pad_width.items():
            widths[as_axis(axis, ndim, "pad")] = (pair, pair) if isinstance(pair, int) else tuple(pair)
        return widths
    try:
        given = np.broadcast_to(np.asarray(pad_width), (ndim, 2))
    except ValueError:
        raise ShapeError(
            f"[pad] expected a width, a pair, or a pair for each of {ndim} axes, given {pad_width!r}"
        ) from None
    if given.dtype.kind not in "iu":
        raise ArgumentError(f"[pad] expected integers for pad_width, given {pad_width!r}")
    if (given < 0).any():
        raise ArgumentError(f"[pad] expected widths that are not negative, given {pad_width!r}")
    return [(int(a), int(b)) for a, b in given]


def _runs(index: Any) -> list[tuple[int, int, int]]:
    """Cut positions into runs of one step: (first, step, length)."""
    runs: list[tuple[int, int, int]] = []
    k = 0
    while k < len(index):
        stop = k + 1
        step = int(index[stop] - index[k]) if stop < len(index) else 1
        if step in (-1, 0, 1):
            while stop < len(index) and index[stop] - index[stop - 1] == step:
                stop += 1
        runs.append((int(index[k]), step if stop - k > 1 else 1, stop - k))
        k = stop
    return runs


def _pad_by_position(x: Any, widths: list[tuple[int, int]], mode: Any, options: dict[str, Any]) -> Any:
    for k, pair in enumerate(widths):
        if pair == (0, 0):
            continue
        if x.shape[k] == 0:
            raise ShapeError(
                f"[pad] expected axes that are not empty for mode {mode!r}, given shape {x.shape}"
            )
        parts = []
        for first, step, length in _runs(np.pad(np.arange(x.shape[k]), pair, mode, **options)):
            if step == 0:
                one = narrowed(x, k, first, first + 1)
                parts.append(broadcast_view(one, (*x.shape[:k], length, *x.shape[k + 1 :])))
            elif step == 1:
                parts.append(narrowed(x, k, first, first + length))
            else:
                parts.append(flip(narrowed(x, k, first - length + 1, first + 1), k))
        x = joined(parts, k)
    return x if any(pair != (0, 0) for pair in widths) else copy(x)


@host_function
def pad_on_host(x: Any, widths: Any, mode: str, options: Any) -> Any:
    return np.pad(x, widths, mode, **dict(options))  # type: ignore[call-overload]


@operation(
    np.pad,
    cases=(
        case((3, 4), args=(1,)),
        case((3, 4), args=(((1, 0), (2, 3)),), constant_values=7),
        case((3, 4), args=((2, 5),), mode="edge"),
        case((3, 4), args=(5,), mode="reflect"),
        case((3, 4), args=(5,), mode="symmetric"),
        case((3, 4), args=(5,), mode="wrap"),
        case((3, 4), args=(1,), mode="maximum"),
    ),
)
def pad(x: Any, /, pad_width: Any, mode: str = "constant", **options: Any) -> Tensor:
    """Add elements at the ends of axes.

    Parameters
    ----------
    x : tensor or array-like
    pad_width : int, pair, or one pair for each axis
        How many in front and behind; a dict gives pairs for some axes.
    mode : str
        ``"constant"`` (with ``constant_values``), ``"edge"``, ``"reflect"``, ``"symmetric"``, ``"wrap"``,
        ``"empty"``, or one of NumPy's ``"linear_ramp"``, ``"maximum"``, ``"mean"``, ``"median"``,
        ``"minimum"`` with their options.
    **options
        As for `numpy.pad`.
    """
    x = as_tensor(x, "pad")
    widths = _pad_widths(pad_width, x.ndim)
    shape = tuple(n + a + b for n, (a, b) in zip(x.shape, widths, strict=True))
    start = tuple(a for a, _ in widths)
    if mode == "constant":
        value = options.pop("constant_values", 0)
        if options:
            raise ArgumentError(
                f"[pad] expected only constant_values for mode 'constant', given {', '.join(options)}"
            )
        if np.ndim(value) == 0:
            one = value.item() if hasattr(value, "item") else value
            return assembled(number(_weakened(one, x.dtype), x.dtype, shape, "pad").node, [(x, start)])
        options, mode = {"constant_values": _frozen(value)}, "constant"
    elif mode == "empty":
        return assembled(empty_node(shape, x.dtype), [(x, start)])
    elif mode in ("edge", "reflect", "symmetric", "wrap") and options.get("reflect_type", "even") == "even":
        return _pad_by_position(x, widths, mode, options)
    if not callable(mode) and mode not in (
        "constant",
        "reflect",
        "symmetric",
        "linear_ramp",
        "maximum",
        "mean",
        "median",
        "minimum",
    ):
        raise ArgumentError(f"[pad] expected a mode of numpy.pad, given {mode!r}")
    if shape == x.shape:
        return copy(x)
    frozen = tuple((k, _frozen(v)) for k, v in options.items())
    return call("pad_on_host", (x,), shape, x.dtype, tuple(widths), mode, frozen)


def _weakened(value: Any, dtype: dtypes.Dtype) -> Any:
    """A constant as a number that the dtype takes, floats cut for integers as NumPy's unsafe cast does."""
    return (
        np.asarray(value).astype(dtype).item() if dtype.kind in "biu" and isinstance(value, float) else value
    )


def _frozen(value: Any) -> Any:
    return tuple(_frozen(v) for v in value) if np.iterable(value) and not isinstance(value, str) else value


# --- triangles -------------------------------------------------------------------------------------------
def triangle(shape: Shape, k: int) -> Any:
    """A bool tensor that is true on and below the k-th diagonal of its last two axes."""
    rows, columns = iota(shape, len(shape) - 2), iota(shape, len(shape) - 1)
    return binary(p.LE, columns, binary(p.ADD, rows, k) if k else rows, BOOL)


def _rows(name: str, x: Any) -> Any:
    """A tensor of at least two axes; one of one axis is repeated as the rows of a square matrix."""
    x = of_rank(name, x, 1)
    return x if x.ndim > 1 else broadcast_view(x, x.shape * 2)


@operation(np.tril, cases=(case((3, 4)), case((2, 4, 3), k=1), case((3, 3), k=-1), case((3,))))
def tril(x: Any, /, k: int = 0) -> Tensor:
    """The elements on and below a diagonal of the last two axes, 0 elsewhere.

    Parameters
    ----------
    x : tensor or array-like
        Of one axis: each row of a square matrix.
    k : int
        The diagonal: 0 the main one, positive ones above it.
    """
    x = _rows("tril", x)
    return select(triangle(x.shape, as_int(k, "tril", "k")), x, False if x.dtype == BOOL else 0)


@operation(np.triu, cases=(case((3, 4)), case((2, 4, 3), k=1), case((3, 3), k=-1), case((3,), k=1)))
def triu(x: Any, /, k: int = 0) -> Tensor:
    """The elements on and above a diagonal of the last two axes, 0 elsewhere; parameters as for `tril`."""
    x = _rows("triu", x)
    return select(triangle(x.shape, as_int(k, "triu", "k") - 1), False if x.dtype == BOOL else 0, x)


@operation(np.diag, cases=(case((3,)), case((3, 4), k=1), case((3,), k=-2)))
def diag(x: Any, /, k: int = 0) -> Tensor:
    """The diagonal of a matrix as a view, or the matrix that has a vector on a diagonal.

    Parameters
    ----------
    x : tensor or array-like
        Of one axis or two.
    k : int
        The diagonal.
    """
    x = as_tensor(x, "diag")
    if x.ndim == 2:
        return diagonal(x, k)
    if x.ndim != 1:
        raise ShapeError(f"[diag] expected one axis or two, given shape {x.shape}")
    k = as_int(k, "diag", "k")
    n = x.shape[0] + abs(k)
    base = number(False if x.dtype == BOOL else 0, x.dtype, (n, n))
    if not x.size:
        return base
    return _graph.tensor(update(base.node, x.node, (n + 1,), k if k > 0 else -k * n))


@operation(np.diagflat, cases=(case((2, 2)), case((3,), k=1)))
def diagflat(x: Any, /, k: int = 0) -> Tensor:
    """The matrix that has all elements of x, in one row, on a diagonal."""
    return diag(ravel(as_tensor(x, "diagflat")), k)
