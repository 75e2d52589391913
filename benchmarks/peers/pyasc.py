"""pyasc: plain array code, run lazily (recorded anew in each call) and under `pyasc.jit`."""

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

import pyasc as pa
from pyasc import Tensor


def load(arrays: Arrays) -> dict[str, Tensor]:
    return {n: pa.asarray(a) for n, a in arrays.items()}


def finish(result: Tensor) -> None:
    pa.sync(result)


def to_numpy(result: Tensor) -> NDArray[Any]:
    return result.numpy()


WAYS = {"lazy": lambda function: function, "jit": pa.jit}


def fma(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    return a * b + c


def gelu(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + pa.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def black_scholes(spot: Tensor, strike: Tensor, years: Tensor) -> Tensor:
    deviation = VOLATILITY * pa.sqrt(years)
    d1 = (pa.log(spot / strike) + (RATE + VOLATILITY**2 / 2) * years) / deviation
    d2 = d1 - deviation
    n1 = 0.5 + 0.5 * pa.erf(d1 * 0.70710678)
    n2 = 0.5 + 0.5 * pa.erf(d2 * 0.70710678)
    return spot * n1 - strike * pa.exp(-RATE * years) * n2


def sum_exp(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    return pa.exp(a * b + c).sum()


def softmax(x: Tensor) -> Tensor:
    e = pa.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def layer_norm(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    d = x - x.mean(1, keepdims=True)
    return d / pa.sqrt((d * d).mean(1, keepdims=True) + EPSILON) * w + b


def gradient(p: Tensor) -> tuple[Tensor, Tensor]:
    gx = p[:-2, 2:] - p[:-2, :-2] + 2 * (p[1:-1, 2:] - p[1:-1, :-2]) + p[2:, 2:] - p[2:, :-2]
    gy = p[2:, :-2] - p[:-2, :-2] + 2 * (p[2:, 1:-1] - p[:-2, 1:-1]) + p[2:, 2:] - p[:-2, 2:]
    return gx, gy


def sobel(p: Tensor) -> Tensor:
    gx, gy = gradient(p)
    return pa.minimum(pa.sqrt(gx * gx + gy * gy), 255)


def sobel_photo(rgb: Tensor) -> Tensor:
    r, g, b = (rgb[..., channel].astype(pa.int32) for channel in range(3))
    grey = (GREY[0] * r + GREY[1] * g + GREY[2] * b + 2**14) >> 15
    gx, gy = gradient(grey)
    squares = (gx * gx + gy * gy).astype(pa.float32)
    return pa.minimum(pa.sqrt(squares), 255).astype(pa.uint8)


def blur_via_separable(p: Tensor) -> Tensor:
    a, b, c = GAUSS[:3]
    rows = a * (p[:-4] + p[4:]) + b * (p[1:-3] + p[3:-1]) + c * p[2:-2]
    return a * (rows[:, :-4] + rows[:, 4:]) + b * (rows[:, 1:-3] + rows[:, 3:-1]) + c * rows[:, 2:-2]


def blur_via_taps(p: Tensor) -> Tensor:
    h, w = p.shape
    rows = [sum(GAUSS[j] * p[i : h - 4 + i, j : w - 4 + j] for j in range(5)) for i in range(5)]
    return sum(tap * row for tap, row in zip(GAUSS, rows, strict=True))


def add_transpose(a: Tensor, b: Tensor) -> Tensor:
    return a + b.T


def standardise(x: Tensor) -> Tensor:
    return (x - x.mean(0)) / x.std(0)


def threshold(p: Tensor) -> Tensor:
    return pa.where(p > THRESHOLD, np.uint8(255), np.uint8(0))


def blend(p: Tensor, q: Tensor) -> Tensor:
    mixed = p.astype(pa.uint16) * BLEND[0] + q.astype(pa.uint16) * BLEND[1] + 128
    return (mixed >> 8).astype(pa.uint8)


def mandelbrot(re: Tensor, im: Tensor) -> Tensor:
    shape = np.broadcast_shapes(re.shape, im.shape)
    x, y, count = pa.zeros(shape), pa.zeros(shape), pa.zeros(shape, dtype=pa.int32)
    for _ in range(MANDELBROT_STEPS):
        xx, yy, xy = x * x, y * y, x * y
        count = count + (xx + yy <= 4)
        x, y = xx - yy + re, 2 * xy + im
    return count


def distances_via_product(x: Tensor, y: Tensor) -> Tensor:
    return (x * x).sum(1)[:, None] + (y * y).sum(1) - 2 * (x @ y.T)


def distances_via_difference(x: Tensor, y: Tensor) -> Tensor:
    return ((x[:, None] - y) ** 2).sum(2)


def dense(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return pa.maximum(x @ w + b, 0)


def heat(u: Tensor) -> Tensor:
    u = u.copy()
    for _ in range(HEAT_STEPS):
        around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
        u[1:-1, 1:-1] += DIFFUSION * (around - 4 * u[1:-1, 1:-1])
    return u
