"""``python -m pyasc.backend.sim run program.asc``: a whole Ascend C program on the host.

``python -m pyasc.backend.sim flags`` prints what a C++ compiler needs to build for the simulator.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

from ..ascend import chip
from . import build, library
from .program import run
from .simulator import Finding


def flags() -> list[str]:
    """Options of a C++ compiler for a program that runs kernels on the simulator."""
    where = library.path()
    return [*build.FLAGS, f"-I{library.headers()}", str(where), f"-Wl,-rpath,{where.parent}", "-pthread"]


def main() -> int:
    """Parse the command line and run it."""
    parser = argparse.ArgumentParser(prog="python -m pyasc.backend.sim", description="Ascend C on the host.")
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("run", help="compile and run an Ascend C program, host part and kernels")
    command.add_argument("file", type=Path, help="the program, such as add.asc")
    command.add_argument("-D", action="append", default=[], metavar="NAME[=VALUE]", help="define a macro")
    command.add_argument("-I", action="append", default=[], metavar="FOLDER", help="look for headers there")
    command.add_argument(
        "--chip", default="910B1", choices=chip.available(), help="the chip to simulate (%(default)s)"
    )
    command.add_argument("arguments", nargs="*", help="of the program")
    commands.add_parser("flags", help="print what a C++ compiler needs to build for the simulator")
    given = parser.parse_args()
    if "file" not in given:
        print(shlex.join(flags()))
        return 0
    if not given.file.is_file():
        parser.error(f"expected a file with an Ascend C program, given {given.file}")
    options = [f"-D{name}" for name in given.D] + [f"-I{Path(folder).resolve()}" for folder in given.I]
    try:
        return run(given.file, options, given.arguments, chip.load(given.chip))
    except Finding as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
