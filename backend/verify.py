"""The specification of KernelIR as checks. On in the tests and with ``PYASC_VERIFY=1``."""

from __future__ import annotations

from collections.abc import Sequence

from ..ops.primitives import PRIMITIVES, REDUCTIONS, Kind
from .ir import Binding, Kernel, Stride, format_kernel

_CLASS_OF = {0: Stride.ZERO, 1: Stride.UNIT, -1: Stride.NEGATIVE}
_OTHER_ARITY = {
    "load": 0,
    "store": 1,
    "scalar": 0,
    "const": 0,
    "index": 0,
    "gather": 1,
    "reduce": 1,
    "shift": 1,
}


class InvalidKernel(AssertionError):
    """A pass made a kernel that breaks the rules of KernelIR: a fault of the library, never of its user."""


def verify_kernel(kernel: Kernel) -> None:
    """Check the structure of a kernel.

    Raises
    ------
    InvalidKernel
        Naming the rule, with the kernel printed.
    """

    def require(condition: bool, rule: str) -> None:
        if not condition:
            raise InvalidKernel(f"{rule} in\n{format_kernel(kernel)}")

    for n, access in enumerate(kernel.accesses):
        require(0 <= access.operand < len(kernel.operands), f"access {n} names no operand")
        require(len(access.layout) == kernel.rank, f"access {n} has not one layout class for each axis")
        anchor = kernel.accesses[access.anchor]
        require(anchor.anchor == access.anchor, f"access {n} is anchored to one that is anchored itself")
        require(
            anchor.operand == access.operand and anchor.layout == access.layout,
            f"access {n} differs from its anchor by more than an offset",
        )
        require(access.anchor != n or access.delta == 0, f"access {n} is its own anchor at a distance")
    stored = set()
    shifted: set[int] = set()
    for n, instr in enumerate(kernel.body):
        where = f"instruction {n} ({instr.op})"
        require(all(0 <= a < n for a in instr.args), f"{where} uses a value before it is computed")
        require(all(kernel.body[a].op != "store" for a in instr.args), f"{where} uses a store as a value")
        primitive = PRIMITIVES.get(instr.op)
        if instr.op in _OTHER_ARITY:
            arity = _OTHER_ARITY[instr.op]
        else:
            require(
                primitive is not None and primitive.kind is Kind.ELEMENTWISE, f"{where} is no instruction"
            )
            arity = primitive.arity if primitive else 0
        require(len(instr.args) == arity, f"{where} takes {arity} values")
        if instr.op in ("load", "store", "gather"):
            operand = kernel.operands[kernel.accesses[instr.attrs[0]].operand]
            require(operand.dtype == instr.dtype, f"{where} is not of its operand's dtype")
            require(operand.output == (instr.op == "store"), f"{where} goes the wrong way")
        if instr.op == "shift" or shifted.intersection(instr.args):
            shifted.add(n)
        if instr.op == "store":
            stored.add(kernel.accesses[instr.attrs[0]].operand)
            require(kernel.body[instr.args[0]].dtype == instr.dtype, f"{where} stores another dtype")
            reduced = kernel.accesses[instr.attrs[0]].layout[kernel.parallel :]
            require(
                not kernel.inner[instr.args[0]] or Stride.ZERO not in reduced,
                f"{where} stores inner values over each other",
            )
        elif instr.op == "scalar":
            require(kernel.scalars[instr.attrs[0]] == instr.dtype, f"{where} is not of its slot's dtype")
        elif instr.op == "index":
            require(0 <= instr.attrs[0] < kernel.rank, f"{where} names no axis")
        elif instr.op == "shift":
            require(kernel.reduced == 0, f"{where} is in a kernel that reduces")
            require(
                len(instr.attrs) == kernel.rank and min(instr.attrs, default=0) >= 0,
                f"{where} does not say how far along each axis",
            )
            require(not shifted.intersection(instr.args), f"{where} shifts what depends on a shift")
        elif instr.op == "reduce":
            require(instr.attrs[0] in REDUCTIONS, f"{where} reduces in an unknown way")
            require(kernel.reduced > 0, f"{where} has nothing to reduce")
    outputs = {n for n, o in enumerate(kernel.operands) if o.output}
    require(stored == outputs, "outputs and stores are not the same")


def verify_binding(kernel: Kernel, binding: Binding, sizes: Sequence[int]) -> None:
    """Check the arguments of a launch against the kernel and the elements of each operand's buffer.

    Raises
    ------
    InvalidKernel
        Where a layout class is not true, or an access leaves its buffer.
    """

    def require(condition: bool, rule: str) -> None:
        if not condition:
            raise InvalidKernel(f"{rule} in\n{format_kernel(kernel, binding)}")

    require(len(binding.extents) == kernel.rank, "not one extent for each axis")
    require(all(e > 0 for e in binding.extents), "an axis without points")
    for n, access in enumerate(kernel.accesses):
        strides, offset = binding.strides[n], binding.offsets[n]
        classes = "".join(_CLASS_OF.get(s, Stride.ANY) for s in strides)
        require(classes == access.layout, f"access {n} has strides {strides}")
        require(
            offset == binding.offsets[access.anchor] + access.delta
            and strides == binding.strides[access.anchor],
            f"access {n} is not where its anchor says",
        )
        low = offset + sum(min(0, s * (e - 1)) for s, e in zip(strides, binding.extents, strict=True))
        high = offset + sum(max(0, s * (e - 1)) for s, e in zip(strides, binding.extents, strict=True))
        size = sizes[access.operand]
        require(low >= 0 and high < size, f"access {n} meets {low} to {high} of {size} elements")
