"""What a device does, in a profile: its own lanes and times beside the host's, in every form of it."""

from __future__ import annotations

import threading
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import pyasc
from pyasc.lazy.events import Note
from pyasc.profiler import Event, Profiler

LINE = ("program.py", 3, "y = x + 1")


@pytest.fixture
def profiler() -> Profiler:
    """Of a plan with two independent kernels on a device, between copies, and a call on the host."""
    made = Profiler()
    notes = [
        Note("kernel", "add", "npu:1", 0, 3000),
        Note("kernel", "mul", "npu:1", 1, 3000),
        Note("host", "sort", "cpu", 2, 100),
    ]
    made.steps(
        notes,
        lambda: [LINE, LINE, None],
        [
            ("allocate", 4000, 0, 1000),
            ("upload", 4000, 1000, 6000),
            ("device_launch", 0, 6000, 9000),
            ("device_launch", 0, 6500, 9500),
            ("download", 4000, 9500, 14_000),
            ("call", 0, 15_000, 16_000),
        ],
    )
    return made


def test_lanes_of_the_device(profiler: Profiler) -> None:
    here = threading.current_thread().name
    assert [(e.kind, e.name, e.thread, e.device) for e in profiler.events] == [
        ("allocate", "allocate", here, ""),
        ("upload", "upload", "npu:1 upload", "npu:1"),
        ("kernel", "add", "npu:1 compute", "npu:1"),
        ("kernel", "mul", "npu:1 second", "npu:1"),
        ("download", "download", "npu:1 download", "npu:1"),
        ("host", "sort", here, ""),
    ]
    add: Event = profiler.events[2]
    assert add.start == 6.0 and add.end == 9.0 and add.nbytes == 3000 and add.place == "program.py:3"
    # A second plan goes on in the lanes; what follows is in the first one again.
    profiler.steps(
        [Note("kernel", "add", "npu:1", 0, 1)], lambda: [None], [("device_launch", 0, 20_000, 21_000)]
    )
    assert profiler.events[-1].thread == "npu:1 compute"


def test_the_table_has_rates(profiler: Profiler) -> None:
    rows = {row.name: row for row in profiler.timeline}
    assert rows["upload"].rate == pytest.approx(4000 / 5e-6)
    assert rows["add"].backend == "npu:1" and rows["add"].rate == pytest.approx(1e9)
    assert "0.8 GB/s" in str(profiler)


def test_the_trace_has_a_process_for_each_device(profiler: Profiler) -> None:
    events = profiler.trace()["traceEvents"]
    processes = {e["args"]["name"]: e["pid"] for e in events if e["name"] == "process_name"}
    assert processes == {"host": 0, "npu:1": 1}
    threads = {e["args"]["name"]: (e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"}
    (add,) = [e for e in events if e["name"] == "add"]
    assert (add["pid"], add["tid"]) == threads["npu:1 compute"] and add["pid"] == 1
    (sort,) = [e for e in events if e["name"] == "sort"]
    assert sort["pid"] == 0
    on_the_host = Profiler()
    on_the_host.steps([Note("host", "sort", "cpu", 0, 1)], lambda: [None], [("call", 0, 1, 2)])
    assert {e["pid"] for e in on_the_host.trace()["traceEvents"]} == {0}


def test_the_picture_has_a_row_for_each_lane(profiler: Profiler) -> None:
    picture = profiler.plot()
    texts = [e.text for e in ElementTree.fromstring(picture).iter() if e.tag.endswith("text")]
    assert {"npu:1 upload", "npu:1 compute", "npu:1 second", "npu:1 download"} <= set(texts)
    assert {"upload", "download", "kernel"} <= set(texts)


def test_a_plan_on_a_device(npu_machine: Any) -> None:
    """What the device says of itself: a kernel after its upload, a download after its kernel."""
    x = np.arange(1000, dtype=np.float32)
    npu_machine.inject("slow", 1, 30)
    with pyasc.backend("npu:0"), Profiler() as profiler:
        a = pyasc.asarray(x) * 2
        b = pyasc.sort(a) + 1  # sorted on the host
        np.testing.assert_array_equal(b.numpy(), 2 * x + 1)
    on_device = [e for e in profiler.events if e.device]
    assert {e.device for e in on_device} == {"npu:0"}
    first = test_a_plan_on_a_device.__code__.co_firstlineno
    kernels = [e for e in on_device if e.kind == "kernel"]
    assert {e.line[1] - first for e in kernels if e.line} == {5, 6}
    uploads = [e for e in on_device if e.kind == "upload"]
    downloads = [e for e in on_device if e.kind == "download"]
    # Ends are told by tasks of their own, which a busy machine delays: only beginnings are compared.
    assert uploads[0].start <= kernels[0].start < downloads[0].start - 25_000
    assert all(0 <= e.start <= e.end for e in profiler.events)
    assert sum(e.nbytes for e in downloads) >= x.nbytes
    (fetched,) = [e for e in profiler.events if e.name == "tensor to array"]
    assert fetched.kind == "download" and fetched.nbytes == x.nbytes and not fetched.device
    assert fetched.line is not None and fetched.line[1] - first == 7


def test_what_the_host_has_is_not_fetched(npu_machine: Any) -> None:
    with pyasc.backend("npu:0"):
        y = pyasc.asarray(np.arange(8.0, dtype=np.float32)) * 2
        y.numpy()
        with Profiler() as profiler:
            y.numpy()
    assert not [e for e in profiler.events if e.kind == "download"]
