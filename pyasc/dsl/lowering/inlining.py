"""Functions in Python that a kernel calls: their bodies in place of the calls."""

from __future__ import annotations

import ast
from types import FunctionType
from typing import Any

from ...ops.errors import KernelError
from ..language import SharedFunction
from .expressions import Expressions
from .operands import Constant, Nothing, Operand
from .returns import RESULT, ends
from .source import Source, read
from .subscripts import Frame


class Functions(Expressions):
    """`Expressions` that call functions."""

    def body(self, statements: list[ast.stmt], fall: str) -> str:
        """Lower a block (see `statements.Statements`)."""
        raise NotImplementedError

    def refuse_parameters(self, tree: ast.FunctionDef) -> None:
        given = tree.args
        for star in (given.vararg, given.kwarg):
            if star is not None:
                raise KernelError(
                    f"[{self.name}] expected a fixed number of parameters, given *{star.arg}", self.span(star)
                )

    def inline(
        self, function: Any, args: list[Operand], kwargs: dict[str, Operand], node: ast.Call
    ) -> Operand:
        """The body of a function in Python in place of its call."""
        plain: FunctionType = function if isinstance(function, FunctionType) else function.function
        if any(frame.function is plain for frame in self.frames):
            raise KernelError(
                f"[{self.name}] expected functions that do not call themselves, given {plain.__name__}; "
                f"write a loop",
                self.span(node),
            )
        source = self.exits_once(plain, read(plain))
        frame = Frame(
            plain,
            source,
            self.bound(plain, source, args, kwargs, node),
            call=(*self.frame.call, id(node)),
            shared=self.frame.shared or isinstance(function, SharedFunction),
        )
        if source.exits_once:
            frame.env[RESULT] = Nothing()
        with self.entered(frame):
            self.refuse_parameters(source.tree)
            self.body(source.tree.body, "return")
            result = self.frame.env.get(RESULT, Constant(None))
        return Constant(None) if isinstance(result, Nothing) else result

    def exits_once(self, function: FunctionType, source: Source) -> Source:
        """The source to walk: with one exit, where the function returns from within loops and branches."""
        if function.__code__ not in self.memo.exits:
            return source
        returns = [n for n in ast.walk(source.tree) if isinstance(n, ast.Return)]
        if any(n.value is not None for n in returns) and not ends(source.tree.body):
            raise KernelError(
                f"[{self.name}] expected a function that returns a value on every way, given "
                f"{function.__name__}, "
                "which may come to its end without",
                source.span(source.tree.body[-1]),
            )
        return source.single_exit

    def bound(
        self,
        function: FunctionType,
        source: Source,
        args: list[Operand],
        kwargs: dict[str, Operand],
        node: ast.Call,
    ) -> dict[str, Operand]:
        """The parameters of a call."""
        given = source.tree.args
        names = [p.arg for p in (*given.posonlyargs, *given.args)]
        named = [*names, *(p.arg for p in given.kwonlyargs)]
        env = dict(zip(names, args, strict=False))
        defaults = dict(
            zip(
                names[len(names) - len(function.__defaults__ or ()) :],
                function.__defaults__ or (),
                strict=True,
            )
        )
        defaults.update(function.__kwdefaults__ or {})
        unknown = [n for n in kwargs if n not in named or n in env]
        env.update(kwargs)
        for name in named:
            if name not in env and name in defaults:
                env[name] = self.known(defaults[name], name, lambda: None, (), node)
        if len(args) > len(names) or unknown or any(n not in env for n in named):
            what = ", ".join([str(len(args)), *kwargs])
            raise KernelError(
                f"[{self.name}] expected the arguments ({', '.join(named)}) of {function.__name__}, given "
                f"{what}",
                self.span(node),
            )
        return env
