"""Kernels whose threads meet, written as code of a whole block.

Between two barriers the threads of a block are a loop: a `Span` over their local ids. What is around
barriers, loops and branches that all threads take together, stays around the spans (P. Jääskeläinen et al.,
"pocl: a performance-portable OpenCL implementation", IJPP 2015). A thread's variables and values that are
used on the far side of a barrier are kept in buffers of the block, one element for each thread; what is cheap
is computed again instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

from ...ops.primitives import PRIMITIVES
from .. import structured as s
from ..ir import Dtype
from .rewrite import INT64, Writer, is_pure, made, operands, without_dead

# Up to this cost (ops.primitives, an addition is 1) a value is computed again rather than kept.
_CHEAP = 12.0
_TOGETHER = (s.Barrier, *s.TILE_STATEMENTS)


def meets(kernel: s.StructuredKernel) -> bool:
    """Whether threads of a block depend on each other, so that `regions` has to be used to run them."""
    together = any(isinstance(x, _TOGETHER) for x in s.walk(kernel.body))
    return prod(kernel.block) > 1 and (together or bool(kernel.buffers))


def regions(kernel: s.StructuredKernel) -> s.StructuredKernel:
    """The kernel as one whose threads are the blocks of the given one.

    Its grid has one thread for each block (`regions_binding`), blocks are of one thread, there are no
    barriers, and tile statements stand outside spans. Its scalars are those of the kernel and then, for each
    axis, the threads of the given kernel's grid, int64. Its buffers are those of the kernel and then what is
    kept; arrays, sites and the numbers of buffers stay. A last block that is cut short has spans that are.

    A kernel whose blocks have one thread only loses its barriers.
    """
    if prod(kernel.block) <= 1:
        return replace(kernel, body=_without_barriers(kernel.body))
    return _Regions(kernel).written()


def regions_binding(
    kernel: s.StructuredKernel, binding: s.StructuredBinding
) -> tuple[s.StructuredBinding, tuple[int, ...]]:
    """The binding of ``regions(kernel)``, and the numbers for the scalar slots that it has more."""
    if prod(kernel.block) <= 1:
        return binding, ()
    grid = tuple(-(-g // b) for g, b in zip(binding.grid, kernel.block, strict=True))
    return replace(binding, grid=grid), binding.grid


def _without_barriers(body: s.Block) -> s.Block:
    kept: list[s.Statement] = []
    for x in body:
        match x:
            case s.Barrier():
                continue
            case s.If(condition, then, orelse):
                kept.append(s.If(condition, _without_barriers(then), _without_barriers(orelse)))
            case s.While(head, condition, inner):
                kept.append(s.While(_without_barriers(head), condition, _without_barriers(inner)))
            case s.For():
                kept.append(replace(x, body=_without_barriers(x.body)))
            case _:
                kept.append(x)
    return tuple(kept)


def _is_common(statement: s.Statement) -> bool:
    """Whether the block goes through it as a whole: threads meet in it, or it leaves a loop they meet in."""
    return _joins(statement) or _leaves(statement)


def _joins(statement: s.Statement) -> bool:
    return any(isinstance(x, _TOGETHER) for x in s.walk((statement,)))


def _leaves(statement: s.Statement) -> bool:
    match statement:
        case s.Break() | s.Continue():
            return True
        case s.If(_, then, orelse):
            return any(map(_leaves, (*then, *orelse)))
    return False


def _pieces(body: s.Block) -> list[s.Block | s.Statement]:
    """Cut into runs, what each thread does alone, and single statements that the block does together."""
    pieces: list[s.Block | s.Statement] = []
    run: list[s.Statement] = []
    for statement in body:
        if _is_common(statement):
            if run:
                pieces.append(tuple(run))
            run = []
            pieces.append(statement)
        else:
            run.append(statement)
    if run:
        pieces.append(tuple(run))
    return pieces


def _definite(body: s.Block, ready: set[int], exposed: set[int]) -> bool:
    """Adds the variables that are surely set to `ready`, those read before that to `exposed`.

    Returns whether the end of the block is come to.
    """
    for x in body:
        match x:
            case s.Let(op="get", attrs=(variable,)):
                if variable not in ready:
                    exposed.add(variable)
            case s.Set(variable, _):
                ready.add(variable)
            case s.If(_, then, orelse):
                ways = []
                for way in (then, orelse):
                    after = set(ready)
                    if _definite(way, after, exposed):
                        ways.append(after)
                if not ways:
                    return False
                ready |= set.intersection(*ways)
            case s.While(head, _, inner):
                after = set(ready)
                _definite(head, after, exposed)
                _definite(inner, set(after), exposed)
                if not any(map(_leaves, head)):
                    ready |= after
            case s.For() | s.Span():
                _definite(x.body, set(ready), exposed)
            case s.Break() | s.Continue() | s.Return():
                return False
    return True


class _Regions:
    def __init__(self, kernel: s.StructuredKernel) -> None:
        self.kernel = kernel
        self.writer = Writer()
        self.buffers = list(kernel.buffers)
        self.lets = {x.value: x for x in s.walk(kernel.body) if isinstance(x, s.Let)}
        self.common: dict[int, int] = {}  # values of the block as a whole: old numbers to new ones
        self.run_of: dict[int, s.Block] = {}  # where each value is made
        self.crossing: set[int] = set()  # values read outside the run that makes them
        self.exposed: set[int] = set()
        self.cost: dict[int, float] = {}
        self.kept_values: dict[int, int] = {}  # value to the buffer that keeps it
        self.kept_variables: dict[int, int] = {}
        self.analyse(kernel.body)
        for variable in sorted(self.exposed):
            self.kept_variables[variable] = self.keep(f"v{variable}", kernel.variables[variable])
        for value in sorted(v for v in self.crossing if not self.is_cheap(v)):
            self.kept_values[value] = self.keep(f"x{value}", self.dtype(value))

    def keep(self, name: str, dtype: Dtype) -> int:
        self.buffers.append(s.Buffer(name, dtype, self.kernel.block))
        return len(self.kernel.arrays) + len(self.buffers) - 1

    def dtype(self, value: int) -> Dtype:
        if value in self.lets:
            return self.lets[value].dtype
        atomics = (x for x in s.walk(self.kernel.body) if isinstance(x, s.Atomic))
        return next(self.kernel.storage(x.array).dtype for x in atomics if x.result == value)

    def analyse(self, body: s.Block) -> None:
        for piece in _pieces(body):
            if isinstance(piece, tuple):
                exposed: set[int] = set()
                _definite(piece, set(), exposed)
                self.exposed |= exposed
                for x in s.walk(piece):
                    self.run_of |= dict.fromkeys(made(x), piece)
                for x in s.walk(piece):
                    self.crossing |= {v for v in operands(x) if self.run_of.get(v, piece) is not piece}
            else:
                match piece:
                    case s.While(head, condition, inner):
                        self.analyse(head)
                        self.crossing |= {condition} & self.run_of.keys()
                        self.analyse(inner)
                    case _:
                        self.crossing |= {v for v in operands(piece) if v in self.run_of}
                        for inner in s.blocks(piece):
                            self.analyse(inner)

    def is_cheap(self, value: int) -> bool:
        return self.price(value) <= _CHEAP

    def price(self, value: int) -> float:
        """What it costs to compute a value anew from what the block and each thread know."""
        if value not in self.run_of:
            return 0.0  # the number of a loop that the block goes through
        found = self.cost.get(value)
        if found is None:
            let = self.lets.get(value)
            if let is None or not is_pure(let):
                found = float("inf")
            else:
                own = PRIMITIVES[let.op].cost if let.op in PRIMITIVES and let.op != "scalar" else 0.0
                found = own + sum(map(self.price, let.args))
            self.cost[value] = found
        return found

    def is_common(self, value: int) -> bool:
        """Whether it is computed from what the block knows, whichever thread it is for."""
        if value not in self.run_of:
            return True
        let = self.lets.get(value)
        if let is None or value in self.kept_values or let.op in ("local_id", "global_id"):
            return False
        return is_pure(let) and all(map(self.is_common, let.args))

    # --- writing -------------------------------------------------------------------------------------------

    def written(self) -> s.StructuredKernel:
        kernel, w = self.kernel, self.writer
        slots, axes = len(kernel.scalars), range(kernel.axes)
        self.groups = [w.let("group_id", INT64, attrs=(k,)) for k in axes]
        self.sizes = [w.let("scalar", INT64, attrs=(slots + k,)) for k in axes]
        self.blocks = [w.number(b) for b in kernel.block]
        self.bases = [w.mul(g, b) for g, b in zip(self.groups, self.blocks, strict=True)]
        rests = [w.sub(n, base) for n, base in zip(self.sizes, self.bases, strict=True)]
        self.extents = tuple(w.min(b, r) for b, r in zip(self.blocks, rests, strict=True))
        self.zero = w.number(0)
        self.block(kernel.body)
        return replace(
            kernel,
            scalars=(*kernel.scalars, *(INT64,) * kernel.axes),
            body=without_dead(tuple(w.body)),
            buffers=tuple(self.buffers),
            block=(1,) * kernel.axes,
        )

    def block(self, body: s.Block) -> None:
        for piece in _pieces(body):
            if isinstance(piece, tuple):
                self.alone(piece)
            elif not isinstance(piece, s.Barrier):
                self.together(piece)

    def inner(self, body: s.Block, local: dict[int, int]) -> s.Block:
        """A block that the whole block of threads goes through."""
        outer, self.common = self.common, self.common | local
        with self.writer.block() as written:
            self.block(body)
        self.common = outer
        return tuple(written)

    def together(self, statement: s.Statement) -> None:
        w = self.writer
        match statement:
            case s.If(condition, then, orelse):
                condition = self.of_block(condition)
                w.put(s.If(condition, self.inner(then, {}), self.inner(orelse, {})))
            case s.For(number, start, stop, step, body):
                start, stop, new = self.of_block(start), self.of_block(stop), w.fresh()
                w.put(s.For(new, start, stop, step, self.inner(body, {number: new})))
            case s.While(head, condition, body):
                with w.block() as written:
                    self.block(head)
                    condition = self.of_block(condition)
                w.put(s.While(tuple(written), condition, self.inner(body, {})))
            case _:
                w.copy(statement, self.of_block, lambda old, new: None)

    def of_block(self, value: int) -> int:
        """A value that all threads agree on, outside spans."""
        known = self.common.get(value)
        if known is not None:
            return known
        if value in self.kept_values:
            array, zeros = self.kept_values[value], (self.zero,) * self.kernel.axes
            return self.writer.let("load", self.dtype(value), *zeros, attrs=(array, -1))
        return self.again(value, self.of_block, None)

    def again(self, value: int, of: Callable[[int], int], local: tuple[int, ...] | None) -> int:
        """A cheap value, computed anew."""
        let = self.lets[value]
        other = self.id(let, local)
        if other is not None:
            return other
        args = [of(a) for a in let.args]
        return self.writer.let(let.op, let.dtype, *args, attrs=let.attrs)

    def id(self, let: s.Let, local: tuple[int, ...] | None) -> int | None:
        """What stands for an id or a size."""
        if let.op not in s.IDS:
            return None
        axis: int = let.attrs[0]
        match let.op:
            case "group_id":
                return self.groups[axis]
            case "global_size":
                return self.sizes[axis]
            case "block_size":
                return self.blocks[axis]
            # Outside spans only an axis with one thread in a block is asked for.
            case "local_id":
                return local[axis] if local else self.zero
        return self.writer.add(self.bases[axis], local[axis]) if local else self.bases[axis]

    def alone(self, run: s.Block) -> None:
        """What the threads do between two meetings, as a span."""
        w, kept = self.writer, self.kept_variables
        local = tuple(w.fresh() for _ in range(self.kernel.axes))
        env: dict[int, int] = {}

        def value(number: int) -> int:
            known = env.get(number, self.common.get(number))
            if known is None:
                if number in self.kept_values:
                    attrs = (self.kept_values[number], -1)
                    known = w.let("load", self.dtype(number), *local, attrs=attrs)
                else:
                    known = self.again(number, value, local)
            return known

        def named(old: int, new: int) -> None:
            env[old] = new
            if old in self.kept_values:
                w.put(s.Store(self.kept_values[old], local, new, -1))

        ready: set[int] = set()
        exposed: set[int] = set()
        _definite(run, ready, exposed)
        written = {x.variable for x in s.walk(run) if isinstance(x, s.Set)}
        inside = {v for x in s.walk(run) for v in made(x)}
        around = sorted({v for x in s.walk(run) for v in operands(x)} - inside)
        env |= {v: self.of_block(v) for v in around if v not in self.common and self.is_common(v)}
        with w.block() as body:
            for variable in sorted((exposed | (written - ready)) & kept.keys()):
                dtype = self.kernel.variables[variable]
                w.put(s.Set(variable, w.let("load", dtype, *local, attrs=(kept[variable], -1))))
            # Once, where all of the run can use them.
            for number in around:
                env[number] = value(number)
            for statement in run:
                w.copy(statement, value, named, lambda let: self.id(let, local))
            for variable in sorted(written & kept.keys()):
                now = w.let("get", self.kernel.variables[variable], attrs=(variable,))
                w.put(s.Store(kept[variable], local, now, -1))
        w.put(s.Span(local, self.extents, tuple(body)))
