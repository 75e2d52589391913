"""Array programs that the figures of generated kernels are measured on, as their users write them."""

from __future__ import annotations

from collections.abc import Callable
from math import pi, sqrt
from typing import Any

import pyasc
from pyasc import Tensor

Program = Callable[..., Any]


def fma(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    return a * b + c


def gelu(x: Tensor) -> Tensor:
    return 0.5 * x * (1.0 + pyasc.tanh(sqrt(2 / pi) * (x + 0.044715 * x * x * x)))


def swiglu(x: Tensor, gate: Tensor) -> Tensor:
    return x * gate / (1.0 + pyasc.exp(-gate))


def softmax(x: Tensor) -> Tensor:
    e = pyasc.exp(x - pyasc.max(x, axis=-1, keepdims=True))
    return e / pyasc.sum(e, axis=-1, keepdims=True)


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    centred = x - pyasc.mean(x, axis=-1, keepdims=True)
    variance = pyasc.mean(centred * centred, axis=-1, keepdims=True)
    return centred / pyasc.sqrt(variance + 1e-5) * weight + bias


def rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    return x / pyasc.sqrt(pyasc.mean(x * x, axis=-1, keepdims=True) + 1e-6) * weight


def adam(w: Tensor, g: Tensor, m: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    m = 0.9 * m + 0.1 * g
    v = 0.999 * v + 0.001 * g * g
    return w - 0.001 * m / (pyasc.sqrt(v) + 1e-8), m, v


def black_scholes(price: Tensor, strike: Tensor, years: Tensor) -> tuple[Tensor, Tensor]:
    rate, volatility = 0.02, 0.3
    spread = volatility * pyasc.sqrt(years)
    d1 = (pyasc.log(price / strike) + (rate + volatility**2 / 2) * years) / spread
    d2 = d1 - spread
    discounted = strike * pyasc.exp(-rate * years)

    def normal(x: Tensor) -> Tensor:
        return 0.5 * (1.0 + pyasc.erf(x / sqrt(2)))

    call = price * normal(d1) - discounted * normal(d2)
    return call, call - price + discounted


def mandelbrot(cr: Tensor, ci: Tensor) -> Tensor:
    zr, zi = cr * 0.0, ci * 0.0
    count = cr * 0.0
    for _ in range(4):
        zr, zi = zr * zr - zi * zi + cr, 2.0 * zr * zi + ci
        count = count + pyasc.where(zr * zr + zi * zi < 4.0, 1.0, 0.0)
    return count


def blend(a: Tensor, b: Tensor, alpha: Tensor) -> Tensor:
    return pyasc.clip(a * alpha + b * (1.0 - alpha), 0.0, 255.0)


def huber(x: Tensor, y: Tensor) -> Tensor:
    error = pyasc.abs(x - y)
    return pyasc.mean(pyasc.where(error < 1.0, 0.5 * error * error, error - 0.5))


def standardise(x: Tensor) -> Tensor:
    return (x - pyasc.mean(x, axis=0)) / pyasc.std(x, axis=0)


def sobel(p: Tensor) -> Tensor:
    gx = p[:-2, 2:] - p[:-2, :-2] + 2.0 * (p[1:-1, 2:] - p[1:-1, :-2]) + p[2:, 2:] - p[2:, :-2]
    gy = p[2:, :-2] - p[:-2, :-2] + 2.0 * (p[2:, 1:-1] - p[:-2, 1:-1]) + p[2:, 2:] - p[:-2, 2:]
    return pyasc.sqrt(gx * gx + gy * gy)


def squared_distances(a: Tensor, b: Tensor) -> Tensor:
    return (a[:, None] - b[None, :]) ** 2


# Each program with the shapes of its arguments.
FUSED: dict[str, tuple[Program, tuple[tuple[int, ...], ...]]] = {
    "fma": (fma, ((4096, 4096),) * 3),
    "gelu": (gelu, ((4096, 4096),)),
    "swiglu": (swiglu, ((4096, 4096),) * 2),
    "softmax": (softmax, ((8192, 1024),)),
    "layer_norm": (layer_norm, ((8192, 1024), (1024,), (1024,))),
    "rms_norm": (rms_norm, ((8192, 1024), (1024,))),
    "adam": (adam, ((1 << 22,),) * 4),
    "black_scholes": (black_scholes, ((1 << 22,),) * 3),
    "mandelbrot": (mandelbrot, ((2048, 2048),) * 2),
    "blend": (blend, ((2048, 2048),) * 3),
    "huber": (huber, ((1 << 22,),) * 2),
    "standardise": (standardise, ((65536, 64),)),
    "sobel": (sobel, ((2050, 2050),)),
    "squared_distances": (squared_distances, ((4096,), (4096,))),
}
