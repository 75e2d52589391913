"""What LLVM and the C library tell of processors: asked where nothing is remembered, under `target.lock`."""

from __future__ import annotations

import ctypes
from functools import cache

from llvmlite import binding

from .target import LETTERS, VECTOR_MATH, Target


def machine(target: Target, level: int) -> binding.TargetMachine:
    """A new LLVM target machine."""
    _initialise(native=target.architecture == binding.get_process_triple().partition("-")[0])
    # Position-independent: an object is loaded anywhere, all in one block.
    return binding.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=level, reloc="pic", codemodel="small"
    )


@cache
def _initialise(native: bool) -> None:
    if native:
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
    else:
        binding.initialize_all_targets()
        binding.initialize_all_asmprinters()


def llvm_version() -> str:
    """The version of LLVM that generates code."""
    return "llvm " + ".".join(str(n) for n in binding.llvm_version_info)


def host() -> Target:
    """The processor this runs on."""
    triple = binding.get_process_triple()
    architecture = triple.partition("-")[0]
    try:
        features = binding.get_host_cpu_features()
    except RuntimeError:  # LLVM cannot tell; the processor's name implies what is sure
        return describe(triple, binding.get_host_cpu_name(), "")
    x86 = architecture == "x86_64"
    avx512 = x86 and all(features.get(f"avx512{part}", False) for part in ("f", "dq", "bw", "vl"))
    register_bits = 512 if avx512 else 256 if x86 and features.get("avx2", False) else 128
    return Target(
        triple,
        binding.get_host_cpu_name(),
        features.flatten(),
        register_bits,
        has_fma=not x86 or bool(features.get("fma", False)),
        has_half=not x86 or bool(features.get("f16c", False)),
        has_avx512=avx512,
        vector_math=_vector_math(LETTERS.get((architecture, register_bits)), register_bits // 64),
    )


def _vector_math(letter: str | None, lanes: int) -> frozenset[str]:
    """The vector functions that the C library of this process has."""
    try:
        library = ctypes.CDLL("libmvec.so.1")
    except OSError:
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
def describe(triple: str, cpu: str, features: str) -> Target:
    """A processor by name; no vector functions are assumed."""
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
