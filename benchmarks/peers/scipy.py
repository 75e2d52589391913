"""SciPy, where it has a function for the job."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage, special, stats
from scipy.linalg import blas
from scipy.spatial import distance
from workloads import DIFFUSION, GAUSS, GREY, HEAT_STEPS, RATE, VOLATILITY, Arrays

Array = NDArray[Any]
INNER = (slice(1, -1), slice(1, -1))


def load(arrays: Arrays) -> Arrays:
    return arrays


def finish(result: Array) -> None:
    pass


def to_numpy(result: Array) -> Array:
    return result


def black_scholes(spot: Array, strike: Array, years: Array) -> Array:
    deviation = VOLATILITY * np.sqrt(years)
    d1 = (np.log(spot / strike) + (RATE + VOLATILITY**2 / 2) * years) / deviation
    return spot * special.ndtr(d1) - strike * np.exp(-RATE * years) * special.ndtr(d1 - deviation)


def softmax(x: Array) -> Array:
    return special.softmax(x, axis=1)


def sobel(p: Array) -> Array:
    gx, gy = ndimage.sobel(p, 1), ndimage.sobel(p, 0)
    return np.minimum(np.sqrt(gx * gx + gy * gy), 255)[INNER]


def sobel_photo(rgb: Array) -> Array:
    grey = (rgb.astype(np.int32) @ np.int32(GREY) + 2**14) >> 15
    gx, gy = ndimage.sobel(grey, 1), ndimage.sobel(grey, 0)
    squares = (gx * gx + gy * gy).astype(np.float32)
    return np.minimum(np.sqrt(squares), 255).astype(np.uint8)[INNER]


def blur(p: Array) -> Array:
    return ndimage.correlate1d(ndimage.correlate1d(p, GAUSS, 0), GAUSS, 1)[2:-2, 2:-2]


def standardise(x: Array) -> Array:
    return stats.zscore(x, axis=0)


def distances(x: Array, y: Array) -> Array:
    return distance.cdist(x, y, "sqeuclidean")


def dense(x: Array, w: Array, b: Array) -> Array:
    return np.maximum(blas.sgemm(1, w.T, x.T).T + b, 0)


def heat(u: Array) -> Array:
    u = u.copy()
    for _ in range(HEAT_STEPS):
        u[INNER] += DIFFUSION * ndimage.laplace(u)[INNER]
    return u
