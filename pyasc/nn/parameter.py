"""`Parameter`: a tensor that a module owns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..backend import _runtime
from ..ops import _graph
from ..ops.arguments import as_tensor
from ..ops.host import from_array
from ..ops.storage import copy, materialised
from ..tensor import Tensor, _text


class Parameter(Tensor):
    """A tensor that a module owns: `Module.parameters` finds it wherever an attribute of the module holds it.

    It is a tensor in everything else, and stays the same object when it is written to: ``p -= 0.1 * g``,
    ``p[...] = values``. What is computed from it is an ordinary tensor.

    Parameters
    ----------
    data : tensor or array-like
        The first values. The parameter has storage of its own.
    """

    __slots__ = ()

    def __new__(cls, data: Any) -> Parameter:
        return as_parameter(_graph.tensor(materialised(as_tensor(data, "Parameter").node)))

    def __repr__(self) -> str:
        return _text(self, "pyasc.Parameter(", f", dtype={self.dtype.name})")

    def __copy__(self) -> Parameter:
        return as_parameter(copy(self))

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        made = memo[id(self)] = as_parameter(copy(self))
        return made

    def __reduce__(self) -> tuple[Callable[[NDArray[Any]], Any], tuple[NDArray[Any]]]:
        return _restored, (self.numpy().copy(),)


def as_parameter(made: Any) -> Parameter:
    """An owner that nothing else refers to, as a parameter."""
    # The layouts are equal, and nothing but the class tells them apart.
    made.__class__ = Parameter
    found: Parameter = made
    return found


def _restored(values: NDArray[Any]) -> Parameter:
    return as_parameter(from_array(values))


def wrapped(array: NDArray[Any]) -> Any:
    """A tensor on an array's own memory, which must not be written to any more."""
    array = np.ascontiguousarray(array).reshape(array.shape)
    return _graph.tensor(_graph.leaf(_runtime.wrap(array), array.shape, array.dtype))
