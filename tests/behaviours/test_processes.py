"""Processes: import, threads, fork, signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import pyasc


def test_import_starts_nothing(run_python: Any, tmp_path: Any) -> None:
    """No thread, no compiler, no folder, and nothing heavy loaded before first use."""
    code = """
        import os, sys, threading
        import pyasc
        assert len(os.listdir("/proc/self/task")) == 1, os.listdir("/proc/self/task")
        assert threading.active_count() == 1
        for heavy in ("llvmlite", "scipy", "torch", "jax", "PIL", "multiprocessing", "asyncio"):
            assert heavy not in sys.modules, heavy
        assert not os.path.exists(os.environ["PYASC_CACHE_DIR"])
    """
    run_python(code, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")


def test_import_is_one_package_from_anywhere(run_python: Any) -> None:
    root = str(pyasc.__path__[0]).rsplit(os.sep, 1)[0]
    where = "import pyasc, pyasc.ops, pyasc.backend; print(pyasc.__file__)"
    elsewhere = run_python(where).stdout
    in_root = subprocess.run(
        [sys.executable, "-c", where], cwd=root, capture_output=True, text=True, check=True
    ).stdout
    assert in_root == elsewhere


def test_first_use_from_a_worker_thread(run_python: Any) -> None:
    run_python("""
        import threading, pyasc
        seen = []
        def work():
            x = pyasc.ones((300, 300))
            seen.append(float((x * 2 + 1).sum()))
        t = threading.Thread(target=work); t.start(); t.join()
        assert seen == [270000.0], seen
        assert float(pyasc.ones(5).sum()) == 5
    """)


def test_eight_threads_sharing_arrays() -> None:
    a = np.random.default_rng(0).standard_normal((200, 200)).astype(np.float32)
    shared = pyasc.array(a)
    pending = shared * 2 + 1  # evaluated by whichever thread comes first

    def work(k: int) -> None:
        for turn in range(25):
            y = (shared * k + pending - turn)[k:, ::-1]
            expected = (a * np.float32(k) + (a * 2 + 1) - turn)[k:, ::-1]
            np.testing.assert_array_equal(np.asarray(y), expected)
            total = (shared + k).max()
            assert float(total) == float((a + np.float32(k)).max())

    with ThreadPoolExecutor(8) as pool:
        for job in [pool.submit(work, k) for k in range(8)]:
            job.result(timeout=120)


def test_eight_threads_compile_and_jit_at_once() -> None:
    @pyasc.jit
    def f(x: Any, k: Any) -> Any:
        return x * k - x

    def work(k: int) -> None:
        for n in range(1, 20):
            x = pyasc.full((n, k + 1), 3.0)
            assert float(f(x, k).sum()) == n * (k + 1) * (3.0 * k - 3)
            x += k
            assert float(x[0, 0]) == 3 + k

    with ThreadPoolExecutor(8) as pool:
        for job in [pool.submit(work, k) for k in range(8)]:
            job.result(timeout=120)


def test_sync_of_everything_while_others_record() -> None:
    def work(k: int) -> None:
        for turn in range(50):
            x = pyasc.full(100, k) + turn
            if k % 2:
                pyasc.sync()
            assert float(x.sum()) == 100 * (k + turn)

    with ThreadPoolExecutor(6) as pool:
        for job in [pool.submit(work, k) for k in range(6)]:
            job.result(timeout=120)


FORK = """
    import os, sys, pyasc
    x = pyasc.ones((700, 700))
    y = x * 2 + 1
    assert float(y.sum()) == 3 * 490000.0          # threads run
    pending = x + 4                                 # recorded before, evaluated on both sides
    child = os.fork()
    if child == 0:
        try:
            ok = float(pending.sum()) == 5 * 490000.0 and float((y - x).sum()) == 2 * 490000.0
            fresh = float((pyasc.ones((700, 700)) * 7 - 1).sum()) == 6 * 490000.0
            os._exit(0 if ok and fresh else 3)
        except RuntimeError as error:
            print(error, file=sys.stderr)
            os._exit(0 if "fork" in str(error) else 4)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0, status
    assert float(pending.sum()) == 5 * 490000.0
"""


def test_fork_after_use(run_python: Any) -> None:
    run_python(FORK, timeout=60)


def test_a_forked_pool(run_python: Any) -> None:
    run_python(
        """
        import multiprocessing, pyasc
        base = pyasc.ones((600, 600)) * 2
        assert float(base.sum()) == 720000.0
        def work(k):
            return float((base * k + 1).sum())
        with multiprocessing.get_context("fork").Pool(3) as pool:
            assert pool.map(work, range(6)) == [720000.0 * k + 360000.0 for k in range(6)]
        """,
        timeout=90,
    )


def test_fork_while_a_thread_computes(run_python: Any) -> None:
    run_python(
        """
        import os, threading, pyasc
        stop = False
        def busy():
            x = pyasc.ones((800, 800))
            while not stop:
                pyasc.sync(x * 3 + 1)
        t = threading.Thread(target=busy); t.start()
        for _ in range(5):
            child = os.fork()
            if child == 0:
                os._exit(0 if float((pyasc.ones((500, 500)) + 1).sum()) == 500000.0 else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        stop = True
        t.join()
        """,
        timeout=90,
    )


INTERRUPTED = {
    "many steps": "for _ in range(4000): y = y @ w",
    "many kernels": "for _ in range(100_000): y = pyasc.tanh(pyasc.roll(y, 1, 0)).sum(axis=0) + y",
    "recording": "while True: y = y * 1.0",
}


@pytest.mark.parametrize("what", INTERRUPTED)
def test_ctrl_c_stops_a_long_computation(what: str, tmp_path: Any) -> None:
    code = textwrap.dedent(f"""
        import signal
        import pyasc
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job may have it ignored
        w = pyasc.ones((512, 512)) / 512
        y = w * 1
        pyasc.sync(w, y)
        try:
            print("ready", flush=True)
            {INTERRUPTED[what]}
            pyasc.sync(y)
            print("finished", flush=True)
        except KeyboardInterrupt:
            assert float((w * 512).sum()) == 512 * 512.0
            assert float((pyasc.ones(100) + 1).sum()) == 200
            print("usable", flush=True)
    """)
    child = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    assert child.stdout is not None and child.stdout.readline() == "ready\n"
    time.sleep(1)
    if child.poll() is None:
        child.send_signal(signal.SIGINT)
    start = time.monotonic()
    try:
        out, err = child.communicate(timeout=60)
    finally:
        child.kill()
    assert child.returncode == 0, err
    assert "usable" in out or "finished" in out
    assert time.monotonic() - start < 20, "Ctrl-C was not heard"


def test_exit_with_pending_work_and_live_tensors(run_python: Any) -> None:
    result = run_python("""
        import pyasc
        kept = [pyasc.ones(1000) * k for k in range(100)]
        pyasc.sync(kept[3])
        view = kept[5][::2]
    """)
    assert result.stderr == ""


def test_exit_from_a_thread_that_holds_tensors(run_python: Any) -> None:
    result = run_python(
        """
        import threading, time, pyasc
        def work():
            x = pyasc.ones((500, 500))
            while True:
                pyasc.sync(x + 1)
        threading.Thread(target=work, daemon=True).start()
        time.sleep(0.5)
        """,
        check=False,
        timeout=60,
    )
    assert result.returncode == 0, result.stderr


def test_spawned_workers_receive_tensors(run_python: Any, tmp_path: Any) -> None:
    script = tmp_path / "spawned.py"
    script.write_text(
        textwrap.dedent("""
        import multiprocessing, pyasc
        def work(x):
            return float((x * 2).sum())
        if __name__ == "__main__":
            with multiprocessing.get_context("spawn").Pool(2) as pool:
                assert pool.map(work, [pyasc.ones(10) * k for k in range(3)]) == [0.0, 20.0, 40.0]
        """)
    )
    subprocess.run([sys.executable, str(script)], check=True, timeout=120, cwd=tmp_path)


def test_pickle_and_copy() -> None:
    import copy
    import pickle

    for dtype in ("float32", "int8", "bool"):
        x = pyasc.arange(6, dtype="int64").reshape(2, 3).astype(dtype)
        for other in (pickle.loads(pickle.dumps(x)), copy.copy(x), copy.deepcopy(x)):
            assert other.dtype == x.dtype and other.shape == (2, 3)
            np.testing.assert_array_equal(np.asarray(other), np.asarray(x))
