"""What a launch hands to a kernel, as far as its code depends on it, and what lowering hands back.

A kernel is lowered once for each signature: the types of its arguments. What else the code depends on (a
number from the enclosing function, the tile that `auto_tiling` chose) is a guard, checked at every launch.

A path says where a value comes from: ``("n",)`` is the parameter n, ``("new_shape", 0)`` an element of a
sequence, ``("self", "coefficient")`` an attribute, ``("", "name")`` a variable around the function.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..backend.structured import StructuredKernel

Dtype = np.dtype[Any]
Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class ArrayType:
    """A tensor, or anything that becomes one without a copy.

    Attributes
    ----------
    dtype : dtype
    layout : str
        One layout class for each axis (backend.structured.layout).
    sole : bool
        Whether it has no axes: it stands for its element.
    """

    dtype: Dtype
    layout: str
    sole: bool = False


@dataclass(frozen=True, slots=True)
class NumberType:
    """A Python number: ``bool``, ``int`` or ``float``; an argument of the compiled code."""

    kind: type


@dataclass(frozen=True, slots=True)
class SequenceType:
    """A tuple or list of numbers."""

    items: tuple[NumberType, ...]


@dataclass(frozen=True, slots=True)
class Constant:
    """Anything hashable that the code is made for: a dtype, a string, None, a function.

    ``classes`` tells tuples of equal numbers apart, as 1 is not 1.0.
    """

    value: Any
    classes: Any = None


@dataclass(frozen=True, slots=True)
class ObjectType:
    """An object whose attributes the kernel reads: the ``self`` of a method. Attributes are captured by
    path.
    """


ArgumentType = ArrayType | NumberType | SequenceType | Constant | ObjectType


@dataclass(frozen=True, slots=True)
class LaunchValues:
    """The values of one launch that guards and extents are computed from.

    Attributes
    ----------
    shapes : dict of Path to tuple of int
        Of the arrays.
    read : callable
        ``read(path)`` gives any other value.
    """

    shapes: dict[Path, tuple[int, ...]]
    read: Callable[[Path], Any]


@dataclass(frozen=True, slots=True)
class Guard:
    """Something besides the signature that the code was made for: ``compute(values) == expected``.

    ``label`` names it, as in "a variable around the kernel".
    """

    label: str
    compute: Callable[[LaunchValues], Any]
    expected: Any


Extent = Callable[[LaunchValues], int]


@dataclass(frozen=True)
class Lowered:
    """A kernel lowered for a signature.

    Attributes
    ----------
    kernel : StructuredKernel
    style : str
        ``"threads"``; ``"tiles"``, launched without a grid; ``"map"``, which returns a value: its kernel's
        first array is the result, one flat axis like all others, stored at ``global_id(0)``.
    arrays : tuple of Path
        Where each array of the kernel comes from; for a map the result comes from ``("return",)``.
    scalars : tuple of Path
        Where each scalar slot comes from; the number is cast to the slot's dtype.
    guards : tuple of Guard
    grid : tuple of Extent
        For tiles, the threads along each axis.
    flat : frozenset of int
        The arrays that are indexed by one index over all their elements: they are handed over as one
        contiguous axis.
    ids : int
        How many axes of thread ids the kernel asks for.
    reason : str
        For tiles: why the outer loop is not spread over threads; "" where it is.
    """

    kernel: StructuredKernel
    style: Literal["threads", "tiles", "map"]
    arrays: tuple[Path, ...]
    scalars: tuple[Path, ...]
    guards: tuple[Guard, ...] = ()
    grid: tuple[Extent, ...] = ()
    flat: frozenset[int] = frozenset()
    ids: int = 1
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Options:
    """What the decorator `pyasc.kernel` was given.

    Attributes
    ----------
    block_dim : tuple of int
        Threads of a block along each axis; () for a choice.
    register_limit : int
        0 for none.
    smem_size : int
        Bytes of shared memory that a block may use; 0 for what the target has.
    pipeline_depth : int
        Buffers of each copied tile; 0 for the target's choice.
    optimize, dynamic_shape, debug : bool
    """

    block_dim: tuple[int, ...] = ()
    register_limit: int = 0
    smem_size: int = 0
    pipeline_depth: int = 0
    optimize: bool = True
    dynamic_shape: bool = True
    debug: bool = False
