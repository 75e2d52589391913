"""Find the edges of a photograph: ``python examples/sobel.py [IMAGE] [--output edges.png]``.

The array code below is recorded, fused into one kernel, compiled and run. Without an image it takes the
astronaut that scikit-image ships. NumPy runs the same code, pure Python a loop; SciPy checks the result.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps
from scipy import ndimage

import pyasc as pa

GREY = (19595, 38470, 7471)  # weights of red, green and blue in 1/2**16 (ITU-R BT.601), as Pillow rounds them
PYTHON_PIXELS = 400_000  # pure Python takes about a second for these


def find_edges(xp: Any, image: Any) -> Any:
    """Sobel's gradient magnitude wherever there are eight neighbours, as uint8; `xp` is pyasc or NumPy."""
    if image.ndim == 3:
        r, g, b = (image[..., channel].astype(xp.int32) for channel in range(3))
        image = (GREY[0] * r + GREY[1] * g + GREY[2] * b + 2**15) >> 16
    p = image.astype(xp.float32)
    gx = p[:-2, 2:] - p[:-2, :-2] + 2 * (p[1:-1, 2:] - p[1:-1, :-2]) + p[2:, 2:] - p[2:, :-2]
    gy = p[2:, :-2] - p[:-2, :-2] + 2 * (p[2:, 1:-1] - p[:-2, 1:-1]) + p[2:, 2:] - p[:-2, 2:]
    return xp.minimum(xp.sqrt(gx * gx + gy * gy), 255).astype(xp.uint8)


def find_edges_in_python(rows: list[list[Any]]) -> list[list[int]]:
    """The same, pixel by pixel."""
    if isinstance(rows[0][0], list):
        rows = [[(GREY[0] * r + GREY[1] * g + GREY[2] * b + 2**15) >> 16 for r, g, b in row] for row in rows]
    edges = []
    for above, row, below in zip(rows, rows[1:], rows[2:], strict=False):
        line = []
        for j in range(len(row) - 2):
            a, b, c, d, e = above[j], above[j + 1], above[j + 2], row[j], row[j + 2]
            f, g, h = below[j], below[j + 1], below[j + 2]
            gx = c - a + 2 * (e - d) + h - f
            gy = f - a + 2 * (g - b) + h - c
            line.append(min(int(math.sqrt(gx * gx + gy * gy)), 255))
        edges.append(line)
    return edges


def find_edges_with_scipy(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The same by `scipy.ndimage.sobel`, whose border is cut off."""
    if image.ndim == 3:
        image = (image @ np.array(GREY) + 2**15) >> 16
    p = image.astype(np.float64)
    magnitude = np.hypot(ndimage.sobel(p, 0), ndimage.sobel(p, 1))[1:-1, 1:-1]
    return np.minimum(magnitude, 255).astype(np.uint8)


def read_image(path: Path | None) -> NDArray[np.uint8]:
    """A grey (height × width) or colour (height × width × 3) image. Raises OSError or ValueError."""
    if path is None:
        try:
            from skimage import data
        except ImportError:
            raise OSError("there is no photograph here without scikit-image; name an image") from None
        return np.asarray(data.astronaut())
    try:
        with Image.open(path) as file:
            image = ImageOps.exif_transpose(file)
            if image.mode.startswith("I"):  # 16 bits for each pixel
                pixels = (np.asarray(image) >> 8).clip(0, 255).astype(np.uint8)
            else:
                grey = image.mode in ("1", "L", "LA", "La", "F")
                pixels = np.asarray(image.convert("L" if grey else "RGB"))
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise OSError(f"cannot read {path}: {reason}") from error
    if min(pixels.shape[:2]) < 3:
        raise ValueError(
            f"expected at least 3 × 3 pixels, given {pixels.shape[1]} × {pixels.shape[0]} in {path}"
        )
    return pixels


def milliseconds(function: Callable[[], Any], repeats: int = 15) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append((time.perf_counter() - start) * 1e3)
    return median(times)


def times(ratio: float) -> str:
    return f"{ratio:.0f} times" if ratio >= 10 else f"{ratio:.2g} times"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "image", nargs="?", type=Path, help="an image file (default: scikit-image's astronaut)"
    )
    parser.add_argument(
        "--output", type=Path, default=Path("out/edges.png"), help="where the edges go (%(default)s)"
    )
    options = parser.parse_args()
    try:
        photo = read_image(options.image)
    except (OSError, ValueError) as error:
        sys.exit(f"sobel: {error}")
    height, width = photo.shape[:2]
    kind = "colour" if photo.ndim == 3 else "grey"
    print(f"{options.image or 'astronaut'}: {width} × {height} pixels, {kind}")

    image = pa.asarray(photo)
    start = time.perf_counter()
    edges = find_edges(pa, image)
    plan = pa.explain(edges)  # does not run anything
    result = edges.numpy()  # a sync point: fuse, compile, run
    first = (time.perf_counter() - start) * 1e3
    count = len(plan.kernels)
    print(f"ran as {count} kernel{'s' * (count != 1)}, {plan.bytes_moved / 1e6:.1f} MB moved:")
    for kernel in plan.kernels:
        arrays = ", ".join(map(str, kernel.inputs)), ", ".join(map(str, kernel.outputs))
        print(f"  {kernel.name}: {arrays[0]} -> {arrays[1]}, {len(kernel.ops)} operations")
    stats = pa.cache_stats()
    print(f"  {stats['compiles']} compiled, {stats['disk_hits']} from the cache on disk")

    lazy = milliseconds(lambda: pa.sync(find_edges(pa, image)))
    numpy_time = milliseconds(lambda: find_edges(np, photo), 5)
    part = photo[: max(3, min(height, PYTHON_PIXELS // width))]
    rows = part.tolist()
    start = time.perf_counter()
    in_python = find_edges_in_python(rows)
    python_time = (time.perf_counter() - start) * 1e3
    print(f"pyasc        {lazy:10.2f} ms   (first time {first:.1f} ms)")
    print(f"NumPy        {numpy_time:10.2f} ms   {times(numpy_time / lazy)} as long")
    scale = (height - 2) / (len(part) - 2)
    note = "" if len(part) == height else f", from {len(part)} of {height} rows"
    print(f"pure Python  {python_time * scale:10.0f} ms   {times(python_time * scale / lazy)} as long{note}")
    memory = pa.memory_stats()
    print(f"memory: {memory['used'] / 1e6:.1f} MB used, {memory['peak'] / 1e6:.1f} MB at the peak")

    differing = int((result != find_edges_with_scipy(photo)).sum())
    differing += int((result[: len(in_python)] != np.array(in_python)).sum())
    print(f"differs from SciPy and pure Python in {differing} of {result.size} pixels")
    try:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(result).save(options.output)
    except (OSError, ValueError) as error:
        sys.exit(f"sobel: cannot write {options.output}: {getattr(error, 'strerror', None) or error}")
    print(f"edges in {options.output}")
    if differing:
        sys.exit(1)


if __name__ == "__main__":
    main()
