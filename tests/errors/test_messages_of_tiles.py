"""Messages about kernels in tile style: the line, a caret, and the numbers that do not fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from mistakes import Mistake, label

import pyasc
from pyasc.dsl.lowering import lower
from pyasc.dsl.signature import ArrayType, LaunchValues, NumberType, Options
from pyasc.ops.errors import KernelError

F32, F16 = np.dtype(np.float32), np.dtype(np.float16)
ARRAYS = {
    **{name: ArrayType(F32, "1") for name in ("a", "c")},
    **{"h": ArrayType(F16, "1"), "m": ArrayType(F32, "n1"), "t": ArrayType(F32, "nn1")},
}
SHAPES = {("a",): (64,), ("c",): (64,), ("h",): (64,), ("m",): (64, 64), ("t",): (4, 4, 4)}


def refused(function: Callable[..., Any]) -> Callable[[], None]:
    """A call that lowers a kernel, whose numbers are 8, for arrays as above."""

    def call() -> None:
        names = function.__code__.co_varnames[: function.__code__.co_argcount]
        signature = {name: ARRAYS.get(name, NumberType(int)) for name in names}
        try:
            lower(function, signature, LaunchValues(dict(SHAPES), lambda path: 8), Options())
        except KernelError as error:
            assert error.span is None or error.filename == __file__
            assert error.span is None or str(error).splitlines()[-1].strip().strip("^") == ""
            raise

    return call


def unknown_position(a: Any) -> None:
    pyasc.alloc("UC", 32)


def no_bytes(a: Any, n: int) -> None:
    pyasc.alloc("UB", n - 8)


def too_many_bytes(a: Any) -> None:
    x = pyasc.alloc("UB", 200_000)
    pyasc.dma_copy(x, a[0:8])


def too_many_together(a: Any, c: Any) -> None:
    x = pyasc.alloc("UB", 100_000)
    pyasc.dma_copy(x, a[0:8])
    y = pyasc.alloc("VECOUT", 100_000)
    pyasc.elementwise("exp", y, x, 8)
    pyasc.dma_copy(c[0:8], y)


def one_after_the_other(a: Any, c: Any) -> None:
    x = pyasc.alloc("UB", 100_000)
    pyasc.dma_copy(x, a[0:8])
    pyasc.dma_copy(c[0:8], x)
    y = pyasc.alloc("UB", 100_000)
    pyasc.dma_copy(y, a[8:16])
    pyasc.dma_copy(c[8:16], y)


def used_again_in_the_loop(a: Any, c: Any, n: int) -> None:
    x = pyasc.alloc("UB", 100_000)
    pyasc.dma_copy(x, a[0:8])
    for i in range(0, n, 8):
        pyasc.dma_copy(c[i : i + 8], x)
        y = pyasc.alloc("UB", 100_000)
        pyasc.dma_copy(y, a[i : i + 8])
        pyasc.dma_copy(c[i : i + 8], y)


def shape_alone(a: Any) -> None:
    pyasc.alloc("UB", (4, 8))


def no_size(a: Any) -> None:
    pyasc.alloc("UB")


def bytes_of_an_element(a: Any) -> None:
    for i in range(4):
        pyasc.alloc("UB", 32 * i)


def size_of_nothing(a: Any, n: int) -> None:
    pyasc.auto_tiling(n - 9)


def threads_and_tiles(a: Any) -> None:
    x = pyasc.alloc("UB", 32)
    pyasc.dma_copy(x, a[0:8])
    a[pyasc.get_global_id(0)] = 1.0


def four_sizes(a: Any, n: int) -> None:
    pyasc.auto_tiling(n, n, n, n)


def no_dtype(a: Any, n: int) -> None:
    pyasc.auto_tiling(n, dtype="float33")


def two_arrays(a: Any, c: Any) -> None:
    pyasc.dma_copy(c[0:8], a[0:8])


def part_of_a_buffer(a: Any) -> None:
    x = pyasc.alloc("UB", 32)
    pyasc.dma_copy(x[0:4], a[0:4])


def three_axes(t: Any) -> None:
    x = pyasc.alloc("UB", 256)
    pyasc.dma_copy(x, t[0:1, 0:1, 0:4])


def slice_too_long(a: Any) -> None:
    x = pyasc.alloc("UB", 32)
    pyasc.dma_copy(x, a[0:9])


def second_slice_too_long(a: Any) -> None:
    x = pyasc.alloc("UB", 32)
    pyasc.dma_copy(x, a[0:8])
    pyasc.dma_copy(x, a[0:16])


def length_that_changes(a: Any, n: int) -> None:
    x = pyasc.alloc("UB", 64)
    for i in range(1, n):
        pyasc.dma_copy(x, a[0:i])


def other_dtype(a: Any, h: Any) -> None:
    x = pyasc.alloc("UB", 32)
    pyasc.dma_copy(x, a[0:8])
    pyasc.dma_copy(h[0:8], x)


def other_axes(a: Any, m: Any) -> None:
    x = pyasc.alloc("UB", 32)
    pyasc.dma_copy(x, a[0:8])
    pyasc.dma_copy(m[0:1, 0:8], x)


def never_written(a: Any) -> None:
    x = pyasc.alloc("UB", 32)
    pyasc.dma_copy(a[0:8], x)


def computed_with_what_was_never_written(a: Any) -> None:
    x = pyasc.alloc("UB", 32)
    y = pyasc.alloc("UB", 32)
    pyasc.elementwise("exp", y, x, 8)


def copied_from_what_was_never_written(a: Any) -> None:
    x = pyasc.alloc("A1", 32)
    y = pyasc.alloc("A2", 32)
    pyasc.dma_copy(y, x)


def unknown_operation(a: Any) -> None:
    x = pyasc.alloc("UB", 32)
    pyasc.dma_copy(x, a[0:8])
    pyasc.elementwise("EXPP", x, x, 8)


def too_few_inputs(a: Any) -> None:
    x = pyasc.alloc("UB", 32)
    pyasc.dma_copy(x, a[0:8])
    pyasc.elementwise("ADD", x, x)


def two_dtypes(a: Any, h: Any) -> None:
    x = pyasc.alloc("UB", 32)
    y = pyasc.alloc("UB", 32)
    pyasc.dma_copy(x, a[0:8])
    pyasc.dma_copy(y, h[0:8])
    pyasc.elementwise("ADD", x, x, y, 8)


def dtype_not_taken(a: Any) -> None:
    x = pyasc.alloc("UB", 32)
    pyasc.dma_copy(x, a[0:8])
    pyasc.elementwise("AND", x, x, x, 8)


def too_many_elements(a: Any) -> None:
    x = pyasc.alloc("UB", 32)
    pyasc.dma_copy(x, a[0:8])
    pyasc.elementwise("EXP", x, x, 9)


def numbers_alone(a: Any) -> None:
    x = pyasc.alloc("UB", 32)
    pyasc.elementwise("ADD", x, 1.0, 2.0, 8)


def array_as_input(a: Any) -> None:
    x = pyasc.alloc("UB", 32)
    pyasc.dma_copy(x, a[0:8])
    pyasc.elementwise("ADD", x, x, a, 8)


def unknown_reduction(a: Any) -> None:
    x = pyasc.alloc("UB", 32)
    pyasc.dma_copy(x, a[0:8])
    pyasc.reduce("mean", x, x, 8)


def small_result(m: Any) -> None:
    x = pyasc.alloc("UB", 256)
    r = pyasc.alloc("UB", 16)
    pyasc.dma_copy(x, m[0:8, 0:8])
    pyasc.reduce("add", r, x, 8, 8)


def cast_to_nothing(a: Any) -> None:
    x = pyasc.alloc("UB", 32)
    y = pyasc.alloc("UB", 16)
    pyasc.dma_copy(x, a[0:8])
    pyasc.cast(y, x, 8)


def product_of_vectors(a: Any) -> None:
    x = pyasc.alloc("A1", 32)
    y = pyasc.alloc("CO1", 32)
    pyasc.dma_copy(x, a[0:8])
    pyasc.matmul(y, x, x, 1, 8, 1)


def product_past_the_tile(m: Any) -> None:
    x = pyasc.alloc("A1", 1024)
    y = pyasc.alloc("CO1", 1024)
    pyasc.dma_copy(x, m[0:16, 0:16])
    pyasc.matmul(y, x, x, 16, 32, 16)


def product_too_large(m: Any) -> None:
    x = pyasc.alloc("A1", 1024)
    y = pyasc.alloc("CO1", 512)
    pyasc.dma_copy(x, m[0:16, 0:16])
    pyasc.matmul(y, x, x, 16, 16, 16)


def product_of_arrays(m: Any) -> None:
    x = pyasc.alloc("A1", 1024)
    pyasc.dma_copy(x, m[0:16, 0:16])
    pyasc.matmul(x, x)


MISTAKES = [
    Mistake(SyntaxError, texts, refused(function))
    for function, texts in (
        (unknown_position, ("a position: UB", "CO1", "'UC'")),
        (no_bytes, ("at least 1 byte of UB", "given 0")),
        (too_many_bytes, ("194,560 bytes", "the unified buffer (UB) of the 910B1", "given 200,000")),
        (too_many_together, ("(VECOUT)", "given 100,000, beside 100,000 in use")),
        (used_again_in_the_loop, ("194,560", "beside 100,000 in use")),
        (shape_alone, ("a dtype with a shape",)),
        (no_size, ("2 to 3 arguments of pyasc.alloc", "given 1")),
        (bytes_of_an_element, ("an integer made of arguments, sizes and literals",)),
        (size_of_nothing, ("sizes of at least 0", "given -1")),
        (threads_and_tiles, ("either tiles or thread ids", "both")),
        (four_sizes, ("1 to 3 arguments", "given 4")),
        (no_dtype, ("a dtype", "float33")),
        (two_arrays, ("a buffer on one side", "two arrays, c and a")),
        (part_of_a_buffer, ("a whole buffer", "a part of a buffer")),
        (three_axes, ("one or two axes", "t with 3")),
        (slice_too_long, ("the 32 bytes of ub0", "9 elements of float32, 36 bytes")),
        (second_slice_too_long, ("the buffer of 8 elements", "given 16")),
        (length_that_changes, ("a[i : i + t]", "whose length changes")),
        (other_dtype, ("float32, which the buffer ub0 holds", "float16 of h; pyasc.cast")),
        (other_axes, ("a buffer of 2 axes for m", "one of 8")),
        (never_written, ("was written before", "one that was not")),
        (computed_with_what_was_never_written, ("was written before", "one that was not")),
        (copied_from_what_was_never_written, ("was written before", "one that was not")),
        (unknown_operation, ("an elementwise primitive", "perhaps 'exp", "'EXPP'")),
        (too_few_inputs, ("2 inputs of add", "given 1")),
        (two_dtypes, ("inputs of float32", "float16 of ub1; pyasc.cast")),
        (dtype_not_taken, ("a dtype that and takes", "float32")),
        (too_many_elements, ("at most the 8 elements", "given 9")),
        (numbers_alone, ("at least one buffer", "numbers alone")),
        (array_as_input, ("a buffer made by pyasc.alloc", "the array a")),
        (unknown_reduction, ("'add'", "'max'", "'mean'")),
        (small_result, ("the 16 bytes of ub1", "8 elements of float32, 32 bytes")),
        (cast_to_nothing, ("a dtype for ub1", "dtype=")),
        (product_of_vectors, ("tiles of two axes", "given 8")),
        (product_past_the_tile, ("m, k, n within tiles of 16 × 16 and 16 × 16", "16, 32, 16")),
        (product_too_large, ("the 512 bytes of co11", "16 × 16 elements of float32, 1,024 bytes")),
        (product_of_arrays, ("pyasc.matmul(c, a, b, m, k, n, accumulate)", "2 arguments")),
    )
]


@pytest.mark.parametrize("entry", MISTAKES, ids=[label(m) + str(n) for n, m in enumerate(MISTAKES)])
def test_mistake(entry: Mistake, mistake: Callable[..., Any]) -> None:
    with mistake(entry.kind, *entry.texts, "expected", "given", line=False):
        entry.call()


def test_buffers_share_memory_one_after_the_other() -> None:
    refused(one_after_the_other)()


@pytest.mark.parametrize(
    "call",
    [
        lambda: pyasc.auto_tiling(5),
        lambda: pyasc.alloc("UB", 32),
        lambda: pyasc.dma_copy(None, None),
        lambda: pyasc.elementwise("ADD", None),
        lambda: pyasc.reduce("add", None, None),
        lambda: pyasc.cast(None, None),
    ],
)
def test_calls_from_python(call: Callable[[], Any], mistake: Callable[..., Any]) -> None:
    with mistake(SyntaxError, "expected to be called in a kernel", "given a call from Python"):
        call()
