"""Numbers of a kernel that is run in Python: computed by the lowering's own rules, one operation at a time.

A number of the program's text is Python's, computed by Python; everything else is a `Number`: an element or
an id, which has a dtype, or an argument, which takes the dtype of what it meets.
"""

from __future__ import annotations

import ast
import builtins
import math
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...backend.structured import Foreign
from ...ops import dtypes, registry
from ...ops.arguments import scalar
from ...ops.errors import KernelError
from ...ops.primitives import PRIMITIVES
from ...ops.traced import is_number
from ..lowering import BUILTINS
from ..lowering.emission import INT64, Memo
from ..lowering.expressions import Expressions
from ..lowering.operands import HELD, Constant, Literal, Operand, Tuple, Value, Weak
from ..lowering.operations import BINARY, COMPARISONS, UNARY
from ..lowering.translation import of_table
from ..signature import LaunchValues, Options

MAX_DEEP = 32  # operations on arguments alone that are repeated in the dtype of what the result meets
_HERE = ast.Constant(None, lineno=1, col_offset=0)


@dataclass(frozen=True, slots=True, eq=False)
class Known(Value):
    """A value and what it is."""

    content: Any


@dataclass(frozen=True, slots=True, eq=False)
class _Deep(Weak):
    """What is computed from arguments and literals, by so many operations."""

    depth: int


class Arithmetic(Expressions):
    """The lowering's expressions, each computed when it is met."""

    def __init__(self) -> None:
        super().__init__("kernel", LaunchValues({}, self._nothing), Options(), Memo())
        self.source: Any = None

    @staticmethod
    def _nothing(path: Any) -> Any:
        raise KeyError(path)

    def span(self, node: ast.AST) -> Any:
        return None  # the line that runs is named

    def let(self, op: str, dtype: Any, args: tuple[Value, ...] = (), attrs: tuple[Any, ...] = ()) -> Known:
        if op == "const":
            return Known(-1, dtype, np.asarray(attrs[0]).astype(dtype)[()])
        given = [np.asarray(x.content) for x in args]  # type: ignore[attr-defined]
        with np.errstate(all="ignore"):
            made = PRIMITIVES[op].meaning(*given, attrs=attrs, shape=(), dtype=dtype)
        return Known(-1, dtype, np.asarray(made)[()])

    def value(self, operand: Operand, dtype: Any, node: ast.AST) -> Value:
        if isinstance(operand, Literal) and operand.kind is int:
            # What a loop counted up to is no literal to the compiler, and wraps.
            held = dtype or INT64
            whole = self.let("const", np.dtype(np.uint64), (), (int(operand.value) % 2**64,))
            if held.kind in "iu":
                return self.cast(whole, held)
        return super().value(operand, dtype, node)

    def _weakly(self, function: Any, given: list[Any], *rest: Any) -> Operand:
        made = super()._weakly(function, given, *rest)
        if not isinstance(made, Weak) or made.kind is not float:
            return made
        depth = 1 + max((x.depth for x in given if isinstance(x, _Deep)), default=0)
        if depth > MAX_DEEP:
            value = made.build(HELD[float])
            return _Deep(float, lambda dtype: self.cast(value, dtype), 0)
        made.build(HELD[float])  # while what it is made of is
        return _Deep(float, made.build, depth)


_arithmetic = Arithmetic()


def argument(value: bool | int | float, kind: type, kernel: str) -> Number:
    """A number that a launch hands over."""

    def build(dtype: Any) -> Value:
        exact = kind is bool or dtypes.is_float(dtype) or (kind is int and dtype.kind in "iu")
        held = HELD[bool] if kind is bool else dtype if exact else HELD[kind]
        node = scalar(value, held, kernel)
        return _arithmetic.cast(Known(-1, held, np.asarray(node.value).astype(held)[()]), dtype)

    return Number(Weak(kind, build))


def element(content: Any) -> Number:
    """A scalar of NumPy as a number with its dtype."""
    given = np.asarray(content)
    return Number(Known(-1, given.dtype, given[()]))


def whole(number: int) -> Number:
    """An id, a size, the number of a loop: int64."""
    return element(np.int64(number))


def turns(*bounds: Any) -> Iterator[Number]:
    """``range`` of a kernel."""
    return map(whole, range(*map(operator.index, bounds)))


def operand_of(value: Any) -> Operand:
    """What the lowering calls a value. TypeError for what has no meaning to it."""
    if isinstance(value, Operators):
        own: Operand = value._operand
        return own
    if isinstance(value, np.generic):
        return Known(-1, np.asarray(value).dtype, value)
    if is_number(value):
        return Literal(value)
    if isinstance(value, tuple | list):
        return Tuple(tuple(map(operand_of, value)))
    if value is None or isinstance(value, str | np.dtype | type):
        return Constant(value)
    if isinstance(value, Dtype):
        return Constant(value.dtype)
    raise TypeError(f"a kernel does not compute with {type(value).__name__}")


def in_python(operand: Operand | None) -> Any:
    """What a program in Python sees of an operand."""
    if isinstance(operand, Literal | Constant):
        return operand.value
    if isinstance(operand, Tuple):
        return tuple(map(in_python, operand.items))
    return operand if operand is None else Number(operand)


def content(value: Any, dtype: np.dtype[Any] | None = None) -> Any:
    """A number as a scalar of NumPy, cast to a dtype as kernels cast."""
    made = _arithmetic.value(operand_of(value), dtype, _HERE)
    assert isinstance(made, Known)
    return made.content


def call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """A function that kernels have: of Python, of ``math``, of the op table, or in C."""
    try:
        given = [operand_of(a) for a in args]
        named = {name: operand_of(a) for name, a in kwargs.items()}
    except TypeError:
        return function(*args, **kwargs)
    name = getattr(function, "__name__", "function")
    node = ast.Call(ast.Name(name, ast.Load()), [_HERE] * len(args), [])
    ast.copy_location(node, _HERE)
    foreign = getattr(function, "foreign", None)
    if isinstance(foreign, Foreign):
        _arithmetic.takes(node, given, named, len(foreign.parameters))
        numbers = [content(a, d).item() for a, d in zip(args, foreign.parameters, strict=True)]
        return element(np.asarray(function(*numbers)).astype(foreign.result)[()])
    handler = BUILTINS.get(function)
    if handler is not None:
        try:
            return in_python(handler(_arithmetic, node, given, named))
        except KernelError:
            if any(isinstance(a, Operators) for a in args):
                raise
            return _quietly(function, *args, **kwargs)
    found = of_table(function)
    assert found is not None
    return in_python(_arithmetic.apply(found, tuple(given), node, named))


def _quietly(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """A function of Python on Python's numbers, without the errors of ``math``: NaN outside its domain,
    infinity past its range."""
    try:
        return function(*args, **kwargs)
    except ValueError:
        return math.nan
    except OverflowError:
        return math.inf


class Dtype:
    """A dtype that can be called, as ``pyasc.float32(x)`` is in a kernel."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype

    def __call__(self, value: Any) -> Any:
        return element(content(value, self.dtype))

    def __eq__(self, other: object) -> bool:
        return bool(self.dtype == (other.dtype if isinstance(other, Dtype) else other))

    def __hash__(self) -> int:
        return hash(self.dtype)

    def __repr__(self) -> str:
        return self.dtype.name

    @property
    def name(self) -> str:
        return self.dtype.name


class Called:
    """A function that kernels have, under its name in a kernel; also for ``isinstance`` where it is a
    class."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.__name__ = getattr(function, "__name__", "function")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return call(self.function, *args, **kwargs)

    def __instancecheck__(self, value: Any) -> bool:
        kind: Any = self.function
        return isinstance(value.item() if isinstance(value, Number) else value, kind)

    def __repr__(self) -> str:
        return repr(self.function)


# The names of Python that mean something else on numbers of a kernel.
PYTHON: dict[str, Any] = {
    name: Called(function)
    for name, function in vars(builtins).items()
    if name not in ("print", "range", "len", "tuple", "list", "slice")
    and callable(function)
    and function.__hash__ is not None
    and function in BUILTINS
} | {"range": turns}


def _binary(kind: type[ast.operator], swapped: bool = False) -> Callable[[Any, Any], Any]:
    def method(self: Operators, other: Any) -> Any:
        try:
            x, y = self._operand, operand_of(other)
        except TypeError:
            return NotImplemented
        return in_python(_arithmetic.binary(kind, y if swapped else x, x if swapped else y, _HERE))

    return method


def _unary(kind: type[ast.unaryop]) -> Callable[[Any], Any]:
    return lambda self: in_python(_arithmetic.unary(kind(), self._operand, _HERE))


def _comparison(kind: type[ast.cmpop]) -> Callable[[Any, Any], Any]:
    def method(self: Operators, other: Any) -> Any:
        try:
            y = operand_of(other)
        except TypeError:
            return NotImplemented
        if isinstance(y, Constant | Tuple):
            return NotImplemented
        return in_python(_arithmetic.compare(kind, self._operand, y, _HERE))

    return method


class Operators:
    """Python's operators on what has an operand of the lowering."""

    @property
    def _operand(self) -> Any:
        raise NotImplementedError

    def item(self) -> Any:
        """Python's number."""
        return content(self).item()

    def __bool__(self) -> bool:
        return bool(in_python(_arithmetic.truth(self._operand, _HERE)).item())

    def __hash__(self) -> int:
        return hash(self.item())

    def __int__(self) -> int:
        return int(content(self, INT64))

    def __float__(self) -> float:
        return float(content(self))

    def __complex__(self) -> complex:
        return complex(float(self))

    def __index__(self) -> int:
        number = content(self)
        if number.dtype.kind not in "iu":
            raise TypeError(f"expected a whole number, given {number.dtype.name} {number}")
        return int(number)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.asarray(content(self), dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        plain = [content(x) if isinstance(x, Operators) else x for x in inputs]
        made = getattr(ufunc, method)(*plain, **options)
        return element(made) if isinstance(made, np.generic) else made

    def __divmod__(self, other: Any) -> Any:
        return call(divmod, self, other)

    def __rdivmod__(self, other: Any) -> Any:
        return call(divmod, other, self)

    def __pow__(self, other: Any, modulo: None = None) -> Any:
        return _POWER(self, other)

    def __abs__(self) -> Any:
        return call(abs, self)

    def __round__(self, digits: int | None = None) -> Any:
        return call(round, self) if digits is None else call(round, self, digits)

    def __trunc__(self) -> Any:
        return call(math.trunc, self)

    def __floor__(self) -> Any:
        return call(math.floor, self)

    def __ceil__(self) -> Any:
        return call(math.ceil, self)

    def __eq__(self, other: object) -> Any:
        return _EQUAL(self, other)

    def __ne__(self, other: object) -> Any:
        return _DIFFERENT(self, other)

    def __repr__(self) -> str:
        return str(content(self))

    def __format__(self, form: str) -> str:
        return format(self.item(), form) if form else str(self)


_POWER = _binary(ast.Pow)
_EQUAL = _comparison(ast.Eq)
_DIFFERENT = _comparison(ast.NotEq)
for _name, _kind in (
    ("add", ast.Add),
    ("sub", ast.Sub),
    ("mul", ast.Mult),
    ("truediv", ast.Div),
    ("floordiv", ast.FloorDiv),
    ("mod", ast.Mod),
    ("and", ast.BitAnd),
    ("or", ast.BitOr),
    ("xor", ast.BitXor),
    ("lshift", ast.LShift),
    ("rshift", ast.RShift),
    ("pow", ast.Pow),
):
    assert _kind in BINARY
    if _kind is not ast.Pow:
        setattr(Operators, f"__{_name}__", _binary(_kind))
    setattr(Operators, f"__r{_name}__", _binary(_kind, swapped=True))
for _name, _sign in (("neg", ast.USub), ("pos", ast.UAdd), ("invert", ast.Invert)):
    assert _sign in UNARY
    setattr(Operators, f"__{_name}__", _unary(_sign))
for _name, _compared in (("lt", ast.Lt), ("le", ast.LtE), ("gt", ast.Gt), ("ge", ast.GtE)):
    assert _compared in COMPARISONS
    setattr(Operators, f"__{_name}__", _comparison(_compared))


class Number(Operators):
    """A number of a kernel; prints as one.

    Parameters
    ----------
    operand : Known or Weak
    """

    __slots__ = ("_own",)

    def __init__(self, operand: Any) -> None:
        self._own = operand

    @property
    def _operand(self) -> Any:
        return self._own

    def __getattr__(self, name: str) -> Any:
        if name == "dtype":
            return Dtype(content(self).dtype)
        method = None if name.startswith("_") else dict(registry.methods()).get(name)
        if method is None:
            raise AttributeError(f"expected dtype or a method of elements, given .{name}")
        return lambda *args, **kwargs: call(method, self, *args, **kwargs)
