"""A tile loaded together: the threads of a block copy what they all need into shared memory, then use it."""

import numpy as np

import pyasc

BLOCK = 64
RADIUS = 3
WIDTH = 2 * RADIUS + 1


@pyasc.shared
def load_tile(source, first):
    """What a block needs: its own elements and RADIUS more on either side."""
    tile = pyasc.empty(BLOCK + 2 * RADIUS, source.dtype)
    last = source.shape[0] - 1
    for k in range(pyasc.get_local_id(0), BLOCK + 2 * RADIUS, BLOCK):
        tile[k] = source[min(max(first + k - RADIUS, 0), last)]  # the border is repeated
    pyasc.barrier()
    return tile


@pyasc.kernel(block_dim=BLOCK)
def smooth(out, source):
    i, t = pyasc.get_global_id(0), pyasc.get_local_id(0)
    tile = load_tile(source, i - t)
    total = 0.0
    for k in range(WIDTH):
        total += tile[t + k]
    if i < out.shape[0]:
        out[i] = total / WIDTH


rng = np.random.default_rng(0)
x = pyasc.asarray(rng.standard_normal(1000, np.float32))
y = pyasc.empty(1000)
smooth[16, BLOCK](y, x)

padded = np.pad(x.numpy(), RADIUS, mode="edge")
expected = np.convolve(padded, np.full(WIDTH, 1 / WIDTH), "valid")
print(f"within 1e-6 of NumPy's: {np.allclose(y.numpy(), expected, atol=1e-6)}")
