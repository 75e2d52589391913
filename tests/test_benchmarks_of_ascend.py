"""The report on the Ascend backend: its sections, and how it gets into a page."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import ascend
from ascend_calibration import PUBLISHED

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "benchmarks" / "ascend.py"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, SCRIPT, *arguments], capture_output=True, text=True, timeout=300, check=False
    )


def test_the_sections_are_listed() -> None:
    done = run("--list")
    assert done.returncode == 0
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == list(ascend.SECTIONS)


def test_unknown_names_are_errors() -> None:
    done = run("--only", "vectro")
    assert done.returncode == 2 and "unknown name: vectro; --list" in done.stderr


def test_a_section_is_a_table_in_markdown(tmp_path: Path) -> None:
    done = run("--only", "buffers", "--markdown", str(tmp_path / "report.md"))
    assert done.returncode == 0, done.stderr
    lines = (tmp_path / "report.md").read_text().splitlines()
    assert lines[0] == "## The unified buffer"
    widths = {line.count("|") for line in lines if line.startswith("|")}
    assert len(widths) == 1
    assert any(line.startswith("| softmax of rows |") for line in lines)
    assert lines[-1].startswith("`python benchmarks/ascend.py --only buffers`")


def test_sections_are_put_where_a_page_has_marks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Page\n\n<!-- figures: speed -->\nold\n<!-- end -->\n\ntext\n<!-- end -->\n")
    ascend.put(page, {"speed": "## Speed\n\n| new |\n", "cube": "## Cube\n\nnowhere\n"})
    assert (
        page.read_text()
        == "# Page\n\n<!-- figures: speed -->\n\n| new |\n\n<!-- end -->\n\ntext\n<!-- end -->\n"
    )


def test_the_documentation_has_the_calibration() -> None:
    text = (ROOT / "docs" / "ascend.md").read_text()
    table = text.partition("<!-- figures: calibration -->")[2].partition("<!-- end -->")[0]
    for rows in PUBLISHED.values():
        for row in rows:
            assert f"| {row.name}" in table
