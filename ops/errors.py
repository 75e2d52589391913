"""What the library raises: every class is also the built-in exception that a NumPy user would catch.

A message is the operation in brackets, what was expected, what was given, and the line of the user's program.
"""

from __future__ import annotations

import linecache
import sys
import warnings
from types import CodeType
from typing import Any, NamedTuple, Self

import numpy as np


def user_line() -> tuple[str, int, str] | None:
    """File, line number and source text of the innermost frame outside the library."""
    try:
        frame = sys._getframe(1)
    except ValueError:
        return None
    here = frame
    while frame is not None and frame.f_globals.get("__name__", "").split(".", 1)[0] == "pyasc":
        if frame.f_back is None:
            frame = here
            break
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno, _source(frame.f_code.co_filename, frame.f_lineno)


def recorded_line(where: tuple[CodeType, int]) -> tuple[str, int, str]:
    """The same for the code object and instruction offset that a node keeps."""
    code, offset = where
    number = code.co_firstlineno
    for start, end, line in code.co_lines():
        if start <= offset < end and line is not None:
            number = line
            break
    return code.co_filename, number, _source(code.co_filename, number)


def _source(filename: str, number: int) -> str:
    return linecache.getline(filename, number).strip()


def format_line(line: tuple[str, int, str]) -> str:
    """``at file:line: source`` as it stands at the end of a message."""
    filename, number, source = line
    return f"at {filename}:{number}" + (f": {source}" if source else "")


def warn(message: str, line: tuple[str, int, str] | None = None) -> None:
    """A RuntimeWarning at the user's line."""
    filename, number, _ = line or user_line() or ("pyasc", 1, "")
    warnings.warn_explicit(message, RuntimeWarning, filename, number)


class PyascError(Exception):
    """The base of everything the library raises. The user's line is found when the error is made."""

    def __init__(self, message: str, line: tuple[str, int, str] | None = None) -> None:
        self.message = message
        self.line = line or user_line()
        super().__init__(f"{message}\n  {format_line(self.line)}" if self.line else message)

    def of(self, operation: str) -> Self:
        """The same error in the name of the operation that the user called."""
        return type(self)(f"[{operation}] {self.message.partition('] ')[2]}", self.line)

    def __reduce__(self) -> tuple[Any, ...]:
        """Read in another process, it keeps its line and gets no other."""
        return type(self), (self.message, self.line), self.__dict__


class ShapeError(PyascError, ValueError):
    """Shapes that do not go together."""


class ArgumentError(PyascError, ValueError):
    """An argument's value that the operation does not take."""


class DtypeError(PyascError, TypeError):
    """A dtype, or the type of an argument, that the operation does not take."""


class CastingError(DtypeError):
    """A result that may not be written to its target without losing its kind."""


class AxisError(PyascError, np.exceptions.AxisError):
    """An axis that the tensor does not have (a ValueError and an IndexError)."""


class IndexOutOfBounds(PyascError, IndexError):
    """An index outside its axis, or one that is no index."""


class ReadOnlyError(PyascError, ValueError):
    """A write to what must not be written, such as a broadcast view."""


class OverflowingScalar(PyascError, OverflowError):
    """A Python integer that does not fit the dtype it would take."""


class OutOfMemory(PyascError, MemoryError):
    """Memory was asked for that the limit or the machine does not have."""


class FolderError(PyascError, OSError):
    """A folder, or a file in it, that cannot be written."""


class ForeignError(PyascError, OSError):
    """A C library, or its source, that cannot be read, compiled or loaded."""


class BackendError(PyascError, RuntimeError):
    """A backend could not compile or run a kernel."""


class SimulationError(BackendError):
    """A check of the simulator found a fault in a kernel: an access out of bounds, a race, a deadlock…"""


class DeviceError(BackendError):
    """An NPU, or its driver, failed: at the line of the kernel that did, as far as that is known."""


class LinearAlgebraError(PyascError, np.linalg.LinAlgError):
    """A matrix for which the result does not exist, such as the inverse of a singular one."""


class Span(NamedTuple):
    """A part of a line of a user's kernel: from one column to another, counted from 0."""

    filename: str
    number: int
    text: str
    start: int
    end: int

    @property
    def line(self) -> tuple[str, int, str]:
        return self.filename, self.number, self.text.strip()


class KernelError(PyascError, SyntaxError):
    """Something in a kernel's source that kernels cannot do, shown with a caret under it."""

    def __init__(
        self, message: str, span: Span | None = None, line: tuple[str, int, str] | None = None
    ) -> None:
        super().__init__(message, span.line if span else line)
        self.span = span
        self.msg = message
        if span is not None:
            # What Python shows of a SyntaxError: the line and a caret. Columns count from 1.
            self.filename, self.lineno = span.filename, span.number
            self.end_lineno = span.number
            self.text = span.text or None
            self.offset, self.end_offset = span.start + 1, max(span.end, span.start + 1) + 1

    def of(self, operation: str) -> Self:
        return type(self)(f"[{operation}] {self.message.partition('] ')[2]}", self.span, self.line)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message, self.span, self.line), self.__dict__

    def __str__(self) -> str:
        if self.span is None or not self.span.text:
            return str(self.args[0])
        text = self.span.text.rstrip()
        shown = text.lstrip()
        start = max(self.span.start - (len(text) - len(shown)), 0)
        width = max(min(self.span.end - self.span.start, len(shown) - start), 1)
        return (
            f"{self.message}\n  at {self.span.filename}:{self.span.number}\n"
            f"    {shown}\n    {' ' * start}{'^' * width}"
        )


class TracingError(PyascError, RuntimeError):
    """A value was asked for while it is being traced."""


class NotSupported(PyascError, NotImplementedError):
    """What NumPy has and this library has not."""
