"""Kernels in tile style for the tests of tiles."""

from __future__ import annotations

from typing import Any

import pyasc

T, ROWS, COLUMNS = 8, 4, 8


def add(c: Any, a: Any, b: Any, n: int) -> None:
    t = pyasc.auto_tiling(n)
    for o in range(0, n, t):
        x = pyasc.alloc("UB", t * 4)
        y = pyasc.alloc("UB", t * 4)
        z = pyasc.alloc("UB", t * 4)
        pyasc.dma_copy(x, a[o : o + t])
        pyasc.dma_copy(y, b[o : o + t])
        pyasc.elementwise("ADD", z, x, y, t)
        pyasc.dma_copy(c[o : o + t], z)


def matmul(c: Any, a: Any, b: Any, m: int, n: int, k: int) -> None:
    tm, tn, tk = pyasc.auto_tiling(m, n, k)
    for i in range(0, m, tm):
        for j in range(0, n, tn):
            acc = pyasc.alloc("CO1", tm * tn * 4)
            for l in range(0, k, tk):  # noqa: E741
                a1 = pyasc.alloc("A1", tm * tk * a.dtype.itemsize)
                b1 = pyasc.alloc("B1", tk * tn * b.dtype.itemsize)
                pyasc.dma_copy(a1, a[i : i + tm, l : l + tk])
                pyasc.dma_copy(b1, b[l : l + tk, j : j + tn])
                pyasc.matmul(acc, a1, b1, tm, tk, tn, accumulate=l > 0)
            pyasc.dma_copy(c[i : i + tm, j : j + tn], acc)


def small_matmul(c: Any, a: Any, b: Any) -> None:
    """Tiles of another size each way, through L0, the first product apart; sizes are the arrays'."""
    m, k = a.shape
    n = b.shape[1]
    for i in range(0, m, 16):
        for j in range(0, n, 32):
            acc = pyasc.alloc("CO1", 16 * 32 * 4)
            for l in range(0, k, 8):  # noqa: E741
                a1 = pyasc.alloc("A1", 16 * 8 * a.dtype.itemsize)
                b1 = pyasc.alloc("B1", 8 * 32 * a.dtype.itemsize)
                a2 = pyasc.alloc("A2", 16 * 8 * a.dtype.itemsize)
                b2 = pyasc.alloc("B2", 8 * 32 * a.dtype.itemsize)
                pyasc.dma_copy(a1, a[i : i + 16, l : l + 8])
                pyasc.dma_copy(b1, b[l : l + 8, j : j + 32])
                pyasc.dma_copy(a2, a1)
                pyasc.dma_copy(b2, b1)
                if l == 0:
                    pyasc.matmul(acc, a2, b2, 16, 8, 32)
                else:
                    pyasc.matmul(acc, a2, b2, 16, 8, 32, accumulate=True)
            pyasc.dma_copy(c[i : i + 16, j : j + 32], acc)


def scale(c: Any, a: Any, alpha: float, beta: float) -> None:
    m, n = a.shape
    for i in range(0, m, ROWS):
        for j in range(0, n, COLUMNS):
            x = pyasc.alloc("VECIN", ROWS * COLUMNS * 4)
            y = pyasc.alloc("VECOUT", ROWS * COLUMNS * 4)
            pyasc.dma_copy(x, a[i : i + ROWS, j : j + COLUMNS])
            pyasc.elementwise("MULS", y, x, alpha, ROWS * COLUMNS)
            pyasc.elementwise("ADD", y, y, beta)
            pyasc.elementwise("relu", y, y)
            pyasc.dma_copy(c[i : i + ROWS, j : j + COLUMNS], y)


def row_sums(s: Any, a: Any, n: int) -> None:
    for i in range(0, a.shape[0], ROWS):
        x = pyasc.alloc("UB", ROWS * n * a.dtype.itemsize)
        r = pyasc.alloc("UB", ROWS * a.dtype.itemsize)
        pyasc.dma_copy(x, a[i : i + ROWS, 0:n])
        pyasc.reduce("add", r, x, ROWS, n)
        pyasc.dma_copy(s[i : i + ROWS], r)


def convert(c: Any, a: Any, n: int) -> None:
    for o in range(0, n, T):
        x = pyasc.alloc("UB", T * 4)
        y = pyasc.alloc("UB", T * 2)
        pyasc.dma_copy(x, a[o : o + T])
        pyasc.cast(y, x, T)
        pyasc.dma_copy(c[o : o + T], y)


def exponential(a: Any, n: int) -> None:
    """In place; the length of each tile is computed by the program."""
    for o in range(0, n, T):
        count = min(T, n - o)
        x = pyasc.alloc("UB", (T,), pyasc.float32)
        pyasc.dma_copy(x, a[o : o + count])
        pyasc.elementwise("exp", x, x, count)
        pyasc.dma_copy(a[o : o + count], x)


def larger(c: Any, d: Any, a: Any, b: Any, n: int) -> None:
    for o in range(0, n, T):
        x = pyasc.alloc("UB", T * 4)
        y = pyasc.alloc("UB", T * 4)
        q = pyasc.alloc("UB", T)
        pyasc.dma_copy(x, a[o : o + T])
        pyasc.dma_copy(y, b[o : o + T])
        pyasc.elementwise("greater", q, x, y, T)
        pyasc.elementwise("WHERE", y, q, x, y, T)
        pyasc.dma_copy(c[o : o + T], y)
        pyasc.elementwise("SUB", x, y, x, T)
        pyasc.dma_copy(d[o : o + T], x)


def total(s: Any, a: Any, n: int) -> None:
    """A sum that goes from tile to tile, which one thread has to make."""
    acc = pyasc.alloc("UB", 4)
    part = pyasc.alloc("UB", 4)
    pyasc.dma_copy(acc, s[0:1])
    for o in range(0, n, T):
        x = pyasc.alloc("UB", T * 4)
        pyasc.dma_copy(x, a[o : o + T])
        pyasc.reduce("sum", part, x, T)
        pyasc.elementwise("ADD", acc, acc, part, 1)
    pyasc.dma_copy(s[0:1], acc)


def bias(c: Any, a: Any, b: Any) -> None:
    """Row by row: a row of a matrix and a vector."""
    m, n = a.shape
    for i in range(m):
        x = pyasc.alloc("UB", n * 4)
        y = pyasc.alloc("UB", n * 4)
        pyasc.dma_copy(x, a[i, :])
        pyasc.dma_copy(y, a[i, 0:n])
        pyasc.elementwise("MUL", x, x, y)
        pyasc.dma_copy(c[i, :], x)


def dense(c: Any, a: Any, b: Any, d: Any) -> None:
    """A product, to which something is added before it is cut off and stored."""
    m, k = a.shape
    n = b.shape[1]
    for i in range(0, m, 16):
        for j in range(0, n, 32):
            acc = pyasc.alloc("CO1", 16 * 32 * 4)
            for l in range(0, k, 8):  # noqa: E741
                a1 = pyasc.alloc("A1", 16 * 8 * 2)
                b1 = pyasc.alloc("B1", 8 * 32 * 2)
                pyasc.dma_copy(a1, a[i : i + 16, l : l + 8])
                pyasc.dma_copy(b1, b[l : l + 8, j : j + 32])
                pyasc.matmul(acc, a1, b1, 16, 8, 32, accumulate=l != 0)
            x = pyasc.alloc("UB", 16 * 32 * 4)
            y = pyasc.alloc("UB", 16 * 32 * 4)
            pyasc.dma_copy(x, acc)
            pyasc.dma_copy(y, d[i : i + 16, j : j + 32])
            pyasc.elementwise("ADD", x, x, y)
            pyasc.elementwise("RELU", x, x)
            pyasc.dma_copy(c[i : i + 16, j : j + 32], x)


def softmax(c: Any, a: Any) -> None:
    """Rows at a time; a buffer of one element stands for it."""
    m, n = a.shape
    for i in range(m):
        x = pyasc.alloc("UB", n * 4)
        r = pyasc.alloc("UB", 4)
        pyasc.dma_copy(x, a[i, :])
        pyasc.reduce("max", r, x, n)
        pyasc.elementwise("SUB", x, x, r, n)
        pyasc.elementwise("EXP", x, x, n)
        pyasc.reduce("add", r, x, n)
        pyasc.elementwise("DIV", x, x, r, n)
        pyasc.dma_copy(c[i, :], x)


def whole_sum(s: Any, a: Any, n: int) -> None:
    """A sum of sums of tiles."""
    acc = pyasc.alloc("UB", 4)
    pyasc.elementwise("DUPLICATE", acc, 0.5, 1)
    for o in range(0, n, T):
        x = pyasc.alloc("UB", T * 4)
        part = pyasc.alloc("UB", 4)
        pyasc.dma_copy(x, a[o : o + T])
        pyasc.reduce("sum", part, x, T)
        pyasc.elementwise("ADD", acc, acc, part, 1)
    pyasc.dma_copy(s[0:1], acc)


def row_maxima(s: Any, a: Any) -> None:
    """The largest of each row, parts of rows at a time."""
    m, n = a.shape
    for i in range(0, m, ROWS):
        acc = pyasc.alloc("UB", (ROWS,), pyasc.float32)
        pyasc.elementwise("DUPLICATE", acc, -1e30, ROWS)
        for o in range(0, n, T):
            x = pyasc.alloc("UB", ROWS * T * 4)
            part = pyasc.alloc("UB", ROWS * 4)
            pyasc.dma_copy(x, a[i : i + ROWS, o : o + T])
            pyasc.reduce("max", part, x, ROWS, T)
            pyasc.elementwise("MAX", acc, acc, part, ROWS)
        pyasc.dma_copy(s[i : i + ROWS], acc)


def column_sums(s: Any, a: Any) -> None:
    """The sum of each column, row after row."""
    m, n = a.shape
    for j in range(0, n, T):
        acc = pyasc.alloc("UB", (1, T), pyasc.float32)
        pyasc.elementwise("DUPLICATE", acc, 0.0, T)
        for i in range(m):
            x = pyasc.alloc("UB", T * 4)
            pyasc.dma_copy(x, a[i, j : j + T])
            pyasc.elementwise("ADD", acc, acc, x, T)
        pyasc.dma_copy(s[0, j : j + T], acc)


def in_one_branch(c: Any, a: Any, n: int) -> None:
    """A buffer that only some tiles write."""
    for o in range(0, n, T):
        x = pyasc.alloc("UB", T * 4)
        if o > 0:
            pyasc.dma_copy(x, a[o : o + T])
        pyasc.dma_copy(c[o : o + T], x)


def adding(c: Any, a: Any, b: Any) -> None:
    """A product that adds from its first turn on."""
    for i in range(0, a.shape[0], 16):
        acc = pyasc.alloc("CO1", 16 * 16 * 4)
        for s in range(0, a.shape[1], 16):
            x = pyasc.alloc("A1", 16 * 16 * 2)
            y = pyasc.alloc("B1", 16 * 16 * 2)
            pyasc.dma_copy(x, a[i : i + 16, s : s + 16])
            pyasc.dma_copy(y, b[s : s + 16, 0:16])
            pyasc.matmul(acc, x, y, 16, 16, 16, accumulate=True)
        pyasc.dma_copy(c[i : i + 16, 0:16], acc)


def broadcast_row(c: Any, a: Any, b: Any) -> None:
    x = pyasc.alloc("UB", (4, 8), pyasc.float32)
    y = pyasc.alloc("UB", (1, 8), pyasc.float32)
    pyasc.dma_copy(x, a[0:4, 0:8])
    pyasc.dma_copy(y, b[0:1, 0:8])
    pyasc.elementwise("ADD", x, x, y)
    pyasc.dma_copy(c[0:4, 0:8], x)
