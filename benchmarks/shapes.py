"""What shapes and layouts cost: buckets against exact kernels, strides against contiguous arrays."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from types import ModuleType
from typing import Any

import numpy as np
from report import Figure

clock = time.perf_counter


def measure(peers: dict[str, ModuleType], quick: bool) -> list[Figure]:
    import pyasc as pa

    rounds = 3 if quick else 9
    side = 200 if quick else 2000
    rng = np.random.default_rng(0)
    return [*buckets(pa, rng, side, rounds), compiles(pa, rng), *layouts(pa, rng, 2 * side, rounds)]


def softmax(pa: Any, x: Any) -> Any:
    e = pa.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def sobel(pa: Any, p: Any) -> Any:
    gx = p[:-2, 2:] - p[:-2, :-2] + 2 * (p[1:-1, 2:] - p[1:-1, :-2]) + p[2:, 2:] - p[2:, :-2]
    gy = p[2:, :-2] - p[:-2, :-2] + 2 * (p[2:, 1:-1] - p[:-2, 1:-1]) + p[2:, 2:] - p[:-2, 2:]
    return pa.minimum(pa.sqrt(gx * gx + gy * gy), 255)


JOBS: dict[str, Callable[[Any, Any], Any]] = {
    "GELU": lambda pa, x: 0.5 * x * (1 + pa.tanh(0.7978845608 * (x + 0.044715 * x * x * x))),
    "softmax": softmax,
    "Sobel": sobel,
    "column sums": lambda pa, x: (x * x).sum(0),
    "x + x.T": lambda pa, x: x + x.T,
}


def buckets(pa: Any, rng: np.random.Generator, side: int, rounds: int) -> list[Figure]:
    """The time of a size with the kernel of its bucket's representative, by that of a kernel made for it."""
    figures = []
    for name, job in JOBS.items():
        worst, at = 0.0, 0
        for scale in (0.84, 1.17):
            size = int(side * scale) | 1
            middle = pa.asarray(rng.random((side, side), np.float32))
            x = pa.asarray(rng.random((size, size), np.float32))
            ratios = []
            for turn in range(2 * rounds):
                exact = bucketed = 0.0
                for which in ("exact", "bucketed") if turn % 2 else ("bucketed", "exact"):
                    pa.clear_cache(memory=True)
                    if which == "bucketed":
                        pa.sync(job(pa, middle))
                    pa.sync(job(pa, x))
                    took = fastest(lambda job=job, x=x: pa.sync(job(pa, x)), 9)
                    if which == "exact":
                        exact = took
                    else:
                        bucketed = took
                ratios.append(bucketed / exact)
            if median(ratios) > worst:
                worst, at = median(ratios), size
        figures.append(Figure(f"{name}, {at}²: bucket's kernel of {side}² by its own", worst, "×", 1.03))
    return figures


def fastest(function: Callable[[], Any], calls: int) -> float:
    times = []
    for _ in range(calls):
        start = clock()
        function()
        times.append(clock() - start)
    return min(times)


def compiles(pa: Any, rng: np.random.Generator) -> Figure:
    """Two hundred shapes within 20 % of the first."""
    pa.clear_cache(memory=True, disk=False)
    with pa.config.override(disk_cache=False):
        sizes = [500, *rng.integers(400, 601, 199).tolist()]
        before = pa.cache_stats()["misses"]
        for size in sizes:
            x = pa.asarray(np.ones((size, 500), np.float32))
            pa.sync(pa.tanh(x * 3) + 1)
        after = pa.cache_stats()["misses"]
    return Figure("kernels made for 200 shapes of one bucket", after - before, "", 1)


def layouts(pa: Any, rng: np.random.Generator, side: int, rounds: int) -> list[Figure]:
    """v*2 + 1 of a view, by the same of a contiguous array of as many elements."""
    values = rng.random((side, side), np.float32)
    x = pa.asarray(values)
    views: dict[str, Callable[[Any], Any]] = {
        "x[::2]": lambda x: x[::2],
        "x[:, ::2]": lambda x: x[:, ::2],
        "x[:, ::-1]": lambda x: x[:, ::-1],
        "x[::-1, ::-3]": lambda x: x[::-1, ::-3],
        "x[1:, 1:]": lambda x: x[1:, 1:],
        "x.T": lambda x: x.T,
        "x.T[::2, ::2]": lambda x: x.T[::2, ::2],
        "x[:, :1] as a row's width": lambda x: pa.broadcast_to(x[:, :1], x.shape),
    }
    figures = []
    for name, view in views.items():
        shape = view(x).shape
        dense = pa.asarray(np.ascontiguousarray(np.broadcast_to(values[: shape[0], : shape[1]], shape)))

        def strided(view: Callable[[Any], Any] = view) -> None:
            pa.sync(view(x) * 2 + 1)

        def contiguous(dense: Any = dense) -> None:
            pa.sync(dense * 2 + 1)

        strided(), contiguous()
        ratios = [fastest(strided, 5) / fastest(contiguous, 5) for _ in range(rounds)]
        figures.append(Figure(f"{name} by contiguous", median(ratios), "×", 3))
    return figures
