"""A generated kernel with its sizes as a launch on a device: where in its block of arguments what goes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..ascend.arguments import block
from ..ascend.generated import Bound, Generated
from ..base import DeviceLaunch

if TYPE_CHECKING:
    from .._runtime import DeviceCode

ADDRESS = 8  # bytes


def device_launch(
    code: DeviceCode, generated: Generated, bound: Bound, offsets: Sequence[int] = ()
) -> DeviceLaunch:
    """The launch of a kernel on a device.

    The block has the addresses in the order of the kernel's parameters, then the struct.

    Parameters
    ----------
    code : DeviceCode
    generated : Generated
    bound : Bound
        Its sizes.
    offsets : sequence of int
        For each operand the elements of its buffer that come before it; omitted, none.
    """
    pointers: list[tuple[int, int, int]] = []
    workspace, status = None, -1
    for number, parameter in enumerate(generated.parameters):
        place = ADDRESS * number
        if parameter.kind == "workspace":
            workspace = (place, bound.scratch)
        elif parameter.kind == "status":
            status = place
        else:
            before = 0
            if offsets and offsets[parameter.operand]:
                assert parameter.dtype is not None
                before = offsets[parameter.operand] * parameter.dtype.itemsize
            pointers.append((place, parameter.operand, before))
    start = ADDRESS * len(generated.parameters)
    return DeviceLaunch(
        code,
        bound.blocks,
        block(len(generated.parameters), bound.template),
        tuple(pointers),
        tuple(p._replace(offset=start + p.offset) for p in bound.patches),
        tuple(p.operand for p in generated.parameters if p.kind == "output"),
        workspace,
        status,
    )
