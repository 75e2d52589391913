"""The dtypes of tensors, their names, and promotion.

Promotion is NumPy 2's, Python scalars being weak, with one difference: where an integer or bool dtype meets
a float dtype, the float's dtype wins, and where integers must become floats (true division, mean, sqrt) they
become the default float. `set_promotion("numpy")` gives NumPy's rules to the letter.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from .errors import DtypeError

Dtype = np.dtype[Any]

bool_: Dtype = np.dtype(np.bool_)
int8: Dtype = np.dtype(np.int8)
int16: Dtype = np.dtype(np.int16)
int32: Dtype = np.dtype(np.int32)
int64: Dtype = np.dtype(np.int64)
uint8: Dtype = np.dtype(np.uint8)
uint16: Dtype = np.dtype(np.uint16)
uint32: Dtype = np.dtype(np.uint32)
uint64: Dtype = np.dtype(np.uint64)
float16: Dtype = np.dtype(np.float16)
bfloat16: Dtype = np.dtype(ml_dtypes.bfloat16)
float32: Dtype = np.dtype(np.float32)
float64: Dtype = np.dtype(np.float64)

DTYPES: dict[str, Dtype] = {
    "bool": bool_,
    "int8": int8,
    "int16": int16,
    "int32": int32,
    "int64": int64,
    "uint8": uint8,
    "uint16": uint16,
    "uint32": uint32,
    "uint64": uint64,
    "float16": float16,
    "bfloat16": bfloat16,
    "float32": float32,
    "float64": float64,
}
_KNOWN = frozenset(DTYPES.values())
_PYTHON: dict[Any, Dtype] = {bool: bool_, int: int64, float: float32}

default_float = float32
default_int = int64

# What each kind takes in: the order of promotion, and the answer to isdtype. V is bfloat16's kind in NumPy.
_ORDER = {"b": 0, "u": 1, "i": 1, "f": 2, "V": 2}
_KINDS = {
    "bool": "b",
    "signed integer": "i",
    "unsigned integer": "u",
    "integral": "iu",
    "real floating": "fV",
    "complex floating": "c",
    "numeric": "iufVc",
}

_numpy_rules = False


def set_promotion(rules: str) -> None:
    """Choose the rules: ``"pyasc"`` or ``"numpy"``."""
    global _numpy_rules
    _numpy_rules = rules == "numpy"
    _promoted.clear()
    computed.clear()


def numpy_rules() -> bool:
    """Whether NumPy's rules hold to the letter."""
    return _numpy_rules


def as_dtype(dtype: Any, operation: str = "dtype") -> Dtype:
    """The dtype that a user named: a dtype, a NumPy or Python type, or a string.

    Python's ``int`` and ``float`` are the default integer and float, int64 and float32.
    """
    try:
        if dtype in _PYTHON:
            return _PYTHON[dtype]
        if dtype == "bfloat16":
            return bfloat16
        found = np.dtype(dtype)
    except TypeError:
        raise DtypeError(f"[{operation}] expected a dtype, given {dtype!r}") from None
    return supported(found, operation)


def supported(dtype: Dtype, operation: str) -> Dtype:
    """The dtype in the machine's byte order, or the error that tensors cannot have it."""
    if dtype not in _KNOWN:
        dtype = dtype.newbyteorder("=")
        if dtype not in _KNOWN:
            if dtype.kind == "c":
                raise DtypeError(
                    f"[{operation}] expected a real dtype (complex ones are not supported yet), "
                    f"given {dtype.name}"
                )
            raise DtypeError(f"[{operation}] expected one of {', '.join(DTYPES)}, given dtype {dtype}")
    return dtype


def is_float(dtype: Dtype) -> bool:
    return dtype.kind in "fV"


def is_narrow(dtype: Dtype) -> bool:
    """Whether it is float16 or bfloat16, which are computed in float32 where steps would round too often."""
    return dtype.itemsize == 2 and dtype.kind in "fV"


def is_integer(dtype: Dtype) -> bool:
    return dtype.kind in "iu"


_promoted: dict[tuple[Dtype, Dtype], Dtype] = {}
# The dtype a primitive computes in, by the primitive and what it meets, as elementwise operations found it.
computed: dict[Any, Dtype] = {}


def promote_types(type1: Any, type2: Any) -> Dtype:
    """The dtype to which two dtypes are promoted.

    Parameters
    ----------
    type1, type2 : dtype or str or type

    Returns
    -------
    dtype
        NumPy's, except that a float dtype keeps its width where it meets integers or bools.

    Examples
    --------
    >>> promote_types("int64", "float32")
    dtype('float32')
    """
    a = type1 if type1 in _KNOWN else as_dtype(type1, "promote_types")
    b = type2 if type2 in _KNOWN else as_dtype(type2, "promote_types")
    result = _promoted.get((a, b))
    if result is None:
        if is_float(a) != is_float(b) and (not _numpy_rules or bfloat16 in (a, b)):
            result = a if is_float(a) else b
        elif {a, b} == {float16, bfloat16}:
            result = float32
        else:
            result = np.promote_types(a, b)
        _promoted[a, b] = result
    return result


def weak(dtype: Dtype | None, scalar: type) -> Dtype:
    """The dtype that a Python scalar and a dtype (None: only scalars) give together."""
    if scalar is bool:
        return bool_ if dtype is None else dtype
    if scalar is int:
        return default_int if dtype is None or dtype.kind == "b" else dtype
    if dtype is None:
        return default_float
    if is_float(dtype):
        return dtype
    return float64 if _numpy_rules else default_float


def floating(dtype: Dtype) -> Dtype:
    """The dtype in which a dtype becomes a float: itself, or the default float."""
    if is_float(dtype):
        return dtype
    return float64 if _numpy_rules else default_float


def result_type(*arrays_and_dtypes: Any) -> Dtype:
    """The dtype that operands give together.

    Parameters
    ----------
    *arrays_and_dtypes : tensors, arrays, dtypes or Python scalars
        Python scalars are weak: they take the dtype of what they meet.

    Returns
    -------
    dtype

    Raises
    ------
    ValueError
        Without arguments.
    """
    if not arrays_and_dtypes:
        raise ValueError("[result_type] expected at least one array or dtype, given none")
    dtype: Dtype | None = None
    scalars: list[type] = []
    for item in arrays_and_dtypes:
        if item.__class__ in (bool, int, float):
            scalars.append(item.__class__)
            continue
        own = getattr(item, "dtype", None)
        found = supported(own, "result_type") if isinstance(own, np.dtype) else as_dtype(item, "result_type")
        dtype = found if dtype is None else promote_types(dtype, found)
    for scalar in sorted(scalars, key=(bool, int, float).index):
        dtype = weak(dtype, scalar)
    assert dtype is not None
    return dtype


def can_cast(from_: Any, to: Any, casting: str = "safe") -> bool:
    """Whether a cast may be done under a casting rule.

    Parameters
    ----------
    from_ : dtype or tensor
    to : dtype
    casting : {"no", "equiv", "safe", "same_kind", "unsafe"}
        NumPy's rules. ``"same_kind"`` also takes a float to any float and an integer to any float.

    Returns
    -------
    bool
    """
    own = getattr(from_, "dtype", None)
    source = own if isinstance(own, np.dtype) else as_dtype(from_, "can_cast")
    target = as_dtype(to, "can_cast")
    if bfloat16 in (source, target) and source != target and casting in ("safe", "same_kind"):
        # Not all versions of ml_dtypes tell NumPy.
        if source == bfloat16:
            return target in (float32, float64) or (casting == "same_kind" and is_float(target))
        return casting == "same_kind" or source in (bool_, int8, uint8)
    return bool(np.can_cast(source, target, casting))  # type: ignore[arg-type]


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a dtype is of a kind.

    Parameters
    ----------
    dtype : dtype
    kind : dtype, str or tuple of them
        ``"bool"``, ``"signed integer"``, ``"unsigned integer"``, ``"integral"``, ``"real floating"``,
        ``"complex floating"``, ``"numeric"``, a dtype, or a tuple of alternatives.

    Returns
    -------
    bool
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    found = as_dtype(dtype, "isdtype")
    if isinstance(kind, str) and kind in _KINDS:
        return found.kind in _KINDS[kind]
    return found == as_dtype(kind, "isdtype")


def finfo(dtype: Any) -> Any:
    """The limits of a float dtype: ``bits``, ``eps``, ``max``, ``min`` and the rest of `numpy.finfo`."""
    own = getattr(dtype, "dtype", None)
    found = own if isinstance(own, np.dtype) else as_dtype(dtype, "finfo")
    if not is_float(found):
        raise DtypeError(f"[finfo] expected a float dtype, given {found.name}")
    if found == bfloat16:
        return ml_dtypes.finfo(found)  # type: ignore[no-untyped-call]
    return np.finfo(found)


def iinfo(dtype: Any) -> Any:
    """The limits of an integer dtype: ``bits``, ``min`` and ``max``."""
    own = getattr(dtype, "dtype", None)
    found = own if isinstance(own, np.dtype) else as_dtype(dtype, "iinfo")
    if not is_integer(found):
        raise DtypeError(f"[iinfo] expected an integer dtype, given {found.name}")
    return np.iinfo(found)
