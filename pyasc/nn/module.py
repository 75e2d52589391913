"""`Module`: parameters, buffers and other modules under names, and a function of them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Self

from ..ops import dtypes
from ..ops._graph import TensorBase
from ..ops.arguments import as_tensor, cast
from ..ops.errors import ArgumentError, DtypeError, NotSupported, ShapeError
from ..ops.storage import assign, copy
from ..tensor import Tensor
from .parameter import Parameter, as_parameter


class Differences(NamedTuple):
    """Names that a state lacked, and names in it that the module does not know."""

    missing: tuple[str, ...]
    unexpected: tuple[str, ...]


class Module:
    """A function with parameters: the base of every layer and of models made of layers.

    Attributes that are parameters, buffers (`register_buffer`) and other modules are found by `parameters`,
    `state_dict` and the like under the names of the attributes, and so are those in lists, tuples and dicts:
    ``self.blocks = [Block(), Block()]`` gives ``blocks.0.weight``. Calling the module calls ``forward``,
    which a subclass defines; it may be a kernel (`pyasc.kernel`).

    There are no gradients.

    Attributes
    ----------
    training : bool
        Whether layers such as `Dropout` behave as in training; set by `train` and `eval`.

    Examples
    --------
    >>> class Scale(pyasc.Module):
    ...     def __init__(self, size):
    ...         self.factor = pyasc.Parameter(pyasc.ones(size))
    ...
    ...     def forward(self, x):
    ...         return x * self.factor
    >>> [name for name, _ in Scale(3).named_parameters()]
    ['factor']
    """

    training: bool = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The function; every subclass defines its own."""
        raise NotSupported(
            f"[Module] expected a method forward of {type(self).__name__}, given a class without one"
        )

    def __setattr__(self, name: str, value: Any) -> None:
        own = vars(self)
        if isinstance(own.get(name), Parameter) and not isinstance(value, Parameter | None):
            raise DtypeError(
                f"[Module] expected a Parameter or None for the attribute {name}, "
                f"given {type(value).__name__}; to write values use self.{name}[...] = values"
            )
        super().__setattr__(name, value)

    def register_parameter(self, name: str, parameter: Parameter | None) -> None:
        """Set an attribute to a parameter, or to None where there is none."""
        if parameter is not None and not isinstance(parameter, Parameter):
            raise DtypeError(
                f"[register_parameter] expected a Parameter or None, given {type(parameter).__name__}"
            )
        setattr(self, name, parameter)

    def register_module(self, name: str, module: Module | None) -> None:
        """Set an attribute to a module, or to None where there is none."""
        if module is not None and not isinstance(module, Module):
            raise DtypeError(f"[register_module] expected a Module or None, given {type(module).__name__}")
        setattr(self, name, module)

    add_module = register_module

    def register_buffer(self, name: str, tensor: Any, persistent: bool = True) -> None:
        """Set an attribute to a tensor that belongs to the module's state and is no parameter.

        Parameters
        ----------
        name : str
        tensor : tensor, array-like or None
        persistent : bool
            Whether it is part of `state_dict`.
        """
        buffers = vars(self).setdefault("_buffers", {})
        buffers[name] = persistent
        setattr(self, name, None if tensor is None else as_tensor(tensor, "register_buffer"))

    # --- what is inside ------------------------------------------------------------------------------

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Names and modules directly inside this one."""
        for name, _, _, value in _held(self):
            if isinstance(value, Module):
                yield name, value

    def children(self) -> Iterator[Module]:
        """The modules directly inside this one."""
        return (module for _, module in self.named_children())

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """Names and modules inside this one at any depth, itself first; each module once."""
        seen: set[int] = set()
        for name, module in _modules(self, prefix):
            if id(module) not in seen:
                seen.add(id(module))
                yield name, module

    def modules(self) -> Iterator[Module]:
        """The modules inside this one at any depth, itself first; each once."""
        return (module for _, module in self.named_modules())

    def named_parameters(self, prefix: str = "", recurse: bool = True) -> Iterator[tuple[str, Parameter]]:
        """Names and parameters; each parameter once, under its first name.

        Parameters
        ----------
        prefix : str
            Put in front of the names, with a dot.
        recurse : bool
            Whether those of modules inside count.
        """
        seen: set[int] = set()
        for name, value in _tensors(self, prefix, recurse):
            if isinstance(value, Parameter) and id(value) not in seen:
                seen.add(id(value))
                yield name, value

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """The parameters, each once."""
        return (parameter for _, parameter in self.named_parameters(recurse=recurse))

    def named_buffers(self, prefix: str = "", recurse: bool = True) -> Iterator[tuple[str, Tensor]]:
        """Names and buffers; each buffer once, under its first name."""
        seen: set[int] = set()
        for name, value in _tensors(self, prefix, recurse):
            if not isinstance(value, Parameter) and id(value) not in seen:
                seen.add(id(value))
                yield name, value

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """The buffers, each once."""
        return (buffer for _, buffer in self.named_buffers(recurse=recurse))

    # --- state ---------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Tensor]:
        """Parameters and persistent buffers by name.

        The tensors are copies that cost nothing until the module's are written to: a later write to the
        module does not change them.
        """
        return {name: copy(value) for name, value in _tensors(self, "", True, persistent=True)}

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> Differences:
        """Write values into parameters and buffers, which stay the same objects and keep their dtypes.

        Parameters
        ----------
        state : mapping of str to tensor or array-like
            As `state_dict` gives it; one of torch's layers of the same name fits.
        strict : bool
            Whether the names must be exactly the module's.

        Returns
        -------
        Differences
            The names that were missing and those that were not expected.

        Raises
        ------
        ArgumentError
            Where names are missing or unknown and `strict` holds.
        ShapeError
            Where a shape differs. Nothing is written in either case.
        """
        if not isinstance(state, Mapping):
            raise DtypeError(
                f"[load_state_dict] expected a mapping of names to tensors, given {type(state).__name__}"
            )
        own = dict(_tensors(self, "", True, persistent=True))
        missing = tuple(name for name in own if name not in state)
        unexpected = tuple(name for name in state if name not in own)
        if strict and (missing or unexpected):
            raise ArgumentError(
                f"[load_state_dict] expected the names of {type(self).__name__}, given a state"
                f"{_listed(' without ', missing)}{' and' if missing and unexpected else ''}"
                f"{_listed(' with unknown ', unexpected)}; strict=False ignores them"
            )
        values = {name: as_tensor(state[name], "load_state_dict") for name in own if name in state}
        for name, value in values.items():
            if value.shape != own[name].shape:
                raise ShapeError(
                    f"[load_state_dict] expected shape {own[name].shape} for {name}, given {value.shape}"
                )
        for name, value in values.items():
            assign(own[name], value, operation="load_state_dict")
        return Differences(missing, unexpected)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write `state_dict` to a safetensors file."""
        from .files import save

        save(self.state_dict(), path)

    def load(self, path: str | os.PathLike[str], strict: bool = True) -> Differences:
        """`load_state_dict` from a safetensors file."""
        from .files import load

        return self.load_state_dict(load(path), strict)

    # --- changes -------------------------------------------------------------------------------------

    def to(self, target: Any = None, /, *, dtype: Any = None, device: str | None = None) -> Self:
        """Cast the parameters and buffers of float dtypes, or name the device they are on.

        Parameters
        ----------
        target : dtype or str
            Either of the two below.
        dtype : float dtype, optional
            Parameters of another dtype are replaced by new ones: take `parameters` afterwards.
        device : {"cpu"}, optional
            Memory is shared with every backend: `pyasc.backend` chooses where operations run.

        Returns
        -------
        Module
            The module itself.
        """
        if target is not None:
            if isinstance(target, str) and target.split(":")[0] in _DEVICES:
                device = target
            else:
                dtype = target
        if device is not None and device != "cpu":
            raise ArgumentError(
                f"[to] expected the device 'cpu', given {device!r}; "
                "pyasc.backend chooses where operations run"
            )
        if dtype is not None:
            wanted = dtypes.as_dtype(dtype, "to")
            if not dtypes.is_float(wanted):
                raise DtypeError(f"[to] expected a float dtype for parameters, given {wanted.name}")
            made: dict[int, Tensor] = {}  # tied parameters stay tied
            for module in self.modules():
                for _, container, key, value in list(_held(module)):
                    if not isinstance(value, TensorBase) or not dtypes.is_float(value.dtype):
                        continue
                    if value.dtype == wanted:
                        continue
                    if id(value) not in made:
                        new = cast(value, wanted)
                        made[id(value)] = as_parameter(new) if isinstance(value, Parameter) else new
                    if isinstance(container, tuple):
                        raise NotSupported(
                            "[to] expected parameters in attributes, lists or dicts, given a tuple of them"
                        )
                    container[key] = made[id(value)]
        return self

    def train(self, mode: bool = True) -> Self:
        """Let the module and those inside behave as in training; returns the module."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Self:
        """Let the module and those inside behave as in use; returns the module."""
        return self.train(False)

    # --- text ----------------------------------------------------------------------------------------

    def extra_repr(self) -> str:
        """What stands in the parentheses of the module's text."""
        return ""

    def __repr__(self) -> str:
        return self._text(())

    def _text(self, above: tuple[Module, ...]) -> str:
        """The text; modules that hold one another are written once."""
        if any(self is m for m in above):
            return f"{type(self).__name__}(…)"
        extra = self.extra_repr()
        inside = (*above, self)
        children = [
            f"({name}): {_indented(child._text(inside) if _is_plain(child) else repr(child))}"
            for name, child in self.named_children()
        ]
        if not children:
            return f"{type(self).__name__}({extra})"
        lines = [extra, *children] if extra else children
        return f"{type(self).__name__}(\n" + "".join(f"  {line}\n" for line in lines) + ")"


def _is_plain(module: Module) -> bool:
    """Whether its class writes no text of its own."""
    return type(module).__repr__ is Module.__repr__


_DEVICES = ("cpu", "npu", "cuda", "sim")


def _held(module: Module) -> Iterator[tuple[str, Any, Any, Any]]:
    """Name, container, key and value of each parameter, buffer and module directly inside a module."""
    own = vars(module)
    buffers = own.get("_buffers", {})
    for name, value in own.items():
        if isinstance(value, Parameter | Module) or (name in buffers and value is not None):
            yield name, own, name, value
        elif isinstance(value, list | tuple | dict) and name != "_buffers":
            yield from _held_in(name, value)


def _held_in(name: str, container: Any) -> Iterator[tuple[str, Any, Any, Any]]:
    items = list(container.items()) if isinstance(container, dict) else enumerate(container)
    for key, value in items:
        if isinstance(value, Parameter | Module):
            yield f"{name}.{key}", container, key, value
        elif isinstance(value, list | tuple | dict):
            yield from _held_in(f"{name}.{key}", value)


def _modules(module: Module, prefix: str, above: tuple[Module, ...] = ()) -> Iterator[tuple[str, Module]]:
    """The module and those inside, under each of their names."""
    yield prefix, module
    for name, child in module.named_children():
        if child is not module and all(child is not m for m in above):
            yield from _modules(child, f"{prefix}.{name}" if prefix else name, (*above, module))


def _tensors(
    module: Module, prefix: str, recurse: bool, persistent: bool = False
) -> Iterator[tuple[str, Any]]:
    """Parameters and buffers under each of their names; with `persistent` those that are kept in files."""
    for path, inner in _modules(module, prefix) if recurse else [(prefix, module)]:
        front = f"{path}." if path else ""
        buffers = vars(inner).get("_buffers", {})
        found = [(name, value) for name, _, _, value in _held(inner) if isinstance(value, TensorBase)]
        # Parameters first, as in torch.
        for name, value in sorted(found, key=lambda entry: entry[0] in buffers):
            if not persistent or buffers.get(name, True):
                yield front + name, value


def _listed(front: str, names: tuple[str, ...], most: int = 8) -> str:
    """``front`` and the first of some names; "" where there are none."""
    if not names:
        return ""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return front + ", ".join(map(str, names[:most])) + more


def _indented(text: str) -> str:
    return text.replace("\n", "\n  ")
