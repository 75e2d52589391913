"""Two axes of a grid made one where memory goes on from the one to the other.

Threads of a grid of height × width × channels that only index arrays of that shape are threads of a grid of
height × (width · channels): rows of lanes are then long enough for vectors.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace

from ...structured import (
    IDS,
    Array,
    Atomic,
    Block,
    For,
    If,
    Let,
    Span,
    Statement,
    Store,
    StructuredBinding,
    StructuredKernel,
    While,
    walk,
)
from ...structured.rewrite import operands

Axes = dict[int, int]  # for each array that is indexed by both axes, at which of its own that begins
_REMEMBERED = 256
_memo: OrderedDict[int, tuple[StructuredKernel, Axes, StructuredKernel | None]] = OrderedDict()


def merged(
    kernel: StructuredKernel, binding: StructuredBinding
) -> tuple[StructuredKernel, StructuredBinding]:
    """The kernel with as few axes as its sizes allow; it reports no faults of the axes that were merged."""
    while kernel.axes > 1:
        found = _memo.get(id(kernel))
        if found is None or found[0] is not kernel:
            axes = _axes(kernel)
            found = _memo[id(kernel)] = (kernel, axes, _written(kernel, axes) if axes else None)
            if len(_memo) > _REMEMBERED:
                _memo.popitem(last=False)
        _, axes, written = found
        if written is None or not all(_goes_on(binding, n, p) for n, p in axes.items()):
            break
        kernel, binding = written, _bound(binding, axes)
    return kernel, binding


def _goes_on(binding: StructuredBinding, array: int, p: int) -> bool:
    """Whether the last two axes of the grid cover an array's, and the one goes on where the other ends."""
    shape, strides = binding.shapes[array], binding.strides[array]
    return (
        shape[p + 1] == binding.grid[-1]
        and binding.grid[-2] <= shape[p]
        and strides[p] == strides[p + 1] * shape[p + 1]
    )


def _bound(binding: StructuredBinding, axes: Axes) -> StructuredBinding:
    def shape(n: int, of: tuple[int, ...]) -> tuple[int, ...]:
        return (*of[: axes[n]], of[axes[n]] * of[axes[n] + 1], *of[axes[n] + 2 :]) if n in axes else of

    def strides(n: int, of: tuple[int, ...]) -> tuple[int, ...]:
        return (*of[: axes[n]], *of[axes[n] + 1 :]) if n in axes else of

    *outer, a, b = binding.grid
    return replace(
        binding,
        grid=(*outer, a * b),
        shapes=tuple(shape(n, x) for n, x in enumerate(binding.shapes)),
        strides=tuple(strides(n, x) for n, x in enumerate(binding.strides)),
    )


def _axes(kernel: StructuredKernel) -> Axes:
    """The arrays that the last two axes of the grid index side by side; none where these do anything else."""
    last = kernel.axes - 1
    ids: dict[int, int] = {}
    found: dict[int, int] = {}
    if kernel.block or kernel.buffers:
        return {}
    for x in walk(kernel.body):
        if not isinstance(x, Let) or x.op not in IDS or x.attrs[0] < last - 1:
            continue
        if x.op != "global_id":
            return {}
        ids[x.value] = x.attrs[0]
    for x in walk(kernel.body):
        array, indices = _access(x)
        along = [ids.get(index, -1) for index in indices]
        others = list(operands(x))[len(indices) :]
        if any(value in ids for value in others):
            return {}
        at = along.index(last - 1) if last - 1 in along else -1
        if at >= 0 and along[at : at + 2] != [last - 1, last]:
            return {}
        if sum(axis >= 0 for axis in along) != (2 if at >= 0 else 0):
            return {}
        if array >= 0 and found.setdefault(array, at) != at:
            return {}
    axes = {n: at for n, at in found.items() if at >= 0}
    for x in walk(kernel.body):
        if isinstance(x, Let) and x.op == "extent" and x.attrs[0] in axes:
            array, axis = x.attrs
            if axis - axes[array] in (0, 1):
                return {}
    return axes


def _access(x: Statement) -> tuple[int, tuple[int, ...]]:
    """The array that a statement touches, and the indices."""
    if isinstance(x, Let) and x.op == "load":
        return x.attrs[0], x.args
    if isinstance(x, (Store, Atomic)):
        return x.array, x.indices
    return -1, ()


def _written(kernel: StructuredKernel, axes: Axes) -> StructuredKernel:
    last = kernel.axes - 1

    def indices(array: int, of: tuple[int, ...]) -> tuple[int, ...]:
        return (*of[: axes[array]], *of[axes[array] + 1 :]) if array in axes else of

    def block(body: Block) -> Block:
        return tuple(y for x in body if (y := statement(x)) is not None)

    def statement(x: Statement) -> Statement | None:
        match x:
            case Let(op="global_id", attrs=(axis,)) if axis >= last - 1:
                return replace(x, attrs=(last - 1,)) if axis == last else None
            case Let(op="load", attrs=(array, _)):
                return replace(x, args=indices(array, x.args))
            case Let(op="extent", attrs=(array, axis)) if array in axes and axis > axes[array]:
                return replace(x, attrs=(array, axis - 1))
            case Store() | Atomic():
                return replace(x, indices=indices(x.array, x.indices))
            case If(condition, then, orelse):
                return If(condition, block(then), block(orelse))
            case While(head, condition, body):
                return While(block(head), condition, block(body))
            case For() | Span():
                return replace(x, body=block(x.body))
        return x

    def array(n: int, of: Array) -> Array:
        if n not in axes:
            return of
        return replace(of, layout=of.layout[: axes[n]] + of.layout[axes[n] + 1 :])

    return replace(
        kernel,
        axes=last,
        arrays=tuple(array(n, x) for n, x in enumerate(kernel.arrays)),
        body=block(kernel.body),
    )
