"""A kernel that returns a value is a map: it broadcasts, and fuses with the array code around it."""

from math import exp

import pyasc


@pyasc.kernel
def elu(x, alpha: float = 1.0):
    if x > 0:
        return x
    return alpha * (exp(x) - 1)


x = pyasc.linspace(-2, 2, 5)
pyasc.sync(x)
y = elu(2 * x + 1).sum()
plan = pyasc.explain(y)
print(f"{len(plan.kernels)} kernel: {', '.join(plan.kernels[0].ops)}")
print(f"{float(y):.4f}")
print(elu(x, alpha=0.5))
