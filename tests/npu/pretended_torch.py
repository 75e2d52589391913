"""As much of PyTorch and torch_npu as `pyasc.interop` uses, on the memory and streams of a stand-in NPU."""

from __future__ import annotations

import ctypes
import itertools
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np

_HUGE_FIRST, _TO_DEVICE, _TO_HOST, _WITHIN = 0, 1, 2, 3
_DTYPES = {
    name: np.dtype(name)
    for name in ("bool", "int8", "int16", "int32", "int64", "uint8", "float16", "float32", "float64")
} | {"bfloat16": np.dtype(ml_dtypes.bfloat16)}


class dtype:
    """PyTorch's class of dtypes."""

    def __init__(self, name: str) -> None:
        self.numpy = _DTYPES[name]
        self.is_floating_point = name.startswith(("float", "bfloat"))


class Torch(ModuleType):
    """A module `torch` whose NPUs are those of a library."""

    def __init__(self, library: Path) -> None:
        super().__init__("torch")
        acl = self.acl = ctypes.CDLL(str(library))
        self._free = acl.aclrtFree
        self._free.argtypes = [ctypes.c_void_p]
        acl.aclrtMalloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        copied = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        acl.aclrtMemcpy.argtypes = copied
        acl.aclrtMemcpyAsync.argtypes = [*copied, ctypes.c_void_p]
        acl.aclrtCreateStream.argtypes = acl.aclrtSynchronizeStream.argtypes = [ctypes.c_void_p]
        acl.aclrtDestroyStream.argtypes = [ctypes.c_void_p]
        for name in _DTYPES:
            setattr(self, name, dtype(name))
        self.kinds = {kind: getattr(self, name) for name, kind in _DTYPES.items()}
        self.dtype = dtype
        self.strided = "strided"
        self.is_grad_enabled = lambda: False
        self.autograd = SimpleNamespace(
            Function=type("Function", (), {}), function=SimpleNamespace(once_differentiable=lambda f: f)
        )
        self.utils = SimpleNamespace(dlpack=SimpleNamespace(from_dlpack=self._from_dlpack))
        self.npu = SimpleNamespace(current_stream=lambda index: SimpleNamespace(npu_stream=self.stream))
        self.torch_npu = ModuleType("torch_npu")
        self.torch_npu.get_npu_format = lambda x: x.format  # type: ignore[attr-defined]
        made = type("Tensor", (PretendedTensor,), {"torch": self})
        made.__module__ = "torch"
        self.Tensor = made
        self.stream = 0
        self.context = ctypes.c_void_p()

    def begin(self) -> None:
        """Use the first device."""
        self.check(self.acl.aclInit(None), allowed=(0, 100002))
        self.check(self.acl.aclrtSetDevice(0))
        made = ctypes.c_void_p()
        self.check(self.acl.aclrtCreateStream(ctypes.byref(made)))
        assert made.value is not None
        self.stream = made.value
        self.check(self.acl.aclrtGetCurrentContext(ctypes.byref(self.context)))

    def enter(self) -> None:
        """Make the device current, which another library may have changed."""
        self.check(self.acl.aclrtSetCurrentContext(self.context))

    def end(self) -> None:
        """Give everything back. What shares ACL must have left it usable."""
        self.enter()
        self.synchronize()
        self.check(self.acl.aclrtDestroyStream(self.stream))
        self.stream = 0
        self.check(self.acl.aclrtResetDevice(0))
        self.check(self.acl.aclFinalize())

    def check(self, error: int, allowed: tuple[int, ...] = (0,)) -> None:
        assert error in allowed, f"ACL's error {error}"

    def synchronize(self) -> None:
        """Wait for this library's stream, and for nothing else."""
        self.check(self.acl.aclrtSynchronizeStream(self.stream))

    def empty(self, shape: Any, dtype: Any, device: Any) -> Any:
        return self.Tensor.new(tuple(shape), dtype)

    def full(self, shape: Any, fill: Any, dtype: Any, device: Any) -> Any:
        return self.npu_tensor(np.full(shape, fill, dtype.numpy))

    def npu_tensor(self, array: np.ndarray[Any, Any]) -> Any:
        """A tensor on the NPU with an array's values, copied there in this library's stream."""
        made = self.Tensor.new(array.shape, self.kinds[array.dtype])
        made.copy_(array)
        return made

    def _from_dlpack(self, capsule: Any) -> Any:
        api = ctypes.pythonapi
        api.PyCapsule_GetPointer.restype = ctypes.c_void_p
        api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
        api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
        managed = _Managed.from_address(api.PyCapsule_GetPointer(capsule, b"dltensor"))
        api.PyCapsule_SetName(capsule, _USED)
        t = managed.tensor
        assert (t.device_type, t.device_id, t.lanes, t.byte_offset) == (12, 0, 1, 0)
        letter = {0: "i", 1: "u", 2: "f", 6: "b"}.get(t.code)
        kind = np.dtype(f"{letter}{t.bits // 8}") if letter else _DTYPES["bfloat16"]
        shape = tuple(ctypes.cast(t.shape, ctypes.POINTER(ctypes.c_int64))[: t.ndim])
        strides = tuple(ctypes.cast(t.strides, ctypes.POINTER(ctypes.c_int64))[: t.ndim])
        address = ctypes.addressof(managed)
        return self.Tensor(t.data, shape, strides, self.kinds[kind], _Taken(managed.deleter, address))


_USED = b"used_dltensor"


class _DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    )  # fmt: skip


class _Managed(ctypes.Structure):
    _fields_ = (
        ("tensor", _DLTensor),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
    )


class _Taken:
    """What came through DLPack, given back at the end."""

    def __init__(self, deleter: Any, address: int) -> None:
        self.deleter, self.address = deleter, address

    def __del__(self) -> None:
        self.deleter(self.address)


class _Block:
    """Memory of this library's on the device."""

    def __init__(self, torch: Torch, nbytes: int) -> None:
        made = ctypes.c_void_p()
        torch.check(torch.acl.aclrtMalloc(ctypes.byref(made), max(nbytes, 1), _HUGE_FIRST))
        self.address, self.torch = made.value, torch

    def __del__(self) -> None:
        # As PyTorch's pool: only its own stream is known to be through with it.
        if self.torch.stream:
            self.torch.enter()
            self.torch.synchronize()
            self.torch.check(self.torch._free(self.address))


class PretendedTensor:
    """A tensor on the first NPU."""

    torch: Torch
    layout = "strided"
    format = 2
    requires_grad = False

    def __init__(self, address: int, shape: Any, strides: Any, kind: Any, owner: Any) -> None:
        self.address, self.shape, self._strides, self.dtype, self.owner = address, shape, strides, kind, owner
        self.device = SimpleNamespace(type="npu", index=0)

    @classmethod
    def new(cls, shape: tuple[int, ...], kind: Any) -> Any:
        size = int(np.prod(shape)) * kind.numpy.itemsize
        block = _Block(cls.torch, size)
        steps = list(itertools.accumulate(shape[:0:-1], lambda a, b: a * b, initial=1))[::-1]
        return cls(block.address, shape, tuple(steps) if shape else (), kind, block)  # type: ignore[arg-type]

    def __dlpack__(self, **options: Any) -> Any:
        raise AssertionError("the memory is found without it")

    def detach(self) -> Any:
        return self

    resolve_neg = detach

    def stride(self) -> Any:
        return self._strides

    def data_ptr(self) -> int:
        return self.address

    def element_size(self) -> int:
        return int(self.dtype.numpy.itemsize)

    def is_contiguous(self) -> bool:
        expected = 1
        for n, s in zip(self.shape[::-1], self._strides[::-1], strict=True):
            if n != 1 and s != expected:
                return False
            expected *= n
        return True

    def part(self, start: int, shape: Any, strides: Any) -> Any:
        """A view, from an element on."""
        address = self.address + start * self.element_size()
        return type(self)(address, shape, strides, self.dtype, self.owner)

    def contiguous(self) -> Any:
        return self if self.is_contiguous() else self.torch.npu_tensor(self.numpy())

    def clone(self) -> Any:
        return self.torch.npu_tensor(self.numpy())

    def _span(self) -> int:
        return 1 + sum(s * (n - 1) for s, n in zip(self._strides, self.shape, strict=True))

    def numpy(self) -> np.ndarray[Any, Any]:
        """The values, when this library's stream has come so far."""
        acl = self.torch.acl
        self.torch.enter()
        self.torch.synchronize()
        flat = np.empty(self._span(), self.dtype.numpy)
        self.torch.check(acl.aclrtMemcpy(flat.ctypes.data, flat.nbytes, self.address, flat.nbytes, _TO_HOST))
        steps = tuple(s * flat.itemsize for s in self._strides)
        return np.lib.stride_tricks.as_strided(flat, self.shape, steps).copy()

    def copy_(self, other: Any) -> None:
        """Written in this library's stream, later than now."""
        acl = self.torch.acl
        self.torch.enter()
        values = other.numpy() if isinstance(other, PretendedTensor) else other
        # Elements between those of a view stay.
        flat = np.empty(self._span(), self.dtype.numpy)
        if not self.is_contiguous():
            self.torch.synchronize()
            error = acl.aclrtMemcpy(flat.ctypes.data, flat.nbytes, self.address, flat.nbytes, _TO_HOST)
            self.torch.check(error)
        steps = tuple(s * flat.itemsize for s in self._strides)
        np.lib.stride_tricks.as_strided(flat, self.shape, steps)[...] = values
        staged = _Block(self.torch, flat.nbytes)
        self.torch.check(
            acl.aclrtMemcpy(staged.address, flat.nbytes, flat.ctypes.data, flat.nbytes, _TO_DEVICE)
        )
        task = (self.address, flat.nbytes, staged.address, flat.nbytes, _WITHIN, self.torch.stream)
        self.torch.check(acl.aclrtMemcpyAsync(*task))

    def to(self, device: Any) -> Any:
        return self

    def __setitem__(self, index: Any, value: Any) -> None:
        assert index is Ellipsis
        self.copy_(np.full(self.shape, value, self.dtype.numpy))
