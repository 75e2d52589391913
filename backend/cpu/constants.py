"""LLVM constants, written the short way: most of the time to compile a small kernel goes into its text."""

from __future__ import annotations

from llvmlite import ir

from .emitter import I64

POINTER = ir.PointerType()


def i64(value: int) -> ir.Constant:
    return ir.Constant(I64, value)


def zero(vector: ir.VectorType) -> ir.Value:
    return _Text(vector, "zeroinitializer")


def poison(vector: ir.VectorType) -> ir.Value:
    return _Text(vector, "poison")


def splat(scalar: ir.Constant, lanes: int) -> ir.Value:
    return _Text(ir.VectorType(scalar.type, lanes), f"splat ({scalar})")


class _Text(ir.Constant):  # type: ignore[misc]
    """A vector constant as it is written; llvmlite would write out its elements."""

    def __init__(self, vector: ir.VectorType, text: str) -> None:
        self.type = vector
        self.constant = text

    def _get_reference(self) -> str:
        return str(self.constant)
