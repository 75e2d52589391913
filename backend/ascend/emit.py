"""The text of one vector instruction."""

from __future__ import annotations

from collections.abc import Callable

from . import folding
from .buffers import Buffers
from .reduction import identity
from .text import Writer, literal
from .tile import MASK, Form, Scalar, Source, Value, VectorInstr

_UNARY = ("Abs", "Exp", "Ln", "Sqrt", "Rsqrt", "Reciprocal", "Relu")
_BINARY = ("Add", "Sub", "Mul", "Div", "Max", "Min")
_SCALAR = ("Adds", "Muls", "Maxs", "Mins", "ShiftLeft", "ShiftRight", "LeakyRelu")
_LOGIC = ("And", "Or", "Not")
# How many elements each form has, as the variables of a tile are called.
COUNT = {Form.FULL: "n", Form.ROW: "nl", Form.COLUMN: "nr"}


def count_of(value: Value) -> str:
    """How many elements a value has, in whole repeats; "" where that is not told by its form."""
    return value.room.count if value.room else COUNT.get(value.form, "")


class InstructionWriter:
    """Writes instructions on the buffers that values were given.

    Parameters
    ----------
    write : Writer
    name : callable
        The C++ expression of a value's tensor, of a dtype.
    used : set of str
        Takes the device functions called.
    """

    def __init__(
        self, write: Writer, buffers: Buffers, name: Callable[[Value, str], str], used: set[str]
    ) -> None:
        self.write = write
        self.buffers = buffers
        self.name = name
        self.used = used

    def __call__(self, instr: VectorInstr) -> None:
        """Write an instruction with its comment."""
        op, dst = instr.op, instr.dst
        if instr.note:
            self.write(f"// {instr.note}")
        if op in ("View", "Window"):
            return  # the same buffer
        if op == "Fault":
            self._fault(instr)
            return
        assert dst is not None
        plain = count_of(dst)
        count = f"static_cast<int32_t>({plain})"
        to = self._tensor(dst)
        args = [self._argument(s) for s in instr.srcs]
        if op in _BINARY and instr.attrs:
            how, swapped = instr.attrs
            self.used.add(f"{op}Across")
            flags = f"{str(how == 'column').lower()}, {str(swapped).lower()}"
            self.write(f"{op}Across<{flags}>({to}, {args[0]}, {args[1]}, rows, pitch, n);")
        elif op in _BINARY or op in _UNARY or op in _SCALAR:
            self.write(f"{op}({', '.join([to, *args])}, {count});")
        elif op in _LOGIC:
            self._logic(instr, dst)
        elif op == "Cast":
            self.write(f"Cast({to}, {args[0]}, RoundMode::CAST_{instr.attrs[0]}, {plain});")
        elif op in ("Compare", "CompareScalar"):
            self.write(f"{op}({to}, {args[0]}, {args[1]}, CMPMODE::{instr.attrs[0]}, {plain});")
        elif op == "Select":
            kind = "SCALAR" if isinstance(instr.srcs[2], Scalar) else "TENSOR"
            self.write(f"Select({to}, {', '.join(args)}, SELMODE::VSEL_TENSOR_{kind}_MODE, {plain});")
        elif op == "Duplicate":
            self.write(f"Duplicate({to}, {args[0]}, {count});")
        elif op == "Out":
            if dst in self.buffers.moves:
                self._move(dst, instr.reads[0])
        elif op == "Move":
            self._move(dst, instr.reads[0])
        elif op == "Spread":
            self.used.add("Spread")
            across = str(instr.attrs[0] == "column").lower()
            self.write(f"Spread<{across}>({to}, {args[0]}, rows, pitch, n);")
        elif op == "Brcb":
            self.used.add("ToBlocks")
            self.write(f"ToBlocks({to}, {args[0]}, rows);")
        elif op == "Accumulate":
            self.write(f"{instr.attrs[0]}({to}, {args[0]}, {args[1]}, {count});")
        elif op == "Reduce":
            self._reduce(instr, dst)
        else:
            raise AssertionError(f"no text for {op}")

    # --- parts ---------------------------------------------------------------------------------------

    def _tensor(self, value: Value, dtype: str | None = None) -> str:
        return self.name(value, dtype or value.dtype)

    def _argument(self, source: Source) -> str:
        return literal(source) if isinstance(source, Scalar) else self._tensor(source)

    def _logic(self, instr: VectorInstr, dst: Value) -> None:
        """And, Or, Not of 16 bits at a time, whatever the values are."""
        plain = count_of(dst)
        kind = "i16" if dst.dtype == "i16" else "u16"
        scale = {"i16": plain, "u16": plain, "i32": f"{plain} * 2", "u32": f"{plain} * 2"}
        count = scale.get(dst.dtype, f"{plain} / 16")
        tensors = [self._tensor(v, kind) for v in (dst, *instr.reads)]
        self.write(f"{instr.op}({', '.join(tensors)}, static_cast<int32_t>({count}));")

    def _move(self, dst: Value, source: Value) -> None:
        """A copy within UB, whole blocks of it."""
        if dst.dtype == MASK:
            self.write(
                f"DataCopy({self._tensor(dst)}, {self._tensor(source)}, Align({count_of(dst)} / 8, 32));"
            )
        else:
            self.write(f"DataCopy({self._tensor(dst)}, {self._tensor(source)}, {count_of(dst)});")
        self.used.add("Align")

    def _reduce(self, instr: VectorInstr, dst: Value) -> None:
        op, fold = instr.attrs
        scratch = [self._tensor(v) for v in instr.reads[1:]]
        source = instr.reads[0]
        first = literal(Scalar(dst.dtype, identity(op, dst.dtype))) if op != "Nan" else ""
        if dst.form is Form.ROW:
            self.used.add(f"{op}Rows")
            self.write(f"{op}Rows({self._tensor(dst)}, {self._tensor(source)}, {first}, rows, pitch);")
            return
        if op == "Nan":
            self.used.add("NanLanes")
            args = [self._tensor(dst), self._tensor(source), *scratch]
            self.write(f"NanLanes({', '.join(args)}, rows, lanes, pitch);")
            return
        name = folding.function(op, dst.dtype, fold)
        self.used.add(name)
        args = [self._tensor(dst), self._tensor(source), *scratch, first]
        self.write(f"{name}({', '.join(args)}, rows, lanes, pitch);")

    def _fault(self, instr: VectorInstr) -> None:
        mask, index = instr.reads
        self.used.add("ReportFault")
        lanes = {Form.FULL: "rows, lanes, pitch", Form.ROW: "1, lanes, pitch", Form.COLUMN: "1, rows, rows"}
        self.write(
            f"ReportFault({self._tensor(mask)}, {self._tensor(index)}, {lanes[mask.form]}, "
            f"{1 + instr.attrs[0]}, status);"
        )
