"""A line on a terminal that says how far something is, and is gone afterwards."""

from __future__ import annotations

import sys
from time import monotonic
from types import TracebackType

WIDTH = 40
MARK, GAP = "▪", "▫"


class Progress:
    """The line, within a ``with`` statement.

    Parameters
    ----------
    title : str
    total : int
        How many steps there are; 0 where that is not known.
    shown : bool or None
        None: where stderr is a terminal.
    after : float
        Seconds for which nothing is shown.
    """

    def __init__(self, title: str, total: int = 0, shown: bool | None = None, after: float = 0.0) -> None:
        self._title = title
        self._total = total
        self._shown = sys.stderr.isatty() if shown is None else shown
        self._begins = monotonic() + after
        self._count = 0
        self._what = ""
        self._drawn = False

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: TracebackType | None) -> None:
        if self._drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def __call__(self, what: str) -> None:
        """One step more, and what it is."""
        self._count += 1
        self._what = what
        self.draw()

    def draw(self) -> None:
        """Show the line, if it is time."""
        if not self._shown or monotonic() < self._begins:
            return
        self._drawn = True
        sys.stderr.write(f"\r\x1b[K{self._title}: {self._bar()} {self._what}")
        sys.stderr.flush()

    def _bar(self) -> str:
        if not self._total:
            return MARK * min(self._count, WIDTH)
        width = min(self._total, WIDTH)
        done = self._count * width // self._total
        return f"{MARK * done}{GAP * (width - done)} {self._count} of {self._total}"
