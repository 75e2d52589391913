"""What surrounds the kernels: recording, compiling, caches, calls and importing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Any

import numpy as np
from expressions import expression
from report import Figure

clock = time.perf_counter
SIZE = 1000


def milliseconds(function: Callable[[], Any]) -> float:
    start = clock()
    function()
    return (clock() - start) * 1e3


def per_call(function: Callable[[], Any], calls: int, repeats: int = 9) -> float:
    """Microseconds of a call: the median of several loops."""
    times = []
    for _ in range(repeats):
        start = clock()
        for _ in range(calls):
            function()
        times.append((clock() - start) / calls * 1e6)
    return median(times)


def measure(peers: dict[str, ModuleType], quick: bool) -> list[Figure]:
    import pyasc as pa

    repeats = 3 if quick else 9
    beside = {length: jax_beside(peers, length, repeats) for length in (20, 500)}
    with tempfile.TemporaryDirectory() as folder, pa.config.override(cache_dir=folder):
        figures = [
            *first_times(pa, repeats, beside),
            *from_disk(folder, repeats),
            *recording(pa, repeats),
            *flushes(pa, repeats),
            *jitted_call(pa, peers, repeats),
        ]
    return [*figures, import_time(repeats)]


def first_times(pa: Any, repeats: int, beside: dict[int, str]) -> list[Figure]:
    """A new structure each time, so that no cache can hold it."""
    a = pa.asarray(np.random.default_rng(0).random(SIZE, np.float32))
    pa.sync(expression(pa, a, 20, seed=10**6))  # what the first kernel of a process costs besides
    figures = []
    for length, limit in ((20, 25), (500, 250)):
        compiles = pa.cache_stats()["compiles"]
        times = [
            milliseconds(lambda s=seed, n=length: pa.sync(expression(pa, a, n, s))) for seed in range(repeats)
        ]
        if pa.cache_stats()["compiles"] - compiles < repeats:
            raise RuntimeError("an expression taken for new was in the cache")
        figures.append(
            Figure(
                f"new expression of {length} operations, record to result",
                median(times),
                "ms",
                limit,
                beside[length],
            )
        )
    return figures


def jax_beside(peers: dict[str, ModuleType], length: int, repeats: int) -> str:
    if "jax" not in peers:
        return ""
    import jax
    import jax.numpy as jnp

    a = jnp.asarray(np.random.default_rng(0).random(SIZE, np.float32))

    def first(seed: int) -> None:
        jax.jit(lambda x: expression(jnp, x, length, seed))(a).block_until_ready()

    first(10**6)
    return f"JAX {median(milliseconds(lambda s=seed: first(s)) for seed in range(repeats)):.3g} ms"


CHILD = """
import sys, json, time
sys.path.insert(0, {here!r})
import numpy as np
import pyasc as pa
from expressions import expression
a = pa.asarray(np.random.default_rng(0).random({size}, np.float32))
times = []
for seed in range(100, 104):
    start = time.perf_counter()
    pa.sync(expression(pa, a, 20, seed))
    times.append((time.perf_counter() - start) * 1e3)
print(json.dumps([times, pa.cache_stats()["compiles"]]))
"""


def from_disk(folder: str, repeats: int) -> list[Figure]:
    """Each time a new process, whose kernels an earlier one compiled."""
    code = CHILD.format(here=str(Path(__file__).parent), size=SIZE)
    environment = os.environ | {"PYASC_CACHE_DIR": folder}
    cold, later = [], []
    for turn in range(repeats + 1):
        run = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
        )
        times, compiles = json.loads(run.stdout)
        if turn:
            if compiles:
                raise RuntimeError("a kernel that an earlier process kept on disk was compiled again")
            cold.append(times[0])
            later.append(median(times[1:]))
    return [
        Figure("20 operations from the disk cache, first in a new process", median(cold), "ms", 3),
        Figure("20 operations from the disk cache, later ones", median(later), "ms", 3),
    ]


def recording(pa: Any, repeats: int) -> list[Figure]:
    a, b = pa.asarray(np.ones(8, np.float32)), pa.asarray(np.ones(8, np.float32))
    pa.sync(a + b)
    figures = [
        Figure(f"recording {name}", per_call(function, 2000, repeats), "µs", 2)
        for name, function in (
            ("a + b", lambda: a + b),
            ("a * 2.0", lambda: a * 2.0),
            ("exp(a)", lambda: pa.exp(a)),
        )
    ]
    figures.append(Figure("recording a view, a[1:]", per_call(lambda: a[1:], 2000, repeats), "µs"))
    return figures


def flushes(pa: Any, repeats: int) -> list[Figure]:
    """A sync of an expression recorded before, on small arrays: everything but recording."""
    a = pa.asarray(np.ones(8, np.float32))
    figures = []
    for length in (1, 20, 100):
        times = []
        for _ in range(100 * repeats):
            out = expression(pa, a, length, seed=length)
            start = clock()
            pa.sync(out)
            times.append((clock() - start) * 1e6)
        figures.append(Figure(f"cached flush of {length} operations", median(times), "µs", 20 + length))
    return figures


def jitted_call(pa: Any, peers: dict[str, ModuleType], repeats: int) -> list[Figure]:
    values = np.ones(8, np.float32)
    a, b = pa.asarray(values), pa.asarray(values)
    function = pa.jit(lambda x, y: x * y + 1)
    pa.sync(function(a, b))
    beside = ""
    if "jax" in peers:
        import jax
        import jax.numpy as jnp

        u, v = jnp.asarray(values), jnp.asarray(values)
        other = jax.jit(lambda x, y: x * y + 1)
        other(u, v).block_until_ready()
        beside = f"JAX {per_call(lambda: other(u, v).block_until_ready(), 2000, repeats):.3g} µs"
    took = per_call(lambda: pa.sync(function(a, b)), 2000, repeats)
    return [Figure("call of a jitted function of one kernel, with its result", took, "µs", 10, beside)]


def import_time(repeats: int) -> Figure:
    code = "import time; start = time.perf_counter(); import pyasc; print(time.perf_counter() - start)"
    times = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
        for _ in range(repeats)
    ]
    return Figure("import pyasc, NumPy included", median(times), "s", 0.3)
