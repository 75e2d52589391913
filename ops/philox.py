"""Blocks of random bits, Philox4x32-10, and the numbers made of one block each.

Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

from typing import Any

from . import _graph, dtypes
from .arguments import Shape, cast
from .primitives import (
    ADD,
    AND,
    BITCAST,
    CAST,
    IOTA,
    LT,
    MUL,
    NE,
    OR,
    RANDOM_BITS,
    SHIFT_LEFT,
    SHIFT_RIGHT,
    Primitive,
)
from .view import reshape_to

UINT32, UINT64, INT64 = dtypes.uint32, dtypes.uint64, dtypes.int64
FLOAT32, FLOAT64 = dtypes.float32, dtypes.float64

# How many random bits a uniform value of each float dtype takes: every multiple of 2**-bits is exact.
_BITS = {dtypes.float16: 11, dtypes.bfloat16: 8, FLOAT32: 24, FLOAT64: 53}


class Block:
    """The words of consecutive blocks, one-dimensional; `shaped` gives the values their shape."""

    def __init__(self, seed: int, stream: int, first: int, shape: Shape, count: int) -> None:
        self.shape, self.count = shape, count
        index = _graph.record(IOTA, (), (count,), INT64, (0,))
        counter = _graph.record(CAST, (index,), (count,), UINT64)
        if first:
            counter = _graph.record(ADD, (counter, _graph.scalar(first, UINT64)), (count,), UINT64)
        self._operands = (counter, _graph.scalar(seed, UINT64), _graph.scalar(stream, UINT64))

    def word(self, which: int) -> Any:
        """One of the four words, uint32."""
        return _graph.tensor(_graph.record(RANDOM_BITS, self._operands, (self.count,), UINT32, (which,)))

    def long(self, which: int) -> Any:
        """Two words from `which` on as one uint64, the first on top."""
        top = op(SHIFT_LEFT, cast(self.word(which), UINT64), 32)
        return op(OR, top, cast(self.word(which + 1), UINT64))

    def shaped(self, x: Any) -> Any:
        return reshape_to(x, self.shape)

    def uniform(self, dtype: dtypes.Dtype, which: int = 0) -> Any:
        """Floats in [0, 1), from the words from `which` on."""
        bits = _BITS[dtype]
        if dtype == FLOAT64:
            chosen = op(SHIFT_RIGHT, self.long(which), 64 - bits)
        else:
            chosen = op(SHIFT_RIGHT, self.word(which), 32 - bits)
        return op(MUL, cast(chosen, dtype), 2.0**-bits)

    def positive(self, dtype: dtypes.Dtype) -> Any:
        """float32 or float64 in (0, 1], from the first words.

        The smallest is 2**-33 or 2**-65, which keeps tails long.
        """
        if dtype == FLOAT64:
            return op(ADD, op(MUL, cast(self.long(0), FLOAT64), 2.0**-64), 2.0**-65)
        return op(ADD, op(MUL, cast(self.word(0), FLOAT32), 2.0**-32), 2.0**-33)

    def below(self, width: int) -> Any:
        """uint64 in [0, width), width < 2**32: the high word of 64 random bits times width."""
        high = op(MUL, cast(self.word(0), UINT64), width)
        low = op(SHIFT_RIGHT, op(MUL, cast(self.word(1), UINT64), width), 32)
        return op(SHIFT_RIGHT, op(ADD, high, low), 32)

    def long_below(self, width: Any) -> Any:
        """uint64 in [0, width), width a tensor: the top half of 128 random bits times it, in its shape."""
        high, low = self.shaped(self.long(0)), _high_product(self.shaped(self.long(2)), width)
        carry = cast(_graph.binary(LT, op(ADD, op(MUL, high, width), low), low, dtypes.bool_), UINT64)
        return op(ADD, _high_product(high, width), carry)


def _high_product(x: Any, y: Any) -> Any:
    """The high 64 bits of the product of two uint64 tensors, by halves (Knuth, TAOCP 2, 4.3.1)."""
    x0, x1 = op(AND, x, 0xFFFFFFFF), op(SHIFT_RIGHT, x, 32)
    y0, y1 = op(AND, y, 0xFFFFFFFF), op(SHIFT_RIGHT, y, 32)
    middle = op(ADD, op(MUL, x1, y0), op(SHIFT_RIGHT, op(MUL, x0, y0), 32))
    other = op(ADD, op(MUL, x0, y1), op(AND, middle, 0xFFFFFFFF))
    top = op(ADD, op(MUL, x1, y1), op(SHIFT_RIGHT, middle, 32))
    return op(ADD, top, op(SHIFT_RIGHT, other, 32))


def op(primitive: Primitive, x: Any, y: Any = None) -> Any:
    if y is None:
        return _graph.unary(primitive, x, x.dtype)
    return _graph.binary(primitive, x, y)


def as_bits(x: Any, dtype: dtypes.Dtype) -> Any:
    """uint64 as another integer dtype by its low bits."""
    if dtype == UINT64:
        return x
    if dtype.kind == "b":
        return _graph.binary(NE, x, 0, dtypes.bool_)
    if dtype == INT64:
        return _graph.unary(BITCAST, x, INT64)
    return cast(x, dtype)
