"""The primitives: the ground floor on which every operation stands.

A primitive has a name, a kind, a rule for the dtype of its result and a meaning: a
function of NumPy arrays that says what it computes. The meaning is the oracle of the
tests and the fallback of every backend: what a backend has no code for, it runs on the
host by its meaning. Operands arrive with the dtypes they are computed in; promotion and
broadcasting happen above, when an operation is recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import meaning as m

Array = NDArray[Any]
Dtype = np.dtype[Any]


class Kind(Enum):
    """How a primitive relates the index of its result to the indices of its operands."""

    LEAF = "leaf"  # a buffer that exists
    SCALAR = "scalar"  # a Python number, an argument of the kernel and never part of its key
    GENERATOR = "generator"  # depends on nothing but the index: iota, full, empty
    ELEMENTWISE = "elementwise"  # result[i] from operand[i]; operands are full-shaped or rank-0 scalars
    VIEW = "view"  # as_strided on the operand's contiguous buffer
    REDUCE = "reduce"  # result[p] from operand[p, r] over all r
    GATHER = "gather"  # result[i] = base.flat[index[i]]
    UPDATE = "update"  # a copy of the base with one strided region replaced
    HOST = "host"  # anything else: run by its meaning


@dataclass(frozen=True, eq=False)
class Primitive:
    """One primitive.

    Attributes
    ----------
    name : str
        Unique, in the field's terms.
    kind : Kind
    arity : int
        Number of operands; -1 for any number.
    meaning : callable
        ``meaning(*operands, attrs=..., shape=..., dtype=...)`` returns the result as a
        NumPy array of that shape and dtype.
    result : callable or None
        The dtype of the result from the operands' dtypes; None where the recording
        operation states it.
    dtypes : str
        The dtype characters (NumPy kinds ``b i u f V`` with V for bfloat16) that the operands may have.
    cost : float
        Arithmetic of one element relative to one addition; the scheduler weighs
        recomputation by it.
    """

    name: str
    kind: Kind
    arity: int
    meaning: Callable[..., Array] = field(repr=False)
    result: Callable[..., Dtype] | None = field(default=None, repr=False)
    dtypes: str = "biufV"
    cost: float = 1.0

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> str | tuple[Any, ...]:
        return (_by_name, (self.name,))


PRIMITIVES: dict[str, Primitive] = {}


def _by_name(name: str) -> Primitive:
    return PRIMITIVES[name]


def _define(
    name: str,
    kind: Kind,
    arity: int,
    meaning: Callable[..., Array],
    result: Callable[..., Dtype] | None = None,
    dtypes: str = "biufV",
    cost: float = 1.0,
) -> Primitive:
    primitive = Primitive(name, kind, arity, meaning, result, dtypes, cost)
    PRIMITIVES[name] = primitive
    return primitive


BOOL: Dtype = np.dtype(np.bool_)


def _first(*dtypes: Dtype) -> Dtype:
    return dtypes[0]


def _bool(*dtypes: Dtype) -> Dtype:
    return BOOL


def _elementwise(
    name: str,
    function: Callable[..., Any],
    arity: int,
    dtypes: str,
    cost: float = 1.0,
    result: Callable[..., Dtype] = _first,
) -> Primitive:
    return _define(name, Kind.ELEMENTWISE, arity, m.elementwise(function), result, dtypes, cost)


# --- leaves, scalars and generators ------------------------------------------------------
LEAF = _define("leaf", Kind.LEAF, 0, m.no_meaning)
SCALAR = _define("scalar", Kind.SCALAR, 0, m.no_meaning)
EMPTY = _define("empty", Kind.GENERATOR, 0, m.empty)
FULL = _define("full", Kind.GENERATOR, 1, m.full)  # operand: a rank-0 scalar
IOTA = _define("iota", Kind.GENERATOR, 0, m.iota, dtypes="i")  # attrs = (axis,); int64

# --- views, updates, gathers ---------------------------------------------------------------
# attrs = (strides, offset) in elements of the operand's contiguous buffer; the operand is never
# itself a view. Strides may be 0 (broadcast) or negative.
VIEW = _define("view", Kind.VIEW, 1, m.view, _first)
# operands (base, value); attrs = (strides, offset) of the region of base that value replaces.
UPDATE = _define("update", Kind.UPDATE, 2, m.update, _first)
# operands (base, index): index is int64, flat into base's contiguous buffer and in range.
GATHER = _define("gather", Kind.GATHER, 2, m.gather, _first, cost=2)

# --- elementwise: float ----------------------------------------------------------------------
NEG = _elementwise("neg", np.negative, 1, "iufV")
ABS = _elementwise("abs", np.absolute, 1, "iufV")
FLOOR = _elementwise("floor", np.floor, 1, "fV")
CEIL = _elementwise("ceil", np.ceil, 1, "fV")
TRUNC = _elementwise("trunc", np.trunc, 1, "fV")
RINT = _elementwise("rint", np.rint, 1, "fV")
SQRT = _elementwise("sqrt", np.sqrt, 1, "fV", 4)
CBRT = _elementwise("cbrt", np.cbrt, 1, "fV", 16)
EXP = _elementwise("exp", np.exp, 1, "fV", 10)
EXP2 = _elementwise("exp2", np.exp2, 1, "fV", 10)
EXPM1 = _elementwise("expm1", np.expm1, 1, "fV", 12)
LOG = _elementwise("log", np.log, 1, "fV", 12)
LOG2 = _elementwise("log2", np.log2, 1, "fV", 12)
LOG10 = _elementwise("log10", np.log10, 1, "fV", 12)
LOG1P = _elementwise("log1p", np.log1p, 1, "fV", 14)
SIN = _elementwise("sin", np.sin, 1, "fV", 14)
COS = _elementwise("cos", np.cos, 1, "fV", 14)
TAN = _elementwise("tan", np.tan, 1, "fV", 18)
ASIN = _elementwise("asin", np.arcsin, 1, "fV", 16)
ACOS = _elementwise("acos", np.arccos, 1, "fV", 16)
ATAN = _elementwise("atan", np.arctan, 1, "fV", 16)
SINH = _elementwise("sinh", np.sinh, 1, "fV", 16)
COSH = _elementwise("cosh", np.cosh, 1, "fV", 16)
TANH = _elementwise("tanh", np.tanh, 1, "fV", 12)
ASINH = _elementwise("asinh", np.arcsinh, 1, "fV", 20)
ACOSH = _elementwise("acosh", np.arccosh, 1, "fV", 20)
ATANH = _elementwise("atanh", np.arctanh, 1, "fV", 20)
ERF = _elementwise("erf", m.erf, 1, "fV", 14)

# --- elementwise: arithmetic -----------------------------------------------------------------
ADD = _elementwise("add", np.add, 2, "biufV")
SUB = _elementwise("sub", np.subtract, 2, "iufV")
MUL = _elementwise("mul", np.multiply, 2, "biufV")
DIV = _elementwise("div", np.true_divide, 2, "fV", 4)
FLOOR_DIVIDE = _elementwise("floor_divide", np.floor_divide, 2, "iufV", 8)
REMAINDER = _elementwise("remainder", np.remainder, 2, "iufV", 8)
FMOD = _elementwise("fmod", np.fmod, 2, "iufV", 8)
POW = _elementwise("pow", m.power, 2, "iufV", 24)
# NaN propagates, as in numpy.maximum; fmax and fmin are built from these.
MAX = _elementwise("max", np.maximum, 2, "biufV")
MIN = _elementwise("min", np.minimum, 2, "biufV")
ATAN2 = _elementwise("atan2", np.arctan2, 2, "fV", 20)
HYPOT = _elementwise("hypot", np.hypot, 2, "fV", 12)
COPYSIGN = _elementwise("copysign", np.copysign, 2, "fV")
NEXTAFTER = _elementwise("nextafter", np.nextafter, 2, "fV", 4)

# --- elementwise: bits, comparison, selection --------------------------------------------------
NOT = _elementwise("not", np.invert, 1, "biu")  # logical on bool, bitwise on integers
AND = _elementwise("and", np.bitwise_and, 2, "biu")
OR = _elementwise("or", np.bitwise_or, 2, "biu")
XOR = _elementwise("xor", np.bitwise_xor, 2, "biu")
# A shift by the width or more gives 0 (or the sign, shifting a signed value right), as in NumPy.
SHIFT_LEFT = _elementwise("shift_left", np.left_shift, 2, "iu")
SHIFT_RIGHT = _elementwise("shift_right", np.right_shift, 2, "iu")
POPCOUNT = _elementwise("popcount", np.bitwise_count, 1, "iu", 2, lambda d: np.dtype(np.uint8))
EQ = _elementwise("eq", np.equal, 2, "biufV", 1, _bool)
NE = _elementwise("ne", np.not_equal, 2, "biufV", 1, _bool)
LT = _elementwise("lt", np.less, 2, "biufV", 1, _bool)
LE = _elementwise("le", np.less_equal, 2, "biufV", 1, _bool)
WHERE = _elementwise("where", m.where, 3, "biufV", 1, lambda c, a, b: a)
# The dtype of the result is the recording operation's to state. Float to integer truncates
# toward zero; out of range saturates and NaN gives 0, on every backend.
CAST = _define("cast", Kind.ELEMENTWISE, 1, m.cast)
BITCAST = _define("bitcast", Kind.ELEMENTWISE, 1, m.bitcast, dtypes="iufV")  # same width
# Philox4x32-10. Operands: counter uint64 (full shape), key uint64 scalar, stream uint64 scalar;
# attrs = (word,) picks one of the four uint32 words of each block.
RANDOM_BITS = _define(
    "random_bits", Kind.ELEMENTWISE, 3, m.random_bits, lambda *d: np.dtype(np.uint32), "u", 40
)
# operands (index, size): int64; a negative index counts from the end; an index outside
# [-size, size) raises a fault that the runtime turns into IndexError at the recording line.
WRAP_INDEX = _define("wrap_index", Kind.ELEMENTWISE, 2, m.wrap_index, _first, "i", 2)

# --- reductions ------------------------------------------------------------------------------
# attrs = (how, axes), axes sorted; the result has those axes removed. how is one of REDUCTIONS.
# float16 and bfloat16 accumulate in float32 and round once; argmax and argmin take one axis and
# give int64, the first of equals, NaN counting as the extreme.
REDUCE = _define("reduce", Kind.REDUCE, 1, m.reduce)
REDUCTIONS = ("add", "mul", "max", "min", "and", "or", "argmax", "argmin")

# --- what runs by its meaning on the host -------------------------------------------------------
# attrs = (name of the function in ops.host, *static arguments). One output.
HOST_CALL = _define("host_call", Kind.HOST, -1, m.host_call)
# attrs = (how, axis): how is add, mul, max or min; accumulates along one axis.
SCAN = _define("scan", Kind.HOST, 1, m.scan, _first)
# A kernel written by hand; what it is, pyasc/lazy/handwritten.py knows. Operands: the arrays' owners, then
# the scalars. The result is the first owner it writes, as it is afterwards; KERNEL_OUTPUT, with
# attrs = (number,), gives the others.
KERNEL = _define("kernel", Kind.HOST, -1, m.no_meaning)
KERNEL_OUTPUT = _define("kernel_output", Kind.HOST, 1, m.no_meaning)
# numpy.matmul of operands at least 2-D.
MATMUL = _define("matmul", Kind.HOST, 2, m.matmul, _first)
