"""Whole programs: a host part that launches kernels with ``<<<…>>>`` through ACL, unchanged."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pyasc.backend.sim.program import rewritten

PROGRAM = """#include <cstdint>
#include <cstdio>
#include <vector>

#include "acl/acl.h"
#include "kernel_operator.h"

#ifndef FACTOR
#define FACTOR 2
#endif

template <uint32_t length, typename T>
__vector__ __global__ void scale(__gm__ T* x, __gm__ T* y, T factor) {
    AscendC::InitSocState();
    AscendC::GlobalTensor<T> xGm, yGm;
    xGm.SetGlobalBuffer(x + block_idx * length, length);
    yGm.SetGlobalBuffer(y + block_idx * length, length);
    AscendC::LocalMemAllocator<AscendC::Hardware::UB> allocator;
    AscendC::LocalTensor<T> a = allocator.Alloc<T, length>();
    AscendC::LocalTensor<T> b = allocator.Alloc<T>(length);
    AscendC::DataCopy(a, xGm, length);
#ifndef NO_WAIT
    AscendC::SetFlag<AscendC::HardEvent::MTE2_V>(EVENT_ID0);
    AscendC::WaitFlag<AscendC::HardEvent::MTE2_V>(EVENT_ID0);
#endif
    AscendC::Muls(b, a, factor, length);
    AscendC::PipeBarrier<PIPE_ALL>();
    AscendC::DataCopy(yGm, b, length);
    AscendC::PipeBarrier<PIPE_ALL>();
}

namespace counting {
__global__ __mix__(1, 2) void count(GM_ADDR y) {
    AscendC::GlobalTensor<int32_t> out;
    out.SetGlobalBuffer((__gm__ int32_t*)y);
    if ASCEND_IS_AIC out.SetValue(8 * AscendC::GetBlockIdx(), 100);
    if ASCEND_IS_AIV out.SetValue(8 * (10 + AscendC::GetBlockIdx()), 1);
}
}  // namespace counting

int32_t main(int32_t argc, char* argv[]) {
    constexpr uint32_t blocks = 4, length = 256, bytes = blocks * length * sizeof(float);
    aclInit(nullptr);
    aclrtSetDevice(0);
    aclrtStream stream = nullptr;
    aclrtCreateStream(&stream);
    float *x, *y, *host;
    uint8_t* z;
    aclrtMalloc((void**)&x, bytes, ACL_MEM_MALLOC_HUGE_FIRST);
    aclrtMalloc((void**)&y, bytes, ACL_MEM_MALLOC_HUGE_FIRST);
    aclrtMalloc((void**)&z, 20 * 32, ACL_MEM_MALLOC_HUGE_FIRST);
    aclrtMallocHost((void**)&host, bytes);
    for (uint32_t i = 0; i < blocks * length; ++i) host[i] = i;
    aclrtMemcpy(x, bytes, host, bytes, ACL_MEMCPY_HOST_TO_DEVICE);
    aclrtMemset(z, 20 * 32, 0, 20 * 32);
    scale<length, float><<<blocks, nullptr, stream>>>(x, y, static_cast<float>(FACTOR));
    counting::count<<<dim(2), 0, stream>>>(z);
    aclrtSynchronizeStream(stream);
    aclrtMemcpy(host, bytes, y, bytes, ACL_MEMCPY_DEVICE_TO_HOST);
    double sum = 0;
    for (uint32_t i = 0; i < blocks * length; ++i) sum += host[i];
    int32_t cores = 0;
    for (int i = 0; i < 160; ++i) cores += reinterpret_cast<int32_t*>(z)[i];
    std::printf("sum %.0f cores %d arguments %d\\n", sum, cores, argc);
    if (aclrtMalloc((void**)&x, 0, ACL_MEM_MALLOC_HUGE_FIRST) == ACL_SUCCESS) return 1;
    if (aclrtFree(host) == ACL_SUCCESS) return 1;
    aclrtFree(y);
    aclrtFreeHost(host);
    aclrtDestroyStream(stream);
    aclrtResetDevice(0);
    aclFinalize();
    return 0;
}
""".replace("dim(2)", "1 + 1")


def run(folder: Path, *options: str, program: str = PROGRAM) -> subprocess.CompletedProcess[str]:
    (folder / "scaling.asc").write_text(program)
    return subprocess.run(
        [sys.executable, "-m", "pyasc.backend.sim", "run", *options, "scaling.asc"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_program(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert done.stderr == ""
    assert done.stdout == f"sum {sum(range(1024)) * 2} cores 204 arguments 1\n"
    assert done.returncode == 0


def test_macros(tmp_path: Path) -> None:
    assert f"sum {sum(range(1024)) * 3} " in run(tmp_path, "-D", "FACTOR=3").stdout


def test_a_finding_ends_the_program(tmp_path: Path) -> None:
    done = run(tmp_path, "-D", "NO_WAIT")
    line = 1 + PROGRAM.splitlines().index("    AscendC::Muls(b, a, factor, length);")
    assert done.returncode == 3
    assert done.stdout == ""
    assert done.stderr.startswith("race: [Muls] ")
    assert f"scaling.asc:{line}" in done.stderr


def test_a_compiler_error(tmp_path: Path) -> None:
    done = run(tmp_path, program=PROGRAM.replace("AscendC::Muls(b", "AscendC::Mulls(b"))
    line = 1 + PROGRAM.splitlines().index("    AscendC::Muls(b, a, factor, length);")
    assert done.returncode == 2
    assert f"scaling.asc:{line}: " in done.stderr
    assert "Mulls" in done.stderr


def test_a_program_that_crashes(tmp_path: Path) -> None:
    crash = PROGRAM.replace("aclInit(nullptr);", "aclInit(nullptr);\n    *(volatile int*)argv[argc] = 1;")
    done = run(tmp_path, program=crash)
    assert done.returncode == 2
    assert done.stderr.startswith("[run] Expected a program that ends by itself")
    assert "Segmentation fault" in done.stderr


@pytest.mark.parametrize("given", [["run", "missing.asc"], ["run", "--chip", "910X", "x.asc"], []])
def test_a_wrong_command_line(given: list[str], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pyasc.backend.sim", *given]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "error: " in done.stderr


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            "__global__ __vector__ void k(int a) {} k<<<4, 0, s>>>(1);",
            "::sim::launch(0, 1, 4, [=]() { k(1); });",
        ),
        ("__global__ __cube__ void k() {} k<<<n, 0, s>>>();", "::sim::launch(1, 1, n, [=]() { k(); });"),
        ("__mix__(1, 1) __global__ void k() {} k<<<n, 0, s>>>();", "::sim::launch(2, 1, n, [=]() { k(); });"),
        ("__mix__(0, 1) __global__ void k() {} k<<<n, 0, s>>>();", "::sim::launch(0, 1, n, [=]() { k(); });"),
        (
            "__global__ __aicore__ void k() { KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2); } "
            "a::k<<<f(1, 2), 0, s>>>();",
            "::sim::launch(2, 2, f(1, 2), [=]() { a::k(); });",
        ),
        (
            "template <int n, typename T> __global__ __vector__ void k() {} "
            "k<(3 > 2), A<B<int>>><<<1, 0, s>>>(g(x), (y));",
            "::sim::launch(0, 1, 1, [=]() { k<(3 > 2), A<B<int>>>(g(x), (y)); });",
        ),
        (
            "__global__ __aicore__ void k() { Mmad(c, a, b); } k<<<1, 0, s>>>();",
            "::sim::launch(1, 1, 1, [=]() { k(); });",
        ),
        ("x = 1 << 3;", "x = 1 << 3;"),
    ],
)
def test_launches_become_calls(source: str, expected: str) -> None:
    assert rewritten(source).endswith(expected)
