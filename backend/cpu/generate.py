"""From a kernel to machine code, through LLVM.

This and what it imports are loaded when something is compiled; what was compiled before runs without. LLVM is
used under `target.lock`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from itertools import count

from llvmlite import binding as llvm
from llvmlite import ir

from ..ir import Kernel
from .analysis import Analysis
from .columns import Columns
from .elementwise import Elementwise
from .nest import Nest
from .rows import Rows
from .split import Split
from .target import LIBRARIES, Target
from .tuning import Tuning
from .units import Strategy

STRATEGIES: dict[str, type[Strategy]] = {"elementwise": Elementwise, "rows": Rows, "columns": Columns}


def text(kernel: Kernel, tuning: Tuning, target: Target, integers: dict[str, int]) -> str:
    """The code of a kernel for LLVM.

    Parameters
    ----------
    kernel : Kernel
        As it is compiled: with a parallel axis, and written out as the tuning says.
    tuning : Tuning
    target : Target
    integers : dict of str to int
        The positions of the kernel's integer arguments.
    """
    module = ir.Module(name=kernel.name)
    module.triple = target.triple
    analysis = Analysis(kernel)

    def begin(name: str, tuning: Tuning = tuning) -> Nest:
        return Nest(module, name, analysis, tuning, target, integers)

    strategy = Split if tuning.split >= 0 else STRATEGIES[tuning.strategy]
    strategy(kernel, tuning).emit(begin)
    return str(module)


def object_file(source: str, target: Target) -> bytes:
    """The relocatable object that LLVM makes of a kernel's code.

    Passes over the IR would find little: the code is vectors already, and computes nothing twice.
    """
    machine = target.machine()
    return bytes(machine.emit_object(llvm.parse_assembly(source)))


def assembly(source: str, target: Target) -> str:
    """The same as text."""
    machine = target.machine()
    return str(machine.emit_assembly(llvm.parse_assembly(source)))


class Linked:
    """An object that LLVM's own linker loaded: for processors and systems that the runtime's does not know.

    Parameters
    ----------
    code : bytes
    functions : sequence of str

    Raises
    ------
    ValueError
        If the object is not for this processor, or refers to what is not there.
    """

    def __init__(self, code: bytes, functions: Sequence[str]) -> None:
        for library in LIBRARIES:
            with suppress(RuntimeError):
                llvm.load_library_permanently(library)
        builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
        for name in functions:
            builder.export_symbol(name)
        try:
            self._tracker = builder.link(_engine(), f"kernel{next(_numbers)}")
        except RuntimeError as error:
            raise ValueError(f"code that does not link: {error}") from error
        self.addresses = [self._tracker[name] for name in functions]


_numbers = count()


@cache
def _engine() -> llvm.LLJIT:
    return llvm.create_lljit_compiler(Target.host().machine())
