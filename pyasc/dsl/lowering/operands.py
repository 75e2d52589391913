"""What an expression of a kernel stands for while it is lowered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...ops import dtypes
from ..signature import Path

Dtype = np.dtype[Any]


@dataclass(frozen=True, slots=True)
class Value:
    """A value of the kernel with a dtype of its own."""

    number: int
    dtype: Dtype


@dataclass(frozen=True, slots=True)
class Literal:
    """A number of the program's text, or known when it is compiled: it takes the dtype of what it meets."""

    value: bool | int | float

    @property
    def kind(self) -> type:
        return type(self.value)


@dataclass(frozen=True, slots=True, eq=False)
class Weak:
    """A number that is known when the kernel runs and takes the dtype of what it meets: an argument, or what
    is computed from arguments and literals.

    ``build(dtype)`` makes it in a dtype, where it is used.
    """

    kind: type
    build: Callable[[Dtype], Value]


@dataclass(frozen=True, slots=True)
class Memory:
    """An array or a buffer.

    Attributes
    ----------
    number : int
        In the structured kernel; buffers count from `BUFFERS` while a kernel is lowered.
    name : str
        The user's.
    dtype : dtype
    rank : int
        Axes that the user sees.
    path : Path
        Of an array.
    shape : tuple of int or None
        Of a buffer.
    sole : bool
        Whether it stands for its single element where a number is expected.
    """

    number: int
    name: str
    dtype: Dtype
    rank: int
    path: Path = ()
    shape: tuple[int, ...] | None = None
    sole: bool = False


@dataclass(frozen=True, slots=True)
class Region:
    """``memory[start:stop, …]`` in int64 values: what builtins for tiles take."""

    memory: Memory
    starts: tuple[Value, ...]
    stops: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Tuple:
    """Several operands."""

    items: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Object:
    """An object whose attributes are arguments."""

    path: Path


@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    """Anything else that is known when the kernel is compiled: a dtype, a function, a module, None."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


@dataclass(frozen=True, slots=True)
class Method:
    """A method of an operand: a function whose first argument it is."""

    function: Any
    operand: Operand


@dataclass(frozen=True, slots=True)
class Nothing:
    """What a name is that is known to be set before it is used: any other operand may join it."""


@dataclass(frozen=True, slots=True)
class Unset:
    """What a name is that need not have a value here."""

    reason: str


Operand = Value | Literal | Weak | Memory | Region | Tuple | Object | Constant | Method | Unset | Nothing
Number = Value | Literal | Weak
NUMBERS = (Value, Literal, Weak)
Handler = Callable[..., Operand | None]
BUFFERS = 1 << 20  # buffers are numbered after arrays, whose count is known at the end

# How numbers of a kind are held where nothing gives them a dtype.
HELD: dict[type, Dtype] = {bool: dtypes.bool_, int: dtypes.int64, float: dtypes.float32}

# What two operands that meet at one name have in common: a dtype, a weak kind, several of them, or one
# operand.
Form = Any


def form(operand: Operand) -> Form:
    """What a name must be able to hold to hold an operand."""
    if isinstance(operand, Value):
        return operand.dtype
    if isinstance(operand, Literal | Weak):
        return operand.kind
    if isinstance(operand, Tuple):
        return tuple(map(form, operand.items))
    return operand


def join(a: Form, b: Form) -> Form | None:
    """The form that holds both; None where there is none."""
    if isinstance(a, Nothing) or isinstance(b, Nothing):
        return b if isinstance(a, Nothing) else a
    if isinstance(a, tuple) or isinstance(b, tuple):
        if not (isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b)):
            return None
        items = tuple(join(x, y) for x, y in zip(a, b, strict=True))
        return None if None in items else items
    if isinstance(a, np.dtype):
        if isinstance(b, np.dtype):
            return a if a == b else dtypes.promote_types(a, b)
        return dtypes.weak(a, b) if isinstance(b, type) else None
    if isinstance(b, np.dtype):
        return dtypes.weak(b, a) if isinstance(a, type) else None
    if isinstance(a, type) and isinstance(b, type):
        return max(a, b, key=(bool, int, float).index)
    return a if a == b and not isinstance(a, type) else None


def alike(a: Form, b: Form) -> bool:
    """Whether two forms are one; a dtype equals Python's type of its name, which is another form."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(alike, a, b))
    return a is b if isinstance(a, type) or isinstance(b, type) else bool(a == b)


def describe(operand: Operand) -> str:
    """An operand in an error message."""
    match operand:
        case Value():
            return f"{'an' if operand.dtype.kind == 'i' else 'a'} {operand.dtype.name}"
        case Literal():
            return repr(operand.value)
        case Weak():
            return f"a number ({operand.kind.__name__})"
        case Memory():
            return f"the array {operand.name}" if operand.path else f"the buffer {operand.name}"
        case Region():
            return f"a slice of {operand.memory.name}"
        case Tuple():
            return f"a tuple of {len(operand.items)}"
        case Object():
            return f"the object {'.'.join(map(str, operand.path))}"
        case Method():
            return "a method"
        case Unset() | Nothing():
            return "a name without a value"
    value = operand.value
    return f"{getattr(value, '__name__', None) or repr(value):.60}"
