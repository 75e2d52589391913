"""numexpr, with the output preallocated."""

from __future__ import annotations

from typing import Any

import numexpr as ne
import numpy as np
from numpy.typing import NDArray
from workloads import (
    BLEND,
    DIFFUSION,
    EPSILON,
    GAUSS,
    GREY,
    HEAT_STEPS,
    MANDELBROT_STEPS,
    THRESHOLD,
    Arrays,
)

Array = NDArray[Any]
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


def fma(a: Array, b: Array, c: Array) -> Array:
    return ne.evaluate("a*b + c", out=output("fma", a.shape))


GELU = {
    "half": np.float32(0.5),
    "one": np.float32(1),
    "k": np.float32(0.044715),
    "s": np.float32(0.7978845608),
}


def gelu(x: Array) -> Array:
    return ne.evaluate("half*x*(one + tanh(s*(x + k*x*x*x)))", {"x": x, **GELU}, out=output("gelu", x.shape))


def sum_exp(a: Array, b: Array, c: Array) -> Array:
    # numexpr's own sum adds float32 one by one: 2 % off here.
    return ne.evaluate("exp(a*b + c)", out=output("sum_exp", a.shape)).sum()


def softmax(x: Array) -> Array:
    names = {"x": x, "top": x.max(1, keepdims=True)}
    e = ne.evaluate("exp(x - top)", names, out=output("softmax", x.shape))
    return ne.evaluate("e/total", {"e": e, "total": e.sum(1, keepdims=True)}, out=e)


def layer_norm(x: Array, w: Array, b: Array) -> Array:
    names = {"x": x, "mean": x.mean(1, keepdims=True)}
    d = ne.evaluate("x - mean", names, out=output("layer_norm", x.shape))
    variance = np.einsum("ij,ij->i", d, d)[:, None] / np.float32(x.shape[1])
    names = {"d": d, "scale": 1 / np.sqrt(variance + np.float32(EPSILON)), "w": w, "b": b}
    return ne.evaluate("d*scale*w + b", names, out=d)


GX = "(c - a + two*(e - d) + h - f)"
GY = "(f - a + two*(g - b) + h - c)"


def neighbours(p: Array) -> dict[str, Array]:
    """The eight neighbours of every pixel but the border's, a b c above, d e beside, f g h below."""
    return {
        "a": p[:-2, :-2],
        "b": p[:-2, 1:-1],
        "c": p[:-2, 2:],
        "d": p[1:-1, :-2],
        "e": p[1:-1, 2:],
        "f": p[2:, :-2],
        "g": p[2:, 1:-1],
        "h": p[2:, 2:],
    }


def sobel(p: Array) -> Array:
    names = neighbours(p) | {"two": np.float32(2)}
    s = ne.evaluate(f"sqrt({GX}*{GX} + {GY}*{GY})", names, out=output("sobel", names["a"].shape))
    return ne.evaluate("where(s < 255, s, top)", {"s": s, "top": np.float32(255)}, out=s)


def sobel_photo(rgb: Array) -> Array:
    names = dict(zip(("r", "g", "b", "wr", "wg", "wb"), (*np.moveaxis(rgb, 2, 0), *GREY), strict=True))
    grey = ne.evaluate(
        "(wr*r + wg*g + wb*b + 16384) >> 15",
        names,
        out=output("grey", rgb.shape[:2], np.int32),
        casting="unsafe",
    )
    names = neighbours(grey) | {"two": np.int32(2)}
    s = ne.evaluate(f"{GX}*{GX} + {GY}*{GY}", names, out=output("squares", names["a"].shape, np.int32))
    names = {"s": s, "top": np.float32(255), "zero": np.float32(0)}
    return ne.evaluate(
        "where(sqrt(s + zero) < top, sqrt(s + zero), top)",
        names,
        out=output("edges", s.shape, np.uint8),
        casting="unsafe",
    )


def blur(p: Array) -> Array:
    names = dict(zip("xyz", np.float32(GAUSS[:3]), strict=True))
    taps = dict(zip("abcde", (p[i : len(p) - 4 + i] for i in range(5)), strict=True))
    text = "x*(a + e) + y*(b + d) + z*c"
    rows = ne.evaluate(text, names | taps, out=output("rows", taps["a"].shape))
    taps = dict(zip("abcde", (rows[:, i : p.shape[1] - 4 + i] for i in range(5)), strict=True))
    return ne.evaluate(text, names | taps, out=output("blur", taps["a"].shape))


def add_transpose(a: Array, b: Array) -> Array:
    return ne.evaluate("a + t", {"a": a, "t": b.T}, out=output("add_transpose", a.shape), order="C")


def standardise(x: Array) -> Array:
    d = ne.evaluate("x - mean", {"x": x, "mean": x.mean(0)}, out=output("standardise", x.shape))
    deviation = np.sqrt(np.einsum("ij,ij->j", d, d) / np.float32(len(x)))
    return ne.evaluate("d/deviation", {"d": d, "deviation": deviation}, out=d)


def threshold(p: Array) -> Array:
    return ne.evaluate(
        f"where(p > {THRESHOLD}, 255, 0)", out=output("threshold", p.shape, np.uint8), casting="unsafe"
    )


def blend(p: Array, q: Array) -> Array:
    return ne.evaluate(
        f"(p*{BLEND[0]} + q*{BLEND[1]} + 128) >> 8", out=output("blend", p.shape, np.uint8), casting="unsafe"
    )


def mandelbrot(re: Array, im: Array) -> Array:
    shape = np.broadcast_shapes(re.shape, im.shape)
    x, y, count = np.zeros(shape, np.float32), np.zeros(shape, np.float32), np.zeros(shape, np.int32)
    for _ in range(MANDELBROT_STEPS):
        names = {"x": x, "y": y, "count": count, "re": re, "im": im, "two": np.float32(2)}
        count = ne.evaluate("where(x*x + y*y <= 4, count + 1, count)", names, casting="unsafe")
        x, y = ne.evaluate("x*x - y*y + re", names), ne.evaluate("two*x*y + im", names)
    return count


def heat(u: Array) -> Array:
    u, v = u.copy(), u.copy()
    names = {"k": np.float32(DIFFUSION), "four": np.float32(4)}
    for _ in range(HEAT_STEPS):
        taps = {
            "c": u[1:-1, 1:-1],
            "n": u[:-2, 1:-1],
            "s": u[2:, 1:-1],
            "w": u[1:-1, :-2],
            "e": u[1:-1, 2:],
        }
        ne.evaluate("c + k*(n + s + w + e - four*c)", names | taps, out=v[1:-1, 1:-1])
        u, v = v, u
    return u
