"""Kernels of a pretended device for tests of the executor, and steps of programs that launch them."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from standin.toolkit import Toolkit
from test_standin import SCALE, compile_cce, link

from pyasc.backend import _runtime
from pyasc.backend._runtime import Buffer, DeviceCode, Program

N = 1024
BLOCKS = 4
NBYTES = 4 * N
F32 = np.dtype(np.float32)
Array = np.ndarray[Any, Any]

# Each block but the first reports a fault with its number and a value.
REPORT = """
extern "C" __global__ __aicore__ void report(GM_ADDR status_out, int64_t code, int64_t value) {
    GlobalTensor<int64_t> status;
    status.SetGlobalBuffer((__gm__ int64_t*)status_out);
    const int64_t slot = 8 * GetBlockIdx();
    if (GetBlockIdx() > 0 && status.GetValue(slot) == 0) {
        status.SetValue(slot, code + GetBlockIdx());
        status.SetValue(slot + 1, value);
        DataCacheCleanAndInvalid<int64_t, CacheLine::SINGLE_CACHE_LINE>(status[slot]);
    }
}
"""

# A launch that writes its block of arguments to an address of the host, which is the first thing in it.
WITNESS = """#include <string.h>
int pyasc_launch_witness(unsigned blocks, void* stream, const void* arguments) {
    void* where;
    memcpy(&where, arguments, 8);
    memcpy(where, arguments, 8 * blocks);
    return 0;
}
"""


@dataclass(frozen=True)
class Kernels:
    """``scale``: z = factor * x, in `BLOCKS` parts; ``report``: faults."""

    scale: DeviceCode
    report: DeviceCode

    def scaled(
        self,
        program: Program,
        source: int,
        target: int,
        scalar: int = 0,
        *,
        lane: int = 0,
        label: int = 0,
        count: int = N,
        blocks: int = BLOCKS,
    ) -> None:
        """A step: target = source times the run's scalar."""
        program.device_launch(
            self.scale, 0, lane, blocks, struct.pack("<QQqfi", 0, 0, count // BLOCKS, 0, 0),
            [(0, source, 0), (8, target, 0)], [(24, 4, scalar, "bits")], [target], None, -1, label,
        )  # fmt: skip

    def reported(self, program: Program, code: int, value: int, label: int) -> None:
        """A step that reports faults ``code + 1`` …"""
        program.device_launch(
            self.report, 0, 0, BLOCKS, struct.pack("<Qqq", 0, code, value), [], [], [], None, 0, label
        )

    def chain(self, length: int, *, lanes: tuple[int, ...] = (0,), count: int = N) -> Program:
        """A program whose output is its input times the scalar, `length` times."""
        program = Program(1, length + 1, [length])
        program.upload(0, 0)
        for k in range(length):
            program.device_allocate(k + 1, 4 * count, 0)
            self.scaled(program, k, k + 1, lane=lanes[k % len(lanes)], label=k, count=count)
            if k:
                program.free(k)
        return program


def compiled(toolkit: Toolkit, folder: Path) -> Kernels:
    done = compile_cce(toolkit, folder, SCALE + REPORT)
    assert done.returncode == 0, done.stderr
    binary = link(toolkit, folder, "vec")
    return Kernels(DeviceCode(binary, "vector", "scale"), DeviceCode(binary, "vector", "report"))


def bits(*values: float) -> bytes:
    """Scalars of a run."""
    return b"".join(np.float32(v).tobytes() + bytes(4) for v in values)


def buffer_of(array: Array) -> Buffer:
    buffer = _runtime.allocate(array.nbytes)
    _runtime.array(buffer, array.shape, array.dtype, writable=True)[...] = array
    return buffer


def values(buffer: Buffer, dtype: np.dtype[Any] = F32) -> Array:
    return np.array(_runtime.array(buffer, (buffer.nbytes // dtype.itemsize,), dtype))
