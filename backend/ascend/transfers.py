"""Copies of tiles between global memory and UB, by how an access walks through memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ir import Stride
from .generated import Refused
from .stage import Transfer
from .tile import Form, VectorInstr

if TYPE_CHECKING:
    from .source import Source


class TransferWriter:
    """Writes the copies of a kernel."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def load(self, load: Transfer) -> None:
        """A tile's part of an access into its buffer."""
        s, value = self.source, load.value
        dst = s.tensor(value, value.dtype)
        src = f"{s.global_name(load.access)}[{self._begin(load.access)}]"
        self._copy("In", load, dst, src)

    def store(self, store: Transfer) -> None:
        """A tile's buffer to where an access says."""
        s, value = self.source, store.value
        dst = f"{s.global_name(store.access)}[{self._begin(store.access)}]"
        self._copy("Out", store, dst, s.tensor(value, value.dtype))

    def gather(self, instr: VectorInstr) -> None:
        """Elements at computed places."""
        raise Refused("elements at computed places are not read by tiles")

    def _copy(self, way: str, transfer: Transfer, dst: str, src: str) -> None:
        s, plane = self.source, self.source.plane
        value, access = transfer.value, transfer.access
        layout = s.kernel.accesses[access].layout
        walked = plane.row if value.form is Form.COLUMN else plane.lane
        single = value.form is Form.COLUMN and plane.row < 0
        if not single and layout[walked] != Stride.UNIT:
            raise Refused("its elements do not lie side by side")
        if value.form is Form.FULL and plane.row >= 0:
            s.used.add(f"CopyRows{way}")
            stride = s.stride(access, plane.row)
            s.write(f"CopyRows{way}({dst}, {src}, rows, lanes, pitch, static_cast<int64_t>({stride}));")
        else:
            s.used.add(f"Copy{way}")
            count = "rows" if value.form is Form.COLUMN else "lanes"
            s.write(f"Copy{way}({dst}, {src}, {count});")

    def _begin(self, access: int) -> str:
        s = self.source
        layout = s.kernel.accesses[access].layout
        axes = {k: s.at(k) for k, c in enumerate(layout) if c != Stride.ZERO}
        return s.offset(access, axes)
