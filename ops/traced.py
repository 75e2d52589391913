"""Python numbers as operands, and what stands for them while a function is traced."""

from __future__ import annotations

import operator
from collections.abc import Callable
from math import ceil, floor, trunc
from typing import Any

import numpy as np

from ._graph import Node, TensorBase

NUMBERS = (bool, int, float)


class TracedNumber:
    """A Python number whose every use but one is noticed.

    As an operand of a tensor it stays an argument: the SCALAR nodes recorded for it are kept in `nodes`, so
    that the trace can be replayed with another number. Whatever else looks at its value (a comparison,
    arithmetic, a loop bound) sets `observed`: the trace then holds for this number only. Its ``__class__`` is
    the number's: by it operations, and ``isinstance``, learn the type without looking at the value.
    """

    __slots__ = ("nodes", "observed", "value")

    def __init__(self, value: bool | int | float) -> None:
        self.value = value
        self.nodes: list[Node] = []
        self.observed = False

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self.value)

    def __getattr__(self, name: str) -> Any:
        self.observed = True
        return getattr(self.value, name)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        self.observed = True
        return np.asarray(self.value, *args, **kwargs)


def is_number(x: Any) -> bool:
    """Whether x is a Python number, which is weak as an operand, or stands for one."""
    return x.__class__ in NUMBERS


def plain(x: Any) -> Any:
    """The number itself, observed, or anything else as it is: for what depends on a number's value."""
    if type(x) is TracedNumber:
        x.observed = True
        return x.value
    return x


def _unary(function: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: TracedNumber, *args: Any) -> Any:
        self.observed = True
        return function(self.value, *map(plain, args))

    return method


def _binary(function: Callable[..., Any], reflected: bool = False) -> Callable[..., Any]:
    def method(self: TracedNumber, other: Any) -> Any:
        if isinstance(other, TensorBase):
            return NotImplemented  # the tensor's own operator takes it
        self.observed = True
        return function(plain(other), self.value) if reflected else function(self.value, plain(other))

    return method


_OPERATORS: dict[str, Callable[..., Any]] = {**vars(operator), "divmod": divmod}
_CONVERSIONS: tuple[Callable[..., Any], ...] = (
    *(bool, int, float, hash, repr, str, format, abs, round, trunc, floor, ceil),
    *(operator.index, operator.neg, operator.pos, operator.invert),
)
_ARITHMETIC = ("add", "sub", "mul", "truediv", "floordiv", "mod", "divmod", "pow")

for _function in _CONVERSIONS:
    setattr(TracedNumber, f"__{_function.__name__}__", _unary(_function))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(TracedNumber, f"__{_name}__", _binary(_OPERATORS[_name]))
for _name in (*_ARITHMETIC, "and_", "or_", "xor", "lshift", "rshift"):
    _stem = _name.rstrip("_")
    setattr(TracedNumber, f"__{_stem}__", _binary(_OPERATORS[_name]))
    setattr(TracedNumber, f"__r{_stem}__", _binary(_OPERATORS[_name], reflected=True))
