"""What a trace holds for: the arguments' structure and the variables that the function reads, as keys."""

from __future__ import annotations

import builtins
import functools
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from .ops._graph import TensorBase
from .ops.arguments import as_tensor
from .ops.errors import DtypeError

if TYPE_CHECKING:
    from .dsl.kernel import Kernel
    from .jit import Jitted
    from .nn.module import Module

SCALARS = (bool, int, float)
# Bytes of a NumPy array in a variable up to which its values are compared at each call.
MAX_COMPARED = 1 << 16
# How deep attributes, lists and dicts of variables are looked into.
MAX_DEPTH = 4
_OPAQUE = (type, FunctionType, ModuleType)
_CONSTANTS = (str, bytes, type(None), np.dtype, type, complex)


# Kernels and layers are imported when they are first asked for: what is not loaded has no instances.


def _is_kernel(value: Any) -> TypeGuard[Kernel]:
    module = sys.modules.get(f"{__package__}.dsl.kernel")
    return module is not None and isinstance(value, module.Kernel)


def is_layer(value: Any) -> TypeGuard[Module]:
    module = sys.modules.get(f"{__package__}.nn.module")
    return module is not None and isinstance(value, module.Module)


def _is_jitted(value: Any) -> TypeGuard[Jitted]:
    from .jit import Jitted

    return isinstance(value, Jitted)


@dataclass(eq=False)
class Found:
    """What the arguments and variables of a call hold.

    Attributes
    ----------
    tensors : list
        Of the arguments, then of the variables.
    numbers : list
        Of the arguments.
    objects : list
        Among the arguments: their attributes are variables.
    volatile : bool
        Whether something may have changed that is not compared: the function is traced at each call.
    layers : set
        Identities of the layers that were described already.
    """

    tensors: list[TensorBase] = field(default_factory=list)
    numbers: list[Any] = field(default_factory=list)
    objects: list[Any] = field(default_factory=list)
    volatile: bool = False
    layers: set[int] = field(default_factory=set)


def describe(value: Any, found: Found) -> Any:
    """The part of an argument that a trace depends on, as something hashable. Tensors and numbers are
    collected."""
    if isinstance(value, TensorBase):
        found.tensors.append(value)
        base = value.base
        if base is None:
            return (value.shape, value.dtype)
        return (value.shape, value.dtype, value.strides, value.offset, base.shape)
    kind = type(value)
    if kind in SCALARS:
        found.numbers.append(value)
        return kind
    if isinstance(value, np.ndarray):
        return describe(as_tensor(value, "jit"), found)
    if kind in (list, tuple) or isinstance(value, tuple):
        return (kind, *[describe(v, found) for v in value])
    if kind is dict:
        return (kind, *[(k, describe(v, found)) for k, v in value.items()])
    if isinstance(value, np.generic):
        return (kind, value.tobytes())
    if isinstance(value, _CONSTANTS):
        return (kind, value)
    if type(getattr(value, "__dict__", None)) is dict:
        found.objects.append(value)
        return kind
    try:
        hash(value)
    except TypeError:
        raise DtypeError(
            f"[jit] expected tensors, numbers, strings, or tuples, lists and dicts of them, "
            f"given {kind.__name__}"
        ) from None
    return (kind, value)


# --- variables of the function -----------------------------------------------------------------------------


class _Same:
    """An object as part of a key: equal to itself alone, and alive as long as the key."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


class Variable:
    """A name that the function reads from its closure or module; looked up anew at each call."""

    __slots__ = ("cell", "function", "name", "namespace")

    def __init__(self, name: str, cell: Any = None, namespace: Any = None) -> None:
        self.name = name
        self.cell = cell
        self.namespace = namespace
        value = self.get()
        # Whose own variables were found too.
        self.function = value if isinstance(value, FunctionType) or _is_jitted(value) else None

    def get(self) -> Any:
        """What the name stands for now."""
        if self.cell is not None:
            try:
                return self.cell.cell_contents
            except ValueError:
                return None
        return self.namespace.get(self.name)


def describe_variable(value: Any, found: Found, names: frozenset[str], depth: int = 0) -> Any:
    """The part of a variable, or of an object among the arguments, that a trace depends on.

    Of an object these are the attributes whose names the function mentions, and theirs.
    """
    kind = type(value)
    if isinstance(value, TensorBase):
        return describe(value, found)
    if kind in SCALARS:
        return (kind, repr(value))
    if isinstance(value, np.ndarray):
        if value.nbytes <= MAX_COMPARED:
            return (value.shape, value.dtype.str, value.tobytes())
        found.volatile = True
    elif kind in (list, tuple, dict) and depth < MAX_DEPTH:
        items = value.values() if kind is dict else value
        keys = tuple(value) if kind is dict else len(value)
        return (kind, keys, *[describe_variable(item, found, names, depth + 1) for item in items])
    elif is_layer(value):
        # A layer counts whole, however deep it lies: its forward reads what it likes.
        if id(value) in found.layers:
            return _Same(value)
        found.layers.add(id(value))
        held = [
            (name, describe_variable(attribute, found, names, 0))
            for name, attribute in value.__dict__.items()
        ]
        return (_Same(value), *held)
    elif depth < MAX_DEPTH and not isinstance(value, _OPAQUE):
        attributes = getattr(value, "__dict__", None)
        if type(attributes) is dict:
            names = _with_methods(names, value.__class__)
            used = [
                (name, describe_variable(attribute, found, names, depth + 1))
                for name, attribute in attributes.items()
                if name in names
            ]
            return (_Same(value), *used)
    return _Same(value)


@functools.lru_cache(256)
def _with_methods(names: frozenset[str], kind: type) -> frozenset[str]:
    """The names, and those that the methods they name mention."""
    known = set(names)
    stack = list(names)
    while stack:
        method = getattr(kind, stack.pop(), None)
        if isinstance(method, property):
            method = method.fget
        if isinstance(method, FunctionType):
            new = set(_names(method.__code__)) - known
            known |= new
            stack.extend(new)
    return frozenset(known)


def find_variables(function: Callable[..., Any]) -> tuple[tuple[Variable, ...], frozenset[str]]:
    """The closure cells and globals that a function, and the user's functions it calls by name, read.

    Also all names that they mention, those of attributes among them.
    """
    variables: list[Variable] = []
    names: set[str] = set()
    known: set[Any] = set()
    stack: list[Any] = [function]
    seen: set[int] = set()
    while stack:
        current = stack.pop()
        if _is_jitted(current):
            current = current._function
        if _is_kernel(current):
            current = current.function
        if is_layer(current):
            stack += [type(module).forward for module in current.modules()]
            continue
        if is_layer(method_of := getattr(current, "__self__", None)):
            stack.append(method_of)
        current = getattr(current, "__func__", current)
        if not isinstance(current, FunctionType) or id(current) in seen:
            continue
        seen.add(id(current))
        if current.__module__ and current.__module__.partition(".")[0] in ("pyasc", "numpy", "scipy", "math"):
            continue
        new = []
        for name, cell in zip(current.__code__.co_freevars, current.__closure__ or (), strict=False):
            if id(cell) not in known:
                known.add(id(cell))
                new.append(Variable(name, cell=cell))
        mentioned = dict.fromkeys(_names(current.__code__))
        names.update(mentioned)
        for name in mentioned:
            key = (id(current.__globals__), name)
            if name in current.__globals__ and key not in known and not hasattr(builtins, name):
                known.add(key)
                variable = Variable(name, namespace=current.__globals__)
                if not isinstance(variable.get(), ModuleType):
                    new.append(variable)
        variables += new
        stack.extend(variable.get() for variable in new)
    return tuple(variables), frozenset(names)


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
