"""How a kernel written by hand runs on a chip: as tiles, as vector code, as scalar code, or on the host."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ..base import LaunchError, Part
from ..ir import Binding
from ..points import points, raising
from ..points.kernel import Points
from ..points.symbolic import NoPoints
from ..points.threads import Trace
from ..structured import TILE_STATEMENTS, StructuredBinding, StructuredKernel, walk
from .scalar import kernel as scalar_kernel

if TYPE_CHECKING:
    from .backend import Ascend

# Loops of so many turns are gone through turn by turn, if that can be done.
UNROLLED = 32
# A longer tape is not worth trying: UB does not hold what it computes.
MAX_INSTRUCTIONS = 512


def parts(kernel: StructuredKernel, binding: StructuredBinding, backend: Ascend) -> tuple[Part, ...]:
    """The launches by which a kernel is run; see `base.Backend.parts`."""
    if any(isinstance(x, TILE_STATEMENTS) for x in walk(kernel.body)):
        raised = raising.parts(kernel, binding, backend)
        if not isinstance(raised, str):
            return raised
        reason = raised
    else:
        found = _vector_parts(kernel, binding, backend)
        if not isinstance(found, str):
            return found
        reason = found
    refused = scalar_kernel.why_not(kernel, backend.chip)
    if not refused:
        return (_whole(kernel, binding, backend, f"runs as scalar code: {reason}"),)
    if backend.fallback is None:
        raise LaunchError(f"{kernel.name} cannot run on {backend.name}: {refused}")
    told = f"runs on the host: {refused}"
    return tuple(
        replace(part, reason=f"{told}; {part.reason}" if part.reason else told)
        for part in backend.fallback.parts(kernel, binding)
    )


def _whole(kernel: StructuredKernel, binding: StructuredBinding, backend: Ascend, reason: str) -> Part:
    """The kernel as it is."""
    scalars = tuple((False, slot) for slot in range(len(kernel.scalars)))
    return Part(kernel, binding, tuple(range(len(kernel.arrays))), scalars, backend, reason)


def _vector_parts(
    kernel: StructuredKernel, binding: StructuredBinding, backend: Ascend
) -> tuple[Part, ...] | str:
    """The kernel as vector code and products; or why it cannot be."""
    target = backend.of(kernel)
    reason = ""
    forms: list[tuple[Points, ...]] = []
    for unroll in (UNROLLED, 1):
        try:
            trace = Trace(kernel, binding, unroll).run()
            forms.append(points(trace))
        except NoPoints as error:
            reason = reason or str(error)
            continue
        if not trace.unrolled:
            break

    def rank(form: tuple[Points, ...]) -> tuple[bool, bool]:
        product = any(_product(p) is not None for p in form)
        return not product, any(len(p.kernel.body) > backend.max_instructions for p in form)

    # Turn by turn, unless that is long or hides a product.
    for form in sorted(forms, key=rank):
        try:
            return tuple(_part(kernel, p, target) for p in form)
        except NoPoints as error:
            reason = str(error)
    return reason


def _part(kernel: StructuredKernel, found: Points, backend: Ascend) -> Part:
    product = _product(found)
    if product is not None:
        part = _cube(kernel, found, product, backend)
        if part is not None:
            return part
    if len(found.kernel.body) > MAX_INSTRUCTIONS:
        raise NoPoints("it is too long")
    reason = backend.lacking(found.kernel, narrow=True) or backend.refusal(found.kernel, found.binding)
    if reason:
        raise NoPoints(reason)
    return Part(found.kernel, found.binding, found.operands, found.scalars, backend, "", found.sites)


# --- products -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Accesses:
    """The accesses of a product: of its factors, and of its result, whose last axis is side by side."""

    a: int
    b: int
    c: int


def _product(found: Points) -> _Accesses | None:
    """The product of two matrices that a kernel is, if it is one: a sum over one axis of what it loads."""
    kernel, binding = found.kernel, found.binding
    if (kernel.parallel, kernel.reduced) != (2, 1) or kernel.body[-1].op != "store":
        return None
    used = {len(kernel.body) - 1}

    def through(n: int) -> int:
        """The value below conversions between floats."""
        used.add(n)
        while kernel.body[n].op == "cast" and kernel.body[n].dtype.kind in "fV":
            (n,) = kernel.body[n].args
            used.add(n)
        return n

    total = through(kernel.body[-1].args[0])
    if kernel.body[total].op != "reduce" or kernel.body[total].attrs != ("add",):
        return None
    product = through(kernel.body[total].args[0])
    if kernel.body[product].op != "mul":
        return None
    factors = [through(n) for n in kernel.body[product].args]
    if any(kernel.body[n].op != "load" for n in factors) or len(used) != len(kernel.body):
        return None
    a, b = (kernel.body[n].attrs[0] for n in factors)
    c = kernel.body[-1].attrs[0]
    walks = binding.strides
    if walks[c][1] != 1 or walks[c][0] < binding.extents[1]:
        return None
    if not walks[a][0]:
        a, b = b, a
    if walks[a][1] or walks[b][0] or 0 in (walks[a][0], walks[a][2], walks[b][1], walks[b][2]):
        return None
    return _Accesses(a, b, c)


def _cube(kernel: StructuredKernel, found: Points, at: _Accesses, backend: Ascend) -> Part | None:
    """A product on the cube, which adds up in float32; None where it does not take it as it lies."""
    binding = found.binding
    m, n, k = binding.extents
    arrays = tuple(found.operands[found.kernel.accesses[x].operand] for x in (at.a, at.b, at.c))
    left, right, out = (kernel.arrays[array] for array in arrays)
    if left.dtype != right.dtype or np.dtype(left.dtype).kind not in "fV":
        return None
    walks = binding.strides
    generated = backend.product(
        (((m, k), (walks[at.a][0], walks[at.a][2])), ((k, n), (walks[at.b][2], walks[at.b][1]))),
        (m, n),
        left.dtype,
        (left.name, right.name, out.name),
        out=out.dtype,
        pitch=walks[at.c][0],
    )
    if generated is None:
        return None
    offsets = tuple(binding.offsets[x] for x in (at.a, at.b, at.c))
    sizes = tuple(binding.sizes[found.kernel.accesses[x].operand] for x in (at.a, at.b, at.c))
    return Part(
        generated,
        Binding((), (), offsets, sizes),
        arrays,
        (),
        backend,
        call=lambda: backend.product_call(generated, offsets),
    )
