"""Programs: slots, launches, copies, calls, faults, threads."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from pyasc.backend import _runtime
from pyasc.backend._runtime import Program

F32 = np.dtype(np.float32)
I64 = np.dtype(np.int64)


def bits(*values: float) -> bytes:
    return b"".join(np.float32(v).tobytes() + bytes(4) for v in values)


def buffer_of(array: np.ndarray[Any, Any]) -> _runtime.Buffer:
    buffer = _runtime.allocate(array.nbytes)
    _runtime.array(buffer, array.shape, array.dtype, writable=True)[...] = array
    return buffer


def values(buffer: _runtime.Buffer, dtype: np.dtype[Any] = F32) -> np.ndarray[Any, Any]:
    return np.array(_runtime.array(buffer, (buffer.nbytes // dtype.itemsize,), dtype))


def add_twice(kernels: dict[str, int], n: int, grain: int) -> Program:
    """Slot 3 = slot 0 + the scalars 0 and 1, through a buffer that is freed between."""
    program = Program(1, 4, [3])
    program.allocate(1, 4 * n)
    program.launch([(kernels["add_scalar"], n, grain)], [(0, 0), (1, 0)], [], [0], 0, 0, 0)
    program.allocate(3, 4 * n)
    program.launch([(kernels["add_scalar"], n, grain)], [(1, 0), (3, 0)], [], [1], 0, 0, 0)
    program.free(1)
    return program


@pytest.mark.parametrize(
    ("n", "grain"), [(1, 1), (5, 1), (1000, 10_000), (1000, 7), (100_000, 1024), (300_000, 300_001)]
)
def test_launches(kernels: dict[str, int], two_threads: None, n: int, grain: int) -> None:
    x = np.arange(n, dtype=F32)
    program = add_twice(kernels, n, grain)
    source = buffer_of(x)
    for scalars in [(1, 2), (3, 4)]:
        (out,) = program.run([source], bits(*scalars))
        assert np.array_equal(values(out), x + sum(scalars))


def test_temporaries_are_freed_when_they_are_no_longer_needed(run_python: Any) -> None:
    run_python("""
        from pyasc.backend import _runtime as r
        program = r.Program(0, 10, [9])
        for slot in range(9):
            program.allocate(slot, 4 << 20)
            if slot:
                program.free(slot - 1)
        program.allocate(9, 4 << 20)
        program.free(8)
        r.reset_peak_memory()
        start = r.memory_stats()["used"]
        out = program.run([], b"")
        stats = r.memory_stats()
        assert stats["peak"] - start == 8 << 20 and stats["used"] - start == 4 << 20, stats
        """)


def test_offsets_and_aliases(kernels: dict[str, int]) -> None:
    x = np.arange(8, dtype=F32)
    program = Program(1, 3, [2, 0])
    program.alias(1, 0)
    program.launch([(kernels["add_scalar"], 4, 4)], [(1, 0), (1, 16)], [], [0], 0, 0, 0)
    program.alias(2, 1)
    program.free(1)
    source = buffer_of(x)
    first, second = program.run([source], bits(10))
    assert first is second is source, "one buffer is one object"
    assert values(first).tolist() == [0, 1, 2, 3, 10, 11, 12, 13]


def test_an_output_may_be_named_twice() -> None:
    program = Program(0, 2, [0, 1, 0])
    program.allocate(0, 4)
    program.alias(1, 0)
    a, b, c = program.run([], b"")
    assert a is b is c


def test_scratch_is_shared_by_the_phases(kernels: dict[str, int], two_threads: None) -> None:
    n = 10_000
    program = Program(0, 1, [0])
    program.allocate(0, 8 * n)
    phases = [(kernels["fill_scratch"], n, 100), (kernels["read_scratch"], n, 300)]
    program.launch(phases, [(0, 0)], [n], [], 8 * n, 0, 0)
    (out,) = program.run([], b"")
    assert np.array_equal(values(out, I64), np.arange(n)[::-1])


def test_each_thread_has_its_own_scratch(kernels: dict[str, int]) -> None:
    count = _runtime.threads()
    n = 256
    program = Program(0, 1, [0])
    program.allocate(0, 8 * n)
    program.launch([(kernels["who"], n, 1)], [(0, 0)], [], [], 0, 8, 0)
    try:
        for threads in (3, 1, 2, 5):
            _runtime.set_threads(threads)
            assert _runtime.threads() == threads
            for _ in range(20):
                (out,) = program.run([], b"")
                owners = np.unique(values(out, I64))
                assert len(owners) <= threads and np.all(owners % 128 == 0)
                if len(owners) == min(threads, 2):
                    break
            else:
                pytest.fail(f"{len(owners)} of {threads} threads took part")
    finally:
        _runtime.set_threads(count)


def test_a_program_runs_from_many_threads(kernels: dict[str, int], two_threads: None) -> None:
    n = 50_000
    program = add_twice(kernels, n, 1000)
    failures: list[Any] = []

    def work(seed: int) -> None:
        x = np.full(n, seed, dtype=F32)
        source = buffer_of(x)
        for k in range(50):
            (out,) = program.run([source], bits(k, seed))
            if not np.array_equal(values(out), x + k + seed):
                failures.append((seed, k))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.parametrize("itemsize", [1, 2, 3, 4, 8, 16])
@pytest.mark.parametrize("shape", [(), (0, 3), (5,), (4, 6), (3, 4, 5), (300, 200)])
def test_copies(itemsize: int, shape: tuple[int, ...], two_threads: None) -> None:
    rng = np.random.default_rng(1)
    size = int(np.prod(shape))
    dtype = np.dtype(f"V{itemsize}")
    x = np.frombuffer(rng.bytes(size * itemsize), dtype).reshape(shape)
    for axes in {tuple(range(len(shape))), tuple(reversed(range(len(shape))))}:
        for step in (1, -1):
            program = Program(1, 2, [1])
            program.allocate(1, x.nbytes)
            view = x.transpose(axes)
            if shape:
                view = view[::step]
            offset = view.__array_interface__["data"][0] - x.__array_interface__["data"][0] if size else 0
            target = [itemsize * int(np.prod(view.shape[k + 1 :])) for k in range(view.ndim)]
            program.copy(1, 0, target, 0, offset, list(view.strides), list(view.shape), itemsize)
            (out,) = program.run([buffer_of(x)], b"")
            assert bytes(out) == view.tobytes()


def test_a_copy_broadcasts() -> None:
    program = Program(1, 2, [1])
    program.allocate(1, 24)
    program.copy(1, 0, [12, 4], 0, 4, [0, 4], [2, 3], 4)
    (out,) = program.run([buffer_of(np.arange(4, dtype=F32))], b"")
    assert values(out).tolist() == [1, 2, 3, 1, 2, 3]


def test_calls() -> None:
    seen: list[Any] = []

    def double(buffers: list[_runtime.Buffer], scalars: list[int]) -> None:
        seen.append((list(buffers), list(scalars)))
        x, out = (_runtime.array(b, (4,), F32, writable=True) for b in buffers)
        out[...] = 2 * x

    program = Program(1, 3, [2])
    program.allocate(1, 16)
    program.call(double, [0, 1], [1, 0], 5)
    program.allocate(2, 16)
    program.call(double, [1, 2], [], 6)
    program.free(1)
    source = buffer_of(np.arange(4, dtype=F32))
    (out,) = program.run([source], (5).to_bytes(8, "little") + (2**64 - 1).to_bytes(8, "little"))
    assert values(out).tolist() == [0, 4, 8, 12]
    assert seen[0][0][0] is source and seen[0][1] == [2**64 - 1, 5]
    kept = seen[0][0][1]
    assert values(kept).tolist() == [0, 2, 4, 6], "what a call keeps stays its own"


def test_a_call_that_fails_gives_everything_back() -> None:
    def fail(buffers: list[_runtime.Buffer], scalars: list[int]) -> None:
        raise ZeroDivisionError("the host function's own")

    program = Program(0, 3, [2])
    program.allocate(0, 1 << 16)
    program.allocate(1, 1 << 16)
    program.allocate(2, 1 << 16)
    program.call(fail, [1], [], 0)
    before = _runtime.memory_stats()["used"]
    for _ in range(10):
        with pytest.raises(ZeroDivisionError, match="own"):
            program.run([], b"")
    assert _runtime.memory_stats()["used"] == before


def test_the_first_fault_is_raised(kernels: dict[str, int], two_threads: None) -> None:
    seen: list[Any] = []

    def handler(label: int, code: int, value: int) -> Exception:
        seen.append((label, code, value))
        return IndexError(f"index {value}")

    program = Program(0, 1, [0])
    program.allocate(0, 8)
    program.launch([(kernels["fault"], 100_000, 100)], [(0, 0)], [55_555], [], 0, 0, 42)
    before = _runtime.memory_stats()["used"]
    previous = _runtime.set_fault_handler(handler)
    try:
        for _ in range(20):
            with pytest.raises(IndexError, match="index 55555"):
                program.run([], b"")
    finally:
        _runtime.set_fault_handler(previous)
    assert set(seen) == {(42, 3, 55_555)}
    assert _runtime.memory_stats()["used"] == before


def test_receivers_are_settled_before_run_returns() -> None:
    class Receiver:
        def settle(self, buffer: _runtime.Buffer) -> None:
            self.buffer = buffer

    program = Program(0, 2, [1, 0])
    program.allocate(0, 4)
    program.allocate(1, 8)
    receivers = [Receiver(), Receiver()]
    outputs = program.run([], b"", receivers)
    assert [r.buffer for r in receivers] == outputs


def test_ctrl_c_stops_a_long_program(run_python: Any) -> None:
    run_python("""
        import _thread, signal, threading, time
        from pyasc.backend import _runtime as r
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job may have it ignored
        program = r.Program(0, 2, [1])
        program.allocate(0, 8 << 20)
        program.allocate(1, 8 << 20)
        for _ in range(20_000):
            program.copy(1, 0, [1], 0, 0, [1], [8 << 20], 1)
        threading.Timer(0.3, _thread.interrupt_main).start()
        start = time.monotonic()
        try:
            program.run([], b"")
        except KeyboardInterrupt:
            assert time.monotonic() - start < 10
        else:
            raise AssertionError
        assert r.memory_stats()["used"] == 0
        """)


def test_out_of_memory_in_a_run(run_python: Any) -> None:
    run_python("""
        from pyasc.backend import _runtime as r
        program = r.Program(0, 2, [1])
        program.allocate(0, 8 << 20)
        program.allocate(1, 64 << 20)
        r.set_memory_limit(32 << 20)
        for _ in range(3):
            try:
                program.run([], b"")
            except MemoryError as error:
                assert "64.0 MiB" in str(error)
            else:
                raise AssertionError
            assert r.memory_stats()["used"] == 0
        """)


def test_what_a_program_refuses(kernels: dict[str, int]) -> None:
    address = kernels["add_scalar"]
    program = Program(1, 3, [1])
    with pytest.raises(ValueError, match="slot that holds a buffer, given 1"):
        program.free(1)
    with pytest.raises(ValueError, match="slot that holds a buffer, given 9"):
        program.launch([(address, 1, 1)], [(9, 0)], [], [], 0, 0, 0)
    with pytest.raises(ValueError, match="grain"):
        program.launch([(address, 1, 0)], [(0, 0)], [], [], 0, 0, 0)
    with pytest.raises(ValueError, match="has not been used, given 0"):
        program.allocate(0, 4)
    with pytest.raises(ValueError, match="slot that holds a buffer, given 1"):
        program.run([buffer_of(np.zeros(1, F32))], b"")
    program.allocate(1, 4)
    with pytest.raises(ValueError, match="is an output"):
        program.free(1)
    program.launch([(address, 1, 1)], [(0, 0), (1, 0)], [], [3], 0, 0, 0)
    with pytest.raises(ValueError, match="1 leaves, given 0"):
        program.run([], b"")
    with pytest.raises(TypeError, match="buffers"):
        program.run([1], bits(0, 0, 0, 0))  # type: ignore[list-item]
    with pytest.raises(ValueError, match="4 scalars"):
        program.run([buffer_of(np.zeros(1, F32))], bits(0))
    program.run([buffer_of(np.zeros(1, F32))], bits(0, 0, 0, 0))
    with pytest.raises(ValueError, match="no more steps"):
        program.allocate(2, 4)
    with pytest.raises(ValueError, match="outputs among the slots"):
        Program(0, 1, [1])
    with pytest.raises(ValueError, match="as many slots as inputs"):
        Program(2, 1, [])


def test_a_slot_freed_is_gone() -> None:
    program = Program(0, 2, [])
    program.allocate(0, 4)
    program.free(0)
    with pytest.raises(ValueError, match="slot that holds a buffer"):
        program.free(0)
    with pytest.raises(ValueError, match="slot that holds a buffer"):
        program.copy(0, 0, [1], 0, 0, [1], [4], 1)
