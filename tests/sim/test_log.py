"""The numbers in records mean the same in Python as in the engine."""

from __future__ import annotations

import re

from pyasc.backend.sim import library
from pyasc.backend.sim.log import DTYPES, EVENTS, PATHS, PIPES, RECORD

SHORT = {"int": "I", "uint": "U", "float": "F", "bfloat": "BF"}


def enumerators(header: str, name: str) -> list[str]:
    """The names of an enumeration of the engine, in order."""
    text = (library.headers() / "sim" / header).read_text(encoding="utf-8")
    found = re.search(rf"enum class {name} : uint8_t \{{(.*?)\}};", re.sub("//.*", "", text), re.DOTALL)
    assert found is not None, name
    return re.findall(r"\w+", found[1])


def test_enumerations_are_the_same() -> None:
    assert enumerators("core.hpp", "Pipe") == list(PIPES)
    assert enumerators("log.hpp", "Path") == list(PATHS)
    assert enumerators("log.hpp", "Event") == list(EVENTS)
    assert [kind.lower() for kind in enumerators("core.hpp", "Kind")[1:]] == list(library.KINDS[1:])


def test_dtypes_are_the_same() -> None:
    def short(name: str) -> str:
        kind, bits = re.fullmatch(r"([a-z]+)(\d+)", name).groups()  # type: ignore[union-attr]
        return f"{SHORT[kind]}{bits}"

    assert enumerators("core.hpp", "Dtype") == [short(name) for name in DTYPES]


def test_a_record_is_as_long_as_the_engine_says() -> None:
    assert library.load().pyasc_sim_record_size() == RECORD.itemsize
