"""The op table: one declaration says everything about an operation, and everything else is derived from it.

Two ways to declare. The elementwise families are lines of a table (`ops.elementwise`). Everything else is a
decorated function that lowers itself to primitives::

    @operation(np.roll, cases=(case((3, 4), shift=1), case((3, 4), shift=(1, -2), axis=(0, 1))))
    def roll(x: Any, /, shift: int | tuple[int, ...], axis: Axes = None) -> Tensor:
        \"\"\"Move elements along axes; what falls off one end comes back at the other.

        Parameters, Returns, Raises: NumPy style.
        \"\"\"
        x = as_tensor(x)            # ops.arguments: tensors from array-likes, axes, shapes
        ...
        return _graph.tensor(node)  # or _graph.view(...), or other operations composed

The decorated function stays the plain function it is, with its signature and docstring. From the declaration
follow

* the public function ``pyasc.<name>`` and its ``aliases`` (the Array API's name, a second NumPy name);
* NumPy's dispatch: ``np.roll(t, 1)`` calls it, for each function or ufunc in ``numpy`` (the positional
  arguments), as does a ufunc's method for a pair such as ``(np.add, "reduce")``;
* ``method=True`` makes the same function a method of Tensor (its first parameter is ``self``); a string or a
  tuple of strings gives the methods' names, and a callable is the method itself where its arguments differ
  from the function's;
* ``operator="add"`` makes ``__add__``, ``__radd__`` and ``__iadd__``; with ``inplace=False`` only the first
  two;
* the generated tests: each `Case` is called with random arrays and compared with ``reference`` (the first
  function of ``numpy`` unless given) over `dtypes`, within `ulp` units in the last place (0: bit for bit);
* ``public=False`` keeps a function out of the namespace ``pyasc`` (a method alone); ``namespace="random"``
  puts it into ``pyasc.random``; what users register (`pyasc.register_operator`) is in ``"operators"``;
* ``gradient`` is the place of the rule of reverse-mode differentiation; only users' operators have one.

The arguments in front of a call are the operands: shapes in a `Case` become random arrays of the dtype under
test with values in `domain`; a NumPy array in a `Case` is handed over as it is (an index array, say).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from .primitives import Primitive

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Case:
    """One call to test.

    Attributes
    ----------
    operands : tuple
        A shape for each random array, or a NumPy array to be taken as it is.
    args, kwargs
        Further arguments, handed to the operation and to its reference alike.
    sequence : bool
        The operands go into one list, as for `concat`.
    """

    operands: tuple[Any, ...]
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    sequence: bool = False

    def call(self, function: Callable[..., Any], operands: Sequence[Any]) -> Any:
        """Call a function with these operands in place of the shapes."""
        front = (list(operands),) if self.sequence else tuple(operands)
        return function(*front, *self.args, **self.kwargs)


def case(*operands: Any, args: tuple[Any, ...] = (), sequence: bool = False, **kwargs: Any) -> Case:
    """A `Case` in short."""
    return Case(operands, args, kwargs, sequence)


@dataclass(eq=False)
class Operation:
    """One operation: see the module's text.

    Attributes
    ----------
    name : str
    function : callable
        The public function.
    arity : int
        Operands of an operator: 1 or 2.
    primitive : Primitive or None
        For an operation that is one elementwise primitive, that primitive.
    rule : elementwise.Rule or None
        The dtype in which an elementwise operation computes, from its promoted operands.
    lowering : callable or None
        For any other elementwise operation, the function that lowers it from operands of one dtype.
    swapped : bool
        The primitive takes the operands the other way round.
    result : dtype or None
        The result's dtype where it is always the same; None where it is the operands'.
    dtypes : str
        The dtype kinds that tests go through: any of ``b i u f V`` (V: bfloat16).
    domain : tuple of float
        The range from which tests draw floats, ends included.
    ulp : float
        What tests allow against the reference, in units in the last place of the result's dtype;
        0 is equal bits.
    slack : float
        What they allow besides, where terms cancel, in units of the dtype's epsilon.
    """

    name: str
    function: Callable[..., Any]
    numpy: tuple[Any, ...] = ()
    reference: Callable[..., Any] | None = None
    aliases: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    method: Callable[..., Any] | None = None
    operator: str | None = None
    arity: int = 2
    inplace: bool = True
    primitive: Primitive | None = None
    rule: Any = None
    result: Any = None
    lowering: Callable[..., Any] | None = None
    swapped: bool = False
    cases: tuple[Case, ...] = ()
    dtypes: str = "biufV"
    domain: tuple[float, float] = (-4.0, 4.0)
    ulp: float = 0.0
    slack: float = 0.0
    public: bool = True
    namespace: str = ""
    gradient: Callable[..., Any] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Every public name."""
        return (self.name, *self.aliases)

    @property
    def doc(self) -> str:
        return self.function.__doc__ or ""


_OPERATIONS: dict[tuple[str, str], Operation] = {}
_NUMPY: dict[Any, Operation] = {}
_PRIMITIVE: dict[Primitive, Operation] = {}


def declare(operation: Operation) -> Operation:
    """Enter an operation into the table."""
    key = (operation.namespace, operation.name)
    if key in _OPERATIONS:
        raise ValueError(f"operation {operation.name!r} is declared twice")
    if operation.reference is None and operation.cases and operation.numpy and callable(operation.numpy[0]):
        operation.reference = operation.numpy[0]
    _OPERATIONS[key] = operation
    for function in operation.numpy:
        _NUMPY.setdefault(function, operation)
    if operation.primitive is not None:
        _PRIMITIVE.setdefault(operation.primitive, operation)
    return operation


def withdraw(operation: Operation) -> None:
    """Take an operation that a user registered out of the table again."""
    del _OPERATIONS[operation.namespace, operation.name]


def operation(
    *numpy: Any,
    name: str = "",
    aliases: tuple[str, ...] = (),
    method: bool | str | tuple[str, ...] | Callable[..., Any] = False,
    **declaration: Any,
) -> Callable[[Function], Function]:
    """Declare the decorated function as an operation; keyword arguments are attributes of `Operation`."""

    def enter(function: Function) -> Function:
        own = name or function.__name__
        methods: tuple[str, ...] = ()
        if method is True or callable(method):
            methods = (own,)
        elif method:
            methods = (method,) if isinstance(method, str) else method
        declare(
            Operation(
                own,
                function,
                numpy,
                aliases=aliases,
                methods=methods,
                method=method if callable(method) else None,
                **declaration,
            )
        )
        return function

    return enter


def operations() -> list[Operation]:
    """Every operation, in order of declaration."""
    return list(_OPERATIONS.values())


def find(name: str, namespace: str = "") -> Operation:
    """The operation of a public name or alias."""
    if (namespace, name) in _OPERATIONS:
        return _OPERATIONS[namespace, name]
    for entry in _OPERATIONS.values():
        if entry.namespace == namespace and name in entry.aliases:
            return entry
    raise KeyError(name)


def of_numpy(function: Any) -> Operation | None:
    """The operation that a NumPy function, a ufunc, or a (ufunc, method) dispatches to."""
    return _NUMPY.get(function)


def of_primitive(primitive: Primitive) -> Operation | None:
    """The operation that is one primitive: the name that errors of the primitive give."""
    return _PRIMITIVE.get(primitive)


def public(namespace: str = "") -> dict[str, Callable[..., Any]]:
    """The public functions of a namespace by every name."""
    return {
        name: entry.function
        for entry in _OPERATIONS.values()
        if entry.public and entry.namespace == namespace
        for name in entry.names
    }


def methods() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Name and function of every method of Tensor that is no operator."""
    for entry in _OPERATIONS.values():
        for name in entry.methods:
            yield name, entry.method or entry.function
