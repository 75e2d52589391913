"""What a test sees of the pretended machine, and does to it: the ``standin_*`` functions of its library."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

RESOURCES = ("memory", "pinned", "events", "streams", "contexts", "binaries")


@dataclass(frozen=True)
class Span:
    """A task of a stream. Times are nanoseconds of the device's clock.

    Attributes
    ----------
    kind : str
        ``"upload"``, ``"download"``, ``"copy"``, ``"across"``, ``"set"``, ``"kernel"``, ``"record"``,
        ``"wait"`` or ``"call"``.
    name : str
        Of a kernel.
    """

    device: int
    stream: int
    kind: str
    name: str
    begin: int
    end: int


class Machine:
    """The machine behind a ``libascendcl.so`` that this process has loaded, or loads now.

    Parameters
    ----------
    path : Path
    """

    def __init__(self, path: Path) -> None:
        self.library = ctypes.CDLL(str(path))
        declared: dict[str, tuple[object, list[object]]] = {
            "standin_inject": (None, [ctypes.c_char_p, ctypes.c_uint64, ctypes.c_int]),
            "standin_count": (ctypes.c_uint64, [ctypes.c_char_p]),
            "standin_complaints": (ctypes.c_size_t, [ctypes.c_char_p, ctypes.c_size_t]),
            "standin_timeline": (ctypes.c_size_t, [ctypes.c_char_p, ctypes.c_size_t]),
            "standin_keep_timeline": (None, [ctypes.c_int]),
            "standin_destroy_stream": (ctypes.c_int, [ctypes.c_void_p]),
            "standin_lose": (None, [ctypes.c_int32, ctypes.c_int]),
        }
        for name, (result, arguments) in declared.items():
            function = getattr(self.library, name)
            function.restype, function.argtypes = result, arguments

    def reset(self) -> None:
        """Read the environment again, and begin faults, complaints, the timeline and counts of work anew."""
        self.library.standin_reset()

    def inject(self, point: str, nth: int = 1, code: int = 1) -> None:
        """Let something fail, once.

        Parameters
        ----------
        point : str
            A function of ACL; ``"launch"``, in any form; ``"kernel"`` or ``"copy"``, as a task that fails
            when it runs; ``"hang"``, a kernel that runs until it is aborted; ``"slow"``, one that takes
            `code` milliseconds more.
        nth : int
            From now on.
        code : int
            The error's.
        """
        self.library.standin_inject(point.encode(), nth, code)

    def clear_faults(self) -> None:
        """Forget the faults that have not happened."""
        self.library.standin_clear_faults()

    def lose(self, device: int, code: int = 507010) -> None:
        """Every call fails until the device is reset."""
        self.library.standin_lose(device, code)

    def destroy_stream(self, stream: int) -> None:
        """Destroy a stream as somebody else would who has its handle."""
        error = self.library.standin_destroy_stream(stream)
        assert error == 0, f"there is no stream {stream:#x}"

    def count(self, what: str) -> int:
        """How many there are.

        Parameters
        ----------
        what : str
            ``"memory"`` and ``"pinned"`` (bytes), ``"peak"`` (bytes of devices), ``"blocks"``, ``"events"``,
            ``"streams"`` (without contexts' own), ``"contexts"``, ``"binaries"``; ``"launches"`` and
            ``"copies"`` since `reset`; ``"pending"`` tasks; ``"complaints"``; ``"faults"`` that have not
            happened.
        """
        count = int(self.library.standin_count(what.encode()))
        assert count != 2**64 - 1, f"nothing is counted as {what!r}"
        return count

    def resources(self) -> dict[str, int]:
        """What must return to its start."""
        return {what: self.count(what) for what in RESOURCES}

    def complaints(self) -> list[str]:
        """Misuse of ACL, races between streams, and what the simulator's checks found in kernels."""
        return self._text("standin_complaints").splitlines()

    def clear_complaints(self) -> None:
        """Forget them; for tests that cause some."""
        self.library.standin_clear_complaints()

    @contextlib.contextmanager
    def timeline(self) -> Iterator[list[Span]]:
        """What the streams did in the meantime, filled in at the end: in the order in which tasks ended."""
        spans: list[Span] = []
        self.library.standin_keep_timeline(1)
        try:
            yield spans
        finally:
            self.library.standin_keep_timeline(0)
            for line in self._text("standin_timeline").splitlines():
                device, stream, kind, name, begin, end = line.split("\t")
                spans.append(Span(int(device), int(stream), kind, name, int(begin), int(end)))

    def _text(self, function: str) -> str:
        give = getattr(self.library, function)
        size = give(None, 0) + 4096
        buffer = ctypes.create_string_buffer(size)
        give(buffer, size)
        return buffer.value.decode(errors="replace")
