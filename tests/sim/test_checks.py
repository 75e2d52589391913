"""Each kind of finding: a kernel with one fault, and the same kernel without it.

A line that ends in ``// good`` is only in the kernel without the fault, one in ``// bad`` only in the other,
and the finding is at the line marked ``// here``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pytest

from pyasc.backend.ascend import chip
from pyasc.backend.sim.simulator import Finding, Module, Simulator

COUNT = 2048  # elements of each argument
BEGIN = """    GlobalTensor<float> gx, gy, gz;
    gx.SetGlobalBuffer(reinterpret_cast<float*>(x), {count});
    gy.SetGlobalBuffer(reinterpret_cast<float*>(y), {count});
    gz.SetGlobalBuffer(reinterpret_cast<float*>(z));
    const int32_t block = static_cast<int32_t>(GetBlockIdx());
"""
TENSORS = """    TPipe pipe;
    TBuf<TPosition::VECCALC> ub;
    pipe.InitBuffer(ub, 16384);
    LocalTensor<float> a = ub.GetWithOffset<float>(256, 0);
    LocalTensor<float> b = ub.GetWithOffset<float>(256, 1024);
    LocalTensor<float> c = ub.GetWithOffset<float>(256, 2048);
"""


@dataclass(frozen=True)
class Case:
    kind: str
    message: str
    body: str
    blocks: int = 1
    cores: str = "vector"
    begin: str = BEGIN + TENSORS


CASES = {
    "load_then_compute": Case(
        "race",
        r"\[Adds\] .*the read of UB byte 0 on pipe V .* after DataCopy at .*wrote it on pipe MTE2.*MTE2_V",
        """
        DataCopy(a, gx, 256);
        SetFlag<HardEvent::MTE2_V>(0);  // good
        WaitFlag<HardEvent::MTE2_V>(0);  // good
        Adds(b, a, 1.0f, 256);  // here
        """,
    ),
    "compute_then_store": Case(
        "race",
        r"\[DataCopy\] .*the read of UB byte 0 on pipe MTE3 .*Duplicate.*V_MTE3",
        """
        Duplicate(a, 1.0f, 256);
        SetFlag<HardEvent::V_MTE3>(1);  // good
        WaitFlag<HardEvent::V_MTE3>(1);  // good
        DataCopy(gy, a, 256);  // here
        """,
    ),
    "load_over_what_is_read": Case(
        "race",
        r"\[DataCopy\] .*the write of UB byte 0 on pipe MTE2 .*Adds.*which read it on pipe V.*V_MTE2",
        """
        DataCopy(a, gx, 256);
        SetFlag<HardEvent::MTE2_V>(0);
        WaitFlag<HardEvent::MTE2_V>(0);
        Adds(b, a, 1.0f, 256);
        SetFlag<HardEvent::V_MTE2>(0);  // good
        WaitFlag<HardEvent::V_MTE2>(0);  // good
        DataCopy(a, gx[256], 256);  // here
        """,
    ),
    "compute_over_what_is_stored": Case(
        "race",
        r"\[Duplicate\] .*the write of UB byte 0 on pipe V .*DataCopy.*which read it on pipe MTE3.*MTE3_V",
        """
        Duplicate(a, 1.0f, 256);
        SetFlag<HardEvent::V_MTE3>(0);
        WaitFlag<HardEvent::V_MTE3>(0);
        DataCopy(gy, a, 256);
        PipeBarrier<PIPE_ALL>();  // good
        Duplicate(a, 2.0f, 256);  // here
        """,
    ),
    "event_of_the_other_half": Case(
        "race",
        r"\[Adds\] .*UB byte 1024 .*MTE2_V",
        """
        DataCopy(a, gx, 256);
        SetFlag<HardEvent::MTE2_V>(0);
        DataCopy(b, gx[256], 256);
        SetFlag<HardEvent::MTE2_V>(1);
        WaitFlag<HardEvent::MTE2_V>(0);
        Adds(c, a, 1.0f, 256);
        WaitFlag<HardEvent::MTE2_V>(1);  // good
        Adds(c, b, 1.0f, 256);  // here
        WaitFlag<HardEvent::MTE2_V>(1);  // bad
        """,
    ),
    "read_back_from_global_memory": Case(
        "race",
        r"\[DataCopy\] .*the read of byte 0 of argument 1 on pipe MTE2 .*wrote it on pipe MTE3.*MTE3_MTE2",
        """
        Duplicate(a, 1.0f, 256);
        SetFlag<HardEvent::V_MTE3>(0);
        WaitFlag<HardEvent::V_MTE3>(0);
        DataCopy(gy, a, 256);
        SetFlag<HardEvent::MTE3_MTE2>(0);  // good
        WaitFlag<HardEvent::MTE3_MTE2>(0);  // good
        DataCopy(b, gy, 256);  // here
        """,
    ),
    "write_back_over_what_is_loaded": Case(
        "race",
        r"\[DataCopy\] .*the write of byte 0 of argument 1 on pipe MTE3 .*read it on pipe MTE2.*MTE2_MTE3",
        """
        Duplicate(a, 1.0f, 256);
        SetFlag<HardEvent::V_MTE3>(0);
        WaitFlag<HardEvent::V_MTE3>(0);
        DataCopy(b, gy, 256);
        SetFlag<HardEvent::MTE2_MTE3>(0);  // good
        WaitFlag<HardEvent::MTE2_MTE3>(0);  // good
        DataCopy(gy, a, 256);  // here
        """,
    ),
    "read_back_after_all_cores_signalled": Case(
        "race",
        r"\[DataCopy\] .*the read of byte 0 of argument 1 on pipe MTE2 .*MTE3_MTE2",
        """
        Duplicate(a, 1.0f, 256);
        SetFlag<HardEvent::V_MTE3>(0);
        WaitFlag<HardEvent::V_MTE3>(0);
        DataCopy(gy[block * 256], a, 256);
        CrossCoreSetFlag<0, PIPE_MTE3>(1);  // good
        CrossCoreSetFlag<0, PIPE_V>(1);  // bad
        CrossCoreWaitFlag(1);
        DataCopy(b, gy[block * 256], 256);  // here
        """,
        blocks=2,
    ),
    "block_before_is_not_waited_for": Case(
        "race",
        r"\[DataCopy\] The written byte 0 of argument 1 is also written by .* of vector core 0 of 2",
        """
        LocalTensor<int32_t> workspace = ub.GetWithOffset<int32_t>(64, 4096);
        GlobalTensor<int32_t> signals;
        signals.SetGlobalBuffer(reinterpret_cast<int32_t*>(z));
        Duplicate(a, 1.0f, 256);
        PipeBarrier<PIPE_ALL>();
        WaitPreBlock(signals, workspace);  // good
        DataCopy(gy, a, 256);  // here
        NotifyNextBlock(signals, workspace);  // good
        """,
        blocks=2,
    ),
    "partly_written_block_is_stored": Case(
        "uninitialised",
        r"\[DataCopy\] src: .*given UB byte 32 of the bytes 0 to 64",
        """
        Duplicate(a, 1.0f, 1);
        SetFlag<HardEvent::V_MTE3>(0);
        WaitFlag<HardEvent::V_MTE3>(0);
        DataCopy(gy, a, 8);  // good
        DataCopy(gy, a, 16);  // here bad
        """,
    ),
    "uninitialised": Case(
        "uninitialised",
        r"\[Add\] src1: Expected bytes that were written before, given UB byte 1920",
        """
        Duplicate(a, 1.0f, 256);
        Duplicate(b, 1.0f, 224);
        Duplicate(b, 1.0f, 256);  // good
        Add(c, a, b, 256);  // here
        """,
    ),
    "past_the_tensor": Case(
        "bounds",
        r"\[Adds\] dst: Expected bytes within the tensor's 1024 .*given bytes 0 to 1056",
        """
        LocalTensor<float> d = ub.GetWithOffset<float>(512, 4096);
        Duplicate(d, 1.0f, 512);
        Adds(c, d, 1.0f, 256);  // good
        Adds(c, d, 1.0f, 264);  // here bad
        """,
    ),
    "past_the_buffer": Case(
        "bounds",
        r"\[Get\] Expected a tensor within the buffer's 16384 bytes, given bytes 16000 to 17024",
        """
        LocalTensor<float> d = ub.GetWithOffset<float>(96, 16000);  // good
        LocalTensor<float> d = ub.GetWithOffset<float>(256, 16000);  // here bad
        Duplicate(d, 1.0f, 96);
        """,
    ),
    "misaligned_address": Case(
        "alignment",
        r"\[Adds\] src: Expected an address that is a multiple of 32 bytes, given UB at 4",
        """
        Duplicate(a, 1.0f, 256);
        Adds(b, a[8], 1.0f, 64);  // good
        Adds(b, a[1], 1.0f, 64);  // here bad
        """,
    ),
    "misaligned_length": Case(
        "alignment|argument",
        r"\[DataCopy\] .*32",
        """
        DataCopy(a, gx, 96);  // good
        DataCopy(a, gx, 100);  // here bad
        """,
    ),
    "too_much_unified_buffer": Case(
        "capacity",
        r"\[InitBuffer\] VECCALC: .* within the 196608 bytes of UB, given 1 of 131072 bytes after 81920",
        """
        TPipe pipe;
        TBuf<TPosition::VECCALC> first, second;
        pipe.InitBuffer(first, 65536);  // good
        pipe.InitBuffer(first, 81920);  // bad
        pipe.InitBuffer(second, 131072);  // here
        """,
        begin=BEGIN,
    ),
    "static_tensor_past_the_end": Case(
        "capacity",
        r"\[LocalTensor\] Expected a tensor within the 196608 bytes of UB, given bytes 196352 to 197376",
        """
        LocalTensor<float> last(TPosition::VECCALC, 196352, 64);  // good
        LocalTensor<float> last(TPosition::VECCALC, 196352, 256);  // here bad
        Duplicate(last, 1.0f, 64);
        """,
        begin=BEGIN,
    ),
    "past_the_argument": Case(
        "bounds",
        r"\[DataCopy\] dst: Expected bytes within the 8192 of argument 2, given bytes 7680 to 8704",
        """
        Duplicate(a, 1.0f, 256);
        SetFlag<HardEvent::V_MTE3>(0);
        WaitFlag<HardEvent::V_MTE3>(0);
        DataCopy(gz[1792], a, 256);  // good
        DataCopy(gz[1920], a, 256);  // here bad
        """,
    ),
    "past_the_global_tensor": Case(
        "bounds",
        r"\[DataCopy\] src: Expected bytes within the global tensor's 2048, given bytes 0 to 4096",
        """
        gx.SetGlobalBuffer(reinterpret_cast<float*>(x), 512);
        LocalTensor<float> d = ub.GetWithOffset<float>(1024, 4096);
        DataCopy(d, gx, 512);  // good
        DataCopy(d, gx, 1024);  // here bad
        """,
    ),
    "before_the_argument": Case(
        "bounds",
        r"\[GetValue\] .*argument",
        """
        gz.SetGlobalBuffer(reinterpret_cast<float*>(z) + 1);  // good
        gz.SetGlobalBuffer(reinterpret_cast<float*>(z) + 2048);  // bad
        gz.GetValue(0);  // here
        """,
    ),
    "no_global_buffer": Case(
        "bounds",
        r"\[DataCopy\] src: .*SetGlobalBuffer was not called",
        """
        GlobalTensor<float> g;
        g.SetGlobalBuffer(reinterpret_cast<float*>(x));  // good
        DataCopy(a, g, 256);  // here
        """,
    ),
    "no_memory": Case(
        "position",
        r"\[Duplicate\] dst: Expected a tensor that has memory, given none",
        """
        LocalTensor<float> t;
        t = a;  // good
        Duplicate(t, 1.0f, 256);  // here
        """,
    ),
    "cube_memory_on_a_vector_core": Case(
        "position",
        r"\[Duplicate\] dst: Expected .* given .* in L1 \(A1\)",
        """
        LocalTensor<float> t(TPosition::VECCALC, 0, 256);  // good
        LocalTensor<float> t(TPosition::A1, 0, 256);  // bad
        Duplicate(t, 1.0f, 256);  // here
        """,
        begin=BEGIN,
    ),
    "cube_queue_on_a_vector_core": Case(
        "position",
        r"\[InitBuffer\] Expected a position of a vector core, given A1",
        """
        TPipe pipe;
        TQue<TPosition::VECIN, 1> queue;  // good
        TQue<TPosition::A1, 1> queue;  // bad
        pipe.InitBuffer(queue, 1, 1024);  // here
        """,
        begin=BEGIN,
    ),
    "vector_instruction_on_a_cube_core": Case(
        "position",
        r"\[Duplicate\] Expected an instruction of a cube core, given one of pipe V",
        """
        LocalTensor<float> t(TPosition::VECCALC, 0, 256);  // bad
        Duplicate(t, 1.0f, 256);  // here bad
        """,
        cores="cube",
        begin=BEGIN,
    ),
    "event_of_a_cube_core": Case(
        "position",
        r"\[SetFlag\] Expected an event of a vector core's pipes, given MTE1_M",
        """
        SetFlag<HardEvent::MTE1_M>(0);  // here bad
        """,
    ),
    "wait_without_set": Case(
        "deadlock",
        r"\[WaitFlag\] Expected a SetFlag of MTE2_V, id 3, before it is waited for, given none",
        """
        SetFlag<HardEvent::MTE2_V>(3);  // good
        WaitFlag<HardEvent::MTE2_V>(3);  // here
        """,
    ),
    "set_twice": Case(
        "queue",
        r"\[SetFlag\] Expected a WaitFlag for V_MTE3, id 2, before it is set again",
        """
        SetFlag<HardEvent::V_MTE3>(2);
        WaitFlag<HardEvent::V_MTE3>(2);  // good
        SetFlag<HardEvent::V_MTE3>(2);  // here
        WaitFlag<HardEvent::V_MTE3>(2);
        """,
    ),
    "left_set": Case(
        "queue",
        r"\[SetFlag\] Expected a WaitFlag for V_MTE3, id 2, before the kernel ends",
        """
        SetFlag<HardEvent::V_MTE3>(2);  // here
        WaitFlag<HardEvent::V_MTE3>(2);  // good
        """,
    ),
    "event_id": Case(
        "argument",
        r"\[SetFlag\] Expected an event id of 0 to 7, given 8",
        """
        SetFlag<HardEvent::V_MTE3>(7);  // good
        WaitFlag<HardEvent::V_MTE3>(7);  // good
        SetFlag<HardEvent::V_MTE3>(8);  // here bad
        """,
    ),
    "not_freed": Case(
        "queue",
        r"\[AllocTensor\] .*given back with FreeTensor",
        """
        TPipe pipe;
        TQue<TPosition::VECIN, 1> queue;
        pipe.InitBuffer(queue, 1, 1024);
        LocalTensor<float> t = queue.AllocTensor<float>();  // here
        queue.FreeTensor(t);  // good
        """,
        begin=BEGIN,
    ),
    "not_taken_out": Case(
        "queue",
        r"\[EnQue\] .*taken out with DeQue",
        """
        TPipe pipe;
        TQue<TPosition::VECIN, 1> queue;
        pipe.InitBuffer(queue, 1, 1024);
        LocalTensor<float> t = queue.AllocTensor<float>();
        queue.EnQue(t);  // here
        t = queue.DeQue<float>();  // good
        queue.FreeTensor(t);  // good
        """,
        begin=BEGIN,
    ),
    "more_than_there_are": Case(
        "queue",
        r"\[AllocTensor\] Expected one of the 1 buffers of the queue in VECIN to be free",
        """
        TPipe pipe;
        TQue<TPosition::VECIN, 2> queue;
        pipe.InitBuffer(queue, 2, 1024);  // good
        pipe.InitBuffer(queue, 1, 1024);  // bad
        LocalTensor<float> t = queue.AllocTensor<float>();
        LocalTensor<float> u = queue.AllocTensor<float>();  // here
        queue.FreeTensor(t);
        queue.FreeTensor(u);
        """,
        begin=BEGIN,
    ),
    "deeper_than_the_queue": Case(
        "queue",
        r"\[EnQue\] Expected at most 1 tensors in the queue in VECIN, its depth",
        """
        TPipe pipe;
        TQue<TPosition::VECIN, 2> queue;  // good
        TQue<TPosition::VECIN, 1> queue;  // bad
        pipe.InitBuffer(queue, 2, 1024);
        LocalTensor<float> t = queue.AllocTensor<float>();
        LocalTensor<float> u = queue.AllocTensor<float>();
        queue.EnQue(t);
        queue.EnQue(u);  // here
        t = queue.DeQue<float>();
        u = queue.DeQue<float>();
        queue.FreeTensor(t);
        queue.FreeTensor(u);
        """,
        begin=BEGIN,
    ),
    "in_the_queue_twice": Case(
        "queue",
        r"\[EnQue\] Expected a tensor that is not in the queue, given one that is",
        """
        TPipe pipe;
        TQue<TPosition::VECIN, 2> queue;
        pipe.InitBuffer(queue, 2, 1024);
        LocalTensor<float> t = queue.AllocTensor<float>();
        queue.EnQue(t);
        queue.EnQue(t);  // here bad
        t = queue.DeQue<float>();
        queue.FreeTensor(t);
        """,
        begin=BEGIN,
    ),
    "freed_twice": Case(
        "queue",
        r"\[FreeTensor\] Expected a tensor in use, given one that was given back already",
        """
        TPipe pipe;
        TQue<TPosition::VECIN, 1> queue;
        pipe.InitBuffer(queue, 1, 1024);
        LocalTensor<float> t = queue.AllocTensor<float>();
        queue.FreeTensor(t);
        queue.FreeTensor(t);  // here bad
        """,
        begin=BEGIN,
    ),
    "empty_queue": Case(
        "queue",
        r"\[DeQue\] Expected a tensor in the queue in VECIN, given none",
        """
        TPipe pipe;
        TQue<TPosition::VECIN, 1> queue;
        pipe.InitBuffer(queue, 1, 1024);
        LocalTensor<float> t = queue.AllocTensor<float>();
        queue.EnQue(t);  // good
        t = queue.DeQue<float>();  // here
        queue.FreeTensor(t);
        """,
        begin=BEGIN,
    ),
    "tensor_of_another_queue": Case(
        "queue",
        r"\[EnQue\] Expected a tensor that AllocTensor of this queue gave, given one of another",
        """
        TPipe pipe;
        TQue<TPosition::VECIN, 1> queue, other;
        pipe.InitBuffer(queue, 1, 1024);
        pipe.InitBuffer(other, 1, 1024);
        LocalTensor<float> t = queue.AllocTensor<float>();
        other.EnQue(t);  // here bad
        queue.FreeTensor(t);
        """,
        begin=BEGIN,
    ),
    "queue_without_dequeue": Case(
        "race",
        r"\[Adds\] .*MTE2_V",
        """
        TPipe pipe;
        TQue<TPosition::VECIN, 1> queue;
        TBuf<TPosition::VECCALC> ub;
        pipe.InitBuffer(queue, 1, 1024);
        pipe.InitBuffer(ub, 1024);
        LocalTensor<float> out = ub.Get<float>();
        LocalTensor<float> t = queue.AllocTensor<float>();
        DataCopy(t, gx, 256);
        queue.EnQue(t);  // good
        t = queue.DeQue<float>();  // good
        Adds(out, t, 1.0f, 256);  // here
        queue.FreeTensor(t);
        """,
        begin=BEGIN,
    ),
    "two_cores_write_the_same": Case(
        "race",
        r"\[DataCopy\] The written byte 960 of argument 1 is also written by .* of vector core 0 of 2",
        """
        Duplicate(a, 1.0f, 256);
        SetFlag<HardEvent::V_MTE3>(0);
        WaitFlag<HardEvent::V_MTE3>(0);
        DataCopy(gy[block * 256], a, 256);  // good
        DataCopy(gy[block * 240], a, 256);  // here bad
        """,
        blocks=2,
    ),
    "read_of_what_another_core_writes": Case(
        "race",
        r"\[DataCopy\] The read byte 0 of argument 1 is also written by .* core 0 of 3.*vector core 2 of 3",
        """
        Duplicate(a, 1.0f, 256);
        SetFlag<HardEvent::V_MTE3>(0);
        WaitFlag<HardEvent::V_MTE3>(0);
        DataCopy(gy[block * 256], a, 256);
        SyncAll();  // good
        DataCopy(b, gy[(block + 1) % 3 * 256], 256);  // here
        """,
        blocks=3,
    ),
    "two_cores_add_to_the_same": Case(
        "race",
        r"\[DataCopy\] The written byte 0 of argument 1 is also written",
        """
        Duplicate(a, 1.0f, 256);
        SetFlag<HardEvent::V_MTE3>(0);
        WaitFlag<HardEvent::V_MTE3>(0);
        SetAtomicAdd<float>();  // good
        DataCopy(gy, a, 256);  // here
        SetAtomicNone();
        """,
        blocks=2,
    ),
    "a_core_does_not_come": Case(
        "deadlock",
        r"\[SyncAll\] .* forever: vector core 0 of 3 for all cores in line \d+; vector core 1 of 3",
        """
        SyncAll();  // good
        if (block < 2) SyncAll();  // here bad
        """,
        blocks=3,
    ),
    "more_blocks_than_cores": Case(
        "deadlock",
        r"\[SyncAll\] Expected at most 48 blocks, which all run at once, given 49",
        """
        SyncAll();  // here bad
        """,
        blocks=49,
    ),
    "no_signal": Case(
        "deadlock",
        r"\[CrossCoreWaitFlag\] The cores wait for each other forever: .*cube core 0 of 1 for flag 5",
        """
        if ASCEND_IS_AIV CrossCoreSetFlag<2, PIPE_MTE3>(5);  // good
        if ASCEND_IS_AIC CrossCoreWaitFlag(5);  // here
        """,
        cores="mixed",
        begin=BEGIN,
    ),
    "signal_of_another_pipe": Case(
        "race",
        r"byte 0 of argument 1 is also written by DataCopy",
        """
        LocalTensor<float> t(TPosition::VECCALC, 0, 256);
        if ASCEND_IS_AIV {
            Duplicate(t, 1.0f, 256);
            SetFlag<HardEvent::V_MTE3>(0);
            WaitFlag<HardEvent::V_MTE3>(0);
            DataCopy(gy[GetBlockIdx() * 256], t, 256);
            CrossCoreSetFlag<2, PIPE_MTE3>(5);  // good
            CrossCoreSetFlag<2, PIPE_V>(5);  // bad
        }
        if ASCEND_IS_AIC {
            CrossCoreWaitFlag(5);
            gy.GetValue(0);  // here
        }
        """,
        cores="mixed",
        begin=BEGIN,
    ),
}


def written(name: str, case: Case, bad: bool) -> str:
    drop = "// good" if bad else "bad"
    body = "\n".join("" if line.rstrip().endswith(drop) else line for line in case.body.splitlines())
    begin = case.begin.replace("{count}", str(COUNT))
    parameters = "GM_ADDR x, GM_ADDR y, GM_ADDR z"
    kernel = f"{name}_{'bad' if bad else 'good'}"
    return f'extern "C" __global__ __aicore__ void {kernel}({parameters}) {{\n{begin}{body}\n}}\n'


@pytest.fixture(scope="module")
def compiled() -> tuple[Module, str]:
    source = '#include "kernel_operator.h"\nusing namespace AscendC;\n'
    for name, case in CASES.items():
        source += written(name, case, True) + written(name, case, False)
    return Simulator(chip.load("910B1"), None).compile(source, "checks"), source


def launch(module: Module, name: str, case: Case, check: bool = True) -> None:
    room = np.zeros((3, COUNT + 64), np.float32)  # no argument ends where another begins
    arrays = [row[:COUNT] for row in room]
    module.run(case.blocks, arrays, kernel=name, cores=case.cores, check=check)


@pytest.mark.parametrize("name", CASES)
def test_the_fault_is_found(compiled: tuple[Module, str], name: str) -> None:
    module, source = compiled
    case = CASES[name]
    with pytest.raises(Finding) as caught:
        launch(module, f"{name}_bad", case)
    assert re.fullmatch(case.kind, caught.value.kind), caught.value
    assert re.search(case.message, caught.value.message), caught.value
    start = source[: source.index(f"{name}_bad(")].count("\n")
    rest = source.splitlines()[start:]
    here = next(n for n, line in enumerate(rest) if "// here" in line)
    assert caught.value.line == start + here + 1, caught.value
    assert f"checks.asc:{start + here + 1}" in caught.value.message or "forever" in caught.value.message


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_found_without_it(compiled: tuple[Module, str], name: str) -> None:
    launch(compiled[0], f"{name}_good", CASES[name])


@pytest.mark.parametrize("name", [n for n, case in CASES.items() if case.kind in ("race", "uninitialised")])
def test_without_checks_it_runs(compiled: tuple[Module, str], name: str) -> None:
    launch(compiled[0], f"{name}_bad", CASES[name], check=False)
