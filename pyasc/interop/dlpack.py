"""Memory of an NPU for other libraries, through DLPack."""

from __future__ import annotations

import ctypes
from typing import Any

from ..lazy.evaluate import buffer_of
from ..ops import dtypes

# DLPack's number for devices that a library registers with PyTorch, as torch_npu does with NPUs.
EXTENSION = 12
_KINDS = {"i": 0, "u": 1, "f": 2, "b": 6}
_BFLOAT16 = 4
_NAME = b"dltensor"  # "used_dltensor" once somebody took it


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
        # Of the manager that DLPack puts behind it.
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


_held: dict[int, tuple[Any, ...]] = {}  # by the address of the structure

# Functions of our own: those of `ctypes.pythonapi` have one signature for all libraries.
_ARGUMENTS = (ctypes.c_void_p, ctypes.c_char_p)
_new = ctypes.PYFUNCTYPE(ctypes.py_object, *_ARGUMENTS, ctypes.c_void_p)(("PyCapsule_New", ctypes.pythonapi))
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, *_ARGUMENTS)(("PyCapsule_GetPointer", ctypes.pythonapi))
_valid = ctypes.PYFUNCTYPE(ctypes.c_int, *_ARGUMENTS)(("PyCapsule_IsValid", ctypes.pythonapi))


def _delete(address: int) -> None:
    _held.pop(address, None)


def _drop(capsule: int) -> None:
    """The end of a capsule: what nobody took goes with it."""
    if _valid(capsule, _NAME):
        _held.pop(_pointer(capsule, _NAME), None)


# As functions of C, which must stay as long as the process.
_DELETE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_delete)
_DROP = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(_drop)


def capsule(x: Any) -> Any:
    """A tensor whose values an NPU has as a DLPack capsule on that memory.

    What reads it has to come after the work in the compute lane's stream.

    Parameters
    ----------
    x : tensor
    """
    buffer = buffer_of(x)
    code = _BFLOAT16 if x.dtype == dtypes.bfloat16 else _KINDS[x.dtype.kind]
    size, ndim = x.dtype.itemsize, len(x.shape)
    lengths = ctypes.c_int64 * max(ndim, 1)
    shape, strides = lengths(*x.shape), lengths(*x.strides)
    start = buffer.device_address() + (0 if x.base is None else x.offset * size)
    made = _Tensor(
        *(start, EXTENSION, buffer.device, ndim, code, size * 8, 1),
        *(ctypes.addressof(shape), ctypes.addressof(strides), 0),
        *(None, ctypes.cast(_DELETE, ctypes.c_void_p)),
    )
    address = ctypes.addressof(made)
    _held[address] = (made, shape, strides, buffer)
    return _new(address, _NAME, ctypes.cast(_DROP, ctypes.c_void_p))
