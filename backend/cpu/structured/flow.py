"""LLVM code of a structured kernel: statements over the lanes of a vector, under masks where these part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from llvmlite import ir

from ...structured import Atomic, Break, Continue, For, If, Let, Return, Set, Span, Store, While
from ..constants import i64, poison, splat
from ..emitter import I1, I64
from . import access as structured_access
from .body import EMPTY, Body, Edge, Key, State
from .lanes import Node
from .split import Split, split

# Statements up to which whole vectors and the rest of a row get a body each.
_MOST_TWICE = 250


@dataclass(slots=True)
class _Loop:
    """A loop that is being emitted; lanes leave a masked one by leaving its ``("live", number)``."""

    number: int
    masked: bool
    done: ir.Block | None = None
    latch: ir.Block | None = None
    breaks: list[Edge] = field(default_factory=list)
    continues: list[Edge] = field(default_factory=list)


class Flow(Body):
    """Emits the statements of one function."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._loops: list[_Loop] = []
        self._return: ir.Block | None = None
        self._split: Split | None = None

    # --- statements --------------------------------------------------------------------------------------

    def block(self, nodes: Sequence[Node]) -> bool:
        """Emit statements; False where their end is not reached."""
        for n, node in enumerate(nodes):
            if not self.statement(node):
                return False
            if self.state.mask is EMPTY:
                return True
            rest = nodes[n + 1 :]
            if node.leaves and self.state.mask is not None and not all(other.light for other in rest):
                self.guarded(self.state.mask, rest)
                return True
        return True

    def guarded(self, mask: Any, nodes: Sequence[Node]) -> None:
        """Statements for the lanes of a mask, if there are any."""
        then, done = self.new_block("some"), self.new_block("none")
        before = self.state.copy()
        before.mask = mask
        self.b.cbranch(self.any(mask), then, done)
        edges = [(self.b.block, before)]
        self.b.position_at_end(then)
        self.state = before.copy()
        with self.scope():
            if self.block(nodes):
                edges.append((self.b.block, self.state))
                self.b.branch(done)
        self.join(done, edges)

    def statement(self, node: Node) -> bool:
        if isinstance(node.statement, (For, While, Span)):
            self.again = None
        match node.statement:
            case Let(value, op, _, args, attrs):
                if op in ("get", "load", "call"):
                    self.env[value] = self.let(node.statement)
                    return True
                operands = [(id(self.env[a]), self.found.step(a)) for a in args]
                key = (op, node.statement.dtype, repr(attrs), *operands)
                made = self.known.get(key)
                if made is None:
                    made = self.known[key] = self.let(node.statement)
                self.env[value] = made
            case Set(variable, value):
                self._set(node, variable, value)
            case Store():
                structured_access.store(self, node.statement)
            case Atomic():
                structured_access.atomic(self, node.statement)
            case If():
                return self._if(node)
            case For():
                self._for(node)
            case While():
                self._while(node)
            case Break() | Continue():
                return self._leave(node)
            case Return():
                return self._returns(node)
            case Span():
                self._span(node)
            case _:
                raise AssertionError(f"{type(node.statement).__name__} was to be written out")
        return True

    def _set(self, node: Node, variable: int, value: int) -> None:
        state = self.state
        if self.found.variables.get(variable, 0) is not None:
            state.variables[variable] = self.scalar(value)
            return
        new = self.vector(value)
        old = state.variables.get(variable)
        if node.blend and state.mask is not None and old is not None:
            new = self.b.select(state.mask, new, old)
        state.variables[variable] = new

    def _if(self, node: Node) -> bool:
        statement = node.statement
        assert isinstance(statement, If)
        then, orelse = node.blocks
        if not node.varying:
            return self._branch(self.scalar(statement.condition), then, orelse)
        if self._split is not None and self._split.node is node and self.state.mask is None:
            return self.block(then if self._split.holds else orelse)
        condition, mask = self.vector(statement.condition), self.state.mask
        if self.again is not None and mask is None and not node.light:
            return self._together(condition, then, orelse)
        inside, outside = self.both(mask, condition), self.without(mask, condition)
        ends = []
        for lanes, nodes in ((inside, then), (outside, orelse)):
            if not nodes:
                ends.append(lanes)
                continue
            if node.light:
                self.state.mask = lanes
                with self.scope():
                    self.block(nodes)
            else:
                self.guarded(lanes, nodes)
            ends.append(self.state.mask)
        self.state.mask = self.either(*ends) if node.leaves else mask
        return True

    def _together(self, condition: ir.Value, then: Sequence[Node], orelse: Sequence[Node]) -> bool:
        """Both ways without masks for a whole vector; one whose lanes part is begun again with masks."""
        b = self.b
        bits = self.bits(condition)
        one = self.new_block("together")
        full = ir.Constant(bits.type, (1 << self.lanes) - 1)
        every = b.icmp_unsigned("==", bits, full)
        none = b.icmp_unsigned("==", bits, ir.Constant(bits.type, 0))
        b.cbranch(b.or_(every, none), one, self.again)
        b.position_at_end(one)
        return self._branch(every, then, orelse)

    def _branch(self, condition: ir.Value, then: Sequence[Node], orelse: Sequence[Node]) -> bool:
        targets = [self.new_block("then") if nodes else None for nodes in (then, orelse)]
        done = self.new_block("done")
        before, here = self.state, self.b.block
        self.b.cbranch(condition, targets[0] or done, targets[1] or done)
        edges: list[Edge] = []
        parts, kept = self.again, True
        for target, nodes in zip(targets, (then, orelse), strict=True):
            if target is None:
                if (here, before) not in [(block, state) for block, state in edges]:
                    edges.append((here, before))
                continue
            self.b.position_at_end(target)
            self.state = before.copy()
            self.again = parts
            with self.scope():
                if self.block(nodes):
                    edges.append((self.b.block, self.state))
                    self.b.branch(done)
            kept &= self.again is not None
        self.again = parts if kept else None
        if not edges:
            self.b.position_at_end(done)
            self.b.unreachable()
            return False
        self.join(done, edges)
        return True

    def _carried(self, node: Node) -> list[Key]:
        """What a loop changes."""
        keys: list[Key] = sorted(node.sets)
        if node.returns:
            keys += ["gone", *(("live", loop.number) for loop in self._loops if loop.masked)]
        return keys

    def _key_kind(self, key: Key) -> ir.Type:
        if isinstance(key, int):
            return self.kind(self.kernel.variables[key], self.found.variables.get(key, 0))
        return ir.VectorType(I1, self.lanes)

    def _begin(self, node: Node, loop: _Loop) -> dict[Key, ir.Value]:
        """The head of a loop, with a phi for all that the loop changes."""
        b, before = self.b, self.b.block
        head = self.new_block("head")
        b.branch(head)
        b.position_at_end(head)
        if loop.masked:
            self.state.variables["live", loop.number] = self.mask_value(self.state.mask)
        if node.returns:
            self.state.variables.setdefault("gone", self.mask_value(EMPTY))
        phis = {}
        for key in [*self._carried(node), *([("live", loop.number)] if loop.masked else [])]:
            kind = self._key_kind(key)
            phis[key] = b.phi(kind)
            old = self.state.variables.get(key)
            phis[key].add_incoming(poison(kind) if old is None else old, before)
        self.state.variables |= phis
        return phis

    def _again(self, phis: dict[Key, ir.Value], head: ir.Block) -> None:
        for key, phi in phis.items():
            value = self.state.variables.get(key)
            phi.add_incoming(poison(phi.type) if value is None else value, self.b.block)
        self.b.branch(head)

    def _for(self, node: Node) -> None:
        statement = node.statement
        assert isinstance(statement, For)
        b, found, step = self.b, self.found, statement.step
        uniform = found.step(statement.value) is not None
        start = self.scalar(statement.start) if uniform else self.vector(statement.start)
        fixed = found.step(statement.stop) == 0
        stop = self.scalar(statement.stop) if fixed and uniform else self.vector(statement.stop)
        loop, entered, before = _Loop(len(self._loops), node.masked), self.state.mask, b.block
        phis = self._begin(node, loop)
        head = b.block
        index = b.phi(start.type)
        index.add_incoming(start, before)
        sign = "<" if step > 0 else ">"
        with self.scope():
            self.env[statement.value] = index
            if fixed and uniform:
                more = b.icmp_signed(sign, index, stop)
                if loop.masked:
                    live = self.state.variables["live", loop.number]
                    more = b.and_(more, self.any(live))
            else:
                reached = self.splat(index) if uniform else index
                live = b.and_(self.state.variables["live", loop.number], b.icmp_signed(sign, reached, stop))
                self.state.variables["live", loop.number] = live
                more = self.any(live)
            self._turn(node, loop, phis, head, more, index, step)
        self._after(node, loop, entered)

    def _while(self, node: Node) -> None:
        statement = node.statement
        assert isinstance(statement, While)
        loop, entered = _Loop(len(self._loops), node.masked), self.state.mask
        phis = self._begin(node, loop)
        head = self.b.block
        with self.scope():
            if loop.masked:
                self.state.mask = self.state.variables["live", loop.number]
            self.block(node.blocks[0])
            if loop.masked:
                condition = self.vector(statement.condition)
                live = self.b.and_(self.state.variables["live", loop.number], condition)
                self.state.variables["live", loop.number] = live
                more = self.any(live)
            else:
                more = self.scalar(statement.condition)
            self._turn(node, loop, phis, head, more)
        self._after(node, loop, entered)

    def _turn(
        self,
        node: Node,
        loop: _Loop,
        phis: dict[Key, ir.Value],
        head: ir.Block,
        more: ir.Value,
        index: ir.Value | None = None,
        step: int = 0,
    ) -> None:
        """The body of a loop and the way back to its head; goes on after the loop."""
        b = self.b
        body, latch, done = self.new_block("body"), self.new_block("latch"), self.new_block("done")
        loop.done, loop.latch = done, latch
        b.cbranch(more, body, done)
        exits = [(b.block, self.state.copy())]
        b.position_at_end(body)
        self._loops.append(loop)
        if loop.masked:
            self.state.mask = self.state.variables["live", loop.number]
        if self.block(node.blocks[-1]):
            loop.continues.append((b.block, self.state))
            b.branch(latch)
        self._loops.pop()
        if loop.continues:
            self.join(latch, loop.continues)
            if index is not None:
                following = b.add(index, self._like(index, step))
                index.add_incoming(following, b.block)
            self._again(phis, head)
        else:
            b.position_at_end(latch)
            b.unreachable()
        self.join(done, [*exits, *loop.breaks])

    def _like(self, value: ir.Value, number: int) -> ir.Value:
        return splat(i64(number), self.lanes) if isinstance(value.type, ir.VectorType) else i64(number)

    def _after(self, node: Node, loop: _Loop, entered: Any) -> None:
        if loop.masked:
            del self.state.variables["live", loop.number]
        self.state.mask = entered
        if node.returns:
            self.state.mask = self.without(entered, self.state.variables["gone"])

    def _leave(self, node: Node) -> bool:
        loop, state = self._loops[-1], self.state
        stops = isinstance(node.statement, Break)
        if loop.masked:
            if stops:
                key = ("live", loop.number)
                state.variables[key] = self.mask_value(self.without(state.variables[key], state.mask))
            state.mask = EMPTY
            return True
        edges, target = (loop.breaks, loop.done) if stops else (loop.continues, loop.latch)
        edges.append((self.b.block, state))
        self.b.branch(target)
        return False

    def _returns(self, node: Node) -> bool:
        state = self.state
        if node.jump or (state.mask is None and not any(loop.masked for loop in self._loops)):
            self.b.branch(self._return)
            return False
        state.variables["gone"] = self.mask_value(self.either(state.variables.get("gone", EMPTY), state.mask))
        for loop in self._loops:
            if loop.masked:
                key = ("live", loop.number)
                state.variables[key] = self.mask_value(self.without(state.variables[key], state.mask))
        state.mask = EMPTY
        return True

    # --- lanes -------------------------------------------------------------------------------------------

    def over_lanes(self, start: ir.Value, stop: ir.Value, nodes: Sequence[Node], size: int) -> None:
        """Run statements for the lanes from `start` to `stop`."""
        b = self.b
        if self.lanes == 1 or self.found.scalar:
            with self.loop(start, stop, i64(1)) as lane:
                self.point(lane, None, nodes)
            return
        if size <= _MOST_TWICE:
            found = split(self, nodes, start, stop)
            if found is not None or self._may_part(nodes):
                self._in_two_ways(start, stop, nodes, found)
                return
        if size <= _MOST_TWICE:
            count = b.sub(stop, start)
            whole = b.sub(stop, b.srem(count, i64(self.lanes)))
            with self.loop(start, whole, i64(self.lanes)) as lane:
                self.point(lane, None, nodes)
            with self.when(b.icmp_signed("<", whole, stop)):
                self.point(whole, b.sub(stop, whole), nodes)
            return
        with self.loop(start, stop, i64(self.lanes)) as lane:
            self.point(lane, b.sub(stop, lane), nodes)

    def _in_two_ways(
        self, start: ir.Value, stop: ir.Value, nodes: Sequence[Node], found: Split | None
    ) -> None:
        """Whole vectors whose lanes go one way without masks, and all others with them."""
        b = self.b
        before = b.block
        head, turn, done = self.new_block("head"), self.new_block("turn"), self.new_block("done")
        whole, rest, next_ = self.new_block("whole"), self.new_block("rest"), self.new_block("next")
        b.branch(head)
        b.position_at_end(head)
        lane = b.phi(I64)
        lane.add_incoming(start, before)
        b.cbranch(b.icmp_signed("<", lane, stop), turn, done)
        b.position_at_end(turn)
        following = b.add(lane, i64(self.lanes), flags=["nsw"])
        limit = stop
        fits = b.icmp_signed("<=", following, stop)
        if found is not None:
            inside = b.icmp_signed(">=", lane, found.first)
            fits = b.and_(inside, b.icmp_signed("<=", following, found.stop))
            # The vectors inside begin where the condition does.
            before_first = b.icmp_signed("<", lane, found.first)
            limit = b.select(before_first, found.first, stop)
        b.cbranch(fits, whole, rest)
        b.position_at_end(whole)
        self.again, self._split = rest, found
        self.point(lane, None, nodes)
        self.again = self._split = None
        from_whole = b.block
        b.branch(next_)
        b.position_at_end(rest)
        count = self.minimum(b.sub(limit, lane), i64(self.lanes))
        end = b.add(lane, count)
        self.point(lane, count, nodes)
        from_rest = b.block
        b.branch(next_)
        b.position_at_end(next_)
        reached = b.phi(I64)
        reached.add_incoming(following, from_whole)
        reached.add_incoming(end, from_rest)
        lane.add_incoming(reached, next_)
        b.branch(head)
        b.position_at_end(done)

    def _may_part(self, nodes: Sequence[Node]) -> bool:
        """Whether lanes part, or indices are checked, before anything is done that cannot be done again."""
        for node in nodes:
            match node.statement:
                case Let(_, "load", _, _, (_, site)) | Store(site=site) | Atomic(site=site):
                    if site not in self.proven:
                        return True
                    if not isinstance(node.statement, Let):
                        return False
                case If() if not node.light:
                    return node.varying or any(map(self._may_part, node.blocks))
                case For() | While() | Span() | Let(_, "call"):
                    return False
        return False

    def point(self, lane: ir.Value, count: ir.Value | None, nodes: Sequence[Node]) -> None:
        """Run statements once for the lanes from `lane` on: `count` of them, or all."""
        state, loops, returns, outer = self.state, self._loops, self._return, self.lane
        self.state, self._loops, self._return, self.lane = state.copy(), [], self.new_block("next"), lane
        self.state.mask = None if count is None else self.first_lanes(count)
        with self.scope():
            if isinstance(self.span_lane, int):
                self.env[self.span_lane] = lane
            if self.block(nodes):
                self.b.branch(self._return)
        self.b.position_at_end(self._return)
        self.state, self._loops, self._return, self.lane = state, loops, returns, outer

    def _span(self, node: Node) -> None:
        statement = node.statement
        assert isinstance(statement, Span)
        extents = [self.scalar(e) for e in statement.extents]
        size = count_nodes(node.blocks[0])

        def along(axis: int) -> None:
            if axis == len(extents) - 1:
                self.span_lane = statement.values[axis]
                self.over_lanes(i64(0), extents[axis], node.blocks[0], size)
                self.span_lane = None
                return
            with self.loop(i64(0), extents[axis], i64(1)) as index:
                self.env[statement.values[axis]] = index
                along(axis + 1)

        with self.scope():
            along(0)

    def once_for_block(self, nodes: Sequence[Node]) -> None:
        """Run the statements of a block of threads, which have no lanes but in spans."""
        state, returns = self.state, self._return
        self.state, self._return = State(), self.new_block("next")
        with self.scope():
            if self.block(nodes):
                self.b.branch(self._return)
        self.b.position_at_end(self._return)
        self.state, self._return = state, returns


def count_nodes(nodes: Sequence[Node]) -> int:
    return sum(1 + sum(count_nodes(block) for block in node.blocks) for node in nodes)
