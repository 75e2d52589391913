"""An operator against its reference, on each backend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import interop
from ...backend.sim import build
from ...ops import dtypes
from ...ops.arguments import as_tensor
from ...ops.errors import ArgumentError, PyascError, ShapeError
from ...target import backend as selected

# Units in the last place that results may be off by, unless the user says otherwise.
_ULP = 8


@dataclass(frozen=True, slots=True)
class Comparison:
    """One output on one backend.

    Attributes
    ----------
    backend, output : str
    error : float
        The largest difference; NaN where there is nothing to compare.
    allowed : float
        What `error` may be at that element.
    index : tuple of int
        Of the element that is furthest beyond what is allowed.
    given, expected : str
        That element.
    note : str
        What went wrong besides values, "" where nothing did.
    """

    backend: str
    output: str
    error: float = float("nan")
    allowed: float = 0.0
    index: tuple[int, ...] = ()
    given: str = ""
    expected: str = ""
    note: str = ""
    agrees: bool = False


@dataclass(frozen=True)
class Report:
    """What `Operator.check` found; true where everything agrees."""

    name: str
    rows: tuple[Comparison, ...]

    def __bool__(self) -> bool:
        return all(row.agrees for row in self.rows)

    def __str__(self) -> str:
        table = [("backend", "output", "largest error", "allowed", "")]
        for r in self.rows:
            verdict = "agrees"
            if r.note:
                verdict = r.note
            elif not r.agrees:
                at = f"[{', '.join(map(str, r.index))}]" if r.index else ""
                verdict = f"differs at {r.output}{at}: {r.given}, expected {r.expected}"
            numbers = ("", "") if r.note else (f"{r.error:.3g}", f"{r.allowed:.3g}")
            table.append((r.backend, r.output, *numbers, verdict))
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in table]
        return "\n".join([f"{self.name}: {'agrees' if self else 'DIFFERS'} with its reference", *lines])

    __repr__ = __str__


def available() -> tuple[str, ...]:
    """The backends that this machine can run."""
    try:
        build.find_compiler()
    except build.CompileError:
        return ("cpu",)
    return ("cpu", "sim")


def compare(
    operator: Any,
    reference: Callable[..., Any],
    values: tuple[Any, ...],
    rtol: float | None,
    atol: float | None,
    backends: Sequence[str] | None,
) -> Report:
    """Run an operator on backends and compare its results with its reference's."""
    tensors = [as_tensor(_array(v)) if interop.source_library(v) is not None else v for v in values]
    with np.errstate(all="ignore"):
        wanted = reference(
            *(np.array(_array(v)) if interop.source_library(v) is not None else v for v in values)
        )
    expected = wanted if isinstance(wanted, tuple | list) else (wanted,)
    names = operator.outputs or ("result",)
    if backends is not None and (isinstance(backends, str) or not backends):
        raise ArgumentError(
            f"[{operator.name}] expected backends as a list of at least one name, given {backends!r}"
        )
    rows: list[Comparison] = []
    for name in available() if backends is None else backends:
        try:
            with selected(name):
                made = operator(*tensors)
                results = [np.asarray(m) for m in (made if isinstance(made, tuple) else (made,))]
        except PyascError as error:
            rows += [Comparison(name, output, note=error.message.partition("\n")[0]) for output in names]
            continue
        if len(results) != len(expected):
            raise ShapeError(
                f"[{operator.name}] expected a reference with {len(results)} results, given {len(expected)}"
            )
        for output, result, right in zip(names, results, expected, strict=True):
            rows.append(_compared(name, output, result, np.asarray(right), rtol, atol))
    return Report(operator.name, tuple(rows))


def _array(x: Any) -> Any:
    if interop.source_library(x) == "torch":
        from ...interop.torch import as_numpy

        return as_numpy(x.cpu())
    return x


def _compared(
    backend: str, output: str, result: Any, right: Any, rtol: float | None, atol: float | None
) -> Comparison:
    if result.shape != right.shape:
        note = f"has shape {result.shape}, expected {right.shape}"
        return Comparison(backend, output, note=note)
    if not result.size:
        return Comparison(backend, output, 0.0, 0.0, agrees=True)
    floating = dtypes.is_float(result.dtype)
    relative = (_ULP * float(dtypes.finfo(result.dtype).eps) if floating else 0.0) if rtol is None else rtol
    # Whole numbers past 2**53 would be rounded.
    wide: Any = np.float64 if floating or right.dtype.kind not in "biu" else object
    a, b = result.astype(wide), right.astype(wide)
    with np.errstate(all="ignore"):
        finite = np.isfinite(b) if wide is not object else np.ones(b.shape, bool)
        magnitude = np.where(finite, np.abs(b), 0)
        absolute = relative * float(magnitude.max()) if atol is None else atol
        same = a == b
        if wide is not object:
            same = same | (np.isnan(a) & np.isnan(b))
        error = np.where(same, 0.0, np.abs(a - b)).astype(np.float64)
        allowed = (absolute + relative * magnitude).astype(np.float64)
    error = np.where(np.isnan(error), np.inf, error)
    beyond = error - allowed
    at = np.unravel_index(int(np.argmax(beyond)), error.shape)
    index = tuple(int(k) for k in at)
    return Comparison(
        backend,
        output,
        float(error[at]),
        float(allowed[at]),
        index,
        f"{result[at]}",
        f"{right[at]}",
        agrees=bool(beyond[at] <= 0),
    )
