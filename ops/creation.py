"""Tensors from nothing: constants, ranges, and copies of what the host holds."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from . import _graph, dtypes
from . import primitives as p
from .arguments import Tensor, as_array, as_int, as_shape, as_tensor, cast, number
from .dtypes import is_float, is_integer, promote_types
from .elementwise import binary, select, unary
from .errors import ArgumentError, DtypeError, ShapeError
from .host import adopted, from_array, placed
from .joining import empty_node, stack, triangle
from .primitives import BOOL
from .registry import case, operation
from .storage import copy as owned
from .traced import is_number
from .view import (
    broadcast_arrays,
    broadcast_to,
    broadcast_view,
    expand_dims,
    iota,
    moveaxis,
    reshape_to,
    squeeze,
)

TensorBase = _graph.TensorBase


def _on_device(function: Callable[..., Any]) -> Any:
    """Put what a function makes on the device that it is called with."""

    @wraps(function)
    def make(*args: Any, device: Any = None, **options: Any) -> Any:
        made = function(*args, **options)
        if device is None:
            return made
        if isinstance(made, tuple):
            return tuple(placed(x, device, function.__name__) for x in made)
        return placed(made, device, function.__name__)

    return make


# --- from the host ----------------------------------------------------------------------------------
@operation(np.asarray, cases=(case((3, 5)),))
@_on_device
def asarray(obj: Any, /, dtype: Any = None, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor of an array-like's values.

    Parameters
    ----------
    obj : tensor, array, DLPack exporter, number, or nested sequence of them
        A tensor is returned as it is unless something must change. Everything else is copied: a tensor never
        shares memory with an array of the host.
    dtype : dtype, optional
        An array keeps its own without it; Python floats become float32, integers int64.
    device : str, optional
        Where it is put, and what is computed from it: ``"cpu"``, ``"npu:0"`` … as for `Tensor.to_device`.
    copy : bool, optional
        True copies a tensor too; False refuses to copy.

    Returns
    -------
    tensor

    Raises
    ------
    DtypeError
        For what has no numbers, and for dtypes that tensors cannot have.
    ShapeError
        For nested sequences of unequal lengths.
    """
    wanted = None if dtype is None else dtypes.as_dtype(dtype, "asarray")
    if isinstance(obj, TensorBase):
        if wanted is not None and obj.dtype != wanted:
            if copy is False:
                raise ArgumentError(
                    f"[asarray] expected dtype {wanted.name} for copy=False, given {obj.dtype.name}"
                )
            return cast(obj, wanted)
        return owned(obj) if copy else obj
    if copy is False:
        raise ArgumentError(
            f"[asarray] expected a tensor for copy=False, given {type(obj).__name__}, which must be copied"
        )
    if is_number(obj):
        return number(obj, wanted or dtypes.weak(None, obj.__class__))
    if isinstance(obj, list | tuple) and _holds_tensors(obj):
        made = stack([asarray(item, wanted) for item in obj])
        return made if wanted is None else cast(made, wanted)
    made = adopted(obj)
    if made is not None:
        return made if wanted is None else cast(made, wanted)
    array = as_array(obj)
    if wanted is not None and array.dtype != wanted:
        if isinstance(obj, list | tuple) and array.dtype.kind == "f":
            array = np.asarray(obj)
        if isinstance(obj, list | tuple) and array.dtype.kind in "iu" and is_integer(wanted) and array.size:
            low, high = array.min(), array.max()
            limits = np.iinfo(wanted)
            for value in (low, high):
                if not limits.min <= int(value) <= limits.max:
                    number(int(value), wanted)  # raises
        if is_float(array.dtype) and is_integer(wanted):
            return cast(from_array(array), wanted)
        array = array.astype(wanted)
    return from_array(array)


def _holds_tensors(items: Any) -> bool:
    return any(
        isinstance(i, TensorBase) or (isinstance(i, list | tuple) and _holds_tensors(i)) for i in items
    )


@operation(np.array, cases=(case((3, 5)),))
def array(obj: Any, /, dtype: Any = None, *, copy: bool = True, ndmin: int = 0) -> Tensor:
    """A new tensor of an array-like's values: `asarray` that copies tensors too.

    Parameters
    ----------
    obj : tensor, array, number, or nested sequence of them
    dtype : dtype, optional
    copy : bool
        False returns a tensor as it is.
    ndmin : int
        Axes of length 1 are put in front until there are as many.
    """
    made = asarray(obj, dtype, copy=True if copy else None)
    missing = ndmin - made.ndim
    return reshape_to(made, (1,) * missing + made.shape) if missing > 0 else made


@operation(np.asanyarray)
def asanyarray(obj: Any, /, dtype: Any = None) -> Tensor:
    """`asarray` under another name of NumPy's."""
    return asarray(obj, dtype)


@operation(np.from_dlpack)
@_on_device
def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor with a copy of what another library exports through DLPack.

    Parameters
    ----------
    x : object with ``__dlpack__`` and ``__dlpack_device__``, in the memory of the CPU
        Or a tensor of PyTorch's on an NPU: its memory is shared unless `copy` is True, and must not be
        written to while the tensor is in use.
    device : str, optional
        Where it is put, and what is computed from it: ``"cpu"``, ``"npu:0"`` … as for `Tensor.to_device`.
    copy : bool, optional
        False is refused for arrays of the host: tensors never share memory with them.
    """
    if isinstance(x, TensorBase):
        return owned(x)
    made = adopted(x, share=not copy)
    if made is not None:
        return made
    if copy is False:
        raise ArgumentError(
            "[from_dlpack] expected copy=None or True, given False: tensors have memory of their own"
        )
    if not hasattr(x, "__dlpack__"):
        raise DtypeError(f"[from_dlpack] expected an object with __dlpack__, given {type(x).__name__}")
    return asarray(np.from_dlpack(x))


@operation(np.fromfunction)
def fromfunction(function: Callable[..., Any], shape: Any, *, dtype: Any = None, **options: Any) -> Tensor:
    """What a function gives when it is called with the index along each axis of a shape.

    Parameters
    ----------
    function : callable
        Takes one tensor for each axis.
    shape : tuple of int
    dtype : dtype, optional
        Of the indices; float32 without it.
    """
    new = as_shape(shape, "fromfunction")
    wanted = dtypes.default_float if dtype is None else dtypes.as_dtype(dtype, "fromfunction")
    return function(*(cast(iota(new, k), wanted) for k in range(len(new))), **options)


# --- constants ---------------------------------------------------------------------------------------
def _dtype(dtype: Any, name: str) -> dtypes.Dtype:
    return dtypes.default_float if dtype is None else dtypes.as_dtype(dtype, name)


def constant(shape: Any, value: Any, dtype: dtypes.Dtype, name: str) -> Any:
    """A tensor of one number in a shape; a bool's 0 and 1 are False and True."""
    return number(bool(value) if dtype == BOOL else value, dtype, as_shape(shape, name), name)


@operation(
    cases=(case(args=((2, 3),)), case(args=(4,), dtype=np.int16)),
    reference=lambda s, dtype=np.float32: np.zeros(s, dtype),
    dtypes="f",
)
@_on_device
def zeros(shape: Any, dtype: Any = None, *, order: str = "C", device: Any = None) -> Tensor:
    """A tensor of zeros.

    Parameters
    ----------
    shape : int or tuple of int
    dtype : dtype, optional
        float32 without it.
    order : str
        Accepted and ignored: storage is always in C order.
    device : str, optional
        Where it is put, and what is computed from it: ``"cpu"``, ``"npu:0"`` … as for `Tensor.to_device`.
    """
    return constant(shape, 0, _dtype(dtype, "zeros"), "zeros")


@operation(
    cases=(case(args=((2, 3),)), case(args=(4,), dtype=np.int16)),
    reference=lambda s, dtype=np.float32: np.ones(s, dtype),
    dtypes="f",
)
@_on_device
def ones(shape: Any, dtype: Any = None, *, order: str = "C", device: Any = None) -> Tensor:
    """A tensor of ones; parameters as for `zeros`."""
    return constant(shape, 1, _dtype(dtype, "ones"), "ones")


@operation()
@_on_device
def empty(shape: Any, dtype: Any = None, *, order: str = "C", device: Any = None) -> Tensor:
    """A tensor whose values are whatever its memory holds; parameters as for `zeros`."""
    return _graph.tensor(empty_node(as_shape(shape, "empty"), _dtype(dtype, "empty")))


@operation(
    cases=(case(args=((2, 3), True)), case(args=(4, 7)), case(args=((2,), 1.5), dtype=np.float64)),
    reference=np.full,
    dtypes="f",
)
@_on_device
def full(shape: Any, fill_value: Any, dtype: Any = None, *, order: str = "C", device: Any = None) -> Tensor:
    """A tensor of one value.

    Parameters
    ----------
    shape : int or tuple of int
    fill_value : number, or tensor that broadcasts to the shape
    dtype : dtype, optional
        That of the value without it.
    order, device
        As for `zeros`.
    """
    new = as_shape(shape, "full")
    if is_number(fill_value):
        wanted = dtypes.weak(None, fill_value.__class__) if dtype is None else dtypes.as_dtype(dtype, "full")
        if fill_value.__class__ is float and not is_float(wanted):
            fill_value = int(fill_value)
        return constant(new, fill_value, wanted, "full")
    value = as_tensor(fill_value, "full")
    value = value if dtype is None else cast(value, dtypes.as_dtype(dtype, "full"))
    return owned(broadcast_to(value, new))


def _like(x: Any, dtype: Any, shape: Any, name: str) -> tuple[Any, dtypes.Dtype]:
    x = x if isinstance(x, TensorBase) else as_tensor(x, name)
    wanted = x.dtype if dtype is None else dtypes.as_dtype(dtype, name)
    return (x.shape if shape is None else as_shape(shape, name)), wanted


_LIKE = (case((2, 3)), case((2, 3), dtype=np.int16), case((2, 3), shape=(4,)))


@operation(np.zeros_like, cases=_LIKE)
@_on_device
def zeros_like(x: Any, /, dtype: Any = None, *, shape: Any = None, device: Any = None) -> Tensor:
    """Zeros in the shape and dtype of another tensor, unless these are given."""
    new, wanted = _like(x, dtype, shape, "zeros_like")
    return constant(new, 0, wanted, "zeros_like")


@operation(np.ones_like, cases=_LIKE)
@_on_device
def ones_like(x: Any, /, dtype: Any = None, *, shape: Any = None, device: Any = None) -> Tensor:
    """Ones in the shape and dtype of another tensor, unless these are given."""
    new, wanted = _like(x, dtype, shape, "ones_like")
    return constant(new, 1, wanted, "ones_like")


@operation(np.empty_like)
@_on_device
def empty_like(x: Any, /, dtype: Any = None, *, shape: Any = None, device: Any = None) -> Tensor:
    """A tensor with whatever its memory holds, in the shape and dtype of another, unless these are given."""
    new, wanted = _like(x, dtype, shape, "empty_like")
    return _graph.tensor(empty_node(new, wanted))


@operation(np.full_like, cases=(case((2, 3), args=(1,)), case((2, 3), args=(2.5,), dtype=np.float64)))
@_on_device
def full_like(
    x: Any, /, fill_value: Any, dtype: Any = None, *, shape: Any = None, device: Any = None
) -> Tensor:
    """One value in the shape and dtype of another tensor, unless these are given."""
    new, wanted = _like(x, dtype, shape, "full_like")
    return full(new, fill_value, wanted)


# --- ranges -------------------------------------------------------------------------------------------
@operation(
    cases=(case(args=(5,)), case(args=(2, 9, 3)), case(args=(5, 0, -2)), case(args=(3, 3))),
    reference=np.arange,
    dtypes="f",
)
@_on_device
def arange(
    start: Any, /, stop: Any = None, step: Any = 1, dtype: Any = None, *, device: Any = None
) -> Tensor:
    """Evenly spaced numbers from `start` up to `stop`, which is not among them.

    Parameters
    ----------
    start : number
        Alone it is the stop, and the start is 0.
    stop, step : number
    dtype : dtype, optional
        int64 where all are integers, float32 where one is not.
    device : str, optional
        Where it is put, and what is computed from it: ``"cpu"``, ``"npu:0"`` … as for `Tensor.to_device`.

    Raises
    ------
    ArgumentError
        Where the step is 0.
    """
    if stop is None:
        start, stop = 0, start
    bounds = [v.item() if hasattr(v, "item") else v for v in (start, stop, step)]
    if not all(isinstance(v, int | float) for v in bounds):
        raise DtypeError(f"[arange] expected numbers, given {start!r}, {stop!r}, {step!r}")
    first, last, by = bounds
    if by == 0:
        raise ArgumentError("[arange] expected a step that is not 0, given 0")
    ratio = (last - first) / by if any(isinstance(v, float) for v in bounds) else None
    if ratio is not None and not math.isfinite(ratio):
        raise ArgumentError(f"[arange] expected finite bounds, given {first}, {last}, {by}")
    length = max(0, math.ceil(ratio) if ratio is not None else -((first - last) // by))
    natural = dtypes.result_type(*(v if isinstance(v, bool) is False else int(v) for v in bounds))
    wanted = natural if dtype is None else dtypes.as_dtype(dtype, "arange")
    shape = as_shape(length, "arange")
    count = iota(shape, 0)
    if natural.kind == "i":
        made = count if by == 1 else binary(p.MUL, count, by)
        made = made if first == 0 else binary(p.ADD, made, first)
        return cast(made, wanted)
    # As NumPy: in the result's dtype where it is a float, with the rounded step.
    exact = wanted if wanted in (dtypes.float32, dtypes.float64) else dtypes.float64
    begin, rounded = exact.type(first), exact.type(first + by) - exact.type(first)
    made = binary(p.ADD, binary(p.MUL, cast(count, exact), float(rounded)), float(begin))
    return cast(made, wanted)


@operation(
    cases=(
        case(args=(0, 1), num=5),
        case(args=(2.0, 3.0, 7), endpoint=False),
        case(args=(0, 10, 3), dtype=np.int64),
        case(args=(1.0, 2.0, 1)),
    ),
    reference=lambda *a, dtype=np.float32, **k: np.linspace(*a, **k).astype(dtype),
    dtypes="f",
    ulp=1,
)
@_on_device
def linspace(
    start: Any,
    stop: Any,
    /,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> Tensor:
    """Evenly spaced numbers over an interval.

    Parameters
    ----------
    start, stop : number or tensor
        Tensors give one row of numbers for each pair.
    num : int
        How many.
    endpoint : bool
        Whether `stop` is the last of them.
    retstep : bool
        Also return the distance between them.
    dtype : dtype, optional
        float32 without it (float64 for tensors of float64). Integers round down.
    axis : int
        Where the numbers run in the result, for tensors.
    device : str, optional
        Where it is put, and what is computed from it: ``"cpu"``, ``"npu:0"`` … as for `Tensor.to_device`.
    """
    count = as_int(num, "linspace", "num")
    if count < 0:
        raise ArgumentError(f"[linspace] expected a number of samples that is not negative, given {count}")
    natural = dtypes.floating(
        dtypes.result_type(*(v if is_number(v) else as_tensor(v) for v in (start, stop)))
    )
    wanted = natural if dtype is None else dtypes.as_dtype(dtype, "linspace")
    # Computed in float64, as NumPy does, whatever it is rounded to.
    wide = dtypes.float64
    begin, end = (cast(as_tensor(v, "linspace"), wide) for v in (start, stop))
    begin, end = (expand_dims(v, 0) for v in broadcast_arrays(begin, end))
    gaps = count - 1 if endpoint else count
    span = binary(p.SUB, end, begin)
    index = reshape_to(cast(iota((count,), 0), wide), (count, *(1,) * (begin.ndim - 1)))
    step = binary(p.DIV, span, float(gaps)) if gaps > 0 else number(math.nan, wide, span.shape)
    made = binary(p.ADD, binary(p.MUL, index, step if gaps > 0 else span), begin)
    if endpoint and count > 1:
        last = binary(p.EQ, index, float(count - 1), BOOL)
        made = select(last, end, made)
    if is_integer(wanted):
        made = unary(p.FLOOR, made, wide)
    made = cast(made, wanted)
    if made.ndim > 1 and axis not in (0, -made.ndim):
        made = moveaxis(made, 0, axis)
    return (made, cast(squeeze(step, 0), natural)) if retstep else made


@operation(
    reference=lambda *a, **k: np.logspace(*a, **k).astype(np.float32),
    cases=(case(args=(0, 2, 5)), case(args=(0, 3, 4), base=2.0)),
    dtypes="f",
    ulp=4,
)
def logspace(
    start: Any,
    stop: Any,
    /,
    num: int = 50,
    endpoint: bool = True,
    base: float = 10.0,
    dtype: Any = None,
    axis: int = 0,
) -> Tensor:
    """Numbers from ``base**start`` to ``base**stop`` with evenly spaced logarithms.

    Parameters as for `linspace`.
    """
    exponents = linspace(start, stop, num, endpoint, dtype=dtypes.float64, axis=axis)
    natural = dtypes.floating(
        dtypes.result_type(*(v if is_number(v) else as_tensor(v) for v in (start, stop)))
    )
    made = binary(p.POW, number(float(base), dtypes.float64), exponents)
    return cast(made, natural if dtype is None else dtypes.as_dtype(dtype, "logspace"))


@operation(
    reference=lambda *a, **k: np.geomspace(*a, **k).astype(np.float32),
    cases=(case(args=(1, 1000, 4)), case(args=(-2.0, -8.0, 3))),
    dtypes="f",
    ulp=4,
)
def geomspace(
    start: Any, stop: Any, /, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0
) -> Tensor:
    """Numbers from `start` to `stop` with an even ratio.

    Parameters as for `linspace`; the bounds are not 0 and of one sign.
    """
    made = np.geomspace(
        np.asarray(start), np.asarray(stop), as_int(num, "geomspace", "num"), endpoint, axis=axis
    )
    natural = dtypes.floating(
        dtypes.result_type(*(v if is_number(v) else as_tensor(v) for v in (start, stop)))
    )
    return from_array(made.astype(natural if dtype is None else dtypes.as_dtype(dtype, "geomspace")))


# --- matrices and grids -----------------------------------------------------------------------------------
@operation(
    cases=(
        case(args=(3,)),
        case(args=(3, 4), k=1),
        case(args=(3, 2), k=-1, dtype=np.int16),
        case(args=(2, 2, 5)),
    ),
    reference=lambda n, m=None, k=0, dtype=np.float32: np.eye(n, m, k, dtype),
    dtypes="f",
)
@_on_device
def eye(
    n_rows: int, n_cols: int | None = None, /, k: int = 0, dtype: Any = None, *, device: Any = None
) -> Tensor:
    """Ones on a diagonal of a matrix, zeros elsewhere.

    Parameters
    ----------
    n_rows, n_cols : int
        As many columns as rows unless given.
    k : int
        The diagonal: 0 the main one, positive ones above it.
    dtype : dtype, optional
        float32 without it.
    device : str, optional
        Where it is put, and what is computed from it: ``"cpu"``, ``"npu:0"`` … as for `Tensor.to_device`.
    """
    shape = as_shape((n_rows, n_rows if n_cols is None else n_cols), "eye")
    k = as_int(k, "eye", "k")
    rows, columns = iota(shape, 0), iota(shape, 1)
    on = binary(p.EQ, columns, binary(p.ADD, rows, k) if k else rows, BOOL)
    return cast(on, _dtype(dtype, "eye"))


@operation(cases=(case(args=(3,)),), reference=lambda n: np.identity(n, np.float32), dtypes="f")
def identity(n: int, dtype: Any = None) -> Tensor:
    """The square matrix with ones on its main diagonal."""
    return eye(n, dtype=dtype)


@operation(
    cases=(case(args=(3,)), case(args=(3, 4), k=1)),
    reference=lambda n, m=None, k=0: np.tri(n, m, k, np.float32),
    dtypes="f",
)
def tri(n_rows: int, n_cols: int | None = None, /, k: int = 0, dtype: Any = None) -> Tensor:
    """Ones on and below a diagonal of a matrix, zeros above; parameters as for `eye`."""
    shape = as_shape((n_rows, n_rows if n_cols is None else n_cols), "tri")
    return cast(triangle(shape, as_int(k, "tri", "k")), _dtype(dtype, "tri"))


@operation(
    np.vander, cases=(case((3,)), case((3,), N=2), case((3,), increasing=True)), dtypes="i", domain=(-5, 5)
)
def vander(x: Any, /, N: int | None = None, increasing: bool = False) -> Tensor:
    """The matrix whose columns are powers of a vector, the highest first unless `increasing`.

    Parameters
    ----------
    x : tensor of one axis
    N : int, optional
        How many columns; as many as x has elements without it.
    increasing : bool
    """
    x = as_tensor(x, "vander")
    if x.ndim != 1:
        raise ShapeError(f"[vander] expected one axis, given shape {x.shape}")
    x = cast(x, promote_types(x.dtype, dtypes.int64))
    columns = x.shape[0] if N is None else as_int(N, "vander", "N")
    powers = [number(1, x.dtype, x.shape)]
    for _ in range(columns - 1):
        powers.append(binary(p.MUL, powers[-1], x))
    powers = powers[:columns]
    if not powers:
        return number(0, x.dtype, (x.shape[0], 0))
    return stack(powers if increasing else powers[::-1], 1)


@operation(
    np.meshgrid,
    cases=(
        case((3,), (4,)),
        case((3,), (4,), (2,), indexing="ij"),
        case((2, 2), (3,), ()),
        case((3,), (4,), sparse=True),
    ),
)
def meshgrid(*xs: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> list[Tensor]:
    """Coordinates of a grid, one tensor for each axis.

    Parameters
    ----------
    *xs : tensors
        The coordinates along each axis, in C order where they have several axes.
    copy : bool
        False gives views that must not be written to.
    sparse : bool
        Leave the other axes at length 1.
    indexing : {"xy", "ij"}
        Whether the first two axes of the result are exchanged ("xy") or in the order given ("ij").
    """
    if indexing not in ("xy", "ij"):
        raise ArgumentError(f"[meshgrid] expected indexing 'xy' or 'ij', given {indexing!r}")
    tensors = [as_tensor(x, "meshgrid") for x in xs]
    rank = len(tensors)
    axes = list(range(rank))
    if indexing == "xy" and rank > 1:
        axes[0], axes[1] = 1, 0
    lengths = [1] * rank
    for t, k in zip(tensors, axes, strict=True):
        lengths[k] = t.size
    made = [
        reshape_to(t, tuple(t.size if k == a else 1 for k in range(rank)))
        for t, a in zip(tensors, axes, strict=True)
    ]
    if not sparse:
        made = [broadcast_view(t, tuple(lengths)) for t in made]
    return [owned(t) for t in made] if copy else made


@operation(np.indices, cases=(case(args=((2, 3),)),), dtypes="f")
def indices(dimensions: tuple[int, ...], dtype: Any = None, sparse: bool = False) -> Tensor:
    """The index along each axis of a shape.

    One tensor with a leading axis, or a tuple of tensors that broadcast if `sparse`.
    """
    shape = as_shape(dimensions, "indices")
    wanted = dtypes.int64 if dtype is None else dtypes.as_dtype(dtype, "indices")
    if sparse:
        return tuple(
            reshape_to(cast(iota((n,), 0), wanted), tuple(n if j == k else 1 for j in range(len(shape))))
            for k, n in enumerate(shape)
        )
    if not shape:
        return number(0, wanted, (0,))
    return stack([cast(iota(shape, k), wanted) for k in range(len(shape))])
