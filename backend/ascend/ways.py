"""How tiles of each access are copied between memory and UB, by how it walks through memory.

What a copy engine moves are rows of elements side by side. An access that walks otherwise is copied another
way, and brought into the order of the tile in UB, or the other way round.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import NamedTuple

from ..ir import Binding, Kernel
from .plane import Plane
from .tile import Form

# Up to so many elements and bytes from one to the next, what lies between is read too: that takes less
# time than a piece for each, which costs several cycles and a block of UB.
MOST_STEP = 16
MOST_STEP_BYTES = 64
BLOCK = 32
# What is tried one after another until a tile fits.
THRIFT = (0, 1, 2)
# What elements are gathered from is kept in UB where it takes no more bytes there, by an element's bytes in
# memory: bytes are widened, and 64-bit integers narrowed.
MOST_TABLE_BYTES = 32768
LEAST_TABLE = 128
TABLE_WIDTHS = {1: 3, 2: 2, 4: 4, 8: 12}
# A tile is read for several accesses where they are no more rows and lanes apart.
MOST_ROWS_APART = 15
MOST_LANES_APART = 64


class Way(NamedTuple):
    """How tiles of an access are copied. Plain data: part of the tuning.

    Attributes
    ----------
    kind : str
        ``"rows"``: the elements of a row lie side by side. ``"steps"``: they lie a few elements apart, and
        what is between is copied too. ``"turned"``: the elements of a lane lie side by side, or a few
        elements apart; the tile is transposed in UB. ``"slots"``: neither; each element is a piece of its own
        in a block of 32 bytes. ``"table"``: what elements are gathered from is kept in UB.
    step : int
        Elements from one to the next in the copied tile; negative where memory is walked backwards, and 1 or
        -1 for slots.
    leader : int
        The access whose copied tile is read, or -1 for its own.
    at : int
        Where this access begins there: rows further down (``"rows"``), elements further on (``"steps"``).
    reach : int
        How far others begin in the tile that is copied for this access: the rows, or elements, that it has
        more. Of a table, the elements that it may have.
    """

    kind: str = "rows"
    step: int = 1
    leader: int = -1
    at: int = 0
    reach: int = 0


ROWS = Way()


def choose_ways(kernel: Kernel, binding: Binding, plane: Plane, thrift: int = 0) -> tuple[Way, ...]:
    """The way of each access at these strides and offsets.

    Parameters
    ----------
    kernel : Kernel
    binding : Binding
    plane : Plane
    thrift : int
        One of `THRIFT`: how much is done to take little of UB, for kernels of many operands.
    """
    ways = [_alone(kernel, binding, plane, n, thrift) for n in range(len(kernel.accesses))]
    stored = {i.attrs[0] for i in kernel.body if i.op == "store"}
    loads = [i.attrs[0] for i in kernel.body if i.op == "load" and i.attrs[0] not in stored]
    alike: dict[tuple[int, str, tuple[int, ...]], list[int]] = {}
    for n in dict.fromkeys(loads):
        access = kernel.accesses[n]
        alike.setdefault((access.operand, access.layout, binding.strides[n]), []).append(n)
    for members in alike.values():
        _share(members, ways, binding, plane)
    for instr in kernel.body:
        if instr.op == "gather" and binding.sizes and thrift < 2:
            (n,) = instr.attrs
            operand = kernel.accesses[n].operand
            size = binding.sizes[operand] - binding.offsets[n]
            room = max(LEAST_TABLE, 1 << (size - 1).bit_length())
            if room * TABLE_WIDTHS[kernel.operands[operand].dtype.itemsize] <= MOST_TABLE_BYTES:
                ways[n] = Way("table", reach=room)
    return tuple(ways)


def _alone(kernel: Kernel, binding: Binding, plane: Plane, access: int, thrift: int) -> Way:
    """The way of an access whatever others read."""
    form = plane.access_form(access)
    if form is None:
        return ROWS
    operand = kernel.operands[kernel.accesses[access].operand]
    stored = operand.output and any(i.op == "store" and i.attrs[0] == access for i in kernel.body)
    walked = plane.row if form is Form.COLUMN else plane.lane
    stride = binding.strides[access][walked]
    if stride in (0, 1):
        return ROWS
    most = MOST_STEP_BYTES if thrift == 0 else BLOCK
    if _is_small(stride, operand.dtype.itemsize, stored, most):
        return Way("steps", stride)
    if form is Form.FULL and plane.row >= 0:
        across = binding.strides[access][plane.row]
        # Rows are padded then, of which there may be few.
        few = thrift == 0 and _is_small(across, operand.dtype.itemsize, stored, most)
        if few or (across == 1 and thrift < 2):
            return Way("turned", across)
    return Way("slots", 1 if stride > 0 else -1)


def _is_small(stride: int, width: int, stored: bool, most: int) -> bool:
    """Whether what lies between elements is copied with them. Of what is stored that would be overwritten."""
    if stored:
        return stride == -1
    return stride == -1 or (1 < abs(stride) <= MOST_STEP and abs(stride) * width <= most)


def _share(members: list[int], ways: list[Way], binding: Binding, plane: Plane) -> None:
    """Accesses with equal strides that can be read from one tile."""
    way = ways[members[0]]
    if len(members) == 1 or plane.access_form(members[0]) is not Form.FULL:
        return
    strides, offsets = binding.strides[members[0]], binding.offsets
    first = min(members, key=lambda n: offsets[n])
    if way.kind == "steps" and way.step > 1:
        for residues in _runs(members, offsets, way.step):
            leader = residues[0]
            reach = offsets[residues[-1]] - offsets[leader]
            for n in residues:
                ways[n] = Way("steps", way.step, leader, offsets[n] - offsets[leader], reach)
    elif way.kind == "rows" and plane.row >= 0 and abs(strides[plane.row]) > MOST_LANES_APART:
        places = {n: _place(offsets[n] - offsets[first], strides[plane.row]) for n in members}
        for lane, same in groupby(sorted(members, key=lambda n: places[n][::-1]), lambda n: places[n][1]):
            if abs(lane) > MOST_LANES_APART:
                continue
            group = list(same)
            leader, last = group[0], group[-1]
            reach = places[last][0] - places[leader][0]
            if 0 < reach <= MOST_ROWS_APART:
                for n in group:
                    ways[n] = Way("rows", 1, leader, places[n][0] - places[leader][0], reach)


def _runs(members: list[int], offsets: tuple[int, ...], span: int) -> Iterable[list[int]]:
    """Members whose offsets lie within a span of each other."""
    run: list[int] = []
    for n in sorted(members, key=lambda n: offsets[n]):
        if run and offsets[n] - offsets[run[0]] >= span:
            yield run
            run = []
        run.append(n)
    if run:
        yield run


def _place(distance: int, stride: int) -> tuple[int, int]:
    """A distance as rows and lanes, as few lanes as there can be."""
    rows = (2 * distance + abs(stride)) // (2 * abs(stride))
    lanes = distance - rows * abs(stride)
    return (rows if stride > 0 else -rows), lanes
