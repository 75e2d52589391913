"""What was measured to be the fastest choice for a chip, a kernel and a bucket of sizes, as readable JSON.

A table is read once in a process, so that a kernel is tuned alike throughout. What is added is merged with
the file as it is by then, which is replaced as a whole. A table or an entry that does not check out is not
there.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import math
import os
import tempfile
import threading
from collections.abc import Hashable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..base import Store
from .tiling import BUCKET

FORMAT = "pyasc tuning 1"
# What measured, the better first.
MEASURES = ("device", "simulator")

Choice = dict[str, Any]


class Entry(NamedTuple):
    """A measured choice.

    Attributes
    ----------
    kernel : str
        What it is, for people.
    sizes : tuple of int
        That it was measured at.
    choice : dict
        What differs from the model's choice; empty where that is the fastest.
    time_us, model_us : float
        Of the choice and of the model's, as measured.
    by : str
        ``"device"`` or ``"simulator"``.
    """

    kernel: str
    sizes: tuple[int, ...]
    choice: Choice
    time_us: float
    model_us: float
    by: str


class TableError(Exception):
    """A file that is no table; the text says why, as the end of "expected …, given "."""


def key_of(*structure: Hashable) -> str:
    """The key of a kernel's structure, the same in every process."""
    return hashlib.sha256(repr(structure).encode()).hexdigest()[:24]


class Table:
    """The measured choices of a chip.

    Parameters
    ----------
    chip : str
    path : Path or None
        The file; None keeps the table in memory alone.
    """

    def __init__(self, chip: str, path: Path | None) -> None:
        self.chip = chip
        self.path = path
        self._lock = threading.Lock()
        self._entries: dict[str, dict[tuple[int, ...], Entry]] = {}
        if path is not None:
            with contextlib.suppress(OSError, TableError):
                self._entries = read(path, chip)[1]

    def __len__(self) -> int:
        return sum(map(len, self._entries.values()))

    def find(self, key: str, sizes: tuple[int, ...]) -> Entry | None:
        """The entry whose sizes are nearest, of those in whose bucket `sizes` are."""
        found = self._entries.get(key)
        if not found:
            return None
        away = {s: d for s in found if (d := _distance(sizes, s)) <= BUCKET}
        return found[min(away, key=lambda s: (away[s], s))] if away else None

    def measured(self, key: str, sizes: tuple[int, ...], by: str) -> Entry | None:
        """As `find`; None too where what it was measured by is worse than `by`."""
        found = self.find(key, sizes)
        return found if found is not None and MEASURES.index(found.by) <= MEASURES.index(by) else None

    def add(self, entries: Mapping[str, list[Entry]]) -> None:
        """Keep entries, in memory and in the file. Those of a device go before those of a simulator.

        Raises
        ------
        OSError
            Where the file cannot be written. They are in memory then.
        """
        with self._lock:
            self._merge(entries)
            if self.path is None:
                return
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with _alone(self.path):
                with contextlib.suppress(OSError, TableError):
                    others = read(self.path, self.chip)[1]
                    mine, self._entries = self._entries, others
                    self._merge({key: list(known.values()) for key, known in mine.items()})
                self._write(self.path)

    def export(self, path: Path) -> None:
        """Write the table to another file.

        Raises
        ------
        OSError
        """
        self._write(path)

    def _merge(self, entries: Mapping[str, list[Entry]]) -> None:
        for key, added in entries.items():
            known = self._entries.setdefault(key, {})
            for entry in added:
                before = known.get(entry.sizes)
                if before is None or MEASURES.index(entry.by) <= MEASURES.index(before.by):
                    known[entry.sizes] = entry

    def _write(self, path: Path) -> None:
        kernels = {
            key: [_plain(known[sizes]) for sizes in sorted(known)]
            for key, known in sorted(self._entries.items())
        }
        whole = {"format": FORMAT, "chip": self.chip, "checksum": _checksum(kernels), "kernels": kernels}
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(whole, file, indent=1)
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise


def read(path: Path, chip: str = "") -> tuple[str, dict[str, dict[tuple[int, ...], Entry]]]:
    """The chip and the entries of a file; with `chip`, one of that chip.

    Raises
    ------
    OSError
    TableError
    """
    try:
        whole = json.loads(path.read_text(encoding="utf-8"))
        form, given, kernels = whole["format"], whole["chip"], whole["kernels"]
        intact = whole["checksum"] == _checksum(kernels)
    except (ValueError, KeyError, TypeError):
        raise TableError("another file") from None
    if form != FORMAT or not isinstance(given, str):
        raise TableError(f"one of the form {form!r}")
    if chip and given != chip:
        raise TableError(f"one of the {given}")
    if not intact:
        raise TableError("one that was changed or damaged")
    entries: dict[str, dict[tuple[int, ...], Entry]] = {}
    for key, listed in kernels.items():
        for plain in listed:
            entry = _entry(plain)
            if entry is not None:
                entries.setdefault(key, {})[entry.sizes] = entry
    return given, entries


def _checksum(kernels: Any) -> str:
    return hashlib.sha256(json.dumps(kernels, sort_keys=True).encode()).hexdigest()[:16]


def _plain(entry: Entry) -> dict[str, Any]:
    return {
        "kernel": entry.kernel,
        "sizes": list(entry.sizes),
        "choice": entry.choice,
        "us": round(entry.time_us, 3),
        "model_us": round(entry.model_us, 3),
        "by": entry.by,
    }


def _entry(plain: Any) -> Entry | None:
    """An entry as it was read; None where it is none."""
    try:
        entry = Entry(
            str(plain["kernel"]),
            tuple(plain["sizes"]),
            dict(plain["choice"]),
            float(plain["us"]),
            float(plain["model_us"]),
            plain["by"],
        )
    except (KeyError, TypeError, ValueError):
        return None
    whole = all(type(n) is int for n in entry.sizes)
    times = all(math.isfinite(t) and t >= 0 for t in (entry.time_us, entry.model_us))
    return entry if whole and times and entry.by in MEASURES else None


def _distance(sizes: tuple[int, ...], known: tuple[int, ...]) -> float:
    """How far sizes are from known ones, as a part of those."""
    if len(sizes) != len(known):
        return math.inf
    pairs = zip(sizes, known, strict=True)
    return max((0.0 if n == k else abs(n - k) / k if k else math.inf for n, k in pairs), default=0.0)


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Keep other processes from changing the file meanwhile."""
    with path.with_suffix(".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


_tables: dict[tuple[str, Path | None], Table] = {}


def table(chip: str, store: Store) -> Table:
    """The table of a chip where a store keeps its files."""
    path = store.folder() / f"tuning-{chip}.json" if store.keeps else None
    found = _tables.get((chip, path))
    if found is None:
        found = _tables.setdefault((chip, path), Table(chip, path))
    return found


def forget() -> None:
    """Read tables anew when they are needed."""
    _tables.clear()
