"""What kernels can call: ids and memory (`language`), functions of Python, functions of ``math``."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from ...backend.structured import Barrier, For
from ...ops import dtypes, registry
from ...ops.errors import KernelError
from .. import language
from ..options import unified_buffer
from .emission import INT64
from .expressions import BUILTINS, Expressions
from .operands import Constant, Literal, Memory, Number, Operand, Tuple, Value, Weak, describe
from .translation import by_name

Arguments = list[Operand]
Named = dict[str, Operand]
MAX_AXES = 3


def _enter(*functions: Any) -> Callable[[Any], Any]:
    def enter(handler: Any) -> Any:
        for function in functions:
            BUILTINS[function] = handler
        return handler

    return enter


# --- ids and memory ----------------------------------------------------------------------------------------


def _id(op: str) -> Callable[..., Operand]:
    def handler(low: Expressions, call: ast.Call, args: Arguments, kwargs: Named) -> Operand:
        if "axis" in kwargs and not args:
            args, kwargs = [kwargs["axis"]], {}
        low.takes(call, args, kwargs, 0, 1)
        axis = args[0] if args else Literal(0)
        if not isinstance(axis, Literal) or type(axis.value) is not int or not 0 <= axis.value < MAX_AXES:
            raise KernelError(
                f"[{low.name}] expected an axis of the grid: 0, 1 or 2, given {describe(axis)}",
                low.span(call),
            )
        if op not in ("global_id", "global_size"):
            _block(low, call)
        return low.thread_id(op, axis.value)

    return handler


def _block(low: Expressions, call: ast.Call) -> None:
    """Refuse what needs a block where none is known."""
    if not low.options.block_dim:
        raise KernelError(
            f"[{low.name}] expected a block whose size is known, given {ast.unparse(call.func)} in a kernel "
            "without one; launch it as kernel[grid, block](…), or decorate it with "
            "@pyasc.kernel(block_dim=…)",
            low.span(call),
        )


BUILTINS[language.get_global_id] = _id("global_id")
BUILTINS[language.get_local_id] = _id("local_id")
BUILTINS[language.get_group_id] = _id("group_id")
BUILTINS[language.get_global_size] = _id("global_size")
BUILTINS[language.get_local_size] = _id("block_size")


@_enter(language.barrier)
def _barrier(low: Expressions, call: ast.Call, args: Arguments, kwargs: Named) -> None:
    low.takes(call, args, kwargs, 0)
    _block(low, call)
    low.asks_block = True
    low.barriers.append((low.source, call))
    low.emit(Barrier())


@_enter(language.register)
def _register(low: Expressions, call: ast.Call, args: Arguments, kwargs: Named) -> Operand:
    low.takes(call, args, kwargs, 1, 2)
    if len(args) == 2:
        return low.converted(args[0], _dtype(low, args[1], call), call)
    return args[0] if isinstance(args[0], Tuple) else low.number(args[0], call)


def _atomic(how: str) -> Callable[..., Operand]:
    def handler(low: Expressions, call: ast.Call, args: Arguments, kwargs: Named) -> Operand:
        hint = _apart(low, call) if len(args) == 2 and not isinstance(args[0], Memory) else ""
        if not hint:
            low.takes(call, args, kwargs, 3)
        memory = args[0]
        if not isinstance(memory, Memory):
            raise KernelError(
                f"[{low.name}] expected an array to update, given {describe(memory)}{hint}",
                low.span(call.args[0]),
            )
        _, at, value = args
        items = at.items if isinstance(at, Tuple) else (at,)
        return low.atomic(how, memory, low.index_values(memory, items, call), value, call)

    return handler


def _apart(low: Expressions, call: ast.Call) -> str:
    """``; write atomic_add(a, i, x)`` for ``atomic_add(a[i], x)``."""
    match call.args:
        case [ast.Subscript() as element, value]:
            element = low.in_one(element)
            parts = ", ".join(map(ast.unparse, (element.value, element.slice, value)))
            return f"; write {ast.unparse(call.func)}({parts})"
    return ""


BUILTINS[language.atomic_add] = _atomic("add")
BUILTINS[language.atomic_max] = _atomic("max")
BUILTINS[language.atomic_min] = _atomic("min")


def _dtype(low: Expressions, operand: Operand, node: ast.AST) -> np.dtype[Any]:
    if isinstance(operand, Constant):
        try:
            return dtypes.as_dtype(operand.value)
        except TypeError:
            pass
    raise KernelError(f"[{low.name}] expected a dtype, given {describe(operand)}", low.span(node))


def _shape(low: Expressions, operand: Operand, node: ast.AST) -> tuple[int, ...]:
    items = operand.items if isinstance(operand, Tuple) else (operand,)
    lengths = []
    for item in items:
        if not isinstance(item, Literal) or type(item.value) is not int or item.value < 1:
            raise KernelError(
                f"[{low.name}] expected a shape of positive numbers that are known when the kernel is "
                f"compiled, given {describe(item)}",
                low.span(node),
            )
        lengths.append(item.value)
    return tuple(lengths)


def _made(low: Expressions, call: ast.Call, args: Arguments, kwargs: Named) -> Memory:
    """A shared array of a call such as ``pyasc.empty(shape, dtype)``."""
    given = [*args, *(kwargs.pop(name) for name in ("shape", "dtype")[len(args) :] if name in kwargs)]
    low.takes(call, given, kwargs, 1, 2)
    _block(low, call)
    shape = _shape(low, given[0], call)
    dtype = _dtype(low, given[1], call) if len(given) == 2 else dtypes.default_float
    size = sum(prod(b.shape) * b.dtype.itemsize for b in low.buffers) + prod(shape) * dtype.itemsize
    limit = low.options.smem_size or unified_buffer()
    if size > limit:
        raise KernelError(
            f"[{low.name}] expected at most smem_size = {limit} bytes of shared memory, given {size} with "
            "this array",
            low.span(call),
        )
    low.asks_block = True
    return low.buffer(f"shared{len(low.buffers)}", dtype, shape)


@_enter(language.shared)
def _shared(low: Expressions, call: ast.Call, args: Arguments, kwargs: Named) -> Operand:
    return _made(low, call, args, kwargs)


def _array_made(name: str, filled: bool) -> Callable[..., Operand]:
    def handler(low: Expressions, call: ast.Call, args: Arguments, kwargs: Named) -> Operand:
        if not low.frame.shared:
            raise KernelError(
                f"[{low.name}] expected arrays to be made in functions marked @pyasc.shared, given "
                f"pyasc.{name} in the kernel; pyasc.shared(shape, dtype) makes shared memory, "
                "pyasc.register(0.0) a variable",
                low.span(call),
            )
        memory = _made(low, call, args, kwargs)
        if filled:
            _fill(low, memory, call)
        return memory

    return handler


def _fill(low: Expressions, memory: Memory, node: ast.Call) -> None:
    """Zeros, written by the threads of the block together."""
    assert memory.shape is not None
    low.ids = max(low.ids, len(low.options.block_dim))
    thread, threads = low.constant(0, INT64), low.constant(1, INT64)
    for axis in reversed(range(len(low.options.block_dim))):
        at = low.let("mul", INT64, (low.thread_id("local_id", axis), threads))
        thread = low.let("add", INT64, (thread, at))
        threads = low.let("mul", INT64, (threads, low.constant(low.options.block_dim[axis], INT64)))
    count = low.constant(prod(memory.shape), INT64)
    number = low.fresh(INT64)
    block = low.open()
    low.store(memory, low.unravelled(memory.shape, number), Literal(0), node)
    low.close()
    step = prod(low.options.block_dim)
    low.emit(For(number.number, thread.number, count.number, step, tuple(block.statements)))
    low.barriers.append((low.source, node))
    low.emit(Barrier())


BUILTINS[by_name("empty")] = _array_made("empty", filled=False)
BUILTINS[by_name("zeros")] = _array_made("zeros", filled=True)


# --- functions of Python -----------------------------------------------------------------------------------


@_enter(print)
def _print(low: Expressions, call: ast.Call, args: Arguments, kwargs: Named) -> None:
    raise KernelError(
        f"[{low.name}] expected a function that kernels have, given print; PYASC_DEBUG=1 runs the kernel in "
        "Python, where it prints",
        low.span(call),
    )


@_enter(range)
def _range(low: Expressions, call: ast.Call, args: Arguments, kwargs: Named) -> None:
    raise KernelError(f"[{low.name}] expected range in a for loop, given range elsewhere", low.span(call))


@_enter(len)
def _len(low: Expressions, call: ast.Call, args: Arguments, kwargs: Named) -> Operand:
    low.takes(call, args, kwargs, 1)
    x = args[0]
    if isinstance(x, Tuple):
        return Literal(len(x.items))
    if isinstance(x, Memory) and x.rank:
        return low.extent(x, 0)
    raise KernelError(f"[{low.name}] expected an array or a tuple, given {describe(x)}", low.span(call))


def _conversion(kind: type) -> Callable[..., Operand]:
    def handler(low: Expressions, call: ast.Call, args: Arguments, kwargs: Named) -> Operand:
        low.takes(call, args, kwargs, 1)
        match args[0]:
            case Constant(str(text)) if kind is float:
                try:
                    return Literal(float(text))
                except ValueError:
                    pass  # number says what is wrong
        x = low.number(args[0], call)
        if kind is bool:
            return low.truth(x, call)
        if isinstance(x, Literal):
            return low.fold(kind, (x,), call)
        if isinstance(x, Weak):
            if x.kind is kind:
                return x
            if kind is float:
                return Weak(float, x.build)
            whole = low.value(x, INT64, call)
            return Weak(int, lambda dtype: low.cast(whole, dtype))
        if kind is float:
            return x if dtypes.is_float(x.dtype) else low.cast(x, dtypes.floating(x.dtype))
        return low.cast(x, INT64)

    return handler


BUILTINS[int] = _conversion(int)
BUILTINS[float] = _conversion(float)
BUILTINS[bool] = _conversion(bool)


def _extreme(name: str, fold: Callable[..., Any]) -> Callable[..., Operand]:
    def handler(low: Expressions, call: ast.Call, args: Arguments, kwargs: Named) -> Operand:
        if len(args) == 1 and isinstance(args[0], Tuple):
            args = list(args[0].items)
        low.takes(call, args, kwargs, 1, max(len(args), 1))
        result, *rest = args
        for item in rest:
            result = low.operate(name, fold, (low.number(result, call), low.number(item, call)), call)
        return result if rest else low.number(result, call)

    return handler


BUILTINS[min] = _extreme("minimum", min)
BUILTINS[max] = _extreme("maximum", max)


@_enter(sum)
def _sum(low: Expressions, call: ast.Call, args: Arguments, kwargs: Named) -> Operand:
    low.takes(call, args, kwargs, 1, 2)
    if not isinstance(args[0], Tuple):
        raise KernelError(
            f"[{low.name}] expected a tuple of numbers to sum, given {describe(args[0])}; write a loop",
            low.span(call),
        )
    total: Operand = args[1] if len(args) == 2 else Literal(0)
    for item in args[0].items:
        total = low.binary(ast.Add, total, item, call)
    return total


@_enter(abs, operator.abs)
def _abs(low: Expressions, call: ast.Call, args: Arguments, kwargs: Named) -> Operand:
    low.takes(call, args, kwargs, 1)
    return low.operate("absolute", abs, (low.number(args[0], call),), call)


@_enter(pow)
def _pow(low: Expressions, call: ast.Call, args: Arguments, kwargs: Named) -> Operand:
    low.takes(call, args, kwargs, 2)
    return low.binary(ast.Pow, args[0], args[1], call)


@_enter(divmod)
def _divmod(low: Expressions, call: ast.Call, args: Arguments, kwargs: Named) -> Operand:
    low.takes(call, args, kwargs, 2)
    return Tuple(
        (low.binary(ast.FloorDiv, args[0], args[1], call), low.binary(ast.Mod, args[0], args[1], call))
    )


@_enter(tuple, list)
def _tuple(low: Expressions, call: ast.Call, args: Arguments, kwargs: Named) -> Operand:
    low.takes(call, args, kwargs, 1)
    if not isinstance(args[0], Tuple):
        raise KernelError(f"[{low.name}] expected a tuple, given {describe(args[0])}", low.span(call))
    return args[0]


def _whole(name: str, fold: Callable[[Any], Any]) -> Callable[..., Operand]:
    """A function that gives Python's integers: of floats, int64."""

    def handler(low: Expressions, call: ast.Call, args: Arguments, kwargs: Named) -> Operand:
        low.takes(call, args, kwargs, 1)
        x = low.number(args[0], call)
        if isinstance(x, Literal):
            return low.fold(fold, (x,), call)
        if x.kind in (bool, int) if isinstance(x, Weak) else x.dtype.kind in "biu":
            return x
        return low.value(low.apply(by_name(name), (x,), call), INT64, call)

    return handler


BUILTINS[math.floor] = _whole("floor", math.floor)
BUILTINS[math.ceil] = _whole("ceil", math.ceil)
BUILTINS[math.trunc] = _whole("trunc", math.trunc)
_rounded = _whole("rint", round)


@_enter(round)
def _round(low: Expressions, call: ast.Call, args: Arguments, kwargs: Named) -> Operand:
    if len(args) == 1 and not kwargs:
        result: Operand = _rounded(low, call, args, kwargs)
        return result
    if all(isinstance(a, Literal) for a in args) and not kwargs:
        return low.fold(round, tuple(args), call)
    return low.apply(by_name("round"), tuple(args), call, kwargs)


# --- functions of math -------------------------------------------------------------------------------------

# math's name where it differs from the op table's.
_FLOATING = {
    **{
        n: n
        for n in (
            "sqrt",
            "exp",
            "log2",
            "log10",
            "log1p",
            "expm1",
            "exp2",
            "cbrt",
            "erf",
            "degrees",
            "radians",
        )
    },
    **{n: n for n in ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh")},
    **{
        n: n
        for n in ("atanh", "atan2", "hypot", "fmod", "copysign", "nextafter", "isnan", "isinf", "isfinite")
    },
}


def _floating(function: Callable[..., Any], name: str) -> Callable[..., Operand]:
    """A function of floats, whole numbers being taken as such."""
    arity = registry.find(name).arity

    def handler(low: Expressions, call: ast.Call, args: Arguments, kwargs: Named) -> Operand:
        low.takes(call, args, kwargs, arity)
        numbers = tuple(_as_float(low, low.number(a, call)) for a in args)
        if all(isinstance(x, Literal) for x in numbers):
            return low.fold(function, numbers, call)
        return low.apply(by_name(name), numbers, call)

    return handler


def _as_float(low: Expressions, x: Number) -> Number:
    if isinstance(x, Value):
        return low.cast(x, dtypes.floating(x.dtype))
    return Literal(float(x.value)) if isinstance(x, Literal) else Weak(float, x.build)


for _name, _table in _FLOATING.items():
    if hasattr(math, _name):
        BUILTINS[getattr(math, _name)] = _floating(getattr(math, _name), _table)


@_enter(math.log)
def _log(low: Expressions, call: ast.Call, args: Arguments, kwargs: Named) -> Operand:
    low.takes(call, args, kwargs, 1, 2)
    if all(isinstance(a, Literal) for a in args):
        return low.fold(math.log, tuple(args), call)
    logs = [_natural(low, call, [a], {}) for a in args]
    return logs[0] if len(logs) == 1 else low.binary(ast.Div, logs[0], logs[1], call)


_natural = _floating(math.log, "log")
_error_function = _floating(math.erf, "erf")


@_enter(math.fabs)
def _fabs(low: Expressions, call: ast.Call, args: Arguments, kwargs: Named) -> Operand:
    low.takes(call, args, kwargs, 1)
    return low.operate("absolute", abs, (_as_float(low, low.number(args[0], call)),), call)


@_enter(math.pow)
def _float_power(low: Expressions, call: ast.Call, args: Arguments, kwargs: Named) -> Operand:
    low.takes(call, args, kwargs, 2)
    x, y = (_as_float(low, low.number(a, call)) for a in args)
    return low.binary(ast.Pow, x, y, call)


@_enter(math.erfc)
def _erfc(low: Expressions, call: ast.Call, args: Arguments, kwargs: Named) -> Operand:
    low.takes(call, args, kwargs, 1)
    return low.binary(ast.Sub, Literal(1.0), _error_function(low, call, args, kwargs), call)
