"""Messages of reading values, of the library's own functions, of jit and of settings."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from mistakes import Mistake, check, label, x

import pyasc
from pyasc.ops import errors


def traced(function: Callable[[Any], Any]) -> Any:
    return pyasc.jit(function)(x(3))


def setting(name: str, value: Any) -> None:
    setattr(pyasc.config, name, value)


VALUES = [
    Mistake(ValueError, ("any()", "(3,)"), lambda: bool(x(3))),
    Mistake(TypeError, ("(3,)",), lambda: float(x(3))),
    Mistake(TypeError, ("(3,)",), lambda: int(x(3))),
    Mistake(ValueError, ("(3,)",), lambda: x(3).item()),
    Mistake(TypeError, ("0-d",), lambda: len(x())),
    Mistake(TypeError, ("0-d",), lambda: iter(x())),
    Mistake(TypeError, ("integer", "float32"), lambda: range(x())),
    Mistake(TypeError, ("[sync]", "list"), lambda: pyasc.sync([1, 2])),
    Mistake(TypeError, ("[explain]", "int"), lambda: pyasc.explain(3)),
    Mistake(ValueError, ("'llvm'", "'asm'", "'c'"), lambda: pyasc.explain(x(3) + 1).kernels[0].source("c")),
    Mistake(
        ValueError,
        ("[source]", "matmul"),
        lambda: pyasc.explain(x(3, 3) @ x(3, 3)).kernels[-1].source("llvm"),
    ),
    Mistake(ValueError, ("[to_device]", "'npu'"), lambda: x(3).to_device("npu")),
    Mistake(TypeError, ("[format]", "'.2f'", "(3,)"), lambda: f"{x(3):.2f}"),
    Mistake(ValueError, ("[__array__]", "copy=False"), lambda: np.asarray(x(3), dtype="int32", copy=False)),
    Mistake(NotImplementedError, ("[add.at]", "index_add"), lambda: np.add.at(x(3), [0], 1)),
    Mistake(ValueError, ("out", "both"), lambda: np.divmod(x(3), 2, out=(np.ones(3, "f4"), x(3)))),
]

JIT = [
    Mistake(RuntimeError, ("pyasc.where",), lambda: traced(lambda v: 1 if v.sum() > 0 else 2)),
    Mistake(RuntimeError, ("traced",), lambda: traced(lambda v: float(v[0]))),
    Mistake(RuntimeError, ("traced",), lambda: traced(lambda v: np.asarray(v))),
    Mistake(TypeError, ("[jit]", "set"), lambda: pyasc.jit(lambda v: v)({1, 2})),
    Mistake(TypeError, ("[jit]", "int"), lambda: pyasc.jit(3)),
]

SETTINGS = [
    Mistake(
        AttributeError, ("[config]", "promotion", "'promotions'"), lambda: setting("promotions", "numpy")
    ),
    Mistake(ValueError, ("[config]", "'numpy'", "'julia'"), lambda: setting("promotion", "julia")),
    Mistake(TypeError, ("[config]", "bool", "fast_math", "3"), lambda: setting("fast_math", 3)),
    Mistake(ValueError, ("[config]", "threads", "-1"), lambda: setting("threads", -1)),
]

MISTAKES = [*VALUES, *JIT]


@pytest.mark.parametrize("entry", MISTAKES, ids=label)
def test_mistake(entry: Mistake, mistake: Callable[..., Any]) -> None:
    check(entry, mistake)


@pytest.mark.parametrize("entry", SETTINGS, ids=label)
def test_setting(entry: Mistake, mistake: Callable[..., Any]) -> None:
    """Settings are checked at import too, where there is no line of the user's to name."""
    with mistake(entry.kind, *entry.texts, "expected", "given", line=False):
        entry.call()


def test_settings_of_the_environment(run_python: Callable[..., Any]) -> None:
    for variable, value, text in (
        ("PYASC_THREADS", "many", "a whole number"),
        ("PYASC_PROMOTION", "julia", "'pyasc' or 'numpy'"),
        ("PYASC_FAST_MATH", "perhaps", "1 or 0"),
    ):
        said = run_python("import pyasc", check=False, **{variable: value}).stderr
        assert text in said and variable in said and repr(value) in said


def test_an_error_of_another_process_reads_the_same() -> None:
    where = ("program.py", 3, "y = f(x)")
    span = errors.Span("program.py", 3, "    y = f(x)", 8, 12)
    for error in (
        errors.DeviceError("[exp] expected npu:0 to compute", where),
        errors.AxisError("[sum] expected an axis", where),
        errors.FolderError("[save] expected a folder", where),
        errors.KernelError("[kernel] expected a call", span),
    ):
        error.add_note("in worker 3")
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error) and str(again) == str(error)
        assert (again.line, again.__notes__) == (error.line, ["in worker 3"])
