"""How elementwise operations are declared, promoted and recorded; the table itself is `ops.ufuncs`.

A line of the table makes the public function. Where the operands need nothing but broadcasting, that
function is one call of `_graph.unary` or `_graph.binary`; everything else (promotion, ``out``, ``where``,
``dtype``) takes the longer way through `apply`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _graph, dtypes, registry
from .arguments import Tensor, as_tensor, broadcast_shapes, cast, number, scalar
from .dtypes import Dtype
from .errors import DtypeError, ShapeError
from .primitives import BOOL, CAST, EQ, LE, LT, NE, WHERE, Primitive
from .registry import Case, Operation, case
from .storage import assign, copy
from .traced import is_number, plain

TensorBase = _graph.TensorBase
unary = _graph.unary
binary = _graph.binary


@dataclass(frozen=True)
class Rule:
    """What an operation does with operands of each kind.

    ``keep``: compute in their dtype. ``float``: compute in the default float. ``int8``: bools count as int8.
    ``bool``: compute on truth values. ``same``: the operation leaves them as they are.
    ``refuse``: NumPy has no such operation.
    """

    bools: str
    integers: str
    floats: str

    def of(self, dtype: Dtype) -> str:
        kind = dtype.kind
        return self.bools if kind == "b" else self.integers if kind in "iu" else self.floats

    @property
    def kinds(self) -> str:
        """The dtype kinds that are not refused."""
        pairs = ((self.bools, "b"), (self.integers, "iu"), (self.floats, "fV"))
        return "".join(kinds for action, kinds in pairs if action != "refuse")


ANY = Rule("keep", "keep", "keep")
NUMBER = Rule("refuse", "keep", "keep")
WIDENED = Rule("int8", "keep", "keep")
FLOAT = Rule("float", "float", "keep")
BITS = Rule("keep", "keep", "refuse")
INTEGER = Rule("int8", "keep", "refuse")
WHOLE = Rule("refuse", "keep", "refuse")
TRUTH = Rule("bool", "bool", "bool")
ROUNDING = Rule("same", "same", "keep")
MAGNITUDE = Rule("same", "keep", "keep")


def compute_dtype(entry: Operation, dtype: Dtype) -> Dtype:
    """The dtype in which an operation computes on operands promoted to `dtype`."""
    action = entry.rule.of(dtype)
    if action == "refuse":
        raise DtypeError(f"[{entry.name}] expected {_expected(entry.rule)}, given {dtype.name}")
    if action == "float":
        return dtypes.floating(dtype)
    if action == "int8":
        return dtypes.int8
    return BOOL if action == "bool" else dtype


def _expected(rule: Rule) -> str:
    kinds = {"b": "bool", "iu": "integer", "fV": "float"}
    names = [name for kind, name in kinds.items() if kind[0] in rule.kinds]
    return f"{' or '.join(names)} operands"


def operand_dtype(entry: Operation, xs: tuple[Any, ...]) -> Dtype:
    """The dtype in which an operation computes on tensors and weak Python numbers."""
    # What works on truth values takes any dtype as bool, whatever loop NumPy chooses.
    if dtypes.numpy_rules() and entry.numpy and entry.rule is not TRUTH:
        ufunc = entry.numpy[0]
        if isinstance(ufunc, np.ufunc) and len(xs) == ufunc.nin:
            # NumPy has no weak bools: True is an array of its dtype.
            given = tuple(
                (BOOL if x.__class__ is bool else x.__class__) if is_number(x) else x.dtype for x in xs
            )
            if not all(isinstance(g, type) for g in given):
                try:
                    return ufunc.resolve_dtypes((*given, *(None,) * ufunc.nout))[0]
                except TypeError:
                    pass
    return compute_dtype(entry, dtypes.result_type(*xs))


_TAKEN = (TensorBase, int, float, np.ndarray, np.generic, list, tuple, complex)


def takes(x: Any) -> bool:
    """Whether an operator of Tensor answers for this other operand."""
    return isinstance(x, _TAKEN) or hasattr(x, "__dlpack__") or hasattr(x, "__array__")


def _strong(entry: Operation, xs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Tensors for everything but Python numbers, and for the first of them if there is nothing else."""
    name = entry.name
    made = tuple(x if isinstance(x, TensorBase) or is_number(x) else as_tensor(x, name) for x in xs)
    if all(map(is_number, made)):
        dtype = dtypes.result_type(*made)
        made = (number(made[0], dtype, operation=name), *made[1:])
    return made


_COMPARISONS = (EQ, NE, LT, LE)


def _sign_of_comparison(x: Any, y: Any) -> tuple[Any, Any] | None:
    """Two int8 operands that compare as x and y do, where no common dtype holds both exactly."""
    for a, b, flip in ((x, y, 1), (y, x, -1)):
        if b.__class__ is int and isinstance(a, TensorBase) and a.dtype.kind in "iu":
            b, limits = plain(b), np.iinfo(a.dtype)
            if not limits.min <= b <= limits.max:
                sign = -1 if b > limits.max else 1
                return number(sign * flip, dtypes.int8, a.shape), scalar(0, dtypes.int8)
    if not (isinstance(x, TensorBase) and isinstance(y, TensorBase)):
        return None
    for a, b, flip in ((x, y, 1), (y, x, -1)):
        if a.dtype.kind == "i" and b.dtype == dtypes.uint64:
            wide = cast(a, dtypes.uint64)
            more, less = binary(LT, b, wide, BOOL), binary(LT, wide, b, BOOL)
            sign = select(binary(LT, a, 0, BOOL), -flip, select(less, -flip, select(more, flip, 0)))
            return sign, scalar(0, dtypes.int8)
    return None


def select(condition: Any, x: Any, y: Any) -> Any:
    """Record WHERE on a bool tensor and two operands of one dtype; two Python numbers stand for int8."""
    shape = condition.shape
    if isinstance(x, TensorBase):
        dtype = x.dtype
        shape = shape if x.shape == shape else broadcast_shapes("where", shape, x.shape)
    else:
        dtype = y.dtype if isinstance(y, TensorBase) else dtypes.int8
    if isinstance(y, TensorBase) and y.shape != shape:
        shape = broadcast_shapes("where", shape, y.shape)
    nodes = (
        _graph.broadcast(condition, shape),
        _graph.broadcast(x, shape) if isinstance(x, TensorBase) else scalar(x, dtype),
        _graph.broadcast(y, shape) if isinstance(y, TensorBase) else scalar(y, dtype),
    )
    return _graph.tensor(_graph.record(WHERE, nodes, shape, dtype))


def promote(primitive: Primitive, x: Any, y: Any) -> Any:
    """The promotion hook of `_graph.binary`: operands in the dtype that the operation computes in."""
    key = (
        primitive,
        x.dtype if isinstance(x, TensorBase) else x.__class__,
        y.dtype if isinstance(y, TensorBase) else y.__class__,
    )
    dtype = dtypes.computed.get(key)
    if dtype is not None:
        return _in(x, dtype), _in(y, dtype)
    if not (takes(x) and takes(y)):
        return NotImplemented
    entry = registry.of_primitive(primitive)
    assert entry is not None
    made = _promoted(entry, _strong(entry, (x, y)))
    whole = x.__class__ is int or y.__class__ is int
    if made[0].dtype != dtypes.int8 and not (whole and primitive in _COMPARISONS) and _known(x) and _known(y):
        dtypes.computed[key] = made[0].dtype
    return made


def _known(x: Any) -> bool:
    return isinstance(x, TensorBase) or is_number(x)


def _in(x: Any, dtype: Dtype) -> Any:
    """An operand of `_graph.binary` in a dtype."""
    if not isinstance(x, TensorBase):
        return scalar(x, dtype)
    return x if x.dtype is dtype else unary(CAST, x, dtype)


def _promoted(entry: Operation, xs: tuple[Any, ...]) -> tuple[Any, ...]:
    if entry.primitive in _COMPARISONS:
        signs = _sign_of_comparison(*xs)
        if signs is not None:
            return signs
    dtype = operand_dtype(entry, xs)
    return tuple(scalar(x, dtype, entry.name) if is_number(x) else cast(x, dtype) for x in xs)


def apply(entry: Operation, xs: tuple[Any, ...], out: Any, where: Any, dtype: Any) -> Any:
    """An elementwise operation in full: any operands, a dtype to compute in, a target, a mask."""
    try:
        return deliver(_applied(entry, xs, dtype), out, entry.name, where)
    except ShapeError as error:
        raise error.of(entry.name) from None


def _applied(entry: Operation, xs: tuple[Any, ...], dtype: Any) -> Any:
    made = _strong(entry, xs)
    if dtype is not None and entry.result is None:
        wanted = dtypes.as_dtype(dtype, entry.name)
        for x in made:
            if isinstance(x, TensorBase) and not dtypes.can_cast(x.dtype, wanted, "same_kind"):
                raise DtypeError(
                    f"[{entry.name}] expected operands that cast to {wanted.name} "
                    f"under the rule 'same_kind', given {x.dtype.name}"
                )
        computed = compute_dtype(entry, wanted)
        made = _tensors(entry, made, computed)
    if len(made) == 1 and entry.rule.of(made[0].dtype) == "same":
        return copy(made[0])
    if entry.primitive is not None and len(made) == 2:
        a, b = (made[1], made[0]) if entry.swapped else made
        return binary(entry.primitive, a, b, entry.result)
    computed = operand_dtype(entry, made)
    made = _tensors(entry, made, computed)
    if entry.primitive is not None:
        return unary(entry.primitive, made[0], entry.result or made[0].dtype)
    assert entry.lowering is not None
    return entry.lowering(*made)


def _tensors(entry: Operation, xs: tuple[Any, ...], dtype: Dtype) -> tuple[Any, ...]:
    return tuple(number(x, dtype, operation=entry.name) if is_number(x) else cast(x, dtype) for x in xs)


def deliver(result: Any, out: Any, name: str, where: Any = True, casting: str = "same_kind") -> Any:
    """The result, written to a target where there is one and kept to a mask where there is one."""
    if isinstance(out, tuple) and len(out) == 1:
        out = out[0]
    if isinstance(result, tuple):
        outs = out if isinstance(out, tuple) else (None,) * len(result)
        return tuple(deliver(r, o, name, where, casting) for r, o in zip(result, outs, strict=True))
    if where is not True:
        mask = cast(as_tensor(where, name), BOOL)
        other = out if out is not None else number(0, result.dtype, result.shape)
        result = select(mask, result, cast(other, result.dtype))
    if out is None:
        return result
    if not isinstance(out, TensorBase):
        raise DtypeError(f"[{name}] expected a tensor for out, given {type(out).__name__}")
    if out.shape != result.shape:
        raise ShapeError(f"[{name}] expected out of shape {result.shape}, given {out.shape}")
    assign(out, result, casting, name)
    return out


# --- lines of the table -------------------------------------------------------------------------
_PAIRS = (case((3, 5), (3, 5)), case((4, 1), (3,)), case((), (2, 3)))
_ONES = (case((3, 5)), case(()), case((0, 3)))

_X = "x : tensor or array-like\n    {operands}."
_XY = "x, y : tensors, array-likes or Python numbers\n    {operands}, broadcast; Python numbers are weak."
_DOC = """{line}

Parameters
----------
{x}
out : tensor, optional
    Written with the result, which is cast under the rule ``"same_kind"``.
where : tensor of bool, optional
    Where it is false, the elements of `out` stay (without `out` they are 0).
dtype : dtype, optional
    The dtype to compute in.

Returns
-------
{result}
    {returns}
"""


def _docstring(line: str, x: str, rule: Rule, result: Any) -> str:
    operands = _expected(rule).removesuffix(" operands").capitalize()
    if result is not None:
        returns = f"Of dtype {result.name}."
    elif "float" in (rule.bools, rule.integers):
        returns = "Of the operands' float dtype; whole numbers give the default float."
    else:
        returns = "Of the operands' common dtype."
    return _DOC.format(line=line, x=x.format(operands=operands), result="tensor", returns=returns)


def _enter(
    function: Callable[..., Any],
    entry: Operation,
    line: str,
    arity: int,
    cases: tuple[Case, ...],
) -> Operation:
    function.__name__ = function.__qualname__ = entry.name
    function.__doc__ = _docstring(line, _X if arity == 1 else _XY, entry.rule, entry.result)
    entry.function = function
    entry.arity = arity
    entry.cases = cases or (_ONES if arity == 1 else _PAIRS)
    registry.declare(entry)
    if entry.rule.integers == "float" and entry.reference is not None:
        entry.reference = _of_floats(entry.reference, entry.ulp > 0)
    return entry


def _of_floats(reference: Callable[..., Any], wide: bool) -> Callable[..., Any]:
    """The reference of an operation that takes whole numbers as default floats."""

    def as_float(x: Any) -> Any:
        x = np.asarray(x)
        if x.dtype.kind in "biu":
            x = x.astype(dtypes.default_float)
            return x.astype(np.float64) if wide else x
        return x

    def of_floats(*xs: Any, **options: Any) -> Any:
        return reference(*map(as_float, xs), **options)

    return of_floats


def _unset(*args: Any, **kwargs: Any) -> Any:
    raise AssertionError("the table sets the function")


def unary_primitive(
    name: str,
    primitive: Primitive,
    rule: Rule,
    numpy: tuple[Callable[..., Any], ...] | Callable[..., Any],
    line: str,
    *,
    result: Dtype | None = None,
    cases: tuple[Case, ...] = (),
    **declaration: Any,
) -> None:
    """A line of the table: a function of one operand that is one primitive."""
    declaration.setdefault("dtypes", rule.kinds)
    references = numpy if isinstance(numpy, tuple) else (numpy,)
    entry = Operation(
        name,
        _unset,
        references,
        primitive=primitive,
        rule=rule,
        result=result,
        **_declared(name, declaration),
    )
    fast = {d: result or d for d in dtypes.DTYPES.values() if rule.of(d) == "keep"}
    find = fast.get

    def function(x: Any, /, out: Any = None, *, where: Any = True, dtype: Any = None) -> Tensor:
        if out is None and where is True and dtype is None and isinstance(x, TensorBase):
            own = find(x.dtype)
            if own is not None:
                return unary(primitive, x, own)
        return apply(entry, (x,), out, where, dtype)

    _enter(function, entry, line, 1, cases)


def binary_primitive(
    name: str,
    primitive: Primitive,
    rule: Rule,
    numpy: tuple[Callable[..., Any], ...] | Callable[..., Any],
    line: str,
    *,
    result: Dtype | None = None,
    swapped: bool = False,
    cases: tuple[Case, ...] = (),
    **declaration: Any,
) -> None:
    """A line of the table: a function of two operands that is one primitive, of ``(y, x)`` if `swapped`."""
    declaration.setdefault("dtypes", rule.kinds)
    references = numpy if isinstance(numpy, tuple) else (numpy,)
    entry = Operation(
        name,
        _unset,
        references,
        primitive=primitive,
        rule=rule,
        result=result,
        swapped=swapped,
        **_declared(name, declaration),
    )

    def forward(x: Any, y: Any, /, out: Any = None, *, where: Any = True, dtype: Any = None) -> Tensor:
        if out is None and where is True and dtype is None:
            try:
                made = binary(primitive, x, y, result)
            except ShapeError as error:
                raise error.of(name) from None
            if made is not NotImplemented:
                return made
        return apply(entry, (x, y), out, where, dtype)

    def backward(x: Any, y: Any, /, out: Any = None, *, where: Any = True, dtype: Any = None) -> Tensor:
        if out is None and where is True and dtype is None:
            try:
                made = binary(primitive, y, x, result)
            except ShapeError as error:
                broadcast_shapes(name, np.shape(x), np.shape(y))  # the shapes in the user's order
                raise error.of(name) from None
            if made is not NotImplemented:
                return made
        return apply(entry, (x, y), out, where, dtype)

    _enter(backward if swapped else forward, entry, line, 2, cases)


def lowered(
    name: str,
    rule: Rule,
    numpy: tuple[Callable[..., Any], ...] | Callable[..., Any],
    line: str,
    *,
    arity: int = 1,
    result: Dtype | None = None,
    cases: tuple[Case, ...] = (),
    shortcut: Callable[[Any, Any], Any] | None = None,
    **declaration: Any,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A line of the table over the function that lowers it.

    The lowering receives tensors of the dtype that `rule` computes in, not broadcast, and returns a tensor
    or a tuple of them. A shortcut sees the operands first, as they were given, and returns
    NotImplemented where it does not apply.
    """
    declaration.setdefault("dtypes", rule.kinds)
    references = numpy if isinstance(numpy, tuple) else (numpy,)

    def enter(lowering: Callable[..., Any]) -> Callable[..., Any]:
        entry = Operation(
            name,
            _unset,
            references,
            rule=rule,
            result=result,
            lowering=lowering,
            **_declared(name, declaration),
        )
        kept = frozenset(
            d for d in dtypes.DTYPES.values() if rule.of(d) == "keep" or (d == BOOL and rule.bools == "bool")
        )
        if arity == 1:

            def one(x: Any, /, out: Any = None, *, where: Any = True, dtype: Any = None) -> Tensor:
                if (
                    out is None
                    and where is True
                    and dtype is None
                    and isinstance(x, TensorBase)
                    and x.dtype in kept
                ):
                    return lowering(x)
                return apply(entry, (x,), out, where, dtype)

            _enter(one, entry, line, 1, cases)
        else:

            def two(x: Any, y: Any, /, out: Any = None, *, where: Any = True, dtype: Any = None) -> Tensor:
                if shortcut is not None and out is None and where is True and dtype is None:
                    made = shortcut(x, y)
                    if made is not NotImplemented:
                        return made
                if (
                    isinstance(x, TensorBase)
                    and isinstance(y, TensorBase)
                    and x.dtype is y.dtype
                    and x.dtype in kept
                    and out is None
                    and where is True
                    and dtype is None
                ):
                    try:
                        return lowering(x, y)
                    except ShapeError as error:
                        raise error.of(name) from None
                return apply(entry, (x, y), out, where, dtype)

            _enter(two, entry, line, 2, cases)
        return entry.function

    return enter


def _declared(name: str, declaration: dict[str, Any]) -> dict[str, Any]:
    """The declaration with ``method=True`` spelt out."""
    method = declaration.pop("method", False)
    if method:
        declaration["methods"] = (name if method is True else method,)
    return declaration


_graph.set_promotion(promote)
