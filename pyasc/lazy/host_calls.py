"""What a program calls in Python: functions of libraries, and kernels that are started from Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..backend import _runtime
from ..backend.base import Call, KernelFault, LaunchError
from .pipeline import LabelledError
from .simplify import Value

Array = NDArray[Any]


def host_call(
    value: Value,
    readers: list[Callable[[list[Any], list[int]], Array]],
    function: Callable[..., None] | None,
) -> Callable[[list[Any], list[int]], None]:
    """What computes a value by a library's function, or else its primitive's meaning."""

    def call(buffers: list[Any], scalars: list[int]) -> None:
        operands = [read(buffers, scalars) for read in readers]
        out = _runtime.array(buffers[-1], value.shape, value.dtype, writable=True)
        if function is not None:
            try:
                function(*operands, out=out)
            except LaunchError as error:
                raise LabelledError(value.position, error) from error
            return
        result = value.primitive.meaning(*operands, attrs=value.attrs, shape=value.shape, dtype=value.dtype)
        np.copyto(out, result, casting="unsafe")

    return call


def kernel_call(
    launch: Call, dtypes: list[np.dtype[Any]], label: int
) -> Callable[[list[Any], list[int]], None]:
    """What starts a kernel from Python, for operands of these dtypes."""

    def call(buffers: list[Any], scalars: list[int]) -> None:
        arrays = [
            _runtime.array(buffer, (buffer.nbytes // dtype.itemsize,), dtype, writable=True)
            for buffer, dtype in zip(buffers, dtypes, strict=True)
        ]
        try:
            launch.function(arrays, scalars)
        except (KernelFault, LaunchError) as error:
            raise LabelledError(label, error) from error

    return call


def look_at(buffers: list[Any], scalars: list[int]) -> None:
    """Wait until the host has buffers."""
    for buffer in buffers:
        buffer.address  # noqa: B018
