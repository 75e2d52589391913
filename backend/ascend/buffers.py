"""Which values share a buffer, and how long each buffer is needed.

A value lies in the buffer of one it was computed from where that dies with the instruction and the
instruction may write in place; what is copied out is computed in its own buffer where that can be.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .alloc import REPEAT, Request
from .folding import SCRATCH
from .rounding import round_up
from .stage import Stage, Stages
from .tile import BYTES, MASK, Form, Value

# Instructions go over whole repeats of the narrowest dtype computed in.
GRANULE = 128
# Of several cores' partial results, combined together.
PARTS = 24576
# Element by element and of one width: the result may take the place of a source.
IN_PLACE = frozenset(
    [
        "Add",
        "Sub",
        "Mul",
        "Div",
        "Max",
        "Min",
        "And",
        "Or",
        "Not",
        "Adds",
        "Muls",
        "Maxs",
        "Mins",
        "ShiftLeft",
        "ShiftRight",
        "Abs",
        "Exp",
        "Ln",
        "Sqrt",
        "Rsqrt",
        "Reciprocal",
        "Relu",
        "Accumulate",
    ]
)


@dataclass(frozen=True, slots=True)
class Size:
    """Bytes as a linear function of what a tile may hold."""

    point: float = 0.0
    row: float = 0.0
    lane: float = 0.0
    fixed: int = 0

    def __call__(self, points: int, rows: int, lanes: int) -> int:
        """Bytes, for whole repeats of every dtype."""
        total = self.point * _up(points) + self.row * _up(rows) + self.lane * _up(lanes)
        return round_up(int(total), 32) + self.fixed


def _up(elements: int) -> int:
    return round_up(elements, GRANULE)


def size_of(value: Value) -> Size:
    """The bytes of a value."""
    width = 1 / 8 if value.dtype == MASK else float(BYTES[value.dtype])
    match value.form:
        case Form.FULL:
            return Size(point=width)
        case Form.ROW:
            return Size(lane=width)
        case Form.COLUMN:
            return Size(row=width)
        case Form.BLOCKS:
            return Size(row=32.0)
        case Form.SCRATCH:
            return Size(fixed=SCRATCH)
        case Form.HALF:
            return Size(lane=2.0, fixed=REPEAT)
        case Form.FOLDED:
            # An eighth of 32-bit elements, an eighth of that, and columns; or two masks, as wide.
            return Size(point=0.5625, row=16.0, fixed=6 * REPEAT)
        case Form.PARTS:
            return Size(fixed=PARTS)
        case Form.STAGED | Form.TABLE:
            room = value.room
            assert room is not None
            fixed = int(width * room.fixed)
            return Size(width * room.point, width * room.row, width * room.lane, fixed)


@dataclass(eq=False)
class Buffer:
    """A piece of UB.

    Attributes
    ----------
    kind : str
        ``"load"`` or ``"store"``, which the copy engines use beside the vector unit, ``"temporary"``, or
        ``"table"``, which is kept as long as the kernel runs.
    stage : int
        Of its first value.
    first, last : int
        The positions of the program between which it is alive.
    host : Buffer or None
        A buffer of copies whose memory it takes, after what was loaded there was last read, or before what is
        stored from there is computed.
    """

    name: str
    size: Size
    kind: str
    stage: int
    first: int
    last: int
    values: list[Value] = field(default_factory=list)
    host: Buffer | None = None

    @property
    def place(self) -> Buffer:
        """The buffer whose memory it lies in."""
        return self.host or self

    @property
    def copied(self) -> bool:
        """Whether the copy engines use it, so that there may be two of it."""
        return self.kind in ("load", "store")


@dataclass
class Buffers:
    """The buffers of a kernel.

    Attributes
    ----------
    of : dict of Value to Buffer
    buffers : list of Buffer
    moves : set of Value
        Results of ``Out`` that must be copied.
    end : int
        The last position.
    apart, into : lists of (Buffer, Buffer)
        Read by one instruction; read and written by one.
    """

    of: dict[Value, Buffer]
    buffers: list[Buffer]
    moves: set[Value]
    end: int
    apart: list[tuple[Buffer, Buffer]]
    into: list[tuple[Buffer, Buffer]]
    views: set[Value] = field(default_factory=set)

    def bytes_without_reuse(self, capacity: tuple[int, int, int], copies: int) -> int:
        """What UB would hold if every value had a buffer of its own."""
        total = 0
        for b in self.buffers:
            own = [size_of(v)(*capacity) for v in b.values if v not in self.views]
            extra = copies - 1 if b.copied else 0
            total += sum(own) + extra * b.size(*capacity)
        return total

    def requests(self, capacity: tuple[int, int, int], copies: int, reuse: bool = True) -> list[Request]:
        """What is to be placed for tiles of a capacity (points, rows, lanes).

        There are `copies` of each buffer that the copy engines use.
        """
        names = {
            b: [f"{b.place.name}.{n}" for n in range(copies if b.place.copied else 1)] for b in self.buffers
        }
        apart = _names(names, self.apart)
        into = _names(names, self.into)
        result = []
        for b in self.buffers:
            if b.host is not None:
                continue
            shared = b.kind == "temporary" and reuse
            first, last = (b.first, b.last) if shared else (0, self.end)
            for name in names[b]:
                result.append(
                    Request(
                        name, b.size(*capacity), first, last,
                        apart=tuple(apart.get(name, ())), into=tuple(into.get(name, ())),
                    )
                )  # fmt: skip
        return result


def _names(names: dict[Buffer, list[str]], pairs: list[tuple[Buffer, Buffer]]) -> dict[str, list[str]]:
    result: dict[str, list[str]] = {}
    for a, b in pairs:
        for name in names[a] if a.place is not b.place else ():
            result.setdefault(name, []).extend(names[b])
    return result


class _Assignment:
    def __init__(self, stages: Stages, in_place: bool) -> None:
        self.stages = stages.stages
        self.in_place = in_place
        self.parent: dict[Value, Value] = {}
        self.defined: dict[Value, tuple[int, int]] = {}  # stage and position
        self.used: dict[Value, int] = {}
        self.kind: dict[Value, str] = {}
        self.moves: set[Value] = set()
        self.end = 0

    def root(self, value: Value) -> Value:
        """The value that stands for all in one buffer."""
        path = []
        while (up := self.parent.get(value, value)) is not value:
            path.append(value)
            value = up
        for v in path:
            self.parent[v] = value
        return value

    def run(self) -> Buffers:
        self._lifetimes()
        position = 0
        for number, stage in enumerate(self.stages):
            stage_end = position + _length(stage)
            position += 1
            for instr in stage.instrs():
                dst = instr.dst
                if instr.op == "Out":
                    assert dst is not None
                    self._out(dst, instr.reads[0], number, stage_end)
                elif self.in_place and dst is not None and instr.op in IN_PLACE and dst not in self.parent:
                    for source in instr.reads:
                        if source is dst or self._take(dst, source, number, position, stage_end):
                            break
                position += 1
            position = stage_end + 1
        return self._finish()

    def _lifetimes(self) -> None:
        position = 0
        for number, stage in enumerate(self.stages):
            start, end = position, position + _length(stage)
            loop_start, loop_end = start + 1 + len(stage.before), start + len(stage.before) + len(stage.body)
            for load in stage.loads:
                self.defined[load.value] = (number, start)
                self.used[load.value] = start
                self.kind[load.value] = "constant" if stage.once else "load"
            position += 1
            for instr in stage.instrs():
                for value in instr.reads:
                    if value.form in (
                        Form.SCRATCH,
                        Form.HALF,
                        Form.FOLDED,
                        Form.PARTS,
                        Form.TABLE,
                        Form.STAGED,
                    ):
                        self.defined.setdefault(value, (number, position))
                        if value.form is Form.TABLE:
                            self.kind[value] = "table"
                    last = position
                    if (
                        stage.loops
                        and loop_start <= position <= loop_end
                        and self.defined[value][1] < loop_start
                    ):
                        last = loop_end
                    self.used[value] = max(self.used.get(value, 0), last)
                if instr.dst is not None:
                    self.defined.setdefault(instr.dst, (number, position))
                    self.used[instr.dst] = max(self.used.get(instr.dst, 0), position)
                    if instr.op in ("View", "Window"):
                        self._unite(instr.dst, instr.reads[0])
                position += 1
            for store in stage.stores:
                self.kind[store.value] = "store"
                self.used[store.value] = end
            position = end + 1
        self.end = position
        for value, last in self.used.items():  # a view's readers read the buffer
            root = self.root(value)
            self.used[root] = max(self.used[root], last)
        if self.stages[0].once:
            first_end = _length(self.stages[0])
            for value in self.defined:  # read again for each tile
                if self.defined[value][0] == 0 and self.used[self.root(value)] > first_end:
                    self.used[self.root(value)] = self.end

    def _unite(self, a: Value, b: Value) -> None:
        """Put two values into one buffer."""
        a, b = self.root(a), self.root(b)
        if a is b:
            return
        first, second = (a, b) if self.defined[a] <= self.defined[b] else (b, a)
        self.parent[second] = first
        self.used[first] = max(self.used[first], self.used[second])
        kinds = {self.kind.get(first, "temporary"), self.kind.get(second, "temporary")}
        kinds.discard("temporary")
        if kinds:
            (self.kind[first],) = kinds

    def _free(self, root: Value, stage: int) -> bool:
        return self.kind.get(root, "temporary") == "temporary" and self.defined[root][0] == stage

    def _out(self, stored: Value, value: Value, stage: int, stage_end: int) -> None:
        root = self.root(value)
        if self._free(root, stage) and self.used[root] <= stage_end and size_of(stored) == size_of(root):
            self._unite(value, stored)
        else:
            self.moves.add(stored)

    def _take(self, dst: Value, source: Value, stage: int, position: int, stage_end: int) -> bool:
        root, target = self.root(source), self.root(dst)
        if self.used[root] != position or size_of(dst) != size_of(root) or dst.form is not source.form:
            return False
        if self.defined[root][0] != stage or self.kind.get(root) in ("load", "constant"):
            return False
        if self.kind.get(root) == "store" and self.kind.get(target) == "store":
            return False
        self._unite(root, target)
        return True

    def _finish(self) -> Buffers:
        buffers: dict[Value, Buffer] = {}
        of: dict[Value, Buffer] = {}
        taken: dict[str, int] = {}
        for value, (stage, first) in self.defined.items():
            root = self.root(value)
            buffer = buffers.get(root)
            if buffer is None:
                kind = self.kind.get(root, "temporary")
                buffer = buffers[root] = Buffer("", size_of(root), kind, stage, first, self.used[root])
            buffer.values.append(value)
            buffer.name = buffer.name or value.name
            of[value] = buffer
        for buffer in buffers.values():
            name = buffer.name or "t"
            taken[name] = taken.get(name, -1) + 1
            buffer.name = f"{name}{taken[name]}" if name == "t" or taken[name] else name
        views = {
            i.dst
            for stage in self.stages
            for i in stage.instrs()
            if i.dst is not None
            and (i.op in ("View", "Window") or (i.op == "Out" and i.dst not in self.moves))
        }
        if self.in_place:
            self._take_in(list(buffers.values()))
        return Buffers(of, list(buffers.values()), self.moves, self.end, *self._pairs(of), views)

    def _take_in(self, buffers: list[Buffer]) -> None:
        """Give temporaries the memory of buffers that the copies do not need at the time."""
        start = 0
        for number, stage in enumerate(self.stages):
            first = start + 1 + len(stage.before)
            last = first + len(stage.body) - 1
            inside = [b for b in buffers if b.stage == number and not stage.once]
            temporary = sorted(
                (b for b in inside if b.kind == "temporary" and b.first >= first and b.last <= last),
                key=lambda b: b.first,
            )
            for host in inside:
                if not host.copied:
                    continue
                free, until = (host.last, last + 1) if host.kind == "load" else (first - 1, host.first)
                for b in temporary:
                    if b.host is None and b.size == host.size and free < b.first and b.last < until:
                        b.host = host
                        free = b.last
            start += _length(stage) + 1

    def _pairs(
        self, of: dict[Value, Buffer]
    ) -> tuple[list[tuple[Buffer, Buffer]], list[tuple[Buffer, Buffer]]]:
        apart: dict[tuple[Buffer, Buffer], None] = {}
        into: dict[tuple[Buffer, Buffer], None] = {}
        for stage in self.stages:
            for instr in stage.instrs():
                reads = [of[v] for v in instr.reads]
                if len(reads) == 2 and reads[0] is not reads[1]:
                    apart[reads[0], reads[1]] = None
                if instr.dst is not None:
                    into.update({(r, of[instr.dst]): None for r in reads if r is not of[instr.dst]})
        return list(apart), list(into)


def _length(stage: Stage) -> int:
    """Positions of a stage, less one: its copies in, its instructions, its copies out."""
    return len(stage.before) + len(stage.body) + len(stage.after) + 1


def assign(stages: Stages, in_place: bool = True) -> Buffers:
    """The buffers of a kernel's stages."""
    return _Assignment(stages, in_place).run()


def fullest(buffers: Buffers, capacity: tuple[int, int, int]) -> Size:
    """What the temporaries that are alive together at the fullest point take."""
    tables = [b for b in buffers.buffers if b.kind == "table"]
    temporary = [b for b in buffers.buffers if b.kind in ("table", "temporary") and b.host is None]
    most, at_most = -1, Size()
    for at in {b.first for b in temporary}:
        sizes = [b.size for b in temporary if b in tables or b.first <= at <= b.last]
        total = sum(s(*capacity) for s in sizes)
        if total > most:
            most = total
            at_most = Size(
                sum(s.point for s in sizes),
                sum(s.row for s in sizes),
                sum(s.lane for s in sizes),
                sum(s.fixed for s in sizes),
            )
    return at_most
