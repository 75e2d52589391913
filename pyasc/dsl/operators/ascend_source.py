"""Kernels that bring Ascend C of their own for chips."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from ...backend.ascend.own_source import OwnSource, Signature, SourceError, signature
from ...ops.errors import ArgumentError, DtypeError, ForeignError
from ..kernel import Kernel
from ..launch import Geometry
from ..signature import ArgumentType, LaunchValues, Lowered
from ..signature import Path as ValuePath


@dataclass(frozen=True)
class AscendC:
    """Ascend C of an operator's own, in place of what is generated from its kernel.

    It runs on ``sim`` and on chips; elsewhere the kernel does, and there too for arrays that do not lie in
    C order. The function takes a ``GM_ADDR`` for each array among the kernel's parameters, in their order,
    and after them, where it needs numbers, one struct by value that the source defines. Its fields
    (``int32_t``, ``uint32_t``, ``int64_t``, ``uint64_t``, ``float``) are found by name: numbers among the
    kernel's parameters, and what `sizes` gives.

    Attributes
    ----------
    source : str or path
        The text, or the file that it is in; it begins with ``#include "kernel_operator.h"``.
    function : str
        The name of the kernel's function, where the text has several.
    sizes : callable, optional
        ``sizes(*shapes)``, with the shape of each of these arrays, gives a dict of the other fields.
    blocks : int or callable
        How many blocks run, or ``blocks(*shapes)``; 0: one for each core.
    cores : str
        ``"vector"``, ``"cube"`` or ``"mixed"``.

    Raises
    ------
    ArgumentError
        For a source without such a function.
    """

    source: str | Path
    function: str = ""
    sizes: Callable[..., dict[str, Any]] | None = None
    blocks: int | Callable[..., int] = 0
    cores: Literal["vector", "cube", "mixed"] = "vector"

    def __post_init__(self) -> None:
        if self.cores not in ("vector", "cube", "mixed"):
            raise ArgumentError(f"[AscendC] expected cores 'vector', 'cube' or 'mixed', given {self.cores!r}")
        self.read()

    def read(self) -> tuple[str, Signature]:
        """The text, and the kernel's function in it."""
        text = self.source
        if isinstance(text, Path):
            try:
                text = text.read_text(encoding="utf-8")
            except OSError as error:
                raise ForeignError(
                    f"[AscendC] expected a file that can be read, given {self.source}: {error.strerror}"
                ) from None
        if not isinstance(text, str):
            raise DtypeError(f"[AscendC] expected a text or a path, given {type(text).__name__}")
        try:
            return text, signature(text, self.function)
        except SourceError as error:
            raise ArgumentError(f"[AscendC] expected {error}") from None


class SourcedKernel(Kernel):
    """A kernel with Ascend C of its own."""

    def __init__(self, kernel: Kernel, own: AscendC) -> None:
        super().__init__(kernel.function, kernel.options)
        self._text, self._signature = own.read()
        self._own = own
        self._sourced: dict[int, tuple[Lowered, Lowered]] = {}

    def lower(
        self, values: tuple[Any, ...], where: Geometry | None
    ) -> tuple[Lowered, dict[ValuePath, ArgumentType], LaunchValues]:
        """The kernel for arguments like these, with its source."""
        made, captured, launch = super().lower(values, where)
        found = self._sourced.get(id(made))
        if found is None:
            found = self._sourced[id(made)] = (made, self._with_source(made))
        return found[1], captured, launch

    def _with_source(self, made: Lowered) -> Lowered:
        numbers = {path[0]: n for n, path in enumerate(made.arrays) if len(path) == 1}
        arrays = tuple(numbers[p] for p in self.parameters if p in numbers)
        if len(arrays) != self._signature.pointers or len(arrays) != len(made.arrays):
            names = ", ".join(made.kernel.arrays[a].name for a in arrays)
            raise ArgumentError(
                f"[{self.name}] expected Ascend C with {len(arrays)} addresses, for {names}, "
                f"given {self._signature.name} with {self._signature.pointers}"
            )
        slots = {path[0]: n for n, path in enumerate(made.scalars) if len(path) == 1}
        scalars = tuple((str(f), slots[f]) for f, _ in self._signature.fields if f in slots)
        own = OwnSource(
            self._text, self._signature, arrays, scalars, self._own.sizes, self._own.blocks, self._own.cores
        )
        return replace(made, kernel=replace(made.kernel, own=own))
