"""Kernels whose threads each add up a row: run as array code's reductions are.

Lanes that are threads would gather what lies in as many rows. As a reduction the lanes go along the row. A
float sum is then added up in the order of array code's sums, blocked, not one element after another.
"""

from __future__ import annotations

from ...ir import Kernel, Stride
from ...points import points
from ...points.kernel import Points
from ...points.symbolic import NoPoints
from ...points.threads import Trace
from ...structured import For, StructuredBinding, StructuredKernel, walk

# What the chip's point form has and array code's has not: positions narrowed to 32 bits.
_POSITIONS = ("index", "wrap_index", "gather")


def row_reductions(kernel: StructuredKernel, binding: StructuredBinding) -> tuple[Points, ...]:
    """The kernels in point form where that is better than lanes of threads, else ()."""
    if not kernel.optimize or kernel.block or not any(isinstance(x, For) for x in walk(kernel.body)):
        return ()
    try:
        found = points(Trace(kernel, binding, 1).run())
    except NoPoints:
        return ()
    return found if all(_goes_along_rows(p) for p in found) else ()


def _goes_along_rows(found: Points) -> bool:
    """Whether what is loaded lies side by side along the reduced axis, and nothing along the threads."""
    kernel: Kernel = found.kernel
    if kernel.reduced != 1 or found.sites or any(i.op in _POSITIONS for i in kernel.body):
        return False
    layouts = [kernel.accesses[i.attrs[0]].layout for i in kernel.body if i.op == "load"]
    inner = [layout for layout in layouts if layout[-1] != Stride.ZERO]
    return any(layout[-1] == Stride.UNIT for layout in inner) and not any(
        Stride.UNIT in layout[:-1] for layout in inner
    )
