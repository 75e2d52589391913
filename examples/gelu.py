"""GELU, fused into one kernel, lazily and under `pyasc.jit`, beside NumPy."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

import pyasc as pa


def gelu(xp: Any, x: Any) -> Any:
    """Hendrycks and Gimpel (2016), the form with tanh; `xp` is pyasc or NumPy."""
    return 0.5 * x * (1 + xp.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def milliseconds(function: Callable[[], Any], repeats: int = 7) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append((time.perf_counter() - start) * 1e3)
    return median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=2**22, help="elements (%(default)s)")
    size = parser.parse_args().size

    values = np.random.default_rng(0).standard_normal(size, np.float32)
    x = pa.asarray(values)
    y = gelu(pa, x)
    (kernel,) = pa.explain(y).kernels
    print(f"one kernel: {', '.join(kernel.ops)}")
    error = np.abs(y.numpy() - gelu(np, values.astype(np.float64))).max()
    print(f"largest error against float64: {error:.1e}")

    jitted = pa.jit(lambda x: gelu(pa, x))
    print(f"pyasc, lazy  {milliseconds(lambda: pa.sync(gelu(pa, x))):8.2f} ms")
    print(f"pyasc.jit    {milliseconds(lambda: pa.sync(jitted(x))):8.2f} ms")
    print(f"NumPy        {milliseconds(lambda: gelu(np, values)):8.2f} ms")


if __name__ == "__main__":
    main()
