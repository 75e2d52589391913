"""PyTorch, eager."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor
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

torch.set_grad_enabled(False)


def load(arrays: Arrays) -> dict[str, Tensor]:
    return {n: torch.from_numpy(a) for n, a in arrays.items()}


def finish(result: Tensor) -> None:
    pass


def to_numpy(result: Tensor) -> NDArray[Any]:
    return np.asarray(result.numpy())


def fma(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    return a * b + c


def fma_via_addcmul(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    return torch.addcmul(c, a, b)


def gelu(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


def black_scholes(spot: Tensor, strike: Tensor, years: Tensor) -> Tensor:
    deviation = VOLATILITY * torch.sqrt(years)
    d1 = (torch.log(spot / strike) + (RATE + VOLATILITY**2 / 2) * years) / deviation
    d2 = d1 - deviation
    n1 = 0.5 + 0.5 * torch.erf(d1 * 0.70710678)
    n2 = 0.5 + 0.5 * torch.erf(d2 * 0.70710678)
    return spot * n1 - strike * torch.exp(-RATE * years) * n2


def sum_exp(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    return torch.exp(a * b + c).sum()


def softmax(x: Tensor) -> Tensor:
    return F.softmax(x, 1)


def layer_norm(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.layer_norm(x, w.shape, w, b, EPSILON)


def gradient(p: Tensor) -> tuple[Tensor, Tensor]:
    gx = p[:-2, 2:] - p[:-2, :-2] + 2 * (p[1:-1, 2:] - p[1:-1, :-2]) + p[2:, 2:] - p[2:, :-2]
    gy = p[2:, :-2] - p[:-2, :-2] + 2 * (p[2:, 1:-1] - p[:-2, 1:-1]) + p[2:, 2:] - p[:-2, 2:]
    return gx, gy


def sobel(p: Tensor) -> Tensor:
    gx, gy = gradient(p)
    return torch.sqrt(gx * gx + gy * gy).clamp_(max=255)


SOBEL_TAPS = torch.tensor([[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]])
SOBEL_TAPS = torch.stack([SOBEL_TAPS, SOBEL_TAPS.T])[:, None]


def sobel_via_conv2d(p: Tensor) -> Tensor:
    gx, gy = F.conv2d(p[None, None], SOBEL_TAPS)[0]
    return torch.sqrt(gx * gx + gy * gy).clamp_(max=255)


def sobel_photo(rgb: Tensor) -> Tensor:
    r, g, b = (rgb[..., channel].to(torch.int32) for channel in range(3))
    grey = (GREY[0] * r + GREY[1] * g + GREY[2] * b + 2**14) >> 15
    gx, gy = gradient(grey)
    return torch.sqrt((gx * gx + gy * gy).to(torch.float32)).clamp_(max=255).to(torch.uint8)


BLUR_TAPS = torch.tensor(GAUSS)


def blur_via_separable(p: Tensor) -> Tensor:
    rows = F.conv2d(p[None, None], BLUR_TAPS.view(1, 1, 5, 1))
    return F.conv2d(rows, BLUR_TAPS.view(1, 1, 1, 5))[0, 0]


def blur_via_conv2d(p: Tensor) -> Tensor:
    return F.conv2d(p[None, None], torch.outer(BLUR_TAPS, BLUR_TAPS)[None, None])[0, 0]


def blur_via_slices(p: Tensor) -> Tensor:
    a, b, c = GAUSS[:3]
    rows = a * (p[:-4] + p[4:]) + b * (p[1:-3] + p[3:-1]) + c * p[2:-2]
    return a * (rows[:, :-4] + rows[:, 4:]) + b * (rows[:, 1:-3] + rows[:, 3:-1]) + c * rows[:, 2:-2]


def add_transpose(a: Tensor, b: Tensor) -> Tensor:
    return a + b.T


def standardise(x: Tensor) -> Tensor:
    return (x - x.mean(0)) / x.std(0, correction=0)


def threshold(p: Tensor) -> Tensor:
    return torch.where(p > THRESHOLD, 255, 0).to(torch.uint8)


def threshold_via_scaling(p: Tensor) -> Tensor:
    return (p > THRESHOLD).to(torch.uint8) * 255


def blend(p: Tensor, q: Tensor) -> Tensor:
    return ((p.to(torch.int32) * BLEND[0] + q.to(torch.int32) * BLEND[1] + 128) >> 8).to(torch.uint8)


def mandelbrot(re: Tensor, im: Tensor) -> Tensor:
    shape = torch.broadcast_shapes(re.shape, im.shape)
    x, y, count = torch.zeros(shape), torch.zeros(shape), torch.zeros(shape, dtype=torch.int32)
    for _ in range(MANDELBROT_STEPS):
        xx, yy, xy = x * x, y * y, x * y
        count += xx + yy <= 4
        x, y = xx - yy + re, 2 * xy + im
    return count


def distances(x: Tensor, y: Tensor) -> Tensor:
    return torch.addmm((x * x).sum(1)[:, None] + (y * y).sum(1), x, y.T, alpha=-2)


def distances_via_cdist(x: Tensor, y: Tensor) -> Tensor:
    return torch.cdist(x, y).square_()


def dense(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return torch.addmm(b, x, w).relu_()


def heat(u: Tensor) -> Tensor:
    u = u.clone()
    for _ in range(HEAT_STEPS):
        around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
        u[1:-1, 1:-1] += DIFFUSION * (around - 4 * u[1:-1, 1:-1])
    return u
