"""Buffers and the memory pool. Figures of the whole process are taken in processes of their own."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from pyasc.backend import _runtime

MIB = 1 << 20


@pytest.mark.parametrize(
    "nbytes", [0, 1, 127, 128, 129, 1024, 1025, 4000, MIB, 2 * MIB - 1, 2 * MIB, 3 * MIB + 5]
)
def test_a_buffer_holds_what_was_asked(nbytes: int) -> None:
    before = _runtime.memory_stats()["used"]
    buffer = _runtime.allocate(nbytes)
    assert buffer.nbytes == nbytes
    assert buffer.address % (2 * MIB if nbytes >= 2 * MIB else 128) == 0
    taken = _runtime.memory_stats()["used"] - before
    assert nbytes <= taken <= max(nbytes * 1.126, nbytes + 128, nbytes + (65536 if nbytes >= 2 * MIB else 0))
    array = _runtime.array(buffer, (nbytes,), np.dtype(np.uint8), writable=True)
    array[...] = 7
    assert bytes(buffer) == b"\7" * nbytes
    del array, buffer
    assert _runtime.memory_stats()["used"] == before


def test_a_view_is_read_only_and_marks_the_buffer() -> None:
    buffer = _runtime.allocate(64)
    inside = _runtime.array(buffer, (4, 4), np.dtype(np.float32), writable=True)
    inside[...] = 1
    assert not buffer.exported
    view = _runtime.array(buffer, (4, 4), np.dtype(np.float32))
    assert buffer.exported and not view.flags.writeable and view.flags.aligned and (view == 1).all()
    with pytest.raises(ValueError, match="WRITEABLE"):
        view.flags.writeable = True
    row = view[1]
    del view
    assert buffer.exported
    del row
    assert not buffer.exported
    with memoryview(buffer) as seen:
        assert buffer.exported and seen.readonly and seen.nbytes == 64
    assert not buffer.exported


def test_a_view_outlives_its_buffer_object() -> None:
    buffer = _runtime.allocate(16)
    _runtime.array(buffer, (4,), np.dtype(np.int32), writable=True)[...] = [1, 2, 3, 4]
    alive = weakref.ref(buffer)
    view = _runtime.array(buffer, (4,), np.dtype(np.int32))
    del buffer
    others = [_runtime.allocate(16) for _ in range(10)]
    assert view.tolist() == [1, 2, 3, 4] and others
    del view
    gc.collect()
    assert alive() is None


def test_shapes_and_dtypes_of_views() -> None:
    buffer = _runtime.allocate(32)
    half = _runtime.array(buffer, (2, 8), np.dtype(ml_dtypes.bfloat16))
    assert half.dtype == ml_dtypes.bfloat16 and half.shape == (2, 8)
    assert _runtime.array(buffer, (), np.dtype(np.float64)).shape == ()
    assert _runtime.array(buffer, (0, 5), np.dtype(np.float64)).shape == (0, 5)
    for shape in [(9,), (2**40, 2**40), (-1,)]:
        with pytest.raises(ValueError, match="expected a"):
            _runtime.array(buffer, shape, np.dtype(np.float32))


def test_wrapping_an_array() -> None:
    array = np.arange(6, dtype=np.int16)
    alive = weakref.ref(array)
    before = _runtime.memory_stats()
    buffer = _runtime.wrap(array)
    assert _runtime.memory_stats() == before, "not the pool's memory"
    assert buffer.address == array.ctypes.data and buffer.nbytes == 12 and buffer.exported
    del array
    assert bytes(buffer) == np.arange(6, dtype=np.int16).tobytes()
    del buffer
    assert alive() is None
    for wrong in (np.zeros((4, 4))[:, 1:], np.frombuffer(bytearray(17), np.uint8)[1:].view(np.float64)):
        with pytest.raises(ValueError, match="C-contiguous"):
            _runtime.wrap(wrong)


def test_blocks_are_reused(run_python: Any) -> None:
    run_python("""
        from pyasc.backend import _runtime as r
        def address(nbytes):
            return r.allocate(nbytes).address
        for nbytes in (100, 5000, 1 << 20, 64 << 20):
            assert address(nbytes) == address(nbytes)
        big = address(64 << 20)
        assert address(60 << 20) == big, "up to 12.5 % larger is reused"
        assert address(32 << 20) != big, "a block twice the size is not"
        assert r.release_cache() >= 96 << 20
        assert r.memory_stats()["cached"] == 0 and r.release_cache() == 0
        """)


def test_peak_and_cached(run_python: Any) -> None:
    run_python("""
        from pyasc.backend import _runtime as r
        MIB = 1 << 20
        start = r.memory_stats()
        a, b = r.allocate(8 * MIB), r.allocate(8 * MIB)
        del a
        c = r.allocate(8 * MIB)
        stats = r.memory_stats()
        assert stats["used"] - start["used"] == 16 * MIB == stats["peak"] - start["used"], stats
        del b, c
        stats = r.memory_stats()
        assert stats["used"] == start["used"] and stats["cached"] - start["cached"] == 16 * MIB
        assert stats["peak"] - start["used"] == 16 * MIB
        r.reset_peak_memory()
        assert r.memory_stats()["peak"] == r.memory_stats()["used"]
        """)


def test_sizes_that_change_do_not_pile_up(run_python: Any) -> None:
    run_python("""
        from pyasc.backend import _runtime as r
        MIB = 1 << 20
        for size in range(4, 512, 4):
            r.allocate(size * MIB)
            stats = r.memory_stats()
            assert stats["cached"] <= size * MIB * 1.25 + 66 * MIB, (size, stats)
        """)


def test_the_limit(run_python: Any) -> None:
    run_python("""
        from pyasc.backend import _runtime as r
        MIB = 1 << 20
        class OutOfMemory(MemoryError):
            pass
        r.set_errors(OutOfMemory)
        r.release_cache()
        r.set_memory_limit(r.memory_stats()["used"] + 32 * MIB)
        kept = r.allocate(16 * MIB)
        spare = r.allocate(8 * MIB)
        del spare
        more = r.allocate(12 * MIB)                       # the cache is released for it
        assert r.memory_stats()["cached"] == 0
        try:
            r.allocate(8 * MIB)
        except OutOfMemory as error:
            for part in ("8.0 MiB", str(8 * MIB), "28.", "in use", "cached", "limit 32."):
                assert part in str(error), (part, str(error))
        else:
            raise AssertionError
        del more
        assert r.allocate(8 * MIB).nbytes == 8 * MIB      # and the pool is as good as before
        r.set_memory_limit(0)
        assert r.allocate(64 * MIB).nbytes == 64 * MIB
        """)


@pytest.mark.parametrize("nbytes", [2**62, 2**63 - 1, 2**63, 2**64 - 1])
def test_no_memory_is_an_error(nbytes: int) -> None:
    with pytest.raises(MemoryError, match="asked"):
        _runtime.allocate(nbytes)
    with pytest.raises(TypeError):
        _runtime.allocate(-1)
