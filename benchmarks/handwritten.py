"""Kernels written by hand, for pyasc, for numba, and as array code: what benchmarks/kernels.py measures."""

# mypy: ignore-errors

from __future__ import annotations

import math

import numpy as np

import pyasc

try:
    import numba
except ImportError:
    numba = None


# --- pyasc ------------------------------------------------------------------------------------------------


@pyasc.kernel
def vector_add(c, a, b):
    i = pyasc.get_global_id(0)
    c[i] = a[i] + b[i]


@pyasc.kernel
def negate(b, a):
    i = pyasc.get_global_id(0)
    b[i] = -a[i]


@pyasc.kernel(block_dim=(16, 16))
def sobel(edges, p):
    i, j = pyasc.get_global_id(0), pyasc.get_global_id(1)
    if 0 < i < p.shape[0] - 1 and 0 < j < p.shape[1] - 1:
        gx = (
            p[i - 1, j + 1]
            - p[i - 1, j - 1]
            + 2 * (p[i, j + 1] - p[i, j - 1])
            + p[i + 1, j + 1]
            - p[i + 1, j - 1]
        )
        gy = (
            p[i + 1, j - 1]
            - p[i - 1, j - 1]
            + 2 * (p[i + 1, j] - p[i - 1, j])
            + p[i + 1, j + 1]
            - p[i - 1, j + 1]
        )
        edges[i, j] = min(math.sqrt(gx * gx + gy * gy), 255)


@pyasc.kernel
def matmul(c, a, b):
    i, j = pyasc.get_global_id(0), pyasc.get_global_id(1)
    total = 0.0
    for k in range(a.shape[1]):
        total += a[i, k] * b[k, j]
    c[i, j] = total


@pyasc.kernel
def histogram(counts, values):
    i = pyasc.get_global_id(0)
    pyasc.atomic_add(counts, values[i], 1)


@pyasc.kernel
def nbody(ax, ay, az, x, y, z, mass):
    i = pyasc.get_global_id(0)
    fx = fy = fz = 0.0
    for j in range(x.shape[0]):
        dx, dy, dz = x[j] - x[i], y[j] - y[i], z[j] - z[i]
        square = dx * dx + dy * dy + dz * dz + 0.01
        force = mass[j] / (square * math.sqrt(square))
        fx += force * dx
        fy += force * dy
        fz += force * dz
    ax[i] = fx
    ay[i] = fy
    az[i] = fz


@pyasc.kernel
def row_sums(out, x):
    i = pyasc.get_global_id(0)
    total = pyasc.register(0.0)
    for j in range(x.shape[1]):
        total += x[i, j]
    out[i] = total


def _resize(output, image, new_shape):
    i, j = pyasc.get_global_id(0), pyasc.get_global_id(1)
    h, w = image.shape
    if i < new_shape[0] and j < new_shape[1]:
        y = i * ((h - 1) / (new_shape[0] - 1))
        x = j * ((w - 1) / (new_shape[1] - 1))
        y0, x0 = min(int(y), h - 2), min(int(x), w - 2)
        dy, dx = y - y0, x - x0
        top = image[y0, x0] * (1 - dx) + image[y0, x0 + 1] * dx
        bottom = image[y0 + 1, x0] * (1 - dx) + image[y0 + 1, x0 + 1] * dx
        output[i, j] = top * (1 - dy) + bottom * dy


resize_2d = pyasc.kernel(dynamic_shape=True)(_resize)
resize_2d_exact = pyasc.kernel(dynamic_shape=False)(_resize)


def _tiled_matmul(c, a, b, m: int, n: int, k: int):
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


tiled_matmul = pyasc.kernel(_tiled_matmul)
tiled_matmul_plain = pyasc.kernel(optimize=False)(_tiled_matmul)


def tiled_add_of(itemsize):
    """A tile-style addition of elements of a size; alloc takes bytes."""

    @pyasc.kernel
    def tiled_add(c, a, b, n: int):
        t = pyasc.auto_tiling(n)
        for o in range(0, n, t):
            x = pyasc.alloc("UB", t * itemsize)
            y = pyasc.alloc("UB", t * itemsize)
            z = pyasc.alloc("UB", t * itemsize)
            pyasc.dma_copy(x, a[o : o + t])
            pyasc.dma_copy(y, b[o : o + t])
            pyasc.elementwise("ADD", z, x, y, t)
            pyasc.dma_copy(c[o : o + t], z)

    return tiled_add


# --- array code -------------------------------------------------------------------------------------------


def sobel_in_arrays(p):
    gx = p[:-2, 2:] - p[:-2, :-2] + 2 * (p[1:-1, 2:] - p[1:-1, :-2]) + p[2:, 2:] - p[2:, :-2]
    gy = p[2:, :-2] - p[:-2, :-2] + 2 * (p[2:, 1:-1] - p[:-2, 1:-1]) + p[2:, 2:] - p[:-2, 2:]
    return pyasc.minimum(pyasc.sqrt(gx * gx + gy * gy), 255)


def sobel_in_python(rows):
    edges = []
    for above, row, below in zip(rows, rows[1:], rows[2:], strict=False):
        line = []
        for j in range(1, len(row) - 1):
            gx = above[j + 1] - above[j - 1] + 2 * (row[j + 1] - row[j - 1]) + below[j + 1] - below[j - 1]
            gy = below[j - 1] - above[j - 1] + 2 * (below[j] - above[j]) + below[j + 1] - above[j + 1]
            line.append(min(math.sqrt(gx * gx + gy * gy), 255))
        edges.append(line)
    return edges


# --- numba ------------------------------------------------------------------------------------------------

if numba is not None:

    @numba.njit(parallel=True)
    def numba_vector_add(c, a, b):
        for i in numba.prange(c.shape[0]):
            c[i] = a[i] + b[i]

    @numba.njit(parallel=True)
    def numba_sobel(edges, p):
        for i in numba.prange(1, p.shape[0] - 1):
            for j in range(1, p.shape[1] - 1):
                gx = (
                    p[i - 1, j + 1]
                    - p[i - 1, j - 1]
                    + 2 * (p[i, j + 1] - p[i, j - 1])
                    + p[i + 1, j + 1]
                    - p[i + 1, j - 1]
                )
                gy = (
                    p[i + 1, j - 1]
                    - p[i - 1, j - 1]
                    + 2 * (p[i + 1, j] - p[i - 1, j])
                    + p[i + 1, j + 1]
                    - p[i - 1, j + 1]
                )
                edges[i, j] = min(math.sqrt(gx * gx + gy * gy), numba.float32(255))

    @numba.njit(parallel=True)
    def numba_matmul(c, a, b):
        for i in numba.prange(c.shape[0]):
            for j in range(c.shape[1]):
                total = numba.float32(0)
                for k in range(a.shape[1]):
                    total += a[i, k] * b[k, j]
                c[i, j] = total

    @numba.njit(parallel=True)
    def numba_histogram(counts, values):
        # Each thread counts for itself: updates of one array would be lost.
        threads = numba.get_num_threads()
        partial = np.zeros((threads, counts.shape[0]), counts.dtype)
        step = (values.shape[0] + threads - 1) // threads
        for t in numba.prange(threads):
            for i in range(t * step, min((t + 1) * step, values.shape[0])):
                partial[t, values[i]] += 1
        for t in range(threads):
            for k in range(counts.shape[0]):
                counts[k] += partial[t, k]

    @numba.njit(parallel=True)
    def numba_nbody(ax, ay, az, x, y, z, mass):
        for i in numba.prange(x.shape[0]):
            fx = fy = fz = numba.float32(0)
            for j in range(x.shape[0]):
                dx, dy, dz = x[j] - x[i], y[j] - y[i], z[j] - z[i]
                square = dx * dx + dy * dy + dz * dz + numba.float32(0.01)
                force = mass[j] / (square * math.sqrt(square))
                fx += force * dx
                fy += force * dy
                fz += force * dz
            ax[i] = fx
            ay[i] = fy
            az[i] = fz
