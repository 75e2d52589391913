"""PyTorch: its tensors on the CPU as NumPy arrays and back, and operators as differentiable functions.

Imported only where a tensor of PyTorch's is there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..ops.dtypes import DTYPES, Dtype, bfloat16
from ..ops.errors import ArgumentError, DtypeError
from . import source_library

# By the names that both give a dtype.
_DTYPES: dict[Any, Dtype] = {
    getattr(torch, name): dtype
    for name, dtype in DTYPES.items()
    if isinstance(getattr(torch, name, None), torch.dtype)
}

_TORCH_DTYPES = {dtype: kind for kind, dtype in _DTYPES.items()}


def numpy_dtype(dtype: Any) -> Dtype:
    """The dtype of a dtype of PyTorch's.

    Raises
    ------
    DtypeError
        Where there is none, as for complex numbers.
    """
    found = _DTYPES.get(dtype)
    if found is None:
        raise DtypeError(f"[torch] expected a dtype that tensors have, given {dtype}")
    return found


def torch_dtype(dtype: Dtype) -> Any:
    """The dtype of PyTorch's for a dtype of tensors."""
    return _TORCH_DTYPES[dtype]


def as_numpy(x: Any) -> np.ndarray[Any, Any]:
    """A tensor of PyTorch's as a NumPy array on the same memory, without its gradient.

    Raises
    ------
    ArgumentError
        For a tensor that is not in the memory of the host, or not dense.
    DtypeError
        For a dtype that tensors do not have.
    """
    dtype = numpy_dtype(x.dtype)
    if x.device.type != "cpu" or x.layout != torch.strided:
        given = f"one on {x.device}" if x.device.type != "cpu" else f"one of layout {x.layout}"
        raise ArgumentError(f"[torch] expected a dense tensor on the CPU, given {given}")
    plain = x.detach().resolve_neg()
    if dtype == bfloat16:
        return plain.view(torch.int16).numpy().view(bfloat16)  # type: ignore[no-any-return]
    return plain.numpy()  # type: ignore[no-any-return]


def as_tensor(array: np.ndarray[Any, Any]) -> Any:
    """A NumPy array as a tensor of PyTorch's on the same memory."""
    if array.dtype == bfloat16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def new_like(like: Any, shape: tuple[int, ...], dtype: Dtype, fill: Any) -> Any:
    """A new tensor of PyTorch's on the device of another; for a fill of None, whatever its memory holds."""
    kind = torch_dtype(dtype)
    if fill is None:
        return torch.empty(shape, dtype=kind, device=like.device)
    return torch.full(shape, fill if kind.is_floating_point else int(fill), dtype=kind, device=like.device)


def differentiable(inputs: tuple[Any, ...]) -> bool:
    """Whether PyTorch would follow a function of these inputs for its gradient."""
    return torch.is_grad_enabled() and any(isinstance(x, torch.Tensor) and x.requires_grad for x in inputs)


class _Followed(torch.autograd.Function):  # type: ignore[misc]
    """An operator with a gradient, as PyTorch's autograd runs it."""

    @staticmethod
    def forward(ctx: Any, operator: Any, *inputs: Any) -> Any:
        ctx.operator = operator
        ctx.save_for_backward(*(x for x in inputs if isinstance(x, torch.Tensor)))
        ctx.others = tuple(None if isinstance(x, torch.Tensor) else x for x in inputs)
        ctx.tensors = tuple(isinstance(x, torch.Tensor) for x in inputs)
        ctx.arrays = tuple(source_library(x) is not None for x in inputs)
        return operator(*inputs)

    @staticmethod
    @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, *cotangents: Any) -> Any:
        saved = iter(ctx.saved_tensors)
        inputs = tuple(
            next(saved) if tensor else other for tensor, other in zip(ctx.tensors, ctx.others, strict=True)
        )
        given = cotangents[0] if len(cotangents) == 1 else cotangents
        gradients = ctx.operator.vjp(given, *inputs)
        if not isinstance(gradients, tuple):
            gradients = (gradients,)
        rest = iter(gradients)
        by_input = [next(rest) if array else None for array in ctx.arrays]
        return (None, *(g if tensor else None for g, tensor in zip(by_input, ctx.tensors, strict=True)))


def follow(operator: Any, inputs: tuple[Any, ...]) -> Any:
    """Call an operator so that PyTorch's autograd knows of its gradient.

    Parameters
    ----------
    operator : Operator
        With a gradient.
    inputs : tuple
        Tensors of PyTorch's, and whatever else it takes.
    """
    return _Followed.apply(operator, *inputs)
