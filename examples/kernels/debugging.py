"""Mistakes in kernels: one that Python finds thread by thread, one that the compiler finds."""

import pyasc


@pyasc.kernel(debug=True)  # for all kernels of a program: PYASC_DEBUG=1
def differences(out, x):
    i = pyasc.get_global_id(0)
    if i < 2:
        print(f"thread {i} reads {x[i]} and {x[i + 1]}")
    out[i] = x[i + 1] - x[i]


@pyasc.kernel
def total(out, x):
    out[0] = sum(x[k] for k in range(x.shape[0]))


x = pyasc.arange(5, dtype=pyasc.float32) ** 2
out = pyasc.zeros(5)
try:
    differences[5](out, x)  # one thread too many
except IndexError as error:
    print(error)
print(out)  # as it was before the call
differences[4](out, x)
print(out)

try:
    total[1](out, x)
except SyntaxError as error:
    print(error)
