"""Tensors by name in safetensors files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import numpy as np

from ..ops import dtypes
from ..ops.arguments import as_tensor
from ..ops.errors import ArgumentError, FolderError, NotSupported
from ..tensor import Tensor
from .parameter import wrapped


def save(tensors: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Write tensors to a safetensors file. A sync point.

    Parameters
    ----------
    tensors : mapping of str to tensor or array-like
    path : str or path

    Raises
    ------
    FolderError
        Where the file cannot be written.
    """
    numpy = _library("save")
    arrays = {}
    for name, tensor in tensors.items():
        values = as_tensor(tensor, "save").numpy()
        arrays[name] = np.ascontiguousarray(values).reshape(values.shape)
    try:
        numpy.save_file(arrays, os.fspath(path))
    except (OSError, _error()) as error:
        raise FolderError(f"[save] expected a file that can be written, given {path}: {error}") from None


def load(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """Read the tensors of a safetensors file.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    dict of str to Tensor
        On the memory into which the file was read: nothing is copied.

    Raises
    ------
    FileNotFoundError
    ArgumentError
        Where the file is no safetensors file, or damaged.
    """
    numpy = _library("load")
    try:
        arrays = numpy.load_file(os.fspath(path))
    except _error() as error:
        raise ArgumentError(f"[load] expected a safetensors file, given {path}: {error}") from None
    return {name: wrapped(np.asarray(a, dtypes.supported(a.dtype, "load"))) for name, a in arrays.items()}


def _library(operation: str) -> ModuleType:
    try:
        from safetensors import numpy
    except ImportError:
        raise NotSupported(
            f"[{operation}] expected the package safetensors, given a Python without it: "
            f"`pip install pyasc-tensor[nn]`"
        ) from None
    return numpy


def _error() -> type[Exception]:
    from safetensors import SafetensorError

    return SafetensorError
