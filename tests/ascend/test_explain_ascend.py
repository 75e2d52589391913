"""What `explain` and `cost` tell of Ascend C: source, names, tiling, cost, on any backend."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import pyasc


@pytest.fixture(autouse=True)
def on_the_cpu_again() -> Iterator[None]:
    yield
    pyasc.config.backend = "cpu"


def array(*shape: int, dtype: Any = "float32") -> Any:
    return pyasc.asarray(np.linspace(-1, 1, int(np.prod(shape))).reshape(shape).astype(dtype))


def test_source_is_had_on_the_cpu_too() -> None:
    x = array(10, 100)
    y = pyasc.exp(x) * 2 + x
    (kernel,) = pyasc.explain(y).kernels
    assert kernel.backend == "cpu"
    source = kernel.source("ascendc")
    assert '#include "kernel_operator.h"' in source and "__aicore__" in source and "Exp(" in source
    assert "define" in kernel.source("llvm") and kernel.source() == kernel.source("llvm")
    (simulated,) = pyasc.explain(y, backend="sim").kernels
    assert simulated.backend == "sim:910B1"
    assert simulated.source() == simulated.source("ascendc") == source


def test_operands_are_called_what_the_user_calls_them() -> None:
    image = array(20, 40)
    brighter = image * 2 + 1
    (kernel,) = pyasc.explain(brighter, backend="sim").kernels
    source = kernel.source()
    assert re.search(r"void \w+\(GM_ADDR image, GM_ADDR brighter", source)
    assert [a.name for a in (*kernel.inputs, *kernel.outputs)] == ["image", "brighter"]
    step = pyasc.jit(lambda temperature, rate: temperature + rate * temperature)
    (kernel,) = step.explain(image, 0.5).kernels
    assert "GM_ADDR temperature, GM_ADDR result" in kernel.source("ascendc")


@pytest.mark.parametrize("name", ["t", "blocks", "float", "pipe", "rows", "Add", "half", "class_"])
def test_a_name_that_the_source_has_already_is_changed(name: str) -> None:
    values: dict[str, Any] = {"pyasc": pyasc, "v": array(20, 40)}
    exec(f"{name} = v; w = {name} + 1; kernel, = pyasc.explain(w, backend='sim').kernels", values)
    assert values["kernel"].cost.time_us > 0, "the source compiles"


def test_the_same_kernel_has_the_same_text() -> None:
    def text() -> str:
        some = array(30, 40)
        other = some - 3
        return pyasc.explain(other, backend="sim").kernels[0].source()

    assert text() == text()


def test_tiling_prints_what_binds() -> None:
    x = array(100, 1000)
    (kernel,) = pyasc.explain(pyasc.tanh(x) + x, backend="sim").kernels
    said = str(kernel.tiling)
    assert "910B1" in said and "194,560 B" in said and "without reuse" in said
    assert "binds" in said and " mte2 " in said and "µs, bound by" in said


def test_cost_needs_no_run_and_no_data() -> None:
    x = pyasc.empty((8192, 8192), pyasc.float16)
    y = pyasc.empty((8192, 8192), pyasc.float16)
    pyasc.sync(x, y)
    z = x + y
    (kernel,) = pyasc.explain(z, backend="sim").kernels
    cost = kernel.cost
    assert 100 < cost.time_us < 500 and cost.cores == 48
    assert cost.bytes["hbm_read"] >= 2 * 2 * 8192**2
    assert cost.utilisation["MTE2"] > cost.utilisation["V"]
    assert len(pyasc.explain(z).kernels) == 1, "nothing was evaluated"


def test_cost_of_a_function() -> None:
    def layer(x: Any, w: Any) -> Any:
        return pyasc.maximum(x @ w, 0)

    x, w = pyasc.empty((512, 256), pyasc.float16), pyasc.empty((256, 384), pyasc.float16)
    found = pyasc.cost(layer, x, w)
    assert found.kernels[0][0].name == "matmul" and len(found.kernels) == 2
    assert found.time_us == pytest.approx(sum(cost.time_us for _, cost in found.kernels))
    assert "matmul" in str(found) and "total" in str(found)
    on_host = pyasc.cost(lambda v: pyasc.sort(v) + 1, x)
    assert len(on_host.host) == 1 and "on the host: sort" in str(on_host)


def test_products_of_matrices() -> None:
    a, b = array(30, 40, dtype="float16"), array(40, 50, dtype="float16")
    c = a @ b
    (kernel,) = pyasc.explain(c, backend="sim").kernels
    assert (kernel.kind, kernel.backend, kernel.ops) == ("kernel", "sim:910B1", ("matmul",))
    assert "Mmad(" in kernel.source() and "GM_ADDR a, GM_ADDR b, GM_ADDR c" in kernel.source("ascendc")
    assert kernel.cost.time_us > 0 and "L0" in str(kernel.tiling)
    (kernel,) = pyasc.explain(
        array(3, 4, dtype="float64") @ array(4, 3, dtype="float64"), backend="sim"
    ).kernels
    assert kernel.kind == "host"


def test_a_view_that_is_stored_is_multiplied_as_it_is_stored() -> None:
    x, y = pyasc.ones((5, 7), pyasc.float16), pyasc.ones((5, 7), pyasc.float16)
    with pyasc.backend("sim"):
        transposed = (x * 2).T
        stored = transposed.copy()
        for kernels, lies in (
            (pyasc.explain(transposed @ y).kernels, True),
            (pyasc.explain(stored @ y, stored).kernels, False),
        ):
            (product,) = (k.work.product.product for k in kernels if k.name == "matmul")
            assert product.transpose_a == lies
