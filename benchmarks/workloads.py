"""The workloads: their inputs, how much memory they must move, and how closely results must agree.

What a workload computes is said by the NumPy version in ``peers/numpy.py``; every other library does the
same job.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Workload:
    """One row of the table.

    Attributes
    ----------
    name, title : str
    make : callable
        ``make(generator, quick)`` returns the inputs by name.
    nbytes : callable
        From the inputs, the bytes that must cross memory at least once: the GB/s are reckoned with them.
    rtol, atol : float
        Agreement with NumPy's result; both 0 where the results are integers.
    mismatches : float
        The share of elements that may differ: a chaotic iteration turns one rounding into another count.
    bound : str
        ``"memory"``, ``"compute"`` or ``"BLAS"``: what limits the hand-written C++.
    """

    name: str
    title: str
    make: Callable[[np.random.Generator, bool], Arrays]
    nbytes: Callable[[Arrays], int]
    rtol: float = 0.0
    atol: float = 0.0
    mismatches: float = 0.0
    bound: str = "memory"


class Missing(Exception):
    """An input that this machine does not have; the row is left out with this message."""


def _normal(*names: str) -> Callable[[np.random.Generator, bool], Arrays]:
    def make(rng: np.random.Generator, quick: bool) -> Arrays:
        size = 2**16 if quick else 2**24
        return {name: rng.standard_normal(size, np.float32) for name in names}

    return make


def _square(*names: str, rows: tuple[str, ...] = ()) -> Callable[[np.random.Generator, bool], Arrays]:
    def make(rng: np.random.Generator, quick: bool) -> Arrays:
        size = 256 if quick else 4096
        squares = {name: rng.standard_normal((size, size), np.float32) for name in names}
        return squares | {name: rng.standard_normal(size, np.float32) for name in rows}

    return make


def _bytes_image(*names: str) -> Callable[[np.random.Generator, bool], Arrays]:
    def make(rng: np.random.Generator, quick: bool) -> Arrays:
        size = 256 if quick else 4096
        return {name: rng.integers(0, 256, (size, size), np.uint8) for name in names}

    return make


def _uniform(rng: np.random.Generator, low: float, high: float, size: int) -> NDArray[Any]:
    return rng.uniform(low, high, size).astype(np.float32)


def _options(rng: np.random.Generator, quick: bool) -> Arrays:
    size = 2**16 if quick else 2**24
    return {
        "spot": _uniform(rng, 10, 50, size),
        "strike": _uniform(rng, 10, 50, size),
        "years": _uniform(rng, 0.1, 2, size),
    }


def _exponents(rng: np.random.Generator, quick: bool) -> Arrays:
    size = 2**16 if quick else 2**24
    return {name: _uniform(rng, -1, 1, size) for name in "abc"}


def _picture(rng: np.random.Generator, quick: bool) -> Arrays:
    size = 256 if quick else 4096
    return {"p": _uniform(rng, 0, 255, size * size).reshape(size, size)}


def _photograph(rng: np.random.Generator, quick: bool) -> Arrays:
    try:
        from skimage import data
    except ImportError:
        raise Missing("the photograph comes with scikit-image, which is not installed") from None
    photo = data.astronaut()  # 512 × 512 RGB, ships in the wheel
    return {
        "rgb": np.ascontiguousarray(photo if quick else np.tile(photo, (6, 8, 1)))
    }  # 3072 × 4096: 12.6 MP


def _complex_plane(rng: np.random.Generator, quick: bool) -> Arrays:
    size = 128 if quick else 2048
    re = np.linspace(-2, 0.5, size, dtype=np.float32)[None, :]
    im = np.linspace(-1.25, 1.25, size, dtype=np.float32)[:, None]
    return {"re": re, "im": im}


def _points(rng: np.random.Generator, quick: bool) -> Arrays:
    size = 128 if quick else 2048
    return {name: rng.standard_normal((size, 64), np.float32) for name in "xy"}


def _layer(rng: np.random.Generator, quick: bool) -> Arrays:
    size = 128 if quick else 2048
    return {
        "x": rng.standard_normal((size, size), np.float32),
        "w": rng.standard_normal((size, size), np.float32),
        "b": rng.standard_normal(size, np.float32),
    }


def _plate(rng: np.random.Generator, quick: bool) -> Arrays:
    size = 128 if quick else 1024
    u = np.zeros((size, size), np.float32)
    u[0] = 1
    u[size // 4 : size // 2, size // 4 : size // 2] = rng.random((size // 2 - size // 4,) * 2, np.float32)
    return {"u": u}


def _times(factor: float) -> Callable[[Arrays], int]:
    """All inputs are read and `factor` times the bytes of the first are written."""

    def nbytes(arrays: Arrays) -> int:
        first = next(iter(arrays.values()))
        return sum(a.nbytes for a in arrays.values()) + int(first.nbytes * factor)

    return nbytes


def _plane(arrays: Arrays) -> int:
    return arrays["re"].size * arrays["im"].size * 4


def _distances(arrays: Arrays) -> int:
    return arrays["x"].nbytes + arrays["y"].nbytes + len(arrays["x"]) * len(arrays["y"]) * 4


def _steps(arrays: Arrays) -> int:
    return arrays["u"].nbytes * 2 * HEAT_STEPS


RATE, VOLATILITY = 0.03, 0.25  # Black–Scholes: interest per year, deviation per square root of a year
EPSILON = 1e-5  # layer norm
GREY = (9798, 19235, 3735)  # weights of R, G and B in 1/2**15: ITU-R BT.601, as OpenCV rounds them
GAUSS = (0.05448868, 0.24420134, 0.40261996, 0.24420134, 0.05448868)  # 5 taps, sigma 1
THRESHOLD = 127
BLEND = (154, 102)  # parts of 256
MANDELBROT_STEPS = 50
HEAT_STEPS = 200
DIFFUSION = 0.1

WORKLOADS = {
    w.name: w
    for w in (
        Workload("fma", "a*b + c, 16.7 M", _normal("a", "b", "c"), _times(1), 1e-6, 1e-6),
        Workload("gelu", "GELU (tanh), 16.7 M", _normal("x"), _times(1), 1e-5, 2e-6, bound="compute"),
        Workload(
            "black_scholes", "Black–Scholes call, 16.7 M", _options, _times(1), 1e-4, 1e-4, bound="compute"
        ),
        Workload("sum_exp", "sum(exp(a*b + c)), 16.7 M", _exponents, _times(0), 1e-5, bound="compute"),
        Workload("softmax", "softmax, 4096 rows", _square("x"), _times(1), 2e-5, 1e-9),
        Workload("layer_norm", "layer norm, 4096 rows", _square("x", rows=("w", "b")), _times(1), 1e-4, 1e-5),
        Workload("sobel", "Sobel, 4096² float32", _picture, _times(1), 1e-5, 1e-3),
        Workload("sobel_photo", "Sobel, RGB photograph", _photograph, _times(1 / 3)),
        Workload("blur", "5×5 Gaussian, 4096²", _picture, _times(1), 1e-5, 1e-4),
        Workload("add_transpose", "a + b.T, 4096²", _square("a", "b"), _times(1)),
        Workload("standardise", "standardise columns, 4096²", _square("x"), _times(1), 1e-4, 1e-5),
        Workload("threshold", "threshold, 4096² uint8", _bytes_image("p"), _times(1)),
        Workload("blend", "blend, 4096² uint8", _bytes_image("p", "q"), _times(1)),
        Workload(
            "mandelbrot",
            "Mandelbrot, 50 steps, 2048²",
            _complex_plane,
            _plane,
            mismatches=2e-3,
            bound="compute",
        ),
        Workload(
            "distances", "squared distances, 2048²×64", _points, _distances, 1e-4, 1e-4, bound="compute"
        ),
        Workload("dense", "relu(x @ w + b), 2048³", _layer, _times(1), 1e-3, 2e-3, bound="BLAS"),
        Workload("heat", "heat, 200 steps, 1024²", _plate, _steps, 1e-4, 1e-5, bound="compute"),
    )
}
