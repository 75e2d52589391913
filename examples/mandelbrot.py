"""The Mandelbrot set: fifty steps on every point at once, fused, and a picture."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from PIL import Image

import pyasc as pa


@pa.jit
def escape_times(re: pa.Tensor, im: pa.Tensor) -> pa.Tensor:
    """For each point c = re + i·im, how many of fifty steps z → z² + c stay within 2 of the origin."""
    x = y = pa.zeros((im.shape[0], re.shape[1]))
    count = pa.zeros(x.shape, dtype=pa.int32)
    for _ in range(50):
        xx, yy, xy = x * x, y * y, x * y
        count = count + (xx + yy <= 4)
        x, y = xx - yy + re, 2 * xy + im
    return count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=1024, help="side of the picture in points (%(default)s)")
    parser.add_argument(
        "--output", type=Path, default=Path("out/mandelbrot.png"), help="the picture (%(default)s)"
    )
    options = parser.parse_args()

    re = pa.linspace(-2, 0.5, options.size, dtype=pa.float32)[None, :]
    im = pa.linspace(-1.25, 1.25, options.size, dtype=pa.float32)[:, None]
    for call in ("first call", "second call"):
        start = time.perf_counter()
        count = escape_times(re, im)
        pa.sync(count)
        print(f"{call}: {(time.perf_counter() - start) * 1e3:.1f} ms")
    inside = float((count == 50).mean()) * 2.5**2
    print(f"area of the set, from {options.size}² points: {inside:.3f} (1.5066 in the limit)")
    shades = (pa.sqrt(count / 50) * 255).astype(pa.uint8)
    try:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(shades.numpy()).save(options.output)
    except (OSError, ValueError) as error:
        sys.exit(f"mandelbrot: cannot write {options.output}: {getattr(error, 'strerror', None) or error}")
    print(f"picture in {options.output}")


if __name__ == "__main__":
    main()
