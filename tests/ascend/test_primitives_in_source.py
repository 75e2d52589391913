"""Primitives in the Ascend C that is written for them, run on the simulator, against their meaning."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from function_accuracy import arguments
from primitive_values import Array, assert_same, meaning, names, operands, random_source
from test_primitives_lowered import DTYPES, EXACT
from tile_evaluator import run

from pyasc.backend.ascend.backend import Ascend
from pyasc.backend.ascend.chip import load
from pyasc.backend.ascend.support import ULP
from pyasc.backend.base import KernelFault
from pyasc.backend.ir import Access, Binding, Instr, Kernel, Operand
from pyasc.backend.sim.backend import compiled, launch
from pyasc.ops.primitives import PRIMITIVES

OUTPUTS = 8  # primitives in one kernel
CHIP = load("910B1")


def in_source(
    ops: list[tuple[str, np.dtype[Any], tuple[Any, ...]]],
    args: list[Array],
    number: Any = None,
    first: bool = False,
) -> list[Array]:
    """The results of several primitives of the same operands, from one kernel: (name, result, attrs) each.

    A number, an argument of the kernel, is the last operand, or the first.
    """
    n = len(args[0])
    body = [Instr("load", a.dtype, (), (k,)) for k, a in enumerate(args)]
    if number is not None:
        body.append(Instr("scalar", number.dtype, (), (0,)))
    operands_ = [Operand(f"x{k}", a.dtype) for k, a in enumerate(args)]
    outputs = []
    for name, result, attrs in ops:
        arity = 3 if name == "where" else PRIMITIVES[name].arity
        order = tuple(range(arity))
        body.append(Instr(name, result, order[::-1] if first else order, attrs))
        body.append(Instr("store", result, (len(body) - 1,), (len(operands_),)))
        operands_.append(Operand(f"y{len(outputs)}", result, output=True))
        outputs.append(np.empty(n, result))
    accesses = tuple(Access(k, "1", k) for k in range(len(operands_)))
    scalars = () if number is None else (number.dtype,)
    kernel = Kernel(1, 0, tuple(operands_), accesses, scalars, tuple(body), ops[0][0])
    binding = Binding((n,), ((1,),) * len(accesses), (0,) * len(accesses))
    bits = [] if number is None else [int.from_bytes(number.tobytes(), "little")]
    ran(kernel, binding, [*args, *outputs], bits)
    return outputs


def groups(ops: list[Any]) -> list[list[Any]]:
    return [ops[k : k + OUTPUTS] for k in range(0, len(ops), OUTPUTS)]


def by_kind() -> list[tuple[np.dtype[Any], int, list[str]]]:
    found: dict[tuple[np.dtype[Any], int], list[str]] = {}
    for op, dtype in EXACT:
        found.setdefault((dtype, PRIMITIVES[op].arity), []).append(op)
    return [(dtype, arity, g) for (dtype, arity), ops in found.items() for g in groups(ops)]


QUICK = ("int32", "float32")


def cases() -> list[Any]:
    return [
        pytest.param(
            *case,
            id=f"{case[0].name}-{case[2][0]}",
            marks=[] if case[0].name in QUICK else [pytest.mark.full],
        )
        for case in by_kind()
    ]


@pytest.mark.parametrize(("dtype", "arity", "ops"), cases())
def test_bit_for_bit(dtype: np.dtype[Any], arity: int, ops: list[str]) -> None:
    args = operands(random_source("source", dtype.name, arity), [dtype] * arity, 3000)
    results = [PRIMITIVES[op].result(*(dtype,) * arity) for op in ops]  # type: ignore[misc]
    for op, result, got in zip(
        ops, results, in_source([(o, r, ()) for o, r in zip(ops, results, strict=True)], args), strict=True
    ):
        assert_same(got, meaning(op, *args, dtype=result), *args)


@pytest.mark.parametrize(
    "first", [False, pytest.param(True, marks=pytest.mark.full)], ids=["second", "first"]
)
@pytest.mark.parametrize(("dtype", "arity", "ops"), [c for c in cases() if c.values[1] == 2])
def test_with_an_argument(dtype: np.dtype[Any], arity: int, ops: list[str], first: bool) -> None:
    """One operand is a scalar argument of the kernel."""
    x = operands(random_source("argument", dtype.name), [dtype], 2000)
    results = [PRIMITIVES[op].result(dtype, dtype) for op in ops]  # type: ignore[misc]
    small = [0, 1, 3, 40, 250] if dtype.kind == "u" else [0, 1, -3, 40, -100]
    for number in np.array([0, 1] if dtype.kind == "b" else small).astype(dtype):
        got = in_source([(o, r, ()) for o, r in zip(ops, results, strict=True)], x, number, first)
        both = [np.asarray(number), *x] if first else [*x, np.asarray(number)]
        for op, result, values in zip(ops, results, got, strict=True):
            assert_same(values, meaning(op, *both, dtype=result), *both)


@pytest.mark.parametrize(
    "source",
    [pytest.param(d, marks=[] if d.name == "float32" else [pytest.mark.full]) for d in DTYPES],
    ids=names,
)
def test_cast(source: np.dtype[Any]) -> None:
    x = operands(random_source("cast", source.name), [source], 3000)
    for targets in groups([d for d in DTYPES if d != source]):
        for target, got in zip(targets, in_source([("cast", d, ()) for d in targets], x), strict=True):
            assert_same(got, meaning("cast", *x, dtype=target), *x)


UNARY = groups([n for n in ULP if n not in ("atan2", "pow", "hypot")])


@pytest.mark.parametrize(
    "functions",
    [pytest.param(g, marks=[pytest.mark.full] if k else [], id=g[0]) for k, g in enumerate(UNARY)],
)
def test_transcendental(functions: list[str]) -> None:
    x = [arguments("tanh")[0][::7].copy()]
    for name, got in zip(
        functions, in_source([(n, np.dtype(np.float32), ()) for n in functions], x), strict=True
    ):
        expected, _ = run(name, *x, dtype=np.float32)
        assert_same(got, expected, *x)


@pytest.mark.full
@pytest.mark.parametrize("name", ["atan2", "pow", "hypot"])
def test_transcendental_of_two(name: str) -> None:
    args = [a[::5].copy() for a in arguments(name)]
    (got,) = in_source([(name, np.dtype(np.float32), ())], args)
    expected, _ = run(name, *args, dtype=np.float32)
    assert_same(got, expected, *args)


def ran(kernel: Kernel, binding: Binding, buffers: list[Array], numbers: list[int]) -> None:
    generated = Ascend(CHIP, None).generate(kernel, binding)
    launch(compiled(generated, None), generated, generated.bind(binding), buffers, numbers)


def test_wrapped_indices_gather() -> None:
    """x[index], and an index out of range that 32 bits do not hold."""
    i64, f32 = np.dtype(np.int64), np.dtype(np.float32)
    n, m, size = 30, 40, 100
    body = (
        Instr("load", i64, (), (0,)),
        Instr("scalar", i64, (), (0,)),
        Instr("wrap_index", i64, (0, 1), (0,)),
        Instr("scalar", i64, (), (1,)),
        Instr("mul", i64, (2, 3)),
        Instr("index", i64, (), (1,)),
        Instr("add", i64, (4, 5)),
        Instr("gather", f32, (6,), (1,)),
        Instr("store", f32, (7,), (2,)),
    )
    places = (Operand("index", i64), Operand("x", f32), Operand("y", f32, output=True))
    accesses = (Access(0, "10", 0), Access(1, "00", 1), Access(2, "n1", 2))
    kernel = Kernel(2, 0, places, accesses, (i64, i64), body, "take")
    binding = Binding((n, m), ((1, 0), (0, 0), (m, 1)), (0, 0, 0))
    index = random_source("take").integers(-size, size, n)
    x, y = np.arange(size * m, dtype=f32), np.empty(n * m, f32)
    ran(kernel, binding, [index, x, y], [size, m])
    assert_same(y, x.reshape(size, m)[index].ravel())
    index[7] = 2**40 + 3
    with pytest.raises(KernelFault):
        ran(kernel, binding, [index, x, y], [size, m])


@pytest.mark.full
def test_random_bits_of_a_generator_that_has_drawn() -> None:
    i64, u64, u32 = np.dtype(np.int64), np.dtype(np.uint64), np.dtype(np.uint32)
    numbers = [0xDEADBEEF12345678, 5, 2**33 + 7]
    body = (
        Instr("index", i64, (), (0,)),
        Instr("cast", u64, (0,)),
        *(Instr("scalar", u64, (), (k,)) for k in range(3)),
        Instr("add", u64, (1, 4)),
        Instr("random_bits", u32, (5, 2, 3), (0,)),
        Instr("store", u32, (6,), (0,)),
    )
    kernel = Kernel(1, 0, (Operand("y", u32, output=True),), (Access(0, "1", 0),), (u64,) * 3, body, "bits")
    got = np.empty(1000, u32)
    ran(kernel, Binding((1000,), ((1,),), (0,)), [got], numbers)
    counter = np.arange(1000, dtype=u64) + u64.type(numbers[2])
    assert_same(got, meaning("random_bits", counter, *map(u64.type, numbers[:2]), dtype=u32, attrs=(0,)))
