"""Messages of kernels that are run in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from mistakes import Mistake, check, label, x

import pyasc


@pyasc.kernel(debug=True)
def read(out: Any, at: Any) -> None:
    i = pyasc.get_global_id(0)
    out[i] = out[at[0], at[1]]


@pyasc.kernel(debug=True)
def inexact(out: Any, v: Any) -> None:
    i = pyasc.get_global_id(0)
    print(end="")  # does not compile: only Python sees the mistake
    out[i] = v[i / 2]


@pyasc.kernel(debug=True)
def short(out: Any, v: Any) -> None:
    i = pyasc.get_global_id(0)
    print(end="")
    out[i] = v[i, 0]


@pyasc.kernel(debug=True)
def copied(out: Any, v: Any) -> None:
    i = pyasc.get_global_id(0)
    print(end="")
    out[i] = v[i]


@pyasc.kernel(debug=True)
def racing(out: Any) -> None:
    tile = pyasc.shared(2, pyasc.float32)
    tile[0] = 1.0
    out[pyasc.get_global_id(0)] = tile[0]


@pyasc.kernel(debug=True)
def meeting(out: Any) -> None:
    if pyasc.get_local_id(0) == 0:
        pyasc.barrier()
    out[pyasc.get_global_id(0)] = 1.0


@pyasc.kernel(debug=True)
def meeting_twice(out: Any) -> None:
    if pyasc.get_local_id(0) == 0:
        pyasc.barrier()
    else:
        pyasc.barrier()
    out[pyasc.get_global_id(0)] = 1.0


@pyasc.kernel(debug=True)
def sharing(out: Any) -> None:
    i = pyasc.get_global_id(0)
    print(end="")
    tile = pyasc.shared(i + 1, pyasc.float32)
    pyasc.barrier()
    out[i] = tile[0]


@pyasc.kernel(debug=True)
def whole(out: Any, v: Any) -> None:
    print(end="")
    out[0] = v + 1


class Counter(pyasc.nn.Module):
    calls = 0

    @pyasc.kernel(debug=True)
    def forward(self, v: Any) -> Any:
        self.calls = 1
        return v


class Meeting:
    def meet(self) -> None:
        pyasc.barrier()

    @pyasc.kernel(debug=True)
    def run(self, out: Any) -> None:
        out[pyasc.get_global_id(0)] = 1
        self.meet()


def frozen() -> Any:
    array = np.zeros(2, np.float32)
    array.flags.writeable = False
    return array


@pyasc.jit
def traced(v: Any) -> Any:
    out = pyasc.zeros(2)
    copied[2](out, v)
    return out


BLOCK = (1,), (2,)
MISTAKES = [
    Mistake(IndexError, ("[read]", "out", "(2, 2)", "(0, 2)", "thread 0"), lambda: read[2](x(2, 2), (0, 2))),
    Mistake(TypeError, ("[inexact]", "whole numbers", "v", "0.0"), lambda: inexact[2](x(2), x(2))),
    Mistake(IndexError, ("[short]", "each axis of v", "(2,)", "2"), lambda: short[2](x(2), x(2))),
    Mistake(ValueError, ("[copied]", "out", "read-only"), lambda: copied[2](frozen(), frozen())),
    Mistake(
        SyntaxError,
        ("[racing]", "barrier", "thread 1, which writes shared0[0]", "thread 0"),
        lambda: racing[BLOCK](x(2)),
    ),
    Mistake(SyntaxError, ("[meeting]", "thread 0", "thread 1, which ended"), lambda: meeting[BLOCK](x(2))),
    Mistake(SyntaxError, ("[meeting_twice]", "thread 1, which waits"), lambda: meeting_twice[BLOCK](x(2))),
    Mistake(SyntaxError, ("[sharing]", "same shared arrays", "thread 1"), lambda: sharing[BLOCK](x(2))),
    Mistake(SyntaxError, ("[whole]", "a number", "the array v", "v[i]"), lambda: whole[1](x(2), x(2))),
    Mistake(SyntaxError, ("[run]", "by name", "behind an object"), lambda: Meeting().run[BLOCK](x(2))),
    Mistake(SyntaxError, ("[kernel]", "assignment to calls"), lambda: Counter()(x(2))),
    Mistake(RuntimeError, ("[copied]", "debug mode (debug=True)", "traced"), lambda: traced(x(2))),
]


@pytest.mark.parametrize("entry", MISTAKES, ids=label)
def test_mistake(entry: Mistake, mistake: Callable[..., Any]) -> None:
    check(entry, mistake)
