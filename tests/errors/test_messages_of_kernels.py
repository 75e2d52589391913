"""Messages about the source of kernels: the line, a caret under the expression, what to write instead."""

from __future__ import annotations

import functools
import math
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from mistakes import Mistake, label

import pyasc
from pyasc.dsl import language
from pyasc.dsl.language import (
    atomic_add,
    barrier,
    get_global_id,
    get_local_id,
    shared,
)
from pyasc.dsl.lowering import lower
from pyasc.dsl.signature import ArrayType, LaunchValues, NumberType, ObjectType, Options
from pyasc.ops.errors import KernelError

# ruff: noqa: B007, C416, E731, F821, F841, RUF059, SIM105
F32 = np.dtype(np.float32)
ARRAYS = {"a": ArrayType(F32, "1"), "c": ArrayType(F32, "1"), "m": ArrayType(F32, "n1")}
OTHERS = {"n": NumberType(int), "s": NumberType(float), "self": ObjectType()}


class Layer:
    weight = 3


def refused(function: Any, shown: str, **options: Any) -> Callable[[], None]:
    """A call that lowers a kernel and, refused, checks that the caret stands under `shown`."""

    def call() -> None:
        plain = getattr(function, "__wrapped__", function)
        names = plain.__code__.co_varnames[: plain.__code__.co_argcount] if hasattr(plain, "__code__") else ()
        signature = {n: {**ARRAYS, **OTHERS}[n] for n in names}
        values = LaunchValues(
            {("a",): (4,), ("c",): (4,), ("m",): (4, 4)}, lambda path: Layer() if path == ("self",) else 4
        )
        try:
            lower(function, signature, values, Options(**options))
        except KernelError as error:
            if shown:
                span = error.span
                assert span is not None
                assert span.text[span.start : span.end] == shown, str(error)
                assert str(error).splitlines()[-1].strip() == "^" * len(shown)
                assert __file__ in str(error) and error.filename == __file__ and error.lineno == span.number
            raise

    return call


def entry(function: Any, shown: str, *texts: str, **options: Any) -> Mistake:
    call = refused(function, shown, **options)
    call.__code__ = call.__code__.replace(
        co_firstlineno=getattr(function, "__code__", call.__code__).co_firstlineno
    )
    return Mistake(SyntaxError, texts, call)


def with_statement(c: Any) -> None:
    with open("x"):
        pass


def try_statement(c: Any) -> None:
    try:
        c[0] = 1
    except ValueError:
        pass


def assertion(c: Any) -> None:
    assert c[0] > 0


def importing(c: Any) -> None:
    import os  # noqa: F401


def inner_class(c: Any) -> None:
    class X: ...


def inner_function(c: Any) -> None:
    def f() -> None: ...


def global_(c: Any) -> None:
    global COUNT


def deleting(c: Any) -> None:
    x = 1
    del x


def matching(n: int) -> None:
    match n:
        case 1:
            pass


def raising(c: Any) -> None:
    raise ValueError


def a_lambda(c: Any) -> None:
    f = lambda x: x


def comprehension(c: Any) -> None:
    x = [k for k in range(3)]


def f_string(c: Any, n: int) -> None:
    x = f"{n}"


def walrus(c: Any, n: int) -> None:
    c[0] = (k := n)


def a_dict(c: Any) -> None:
    x = {}


def complex_(c: Any) -> None:
    c[0] = 2j


def unknown_name(c: Any) -> None:
    c[0] = get_global_idx(0)


def thread_of_cuda(c: Any) -> None:
    c[threadIdx.x] = 1


def grid_of_numba(c: Any) -> None:
    c[cuda.grid(1)] = 1


def barrier_of_cuda(c: Any) -> None:
    __syncthreads()


def loop_of_numba(c: Any, n: int) -> None:
    for k in prange(n):
        c[k] = 1


def block_of_pyasc(c: Any) -> None:
    c[pyasc.get_block_id(0)] = 1


def before_set(c: Any) -> None:
    c[0] = x
    x = 1


def set_in_one_branch(c: Any, n: int) -> None:
    if n > 0:
        x = 1
    c[0] = x


def set_in_loop(c: Any, n: int) -> None:
    for k in range(n):
        x = k
    c[0] = x


def two_kinds(c: Any, a: Any, n: int) -> None:
    x = a
    if n > 0:
        x = (1, 2)
    c[0] = x


def two_kinds_in_a_loop(c: Any, n: int) -> None:
    x = (1, 2)
    for k in range(n):
        x = 3
    c[0] = x


def unknown_attribute(c: Any) -> None:
    c[0] = math.sqr(2)


def attribute_of_array(c: Any, a: Any) -> None:
    c[0] = a.sum()


def attribute_of_number(c: Any, n: int) -> None:
    c[0] = n.foo


def attribute_of_dtype(c: Any, a: Any) -> None:
    c[0] = a.dtype.foo


def attribute_of_object(self: Any, c: Any) -> None:
    c[0] = self.wait


def axis_out_of_range(c: Any) -> None:
    c[0] = get_global_id(3)


def axis_unknown(c: Any, n: int) -> None:
    c[0] = get_global_id(n)


def count_of_builtin(c: Any) -> None:
    c[0] = get_global_id(0, 1)


def count_of_math(c: Any) -> None:
    c[0] = math.sqrt(1, 2)


def named_argument(c: Any) -> None:
    c[0] = int(x=1)


def double_star(c: Any) -> None:
    c[0] = abs(**OTHERS)


def slice_stored(c: Any) -> None:
    c[0:2] = 1


def slice_used(c: Any, a: Any) -> None:
    c[0] = a[0:2] + 1


def slice_with_step(c: Any, a: Any) -> None:
    x = a[0:4:2]


def slices_of_matrix(c: Any, m: Any) -> None:
    x = m[0:4]


def index_count(c: Any, m: Any) -> None:
    c[0, 1] = 1


def index_count_of_matrix(c: Any, m: Any) -> None:
    c[0] = m[0, 1, 2]


def float_index(c: Any, a: Any) -> None:
    i = get_global_id(0)
    c[i] = a[i / 2]


def both_indices(c: Any, m: Any) -> None:
    c[0] = m[0, 1] + m[5]


def index_of_number(c: Any, n: int) -> None:
    c[0] = n[0]


def store_to_number(n: int) -> None:
    n[0] = 1


def array_name_assigned(c: Any, a: Any) -> None:
    a = 3


def attribute_assigned(self: Any) -> None:
    self.weight = 3


def array_as_number(c: Any, a: Any) -> None:
    c[0] = a + 1


def text_as_number(c: Any) -> None:
    c[0] = "x"


def tuple_index(c: Any, n: int) -> None:
    x = (1, 2)
    c[0] = x[n]


def tuple_index_range(c: Any) -> None:
    x = (1, 2)
    c[0] = x[2]


def unpack_number(c: Any, n: int) -> None:
    x, y = n


def unpack_three(c: Any) -> None:
    x, y = 1, 2, 3


def loop_over_array(c: Any, a: Any) -> None:
    for x in a:
        c[0] = x


def loop_of_two_names(c: Any, n: int) -> None:
    for x, y in range(n):
        c[0] = x


def step_zero(c: Any, n: int) -> None:
    for x in range(0, n, 0):
        c[x] = 1


def for_else(c: Any, n: int) -> None:
    for x in range(n):
        c[x] = 1
    else:
        c[0] = 1


def while_else(c: Any, n: int) -> None:
    while n > 0:
        n -= 1
    else:
        c[0] = 1


def float_range(c: Any, s: float) -> None:
    for x in range(s):
        c[0] = x


def range_elsewhere(c: Any, n: int) -> None:
    x = range(n)


def printing(c: Any, n: int) -> None:
    print(n)


def breaking(c: Any) -> None:
    breakpoint()


def local_array(c: Any) -> None:
    v = [0.0] * 3


def local_array_of_a_tuple(c: Any, n: int) -> None:
    v = n * (0, 0)


def product(c: Any, a: Any) -> None:
    c[0] = c @ a


def bits_of_floats(c: Any, a: Any) -> None:
    c[0] = a[0] & 1


def not_elementwise(c: Any, a: Any) -> None:
    c[0] = np.sort(a[0])


def unknown_function(c: Any, a: Any) -> None:
    c[0] = math.gamma(a[0])


class Numba:
    class syncthreads: ...


def function_of_numba(c: Any) -> None:
    Numba.syncthreads()


def not_a_function(c: Any, n: int) -> None:
    c[0] = n(1)


def division_by_zero(c: Any) -> None:
    c[0] = 1 / 0


def complex_result(c: Any) -> None:
    c[0] = (-8) ** 0.5


def too_long(c: Any) -> None:
    c[0] = 2**70


def length_of_number(c: Any, n: int) -> None:
    c[0] = len(n)


def tuple_of_number(c: Any, n: int) -> None:
    c[0] = tuple(n)


def sum_of_array(c: Any, a: Any) -> None:
    c[0] = sum(a)


def order_of_tuples(c: Any) -> None:
    if (1, 2) < (3, 4):
        c[0] = 1


def in_array(c: Any, a: Any) -> None:
    if 1 in a:
        c[0] = 1


def choice_of_kinds(c: Any, n: int) -> None:
    x = 1 if n > 0 else (1, 2)


def recursive(n: int) -> int:
    return recursive(n - 1)


def recursion(c: Any, n: int) -> None:
    c[0] = recursive(n)


def early(a: Any) -> Any:
    for k in range(3):
        if a[k] > 0:
            return a[k]


def return_in_a_loop(c: Any, a: Any) -> None:
    c[0] = early(a)


def wrong_call(c: Any) -> None:
    c[0] = early(1, 2)


def stars(*c: Any) -> None:
    c[0] = 1


def one_way_only(a: Any) -> Any:
    if a > 0:
        return a


def two_results(a: Any) -> Any:
    return a, 1


def index_in_a_map(a: Any) -> Any:
    return a[0] + WEIGHTS[1]


def too_large(n: int) -> None:
    x = np.int8(300)


def atomic_on_number(n: int) -> None:
    atomic_add(n, 0, 1)


def atomic_on_element(c: Any, n: int) -> None:
    atomic_add(c[n + 1], 1)


def atomic_on_element_of_matrix(m: Any, n: int) -> None:
    pyasc.atomic_max(m[n][1], 2 * n)


def atomic_of_two(c: Any) -> None:
    atomic_add(c, 1)


def local_without_block(c: Any) -> None:
    c[get_local_id(0)] = 1


def shape_unknown(c: Any, n: int) -> None:
    t = shared(n, pyasc.float32)


def dtype_unknown(c: Any) -> None:
    t = shared(4, 5)


def too_much_shared(c: Any) -> None:
    t = shared((16, 16), pyasc.float32)


def array_in_kernel(c: Any) -> None:
    t = pyasc.zeros(4)


def parted_barrier(c: Any) -> None:
    if get_local_id(0) > 3:
        barrier()


def returning_before_barrier(c: Any, n: int) -> None:
    for k in range(n):
        if get_local_id(0) > k:
            return
    barrier()


WEIGHTS = pyasc.ones(3)


def of_captured(i: int) -> float:
    return LOCAL[i]


LOCAL = np.ones(3, np.float32)


def closed_over() -> Any:
    hidden = np.ones(3, np.float32)

    def inner(i: Any) -> Any:
        return hidden[i]

    return inner


inner = closed_over()


def tensor_of_a_function(c: Any) -> None:
    c[0] = inner(0)


class Names:
    weights = pyasc.ones(3)


def tensor_of_a_class(c: Any) -> None:
    c[0] = Names.weights[0]


@functools.wraps(with_statement)
def decorated(c: Any) -> None:
    c[0] = 1


_CODE: dict[str, Any] = {}
exec("def from_exec(c):\n    c[0] = 1\n", _CODE)


def outside() -> None:
    get_global_id(0)


MISTAKES = [
    entry(with_statement, "", "[with_statement]", "with", "resources"),
    entry(try_statement, "", "try", "if"),
    entry(assertion, "assert c[0] > 0", "assert", "PYASC_DEBUG=1"),
    entry(importing, "import os", "import", "module"),
    entry(inner_class, "class X: ...", "class"),
    entry(inner_function, "def f() -> None: ...", "before the kernel"),
    entry(global_, "global COUNT", "global", "arguments"),
    entry(deleting, "del x", "del"),
    entry(matching, "", "match", "elif"),
    entry(raising, "raise ValueError", "raise"),
    entry(a_lambda, "lambda x: x", "lambda", "def"),
    entry(comprehension, "[k for k in range(3)]", "comprehension", "for loop"),
    entry(f_string, 'f"{n}"', "f-string"),
    entry(walrus, "k := n", ":="),
    entry(a_dict, "{}", "dict"),
    entry(complex_, "2j", "real", "2j"),
    entry(unknown_name, "get_global_idx", "did you mean get_global_id?"),
    entry(thread_of_cuda, "threadIdx", "did you mean pyasc.get_local_id(axis)?"),
    entry(grid_of_numba, "cuda", "did you mean pyasc.get_global_id(axis)?"),
    entry(barrier_of_cuda, "__syncthreads", "did you mean pyasc.barrier()?"),
    entry(loop_of_numba, "prange", "did you mean range?"),
    entry(block_of_pyasc, "pyasc.get_block_id", "did you mean pyasc.get_group_id(axis)?"),
    entry(before_set, "x", "x before it is set"),
    entry(set_in_one_branch, "x", "one branch of line", "x"),
    entry(set_in_loop, "x", "in the loop at line", "x"),
    entry(two_kinds, "x", "a tuple of 2 or the array a"),
    entry(two_kinds_in_a_loop, "x", "not of one kind"),
    entry(unknown_attribute, "math.sqr", "did you mean sqrt?"),
    entry(attribute_of_array, "a.sum", "shape", ".sum"),
    entry(attribute_of_number, "n.foo", ".foo"),
    entry(attribute_of_dtype, "a.dtype.foo", ".foo"),
    entry(attribute_of_object, "self.wait", "did you mean weight?"),
    entry(axis_out_of_range, "get_global_id(3)", "0, 1 or 2", "given 3"),
    entry(axis_unknown, "get_global_id(n)", "0, 1 or 2", "given a number"),
    entry(count_of_builtin, "get_global_id(0, 1)", "0 to 1 arguments", "given 2"),
    entry(count_of_math, "math.sqrt(1, 2)", "1 arguments of math.sqrt", "given 2"),
    entry(named_argument, "int(x=1)", "1 arguments of int", "x"),
    entry(double_star, "OTHERS", "**"),
    entry(slice_stored, "c[0:2]", "a slice of c", "dma_copy"),
    entry(slice_used, "a[0:2] + 1", "a number", "a slice of a"),
    entry(slice_with_step, "2", "without a step"),
    entry(slices_of_matrix, "m[0:4]", "2 slices of m", "given 1"),
    entry(index_count, "c[0, 1]", "1 indices of c", "given 2"),
    entry(index_count_of_matrix, "m[0, 1, 2]", "2 indices of m, or one over all", "given 3"),
    entry(float_index, "i / 2", "index of a", "a float32", "int(x)"),
    entry(both_indices, "m[5]", "one index over all elements of m", "given both"),
    entry(index_of_number, "n[0]", "an array", "a number"),
    entry(store_to_number, "n[0]", "an array to store to", "a number"),
    entry(array_name_assigned, "a", "another name", "a[i]"),
    entry(attribute_assigned, "self.weight", "an attribute"),
    entry(array_as_number, "a + 1", "the array a", "a[i]"),
    entry(text_as_number, '"x"', "a number", "'x'"),
    entry(tuple_index, "n", "index of a tuple"),
    entry(tuple_index_range, "2", "2 items", "given 2"),
    entry(unpack_number, "n", "2 values", "a number"),
    entry(unpack_three, "1, 2, 3", "2 values", "given 3"),
    entry(loop_over_array, "a", "range", "given one over a"),
    entry(loop_of_two_names, "x, y", "one name"),
    entry(step_zero, "range(0, n, 0)", "given 0"),
    entry(for_else, "c[0] = 1", "for with else"),
    entry(while_else, "c[0] = 1", "while with else"),
    entry(float_range, "s", "integer for range", "float"),
    entry(range_elsewhere, "range(n)", "for loop"),
    entry(printing, "print(n)", "PYASC_DEBUG=1"),
    entry(breaking, "breakpoint", "breakpoint", "PYASC_DEBUG=1"),
    entry(local_array, "[0.0] * 3", "given a tuple of 1 and 3", "no arrays of one thread", "pyasc.shared"),
    entry(local_array_of_a_tuple, "n * (0, 0)", "a number (int) and a tuple of 2", "pyasc.shared"),
    entry(product, "c @ a", "@", "pyasc.matmul"),
    entry(bits_of_floats, "a[0] & 1", "bitwise_and", "float32"),
    entry(not_elementwise, "np.sort(a[0])", "sort"),
    entry(unknown_function, "math.gamma", "math.gamma", "functions written in Python"),
    entry(function_of_numba, "Numba.syncthreads", "did you mean pyasc.barrier()?"),
    entry(not_a_function, "n", "a function to call", "a number"),
    entry(division_by_zero, "1 / 0", "ZeroDivisionError"),
    entry(complex_result, "(-8) ** 0.5", "real numbers"),
    entry(too_long, "2**70", "64 bits"),
    entry(length_of_number, "len(n)", "an array or a tuple"),
    entry(tuple_of_number, "tuple(n)", "a tuple"),
    entry(sum_of_array, "sum(a)", "a loop"),
    entry(order_of_tuples, "(1, 2) < (3, 4)", "numbers to compare"),
    entry(in_array, "1 in a", "a tuple after in"),
    entry(choice_of_kinds, "1 if n > 0 else (1, 2)", "one kind"),
    entry(recursion, "recursive(n - 1)", "call themselves", "recursive"),
    entry(return_in_a_loop, "", "on every way", "early"),
    entry(wrong_call, "early(1, 2)", "(a) of early", "given 2"),
    entry(stars, "c: Any", "fixed number", "*c"),
    entry(one_way_only, "return a", "on every way through the kernel", "none on some"),
    entry(two_results, "return a, 1", "a tuple", "arrays"),
    entry(index_in_a_map, "a[0]", "elements of arrays", "instead of returning"),
    entry(too_large, "np.int8(300)", "fits int8", "300"),
    entry(atomic_on_number, "n", "an array to update"),
    entry(atomic_on_element, "c[n + 1]", "an array to update", "write atomic_add(c, n + 1, 1)"),
    entry(atomic_on_element_of_matrix, "m[n][1]", "write pyasc.atomic_max(m, (n, 1), 2 * n)"),
    entry(atomic_of_two, "atomic_add(c, 1)", "3 arguments of atomic_add", "given 2"),
    entry(local_without_block, "get_local_id(0)", "block_dim"),
    entry(shape_unknown, "shared(n, pyasc.float32)", "known when the kernel is compiled", block_dim=(4,)),
    entry(dtype_unknown, "shared(4, 5)", "a dtype", "given 5", block_dim=(4,)),
    entry(too_much_shared, "shared((16, 16), pyasc.float32)", "512", "1024", block_dim=(4,), smem_size=512),
    entry(array_in_kernel, "pyasc.zeros(4)", "@pyasc.shared", "pyasc.zeros", block_dim=(4,)),
    entry(parted_barrier, "barrier()", "every thread of the block", "if", block_dim=(4,)),
    entry(returning_before_barrier, "return", "barriers", "return in a loop", block_dim=(4,)),
    entry(tensor_of_a_function, "hidden", "hidden", "hand it over"),
    entry(tensor_of_a_class, "Names.weights", "hand it over"),
    entry(lambda c: c, "", "a lambda", "def"),
    entry(decorated, "", "other decorators"),
    entry(_CODE["from_exec"], "", "exec", "file"),
    entry(3, "", "def", "3"),
    Mistake(SyntaxError, ("[get_global_id]", "in a kernel"), outside),
]


@pytest.mark.parametrize("entry", MISTAKES, ids=label)
def test_mistake(entry: Mistake, mistake: Callable[..., Any]) -> None:
    with mistake(entry.kind, *entry.texts, "expected", "given", line=False):
        entry.call()


def test_python_shows_the_line_and_the_caret() -> None:
    with pytest.raises(KernelError) as caught:
        refused(float_index, "i / 2")()
    shown = "".join(traceback.format_exception_only(caught.value)).splitlines()
    assert "test_messages_of_kernels.py" in shown[0] and shown[1].strip() == "c[i] = a[i / 2]"
    assert shown[2].index("^") == shown[1].index("i / 2") and shown[2].count("^") == 5
    assert shown[3].startswith("pyasc.ops.errors.KernelError: [float_index] expected an integer")
    assert language.running.get() is None
