"""Annotated parameters: what they may be given."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ops._graph import TensorBase
from ..ops.dtypes import DTYPES
from ..ops.errors import DtypeError
from .signature import ArgumentType, ArrayType, Constant, NumberType, SequenceType

_NUMBERS = {"int": int, "float": float, "bool": bool}


def annotated(kernel: str, name: str, annotation: Any, kind: ArgumentType) -> ArgumentType:
    """The type of an argument as its parameter is annotated: an int given for a float is one.

    Annotations that say nothing of tensors and numbers are left alone.

    Raises
    ------
    TypeError
        Where the argument is something else.
    """
    if isinstance(annotation, str):  # written out under `from __future__ import annotations`
        last = annotation.rpartition(".")[2]
        annotation = _NUMBERS.get(last, DTYPES.get(last, TensorBase if last == "Tensor" else None))
    if annotation in (int, float, bool):
        if isinstance(kind, NumberType):
            if annotation is float or kind.kind is annotation or (annotation is int and kind.kind is bool):
                return NumberType(annotation)
        elif isinstance(kind, ArrayType) and kind.sole:
            return kind
        raise DtypeError(f"[{kernel}] expected {annotation.__name__} for {name}, given {_text(kind)}")
    if isinstance(annotation, type) and issubclass(annotation, TensorBase):
        if not isinstance(kind, ArrayType):
            raise DtypeError(f"[{kernel}] expected a tensor for {name}, given {_text(kind)}")
    elif isinstance(annotation, np.dtype) and isinstance(kind, ArrayType) and kind.dtype != annotation:
        raise DtypeError(f"[{kernel}] expected elements of {annotation.name} for {name}, given {_text(kind)}")
    return kind


def _text(kind: ArgumentType) -> str:
    match kind:
        case ArrayType(dtype, layout):
            return f"a tensor of {dtype.name} with {len(layout)} {'axis' if len(layout) == 1 else 'axes'}"
        case NumberType(number):
            return number.__name__
        case SequenceType():
            return "a sequence of numbers"
        case Constant(value):
            return f"{value!r:.40}"
    return "an object"
