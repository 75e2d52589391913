"""Ascend C that a user wrote for a kernel, run on a chip in place of what is generated."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base import LaunchError, Part
from ..structured import StructuredBinding, StructuredKernel
from .arguments import laid_out, passed
from .generated import Bound, Cores, Field, Generated, Parameter

if TYPE_CHECKING:
    from .backend import Ascend

Shapes = tuple[tuple[int, ...], ...]
# What a field of the struct that is passed by value may be.
FIELD_TYPES = {
    "int32_t": np.int32,
    "uint32_t": np.uint32,
    "int64_t": np.int64,
    "uint64_t": np.uint64,
    "float": np.float32,
}
MAX_BLOCKS = 65535
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_FUNCTION = re.compile(r"__global__[\w\s(),]*?\bvoid\s+(\w+)\s*\(([^)]*)\)")
_FIELD = re.compile(r"(\w+)\s+([\w\s,]+);")


class SourceError(Exception):
    """A source that is not what it should be; the text is the end of a message that says what is expected."""


@dataclass(frozen=True, slots=True)
class Signature:
    """The kernel's function in a source.

    Attributes
    ----------
    name : str
    pointers : int
        How many addresses in GM it takes first.
    fields : tuple of (str, str)
        Names and C types of the struct that it takes by value last; () without.
    """

    name: str
    pointers: int
    fields: tuple[tuple[str, str], ...] = ()


def signature(source: str, name: str = "") -> Signature:
    """The kernel's function in a source: the one of a name, or the only one.

    Raises
    ------
    SourceError
    """
    text = _COMMENT.sub(" ", source)
    found = {match[1]: match[2] for match in _FUNCTION.finditer(text)}
    if name not in found:
        if name or len(found) != 1:
            wanted = f"a function {name} " if name else "one function "
            raise SourceError(f"{wanted}with __global__, given {', '.join(found) or 'none'}")
        (name,) = found
    parameters = [p.strip() for p in found[name].split(",") if p.strip()]
    pointers = sum("GM_ADDR" in p or "*" in p for p in parameters)
    if (
        any("GM_ADDR" not in p and "*" not in p for p in parameters[:pointers])
        or len(parameters) > pointers + 1
    ):
        raise SourceError(
            f"addresses and then at most one struct as parameters of {name}, given {found[name]}"
        )
    if len(parameters) == pointers:
        return Signature(name, pointers)
    kind = parameters[-1].split()[-2] if len(parameters[-1].split()) > 1 else parameters[-1]
    body = re.search(rf"\bstruct\s+{re.escape(kind)}\s*\{{([^}}]*)\}}", text)
    if body is None:
        raise SourceError(f"addresses and then a struct that the source defines, given {kind}")
    fields = [(n.strip(), ctype) for ctype, names in _FIELD.findall(body[1]) for n in names.split(",")]
    unknown = [ctype for _, ctype in fields if ctype not in FIELD_TYPES]
    if unknown or not fields:
        given = ", ".join(unknown) or "none"
        raise SourceError(f"fields of {', '.join(FIELD_TYPES)} in {kind}, given {given}")
    return Signature(name, pointers, tuple(fields))


@dataclass(frozen=True, slots=True)
class OwnSource:
    """A user's source for a structured kernel.

    Attributes
    ----------
    source : str
    signature : Signature
    arrays : tuple of int
        The kernel's array for each pointer.
    scalars : tuple of (str, int)
        The fields that are scalar arguments of the kernel, by slot.
    sizes : callable or None
        ``sizes(*shapes)``, one for each pointer, gives the other fields by name.
    blocks : int or callable
        How many blocks run, or ``blocks(*shapes)``; 0: one for each core.
    cores : str
    """

    source: str
    signature: Signature
    arrays: tuple[int, ...]
    scalars: tuple[tuple[str, int], ...]
    sizes: Callable[..., dict[str, Any]] | None
    blocks: int | Callable[..., int]
    cores: Cores


def parts(kernel: StructuredKernel, binding: StructuredBinding, target: Ascend) -> tuple[Part, ...]:
    """What runs a kernel by its own source; () where an array does not lie in order, or has none.

    Raises
    ------
    LaunchError
        Where the fields or the blocks of a launch cannot be had.
    """
    own = kernel.own
    if own is None or not all(_in_order(binding, a) for a in own.arrays):
        return ()
    made = _generated(target, own, kernel, binding)
    offsets = tuple(binding.offsets[a] for a in own.arrays)
    return (
        Part(
            made,
            binding,
            own.arrays,
            tuple((False, n) for n in range(len(kernel.scalars))),
            target,
            "by the operator's own Ascend C",
            call=lambda: target.product_call(made, offsets),
        ),
    )


def _in_order(binding: StructuredBinding, array: int) -> bool:
    expected = 1
    for extent, stride in zip(reversed(binding.shapes[array]), reversed(binding.strides[array]), strict=True):
        if extent != 1 and stride != expected:
            return False
        expected *= extent
    return True


def _generated(
    target: Ascend, own: OwnSource, kernel: StructuredKernel, binding: StructuredBinding
) -> Generated:
    chip, name = target.chip, own.signature.name
    shapes = tuple(binding.shapes[a] for a in own.arrays)
    values = dict(own.sizes(*shapes)) if own.sizes is not None else {}
    slots = dict(own.scalars)
    missing = [field for field, _ in own.signature.fields if field not in slots and field not in values]
    if missing:
        raise LaunchError(f"expected sizes= to give the fields of {name}'s struct, given no {missing[0]}")
    cores = chip.vector_cores if own.cores == "vector" else chip.cube_cores
    blocks = int(own.blocks(*shapes)) if callable(own.blocks) else own.blocks or cores
    if not 0 < blocks <= MAX_BLOCKS:
        raise LaunchError(f"expected 1 to {MAX_BLOCKS} blocks for {name}, given {blocks}")
    template, patches = laid_out(
        passed(slots[field], kernel.scalars[slots[field]], ctype)
        if field in slots
        else np.array(values[field], FIELD_TYPES[ctype]).tobytes()
        for field, ctype in own.signature.fields
    )
    bound = Bound(blocks, template, patches)
    parameters = tuple(
        Parameter(
            kernel.arrays[a].name, "output" if kernel.arrays[a].writes else "input", k, kernel.arrays[a].dtype
        )
        for k, a in enumerate(own.arrays)
    )
    fields = tuple(Field(field, ctype, slots.get(field, -1)) for field, ctype in own.signature.fields)
    return Generated(
        name,
        own.source,
        own.cores,
        chip,
        parameters,
        fields,
        "as the operator's own source has it",
        lambda _: bound,
    )
