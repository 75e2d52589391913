"""KernelIR: the only thing a backend receives.

A kernel in point form computes, for every point of a domain of named axes, a tape of SSA instructions. Axes
``0 … parallel-1`` are independent; the remaining ones are reduced. A value that depends on a reduced axis
is *inner* (it exists for every point of the whole domain), any other is *outer* (it exists for every point
of the parallel axes); ``reduce`` turns an inner value into an outer one, and an inner instruction may use
outer values. That alone describes elementwise kernels and stencils (no reduced axis), reductions, and
multi-pass row kernels such as softmax or layer normalisation.

A value that is read through ``shift`` is read at other points than the one at hand, up to the kernel's
border and beyond it by the distance: a backend computes it once for a tile and its border, not once for
each reader. Only kernels without reduced axes have shifts, and what is shifted depends on no other shift.

A `Kernel` is structure only and is what gets compiled and cached: extents, strides, offsets and scalars are
arguments and live in a `Binding`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any

import numpy as np

Dtype = np.dtype[Any]
# Accesses whose offsets differ by no more than this share a pointer and differ by a constant.
MAX_DELTA = 16


@cache
def dtype_name(dtype: Dtype) -> str:
    """``dtype.name``, which NumPy works out anew each time."""
    return dtype.name


class Stride:
    """Layout classes of one access along one axis, as they stand in the kernel's key."""

    ZERO = "0"  # the same element for every index: a broadcast
    UNIT = "1"  # the next element
    NEGATIVE = "-"  # the element before: stride -1
    ANY = "n"  # an argument


@dataclass(frozen=True, slots=True)
class Operand:
    """A buffer that a kernel reads or writes."""

    name: str  # the user's name where it is known; not part of the key
    dtype: Dtype
    output: bool = False


@dataclass(frozen=True, slots=True)
class Access:
    """An affine way through an operand: element offset + sum(index[k] * stride[k]).

    Attributes
    ----------
    operand : int
    layout : str
        One layout class (`Stride`) for each axis of the domain, parallel axes first.
    anchor : int
        The access whose pointer this one shares, itself unless the two have equal strides and their offsets
        differ by the constant `delta`.
    delta : int
        In elements, relative to the anchor.
    """

    operand: int
    layout: str
    anchor: int
    delta: int = 0


def layout(strides: Sequence[int]) -> str:
    """The layout classes of an access with these strides."""
    classes = {0: Stride.ZERO, 1: Stride.UNIT, -1: Stride.NEGATIVE}
    return "".join(classes.get(s, Stride.ANY) for s in strides)


def anchored(walks: Sequence[tuple[int, tuple[int, ...], int]]) -> tuple[Access, ...]:
    """Accesses of these operands, strides and offsets; those that lie close together share a pointer."""
    accesses: list[Access] = []
    leaders: dict[tuple[int, tuple[int, ...]], list[int]] = {}
    for n, (operand, strides, offset) in enumerate(walks):
        anchor, delta = n, 0
        if _rows_are_long(strides):
            for leader in leaders.setdefault((operand, strides), []):
                difference = offset - walks[leader][2]
                if abs(difference) <= MAX_DELTA:
                    anchor, delta = leader, difference
                    break
            else:
                leaders[operand, strides].append(n)
        accesses.append(Access(operand, layout(strides), anchor, delta))
    return tuple(accesses)


def _rows_are_long(strides: tuple[int, ...]) -> bool:
    """Whether a small difference of offsets is along the innermost walked axis, whatever the sizes."""
    walked = sorted(abs(s) for s in strides if s)
    return len(walked) == 1 or (len(walked) > 1 and walked[1] > 4 * MAX_DELTA)


@dataclass(frozen=True, slots=True)
class Instr:
    """One instruction; its value is known by its position in the body.

    ======== ========================== =================================================
    op       args                       attrs
    ======== ========================== =================================================
    load     ()                         (access,)
    store    (value,)                   (access,)
    scalar   ()                         (slot,)
    const    ()                         (value,) part of the key; of the operation, never the user's
    index    ()                         (axis,) int64 or, where it fits, int32 position along an axis
    gather   (flat index,)              (access,) element `flat index` past the access's offset
    reduce   (value,)                   (how,) over all reduced axes; see ops.primitives.REDUCTIONS
    shift    (value,)                   the distance along each axis, none negative: the value at that other
    point
    other    values                     the primitive's attrs; op is the primitive's name. wrap_index has
    the number
                                        that tells its faults from others: the fault's code is 1 + that;
                                        and True after it where a negative index is a fault as well
    ======== ========================== =================================================
    """

    op: str
    dtype: Dtype
    args: tuple[int, ...] = ()
    attrs: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Kernel:
    """The structure of a kernel.

    Attributes
    ----------
    parallel, reduced : int
        Number of axes of each kind.
    operands, accesses, body : tuples
    scalars : tuple of dtype
        The dtypes of the scalar arguments, by slot.
    """

    parallel: int
    reduced: int
    operands: tuple[Operand, ...]
    accesses: tuple[Access, ...]
    scalars: tuple[Dtype, ...]
    body: tuple[Instr, ...]
    name: str = field(default="kernel", compare=False)

    @property
    def rank(self) -> int:
        return self.parallel + self.reduced

    @cached_property
    def inner(self) -> tuple[bool, ...]:
        """For each instruction, whether its value depends on a reduced axis."""
        result: list[bool] = []
        for instr in self.body:
            if instr.op == "reduce":
                result.append(False)
                continue
            depends = any(result[a] for a in instr.args)
            if instr.op in ("load", "store"):
                layout = self.accesses[instr.attrs[0]].layout
                depends = depends or any(c != Stride.ZERO for c in layout[self.parallel :])
            elif instr.op == "index":
                depends = instr.attrs[0] >= self.parallel
            result.append(depends)
        return tuple(result)

    @cached_property
    def key(self) -> tuple[Any, ...]:
        """The structure as plain data, names left out: equal keys, equal code."""
        return (
            self.parallel,
            self.reduced,
            tuple((dtype_name(o.dtype), o.output) for o in self.operands),
            tuple((a.operand, a.layout, a.anchor, a.delta) for a in self.accesses),
            tuple(dtype_name(d) for d in self.scalars),
            tuple((i.op, dtype_name(i.dtype), i.args, i.attrs) for i in self.body),
        )

    def __str__(self) -> str:
        return format_kernel(self)


@dataclass(frozen=True, slots=True)
class Binding:
    """The arguments of one launch of a kernel.

    Attributes
    ----------
    extents : tuple of int
        One for each axis, none of them 0.
    strides : tuple of tuples of int
        For each access, one for each axis, in elements.
    offsets : tuple of int
        For each access, in elements from the start of its operand's buffer.
    sizes : tuple of int
        For each operand, the elements of its buffer; () where they are not known.
    """

    extents: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]
    offsets: tuple[int, ...]
    sizes: tuple[int, ...] = ()


def with_axis(kernel: Kernel) -> Kernel:
    """The kernel with at least one parallel axis: of extent 1 where it had none."""
    if kernel.parallel:
        return kernel
    accesses = tuple(Access(a.operand, Stride.ZERO + a.layout, a.anchor, a.delta) for a in kernel.accesses)
    body = tuple(replace(i, attrs=(i.attrs[0] + 1,)) if i.op == "index" else i for i in kernel.body)
    return replace(kernel, parallel=1, accesses=accesses, body=body)


def binding_with_axis(kernel: Kernel, binding: Binding) -> Binding:
    """The binding of `with_axis(kernel)`."""
    if kernel.parallel:
        return binding
    return replace(binding, extents=(1, *binding.extents), strides=tuple((0, *s) for s in binding.strides))


def format_kernel(kernel: Kernel, binding: Binding | None = None) -> str:
    """The kernel as text, one instruction a line."""
    axis = [f"i{k}" for k in range(kernel.parallel)] + [f"r{k}" for k in range(kernel.reduced)]

    def place(access: int) -> str:
        a = kernel.accesses[access]
        terms = []
        for k, c in enumerate(a.layout):
            if c == Stride.ZERO:
                continue
            stride = str(binding.strides[access][k]) if binding else f"s{a.anchor}_{k}"
            terms.append({Stride.UNIT: axis[k], Stride.NEGATIVE: f"-{axis[k]}"}.get(c, f"{axis[k]}*{stride}"))
        if binding:
            if binding.offsets[access]:
                terms.append(str(binding.offsets[access]))
        elif a.anchor != access:
            terms.append(f"o{a.anchor}{a.delta:+d}")
        return f"{kernel.operands[a.operand].name}[{' + '.join(terms) or '0'}]"

    params = ", ".join(f"{'out ' if o.output else ''}{o.name}: {o.dtype.name}" for o in kernel.operands)
    lines = [f"kernel {kernel.name}({params})"]
    extent = [str(e) for e in binding.extents] if binding else [f"n{k}" for k in range(kernel.rank)]
    domain = ", ".join(
        f"{'parallel' if k < kernel.parallel else 'reduce'} {axis[k]} < {extent[k]}"
        for k in range(kernel.rank)
    )
    lines.append(f"  {domain or 'once'}:")
    for n, (instr, inner) in enumerate(zip(kernel.body, kernel.inner, strict=True)):
        indent = "      " if inner and kernel.reduced else "    "
        args = ", ".join(f"%{a}" for a in instr.args)
        if instr.op == "load":
            text = f"%{n} = load {place(instr.attrs[0])}"
        elif instr.op == "store":
            text = f"store {place(instr.attrs[0])}, {args}"
        elif instr.op == "gather":
            text = f"%{n} = gather {place(instr.attrs[0])}, {args}"
        elif instr.op == "scalar":
            text = f"%{n} = scalar #{instr.attrs[0]}"
        elif instr.op == "const":
            text = f"%{n} = const {instr.attrs[0]}"
        elif instr.op == "index":
            text = f"%{n} = index {axis[instr.attrs[0]]}"
        elif instr.op == "reduce":
            text = f"%{n} = reduce {instr.attrs[0]} {args}"
        elif instr.op == "shift":
            text = f"%{n} = shift {args} by {list(instr.attrs)}"
        else:
            extra = f" {list(instr.attrs)}" if instr.attrs else ""
            text = f"%{n} = {instr.op}{extra} {args}"
        lines.append(f"{indent}{text} : {instr.dtype.name}")
    return "\n".join(lines)
