"""What the library raises: every class is also the built-in exception that a NumPy user would catch."""

from .ops.errors import (
    ArgumentError,
    AxisError,
    BackendError,
    CastingError,
    DtypeError,
    FolderError,
    IndexOutOfBounds,
    LinearAlgebraError,
    NotSupported,
    OutOfMemory,
    OverflowingScalar,
    PyascError,
    ReadOnlyError,
    ShapeError,
    SimulationError,
    TracingError,
)

__all__ = [
    "ArgumentError",
    "AxisError",
    "BackendError",
    "CastingError",
    "DtypeError",
    "FolderError",
    "IndexOutOfBounds",
    "LinearAlgebraError",
    "NotSupported",
    "OutOfMemory",
    "OverflowingScalar",
    "PyascError",
    "ReadOnlyError",
    "ShapeError",
    "SimulationError",
    "TracingError",
]
