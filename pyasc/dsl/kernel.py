"""`@pyasc.kernel`: a Python function as a kernel."""

from __future__ import annotations

import functools
import inspect
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from math import prod
from types import FunctionType
from typing import Any, overload

import numpy as np

from ..backend.ir import Stride
from ..backend.structured import StructuredKernel
from ..config import config
from ..lazy import evaluate, events, handwritten
from ..ops._graph import TensorBase
from ..ops.errors import ArgumentError, DtypeError, KernelError
from ..ops.traced import is_number, plain
from .annotations import annotated
from .arguments import BOXES, describe, describe_captured, is_host_array, is_same, reader, unboxed
from .in_place import InPlace, run_at_once
from .launch import Geometry, Launcher, block_of, geometry, prepare
from .lowering import lower, returns_value
from .lowering.source import id_axes
from .lowering.source import read as read_source
from .maps import run_map
from .options import MAX_THREADS_OF_BLOCK, checked
from .signature import ArgumentType, ArrayType, LaunchValues, Lowered, ObjectType, Options, Path

MAX_LOWERED = 256
# The block of a kernel that needs one and is not told, by the axes of ids that it asks for.
BLOCKS = {1: (256,), 2: (16, 16), 3: (8, 8, 4)}


class Kernel:
    """A kernel written by hand. Made by the decorator `pyasc.kernel`.

    ``kernel[grid, block](…)`` runs grid × block threads, each an int or a tuple of up to three;
    ``kernel[size](…)`` runs that many threads; ``kernel(…)`` as many as the first array it writes has
    elements, or one for each tile in tile style. A kernel that returns a value is a map: ``kernel(x, y)`` is
    a new tensor of the broadcast shape.

    A call is recorded like any operation, and runs when a value is needed. Where an argument is an array of
    another library (NumPy, PyTorch on the CPU) it runs at once, on that array's own memory.

    Attributes
    ----------
    options : Options
        What the decorator was given.
    by_value : bool
        Whether its launches depend on the values of numbers, as those of tiles do.
    """

    def __init__(self, function: Callable[..., Any], options: Options) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.options = options
        self.name = function.__name__
        parameters = inspect.signature(function).parameters.values()
        self.parameters = tuple(p.name for p in parameters)
        for p in parameters:
            if p.kind not in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY, p.POSITIONAL_ONLY):
                raise ArgumentError(
                    f"[{self.name}] expected a kernel with a fixed number of parameters, given {p}"
                )
        self.defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
        self.annotations = inspect.get_annotations(function)
        self._lowered: OrderedDict[Any, list[tuple[Lowered, dict[Path, ArgumentType]]]] = OrderedDict()
        self._lock = threading.RLock()
        self._launchers: dict[Any, Launcher] = {}
        self.by_value = False
        self.in_place: dict[Any, InPlace] = {}
        self._numbers: dict[StructuredKernel, int] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._launch(None, args, kwargs)

    def __getitem__(self, threads: Any) -> Callable[..., Any]:
        where = geometry(self.name, threads)
        return lambda *args, **kwargs: self._launch(where, args, kwargs)

    @overload
    def __get__(self, instance: None, owner: type) -> Kernel: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> BoundKernel: ...
    def __get__(self, instance: object, owner: type | None = None) -> Kernel | BoundKernel:
        return self if instance is None else BoundKernel(self, instance)

    def __reduce__(self) -> str:
        return self.function.__qualname__  # by its name, as functions are

    def __repr__(self) -> str:
        return f"<pyasc.kernel {self.name}({', '.join(self.parameters)})>"

    # --- arguments -----------------------------------------------------------------------------------------

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """The arguments in the order of the parameters.

        Raises
        ------
        TypeError
            For too many, too few, or unknown ones.
        """
        names = self.parameters
        if not kwargs and len(args) == len(names):
            return args
        given = dict(zip(names, args, strict=False))
        known = {**self.defaults, **given, **kwargs}
        unexpected = [k for k in kwargs if k not in names or k in given]
        missing = [n for n in names if n not in known]
        if len(args) > len(names) or unexpected or missing:
            what = f"{len(args) + len(kwargs)}"
            what += f", without {', '.join(missing)}" if missing else ""
            what += f", {', '.join(unexpected)} among them" if unexpected else ""
            raise DtypeError(
                f"[{self.name}] expected {len(names)} arguments ({', '.join(names)}), given {what}"
            )
        return tuple(known[n] for n in names)

    @functools.cached_property
    def is_map(self) -> bool:
        """Whether it returns a value."""
        return returns_value(read_source(self.function).tree)

    def values(self, values: tuple[Any, ...]) -> LaunchValues:
        """How the values of a call are read."""
        named = dict(zip(self.parameters, values, strict=True))
        shapes: dict[Path, tuple[int, ...]] = {
            (name,): value.shape
            for name, value in named.items()
            if isinstance(value, TensorBase | np.ndarray)
        }
        return LaunchValues(shapes, reader(self.function, named))

    def lower(
        self, values: tuple[Any, ...], where: Geometry | None
    ) -> tuple[Lowered, dict[Path, ArgumentType], LaunchValues]:
        """The kernel for arguments like these, lowered now or before.

        Also the types of what it reads besides its arguments, and how it reads values.

        Raises
        ------
        KernelError
            Where it cannot be compiled.
        ArgumentError
            For a block that is too large.
        """
        options = self.options
        block = block_of(where, 0) or options.block_dim or BLOCKS[id_axes(read_source(self.function).tree)]
        options = replace(options, block_dim=block)
        lowered, captured, launch = self._find(values, options)
        if where is not None and where.either and lowered.ids == 1 and lowered.kernel.block:
            lowered, captured, launch = self._find(values, replace(options, block_dim=block_of(where, 1)))
        threads = prod(lowered.kernel.block)
        if threads > MAX_THREADS_OF_BLOCK:
            raise ArgumentError(
                f"[{self.name}] expected a block of at most {MAX_THREADS_OF_BLOCK} threads, given {threads}"
            )
        return lowered, captured, launch

    def _find(
        self, values: tuple[Any, ...], options: Options
    ) -> tuple[Lowered, dict[Path, ArgumentType], LaunchValues]:
        named = zip(self.parameters, values, strict=True)
        signature = {name: self.described(name, value) for name, value in named}
        launch = self.values(values)
        key = (config.promotion, options, tuple(signature.items()))
        with self._lock:
            found = self._lowered.setdefault(key, [])
            self._lowered.move_to_end(key)
            for made, captured in found:
                if self.holds(made, captured, launch):
                    return made, captured, launch
            captured = {}

            def noticed(path: Path) -> Any:
                value = launch.read(path)
                if len(path) > 1:
                    name = ".".join(map(str, path[path[0] == "" :]))
                    captured[path] = self._describe_captured(name, path, value, launch)
                return value

            with events.span("record", self.name):
                made = lower(self.function, signature, replace(launch, read=noticed), options)
            found.append((made, captured))
            while len(self._lowered) > MAX_LOWERED:
                self._lowered.popitem(last=False)
            return made, captured, launch

    def holds(self, made: Lowered, captured: dict[Path, ArgumentType], launch: LaunchValues) -> bool:
        """Whether what the code was made for besides its arguments' types is still so."""
        for path, kind in captured.items():
            try:
                value = launch.read(path)
            except (AttributeError, KeyError, ValueError, IndexError):
                return False
            if self._describe_captured(str(path[-1]), path, value, launch) != kind:
                return False
        return all(is_same(guard.compute(launch), guard.expected) for guard in made.guards)

    def _describe_captured(self, name: str, path: Path, value: Any, launch: LaunchValues) -> ArgumentType:
        kind = describe_captured(value, self.name, name)
        if isinstance(kind, ArrayType):
            launch.shapes[path] = tuple(value.shape)
        return kind

    def number(self, made: StructuredKernel) -> int:
        """By which calls in traces refer to the kernel as it was lowered."""
        with self._lock:
            found = self._numbers.get(made)
            if found is None:
                found = self._numbers[made] = handwritten.register(made)
            return found

    def remember(self, key: Any, made: InPlace | None) -> None:
        """Keep a launch on other libraries' arrays for the next time."""
        if made is not None:
            if len(self.in_place) >= MAX_LOWERED:
                self.in_place.clear()
            self.in_place[key] = made

    def described(self, name: str, value: Any) -> ArgumentType:
        """The type of an argument, as its parameter is annotated."""
        kind = describe(value, self.name, name)
        if name in self.annotations:
            kind = annotated(self.name, name, self.annotations[name], kind)
        if self.is_map and isinstance(kind, ArrayType):
            return ArrayType(kind.dtype, Stride.UNIT)
        return kind

    # --- launching -----------------------------------------------------------------------------------------

    def _launch(self, where: Geometry | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        values = self.bind(args, kwargs)
        for value in values:
            if isinstance(value, BOXES) and not is_number(value):
                values = tuple(map(unboxed, values))
                break
        if self.options.debug or (config.debug and not evaluate.tracing()):
            from .debugger import run

            return run(self, where, values)
        try:
            return self._run(where, values)
        except KernelError as error:
            raise error.with_traceback(None) from error.__cause__  # it is of the user's source, not of ours

    def _run(self, where: Geometry | None, values: tuple[Any, ...]) -> Any:
        key = self._key(where, values)
        if key is None:
            return run_at_once(self, where, values)
        if self.is_map:
            return run_map(self, where, values)
        launcher = self._launchers.get(key)
        if launcher is None or not launcher.holds(values):
            launcher = prepare(self, where, values)
            key = self._key(where, values)
            if len(self._launchers) >= MAX_LOWERED:
                self._launchers.clear()
            self._launchers[key] = launcher
        owners, nodes = launcher.record(values)
        for owner, node in zip(owners, nodes, strict=True):
            owner.node = node
        return None

    def _key(self, where: Geometry | None, values: tuple[Any, ...]) -> Any:
        """By which a launch is found again; None where an argument is another library's array."""
        key: list[Any] = [where, config.promotion]
        owners: list[Any] = []
        for name, value in zip(self.parameters, values, strict=True):
            if isinstance(value, TensorBase):
                base = value.base
                owner = value if base is None else base
                number = next((n for n, other in enumerate(owners) if other is owner), len(owners))
                if number == len(owners):
                    owners.append(owner)
                if base is None:
                    key.append((number, value.dtype, value.shape))
                else:
                    key.append((number, value.dtype, value.shape, value.strides, value.offset))
            elif is_number(value):
                key.append((value.__class__, plain(value)) if self.by_value else value.__class__)
            elif is_host_array(value):
                return None
            else:
                kind = describe(value, self.name, name)
                key.append((kind, id(value)) if isinstance(kind, ObjectType) else kind)
        return tuple(key)


class BoundKernel:
    """A kernel that is a method, of one object."""

    def __init__(self, kernel: Kernel, instance: object) -> None:
        self.kernel = kernel
        self.instance = instance

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.kernel(self.instance, *args, **kwargs)

    def __getitem__(self, threads: Any) -> Callable[..., Any]:
        launch = self.kernel[threads]
        return lambda *args, **kwargs: launch(self.instance, *args, **kwargs)

    def __repr__(self) -> str:
        return f"<{self.kernel!r} of {self.instance!r}>"


@overload
def kernel(function: Callable[..., Any], /) -> Kernel: ...
@overload
def kernel(
    *,
    block_dim: int | tuple[int, ...] = (),
    register_limit: int = 0,
    smem_size: int = 0,
    pipeline_depth: int = 0,
    optimize: bool = True,
    dynamic_shape: bool = True,
    debug: bool = False,
) -> Callable[[Callable[..., Any]], Kernel]: ...
def kernel(
    function: Callable[..., Any] | None = None,
    /,
    *,
    block_dim: int | tuple[int, ...] = (),
    register_limit: int = 0,
    smem_size: int = 0,
    pipeline_depth: int = 0,
    optimize: bool = True,
    dynamic_shape: bool = True,
    debug: bool = False,
) -> Kernel | Callable[[Callable[..., Any]], Kernel]:
    """Make a Python function a kernel, compiled when it is first called with arguments of new types.

    Parameters
    ----------
    block_dim : int or tuple of int
        Threads of a block along each axis, at most 1024 altogether, where a launch does not say. It matters
        to kernels that share memory or ask for local ids: others are cut as suits the target.
    register_limit : int
        Accepted, from 1 to 255, for programs written for other targets, and without effect: LLVM allocates
        the CPU's registers, and the vector unit of an NPU computes in the unified buffer.
    smem_size : int
        Bytes of shared memory that a block may use, at most what the unified buffer holds: a kernel that
        needs more is refused when it is compiled. 0 for all there is.
    pipeline_depth : int
        Buffers of each tile that is copied to the unified buffer of an NPU: 1 copies and computes in turn, 2
        at the same time; 0 for what is fastest. A CPU's caches prefetch by themselves: no effect there.
    optimize : bool
        False asks for the plainest code: on the CPU no vectors, on an NPU no overlap of copies and
        computation and the tiles as they are written. For comparison, and for faults that should be looked
        at.
    dynamic_shape : bool
        Sizes are arguments of the compiled code. False compiles anew for each shape, with sizes as constants.
    debug : bool
        Run thread by thread in Python, each access checked, so that ``print`` and breakpoints work. For all
        kernels: ``PYASC_DEBUG=1``.

    Returns
    -------
    Kernel
        Called as ``kernel[grid, block](…)``, ``kernel[size](…)`` or ``kernel(…)``.

    Raises
    ------
    TypeError, ValueError
        For an option that cannot be; the message says the limit.
    """
    options = checked(block_dim, register_limit, smem_size, pipeline_depth, optimize, dynamic_shape, debug)
    if function is None:
        return lambda function: kernel_of(function, options)
    return kernel_of(function, options)


def kernel_of(function: Any, options: Options) -> Kernel:
    """A kernel of a plain function."""
    if not isinstance(function, FunctionType):
        raise DtypeError(f"[kernel] expected a function, given {type(function).__name__}")
    return Kernel(function, options)
