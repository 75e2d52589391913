"""Scalar Ascend C, the last resort for kernels written by hand: element by element."""
