"""Every message has a mistake that shows it, every exception is one that a NumPy user would catch."""

from __future__ import annotations

import ast
import contextlib
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pyasc
from pyasc.ops import errors

ROOT = Path(__file__).parent.parent.parent
MISTAKES = [
    entry
    for path in sorted(Path(__file__).parent.glob("test_messages_of_*.py"))
    for entry in getattr(importlib.import_module(path.stem), "MISTAKES", ())
]
RAISED = {
    name
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, errors.PyascError)
}
# Messages that no call makes, each with the reason.
ELSEWHERE = {
    r"\[kernel\]\ fault\ .*\ with\ value\ .*": "an internal error: no kernel reports such a code",
    r"\[cost\]\ expected\ a\ log\ in\ which\ every\ wait\ ends,\ "
    r"given\ one\ in\ which\ core\ .*\ stops\ at\ line\ .*": "of a run that was not checked",
    r"\[tile\]\ expected\ whole\ columns\ in\ a\ tile,\ given\ .*\ rows": "caught: the tile is cut then",
    r"\[cost\]\ .*": "no C++ compiler: tests/errors/test_messages_of_simulator.py",
    **dict.fromkeys(
        (
            r"\[torch\]\ expected\ a\ dtype\ that\ tensors\ have,\ given\ .*",
            r"\[torch\]\ expected\ a\ dense\ tensor\ on\ the\ CPU,\ given\ .*",
            r"\[.*\]\ expected\ no\ out\ for\ tensors\ that\ require\ a\ gradient,\ given\ one",
            r"\[.*\]\ expected\ an\ operator\ with\ gradient=…\ for\ tensors\ that\ require\ one,\ given\ "
            r"one\ without;\ detach\ them,\ or\ call\ it\ under\ torch\.no_grad\(\)",
        ),
        "PyTorch, which is optional: tests/dsl/test_operators.py where it is installed",
    ),
    **dict.fromkeys(
        (
            r"\[.*\]\ expected\ an\ array\ on\ the\ NPU\ for\ .*,\ which\ the\ kernel\ writes\ beside\ "
            r"others\ there,\ given\ one\ of\ the\ host",
            r"\[.*\]\ expected\ arrays\ that\ do\ not\ overlap\ for\ .*\ and\ .*,\ which\ it\ writes,\ "
            r"given\ two\ on\ the\ NPU\ that\ share\ memory",
            r"\[.*\]\ expected\ a\ dense\ tensor,\ given\ one\ of\ layout\ .*",
            r"\[.*\]\ expected\ a\ tensor\ in\ the\ format\ ND,\ given\ NPU\ format\ .*;\ "
            r"torch_npu\.npu_format_cast\(x,\ 2\)\ converts\ it",
        ),
        "torch_npu and a device: tests/npu/test_torch_npu.py",
    ),
    r"\[.*\]\ expected\ memory\ for\ its\ result:\ .*.*": "a limit: tests/behaviours/test_reporting.py",
}


def template(node: ast.expr) -> str | None:
    """A regular expression for the text of an f-string or a string."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return re.escape(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(re.escape(p.value) if isinstance(p, ast.Constant) else ".*" for p in node.values)
    if isinstance(node, ast.IfExp):
        return f"({template(node.body)}|{template(node.orelse)})"
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return f"{template(node.left)}{template(node.right)}"
    return None


def messages() -> Iterator[tuple[str, str]]:
    """Place and template of each message in the sources."""
    for folder in ("pyasc", "ops", "backend"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and node.args:
                    name = (
                        node.func.attr
                        if isinstance(node.func, ast.Attribute)
                        else getattr(node.func, "id", "")
                    )
                    if name in RAISED:
                        found = template(node.args[0])
                        if found is not None:
                            yield f"{path.relative_to(ROOT)}:{node.lineno}", found


def test_every_message_has_a_mistake() -> None:
    said = []
    for entry in MISTAKES:
        with contextlib.suppress(Exception):
            try:
                entry.call()
            except errors.PyascError as error:
                said.append(str(error))
    missing = [
        f"{place}: {text}"
        for place, text in messages()
        if not any(re.match(text, message, re.DOTALL) for message in said) and text not in ELSEWHERE
    ]
    assert not missing, "messages without a mistake that shows them:\n" + "\n".join(missing)


def test_every_error_is_public() -> None:
    for name, kind in vars(errors).items():
        if isinstance(kind, type) and issubclass(kind, errors.PyascError):
            assert getattr(pyasc.errors, name) is kind
            assert kind is errors.PyascError or any(
                base.__module__ in ("builtins", "numpy.exceptions") for base in kind.__mro__[2:4]
            )
            assert kind.__doc__
