"""A vector kernel in tiles: copy in, compute, copy out, for a size that is no multiple of the tile."""

import numpy as np

import pyasc


@pyasc.kernel
def add_relu(c, a, b, n: int):
    t = pyasc.auto_tiling(n)
    for i in range(0, n, t):
        x = pyasc.alloc("UB", t * 4)  # bytes: float32
        y = pyasc.alloc("UB", t * 4)
        pyasc.dma_copy(x, a[i : i + t])  # the last slice ends where a ends
        pyasc.dma_copy(y, b[i : i + t])
        pyasc.elementwise("ADD", x, x, y, t)
        pyasc.elementwise("RELU", x, x, t)
        pyasc.dma_copy(c[i : i + t], x)


@pyasc.kernel
def softmax(out, x):
    rows, n = x.shape
    for i in range(rows):
        row = pyasc.alloc("UB", n * 4)
        one = pyasc.alloc("UB", 4)
        pyasc.dma_copy(row, x[i, :])
        pyasc.reduce("max", one, row)
        pyasc.elementwise("SUB", row, row, one)
        pyasc.elementwise("EXP", row, row)
        pyasc.reduce("sum", one, row)
        pyasc.elementwise("DIV", row, row, one)
        pyasc.dma_copy(out[i, :], row)


rng = np.random.default_rng(0)
n = 10_001
a, b = (pyasc.asarray(rng.standard_normal(n, np.float32)) for _ in range(2))
c = pyasc.empty(n)
add_relu(c, a, b, n)  # no grid: the tiles are spread over the cores
print("add and relu equal to NumPy's:", np.array_equal(c.numpy(), np.maximum(a.numpy() + b.numpy(), 0)))

x = pyasc.asarray(rng.standard_normal((21, 300), np.float32))
y = pyasc.empty((21, 300))
softmax(y, x)
expected = np.exp(x.numpy()) / np.exp(x.numpy()).sum(1, keepdims=True)
print("softmax within 1e-6 of NumPy's:", np.allclose(y.numpy(), expected, atol=1e-6))
