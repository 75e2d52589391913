"""The timeline of a launch: as arrays, as a picture, as a trace."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from logs import CoreWriter, log

import pyasc.ops.errors as errors
from pyasc.backend.ascend import chip
from pyasc.backend.sim import cost
from pyasc.backend.sim.timeline import Timeline

SVG = "{http://www.w3.org/2000/svg}"


def adding(tiles: int, block: int = 0) -> CoreWriter:
    core = CoreWriter(block=block)
    for tile in range(tiles):
        core.copy("GmToUb", (1 << 30) + tile * 32768, 32768)
        core.set("MTE2", "V")
        core.wait("MTE2", "V")
        core.vector("Add", 128)
        core.set("V", "MTE3")
        core.wait("V", "MTE3")
        core.copy("UbToGm", (2 << 30) + tile * 32768, 32768)
    return core


def timeline(*cores: CoreWriter) -> Timeline:
    return cost.replay(log(*cores, kernel="add"), chip.load("910B1")).timeline


def texts(picture: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(picture).iter(f"{SVG}text")]


def bars(picture: str, colour: str) -> list[ElementTree.Element]:
    return [e for e in ElementTree.fromstring(picture).iter(f"{SVG}rect") if e.get("fill") == colour]


def test_it_holds_every_instruction_once_and_in_time() -> None:
    result = timeline(adding(5), adding(3, 1))
    assert [len(core.start) for core in result.cores] == [15, 9]
    for core in result.cores:
        assert (core.stop > core.start).all()
        assert core.begin <= core.start.min() and core.stop.max() <= core.end <= result.time_us
        assert sorted(set(core.line.tolist()))[0] == 1


def test_busy_shares_are_the_cost_s_utilisation() -> None:
    result = cost.replay(log(adding(20)), chip.load("910B1"))
    core = result.timeline.cores[0]
    for pipe in ("MTE2", "V", "MTE3"):
        assert core.busy(pipe) == pytest.approx(result.utilisation[pipe], rel=1e-6)
    middle = (core.start[10], core.stop[10])
    assert core.busy("V", middle) <= 1.0
    assert core.busy("V", (core.end, core.end + 1)) == 0.0


def test_lines_are_ranked_by_the_time_they_take() -> None:
    core = CoreWriter()
    core.vector("Add", 10)
    core.vector("Exp", 200)
    core.copy("GmToUb", 1 << 30, 32768)
    result = timeline(core)
    lines = result.lines()
    assert [(use.line, use.name, use.pipe, use.count) for use in lines] == [
        (3, "DataCopy", "MTE2", 1),
        (2, "Exp", "V", 1),
        (1, "Add", "V", 1),
    ]
    spent = result.cores[0].stop - result.cores[0].start
    assert sum(use.us for use in lines) == pytest.approx(float(spent.sum()))
    assert result.lines(1) == lines[:1]
    assert str(lines[1]).startswith("line 2     V     Exp")


def test_a_picture_has_a_row_for_each_pipe_and_an_axis() -> None:
    picture = timeline(adding(4), adding(4, 1)).svg(cores=[1])
    shown = texts(picture)
    assert "vector core 1" in shown and "vector core 0" not in shown
    assert {"MTE2", "V", "MTE3", "µs"} <= set(shown)
    assert "MTE2: from global memory" in shown and "V: vector" in shown
    assert shown[0].startswith("add on 910B1: ")
    assert len(bars(picture, "#0072b2")) == 4 + 1  # and the legend
    assert "DataCopy" in shown


def test_a_picture_of_a_window_shows_what_is_in_it() -> None:
    result = timeline(adding(40))
    core = result.cores[0]
    whole = result.svg()
    window = (float(core.start[30]), float(core.stop[41]))
    part = result.svg(window=window)
    assert len(bars(part, "#009e73")) < len(bars(whole, "#009e73"))
    for bar in ElementTree.fromstring(part).iter(f"{SVG}rect"):
        x, width = float(bar.get("x", "0")), float(bar.get("width", "0"))
        assert x >= 0 and x + width <= 1000


def test_thousands_of_instructions_make_a_small_picture() -> None:
    core = CoreWriter()
    for _ in range(20_000):
        core.vector("Add", 1)
    picture = timeline(core).svg()
    assert len(picture) < 20_000
    assert "20000 instructions, busy 100%" in picture


def test_a_kernel_of_both_kinds_shows_its_first_block() -> None:
    writers = []
    for block in range(2):
        cube = CoreWriter("cube", block)
        cube.mmad(128, 256, 64)
        writers += [cube, adding(1, block), adding(1, block)]
    shown = texts(timeline(*writers).svg())
    assert {"cube core 0", "vector core 1", "vector core 2"} <= set(shown)
    assert "cube core 3" not in shown


def test_a_trace_names_cores_and_pipes() -> None:
    trace = timeline(adding(2), adding(2, 1)).trace()
    events = trace["traceEvents"]
    named = {(e["name"], e["args"]["name"]) for e in events if e["ph"] == "M" and "name" in e["args"]}
    assert ("process_name", "vector core 1") in named and ("thread_name", "MTE3") in named
    spans = [e for e in events if e["ph"] == "X"]
    assert len(spans) == 2 * 6
    assert all(e["dur"] > 0 and e["args"]["line"] > 0 for e in spans)
    assert {e["name"] for e in spans} == {"Add", "DataCopy"}


def test_save_writes_by_the_name_s_ending(tmp_path: Path) -> None:
    result = timeline(adding(2))
    result.save(tmp_path / "one.svg")
    result.save(str(tmp_path / "two.json"), cores=[0])
    ElementTree.parse(tmp_path / "one.svg")
    assert json.loads((tmp_path / "two.json").read_text())["traceEvents"]
    with pytest.raises(
        errors.ArgumentError, match=r"expected a name that ends in .svg or .json, given 'x.png'"
    ):
        result.save("x.png")


def test_wrong_cores_and_windows() -> None:
    result = timeline(adding(2))
    with pytest.raises(errors.ArgumentError, match=r"expected cores 0 to 0, given 4"):
        result.svg(cores=[4])
    with pytest.raises(errors.ArgumentError, match=r"expected a window that ends after it begins"):
        result.svg(window=(5.0, 5.0))
