"""The options of the decorator, checked."""

from __future__ import annotations

from math import prod
from typing import Any

from ..ops.errors import ArgumentError, DtypeError
from .signature import Options

MAX_THREADS_OF_BLOCK = 1024
MAX_REGISTERS = 255
MAX_DEPTH = 2  # buffers of a tile: the generator copies into one while it computes on the other


def checked(
    block_dim: Any,
    register_limit: Any,
    smem_size: Any,
    pipeline_depth: Any,
    optimize: Any,
    dynamic_shape: Any,
    debug: Any,
) -> Options:
    """The options.

    Raises
    ------
    TypeError, ValueError
        For a value that cannot be; the message says the limit.
    """
    block = block_dim if isinstance(block_dim, tuple | list) else (block_dim,)
    sizes = tuple(_number("block_dim", item, 1, MAX_THREADS_OF_BLOCK) for item in block)
    if len(sizes) > 3 or prod(sizes) > MAX_THREADS_OF_BLOCK:
        raise ArgumentError(
            f"[kernel] expected a block_dim of up to 3 axes and {MAX_THREADS_OF_BLOCK} threads, "
            f"given {block_dim}"
        )
    for name, value in (("optimize", optimize), ("dynamic_shape", dynamic_shape), ("debug", debug)):
        if not isinstance(value, bool):
            raise DtypeError(f"[kernel] expected True or False for {name}, given {value!r}")
    return Options(
        sizes,
        _number("register_limit", register_limit, 0, MAX_REGISTERS),
        _number("smem_size", smem_size, 0, unified_buffer() if smem_size else 0),
        _number("pipeline_depth", pipeline_depth, 0, MAX_DEPTH),
        optimize,
        dynamic_shape,
        debug,
    )


def _number(name: str, value: Any, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise DtypeError(f"[kernel] expected a whole number for {name}, given {value!r}")
    if not least <= value <= most:
        raise ArgumentError(f"[kernel] expected {name} from {least} to {most}, given {value}")
    return value


def unified_buffer() -> int:
    """Bytes of shared memory that a block can have."""
    from ..backend.ascend.chip import load
    from ..lazy.backends import DEFAULT_CHIP

    capacity = load(DEFAULT_CHIP).capacity
    return capacity.ub_usable or capacity.ub
