"""Vectors of LLVM values with the operators of Python, and the context they are emitted in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from llvmlite import ir

from .target import Target

I1, I8, I16, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
HALF, F32, F64 = ir.HalfType(), ir.FloatType(), ir.DoubleType()

Fault = Callable[[ir.Value, ir.Value], None]


def _no_fault(condition: ir.Value, value: ir.Value) -> None:
    raise AssertionError("this kernel has no place for faults")


class Splat(ir.Constant):  # type: ignore[misc]
    """A vector constant with one number in all lanes, short however many there are."""

    def __init__(self, kind: ir.VectorType, text: str) -> None:
        self.type = kind
        self.constant = f"splat ({kind.element} {text})"

    def _get_reference(self) -> str:
        return self.constant


class Text(ir.Constant):  # type: ignore[misc]
    """A constant as it is written; llvmlite would write out the elements of a vector."""

    def __init__(self, kind: ir.Type, text: str) -> None:
        self.type = kind
        self.constant = text

    def _get_reference(self) -> str:
        return str(self.constant)


def element_bits(element: ir.Type) -> int:
    """Width of a scalar type in bits."""
    if isinstance(element, ir.IntType):
        return int(element.width)
    return {HALF: 16, F32: 32, F64: 64}[element]


@dataclass
class Emitter:
    """Where instructions go.

    Attributes
    ----------
    builder : ir.IRBuilder
    module : ir.Module
    width : int
        Lanes of every vector; values are ``<width x element>``, also where width is 1. Where it is 0 they
        are scalars, which not every formula can do (`primitives.takes_scalars`).
    target : Target
    fault : callable
        ``fault(condition, value)`` records the first value whose condition, a vector of i1, holds.
    """

    builder: ir.IRBuilder
    module: ir.Module
    width: int
    target: Target
    fault: Fault = _no_fault
    _constants: dict[tuple[ir.Type, str], ir.Value] = field(default_factory=dict, repr=False)

    def vector(self, element: ir.Type) -> ir.Type:
        return ir.VectorType(element, self.width) if self.width else element

    def constant(self, element: ir.Type, number: int | float) -> ir.Value:
        """The vector with one number in all lanes."""
        key = (element, repr(number))
        value = self._constants.get(key)
        if value is None:
            if isinstance(element, ir.IntType):
                bits = element.width
                number = int(number) & ((1 << bits) - 1)
                text = ("true" if number else "false") if bits == 1 else str(number)
            else:
                text = element.format_constant(float(number))
            kind = self.vector(element)
            value = Splat(kind, text) if self.width else Text(kind, text)
            self._constants[key] = value
        return value

    def lanes(self, element: ir.Type, number: int | float) -> Lanes:
        return Lanes(self, self.constant(element, number))

    def intrinsic(self, name: str, result: ir.Type, *args: ir.Value) -> ir.Value:
        """Call a function that is declared on its first use; ``llvm.*`` names get no suffix added."""
        function = self.module.globals.get(name)
        if function is None:
            function = ir.Function(self.module, ir.FunctionType(result, [a.type for a in args]), name)
        return self.builder.call(function, args)

    def elementwise(self, name: str, *args: ir.Value) -> ir.Value:
        """``llvm.<name>`` overloaded on the type of its first operand."""
        return self.intrinsic(f"llvm.{name}.{suffix(args[0].type)}", args[0].type, *args)

    def function(
        self,
        name: str,
        result: ir.Type,
        args: Sequence[ir.Value],
        body: Callable[[Emitter, Sequence[ir.Value]], ir.Value],
        cold: bool = False,
    ) -> ir.Value:
        """Call a private function of the module, which ``body`` emits on the first call.

        A cold one seldom runs: no time is spent on optimising it.
        """
        name = f"{name}.{self.width}"
        function = self.module.globals.get(name)
        if function is None:
            function = ir.Function(self.module, ir.FunctionType(result, [a.type for a in args]), name)
            function.linkage = "internal"
            function.attributes.add("nounwind")
            function.attributes.add("noinline")
            if cold:
                function.attributes.add("optnone")
            builder = ir.IRBuilder(function.append_basic_block())
            inner = Emitter(builder, self.module, self.width, self.target)
            builder.ret(body(inner, function.args))
        return self.builder.call(function, args)


def suffix(kind: ir.Type) -> str:
    """The name LLVM gives a type in the name of an overloaded intrinsic."""
    if isinstance(kind, ir.VectorType):
        return f"v{kind.count}{suffix(kind.element)}"
    return f"i{kind.width}" if isinstance(kind, ir.IntType) else f"f{element_bits(kind)}"


class Lanes:
    """A vector value with operators, so that formulas read like formulas.

    Numbers on either side become constants in all lanes. Integers are signed; `shift_right_logical`
    and `below` treat them as unsigned. Comparisons of floats are ordered: false where one is NaN.
    """

    __slots__ = ("context", "value")

    def __init__(self, context: Emitter, value: ir.Value) -> None:
        self.context = context
        self.value = value

    @property
    def element(self) -> ir.Type:
        kind: ir.Type = self.value.type
        return kind.element if isinstance(kind, ir.VectorType) else kind

    @property
    def is_float(self) -> bool:
        return not isinstance(self.element, ir.IntType)

    def like(self, operand: Any) -> Lanes:
        return operand if isinstance(operand, Lanes) else self.context.lanes(self.element, operand)

    def _binary(self, operand: Any, integer: str, floating: str, swap: bool = False) -> Lanes:
        a, b = self.value, self.like(operand).value
        if swap:
            a, b = b, a
        builder = self.context.builder
        return Lanes(self.context, getattr(builder, floating if self.is_float else integer)(a, b))

    def __add__(self, operand: Any) -> Lanes:
        return self._binary(operand, "add", "fadd")

    __radd__ = __add__

    def __sub__(self, operand: Any) -> Lanes:
        return self._binary(operand, "sub", "fsub")

    def __rsub__(self, operand: Any) -> Lanes:
        return self._binary(operand, "sub", "fsub", swap=True)

    def __mul__(self, operand: Any) -> Lanes:
        return self._binary(operand, "mul", "fmul")

    __rmul__ = __mul__

    def __truediv__(self, operand: Any) -> Lanes:
        return self._binary(operand, "sdiv", "fdiv")

    def __rtruediv__(self, operand: Any) -> Lanes:
        return self._binary(operand, "sdiv", "fdiv", swap=True)

    def __and__(self, operand: Any) -> Lanes:
        return self._binary(operand, "and_", "")

    def __or__(self, operand: Any) -> Lanes:
        return self._binary(operand, "or_", "")

    def __xor__(self, operand: Any) -> Lanes:
        return self._binary(operand, "xor", "")

    def __lshift__(self, operand: Any) -> Lanes:
        return self._binary(operand, "shl", "")

    def __rshift__(self, operand: Any) -> Lanes:
        return self._binary(operand, "ashr", "")

    def shift_right_logical(self, operand: Any) -> Lanes:
        return self._binary(operand, "lshr", "")

    def __neg__(self) -> Lanes:
        builder = self.context.builder
        return Lanes(self.context, builder.fneg(self.value) if self.is_float else builder.neg(self.value))

    def __invert__(self) -> Lanes:
        return Lanes(self.context, self.context.builder.not_(self.value))

    def _compare(self, sign: str, operand: Any) -> Lanes:
        builder = self.context.builder
        compare = builder.fcmp_ordered if self.is_float else builder.icmp_signed
        return Lanes(self.context, compare(sign, self.value, self.like(operand).value))

    def __lt__(self, operand: Any) -> Lanes:
        return self._compare("<", operand)

    def __le__(self, operand: Any) -> Lanes:
        return self._compare("<=", operand)

    def __gt__(self, operand: Any) -> Lanes:
        return self._compare(">", operand)

    def __ge__(self, operand: Any) -> Lanes:
        return self._compare(">=", operand)

    def equals(self, operand: Any) -> Lanes:
        return self._compare("==", operand)

    def differs(self, operand: Any) -> Lanes:
        """Not equal; true where a float is NaN."""
        if not self.is_float:
            return self._compare("!=", operand)
        value = self.context.builder.fcmp_unordered("!=", self.value, self.like(operand).value)
        return Lanes(self.context, value)

    def below(self, operand: Any) -> Lanes:
        """Less than, both as unsigned integers."""
        value = self.context.builder.icmp_unsigned("<", self.value, self.like(operand).value)
        return Lanes(self.context, value)

    def unordered(self, operand: Lanes) -> Lanes:
        """Whether either is NaN."""
        return Lanes(self.context, self.context.builder.fcmp_unordered("uno", self.value, operand.value))

    def is_nan(self) -> Lanes:
        return self.unordered(self)

    def where(self, x: Lanes | float, y: Lanes | float) -> Lanes:
        """``x`` where this condition holds, else ``y``; at least one of them is a vector."""
        if isinstance(x, Lanes):
            y = x.like(y)
        else:
            assert isinstance(y, Lanes)
            x = y.like(x)
        return Lanes(self.context, self.context.builder.select(self.value, x.value, y.value))

    def any(self) -> ir.Value:
        """Whether any lane holds, as a scalar i1."""
        context = self.context
        if not context.width:
            return self.value
        return context.intrinsic(f"llvm.vector.reduce.or.v{context.width}i1", I1, self.value)

    def cast(self, element: ir.Type, signed: bool = True) -> Lanes:
        """Convert the numbers to another element type; float to integer must be in range."""
        if element == self.element:
            return self
        builder, to = self.context.builder, self.context.vector(element)
        if self.is_float:
            if isinstance(element, ir.IntType):
                convert = builder.fptosi if signed else builder.fptoui
            else:
                wider = element_bits(element) > element_bits(self.element)
                convert = builder.fpext if wider else builder.fptrunc
        elif isinstance(element, ir.IntType):
            if element.width < self.element.width:
                convert = builder.trunc
            else:
                convert = builder.sext if signed and self.element.width > 1 else builder.zext
        else:
            convert = builder.sitofp if signed and self.element.width > 1 else builder.uitofp
        return Lanes(self.context, convert(self.value, to))

    def as_element(self, element: ir.Type) -> Lanes:
        """The same bits as another element type of the same width."""
        if element == self.element:
            return self
        return Lanes(self.context, self.context.builder.bitcast(self.value, self.context.vector(element)))

    def bits(self) -> Lanes:
        """The bits of a float as an integer."""
        return self.as_element(ir.IntType(element_bits(self.element)))

    def ceil(self) -> Lanes:
        return Lanes(self.context, self.context.elementwise("ceil", self.value))

    def rint(self) -> Lanes:
        """The nearest integer, ties to even."""
        return Lanes(self.context, self.context.elementwise("rint", self.value))

    def floor(self) -> Lanes:
        return Lanes(self.context, self.context.elementwise("floor", self.value))

    def trunc(self) -> Lanes:
        return Lanes(self.context, self.context.elementwise("trunc", self.value))

    def sqrt(self) -> Lanes:
        return Lanes(self.context, self.context.elementwise("sqrt", self.value))

    def __abs__(self) -> Lanes:
        """Magnitude of a float."""
        return Lanes(self.context, self.context.elementwise("fabs", self.value))

    def copysign(self, sign: Lanes) -> Lanes:
        return Lanes(self.context, self.context.elementwise("copysign", self.value, sign.value))

    def at_most(self, bound: Any) -> Lanes:
        """The smaller of both; NaN stays NaN."""
        limit = self.like(bound)
        return (limit < self).where(limit, self)

    def at_least(self, bound: Any) -> Lanes:
        """The larger of both; NaN stays NaN."""
        limit = self.like(bound)
        return (limit > self).where(limit, self)


def fma(a: Lanes, b: Lanes | float, c: Lanes | float) -> Lanes:
    """``a * b + c``, rounded once where the target has the instruction.

    A float32 product is exact in float64, which stands in for the instruction on older processors.
    """
    context = a.context
    b, c = a.like(b), a.like(c)
    if a.element == F32 and not context.target.has_fma:
        return (a.cast(F64) * b.cast(F64) + c.cast(F64)).cast(F32)
    return Lanes(context, context.elementwise("fma", a.value, b.value, c.value))


def polynomial(x: Lanes, coefficients: Sequence[float]) -> Lanes:
    """Horner's rule, coefficients from the constant upward."""
    result = x.like(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        result = fma(result, x, c)
    return result
