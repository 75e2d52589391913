"""A product of matrices in both styles: a thread for each element, and tiles copied and multiplied."""

import numpy as np

import pyasc


@pyasc.kernel
def by_threads(c, a, b):
    i, j = pyasc.get_global_id(0), pyasc.get_global_id(1)
    total = 0.0
    for k in range(a.shape[1]):
        total += pyasc.float32(a[i, k]) * pyasc.float32(b[k, j])
    c[i, j] = total


@pyasc.kernel
def by_tiles(c, a, b, m: int, n: int, k: int):
    tm, tn, tk = pyasc.auto_tiling(m, n, k)
    for i in range(0, m, tm):
        for j in range(0, n, tn):
            total = pyasc.alloc("CO1", tm * tn * 4)  # float32
            for s in range(0, k, tk):
                left = pyasc.alloc("A1", tm * tk * 2)  # float16
                right = pyasc.alloc("B1", tk * tn * 2)
                pyasc.dma_copy(left, a[i : i + tm, s : s + tk])
                pyasc.dma_copy(right, b[s : s + tk, j : j + tn])
                pyasc.matmul(total, left, right, tm, tk, tn, accumulate=s > 0)
            pyasc.dma_copy(c[i : i + tm, j : j + tn], total)


m, n, k = 67, 45, 33  # multiples of nothing
rng = np.random.default_rng(0)
a = pyasc.asarray(rng.standard_normal((m, k)), dtype=pyasc.float16)
b = pyasc.asarray(rng.standard_normal((k, n)), dtype=pyasc.float16)
expected = a.numpy().astype(np.float32) @ b.numpy().astype(np.float32)

c, d = pyasc.empty((m, n)), pyasc.empty((m, n))
by_threads(c, a, b)
by_tiles(d, a, b, m, n, k)  # no grid: the loops over i and j are spread over the cores
print(f"threads: within 1e-3 of NumPy's: {np.allclose(c.numpy(), expected, atol=1e-3)}")
print(f"tiles:   within 1e-3 of NumPy's: {np.allclose(d.numpy(), expected, atol=1e-3)}")
