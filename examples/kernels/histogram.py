"""Atomic updates: many threads count into the same few elements."""

import pyasc


@pyasc.kernel
def histogram(counts, largest, x, low: float, high: float):
    i = pyasc.get_global_id(0)
    bins = counts.shape[0]
    k = int((x[i] - low) / (high - low) * bins)
    pyasc.atomic_add(counts, min(max(k, 0), bins - 1), 1)
    pyasc.atomic_max(largest, 0, x[i])


x = pyasc.arange(1000, dtype=pyasc.float32) % 7
counts = pyasc.zeros(4, dtype=pyasc.int32)
largest = pyasc.full(1, -pyasc.inf)
histogram[x.size](counts, largest, x, 0.0, 8.0)  # a thread for each x, not for each count
print(counts, "largest:", float(largest))
