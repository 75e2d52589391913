"""OpenCV, where it has functions for the job."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from workloads import BLEND, DIFFUSION, GAUSS, HEAT_STEPS, THRESHOLD, Arrays

Array = NDArray[Any]
INNER = (slice(1, -1), slice(1, -1))


def load(arrays: Arrays) -> Arrays:
    return {n: a.reshape(4096, -1) if a.ndim == 1 and a.size >= 2**24 else a for n, a in arrays.items()}


def finish(result: Array) -> None:
    pass


def to_numpy(result: Array) -> Array:
    return result


def fma(a: Array, b: Array, c: Array) -> Array:
    product = cv2.multiply(a, b)
    return cv2.add(product, c, dst=product).reshape(-1)


def sobel(p: Array) -> Array:
    gx, gy = cv2.Sobel(p, cv2.CV_32F, 1, 0), cv2.Sobel(p, cv2.CV_32F, 0, 1)
    edges = cv2.magnitude(gx, gy, gx)
    return cv2.min(edges, 255, edges)[INNER]


def sobel_photo(rgb: Array) -> Array:
    grey = cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY)
    gx, gy = cv2.Sobel(grey, cv2.CV_32F, 1, 0), cv2.Sobel(grey, cv2.CV_32F, 0, 1)
    squares = cv2.add(cv2.multiply(gx, gx, gx), cv2.multiply(gy, gy, gy), gx)
    edges = cv2.sqrt(squares, squares)  # cv2.magnitude is not rounded correctly
    return cv2.min(edges, 255, edges)[INNER].astype(np.uint8)


def blur(p: Array) -> Array:
    taps = np.float32(GAUSS)
    return cv2.sepFilter2D(p, -1, taps, taps)[2:-2, 2:-2]


def blur_via_gaussian(p: Array) -> Array:
    return cv2.GaussianBlur(p, (5, 5), 1)[2:-2, 2:-2]


def add_transpose(a: Array, b: Array) -> Array:
    return cv2.add(a, cv2.transpose(b))


def threshold(p: Array) -> Array:
    return cv2.threshold(p, THRESHOLD, 255, cv2.THRESH_BINARY)[1]


def blend(p: Array, q: Array) -> Array:
    # 1/512 turns a tie, which OpenCV rounds to even, upward; no sum of whole 128ths is moved past another.
    return cv2.addWeighted(p, BLEND[0] / 256, q, BLEND[1] / 256, 1 / 512)


def heat(u: Array) -> Array:
    k = DIFFUSION
    taps = np.float32([[0, k, 0], [k, 1 - 4 * k, k], [0, k, 0]])
    u = u.copy()
    v = np.empty_like(u)
    for _ in range(HEAT_STEPS):
        cv2.filter2D(u, -1, taps, dst=v)
        u[INNER] = v[INNER]
    return u
