"""C as far as foreign functions need it: prototypes, what a source defines, and what of it a function needs.

The text is parsed by pycparser. It is what the C preprocessor leaves of a file without the headers of the
system, so that macros are expanded and lines are those of the file.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from pycparser import c_ast, c_generator, c_parser

Dtype = np.dtype[Any]

# Names that the system's headers would define; `dtype_of` knows what they mean.
_WIDTHS = (8, 16, 32, 64)
_NAMED: dict[str, Dtype] = {
    **{f"int{n}_t": np.dtype(f"int{n}") for n in _WIDTHS},
    **{f"uint{n}_t": np.dtype(f"uint{n}") for n in _WIDTHS},
    "size_t": np.dtype(np.uintp),
    "ssize_t": np.dtype(np.intp),
    "ptrdiff_t": np.dtype(np.intp),
    "intptr_t": np.dtype(np.intp),
    "uintptr_t": np.dtype(np.uintp),
    "bool": np.dtype(np.bool_),
    "_Bool": np.dtype(np.bool_),
    "float": np.dtype(np.float32),
    "double": np.dtype(np.float64),
}
# `bool` is a keyword of C23 and of nothing before: the parser takes it for a name.
_PRELUDE = "".join(f"typedef int {name};" for name in _NAMED if name not in ("_Bool", "float", "double"))
_MARKER = re.compile(r'^#\s*(?:line\s+)?(\d+)\s+"([^"]*)"([\d ]*)$')


class CError(Exception):
    """C text that is not what it should be.

    Attributes
    ----------
    line : int or None
        Of the text.
    """

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


@dataclass(frozen=True, slots=True)
class Prototype:
    """What a C function takes and gives.

    Attributes
    ----------
    name : str
    result : dtype
    parameters : tuple of dtype
    """

    name: str
    result: Dtype
    parameters: tuple[Dtype, ...]

    def __str__(self) -> str:
        parameters = ", ".join(map(c_name, self.parameters)) or "void"
        return f"{c_name(self.result)} {self.name}({parameters})"

    def same(self, other: Prototype) -> bool:
        """Whether the types are equal."""
        return (self.result, self.parameters) == (other.result, other.parameters)


def c_name(dtype: Dtype) -> str:
    """The C name of a scalar type."""
    return {"float32": "float", "float64": "double", "bool": "bool"}.get(dtype.name, f"{dtype.name}_t")


def c_type(dtype: Dtype) -> Any:
    """The ctypes class of a scalar type."""
    return np.ctypeslib.as_ctypes_type(dtype)


def parse_prototype(text: str, name: str) -> Prototype:
    """A prototype, in which the function's name may be left out: ``"float(float)"``.

    Raises
    ------
    CError
        For what is no prototype, has another name, or types other than scalars.
    """
    front, parenthesis, rest = text.strip().removesuffix(";").partition("(")
    words = re.findall(r"\w+|\*", front)
    if words and (words[-1] == "*" or not words[:-1] or _is_type(words)):
        front = f"{front} {name}"
    try:
        parsed = c_parser.CParser().parse(f"{_PRELUDE}{front}{parenthesis}{rest};", "signature")
    except c_parser.ParseError:
        raise CError(f"{text!r}, which is no prototype") from None
    found = parsed.ext[-1]
    if len(parsed.ext) != _PRELUDE.count(";") + 1 or not isinstance(
        getattr(found, "type", None), c_ast.FuncDecl
    ):
        raise CError(f"{text!r}, which is no prototype of a function")
    made = _prototype(found, {})
    if made.name != name:
        raise CError(f"{text!r}, a prototype of {made.name}")
    return made


def _is_type(words: list[str]) -> bool:
    """Whether all words name types, so that the function's name is missing."""
    kinds = {"signed", "unsigned", "int", "long", "short", "char", "const", "void", *_NAMED}
    return all(word in kinds for word in words)


def _prototype(declaration: Any, types: dict[str, Any]) -> Prototype:
    """What a declaration of a function says; `types` are typedefs of the text."""
    function = declaration.type
    what = f"{declaration.name}()"
    parameters = list(function.args.params) if function.args is not None else []
    if len(parameters) == 1 and _names(parameters[0]) == ["void"] and parameters[0].name is None:
        parameters = []
    made = []
    for number, parameter in enumerate(parameters, 1):
        made.append(_scalar(parameter, types, f"parameter {number} of {what}"))
    return Prototype(declaration.name, _scalar(function, types, f"the result of {what}"), tuple(made))


def _names(node: Any) -> list[str]:
    inner = getattr(getattr(node, "type", None), "type", None)
    return list(inner.names) if isinstance(inner, c_ast.IdentifierType) else []


def _scalar(node: Any, types: dict[str, Any], what: str) -> Dtype:
    """The dtype of a parameter or of a function's result."""
    line = node.coord.line if getattr(node, "coord", None) else None
    if isinstance(node, c_ast.EllipsisParam):
        raise CError(f"`...` as {what}", line)
    if isinstance(node, c_ast.ID):
        raise CError(f"{node.name!r} as {what}, which is no type", line)
    kind = node.type
    if isinstance(kind, c_ast.PtrDecl | c_ast.ArrayDecl | c_ast.FuncDecl):
        raise CError(f"a pointer as {what}", line)
    inner = kind.type
    if not isinstance(inner, c_ast.IdentifierType):
        raise CError(f"a {type(inner).__name__.lower()} as {what}", line)
    if len(inner.names) == 1 and inner.names[0] in types:
        return _scalar(types[inner.names[0]], types, what)
    found = dtype_of(inner.names)
    if found is None:
        raise CError(f"{' '.join(inner.names)!r} as {what}", line)
    return found


def dtype_of(names: list[str]) -> Dtype | None:
    """The dtype of a scalar type given by its words, else None; plain ``char`` has no sign to go by."""
    if len(names) == 1 and names[0] in _NAMED:
        return _NAMED[names[0]]
    if not names or not set(names) <= {"signed", "unsigned", "int", "long", "short", "char"}:
        return None
    if "char" in names:
        if len(names) == 1:
            return None
        size = 1
    elif "short" in names:
        size = 2
    elif "long" in names:
        size = ctypes.sizeof(ctypes.c_longlong if names.count("long") > 1 else ctypes.c_long)
    else:
        size = ctypes.sizeof(ctypes.c_int)
    return np.dtype(f"{'u' if 'unsigned' in names else 'i'}{size}")


# --- sources -----------------------------------------------------------------------------------------------


def own_text(preprocessed: str) -> str:
    """What the preprocessor gave without the headers of the system, markers of lines included.

    Attributes of a compiler's own, which say nothing about values, are left out.
    """
    kept: list[str] = []
    system: set[str] = {"<built-in>", "<command-line>"}
    inside = True
    for line in preprocessed.splitlines():
        marker = _MARKER.match(line)
        if marker is None:
            if inside and not line.lstrip().startswith("#"):
                kept.append(line)
            continue
        # Entered (1) as a header of the system (3); alone, a 3 marks what a macro of such a header gave.
        if {"1", "3"} <= set(marker[3].split()):
            system.add(marker[2])
        inside = marker[2] not in system
        if inside:
            kept.append(f'# {marker[1]} "{marker[2]}"')
    return re.sub(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)|__extension__", "", "\n".join(kept))


class CSource:
    """The definitions of a C text.

    Parameters
    ----------
    text : str
        As `own_text` gives it.
    includes : tuple of str
        The lines of the file that include headers of the system.

    Attributes
    ----------
    functions : tuple of str
        Names of those that a library shows.
    variables : frozenset of str
    """

    def __init__(self, text: str, includes: tuple[str, ...] = ()) -> None:
        self._includes = includes
        self._whole = text
        self._parsed = self._parse(text) or self._parse(_without_bodies(text))
        definitions = self._parsed.ext if self._parsed is not None else []
        self._definitions = {d.decl.name: d for d in definitions if isinstance(d, c_ast.FuncDef)}
        self._types = {
            d.name: d for d in definitions if isinstance(d, c_ast.Typedef) and d.name not in _NAMED
        }
        self.variables = frozenset(
            d.name for d in definitions if isinstance(d, c_ast.Decl) and _defined(d) and d.name not in _NAMED
        )
        self.functions = tuple(n for n, d in self._definitions.items() if "static" not in d.decl.storage)

    def _parse(self, text: str) -> Any:
        try:
            return c_parser.CParser().parse(_PRELUDE + "\n" + text, "source")
        except c_parser.ParseError:
            return None

    def prototype(self, name: str) -> Prototype | None:
        """Of a function that is defined; None where the text has none, or is C that the parser does not know.

        Raises
        ------
        CError
            For types other than scalars.
        """
        definition = self._definitions.get(name)
        return None if definition is None else _prototype(definition.decl, self._types)

    def line(self, name: str) -> int | None:
        """Where a function is defined."""
        definition = self._definitions.get(name)
        return None if definition is None or definition.coord is None else int(definition.coord.line)

    def part(self, name: str) -> str:
        """The text of a function and of what it needs, in the order of the file.

        The includes stand in front where something is called that the text does not define.
        """
        whole = self._parse(self._whole)
        if whole is None or name not in self._definitions:
            return "\n".join((*self._includes, _unmarked(self._whole)))
        entries = [d for d in whole.ext if not _of_prelude(d)]
        named = {_defined(d): d for d in entries if _defined(d)}
        needed, waiting = {name}, [name]
        calls: set[str] = set()
        while waiting:
            for used, called in _used(named[waiting.pop()]):
                if called:
                    calls.add(used)
                if used in named and used not in needed:
                    needed.add(used)
                    waiting.append(used)
        write = c_generator.CGenerator()
        texts = [] if calls <= named.keys() else list(self._includes)
        for entry in entries:
            if _defined(entry) in needed or _is_type_alone(entry):
                text = write.visit(entry)
                texts.append(text if isinstance(entry, c_ast.FuncDef) else text + ";")
        return "\n".join(text.rstrip("\n") for text in texts) + "\n"


def _of_prelude(entry: Any) -> bool:
    return isinstance(entry, c_ast.Typedef) and entry.name in _NAMED


def _is_type_alone(entry: Any) -> bool:
    """A struct, union or enum that is declared by itself: its members' users do not name it."""
    return isinstance(entry, c_ast.Decl) and entry.name is None


def _defined(entry: Any) -> str:
    """The name that a part of a file defines; prototypes define none."""
    if isinstance(entry, c_ast.FuncDef):
        return str(entry.decl.name)
    if isinstance(entry, c_ast.Decl) and isinstance(entry.type, c_ast.FuncDecl):
        return ""
    return str(getattr(entry, "name", None) or "")


def _used(node: Any) -> Iterator[tuple[str, bool]]:
    """Names that a definition uses, and whether as a function that is called."""
    waiting = [node]
    while waiting:
        part = waiting.pop()
        if isinstance(part, c_ast.FuncCall) and isinstance(part.name, c_ast.ID):
            yield part.name.name, True
        elif isinstance(part, c_ast.ID):
            yield part.name, False
        elif isinstance(part, c_ast.IdentifierType):
            yield from ((name, False) for name in part.names)
        waiting += [child for _, child in part.children()]


def _without_bodies(text: str) -> str:
    """Functions with empty bodies, lines as they were: not every extension of a compiler's can be parsed."""
    made: list[str] = []
    depth = 0
    function = False
    for part in re.split(r'("(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|[{}])', text):
        if part == "{":
            if depth == 0:
                function = "".join(made).rstrip().endswith(")")
            depth += 1
            if depth == 1 or not function:
                made.append(part)
        elif part == "}":
            depth -= 1
            if depth == 0 or not function:
                made.append(part)
        elif depth and function:
            lines = part.split("\n")
            made.append("\n".join(line if line.startswith("#") else "" for line in lines))
        else:
            made.append(part)
    return "".join(made)


def _unmarked(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.startswith("#"))
