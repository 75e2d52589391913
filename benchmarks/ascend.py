"""Figures of the Ascend backend, from its cost model: ``python benchmarks/ascend.py``.

No NPU is needed: kernels are compiled for the simulator, run for their log alone (no data is moved), and
costed on the chip's model. The calibration section says how far the model is from published measurements.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))


@dataclass
class Section:
    """A part of the report: tables and remarks, on the screen and in Markdown."""

    title: str
    lines: list[str] = field(default_factory=list)

    def table(self, header: tuple[str, ...], rows: list[tuple[str, ...]], caption: str = "") -> None:
        if caption:
            self.lines += ["", f"**{caption}**"]
        self.lines += ["", "| " + " | ".join(header) + " |", "|" + " --- |" + " ---: |" * (len(header) - 1)]
        self.lines += ["| " + " | ".join(row) + " |" for row in rows]

    def remark(self, text: str) -> None:
        self.lines += ["", text]

    def markdown(self) -> str:
        return "\n".join([f"## {self.title}", *self.lines, ""])


def calibration(section: Section) -> None:
    """Published measurements and what the model says of the same kernels."""
    from ascend_calibration import PUBLISHED, compare

    worst, worst_pipe = 0.0, 0.0
    for caption, rows in PUBLISHED.items():
        compared = [compare(row) for row in rows]
        pipes = list(rows[0].pipes)
        table = []
        for one in compared:
            cells = [_error(one.task), *(_error(one.pipes[pipe]) for pipe in pipes)]
            table.append((one.row.name + ("" if one.row.fitted else " *"), *cells))
            worst = max(worst, abs(one.error))
            worst_pipe = max(worst_pipe, *(abs(error) for error in one.pipe_errors.values()))
        section.table(("", "task", *pipes), table, caption + ": published, model, error")
    section.remark(
        f"Largest error of a whole: {worst:.1%}; of a pipe: {worst_pipe:.1%}. "
        "No parameter was set from the rows with *."
    )


def _error(pair: tuple[float, float]) -> str:
    published, model = pair
    return f"{_number(published)}, {_number(model)}, {model / published - 1:+.1%}"


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 1000 else f"{value:.1f}"


def vector(section: Section) -> None:
    """Generated vector kernels beside the least time of the same instructions."""
    from ascend_figures import vector_rows

    header = ("", "kernels", "µs", "least", "reached", "bound by", "µs, warm", "reached", "bound by")
    for dtype in ("float16", "float32"):
        section.table(header, vector_rows(dtype), f"{dtype}, 8192 × 8192")
    section.remark(
        "Warm: launched again and again with the same arguments, so that L2 holds what the last launch left "
        "there; otherwise all comes from HBM and goes there."
    )


def cube(section: Section) -> None:
    """Generated matrix products beside the cube's peak."""
    from ascend_figures import product_option_rows, product_rows

    section.table(
        ("", "µs", "cube alone", "of the peak", "cube busy", "TFLOPS", "bound by"),
        product_rows(),
        "a @ b, warm",
    )
    section.table(
        ("", "µs", "least", "reached", "cube busy", "MTE2 busy", "without any optimisation"),
        product_option_rows(),
        "float16, cold",
    )


def switches(section: Section) -> None:
    """What each optimisation of vector kernels is worth."""
    from ascend_figures import SWITCHES, switch_rows

    names = (name.replace("_", " ") for name in SWITCHES)
    header = ("time without it over the time with all", "µs", *names, "all")
    for dtype in ("float16", "float32"):
        section.table(header, switch_rows(dtype), f"{dtype}, 8192 × 8192, warm")


def buffers(section: Section) -> None:
    """What reuse saves of the unified buffer."""
    from ascend_figures import buffer_rows

    header = ("", "bytes", "each value apart", "saved", "alive at the fullest point", "of that")
    section.table(header, buffer_rows("float16"), "float16, 8192 × 8192")


def buckets(section: Section) -> None:
    """What it costs to use the tiling of a bucket."""
    from ascend_figures import SCALES, bucket_rows

    header = ("sides 4096 times", *(f"{scale:g}" for scale in SCALES))
    section.table(
        header, bucket_rows("float16"), "Time with the tiling for 4096 × 4096 over that with an own, float16"
    )


def speed(section: Section) -> None:
    """How long it takes to get there, on this machine."""
    from ascend_figures import speed_rows

    section.table(
        ("", "lines", "written in ms", "compiled in s", "costed in s"), speed_rows(), "float16, 8192 × 8192"
    )


SECTIONS: dict[str, tuple[str, Callable[[Section], None]]] = {
    "calibration": ("The cost model beside published measurements (µs)", calibration),
    "vector": ("Generated vector kernels", vector),
    "cube": ("Generated matrix products", cube),
    "switches": ("What each optimisation is worth", switches),
    "buffers": ("The unified buffer", buffers),
    "buckets": ("Buckets of sizes", buckets),
    "speed": ("How long generating takes", speed),
}


def measure(names: list[str]) -> Iterator[Section]:
    """The chosen sections, one after another."""
    for name in names:
        title, fill = SECTIONS[name]
        section = Section(title)
        started = time.perf_counter()
        fill(section)
        section.remark(f"`python benchmarks/ascend.py --only {name}`, {time.perf_counter() - started:.0f} s.")
        yield section


def put(page: Path, sections: dict[str, str]) -> None:
    """Write sections, without their titles, into a page that has marks for them."""
    text = page.read_text(encoding="utf-8")
    for name, written in sections.items():
        mark, end = f"<!-- figures: {name} -->", "<!-- end -->"
        before, found, after = text.partition(mark)
        if found:
            body = written.partition("\n")[2].strip("\n")
            text = f"{before}{mark}\n\n{body}\n\n{end}{after.partition(end)[2]}"
    page.write_text(text, encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", metavar="NAME", help="sections to run (see --list)")
    parser.add_argument("--list", action="store_true", help="list the sections")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the report there too")
    parser.add_argument(
        "--into",
        type=Path,
        metavar="FILE",
        help="put each section where FILE has <!-- figures: NAME --> … <!-- end -->",
    )
    options = parser.parse_args()
    if options.list:
        for name, (title, _) in SECTIONS.items():
            print(f"{name}: {title}")
        return 0
    unknown = set(options.only or ()) - set(SECTIONS)
    if unknown:
        print(f"unknown name: {', '.join(sorted(unknown))}; --list shows those there are", file=sys.stderr)
        return 2
    written = []
    chosen = options.only or list(SECTIONS)
    for section in measure(chosen):
        text = section.markdown()
        print(text, flush=True)
        written.append(text)
    if options.markdown:
        options.markdown.write_text("\n".join(written), encoding="utf-8")
    if options.into:
        put(options.into, dict(zip(chosen, written, strict=True)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
