"""Arrays of other libraries: which library an array is of, new ones, and results as its arrays.

Memory is shared, never copied. Nothing here imports a library that the user has not.
"""

from __future__ import annotations

import sys
from typing import Any, Literal

import numpy as np

from ..backend import _runtime
from ..lazy.evaluate import buffer_of
from ..ops import dtypes
from ..ops._graph import TensorBase
from ..ops.arguments import number
from ..ops.creation import empty
from ..ops.elementwise import deliver
from ..ops.errors import CastingError, DtypeError, ShapeError
from ..ops.host import values

Library = Literal["pyasc", "numpy", "torch"]


def source_library(x: Any) -> Library | None:
    """The library of an array: ``"pyasc"`` too for arrays that are read through DLPack; None for no array."""
    kind = type(x)
    if kind not in _libraries:
        _libraries[kind] = _library_of(kind)
    return _libraries[kind]


_libraries: dict[type, Library | None] = {}


def _library_of(kind: type) -> Library | None:
    if issubclass(kind, TensorBase):
        return "pyasc"
    if issubclass(kind, np.ndarray):
        return "numpy"
    if issubclass(kind, np.generic | type):
        return None
    torch = sys.modules.get("torch")
    if torch is not None and issubclass(kind, torch.Tensor):
        return "torch"
    return "pyasc" if hasattr(kind, "__dlpack__") or hasattr(kind, "__array_interface__") else None


def on_npu(x: Any) -> bool:
    """Whether x is a tensor of PyTorch's in the memory of an NPU."""
    return source_library(x) == "torch" and x.device.type == "npu"


def to_torch(x: Any) -> Any:
    """A tensor as one of PyTorch's. A sync point.

    Values that an NPU has are shared, without a copy: work of PyTorch in its current stream comes after the
    work that computes them. The result must not be written to then; ``to_torch(x).clone()`` may. It needs
    torch_npu. Values of the host are copied.

    Parameters
    ----------
    x : tensor

    Returns
    -------
    torch.Tensor

    Raises
    ------
    DtypeError
        For what is no tensor.
    """
    if not isinstance(x, TensorBase):
        raise DtypeError(f"[to_torch] expected a tensor, given {type(x).__name__}")
    from .npu import as_torch

    return as_torch(x)


def dtype_of(x: Any) -> dtypes.Dtype:
    """The dtype of an array of any library."""
    if isinstance(x, TensorBase | np.ndarray):
        return x.dtype
    if source_library(x) == "torch":
        from .torch import numpy_dtype

        return numpy_dtype(x.dtype)
    return np.asarray(x).dtype if hasattr(x, "__array__") else np.from_dlpack(x).dtype


def new(library: Library, shape: tuple[int, ...], dtype: dtypes.Dtype, fill: Any, like: Any = None) -> Any:
    """A new array of a library, with one value everywhere; for a fill of None, whatever its memory holds.

    It is on the NPU that `like`, an array of that library, is on.
    """
    if like is not None and on_npu(like):
        from .torch import new_like

        return new_like(like, shape, dtype, fill)
    if library == "pyasc":
        if fill is None:
            return empty(shape, dtype)
        return number(fill if dtypes.is_float(dtype) else int(fill), dtype, shape)
    if fill is None or fill == 0:
        # Zeros are the system's: pages that are written soon are not written twice.
        array = np.empty(shape, dtype) if fill is None else np.zeros(shape, dtype)
    else:
        array = np.full(shape, fill, dtype)
    return as_library(array, library)


def as_library(x: Any, library: Library) -> Any:
    """A result as an array of a library, on the same memory; for others than pyasc a sync point.

    Parameters
    ----------
    x : tensor or NumPy array
        That nobody else holds.
    library : str
    """
    if library == "pyasc":
        return x
    if isinstance(x, TensorBase):
        # The array may be written to. A view has not all of the memory, and what is exported is someone's.
        buffer = buffer_of(x)
        if library == "torch" and buffer.device >= 0 and buffer.committed:
            return to_torch(x)
        own = x.base is None and not buffer.exported
        x = _runtime.array(buffer, x.shape, x.dtype, writable=True) if own else np.array(x)
    if library == "numpy":
        return x
    from .torch import as_tensor

    return as_tensor(x)


def write(result: Any, out: Any, operation: str) -> None:
    """Write a tensor into an array of any library.

    Raises
    ------
    ShapeError, DtypeError
        For another shape, or a dtype that it does not cast to under the rule ``"same_kind"``.
    """
    library = source_library(out)
    if library in (None, "pyasc"):
        deliver(result, out, operation)
        return
    if tuple(out.shape) != result.shape:
        raise ShapeError(f"[{operation}] expected out of shape {result.shape}, given {tuple(out.shape)}")
    wanted = dtype_of(out)
    if not dtypes.can_cast(result.dtype, wanted, "same_kind"):
        raise CastingError(
            f"[{operation}] expected out of a dtype that {result.dtype.name} casts to, given {wanted.name}"
        )
    if on_npu(out):
        from .npu import write as write_there

        write_there(out, result)
        return
    target = out
    if library == "torch":
        from .torch import as_numpy

        target = as_numpy(out)
    np.copyto(target, values(result), casting="same_kind" if target.dtype.kind != "V" else "unsafe")
