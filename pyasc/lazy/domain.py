"""Iteration domains and affine index maps.

A domain is a row-major box of axes, some of them reduced. Shapes that differ only in how they group the
same elements in the same order (reshapes, axes of size 1) meet in their common refinement: the domain whose
axes
divide the axes of each.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod

from ..ops.storage import contiguous_strides

Shape = tuple[int, ...]
# These are functions of small tuples, asked the same again and again while a program is scheduled.
CACHE_SIZE = 8192


@dataclass(frozen=True, slots=True)
class Access:
    """Element offset + sum(index[k] * strides[k]) of a value's contiguous buffer, over a domain's axes."""

    offset: int
    strides: Shape


@dataclass(frozen=True)
class Domain:
    """Extents of axes larger than 1, in row-major order, and which of them are reduced."""

    extents: Shape
    reduced: tuple[bool, ...]

    @classmethod
    def of(cls, shape: Shape, reduced_axes: Shape = ()) -> Domain:
        axes = [(e, k in reduced_axes) for k, e in enumerate(shape) if e != 1]
        return cls(tuple(e for e, _ in axes), tuple(r for _, r in axes))

    @cached_property
    def size(self) -> int:
        return prod(self.extents)

    @cached_property
    def outer_size(self) -> int:
        return prod(e for e, r in zip(self.extents, self.reduced, strict=True) if not r)

    @cached_property
    def reduces(self) -> bool:
        return any(self.reduced)

    @lru_cache(CACHE_SIZE)  # noqa: B019
    def refine(self, shape: Shape, outer: bool = False) -> Domain | None:
        """The domain with axes split where `shape` has a border; None where the two do not nest.

        `shape` has the size of the domain, or of its parallel axes if `outer`.
        """
        borders = set()
        step = 1
        for extent in reversed(shape):
            step *= extent
            borders.add(step)
        extents: list[int] = []
        reduced: list[bool] = []
        low = 1  # elements right of the axis
        for extent, is_reduced in zip(reversed(self.extents), reversed(self.reduced), strict=True):
            if outer and is_reduced:
                extents.append(extent)
                reduced.append(True)
                continue
            high = low * extent
            cuts = sorted(b for b in borders if low < b < high)
            for cut in [*cuts, high]:
                if cut % low:
                    return None
                extents.append(cut // low)
                reduced.append(is_reduced)
                low = cut
        if len(extents) == len(self.extents):
            return self
        return Domain(tuple(reversed(extents)), tuple(reversed(reduced)))

    @lru_cache(CACHE_SIZE)  # noqa: B019
    def spread(self, shape: Shape, strides: Shape, outer: bool = False) -> Shape | None:
        """Strides over this domain's axes of a walk with `strides` over the axes of `shape`.

        None where an axis of `shape` is not a product of axes of the domain.
        """
        result: list[int] = []
        axis = len(shape) - 1
        left = 0  # extent of shape[axis] not yet covered
        step = 0
        for extent, is_reduced in zip(reversed(self.extents), reversed(self.reduced), strict=True):
            if outer and is_reduced:
                result.append(0)
                continue
            while left <= 1:
                if axis < 0:
                    return None
                left, step = shape[axis], strides[axis]
                axis -= 1
            if left % extent:
                return None
            result.append(step)
            step *= extent
            left //= extent
        return tuple(reversed(result))

    def reducing(self, shape: Shape, axes: Shape) -> Domain | None:
        """This domain with the axes `axes` of `shape` reduced; None where it reduces others already."""
        marks = self.spread(shape, tuple(1 if k in axes else 0 for k in range(len(shape))))
        if marks is None:
            return None
        reduced = tuple(m != 0 for m in marks)
        if self.reduced == reduced:
            return self
        if self.reduces:
            return None
        return Domain(self.extents, reduced)

    def merge(self, other: Domain) -> tuple[Domain, bool] | None:
        """The common refinement, and whether what fills the other domain fills this one.

        It does not where the other domain is that of this one's parallel axes. None where the two do not go
        together.
        """
        if self.size == other.size:
            domain = self.refine(other.extents)
            if domain is None:
                return None
            if other.reduces:
                axes = tuple(k for k, r in enumerate(other.reduced) if r)
                domain = domain.reducing(other.extents, axes)
            return None if domain is None else (domain, True)
        if self.reduces and not other.reduces and self.outer_size == other.size:
            domain = self.refine(other.extents, outer=True)
            return None if domain is None else (domain, False)
        return None

    @cached_property
    def inner_access(self) -> Access:
        """How a full-domain value meets its own elements."""
        return Access(0, contiguous_strides(self.extents))

    @cached_property
    def outer_access(self) -> Access:
        """How the points of the domain meet a value over its parallel axes."""
        outer = contiguous_strides(tuple(e for e, r in zip(self.extents, self.reduced, strict=True) if not r))
        remaining = iter(outer)
        return Access(0, tuple(0 if r else next(remaining) for r in self.reduced))


@lru_cache(CACHE_SIZE)
def decompose(access: Access, extents: Shape, shape: Shape) -> tuple[Shape, tuple[Shape, ...]] | None:
    """Split an affine walk over a contiguous buffer of `shape` into one affine index for each axis of
    `shape`.

    Returns ``(start, steps)``: the index along axis k is ``start[k] + sum(i[j] * steps[j][k])`` for domain
    index i. None where carrying between axes makes that impossible.
    """
    base = contiguous_strides(shape)
    rank = len(shape)

    def digits(number: int) -> list[int]:
        result = [0] * rank
        sign, number = (1, number) if number >= 0 else (-1, -number)
        for k in range(rank):
            if shape[k] > 1:
                result[k] = sign * (number // base[k])
                number %= base[k]
        return result

    start = digits(access.offset)
    steps = []
    low, high = list(start), list(start)
    for stride, extent in zip(access.strides, extents, strict=True):
        step = digits(stride)
        steps.append(tuple(step))
        for k, s in enumerate(step):
            if s > 0:
                high[k] += s * (extent - 1)
            elif s < 0:
                low[k] += s * (extent - 1)
    if any(lo < 0 or hi >= max(n, 1) for lo, hi, n in zip(low, high, shape, strict=True)):
        return None
    return tuple(start), tuple(steps)


@lru_cache(CACHE_SIZE)
def through_view(access: Access, extents: Shape, shape: Shape, strides: Shape, offset: int) -> Access | None:
    """The access to a view's base that an access to the view (as a contiguous value of `shape`) makes."""
    if access.offset == 0 and access.strides == contiguous_strides(extents) and prod(extents) == prod(shape):
        spread = Domain(extents, (False,) * len(extents)).spread(shape, strides)
        if spread is not None:
            return Access(offset, spread)
    parts = decompose(access, extents, shape)
    if parts is None:
        return None
    start, steps = parts
    return Access(
        offset + sum(a * s for a, s in zip(strides, start, strict=True)),
        tuple(sum(a * s for a, s in zip(strides, step, strict=True)) for step in steps),
    )
