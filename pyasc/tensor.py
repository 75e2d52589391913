"""`Tensor`: the array object that the user holds. Its methods and operators come from the op table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .backend import _runtime
from .dispatch import array_function, array_ufunc
from .lazy import events, placement
from .ops import _graph, registry
from .ops._graph import TensorBase
from .ops.arguments import broadcast_shapes
from .ops.elementwise import takes
from .ops.errors import ArgumentError, DtypeError, ShapeError, TracingError
from .ops.host import from_array, set_crossings
from .ops.registry import Operation
from .ops.storage import assign

Array = NDArray[Any]
_HOST = (1, 0)  # DLPack's numbers of the CPU


class Tensor(TensorBase):
    """An n-dimensional array whose operations are recorded, and run when a value is needed.

    Tensors are made by functions such as `asarray`, `zeros` and `arange`. What needs values is a sync point:
    ``print``, ``float(x)``, ``bool(x)``, ``x.numpy()``, ``x.tolist()``, iterating over one axis, export
    through DLPack.
    """

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    if TYPE_CHECKING:
        # Methods and operators are entered from the op table below.
        def __getattr__(self, name: str) -> Any: ...

    # --- what is known without evaluating ---
    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return prod(self.shape) * self.dtype.itemsize

    @property
    def device(self) -> str:
        """Where the values are, or will be computed: ``"cpu"``, ``"npu:0"`` …

        Values that an NPU and the host both have are said to be on the NPU.
        """
        from .device import device_of

        return device_of(self)

    @property
    def T(self) -> Any:
        """The axes in reverse order. A view."""
        return registry.find("transpose").function(self)

    @property
    def mT(self) -> Any:
        """The last two axes exchanged. A view."""
        return registry.find("matrix_transpose").function(self)

    @property
    def real(self) -> Any:
        """The real part: the tensor itself."""
        return self

    @property
    def imag(self) -> Any:
        """The imaginary part: zeros."""
        return registry.find("imag").function(self)

    @property
    def flat(self) -> Iterator[Any]:
        """The elements one by one, in C order. A sync point."""
        return iter(registry.find("ravel").function(self))

    def to_device(self, device: str, /, *, stream: Any = None) -> Tensor:
        """The values on a device; the tensor itself where they are there. A sync point.

        What is computed from a tensor that was put on an NPU is computed there, whichever backend is in
        force. On ``"cpu"`` it is in the host's memory, and the backend in force computes with it. The copy
        begins, and nothing waits for it.

        Parameters
        ----------
        device : str
            ``"cpu"``, ``"npu"`` (the first) or ``"npu:1"``; see `pyasc.devices`.
        stream : None

        Raises
        ------
        ArgumentError
            For a device that is not there, and for a stream.
        """
        from .device import to_device

        return to_device(self, device, stream)  # type: ignore[no-any-return]

    # --- values: sync points ---
    def numpy(self) -> Array:
        """The values as a read-only NumPy array on the same memory. A sync point.

        The array never changes: writes to the tensor make a new version. ``numpy.array(x)`` gives a copy to
        write to.
        """
        from .lazy.evaluate import buffer_of

        owner = self if self.base is None else self.base
        buffer = buffer_of(owner)
        start = 0 if events.recorder is None or buffer.on_host else perf_counter_ns()
        array = _runtime.array(buffer, owner.shape, owner.dtype)
        if start and events.recorder is not None:
            events.recorder.add("download", "tensor to array", start, perf_counter_ns(), array.nbytes)
        if owner is self:
            return array
        if 0 in self.shape:
            return array.reshape(-1)[:0].reshape(self.shape)
        size = self.dtype.itemsize
        return np.lib.stride_tricks.as_strided(
            array.reshape(-1)[self.offset :],
            self.shape,
            tuple(s * size for s in self.strides),
            writeable=False,
        )

    def tolist(self) -> Any:
        """The values as nested lists of Python numbers, a single one for no axes. A sync point."""
        return self.numpy().tolist()

    def tobytes(self) -> bytes:
        """The values' bytes in C order. A sync point."""
        return self.numpy().tobytes()

    def item(self, *index: int) -> Any:
        """One value as a Python number. A sync point.

        Parameters
        ----------
        *index : int
            Its index, flat or for each axis; needed unless there is one element.

        Raises
        ------
        ShapeError
            Without an index where there is more than one element.
        """
        if not index and self.size != 1:
            raise ShapeError(f"[item] expected one element, given shape {self.shape}")
        return self.numpy().item(*index)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        values = self.numpy()
        if dtype is not None and values.dtype != dtype:
            if copy is False:
                raise ArgumentError(
                    f"[__array__] expected dtype {values.dtype.name} for copy=False, "
                    f"given {np.dtype(dtype).name}"
                )
            return values.astype(dtype)
        return values.copy() if copy else values

    __array_ufunc__ = array_ufunc
    __array_function__ = array_function
    __array_priority__ = 1000.0

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        import pyasc

        return pyasc

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Export to another library. A sync point.

        Consumers that know of read-only memory (DLPack 1.0) see the tensor's own; others get a copy. What was
        put on an NPU is shared there, and must not be written to.
        """
        if self.__dlpack_device__()[0] != _HOST[0] and dl_device in (None, self.__dlpack_device__()):
            from .interop.dlpack import capsule

            return capsule(self.copy() if copy else self)
        values = self.numpy()
        if values.dtype.kind == "V":
            raise BufferError(
                "[__dlpack__] expected a dtype that NumPy exports, given bfloat16; cast to float32"
            )
        if copy or max_version is None or max_version < (1, 0):
            if copy is False:
                raise BufferError(
                    "[__dlpack__] expected a consumer of DLPack 1.0 for copy=False: the memory is read-only"
                )
            return values.copy().__dlpack__()
        return values.__dlpack__(max_version=max_version, dl_device=dl_device, copy=copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        if not placement.in_use():
            return _HOST
        from .interop.dlpack import EXTENSION
        from .lazy.evaluate import buffer_of

        buffer = buffer_of(self)
        return (EXTENSION, buffer.device) if buffer.committed else _HOST

    def __bool__(self) -> bool:
        return bool(self._single("bool"))

    def __int__(self) -> int:
        return int(self._single("int"))

    def __float__(self) -> float:
        return float(self._single("float"))

    def __complex__(self) -> complex:
        return complex(self._single("complex"))

    def __index__(self) -> int:
        if self.dtype.kind not in "iu" or self.shape != ():
            raise DtypeError(
                f"[index] expected a 0-d tensor of integers, given shape {self.shape} of {self.dtype.name}"
            )
        return int(self.numpy().item())

    def _single(self, kind: str) -> Any:
        if self.size != 1:
            if kind == "bool":
                raise ShapeError(f"[bool] expected one element, given shape {self.shape}; use any() or all()")
            raise DtypeError(f"[{kind}] expected one element, given shape {self.shape}")
        return self.numpy().item()

    def __len__(self) -> int:
        if not self.shape:
            raise DtypeError("[len] expected a tensor with axes, given a 0-d one")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        if not self.shape:
            raise DtypeError("[iter] expected a tensor with axes, given a 0-d one")
        if len(self.shape) == 1:
            return (from_array(value) for value in self.numpy())
        return iter(registry.find("unstack").function(self))

    def __contains__(self, value: Any) -> bool:
        return bool((self == value).any())

    def __reversed__(self) -> Iterator[Any]:
        return iter(registry.find("flip").function(self, 0))

    # --- text ---
    def __repr__(self) -> str:
        return _text(self, "pyasc.Tensor(", f", dtype={self.dtype.name})")

    def __str__(self) -> str:
        try:
            return str(self.numpy())
        except TracingError:
            return repr(self)

    def __format__(self, spec: str) -> str:
        if self.shape == ():
            return format(self.item(), spec)
        if spec:
            raise DtypeError(
                f"[format] expected a 0-d tensor for the format {spec!r}, given shape {self.shape}"
            )
        return str(self)

    # --- copies ---
    def __copy__(self) -> Any:
        return registry.find("copy").function(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return registry.find("copy").function(self)

    def __reduce__(self) -> tuple[Callable[[Array], Any], tuple[Array]]:
        return _restored, (self.numpy().copy(),)

    def __round__(self, digits: int = 0) -> Any:
        return registry.find("round").function(self, digits)


def _text(x: Tensor, front: str, back: str) -> str:
    try:
        values = x.numpy()
    except TracingError:
        return f"{front}<traced>, shape={x.shape}{back}"
    if values.size == 0 and values.shape != (0,):
        back = f", shape={x.shape}{back}"
    return front + np.array2string(values, separator=", ", prefix=front, suffix=back) + back


def _restored(values: Array) -> Any:
    return from_array(values)


def _uploaded(array: Array) -> _graph.Node:
    """A leaf with a copy of a C-contiguous array."""
    start = perf_counter_ns()
    buffer = _runtime.allocate(array.nbytes)
    _runtime.array(buffer, array.shape, array.dtype, writable=True)[...] = array
    if events.recorder is not None:
        events.recorder.add("copy", "array to tensor", start, perf_counter_ns(), array.nbytes)
    return _graph.leaf(buffer, array.shape, array.dtype)


# --- methods and operators from the table --------------------------------------------------------------
def _named(function: Callable[..., Any], name: str, entry: Operation) -> Callable[..., Any]:
    function.__name__ = name
    function.__qualname__ = f"Tensor.{name}"
    function.__doc__ = entry.doc.split("\n\n")[0]
    return function


def _operators(entry: Operation) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Name and function of each operator of an operation."""
    primitive, result, function = entry.primitive, entry.result, entry.function
    record = _graph.binary
    name = entry.operator
    if entry.arity == 1:

        def unary(self: Any) -> Any:
            return function(self)

        yield f"__{name}__", unary
        return
    if primitive is not None and entry.swapped:

        def forward(self: Any, other: Any) -> Any:
            try:
                return record(primitive, other, self, result)
            except ShapeError as error:
                broadcast_shapes(entry.name, self.shape, np.shape(other))  # in the user's order
                raise error.of(entry.name) from None

        reflected = forward  # a comparison has none

    elif primitive is not None:

        def forward(self: Any, other: Any) -> Any:
            try:
                return record(primitive, self, other, result)
            except ShapeError as error:
                raise error.of(entry.name) from None

        def reflected(self: Any, other: Any) -> Any:
            try:
                return record(primitive, other, self, result)
            except ShapeError as error:
                raise error.of(entry.name) from None

    else:

        def forward(self: Any, other: Any) -> Any:
            return function(self, other) if takes(other) else NotImplemented

        def reflected(self: Any, other: Any) -> Any:
            return function(other, self) if takes(other) else NotImplemented

    def inplace(self: Any, other: Any) -> Any:
        made = forward(self, other)
        if made is NotImplemented:
            return made
        if made.shape != self.shape:
            raise ShapeError(
                f"[{entry.name}] expected a result of shape {self.shape} to write in place, "
                f"given {made.shape}"
            )
        if self.base is None and made.dtype is self.dtype:
            self.node = made.node
        else:
            assign(self, made, "same_kind", entry.name)
        return self

    yield f"__{name}__", forward
    if result is None:  # comparisons reflect one another
        yield f"__r{name}__", reflected
        if entry.inplace:
            yield f"__i{name}__", inplace


def _complete() -> None:
    for entry in registry.operations():
        if entry.operator is not None:
            for name, function in _operators(entry):
                setattr(Tensor, name, _named(function, name, entry))
    for name, function in registry.methods():
        setattr(Tensor, name, function)


def _placed(x: Any, device: Any, operation: str) -> Any:
    from .device import to_device

    return to_device(x, device, operation=operation)


def _adopted(x: Any, share: bool) -> Any:
    from .interop import on_npu

    if not on_npu(x):
        return None
    from .interop.npu import copied, shared

    return shared(x, "from_dlpack") if share else copied(x, "asarray")


def _tracing() -> bool:
    from .lazy.evaluate import tracing

    return tracing()


_complete()
_graph.set_tensor_type(Tensor)
set_crossings(_uploaded, lambda x: x.numpy(), _tracing, _placed, _adopted)
