"""The report on kernels written by hand: it runs, and gets into a page."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "kernels.py"


def test_a_section_goes_into_a_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- figures -->\nold\n<!-- end figures -->\nafter\n")
    command = [sys.executable, SCRIPT, "--only", "buckets", "--rounds", "1", "--into", page]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    text = page.read_text()
    assert text.startswith("before\n") and text.endswith("\nafter\n") and "old" not in text
    assert "### Sizes" in text and "0 kernels compiled after the first" in text
