"""The layers, with the names, defaults, initial values and shapes of torch.nn."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

from ..ops import dtypes
from ..ops.arguments import Axes, as_int, as_shape
from ..ops.errors import ArgumentError, DtypeError, IndexOutOfBounds
from ..ops.registry import find
from . import functional
from .module import Module
from .parameter import Parameter


def _uniform(shape: tuple[int, ...], bound: float, dtype: Any) -> Parameter:
    """Numbers uniform within a bound, drawn in float32."""
    values = find("uniform", "random").function(-bound, bound, shape, dtype=dtypes.float32)
    wanted = dtypes.as_dtype(dtype or dtypes.default_float, "Parameter")
    if not dtypes.is_float(wanted):
        raise DtypeError(f"[Parameter] expected a float dtype for weights, given {wanted.name}")
    return Parameter(values.astype(wanted, copy=False))


def _filled(name: str, shape: tuple[int, ...], dtype: Any) -> Parameter:
    return Parameter(find(name).function(shape, dtype=dtype or dtypes.default_float))


def _bound(fan_in: int) -> float:
    """Of torch's initial weights and biases: K. He et al. 2015 with a slope of sqrt(5)."""
    return 1 / math.sqrt(fan_in) if fan_in > 0 else 0.0


class Linear(Module):
    """``x @ weight.T + bias``.

    Parameters
    ----------
    in_features, out_features : int
    bias : bool
    dtype : dtype, optional
        Of the parameters; float32 by default.

    Attributes
    ----------
    weight : Parameter of shape (out_features, in_features)
    bias : Parameter of shape (out_features,), or None
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = True, dtype: Any = None) -> None:
        self.in_features = in_features
        self.out_features = out_features
        bound = _bound(as_int(in_features, "Linear", "in_features"))
        self.weight = _uniform((out_features, in_features), bound, dtype)
        self.bias = _uniform((out_features,), bound, dtype) if bias else None

    def forward(self, x: Any) -> Any:
        return functional.linear(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"
        )


class Conv2d(Module):
    """Filters slid over images of shape (n, channels, height, width), or of one image.

    Parameters
    ----------
    in_channels, out_channels : int
    kernel_size, stride, dilation : int or pair
    padding : int, pair, "same" or "valid"
    groups : int
        Channels are cut into so many groups that do not mix.
    bias : bool
    padding_mode : {"zeros", "reflect", "replicate", "circular"}
    dtype : dtype, optional

    Attributes
    ----------
    weight : Parameter of shape (out_channels, in_channels // groups, *kernel_size)
    bias : Parameter of shape (out_channels,), or None
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, int],
        stride: int | tuple[int, int] = 1,
        padding: int | tuple[int, int] | str = 0,
        dilation: int | tuple[int, int] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        dtype: Any = None,
    ) -> None:
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise ArgumentError(
                f"[Conv2d] expected numbers of channels that {groups} groups divide, "
                f"given {in_channels} and {out_channels}"
            )
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = functional.pair(kernel_size, "kernel_size")
        self.stride = functional.pair(stride, "stride")
        self.padding = padding if isinstance(padding, str) else functional.pair(padding, "padding")
        self.dilation = functional.pair(dilation, "dilation")
        self.groups = groups
        self.padding_mode = padding_mode
        shape = (out_channels, in_channels // groups, *self.kernel_size)
        bound = _bound(math.prod(shape[1:]))
        self.weight = _uniform(shape, bound, dtype)
        self.bias = _uniform((out_channels,), bound, dtype) if bias else None

    def forward(self, x: Any) -> Any:
        return functional.conv2d(
            x,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            self.dilation,
            self.groups,
            self.padding_mode,
        )

    def extra_repr(self) -> str:
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        )
        if self.padding != (0, 0):
            text += f", padding={self.padding}"
        if self.dilation != (1, 1):
            text += f", dilation={self.dilation}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        return text + (f", padding_mode={self.padding_mode}" if self.padding_mode != "zeros" else "")


class LayerNorm(Module):
    """The last axes brought to mean 0 and variance 1, then scaled and shifted.

    Parameters
    ----------
    normalized_shape : int or tuple of int
    eps : float
        Added to the variance.
    elementwise_affine : bool
        Whether there are weights, ones in the beginning.
    bias : bool
        Whether there are biases too, zeros in the beginning.
    dtype : dtype, optional

    Attributes
    ----------
    weight, bias : Parameter of shape normalized_shape, or None
    """

    def __init__(
        self,
        normalized_shape: int | tuple[int, ...],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        dtype: Any = None,
    ) -> None:
        shape = as_shape(normalized_shape, "LayerNorm")
        self.normalized_shape = shape
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self.weight = _filled("ones", shape, dtype) if elementwise_affine else None
        self.bias = _filled("zeros", shape, dtype) if elementwise_affine and bias else None

    def forward(self, x: Any) -> Any:
        return functional.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GELU(Module):
    """`pyasc.gelu`; `approximate` is ``"none"`` or ``"tanh"``."""

    def __init__(self, approximate: str = "none") -> None:
        self.approximate = approximate

    def forward(self, x: Any) -> Any:
        return functional.gelu(x, self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class ReLU(Module):
    """`pyasc.relu`."""

    def forward(self, x: Any) -> Any:
        return functional.relu(x)


class Softmax(Module):
    """`pyasc.softmax` over the axes `dim`, the last one by default."""

    def __init__(self, dim: Axes = -1) -> None:
        self.dim = dim

    def forward(self, x: Any) -> Any:
        return functional.softmax(x, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Embedding(Module):
    """Rows of a table by index.

    Parameters
    ----------
    num_embeddings, embedding_dim : int
        Rows and columns of the table.
    padding_idx : int, optional
        A row of zeros in the beginning; negative ones count from the end.
    dtype : dtype, optional

    Attributes
    ----------
    weight : Parameter of shape (num_embeddings, embedding_dim)
        Of the standard normal distribution in the beginning.
    """

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None, dtype: Any = None
    ) -> None:
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise IndexOutOfBounds(
                f"[Embedding] expected padding_idx inside a table of {num_embeddings} rows, "
                f"given {padding_idx}"
            )
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        values = find("standard_normal", "random").function((num_embeddings, embedding_dim))
        self.weight = Parameter(values.astype(dtype or dtypes.default_float, copy=False))
        if self.padding_idx is not None:
            self.weight[self.padding_idx] = 0.0

    def forward(self, indices: Any) -> Any:
        return functional.embedding(indices, self.weight)

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        return text if self.padding_idx is None else f"{text}, padding_idx={self.padding_idx}"


class Dropout(Module):
    """In training, elements set to 0 with probability p and the rest scaled by ``1 / (1 - p)``."""

    def __init__(self, p: float = 0.5) -> None:
        if not 0 <= p <= 1:
            raise ArgumentError(f"[Dropout] expected a probability from 0 to 1, given {p}")
        self.p = p

    def forward(self, x: Any) -> Any:
        return functional.dropout(x, self.p, self.training)

    def extra_repr(self) -> str:
        return f"p={self.p}"


class Sequential(Module):
    """Modules one after another, under the names ``"0"``, ``"1"`` … or those of an ordered dict.

    Parameters
    ----------
    *modules : Module
        Or one `OrderedDict` of names and modules.
    """

    def __init__(self, *modules: Any) -> None:
        if len(modules) == 1 and isinstance(modules[0], OrderedDict):
            for name, module in modules[0].items():
                self.register_module(name, module)
        else:
            for module in modules:
                self.append(module)

    def append(self, module: Module) -> Sequential:
        """Put a module at the end; returns the sequence."""
        if not isinstance(module, Module):
            raise DtypeError(f"[Sequential] expected modules, given {type(module).__name__}")
        # After a deletion the number of modules may be the name of one.
        names = {name for name, _ in self.named_children()}
        number = len(names)
        while str(number) in names:
            number += 1
        self.register_module(str(number), module)
        return self

    def forward(self, x: Any) -> Any:
        for module in self.children():
            x = module(x)
        return x

    def __len__(self) -> int:
        return sum(1 for _ in self.children())

    def __iter__(self) -> Iterator[Module]:
        return self.children()

    def __getitem__(self, index: int | slice) -> Module:
        named = list(self.named_children())
        if isinstance(index, slice):
            return Sequential(OrderedDict(named[index]))
        if not -len(named) <= index < len(named):
            raise IndexOutOfBounds(f"[Sequential] expected an index of {len(named)} modules, given {index}")
        return named[index][1]
