"""Cut a graph into kernels.

One forward pass puts each value into the kernel of its operands where the two share an iteration domain,
merges kernels that meet, and begins a new kernel elsewhere, keeping the reason. A value that a kernel needs
from another one is either written to memory or computed again, whichever moves less. What is read at
another index than it is computed at (a shifted view, a transpose) is computed again while that is cheap, so
that a stencil over a computed image is one kernel.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..backend.base import Backend
from ..ops.primitives import (
    EMPTY,
    FULL,
    GATHER,
    IOTA,
    KERNEL,
    KERNEL_OUTPUT,
    LEAF,
    REDUCE,
    SCALAR,
    UPDATE,
    VIEW,
    Kind,
)
from .domain import Access, Domain, through_view
from .narrow import Narrow
from .reads import operand_accesses, sources
from .simplify import Graph, Value

# Costs are in additions of one element. Writing a value and reading it back costs about as much as 100
# vectorised additions on a CPU core; recomputation is kept well below that.
RECOMPUTE_SHIFTED = 160.0
RECOMPUTE_SHARED = 24.0
LOAD_COST = 2.0
MAX_INLINE_DEPTH = 64
# A second pass over a row reads it from the cache if the row fits there.
ROW_BYTES = 256 * 1024


@dataclass(eq=False)
class Step:
    """A kernel or a host call in the making.

    Attributes
    ----------
    domain : Domain
    backend : Backend or None
        What it is compiled for; None where it is a host call.
    members : dict of int to bool
        The values computed here; whether over the whole domain (True) or its parallel axes only.
    ancestors : int
        Bit set of the numbers of the steps that must run before.
    reason : str
        Why a new step began here.
    """

    number: int
    domain: Domain
    backend: Backend | None
    reason: str
    members: dict[int, bool] = field(default_factory=dict)
    ancestors: int = 0
    instructions: float = 0.0
    buffers: set[int] = field(default_factory=set)
    stage: dict[int, int] = field(default_factory=dict)

    @property
    def bit(self) -> int:
        return 1 << self.number

    @property
    def host(self) -> bool:
        """Whether it is a host call."""
        return self.backend is None


@dataclass(frozen=True)
class Schedule:
    """Steps in execution order, the values that are written to memory, and what computing each one again
    costs."""

    graph: Graph
    steps: tuple[Step, ...]
    stored: frozenset[int]
    cost: tuple[float, ...]


class Scheduler:
    """State of one scheduling pass; `run` gives the schedule."""

    def __init__(self, graph: Graph, backend: Backend) -> None:
        self.graph = graph
        self.values = graph.values
        self.backend = backend
        self.steps: list[Step | None] = []
        self.step_of: dict[int, Step] = {}
        self.stored: set[int] = set()
        self.readers: dict[int, list[Step]] = {}
        self.cost: list[float] = []
        self.depth: list[int] = []
        self.shifted_uses: dict[int, float] = {}
        self.support: dict[Any, Backend | None] = {}
        self.narrow = Narrow(graph.values, backend.fallback is not None)
        self.waited_for = 0  # bit set of the steps that some step has among its ancestors

    def run(self) -> Schedule:
        self._force()
        self._count_shifted_uses()
        for v in range(len(self.values)):
            self._measure(v)
            if self._is_computed(v):
                self._place(v)
        self._choose_stored()
        return Schedule(
            self.graph,
            self._ordered(),
            frozenset(self.stored),
            tuple(self.cost),
        )

    # --- what must be in memory, and what recomputation costs ---------------------------------------

    def _force(self) -> None:
        """Mark what must be stored whatever the cut: outputs and what is read as a whole buffer."""
        values = self.values
        for o in self.graph.outputs:
            self._store(o)
        for v, value in enumerate(values):
            if value.primitive is UPDATE:
                self._store(v)
                base = values[value.operands[0]]
                if base.primitive not in (EMPTY, FULL):
                    self._store(value.operands[0])
            elif value.primitive is GATHER:
                self._store(value.operands[0])
            elif value.primitive is VIEW:
                # A view of a view that did not compose.
                if values[value.operands[0]].primitive is VIEW:
                    self._store(value.operands[0])
            elif value.primitive is not EMPTY and self._on_host(value):
                self._store(v)
                self._store_operands(value)

    def _store_operands(self, value: Value) -> None:
        """Store what a host call reads: whole values, or what they are views of."""
        handwritten = value.primitive is KERNEL
        targets = value.attrs[3] if handwritten else ()
        for n, o in enumerate(value.operands):
            operand = self.values[o]
            if n in targets and operand.primitive in (EMPTY, FULL):
                continue  # the kernel's own buffer begins as that
            through = operand.primitive is VIEW and not handwritten and o not in self.stored
            self._store(operand.operands[0] if through else o)

    def _store(self, v: int) -> None:
        if self.values[v].primitive not in (LEAF, SCALAR):
            self.stored.add(v)

    def _on_host(self, value: Value) -> bool:
        """Whether no backend has code for a value."""
        return self._backend_of(value) is None

    def _backend_of(self, value: Value) -> Backend | None:
        """The backend that has code for a value, the fallback only where the first one has none."""
        kind = value.primitive.kind
        if kind is Kind.HOST or value.primitive is EMPTY:
            return None
        fallback = self.backend.fallback
        if kind in (Kind.LEAF, Kind.SCALAR):
            return self.backend
        if fallback is None and kind is not Kind.ELEMENTWISE and kind is not Kind.REDUCE:
            return self.backend
        dtypes = self.narrow.dtypes(value)
        attrs = () if kind in (Kind.VIEW, Kind.UPDATE) else value.attrs
        key = (value.primitive.name, attrs, dtypes)
        if key not in self.support:
            self.support[key] = next(
                (
                    b
                    for b in (self.backend, fallback)
                    if b is not None and all(b.supports(value.primitive.name, d, attrs) for d in set(dtypes))
                ),
                None,
            )
        return self.support[key]

    def _why(self, value: Value) -> str:
        """Why a value runs on the host."""
        if value.primitive is KERNEL:
            return "a kernel written by hand"
        if value.primitive is EMPTY:
            return "runs on the host"
        if value.primitive.kind is Kind.HOST:
            return "runs on the host: there is no kernel for it"
        attrs = () if value.primitive.kind in (Kind.VIEW, Kind.UPDATE) else value.attrs
        name = value.primitive.name
        dtypes = self.narrow.dtypes(value)
        lacking = next(d for d in dtypes if not self.backend.supports(name, d, attrs))
        return f"runs on the host: {self.backend.why(name, lacking, attrs)}"

    def _is_computed(self, v: int) -> bool:
        """Whether a step computes the value; the rest is folded into its readers."""
        value = self.values[v]
        if value.primitive in (LEAF, SCALAR):
            return False
        if value.primitive in (VIEW, FULL, IOTA, EMPTY):
            return v in self.stored
        return True

    def _count_shifted_uses(self) -> None:
        """For each value, how often its elements would be computed again by views that move them."""
        for value in self.values:
            if value.primitive is VIEW:
                base = self.values[value.operands[0]]
                if base.size and not self._is_reshape(value, base):
                    uses = max(1.0, value.size / base.size)
                    self.shifted_uses[value.operands[0]] = self.shifted_uses.get(value.operands[0], 0) + uses

    @staticmethod
    def _is_reshape(view: Value, base: Value) -> bool:
        if view.size != base.size:
            return False
        domain = Domain.of(view.shape)
        strides, offset = view.attrs
        return offset == 0 and domain.spread(view.shape, strides) == domain.inner_access.strides

    def _is_boundary(self, v: int) -> bool:
        """Whether inlining stops at the value: it is in memory, or must go there."""
        value = self.values[v]
        return (
            v in self.stored
            or value.primitive is LEAF
            or value.primitive.kind in (Kind.REDUCE, Kind.UPDATE, Kind.HOST)
        )

    def _measure(self, v: int) -> None:
        value = self.values[v]
        if value.primitive in (SCALAR, FULL, IOTA, EMPTY):
            cost, depth = 0.0, 0
        elif value.primitive is LEAF:
            cost, depth = LOAD_COST, 0
        else:
            cost = 0.0 if value.primitive is VIEW else value.primitive.cost
            depth = 0
            for o in value.operands:
                cost += LOAD_COST if self._is_boundary(o) else self.cost[o]
                depth = max(depth, 0 if self._is_boundary(o) else self.depth[o])
            depth += 1
        self.cost.append(min(cost, 1e9))
        self.depth.append(depth)

    def _inlinable(self, v: int, access: Access, domain: Domain, budget: float, step: Step) -> bool:
        """Whether a value may be computed again at `access` in a step, at no more than `budget`."""
        if self.cost[v] > budget or self.depth[v] > MAX_INLINE_DEPTH:
            return False
        stack = [(v, access)]
        seen = set()
        while stack:
            u, at = stack.pop()
            if self._is_boundary(u) and u != v:
                continue
            if (u, at) in seen:
                continue
            seen.add((u, at))
            if not self._takes(step, self.values[u]):
                return False
            operands = operand_accesses(self.values, self.stored, u, at, domain)
            if operands is None or self._is_boundary(u):
                return False
            stack.extend((o, a) for o, a in operands if a is not None)
        return True

    def _inline_ancestors(self, v: int) -> int:
        """The steps that must run before a value can be computed again."""
        mask = 0
        stack, seen = [v], set()
        while stack:
            u = stack.pop()
            for o in self.values[u].operands:
                if o in seen:
                    continue
                seen.add(o)
                if self._is_boundary(o):
                    step = self.step_of.get(o)
                    if step is not None:
                        mask |= step.bit | step.ancestors
                else:
                    stack.append(o)
        return mask

    # --- placing values into steps --------------------------------------------------------------------

    def _place(self, v: int) -> None:
        value = self.values[v]
        if value.primitive is KERNEL_OUTPUT:
            step = self.step_of[v] = self.step_of[value.operands[0]]
            step.members[v] = True
            return
        backend = self._backend_of(value)
        if backend is None:
            step = self._begin(Domain.of(value.shape), self._why(value), None)
            step.members[v] = True
            self.step_of[v] = step
            for o in value.operands:
                operand = self.values[o]
                root = operand.operands[0] if operand.primitive is VIEW and o not in self.stored else o
                self._depend(step, self._ancestors_of(root))
            return
        shape = self._domain_shape(value)
        sources = self._sources(v)
        candidates = sorted(
            {self.step_of[u] for u, _ in sources if u in self.step_of}, key=lambda s: -s.number
        )
        reason = "first of its kind"
        home: Step | None = None
        tried = [s for s in candidates if not s.host]
        shared = [
            s
            for u, view in sources
            if u not in self.step_of or self.step_of[u].host or u in self.stored
            for s in self.readers.get(u, ())
            if s not in tried
        ]
        for step in [*tried, *dict.fromkeys(reversed(shared))]:
            refusal = self._join(step, v, shape, sources)
            if refusal is None:
                home = step
                break
            if step in candidates and reason == "first of its kind":
                reason = refusal
        if home is None:
            reduced = value.attrs[1] if value.primitive is REDUCE else ()
            if backend is not self.backend:
                reason = self._why(value)
            home = self._begin(Domain.of(shape, reduced), reason, backend)
            refusal = self._join(home, v, shape, sources)
            if refusal is not None:
                raise AssertionError(f"a value does not fit a kernel of its own: {refusal}")
        for step in tried:
            if step is not home and self.steps[step.number] is step:
                self._merge(home, step)

    def _domain_shape(self, value: Value) -> tuple[int, ...]:
        """The shape a value is computed over: for a reduction and an update that of their operand."""
        if value.primitive is REDUCE:
            return self.values[value.operands[0]].shape
        if value.primitive is UPDATE:
            return self.values[value.operands[1]].shape
        return value.shape

    def _sources(self, v: int) -> list[tuple[int, Value | None]]:
        return sources(self.values, self.stored, v)

    def _begin(self, domain: Domain, reason: str, backend: Backend | None) -> Step:
        step = Step(len(self.steps), domain, backend, reason)
        self.steps.append(step)
        return step

    def _ancestors_of(self, v: int) -> int:
        step = self.step_of.get(v)
        return 0 if step is None else step.bit | step.ancestors

    def _depend(self, step: Step, mask: int) -> None:
        """Make `step`, and all that follow it, run after the steps of `mask`."""
        mask &= ~step.bit
        if mask & ~step.ancestors == 0:
            return
        step.ancestors |= mask
        self.waited_for |= mask
        if not self.waited_for & step.bit:
            return
        for other in self.steps:
            if other is not None and other.ancestors & step.bit:
                other.ancestors |= mask

    def _join(
        self, step: Step, v: int, shape: tuple[int, ...], sources: list[tuple[int, Value | None]]
    ) -> str | None:
        """Put a value into a step; the reason where it cannot be."""
        value = self.values[v]
        size = 1
        for extent in shape:
            size *= extent
        members = step.members
        levels = []
        if size == step.domain.size:
            levels.append(True)
        if value.primitive is not REDUCE and step.domain.reduces and size == step.domain.outer_size:
            levels.append(False)
        if not levels:
            return "another iteration domain"
        backend = step.backend
        if backend is None and any(self.values[u].primitive is KERNEL for u in members):
            return "what it reads comes from a kernel written by hand"
        if backend is None or backend is not self._backend_of(value):
            return (
                "what it reads is computed on the host" if backend is not self.backend else "runs on the host"
            )
        weight = max(1.0, value.primitive.cost / 4)
        if members and step.instructions + weight > backend.max_instructions:
            return f"the kernel is full ({backend.max_instructions} instructions)"
        if members and len(step.buffers | {u for u, _ in sources}) + 1 > backend.max_operands:
            return f"the kernel is full ({backend.max_operands} operands)"
        refusal = "another iteration domain"
        for inner in levels:
            domain = step.domain.refine(shape, outer=not inner)
            if domain is not None and value.primitive is REDUCE:
                domain = domain.reducing(shape, value.attrs[1])
                if domain is None:
                    refusal = "reduces other axes"
                    continue
            if domain is None:
                continue
            outcome = self._check_reads(step, v, domain, inner, sources)
            if isinstance(outcome, str):
                refusal = outcome
                continue
            mask, stage, roots = outcome
            step.domain = domain
            members[v] = inner and value.primitive is not REDUCE
            self.step_of[v] = step
            step.stage[v] = stage + (value.primitive is REDUCE)
            step.instructions += weight
            self._depend(step, mask)
            step.buffers.update(roots)
            if v in self.stored:
                step.buffers.add(v)
            for root in roots:
                readers = self.readers.setdefault(root, [])
                if step not in readers:
                    readers.append(step)
            return None
        return refusal

    def _check_reads(
        self,
        step: Step,
        v: int,
        domain: Domain,
        inner: bool,
        sources: list[tuple[int, Value | None]],
    ) -> tuple[int, int, list[int]] | str:
        """Whether everything a value reads can be had in a step: what must run before, the stage, the
        buffers read."""
        value = self.values[v]
        at = domain.inner_access if inner else domain.outer_access
        mask = 0
        stage = 0
        roots: list[int] = []
        earlier: list[int] = []
        to_store: list[int] = []
        if value.primitive in (UPDATE, GATHER):
            mask |= self._ancestors_of(value.operands[0])
            if mask & step.bit:
                return "writes what the kernel has still to finish"
        for u, view in sources:
            access: Access | None = at
            if view is not None:
                access = through_view(at, domain.extents, view.shape, *view.attrs)
            home = self.step_of.get(u)
            if home is step:
                level = step.members[u]
                direct = domain.inner_access if level else domain.outer_access
                if self.values[u].primitive is UPDATE:
                    return "reads what the kernel writes in place"
                if access == direct and (inner or not level):
                    stage = max(stage, step.stage[u])
                    if level:
                        earlier.append(u)
                    continue
            if home is not None and (access is None or not self._is_direct(u, access, domain)):
                if access is not None and self._inlinable(u, access, domain, self._shift_budget(u), step):
                    mask |= self._inline_ancestors(u)
                    continue
                if home is step:
                    return f"reads {self.values[u].primitive.name} at another index, in memory"
                to_store.append(u)
            if home is not None:
                mask |= home.bit | home.ancestors
            roots.append(u)
        if mask & step.bit:
            return "would wait for itself"
        row = domain.size // max(domain.outer_size, 1) * value.dtype.itemsize
        if stage and row > ROW_BYTES:
            for u in earlier:
                if step.stage[u] < stage and self.cost[u] > RECOMPUTE_SHARED and u not in self.stored:
                    return "a second pass would compute too much again"
        self.stored.update(to_store)
        return mask, stage, roots

    def _takes(self, step: Step, value: Value) -> bool:
        """Whether a step can compute a value: its fallback takes all that the backend does."""
        return step.backend is not self.backend or self._backend_of(value) is self.backend

    def _is_direct(self, u: int, access: Access, domain: Domain) -> bool:
        """Whether an access meets each element of a value once, in order: nothing would be computed twice."""
        return access == domain.inner_access and self.values[u].size == domain.size

    def _shift_budget(self, u: int) -> float:
        return RECOMPUTE_SHIFTED / self.shifted_uses.get(u, 1.0)

    def _merge(self, home: Step, other: Step) -> None:
        """Take another step's values into `home` where nothing stands between the two."""
        backend = home.backend
        if backend is None or other.backend is not backend or other.ancestors & home.bit:
            return
        if home.instructions + other.instructions > backend.max_instructions:
            return
        if len(home.buffers | other.buffers) > backend.max_operands:
            return
        merged = home.domain.merge(other.domain)
        if merged is None:
            return
        domain, other_inner = merged
        if home.ancestors & other.bit:
            if not self._reads_directly(home, other, domain, other_inner):
                return
            if any(s is not None and s.ancestors & other.bit and home.ancestors & s.bit for s in self.steps):
                return
        for u, inner in other.members.items():
            self.step_of[u] = home
            home.members[u] = inner and other_inner
        home.domain = domain
        home.instructions += other.instructions
        home.buffers |= other.buffers
        self._restage(home)
        self.steps[other.number] = None
        # Whoever waited for the other now waits for the home, whose ancestors grow first.
        home.ancestors &= ~other.bit
        self._depend(home, other.ancestors)
        for s in self.steps:
            if s is not None and s.ancestors & other.bit:
                s.ancestors = s.ancestors & ~other.bit | home.bit | home.ancestors
        self.waited_for |= home.bit | home.ancestors
        for root in other.buffers:
            readers = self.readers.get(root, [])
            if other in readers:
                readers.remove(other)
                if home not in readers:
                    readers.append(home)

    def _reads_directly(self, home: Step, other: Step, domain: Domain, other_inner: bool) -> bool:
        """Whether all that `home` reads of `other` is read at the index it is computed at."""
        for v, inner in home.members.items():
            value = self.values[v]
            if value.primitive in (UPDATE, GATHER) and value.operands[0] in other.members:
                return False
            at = domain.inner_access if inner or value.primitive is REDUCE else domain.outer_access
            for u, view in self._sources(v):
                access: Access | None = at
                if view is not None:
                    access = through_view(at, domain.extents, view.shape, *view.attrs)
                if u not in other.members:
                    # Computed again in `home`, it must not need what `other` has still to finish.
                    if u in self.step_of and self._inline_ancestors(u) & other.bit:
                        direct = domain.inner_access if home.members.get(u, True) else domain.outer_access
                        if u not in home.members or access != direct:
                            return False
                    continue
                if self.values[u].primitive is UPDATE:
                    return False
                level = other.members[u] and other_inner
                if access != (domain.inner_access if level else domain.outer_access):
                    return False
        return True

    def _restage(self, step: Step) -> None:
        """The stage of a value is the number of reductions that must have finished before it."""
        for v in sorted(step.members):
            before = max((step.stage[u] for u, _ in self._sources(v) if u in step.members), default=0)
            step.stage[v] = before + (self.values[v].primitive is REDUCE)

    # --- what crosses kernels ------------------------------------------------------------------------

    def _choose_stored(self) -> None:
        """Decide for each value that another step reads whether it is stored or computed there again.

        Producers are decided in order, so that the cost of one knows what before it is stored.
        """
        uses: dict[int, list[tuple[Access | None, Step]]] = {}
        for v, home in self.step_of.items():
            if home.host:
                continue
            inner = home.members[v] or self.values[v].primitive is REDUCE
            at = home.domain.inner_access if inner else home.domain.outer_access
            for u, view in self._sources(v):
                if u in self.step_of:
                    access: Access | None = at
                    if view is not None:
                        access = through_view(at, home.domain.extents, view.shape, *view.attrs)
                    uses.setdefault(u, []).append((access, home))
        self.cost.clear()
        self.depth.clear()
        for u in range(len(self.values)):
            self._measure(u)
            for access, home in uses.get(u, ()):
                self._provide(u, access, home)

    def _provide(self, u: int, access: Access | None, home: Step) -> None:
        source = self.step_of[u]
        if source is home:
            # Read where it is computed, or found cheap enough to compute again when it was placed.
            direct = home.domain.inner_access if home.members[u] else home.domain.outer_access
            if access != direct:
                self._store_boundaries(u, home)
            return
        if u in self.stored:
            return
        budget = RECOMPUTE_SHARED
        if access is not None and not self._is_direct(u, access, home.domain):
            budget = self._shift_budget(u)
        if access is not None and self._inlinable(u, access, home.domain, budget, home):
            self._store_boundaries(u, home)
        else:
            self.stored.add(u)

    def _store_boundaries(self, u: int, home: Step) -> None:
        """Store what computing `u` again in `home` reads."""
        stack, seen = [u], {u}
        while stack:
            for o in self.values[stack.pop()].operands:
                if o in seen:
                    continue
                seen.add(o)
                if self._is_boundary(o) and self.step_of.get(o) is not home:
                    self._store(o)
                else:
                    stack.append(o)

    def _ordered(self) -> tuple[Step, ...]:
        """The steps that store something, each after its ancestors, otherwise as recorded."""
        alive = [s for s in self.steps if s is not None and any(v in self.stored for v in s.members)]
        done = 0
        dead = 0
        for number, s in enumerate(self.steps):
            if s is None or s not in alive:
                dead |= 1 << number
        ordered: list[Step] = []
        waiting = sorted(
            alive, key=lambda s: min(self.values[v].position for v in s.members if v in self.stored)
        )
        while waiting:
            for n, step in enumerate(waiting):
                if step.ancestors & ~(done | dead) == 0:
                    ordered.append(step)
                    done |= step.bit
                    del waiting[n]
                    break
            else:
                raise AssertionError("kernels wait for each other")
        return tuple(ordered)


def schedule(graph: Graph, backend: Backend) -> Schedule:
    """Cut a graph into steps for a backend."""
    return Scheduler(graph, backend).run()
