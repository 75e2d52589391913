"""Messages of the profiler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from mistakes import Mistake, check, label

from pyasc.profiler import Profiler


def entered_twice() -> None:
    with Profiler() as profiler, profiler:
        pass


MISTAKES = [
    Mistake(ValueError, ("[Profiler]", ".json or .svg", "'a.txt'"), lambda: Profiler().save("a.txt")),
    Mistake(OSError, ("[Profiler]", "/nowhere/a.json"), lambda: Profiler().save("/nowhere/a.json")),
    Mistake(RuntimeError, ("[Profiler]", "not running"), entered_twice),
    Mistake(TypeError, ("[Profiler]", "marker", "int"), lambda: Profiler.marker(3)),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("entry", MISTAKES, ids=label)
def test_mistake(entry: Mistake, mistake: Callable[..., Any]) -> None:
    check(entry, mistake)
