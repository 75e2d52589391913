"""The specification of KernelIR in structured form as checks. On in the tests and with ``PYASC_VERIFY=1``."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NoReturn

import numpy as np

from ...ops.dtypes import is_narrow
from ...ops.primitives import BOOL, PRIMITIVES, REDUCTIONS, Kind
from .. import structured as s
from ..ir import Dtype, Stride
from ..verify import InvalidKernel
from .format import format_structured
from .uniform import uniform

INT64: Dtype = np.dtype(np.int64)
_POSITIONS = ("UB", "A1", "B1", "C1", "A2", "B2", "C2", "CO1", "CO2")


def verify_structured(kernel: s.StructuredKernel) -> None:
    """Check the structure of a kernel.

    Besides what the statements say of themselves: a value is made once in the whole kernel; the values of a
    loop's head are known in its body; `Break`, `Continue` and `Return` end their block; a kernel whose blocks
    of more than one thread meet at barriers or tile statements has no `Return`.

    Raises
    ------
    InvalidKernel
        Naming the rule, with the kernel printed.
    """
    _Verifier(kernel).kernel_()


def verify_structured_binding(
    kernel: s.StructuredKernel, binding: s.StructuredBinding, sizes: Sequence[int] = ()
) -> None:
    """Check the arguments of a launch against the kernel.

    Parameters
    ----------
    kernel : StructuredKernel
    binding : StructuredBinding
    sizes : sequence of int
        The elements of each array's buffer where they are known; otherwise the binding's word is taken.

    Raises
    ------
    InvalidKernel
        Where a layout class is not true, or an array leaves its buffer.
    """

    def require(condition: bool, rule: str) -> None:
        if not condition:
            raise InvalidKernel(f"{rule} in\n{format_structured(kernel, binding)}")

    count = len(kernel.arrays)
    require(len(binding.grid) == kernel.axes, "not one size for each axis of the grid")
    require(all(g > 0 for g in binding.grid), "an axis of the grid without threads")
    for what in (binding.shapes, binding.strides, binding.offsets, binding.sizes):
        require(len(what) == count, "not one of each for every array")
    for n, array in enumerate(kernel.arrays):
        shape, strides, offset = binding.shapes[n], binding.strides[n], binding.offsets[n]
        require(
            len(shape) == len(strides) == array.rank, f"{array.name} has not the rank {array.rank}: {shape}"
        )
        require(s.layout(strides) == array.layout, f"{array.name} has strides {strides}")
        require(all(e >= 0 for e in shape), f"{array.name} has a negative size")
        if 0 in shape:
            continue
        ends = [st * (e - 1) for st, e in zip(strides, shape, strict=True)]
        low, high = offset + sum(min(0, e) for e in ends), offset + sum(max(0, e) for e in ends)
        size = binding.sizes[n]
        require(low >= 0 and high < size, f"{array.name} meets {low} to {high} of {size} elements")
        require(not sizes or sizes[n] == size, f"the buffer of {array.name} has not {size} elements")


class _Verifier:
    def __init__(self, kernel: s.StructuredKernel) -> None:
        self.kernel = kernel
        self.known: dict[int, Dtype] = {}  # the values in scope
        self.made: set[int] = set()  # all values so far
        self.ready: set[int] = set()  # variables that are set on every way to here
        self.together = prod(kernel.block) > 1  # whether a block has threads that can part
        self.same: frozenset[int] = frozenset()
        self.where = "the kernel"

    def fail(self, rule: str) -> NoReturn:
        raise InvalidKernel(f"{self.where}: {rule} in\n{format_structured(self.kernel)}")

    def require(self, condition: bool, rule: str) -> None:
        if not condition:
            self.fail(rule)

    def kernel_(self) -> None:
        kernel = self.kernel
        self.require(kernel.axes >= 1, "a grid without axes")
        self.require(not kernel.block or len(kernel.block) == kernel.axes, "not one block size for each axis")
        self.require(all(b >= 1 for b in kernel.block), "a block without threads")
        self.require(not kernel.buffers or bool(kernel.block), "buffers, and no block that they belong to")
        for array in kernel.arrays:
            classes = {Stride.ZERO, Stride.UNIT, Stride.ANY}
            self.require(set(array.layout) <= classes, f"{array.name} has an unknown layout class")
        for buffer in kernel.buffers:
            self.require(all(e > 0 for e in buffer.shape), f"{buffer.name} is empty")
            self.require(buffer.position in _POSITIONS, f"{buffer.name} is nowhere")
        together = (s.Barrier, *s.TILE_STATEMENTS)
        if self.together and any(isinstance(x, together) for x in s.walk(kernel.body)):
            self.same = uniform(kernel)
            self.require(
                not any(isinstance(x, s.Return) for x in _outside_spans(kernel.body)),
                "a return in a kernel whose threads meet",
            )
        self.block(kernel.body, loop=False, parted=False, span=False)

    # --- scopes ------------------------------------------------------------------------------------------

    def make(self, value: int, dtype: Dtype) -> None:
        self.require(value >= 0, "a value without a number")
        self.require(value not in self.made, f"%{value} is made twice")
        self.made.add(value)
        self.known[value] = dtype

    def dtype(self, value: int) -> Dtype:
        if value not in self.known:
            self.fail(f"%{value} is not known")
        return self.known[value]

    def int64(self, values: tuple[int, ...], what: str) -> None:
        for value in values:
            self.require(self.dtype(value) == INT64, f"{what} %{value} is not int64")

    def block(self, body: s.Block, loop: bool, parted: bool, span: bool) -> bool:
        """Whether the end of the block is come to."""
        for n, statement in enumerate(body):
            self.where = type(statement).__name__
            if isinstance(statement, (s.Break, s.Continue, s.Return)):
                self.require(n == len(body) - 1, "something follows that nobody comes to")
                self.require(loop or isinstance(statement, s.Return), "there is no loop around it")
                return False
            self.statement(statement, loop, parted, span)
        return True

    def inner(self, body: s.Block, loop: bool, parted: bool, span: bool) -> set[int] | None:
        """The variables set at the end of a block of its own; None where the end is not come to."""
        known, ready = dict(self.known), set(self.ready)
        ends = self.block(body, loop, parted, span)
        after = self.ready
        self.known, self.ready = known, ready
        return after if ends else None

    def statement(self, statement: s.Statement, loop: bool, parted: bool, span: bool) -> None:
        match statement:
            case s.Let():
                self.where = f"%{statement.value} = {statement.op}"
                self.let(statement)
                self.make(statement.value, statement.dtype)
            case s.Set(variable, value):
                self.require(0 <= variable < len(self.kernel.variables), "no such variable")
                self.require(
                    self.dtype(value) == self.kernel.variables[variable], "not of the variable's dtype"
                )
                self.ready.add(variable)
            case s.Store(array, indices, value, site):
                self.touch(array, indices, site, reads=False, writes=True)
                dtype = self.kernel.storage(array).dtype
                self.require(self.dtype(value) == dtype, "not of the array's dtype")
            case s.Atomic(how, array, indices, value, site, result):
                self.touch(array, indices, site, reads=True, writes=True)
                self.require(how in ("add", "max", "min"), f"no atomic {how}")
                dtype = self.kernel.storage(array).dtype
                self.require(self.dtype(value) == dtype, "not of the array's dtype")
                if result != -1:
                    self.make(result, dtype)
            case s.If(condition, then, orelse):
                self.require(self.dtype(condition) == BOOL, "the condition is not a bool")
                apart = parted or self.parts(condition)
                ways = [self.inner(then, loop, apart, span), self.inner(orelse, loop, apart, span)]
                open_ways = [way for way in ways if way is not None]
                self.ready = (
                    set.intersection(*open_ways) if open_ways else set(range(len(self.kernel.variables)))
                )
            case s.For():
                self.int64((statement.start, statement.stop), "a bound")
                self.require(statement.step != 0, "a step of 0")
                apart = parted or self.parts(statement.start) or self.parts(statement.stop)
                self.make(statement.value, INT64)
                self.inner(statement.body, True, apart or self.leaves(statement.body), span)
                del self.known[statement.value]
            case s.While(head, condition, body):
                self.while_(head, condition, body, parted, span)
            case s.Span(values, extents, body):
                self.require(len(values) == len(extents) >= 1, "not one extent for each index")
                self.int64(extents, "an extent")
                for value in values:
                    self.make(value, INT64)
                self.inner(body, False, True, True)
                for value in values:
                    del self.known[value]
            case _:
                self.require(not span, "stands in a span")
                self.require(
                    not (parted and self.together), "threads of a block may take different ways to it"
                )
                self.tile(statement)

    def while_(self, head: s.Block, condition: int, body: s.Block, parted: bool, span: bool) -> None:
        known = dict(self.known)
        apart = parted or self.parts(condition) or self.leaves(head) or self.leaves(body)
        ready = set(self.ready)
        ends = self.block(head, True, apart, span)
        self.where = "While"
        if ends:
            self.require(self.dtype(condition) == BOOL, "the condition is not a bool")
            self.inner(body, True, apart, span)
        self.known = known
        if _breaks(head):
            self.ready = ready

    def parts(self, value: int) -> bool:
        """Whether the threads of a block may have different values."""
        return self.together and value not in self.same

    def leaves(self, body: s.Block, parted: bool = False) -> bool:
        """Whether some threads of a block may leave a turn of the loop before others."""
        for statement in body:
            match statement:
                case s.Break() | s.Continue():
                    if parted:
                        return True
                case s.If(condition, then, orelse):
                    apart = parted or self.parts(condition)
                    if self.leaves(then, apart) or self.leaves(orelse, apart):
                        return True
        return False

    # --- what each says of itself ------------------------------------------------------------------------

    def touch(self, array: int, indices: tuple[int, ...], site: int, reads: bool, writes: bool) -> None:
        kernel = self.kernel
        self.storage(array, reads, writes)
        held = kernel.storage(array)
        rank = held.rank if isinstance(held, s.Array) else len(held.shape)
        self.require(len(indices) == rank, f"{held.name} takes {rank} indices")
        self.int64(indices, "an index")
        self.site(site)

    def site(self, site: int) -> None:
        known = site >= -1 and (site < len(self.kernel.sites) or not self.kernel.sites)
        self.require(known, f"no site {site}")

    def storage(self, array: int, reads: bool, writes: bool) -> None:
        arrays = self.kernel.arrays
        self.require(0 <= array < len(arrays) + len(self.kernel.buffers), f"no array {array}")
        if array < len(arrays):
            self.require(
                arrays[array].reads or not reads, f"{arrays[array].name} is read and does not say so"
            )
            self.require(
                arrays[array].writes or not writes, f"{arrays[array].name} is written and does not say so"
            )

    def let(self, let: s.Let) -> None:
        kernel, attrs, dtype = self.kernel, let.attrs, let.dtype
        args = [self.dtype(a) for a in let.args]
        if let.op not in s.LET_OPS:
            return self.primitive(let.op, dtype, args)
        self.require(len(attrs) == s.LET_OPS[let.op], f"takes {s.LET_OPS[let.op]} attributes")
        if let.op not in ("load", "call"):
            self.require(not args, "takes no values")
        match let.op:
            case "scalar":
                self.require(0 <= attrs[0] < len(kernel.scalars), "no such slot")
                self.require(dtype == kernel.scalars[attrs[0]], "not of its slot's dtype")
            case "const":
                self.require(type(attrs[0]) in (bool, int, float), f"{attrs[0]!r} is no constant")
            case "extent":
                self.require(0 <= attrs[0] < len(kernel.arrays), "no such array")
                self.require(0 <= attrs[1] < kernel.arrays[attrs[0]].rank, "no such axis")
                self.require(dtype == INT64, "not int64")
            case "get":
                self.require(0 <= attrs[0] < len(kernel.variables), "no such variable")
                self.require(dtype == kernel.variables[attrs[0]], "not of its variable's dtype")
                self.require(attrs[0] in self.ready, f"variable {attrs[0]} may not have been set")
            case "load":
                self.touch(attrs[0], let.args, attrs[1], reads=True, writes=False)
                self.require(dtype == kernel.storage(attrs[0]).dtype, "not of its array's dtype")
            case "call":
                self.require(0 <= attrs[0] < len(kernel.functions), "no such function")
                function = kernel.functions[attrs[0]]
                self.require(tuple(args) == function.parameters, "not the function's parameters")
                self.require(dtype == function.result, "not of the function's dtype")
            case _:
                self.require(0 <= attrs[0] < kernel.axes, "no such axis")
                self.require(dtype == INT64, "not int64")
                if let.op in ("local_id", "group_id", "block_size"):
                    self.require(bool(kernel.block), "asks about a block, and there is none")
        return None

    def primitive(self, op: str, dtype: Dtype, args: list[Dtype]) -> None:
        primitive = PRIMITIVES.get(op)
        if primitive is None or primitive.kind is not Kind.ELEMENTWISE:
            self.fail(f"{op} is no elementwise primitive")
        self.require(len(args) == primitive.arity, f"takes {primitive.arity} values")
        numbers = args[1:] if op == "where" else args
        if op == "where":
            self.require(args[0] == BOOL, "the condition is not a bool")
        if op != "random_bits":
            self.require(len(set(numbers)) == 1, "its values have different dtypes")
        self.require(all(a.kind in primitive.dtypes for a in numbers), f"does not take {numbers[0].name}")
        if op == "where":
            self.require(dtype == numbers[0], "the result has another dtype")
        elif primitive.result is not None:
            self.require(dtype == primitive.result(*args), "the result has another dtype")

    def buffer(self, number: int) -> s.Buffer:
        held = self.kernel.storage(number) if number >= 0 else None
        if not isinstance(held, s.Buffer):
            self.fail(f"array {number} is no buffer")
        return held

    def tile(self, statement: Any) -> None:
        match statement:
            case s.Barrier():
                return
            case s.TileCopy(target, source, site):
                self.site(site)
                for region, writes in ((source, False), (target, True)):
                    self.storage(region.array, reads=not writes, writes=writes)
                    held = self.kernel.storage(region.array)
                    rank = held.rank if isinstance(held, s.Array) else len(held.shape)
                    self.require(
                        len(region.starts) == len(region.stops) == rank, f"{held.name} has {rank} axes"
                    )
                    self.int64((*region.starts, *region.stops), "a border")
                self.require(len(target.starts) == len(source.starts), "rectangles of different rank")
                into, of = (self.kernel.storage(r.array).dtype for r in (target, source))
                self.require(into == of, "copies to another dtype")
            case s.TileApply(op, out, args, count, _):
                dtypes = [self.buffer(n).dtype if kind == "buffer" else self.dtype(n) for kind, n in args]
                self.primitive(op, self.buffer(out).dtype, dtypes)
                self.int64((count,), "the count")
            case s.TileReduce(how, out, source, rows, columns, _):
                self.require(
                    how in REDUCTIONS and not how.startswith("arg"), f"reduces in an unknown way, {how}"
                )
                into, of = self.buffer(out).dtype, self.buffer(source).dtype
                self.require(into == of or (is_narrow(of) and into == np.float32), "reduces to another dtype")
                self.require(how not in ("and", "or") or of == BOOL, f"{how} takes bools")
                self.int64((rows, columns), "a size")
            case s.TileProduct(c, a, b, m, n, k, accumulate):
                buffers = [self.buffer(x) for x in (c, a, b)]
                self.require(all(len(x.shape) == 2 for x in buffers), "multiplies what is not 2-D")
                self.require(buffers[1].dtype == buffers[2].dtype, "multiplies different dtypes")
                self.int64((m, n, k), "a size")
                self.require(
                    self.dtype(accumulate) == BOOL, "the question whether to accumulate is not a bool"
                )
            case _:
                self.fail("is no statement")


def _breaks(body: s.Block) -> bool:
    return any(
        isinstance(x, s.Break) or (isinstance(x, s.If) and any(map(_breaks, s.blocks(x)))) for x in body
    )


def _outside_spans(body: s.Block) -> Any:
    for statement in body:
        yield statement
        if not isinstance(statement, s.Span):
            for block in s.blocks(statement):
                yield from _outside_spans(block)
