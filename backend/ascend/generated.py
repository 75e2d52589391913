"""What every Ascend C kernel is once it is generated, whatever wrote it: source, parameters, launch.

The vector kernels' spine, the cube kernels, the simulator, `explain` and `export` meet here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from ..base import Patch
from ..ir import Binding
from .arguments import patched
from .chip import Chip

Cores = Literal["vector", "cube", "mixed"]
STATUS_BYTES = 64  # of each block, where a parameter "status" points to; see `base.DeviceLaunch`


@dataclass(frozen=True, slots=True)
class Parameter:
    """A pointer among the parameters of the kernel's function, in their order.

    Attributes
    ----------
    name : str
    kind : str
        ``"input"`` or ``"output"``: the whole buffer of an operand; ``"workspace"``: scratch in GM;
        ``"status"``: eight int64 for each block, 0 at the start; a fault is reported in the first two: its
        code, not 0, and a value.
    operand : int
        The number of the operand; -1 for workspace and status.
    dtype : dtype or None
    """

    name: str
    kind: Literal["input", "output", "workspace", "status"]
    operand: int = -1
    dtype: np.dtype[Any] | None = None


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the struct ``Tiling`` that is passed by value after the pointers.

    Attributes
    ----------
    name : str
    ctype : str
        ``int32_t``, ``int64_t``, ``uint32_t``, ``float``, ``half`` or ``bfloat16_t``: its type in the struct.
    scalar : int
        The number of the scalar argument it holds; -1 for one that follows from the sizes.
    host : str
        For one that follows from the sizes, the C++ expression of its value on the host, of ``n0``, ``n1``…
        (extents), ``s0_1`` (stride of access 0 along axis 1), ``o0`` (offset of access 0) and what is in
        `Generated.host`; with ``Min``, ``Max``, ``CeilDiv``, ``Div``, ``Up`` and ``Root`` as functions.
    """

    name: str
    ctype: str
    scalar: int = -1
    host: str = ""


@dataclass(frozen=True, slots=True)
class Bound:
    """A kernel with its sizes.

    Attributes
    ----------
    blocks : int
    template : bytes
        Of the struct, with zeros where scalar arguments go.
    patches : tuple of Patch
        Where they go.
    workspace : int
        Bytes of GM.
    partition : mapping of str to int
        How the points are handed out, by the names of `partition.partition`.
    scalars : tuple of int
        The bits of the scalar arguments, 0 where one is not known; () where none is.
    """

    blocks: int
    template: bytes
    patches: tuple[Patch, ...] = ()
    workspace: int = 0
    partition: Mapping[str, int] = field(default_factory=dict)
    scalars: tuple[int, ...] = ()

    def tiling(self, scalars: Sequence[int]) -> bytes:
        """The bytes of the struct from the scalar arguments' bits.

        Raises
        ------
        LaunchError
            Where one does not fit.
        """
        return patched(self.template, self.patches, scalars)

    @property
    def scratch(self) -> int:
        """Bytes of what a parameter ``"workspace"`` points to: a block of memory at least."""
        return max(self.workspace, 32)


def _always(binding: Binding) -> bool:
    return True


@dataclass(frozen=True)
class Generated:
    """A kernel in Ascend C.

    Attributes
    ----------
    name : str
        Of the function.
    source : str
    cores : str
        ``"vector"``, ``"cube"`` or ``"mixed"``.
    chip : Chip
    parameters : tuple of Parameter
    fields : tuple of Field
        Of the struct ``Tiling``.
    host : tuple of (str, str)
        What is computed from the sizes before the fields, as for `Field.host`; ``blocks`` is among it.
    tiling : object
        How it is cut, for people: prints as text.
    bind : callable
        ``bind(binding)`` gives the launch for these sizes.
    fits : callable
        ``fits(binding)``: whether the code holds for these sizes and strides.
    product : Product or None
        The product of matrices that it is bound to (backend/ascend/product.py).
    """

    name: str
    source: str
    cores: Cores
    chip: Chip
    parameters: tuple[Parameter, ...]
    fields: tuple[Field, ...]
    tiling: Any
    bind: Callable[[Binding], Bound]
    fits: Callable[[Binding], bool] = _always
    host: tuple[tuple[str, str], ...] = ()
    product: Any = None


# Of C++, as far as Python takes them for names, and of Ascend C.
_KEYWORDS = frozenset({
    "alignas", "alignof", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "case", "catch", "char",
    "class", "compl", "const", "constexpr", "decltype", "default", "delete", "do", "double", "enum",
    "explicit", "export", "extern", "float", "friend", "goto", "half", "inline", "int", "long", "main",
    "mutable", "namespace", "new", "noexcept", "not_eq", "operator", "or_eq", "private", "protected",
    "public", "register", "short", "signed", "sizeof", "static", "struct", "switch", "template",
    "this", "throw", "typedef", "typeid", "typename", "union", "unsigned", "using", "virtual", "void",
    "volatile", "xor", "xor_eq",
})  # fmt: skip


def free_names(names: Iterable[str], words: set[str]) -> tuple[str, ...]:
    """The names, changed where they are taken: by the words of a source, of C++ or by one another."""
    taken = words | _KEYWORDS
    found: list[str] = []
    for name in names:
        name = re.sub(r"\W+", "_", name)  # an attribute, as self.weight
        while name in taken or f"{name}_gm" in taken or f"{name}_ub" in taken:
            name += "_"
        taken.add(name)
        found.append(name)
    return tuple(found)


class Refused(Exception):
    """A kernel that cannot be written in Ascend C; the text says why, as the end of "runs on the host: "."""
