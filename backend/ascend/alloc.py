"""Placement of buffers in a memory of a core: by lifetime, aligned, operands in different banks.

The unified buffer of dav-2201 has 16 bank groups, 32 bytes of each in turn; a repeat of a vector instruction
takes 256 bytes of an operand, that is eight groups, in a cycle. What that means for where operands start:

* Two operands that are *read* by one instruction share no group if their starts differ by 256 modulo 512.
  Otherwise the instruction takes twice its cycles.
* An operand that is *written* is written one repeat behind what is read. In the same 64 KiB as an operand
  that is read it must start at the same place modulo 512 (as it does in place); in another anywhere.

Published measurement (`Add` of 4096 float32, a thousand times, in ticks): 2390 without conflicts, 4167 with
the two sources in equal groups, 3751 with a result that is off by one block from a source.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...ops.errors import BackendError
from .rounding import round_up

BLOCK = 32
REPEAT = 256
BANK_REGION = 65536  # a bank of each group lies in each 64 KiB
SEARCH_NODES = 20_000  # of the exact search; it takes about 5 µs each
SEARCHED = 12  # as many buffers are searched exactly


@dataclass(frozen=True, slots=True)
class Request:
    """A buffer to be placed.

    Attributes
    ----------
    name : str
    bytes : int
    first, last : int
        The positions of the program between which it is alive, both included. What persists through a loop
        is alive at all its positions.
    align : int
        Of its start, in bytes.
    apart : tuple of str
        Buffers that one instruction reads together with this one.
    into : tuple of str
        Buffers that are written by instructions that read this one.
    """

    name: str
    bytes: int
    first: int
    last: int
    align: int = BLOCK
    apart: tuple[str, ...] = ()
    into: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Placement:
    """Where each buffer starts.

    Attributes
    ----------
    offsets : dict of str to int
        In bytes.
    bytes_used : int
        The end of the last buffer.
    bytes_without_reuse : int
        What the buffers would take side by side.
    live_bound : int
        What is alive at the fullest point: no placement takes less.
    conflicts : tuple of (str, str)
        The pairs of operands of one instruction that meet in a bank group all the same.
    """

    offsets: dict[str, int]
    bytes_used: int
    bytes_without_reuse: int
    live_bound: int
    conflicts: tuple[tuple[str, str], ...] = ()


def place(
    requests: Iterable[Request],
    capacity: int,
    *,
    space: str = "UB",
    bank_groups: int = 16,
    kernel: str = "tile",
) -> Placement:
    """Place buffers so that none overlaps another that is alive at the same time.

    What is kept small first is the memory used: several orders of first fit, then an exact search for few
    buffers where they miss the bound. Among placements that fit, the one with the fewest bank conflicts is
    taken; that may cost up to 512 bytes for each operand concerned.

    Parameters
    ----------
    requests : iterable of Request
        Of different names.
    capacity : int
        Of the memory, in bytes.
    space, kernel : str
        The names of the memory and of the kernel, for the message.
    bank_groups : int
        Of the memory; 8 or fewer leave nothing to choose.

    Raises
    ------
    BackendError
        If the buffers do not fit: which ones, what they need at the fullest point, what there is.
    """
    buffers = list(requests)
    if not buffers:
        return Placement({}, 0, 0, 0)
    sizes = [max(BLOCK, round_up(r.bytes, BLOCK)) for r in buffers]
    bound, fullest = _live_bound(buffers, sizes)
    if bound > capacity:
        raise BackendError(_does_not_fit(buffers, sizes, bound, fullest, capacity, space, kernel))
    links = _links(buffers)
    free: list[int | None] = [None] * len(buffers)
    # Starts chosen modulo the banks' cycle come first: if they fit there is little more to gain.
    cycle = bank_groups * BLOCK
    chosen: list[int] | None = None
    conflicts: tuple[tuple[str, str], ...] = ()
    if links and cycle >= 2 * REPEAT:
        phases = _phases(len(buffers), links)
        starts = _first_fits(buffers, sizes, phases, cycle, bound, min(capacity, bound + bound // 64))
        if _end(starts, sizes) <= capacity:
            chosen, conflicts = starts, _conflicts(buffers, starts, links, cycle)
    if chosen is None or conflicts:
        starts = _first_fits(buffers, sizes, free, cycle, bound)
        if _end(starts, sizes) > bound and len(buffers) <= SEARCHED:
            starts = _search(buffers, sizes, starts, bound)
        others = _conflicts(buffers, starts, links, cycle)
        if chosen is None or (_end(starts, sizes) <= capacity and len(others) < len(conflicts)):
            chosen, conflicts = starts, others
    used = _end(chosen, sizes)
    if used > capacity:
        raise BackendError(_does_not_fit(buffers, sizes, used, fullest, capacity, space, kernel))
    offsets = {r.name: start for r, start in zip(buffers, chosen, strict=True)}
    return Placement(offsets, used, sum(sizes), bound, conflicts)


def _end(starts: Sequence[int], sizes: Sequence[int]) -> int:
    return max(start + size for start, size in zip(starts, sizes, strict=True))


def _live_bound(buffers: Sequence[Request], sizes: Sequence[int]) -> tuple[int, int]:
    """The bytes alive at the fullest position, and that position."""
    changes: dict[int, int] = {}
    for request, size in zip(buffers, sizes, strict=True):
        changes[request.first] = changes.get(request.first, 0) + size
        changes[request.last + 1] = changes.get(request.last + 1, 0) - size
    live, best, where = 0, -1, 0
    for position in sorted(changes):
        live += changes[position]
        if live > best:
            best, where = live, position
    return best, where


def _does_not_fit(
    buffers: Sequence[Request],
    sizes: Sequence[int],
    need: int,
    fullest: int,
    capacity: int,
    space: str,
    kernel: str,
) -> str:
    live = sorted(
        (-size, r.name) for r, size in zip(buffers, sizes, strict=True) if r.first <= fullest <= r.last
    )
    named = ", ".join(f"{name} {-size:,}" for size, name in live[:6])
    more = f" and {len(live) - 6} more" if len(live) > 6 else ""
    return (
        f"[{kernel}] expected buffers that fit the {capacity:,} bytes of {space}, given {need:,} bytes at "
        f"the fullest point (position {fullest}: {named}{more}); take a smaller tile or cut the kernel in two"
    )


# --- bank groups ----------------------------------------------------------------------------------------


def _links(buffers: Sequence[Request]) -> list[tuple[int, int, bool]]:
    """Pairs of buffers that one instruction touches: both read (True), or one read and the other written."""
    number = {r.name: n for n, r in enumerate(buffers)}
    links: dict[tuple[int, int, bool], None] = {}
    for n, request in enumerate(buffers):
        for name in request.apart:
            if name != request.name and name in number:
                links[min(n, number[name]), max(n, number[name]), True] = None
        for name in request.into:
            if name != request.name and name in number:
                links[n, number[name], False] = None
    return sorted(links, key=lambda link: not link[2])


def _phases(count: int, links: Sequence[tuple[int, int, bool]]) -> list[int | None]:
    """Where in the cycle of banks each buffer starts: at 0 or at REPEAT; None where it does not matter.

    Two colours by union of classes: read pairs differ and come first, what is written is like what is read.
    """
    parent = list(range(count))
    differs = [False] * count  # from the parent

    def root(n: int) -> tuple[int, bool]:
        flip = False
        while parent[n] != n:
            flip ^= differs[n]
            n = parent[n]
        return n, flip

    linked = [False] * count
    for a, b, both_read in links:
        linked[a] = linked[b] = True
        (top_a, flip_a), (top_b, flip_b) = root(a), root(b)
        if top_a != top_b:
            parent[top_b] = top_a
            differs[top_b] = flip_a ^ flip_b ^ both_read
    return [(REPEAT if root(n)[1] else 0) if linked[n] else None for n in range(count)]


def _conflicts(
    buffers: Sequence[Request], starts: Sequence[int], links: Sequence[tuple[int, int, bool]], cycle: int
) -> tuple[tuple[str, str], ...]:
    """The pairs of operands of one instruction that meet in a bank."""
    found = []
    for a, b, both_read in links:
        apart = (starts[b] - starts[a]) % cycle
        if both_read:
            meet = not REPEAT <= apart <= cycle - REPEAT
        else:
            same = starts[a] // BANK_REGION == starts[b] // BANK_REGION
            # What is written comes one repeat later.
            behind = (apart - REPEAT) % cycle
            meet = same and not REPEAT <= behind <= cycle - REPEAT
        if meet:
            found.append((buffers[a].name, buffers[b].name))
    return tuple(found)


# --- first fit ------------------------------------------------------------------------------------------


def _first_fits(
    buffers: Sequence[Request],
    sizes: Sequence[int],
    phases: Sequence[int | None],
    cycle: int,
    bound: int,
    enough: int = 0,
) -> list[int]:
    """The best of several orders of first fit; the first one that ends within `bound` or `enough` will do."""
    numbers = range(len(buffers))
    span = [r.last - r.first + 1 for r in buffers]
    orders = (
        sorted(numbers, key=lambda n: (-sizes[n], -span[n])),
        sorted(numbers, key=lambda n: (-span[n], -sizes[n])),
        sorted(numbers, key=lambda n: (-sizes[n] * span[n], -sizes[n])),
        sorted(numbers, key=lambda n: (buffers[n].first, -buffers[n].last, -sizes[n])),
    )
    best: list[int] = []
    best_end = -1
    best_order: list[int] = orders[0]
    for order in orders:
        starts = _first_fit(buffers, sizes, phases, cycle, order)
        end = _end(starts, sizes)
        if best_end < 0 or end < best_end:
            best, best_end, best_order = starts, end, order
        if best_end <= max(bound, enough):
            return best
    # What ends at the top is placed earlier, a few times over.
    order, starts = best_order, best
    for _ in range(8):
        top = _end(starts, sizes)
        raised = {n for n in numbers if starts[n] + sizes[n] == top}
        order = [n for n in order if n in raised] + [n for n in order if n not in raised]
        starts = _first_fit(buffers, sizes, phases, cycle, order)
        end = _end(starts, sizes)
        if end < best_end:
            best, best_end = starts, end
        if best_end <= max(bound, enough):
            break
    return best


def _first_fit(
    buffers: Sequence[Request],
    sizes: Sequence[int],
    phases: Sequence[int | None],
    cycle: int,
    order: Sequence[int],
) -> list[int]:
    """Each buffer at the lowest place that is free during its life, in this order."""
    starts = [0] * len(buffers)
    placed: list[tuple[int, int, int, int]] = []  # start, end, first, last; by start
    for n in order:
        request, size, phase = buffers[n], sizes[n], phases[n]
        first, last = request.first, request.last
        unit, rest = (request.align, 0) if phase is None else (cycle, phase)
        if unit % request.align or rest % request.align:
            unit, rest = request.align, 0
        at = rest
        for start, end, born, dies in placed:
            if born <= last and first <= dies:
                if at + size <= start:
                    break
                if end > at:
                    at = end + (rest - end) % unit
        starts[n] = at
        index = len(placed)
        while index and placed[index - 1][0] > at:
            index -= 1
        placed.insert(index, (at, at + size, first, last))
    return starts


# --- exact search ---------------------------------------------------------------------------------------


def _search(buffers: Sequence[Request], sizes: Sequence[int], starts: Sequence[int], bound: int) -> list[int]:
    """The least memory, by branch and bound over the buffers in the order of their starts.

    In that order a buffer lies on what was placed before it, so a skyline over the program's positions is
    all that has to be kept. `starts` is the best placement known; the bound on what can still be reached is,
    for each position, the skyline and all that is still to be placed there.
    """
    moments = sorted({r.first for r in buffers})
    spans = [[m for m, p in enumerate(moments) if r.first <= p <= r.last] for r in buffers]
    aligns = [r.align for r in buffers]
    count = len(buffers)
    best, best_end = list(starts), _end(starts, sizes)
    left = [sum(sizes[n] for n in range(count) if m in spans[n]) for m in range(len(moments))]
    skyline = [0] * len(moments)
    current = [0] * count
    waiting = set(range(count))
    nodes = SEARCH_NODES

    def descend(lowest: int, previous: int) -> None:
        nonlocal best, best_end, nodes
        if not waiting:
            end = _end(current, sizes)
            if end < best_end:
                best, best_end = list(current), end
            return
        lands = []
        for n in waiting:
            at = max(lowest, max(skyline[m] for m in spans[n]))
            lands.append((at + -at % aligns[n], n))
        # A buffer that would leave room below for another one, whole, comes after it.
        limit = min(at + sizes[n] for at, n in lands)
        for at, n in sorted(lands):
            if at >= limit or best_end <= bound or nodes <= 0:
                return
            if at == lowest and n < previous:
                continue  # the same start: only in one order
            if at + sizes[n] >= best_end:
                continue
            nodes -= 1
            span, size = spans[n], sizes[n]
            before = [skyline[m] for m in span]
            for m in span:
                skyline[m] = at + size
                left[m] -= size
            waiting.discard(n)
            if all(
                max(height, at) + rest < best_end for height, rest in zip(skyline, left, strict=True) if rest
            ):
                current[n] = at
                descend(at, n)
            waiting.add(n)
            for m, height in zip(span, before, strict=True):
                skyline[m] = height
                left[m] += size

    descend(0, -1)
    return best
