"""Kernels of the executor's ABI, compiled from LLVM IR."""

from __future__ import annotations

from collections.abc import Iterator

import llvmlite.binding as llvm
import pytest

from pyasc.backend import _runtime

_SIGNATURE = "(ptr %p, ptr %n, ptr %s, i64 %begin, i64 %end, ptr %scratch, ptr %own, ptr %status)"

# Each loops over its units; `body` sees the unit as %i.
_LOOP = """
define void @{name}{signature} {{
entry:
  %p0 = load ptr, ptr %p
  %p1a = getelementptr ptr, ptr %p, i64 1
  br label %loop
loop:
  %i = phi i64 [%begin, %entry], [%next, %end_of_body]
{body}
  br label %end_of_body
end_of_body:
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""

_BODIES = {
    # out[i] = x[i] + the scalar
    "add_scalar": """
  %p1 = load ptr, ptr %p1a
  %k = load float, ptr %s
  %x = getelementptr float, ptr %p0, i64 %i
  %y = getelementptr float, ptr %p1, i64 %i
  %v = load float, ptr %x
  %w = fadd float %v, %k
  store float %w, ptr %y
""",
    # out[i] = the address of the thread's scratch, after some work on it
    "who": """
  %busy = getelementptr i64, ptr %own, i64 0
  store volatile i64 0, ptr %busy
  br label %spin
spin:
  %c = load volatile i64, ptr %busy
  %d = add i64 %c, 1
  store volatile i64 %d, ptr %busy
  %again = icmp slt i64 %d, 20000
  br i1 %again, label %spin, label %write
write:
  %o = getelementptr i64, ptr %p0, i64 %i
  %a = ptrtoint ptr %own to i64
  store i64 %a, ptr %o
""",
    # scratch[i] = i, and in the next phase out[i] = scratch[units - 1 - i], units = integers[0]
    "fill_scratch": """
  %o = getelementptr i64, ptr %scratch, i64 %i
  store i64 %i, ptr %o
""",
    "read_scratch": """
  %m = load i64, ptr %n
  %m1 = sub i64 %m, 1
  %j = sub i64 %m1, %i
  %f = getelementptr i64, ptr %scratch, i64 %j
  %v = load i64, ptr %f
  %o = getelementptr i64, ptr %p0, i64 %i
  store i64 %v, ptr %o
""",
    # a fault 3 with the value i, where i is at least integers[0] and no fault was set before
    "fault": """
  %m = load i64, ptr %n
  %bad = icmp sge i64 %i, %m
  %seen = load i64, ptr %status
  %first = icmp eq i64 %seen, 0
  %set = and i1 %bad, %first
  br i1 %set, label %report, label %fine
report:
  store i64 3, ptr %status
  %va = getelementptr i64, ptr %status, i64 1
  store i64 %i, ptr %va
  br label %fine
fine:
""",
}


@pytest.fixture(scope="session")
def kernels() -> Iterator[dict[str, int]]:
    """The kernels' addresses by name."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    source = "\n".join(_LOOP.format(name=n, signature=_SIGNATURE, body=b) for n, b in _BODIES.items())
    module = llvm.parse_assembly(source)
    engine = llvm.create_mcjit_compiler(
        module, llvm.Target.from_default_triple().create_target_machine(opt=2)
    )
    engine.finalize_object()
    yield {name: engine.get_function_address(name) for name in _BODIES}
    del engine


@pytest.fixture
def two_threads() -> Iterator[None]:
    count = _runtime.threads()
    _runtime.set_threads(2)
    yield
    _runtime.set_threads(count)
