"""Bilinear resizing: data-dependent indices, and one compilation for a whole range of sizes."""

import numpy as np
from scipy import ndimage

import pyasc


@pyasc.kernel(dynamic_shape=True)
def resize_2d(output, image, new_shape):
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


rng = np.random.default_rng(0)
image = pyasc.asarray(rng.random((40, 60), np.float32))
made = []
for n in range(10):
    shape = (100 + n, 150 - n)
    output = pyasc.empty(shape)
    before = pyasc.cache_stats()["misses"]
    resize_2d(output, image, shape)
    values = output.numpy()
    made.append(pyasc.cache_stats()["misses"] - before)
    at = np.mgrid[0 : 39 : shape[0] * 1j, 0 : 59 : shape[1] * 1j]
    assert np.allclose(values, ndimage.map_coordinates(image.numpy(), at, order=1), atol=1e-4)
print(f"{len(made)} sizes, all as SciPy has them; kernels made after the first: {sum(made[1:])}")
