"""`pyasc.jit`: a function traced once for each kind of arguments, then replayed from its plan."""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, ParamSpec, TypeVar, overload

import numpy as np

from .explain import Explanation, names_in
from .guards import SCALARS, Found, Variable, describe, describe_variable, find_variables, is_layer
from .lazy import evaluate, events
from .lazy.plan import Plan
from .ops import _graph, random
from .ops._graph import Node, TensorBase
from .ops.arguments import scalar
from .ops.errors import DtypeError, TracingError
from .ops.primitives import SCALAR
from .ops.traced import TracedNumber

P = ParamSpec("P")
R = TypeVar("R")
MAX_TRACES = 256


class CacheInfo(NamedTuple):
    """Calls answered from a trace, traces made, different plans among them, traces kept."""

    hits: int
    misses: int
    plans: int
    currsize: int


@dataclass(frozen=True)
class _Tensor:
    """A tensor in the structure of the arguments or of the result, by its number."""

    number: int


@dataclass(frozen=True)
class _Number:
    """A number among the arguments, handed back in the result."""

    number: int


@dataclass(frozen=True)
class _Slot:
    """A scalar of the plan that is an argument: its place among the scalars, the argument's number, its
    dtype."""

    place: int
    number: int
    dtype: np.dtype[Any]


@dataclass(frozen=True)
class _Output:
    """One tensor of the result: which output of the plan, and the view of it where it is one."""

    number: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    strides: tuple[int, ...] | None
    offset: int


@dataclass(eq=False)
class _Trace:
    """A traced call.

    Attributes
    ----------
    leaves : tuple
        Where each leaf of the plan comes from: the number of a tensor argument or variable, a tensor
        reached some other way, or the leaf itself where the function made it.
    """

    plan: Plan
    origin: evaluate.Origin
    leaves: tuple[int | TensorBase | Node, ...]
    scalars: bytes
    slots: tuple[_Slot, ...]
    numbers: tuple[Any, ...]  # those that `scalars` holds
    outputs: tuple[_Output, ...]
    result: Any
    writes: tuple[tuple[int | TensorBase, int], ...]
    once: bool


class Jitted:
    """What `jit` returns: calls the function through its traces."""

    def __init__(self, function: Callable[..., Any]) -> None:
        layer = is_layer(function)
        functools.update_wrapper(self, function, updated=() if layer else functools.WRAPPER_UPDATES)
        self.name = type(function).__name__ if layer else getattr(function, "__name__", repr(function))
        self._function = function
        self._traces: OrderedDict[Any, _Trace] = OrderedDict()
        # For each structure of arguments, the numbers among them that the function looks at: a trace holds
        # for their values only.
        self._observed: dict[Any, tuple[int, ...]] = {}
        self._variables: tuple[Variable, ...] | None = None
        self._names: frozenset[str] = frozenset()
        self._hits = self._misses = 0
        self._lock = threading.RLock()

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if evaluate.tracing():
            return self._function(*args, **kwargs)  # inlined into the trace around it
        found = Found()
        trace = self._traced(args, kwargs, found)
        return self._replay(trace, found.tensors, found.numbers)

    def plan(self, *args: Any, **kwargs: Any) -> Plan:
        """What a call with these arguments runs, compiled and kept. Nothing is evaluated but them."""
        return self._traced(args, kwargs, Found()).plan

    def _traced(self, args: tuple[Any, ...], kwargs: dict[str, Any], found: Found) -> _Trace:
        """The trace of a call, made where there is none; `found` is filled with what the arguments hold."""
        numbers = found.numbers
        structure = self._structure(args, kwargs, found)
        trace = self._traces.get((structure, *self._values(structure, numbers)))
        if trace is None or trace.once:
            with self._lock, events.span("record", self.name):
                trace = self._trace(structure, args, kwargs, found)
                self._misses += 1
                self._traces[(structure, *self._values(structure, numbers))] = trace
                if len(self._traces) > MAX_TRACES:
                    (oldest, *_), _ = self._traces.popitem(last=False)
                    if all(structure != oldest for structure, *_ in self._traces):
                        self._observed.pop(oldest, None)
        else:
            self._hits += 1
        return trace

    def _values(self, structure: Any, numbers: list[Any]) -> list[Any]:
        """What a trace depends on besides the structure."""
        return [repr(numbers[n]) for n in self._observed.get(structure, ())]

    def cache_info(self) -> CacheInfo:
        """How often calls were answered from a trace."""
        plans = len({id(t.plan) for t in self._traces.values()})
        return CacheInfo(self._hits, self._misses, plans, len(self._traces))

    def cache_clear(self) -> None:
        """Forget every trace."""
        with self._lock:
            self._traces.clear()
            self._observed.clear()
            self._variables = None

    def explain(self, *args: Any, **kwargs: Any) -> Explanation:
        """What a call with these arguments runs: as `pyasc.explain` of its results. Nothing is evaluated."""
        return self.explanation("", *args, **kwargs)

    def explanation(self, backend: str, *args: Any, **kwargs: Any) -> Explanation:
        """What a call with these arguments runs on a backend, the one in force where it has no name. Arrays
        are called as the function's parameters are."""
        session = self.session(*args, **kwargs)
        return Explanation(session.written, keep_held=False, backend=backend, names=session.names())

    def session(self, *args: Any, **kwargs: Any) -> Session:
        """The function traced with these arguments; nothing is evaluated but them."""
        found = Found()
        self._structure(args, kwargs, found)
        session = Session(self, args, kwargs, found.tensors)
        with session:
            session.run()
        return session

    # --- calls ---------------------------------------------------------------------------------------

    def _structure(self, args: tuple[Any, ...], kwargs: dict[str, Any], found: Found) -> Any:
        """What a trace depends on: structure, shapes, dtypes, layouts, variables. Collects what it finds."""
        parts = [describe(a, found) for a in args]
        for name, value in kwargs.items():
            parts.append((name, describe(value, found)))
        tensors = found.tensors
        parts.append(evaluate.target(tensors))
        arguments = len(tensors)
        variables = self._variables
        if variables is None or any(v.function is not None and v.get() is not v.function for v in variables):
            variables, self._names = find_variables(self._function)
            self._variables = variables
        itself = getattr(self._function, "__self__", self._function)
        if is_layer(itself):
            parts.append(describe_variable(itself, found, self._names))
        for value in found.objects:
            parts.append(describe_variable(value, found, self._names))
        for variable in variables:
            parts.append(describe_variable(variable.get(), found, self._names))
        if len(tensors) > arguments + 1:
            # Two names of one tensor are one leaf of the trace.
            owners = [id(_owner(t)) for t in tensors[arguments:]]
            parts.append(tuple(owners.index(o) for o in owners))
        return tuple(parts)

    def _trace(self, structure: Any, args: Any, kwargs: Any, found: Found) -> _Trace:
        tensors, numbers = found.tensors, found.numbers
        traced = [TracedNumber(n) for n in numbers]
        for n in self._observed.get(structure, ()):
            traced[n].observed = True
        session = Session(self, args, kwargs, tensors, traced)
        try:
            with session:
                session.run()
        except TracingError:
            raise
        except Exception:
            if not traced:
                raise
            # Perhaps something in the function takes real numbers only. If not, this raises what the user
            # should see.
            for number in traced:
                number.observed = True
            session = Session(self, args, kwargs, tensors)
            with session:
                session.run()
        observed = tuple(n for n, number in enumerate(traced) if number.observed)
        if observed:
            self._observed[structure] = observed
        return session.finish(traced, found)

    def _replay(self, trace: _Trace, tensors: list[TensorBase], numbers: list[Any]) -> Any:
        buffers = []
        for source in trace.leaves:
            if type(source) is int:
                node = _owner(tensors[source]).node
            elif isinstance(source, Node):
                node = source
            else:
                assert isinstance(source, TensorBase)
                node = _owner(source).node
            buffer = node.buffer
            if buffer is None:
                evaluate.evaluate([node])
                buffer = node.buffer
            buffers.append(buffer)
        scalars = trace.scalars
        if trace.slots and tuple(numbers) != trace.numbers:
            scalars = _with_numbers(trace, numbers)
        results = evaluate.run(trace.plan, lambda: trace.origin, buffers, scalars)
        for target, number in trace.writes:
            owner = _owner(tensors[target] if isinstance(target, int) else target)
            owner.node = _graph.leaf(results[number], owner.shape, owner.dtype)
        made = []
        for output in trace.outputs:
            if output.strides is None:
                made.append(_graph.tensor(_graph.leaf(results[output.number], output.shape, output.dtype)))
            else:
                buffer = results[output.number]
                base = _graph.tensor(
                    _graph.leaf(buffer, (buffer.nbytes // output.dtype.itemsize,), output.dtype)
                )
                made.append(_graph.view(base, output.shape, output.strides, output.offset))
        if type(trace.result) is _Tensor:
            return made[0]
        return _rebuild(trace.result, made, numbers)


class Session:
    """One run of a function on stand-ins for its tensors."""

    def __init__(
        self,
        jitted: Jitted,
        args: Any,
        kwargs: Any,
        tensors: list[TensorBase],
        traced: list[TracedNumber] | None = None,
    ) -> None:
        self.jitted = jitted
        self.traced = traced or []
        self.tensors = tensors
        evaluate.evaluate([_owner(t).node for t in tensors])
        # What is recorded from here on belongs to the function.
        self.first = _graph.scalar(0, np.dtype(np.int64)).order
        self.leaves: list[Node] = []
        self.stand_ins: dict[int, int] = {}
        self.kept: list[Any] = []
        numbers = iter(range(len(tensors)))
        scalars = iter(self.traced)
        self.args = tuple(self._replace(a, numbers, scalars) for a in args)
        self.kwargs = {name: self._replace(v, numbers, scalars) for name, v in kwargs.items()}
        # The function reads the tensors of its variables under their own names.
        self.leaves += [_owner(tensors[n]).node for n in numbers]
        self.roots: list[Node] = []
        self.changed: list[tuple[int | TensorBase, Node]] = []
        self.draws = 0

    def __enter__(self) -> None:
        self.log: list[tuple[Any, Node]] = []
        self.before = random.draws()
        evaluate.begin_tracing(self.leaves, self.traced, self.jitted.name)
        _graph.log_writes(self.log)

    def __exit__(self, *_: object) -> None:
        _graph.log_writes(None)
        evaluate.end_tracing()
        self.draws = random.draws() - self.before
        replaced: dict[int, tuple[Any, Node]] = {}
        for tensor, node in self.log:
            replaced.setdefault(id(tensor), (tensor, node))
        for tensor, node in replaced.values():
            number = self.stand_ins.get(id(tensor))
            if number is not None:
                self.changed.append((number, tensor.node))
            elif node.order < self.first:
                # A tensor from outside: the write takes effect when the trace is replayed.
                self.changed.append((tensor, tensor.node))
                tensor.node = node

    def run(self) -> None:
        """Call the function; what it returns and what it wrote are the roots to compute."""
        result = self.jitted._function(*self.args, **self.kwargs)
        self.results: list[Any] = []
        self.result = self._result(result)
        self.roots = [_owner(t).node for t in self.results]

    @property
    def written(self) -> list[Node]:
        """What it returns, and the new versions of what it writes to."""
        return self.roots + [node for _, node in self.changed]

    def names(self) -> dict[int, str]:
        """What the function calls its arguments, variables and results, by the id of their nodes."""
        known: dict[str, Any] = {v.name: v.get() for v in self.jitted._variables or ()}
        with contextlib.suppress(TypeError, ValueError):
            parameters = inspect.signature(self.jitted._function)
            known |= parameters.bind(*self.args, **self.kwargs).arguments
        one = len(self.results) == 1
        known |= {"result" if one else f"result{n}": tensor for n, tensor in enumerate(self.results)}
        return names_in(known)

    def finish(self, traced: list[TracedNumber], found: Found) -> _Trace:
        """The trace of the call."""
        roots = self.written
        # What was pending before the call is not part of the function: it becomes a leaf.
        tape = _graph.linearise(roots, False)
        outside = [n for n in tape.nodes if n.order < self.first and n.buffer is None and n.held]
        if outside:
            evaluate.evaluate(outside)
            tape = _graph.linearise(roots, False)
        number_of = {id(leaf): n for n, leaf in enumerate(self.leaves)}
        holders = {id(t.node): t for t in _graph.live_tensors() if t.base is None}
        leaves: list[int | TensorBase | Node] = []
        for position in tape.leaves:
            node = tape.nodes[position]
            number = number_of.get(id(node))
            leaves.append(number if number is not None else holders.get(id(node), node))
        position_of = {p: n for n, p in enumerate(tape.outputs)}
        outputs = []
        for tensor in self.results:
            number = position_of[tape.position(_owner(tensor).node)]
            view = tensor.base is not None
            outputs.append(
                _Output(number, tensor.shape, tensor.dtype, tensor.strides if view else None, tensor.offset)
            )
        writes = tuple((target, position_of[tape.position(node)]) for target, node in self.changed)
        # A leaf is an argument, or a constant that the next call needs again.
        plan = evaluate.plan_of(tape, donate=False)
        argument_of = {id(node): n for n, number in enumerate(traced) for node in number.nodes}
        scalars = [node for node in tape.nodes if node.primitive is SCALAR]
        slots = tuple(
            _Slot(place, argument_of[id(node)], node.dtype)
            for place, node in enumerate(scalars)
            if id(node) in argument_of
        )
        return _Trace(
            plan,
            evaluate.Origin(tape, plan),
            tuple(leaves),
            tape.scalars + plan.constants,
            slots,
            tuple(found.numbers),
            tuple(outputs),
            self.result,
            writes,
            self.draws > 0 or found.volatile,
        )

    def _stand_in(self, number: int) -> Any:
        """A tensor like that argument, on a leaf of its own."""
        tensor = self.tensors[number]
        owner = _owner(tensor)
        leaf = _graph.leaf(owner.node.buffer, owner.shape, owner.dtype)
        made = _graph.tensor(leaf)
        self.leaves.append(leaf)
        self.stand_ins[id(made)] = number
        self.kept.append(made)  # so that no other tensor takes its id
        return made if tensor.base is None else _graph.view(made, tensor.shape, tensor.strides, tensor.offset)

    def _replace(self, value: Any, numbers: Iterator[int], scalars: Iterator[TracedNumber]) -> Any:
        """The argument with stand-ins for tensors and numbers, in the order in which `describe` met them."""
        if isinstance(value, TensorBase | np.ndarray):
            return self._stand_in(next(numbers))
        if type(value) in SCALARS:
            return next(scalars, value)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*(self._replace(v, numbers, scalars) for v in value))
        if isinstance(value, list | tuple):
            return type(value)(self._replace(v, numbers, scalars) for v in value)
        if isinstance(value, dict):
            return {k: self._replace(v, numbers, scalars) for k, v in value.items()}
        return value

    def _result(self, value: Any) -> Any:
        if isinstance(value, TensorBase):
            self.results.append(value)
            return _Tensor(len(self.results) - 1)
        if type(value) is TracedNumber:
            return _Number(next(n for n, number in enumerate(self.traced) if number is value))
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*(self._result(v) for v in value))
        if isinstance(value, list | tuple):
            return type(value)(self._result(v) for v in value)
        if isinstance(value, dict):
            return {k: self._result(v) for k, v in value.items()}
        return value


def _owner(tensor: TensorBase) -> Any:
    return tensor if tensor.base is None else tensor.base


def _with_numbers(trace: _Trace, numbers: list[Any]) -> bytes:
    """The scalars of a plan with these numbers among the arguments."""
    scalars = bytearray(trace.scalars)
    for slot in trace.slots:
        value = scalar(numbers[slot.number], slot.dtype, "jit").value
        bits = np.asarray(value, slot.dtype).tobytes()
        scalars[8 * slot.place : 8 * slot.place + len(bits)] = bits
    return bytes(scalars)


def _rebuild(value: Any, made: list[Any], numbers: list[Any]) -> Any:
    if isinstance(value, _Tensor):
        return made[value.number]
    if isinstance(value, _Number):
        return numbers[value.number]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_rebuild(v, made, numbers) for v in value))
    if isinstance(value, list | tuple):
        return type(value)(_rebuild(v, made, numbers) for v in value)
    if isinstance(value, dict):
        return {k: _rebuild(v, made, numbers) for k, v in value.items()}
    return value


@overload
def jit(function: Callable[P, R]) -> Callable[P, R]: ...
@overload
def jit(function: None = None) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
def jit(function: Any = None) -> Any:
    """Trace a function once for each kind of arguments and replay its plan afterwards.

    Parameters
    ----------
    function : callable
        Takes and returns tensors, Python numbers, strings, and tuples, lists and dicts of them. NumPy
        arrays become tensors. What it reads from its closure, its module and the attributes of objects
        there or among the arguments counts as arguments too: a new value is seen at the next call.

    Returns
    -------
    Jitted
        Called like the function. ``cache_info()`` counts hits and traces; ``explain(*args)`` shows what a
        call runs.

    Raises
    ------
    TracingError
        While tracing, where the function needs a traced tensor's value: ``if``, ``while``, ``float()``,
        printing. Use `pyasc.where` instead.

    Notes
    -----
    A trace is made for each structure, shape, dtype and layout of the arguments. A Python number that only
    meets tensors is
    an argument of the trace; one that the function looks at in another way (a branch, a loop bound,
    arithmetic with numbers), or finds in
    a variable, gets a trace for each of its values. A new trace costs a run of the Python function, never a
    compilation within a bucket (± 20 %). Results are fresh tensors. Writes to arguments in place take
    effect. A
    function that draws random numbers is traced at each call.
    """
    if function is None:
        return jit
    if not callable(function):
        raise DtypeError(f"[jit] expected a function, given {type(function).__name__}")
    return Jitted(function)
