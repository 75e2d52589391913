"""Messages of choosing a backend, of generated Ascend C, of costing and exporting."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mistakes import Mistake, check, label, x

import pyasc
from pyasc.backend.ascend import chip
from pyasc.backend.ascend.alloc import Request, place
from pyasc.backend.ascend.cube_problem import Contraction
from pyasc.backend.ascend.tiling import Space, Stream, VectorProblem, auto_tiling


def traced(function: Callable[[Any], Any]) -> Any:
    return pyasc.jit(function)(x(3))


def on_another_backend(value: Any) -> Any:
    with pyasc.backend("sim"):
        return value + 1


def float64(*shape: int) -> Any:
    return x(*shape, dtype="float64")


def rows(lanes: int) -> VectorProblem:
    return VectorProblem(10, lanes, streams=(Stream(4),), space=Space(4), whole_lanes=True)


BACKENDS = [
    Mistake(
        ValueError, ("[backend]", "'cpu'", "'sim'", "'sim:910B3'", "'npu'"), lambda: pyasc.backend("npu")
    ),
    Mistake(ValueError, ("[backend]", "'sim:910B3'", "'sim:410'"), lambda: pyasc.backend("sim:410")),
    Mistake(ValueError, ("[backend]", "'gpu'"), lambda: pyasc.explain(x(3) + 1, backend="gpu")),
    Mistake(RuntimeError, ("[backend]", "traced", "'sim:910B1'"), lambda: traced(on_another_backend)),
    Mistake(ValueError, ("[chip]", "910B1", "'410'"), lambda: chip.load("410")),
]

SOURCES = [
    Mistake(
        NotImplementedError,
        ("[source]", "910B1", "float64", "given"),
        lambda: pyasc.explain(float64(3) + 1).kernels[0].source("ascendc"),
    ),
    Mistake(
        NotImplementedError, ("[tiling]", "float64"), lambda: pyasc.explain(float64(3) + 1).kernels[0].tiling
    ),
    Mistake(ValueError, ("[cost]", "matmul"), lambda: pyasc.explain(x(3, 3) @ x(3, 3)).kernels[-1].cost),
    Mistake(TypeError, ("[cost]", "function", "int"), lambda: pyasc.cost(3)),
]

TILES = [
    Mistake(
        RuntimeError, ("[tile]", "100 bytes of UB", "128", "a 64, b 64"),
        lambda: place([Request("a", 64, 0, 1), Request("b", 64, 1, 2)], 100),
    ),
    Mistake(
        RuntimeError, ("[tile]", "194,560 bytes of UB", "a row of 120000 lanes"),
        lambda: auto_tiling(rows(100_000), chip.load("910B1")),
    ),
    Mistake(
        RuntimeError, ("[tile]", "1200 lanes", "1300"),
        lambda: auto_tiling(rows(1000), chip.load("910B1")).partition(1, 1300),
    ),
]  # fmt: skip


def export(function: Any, *examples: Any, **options: Any) -> Any:
    return pyasc.export(function, *examples, folder=tempfile.mkdtemp(), **options)


def export_into(folder: Any, **options: Any) -> Any:
    with contextlib.chdir(tempfile.mkdtemp()):  # where a relative folder does no harm
        return pyasc.export(lambda v: v + 1, x(3), folder=folder, name="add_one", **options)


def taken(v: Any, index: Any, folder: str) -> Any:
    return pyasc.export(lambda v, i: v[i], v, index, folder=folder, name="taken")


def foreign() -> Path:
    """A folder with a user's own Makefile, which is there after the mistake too."""
    folder = Path(tempfile.mkdtemp())
    (folder / "Makefile").write_text("all:\n")
    return folder


EXPORTS = [
    Mistake(
        ValueError, ("[export]", "earlier export", "Makefile of its own"), lambda: export_into(foreign())
    ),
    Mistake(OSError, ("[export]", "written", "Not a directory"), lambda: export_into(__file__)),
    Mistake(OSError, ("[export]", "written", "/proc/kernels"), lambda: export_into("/proc/kernels")),
    Mistake(TypeError, ("[export]", "path", "given ''"), lambda: export_into("")),
    Mistake(
        ValueError,
        ("[export]", "chips '910B1'", "'910Z'"),
        lambda: export_into(tempfile.mkdtemp(), chip="910Z"),
    ),
    Mistake(
        ValueError,
        ("[cost]", "chips '910B1'", "'sim'"),
        lambda: pyasc.cost(lambda v: v + 1, x(3), chip="sim"),
    ),
    Mistake(
        IndexError,
        ("[getitem]", "inside their axis", "index 99", "size 3"),
        lambda: taken(np.ones(3, "float32"), np.array([1, 99]), tempfile.mkdtemp()),
    ),
    Mistake(TypeError, ("[export]", "function", "int"), lambda: export(3)),
    Mistake(ValueError, ("[export]", "letters", "'my kernel'"), lambda: export(abs, x(3), name="my kernel")),
    Mistake(
        NotImplementedError,
        ("[export]", "910B1", "sort", "runs on the host"),
        lambda: export(pyasc.sort, x(3)),
    ),
    Mistake(NotImplementedError, ("[export]", "computes"), lambda: export(lambda v: v, x(3), name="same")),
]


def timeline() -> Any:
    return pyasc.explain(x(300) + 1, backend="sim").kernels[0].cost.timeline


TIMELINES = [
    Mistake(ValueError, ("[timeline]", "(3.0, 1.0)"), lambda: timeline().svg(window=(3.0, 1.0))),
    Mistake(ValueError, ("[timeline]", "0 to", "(5000, 6000)"), lambda: timeline().svg(window=(5000, 6000))),
    Mistake(ValueError, ("[timeline]", ".svg", "'run.png'"), lambda: timeline().save("run.png")),
    Mistake(
        OSError, ("[timeline]", "written", "'/proc/no/x.svg'"), lambda: timeline().save("/proc/no/x.svg")
    ),
    Mistake(ValueError, ("[timeline]", "99"), lambda: timeline().svg(cores=[99])),
    Mistake(
        ValueError, ("[cost]", "910B1", "910B4"), lambda: pyasc.cost(lambda v: v + 1, x(300), chip="910B4")
    ),
]


def product(**changes: Any) -> Any:
    return Contraction(**{"m": 16, "n": 16, "k": 16} | changes)


PRODUCTS = [
    Mistake(ValueError, ("[matmul]", "m 0"), lambda: product(m=0)),
    Mistake(ValueError, ("[matmul]", "float64"), lambda: product(dtype="float64")),
    Mistake(ValueError, ("[matmul]", "float32", "int8"), lambda: product(out="int8")),
    Mistake(ValueError, ("[matmul]", "bias", "int8"), lambda: product(bias="int8")),
    Mistake(
        ValueError,
        ("[matmul]", "int32 bias", "float32"),
        lambda: product(dtype="int8", out="int32", bias="float32"),
    ),
]

MISTAKES = [*TILES, *BACKENDS, *SOURCES, *EXPORTS, *TIMELINES, *PRODUCTS]


@pytest.mark.parametrize("entry", [pytest.param(e, id=label(e)) for e in MISTAKES])
def test_message(entry: Mistake, mistake: Callable[..., Any]) -> None:
    check(entry, mistake)
