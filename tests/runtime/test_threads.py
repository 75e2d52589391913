"""The thread pool and processes that fork, in processes of their own."""

from __future__ import annotations

from typing import Any

import pytest

from pyasc.backend import _runtime

# A program with parallel copies: what runs on the threads, without a compiler.
_PROGRAM = """
import os, threading, time
from pyasc.backend import _runtime as r
N = 4 << 20
source = r.allocate(N)
def make():
    program = r.Program(1, 2, [1])
    program.allocate(1, N)
    for _ in range(8):
        program.copy(1, 0, [1], 0, 0, [1], [N], 1)
    return program
program = make()
def run():
    (out,) = program.run([source], b"")
    assert bytes(out) == bytes(source)
def threads():
    return len(os.listdir("/proc/self/task"))
def waited(child, seconds=30):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(child, 9)
    return "hung"
"""


def test_counts() -> None:
    import os

    assert _runtime.threads() >= 1
    with pytest.raises(ValueError, match="1 thread or more"):
        _runtime.set_threads(0)
    assert len(os.sched_getaffinity(0)) >= 1


def test_threads_start_with_the_first_parallel_work(run_python: Any) -> None:
    run_python(
        _PROGRAM
        + """
r.set_threads(3)
before = threads()
small = r.Program(0, 1, [0])
small.allocate(0, 64)
small.run([], b"")
assert threads() == before
run()
assert threads() == before + 2
r.set_threads(1)
deadline = time.monotonic() + 5
while threads() > before and time.monotonic() < deadline:
    time.sleep(0.01)
assert threads() == before
run()
assert threads() == before
"""
    )


def test_a_child_starts_its_own_threads(run_python: Any) -> None:
    run_python(
        _PROGRAM
        + """
r.set_threads(2)
run()
child = os.fork()
if child == 0:
    before = threads()
    run()
    os._exit(0 if threads() == before + 1 else 3)
run()
assert waited(child) == 0
"""
    )


def test_a_fork_while_another_thread_runs_kernels(run_python: Any) -> None:
    run_python(
        _PROGRAM
        + """
r.set_threads(2)
stop = False
def work():
    while not stop:
        run()
workers = [threading.Thread(target=work) for _ in range(3)]
for worker in workers:
    worker.start()
for _ in range(20):
    child = os.fork()
    if child == 0:
        for _ in range(3):
            run()
        os._exit(0)
    assert waited(child) == 0
stop = True
for worker in workers:
    worker.join()
"""
    )


def test_first_use_from_a_worker_thread_and_exit_while_idle(run_python: Any) -> None:
    run_python(
        _PROGRAM
        + """
r.set_threads(2)
worker = threading.Thread(target=run)
worker.start()
worker.join()
run()
"""
    )


def test_changing_the_count_while_kernels_run(run_python: Any) -> None:
    run_python(
        _PROGRAM
        + """
stop = False
def work():
    while not stop:
        run()
workers = [threading.Thread(target=work) for _ in range(2)]
for worker in workers:
    worker.start()
for k in range(40):
    r.set_threads(1 + k % 4)
stop = True
for worker in workers:
    worker.join()
"""
    )


def test_signals_reach_the_interpreter(run_python: Any) -> None:
    run_python(
        _PROGRAM
        + """
import signal
r.set_threads(4)
run()
got = []
signal.signal(signal.SIGUSR1, lambda *_: got.append(threading.current_thread() is threading.main_thread()))
for _ in range(20):
    os.kill(os.getpid(), signal.SIGUSR1)
    run()
assert got and all(got)
"""
    )
