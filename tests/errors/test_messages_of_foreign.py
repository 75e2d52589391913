"""Messages of C functions, of registering operators and of calling them."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mistakes import Mistake, check, label, x

import pyasc
from pyasc.dsl import language
from pyasc.dsl.foreign import FFI, ForeignFunction
from pyasc.dsl.kernel import kernel
from pyasc.dsl.operators import Operator, register_operator, registered, unregister_operator
from pyasc.dsl.operators.ascend_source import AscendC

TEXT = """typedef struct { int a; } pair;
float f(float x, int n) { return x * n; }
float of_pointer(float *x) { return *x; }
"""


@cache
def library() -> FFI:
    return FFI(source=TEXT)


def function() -> ForeignFunction:
    return library().get_function("f", "float(float, int)")


def with_compiler(value: str, path: str | None = None) -> Any:
    """Compile in an environment of another compiler."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CC", value)
        if path is not None:
            patch.setenv("PATH", path)
        return FFI(source=TEXT + "\n")


def compiler_that(tmp: str) -> str:
    """A compiler that makes what cannot be loaded."""
    script = Path(tmp, "cc-of-nothing")
    text = f"""#!{sys.executable}
import subprocess, sys
if "-shared" in sys.argv:
    open(sys.argv[sys.argv.index("-o") + 1], "w").write("nothing")
else:
    sys.exit(subprocess.call(["cc", *sys.argv[1:]]))
"""
    script.write_text(text)
    script.chmod(0o700)
    return str(script)


@cache
def folder() -> str:
    import tempfile

    return tempfile.mkdtemp(prefix="pyasc-tests-", dir=pyasc.config.cache_dir or None)


def file(name: str, content: bytes) -> Path:
    path = Path(folder(), name)
    path.write_bytes(content)
    return path


FOREIGN = [
    Mistake(ValueError, ("[FFI]", "neither"), lambda: FFI()),
    Mistake(TypeError, ("[FFI]", "int"), lambda: FFI(source=3)),  # type: ignore[arg-type]
    Mistake(TypeError, ("[FFI]", "int"), lambda: FFI(3)),  # type: ignore[arg-type]
    Mistake(TypeError, ("[FFI]", "options", "None"), lambda: FFI(source="", options=None)),  # type: ignore[arg-type]
    Mistake(ValueError, ("[FFI]", "NUL"), lambda: FFI("a\0.c")),
    Mistake(ValueError, ("[FFI]", "UTF-8", "surrogates"), lambda: FFI(source="// \udc80")),
    Mistake(
        ValueError,
        ("[get_function]", "'a'", "a variable"),
        lambda: FFI(source="float a = 3;").get_function("a", "float(float)"),
    ),
    Mistake(OverflowError, ("[f]", "float", "1329 bits"), lambda: function()(10**400, 1)),
    Mistake(OSError, ("[FFI]", "missing.so", "no such file"), lambda: FFI("missing.so")),
    Mistake(OSError, ("[FFI]", "missing.c", "No such file"), lambda: FFI("missing.c")),
    Mistake(OSError, ("[FFI]", "UTF-8"), lambda: FFI(file("latin.c", b"// \xe9\n"))),
    Mistake(
        OSError, ("[FFI]", "broken.so", "ELF"), lambda: FFI(file("broken.so", b"no library at all, but text"))
    ),
    Mistake(
        OSError, ("[FFI]", "source.c:2", "return y;"), lambda: FFI(source="float f(float x) {\n  return y; }")
    ),
    Mistake(OSError, ("[FFI]", "source.c:1", "none.h"), lambda: FFI(source='#include "none.h"\n')),
    Mistake(
        OSError,
        ("[FFI]", "undefined reference", "source.c"),
        lambda: FFI(source="int g(int); int f(int x) { return g(x); }"),
    ),
    Mistake(
        OSError,
        ("[FFI]", "CC", "'no-compiler -O1'", "cc, gcc or clang"),
        lambda: with_compiler("no-compiler -O1"),
    ),
    Mistake(OSError, ("[FFI]", "given none", "apt install"), lambda: with_compiler("", "/nowhere")),
    Mistake(OSError, ("[FFI]", "true", "said nothing"), lambda: with_compiler(str(file_that_fails()))),
    Mistake(OSError, ("[FFI]", "that runs", "Set CC"), lambda: with_compiler(str(file_that_cannot_run()))),
    Mistake(OSError, ("[FFI]", "that it cannot", "CC"), lambda: with_compiler(compiler_that(folder()))),
    Mistake(TypeError, ("[get_function]", "'f', 3"), lambda: library().get_function("f", 3)),  # type: ignore[arg-type]
    Mistake(ValueError, ("[get_function]", "'f-g'"), lambda: library().get_function("f-g", "int(int)")),
    Mistake(ValueError, ("[get_function]", "'float'"), lambda: library().get_function("f", "float")),
    Mistake(
        TypeError,
        ("[get_function]", "pointer", "parameter 1"),
        lambda: library().get_function("f", "float(float*)"),
    ),
    Mistake(
        TypeError,
        ("[get_function]", "pointer", "source.c:3"),
        lambda: library().get_function("of_pointer", "float(int64_t)"),
    ),
    Mistake(
        TypeError,
        ("[get_function]", "float f(float, int32_t), as in source.c:2", "given double f(double)"),
        lambda: library().get_function("f", "double(double)"),
    ),
    Mistake(
        ValueError,
        ("[get_function]", "which has f, of_pointer", "'g'"),
        lambda: library().get_function("g", "int(int)"),
    ),
    Mistake(TypeError, ("[f]", "2 arguments", "given 1"), lambda: function()(1)),
    Mistake(TypeError, ("[f]", "str"), lambda: function()("1", 2)),
    Mistake(TypeError, ("[f]", "argument 2", "2.5"), lambda: function()(1, 2.5)),
    Mistake(OverflowError, ("[f]", "int32_t", str(2**31)), lambda: function()(1, 2**31)),
    Mistake(TypeError, ("[f]", "argument 2", "float32"), lambda: function()(x(3), x(3))),
    Mistake(NotImplementedError, ("[pickle]", "the C function f"), lambda: pickle.dumps(function())),
]


def file_that_fails() -> Path:
    path = file("true-compiler", b"#!/bin/sh\nexit 1\n")
    path.chmod(0o700)
    return path


def file_that_cannot_run() -> Path:
    path = file("no-program", b"#!/nowhere/sh\n")
    path.chmod(0o700)
    return path


# --- operators ----------------------------------------------------------------------------------------------


@kernel
def copied(out: Any, a: Any) -> None:
    i = language.get_global_id(0)
    out[i] = a[i]


@kernel
def both(out: Any, more: Any, a: Any) -> None:
    i = language.get_global_id(0)
    out[i] = a[i]
    more[i] = a[i]


@kernel
def nothing(a: Any) -> None:
    language.get_global_id(0)


@kernel
def mapped(a: Any) -> Any:
    return a + 1


def operator(made: Any = copied, **options: Any) -> Operator:
    """An operator of no name of the library's: registered and taken away again."""
    found = register_operator("of_these_tests", made, **options)
    unregister_operator("of_these_tests")
    return found


def registered_twice() -> None:
    register_operator("of_these_tests", copied)
    try:
        register_operator("of_these_tests", copied)
    finally:
        unregister_operator("of_these_tests")


OWN = '#include "kernel_operator.h"\nextern "C" __global__ __aicore__ void own(GM_ADDR x{}) {{}}\n'

OPERATORS = [
    Mistake(ValueError, ("[register_operator]", "'a name'"), lambda: register_operator("a name", copied)),
    Mistake(ValueError, ("[register_operator]", "'lambda'"), lambda: register_operator("lambda", copied)),
    Mistake(
        ValueError, ("[register_operator]", "pyasc's own", "'add'"), lambda: register_operator("add", copied)
    ),
    Mistake(ValueError, ("[register_operator]", "replace=True", "'of_these_tests'"), registered_twice),
    Mistake(TypeError, ("[register_operator]", "@pyasc.kernel"), lambda: operator(lambda a: a)),
    Mistake(TypeError, ("[register_operator]", "int"), lambda: operator(3)),
    Mistake(TypeError, ("[register_operator]", "reference", "int"), lambda: operator(reference=3)),
    Mistake(ValueError, ("[register_operator]", "outputs=", "nothing"), lambda: operator(nothing)),
    Mistake(ValueError, ("[register_operator]", "out, a", "'b'"), lambda: operator(outputs="b")),
    Mistake(ValueError, ("[register_operator]", "more too", "'out'"), lambda: operator(both, outputs="out")),
    Mistake(
        ValueError, ("[register_operator]", "returns a value", "'a'"), lambda: operator(mapped, outputs="a")
    ),
    Mistake(ValueError, ("[register_operator]", "2 values", "3"), lambda: operator(both, fill=(0, 1, 2))),
    Mistake(ValueError, ("[operators]", "'of_none'"), lambda: registered("of_none")),
    Mistake(TypeError, ("[of_these_tests]", "1 inputs (a)", "given 2"), lambda: operator()(x(3), x(3))),
    Mistake(TypeError, ("[of_these_tests]", "without a", "b among"), lambda: operator()(b=x(3))),
    Mistake(ValueError, ("[of_these_tests]", "shape=", "neither"), lambda: operator()(3)),
    Mistake(
        ValueError,
        ("[of_these_tests]", "2 outputs (out, more)"),
        lambda: operator(both, shape=lambda a: [(3,)] * 3)(x(3)),
    ),
    Mistake(ValueError, ("[of_these_tests]", "2 arrays", "given 1"), lambda: operator(both)(x(3), out=x(3))),
    Mistake(TypeError, ("[of_these_tests]", "out", "int"), lambda: operator()(x(3), out=3)),
    Mistake(ValueError, ("[of_these_tests]", "(3,)", "(4,)"), lambda: operator()(x(3), out=x(4))),
    Mistake(
        TypeError, ("[of_these_tests]", "float32", "int32"), lambda: operator()(x(3), out=x(3, dtype="int32"))
    ),
    Mistake(
        ValueError,
        ("[of_these_tests]", "(3,)", "(4,)"),
        lambda: operator(mapped)(x(3), out=np.zeros(4, "f4")),
    ),
    Mistake(TypeError, ("[of_these_tests]", "int32"), lambda: operator(mapped)(x(3), out=np.zeros(3, "i4"))),
    Mistake(NotImplementedError, ("[of_these_tests]", "reference"), lambda: operator().check(x(3))),
    Mistake(NotImplementedError, ("[of_these_tests]", "gradient"), lambda: operator().vjp(x(3), x(3))),
    Mistake(
        TypeError,
        ("[of_these_tests]", "1 arrays or numbers", "list"),
        lambda: operator(gradient=lambda c, a: c).vjp([1.0], x(3)),
    ),
    Mistake(
        ValueError,
        ("[of_these_tests]", "at least one name", "[]"),
        lambda: operator(reference=lambda a: a).check(x(3), backends=[]),
    ),
    Mistake(
        ValueError,
        ("[of_these_tests]", "1 gradients", "given 2"),
        lambda: operator(gradient=lambda c, a: (c, c)).vjp(x(3), x(3)),
    ),
    Mistake(
        ValueError,
        ("[of_these_tests]", "(3,)", "(4,)"),
        lambda: operator(gradient=lambda c, a: x(4)).vjp(x(3), x(3)),
    ),
    Mistake(
        ValueError,
        ("[of_these_tests]", "1 results", "given 2"),
        lambda: operator(reference=lambda a: (a, a)).check(x(3), backends=["cpu"]),
    ),
    Mistake(ValueError, ("[AscendC]", "'mixed'", "'all'"), lambda: AscendC(OWN.format(""), cores="all")),  # type: ignore[arg-type]
    Mistake(TypeError, ("[AscendC]", "int"), lambda: AscendC(3)),  # type: ignore[arg-type]
    Mistake(OSError, ("[AscendC]", "missing.cpp"), lambda: AscendC(Path("missing.cpp"))),
    Mistake(ValueError, ("[AscendC]", "one function", "none"), lambda: AscendC("void f(int x) {}")),
    Mistake(ValueError, ("[AscendC]", "struct", "Tiling"), lambda: AscendC(OWN.format(", Tiling t"))),
    Mistake(
        ValueError,
        ("[register_operator]", "Ascend C", "returns"),
        lambda: operator(mapped, ascendc=OWN.format("")),
    ),
    Mistake(
        ValueError,
        ("[copied]", "2 addresses, for out, a", "own with 1"),
        lambda: operator(ascendc=OWN.format(""))(x(3)).numpy(),
    ),
]

MISTAKES = [*FOREIGN, *OPERATORS]


@pytest.mark.parametrize("entry", MISTAKES, ids=label)
def test_mistake(entry: Mistake, mistake: Callable[..., Any]) -> None:
    check(entry, mistake)


def test_a_header_that_pulls_in_nothing_else() -> None:
    """What the compiler says of a file of the user's own names that file and its line."""
    path = file("two.c", b'#include "two.h"\n')
    file("two.h", b"float f(float x);\nint 3;\n")
    with pytest.raises(OSError, match=r"two\.h:2"):
        FFI(path)
    assert subprocess.run(["cc", "--version"], capture_output=True, check=True).stdout
