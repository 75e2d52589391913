"""Tile-style kernels: what they say (language.py), with the handlers that compile it entered."""

from __future__ import annotations

from . import statements as tile_lowering  # noqa: F401  (enters the handlers)
from .language import alloc, auto_tiling, cast, dma_copy, elementwise, reduce
from .loops import partly_written, spread

__all__ = ["alloc", "auto_tiling", "cast", "dma_copy", "elementwise", "partly_written", "reduce", "spread"]
