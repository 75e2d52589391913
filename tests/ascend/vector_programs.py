"""Programs on the simulated chip against the CPU, and their kernels, to be generated again otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import pytest

import pyasc
from pyasc.backend.ascend.generated import Generated
from pyasc.backend.base import Call
from pyasc.backend.ir import Binding, Kernel
from pyasc.backend.sim.backend import Compiled, compiled, launch

Array = np.ndarray[Any, Any]
Program = Callable[..., Any]


def outputs(result: Any) -> list[Any]:
    """What a program gives, as a list."""
    return list(result) if isinstance(result, list | tuple) else [result]


def run(program: Program, arrays: Sequence[Array], backend: str) -> list[Array]:
    """The results of a program on a backend."""
    with pyasc.backend(backend):
        tensors = outputs(program(*[pyasc.array(a) for a in arrays]))
        pyasc.sync(*tensors)
        return [np.array(t) for t in tensors]


def assert_same(given: Sequence[Array], expected: Sequence[Array], ulp: float = 0.0) -> None:
    """Bit for bit, any NaN equal to any other; or within units of the largest result's last place."""
    assert len(given) == len(expected)
    for n, (a, b) in enumerate(zip(given, expected, strict=True)):
        assert (a.shape, a.dtype) == (b.shape, b.dtype), n
        if not ulp or a.dtype.kind not in "fV":
            different = (a != b) & ~((a != a) & (b != b))
            if a.dtype.kind in "fV":
                different |= np.signbit(a.astype(np.float32)) != np.signbit(b.astype(np.float32))
                different &= ~((a != a) & (b != b))
            places = np.argwhere(different)
            assert not len(places), (n, len(places), places[0], a[different][:4], b[different][:4])
        else:
            unit = float(pyasc.finfo(b.dtype).eps) * float(np.abs(b.astype(np.float64)).max(initial=0.0))
            np.testing.assert_allclose(
                a.astype(np.float64), b.astype(np.float64), rtol=0, atol=ulp * unit, err_msg=str(n)
            )


def check(program: Program, *arrays: Array, ulp: float = 0.0) -> list[Array]:
    """Run a program on the simulated chip and on the CPU and compare."""
    given = run(program, arrays, "sim")
    with np.errstate(all="ignore"):
        assert_same(given, run(program, arrays, "cpu"), ulp)
    return given


class Launch(NamedTuple):
    """A kernel that ran: what it was given and what it left in its buffers."""

    kernel: Kernel
    binding: Binding
    before: list[Array]
    after: list[Array]
    scalars: list[int]

    def again(self, generated: Generated) -> list[Array]:
        """The outputs of other code for the same kernel."""
        buffers = [b.copy() for b in self.before]
        launch(compiled(generated, None), generated, generated.bind(self.binding), buffers, self.scalars)
        return self.outputs(buffers)

    def outputs(self, buffers: list[Array]) -> list[Array]:
        """Those of all buffers that are written."""
        return [b for o, b in zip(self.kernel.operands, buffers, strict=True) if o.output]


@contextmanager
def recorded() -> Iterator[list[Launch]]:
    """The launches of kernels on the simulated chip."""
    launches: list[Launch] = []
    bind = Compiled.bind

    def recording(self: Compiled, binding: Binding) -> Call:
        call = bind(self, binding)

        def run(buffers: list[Array], scalars: list[int]) -> None:
            before = [b.copy() for b in buffers]
            call.function(buffers, scalars)
            after = [b.copy() for b in buffers]
            launches.append(Launch(self.kernel, binding, before, after, list(scalars)))

        return Call(run)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Compiled, "bind", recording)
        yield launches
