"""The text of a user's function: its syntax tree, and where in a file each part of it stands."""

from __future__ import annotations

import ast
import inspect
import linecache
import textwrap
from dataclasses import dataclass, replace
from functools import cached_property
from types import CodeType, FunctionType
from typing import Any

from ...ops.errors import KernelError, Span
from .returns import single_exit


@dataclass(frozen=True, eq=False)
class Source:
    """The definition of a function.

    Attributes
    ----------
    filename : str
    first : int
        Number in the file of the first line of `lines`.
    indent : int
        Characters that were cut off each line.
    lines : tuple of str
    tree : ast.FunctionDef
    assigned : dict
        For each statement with blocks, the names that are assigned in them.
    exits_once : bool
        Whether ``return`` is written otherwise (see `returns`).
    """

    filename: str
    first: int
    indent: int
    lines: tuple[str, ...]
    tree: ast.FunctionDef
    assigned: dict[ast.AST, frozenset[str]]
    exits_once: bool = False

    @cached_property
    def single_exit(self) -> Source:
        """The same without ``return`` (see `returns`)."""
        tree = single_exit(self.tree)
        return replace(self, tree=tree, assigned=_assignments(tree), exits_once=True)

    def span(self, node: ast.AST) -> Span:
        """File, line, text and columns of a part of the tree."""
        number: int = getattr(node, "lineno", 1)
        text = self.lines[number - 1] if number <= len(self.lines) else ""
        start = len(text.encode()[: getattr(node, "col_offset", 0)].decode(errors="replace"))
        end = len(text)
        if getattr(node, "end_lineno", number) == number:
            end = len(text.encode()[: getattr(node, "end_col_offset", end)].decode(errors="replace"))
        return Span(
            self.filename,
            self.first + number - 1,
            " " * self.indent + text,
            start + self.indent,
            end + self.indent,
        )

    def line(self, node: ast.AST) -> tuple[str, int, str]:
        """File, line number and text of a part of the tree, as `backend.structured.Site` keeps it."""
        number: int = getattr(node, "lineno", 1)
        return self.filename, self.first + number - 1, self.lines[number - 1].strip()


def read(function: Any) -> Source:
    """The source of a function that is written with ``def``.

    Raises
    ------
    KernelError
        Where there is no source, or the function is a lambda, a generator, a class, or hidden by another
        decorator.
    """
    if not isinstance(function, FunctionType):
        raise KernelError(f"[kernel] expected a function written in Python with def, given {function!r:.80}")
    if hasattr(function, "__wrapped__"):
        raise KernelError(
            f"[{function.__name__}] expected a function without other decorators, given one that a decorator "
            "wraps; apply the decorators of pyasc only"
        )
    code = function.__code__
    key = (code.co_filename, code)  # equal code may stand in two files
    found = _sources.get(key)
    if found is None:
        if len(_sources) >= MAX_SOURCES:
            _sources.clear()
        found = _sources[key] = _parse(code, function.__globals__)
    return found


MAX_SOURCES = 1024
_sources: dict[tuple[str, CodeType], Source] = {}


def _parse(code: CodeType, module: dict[str, Any]) -> Source:
    name = code.co_name
    where = Span(code.co_filename, code.co_firstlineno, "", 0, 0)
    if name == "<lambda>":
        raise KernelError("[kernel] expected a function written with def, given a lambda", where)
    first = code.co_firstlineno
    linecache.checkcache(code.co_filename)
    given = inspect.getblock(linecache.getlines(code.co_filename, module)[first - 1 :])
    if not given:
        raise KernelError(
            f"[{name}] expected a function whose source can be read, given one that was typed in or made by "
            "exec; write it to a file, or to a cell of a notebook",
            where,
        )
    text = "".join(given)
    dedented = textwrap.dedent(text)
    lines = tuple(dedented.splitlines())
    indent = len(given[0]) - len(given[0].lstrip())
    try:
        tree: Any = ast.parse(dedented).body[0]
    except SyntaxError:  # a string or comment that begins left of the function
        tree = ast.parse("if True:\n" + text).body[0]
        tree = tree.body[0]
        ast.increment_lineno(tree, -1)
        lines, indent = tuple(text.splitlines()), 0
    if not isinstance(tree, ast.FunctionDef) or tree.name != name:
        given_text = "async def" if isinstance(tree, ast.AsyncFunctionDef) else f"{lines[0].strip()!r:.60}"
        raise KernelError(f"[{name}] expected a function written with def, given {given_text}", where)
    return Source(code.co_filename, first, indent, lines, tree, _assignments(tree))


def id_axes(tree: ast.FunctionDef) -> int:
    """How many axes of threads a kernel's own text names, 1 at least."""
    axes = [
        call.args[0].value
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        and ast.unparse(call.func).rpartition(".")[2].startswith("get_")
        and call.args
        and isinstance(call.args[0], ast.Constant)
    ]
    return max((axis for axis in (0, 1, 2) if axis in axes), default=0) + 1


def _assignments(tree: ast.FunctionDef) -> dict[ast.AST, frozenset[str]]:
    found: dict[ast.AST, frozenset[str]] = {}

    def names(node: ast.AST) -> frozenset[str]:
        inside: set[str] = set()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            inside.add(node.id)
        for child in ast.iter_child_nodes(node):
            inside |= names(child)
        result = frozenset(inside)
        if isinstance(node, ast.If | ast.For | ast.While | ast.FunctionDef):
            found[node] = result
        return result

    names(tree)
    return found
