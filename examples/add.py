"""c = a + b: recorded when written, computed when printed."""

from __future__ import annotations

import argparse

import numpy as np

import pyasc as pa


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=1_000_000, help="elements (%(default)s)")
    size = parser.parse_args().size

    a = pa.arange(size, dtype=pa.float32)
    b = pa.full(size, 2, dtype=pa.float32)
    c = a + b
    print(f"recorded: {pa.memory_stats()['pending']} operations pending, nothing computed")
    print(pa.explain(c))
    print("c =", c)
    print("equal to NumPy's:", np.array_equal(c.numpy(), np.arange(size, dtype=np.float32) + 2))


if __name__ == "__main__":
    main()
