"""What `import pyasc` says where its source tree shadows or lacks the compiled parts."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy
import pytest

import pyasc


@pytest.mark.parametrize("packages", [(), ("ops", "backend")], ids=["pyasc alone", "together, not compiled"])
def test_a_bare_source_tree_says_what_to_do(tmp_path: Path, packages: tuple[str, ...]) -> None:
    root = Path(pyasc.__file__).parent
    ignore = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(root, tmp_path / "pyasc", ignore=ignore, dirs_exist_ok=True)
    for package in packages:
        source = Path(str(sys.modules[f"pyasc.{package}"].__file__)).parent
        shutil.copytree(source, tmp_path / "pyasc" / package, ignore=ignore, dirs_exist_ok=True)
    libraries = str(Path(numpy.__path__[0]).parent)
    # -S: no site, and with it no editable install.
    code = f"import sys; sys.path.append({libraries!r}); import pyasc"
    result = subprocess.run([sys.executable, "-S", "-c", code], cwd=tmp_path, capture_output=True, text=True)
    said = result.stderr.splitlines()[-1]
    assert said.startswith("ImportError: pyasc was found as a bare source tree") and str(tmp_path) in said
    assert "`make setup`" in said and "pip install --editable ." in said
