"""Write the table of docs/ascend.md and its pictures; with ``--check`` only say whether the table is current."""

from __future__ import annotations

import sys
from pathlib import Path

import pyasc
from pyasc.backend.ascend import chip, support

PAGE = Path(__file__).with_name("ascend.md")
PICTURES = Path(__file__).with_name("pictures")
CHIP = "910B1"
BEGIN, END = "<!-- written by docs/write_ascend.py -->", "<!-- end -->"
SHORT = {"bool": "bool", "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64"}


def short(name: str) -> str:
    return SHORT.get(name, name.replace("uint", "u").replace("int", "i"))


def table() -> str:
    """A row for each elementwise primitive, a column for each dtype."""
    rows = list(support.table(chip.load(CHIP)))
    dtypes = list(dict.fromkeys(name for row in rows for name in row.cells))
    reasons: list[str] = []
    lines = [
        f"| primitive | {' | '.join(map(short, dtypes))} | |",
        f"|---|{'---|' * len(dtypes)}---|",
    ]
    for row in rows:
        cells = []
        for name in dtypes:
            cell = row.cells.get(name, "")
            if isinstance(cell, str) and cell:
                reason = cell.removeprefix(f"{name} ")
                if reason not in reasons:
                    reasons.append(reason)
                cell = f"host ({reasons.index(reason) + 1})"
            cells.append(str(cell))
        lines.append(f"| `{row.name}` | {' | '.join(cells)} | {row.notes} |")
    lines += ["", *(f"({n}) {reason}" + "  " for n, reason in enumerate(reasons, 1))]
    return "\n".join(lines).rstrip()


def with_table(text: str) -> str:
    """The page with the table between its marks."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


def pictures() -> None:
    """The timelines that the page shows: a fused kernel and a product of matrices."""
    PICTURES.mkdir(exist_ok=True)
    x = pyasc.empty((4096, 4096), pyasc.float16)
    a, b = pyasc.empty((4096, 4096), pyasc.float16), pyasc.empty((4096, 4096), pyasc.float16)
    pyasc.sync(x, a, b)
    y = pyasc.exp(x) / (1 + pyasc.exp(x))
    (fused,) = pyasc.explain(y, backend=f"sim:{CHIP}").kernels
    fused.cost.timeline.save(PICTURES / "fused.svg", window=(0.0, 30.0))
    c = a @ b
    (product,) = pyasc.explain(c, backend=f"sim:{CHIP}").kernels
    product.cost.timeline.save(PICTURES / "matmul.svg", window=(0.0, 60.0))


def main() -> int:
    text = PAGE.read_text()
    if "--check" in sys.argv:
        if with_table(text) == text:
            return 0
        print("docs/ascend.md is not what the table of support says; run: python docs/write_ascend.py")
        return 1
    PAGE.write_text(with_table(text))
    pictures()
    print(f"wrote {PAGE.name} and {PICTURES.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
