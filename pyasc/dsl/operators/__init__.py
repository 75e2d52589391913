"""`pyasc.register_operator`: kernels as operations of the library, beside its own."""

from __future__ import annotations

import keyword
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ...ops import registry
from ...ops.errors import ArgumentError, DtypeError
from ...ops.registry import Operation
from ..foreign import ForeignFunction
from ..kernel import Kernel
from .ascend_source import AscendC, SourcedKernel
from .user_operator import Operator, Shape
from .writes import written

NAMESPACE = "operators"
Rule = Callable[..., Any]

_lock = threading.Lock()


def _package() -> Any:
    return sys.modules[__name__.partition(".")[0]]


def register_operator(
    name: str,
    kernel: Kernel | ForeignFunction,
    *,
    outputs: str | Sequence[str] | None = None,
    shape: Rule | Shape | int | None = None,
    dtype: Any = None,
    grid: Rule | Shape | int | None = None,
    fill: Any = 0,
    reference: Callable[..., Any] | None = None,
    gradient: Callable[..., Any] | None = None,
    ascendc: AscendC | str | Path | None = None,
    replace: bool = False,
) -> Operator:
    """Make a kernel an operation of the library, ``pyasc.<name>(*inputs, out=None)``.

    Parameters
    ----------
    name : str
        An identifier that is no name of the library's yet.
    kernel : kernel or ForeignFunction
        A map, which returns a value, or one that writes arrays. Its parameters without the outputs are the
        inputs.
    outputs : str or sequence of str, optional
        The parameters that it writes; found in its text without this.
    shape : tuple of int or callable, optional
        Of the outputs: ``shape(*inputs)`` gives a shape for all of them, or a list with a shape, or a pair of
        shape and dtype, for each. By default the first array's shape.
    dtype : dtype or callable, optional
        Of the outputs, ``dtype(*inputs)`` likewise. By default the first array's dtype.
    grid : int, tuple or callable, optional
        What stands in the brackets of ``kernel[…]``, or ``grid(*inputs)`` that gives it. By default there are
        no brackets: as many threads as the first output has elements.
    fill : number or None, or a sequence of them
        What outputs hold before the kernel runs, which elements that it leaves alone keep; None: whatever
        their memory holds, or what the `out` of a call holds. It costs nothing where the kernel writes every
        element.
    reference : callable, optional
        The same with NumPy, ``reference(*inputs)``, for `Operator.check`.
    gradient : callable, optional
        ``gradient(cotangent, *inputs)`` gives the gradients by the inputs that are arrays, with operations on
        tensors; for `Operator.vjp` and PyTorch's autograd.
    ascendc : AscendC, or its source, optional
        What runs on ``sim`` and on chips in place of the code that is generated from the kernel.
    replace : bool
        Whether an operator of that name may be there already.

    Returns
    -------
    Operator

    Raises
    ------
    ArgumentError
        For a name that is taken or no identifier, and for outputs that the kernel does not have.
    DtypeError
        For what is no kernel.

    Examples
    --------
    >>> @pyasc.kernel
    ... def scaled_add(out, x, y, factor):
    ...     i = pyasc.get_global_id(0)
    ...     out[i] = x[i] + factor * y[i]
    >>> pyasc.register_operator("scaled_add", scaled_add, reference=lambda x, y, factor: x + factor * y)
    <pyasc operator scaled_add(x, y, factor)>
    >>> pyasc.scaled_add(np.ones(3), np.arange(3.0), 2.0)
    array([1., 3., 5.])
    """
    if (
        not isinstance(name, str)
        or not name.isidentifier()
        or keyword.iskeyword(name)
        or name.startswith("_")
    ):
        raise ArgumentError(f"[register_operator] expected a public Python name, given {name!r}")
    if not isinstance(kernel, Kernel | ForeignFunction):
        advice = "; decorate it with @pyasc.kernel" if callable(kernel) else ""
        raise DtypeError(
            f"[register_operator] expected a kernel or a C function, given {type(kernel).__name__}{advice}"
        )
    for what, given in (("reference", reference), ("gradient", gradient)):
        if given is not None and not callable(given):
            raise DtypeError(
                f"[register_operator] expected a function as {what}, given {type(given).__name__}"
            )
    own = _outputs(kernel, outputs)
    if ascendc is not None:
        if isinstance(kernel, ForeignFunction) or not own:
            raise ArgumentError(
                "[register_operator] expected Ascend C for a kernel that writes arrays, given one that "
                "returns a value"
            )
        kernel = SourcedKernel(kernel, ascendc if isinstance(ascendc, AscendC) else AscendC(ascendc))
    fills = tuple(fill) if isinstance(fill, tuple | list) else (fill,) * len(own)
    if len(fills) != len(own):
        raise ArgumentError(f"[register_operator] expected {len(own)} values for fill, given {len(fills)}")
    made = Operator(name, kernel, own, fills, shape, dtype, grid, reference, gradient)
    package = _package()
    with _lock:
        present = vars(package).get(name)
        if isinstance(present, Operator):
            if not replace:
                raise ArgumentError(
                    f"[register_operator] expected a new name, or replace=True, given {name!r}, an operator "
                    "that is registered already"
                )
            registry.withdraw(registry.find(name, NAMESPACE))
        elif hasattr(package, name):
            raise ArgumentError(
                f"[register_operator] expected a name that is not pyasc's own, given {name!r}"
            )
        registry.declare(Operation(name, made, reference=reference, gradient=gradient, namespace=NAMESPACE))
        setattr(package, name, made)
    return made


def unregister_operator(name: str) -> None:
    """Take an operator away again; those who hold it may go on calling it.

    Raises
    ------
    ArgumentError
        Where there is none of that name.
    """
    registered(name)
    with _lock:
        registry.withdraw(registry.find(name, NAMESPACE))
        delattr(_package(), name)


def registered(name: str) -> Operator:
    """The operator of a name.

    Raises
    ------
    ArgumentError
        Where there is none.
    """
    found = vars(_package()).get(name)
    if not isinstance(found, Operator):
        known = ", ".join(registry.public(NAMESPACE)) or "none"
        raise ArgumentError(
            f"[operators] expected the name of a registered operator ({known}), given {name!r}; another "
            "process has to register it too"
        )
    return found


class Operators(tuple[Operator, ...]):
    """Operators, printed as a table."""

    __slots__ = ()

    def __repr__(self) -> str:
        rows = [("name", "inputs", "outputs", "reference", "gradient", "Ascend C")]
        for o in self:
            rows.append(
                (
                    o.name,
                    ", ".join(o.inputs),
                    ", ".join(o.outputs) or "a map's",
                    "yes" if o.reference is not None else "no",
                    "yes" if o.gradient is not None else "no",
                    "its own" if isinstance(o.kernel, SourcedKernel) else "generated",
                )
            )
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)

    __str__ = __repr__


def operators() -> Operators:
    """The operators that are registered, in order; printed, they are a table."""
    return Operators(entry for entry in registry.public(NAMESPACE).values() if isinstance(entry, Operator))


def _outputs(kernel: Kernel | ForeignFunction, given: str | Sequence[str] | None) -> tuple[str, ...]:
    """The names of a kernel's outputs, none for a map."""
    if isinstance(kernel, ForeignFunction) or kernel.is_map:
        if given:
            raise ArgumentError(
                f"[register_operator] expected no outputs for a kernel that returns a value, given {given!r}"
            )
        return ()
    if given is None:
        found = tuple(written(kernel.function))
        if not found:
            raise ArgumentError(
                f"[register_operator] expected a kernel that returns a value or writes to its parameters, or "
                f"outputs=, given {kernel.name}, which does neither"
            )
        return found
    names = (given,) if isinstance(given, str) else tuple(given)
    unknown = [n for n in names if n not in kernel.parameters]
    if unknown or not names or len(set(names)) != len(names):
        raise ArgumentError(
            f"[register_operator] expected outputs among the parameters of {kernel.name} "
            f"({', '.join(kernel.parameters)}), given {names!r}"
        )
    changed = [n for n in written(kernel.function) if n not in names]
    if changed:
        raise ArgumentError(
            f"[register_operator] expected outputs that are all {kernel.name} writes, {', '.join(changed)} "
            f"too, given {names!r}"
        )
    return names
