"""`Operator`: a kernel as an operation of the library."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import interop
from ...lazy.evaluate import evaluate, owner, tracing
from ...ops import dtypes
from ...ops._graph import TensorBase
from ...ops.arguments import as_shape
from ...ops.errors import ArgumentError, DtypeError, NotSupported, ShapeError
from ...ops.storage import copy
from ...ops.traced import is_number
from ..arguments import shared
from ..foreign import ForeignFunction
from ..kernel import Kernel
from .checking import Report, compare

Shape = tuple[int, ...]
MAX_FOUND = 1024


@dataclass(frozen=True, slots=True)
class Output:
    """An output that a call allocates or checks."""

    name: str
    shape: Shape
    dtype: dtypes.Dtype


class Operator:
    """A kernel as an operation: ``pyasc.<name>(*inputs, out=None)``. Made by `register_operator`.

    Attributes
    ----------
    name : str
    kernel : Kernel or ForeignFunction
    inputs, outputs : tuple of str
        The kernel's parameters; a map has no outputs among them.
    reference, gradient : callable or None
    """

    def __init__(
        self,
        name: str,
        kernel: Kernel | ForeignFunction,
        outputs: tuple[str, ...],
        fills: tuple[Any, ...],
        shape: Any,
        dtype: Any,
        grid: Any,
        reference: Callable[..., Any] | None,
        gradient: Callable[..., Any] | None,
    ) -> None:
        self.name = self.__name__ = self.__qualname__ = name
        self.__module__ = __name__.partition(".")[0]
        self.__doc__ = kernel.__doc__
        self.kernel = kernel
        self.outputs = outputs
        self.parameters = tuple(inspect.signature(kernel).parameters)
        self.inputs = tuple(p for p in self.parameters if p not in outputs)
        self.reference = reference
        self.gradient = gradient
        self._fills = fills
        self._shape = shape
        self._dtype = dtype
        self._grid = grid
        self._defaults = getattr(kernel, "defaults", {})
        self._found: dict[Any, list[Output]] = {}

    @property
    def __signature__(self) -> inspect.Signature:
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        given = [
            inspect.Parameter(n, kind, default=self._defaults.get(n, inspect.Parameter.empty))
            for n in self.inputs
        ]
        return inspect.Signature(
            [*given, inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None)]
        )

    def __call__(self, *inputs: Any, out: Any = None, **named: Any) -> Any:
        """Run the operator.

        Parameters
        ----------
        *inputs
            What the kernel takes besides its outputs, by position or name: tensors, arrays of NumPy or
            PyTorch (on the CPU or an NPU), which are read in place, and whatever else it takes.
        out : array or tuple of arrays, optional
            Written with the results, in place; of any of these libraries. Without it they are allocated.

        Returns
        -------
        array or tuple of arrays
            ``out``, or arrays of the library that the first array among the inputs is of.

        Raises
        ------
        DtypeError
            For too many, too few or unknown inputs, and for an `out` of another dtype.
        ShapeError
            For an `out` of another shape.
        """
        values = self._bound(inputs, named)
        libraries = [interop.source_library(v) for v in values]
        known = [library for library in libraries if library is not None]
        first: interop.Library = known[0] if known else "pyasc"
        if "torch" in libraries:
            from ...interop import torch

            if torch.differentiable(values):
                self._check_differentiable(out)
                return torch.follow(self, values)
        if not self.outputs:
            return self._mapped(values, out, first)
        wanted = self._wanted(values)
        if out is None:
            outs = self._allocated(wanted, first, values)
        else:
            outs = self._given(wanted, out)
            values = self._filled(outs, values)
        arguments = dict(zip(self.inputs, values, strict=True)) | dict(zip(self.outputs, outs, strict=True))
        ordered = [arguments[p] for p in self.parameters]
        if any(0 not in w.shape for w in wanted):
            self._launch(values, ordered)
        return outs[0] if len(outs) == 1 else tuple(outs)

    def vjp(self, cotangent: Any, *inputs: Any, **named: Any) -> Any:
        """Gradients by the inputs that are arrays, from those by the results.

        Parameters
        ----------
        cotangent : array or tuple of arrays
            In the shape of the result; a tuple where there are several.
        *inputs
            As for the call.

        Returns
        -------
        array or tuple of arrays
            One for each array among the inputs, of its library; None where the gradient function gave None.

        Raises
        ------
        NotSupported
            Where the operator has no gradient.
        ShapeError
            For gradients of other shapes than the inputs'.
        """
        if self.gradient is None:
            raise NotSupported(f"[{self.name}] expected an operator with gradient=…, given one without")
        values = self._bound(inputs, named)
        cotangents = cotangent if isinstance(cotangent, tuple) else (cotangent,)
        # What another library's array holds may change after the call.
        others = [interop.source_library(v) in ("numpy", "torch") for v in (*cotangents, *values)]
        count = len(self.outputs) or 1
        known = [c is None or is_number(c) or interop.source_library(c) is not None for c in cotangents]
        if len(cotangents) != count or not all(known):
            kinds = ", ".join(type(c).__name__ for c in cotangents)
            raise DtypeError(
                f"[{self.name}] expected {count} arrays or numbers as gradients of the results, given {kinds}"
            )
        seen = tuple(map(self._as_tensor, cotangents))
        arrays = [n for n, v in enumerate(values) if interop.source_library(v) is not None]
        made = self.gradient(seen if len(seen) > 1 else seen[0], *map(self._as_tensor, values))
        gradients = made if isinstance(made, tuple | list) else (made,)
        if len(gradients) == len(values):
            gradients = [gradients[n] for n in arrays]
        if len(gradients) != len(arrays):
            raise ArgumentError(
                f"[{self.name}] expected {len(arrays)} gradients, one for each array among the inputs, "
                f"given {len(gradients)}"
            )
        results = []
        for n, gradient in zip(arrays, gradients, strict=True):
            if gradient is not None:
                gradient = self._as_tensor(gradient)
                shape = tuple(values[n].shape)
                if tuple(np.shape(gradient)) != shape:
                    raise ShapeError(
                        f"[{self.name}] expected a gradient of shape {shape} for {self.inputs[n]}, "
                        f"given {tuple(np.shape(gradient))}"
                    )
                library = interop.source_library(values[n]) or "pyasc"
                if library != "pyasc":
                    # The same tensor may be the gradient of several inputs, or be kept by the function.
                    gradient = interop.as_library(np.array(gradient), library)
                elif any(others) and not tracing():
                    evaluate([owner(gradient).node])
            results.append(gradient)
        return results[0] if len(results) == 1 else tuple(results)

    def check(
        self,
        *inputs: Any,
        rtol: float | None = None,
        atol: float | None = None,
        backends: Sequence[str] | None = None,
        **named: Any,
    ) -> Report:
        """Compare the operator with its reference on every backend that this machine has.

        Parameters
        ----------
        *inputs
            As for the call.
        rtol : float, optional
            Relative to each element; by default some units in the last place of the dtype, 0 for integers.
        atol : float, optional
            By default `rtol` times the largest magnitude of the reference.
        backends : sequence of str, optional
            ``"cpu"``, and ``"sim"`` where there is a C++ compiler, by default.

        Returns
        -------
        Report
            True where everything agrees; printed, it is a table.

        Raises
        ------
        NotSupported
            Where the operator has no reference.
        """
        if self.reference is None:
            raise NotSupported(f"[{self.name}] expected an operator with reference=…, given one without")
        return compare(self, self.reference, self._bound(inputs, named), rtol, atol, backends)

    # --- calling -------------------------------------------------------------------------------------------

    def _bound(self, inputs: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        """The inputs in order, by position or name."""
        if not named and len(inputs) == len(self.inputs):
            return inputs
        given = dict(zip(self.inputs, inputs, strict=False))
        values = {**self._defaults, **given, **named}
        unknown = [n for n in named if n not in self.inputs or n in given]
        missing = [n for n in self.inputs if n not in values]
        if len(inputs) > len(self.inputs) or unknown or missing:
            what = f"{len(inputs) + len(named)}"
            what += f", without {', '.join(missing)}" if missing else ""
            what += f", {', '.join(unknown)} among them" if unknown else ""
            raise DtypeError(
                f"[{self.name}] expected {len(self.inputs)} inputs ({', '.join(self.inputs)}), given {what}"
            )
        return tuple(values[n] for n in self.inputs)

    def _launch(self, values: tuple[Any, ...], arguments: list[Any]) -> None:
        if self._grid is None:
            self.kernel(*arguments)
            return
        assert isinstance(self.kernel, Kernel)
        threads = self._grid(*map(self._as_tensor, values)) if callable(self._grid) else self._grid
        self.kernel[threads](*arguments)

    def _mapped(self, values: tuple[Any, ...], out: Any, first: interop.Library) -> Any:
        if out is None:
            return interop.as_library(self.kernel(*values), first)
        # The kernel's result is a tensor, so that `out` may be of any library.
        run = self.kernel.elementwise if isinstance(self.kernel, ForeignFunction) else self.kernel
        interop.write(run(*values), out, self.name)
        return out

    def _wanted(self, values: tuple[Any, ...]) -> list[Output]:
        """The outputs of a call by the rules for shape and dtype; kept where these are no functions."""
        first = next((v for v in values if interop.source_library(v) is not None), None)
        if first is None or callable(self._shape) or callable(self._dtype):
            return self._ruled(values)
        key = (tuple(first.shape), first.dtype)
        found = self._found.get(key)
        if found is None:
            if len(self._found) >= MAX_FOUND:
                self._found.clear()
            found = self._found[key] = self._ruled(values)
        return found

    def _ruled(self, values: tuple[Any, ...]) -> list[Output]:
        arrays = [v for v in values if interop.source_library(v) is not None]
        if not arrays and (self._shape is None or self._dtype is None):
            raise ArgumentError(
                f"[{self.name}] expected an array among the inputs, or shape= and dtype= in "
                "register_operator, given neither"
            )
        ruled = callable(self._shape) or (callable(self._dtype) and not isinstance(self._dtype, type))
        seen = tuple(map(self._as_tensor, values)) if ruled else values
        shape = self._shape(*seen) if callable(self._shape) else self._shape
        shapes = _per_output(tuple(arrays[0].shape) if shape is None else shape, len(self.outputs))
        kind = self._dtype
        if callable(kind) and not isinstance(kind, type):
            kind = kind(*seen)
        if kind is None and arrays:
            kind = interop.dtype_of(arrays[0])
        kinds = kind if isinstance(kind, tuple | list) else (kind,) * len(self.outputs)
        if shapes is None or len(kinds) != len(self.outputs):
            raise ArgumentError(
                f"[{self.name}] expected shapes and dtypes for {len(self.outputs)} outputs "
                f"({', '.join(self.outputs)}) by the rules of register_operator, given {shape!r}, {kind!r}"
            )
        made = []
        for name, (size, own), common in zip(self.outputs, shapes, kinds, strict=True):
            dtype = dtypes.as_dtype(common if own is None else own, self.name)
            made.append(Output(name, as_shape(size, self.name), dtype))
        return made

    def _allocated(
        self, wanted: list[Output], library: interop.Library, values: tuple[Any, ...]
    ) -> list[Any]:
        like = next((v for v in values if interop.source_library(v) is not None), None)
        return [
            interop.new(library, w.shape, w.dtype, fill, like)
            for w, fill in zip(wanted, self._fills, strict=True)
        ]

    def _given(self, wanted: list[Output], out: Any) -> list[Any]:
        outs = list(out) if isinstance(out, tuple | list) else [out]
        if len(outs) != len(wanted):
            raise ArgumentError(f"[{self.name}] expected {len(wanted)} arrays for out, given {len(outs)}")
        for w, o in zip(wanted, outs, strict=True):
            if interop.source_library(o) is None:
                raise DtypeError(f"[{self.name}] expected an array for out, given {type(o).__name__}")
            if tuple(o.shape) != w.shape:
                raise ShapeError(
                    f"[{self.name}] expected {w.name} of shape {w.shape} for out, given {tuple(o.shape)}"
                )
            if interop.dtype_of(o) != w.dtype:
                raise DtypeError(
                    f"[{self.name}] expected {w.name} of {w.dtype.name} for out, "
                    f"given {interop.dtype_of(o).name}"
                )
        return outs

    def _filled(self, outs: list[Any], values: tuple[Any, ...]) -> tuple[Any, ...]:
        """Fill what is given for outputs; the inputs, with copies of those that would be overwritten."""
        filled = [(o, fill) for o, fill in zip(outs, self._fills, strict=True) if fill is not None]
        apart = tuple(_copied(v) if any(_overlap(v, o) for o, _ in filled) else v for v in values)
        for o, fill in filled:
            o[...] = fill
        return apart

    def _as_tensor(self, value: Any) -> Any:
        """Another library's array as a tensor on its memory, anything else as it is."""
        if isinstance(value, TensorBase) or interop.source_library(value) is None:
            return value
        return shared(value, self.name, "an input")

    def _check_differentiable(self, out: Any) -> None:
        if self.gradient is None:
            raise NotSupported(
                f"[{self.name}] expected an operator with gradient=… for tensors that require one, given one "
                "without; detach them, or call it under torch.no_grad()"
            )
        if out is not None:
            raise NotSupported(
                f"[{self.name}] expected no out for tensors that require a gradient, given one"
            )

    # --- as an object of the package -----------------------------------------------------------------------

    def __repr__(self) -> str:
        return f"<pyasc operator {self.name}({', '.join(self.inputs)})>"

    def __reduce__(self) -> tuple[Callable[[str], Any], tuple[str]]:
        from . import registered

        return registered, (self.name,)

    def __copy__(self) -> Operator:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Operator:
        return self


def _per_output(given: Any, count: int) -> list[tuple[Any, Any]] | None:
    """A shape and perhaps a dtype for each output from what a rule gave; None where they are not as many."""
    if _is_shape(given):
        return [(given, None)] * count
    if not isinstance(given, tuple | list):
        return None
    if len(given) == 2 and _is_shape(given[0]) and not isinstance(given[1], tuple | list | int):
        given = [given]
    made: list[tuple[Any, Any]] = []
    for entry in given:
        if _is_shape(entry):
            made.append((entry, None))
        elif isinstance(entry, tuple | list) and len(entry) == 2 and _is_shape(entry[0]):
            made.append((entry[0], entry[1]))
        else:
            return None
    return made if len(made) == count else None


def _overlap(x: Any, y: Any) -> bool:
    """Whether a write to one array may change the other."""
    if isinstance(x, TensorBase) and isinstance(y, TensorBase):
        return owner(x) is owner(y)
    if tracing() or interop.source_library(x) is None:
        return False
    if interop.on_npu(x) or interop.on_npu(y):
        from ...interop.npu import overlap

        return interop.on_npu(x) and interop.on_npu(y) and overlap(x, y)
    return np.may_share_memory(np.asarray(x), np.asarray(y))


def _copied(x: Any) -> Any:
    if isinstance(x, TensorBase):
        return copy(x)
    return x.clone() if interop.source_library(x) == "torch" else np.array(x)


def _is_shape(x: Any) -> bool:
    return isinstance(x, int | np.integer) or (
        isinstance(x, tuple | list) and all(isinstance(n, int | np.integer) for n in x)
    )
