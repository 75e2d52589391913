"""``python -m pyasc.backend.sim flags``: what a C++ compiler needs to build Ascend C for the simulator."""

from __future__ import annotations

import shlex
import sys

from . import build, library


def flags() -> list[str]:
    """Options for compiling and linking a program."""
    where = library.path()
    return [*build.FLAGS, f"-I{library.headers()}", str(where), f"-Wl,-rpath,{where.parent}", "-pthread"]


def main(arguments: list[str]) -> int:
    """Print what was asked for."""
    if arguments != ["flags"]:
        print("usage: python -m pyasc.backend.sim flags", file=sys.stderr)
        return 2
    print(shlex.join(flags()))
    return 0


sys.exit(main(sys.argv[1:]))
