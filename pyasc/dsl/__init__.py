"""Kernels written by hand in Python: `@pyasc.kernel`, C functions, custom operators."""
