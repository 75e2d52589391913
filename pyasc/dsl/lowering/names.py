"""What the names of a function mean: variables of the functions around it, of its module, builtins."""

from __future__ import annotations

import builtins
import difflib
from types import FunctionType, ModuleType
from typing import Any

_MISSING = object()
# What other languages for kernels call things, without leading underscores, and what is written here.
_ELSEWHERE = {
    "threadIdx": "pyasc.get_local_id(axis)",
    **dict.fromkeys(("blockIdx", "block_id", "get_block_id", "program_id"), "pyasc.get_group_id(axis)"),
    **dict.fromkeys(("blockDim", "block_size", "get_block_size"), "pyasc.get_local_size(axis)"),
    "gridDim": "pyasc.get_global_size(axis) // pyasc.get_local_size(axis)",
    **dict.fromkeys(("cuda", "thread_id", "get_thread_id"), "pyasc.get_global_id(axis)"),
    "syncthreads": "pyasc.barrier()",
    "prange": "range",
    "atomicAdd": "pyasc.atomic_add(array, index, value)",
}


def variable(function: FunctionType, name: str) -> Any:
    """The value of a variable around a function.

    Raises
    ------
    KeyError
        Where there is none, or it has no value yet.
    """
    code = function.__code__
    if name in code.co_freevars and function.__closure__ is not None:
        try:
            return function.__closure__[code.co_freevars.index(name)].cell_contents
        except ValueError:
            raise KeyError(name) from None
    found = function.__globals__.get(name, _MISSING)
    if found is _MISSING:
        found = getattr(builtins, name, _MISSING)
    if found is _MISSING:
        raise KeyError(name)
    return found


def is_local(function: FunctionType, name: str) -> bool:
    """Whether Python takes a name to be the function's own."""
    code = function.__code__
    return name in code.co_varnames or name in code.co_cellvars


def suggestion(function: FunctionType, name: str, known: list[str]) -> str:
    """``; did you mean …?`` where a name is like another one, or other languages have it."""
    if elsewhere := suggested_call(name):
        return elsewhere
    names = [*known, *function.__code__.co_freevars, *function.__globals__, *vars(builtins)]
    close = difflib.get_close_matches(name, names, 1)
    return f"; did you mean {close[0]}?" if close else ""


def suggested_attribute(owner: Any, name: str) -> str:
    """The same for an attribute."""
    is_pyasc = isinstance(owner, ModuleType) and owner.__name__.partition(".")[0] == "pyasc"
    if is_pyasc and (elsewhere := suggested_call(name)):
        return elsewhere
    close = difflib.get_close_matches(name, dir(owner), 1)
    return f"; did you mean {close[0]}?" if close else ""


def suggested_call(name: str) -> str:
    """The same for a name that only other languages for kernels have."""
    written = _ELSEWHERE.get(name.lstrip("_"))
    return f"; did you mean {written}?" if written else ""
