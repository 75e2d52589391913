"""Code of values that are read at shifted points: tiles of them in scratch memory, and loads from there."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from llvmlite import ir

from ..ir import Instr
from . import primitives
from .constants import i64
from .emitter import I8
from .staging import border, staged

if TYPE_CHECKING:
    from .nest import Nest, Scope
    from .units import Ranges


def fill(
    nest: Nest,
    scope: Scope,
    ranges: Ranges,
    at: tuple[list[int], ...],
    lanes_loop: Callable[..., None],
) -> None:
    """Compute the tiles of a unit; `at` has the instructions for that by depth."""
    b = nest.b
    values = staged(nest.kernel)
    nest.tile = (ranges.row[0], ranges.lane[0])
    nest.emit([scope], at[1])

    def fill_row(inside: Scope) -> None:
        nest.emit([inside], at[2])
        lanes_loop(nest, inside, ranges.lane[0], lane_end, at[3], body)

    def body(scopes: list[Scope]) -> None:
        nest.emit(scopes, at[3])
        for one in scopes:
            for v in values:
                dtype = nest.kernel.body[v].dtype
                place = _place(nest, one, v, 0, 0)
                b.store(nest.to_memory(one.env[v], dtype), place, align=dtype.itemsize)

    lane_end = b.add(ranges.lane[1], i64(border(nest.kernel, nest.lane_axis)))
    if nest.tuning.row < 0:
        fill_row(scope)
        return
    row_end = b.add(ranges.row[1], i64(border(nest.kernel, nest.tuning.row)))
    with nest.loop(ranges.row[0], row_end, i64(1)) as row:
        fill_row(nest.enter(scope, nest.tuning.row, row.index))


def load(nest: Nest, scope: Scope, instr: Instr) -> ir.Value:
    """The value of a shift in every lane."""
    (v,) = instr.args
    rows = instr.attrs[nest.tuning.row] if nest.tuning.row >= 0 else 0
    place = _place(nest, scope, v, rows, instr.attrs[nest.lane_axis])
    vector = ir.VectorType(primitives.memory_type(instr.dtype), nest.lanes)
    return nest.from_memory(nest.b.load(place, align=instr.dtype.itemsize, typ=vector), instr.dtype)


def _place(nest: Nest, scope: Scope, v: int, rows: int, lanes: int) -> ir.Value:
    """The address in the tile of a value, so many rows and lanes from the point at hand."""
    b = nest.b
    assert scope.lane is not None and nest.tile is not None
    first_row, first_lane = nest.tile
    column = b.sub(scope.lane, first_lane)
    element = primitives.memory_type(nest.kernel.body[v].dtype)
    tile = b.gep(nest.own, [nest.integer(f"tile.{v}")], source_etype=I8)
    if nest.tuning.row >= 0:
        row = b.add(b.sub(scope.index[nest.tuning.row], first_row), i64(rows))
        tile = b.gep(tile, [b.mul(row, nest.integer("tile_pitch"))], source_etype=element)
    return b.gep(tile, [b.add(column, i64(lanes))], source_etype=element)
