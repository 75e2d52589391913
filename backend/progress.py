"""A line on a terminal that says how far something is, and is gone afterwards; in a log, one now and then."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from types import TracebackType

WIDTH = 40
MARK, GAP = "▪", "▫"
QUIET_S = 1.0  # for which nothing is shown of what need not take long
TICK_S = 0.2
LOG_S = 30.0  # between lines where stderr is no terminal


@contextmanager
def waiting(title: str) -> Iterator[None]:
    """Show for how long the body has been running, once that is longer than a moment."""
    done = threading.Event()
    terminal, start = sys.stderr.isatty(), monotonic()

    def show() -> None:
        if done.wait(QUIET_S if terminal else LOG_S):
            return
        while True:
            text = f"{title}: {monotonic() - start:.0f} s"
            _write(f"\r\x1b[K{text}" if terminal else f"{text}\n")
            if done.wait(TICK_S if terminal else LOG_S):
                break
        if terminal:
            _write("\r\x1b[K")

    thread = threading.Thread(target=show, name="pyasc-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _write(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


class Progress:
    """The line, within a ``with`` statement.

    Parameters
    ----------
    title : str
    total : int
        How many steps there are; 0 where that is not known.
    shown : bool or None
        None: where stderr is a terminal; elsewhere a line of its own every half minute.
    after : float
        Seconds for which nothing is shown.
    """

    def __init__(self, title: str, total: int = 0, shown: bool | None = None, after: float = 0.0) -> None:
        self._title = title
        self._total = total
        self._shown = sys.stderr.isatty() if shown is None else shown
        self._logged = shown is None and not self._shown
        self._begins = monotonic() + (LOG_S if self._logged else after)
        self._count = 0
        self._what = ""
        self._drawn = False

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: TracebackType | None) -> None:
        if self._drawn:
            _write("\r\x1b[K")

    def __call__(self, what: str) -> None:
        """One step more, and what it is."""
        self._count += 1
        self._what = what
        self.draw()

    def draw(self) -> None:
        """Show the line, if it is time."""
        if monotonic() < self._begins:
            return
        text = f"{self._title}: {self._bar()} {self._what}"
        if self._shown:
            self._drawn = True
            _write(f"\r\x1b[K{text}")
        elif self._logged:
            self._begins = monotonic() + LOG_S
            _write(f"{text}\n")

    def _bar(self) -> str:
        if not self._total:
            return MARK * min(self._count, WIDTH)
        width = min(self._total, WIDTH)
        done = self._count * width // self._total
        return f"{MARK * done}{GAP * (width - done)} {self._count} of {self._total}"
