"""The documentation is what the code says: the API page is current, examples run, links lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_the_api_page_is_current() -> None:
    result = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "write_api.py"), "--check"], capture_output=True, text=True
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_ascend_page_is_current() -> None:
    result = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "write_ascend.py"), "--check"], capture_output=True, text=True
    )
    assert result.returncode == 0, result.stdout + result.stderr


EXAMPLES = [ROOT / "README.md", ROOT / "docs" / "guide.md", ROOT / "docs" / "ascend.md"]


@pytest.mark.parametrize("page", EXAMPLES, ids=lambda p: p.name)
def test_the_examples_of_a_page_run(page: Path, tmp_path: Path, run_python: Callable[..., Any]) -> None:
    """One after another, as a reader would type them, in a file, as kernels are read from theirs."""
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    assert blocks
    program = tmp_path / "program.py"
    program.write_text("\n".join(blocks))
    run_python(f"import runpy; runpy.run_path({str(program)!r})")


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith(("http:", "https:")):
            continue
        file, _, anchor = target.partition("#")
        found = (page.parent / file) if file else page
        assert found.exists(), f"{page.name} links to {target}"
        if anchor:
            heads = re.findall(r"^#+ (.*)$", found.read_text(), re.MULTILINE)
            anchors = {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in heads}
            assert anchor in anchors, f"{page.name} links to {target}"
