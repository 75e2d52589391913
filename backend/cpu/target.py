"""The processor that code is generated for."""

from __future__ import annotations

import ctypes
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property

from llvmlite import binding

# Vector functions of glibc by the letter of their instruction set in the vector function ABI.
_LIBRARY = "libmvec.so.1"
_LETTERS = {("x86_64", 512): "e", ("x86_64", 256): "d", ("x86_64", 128): "b", ("aarch64", 128): "n"}


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
        return _host()

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
        return _describe(triple, cpu, features)

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
        letter = _LETTERS.get((self.architecture, self.register_bits))
        symbol = f"_ZGV{letter}N{self.lanes(64)}{'v' * arity}_{name}"
        return symbol if symbol in self.vector_math else None

    def machine(self, level: int = 2) -> binding.TargetMachine:
        """A new LLVM target machine at an optimisation level of code generation, 0 to 3."""
        _initialise(native=self.architecture == binding.get_process_triple().partition("-")[0])
        return binding.Target.from_triple(self.triple).create_target_machine(
            cpu=self.cpu, features=self.features, opt=level, reloc="pic", codemodel="small"
        )


@cache
def _initialise(native: bool) -> None:
    if native:
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
    else:
        binding.initialize_all_targets()
        binding.initialize_all_asmprinters()


# float64 functions for which the C library may have vector versions, with their number of operands.
_UNARY = "exp2 expm1 log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf cbrt"
VECTOR_MATH = dict.fromkeys(_UNARY.split(), 1) | {"exp": 1, "log": 1, "pow": 2, "atan2": 2}


@cache
def _host() -> Target:
    triple = binding.get_process_triple()
    architecture = triple.partition("-")[0]
    try:
        features = binding.get_host_cpu_features()
    except RuntimeError:  # LLVM cannot tell; the processor's name implies what is sure
        return _describe(triple, binding.get_host_cpu_name(), "")
    x86 = architecture == "x86_64"
    avx512 = x86 and all(features.get(f"avx512{part}", False) for part in ("f", "dq", "bw", "vl"))
    register_bits = 512 if avx512 else 256 if x86 and features.get("avx2", False) else 128
    has_half = not x86 or bool(features.get("f16c", False))
    if not has_half:
        with suppress(RuntimeError):
            binding.load_library_permanently("libgcc_s.so.1")  # has the conversions
    return Target(
        triple,
        binding.get_host_cpu_name(),
        features.flatten(),
        register_bits,
        has_fma=not x86 or bool(features.get("fma", False)),
        has_half=has_half,
        has_avx512=avx512,
        vector_math=_vector_math(_LETTERS.get((architecture, register_bits)), register_bits // 64),
    )


def _vector_math(letter: str | None, lanes: int) -> frozenset[str]:
    """The vector functions the C library of this process has; makes them visible to compiled code."""
    try:
        library = ctypes.CDLL(_LIBRARY)
        binding.load_library_permanently(_LIBRARY)
    except (OSError, RuntimeError):
        return frozenset()
    symbols = (f"_ZGV{letter}N{lanes}{'v' * arity}_{name}" for name, arity in VECTOR_MATH.items())
    return frozenset(symbol for symbol in symbols if hasattr(library, symbol))


_PROBE = """
target triple = "{triple}"
declare <16 x float> @llvm.fma.v16f32(<16 x float>, <16 x float>, <16 x float>)
define <16 x float> @fused(<16 x float> %a, <16 x float> %b, <16 x float> %c) {{
  %r = call <16 x float> @llvm.fma.v16f32(<16 x float> %a, <16 x float> %b, <16 x float> %c)
  ret <16 x float> %r
}}
define <16 x float> @half(<16 x half> %a) {{
  %r = fpext <16 x half> %a to <16 x float>
  ret <16 x float> %r
}}
define <64 x i8> @bytes(<64 x i8> %a, <64 x i8> %b) {{
  %r = add <64 x i8> %a, %b
  ret <64 x i8> %r
}}
define <4 x i64> @quads(<4 x double> %a) {{
  %r = fptosi <4 x double> %a to <4 x i64>
  ret <4 x i64> %r
}}
"""


@cache
def _describe(triple: str, cpu: str, features: str) -> Target:
    if not triple.startswith("x86_64"):
        return Target(triple, cpu, features, 128, has_fma=True, has_half=True, has_avx512=False)
    # What a processor's name implies only LLVM knows: read it off the code it generates.
    bare = Target(triple, cpu, features, 128, has_fma=False, has_half=False, has_avx512=False)
    assembly = bare.machine().emit_assembly(binding.parse_assembly(_PROBE.format(triple=triple)))
    avx512 = "vpaddb\t%zmm" in assembly and "vcvttpd2qq\t%ymm" in assembly
    return Target(
        triple,
        cpu,
        features,
        512 if avx512 else 256 if "vpaddb\t%ymm" in assembly else 128,
        has_fma="vfmadd" in assembly,
        has_half="vcvtph2ps" in assembly,
        has_avx512=avx512,
    )
