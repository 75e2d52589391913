"""LLVM constants, written the short way: most of the time to compile a small kernel goes into its text."""

from __future__ import annotations

from llvmlite import ir

from .emitter import I64, Text

POINTER = ir.PointerType()


def i64(value: int) -> ir.Constant:
    return ir.Constant(I64, value)


def zero(vector: ir.VectorType) -> ir.Value:
    return Text(vector, "zeroinitializer")


def poison(vector: ir.VectorType) -> ir.Value:
    return Text(vector, "poison")


def splat(scalar: ir.Constant, lanes: int) -> ir.Value:
    return Text(ir.VectorType(scalar.type, lanes), f"splat ({scalar})")
