"""ACL through ctypes, for tests that call it themselves."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .machine import Machine

UPLOAD, DOWNLOAD, WITHIN = 1, 2, 3
SYNC_AND_TIMES = 9  # flags of an event
MAGIC = {"vector": 0x41415246, "cube": 0x41494343, "mixed": 0x43554245}


class AclError(Exception):
    """A function that failed; `code` and what aclGetRecentErrMsg said."""

    def __init__(self, name: str, code: int, said: str) -> None:
        super().__init__(f"{name}: {code}: {said}")
        self.code = code
        self.said = said


class _Option(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("value", ctypes.c_uint32 * 4))


class _Options(ctypes.Structure):
    _fields_ = (("options", ctypes.POINTER(_Option)), ("count", ctypes.c_size_t))


class Acl:
    """One device, set when this is made; `close` gives everything back that was made through it."""

    def __init__(self, machine: Machine, device: int = 0) -> None:
        self._library = machine.library
        self._library.aclGetRecentErrMsg.restype = ctypes.c_char_p
        self.device = device
        self._memory: list[tuple[str, int]] = []
        self._streams: list[int] = []
        self._events: list[int] = []
        self._binaries: list[int] = []
        self.call("aclInit", None)
        self.call("aclrtSetDevice", device)

    def call(self, name: str, *arguments: object) -> None:
        """Raises AclError; whole numbers are passed with 64 bits."""
        passed = [ctypes.c_int64(a) if isinstance(a, int) else a for a in arguments]
        code = getattr(self._library, name)(*passed)
        if code:
            raise AclError(name, code, (self._library.aclGetRecentErrMsg() or b"").decode(errors="replace"))

    def made(self, name: str, *arguments: object) -> int:
        """Call a function whose first argument is where a handle goes."""
        handle = ctypes.c_void_p()
        self.call(name, ctypes.byref(handle), *arguments)
        assert handle.value
        return handle.value

    def close(self) -> None:
        """Give everything back, whatever state it is in."""
        for stream in self._streams:
            self._library.aclrtStreamAbort(ctypes.c_void_p(stream))
            self._library.aclrtDestroyStream(ctypes.c_void_p(stream))
        for name, address in self._memory:
            getattr(self._library, name)(ctypes.c_void_p(address))
        for event in self._events:
            self._library.aclrtDestroyEvent(ctypes.c_void_p(event))
        for binary in self._binaries:
            self._library.aclrtBinaryUnLoad(ctypes.c_void_p(binary))
        self._library.aclrtResetDevice(self.device)
        self._library.aclFinalize()

    def malloc(self, nbytes: int) -> int:
        address = self.made("aclrtMalloc", nbytes, 0)
        self._memory.append(("aclrtFree", address))
        return address

    def free(self, address: int) -> None:
        self.call("aclrtFree", address)
        self._memory.remove(("aclrtFree", address))

    def pinned(self, shape: int | Sequence[int], dtype: type = np.float32) -> NDArray[np.generic]:
        """An array in page-locked memory."""
        nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
        address = self.made("aclrtMallocHost", nbytes)
        self._memory.append(("aclrtFreeHost", address))
        return np.frombuffer((ctypes.c_char * nbytes).from_address(address), dtype).reshape(shape)

    def stream(self) -> int:
        self._streams.append(self.made("aclrtCreateStream"))
        return self._streams[-1]

    def event(self) -> int:
        self._events.append(self.made("aclrtCreateEventExWithFlag", SYNC_AND_TIMES))
        return self._events[-1]

    def record(self, stream: int) -> int:
        """A new event that is recorded now."""
        event = self.event()
        self.call("aclrtRecordEvent", event, stream)
        return event

    def to_device(self, array: NDArray[np.generic]) -> int:
        """A copy in new memory of the device."""
        address = self.malloc(array.nbytes)
        self.call("aclrtMemcpy", address, array.nbytes, array.ctypes.data, array.nbytes, UPLOAD)
        return address

    def to_host(self, address: int, like: NDArray[np.generic]) -> NDArray[np.generic]:
        result = np.empty_like(like)
        self.call("aclrtMemcpy", result.ctypes.data, result.nbytes, address, result.nbytes, DOWNLOAD)
        return result

    def copy(self, to: int, source: int, nbytes: int, kind: int, stream: int) -> None:
        """In a stream."""
        self.call("aclrtMemcpyAsync", to, nbytes, source, nbytes, kind, stream)

    def made_of(self, name: str, *arguments: object) -> int:
        """Call a function whose last argument is where a handle goes."""
        handle = ctypes.c_void_p()
        self.call(name, *arguments, ctypes.byref(handle))
        assert handle.value
        return handle.value

    def load(self, binary: bytes, kind: str = "vector") -> int:
        option = _Option(2, (MAGIC[kind], 0, 0, 0))
        options = _Options(ctypes.pointer(option), 1)
        self._binaries.append(
            self.made_of("aclrtBinaryLoadFromData", binary, len(binary), ctypes.byref(options))
        )
        return self._binaries[-1]

    def load_file(self, path: Path) -> int:
        """As `load`, in the way of older versions."""
        self._binaries.append(self.made_of("aclrtBinaryLoadFromFile", str(path).encode(), None))
        return self._binaries[-1]

    def function(self, binary: int, name: str) -> int:
        return self.made_of("aclrtBinaryGetFunction", binary, name.encode())

    def launch(self, function: int, blocks: int, arguments: bytes, stream: int) -> None:
        self.call(
            "aclrtLaunchKernelWithHostArgs",
            function,
            blocks,
            stream,
            None,
            arguments,
            len(arguments),
            None,
            0,
        )

    def launch_list(self, function: int, blocks: int, arguments: bytes, stream: int) -> None:
        """As `launch`, in the way of older versions."""
        arguments_list, place = self.made_of("aclrtKernelArgsInit", function), ctypes.c_void_p()
        self.call("aclrtKernelArgsAppend", arguments_list, arguments, len(arguments), ctypes.byref(place))
        self.call("aclrtKernelArgsFinalize", arguments_list)
        self.call("aclrtLaunchKernelWithConfig", function, blocks, stream, None, arguments_list, None)

    def synchronize(self, stream: int, milliseconds: int = 20000) -> None:
        self.call("aclrtSynchronizeStreamWithTimeout", stream, milliseconds)
