"""An operator of one's own: prototype, test, debug, simulate, profile, export."""

import tempfile
from pathlib import Path

import numpy as np

import pyasc


# Prototype: a kernel, and the same in NumPy.
@pyasc.kernel
def smooth_step(out, x, low: float, high: float):
    i = pyasc.get_global_id(0)
    t = min(max((x[i] - low) / (high - low), 0), 1)
    out[i] = t * t * (3 - 2 * t)


def reference(x, low, high):
    t = np.clip((x - low) / (high - low), 0, 1)
    return t * t * (3 - 2 * t)


pyasc.register_operator("smooth_step", smooth_step, reference=reference)
x = pyasc.linspace(-1, 2, 7)
print(pyasc.smooth_step(x, 0.0, 1.0))  # the output is allocated
print(pyasc.smooth_step(x.numpy(), 0.0, 1.0))  # NumPy in, NumPy out

# Test: against the reference, on the CPU and on the simulated chip.
print(pyasc.smooth_step.check(x, 0.0, 1.0))

# Debug: thread by thread in Python, each access checked.
with pyasc.config.override(debug=True):
    print(pyasc.smooth_step(x, 0.0, 1.0))

# Simulate: what it costs on an Ascend 910B1, for a size that matters.
large = pyasc.empty(2**24)  # memory that is never touched
cost = pyasc.cost(pyasc.smooth_step, large, 0.0, 1.0)
kernel, predicted = cost.kernels[0]  # kernel.source("ascendc"), kernel.tiling, predicted.timeline say more
print(f"{kernel.name}: bound by {predicted.bound}, {kernel.bytes_written / 2**20:.0f} MiB written")

# Profile: what ran, and which line asked for it.
with pyasc.Profiler() as profiler:
    pyasc.sync(pyasc.smooth_step(x, 0.0, 1.0))
for row in profiler.timeline:
    if row.kind == "kernel":
        print(f"{row.name}: {row.calls} call, asked for at {row.place}")

# Export: a C++ project for CANN; `make simulate` in it builds, runs and checks it here.
folder = Path(tempfile.mkdtemp()) / "smooth_step"
pyasc.export(pyasc.smooth_step, x, 0.0, 1.0, folder=folder)
print(sorted(path.name for path in folder.iterdir()))
