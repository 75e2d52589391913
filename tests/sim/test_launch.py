"""Compiling and launching: arguments, kinds of core, logs, findings of many cores, stopping, caching."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from pyasc.backend.ascend import chip
from pyasc.backend.sim import build
from pyasc.backend.sim.log import EVENTS, PIPES
from pyasc.backend.sim.simulator import Extent, Finding, Module, Simulator

SOURCE = """#include "kernel_operator.h"
using namespace AscendC;
struct Tiling { int32_t rows; float scale; int64_t wide; };

extern "C" __global__ __aicore__ void with_tiling(GM_ADDR x, GM_ADDR y, Tiling t) {
    GlobalTensor<float> in, out;
    in.SetGlobalBuffer((__gm__ float*)x, t.rows);
    out.SetGlobalBuffer((__gm__ float*)y, t.rows);
    for (int64_t i = GetBlockIdx(); i < t.rows; i += GetBlockNum())
        out.SetValue(i, in.GetValue(i) * t.scale + static_cast<float>(t.wide));
}

extern "C" __global__ __aicore__ void where_am_i(GM_ADDR x) {
    GlobalTensor<int64_t> out;
    out.SetGlobalBuffer((__gm__ int64_t*)x);
    const int64_t row = ASCEND_IS_AIC ? 100 + GetBlockIdx() : GetBlockIdx();
    out.SetValue(row * 8, GetBlockIdx());
    out.SetValue(row * 8 + 1, GetSubBlockIdx());
    out.SetValue(row * 8 + 2, GetBlockNum());
    out.SetValue(row * 8 + 3, GetTaskRation());
    out.SetValue(row * 8 + 4, block_idx);
}

extern "C" __global__ __aicore__ void forever(GM_ADDR x) {
    GlobalTensor<int32_t> out;
    out.SetGlobalBuffer((__gm__ int32_t*)x);
    while (true) out.SetValue(GetBlockIdx(), 1);
}

extern "C" __global__ __aicore__ void faulty_from(GM_ADDR x, int32_t first) {
    GlobalTensor<int32_t> out;
    out.SetGlobalBuffer((__gm__ int32_t*)x);
    for (int i = 0; i < 2000; ++i) out.SetValue(GetBlockIdx() * 8, i);
    if (GetBlockIdx() >= first) out.SetValue(1 << 20, 1);
}

extern "C" __global__ __aicore__ void through_a_barrier(GM_ADDR x, GM_ADDR y) {
    GlobalTensor<int32_t> in, out;
    in.SetGlobalBuffer((__gm__ int32_t*)x);
    out.SetGlobalBuffer((__gm__ int32_t*)y);
    const int64_t n = GetBlockNum(), me = GetBlockIdx();
    for (int32_t round = 0; round < 5; ++round) {
        in.SetValue(me * 8, round * 100 + static_cast<int32_t>(me));
        SyncAll();
        out.SetValue(me * 8 + round, in.GetValue((me + 1) % n * 8));
        SyncAll();
    }
}

extern "C" __global__ __aicore__ void events(GM_ADDR x) {
    TPipe pipe;
    TBuf<TPosition::VECCALC> ub;
    pipe.InitBuffer(ub, 1024);
    LocalTensor<float> a = ub.Get<float>();
    SetFlag<HardEvent::MTE3_V>(5);
    WaitFlag<HardEvent::MTE3_V>(5);
    PipeBarrier<PIPE_V>();
    a.SetValue(3, 2.0f);
    GlobalTensor<float> g;
    g.SetGlobalBuffer((__gm__ float*)x);
    g.SetValue(0, a.GetValue(3));
}
"""

BEGIN = '#include "kernel_operator.h"\nextern "C" __global__ __aicore__ '


@pytest.fixture(scope="module")
def simulator() -> Simulator:
    return Simulator(chip.load("910B1"), None)


@pytest.fixture(scope="module")
def module(simulator: Simulator) -> Module:
    return simulator.compile(SOURCE, "launches")


def tiling(rows: int, scale: float, wide: int) -> bytes:
    return np.array([(rows, scale, wide)], np.dtype([("r", "i4"), ("s", "f4"), ("w", "i8")])).tobytes()


def test_arrays_and_a_struct_by_value(module: Module) -> None:
    x = np.arange(1000, dtype=np.float32)
    y = np.zeros_like(x)
    module.run(48, [x, y, tiling(1000, 0.5, 7)], kernel="with_tiling")
    assert np.array_equal(y, x * 0.5 + 7)


def test_more_blocks_than_cores_and_threads(module: Module) -> None:
    x = np.arange(700, dtype=np.float32)
    y = np.zeros_like(x)
    module.run(700, [x, y, tiling(700, 1, 1)], kernel="with_tiling", threads=3)
    assert np.array_equal(y, x + 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Expected 3 arguments for with_tiling, given 0"),
        (("a", "a"), "Expected 3 arguments for with_tiling, given 2"),
        (("a", "a", b"12"), "Expected 16 bytes as argument 2 of with_tiling, given 2"),
        (("a", b"12345678", b"1" * 16), "Expected a buffer as argument 1 of with_tiling, given bytes"),
        (("a", "a", "a"), "Expected a value of 16 bytes as argument 2 of with_tiling, given ndarray"),
        (("a", Extent(4), b"1" * 16), "given an Extent: it has no data to move"),
        (("a", "s", b"1" * 16), "Expected a contiguous array as argument 1"),
    ],
)
def test_wrong_arguments(module: Module, arguments: tuple[object, ...], message: str) -> None:
    given = {"a": np.zeros(8, np.float32), "s": np.zeros((8, 8), np.float32)[:, 1]}
    passed = [given[a] if isinstance(a, str) else a for a in arguments]
    with pytest.raises(Finding, match=message) as caught:
        module.run(1, passed, kernel="with_tiling")
    assert caught.value.kind == "argument"


def test_wrong_launches(module: Module) -> None:
    x = np.zeros(8, np.int64)
    with pytest.raises(Finding, match="Expected 1 to 65535 blocks, given 0"):
        module.run(0, [x], kernel="where_am_i")
    with pytest.raises(Finding, match="Expected cores 'vector', 'cube' or 'mixed', given 'any'"):
        module.run(1, [x], kernel="where_am_i", cores="any")
    with pytest.raises(Finding, match=r"one of the kernels with_tiling, .* given nobody"):
        module.run(1, [x], kernel="nobody")


@pytest.mark.parametrize("cores", ["vector", "cube", "mixed"])
def test_where_a_core_finds_itself(module: Module, cores: str) -> None:
    out = np.full((200, 8), -1, np.int64)
    module.run(3, [out], kernel="where_am_i", cores=cores)
    vectors = {"vector": 3, "cube": 0, "mixed": 6}[cores]
    cubes = {"vector": 0, "cube": 3, "mixed": 3}[cores]
    per_block = 2 if cores == "mixed" else 1
    expected = np.full((200, 8), -1, np.int64)
    for n in range(vectors):
        expected[n, :5] = n, n % per_block, 3, per_block, n // per_block
    for n in range(cubes):
        expected[100 + n, :5] = n, 0, 3, 1, n
    assert np.array_equal(out, expected)


def test_cores_wait_for_each_other(module: Module) -> None:
    n = 40
    x, y = np.zeros(n * 8, np.int32), np.zeros(n * 8, np.int32)
    module.run(n, [x, y], kernel="through_a_barrier", threads=2)
    expected = np.arange(5)[None, :] * 100 + (np.arange(n)[:, None] + 1) % n
    assert np.array_equal(y.reshape(n, 8)[:, :5], expected)


def test_a_finding_is_that_of_the_first_core(module: Module) -> None:
    for _ in range(5):
        with pytest.raises(Finding) as caught:
            module.run(40, [np.zeros(400, np.int32), ctypes.c_int32(7)], kernel="faulty_from", threads=4)
        assert "vector core 7 of 40" in caught.value.message
        assert caught.value.kind == "bounds"


def test_logs(module: Module) -> None:
    log = module.run(2, [np.zeros(8, np.float32)], kernel="events", cost=True, check=False)
    assert log is not None
    assert [core.kind for core in log.cores] == ["vector", "vector"]
    assert [core.block for core in log.cores] == [0, 1]
    records = log.cores[1].records
    seen = [
        (EVENTS[r["event"]], log.names[r["name"]], PIPES[r["pipe"]], PIPES[r["to"]], int(r["id"]))
        for r in records
    ]
    assert seen == [
        ("SetFlag", "SetFlag", "MTE3", "V", 5),
        ("WaitFlag", "WaitFlag", "MTE3", "V", 5),
        ("PipeBarrier", "PipeBarrier", "V", "V", 0),
        ("Instruction", "SetValue", "S", "S", 0),
        ("Instruction", "GetValue", "S", "S", 0),
        ("Instruction", "SetValue", "S", "S", 0),
        ("PipeBarrier", "PipeBarrier", "ALL", "ALL", 0),
    ]
    lines = SOURCE.splitlines()
    assert "SetFlag<" in lines[records["line"][0] - 1]
    assert "GetValue" in lines[records["line"][4] - 1]


def test_without_data(module: Module) -> None:
    sizes = [Extent(4 << 30), Extent(4 << 30), tiling(100, 1, 1)]
    log = module.run(1, sizes, kernel="with_tiling", cost=True, move=False)
    assert log is not None
    assert len(log.cores[0].records) == 200
    with pytest.raises(Finding, match="within the 40 of argument 1"):
        module.run(1, [Extent(400), Extent(40), tiling(100, 1, 1)], kernel="with_tiling", move=False)


def test_ctrl_c_stops_a_launch_and_the_next_one_runs(module: Module) -> None:
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        module.run(4, [np.zeros(8, np.int32)], kernel="forever", check=False)
    assert time.monotonic() - begin < 5
    x, y = np.ones(8, np.float32), np.zeros(8, np.float32)
    module.run(1, [x, y, tiling(8, 2, 0)], kernel="with_tiling")
    assert np.array_equal(y, x * 2)


def test_launches_from_several_threads(module: Module) -> None:
    def work(n: int) -> bool:
        x = np.full(500, n, np.float32)
        y = np.zeros_like(x)
        module.run(5, [x, y, tiling(500, 1, n)], kernel="with_tiling")
        return bool(np.all(y == 2 * n))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(32)))


def test_a_compiler_error_names_the_line(simulator: Simulator) -> None:
    source = BEGIN + "void k(GM_ADDR x) {\n    Adds(x, y);\n}\n"
    with pytest.raises(Finding) as caught:
        simulator.compile(source, "wrong")
    assert caught.value.kind == "compiler"
    assert caught.value.line == 3
    assert "wrong.asc:3: " in caught.value.message
    assert "    Adds(x, y);" in caught.value.message
    assert "pyasc-sim-" not in caught.value.message


def test_a_repeat_that_does_not_fit_is_an_error(simulator: Simulator) -> None:
    source = BEGIN + "void k(GM_ADDR x) {\n    uint8_t repeat{256};\n    x[0] = repeat;\n}\n"
    with pytest.raises(Finding, match="narrowing conversion"):
        simulator.compile(source, "wide")


def test_no_compiler(simulator: Simulator, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    build.compiler.cache_clear()
    try:
        with pytest.raises(Finding, match=r"Expected a C\+\+ compiler .* found none. Install one"):
            simulator.compile(SOURCE, "launches")
    finally:
        build.compiler.cache_clear()


class Kept:
    """A Store in memory."""

    def __init__(self) -> None:
        self.data: dict[tuple[str, str], bytes] = {}
        self.reads = 0

    def read(self, kind: str, key: str) -> bytes | None:
        found = self.data.get((kind, key))
        self.reads += found is not None
        return found

    def write(self, kind: str, key: str, data: bytes) -> None:
        self.data[kind, key] = data


def test_what_was_compiled_is_kept() -> None:
    store = Kept()
    simulator = Simulator(chip.load("910B1"), store)
    source = BEGIN + "void k(GM_ADDR x) { x[0] = NUMBER; }\n"
    for number in ("3", "4", "3"):
        out = np.zeros(8, np.uint8)
        simulator.compile(source.replace("NUMBER", number), "k").run(1, [out])
        assert out[0] == int(number)
    assert len(store.data) == 2
    assert store.reads == 1


COLD = """
import sys
import numpy as np
from pathlib import Path
from pyasc.backend.ascend import chip
from pyasc.backend.sim.simulator import Simulator
source = '#include "kernel_operator.h"\\nextern "C" __global__ __aicore__ void k(GM_ADDR x) { x[0] = 5; }\\n'
out = np.zeros(8, np.uint8)
Simulator(chip.load("910B1"), None, Path(sys.argv[1])).compile(source, "k").run(1, [out])
print(out[0])
"""


def test_processes_that_start_cold_share_one_precompiled_header(tmp_path: Path) -> None:
    started = [
        subprocess.Popen([sys.executable, "-c", COLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    assert [process.communicate()[0].strip() for process in started] == ["5"] * 3
    assert len(list(tmp_path.rglob("*.gch"))) == 1


def test_a_folder_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    source = (
        '#include "kernel_operator.h"\nextern "C" __global__ __aicore__ void k(GM_ADDR x) { x[0] = 6; }\n'
    )
    out = np.zeros(8, np.uint8)
    Simulator(chip.load("910B1"), None, blocked).compile(source, "k").run(1, [out])
    assert out[0] == 6


def test_import_loads_nothing() -> None:
    check = (
        "import pyasc, sys; assert 'pyasc.backend.sim.simulator' not in sys.modules; "
        "assert 'libascend_sim' not in open('/proc/self/maps').read()"
    )
    subprocess.run([sys.executable, "-c", check], check=True)
