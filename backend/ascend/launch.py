"""A vector kernel's source with what binds it to the sizes of a launch."""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt
from typing import TYPE_CHECKING

from ..ir import Binding, Kernel, binding_with_axis
from . import primitives
from .alloc import Placement
from .arguments import Passed, laid_out, number
from .buffers import PARTS, Buffers
from .chip import Chip
from .generated import Bound, Generated
from .rounding import round_up
from .source import Source
from .stage import Stages
from .ways import THRIFT, choose_ways

if TYPE_CHECKING:
    from .vector_kernel import VectorTuning

_HOST: dict[str, Callable[..., int]] = {
    "Min": min,
    "Max": max,
    "CeilDiv": lambda a, b: -(-a // b),
    "Div": lambda a, b: a // b,
    "Up": round_up,
    "Root": isqrt,
}


def written(
    given: Kernel,
    kernel: Kernel,
    tuning: VectorTuning,
    chip: Chip,
    stages: Stages,
    buffers: Buffers,
    placement: Placement,
) -> Generated:
    """The source of a kernel's stages, with what binds it to sizes."""
    source = Source(given, kernel, tuning, chip, stages, buffers, placement)
    text = source.run()
    fields = source.ordered_fields()
    host = [(name, compile(e, "<host>", "eval")) for name, e in source.host]
    rest = [(f, compile(f.host, "<host>", "eval")) for f in fields if f.scalar < 0]
    passed = [primitives.scalar_representation(d) for d in kernel.scalars]

    def environment(binding: Binding) -> dict[str, int]:
        names = {f"n{k}": e for k, e in enumerate(binding.extents)}
        for n, strides in enumerate(binding.strides):
            names |= {f"s{n}_{k}": s for k, s in enumerate(strides)}
            names[f"o{n}"] = binding.offsets[n]
        names |= {f"z{n}": size for n, size in enumerate(binding.sizes)}
        for name, code in host:
            names[name] = eval(code, {**_HOST, "__builtins__": {}}, names)
        return names

    def bind(binding: Binding) -> Bound:
        names = environment(binding_with_axis(given, binding))
        values = {f.name: eval(code, {**_HOST, "__builtins__": {}}, names) for f, code in rest}
        template, patches = laid_out(
            number(f.ctype, values[f.name])
            if f.scalar < 0
            else Passed(f.scalar, passed[f.scalar].size, passed[f.scalar].form)
            for f in fields
        )
        workspace = 2 * chip.vector_cores * PARTS // 2 if source.has_parts else 0
        return Bound(names["blocks"], template, patches, workspace, {name: names[name] for name, _ in host})

    def fits(binding: Binding) -> bool:
        bound = binding_with_axis(given, binding)
        if all(choose_ways(kernel, bound, stages.plane, thrift) != tuning.ways for thrift in THRIFT):
            return False
        if stages.whole and kernel.reduced:
            if stages.plane.reduces_lanes:
                lanes = bound.extents[stages.plane.lane]
                return round_up(lanes, source.pitch_granule) <= min(tuning.lanes, tuning.points)
            rows = bound.extents[stages.plane.row]
            return rows <= tuning.rows and rows * source.pitch_granule <= tuning.points
        return True

    return Generated(
        source.function_name(),
        text,
        "vector",
        chip,
        source.parameters(),
        fields,
        source.tiling(),
        bind,
        fits,
        tuple(source.host),
    )
