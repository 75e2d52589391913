"""Write docs/api.md from the op table; with ``--check`` only say whether it is current."""

from __future__ import annotations

import inspect
import re
import sys
from operator import attrgetter
from pathlib import Path

import pyasc
from pyasc import errors, nn
from pyasc.config import _SETTINGS
from pyasc.ops.registry import Operation, operations

PAGE = Path(__file__).with_name("api.md")
HEAD = """# API

Written by `python docs/write_api.py` from the op table (`ops/`); a test checks that it is current.
`x.name()` in the last column is the method of `Tensor`; NumPy functions called on tensors give the same.
The full text of each, with parameters, results and errors, is `help(pyasc.<name>)`.
"""
_METHODS_OF_MODULES = ("parameters", "state_dict", "load_state_dict", "to", "train", "eval")
# What is no operation: the library's own functions, by section.
LIBRARY = {
    "Evaluation": ("sync", "eager", "jit", "explain"),
    "Ascend": ("backend", "cost", "export", "precompile", "tune", "tuning.export", "tuning.load"),
    "Devices": ("devices", "reset_device", "to_torch"),
    "Kernels": (
        "kernel",
        *("get_global_id", "get_local_id", "get_group_id", "get_global_size", "get_local_size"),
        *("shared", "barrier", "register", "atomic_add", "atomic_max", "atomic_min"),
    ),
    "Kernels in tiles": ("auto_tiling", "alloc", "dma_copy", "elementwise", "reduce", "cast"),
    "C functions and operators": (
        *("FFI", "FFI.get_function", "register_operator", "unregister_operator", "operators", "AscendC"),
    ),
    "Profiler": (
        "Profiler",
        *(f"Profiler.{name}" for name in ("marker", "timeline", "save", "plot", "trace")),
    ),
    "Layers": (
        *("Module", *(f"Module.{name}" for name in _METHODS_OF_MODULES), "Parameter"),
        *(f"nn.{name}" for name in nn.__all__ if name not in ("Module", "Parameter", "functional")),
    ),
    "Memory and caches": (
        "memory_stats",
        "reset_peak_memory",
        "set_memory_limit",
        "empty_cache",
        "cache_stats",
        "clear_cache",
    ),
}


def signature(function: object, name: str) -> str:
    """The call as a user writes it, without annotations."""
    if isinstance(function, property):
        return name
    found = inspect.signature(function)  # type: ignore[arg-type]
    plain = [
        p.replace(annotation=inspect.Parameter.empty) for p in found.parameters.values() if p.name != "self"
    ]
    text = str(found.replace(parameters=plain, return_annotation=inspect.Signature.empty))
    text = re.sub(r"<function \w+\.(\w+)[^>]*>|<class '([\w.]+)'>", r"\1\2", text)
    return f"{name}{text}"


def first_sentence(doc: str | None) -> str:
    """A docstring's first paragraph, as a cell of a table."""
    return " ".join(inspect.cleandoc(doc or "").split("\n\n")[0].split()).replace("|", "\\|")


def row(name: str, function: object, doc: str | None, rest: str) -> str:
    return f"| `{signature(function, name).replace('|', chr(92) + '|')}` | {first_sentence(doc)} | {rest} |"


def family(entry: Operation) -> str:
    """The file that declares an operation, which is how its family is called."""
    module = entry.family if hasattr(entry, "family") else entry.function.__module__
    return str(module).rsplit(".", 1)[-1]


def page() -> str:
    families: dict[str, list[str]] = {}
    for entry in operations():
        if not entry.public:
            continue
        name = f"{entry.namespace}.{entry.name}".lstrip(".")
        also = [f"`{alias}`" for alias in entry.aliases]
        also += [f"`x.{method}()`" for method in entry.methods]
        also += [f"`__{entry.operator}__`"] if entry.operator else []
        families.setdefault(family(entry), []).append(row(name, entry.function, entry.doc, ", ".join(also)))
    parts = [HEAD]
    for title, names in LIBRARY.items():
        parts.append(f"## {title}\n\n| call | what it does |\n|---|---|")
        for name in names:
            function = attrgetter(name)(pyasc)
            parts.append(row(name, function, function.__doc__, "").removesuffix(" |  |") + " |")
        parts.append("")
    for title, rows in families.items():
        parts.append(
            f"## {title.replace('_', ' ').capitalize()}\n\n| call | what it does | also |\n|---|---|---|"
        )
        parts += [*rows, ""]
    parts.append(
        "## Settings\n\nSet as `pyasc.config.threads = 4`, or before import by the environment variable.\n"
    )
    parts.append("| `pyasc.config` | environment variable | default | what it does |\n|---|---|---|---|")
    for name, setting in _SETTINGS.items():
        parts.append(f"| `{name}` | `PYASC_{name.upper()}` | `{setting.default!r}` | {setting.doc} |")
    parts.append("\n## Errors\n\n| `pyasc.errors` | is also a | when |\n|---|---|---|")
    for name in errors.__all__:
        kind = getattr(errors, name)
        built_in = next(k for k in kind.__mro__ if k.__module__ == "builtins" and k is not kind)
        parts.append(f"| `{name}` | `{built_in.__name__}` | {first_sentence(kind.__doc__)} |")
    parts.append("")
    return "\n".join(parts)


def main() -> int:
    text = page()
    if "--check" in sys.argv:
        if PAGE.exists() and PAGE.read_text() == text:
            return 0
        print("docs/api.md is not what the op table says; run: python docs/write_api.py")
        return 1
    PAGE.write_text(text)
    print(f"wrote {PAGE.relative_to(Path.cwd()) if PAGE.is_relative_to(Path.cwd()) else PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
