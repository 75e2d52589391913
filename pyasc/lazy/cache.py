"""Compiled kernels: in memory by structure and bucket, on disk by key.

On disk a kernel is one file, checksummed, written to a temporary name and renamed into place, and never
unpickled: readers in other processes see the whole file or none. Anything that does not check out is a
miss.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import os
import threading
import warnings
from collections import Counter, OrderedDict, deque
from collections.abc import Hashable, Iterator
from pathlib import Path
from time import perf_counter

from ..backend.base import Backend, Executable
from ..backend.ir import Binding, Kernel
from ..config import config
from . import events
from .bucket import Buckets

MAGIC = b"pyasc-kernel-1\n"
MAX_KERNELS = 4096
ENDINGS = (".kernel", ".host", ".sim", ".foreign", ".tmp")


class KernelCache:
    """Finds or makes the executable of a kernel.

    Attributes
    ----------
    counts : Counter
        ``compiles``, ``memory_hits``, ``disk_hits``, ``misses``, and ``compile_ms``, the time spent
        compiling.
    reasons : deque of str
        Why the latest misses were misses.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.compile_ms = 0.0
        self.reasons: deque[str] = deque(maxlen=64)
        self._memory: OrderedDict[Hashable, Buckets[Executable]] = OrderedDict()
        self._lock = threading.RLock()
        self._disk_warned = False
        self._disk_path: Path | None = None
        self._disk_bytes: int | None = None

    def executable(self, backend: Backend, kernel: Kernel, binding: Binding) -> Executable:
        """The executable for a kernel at these sizes, compiled only if no bucket, tuning or file has it."""
        with self._lock:
            key = (backend.name, config.fast_math, kernel.key)
            buckets = self._memory.get(key)
            if buckets is None:
                buckets = self._memory[key] = Buckets()
                if len(self._memory) > MAX_KERNELS:
                    self._memory.popitem(last=False)
                reason = "a structure not seen before"
            else:
                self._memory.move_to_end(key)
                bucket = buckets.find(binding.extents, lambda e: e.fits(binding))
                if bucket is not None:
                    self.counts["memory_hits"] += 1
                    return bucket[1]
                reason = f"sizes {binding.extents} outside every bucket, tuned differently"
            tuning = backend.tune(kernel, binding, config.fast_math)
            found = buckets.find_tuning(tuning)
            if found is not None:
                self.counts["memory_hits"] += 1
            else:
                self.counts["misses"] += 1
                self.reasons.append(f"{kernel.name}: {reason}")
                found = self._load_or_compile(backend, kernel, tuning)
            buckets.add(binding.extents, tuning, found)
            return found

    def bucket(self, backend: Backend, kernel: Kernel, binding: Binding) -> tuple[int, ...] | None:
        """The representative sizes of the bucket whose code `executable` would find in memory, or None."""
        with self._lock:
            buckets = self._memory.get((backend.name, config.fast_math, kernel.key))
            if buckets is None:
                return None
            bucket = buckets.find(binding.extents, lambda e: e.fits(binding))
            if bucket is not None:
                return bucket[0]
            tuned = buckets.find_tuning(backend.tune(kernel, binding, config.fast_math)) is not None
            return binding.extents if tuned else None

    def _load_or_compile(self, backend: Backend, kernel: Kernel, tuning: Hashable) -> Executable:
        key = repr((("generator", backend.fingerprint()), ("kernel", kernel.key), ("tuning", tuning)))
        code = self.read("kernel", key)
        if code is not None:
            try:
                with events.span("load", kernel.name):
                    executable = backend.load(kernel, tuning, code)
            except ValueError:
                pass  # written by something else under our name: a miss like any other
            else:
                self.counts["disk_hits"] += 1
                return executable
        start = perf_counter()
        with events.span("compile", kernel.name), _no_collection():
            executable, code = backend.compile(kernel, tuning)
        self.compile_ms += (perf_counter() - start) * 1e3
        self.counts["compiles"] += 1
        self.write("kernel", key, code)
        return executable

    def read(self, kind: str, key: str) -> bytes | None:
        """What was written under a key, by this process or another; None if it is not there whole."""
        if not config.disk_cache:
            return None
        digest = hashlib.sha256(key.encode()).digest()
        path = folder() / f"{digest.hex()}.{kind}"
        try:
            data = path.read_bytes()
        except OSError:
            return None
        header = len(MAGIC) + 32
        if data[: len(MAGIC)] != MAGIC or _checksum(digest, data[header:]) != data[len(MAGIC) : header]:
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # least recently used goes first
        return data[header:]

    def write(self, kind: str, key: str, code: bytes) -> None:
        """Keep bytes under a key; warns, once, where that cannot be."""
        if not config.disk_cache:
            return
        import tempfile  # with much that nothing else here needs

        digest = hashlib.sha256(key.encode()).digest()
        path = folder() / f"{digest.hex()}.{kind}"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(MAGIC + _checksum(digest, code) + code)
                os.replace(temporary, path)
                self._keep_limit(path.parent, len(code))
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
                raise
        except OSError as error:
            if not self._disk_warned:
                self._disk_warned = True
                warnings.warn(
                    f"[cache] kernels are not kept on disk: {error.strerror or error} ({path.parent}). "
                    "Set PYASC_CACHE_DIR to a folder that can be written.",
                    RuntimeWarning,
                    stacklevel=2,
                )

    def folder(self) -> Path:
        """Where the files are."""
        return folder()

    def unlock(self) -> None:
        self._lock = threading.RLock()

    def _keep_limit(self, path: Path, written: int) -> None:
        """Evict when what is on disk, counted once and kept up since, passes the limit."""
        if self._disk_bytes is None or path != self._disk_path:
            self._disk_path, self._disk_bytes = path, sum(size for _, size, _ in entries(path))
        else:
            self._disk_bytes += written
        if self._disk_bytes > config.disk_cache_bytes:
            # Somewhat below the limit, so that not every write evicts.
            self._disk_bytes = evict(path, config.disk_cache_bytes * 9 // 10)

    def stats(self) -> dict[str, int | float | list[str]]:
        """Counts since the start: compiles, memory_hits, disk_hits, misses, kernels, compile_ms, and why
        the latest misses missed."""
        with self._lock:
            return {
                "compiles": self.counts["compiles"],
                "memory_hits": self.counts["memory_hits"],
                "disk_hits": self.counts["disk_hits"],
                "misses": self.counts["misses"],
                "kernels": sum(buckets.tunings for buckets in self._memory.values()),
                "compile_ms": self.compile_ms,
                "reasons": list(self.reasons),
            }

    def clear(self, memory: bool, disk: bool) -> None:
        """Forget kernels in memory, and delete those on disk."""
        with self._lock:
            if memory:
                self._memory.clear()
            if disk:
                evict(folder(), 0)


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Put off Python's search for garbage: the many small objects that a kernel's code is written with set it
    off, and going through everything a program holds takes longer than compiling."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _checksum(digest: bytes, code: bytes) -> bytes:
    """Covers the key too: a whole file under another kernel's name is a miss."""
    return hashlib.sha256(digest + code).digest()


def folder() -> Path:
    """Where kernels are kept: PYASC_CACHE_DIR, or ``pyasc-tensor`` in the user's cache folder."""
    if config.cache_dir:
        return Path(config.cache_dir)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pyasc-tensor"


def entries(path: Path) -> list[tuple[float, int, str]]:
    """Time of last use, size and name of each file of the cache."""
    found = []
    with contextlib.suppress(OSError):
        for entry in os.scandir(path):
            if entry.name.endswith(ENDINGS):
                with contextlib.suppress(OSError):
                    status = entry.stat()
                    found.append((status.st_mtime, status.st_size, entry.path))
    return found


def evict(path: Path, limit: int) -> int:
    """Delete the least recently used files until the rest takes no more than `limit` bytes; what it takes."""
    files = entries(path)
    total = sum(size for _, size, _ in files)
    for _, size, name in sorted(files):
        if total <= limit:
            break
        with contextlib.suppress(OSError):
            os.unlink(name)
        total -= size
    return total


kernels = KernelCache()
if hasattr(os, "register_at_fork"):
    # No other thread runs in a forked child: a lock that one held there is made anew.
    os.register_at_fork(after_in_child=kernels.unlock)
