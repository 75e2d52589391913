"""The benchmarks run, and pyasc's results in them agree with NumPy's."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

RUN = Path(__file__).parents[1] / "benchmarks" / "run.py"


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, RUN, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
    )


def listed(kind: str) -> list[str]:
    lines = dict(line.split(": ") for line in run("--list").stdout.splitlines())
    return lines[kind].split()


def test_every_workload_agrees_with_numpy(tmp_path: Path) -> None:
    workloads = listed("workloads")
    done = run("--quick", "--peers", "numpy", "pyasc", "--output", tmp_path, "--only", *workloads)
    assert done.returncode == 0, done.stdout
    rows = json.loads((tmp_path / "benchmarks.json").read_text())["workloads"]
    assert [row["name"] for row in rows] == workloads
    for row in rows:
        assert not row["failures"]
        assert row["note"] or row["pyasc_by_best_peer"] is not None or row["best_peer"] is None


def test_unknown_names_are_errors() -> None:
    done = run("--only", "fna")
    assert done.returncode == 2
    assert "unknown name: fna" in done.stdout


def test_a_peer_that_is_not_installed_is_a_dash(tmp_path: Path) -> None:
    everyone = listed("libraries")
    done = run("--quick", "--only", "dense", "--output", tmp_path, "--peers", *everyone)
    assert "Traceback" not in done.stdout
    (row,) = json.loads((tmp_path / "benchmarks.json").read_text())["workloads"]
    assert any(name.startswith("pyasc") for name in row["median_ms"])
