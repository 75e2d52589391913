"""What all tests share: a cache folder of their own, the heavy sweeps behind ``--full``, and two fixtures."""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Before pyasc is imported: no test reads kernels that another run left behind.
_CACHE = tempfile.mkdtemp(prefix="pyasc-tests-")
os.environ["PYASC_CACHE_DIR"] = _CACHE
os.environ["PYASC_VERIFY"] = "1"  # the IR after each pass
os.environ.pop("PYASC_LOG", None)
# A program that a test starts reads what was compiled of the library rather than compile it again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
atexit.register(shutil.rmtree, _CACHE, ignore_errors=True)

_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]
settings.register_profile(
    "default", max_examples=16, deadline=None, derandomize=True, suppress_health_check=_SLOW
)
settings.register_profile("full", max_examples=400, deadline=None, suppress_health_check=_SLOW)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="also run the heavy sweeps (marker 'full')")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "full: a heavy sweep, run with --full")
    settings.load_profile("full" if config.getoption("--full") else "default")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--full"):
        return
    heavy = [item for item in items if item.get_closest_marker("full")]
    if heavy:
        config.hook.pytest_deselected(items=heavy)
        items[:] = [item for item in items if not item.get_closest_marker("full")]


RunPython = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run_python(tmp_path: Path) -> RunPython:
    """Run a program in a fresh interpreter with a cache folder of this test's own.

    ``run_python(code, *arguments, check=True, timeout=120, **environment)``; a `timeout` that
    passes fails the test: nothing here may hang.
    """

    def run(
        code: str, *arguments: str, check: bool = True, timeout: float = 120, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        result = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code), *arguments],
            capture_output=True,
            text=True,
            timeout=timeout,
            cwd=tmp_path,
            env={**os.environ, "PYASC_CACHE_DIR": str(tmp_path / "cache"), **environment},
        )
        if check:
            assert result.returncode == 0, f"exit {result.returncode}\n{result.stdout}\n{result.stderr}"
        return result

    return run


def _said(error: BaseException) -> str:
    return "\n".join([str(error), *getattr(error, "__notes__", ())])


class Mistake:
    """What an error said, for further assertions."""

    error: BaseException
    message: str


@pytest.fixture
def mistake() -> Iterator[Callable[..., AbstractContextManager[Mistake]]]:
    """Expect an error that tells a user what to mend.

    ``with mistake(ValueError, "expected …", "given …"):`` asserts that the body raises that built-in
    exception, that the message holds each of the texts, and that it names this file and the line: the one
    marked ``# here`` in the test, or the one that raised.
    """

    expected: list[Mistake] = []

    @contextlib.contextmanager
    def expect(kind: type[BaseException], *texts: str, line: bool = True) -> Iterator[Mistake]:
        caught = Mistake()
        expected.append(caught)
        try:
            yield caught
        except BaseException as error:
            if isinstance(error, (KeyboardInterrupt, SystemExit)) and not issubclass(kind, type(error)):
                raise
            caught.error, caught.message = error, _said(error)
        else:
            pytest.fail(f"expected {kind.__name__}, nothing was raised")
        message = caught.message
        assert isinstance(caught.error, kind), (
            f"expected {kind.__name__}, given {type(caught.error).__name__}: {message}"
        )
        for text in texts:
            assert text in message, f"expected {text!r} in: {message}"
        if line:
            place = _place(caught.error)
            assert place in message, f"expected {place!r} in: {message}"

    yield expect
    # The frames hold tensors that were not evaluated: the next test is not to.
    for caught in expected:
        error = getattr(caught, "error", None)
        while error is not None:
            traceback.clear_frames(error.__traceback__)
            error = error.__cause__ or error.__context__


def _place(error: BaseException) -> str:
    """The user's line as messages spell it: file name and line number."""
    frames = [
        f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).name.startswith("test_")
    ]
    name, number = Path(frames[-1].filename), frames[-1].lineno or 0
    source = name.read_text().splitlines()
    if frames[0].name.startswith("test_"):
        start = max(n for n in range(number) if source[n].startswith("def test_"))
        number = next((n + 1 for n in range(start, number) if source[n].endswith("# here")), number)
    return f"{name.name}:{number}"
