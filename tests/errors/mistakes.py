"""What the tables of mistakes are made of, and how one is checked."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import pyasc
from pyasc.ops import errors

A, B = (3, 4), (2, 5)


class Mistake(NamedTuple):
    """A call that must raise `kind` with a message that holds `texts`."""

    kind: type[BaseException]
    texts: tuple[str, ...]
    call: Callable[[], Any]


def label(entry: Mistake) -> str:
    return f"{entry.call.__code__.co_firstlineno}-{entry.texts[0]}"


def check(entry: Mistake, mistake: Callable[..., Any]) -> None:
    """The built-in exception, the operation in brackets, what was expected and given, the user's line."""
    with mistake(entry.kind, *entry.texts) as caught:
        entry.call()
    assert isinstance(caught.error, errors.PyascError)
    assert re.match(r"\[[\w. ]+\] .*expected .*given ", caught.message, re.DOTALL), caught.message


def x(*shape: int, dtype: Any = "float32") -> Any:
    return pyasc.ones(shape, dtype=dtype)


def shapes(*given: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(map(str, given))
