"""Write the generated parts of docs/ascend.md; with ``--check`` say whether they are current."""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path
from typing import Any

import pyasc
from pyasc.backend.ascend import chip, support

PAGE = Path(__file__).with_name("ascend.md")
PICTURES = Path(__file__).with_name("pictures")
CHIP = "910B1"
END = "<!-- end -->"
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
                reason = re.sub(rf"^{name} | for {row.name}$", "", cell)
                if reason not in reasons:
                    reasons.append(reason)
                cell = f"host ({reasons.index(reason) + 1})"
            cells.append(str(cell))
        lines.append(f"| `{row.name}` | {' | '.join(cells)} | {row.notes} |")
    lines += ["", *(f"({n}) {reason}" + "  " for n, reason in enumerate(reasons, 1))]
    return "\n".join(lines).rstrip()


def marked(text: str, name: str, body: str, writer: str = "write_ascend.py") -> str:
    """The page with what stands between the marks of a name replaced."""
    begin = f"<!-- {name}: written by docs/{writer} -->"
    before, found, rest = text.partition(begin)
    assert found, f"the page has no mark {begin}"
    _, _, after = rest.partition(END)
    return f"{before}{begin}\n\n{body}\n\n{END}{after}"


def kernels() -> tuple[Any, Any]:
    """A fused kernel and a product of matrices."""
    x, a, b = (pyasc.empty((4096, 4096), pyasc.float16) for _ in range(3))
    pyasc.sync(x, a, b)
    y = pyasc.exp(x) / (1 + pyasc.exp(x))
    (fused,) = pyasc.explain(y, backend=f"sim:{CHIP}").kernels
    c = a @ b
    (product,) = pyasc.explain(c, backend=f"sim:{CHIP}").kernels
    return fused, product


def loop(source: str) -> str:
    """The loop over tiles of a kernel."""
    lines = source.splitlines()
    start = next(
        n
        for n, line in enumerate(lines)
        if line.startswith(("    for (int64_t unit", "    for (int64_t step"))
    )
    end = next(n for n, line in enumerate(lines) if n > start and line == "    }")
    return textwrap.dedent("\n".join(lines[start : end + 1]))


def page(text: str) -> str:
    """The page as it ought to be."""
    fused, product = kernels()
    text = marked(text, "fused", f"```cpp\n{loop(fused.source())}\n```")
    text = marked(text, "product", f"```\n{product.tiling}\n```")
    return marked(text, "support", table())


def pictures() -> None:
    """The timelines that the page shows."""
    PICTURES.mkdir(exist_ok=True)
    fused, product = kernels()
    fused.cost.timeline.save(PICTURES / "fused.svg", window=(0.0, 30.0))
    product.cost.timeline.save(PICTURES / "matmul.svg", window=(0.0, 60.0))


def main() -> int:
    text = PAGE.read_text()
    if "--check" in sys.argv:
        if page(text) == text:
            return 0
        print("docs/ascend.md is not what the generator says; run: python docs/write_ascend.py")
        return 1
    PAGE.write_text(page(text))
    pictures()
    print(f"wrote {PAGE.name} and {PICTURES.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
