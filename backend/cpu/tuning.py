"""The choices made for a kernel at representative sizes."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from ...ops.primitives import PRIMITIVES
from ..ir import Binding, Kernel, Stride, binding_with_axis, with_axis
from .analysis import Analysis, interleaved_stores
from .staging import border, shifts, unshifted, unshifted_binding
from .target import Target
from .unroll import can_unroll, unrolled, unrolled_binding


class Tuning(NamedTuple):
    """How a kernel is compiled. Plain data: it is part of the kernel's key.

    Attributes
    ----------
    strategy : str
        ``elementwise``, ``rows`` (the lanes go along a reduced axis) or ``columns`` (along a parallel one).
    lane : int
        The axis that the lanes of a vector go along.
    row : int
        The parallel axis looped over next; -1 for none.
    width : int
        Lanes of a vector.
    unroll : int
        Vectors computed side by side.
    masked : bool
        Whether every vector is computed under a mask, so that there is no second body for the rest.
    strides : tuple of (int, int)
        Anchors and their strides along the lane axis, where these are small and constant.
    streaming : tuple of int
        Accesses stored past the caches.
    packed : tuple of int
        Accesses that are transposed block by block into scratch memory.
    split : int
        The reduced axis that is cut into pieces computed in parallel; -1 for none.
    keep : bool
        Whether expensive values are kept in scratch memory between passes over a row.
    unrolled : (int, int) or None
        An axis that is written out, and its extent; the other fields are those of the kernel without it.
    contract : bool
        Whether a multiplication and an addition may become one instruction that rounds once.
    unshifted : bool
        Whether shifted values are written out for each reader; the other fields are those of that kernel.
    """

    strategy: str
    lane: int
    row: int = -1
    width: int = 16
    unroll: int = 1
    masked: bool = False
    strides: tuple[tuple[int, int], ...] = ()
    streaming: tuple[int, ...] = ()
    packed: tuple[int, ...] = ()
    split: int = -1
    keep: bool = True
    unrolled: tuple[int, int] | None = None
    contract: bool = False
    unshifted: bool = False

    def stride(self, anchor: int) -> int | None:
        return next((s for a, s in self.strides if a == anchor), None)


# Size of a block of a transposed operand: it and what is read for it fit the first-level cache.
TRANSPOSED_ROWS = 64
TRANSPOSED_LANES = 64
# Rough costs of one access of one vector of lanes, in vector instructions.
_UNIT, _REVERSED, _UNIFORM, _PACKED = 1.0, 2.0, 0.25, 3.0
_GATHER_LANE, _SCATTER_LANE = 1.2, 1.5
# Strides up to this are worth loading whole vectors for, most of which is not wanted.
_LARGEST_SPAN = {1: 8, 2: 8, 4: 5, 8: 4}  # by the size of an element
_LONGEST_UNROLLED = 8
# Instructions of a body up to which so many vectors are computed side by side.
_UNROLL = ((6, 4), (28, 2), (96, 1))
# Instructions emitted for a body, all vectors together, that keep compiling within bounds.
_MOST_INSTRUCTIONS = 1300
# Instructions up to which a short axis is written out.
_MOST_UNROLLED = 256
# Outputs together at least so large are written past the caches.
_STREAMING_BYTES = 32 << 20
# Reductions with fewer units of work than this are cut into pieces if that makes pieces of some size.
_FEW_UNITS = 48
_LONG_ROW = 1 << 16
# Points of a column from which a single pass over wide arrays is cut into panels of rows.
_PANEL_POINTS = 64
_PANEL_ELEMENTS = 1 << 18
# Of a row's values kept between passes, and of a block of columns'.
_KEPT_BYTES = 256 << 10


def choose(kernel: Kernel, binding: Binding, target: Target) -> Tuning:
    """Choose for representative sizes."""
    if shifts(kernel):
        tuning = _choose(kernel, binding, target)
        tiled = (tuning.lane, tuning.row)
        kept = unrolled(kernel, *tuning.unrolled) if tuning.unrolled else kernel
        if all(k in tiled or not border(kept, k) for k in range(kept.rank)):
            return tuning
        return _choose(unshifted(kernel), unshifted_binding(kernel, binding), target)._replace(unshifted=True)
    return _choose(kernel, binding, target)


def _choose(kernel: Kernel, binding: Binding, target: Target) -> Tuning:
    best = _Choice(with_axis(kernel), binding_with_axis(kernel, binding), target)
    chosen, cost = best.tuning(), best.cost()
    for axis in range(kernel.rank):
        extent = binding.extents[axis]
        if (
            not can_unroll(kernel, axis)
            or not 2 <= extent <= _LONGEST_UNROLLED
            or len(kernel.body) * extent > _MOST_UNROLLED
        ):
            continue
        without, bound = unrolled(kernel, axis, extent), unrolled_binding(kernel, binding, axis)
        other = _Choice(with_axis(without), binding_with_axis(without, bound), target)
        if other.cost() / extent < cost:
            chosen, cost = other.tuning()._replace(unrolled=(axis, extent)), other.cost() / extent
    return chosen


class _Choice:
    def __init__(self, kernel: Kernel, binding: Binding, target: Target) -> None:
        self.kernel = kernel
        self.binding = binding
        self.target = target
        self.width = self._width()
        self.arithmetic = sum(PRIMITIVES[i.op].cost for i in kernel.body if i.op in PRIMITIVES)

    def _width(self) -> int:
        """Lanes: a register of the widest dtype computed in, more of them where narrow ones are mixed in."""
        sizes = []
        for instr in self.kernel.body:
            wide = instr.dtype.itemsize == 2 and instr.dtype.kind in "fV"
            if instr.op != "store" and instr.dtype.kind != "b":
                sizes.append(4 if wide else instr.dtype.itemsize)
        widest, narrowest = max(sizes, default=1), min(sizes, default=1)
        few = 1 if widest <= 2 else 4  # registers for each value of the widest dtype are few
        return max(self.target.lanes(8 * widest), self.target.lanes(8 * narrowest) // few)

    def cost(self) -> float:
        """Of one point with the best lane axis."""
        return min(self._cost(lane) for lane in range(self.kernel.rank))

    def tuning(self) -> Tuning:
        kernel = self.kernel
        lane = min(range(kernel.rank - 1, -1, -1), key=self._cost)
        if not kernel.reduced:
            return self._elementwise(lane)
        tuning = Tuning(
            "columns" if lane < kernel.parallel else "rows",
            lane,
            self._row_axis(lane, self._packed(lane)),
            self.width,
            *self._unroll(),
            self._strides(lane),
            self._streaming(lane) if lane >= kernel.parallel else (),
        )
        points = prod(self.binding.extents[kernel.parallel :])
        vectors = self.width * tuning.unroll if tuning.strategy == "columns" else 1
        tuning = tuning._replace(keep=points * vectors * 4 <= _KEPT_BYTES * (2 if vectors > 1 else 1))
        tuning = self._split(tuning, points)
        packed = tuple(a for a in self._packed(lane) if kernel.accesses[a].layout[tuning.row] == Stride.ZERO)
        if packed and tuning.strategy == "columns" and tuning.split < 0:
            unroll = max(1, TRANSPOSED_LANES // self.width)
            tuning = tuning._replace(packed=packed, keep=False, unroll=min(tuning.unroll, unroll))
        return tuning

    def _elementwise(self, lane: int) -> Tuning:
        packed = self._packed(lane)
        row = self._row_axis(lane, packed)
        packed = tuple(a for a in packed if self.kernel.accesses[a].layout[row] == Stride.UNIT)
        return Tuning(
            "elementwise",
            lane,
            row,
            self.width,
            *self._unroll(),
            self._strides(lane),
            self._streaming(lane),
            packed,
        )

    def _unroll(self) -> tuple[int, bool]:
        """How many vectors side by side, and whether always under a mask."""
        count = self.arithmetic + sum(1 for i in self.kernel.body if i.op not in PRIMITIVES)
        for most, unroll in _UNROLL:
            if count <= most:
                return unroll, False
        # The processor does not look past a long body: vectors side by side fill the gaps of long chains.
        chains = 2 * self._latency() / count
        unroll = 4 if chains >= 1.5 else 2 if chains >= 0.75 else 1
        while unroll > 1 and count * unroll > _MOST_INSTRUCTIONS:
            unroll //= 2
        return unroll, self.target.has_avx512

    def _latency(self) -> float:
        """Of the longest chain of instructions, in cycles."""
        ends: list[float] = []
        for instr in self.kernel.body:
            own = 0.0
            if instr.op in PRIMITIVES:
                cost = PRIMITIVES[instr.op].cost
                own = 4.0 if cost <= 1 else 2 * cost
            ends.append(own + max((ends[a] for a in instr.args), default=0.0))
        return max(ends)

    # --- the lane axis ------------------------------------------------------------------------------------

    def _cost(self, lane: int) -> float:
        """Estimated instructions for one point with the lanes along an axis."""
        kernel, extents = self.kernel, self.binding.extents
        total = self.arithmetic
        for instr in kernel.body:
            if instr.op in ("load", "store"):
                total += self._access_cost(instr.attrs[0], lane, instr.op == "store")
        vectors = -(-extents[lane] // self.width)
        overhead = 8.0
        if lane >= kernel.parallel:
            # At the end of each row the lanes are reduced to one.
            reduces = sum(1 for i in kernel.body if i.op == "reduce")
            overhead += 3.0 * reduces * self.width.bit_length()
        return (total * vectors + overhead) / extents[lane]

    def _access_cost(self, access: int, lane: int, stores: bool) -> float:
        layout = self.kernel.accesses[access].layout[lane]
        if layout == Stride.ZERO:
            return _UNIFORM
        if layout == Stride.UNIT:
            return _UNIT
        if layout == Stride.NEGATIVE:
            return _REVERSED
        stride = self.binding.strides[access][lane]
        if stores:
            together = interleaved_stores(self.kernel, dict(self._strides(lane)))
            anchor = self.kernel.accesses[access].anchor
            return 1.5 * _UNIT if anchor in together else _SCATTER_LANE * self.width
        if self._is_span(access, lane):
            return float(stride)
        if self._packable(access, lane):
            return 1.5 * _UNIT if self.kernel.reduced else _PACKED
        return _GATHER_LANE * self.width

    def _packed(self, lane: int) -> tuple[int, ...]:
        loads = [i.attrs[0] for i in self.kernel.body if i.op == "load"]
        return tuple(a for a in dict.fromkeys(loads) if self._packable(a, lane))

    def _packable(self, access: int, lane: int) -> bool:
        """Whether an operand whose neighbours do not lie along the lanes should be transposed."""
        kernel, extents = self.kernel, self.binding.extents
        layout = kernel.accesses[access].layout
        if shifts(kernel) or layout[lane] != Stride.ANY or extents[lane] < self.width // 2:
            return False
        if self._is_span(access, lane) or lane >= kernel.parallel:
            return False
        if not kernel.reduced:
            return any(layout[k] == Stride.UNIT and extents[k] >= 8 for k in range(kernel.parallel))
        # Columns: what is transposed once is read again for many rows.
        again = any(layout[k] == Stride.ZERO and extents[k] >= 16 for k in range(kernel.parallel))
        reduced = kernel.parallel
        return (
            kernel.reduced == 1 and layout[reduced] == Stride.UNIT and again and 8 <= extents[reduced] <= 512
        )

    def _row_axis(self, lane: int, packed: tuple[int, ...]) -> int:
        """The axis looped over next to the lanes: where transposed operands lie, or are read again, else the
        innermost other."""
        others = [k for k in range(self.kernel.parallel) if k != lane]
        if not others:
            return -1
        layouts = [self.kernel.accesses[a].layout for a in packed]
        wanted = Stride.ZERO if self.kernel.reduced else Stride.UNIT
        return max(others, key=lambda k: (sum(layout[k] == wanted for layout in layouts), k))

    def _strides(self, lane: int) -> tuple[tuple[int, int], ...]:
        result = []
        for n, access in enumerate(self.kernel.accesses):
            stride = self.binding.strides[n][lane]
            if access.anchor == n and self._is_span(n, lane):
                result.append((n, stride))
        return tuple(result)

    def _is_span(self, access: int, lane: int) -> bool:
        """Whether whole vectors are loaded for the sake of some of their elements."""
        a = self.kernel.accesses[access]
        largest = _LARGEST_SPAN[self.kernel.operands[a.operand].dtype.itemsize]
        return a.layout[lane] == Stride.ANY and 2 <= self.binding.strides[access][lane] <= largest

    # --- stores and pieces ------------------------------------------------------------------------------

    def _streaming(self, lane: int) -> tuple[int, ...]:
        """Stores whose outputs are too large for the caches, and that the kernel does not read."""
        kernel = self.kernel
        read = {kernel.accesses[i.attrs[0]].operand for i in kernel.body if i.op in ("load", "gather")}
        result = []
        size = 0
        for instr in kernel.body:
            if instr.op == "store":
                access = kernel.accesses[instr.attrs[0]]
                points = prod(
                    e for e, c in zip(self.binding.extents, access.layout, strict=True) if c != Stride.ZERO
                )
                if access.layout[lane] == Stride.UNIT and access.operand not in read:
                    size += points * instr.dtype.itemsize
                    result.append(instr.attrs[0])
        return tuple(result) if size >= _STREAMING_BYTES and self.binding.extents[lane] >= 512 else ()

    def _split(self, tuning: Tuning, points: int) -> Tuning:
        """Whether to cut the reduced axes into pieces, and which."""
        kernel, extents = self.kernel, self.binding.extents
        units = prod(extents[: kernel.parallel])
        work = points
        whole = True
        if tuning.strategy == "columns":
            lanes = self.width * tuning.unroll
            units = units // extents[tuning.lane] * -(-extents[tuning.lane] // lanes)
            work = points * lanes
            # One pass over many rows goes through them from end to end, for the sake of memory.
            analysis = Analysis(kernel)
            once = analysis.last_stage == 1 and not any(analysis.is_inner(n) for n in analysis.stores)
            wide = extents[tuning.lane] > lanes and points * extents[tuning.lane] >= _PANEL_ELEMENTS
            whole = not (once and points >= _PANEL_POINTS and wide) or bool(self._packed(tuning.lane))
            if whole and 1 < tuning.unroll < 8 and self.target.has_avx512:
                # Several passes over narrow columns: wider ones make longer bursts of each row.
                tuning = tuning._replace(unroll=8)
        if whole and (units >= _FEW_UNITS or work < _LONG_ROW):
            return tuning
        axis = max(range(kernel.parallel, kernel.rank), key=lambda k: (extents[k], k))
        return tuning._replace(split=axis, keep=False)
