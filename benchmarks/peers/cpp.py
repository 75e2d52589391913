"""Hand-written C++ (``reference.cpp``), compiled when first needed and called through ctypes."""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from workloads import (
    BLEND,
    DIFFUSION,
    EPSILON,
    GAUSS,
    HEAT_STEPS,
    MANDELBROT_STEPS,
    RATE,
    THRESHOLD,
    VOLATILITY,
    Arrays,
)

Array = NDArray[Any]
SOURCE = Path(__file__).with_name("reference.cpp")
FLAGS = ("-O3", "-march=native", "-fopenmp", "-fno-math-errno", "-std=c++17", "-shared", "-fPIC")
outputs: dict[str, Array] = {}


def build() -> ctypes.CDLL:
    """Compile the reference, or take the library that the same source made on this machine before."""
    compiler = shutil.which(os.environ.get("CXX", "g++"))
    if compiler is None:
        raise ImportError("no C++ compiler (g++, or the one that CXX names)")
    key = hashlib.sha256(SOURCE.read_bytes() + repr((FLAGS, platform.node(), compiler)).encode())
    library = Path(__file__).parents[1] / "results" / f"reference-{key.hexdigest()[:16]}.so"
    if not library.exists():
        library.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=library.parent) as folder:
            built = Path(folder) / library.name
            run = subprocess.run(
                [
                    compiler,
                    *FLAGS,
                    str(SOURCE),
                    "-lmvec" if platform.machine() == "x86_64" else "-lm",
                    "-o",
                    built,
                ],
                capture_output=True,
                text=True,
            )
            if run.returncode:
                raise ImportError(f"{compiler}: {run.stderr.strip() or 'failed'}")
            built.rename(library)
    return ctypes.CDLL(str(library))


reference = build()


def call(name: str, *arguments: Any) -> None:
    """Call a function of the reference: arrays as pointers, int as Index, float as float."""
    convert = {int: ctypes.c_int64, float: ctypes.c_float}
    getattr(reference, name)(
        *(
            ctypes.c_void_p(a.ctypes.data) if isinstance(a, np.ndarray) else convert[type(a)](a)
            for a in arguments
        )
    )


def aligned(shape: tuple[int, ...], dtype: Any) -> Array:
    """An array that starts at a line of the cache, which NumPy's do not."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.empty(size + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size].view(dtype).reshape(shape)


def load(arrays: Arrays) -> Arrays:
    outputs.clear()
    loaded = {name: aligned(a.shape, a.dtype) for name, a in arrays.items()}
    for name, a in arrays.items():
        loaded[name][...] = a
    return loaded


def finish(result: Array) -> None:
    pass


def to_numpy(result: Array) -> Array:
    return result


def output(name: str, shape: tuple[int, ...], dtype: Any = np.float32) -> Array:
    if name not in outputs:
        outputs[name] = aligned(shape, dtype)
    return outputs[name]


def fma(a: Array, b: Array, c: Array) -> Array:
    out = output("fma", a.shape)
    call("multiply_add", a.size, a, b, c, out)
    return out


def gelu(x: Array) -> Array:
    out = output("gelu", x.shape)
    call("gelu", x.size, x, out)
    return out


def black_scholes(spot: Array, strike: Array, years: Array) -> Array:
    out = output("black_scholes", spot.shape)
    call("black_scholes", spot.size, spot, strike, years, RATE, VOLATILITY, out)
    return out


def sum_exp(a: Array, b: Array, c: Array) -> Array:
    out = output("sum_exp", ())
    call("sum_exp", a.size, a, b, c, out)
    return out


def softmax(x: Array) -> Array:
    out = output("softmax", x.shape)
    call("softmax", *x.shape, x, out)
    return out


def layer_norm(x: Array, w: Array, b: Array) -> Array:
    out = output("layer_norm", x.shape)
    call("layer_norm", *x.shape, x, w, b, EPSILON, out)
    return out


def sobel(p: Array) -> Array:
    h, w = p.shape
    out = output("sobel", (h - 2, w - 2))
    call("sobel", h, w, p, out)
    return out


def sobel_photo(rgb: Array) -> Array:
    h, w = rgb.shape[:2]
    out = output("sobel_photo", (h - 2, w - 2), np.uint8)
    call("sobel_photo", h, w, rgb, out)
    return out


def blur(p: Array) -> Array:
    h, w = p.shape
    out = output("blur", (h - 4, w - 4))
    call("blur", h, w, p, np.float32(GAUSS), out)
    return out


def add_transpose(a: Array, b: Array) -> Array:
    out = output("add_transpose", a.shape)
    call("add_transpose", len(a), a, b, out)
    return out


def standardise(x: Array) -> Array:
    out = output("standardise", x.shape)
    call("standardise", *x.shape, x, out)
    return out


def standardise_via_rows(x: Array) -> Array:
    out = output("standardise", x.shape)
    call("standardise_via_rows", *x.shape, x, out)
    return out


def threshold(p: Array) -> Array:
    out = output("threshold", p.shape, np.uint8)
    call("threshold", p.size, p, THRESHOLD, out)
    return out


def blend(p: Array, q: Array) -> Array:
    out = output("blend", p.shape, np.uint8)
    call("blend", p.size, p, q, *BLEND, out)
    return out


def mandelbrot(re: Array, im: Array) -> Array:
    out = output("mandelbrot", (im.shape[0], re.shape[1]), np.int32)
    call("mandelbrot", *out.shape, re, im, MANDELBROT_STEPS, out)
    return out


def distances(x: Array, y: Array) -> Array:
    out = output("distances", (len(x), len(y)))
    call("distances", *out.shape, x.shape[1], x, y, out)
    return out


def dense(x: Array, w: Array, b: Array) -> Array:
    out = output("dense", (len(x), w.shape[1]))
    call("dense", *out.shape, x.shape[1], x, w, b, out)
    return out


def heat(u: Array) -> Array:
    out, other = output("heat", u.shape), output("other", u.shape)
    call("heat", *u.shape, u, HEAT_STEPS, DIFFUSION, out, other)
    return out
