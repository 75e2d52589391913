"""Layers: modules with parameters, and their functions in `pyasc.nn.functional`."""

from . import functional
from .files import load, save
from .layers import GELU, Conv2d, Dropout, Embedding, LayerNorm, Linear, ReLU, Sequential, Softmax
from .module import Module
from .parameter import Parameter

__all__ = [
    "GELU",
    "Conv2d",
    "Dropout",
    "Embedding",
    "LayerNorm",
    "Linear",
    "Module",
    "Parameter",
    "ReLU",
    "Sequential",
    "Softmax",
    "functional",
    "load",
    "save",
]
