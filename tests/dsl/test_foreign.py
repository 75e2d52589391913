"""C functions: prototypes, libraries and sources, calls with numbers and tensors, and in kernels."""

from __future__ import annotations

import copy
import pickle
import subprocess
import threading
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyasc
from pyasc.dsl.foreign import FFI, ForeignFunction
from pyasc.dsl.foreign import library as c_library
from pyasc.dsl.foreign.prototypes import CError, Prototype, parse_prototype
from pyasc.dsl.kernel import kernel
from pyasc.dsl.language import get_global_id

MATH = """#include <math.h>
#include <stdint.h>
#define SQUARED(x) ((x) * (x))
typedef float real;

static const real offsets[2] = {0.0f, 1.0f};

static inline real squared(real x) { return SQUARED(x) + offsets[0]; }

int unused(int x) { return x; }

real quartic(real x)
{
    return squared(squared(x));
}

double scaled(double x, int32_t n) { return isnan(x) ? 0.0 : sqrt(fabs(x)) * n; }

void wait_a_little(void);
#include <unistd.h>
int waited(int microseconds) { usleep(microseconds); return 1; }
"""


@cache
def library() -> FFI:
    return FFI(source=MATH)


@cache
def quartic() -> ForeignFunction:
    return library().get_function("quartic", "float(float)")


@cache
def scaled() -> ForeignFunction:
    return library().get_function("scaled", "double scaled(double x, int32_t n)")


@pytest.mark.parametrize(
    "text, said",
    [
        ("float(float)", "float f(float)"),
        ("float f(float x);", "float f(float)"),
        ("unsigned long long(int64_t, bool)", "uint64_t f(int64_t, bool)"),
        ("const double (signed char, unsigned short a)", "double f(int8_t, uint16_t)"),
        ("int f(void)", "int32_t f(void)"),
        ("size_t(_Bool, long int)", "uint64_t f(bool, int64_t)"),
    ],
)
def test_prototypes(text: str, said: str) -> None:
    assert str(parse_prototype(text, "f")) == said


NO_PROTOTYPES = (
    "", "float", "float x", "float g(float)", "f(float", "float(float*)", "float*(float)", "void(int)",
    "char(char)", "float f(float, ...)", "long double(int)", "struct s(int)", "float(float[3])",
    "int(int); int g(int)",
)  # fmt: skip


@pytest.mark.parametrize("text", NO_PROTOTYPES)
def test_no_prototypes(text: str) -> None:
    with pytest.raises(CError):
        parse_prototype(text, "f")


INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]


def test_numbers_of_every_type() -> None:
    names = [*(f"{n}_t" for n in INTEGERS), "float", "double", "bool"]
    text = "#include <stdint.h>\n#include <stdbool.h>\n"
    text += "\n".join(f"{n} same_{k}({n} x) {{ return x; }}" for k, n in enumerate(names))
    lib = FFI(source=text)
    for k, n in enumerate(names):
        same = lib.get_function(f"same_{k}", f"{n}({n})")
        if k < len(INTEGERS):
            limits = np.iinfo(INTEGERS[k])
            for value in (int(limits.min), int(limits.max), 3):
                assert same(value) == value and type(same(value)) is int
            with pytest.raises(OverflowError):
                same(int(limits.max) + 1)
            with pytest.raises(TypeError):
                same(1.0)
        elif n == "bool":
            assert same(True) is True and same(False) is False
        else:
            assert same(1.5) == 1.5 and same(2) == 2.0 and same(np.float32(0.25)) == 0.25
            assert np.isnan(same(float("nan")))


def test_source_that_a_device_gets() -> None:
    """The function and what it needs, macros expanded; headers only where a call needs them."""
    text = quartic().foreign.source
    assert "squared" in text and "offsets" in text and "typedef float real" in text
    assert "unused" not in text and "SQUARED" not in text and "#include" not in text
    again = FFI(source=text).get_function("quartic", "float(float)")
    assert again(1.5) == quartic()(1.5) == 1.5**4
    assert "#include <math.h>" in scaled().foreign.source


def test_extensions_that_the_parser_does_not_know() -> None:
    lib = FFI(
        source="__attribute__((noinline)) float f(float x)\n"
        '{ const char *s = "{"; __typeof__(x) y = ({ x + 1; }); (void)s; return y; }\n'
        "float g(float x) { return x; }\n"
    )
    assert lib.get_function("f", "float(float)")(1.0) == 2.0
    with pytest.raises(TypeError, match=r"source\.c:3"):
        lib.get_function("g", "double(double)")


def test_file_and_its_headers(tmp_path: Path) -> None:
    source, header = tmp_path / "fast.c", tmp_path / "own.h"
    source.write_text('#include "own.h"\nfloat f(float x) { return x + STEP; }\n')
    header.write_text("#define STEP 1\n")
    first = FFI(source).get_function("f", "float(float)")
    header.write_text("#define STEP 2\n")
    second = FFI(str(source)).get_function("f", "float(float)")
    assert (first(1.0), second(1.0)) == (2.0, 3.0)
    assert first.foreign != second.foreign
    assert FFI(source, options=("-DSTEP=5", "-Uown")).name == str(source)


def test_library(tmp_path: Path) -> None:
    (tmp_path / "fast.c").write_text("float twice(float x) { return 2 * x; }\n")
    made = tmp_path / "fast.so"
    subprocess.run(["cc", "-shared", "-fPIC", str(tmp_path / "fast.c"), "-o", str(made)], check=True)
    twice = FFI(made).get_function("twice", "float(float)")
    assert twice(4) == 8.0 and twice.foreign.source == ""
    made.unlink()
    assert twice(4) == 8.0
    x = np.arange(7, dtype=np.float32)
    np.testing.assert_array_equal(twice(x), 2 * x)


def test_libraries_of_equal_functions(tmp_path: Path) -> None:
    """What differs in the code alone, which kernels do not see, is told apart."""
    x = np.arange(1, 4, dtype=np.float32)
    made = []
    for n in (2, 3):
        source, library = tmp_path / f"times{n}.c", tmp_path / f"times{n}.so"
        source.write_text(f"float times(float x) {{ return {n} * x; }}\n")
        subprocess.run(["cc", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
        made.append(FFI(library).get_function("times", "float(float)"))
        np.testing.assert_array_equal(made[-1](x), n * x)
    np.testing.assert_array_equal(made[0](pyasc.asarray(x)) + made[1](pyasc.asarray(x)), 5 * x)


def test_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second process, or this one again, finds the library on disk."""
    text = "int once(int x) { return x + 41; }\n"
    FFI(source=text)
    commands: list[list[str]] = []
    run = c_library._run
    monkeypatch.setattr(c_library, "_run", lambda c, *rest: (commands.append(c), run(c, *rest))[1])
    monkeypatch.setattr(c_library, "_loaded", {})
    assert FFI(source=text).get_function("once", "int(int)")(1) == 42
    assert commands and not any("-shared" in command for command in commands)
    FFI(source=text, options=("-DOTHER",))
    assert any("-shared" in command for command in commands)


def test_without_the_interpreter_lock() -> None:
    waited = library().get_function("waited", "int(int)")
    threads = [threading.Thread(target=waited, args=(80_000,)) for _ in range(4)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert time.perf_counter() - start < 0.3


def test_from_many_threads() -> None:
    failures: list[Any] = []

    def work(seed: int) -> None:
        try:
            f = FFI(source=f"float f(float x) {{ return x * {seed % 3}; }}").get_function("f", "float(float)")
            x = np.arange(1000, dtype=np.float32)
            np.testing.assert_array_equal(np.asarray(f(x)), x * (seed % 3))
            assert f(2.0) == 2.0 * (seed % 3)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_copies_and_pickles() -> None:
    assert copy.copy(quartic()) is quartic() and copy.deepcopy(quartic()) is quartic()
    with pytest.raises(NotImplementedError, match="quartic"):
        pickle.dumps(quartic())
    with pytest.raises(NotImplementedError):
        pickle.dumps(library())
    assert repr(quartic()) == "<C function float quartic(float)>"
    assert quartic().prototype == Prototype("quartic", np.dtype("f4"), (np.dtype("f4"),))


# --- on tensors --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 1, 7, 33, 4097])
def test_elementwise(n: int) -> None:
    x = np.linspace(-2, 2, n).astype(np.float32)
    made = quartic()(pyasc.asarray(x))
    assert isinstance(made, pyasc.Tensor) and made.dtype == np.float32
    np.testing.assert_array_equal(made.numpy(), (x * x) * (x * x))


def test_broadcast_and_cast() -> None:
    x = np.linspace(-3, 3, 12).reshape(3, 4).astype(np.float32)
    n = np.array([[1], [2], [-3]], np.int8)
    expected = np.sqrt(np.abs(x.astype(np.float64))) * n
    made = scaled()(pyasc.asarray(x), pyasc.asarray(n))
    assert made.dtype == np.float64
    np.testing.assert_array_equal(made.numpy(), expected)
    np.testing.assert_array_equal(
        scaled()(pyasc.asarray(x).T, 2).numpy(), np.sqrt(np.abs(x.T.astype("f8"))) * 2
    )
    np.testing.assert_array_equal(scaled()(4.0, pyasc.asarray(n)).numpy(), 2.0 * n)
    with pytest.raises(TypeError, match="int32_t"):
        scaled()(x, x)
    with pytest.raises(ValueError):
        scaled()(pyasc.ones((3,)), pyasc.ones((4,), dtype="int32"))


def test_arrays_of_numpy() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    made = quartic()(x)
    assert type(made) is np.ndarray and made.dtype == np.float32 and made.flags.writeable
    np.testing.assert_array_equal(made, x**4)
    np.testing.assert_array_equal(quartic()(x[:, ::-2]), x[:, ::-2] ** 4)
    made[...] = 0
    np.testing.assert_array_equal(quartic()(x), x**4)


def test_recorded_with_what_is_around() -> None:
    x = pyasc.arange(5, dtype="float32")
    y = quartic()(x + 1) * 2
    assert y.pending
    np.testing.assert_array_equal(y.numpy(), np.arange(1, 6, dtype="f4") ** 4 * 2)

    @pyasc.jit
    def traced(v: Any) -> Any:
        return quartic()(v) - v

    for value in (2.0, 3.0):
        np.testing.assert_array_equal(traced(pyasc.full((3,), value)).numpy(), [value**4 - value] * 3)


c_function: Callable[..., Any] = abs


@kernel
def of_thread(out: Any, x: Any, n: int) -> None:
    i = get_global_id(0)
    if x[i] > 0.0:
        out[i] = c_function(x[i]) + n


def test_in_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "c_function", quartic())
    x = np.linspace(-1, 1, 50).astype(np.float32)
    out = pyasc.zeros((50,))
    of_thread(out, pyasc.asarray(x), 3)
    np.testing.assert_array_equal(out.numpy(), np.where(x > 0, (x * x) * (x * x) + 3, 0).astype("f4"))
    # Another function under the same name is another kernel.
    monkeypatch.setitem(
        globals(),
        "c_function",
        FFI(source="float g(float x) { return -x; }").get_function("g", "float(float)"),
    )
    out = pyasc.zeros((50,))
    of_thread(out, pyasc.asarray(x), 3)
    np.testing.assert_array_equal(out.numpy(), np.where(x > 0, -x + 3, 0).astype("f4"))


def test_on_the_simulator() -> None:
    x = np.linspace(-2, 2, 300).astype(np.float32)
    with pyasc.backend("sim"):
        made = quartic()(pyasc.asarray(x)).numpy()
    np.testing.assert_array_equal(made, (x * x) * (x * x))


def test_a_library_that_changed_is_loaded_anew(tmp_path: Path) -> None:
    made = []
    for number in (1, 5):
        source, library = tmp_path / "f.c", tmp_path / "f.so"
        source.write_text(f"float f(float x) {{ return x + {number}; }}")
        library.unlink(missing_ok=True)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
        made.append(FFI(library).get_function("f", "float(float)"))
    assert [f(1.0) for f in made] == [2.0, 6.0]


@pytest.mark.parametrize("name", ["def", "None", "function", "x0"])
def test_names_that_python_keeps_for_itself(name: str) -> None:
    function = FFI(source=f"float {name}(float x) {{ return 2 * x; }}").get_function(name, "float(float)")
    assert np.array_equal(function(np.ones(3, "f4")), [2, 2, 2])
