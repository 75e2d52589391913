"""JAX: each function jitted."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
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


def load(arrays: Arrays) -> dict[str, Array]:
    return {n: jnp.asarray(a) for n, a in arrays.items()}


def finish(result: Array) -> None:
    result.block_until_ready()


def to_numpy(result: Array) -> NDArray[Any]:
    return np.asarray(result)


@jax.jit
def fma(a: Array, b: Array, c: Array) -> Array:
    return a * b + c


@jax.jit
def gelu(x: Array) -> Array:
    return 0.5 * x * (1 + jnp.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


@jax.jit
def black_scholes(spot: Array, strike: Array, years: Array) -> Array:
    deviation = VOLATILITY * jnp.sqrt(years)
    d1 = (jnp.log(spot / strike) + (RATE + VOLATILITY**2 / 2) * years) / deviation
    d2 = d1 - deviation
    n1 = 0.5 + 0.5 * jax.scipy.special.erf(d1 * 0.70710678)
    n2 = 0.5 + 0.5 * jax.scipy.special.erf(d2 * 0.70710678)
    return spot * n1 - strike * jnp.exp(-RATE * years) * n2


@jax.jit
def sum_exp(a: Array, b: Array, c: Array) -> Array:
    return jnp.exp(a * b + c).sum()


@jax.jit
def softmax(x: Array) -> Array:
    return jax.nn.softmax(x, 1)


@jax.jit
def layer_norm(x: Array, w: Array, b: Array) -> Array:
    d = x - x.mean(1, keepdims=True)
    return d * jax.lax.rsqrt((d * d).mean(1, keepdims=True) + EPSILON) * w + b


def gradient(p: Array) -> tuple[Array, Array]:
    gx = p[:-2, 2:] - p[:-2, :-2] + 2 * (p[1:-1, 2:] - p[1:-1, :-2]) + p[2:, 2:] - p[2:, :-2]
    gy = p[2:, :-2] - p[:-2, :-2] + 2 * (p[2:, 1:-1] - p[:-2, 1:-1]) + p[2:, 2:] - p[:-2, 2:]
    return gx, gy


@jax.jit
def sobel(p: Array) -> Array:
    gx, gy = gradient(p)
    return jnp.minimum(jnp.sqrt(gx * gx + gy * gy), 255)


@jax.jit
def sobel_photo(rgb: Array) -> Array:
    r, g, b = (rgb[..., channel].astype(jnp.int32) for channel in range(3))
    grey = (GREY[0] * r + GREY[1] * g + GREY[2] * b + 2**14) >> 15
    gx, gy = gradient(grey)
    return jnp.minimum(jnp.sqrt((gx * gx + gy * gy).astype(jnp.float32)), 255).astype(jnp.uint8)


@jax.jit
def blur_via_separable(p: Array) -> Array:
    a, b, c = GAUSS[:3]
    rows = a * (p[:-4] + p[4:]) + b * (p[1:-3] + p[3:-1]) + c * p[2:-2]
    return a * (rows[:, :-4] + rows[:, 4:]) + b * (rows[:, 1:-3] + rows[:, 3:-1]) + c * rows[:, 2:-2]


@jax.jit
def blur_via_taps(p: Array) -> Array:
    h, w = p.shape
    rows = [sum(GAUSS[j] * p[i : h - 4 + i, j : w - 4 + j] for j in range(5)) for i in range(5)]
    return sum(tap * row for tap, row in zip(GAUSS, rows, strict=True))


@jax.jit
def add_transpose(a: Array, b: Array) -> Array:
    return a + b.T


@jax.jit
def standardise(x: Array) -> Array:
    return (x - x.mean(0)) / x.std(0)


@jax.jit
def threshold(p: Array) -> Array:
    return jnp.where(p > THRESHOLD, jnp.uint8(255), jnp.uint8(0))


@jax.jit
def blend(p: Array, q: Array) -> Array:
    mixed = p.astype(jnp.uint16) * BLEND[0] + q.astype(jnp.uint16) * BLEND[1] + 128
    return (mixed >> 8).astype(jnp.uint8)


def mandelbrot_step(
    i: Array, state: tuple[Array, Array, Array], re: Array, im: Array
) -> tuple[Array, Array, Array]:
    x, y, count = state
    xx, yy, xy = x * x, y * y, x * y
    return xx - yy + re, 2 * xy + im, count + (xx + yy <= 4)


def mandelbrot_start(re: Array, im: Array) -> tuple[Array, Array, Array]:
    zero = jnp.zeros(jnp.broadcast_shapes(re.shape, im.shape), jnp.float32)
    return zero, zero, zero.astype(jnp.int32)


@jax.jit
def mandelbrot_via_fori(re: Array, im: Array) -> Array:
    return jax.lax.fori_loop(
        0, MANDELBROT_STEPS, lambda i, s: mandelbrot_step(i, s, re, im), mandelbrot_start(re, im)
    )[2]


@jax.jit
def mandelbrot_via_unrolled(re: Array, im: Array) -> Array:
    state = mandelbrot_start(re, im)
    for i in range(MANDELBROT_STEPS):
        state = mandelbrot_step(i, state, re, im)
    return state[2]


@jax.jit
def distances(x: Array, y: Array) -> Array:
    return (x * x).sum(1)[:, None] + (y * y).sum(1) - 2 * (x @ y.T)


@jax.jit
def distances_via_difference(x: Array, y: Array) -> Array:
    return ((x[:, None] - y) ** 2).sum(2)


@jax.jit
def dense(x: Array, w: Array, b: Array) -> Array:
    return jnp.maximum(x @ w + b, 0)


@jax.jit
def heat(u: Array) -> Array:
    def step(i: Array, u: Array) -> Array:
        around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
        return u.at[1:-1, 1:-1].add(DIFFUSION * (around - 4 * u[1:-1, 1:-1]))

    return jax.lax.fori_loop(0, HEAT_STEPS, step, u)
