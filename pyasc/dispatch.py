"""NumPy's protocols: its functions and ufuncs, called with tensors, run the operations of the table."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from .ops import dtypes, registry
from .ops._graph import TensorBase
from .ops.arguments import as_tensor
from .ops.elementwise import deliver, operand_dtype
from .ops.errors import ArgumentError, CastingError, NotSupported
from .ops.host import from_array, values
from .ops.registry import Operation
from .ops.traced import is_number
from .ops.view import reshape

# What NumPy's calls may carry that changes no value: tensors have one layout and no subclasses.
_IGNORED = ("order", "subok", "like")


def array_ufunc(self: Any, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
    """``__array_ufunc__`` of Tensor."""
    given = dict(kwargs)
    out = kwargs.pop("out", None)
    casting = kwargs.pop("casting", "same_kind")
    signature = kwargs.pop("signature", None)
    kwargs = {k: v for k, v in kwargs.items() if k not in _IGNORED}
    entry = registry.of_numpy(ufunc)
    if entry is not None and method in ("__call__", "outer"):
        if signature is not None:
            raise NotSupported(
                f"[{entry.name}] expected dtype to say what to compute in, given signature {signature!r}"
            )
        if method == "outer":
            x, y = (x if isinstance(x, TensorBase) else np.asarray(x) for x in inputs)
            inputs = (reshape(x, (*x.shape, *(1,) * len(y.shape))), y)
        if casting != "same_kind":
            _check_casting(entry, inputs, kwargs.get("dtype"), casting)
        return _into(out, entry.function, inputs, kwargs, casting)
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
    return _on_host(ufunc if method == "__call__" else getattr(ufunc, method), inputs, given)


def _check_casting(entry: Operation, inputs: tuple[Any, ...], dtype: Any, casting: Any) -> None:
    """Refuse operands that do not cast under NumPy's rule to the dtype that an operation computes in."""
    xs = tuple(x if is_number(x) else as_tensor(x, entry.name) for x in inputs)
    if dtype is not None:
        wanted = dtypes.as_dtype(dtype, entry.name)
    else:
        wanted = operand_dtype(entry, xs) if entry.rule is not None else dtypes.result_type(*xs)
    for x in xs:
        if not is_number(x) and not dtypes.can_cast(x.dtype, wanted, casting):
            raise CastingError(
                f"[{entry.name}] expected operands that cast to {wanted.name} under the rule {casting!r}, "
                f"given {x.dtype.name}"
            )


def _into(
    out: Any,
    function: Callable[..., Any],
    inputs: tuple[Any, ...],
    kwargs: dict[str, Any],
    casting: Any = "same_kind",
) -> Any:
    """Call an operation; arrays given for ``out`` receive the values, tensors are handed on."""
    if out is None:
        return function(*inputs, **kwargs)
    targets = out if isinstance(out, tuple) else (out,)
    if all(t is None or isinstance(t, TensorBase) for t in targets):
        if casting != "same_kind":
            where = kwargs.pop("where", True)
            return deliver(function(*inputs, **kwargs), out, function.__name__, where, casting)
        return function(*inputs, out=targets[0] if len(targets) == 1 else targets, **kwargs)
    results = function(*inputs, **kwargs)
    for target, result in zip(targets, results if isinstance(results, tuple) else (results,), strict=True):
        if isinstance(target, TensorBase):
            raise ArgumentError(f"[{function.__name__}] expected arrays or tensors for out, given both")
        if target is not None:
            np.copyto(target, values(result), casting=casting)
    return out if len(targets) > 1 else targets[0]


def array_function(
    self: Any, function: Callable[..., Any], types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """``__array_function__`` of Tensor."""
    entry = registry.of_numpy(function)
    if entry is None:
        return _on_host(function, args, kwargs)
    kwargs = {k: v for k, v in kwargs.items() if k == "order" or k not in _IGNORED}
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
