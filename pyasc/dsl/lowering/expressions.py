"""Expressions of a kernel's source."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Callable, Iterator
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from ...backend.structured import Foreign
from ...ops import dtypes, registry
from ...ops._graph import TensorBase
from ...ops.errors import KernelError
from ..arguments import describe_captured, is_host_array, unboxed
from ..language import SharedFunction
from ..signature import ArrayType, NumberType, Path
from . import names
from .operands import (
    Constant,
    Handler,
    Literal,
    Memory,
    Method,
    Object,
    Operand,
    Tuple,
    Value,
    Weak,
    describe,
)
from .operations import UNARY
from .subscripts import Frame, Indexing
from .translation import of_table

# What kernels can call besides functions of the op table and functions in Python: from the Python function
# object to ``handler(lowering, call, args, kwargs) -> operand or None``.
BUILTINS: dict[Any, Handler] = {}
_ADVICE: dict[type[ast.expr], tuple[str, str]] = {
    ast.Lambda: ("a lambda", "write a function with def"),
    ast.ListComp: ("a list comprehension", "write a for loop over range"),
    ast.SetComp: ("a set comprehension", "write a for loop over range"),
    ast.DictComp: ("a dict comprehension", "write a for loop over range"),
    ast.GeneratorExp: ("a generator", "write a for loop over range"),
    ast.Dict: ("a dict", "use variables, or tuples of them"),
    ast.Set: ("a set", "use variables, or tuples of them"),
    ast.JoinedStr: ("an f-string", "strings are for PYASC_DEBUG=1, which runs a kernel in Python"),
    ast.Await: ("await", "a kernel's threads wait at pyasc.barrier()"),
    ast.Yield: ("yield", "return a value, or store to an array"),
    ast.YieldFrom: ("yield from", "return a value, or store to an array"),
    ast.NamedExpr: (":=", "assign in a line of its own"),
    ast.Starred: ("a starred expression", "write the elements out"),
}


class Expressions(Indexing):
    """`Indexing` that evaluates syntax trees."""

    def inline(
        self, function: Any, args: list[Operand], kwargs: dict[str, Operand], node: ast.Call
    ) -> Operand:
        raise NotImplementedError

    def expression(self, node: ast.expr) -> Operand:
        """The operand of an expression, emitted into the block at hand."""
        match node:
            case ast.Name():
                return self.name_(node)
            case ast.Constant(value):
                return Literal(value) if isinstance(value, bool | int | float) else self._constant_text(node)
            case ast.BinOp(left, op, right):
                x, y = self.expression(left), self.expression(right)
                if isinstance(op, ast.Mult) and (isinstance(x, Tuple) or isinstance(y, Tuple)):
                    raise KernelError(
                        f"[{self.name}] expected numbers to multiply, given {describe(x)} and {describe(y)}; "
                        "a kernel has no arrays of one thread: write a variable for each element, or "
                        "pyasc.shared(shape, dtype), which the threads of a block share",
                        self.span(node),
                    )
                return self.binary(type(op), x, y, node)
            case ast.Subscript():
                return self.subscript(node)
            case ast.Call():
                return self.call(node)
            case ast.Compare():
                return self.comparison(node)
            case ast.BoolOp(op, values):
                return self.logic(isinstance(op, ast.And), values, node)
            case ast.UnaryOp(ast.Not()):
                return self.condition(node)
            case ast.UnaryOp(op, x):
                return self.unary(op, self.expression(x), node)
            case ast.IfExp():
                return self.choice(node)
            case ast.Attribute():
                return self.attribute(node)
            case ast.Tuple(items) | ast.List(items):
                return Tuple(tuple(self.expression(item) for item in items))
        what, advice = _ADVICE.get(type(node), (type(node).__name__, "write it with numbers and arrays"))
        raise KernelError(
            f"[{self.name}] expected an expression that kernels have, given {what}; {advice}", self.span(node)
        )

    def _constant_text(self, node: ast.Constant) -> Operand:
        if isinstance(node.value, complex):
            raise KernelError(f"[{self.name}] expected a real number, given {node.value}", self.span(node))
        return Constant(node.value)

    def unary(self, op: ast.unaryop, x: Operand, node: ast.AST) -> Operand:
        name, fold = UNARY[type(op)]
        return self.operate(name, fold, (self.number(x, node),), node)

    # --- names ---------------------------------------------------------------------------------------------

    def name_(self, node: ast.Name) -> Operand:
        frame = self.frame
        found = frame.env.get(node.id) or frame.around.get(node.id)
        if found is not None:
            self.refuse_unset(found, node)
            return found
        if names.is_local(frame.function, node.id):
            raise KernelError(
                f"[{self.name}] expected a name with a value, given {node.id} before it is set",
                self.span(node),
            )
        try:
            value = names.variable(frame.function, node.id)
        except KeyError:
            known = names.suggestion(frame.function, node.id, list(frame.env))
            raise KernelError(
                f"[{self.name}] expected a name of the kernel, of its module or of Python, given "
                f"{node.id}{known}",
                self.span(node),
            ) from None
        function = frame.function
        result = self.known(value, node.id, lambda: names.variable(function, node.id), ("", node.id), node)
        if not isinstance(value, ModuleType):
            frame.around[node.id] = result
        return result

    def known(self, value: Any, name: str, read: Callable[[], Any], path: Path, node: ast.AST) -> Operand:
        """What is known when the kernel is compiled; numbers and functions in Python are guarded."""
        if isinstance(value, bool | int | float):
            self._guard_known(name, read, value)
            return Literal(unboxed(value))
        if isinstance(value, np.generic):
            self._guard_known(name, read, value)
            return self.constant(value.item(), dtypes.as_dtype(value.dtype))
        if isinstance(value, tuple | list):
            self._guard_known(name, lambda: _plain(read()), _plain(value))
            return Tuple(tuple(self.known(v, name, lambda: None, path, node) for v in value))
        if isinstance(value, TensorBase) or is_host_array(value):
            return self._captured(name, path, node)
        plain = _plain_function(value) is not None and of_table(value) is None and not _has_handler(value)
        if plain or hasattr(value, "foreign"):
            self._guard_known(name, read, value)
        return Constant(value)

    def _guard_known(self, name: str, read: Callable[[], Any], expected: Any) -> None:
        if read() is None:  # an item of what is guarded
            return
        key = (name, id(self.frame.function))

        def compute(_: Any) -> Any:
            try:
                return read()
            except (KeyError, AttributeError):
                return None

        self.guard(f"{name}, a variable around the kernel", compute, expected, key)

    def _captured(self, name: str, path: Path, node: ast.AST) -> Operand:
        """A tensor around the kernel, as an argument."""
        try:
            value = self.values.read(path)
        except (KeyError, AttributeError, ValueError):
            value = None
        if value is None or (len(self.frames) > 1 and value is not names.variable(self.frame.function, name)):
            raise KernelError(
                f"[{self.name}] expected a tensor among the arguments or around the kernel, given {name}, "
                "which is around a function that the kernel calls; hand it over",
                self.span(node),
            )
        return self.argument(path, name, value)

    def argument(self, path: Path, name: str, value: Any) -> Operand:
        """A value that is read by path at every launch."""
        kind = describe_captured(value, self.name, name)
        if isinstance(kind, ArrayType):
            self.values.shapes.setdefault(path, tuple(getattr(value, "shape", ())))
            return self.array(path, name, kind)
        if isinstance(kind, NumberType):
            return self.scalar(path, kind.kind)
        return Constant(value)

    def attribute(self, node: ast.Attribute) -> Operand:
        owner = self.expression(node.value)
        name = node.attr
        match owner:
            case Memory():
                return self.memory_attribute(owner, name, node)
            case Object(path):
                return self.object_attribute(path, name, node)
            case Constant(value):
                return self.constant_attribute(value, name, node)
            case Value() | Weak() | Literal():
                if name == "dtype":
                    return Constant(self.value(owner, None, node).dtype)
                method = _methods().get(name)
                if method is not None:
                    return Method(method, owner)
        raise KernelError(
            f"[{self.name}] expected dtype or a method of elements, given .{name} of {describe(owner)}",
            self.span(node),
        )

    def memory_attribute(self, memory: Memory, name: str, node: ast.AST) -> Operand:
        match name:
            case "dtype":
                return Constant(memory.dtype)
            case "ndim":
                return Literal(memory.rank)
            case "shape":
                return Tuple(tuple(self.extent(memory, k) for k in range(memory.rank)))
            case "size":
                size: Operand = Literal(1)
                for k in range(memory.rank):
                    size = (
                        self.binary(ast.Mult, size, self.extent(memory, k), node)
                        if k
                        else self.extent(memory, 0)
                    )
                return size
        if memory.sole and name in _methods():
            return Method(_methods()[name], self.value(memory, None, node))
        raise KernelError(
            f"[{self.name}] expected shape, dtype, ndim or size of {describe(memory)}, given .{name}",
            self.span(node),
        )

    def object_attribute(self, path: Path, name: str, node: ast.AST) -> Operand:
        owner = self.values.read(path) if len(path) == 1 else self._inner(path)
        try:
            value = getattr(owner, name)
        except AttributeError:
            shown = ".".join(map(str, path))
            raise KernelError(
                f"[{self.name}] expected an attribute of {shown}, given {name}"
                f"{names.suggested_attribute(owner, name)}",
                self.span(node),
            ) from None
        if isinstance(value, MethodType):
            return Method(value.__func__, Object(path))
        bound = getattr(value, "instance", None)
        if bound is owner and hasattr(value, "kernel"):
            return Method(value.kernel, Object(path))
        inner = (*path, name)
        if isinstance(value, bool | tuple | list | str | np.dtype | type | None):
            self.guard(
                f"{'.'.join(map(str, inner))}, an attribute",
                lambda values: _attribute(values.read, inner),
                value,
                inner,
            )
            return self.known(value, name, lambda: None, inner, node)
        if isinstance(value, int | float | np.generic | TensorBase) or is_host_array(value):
            return self.argument(inner, ".".join(map(str, inner)), self.values.read(inner))
        if callable(value) and (
            isinstance(value, FunctionType) or _has_handler(value) or hasattr(value, "foreign")
        ):
            self.guard(
                f"{'.'.join(map(str, inner))}, an attribute",
                lambda values: _attribute(values.read, inner),
                value,
                inner,
            )
            return Constant(value)
        return Object(inner)

    def _inner(self, path: Path) -> Any:
        return _attribute(self.values.read, path)

    def constant_attribute(self, owner: Any, name: str, node: ast.AST) -> Operand:
        if isinstance(owner, np.dtype):
            if name in ("name", "itemsize", "kind"):
                value = getattr(owner, name)
                return Literal(value) if isinstance(value, int) else Constant(value)
            raise KernelError(
                f"[{self.name}] expected name, itemsize or kind of a dtype, given .{name}", self.span(node)
            )
        try:
            value = getattr(owner, name)
        except AttributeError:
            shown = getattr(owner, "__name__", repr(owner))
            raise KernelError(
                f"[{self.name}] expected an attribute of {shown}, given {name}"
                f"{names.suggested_attribute(owner, name)}",
                self.span(node),
            ) from None
        if isinstance(value, TensorBase) or is_host_array(value):
            raise KernelError(
                f"[{self.name}] expected a tensor among the arguments or around the kernel, given .{name} of "
                f"{describe(Constant(owner))}; hand it over",
                self.span(node),
            )
        library = getattr(owner, "__name__", "").partition(".")[0] in ("math", "pyasc", "numpy", "operator")
        read = (lambda: None) if library else (lambda: getattr(owner, name))
        return self.known(value, f"{getattr(owner, '__name__', 'object')}.{name}", read, (), node)

    # --- calls ---------------------------------------------------------------------------------------------

    def call(self, node: ast.Call) -> Operand:
        callee = self.expression(node.func)
        args = [self.expression(a) for a in node.args]
        kwargs: dict[str, Operand] = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                raise KernelError(
                    f"[{self.name}] expected arguments written out, given **", self.span(keyword.value)
                )
            kwargs[keyword.arg] = self.expression(keyword.value)
        result = self.called(callee, args, kwargs, node)
        return Constant(None) if result is None else result

    def called(
        self, callee: Operand, args: list[Operand], kwargs: dict[str, Operand], node: ast.Call
    ) -> Operand | None:
        if isinstance(callee, Method):
            args = [callee.operand, *args]
            callee = Constant(callee.function)
        if isinstance(callee, Object):  # a layer called, a callable of its own
            owner = self._inner(callee.path)
            kind = type(owner)
            method = vars(kind).get("__call__") or getattr(kind, "forward", None)
            return self.called(Method(method, callee), args, kwargs, node)
        if not isinstance(callee, Constant):
            raise KernelError(
                f"[{self.name}] expected a function to call, given {describe(callee)}", self.span(node.func)
            )
        function = callee.value
        if _has_handler(function):
            return BUILTINS[function](self, node, args, kwargs)
        foreign = getattr(function, "foreign", None)
        if isinstance(foreign, Foreign):
            return self.call_foreign(foreign, args, kwargs, node)
        if isinstance(function, np.dtype) or (
            isinstance(function, type) and issubclass(function, np.generic)
        ):
            self.takes(node, args, kwargs, 1)
            return self.converted(args[0], dtypes.as_dtype(function), node)
        found = of_table(function)
        if found is not None:
            return self.apply(found, tuple(args), node, kwargs)
        plain = _plain_function(function)
        if plain is not None:
            return self.inline(function, args, kwargs, node)
        shown = getattr(function, "__name__", None) or repr(function)
        where = getattr(function, "__module__", None)
        hint = names.suggested_call(shown)
        if function is breakpoint:
            hint = "; PYASC_DEBUG=1 runs the kernel in Python, where it stops"
        raise KernelError(
            f"[{self.name}] expected a function that kernels have, given "
            f"{f'{where}.' if where else ''}{shown}; they "
            f"have those of math and pyasc on elements, and functions written in Python{hint}",
            self.span(node.func),
        )

    def converted(self, operand: Operand, dtype: Any, node: ast.AST) -> Value:
        """A number in a dtype, which it keeps."""
        return self.value(operand, dtype, node)

    def call_foreign(
        self, foreign: Foreign, args: list[Operand], kwargs: dict[str, Operand], node: ast.Call
    ) -> Operand:
        """A function in C; arguments are cast to its parameters as C does."""
        self.takes(node, args, kwargs, len(foreign.parameters))
        values = tuple(self.value(a, d, node) for a, d in zip(args, foreign.parameters, strict=True))
        if foreign not in self.functions:
            self.functions.append(foreign)
        return self.once("call", foreign.result, values, (self.functions.index(foreign),))

    def takes(
        self,
        node: ast.Call,
        args: list[Operand],
        kwargs: dict[str, Operand],
        least: int,
        most: int | None = None,
    ) -> None:
        """Refuse a wrong number of arguments, and named ones."""
        most = least if most is None else most
        if kwargs or not least <= len(args) <= most:
            count = str(least) if least == most else f"{least} to {most}"
            given = f"{len(args)}" + (f" and {', '.join(kwargs)}" if kwargs else "")
            raise KernelError(
                f"[{self.name}] expected {count} arguments of {ast.unparse(node.func)}, given {given}",
                self.span(node),
            )

    @contextlib.contextmanager
    def entered(self, frame: Frame) -> Iterator[Frame]:
        """Within a function that is called."""
        before = self.source
        self.frames.append(frame)
        self.source = frame.source
        try:
            yield frame
        finally:
            self.frames.pop()
            self.source = before


def _plain_function(value: Any) -> FunctionType | None:
    """The function in Python behind a kernel, a shared function, or itself."""
    if isinstance(value, FunctionType):
        return value
    if isinstance(value, SharedFunction) or not isinstance(value, type):
        inner = getattr(value, "function", None)
        return inner if isinstance(inner, FunctionType) else None
    return None


def _has_handler(function: Any) -> bool:
    try:
        return function in BUILTINS
    except TypeError:
        return False


def _plain(value: Any) -> Any:
    return tuple(map(_plain, value)) if isinstance(value, tuple | list) else value


def _attribute(read: Callable[[Path], Any], path: Path) -> Any:
    """An attribute read from its owner, without the types that `read` gives arguments."""
    value = read(path[:1])
    for name in path[1:]:
        value = getattr(value, str(name))
    return _plain(value)


_METHODS: dict[str, Any] = {}


def _methods() -> dict[str, Any]:
    """Functions of the op table that are methods of tensors."""
    if not _METHODS:
        _METHODS.update((name, of_table(f) or f) for name, f in registry.methods())
    return _METHODS
