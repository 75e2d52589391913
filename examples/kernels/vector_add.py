"""The smallest kernel: one thread for each element."""

import numpy as np

import pyasc


@pyasc.kernel
def add(c, a, b):
    i = pyasc.get_global_id(0)
    c[i] = a[i] + b[i]


a = pyasc.arange(1000, dtype=pyasc.float32)
b = pyasc.ones(1000)
c = pyasc.empty(1000)

add(c, a, b)  # as many threads as c has elements; recorded, like any operation
add[1000](c, a, b)  # the same, said
add[4, 256](c, a, b)  # 4 blocks of 256 threads: the 24 past the end write nothing
print(c[:5])

x, y = np.arange(3, dtype=np.float32), np.empty(3, np.float32)
add(y, x, x)  # NumPy's arrays are used where they are, at once
print(y)
