"""Three floors, arrows only downward: pyasc over backend over ops."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FLOORS = {"ops": 0, "backend": 1, "pyasc": 2}
FILES = [
    path
    for floor in FLOORS
    for path in sorted((ROOT / floor).rglob("*.py*"))
    if path.suffix in (".py", ".pyi")
]


def floor_of(module: str) -> str | None:
    """The floor of a module's full name; None outside the library."""
    parts = module.split(".")
    if parts[0] != "pyasc":
        return None
    return parts[1] if len(parts) > 1 and parts[1] in FLOORS else "pyasc"


def full_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts if parts[0] == "pyasc" else ("pyasc", *parts))


def imports(path: Path) -> list[tuple[int, str]]:
    """Line and full name of everything a file imports, wherever in it the import stands."""
    package = full_name(path).split(".")[:-1]
    found: list[tuple[int, str]] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            found += [(node.lineno, f"{module}.{alias.name}") for alias in node.names]
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_down(path: Path) -> None:
    own = floor_of(full_name(path))
    assert own is not None
    for line, name in imports(path):
        target = floor_of(name)
        if target is None:
            assert name.split(".")[0] not in ("ops", "backend"), (
                f"{path}:{line} imports {name}, installed as pyasc.{name}"
            )
            continue
        assert FLOORS[target] <= FLOORS[own], f"{path}:{line}: {own} imports {name}, a floor above"


def test_there_is_something_to_check() -> None:
    assert {path.relative_to(ROOT).parts[0] for path in FILES} == set(FLOORS)


# Rooms of the backend's floor, and those that each keeps out of.
ROOMS = {"ascend": {"cpu", "sim"}, "cpu": {"ascend", "sim"}, "sim": {"cpu"}}


@pytest.mark.parametrize("room", ROOMS)
def test_backends_keep_apart(room: str) -> None:
    for path in FILES:
        if path.is_relative_to(ROOT / "backend" / room):
            for line, name in imports(path):
                other = (name.split(".") + [""] * 3)[2]
                apart = not name.startswith("pyasc.backend.") or other not in ROOMS[room]
                assert apart, f"{path}:{line} imports {name}"
