"""Tile form: values in the unified buffer (UB) and the vector instructions that make them.

A tile is a plane of `rows` × `lanes` points. A value spans the whole plane, one of its rows or one of its
columns (`Form`); what is the same everywhere is a `Scalar` and lives in no buffer. Instructions are written
down once for the tile; counts, repeats and strides follow from the form when the source is written.

UB dtypes are short names: ``f16 f32 bf16 i8 u8 i16 u16 i32 u32 i64`` and ``mask``, one bit for each point,
what comparisons give and selections take.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

BYTES = {
    "f16": 2, "f32": 4, "bf16": 2, "i8": 1, "u8": 1, "i16": 2, "u16": 2, "i32": 4, "u32": 4, "i64": 8,
}  # fmt: skip
MASK = "mask"
# The dtypes of elements as they lie in memory, by name.
MEMORY = {
    "bool": "u8", "int8": "i8", "uint8": "u8", "int16": "i16", "uint16": "u16", "int32": "i32",
    "uint32": "u32", "int64": "i64", "float16": "f16", "bfloat16": "bf16", "float32": "f32",
}  # fmt: skip


class Form(Enum):
    """Which axes of the tile a value spans."""

    FULL = "full"
    ROW = "row"  # one element for each lane, the same in every row
    COLUMN = "column"  # one element for each row, the same in every lane
    BLOCKS = "blocks"  # a column with each element repeated over a block of 32 bytes
    SCRATCH = "scratch"  # bytes that an instruction needs while it works
    HALF = "half"  # half a row, folded
    FOLDED = "folded"  # what is left of a tile when blocks are folded
    PARTS = "parts"  # partial results of several cores
    STAGED = "staged"  # as it was copied, or is to be copied: `Room` says how it lies
    TABLE = "table"  # where in UB each element is taken from; kept as long as the kernel runs

    def join(self, other: Form) -> Form:
        """The form of a value computed from two."""
        return self if self is other else Form.FULL


@dataclass(frozen=True, slots=True)
class Room:
    """How many elements a value has that does not lie as the tile does.

    Attributes
    ----------
    point, row, lane : float
        For each point, row and lane that a tile may have.
    count : str
        The C++ expression of those there are, in whole repeats.
    fixed : int
        However large a tile is.
    """

    point: float
    row: float
    lane: float
    count: str
    fixed: int = 0


@dataclass(frozen=True, eq=False, slots=True)
class Value:
    """A value in UB; two are the same only if they are one object."""

    number: int
    dtype: str
    form: Form
    name: str = ""
    room: Room | None = None

    def __repr__(self) -> str:
        return f"v{self.number}:{self.dtype}:{self.form.value}"


@dataclass(frozen=True, slots=True, eq=False)
class Scalar:
    """A number that is the same for every point: known when the source is written, or an argument.

    Attributes
    ----------
    dtype : str
        A UB dtype; a bool is an ``f16`` of 0 or 1.
    value : int, float or str
        A number, or the C++ expression of an argument, of `dtype`.
    """

    dtype: str
    value: int | float | str

    def __eq__(self, other: object) -> bool:
        """The same number, down to the sign of zero."""
        if not isinstance(other, Scalar) or self.dtype != other.dtype or self.value != other.value:
            return False
        return self.value != 0 or str(self.value) == str(other.value)

    def __hash__(self) -> int:
        return hash((self.dtype, self.value))


Source = Value | Scalar


@dataclass(frozen=True, eq=False, slots=True)
class VectorInstr:
    """One vector instruction over a tile.

    Attributes
    ----------
    op : str
        The API's name (``Add``, ``Adds``, ``Cast``, ``CompareScalar``…), or one of the tile form's own:
        ``View`` (another dtype for the same bits, no instruction), ``Window`` (some rows further down, no
        instruction either), ``Index`` (the position along an axis),
        ``Fault`` (report the first point of a mask).
    dst : Value or None
    srcs : tuple of Value or Scalar
    attrs : tuple
        Rounding mode, comparison, …
    note : str
        A comment for the source, above the instruction.
    """

    op: str
    dst: Value | None
    srcs: tuple[Source, ...]
    attrs: tuple[Any, ...] = ()
    note: str = ""

    @property
    def reads(self) -> tuple[Value, ...]:
        """The values among the sources."""
        return tuple(s for s in self.srcs if isinstance(s, Value))


@dataclass
class Builder:
    """Writes down the instructions of a tile. What was computed before is not computed again."""

    instrs: list[VectorInstr] = field(default_factory=list)
    count: int = 0
    _known: dict[Any, Value] = field(default_factory=dict)
    _numbers: dict[Value, Scalar] = field(default_factory=dict)

    # --- what primitives are made of -----------------------------------------------------------------

    def binary(self, op: str, a: Source, b: Source) -> Value:
        """Add, Sub, Mul, Div, Max, Min of equal dtypes; And, Or of 16- and 32-bit integers and masks."""
        a, b = self.tile(a), self.tile(b)
        assert a.dtype == b.dtype, (op, a, b)
        return self.emit(op, a.dtype, (a, b))

    def scalar(self, op: str, a: Value, s: Scalar | int | float) -> Value:
        """Adds, Muls, Maxs, Mins; ShiftLeft and ShiftRight by a number of bits."""
        return self.emit(op, a.dtype, (a, self.number(s, a.dtype)))

    def unary(self, op: str, a: Value) -> Value:
        """Abs, Exp, Ln, Sqrt, Rsqrt, Reciprocal, Relu; Not of 16- and 32-bit integers and masks."""
        return self.emit(op, a.dtype, (a,))

    def cast(self, a: Value, dtype: str, mode: str = "NONE") -> Value:
        """Another dtype, rounded: NONE, RINT, FLOOR, CEIL, ROUND, TRUNC or ODD as the pair allows."""
        return self.emit("Cast", dtype, (a,), (mode,))

    def view(self, a: Value, dtype: str) -> Value:
        """The same bits as another dtype of the same width."""
        return a if a.dtype == dtype else self.emit("View", dtype, (a,))

    def compare(self, how: str, a: Value, b: Source | int | float) -> Value:
        """A mask: LT, LE, GT, GE, EQ or NE of f16 or f32; EQ also of i32."""
        if isinstance(b, Value):
            return self.emit("Compare", MASK, (a, b), (how,))
        return self.emit("CompareScalar", MASK, (a, self.number(b, a.dtype)), (how,))

    def select(self, mask: Value, a: Source, b: Source | int | float) -> Value:
        """`a` where the mask is set, else `b`; of f16 and f32, bits unchanged."""
        a = self.tile(a)
        b = b if isinstance(b, Value) else self.number(b, a.dtype)
        return self.emit("Select", a.dtype, (mask, a, b))

    def duplicate(self, s: Scalar | int | float, dtype: str, form: Form = Form.ROW) -> Value:
        """A number at every point. Where it meets other values it takes their form."""
        return self.emit_as(form, "Duplicate", dtype, (self.number(s, dtype),))

    def tile(self, source: Source) -> Value:
        """The source as a value."""
        return source if isinstance(source, Value) else self.duplicate(source, source.dtype)

    @staticmethod
    def number(s: Scalar | int | float, dtype: str) -> Scalar:
        """A number as a scalar of a dtype."""
        if isinstance(s, Scalar):
            assert s.dtype == dtype, (s, dtype)
            return s
        return Scalar(dtype, s)

    def fault(self, bad: Value, index: Value, number: int) -> None:
        """Report the first point of a mask: the fault's number and the i32 index there."""
        self.instrs.append(VectorInstr("Fault", None, (bad, index), (number,)))

    # --- writing down ----------------------------------------------------------------------------------

    def emit(self, op: str, dtype: str, srcs: Iterable[Source], attrs: tuple[Any, ...] = ()) -> Value:
        """An instruction whose form is that of its sources together."""
        sources = tuple(srcs)
        values = [s for s in sources if isinstance(s, Value)]
        forms = [v.form for v in values if v not in self._numbers] or [values[0].form]
        form = forms[0]
        for other in forms[1:]:
            form = form.join(other)
        if self._numbers:
            sources = tuple(
                self.duplicate(self._numbers[s], s.dtype, form)
                if isinstance(s, Value) and s.form is not form and s in self._numbers
                else s
                for s in sources
            )
        return self.emit_as(form, op, dtype, sources, attrs)

    def emit_as(
        self, form: Form, op: str, dtype: str, srcs: tuple[Source, ...], attrs: tuple[Any, ...] = ()
    ) -> Value:
        """An instruction of a form of its own."""
        key = (op, dtype, srcs, attrs, form)
        found = self._known.get(key)
        if found is None:
            room = next((s.room for s in srcs if isinstance(s, Value)), None) if form is Form.STAGED else None
            found = self._known[key] = self.value(dtype, form, room=room)
            self.instrs.append(VectorInstr(op, found, srcs, attrs))
            if op == "Duplicate":
                (number,) = srcs
                assert isinstance(number, Scalar)
                self._numbers[found] = number
        return found

    def value(self, dtype: str, form: Form, name: str = "", room: Room | None = None) -> Value:
        """A value that something else than an instruction of this list makes."""
        self.count += 1
        return Value(self.count - 1, dtype, form, name, room)
