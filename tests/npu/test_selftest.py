"""The self-test: finds what is wrong, survives what crashes or hangs, and says what it did not try."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import numpy as np
import pytest

from pyasc.ops.registry import case, find
from pyasc.selftest import __main__ as command
from pyasc.selftest import check, checks, machine, measures, op_table, report, runner
from pyasc.selftest.op_table import Trial

# A worker whose checks do what checks do at their worst.
TROUBLED = """
import ctypes, sys, time
from pyasc.selftest import check, checks, worker

def wrong(backend, outcome):
    check.compare([1.0, 2.0], [1.0, 3.0])

def raises(backend, outcome):
    raise MemoryError("[allocate] too much")

def measures(backend, outcome):
    outcome.measurements.append(check.Measurement("speed", 2.5, "GB/s"))

def crashes(backend, outcome):
    print("the driver says", flush=True)
    ctypes.string_at(0)

def hangs(backend, outcome):
    time.sleep(100)

EVERY = {f.__name__: f for f in (wrong, raises, measures, crashes, hangs)}
chosen = %r
checks.checks = lambda backend, full: [
    check.Check("some", f"{name} {n}", EVERY[name], optional=name == "measures")
    for n, name in enumerate(chosen)
]
worker.main()
"""


def troubled(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *names: str, timeout: float = 20, budget: float = 99
) -> tuple[runner.Result, list[str]]:
    monkeypatch.setattr(runner, "WORKER", ("-c", TROUBLED % (names,)))
    seen: list[str] = []

    def progress(backend: str, number: int, count: int, group: str, name: str) -> None:
        seen.append(f"{number + 1} of {count} {group}: {name}")

    result = runner.Result("cpu")
    runner.run("cpu", False, budget, timeout, str(tmp_path), progress, result)
    return result, seen


def test_a_crash_is_a_failure_of_its_check_and_the_rest_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    result, seen = troubled(monkeypatch, tmp_path, "wrong", "crashes", "raises", "measures")
    assert [f["name"] for f in result.failures] == ["wrong 0", "crashes 1", "raises 2"]
    assert [f["error"] for f in result.failures] == ["Mismatch", "Crash", "MemoryError"]
    assert "expected np.float64(3.0), given np.float64(2.0)" in result.failures[0]["message"]
    assert "SIGSEGV" in result.failures[1]["message"] and "the driver says" in result.failures[1]["trace"]
    assert "Fatal Python error" in result.failures[1]["trace"]
    assert result.measurements == [{"name": "speed", "value": 2.5, "unit": "GB/s"}]
    assert seen[0] == "1 of 4 some: wrong 0" and len(seen) == 4
    assert result.tried == 3 and not result.ok
    assert result.groups["some"]["tried"] == 3 and result.groups["some"]["failed"] == 2


def test_what_hangs_is_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    result, _ = troubled(monkeypatch, tmp_path, "measures", "hangs", timeout=2)
    (hung,) = result.failures
    assert hung["name"] == "hangs 1" and "said nothing for 2 s" in hung["message"]
    assert "in hangs" in hung["trace"], "where it hangs"
    assert len(result.measurements) == 1 and result.seconds < 30


def test_three_crashes_are_enough_and_time_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    result, _ = troubled(monkeypatch, tmp_path, *["crashes"] * 5, "measures")
    assert len(result.failures) == runner.CRASHES
    result, _ = troubled(monkeypatch, tmp_path, "wrong", "measures", budget=0)
    assert result.left_out == 1 and not result.measurements and result.tried == 1


def test_a_wrong_operation_is_found_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = find("tanh")
    trials = [
        Trial(find(name), op_table.elementwise_case(find(name), (9,)), np.dtype(np.float32), "reversed")
        for name in ("exp", "tanh")
    ]
    outcome = check.Outcome()
    checks._batch(trials)("cpu", outcome)
    assert not outcome.failures
    monkeypatch.setattr(entry, "reference", lambda x: np.tanh(x) * 1.001)
    checks._batch(trials)("cpu", outcome)
    (found,) = outcome.failures
    assert found.name == "tanh of float32 (9,), reversed" and "9 of 9 differ" in found.message
    # One that raises does not hide what the others of its batch give.
    outcome = check.Outcome()
    trials[0] = trials[0]._replace(entry=find("reshape"), case=case((9,), args=((2, 2),)))
    checks._batch(trials)("cpu", outcome)
    assert [f.error for f in outcome.failures] == ["ShapeError", "Mismatch"]


def test_every_operation_is_tried() -> None:
    for full in (False, True):
        names = {op_table.label(t.entry) for batch in op_table.batches(full, 12) for t in batch}
        expected = {op_table.label(e) for e in [*op_table.tested(), *op_table.elementwise()]}
        assert names == expected
    quick = sum(len(batch) for batch in op_table.batches(False, 12))
    assert quick < sum(len(batch) for batch in op_table.batches(True, 12)) / 5


@pytest.mark.parametrize("size", [5, 300])
def test_differences_are_counted(size: int) -> None:
    right = np.linspace(-1, 1, size, dtype=np.float32)
    wrong = right.copy()
    wrong[3] = np.nextafter(wrong[3], np.float32(9))
    assert op_table.difference(wrong, right, 1) == ""
    assert f"1 of {size} differ, first at (3,)" in op_table.difference(wrong, right, 0)
    assert "shape" in op_table.difference(right[1:], right, 0)
    wrong[1] = np.nan
    assert "first at (1,)" in op_table.difference(wrong, right, 1e9, 1.0)


def test_the_report_holds_everything_and_no_secrets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.setenv("PYASC_CACHE_DIR", "/home/somebody/cache")
    monkeypatch.setenv("ASCEND_TOKEN", "geheim")
    monkeypatch.setenv("AWS_SESSION", "geheim")
    facts = machine.facts()
    assert facts["PYASC_CACHE_DIR"] == "~/cache" and "ASCEND_TOKEN" not in facts and "numpy" in facts
    result = runner.Result("npu:0", 3, 2, 1)
    result.failures.append(
        {"group": "op table", "name": "exp", "error": "Mismatch", "message": "/home/somebody/x", "trace": ""}
    )
    result.measurements.append({"name": "replayed", "value": 7580.4, "unit": "µs"})
    result.stats = {"memory": {"free": 3 << 29, "total": 2 << 30}}
    text = report.markdown("now", {"full": False}, facts, [("sim", "no compiler\nhere")], [result])
    assert "geheim" not in text and "/home/somebody" not in text
    assert "**1 failed.**" in text and "sim was not tried: no compiler here" in text
    assert "| replayed | 7580 | µs |" in text and "1.5 GiB of the device's 2.0 GiB were free" in text
    whole = report.parsed(text)
    assert whole["backends"][0]["failures"][0]["message"] == "~/x"
    assert whole["absent"]["sim"] == "no compiler\nhere" and whole["machine"] == json.loads(json.dumps(facts))
    assert report.summary(result) == (
        "npu:0: 1 FAILED, 2 answers compared in 0.0 s, 1 left out for time (--full tries all)"
    )


def test_the_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On this machine as it is, without the part of the op table for which there is no time."""
    monkeypatch.setattr(command, "QUICK_S", {"cpu": 0.0})
    monkeypatch.setenv("CXX", "/nowhere/c++")
    monkeypatch.delenv("ASCEND_HOME_PATH", raising=False)
    output = tmp_path / "report.md"
    assert command.main(["--backend", "cpu", "--output", str(output)]) == 0
    said = capsys.readouterr()
    assert "sim: not tried: " in said.out and "npu: not tried: " in said.out
    assert re.search(r"cpu: ok, \d+ answers compared", said.out) and "cpu: 1 of " in said.err
    (backend,) = report.parsed(output.read_text())["backends"]
    names = [m["name"] for m in backend["measurements"]]
    assert "first kernel of the process" in names and "tensor to array, 1 MiB" in names
    assert backend["launches"]["cpu"] > 10
    with pytest.raises(SystemExit):
        command.main(["--backend", "tpu", "--output", str(output)])
    assert "expected --backend of cpu, given 'tpu'" in capsys.readouterr().err
    assert output.stat().st_size > 0  # an earlier report stays
    with pytest.raises(SystemExit):
        command.main(["--backend", "npu", "--output", str(tmp_path / "new.md")])
    said = capsys.readouterr()
    assert "given 'npu:0'" in said.err and "npu: expected CANN" in said.err
    assert not (tmp_path / "new.md").exists()
    with pytest.raises(SystemExit):
        command.main(["--output", "/nowhere/report.md"])


DEADLY = """
import ctypes
from pyasc.selftest import machine, worker

def dies():
    ctypes.string_at(0)

machine.device_facts = dies
worker.main()
"""


def test_a_driver_that_crashes_when_it_is_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(runner, "WORKER", ("-c", DEADLY))
    monkeypatch.setenv("CXX", "/nowhere/c++")
    there, absent, facts = command._look(str(tmp_path), False)
    assert there == ["cpu"] and "numpy" in facts
    assert absent[0][0] == "sim" and "SIGSEGV" in absent[-1][1]


def test_a_figure_leaves_out_the_first_call() -> None:
    calls: list[int] = []

    def compiles_at_first() -> None:
        calls.append(1)
        if len(calls) == 1:
            time.sleep(2 * measures.SHORTEST_S)

    assert measures._best(compiles_at_first, lambda: None) < measures.SHORTEST_S
