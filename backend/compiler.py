"""Compilers as programs: which one, running it, and what it says. For C, C++ and Ascend C alike."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

LONGEST_S = 600.0  # a compiler that takes longer hangs
_LITERAL_OR_COMMENT = re.compile(
    r"""(?P<literal> "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*') | //[^\n]* | /\*.*?\*/""",
    re.DOTALL | re.VERBOSE,
)


class Missing(Exception):
    """There is no such compiler.

    Attributes
    ----------
    given : str
        What the environment variable says; "" where it says nothing.
    program : str
        The program in it that there is not.
    """

    def __init__(self, given: str, program: str) -> None:
        super().__init__(given, program)
        self.given = given
        self.program = program


class Failed(Exception):
    """A compiler that did not do it.

    Attributes
    ----------
    given : str
        How it failed, as what comes after its name in "given …"; "" where it has said what is wrong.
    output : str
        What it said.
    """

    def __init__(self, given: str, output: str = "") -> None:
        super().__init__(given or output)
        self.given = given
        self.output = output


def find(variable: str, names: Sequence[str]) -> tuple[str, ...]:
    """The program that a variable names, with options after it, or else the first of the names there is.

    Raises
    ------
    Missing
    """
    given = os.environ.get(variable, "").strip()
    try:
        chosen = shlex.split(given)
    except ValueError:
        chosen = [given]
    for name in chosen[:1] or names:
        if found := shutil.which(name):
            return (os.path.abspath(found), *chosen[1:])
    raise Missing(given, chosen[0] if chosen else "")


def run(
    command: Sequence[str],
    folder: str | None = None,
    longest: float = LONGEST_S,
    variables: Mapping[str, str] | None = None,
) -> str:
    """Run a compiler in a folder, for some seconds at most; what it writes to stdout.

    Raises
    ------
    Failed
    """
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            cwd=folder,
            env=os.environ | {"LC_ALL": "C.UTF-8"} | dict(variables or {}),
            timeout=longest,
            check=False,
        )
    except OSError as error:
        raise Failed(f"which does not run ({error.strerror})") from None
    except subprocess.TimeoutExpired:
        raise Failed(f"which did not end within {longest:g} s") from None
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        why = ": the machine may be out of memory" if name == "SIGKILL" else ""
        raise Failed(f"which was ended by {name}{why}", done.stderr)
    if done.returncode:
        said = done.stderr.strip()
        raise Failed("" if said else f"which ended with {done.returncode} and said nothing", done.stderr)
    return done.stdout


def first_errors(output: str, source: str, name: str, limit: int = 4) -> tuple[str, int | None]:
    """The first errors of a compiler's output, each with its line of the source; the first one's number."""
    lines = source.splitlines()
    shown: list[str] = []
    first: int | None = None
    for message in _errors(output.splitlines()):
        place, text = message
        number = None
        parts = place.split(":")
        if parts[0] == name and len(parts) > 1 and parts[1].isdigit():
            number = int(parts[1])
            place = f"{name}:{number}"
            first = first or number
        shown.append(f"{place}: {text}")
        if number and number <= len(lines):
            shown.append(f"    {lines[number - 1].strip()}")
        if len(shown) >= 2 * limit:
            break
    return "\n".join(shown) or output.strip(), first


def _errors(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Places and texts. What is wrong in a header is so because of the call that it was compiled for."""
    caller = ""
    for line in lines:
        place, required, _ = line.partition(":   required from here")
        if required:
            caller = place
        for mark in (": error: ", ": fatal error: ", ": undefined reference"):
            place, found, text = line.partition(mark)
            if found:
                yield caller or place, text or line
                caller = ""
                break


@lru_cache(maxsize=256)
def without_comments(source: str) -> str:
    """What of a source a compiler makes code of, each line where it was.

    Comments tell example sizes and users' lines: what is compiled is kept under this, so that it is found
    where only those differ.
    """

    def kept(found: re.Match[str]) -> str:
        return found["literal"] or "\n" * found[0].count("\n")

    return _LITERAL_OR_COMMENT.sub(kept, source)
