"""The settings of the library: `pyasc.config`.

Each setting has an environment variable, ``PYASC_`` and its name in capitals, that gives its value at import.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, cast


@dataclass(frozen=True)
class Setting:
    """One setting: its default, the least value of a number, or the values it may have.

    With `later` the default is found when it is first asked for (`Config.find_later`).
    """

    default: bool | int | str
    doc: str
    least: int = 0
    choices: tuple[str, ...] = ()
    later: bool = False


T = TypeVar("T", bound=bool | int | str)


def _setting(default: T, doc: str, least: int = 0, choices: tuple[str, ...] = (), later: bool = False) -> T:
    """A `Setting` in the class body, its values in the instance: to the type checker, one of those values."""
    return cast(T, Setting(default, doc, least, choices, later))


_MIB = 1 << 20


class Config:
    """Typed settings, checked when they are set.

    ``pyasc.config.promotion = "numpy"`` changes one; ``with pyasc.config.override(fast_math=True):`` changes
    some for a while.
    """

    promotion: Literal["pyasc", "numpy"] = _setting(
        "pyasc", "dtype rules: 'pyasc', or 'numpy' for NumPy's to the letter", choices=("pyasc", "numpy")
    )
    backend = _setting(
        "",
        "where operations run: 'cpu', 'npu', 'npu:' and a number, 'sim', or 'sim:' and a chip; '' is the "
        "first NPU where there is one, else the CPU",
        later=True,
    )
    fast_math = _setting(False, "let a multiplication and an addition round once, together")
    eager = _setting(False, "evaluate after each operation, for debugging")
    debug = _setting(False, "run kernels written by hand thread by thread in Python, each access checked")
    interpret = _setting(False, "run every primitive by its NumPy meaning instead of compiling")
    max_pending_nodes = _setting(1024, "evaluate when more operations than this are pending", least=1)
    max_pending_bytes = _setting(4096 * _MIB, "evaluate when pending results are larger than this", least=1)
    memory_limit = _setting(0, "bytes that tensors may use in the host's memory; 0 is no limit")
    launch_blocking = _setting(
        False, "wait after each kernel on an NPU, so that an error names the kernel and line that caused it"
    )
    marks: Literal["auto", "on", "off"] = _setting(
        "auto",
        "mark launches on an NPU for msprof: 'auto', where it started the process, 'on' or 'off'",
        choices=("auto", "on", "off"),
    )
    threads = _setting(0, "threads that run kernels; 0 is one for each core this process may use")
    cache_dir = _setting("", "folder of the kernel cache; '' is pyasc-tensor in the platform's cache folder")
    disk_cache = _setting(True, "keep compiled kernels on disk")
    disk_cache_bytes = _setting(
        512 * _MIB, "size of the kernel cache, beyond which the least used go", least=1
    )
    tune: Literal["off", "model", "measure"] = _setting(
        "model",
        "how kernels for a chip are cut into tiles: 'off', as the model says; 'model', as was measured, else "
        "as the model says; 'measure', what was not measured is",
        choices=("off", "model", "measure"),
    )
    verify = _setting(False, "check the IR after each pass")
    log = _setting("", "what to log: 'ir' prints the IR after each pass", choices=("", "ir"))

    def __init__(self) -> None:
        object.__setattr__(self, "_observers", {})
        object.__setattr__(self, "_later", {})
        for name, setting in _SETTINGS.items():
            value: bool | int | str = setting.default
            given = os.environ.get(f"PYASC_{name.upper()}")
            if given is not None and (given.strip() or not setting.default):
                value = _parsed(name, setting, given)
            if not setting.later or value != setting.default:
                object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        setting = _SETTINGS.get(name)
        if setting is None:
            raise AttributeError(f"[config] expected one of {', '.join(_SETTINGS)}, given {name!r}")
        value = _checked(name, setting, value)
        previous = self.given(name)
        self._put(name, value)
        try:
            for function in self._observers.get(name, ()):
                function()
        except Exception:
            self._put(name, previous)
            raise

    def _put(self, name: str, value: Any) -> None:
        if _SETTINGS[name].later and value == _SETTINGS[name].default:
            self.__dict__.pop(name, None)
        else:
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        function = self.__dict__.get("_later", {}).get(name)
        if function is None:
            raise AttributeError(f"[config] expected one of {', '.join(_SETTINGS)}, given {name!r}")
        value = function()
        object.__setattr__(self, name, value)
        return value

    _observers: dict[str, list[Callable[[], None]]]
    _later: dict[str, Callable[[], Any]]

    def given(self, name: str) -> Any:
        """The value of a setting, or its default where that has not been found yet."""
        return self.__dict__.get(name, _SETTINGS[name].default)

    def find_later(self, name: str, function: Callable[[], Any]) -> None:
        """Let a function find the default of a setting, once, when it is first asked for."""
        self._later[name] = function

    def observe(self, *names: str, function: Callable[[], None]) -> None:
        """Call a function now, and whenever one of these settings changes."""
        for name in names:
            self._observers.setdefault(name, []).append(function)
        try:
            function()
        except ValueError as error:
            variables = " and ".join(v for name in names if (v := f"PYASC_{name.upper()}") in os.environ)
            message = str(error).partition("\n")[0]
            raise ValueError(f"{message} in the environment variable {variables}") from None

    @contextmanager
    def override(self, **settings: Any) -> Iterator[Config]:
        """Other values within a ``with`` statement."""
        previous = {name: self.given(name) if name in _SETTINGS else None for name in settings}
        try:
            for name, value in settings.items():
                setattr(self, name, value)
            yield self
        finally:
            for name, value in previous.items():
                if name in _SETTINGS:
                    setattr(self, name, value)

    def __repr__(self) -> str:
        lines = [f"  {name} = {getattr(self, name)!r}  # {s.doc}" for name, s in _SETTINGS.items()]
        return "\n".join(["pyasc.config", *lines])


_SETTINGS = {name: setting for name, setting in vars(Config).items() if isinstance(setting, Setting)}
for _name, _later in _SETTINGS.items():
    if _later.later:
        delattr(Config, _name)  # so that what has no value yet is asked for in __getattr__


def _checked(name: str, setting: Setting, value: Any) -> Any:
    kind = type(setting.default)
    if kind is str and isinstance(value, os.PathLike):
        value = os.fspath(value)
    if type(value) is not kind:
        raise TypeError(f"[config] expected {kind.__name__} for {name}, given {value!r}")
    if setting.choices and value not in setting.choices:
        choices = " or ".join(map(repr, setting.choices))
        raise ValueError(f"[config] expected {choices} for {name}, given {value!r}")
    if isinstance(value, int) and value < setting.least and kind is int:
        raise ValueError(f"[config] expected at least {setting.least} for {name}, given {value}")
    return value


def _parsed(name: str, setting: Setting, text: str) -> bool | int | str:
    variable = f"PYASC_{name.upper()}"
    kind = type(setting.default)
    value: Any = text
    if kind is bool:
        words = {
            "1": True,
            "true": True,
            "yes": True,
            "on": True,
            "0": False,
            "false": False,
            "no": False,
            "off": False,
        }
        value = words.get(text.strip().lower())
        if value is None and text.strip() == "":
            value = setting.default
        if value is None:
            raise ValueError(
                f"[config] expected 1 or 0 for the environment variable {variable}, given {text!r}"
            )
    elif kind is int:
        try:
            value = int(text) if text.strip() else setting.default
        except ValueError:
            raise ValueError(
                f"[config] expected a whole number for the environment variable {variable}, given {text!r}"
            ) from None
    try:
        checked: bool | int | str = _checked(name, setting, value)
    except ValueError as error:
        raise ValueError(f"{error} in the environment variable {variable}") from None
    return checked


config = Config()
