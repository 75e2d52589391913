"""Random programs, lowered and run by the reference interpreter, against Python running them."""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lowering_checks import check

NAMES = ("x", "y", "z", "w")
THREADS, LENGTH = 5, 7


class Writer:
    """Writes one kernel and the functions that it calls."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.counters = 0
        self.functions: list[str] = []

    def number(self, depth: int = 0) -> str:
        pick = self.random.randrange(9 if depth < 3 else 3)
        inner = depth + 1
        match pick:
            case 0:
                return str(self.random.randrange(-3, 9))
            case 1 | 2:
                return self.random.choice((*NAMES, "i"))
            case 3:
                return f"a[({self.number(inner)}) % {LENGTH}]"
            case 4:
                return f"({self.number(inner)} if {self.truth(inner)} else {self.number(inner)})"
            case 5:
                return (
                    f"({self.number(inner)} {self.random.choice(('//', '%'))} {self.random.randrange(1, 5)})"
                )
            case 6 if self.functions:
                return f"{self.random.choice(self.functions)}({self.number(inner)}, {self.number(inner)}, a)"
            case 7:
                return f"{self.random.choice(('min', 'max'))}({self.number(inner)}, {self.number(inner)})"
        return f"({self.number(inner)} {self.random.choice('+-*&|^')} {self.number(inner)})"

    def truth(self, depth: int = 0) -> str:
        inner = depth + 1
        pick = self.random.randrange(6 if depth < 3 else 2)
        if pick < 3:
            sign = self.random.choice(("<", "<=", "==", "!=", ">"))
            return f"{self.number(inner)} {sign} {self.number(inner)}"
        if pick == 3:
            return f"({self.truth(inner)} {self.random.choice(('and', 'or'))} {self.truth(inner)})"
        if pick == 4:
            return f"not ({self.truth(inner)})"
        return f"{self.number(inner)} < {self.number(inner)} <= {self.number(inner)}"

    def line(self, indent: int, text: str) -> None:
        self.lines.append("    " * indent + text)

    def block(self, indent: int, loops: int, result: str) -> None:
        for _ in range(self.random.randrange(1, 4)):
            if not self.statement(indent, loops, result):
                return

    def statement(self, indent: int, loops: int, result: str) -> bool:
        """Whether more may follow."""
        pick = self.random.randrange(12 if indent < 5 else 4)
        name = self.random.choice(NAMES)
        match pick:
            case 0 | 1:
                self.line(indent, f"{name} = ({self.number()}) % 97")
            case 2:
                other = self.random.choice(NAMES)
                self.line(indent, f"{name}, {other} = ({self.number(2)}) % 89, {name}")
            case 3:
                self.line(indent, f"{name} {self.random.choice(('+=', '-='))} {self.random.randrange(5)}")
            case 4 | 5 | 6:
                self.line(indent, f"if {self.truth()}:")
                self.block(indent + 1, loops, result)
                if self.random.random() < 0.3:
                    self.line(indent, f"elif {self.truth()}:")
                    self.block(indent + 1, loops, result)
                if self.random.random() < 0.5:
                    self.line(indent, "else:")
                    self.block(indent + 1, loops, result)
            case 7 | 8 if loops < 2:
                self.counters += 1
                bound = self.random.choice((str(self.random.randrange(4)), f"({name}) % 4", "i"))
                start = self.random.choice(("", "1, ", "-1, "))
                self.line(indent, f"for k{self.counters} in range({start}{bound}):")
                self.line(indent + 1, f"{name} += k{self.counters}")
                self.block(indent + 1, loops + 1, result)
            case 9 if loops < 2:
                self.counters += 1
                self.line(indent, f"n{self.counters} = 0")
                self.line(indent, f"while n{self.counters} < 3 and {self.truth(1)}:")
                self.line(indent + 1, f"n{self.counters} += 1")
                self.block(indent + 1, loops + 1, result)
            case 10 if loops:
                self.line(indent, self.random.choice(("break", "continue")))
                return False
            case 11:
                if result:
                    self.line(indent, f"return ({self.number(1)}) % 83")
                else:
                    self.line(indent, f"c[i] = {name}")
                    self.line(indent, "return")
                return False
            case _:
                self.line(indent, "pass")
        return True

    def function(self, name: str) -> None:
        self.line(0, f"def {name}(x, i, a):")
        self.line(1, "y, z, w = i, 1, x % 5")
        for _ in range(2):
            if not self.statement(1, 0, "result"):
                break
        else:
            self.line(1, "return (x + 2 * y - z + w) % 79")
        self.line(0, "")
        self.functions.append(name)

    def kernel(self) -> str:
        self.line(0, "from pyasc.dsl.language import get_global_id")
        for k in range(self.random.randrange(3)):
            self.function(f"f{k}")
        self.line(0, "def kernel(c, a):")
        self.line(1, "i = get_global_id(0)")
        self.line(1, "x, y, z, w = 0, i, a[i], 3")
        for _ in range(6):
            if not self.statement(1, 0, ""):
                break
        else:
            self.line(1, "c[i] = x + 3 * y + 5 * z + 7 * w")
        return "\n".join(self.lines) + "\n"


def load(seed: int, folder: Path) -> Any:
    """A random kernel."""
    path = folder / f"random_program_{seed}.py"
    path.write_text(Writer(seed).kernel())
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.kernel


def check_seed(seed: int, folder: Path) -> None:
    a = np.random.default_rng(seed).integers(-9, 9, LENGTH)
    check(load(seed, folder), (THREADS,), c=np.zeros(THREADS, np.int64), a=a)


def test_random_programs(tmp_path: Path) -> None:
    for seed in range(6):
        check_seed(seed, tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(100, 1100))
def test_many_random_programs(seed: int, tmp_path: Path) -> None:
    check_seed(seed, tmp_path)
