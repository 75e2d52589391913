"""A schedule as a program: buffers by lifetime, updates in place where nothing can tell, launches and host
calls."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..backend import _runtime
from ..backend.base import HOST, Backend, Call, DeviceLaunch, Executable, Launch, LaunchError
from ..backend.progress import waiting
from ..ops._graph import Tape
from ..ops.meaning import strided
from ..ops.primitives import EMPTY, FULL, HOST_CALL, LEAF, SCALAR, UPDATE, VIEW
from ..ops.storage import contiguous_strides
from . import hints, moving
from .cache import kernels as kernel_cache
from .domain import Access, decompose
from .events import Note, moved
from .handwritten import Handwritten
from .host_calls import host_call, kernel_call, look_at
from .lower import LoweredKernel
from .pipeline import LabelledError, Lowered, compile_tape
from .residence import Residence, device_product, runs_on_host
from .schedule import Schedule, Step
from .simplify import Value

Array = NDArray[Any]
INT64 = np.dtype(np.int64)


@dataclass(frozen=True)
class Plan:
    """A tape's schedule, ready to be replayed.

    Attributes
    ----------
    program : Program
        Takes the tape's leaves and scalars; gives the buffers of its outputs.
    constants : bytes
        The plan's own scalars, which follow the tape's.
    faults : dict
        By the label of a launch, for each instruction that may report a fault, the position in the tape of
        the operation that it belongs to.
    executables : tuple of Executable
        Keep the code of the kernels in memory.
    calls : tuple of int
        The labels of what is called from Python, whose errors name the operation.
    parts : tuple of (int, tuple of int)
        Of the launches of kernels written by hand, which are labelled -1, -2 …: the position in the tape of
        the call, and the site of each fault; () where fault 1 is site 0.
    notes : tuple of Note
        What each launch and call of the program is, in order.
    on_device : bool
        Whether anything of it runs on a device, and may still run when `Program.run` returns.
    """

    program: _runtime.Program
    constants: bytes
    faults: dict[int, tuple[int, ...]]
    executables: tuple[Executable, ...]
    calls: tuple[int, ...]
    parts: tuple[tuple[int, tuple[int, ...]], ...] = ()
    notes: tuple[Note, ...] = ()
    on_device: bool = False


class Planner:
    """Builds the program of one schedule.

    With `in_place`, a call of a kernel written by hand writes into its leaves whatever else refers to them.
    """

    def __init__(
        self,
        tape: Tape,
        cut: Schedule,
        lowered: list[Lowered],
        backend: Backend,
        donate: bool,
        in_place: bool = False,
    ) -> None:
        self.donate = donate
        self.in_place = in_place
        # Whether a leaf is written over, and whether something after that might still fail.
        self.donated = self.unsafe = False
        self.tape = tape
        self.values = cut.graph.values
        self.schedule = cut
        self.lowered = lowered
        self.backend = backend
        self.slot_of: dict[int, int] = {}
        self.constants: list[int] = []
        self.faults: dict[int, tuple[int, ...]] = {}
        self.scalar_index: dict[int, int] = {}
        self.last_use: dict[int, int] = {}
        self.reads: list[set[int]] = []
        self.executables: list[Executable] = []
        self.calls: list[int] = []
        self.parts: list[tuple[int, tuple[int, ...]]] = []
        self.notes: list[Note] = []
        self.products: dict[int, DeviceLaunch] = {}
        self.host_use: dict[int, int] = {}

    def run(self) -> Plan:
        leaves = {position: n for n, position in enumerate(self.tape.leaves)}
        scalars = 0
        for position, node in enumerate(self.tape.nodes):
            if node.primitive is SCALAR:
                self.scalar_index[position] = scalars
                scalars += 1
        self.scalar_count = scalars
        slots = len(self.tape.leaves)
        for v, value in enumerate(self.values):
            if value.primitive is LEAF:
                self.slot_of[v] = leaves[value.position]
            elif v in self.schedule.stored:
                self.slot_of[v] = slots
                slots += 1
        self._lifetimes()
        self.spare = slots
        # At most the result of a target that nobody asks for, and what it was before.
        slots += sum(
            2 * len(made.arguments.targets) for made in self.lowered if isinstance(made, Handwritten)
        )
        outputs = [self.slot_of[v] for v in self.schedule.graph.outputs]
        self.program = _runtime.Program(len(self.tape.leaves), slots, outputs)
        self.places = Residence(self.program, self.backend.device, self.backend.device_cores)
        self._prepare()
        self._on_host()
        for n, (step, kernel) in enumerate(zip(self.schedule.steps, self.lowered, strict=True)):
            if kernel is None:
                self._host(n, step)
            elif isinstance(kernel, Handwritten):
                self._handwritten(n, kernel)
            else:
                self._kernel(n, step, kernel)
            if self.backend.device != HOST:
                self.places.download(
                    self.slot_of[v]
                    for v in step.members
                    if self.host_use.get(v, -1) > n and self.places.has(self.slot_of[v])
                )
            for v in self.reads[n] | set(step.members):
                if self.last_use.get(v, n) == n and self._is_temporary(v) and v in self.slot_of:
                    self.program.free(self.slot_of[v])
        constants = struct.pack(f"<{len(self.constants)}q", *self.constants)
        return Plan(
            self.program,
            constants,
            self.faults,
            tuple(self.executables),
            tuple(self.calls),
            tuple(self.parts),
            tuple(self.notes),
            self.backend.device != HOST and self.program.device_steps,
        )

    # --- memory --------------------------------------------------------------------------------------

    def _lifetimes(self) -> None:
        """For each value in memory, the last step that reads it; outputs outlive every step."""
        for n, (step, kernel) in enumerate(zip(self.schedule.steps, self.lowered, strict=True)):
            read: set[int] = set()
            if isinstance(kernel, LoweredKernel):
                read.update(kernel.operands)
            for v in step.members:
                value = self.values[v]
                if step.host:
                    read.update(self._root(o) for o in value.operands)
                elif value.primitive is UPDATE:
                    read.add(value.operands[0])
            read = {v for v in read if v in self.slot_of} - set(step.members)
            self.reads.append(read)
            for v in read:
                self.last_use[v] = n
        for v in self.schedule.graph.outputs:
            self.last_use[v] = len(self.schedule.steps)

    def _prepare(self) -> None:
        """Compile what is missing, at once where the backend's compiler can be run several times."""
        wanted: list[tuple[Backend, Any, Any]] = []
        for made in self.lowered:
            if isinstance(made, LoweredKernel):
                wanted.append((made.backend, made.kernel, made.binding))
            elif made is not None:
                wanted += [(p.backend, p.kernel, p.binding) for p in made.parts if p.call is None]
        kernel_cache.prepare(wanted)

    def _on_host(self) -> None:
        """For a plan of a device: the products that it multiplies, and the last step on the host that reads
        each value."""
        if self.backend.device == HOST:
            return
        for n, (step, made) in enumerate(zip(self.schedule.steps, self.lowered, strict=True)):
            product = device_product(self.schedule, step, self.backend) if made is None else None
            if product is not None:
                try:
                    with waiting("compiling a product of matrices"):
                        self.products[n] = product()
                except LaunchError as error:
                    raise LabelledError(self.values[step.members[0]].position, error) from error
            elif runs_on_host(made):
                self.host_use.update(dict.fromkeys(self.reads[n], n))
                touched = [self.values[v] for v in {*self.reads[n], *step.members}]
                last = max(self.values[v].position for v in step.members)
                if last >= 0:
                    hints.float64_on_host(touched, self.backend.name, self.tape.nodes[last])

    def _root(self, o: int) -> int:
        value = self.values[o]
        return value.operands[0] if value.primitive is VIEW and o not in self.schedule.stored else o

    def _is_temporary(self, v: int) -> bool:
        return self.values[v].primitive is not LEAF

    def _may_overwrite(self, v: int, n: int) -> bool:
        """Whether step n is the last to need what is in a value's buffer."""
        if self.last_use.get(v) != n:
            return False
        value = self.values[v]
        return value.primitive is not LEAF or (self.donate and self.tape.donatable[self.slot_of[v]])

    def _may_fail(self) -> None:
        """Note a step that can fail: once a leaf is written over, what was recorded on it is lost with it."""
        self.unsafe = self.unsafe or self.donated

    def _bytes(self, v: int) -> int:
        return self.values[v].size * self.values[v].dtype.itemsize

    # --- kernels -------------------------------------------------------------------------------------

    def _kernel(self, n: int, step: Step, lowered: LoweredKernel) -> None:
        taken: set[int] = set()
        over: list[int] = []
        for operand, v in enumerate(lowered.operands):
            if not lowered.kernel.operands[operand].output:
                continue
            value = self.values[v]
            source = None
            if value.primitive is UPDATE:
                base = value.operands[0]
                free = base in self.slot_of and base not in taken and self._may_overwrite(base, n)
                if free and self._index_identical(lowered, operand, base):
                    source = base
            else:
                source = next(
                    (
                        u
                        for u in sorted(self.reads[n])
                        if u not in taken
                        and self._may_overwrite(u, n)
                        and self._bytes(u) == self._bytes(v)
                        and self.values[u].dtype.itemsize == value.dtype.itemsize
                        and u in lowered.operands
                        and self._index_identical(lowered, operand, u)
                    ),
                    None,
                )
            if source is not None:
                taken.add(source)
                over.append(self.slot_of[v])
                self.places.alias(self.slot_of[v], self.slot_of[source], lowered.backend.device)
                continue
            self._may_fail()
            self.places.allocate(self.slot_of[v], self._bytes(v), lowered.backend.device)
            if value.primitive is UPDATE:
                self._carry_over(v, lowered.backend)
        self.donated = self.donated or any(self.values[v].primitive is LEAF for v in taken)
        if any(i.op == "wrap_index" for i in lowered.kernel.body):
            self._may_fail()
        self._launch(lowered)
        self.places.wrote(over, lowered.backend.device)

    def _index_identical(self, lowered: LoweredKernel, output: int, source: int) -> bool:
        """Whether a kernel may write an output over the buffer of a value it reads.

        It may where each element it reads there is the one it then writes, and is read for no other point.
        """
        kernel, binding = lowered.kernel, lowered.binding
        if source not in lowered.operands:
            return True
        if kernel.reduced or any(i.op == "gather" for i in kernel.body):
            return False
        read = lowered.operands.index(source)
        walks = {
            (binding.offsets[a], binding.strides[a])
            for a, access in enumerate(kernel.accesses)
            if access.operand in (read, output)
        }
        return len(walks) == 1 and 0 not in next(iter(walks))[1]

    def _launch(self, lowered: LoweredKernel) -> None:
        if lowered.faults:
            self.faults[lowered.position] = lowered.faults
        launch = self._bound(lowered.backend, lowered.kernel, lowered.binding, lowered.position)
        scalars = [
            self._constant(source) if held else self.scalar_index[source] for held, source in lowered.scalars
        ]
        slots = [self.slot_of[v] for v in lowered.operands]
        if isinstance(launch, Call):
            self.calls.append(lowered.position)
        dtypes = [o.dtype for o in lowered.kernel.operands]
        nbytes = moved(lowered.kernel, lowered.binding, [self.values[v].size for v in lowered.operands])
        operands = [self.values[v] for v in lowered.operands]
        name = lowered.kernel.name
        self._note("kernel", name, lowered.backend.name, lowered.position, sum(nbytes), operands)
        self._run(launch, slots, dtypes, scalars, lowered.position)

    def _bound(self, backend: Backend, kernel: Any, binding: Any, label: int) -> Launch | Call | DeviceLaunch:
        """The launch of a kernel, compiled if need be."""
        try:
            executable = kernel_cache.executable(backend, kernel, binding)
        except LaunchError as error:
            raise LabelledError(label, error) from error
        self.executables.append(executable)
        return executable.bind(binding)

    def _run(
        self,
        launch: Launch | Call | DeviceLaunch,
        slots: list[int],
        dtypes: list[np.dtype[Any]],
        scalars: list[int],
        label: int,
    ) -> None:
        """Add a launch whose operands are in these slots."""
        if isinstance(launch, Call):
            self._may_fail()
            self.program.call(kernel_call(launch, dtypes, label), slots, scalars, label)
            return
        if isinstance(launch, DeviceLaunch):
            self.places.launch(launch, slots, scalars, label)
            return
        self.program.launch(
            [(p.function, p.units, p.grain) for p in launch.phases],
            [(slots[operand], offset) for operand, offset in launch.pointers],
            list(launch.integers),
            scalars,
            launch.scratch,
            launch.thread_scratch,
            label,
        )

    def _note(
        self, kind: str, name: str, backend: str, position: int, nbytes: int, operands: Sequence[Value] = ()
    ) -> None:
        """Say what the next launch or call is."""
        shown = (
            ", ".join(_described(v.dtype, v.shape) for v in operands) if self.places.device != HOST else ""
        )
        self.notes.append(Note(kind, name, backend, position, nbytes, position, shown))

    # --- kernels written by hand -----------------------------------------------------------------------

    def _handwritten(self, n: int, made: Handwritten) -> None:
        written: dict[int, int] = {}  # the slot of each target afterwards
        before: dict[int, int] = {}  # the slot of its version before, where that is read besides
        spare = self.spare
        device = made.parts[0].backend.device
        mixed = len({part.backend.device for part in made.parts}) > 1
        kept: set[int] = set()  # slots that are a buffer which was there before
        for t, v in zip(made.arguments.targets, made.results, strict=True):
            base = made.owners[t]
            slot = written[t] = self.slot_of[v] if v >= 0 else self._spare_slot()
            held = base in self.slot_of
            over = held and self.in_place and self.values[base].primitive is LEAF
            if t in made.rewritten and (over or not held):
                before[t] = self._spare_slot()
                self.places.allocate(before[t], self._bytes(base), device)
                self._begin_as(before[t], base, made.parts[0].backend)
            if over:
                self.places.alias(slot, self.slot_of[base], device)
                kept.add(slot)
            elif held and t not in made.rewritten and self._may_overwrite(base, n):
                self.places.alias(slot, self.slot_of[base], device)
                kept.add(slot)
                self.donated = self.donated or self.values[base].primitive is LEAF
            else:
                self._may_fail()
                self.places.allocate(slot, self._bytes(base), device)
                if t not in made.replaced:
                    self._begin_as(slot, base, made.parts[0].backend)
        read = {n: self.slot_of[o] for n, o in enumerate(made.owners) if o in self.slot_of} | before
        slots = [
            written[p.operand] if a.writes else read[p.operand]
            for a, p in zip(made.kernel.arrays, made.arguments.places, strict=True)
        ]
        if not made.proven:
            self._may_fail()
        for part in made.parts:
            self.parts.append((made.position, part.sites))
            label = -len(self.parts)
            if part.call is not None:
                launch: Launch | Call | DeviceLaunch = part.call()
            else:
                launch = self._bound(part.backend, part.kernel, part.binding, made.position)
            sizes = (
                prod(made.binding.shapes[a]) * made.kernel.arrays[a].dtype.itemsize for a in part.operands
            )
            shapes = zip(made.kernel.arrays, made.binding.shapes, strict=True)
            shown = ", ".join(_described(array.dtype, shape) for array, shape in shapes)
            kind, name = "kernel", made.kernel.name
            self.notes.append(Note(kind, name, part.backend.name, made.position, sum(sizes), label, shown))
            self._run(
                launch,
                [slots[a] for a in part.operands],
                [made.kernel.arrays[a].dtype for a in part.operands],
                [
                    self._constant(source) if held else self.scalar_index[made.scalars[source]]
                    for held, source in part.scalars
                ],
                label,
            )
            # Where parts of a device and the host take turns, each finds what the one before wrote.
            targets = {slots[a] for a in part.operands if made.kernel.arrays[a].writes}
            self.places.wrote(sorted(targets if mixed else targets & kept), part.backend.device)
        if self.in_place and self.backend.device != HOST:
            # The caller's own memory has it when the call returns.
            self.program.call(look_at, sorted(kept), [], made.position)
        for slot in range(spare, self.spare):
            self.program.free(slot)

    def _spare_slot(self) -> int:
        """A slot for what is needed during one step."""
        self.spare += 1
        return self.spare - 1

    def _begin_as(self, slot: int, v: int, backend: Backend) -> None:
        """Fill a new buffer with a value."""
        value = self.values[v]
        if v in self.slot_of:
            self._copy(slot, v, (value.size,), (0, (1,)), backend)
        elif value.primitive is FULL:
            self._fill(slot, value)

    def _constant(self, value: int) -> int:
        if value not in self.constants:
            self.constants.append(value)
        return self.scalar_count + self.constants.index(value)

    # --- updates -------------------------------------------------------------------------------------

    def _carry_over(self, v: int, backend: Backend) -> None:
        """Bring what an update does not replace into its new buffer, for a backend that does the rest."""
        value = self.values[v]
        base = value.operands[0]
        if base not in self.slot_of:
            if self.values[base].primitive is FULL:
                self._fill(self.slot_of[v], self.values[base])
            return
        strides = contiguous_strides(value.shape)
        for start, extents in self._outside(value):
            offset = sum(s * t for s, t in zip(strides, start, strict=True))
            self._copy(self.slot_of[v], base, extents, (offset, strides), backend)

    def _copy(self, slot: int, v: int, extents: tuple[int, ...], walk: moving.Walk, backend: Backend) -> None:
        """Copy elements of a value to the same places in a buffer of as many elements."""
        value = self.values[v]
        if backend.device != HOST:
            kernel, binding = moving.copy(value.dtype, extents, walk, walk, (value.size, value.size))
            dtypes = [o.dtype for o in kernel.operands]
            if backend.supports("view", dtypes[0]) and not backend.refusal(kernel, binding):
                launch = self._bound(backend, kernel, binding, value.position)
                nbytes = 2 * prod(extents) * value.dtype.itemsize
                self._note("kernel", "copy", backend.name, value.position, nbytes, [value])
                self._run(launch, [self.slot_of[v], slot], dtypes, [], value.position)
                return
        n = value.dtype.itemsize
        offset, strides = walk[0] * n, [s * n for s in walk[1]]
        self.program.copy(slot, offset, strides, self.slot_of[v], offset, strides, list(extents), n)
        if backend.device != HOST:
            self.places.wrote([slot], HOST)

    def _outside(self, value: Value) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        """Boxes that cover what lies outside the region of an update; the whole where the region is not a
        box."""
        whole = [((0,) * len(value.shape), value.shape)]
        region = self.values[value.operands[1]].shape
        strides, offset = value.attrs
        axes = [k for k, e in enumerate(region) if e > 1]
        extents = tuple(region[k] for k in axes)
        parts = decompose(Access(offset, tuple(strides[k] for k in axes)), extents, value.shape)
        if parts is None:
            return whole
        start, steps = parts
        stop = [s + 1 for s in start]
        for extent, step in zip(extents, steps, strict=True):
            moved = [k for k, s in enumerate(step) if s]
            if len(moved) != 1 or step[moved[0]] != 1 or stop[moved[0]] != start[moved[0]] + 1:
                return whole
            stop[moved[0]] = start[moved[0]] + extent
        boxes = []
        low = [0] * len(value.shape)
        high = list(value.shape)
        for k, extent in enumerate(value.shape):
            for first, last in ((0, start[k]), (stop[k], extent)):
                if first < last:
                    box = [(a, b) for a, b in zip(low, high, strict=True)]
                    box[k] = (first, last)
                    boxes.append((tuple(a for a, _ in box), tuple(b - a for a, b in box)))
            low[k], high[k] = start[k], stop[k]
        return boxes

    def _fill(self, slot: int, full: Value) -> None:
        """A kernel that writes one scalar everywhere."""
        scalar = self.values[full.operands[0]]
        kernel, binding = moving.fill(full.dtype, full.size)
        backend = self.backend
        if backend.fallback is not None and (
            not backend.supports("full", full.dtype) or backend.refusal(kernel, binding)
        ):
            backend = backend.fallback
        launch = self._bound(backend, kernel, binding, full.position)
        if isinstance(launch, Call):
            self.calls.append(full.position)
        self._note("kernel", "fill", backend.name, full.position, full.size * full.dtype.itemsize, [full])
        self._run(launch, [slot], [full.dtype], [self.scalar_index[scalar.position]], full.position)
        if self.places.has(slot) != (backend.device != HOST):
            self.places.wrote([slot], backend.device)

    # --- host calls ----------------------------------------------------------------------------------

    def _host(self, n: int, step: Step) -> None:
        (v,) = step.members
        value = self.values[v]
        self._may_fail()
        if n in self.products:
            self._product(value, v, self.products[n])
            return
        if self.backend.device != HOST:
            self._prefetch(n)
        self.places.allocate(self.slot_of[v], self._bytes(v), HOST)
        if value.primitive is EMPTY:
            return
        slots: list[int] = []
        scalars: list[int] = []
        readers: list[Callable[[list[Any], list[int]], Array]] = []
        for o in value.operands:
            readers.append(self._reader(o, slots, scalars))
        slots.append(self.slot_of[v])
        function = self.backend.host_kernel(value.primitive.name)
        self.calls.append(value.position)
        name = value.primitive.name if value.primitive is not HOST_CALL else str(value.attrs[0])
        nbytes = self._bytes(v) + sum(self._bytes(o) for o in value.operands)
        self._note("host", name, self.backend.name, value.position, nbytes)
        self.program.call(host_call(value, readers, function), slots, scalars, value.position)

    def _product(self, value: Value, v: int, launch: DeviceLaunch) -> None:
        """A product of matrices on the device."""
        self.places.allocate(self.slot_of[v], self._bytes(v), self.backend.device)
        roots = [self._root(o) for o in value.operands]
        nbytes = sum(self._bytes(u) for u in (*roots, v))
        operands = [self.values[o] for o in value.operands]
        name = value.primitive.name
        self._note("kernel", name, self.backend.name, value.position, nbytes, operands)
        self._run(launch, [self.slot_of[u] for u in (*roots, v)], [], [], value.position)

    def _prefetch(self, n: int) -> None:
        """Begin to bring to the device, while the host computes, the leaves that kernels after that read."""
        for later in range(n + 1, len(self.schedule.steps)):
            made = self.lowered[later]
            if made is None:
                return
            if isinstance(made, LoweredKernel) and made.backend.device != HOST:
                leaves = (v for v in self.reads[later] if self.values[v].primitive is LEAF)
                self.places.upload(self.slot_of[v] for v in sorted(leaves))

    def _reader(
        self, o: int, slots: list[int], scalars: list[int]
    ) -> Callable[[list[Any], list[int]], Array]:
        """How a host call gets one operand as an array; slots and scalars are extended by what that takes."""
        operand = self.values[o]
        if operand.primitive is SCALAR:
            n = len(scalars)
            scalars.append(self.scalar_index[operand.position])
            return lambda buffers, bits: np.frombuffer(struct.pack("<Q", bits[n]), operand.dtype, 1)[0]
        root = self._root(o)
        base = self.values[root]
        if self.slot_of[root] in slots:
            n = slots.index(self.slot_of[root])
        else:
            n = len(slots)
            slots.append(self.slot_of[root])

        def whole(buffers: list[Any], bits: list[int]) -> Array:
            return _runtime.array(buffers[n], base.shape, base.dtype, writable=True)

        if root == o:
            return whole
        strides, offset = operand.attrs
        return lambda buffers, bits: strided(whole(buffers, bits), operand.shape, strides, offset)


def _described(dtype: np.dtype[Any], shape: tuple[int, ...]) -> str:
    return f"{dtype.name}[{', '.join(map(str, shape))}]"


def plan(tape: Tape, backend: Backend, donate: bool = True, in_place: bool = False) -> Plan:
    """The program for a tape: compiles what it needs and lays out its memory.

    With `donate`, leaves that nothing else refers to may be written over; with `in_place` those that kernels
    written by hand write are, and nothing else.
    """
    cut, kernels = compile_tape(tape, backend)
    planner = Planner(tape, cut, kernels, backend, donate, in_place)
    made = planner.run()
    return Planner(tape, cut, kernels, backend, donate=False).run() if planner.unsafe else made
