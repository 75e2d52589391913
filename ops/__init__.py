"""The operations: the op table (`ops.registry`) and the families that enter their operations into it."""

from . import _graph, errors

_graph.set_shape_error(errors.ShapeError)

# Each family enters its operations when it is imported; nothing else lists them.
from . import (  # noqa: E402, F401
    accumulation,
    activation,
    creation,
    einsum,
    gathering,
    histogram,
    indexing,
    joining,
    linalg,
    matmul,
    parts,
    random,
    reduction,
    selection,
    sorting,
    statistics,
    ufuncs,
    view,
)
