"""Costs of generated kernels: what the sections of ascend.py print."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyasc
from pyasc.backend.ascend import chip as chips
from pyasc.backend.ascend.backend import Ascend
from pyasc.backend.ascend.cube import Contraction, CubeOptions, CubeSizes
from pyasc.backend.ascend.cube import generate as generate_product
from pyasc.backend.ascend.generated import Generated
from pyasc.backend.ascend.vector_kernel import ALL, Options, tune
from pyasc.backend.sim.backend import compiled, cost
from pyasc.backend.sim.cost import Cost
from pyasc.backend.sim.cost import replay as replay_log
from pyasc.backend.sim.simulator import Extent, Simulator
from pyasc.explain import KernelInfo

CHIP = chips.load("910B1")
SIDE = 8192
SWITCHES = Options._fields


@dataclass(frozen=True)
class Workload:
    """A function and the shapes of its arguments."""

    name: str
    function: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]


def gelu(x: Any) -> Any:
    return 0.5 * x * (1 + pyasc.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))


def softmax(x: Any) -> Any:
    e = pyasc.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def layer_norm(x: Any, gain: Any, bias: Any) -> Any:
    mean = x.mean(axis=1, keepdims=True)
    centred = x - mean
    return centred / pyasc.sqrt((centred * centred).mean(axis=1, keepdims=True) + 1e-5) * gain + bias


PLANE = (SIDE, SIDE)
WORKLOADS = (
    Workload("x + y", lambda x, y: x + y, (PLANE, PLANE)),
    Workload("a·x + b·y + c", lambda x, y: 1.5 * x + 0.5 * y + 0.25, (PLANE, PLANE)),
    Workload("x + row", lambda x, row: x + row, (PLANE, (SIDE,))),
    Workload("x · column", lambda x, column: x * column, (PLANE, (SIDE, 1))),
    Workload("exp(x)", lambda x: pyasc.exp(x), (PLANE,)),
    Workload("GELU", gelu, (PLANE,)),
    Workload("sum of rows", lambda x: x.sum(axis=1), (PLANE,)),
    Workload("sum of columns", lambda x: x.sum(axis=0), (PLANE,)),
    Workload("sum of all", lambda x: x.sum(), (PLANE,)),
    Workload("max of rows", lambda x: x.max(axis=1), (PLANE,)),
    Workload("softmax of rows", softmax, (PLANE,)),
    Workload("layer norm of rows", layer_norm, (PLANE, (SIDE,), (SIDE,))),
)
SWITCHED = ("x + y", "x + row", "x · column", "GELU", "sum of rows", "softmax of rows", "layer norm of rows")


def workload(name: str) -> Workload:
    return next(one for one in WORKLOADS if one.name == name)


@cache
def kernels(work: Workload, dtype: str, shapes: tuple[tuple[int, ...], ...] = ()) -> tuple[KernelInfo, ...]:
    """The kernels that a workload is cut into. Nothing is run."""
    examples = [pyasc.empty(shape, getattr(pyasc, dtype)) for shape in shapes or work.shapes]
    found = pyasc.jit(work.function).explanation(f"sim:{CHIP.name}", *examples).kernels
    return tuple(found)


def generate(info: KernelInfo, options: Options = ALL, like: KernelInfo | None = None) -> Generated:
    """A kernel's source, with optimisations switched off, or tuned for the sizes of another."""
    assert info.work is not None
    if info.work.lowered is None:
        assert info.work.product is not None
        return info.work.product
    sizes = (like or info).work
    assert sizes is not None and sizes.lowered is not None
    kernel = info.work.lowered.kernel
    return Ascend(CHIP, None).written(kernel, tune(kernel, sizes.lowered.binding, CHIP, options))


def replay(info: KernelInfo, generated: Generated, warm: bool) -> Cost:
    """The cost of a kernel at its sizes."""
    from pyasc.backend.ir import Binding

    assert info.work is not None
    lowered = info.work.lowered
    bound = generated.bind(lowered.binding if lowered is not None else Binding((), (), ()))
    return cost(generated, bound, info.work.sizes, warm=warm)


def total(work: Workload, dtype: str, *, warm: bool, options: Options = ALL) -> tuple[float, float, str, int]:
    """Microseconds, the least there could be, what bounds the longest kernel, and the number of kernels."""
    costs = [replay(info, generate(info, options), warm) for info in kernels(work, dtype)]
    longest = max(costs, key=lambda one: one.time_us)
    return sum(c.time_us for c in costs), sum(c.bound_us for c in costs), longest.bound, len(costs)


def vector_rows(dtype: str) -> list[tuple[str, ...]]:
    """Each workload: cold and warm, beside its bound."""
    rows = []
    for work in WORKLOADS:
        took, least, bound, count = total(work, dtype, warm=False)
        warm, least_warm, bound_warm, _ = total(work, dtype, warm=True)
        rows.append(
            (
                work.name, str(count), f"{took:.1f}", f"{least:.1f}", f"{least / took:.0%}", bound,
                f"{warm:.1f}", f"{least_warm / warm:.0%}", bound_warm,
            )
        )  # fmt: skip
    return rows


PRODUCTS: tuple[tuple[str, str, tuple[int, int], tuple[int, int]], ...] = (
    ("float16", "a @ b", (1024, 1024), (1024, 1024)),
    ("float16", "a @ b", (2048, 2048), (2048, 2048)),
    ("float16", "a @ b", (4096, 4096), (4096, 4096)),
    ("float16", "a @ b", (8192, 8192), (8192, 8192)),
    ("bfloat16", "a @ b", (8192, 8192), (8192, 8192)),
    ("float16", "a @ b", (16384, 1024), (1024, 4096)),
    ("float16", "a @ b", (128, 8192), (8192, 8192)),
    ("float32", "a @ b", (4096, 4096), (4096, 4096)),
)


def product_rows() -> list[tuple[str, ...]]:
    """Matrix products: time, share of the cube's peak, what bounds."""
    rows = []
    for dtype, name, a, b in PRODUCTS:
        work = Workload(name, lambda x, y: x @ y, (a, b))
        costs = [replay(info, generate(info), True) for info in kernels(work, dtype)]
        took = sum(one.time_us for one in costs)
        cube = sum(one.least_us["cube"] for one in costs)
        longest = max(costs, key=lambda one: one.time_us)
        busy = longest.utilisation.get("M", 0.0)
        rate = 2 * a[0] * a[1] * b[1] / took / 1e6
        rows.append(
            (
                f"{a[0]} × {a[1]} · {b[0]} × {b[1]}, {dtype}", f"{took:.0f}", f"{cube:.0f}",
                f"{cube / took:.0%}", f"{busy:.0%}", f"{rate:.0f}", longest.bound,
            )
        )  # fmt: skip
    return rows


def product_cost(product: Contraction, options: CubeOptions) -> Cost:
    """What a product costs as generated with some options; all operands come from HBM."""
    made = generate_product(product, CHIP, options)
    module = Simulator(CHIP, None).compile(made.source, made.name)
    m, n, k = product.m, product.n, product.k
    blocks, tiling, _ = made.bind(CubeSizes(m, n, k, 1))
    buffers = [Extent(2 * elements) for elements in (m * k, k * n, m * n)]
    log = module.run(blocks, [*buffers, tiling], cores="cube", check=False, cost=True, move=False)
    assert log is not None
    return replay_log(log, CHIP)


def product_option_rows() -> list[tuple[str, ...]]:
    """float16 products with all optimisations, and with none of them."""
    rows = []
    for m, k, n in ((2048,) * 3, (4096,) * 3, (8192,) * 3, (4000, 2049, 3001)):
        for transposed in (False, True):
            product = Contraction(m, n, k, out="float16", transpose_b=transposed)
            full = product_cost(product, CubeOptions())
            none = product_cost(product, CubeOptions.none())
            rows.append(
                (
                    f"{m} × {k} · " + (f"({n} × {k})ᵀ" if transposed else f"{k} × {n}"),
                    f"{full.time_us:.0f}", f"{full.bound_us:.0f}", f"{full.efficiency:.0%}",
                    f"{full.utilisation['M']:.1%}", f"{full.utilisation['MTE2']:.0%}",
                    f"× {none.time_us / full.time_us:.2f}",
                )
            )  # fmt: skip
    return rows


def switch_rows(dtype: str) -> list[tuple[str, ...]]:
    """What each optimisation is worth: the time without it over the time with all of them; without any."""
    rows = []
    for name in SWITCHED:
        work = workload(name)
        full = total(work, dtype, warm=True)[0]
        cells = [f"{full:.1f}"]
        without = [ALL._replace(**{switch: False}) for switch in SWITCHES]
        for options in (*without, Options(*(False for _ in SWITCHES))):
            cells.append(f"× {total(work, dtype, warm=True, options=options)[0] / full:.2f}")
        rows.append((name, *cells))
    return rows


def buffer_rows(dtype: str) -> list[tuple[str, ...]]:
    """Bytes of the unified buffer with and without reuse, and the most that is alive at once."""
    rows = []
    for work in WORKLOADS:
        for info in kernels(work, dtype):
            tiling = generate(info).tiling
            if not hasattr(tiling, "placement"):
                continue
            used, apart, alive = tiling.bytes_used, tiling.bytes_without_reuse, tiling.placement.live_bound
            rows.append(
                (
                    work.name,
                    f"{used:,}",
                    f"{apart:,}",
                    f"{max(tiling.saved, 0):.0%}",
                    f"{alive:,}",
                    f"{used / alive:.3f}",
                )
            )
    return rows


SCALES = (0.82, 0.9, 1.0, 1.1, 1.19)


def bucket_rows(dtype: str) -> list[tuple[str, ...]]:
    """The time with a bucket's tiling over the time with one made for the size."""
    rows = []
    for name in ("x + y", "GELU", "sum of rows", "softmax of rows", "layer norm of rows"):
        work = workload(name)
        cells = []
        middle = kernels(work, dtype, _scaled(work, 4096))
        for scale in SCALES:
            side = round(4096 * scale)
            infos = kernels(work, dtype, _scaled(work, side))
            if len(infos) != len(middle):
                cells.append("cut otherwise")
                continue
            exact = bucket = 0.0
            for info, like in zip(infos, middle, strict=True):
                exact += replay(info, generate(info), False).time_us
                bucket += replay(info, generate(info, like=like), False).time_us
            cells.append(f"{bucket / exact:.3f}")
        rows.append((name, *cells))
    return rows


def _scaled(work: Workload, side: int) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(side if extent == SIDE else extent for extent in shape) for shape in work.shapes)


def speed_rows() -> list[tuple[str, ...]]:
    """How long it takes to write a kernel, to compile it for the simulator, and to cost it."""
    rows = []
    for work in WORKLOADS:
        info = kernels(work, "float16")[0]
        writing = []
        for _ in range(5):
            began = time.perf_counter()
            assert info.work is not None and info.work.lowered is not None
            lowered = info.work.lowered
            generated = Ascend(CHIP, None).written(
                lowered.kernel, tune(lowered.kernel, lowered.binding, CHIP)
            )
            writing.append(time.perf_counter() - began)
        began = time.perf_counter()
        Simulator(CHIP, None).compile(generated.source, generated.name)
        compiling = time.perf_counter() - began
        compiled(generated, None)
        began = time.perf_counter()
        replay(info, generated, False)
        costing = time.perf_counter() - began
        lines = generated.source.count("\n")
        written = statistics.median(writing) * 1e3
        rows.append((work.name, str(lines), f"{written:.1f}", f"{compiling:.2f}", f"{costing:.2f}"))
    return rows
