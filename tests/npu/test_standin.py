"""The pretended machine itself: that it computes, keeps order, and finds what is wrong."""

from __future__ import annotations

import ctypes
import os
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from standin.acl import DOWNLOAD, UPLOAD, WITHIN, Acl, AclError
from standin.machine import Machine
from standin.toolkit import OLD, Toolkit, build

N = 1024
BLOCKS = 4

SCALE = """#include "kernel_operator.h"
using namespace AscendC;
struct Sizes { int64_t count; float factor; int32_t rest; };
extern "C" __global__ __aicore__ void scale(GM_ADDR x, GM_ADDR z, Sizes sizes) {
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 4096);
    GlobalTensor<float> from, to;
    from.SetGlobalBuffer((__gm__ float*)x + GetBlockIdx() * sizes.count, sizes.count);
    to.SetGlobalBuffer((__gm__ float*)z + GetBlockIdx() * sizes.count, sizes.count);
    LocalTensor<float> values = buffer.Get<float>();
    DataCopy(values, from, sizes.count);
    SetFlag<HardEvent::MTE2_V>(0);
    WaitFlag<HardEvent::MTE2_V>(0);
    Muls(values, values, sizes.factor, sizes.count);
    SetFlag<HardEvent::V_MTE3>(0);
    WaitFlag<HardEvent::V_MTE3>(0);
    DataCopy(to, values, sizes.count);
}
"""

LAUNCH = """
extern "C" int pyasc_launch_scale(uint32_t blocks, void* stream, const void* arguments) {
    const auto* at = static_cast<const uint8_t*>(arguments);
    Sizes sizes;
    __builtin_memcpy(&sizes, at + 16, sizeof sizes);
    scale<<<blocks, nullptr, stream>>>(*(GM_ADDR*)at, *(GM_ADDR*)(at + 8), sizes);
    return 0;
}
"""

# The cube core waits for both of its vector cores.
MEET = """#include "kernel_operator.h"
using namespace AscendC;
extern "C" __global__ __aicore__ void NAME(GM_ADDR address, GM_ADDR z) {
    ADDRESS
    if ASCEND_IS_AIV {
        CrossCoreSetFlag<2, PIPE_MTE3>(1);
    }
    if ASCEND_IS_AIC {
        CrossCoreWaitFlag(1);
    }
}
"""


def compile_cce(
    toolkit: Toolkit, folder: Path, source: str, cores: str = "vec"
) -> subprocess.CompletedProcess[str]:
    file = folder / f"k_{cores}.cce"
    file.write_text(source)
    return subprocess.run(
        [
            toolkit.compiler, "-c", "-x", "cce", "-O3", str(file), f"--cce-aicore-arch=dav-c220-{cores}",
            "--cce-aicore-only", "-o", str(folder / f"{cores}.o"), "-std=c++17",
            "-I", str(toolkit.home / "compiler" / "tikcpp" / "tikcfw"),
            "-mllvm", "-cce-aicore-stack-size=0x8000", "-D__NPU_TILING__", "-DTILING_KEY_VAR=0",
        ],
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def link(toolkit: Toolkit, folder: Path, *cores: str) -> bytes:
    objects = [str(folder / f"{c}.o") for c in cores]
    subprocess.run(
        [
            toolkit.home / "bin" / "ld.lld",
            "-m",
            "aicorelinux",
            "-Ttext=0",
            *objects,
            "-static",
            "-o",
            folder / "k.bin",
        ],
        check=True,
    )
    return (folder / "k.bin").read_bytes()


@pytest.fixture(scope="module")
def scale_binary(toolkit: Toolkit, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("scale")
    done = compile_cce(toolkit, folder, SCALE)
    assert done.returncode == 0, done.stderr
    return link(toolkit, folder, "vec")


@pytest.fixture
def acl(machine: Machine) -> Iterator[Acl]:
    made = Acl(machine)
    yield made
    made.close()


@pytest.fixture
def scale(acl: Acl, scale_binary: bytes) -> Callable[..., None]:
    """``scale(x, z, factor, stream, blocks=BLOCKS)``"""
    function = acl.function(acl.load(scale_binary), "scale")

    def launch(x: int, z: int, factor: float, stream: int, blocks: int = BLOCKS) -> None:
        acl.launch(function, blocks, struct.pack("<QQqfi", x, z, N // BLOCKS, factor, 0), stream)

    return launch


def test_a_kernel_runs_and_copies_move(acl: Acl, scale: Callable[..., None]) -> None:
    x = np.arange(N, dtype=np.float32)
    source, target, stream = acl.to_device(x), acl.malloc(x.nbytes), acl.stream()
    scale(source, target, 3, stream)
    acl.synchronize(stream)
    assert np.array_equal(acl.to_host(target, x), 3 * x)


def test_a_library_of_the_host_launches(acl: Acl, toolkit: Toolkit, tmp_path: Path) -> None:
    file, made = tmp_path / "k.asc", tmp_path / "k.so"
    file.write_text(SCALE + LAUNCH)
    command = [
        toolkit.compiler,
        "--npu-arch=dav-2201",
        "-O2",
        "-std=c++17",
        "-xasc",
        file,
        "-fPIC",
        "--shared",
        "-o",
        made,
    ]
    subprocess.run(command, check=True)
    launch = ctypes.CDLL(str(made)).pyasc_launch_scale
    x = np.arange(N, dtype=np.float32)
    source, target, stream = acl.to_device(x), acl.malloc(x.nbytes), acl.stream()
    block = struct.pack("<QQqfi", source, target, N // BLOCKS, 2.0, 0)
    assert launch(BLOCKS, ctypes.c_void_p(stream), block) == 0
    acl.synchronize(stream)
    assert np.array_equal(acl.to_host(target, x), 2 * x)


@pytest.mark.parametrize("told", [True, False])
def test_a_kernel_for_both_cores_needs_the_address_for_signals(
    acl: Acl, machine: Machine, toolkit: Toolkit, tmp_path: Path, told: bool
) -> None:
    source = MEET.replace("ADDRESS", "set_ffts_base_addr((uint64_t)address);" if told else "(void)address;")
    for cores, suffix in (("vec", "aiv"), ("cube", "aic")):
        done = compile_cce(toolkit, tmp_path, source.replace("NAME", f"meet_mix_{suffix}"), cores)
        assert done.returncode == 0, done.stderr
    function = acl.function(acl.load(link(toolkit, tmp_path, "vec", "cube"), "mixed"), "meet")
    stream, memory = acl.stream(), acl.malloc(64)
    address = acl.made("aclrtGetHardwareSyncAddr")
    acl.launch(function, 2, struct.pack("<QQ", address, memory), stream)
    if told:
        acl.synchronize(stream)
    else:
        with pytest.raises(AclError, match="507015"):
            acl.synchronize(stream)
    with pytest.raises(AclError, match=r"107000.*HardwareSyncAddr"):
        acl.launch(function, 2, struct.pack("<QQ", memory, memory), stream)
    machine.clear_complaints()


def test_what_the_checks_find_is_a_device_exception(
    acl: Acl, machine: Machine, scale: Callable[..., None]
) -> None:
    x = np.ones(N, np.float32)
    source, target, stream = acl.to_device(x), acl.malloc(x.nbytes), acl.stream()
    scale(source, target, 1, stream, BLOCKS + 1)
    scale(source, target, 2, stream)
    with pytest.raises(AclError, match=r"507035.*kernel scale: bounds") as caught:
        acl.synchronize(stream)
    assert "k_vec.cce:12" in caught.value.said
    acl.synchronize(stream)  # told once, and the next task ran
    assert np.array_equal(acl.to_host(target, x), 2 * x)
    assert [c for c in machine.complaints() if "bounds" in c]
    machine.clear_complaints()


def test_an_exception_is_told_at_once(acl: Acl, machine: Machine, scale: Callable[..., None]) -> None:
    told: list[tuple[int, int, int]] = []
    library = machine.library

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    def callback(information: int) -> None:
        at = ctypes.c_void_p(information)
        told.append(
            (
                library.aclrtGetStreamIdFromExceptionInfo(at),
                library.aclrtGetTaskIdFromExceptionInfo(at),
                library.aclrtGetErrorCodeFromExceptionInfo(at),
            )
        )

    acl.call("aclrtSetExceptionInfoCallback", callback)
    machine.inject("kernel", 2, 507035)
    x = np.ones(N, np.float32)
    source, target, stream = acl.to_device(x), acl.malloc(x.nbytes), acl.stream()
    tasks = []
    for _ in range(3):
        scale(source, target, 1, stream)
        task = ctypes.c_uint32()
        acl.call("aclrtGetThreadLastTaskId", ctypes.byref(task))
        tasks.append(task.value)
    with pytest.raises(AclError, match="507035"):
        acl.synchronize(stream)
    number = ctypes.c_int32()
    acl.call("aclrtStreamGetId", stream, ctypes.byref(number))
    assert told == [(number.value, tasks[1], 507035)]
    acl.call("aclrtSetExceptionInfoCallback", None)


def test_streams_are_ordered_by_events(
    acl: Acl, machine: Machine, scale: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STANDIN_DELAY_US", "2000")
    machine.reset()
    x, out = acl.pinned(N), acl.pinned(N)
    x[:] = np.arange(N)
    a, b, c = (acl.malloc(x.nbytes) for _ in range(3))
    up, compute, down = acl.stream(), acl.stream(), acl.stream()
    for factor in range(2, 8):
        acl.copy(a, x.ctypes.data, x.nbytes, UPLOAD, up)
        acl.call("aclrtStreamWaitEvent", compute, acl.record(up))
        scale(a, b, factor, compute)
        scale(b, c, factor, compute)
        acl.call("aclrtStreamWaitEvent", down, acl.record(compute))
        acl.copy(out.ctypes.data, c, x.nbytes, DOWNLOAD, down)
        acl.synchronize(down)
        assert np.array_equal(out, factor * factor * x)


@pytest.mark.parametrize("delay", ["0", "3000"])
def test_a_missing_event_is_found(
    acl: Acl, machine: Machine, scale: Callable[..., None], monkeypatch: pytest.MonkeyPatch, delay: str
) -> None:
    monkeypatch.setenv("STANDIN_DELAY_US", delay)
    machine.reset()
    x = acl.pinned(N)
    x[:] = 1
    a, b = acl.malloc(x.nbytes), acl.malloc(x.nbytes)
    up, compute = acl.stream(), acl.stream()
    acl.copy(a, x.ctypes.data, x.nbytes, UPLOAD, up)
    scale(a, b, 2, compute)
    acl.synchronize(up)
    acl.synchronize(compute)
    assert any(c.startswith("race: ") and "scale" in c for c in machine.complaints()), machine.complaints()
    machine.clear_complaints()


def test_bytes_apart_are_no_race(acl: Acl, scale: Callable[..., None]) -> None:
    x = np.ones(2 * N, np.float32)
    a, b = acl.to_device(x), acl.malloc(x.nbytes)
    first, second = acl.stream(), acl.stream()
    scale(a, b, 2, first)
    scale(a + 4 * N, b + 4 * N, 3, second)
    acl.synchronize(first)
    acl.synchronize(second)
    assert np.array_equal(acl.to_host(b, x), np.repeat(np.float32([2, 3]), N))


def test_the_host_is_one_of_those_that_race(acl: Acl, machine: Machine, scale: Callable[..., None]) -> None:
    x = np.ones(N, np.float32)
    a, b, stream = acl.to_device(x), acl.malloc(x.nbytes), acl.stream()
    scale(a, b, 2, stream)
    while machine.count("pending"):
        time.sleep(0.001)
    acl.to_host(b, x)  # it is over, but nobody asked
    assert any("was not waited for" in c for c in machine.complaints())
    machine.clear_complaints()


def test_a_copy_reads_the_host_when_it_runs(acl: Acl, machine: Machine, scale: Callable[..., None]) -> None:
    x = acl.pinned(N)
    x[:] = 1
    a, b, c, stream = (
        acl.malloc(x.nbytes),
        acl.to_device(np.zeros(N, np.float32)),
        acl.malloc(x.nbytes),
        acl.stream(),
    )
    machine.inject("slow", 1, 50)
    scale(b, c, 1, stream)
    acl.copy(a, x.ctypes.data, x.nbytes, UPLOAD, stream)
    x[:] = 2
    acl.synchronize(stream)
    assert np.array_equal(acl.to_host(a, np.empty(N, np.float32)), np.full(N, 2, np.float32))


def test_memory_is_filled_when_it_is_handed_out(acl: Acl) -> None:
    assert np.all(acl.to_host(acl.malloc(4096), np.empty(4096, np.uint8)) == 0xC7)


def _pending(acl: Acl, machine: Machine, scale: Callable[..., None]) -> tuple[int, int]:
    x = np.ones(N, np.float32)
    a, b, stream = acl.to_device(x), acl.malloc(x.nbytes), acl.stream()
    scale(a, b, 1, stream)
    return b, stream


@pytest.mark.parametrize(
    ("code", "misuse"),
    [
        (107000, lambda acl, scale, b, s: acl.call("aclrtFree", b + 512)),
        (207002, lambda acl, scale, b, s: acl.call("aclrtFree", b)),
        (107000, lambda acl, scale, b, s: acl.copy(b, np.ones(4).ctypes.data, 32, UPLOAD, s)),
        (107000, lambda acl, scale, b, s: acl.copy(b, b + 2048, 4096, WITHIN, s)),
        (107000, lambda acl, scale, b, s: acl.copy(0x1234, b, 64, DOWNLOAD, s)),
        (107000, lambda acl, scale, b, s: acl.call("aclrtMemset", b, 8, 0, 16)),
        (107000, lambda acl, scale, b, s: scale(b, b, 1, s, 65536)),
        (107003, lambda acl, scale, b, s: acl.synchronize(b)),
        (107003, lambda acl, scale, b, s: acl.made("aclrtCreateContext", 1) and acl.synchronize(s)),
        (107001, lambda acl, scale, b, s: acl.call("aclrtSetDevice", 2)),
        (107000, lambda acl, scale, b, s: acl.call("aclrtRecordEvent", b, s)),
        (107017, lambda acl, scale, b, s: acl.launch(b, 1, b"", s)),
        (107000, lambda acl, scale, b, s: acl.load(b"no binary" * 99)),
        (507027, lambda acl, scale, b, s: acl.function(acl._binaries[0], "other")),
        (107006, lambda acl, scale, b, s: acl.made_of("aclrtEventGetTimestamp", acl.event())),
    ],
)  # fmt: skip
def test_misuse_is_an_error(
    acl: Acl, machine: Machine, scale: Callable[..., None], code: int, misuse: Callable[..., None]
) -> None:
    b, stream = _pending(acl, machine, scale)
    with pytest.raises(AclError) as caught:
        misuse(acl, scale, b, stream)
    assert caught.value.code == code
    assert caught.value.said
    assert machine.complaints()
    machine.library.aclrtSetDevice(0)
    acl.synchronize(stream)
    acl.call("aclrtResetDeviceForce", 1)
    machine.library.aclrtResetDevice(0)
    machine.clear_complaints()


def test_memory_cannot_be_freed_twice_or_used_later(acl: Acl, machine: Machine) -> None:
    memory = acl.malloc(4096)
    acl.free(memory)
    with pytest.raises(AclError, match="107000"):
        acl.call("aclrtFree", memory)
    with pytest.raises(AclError, match="107000"):
        acl.to_host(memory, np.empty(1024, np.float32))
    machine.clear_complaints()


def test_the_host_cannot_follow_a_device_address(toolkit: Toolkit) -> None:
    program = f"""
import ctypes
acl = ctypes.CDLL({str(toolkit.library)!r})
acl.aclInit(None)
acl.aclrtSetDevice(0)
at = ctypes.c_void_p()
acl.aclrtMalloc(ctypes.byref(at), ctypes.c_size_t(64), 0)
ctypes.c_char.from_address(at.value).value
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -signal.SIGSEGV


def test_a_forked_child_is_refused(acl: Acl, machine: Machine) -> None:
    child = os.fork()
    if child == 0:
        os._exit(7 if machine.library.aclrtSetDevice(0) == 507899 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_memory_runs_out(acl: Acl, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STANDIN_MEMORY", str(1 << 30))
    machine.reset()
    first = acl.malloc(600 << 20)
    with pytest.raises(AclError, match="207001"):
        acl.malloc(600 << 20)
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    acl.call("aclrtGetMemInfo", 1, ctypes.byref(free), ctypes.byref(total))
    assert (free.value, total.value) == (424 << 20, 1 << 30)
    acl.free(first)
    acl.malloc(600 << 20)


def test_the_nth_call_fails(acl: Acl, machine: Machine) -> None:
    machine.inject("aclrtMalloc", 3, 207001)
    acl.malloc(64)
    acl.malloc(64)
    with pytest.raises(AclError, match="207001"):
        acl.malloc(64)
    acl.malloc(64)


def test_a_kernel_hangs_until_it_is_aborted(acl: Acl, machine: Machine, scale: Callable[..., None]) -> None:
    machine.inject("hang")
    _, stream = _pending(acl, machine, scale)
    with pytest.raises(AclError, match="507046"):
        acl.synchronize(stream, 30)
    codes: list[int] = []

    def wait() -> None:
        machine.library.aclrtSetDevice(0)
        codes.append(machine.library.aclrtSynchronizeStream(ctypes.c_void_p(stream)))

    waiting = threading.Thread(target=wait)
    waiting.start()
    time.sleep(0.02)
    acl.call("aclrtStreamAbort", stream)
    waiting.join(5)
    assert codes == [107023]
    acl.synchronize(stream)
    machine.library.aclrtResetDevice(0)


def test_a_kernel_times_out(acl: Acl, machine: Machine, scale: Callable[..., None]) -> None:
    machine.inject("kernel", 2, 507034)
    _, stream = _pending(acl, machine, scale)
    acl.synchronize(stream)
    _, stream = _pending(acl, machine, scale)
    with pytest.raises(AclError, match=r"507034.*kernel scale"):
        acl.synchronize(stream)


def test_a_stream_is_destroyed_by_somebody_else(
    acl: Acl, machine: Machine, scale: Callable[..., None]
) -> None:
    b, stream = _pending(acl, machine, scale)
    machine.destroy_stream(stream)
    with pytest.raises(AclError, match="107003"):
        scale(b, b, 1, stream)
    machine.clear_complaints()
    acl._streams.remove(stream)


def test_a_lost_device_comes_back_with_a_reset(acl: Acl, machine: Machine) -> None:
    acl.malloc(64)
    machine.lose(0)
    with pytest.raises(AclError, match="507010"):
        acl.malloc(64)
    acl.call("aclrtResetDeviceForce", 0)
    acl._memory.clear()
    acl.call("aclrtSetDevice", 0)
    acl.malloc(64)


def test_modelled_time_overlaps_what_events_allow(
    acl: Acl, machine: Machine, scale: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STANDIN_MODEL_TIME", "1")
    monkeypatch.setenv("STANDIN_KERNEL_US", "20")
    machine.reset()
    x = acl.pinned((8, N * 256))
    x[:] = 1
    nbytes = x.nbytes // 8
    up, compute = acl.stream(), acl.stream()
    targets = [acl.malloc(nbytes) for _ in range(8)]
    start, end = acl.event(), acl.event()
    with machine.timeline() as spans:
        acl.call("aclrtRecordEvent", start, up)
        for n, target in enumerate(targets):
            acl.copy(target, x[n].ctypes.data, nbytes, UPLOAD, up)
            acl.call("aclrtStreamWaitEvent", compute, acl.record(up))
            scale(target, target, 2, compute)
        acl.call("aclrtRecordEvent", end, compute)
        acl.synchronize(up)
        acl.synchronize(compute)
    copies = [s for s in spans if s.kind == "upload"]
    kernels = [s for s in spans if s.kind == "kernel"]
    copy_ns = 5000 + nbytes // 25
    assert [s.end - s.begin for s in copies] == pytest.approx([copy_ns] * 8, abs=1)
    assert {s.name for s in kernels} == {"scale"}
    assert all(k.begin >= c.end for k, c in zip(kernels, copies, strict=True))
    assert sum(k.begin < c.end for k, c in zip(kernels[:-1], copies[1:], strict=True)) == 7
    elapsed = ctypes.c_float()
    acl.call("aclrtEventElapsedTime", ctypes.byref(elapsed), start, end)
    assert elapsed.value == pytest.approx((kernels[-1].end - copies[0].begin) / 1e6, rel=1e-3)
    assert elapsed.value * 1e6 == pytest.approx(8 * copy_ns + 20_000, rel=1e-3)


def test_an_old_toolkit_lacks_what_is_new(tmp_path: Path, scale_binary: bytes) -> None:
    old = build(tmp_path, OLD)
    machine = Machine(old.library)  # another than the other tests'
    assert not hasattr(machine.library, "aclrtLaunchKernelWithHostArgs")
    acl = Acl(machine)
    binary = tmp_path / "k.bin"
    binary.write_bytes(scale_binary)
    function = acl.function(acl.load_file(binary), "scale")
    x = np.arange(N, dtype=np.float32)
    source, target, stream = acl.to_device(x), acl.malloc(x.nbytes), acl.stream()
    acl.launch_list(function, BLOCKS, struct.pack("<QQqfi", source, target, N // BLOCKS, 3.0, 0), stream)
    acl.synchronize(stream)
    assert np.array_equal(acl.to_host(target, x), 3 * x)
    acl.close()
    assert not machine.complaints()
    assert not any(machine.resources().values())
    file = tmp_path / "k.asc"
    file.write_text(SCALE + LAUNCH)
    command = [
        old.compiler,
        "--npu-arch=dav-2201",
        "-std=c++17",
        "-xasc",
        file,
        "-fPIC",
        "--shared",
        "-o",
        tmp_path / "k",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "unknown argument" in done.stderr


def test_the_compiler_says_where(toolkit: Toolkit, tmp_path: Path) -> None:
    done = compile_cce(toolkit, tmp_path, SCALE.replace("Muls(values", "Mulls(values"))
    assert done.returncode == 1
    assert f"{tmp_path / 'k_vec.cce'}:15:5: error: " in done.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["-c", "-x", "cce", "-std=c++17", "--cce-aicore-arch=dav-c220-vec"], "expects --cce-aicore-only"),
        (
            ["-c", "-x", "cce", "-std=c++17", "--cce-aicore-arch=dav-c220", "--cce-aicore-only"],
            "invalid value",
        ),
        (["-c", "-x", "cce", "-std=c++17", "--cce-aicore-arch=dav-c220-vec", "--cce-aicore-only"], "tikcfw"),
        (["--npu-arch=dav-2201", "-xasc", "-std=c++17", "--shared"], "expects -fPIC"),
        (["--march=dav-2201", "-xasc"], "unknown argument: '--march=dav-2201'"),
    ],
)
def test_the_compiler_refuses_options(
    toolkit: Toolkit, tmp_path: Path, options: list[str], said: str
) -> None:
    file = tmp_path / "k.cce"
    file.write_text(SCALE)
    done = subprocess.run(
        [toolkit.compiler, *options, str(file), "-o", "k.o"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert said in done.stderr


def test_the_compiler_dies(toolkit: Toolkit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STANDIN_COMPILER", "dies")
    assert compile_cce(toolkit, tmp_path, SCALE).returncode == -signal.SIGSEGV
