"""The loader of compiled objects: code, constants, data, calls; and objects that are damaged."""

from __future__ import annotations

import ctypes
import math
import random
import struct

import pytest
from llvmlite import binding

from pyasc.backend import _runtime
from pyasc.backend.cpu.target import Target

KUNPENG = Target.for_triple("aarch64-unknown-linux-gnu", "tsv110")
HOST = Target.host()

HEADER = 'target triple = "{triple}"\n'
SOURCE = """
@counter = internal global i64 40
@total = internal global [3 x i64] zeroinitializer
@table = internal constant [4 x ptr] [ptr @one, ptr @two, ptr @one, ptr @two]
@environ = external global ptr
declare double @cos(double)
declare ptr @memset(ptr, i32, i64)
define internal i64 @one() noinline {{
  ret i64 1
}}
define internal i64 @two() noinline {{
  ret i64 2
}}
define i64 @count(i64 %n) {{
  %old = load i64, ptr @counter
  %new = add i64 %old, %n
  store i64 %new, ptr @counter
  %place = getelementptr i64, ptr @total, i64 2
  store i64 %new, ptr %place
  %again = load i64, ptr %place
  ret i64 %again
}}
define i64 @pick(i64 %n) {{
  %place = getelementptr ptr, ptr @table, i64 %n
  %function = load ptr, ptr %place
  %r = call i64 %function()
  ret i64 %r
}}
define double @wave(double %x) {{
  %y = fmul double %x, 0.37
  %z = call double @cos(double %y)
  %r = fadd double %z, 1234.5
  ret double %r
}}
define ptr @outside() {{
  ret ptr @environ
}}
define <4 x float> @scale(<4 x float> %x) {{
  %r = fmul <4 x float> %x, <float 1.5, float 2.5, float 3.5, float 4.5>
  ret <4 x float> %r
}}
define void @clear(ptr %to, i64 %n) {{
  %r = call ptr @memset(ptr %to, i32 0, i64 %n)
  ret void
}}
"""
NAMES = ["count", "pick", "wave", "outside", "scale", "clear"]


def compiled(target: Target, source: str = HEADER + SOURCE) -> bytes:
    module = binding.parse_assembly(source.format(triple=target.triple))
    return bytes(target.machine().emit_object(module))


def mappings(rights: str) -> list[range]:
    """The parts of this process's memory with some rights, such as ``r-x``."""
    found = []
    with open("/proc/self/maps", encoding="ascii") as maps:
        for line in maps:
            span, actual = line.split()[:2]
            if actual.startswith(rights):
                start, stop = (int(part, 16) for part in span.split("-"))
                found.append(range(start, stop))
    return found


def test_code_constants_data_and_calls() -> None:
    code = _runtime.load_object(compiled(HOST), NAMES)
    count, pick, wave, outside, _, clear = code.addresses
    integer = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
    assert [integer(count)(2), integer(count)(5)] == [42, 47]
    assert [integer(pick)(n) for n in range(4)] == [1, 2, 1, 2]
    assert ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(wave)(2.0) == math.cos(0.74) + 1234.5
    environ = ctypes.addressof(ctypes.c_void_p.in_dll(ctypes.CDLL(None), "environ"))
    assert ctypes.CFUNCTYPE(ctypes.c_uint64)(outside)() == environ
    buffer = ctypes.create_string_buffer(b"abcdef")
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(clear)(ctypes.addressof(buffer), 3)
    assert buffer.raw == b"\0\0\0def\0"


def test_each_load_has_data_of_its_own() -> None:
    integer = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
    first, second = (_runtime.load_object(compiled(HOST), ["count"]) for _ in range(2))
    assert integer(first.addresses[0])(2) == 42
    assert integer(second.addresses[0])(3) == 43


def test_no_memory_is_both_writable_and_executable() -> None:
    object_file = compiled(HOST)
    before = mappings("rwx")
    code = _runtime.load_object(object_file, NAMES)
    assert mappings("rwx") == before
    assert any(code.addresses[0] in span for span in mappings("r-x"))
    assert not any(code.addresses[0] in span for span in mappings("rw-"))


def test_memory_goes_with_the_last_reference() -> None:
    code = compiled(HOST)
    _runtime.load_object(code, NAMES)

    def executable() -> int:
        return sum(map(len, mappings("r-x")))

    before = executable()
    held = [_runtime.load_object(code, NAMES) for _ in range(20)]
    assert executable() > before
    held.clear()
    assert executable() == before


@pytest.mark.parametrize("names", [["missing"], ["one"], ["counter"], ["cos"]])
def test_functions_that_are_not_there(names: list[str]) -> None:
    with pytest.raises(ValueError, match=f"expected the function '{names[0]}'"):
        _runtime.load_object(compiled(HOST), names)


def test_symbols_that_are_nowhere() -> None:
    source = "declare void @nowhere()\ndefine void @f() {{ call void @nowhere() ret void }}"
    with pytest.raises(ValueError, match="'nowhere'"):
        _runtime.load_object(compiled(HOST, HEADER + source), ["f"])


def test_objects_of_another_processor() -> None:
    other = KUNPENG if HOST.architecture == "x86_64" else Target.for_triple("x86_64-unknown-linux-gnu")
    with pytest.raises(ValueError, match="for this processor"):
        _runtime.load_object(compiled(other), NAMES)


@pytest.mark.parametrize("target", [HOST, KUNPENG], ids=["host", "kunpeng"])
def test_truncated_objects(target: Target) -> None:
    code = compiled(target)
    # What is left out at the very end may be padding that nothing refers to.
    for size in [*range(0, len(code) - 8, 7), *range(0, 200)]:
        with pytest.raises(ValueError):
            _runtime.link_object(
                code[:size], NAMES, 1 << 32, dict.fromkeys(("cos", "memset", "environ"), 1 << 40)
            )


@pytest.mark.parametrize("target", [HOST, KUNPENG], ids=["host", "kunpeng"])
def test_damaged_objects(target: Target) -> None:
    """They are refused or linked to something, but what links stays inside its block."""
    code = compiled(target)
    symbols = dict.fromkeys(("cos", "memset", "environ"), 1 << 40)
    linked = _runtime.link_object(code, NAMES, 1 << 32, symbols)
    choose = random.Random(5)
    (table,) = struct.unpack_from("<Q", code, 40)  # of section headers
    refused = 0
    for _ in range(6000):
        damaged = bytearray(code)
        # Headers more often than code.
        start = choose.choice((0, table, table, choose.randrange(len(code))))
        for _ in range(choose.randrange(1, 4)):
            at = min(len(code) - 1, start + choose.randrange(64 if start == 0 else len(code) - start))
            damaged[at] ^= 1 << choose.randrange(8) if choose.random() < 0.7 else choose.randrange(256)
        try:
            block, functions = _runtime.link_object(bytes(damaged), NAMES, 1 << 32, symbols)
        except (ValueError, MemoryError):
            refused += 1
        else:
            assert all(f < len(block) for f in functions)
    assert 500 < refused < 6000
    assert _runtime.link_object(code, NAMES, 1 << 32, symbols) == linked


# --- AArch64, instruction by instruction ------------------------------------------------------------------


def aarch64(source: str, address: int, symbols: dict[str, int]) -> tuple[list[int], int]:
    """The instructions of the function ``f`` once linked, and its address."""
    block, (at,) = _runtime.link_object(compiled(KUNPENG, HEADER + source), ["f"], address, symbols)
    return list(struct.unpack_from("<16I", block.ljust(at + 64, b"\0"), at)), address + at


def signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


def adrp_target(word: int, here: int) -> int:
    assert word & 0x9F000000 == 0x90000000, hex(word)
    pages = signed((word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3, 21)
    return (here & ~4095) + (pages << 12)


@pytest.mark.parametrize("distance", [1 << 20, -(1 << 20) + 4096, 1 << 40])
def test_aarch64_calls(distance: int) -> None:
    address = 1 << 41
    source = "declare void @g()\ndefine void @f() {{ call void @g() call void @g() ret void }}"
    words, at = aarch64(source, address, {"g": address + distance})
    calls = [(n, word) for n, word in enumerate(words) if word >> 26 == 0b100101]
    assert len(calls) == 2
    for n, word in calls:
        target = at + 4 * n + 4 * signed(word & 0x3FFFFFF, 26)
        if abs(distance) < 1 << 27:
            assert target == address + distance
        else:
            # A stub inside the block: ldr x16, #8; br x16; the address.
            block, _ = _runtime.link_object(
                compiled(KUNPENG, HEADER + source),
                ["f"],
                address,
                {"g": address + distance},
            )
            assert struct.unpack_from("<IIQ", block, target - address) == (
                0x58000050,
                0xD61F0200,
                address + distance,
            )


@pytest.mark.parametrize(
    ("kind", "scale"),
    [("i8", 0), ("i16", 1), ("i32", 2), ("i64", 3), ("<4 x float>", 4), ("double", 3)],
)
def test_aarch64_loads_of_data(kind: str, scale: int) -> None:
    address = 0x7F12345000
    source = (
        f"@padding = internal global [3 x i64] [i64 1, i64 2, i64 3]\n@data = internal global {kind} "
        f"{'<float 1., float 2., float 3., float 4.>' if '<' in kind else '7.0' if kind == 'double' else 7}\n"
        f"define {kind} @f(i64 %x) {{{{ store i64 %x, ptr @padding %r = load volatile {kind}, ptr @data "
        f"ret {kind} %r }}}}"
    )
    block, (at,) = _runtime.link_object(compiled(KUNPENG, HEADER + source), ["f"], address, {})
    words = struct.unpack_from("<6I", block, at)
    expected = (
        struct.pack("<4f", 1, 2, 3, 4) if "<" in kind else struct.pack("<d", 7) if kind == "double" else b"\7"
    )
    data = address + block.rindex(expected)
    pages = {
        w & 31: adrp_target(w, address + at + 4 * n)
        for n, w in enumerate(words)
        if w & 0x9F000000 == 0x90000000
    }
    assert data & ~4095 in pages.values()
    # The load with an unsigned offset, scaled by its size.
    loads = [w for w in words if w >> 24 & 0x3F in (0x39, 0x3D) and w >> 22 & 3]
    assert any(
        pages[w >> 5 & 31] + ((w >> 10 & 0xFFF) << scale) == data for w in loads if w >> 5 & 31 in pages
    )


def test_aarch64_addresses_from_the_table() -> None:
    address, far = 0x7F12345000, 1 << 50
    source = "@data = external global i64\ndefine ptr @f() {{ ret ptr @data }}"
    block, (at,) = _runtime.link_object(compiled(KUNPENG, HEADER + source), ["f"], address, {"data": far})
    page, load = struct.unpack_from("<2I", block, at)
    assert load & 0xFFC00000 == 0xF9400000
    slot = adrp_target(page, address + at) + ((load >> 10 & 0xFFF) << 3)
    assert struct.unpack_from("<Q", block, slot - address) == (far,)


def test_aarch64_pointers_in_data() -> None:
    address = 0x7F12345000
    block, (at,) = _runtime.link_object(
        compiled(KUNPENG), ["pick"], address, dict.fromkeys(("cos", "memset", "environ"), 1 << 40)
    )
    assert at < len(block)
    inside = [
        v
        for (v,) in struct.iter_unpack("<Q", block[: len(block) // 8 * 8])
        if address <= v < address + len(block)
    ]
    assert len(inside) == 4 and len(set(inside)) == 2
