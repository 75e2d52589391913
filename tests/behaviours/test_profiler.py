"""The profiler: what ran, where it was asked for, how long it took, and that it is not noticed when off."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from time import perf_counter
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import pyasc
from pyasc.lazy import events
from pyasc.profiler import Profiler, Row, marker

VALUES = np.random.default_rng(0).random((64, 64)).astype(np.float32)


def rows(profiler: Profiler, kind: str) -> list[Row]:
    return [row for row in profiler.timeline if row.kind == kind]


def test_every_kind_of_event_with_the_line_of_the_user() -> None:
    # A structure that no other test has.
    with Profiler() as profiler:
        x = pyasc.asarray(VALUES)
        y = pyasc.exp2(pyasc.cbrt(x * 3.0) - 0.5)
        pyasc.sync(y)
        z = y @ y
        z[3:5] = 2.0
        pyasc.sync(z)
    here = Path(__file__).name
    first = test_every_kind_of_event_with_the_line_of_the_user.__code__.co_firstlineno
    assert {e.kind for e in profiler.events} >= {
        "record", "schedule", "compile", "kernel", "host", "copy", "allocate"
    }  # fmt: skip
    (fused,) = [row for row in rows(profiler, "kernel") if row.place == f"{here}:{first + 4}"]
    assert fused.nbytes == 2 * VALUES.nbytes and fused.backend == "cpu" and fused.calls == 1
    (product,) = rows(profiler, "host")
    assert product.name == "matmul" and product.place == f"{here}:{first + 6}"
    assert product.nbytes == 3 * VALUES.nbytes
    (upload,) = [row for row in rows(profiler, "copy") if row.name == "array to tensor"]
    assert upload.nbytes == VALUES.nbytes and upload.place == f"{here}:{first + 3}"
    assert all(row.place.startswith(here) for row in rows(profiler, "schedule"))
    for event in profiler.events:
        assert 0 <= event.start <= event.end
        assert event.line is None or event.line[0] == __file__


def test_times_inside_one_another_are_counted_once() -> None:
    with Profiler() as profiler:
        start = perf_counter()
        with marker("outer"):
            with marker("inner"):
                pyasc.sync(pyasc.asarray(VALUES) + 1)
            with marker("inner"):
                pass
        wall = (perf_counter() - start) * 1e6
    by_name = {row.name: row for row in rows(profiler, "marker")}
    outer, inner = by_name["outer"], by_name["inner"]
    assert inner.calls == 2 and outer.calls == 1 and inner.mean == inner.total / 2
    assert outer.own <= outer.total - inner.total + 1e-6
    assert sum(row.own for row in profiler.timeline) == pytest.approx(outer.total, rel=0.05)
    assert outer.total <= wall
    assert sum(row.share for row in profiler.timeline) == pytest.approx(1)


def test_replayed_plans_and_jit() -> None:
    jitted = pyasc.jit(lambda v: v * 2 + 1)
    x = pyasc.asarray(VALUES)
    jitted(x)
    with Profiler() as profiler:
        for _ in range(5):
            jitted(x)
    (kernel,) = rows(profiler, "kernel")
    assert kernel.calls == 5 and kernel.place.startswith(Path(__file__).name)
    assert not rows(profiler, "compile") and not rows(profiler, "schedule") and not rows(profiler, "record")
    assert kernel.rate == pytest.approx(kernel.nbytes / kernel.total * 1e6)


def test_what_is_pending_belongs_to_the_profile_in_which_it_was_recorded() -> None:
    before = pyasc.asarray(VALUES) + 1
    with Profiler() as profiler:
        inside = pyasc.asarray(VALUES) - 1
    assert not before.pending and not inside.pending
    assert [row.calls for row in rows(profiler, "kernel")] == [1]


def test_profilers_within_one_another() -> None:
    with Profiler() as outer:
        pyasc.sync(pyasc.asarray(VALUES) + 1)
        with Profiler() as inner:
            pyasc.sync(pyasc.asarray(VALUES) + 1)
    assert sum(row.calls for row in rows(inner, "kernel")) == 1
    assert sum(row.calls for row in rows(outer, "kernel")) == 2
    assert events.recorder is None
    with inner:
        pyasc.sync(pyasc.asarray(VALUES) + 1)
    assert sum(row.calls for row in rows(inner, "kernel")) == 2


def test_threads_have_rows_of_their_own() -> None:
    with Profiler() as profiler:
        workers = [
            threading.Thread(target=lambda: pyasc.sync(pyasc.asarray(VALUES) * 2), name=f"worker {k}")
            for k in range(2)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    kernels = [e.thread for e in profiler.events if e.kind == "kernel"]
    assert sorted(kernels) == ["worker 0", "worker 1"]
    names = [e["args"]["name"] for e in profiler.trace()["traceEvents"] if e["ph"] == "M"]
    assert {"worker 0", "worker 1"} <= set(names)


def test_a_run_that_fails_shows_its_steps() -> None:
    index = pyasc.asarray([0, 99]) * 1
    with pytest.raises(IndexError), Profiler() as profiler:
        pyasc.sync(pyasc.asarray(VALUES)[index] + 1)
    assert events.recorder is None
    assert any(e.kind == "kernel" for e in profiler.events)
    pyasc.sync(pyasc.asarray(VALUES) + 1)


def test_files_and_text(tmp_path: Path) -> None:
    with Profiler() as profiler, marker("a < b"):
        pyasc.sync(pyasc.asarray(VALUES) + 1)
    profiler.save(tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())
    shown = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert len(shown) == len(profiler.events)
    assert {"name", "cat", "ph", "ts", "dur", "pid", "tid", "args"} == set(shown[0])
    profiler.save(tmp_path / "profile.svg")
    ElementTree.parse(tmp_path / "profile.svg")
    assert "a &lt; b" in profiler.plot()
    table = str(profiler.timeline).splitlines()
    assert table[0].split()[:4] == ["name", "kind", "line", "calls"]
    assert len(table) == len(profiler.timeline) + 1
    assert "a &lt; b" in profiler._repr_html_()
    ElementTree.fromstring(profiler._repr_html_())
    assert str(Profiler().timeline) == "nothing ran" and Profiler().plot().startswith("<svg")


def test_simulated_kernels() -> None:
    with pyasc.backend("sim"), Profiler(simulate=True) as profiler:
        x = pyasc.asarray(VALUES)
        pyasc.sync(x * 2 + 1, (x + 1).sum())
        first = [e for e in profiler.events if e.kind == "kernel"]
    kernels = [e for e in profiler.events if e.kind == "kernel"]
    assert kernels and all(e.backend.startswith("sim:") for e in kernels)
    assert all(e.simulated_us is None for e in first)
    for event in kernels:
        assert event.simulated_us is not None and 1 < event.simulated_us < 100
        assert event.utilisation and 0 < max(event.utilisation.values()) <= 1
    assert "chip µs" in str(profiler.timeline)


def test_off_it_is_not_noticed() -> None:
    """One look at a variable where a plan runs; here its time against that of the smallest run."""
    x = pyasc.ones(4)
    pyasc.sync(x)
    jitted = pyasc.jit(lambda v: v + 1)

    def best(function: Any, count: int = 2000) -> float:
        times = []
        for _ in range(5):
            start = perf_counter()
            for _ in range(count):
                function()
            times.append((perf_counter() - start) / count)
        return min(times)

    call = best(lambda: jitted(x))

    def look() -> None:
        if events.recorder is not None:
            raise AssertionError

    nothing = best(lambda: None)
    assert best(look) - nothing < 0.03 * call


def test_profilers_of_threads_that_end_in_any_order() -> None:
    first, second = Profiler(), Profiler()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    pyasc.sync(pyasc.ones(10) + 1)
    second.__exit__(None, None, None)
    assert events.recorder is None
    assert not any(e.kind == "kernel" for e in first.events)
    assert any(e.kind == "kernel" for e in second.events)


def test_a_picture_of_names_that_xml_does_not_have(tmp_path: Path) -> None:
    with Profiler() as profiler, marker("\0<é\udc80>"):
        pass
    profiler.save(tmp_path / "a.svg")
    ElementTree.parse(tmp_path / "a.svg")
    profiler.save(tmp_path / "a.json")
    with pytest.raises(OSError, match="null byte"):
        profiler.save("a\0.json")
