"""A layer whose forward is a kernel, with a coefficient that is trained."""

from math import pi, sqrt, tanh

import numpy as np

import pyasc


class GELU(pyasc.Module):
    """GELU (Hendrycks and Gimpel, 2016) with the cubic term's coefficient as a parameter."""

    def __init__(self, coefficient):
        super().__init__()
        self.coefficient = pyasc.Parameter(pyasc.asarray(coefficient, dtype=pyasc.float32))

    @pyasc.kernel
    def forward(self, x):
        inner = sqrt(2 / pi) * (x + self.coefficient * x**3)
        return 0.5 * x * (1 + tanh(inner))

    @pyasc.kernel
    def slope(self, x):
        """The derivative of forward by the coefficient."""
        t = tanh(sqrt(2 / pi) * (x + self.coefficient * x**3))
        return 0.5 * x * (1 - t * t) * sqrt(2 / pi) * x**3


rng = np.random.default_rng(0)
x = pyasc.asarray(rng.standard_normal(2000, np.float32))
layer, target = GELU(0.2), GELU(0.044715)
for _ in range(40):
    error = layer(x) - target(x)
    layer.coefficient -= 2.0 * (2 * error * layer.slope(x)).mean()
    pyasc.sync(layer.coefficient)  # a step at a time, which makes the same kernels every time
print(f"coefficient: 0.2 at first, {float(layer.coefficient):.4f} after 40 steps")
print(f"its state: {list(layer.state_dict())}")
