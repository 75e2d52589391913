"""Formulas over values of a tile: operators that write down vector instructions.

A number stands for itself at every point; where the instruction has a form with a scalar it needs no buffer.
"""

from __future__ import annotations

from .tile import BYTES, MASK, Builder, Form, Scalar, Source, Value

Number = int | float
# What integers of a width are viewed as, for instructions that move bits: the float of that width.
_FLOAT_OF = {"i16": "f16", "u16": "f16", "f16": "f16", "i32": "f32", "u32": "f32", "f32": "f32"}
_SIGNED = {"f16": "i16", "u16": "i16", "i16": "i16", "f32": "i32", "u32": "i32", "i32": "i32", "bf16": "i16"}
_UNSIGNED = {"i16": "u16", "i32": "u32"}


def fitted(number: int, dtype: str) -> int:
    """An integer as the lanes of a dtype hold it, wrapped."""
    if dtype == "i32":
        return (number + 2**31) % 2**32 - 2**31
    return (number + 2**15) % 2**16 - 2**15 if dtype == "i16" else number


class Vector:
    """A value, with operators.

    Parameters
    ----------
    b : Builder
    value : Value
    """

    __slots__ = ("b", "value")

    def __init__(self, b: Builder, value: Value) -> None:
        self.b = b
        self.value = value

    @property
    def dtype(self) -> str:
        """Of the elements in UB."""
        return self.value.dtype

    def like(self, number: Number | Scalar) -> Vector:
        """A number at every point of this value's form."""
        if isinstance(number, int):
            number = fitted(number, self.value.dtype)
        return Vector(self.b, self.b.duplicate(number, self.value.dtype, self.value.form))

    def _of(self, value: Value) -> Vector:
        return Vector(self.b, value)

    # --- arithmetic ------------------------------------------------------------------------------------

    def _binary(self, op: str, other: Vector) -> Vector:
        return self._of(self.b.binary(op, self.value, other.value))

    def _scalar(self, op: str, number: Number | Scalar) -> Vector:
        if isinstance(number, int):
            number = fitted(number, self.value.dtype)
        return self._of(self.b.scalar(op, self.value, number))

    def __add__(self, other: Vector | Number | Scalar) -> Vector:
        return self._binary("Add", other) if isinstance(other, Vector) else self._scalar("Adds", other)

    def __sub__(self, other: Vector | Number) -> Vector:
        return self._binary("Sub", other) if isinstance(other, Vector) else self._scalar("Adds", -other)

    def __rsub__(self, number: Number) -> Vector:
        return -self + number

    def __mul__(self, other: Vector | Number | Scalar) -> Vector:
        return self._binary("Mul", other) if isinstance(other, Vector) else self._scalar("Muls", other)

    def __neg__(self) -> Vector:
        return self._scalar("Muls", -1 if self.value.dtype[0] == "i" else -1.0)

    def __truediv__(self, other: Vector) -> Vector:
        return self._binary("Div", other)

    def under(self, number: Number) -> Vector:
        """A number divided by this."""
        return self.like(number) / self

    def max(self, other: Vector | Number | Scalar) -> Vector:
        """The larger; what it makes of NaN is the chip's."""
        return self._binary("Max", other) if isinstance(other, Vector) else self._scalar("Maxs", other)

    def min(self, other: Vector | Number | Scalar) -> Vector:
        """The smaller; what it makes of NaN is the chip's."""
        return self._binary("Min", other) if isinstance(other, Vector) else self._scalar("Mins", other)

    def _unary(self, op: str) -> Vector:
        return self._of(self.b.unary(op, self.value))

    def __abs__(self) -> Vector:
        return self._unary("Abs")

    def exp(self) -> Vector:
        """The chip's exponential."""
        return self._unary("Exp")

    def ln(self) -> Vector:
        """The chip's natural logarithm."""
        return self._unary("Ln")

    def sqrt(self) -> Vector:
        """The chip's square root."""
        return self._unary("Sqrt")

    # --- bits --------------------------------------------------------------------------------------------

    def view(self, dtype: str) -> Vector:
        """The same bits as elements of another dtype."""
        return self._of(self.b.view(self.value, dtype))

    def bits(self) -> Vector:
        """As signed integers of the same width."""
        return self.view(_SIGNED[self.value.dtype])

    def floats(self) -> Vector:
        """As floats of the same width."""
        return self.view(_FLOAT_OF[self.value.dtype])

    def __and__(self, other: Vector) -> Vector:
        return self._binary("And", other)

    def __or__(self, other: Vector) -> Vector:
        return self._binary("Or", other)

    def __invert__(self) -> Vector:
        return self._unary("Not")

    def __xor__(self, other: Vector) -> Vector:
        if self.value.dtype == MASK:
            return (self | other) & ~(self & other)
        return (self | other) - (self & other)

    def __lshift__(self, count: int | Scalar) -> Vector:
        """Of the unsigned bits: for signed elements the instruction is documented to keep the sign."""
        return self._shift("ShiftLeft", count)

    def logical_right(self, count: int | Scalar) -> Vector:
        """A shift to the right that brings in zeros."""
        return self._shift("ShiftRight", count)

    def _shift(self, op: str, count: int | Scalar) -> Vector:
        signed = self.value.dtype
        unsigned = _UNSIGNED[signed]
        if isinstance(count, Scalar):
            count = Scalar(unsigned, f"static_cast<uint{unsigned[1:]}_t>({count.value})")
        return self.view(unsigned)._scalar(op, count).view(signed)

    def head(self, count: int) -> Vector:
        """The first bits, and 0 after them; no constant, which would lie in a buffer."""
        low = 8 * BYTES[self.value.dtype] - count
        return self.logical_right(low) << low

    def __rshift__(self, count: int | Scalar) -> Vector:
        return self._scalar("ShiftRight", count)

    # --- conversion, comparison, selection ---------------------------------------------------------------

    def cast(self, dtype: str, mode: str = "NONE") -> Vector:
        """Converted; `mode` is the end of a RoundMode's name."""
        return self._of(self.b.cast(self.value, dtype, mode))

    def compare(self, how: str, other: Vector | Number | Scalar) -> Vector:
        """A mask; `how` is a CMPMODE's name."""
        value = other.value if isinstance(other, Vector) else other
        return self._of(self.b.compare(how, self.value, value))

    def __lt__(self, other: Vector | Number | Scalar) -> Vector:
        return self.compare("LT", other)

    def __le__(self, other: Vector | Number | Scalar) -> Vector:
        return self.compare("LE", other)

    def __gt__(self, other: Vector | Number | Scalar) -> Vector:
        return self.compare("GT", other)

    def __ge__(self, other: Vector | Number | Scalar) -> Vector:
        return self.compare("GE", other)

    def equals(self, other: Vector | Number | Scalar) -> Vector:
        """A mask of where both are equal."""
        return self.compare("EQ", other)

    def differs(self, other: Vector | Number | Scalar) -> Vector:
        """A mask of where they are not equal, NaN included."""
        return self.compare("NE", other)

    def where(self, x: Vector, y: Vector | Number | Scalar) -> Vector:
        """Of a mask: `x` where it is set, else `y`."""
        dtype = x.value.dtype
        other: Source | Number
        if isinstance(y, Vector):
            other = y.floats().value
        elif dtype in ("f16", "f32"):
            other = y
        elif isinstance(y, Scalar) or y != 0:
            other = x.like(y).floats().value
        else:
            other = 0.0
        return self._of(self.b.select(self.value, x.floats().value, other)).view(dtype)

    def number(self, dtype: str, one: Number = 1) -> Vector:
        """Of a mask: a number where it is set, else 0."""
        ones = self._of(self.b.duplicate(one, dtype, self.value.form))
        return self.where(ones, 0)

    def copysign(self, sign: Vector) -> Vector:
        """The magnitude of this, which must not be negative, with the sign of another."""
        return (self.bits() | sign.bits().head(1)).view(self.value.dtype)


def vector(b: Builder, source: Source, form: Form = Form.COLUMN) -> Vector:
    """A source with operators; a scalar is laid out in a form."""
    if isinstance(source, Scalar):
        return Vector(b, b.duplicate(source, source.dtype, form))
    return Vector(b, source)
