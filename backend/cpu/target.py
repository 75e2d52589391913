"""The processor that code is generated for.

What this processor is LLVM knows, but LLVM takes a while to load. A process that asked it leaves the answer
in a store, under a key of all that the answer may depend on, and later processes find it there.
"""

from __future__ import annotations

import hashlib
import os
import threading
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from .. import _runtime
from ..base import Store

if TYPE_CHECKING:
    from llvmlite import binding

# Held where LLVM is used or imported: its state is not safe to use from several threads. A fork waits for it,
# so that the child finds LLVM, and Python's imports, in order.
lock = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)

# Vector functions of glibc by the letter of their instruction set in the vector function ABI.
LETTERS = {("x86_64", 512): "e", ("x86_64", 256): "d", ("x86_64", 128): "b", ("aarch64", 128): "n"}
# float64 functions for which the C library may have vector versions, with their number of operands.
_UNARY = "exp2 expm1 log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf cbrt"
VECTOR_MATH = dict.fromkeys(_UNARY.split(), 1) | {"exp": 1, "log": 1, "pow": 2, "atan2": 2}
# Libraries that compiled code calls: vector functions, and conversions of float16 on processors without.
LIBRARIES = ("libmvec.so.1", "libgcc_s.so.1")


@dataclass(frozen=True)
class Target:
    """A processor as LLVM names it.

    Attributes
    ----------
    triple, cpu, features : str
        As LLVM spells them; features are separated by commas.
    register_bits : int
        Width of the vector registers.
    has_fma, has_half, has_avx512 : bool
        Fused multiply-add; conversions between float16 and float32; AVX-512 F, DQ, BW and VL.
    vector_math : frozenset of str
        Vector functions of the C library that may be called, e.g. ``_ZGVeN8v_exp``.
    """

    triple: str
    cpu: str
    features: str
    register_bits: int
    has_fma: bool
    has_half: bool
    has_avx512: bool
    vector_math: frozenset[str] = frozenset()

    @staticmethod
    def host() -> Target:
        """The processor this runs on."""
        return host().target

    @staticmethod
    def for_triple(triple: str, cpu: str = "", features: str = "") -> Target:
        """A processor to emit code for without running it; no vector functions are assumed.

        Parameters
        ----------
        triple : str
            For example ``aarch64-unknown-linux-gnu``.
        cpu : str
            LLVM's name, for example ``tsv110`` (Kunpeng 920) or ``neoverse-n1``.
        features : str
            For example ``+avx2,+fma``; what the name of the processor implies need not be repeated.
        """
        with lock:
            from .processors import describe

            return describe(triple, cpu, features)

    @property
    def architecture(self) -> str:
        return self.triple.partition("-")[0]

    @cached_property
    def fingerprint(self) -> str:
        """Everything that generated code depends on."""
        return "|".join((self.triple, self.cpu, self.features, *sorted(self.vector_math)))

    def lanes(self, bits: int) -> int:
        """Elements of so many bits in one register."""
        return self.register_bits // bits

    def vector_function(self, name: str, arity: int = 1) -> str | None:
        """The C library's float64 function over one full register, or None where it has none."""
        letter = LETTERS.get((self.architecture, self.register_bits))
        symbol = f"_ZGV{letter}N{self.lanes(64)}{'v' * arity}_{name}"
        return symbol if symbol in self.vector_math else None

    def machine(self, level: int = 2) -> binding.TargetMachine:
        """A new LLVM target machine at an optimisation level of code generation, 0 to 3."""
        with lock:
            from .processors import machine

            return machine(self, level)


@dataclass(frozen=True)
class Host:
    """What code for this process depends on.

    Attributes
    ----------
    target : Target
    generator : str
        The version of LLVM, and a digest of the code generator's own source.
    """

    target: Target
    generator: str

    def to_bytes(self) -> bytes:
        t = self.target
        flags = [name for name in _FLAGS if getattr(t, name)]
        lines = (
            t.triple,
            t.cpu,
            t.features,
            str(t.register_bits),
            *map(" ".join, (flags, sorted(t.vector_math))),
        )
        return "\n".join((*lines, self.generator)).encode()

    @staticmethod
    def from_bytes(data: bytes) -> Host:
        triple, cpu, features, bits, flags, functions, generator = data.decode().split("\n")
        has = {name: name in flags.split() for name in _FLAGS}
        return Host(
            Target(triple, cpu, features, int(bits), vector_math=frozenset(functions.split()), **has),
            generator,
        )


_FLAGS = ("has_fma", "has_half", "has_avx512")
_host: Host | None = None


def host(store: Store | None = None) -> Host:
    """What code for this process depends on, remembered in a store between processes."""
    global _host
    if _host is None:
        with lock:
            _host = _remembered(store) if store is not None else _asked()
    return _host


def _asked() -> Host:
    from .processors import host, llvm_version

    return Host(host(), f"{llvm_version()}|{_source_digest()}")


def _remembered(store: Store) -> Host:
    key = _identity()
    if key is None:
        return _asked()
    found = store.read("host", key)
    if found is not None:
        return Host.from_bytes(found)
    asked = _asked()
    store.write("host", key, asked.to_bytes())
    return asked


# Lines of a processor's paragraph in /proc/cpuinfo; others, such as that with its clock, change.
_CPUINFO = (b"vendor_id", b"cpu family", b"model", b"stepping", b"flags", b"Features", b"CPU ")


def _identity() -> str | None:
    """What LLVM's answer depends on, had without LLVM; None where the system does not tell."""
    llvmlite = find_spec("llvmlite")
    if llvmlite is None or llvmlite.origin is None:
        return None
    try:
        with open("/proc/cpuinfo", "rb", buffering=0) as file:
            first = file.read(16384).partition(b"\n\n")[0]
        libc = os.confstr("CS_GNU_LIBC_VERSION")
        version = _state(os.stat(Path(llvmlite.origin).with_name("_version.py")))
        sources = [(path, _state(os.stat(path))) for path in _sources()]
    except (OSError, ValueError):
        return None
    processor = [line for line in first.splitlines() if line.startswith(_CPUINFO)]
    return repr((os.uname().machine, processor, libc, llvmlite.origin, version, sources))


def _state(status: os.stat_result) -> tuple[int, int]:
    return status.st_size, status.st_mtime_ns


def _sources() -> list[str]:
    """The source files that generated code depends on."""
    here = Path(__file__).parent
    floor = here.parent
    above = [floor / "ir.py", *floor.glob("structured/*.py"), *floor.glob("points/*.py")]
    return sorted(map(str, (*here.rglob("*.py"), *above, floor.parent / "ops" / "primitives.py")))


def _source_digest() -> str:
    """Code from another version of the generator, or for another way to be called, is another key."""
    digest = hashlib.sha256(str(_runtime.KERNEL_ABI).encode())
    for path in _sources():
        digest.update(Path(path).read_bytes())
    return digest.hexdigest()[:16]
