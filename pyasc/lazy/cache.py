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
from collections import Counter, OrderedDict, deque
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from ..backend.base import Backend, Executable, LaunchError
from ..backend.ir import Binding, Kernel
from ..backend.progress import QUIET_S, Progress, waiting
from ..config import config
from ..ops.errors import warn
from . import events
from .bucket import Buckets

MAGIC = b"pyasc-kernel-1\n"
MAX_KERNELS = 4096
ENDINGS = (".kernel", ".host", ".sim", ".foreign", ".npu", ".tmp")
POLL_S = 0.1


@dataclass(frozen=True, eq=False)
class _Missing:
    """A kernel that is not in memory: what makes it, for a bucket of which sizes, why it is not there."""

    backend: Backend
    kernel: Any
    tuning: Hashable
    extents: tuple[int, ...]
    buckets: Buckets[Executable]
    key: Hashable
    reason: str


class _Making:
    """A kernel that a thread is making, for others to wait for."""

    def __init__(self) -> None:
        self._over = threading.Event()
        self._found: Executable | None = None
        self._error: BaseException | None = None

    def finish(self, found: Executable) -> None:
        self._found = found
        self._over.set()

    def fail(self, error: BaseException) -> None:
        self._error = error
        self._over.set()

    def result(self) -> Executable | None:
        """None where that thread was interrupted: to be made again."""
        self._over.wait()
        if isinstance(self._error, Exception):
            raise self._error
        return self._found


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
        self._making: dict[Hashable, _Making] = {}
        # What `prepare` made, until it is used, and what it could not make.
        self._ahead: dict[int, Executable] = {}
        self._errors: dict[Hashable, LaunchError] = {}
        self._disk_warned = False
        self._disk_path: Path | None = None
        self._disk_bytes: int | None = None

    def executable(self, backend: Backend, kernel: Any, binding: Any) -> Executable:
        """The executable for a kernel at these sizes, compiled only if no bucket, tuning or file has it."""
        found = self._find(backend, kernel, binding)
        if not isinstance(found, _Missing):
            return found
        return self._make(found)

    def prepare(self, wanted: Iterable[tuple[Backend, Any, Any]], progress: bool | None = None) -> None:
        """Compile at once, in parallel, what `executable` would compile one after another.

        What does not compile raises its error when `executable` is asked for it.

        Parameters
        ----------
        wanted : iterable of (Backend, Kernel, Binding)
            Those of backends that compile one kernel at a time are left to `executable`.
        progress : bool, optional
            Whether to show a progress bar when it takes longer than a second; by default on a terminal.
        """
        missing: dict[Hashable, _Missing] = {}
        for backend, kernel, binding in wanted:
            if backend.parallel_compiles > 1:
                found = self._find(backend, kernel, binding, ahead=True)
                if isinstance(found, _Missing):
                    missing.setdefault(found.key, found)
        if len(missing) < 2:
            return
        from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait

        # Compilers are programs: threads that wait for them are enough.
        at_once = min(len(missing), max(m.backend.parallel_compiles for m in missing.values()))
        pool = ThreadPoolExecutor(at_once, thread_name_prefix="pyasc-compile")
        try:
            with (
                events.span("compile", f"{len(missing)} kernels"),
                Progress("compiling", len(missing), progress, after=QUIET_S) as bar,
                _no_collection(),
            ):
                running = {pool.submit(self._make, one, True): one for one in missing.values()}
                while running:
                    done, _ = wait(running, timeout=POLL_S, return_when=FIRST_COMPLETED)
                    for future in done:
                        one = running.pop(future)
                        try:
                            future.result()
                        except LaunchError as error:
                            with self._lock:
                                self._errors[one.key] = error
                        bar(one.kernel.name)
                    bar.draw()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _find(
        self, backend: Backend, kernel: Any, binding: Any, ahead: bool = False
    ) -> Executable | _Missing:
        """What is in memory for a kernel at these sizes, or what is to be made; `ahead` of its use."""
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
                    if not ahead:
                        self._hit(bucket[1])
                    return bucket[1]
                reason = f"sizes {binding.extents} outside every bucket, tuned differently"
            tuning = backend.tune(kernel, binding, config.fast_math)
            found = buckets.find_tuning(tuning)
            if found is None:
                return _Missing(backend, kernel, tuning, binding.extents, buckets, (*key, tuning), reason)
            if not ahead:
                self._hit(found)
            buckets.add(binding.extents, tuning, found)
            return found

    def _hit(self, found: Executable) -> None:
        """Count one that was in memory, but not the first use of what was made ahead of it."""
        if id(found) in self._ahead:
            del self._ahead[id(found)]
        else:
            self.counts["memory_hits"] += 1

    def _make(self, wanted: _Missing, ahead: bool = False) -> Executable:
        """Load or compile a kernel, or wait for the thread that does."""
        with self._lock:
            error = self._errors.pop(wanted.key, None)
            if error is not None:
                raise error
            found = wanted.buckets.find_tuning(wanted.tuning)  # made meanwhile
            making = self._making.get(wanted.key)
            if found is None and making is None:
                self.counts["misses"] += 1
                self.reasons.append(f"{wanted.kernel.name}: {wanted.reason}")
                made = self._making[wanted.key] = _Making()
        if found is None and making is not None:
            found = making.result()
            if found is None:
                return self._make(wanted, ahead)
        if found is not None:
            with self._lock:
                if not ahead:
                    self._hit(found)
                wanted.buckets.add(wanted.extents, wanted.tuning, found)
            return found
        try:
            found = self._load_or_compile(wanted.backend, wanted.kernel, wanted.tuning, ahead)
        except BaseException as failure:
            with self._lock:
                self._making.pop(wanted.key, None)
            made.fail(failure)
            raise
        with self._lock:
            if ahead:
                self._ahead[id(found)] = found
            wanted.buckets.add(wanted.extents, wanted.tuning, found)
            self._making.pop(wanted.key, None)
        made.finish(found)
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

    def _load_or_compile(self, backend: Backend, kernel: Any, tuning: Hashable, quiet: bool) -> Executable:
        """From disk, or compiled; `quiet`: a recorder is not told."""
        span = _quiet_span if quiet else events.span
        key = repr((("generator", backend.fingerprint()), ("kernel", kernel.key), ("tuning", tuning)))
        code = self.read("kernel", key)
        if code is not None:
            try:
                with span("load", kernel.name):
                    executable = backend.load(kernel, tuning, code)
            except ValueError:
                pass  # written by something else under our name: a miss like any other
            else:
                with self._lock:
                    self.counts["disk_hits"] += 1
                return executable
        start = perf_counter()
        with span("compile", kernel.name), _no_collection(), _shown(backend, kernel.name, quiet):
            executable, code = backend.compile(kernel, tuning)
        with self._lock:
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
                warn(
                    f"[cache] kernels are not kept on disk: {error.strerror or error} ({path.parent}). "
                    "Set PYASC_CACHE_DIR to a folder that can be written."
                )

    def folder(self) -> Path:
        """Where the files are."""
        return folder()

    @property
    def keeps(self) -> bool:
        """Whether anything is kept on disk."""
        return config.disk_cache

    @property
    def tuning(self) -> str:
        """How kernels are tuned for a chip: the setting `tune`."""
        return config.tune

    def after_fork(self) -> None:
        """No other thread runs in a forked child: what one held or was making there is begun anew."""
        self._lock = threading.RLock()
        self._making.clear()

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
                self._ahead.clear()
                self._errors.clear()
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


def _shown(backend: Backend, name: str, quiet: bool) -> contextlib.AbstractContextManager[None]:
    """Says for how long a kernel compiles where that takes a program, unless somebody else says it."""
    if quiet or backend.parallel_compiles == 1:
        return contextlib.nullcontext()
    return waiting(f"compiling {name}")


def _quiet_span(kind: str, name: str) -> contextlib.AbstractContextManager[None]:
    return contextlib.nullcontext()


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
    os.register_at_fork(after_in_child=kernels.after_fork)
