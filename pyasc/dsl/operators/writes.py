"""Which parameters a kernel writes, from its text alone: before there are arrays to lower it for."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any

from ..arguments import reader
from ..lowering.source import read

# Functions of the language that write to an argument, and which.
_WRITING = {"atomic_add": 0, "atomic_max": 0, "atomic_min": 0, "dma_copy": 0}


def written(function: Callable[..., Any]) -> dict[str, bool]:
    """The parameters that a kernel's function writes by index, in their order.

    Returns
    -------
    dict of str to bool
        Whether the old elements count: ``out[i] += x``, atomic updates.

    Raises
    ------
    KernelError
        For a function without source.
    """
    return _written(function, [])


def _own(tree: ast.AST) -> Iterator[ast.AST]:
    """The parts of a function without those of functions within it."""
    waiting = list(ast.iter_child_nodes(tree))
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.Lambda):
            waiting += ast.iter_child_nodes(node)


def _written(function: Callable[..., Any], callers: list[Any]) -> dict[str, bool]:
    tree = read(function).tree
    arguments = tree.args
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    found: dict[str, bool] = {}

    def note(node: Any, updated: bool) -> None:
        while isinstance(node, ast.Subscript):
            node = node.value
        if isinstance(node, ast.Name) and node.id in names:
            found[node.id] = found.get(node.id, False) or updated

    for node in _own(tree):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            note(node, False)
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Subscript):
            note(node.target, True)
        if isinstance(node, ast.Call):
            called = _called(function, node.func)
            position = _WRITING.get(getattr(called, "__name__", ""))
            if position is not None and getattr(called, "__module__", "").startswith("pyasc."):
                if len(node.args) > position:
                    note(node.args[position], called.__name__ != "dma_copy")
                continue
            inner = getattr(called, "function", called)
            own = str(getattr(inner, "__module__", "")).startswith("pyasc.")
            if hasattr(inner, "__code__") and not own and inner not in [*callers, function]:
                for argument, updated in _through(inner, node, [*callers, function]):
                    note(argument, updated)
    return {name: found[name] for name in names if name in found}


def _called(function: Callable[..., Any], node: ast.expr) -> Any:
    """What a name, or an attribute of one, stands for around a function; None where it is local."""
    path: list[str] = []
    while isinstance(node, ast.Attribute):
        path.insert(0, node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    try:
        return reader(function, {})(("", node.id, *path))
    except (KeyError, AttributeError, ValueError):
        return None


def _through(inner: Any, call: ast.Call, callers: list[Any]) -> Iterator[tuple[ast.expr, bool]]:
    """The arguments of a call that a device function writes."""
    code = inner.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    given = dict(zip(names, call.args, strict=False)) | {k.arg: k.value for k in call.keywords if k.arg}
    for name, updated in _written(inner, callers).items():
        if name in given:
            yield given[name], updated
