"""What each primitive means, as functions of NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .dtypes import is_narrow

Array = NDArray[Any]
Dtype = np.dtype[Any]
Shape = tuple[int, ...]
Attrs = tuple[Any, ...]

# The host functions of HOST_CALL by name, filled by ops.host.
HOST_FUNCTIONS: dict[str, Callable[..., Array]] = {}


def elementwise(function: Callable[..., Any]) -> Callable[..., Array]:
    """The meaning of an elementwise primitive computed by one NumPy function."""

    def meaning(*operands: Array, attrs: Attrs, shape: Shape, dtype: Dtype) -> Array:
        with np.errstate(all="ignore"):
            result = function(*operands)
        return np.broadcast_to(np.asarray(result, dtype), shape)

    return meaning


def no_meaning(*operands: Array, attrs: Attrs, shape: Shape, dtype: Dtype) -> Array:
    raise AssertionError("leaves and scalars hold values; they are not computed")


def empty(*, attrs: Attrs, shape: Shape, dtype: Dtype) -> Array:
    return np.empty(shape, dtype)


def full(value: Array, *, attrs: Attrs, shape: Shape, dtype: Dtype) -> Array:
    return np.full(shape, value, dtype)


def iota(*, attrs: Attrs, shape: Shape, dtype: Dtype) -> Array:
    (axis,) = attrs
    index = np.arange(shape[axis], dtype=dtype)
    return np.broadcast_to(index.reshape([-1 if k == axis else 1 for k in range(len(shape))]), shape)


def strided(base: Array, shape: Shape, strides: Shape, offset: int) -> Array:
    """The strided region of a C-contiguous array, strides and offset in elements."""
    flat = base.reshape(-1)
    if 0 in shape:
        return np.empty(shape, base.dtype)
    size = base.dtype.itemsize
    return np.lib.stride_tricks.as_strided(flat[offset:], shape, [s * size for s in strides])


def view(base: Array, *, attrs: Attrs, shape: Shape, dtype: Dtype) -> Array:
    strides, offset = attrs
    return strided(np.ascontiguousarray(base), shape, strides, offset)


def update(base: Array, value: Array, *, attrs: Attrs, shape: Shape, dtype: Dtype) -> Array:
    strides, offset = attrs
    result = np.array(base, order="C")
    if 0 not in value.shape:
        strided(result, value.shape, strides, offset)[...] = value
    return result


def gather(base: Array, index: Array, *, attrs: Attrs, shape: Shape, dtype: Dtype) -> Array:
    return np.broadcast_to(np.ascontiguousarray(base).reshape(-1)[index], shape)


def where(condition: Array, x: Array, y: Array) -> Array:
    return np.where(condition, x, y)


def power(x: Array, y: Array) -> Array:
    if x.dtype.kind not in "iu":
        return np.asarray(np.power(x, y))
    # NumPy refuses a negative integer exponent; the meaning of the primitive is 1 / x**-y truncated.
    if x.dtype.kind == "i" and np.any(y < 0):
        magnitude = np.where(y < 0, np.where(x == 1, 1, np.where(x == -1, 1 - 2 * (y & 1), 0)), 0)
        return np.where(y < 0, magnitude.astype(x.dtype), np.power(x, np.where(y < 0, 0, y)))
    return np.asarray(np.power(x, y))


def erf(x: Array) -> Array:
    from scipy import special

    if is_narrow(x.dtype):
        return np.asarray(special.erf(x.astype(np.float32)).astype(x.dtype))
    return np.asarray(special.erf(x))


def cast(x: Array, *, attrs: Attrs, shape: Shape, dtype: Dtype) -> Array:
    x = np.broadcast_to(x, shape)
    with np.errstate(all="ignore"):
        if dtype.kind in "iu" and x.dtype.kind not in "biuc":
            wide = x if x.dtype.itemsize >= 4 and x.dtype.kind == "f" else x.astype(np.float32)
            limits = np.iinfo(dtype)
            inside = np.where((wide > float(limits.min)) & (wide < float(limits.max)), wide, 0).astype(dtype)
            inside = np.where(wide >= float(limits.max), np.asarray(limits.max, dtype), inside)
            return np.where(wide <= float(limits.min), np.asarray(limits.min, dtype), inside)
        return x.astype(dtype)


def bitcast(x: Array, *, attrs: Attrs, shape: Shape, dtype: Dtype) -> Array:
    return np.broadcast_to(np.asarray(x, order="C").view(dtype), shape)


def random_bits(
    counter: Array, key: Array, stream: Array, *, attrs: Attrs, shape: Shape, dtype: Dtype
) -> Array:
    """Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011)."""
    low, high = np.uint64(0xFFFFFFFF), np.uint64(32)
    counter = np.broadcast_to(counter, shape).astype(np.uint64)
    seed, lane = np.uint64(key), np.broadcast_to(np.uint64(stream), shape)
    words = [counter & low, counter >> high, lane & low, lane >> high]
    k0, k1 = seed & low, seed >> high
    with np.errstate(over="ignore"):
        for _ in range(10):
            product0 = np.uint64(0xD2511F53) * words[0]
            product1 = np.uint64(0xCD9E8D57) * words[2]
            words = [
                (product1 >> high) ^ words[1] ^ k0,
                product1 & low,
                (product0 >> high) ^ words[3] ^ k1,
                product0 & low,
            ]
            k0 = (k0 + np.uint64(0x9E3779B9)) & low
            k1 = (k1 + np.uint64(0xBB67AE85)) & low
    return words[attrs[0]].astype(np.uint32)


def wrap_index(index: Array, size: Array, *, attrs: Attrs, shape: Shape, dtype: Dtype) -> Array:
    index = np.broadcast_to(index, shape)
    outside = (index < (0 if len(attrs) > 1 and attrs[1] else -size)) | (index >= size)
    if np.any(outside):
        bad = index[outside][0]
        raise IndexError(f"index {bad} is out of bounds for an axis of size {int(np.max(size))}")
    return np.where(index < 0, index + size, index)


# How each reduction combines two values.
COMBINE: dict[str, np.ufunc] = {
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.logical_and,
    "or": np.logical_or,
}


def neutral(how: str, dtype: Dtype) -> bool | int | float:
    """What changes nothing when combined by ``how``; for maximum and minimum an extreme of the dtype."""
    if how in ("max", "min"):
        if dtype.kind == "b":
            return how == "min"
        if dtype.kind in "iu":
            limits = np.iinfo(dtype)
            return int(limits.min if how == "max" else limits.max)
        return float("-inf" if how == "max" else "inf")
    return {"add": 0, "mul": 1, "and": True, "or": False}[how]


def reduce(x: Array, *, attrs: Attrs, shape: Shape, dtype: Dtype) -> Array:
    how, axes = attrs
    with np.errstate(all="ignore"):
        if how in ("argmax", "argmin"):
            (axis,) = axes
            return np.asarray(getattr(np, how)(x, axis=axis), dtype)
        if how in ("add", "mul") and is_narrow(x.dtype):
            return np.asarray(COMBINE[how].reduce(x.astype(np.float32), axis=axes).astype(dtype))
        if how in ("add", "mul"):
            return np.asarray(COMBINE[how].reduce(x, axis=axes, dtype=x.dtype), dtype)
        return np.asarray(COMBINE[how].reduce(x, axis=axes), dtype)


def scan(x: Array, *, attrs: Attrs, shape: Shape, dtype: Dtype) -> Array:
    how, axis = attrs
    with np.errstate(all="ignore"):
        if is_narrow(x.dtype):
            return np.asarray(COMBINE[how].accumulate(x.astype(np.float32), axis=axis).astype(dtype))
        return np.asarray(COMBINE[how].accumulate(x, axis=axis, dtype=dtype))


def matmul(a: Array, b: Array, *, attrs: Attrs, shape: Shape, dtype: Dtype) -> Array:
    with np.errstate(all="ignore"):
        if is_narrow(dtype):
            return np.asarray(np.matmul(a.astype(np.float32), b.astype(np.float32)).astype(dtype))
        return np.asarray(np.matmul(a, b))


def host_call(*operands: Array, attrs: Attrs, shape: Shape, dtype: Dtype) -> Array:
    name, *static = attrs
    with np.errstate(all="ignore"):
        return np.asarray(HOST_FUNCTIONS[name](*operands, *static))
