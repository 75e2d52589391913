"""`pyasc.FFI`: functions of C libraries and sources, in Python, on tensors and in kernels."""

from __future__ import annotations

import ctypes
import inspect
import keyword
import linecache
import os
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from ...backend.structured import Foreign
from ...interop import as_library, dtype_of, source_library
from ...ops import dtypes
from ...ops.errors import ArgumentError, DtypeError, ForeignError, NotSupported, OverflowingScalar
from ...ops.traced import is_number, plain
from . import library as c_library
from .prototypes import CError, Prototype, c_name, c_type, parse_prototype

Dtype = np.dtype[Any]

_SOURCES = (".c", ".h")


class FFI:
    """A C library, or a C source that is compiled for the host.

    Parameters
    ----------
    path : str or path, optional
        ``"fast_math.so"``, which is loaded, or ``"fast_math.c"``, which is compiled by the system's C
        compiler ($CC, cc, gcc or clang) and kept in the cache of kernels. A library stays loaded.
    source : str, optional
        C text, in place of a path.
    options : sequence of str
        More for the compiler: ``"-DNDEBUG"``, ``"-I…"``, ``"-l…"``.

    Raises
    ------
    ForeignError
        For a file that cannot be read, loaded or compiled; with the compiler's message and the line of C.

    Examples
    --------
    >>> lib = pyasc.FFI(source="float twice(float x) { return x + x; }")
    >>> twice = lib.get_function("twice", "float(float)")
    >>> twice(1.5)
    3.0
    >>> twice(pyasc.arange(3))
    pyasc.Tensor([0., 2., 4.], dtype=float32)

    Notes
    -----
    A function that comes from C text also runs on a device, which compiles the text for itself; one from a
    library runs on the host.
    """

    def __init__(
        self, path: str | os.PathLike[str] = "", *, source: str | None = None, options: tuple[str, ...] = ()
    ) -> None:
        if (source is None) == (not path):
            given = "neither" if source is None else "both"
            raise ArgumentError(f"[FFI] expected a path or source=, given {given}")
        options = (options,) if isinstance(options, str) else options
        if not isinstance(options, tuple | list) or not all(isinstance(o, str) for o in options):
            raise DtypeError(f"[FFI] expected options as a tuple of strings, given {options!r}")
        options = tuple(options)
        if any("\0" in str(text) for text in (path, *options)):
            raise ArgumentError("[FFI] expected a path and options without NUL characters, given one with")
        if source is not None:
            if not isinstance(source, str):
                raise DtypeError(f"[FFI] expected C text as source, given {type(source).__name__}")
            try:
                source.encode()
            except UnicodeEncodeError:
                raise ArgumentError("[FFI] expected C text in UTF-8, given lone surrogates") from None
            self._library = c_library.compiled(source, "source.c", Path.cwd(), options)
        else:
            try:
                file = Path(path)
            except TypeError:
                raise DtypeError(f"[FFI] expected a path, given {type(path).__name__}") from None
            if file.suffix in _SOURCES:
                self._library = c_library.compiled(_read(file), str(path), file.parent.resolve(), options)
            else:
                self._library = c_library.load(file)
        self.name = self._library.name

    def get_function(self, name: str, signature: str) -> ForeignFunction:
        """A function of the library.

        Parameters
        ----------
        name : str
            The symbol.
        signature : str
            A prototype in C, ``"float fast_sqrt(float x)"``, or without the name, ``"float(float)"``. Types
            are float, double, bool, and integers by the names of C and of ``stdint.h``.

        Returns
        -------
        ForeignFunction

        Raises
        ------
        ArgumentError
            For a symbol that the library does not have, and for what is no prototype of it.
        DtypeError
            For pointers and other types that are no numbers, and for a signature other than the source's.
        """
        if not isinstance(name, str) or not isinstance(signature, str):
            raise DtypeError(
                f"[get_function] expected a name and a prototype as strings, given {name!r}, {signature!r}"
            )
        if not name.isidentifier():
            raise ArgumentError(f"[get_function] expected the name of a C function, given {name!r}")
        try:
            wanted = parse_prototype(signature, name)
        except CError as error:
            kind = DtypeError if error.line is not None else ArgumentError
            raise kind(
                f"[get_function] expected a prototype of {name} with numbers alone, given {error.message}"
            ) from None
        source = self._library.source
        try:
            defined = source.prototype(name) if source is not None else None
        except CError as error:
            raise DtypeError(
                f"[get_function] expected a function of numbers, given {error.message} in {self._place(name)}"
            ) from None
        if defined is not None and not defined.same(wanted):
            raise DtypeError(f"[get_function] expected {defined}, as in {self._place(name)}, given {wanted}")
        if source is not None and name in source.variables:
            raise ArgumentError(
                f"[get_function] expected a function of {self.name}, given {name!r}, a variable"
            )
        try:
            function = getattr(self._library.handle, name)
        except AttributeError:
            known = (
                f", which has {', '.join(source.functions)}"
                if source is not None and source.functions
                else ""
            )
            raise ArgumentError(
                f"[get_function] expected a function of {self.name}{known}, given {name!r}"
            ) from None
        text = source.part(name) if source is not None and defined is not None else ""
        return ForeignFunction(wanted, function, text, self, self._library.identity)

    def _place(self, name: str) -> str:
        line = self._library.source.line(name) if self._library.source is not None else None
        return f"{self.name}:{line}" if line else self.name

    def __repr__(self) -> str:
        return f"pyasc.FFI({self.name!r})"

    def __reduce__(self) -> NoReturn:
        raise _no_pickle(f"the library {self.name}")


class ForeignFunction:
    """A C function of numbers. Made by `FFI.get_function`.

    Called with numbers it gives a number. Called with tensors, or arrays of NumPy or PyTorch, it is an
    elementwise operation: arguments are broadcast and cast to the function's types, and the result is an
    array of the first array's library. In a kernel it is called for each thread.

    Attributes
    ----------
    prototype : Prototype
    foreign : Foreign
        What kernels call.
    """

    def __init__(self, prototype: Prototype, function: Any, source: str, library: FFI, identity: str) -> None:
        self.prototype = prototype
        self.__name__ = self.__qualname__ = prototype.name
        self.__doc__ = f"``{prototype}`` of {library.name}."
        self._library = library  # its code stays where it is
        address = ctypes.cast(function, ctypes.c_void_p).value
        assert address is not None
        self.foreign = Foreign(
            prototype.name, prototype.result, prototype.parameters, source, address, identity
        )
        # Through a pointer of its own: the types of a library's symbol are everyone's.
        signature = ctypes.CFUNCTYPE(c_type(prototype.result), *map(c_type, prototype.parameters))
        self._function = signature(address)

    @property
    def __signature__(self) -> inspect.Signature:
        kind = inspect.Parameter.POSITIONAL_ONLY
        return inspect.Signature([inspect.Parameter(n, kind) for n in self._names])

    @property
    def _names(self) -> list[str]:
        return [f"x{k}" for k in range(len(self.prototype.parameters))]

    def __call__(self, *args: Any) -> Any:
        """Call the function.

        Parameters
        ----------
        *args : number, tensor or array
            One for each parameter.

        Returns
        -------
        number, tensor or array

        Raises
        ------
        DtypeError
            For another number of arguments, or types that do not cast under the rule ``"same_kind"``.
        OverflowingScalar
            For an integer that the parameter's type does not hold.
        """
        parameters = self.prototype.parameters
        if len(args) != len(parameters):
            raise DtypeError(
                f"[{self.__name__}] expected {len(parameters)} arguments for {self.prototype}, "
                f"given {len(args)}"
            )
        libraries = [source_library(x) for x in args]
        first = next((library for library in libraries if library is not None), None)
        if first is None:
            return self._function(*map(self.converted, range(len(args)), args))
        for number, (x, library) in enumerate(zip(args, libraries, strict=True)):
            if library is None:
                self.converted(number, x)
            elif not self.accepts(number, dtype := dtype_of(x)):
                raise DtypeError(
                    f"[{self.__name__}] expected elements that cast to {c_name(parameters[number])} for "
                    f"argument {number + 1} of {self.prototype}, given {dtype.name}"
                )
        return as_library(self.elementwise(*args), first)

    def accepts(self, number: int, dtype: Dtype) -> bool:
        """Whether an argument of a dtype may be cast to a parameter: kernels and tensors go by this rule."""
        return dtypes.can_cast(dtype, self.prototype.parameters[number], "same_kind")

    def converted(self, number: int, value: Any) -> Any:
        """A Python number as a parameter takes it.

        Raises
        ------
        DtypeError, OverflowingScalar
        """
        dtype = self.prototype.parameters[number]
        if isinstance(value, np.generic):
            value = value.item()
        if not is_number(value):
            raise DtypeError(
                f"[{self.__name__}] expected numbers or arrays for {self.prototype}, "
                f"given {type(value).__name__}"
            )
        value = plain(value)
        if dtype.kind == "f":
            try:
                return float(value)
            except OverflowError:
                raise OverflowingScalar(
                    f"[{self.__name__}] expected a number that fits {c_name(dtype)} for argument "
                    f"{number + 1} of {self.prototype}, given an integer of {value.bit_length()} bits"
                ) from None
        if isinstance(value, float) or (dtype.kind == "b" and not isinstance(value, bool)):
            raise DtypeError(
                f"[{self.__name__}] expected a number that casts to {c_name(dtype)} for argument "
                f"{number + 1} of {self.prototype}, given {value!r}"
            )
        if dtype.kind in "iu":
            limits = np.iinfo(dtype)
            if not limits.min <= value <= limits.max:
                raise OverflowingScalar(
                    f"[{self.__name__}] expected an integer that fits {c_name(dtype)} for argument "
                    f"{number + 1} of {self.prototype}, given {value}"
                )
        return value

    @cached_property
    def elementwise(self) -> Callable[..., Any]:
        """The kernel that calls the function for each element."""
        from ..kernel import Kernel
        from ..signature import Options

        names = ", ".join(self._names)
        # C's names may be Python's keywords, and the name that the function has here.
        name = self.__name__
        name += "_" if keyword.iskeyword(name) or name == "function" else ""
        text = f"def {name}({names}):\n    return function({names})\n"
        # Where the kernel's front end looks for a function's text.
        file = f"<C function {self.prototype} at {id(self):#x}>"
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        variables: dict[str, Any] = {"function": self, "__name__": __name__}
        exec(compile(text, file, "exec"), variables)
        return Kernel(variables[name], Options())

    def __repr__(self) -> str:
        return f"<C function {self.prototype}>"

    def __copy__(self) -> ForeignFunction:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> ForeignFunction:
        return self

    def __reduce__(self) -> NoReturn:
        raise _no_pickle(f"the C function {self.__name__}")


def _no_pickle(what: str) -> NotSupported:
    return NotSupported(
        f"[pickle] expected objects that another process has, given {what}; pickle the path, and make an "
        "FFI of it there"
    )


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ForeignError(
            f"[FFI] expected a C source that can be read, given {path}: {error.strerror or error}"
        ) from None
    except UnicodeDecodeError:
        raise ForeignError(f"[FFI] expected a C source in UTF-8, given {path}") from None
