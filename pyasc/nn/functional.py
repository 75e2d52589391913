"""The functions behind the layers. Activation functions are operations like any other: `pyasc.gelu`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..ops import dtypes
from ..ops.activation import gelu as gelu
from ..ops.activation import log_softmax as log_softmax
from ..ops.activation import softmax as softmax
from ..ops.arguments import Shape, as_int, as_shape, as_tensor, cast, promoted
from ..ops.dtypes import is_float, is_integer, is_narrow
from ..ops.errors import ArgumentError, DtypeError, ShapeError
from ..ops.gathering import take
from ..ops.joining import pad
from ..ops.matmul import matmul
from ..ops.parts import sliding_window_view
from ..ops.registry import find
from ..ops.view import reshape_to
from ..tensor import Tensor

relu: Callable[..., Tensor] = find("relu").function
sigmoid: Callable[..., Tensor] = find("sigmoid").function
silu: Callable[..., Tensor] = find("silu").function

PADDING_MODES = {"zeros": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
# Taps of a filter up to which each channel is computed as a stencil, when channels do not mix.
MAX_TAPS = 49


def linear(x: Any, weight: Any, bias: Any = None) -> Any:
    """``x @ weight.T + bias``.

    Parameters
    ----------
    x : tensor of shape (..., in_features)
    weight : tensor of shape (out_features, in_features)
    bias : tensor of shape (out_features,), optional

    Returns
    -------
    tensor of shape (..., out_features)

    Raises
    ------
    ShapeError
        Where features do not go together.
    """
    x, weight = as_tensor(x, "linear"), as_tensor(weight, "linear")
    if weight.ndim != 2 or x.ndim < 1 or x.shape[-1] != weight.shape[1]:
        raise ShapeError(
            "[linear] expected x of shape (..., in) and weights of shape (out, in), "
            f"given {x.shape} and {weight.shape}"
        )
    front = x.shape[:-1]
    rows = x if x.ndim == 2 else reshape_to(x, (x.size // max(x.shape[-1], 1), x.shape[-1]))
    if x.ndim != 2 and 0 in x.shape:
        return find("zeros").function((*front, weight.shape[0]), dtype=dtypes.result_type(x, weight))
    made = matmul(rows, weight.T)
    if bias is not None:
        made = made + _bias(bias, weight.shape[0], "linear")
    return made if x.ndim == 2 else reshape_to(made, (*front, weight.shape[0]))


def conv2d(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: int | tuple[int, int] = 1,
    padding: int | tuple[int, int] | str = 0,
    dilation: int | tuple[int, int] = 1,
    groups: int = 1,
    padding_mode: str = "zeros",
) -> Any:
    """Slide filters over images: the cross-correlation that networks call convolution.

    Parameters
    ----------
    x : tensor of shape (n, channels, height, width), or (channels, height, width)
    weight : tensor of shape (out_channels, channels // groups, kernel height, kernel width)
    bias : tensor of shape (out_channels,), optional
    stride, dilation : int or pair
        Steps of the filters, and of a filter's elements, in pixels.
    padding : int, pair, "same" or "valid"
        Pixels added at both ends; ``"same"`` keeps the size, for a stride of 1.
    groups : int
        Channels are cut into so many groups that do not mix.
    padding_mode : {"zeros", "reflect", "replicate", "circular"}

    Returns
    -------
    tensor of shape (n, out_channels, out height, out width)

    Raises
    ------
    ShapeError
        Where channels do not go together, or the padded image is smaller than a filter.
    ArgumentError
        For a stride, dilation, padding, number of groups or padding mode that cannot be.

    Notes
    -----
    The patches of the image are a view of it; their rows times the filters are one product of matrices.
    Filters of a channel each (``groups == channels``) are computed as a stencil, in float32 for narrower
    floats.
    """
    x, weight = promoted("conv2d", x, weight)
    if x.ndim == 3:
        made = conv2d(
            reshape_to(x, (1, *x.shape)), weight, bias, stride, padding, dilation, groups, padding_mode
        )
        return reshape_to(made, made.shape[1:])
    if x.ndim != 4 or weight.ndim != 4:
        raise ShapeError(
            "[conv2d] expected images (n, channels, height, width) and filters (out, in, height, width), "
            f"given {x.shape} and {weight.shape}"
        )
    steps, spread = pair(stride, "stride"), pair(dilation, "dilation")
    if min(*steps, *spread, groups) < 1:
        raise ArgumentError(
            "[conv2d] expected stride, dilation and groups of at least 1, "
            f"given {stride}, {dilation} and {groups}"
        )
    count, channels = x.shape[:2]
    out_channels, depth, *kernel = weight.shape
    if channels != depth * groups or out_channels % groups:
        raise ShapeError(
            f"[conv2d] expected {channels} channels in {groups} groups, and as many filters in each, "
            f"given filters {weight.shape}"
        )
    x = _padded(x, padding, padding_mode, steps, spread, kernel)
    window = tuple(d * (k - 1) + 1 for d, k in zip(spread, kernel, strict=True))
    if any(n < k for n, k in zip(x.shape[2:], window, strict=True)) or 0 in kernel:
        raise ShapeError(
            f"[conv2d] expected images at least as large as a filter, given {x.shape[2:]} with its padding "
            f"and {window}"
        )
    patches = sliding_window_view(x, window, (2, 3))
    patches = patches[:, :, :: steps[0], :: steps[1], :: spread[0], :: spread[1]]
    size = patches.shape[2:4]
    if depth == 1 and out_channels == groups and kernel[0] * kernel[1] <= MAX_TAPS:
        made = _stencil(patches, weight)
    else:
        columns = patches.transpose((0, 1, 4, 5, 2, 3))
        length = depth * kernel[0] * kernel[1]
        columns = reshape_to(columns, (count, groups, length, size[0] * size[1]))
        filters = reshape_to(weight, (groups, out_channels // groups, length))
        if groups == 1:
            columns, filters = columns[:, 0], filters[0]
        made = reshape_to(matmul(filters, columns), (count, out_channels, *size))
    if bias is None:
        return made
    return made + reshape_to(_bias(bias, out_channels, "conv2d"), (out_channels, 1, 1))


def _bias(bias: Any, count: int, operation: str) -> Any:
    bias = as_tensor(bias, operation)
    if bias.shape != (count,):
        raise ShapeError(f"[{operation}] expected a bias of shape {(count,)}, given {bias.shape}")
    return bias


def _padded(x: Any, padding: Any, mode: str, steps: Shape, spread: Shape, kernel: list[int]) -> Any:
    """Images with their border."""
    if mode not in PADDING_MODES:
        raise ArgumentError(
            f"[conv2d] expected a padding_mode among {', '.join(PADDING_MODES)}, given {mode!r}"
        )
    if padding == "same":
        if steps != (1, 1):
            raise ArgumentError(f"[conv2d] expected a stride of 1 for padding 'same', given {steps}")
        borders = [d * (k - 1) for d, k in zip(spread, kernel, strict=True)]
        widths = [(n // 2, n - n // 2) for n in borders]
    else:
        widths = [(n, n) for n in pair(0 if padding == "valid" else padding, "padding")]
    if min(map(min, widths)) < 0:
        raise ArgumentError(f"[conv2d] expected a padding of at least 0, given {padding}")
    if not any(map(any, widths)):
        return x
    return pad(x, ((0, 0), (0, 0), *widths), PADDING_MODES[mode])


def _stencil(patches: Any, weight: Any) -> Any:
    """One filter for each channel, as a sum over its elements."""
    dtype = patches.dtype
    wide = dtypes.float32 if is_narrow(dtype) else dtype
    made = None
    for i in range(weight.shape[2]):
        for j in range(weight.shape[3]):
            tap = reshape_to(cast(weight[:, 0, i, j], wide), (weight.shape[0], 1, 1))
            term = cast(patches[..., i, j], wide) * tap
            made = term if made is None else made + term
    return cast(made, dtype)


def layer_norm(
    x: Any, normalized_shape: int | Shape, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    """Bring the last axes to mean 0 and variance 1, then scale and shift them.

    Parameters
    ----------
    x : tensor of shape (..., *normalized_shape)
    normalized_shape : int or tuple of int
    weight, bias : tensor of shape normalized_shape, optional
    eps : float
        Added to the variance.

    Returns
    -------
    tensor
        Of x's shape and dtype; computed in float32 where that is float16 or bfloat16.

    Raises
    ------
    ShapeError
        Where the last axes, `weight` or `bias` do not have the shape.
    DtypeError
        For an x of integers.

    Notes
    -----
    J. L. Ba, J. R. Kiros, G. E. Hinton, "Layer Normalization", 2016.
    """
    x = as_tensor(x, "layer_norm")
    shape = as_shape(normalized_shape, "layer_norm")
    if not shape or x.shape[-len(shape) :] != shape:
        raise ShapeError(f"[layer_norm] expected x whose last axes are {shape}, given shape {x.shape}")
    if not is_float(x.dtype):
        raise DtypeError(f"[layer_norm] expected a float dtype, given {x.dtype.name}")
    dtype = x.dtype
    wide = dtypes.float32 if is_narrow(dtype) else dtype
    axes = tuple(range(-len(shape), 0))
    x = cast(x, wide)
    centred = x - x.mean(axes, keepdims=True)
    variance = (centred * centred).mean(axes, keepdims=True)
    made = centred / find("sqrt").function(variance + eps)
    for operand, name in ((weight, "multiply"), (bias, "add")):
        if operand is not None:
            operand = as_tensor(operand, "layer_norm")
            if operand.shape != shape:
                raise ShapeError(
                    f"[layer_norm] expected weight and bias of shape {shape}, given {operand.shape}"
                )
            made = find(name).function(made, cast(operand, wide))
    return cast(made, dtype)


def embedding(indices: Any, weight: Any) -> Any:
    """Rows of a table by index.

    Parameters
    ----------
    indices : tensor of integers
    weight : tensor of shape (rows, features)

    Returns
    -------
    tensor of shape (*indices.shape, features)

    Raises
    ------
    DtypeError
        For indices of another dtype.
    IndexOutOfBounds
        For an index outside the table, when a value is needed.
    """
    indices = as_tensor(indices, "embedding")
    if not is_integer(indices.dtype):
        raise DtypeError(f"[embedding] expected indices of an integer dtype, given {indices.dtype.name}")
    return take(weight, indices, axis=0)


def dropout(x: Any, p: float = 0.5, training: bool = True) -> Any:
    """Set elements to 0 with probability p and scale the rest by ``1 / (1 - p)``; x itself otherwise.

    Parameters
    ----------
    x : tensor
    p : float
        From 0 to 1.
    training : bool
        False gives x.

    Returns
    -------
    tensor of x's shape

    Raises
    ------
    ArgumentError
        For a probability that is none.
    """
    if not 0 <= p <= 1:
        raise ArgumentError(f"[dropout] expected a probability from 0 to 1, given {p}")
    x = as_tensor(x, "dropout")
    if not training or p == 0:
        return x
    if p == 1:
        return find("where").function(False, x * 1.0, 0.0)
    kept = find("random", "random").function(x.shape, dtype=dtypes.float32) >= p
    return find("where").function(kept, x * (1 / (1 - p)), 0.0)


def pair(value: Any, name: str) -> tuple[int, int]:
    """Two integers from one or two, for the parameter `name` of `conv2d`."""
    if isinstance(value, tuple | list):
        if len(value) != 2:
            raise ArgumentError(f"[conv2d] expected an integer or a pair for {name}, given {value}")
        return as_int(value[0], "conv2d", name), as_int(value[1], "conv2d", name)
    return (as_int(value, "conv2d", name),) * 2
