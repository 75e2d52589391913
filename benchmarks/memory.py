"""What programs keep: the peak of a chain, and a loop that must stay flat."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from expressions import expression
from report import Figure

MIB = 2**20


def measure(peers: dict[str, ModuleType], quick: bool) -> list[Figure]:
    import pyasc as pa

    return [*chain_peak(pa, quick), *update_loop(100_000 if quick else 1_000_000)]


def chain_peak(pa: Any, quick: bool) -> list[Figure]:
    """Bytes beyond the input at the peak of 20 elementwise operations: the output's and nothing else."""
    values = np.random.default_rng(0).random(2**16 if quick else 2**24, np.float32)
    x = pa.asarray(values)
    pa.sync(x)
    size = values.nbytes / MIB
    figures = []
    for name, function in (("lazy", chain), ("jit", pa.jit(chain))):
        pa.sync(function(x))
        pa.reset_peak_memory()
        before = pa.memory_stats()["used"]
        out = function(x)
        pa.sync(out)
        peak = (pa.memory_stats()["peak"] - before) / MIB
        del out
        title = f"peak beyond the {size:.3g} MiB input of 20 operations ({name})"
        figures.append(Figure(title, peak, "MiB", size * 1.001))
    return figures


def chain(x: Any) -> Any:
    import pyasc as pa

    return expression(pa, x, 20, seed=20)


LOOP = """
import json, time
import numpy as np
import pyasc as pa

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

x = pa.asarray(np.ones(16, np.float32))
rest = {count} // 10
start = time.perf_counter()
for _ in range(rest):
    x = x * 0.5 + 1
early = resident()
for _ in range({count} - rest):
    x = x * 0.5 + 1
late = resident()
took = time.perf_counter() - start
assert abs(float(x[0]) - 2) < 1e-5
print(json.dumps([late - early, took]))
"""


def update_loop(count: int) -> list[Figure]:
    """x = x*0.5 + 1 again and again, never read: growth of the resident memory after the first tenth."""
    if not Path("/proc/self/statm").exists():
        return []
    run = subprocess.run(
        [sys.executable, "-c", LOOP.format(count=count)], capture_output=True, text=True, check=True
    )
    grown, took = json.loads(run.stdout)
    return [
        Figure(f"growth of memory over {count} unread updates", grown / MIB, "MiB", 4),
        Figure(f"time of an unread update of {count}", took / count * 1e6, "µs"),
    ]
