"""The table on the screen, the JSON file and the plot."""

from __future__ import annotations

import json
import platform
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from timing import Row

LABELS = {
    "numpy": "NumPy",
    "numexpr": "numexpr",
    "numba": "numba",
    "jax": "JAX",
    "torch": "PyTorch",
    "opencv": "OpenCV",
    "scipy": "SciPy",
    "cpp": "C++",
    "pyasc": "pyasc",
}


@dataclass(frozen=True)
class Figure:
    """One measured number beside the table: a latency, a size, a count.

    Attributes
    ----------
    limit : float or None
        What it must not exceed.
    beside : str
        The same for other libraries, in words.
    """

    name: str
    value: float
    unit: str
    limit: float | None = None
    beside: str = ""

    @property
    def met(self) -> bool:
        return self.limit is None or self.value <= self.limit


class Table:
    """Prints rows as they come and keeps them."""

    def __init__(self, libraries: list[str], threads: int) -> None:
        self.libraries = libraries
        self.threads = threads
        self.rows: list[Row] = []

    def add(self, row: Row) -> None:
        if not self.rows:
            heads = "".join(f"{LABELS[n]:>9}" for n in self.libraries)
            print(f"\nmedian ms, {self.threads} threads; ratios are medians over rounds")
            print(f"{'':30}{heads} {'':7}{'pyasc/best peer':>18}{'C++/pyasc':>11}{'GB/s':>7}")
        self.rows.append(row)
        print(self.line(row), flush=True)
        for name, failure in row.failures.items():
            print(f"    {name}: {failure}")
        if row.note:
            print(f"    {row.note}")

    def line(self, row: Row) -> str:
        cells = ""
        for name in self.libraries:
            best = row.best(name)
            cells += f"{milliseconds(best[0]) if best else '—':>9}"
        ours, rival = row.best("pyasc"), self.rival(row)
        ratio = row.ratio("pyasc", rival) if rival else None
        physical = row.ratio("cpp", "pyasc")
        against = f"{ratio:.2f} {LABELS[rival]}" if ratio is not None and rival else "—"
        shown = ours or row.best("cpp")
        speed = f"{row.nbytes / shown[0] / 1e9:.1f}" if shown else "—"
        variant = f" {ours[1]:7}" if ours else f" {'':7}"
        return (
            f"{row.workload.title:30}{cells}{variant}{against:>18}"
            f"{f'{physical:.2f}' if physical is not None else '—':>11}{speed:>7}"
        )

    def rival(self, row: Row) -> str | None:
        """The fastest library but pyasc and the C++ reference."""
        times = [(best[0], n) for n in self.libraries if n not in ("pyasc", "cpp") and (best := row.best(n))]
        return min(times)[1] if times else None

    def record(self, row: Row) -> dict[str, Any]:
        rival = self.rival(row)
        return {
            "name": row.workload.name,
            "title": row.workload.title,
            "bound": row.workload.bound,
            "bytes": row.nbytes,
            "median_ms": {
                f"{n} {v}".strip(): round(median(s) * 1e3, 4) for (n, v), s in row.samples.items() if s
            },
            "best_peer": rival,
            "pyasc_by_best_peer": row.ratio("pyasc", rival) if rival else None,
            "cpp_by_pyasc": row.ratio("cpp", "pyasc"),
            "failures": row.failures,
            "note": row.note,
        }


def milliseconds(seconds: float) -> str:
    ms = seconds * 1e3
    return f"{ms:.0f}" if ms >= 100 else f"{ms:.1f}" if ms >= 10 else f"{ms:.2f}"


def show(figures: list[Figure]) -> None:
    """Print figures, with their limits and whether they are met."""
    print()
    for figure in figures:
        limit = f"≤ {figure.limit:g}" if figure.limit is not None else ""
        verdict = "" if figure.limit is None else "met" if figure.met else "SHORT"
        print(f"{figure.name:66}{figure.value:10.3g} {figure.unit:4}{limit:>9}  {verdict:6} {figure.beside}")


def write(table: Table, figures: list[Figure], folder: Path) -> None:
    """Write ``benchmarks.json`` and, with matplotlib, ``benchmarks.png``."""
    folder.mkdir(parents=True, exist_ok=True)
    record = {
        "machine": {"processor": processor(), "system": platform.platform(), "threads": table.threads},
        "python": sys.version.split()[0],
        "when": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "workloads": [table.record(row) for row in table.rows],
        "figures": [asdict(f) | {"met": f.met} for f in figures],
    }
    (folder / "benchmarks.json").write_text(json.dumps(record, indent=1) + "\n")
    print(f"\n{folder / 'benchmarks.json'}")
    rows = [row for row in table.rows if row.samples]
    if rows and plot(rows, table.libraries, folder / "benchmarks.png"):
        print(folder / "benchmarks.png")


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


def plot(rows: list[Row], libraries: list[str], path: Path) -> bool:
    """Times as multiples of the C++ reference's, one group of bars for each workload."""
    try:
        import matplotlib
    except ImportError:
        return False
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(10, 1 + 0.75 * len(rows)), layout="constrained")
    colours = plt.get_cmap("tab10").colors
    height = 0.9 / len(libraries)
    for place, name in enumerate(libraries):
        at, times = [], []
        for i, row in enumerate(rows):
            best, unit = row.best(name), row.best("cpp") or min(b for n in libraries if (b := row.best(n)))
            if best:
                at.append(i + place * height - 0.45)
                times.append(best[0] / unit[0])
        if times:
            axes.barh(at, times, height, align="edge", color=colours[place], label=LABELS[name])
    axes.set(
        xscale="log",
        yticks=range(len(rows)),
        yticklabels=[r.workload.title for r in rows],
        ylim=(len(rows) - 0.45, -0.55),
        xlabel="time as a multiple of hand-written C++",
    )
    axes.axvline(1, color="black", linewidth=0.8)
    axes.grid(axis="x", alpha=0.3)
    axes.legend(
        ncols=len(libraries),
        loc="upper center",
        bbox_to_anchor=(0.4, 1.06 if len(rows) > 8 else 1.15),
        frameon=False,
    )
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return True
