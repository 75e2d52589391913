"""Kernels on arrays that PyTorch has on an NPU: put into its stream when they are called, in their memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..interop import npu, on_npu
from ..lazy import evaluate
from ..ops.errors import ReadOnlyError
from .arguments import captured_tensor, is_host_array, shared
from .launch import Geometry, prepare
from .maps import run_map

if TYPE_CHECKING:
    from .kernel import Kernel


def run_on_npu(kernel: Kernel, where: Geometry | None, values: tuple[Any, ...]) -> Any:
    """Run a kernel of whose arguments some are on an NPU; arrays of the host are copied there.

    Raises
    ------
    ReadOnlyError
        For an array of the host that the kernel writes, or two that it writes and that overlap.
    """
    there = {n: v for n, v in enumerate(values) if is_host_array(v) and on_npu(v)}
    held = {n: shared(v, kernel.name, kernel.parameters[n]) for n, v in there.items()}
    tensors = [
        held[n] if n in held else captured_tensor(v, kernel.name, kernel.parameters[n])
        for n, v in enumerate(values)
    ]
    if kernel.is_map:
        result = run_map(kernel, where, tuple(tensors))
        evaluate.evaluate([evaluate.owner(result).node])
        return result
    launcher = prepare(kernel, where, tuple(tensors))
    arrays = zip(launcher.lowered.arrays, launcher.lowered.kernel.arrays, strict=True)
    written = {path[0] for path, array in arrays if array.writes}
    targets = [n for n, name in enumerate(kernel.parameters) if name in written]
    for t in targets:
        if t not in there and is_host_array(values[t]):
            raise ReadOnlyError(
                f"[{kernel.name}] expected an array on the NPU for {kernel.parameters[t]}, which the kernel "
                "writes beside others there, given one of the host"
            )
        for n in there:
            if n == t or t not in there or not npu.overlap(there[n], there[t]):
                continue
            if n in targets:
                raise ReadOnlyError(
                    f"[{kernel.name}] expected arrays that do not overlap for {kernel.parameters[t]} and "
                    f"{kernel.parameters[n]}, which it writes, given two on the NPU that share memory"
                )
            tensors[n] = npu.copied(there[n], kernel.name)
    owners, nodes = launcher.record(tuple(tensors))
    before = {n: evaluate.owner(held[n]).node.buffer for n in targets if n in held}
    own = {id(evaluate.owner(held[n])) for n in before}
    if nodes and all(id(owner) in own for owner in owners) and not launcher.copied:
        evaluate.run_in_place(nodes[0])
    else:
        for owner, node in zip(owners, nodes, strict=True):
            owner.node = node
        evaluate.evaluate(nodes)
    for n, buffer in before.items():
        # What ran on the host instead, or elsewhere on the device, has its results there.
        now = evaluate.owner(held[n]).node.buffer
        if now is not buffer or now.device != there[n].device.index:
            npu.write(there[n], held[n])
    return None
