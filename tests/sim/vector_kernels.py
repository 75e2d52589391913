"""Small kernels around one instruction each, compiled many to a translation unit, and what NumPy expects of them.

A kernel loads three arrays into UB, `a`, `b` and `d`, runs its body on them and stores `d`. The body sees
`a`, `b`, `d` (typed as it says), a scratch area `t` and the parameters `p`.
"""

# ruff: noqa: E501 (kernels in C++)
from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import numpy.typing as npt

from pyasc.backend.ascend import chip
from pyasc.backend.sim.simulator import Finding, Module, Simulator

Array = npt.NDArray[np.generic]

TYPES = {
    "half": np.float16,
    "bfloat16_t": ml_dtypes.bfloat16,
    "float": np.float32,
    "int8_t": np.int8,
    "uint8_t": np.uint8,
    "int16_t": np.int16,
    "uint16_t": np.uint16,
    "int32_t": np.int32,
    "uint32_t": np.uint32,
    "int64_t": np.int64,
    "uint64_t": np.uint64,
}

HEAD = """#include "kernel_operator.h"
using namespace AscendC;

struct Parameters {
    int32_t form, count, repeats, extra;
    int32_t dst_block, src0_block, src1_block, dst_repeat, src0_repeat, src1_repeat;
    uint64_t mask[2];
    uint64_t scalar;
};
template <typename T> T scalar_of(const Parameters& p) { T x; memcpy(&x, &p.scalar, sizeof(T)); return x; }

struct Tensors {
    TPipe pipe;
    TBuf<TPosition::VECCALC> ub;
    GlobalTensor<uint8_t> ga, gb, gd;
    int32_t na, nb, nd;
    Tensors(GM_ADDR x, GM_ADDR y, GM_ADDR z, int32_t a, int32_t b, int32_t d) : na(a), nb(b), nd(d) {
        SetCtrlSpr<48, 48>(1);
        pipe.InitBuffer(ub, 196608);
        ga.SetGlobalBuffer(x, na); gb.SetGlobalBuffer(y, nb); gd.SetGlobalBuffer(z, nd);
        DataCopy(at<uint8_t>(0, na), ga, na);
        DataCopy(at<uint8_t>(49152, nb), gb, nb);
        DataCopy(at<uint8_t>(98304, nd), gd, nd);
        PipeBarrier<PIPE_ALL>();
    }
    template <typename T> LocalTensor<T> at(int32_t offset, int32_t bytes) {
        return ub.GetWithOffset<T>(bytes / sizeof(T), offset);
    }
    void store() {
        PipeBarrier<PIPE_ALL>();
        DataCopy(gd, at<uint8_t>(98304, nd), nd);
    }
};
"""


class Parameters(ctypes.Structure):
    """The numbers a body gets as `p`."""

    _fields_ = (
        ("form", ctypes.c_int32),
        ("count", ctypes.c_int32),
        ("repeats", ctypes.c_int32),
        ("extra", ctypes.c_int32),
        ("dst_block", ctypes.c_int32),
        ("src0_block", ctypes.c_int32),
        ("src1_block", ctypes.c_int32),
        ("dst_repeat", ctypes.c_int32),
        ("src0_repeat", ctypes.c_int32),
        ("src1_repeat", ctypes.c_int32),
        ("mask", ctypes.c_uint64 * 2),
        ("scalar", ctypes.c_uint64),
    )


COUNT, PREFIX, BITS, OUTSIDE, COUNTER = range(5)


@dataclass(frozen=True)
class Form:
    """How the elements of an instruction are chosen."""

    form: int = COUNT
    count: int = 0
    repeats: int = 1
    mask: tuple[int, int] = (0, 0)
    blocks: tuple[int, int, int] = (1, 1, 1)
    steps: tuple[int, int, int] = (8, 8, 8)
    extra: int = 0

    def parameters(self, scalar: int = 0) -> Parameters:
        return Parameters(
            self.form, self.count, self.repeats, self.extra, *self.blocks, *self.steps,
            (ctypes.c_uint64 * 2)(*self.mask), scalar,
        )  # fmt: skip

    def lanes(self, per_repeat: int) -> list[tuple[int, int]]:
        """Repeat and lane of each element, in order."""
        if self.form in (COUNT, COUNTER):
            return [divmod(i, per_repeat) for i in range(self.count)]
        if self.form == PREFIX:
            chosen = list(range(self.count))
        else:
            bits = self.mask[0] | self.mask[1] << 64
            chosen = [lane for lane in range(per_repeat) if bits >> lane & 1]
        return [(repeat, lane) for repeat in range(self.repeats) for lane in chosen]

    def index(self, operand: int, itemsize: int, per_repeat: int) -> npt.NDArray[np.int64]:
        """The elements of an operand (0 the destination) that the instruction touches."""
        lanes = self.lanes(per_repeat)
        if self.form == COUNT:
            return np.arange(self.count)
        per_block = 32 // itemsize
        block, step = self.blocks[operand], self.steps[operand]
        return np.array(
            [
                r * step * per_block + lane // per_block * block * per_block + lane % per_block
                for r, lane in lanes
            ],
            dtype=np.int64,
        )


def padded(array: Array) -> npt.NDArray[np.uint8]:
    """The bytes of an array, up to a multiple of 32."""
    raw = np.ascontiguousarray(array).view(np.uint8).reshape(-1)
    return np.concatenate([raw, np.zeros(-raw.size % 32, np.uint8)])


class Kernels:
    """Kernels by name.

    Parameters
    ----------
    bodies : mapping of str to str
    head : str
        What goes before the kernels.
    """

    def __init__(self, bodies: Mapping[str, str], head: str = "") -> None:
        text = HEAD + head
        for name, body in bodies.items():
            text += f"""
extern "C" __global__ __aicore__ void run_{name}(GM_ADDR x, GM_ADDR y, GM_ADDR z, int32_t na, int32_t nb, int32_t nd,
                                             Parameters p) {{
    Tensors tensors(x, y, z, na, nb, nd);
    (void)p;
    {body}
    tensors.store();
}}
"""
        self.source = text
        self.module: Module = Simulator(chip.load("910B1"), None).compile(text, "vectors")

    def run(
        self, name: str, a: Array, b: Array, d: Array, form: Form | None = None, scalar: int = 0
    ) -> Array:
        """`d` as the kernel leaves it."""
        x, y, z = padded(a), padded(b), padded(d)
        sizes = [ctypes.c_int32(each.size) for each in (x, y, z)]
        self.module.run(1, [x, y, z, *sizes, (form or Form()).parameters(scalar)], kernel=f"run_{name}")
        return z[: d.nbytes].view(d.dtype).reshape(d.shape)

    def fails(
        self, name: str, a: Array, b: Array, d: Array, form: Form | None = None, scalar: int = 0
    ) -> Finding:
        """The finding of a kernel that has one."""
        try:
            self.run(name, a, b, d, form, scalar)
        except Finding as error:
            return error
        raise AssertionError(f"{name} found nothing")


def operands(a: str, b: str, d: str) -> str:
    """Declares the operands of a body with their types."""
    return (
        f"auto a = tensors.at<{a}>(0, na); auto b = tensors.at<{b}>(49152, nb); "
        f"auto d = tensors.at<{d}>(98304, nd); (void)a; (void)b; (void)d;\n"
    )


def bits_of(value: object, dtype: npt.DTypeLike) -> int:
    """The bits of a scalar operand."""
    raw = np.array([value]).astype(dtype).tobytes()
    return int.from_bytes(raw, "little")


def with_dtype(dtype: npt.DTypeLike, count: int, seed: int = 0) -> Array:
    """Numbers of a dtype with the awkward ones among them."""
    random = np.random.default_rng(seed)
    kind = np.dtype(dtype)
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        small = random.integers(max(limits.min, -200), 200, count)
        wild = random.integers(limits.min, limits.max, count, endpoint=True, dtype=kind)
        return np.where(random.random(count) < 0.5, small, wild).astype(kind)
    values = (random.standard_normal(count) * 10.0 ** random.integers(-3, 4, count)).astype(kind)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0], dtype=kind)
    values[:: max(1, count // 14)][: special.size] = special[: values[:: max(1, count // 14)].size]
    return values


def same(found: Array, expected: Array, zeros: bool = True) -> None:
    """Equal bit by bit, but for which NaN it is and, with `zeros`, the sign of zeros."""
    if np.dtype(expected.dtype).kind in "iub":
        np.testing.assert_array_equal(found, expected)
        return
    wide = np.float64 if expected.dtype.itemsize > 4 else np.float32
    f, e = found.astype(wide), expected.astype(wide)
    np.testing.assert_array_equal(f, e)
    if not zeros:
        np.testing.assert_array_equal(np.signbit(f), np.signbit(e))


def each_form(per_repeat: int, forms: Iterable[Callable[[int], Form]] = ()) -> list[Form]:
    """Count forms with every kind of tail, masks, strides, masks from outside and counter mode."""
    counts = [1, 2, 7, per_repeat - 1, per_repeat, per_repeat + 1, 2 * per_repeat, 257]
    every_third = sum(1 << i for i in range(0, 128, 3))
    low, high = every_third & (2**64 - 1), every_third >> 64
    return [
        *(Form(COUNT, count) for count in counts),
        Form(PREFIX, per_repeat, 2),
        Form(PREFIX, per_repeat // 2 + 1, 3),
        Form(PREFIX, 5, 2, blocks=(1, 1, 1), steps=(8, 0, 8)),
        Form(PREFIX, per_repeat, 2, blocks=(2, 1, 2), steps=(16, 8, 16)),
        Form(PREFIX, per_repeat - 3, 2, blocks=(1, 0, 1), steps=(8, 1, 0)),
        Form(BITS, 0, 2, (low, high if per_repeat > 64 else 0)),
        Form(BITS, 0, 3, (1 << 63 | 1, 1 if per_repeat > 64 else 0), steps=(9, 8, 10)),
        Form(OUTSIDE, 0, 2, (low, high if per_repeat > 64 else 0)),
        Form(COUNTER, per_repeat + 9, 1, steps=(8, 8, 8)),
        Form(COUNTER, 2 * per_repeat + 1, 1, blocks=(1, 2, 1), steps=(9, 16, 8)),
        *(make(per_repeat) for make in forms),
    ]
