"""Where the contents of a plan's slots are while it runs: in the host's memory, in a device's, or in both.

A launch on a device finds what it reads there; a step on the host waits for what it reads. Copies to the
device begin before the step on the host that comes first, copies to the host behind the kernel that computed
the value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ..backend._runtime import Program
from ..backend.base import HOST, Backend, DeviceLaunch, Matrices
from ..ops.primitives import MATMUL, VIEW
from ..ops.storage import contiguous_strides
from .lower import LoweredKernel
from .pipeline import Lowered
from .schedule import Schedule, Step
from .simplify import Value


class Residence:
    """Adds to a program the steps that allocate, and that move contents to a device and back.

    Parameters
    ----------
    program : Program
    device : int
        Of the plan's backend; `HOST` for none.
    cores : int
        Of the device. Two kernels of which neither needs more than half of them may run side by side.
    """

    def __init__(self, program: Program, device: int, cores: int) -> None:
        self.program = program
        self.device = device
        self._cores = cores
        self._there: set[int] = set()  # slots whose contents the device has
        self._lane_of: dict[int, int] = {}  # of the kernel that wrote a slot
        self._last = 1  # the lane of the last kernel

    def allocate(self, slot: int, nbytes: int, device: int) -> None:
        """A new buffer, which a kernel of a device or the host writes first."""
        if device == HOST:
            self.program.allocate(slot, nbytes)
        else:
            self.program.device_allocate(slot, nbytes, device)
            self._there.add(slot)

    def alias(self, slot: int, source: int, device: int) -> None:
        """The same buffer under another number, for a kernel of a device or the host to write over."""
        if device != HOST:
            self.upload([source])
        self.program.alias(slot, source)
        if source in self._there:
            self._there.add(slot)
        if source in self._lane_of:
            self._lane_of[slot] = self._lane_of[source]

    def has(self, slot: int) -> bool:
        """Whether the device has a slot's contents."""
        return slot in self._there

    def upload(self, slots: Iterable[int]) -> None:
        """Have slots on the device."""
        for slot in slots:
            if slot not in self._there:
                self.program.upload(slot, self.device)
                self._there.add(slot)

    def wrote(self, slots: Iterable[int], device: int) -> None:
        """The step just added wrote into buffers that were there before."""
        for slot in slots:
            self.program.written(slot, device)
            if device == HOST:
                self._there.discard(slot)
            else:
                self._there.add(slot)

    def download(self, slots: Iterable[int]) -> None:
        """Begin to copy slots to the host, for a step to come."""
        for slot in slots:
            self.program.download(slot)

    def launch(self, launch: DeviceLaunch, slots: Sequence[int], scalars: Sequence[int], label: int) -> None:
        """Add a launch whose operands are in these slots, and its scalars at these places of the run's."""
        self.upload(slots)
        lane = self._last = self._lane(launch, slots)
        for operand in launch.outputs:
            self._lane_of[slots[operand]] = lane
        self.program.device_launch(
            launch.code,
            self.device,
            lane,
            launch.blocks,
            launch.arguments,
            [(at, slots[operand], offset) for at, operand, offset in launch.pointers],
            [(p.offset, p.size, scalars[p.scalar], p.form) for p in launch.patches],
            [slots[operand] for operand in launch.outputs],
            launch.workspace,
            launch.status,
            label,
        )

    def _lane(self, launch: DeviceLaunch, slots: Sequence[int]) -> int:
        """The lane of what a kernel depends on; a small one that depends on nothing goes beside the one
        before."""
        if 2 * launch.blocks > self._cores:
            return 0
        lanes = {self._lane_of[slot] for slot in slots if slot in self._lane_of}
        if lanes:
            return lanes.pop() if len(lanes) == 1 else 0
        return 1 - self._last


def device_product(cut: Schedule, step: Step, backend: Backend) -> Callable[[], DeviceLaunch] | None:
    """What compiles a product of matrices for a device; None where the host does the step."""
    (v,) = step.members
    value = cut.graph.values[v]
    if value.primitive is not MATMUL:
        return None
    dtype = cut.graph.values[value.operands[0]].dtype
    return backend.device_product(matrices(cut, value), value.shape, dtype, value.dtype)


def matrices(cut: Schedule, product: Value) -> Matrices:
    """The operands of a product as they lie in memory."""
    found = []
    for o in product.operands:
        operand = cut.graph.values[o]
        if operand.primitive is VIEW and o not in cut.stored:
            strides, offset = operand.attrs
        else:
            strides, offset = contiguous_strides(operand.shape), 0
        found.append((operand.shape, tuple(strides), offset))
    return tuple(found)


def runs_on_host(made: Lowered) -> bool:
    """Whether a step that is no product of matrices on a device, or some part of it, runs on the host."""
    if isinstance(made, LoweredKernel):
        return made.backend.device == HOST
    return made is None or any(part.backend.device == HOST for part in made.parts)
