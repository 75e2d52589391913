"""Figures of kernels written by hand: ``python benchmarks/kernels.py``.

On the CPU beside numba (parallel loops, fast-math off) and array code, in interleaved rounds of one process;
on the chip from the simulator's cost model, without data. Ratios are medians over the rounds.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from ascend import Section

IDLE = 0.02  # seconds in which the other library's threads go to sleep
ENOUGH = 0.05  # seconds of timed calls of one function in a round


def rounds(functions: dict[str, Callable[[], Any]], count: int) -> dict[str, list[float]]:
    """Seconds of a call of each function, one for each round; the functions take turns."""
    calls = {}
    for name, function in functions.items():
        function()
        start = time.perf_counter()
        function()
        calls[name] = max(1, int(ENOUGH / max(time.perf_counter() - start, 1e-6)))
    samples: dict[str, list[float]] = {name: [] for name in functions}
    for turn in range(count):
        names = list(functions)
        for name in names if turn % 2 else reversed(names):
            time.sleep(IDLE)
            functions[name]()
            start = time.perf_counter()
            for _ in range(calls[name]):
                functions[name]()
            samples[name].append((time.perf_counter() - start) / calls[name])
    return samples


def ratio(samples: dict[str, list[float]], one: str, two: str) -> float:
    return median(a / b for a, b in zip(samples[one], samples[two], strict=True))


def _ms(samples: list[float]) -> str:
    return f"{median(samples) * 1e3:.2f}"


# --- the CPU ----------------------------------------------------------------------------------------------


def cpu(section: Section, count: int) -> None:
    """Thread-style kernels beside numba's loops; arrays of NumPy, in place, for both."""
    import handwritten as k

    random = np.random.default_rng(0)

    def uniform(*shape: int) -> Any:
        return random.random(shape, np.float32)

    big = 2**24
    a, b, c, c2 = uniform(big), uniform(big), np.empty(big, np.float32), np.empty(big, np.float32)
    image = uniform(2000, 2500) * 255
    edges, edges2 = np.zeros_like(image), np.zeros_like(image)
    left, right = uniform(512, 512), uniform(512, 512)
    product, product2 = np.empty_like(left), np.empty_like(left)
    bytes_ = random.integers(0, 256, big)
    counts, counts2 = np.zeros(256, np.int64), np.zeros(256, np.int64)
    bodies = [uniform(4096) for _ in range(4)]
    forces, forces2 = (
        [np.empty(4096, np.float32) for _ in range(3)],
        [np.empty(4096, np.float32) for _ in range(3)],
    )

    pairs: dict[str, tuple[Callable[[], Any], str, tuple[Any, ...], tuple[Any, ...], float]] = {
        "vector add, 16.8 M": (lambda: k.vector_add(c, a, b), "numba_vector_add", (c2, a, b), (c, c2), 0),
        "Sobel, 5 M pixels": (
            lambda: k.sobel[(2000, 2500)](edges, image),
            "numba_sobel",
            (edges2, image),
            (edges, edges2),
            1e-4,
        ),
        "product, 512³": (
            lambda: k.matmul(product, left, right),
            "numba_matmul",
            (product2, left, right),
            (product, product2),
            1e-4,
        ),
        "histogram of 16.8 M int64 in 256 bins": (
            lambda: k.histogram[big](counts, bytes_),
            "numba_histogram",
            (counts2, bytes_),
            (counts, counts2),
            0,
        ),
        "n-body, 4096": (
            lambda: k.nbody(*forces, *bodies),
            "numba_nbody",
            (*forces2, *bodies),
            (forces[0], forces2[0]),
            1e-3,
        ),
    }
    rows = []
    for name, (ours, theirs, arguments, results, tolerance) in pairs.items():
        functions = {"pyasc": ours}
        beside = getattr(k, theirs, None)
        if beside is not None:
            functions["numba"] = lambda beside=beside, arguments=arguments: beside(*arguments)
        counts[...] = counts2[...] = 0
        for function in functions.values():
            function()
        if beside is not None:
            np.testing.assert_allclose(results[0], results[1], rtol=tolerance, atol=tolerance)
        samples = rounds(functions, count)
        cells = (
            (_ms(samples["numba"]), f"{ratio(samples, 'pyasc', 'numba'):.2f}")
            if beside is not None
            else ("", "")
        )
        rows.append((name, _ms(samples["pyasc"]), *cells))
    section.table(("", "pyasc, ms", "numba, ms", "pyasc / numba"), rows)
    _array_code(section, count, image)


def _array_code(section: Section, count: int, image: Any) -> None:
    import handwritten as k

    import pyasc

    x = pyasc.asarray(image)
    edges = pyasc.zeros(image.shape)
    sums = pyasc.empty(image.shape[0])
    pyasc.sync(x, edges, sums)

    def kernel(function: Callable[..., Any], out: Any, *inputs: Any) -> Callable[[], None]:
        def run() -> None:
            function(out, *inputs)
            pyasc.sync(out)

        return run

    sobel = rounds(
        {
            "kernel": kernel(k.sobel[image.shape], edges, x),
            "array code": lambda: pyasc.sync(k.sobel_in_arrays(x)),
        },
        count,
    )
    reduction = rounds(
        {"kernel": kernel(k.row_sums, sums, x), "array code": lambda: pyasc.sync(x.sum(axis=1))}, count
    )
    rows = [
        (name, _ms(s["kernel"]), _ms(s["array code"]), f"{ratio(s, 'kernel', 'array code'):.2f}")
        for name, s in (("Sobel, 5 M pixels", sobel), ("row sums of 2000 × 2500", reduction))
    ]
    section.table(("", "kernel, ms", "array code, ms", "kernel / array code"), rows)
    part = image[:100].tolist()
    start = time.perf_counter()
    k.sobel_in_python(part)
    loop = (time.perf_counter() - start) / (98 * 2498) * (1998 * 2498)
    section.remark(
        f"Sobel's loop in pure Python would take {loop:.1f} s (measured on 100 of 2000 rows): "
        f"{loop / median(sobel['kernel']):.0f} times as long."
    )


# --- calls ------------------------------------------------------------------------------------------------


def calls(section: Section, count: int) -> None:
    """What surrounds a kernel: the first call, and calls after that."""
    import handwritten as k

    import pyasc

    pyasc.clear_cache()  # what the other sections compiled
    with tempfile.TemporaryDirectory() as folder, pyasc.config.override(cache_dir=folder):
        firsts = _first_calls(Path(folder))
    rows = [(name, f"{ms:.1f} ms") for name, ms in firsts]
    a, b, c = (pyasc.ones(8) for _ in range(3))
    pyasc.sync(a, b, c)
    x, y, z = (np.ones(8, np.float32) for _ in range(3))

    def call_and_wait() -> None:
        k.vector_add(c, a, b)
        pyasc.sync(c)

    def record() -> None:
        k.vector_add(c, a, b)

    for name, function in (
        ("later call on tensors, recorded", record),
        ("later call on tensors, with its result", call_and_wait),
        ("later call on NumPy's arrays, which runs at once", lambda: k.vector_add(z, x, y)),
    ):
        times = []
        for _ in range(max(count, 5)):
            start = time.perf_counter()
            for _ in range(500):
                function()
            times.append((time.perf_counter() - start) / 500 * 1e6)
            pyasc.sync(c)
        rows.append((name, f"{median(times):.1f} µs"))
    section.table(("", ""), rows)


def _first_calls(folder: Path) -> list[tuple[str, float]]:
    """Milliseconds of the first call of kernels in a module that nothing has seen before."""
    import pyasc

    path = folder / "fresh.py"
    path.write_text(Path(__file__).with_name("handwritten.py").read_text())
    spec = importlib.util.spec_from_file_location("fresh", path)
    assert spec is not None and spec.loader is not None
    fresh = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fresh)
    n = 64
    square = [pyasc.ones((n, n)) for _ in range(3)]
    line = [pyasc.ones(n) for _ in range(7)]
    pyasc.sync(*square, *line)
    pyasc.sync(square[0] * 2 + 1)  # what the first kernel of a process costs besides
    fresh.negate(line[5], line[6])
    pyasc.sync(line[5])
    found = []
    for name, out, call in (
        ("first call of vector add", line[0], lambda: fresh.vector_add(*line[:3])),
        ("first call of Sobel", square[0], lambda: fresh.sobel[(n, n)](*square[:2])),
        ("first call of the product", square[0], lambda: fresh.matmul(*square)),
        ("first call of n-body", line[0], lambda: fresh.nbody(*line)),
        ("first call of resize_2d", square[0], lambda: fresh.resize_2d(square[0], square[1], (n, n))),
    ):
        start = time.perf_counter()
        call()
        pyasc.sync(out)
        found.append((name, (time.perf_counter() - start) * 1e3))
    return found


# --- buckets ----------------------------------------------------------------------------------------------


def buckets(section: Section, count: int) -> None:
    """resize_2d over sizes within 20 % of one: kernels compiled, and the time beside code for one size."""
    import handwritten as k

    import pyasc

    image = pyasc.asarray(np.random.default_rng(0).random((1080, 1920), np.float32))
    pyasc.sync(image)

    def resize(function: Any, shape: tuple[int, int]) -> Callable[[], None]:
        output = pyasc.empty(shape)
        pyasc.sync(output)

        def run() -> None:
            function(output, image, shape)
            pyasc.sync(output)

        return run

    middle = (720, 1280)
    resize(k.resize_2d, middle)()
    before = pyasc.cache_stats()
    shapes = [(576 + 5 * n, 1530 - 9 * n) for n in range(50)]
    for shape in shapes:
        resize(k.resize_2d, shape)()
    made = pyasc.cache_stats()["misses"] - before["misses"]
    ratios = []
    for shape in shapes[:: max(1, 50 // count)]:
        samples = rounds(
            {"bucket": resize(k.resize_2d, shape), "exact": resize(k.resize_2d_exact, shape)},
            2 * count,
        )
        ratios.append(ratio(samples, "bucket", "exact"))
    section.remark(
        f"resize_2d to 50 sizes from {shapes[0]} to {shapes[-1]}: {made} kernels compiled after the first. "
        f"Beside code in which the sizes are constants: {median(ratios):.3f} of its time in the median, "
        f"{max(ratios):.3f} at worst, over {len(ratios)} of the sizes."
    )


# --- the chip ---------------------------------------------------------------------------------------------


def chip(section: Section) -> None:
    """Kernels on a simulated Ascend 910B1, by its cost model."""
    import handwritten as k

    import pyasc

    n = 4096
    half = pyasc.float16
    a, b = pyasc.empty((n, n), half), pyasc.empty((n, n), half)

    def tiled(function: Any) -> Callable[..., Any]:
        def run(a: Any, b: Any) -> Any:
            c = pyasc.empty((n, n), half)
            function(c, a, b, n, n, n)
            return c

        return run

    own = pyasc.cost(lambda a, b: a @ b, a, b).time_us
    tile = pyasc.cost(tiled(k.tiled_matmul), a, b).time_us
    plain = pyasc.cost(tiled(k.tiled_matmul_plain), a, b).time_us
    section.table(
        ("float16, 4096³", "µs", "ratio"),
        [
            ("a @ b", f"{own:.0f}", ""),
            ("tile-style kernel", f"{tile:.0f}", f"{tile / own:.3f} of a @ b"),
            ("the same with optimize=False", f"{plain:.0f}", f"{plain / tile:.2f} times the kernel"),
        ],
    )
    rows = []
    for dtype in (half, pyasc.float32):
        line, image = pyasc.empty(2**26, dtype), pyasc.empty((8192, 8192), dtype)
        add = k.tiled_add_of(dtype.itemsize)
        for name, kernel, shape, arguments in (
            ("vector add, threads", k.vector_add, line.shape, (line, line)),
            ("vector add, tiles", lambda c, x, y, add=add: add(c, x, y, 2**26), line.shape, (line, line)),
            ("Sobel, threads", k.sobel[image.shape], image.shape, (image,)),
            ("row sums, threads", k.row_sums, image.shape[:1], (image,)),
        ):

            def run(*arrays: Any, kernel: Any = kernel, shape: Any = shape, dtype: Any = dtype) -> Any:
                c = pyasc.empty(shape, dtype)
                kernel(c, *arrays)
                return c

            cost = pyasc.cost(run, *arguments)
            took = max(cost.time_us, 1e-9)
            least = sum(one.bound_us for _, one in cost.kernels)
            bounds = ", ".join(dict.fromkeys(one.bound for _, one in cost.kernels)) or "runs on the host"
            rows.append((f"{name}, {dtype.name}", f"{took:.0f}", f"{least / took:.0%}", bounds))
    section.table(("64 M elements", "µs", "of the bound", "bound by"), rows)


SECTIONS = {"cpu": "The CPU, beside numba", "calls": "Calls", "buckets": "Sizes", "chip": "The chip"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--into", type=Path, help="a page whose figures, between its marks, are replaced")
    options = parser.parse_args()
    os.environ.setdefault("NUMBA_NUM_THREADS", str(len(os.sched_getaffinity(0))))
    parts = []
    for name in options.only:
        section = Section(SECTIONS[name])
        if name == "chip":
            chip(section)
        else:
            {"cpu": cpu, "calls": calls, "buckets": buckets}[name](section, options.rounds)
        print(section.markdown(), flush=True)
        parts.append(section.markdown())
    if options.into:
        write_into(options.into, parts)


def write_into(page: Path, parts: list[str]) -> None:
    """Replace the figures of a page, which are between marks, by these sections."""
    before, rest = page.read_text().split("<!-- figures -->", 1)
    after = rest.split("<!-- end figures -->", 1)[1]
    body = "\n".join(part.replace("## ", "### ", 1) for part in parts)
    page.write_text(f"{before}<!-- figures -->\n\n{body}\n<!-- end figures -->{after}")


if __name__ == "__main__":
    main()
