"""Write the examples of docs/kernels.md, what they print, and what is generated from them.

With ``--check`` say whether the page is current. With ``--print`` print, as JSON, what the examples print on
the backend in force.
"""

from __future__ import annotations

import contextlib
import difflib
import io
import json
import os
import runpy
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from write_ascend import CHIP, loop, marked

import pyasc

PAGE = Path(__file__).with_name("kernels.md")
EXAMPLES = Path(__file__).parents[1] / "examples" / "kernels"


@dataclass(frozen=True)
class Example:
    """An example that was run.

    Attributes
    ----------
    code : str
        Without its first line, which says what it is.
    printed : str
    names : dict
        Of its module.
    """

    code: str
    printed: str
    names: dict[str, Any]


def run() -> dict[str, Example]:
    """Run all examples, one after another, in their folder."""
    examples = {}
    os.chdir(EXAMPLES)
    for name in sorted(path.name for path in EXAMPLES.glob("*.py")):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            names = runpy.run_path(name, run_name="__main__")
        code = Path(name).read_text().partition('"""\n')[2].strip()
        examples[name] = Example(code, out.getvalue(), names)
    return examples


def generated(examples: dict[str, Example]) -> dict[str, str]:
    """What the simulated chip says of the operator and of the product, by the names of the marks."""
    operator = examples["custom_operator.py"].names["smooth_step"]
    by_tiles = examples["matmul.py"].names["by_tiles"]
    x, y = pyasc.empty(2**24), pyasc.empty(2**24)
    a, b, c = (pyasc.empty((4096, 4096), t) for t in (pyasc.float16, pyasc.float16, pyasc.float32))
    pyasc.sync(x, y, a, b, c)
    operator(y, x, 0.0, 1.0)
    by_tiles(c, a, b, 4096, 4096, 4096)
    (kernel,) = pyasc.explain(y, backend=f"sim:{CHIP}").kernels
    (product,) = pyasc.explain(c, backend=f"sim:{CHIP}").kernels
    return {
        "source": f"```cpp\n{loop(kernel.source('ascendc'))}\n```",
        "tiling": f"```\n{kernel.tiling}\n```",
        "cost": f"```\n{kernel.cost}\n```",
        "product": f"```\n{product.tiling}\n```",
    }


def page(text: str, examples: dict[str, Example]) -> str:
    """The page as it ought to be."""
    bodies = {
        name: f"```python\n{example.code}\n```\n\nprints\n\n```\n{example.printed}```"
        for name, example in examples.items()
    }
    for name, body in (bodies | generated(examples)).items():
        text = marked(text, name, body, Path(__file__).name)
    return text


def main() -> int:
    examples = run()
    if "--print" in sys.argv:
        print(json.dumps({name: example.printed for name, example in examples.items()}))
        return 0
    text = PAGE.read_text()
    wanted = page(text, examples)
    if "--check" in sys.argv:
        if wanted == text:
            return 0
        print(f"docs/{PAGE.name} is not what the generator says; run: python docs/{Path(__file__).name}")
        print("\n".join(difflib.unified_diff(text.splitlines(), wanted.splitlines(), lineterm="", n=1)))
        return 1
    PAGE.write_text(wanted)
    print(f"wrote {PAGE.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
