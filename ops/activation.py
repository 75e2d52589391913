"""Functions of neural networks with arguments of their own; `relu`, `sigmoid` and `silu` are in `ufuncs`.

float16 and bfloat16 are computed in float32 and rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from . import dtypes
from . import primitives as p
from .arguments import Axes, Tensor, as_axes, as_tensor, cast
from .dtypes import is_narrow
from .elementwise import binary, unary
from .errors import ArgumentError
from .reduction import reduced
from .registry import case, operation


def _wide(function: Callable[..., Any], x: Any, *arguments: Any) -> Any:
    """A function of a float tensor, computed in float32 for float16 and bfloat16."""
    if is_narrow(x.dtype):
        return cast(function(cast(x, dtypes.float32), *arguments), x.dtype)
    return function(x, *arguments)


def _gelu_reference(x: Any, approximate: str = "none") -> Any:
    from scipy import special

    x = np.asarray(x)
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return x * special.ndtr(x)


@operation(
    reference=_gelu_reference,
    cases=(case((3, 5)), case((3, 5), approximate="tanh")),
    dtypes="fV",
    ulp=8,
    slack=8,
)
def gelu(x: Any, /, approximate: str = "none") -> Tensor:
    """The Gaussian error linear unit: x times the standard normal distribution function of x.

    Parameters
    ----------
    x : tensor or array-like
    approximate : {"none", "tanh"}
        ``"tanh"`` is ``0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x**3)))``.

    Returns
    -------
    tensor of x's shape
        Of x's dtype; of the default float's where that is no float.

    Raises
    ------
    ArgumentError
        For another `approximate`.

    Notes
    -----
    D. Hendrycks, K. Gimpel, "Gaussian Error Linear Units", 2016.
    """
    if approximate not in ("none", "tanh"):
        raise ArgumentError(f"[gelu] expected approximate 'none' or 'tanh', given {approximate!r}")
    x = as_tensor(x, "gelu")
    return _wide(_gelu_tanh if approximate == "tanh" else _gelu, cast(x, dtypes.floating(x.dtype)))


def _gelu(x: Any) -> Any:
    spread = unary(p.ERF, binary(p.MUL, x, math.sqrt(0.5)), x.dtype)
    return binary(p.MUL, binary(p.MUL, x, 0.5), binary(p.ADD, spread, 1.0))


def _gelu_tanh(x: Any) -> Any:
    cube = binary(p.MUL, binary(p.MUL, x, x), x)
    inner = binary(p.MUL, binary(p.ADD, binary(p.MUL, cube, 0.044715), x), math.sqrt(2 / math.pi))
    return binary(p.MUL, binary(p.MUL, x, 0.5), binary(p.ADD, unary(p.TANH, inner, x.dtype), 1.0))


def _softmax_reference(x: Any, axis: Axes = -1) -> Any:
    from scipy import special

    return special.softmax(x, axis)


def _log_softmax_reference(x: Any, axis: Axes = -1) -> Any:
    from scipy import special

    return special.log_softmax(x, axis)


_AXES = (case((3, 5)), case((3, 5), axis=0), case((2, 3, 4), axis=(0, 2)))


@operation(reference=_softmax_reference, cases=_AXES, dtypes="fV", ulp=8, slack=4)
def softmax(x: Any, /, axis: Axes = -1) -> Tensor:
    """exp(x) divided by its sum over axes, without overflow.

    Parameters
    ----------
    x : tensor or array-like
    axis : int, tuple of int or None
        The axes over which the result sums to 1; None takes all of them.
    """
    x = as_tensor(x, "softmax")
    return _wide(_softmax, cast(x, dtypes.floating(x.dtype)), as_axes(axis, x.ndim, "softmax"))


def _softmax(x: Any, axes: tuple[int, ...]) -> Any:
    power = unary(p.EXP, _below_largest(x, axes), x.dtype)
    return binary(p.DIV, power, reduced(power, "add", axes, True))


@operation(reference=_log_softmax_reference, cases=_AXES, dtypes="fV", ulp=8, slack=8)
def log_softmax(x: Any, /, axis: Axes = -1) -> Tensor:
    """The logarithm of `softmax`, precise where that is near 0; parameters as for `softmax`."""
    x = as_tensor(x, "log_softmax")
    return _wide(_log_softmax, cast(x, dtypes.floating(x.dtype)), as_axes(axis, x.ndim, "log_softmax"))


def _log_softmax(x: Any, axes: tuple[int, ...]) -> Any:
    lower = _below_largest(x, axes)
    total = reduced(unary(p.EXP, lower, x.dtype), "add", axes, True)
    return binary(p.SUB, lower, unary(p.LOG, total, x.dtype))


def _below_largest(x: Any, axes: tuple[int, ...]) -> Any:
    """x minus its largest value over axes; an empty tensor has none."""
    return binary(p.SUB, x, reduced(x, "max", axes, True)) if x.size else x
