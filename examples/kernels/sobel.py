"""Sobel's edges by a kernel in blocks of 16 × 16 threads, equal to the same in array code."""

import numpy as np

import pyasc


@pyasc.kernel(block_dim=(16, 16))
def sobel(edges, p):
    i, j = pyasc.get_global_id(0), pyasc.get_global_id(1)
    h, w = p.shape
    if 0 < i < h - 1 and 0 < j < w - 1:
        above = p[i - 1, j - 1] + 2 * p[i - 1, j] + p[i - 1, j + 1]
        below = p[i + 1, j - 1] + 2 * p[i + 1, j] + p[i + 1, j + 1]
        left = p[i - 1, j - 1] + 2 * p[i, j - 1] + p[i + 1, j - 1]
        right = p[i - 1, j + 1] + 2 * p[i, j + 1] + p[i + 1, j + 1]
        gx, gy = right - left, below - above
        edges[i, j] = min(pyasc.sqrt(gx * gx + gy * gy), 255)


def array_code(p):
    above = p[:-2, :-2] + 2 * p[:-2, 1:-1] + p[:-2, 2:]
    below = p[2:, :-2] + 2 * p[2:, 1:-1] + p[2:, 2:]
    left = p[:-2, :-2] + 2 * p[1:-1, :-2] + p[2:, :-2]
    right = p[:-2, 2:] + 2 * p[1:-1, 2:] + p[2:, 2:]
    gx, gy = right - left, below - above
    return pyasc.minimum(pyasc.sqrt(gx * gx + gy * gy), 255)


h, w = 120, 200
rng = np.random.default_rng(0)
image = pyasc.asarray(255 * rng.random((h, w), np.float32))
edges = pyasc.zeros((h, w))
blocks = -(-h // 16), -(-w // 16)
sobel[blocks, (16, 16)](edges, image)

same = np.array_equal(edges[1:-1, 1:-1].numpy(), array_code(image).numpy())
print(f"equal to the array code: {same}; the border stays {edges.numpy()[0].max():.0f}")
