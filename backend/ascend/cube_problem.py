"""A matrix product as the cube kernels see it, and what may be switched off in a kernel for it."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from ...ops.errors import ArgumentError
from .text import CTYPE
from .tile import BYTES, MEMORY

_DTYPES = ("float16", "bfloat16", "float32", "int8", "int32")
SIZES = {name: BYTES[MEMORY[name]] for name in _DTYPES}
CTYPES = {name: CTYPE[MEMORY[name]] for name in _DTYPES}

# What Fixpipe turns accumulators into, and how it is told so.
RESULTS = {
    ("float32", "float32"): "NoQuant",
    ("float32", "float16"): "F322F16",
    ("float32", "bfloat16"): "F322BF16",
    ("int32", "int32"): "NoQuant",
    ("int32", "float16"): "DEQF16",
}

# Fields of the struct that the kernel receives, in their order.
FIELDS = (
    ("int64_t", "aBatch", "elements from one matrix of A to the next"),
    ("int64_t", "bBatch", ""),
    ("int64_t", "cBatch", ""),
    ("int64_t", "biasBatch", ""),
    ("int32_t", "m", ""),
    ("int32_t", "n", ""),
    ("int32_t", "k", ""),
    ("int32_t", "batch", ""),
    ("int32_t", "aPitch", "elements from one row in memory to the next"),
    ("int32_t", "bPitch", ""),
    ("int32_t", "cPitch", ""),
    ("int32_t", "batchCores", "the cores: k × batch × m × n"),
    ("int32_t", "mCores", ""),
    ("int32_t", "nCores", ""),
    ("int32_t", "rounds", "times the cores share out a part of n whose operands stay in L2"),
    ("int32_t", "mTiles", "tiles of a core in a round"),
    ("int32_t", "nTiles", ""),
    ("int32_t", "shareM", "tiles start at multiples of these"),
    ("int32_t", "shareN", ""),
    ("int32_t", "kCores", "cores that each take a part of k"),
    ("int32_t", "baseM", "the largest tile of C, and a step along k, in L0"),
    ("int32_t", "baseN", ""),
    ("int32_t", "baseK", ""),
    ("int32_t", "packetA", "of k in one copy into L1: some steps"),
    ("int32_t", "packetB", ""),
    ("int32_t", "partsA", "copies that bring a packet, between the other operand's"),
    ("int32_t", "partsB", ""),
    ("int32_t", "onceA", "whether the operand is read once"),
    ("int32_t", "onceB", ""),
)


@dataclass(frozen=True, slots=True)
class Contraction:
    """C[b] = A[b] · B[b], with a bias row added and negative values cut off as wanted.

    Attributes
    ----------
    m, n, k, batch : int
        Extents at the sizes that stand for the bucket.
    dtype : str
        Of both operands: ``"float16"``, ``"bfloat16"``, ``"float32"`` or ``"int8"``. Sums are float32, and
        of int8 they are int32.
    out : str
        Dtype of C.
    transpose_a, transpose_b : bool
        Whether A lies in memory as k × m, and B as n × k.
    a_pitch, b_pitch : int
        Elements from one row in memory to the next at the sizes that stand for the bucket; 0: rows touch.
    bias : str
        Dtype of a row of n elements that is added to each row: ``"float32"`` or ``"float16"``, for int8
        ``"int32"``; empty: none.
    relu : bool
    names : tuple of str
        What the user's program calls A, B, C and the bias.
    """

    m: int
    n: int
    k: int
    batch: int = 1
    dtype: str = "float16"
    out: str = "float32"
    transpose_a: bool = False
    transpose_b: bool = False
    a_pitch: int = 0
    b_pitch: int = 0
    bias: str = ""
    relu: bool = False
    names: tuple[str, str, str, str] = ("a", "b", "c", "bias")

    def __post_init__(self) -> None:
        if min(self.m, self.n, self.k, self.batch) < 1:
            raise ArgumentError(
                f"[matmul] expected extents of at least 1, given m {self.m}, n {self.n}, k {self.k}, "
                f"batch {self.batch}"
            )
        if self.dtype not in ("float16", "bfloat16", "float32", "int8"):
            raise ArgumentError(f"[matmul] expected operands that a cube core takes, given {self.dtype}")
        if (self.accumulator, self.out) not in RESULTS:
            raise ArgumentError(
                f"[matmul] expected a result that {self.accumulator} becomes, given {self.out}"
            )
        if self.bias and self.bias not in ("float32", "float16") and self.accumulator == "float32":
            raise ArgumentError(f"[matmul] expected a float32 or float16 bias, given {self.bias}")
        if self.bias and self.bias != "int32" and self.accumulator == "int32":
            raise ArgumentError(f"[matmul] expected an int32 bias, given {self.bias}")

    @property
    def accumulator(self) -> str:
        """Dtype of the sums."""
        return "int32" if self.dtype == "int8" else "float32"

    @property
    def size(self) -> int:
        """Bytes of an operand's element."""
        return SIZES[self.dtype]

    @property
    def adds_up(self) -> bool:
        """Whether sums over parts of k may be added in C itself: it holds what they are, and nothing else."""
        return self.out == self.accumulator and not self.bias and not self.relu

    @property
    def block(self) -> int:
        """Operand elements in a block of 32 bytes (C0)."""
        return 32 // self.size

    @property
    def row_unit(self) -> int:
        """Rows of an A tile are loaded in multiples of this."""
        return 32 if self.dtype == "int8" and self.transpose_a else 16

    @property
    def column_unit(self) -> int:
        """Columns of a B tile are loaded in multiples of this."""
        return 32 if self.dtype == "int8" and not self.transpose_b else 16

    @property
    def depth_unit(self) -> int:
        """Steps along k are multiples of this."""
        return 32 if self.dtype == "int8" else 16

    def pitches(self) -> tuple[int, int]:
        """Elements from row to row of A and B in memory."""
        a = self.a_pitch or (self.m if self.transpose_a else self.k)
        b = self.b_pitch or (self.k if self.transpose_b else self.n)
        return a, b


@dataclass(frozen=True, slots=True)
class CubeOptions:
    """What makes a kernel fast, each to be switched off so that its worth can be measured.

    Attributes
    ----------
    double_buffer_l1, double_buffer_l0, double_buffer_l0c : bool
        Two buffers, so that a copy and what uses the last one overlap. Two results in L0C halve the largest
        tile: with the unit flag one is enough.
    l2_blocking : bool
        Work in rounds whose operands stay in L2.
    large_packets : bool
        Copy into L1 what several steps along k need at once.
    unit_flag : bool
        Let Fixpipe take a result away fractal by fractal while the next one is begun.
    cache_hint : bool
        Let an operand that is read once go past L2.
    split_k : bool
        Where C is small, let several cores each take a part of k; they add their sums one after another,
        always in the same order.
    tile : tuple of int
        Rows, columns and depth that a tile in L0 has at most; () for what is fastest.
    """

    double_buffer_l1: bool = True
    double_buffer_l0: bool = True
    double_buffer_l0c: bool = False
    l2_blocking: bool = True
    large_packets: bool = True
    unit_flag: bool = True
    cache_hint: bool = True
    split_k: bool = True
    tile: tuple[int, ...] = field(default=(), repr=False)

    @classmethod
    def none(cls, tile: tuple[int, ...] = ()) -> CubeOptions:
        """All of them off, with tiles of the fastest size or of a given one."""
        off: dict[str, Any] = {option.name: False for option in fields(cls)}
        return cls(**{**off, "tile": tile})
