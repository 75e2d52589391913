"""Kernels of tiles as whole-array kernels, for targets that cut arrays into tiles by themselves.

tile_meaning.py finds what a kernel computes as a whole. Here each of its stores becomes a kernel in point
form, several of one domain a single one, or a product of matrices, and a target's own generator takes it from
there.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base import Part
from ..ir import Access, Binding, Dtype, Instr, Kernel, Operand, layout
from ..structured import StructuredBinding, StructuredKernel
from .tile_meaning import NotRaised, stores
from .whole_array import (
    Apply,
    Contraction,
    Expression,
    Key,
    Load,
    Number,
    Place,
    Reduced,
    Scalar,
    Store,
    loads,
    reductions,
)

if TYPE_CHECKING:
    from ..ascend.backend import Ascend


def parts(kernel: StructuredKernel, binding: StructuredBinding, backend: Ascend) -> tuple[Part, ...] | str:
    """The launches by which a kernel of tiles is run as a whole, or why it cannot be.

    Without `kernel.optimize` they are generated plainly: no double buffers, no copies ahead of time.
    """
    try:
        found = stores(kernel, binding)
        _independent(kernel, found)
        target = backend.of(kernel)
        made = []
        apart = [s for store in found if 0 not in store.lengths for s in _apart(kernel, store)]
        for group in _groups(apart):
            product = _contraction(group[0])
            if product is None:
                made.append(_points(kernel, binding, group, target))
            else:
                made.append(_product(kernel, binding, group[0], product, target))
    except NotRaised as reason:
        return str(reason)
    return tuple(made)


def _independent(kernel: StructuredKernel, found: tuple[Store, ...]) -> None:
    """No store may change what another one, or another tile of its own, reads or writes."""
    written = [s.array for s in found]
    if len(set(written)) < len(written):
        raise NotRaised("it stores to an array at two places")
    for store in found:
        own = [(p.key, p.delta) for p in store.places]
        if len({key for key, _ in own}) < len(own):
            raise NotRaised("it stores along a diagonal")
        for load in loads(store.expression):
            if load.array not in written:
                continue
            same = [(p.key, p.delta) for p in load.places] == own
            if load.array != store.array or not same or load in _summed(store.expression):
                raise NotRaised(f"{kernel.arrays[load.array].name} is read and written")


def _summed(expression: Expression) -> list[Load]:
    """The loads that reductions and products read."""
    if any(True for _ in _contractions(expression)):
        return list(loads(expression))
    return [load for reduced in reductions(expression) for load in loads(reduced)]


def _contractions(expression: Expression) -> Iterator[Contraction]:
    """The products in an expression; some more than once."""
    match expression:
        case Contraction():
            yield expression
        case Apply():
            for arg in expression.args:
                yield from _contractions(arg)
        case Reduced():
            yield from _contractions(expression.arg)


def _contraction(store: Store) -> Contraction | None:
    """The product that a store writes, converted as it is written; None where it is none."""
    expression = store.expression
    if isinstance(expression, Apply) and expression.op == "cast":
        (expression,) = expression.args
    return expression if isinstance(expression, Contraction) else None


def _apart(kernel: StructuredKernel, store: Store) -> tuple[Store, ...]:
    """A product, and what is computed with it, as two stores: the second reads what the first wrote."""
    products = {id(c): c for c in _contractions(store.expression)}
    if not products or _contraction(store):
        return (store,)
    if len(products) > 1 or any(True for _ in reductions(store.expression)):
        raise NotRaised("it computes with several products, or reduces one")
    (product,) = products.values()
    dtype = kernel.arrays[store.array].dtype
    written: Expression = Load(store.array, store.places, dtype)
    value: Expression = product
    if dtype != product.dtype:
        written, value = Apply("cast", product.dtype, (written,)), Apply("cast", dtype, (product,))
    made: dict[int, Expression] = {id(product): written}

    def replaced(expression: Expression) -> Expression:
        if id(expression) not in made:
            found = expression
            if isinstance(expression, Apply):
                found = replace(expression, args=tuple(map(replaced, expression.args)))
            made[id(expression)] = found
        return made[id(expression)]

    return replace(store, expression=value), replace(store, expression=replaced(store.expression))


# --- kernels in point form ----------------------------------------------------------------------------------


def _domain(store: Store) -> tuple[tuple[tuple[Key, int], ...], tuple[tuple[Key, int], ...]]:
    """The parallel and the reduced axes of a store, with their extents."""
    reduced = {(r.key, r.length) for r in reductions(store.expression)}
    if len(reduced) > 1:
        raise NotRaised("it reduces over several axes")
    keys = dict(reduced)
    own = tuple((p.key, n) for p, n in zip(store.places, store.lengths, strict=True))
    if any(keys.get(key, n) != n for key, n in own):
        raise NotRaised("it stores another part of a row than it reduces")
    return tuple((key, n) for key, n in own if key not in keys), tuple(reduced)


def _groups(found: Iterable[Store]) -> list[tuple[Store, ...]]:
    """Stores of one domain together; products alone."""
    groups: list[tuple[Any, list[Store]]] = []
    for store in found:
        domain = None if _contraction(store) else _domain(store)
        if domain is not None and groups and groups[-1][0] == domain:
            groups[-1][1].append(store)
        else:
            groups.append((domain, [store]))
    return [tuple(group) for _, group in groups]


def _bits(value: Any, dtype: Dtype) -> int:
    """A number as the 64 bits that a launch hands to a kernel."""
    data = np.asarray(value).astype(dtype).tobytes()
    return int(struct.unpack("<q", data + bytes(8 - len(data)))[0])


@dataclass
class _Tape:
    """The instructions of a kernel in point form as they are written."""

    kernel: StructuredKernel
    binding: StructuredBinding
    axes: tuple[Key, ...]
    operands: list[tuple[int, bool]] = field(default_factory=list)  # array, whether it is written
    accesses: list[tuple[int, tuple[int, ...], int]] = field(default_factory=list)  # operand, strides, offset
    scalars: list[tuple[Dtype, tuple[bool, int]]] = field(default_factory=list)
    body: list[Instr] = field(default_factory=list)
    known: dict[Any, int] = field(default_factory=dict)

    def instr(self, op: str, dtype: Dtype, args: tuple[int, ...] = (), attrs: tuple[Any, ...] = ()) -> int:
        made = Instr(op, dtype, args, attrs)
        if made not in self.known or op == "store":
            self.known[made] = len(self.body)
            self.body.append(made)
        return self.known[made]

    def access(self, array: int, places: tuple[Place, ...], output: bool) -> int:
        strides, offset = [0] * len(self.axes), self.binding.offsets[array]
        for place, stride in zip(places, self.binding.strides[array], strict=True):
            offset += place.delta * stride
            if place.key in self.axes:
                strides[self.axes.index(place.key)] += stride
            elif place.key[0] != "one":
                raise NotRaised("it combines a tile with one of another place")
        operand = _index(self.operands, (array, output))
        return _index(self.accesses, (operand, tuple(strides), offset))

    def value(self, expression: Expression) -> int:
        # Expressions share parts: each is written once.
        if id(expression) not in self.known:
            self.known[id(expression)] = self._value(expression)
        return self.known[id(expression)]

    def _value(self, expression: Expression) -> int:
        match expression:
            case Number():
                bits = (True, _bits(expression.value, expression.dtype))
                slot = _index(self.scalars, (expression.dtype, bits))
                return self.instr("scalar", expression.dtype, (), (slot,))
            case Scalar():
                slot = _index(self.scalars, (expression.dtype, (False, expression.slot)))
                return self.instr("scalar", expression.dtype, (), (slot,))
            case Load():
                access = self.access(expression.array, expression.places, False)
                return self.instr("load", expression.dtype, (), (access,))
            case Apply():
                args = tuple(map(self.value, expression.args))
                return self.instr(expression.op, expression.dtype, args, expression.attrs)
            case Reduced():
                return self.instr(
                    "reduce", expression.dtype, (self.value(expression.arg),), (expression.how,)
                )
        raise AssertionError("a product is no kernel in point form")


def _index(items: list[Any], item: Any) -> int:
    if item not in items:
        items.append(item)
    return items.index(item)


def _points(
    kernel: StructuredKernel, binding: StructuredBinding, group: tuple[Store, ...], backend: Ascend
) -> Part:
    parallel, reduced = _domain(group[0])
    tape = _Tape(kernel, binding, tuple(key for key, _ in (*parallel, *reduced)))
    values = [tape.value(store.expression) for store in group]
    for store, value in zip(group, values, strict=True):
        access = tape.access(store.array, store.places, True)
        tape.instr("store", kernel.arrays[store.array].dtype, (value,), (access,))
    extents = [n for _, n in (*parallel, *reduced)]
    strides = [list(s) for _, s, _ in tape.accesses]
    count = _merge(extents, strides, len(parallel))
    made = Kernel(
        count,
        len(reduced),
        tuple(Operand(_name(kernel, tape, a, out), kernel.arrays[a].dtype, out) for a, out in tape.operands),
        tuple(
            Access(operand, layout(own), n)
            for n, ((operand, _, _), own) in enumerate(zip(tape.accesses, strides, strict=True))
        ),
        tuple(dtype for dtype, _ in tape.scalars),
        tuple(tape.body),
        kernel.name,
    )
    bound = Binding(
        tuple(extents),
        tuple(map(tuple, strides)),
        tuple(offset for _, _, offset in tape.accesses),
        tuple(binding.sizes[a] for a, _ in tape.operands),
    )
    reason = backend.lacking(made) or backend.refusal(made, bound)
    if reason:
        raise NotRaised(reason)
    arrays = tuple(a for a, _ in tape.operands)
    return Part(made, bound, arrays, tuple(source for _, source in tape.scalars), backend)


def _name(kernel: StructuredKernel, tape: _Tape, array: int, output: bool) -> str:
    """The user's name of an operand; an array that is written in place has two."""
    name = kernel.arrays[array].name
    return f"{name}_written" if output and (array, False) in tape.operands else name


def _merge(extents: list[int], strides: list[list[int]], parallel: int) -> int:
    """Parallel axes that every access goes over as if they were one are made one; how many are left."""
    k = 0
    while k < parallel and parallel > 1:
        if extents[k] == 1:
            at = k
        elif k and all(s[k - 1] == s[k] * extents[k] for s in strides):
            extents[k] *= extents[k - 1]
            at = k - 1
        else:
            k += 1
            continue
        for row in (extents, *strides):
            del row[at]
        parallel -= 1
        k = max(k - 1, 0)
    return parallel


# --- products -----------------------------------------------------------------------------------------------


def _product(
    kernel: StructuredKernel,
    binding: StructuredBinding,
    store: Store,
    product: Contraction,
    backend: Ascend,
) -> Part:
    if [p.key for p in store.places] != [product.a.places[0].key, product.b.places[1].key]:
        raise NotRaised("it stores a product's transpose")
    m, n = store.lengths
    a, b = product.a.array, product.b.array
    c = store.array
    dtype, out = kernel.arrays[a].dtype, kernel.arrays[c].dtype
    if kernel.arrays[b].dtype != dtype:
        raise NotRaised("it multiplies matrices of two dtypes")
    down, across = binding.strides[c]
    if not (across == 1 or n == 1) or not (down >= n or m == 1):
        raise NotRaised("the rows of its product do not lie one after another")
    arrays = (a, b, c)
    layouts = tuple(
        (shape, binding.strides[array])
        for array, shape in ((a, (m, product.length)), (b, (product.length, n)))
    )
    generated = backend.product(
        layouts,
        (m, n),
        dtype,
        (kernel.arrays[a].name, kernel.arrays[b].name, kernel.arrays[c].name),
        out=out,
        pitch=down if m > 1 else n,
        tile=product.tile,
    )
    if generated is None:
        raise NotRaised(f"the cube unit does not multiply {dtype.name} as it lies here into {out.name}")
    offsets = tuple(
        binding.offsets[array] + sum(p.delta * s for p, s in zip(places, binding.strides[array], strict=True))
        for array, places in zip(arrays, (product.a.places, product.b.places, store.places), strict=True)
    )
    sizes = tuple(binding.sizes[array] for array in arrays)
    bound = Binding((), (), offsets, sizes)
    return Part(
        generated,
        bound,
        arrays,
        (),
        backend,
        call=lambda: backend.product_call(generated, offsets),
    )
