"""Layers and their functions against NumPy, over dtypes and on the simulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import signal, special

import pyasc
from pyasc import nn

RNG = np.random.default_rng(5)
TOLERANCE = {"float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}


def draw(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def close(given: Any, expected: Any, tolerance: float = 2e-5) -> None:
    given = np.array(given, np.float64)
    assert given.shape == expected.shape
    np.testing.assert_allclose(given, expected, rtol=tolerance, atol=tolerance)


def convolved(x: Any, w: Any, stride: Any, padding: Any, dilation: Any, groups: int, mode: str) -> Any:
    """By SciPy's correlation of one channel with one filter at a time."""
    x, w = x.astype(float), w.astype(float)
    widths = ((0, 0), (0, 0), (padding[0],) * 2, (padding[1],) * 2)
    x = np.pad(x, widths, mode)  # type: ignore[call-overload]
    spread = np.zeros((*w.shape[:2], *((k - 1) * d + 1 for k, d in zip(w.shape[2:], dilation, strict=True))))
    spread[:, :, :: dilation[0], :: dilation[1]] = w
    out, depth = w.shape[:2]
    planes = [
        [
            sum(
                signal.correlate2d(image[o // (out // groups) * depth + c], spread[o, c], "valid")
                for c in range(depth)
            )
            for o in range(out)
        ]
        for image in x
    ]
    return np.array(planes)[:, :, :: stride[0], :: stride[1]]


@pytest.mark.parametrize(
    ("channels", "out", "kernel", "options"),
    [
        (3, 4, (3, 3), {}),
        (3, 4, (1, 1), {}),
        (4, 6, (3, 2), {"stride": (2, 1), "padding": (1, 2)}),
        (4, 6, (3, 3), {"groups": 2, "dilation": (2, 1)}),
        (4, 4, (3, 3), {"groups": 4, "padding": (1, 1), "stride": (2, 2)}),
        (4, 8, (2, 2), {"groups": 4}),
        (2, 3, (3, 3), {"padding": (1, 1), "padding_mode": "replicate"}),
        (2, 3, (3, 3), {"padding": (2, 1), "padding_mode": "circular", "dilation": (2, 2)}),
    ],
)
def test_conv2d(channels: int, out: int, kernel: Any, options: dict[str, Any]) -> None:
    layer = nn.Conv2d(channels, out, kernel, **options)
    x = draw(2, channels, 9, 8)
    groups = options.get("groups", 1)
    assert layer.weight.shape == (out, channels // groups, *kernel)
    pair = (1, 1)
    mode = {"replicate": "edge", "circular": "wrap"}.get(options.get("padding_mode", ""), "constant")
    expected = convolved(
        x,
        np.array(layer.weight),
        options.get("stride", pair),
        options.get("padding", (0, 0)),
        options.get("dilation", pair),
        groups,
        mode,
    )
    expected = expected + np.array(layer.bias)[:, None, None]
    close(layer(pyasc.asarray(x)), expected)
    close(layer(pyasc.asarray(x[0])), expected[0])


def test_conv2d_same() -> None:
    x, w = draw(1, 2, 6, 7), draw(3, 2, 4, 3)
    given = nn.functional.conv2d(pyasc.asarray(x), pyasc.asarray(w), padding="same")
    whole = convolved(np.pad(x, ((0, 0), (0, 0), (1, 2), (1, 1))), w, (1, 1), (0, 0), (1, 1), 1, "constant")
    close(given, whole)


@pytest.mark.parametrize("groups", [1, 8])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_conv2d_of_narrow_floats(dtype: str, groups: int) -> None:
    layer = nn.Conv2d(8, 8, 3, groups=groups, bias=False, dtype=dtype)
    x = pyasc.asarray(draw(1, 8, 6, 6)).astype(dtype)
    w = np.array(layer.weight, np.float32)
    made = layer(x)
    assert made.dtype == dtype
    expected = convolved(np.array(x, "f4"), w, (1, 1), (0, 0), (1, 1), groups, "constant")
    close(made, expected, TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("front", [(), (5,), (2, 3)])
def test_linear(front: tuple[int, ...], dtype: str) -> None:
    layer = nn.Linear(7, 4, dtype=dtype)
    x = pyasc.asarray(draw(*front, 7)).astype(dtype)
    w, b = np.array(layer.weight, float), np.array(layer.bias, float)
    made = layer(x)
    assert made.dtype == dtype
    close(made, np.array(x, float) @ w.T + b, TOLERANCE[dtype])


def test_linear_of_nothing() -> None:
    assert nn.Linear(3, 2)(pyasc.ones((0, 4, 3))).shape == (0, 4, 2)


@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("shape", [(6,), (3, 4)])
def test_layer_norm(shape: tuple[int, ...], dtype: str) -> None:
    layer = nn.LayerNorm(shape, dtype=dtype)
    layer.weight[...] = draw(*shape)
    layer.bias[...] = draw(*shape)
    x = pyasc.asarray(draw(2, *shape) * 3 + 1).astype(dtype)
    v = np.array(x, float)
    axes = tuple(range(1, v.ndim))
    v = (v - v.mean(axes, keepdims=True)) / np.sqrt(v.var(axes, keepdims=True) + 1e-5)
    made = layer(x)
    assert made.dtype == dtype
    close(made, v * np.array(layer.weight, float) + np.array(layer.bias, float), TOLERANCE[dtype])


def test_layer_norm_without_parameters() -> None:
    assert list(nn.LayerNorm(3, elementwise_affine=False).parameters()) == []
    assert [n for n, _ in nn.LayerNorm(3, bias=False).named_parameters()] == ["weight"]
    x = draw(4, 3)
    close(nn.functional.layer_norm(pyasc.asarray(x), 3).mean(-1), np.zeros(4))


def test_activations() -> None:
    x = draw(3, 5)
    t = pyasc.asarray(x)
    close(nn.GELU()(t), x * special.ndtr(x))
    close(nn.ReLU()(t), np.maximum(x, 0))
    close(nn.Softmax()(t), special.softmax(x, -1))
    close(nn.Softmax(dim=0)(t), special.softmax(x, 0))
    tanh = np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))
    close(nn.GELU(approximate="tanh")(t), 0.5 * x * (1 + tanh))


def test_embedding() -> None:
    layer = nn.Embedding(6, 3, padding_idx=-1)
    table = np.array(layer.weight)
    assert not table[5].any() and table[:5].all()
    index = np.array([[0, 5], [2, 2]])
    np.testing.assert_array_equal(layer(index), table[index])
    with pytest.raises(IndexError):
        layer(pyasc.asarray([6])).numpy()


def test_dropout() -> None:
    layer = nn.Dropout(0.25)
    x = pyasc.full((200, 200), 3.0)
    values = np.array(layer(x))
    assert set(np.unique(values)) == {0.0, 4.0}
    assert abs((values == 0).mean() - 0.25) < 0.02
    assert layer.eval()(x) is x
    assert not np.array(nn.functional.dropout(x, 1.0)).any()


def test_initial_values() -> None:
    pyasc.random.seed(3)
    linear = nn.Linear(100, 50)
    for values in (np.array(linear.weight), np.array(linear.bias)):
        assert np.abs(values).max() <= 0.1 and np.abs(values).max() > 0.08 and abs(values.mean()) < 0.02
    bound = 1 / np.sqrt(4 * 9)
    values = np.array(nn.Conv2d(8, 6, 3, groups=2).weight)
    assert values.shape == (6, 4, 3, 3) and 0.8 * bound < np.abs(values).max() <= bound
    assert abs(np.array(nn.Embedding(100, 50).weight).std() - 1) < 0.05


def test_layers_on_the_simulator() -> None:
    net = nn.Sequential(nn.Linear(16, 32), nn.LayerNorm(32), nn.GELU())
    x = pyasc.asarray(draw(8, 16))
    expected = np.array(net(x))
    with pyasc.backend("sim"):
        close(net(x), expected)
