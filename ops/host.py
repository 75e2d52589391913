"""What crosses between tensors and the host's memory, and the host functions of HOST_CALL.

The floor above installs the crossings (`set_crossings`); operations use them without knowing the runtime.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from . import _graph, dtypes
from .meaning import HOST_FUNCTIONS
from .primitives import HOST_CALL

Array = NDArray[Any]
Function = TypeVar("Function", bound=Callable[..., Array])

_upload: Callable[[Array], _graph.Node]
_download: Callable[[Any], Array]
_tracing: Callable[[], bool]
_place: Callable[[Any, Any, str], Any]
_adopt: Callable[[Any, bool], Any]


def set_crossings(
    upload: Callable[[Array], _graph.Node],
    download: Callable[[Any], Array],
    tracing: Callable[[], bool],
    place: Callable[[Any, Any, str], Any],
    adopt: Callable[[Any, bool], Any],
) -> None:
    """Install what the floor above has.

    The copy of an array into a leaf, the sync point that gives a tensor's values, whether a function is being
    traced, so that values must not be asked for, what puts a tensor on a device for an operation, and what
    makes a tensor of another library's array on a device.
    """
    global _upload, _download, _tracing, _place, _adopt
    _upload, _download, _tracing, _place, _adopt = upload, download, tracing, place, adopt


def from_array(array: Array, operation: str = "asarray") -> Any:
    """A new tensor with a copy of an array."""
    dtype = dtypes.supported(array.dtype, operation)
    return _graph.tensor(_upload(np.ascontiguousarray(array, dtype).reshape(array.shape)))


def values(x: Any) -> Array:
    """The values of a tensor as a read-only NumPy array. A sync point."""
    return _download(x)


def placed(x: Any, device: Any, operation: str) -> Any:
    """A tensor on the device that an operation was given; None leaves it where it is."""
    return x if device is None else _place(x, device, operation)


def adopted(x: Any, share: bool = False) -> Any:
    """A tensor of another library's array on a device, a copy or on its memory; None for others."""
    return _adopt(x, share) if hasattr(x, "__dlpack__") and not isinstance(x, np.ndarray) else None


def settled(index: Any) -> Any:
    """An index through which to write: a tensor's values, where they can be had, and anything else as it is.

    A write with an index out of bounds must fail at its line: recorded, it would be part of what every later
    read of the target computes.
    """
    if not isinstance(index, _graph.TensorBase) or _tracing():
        return index
    return values(index)


def comparable(array: Array) -> Array:
    """bfloat16 as float32, which has the same order: NumPy compares bfloat16 one element at a time."""
    return array.astype(np.float32) if array.dtype == dtypes.bfloat16 else array


def host_function(function: Function) -> Function:
    """Enter a function of NumPy arrays into the table of HOST_CALL under its own name, ``<what>_on_host``."""
    if function.__name__ in HOST_FUNCTIONS:
        raise ValueError(f"host function {function.__name__!r} is declared twice")
    HOST_FUNCTIONS[function.__name__] = function
    return function


def call(
    name: str, operands: tuple[Any, ...], shape: tuple[int, ...], dtype: dtypes.Dtype, *static: Any
) -> Any:
    """Record the call of a host function, which is run with the tensors' values and `static`."""
    nodes = tuple(x.node for x in operands)
    return _graph.tensor(_graph.record(HOST_CALL, nodes, shape, dtype, (name, *static)))
