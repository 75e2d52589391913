"""NumPy: what every workload means."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from workloads import (
    BLEND,
    DIFFUSION,
    EPSILON,
    GAUSS,
    GREY,
    HEAT_STEPS,
    MANDELBROT_STEPS,
    RATE,
    THRESHOLD,
    VOLATILITY,
    Arrays,
)

try:
    from scipy.special import erf  # NumPy has none
except ImportError:
    erf = None

Array = NDArray[Any]


def load(arrays: Arrays) -> Arrays:
    return arrays


def finish(result: Array) -> None:
    pass


def to_numpy(result: Array) -> Array:
    return result


def fma(a: Array, b: Array, c: Array) -> Array:
    return a * b + c


def gelu(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


if erf is not None:

    def black_scholes(spot: Array, strike: Array, years: Array) -> Array:
        deviation = VOLATILITY * np.sqrt(years)
        d1 = (np.log(spot / strike) + (RATE + VOLATILITY**2 / 2) * years) / deviation
        d2 = d1 - deviation
        n1 = 0.5 + 0.5 * erf(d1 * 0.70710678)
        n2 = 0.5 + 0.5 * erf(d2 * 0.70710678)
        return spot * n1 - strike * np.exp(-RATE * years) * n2


def sum_exp(a: Array, b: Array, c: Array) -> Array:
    return np.exp(a * b + c).sum()


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def layer_norm(x: Array, w: Array, b: Array) -> Array:
    d = x - x.mean(1, keepdims=True)
    return d / np.sqrt((d * d).mean(1, keepdims=True) + EPSILON) * w + b


def gradient(p: Array) -> tuple[Array, Array]:
    """Sobel's two derivatives at every pixel but the border's."""
    gx = p[:-2, 2:] - p[:-2, :-2] + 2 * (p[1:-1, 2:] - p[1:-1, :-2]) + p[2:, 2:] - p[2:, :-2]
    gy = p[2:, :-2] - p[:-2, :-2] + 2 * (p[2:, 1:-1] - p[:-2, 1:-1]) + p[2:, 2:] - p[:-2, 2:]
    return gx, gy


def sobel(p: Array) -> Array:
    gx, gy = gradient(p)
    return np.minimum(np.sqrt(gx * gx + gy * gy), 255)


def sobel_photo(rgb: Array) -> Array:
    r, g, b = (rgb[..., channel].astype(np.int32) for channel in range(3))
    grey = (GREY[0] * r + GREY[1] * g + GREY[2] * b + 2**14) >> 15
    gx, gy = gradient(grey)
    squares = (gx * gx + gy * gy).astype(np.float32)
    return np.minimum(np.sqrt(squares), 255).astype(np.uint8)


def blur(p: Array) -> Array:
    a, b, c = GAUSS[:3]
    rows = a * (p[:-4] + p[4:]) + b * (p[1:-3] + p[3:-1]) + c * p[2:-2]
    return a * (rows[:, :-4] + rows[:, 4:]) + b * (rows[:, 1:-3] + rows[:, 3:-1]) + c * rows[:, 2:-2]


def add_transpose(a: Array, b: Array) -> Array:
    return a + b.T


def standardise(x: Array) -> Array:
    return (x - x.mean(0)) / x.std(0)


def threshold(p: Array) -> Array:
    return np.where(p > THRESHOLD, np.uint8(255), np.uint8(0))


def blend(p: Array, q: Array) -> Array:
    mixed = p.astype(np.uint16) * BLEND[0] + q.astype(np.uint16) * BLEND[1] + 128
    return (mixed >> 8).astype(np.uint8)


def mandelbrot(re: Array, im: Array) -> Array:
    shape = np.broadcast_shapes(re.shape, im.shape)
    x, y, count = np.zeros(shape, np.float32), np.zeros(shape, np.float32), np.zeros(shape, np.int32)
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(MANDELBROT_STEPS):
            xx, yy, xy = x * x, y * y, x * y
            count += xx + yy <= 4
            x, y = xx - yy + re, 2 * xy + im
    return count


def distances(x: Array, y: Array) -> Array:
    return (x * x).sum(1)[:, None] + (y * y).sum(1) - 2 * (x @ y.T)


def dense(x: Array, w: Array, b: Array) -> Array:
    return np.maximum(x @ w + b, 0)


def heat(u: Array) -> Array:
    u = u.copy()
    for _ in range(HEAT_STEPS):
        around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
        u[1:-1, 1:-1] += DIFFUSION * (around - 4 * u[1:-1, 1:-1])
    return u
