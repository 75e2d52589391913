"""The examples of kernels run on the CPU and on the simulator, and docs/kernels.md is what they say."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "kernels.md"


def run(option: str, backend: str) -> subprocess.CompletedProcess[str]:
    """Run all examples by what writes the page; in one process, so that it takes some seconds only."""
    return subprocess.run(
        [sys.executable, ROOT / "docs" / "write_kernels.py", option],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYASC_BACKEND": backend},
    )


def test_the_page_is_current() -> None:
    done = run("--check", "cpu")
    assert done.returncode == 0, done.stdout + done.stderr


def check_printed(backend: str) -> None:
    """Every example prints what the page shows, which is what it prints on the CPU."""
    done = run("--print", backend)
    assert done.returncode == 0, done.stderr
    printed: dict[str, str] = json.loads(done.stdout)
    page = PAGE.read_text()
    for name, text in printed.items():
        shown = re.search(rf"<!-- {re.escape(name)}: .*?\nprints\n\n```\n(.*?)```", page, re.DOTALL)
        assert shown is not None and text == shown[1], name


def test_the_examples_print_the_same_on_the_simulator() -> None:
    check_printed("sim")
