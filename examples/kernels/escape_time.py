"""A device function with a loop of its own: after how many steps does z * z + c leave a circle?"""

import pyasc

MOST = 50


def steps(x, y):
    """Plain Python, compiled into the kernels that call it."""
    u, v = 0.0, 0.0
    count = 0
    while count < MOST:
        u, v = u * u - v * v + x, 2 * u * v + y
        if u * u + v * v > 4:
            break
        count += 1
    return count


@pyasc.kernel
def mandelbrot(out, left: float, top: float, step: float):
    i, j = pyasc.get_global_id(0), pyasc.get_global_id(1)
    out[i, j] = steps(left + j * step, top - i * step)


out = pyasc.empty((11, 32), dtype=pyasc.int32)
mandelbrot(out, -2.1, 1.25, 0.25 / 2.6)
for row in out.tolist():
    print("".join(" .:-=+*#%@"[min(n, 9)] for n in row))
