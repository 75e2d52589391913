"""A loop around one primitive, to run it on arrays without the rest of the backend."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from llvmlite import binding, ir

from pyasc.backend import _runtime
from pyasc.backend.cpu import primitives as p
from pyasc.backend.cpu.emitter import Emitter
from pyasc.backend.cpu.target import Target

Array = np.ndarray[Any, Any]
Dtype = np.dtype[Any]


def loop_module(
    op: str,
    dtype: Dtype,
    dtypes: tuple[Dtype, ...],
    attrs: tuple[Any, ...],
    width: int,
    target: Target,
    fault: Callable[[ir.Value, ir.Value], None] = lambda condition, value: None,
) -> ir.Module:
    """``loop(n, *operands, result)`` over n elements, a multiple of the width."""
    module = ir.Module()
    module.triple = target.triple
    pointer, i64 = ir.PointerType(), ir.IntType(64)
    kind = ir.FunctionType(ir.VoidType(), [i64] + [pointer] * (len(dtypes) + 1))
    function = ir.Function(module, kind, "loop")
    entry, body, done = (function.append_basic_block() for _ in range(3))
    builder = ir.IRBuilder(entry)
    builder.branch(body)
    builder.position_at_end(body)
    index = builder.phi(i64)
    index.add_incoming(ir.Constant(i64, 0), entry)
    context = Emitter(builder, module, width, target, fault)
    values = []
    for argument, of in zip(function.args[1:], dtypes, strict=False):
        element = p.memory_type(of)
        place = builder.gep(argument, [index], source_etype=element)
        loaded = builder.load(place, align=of.itemsize, typ=ir.VectorType(element, width))
        values.append(p.from_memory(builder, loaded, of, width))
    result = p.to_memory(builder, p.emit(context, op, dtype, values, list(dtypes), attrs), dtype, width)
    place = builder.gep(function.args[-1], [index], source_etype=p.memory_type(dtype))
    builder.store(result, place, align=dtype.itemsize)
    following = builder.add(index, ir.Constant(i64, width))
    index.add_incoming(following, builder.block)
    builder.cbranch(builder.icmp_unsigned("<", following, function.args[0]), body, done)
    builder.position_at_end(done)
    builder.ret_void()
    return module


def optimised(module: ir.Module, machine: Any) -> Any:
    parsed = binding.parse_assembly(str(module))
    parsed.verify()
    options = binding.create_pipeline_tuning_options(1)
    options.loop_vectorization = options.slp_vectorization = False
    passes = binding.create_pass_builder(machine, options)
    passes.getModulePassManager().run(parsed, passes)
    return parsed


@cache
def compiled(
    op: str, dtype: Dtype, dtypes: tuple[Dtype, ...], attrs: tuple[Any, ...], width: int, target: Target
) -> tuple[Callable[..., None], Any]:
    machine = target.machine()
    parsed = optimised(loop_module(op, dtype, dtypes, attrs, width, target), machine)
    code = _runtime.load_object(machine.emit_object(parsed), ["loop"])
    arguments = [ctypes.c_int64] + [ctypes.c_void_p] * (len(dtypes) + 1)
    return ctypes.CFUNCTYPE(None, *arguments)(code.addresses[0]), code


def run(
    op: str,
    *operands: Array,
    dtype: Any = None,
    attrs: tuple[Any, ...] = (),
    width: int = 16,
    target: Target | None = None,
) -> Array:
    """Apply a primitive to arrays of one shape."""
    dtype = np.dtype(dtype) if dtype is not None else operands[0].dtype
    size = operands[0].size
    padded = -(-size // width) * width
    # The last element again, rather than numbers that the operands do not hold.
    buffers = [np.concatenate([a, np.repeat(a[-1:], padded - size)]) for a in operands]
    result = np.empty(padded, dtype)
    call, _ = compiled(op, dtype, tuple(a.dtype for a in operands), attrs, width, target or Target.host())
    call(padded, *(b.ctypes.data for b in buffers), result.ctypes.data)
    return result[:size]
