"""Heat on a plate: the 2-D heat equation in explicit steps, written in place, and a picture of the end."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

import pyasc as pa


def diffuse(u: Any, steps: int, rate: float) -> Any:
    """Forward Euler with the five-point Laplacian, on a tensor or an array; the border keeps its values."""
    for _ in range(steps):
        around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
        u[1:-1, 1:-1] += rate * (around - 4 * u[1:-1, 1:-1])
    return u


def plate(size: int) -> NDArray[np.float32]:
    """Cold, with a hot upper border and three hot discs."""
    u = np.zeros((size, size), np.float32)
    y, x = np.mgrid[:size, :size] / size
    for cy, cx, radius in ((0.35, 0.3, 0.12), (0.6, 0.7, 0.15), (0.8, 0.25, 0.07)):
        u[(y - cy) ** 2 + (x - cx) ** 2 < radius**2] = 1
    u[0] = 1
    return u


def colours(u: pa.Tensor) -> pa.Tensor:
    """Black through red and yellow to white, as uint8 RGB."""
    channels = [pa.clip(3 * u - shift, 0, 1) * 255 for shift in range(3)]
    return pa.stack(channels, axis=2).astype(pa.uint8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=512, help="side of the plate in points (%(default)s)")
    parser.add_argument("--steps", type=int, default=500, help="time steps (%(default)s)")
    parser.add_argument("--output", type=Path, default=Path("out/heat.png"), help="the picture (%(default)s)")
    options = parser.parse_args()
    if options.size < 3:
        parser.error(f"expected a size of at least 3, given {options.size}")

    start_values = plate(options.size)
    start = time.perf_counter()
    u = diffuse(pa.asarray(start_values), options.steps, 0.2)
    pa.sync(u)
    took = time.perf_counter() - start
    start = time.perf_counter()
    expected = diffuse(start_values.copy(), options.steps, 0.2)
    numpy_took = time.perf_counter() - start
    difference = float(abs(u - pa.asarray(expected)).max())
    print(f"{options.steps} steps on {options.size}²: {took * 1e3:.0f} ms, NumPy {numpy_took * 1e3:.0f} ms")
    print(f"largest difference from NumPy: {difference:.1e}; mean temperature {float(u.mean()):.4f}")
    try:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(colours(u).numpy()).save(options.output)
    except (OSError, ValueError) as error:
        sys.exit(f"heat: cannot write {options.output}: {getattr(error, 'strerror', None) or error}")
    print(f"picture in {options.output}")


if __name__ == "__main__":
    main()
