"""A function written in C, called from Python, on whole tensors, and inside a kernel."""

from pathlib import Path

import numpy as np

import pyasc

fast_math = pyasc.FFI(Path(__file__).with_name("fast_math.c"))  # compiled for the host; a .so does as well
fast_sqrt = fast_math.get_function("fast_sqrt", "float(float)")


@pyasc.kernel
def length(out, x, y):
    i = pyasc.get_global_id(0)
    out[i] = fast_sqrt(x[i] * x[i] + y[i] * y[i])


print(f"from Python: {fast_sqrt(2.0):.4f}")

rng = np.random.default_rng(0)
x, y = (pyasc.asarray(rng.standard_normal(500, np.float32)) for _ in range(2))
roots = fast_sqrt(abs(x))  # an elementwise operation
print(f"on a tensor: within 1e-4: {np.allclose(roots.numpy(), np.sqrt(np.abs(x.numpy())), rtol=1e-4)}")

out = pyasc.empty(500)
length(out, x, y)
print(f"in a kernel: within 1e-4: {np.allclose(out.numpy(), np.hypot(x.numpy(), y.numpy()), rtol=1e-4)}")
