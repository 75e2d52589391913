"""numba: explicit loops over rows in parallel, fastmath off, outputs preallocated."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit, prange
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

Array = NDArray[Any]
F = np.float32
outputs: dict[str, Array] = {}


def load(arrays: Arrays) -> Arrays:
    outputs.clear()
    return arrays


def finish(result: Array) -> None:
    pass


def to_numpy(result: Array) -> Array:
    return result


def output(name: str, shape: tuple[int, ...], dtype: Any = np.float32) -> Array:
    if name not in outputs:
        outputs[name] = np.empty(shape, dtype)
    return outputs[name]


@njit(parallel=True)
def _fma(a, b, c, out):
    for i in prange(a.size):
        out[i] = a[i] * b[i] + c[i]


def fma(a: Array, b: Array, c: Array) -> Array:
    out = output("fma", a.shape)
    _fma(a, b, c, out)
    return out


@njit(parallel=True)
def _gelu(x, out):
    for i in prange(x.size):
        v = x[i]
        out[i] = F(0.5) * v * (F(1) + math.tanh(F(0.7978845608) * (v + F(0.044715) * v * v * v)))


def gelu(x: Array) -> Array:
    out = output("gelu", x.shape)
    _gelu(x, out)
    return out


@njit(parallel=True)
def _black_scholes(spot, strike, years, out):
    drift = F(RATE + VOLATILITY**2 / 2)
    for i in prange(spot.size):
        s, k, t = spot[i], strike[i], years[i]
        deviation = F(VOLATILITY) * math.sqrt(t)
        d1 = (math.log(s / k) + drift * t) / deviation
        d2 = d1 - deviation
        n1 = F(0.5) + F(0.5) * math.erf(d1 * F(0.70710678))
        n2 = F(0.5) + F(0.5) * math.erf(d2 * F(0.70710678))
        out[i] = s * n1 - k * math.exp(F(-RATE) * t) * n2


def black_scholes(spot: Array, strike: Array, years: Array) -> Array:
    out = output("black_scholes", spot.shape)
    _black_scholes(spot, strike, years, out)
    return out


@njit(parallel=True)
def _sum_exp(a, b, c):
    total = 0.0
    for i in prange(a.size):
        total += math.exp(a[i] * b[i] + c[i])
    return total


def sum_exp(a: Array, b: Array, c: Array) -> Array:
    return np.float32(_sum_exp(a, b, c))


@njit(parallel=True)
def _softmax(x, out):
    n, m = x.shape
    for i in prange(n):
        top = x[i, 0]
        for j in range(m):
            top = max(top, x[i, j])
        total = F(0)
        for j in range(m):
            e = math.exp(x[i, j] - top)
            out[i, j] = e
            total += e
        scale = F(1) / total
        for j in range(m):
            out[i, j] *= scale


def softmax(x: Array) -> Array:
    out = output("softmax", x.shape)
    _softmax(x, out)
    return out


@njit(parallel=True)
def _layer_norm(x, w, b, out):
    n, m = x.shape
    for i in prange(n):
        mean = F(0)
        for j in range(m):
            mean += x[i, j]
        mean /= F(m)
        square = F(0)
        for j in range(m):
            d = x[i, j] - mean
            square += d * d
        scale = F(1) / math.sqrt(square / F(m) + F(EPSILON))
        for j in range(m):
            out[i, j] = (x[i, j] - mean) * scale * w[j] + b[j]


def layer_norm(x: Array, w: Array, b: Array) -> Array:
    out = output("layer_norm", x.shape)
    _layer_norm(x, w, b, out)
    return out


@njit(parallel=True)
def _sobel(p, out):
    h, w = out.shape
    for i in prange(h):
        for j in range(w):
            a, b, c = p[i, j], p[i, j + 1], p[i, j + 2]
            d, e = p[i + 1, j], p[i + 1, j + 2]
            f, g, k = p[i + 2, j], p[i + 2, j + 1], p[i + 2, j + 2]
            gx = c - a + F(2) * (e - d) + k - f
            gy = f - a + F(2) * (g - b) + k - c
            out[i, j] = min(math.sqrt(gx * gx + gy * gy), F(255))


def sobel(p: Array) -> Array:
    out = output("sobel", (p.shape[0] - 2, p.shape[1] - 2))
    _sobel(p, out)
    return out


@njit(parallel=True)
def _grey(rgb, grey):
    wr, wg, wb, half, shift = (
        np.int32(GREY[0]),
        np.int32(GREY[1]),
        np.int32(GREY[2]),
        np.int32(2**14),
        np.int32(15),
    )
    for i in prange(rgb.shape[0]):
        for j in range(rgb.shape[1]):
            r, g, b = np.int32(rgb[i, j, 0]), np.int32(rgb[i, j, 1]), np.int32(rgb[i, j, 2])
            grey[i, j] = (wr * r + wg * g + wb * b + half) >> shift


@njit(parallel=True)
def _edges(p, out):
    h, w = out.shape
    for i in prange(h):
        for j in range(w):
            a, b, c = np.int32(p[i, j]), np.int32(p[i, j + 1]), np.int32(p[i, j + 2])
            d, e = np.int32(p[i + 1, j]), np.int32(p[i + 1, j + 2])
            f, g, k = np.int32(p[i + 2, j]), np.int32(p[i + 2, j + 1]), np.int32(p[i + 2, j + 2])
            gx = np.int32(c - a + 2 * (e - d) + k - f)
            gy = np.int32(f - a + 2 * (g - b) + k - c)
            out[i, j] = np.uint8(min(math.sqrt(F(np.int32(gx * gx + gy * gy))), F(255)))


def sobel_photo(rgb: Array) -> Array:
    grey = output("grey", rgb.shape[:2], np.uint8)
    out = output("edges", (rgb.shape[0] - 2, rgb.shape[1] - 2), np.uint8)
    _grey(rgb, grey)
    _edges(grey, out)
    return out


@njit(parallel=True)
def _blur(p, rows, out):
    a, b, c = F(GAUSS[0]), F(GAUSS[1]), F(GAUSS[2])
    h, w = out.shape
    for i in prange(h):
        for j in range(w + 4):
            rows[i, j] = a * (p[i, j] + p[i + 4, j]) + b * (p[i + 1, j] + p[i + 3, j]) + c * p[i + 2, j]
        for j in range(w):
            out[i, j] = (
                a * (rows[i, j] + rows[i, j + 4]) + b * (rows[i, j + 1] + rows[i, j + 3]) + c * rows[i, j + 2]
            )


def blur(p: Array) -> Array:
    rows = output("rows", p.shape)
    out = output("blur", (p.shape[0] - 4, p.shape[1] - 4))
    _blur(p, rows, out)
    return out


@njit(parallel=True)
def _blur_taps(p, out):
    h, w = out.shape
    taps = np.array(GAUSS, np.float32)
    for i in prange(h):
        for j in range(w):
            total = F(0)
            for k in range(5):
                row = F(0)
                for m in range(5):
                    row += taps[m] * p[i + k, j + m]
                total += taps[k] * row
            out[i, j] = total


def blur_via_taps(p: Array) -> Array:
    out = output("blur", (p.shape[0] - 4, p.shape[1] - 4))
    _blur_taps(p, out)
    return out


@njit(parallel=True)
def _add_transpose(a, b, out):
    n, m = a.shape
    for block in prange((n + 31) // 32):
        for left in range(0, m, 32):
            for i in range(block * 32, min(n, block * 32 + 32)):
                for j in range(left, min(m, left + 32)):
                    out[i, j] = a[i, j] + b[j, i]


def add_transpose(a: Array, b: Array) -> Array:
    out = output("add_transpose", a.shape)
    _add_transpose(a, b, out)
    return out


@njit(parallel=True)
def _standardise(x, out):
    n, m = x.shape
    width = 128
    for block in prange((m + width - 1) // width):
        left, right = block * width, min(m, block * width + width)
        mean, square = np.zeros(width, np.float32), np.zeros(width, np.float32)
        for i in range(n):
            for j in range(left, right):
                mean[j - left] += x[i, j]
        mean /= F(n)
        for i in range(n):
            for j in range(left, right):
                d = x[i, j] - mean[j - left]
                square[j - left] += d * d
        scale = F(1) / np.sqrt(square / F(n))
        for i in range(n):
            for j in range(left, right):
                out[i, j] = (x[i, j] - mean[j - left]) * scale[j - left]


def standardise(x: Array) -> Array:
    out = output("standardise", x.shape)
    _standardise(x, out)
    return out


@njit(parallel=True)
def _threshold(p, out):
    for i in prange(p.size):
        out[i] = np.uint8(255) if p[i] > THRESHOLD else np.uint8(0)


def threshold(p: Array) -> Array:
    out = output("threshold", p.shape, np.uint8)
    _threshold(p.reshape(-1), out.reshape(-1))
    return out


@njit(parallel=True)
def _blend(p, q, out):
    u, v, half, shift = np.uint16(BLEND[0]), np.uint16(BLEND[1]), np.uint16(128), np.uint16(8)
    for i in prange(p.size):
        mixed = np.uint16(np.uint16(p[i]) * u + np.uint16(q[i]) * v + half)
        out[i] = np.uint8(mixed >> shift)


def blend(p: Array, q: Array) -> Array:
    out = output("blend", p.shape, np.uint8)
    _blend(p.reshape(-1), q.reshape(-1), out.reshape(-1))
    return out


@njit(parallel=True)
def _mandelbrot_escape(re, im, out):
    for i in prange(im.shape[0]):
        ci = im[i, 0]
        for j in range(re.shape[1]):
            cr = re[0, j]
            x, y, n = F(0), F(0), np.int32(0)
            while n < MANDELBROT_STEPS:
                xx, yy, xy = x * x, y * y, x * y
                if xx + yy > F(4):
                    break
                n += 1
                x, y = xx - yy + cr, F(2) * xy + ci
            out[i, j] = n


def mandelbrot_via_escape(re: Array, im: Array) -> Array:
    out = output("mandelbrot", (im.shape[0], re.shape[1]), np.int32)
    _mandelbrot_escape(re, im, out)
    return out


@njit(parallel=True)
def _mandelbrot_steps(re, im, out):
    width = 64
    m = re.shape[1]
    for i in prange(im.shape[0]):
        ci = im[i, 0]
        x, y, count = np.empty(width, np.float32), np.empty(width, np.float32), np.empty(width, np.int32)
        for left in range(0, m, width):
            x[:], y[:], count[:] = F(0), F(0), 0
            size = min(width, m - left)
            for _ in range(MANDELBROT_STEPS):
                for j in range(size):
                    xx, yy, xy = x[j] * x[j], y[j] * y[j], x[j] * y[j]
                    count[j] += np.int32(xx + yy <= F(4))
                    x[j] = xx - yy + re[0, left + j]
                    y[j] = F(2) * xy + ci
            out[i, left : left + size] = count[:size]


def mandelbrot_via_steps(re: Array, im: Array) -> Array:
    out = output("mandelbrot", (im.shape[0], re.shape[1]), np.int32)
    _mandelbrot_steps(re, im, out)
    return out


@njit(parallel=True)
def _distances(x, y, out):
    n, depth = x.shape
    for block in prange(n // 4):
        i = block * 4
        for left in range(0, y.shape[0], 64):
            acc = np.zeros((4, 64), np.float32)
            width = min(64, y.shape[0] - left)
            for k in range(depth):
                for r in range(4):
                    v = x[i + r, k]
                    for j in range(width):
                        d = v - y[left + j, k]
                        acc[r, j] += d * d
            out[i : i + 4, left : left + width] = acc[:, :width]


def distances(x: Array, y: Array) -> Array:
    out = output("distances", (len(x), len(y)))
    _distances(x, np.asfortranarray(y), out)
    return out


@njit(parallel=True)
def _dense(x, w, b, out):
    np.dot(x, w, out)
    for i in prange(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = max(out[i, j] + b[j], F(0))


def dense(x: Array, w: Array, b: Array) -> Array:
    out = output("dense", (x.shape[0], w.shape[1]))
    _dense(x, w, b, out)
    return out


@njit(parallel=True)
def _heat(u, v):
    k, four = F(DIFFUSION), F(4)
    for _ in range(HEAT_STEPS):
        for i in prange(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                around = u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1]
                v[i, j] = u[i, j] + k * (around - four * u[i, j])
        u, v = v, u


def heat(u: Array) -> Array:
    a, b = output("u", u.shape), output("v", u.shape)
    a[:], b[:] = u, u
    _heat(a, b)
    return a if HEAT_STEPS % 2 == 0 else b
