"""Functions that return from within loops and branches, written so that each ends at its last line.

``return x`` becomes an assignment to a name that Python programs cannot have, a flag, and in a loop a
``break``; what follows a branch or a loop that may have returned is done where the flag is not set.
"""

from __future__ import annotations

import ast

RESULT = "return"  # the name of a function's result among its variables
RETURNED = "returned?"  # the name of the flag


def single_exit(tree: ast.FunctionDef) -> ast.FunctionDef:
    """A function with the same meaning that sets `RESULT` and has no ``return``."""
    body = [_assign(RETURNED, ast.Constant(False), tree), *_block(tree.body, in_loop=False)]
    made = ast.FunctionDef(tree.name, tree.args, body, tree.decorator_list, tree.returns)
    return ast.copy_location(made, tree)


def _block(statements: list[ast.stmt], in_loop: bool) -> list[ast.stmt]:
    made: list[ast.stmt] = []
    for k, node in enumerate(statements):
        if isinstance(node, ast.Return):
            made.append(_assign(RESULT, node.value or ast.copy_location(ast.Constant(None), node), node))
            made.append(_assign(RETURNED, ast.Constant(True), node))
            if in_loop:
                made.append(ast.copy_location(ast.Break(), node))
            return made
        if not any(isinstance(n, ast.Return) for n in ast.walk(node)):
            made.append(node)
            continue
        loop = isinstance(node, ast.For | ast.While)
        made.append(_within(node, in_loop))
        if in_loop and loop:
            leave = ast.If(_flag(node), [ast.copy_location(ast.Break(), node)], [])
            made.append(ast.copy_location(leave, node))
        elif not in_loop and k + 1 < len(statements):
            rest = _block(statements[k + 1 :], in_loop)
            unless = ast.copy_location(ast.UnaryOp(ast.Not(), _flag(node)), node)
            made.append(ast.copy_location(ast.If(unless, rest, []), node))
            return made
    return made


def _within(node: ast.stmt, in_loop: bool) -> ast.stmt:
    match node:
        case ast.If(test, body, orelse):
            made: ast.stmt = ast.If(test, _block(body, in_loop), _block(orelse, in_loop))
        case ast.For():
            made = ast.For(node.target, node.iter, _block(node.body, True), node.orelse)
        case ast.While(test, body, orelse):
            made = ast.While(test, _block(body, True), orelse)
        case _:
            return node  # refused where it is lowered
    return ast.copy_location(made, node)


def _flag(node: ast.stmt) -> ast.Name:
    return ast.copy_location(ast.Name(RETURNED, ast.Load()), node)


def _assign(name: str, value: ast.expr, node: ast.stmt) -> ast.stmt:
    target = ast.copy_location(ast.Name(name, ast.Store()), node)
    if not hasattr(value, "lineno"):
        ast.copy_location(value, node)
    return ast.copy_location(ast.Assign([target], value), node)


def ends(statements: list[ast.stmt]) -> str:
    """How a block leaves where it never comes to its end, as far as the syntax shows it.

    ``"return"``, ``"break"``, ``"continue"`` or ``"mixed"``; ``""`` where it may come to its end.
    """
    for node in statements:
        match node:
            case ast.Return():
                return "return"
            case ast.Break():
                return "break"
            case ast.Continue():
                return "continue"
            case ast.If(_, body, orelse):
                first, second = ends(body), ends(orelse)
                if first and second:
                    return first if first == second else "mixed"
            case ast.While(ast.Constant(value), body) if value and not _breaks(body):
                return "return"
    return ""


def _breaks(statements: list[ast.stmt]) -> bool:
    """Whether a loop of this body can be left by ``break``."""
    return _contains(statements, ast.Break)


def leaves_turns(statements: list[ast.stmt]) -> bool:
    """Whether a turn of a loop of this body can end early."""
    return _contains(statements, ast.Break, ast.Continue)


def _contains(statements: list[ast.stmt], *kinds: type[ast.stmt]) -> bool:
    """Whether such statements belong to the loop around a block."""
    for node in statements:
        if isinstance(node, kinds):
            return True
        if isinstance(node, ast.If) and (_contains(node.body, *kinds) or _contains(node.orelse, *kinds)):
            return True
    return False
