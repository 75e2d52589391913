"""Every example runs as a user runs it, and does what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def run(name: str, *arguments: str | Path, code: int = 0, cwd: Path | None = None) -> str:
    """Run an example; what it printed, to both streams."""
    done = subprocess.run(
        [sys.executable, EXAMPLES / name, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        cwd=cwd,
    )
    assert done.returncode == code, done.stdout
    return done.stdout


def test_every_example_is_tested() -> None:
    tested = set(re.findall(r'run\(\s*"(\w+\.py)"', Path(__file__).read_text()))
    assert tested == {path.name for path in EXAMPLES.glob("*.py")}


def test_add() -> None:
    printed = run("add.py", "--size", "1000")
    assert "equal to NumPy's: True" in printed
    assert "1 kernel" in printed


def test_gelu() -> None:
    printed = run("gelu.py", "--size", "5000")
    assert "one kernel" in printed
    error = re.search(r"float64: (\S+)", printed)
    assert error and float(error[1]) < 1e-5


def test_kmeans() -> None:
    printed = run("kmeans.py", "--points", "2000", "--clusters", "5")
    error = re.search(r"from the truth: (\S+)", printed)
    assert error and float(error[1]) < 0.3
    assert "made later: 0" in printed


def test_heat(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    picture = tmp_path / "plate.png"
    printed = run("heat.py", "--size", "40", "--steps", "25", "--output", picture)
    difference = re.search(r"from NumPy: (\S+);", printed)
    assert difference and float(difference[1]) < 1e-5
    pixels = np.asarray(image.open(picture))
    assert pixels.shape == (40, 40, 3)
    assert pixels[0].min() == 255 and pixels[-1].max() == 0


def test_mandelbrot(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    picture = tmp_path / "set.png"
    printed = run("mandelbrot.py", "--size", "120", "--output", picture)
    area = re.search(r"points: (\S+)", printed)
    assert area and 1.4 < float(area[1]) < 1.8
    pixels = np.asarray(image.open(picture))
    assert pixels.shape == (120, 120)
    assert pixels[60, 80] == 255 and pixels[0, 0] < 60


def photograph(path: Path, shape: tuple[int, ...], dtype: type = np.uint8) -> Path:
    image = pytest.importorskip("PIL.Image")
    pixels = np.random.default_rng(0).integers(0, np.iinfo(dtype).max + 1, shape, dtype)
    image.fromarray(pixels).save(path)
    return path


def test_sobel_on_the_photograph_it_brings(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    pytest.importorskip("skimage")
    printed = run("sobel.py", cwd=tmp_path)
    assert "512 × 512 pixels, colour" in printed
    assert "ran as 1 kernel," in printed
    assert "in 0 of 260100 pixels" in printed
    edges = np.asarray(image.open(tmp_path / "out" / "edges.png"))
    assert edges.shape == (510, 510) and 20 < edges.mean() < 120


@pytest.mark.parametrize("shape", [(3, 3), (37, 51), (64, 65, 3), (3, 90, 4)])
def test_sobel_on_a_file(tmp_path: Path, shape: tuple[int, ...]) -> None:
    path = photograph(tmp_path / "photo.png", shape)
    printed = run("sobel.py", path, "--output", tmp_path / "edges.png")
    assert "ran as 1 kernel," in printed
    assert f"in 0 of {(shape[0] - 2) * (shape[1] - 2)} pixels" in printed
    assert (tmp_path / "edges.png").exists()


def test_sobel_on_sixteen_bits(tmp_path: Path) -> None:
    path = photograph(tmp_path / "photo.png", (40, 30), np.uint16)
    assert "30 × 40 pixels, grey" in run("sobel.py", path, "--output", tmp_path / "edges.png")


def test_sobel_names_what_it_cannot_read(tmp_path: Path) -> None:
    pytest.importorskip("PIL.Image")
    assert "cannot read" in run("sobel.py", tmp_path / "missing.png", code=1)
    assert "cannot read" in run("sobel.py", tmp_path, code=1)
    text = tmp_path / "text.png"
    text.write_text("not an image")
    assert "cannot read" in run("sobel.py", text, code=1)
    cut = photograph(tmp_path / "cut.png", (200, 200))
    cut.write_bytes(cut.read_bytes()[:5000])
    printed = run("sobel.py", cut, code=1)
    assert "cannot read" in printed and "Traceback" not in printed
    small = photograph(tmp_path / "small.png", (2, 50))
    assert "at least 3 × 3 pixels" in run("sobel.py", small, code=1)


def test_sobel_names_what_it_cannot_write(tmp_path: Path) -> None:
    path = photograph(tmp_path / "photo.png", (10, 10))
    (tmp_path / "file").write_text("")
    printed = run("sobel.py", path, "--output", tmp_path / "file" / "edges.png", code=1)
    assert "cannot write" in printed and "Traceback" not in printed
    assert "cannot write" in run("sobel.py", path, "--output", tmp_path / "edges.unknown", code=1)
