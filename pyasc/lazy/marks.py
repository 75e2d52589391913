"""Ranges around launches on an NPU that CANN's profiler shows, named by the kernel and the user's line.

mstx makes them, whose library is loaded when a plan first runs on a device in a process that msprof started.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from functools import cache
from typing import Any

from ..backend import _runtime
from ..config import config
from ..ops.errors import recorded_line, warn
from .device_errors import Where
from .events import Note

LIBRARY = "libms_tools_ext.so"
_FOLDERS = ("lib64", "tools/mstx/lib64")  # of CANN
_MSPROF = "PROFILER_SAMPLECONFIG"  # what msprof sets for the program that it starts

_NAMES = ("mstxRangeStartA", "mstxRangeEnd")
_loaded: list[Any] = []  # what the addresses that the runtime has belong to


@cache
def on() -> bool:
    """Whether launches are marked: mstx is there, and a profiler listens or `config.marks` says so."""
    if config.marks == "off" or (config.marks == "auto" and not os.environ.get(_MSPROF)):
        return False
    library = _library()
    if library is None:
        if config.marks == "on":
            warn(f"[marks] expected {LIBRARY} of CANN to mark launches with, given none: nothing is marked")
        return False
    try:
        functions = [ctypes.cast(library[name], ctypes.c_void_p).value for name in _NAMES]
    except AttributeError:  # a version without them
        return False
    _loaded.append(library)
    _runtime.device_set_marks(*(address or 0 for address in functions))
    return True


def _library() -> ctypes.CDLL | None:
    from ..backend.npu import toolkit

    places = [str(toolkit.find().root / folder / LIBRARY) for folder in _FOLDERS]
    for place in [*filter(os.path.exists, places), LIBRARY]:
        try:
            return ctypes.CDLL(place)
        except OSError:
            continue
    return None


def names(notes: Sequence[Note], where: Sequence[Where]) -> list[str]:
    """The names of the ranges around the launches and calls of a run."""
    return [_name(note, place) for note, place in zip(notes, where, strict=True)]


def _name(note: Note, where: Where) -> str:
    if where is None:
        return note.name
    file, number, _ = recorded_line(where)
    return f"{note.name} {os.path.basename(file)}:{number}"
