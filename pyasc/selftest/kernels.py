"""Kernels written by hand for `checks`: threads, shared memory, atomic updates, tiles."""

# mypy: ignore-errors
# The bodies are the kernel language; annotations would be types of its arguments.
import pyasc

BLOCK = 64


@pyasc.kernel
def axpy(out, x, y, factor: float):
    i = pyasc.get_global_id(0)
    out[i] = factor * x[i] + y[i]


@pyasc.kernel
def edges(out, x):
    i, j = pyasc.get_global_id(0), pyasc.get_global_id(1)
    if 0 < i < out.shape[0] - 1 and 0 < j < out.shape[1] - 1:
        out[i, j] = pyasc.abs(x[i - 1, j] - x[i + 1, j]) + pyasc.abs(x[i, j - 1] - x[i, j + 1])


@pyasc.kernel(block_dim=BLOCK)
def block_sums(out, x):
    t = pyasc.get_local_id(0)
    shared = pyasc.shared((BLOCK,), pyasc.float32)
    shared[t] = x[pyasc.get_global_id(0)]
    pyasc.barrier()
    if t == 0:
        total = 0.0
        for k in range(BLOCK):
            total += shared[k]
        out[pyasc.get_group_id(0)] = total


@pyasc.kernel
def histogram(counts, x):
    i = pyasc.get_global_id(0)
    pyasc.atomic_add(counts, x[i], 1)


@pyasc.kernel
def tiled_relu(c, a, b, n: int):
    t = pyasc.auto_tiling(n)
    for i in range(0, n, t):
        x = pyasc.alloc("UB", t * 4)
        y = pyasc.alloc("UB", t * 4)
        pyasc.dma_copy(x, a[i : i + t])
        pyasc.dma_copy(y, b[i : i + t])
        pyasc.elementwise("ADD", x, x, y, t)
        pyasc.elementwise("RELU", x, x, t)
        pyasc.dma_copy(c[i : i + t], x)


@pyasc.kernel
def tiled_product(c, a, b, m: int, n: int, k: int):
    tm, tn, tk = pyasc.auto_tiling(m, n, k)
    for i in range(0, m, tm):
        for j in range(0, n, tn):
            total = pyasc.alloc("CO1", tm * tn * 4)
            for s in range(0, k, tk):
                left = pyasc.alloc("A1", tm * tk * 2)
                right = pyasc.alloc("B1", tk * tn * 2)
                pyasc.dma_copy(left, a[i : i + tm, s : s + tk])
                pyasc.dma_copy(right, b[s : s + tk, j : j + tn])
                pyasc.matmul(total, left, right, tm, tk, tn, accumulate=s > 0)
            pyasc.dma_copy(c[i : i + tm, j : j + tn], total)
