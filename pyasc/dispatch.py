"""NumPy's protocols: its functions and ufuncs, called with tensors, run the operations of the table."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from .ops import dtypes, registry
from .ops._graph import TensorBase
from .ops.errors import ArgumentError, NotSupported
from .ops.host import from_array, values

# What NumPy's calls may carry that has no meaning for tensors, and the only values that change nothing.
_IGNORED: dict[str, Any] = {
    "order": None,
    "subok": None,
    "like": None,
    "casting": None,
    "signature": None,
    "sig": None,
}


def array_ufunc(self: Any, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
    """``__array_ufunc__`` of Tensor."""
    out = kwargs.pop("out", None)
    kwargs = {k: v for k, v in kwargs.items() if k not in _IGNORED}
    if method == "__call__":
        entry = registry.of_numpy(ufunc)
        if entry is None:
            return _on_host(ufunc, inputs, {**kwargs, **({} if out is None else {"out": out})})
        return _into(out, entry.function, inputs, kwargs)
    if method == "outer":
        x, y = (x if isinstance(x, TensorBase) else np.asarray(x) for x in inputs)
        entry = registry.of_numpy(ufunc)
        if entry is not None:
            reshape = registry.find("reshape").function
            spread = reshape(x, (*x.shape, *(1,) * len(y.shape)))
            return _into(out, entry.function, (spread, y), kwargs)
    entry = registry.of_numpy((ufunc, method))
    if entry is not None:
        if len(inputs) < 2:
            kwargs.setdefault("axis", 0)
        kwargs = {k: v for k, v in kwargs.items() if v is not np._NoValue}
        return _into(out, entry.function, inputs, kwargs)
    if method == "at":
        raise NotSupported(
            f"[{ufunc.__name__}.at] expected a function that does not write to its operand, given a tensor; "
            f"use x[index] = ..., or index_add"
        )
    return _on_host(getattr(ufunc, method), inputs, {**kwargs, **({} if out is None else {"out": out})})


def _into(out: Any, function: Callable[..., Any], inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call an operation; arrays given for ``out`` receive the values, tensors are handed on."""
    if out is None:
        return function(*inputs, **kwargs)
    targets = out if isinstance(out, tuple) else (out,)
    if all(t is None or isinstance(t, TensorBase) for t in targets):
        return function(*inputs, out=targets[0] if len(targets) == 1 else targets, **kwargs)
    results = function(*inputs, **kwargs)
    for target, result in zip(targets, results if isinstance(results, tuple) else (results,), strict=True):
        if isinstance(target, TensorBase):
            raise ArgumentError(f"[{function.__name__}] expected arrays or tensors for out, given both")
        if target is not None:
            np.copyto(target, values(result), casting="same_kind")
    return out if len(targets) > 1 else targets[0]


def array_function(
    self: Any, function: Callable[..., Any], types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """``__array_function__`` of Tensor."""
    entry = registry.of_numpy(function)
    if entry is None:
        return _on_host(function, args, kwargs)
    kwargs = {k: v for k, v in kwargs.items() if k not in _IGNORED or k in ("casting", "order")}
    if not args and kwargs:
        # NumPy's name of the first argument.
        first = next(iter(inspect.signature(function).parameters))
        if first in kwargs:
            args = (kwargs.pop(first),)
    return _into(kwargs.pop("out", None), entry.function, args, kwargs)


def _on_host(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """What the table does not have, NumPy runs on the tensors' values; its arrays become tensors again."""
    with np.errstate(all="ignore"):
        return _to_tensors(function(*_to_arrays(args), **_to_arrays(kwargs)))


def _to_arrays(x: Any) -> Any:
    if isinstance(x, TensorBase):
        return values(x)
    if isinstance(x, tuple | list):
        return type(x)(_to_arrays(v) for v in x)
    if isinstance(x, dict):
        return {k: _to_arrays(v) for k, v in x.items()}
    return x


def _to_tensors(x: Any) -> Any:
    if isinstance(x, np.ndarray):
        return from_array(x) if x.dtype in dtypes.DTYPES.values() else x
    if isinstance(x, tuple) and not hasattr(x, "_fields"):
        return tuple(_to_tensors(v) for v in x)
    if isinstance(x, tuple):
        return type(x)(*(_to_tensors(v) for v in x))
    if isinstance(x, list):
        return [_to_tensors(v) for v in x]
    return x
