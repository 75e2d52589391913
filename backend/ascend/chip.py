"""What is known of each chip: capacities, rates, limits, and which dtypes an instruction takes.

The data is in ``chips/<name>.toml``. A fact that no public source gives is absent there, listed in
``unknown``, and None here.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ...ops.errors import ArgumentError

_DATA = Path(__file__).parent / "chips"


@dataclass(frozen=True, slots=True)
class Capacity:
    """Bytes of each memory: of one core, or of the chip (L2, HBM)."""

    ub: int
    l1: int
    l0a: int
    l0b: int
    l0c: int
    l2: int
    hbm: int
    ub_usable: int | None = None
    ub_usable_with_select: int | None = None
    bias_table: int | None = None
    fixpipe_buffer: int | None = None


@dataclass(frozen=True, slots=True)
class UnifiedBuffer:
    """How the unified buffer is built: bytes of a block and a repeat; groups of banks, banks, their bytes."""

    block: int
    repeat: int
    bank_groups: int | None = None
    banks: int | None = None
    bank_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """The largest values that a launch and an instruction take."""

    blocks: int
    repeats: int
    events: int
    mmad: int
    copy_pieces: int
    copy_piece_bytes: int
    gm_alignment: int


@dataclass(frozen=True, slots=True)
class Rates:
    """Bytes per cycle of one core on each path."""

    ddr_read: int
    l2_read: int
    ddr_write: int | None = None
    l2_write: int | None = None
    l1_to_l0a: int | None = None
    l1_to_l0b: int | None = None
    l1_to_ub: int | None = None
    l0c_to_ub: int | None = None
    ub_to_gm: int | None = None


@dataclass(frozen=True, slots=True)
class Chip:
    """A chip, as the generator and the cost model see it.

    Attributes
    ----------
    name, architecture : str
        ``"910B1"``, ``"dav-2201"``.
    cube_cores, vector_cores : int
    split : bool
        Whether cube and vector cores are separate and talk through global memory.
    clock_mhz : int
    capacity, buffer, rates
        Bytes of each memory, how the unified buffer is built, bytes per cycle of each path.
    limits : Limits or None
    cube : mapping from dtype to (m, n, k)
        What a cube core multiplies and adds in one cycle.
    instructions : mapping from instruction to frozenset of dtypes
        By the name of the Ascend C function.
    casts : mapping from dtype to mapping from dtype to str
        The conversions there are, with their rounding modes: R, F, C, A, T, O, or N for none.
    mmad : mapping from the dtype of the operands to those of the accumulators
    timing : mapping or None
        The parameters of the cost model (`pyasc.backend.sim.cost`).
    unknown : tuple of str
        Facts that no public source gives.
    """

    name: str
    architecture: str
    cube_cores: int
    vector_cores: int
    split: bool
    clock_mhz: int
    capacity: Capacity
    buffer: UnifiedBuffer
    rates: Rates
    limits: Limits | None
    cube: Mapping[str, tuple[int, int, int]]
    instructions: Mapping[str, frozenset[str]]
    casts: Mapping[str, Mapping[str, str]]
    mmad: Mapping[str, frozenset[str]]
    timing: Mapping[str, Any] | None
    unknown: tuple[str, ...]

    @property
    def clock(self) -> float:
        """Cycles per second."""
        return self.clock_mhz * 1e6

    def takes(self, instruction: str, dtype: str) -> bool:
        """Whether an instruction takes elements of a dtype, as far as is known."""
        return dtype in self.instructions.get(instruction, ())

    def converts(self, source: str, target: str) -> str | None:
        """The rounding modes of the conversion, or None where there is none in one instruction."""
        return self.casts.get(source, {}).get(target)


def available() -> tuple[str, ...]:
    """The names that `load` takes."""
    return tuple(sorted(path.stem for path in _DATA.glob("*.toml")))


@functools.cache
def load(name: str) -> Chip:
    """The chip of that name.

    Raises
    ------
    ArgumentError
        If there is no data of such a chip.
    """
    if name not in available():
        raise ArgumentError(f"[chip] expected one of {', '.join(available())}, given {name!r}")
    data = _read(name)
    return Chip(
        name=data["name"],
        architecture=data["architecture"],
        cube_cores=data["cube_cores"],
        vector_cores=data["vector_cores"],
        split=data["split"],
        clock_mhz=data["clock_mhz"],
        capacity=Capacity(**data["capacity"]),
        buffer=UnifiedBuffer(**data["buffer"]),
        rates=Rates(**data["rates"]),
        limits=Limits(**data["limits"]) if "limits" in data else None,
        cube=MappingProxyType({dtype: _triple(step) for dtype, step in data["cube"].items()}),
        instructions=_sets(data.get("instructions", {})),
        casts=MappingProxyType(
            {source: MappingProxyType(targets) for source, targets in data.get("casts", {}).items()}
        ),
        mmad=_sets(data.get("mmad", {})),
        timing=MappingProxyType(data["timing"]) if "timing" in data else None,
        unknown=tuple(data["unknown"]),
    )


def _read(name: str) -> dict[str, Any]:
    """The file's data, laid over that of the chip that it is `like`; what it says is unknown is taken out."""
    text = (_DATA / f"{name}.toml").read_text(encoding="utf-8")
    data = tomllib.loads(text)
    if "like" in data:
        data = _laid_over(_read(data.pop("like")), data)
    for fact in data["unknown"]:
        section, _, key = fact.partition(".")
        if not key:
            data.pop(section, None)
        elif section in data:
            data[section].pop(key, None)
    return data


def _laid_over(base: dict[str, Any], data: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in data.items():
        both = isinstance(value, dict) and isinstance(base.get(key), dict)
        merged[key] = _laid_over(base[key], value) if both else value
    return merged


def _triple(step: list[int]) -> tuple[int, int, int]:
    m, n, k = step
    return m, n, k


def _sets(data: dict[str, list[str]]) -> Mapping[str, frozenset[str]]:
    return MappingProxyType({name: frozenset(dtypes) for name, dtypes in data.items()})
