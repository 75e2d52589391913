"""PyTorch on NPUs (torch_npu): tensors on the same memory, work in the same stream.

Imported only where a tensor of PyTorch's on an NPU is there, or is asked for.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..backend import _runtime
from ..lazy import placement
from ..lazy.evaluate import buffer_of
from ..ops import _graph
from ..ops.errors import ArgumentError
from .dlpack import capsule
from .torch import as_tensor, numpy_dtype, torch_dtype

# Formats in which elements lie in the order of the axes, as `torch_npu.get_npu_format` numbers them.
_PLAIN_FORMATS = (-1, 0, 2, 30)


def follow(index: int) -> None:
    """Let the work of pyasc on a device be put into PyTorch's current stream there, from now on.

    Asking torch_npu for the stream also hands over what its queue of operations still holds.
    """
    _runtime.device_use_stream(index, torch.npu.current_stream(index).npu_stream)


def shared(x: Any, operation: str) -> Any:
    """A tensor on the memory of a PyTorch tensor on an NPU, which it keeps alive.

    Raises
    ------
    ArgumentError
        For one that is sparse, or in a format of the cube's own.
    DtypeError
        For a dtype that tensors do not have.
    """
    dtype = numpy_dtype(x.dtype)
    x = x.detach().resolve_neg()
    if x.layout != torch.strided:
        raise ArgumentError(f"[{operation}] expected a dense tensor, given one of layout {x.layout}")
    import torch_npu

    laid_out = torch_npu.get_npu_format(x)
    if laid_out not in _PLAIN_FORMATS:
        raise ArgumentError(
            f"[{operation}] expected a tensor in the format ND, given NPU format {laid_out}; "
            "torch_npu.npu_format_cast(x, 2) converts it"
        )
    index = x.device.index or 0
    follow(index)
    shape, strides = tuple(x.shape), tuple(x.stride())
    if 0 in shape:
        return _graph.tensor(_graph.leaf(placement.put(_runtime.allocate(0), index), shape, dtype))
    count = _reach(x)
    buffer = placement.adopt(x.data_ptr(), count * dtype.itemsize, index, x)
    if x.is_contiguous():
        return _graph.tensor(_graph.leaf(buffer, shape, dtype))
    return _graph.view(_graph.tensor(_graph.leaf(buffer, (count,), dtype)), shape, strides, 0)


def copied(x: Any, operation: str) -> Any:
    """A tensor with memory of its own on the same device."""
    made = shared(x.contiguous(), operation)
    buffer = made.node.buffer
    return _graph.tensor(_graph.leaf(placement.put(buffer, buffer.device), made.shape, made.dtype))


def as_torch(x: Any) -> Any:
    """A tensor as PyTorch's on the same memory: on the NPU that has the values, else a copy on the CPU."""
    buffer = buffer_of(x)
    if buffer.device < 0:
        return as_tensor(np.array(x))
    if 0 in x.shape:
        return torch.empty(x.shape, dtype=torch_dtype(x.dtype), device=f"npu:{buffer.device}")
    follow(buffer.device)
    return torch.utils.dlpack.from_dlpack(capsule(x))


def write(target: Any, x: Any) -> None:
    """Write a tensor's values into PyTorch's tensor on an NPU, in its stream."""
    made = as_torch(x)
    target.copy_(made.to(target.device) if made.device != target.device else made)


def _reach(x: Any) -> int:
    """Elements from the first in memory of a PyTorch tensor that has some to its last."""
    return int(1 + sum(s * (n - 1) for s, n in zip(x.stride(), x.shape, strict=True)))


def overlap(x: Any, y: Any) -> bool:
    """Whether two PyTorch tensors on NPUs may share elements."""
    if x.device != y.device or 0 in x.shape or 0 in y.shape:
        return False
    ends = []
    for t in (x, y):
        ends.append((t.data_ptr(), t.data_ptr() + _reach(t) * t.element_size()))
    (a, b), (c, d) = ends
    return bool(a < d and c < b)
