"""C functions of the user's inside a kernel: their text as functions of the AI core, or why it cannot be."""

from __future__ import annotations

import re
from functools import cache

from ...structured import Foreign
from .types import CTYPE

NAMESPACE = "foreign"
# What these declare the kernel's own header has as well.
_HEADERS = ("stdint.h", "stdbool.h", "stddef.h")
_KEYWORDS = frozenset(("if", "for", "while", "switch", "return", "sizeof", "do", "else", "case", "defined"))
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]*)[>"][^\n]*\n?', re.MULTILINE)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*$", re.MULTILINE)
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)\(", re.MULTILINE)
_CALL = re.compile(r"\b([A-Za-z_]\w*)\s*\(")
_DOUBLE = re.compile(r"(?<![\w.])(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][+-]?\d+)?(?![\w.])")
# The last name before a parameter list that a body or a semicolon follows, at the outermost level.
_FUNCTION = re.compile(r"([\w\s*]*?\b(\w+)\s*\([^()]*\)\s*)(?=[{;])")


@cache
def why_not(function: Foreign) -> str:
    """Why the AI core cannot run a C function; "" where it can."""
    name = function.name
    if not function.source:
        return f"the C function {name} has no source, only a library"
    for dtype in (function.result, *function.parameters):
        if dtype.name not in CTYPE or dtype.name in ("float16", "bfloat16"):
            return f"the C function {name} takes or gives {dtype.name}, which the AI core's C has not"
    text = _COMMENT.sub(" ", function.source)
    for header in _INCLUDE.findall(text):
        if header not in _HEADERS:
            return f"the C function {name} includes {header}, which the AI core has not"
    if re.search(r"\bdouble\b", text) or _DOUBLE.search(_INCLUDE.sub("", text)):
        return f"the C function {name} computes in double, which the AI core has not (0.5f is a float)"
    code = _DIRECTIVE.sub("", text)
    outside = _outermost(code)
    known = {m[2] for m in _FUNCTION.finditer(outside) if outside[m.end()] == "{"} | set(_MACRO.findall(text))
    for called in _CALL.findall(code):
        if called not in known and called not in _KEYWORDS:
            return f"the C function {name} calls {called}, which the AI core has not"
    if name not in known:
        return f"the C function {name} is not defined in its source"
    return ""


@cache
def text(source: str) -> str:
    """C text with its functions as functions of the AI core, in a namespace of their own."""
    body = _INCLUDE.sub("", _COMMENT.sub(" ", source)).strip()
    found: list[str] = []
    for level, piece in _pieces(body):
        if level:
            found.append(piece)
            continue
        lines = re.split(r"(^[ \t]*#(?:[^\n]*\\\n)*[^\n]*\n?)", piece, flags=re.MULTILINE)
        found += [line if line.lstrip().startswith("#") else _declared(line) for line in lines]
    inner = "\n".join(line.rstrip() for line in "".join(found).splitlines())
    return f"namespace {NAMESPACE} {{\n{inner}\n}}  // namespace {NAMESPACE}"


def _declared(piece: str) -> str:
    """Declarations outside of functions with each function marked as one of the AI core."""

    def marked(match: re.Match[str]) -> str:
        lead = re.match(r"\s*", match[1])
        assert lead is not None
        words = re.sub(r"\b(?:static|inline|extern)\b\s*", "", match[1][lead.end() :])
        return f"{lead[0]}__aicore__ inline {words}"

    # A body begins where the piece ends.
    return (
        _FUNCTION.sub(marked, f"{piece}{{")[:-1]
        if not piece.rstrip().endswith(";")
        else _FUNCTION.sub(marked, piece)
    )


def _pieces(code: str) -> list[tuple[bool, str]]:
    """The text cut at the outermost braces: whether a piece is within them, and the piece."""
    found: list[tuple[bool, str]] = []
    depth = start = 0
    for n, character in enumerate(code):
        if character == "{":
            if depth == 0:
                found.append((False, code[start:n]))
                start = n
            depth += 1
        elif character == "}":
            depth -= 1
            if depth == 0:
                found.append((True, code[start : n + 1]))
                start = n + 1
    found.append((False, code[start:]))
    return found


def _outermost(code: str) -> str:
    """The text without what is within braces."""
    return "{}".join(piece for inner, piece in _pieces(code) if not inner)
