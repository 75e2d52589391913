"""Programs with steps on a device: order, both sides of buffers, faults, what is logged."""

from __future__ import annotations

import _thread
import ctypes
import gc
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from device_kernels import BLOCKS, F32, NBYTES, Kernels, N, bits, buffer_of, compiled, values
from device_kernels import WITNESS as WITNESS_SOURCE
from standin.machine import Machine
from standin.toolkit import Toolkit

from pyasc.backend import _runtime
from pyasc.backend._runtime import DeviceCode, DeviceFailure, Program
from pyasc.backend.ascend.arguments import patched
from pyasc.backend.base import Patch

X = np.arange(N, dtype=F32)


@pytest.fixture(scope="module")
def kernels(toolkit: Toolkit, tmp_path_factory: pytest.TempPathFactory) -> Kernels:
    return compiled(toolkit, tmp_path_factory.mktemp("kernels"))


@pytest.fixture
def delayed(npu: Machine, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A device whose tasks begin late, so that what is not waited for is not there."""
    monkeypatch.setenv("STANDIN_DELAY_US", "1500")
    npu.reset()
    return npu


@pytest.fixture
def unhandled() -> Iterator[None]:
    """Failures as they are, without the front end's text."""
    faults, failures = _runtime.set_fault_handler(_raised), _runtime.set_device_error_handler(None)
    yield
    _runtime.set_fault_handler(faults)
    _runtime.set_device_error_handler(failures)
    gc.collect()  # what exceptions hold


def _raised(label: int, code: int, value: int) -> Exception:
    return IndexError(label, code, value)


# --- order -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lanes", [(0,), (0, 1), (1, 0, 0)])
def test_launches_in_lanes(delayed: Machine, kernels: Kernels, lanes: tuple[int, ...]) -> None:
    program = kernels.chain(4, lanes=lanes)
    assert program.device_steps
    source = buffer_of(X)
    _runtime.device_open(0)
    before = _runtime.device_stats(0)["uploads"]
    for factor in (2, 3):
        (out,) = program.run([source], bits(factor))
        assert (out.device, out.on_host) == (0, False) and source.device == 0 and source.on_host
        assert np.array_equal(values(out), X * factor**4)
        assert (out.device, out.on_host) == (0, True)
    assert _runtime.device_stats(0)["uploads"] == before + 1, "the device has the input already"


def test_a_buffer_is_written_after_its_readers(delayed: Machine, kernels: Kernels) -> None:
    program = Program(1, 3, [1, 2])
    program.device_allocate(1, NBYTES, 0)
    kernels.scaled(program, 0, 1, lane=1)
    program.alias(2, 0)
    kernels.scaled(program, 2, 2, 1)
    for _ in range(5):
        first, second = program.run([buffer_of(X)], bits(2, 5))
        assert np.array_equal(values(first), 2 * X) and np.array_equal(values(second), 5 * X)


def test_the_host_takes_turns(delayed: Machine, kernels: Kernels) -> None:
    def add_one(buffers: list[_runtime.Buffer], scalars: list[int]) -> None:
        x, out = (_runtime.array(b, (N,), F32, writable=True) for b in buffers)
        np.add(x, 1, out=out)

    program = Program(1, 6, [3, 5])
    program.device_allocate(1, NBYTES, 0)
    kernels.scaled(program, 0, 1)
    program.download(1)
    program.allocate(2, NBYTES)
    program.call(add_one, [1, 2], [], 1)
    program.device_allocate(3, NBYTES, 0)
    kernels.scaled(program, 2, 3, 1)  # not uploaded by a step of its own
    program.device_allocate(4, NBYTES, 0)
    kernels.scaled(program, 2, 4)
    program.allocate(5, NBYTES)
    program.copy(5, 0, [4], 4, 0, [4], [N], 4)
    for slot in (1, 2, 4):
        program.free(slot)
    for _ in range(5):
        first, second = program.run([buffer_of(X)], bits(2, 10))
        assert np.array_equal(values(first), 10 * (2 * X + 1))
        assert np.array_equal(values(second), 2 * (2 * X + 1))
        assert second.device == -1


def test_written_in_turn_by_device_and_host(delayed: Machine, kernels: Kernels) -> None:
    def negate(buffers: list[_runtime.Buffer], scalars: list[int]) -> None:
        x = _runtime.array(buffers[0], (N,), F32, writable=True)
        np.negative(x, out=x)

    program = Program(0, 1, [0])
    program.device_allocate(0, NBYTES, 0)
    kernels.scaled(program, 0, 0)
    program = Program(1, 2, [1])
    program.alias(1, 0)
    for _ in range(3):
        kernels.scaled(program, 1, 1)
        program.written(1, 0)
        program.call(negate, [1], [], 1)
        program.written(1, -1)
    source = buffer_of(X)
    for turn in (1, 2):
        (out,) = program.run([source], bits(2))
        assert out is source and (out.device, out.on_host) == (-1, True)
        assert np.array_equal(values(out), X * (-8.0) ** turn)


def test_threads_share_an_input(delayed: Machine, kernels: Kernels) -> None:
    count = 1 << 16
    program = kernels.chain(2, count=count // 16)
    x = np.arange(count, dtype=F32)
    source = buffer_of(x)
    wrong: list[float] = []

    def work(factor: float) -> None:
        for _ in range(4):
            (out,) = program.run([source], bits(factor))
            if not np.array_equal(values(out), x[: count // 16] * factor**2):
                wrong.append(factor)

    threads = [threading.Thread(target=work, args=(f,)) for f in (2.0, 3.0, 4.0, 5.0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_what_is_freed_stays_until_its_last_use(delayed: Machine, kernels: Kernels) -> None:
    program = kernels.chain(6, lanes=(0, 1))
    results = []
    for power in range(8):
        results.append(program.run([buffer_of(X)], bits(2**power))[0])
    for power, out in enumerate(results):
        assert np.array_equal(values(out), X * 2.0 ** (6 * power))


# --- memory of others ------------------------------------------------------------------------------------


def test_an_array_is_written_where_it_is(delayed: Machine, kernels: Kernels) -> None:
    program = Program(1, 2, [1])
    program.alias(1, 0)
    kernels.scaled(program, 1, 1)
    program.written(1, 0)
    array = X.copy()
    buffer = _runtime.wrap(array)
    program.run([buffer], bits(3))
    assert buffer.exported and not buffer.on_host
    assert buffer.address == array.ctypes.data
    assert np.array_equal(array, 3 * X)


def test_an_array_that_others_may_write_is_looked_at_again(npu: Machine, kernels: Kernels) -> None:
    program = kernels.chain(1)
    array = X.copy()
    for shared in (_runtime.wrap(array), _runtime.wrap(array[:])):
        for factor in (1, 2):
            array[:] = factor
            assert np.all(values(program.run([shared], bits(1))[0]) == factor)
    before = _runtime.device_stats(0)["uploads"]
    own = _runtime.wrap(X.copy())
    written = _runtime.wrap(np.frombuffer(X.tobytes(), F32))
    for _ in range(3):
        program.run([own], bits(1))
        program.run([written], bits(1))
    assert _runtime.device_stats(0)["uploads"] == before + 2, "nobody else can write to these"


def test_what_was_handed_out_never_changes(npu: Machine, kernels: Kernels) -> None:
    program = kernels.chain(1)
    (out,) = program.run([buffer_of(X)], bits(2))
    view = _runtime.array(out, (N,), F32)
    again = kernels.chain(1)
    (later,) = again.run([out], bits(5))
    assert np.array_equal(view, 2 * X) and np.array_equal(values(later), 10 * X)
    assert bytes(out) == (2 * X).tobytes() and out.exported
    del out
    assert np.array_equal(view, 2 * X)


def test_buffers_on_devices(delayed: Machine, kernels: Kernels) -> None:
    source = buffer_of(X)
    there = _runtime.to_device(source, 0, True)
    assert (there.device, there.on_host, there.committed) == (0, False, True)
    assert there.device_address() != there.address and there.exported
    across = _runtime.to_device(there, 1, True)
    back = _runtime.to_device(across, -1, False)
    assert (across.device, back.device, back.committed) == (1, -1, False)
    assert np.array_equal(values(back), X) and np.array_equal(values(across), X)
    again = _runtime.to_device(there, 0, False)
    assert np.array_equal(values(again), X) and not again.committed
    (out,) = kernels.chain(2).run([there], bits(2))
    assert out.committed, "what is computed from it"
    host = _runtime.to_device(source, -1, False)
    assert np.array_equal(values(host), X) and host.address != source.address
    empty = _runtime.to_device(_runtime.allocate(0), 0, True)
    assert bytes(empty) == b"" and bytes(_runtime.to_device(empty, -1, False)) == b""
    with pytest.raises(ValueError, match="contents on a device"):
        back.device_address()


def test_memory_of_another_library(delayed: Machine, kernels: Kernels) -> None:
    class Owner:
        pass

    held = _runtime.to_device(buffer_of(X), 0, True)
    owner = Owner()
    alive = ctypes.py_object(owner)
    foreign = _runtime.wrap_device(held.device_address(), NBYTES, 0, owner)
    assert foreign.committed and foreign.exported and not foreign.on_host
    (out,) = kernels.chain(2, lanes=(1,)).run([foreign], bits(3))
    assert np.array_equal(values(out), 9 * X) and np.array_equal(values(foreign), X)
    assert alive.value is owner


# --- arguments -------------------------------------------------------------------------------------------


def test_scalars_in_the_block_of_arguments(npu: Machine, tmp_path: Path) -> None:
    source, made = tmp_path / "witness.c", tmp_path / "witness.so"
    source.write_text(WITNESS_SOURCE)
    subprocess.run(["cc", "-shared", "-fPIC", source, "-o", made], check=True)
    code = DeviceCode(made.read_bytes(), "library", "witness")
    whole = [f"{u}int{w}" for u in ("", "u") for w in (8, 16, 32, 64)]
    forms = [("bits", s) for s in (1, 2, 4, 8)] + [("bool", 2), ("narrow", 4)]
    forms += [(dtype, size) for dtype in whole for size in (1, 2, 4, 8)]
    forms += [(d, 4) for d in ("float16", "bfloat16", "float64")] + [(f"{d}>float32", 4) for d in whole]
    given = [0, 1, 2, 0x7F, 0x80, 0xFF, 0x3C01, 0x7C00, 0xFC01, 0x8001, 0x7FC0, 2**31 - 1, 2**24 + 1]
    given += [2**32 - 1, 2**31, 2**63 - 1, 2**63, 2**64 - 1, 2**53 + 1]
    given += np.array([-1.1, 1e300, 1e-42, 3.4e38, np.nan]).view(np.uint64).tolist()
    given += np.random.default_rng(2).integers(0, 2**64, 30, np.uint64).tolist()
    for value in given:
        signed = value - 2**64 if value >= 2**63 else value
        shown = [f for f in forms if f[0] != "narrow" or -(2**31) <= signed < 2**31]
        patches = [Patch(8 + 8 * n, size, 0, form) for n, (form, size) in enumerate(shown)]
        seen = np.zeros(8 + 8 * len(shown), np.uint8)
        template = seen.ctypes.data.to_bytes(8, "little") + bytes(8 * len(shown))
        program = Program(0, 0, [])
        at = [(p.offset, p.size, p.scalar, p.form) for p in patches]
        program.device_launch(code, 0, 0, len(template) // 8, template, [], at, [], None, -1, 0)
        program.run([], value.to_bytes(8, "little"))
        _runtime.device_synchronize(0)
        assert seen.tobytes() == patched(template, patches, [value]), value


def test_a_scalar_that_does_not_fit(npu: Machine, kernels: Kernels, unhandled: None) -> None:
    program = Program(0, 1, [0])
    program.device_allocate(0, NBYTES, 0)
    program.device_launch(
        kernels.scale, 0, 0, 1, bytes(32), [(0, 0, 0), (8, 0, 0)], [(16, 4, 0, "narrow")], [0], None, -1, 9
    )
    for value in (2**31, -(2**31) - 1, 2**63 - 1):
        with pytest.raises(IndexError) as caught:
            program.run([], value.to_bytes(8, "little", signed=True))
        assert caught.value.args == (9, _runtime.WIDE_SCALAR, value)


def test_what_a_program_refuses_of_a_device(kernels: Kernels) -> None:
    program = Program(1, 3, [1])
    block, scale = bytes(32), kernels.scale
    with pytest.raises(ValueError, match="lane 0 or 1"):
        program.device_launch(scale, 0, 2, 1, block, [], [], [], None, -1, 0)
    with pytest.raises(ValueError, match="one device for all steps, given 1"):
        program.upload(0, 1)
    with pytest.raises(ValueError, match="block of 32 bytes, given 28"):
        program.device_launch(scale, 0, 0, 1, block, [(28, 0, 0)], [], [], None, -1, 0)
    for form, size in (("narrow", 8), ("float128", 4), ("bits", 9)):
        with pytest.raises(ValueError, match="form of a scalar"):
            program.device_launch(scale, 0, 0, 1, block, [], [(0, size, 0, form)], [], None, -1, 0)
    with pytest.raises(ValueError, match="slot that holds a buffer, given 2"):
        program.download(2)
    with pytest.raises(ValueError, match="has not been used, given 0"):
        program.device_allocate(0, 4, 0)
    with pytest.raises(ValueError, match="vector, cube, mixed or library, given scalar"):
        DeviceCode(b"", "scalar", "f")


# --- faults ----------------------------------------------------------------------------------------------


def test_the_first_fault_of_a_status(npu: Machine, kernels: Kernels, unhandled: None) -> None:
    program = Program(1, 2, [1])
    program.device_allocate(1, NBYTES, 0)
    kernels.scaled(program, 0, 1, label=1)
    kernels.reported(program, 5, -7, 42)
    kernels.reported(program, 8, -9, 43)
    source = buffer_of(X)
    settled: list[Any] = []

    class Receiver:
        def settle(self, buffer: Any) -> None:
            settled.append(buffer)

    for _ in range(3):
        with pytest.raises(IndexError) as caught:
            program.run([source], bits(1), [Receiver()])
        assert caught.value.args == (42, 6, -7), "of the first launch, the first block with one"
    assert not settled
    assert np.array_equal(values(kernels.chain(1).run([source], bits(2))[0]), 2 * X)


def test_a_failure_names_the_launch(npu: Machine, kernels: Kernels, unhandled: None) -> None:
    healthy, program = kernels.chain(1), kernels.chain(3)
    source = buffer_of(X)
    (before,) = healthy.run([source], bits(2))
    _runtime.device_synchronize(0)
    npu.inject("kernel", 2, 507035)
    (bad,) = program.run([source], bits(3))
    failed = program.last_run
    (beside,) = healthy.run([source], bits(5))
    (after,) = healthy.run([bad], bits(5))
    with pytest.raises(DeviceFailure) as caught:
        bad.address  # noqa: B018
    failure = caught.value
    assert (failure.code, failure.device, failure.lost) == (507035, 0, False)
    assert failure.launches == [(failed, 1)] and "vector" in failure.text
    _runtime.device_recover(0)
    assert np.array_equal(values(before), 2 * X) and np.array_equal(values(beside), 5 * X)
    for lost in (bad, after):
        with pytest.raises(DeviceFailure) as caught:
            lost.address  # noqa: B018
        assert caught.value.launches == [(failed, 1)]
        assert lost.device == -1 and not lost.on_host
    assert np.array_equal(values(source), X)
    assert np.array_equal(values(program.run([source], bits(3))[0]), 27 * X)
    npu.clear_complaints()


def test_a_launch_that_is_refused(npu: Machine, kernels: Kernels, unhandled: None) -> None:
    program = kernels.chain(2)
    source = buffer_of(X)
    program.run([source], bits(1))
    npu.inject("launch", 2, 507000)
    with pytest.raises(DeviceFailure) as caught:
        program.run([source], bits(1))
    assert caught.value.code == 507000 and caught.value.launches in ([], [(program.last_run, 1)])
    _runtime.device_recover(0)
    assert np.array_equal(values(program.run([source], bits(2))[0]), 4 * X)


def test_the_handler_makes_the_error(npu: Machine, kernels: Kernels, unhandled: None) -> None:
    _runtime.set_device_error_handler(lambda failure: LookupError(failure.device, failure.code))
    (out,) = kernels.chain(1).run([buffer_of(X)], bits(1))
    npu.inject("aclrtMemcpyAsync", 1, 507000)
    with pytest.raises(LookupError, match="507000"):
        bytes(out)
    _runtime.set_device_error_handler(None)
    _runtime.device_recover(0)


def test_out_of_memory(npu: Machine, kernels: Kernels) -> None:
    _runtime.device_open(0)
    copies = [buffer_of(X) for _ in range(8)]
    program = kernels.chain(1)
    _runtime.device_set_limit(0, 4 * NBYTES)
    for buffer in copies:  # what the host has too makes room
        assert np.array_equal(values(program.run([buffer], bits(2))[0]), 2 * X)
    assert sum(b.device == 0 for b in copies) < 4
    large = Program(0, 1, [0])
    large.device_allocate(0, 1 << 20, 0)
    for _ in range(2):
        with pytest.raises(
            MemoryError, match=r"\[allocate\] 1.0 MiB .* on npu:0, given .* limit 16.0 KiB, .* GiB free"
        ):
            large.run([], b"")
    _runtime.device_set_limit(0, 0)
    large.run([], b"")


@pytest.mark.parametrize("blocking", [False, True])
def test_ctrl_c_in_a_long_launch(npu: Machine, kernels: Kernels, unhandled: None, blocking: bool) -> None:
    program = kernels.chain(1)
    source = buffer_of(X)
    program.run([source], bits(1))
    _runtime.device_synchronize(0)
    npu.inject("hang")
    timer = threading.Timer(0.2, _thread.interrupt_main)
    timer.start()
    start = time.monotonic()
    _runtime.device_set_blocking(blocking)
    try:
        with pytest.raises(KeyboardInterrupt):
            (out,) = program.run([source], bits(1))
            bytes(out)
    finally:
        _runtime.device_set_blocking(False)
        timer.join()
    assert time.monotonic() - start < 2
    _runtime.device_reset(0)
    assert source.device == -1 and np.array_equal(values(program.run([source], bits(2))[0]), 2 * X)
    npu.clear_complaints()


def test_a_reset_keeps_what_the_host_has(npu: Machine, kernels: Kernels, unhandled: None) -> None:
    program = kernels.chain(1)
    source = buffer_of(X)
    (seen,) = program.run([source], bits(2))
    view = _runtime.array(seen, (N,), F32)
    (unseen,) = program.run([source], bits(3))
    _runtime.device_reset(0)
    assert np.array_equal(view, 2 * X) and seen.on_host and seen.device == -1
    for _ in range(2):
        with pytest.raises(DeviceFailure, match="was reset"):
            bytes(unseen)
    assert np.array_equal(values(program.run([seen], bits(2))[0]), 4 * X)


def test_blocking_launches(npu: Machine, kernels: Kernels, unhandled: None) -> None:
    program = kernels.chain(3)
    source = buffer_of(X)
    _runtime.device_set_blocking(True)
    try:
        npu.inject("kernel", 2, 507035)
        with pytest.raises(DeviceFailure) as caught:
            program.run([source], bits(1))
        assert caught.value.launches == [(program.last_run, 1)]
        _runtime.device_recover(0)
    finally:
        _runtime.device_set_blocking(False)
    npu.clear_complaints()


def test_nothing_is_left_behind(npu: Machine, kernels: Kernels, unhandled: None) -> None:
    programs = [kernels.chain(3), kernels.chain(2, lanes=(0, 1))]
    source = buffer_of(X)

    def turn() -> None:
        for program in programs:
            (out,) = program.run([source], bits(2))
            try:
                bytes(out)
            except DeviceFailure:
                _runtime.device_recover(0)

    for _ in range(3):
        turn()
    _runtime.device_synchronize(0)
    start = _runtime.device_stats(0), _runtime.memory_stats()["used"], npu.resources()
    for k in range(60):
        if k % 3 == 0:
            npu.inject("kernel", 1 + k % 5, 507035)
        turn()
    npu.clear_faults()
    turn()
    _runtime.device_synchronize(0)
    stats = _runtime.device_stats(0)
    assert stats["used"] == start[0]["used"] and stats["streams"] == start[0]["streams"]
    assert stats["events"] <= start[0]["events"] + 8 and stats["pinned"] <= start[0]["pinned"] + 4 * NBYTES
    assert _runtime.memory_stats()["used"] == start[1]
    assert npu.resources()["binaries"] == start[2]["binaries"]
    npu.clear_complaints()


def test_another_library_is_refused(npu: Machine, toolkit: Toolkit) -> None:
    _runtime.device_open(0)
    _runtime.device_set_library(str(toolkit.library))
    with pytest.raises(ValueError, match="once one is loaded, given /elsewhere"):
        _runtime.device_set_library("/elsewhere")
    with pytest.raises(ValueError, match="lane from 0 to 3, given 4"):
        _runtime.device_stream(0, 4)
    assert _runtime.device_stream(0, 0) and _runtime.device_is_open(0) and not _runtime.device_is_open(1)


# A program of its own: `there` is on the device, and work is in the lanes.
_BUSY = """
    import os, sys
    import numpy as np
    from pyasc.backend import _runtime as r
    r.device_set_library(sys.argv[1])
    x = np.arange(1 << 20, dtype=np.float32)
    buffer = r.allocate(x.nbytes)
    r.array(buffer, x.shape, x.dtype, writable=True)[:] = x
    there = r.to_device(buffer, 0, True)
"""


def test_the_child_of_a_fork_is_told(run_python: Any, toolkit: Toolkit) -> None:
    code = """
    if (child := os.fork()) == 0:
        try:
            bytes(there)
        except RuntimeError as error:
            del there
            os._exit(7 if "forked" in str(error) else 8)
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert bytes(there) == x.tobytes()
    """
    run_python(_BUSY + code, str(toolkit.library))


def test_a_process_ends_with_work_under_way(run_python: Any, toolkit: Toolkit) -> None:
    code = """
    class Late:
        def __del__(self):
            assert view[5] == 5  # memory that a download filled
    late, view = Late(), r.array(there, x.shape, x.dtype)
    others = [r.to_device(there, n % 2, False) for n in range(8)]
    backs = [r.to_device(other, -1, False) for other in others]
    """
    result = run_python(_BUSY + code, str(toolkit.library), STANDIN_DELAY_US="3000")
    assert not result.stderr, result.stderr


# --- times -----------------------------------------------------------------------------------------------


def test_a_log_has_the_times_of_the_device(npu: Machine, kernels: Kernels) -> None:
    program = kernels.chain(2)
    program.download(2)
    log: list[tuple[str, int, int, int]] = []
    npu.inject("slow", 2, 30)
    start = time.perf_counter_ns()
    program.run([buffer_of(X)], bits(2), None, log)
    end = time.perf_counter_ns()
    kinds = ["upload", "allocate", "device_launch", "allocate", "device_launch", "download"]
    assert [entry[0] for entry in log] == kinds
    assert [entry[1] for entry in log] == [NBYTES, NBYTES, 0, NBYTES, 0, NBYTES]
    slack = 2_000_000
    for _, _, begin, stop in log:
        assert start - slack <= begin <= stop <= end + slack
    assert log[4][3] - log[4][2] > 25e6, "the slow launch"
    assert log[5][2] - log[4][2] > 25e6, "the download after it"


def test_a_launch_is_timed(npu: Machine, kernels: Kernels) -> None:
    source, target = buffer_of(X), _runtime.allocate(NBYTES)
    block = struct.pack("<QQqfi", 0, 0, N // BLOCKS, 3.0, 0)
    times = _runtime.time_launch(kernels.scale, 0, BLOCKS, block, [(0, source), (8, target)], 5)
    assert len(times) == 5 and all(0 <= t < 1e6 for t in times)
    assert np.array_equal(values(target), 3 * X)
